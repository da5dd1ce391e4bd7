"""Opens shared objects of kernels, and sets how long idle OpenMP threads spin.

GNU's OpenMP reads this setting when it is first loaded. By default its threads spin for some
milliseconds after a kernel, and keep the cores from NumPy and SciPy.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

# Number of spins, 0.2 to 0.5 ms in all; the kernels of one stage follow each other faster.
SPINS = "10000"
# Variables by which a user sets it.
SAID_BY = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
OPENMP = "libgomp.so.1"
_lock = threading.RLock()


def open_library(path: Path) -> ctypes.CDLL:
    """Open a shared object; the user's environment is unchanged afterwards."""
    with _lock:
        if any(name in os.environ for name in SAID_BY) or _is_loaded():
            return ctypes.CDLL(str(path))
        # Not in os.environ, which other threads may pass to processes they start meanwhile.
        os.putenv(SAID_BY[0], SPINS)
        try:
            return ctypes.CDLL(str(path))
        finally:
            os.unsetenv(SAID_BY[0])


def _is_loaded() -> bool:
    """Return whether GNU's OpenMP is loaded, so that it no longer reads the environment."""
    if sys.platform == "win32":  # kernels there have no OpenMP
        return True
    try:
        ctypes.CDLL(OPENMP, os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


# A fork waits until the variable is unset; otherwise the child would keep it.
if sys.platform != "win32":
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
