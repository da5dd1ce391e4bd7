"""CPU threads for what is not a kernel: NumPy's and SciPy's calls, one thread each.

They let other threads run while they compute. SciPy's own threads share out one transform at a
time, and leave what is around it, copies and padding, to one thread and to slow memory.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MOST = 256  # threads, which are started as they are needed


def run_in_threads(work: Callable[[Any], None], items: Iterable[Any], threads: int) -> None:
    """Call ``work`` for each of the items, in their order, by ``threads`` threads at most.

    The calling thread is one of them; the others wait for the next time. After an exception no more
    items are begun, and it is raised here.
    """
    left = deque(items)
    others = min(threads, len(left)) - 1
    if others < 1:
        for item in left:
            work(item)
        return

    def some() -> None:
        while left:
            try:
                item = left.popleft()
            except IndexError:  # another thread had it
                return
            try:
                work(item)
            except BaseException:
                left.clear()
                raise

    waiting = [_pool().submit(some) for _ in range(others)]
    try:
        some()
    finally:
        for other in waiting:
            other.result()


def cuts(rows: int, parts: int) -> list[slice]:
    """Return ``rows`` rows in ``parts`` parts, or as many as there are rows."""
    parts = min(max(1, parts), rows)
    return [slice(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST, thread_name_prefix="parki")


# A child has none of its parent's threads.
os.register_at_fork(after_in_child=_pool.cache_clear)
