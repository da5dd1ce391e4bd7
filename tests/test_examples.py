"""Every file in examples/ runs, at a small size, and each gives a number that can be checked."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from parki.reference import direct_sum

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_first_sum() -> None:
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


def test_gmres() -> None:
    assert load("gmres").main(500) < 1e-7


def test_distributed_stokes(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    path = tmp_path / "velocities.npz"
    velocity = load("distributed_stokes").main(300, str(path))
    with np.load(path) as found:
        np.testing.assert_array_equal(found["velocity"], velocity)
        exact = direct_sum(
            "stokes_sl",
            found["points"][:, :20],
            found["points"],
            found["force"],
            box=[1.0, 1.0, 1.0],
            periodicity=3,
        )
    error = np.sqrt(np.mean(np.sum((8 * np.pi * velocity[:, :20] - exact) ** 2, axis=0)))
    assert error < 1e-6 * np.sqrt(300)


def test_drag_on_cubic_array(tmp_path: Path) -> None:
    example, picture = load("drag_on_cubic_array"), tmp_path / "drag.png"
    found = example.main(400, str(picture), fractions=(0.027, 0.125, 0.343))
    for fraction, factor in found.items():
        assert factor == pytest.approx(example.ZICK_HOMSY[fraction], rel=0.01)
    few = example.solve(0.001, 400, example.lone_sphere(400))
    assert few.factor * example.dilute(0.001) == pytest.approx(1, abs=1e-4)
    assert few.slip() < 1e-3
    assert picture.exists() == (importlib.util.find_spec("matplotlib") is not None)


def test_figure10() -> None:
    pot = load("figure10").main(2000, "CPU")
    assert pot.shape == (3, 2000)
    assert np.isfinite(pot).all()


def test_every_example_is_tested() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert names <= tested


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_examples_say_how_to_run_them(path: Path) -> None:
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")
