"""A user's program under ``mypy --strict``: parki's names and results have types."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("typing_extensions")
api = pytest.importorskip("mypy.api")

ROOT = Path(__file__).parents[1]
EXAMPLE = Path(__file__).with_name("typing_example.py")
CONFIG = str(ROOT / "pyproject.toml")
# Each line is refused, by an error of this kind.
WRONG = """\
import numpy as np
import parki
from parki.typing import Array

x = np.ones((3, 4))
parki.Plan("stokes_ls", x, x, box=[1, 1, 1])  # arg-type
parki.stokes_sl(x, x, x, box=[1, 1, 1], want="velocity")  # call-overload
parki.stokes_sl(x, x, x, box=[1, 1, 1], tol=1e-6)  # call-overload
parki.Plan("stokes_sl", x, x, box=[1, 1, 1], tolerance="1e-6")  # arg-type
parki.Expert(split="ewald")  # arg-type
parki.EwaldOptions(3, [1, 1, 1], eps=1e-6)  # call-arg
parki.stokes_sl(x, x, x, box=[1, 1, 1])[0].velocity()  # none: NumPy says Any of an element
parki.stokes_sl(x, x, x, box=[1, 1, 1], want=("u", "p")).shape  # attr-defined
parki.Plan("laplace", x, x, box=[1, 1, 1])(x).pressure  # attr-defined
parki.forget()  # attr-defined
parki.Spheres(x, 0.1).velocities(x).pressure  # attr-defined
parki.Spheres(x, 0.1).velocities("forces")  # call-overload
parki.RigidSpheres(x, 0.1).velocities(x, x).shape  # attr-defined
parki.Surface.spheres(x, 0.1).single_layer(x).velocity  # attr-defined
parki.Surface.spheres(x, 0.1).single_layer("density")  # type-var
array: Array = "text"  # assignment
"""


MODULES = (
    *("parki", "parki.ewald", "parki.extend", "parki.distributed", "parki.torch", "parki.jax"),
)


def star(module: str) -> list[str]:
    """Return a program that names all that a module gives; its last two lines are wrong."""
    names = sorted(importlib.import_module(module).__all__)
    lines = [f"from {module} import *", *(f"{name}_of = {name}" for name in names)]
    last = "stokes_sl" if "stokes_sl" in names else names[-1]
    return [*lines, "missing_of = missing", f"{last}_of = 1"]


def program(module: str) -> str:
    """Return a name for the program that no package has."""
    return f"star_of_{module.replace('.', '_')}"


def there(module: str) -> bool:
    """Whether a framework is installed, if the module is of one."""
    framework = module.removeprefix("parki.")
    return framework not in ("torch", "jax") or importlib.util.find_spec(framework) is not None


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Return the kinds of errors in each program by line: mypy reads libraries once for all."""
    folder = tmp_path_factory.mktemp("programs")
    texts = {"wrong": WRONG, "example": EXAMPLE.read_text(encoding="utf-8")}
    texts |= {program(name): "\n".join(star(name)) for name in MODULES if there(name)}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        out, err, _ = api.run(["--strict", "--config-file", CONFIG, "--no-pretty", str(folder)])
    assert not err
    found: dict[str, dict[int, str]] = {name: {} for name in texts}
    for name, line, kind in re.findall(r"(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", out, re.M):
        found[name][int(line)] = kind
    return found


def test_a_program_has_types(errors):
    assert errors["example"] == {}


def test_wrong_names_are_found(errors):
    kinds = ((n, line.partition("  # ")[2]) for n, line in enumerate(WRONG.splitlines(), 1))
    assert errors["wrong"] == {n: kind for n, kind in kinds if kind and kind[:4] != "none"}


@pytest.mark.parametrize("module", MODULES)
def test_star_imports_are_known(module, errors):
    """The calls have types there, although they are made in a loop."""
    if not there(module):
        pytest.skip(f"{module} needs a framework that is not installed")
    last = len(star(module))
    assert errors[program(module)] == {last - 1: "name-defined", last: "assignment"}


def test_the_program_runs():
    names = runpy.run_path(str(EXAMPLE))
    assert names["grad_u"].shape == (3, 3, 50)
