"""Kernels that came compiled with parki: which are used, when, and what a machine without does."""

from __future__ import annotations

import logging
import os
import runpy
import subprocess
import textwrap
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from degrees import all_degrees
from pages import PLAIN, program
from small_kernels import RUN, SQUARE, right, run_python, small_kernel, write_kernel

import parki
from parki.ewald.choice import machines
from parki.ewald.choice.cost import STAGES, USUAL
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


# ---------------------------------------------------------------------- which are used
def test_which_kernels_are_compiled(folder, tmp_path, monkeypatch):
    """Others than those that came, and all for who asks for more."""
    for space in ("OpenMP", "Serial"):
        kernel = small_kernel(tmp_path, SQUARE, space)
        assert kernel.cached() and right(kernel)
    assert not list((tmp_path / "cache").glob("*.so"))
    for name, value in (("CXX", host.compiler().path), ("PARKI_EMULATED_TEAM", "2")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not shipped.usable()
            assert small_kernel(tmp_path, SQUARE) is not kernel
    other = small_kernel(tmp_path, OTHER)
    assert not other.cached() and not right(other)  # it adds 0.5
    assert list((tmp_path / "cache").glob("*.so"))


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
    run = textwrap.dedent(RUN)
    code = HERE.format(str(folder)) + "import parki; print(parki.available_spaces())" + run
    files = write_kernel(tmp_path, SQUARE), write_kernel(folder, OTHER)
    code += run.replace("argv[1]", "argv[2]")
    status, out, err = run_python(code, *files, PATH=str(tmp_path))
    assert (status, out) == (1, "['OpenMP', 'Serial']\nright\n"), err
    message = err.splitlines()[-1]
    assert "the kernel f is needed in a form that did not come compiled with parki" in message
    assert "no C++ compiler was found" in message and "apt install g++" in message


def test_measurements_choose_no_variants_that_did_not_come(monkeypatch):
    """Whatever takes long here."""
    space = get_execution_space("OpenMP")
    factors = dict.fromkeys(STAGES, 1.0) | {"p2g": 1e3, "g2p": 1e3}
    content = machines.tuned(space, dict.fromkeys(("float64", "float32"), factors))
    monkeypatch.setattr(machines, "read", lambda space: machines.multiplied(content))
    assert machines.machine(space, np.float64).usual == USUAL[False]
    pretend(monkeypatch)
    assert machines.machine(space, np.float64).usual == USUAL[False]


# ---------------------------------------------------------------------- what comes
POINTWISE = ("cell_list", "extremes")  # kernels whose results choose others
Request = tuple[Any, ...]


def asked(monkeypatch: pytest.MonkeyPatch) -> set[Request]:
    """Note the files, workunits and constants asked of `load`, whose kernels do nothing.

    But for those of ``POINTWISE``, none is translated or compiled.
    """
    requests: set[Request] = set()
    make, real = kernel_module.Kernel.__init__, kernel_module.translation

    def translation(file: str, workunit: str, constants: Any, *how: Any) -> Any:
        request = (file, workunit, *sorted(constants.items()))
        requests.add(request)
        if file in POINTWISE:
            return real(file, workunit, constants, *how)
        real_type = constants.get("REAL", "double")
        return SimpleNamespace(text=request, real=real_type), SimpleNamespace(tables={})

    def kernel(self: Any, done: Any, translated: Any, space: Any, *how: Any) -> None:
        if isinstance(done, Specialised):
            make(self, done, translated, space, *how)
        else:
            self.translated, self.space, self._upstream = translated, space, False
            self._lost, self._plan, self._threads = "", (), 1
            self._launch = self._pack = lambda *_: 0

    monkeypatch.setenv("PARKI_CACHE_DIR", CACHE)
    monkeypatch.setattr(kernel_module, "_loaded", {})
    monkeypatch.setattr(kernel_module, "translation", translation)
    monkeypatch.setattr(kernel_module.Kernel, "__init__", kernel)
    return requests


@pytest.fixture(scope="module")
def listed(script):
    """What the wheel ships, as requests; listing it compiles nothing."""
    with pytest.MonkeyPatch.context() as patch:
        all_degrees(patch.setattr)
        requests = asked(patch)
        for _ in script["kernels"]():
            pass
    return requests


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose as where kernels came compiled, and nothing can be compiled."""
    monkeypatch.setattr(shipped, "usable", lambda: True)


def plans(kernel, points, want=("u",), periodicities=range(4), box=(1, 1, 1), **options: Any):
    """Make plans of a sum, whose kernels are asked for and not launched; yield their degrees."""
    norms = points if SUMS[kernel].normals else None
    for periodicity in periodicities:
        settings = parki.EwaldOptions(periodicity=periodicity, box=box, **options)
        yield parki.Plan(kernel, points, points, norms, settings, want=want).parameters.degree


def uniform_points(n: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(3).random((3, n)).astype(dtype)


@pytest.mark.chosen_degrees
def test_degrees_are_those_that_came(monkeypatch):
    """A wheel has half of the degrees, and keeps to them; a choice for the others is not taken."""
    asked(monkeypatch)
    given = {"points": uniform_points(500), "tolerance": 1e-4, "cutoff": 0.3}
    (before,) = plans("stokes_sl", periodicities=[3], **given)
    pretend(monkeypatch)
    assert before % machines.COMPILED_DEGREES == 2
    assert [*plans("stokes_sl", periodicities=[3], **given)] == [before + 2]


def all_wants(kernel: str) -> list[tuple[str, ...]]:
    """Return every combination of results that a sum has, and that is not zero everywhere."""
    terms = SUMS[kernel].terms
    names = [name for name in RESULTS if "p" in terms or name not in ("p", "stress")]
    wants = (want for n in range(1, len(names) + 1) for want in combinations(names, n))
    return [want for want in wants if want != ("p",) or terms["p"]]


@pytest.mark.chosen_degrees
@pytest.mark.each
@pytest.mark.parametrize(
    "tolerance", [1e-4, *(pytest.param(t, marks=pytest.mark.slow) for t in (1e-1, 1e-6, 1e-8))]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", list(SUMS))
def test_every_combination_of_results_comes(listed, monkeypatch, kernel, dtype, tolerance):
    """Each with one number of periodic axes, the long run with all; potentials in tilted boxes."""
    if dtype == "float32" and tolerance < 1e-6:
        pytest.skip("not in single precision")
    requests, points = asked(monkeypatch), uniform_points(3000, dtype)
    pretend(monkeypatch)
    for n, want in enumerate(all_wants(kernel), round(-np.log10(tolerance)) // 2):
        [*plans(kernel, points, want, [n % 4], tolerance=tolerance)]
    tilted = {"box": parki.lattice(1, 1, 1, xy=0.5), "dl_mean": "zero"}
    [*plans(kernel, points, periodicities=(2, 3), tolerance=tolerance, **tilted)]
    assert not requests - listed


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


def run(page: Path) -> None:
    """Run the program of a page, without its assertions: kernels that do nothing break them."""
    exec(compile(program(page, PLAIN), page, "exec", optimize=1), {})


PROGRAMS = {
    "derivatives": derivatives,
    "pairs left out": pairs_left_out,
    "README": lambda: run(ROOT / "README.md"),
    "tutorial": lambda: run(ROOT / "docs/tutorial.md"),
    "figure 10": lambda: runpy.run_path(str(ROOT / "examples/figure10.py"))["main"](2000),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_programs_load_comes(listed, monkeypatch, name):
    requests = asked(monkeypatch)
    pretend(monkeypatch)
    PROGRAMS[name]()
    assert len(requests) > 10
    assert not requests - listed


def test_what_the_page_excepts_does_not_come(listed, monkeypatch):
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert "mixed precision" in page.partition("Other kernels need a compiler, and say so:")[2]
    requests = asked(monkeypatch)
    pretend(monkeypatch)
    trg, src, norms = (uniform_points(n) for n in (300, 200, 200))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-3, precision="mixed")
    parki.Plan("stokes_dl", trg, src, norms, options)
    assert requests - listed


@pytest.mark.parametrize("kernel", ["stokes_dl", "stokes_comb", "stokes_dipole"])
def test_transposes_come(listed, monkeypatch, kernel):
    """They take the pair functions of other sums."""
    requests = asked(monkeypatch)
    pretend(monkeypatch)
    trg, src, normals = (uniform_points(n) for n in (300, 200, 200))
    norms = normals if SUMS[kernel].normals else None
    plan = parki.Plan(kernel, trg, src, norms, parki.EwaldOptions(3, [1, 1, 1], 1e-3))
    plan.adjoint(uniform_points(300))
    assert requests and not requests - listed


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
    cases = ((0.3, 20, 1000.0, 4), (tight, 10_000, 1.0, 4), (tight, 1, 1000.0, 2))
    for tolerance, n, edge, axes in cases:
        points, how = uniform_points(n, dtype), {"tolerance": tolerance, "box": [1, 1, edge]}
        for want, last in zip(
            ("u", "grad_u"), script["degrees"](kernel, np.dtype(dtype)), strict=True
        ):
            came = range(machines.COMPILED_DEGREES, last + 1, machines.COMPILED_DEGREES)
            for periodicity in range(axes):
                with pytest.raises(RuntimeError, match="StopIteration"):
                    next(plans(kernel, points, want, [periodicity], **how))
                assert chosen.pop() in came, (tolerance, want, periodicity)
