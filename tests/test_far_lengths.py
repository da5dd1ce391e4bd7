"""Lengths far from the box's: right sums, or refused at once and by name."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from flat import options

import parki
from parki.ewald.sums import in_unit
from parki.reference import direct_sum

RNG = np.random.default_rng(0)
POINTS, FORCES = RNG.random((3, 17)), RNG.standard_normal((3, 17))
CUBE = {"box": [1, 1, 1], "tolerance": 1e-4}


@pytest.mark.each
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "given",
    [{"cutoff": x} for x in (3e9, 1e-10, 1e300)]
    + [{"sources_per_cell": x} for x in (1e40, 1e-300)],
    ids=str,
)
def test_cutoffs_that_cannot_be(periodicity, given):
    """Cells were counted beyond 32 bits, and left sources out; small ones took all memory."""
    with pytest.raises(parki.ParkiValueError, match=next(iter(given))) as caught:
        parki.stokes_sl(POINTS, POINTS, FORCES, options(periodicity, **CUBE, **given))
    assert "expected a cut-off from" in str(caught.value)


def test_images_that_cannot_be():
    with pytest.raises(parki.ParkiValueError, match=r"cutoff is 300, beyond all use in a box"):
        parki.stokes_sl(POINTS, POINTS, FORCES, periodicity=3, **CUBE, cutoff=300)


@pytest.mark.each
@pytest.mark.parametrize("given", [{"sources_per_cell": 1e-3}, {"cutoff": 0.03}])
@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_short_cutoffs_in_single_precision(precision, given):
    """Gradients of rotlets were wrong by 11 promises: the far field of a source rounds them."""
    points, forces = POINTS, FORCES
    if precision == "float32":
        points, forces = points.astype(np.float32), forces.astype(np.float32)
    asked = options(1, **CUBE, **given)
    if precision == "mixed":
        asked = dataclasses.replace(asked, precision="mixed")
    flow = parki.stokes_rotlet(points, points, forces, asked)
    assert np.isfinite(flow).all()
    with pytest.raises(parki.ParkiValueError, match=r"single precision would lose .* gradients"):
        parki.stokes_rotlet(points, points, forces, asked, want="grad_u")


def test_large_cutoffs_are_right():
    """Up to the largest one that is taken."""
    exact = direct_sum("laplace", POINTS, POINTS, FORCES[0], box=[1, 1, 1], periodicity=0)
    found = parki.laplace(POINTS, POINTS, FORCES[0], periodicity=0, **CUBE, cutoff=1000)
    assert np.abs(found - exact).max() < 1e-4 * np.linalg.norm(FORCES[0])


def test_a_cutoff_whose_grid_does_not_fit():
    """Is refused at once: the modes of an axis are not listed to judge it."""
    with pytest.raises(parki.ParkiMemoryError, match="What would fit: cutoff="):
        parki.stokes_sl(POINTS, POINTS, FORCES, periodicity=3, **CUBE, cutoff=2e-8)


VALUE, TYPE = parki.ParkiValueError, parki.ParkiTypeError


@pytest.mark.parametrize(
    ("name", "length", "kind", "message"),
    [
        *(("yukawa", x, VALUE, "kappa is .*; expected a positive, finite") for x in (0, -1.0)),
        *(("yukawa", x, VALUE, "kappa is (inf|nan); expected") for x in (10**400, np.nan)),
        ("yukawa", 1e300, VALUE, r"kappa times .* is 1e\+300; expected at most"),
        ("yukawa", 1e-300, VALUE, "kappa times .* expected at least 1e-15"),
        *(("yukawa", x, TYPE, "kappa is .*; expected a positive number") for x in ("2", True, [1])),
        *(
            ("stokes_sl", x, VALUE, "epsilon is .*, .* expected 1e-30 to 1")
            for x in (1e-300, 1e300)
        ),
        *(("stokes_sl", x, VALUE, "epsilon is .*; expected the width") for x in (-0.1, np.nan)),
        ("stokes_sl", 10**400, VALUE, "epsilon is inf; expected the width"),
        ("stokes_sl", "0.1", TYPE, "epsilon is .*; expected a number"),
        ("stokes_sl", [1, 2], VALUE, "epsilon is an array, which stokes_sl does not take"),
    ],
)
def test_lengths_of_sums_that_cannot_be(name, length, kind, message):
    length = {"kappa" if name == "yukawa" else "epsilon": length}
    dens = FORCES[0] if name == "yukawa" else FORCES
    with pytest.raises(kind, match=message):
        getattr(parki, name)(POINTS, POINTS, dens, periodicity=0, **CUBE, **length)


def test_blobs_that_there_are_not():
    with pytest.raises(VALUE, match="blob is 'ball'; expected one of"):
        parki.kernel("stokes_sl", epsilon=0.1, blob="ball")
    with pytest.raises(TYPE, match="stokes_sl takes epsilon, blob; it has no 'eps'"):
        parki.kernel("stokes_sl", eps=0.1)


@pytest.mark.parametrize("radius", [5e-324, 1e300])
def test_radii_that_cannot_be(radius):
    with pytest.raises(parki.ParkiValueError, match="radius is"):
        in_unit(f"sphere_sl(radius={radius}, source_radius=0.0)", 1.0)


@pytest.mark.each
@pytest.mark.parametrize("kappa", [1e4, 3e8, 1e14])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_strong_screening(kappa, dtype):
    """Takes no time, and pairs within the short reach are as exact as rounding lets them be.

    Near polynomials were chosen for clouds without such pairs. The least cut-off that was
    considered was beyond the reach, whose long series took minutes.
    """
    points, charges = POINTS.astype(dtype), FORCES[0].astype(dtype)
    points[0] = 0  # where distances have all their digits
    targets = points.copy()
    targets[0] = 1 / (3 * kappa)
    found = parki.yukawa(targets, points, charges, kappa=kappa, periodicity=0, **CUBE)
    near = targets[0].astype("f8")
    expected = charges * np.exp(-kappa * near) / near
    bound = 1e-4 * np.linalg.norm(charges) + 64 * np.finfo(dtype).eps * np.abs(expected).max()
    assert np.sqrt(np.mean((found - expected) ** 2)) <= bound


@pytest.mark.parametrize(
    ("name", "epsilon"), [("stokes_sl", 1e-20), ("stokes_sl", 1e-9), ("stokes_dipole", 1e-9)]
)
def test_small_blobs_in_single_precision(name, epsilon):
    """Are right, or refused: inverse powers overflowed, and made NaN of the gradient."""
    points = POINTS.astype("f4")
    dens = FORCES.astype("f4") if name == "stokes_sl" else RNG.random((3, 3, 17)).astype("f4")
    asked = {"epsilon": epsilon, "periodicity": 0, "want": ("grad_u",), **CUBE}
    if epsilon < 1e-15 or name == "stokes_dipole":
        with pytest.raises(parki.ParkiValueError, match=r"epsilon is .*; take float64"):
            getattr(parki, name)(points, points, dens, **asked)
    else:
        assert np.isfinite(getattr(parki, name)(points, points, dens, **asked)[0]).all()


def test_blobs_far_larger_than_the_box():
    """All forces drive the same flow everywhere."""
    how = {"epsilon": 9e5, "periodicity": 0, **CUBE}
    found = parki.stokes_sl(POINTS, POINTS, FORCES, **how)
    flow = 4 / np.sqrt(np.pi) / 9e5 * FORCES.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, np.broadcast_to(flow, found.shape), rtol=0.01)
