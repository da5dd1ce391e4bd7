"""Points that a device places, and applications that it launches, as one graph: as one by one."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import parki
from parki import EwaldOptions
from parki.ewald.pipeline import replay
from parki.ewald.sums import SUMS
from parki.interchange import to_host
from parki.runtime import get_execution_space
from parki.runtime.spaces import cupy, why_unavailable

N = 500


def device():
    """Return the space, or skip."""
    reason = why_unavailable("Cuda")
    if reason:
        pytest.skip(reason)
    return get_execution_space("Cuda")


def arrays(kernel, dtype="f8", n=N, height=1.0):
    """Return points, four densities and normals, if the sum has some, on the device."""
    xp = device().array_module
    rng = np.random.default_rng(5)
    points = rng.random((3, n)) * [[1.0], [1.0], [height]]
    dens = [rng.standard_normal(SUMS[kernel].density_shape(n)) for _ in range(4)]
    norms = [rng.standard_normal((3, n))] if SUMS[kernel].normals else []
    points, dens, norms = (
        [xp.asarray(a.astype(dtype)) for a in each] for each in ([points], dens, norms)
    )
    return xp, points[0], dens, norms


def record(plan, dens):
    """Apply a plan until its launches are recorded."""
    for _ in range(3):
        plan(dens)
    assert "as one graph" in plan.describe()


PARTS = {
    "whole": (..., ...),
    "columns": ((..., slice(3, 6)), (..., slice(0, 3))),
    "rows": ((slice(2, 4),), (slice(0, 2),)),
    "planes": ((slice(None), slice(1, 3)), (slice(None), slice(3, 5))),
    "every other": ((..., slice(1, None, 2)), (..., slice(0, None, 2))),
    "backwards": ((slice(2, 4),), (slice(1, None, -1),)),
    "one for all": ((slice(2, 4),), (slice(0, 1),)),
}


@pytest.mark.parametrize(("to", "given"), PARTS.values(), ids=PARTS)
def test_copies(space, to, given):
    """By kernels or, where rows are in equal steps, without: all else stays."""
    values = np.random.default_rng(0).random((4, 5, 6))
    array, expected = space.array_module.asarray(values), values.copy()
    part = space.array_module.broadcast_to(array[given], array[to].shape)
    space.adapter.copy(array[to], part)
    expected[to] = values[given]
    np.testing.assert_array_equal(to_host(array), expected)


def test_rows_in_equal_steps():
    """Of their bytes, where a runtime can copy them: neither backwards nor one row for all."""
    values = np.zeros((4, 5, 6))
    steps = [48, 48, None, 96, None, None, None]
    parts = values, values[..., 2:], values[:, 1:3], values[0, ::2], values[..., ::2]
    parts = *parts, values[::-1, ::-1], np.broadcast_to(values[0, :1], (5, 6))
    assert [cupy._step(part) for part in parts] == steps


@pytest.mark.gpu
@pytest.mark.each
@pytest.mark.parametrize("periodicity", range(4))
@pytest.mark.parametrize("kernel", SUMS)
def test_other_densities(kernel, periodicity):
    """Bit for bit in deterministic plans, within rounding in others."""
    for dtype, deterministic in (("f8", True), ("f4", False)):
        xp, points, dens, norms = arrays(kernel, dtype, height=4.0)
        flow = "p" in SUMS[kernel].terms
        want = ("u", "p", "grad_u", "stress") if flow else ("u", "grad_u")
        chosen = EwaldOptions(periodicity, [1, 1, 4], 1e-3, deterministic=deterministic)
        plan = parki.Plan(kernel, points, points, *norms, chosen, want=want)
        plain = [plan.timed(each)[0] for each in dens]  # which is never replayed
        for _ in range(3):
            plan(dens[0])
        assert "launches: as one graph" in plan.describe()
        for each, expected in zip(dens, plain, strict=True):
            for found, values in zip(plan(each), expected, strict=True):
                if deterministic:
                    xp.testing.assert_array_equal(found, values)
                else:
                    scale = float(abs(values).max())
                    xp.testing.assert_allclose(found, values, rtol=0, atol=2e-5 * scale)


@pytest.mark.gpu
def test_results_are_not_shared():
    xp, points, dens, _ = arrays("stokes_sl")
    plan = parki.Plan("stokes_sl", points, points, EwaldOptions(3, [1, 1, 1], 1e-4))
    record(plan, dens[0])
    first = plan(dens[0])
    copy, out = first.copy(), xp.empty_like(first)
    assert plan(dens[1], out=out) is out
    xp.testing.assert_array_equal(first, copy)


@pytest.mark.gpu
def test_other_points_are_recorded_anew():
    _, points, dens, _ = arrays("stokes_sl")
    plan = parki.Plan("stokes_sl", points, points, EwaldOptions(3, [1, 1, 1], 1e-6))
    record(plan, dens[0])
    plan.update_points(points[:, ::-1], points[:, ::-1])
    assert "launches" not in plan.describe()
    record(plan, dens[0][:, ::-1])
    error = plan(dens[0][:, ::-1])[:, ::-1] - parki.stokes_sl(points, points, dens[0], plan.options)
    assert float((error**2).sum(axis=0).mean()) ** 0.5 < 2 * plan.promise(dens[0])


@pytest.mark.gpu
def test_streams_and_threads():
    xp, points, dens, _ = arrays("stokes_sl")
    plan = parki.Plan("stokes_sl", points, points, EwaldOptions(1, [1, 1, 1], 1e-4))
    expected = [plan.timed(each)[0] for each in dens]
    record(plan, dens[0])
    wrong = []

    def work(number):
        with xp.cuda.Stream(non_blocking=True) as stream:
            for _ in range(50):
                found = plan(dens[number])
                wrong.append(float(abs(found - expected[number]).max()) > 1e-10)
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 200
    assert not any(wrong)


@pytest.mark.gpu
def test_what_cannot_be_recorded(monkeypatch):
    """Stages that wait for the device are launched one by one, and the plan says why."""
    xp, points, dens, _ = arrays("stokes_sl")
    plan = parki.Plan("stokes_sl", points, points, EwaldOptions(3, [1, 1, 1], 1e-4))
    expected = plan.timed(dens[0])[0]

    def add(density, results):
        float(density[0, 0])

    monkeypatch.setattr(plan.pipeline.stages, "gauge", SimpleNamespace(adds=True, add=add))
    for _ in range(4):
        found = plan(dens[0])
    xp.testing.assert_allclose(found, expected, atol=1e-10, rtol=0)
    assert "one by one" in plan.describe()


@pytest.mark.gpu
def test_other_errors_come_out(monkeypatch):
    """They are defects, which launches one by one would hide for ever."""
    _, points, dens, _ = arrays("stokes_sl")
    plan = parki.Plan("stokes_sl", points, points, EwaldOptions(3, [1, 1, 1], 1e-4))
    for _ in range(2):
        plan(dens[0])

    def add(density, results):
        raise RuntimeError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(plan.pipeline.stages, "gauge", SimpleNamespace(adds=True, add=add))
        with pytest.raises(RuntimeError, match="a defect"):
            plan(dens[0])
    record(plan, dens[0])


@pytest.mark.parametrize(
    ("error", "ended", "told"),
    [
        (RuntimeError("a defect"), False, None),
        (KeyError("a defect"), True, None),
        (RuntimeError("cudaErrorStreamCaptureUnsupported: not permitted"), True, "not permitted"),
        (RuntimeError("the current stream is capturing"), False, "is capturing"),
        (RuntimeError("CUFFT_INTERNAL_ERROR"), True, "CUFFT_INTERNAL_ERROR"),
        (NotImplementedError(), False, "NotImplementedError"),
        (MemoryError(), False, "memory ran out"),
    ],
)
def test_only_errors_of_a_recording_are_kept(monkeypatch, error, ended, told):
    """On a device that is none: ``ended`` is whether CUDA has ended the recording itself."""

    class Stream(contextlib.nullcontext):
        def begin_capture(self):
            pass

        def end_capture(self):
            if ended:
                raise RuntimeError("the recording is over")

    def work(given):
        raise error

    cuda = SimpleNamespace(
        MemoryPool=lambda: SimpleNamespace(malloc=None),
        Stream=lambda non_blocking: Stream(),
        using_allocator=lambda malloc: contextlib.nullcontext(),
    )
    monkeypatch.setattr(cupy, "array_module", lambda: SimpleNamespace(cuda=cuda))
    space = SimpleNamespace(array_module=np, adapter=cupy)
    if told is None:
        with pytest.raises(type(error), match="a defect"):
            replay.Replay(space, work, {})
    else:
        assert told in replay.launch_mode(replay.Replay(space, work, {}).problem)


def test_who_records():
    assert "no graphs" in replay.why_not(get_execution_space("CPU"), None, 10, 10)


@pytest.mark.gpu
def test_large_plans_and_upstream_do_not():
    space = device()
    assert replay.why_not(space, "embedded", 10, 10) == ""
    assert "points" in replay.why_not(space, "embedded", 10, replay.MOST_RECORDED + 1)
    assert "streams" in replay.why_not(space, "pykokkos", 10, 10)


# ---------------------------------------------------------------------- other points
def moved(points, steps, seed=3):
    """Yield points that move a little, in the unit box."""
    xp, rng = device().array_module, np.random.default_rng(seed)
    for _ in range(steps):
        points = (points + xp.asarray(rng.normal(0, 0.01, points.shape))).clip(0, 1)
        yield points


@pytest.mark.gpu
@pytest.mark.each
@pytest.mark.parametrize("periodicity", range(4))
@pytest.mark.parametrize("kernel", SUMS)
def test_updates(kernel, periodicity):
    """Placing points by a graph gives the sums of plans that were updated without one."""
    xp, points, dens, norms = arrays(kernel)
    want = ("u", "stress") if "p" in SUMS[kernel].terms else ("u", "grad_u")
    chosen = EwaldOptions(periodicity, [1, 1, 1], 1e-4, deterministic=True)
    trg = points[:, ::2].copy()
    plan = parki.Plan(kernel, trg, points, *norms, chosen, want=want)
    for step, each in enumerate(moved(points, 5)):
        there = each[:, ::2].copy()
        plan.update_points(there, each, *norms)
        found = plan(dens[0])
        plain = parki.Plan(kernel, trg, points, *norms, chosen, want=want)
        plain.update_points(there, each, *norms)  # keeps its parameters, as the other plan did
        for one, other in zip(found, plain.timed(dens[0])[0], strict=True):
            xp.testing.assert_array_equal(one, other)
        assert ("updates: as one graph" in plan.describe()) == (step > 0)
    assert "launches: as one graph" in plan.describe()


@pytest.mark.gpu
def test_many_densities_between_updates():
    """Lists of pairs are those of the points."""
    _, points, dens, _ = arrays("stokes_sl")
    plan = parki.Plan("stokes_sl", points, points, EwaldOptions(3, [1, 1, 1], 1e-5))
    for each in moved(points, 5):
        plan.update_points(each, each)
        expected = parki.stokes_sl(each, each, dens[1], plan.options)
        for _ in range(5):
            error = plan(dens[1]) - expected
            assert float((error**2).sum(axis=0).mean()) ** 0.5 < 2 * plan.promise(dens[1])


@pytest.mark.gpu
def test_memory_of_steps_is_flat():
    xp, points, dens, _ = arrays("stokes_sl")
    plan = parki.Plan("stokes_sl", points, points, EwaldOptions(2, [1, 1, 1], 1e-4))
    out, pool = xp.empty_like(points), xp.get_default_memory_pool()
    used = []
    for each in moved(points, 200):
        plan.update_points(each, each)
        plan(dens[0], out=out)
        used.append((pool.used_bytes(), -xp.cuda.Device().mem_info[0]))
    assert max(used[100:]) <= max(used[:100])


@pytest.mark.gpu
def test_branches_of_a_recording_share_no_stream():
    """One that has ended is not the next one's: CuPy would give this the memory of the first."""
    space, seen = device(), list[int]()
    xp = space.array_module

    def branch():
        seen.append(xp.cuda.get_current_stream().ptr)
        xp.zeros(8)

    def work():
        for _ in range(4):
            with space.adapter.beside(branch):
                xp.zeros(8)

    space.adapter.record(work)
    assert len(set(seen)) == 4
