"""What spheres keep is their own: arrays, attributes, copies; and there may be no densities."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading

import numpy as np
import pytest

import parki
from parki.libmobility import PSE

BOX, N = (1.2, 1.0, 0.9), 12
RNG = np.random.default_rng(0)
POINTS = RNG.random((3, N)) * [[1.2], [1.0], [0.7]] + [[0], [0], [0.1]]
NORMS, DENS, VALUES = RNG.standard_normal((3, 3, N))
OPTIONS = parki.EwaldOptions(3, BOX, 1e-4)
WALL = parki.EwaldOptions(2, BOX, 1e-4, wall="no-slip")
RADII = {"one": 0.07, "two": np.where(np.arange(N) % 3, 0.05, 0.07)}


def moves(spheres):
    """Return what spheres make of their points, after plans that are made late."""
    rng = np.random.default_rng(1)
    step = spheres.displacements(0.1, 0.1, rng, DENS, VALUES, accuracy=1e-6)
    flow = spheres.flow(DENS, POINTS[:, :3] + [[0], [0], [-0.05]])
    return *spheres.velocities(DENS, VALUES), *step, flow


@pytest.mark.parametrize(("radii", "options"), [("one", OPTIONS), ("two", WALL)])
def test_spheres_whose_array_changes(radii, options):
    points = POINTS.copy()
    spheres, new = (parki.Spheres(each, RADII[radii], options) for each in (points, POINTS))
    points[:2] *= 0.5
    for ours, theirs in zip(moves(spheres), moves(new), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    points[...] = POINTS
    spheres.update_points(points)
    points += 0.1
    np.testing.assert_allclose(spheres.velocities(DENS), new.velocities(DENS), rtol=1e-9)
    assert np.array_equal(spheres.points, POINTS)


def test_attributes_of_spheres():
    """They are read-only, or do what they say."""
    spheres, shift = parki.Spheres(POINTS, 0.07, OPTIONS), 0.1 * VALUES
    before = spheres.velocities(DENS)
    with pytest.raises(ValueError, match="read-only"):
        spheres.points += shift
    with pytest.raises(ValueError, match="read-only"):
        spheres.radii[0] = 0.1
    with pytest.raises(parki.ParkiTypeError, match=r"radii of Spheres cannot be changed; make new"):
        spheres.radii = 0.1
    with pytest.raises(parki.ParkiTypeError, match=r"options of Spheres .* update_points"):
        spheres.options = WALL
    for viscosity, error in ((-1.0, ValueError), (np.nan, ValueError), ("1", TypeError)):
        with pytest.raises(parki.ParkiError, match=r"viscosity is .*expected a positive") as caught:
            spheres.viscosity = viscosity
        assert isinstance(caught.value, error)
    assert np.array_equal(spheres.velocities(DENS), before)
    spheres.viscosity = 2.0
    np.testing.assert_allclose(spheres.velocities(DENS), before / 2, rtol=1e-14)
    spheres.points = spheres.points + shift
    moved = parki.Spheres(POINTS + shift, 0.07, OPTIONS, viscosity=2.0).velocities(DENS)
    np.testing.assert_allclose(spheres.velocities(DENS), moved, rtol=1e-9)


def pickled(made):
    return pickle.loads(pickle.dumps(made))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickled])
def test_copies_are_apart(how):
    spheres = parki.Spheres(POINTS, RADII["two"], OPTIONS, viscosity=3.0)
    before, other = spheres.velocities(DENS), how(spheres)
    np.testing.assert_allclose(other.velocities(DENS), before, rtol=1e-9)
    other.update_points(POINTS * 0.9)
    other.viscosity = 2.0
    assert np.array_equal(spheres.velocities(DENS), before)
    assert np.array_equal(spheres.points, POINTS)
    if how is pickled:
        return
    solver = PSE("periodic", "periodic", "periodic")
    solver.setParameters(1.0, *BOX)
    solver.initialize(1.0, 0.07)
    solver.setPositions(POINTS.T)
    before, other = solver.Mdot(DENS.T)[0], how(solver)
    other.setPositions(0.9 * POINTS.T)
    assert np.array_equal(solver.Mdot(DENS.T)[0], before)


PLANS = {
    "moved": {"periodicity": 3, "box": BOX},
    "wall": {"options": WALL, "want": ("u", "p")},
    "boxes": {"boxes": [BOX, BOX[::-1]], "systems": [0, 5, N], "periodicity": 3},
    "axes": {"boxes": [BOX] * 2, "systems": [0, 5, N], "periodicities": [3, 2]},
    "pairs left out": {"periodicity": 3, "box": BOX, "exclude": np.arange(N) // 2},
    "widths": {"periodicity": 3, "box": BOX, "epsilon": (0.1, np.linspace(0.1, 0.2, N))},
}


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("case", PLANS)
def test_copies_of_plans_are_plans_of_their_own(case, how):
    """They have all that the plan was made of, where its points are now."""
    kernel, dens = ("laplace", DENS[0]) if "epsilon" in PLANS[case] else ("stokes_sl", DENS)
    result = lambda plan: np.vstack(plan(dens))  # noqa: E731
    plan = new = parki.Plan(kernel, POINTS, POINTS, **PLANS[case])
    if case == "moved":
        places, box = (POINTS * 0.9, POINTS[:, ::-1]), [1.3, 1.0, 0.9]
        plan.update_points(*places, box=box)
        new = parki.Plan(kernel, *places, periodicity=3, box=box)
    before, other = result(plan), how(plan)
    near = {"rtol": 1e-9, "atol": 1e-9 * abs(before).max()}
    np.testing.assert_allclose(result(other), result(new), **near)
    if case == "moved":
        other.update_points(POINTS, POINTS)
        assert abs(result(other) - before).max() > 1
    np.testing.assert_array_equal(result(plan), before)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (parki.Plan, ("laplace", POINTS, POINTS, OPTIONS)),
        (parki.Spheres, (POINTS, 0.07, OPTIONS)),
        (parki.RigidSpheres, (0.5 * POINTS, 0.01, OPTIONS)),
        (parki.RigidBodies, (parki.BodyShape.sphere(0.05, 12), POINTS, OPTIONS)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_copies_have_every_argument(kind, arguments):
    """Also those that are new, except the options' keywords."""
    made = kind(*arguments)
    by_position, by_name = made._arguments()
    given = inspect.signature(kind).bind(*by_position, **by_name).arguments
    assert {*given} == {*inspect.signature(kind).parameters} - {"keywords"}
    assert type(pickled(made)) is type(copy.deepcopy(made)) is kind
    for name, value in by_name.items():
        np.testing.assert_equal(pickled(made)._arguments()[1][name], value)


