"""parki among others: arrays of other libraries, pickles, threads, forks, notebooks."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest

import parki
from parki.interchange import as_array, as_given, bincount
from parki.runtime.spaces import why_unavailable

N = 150
OPTIONS = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-4)


def numbers(dtype="f8"):
    """Return trg, src, dens and norms of both layers."""
    rng = np.random.default_rng(0)
    arrays = rng.random((3, N - 30)), rng.random((3, N)), *rng.standard_normal((2, 6, N))
    return [array[:rows].astype(dtype) for array, rows in zip(arrays, (3, 3, 6, 3), strict=True)]


def memory(array):
    return array.__array_interface__["data"][0]


# --- libraries ------------------------------------------------------------------------------------


class Namespace:
    """What `__array_namespace__` of the standard returns, as far as parki asks."""

    @staticmethod
    def from_dlpack(array):
        return Standard(np.from_dlpack(array))


class Exchanged:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array, kind=1):
        self.array, self.kind = array, kind

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class Standard(Exchanged):
    """An array of a library that follows the array API standard."""

    def __array_namespace__(self, api_version=None):
        return Namespace


def test_the_library_of_the_density_is_that_of_the_result():
    trg, src, dens, norms = arrays = numbers()
    expected = parki.stokes_comb(*arrays, OPTIONS)
    found = parki.stokes_comb(*map(Standard, arrays), OPTIONS)
    assert isinstance(found, Standard)
    np.testing.assert_array_equal(found.array, expected)
    plan = parki.Plan("stokes_comb", trg, src, norms, OPTIONS, want=("u", "grad_u"))
    results = plan(Standard(dens))
    for result, other in zip(results, plan(dens), strict=True):
        assert isinstance(result, Standard) and type(other) is np.ndarray
        np.testing.assert_array_equal(result.array, other)
    assert isinstance(plan.timed(Standard(dens))[0][0], Standard)
    out = tuple(np.empty_like(result.array) for result in results)
    assert plan(Standard(dens), out=out)[0] is out[0]


def test_exchange_copies_nothing():
    array = numbers()[0]
    assert memory(as_array("src", Exchanged(array))) == memory(array)
    assert memory(as_given(array, Standard(array)).array) == memory(array)


class Fails(Exchanged):
    """A sharded or deleted array of JAX, which raises where it is asked for its place."""

    def __dlpack_device__(self):
        raise AttributeError("only for unsharded arrays")


class FailsLate(Exchanged):
    """One that raises where it is handed over."""

    def __dlpack__(self, **_):
        raise AttributeError("only for unsharded arrays")


class Variable(Exchanged):
    """A tensor in a graph of derivatives."""

    requires_grad = True


class WithUnit(np.ndarray):
    """An array of astropy."""

    unit = "m"


class Quantity:
    """A quantity as in pint: a magnitude and units, which `numpy.asarray` would drop."""

    units = "metre"

    def __init__(self, magnitude):
        self.magnitude = magnitude

    def __array__(self, dtype=None, copy=None):
        return self.magnitude


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: Exchanged(a, kind=8), "src is a Exchanged in memory of kind 8"),
        (Variable, r"src requires a gradient.*src\.detach"),
        (Fails, r"src is a Fails that DLPack does not hand over \(only"),
        (FailsLate, r"src is a FailsLate that DLPack does not hand over \(only"),
        (lambda a: a.view(WithUnit), "src is a WithUnit with units; pass its plain numbers"),
        (Quantity, "src is a Quantity with units; pass its plain numbers"),
        (lambda a: a.astype(np.longdouble), "src has dtype .*; expected float32 or float64"),
    ],
)
def test_arrays_that_say_more_or_less_are_refused(change, message):
    trg, src, dens, norms = numbers()
    with pytest.raises(parki.ParkiTypeError, match=message):
        parki.stokes_comb(trg, change(src), dens, norms, OPTIONS)


@pytest.mark.gpu
def test_a_stream_of_pytorch():
    """What another stream still fills is waited for."""
    if why_unavailable("Cuda"):
        pytest.skip(f"Cuda: {why_unavailable('Cuda')}")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch here has no GPU")
    trg, src, dens, norms = (torch.from_numpy(array).to("cuda") for array in numbers())
    expected = parki.stokes_comb(trg, src, dens, norms, OPTIONS)
    with torch.cuda.stream(torch.cuda.Stream()):
        slow = dens * 0
        for _ in range(200):
            slow += dens / 200
        late = parki.stokes_comb(trg, src, slow, norms, OPTIONS)
        assert float(abs(late - expected).max()) < 4e-13 * float(abs(expected).max())


def test_a_dtype_that_numpy_lacks_is_refused_as_others():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    trg, src, *others = numbers()
    message = r"src has dtype {}; expected float32 or float64 \(convert with src\.{}"
    with pytest.raises(parki.ParkiTypeError, match=message.format("bfloat16", "double")):
        parki.stokes_comb(trg, torch.from_numpy(src).bfloat16(), *others, OPTIONS)
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with pytest.raises(parki.ParkiTypeError, match=message.format("bfloat16", "astype")):
        parki.stokes_comb(trg, jax.numpy.asarray(src, dtype="bfloat16"), *others, OPTIONS)


# --- pickles and copies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        parki.EwaldOptions(
            1, [2, None, 1], 1e-3, expert=parki.Expert(sources_per_cell=100), execution_space="cpu"
        ),
        parki.EwaldOptions(0, None, 1e-3, execution_space=parki.ExecutionSpace("Serial")),
    ],
    ids=["default", "some", "space"],
)
def test_options_are_values(options):
    """Ranks send them, and processes; a space remembers its modules after a sum."""
    points = numbers()[1]
    parki.laplace(points, points, points[0], options)
    for other in (pickle.loads(pickle.dumps(options)), copy.copy(options), copy.deepcopy(options)):
        assert other == options and hash(other) == hash(options) and repr(other) == repr(options)
        assert getattr(other.execution_space, "array_module", np) is np
        assert {options: "found"}[other] == "found"
    assert options != parki.EwaldOptions(3, [1, 1, 1], 1e-5)


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_meshes_and_cells_are_neither_pickled_nor_copied(attempt):
    """Nor operators pickled; a copy is one more operator of the same plan."""
    points, grid = numbers()[1], parki.mesh.Grid((16, 16, 16), 1 / 16)
    plan = parki.Plan("laplace", points, points, OPTIONS)
    for made in (
        parki.mesh.SpreadPlan(points, grid),
        parki.mesh.InterpolatePlan(points, grid),
        parki.CellList(points, 0.2, [1, 1, 1]),
    ):
        message = f"a {type(made).__name__} cannot be pickled or copied"
        with pytest.raises(parki.ParkiTypeError, match=message):
            attempt(made)
    operator = plan.as_linear_operator()
    for one in (operator, operator.T, 2 * operator):
        if attempt is pickle.dumps:
            with pytest.raises(parki.ParkiTypeError, match="a linear operator cannot be"):
                attempt(one)
        else:
            np.testing.assert_array_equal(attempt(one) @ np.ones(N), one @ np.ones(N))


# --- threads --------------------------------------------------------------------------------------


def test_plans_of_their_own_in_many_threads(tmp_path, monkeypatch):
    """Each thread makes plans, with kernels that all of them compile at the same moment."""
    trg, src, dens, _ = numbers()
    barrier = threading.Barrier(3)

    def total(wait=lambda: None):
        wait()
        return parki.laplace(trg, src, dens[0], parki.EwaldOptions(3, [1, 1, 1], 1e-3))

    # Not by the user's cache, which may have numbers of `parki tune`.
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("parki.runtime.kernel._loaded", {})
    with ThreadPoolExecutor(3) as pool:
        found = [task.result(60) for task in [pool.submit(total, barrier.wait) for _ in range(3)]]
    parki.clear_cache()
    for each in found:
        np.testing.assert_array_equal(each, total())
    assert list(tmp_path.glob("*.so"))
    assert not list(tmp_path.glob("*.tmp"))


# --- processes ------------------------------------------------------------------------------------

PROCESSES = """
import multiprocessing
import numpy as np
import parki

