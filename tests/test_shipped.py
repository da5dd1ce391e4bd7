"""Kernels that came compiled with parki: which are used, when, and what a machine without does."""

from __future__ import annotations

import logging
import os
import runpy
import subprocess
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pages import PLAIN, program
from small_kernels import RUN, SQUARE, run_python, small_kernel, write_kernel

import parki
from parki.ewald.choice import machines
from parki.ewald.choice.cost import USUAL
from parki.ewald.pipeline import one_device as pipeline
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points import RESULTS
from parki.ewald.sums import SUMS
from parki.runtime import cache, get_execution_space, host, shipped
from parki.runtime import kernel as kernel_module
from parki.runtime.specialise import Specialised

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "wheel_kernels.py"
CACHE = os.environ.get("PARKI_CACHE_DIR", "")  # the user's
OTHER = SQUARE.replace("0.25", "0.5")
HERE = "from pathlib import Path; from parki.runtime import shipped; shipped.FOLDER = Path({!r})\n"

pytestmark = pytest.mark.skipif(not shipped.level(), reason="only for Linux on x86-64 (v2 and up)")


@pytest.fixture(scope="module")
def script():
    """What the script that lists the wheels' kernels defines."""
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(autouse=True)
def afresh(monkeypatch, tmp_path):
    """An empty cache, no kernel loaded, and no compiler asked for."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_module, "_loaded", {})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the kernel SQUARE and threads, compiled for this processor; parki's own now."""
    sources = [small_kernel(tmp_path, SQUARE)._object.source, host.THREADS.read_text()]
    folder = tmp_path / "compiled"
    folder.mkdir()
    command = [*host.compiler().command, *host.FLAGS, "-DPK_TEAM=1"]
    objects = []
    for text in sources:
        name = shipped.symbol(text)
        objects.append(str(folder / f"{name}.o"))
        words = [*command, f"-Dparki_entry={name}", "-x", "c++", "-c", "-", "-o", objects[-1]]
        subprocess.run([x for x in words if x != "-shared"], input=text, text=True, check=True)
    library = folder / f"{shipped.level()}.so"
    subprocess.run([*command, *objects, "-o", str(library)], check=True)
    cache.seal(library)
    monkeypatch.setattr(shipped, "FOLDER", folder)
    monkeypatch.setattr(kernel_module, "_loaded", {})
    for path in (tmp_path / "cache").glob("*"):  # trials of the compiler
        path.unlink()
    return folder


def right(kernel: Any) -> bool:
    v = np.arange(5.0)
    kernel(5, v=v)
    return np.array_equal(v, np.arange(5.0) ** 2 + 0.25)


# ---------------------------------------------------------------------- which are used
@pytest.mark.parametrize("space", ["OpenMP", "Serial"])
def test_which_kernels_are_compiled(folder, tmp_path, space):
    kernel = small_kernel(tmp_path, SQUARE, space)
    assert kernel.cached() and right(kernel)
    assert not list((tmp_path / "cache").glob("*.so"))
    other = small_kernel(tmp_path, OTHER, space)
    assert not other.cached() and not right(other)  # it adds 0.5
    assert list((tmp_path / "cache").glob("*.so"))


@pytest.mark.parametrize(("name", "value"), [("CXX", ""), ("PARKI_EMULATED_TEAM", "2")])
def test_who_asks_for_more_gets_it_compiled(folder, tmp_path, monkeypatch, name, value):
    monkeypatch.setenv(name, value or host.compiler().path)
    assert not shipped.usable()
    kernel = small_kernel(tmp_path, SQUARE)
    assert not kernel.cached() and right(kernel)


def test_a_damaged_file_is_not_loaded(folder, tmp_path, caplog):
    path = folder / f"{shipped.level()}.so"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "parki"):
        assert right(small_kernel(tmp_path, SQUARE))
    assert f"{path} is damaged; install parki again" in caplog.text
    assert list((tmp_path / "cache").glob("*.so"))


