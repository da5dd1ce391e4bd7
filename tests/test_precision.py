"""Mixed precision: float64 arrays, single precision where nothing hangs on close positions."""

from __future__ import annotations

import flat
import numpy as np
import pytest
from contract import assert_promised, rms
from few import FEW

import parki
from parki import EwaldOptions, ParkiValueError
from parki.ewald.sums import SUMS

N = 800
# Of rounding: units of single precision's roundoff of the rms of the result, as for float32 arrays.
ROUNDING = 64 * 2.0**-24


def cloud(kind, box, rng):
    """Return points in a box: even, in a cluster, or with close pairs, some across its faces."""
    edges = np.array(box)[:, None]
    points = rng.random((3, N)) * edges
    if kind == "cluster":
        points[:, : N // 2] = edges * np.clip(0.5 + 0.02 * rng.standard_normal((3, N // 2)), 0, 1)
    if kind == "pairs":
        points[:, 1::2] = points[:, ::2] + 1e-6 * rng.standard_normal((3, N // 2))
        points[:, :2] = 0.3 * edges
        points[:, 1] = points[:, 0]
        points[0, :2] = 1e-7, box[0] - 1e-7
        points = np.clip(points, 0, edges * (1 - 1e-12))
    return points


def density(kernel, rng):
    return rng.standard_normal(SUMS[kernel].density_shape(N))


@pytest.mark.each
@pytest.mark.parametrize("kind", ["even", "cluster", "pairs"])
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
@pytest.mark.parametrize("kernel", FEW)
def test_promise(kernel, periodicity, kind, space, to_space, rng):
    box, tolerance = ((3.0, 2.0, 2.5), 1e-6) if periodicity % 2 else ((1.0, 1.0, 1.0), 1e-4)
    points = to_space(cloud(kind, box, rng))
    norms = to_space(rng.standard_normal((3, N))) if SUMS[kernel].normals else None
    dens, want = to_space(density(kernel, rng)), ("u", "grad_u")
    options = EwaldOptions(periodicity, box, tolerance, precision="mixed")
    plan = parki.Plan(kernel, points, points, norms, options, want=want)
    exact = parki.Plan(
        kernel, points, points, norms, EwaldOptions(periodicity, box, 1e-9), want=want
    )
    assert {each.dtype for each in plan(dens)} == {np.dtype("f8")}
    assert_promised(plan, dens, exact(dens), ROUNDING)


def test_single_precision_would_lose_close_pairs(rng):
    """What mixed precision is for, besides speed."""
    points = cloud("pairs", (1, 1, 1), rng)
    dens = density("stokes_sl", rng)
    exact = parki.stokes_sl(points, points, dens, EwaldOptions(3, [1, 1, 1], 1e-9))
    options = EwaldOptions(3, [1, 1, 1], 1e-4)
    single = parki.stokes_sl(*(a.astype("f4") for a in (points, points, dens)), options)
    options = EwaldOptions(3, [1, 1, 1], 1e-4, precision="mixed")
    mixed = parki.stokes_sl(points, points, dens, options)
    assert rms(mixed - exact) < 1e-3 * rms(single - exact)


# Edges that single precision does not hold, of ordinary, tiny, huge and thin boxes.
BOXES = (
    (1, 0.7, 1.4),
    (1 / 3, 1 / 7, 0.3),
    (1e-7 / 3, 3e-8, 2e-8),
    (3e7, 1e7 / 3, 1.1e7),
    (1, 0.9, 0.011),
)


def across_faces(box, rng):
    """Return points in a box, with clouds across the faces of the near field's images.

    These cut the box in the middle of each axis.
    """
    edges = np.array(box)[:, None]
    points = rng.random((3, N)) * edges
    for cloud in range(9):
        middle = rng.random((3, 1)) * edges
        middle[cloud % 3] = edges[cloud % 3] / 2
        middle[cloud % 2] = edges[cloud % 2] / 2  # some of them across edges
        spread = 1e-3 * edges.min() * (rng.random((3, 20)) - 0.5)
        points[:, 20 * cloud : 20 * cloud + 20] = np.clip(middle + spread, 0, edges * (1 - 1e-12))
    return points


TWO, ALL = ("u", "grad_u"), ("u", "p", "grad_u")
# The default run has each box and number of periodic axes, and kernels of devices.
FACES = [
    *(("laplace", box, 3, TWO, "auto") for box in BOXES),
    ("laplace", BOXES[0], 0, TWO, "auto"),
    ("stokes_comb", BOXES[0], 1, TWO, "auto"),
    ("stokes_dipole", BOXES[0], 2, TWO, "auto"),
    *(("stokes_comb", BOXES[0], 3, want, "tile") for want in (("u",), ALL)),
]
MORE = [
    *((kernel, BOXES[0], periodicity, TWO, "auto") for kernel in SUMS for periodicity in range(4)),
    *(("stokes_comb", box, p, ALL, "staged") for box in BOXES for p in (1, 2, 3)),
    ("stokes_comb", BOXES[0], 3, ("stress",), "tile"),
]


@pytest.mark.parametrize(
    ("kernel", "box", "periodicity", "want", "method"),
    [*FACES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE if case not in FACES)],
)
def test_close_pairs_across_faces(kernel, box, periodicity, want, method, space, to_space, rng):
    """The shift by a period has a second part, too: without it, errors of 150 to 3000 units."""
    points, norms = to_space(across_faces(box, rng)), None
    if SUMS[kernel].normals:
        norms = to_space(rng.standard_normal((3, N)))
    dens = to_space(density(kernel, rng))
    options = flat.options(periodicity, box, 1e-4, precision="mixed", p2p_method=method)
    plan = parki.Plan(kernel, points, points, norms, options, want=want)
    options = EwaldOptions(periodicity, box, 1e-9)
    exact = parki.Plan(kernel, points, points, norms, options, want=want)
    assert_promised(plan, dens, exact(dens), ROUNDING)


@pytest.mark.parametrize(
    "kernel",
    [
        "laplace",
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("stokes_dipole", "stokes_comb")),
    ],
)
def test_derivatives_across_faces(kernel, space, to_space, rng):
    """By densities, the transposed sums; by places, what tensor targets feel."""
    points, norms = to_space(across_faces(BOXES[0], rng)), None
    if SUMS[kernel].normals:
        norms = to_space(rng.standard_normal((3, N)))
    dens = to_space(density(kernel, rng))
    values = to_space(rng.standard_normal(N if "laplace" in kernel else (3, N)))
    wrt = ("dens", "trg", "src")
    given = [each for each in (points, points, dens, norms) if each is not None]
    found, exact = (
        parki.vjp(
            kernel,
            *given,
            EwaldOptions(3, BOXES[0], tolerance, precision=precision),
            values=values,
            wrt=wrt,
        )
        for tolerance, precision in ((1e-4, "mixed"), (1e-9, "full"))
    )
    for name in wrt:
        assert rms(found[name] - exact[name]) <= 2 * ROUNDING * rms(exact[name]), name


def test_targets_on_the_other_side_of_a_face_are_the_sources(space, to_space, rng):
    """A pair that rounding parts, as moving by periods does, counts as one point there, too."""
    points, edges = across_faces(BOXES[0], rng), np.array(BOXES[0])[:, None]
    moved = points + edges * rng.integers(-3, 4, (3, N))
    face = BOXES[0][1] / 2
    points[1, :9], moved[1, :9] = face - 1e-15, face + 1e-15
    dens = to_space(rng.standard_normal((3, N)))
    options = EwaldOptions(3, BOXES[0], 1e-4, precision="mixed")
    moved, points = to_space(moved), to_space(points)
    same = parki.stokes_sl(points, points, dens, options)
    assert rms(parki.stokes_sl(moved, points, dens, options) - same) <= ROUNDING * rms(same)


def test_words(rng):
    points = rng.random((3, 100))
    options = EwaldOptions(3, [1, 1, 1], 1e-4, precision="mixed")
    assert "float64 in mixed precision" in parki.Plan("laplace", points, points, options).describe()


def test_what_is_refused(rng):
    points, dens = rng.random((3, 100)), rng.standard_normal((3, 100))

    def total(points, dens, tolerance=1e-4, **settings):
        options = flat.options(3, [1, 1, 1], tolerance, precision="mixed", **settings)
        return parki.stokes_sl(points, points, dens, options)

    with pytest.raises(ParkiValueError, match="precision is 'half'; expected one of full, mixed"):
        EwaldOptions(3, [1, 1, 1], precision="half")
    with pytest.raises(ParkiValueError, match="mixed precision holds 1e-06 at best; leave"):
        total(points, dens, 1e-7)
    with pytest.raises(ParkiValueError, match="window_points is 14; mixed precision holds at most"):
        total(points, dens, window_points=14)
    with pytest.raises(ParkiValueError, match="arrays have dtype float32, whose sums"):
        total(points.astype("f4"), dens.astype("f4"))
    with pytest.raises(ParkiValueError, match=r"p2p_method is 'gm1d', which takes\s+positions"):
        total(points, dens, p2p_method="gm1d")
    for scale in (1e30, 1e-30):
        with pytest.raises(ParkiValueError, match=r"dens has values of up to .*e[+-]30; precision"):
            total(points, dens * scale)
    assert not total(points, 0 * dens).any()
    options = EwaldOptions(3, [1e-12] * 3, 1e-4, precision="mixed")
    with pytest.raises(ParkiValueError, match="the box has edges of about 1e-12; precision"):
        parki.stokes_sl(1e-12 * points, 1e-12 * points, dens, options)
