"""`Pipeline`: who does the work of a plan; and `OneDevice`, which does it alone.

The stages do not know each other. A pipeline joins them: near field (P2P), and P2G, FGC, G2P for
the far field. That of many ranks is `parki.distributed.slab.Slab`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from parki.ewald.choice.clustering import pair_density
from parki.ewald.choice.memory import Memory, check
from parki.ewald.far.fgc import FGC
from parki.ewald.far.g2p import G2P
from parki.ewald.far.gauge import Gauge
from parki.ewald.far.p2g import P2G
from parki.ewald.far.plane import PlaneModes
from parki.ewald.near.p2p import P2P
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.replay import Replay, why_not
from parki.ewald.setup import Setup, choose, use
from parki.ewald.task import Frame, Points, Survey, Task
from parki.runtime import prepare

Watch = Callable[[str], AbstractContextManager[Any]]  # of the stages, by name


def unwatched(_: str) -> AbstractContextManager[Any]:
    """Time no stage."""
    return nullcontext()


class Pipeline(Protocol):
    """The stages of a plan for fixed points, on one device or over ranks.

    Attributes
    ----------
    setup : Setup or None
        None while there is nothing to sum.
    memory : Memory or None
        What this rank needs, as predicted for the points that the parameters were chosen for.
    ahead : bool
        Whether all stages can be launched before the first runs.
    """

    setup: Setup | None
    memory: Memory | None
    ahead: bool

    def together(self) -> AbstractContextManager[Any]:
        """Raise on all ranks what is raised on one of them."""

    def survey(self, task: Task, arrays: dict[str, Any], extents: Any) -> Survey:
        """Return what the points of all ranks have in common; refuse ranks with other tasks."""

    def total(self, value: float) -> float:
        """Return the sum of a number over all ranks."""

    def empty(self) -> Pipeline:
        """Return a pipeline without points."""

    def placed(self, task: Task, points: Points, once: bool) -> Pipeline:
        """Return a pipeline for other points, which keeps what suits them.

        This one stays as it is, but is not used any more if no exception is raised. ``once`` says
        that a density to sum follows at once.
        """

    def apply(self, dens: Any, results: dict[str, Any], watch: Watch) -> None:
        """Overwrite results, in the shapes of the public boundary, with the sum of a density."""

    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""

    @property
    def gathering(self) -> str:
        """The variant of G2P, in words."""

    def describe(self) -> str:
        """Return lines to add to the description of a plan."""


class OneDevice:
    """The stages on one device or on the CPUs of one process."""

    ahead = True

    def __init__(self) -> None:
        self.setup: Setup | None = None
        self.memory: Memory | None = None
        self.p2p: P2P
        self.p2g: P2G
        self.fgc: FGC
        self.g2p: G2P
        self.plane: PlaneModes | None = None
        self.gauge: Gauge
        self.sorted: Any = None  # the densities of P2G, in the memory of those of P2P
        self._wide: Any = None
        self._pending: Callable[[], None] | None = None  # to do beside the near field
        self._begun = False  # a density was summed
        self._replay: Replay | None = None
        self._plain = ""  # why applications are launched one by one

    def together(self) -> AbstractContextManager[Any]:
        """Do nothing: there are no other ranks."""
        return nullcontext()

    def survey(self, task: Task, arrays: dict[str, Any], extents: Any) -> Survey:
        """Return what the points have in common."""
        totals = arrays["trg"].shape[1], arrays["src"].shape[1]
        return Survey(totals, (0, 0), arrays["trg"] is arrays["src"], extents)

    def total(self, value: float) -> float:
        """Return the number."""
        return value

    def empty(self) -> OneDevice:
        """Return a pipeline without points."""
        return OneDevice()

    def placed(self, task: Task, points: Points, once: bool) -> OneDevice:
        """Return a pipeline for other points: see `Pipeline.placed`."""
        new, arrays, same = OneDevice(), points.arrays, points.survey.same
        frame = self.setup.frame if self.setup else Frame.of(task, points.box)
        src = frame.wrap(task, arrays["src"])
        trg = src if same else frame.wrap(task, arrays["trg"])
        norms = arrays["norms"] * task.dtype.type(frame.factor) if "norms" in arrays else None

        density = pair_density(trg, src, frame.box)
        kept = self.setup is not None and self.setup.suits(density, points)
        if self.setup is not None and kept:
            setup = self.setup
            new.memory = self.memory
        else:
            clouds = [src] if same else [trg, src]
            problem, chosen = choose(task, points, frame, density, clouds, once=once)
            new.memory = check(problem, chosen, use(task, points, once), frame.length)
            setup = Setup.of(task, frame, problem, chosen)
            prepare(setup.kernels(points.targets))
        new.setup = setup
        new.p2p = P2P(task, frame, setup.pair, arrays["trg"], arrays["src"], norms)
        rows = task.sum.rows
        new._wide = new.p2p.buffer(rows)
        new._plain = why_not(task.space, task.executor, points.targets, points.sources)
        new.sorted = new._wide.reshape(-1)[: rows * points.sources].reshape(rows, -1)

        def far() -> None:
            new._place_far(setup, trg, src, norms, self if kept else None)

        if once:
            new._pending = far
        else:
            far()
        return new

    def _place_far(
        self, setup: Setup, trg: Any, src: Any, norms: Any, old: OneDevice | None
    ) -> None:
        """Set up the far field of wrapped points and normals in solver units."""
        mesh = setup.mesh
        # The field takes the place of the grid, whose values are in Fourier space by then.
        self.p2g = P2G(mesh, src, norms, FGC.room(mesh), old and old.p2g.memory)
        sources = self.p2g.sources
        if PlaneModes.needed(mesh):
            self.plane = PlaneModes(mesh, sources.points[2], self.p2g.arguments["norms"])
        self.fgc = old.fgc if old is not None else FGC(mesh, setup.split, self.p2g.memory)
        self.g2p = G2P(mesh, trg, sources, trg is src)
        self.gauge = setup.gauge(trg, src, norms)

    def apply(self, dens: Any, results: dict[str, Any], watch: Watch) -> None:
        """Run the stages, or replay them once they launch the same every time."""
        settled = self._begun and (self.lists is None or self.lists.settled)
        self._begun = True
        space = self.p2p.sources.space
        if self._plain or not settled or watch is not unwatched or space.adapter.capturing():
            self._stages(dens, results, watch)
            return
        if self._replay is None:
            self._replay = Replay(space, self._stages, dens, results)
            self._plain = self._replay.problem
        self._replay(dens, results)

    def _stages(self, dens: Any, results: dict[str, Any], watch: Watch = unwatched) -> None:
        """Run the stages; they see results as (rows, targets)."""
        space = self.p2p.sources.space
        flat = {name: array.reshape(-1, array.shape[-1]) for name, array in results.items()}
        pending, self._pending = self._pending, None
        with space.adapter.beside(pending), watch("P2P"):
            self.p2p.apply(dens, self._wide, flat)
        with watch("P2G"):
            grid = self.p2g.apply(dens, self.sorted)
            plane = None
            if self.plane is not None:
                plane = self.plane.apply(self.sorted if self.p2g.sorts else dens)
        with watch("FGC"):
            field = self.fgc.apply(grid, plane)
        with watch("G2P"):
            self.g2p.apply(field, flat)
            self.gauge.add(dens, flat)

    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""
        return self.p2p.lists if self.setup else None

    @property
    def gathering(self) -> str:
        """The variant of G2P, in words."""
        return self.g2p.method

    def describe(self) -> str:
        """Return how applications are launched."""
        if self._replay is None:
            return ""
        how = f"one by one: {self._plain}" if self._plain else "as one graph"
        return f"\n  launches: {how}"
