"""What is recorded on a device: `Replay` makes many launches as one, a CUDA graph.

Below a million points a device waits for the host: an application is some 60 launches, and to place
points takes as many. Both are made launch by launch until the same launches come again, and then by
a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.options import MOST_RECORDED
from parki.ewald.pipeline.protocol import Watch, unwatched
from parki.runtime import ExecutionSpace
from parki.runtime.spaces.cupy import NotRecordedError
from parki.settings import checked_setting
from parki.typing import AnyArray


def why_not(space: ExecutionSpace, executor: str | None, targets: int, sources: int) -> str:
    """Return '' where launches of a plan are recorded, else the reason why they are not."""
    if not space.adapter.records():
        return f"{space} has no graphs"
    if (executor or checked_setting("PARKI_EXECUTOR")) != "embedded":
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
        arrays: dict[str, AnyArray],
    ) -> None:
        xp, self.space, self.problem = space.array_module, space, ""
        try:
            self.arrays = {n: xp.empty(a.shape, dtype=a.dtype) for n, a in arrays.items()}
            self._launch = space.adapter.record(lambda: work(self.arrays))
        except (MemoryError, NotRecordedError) as error:
            self.arrays, self.problem = {}, str(error) or "memory ran out"

    def takes(self, arrays: dict[str, AnyArray]) -> bool:
        """Return whether arrays are those that were recorded, in name and shape."""
        return not self.problem and {n: a.shape for n, a in arrays.items()} == {
            n: a.shape for n, a in self.arrays.items()
        }

    def __call__(self, inputs: dict[str, Any], results: dict[str, AnyArray]) -> None:
        """Launch with other arrays; overwrite results."""
        copy = self.space.adapter.copy
        for name, array in inputs.items():
            copy(self.arrays[name], array)
        self._launch()
        for name, array in results.items():
            copy(array, self.arrays[name])


class Applications:
    """What is done again and again; ``problem`` says why it is always launched one by one."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        # By what is done, or the number of densities, and whether lists of pairs are taken.
        self._seen: set[tuple[Hashable, bool]] = set()
        self._graphs: dict[tuple[Hashable, bool], Replay] = {}

    def drop_lists(self) -> None:
        """Drop graphs that take lists of pairs, as for other points."""
        self._graphs = {key: graph for key, graph in self._graphs.items() if not key[1]}

    def recorded(self, many: int, lists: PairLists | None) -> Replay | None:
        """Return the graph that the next application to ``many`` densities would launch."""
        if self.problem or (lists is not None and lists.due):
            return None
        return self._graphs.get((many, lists is not None and lists.kept))

    def apply(
        self,
        space: ExecutionSpace,
        run: Callable[..., None],
        lists: PairLists | None,
        dens: AnyArray,
        results: dict[str, AnyArray],
        watch: Watch,
    ) -> None:
        """Do ``run(dens, results, watch)``, or launch what was recorded of it."""
        if (lists is not None and lists.due) or watch is not unwatched:
            run(dens, results, watch)
            self._seen.add((len(dens), lists is not None and lists.kept))
            return

        def stages(arrays: dict[str, AnyArray]) -> None:
            run(arrays["dens"], {name: arrays[name] for name in results}, unwatched)

        key = len(dens), lists is not None and lists.kept
        self.repeat(space, key, stages, {"dens": dens}, results)
        if lists is not None:
            lists.begun = True

    def repeat(
        self,
        space: ExecutionSpace,
        key: tuple[Hashable, bool],
        work: Callable[[dict[str, Any]], None],
        inputs: dict[str, Any],
        outputs: dict[str, Any],
    ) -> None:
        """Do work on arrays by name, which overwrites what is found; or launch what was recorded.

        ``work`` is not kept: pipelines are freed as soon as nobody has them.
        """
        if not self.problem and key in self._seen and key not in self._graphs:
            graph = Replay(space, work, {**inputs, **outputs})
            self.problem = graph.problem
            self._graphs[key] = graph
        if self.problem or key not in self._seen:
            work({**inputs, **outputs})
            self._seen.add(key)
        else:
            self._graphs[key](inputs, outputs)

    def describe(self) -> str:
        """Return how launches are made, where it is known."""
        return f"\n  launches: {launch_mode(self.problem)}" if self._graphs or self.problem else ""


def launch_mode(problem: str) -> str:
    """Return how launches are made, in words."""
    return f"one by one: {problem}" if problem else "as one graph"
