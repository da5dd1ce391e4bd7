"""The executor `pykokkos`: every workunit through upstream PyKokkos, against the embedded executor.

The tests with the marker `pykokkos` need upstream PyKokkos (some 7 s of compilation per kernel, the
first time) and are skipped where it is not installed; the others run everywhere.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import any_order
from helpers.launches import make_sum, plain_workunits, record, workunits

import parki
from parki.errors import KernelError, MissingPackageError, UnavailableError
from parki.ewald.sums import SUMS
from parki.runtime import forks, upstream
from parki.runtime import kernel as kernel_module
from parki.runtime.kernel import Kernel
from parki.runtime.linter import lint
from parki.runtime.specialise import specialise
from parki.runtime.translate import translate

DIALECT = Path(__file__).parents[1] / "docs" / "dialect.md"
# Sums are added in another order, and 1 / sqrt(x) is computed in another way: 4 units were seen.
ROUNDING = 32
HOSTS = ("Serial", "OpenMP")
# What a space changes is the same in both precisions, and each compilation takes upstream seconds.
BOTH = [*((np.float64, space) for space in HOSTS), (np.float32, "OpenMP")]
PRECISIONS = {
    "float64": (np.float64, {}, np.float64),
    "float32": (np.float32, {}, np.float32),
    "mixed": (np.float64, {"precision": "mixed"}, np.float32),
}
# Every sum with every number of periodic axes, and with one of them in the other precisions.
PUBLIC = [
    *((kernel, periodicity, "float64") for kernel in SUMS for periodicity in range(4)),
    *((kernel, (i + 3) % 4, "float32") for i, kernel in enumerate(SUMS)),
    *((kernel, (i + 2) % 4, "mixed") for i, kernel in enumerate(SUMS)),
]


@pytest.fixture(scope="session")
def pykokkos():
    """PyKokkos, or skip where it is not installed; one that cannot be imported is an error."""
    if importlib.util.find_spec("pykokkos") is None:
        pytest.skip("PyKokkos is not installed; docs/dialect.md says how to build it")
    return upstream.pykokkos()


@pytest.fixture(scope="module")
def launches():
    """All launches of small sums by the embedded executor, for a dtype."""
    recorded: dict[type, list] = {}

    def recall(dtype: type) -> list:
        if dtype not in recorded:
            recorded[dtype] = record(dtype)  # a failed sum shall fail again, not look empty
        return recorded[dtype]

    return recall


def close(a: np.ndarray, b: np.ndarray, dtype: type | None = None) -> bool:
    """Whether two arrays agree to rounding of ``dtype`` or theirs (exactly, for integers)."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind == "i":
        return np.array_equal(a, b)
    scale = float(np.abs(b).max(initial=0))
    eps = np.finfo(dtype or b.dtype).eps
    return np.isfinite(scale) and np.allclose(a, b, rtol=0, atol=ROUNDING * eps * scale)


def repeat(calls, space: str, executor: str, text: str = "") -> None:
    """Launch again on a space, with each kernel's source replaced if ``text`` is given."""
    kernels: dict[str, Kernel] = {}
    for recorded, count, before, after in calls:
        workunit = recorded.workunit
        if workunit.digest not in kernels:
            done = dataclasses.replace(workunit, text=text or workunit.text)
            how = (recorded.translated, parki.ExecutionSpace(space), executor, 1, 1)
            made = Kernel(done, *how)
            kernels[workunit.digest] = made
        given = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in before.items()}
        kernels[workunit.digest](count, **given)
        # What a workunit does not use may be given, and hold anything.
        used = dict(workunit.arguments).keys()
        expected = {k: v for k, v in after.items() if k in used}
        found = {k: given[k] for k in expected}
        if space != "Serial" and workunit.name in any_order.FORMS:
            form = any_order.FORMS[workunit.name]
            expected, found = form(before | after), form(given)
        for name, values in expected.items():
            assert close(found[name], values), name


# ---------------------------------------------------------------------- with upstream PyKokkos
@pytest.mark.pykokkos
@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "space"), BOTH)
@pytest.mark.parametrize("name", workunits())
def test_workunit(pykokkos, launches, name, dtype, space):
    calls = [call for call in launches(dtype) if call.kernel.workunit.name == name]
    assert calls, f"the sums of this test never launch {name}: add one that does"
    repeat(calls, space, "pykokkos")


@pytest.mark.pykokkos
@pytest.mark.slow
@pytest.mark.parametrize("space", HOSTS)
@pytest.mark.parametrize("name", plain_workunits())
def test_workunit_as_it_stands(pykokkos, launches, name, space):
    # Only a comment tells the texts apart: what is compiled is kept for each text.
    text = plain_workunits()[name].read_text(encoding="utf-8") + f"\n# {name}\n"
    calls = [call for call in launches(np.float64) if call.kernel.workunit.name == name]
    repeat(calls, space, "pykokkos", text)


