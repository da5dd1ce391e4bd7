"""`Placement`: points of plans with all sums that are placed at them, which move together.

It has the one lock of these sums. Other points are placed first, and one assignment then replaces
all that moves with them: an error, or an interrupt at any line, leaves all as it was, or as the
update wants it. A device may place points before the host has looked at them; the next
call reads one report of each member, and takes them or brings the points before back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple, cast

from parki.errors import ParkiValueError
from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.geometry.boxes import WHOLE, Columns, Group
from parki.ewald.geometry.systems import Labels, Systems, check_systems, rows_of_boxes
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.placed_sum import PlacedSum, as_before
from parki.ewald.pipeline.protocol import Access
from parki.ewald.placement.member import At, Member, Now, Places, Present
from parki.ewald.points import check_density, check_points, marks_of
from parki.ewald.points.request import SumRequest
from parki.ewald.ranks import Ranks
from parki.ewald.sums.composite import joined, together
from parki.ewald.task import Request
from parki.interchange import finish_reading


class PlanPoints(NamedTuple):
    """The points of a placement. If maps or boxes take them, they were checked; else a sum will.

    Attributes
    ----------
    trg, src, norms, systems, exclude
        As for `parki.Plan`.
    options : EwaldOptions
        With the present box.
    """

    trg: Any
    src: Any
    norms: Any
    systems: Any
    exclude: Any
    options: EwaldOptions

    def left(self) -> PlanPoints:
        """Return the options alone, where a sum has the points."""
        return PlanPoints(None, None, None, None, None, self.options)


class Placement:
    """Points, and the sums that are placed at them.

    Parameters
    ----------
    ranks : Ranks
    points : PlanPoints
    boxes : tuple, optional
        The box of each system.

    Attributes
    ----------
    members : list of Member
    access : Access
        Once there are members.
    seconds : dict
        That "plan" took, and the last "update" of points.
    """

    access: Access

    def __init__(
        self, ranks: Ranks, points: PlanPoints, boxes: tuple[Any, ...] | None = None
    ) -> None:
        self.ranks, self.boxes = ranks, boxes
        self.collective = ranks.collective
        self.members: list[Member] = []
        self.seconds: dict[str, float] = {}
        self._present = Present(Now(points, object()))
        self._asked: SumRequest  # first
        self._groups: list[Group] = []

    @classmethod
    def of(
        cls,
        ranks: Ranks,
        arguments: tuple[Any, ...],
        want: Any,
        systems: Any = None,
        exclude: Any = None,
        boxes: Any = None,
    ) -> tuple[Placement, SumRequest]:
        """Return the placement of a plan, without members, and what it is asked for.

        ``arguments`` has the first five arguments of `parki.Plan`; the others are named as there.
        """
        kernel, trg, src, norms, options = arguments
        rows = None if boxes is None else rows_of_boxes(boxes)
        if rows is not None:
            options = replace(options, box=rows[0])
        points = PlanPoints(trg, src, norms, systems, exclude, options)
        return cls(ranks, points, rows), SumRequest.of(kernel, want, options)

    @property
    def points(self) -> PlanPoints:
        """The present points."""
        return cast(PlanPoints, self._present.state.points)

    @property
    def version(self) -> object:
        """Another one for other points."""
        return self._present.state.version

    @property
    def attached(self) -> Any:
        """What a room on top of the sums has at the present points."""
        return self._present.state.attached

    def attach(self, attached: Any) -> None:
        """Let something else move with the points, of which `update` gets another one."""
        self._present.state = self._present.state._replace(attached=attached)

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        return self.points.options

    @property
    def _mapped(self) -> bool:
        """Whether maps or boxes take the points, which were checked then; else sums do."""
        return self.boxes is not None or self._asked.composite is not None

    # ------------------------------------------------------------------ members
    def add(self, asked: SumRequest, dens: Any = None) -> list[Member]:
        """Place the sums of what is asked at the points, and return them.

        A density of one sum, if it is given, is checked along with the points, and summed next.

        Raises
        ------
        ParkiValueError, ParkiTypeError, ParkiMemoryError
            As of `parki.Plan`; nothing is added then.
        """
        start = time.perf_counter()
        with ExitStack() as stack:
            if self.members:
                stack.enter_context(self.access())
                self.settle()
            else:
                self._asked = asked
            with self.collective("points"):
                points = self._checked(asked, self.points)
            old, members, new = self._present.state, list[Member](), list[At]()
            for member, options in self._of(asked, points):
                members.append(member)
                with self.collective("Plan"):
                    new.append(self._prepared(members, new, options, asked, points))
            with new[0].sum.access():
                for at in new:
                    with self.collective("place"):
                        if dens is not None:
                            at.sum.density(dens)
                        at.sum.place(once=dens is not None)
            for at in new if dens is None else ():
                at.sum.leave()
            finish_reading(*old.points[:3])
            if not self.members:
                old = old._replace(points=points if self._mapped else points.left())
            # An interrupt between these lines leaves places without members, which are dropped.
            self._present.state = old._replace(members=(*self._placed(old), *new))
            self.members = [*self.members, *members]
        self.seconds.setdefault("plan", time.perf_counter() - start)
        return members

    def _placed(self, state: Now) -> tuple[At, ...]:
        """Return where all members are."""
        return state.members[: len(self.members)]

    def _checked(self, asked: SumRequest, points: PlanPoints) -> PlanPoints:
        """Return points that maps and boxes can take; as given, if none do."""
        options = points.options
        if self.members and points.trg is None:  # the first sum has them
            own = self.members[0].sum.given
            arrays = own.arrays
            norms = arrays.get("norms", marks_of(arrays))
            points = PlanPoints(
                arrays["trg"], arrays["src"], norms, own.systems, own.labels, options
            )
        if self.boxes is not None:
            return self._in_boxes(asked, points)
        if asked.composite is None:
            return points
        taken = asked.taken(*points[:3], options)
        arrays, space = taken.arrays, taken.space
        # Maps take them at each call, whatever has become of the arrays by then.
        trg = arrays["trg"].copy()
        src = trg if arrays["src"] is arrays["trg"] else arrays["src"].copy()
        check_points("trg", trg, options)
        if src is not trg:
            check_points("src", src, options)
        norms = taken.normals
        if "norms" in arrays:
            norms = check_density("norms", norms, src.shape).copy()
        asked.check_maps(trg, {"points": src, "norms": norms})
        offsets = points.systems
        if isinstance(offsets, Systems):  # of the points before
            offsets = offsets.targets, offsets.sources
        systems = check_systems(offsets, arrays, space, options)
        if systems == self.points.systems:  # whose order of sources a device may have recorded
            systems = self.points.systems
        labels = asked.labels(points.exclude, arrays, options, systems)
        return PlanPoints(trg, src, norms, systems, labels, options)

    def _in_boxes(self, asked: SumRequest, points: PlanPoints) -> PlanPoints:
        """Return the points of systems in boxes; one sum of a group looks where they are."""
        how = points[:3], points.options, cast(Any, self.boxes), points.systems, points.exclude
        of = InBoxes.checked(asked, *how)
        self._groups = self._groups or of.groups
        for group in self._groups if asked.composite else ():  # of which maps look nowhere
            trg, src, _ = of.columns(group).points(of.trg, of.src, None)
            check_points("trg", trg, group.options)
            check_points("src", src, group.options)
        if asked.composite:
            asked.check_maps(of.trg, {"points": of.src, "norms": of.norms})
        return PlanPoints(of.trg, of.src, of.norms, of.systems, of.labels, points.options)

    def _of(self, asked: SumRequest, points: PlanPoints) -> Iterator[tuple[Member, EwaldOptions]]:
        """Yield the members for what is asked, without points, and their options."""
        groups: list[Group | None] = [*self._groups] or [None]
        numbers = count(len(self.members))
        for group in groups:
            options = points.options if group is None else group.options
            if asked.composite is None:
                place = self._present, next(numbers)
                yield Member(*place, asked.name, asked.want, None, group), options
                continue
            for one in together(joined(asked.composite.addends)):
                place = self._present, next(numbers)
                yield Member(*place, one.kernel, one.want, one, group), options.of_sums()

    def _prepared(
        self,
        members: list[Member],
        new: list[At],
        options: EwaldOptions,
        asked: SumRequest,
        points: PlanPoints,
    ) -> At:
        """Return the last member's sum, which is not placed, its arguments checked."""
        member = members[-1]
        for name, size, power in asked.composite.scales if asked.composite else ():
            if name == member.kernel:
                member.scale = size, power
        tolerance = self._tolerance(members, new, options)
        if tolerance != options.tolerance:
            options = replace(options, tolerance=tolerance)
        places = self._places(member, points)
        access = self.access if self.members or new else None
        placed = self._sum(member, places, points, options, access)
        self.access = placed.access
        return At(placed, places)

    def _tolerance(self, members: list[Member], new: list[At], options: EwaldOptions) -> float:
        """Return the tolerance that the scale of the last member's results allows.

        The tolerance of its options, if it has no scale, or is the first member of its boxes.
        """
        member = members[-1]
        first = next(n for n, each in enumerate(members) if each.group is member.group)
        if member.scale is None or members[first] is member:
            return options.tolerance
        size, power = member.scale
        return self.options.larger_tolerance((new[first].sum.lattice.length / size) ** power)

    def _sum(
        self,
        member: Member,
        places: Places | None,
        points: PlanPoints,
        options: EwaldOptions,
        access: Access | None,
    ) -> PlacedSum:
        """Return the sum of a member, which is not placed."""
        *ends, systems, exclude = self._arguments(member, places, points, True)
        of = member.kernel, *ends, options
        how = member.want, systems, Request(exclude=exclude), access, places is not None
        return PlacedSum(self.ranks.engine(), of, *how)

    def _places(self, member: Member, points: PlanPoints) -> Places | None:
        """Return where a member's points are; None if they are those given."""
        if member.shared is None and member.group is None:
            return None
        columns = WHOLE
        if member.group is not None:
            columns = member.group.columns(points.systems, points.systems.space.array_module)
        trg, src, norms = columns.points(*points[:3])
        cloud = {"points": src, "norms": norms}
        if member.shared is not None:
            cloud |= member.shared.arranged(self._marked(member, columns, points)[0], None)[2]
        of_targets = {"points": trg}
        if isinstance(norms, tuple):
            of_targets["marks"], cloud["marks"] = norms
        return Places(columns, cloud, of_targets)

    def _arguments(
        self, member: Member, places: Places | None, points: PlanPoints, anew: bool
    ) -> tuple[Any, ...]:
        """Return targets, sources, normals, systems and labels of a member's sum.

        Systems and labels are None, as before, unless they are given ``anew``.
        """
        if places is None:
            systems, exclude = points[3:5] if anew else (None, None)
            if isinstance(systems, Systems):  # of the first sum
                systems = systems.targets, systems.sources
            return (*points[:3], systems, exclude)
        ends = member.points(places)
        if member.group is None and not anew:
            return *ends, None, None
        systems, labels = self._marked(member, places.columns, points)
        if member.shared is not None:
            systems, labels, _ = member.shared.arranged(systems, labels)
        return *ends, systems and (systems.targets, systems.sources), labels

    def _marked(
        self, member: Member, columns: Columns, points: PlanPoints
    ) -> tuple[Systems | None, Labels | None]:
        """Return the systems and the labels of a member's columns."""
        if member.group is None:
            return points.systems, points.exclude
        return member.group.marked(columns, points.systems, points.exclude)

    # ------------------------------------------------------------------ other points
    def update(
        self,
        trg: Any,
        src: Any,
        norms: Any = None,
        systems: Any = None,
        exclude: Any = None,
        box: Any = None,
        attached: Any = None,
    ) -> None:
        """Place other points: see `parki.Plan.update_points`. On an error nothing changes.

        ``attached`` takes the place of what `attach` was given.
        """
        start = time.perf_counter()
        with self.access():
            self.settle()
            old, anew = self._present.state, systems is not None or exclude is not None
            with self.collective("update_points"):
                if box is not None and self.boxes is not None:
                    raise ParkiValueError(
                        "box was given, but the systems of the plan have boxes of their own; make "
                        "a new plan"
                    )
                options = self.options if box is None else self.options.deformed(box)
                points = PlanPoints(trg, src, norms, systems, exclude, options)
                if self._mapped:
                    points = self._checked(self._asked, self._completed(points))
                places = [self._places(member, points) for member in self.members]
            for at in old.members:
                at.sum.pipeline.begin()
            try:
                new = list[At]()
                for where in places:
                    new.append(self._moved(new, where, points, anew, box))
                finish_reading(trg, src, norms)
                before = old if any(at.sum.late for at in new) else None
                own = points if self._mapped else points.left()
                self._present.state = Now(own, object(), tuple(new), attached, before)
            except BaseException:
                self._undo(old)
                raise
        self.seconds["update"] = time.perf_counter() - start

    def _moved(
        self, new: list[At], places: Places | None, points: PlanPoints, anew: bool, box: Any
    ) -> At:
        """Return where the member after ``new`` is; by another sum, if its tolerance changes."""
        member, old = self.members[len(new)], self._present.state.members[len(new)]
        options = old.sum.task.options
        wider = self._tolerance(self.members[: len(new) + 1], new, options)
        if wider != options.tolerance:
            options = replace(options if box is None else options.deformed(box), tolerance=wider)
            with self.collective("Plan"):
                placed = self._sum(member, places, points, options, self.access)
            with self.collective("place"):
                placed.place()
            return At(placed, places)
        return At(old.sum.moved(self._arguments(member, places, points, anew), box), places)

    def _undo(self, old: Now) -> None:
        """Let pipelines serve an old state again, unless another one has taken its place."""
        if self._present.state is old:
            for at in old.members:
                at.sum.pipeline.undo()

    def _completed(self, points: PlanPoints) -> PlanPoints:
        """Return points with the systems and labels of those before, where they have none."""
        old = self.points
        systems, labels = points.systems, points.exclude
        # Marks serve the next points, too.
        if points.norms is None and isinstance(old.norms, tuple):
            points = points._replace(norms=old.norms)
        systems = as_before("systems", systems, old.systems)
        return points._replace(systems=systems, exclude=as_before("exclude", labels, old.exclude))

    def settle(self) -> bool:
        """Look at points that a device has placed; return whether it had to place them anew.

        Raises
        ------
        ParkiValueError, ParkiMemoryError
            If some are impossible, or there is no room for what suits them. All members have the
            points before them again.
        """
        state = self._present.state
        if state.before is None:
            return False
        try:
            seen = [at.sum.looked_at() for at in state.members]  # all of which count anew then
            both = list(zip(state.members, seen, strict=True))
            new = [at._replace(sum=at.sum.settled(*found)) for at, found in both]
            self._present.state = state._replace(members=tuple(new), before=None)
        except BaseException:
            if self._present.state is state:
                self._present.state = state.before._replace(version=object())
                self._undo(self._present.state)
            raise
        sums = zip(state.members, new, strict=True)
        return any(one.sum.pipeline is not other.sum.pipeline for one, other in sums)
