"""Kernels ready to launch, the stages' only interface to the runtime.

`load` takes a kernel file, a workunit, its constants and a space, and returns a `Kernel`, which is
launched by a call. `prepare` compiles several at once, with one line of progress. Only this module
decides which executor runs a kernel (embedded, or upstream PyKokkos).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import KernelError, ParkiValueError
from parki.runtime import cache, device, forks, host, upstream
from parki.runtime.messages import follow
from parki.runtime.spaces import ExecutionSpace
from parki.runtime.specialise import Constant, Specialised
from parki.runtime.syntax import DTYPES, REALS
from parki.runtime.translate import Translated, View
from parki.runtime.translations import translation
from parki.settings import EXECUTORS, MOST_THREADS, checked_setting, host_settings, thread_count
from parki.settings import executor as usual_executor

LARGEST = 2**31 - 1  # largest index, and largest value of the dialect's int
NOTHING: Mapping[str, Any] = MappingProxyType({})
QUIET_SECONDS = 0.5  # CuPy does not say whether it has a kernel; loading one is faster


class Kernel:
    """One specialised workunit on one space; a call launches it.

    It is compiled at the first launch, or earlier by `prepare`. Arrays must be C-contiguous, in
    the memory of the space, and of the workunit's declared dtype. On a device the launch goes to
    CuPy's current stream.
    """

    def __init__(
        self,
        workunit: Specialised,
        translated: Translated,
        space: ExecutionSpace,
        executor: str,
        team_size: int,
        vector_length: int,
    ) -> None:
        self.workunit = workunit
        self.translated = translated
        self.space = space
        self._launch: Callable[..., Any] | None = None
        self._lock = forks.Lock()
        self._upstream = executor == "pykokkos"
        self._object: host.HostObject | device.DeviceObject | upstream.UpstreamObject
        emulated = int(checked_setting("PARKI_EMULATED_TEAM")) if workunit.is_team else 1
        if self._upstream:
            self._object = upstream.UpstreamObject(
                workunit, self.translated, space, team_size, vector_length
            )
        elif space.on_device:
            self._object = device.DeviceObject(
                workunit.name, self.translated, space, team_size, vector_length
            )
        else:
            source = host.source_text(self.translated)
            # Both spaces share the objects of kernels without atomic additions.
            serial = space.name == "Serial" and "pk::atomic_" in self.translated.text
            self._object = host.HostObject(workunit.name, source, serial, emulated)
        # Emulated teams run one after another, each by threads of its own.
        self._threads = space.threads if emulated == 1 else 1
        kokkos = self._upstream and self._threads > 1
        self._lost = space.name if space.on_device else "PyKokkos" if kokkos else ""  # by a fork
        # Name, dtype and rank of each view argument; name, None and kind of each scalar.
        self._plan: list[tuple[str, np.dtype[Any] | None, int | str]] = []
        code = ""
        for name, kind in self.translated.arguments:
            if isinstance(kind, View):
                self._plan.append((name, DTYPES[kind.element], kind.rank))
                code += "q" * (1 + kind.rank)
            else:
                self._plan.append((name, None, kind))
                code += "d" if kind in REALS else "q"
        self._pack = struct.Struct("=" + code).pack

    def cached(self) -> bool:
        """Return whether a launch needs no compilation, as far as is known."""
        return self._launch is not None or self._object.cached()

    def build(self) -> Callable[..., Any]:
        """Compile or load from the cache, once; return the function that launches."""
        if self._launch is not None:
            return self._launch
        with self._lock:
            if self._launch is None:
                self._launch = self._object.load()
            return self._launch

    def __call__(
        self,
        count: int,
        threads: int = MOST_THREADS,
        /,
        *,
        arguments: Mapping[str, Any] = NOTHING,
        **others: Any,
    ) -> None:
        """Launch over ``count`` indices, or teams.

        Parameters
        ----------
        count : int
            Number of work items; nothing happens for 0.
        threads : int
            Most threads of a CPU. Default: all of the space. Of 1 the calling thread launches, and
            others may do so at the same time, each its own work items, except upstream's.
        arguments : mapping, optional
            Arrays and scalars by the workunit's argument names, such as those of all launches for
            some points. Arguments that this specialisation does not use are ignored (and may be
            None).
        **others
            More arguments, which take the place of those of ``arguments``.

        Raises
        ------
        ParkiValueError
            If an argument is missing, has the wrong dtype or rank, or is not C-contiguous, or if
            the count or an int exceeds 2**31 - 1 (indices have 32 bits, offsets into views 64).
        KernelError
            If the compiler refuses the kernel.
        UnavailableError
            If this process was forked from one that used the space.
        """
        if count <= 0:
            return
        if self._lost:
            forks.use(self._lost)
        if self._launch is None:
            prepare([self])
        if count > LARGEST:
            raise ParkiValueError(f"{self.workunit.name}: {count} work items; at most 2**31 - 1")
        arguments, values = {**arguments, **others}, list[Any]()
        try:
            for name, dtype, rank in self._plan:
                value = arguments[name]
                if dtype is None:
                    if rank not in (*REALS, "pk.int64") and not -LARGEST <= value <= LARGEST:
                        raise ParkiValueError(
                            f"{self.workunit.name}: {name} is {value}, but an int has 32 bits"
                        )
                    values.append(float(value) if rank in REALS else int(value))
                    continue
                if value.dtype != dtype or value.ndim != rank:
                    raise ParkiValueError(
                        f"{self.workunit.name}: {name} is {value.dtype} of rank {value.ndim}; "
                        f"expected {dtype} of rank {rank}"
                    )
                if not value.flags.c_contiguous:
                    raise ParkiValueError(f"{self.workunit.name}: {name} is not C-contiguous")
                if name in self.translated.tables:
                    values.extend(self._elements(name, value))
                    continue
                if self._upstream:
                    values.append(value)
                    continue
                address = value.data.ptr if self.space.on_device else value.ctypes.data
                values += (address, *value.shape)
        except KeyError as error:
            raise ParkiValueError(f"{self.workunit.name}: missing argument {error}") from None
        launch = self._launch or self.build()
        if self._upstream or self.space.on_device:
            launch(values, count)
        elif failure := launch(self._pack(*values), count, min(count, threads, self._threads)):
            name = self.workunit.name
            if failure == 2:
                raise KernelError(f"{name}: there is no memory for a team's scratch")
            raise KernelError(f"{name}: the threads of a team met different barriers")

    def table(self, values: Any, dtype: DTypeLike) -> Any:
        """Return a small array in the form of the kernel's ``tables``: NumPy's if by value."""
        if self.translated.tables:
            return np.asarray(values, dtype=dtype)
        return self.space.adapter.constant(values, dtype)

    def _elements(self, name: str, table: Any) -> list[Any]:
        """Return the elements of a table that is passed by value: scalars of its dtype."""
        shape = self.translated.tables[name]
        if not isinstance(table, np.ndarray) or table.shape != tuple(shape):
            raise ParkiValueError(
                f"{self.workunit.name}: {name} is a {type(table).__name__} of shape {table.shape}; "
                f"expected a NumPy array of shape {shape}, which is passed by value"
            )
        return list(table.ravel())


# By what was asked for: one kernel, or several of a file.
_loaded: dict[tuple[Any, ...], tuple[Kernel, ...]] = {}


def load(
    file: str,
    workunit: str,
    space: ExecutionSpace,
    constants: Mapping[str, Constant] = NOTHING,
    *,
    executor: str | None = None,
    team_size: int = 1,
    vector_length: int = 1,
    tables: dict[str, tuple[int, ...]] | None = None,
    **others: Constant,
) -> Kernel:
    """Return the kernel for a workunit of a kernel file; equal requests give the same object.

    Parameters
    ----------
    file, workunit : str
        For example ``"p2p"`` and ``"p2p_staged"``; see the folder ``kernels``.
    space : ExecutionSpace
    constants : mapping, optional
        Values of the file's compile-time constants, such as those of a sum.
    executor : {"embedded", "pykokkos"}, optional
        The default is the environment variable PARKI_EXECUTOR, else embedded.
    team_size, vector_length : int
        Number of threads in a team and of lanes per thread, on a device. A host team is one thread.
    tables : dict from str to tuple of int, optional
        Shapes of small views that are only read by constant indices. On a device they are NumPy
        arrays, passed by value into constant memory; on the host they are ordinary views.
    **others
        More constants, which take the place of those of ``constants``.
    """
    constants = {**constants, **others}
    machine: tuple[Any, ...] = ()
    if space.on_device:
        chosen = executor or usual_executor()
    else:
        machine = host_settings()
        chosen, team_size, vector_length = executor or machine[0], 1, 1
    if chosen not in EXECUTORS:
        raise ParkiValueError(f"executor is {chosen!r}; expected one of {', '.join(EXECUTORS)}")
    shapes = tuple(sorted(tables.items())) if tables else ()
    variant = (space.name, chosen, team_size, vector_length, machine, shapes)
    # The key has types because 1 == 1.0. Users may edit their own files meanwhile, not parki's.
    request = (file, workunit, *variant, *constants.items(), *map(type, constants.values()))
    if request in _loaded and not file.endswith(".py"):
        return _loaded[request][0]
    by_value = tables if space.on_device and chosen == "embedded" else None
    threads = team_size * vector_length
    done, translated = translation(file, workunit, constants, threads, by_value)
    key = (done.text, done.real, *variant)
    if key not in _loaded:
        _loaded[key] = (Kernel(done, translated, space, chosen, team_size, vector_length),)
    _loaded[request] = _loaded[key]
    return _loaded[key][0]


def load_all(
    file: str,
    workunits: tuple[str, ...],
    space: ExecutionSpace,
    *,
    executor: str | None = None,
    **constants: Constant,
) -> tuple[Kernel, ...]:
    """Return kernels of one of parki's files and of the same constants: see `load`."""
    settings = usual_executor() if space.on_device else host_settings()
    values = (*constants.items(), *map(type, constants.values()))
    request = (file, workunits, space.name, executor, settings, *values)
    if request not in _loaded:
        _loaded[request] = tuple(
            load(file, workunit, space, constants, executor=executor) for workunit in workunits
        )
    return _loaded[request]


def prepare(kernels: Iterable[Kernel]) -> None:
    """Compile the kernels that need it, several at a time, with a message."""
    with preparing(kernels):
        pass


@contextmanager
def preparing(kernels: Iterable[Kernel]) -> Iterator[None]:
    """Do as `prepare`; for a device while the block runs, whose launches wait for their kernels."""
    slow = []
    for kernel in kernels:
        if kernel._launch is None and not kernel.cached():
            slow.append(kernel)
        else:
            kernel.build()
    if not slow:
        yield
        return
    space = slow[0].space
    where = "CuPy's cache" if space.on_device else str(cache.directory())
    # Upstream keeps its state in module globals, so it takes one kernel at a time.
    workers = 1 if slow[0]._upstream else min(len(slow), max(2, thread_count()))
    current, quiet = space.adapter.device(), QUIET_SECONDS if space.on_device else 0.0
    with ThreadPoolExecutor(workers, initializer=space.adapter.choose, initargs=(current,)) as pool:
        built = pool.map(Kernel.build, slow)
        if space.on_device:
            yield
        follow(
            built,
            label=f"compiling kernels for {space}",
            total=len(slow),
            detail=f"once, kept in {where}",
            quiet=quiet,
        )
    if not space.on_device:
        yield
