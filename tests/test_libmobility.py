"""libMobility's calls: closed forms, contracts of shapes, and what parki refuses."""

import numpy as np
import pytest
from helpers.sphere_reference import mobility

import parki
from parki.interchange import to_host
from parki.libmobility import PSE, DPStokes, NBody, Solver

RADIUS, VISCOSITY, EDGE, COUNT = 0.9, 1.1, 8.0, 5
BOX = dict.fromkeys(("Lx", "Ly", "Lz"), EDGE)
PERIODIC, OPEN = ("periodic",) * 3, ("open",) * 3
SLIT = ("periodic", "periodic", "two_walls")
SOLVERS = {
    "PSE": (PSE, PERIODIC, {"psi": 1.0, **BOX}),
    "NBody": (NBody, OPEN, {"algorithm": "advise"}),
    "Solver": (Solver, ("periodic", "periodic", "open"), {"Lx": EDGE, "Ly": EDGE}),
    "DPStokes": (DPStokes, SLIT, {"Lx": EDGE, "Ly": EDGE, "zmin": -1, "zmax": EDGE + 1}),
}
NOISY = ("PSE", "NBody", "DPStokes")


def solver(name, angular=False, **given):
    kind, periodicity, parameters = SOLVERS[name]
    made = kind(*periodicity)
    made.setParameters(**parameters)
    made.initialize(VISCOSITY, RADIUS, angular, **given)
    return made


def rows(count=COUNT, seed=0):
    rng = np.random.default_rng(seed)
    return EDGE * rng.random((count, 3)), *rng.standard_normal((2, count, 3))


@pytest.mark.parametrize(
    ("name", "count"), [("PSE", COUNT), ("NBody", COUNT), ("NBody", 3), ("Solver", COUNT)]
)
def test_mobility(name, count):
    """Positions by rows, also of three spheres; physical units; torques move, and forces turn."""
    positions, forces, torques = rows(count)
    found = solver(name, angular=True, tolerance=1e-9)
    found.setPositions(positions)
    box = np.array([EDGE, EDGE, np.ptp(positions[:, 2]) if name == "Solver" else EDGE])
    periodicity = {"PSE": 3, "NBody": 0, "Solver": 2}[name]
    exact = mobility(positions.T, np.full(count, RADIUS), forces.T, torques.T, box, periodicity)
    for ours, theirs in zip(found.Mdot(forces, torques), exact, strict=True):
        np.testing.assert_allclose(8 * np.pi * VISCOSITY * ours.T, theirs, atol=1e-8)
    parts = np.add(found.Mdot(forces), found.Mdot(torques=torques))
    np.testing.assert_allclose(parts, found.Mdot(forces, torques), atol=1e-12)


@pytest.mark.parametrize("angular", [False, True])
@pytest.mark.parametrize("name", NOISY)
def test_noise_and_divergence(name, angular):
    """The noise is that of the same spheres by the same seed, and has a factor."""
    found = solver(name, angular, tolerance=1e-4, seed=3)
    found.setPositions(rows()[0])
    exact = found._spheres.noise(np.random.default_rng(3), torques=angular, accuracy=1e-4)
    noise, drift = found.sqrtMdotW(2.5), found.divM(2.5)
    rng = np.random.default_rng(3)
    rng.standard_normal((2, 3, COUNT) if angular else (3, COUNT))
    drifted = found._spheres.divergence(rng, torques=angular)
    for each, other, moved, own in zip(
        noise, exact if angular else [exact], drift, drifted if angular else [drifted], strict=False
    ):
        np.testing.assert_allclose(each.T, 2.5 * other, rtol=1e-12)
        np.testing.assert_allclose(moved.T, 2.5 * own, rtol=1e-9, atol=1e-12)
        assert np.any(moved) == (name == "DPStokes")
    assert angular or (noise[1] is None and drift[1] is None)


@pytest.mark.parametrize("name", NOISY)
def test_langevin_velocities(name):
    """They are the parts, with the factors of a Brownian step; none at zero temperature."""
    positions, forces, torques = rows()
    seeded = [solver(name, angular=True, seed=7) for _ in range(2)]
    for each in seeded:
        each.setPositions(positions)
    moved, noise = seeded[0].Mdot(forces, torques), seeded[0].sqrtMdotW(np.sqrt(2 * 0.3 / 0.01))
    drift = seeded[0].divM(0.3)
    found = seeded[1].LangevinVelocities(0.01, 0.3, forces, torques)
    for ours, *parts in zip(found, moved, noise, drift, strict=True):
        np.testing.assert_allclose(ours, sum(parts), rtol=1e-9)
    cold = seeded[1].LangevinVelocities(dt=0.01, kbt=0.0, forces=forces, torques=torques)
    np.testing.assert_array_equal(cold, moved)
    np.testing.assert_array_equal(seeded[1].LangevinVelocities(0.01, 0.0), np.zeros((2, COUNT, 3)))
    with pytest.raises(parki.ParkiValueError, match="dt is 0 and kbt is 1; expected a positive"):
        seeded[1].LangevinVelocities(0, 1)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("angular", [False, True])