def test_a_file_that_cannot_be_loaded(folder, caplog):
    path = folder / f"{shipped.level()}.so"
    path.write_bytes(b"for another system")
    cache.seal(path)
    assert shipped.library() is None
    assert f"{path} cannot be loaded (" in caplog.text


@pytest.mark.parametrize(
    ("machine", "without", "expected"),
    [
        ("x86_64", "", "x86-64-v4"),
        ("AMD64", "AVX512_SKX", "x86-64-v3"),
        ("x86_64", "AVX512_SKX FMA3", "x86-64-v2"),
        ("x86_64", "AVX512_SKX AVX2 SSE42", ""),
        ("aarch64", "", "armv8-sve"),
        ("arm64", "SVE", "armv8"),
        ("riscv64", "", ""),
    ],
)
def test_level(machine, without, expected, monkeypatch):
    every = {
        name for levels in shipped.LEVELS.values() for needed in levels.values() for name in needed
    }
    monkeypatch.setattr(shipped, "features", lambda: {*every, "AMX"} - {*without.split()})
    monkeypatch.setattr(shipped.platform, "machine", lambda: machine)
    assert shipped.level() == expected


def test_features_are_those_of_the_system():
    """As Linux has them, for the ones that tell levels of x86-64 apart."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    if not flags:
        pytest.skip("Linux names no flags of this processor")
    for ours, theirs in {"SSE42": "sse4_2", "AVX2": "avx2", "AVX512_SKX": "avx512vl"}.items():
        assert (ours in shipped.features()) == (theirs in flags)


# ---------------------------------------------------------------------- no compiler
def test_no_compiler_is_needed(folder, tmp_path):
    code = HERE.format(str(folder)) + "import sys, numpy as np, parki\n"
    code += "print(parki.available_spaces())\n"
    code += "\n".join(line.removeprefix("    ") for line in RUN.splitlines())
    status, out, err = run_python(code, write_kernel(tmp_path, SQUARE), PATH=str(tmp_path))
    assert (status, out) == (0, "['OpenMP', 'Serial']\nright\n"), err
    status, _, err = run_python(code, write_kernel(tmp_path, OTHER), PATH=str(tmp_path))
    assert status == 1
    message = err.splitlines()[-1]
    assert "the kernel f is needed in a form that did not come compiled with parki" in message
    assert "no C++ compiler was found" in message and "apt install g++" in message


def test_without_a_compiler_the_usual_variants_are_chosen(monkeypatch):
    space = get_execution_space("OpenMP")
    other = {"p2p": "staged", "p2g": "tile", "g2p": "tile"}
    tuned = {**machines.built_in(space), "usual": dict.fromkeys(("float64", "float32"), other)}
    monkeypatch.setattr(machines, "read", lambda space: tuned)
    assert machines.machine(space, np.float64).usual == ("staged", "tile", "tile")
    pretend(monkeypatch)
    assert machines.machine(space, np.float64).usual == USUAL[False]


@pytest.mark.chosen_degrees
def test_degrees_are_those_that_came(monkeypatch):
    """A wheel has half of the degrees, and keeps to them; a choice for the others is not taken."""
    points = np.random.default_rng(3).random((3, 500))

    def degree() -> int:
        options = parki.EwaldOptions(3, [1, 1, 1], 1e-4, cutoff=0.3)
        return parki.Plan("stokes_sl", points, points, options).parameters.degree

    monkeypatch.setenv("PARKI_CACHE_DIR", CACHE)
    before = degree()
    pretend(monkeypatch)
    assert before % machines.COMPILED_DEGREES == 2
    assert degree() == before + 2


# ---------------------------------------------------------------------- what comes
POINTWISE = ("cell_list", "extremes")  # kernels that run before a plan asks for all of its own
Request = tuple[Any, ...]


class Asked:
    """What was asked of `load`: files, workunits and constants.

    Where ``stand_ins`` is true, kernels of the stages cannot be launched.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stand_ins: bool) -> None:
        self.requests: set[Request] = set()
        monkeypatch.setattr(kernel_module, "_loaded", {})
        make, real = kernel_module.Kernel.__init__, kernel_module.translation

        def translation(file: str, workunit: str, constants: Any, *how: Any) -> Any:
            request = (file, workunit, *sorted(constants.items()))
            self.requests.add(request)
            if stand_ins and file not in POINTWISE:
                real_type = constants.get("REAL", "double")
                return SimpleNamespace(name=workunit, text=request, real=real_type), None
            return real(file, workunit, constants, *how)

        def kernel(self: Any, done: Any, translated: Any, space: Any, *how: Any) -> None:
            if isinstance(done, Specialised):
                make(self, done, translated, space, *how)
            else:
                self.workunit, self.space, self._upstream = done, space, False

        monkeypatch.setattr(kernel_module, "translation", translation)
        monkeypatch.setattr(kernel_module.Kernel, "__init__", kernel)


