"""`Placement`: points of plans with all sums that are placed at them, which move together.

It has the one lock of these sums. Points change by one transaction: every member places them, or
all go back to the points before. A device may place points before the host has looked at them; the
next call reads one report of each member, and takes them or brings the points before back.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple, cast

from parki.errors import ParkiValueError
from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.geometry.boxes import WHOLE, Columns, Group
from parki.ewald.geometry.systems import Labels, Systems, check_systems, rows_of_boxes
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.placed_sum import PlacedSum, as_before
from parki.ewald.pipeline.protocol import Access
from parki.ewald.placement.asked import Asked
from parki.ewald.placement.member import Member, Places
from parki.ewald.points import check_density, check_points, marks_of
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


# The points of before, and places, sum and options of each member.
_Before = tuple[PlanPoints, list[tuple[Places | None, PlacedSum, EwaldOptions]]]


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
    version : object
        Another one for other points.
    seconds : dict
        That "plan" took, and the last "update" of points.
    """

    access: Access

    def __init__(
        self, ranks: Ranks, points: PlanPoints, boxes: tuple[Any, ...] | None = None
    ) -> None:
        self.ranks, self.points, self.boxes = ranks, points, boxes
        self.collective = ranks.collective
        self.members: list[Member] = []
        self.version = object()
        self.seconds: dict[str, float] = {}
        self._asked: Asked  # first
        self._groups: list[Group] = []
        self._before: _Before | None = None  # while some points are late

    @classmethod
    def of(
        cls,
        ranks: Ranks,
        arguments: tuple[Any, ...],
        want: Any,
        systems: Any = None,
        exclude: Any = None,
        boxes: Any = None,
    ) -> tuple[Placement, Asked]:
        """Return the placement of a plan, without members, and what it is asked for.

        ``arguments`` has the first five arguments of `parki.Plan`; the others are named as there.
        """
        kernel, trg, src, norms, options = arguments
        rows = None if boxes is None else rows_of_boxes(boxes)
        if rows is not None:
            options = replace(options, box=rows[0])
        points = PlanPoints(trg, src, norms, systems, exclude, options)
        return cls(ranks, points, rows), Asked.of(kernel, want, options)

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        return self.points.options

    @property
    def _mapped(self) -> bool:
        """Whether maps or boxes take the points, which were checked then; else sums do."""
        return self.boxes is not None or self._asked.composite is not None

    # ------------------------------------------------------------------ members
    def add(self, asked: Asked, dens: Any = None) -> list[Member]:
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
            members = self._of(asked, points)
            for member in members:
                with self.collective("Plan"):
                    self._prepare(member, members, asked, points)
            with members[0].sum.access():
                for member in members:
                    with self.collective("place"):
                        if dens is not None:
                            member.sum.density(dens)
                        member.sum.place(once=dens is not None)
            for member in members if dens is None else ():
                member.sum.leave()
            finish_reading(self.points.trg, self.points.src, self.points.norms)
            if not self.members:
                self.points = points if self._mapped else points.left()
            self.members = [*self.members, *members]
        self.seconds.setdefault("plan", time.perf_counter() - start)
        return members

    def _checked(self, asked: Asked, points: PlanPoints) -> PlanPoints:
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

    def _in_boxes(self, asked: Asked, points: PlanPoints) -> PlanPoints:
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

    def _of(self, asked: Asked, points: PlanPoints) -> list[Member]:
        """Return the members for what is asked, without points."""
        members: list[Member] = []
        groups: list[Group | None] = [*self._groups] or [None]
        for group in groups:
            options = points.options if group is None else group.options
            if asked.composite is None:
                members.append(Member(asked.name, asked.want, options, None, group))
            else:
                shared = together(joined(asked.composite.addends))
                own = options.of_sums()
                members += [Member(one.kernel, one.want, own, one, group) for one in shared]
        return members

    def _prepare(
        self, member: Member, members: list[Member], asked: Asked, points: PlanPoints
    ) -> None:
        """Check the arguments of a member's sum."""
        first = self._first(member, members)
        for name, size, power in asked.composite.scales if asked.composite else ():
            if name == member.kernel:
                member.scale = size, power
        tolerance = self._tolerance(member, first, member.options)
        if tolerance != member.options.tolerance:
            member.options = replace(member.options, tolerance=tolerance)
        member.places = self._places(member, points)
        access = self.access if self.members or member is not members[0] else None
        member.sum = self._sum(member, member.places, points, access)
        self.access = member.sum.access

    def _first(self, member: Member, members: list[Member]) -> Member:
        """Return the first member of the same boxes."""
        return next(each for each in members if each.group is member.group)

    def _tolerance(self, member: Member, first: Member, options: EwaldOptions) -> float:
        """Return the tolerance that the scale of a member's results allows; else its options'."""
        if member.scale is None or member is first:
            return options.tolerance
        size, power = member.scale
        return self.options.larger_tolerance((first.sum.lattice.length / size) ** power)

    def _sum(
        self, member: Member, places: Places | None, points: PlanPoints, access: Access | None
    ) -> PlacedSum:
        """Return the sum of a member, which is not placed."""
        *ends, systems, exclude = self._arguments(member, places, points, True)
        of = member.kernel, *ends, member.options
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
    ) -> None:
        """Place other points: see `parki.Plan.update_points`. On an error nothing changes."""
        start = time.perf_counter()
        with self.access():
            self.settle()
            old, anew = self.points, systems is not None or exclude is not None
            before = old, [(m.places, m.sum, m.options) for m in self.members]
            with self.collective("update_points"):
                if box is not None and self.boxes is not None:
                    raise ParkiValueError(
                        "box was given, but the systems of the plan have boxes of their own; make "
                        "a new plan"
                    )
                options = old.options if box is None else old.options.deformed(box)
                points = PlanPoints(trg, src, norms, systems, exclude, options)
                if self._mapped:
                    points = self._checked(self._asked, self._completed(points))
                places = [self._places(member, points) for member in self.members]
            done: list[Member] = []
            try:
                for member, where in zip(self.members, places, strict=True):
                    self._move(member, where, points, anew, box)
                    done.append(member)
            except BaseException:
                self._back(before, done)
                raise
            finish_reading(trg, src, norms)
            self.points = points if self._mapped else points.left()
            self.version = object()
            for member, where in zip(self.members, places, strict=True):
                member.places = where
            self._before = before if any(m.sum.late for m in self.members) else None
            if self._before is None:
                self._drop_before()
        self.seconds["update"] = time.perf_counter() - start

    def _move(
        self, member: Member, places: Places | None, points: PlanPoints, anew: bool, box: Any
    ) -> None:
        """Give a member's sum other points; or make another one, if its tolerance changes."""
        options = member.task.options
        wider = self._tolerance(member, self._first(member, self.members), options)
        if wider != options.tolerance:
            member.options = replace(
                options if box is None else options.deformed(box), tolerance=wider
            )
            with self.collective("Plan"):
                member.sum = self._sum(member, places, points, self.access)
            with self.collective("place"):
                member.sum.place()
            return
        arguments, several = self._arguments(member, places, points, anew), len(self.members) > 1
        member.sum.update(arguments, box, keep=several)

    def _back(self, before: _Before, moved: list[Member]) -> None:
        """Give members that moved the points of before, and all of them what they had."""
        self.points, kept = before
        for member, (places, placed, options) in zip(self.members, kept, strict=True):
            if member in moved and member.sum is placed:
                placed.restore()
            member.places, member.sum, member.options = places, placed, options

    def _completed(self, points: PlanPoints) -> PlanPoints:
        """Return points with the systems and labels of those before, where they have none."""
        old = self.points
        systems, labels = points.systems, points.exclude
        # Marks serve the next points, too.
        if points.norms is None and isinstance(old.norms, tuple):
            points = points._replace(norms=old.norms)
        systems = as_before("systems", systems, old.systems)
        return points._replace(systems=systems, exclude=as_before("exclude", labels, old.exclude))

    def _drop_before(self) -> None:
        """Let go of the points before."""
        self._before = None
        for member in self.members:
            member.sum.before = None

    def settle(self) -> bool:
        """Look at points that a device has placed; return whether it had to place them anew.

        Raises
        ------
        ParkiValueError, ParkiMemoryError
            If some are impossible, or there is no room for what suits them. All members have the
            points before them again.
        """
        if self._before is None:
            return False
        sums = [member.sum for member in self.members]
        try:
            seen = [each.looked_at() for each in sums]  # all of which count anew then
            staged = [each.staged(*found) for each, found in zip(sums, seen, strict=True)]
        except BaseException:
            self._back(self._before, self.members)
            self.version = object()
            self._drop_before()
            raise
        again = [each.commit(found) for each, found in zip(sums, staged, strict=True)]
        self._drop_before()
        return any(again)
