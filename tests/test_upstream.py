"""The executor `pykokkos`: every workunit through upstream PyKokkos, against the embedded executor.

The tests with the marker `pykokkos` need upstream PyKokkos (some 7 s of compilation per kernel, the
first time) and are skipped where it cannot be imported; the others run everywhere.
"""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import parki
from parki.arrays import real_name
from parki.cell_list import CellList
from parki.errors import KernelError, UnavailableError
from parki.ewald.far import conflicts, stored_mesh
from parki.ewald.near import p2p
from parki.ewald.near.sizes import Launch
from parki.runtime import get_execution_space, load, upstream
from parki.runtime import kernel as kernel_module
from parki.runtime.kernel import Kernel
from parki.runtime.linter import is_decorated, lint
from parki.runtime.specialise import kernel_directory, specialise
from parki.runtime.translate import translate

BOX = (1.0, 1.1, 0.9)
POINTS = 150
# Sums are added in another order, and 1 / sqrt(x) is computed in another way: 4 units were seen.
ROUNDING = 32


def workunits() -> list[str]:
    """Return the names of all workunits in the kernel files."""
    return [
        node.name
        for path in sorted(kernel_directory().rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and is_decorated(node, "workunit")
    ]


def make_sum(
    kernel: str,
    periodicity: int,
    dtype: type,
    method: str,
    executor: str,
    want="u",
    systems=None,
    **more,
):
    """Plan and apply a small sum; its kernels differ in as little as possible."""
    rng = np.random.default_rng(1)
    rows = {"laplace": 1, "stokes_sl": 3, "stokes_dl": 3, "stokes_comb": 6}[kernel]
    trg = (0.9 * rng.random((3, POINTS - 20))).astype(dtype)
    src = (0.9 * rng.random((3, POINTS))).astype(dtype)
    norms = rng.standard_normal((3, POINTS)).astype(dtype)
    dens = rng.standard_normal((rows, POINTS)).astype(dtype)
    options = parki.EwaldOptions(
        periodicity=periodicity,
        box=BOX,
        tolerance=1e-2,
        cutoff=0.35,
        window_points=8,
        p2g_method=method,
        executor=executor,
        **more,
    )
    norms = norms if rows == 6 else None
    plan = parki.Plan(kernel, trg, src, norms, options, want=want, systems=systems)
    values = dens[0] if rows == 1 else dens
    if plan.pipeline.p2p.lists is not None:  # which the second sum keeps, and the third takes
        plan(values)
        plan(values)
    return plan(values)


@pytest.fixture(scope="session")
def pykokkos():
    """PyKokkos, or skip with the reason."""
    try:
        return upstream.pykokkos()
    except UnavailableError as error:
        pytest.skip(str(error))


def make_derivatives(dtype: type) -> None:
    """Differentiate a small sum by the places of its sources."""
    rng = np.random.default_rng(1)
    points, norms = (0.9 * rng.random((3, POINTS)).astype(dtype) for _ in range(2))
    dens, values = (rng.standard_normal((n, POINTS)).astype(dtype) for n in (6, 3))
    options = parki.EwaldOptions(1, BOX, 1e-2, executor="embedded")
    given = "stokes_comb", points, points, dens, norms, options
    parki.vjp(*given, values=values, wrt=("src",))


@pytest.fixture(scope="module")
def launches():
    """All launches of small sums by the embedded executor: kernel, count, arguments, result."""
    recorded: dict[type, list] = {}

    def record(dtype: type) -> list:
        if dtype in recorded:
            return recorded[dtype]
        calls: list = []
        original = Kernel._run  # which all ways to launch come to, also by threads of parki's own

        def run(self, count, threads, arguments):
            before = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
            original(self, count, threads, arguments)
            after = {k: v.copy() for k, v in arguments.items() if isinstance(v, np.ndarray)}
            calls.append((self, count, before, after))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Kernel, "_run", run)
            make_sum("stokes_comb", 1, dtype, "owner", "embedded", ("u", "p", "grad_u"))
            # The library's erf and exp, which no other kernel calls.
            make_sum("stokes_comb", 1, dtype, "owner", "embedded", split="hasimoto", radial="erfc")
            make_sum("stokes_comb", 1, dtype, "tile", "embedded", p2p_method="tile")
            apart = ([0, 20, POINTS - 20], [0, 30, POINTS])
            make_sum("stokes_comb", 1, dtype, "owner", "embedded", systems=apart)
            for method in ("source", "grid", "hybrid"):
                make_sum("stokes_comb", 1, dtype, method, "embedded", g2p_method="tile")
            make_sum("stokes_comb", 1, dtype, "owner", "embedded", p2p_method="gm1d")
            both = "u", "grad_u"
            make_sum("stokes_comb", 1, dtype, "owner", "embedded", both, p2p_method="tile")
            make_derivatives(dtype)
            # Lanes too, which a host's team would do without.
            lanes = Launch(team=1, vectors=4, targets=20, chunk=30, width=0.5)
            patch.setattr(p2p, "choose_launch", lambda *_: lanes)
            make_sum("stokes_comb", 1, dtype, "owner", "embedded", p2p_method="sm2d")
            # What parki.mesh has beside the sums; in turn, for atomics add in any order.
            grid = parki.mesh.Grid((12, 13, 14), spacing=1 / 12)
            points = np.random.default_rng(0).random((3, POINTS)).astype(dtype)
            more = {"window": parki.mesh.bspline(4), "execution_space": "Serial"}
            patch.setattr("parki.ewald.far.sizes.IN_ORDER", 1)
            for method in (*conflicts.VARIANTS, *stored_mesh.VARIANTS):
                if method != "unprotected":
                    spread = parki.mesh.SpreadPlan(points, grid, method=method, **more)
                    spread(points[0])
            for method in ("target", "stored"):
                interpolate = parki.mesh.InterpolatePlan(points, grid, method=method, **more)
                interpolate(np.ones(grid.shape, dtype))
            # Of devices: on a host a sum counts chunk by chunk, and NumPy looks for extremes.
            points = np.random.default_rng(0).random((3, POINTS)).astype(dtype)
            space = get_execution_space("OpenMP")
            shape = {"shape": (1, 1, 7), "execution_space": space}
            cells = CellList(points, None, (1, 1, 1), **shape)
            real = real_name(dtype)
            names = ("list_cells", "order_cells")
            kernels = {n: load("cell_list", n, space, REAL=real) for n in ("count_cells", *names)}
            in_turn = load("cell_list", "count_cells", get_execution_space("Serial"), REAL=real)
            cells._sort_on_device({**kernels, "count_cells": in_turn})
            ends = dict(zip(("low", "high"), np.empty((2, 3, 4), dtype), strict=True))
            sizes = {"total": POINTS, "items": 4, "rows": 3}
            extremes = load("extremes", "extremes", space, REAL=real)
            extremes(4, lows=points, highs=points, **sizes, **ends)
        recorded[dtype] = calls  # only now: a failed sum shall fail again, not look empty
        return calls

    return record


