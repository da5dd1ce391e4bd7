"""Many systems at once: each as a plan of its own would sum it."""

from __future__ import annotations

import numpy as np
import pytest

import parki
from parki import EwaldOptions, ParkiTypeError, ParkiValueError
from parki.ewald.choice.clustering import pair_density
from parki.ewald.geometry.systems import Systems
from parki.ewald.sums import SUMS
from parki.runtime import get_execution_space

SOURCES = np.array([0, 100, 100, 250, 400, 401, 700])
TARGETS = np.array([0, 50, 80, 80, 200, 210, 333])
N, TARGETS_IN_ALL = int(SOURCES[-1]), int(TARGETS[-1])


def made(kernel, rng, to_space, box=(1.0, 1.0, 1.0), dtype="f8"):
    """Return targets, sources, normals or None, and a density."""
    edges = np.array(box)[:, None]
    trg, src = rng.random((3, TARGETS_IN_ALL)) * edges, rng.random((3, N)) * edges
    norms = rng.standard_normal((3, N)) if SUMS[kernel].normals else None
    dens = rng.standard_normal(SUMS[kernel].density_shape(N))
    return [a if a is None else to_space(a.astype(dtype)) for a in (trg, src, norms, dens)]


def alone(kernel, trg, src, norms, dens, options, want):
    """Sum each system by a plan of its own; zero without sources."""
    for system in range(SOURCES.size - 1):
        to = slice(*TARGETS[system : system + 2])
        of = slice(*SOURCES[system : system + 2])
        n = None if norms is None else norms[:, of]
        plan = parki.Plan(kernel, trg[:, to], src[:, of], n, options, want=want)
        yield to, plan(dens[..., of])


def rms(values):
    return float((values**2).sum()) ** 0.5 / max(1, values.shape[-1]) ** 0.5


def test_high_boxes_in_single_precision(space, to_space, rng):
    """Where modes of planes are summed apart: see `parki.ewald.far.gauge`."""
    box = (1.0, 1.0, 30.0)
    trg, src, norms, dens = made("stokes_dl", rng, to_space, box)
    options = EwaldOptions(2, box, 1e-4)
    exact = dict(enumerate(alone("stokes_dl", trg, src, norms, dens, options, "u")))
    single = [array.astype("f4") for array in (trg, src, norms)]
    plan = parki.Plan("stokes_dl", *single, options, systems=(TARGETS, SOURCES))
    assert plan.pipeline.stages.plane is not None
    found = plan(dens.astype("f4"))
    for to, values in exact.values():
        if to.stop > to.start:
            scale = 1e-4 * rms(values) + 2 * float(plan.promise(dens.astype("f4")).max())
            assert rms(found[..., to] - values) <= scale


def test_flux(space, to_space, rng):
    trg, src, norms, dens = made("stokes_dl", rng, to_space)
    options = EwaldOptions(3, [1, 1, 1], 1e-6, dl_mean="flux")
    want = ("u", "grad_u")
    plan = parki.Plan("stokes_dl", trg, src, norms, options, want=want, systems=(TARGETS, SOURCES))
    found, promise = plan(dens), plan.promise(dens)
    expected = alone("stokes_dl", trg, src, norms, dens, options, want)
    for system, (to, values) in enumerate(expected):
        for ours, theirs, bound in zip(found, values, promise, strict=True):
            if to.stop > to.start:
                assert rms(ours[..., to] - theirs) <= 2 * bound[system] + 1e-12


def test_derivatives_of_flux(space, to_space, rng):
    """In reverse and in forward mode, as of each system alone."""
    kernel = "stokes_dl"
    trg, src, norms, dens = made(kernel, rng, to_space)
    options = EwaldOptions(3, [1, 1, 1], 1e-7, dl_mean="flux")
    values = to_space(rng.standard_normal((3, TARGETS_IN_ALL)))
    inputs = {"trg": trg, "src": src, "dens": dens, "norms": norms}
    moves = {name: to_space(rng.standard_normal(a.shape)) for name, a in inputs.items()}
    given = {"options": options, "systems": (TARGETS, SOURCES)}
    found = parki.vjp(kernel, trg, src, dens, norms, values=values, wrt=(*inputs,), **given)
    pushed = parki.jvp(kernel, trg, src, dens, norms, tangents=moves, **given)
    for to, of in [(slice(0, 50), slice(0, 100)), (slice(80, 200), slice(250, 400))]:
        part = {n: np.s_[..., to if n == "trg" else of] for n in inputs}
        points = [inputs[n][part[n]].copy() for n in ("trg", "src", "dens")]
        points.append(norms[part["norms"]].copy())
        one = parki.vjp(kernel, *points, options, values=values[..., to].copy(), wrt=(*inputs,))
        for name, expected in one.items():
            assert rms(found[name][part[name]] - expected) < 1e-5 * rms(expected), name
        own = {n: move[part[n]].copy() for n, move in moves.items()}
        expected = parki.jvp(kernel, *points, options, tangents=own)
        assert rms(pushed[..., to] - expected) < 1e-5 * rms(expected)


