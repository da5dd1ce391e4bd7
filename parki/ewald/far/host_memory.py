"""Memory for a host's grids: a sum reuses the memory that the previous one left.

The first touch of new pages can take as long as several stages of a sum. Memory that a plan leaves
is marked as free (MADV_FREE): the system takes it if it runs short, and until then reuse costs
nothing. Sums on devices have CuPy's pool for this.
"""

from __future__ import annotations

import mmap
import weakref
from typing import Any

import numpy as np

from parki.runtime import ExecutionSpace
from parki.runtime.pool import cuts, run_in_threads
from parki.settings import thread_count

# Fewest bytes to keep: the C library returns larger blocks to the system when they are freed.
LEAST = 1 << 20
# Bytes that a thread fills in about ten times the time that another takes to wake.
PIECE = 4 << 20
_left: list[mmap.mmap] = []  # one at most


def zeros(space: ExecutionSpace, size: int, dtype: Any) -> Any:
    """Return zeros, shape (size,): on a host in memory that was left, if it is large enough."""
    needed = size * np.dtype(dtype).itemsize
    if space.on_device or needed < LEAST or not hasattr(mmap, "MADV_FREE"):
        return space.array_module.zeros(size, dtype=dtype)
    block = _left.pop() if _left else None
    if block is not None and len(block) >= needed:
        memory = np.asarray(_Loan(block, size, np.dtype(dtype)))
        clear(memory)  # memory left may be of another precision
        return memory
    block = mmap.mmap(-1, needed, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return np.asarray(_Loan(block, size, np.dtype(dtype)))


def clear(memory: Any) -> None:
    """Fill a contiguous array, of the CPU or a device, with zeros."""
    pieces = memory.nbytes // PIECE
    threads = min(thread_count(), pieces) if pieces > 1 and isinstance(memory, np.ndarray) else 1
    if threads < 2:
        memory.fill(0)
        return
    flat = memory.reshape(-1)
    run_in_threads(lambda part: flat[part].fill(0), cuts(flat.size, threads), threads)


class _Loan:
    """The base of an array and its views; the block is left once the last of them is gone."""

    def __init__(self, block: mmap.mmap, size: int, dtype: np.dtype[Any]) -> None:
        address = np.frombuffer(block, dtype=np.uint8).ctypes.data
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": dtype.str,
            "data": (address, False),
            "version": 3,
        }
        weakref.finalize(self, _leave, block).atexit = False


def _leave(block: mmap.mmap) -> None:
    """Keep a block, unless the one that is kept is larger."""
    block.madvise(mmap.MADV_FREE)
    if not _left or len(_left[0]) < len(block):
        _left[:] = [block]
