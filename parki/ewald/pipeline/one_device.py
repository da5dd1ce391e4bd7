"""`OneDevice`: the pipeline of a plan on one device, or on the CPUs of one process.

`placed` has what it places, `arrival` how, `stages` what runs, and `replay` what is made as graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parki.ewald.pipeline.arrival import Arrival
from parki.ewald.pipeline.placed import PlacedOnDevice
from parki.ewald.pipeline.protocol import Place, Watch
from parki.ewald.pipeline.replay import Replay, launch_mode
from parki.ewald.pipeline.setup import Setup
from parki.ewald.pipeline.stages import Stages
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.ranks import Ranks
from parki.ewald.task import Task
from parki.typing import AnyArray

# Sources up to which near fields in a graph, without lists of pairs, take less time than near
# fields with lists, launched one by one.
SHORT = 2**17


SERIAL = Ranks(lambda ranks: OneDevice())  # one process, which has all points


class OneDevice(PlacedOnDevice):
    """The stages on one device: see `Pipeline`."""

    asynchronous, ranks = True, SERIAL

    @property
    def holds(self) -> float:
        """Bytes that the stages hold, or the set-up: see `Pipeline.holds`."""
        parts = self.memory.parts if self.memory else {"multiplier": 0.0}
        copied = self.copied.distinct.values() if self.copied else ()
        held = sum(parts.values()) if self.stages else parts["multiplier"]
        return float(held + sum([array.nbytes for array in copied]))

    # ------------------------------------------------------------------ placing points
    def placed(
        self, task: Task, points: SurveyedCloud, one_shot: bool = False, setup: Setup | None = None
    ) -> PlacedOnDevice:
        """Return a pipeline for other points: see `Pipeline.placed`."""
        if not (all(points.totals) and task.want):
            return OneDevice()
        within = self._within(task, points.lattice)
        arrival = Arrival(self, within, task, points, one_shot, setup)
        self._move(arrival.setup)
        return arrival.placed()

    def replan(self, task: Task, points: SurveyedCloud) -> PlacedOnDevice:
        """Return the pipeline for points that followed, by another set-up if this one is wrong."""
        arrival = Arrival(self, self.setup, task, points)
        return self if arrival.accepts(self) else arrival.placed(graph=False)

    def recordable(
        self, task: Task, arrays: dict[str, AnyArray], points: Callable[[], SurveyedCloud]
    ) -> tuple[PlacedOnDevice, Place] | None:
        """Return another pipeline, and what places points there: see `Pipeline.recordable`."""
        if self.stages is None or self.stages.sizes != {n: a.shape for n, a in arrays.items()}:
            return None
        placed = points()
        arrival = Arrival(self, self._within(task, placed.lattice), task, placed)
        if not (arrival.has_grids and arrival.as_many and arrival.repeats):
            return None
        return arrival.recordable()

    # ------------------------------------------------------------------ apply
    def apply(self, dens: AnyArray, results: dict[str, AnyArray], watch: Watch) -> None:
        """Run the stages, or replay them where they launch the same again and again."""
        stages, capacity = cast(Stages, self.stages), self.capacity
        space, lists = stages.setup.task.space, stages.p2p.lists
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
                array[...] = outputs[name][..., : array.shape[-1]]

    def apply_strained(
        self,
        dens: AnyArray,
        results: dict[str, AnyArray],
        motion: NDArray[np.float64] | None = None,
        weights: AnyArray = None,
    ) -> None:
        """Overwrite "strain", or changes along a motion: see `Pipeline.apply_strained`."""
        stages, inputs = cast(Stages, self.stages), {"dens": dens}
        stages.prepare_strain(twice=motion is not None and "strain" in results)
        if motion is not None:
            inputs["motion"] = stages.setup.task.xp.asarray(motion)
        elif weights is not None:
            inputs["weights"] = weights

        def work(arrays: dict[str, Any]) -> None:
            stages, found = cast(Stages, self.stages), {name: arrays[name] for name in results}
            if motion is not None:
                stages.run_changed(arrays["dens"], found, arrays["motion"])
            elif weights is not None:
                stages.run_strains(arrays["dens"], arrays["weights"], found["strain"])
            else:
                stages.run(arrays["dens"], found)

        self.repeated(f"{', '.join([*inputs, *results])} of {len(dens)}", work, inputs, results)

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

    @property
    def recording(self) -> tuple[object, str, bool]:
        """What steps with products take, which forgo lists: see `Pipeline.recording`."""
        if self.stages is None:
            return self, "there are no points", False
        self.forgo_lists()
        long = "" if self.short else "products take longer than their launches"
        return self, self.applications.problem or long, False

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
