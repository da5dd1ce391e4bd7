"""Every file in examples/ runs, at a small size, and each gives a number that can be checked."""

import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import numpy as np
import pytest
from scipy.optimize import brentq
from started import NO_GPU, mpirun, parallel

import parki
from parki.reference import direct_sum

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def picture(tmp_path):
    """Return where an example shall draw, which it does where matplotlib is installed."""
    yield tmp_path / "picture.png"
    assert (tmp_path / "picture.png").exists() == HAS_MATPLOTLIB


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_first_sum():
    pot = load("first_sum").main(1200)
    rng = np.random.default_rng(0)
    trg, src = rng.random((3, 1000)), rng.random((3, 1200))
    norms, dens = rng.standard_normal((3, 1200)), rng.standard_normal((6, 1200))
    exact = direct_sum(
        "stokes_comb", trg[:, :20], src, dens, norms, box=[1.0, 1.0, 1.0], periodicity=1
    )
    error = np.sqrt(np.mean(np.sum((pot[:, :20] - exact) ** 2, axis=0)))
    double = np.sum(np.sum(dens[3:] ** 2, axis=0) * np.sum(norms**2, axis=0))
    assert error < 1e-6 * (np.linalg.norm(dens[:3]) + np.sqrt(double))


def test_ase_calculator():
    """Where the pull of the lattice and the push of six neighbours balance."""
    pytest.importorskip("ase")

    def pull(d):
        force = 24 * 0.1 * (2 * (2.4 / d) ** 12 - (2.4 / d) ** 6) / d
        return 1.747564594633 * 14.3996453 / d**2 - 6 * force

    assert load("ase_calculator").main() == pytest.approx(brentq(pull, 2.0, 3.0), rel=1e-5)


def test_charge_equilibration():
    found = load("charge_equilibration").main(4)
    np.testing.assert_allclose(found.charges.sum(axis=1), 0, atol=1e-9)
    assert (found.charges[:, 0] < -0.5).all() and found.levels.size == 4
    assert found.force == pytest.approx(found.slope, rel=1e-5)


def test_induced_dipoles():
    for ours, formula in load("induced_dipoles").main(4).values():
        assert ours == pytest.approx(formula, rel=1e-5)


def test_channel_of_spheres():
    """One sphere has a known mobility; the flux is the same by forces and through a plane."""
    example = load("channel_of_spheres")
    one = example.hold(np.array([[0.5], [0.2], [0.3]]), 0.1, 1e-7)
    carried = (0.3 * 0.5 - 0.1**2 / 3) / 2
    force = -6 * np.pi * 0.1 * carried / 0.87166648
    assert one.forces.ravel() == pytest.approx([force, 0, 0], abs=1e-6)
    assert one.flux == pytest.approx(1 + force * carried / 1.2 / (0.8**3 / 12), rel=1e-6)
    assert one.through_plane == pytest.approx(one.flux, rel=1e-6)
    many = example.main(20)
    assert many.flux == pytest.approx(many.through_plane, rel=1e-4)
    assert many.flux < 0.5


def test_monolayer(picture):
    """Spheres sink, and diffuse along the walls as one that is alone at the same height."""
    found = load("monolayer").main(36, 12, str(picture))
    assert found.expected < found.heights[-1] < found.heights[0]
    assert found.diffusion == pytest.approx(found.alone, rel=0.1)
    assert 0.55 < found.alone < 0.75


def test_electrodes():
    """Ions go to the plates, which take up more charge than without ions."""
    found = load("electrodes").main(steps=200)
    assert found.empty == pytest.approx(36 * 4 / (4 * np.pi * 5 * 2))
    assert 1.3 * found.empty < found.charge < 3 * found.empty


def test_gmres():
    assert load("gmres").main(500) < 1e-7


@pytest.mark.parametrize("size", [pytest.param(2, marks=parallel)])
def test_distributed_stokes(size, tmp_path):
    """One file has what all ranks computed."""
    path = tmp_path / "velocities.npz"
    script = EXAMPLES / "distributed_stokes.py"
    ran = mpirun(size, "200", str(path), seconds=60, script=script)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.count("done") == 1 and "2 ranks by MPI" in ran.stdout
    with np.load(path) as found:
        points, force, velocity = (found[name] for name in ("points", "force", "velocity"))
    assert velocity.shape == (3, 400)
    exact = direct_sum("stokes_sl", points[:, ::50], points, force, box=[1.0] * 3, periodicity=3)
    error = 8 * np.pi * velocity[:, ::50] - exact
    assert np.sqrt((error**2).sum(axis=0).mean()) < 1e-6 * np.linalg.norm(force)


