"""`PlacedPlan`: the points of a plan, what was chosen for them, and how they move.

A plan has terms, which are sums, of a placement: one unchanged sum, or several whose densities
and results are mapped, near a wall and in boxes of different sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Generic, cast

import numpy as np
from numpy.typing import NDArray

from parki.ewald.choice.memory import Memory
from parki.ewald.choice.method import MethodParameters
from parki.ewald.describe import facts, headline
from parki.ewald.geometry.boxes import Group
from parki.ewald.geometry.own_boxes import OwnBox
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.lattice import Lattice
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.invalid_values import InvalidValues
from parki.ewald.pipeline.protocol import Pipeline
from parki.ewald.pipeline.setup import Setup
from parki.ewald.placement.combination import LinearCombination
from parki.ewald.placement.placement import Placement
from parki.ewald.placement.term import PlacedTerm
from parki.ewald.points.arguments import refuse_between_walls
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.points.request import SumRequest
from parki.ewald.ranks import Ranks
from parki.ewald.task import Task
from parki.html import table
from parki.interchange import finish_reading
from parki.runtime.forks import MadeAnew
from parki.settings import read_once
from parki.typing import (
    AnyArray,
    AnyKernel,
    Array,
    Box,
    OfPoints,
    Wanted,
)


class PlacedPlan(MadeAnew, Generic[Wanted]):
    """A plan's points, what was chosen for them, and how they move: see `AnyPlan`.

    Parameters
    ----------
    ranks : Ranks
    kernel, trg, src, norms, options, want, systems, exclude, boxes
        As for `parki.Plan`.
    """

    _made_of = "kernel, points and options"

    def __init__(
        self,
        ranks: Ranks,
        kernel: Any,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray,
        options: EwaldOptions,
        *,
        want: Any = "u",
        systems: Systems | OfPoints | None = None,
        exclude: Labels | OfPoints | None = None,
        boxes: tuple[OwnBox, ...] | None = None,
    ) -> None:
        with ranks.collective("points"), read_once():
            if boxes is not None:
                options = boxes[0].of(options)
            refuse_between_walls(
                options,
                {
                    "systems": systems is not None,
                    "boxes": boxes is not None,
                    "comm": not ranks.serial,
                },
                "a plan has one system, in one process: make a plan of parki.Plan for each",
            )
            request = SumRequest.of(kernel, want, options)
            placement = Placement(ranks, options, boxes)
            cloud = placement.checked(
                request, trg, src, norms, options, systems=systems, exclude=exclude
            )
        self._join(placement, request, placement.add(request, cloud))
        finish_reading(trg, src, norms)

    def _join(self, placement: Placement, request: SumRequest, terms: slice) -> None:
        """Be a plan of some terms of a placement."""
        self._placement, self._request = placement, request
        self._combination = LinearCombination(placement, request, terms)
        # Whether each density has to be looked at.
        self._neutral = placement.options.neutral and not request.density
        first, kernel = self.terms[0], request.kernel
        self.kernel: str = kernel if isinstance(kernel, str) else request.name
        self.want: Any = request.want
        self.dtype, self.space = first.sum.dtype, first.task.space
        self.seconds = placement.seconds  # that "plan" took, and the last "update" of points
        self._invalid: InvalidValues | None = None  # in densities, which a device counts
        self._points: tuple[Any, Any] = (None, None)  # by the version of the placement

    @property
    def terms(self) -> tuple[PlacedTerm, ...]:
        """The sums of the plan at its present points."""
        return self._combination.terms

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for other threads and streams that use the points, and look at late ones."""
        with self._placement.access():
            self._placement.commit_pending()
            yield

    def alone(self) -> AbstractContextManager[None]:
        """Let no other thread or stream use the points; late ones may still be so."""
        return self._placement.access()

    def beside(self, kernel: AnyKernel, want: Any = "u") -> Any:
        """Return a plan of another sum of the same points; all of these plans move together."""
        plan = self._with()
        request = SumRequest.of(kernel, want, self.options)
        PlacedPlan._join(plan, self._placement, request, self._placement.add(request))
        return plan

    # ------------------------------------------------------------------ what was chosen
    @property
    def task(self) -> Task:
        """What is asked of the first sum, in its present box."""
        return self.terms[0].sum.task

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        return self._placement.options

    @property
    def points(self) -> SurveyedCloud:
        """The points, and their box: another object for other points."""
        with self.exclusive():
            of_first, cloud = self.terms[0].sum.cloud, self._placement.cloud
            if self._combination.plain:
                return of_first
            version, points = self._points
            if version is not self._placement.version:
                points = replace(
                    of_first, arrays=cloud.arrays, systems=cloud.systems, labels=cloud.labels
                )
                self._points = self._placement.version, points
            return cast(SurveyedCloud, points)

    @property
    def targets(self) -> Any:
        """The present targets, shape (3, Nt), which nobody else changes."""
        with self.exclusive():
            return self._placement.cloud.trg

    @property
    def pipeline(self) -> Pipeline:
        """The stages of the first sum."""
        with self.exclusive():
            return self.terms[0].sum.pipeline

    def forgo_lists(self) -> None:
        """Take no lists of pairs where near fields are short, because points soon move."""
        with self.exclusive():
            for term in self.terms:
                term.sum.pipeline.forgo_lists()

    @property
    def recording(self) -> tuple[object, str, bool]:
        """What `RecordedSteps.begin` takes, of steps with products of this plan where it is now.

        Sums near a wall, and others of several terms, have a graph of their own.
        """
        with self.exclusive():
            of_terms = [term.sum.pipeline.recording for term in self.terms]
        if self._combination.plain:
            return of_terms[0]
        return self, next((problem for _, problem, _ in of_terms if problem), ""), True

    @property
    def n_targets(self) -> int:
        """Targets of this rank."""
        return self._combination.counts[0]

    @property
    def n_sources(self) -> int:
        """Sources of this rank."""
        return self._combination.counts[1]

    @property
    def box(self) -> NDArray[np.float64]:
        """Edge lengths, shape (3,); of a tilted box its lattice vectors, shape (3, 3).

        With boxes for systems, these, with an axis more. Along free axes without lengths they are
        of the points of all systems that are summed at once.
        """
        if self._placement.boxes is None:
            return self._box_of(self.options, self.points.lattice)
        boxes: Any = [system.box for system in self._placement.boxes]
        for term in self.terms:
            group, options = cast(Group, term.group), term.task.options
            for number in group.numbers:
                box = boxes[number]
                if box is None or None in box:
                    within = options if group.boxes is None else options.within(box)
                    boxes[number] = self._box_of(within, term.sum.cloud.lattice)
        if any(np.ndim(edge) for box in boxes for edge in box):
            boxes = [np.diag(box) if np.ndim(box[0]) == 0 else box for box in boxes]
        return np.array(boxes, dtype=float)

    @staticmethod
    def _box_of(options: EwaldOptions, lattice: Lattice) -> NDArray[np.float64]:
        """Return the lengths, or the vectors, of a box of these options."""
        lengths = lattice.to_user(lattice.sides)
        if options.gap is not None:
            lengths[2] = options.gap
        elif options.walled:  # the box of the sums reaches below the wall
            lengths[2] += lattice.to_user(lattice.origin)[2]
        return np.array(options.with_lengths(lengths), dtype=float)

    @property
    def origin(self) -> NDArray[np.float64]:
        """Corner of the box, shape (3,)."""
        return self.points.lattice.to_user(self.points.lattice.origin)

    @property
    def setup(self) -> Setup | None:
        """What box and parameters decide; None if there is nothing to sum."""
        return self.pipeline.setup

    @property
    def parameters(self) -> MethodParameters | None:
        """What was chosen for the first sum; None if there is nothing to sum."""
        return None if self.setup is None else self.setup.parameters

    @property
    def memory(self) -> Memory | None:
        """Bytes that the plan needs, by part, as predicted for the points it was made of.

        The parts of several sums are named by the sum and the part.
        """
        if len(self.terms) == 1:
            return self.terms[0].memory
        parts: dict[str, float] = {}
        held = peak = 0.0
        for term in self._combination.all_terms:
            if (memory := term.memory) is not None:
                peak = max(peak, sum(parts.values()) + memory.peak)  # made one after the other
                for name, size in memory.parts.items():
                    label = f"{term.kernel} {name}".strip()
                    parts[label] = parts.get(label, 0.0) + size
                held += memory.held
        return Memory(parts, held, peak)

    # ------------------------------------------------------------------ other points
    def update_points(
        self,
        trg: Array,
        src: Array,
        norms: Array | None = None,
        *,
        systems: OfPoints | None = None,
        exclude: OfPoints | None = None,
        box: Box | None = None,
    ) -> None:
        """Give the plan other points, such as the next time step's; there may be more or fewer.

        What hangs on the box and the parameters alone is kept: grid, multiplier, kernels. Where
        the points are no longer spread as they were when parameters were chosen, so that the near
        field would take 1.5 times the work, or errors grow, all is chosen and made anew. On any
        error the plan stays as it was.

        Parameters
        ----------
        trg, src, norms
            As for the plan, with its dtype and in its memory. Where ``box`` gives no length, the
            points must stay in `origin` to `origin` + `box`, the extent of the first ones.
        systems, exclude
            As for the plan, where it has them. Default: as before.
        box : array, shape (3, 3), or 3 lengths
            The present box, such as a sheared suspension's. The first time that tilts
            change, a grid is made for the largest ones; it serves all later ones, as long as the
            extents ``lx``, ``ly`` and ``lz`` of `parki.lattice` stay. For other lengths all is
            chosen and made anew. Default: as before.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of a new plan. On a device, which places points before the host has looked at them,
            impossible coordinates may be refused by the plan's next call instead; the plan then has
            its old points.
        """
        self._placement.update(
            trg,
            src,
            norms,
            systems=systems,
            exclude=exclude,
            box=box,
            attached=self._placement.state.attached,
        )

    def place(
        self, trg: AnyArray, src: AnyArray, norms: AnyArray, attached: Any, box: Any = None
    ) -> None:
        """Do what `update_points` does, and replace what is `attached` along with the points."""
        self._placement.update(trg, src, norms, box=box, attached=attached)

    @property
    def attached(self) -> Any:
        """What a room on top of the sums has at the present points."""
        return self._placement.attached

    def attach(self, attached: Any) -> None:
        """Let something else move with the points, of which `place` gets another one."""
        self._placement.attach(attached)

    # ------------------------------------------------------------------ in words
    def describe(self) -> str:
        """Return the sum, the points and the chosen parameters as text of a few lines."""
        with self.exclusive():
            parts: list[str] = self._combination.describe()
            if self._combination.plain:
                return parts[0]
            return "\n".join([f"{self._request.name}: {self._of_parts}", *parts])

    @property
    def _of_parts(self) -> str:
        """Which sums there are."""
        composite, boxes, count = self._request.composite, self._placement.boxes, len(self.terms)
        if boxes is not None:
            return f"{len(boxes)} systems in boxes of their own, {count} plans"
        return f"{len(cast(Any, composite).addends)} addends, {count} sums"

    def __repr__(self) -> str:
        if self._combination.plain:
            return f"<parki.Plan: {headline(self.task, self.points)}>"
        boxes = self._placement.boxes
        what = self.options.periods if boxes is None else f"{len(boxes)} boxes"
        return f"<parki.Plan: {self._request.name}, {what}>"

    def _repr_html_(self) -> str:
        return table(
            "parki.Plan", facts(self.task, self.points, self.pipeline, self.seconds["plan"])
        )
