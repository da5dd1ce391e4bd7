"""`wall="no-slip"`: single layers near a plane, against Blake's tensor and its lattice sums."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from composites import SLIP
from contract import rms
from faces import others
from faces.base import Given
from faces.plans import Call
from helpers.recording import let_the_host_record
from scipy.spatial import cKDTree

import parki
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.pipeline.replay import Replay
from parki.reference import direct_sum

BOX = (1.2, 1.0, 0.8)
EDGES = np.array(BOX)[:, None]
RNG = np.random.default_rng(3)
SRC, TRG = RNG.random((3, 40)) * EDGES, RNG.random((3, 30)) * EDGES
FORCES, VALUES = RNG.standard_normal((3, 40)), RNG.standard_normal((3, 30))
TOLERANCE = 1e-7
LOW = SRC * [[0.9], [0.9], [0.4]] + 0.02  # with all steps of differences in the box, and apart
HIGH = TRG * [[0.9], [0.9], [0.4]] + [[0.02], [0.02], [0.4]]


def options(periodicity=2, box=BOX, tolerance=TOLERANCE, **more):
    return parki.EwaldOptions(periodicity, box, tolerance, **{"wall": "no-slip", **more})


def make(trg=TRG, src=SRC, given=None, **more):
    return parki.Plan("stokes_sl", trg, src, given or options(), **more)


def stokeslets(r, f):
    """Return ``G(r) f`` for r (3, targets, sources) and f (3, sources), zero where r is zero."""
    d = np.linalg.norm(r, axis=0)
    d[d == 0] = np.inf
    return f[:, None] / d + r * (r * f[:, None]).sum(axis=0) / d**3


def blake(trg, src, forces):
    """Return the flow of each force near the wall, by the tensor of Blake (1971)."""
    mirror = np.array([[1], [1], [-1]])
    r = trg[:, :, None] - (src * mirror)[:, None]
    d, h, g = np.linalg.norm(r, axis=0), src[2], (mirror * forces)[:, None]
    along = (r * g).sum(axis=0)
    rows = h * (g / d**3 - 3 * r * along / d**5)
    rows += -g * r[2] / d**3 - r * g[2] / d**3 + 3 * r * r[2] * along / d**5
    rows[2] += along / d**3
    direct = trg[:, :, None] - src[:, None]
    return stokeslets(direct, forces) - stokeslets(r, forces) + 2 * h * rows


def images_of_the_literature(trg, periodicity, src=SRC, forces=FORCES, box=BOX):
    """Return direct sums of images whose forces do not add up to zero, and the gauge's constant."""
    mirror = np.array([[1], [1], [-1]])
    how = {"box": (*box[:2], 2 * box[2]), "periodicity": periodicity}
    below, f = src * mirror, forces * mirror
    both = np.concatenate([src, below], axis=1), np.concatenate([forces, -f], axis=1)
    u = direct_sum("stokes_sl", trg, *both, **how)
    want = ("u", "grad_u")
    phi, slope = direct_sum("laplace", trg, below, 2 * forces[2], want=want, **how)
    others = direct_sum("laplace_dipole", trg, below, -2 * src[2] * f, want=want, **how)
    u += trg[2] * (slope + others[1])
    u[2] -= phi + others[0]
    if periodicity == 1:
        u[2] += 6 / box[0] * forces[2].sum()
    return u


# --- the flow -------------------------------------------------------------------------------------


@pytest.mark.parametrize("box", [BOX, None])
def test_blakes_tensor(box):
    plan = make(given=options(0, box))
    exact = blake(TRG, SRC, FORCES).sum(axis=2)
    promise = plan.promise(FORCES)
    assert 0 < rms(plan(FORCES) - exact) <= promise < 1e-6 * rms(exact)


def test_far_above_the_wall():
    """With two periodic axes the velocity has a limit, whatever the forces add up to."""
    far = TRG.copy()
    far[2] = 5 + far[2]
    found = make(far, SRC, options(2, (*BOX[:2], 6.0)))(FORCES)
    limit = 8 * np.pi / (BOX[0] * BOX[1]) * (SRC[2] * FORCES * [[1], [1], [0]]).sum(axis=1)
    assert rms(found - limit[:, None]) <= 1e-6 * rms(limit[:, None])


