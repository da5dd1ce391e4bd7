"""Close pairs keep their digits wherever they are: positions are exact as they were given."""

from __future__ import annotations

import numpy as np
import pytest
from contract import rms

import parki
from parki.ewald.options.variants import P2P_METHODS
from parki.interchange import to_host
from parki.reference import direct_sum

N = 16
APART = 3e-6
# Boxes, None where the points' extent is taken; the edges are exact in single precision.
BOXES = ((None, None, None), (1.5, None, None), (1.0, 1.0, None), (1.0, 0.75, 1.0))
FIELDS = ("u", "grad_u")
# The variants of the literature stage positions as the tiles do: see below.
VARIANTS = (("auto", ("u",)), ("auto", FIELDS), ("tile", FIELDS))


def pairs(place, box):
    """Return targets close to sources, and the sources.

    Around 0, where positions have the most digits; far from it along free axes; or across the
    middle of the box, where periodic axes are cut, or its faces.
    """
    rng = np.random.default_rng(0)
    apart = (APART * rng.standard_normal((3, N))).astype("f4")
    src = (0.02 * (rng.random((3, N)) - 0.5)).astype("f4")
    edges = np.array([[length or 0.0] for length in box], dtype="f4")
    if place == "middle":
        src += edges / 2
    trg = src + apart
    if place == "faces":  # both in [0, edge)
        trg, src = (np.where((x < 0) & (edges > 0), x + edges, x) for x in (trg, src))
    # Other points, so that the extent is much larger than the pairs' distances.
    src[:, :4] = np.array([[-0.4], [0.1], [0.3]]) * (1 + np.arange(4))
    if place == "far":
        for x in (trg, src):
            x[edges[:, 0] == 0] -= np.float32(300)
    return trg, src


@pytest.mark.each
@pytest.mark.parametrize("place", ["zero", "middle", "faces", "far"])
@pytest.mark.parametrize("periodicity", range(4))
@pytest.mark.parametrize("kernel", ["stokes_sl", "stokes_dl"])
def test_close_pairs_in_single_precision(kernel, periodicity, place, space):
    given = BOXES[periodicity]
    trg, src = pairs(place, given)
    rng = np.random.default_rng(1)
    dens, norms = (rng.standard_normal((3, N)).astype("f4") for _ in range(2))
    norms = norms if kernel == "stokes_dl" else None
    array = parki.utils.get_array_module(str(space)).asarray
    on_space = [a if a is None else array(a) for a in (trg, src, norms, dens)]
    expected = None
    for method, want in VARIANTS[: 2 if norms is not None else None]:
        options = parki.EwaldOptions(
            periodicity, given, 1e-3, expert=parki.Expert(p2p_method=method)
        )
        plan = parki.Plan(kernel, *on_space[:3], options, want=want)
        if expected is None:
            exact = [a if a is None else a.astype("f8") for a in (trg, src, dens, norms)]
            box = {"box": plan.box, "periodicity": periodicity}
            expected = direct_sum(kernel, *exact, **box, want=FIELDS)
        for found, field in zip(plan(on_space[3]), expected, strict=False):
            found = to_host(found)
            # Points moved into the box first: 4e-3 to 0.9.
            assert rms(found - field) < 1e-6 * rms(field), (method, want)


@pytest.mark.each
@pytest.mark.parametrize("periodicity", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["laplace", "stokes_comb"])
def test_the_period_in_single_precision(kernel, periodicity):
    """It is what single precision holds of the edge: so the sum is that of another box."""
    rng, box = np.random.default_rng(3), np.array([0.7, 1 / 3, 1.4])
    points = rng.random((3, 200)) * box[:, None]
    points[:, :60] = box[:, None] / 2 + 1e-3 * (rng.random((3, 60)) - 0.5)
    points[:periodicity, :60] -= box[:periodicity, None] / 2
    points[:periodicity] %= box[:periodicity, None]  # across the faces, both sides in [0, edge)
    points = points.astype("f4")
    dens = rng.standard_normal((1 if kernel == "laplace" else 6, 200)).astype("f4")
    norms = None if kernel == "laplace" else rng.standard_normal((3, 200)).astype("f4")
    dens = dens[0] if kernel == "laplace" else dens

    def total(dtype, tolerance, box):
        arrays = [a if a is None else a.astype(dtype) for a in (points, points, norms)]
        options = parki.EwaldOptions(periodicity, box, tolerance)
        return parki.Plan(kernel, *arrays, options)(dens.astype(dtype))

    single, exact = total("f4", 1e-4, box), total("f8", 1e-10, box.astype("f4").astype("f8"))
    assert rms(single - exact) <= 64 * 2.0**-24 * rms(exact)


