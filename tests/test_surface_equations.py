"""Equations on surfaces: exact drags and speeds, preconditioners, transposes, and moves."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse.linalg import gmres
from scipy.spatial.transform import Rotation
from started import NO_GPU

import parki
from parki.interchange import to_host

FREE = {"periodicity": 0, "tolerance": 1e-9}
BOX = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-7}
AXES = np.array([1.0, 0.7, 0.5])
ORIGIN = np.zeros((3, 1))
UP = np.array([[0.0], [0.0], [1.0]])


def solved(equation, right_side, preconditioned=True, rtol=1e-9):
    """Return a density and the steps of GMRES."""
    steps = []
    more = {"M": equation.preconditioner()} if preconditioned else {}
    more |= {"callback": steps.append, "callback_type": "pr_norm"}
    q, status = gmres(equation.as_linear_operator(), right_side.ravel(), rtol=rtol, **more)
    assert status == 0
    return q.reshape(3, -1), len(steps)


def oberbeck(axis):
    """Return the drag of an ellipsoid along an axis, for viscosity 1."""
    square = AXES**2
    root = lambda s: np.sqrt(np.prod(square + s))  # noqa: E731
    chi = quad(lambda s: 1 / root(s), 0, np.inf)[0]
    alpha = square[axis] * quad(lambda s: 1 / (square[axis] + s) / root(s), 0, np.inf)[0]
    return 16 * np.pi / (chi + alpha)


def array_of(kind, fraction, order):
    """Return K of a simple cubic array of spheres, and the steps of GMRES."""
    a = (3 * fraction / (4 * np.pi)) ** (1 / 3)
    surface = parki.Surface.spheres(np.full((3, 1), 0.5), a, order=order)
    equation = kind(surface, **BOX)
    if kind is parki.RigidSurfaces:
        q, steps = solved(equation, equation.right_side(UP), rtol=1e-7)
        return 1 / (6 * np.pi * a * equation.motion(q)[0][2, 0]), steps
    q, steps = solved(equation, equation.right_side(UP + 0 * surface.nodes), rtol=1e-7)
    return equation.resultants(q)[0][2, 0] / (6 * np.pi * a), steps


def two_bodies(**more):
    centres = np.array([[0.3, 0.75], [0.5, 0.45], [0.45, 0.55]])
    axes = np.array([[0.2, 0.25], [0.2, 0.2], [0.2, 0.15]])
    return parki.Surface.ellipsoids(
        centres, axes, Rotation.random(2, random_state=1), order=5, **more
    )


@pytest.mark.parametrize("kind", [parki.RigidSurfaces, parki.FirstKind])
def test_cubic_arrays(kind):
    """Sangani and Acrivos, and the value of both equations on finer nodes."""
    K, steps = array_of(kind, 0.343, 8)
    assert abs(K / 15.3996 - 1) < 1e-4
    assert steps < 16


def test_drag_of_an_ellipsoid():
    """By both equations; and the flow near it, which is U on it, and its force far away."""
    surface, axis = parki.Surface.ellipsoids(ORIGIN, AXES, order=8), 0
    equation = parki.RigidSurfaces(surface, **FREE)
    force = np.eye(3)[:, :1]
    q, steps = solved(equation, equation.right_side(force))
    velocity, spin = equation.motion(q)
    assert np.abs(velocity * oberbeck(axis) - force).max() < 2e-5 and np.abs(spin).max() < 1e-9
    assert steps < 8
    x = 1.01 * surface.nodes[:, ::5]
    u = surface.combined(equation.layers(q, force), x, **FREE) / (8 * np.pi)
    assert np.abs(u / np.abs(velocity).max() - force).max() < 4e-2
    first = parki.FirstKind(surface, **FREE)
    f, _ = solved(first, first.right_side(force + 0 * surface.nodes))
    assert np.abs(first.resultants(f)[0] / oberbeck(axis) - force).max() < 2e-5


def test_torques():
    """A sphere turns as T / (8 pi a^3), whether it is solved by U or by F."""
    surface = parki.Surface.spheres(np.array([[0.3], [0.2], [0.1]]), 0.5, order=5)
    torque = np.array([[1.0], [-2.0], [0.5]])
    equation = parki.RigidSurfaces(surface, **FREE)
    q, _ = solved(equation, equation.right_side(0 * torque, torque))
    velocity, spin = equation.motion(q)
    assert np.allclose(spin, torque / np.pi, rtol=1e-5) and np.abs(velocity).max() < 1e-7
    first = parki.FirstKind(surface, **FREE)
    turning = np.cross(torque.T / np.pi, (surface.nodes - [[0.3], [0.2], [0.1]]).T).T
    f, _ = solved(first, first.right_side(turning))
    assert np.allclose(first.resultants(f)[1], torque, rtol=1e-5)


def test_singular_own_parts():
    """Nodes alone do not tell all forces of the first kind apart: half of them make no flow."""
    surface = parki.Surface.spheres(ORIGIN, 1.0, order=10, finer=1)
    equation = parki.FirstKind(surface, **FREE)
    with pytest.raises(parki.errors.ParkiValueError, match=r"condition of .*finer=3"):
        equation.preconditioner()
    f, _ = solved(equation, equation.right_side(UP + 0 * surface.nodes), False, 1e-3)
    assert abs(equation.resultants(f)[0][2, 0] / (6 * np.pi) - 1) < 1e-3


def test_a_ring():
    """A thin torus: its centre is in the fluid. Both equations have the same drag."""
    surface = parki.Surface.tori(ORIGIN, 1.0, 0.4, steps=(24, 10), finer=3)
    equation = parki.RigidSurfaces(surface, **FREE)
    q, _ = solved(equation, equation.right_side(UP), rtol=1e-6)
    drag = 1 / equation.motion(q)[0][2, 0]
    first = parki.FirstKind(surface, **FREE)
    f, _ = solved(first, first.right_side(UP + 0 * surface.nodes), rtol=1e-6)
    assert abs(first.resultants(f)[0][2, 0] / drag - 1) < 1e-3


@pytest.mark.parametrize("ratio", [0.0, 5.0, 1e4])
def test_drops(ratio):
    """Hadamard and Rybczynski: a drop that differs in weight, from a bubble to a stiff one."""
    surface = parki.Surface.spheres(ORIGIN, 1.0, order=6)
    equation = parki.Drops(surface, ratio, **FREE)
    pull = surface.nodes[2] * surface.normals / (4 / 3 * np.pi)
    u, steps = solved(equation, equation.right_side(pull))
    volume, n = 4 / 3 * np.pi, surface.normals
    speed = (surface.nodes[2] * (u * n).sum(axis=0)) @ surface.areas / volume
    assert abs(speed * 2 * np.pi * (2 + 3 * ratio) / (1 + ratio) - 1) < 2e-5
    assert steps < 4  # alone, the preconditioner is the inverse


KINDS = [(parki.RigidSurfaces, {}), (parki.FirstKind, {}), (parki.Drops, {"ratio": 4.0})]


@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_transposes(kind, more):
    equation = kind(two_bodies(), **more, **BOX)
    rng = np.random.default_rng(0)
    for operator in (equation.as_linear_operator(), equation.preconditioner()):
        q, v = rng.normal(size=(2, operator.shape[0]))
        forward, back = v @ (operator @ q), q @ operator.rmatvec(v)
        assert abs(forward - back) < 1e-9 * np.linalg.norm(v) * np.linalg.norm(operator @ q)
        several = operator.matmat(np.stack([q, (2 + 1j) * q], axis=1))
        assert np.allclose(several[:, 1], (2 + 1j) * (operator @ q))


@pytest.mark.parametrize(("kind", "more"), KINDS)
@pytest.mark.parametrize("finer", [1, 3])
def test_preconditioners_are_inverses_of_bodies(kind, more, finer):
    """Alone in free space, also where it is turned; and after moves, which keep own parts."""
    turn = Rotation.random(2, random_state=3)
    axes = np.array([0.25, 0.2, 0.15])
    body = parki.Surface.ellipsoids(ORIGIN, axes, turn[0], order=5, finer=finer)
    equation = kind(body, **more, **FREE)
    q = np.random.default_rng(0).normal(size=body.nodes.size)
    for _ in range(2):
        operator, inverse = equation.as_linear_operator(), equation.preconditioner()
        near = 1e-5 if finer > 1 else 1e-3  # few nodes alone make a matrix that is less regular
        assert np.abs(inverse @ (operator @ q) - q).max() < near * np.abs(q).max()
        equation.update_positions(ORIGIN + 0.5, turn[1])


def test_bodies_keep_their_plan_and_own_parts():
    surface = two_bodies()
    equation = parki.RigidSurfaces(surface, **BOX)
    force = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, -1.0]])
    solved(equation, equation.right_side(force), rtol=1e-5)
    plan, kept = equation.layer._plan, [id(each) for each in surface.shapes[0].matrices.values()]
    turn = Rotation.random(2, random_state=5)
    moved = surface.centres + 0.02
    equation.update_positions(moved, turn.as_quat().T)
    assert equation.layer._plan is plan
    assert [id(each) for each in surface.shapes[0].matrices.values()] == kept
    anew = parki.RigidSurfaces(surface.moved(moved, turn), **BOX)
    values = [each(each.right_side(force)) for each in (equation, anew)]
    assert np.allclose(*values)
    q, _ = solved(equation, equation.right_side(force), rtol=1e-6)
    assert np.abs(equation.motion(q)[0]).max() > 0


def test_a_plan_follows_bodies_out_of_its_box():
    """In free space the extent of the first points ends nowhere for bodies that leave it."""
    surface = parki.Surface.spheres(ORIGIN, 1.0, order=4)
    plan = parki.LayerPlan("stokes_sl", surface, **FREE)
    before = plan(surface.nodes)
    plan.update_positions(ORIGIN + 50.0)
    assert np.allclose(plan(surface.nodes), before)


def test_refusals():
    surface = parki.Surface.spheres(ORIGIN, 1.0, order=3)
    equation = parki.RigidSurfaces(surface, **FREE)
    wall = {"periodicity": 2, "box": [9, 9, None], "wall": "no-slip", "tolerance": 1e-4}
    for words, call in (
        ("ratio is -1", lambda: parki.Drops(surface, -1.0, **FREE)),
        (r"forces has shape \(3, 2\)", lambda: equation.right_side(np.zeros((3, 2)))),
        ("density has shape", lambda: equation(np.zeros((3, 2)))),
        ("^forces or torques contains NaN", lambda: equation.right_side(np.full((3, 1), np.nan))),
        ("^density contains NaN", lambda: equation(np.nan * surface.nodes)),
        (r"reshape\(3, -1\)", lambda: equation.motion(surface.nodes.ravel())),
        ("images in a wall", lambda: parki.RigidSurfaces(surface, **wall)),
    ):
        with pytest.raises(parki.ParkiValueError, match=words):
            call()


def velocities(surface, forces, rtol=1e-7, **options):
    """Return velocities and angular velocities of bodies."""
    equation = parki.RigidSurfaces(surface, **options)
    q, _ = solved(equation, equation.right_side(forces), rtol=rtol)
    return np.concatenate(equation.motion(q))


def test_bodies_cross_the_faces_of_tilted_boxes():
    """Moved by as much, and in another basis of the same lattice, they have the same velocities."""
    cell = np.array([[1.0, 0, 0], [0.3, 1.0, 0], [0, 0.1, 1.0]])
    surface, forces = two_bodies(), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, -1.0]])
    expected = velocities(surface, forces, **BOX | {"box": cell})
    elsewhere = surface.moved(surface.centres + np.array([[0.4], [0.55], [0.3]]))
    moved = velocities(elsewhere, forces, **BOX | {"box": cell})
    assert np.abs(moved - expected).max() < 1e-5 * np.abs(expected).max()
    straight = velocities(surface, forces, **BOX)
    assert np.abs(straight - expected).max() > 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("periodicity", [1, 2])
def test_long_boxes_are_free_space(periodicity):
    """The velocity of a sphere in few periods, far from its images, nears that alone."""
    surface = parki.Surface.spheres(np.full((3, 1), 0.5), 0.1, order=4)
    slow = []
    for length in (8.0, 16.0):
        box = [length if axis < periodicity else None for axis in range(3)]
        moved = velocities(surface, UP, periodicity=periodicity, box=box, tolerance=1e-7)
        slow.append(abs(moved[2, 0] * 6 * np.pi * 0.1 - 1))
    assert slow[1] < 0.6 * slow[0] < 0.1


def test_the_gauge_of_double_layers():
    """Rigid bodies and fluid together have no mean velocity by "flux", the default; K says so."""
    surface = parki.Surface.spheres(np.full((3, 1), 0.5), 0.31, order=5)
    by_default = velocities(surface, UP, **BOX)
    assert np.array_equal(by_default, velocities(surface, UP, dl_mean="flux", **BOX))
    other = velocities(surface, UP, dl_mean="zero", **BOX)
    assert abs(other[2, 0] / by_default[2, 0] - 1) > 1e-2


def test_single_precision():
    """Centres of float32 make all of it float32; drags keep five digits."""
    centres = np.full((3, 1), 0.5, np.float32)
    surface = parki.Surface.ellipsoids(centres, [0.3, 0.2, 0.2], order=6)
    double = parki.Surface.ellipsoids(centres.astype(float), [0.3, 0.2, 0.2], order=6)
    options = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-5}
    found = velocities(surface, UP.astype(np.float32), rtol=1e-5, **options)
    assert found.dtype == np.float32
    assert np.abs(found - velocities(double, UP, **options)).max() < 3e-5 * np.abs(found).max()


def test_a_flow_without_the_bodies():
    """A sphere goes with a uniform flow, and turns with half of the vorticity in a shear."""
    surface = parki.Surface.spheres(ORIGIN, 1.0, order=5)
    equation = parki.RigidSurfaces(surface, **FREE)
    flow = np.stack([2.0 + surface.nodes[1], 0 * surface.areas, 0 * surface.areas])
    q, _ = solved(equation, equation.right_side(flow=flow))
    velocity, spin = equation.motion(q)
    assert np.allclose(velocity[:, 0], [2, 0, 0], atol=1e-5)
    assert np.allclose(spin[:, 0], [0, 0, -0.5], atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_gpu(kind, more):
    """Operators, right sides and preconditioners as on the CPU, also after a move."""
    import cupy

    def values(xp):
        surface = two_bodies()
        turn = Rotation.from_matrix(surface.frames)
        axes = np.array([[0.2, 0.25], [0.2, 0.2], [0.2, 0.15]])
        given = xp.asarray(surface.centres), axes, turn
        equation = kind(parki.Surface.ellipsoids(*given, order=5), **more, **BOX)
        equation.update_positions(xp.asarray(surface.centres + 0.03), turn)
        q = xp.asarray(np.random.default_rng(0).normal(size=surface.nodes.shape))
        bodies = kind is parki.RigidSurfaces
        side = equation.right_side(xp.asarray(surface.centres) if bodies else q)
        inverse = equation.preconditioner() @ q.ravel()
        return [to_host(each) for each in (equation(q), equation.adjoint(q), side, inverse)]

    for host, device in zip(values(np), values(cupy), strict=True):
        assert np.abs(host - device).max() < 1e-6 * np.abs(host).max()


def ring_and_ball():
    ball = parki.Surface.spheres(ORIGIN, 0.5, order=5)
    return parki.Surface.join(parki.Surface.tori(ORIGIN, 1.0, 0.3, steps=(20, 8)), ball)


def two_balls(place, **more):
    centres = np.stack([[0.0, 0.0, 0.0], place], axis=1)
    return parki.Surface.spheres(centres, np.array([1.0, 0.3]), order=5, **more)


def crossed_rods():
    """The second one is within the ball around the first one, and not inside of it."""
    turn = Rotation.from_euler("x", [[0], [90]], degrees=True)
    centres = np.array([[0.0, 0.9], [0.0, 0.0], [0.0, 0.0]])
    return parki.Surface.rods(centres, 2.4, 0.3, turn, order=6)


INSIDE = r"body 1 is inside of body 0, where the equation has no fluid"
CLOSED = {
    "deep": (lambda: two_balls([0.2, 0, 0]), True),
    "near the wall": (lambda: two_balls([0.5, 0.0, 0]), True),
    "outside": (lambda: two_balls([1.9, 0, 0]), False),
    "rods": (crossed_rods, False),
    "in a hole": (ring_and_ball, False),
}


def said(make, match="is inside of"):
    """Return what was warned of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        make()
    return [str(each.message) for each in found if match in str(each.message)]