@pytest.mark.parametrize("same", [False, True])
def test_a_force_feels_its_own_image(same):
    """A sphere near a wall is slower by 9/16 and 9/8 of its radius over its height."""
    points = np.array([[0.3], [0.2], [0.25]])
    plan = make(points, points if same else points.copy(), options(0, tolerance=1e-11))
    for axis, slower in ((0, 9 / 16), (1, 9 / 16), (2, 9 / 8)):
        force = np.eye(3)[:, axis : axis + 1]
        assert plan(force) == pytest.approx(-4 / 3 * slower / 0.25 * force, abs=1e-9)


def test_sources_and_targets_at_the_wall():
    src = SRC.copy()
    src[2, :20] = 0
    found = make(src, src)(FORCES)
    exact = make(src, src[:, 20:])(FORCES[:, 20:])
    promise = make(src, src).promise(FORCES)
    assert rms(found - exact) <= 2 * promise
    assert rms(found[:, :20]) <= 2 * promise < 1e-3 * rms(found)


@pytest.mark.parametrize("periodicity", [0, 2])
def test_the_pressure_is_that_of_the_flow(periodicity):
    """Its slope is the Laplacian of the velocity, and it vanishes far above the wall."""
    x, step = np.array([0.5, 0.5, 0.7]), 0.02
    src = SRC * [[1], [1], [0.5]]
    stencil = x[:, None] + step * np.concatenate([np.zeros((3, 1)), np.eye(3), -np.eye(3)], axis=1)
    given = options(periodicity, (*BOX[:2], 20.0), 1e-10)
    u = make(stencil, src, given)(FORCES)
    p = make(stencil, src, given, want="p")(FORCES)
    slope = (p[1:4] - p[4:]) / (2 * step)
    laplacian = (u[:, 1:].sum(axis=1) - 6 * u[:, 0]) / step**2
    assert rms(slope[:, None] - laplacian[:, None]) <= 0.02 * rms(slope[:, None])
    stencil[2] = 20
    far = parki.stokes_sl(stencil, src, FORCES, given, want="p")
    assert rms(far[None]) <= 0.01 * abs(p[0])


def test_points_at_the_end_of_the_box():
    """An edge rounded to the points' dtype is in the box, and so is its mirror image."""
    points = np.array([[0.1, 0.7], [0.2, 0.6], [0.8, 0.8]], dtype="f4")
    found, exact = (
        parki.Plan("stokes_dipole", points, points, given)(np.ones((3, 3, 2), "f4"))
        for given in (options(2, BOX, 1e-3), options(2, (*BOX[:2], 0.9), 1e-5))
    )
    assert rms(found - exact) <= 1e-3 * rms(exact)


@pytest.mark.parametrize("word", ["no-slip", ("no-slip", "no-slip")])
def test_images_of_points_that_drift_are_not_a_period_apart(word):
    """A wall is between a point and its image, and rounding tells no target from that."""
    points = np.array([[0.1, 0.7], [0.2, 0.6], [0.3, 0.8]], dtype="f4")
    how = {"periodicity": 2, "box": (*BOX[:2], 0.9), "wall": word, "tolerance": 1e-5}
    with warnings.catch_warnings():
        warnings.simplefilter("error", parki.ImageWarning)
        plan = parki.Plan("stokes_dipole", points, points, **how)
        points[0, 0] += 2 * BOX[0]
        plan.update_points(points, points)
    with pytest.warns(parki.ImageWarning, match="a period or more apart along axis 0"):
        plan.update_points(points, points[:, :1].copy())


# --- plans and calls ------------------------------------------------------------------------------


def test_what_a_plan_tells():
    plan = make()
    assert isinstance(plan, parki.Plan)
    assert [each.kernel for each in plan.terms] == ["stokes_sl", "multipoles(order=1)"]
    assert [each.sum.counts[1] for each in plan.terms] == [80, 40]
    assert plan.describe().startswith("stokes_sl near a wall: 3 addends, 2 sums\nstokes_sl, 2-")
    assert repr(plan) == "<parki.Plan: stokes_sl near a wall, 2-periodic>"
    assert plan.memory.peak > plan.terms[0].memory.held


