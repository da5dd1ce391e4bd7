"""`LatticeNumbers`: what kernels read of a box that deforms, in arrays that stay.

Launches that were recorded read the same memory each time. So another box is another content.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from parki.runtime import ExecutionSpace


class LatticeNumbers:
    """Arrays of a few numbers each, which follow from a box.

    Parameters
    ----------
    space : ExecutionSpace
        Whose memory they are in.
    """

    def __init__(self, space: ExecutionSpace) -> None:
        self._space = space
        self._arrays: dict[Hashable, tuple[Callable[[Any], Any], Any]] = {}

    def array(self, name: Hashable, made: Callable[[Any], Any], frame: Any, dtype: Any) -> Any:
        """Return the numbers ``made`` of a frame, as one array for each name and dtype."""
        key = name, np.dtype(dtype)
        if key not in self._arrays:
            values = self._space.array_module.array(made(frame), dtype=dtype, order="C")
            self._arrays[key] = made, values
        return self._arrays[key][1]

    def move(self, frame: Any) -> None:
        """Overwrite all arrays by as many numbers of another frame; wait for nothing."""
        for made, array in self._arrays.values():
            values = np.ascontiguousarray(made(frame), dtype=array.dtype)
            self._space.adapter.upload(array, values)
