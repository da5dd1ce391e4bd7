"""Spheres near a wall, against closed forms and against Laplacians of flows of points."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract import matrix_of, rms
from scipy.linalg import sqrtm

import parki
from parki.ewald.sums import kernel
from parki.reference import drag_towards_wall
from parki.suspensions import wall

BOX = (1.2, 1.0, 0.8)
RNG = np.random.default_rng(3)
POINTS = RNG.random((3, 12)) * [[1.2], [1.0], [0.6]] + [[0], [0], [0.1]]
RADII = np.where(np.arange(12) % 3, 0.05, 0.1)
AXES = (2, np.eye(3)[2]), (0, np.eye(3)[0])
FORCES, VALUES = RNG.standard_normal((2, 3, 12))


def options(periodicity=2, tolerance=1e-7, box=BOX, **more):
    return parki.EwaldOptions(periodicity, box, tolerance, wall="no-slip", **more)


def shell(radius, step=0.01):
    """Return points and weights of a function's mean over a sphere, which is biharmonic there."""
    axes = step * np.eye(3)
    shifts = np.concatenate([np.zeros((3, 1)), axes, -axes, 2 * axes, -2 * axes], axis=1)
    slopes = np.repeat([-7.5, 4 / 3, -1 / 12], [1, 6, 6]) / step**2  # Laplacian, fourth order
    return shifts, np.eye(13)[0] + radius**2 / 6 * slopes


@pytest.mark.parametrize(
    ("t", "box"), [(0.2, None), pytest.param(0.9, BOX, marks=pytest.mark.slow), (1.0, BOX)]
)
def test_a_sphere_alone(t, box):
    """Its mobility has closed forms (Swan and Brady 2007), and a drift away from the wall.

    Where the box has no lengths, its flow gives them.
    """
    height, turned = 0.2, np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1]])
    point = np.array([[0.3], [0.2], [height]])
    sphere = parki.Spheres(point, t * height, options(0, 1e-9, box))
    units = 6 * np.pi * t * height * np.array([1, 1, 1, t * height, t * height, t * height])
    found = matrix_of(sphere.as_linear_operator(torques=True)) * units
    found[3:, 3:] *= 4 / 3 * t * height
    found[3:, :3] *= t * height
    along, across = 1 - 9 / 16 * t + t**3 / 8 - t**5 / 16, 1 - 9 / 8 * t + t**3 / 2 - t**5 / 8
    exact = np.diag([along, along, across, *2 * [1 - 5 / 16 * t**3], 1 - t**3 / 8])
    exact[4, 0] = exact[0, 4] = 3 / 32 * t**4
    exact[3, 1] = exact[1, 3] = -exact[4, 0]
    assert np.allclose(found, exact, rtol=0, atol=1e-9)
    if t < 1:  # so that the mean over these signs is the mean over normal numbers
        given = turned.T.astype(float)
        mobility, factor = sphere._mobility, sphere.factor
        whites = [lambda _, w=w: w[:, None] for w in given]
        drawn = [
            wall.divergence(mobility, standard_normal, factor=factor)[0]
            for standard_normal in whites
        ]
        rate = (9 / 8 * t - 3 / 2 * t**3 + 5 / 8 * t**5) / height / (6 * np.pi * t * height)
        assert np.mean(drawn, axis=0)[:, 0] == pytest.approx([0, 0, rate], rel=2e-4, abs=1e-6)


