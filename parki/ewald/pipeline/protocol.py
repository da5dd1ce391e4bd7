"""`Pipeline`: what does the work of a plan, on one device or over ranks.

The stages do not know each other. A pipeline joins them: near field (P2P), and P2G, FGC, G2P for
the far field. There are `OneDevice`, and `parki.distributed.slab.Slab` for a rank among many.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from parki.ewald.choice.memory import Memory
from parki.ewald.geometry.lattice import Lattice
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline.setup import Setup
from parki.ewald.task import Points, Survey, Task

Watch = Callable[[str], AbstractContextManager[Any]]  # of the stages, by name
unwatched: Watch = nullcontext  # times no stage


class Pipeline:
    """The stages of a plan for fixed points. Without ranks some of it is plain, and stands here.

    Attributes
    ----------
    setup : Setup or None
        None while there is nothing to sum.
    memory : Memory or None
        What this rank needs, as predicted for the points that the parameters were chosen for.
    alone : bool
        Whether no other ranks take part, so that later sums may take what this one leaves.
    ahead : bool
        Whether all stages can be launched before the first runs.
    """

    setup: Setup | None
    memory: Memory | None
    alone: bool
    ahead: bool

    def together(self, call: str) -> AbstractContextManager[Any]:
        """Raise on all ranks what is raised on one of them; refuse ranks in other calls."""
        return nullcontext()

    def survey(self, task: Task, arrays: dict[str, Any], extents: Any) -> Survey:
        """Return the facts about the points of all ranks; refuse ranks with other tasks."""
        totals = arrays["trg"].shape[1], arrays["src"].shape[1]
        same = arrays["trg"] is arrays["src"]
        same_extents = np.array_equal(extents[:2], extents[2:])
        of_sources = extents[-2:] if totals[1] else extents[:0]
        return Survey(totals, (0, 0), same, extents, of_sources, same_extents)

    def total(self, value: float) -> float:
        """Return the sum of a number over all ranks."""
        return value

    def largest(self, value: float) -> float:
        """Return the largest of a number of all ranks."""
        return value

    def empty(self) -> Pipeline:
        """Return a pipeline without points."""
        raise NotImplementedError

    def placed(
        self, task: Task, points: Points, once: bool = False, setup: Setup | None = None
    ) -> Pipeline:
        """Return a pipeline for other points, which keeps what suits them.

        On an error this pipeline is unchanged; after success use only the one returned, which may
        be this one. ``once`` says that a density to sum follows at once. A
        ``setup`` is taken whether or not it suits the points.
        """
        raise NotImplementedError

    # On one device alone, points can be placed before the host has looked at them.
    def follow(self, task: Task, lattice: Lattice, arrays: dict[str, Any]) -> bool:
        """Place points before the host has looked at them, if that is possible."""
        return False

    def looked_at(self) -> tuple[bool, bool]:
        """Return whether points that followed were in the box, and crowd as those that suited."""
        raise NotImplementedError

    def suiting(self, task: Task, points: Points) -> Pipeline:
        """Return the pipeline for points that followed, by another set-up if this one is wrong."""
        raise NotImplementedError

    def undo(self) -> None:
        """Place the points again that were there before those that followed."""
        raise NotImplementedError

    def copies(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return copies of arrays as they were when they followed."""
        raise NotImplementedError

    def left(self) -> Pipeline:
        """Return a pipeline for new plans like this one: its set-up, and which points suited."""
        raise NotImplementedError

    @property
    def holds(self) -> float:
        """Bytes that the stages hold, as predicted; without stages, what the set-up holds."""
        raise NotImplementedError

    def recorded(self, many: int) -> Any:
        """Return the graph of an application to ``many`` densities, if there is one."""
        return None

    def apply(self, dens: Any, results: dict[str, Any], watch: Watch) -> None:
        """Overwrite results (k, rows, targets) with the sums of densities (k, rows, sources)."""
        raise NotImplementedError

    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""
        raise NotImplementedError

    @property
    def gathering(self) -> str:
        """The variant of G2P, in words."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return lines to add to the description of a plan."""
        raise NotImplementedError
