"""Refuses what does not survive a fork: devices, and PyKokkos with threads.

In the child, CUDA and HIP fail with their own errors, and Kokkos's OpenMP waits for ever for
threads that only the parent has. What was used before a fork is therefore refused after it. parki's
own threads survive: the child starts others.
"""

from __future__ import annotations

import os
import sys

from parki.errors import UnavailableError

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


def _after_fork() -> None:
    _lost.update(_used)
    _used.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
