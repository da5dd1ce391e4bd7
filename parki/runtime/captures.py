"""Refuses calls inside a stream capture (of a CUDA graph) before they begin.

A call waits for the device once, to learn whether its input is finite, and it may allocate. CUDA
permits neither while a stream is captured: it ends the capture, and memory allocated for the
capture is never freed.
"""

from __future__ import annotations

from parki.errors import UnavailableError
from parki.runtime.spaces import cupy


def refuse() -> None:
    """Refuse to go on while the current stream of CuPy, or of PyTorch, is captured."""
    if cupy.capturing():
        raise UnavailableError(
            "parki was called while the current stream is captured into a CUDA graph, which waits "
            "for the device and so cannot be captured; call it before or after the capture: a plan "
            "launches graphs of its own from the third application on"
        )