def test_shapes(name, angular):
    """Each result has the shape of what it belongs to; flat arrays and rows mix."""
    positions, forces, torques = rows()
    found = solver(name, angular)
    for place in (positions, positions.ravel()):
        found.setPositions(place)
        assert found.divM()[0].shape == place.shape
        if name in NOISY:
            assert found.sqrtMdotW()[0].shape == place.shape
            assert found.LangevinVelocities(1.0, 1.0)[0].shape == place.shape
        for force in (forces, forces.ravel()):
            linear, turned = found.Mdot(force)
            np.testing.assert_allclose(linear.ravel(), found.Mdot(forces)[0].ravel(), rtol=1e-9)
            assert linear.shape == force.shape and linear.flags.c_contiguous
            if not angular:
                assert turned is None
                continue
            assert turned.shape == force.shape
            assert [e.shape for e in found.Mdot(torques=force)] == [force.shape] * 2
            both = found.Mdot(force, torques)
            assert [e.shape for e in both] == [force.shape, torques.shape]


def test_libraries_and_precisions():
    torch = pytest.importorskip("torch")
    positions, forces, _ = (each.astype("f4") for each in rows())
    found = solver("PSE", tolerance=1e-3)
    found.setPositions(positions)
    ours = found.Mdot(forces.astype("f8"))[0]
    assert ours.dtype == np.float32  # that of the positions
    found.setPositions(torch.from_numpy(positions))
    theirs = found.Mdot(torch.from_numpy(forces))[0]
    assert isinstance(theirs, torch.Tensor) and isinstance(found.sqrtMdotW()[0], torch.Tensor)
    np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-4, atol=1e-5)
    found.setPositions(positions.tolist())
    assert found.Mdot(forces.tolist())[0].dtype == np.float64


def test_spaces(space):
    """Arrays of a device stay there, its random numbers too."""
    positions, forces, torques = rows()
    xp = space.array_module
    found, host = (solver("PSE", angular=True, seed=1) for _ in range(2))
    found.setPositions(xp.asarray(positions))
    host.setPositions(positions)
    ours = found.Mdot(xp.asarray(forces), xp.asarray(torques))
    for each, theirs in zip(ours, host.Mdot(forces, torques), strict=True):
        np.testing.assert_allclose(to_host(each), theirs, atol=1e-4)
    noisy = found.LangevinVelocities(0.1, 1.0, xp.asarray(forces))
    for each in (*ours, *noisy, *found.sqrtMdotW(), *found.divM()):
        assert isinstance(each, xp.ndarray) and each.shape == (COUNT, 3)


def test_radii_and_options():
    """One for each sphere, and fields of `EwaldOptions`: more than libMobility takes."""
    positions, forces, _ = rows()
    radii = np.where(np.arange(COUNT) % 2, 0.5, 0.8)
    found = PSE(*PERIODIC)
    found.setParameters(1.0, EDGE, EDGE, EDGE, split="hasimoto")
    found.initialize(VISCOSITY, radii, tolerance=1e-6)
    found.setPositions(positions)
    exact, _ = mobility(positions.T, radii, forces.T, 0 * forces.T, np.full(3, EDGE), 3)
    np.testing.assert_allclose(8 * np.pi * VISCOSITY * found.Mdot(forces)[0].T, exact, atol=1e-5)


# Of a sphere of radius 0.1 at 0.3 over the lower of two walls, over its mobility alone.
ALONE = 0.87166648, 0.83808436, 0.60819426, 0.98769420, 0.98764625, 0.99342253


@pytest.mark.parametrize("floor", [0.0, 5.4, -10.0])
def test_walls_at_any_height(floor):
    """The mobility of one sphere, wherever the lower wall is: closed forms by modes."""
    found = DPStokes(*SLIT)
    found.setParameters(Lx=1.0, Ly=1.2, zmin=floor, zmax=floor + 0.8)
    found.initialize(1.0, 0.1, includeAngular=True, tolerance=1e-8)
    found.setPositions(np.array([[0.1, 0.2, 0.3 + floor]]))
    units = np.eye(6).reshape(6, 2, 1, 3)
    moved = [np.ravel(found.Mdot(force, torque)) for force, torque in units]
    alone = np.repeat([6 * np.pi * 0.1, 8 * np.pi * 0.1**3], 3)
    np.testing.assert_allclose(np.diag(moved) * alone, ALONE, atol=1e-7)