@pytest.mark.pykokkos
@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "periodicity", "precision"), PUBLIC)
def test_public_sum(pykokkos, kernel, periodicity, precision):
    dtype, options, rounding = PRECISIONS[precision]
    ours = make_sum(kernel, periodicity, dtype, "embedded", **options)
    theirs = make_sum(kernel, periodicity, dtype, "pykokkos", **options)
    assert ours.dtype == theirs.dtype == dtype
    assert np.abs(ours).max() > 0
    assert close(theirs, ours, rounding)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """An empty compile cache and an empty working directory."""
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_module, "_loaded", {})
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def gather_object(space: str = "Serial", text: str = "") -> upstream.UpstreamObject:
    """The workunit gather_rows for upstream, with its source replaced if ``text`` is given."""
    workunit = specialise("cell_list", "gather_rows", {"REAL": "double", "ROWS": 2})
    translated = translate(workunit)
    workunit = dataclasses.replace(workunit, text=text or workunit.text)
    return upstream.UpstreamObject(workunit, translated, parki.ExecutionSpace(space), 1, 1)


@pytest.mark.pykokkos
@pytest.mark.slow
def test_serial_after_a_killed_compilation(pykokkos, elsewhere):
    kernel = gather_object()
    # Upstream takes this folder, without a library in it, for a finished compilation.
    launch_folder = kernel.folder / "built" / f"{kernel.file.stem}_gather_rows"
    launch_folder.mkdir(parents=True)
    kernel.file.write_text("half a fi", encoding="utf-8")
    assert not kernel.cached()
    launch = kernel.load()
    rows = np.arange(10.0).reshape(2, 5)
    order = np.array([4, 2, 0, 1, 3], dtype=np.int32)
    result = np.zeros((2, 5))
    launch([rows, order, result], 5)
    assert np.array_equal(result, rows[:, order])
    assert kernel.cached() and gather_object().cached()
    assert not list(elsewhere.iterdir()), "upstream wrote into the working directory"


@pytest.mark.pykokkos
@pytest.mark.parametrize(
    ("wrong", "printed"),
    [("order[undefined]", "undefined symbol"), ("order[i % 2.5]", "error:")],
    ids=["translator", "compiler"],
)
def test_failure_is_an_error_and_leaves_nothing(pykokkos, elsewhere, wrong, printed):
    text = gather_object().text
    kernel = gather_object(text=text.replace("order[i]", wrong))
    assert wrong in kernel.text
    for _ in range(2):  # the second attempt must not find the remains of the first
        with pytest.raises(KernelError, match=rf"(?s)PyKokkos failed on gather_rows.*{printed}"):
            kernel.load()
    assert not kernel.folder.exists()
    assert not kernel.cached()
    assert not list(elsewhere.iterdir())


# ---------------------------------------------------------------------- without it
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_sums_launch_every_workunit(launches, dtype):
    launched = {call.kernel.workunit.name for call in launches(dtype)}
    missing = sorted(set(workunits()) - launched)
    assert not missing, f"no sum of `launches` launches {missing}: add one that does"


@pytest.mark.parametrize("name", any_order.FORMS)
def test_order_of_items_does_not_count(launches, name):
    calls = [call for call in launches(np.float64) if call.kernel.workunit.name == name]
    repeat(calls, "OpenMP", "embedded")
    form = any_order.FORMS[name]
    for call in calls:
        right = form(call.before | call.after)
        written = [k for k, v in call.after.items() if not np.array_equal(v, call.before[k])]
        assert written
        for argument in written:
            wrong = call.after[argument].copy()
            changed = np.argmax((wrong != call.before[argument]).ravel())
            wrong.reshape(-1)[changed] += 1
            found = form(call.before | call.after | {argument: wrong})
            assert not all(close(found[k], right[k]) for k in right), argument


def test_page_says_how_many_workunits_run_as_they_stand():
    said = re.search(r"(\d+) of the (\d+) workunits", DIALECT.read_text(encoding="utf-8"))
    assert said is not None
    assert [int(n) for n in said.groups()] == [len(plain_workunits()), len(workunits())]