def close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree to rounding (exactly, for integers)."""
    if a.dtype.kind == "i":
        return np.array_equal(a, b)
    scale = float(np.abs(b).max(initial=0))
    return np.isfinite(scale) and np.allclose(
        a, b, rtol=0, atol=ROUNDING * np.finfo(b.dtype).eps * scale
    )


# ---------------------------------------------------------------------- with upstream PyKokkos
@pytest.mark.pykokkos
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", workunits())
def test_workunit(pykokkos, launches, name, dtype):
    calls = [call for call in launches(dtype) if call[0].workunit.name == name]
    assert calls, f"the sums of this test never launch {name}: add one that does"
    kernels: dict[str, Kernel] = {}
    for recorded, count, arguments, expected in calls:
        workunit = recorded.workunit
        if workunit.digest not in kernels:
            kernels[workunit.digest] = Kernel(workunit, recorded.space, "pykokkos", 1, 1)
        kernels[workunit.digest](count, **arguments)
        # What a workunit does not use may be given, and hold anything.
        for argument in expected.keys() & dict(workunit.arguments).keys():
            assert close(arguments[argument], expected[argument]), argument


@pytest.mark.pykokkos
@pytest.mark.slow
@pytest.mark.parametrize("periodicity", [1, 3])
@pytest.mark.parametrize("kernel", ["stokes_comb", "laplace"])
def test_public_sum(pykokkos, kernel, periodicity):
    ours = make_sum(kernel, periodicity, np.float64, "auto", "embedded")
    theirs = make_sum(kernel, periodicity, np.float64, "auto", "pykokkos")
    assert np.abs(ours).max() > 0
    assert close(theirs, ours)


@pytest.fixture
def fresh(monkeypatch, tmp_path):
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
def test_serial_after_a_killed_compilation(pykokkos, fresh):
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
    assert not list(fresh.iterdir()), "upstream wrote into the working directory"


@pytest.mark.pykokkos
@pytest.mark.parametrize(
    ("wrong", "printed"),
    [("order[undefined]", "undefined symbol"), ("order[i % 2.5]", "error:")],
    ids=["translator", "compiler"],
)
def test_failure_is_an_error_and_leaves_nothing(pykokkos, fresh, wrong, printed):
    text = gather_object().text
    kernel = gather_object(text=text.replace("order[i]", wrong))
    assert wrong in kernel.text
    for _ in range(2):  # the second attempt must not find the remains of the first
        with pytest.raises(KernelError, match=rf"(?s)PyKokkos failed on gather_rows.*{printed}"):
            kernel.load()
    assert not kernel.folder.exists()
    assert not kernel.cached()
    assert not list(fresh.iterdir())


# ---------------------------------------------------------------------- without it
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_launch_every_workunit(launches, dtype):
    launched = {call[0].workunit.name for call in launches(dtype)}
    missing = sorted(set(workunits()) - launched)
    assert not missing, f"no sum of `launches` launches {missing}: add one that does"


@pytest.mark.parametrize("periodicity", [1, 3])
def test_every_launch_of_a_sum_goes_to_upstream(monkeypatch, periodicity):
    handed_over, launched = [], []

    class InPlaceOfUpstream:
        """Takes what upstream would be given, and has the embedded executor run it."""

        def __init__(self, workunit, translated, space, team_size, vector_length):
            self.kernel = Kernel(workunit, space, "embedded", team_size, vector_length)
            self.names = [name for name, _ in translated.arguments]

        def cached(self):
            return True

        def load(self):
            return self.launch

        def launch(self, values, count):
            handed_over.append(self.kernel.workunit.name)
            self.kernel(count, **dict(zip(self.names, values, strict=True)))

    ours = make_sum("stokes_comb", periodicity, np.float64, "auto", "embedded")
    original = Kernel._run

    def run(self, count, threads, arguments):
        launched.append(self.workunit.name)
        original(self, count, threads, arguments)

    monkeypatch.setattr(upstream, "UpstreamObject", InPlaceOfUpstream)
    monkeypatch.setattr(kernel_module, "_loaded", {})
    monkeypatch.setattr(Kernel, "_run", run)
    theirs = make_sum("stokes_comb", periodicity, np.float64, "auto", "pykokkos")
    assert close(theirs, ours)
    assert "convolve" in handed_over
    # Each launch is seen once as upstream's, and once more as the one in its place.
    assert sorted(launched) == sorted(2 * handed_over)


def test_import_parki_leaves_pykokkos_alone():
    code = "import sys, parki, parki.runtime.upstream; print('pykokkos' in sys.modules)"
    root = Path(parki.__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert run.stdout == "False\n", run.stderr


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
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-3, executor=executor)
    with pytest.raises(UnavailableError, match=r"github.com/kokkos/pykokkos.*'embedded'"):
        parki.Plan("stokes_sl", points, points, options)


def test_pykokkos_that_fails_to_import(forgotten, tmp_path):
    # What CuPy without a driver does to it: an error of another type than ImportError.
    (tmp_path / "pykokkos.py").write_text("raise RuntimeError('cudaErrorInsufficientDriver')\n")
    forgotten.syspath_prepend(tmp_path)
    with pytest.raises(UnavailableError, match=r"cudaErrorInsufficientDriver.*remove CuPy"):
        upstream.pykokkos()


def test_space_that_was_not_built(monkeypatch):
    class Manager:
        @staticmethod
        def get_available_execution_spaces():
            return []

    class Package:
        Serial = "Serial"
        kokkos_manager = Manager

    monkeypatch.setattr(upstream, "pykokkos", Package)
    with pytest.raises(UnavailableError, match="built without Serial"):
        gather_object()


HEAD = "@pk.workunit\ndef f(team: pk.TeamMember, v: pk.View1D[REAL], n: int):\n"
TRAPS = {
    "inner declaration": ("    x: int = 0\n    if n > 1:\n        x: int = 1\n", "'x' again"),
    "inner loop variable": (
        "    for k in range(3):\n        for k in range(2):\n            v[k] = 0.0\n",
        "'k' again",
    ),
    "local named as argument": ("    n: int = 1\n", "'n' again"),
    "assigned argument": ("    n = 1\n", "copy it to a local"),
    "body's argument": (
        "    def body(n: int):\n        v[n] = 0.0\n"
        "    pk.parallel_for(pk.TeamThreadRange(team, 3), body)\n",
        "rename it",
    ),
    "captured local": (
        "    x: int = 0\n    def body(t: int):\n        x += t\n"
        "    pk.parallel_for(pk.TeamThreadRange(team, 3), body)\n",
        "nested body",
    ),
    "negative step": ("    for k in range(n, 0, -1):\n        v[k] = 0.0\n", "positive constant"),
    "variable step": ("    for k in range(0, n, n):\n        v[k] = 0.0\n", "positive constant"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_linter_refuses_what_upstream_misreads(trap):
    body, message = TRAPS[trap]
    with pytest.raises(KernelError, match=message):
        lint(ast.parse(HEAD + body), Path("trap.py"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@pk.workunit\ndef f(i: int, space: int):\n    pass\n", "upstream uses it"),
        ("@pk.function\ndef f(x: REAL):\n    return x\n", "return type"),
        ("@pk.function\ndef f(v: pk.View1D[REAL]) -> REAL:\n    return v[0]\n", "scalars only"),
    ],
)
def test_linter_refuses_what_upstream_refuses(text, message):
    with pytest.raises(KernelError, match=message):
        lint(ast.parse(text), Path("trap.py"))


def test_linter_takes_names_that_only_look_alike():
    body = (
        "    if n > 1:\n        x: int = 0\n    else:\n        x: int = 1\n"
        "    for k in range(3):\n        v[k] = 0.0\n"
        "    for k in range(0, 4, 2):\n        v[k] = 1.0\n"
        "    y: REAL = 0.0\n"
        "    def body(t: int):\n        y: REAL = v[t]\n        y += 1.0\n        v[t] = y\n"
        "    pk.parallel_for(pk.TeamThreadRange(team, n), body)\n"
    )
    lint(ast.parse(HEAD + body), Path("fine.py"))
