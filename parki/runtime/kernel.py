"""Kernels ready to launch: the one interface the stages use.

`load` takes a kernel file, a workunit, its constants and a space, and returns a `Kernel`; calling
it launches. `prepare` compiles several at once, with one line of progress. Which executor runs a
kernel (embedded, or upstream PyKokkos) is decided here and nowhere else.
"""

from __future__ import annotations

import logging
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from parki.errors import KernelError, ParkiValueError
from parki.runtime import device, host, upstream
from parki.runtime.spaces import ExecutionSpace
from parki.runtime.specialise import Constant, Specialised, specialise
from parki.runtime.translate import View, translate
from parki.settings import SETTINGS, cache_directory, thread_count

log = logging.getLogger("parki")

ELEMENT_DTYPES = {
    "int": np.dtype(np.int32),
    "pk.int32": np.dtype(np.int32),
    "pk.int64": np.dtype(np.int64),
    "pk.float": np.dtype(np.float32),
    "pk.double": np.dtype(np.float64),
}
EXECUTORS = ("embedded", "pykokkos")


class Kernel:
    """One specialised workunit on one space. Call it to launch.

    Compiled at the first launch, or earlier by `prepare`. Arrays must be C-contiguous, in the
    memory of the space, and of the dtype the workunit declares; on a device the launch goes to
    CuPy's current stream.
    """

    def __init__(
        self,
        workunit: Specialised,
        space: ExecutionSpace,
        executor: str,
        team_size: int,
        vector_length: int,
    ) -> None:
        self.workunit = workunit
        self.space = space
        self._launch: Callable[..., Any] | None = None
        self._lock = threading.Lock()
        self._upstream = executor == "pykokkos"
        bound = team_size * vector_length if workunit.is_team else device.RANGE_BLOCK
        self.translated = translate(workunit, bound)
        self._object: host.HostObject | device.DeviceObject | upstream.UpstreamObject
        if self._upstream:
            self._object = upstream.UpstreamObject(
                workunit, self.translated, space, team_size, vector_length
            )
        elif space.on_device:
            self._object = device.DeviceObject(self.translated, space, team_size, vector_length)
        else:
            emulated = int(SETTINGS["PARKI_EMULATED_TEAM"].value())
            self._object = host.HostObject(self.translated, space.name == "OpenMP", emulated)
        self._threads = thread_count() if space.name == "OpenMP" else 1
        self._plan: list[tuple[str, np.dtype[Any] | None, int]] = []
        code = ""
        for name, kind in self.translated.arguments:
            if isinstance(kind, View):
                self._plan.append((name, ELEMENT_DTYPES[kind.element], kind.rank))
                code += "q" * (1 + kind.rank)
            else:
                self._plan.append((name, None, int(kind in ("pk.float", "pk.double"))))
                code += "d" if kind in ("pk.float", "pk.double") else "q"
        self._pack = struct.Struct("=" + code).pack

    def cached(self) -> bool:
        """Return whether a launch needs no compilation, as far as is known."""
        return self._launch is not None or self._object.cached()

    def build(self) -> Callable[..., Any]:
        """Compile, or load from the cache; once."""
        with self._lock:
            if self._launch is None:
                self._launch = self._object.load()
            return self._launch

    def __call__(self, count: int, **arguments: Any) -> None:
        """Launch over ``count`` indices, or teams.

        Parameters
        ----------
        count : int
            Number of work items; nothing happens for 0.
        **arguments
            Arrays and scalars by the workunit's argument names. Arguments that this
            specialisation does not use may be given (even None) and are ignored.

        Raises
        ------
        ParkiValueError
            If an argument is missing, of another dtype or rank, or not C-contiguous, or the count
            passes 2**31 - 1 (indices are 32 bits, offsets into views 64).
        """
        if count <= 0:
            return
        launch = self._launch or self.build()
        if count > 0x7FFFFFFF:
            raise ParkiValueError(f"{self.workunit.name}: {count} work items; at most 2**31 - 1")
        values: list[Any] = []
        try:
            for name, dtype, rank in self._plan:
                value = arguments[name]
                if dtype is None:
                    values.append(float(value) if rank else int(value))
                    continue
                if value.dtype is not dtype and value.dtype != dtype or value.ndim != rank:
                    raise ParkiValueError(
                        f"{self.workunit.name}: {name} is {value.dtype} of rank {value.ndim}; "
                        f"expected {dtype} of rank {rank}"
                    )
                if not value.flags.c_contiguous:
                    raise ParkiValueError(f"{self.workunit.name}: {name} is not C-contiguous")
                if self._upstream:
                    values.append(value)
                    continue
                values.append(value.data.ptr if self.space.on_device else value.ctypes.data)
                values.extend(value.shape)
        except KeyError as error:
            raise ParkiValueError(f"{self.workunit.name}: missing argument {error}") from None
        if self._upstream or self.space.on_device:
            launch(values, count)
        elif launch(self._pack(*values), count, self._threads):
            raise KernelError(f"{self.workunit.name}: the threads of a team met different barriers")


_loaded: dict[tuple[Any, ...], Kernel] = {}


def load(
    file: str,
    workunit: str,
    space: ExecutionSpace,
    *,
    executor: str | None = None,
    team_size: int = 1,
    vector_length: int = 1,
    **constants: Constant,
) -> Kernel:
    """Return the kernel for a workunit of a kernel file; the same object for the same request.

    Parameters
    ----------
    file, workunit : str
        For example ``"p2p"`` and ``"p2p_tile"``; see the folder ``kernels``.
    space : ExecutionSpace
    executor : {"embedded", "pykokkos"}, optional
        Default: the environment variable PARKI_EXECUTOR, else embedded.
    team_size, vector_length : int
        Threads of a team, and lanes of each, on a device. A host team is one thread.
    **constants
        Values of the file's compile-time constants.
    """
    chosen = executor or SETTINGS["PARKI_EXECUTOR"].value()
    if chosen not in EXECUTORS:
        raise ParkiValueError(f"executor is {chosen!r}; expected one of {', '.join(EXECUTORS)}")
    done = specialise(file, workunit, constants)
    if not space.on_device:
        team_size = vector_length = 1
    emulated = SETTINGS["PARKI_EMULATED_TEAM"].value()
    key = (done.text, done.real, space, chosen, team_size, vector_length, emulated)
    if key not in _loaded:
        _loaded[key] = Kernel(done, space, chosen, team_size, vector_length)
    return _loaded[key]


def prepare(kernels: Iterable[Kernel]) -> None:
    """Compile the kernels that need it, several at a time, saying so in one line on stderr."""
    missing = [k for k in kernels if k._launch is None]
    slow = [k for k in missing if not k.cached()]
    for kernel in missing:
        if kernel not in slow:
            kernel.build()
    if not slow:
        return
    start = time.perf_counter()
    where = "CuPy's cache" if slow[0].space.on_device else str(cache_directory())
    terminal = sys.stderr.isatty()
    if not terminal:
        log.info("parki: compiling %d kernels for %s (kept in %s)", len(slow), slow[0].space, where)
    serial = slow[0].space.on_device or slow[0]._upstream
    with ThreadPoolExecutor(max_workers=1 if serial else max(2, thread_count())) as pool:
        for done, _ in enumerate(pool.map(Kernel.build, slow), start=1):
            if terminal:
                text = f"\rparki: compiling kernels for {slow[0].space}: {done} of {len(slow)}"
                print(text, end="", file=sys.stderr, flush=True)
    if terminal:
        print(f", {time.perf_counter() - start:.1f} s", file=sys.stderr)
