"""`parki.ase.Coulomb`: known energies, differences, relaxed cells, time steps and errors."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import erf
from small_kernels import run_python
from started import NO_GPU

import parki
from parki.ewald.pipeline.stages import Stages
from parki.reference import direct_sum

pytest.importorskip("ase")

from ase import Atoms, units
from ase.build import bulk, molecule
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress
from ase.calculators.lj import LennardJones
from ase.calculators.mixing import SumCalculator
from ase.filters import FrechetCellFilter
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS

from parki.ase import UNIT, Coulomb, NoStressError

MADELUNG = 1.747564594633
AXES = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]


def salt(repeat=(2, 1, 1), seed=1):
    """Return ions in a sheared cell, without symmetry."""
    atoms = bulk("NaCl", "rocksalt", a=5.64) * repeat
    atoms.set_cell(atoms.cell @ (np.eye(3) + 0.03 * np.arange(9).reshape(3, 3)), scale_atoms=True)
    atoms.rattle(0.1, seed=seed)
    atoms.set_initial_charges([1, -1] * (len(atoms) // 2))
    return atoms


def test_known_energies():
    ions = bulk("NaCl", "rocksalt", a=5.64)
    ions.calc = Coulomb([1, -1], tolerance=1e-9)
    madelung = -ions.get_potential_energy() * 2.82 / UNIT
    assert madelung == pytest.approx(MADELUNG, abs=1e-7)
    assert ions.calc.get_potentials() == pytest.approx(MADELUNG * UNIT / 2.82 * np.array([-1, 1]))
    fluorite = bulk("CaF2", "fluorite", a=1.0)
    fluorite.calc = Coulomb([2, -1, -1], tolerance=1e-9)
    assert -fluorite.get_potential_energy() / UNIT * 0.75**0.5 / 2 == pytest.approx(5.0387849)
    assert units.Hartree * units.Bohr == UNIT


@pytest.mark.parametrize("free", [None, 20.0])
def test_a_molecule_needs_no_cell(free):
    """Its stress does."""
    water = molecule("H2O", vacuum=free)
    water.calc = Coulomb([-0.8, 0.4, 0.4], tolerance=1e-9)
    r = water.get_all_distances()
    pairs = 0.4**2 / r[1, 2] - 2 * 0.4**2 * (1 / r[0, 1] + 1 / r[0, 2])
    assert water.get_potential_energy() == pytest.approx(UNIT * pairs)
    if free is None:
        with pytest.raises(NoStressError, match="over the volume of the cell, which is zero"):
            water.get_stress()
    else:
        expected = calculate_numerical_stress(water, 1e-4)
        np.testing.assert_allclose(water.get_stress(), expected, atol=1e-7)


@pytest.mark.parametrize("pbc", AXES, ids=str)
def test_energies_are_the_reference_s(pbc):
    """In a cell along the axes, where the reference takes them as they are."""
    rng = np.random.default_rng(3)
    cell = np.array([3.0, 4.0, 5.0])
    x, q = cell * rng.random((6, 3)), rng.standard_normal(6)  # a net charge
    atoms = Atoms("H6", x, cell=np.diag(np.where(pbc, cell, 0)), pbc=pbc)
    atoms.calc = Coulomb(q, tolerance=1e-9)
    points = x.T.copy()
    box = [edge if here else None for edge, here in zip(cell, pbc, strict=True)]
    u = direct_sum("laplace", points, points, q, box=box, periodicity=pbc)
    energy = 0.5 * UNIT * q @ u.ravel()
    assert atoms.get_potential_energy() == pytest.approx(energy, abs=1e-6 * UNIT)
    np.testing.assert_allclose(atoms.calc.get_potentials(), UNIT * u.ravel(), atol=1e-6 * UNIT)


@pytest.mark.parametrize("pbc", AXES, ids=str)
def test_forces_and_stress_are_differences(pbc):
    """With vectors at any angles, and of a cell that is reflected."""
    atoms = salt()
    atoms.pbc = pbc
    atoms.calc = Coulomb(tolerance=1e-9)
    forces, stress = atoms.get_forces(), atoms.get_stress()
    expected = calculate_numerical_forces(atoms, 1e-3, [1])
    np.testing.assert_allclose(forces[1:2], expected, atol=1e-5)
    np.testing.assert_allclose(stress, calculate_numerical_stress(atoms, 1e-4), atol=1e-7)
    mirror = atoms.copy()
    mirror.positions[:, 0] *= -1
    mirror.set_cell(atoms.cell.array * [-1, 1, 1])
    assert mirror.cell.handedness == -1
    mirror.calc = Coulomb(tolerance=1e-9)
    np.testing.assert_allclose(mirror.get_forces(), forces * [-1, 1, 1], atol=1e-8)
    np.testing.assert_allclose(mirror.get_stress(), stress * [1, 1, 1, 1, -1, -1], atol=1e-8)


def test_a_cell_relaxes_to_the_lattice_of_its_pairs():
    """Repulsion acts on next neighbours alone, so that the distance is the root of one function."""
    sigma, epsilon, reach = 2.4, 0.1, 3.2

    def pull(d):
        pair = 24 * epsilon * (2 * (sigma / d) ** 12 - (sigma / d) ** 6) / d
        return MADELUNG * UNIT / d**2 - 6 * pair

    ions = bulk("NaCl", "rocksalt", a=5.2)
    ions.set_cell(ions.cell @ (np.eye(3) + 0.02 * np.eye(3, k=1)), scale_atoms=True)
    ions.positions[1] += 0.05
    repulsion = LennardJones(sigma=sigma, epsilon=epsilon, rc=reach)
    ions.calc = SumCalculator([Coulomb([1, -1], tolerance=1e-8), repulsion])
    with BFGS(FrechetCellFilter(ions), logfile=None) as search:
        assert search.run(fmax=1e-4, steps=60)
    distance = brentq(pull, 2.0, 3.4)
    lengths = ions.cell.lengths() / 2**0.5
    np.testing.assert_allclose(lengths, distance, rtol=1e-4)
    np.testing.assert_allclose(ions.cell.angles(), 60, atol=0.01)


def test_time_steps_keep_energy_and_momentum(monkeypatch):
    """Its error is that of the steps, of second order; one plan serves all steps of a slab."""
    started, make = [], Stages.__init__
    monkeypatch.setattr(
        Stages,
        "__init__",
        lambda own, *a, **k: started.append(k.get("old") is None) or make(own, *a, **k),
    )
    worst = []
    for steps in (20, 40):
        atoms = bulk("NaCl", "rocksalt", a=5.2, cubic=True)
        atoms.pbc = True, True, False
        push = np.random.default_rng(0).standard_normal((8, 3))
        atoms.set_momenta(0.8 * (push - push.mean(axis=0)))
        repulsion = LennardJones(sigma=2.4, epsilon=0.1, rc=2.6 * 1.9, smooth=True, ro=3.0)
        atoms.calc = SumCalculator([Coulomb([1, -1] * 4, tolerance=1e-8), repulsion])
        before = atoms.get_total_energy()
        started.clear()
        energies = []
        with VelocityVerlet(atoms, 80 / steps * units.fs) as dynamics:
            for _ in range(steps):
                dynamics.run(1)
                energies.append(atoms.get_total_energy())
        assert not any(started)
        worst.append(np.abs(np.array(energies) - before).max())
        momentum = np.abs(atoms.get_momenta().sum(axis=0)).max()
        assert momentum < 1e-5 * np.abs(atoms.get_momenta()).sum()
    assert 3 < worst[0] / worst[1] < 5


def test_charges_are_an_argument_the_atoms_or_a_function():
    atoms = salt((1, 1, 1))
    energies = []
    for charges in (None, [1, -1], lambda atoms: np.where(atoms.numbers == 11, 1.0, -1.0)):
        atoms.calc = Coulomb(charges)
        energies.append(atoms.get_potential_energy())
        assert atoms.get_charges().tolist() == [1, -1]
    assert energies[0] == energies[1] == energies[2]
    atoms.calc = Coulomb()
    atoms.set_initial_charges([0.5, -0.5])
    assert atoms.get_potential_energy() == pytest.approx(energies[0] / 4)


def test_screening_and_pairs_left_out_and_soft_charges():
    atoms = Atoms("H4", [[0, 0, 0], [0, 0, 1], [3, 0, 0], [3, 1, 0]])
    q = np.array([0.5, -0.5, 0.5, -0.5])
    pairs = np.triu(np.outer(q, q), 1)
    r = atoms.get_all_distances() + np.eye(4)
    atoms.calc = Coulomb(q, tolerance=1e-9, kappa=0.7)
    expected = UNIT * (pairs * np.exp(-0.7 * r) / r).sum()
    assert atoms.get_potential_energy() == pytest.approx(expected)
    atoms.calc = Coulomb(q, tolerance=1e-9, exclude=[0, 0, 1, 1])
    expected = UNIT * (pairs[:2, 2:] / r[:2, 2:]).sum()
    assert atoms.get_potential_energy() == pytest.approx(expected)
    for epsilon in (0.4, [0.4, 0.3, 0.4, 0.3]):
        atoms.calc = Coulomb(q, tolerance=1e-10, epsilon=epsilon)
        widths = np.full(4, epsilon)
        both = np.hypot(widths, widths[:, None])
        alone = (q**2 / ((2 * np.pi) ** 0.5 * widths)).sum()
        expected = UNIT * (alone + (pairs * erf(r / both) / r).sum())
        assert atoms.get_potential_energy() == pytest.approx(expected)


IMPOSSIBLE = [
    ("charges", None, "the atoms have no charges; call atoms.set_initial_charges"),
    ("charges", [1, -1, 0], r"charges has shape \(3,\); expected \(2,\), a number for each atom"),
    ("charges", lambda atoms: np.ones(5), r"charges has shape \(5,\); expected \(2,\)"),
    ("charges", [1, np.nan], "charges contains NaN or infinity"),
    ("cell", np.zeros((3, 3)), "atoms.pbc is .*, but atoms.cell has no vector 0; set it"),
    ("cell", np.diag([1, 0, 1]), "atoms.cell has no vector 1"),
    ("cell", [[1, 0, 0], [0, 1, 0], [1, 1, 0]], "atoms.cell is flat: its periodic vectors"),
    ("cell", [[1, 0, 0], [0, np.nan, 0], [0, 0, 1]], "atoms.cell contains NaN or infinity"),
    ("positions", [[0, 0, 0], [0, 0, np.nan]], "positions contains NaN or infinity"),
]


@pytest.mark.parametrize(("name", "value", "message"), IMPOSSIBLE)
def test_impossible_atoms(name, value, message):
    """Nothing is computed of them."""
    atoms = bulk("NaCl", "rocksalt", a=5.64)
    charges = value if name == "charges" else [1, -1]
    if name == "cell":
        atoms.set_cell(value)
    elif name == "positions":
        atoms.set_positions(value)
    atoms.calc = Coulomb(charges)
    with pytest.raises(parki.ParkiValueError, match=message):
        atoms.get_potential_energy()
    assert not atoms.calc.results


def test_impossible_options():
    with pytest.raises(parki.ParkiTypeError, match="box is given, but a calculator takes it"):
        Coulomb(box=[1, 1, 1])
    with pytest.raises(parki.ParkiTypeError, match="wall is given, but a calculator has no walls"):
        Coulomb([1, -1], wall=("metal", "metal"))
    with pytest.raises(parki.ParkiTypeError, match="charges is a str; expected a number for each"):
        Coulomb("many")
    with pytest.raises(parki.ParkiValueError, match="tolerance"):
        Coulomb(tolerance=-1.0)


def test_ase_is_needed_here_alone():
    code = """
    import sys
    import parki
    assert "ase" not in sys.modules and "parki.ase" not in sys.modules
    sys.modules["ase"] = None
    import parki.ase
    """
    status, _, err = run_python(code)
    assert status and "MissingPackageError: parki.ase needs ASE, which pip install ase" in err


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
def test_on_a_gpu():
    atoms = salt()
    found = []
    for space in ("CPU", "GPU"):
        atoms.calc = Coulomb(tolerance=1e-9, execution_space=space, exclude=np.arange(4) // 2)
        found.append((atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress()))
        found[-1] += (atoms.calc.get_potentials(),)
    for cpu, gpu in zip(*found, strict=True):
        np.testing.assert_allclose(gpu, cpu, atol=1e-7)