def test_more_or_fewer_systems(space, to_space, rng):
    """Also after launches that were recorded."""
    options = EwaldOptions(3, [1, 1, 1], 1e-4)
    points, forces = (to_space(rng.random((3, 1000))) for _ in range(2))
    plan = parki.Plan("stokes_sl", points, points, options, systems=np.arange(0, 1001, 50))
    for _ in range(4):
        plan.update_points(points, points)
        plan(forces)
    offsets = np.array([0, 300, 1000])
    plan.update_points(points, points, systems=offsets)
    fresh = parki.Plan("stokes_sl", points, points, options, systems=offsets)
    assert rms(plan(forces) - fresh(forces)) <= 2 * float(plan.promise(forces).max())
    with pytest.raises(ParkiValueError, match="offsets of targets, 0 to 1000; expected"):
        plan.update_points(points[:, 1:], points[:, 1:])


def test_one_array_whose_targets_have_systems_of_their_own(rng):
    """They were taken in the order of the sources, without a word; also where points move."""
    points, dens, options = rng.random((3, 60)), rng.standard_normal(60), EwaldOptions(3, [1, 1, 1])
    systems = [0, 20, 20, 56, 60], [0, 30, 31, 51, 60]
    one, two = (
        parki.Plan("laplace", trg, points, options, systems=systems)
        for trg in (points, points.copy())
    )
    for moved in (points, 0.9 * points):
        one.update_points(moved, moved, systems=systems)
        two.update_points(moved.copy(), moved, systems=systems)
        np.testing.assert_allclose(one(dens), two(dens), rtol=1e-12)


def test_a_crowded_system_decides(rng):
    """Its error, not that of the others on average, keeps the promise."""
    crowd = 0.5 + 0.05 * rng.standard_normal((3, 200))
    points = np.concatenate([rng.random((3, 20_000)), crowd], axis=1)
    offsets = np.arange(0, 20_201, 200)
    options = EwaldOptions(3, [1, 1, 1], 1e-4)
    forces = rng.standard_normal(points.shape)
    plan = parki.Plan("stokes_sl", points, points, options, systems=offsets)
    exact = parki.Plan("stokes_sl", crowd, crowd, EwaldOptions(3, [1, 1, 1], 1e-8))
    error = rms(plan(forces)[:, -200:] - exact(forces[:, -200:]))
    assert error <= plan.promise(forces)[-1]


def test_density_of_pairs(rng):
    """That of systems alike is that of one; points of two make no pairs."""
    space = get_execution_space("Serial")
    one = np.clip(0.5 + 0.1 * rng.standard_normal((3, 4000)), 0, 1)
    many = np.concatenate([one] * 3, axis=1)
    offsets = np.arange(0, 12_001, 4000, dtype=np.int32)
    systems = Systems(offsets, offsets, space, None)
    box = np.ones(3)
    alike, single = pair_density(many, many, box, systems), pair_density(one, one, box)
    # At the shortest range the pairs of one system are too few to say anything.
    np.testing.assert_allclose(alike.enhancement[:8], single.enhancement[:8], rtol=1e-9)
    assert alike.self_pairs == pytest.approx(1 / 4000)


@pytest.mark.parametrize(
    ("systems", "error", "message"),
    [
        ([0, 50, 99], ParkiValueError, "3 offsets of targets, 0 to 99; expected .* to the 100"),
        ([1, 100], ParkiValueError, "2 offsets of targets, 1 to 100"),
        ([0, 60, 40, 100], ParkiValueError, "none smaller than the one before"),
        ([100], ParkiValueError, "1 offsets of targets"),
        ([0.0, 100.0], ParkiTypeError, "expected whole numbers"),
        ("all", ParkiTypeError, "expected whole numbers"),
        (([0, 100], [0, 50, 100]), ParkiValueError, "1 systems of targets, but 2 of sources"),
    ],
)
def test_impossible_offsets(systems, error, message, rng):
    points = rng.random((3, 100))
    with pytest.raises(error, match=message):
        parki.Plan("laplace", points, points, EwaldOptions(3, [1, 1, 1]), systems=systems)


@pytest.mark.parametrize(
    "method",
    [
        {"expert": parki.Expert(p2p_method="gm1d")},
        {"expert": parki.Expert(p2g_method="hybrid")},
        {"expert": parki.Expert(g2p_method="target")},
    ],
)
def test_variants_of_one_system(method, rng):
    points = rng.random((3, 100))
    options = EwaldOptions(3, [1, 1, 1], 1e-4, **method)
    with pytest.raises(ParkiValueError, match="which sums one system at a time"):
        parki.Plan("laplace", points, points, options, systems=[0, 50, 100])
    plan = parki.Plan("laplace", points, points, EwaldOptions(3, [1, 1, 1]))
    with pytest.raises(ParkiValueError, match="the plan was made without"):
        plan.update_points(points, points, systems=[0, 50, 100])