@pytest.mark.parametrize("periodicity", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_different_radii(periodicity):
    """Spheres that do not overlap take Laplacians of the flow of points, by x and by y."""
    given, (a, b), force = options(periodicity, 1e-10), (0.12, 0.1), FORCES[:, :1]
    x, y = np.array([[0.4], [0.5], [0.2]]), np.array([[0.7], [0.7], [0.4]])
    shifts, weights = shell(a)
    others, acting = shell(b)
    sums = parki.Plan("stokes_sl", x + shifts, y + others, given)
    flow = sums(force * acting) / (4 * np.pi)
    forces = np.concatenate([0 * force, force], axis=1)
    spheres = parki.Spheres(np.concatenate([x, y], axis=1), [a, b], given, viscosity=0.5)
    found, exact = spheres.velocities(forces)[:, 0], flow @ weights
    assert 0 < np.abs(found - exact).max() <= 1e-5 * np.abs(exact).max()
    want = ("u", "p", "grad_u", "stress")
    u, p, slopes, stress = spheres.flow(forces, x, want=want)
    assert np.allclose(u[:, 0], flow[:, 0], rtol=1e-5, atol=0)
    for found, name, scale in ((p, "p", 8), (slopes, "grad_u", 4), (stress, "stress", 8)):
        exact = parki.stokes_sl(x, y + others, force * acting, given, want=name)
        exact = exact / (scale * np.pi)
        assert np.abs(found - exact).max() <= 1e-5 * np.abs(exact).max(), name


def test_many_radii():
    """All differ: each pair is what a sum of its two radii has, and there are three sums."""
    rng, count, given = np.random.default_rng(4), 12, options(2, 1e-6)
    radii = 0.01 + 0.005 * np.arange(count)
    points = rng.random((3, count)) * [[1], [1], [0.6]] + [[0], [0], [0.1]]
    forces = rng.standard_normal((3, count))
    spheres = parki.Spheres(points, radii, given)
    found = spheres.velocities(forces)
    assert len(spheres._mobility.first.terms) == 3
    n, exact = count - 1, np.zeros(3)
    for m in range(count):
        pair = kernel("sphere_sl", radius=radii[n], source_radius=radii[m])
        plan = parki.Plan(pair, points[:, [n]], points[:, [m]], given)
        exact += plan(forces[:, [m]])[:, 0]
    assert np.abs(found[:, n] - spheres.factor * exact).max() <= 1e-6 * np.abs(found).max()


@pytest.mark.parametrize("periodicity", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_torques(periodicity):
    """Apart, spheres turn with half the curl of the flow, of dipoles of forces for torques."""
    given, arms = options(periodicity, 1e-9), np.zeros((3, 3, 3))
    x, y, t = np.array([[0.4], [0.5], [0.2]]), np.array([[0.8], [0.7], [0.3]]), FORCES[:, :1]
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        arms[i, j, k], arms[k, j, i] = 0.5, -0.5
    spheres = parki.Spheres(np.concatenate([x, y], axis=1), [0.12, 0.1], given)
    both = np.concatenate([0 * t, t], axis=1)
    dipoles = np.einsum("ijk,jn->ikn", arms, t)
    slopes = parki.stokes_dipole(x, y, dipoles, given, want="grad_u") / (8 * np.pi)
    for slope, acts in ((spheres.flow(both, x, want="grad_u"), 0), (slopes, 1)):
        forces = [0 * both, 0 * both]
        forces[acts] = both
        found = spheres.velocities(*forces)[1][:, 0]
        exact = np.einsum("kji,ijn->k", arms, slope)
        assert np.abs(found - exact).max() <= 1e-7 * np.abs(exact).max()
    shifts, weights = shell(0.12)
    exact = parki.stokes_dipole(x + shifts, y, dipoles, given) @ weights / (8 * np.pi)
    found = spheres.velocities(0 * both, both)[0][:, 0]
    assert np.abs(found - exact).max() <= 1e-5 * np.abs(exact).max()


def test_derivatives_with_torques():
    """By differences of sums of a finer tolerance; two spheres overlap. A law has forces alone."""
    points, moves = POINTS.copy(), RNG.standard_normal((3, 12))
    points[:, 1] = points[:, 0] + [0.03, -0.02, 0.05]
    acts = FORCES, 0.1 * VALUES

    def moved(step):
        spheres = parki.Spheres(points + step * moves, 0.05, options(tolerance=1e-10))
        return np.array(spheres.velocities(*acts))

    once, twice = (moved(step) - moved(-step) for step in (1e-4, 2e-4))
    exact = (8 * once - twice) / (12 * 1e-4)
    spheres = parki.Spheres(points, 0.05, options())
    change = spheres.jvp(*acts, tangents={"points": moves})
    for found, own in zip(change, exact, strict=True):
        assert 0 < abs(found - own).max() <= 1e-7 * abs(own).max()
    slope = spheres.vjp(*acts, values=VALUES, turns=0.1 * FORCES, wrt=("points",))["points"]
    total = (change[0] * VALUES).sum() + (change[1] * 0.1 * FORCES).sum()
    assert (slope * moves).sum() == pytest.approx(total, rel=1e-6)


def test_flow_by_torques():
    """Outside of spheres it is the flow of dipoles of forces, which images make otherwise."""
    arms, names = np.zeros((3, 3, 3)), ("u", "p", "grad_u", "stress")
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        arms[i, j, k], arms[k, j, i] = 0.5, -0.5
    given = options(2, 1e-9)
    where = RNG.random((3, 40)) * [[1.2], [1.0], [0.7]]
    apart = np.linalg.norm(where[:, :, None] - POINTS[:, None], axis=0).min(axis=1) > 0.1
    where = where[:, apart]
    spheres = parki.Spheres(POINTS, RADII, given, viscosity=0.5)
    found = spheres.flow(None, where, FORCES, want=names)
    dipoles = np.einsum("ijk,jn->ikn", arms, FORCES)
    exact = parki.stokes_dipole(where, POINTS, dipoles, given, want=names)
    for name, one, other in zip(names, found, exact, strict=True):
        other = other / (4 * np.pi if name in ("u", "grad_u") else 8 * np.pi)
        assert 0 < np.linalg.norm(one - other) <= 1e-6 * np.linalg.norm(other), name
    both = spheres.flow(FORCES, where, FORCES), spheres.flow(FORCES, where)
    assert rms(both[0] - both[1] - found[0]) <= 1e-8 * rms(both[0])


def test_noise_with_torques():
    spheres = parki.Spheres(POINTS[:, :3], RADII[:3], options(0, 1e-6))
    mobility = matrix_of(spheres.as_linear_operator(torques=True))
    assert abs(mobility - mobility.T).max() <= 1e-7 * abs(mobility).max()
    scales = np.repeat([(3 * RADII[:3] / 4) ** 0.5, RADII[:3] ** 1.5], 3, axis=0).ravel()
    standard_normal = np.random.default_rng(5).standard_normal(18)
    root = sqrtm(scales[:, None] * mobility * scales).real
    noise = np.stack(spheres.noise(np.random.default_rng(5), torques=True, accuracy=1e-7))
    assert rms(noise.reshape(1, -1) - root @ standard_normal / scales) <= 1e-5 * rms(
        noise.reshape(1, -1)
    )
    step = spheres.displacements(0.5, 0.1, np.random.default_rng(5), None, 0 * FORCES[:, :3])
    assert len(step) == 2 and all(np.isfinite(each).all() for each in step)


def test_a_sheet_of_spheres():
    """One sphere in each cell, against the sum over the images of the pair's mobility."""
    height, radius, force = 0.3, 0.2, np.array([[1.0], [0.3], [0.6]])
    own = np.array([[0.0], [0.0], [height]])
    sheet = parki.Spheres(own, radius, options(2, 1e-9))
    found, sums = sheet.velocities(force) * 8 * np.pi, []
    for size in (6, 12, 24):
        counts = np.arange(-size, size + 1)
        shifts = np.stack(np.meshgrid(counts, counts)).reshape(2, -1) * np.array(BOX)[:2, None]
        shifts = shifts[:, (shifts**2).sum(axis=0) <= (size * BOX[1]) ** 2]
        sources = np.concatenate([shifts, 0 * shifts[:1] + height])
        name = f"sphere_sl(radius={radius}, source_radius={radius})"
        plan = parki.Plan(name, own, sources, options(0, 1e-9, (None, None, None)))
        sums.append(plan(np.repeat(force, sources.shape[1], axis=1)))
    for power in (1, 3):  # as of the lattice sum of points
        sums = [(2**power * b - a) / (2**power - 1) for a, b in pairwise(sums)]
    assert rms(found - sums[0]) <= 1e-3 * rms(found)


def test_the_mobility_and_its_noise():
    spheres = parki.Spheres(POINTS, RADII, options())
    mobility = matrix_of(spheres.as_linear_operator())
    assert abs(mobility - mobility.T).max() <= 1e-6 * abs(mobility).max()
    standard_normal = np.random.default_rng(5).standard_normal((3, 12))
    noise = spheres.noise(np.random.default_rng(5), accuracy=1e-6)
    assert rms(
        noise - (sqrtm(mobility).real @ standard_normal.ravel()).reshape(3, 12)
    ) <= 1e-5 * rms(noise)
    rng = np.random.default_rng(5)
    step = spheres.displacements(0.5, 0.1, rng, FORCES, accuracy=1e-6)
    moved = np.sqrt(0.1) * noise + 0.1 * spheres.velocities(FORCES)
    rng = np.random.default_rng(5)
    rng.standard_normal((3, 12))
    factor = spheres.factor
    (drift,) = wall.divergence(spheres._mobility, rng.standard_normal, factor=factor)
    drift *= 0.05
    assert rms(step - moved - drift) <= 1e-6 * rms(step) and rms(drift) > 1e-4 * rms(step)
    rng = np.random.default_rng(5)  # where the box ends at the highest sphere, which steps beyond
    rng.standard_normal((3, 12))
    tight = parki.Spheres(POINTS, RADII, options(box=(*BOX[:2], None)))
    again = 0.05 * wall.divergence(tight._mobility, rng.standard_normal, factor=factor)[0]
    assert 0 < rms(again - drift) <= 1e-3 * rms(drift)
    name = "sphere_sl(radius=0.1, source_radius=0.05)"  # which PyTorch and JAX differentiate
    given = name, POINTS, POINTS, FORCES, options(0, 1e-6)
    back = parki.vjp(*given, values=VALUES)["dens"]
    assert (back * FORCES).sum() == pytest.approx(
        (parki.Plan(*given[:3], given[4])(FORCES) * VALUES).sum(), rel=1e-5
    )


def test_what_spheres_lack():
    spheres, lower = parki.Spheres(POINTS, RADII, options()), POINTS * [[1], [1], [0.2]]
    before = spheres.velocities(FORCES)
    with pytest.raises(parki.ParkiValueError, match="over the wall, which cuts it"):
        parki.Spheres(lower, 0.1, options())
    with pytest.raises(parki.ParkiValueError, match="over the wall, which cuts it"):
        spheres.update_points(lower)
    assert np.array_equal(spheres.velocities(FORCES), before)


# Goldman, Cox and Brenner (Chemical Engineering Science 22, 637-651, 1967): drags along the wall of
# spheres that do not turn, at heights cosh(alpha).
GOLDMAN = {0.1: 3.7863, 0.3: 2.6475, 0.5: 2.1514, 1.0: 1.5675, 1.5: 1.3079, 2.0: 1.1738}


def test_drag_towards_a_wall():
    """Close to it by Cox and Brenner (1967), far away by Lorentz; between by Brenner (1961)."""
    for gap in (1e-4, 1e-3):
        close = 1 / gap - np.log(gap) / 5 + 0.97128
        assert drag_towards_wall(1 + gap) == pytest.approx(close, abs=2 * gap * abs(np.log(gap)))
    assert drag_towards_wall(50.0) == pytest.approx(1 / (1 - 9 / 8 / 50 + 0.5 / 50**3), rel=1e-7)
    assert drag_towards_wall(np.cosh(1.0)) == pytest.approx(3.0361, abs=2e-4)
    with pytest.raises(ValueError, match="height is 1; expected a number above 1"):
        drag_towards_wall(1)


def test_table_of_what_the_wall_lacks():
    """The manual's table, in which rigid spheres are others' and the blobs' bodies nearly so."""
    text = (Path(__file__).parents[1] / "docs/suspensions.md").read_text(encoding="utf-8")
    rows = (
        text.partition("<!-- wall:")[2].partition("\n\n")[2].partition("\n\n")[0].splitlines()[2:]
    )
    ball, found = parki.BodyShape.sphere(1.0, 162), []
    for alpha, drag in GOLDMAN.items():
        height = np.cosh(alpha)
        place = np.array([[2.0], [2.0], [height]])
        free: dict[str, Any] = {"periodicity": 0, "box": [4, 4, 5], "wall": "no-slip"}
        sphere = parki.Spheres(place, 1.0, **free, tolerance=1e-6)
        across, along = (6 * np.pi * sphere.velocities(unit[:, None])[i, 0] for i, unit in AXES)
        blobs: list[Any] = [None, None]
        if height > ball.extent:
            body = parki.RigidBodies(ball, place, **free, tolerance=1e-4)
            blobs = [6 * np.pi * body.velocities(unit[:, None])[0][i, 0] for i, unit in AXES]
            assert blobs[0] == pytest.approx(1 / drag_towards_wall(height), abs=0.03)
            assert blobs[1] == pytest.approx(1 / drag, abs=0.01)
        rigid = 1 / drag_towards_wall(height), 1 / drag
        values = [height, across, blobs[0], rigid[0], along, blobs[1], rigid[1]]
        found.append(["" if each is None else f"{each:.3f}" for each in values])
    assert [[cell.strip() for cell in row.strip("|").split("|")] for row in rows] == found
    assert "near the wall: no lubrication" in sphere.describe()
