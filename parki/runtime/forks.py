"""Refuses spaces that do not survive a fork: OpenMP with its threads, and devices.

In the child, GNU's OpenMP waits for ever for threads that only the parent has, and CUDA and HIP
fail with their own errors. A space that was used before a fork is therefore refused after it.
"""

from __future__ import annotations

import os
import sys

from parki.errors import UnavailableError

_used: set[str] = set()
_lost: set[str] = set()


def use(name: str) -> None:
    """Record that this process uses a space with threads or a device; refuse a lost one."""
    if _lost:
        refuse(name)
    _used.add(name)


def refuse(*names: str) -> None:
    """Refuse spaces that this process lost when it was forked."""
    for name in names:
        if name in _lost:
            what = "its OpenMP threads" if name == "OpenMP" else "a device"
            serial = ", or pass execution_space='Serial'" if name == "OpenMP" else ""
            raise UnavailableError(
                f"this process was forked from one in which parki had used {what}, which a fork "
                "does not copy; start processes by multiprocessing.get_context('spawn'), or fork "
                f"before the first sum{serial}"
            )


def _after_fork() -> None:
    _lost.update(_used)
    _used.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
