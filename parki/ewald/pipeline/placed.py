"""`PlacedOnDevice`: what one device has placed and chosen, and how other points take its place."""

from __future__ import annotations

from typing import Any, cast

from parki.ewald.choice.memory import Memory
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.lattice import Lattice
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline.capacity import PaddedCapacity
from parki.ewald.pipeline.occupancy import OccupancyStatistics
from parki.ewald.pipeline.protocol import Pipeline
from parki.ewald.pipeline.replay import Applications, Replay
from parki.ewald.pipeline.setup import Setup
from parki.ewald.pipeline.stages import Stages
from parki.ewald.solver_box import LatticeNumbers, SolverBox
from parki.ewald.task import Task
from parki.typing import AnyArray


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
        What `Arrival.decided` has decided for the points.
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

    def replay(self, lattice: Lattice, arrays: dict[str, AnyArray]) -> None:
        """Launch the graph for other points in the present box, and keep those before."""
        graph = cast(Replay, self.graph)
        self.box, self.decision = lattice, "keep"
        for name, array in graph.arrays.items():
            graph.space.adapter.copy(self.copied_arrays[name], array)
        self._followed = True
        graph(arrays, {})
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