@pytest.mark.pairwise
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
@pytest.mark.parametrize("where", ["anywhere", "low", "high", "blob"])
@pytest.mark.parametrize("box", [(1, 1, 1), (0.25, 0.25, 2), (2, 2, 0.1), (4, 1, 1)])
@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_the_promise(periodicity, box, where, tolerance):
    """Blake's images may be written in two ways; and there is no flow at the wall."""
    edges = np.array(box)[:, None]
    src, trg = SRC / EDGES, TRG / EDGES
    if where == "blob":
        src, trg[:, ::2] = 0.4 + 0.05 * src, 0.4 + 0.05 * trg[:, ::2]
    for points in (src, trg):
        points[2] *= 0.02 if where == "low" else 1
        points[2] += 0.98 * (1 - points[2]) if where == "high" else 0
    src, trg = src * edges, trg * edges
    trg[2, :5] = 0
    plan = make(trg, src, options(periodicity, box, tolerance))
    exact = images_of_the_literature(trg, periodicity, src, FORCES, box)
    rounding = 64 * np.finfo(float).eps * rms(exact)
    found = plan(FORCES)
    assert rms(found - exact) <= plan.promise(FORCES) + rounding
    assert rms(exact[:, :5]) <= 1e-9 * rms(exact)


@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_the_transpose_is_exact(periodicity):
    plan = make(given=options(periodicity))
    found, back = plan(FORCES), plan.adjoint(VALUES)
    size = np.linalg.norm(VALUES) * np.linalg.norm(found)
    assert abs(np.vdot(VALUES, found) - np.vdot(back, FORCES)) <= 1e-14 * size


def test_few_pairs_of_images_are_not_counted_again(monkeypatch):
    """Images have few targets close by, whose number changes by chance from step to step."""
    points = [np.random.default_rng(seed).random((3, 2000)) for seed in range(3)]
    dens = RNG.standard_normal((3, 3, 2000))
    plan = parki.Plan("stokes_dipole", *2 * points[:1], options(2, (1, 1, 1), 1e-3))
    plan(dens)
    plan.update_points(*2 * points[1:2])
    monkeypatch.setattr("parki.ewald.pipeline.arrival.pair_density", None)
    for moved in points:
        plan.update_points(moved, moved)
    monkeypatch.undo()
    assert plan.check(dens).error < plan.promise(dens)


def test_one_graph_of_all_sums(monkeypatch):
    """A device makes it when each sum has one; densities and points may be others."""
    let_the_host_record(monkeypatch)
    given, low = options(2, tolerance=1e-4), SRC * [[1], [1], [0.5]]
    plan, moved = make(SRC, SRC, given), make(low, low, given)(FORCES)
    usual = plan(FORCES)
    for times in range(1, 6):
        assert rms(plan(times * FORCES) - times * usual) <= 1e-12 * rms(usual)
    assert {*plan._combination._graphs} == {1} and not plan._combination._problem
    for _ in range(4):
        both = plan(np.stack([FORCES, 2 * FORCES]))
    assert {*plan._combination._graphs} == {1, 2} and rms(both[1] - 2 * usual) <= 1e-12 * rms(usual)
    for points, exact in ((low, moved), (SRC, usual)):
        for _ in range(3):
            plan.update_points(points, points)
            assert rms(plan(FORCES) - exact) <= 2 * plan.promise(FORCES)
    dipoles, dens = make_dipoles(HIGH, given), RNG.standard_normal((3, 3, 40))
    first = dipoles(dens)
    for _ in range(3):
        found = dipoles(dens)
    assert dipoles._combination._graphs and rms(found - first) <= 1e-12 * rms(first)


@pytest.mark.parametrize("word", ["no-slip", ("no-slip", "no-slip")])
def test_one_graph_places_all_sums(monkeypatch, word):
    """A device waits for no image and its launches; a refusal leaves all as it was."""
    let_the_host_record(monkeypatch)
    given = options(2, tolerance=1e-4, wall=word)
    clouds = [SRC, SRC[:, ::-1] * [[1], [1], [0.9]], SRC * [[1], [0.9], [1]]]
    exact = [make(each, each, given)(FORCES) for each in clouds]
    plan, graphs = make(SRC, SRC, given), []
    launch = Replay.__call__

    def counted(self, inputs, results):
        graphs.append(self)
        launch(self, inputs, results)

    monkeypatch.setattr(Replay, "__call__", counted)
    for n in (1, 2, 0, 1, 2):
        graphs.clear()
        plan.update_points(clouds[n], clouds[n])
        launched = len(graphs)
        assert rms(plan(FORCES) - exact[n]) <= 2 * plan.promise(FORCES)
    assert launched == 1 and len(plan.terms) > 1
    broken = SRC.copy()
    broken[2, 0] = -0.1
    with pytest.raises(parki.ParkiValueError, match="below the wall"):
        plan.update_points(broken, broken)
    assert rms(plan(FORCES) - exact[2]) <= 2 * plan.promise(FORCES)
    fewer = make(SRC[:, 1:], SRC[:, 1:], given)(FORCES[:, 1:])
    for _ in range(3):
        plan.update_points(SRC[:, 1:], SRC[:, 1:])
        assert rms(plan(FORCES[:, 1:]) - fewer) <= 2 * plan.promise(FORCES[:, 1:])
    with pytest.raises(parki.ParkiTypeError, match="trg has dtype float32"):
        plan.update_points(*[SRC[:, 1:].astype("f4")] * 2)