def test_one_wall():
    """`NBody` and `DPStokes` above a wall, whose box has no effect but its periods."""
    positions, forces, _ = rows()
    above, wide = positions + np.array([0, 0, 1]), 400.0
    near = NBody("open", "open", "single_wall")
    near.setParameters(wallHeight=0.0)
    slab = DPStokes("periodic", "periodic", "single_wall")
    slab.setParameters(wide, wide, 0.0, 10.0)
    for each in (near, slab):
        each.initialize(VISCOSITY, RADIUS, tolerance=1e-6)
        each.setPositions(above)
    one = parki.Spheres(
        above.T.copy(), RADIUS, viscosity=VISCOSITY, periodicity=0, tolerance=1e-6, wall="no-slip"
    )
    np.testing.assert_allclose(near.Mdot(forces)[0].T, one.velocities(forces.T.copy()), atol=1e-5)
    np.testing.assert_allclose(slab.Mdot(forces)[0], near.Mdot(forces)[0], atol=1e-3)


def test_net_forces_without_walls():
    positions, forces, _ = rows()
    for allowed in (False, True):
        found = DPStokes("periodic", "periodic", "open")
        found.setParameters(EDGE, EDGE, 0.0, EDGE, allowUnsafeForces=allowed)
        found.initialize(VISCOSITY, RADIUS)
        found.setPositions(positions)
        if allowed:
            found.Mdot(forces)
            continue
        with pytest.raises(parki.ParkiValueError, match=r"forces add up to .*, but periodicityZ"):
            found.Mdot(forces)
        found.Mdot(forces - forces.mean(axis=0))


REFUSED = {
    "periodicityZ is 'single_wall'": lambda _: Solver("open", "open", "single_wall"),
    "PSE is for three axes that are 'periodic'": lambda _: PSE(*OPEN),
    "NBody is for three axes that are 'open'": lambda _: NBody(*PERIODIC),
    "shearStrain is 0.1": lambda _: solver("PSE").setParameters(1.0, **BOX, shearStrain=0.1),
    "wallHeight is 0.0, but periodicityZ is 'open'": lambda _: solver("NBody").setParameters(
        wallHeight=0.0
    ),
    "wallHeight is None, but periodicityZ is 'single_wall'": lambda _: NBody(
        "open", "open", "single_wall"
    ).setParameters(),
    "DPStokes is for axes X and Y": lambda _: DPStokes(*OPEN),
    "zmin is 1 and zmax 1": lambda _: solver("DPStokes").setParameters(EDGE, EDGE, 1, 1),
    "below the upper wall": lambda _: solver("DPStokes").setPositions(np.full((1, 3), EDGE + 0.5)),
    "Ly is None, but axis Y is periodic": lambda _: solver("Solver").setParameters(Lx=EDGE),
    "lanczos_callback is given": lambda _: solver("NBody", lanczos_callback=print),
    r"forces has shape \(4, 3\); expected \(5, 3\)": lambda found: found.Mdot(np.ones((4, 3))),
    "includeAngular is False": lambda found: found.Mdot(*rows()[1:]),
    "forces and torques are None": lambda found: found.Mdot(),
    "noise with periodicity=2 is not defined": lambda found: found.sqrtMdotW(),
    "NaN or infinity": lambda found: found.setPositions(np.full((COUNT, 3), np.nan)),
}


def test_refusals():
    positions, forces, _ = rows()
    found = solver("Solver")
    for bad in (np.ones((4, 6)), np.ones((3, 1)), np.ones((1, 4)), np.ones(4), np.ones((0, 3))):
        with pytest.raises(parki.ParkiValueError, match="positions has shape"):
            found.setPositions(bad)
    found.setPositions(positions)
    cold = found.LangevinVelocities(1, 0, forces)
    np.testing.assert_array_equal(cold[0], found.Mdot(forces)[0])
    for words, call in REFUSED.items():
        error = parki.ParkiTypeError if "are None" in words else parki.ParkiValueError
        with pytest.raises(error, match=words):
            call(found)


def test_order_of_calls():
    """Each call says which one is missing; `RuntimeError` is what libMobility raises."""
    found = PSE(*PERIODIC)
    with pytest.raises(RuntimeError, match="setParameters was not called"):
        found.initialize(1.0, 1.0)
    found.setParameters(1.0, EDGE, EDGE, EDGE)
    with pytest.raises(RuntimeError, match="initialize was not called"):
        found.setPositions(rows()[0])
    found.initialize(1.0, 1.0)
    found.setPositions(rows()[0])
    found.clean()
    for call in (lambda: found.Mdot(rows()[1]), found.sqrtMdotW, found.divM):
        with pytest.raises(RuntimeError, match="setPositions was not called"):
            call()
