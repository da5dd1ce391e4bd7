"""CPU threads for work outside kernels, such as calls of NumPy and SciPy, one thread for each.

These calls let other threads run while they compute. SciPy's own threads divide one transform at a
time, and leave the copies and padding around it to one thread and to slow memory.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MOST = 256  # threads, started when needed


def run_in_threads(work: Callable[[Any], None], items: Iterable[Any], threads: int) -> None:
    """Call ``work`` for each item, in order, by at most ``threads`` threads.

    The calling thread is one of them; the others are kept for later calls. After an exception no
    more items are begun, and it is raised here.
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
            except IndexError:  # another thread took the last item
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
    """Divide ``rows`` rows into at most ``parts`` parts, none of them empty."""
    parts = min(max(1, parts), rows)
    return [slice(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST, thread_name_prefix="parki")


# A forked child has no threads of its parent.
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_pool.cache_clear)
