"""`parki.hard_spheres`: spheres at random that do not overlap, against all pairs of images."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import parki

MIXED = np.repeat([1.0, 0.5, 0.3], [20, 40, 60])
TILTED = parki.lattice(8.0, 7.0, 7.5, xy=3.0, xz=-2.0, yz=1.0)
CASES = {
    "dense": (np.ones(64), 3, (4 / 3 * np.pi * 64 / 0.45) ** (1 / 3) * np.eye(3)),
    "tilted": (MIXED, 3, TILTED),
    "slab": (MIXED, 2, np.diag([8.0, 7.0, 6.0])),
    "along y": (MIXED, (False, True, False), np.diag([6.0, 9.0, 6.0])),
    "cluster": (MIXED, 0, np.diag([8.0, 7.0, 6.0])),
}


def gaps(points, radii, box, periodic):
    """Return the gap of each pair and each image next to the box, infinite to a sphere itself."""
    shifts = [(-1, 0, 1) if repeats else (0,) for repeats in periodic]
    closest = np.inf
    for shift in itertools.product(*shifts):
        apart = points[:, :, None] - points[:, None] + (np.array(shift) @ box)[:, None, None]
        gap = np.linalg.norm(apart, axis=0) - radii[:, None] - radii
        if not any(shift):
            np.fill_diagonal(gap, np.inf)
        closest = min(closest, gap.min())
    return closest


@pytest.mark.parametrize("gap", [0.0, 0.1])
@pytest.mark.parametrize("case", CASES)
def test_no_two_spheres_overlap(case, gap):
    radii, periodicity, box = CASES[case]
    given = {"periodicity": periodicity, "box": box.tolist(), "gap": gap}
    points = parki.hard_spheres(radii, rng=0, **given)
    options = parki.EwaldOptions(periodicity, box.tolist())
    assert -1e-12 <= gaps(points, radii, box, options.periodic) - gap < 0.05
    fractions = np.linalg.solve(box.T, points)
    assert (fractions > -1e-12).all() and (fractions < 1 + 1e-12).all()
    for axis in np.flatnonzero(~np.array(options.periodic)):
        assert (points[axis] >= radii).all() and (points[axis] + radii <= box[axis, axis]).all()
    np.testing.assert_array_equal(points, parki.hard_spheres(radii, rng=0, **given))
    other = parki.hard_spheres(radii, rng=np.random.default_rng(1), **given)
    assert abs(other - points).max() > 1


def test_centres_are_spread_over_the_box():
    """As many in each eighth, within four deviations of numbers at random; and none are none."""
    points = parki.hard_spheres(np.full(800, 0.2), periodicity=3, box=[8, 8, 8], rng=0)
    counts = np.bincount((points > 4).T @ [1, 2, 4], minlength=8)
    assert abs(counts - 100).max() < 40
    assert parki.hard_spheres([], periodicity=0, box=[1, 1, 1]).shape == (3, 0)
    above = parki.hard_spheres(MIXED, periodicity=2, box=[8, 7, 6], wall="no-slip", rng=0)
    spheres = parki.Spheres(above, MIXED, periodicity=2, box=[8, 7, 6], wall="no-slip")
    assert spheres.points.shape == (3, 120)


@pytest.mark.parametrize(
    ("words", "radii", "more"),
    [
        (r"radii has shape \(\); expected shape \(N,\)", 0.1, {}),
        (r"radii has 0; expected shape \(N,\), a positive", [0.1, 0.0], {}),
        ("radii has negative", [-0.1], {}),
        ("gap is -1; expected a length", [0.1], {"gap": -1}),
        ("spheres are placed in a box with a length along each", [0.1], {"box": [1, 1, None]}),
        ("radii has 0.6, whose sphere does not fit into", [0.6], {}),
        ("radii has 0.6, whose sphere meets its own image", [0.6], {"periodicity": 3}),
        (
            "40 spheres, which take 0.67 of the box, still overlap",
            [0.1587] * 40,
            {"periodicity": 3},
        ),
    ],
)
def test_what_is_refused(words, radii, more):
    with pytest.raises(parki.ParkiValueError, match=words):
        parki.hard_spheres(radii, rng=0, **{"periodicity": 2, "box": [1, 1, 1], **more})


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["tilted", "slab"])
def test_on_a_device(case):
    cupy = pytest.importorskip("cupy")
    radii, periodicity, box = CASES[case]
    given = {"periodicity": periodicity, "box": box.tolist(), "execution_space": "GPU"}
    points = parki.hard_spheres(radii, rng=0, **given)
    assert isinstance(points, cupy.ndarray)
    periodic = parki.EwaldOptions(periodicity, box.tolist()).periodic
    assert -1e-12 <= gaps(points.get(), radii, box, periodic) < 0.05
