"""What is recorded of a pipeline on a device: how its points were placed, and its applications.

Each is made launch by launch until the same launches come again, and then by a graph (`Replay`).
The states stand in a table in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple

from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline.protocol import Watch, unwatched
from parki.ewald.pipeline.replay import Replay
from parki.runtime import ExecutionSpace


class PlacedBy(Enum):
    """What placed the points of a pipeline."""

    FIRST = auto()  # launches, for another set-up or in other numbers than points before
    AGAIN = auto()  # the launches that placed the points before
    GRAPH = auto()  # a graph of these, which places all further points of the same numbers
    REFUSED = auto()  # these launches, as no graph could be made of them


class Placing(NamedTuple):
    """How points were placed; the graph, if there is one; and why there is none, if it failed."""

    how: PlacedBy = PlacedBy.FIRST
    graph: Replay | None = None
    problem: str = ""

    @property
    def repeats(self) -> bool:
        """Whether placing points by the same launches once more is worth a graph."""
        return self.how in (PlacedBy.AGAIN, PlacedBy.GRAPH)

    def describe(self) -> str:
        """Return how updates are made, where it is known."""
        known = self.how in (PlacedBy.GRAPH, PlacedBy.REFUSED)
        return f"\n  updates: {_how(self.problem)}" if known else ""


class Applications:
    """Applications to densities.

    Parameters
    ----------
    problem : str
        Why they are made launch by launch, if they always are.
    """

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self._seen: set[int] = set()  # numbers of densities that were summed before
        # By the number of densities and whether lists of pairs are taken.
        self._graphs: dict[tuple[int, bool], Replay] = {}

    def forget_lists(self) -> None:
        """Forget graphs that take lists of pairs, as for other points."""
        self._graphs = {key: graph for key, graph in self._graphs.items() if not key[1]}

    def apply(
        self,
        space: ExecutionSpace,
        run: Callable[..., None],
        lists: PairLists | None,
        dens: Any,
        results: dict[str, Any],
        watch: Watch,
    ) -> None:
        """Do ``run(dens, results, watch)``, or what was recorded of it."""
        many, due = len(dens), lists is not None and lists.due
        if self.problem or due or many not in self._seen or watch is not unwatched:
            run(dens, results, watch)
            self._seen.add(many)
            return
        key = many, lists is not None and lists.kept
        if key not in self._graphs:

            def stages(given: dict[str, Any]) -> None:
                run(given["dens"], {name: given[name] for name in results}, unwatched)

            graph = Replay(space, stages, {"dens": dens, **results})
            if graph.problem:
                self.problem = graph.problem
                run(dens, results, watch)
                return
            self._graphs[key] = graph
        self._graphs[key]({"dens": dens}, results)
        if lists is not None:
            lists.begun = True

    def describe(self) -> str:
        """Return how launches are made, where it is known."""
        return f"\n  launches: {_how(self.problem)}" if self._graphs or self.problem else ""


def _how(problem: str) -> str:
    return f"one by one: {problem}" if problem else "as one graph"