def test_rigid_bodies(picture):
    example = load("rigid_bodies")
    example.ZICK_HOMSY = {f: example.ZICK_HOMSY[f] for f in (0.027, 0.125, 0.343)}
    words = "--bodies 8 --steps 3 --order 4 --array-order 8 --output"
    factors, run = example.main([*words.split(), str(picture)])
    for fraction, known in example.ZICK_HOMSY.items():
        worst = 0.02 if fraction > 0.3 else 5e-4  # neighbours are near where there are many
        assert factors["simple"][fraction] == pytest.approx(known, rel=worst)
        for array, solid in example.CLOSE_PACKED.items():
            if fraction < 0.3:  # the series lacks the power 31, and order 8 has few nodes
                lost = 20 * (fraction / solid) ** (31 / 3)
                expected = pytest.approx(example.series(array, fraction), rel=5e-6, abs=lost)
                assert factors[array][fraction] == expected
    for array in ("body-centred", "face-centred"):
        expected = 1 / example.dilute(array, 0.027)
        assert factors[array][0.027] == pytest.approx(expected, rel=1e-3)
    assert all(0.5 < speed < 1.5 for speed in run.speeds)
    assert np.all(run.heights[-1] < run.heights[0])
    assert max(run.iterations) < 15


def test_rigid_bodies_in_a_pipe(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)  # of which it takes two others
    example = load("rigid_bodies_in_a_pipe")
    words = "--bodies 3 --steps 2 --around 32 --order 6"
    found, speeds = example.main(words.split())
    converged = {0.1: 1.2632, 0.2: 1.6795, 0.3: 2.3701, 0.4: 3.5914, 0.5: 5.9474}
    assert found == pytest.approx(converged, rel=1e-3)
    assert speeds.shape == (2, 3) and np.all((speeds > 0.3) & (speeds < 1.2))


def test_drops(picture, tmp_path):
    example = load("drops")
    kept = str(tmp_path / "mill.npz")
    words = "--drops 3 --ratios 5 --capillaries 0.05 --shear-steps 16 --order 5".split()
    words += ["--output", str(picture)]
    found, whole = example.main([*words, "--steps", "2"])
    for (ratio, capillary), (deformation, volume) in found.items():
        taylor, cox = example.theory(ratio, capillary)
        assert deformation == pytest.approx(taylor, rel=0.04)
        assert deformation == pytest.approx(cox, rel=0.01)
        assert abs(volume) < 2e-4
    np.testing.assert_allclose(np.array(whole["volumes"]) / example.SPHERE, 1, atol=1e-4)
    # A run that goes on is the run that was not interrupted.
    drops, start = example.mill(3, 1.0, 0.2, 5, "CPU")
    first = example.run(drops, start, 1, kept)
    assert len(first["volumes"]) == 1
    later = example.run(drops, start, 2, kept)
    np.testing.assert_allclose(later["x"], whole["x"], rtol=1e-9)
    np.testing.assert_array_equal(later["volumes"][0], first["volumes"][0])


def test_capsule(picture):
    """Small deformations are those of a theory, and forces the derivative of an energy."""
    example = load("capsule")
    words = "--capillaries 0.02 --order 4 --step 0.35".split()
    found = example.main([*words, "--plot", str(picture)])
    assert found[0.02] == pytest.approx(25 / 12 * 0.02, rel=5e-3)
    membrane = example.Membrane(4)
    forces = membrane.forces(membrane.rest)
    assert np.abs(forces).max() < 1e-12
    pushed = membrane.forces(1.02 * membrane.rest)  # round: all of it is pulled inwards by 2 T / a
    tension = (1 - 1.02**-6) * membrane.weights * 1.02
    np.testing.assert_allclose(pushed, -2 * tension * membrane.rest, atol=1e-12)


def rigid_bodies(example, space):
    """Return velocities, forces and gaps of some bodies, on the host."""
    equation, _ = example.suspension(6, 5, space)
    push, gap = example.repulsion(equation)
    forces = equation.surface.xp.asarray(np.tile([[0.0], [1.0], [-1.0]], 6))
    motion = example.solve(equation, equation.right_side(forces))[:2]
    return *motion, example.host(push), np.array(gap)


def drops(example, space):
    """Return positions, volumes and deformations after a step."""
    record = example.run(*example.mill(8, 3.0, 0.3, 4, space), 1, "")
    return record["x"], record["volumes"][-1], record["deformations"][-1]


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("run", [rigid_bodies, drops])
def test_on_a_gpu(run):
    found = [run(load(run.__name__), space) for space in ("CPU", "GPU")]
    for host, device in zip(*found, strict=True):
        np.testing.assert_allclose(device, host, atol=1e-4)