def test_every_launch_of_a_sum_goes_to_upstream(monkeypatch):
    handed_over, launched = [], []

    class InPlaceOfUpstream:
        """Takes what upstream would be given, and has the embedded executor run it."""

        def __init__(self, workunit, translated, space, team_size, vector_length):
            self.kernel = Kernel(workunit, translated, space, "embedded", team_size, vector_length)
            self.names = [name for name, _ in translated.arguments]

        def cached(self):
            return True

        def load(self):
            return self.launch

        def launch(self, values, count):
            handed_over.append(self.kernel.workunit.name)
            self.kernel(count, **dict(zip(self.names, values, strict=True)))

    ours = make_sum("stokes_comb", 1, np.float64, "embedded")
    original = Kernel.__call__

    def run(self, count, /, *threads, **arguments):
        launched.append(self.workunit.name)
        original(self, count, *threads, **arguments)

    monkeypatch.setattr(upstream, "UpstreamObject", InPlaceOfUpstream)
    monkeypatch.setattr(kernel_module, "_loaded", {})
    monkeypatch.setattr(Kernel, "__call__", run)
    theirs = make_sum("stokes_comb", 1, np.float64, "pykokkos")
    assert close(theirs, ours)
    assert "convolve" in handed_over
    # Each launch is seen once as upstream's, and once more as the one in its place.
    assert sorted(launched) == sorted(2 * handed_over)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_is_refused_the_parent_s_threads(monkeypatch):
    """They are Kokkos's, for which the child would wait for ever."""
    monkeypatch.setenv("PARKI_NUM_THREADS", "2")
    monkeypatch.setattr(forks, "_used", set())
    monkeypatch.setattr(upstream, "UpstreamObject", lambda *_: SimpleNamespace(load=lambda: print))
    translated = SimpleNamespace(arguments=(), tables={})
    workunit = SimpleNamespace(name="f", is_team=False)
    kernel = Kernel(workunit, translated, parki.ExecutionSpace("OpenMP"), "pykokkos", 1, 1)
    kernel.build()
    kernel(1)
    child = os.fork()
    if not child:
        try:
            kernel(1)
        except UnavailableError as error:
            os._exit("had used PyKokkos's threads, which a fork does not copy" in str(error))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.fixture
def forgotten(monkeypatch):
    """As if nothing had imported PyKokkos or made a kernel for it."""
    for module in [m for m in sys.modules if m.split(".")[0] == "pykokkos"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(kernel_module, "_loaded", {})
    upstream.pykokkos.cache_clear()
    yield monkeypatch
    upstream.pykokkos.cache_clear()


@pytest.mark.parametrize("by", ["option", "environment"])
def test_without_pykokkos(forgotten, by):
    forgotten.setitem(sys.modules, "pykokkos", None)
    if by == "environment":
        forgotten.setenv("PARKI_EXECUTOR", "pykokkos")
    executor = "pykokkos" if by == "option" else None
    points = np.full((3, 4), 0.5)
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-3, expert=parki.Expert(executor=executor))
    with pytest.raises(MissingPackageError, match=r"github.com/kokkos/pykokkos.*'embedded'"):
        parki.Plan("stokes_sl", points, points, options)


def test_pykokkos_that_fails_to_import(forgotten, tmp_path):
    # What CuPy without a driver does to it: an error of another type than ImportError.
    (tmp_path / "pykokkos.py").write_text("raise RuntimeError('cudaErrorInsufficientDriver')\n")
    forgotten.syspath_prepend(tmp_path)
    with pytest.raises(UnavailableError, match=r"cudaErrorInsufficientDriver.*remove CuPy"):
        upstream.pykokkos()


def in_place_of_pykokkos(*spaces: str):
    """Return a function that imports nothing, and gives a package built with these spaces."""

    class Manager:
        @staticmethod
        def get_available_execution_spaces():
            return spaces

    class Package:
        __file__ = "pykokkos/__init__.py"
        Serial = "Serial"
        kokkos_manager = Manager

    return lambda: Package


def test_space_that_was_not_built(monkeypatch):
    monkeypatch.setattr(upstream, "pykokkos", in_place_of_pykokkos())
    with pytest.raises(UnavailableError, match="built without Serial"):
        gather_object()


def test_upstream_takes_the_file_of_the_specialisation(launches, monkeypatch):
    monkeypatch.setattr(upstream, "pykokkos", in_place_of_pykokkos("Serial"))
    appended = set()
    kernels = {call.kernel.workunit: call.kernel for call in launches(np.float64)}
    for workunit, kernel in kernels.items():
        given = kernel.translated, parki.ExecutionSpace("Serial"), 1, 1
        text = upstream.UpstreamObject(workunit, *given).text
        assert text.startswith(workunit.text)
        lint(ast.parse(workunit.text), Path("specialised.py"))  # it stays in the dialect
        assert "REAL" not in workunit.text
        rest = re.sub(r"\d+", "N", text.removeprefix(workunit.text))
        assert bool(rest) == ("pk.ScratchView" in workunit.text), workunit.name
        appended.add(rest)
    function = "\n\n@pk.function\ndef team_shmem_size(team_size: int) -> int:\n    return N\n"
    assert appended == {"", function}
