"""What does not survive a fork: the threads of OpenMP, and a device.

GNU's OpenMP waits in the child for threads that only the parent has, for ever; CUDA and HIP fail
with errors of their own. So a space that was used before a fork is refused after it.
"""

from __future__ import annotations

import os

from parki.errors import UnavailableError

_used: set[str] = set()
_lost: set[str] = set()


def use(name: str) -> None:
    """Record that a space that starts threads, or a device, is used by this process, if it can."""
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


os.register_at_fork(after_in_child=_after_fork)