def attempt(space, pipe):
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-3, execution_space=space)
    points, charges = np.random.default_rng(0).random((3, 50)), np.ones(50)
    pipe.send(parki.laplace(points, points, charges, options).sum())

def child(method, space):
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context(method)
    process = context.Process(target=attempt, args=(space, theirs))
    process.start()
    print(ours.recv() if ours.poll(60) else 0.0)
    process.kill()

if __name__ == "__main__":
    child("fork", "OpenMP")
    ours, theirs = multiprocessing.Pipe()
    attempt("OpenMP", theirs)
    for method, space in (("fork", "Serial"), ("fork", "OpenMP"), ("spawn", "OpenMP")):
        child(method, space)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_child_processes_sum(tmp_path, monkeypatch):
    """Before and after their parent has summed, by each way to start them."""
    if why_unavailable("OpenMP"):
        pytest.skip(why_unavailable("OpenMP"))
    monkeypatch.setenv("PARKI_NUM_THREADS", "2")
    program = tmp_path / "program.py"
    program.write_text(PROCESSES, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = [float(line) for line in run.stdout.splitlines()]
    assert len(found) == 4 and np.allclose(found, found[0]) and found[0] != 0


@pytest.mark.gpu
def test_a_device_is_refused_after_a_fork():
    if why_unavailable("Cuda"):
        pytest.skip(f"Cuda: {why_unavailable('Cuda')}")
    program = """
        import os, sys
        import cupy, parki
        points = cupy.random.rand(3, 50)
        options = parki.EwaldOptions(3, [1, 1, 1], 1e-3)
        plan = parki.Plan("laplace", points, points, options)
        charges = cupy.ones(50)
        plan(charges)
        if os.fork() == 0:
            try:
                plan(charges)
            except parki.UnavailableError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
    """
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "had used a device, which a fork does not copy" in run.stdout


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_current_stream():
    """Sums run on CuPy's current stream, after what it holds; calls on several wait in turn."""
    if why_unavailable("Cuda"):
        pytest.skip(f"Cuda: {why_unavailable('Cuda')}")
    import cupy

    rng = cupy.random.default_rng(0)
    points, charges = rng.random((3, 20_000)), rng.standard_normal(20_000)
    plan = parki.Plan("laplace", points, points, OPTIONS)
    expected = plan(charges)
    cupy.cuda.Device().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    results = []
    for n in range(12):
        with streams[n % 3]:
            slow = charges * 0
            for _ in range(300):  # still at work when the sum is called
                slow += charges / 300
            results.append(plan(slow))
    cupy.cuda.Device().synchronize()
    for result in results:
        assert float(cupy.abs(result - expected).max() / cupy.abs(expected).max()) < 1e-11


@pytest.mark.gpu
def test_another_device_is_refused():
    if why_unavailable("Cuda"):
        pytest.skip(f"Cuda: {why_unavailable('Cuda')}")
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU only")
    with cupy.cuda.Device(1):
        points, charges = cupy.random.rand(3, 50), cupy.ones(50)
        parki.laplace(points, points, charges, OPTIONS)
    with pytest.raises(parki.ParkiValueError, match="trg is on device 1, but the current one is 0"):
        parki.laplace(points, points, charges, OPTIONS)


# --- notebooks ------------------------------------------------------------------------------------


def test_options_as_a_table():
    text = parki.EwaldOptions(
        1, [2, None, 0.5], 1e-7, expert=parki.Expert(split="hasimoto")
    )._repr_html_()
    for part in ("EwaldOptions", "periodicity", "2 x free x 0.5", "1e-07", "split", "hasimoto"):
        assert part in text
    assert "p2p_method" not in text  # as usual, so not told
    assert "&lt;b&gt;" in parki.html.table("<b>", {"<i>": "&"})


def test_plan_as_a_table_and_as_a_line(monkeypatch):
    trg, src, _, norms = numbers()
    plan = parki.Plan("stokes_comb", trg, src, norms, OPTIONS, want=("u", "p"))

    def refuse(*_):
        raise AssertionError("other parameters were searched for a short description")

    monkeypatch.setattr("parki.ewald.describe.select", refuse)
    line, text = repr(plan), plan._repr_html_()
    assert line == (
        f"<parki.Plan: stokes_comb, 3-periodic, {N} sources, {N - 30} targets, float64, "
        f"{plan.space}, want u, p>"
    )
    for part in ("stokes_comb", "1 x 1 x 1", "tolerance", "r_c = ", "grid ", "seconds"):
        assert part in text
    nothing = parki.Plan("laplace", trg[:, :0], src, OPTIONS)
    assert "near field" not in nothing._repr_html_()


def test_sums_of_fmm3d_have_these_factors():
    """As docs/peers.md says."""
    library = pytest.importorskip("fmm3dpy")
    rng = np.random.default_rng(0)
    src, dens, norms, trg = (rng.standard_normal((3, n)) for n in (40, 40, 40, 5))
    free, given = {"periodicity": 0, "tolerance": 1e-9}, {"eps": 1e-9, "sources": src}
    known = library.lfmm3d(**given, dipvec=dens, targets=trg, pgt=1).pottarg
    ours = parki.laplace_dipole(trg, src, dens, **free)
    np.testing.assert_allclose(ours, 4 * np.pi * known, rtol=1e-6)
    given |= {"targets": trg, "ifppregtarg": 1}
    known = library.stfmm3d(**given, stoklet=dens).pottarg[0]
    np.testing.assert_allclose(
        parki.stokes_sl(trg, src, dens, **free), 8 * np.pi * known, rtol=1e-6
    )
    known = library.stfmm3d(**given, strslet=dens, strsvec=norms).pottarg[0]
    ours = parki.stokes_dl(trg, src, dens, norms, **free)
    np.testing.assert_allclose(ours, -8 * np.pi * known, rtol=1e-6)


def test_arrays_without_dlpack_place_and_move_plans():
    """They have a namespace, but are read as NumPy reads them."""

    class Array:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return self.values

        def __array_namespace__(self):
            return np

    points = np.random.default_rng(0).random((3, 20))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-2)
    plan = parki.Plan("laplace", Array(points), Array(points), None, options)
    plan.update_points(Array(points), Array(points))
    expected = parki.Plan("laplace", points, points, None, options)(points[0])
    np.testing.assert_allclose(plan(points[0]), expected, rtol=1e-12)


class AsCupy(ModuleType):
    """NumPy, whose `bincount` asks for the largest index first, as that of CuPy does."""

    zeros = staticmethod(np.zeros)

    @staticmethod
    def bincount(index, weights=None, minlength=None):
        return np.bincount(index, weights, max(int(index.max()) + 1, minlength))


@pytest.mark.parametrize("xp", [np, AsCupy("cupy")], ids=["numpy", "cupy"])
def test_counts_of_nothing(xp):
    """CuPy raises an error there, which ranks without points met."""
    nothing, some = np.zeros(0, dtype=np.int64), np.array([2, 0, 2])
    for index, weights in ((nothing, np.zeros(0)), (some, np.array([1.0, 2.0, 4.0]))):
        for each in (None, weights):
            found = bincount(xp, index, 4, each)
            np.testing.assert_array_equal(found, np.bincount(index, each, 4))
            assert found.dtype == (int if each is None else float)