def test_matrix_free_poisson(picture, monkeypatch):
    monkeypatch.setenv("PARKI_NUM_THREADS", "2")
    example = load("matrix_free_poisson")
    words = "--dofs 300 --degrees 2 --output".split()
    found = example.main([*words, str(picture)])
    for (_, degree), order in found["orders"].items():
        assert order > degree + 0.9
    rng = np.random.default_rng(0)
    for dimensions in (2, 3):
        problem = example.Poisson(dimensions, 2, 4, example.get_execution_space("CPU"))
        u, results = rng.standard_normal(problem.size) * problem.inside, {}
        for method in example.METHODS:
            if method != "unprotected":
                results[method] = np.empty(problem.size)
                problem.operator(method)(u, results[method])
        for result in results.values():
            np.testing.assert_allclose(result, results["stored"], atol=1e-13)
        assert u @ results["stored"] > 0


def test_convergence(picture):
    words = "--points 300 --kernels laplace --periodicities 3 "
    words += f"--tolerances 1e-2 1e-4 1e-6 --output {picture}"
    errors = load("convergence").main(words.split())
    assert len(errors) == 2 * 3
    assert max(error.ratio for error in errors) <= 1
    double = [error for error in errors if error.dtype == "float64"]
    for error in double:  # the line is followed, not undercut by orders of magnitude
        assert 0.01 < error.error / error.tolerance <= 1.001


@pytest.mark.skipif(not importlib.util.find_spec("finufft"), reason="FINUFFT is not installed")
def test_compare_with_finufft(picture):
    words = ["--points", "5000", "--checked", "200", "--repeats", "2", "--output", str(picture)]
    apart, ratio = load("compare_with_finufft").main(words)
    assert apart < 1e-11
    assert 0 < ratio < 1000


@pytest.mark.parametrize(
    ("name", "package"), [("compare_with_finufft", "finufft"), ("inverse_problem", "torch")]
)
def test_packages_that_are_missing(name, package, monkeypatch):
    example, find = load(name), importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == package else find(n))
    with pytest.raises(SystemExit, match=f"pip install {package}"):
        example.main([])


def test_pipe_suspension(picture):
    example = load("pipe_suspension")
    found = example.main(
        ["--around", "36", "--rods", "5", "--pixels", "40", "--output", str(picture)]
    )
    assert found["correction"] == pytest.approx(example.WALL_CORRECTION, abs=2e-4)
    assert found["flux"] < 1e-4
    assert found["slip"] < 0.02
    assert found["steps"] <= 3


def test_swimmers(picture):
    example = load("swimmers")
    runs = example.main(["--swimmers", "60", "--steps", "150", "--output", str(picture)])
    for run in runs.values():
        assert max(run.memory[30:]) - min(run.memory[30:]) < 3  # MB
        np.testing.assert_allclose(np.linalg.norm(run.directions, axis=0), 1)
        assert np.all(np.abs(run.centres[2] - example.HEIGHT / 2) <= example.LAYER / 2)
        # Not far from straight lines, of which two thirds of the squares are along the layer.
        assert run.spread[-1] == pytest.approx(2 / 3 * run.times[-1] ** 2, rel=0.25)
    apart = runs["pushers"].centres - runs["pullers"].centres
    assert np.sqrt(np.mean(apart**2)) > 0.1


def test_sedimentation(picture):
    example = load("sedimentation")
    words = ["--points", "2000", "--steps", "12", "--output", str(picture)]
    record = example.main(words)
    assert record.speeds[0] == pytest.approx(1 - example.SLOWER, rel=0.02)
    assert len(record.times) == len(record.clouds) == 4
    spread = [np.linalg.norm(cloud, axis=0).mean() for cloud in record.clouds]
    np.testing.assert_allclose(spread, 0.75, rtol=0.05)  # of a ball, which stays one for a while


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
def test_inverse_problem(picture):
    words = ["--swimmers", "4", "--tracers", "500", "--output", str(picture)]
    found = load("inverse_problem").main(words)
    assert found.net < 0.02
    assert found.before > 0.2
    assert found.after < 0.02
    assert found.push < 0.02
    assert found.misfit == pytest.approx(1, abs=0.05)


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
def test_force_matching():
    example = load("force_matching")
    found = example.main(["--frames", "1", "--atoms", "16"])
    assert found.before > 0.1
    assert found.after < 1e-4
    np.testing.assert_allclose(abs(found.found), np.abs(example.TRUE), atol=1e-3)


def test_figure10():
    pot = load("figure10").main(2000, "CPU")
    assert pot.shape == (3, 2000)
    assert np.isfinite(pot).all()


