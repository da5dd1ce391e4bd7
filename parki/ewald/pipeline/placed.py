"""`PlacedOnDevice`: what one device has placed and chosen, and how other points take its place."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from parki.cells.sorted_points import SortedPoints
from parki.ewald.choice.memory import Memory
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.lattice import Lattice
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline.protocol import Pipeline
from parki.ewald.pipeline.replay import Applications, Replay
from parki.ewald.pipeline.setup import Setup
from parki.ewald.pipeline.stages import Stages
from parki.ewald.solver_box import LatticeNumbers, SolverBox
from parki.ewald.task import Task
from parki.runtime import ExecutionSpace
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
    suited : list of 3 pairs of floats, or None
        The least and the most of each that the parameters were found to suit. The numbers of few
        points change by chance, and parameters that suit two of them suit all between.
    report : HostReport, DeviceReport or None
        The numbers of now, once they were counted; and last how many coordinates did not fit.
    points : int
        Targets or sources, whichever are more.
    """

    def __init__(self) -> None:
        self.suited: list[tuple[float, float]] | None = None
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
        kernel(3 * items, threads, arguments=sizes | cells, items=items, pairs=numbers)

    def read(self) -> list[float]:
        """Return the numbers of now, for which the host waits."""
        self.report.send()
        return self.received()

    def received(self) -> list[float]:
        """Return the numbers that were sent last, for which the host waits."""
        return cast(list[float], self.report.read()[:3])

    def suit(self, now: list[float]) -> None:
        """Note numbers that the parameters were found to suit."""
        before = self.suited or [(n, n) for n in now]
        numbers = zip(now, before, strict=True)
        self.suited = [(min(n, least), max(n, most)) for n, (least, most) in numbers]

    def matches(self, now: list[float]) -> bool:
        """Return whether numbers are about as many as suited."""
        numbers = zip(now, cast(list[tuple[float, float]], self.suited), strict=True)
        return all(
            least - CROWDED * max(least, self.points)
            <= n
            <= most + CROWDED * max(most, self.points)
            for n, (least, most) in numbers
        )


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
            name: xp.empty((*array.shape[:-1], self.targets), dtype=array.dtype)
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
    copied_arrays : dict
        What the graph has placed before.
    decision : str
        How `Arrival.placed` has placed the points: "keep", "move", "choose", "renew", "resize",
        "record" or "repeat".
    box : Lattice or None
        The present one, if it is known that the set-up fits.
    capacity : PaddedCapacity or None
        Where the number of points has changed.
    expected : dict
        Array shapes of the plan that left this in the cache.
    occupancy : OccupancyStatistics
    """

    def __init__(
        self, setup: Setup | None = None, memory: Memory | None = None, problem: str = ""
    ) -> None:
        self.setup, self.memory = setup, memory
        self.stages: Stages | None = None
        self.graph: Replay | None = None
        self.copied_arrays: dict[str, Any] = {}
        self.decision = ""
        self.box: Lattice | None = None
        self.capacity: PaddedCapacity | None = None
        self.expected: dict[str, tuple[int, ...]] = {}
        self.occupancy = OccupancyStatistics()
        self.applications = Applications(problem)
        # At `begin`: the set-up; and whether the graph has placed other points since.
        self._begun: Setup | None = None
        self._followed = False

    def take(self, stages: Stages, later: bool = False) -> None:
        """Take stages; count the pairs of their points, unless the far field is placed later."""
        self.stages = stages
        if not later:
            self.occupancy.count(stages)

    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""
        return self.stages.p2p.lists if self.stages else None

    # ------------------------------------------------------------------ points that follow
    @property
    def groups(self) -> tuple[Systems | None, Labels | None]:
        """The systems and labels of the points that are placed: see `Pipeline.groups`."""
        return (None, None) if self.stages is None else (self.stages.systems, self.stages.labels)

    def follows(self, arrays: dict[str, AnyArray]) -> bool:
        """Return whether a graph takes points: see `Pipeline.follows`."""
        return self.graph is not None and self.graph.takes(arrays)

    def place_async(self, task: Task, lattice: Lattice, arrays: dict[str, AnyArray]) -> bool:
        """Place points by the graph, if it takes them; wait for nothing.

        The points are in the box, or it must be asked whether they were: see `validate_pending`.
        """
        graph = self.graph
        if graph is None or (setup := self._within(task, lattice)) is None:
            return False
        if self.capacity is not None and self.capacity.takes(arrays):
            arrays = self.capacity.points(task.xp, arrays)
        if not graph.takes(arrays):
            return False
        self._move(setup)
        self.replay(lattice, arrays)
        return True

    def replay(self, box: Lattice | None, arrays: dict[str, AnyArray]) -> None:
        """Launch the graph for other points, whose `box` this is, and keep those before."""
        graph = cast(Replay, self.graph)
        if self._begun is not None:  # else nobody can ask for those before
            for name, array in graph.arrays.items():
                graph.space.adapter.copy(self.copied_arrays[name], array)
        self._followed = True
        graph(arrays, {})
        self.launched(box)

    def launched(self, box: Lattice | None) -> None:
        """Serve points that a graph was launched for, whose `box` this is."""
        self.box, self.decision = box, "keep"
        self.occupancy.report.send()
        self.applications.drop_lists()
        if self.lists is not None:
            self.lists.drop()

    def begin(self) -> None:
        """Keep what is placed for `undo`."""
        self._begun, self._followed = self.setup, False

    def undo(self) -> None:
        """Serve the points that were placed at `begin`, in their box."""
        self._move(self._begun)
        self.box = None
        if self._followed:
            cast(Replay, self.graph)(self.copied_arrays, {})
            self._followed = False

    def validate_pending(self) -> tuple[bool, bool]:
        """Return whether points that followed were in the box, and crowd as those that suited."""
        *crowds, invalid = self.occupancy.report.read()
        if invalid:
            self.occupancy.report.numbers.fill(0)
        return not invalid, self.occupancy.matches(crowds)

    def copies(self, arrays: dict[str, AnyArray]) -> dict[str, Any]:
        """Return copies of arrays as they were when they followed."""
        placed, same = cast(Replay, self.graph).arrays, arrays["trg"] is arrays["src"]
        names = [name for name in arrays if not (same and name == "src")]
        copies = {name: placed[name][:, : arrays[name].shape[1]].copy() for name in names}
        return {name: copies["trg" if same and name == "src" else name] for name in arrays}

    # ------------------------------------------------------------------ other boxes
    def _within(self, task: Task, lattice: Lattice) -> Setup | None:
        """Return the set-up for a box; None if its grid is no longer one for that."""
        setup = self.setup
        if setup is None or lattice == self.box:
            return setup
        return setup.within(SolverBox.of(task, lattice, setup.solver_box))

    def _move(self, setup: Setup | None) -> None:
        """Take a set-up whose box has other tilts, if all that is placed can serve it."""
        old, stages = self.setup, self.stages
        if setup is None or old is None or setup is old or not setup.same_memory(old):
            return
        values = stages and stages.fgc.ending_kernels(setup.mesh, setup.split)
        self.setup = setup  # first, so that `undo` mends what is half written
        cast(LatticeNumbers, setup.solver_box.numbers).move(setup.solver_box)
        if stages is not None:
            stages.fgc.fill(setup.mesh, values)

    def for_new_plans(self) -> PlacedOnDevice:
        """Return a pipeline for new plans like this one: its set-up, and which points suited."""
        new = type(self)(self.setup, self.memory)
        if self.stages is not None and self.stages.labels is None:
            new.occupancy.suited, new.expected = self.occupancy.suited, self.stages.sizes
        return new
