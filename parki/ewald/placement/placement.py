"""`Placement`: points of plans with all sums that are placed at them, which move together.

It has the one lock of these sums. Other points are placed first, and one assignment then replaces
all that moves with them: an error, or an interrupt at any line, leaves all as it was, or as the
update wants it. A device may place points before the host has looked at them; the next
call reads one report of each sum, and takes them or brings the points before back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple, cast

from parki.errors import ParkiValueError
from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.geometry.boxes import Group
from parki.ewald.geometry.own_boxes import OwnBox
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.options import EwaldOptions
from parki.ewald.options.mirrored import options_of_sums
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.ewald.pipeline.protocol import Access
from parki.ewald.placement.places import Places, cloud_of_sum
from parki.ewald.placement.recorded_move import RecordedMove
from parki.ewald.placement.term import PlacedTerm
from parki.ewald.points import Cloud, check_points
from parki.ewald.points.request import SumRequest
from parki.ewald.ranks import Ranks
from parki.ewald.sums.composite import Composite, SharedAddend, joined, together
from parki.interchange import finish_reading
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray, OfPoints


class State(NamedTuple):
    """All that moves together. Another one replaces it whole, or not at all.

    Attributes
    ----------
    options : EwaldOptions
        With the present box.
    cloud : Cloud or None
        The points, if maps or boxes take them; else a sum has them.
    version : object
        Another one for other points.
    terms : tuple of PlacedTerm
    attached : object
        What a room on top of the sums has at these points, such as the surface of a layer.
    before : State or None
        While a device has placed points that the host has not looked at.
    """

    options: EwaldOptions
    cloud: Cloud | None
    version: object
    terms: tuple[PlacedTerm, ...] = ()
    attached: Any = None
    before: State | None = None


class Placement:
    """Points, and the sums that are placed at them.

    Parameters
    ----------
    ranks : Ranks
    options : EwaldOptions
    boxes : tuple of OwnBox, optional
        Of each system.

    Attributes
    ----------
    access : Access
        Once there are points.
    state : State
        All that moves together.
    seconds : dict
        That "plan" took, and the last "update" of points.
    """

    access: Access

    def __init__(
        self, ranks: Ranks, options: EwaldOptions, boxes: tuple[OwnBox, ...] | None = None
    ) -> None:
        self.ranks, self.boxes = ranks, boxes
        self.collective = ranks.collective
        self.seconds: dict[str, float] = {}
        self.state = State(options, None, object())
        self._first: SumRequest
        self._groups: list[Group] = []
        self._move: RecordedMove | None = None

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        return self.state.options

    @property
    def cloud(self) -> Cloud:
        """The present points; where a sum has them, once the host has looked at them."""
        return self.state.cloud or self.state.terms[0].sum.cloud

    @property
    def version(self) -> object:
        """Another one for other points."""
        return self.state.version

    @property
    def attached(self) -> Any:
        """What a room on top of the sums has at the present points."""
        return self.state.attached

    def attach(self, attached: Any) -> None:
        """Let something else move with the points, of which `update` gets another one."""
        self.state = self.state._replace(attached=attached)

    # ------------------------------------------------------------------ sums
    def add(self, request: SumRequest, cloud: Cloud | None = None) -> slice:
        """Place the sums of what is asked at the points, and return which terms they are.

        The first ones bring the ``cloud``, of `checked`.

        Raises
        ------
        ParkiValueError, ParkiTypeError, ParkiMemoryError
            As of `parki.Plan`; nothing is added then.
        """
        start = time.perf_counter()
        if cloud is not None:
            self._first, self.access = request, Access(cloud.space)
        with ExitStack() as stack:
            if cloud is None:
                stack.enter_context(self.access())
                self.commit_pending()
                old = self.cloud
                with self.collective("points"):
                    cloud = self.checked(
                        request,
                        old.trg,
                        old.src,
                        old.norms,
                        self.options,
                        systems=old.systems,
                        exclude=old.labels,
                    )
            terms = list[PlacedTerm]()
            for shared, group in self._parts(request):
                with self.collective("Plan"):
                    terms.append(self._prepared(request, cloud, terms, shared, group))
            with self.access():
                for term in terms:
                    with self.collective("place"):
                        term.sum.place()
            for term in terms:
                term.sum.cache_setup()
            state, done = self.state, len(self.state.terms)
            if not done and self._mapped:
                state = state._replace(cloud=cloud)
            self.state = state._replace(terms=(*state.terms, *terms))
        self.seconds.setdefault("plan", time.perf_counter() - start)
        return slice(done, done + len(terms))

    @property
    def _mapped(self) -> bool:
        """Whether maps or boxes take the points; else a sum does."""
        return self.boxes is not None or self._first.composite is not None

    def checked(
        self,
        request: SumRequest,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray,
        options: EwaldOptions,
        *,
        systems: Systems | OfPoints | None,
        exclude: Labels | OfPoints | None,
        space: ExecutionSpace | None = None,
    ) -> Cloud:
        """Return the points for sums; their values are looked at here if maps take them.

        Sums look at those that they are given, and so does one sum of a group of boxes.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        if self.boxes is not None:
            return self._in_boxes(request, trg, src, norms, options, systems, exclude)
        cloud = request.cloud(
            trg, src, norms, options, systems=systems, exclude=exclude, space=space
        )
        if request.composite is not None:
            # Maps take them at each call, whatever has become of the arrays by then.
            cloud = cloud.checked().owned()
            request.check_maps(cloud)
        return cloud

    def _in_boxes(
        self,
        request: SumRequest,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray,
        options: EwaldOptions,
        systems: Systems | OfPoints | None,
        exclude: Labels | OfPoints | None,
    ) -> Cloud:
        """Return the points of systems in boxes."""
        boxes = cast(Any, self.boxes)
        in_boxes = InBoxes.checked(
            request, trg, src, norms, options, boxes=boxes, systems=systems, exclude=exclude
        )
        in_boxes.warn_of_images()
        self._groups, cloud = self._groups or in_boxes.groups, in_boxes.cloud.owned()
        for group in self._groups if request.composite else ():  # of which maps look nowhere
            columns = in_boxes.columns(group).points(cloud.trg, cloud.src, None)
            check_points("trg", columns[0], group.options)
            check_points("src", columns[1], group.options)
        if request.composite:
            request.check_maps(cloud)
        return cloud

    def _parts(self, request: SumRequest) -> Iterator[tuple[SharedAddend | None, Group | None]]:
        """Yield the addends and the systems of each sum of what is asked."""
        groups: list[Group | None] = [*self._groups] or [None]
        for group in groups:
            if request.composite is None:
                yield None, group
                continue
            for shared in together(joined(request.composite.addends)):
                yield shared, group

    def _prepared(
        self,
        request: SumRequest,
        cloud: Cloud,
        terms: list[PlacedTerm],
        shared: SharedAddend | None,
        group: Group | None,
    ) -> PlacedTerm:
        """Return the term after ``terms``, whose sum is not placed, its arguments checked."""
        options = cloud.options if group is None else group.options
        kernel, want, scale = request.name, request.want, None
        if shared is not None:
            kernel, want, options = shared.kernel, shared.want, options_of_sums(options)
            for name, size, power in cast(Composite, request.composite).scales:
                if name == kernel:
                    scale = size, power
        tolerance = self._tolerance(options, terms, group, scale)
        if tolerance != options.tolerance:
            options = replace(options, tolerance=tolerance)
        places = Places.of(cloud, shared, group)
        cloud_of_term = cloud_of_sum(kernel, cloud, places, options, shared=shared, group=group)
        placed = EwaldSum(self.ranks.engine(), kernel, cloud_of_term, want, access=self.access)
        return PlacedTerm(sum=placed, places=places, shared=shared, group=group, scale=scale)

    def _tolerance(
        self,
        options: EwaldOptions,
        terms: list[PlacedTerm],
        group: Group | None,
        scale: tuple[float, int] | None,
    ) -> float:
        """Return the tolerance that the scale of a term's results allows, after other ``terms``.

        The tolerance of its options, if it has no scale, or is the first term of its boxes.
        """
        if scale is None:
            return options.tolerance
        first = next((term for term in terms if term.group is group), None)
        if first is None:
            return options.tolerance
        size, power = scale
        return self.options.larger_tolerance((first.sum.lattice.length / size) ** power)

    # ------------------------------------------------------------------ other points
    def update(
        self,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray = None,
        *,
        systems: Systems | OfPoints | None = None,
        exclude: Labels | OfPoints | None = None,
        box: Any = None,
        attached: Any = None,
    ) -> None:
        """Place other points: see `parki.Plan.update_points`. On an error nothing changes.

        ``attached`` takes the place of what `attach` was given.
        """
        start = time.perf_counter()
        with self.access():
            self.commit_pending()
            old, first = self.state, self.state.terms[0].sum
            with self.collective("update_points"):
                if box is not None and self.boxes is not None:
                    raise ParkiValueError(
                        "box was given, but the systems of the plan have boxes of their own; make "
                        "a new plan"
                    )
                options = old.options if box is None else old.options.deformed(box)
                before = old.cloud or first
                if norms is None and before.radii is not None:  # which serve the next points, too
                    norms = before.radii
                cloud = self.checked(
                    self._first,
                    trg,
                    src,
                    norms,
                    options,
                    systems=_as_before("systems", systems, before.systems),
                    exclude=_as_before("exclude", exclude, before.labels),
                    space=first.task.space,
                )
                same = (cloud.systems, cloud.labels) == (before.systems, before.labels)
                points_alone = systems is None and exclude is None and box is None
                move = self._recorded(cloud) if points_alone else None
                alone = () if move else old.terms
                moves = [(term, *self._arguments(term, cloud, box, same)) for term in alone]
            for term in old.terms:
                term.sum.pipeline.begin()
            try:
                terms = move.moved(cloud) if move else list[PlacedTerm]()
                for term, places, cloud_of_term in moves:
                    terms.append(self._moved(term, terms, places, cloud_of_term))
                finish_reading(trg, src, norms)
                pending = old if any(term.sum.pending for term in terms) else None
                cloud_of_maps = cloud if self._mapped else None
                self.state = State(
                    options, cloud_of_maps, object(), tuple(terms), attached, pending
                )
            except BaseException:
                self._undo(old)
                raise
        self.seconds["update"] = time.perf_counter() - start

    def _arguments(
        self, term: PlacedTerm, cloud: Cloud, box: Any, same: bool
    ) -> tuple[Places | None, Cloud]:
        """Return where a term's points are, and the points of its sum.

        ``same`` says that the plan's systems and labels stay.
        """
        if term.places is None:  # nothing maps them
            return None, cloud
        options = term.sum.task.options
        options = options if box is None else options.deformed(box)
        places = Places.of(cloud, term.shared, term.group)
        cloud_of_term = cloud_of_sum(
            term.kernel,
            cloud,
            places,
            options,
            shared=term.shared,
            group=term.group,
            before=term.sum if same else None,
        )
        return places, cloud_of_term

    def _moved(
        self, term: PlacedTerm, terms: list[PlacedTerm], places: Places | None, cloud: Cloud
    ) -> PlacedTerm:
        """Return a term at other points; by another sum, if its tolerance changes.

        ``terms`` are those before it, which have moved.
        """
        placed, options = term.sum, cloud.options
        tolerance = self._tolerance(options, terms, term.group, term.scale)
        if tolerance != options.tolerance:
            cloud = replace(cloud, options=replace(options, tolerance=tolerance))
            with self.collective("Plan"):
                placed = EwaldSum(
                    self.ranks.engine(), term.kernel, cloud, placed.want, access=self.access
                )
            with self.collective("place"):
                placed.place()
        else:
            placed = placed.moved(cloud)
        return replace(term, sum=placed, places=places)

    def _recorded(self, cloud: Cloud) -> RecordedMove | None:
        """Return the graph that places all sums at points as a cloud has, if there is one.

        One sum has a graph of its own. What maps of a user's composite do may be in no graph.
        """
        terms, move, own = self.state.terms, self._move, self._mapped and not cloud.options.walled
        alone = own or self.boxes is not None or len(terms) < 2 or not self.ranks.serial
        if alone or not cloud.space.adapter.records():
            return None
        if move is None or not (move.problem or move.takes(terms, cloud)):
            move = self._move = RecordedMove.of(terms, cloud)
        return None if move is None or move.problem else move

    def _undo(self, old: State) -> None:
        """Let pipelines serve an old state again, unless another one has taken its place."""
        if self.state is old:
            for term in old.terms:
                term.sum.pipeline.undo()
            if self._move is not None and self._move.serves(old.terms):
                self._move.moved(self.cloud)

    def commit_pending(self) -> bool:
        """Look at points that a device has placed; return whether it had to place them anew.

        Raises
        ------
        ParkiValueError, ParkiMemoryError
            If some are impossible, or there is no room for what suits them. All sums have the
            points before them again.
        """
        state = self.state
        if state.before is None:
            return False
        try:
            # All of which count anew then.
            seen = [term.sum.validate_pending() for term in state.terms]
            terms = list[PlacedTerm]()
            for term, (inside, suited) in zip(state.terms, seen, strict=True):
                committed = term.sum.committed(inside=inside, suited=suited)
                terms.append(term if committed is term.sum else replace(term, sum=committed))
            self.state = state._replace(terms=tuple(terms), before=None)
        except BaseException:
            if self.state is state:
                self.state = state.before._replace(version=object())
                self._undo(self.state)
            raise
        pairs = zip(state.terms, terms, strict=True)
        return any(old.sum.pipeline is not new.sum.pipeline for old, new in pairs)


def _as_before(name: str, new: Any, before: Any) -> Any:
    """Return systems or labels for other points; the old ones, if none are given.

    Raises
    ------
    ParkiValueError
        If there were none before.
    """
    if new is not None and before is None:
        raise ParkiValueError(
            f"{name} was given, but the plan was made without; make a new plan with {name}"
        )
    return before if new is None else new