# --- derivatives ----------------------------------------------------------------------------------


def derivative(function, step=1e-3):
    """Return the derivative at 0 of a smooth function of one number."""
    one, two = (function(n * step) - function(-n * step) for n in (1, 2))
    return (8 * one - two) / (12 * step)


def check_slopes(make, dens, back=("grad_u",)):
    """Compare gradient and stress with differences, with each other, and with their adjoints."""
    shifts = 1e-3 * np.concatenate([n * np.eye(3) for n in (1, -1, 2, -2)], axis=1)
    near = make((HIGH[:, None] + shifts[:, :, None]).reshape(3, -1), "u")(dens)
    near = near.reshape(3, 4, 3, -1)
    moved = (8 * (near[:, 0] - near[:, 1]) - near[:, 2] + near[:, 3]) / 12e-3
    plans = {want: make(HIGH, want) for want in ("grad_u", "stress", "p")}
    found = {want: plan(dens) for want, plan in plans.items()}
    slopes, level = found["grad_u"], found["p"] * np.eye(3)[:, :, None]
    assert 0 < rms(slopes - moved) <= 1e-7 * rms(moved)
    apart = found["stress"] - (slopes + slopes.swapaxes(0, 1) - level)
    check, promise = plans["stress"].check(dens), plans["stress"].promise(dens)
    assert 0 < rms(apart) <= 2 * promise < 1e-4 * rms(slopes)
    assert 0 < check.error <= check.promise == promise
    for want in back:
        product = (plans[want].adjoint(found[want]) * dens).sum()
        assert product == pytest.approx((found[want] ** 2).sum(), rel=1e-7)


@pytest.mark.parametrize(
    "periodicity", [2, *(pytest.param(p, marks=pytest.mark.slow) for p in (0, 1))]
)
def test_gradients(periodicity):
    given = options(periodicity, tolerance=1e-9)
    check_slopes(lambda trg, want: make(trg, LOW, given, want=want), FORCES, ("grad_u", "stress"))


@pytest.mark.parametrize("periodicity", [2, pytest.param(0, marks=pytest.mark.slow)])
def test_dipoles(periodicity):
    """They are derivatives of forces by their places, and do not flow at the wall."""
    given, dens = options(periodicity, tolerance=1e-8), RNG.standard_normal((3, 3, 40))
    wall, count = HIGH * [[1], [1], [0]], len(HIGH.T)
    trg = np.concatenate([HIGH, wall], axis=1)
    plan = make_dipoles(trg, given)
    found, promise = plan(dens), plan.promise(dens)

    def moved(want, axis, step):
        return make(HIGH, LOW + step * np.eye(3)[:, axis, None], given, want=want)(dens[:, axis])

    for want, of in (("u", found[:, :count]), ("p", make_dipoles(HIGH, given, want="p")(dens))):
        each = [derivative(partial(moved, want, k), 4e-3) for k in range(3)]
        assert 0 < rms(np.atleast_2d(of - sum(each))) <= 2e-6 * rms(np.atleast_2d(of))
    assert rms(found[:, count:]) <= promise < 1e-5 * rms(found)
    check_slopes(lambda trg, want: make_dipoles(trg, given, want=want), dens)


def make_dipoles(trg, given, **more):
    return parki.Plan("stokes_dipole", trg, LOW, given, **more)


