"""Parts without points, which devices have at the end of their lists, change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import parki
from parki import EwaldOptions
from parki.cell_list import runs
from parki.ewald.near.sizes import P2P_METHODS

MODULES = ("near.p2p", "far.mesh", "far.p2g", "far.p2g_paper")
VARIANTS = [(p2p, "owner", "target", "u") for p2p in P2P_METHODS]
VARIANTS += [("auto", "tile", "tile", ("u", "p", "grad_u")), ("auto", "hybrid", "base", "u")]


def with_empty_parts(*arguments, **keywords):
    """Return parts as they are, and seven empty ones behind them."""
    parts = runs(*arguments, **keywords)
    return np.concatenate([parts, np.zeros((3, 7), dtype=np.int32)], axis=1)


@pytest.mark.each
@pytest.mark.parametrize("team", ["1", "4"])
@pytest.mark.parametrize(("p2p", "p2g", "g2p", "want"), VARIANTS)
def test_empty_parts(p2p, p2g, g2p, want, team, monkeypatch):
    rng = np.random.default_rng(7)
    points, dens = rng.random((3, 300)), rng.standard_normal((3, 300))
    methods = {"p2p_method": p2p, "p2g_method": p2g, "g2p_method": g2p}
    options = EwaldOptions(1, [1, 1, 1], 1e-4, **methods)
    expected = parki.Plan("stokes_sl", points, points, options, want=want)(dens)
    monkeypatch.setenv("PARKI_EMULATED_TEAM", team)
    for module in MODULES:
        monkeypatch.setattr(f"parki.ewald.{module}.runs", with_empty_parts)
    plan = parki.Plan("stokes_sl", points, points, options, want=want)
    for _ in range(3):  # the second one keeps lists of pairs, and the third one takes them
        found = plan(dens)
        for each, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(each, other, rtol=1e-11, atol=1e-11 * abs(other).max())