@pytest.fixture(scope="module")
def listed(script):
    """What the wheel ships, as requests; listing it compiles nothing."""
    with pytest.MonkeyPatch.context() as patch:
        asked = Asked(patch, stand_ins=True)
        for _ in script["kernels"]():
            pass
    return asked.requests


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose as where kernels came compiled, and nothing can be compiled."""
    monkeypatch.setattr(shipped, "usable", lambda: True)
    monkeypatch.setattr(host, "can_compile", lambda: False)


def plans(
    monkeypatch, kernel, dtype, want, box=(1, 1, 1), periodicities=(0, 1, 2, 3), **options: Any
):
    """Return what plans of a sum ask for, with 0 to 3 periodic axes; none is compiled."""
    asked = Asked(monkeypatch, stand_ins=True)

    def stop(kernels: Any) -> None:
        list(kernels)
        raise StopIteration

    monkeypatch.setattr(pipeline, "preparing", stop)
    pretend(monkeypatch)
    points = np.random.default_rng(3).random((3, 3000)).astype(dtype)
    norms = points if SUMS[kernel].normals else None
    for periodicity in periodicities:
        settings = parki.EwaldOptions(periodicity=periodicity, box=box, **options)
        with pytest.raises(StopIteration):
            parki.Plan(kernel, points, points, norms, settings, want=want)
    return asked.requests


def all_wants(kernel: str) -> list[tuple[str, ...]]:
    """Return every combination of results that a sum has, and that is not zero everywhere."""
    terms = SUMS[kernel].terms
    names = [name for name in RESULTS if "p" in terms or name not in ("p", "stress")]
    wants = (want for n in range(1, len(names) + 1) for want in combinations(names, n))
    return [want for want in wants if want != ("p",) or terms["p"]]


@pytest.mark.chosen_degrees
@pytest.mark.each
@pytest.mark.parametrize("kernel", list(SUMS))
def test_potentials_in_tilted_boxes_come(listed, monkeypatch, kernel):
    box = parki.lattice(1, 1, 1, xy=0.5)
    asked = plans(monkeypatch, kernel, "float64", "u", box, (2, 3), tolerance=1e-5, dl_mean="zero")
    assert asked <= listed


@pytest.mark.chosen_degrees
@pytest.mark.each
@pytest.mark.parametrize(
    "tolerance", [1e-4, *(pytest.param(t, marks=pytest.mark.slow) for t in (1e-1, 1e-6, 1e-8))]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", list(SUMS))
def test_every_combination_of_results_comes(listed, monkeypatch, kernel, dtype, tolerance):
    if dtype == "float32" and tolerance < 1e-6:
        pytest.skip("not in single precision")
    for want in all_wants(kernel):
        missing = plans(monkeypatch, kernel, dtype, want, tolerance=tolerance) - listed
        assert not missing, want


def derivatives() -> None:
    """Take derivatives of the sums that `docs/install.md` does not except."""
    draw = np.random.default_rng(4).random
    trg, src, dens, values = draw((3, 300)), draw((3, 200)), draw((3, 200)), draw((3, 300))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-3)
    how: Any = {"options": options, "wrt": ("dens", "trg", "src", "box")}
    for kernel in ("stokes_sl", "stokes_rotlet"):
        parki.vjp(kernel, trg, src, dens, values=values, **how)
    parki.vjp("laplace", trg, src, dens[0], values=values[0], **how)


def pairs_left_out() -> None:
    """Sum potentials without the pairs of a body."""
    points, bodies = np.random.default_rng(4).random((3, 200)) / 3, np.repeat([0, 1], 100)
    for kernel, norms in (("laplace", None), ("stokes_sl", None), ("stokes_dl", points)):
        for image in ("nearest", "given"):
            options = parki.EwaldOptions(3, [1, 1, 1], 1e-3, exclude_image=image)
            plan = parki.Plan(kernel, points, points, norms, options, exclude=bodies)
            plan(points[0] if kernel == "laplace" else points)


PROGRAMS = {
    "derivatives": derivatives,
    "pairs left out": pairs_left_out,
    "README": lambda: exec(program(ROOT / "README.md", PLAIN), {}),
    "tutorial": lambda: exec(program(ROOT / "docs/tutorial.md", PLAIN), {}),
    "figure 10": lambda: runpy.run_path(str(ROOT / "examples/figure10.py"))["main"](2000),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "tutorial")) for name in PROGRAMS],
)
def test_what_programs_load_comes(listed, monkeypatch, name):
    """They run, with kernels of the user's cache as in `tests/test_docs.py`."""
    monkeypatch.setenv("PARKI_CACHE_DIR", CACHE)
    pretend(monkeypatch)
    asked = Asked(monkeypatch, stand_ins=False)
    PROGRAMS[name]()
    assert len(asked.requests) > 10
    assert not asked.requests - listed


