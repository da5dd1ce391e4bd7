"""`OneDevice`: the pipeline of a plan on one device, or on the CPUs of one process.

`stages` is what is placed, and `replay` what a device makes as graphs. `OneDevice.decided` says how
points are placed that arrive, by the predicates of `arrival`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from parki.ewald.choice.memory import Memory, Use, check_memory
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.lattice import Lattice
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline.arrival import Arrival, PlacedOnDevice, wrapped
from parki.ewald.pipeline.invalid_values import ReplacedValues
from parki.ewald.pipeline.protocol import Watch, clear_cache
from parki.ewald.pipeline.replay import Applications, Replay, launch_mode
from parki.ewald.pipeline.setup import Setup, choose
from parki.ewald.pipeline.stages import Stages
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.ranks import Ranks
from parki.ewald.solver_box import LatticeNumbers, SolverBox
from parki.ewald.task import Task
from parki.runtime import preparing
from parki.typing import AnyArray

# Sources up to which near fields in a graph, without lists of pairs, take less time than near
# fields with lists, launched one by one.
SHORT = 2**17


SERIAL = Ranks(lambda ranks: OneDevice())  # one process, which has all points


class OneDevice(PlacedOnDevice):
    """The stages on one device: see `Pipeline`."""

    asynchronous, ranks = True, SERIAL

    def __init__(
        self, setup: Setup | None = None, memory: Memory | None = None, problem: str = ""
    ) -> None:
        super().__init__(setup, memory)
        self.applications = Applications(problem)
        # At `begin`: the set-up, copies of the graph's points; and whether it has placed others.
        self._begun: Setup | None = None
        self._copies: dict[str, Any] = {}
        self._followed = False
        self._box: Lattice | None = None  # the present one, if it is known that the set-up fits

    @property
    def holds(self) -> float:
        """Bytes that the stages hold, or the set-up: see `Pipeline.holds`."""
        parts = self.memory.parts if self.memory else {"multiplier": 0.0}
        copied = self.copied.distinct.values() if self.copied else ()
        held = sum(parts.values()) if self.stages else parts["multiplier"]
        return float(held + sum(array.nbytes for array in copied))

    # ------------------------------------------------------------------ placing points
    def placed(
        self, task: Task, points: SurveyedCloud, one_shot: bool = False, setup: Setup | None = None
    ) -> OneDevice:
        """Return a pipeline for other points: see `Pipeline.placed`."""
        within = self._within(task, points.lattice)
        arrival = Arrival(self, within, task, points, one_shot, setup)
        self._move(arrival.setup)
        return self._placed(arrival, *self.decided(arrival))

    def replan(self, task: Task, points: SurveyedCloud) -> OneDevice:
        """Return the pipeline for points that followed, by another set-up if this one is wrong."""
        arrival = Arrival(self, self.setup, task, points)
        if self._stays(arrival):
            return self
        return self._placed(arrival, *self.decided(arrival, graph=False))

    def decided(self, arrival: Arrival, graph: bool = True) -> tuple[str, OneDevice]:
        """Return how the points are placed, and the pipeline; with ``graph`` perhaps by one."""
        if graph and arrival.has_graph and (new := self._replayed(arrival)):
            return "keep", new
        if arrival.resembles and (new := self._moved(arrival)):
            return "move", new
        if not arrival.suits:
            return "choose", self._chosen(arrival)
        if not arrival.has_grids:
            return "renew", self._renewed(arrival)
        if not arrival.as_many:
            return "resize", self._launched(arrival)
        if arrival.repeats and (new := self._recorded(arrival)):
            return "record", new
        return "repeat", self._launched(arrival)

    def _placed(self, arrival: Arrival, decision: str, new: OneDevice) -> OneDevice:
        new.decision = decision
        new._box = None if arrival.imposed else arrival.points.lattice
        return new

    def _replayed(self, arrival: Arrival) -> OneDevice | None:
        """Place points by the graph; return None if the set-up is wrong for them."""
        self._place_async(arrival.points.lattice, arrival.padded.distinct)
        return self if self._stays(arrival) else None

    def _recorded(self, arrival: Arrival) -> OneDevice | None:
        """Return a pipeline by a graph of the launches before; None if there can be none."""
        task, setup, memory = arrival.task, cast(Setup, self.setup), cast(Memory, self.memory)
        new, old, points = OneDevice(setup, memory), self.stages, arrival.points
        new.capacity = arrival.capacity
        invalid = new.occupancy.begin(task.space).numbers[3:]
        users = np.dtype(np.float64) if task.mixed else task.dtype
        arriving = arrival.padded.distinct
        replace_invalid = ReplacedValues(task.space, task.options, arriving, users, invalid)

        def place(arrays: dict[str, AnyArray]) -> None:
            replace_invalid(arrays)
            cloud = points.within(arrays)
            on_grid = wrapped(task, setup.solver_box, cloud)
            new._take(Stages(setup, memory, cloud, on_grid=on_grid, old=old))

        new.graph = arrival.graph = Replay(task.space, place, arriving)
        if new.graph.problem:
            return None
        new._copies = {n: array.copy() for n, array in new.graph.arrays.items()}
        new.graph(arriving, {})
        new.occupancy.suited = new.occupancy.read()
        return new

    def _moved(self, arrival: Arrival) -> OneDevice | None:
        """Return a pipeline by launches, if the set-up is not wrong for the points."""
        new = self._stages(arrival, cast(Memory, self.memory), self.stages)
        new.occupancy.suited = self.occupancy.suited
        new.occupancy.report.send()
        return new if new._stays(arrival) else None

    def _launched(self, arrival: Arrival) -> OneDevice:
        """Return a pipeline by launches, in the memory of the points before."""
        return self._stages(arrival, cast(Memory, self.memory), self.stages)._suited(arrival)

    def _renewed(self, arrival: Arrival) -> OneDevice:
        """Return a pipeline by launches, in memory of its own."""
        task, points, setup = arrival.task, arrival.points, cast(Setup, arrival.setup)
        targets, sources, systems = points.counts
        if arrival.capacity is not None:
            targets, sources = arrival.capacity
        problem = replace(setup.problem, targets=targets, sources=sources, systems=systems)
        labels = points.labels.sizes if points.labels else None
        use = Use(task, points.all_same, arrival.one_shot, labels)
        length = setup.solver_box.length
        memory = check_memory(problem, setup.parameters, use, length, clear_cache)
        with preparing(setup.kernels(points.targets)):
            new = self._stages(arrival, memory)
        return new._suited(arrival)

    def _chosen(self, arrival: Arrival) -> OneDevice:
        """Return a pipeline by other parameters."""
        task, (trg, src) = arrival.task, arrival.wrapped
        clouds = (src,) if trg is src else (trg, src)
        problem, chosen = choose(
            task,
            arrival.points,
            arrival.solver_box,
            arrival.density,
            clouds,
            one_shot=arrival.one_shot,
        )
        arrival.setup = Setup.of(task, arrival.solver_box, problem, chosen)
        return self._renewed(arrival)

    def _stages(self, arrival: Arrival, memory: Memory, old: Stages | None = None) -> OneDevice:
        """Return a pipeline with stages for points."""
        setup, later = cast(Setup, arrival.setup), arrival.later
        new = OneDevice(setup, memory, arrival.problem)
        new.capacity, new.graph = arrival.capacity, arrival.graph
        on_grid, cloud = arrival.wrapped, arrival.padded
        if new.capacity is not None:
            on_grid = wrapped(arrival.task, setup.solver_box, cloud)
        stages = Stages(setup, memory, cloud, on_grid=on_grid, old=old, far_later=later)
        new._take(stages, later)
        return new

    def _take(self, stages: Stages, later: bool = False) -> None:
        """Take stages; count the pairs of their points, unless the far field is placed later."""
        self.stages = stages
        if not later:
            self.occupancy.count(stages)

    def _suited(self, arrival: Arrival) -> OneDevice:
        """Return this pipeline, with how its points crowd as how points do that it suits."""
        if not arrival.later and arrival.imposed is None:
            self.occupancy.suited = self.occupancy.read()
        return self

    def _stays(self, arrival: Arrival) -> bool:
        """Return whether the set-up suits points that were placed before that was known."""
        if arrival.imposed is not None:
            return True
        crowds = self.occupancy.received()
        if self.occupancy.matches(crowds):
            return True
        if arrival.suits:
            self.occupancy.suited = crowds
        return arrival.suits

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
        self._place_async(lattice, arrays)
        return True

    def _place_async(self, lattice: Lattice, arrays: dict[str, AnyArray]) -> None:
        """Launch the graph for other points in the present box, and keep those before."""
        graph = cast(Replay, self.graph)
        self._box, self.decision = lattice, "keep"
        for name, array in graph.arrays.items():
            graph.space.adapter.copy(self._copies[name], array)
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
        self._box = None
        if self._followed:
            cast(Replay, self.graph)(self._copies, {})
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
        if setup is None or lattice == self._box:
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

    def for_new_plans(self) -> OneDevice:
        """Return a pipeline for new plans like this one: its set-up, and which points suited."""
        new = OneDevice(self.setup, self.memory)
        if self.stages is not None and self.stages.labels is None:
            new.occupancy.suited, new.expected = self.occupancy.suited, self.stages.sizes
        return new

    # ------------------------------------------------------------------ apply
    def apply(self, dens: AnyArray, results: dict[str, AnyArray], watch: Watch) -> None:
        """Run the stages, or replay them where they launch the same again and again."""
        stages, capacity = cast(Stages, self.stages), self.capacity
        space, lists = stages.setup.task.space, stages.p2p.lists
        if "strain" in results:
            stages.prepare_strain()
        if self.applications.problem and capacity is None and lists is None:  # as on a CPU
            stages.run(dens, results, watch)
            return
        inputs, outputs = dens, results
        if capacity is not None:
            xp = space.array_module
            inputs, outputs = capacity.densities(xp, dens), capacity.results(xp, results)
        if len(dens) > 1 and lists is not None and self.decision not in ("record", "keep"):
            lists.begun = True  # this is a repeated sum
        if space.adapter.capturing():  # it is part of a composite's graph
            self._run(inputs, outputs, watch)
        else:
            self.applications.apply(space, self._run, lists, inputs, outputs, watch)
        if capacity is not None:
            for name, array in results.items():
                if name != "strain":
                    array[...] = outputs[name][..., : array.shape[-1]]

    def recorded(self, many: int) -> Replay | None:
        """Return the graph of an application to ``many`` densities, if there is one."""
        return self.applications.recorded(many, self.lists) if self.stages else None

    def _run(self, dens: AnyArray, results: dict[str, AnyArray], watch: Watch) -> None:
        cast(Stages, self.stages).run(dens, results, watch)

    def expect(self) -> None:
        """Take lists of pairs from the first near field on, because many follow."""
        if self.lists is not None and not self.short:
            self.lists.begun = True

    def forgo_lists(self) -> None:
        """Take no lists of pairs where near fields are short, because points soon move."""
        if self.lists is not None and self.short:
            self.lists.keep = False

    def near(self, dens: AnyArray) -> Any:
        """Return the near field alone of a density (rows, sources), of which more follow."""
        stages, capacity, count = cast(Stages, self.stages), self.capacity, dens.shape[1]
        dens = cast(Setup, self.setup).measured(dens)
        if capacity is not None:
            dens = capacity.densities(stages.p2p.sources.xp, dens)
        self.expect()
        return stages.near(dens, lists=not self.short)[:, :count]

    @property
    def short(self) -> bool:
        """Whether near fields take less time than their launches, and recorded ones pay."""
        sources = cast(Stages, self.stages).p2p.sources
        return not self.applications.problem and sources.order.size <= SHORT

    def brownian_noise(self, standard_normal: Callable[[tuple[int, ...]], Any], count: int) -> Any:
        """Return the far field's noise at the first targets, of normal numbers of a shape."""
        stages, capacity = cast(Stages, self.stages), self.capacity
        xp, dtype = stages.p2p.sources.xp, stages.p2p.dtype
        inputs = {
            "standard_normal": standard_normal(stages.standard_normal).astype(dtype, copy=False)
        }
        noise = xp.empty((stages.rows, capacity.targets if capacity else count), dtype=dtype)
        self.repeated("noise", stages.brownian_noise, inputs, {"noise": noise})
        return noise[:, :count]

    def repeated(
        self,
        name: str,
        work: Callable[[dict[str, Any]], None],
        inputs: dict[str, Any],
        outputs: dict[str, Any],
    ) -> None:
        """Do what has a name, on arrays by name, or launch what was recorded of it."""
        space = cast(Stages, self.stages).p2p.sources.space
        self.applications.repeat(space, (name, False), work, inputs, outputs)

    # ------------------------------------------------------------------ views
    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""
        return self.stages.p2p.lists if self.stages else None

    @property
    def gathering(self) -> str:
        """The variant of G2P, in words."""
        return self.stages.g2p.method if self.stages else ""

    def describe(self) -> str:
        """Return how points are placed, and applications launched, where it is known."""
        if self.setup is None or not self.setup.task.space.on_device:
            return ""
        capacity, lines = self.capacity, ""
        if capacity is not None:
            lines = f"\n  slack for {capacity.targets} targets, {capacity.sources} sources"
        if self.graph is not None:
            lines += f"\n  updates: {launch_mode(self.graph.problem)}"
        return lines + self.applications.describe()