def test_operators_are_not_pickled():
    operator = parki.Plan("laplace", POINTS, POINTS, OPTIONS).as_linear_operator()
    with pytest.raises(parki.ParkiTypeError, match="a linear operator cannot be pickled; pickle"):
        pickle.dumps(operator)


def test_steps_leave_velocities_of_other_threads():
    """Near a wall steps take the mobility at shifted places, by plans of their own."""
    spheres = parki.Spheres(POINTS, 0.07, WALL)
    expected, wrong, done = spheres.velocities(DENS), [], threading.Event()

    def read():
        while not done.is_set():
            if not np.array_equal(spheres.velocities(DENS), expected):
                wrong.append(1)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for seed in range(8):
            spheres.displacements(0.1, 0.1, np.random.default_rng(seed), accuracy=0.1)
    finally:
        done.set()
        reader.join()
    assert not wrong


def test_no_densities():
    """As there may be no points."""
    none = np.zeros((0, 3, N))
    boxes = {"boxes": [BOX, BOX], "systems": [0, 5, N], "periodicity": 3, "tolerance": 1e-4}
    plans = [parki.Plan("stokes_sl", POINTS, POINTS, each) for each in (OPTIONS, WALL)]
    plans.append(parki.Plan("stokes_sl", POINTS, POINTS, **boxes))
    for plan in plans:
        assert plan(none).shape == plan.adjoint(none).shape == none.shape
        assert len(plan.promise(none)) == 0
        assert (plan.as_linear_operator() @ np.zeros((3 * N, 0))).shape == (3 * N, 0)
    assert parki.laplace(POINTS, POINTS, np.zeros((0, N)), OPTIONS).shape == (0, N)
    given = "stokes_sl", POINTS, POINTS, none
    for options, wrt in ((OPTIONS, ("dens", "trg", "src", "box")), (WALL, ("dens",))):
        slopes = parki.vjp(*given, options, values=none, wrt=wrt)
        assert slopes.pop("dens").shape == none.shape
        assert all((each == 0).all() for each in slopes.values())
        assert parki.jvp(*given, options, tangents={"dens": none}).shape == none.shape
    change = parki.jvp(*given[:3], None, OPTIONS, tangents={"dens": DENS[None]})
    assert change.shape == (1, 3, N)  # as many as there are


def test_promises_of_any_size():
    """Their squares are no numbers."""
    plans = [
        parki.Plan("stokes_sl", POINTS, POINTS, OPTIONS),
        parki.Spheres(POINTS, 0.07, OPTIONS),
        parki.Spheres(POINTS, 0.07, WALL),
    ]
    for plan in plans:
        promise = plan.promise(DENS)
        for size in (1e-290, 1e290):
            assert plan.promise(size * DENS) == pytest.approx(size * promise, rel=1e-12)
        assert plan.promise(0 * DENS) == 0
    small, usual = (
        parki.Plan("stokes_dl", POINTS, POINTS, size * NORMS, OPTIONS) for size in (1e-200, 1.0)
    )
    assert small.promise(DENS) == pytest.approx(1e-200 * usual.promise(DENS), rel=1e-12)
    check = plans[1].check(1e290 * DENS)
    assert check.error <= check.promise < check.flow < np.inf