@pytest.mark.parametrize("case", ["mixed precision", "transposes"])
def test_what_the_page_excepts_does_not_come(listed, monkeypatch, case):
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert case in page.partition("Other kernels need a compiler, and say so:")[2]
    monkeypatch.setenv("PARKI_CACHE_DIR", CACHE)
    pretend(monkeypatch)
    asked = Asked(monkeypatch, stand_ins=False)
    draw = np.random.default_rng(4).random
    trg, src, dens, norms, values = (draw((3, n)) for n in (300, 200, 200, 200, 300))
    how = {"precision": "mixed"} if case == "mixed precision" else {}
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-3, **how)
    plan = parki.Plan("stokes_dl", trg, src, norms, options)
    if case == "transposes":
        plan(dens)
        assert not asked.requests - listed
        plan.adjoint(values)
    assert asked.requests - listed


@pytest.mark.chosen_degrees
@pytest.mark.each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", list(SUMS))
def test_degrees_that_are_chosen_come(script, monkeypatch, kernel, dtype):
    """From few points in a long box at a loose tolerance to many, or one, at a tight one."""
    chosen: list[int] = []

    def note(setup: Setup, _: int) -> None:
        chosen.append(setup.parameters.degree)
        raise StopIteration

    monkeypatch.setattr(Setup, "kernels", note)
    pretend(monkeypatch)
    tight = 1e-6 if dtype == "float32" else 3e-10
    cases = ((0.3, 20, 1000.0, 4), (tight, 30_000, 1.0, 4), (tight, 1, 1000.0, 2))
    for tolerance, n, edge, periodicities in cases:
        points = np.random.default_rng(3).random((3, n)).astype(dtype)
        norms = points if SUMS[kernel].normals else None
        for want, last in zip(
            ("u", "grad_u"), script["degrees"](kernel, np.dtype(dtype)), strict=True
        ):
            listed = range(machines.COMPILED_DEGREES, last + 1, machines.COMPILED_DEGREES)
            for periodicity in range(periodicities):
                settings = parki.EwaldOptions(periodicity, [1, 1, edge], tolerance)
                with pytest.raises(StopIteration):
                    parki.Plan(kernel, points, points, norms, settings, want=want)
                assert chosen.pop() in listed, (tolerance, want, periodicity)