def test_every_example_is_tested():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert names <= tested


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_help(path, monkeypatch, capsys):
    if path.stem == "distributed_stokes":
        pytest.importorskip("mpi4py")
    monkeypatch.syspath_prepend(EXAMPLES)  # some take others
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(path), run_name="__main__")
    shown = capsys.readouterr().out
    assert load(path.stem).__doc__.splitlines()[0] in " ".join(shown.split())
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")


def test_brownian_suspension(picture, tmp_path):
    example = load("brownian_suspension")
    kept = str(tmp_path / "run")
    found = example.main(60, 3, str(picture), kept)
    for run in found.values():
        assert abs(run["first"] / run["exact"] - 1) < 5 * np.sqrt(2 / (3 * 60 * example.DRAWS))
    again = example.run(60, 0.2, 3, MagicMock(), Path(f"{kept}-0.2.npz"))
    assert len(again["diffusion"]) == 3


def test_sedimenting_spheres(picture, tmp_path):
    example = load("sedimenting_spheres")
    kept = str(tmp_path / "run")
    (found,) = example.main(64, 2, str(picture), kept, fractions=(0.1,)).values()
    assert found["exact"] == pytest.approx(0.516, abs=1e-3)
    assert np.mean(found["first"]) == pytest.approx(found["exact"], abs=0.08)
    for fraction in (0.01, 0.4):
        expected = example.cubic_array(fraction)
        assert example.array(fraction) == pytest.approx(expected, abs=2e-3)
    # A run that goes on is the run that was not interrupted.
    (later,) = example.main(64, 4, "", kept, fractions=(0.1,)).values()
    (whole,) = example.main(64, 4, fractions=(0.1,)).values()
    np.testing.assert_allclose(later["speeds"], whole["speeds"], rtol=1e-9)
    np.testing.assert_array_equal(later["first"], found["first"])


def test_falling_bodies(picture):
    example = load("falling_bodies")
    run = example.main(9, 3, str(picture))
    assert all(each.size == 3 for each in map(run.of, example.SHAPES))
    assert len(run.speeds) == 3 and 0.2 < np.mean(run.speeds) / example.LENGTH < 1.5
    assert max(run.products) < 12
    # Springs between bodies have no sum, and none within a body.
    forces, torques = example.pushes(run.bodies)
    assert not np.any(forces) and not np.any(torques)
    run.bodies.update_positions(0.05 * run.bodies.positions + 4)
    forces, _ = example.pushes(run.bodies)
    assert np.abs(forces).max() > 1
    np.testing.assert_allclose(forces.sum(axis=1), 0, atol=1e-9 * np.abs(forces).max())


def test_squirmers(picture):
    example = load("squirmers")
    found = example.main(42, str(picture))
    for name, second in example.KINDS.items():
        speed, stresslet, _ = found[name]
        assert speed == pytest.approx(2 / 3, rel=1e-4)
        assert stresslet == pytest.approx(1.07 * (second != 0), abs=0.01)
    assert found["pusher"][2] < 0.2
    # The exact flow on the surface is slip and swimming.
    at = np.array([[0.6], [0.0], [0.8]])
    flow = example.exact(at, 3.0) - [[0.0], [0.0], [2 / 3]]
    np.testing.assert_allclose(flow[:, 0], (0.6 + 3 * 0.6 * 0.8) * np.array([0.8, 0, -0.6]))


def test_rigid_spheres(picture, monkeypatch):
    example = load("rigid_spheres")
    monkeypatch.setattr(example, "FRACTIONS", (0.2,))
    plain, lubricated = example.main(32, 1, str(picture), ())[:, 0]
    assert abs(lubricated / [example.viscosity(0.2), example.diffusion(0.2)] - 1).max() < 0.1
    assert plain[0] < lubricated[0] and plain[1] > lubricated[1]


def test_sheared_suspension(picture):
    example = load("sheared_suspension")
    (found,) = example.main(60, 4, str(picture), fractions=(0.05,)).values()
    assert found.box[1, 0] == pytest.approx(4 * example.STEP * found.box[0, 0])
    assert np.mean(found.flow) == pytest.approx(example.batchelor(0.05), abs=0.02)
    # A sphere alone, in a large box, has the stresslet of Einstein's viscosity.
    how = {"periodicity": 3, "box": [50, 50, 50], "tolerance": 1e-5, "want": ("u", "grad_u")}
    kernel, place = parki.kernel("stokes_dipole", epsilon=example.WIDTH), np.zeros((3, 1))
    tensor, _ = example.stresslets(parki.Plan(kernel, place, place, **how), np.zeros((3, 3, 1)))
    np.testing.assert_allclose(tensor[0, 1], example.ALONE / 2, rtol=2e-3)