def test_double_layers():
    """A constant one on a closed surface has no flow and no pressure outside, near a wall too."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    angles = 2 * np.pi * np.arange(40) / 40
    z, angles = (array.ravel() for array in np.meshgrid(nodes, angles, indexing="ij"))
    across = np.sqrt(1 - z**2)
    norms = np.stack([across * np.cos(angles), across * np.sin(angles), z])
    radius = 0.15
    areas = np.repeat(weights, 40) * radius**2 * 2 * np.pi / 40
    src = np.array([[0.5], [0.5], [0.4]]) + radius * norms
    q = np.array([[0.3], [-0.5], [0.8]]) * areas
    trg = np.array([[0.5, 0.8, 0.9, 0.2], [0.5, 0.4, 0.1, 0.5], [0.7, 0.3, 0.0, 0.1]])
    given = options(2, tolerance=1e-9)
    plan = parki.Plan("stokes_dl", trg, src, norms, given)
    one = np.abs(plan(q * np.eye(960)[0])).max()
    assert one > 1e-4 and np.abs(plan(q)).max() <= 1e-6
    assert np.abs(parki.stokes_dl(trg, src, q, norms, given, want="p")).max() <= 1e-5
    low, wall = norms[:, :40].copy(), HIGH * [[1], [1], [0]]
    plan = parki.Plan("stokes_dl", np.concatenate([HIGH, wall], axis=1), LOW, low, options())
    found = plan(FORCES)
    assert rms(found[:, 30:]) <= plan.promise(FORCES) < 1e-5 * rms(found)
    check_slopes(
        lambda trg, want: parki.Plan("stokes_dl", trg, LOW, low, given, want=want),
        FORCES,
        back=("grad_u", "p"),
    )


def test_multipoles():
    """Parts of sums near a wall, in a box whose length is no unit of the solver."""
    unit = 12.0
    dens, scale = RNG.standard_normal((13, 40)), unit ** np.repeat([0.0, 1, 2], [1, 3, 9])
    q, d, tensors = np.split(dens * scale[:, None], [1, 4])
    tensors = tensors.reshape(3, 3, 40)
    trg, src, sums = unit * HIGH, unit * LOW, {"periodicity": 0, "tolerance": 1e-7}
    sums["box"] = [unit * edge for edge in BOX]
    both, trace = tensors + tensors.swapaxes(0, 1), np.einsum("jjs->s", tensors)

    def exactly(step):
        """Return the potential and its slope."""
        d1 = np.linalg.norm(r := trg[:, :, None] - src[:, None] + step[:, None, None], axis=0)
        along, across = (r * d[:, None]).sum(axis=0), np.einsum("jks,kts->jts", both, r)
        square = (r * across).sum(axis=0) / 2
        phi = q / d1 + (along - trace) / d1**3 + 3 * square / d1**5
        slope = r * (-q / d1**3 + 3 * (trace - along) / d1**5 - 15 * square / d1**7)
        slope += d[:, None] / d1**3 + 3 * across / d1**5
        return phi.sum(axis=1)[None], slope.sum(axis=2)

    given, (phi, slope) = scale[:, None] * dens, exactly(np.zeros(3))
    each = [derivative(lambda s, e=e: exactly(s * e)[1], unit * 1e-4) for e in np.eye(3)]
    flows = np.stack(each, axis=1).reshape(9, -1)
    slopes = flows.reshape(3, 3, -1)
    for kernel, want, exact in (
        ("multipoles(order=2)", ("u", "grad_u"), (phi, slope)),
        ("multipole_flow(order=2)", ("u", "grad_u"), (slope, flows)),
        *(
            (f"multipole_axis_derivative(up={up})", ("u",), (along,))
            for up, along in enumerate(slopes)
        ),
    ):
        plan = parki.Plan(kernel, trg, src, want=want, **sums)
        for found, one, promise in zip(plan(given), exact, plan.promise(given), strict=True):
            assert 0 < rms(found.reshape(one.shape) - one) <= promise < 2e-4 * rms(one), kernel
    few = given[:4]
    plan = parki.Plan("multipoles(order=1)", trg, src, **sums)
    assert (plan.adjoint(plan(few)) * few).sum() == pytest.approx((plan(few) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("face", [f for f in others.FACES if f.name in ("torch", "jax")], ids=str)
def test_other_libraries(face):
    """Their reverse mode has parki's derivatives by points and densities."""
    given = Given("stokes_sl", TRG, SRC, FORCES, None, options())
    assert np.allclose(face.apply(given, FORCES), make()(FORCES), rtol=1e-10, atol=1e-10)
    found, exact = (each.pull(given, given, VALUES) for each in (face, Call()))
    for name in ("trg", "src", "dens"):
        assert rms(found[name] - exact[name]) <= 1e-12 * rms(exact[name]), name


