"""Positions as they are given: bodies across faces, and warnings where images matter."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from contract import ROUNDING, rms

import parki

RADIUS = 0.2
CENTRES = ([0.5, 0.5, 0.5], [0.0, 0.5, 0.5], [0.95, 0.02, 1.0], [-3.1, 7.05, 40.0])
E_X = np.array([[1.0], [0.0], [0.0]])


def options(tolerance=1e-5, box=(1, 1, 1), **more):
    return parki.EwaldOptions(3, box, tolerance, **more)


def body(centre, points=20, radius=RADIUS):
    """Return the surface of a sphere, its normals times weights, and their weights."""
    x, of_rings = np.polynomial.legendre.leggauss(points)
    z, angle = np.repeat(x, 2 * points), np.pi / points * (np.arange(2 * points**2) + 0.5)
    normals = np.stack([*(np.sqrt(1 - z**2) * [np.cos(angle), np.sin(angle)]), z])
    weights = np.repeat(of_rings, 2 * points) * np.pi / points * radius**2
    return np.array(centre)[:, None] + radius * normals, weights * normals, weights


def outside(centre, rng, count=300):
    """Return targets in the box that are not near the images of a sphere."""
    trg = rng.random((3, count))
    away = trg - np.array(centre)[:, None]
    return trg[:, np.linalg.norm(away - np.rint(away), axis=0) > 1.6 * RADIUS]


# ---------------------------------------------------------------------- bodies across faces


@pytest.mark.each
@pytest.mark.filterwarnings("ignore::parki.ImageWarning")
@pytest.mark.parametrize("precision", ["f8", "f4", "mixed"])
@pytest.mark.parametrize("centre", CENTRES)
def test_a_closed_body_has_no_flow_outside(centre, precision, space, to_space, to_host, rng):
    """For q = e_x and two others at once; with the mean of zero they have -8 pi q |body| / V."""
    dtype = "f4" if precision == "f4" else "f8"
    more = {"precision": "mixed"} if precision == "mixed" else {}
    src, norms, _ = body(centre)
    trg = outside(centre, rng)
    dens = np.repeat(np.array([E_X, -2 * E_X, [[0.3], [1.0], [-0.5]]]), src.shape[1], axis=2)
    given = [to_space(a.astype(dtype)) for a in (trg, src, norms)]
    dens = to_space(dens.astype(dtype))
    volume = 4 / 3 * np.pi * RADIUS**3
    # What float32 does not hold of positions moves the body's points apart.
    digits = np.finfo(dtype).eps * abs(src).max() / RADIUS if dtype == "f4" else 0
    for mean in ("flux", "zero"):
        chosen = options(dl_mean=mean, **more)
        plan = parki.Plan("stokes_dl", *given, chosen, want=("u", "grad_u"))
        bounds = np.array(plan.promise(dens))
        expected = -8 * np.pi * volume * to_host(dens)[..., :1] * (mean == "zero")
        size = 8 * np.pi * volume * abs(to_host(dens)[..., :1]).max()
        u, gradient = (to_host(each).astype("f8") for each in plan(dens))
        for place in range(3):
            slack = (ROUNDING["f8" if precision == "f8" else "f4"] * 1.2e-7 + 10 * digits) * size
            # The promise is that of random densities, and these are constant.
            assert rms(u[place] - expected[place]) <= 2 * bounds[0, place] + slack
            assert rms(gradient[place].reshape(9, -1)) <= 2 * bounds[1, place] + 10 * slack


def test_a_body_that_moves_through_the_box(space, to_space, to_host, rng):
    """By update_points, which a device records; with and without the sum of one call."""
    chosen = options(dl_mean="flux")
    plan = None
    for step in range(7):
        centre = np.array([0.7 + 0.1 * step, 0.5, 0.9 + 0.05 * step])
        src, norms, _ = body(centre)
        trg = rng.random((3, 200))
        dens = np.repeat(E_X, src.shape[1], axis=1)
        given = [to_space(a) for a in (trg, src, norms)]
        if plan is None:
            plan = parki.Plan("stokes_dl", *given, chosen)
        else:
            plan.update_points(*given)
        away = trg - centre[:, None]
        far = np.linalg.norm(away - np.rint(away), axis=0) > 1.6 * RADIUS
        bound = 2 * plan.promise(to_space(dens))
        assert rms(to_host(plan(to_space(dens)))[:, far]) <= bound
        once = parki.stokes_dl(*given[:2], to_space(dens), given[2], chosen)
        assert rms(to_host(once)[:, far]) <= bound


@pytest.mark.filterwarnings("ignore::parki.ImageWarning")
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_moments_keep_their_digits(dtype):
    """Of pairs with opposite q.n, each in a box of its own: sums in single precision lose them."""
    rng = np.random.default_rng(7)
    n = 2000
    first = rng.random((3, n)) + rng.integers(-40, 40, (3, n))
    src = np.concatenate([first, first + 0.05 * rng.random((3, n))], axis=1).astype(dtype)
    trg = rng.random((3, 50)).astype(dtype)
    norms = np.tile(rng.standard_normal((3, n)), 2).astype(dtype)
    dens = np.concatenate([q := rng.standard_normal((3, n)), -q], axis=1).astype(dtype)
    found = {
        mean: parki.Plan("stokes_dl", trg, src, norms, options(1e-4, dl_mean=mean))(dens)
        for mean in ("zero", "flux")
    }
    strength = (dens.astype("f8") * norms).sum(axis=0)
    expected = (src * strength).sum(axis=1)[:, None] - strength.sum() * trg.astype("f8")
    assert rms(expected) > 0.1
    difference = found["flux"].astype("f8") - found["zero"]
    off = rms(difference - 8 * np.pi * expected)
    assert off <= 2 * np.finfo(dtype).eps * rms(found["flux"])


# ---------------------------------------------------------------------- warnings


def heard(call, *arguments, **how):
    """Return the warnings of a call about images."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*arguments, **how)
    return [str(w.message) for w in found if w.category is parki.ImageWarning]


