"""`Replay`: an application that a device launches as one, a CUDA graph, in place of its launches.

Below a million points a device waits for the host: an application is some 60 launches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parki.ewald.options import MOST_RECORDED
from parki.runtime import ExecutionSpace
from parki.settings import SETTINGS


def why_not(space: ExecutionSpace, executor: str | None, targets: int, sources: int) -> str:
    """Return '' where applications of a plan are recorded, else the reason why they are not."""
    if not space.adapter.records():
        return f"{space} has no graphs"
    if (executor or SETTINGS["PARKI_EXECUTOR"].value()) != "embedded":
        return "upstream PyKokkos launches on streams of its own"
    if max(targets, sources) > MOST_RECORDED:
        return f"with more than {MOST_RECORDED} points the device does not wait for launches"
    return ""


class Replay:
    """The recorded launches of an application, with memory of their own for density and results.

    Parameters
    ----------
    space : ExecutionSpace
    stages : callable
        Launches an application, given a density and results; every time in the same way.
    dens : array, shape (rows, sources)
    results : dict of arrays
        As those that follow, in shape and dtype.

    Attributes
    ----------
    problem : str
        Why there is nothing to replay, if so; calls then run the stages as they are.
    """

    def __init__(
        self,
        space: ExecutionSpace,
        stages: Callable[[Any, dict[str, Any]], None],
        dens: Any,
        results: dict[str, Any],
    ) -> None:
        xp, self.problem, self._stages = space.array_module, "", stages
        try:
            self.dens = xp.empty_like(dens)
            self.results = {name: xp.empty_like(array) for name, array in results.items()}
            self._launch = space.adapter.record(lambda: stages(self.dens, self.results))
        except (MemoryError, RuntimeError) as error:
            self.problem = str(error)

    def __call__(self, dens: Any, results: dict[str, Any]) -> None:
        """Overwrite results with the sum of a density."""
        if self.problem:
            self._stages(dens, results)
            return
        self.dens[...] = dens
        self._launch()
        for name, array in results.items():
            array[...] = self.results[name]
