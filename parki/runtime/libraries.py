"""Opens shared objects of kernels, and says to OpenMP how long its threads look for work.

GNU's OpenMP reads that when it is first loaded. Left to itself its threads turn 300 000 times
between two kernels, 6 to 14 ms, and take the cores from NumPy's and SciPy's calls: with sixteen
threads sums took up to 1.6 times as long.
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
_lock = threading.Lock()


def open_library(path: Path) -> ctypes.CDLL:
    """Return a shared object, opened.

    Raises
    ------
    OSError
        If it cannot be loaded.
    """
    with _lock:
        if any(name in os.environ for name in SAID_BY):
            return ctypes.CDLL(str(path))
        # For as long as it takes: what the user starts later is none of ours.
        os.environ[SAID_BY[0]] = SPINS
        try:
            return ctypes.CDLL(str(path))
        finally:
            del os.environ[SAID_BY[0]]