# --- the choice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1, 4])
def test_pairs_of_targets_and_images(power):
    """The cost model counts how few of them are close, and how many where points are low."""
    points = np.random.default_rng(5).random((3, 20_000))
    points[2] **= power
    points *= EDGES
    plan = make(points, points, options(2, BOX, 1e-3))
    charges = plan.terms[1].sum.pipeline.setup
    below = points * [[1], [1], [-1]]
    cutoff = charges.parameters.cutoff * (2 * np.prod(BOX)) ** (1 / 3)
    shifts = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1])).reshape(2, 9)
    trees = [
        cKDTree(each.T) for each in (points[:, points[2] < cutoff], below[:, below[2] > -cutoff])
    ]
    count = 0
    for shift in shifts.T:
        moved = cKDTree(trees[1].data + np.append(shift, 0) * BOX)
        count += trees[0].count_neighbors(moved, cutoff)
    assert 0.6 * count <= charges.parameters.pairs <= 1.7 * count
    if power == 1:
        assert plan.terms[0].sum.pipeline.setup.parameters.pairs > 3 * count


# --- refusals -------------------------------------------------------------------------------------


def test_another_periodic_axis():
    """The second axis alone is periodic, as the first is where both change places."""
    given = options(1, (BOX[1], BOX[0], BOX[2]))
    other = replace(given, periodicity=(False, True, False), box=BOX)
    turned = make(TRG[[1, 0, 2]], SRC[[1, 0, 2]], given)(FORCES[[1, 0, 2]])
    promise = make(given=other).promise(FORCES)
    assert rms(make(given=other)(FORCES) - turned[[1, 0, 2]]) < promise
    assert make(given=other).check(FORCES).error < promise


def test_points_out_of_reach():
    for name, box in (("trg", BOX), ("src", (1.2, 1.0, None))):
        arrays = {"trg": TRG, "src": SRC, name: TRG - [[0], [0], [1]]}
        with pytest.raises(parki.ParkiValueError, match=f"{name} reaches to -.* below the wall"):
            parki.stokes_sl(arrays["trg"], arrays["src"], FORCES, options(2, box))
        with pytest.raises(parki.ParkiValueError, match=f"{name} reaches to -.* below the wall"):
            parki.vjp("stokes_sl", *arrays.values(), FORCES, options(2, box), values=VALUES)
    high = TRG + np.array([[0], [0], [1]])
    with pytest.raises(parki.ParkiValueError, match=r"but the box there is \[0, 0\.8\]"):
        make(high, SRC)


HAS = "near a wall parki sums stokes_sl, stokes_dipole, stokes_dl, stokes_rotlet, stokes_comb, with"
FREE_SLIP = "which free slip with want='u' does not have"
VALUE, TYPE = parki.ParkiValueError, parki.ParkiTypeError


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (VALUE, "wall is 'slip'; expected one of no-slip", lambda: options(wall="slip")),
        (VALUE, "wall is 'no-slip', but periodicity is 3", lambda: options(3)),
        (VALUE, "which must be free", lambda: options((True, False, True))),
        (VALUE, r"want (has|is)", lambda: make(want="grad_tensor")),
        (VALUE, r"want (has|is)", lambda: make(want=("u", "u"))),
        (VALUE, r"want (has|is)", lambda: make(want=())),
        (VALUE, HAS, lambda: parki.Plan("laplace", TRG, SRC, None, options())),
        (VALUE, HAS, lambda: parki.Plan("laplace_dipole", TRG, SRC, None, options())),
        (VALUE, HAS, lambda: pulled("laplace")),
        (VALUE, FREE_SLIP, lambda: parki.Plan(SLIP, TRG, SRC, options())),
        (VALUE, FREE_SLIP, lambda: pulled(SLIP)),
        (TYPE, "norms was given, but stokes_sl has no", lambda: pulled("stokes_sl", SRC)),
        (
            VALUE,
            "wall is 'no-slip', which this sum does not",
            lambda: sum_once("stokes_sl", TRG, SRC, FORCES, None, options()),
        ),
        (
            ValueError,
            "wall is 'no-slip', which direct_sum does not have",
            lambda: direct_sum("stokes_sl", TRG, SRC, FORCES, options=options()),
        ),
    ],
)
def test_refused(error, words, call):
    with pytest.raises(error, match=words):
        call()


def pulled(kernel, norms=None):
    return parki.vjp(kernel, TRG, SRC, FORCES, norms, options(), values=VALUES)
