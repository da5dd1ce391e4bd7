"""`Arrival`: points that arrive at a pipeline, compared with those that it has placed."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from parki.cells.sorted_points import SortedPoints
from parki.ewald.choice.clustering import PairDensity, pair_density
from parki.ewald.choice.memory import Memory, is_free
from parki.ewald.pipeline.protocol import Pipeline
from parki.ewald.pipeline.replay import Replay, why_not
from parki.ewald.pipeline.setup import Setup
from parki.ewald.pipeline.stages import Stages
from parki.ewald.points.cloud import Cloud, SurveyedCloud
from parki.ewald.solver_box import SolverBox
from parki.ewald.task import Task
from parki.runtime import ExecutionSpace
from parki.runtime.forks import cached_property
from parki.settings import MOST_THREADS
from parki.typing import AnyArray, ArrayModule

# Parameters still suit while the pairs that share a cell change by no more than this part of their
# number: `choice.reuse` allows more. Fewer pairs than points take no time, and change by chance:
# images behind a wall have few near the targets.
CROWDED = 0.1
MOST_ITEMS = 1 << 12  # work items that count pairs, each of some cells


class OccupancyStatistics:
    """How many pairs share a cell: now, and when the parameters were last found to suit.

    Three numbers follow from how the stages have sorted the points. Only where they differ is
    `Setup.suits` asked, which counts the close pairs of a sample.

    Attributes
    ----------
    suited : list of 3 floats or None
        The numbers when the parameters were last found to suit.
    report : HostReport, DeviceReport or None
        The numbers of now, once they were counted; and last how many coordinates did not fit.
    points : int
        Targets or sources, whichever are more.
    """

    def __init__(self) -> None:
        self.suited: list[float] | None = None
        self.report: Any = None
        self.points = 0

    def begin(self, space: ExecutionSpace) -> Any:
        """Return the report, of which the last number may be counted up."""
        self.report = self.report or space.adapter.report(4)
        return self.report

    def count(self, stages: Stages) -> None:
        """Count pairs of the near field, and of the far field's sorts; waits for nothing."""
        near, far = stages.p2p, (stages.g2p.targets.counts, stages.p2g.sources.counts)
        trg, src = near.targets.counts, near.sources.counts
        self.points = max(near.targets.cells.size, near.sources.cells.size)
        space, first = stages.setup.task.space, self.report is None
        numbers = self.begin(space).numbers
        if not first:
            numbers[:3] = 0
        sizes = {"near": trg.size, "trg_far": far[0].size, "src_far": far[1].size}
        most = max(sizes.values())
        items = min(MOST_ITEMS, most)
        kernel = SortedPoints.pairs_kernel(space, stages.setup.task.executor)
        threads = 1 if most <= MOST_ITEMS else MOST_THREADS  # no thread of a CPU need wake
        cells = {"trg": trg, "src": src, "gathered": far[0], "spread": far[1]}
        kernel(3 * items, threads, items=items, pairs=numbers, **sizes, **cells)

    def read(self) -> list[float]:
        """Return the numbers of now, for which the host waits."""
        self.report.send()
        return self.received()

    def received(self) -> list[float]:
        """Return the numbers that were sent last, for which the host waits."""
        return cast(list[float], self.report.read()[:3])

    def matches(self, now: list[float]) -> bool:
        """Return whether numbers are about those that suited."""
        pairs = zip(now, cast(list[float], self.suited), strict=True)
        return all(abs(n - before) <= CROWDED * max(before, self.points) for n, before in pairs)


# One more column for each this many points; and the least part of all columns that points fill.
EACH, LEAST = 10, 0.8


class PaddedCapacity(NamedTuple):
    """Columns for targets and sources.

    Launches that were recorded have fixed sizes. Where points come and go, the columns beyond them
    are the first points again, as sources without a density and as targets that nobody asks for.
    """

    targets: int
    sources: int

    @classmethod
    def of(cls, arrays: dict[str, AnyArray]) -> PaddedCapacity:
        """Return the slack for arrays of points, by name: "trg", and "src" if they are others."""
        targets = arrays["trg"].shape[1]
        sources = arrays["src"].shape[1] if "src" in arrays else targets
        return cls(targets + -(-targets // EACH), sources + -(-sources // EACH))

    def takes(self, arrays: dict[str, AnyArray]) -> bool:
        """Return whether there is slack for other arrays, and not too much."""
        sizes = [(self._columns(name), array.shape[1]) for name, array in arrays.items()]
        return all(LEAST * columns <= n <= columns for columns, n in sizes)

    def points(self, xp: ArrayModule, arrays: dict[str, AnyArray]) -> dict[str, Any]:
        """Return arrays of points, normals and tensor targets that fill the slack."""
        filled = {}
        for name, array in arrays.items():
            n, columns = array.shape[1], self._columns(name)
            filled[name] = xp.empty((len(array), columns), dtype=array.dtype)
            filled[name][:, :n] = array
            filled[name][:, n:] = array[:, : columns - n]
        return filled

    def densities(self, xp: ArrayModule, dens: AnyArray) -> Any:
        """Return densities (k, rows, sources) that fill the slack."""
        filled = xp.zeros((*dens.shape[:-1], self.sources), dtype=dens.dtype)
        filled[..., : dens.shape[-1]] = dens
        return filled

    def results(self, xp: ArrayModule, results: dict[str, AnyArray]) -> dict[str, Any]:
        """Return memory for results at all targets that there is slack for."""
        return {
            name: array
            if name == "strain"  # has no targets
            else xp.empty((*array.shape[:-1], self.targets), dtype=array.dtype)
            for name, array in results.items()
        }

    def _columns(self, name: str) -> int:
        of_sources = name in ("src", "src_radii", "norms")
        return self.sources if of_sources else self.targets


class PlacedOnDevice(Pipeline):
    """What a device has placed and chosen.

    Attributes
    ----------
    stages : Stages or None
        None while there are no points.
    graph : Replay or None
        Which places points, or says why it cannot.
    decision : str
        What `OneDevice.decided` has decided for the points.
    capacity : Slack or None
        Where the number of points has changed.
    expected : dict
        Array shapes of the plan that left this in the cache.
    occupancy : OccupancyStatistics
    """

    def __init__(self, setup: Setup | None, memory: Memory | None) -> None:
        self.setup, self.memory = setup, memory
        self.stages: Stages | None = None
        self.graph: Replay | None = None
        self.decision = ""
        self.capacity: PaddedCapacity | None = None
        self.expected: dict[str, tuple[int, ...]] = {}
        self.occupancy = OccupancyStatistics()


class Arrival:
    """Points that arrive at a pipeline, and what `OneDevice.decided` asks of them.

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
    def wrapped(self) -> tuple[Any, Any]:
        """Targets and sources as the grid takes them; one array, if they are the same."""
        return wrapped(self.task, self.solver_box, self.points)

    @cached_property
    def density(self) -> PairDensity:
        """How the points crowd, by a sample."""
        apart = self.task.options.images_below(self.points.source_extents)
        edges, systems = self.solver_box.lattice.edges, self.points.systems
        return pair_density(*self.wrapped, edges, systems, apart)

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
        return points.systems is stages.systems and points.labels is stages.labels


def _shapes(arrays: dict[str, AnyArray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


def wrapped(task: Task, solver_box: SolverBox, cloud: Cloud) -> tuple[Any, Any]:
    """Return targets and sources as the grid takes them; one array, if they are the same."""
    trg = solver_box.wrap(task, cloud.trg)
    return trg, trg if cloud.same else solver_box.wrap(task, cloud.src)
