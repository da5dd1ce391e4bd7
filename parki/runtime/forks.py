"""Refuses what does not survive a fork: devices, PyKokkos with threads, and what is half done.

In the child, CUDA and HIP fail with their own errors, and Kokkos's OpenMP waits for ever for
threads that only the parent has. What was used before a fork is therefore refused after it. parki's
own threads survive: the child starts others. A lock that another thread held at the fork would stay
closed for ever. No process takes what another one's memory and kernels are part of.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, ClassVar, TypeVar

from parki.errors import ParkiTypeError, UnavailableError

T = TypeVar("T")


class MadeAnew:
    """What copies make anew, as they would share what moves with the points; and pickles.

    Without ``_arguments`` it is neither copied nor pickled, and ``_made_of`` says what to pass on.
    """

    _made_of: ClassVar[str]

    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments that make another one, by position and by name."""
        return None

    def __deepcopy__(self, _: Any) -> Any:
        return copy(self)  # which has its own points

    def __reduce__(self) -> Any:
        arguments = self._arguments()
        if arguments is not None:
            return _made, (type(self), *arguments)
        name = type(self).__name__
        one = name if name.endswith("s") else f"a {name}"
        raise ParkiTypeError(
            f"{one} cannot be pickled or copied: it would need the memory and compiled kernels of "
            f"this process; pass on {self._made_of}, and make another one there"
        )

    def _with(self, **others: Any) -> Any:
        """Return a copy with other attributes, as `dataclasses.replace` does."""
        new = object.__new__(type(self))
        new.__dict__ |= self.__dict__ | others
        return new


def _made(kind: type[T], by_position: tuple[Any, ...], by_name: dict[str, Any]) -> T:
    return kind(*by_position, **by_name)


_used: set[str] = set()
_lost: set[str] = set()


def use(name: str) -> None:
    """Record that this process uses a device's space, or PyKokkos; refuse a lost one."""
    if _lost:
        refuse(name)
    _used.add(name)


def refuse(*names: str) -> None:
    """Refuse what this process lost when it was forked."""
    for name in names:
        if name in _lost:
            what = "PyKokkos's threads" if name == "PyKokkos" else "a device"
            raise UnavailableError(
                f"this process was forked from one in which parki had used {what}, which a fork "
                "does not copy; start processes by multiprocessing.get_context('spawn'), or fork "
                "before the first sum"
            )


class Lock:
    """A lock for one thread after the other, which may take it again, and which survives a fork.

    Parameters
    ----------
    of : str, optional
        What a thread may leave half done that held the lock at a fork, and that the child lacks.
        The child is then refused. Without it, the child has a new lock.
    """

    def __init__(self, of: str = "") -> None:
        self._lock, self._of, self._refused = threading.RLock(), of, False
        _locks.add(self)

    def __enter__(self) -> None:
        if self._refused:
            raise UnavailableError(
                f"this process was forked while another thread used {self._of}, which is half done "
                "here; make another one in this process, or fork while no thread uses it"
            )
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        """Open the lock, in a child that has one thread."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock, self._refused = threading.RLock(), bool(self._of)


_locks = weakref.WeakSet[Lock]()


class cached_property(functools.cached_property[T]):  # noqa: N801
    """The property of `functools`, but without the lock that it takes before Python 3.12.

    Two threads may compute it at the same time, and a forked child waits for neither.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        self.lock = contextlib.nullcontext()


def _after_fork() -> None:
    _lost.update(_used)
    _used.clear()
    for lock in _locks:
        lock.after_fork()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)


# CPU threads for work outside kernels, such as calls of NumPy and SciPy, during which others run.
# SciPy's own threads divide one transform at a time, and leave the copies and padding around it to
# one thread and to slow memory.
MOST = 256  # threads, started when needed


def run_in_threads(work: Callable[[Any], None], items: Iterable[Any], threads: int) -> None:
    """Call ``work`` for each item, in order, by at most ``threads`` threads.

    The calling thread is one of them; the others are kept for later calls. After an exception no
    more items are begun, and it is raised here.
    """
    queue = deque(items)
    others = min(threads, len(queue)) - 1
    if others < 1:
        for item in queue:
            work(item)
        return

    def some() -> None:
        while queue:
            try:
                item = queue.popleft()
            except IndexError:  # another thread took the last item
                return
            try:
                work(item)
            except BaseException:
                queue.clear()
                raise

    waiting = [_pool().submit(some) for _ in range(others)]
    try:
        some()
    finally:
        for other in waiting:
            other.result()


def cuts(rows: int, parts: int) -> list[slice]:
    """Divide ``rows`` rows into at most ``parts`` parts, none of them empty."""
    parts = min(max(1, parts), rows)
    return [slice(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST, thread_name_prefix="parki")


# A forked child has no threads of its parent.
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_pool.cache_clear)
