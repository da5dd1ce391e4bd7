"""Calls while a stream is captured are refused before they begin, and the capture survives."""

from __future__ import annotations

import numpy as np
import pytest

import parki
from parki.interchange import as_array
from parki.runtime.spaces import refuse_capture, why_unavailable

REFUSED = "parki was called while the current stream is captured into a CUDA graph"
OPTIONS = parki.EwaldOptions(3, [1, 1, 1], 1e-3)
N = 300


class OnDevice:
    """An array of a device, as DLPack has it; handing it over fails the test."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise AssertionError("the array was exchanged before the capture was seen")


class Interface:
    """An array of a device, as CUDA's interface has it."""

    @property
    def __cuda_array_interface__(self):
        return {}


@pytest.mark.parametrize("array", [OnDevice(), Interface()], ids=["dlpack", "interface"])
def test_arrays_are_refused_before_they_are_taken(monkeypatch, array):
    monkeypatch.setattr("parki.runtime.spaces.cupy.capturing", lambda: True)
    with pytest.raises(parki.UnavailableError, match=REFUSED):
        as_array("dens", array)


def test_the_host_does_not_care(monkeypatch):
    monkeypatch.setattr("parki.runtime.spaces.cupy.capturing", lambda: True)
    points = np.random.default_rng(0).random((3, N))
    assert np.isfinite(parki.laplace(points, points, np.ones(N), OPTIONS)).all()
    with pytest.raises(parki.UnavailableError, match=REFUSED):
        refuse_capture()


# ---------------------------------------------------------------------- on a device
@pytest.fixture
def cupy():
    if why_unavailable("Cuda"):
        pytest.skip(f"Cuda: {why_unavailable('Cuda')}")
    return pytest.importorskip("cupy")


def calls(points, dens):
    """Return calls of every kind, of plans that were used before the capture."""
    plan = parki.Plan("stokes_sl", points, points, OPTIONS)
    for _ in range(4):
        plan(dens)
    plan.adjoint(dens)
    operator = plan.as_linear_operator()
    given = "stokes_sl", points, points, dens, OPTIONS
    spread = parki.mesh.SpreadPlan(points, parki.mesh.Grid((16, 16, 16), 1 / 16))
    spread(dens[0])
    found = {
        "plan": lambda: plan(dens),
        "timed": lambda: plan.timed(dens),
        "adjoint": lambda: plan.adjoint(dens),
        "update": lambda: plan.update_points(points, points),
        "promise": lambda: plan.promise(dens),
        "check": lambda: plan.check(dens),
        "operator": lambda: operator @ dens.reshape(-1),
        "sum": lambda: parki.stokes_sl(*given[1:]),
        "new plan": lambda: parki.Plan("stokes_sl", points, points, OPTIONS),
        "vjp": lambda: parki.vjp(*given, values=dens, wrt=("dens", "src")),
        "jvp": lambda: parki.jvp(*given, tangents={"src": dens}),
        "mesh": lambda: spread(dens[0]),
    }
    if hasattr(points, "data_ptr"):  # a tensor
        from parki import torch as layers

        found["torch apply"] = lambda: layers.apply(plan, dens)
        found["torch sum"] = lambda: layers.stokes_sl(points, points, dens, OPTIONS)
    return found


NAMES = ("plan", "timed", "adjoint", "update", "promise", "check", "operator", "sum", "new plan")
NAMES += ("vjp", "jvp", "mesh")


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_captures_of_cupy_survive(cupy, name):
    rng = cupy.random.default_rng(0)
    points, dens = rng.random((3, N)), rng.standard_normal((3, N))
    call, values = calls(points, dens)[name], cupy.arange(5.0)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        values += 1
        with pytest.raises(parki.UnavailableError, match=REFUSED):
            call()
        values *= 2
        graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    cupy.testing.assert_array_equal(values, 2 * (cupy.arange(5.0) + 1))
    call()  # as before


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("name", [*NAMES, "torch apply", "torch sum"])
def test_captures_of_pytorch_survive(cupy, name, library):
    """With tensors of PyTorch, and with CuPy's arrays on a stream that is not captured."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch here has no GPU")
    rng = cupy.random.default_rng(0)
    points, dens = rng.random((3, N)), rng.standard_normal((3, N))
    if library == "torch":
        points, dens = torch.from_dlpack(points), torch.from_dlpack(dens)
    if library == ("torch" if name == "operator" else "cupy" if "torch" in name else ""):
        pytest.skip("operators take arrays of CuPy, and parki.torch tensors")
    call = calls(points, dens)[name]
    values = torch.arange(5.0, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        values += 1
        with pytest.raises(parki.UnavailableError, match=REFUSED):
            call()
        values *= 2
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(values, 2 * (torch.arange(5.0, device="cuda") + 1))
    call()
    held = torch.cuda.memory_allocated()
    del graph
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() <= held
