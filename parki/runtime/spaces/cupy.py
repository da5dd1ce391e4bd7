"""Devices, CUDA and HIP, by CuPy: its arrays, streams, events and memory."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import numpy as np

from parki.errors import UnavailableError

HIGH = -5  # priority of streams; CUDA and HIP take the highest that there is
# Seconds that a device waits at most for what follows to be launched.
PATIENCE = 0.02
NOT_INSTALLED = "CuPy is not installed, so there is no GPU space"


@functools.lru_cache(maxsize=1)
def array_module() -> ModuleType:
    """Import CuPy, or say what is missing."""
    try:
        import cupy
    except ImportError as error:
        raise UnavailableError(
            f"{NOT_INSTALLED}; install it with 'pip install parki[cuda12]' or 'parki[cuda13]', to "
            "match your driver, or pass NumPy arrays to run on the CPU"
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


def constant(values: Any, dtype: Any) -> Any:
    """Return a few numbers as an array that nobody writes: one and the same for the same numbers.

    An upload takes the host as long as several launches.
    """
    array = np.ascontiguousarray(values, dtype=dtype)
    return _uploaded(array.tobytes(), array.shape, array.dtype, device())


@functools.lru_cache(maxsize=4096)
def _uploaded(content: bytes, shape: tuple[int, ...], dtype: Any, _: int) -> Any:
    cupy = array_module()
    array = cupy.asarray(np.frombuffer(content, dtype=dtype).reshape(shape))
    cupy.cuda.get_current_stream().synchronize()  # other streams may be the next to read it
    return array


def device() -> int:
    """Return the number of the current device."""
    return int(array_module().cuda.Device().id)


def choose(number: int) -> None:
    """Make a device the current one of this thread."""
    array_module().cuda.Device(number).use()


def synchronize() -> None:
    """Wait for all that the current device was given."""
    array_module().cuda.Device().synchronize()


@contextmanager
def exclusive(done: Any) -> Iterator[Callable[[], Any]]:
    """Begin after the event ``done``, if there is one, on the current stream.

    Yields what returns the event of the block's end.
    """
    stream = array_module().cuda.get_current_stream()
    if done is not None:
        stream.wait_event(done)
    yield stream.record


@contextmanager
def beside(work: Callable[[], None] | None) -> Iterator[None]:
    """Do ``work`` beside what the block launches; then wait for both.

    Both start after what the current stream holds by now, and neither sees the other's results.
    Arrays of ``work`` that the block's streams use must live until it ends: memory is given out
    again by the order of the stream it was taken on. Setting up is mostly the host's work and small
    kernels; on a stream of high priority their blocks go first wherever one of the block's many
    small ones ends.
    """
    if work is None:
        yield
        return
    cuda = array_module().cuda
    current, stream = cuda.get_current_stream(), _stream(cuda, device())
    stream.wait_event(current.record())
    yield
    try:
        with stream:
            work()
    finally:
        current.wait_event(stream.record())


@functools.lru_cache(maxsize=64)
def _stream(cuda: Any, _: int) -> Any:
    """Return the one stream of a device: CuPy keeps freed memory for the stream it was of."""
    return cuda.Stream(non_blocking=True, priority=HIGH)


class DeviceWatch:
    """Seconds of blocks by events on the current stream; read after the fact, without stalls.

    Parameters
    ----------
    ahead : bool
        Have the device wait until the host has launched all blocks (for `PATIENCE` at most). Else
        those of little work take as long as their launches, which depends on what was before them.
    """

    def __init__(self, ahead: bool) -> None:
        self.cuda = array_module().cuda
        self.events: dict[str, list[tuple[Any, Any]]] = {}
        self.launched = threading.Event()
        # HIP takes no host functions on its default stream.
        self.ahead = ahead and not self.cuda.runtime.is_hip

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a block, in addition to others of the stage."""
        stream = self.cuda.get_current_stream()
        if self.ahead and not self.events:
            stream.launch_host_func(lambda _: self.launched.wait(PATIENCE), None)
        first, last = self.cuda.Event(), self.cuda.Event()
        self.events.setdefault(stage, []).append((first, last))
        first.record(stream)
        yield
        last.record(stream)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each block, once the device has run them."""
        self.launched.set()
        found = {}
        for stage, blocks in self.events.items():
            blocks[-1][1].synchronize()
            found[stage] = sum(self.cuda.get_elapsed_time(*block) for block in blocks) / 1e3
        return found


watch = DeviceWatch


def records() -> bool:
    """Return whether launches can be recorded: on HIP it was never tried."""
    return not array_module().cuda.runtime.is_hip


def record(work: Callable[[], None]) -> Callable[[], None]:
    """Record what ``work`` launches, without running it; return what launches it on a stream.

    Arrays that ``work`` allocates come from a pool that lives as long as the recording: nobody else
    gets their memory.

    Raises
    ------
    RuntimeError
        If the work waits for the device, or calls a library that CuPy does not record, as cuBLAS.
    """
    cuda = array_module().cuda
    pool, stream = cuda.MemoryPool(), cuda.Stream(non_blocking=True)
    with cuda.using_allocator(pool.malloc), stream:
        stream.begin_capture()
        try:
            work()
        except BaseException:
            with suppress(RuntimeError):  # an error of the capture follows from the first
                stream.end_capture()
            raise
        graph = stream.end_capture()

    def launch(_: Any = pool) -> None:
        graph.launch(cuda.get_current_stream())

    return launch


def capturing() -> bool:
    """Return whether somebody captures the current stream, of CuPy or of PyTorch in this thread.

    Work on another stream would end that of PyTorch, too, once it allocates.
    """
    if not records():  # HIP: CuPy does not say
        return False
    torch: Any = sys.modules.get("torch")
    try:
        if torch and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return True
        return bool(array_module().cuda.get_current_stream().is_capturing())
    except RuntimeError:  # the capture has failed, or is that of another stream and excludes this
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
    """Return what the device has free, and CuPy's pool, which keeps what was freed."""
    cupy = array_module()
    pool = cupy.get_default_memory_pool()
    used, limit = pool.used_bytes(), pool.get_limit()
    free = cupy.cuda.Device().mem_info[0] + pool.total_bytes() - used
    return float(min(free, limit - used) if limit else free)