@pytest.mark.parametrize("place", CLOSED)
def test_a_body_inside_of_another(place):
    """Told where bodies are outside of each other; a plain layer may have a cavity."""
    make, inside = CLOSED[place]
    surface = make()
    found = said(lambda: parki.RigidSurfaces(surface, **FREE))
    assert len(found) == inside and all(re.match(INSIDE, each) for each in found)
    assert not said(lambda: parki.LayerPlan("stokes_dl", surface, **FREE))


def test_bodies_inside_of_others_by_equation():
    """Drops of the fluid's own viscosity may be, and bodies whose velocities are given."""
    surface = two_balls([0.2, 0, 0])
    assert len(said(lambda: parki.Drops(surface, 0.5, **FREE))) == 1
    assert not said(lambda: parki.Drops(surface, 1.0, **FREE), match="")
    assert not said(lambda: parki.FirstKind(surface, **FREE))


def test_a_body_moves_into_another():
    """Through a face of the box; a warning that is an error leaves the bodies where they were."""
    centres = np.array([[0.1, 0.6], [0.5, 0.5], [0.5, 0.5]])
    surface = parki.Surface.spheres(centres, np.array([0.3, 0.05]), order=5)
    equation = parki.RigidSurfaces(surface, **BOX)
    there = np.array([[0.1, 0.93], [0.5, 0.45], [0.5, 0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(parki.ParkiWarning, match=INSIDE):
                equation.update_positions(there)
            assert equation.surface is surface
    with pytest.warns(parki.ParkiWarning, match=INSIDE):
        equation.update_positions(there)
    assert not said(lambda: equation.update_positions(there + 0.01))  # once for each equation


def test_motions_are_of_the_library_of_densities():
    """They were NumPy's."""
    torch = pytest.importorskip("torch")
    surface = parki.Surface.spheres(ORIGIN, 1.0, order=4)
    density = torch.from_numpy(surface.nodes + surface.normals)
    found = [
        *parki.RigidSurfaces(surface, **FREE).motion(density),
        *parki.FirstKind(surface, **FREE).resultants(density),
    ]
    assert all(isinstance(each, torch.Tensor) and each.shape == (3, 1) for each in found)


# ---------------------------------------------------------------- drops
@pytest.mark.parametrize("ratio", [0.0, 1.0, 4.0])
def test_drops_rise_as_hadamard_and_rybczynski_found(ratio):
    """Two densities far apart in a surface, and what a star's forces add up to."""
    radius, excess, gravity = 0.8, np.array([-1.5, 0.5]), np.array([0.0, 3.0, -4.0])
    centres = np.array([[0.0, 1e7], [0.2, 0.0], [0.0, 0.0]])
    equation = parki.Drops(parki.Surface.spheres(centres, radius, order=5), ratio, **FREE)
    surface = equation.surface
    b = equation.right_side(equation.buoyancy(excess, gravity))
    u = b if ratio == 1 else solved(equation, b)[0]
    speed = 2 / 3 * radius**2 * (1 + ratio) / (2 + 3 * ratio) * excess[surface.home]
    rising = (gravity[:, None] * speed * surface.normals).sum(axis=0)
    assert np.abs((u * surface.normals).sum(axis=0) - rising).max() < 1e-5 * np.abs(rising).max()


def test_weight_is_that_of_the_volume():
    y = parki.Surface.directions(9)
    star = parki.Surface.harmonics((1 + 0.2 * y[0] ** 3) * y + 3.0)
    gravity = np.array([0.1, 0.2, -1.0])
    forces = parki.Drops(star, 1.0, **FREE).buoyancy(2.0, gravity)
    weight = (forces * star.areas).sum(axis=1)
    assert np.allclose(weight, 2.0 * gravity * star.volumes[0], rtol=1e-5)


REFUSED_BUOYANCY = {
    r"difference has shape \(3,\); expected a number, or 2": (np.ones(3), np.ones(3)),
    r"gravity has shape \(2,\); expected \(3,\)": (1.0, np.ones(2)),
    "gravity contains NaN": (1.0, np.array([0.0, 0.0, np.nan])),
}


@pytest.mark.parametrize("words", REFUSED_BUOYANCY)
def test_buoyancy_refuses(words):
    drops = parki.Drops(two_bodies(), 1.0, **BOX)
    with pytest.raises(parki.ParkiValueError, match=words):
        drops.buoyancy(*REFUSED_BUOYANCY[words])


def test_volumes_and_middles():
    """Ellipsoids turn, and a body's middle is not that of its nodes."""
    bodies = two_bodies()
    axes = np.array([[0.2, 0.25], [0.2, 0.2], [0.2, 0.15]])
    assert np.allclose(bodies.volumes, 4 / 3 * np.pi * axes.prod(axis=0), rtol=1e-10)
    assert np.allclose(bodies.centroids, bodies.centres, atol=1e-12)
    assert np.allclose(bodies.total_areas[0], 4 * np.pi * 0.04)
    y = parki.Surface.directions(6)
    # The height z of a cut is stretched to z + z^2 / 4, whose integrals are those of polynomials.
    bent = parki.Surface.harmonics(np.stack([y[0], y[1], y[2] + 0.25 * y[2] ** 2]))
    assert np.allclose(bent.volumes, 4 / 3 * np.pi)
    assert np.allclose(bent.centroids[:, 0], [0.0, 0.0, 0.15], atol=1e-9)


def test_drops_in_a_box_that_shears():
    """A box that has sheared by whole periods is the same; in between it is a new equation's."""
    bodies, rate = two_bodies(), 0.4
    q = np.random.default_rng(1).normal(size=bodies.nodes.shape)
    gravity = np.array([0.3, -1.0, 0.2])

    def velocities(drops):
        y = drops.surface.nodes[1]
        forces = drops.buoyancy(1.0, gravity) - drops.surface.curvature * drops.surface.normals
        b = drops.right_side(forces, np.stack([rate * y, 0 * y, 0 * y]))
        return drops(q), b

    sheared = {"xy": 0.3, "whole": 2.3}
    still = parki.Drops(bodies, 2.0, **BOX)
    first = velocities(still)
    for tilt in sheared.values():
        still.update(bodies, box=parki.lattice(1, 1, 1, xy=tilt))
        fresh = parki.Drops(bodies, 2.0, **BOX | {"box": parki.lattice(1, 1, 1, xy=0.3)})
        for one, other in zip(velocities(still), velocities(fresh), strict=True):
            assert np.abs(one - other).max() < 1e-5 * np.abs(other).max()
    still.update_positions(bodies.centres, box=parki.lattice(1, 1, 1, xy=1.0))
    for one, other in zip(velocities(still), first, strict=True):
        assert np.abs(one - other).max() < 1e-5 * np.abs(other).max()
