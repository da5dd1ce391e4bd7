"""Opens shared objects of kernels, and says to OpenMP how long its threads look for work.

GNU's OpenMP reads that when it is first loaded. Left to itself its threads turn for some
milliseconds between two kernels, and take the cores from NumPy's and SciPy's calls.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

# Turns, some 0.2 to 0.5 ms: the kernels of one stage follow each other in less.
SPINS = "10000"
# With one of them, the user has said it.
SAID_BY = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
OPENMP = "libgomp.so.1"
_lock = threading.RLock()


def open_library(path: Path) -> ctypes.CDLL:
    """Return a shared object, opened; the environment is afterwards as the user left it."""
    with _lock:
        if any(name in os.environ for name in SAID_BY) or _is_loaded():
            return ctypes.CDLL(str(path))
        # Not in os.environ, which other threads may hand to what they start meanwhile.
        os.putenv(SAID_BY[0], SPINS)
        try:
            return ctypes.CDLL(str(path))
        finally:
            os.unsetenv(SAID_BY[0])


def _is_loaded() -> bool:
    """Return whether GNU's OpenMP is in this process, and so reads the environment no more."""
    try:
        ctypes.CDLL(OPENMP, os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


# A fork waits until the variable is gone, or the child would keep it.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