# Gap along x of a pair and box, None where the points' extent is taken: what is free and long says
# nothing about close pairs.
LONG_BOXES = {
    0: (5e-6, (1e9, 1e9, 1e9)),
    1: (5e-11, (1.0, 1e4, 1.0)),
    2: (5e-11, (1.0, 1.0, 1e4)),
    "far target": (5e-6, (None, None, None)),
}


@pytest.mark.each
@pytest.mark.parametrize("method", ["tile", "staged"])
@pytest.mark.parametrize("case", LONG_BOXES)
@pytest.mark.parametrize("kernel", ["laplace", "stokes_sl"])
def test_close_pairs_in_long_boxes(kernel, case, method):
    gap, given = LONG_BOXES[case]
    periodicity = 0 if case == "far target" else case
    src = np.full((3, 1), 0.3)
    trg = np.full((3, 2), 0.3)
    trg[0, 0] += gap
    if case == "far target":
        trg[2, 1] = 1e9
    dens = np.ones(1) if kernel == "laplace" else np.ones((3, 1))
    options = parki.EwaldOptions(periodicity, given, 1e-4, expert=parki.Expert(p2p_method=method))
    got = parki.Plan(kernel, trg, src, options=options, want=FIELDS)(dens)
    box = [length or 1e9 for length in given]
    expected = direct_sum(kernel, trg, src, dens, box=box, periodicity=periodicity, want=FIELDS)
    first = np.ravel(expected[0])[0] * (trg[0, 0] - src[0, 0])
    assert first == pytest.approx(1 if kernel == "laplace" else 2, rel=1e-8)
    for one, two in zip(got, expected, strict=True):
        np.testing.assert_allclose(one[..., 0], two[..., 0], rtol=1e-4, atol=1e-4 * rms(two))


@pytest.mark.parametrize(
    ("periodicity", "method"), [(1, "auto"), (2, "auto"), *((3, each) for each in P2P_METHODS[1:])]
)
def test_sources_moved_by_a_period_coincide(periodicity, method):
    """Though the moved coordinates are rounded."""
    rng = np.random.default_rng(0)
    box = np.array([1.1, 0.7, 1.3])
    src = rng.random((3, N)) * box[:, None]
    dens = rng.standard_normal(N)
    turns = rng.integers(-2, 3, (3, N)) * (np.arange(3) < periodicity)[:, None]
    trg = src + turns * box[:, None]
    options = parki.EwaldOptions(periodicity, box, 1e-4, expert=parki.Expert(p2p_method=method))
    unmoved = direct_sum("laplace", src, src, dens, box=box, periodicity=periodicity)
    expected = direct_sum("laplace", trg, src, dens, box=box, periodicity=periodicity)
    assert rms(expected - unmoved) < 1e-12 * rms(unmoved)
    assert rms(parki.laplace(trg, src, dens, options) - unmoved) < 1e-3 * rms(unmoved)


@pytest.mark.each
@pytest.mark.parametrize(
    ("method", "dtype"),
    [*((each, np.float64) for each in P2P_METHODS[1:]), ("tile", np.float32), ("auto", np.float32)],
)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("side", [0, 1])
def test_close_pair_across_the_border(method, dtype, axis, side):
    """Its distance keeps the relative accuracy of the coordinates near zero."""
    eps = float(np.finfo(dtype).eps)
    # Points closer than 1e-14 of the box count as one.
    ulps = 256 if dtype is np.float64 else 1
    near = dtype(0.123456789 * ulps * eps)  # its last bits are lost beside 1, and kept beside 0
    far = dtype(1 - ulps * eps / 2)
    src = np.full((3, 3), 0.5, dtype=dtype)
    trg = np.full((3, 1), 0.25, dtype=dtype)
    src[:, 0] = trg[:, 0] = 0.25
    trg[axis], src[axis, 0] = (near, far) if side else (far, near)
    src[:, 2] = 0.75
    dens = np.array([1, -0.5, -0.5], dtype=dtype)
    options = parki.EwaldOptions(
        3, [1, 1, 1], 1e-4, cutoff=0.4, expert=parki.Expert(p2p_method=method)
    )
    pot = parki.laplace(trg, src, dens, options)
    distance = float(near) + ulps * eps / 2
    # The rest of the sum is of order one; what is lost beside 1 is eps / 2.
    assert abs(float(pot[0]) * distance - 1) < max(8 * eps, 20 * distance)
