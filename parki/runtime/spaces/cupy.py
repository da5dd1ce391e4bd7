"""Adapter for devices (CUDA and HIP) by CuPy: arrays, streams, events and memory."""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import MissingPackageError, UnavailableError

HIGH = -5  # priority of streams; CUDA and HIP take the highest that there is
# Seconds that a device waits at most for further launches.
PATIENCE = 0.02
NOT_INSTALLED = "CuPy is not installed, so there is no GPU space"


@functools.lru_cache(maxsize=1)
def array_module() -> ModuleType:
    """Import CuPy; the error says how to install it."""
    try:
        import cupy
    except ImportError as error:
        raise MissingPackageError(
            f"{NOT_INSTALLED}; to match your driver run 'pip install \"cupy-cuda12x[ctk]\"' or "
            "'pip install \"cupy-cuda13x[ctk]\"', or pass NumPy arrays to run on the CPU"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises its own runtime error type, built at import
        raise UnavailableError(
            f"CuPy is installed, but finds no usable GPU driver: {error}"
        ) from error
    if count < 1:
        raise UnavailableError("CuPy is installed, but there is no GPU")
    module: ModuleType = cupy
    return module


def constant(values: Any, dtype: DTypeLike) -> Any:
    """Return a few numbers as a read-only array; equal numbers give the same array.

    The cache pays because an upload takes the host as long as several launches.
    """
    array = np.ascontiguousarray(values, dtype=dtype)
    return _uploaded(array.tobytes(), array.shape, array.dtype, device())


@functools.lru_cache(maxsize=4096)
def _uploaded(content: bytes, shape: tuple[int, ...], dtype: DTypeLike, _: int) -> Any:
    cupy = array_module()
    array = cupy.asarray(np.frombuffer(content, dtype=dtype).reshape(shape))
    cupy.cuda.get_current_stream().synchronize()  # other streams may read it next
    return array


def device() -> int:
    """Return the number of the current device."""
    return int(array_module().cuda.Device().id)


def choose(number: int) -> None:
    """Make a device the current one of this thread."""
    array_module().cuda.Device(number).use()


def synchronize() -> None:
    """Wait for all work of the current device."""
    array_module().cuda.Device().synchronize()


class StreamBlock:
    """Work of the current stream with memory that other streams use before and after it.

    CuPy uses freed memory again in the order of the stream that took it. So the streams of
    earlier blocks, which may have taken the memory, wait for the end of this one, too.

    Parameters
    ----------
    done : tuple or None
        What `end` of the block before has returned.
    """

    def __init__(self, done: Any) -> None:
        self._stream = array_module().cuda.get_current_stream()
        self._others: dict[int, Any] = {}
        self.follow(done)

    def follow(self, done: Any) -> None:
        """Wait for another block, whose memory this one uses, too."""
        if done is not None:
            event, streams = done
            self._stream.wait_event(event)
            self._others |= streams

    def end(self) -> Any:
        """Return the event of the end, and the streams that may have taken memory, by pointers."""
        event, streams = self._stream.record(), {self._stream.ptr: self._stream}
        for pointer, stream in self._others.items():
            if pointer not in streams and not (records() and stream.is_capturing()):
                stream.wait_event(event)
        return event, self._others | streams


exclusive = StreamBlock


@contextmanager
def beside(work: Callable[[], None] | None) -> Iterator[None]:
    """Run ``work`` in parallel with the block's launches; then wait for both.

    Both start after the current stream's earlier work, and neither sees the other's results.
    Arrays of ``work`` that the block's streams use must live until the block ends, because memory
    is reused in the order of the stream it was taken on. Setting up is mostly host work and small
    kernels; on a stream of high priority their thread blocks start as soon as one of the other
    kernels ends.
    """
    if work is None:
        yield
        return
    cuda = array_module().cuda
    current = cuda.get_current_stream()
    # A recording has a stream of its own, as other threads may record at the same time.
    alone = records() and current.is_capturing()
    stream = _new_stream(cuda) if alone else _stream(cuda, device(), current.ptr)
    if alone:
        _recording.streams.append(stream)
    stream.wait_event(current.record())
    yield
    try:
        with stream:
            work()
    finally:
        current.wait_event(stream.record())


class _Recording(threading.local):
    """The streams of this thread's recording, which live until it ends.

    Another branch must not get the pointer of one that has ended: by that CuPy would give it memory
    which the first one still uses.
    """

    def __init__(self) -> None:
        self.streams: list[Any] = []


_recording = _Recording()


@functools.lru_cache(maxsize=64)
def _stream(cuda: Any, _: int, __: int) -> Any:
    """Return the one stream of a device for work at the same time as another stream.

    CuPy uses freed memory again on the same stream, here for work that begins after what the other
    stream has been given: so what it still reads is not written to.
    """
    return _new_stream(cuda)


def _new_stream(cuda: Any) -> Any:
    return cuda.Stream(non_blocking=True, priority=HIGH)


class DeviceWatch:
    """Times blocks by events on the current stream, which are read at the end, without stalls.

    Parameters
    ----------
    ahead : bool
        Whether the device waits until the host has launched all blocks (at most `PATIENCE`).
        Otherwise short blocks take as long as their launches, which depends on earlier work.
    """

    def __init__(self, ahead: bool) -> None:
        self.cuda = array_module().cuda
        self.events: dict[str, list[tuple[Any, Any]]] = {}
        self.launched = threading.Event()
        # HIP takes no host functions on its default stream.
        self.ahead = ahead and not self.cuda.runtime.is_hip

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a block; several blocks of a stage add up."""
        stream = self.cuda.get_current_stream()
        if self.ahead and not self.events:
            stream.launch_host_func(lambda _: self.launched.wait(PATIENCE), None)
        first, last = self.cuda.Event(), self.cuda.Event()
        self.events.setdefault(stage, []).append((first, last))
        first.record(stream)
        yield
        last.record(stream)

    def seconds(self) -> dict[str, float]:
        """Wait for the device, and return the seconds of each stage."""
        self.launched.set()
        seconds = {}
        for stage, blocks in self.events.items():
            blocks[-1][1].synchronize()
            seconds[stage] = (
                sum(self.cuda.get_elapsed_time(begin, end) for begin, end in blocks) / 1e3
            )
        return seconds


watch = DeviceWatch


def records() -> bool:
    """Return whether launches can be recorded; this was never tried on HIP."""
    return not array_module().cuda.runtime.is_hip


class NotRecordedError(RuntimeError):
    """Launches cannot be recorded; the text says which and why."""


def record(work: Callable[[], None]) -> Callable[[], None]:
    """Record the launches of ``work`` without running them; return a function that launches them.

    Arrays that ``work`` allocates come from a separate pool, which lives as long as the recording.

    Raises
    ------
    NotRecordedError
        If the work waits for the device, or calls a library that CuPy does not record (cuBLAS).
        Other errors of the work come out as they are.
    """
    cuda = array_module().cuda
    pool, stream = cuda.MemoryPool(), cuda.Stream(non_blocking=True)
    with cuda.using_allocator(pool.malloc), stream:
        stream.begin_capture()
        try:
            work()
            graph = stream.end_capture()
        except BaseException as error:
            refused = isinstance(error, RuntimeError) and _is_of_capture(error)
            try:
                stream.end_capture()
            except RuntimeError:  # CUDA has ended it
                refused = isinstance(error, RuntimeError)
            if refused:
                raise NotRecordedError(str(error) or type(error).__name__) from error
            raise
        finally:
            _recording.streams.clear()

    def launch(_: Any = pool) -> None:
        graph.launch(cuda.get_current_stream())

    return launch


def _is_of_capture(error: RuntimeError) -> bool:
    """Return whether CUDA or CuPy refuse something in a recording, which all their texts say."""
    return isinstance(error, NotImplementedError) or "captur" in str(error).lower()


class DeviceReport:
    """A few numbers that the device makes, and the host reads without waiting for later launches.

    Attributes
    ----------
    numbers : array, shape (count,), float64
        On the device; zero at first.
    """

    def __init__(self, count: int) -> None:
        self._cuda = array_module().cuda
        self.numbers = array_module().zeros(count)
        memory = self._cuda.alloc_pinned_memory(self.numbers.nbytes)
        self._read = np.frombuffer(memory, np.float64, count)
        self._sent = self._cuda.Event(disable_timing=True)

    def send(self) -> None:
        """Launch a copy of the numbers to the host."""
        stream = self._cuda.get_current_stream()
        to, size = self._read.ctypes.data, self._read.nbytes
        self.numbers.data.copy_to_host_async(ctypes.c_void_p(to), size, stream)
        self._sent.record(stream)

    def read(self) -> list[float]:
        """Wait for the numbers that were sent last."""
        self._sent.synchronize()
        return list(self._read.tolist())


report = DeviceReport


def copy(out: Any, values: Any) -> None:
    """Launch a copy of an array to another one of its shape and dtype.

    CuPy compiles a kernel for each kind of copy, a tenth of a second at the first; the runtime
    copies rows that follow each other in equal steps without one.
    """
    same = out.dtype == values.dtype
    if same and out.flags.c_contiguous and values.flags.c_contiguous:
        out.data.copy_from_device_async(values.data, values.nbytes)
        return
    steps = [_step(array) for array in (out, values)]
    if not same or None in steps:
        out[...] = values
    elif values.size:
        cuda, width = array_module().cuda, values.shape[-1] * values.itemsize
        cuda.runtime.memcpy2DAsync(
            out.data.ptr,
            steps[0],
            values.data.ptr,
            steps[1],
            width,
            values.nbytes // width,
            cuda.runtime.memcpyDeviceToDevice,
            cuda.get_current_stream().ptr,
        )


def _step(array: Any) -> int | None:
    """Return the bytes from a row to the next one of an array of contiguous rows in equal steps."""
    if array.flags.c_contiguous:
        row: int = array.nbytes // max(1, math.prod(array.shape[:-1]))
        return row
    steps: list[int] = list(array.strides[:-1])
    pairs = zip(steps, steps[1:], array.shape[1:], strict=False)
    even = all(long == n * short for long, short, n in pairs)
    if not steps or not even or array.strides[-1] != array.itemsize:
        return None
    # Steps back, and rows that are one row in memory, are nothing that the runtime copies.
    return steps[-1] if steps[-1] >= array.shape[-1] * array.itemsize else None


def upload(to: Any, values: Any) -> None:
    """Launch a copy of a small, contiguous array of the host, which may change at once."""
    stream = array_module().cuda.get_current_stream()
    to.data.copy_from_host_async(ctypes.c_void_p(values.ctypes.data), values.nbytes, stream)


def capturing() -> bool:
    """Return whether the current stream of CuPy, or this thread's of PyTorch, is captured.

    Work on another stream would also end PyTorch's capture as soon as it allocates.
    """
    if not records():  # HIP: CuPy does not say
        return False
    torch: Any = sys.modules.get("torch")
    try:
        if torch and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return True
        return bool(array_module().cuda.get_current_stream().is_capturing())
    except RuntimeError:  # the capture has failed, or is of another stream and excludes this
        return True


def linear_operator() -> Any:
    """Return CuPy's class of linear operators."""
    from cupyx.scipy.sparse.linalg import LinearOperator

    return LinearOperator


def sparse() -> Any:
    """Return CuPy's sparse matrices."""
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse


def special() -> Any:
    """Return CuPy's special functions."""
    import cupyx.scipy.special

    return cupyx.scipy.special


def free_memory() -> float:
    """Return the free bytes of the device and of CuPy's pool, which keeps freed memory."""
    cupy = array_module()
    pool = cupy.get_default_memory_pool()
    used, limit = pool.used_bytes(), pool.get_limit()
    free = cupy.cuda.Device().mem_info[0] + pool.total_bytes() - used
    return float(min(free, limit - used) if limit else free)
