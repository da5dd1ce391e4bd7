"""Sums of degenerate clouds, such as of points that coincide, and what is exact to the last bit.

Points in other periods give the same bits, and so do lengths in units that are powers of two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contract import rms
from faces.base import Face
from few import FEW

from parki.ewald.sums import SUMS, in_unit

PLAN = Face()


def _same(rng, shape):
    return np.repeat(rng.random((3, 1)), shape[1], axis=1)


def _collinear(rng, shape):
    return np.where(np.arange(3)[:, None] < 2, 0.25, rng.random(shape))


def _coplanar(rng, shape):
    return np.where(np.arange(3)[:, None] < 1, rng.choice([0, 4095 / 4096]), rng.random(shape))


def _close(rng, shape):
    return 0.5 + rng.integers(0, 3, shape) / 4096


def _corners(rng, shape):
    return rng.choice([0, 0.25, 0.5], shape)


# On faces of cells and of the box, and one rounding to either side.
def _faces(rng, shape):
    places = rng.choice([0.0, 0.25, 0.5, 1.0], shape)
    return np.clip(np.nextafter(places, rng.choice([-1.0, 0.5, 2.0], shape)), 0, 1)


# Next to the origin: zeros, denormal numbers, and the smallest normal ones.
def _tiny(rng, shape):
    return rng.choice([0.0, 5e-324, 1e-310, 3e-308, 1e-45, 1e-38, 1e-30], shape)


CLOUDS = {each.__name__[1:]: each for each in (_same, _collinear, _coplanar, _close, _corners)}
CLOUDS |= {"faces": _faces, "tiny": _tiny}


def sum_of(kernel, periodicity, cloud, count, dtype):
    """Return the arguments of a sum: points with few digits but on faces and next to the origin."""
    given, rng = PLAN.given(kernel, periodicity, cutoff=None), np.random.default_rng(periodicity)
    places = CLOUDS[cloud](rng, (3, count))
    if cloud not in ("faces", "tiny"):
        places = np.floor(4096 * places) / 4096
    box = np.array([1.5, 1.0, 0.5])
    src = np.minimum(box[:, None] * places, box[:, None]).astype(dtype)
    norms = None if given.norms is None else given.norms[:, :count].astype(dtype)
    own = given._replace(src=src, trg=src, dens=given.dens[..., :count].astype(dtype), norms=norms)
    return own.by(box=box.tolist(), tolerance=1e-3 if dtype == "f4" else 1e-6)


@pytest.mark.each
@pytest.mark.filterwarnings("ignore::parki.ImageWarning")
@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("count", [1, 2, 7, 60])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
@pytest.mark.parametrize("kernel", FEW)
def test_degenerate_clouds(kernel, periodicity, dtype, count, cloud):
    given = sum_of(kernel, periodicity, cloud, count, dtype)
    found = PLAN.apply(PLAN.make(given), given.dens)
    assert found.dtype == dtype and np.isfinite(found).all()
    # Squares of the least distances are zero, and such points coincide.
    src = np.where(np.abs(given.src) < np.finfo(dtype).tiny ** 0.5, 0, given.src).astype("f8")
    exact = PLAN.exact(given._replace(src=src, trg=src, dens=given.dens.astype("f8")))
    # Errors of few points scatter about the promise, and sums of close ones round.
    rounding = 256 * np.finfo(dtype).eps * (rms(exact) + np.abs(given.dens).sum())
    assert rms(found - exact) <= 4 * PLAN.bound(given) + rounding
    for power in (-20, 40):
        factor = given.dens.dtype.type(2.0**power)
        np.testing.assert_array_equal(
            PLAN.apply(PLAN.make(given), given.dens * factor), found * factor
        )
    if cloud in ("faces", "tiny"):
        return
    rng, periods = (
        np.random.default_rng(1),
        np.where(np.arange(3) < periodicity, given.options.box, 0),
    )
    moved = [
        (src + rng.integers(-3, 4, src.shape) * periods[:, None]).astype(dtype) for _ in range(2)
    ]
    other = given._replace(trg=moved[0], src=moved[1])
    same = PLAN.apply(PLAN.make(given._replace(trg=given.src.copy())), given.dens)
    np.testing.assert_array_equal(PLAN.apply(PLAN.make(other), given.dens), same)


@pytest.mark.each
@pytest.mark.parametrize("power", [-200, -7, 60, 250])
@pytest.mark.parametrize("periodicity", [0, 2, 3])
@pytest.mark.parametrize("kernel", FEW)
def test_units_that_are_powers_of_two(kernel, periodicity, power):
    """Give the same digits; along one axis sums hang on the logarithm of the unit."""
    given, kind, scale = sum_of(kernel, periodicity, "close", 60, "f8"), SUMS[kernel], 2.0**power
    src, norms = scale * given.src, None if given.norms is None else scale * given.norms
    dens = given.dens if kind.lengths is None else given.dens * scale**kind.lengths
    box = [scale * edge for edge in given.options.box]
    other = given._replace(
        kernel=in_unit(kernel, 1 / scale),
        src=src, trg=src, norms=norms, dens=dens,
        options=replace(given.options, box=box),
    )  # fmt: skip
    one, two = (PLAN.apply(PLAN.make(each), each.dens) for each in (given, other))
    np.testing.assert_array_equal(two, one / scale**kind.pair.power)
