"""`Arrival`: points that arrive at a pipeline, and how they are placed.

They are compared with those that it has placed. `Arrival.placed` takes the first way that serves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from parki.ewald.choice.clustering import PairDensity, pair_density
from parki.ewald.choice.memory import Memory, check_memory, is_free
from parki.ewald.choice.reuse import lasting
from parki.ewald.pipeline.invalid_values import ReplacedValues
from parki.ewald.pipeline.placed import CROWDED, PaddedCapacity, PlacedOnDevice
from parki.ewald.pipeline.protocol import Place, clear_cache
from parki.ewald.pipeline.replay import Replay, why_not
from parki.ewald.pipeline.setup import Setup, choose, cloud_on_grid
from parki.ewald.pipeline.stages import Stages
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.solver_box import SolverBox
from parki.ewald.task import Task
from parki.runtime import Kernel, preparing
from parki.runtime.forks import cached_property
from parki.typing import AnyArray


class Arrival:
    """Points that arrive at a pipeline, and how they are placed.

    Parameters
    ----------
    before : PlacedOnDevice
    setup : Setup or None
        For the box of the points; None if there is none.
    task, points
    one_shot : bool
        Whether one density is summed next.
    imposed : Setup, optional
        Taken whether or not it suits the points.

    Attributes
    ----------
    box : Lattice or None
        That of the points; None if it is not known that the set-up fits.
    problem : str
        Why launches are not recorded, if so.
    graph : Replay or None
        Which was tried, and refused.
    """

    def __init__(
        self,
        before: PlacedOnDevice,
        setup: Setup | None,
        task: Task,
        points: SurveyedCloud,
        one_shot: bool = False,
        imposed: Setup | None = None,
    ) -> None:
        self.before, self.stages, self.setup = before, before.stages, imposed or setup
        self.task, self.points, self.one_shot, self.imposed = task, points, one_shot, imposed
        self.box = None if imposed else points.lattice
        self.problem = why_not(task.space, task.executor, points.targets, points.sources)
        self.later = one_shot and task.space.on_device  # a CPU runs one field after the other
        self.graph: Replay | None = None

    # ------------------------------------------------------------------ values
    @cached_property
    def solver_box(self) -> SolverBox:
        """The box in the solver."""
        if self.setup is not None:
            return self.setup.solver_box
        old = self.before.setup
        return SolverBox.of(self.task, self.points.lattice, None if old is None else old.solver_box)

    @cached_property
    def on_grid(self) -> SurveyedCloud:
        """The points as the far field takes them."""
        return cloud_on_grid(self.task, self.solver_box, self.points)

    @cached_property
    def density(self) -> PairDensity:
        """How the points crowd, by a sample."""
        apart = self.task.options.images_below(self.points.source_extents)
        edges, systems = self.solver_box.lattice.edges, self.points.systems
        return pair_density(self.on_grid.trg, self.on_grid.src, edges, systems, apart)

    @cached_property
    def capacity(self) -> PaddedCapacity | None:
        """The slack for the points: as there is, or more where their number has changed."""
        capacity, stages, points = self.before.capacity, self.stages, self.points
        if self.problem or self.one_shot or points.systems or points.labels:
            return None
        if capacity is not None and capacity.takes(points.distinct):
            return capacity
        if stages is None or stages.sizes == _shapes(points.distinct):
            return None
        return PaddedCapacity.of(points.distinct)

    @cached_property
    def padded(self) -> SurveyedCloud:
        """The points, which fill the capacity."""
        if self.capacity is None:
            return self.points
        return self.points.within(self.capacity.points(self.task.xp, self.points.distinct))

    # ------------------------------------------------------------------ predicates
    @property
    def has_graph(self) -> bool:
        """Whether a graph places as many points in this box."""
        graph = self.before.graph
        if graph is None or not (self._fits_grid and self._same_marks):
            return False
        return self.capacity is self.before.capacity and graph.takes(self.padded.distinct)

    @property
    def resembles(self) -> bool:
        """Whether the stages may be launched before it is known that the parameters suit.

        The grid fits the box, it is known how points crowd that the parameters suit, and numbers
        differ by at most 10 %. It is for points of which no graph is made.
        """
        before, stages, points = self.before, self.stages, self.points
        by_launches = not self.later and (bool(self.problem) or stages is None)
        known = self.imposed is None and before.occupancy.suited is not None
        if not (by_launches and known and self._fits_grid):
            return False
        if stages is not None:
            targets = stages.sizes["trg"][1]
            return abs(points.targets - targets) <= CROWDED * targets and self._same_marks
        if points.labels or _shapes(points.distinct) != before.expected:
            return False
        return is_free(cast(Memory, before.memory), self.task.space)

    @cached_property
    def suits(self) -> bool:
        """Whether the parameters suit a sample of the points."""
        if self.setup is None or self.imposed is not None:
            return self.setup is not None
        return self.setup.suits(self.density, self.points)

    @property
    def has_grids(self) -> bool:
        """Whether there are grids for as many systems in this box."""
        stages, count = self.stages, self.points.counts[2]
        return stages is not None and stages.count == count and self._fits_grid

    @property
    def as_many(self) -> bool:
        """Whether there are stages for as many points."""
        sizes = self.stages and self.stages.sizes
        return self._same_marks and sizes == _shapes(self.padded.distinct)

    @property
    def repeats(self) -> bool:
        """Whether as many came before, so that a graph pays, if one can be made."""
        graph = self.before.graph
        again = self.before.decision in ("repeat", "record", "keep")
        return again and not self.problem and not (graph and graph.problem)

    @property
    def _fits_grid(self) -> bool:
        """Whether the grid fits the box."""
        new, old = self.setup, self.before.setup
        return new is not None and old is not None and (new is old or new.same_memory(old))

    @property
    def _same_marks(self) -> bool:
        """Whether systems and labels are those that are placed."""
        stages, points = self.stages, self.points
        if stages is None:
            return False
        same = points.labels is stages.labels
        if points.systems is None or stages.systems is None:
            return same and points.systems is stages.systems
        return same and points.systems.arrays is stages.systems.arrays

    # ------------------------------------------------------------------ ways to place
    def placed(self, graph: bool = True) -> PlacedOnDevice:
        """Return the pipeline for the points; with ``graph`` perhaps by one."""
        if graph and self.has_graph and (new := self._kept()):
            return new
        if self.resembles and (new := self._moved()):
            return new
        if not self.suits:
            self.setup = self._chosen()
            new = self._launched("choose", in_place=False)
        elif not self.has_grids:
            new = self._launched("renew", in_place=False)
        elif not self.as_many:
            new = self._launched("resize")
        elif self.repeats and (new := self._recorded()):
            return new
        else:
            new = self._launched("repeat")
        if not self.later and self.imposed is None:  # how points crowd that the parameters suit
            new.occupancy.suit(new.occupancy.read())
        return new

    def _kept(self) -> PlacedOnDevice | None:
        """Place the points by the graph; return None if the set-up is wrong for them."""
        before = self.before
        before.replay(self.box, self.padded.distinct)
        return before if self.accepts(before) else None

    def _moved(self) -> PlacedOnDevice | None:
        """Return a pipeline by launches, if the set-up is not wrong for the points."""
        new = self._launched("move")
        new.occupancy.suited = self.before.occupancy.suited
        new.occupancy.report.send()
        return new if self.accepts(new) else None

    def _recorded(self) -> PlacedOnDevice | None:
        """Return a pipeline by a graph of the launches before; None if there can be none."""
        new, place = self.recordable()
        arriving = self.padded.distinct
        new.graph = self.graph = Replay(self.task.space, place, arriving)
        if new.graph.problem:
            return None
        new.copied_arrays = {n: array.copy() for n, array in new.graph.arrays.items()}
        new.graph(arriving, {})
        new.occupancy.suit(new.occupancy.read())
        return new

    def recordable(self) -> tuple[PlacedOnDevice, Place]:
        """Return a pipeline, and what places points there each time a graph is launched."""
        task, points, old, before = self.task, self.points, self.stages, self.before
        setup, memory = cast(Setup, before.setup), cast(Memory, before.memory)
        new = type(before)(setup, memory)
        new.decision, new.box, new.capacity = "record", self.box, self.capacity
        new.occupancy.suited = before.occupancy.suited
        invalid = new.occupancy.begin(task.space).numbers[3:]
        arriving, dtype = self.padded.distinct, task.array_dtype
        replace_invalid = ReplacedValues(task.space, task.options, arriving, dtype, invalid)

        def place(arrays: dict[str, AnyArray]) -> None:
            replace_invalid(arrays)
            cloud = points.within(arrays)
            on_grid = cloud_on_grid(task, setup.solver_box, cloud)
            new.take(Stages(setup, memory, cloud, on_grid=on_grid, old=old))

        return new, place

    def _chosen(self) -> Setup:
        """Return a set-up by other parameters."""
        clouds, density = self.on_grid.clouds, self.density
        before = self.setup or self.before.setup
        chosen = choose(
            self.task,
            self.points,
            self.solver_box,
            density if before is None else lasting(before.parameters, density),
            clouds,
            one_shot=self.one_shot,
        )
        return Setup.of(self.task, self.solver_box, chosen)

    def _launched(self, decision: str, in_place: bool = True) -> PlacedOnDevice:
        """Return a pipeline by launches, ``in_place`` in the memory of the points before."""
        setup, old = cast(Setup, self.setup), self.stages
        memory, kernels = cast(Memory, self.before.memory), list[Kernel]()
        if not in_place:
            old, memory = None, self._checked_memory(setup)
            kernels = setup.kernels(self.points.targets)
        new = type(self.before)(setup, memory, self.problem)
        new.decision, new.box = decision, self.box
        new.capacity, new.graph = self.capacity, self.graph
        with preparing(kernels):
            on_grid = self.on_grid
            if new.capacity is not None:
                on_grid = cloud_on_grid(self.task, setup.solver_box, self.padded)
            stages = Stages(
                setup, memory, self.padded, on_grid=on_grid, old=old, far_later=self.later
            )
            new.take(stages, self.later)
        return new

    def _checked_memory(self, setup: Setup) -> Memory:
        """Return the memory that the points need, if it is free."""
        points = self.points
        targets, sources, systems = points.counts
        if self.capacity is not None:
            targets, sources = self.capacity
        old = setup.parameters.problem
        problem = replace(
            old,
            targets=targets,
            sources=sources,
            systems=systems,
            same=points.all_same,
            one_shot=self.one_shot,
            labels=points.labels.sizes if points.labels else None,
        )
        chosen = replace(setup.parameters, problem=problem)
        return check_memory(chosen, self.task, setup.solver_box.length, clear_cache)

    def accepts(self, placed: PlacedOnDevice) -> bool:
        """Return whether the set-up suits the points, which were placed before that was known."""
        if self.imposed is not None:
            return True
        crowds = placed.occupancy.received()
        if placed.occupancy.matches(crowds):
            return True
        if self.suits:
            placed.occupancy.suit(crowds)
        return self.suits


def _shapes(arrays: dict[str, AnyArray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}
