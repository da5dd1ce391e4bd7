"""`Replay`: many launches that a device makes as one, a CUDA graph.

Below a million points a device waits for the host: an application is some 60 launches, and to place
points takes as many. Both are recorded once they are made again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parki.ewald.options import MOST_RECORDED
from parki.runtime import ExecutionSpace
from parki.settings import SETTINGS


def why_not(space: ExecutionSpace, executor: str | None, targets: int, sources: int) -> str:
    """Return '' where launches of a plan are recorded, else the reason why they are not."""
    if not space.adapter.records():
        return f"{space} has no graphs"
    if (executor or SETTINGS["PARKI_EXECUTOR"].value()) != "embedded":
        return "upstream PyKokkos launches on streams of its own"
    if max(targets, sources) > MOST_RECORDED:
        return f"with more than {MOST_RECORDED} points the device does not wait for launches"
    return ""


class Replay:
    """Recorded launches, with memory of their own for what they read and write.

    Parameters
    ----------
    space : ExecutionSpace
    work : callable
        Launches, given arrays by name; every time in the same way.
    arrays : dict of arrays
        As those to come, in shape and dtype.

    Attributes
    ----------
    problem : str
        Why nothing was recorded, if so.
    """

    def __init__(
        self,
        space: ExecutionSpace,
        work: Callable[[dict[str, Any]], None],
        arrays: dict[str, Any],
    ) -> None:
        xp, self.problem = space.array_module, ""
        try:
            self.arrays = {n: xp.empty(a.shape, dtype=a.dtype) for n, a in arrays.items()}
            self._launch = space.adapter.record(lambda: work(self.arrays))
        except (MemoryError, RuntimeError) as error:
            self.problem = str(error)

    def takes(self, arrays: dict[str, Any]) -> bool:
        """Return whether arrays are those that were recorded, in name and shape."""
        return not self.problem and {n: a.shape for n, a in arrays.items()} == {
            n: a.shape for n, a in self.arrays.items()
        }

    def __call__(self, given: dict[str, Any], results: dict[str, Any]) -> None:
        """Launch with other arrays; overwrite results."""
        for name, array in given.items():
            self.arrays[name][...] = array
        self._launch()
        for name, array in results.items():
            array[...] = self.arrays[name]
