"""A user's program under ``mypy --strict``: parki's names and results have types."""

from __future__ import annotations

import importlib
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
parki.EwaldOptions(3, [1, 1, 1], split="ewald")  # arg-type
parki.EwaldOptions(3, [1, 1, 1], eps=1e-6)  # call-arg
parki.stokes_sl(x, x, x, box=[1, 1, 1])[0].velocity()  # none: NumPy says Any of an element
parki.stokes_sl(x, x, x, box=[1, 1, 1], want=("u", "p")).shape  # attr-defined
parki.Plan("laplace", x, x, box=[1, 1, 1])(x).pressure  # attr-defined
parki.forget()  # attr-defined
array: Array = "text"  # assignment
"""


def checked(path: Path) -> str:
    """Return what mypy says of a file."""
    out, err, _ = api.run(["--strict", "--config-file", CONFIG, "--no-pretty", str(path)])
    assert not err
    return str(out)


def test_a_program_has_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert checked(EXAMPLE).startswith("Success")


def test_wrong_names_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    found = dict(re.findall(r"wrong\.py:(\d+): error: .*\[([\w-]+)\]$", checked(path), flags=re.M))
    expected = {}
    for number, line in enumerate(WRONG.splitlines(), 1):
        kind = line.partition("  # ")[2]
        if kind and not kind.startswith("none"):
            expected[str(number)] = kind
    assert found == expected


@pytest.mark.parametrize(
    "module", ["parki", "parki.ewald", "parki.distributed.ewald", "parki.torch", "parki.jax"]
)
def test_star_imports_are_known(
    module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The calls have types there, although they are made in a loop."""
    monkeypatch.chdir(ROOT)
    for library in ("torch", "jax"):
        if module == f"parki.{library}":
            pytest.importorskip(library)
    names = sorted(importlib.import_module(module).__all__)
    lines = [f"from {module} import *", *(f"{name}_of = {name}" for name in names)]
    path = tmp_path / "star.py"
    path.write_text("\n".join([*lines, "missing_of = missing", "stokes_sl_of = 1"]))
    found = re.findall(r"star\.py:(\d+): error: .*\[([\w-]+)\]$", checked(path), flags=re.M)
    last = len(lines)
    assert found == [(str(last + 1), "name-defined"), (str(last + 2), "assignment")]


def test_the_program_runs() -> None:
    names = runpy.run_path(str(EXAMPLE))
    assert names["grad_u"].shape == (3, 3, 50)