def test_a_mean_that_was_not_chosen(space, to_space):
    src, norms, _ = (to_space(a) for a in body(CENTRES[1], 6))
    with pytest.warns(parki.ImageWarning, match="sources are outside of the box along axis 0") as w:
        plan = parki.Plan("stokes_dl", src, src, norms, options())
    assert [each.filename for each in w] == [__file__]
    assert heard(plan.update_points, src, src, norms)
    assert not heard(plan, norms)
    assert not heard(plan.check, norms)
    for quiet in ("zero", "flux"):
        assert not heard(parki.Plan, "stokes_dl", src, src, norms, options(dl_mean=quiet))
    assert not heard(parki.Plan, "stokes_sl", src, src, options=options())
    inside = src % 1.0
    assert not heard(parki.Plan, "stokes_dl", src, inside, norms, options())
    two = parki.EwaldOptions(2, [1, 1, None], 1e-5)
    assert not heard(parki.Plan, "stokes_dl", src, src, norms, two)
    none = src[:, :0]
    assert not heard(parki.Plan, "stokes_dl", src, none, norms[:, :0], options())


def test_points_in_the_cell_of_the_shortest_vectors_are_in_the_box(rng):
    """A unit cube that leans by a whole edge repeats the same points as the cube."""
    points, norms = rng.random((2, 3, 6))
    leaning = parki.EwaldOptions(3, parki.lattice(1, 1, 1, xy=1), 1e-2)
    flux = replace(leaning, dl_mean="flux")

    def heard_of(options, by=0.0, dtype="f8"):
        src = (points + by).astype(dtype)
        trg, own = src.copy(), norms.astype(dtype)
        return heard(parki.stokes_dl, trg, src, own, own, options)

    assert (leaning.along(points) < 0).any()
    assert not heard_of(leaning) and not heard_of(flux)
    assert heard_of(leaning, 0.5) and heard_of(flux, 0.5)
    trg = (points[:, ::2] * 0.9).astype("f4")
    call = lambda src: parki.laplace(trg, src, src[0], leaning)  # noqa: E731
    assert not heard(call, points.astype("f4"))
    assert heard(lambda: call((points + np.array([[0], [1], [0]])).astype("f4")))


