"""`OneDevice`: the pipeline of a plan on one device, or on the CPUs of one process.

`stages` is what is placed, `replay` what a device makes as graphs, and `crowding` says cheaply
whether the set-up still suits points that moved. Here they are put together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from parki.ewald.choice.clustering import pair_density
from parki.ewald.choice.memory import Memory, check_memory, is_free
from parki.ewald.geometry.lattice import Lattice
from parki.ewald.geometry.lattice_numbers import LatticeNumbers
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline import plan_cache
from parki.ewald.pipeline.crowding import CROWDED, Crowding
from parki.ewald.pipeline.misfits import Mending
from parki.ewald.pipeline.protocol import Pipeline, Watch
from parki.ewald.pipeline.replay import Applications, PlacedBy, Replay, how, why_not
from parki.ewald.pipeline.setup import Setup, choose, use
from parki.ewald.pipeline.slack import Slack
from parki.ewald.pipeline.stages import Stages
from parki.ewald.task import Frame, Points, Task
from parki.runtime import Kernel, preparing

# Sources up to which near fields in a graph, without lists of pairs, take less time than near
# fields with lists, launched one by one.
SHORT = 2**17


class OneDevice(Pipeline):
    """The stages on one device: see `Pipeline`."""

    alone = ahead = True

    def __init__(
        self, setup: Setup | None = None, memory: Memory | None = None, problem: str = ""
    ) -> None:
        self.setup, self.memory = setup, memory
        self.stages: Stages | None = None  # once there are points
        self.placed_by = PlacedBy.FIRST
        self.graph: Replay | None = None  # which places points, or says why it cannot
        # The set-up and the arrays of the points before the last ones that the graph placed.
        self._before: tuple[Setup | None, dict[str, Any]] = None, {}
        self._sizes: dict[str, Any] = {}  # shapes of the arrays of the plan that has left this one
        self.applications = Applications(problem)
        self.crowding = Crowding()
        self._slack: Slack | None = None  # where the number of points has changed
        self._box: Lattice | None = None  # the present one, where points have followed

    def empty(self) -> OneDevice:
        """Return a pipeline without points."""
        return OneDevice()

    @property
    def holds(self) -> float:
        """Bytes that the stages hold, as predicted; without stages, what the set-up holds."""
        parts = self.memory.parts if self.memory else {"multiplier": 0.0}
        return sum(parts.values()) if self.stages else parts["multiplier"]

    # ------------------------------------------------------------------ placing points
    def placed(
        self, task: Task, points: Points, once: bool = False, given: Setup | None = None
    ) -> OneDevice:
        """Return a pipeline for other points: see `Pipeline.placed`."""
        before, fits = self.setup, given is None or given is self.setup
        if fits and self._keeps(points) and self.follow(task, points.lattice, _named(points)):
            try:
                return self if given is not None else self.suiting(task, points)
            except BaseException:
                self.undo()
                raise
        try:
            if (setup := self._within(task, points.lattice)) is not None:
                self._move(setup)
            return self._renewed(task, points, once, given)
        except BaseException:
            if before is not None:
                self._move(before)
            raise

    def follow(self, task: Task, lattice: Lattice, arrays: dict[str, Any]) -> bool:
        """Place points by the graph, if it takes them; wait for nothing.

        The points are in the box, or it must be asked whether they were: see `looked_at`.
        """
        graph, slack, before = self.graph, self._slack, self.setup
        if graph is None or before is None:
            return False
        if slack is not None and slack.takes(arrays):
            arrays = slack.points(graph.space.array_module, arrays)
        setup = self._within(task, lattice)
        if not graph.takes(arrays) or setup is None or not setup.shares(before):
            return False
        self._move(setup)
        self._box = lattice
        copies = self._before[1]
        self._before = before, copies
        for name, array in graph.arrays.items():
            graph.space.adapter.copy(copies[name], array)
        graph(arrays, {})
        self.crowding.report.send()
        self.applications.drop_lists()
        if self.lists is not None:
            self.lists.drop()
        return True

    def suiting(self, task: Task, points: Points) -> OneDevice:
        """Return the pipeline for points that followed, by another set-up if this one is wrong."""
        suits = self._suited(cast(Setup, self.setup), points)
        return self if suits else self._renewed(task, points, False)

    def undo(self) -> None:
        """Place the points again that were there before the last ones, in their box."""
        setup, arrays = self._before
        self._move(cast(Setup, setup))
        self._box = None
        cast(Replay, self.graph)(arrays, {})

    def _move(self, setup: Setup) -> None:
        """Take a set-up whose box has other tilts, if all that is placed can serve it."""
        old, stages = cast(Setup, self.setup), self.stages
        if setup is not old and setup.shares(old):
            given = stages and stages.fgc.given(setup.mesh, setup.split)
            cast(LatticeNumbers, setup.frame.numbers).move(setup.frame)
            if stages is not None:
                stages.fgc.fill(setup.mesh, given)
            self.setup = setup

    def looked_at(self) -> tuple[bool, bool]:
        """Return whether points that followed were in the box, and crowd as those that suited."""
        *crowds, misfits = self.crowding.report.read()
        if misfits:
            self.crowding.report.numbers.fill(0)
        return not misfits, self.crowding.matches(crowds)

    def copies(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return copies of arrays as they were when they followed."""
        placed, same = cast(Replay, self.graph).arrays, arrays["trg"] is arrays["src"]
        names = [name for name in arrays if not (same and name == "src")]
        found = {name: placed[name][:, : arrays[name].shape[1]].copy() for name in names}
        return {name: found["trg" if same and name == "src" else name] for name in arrays}

    def _keeps(self, points: Points) -> bool:
        """Return whether points have the systems and labels that are placed."""
        old = self.stages
        return old is not None and points.systems is old.systems and points.labels is old.labels

    def _suited(self, setup: Setup, points: Points) -> bool:
        """Return whether the set-up suits points that were placed."""
        crowds = self.crowding.received()
        if self.crowding.matches(crowds):
            return True
        wrapped = _wrapped(setup.task, setup.frame, _named(points))
        apart = setup.task.options.images_below(points.survey.of_sources)
        density = pair_density(*wrapped, setup.frame.lattice.edges, points.systems, apart)
        suits = setup.suits(density, points)
        if suits:
            self.crowding.suited = crowds
        return suits

    def _renewed(
        self, task: Task, points: Points, once: bool, given: Setup | None = None
    ) -> OneDevice:
        """Return another pipeline for points, which keeps what suits them."""
        arrays, setup = _named(points), given or self._within(task, points.lattice)
        before = None if self.setup is None else self.setup.frame
        frame = setup.frame if setup else Frame.of(task, points.lattice, before)
        wrapped = _wrapped(task, frame, arrays)
        problem = why_not(task.space, task.executor, points.targets, points.sources)
        kin = setup is not None and setup.kin(self.setup)
        flows = kin and setup is not self.setup  # nothing would be launched again
        later = once and task.space.on_device  # a CPU runs one after the other
        if setup is not None and not later and (problem or flows or self.stages is None):
            moved = self._moved(setup, points, arrays, wrapped, problem)
            if moved is not None:
                return moved
        if setup is None or given is None:
            apart = task.options.images_below(points.survey.of_sources)
            density = pair_density(*wrapped, frame.lattice.edges, points.systems, apart)
            if setup is None or not setup.suits(density, points):
                clouds = wrapped[wrapped[0] is wrapped[1] :]
                chosen = choose(task, points, frame, density, clouds, once=once)
                setup = Setup.of(task, frame, *chosen)
        slack = None
        (targets, sources, many), old = points.counts, self.stages
        if not (problem or once or points.systems or points.labels):
            slack = self._made(task, arrays)
        if slack is not None:
            targets, sources, arrays = slack.targets, slack.sources, slack.points(task.xp, arrays)
            wrapped = _wrapped(task, frame, arrays)
        if not setup.kin(self.setup) or (old is not None and many != old.count):
            old = None
        memory, kernels = self.memory, list[Kernel]()
        if old is None or memory is None:
            asked = replace(setup.problem, targets=targets, sources=sources, systems=many)
            labels = points.labels.sizes if points.labels else None
            needed = use(task, points.survey.same, labels, once)
            needs = asked, setup.parameters, needed
            memory = check_memory(*needs, frame.length, plan_cache.clear_cache)
            kernels = setup.kernels(points.targets)
        new = OneDevice(setup, memory, problem)
        new._slack = slack
        sizes = {name: array.shape for name, array in arrays.items()}
        repeats = old is not None and self._keeps(points) and old.sizes == sizes and not flows
        if repeats or flows:
            new.placed_by = PlacedBy.AGAIN
        if repeats and self.placed_by in (PlacedBy.AGAIN, PlacedBy.GRAPH) and not problem:
            misfits = new.crowding.begin(task.space).numbers[3:]
            users = np.dtype(np.float64) if task.mixed else task.dtype
            mend = Mending(task.space, task.options, arrays, users, misfits)

            def place(given: dict[str, Any]) -> None:
                mend(given)
                again = Stages(setup, memory, given, _wrapped(task, frame, given), points, old)
                new._take(again)

            new.graph = Replay(task.space, place, arrays)
            if not new.graph.problem:
                new.placed_by = PlacedBy.GRAPH
                new._before = setup, {n: array.copy() for n, array in new.graph.arrays.items()}
                new.graph(arrays, {})
                new.crowding.suited = new.crowding.read()
                return new
            new.placed_by = PlacedBy.REFUSED
        with preparing(kernels):
            new._take(Stages(setup, memory, arrays, wrapped, points, old, far_later=later), later)
        if not later and (problem or flows or given is None):
            new.crowding.suited = new.crowding.read()
        return new

    def left(self) -> OneDevice:
        """Return a pipeline for new plans like this one: its set-up, and which points suited."""
        new = OneDevice(self.setup, self.memory)
        if self.stages is not None and self.stages.labels is None:
            new.crowding.suited, new._sizes = self.crowding.suited, self.stages.sizes
        return new

    def _within(self, task: Task, lattice: Lattice) -> Setup | None:
        """Return the set-up for a box; None if its grid is no longer one for that."""
        setup = self.setup
        if setup is None or lattice is self._box:
            return setup
        frame, old = Frame.of(task, lattice, setup.frame), setup.frame
        if (frame.lattice, frame.unit) == (old.lattice, old.unit):
            return setup
        return setup.within(frame) if old.takes(frame) else None

    def _made(self, task: Task, arrays: dict[str, Any]) -> Slack | None:
        """Return the slack for points: as there is, or more where their number has changed."""
        if self._slack is not None and self._slack.takes(arrays):
            return self._slack
        sizes = {name: array.shape for name, array in arrays.items()}
        changed = self.stages is not None and sizes != self.stages.sizes
        return Slack.of(arrays, norms=task.transposed_pair == "") if changed else None

    def _moved(
        self,
        setup: Setup | None,
        points: Points,
        arrays: dict[str, Any],
        wrapped: tuple[Any, Any],
        problem: str,
    ) -> OneDevice | None:
        """Return a pipeline by the set-up of now, if points crowd as those that it suited."""
        memory, old = self.memory, self.stages
        if self.crowding.suited is None or not setup or not memory or not setup.kin(self.setup):
            return None
        if old is None:
            sizes = {name: array.shape for name, array in arrays.items()}
            if points.labels or sizes != self._sizes or not is_free(memory, setup.task.space):
                return None
        else:
            before = old.sizes["trg"][1]
            # Then more pairs share cells.
            if abs(points.targets - before) > CROWDED * before or not self._keeps(points):
                return None
        new = OneDevice(setup, memory, problem)
        new.placed_by = PlacedBy.AGAIN if old else PlacedBy.FIRST
        new.crowding = Crowding(self.crowding.suited)
        new._take(Stages(setup, memory, arrays, wrapped, points, old))
        return new if new.crowding.matches(new.crowding.read()) else None

    def _take(self, stages: Stages, later: bool = False) -> None:
        """Take stages; count the pairs of their points, unless the far field is placed later."""
        self.stages = stages
        if not later:
            self.crowding.count(stages)

    # ------------------------------------------------------------------ apply
    def apply(self, dens: Any, results: dict[str, Any], watch: Watch) -> None:
        """Run the stages, or replay them where they launch the same again and again."""
        sources, lists = cast(Stages, self.stages).p2p.sources, self.lists
        slack = self._slack
        given, found = dens, results
        if slack is not None:
            given, found = slack.densities(sources.xp, dens), slack.results(sources.xp, results)
        if len(dens) > 1 and lists is not None and self.placed_by is not PlacedBy.GRAPH:
            lists.begun = True  # this is a repeated sum
        if sources.space.adapter.capturing():  # it is part of a composite's graph
            self._run(given, found, watch)
        else:
            self.applications.apply(sources.space, self._run, lists, given, found, watch)
        if slack is not None:
            for name, array in results.items():
                array[...] = found[name][..., : array.shape[-1]]

    def recorded(self, many: int) -> Replay | None:
        """Return the graph of an application to ``many`` densities, if there is one."""
        return self.applications.recorded(many, self.lists) if self.stages else None

    def _run(self, dens: Any, results: dict[str, Any], watch: Watch) -> None:
        cast(Stages, self.stages).run(dens, results, watch)

    def expect(self) -> None:
        """Take lists of pairs from the first near field on, because many follow."""
        if self.lists is not None and not self.short:
            self.lists.begun = True

    def near(self, dens: Any) -> Any:
        """Return the near field alone of a density (rows, sources), of which more follow."""
        stages, slack, count = cast(Stages, self.stages), self._slack, dens.shape[1]
        if slack is not None:
            dens = slack.densities(stages.p2p.sources.xp, dens)
        self.expect()
        return stages.near(dens, lists=not self.short)[:, :count]

    @property
    def short(self) -> bool:
        """Whether near fields take less time than their launches, and recorded ones pay."""
        sources = cast(Stages, self.stages).p2p.sources
        return not self.applications.problem and sources.order.size <= SHORT

    def shaken(self, white: Callable[[tuple[int, ...]], Any], count: int) -> Any:
        """Return the far field's noise at the first targets, of normal numbers of a shape."""
        stages, slack = cast(Stages, self.stages), self._slack
        xp, dtype = stages.p2p.sources.xp, stages.p2p.dtype
        given = {"white": white(stages.white).astype(dtype, copy=False)}
        found = xp.empty((stages.rows, slack.targets if slack else count), dtype=dtype)
        self.repeated("noise", stages.shaken, given, {"found": found})
        return found[:, :count]

    def repeated(
        self,
        name: str,
        work: Callable[[dict[str, Any]], None],
        given: dict[str, Any],
        found: dict[str, Any],
    ) -> None:
        """Do what has a name, on arrays by name, or launch what was recorded of it."""
        space = cast(Stages, self.stages).p2p.sources.space
        self.applications.repeat(space, (name, False), work, given, found)

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
        slack, lines = self._slack, ""
        if slack is not None:
            lines = f"\n  slack for {slack.targets} targets, {slack.sources} sources"
        if self.graph is not None:
            lines += f"\n  updates: {how(self.graph.problem)}"
        return lines + self.applications.describe()


def _named(points: Points) -> dict[str, Any]:
    """Return the arrays given, without sources that are the targets."""
    left_out = {"src"} if points.survey.same else set()
    return {name: array for name, array in points.arrays.items() if name not in left_out}


def _wrapped(task: Task, frame: Frame, arrays: dict[str, Any]) -> tuple[Any, Any]:
    """Return targets and sources as the grid takes them; one array, if they are the same."""
    trg = frame.wrap(task, arrays["trg"])
    return trg, frame.wrap(task, arrays["src"]) if "src" in arrays else trg
