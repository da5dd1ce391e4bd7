"""The table of `docs/boundary_integrals.md` is what its script computes.

The page's program has its other numbers: `tests/test_readme.py` runs it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script():
    path = ROOT / "scripts" / "pictures.py"
    spec = importlib.util.spec_from_file_location("pictures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.EXACT = 80  # enough for the fewest nodes
    return module


def test_table_is_what_the_script_computes(script):
    page = (ROOT / "docs" / "boundary_integrals.md").read_text(encoding="utf-8")
    found = script.rows(orders=(8,))
    assert len(found) == 3
    assert [row for row in found if row not in page] == []
    table = script.MARK.search(page)[0]
    assert sum(line.startswith("| ") for line in table.splitlines()) == 2 + 3 * len(script.ORDERS)


def test_exact_values_are_exact(script, monkeypatch):
    """A constant double layer has no flow outside; a single layer's traction carries its force."""
    nodes, weights = script.sphere(8)
    monkeypatch.setattr(script, "density", np.ones_like)
    double = script.values("velocity of a double layer", 1.15 * nodes, nodes, 80)
    assert np.abs(double).max() < 1e-5
    traction = script.values("traction of a single layer", 1.15 * nodes, nodes, 80)
    np.testing.assert_allclose(1.15**2 * traction @ weights, -4 * np.pi * np.ones(3), rtol=1e-5)