def test_a_flow_that_is_not_periodic(space, to_space):
    src, norms, _ = (to_space(a) for a in body(CENTRES[1], 6))
    closed, net = to_space(np.repeat(E_X, src.shape[1], axis=1)), norms
    chosen = options(dl_mean="flux")
    plan = parki.Plan("stokes_dl", src, src, norms, chosen)
    message = "points are outside of the box, but the sum of q.n is not zero"
    with pytest.warns(parki.ImageWarning, match=message) as w:
        plan(net)
    assert [each.filename for each in w] == [__file__]
    assert not heard(plan, net)  # a device is asked once
    plan = parki.Plan("stokes_dl", src, src, norms, chosen)
    assert not heard(plan, 0 * net)
    assert heard(plan, space.array_module.stack([net, net]))
    assert not heard(parki.stokes_dl, src, src, closed, norms, chosen)
    assert heard(parki.stokes_dl, src, src, net, norms, chosen)
    assert not heard(parki.stokes_dl, src, src, net, norms, options(dl_mean="zero"))
    inside = src % 1.0
    assert not heard(parki.stokes_dl, inside, inside, net, norms, chosen)
    assert heard(parki.stokes_dl, src, inside, net, norms, chosen)
    # Each system has a sum of its own.
    half = src.shape[1] // 2
    signs = to_space(np.repeat([1.0, -1.0], half))
    plan = parki.Plan("stokes_dl", src, src, norms, chosen)
    assert not heard(plan, signs * net)
    ends = [0, half, 2 * half]
    plan = parki.Plan("stokes_dl", src, src, norms, chosen, systems=ends)
    assert heard(plan, signs * net)


def test_a_period_apart_in_single_precision(space, to_space, rng):
    """Where rounding tells a target from the image of a source at the same place."""
    trg, dens = rng.random((3, 30)), rng.standard_normal(30)
    moved = trg + E_X

    def call(trg, src, dtype="f4", periodicity=1, **more):
        chosen = parki.EwaldOptions(periodicity, [1, None, None], 1e-4, **more)
        arrays = [to_space(a.astype(dtype)) for a in (trg, src, dens[: src.shape[1]])]
        if trg is src:
            arrays[1] = arrays[0]
        return lambda: parki.laplace(*arrays, chosen)

    message = "trg and src are two float32 arrays with points a period or more apart along axis 0"
    with pytest.warns(parki.ImageWarning, match=message):
        call(trg, moved)()
    assert heard(call(moved, trg))
    assert heard(call(trg, trg - [[7], [0], [0]]))
    assert heard(call(trg[:, :1], moved[:, :1]))
    # In double precision they coincide; in the box, and in two copies, they are where they are.
    assert not heard(call(trg, moved, "f8"))
    assert not heard(call(trg, moved, "f8", precision="mixed"))
    assert not heard(call(moved, moved))
    assert not heard(call(moved, moved.copy()))
    assert not heard(call(trg, rng.random((3, 20))))
    assert not heard(call(trg - 0.5, rng.random((3, 20)) - 0.5))
    free = parki.EwaldOptions(0, tolerance=1e-4)
    single = [to_space(a.astype("f4")) for a in (trg, moved, dens)]
    assert not heard(parki.laplace, *single, free)


def test_points_that_drift_a_period_away(space, to_space, rng):
    points = rng.random((3, 40)).astype("f4")
    chosen = parki.EwaldOptions(2, [1, 1, 2], 1e-4)
    plan = parki.Plan("stokes_sl", to_space(points), to_space(points[:, ::2]), chosen)
    far = to_space(points[:, ::2] - np.array([[0], [1], [0]], dtype="f4"))
    with pytest.warns(parki.ImageWarning, match="a period or more apart along axis 1"):
        plan.update_points(to_space(points), far)
