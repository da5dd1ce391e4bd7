"""`Pipeline`: who does the work of a plan; and `OneDevice`, which does it alone.

The stages do not know each other. A pipeline joins them: near field (P2P), and P2G, FGC, G2P for
the far field. That of many ranks is `parki.distributed.slab.Slab`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from parki.ewald.choice.clustering import pair_density
from parki.ewald.choice.memory import Memory, check_memory
from parki.ewald.far.fgc import FGC
from parki.ewald.far.g2p import G2P
from parki.ewald.far.gauge import Gauge
from parki.ewald.far.p2g import P2G
from parki.ewald.far.plane import PlaneModes
from parki.ewald.geometry.systems import Systems
from parki.ewald.near.p2p import P2P
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline import plan_cache
from parki.ewald.pipeline.replay import Replay, why_not
from parki.ewald.pipeline.setup import Setup, choose, use
from parki.ewald.pipeline.slack import Slack
from parki.ewald.task import Frame, Points, Survey, Task
from parki.interchange import to_host
from parki.runtime import prepare
from parki.runtime.spaces import free_memory

# While the pairs that share a cell change by no more than this, in parts of what they were when the
# set-up was seen to suit the points, it suits them still: `choice.reuse` allows more.
CROWDED = 0.1
# Densities whose grids a device has at a time, as many as there are; and the part of the free
# memory that they may take.
GRIDS, PART = (8, 4, 2), 1 / 4
Watch = Callable[[str], AbstractContextManager[Any]]  # of the stages, by name


def unwatched(_: str) -> AbstractContextManager[Any]:
    """Time no stage."""
    return nullcontext()


class Pipeline(Protocol):
    """The stages of a plan for fixed points, on one device or over ranks.

    Attributes
    ----------
    setup : Setup or None
        None while there is nothing to sum.
    memory : Memory or None
        What this rank needs, as predicted for the points that the parameters were chosen for.
    ahead : bool
        Whether all stages can be launched before the first runs.
    normal_squares : array, shape (Ns,), or None
        Squares of the normals, for the promise; None if there are none, or nothing to sum.
    """

    setup: Setup | None
    memory: Memory | None
    ahead: bool
    normal_squares: Any

    def together(self) -> AbstractContextManager[Any]:
        """Raise on all ranks what is raised on one of them."""

    def survey(self, task: Task, arrays: dict[str, Any], extents: Any) -> Survey:
        """Return what the points of all ranks have in common; refuse ranks with other tasks."""

    def total(self, value: float) -> float:
        """Return the sum of a number over all ranks."""

    def empty(self) -> Pipeline:
        """Return a pipeline without points."""

    def placed(self, task: Task, points: Points, once: bool) -> Pipeline:
        """Return a pipeline for other points, which keeps what suits them.

        This one stays as it is if an exception is raised, and else is not used any more, unless it
        was given the points itself. ``once`` says that a density to sum follows at once.
        """

    def transposed(self, task: Task, points: Points, given: Setup | None) -> Pipeline:
        """Return a pipeline of another sum, from this one's targets to its sources.

        With a set-up that is given, or one that suits ``points``.
        """

    def apply(self, dens: Any, results: dict[str, Any], watch: Watch) -> None:
        """Overwrite results with the sums of densities (k, rows, sources).

        Results have shape (k, ...), as at the public boundary.
        """

    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""

    @property
    def gathering(self) -> str:
        """The variant of G2P, in words."""

    def describe(self) -> str:
        """Return lines to add to the description of a plan."""


class OneDevice:
    """The stages on one device or on the CPUs of one process."""

    ahead = True

    def __init__(self, setup: Setup | None = None, memory: Memory | None = None) -> None:
        self.setup, self.memory = setup, memory
        self.normal_squares: Any = None
        self._sizes: Any = None  # shapes of the points, once there are any
        self._systems: Systems | None = None
        self._slack: Slack | None = None  # where the number of points has changed
        self.p2p: P2P
        self.p2g: P2G
        self.fgc: FGC
        self.g2p: G2P
        self.plane: PlaneModes | None = None
        self.gauge: Gauge
        self.sorted: Any = None  # a density of P2G, in the memory of those of P2P
        self._buffers: dict[int, Any] = {}  # for sorted densities of P2P, by how many at a time
        self._grids: dict[int, tuple[Any, FGC]] = {}  # of several densities; with their FGC
        self._pending: Callable[[], None] | None = None  # to do beside the near field
        self._begun = False  # a density was summed
        self._ready: set[int] = set()  # numbers of densities that were summed before
        self._plain = ""  # why launches are made one by one
        # Of applications, by the number of densities and whether they take lists.
        self._replays: dict[tuple[int, bool], Replay] = {}
        self._follows = False  # the points replaced others, and suited the set-up
        self._placing: Replay | None = None  # gives the pipeline other points
        self._waits = ""  # why placing points was not recorded
        self._crowds: Any = None  # see `_crowded`, on the device
        self._judged: Any = None  # the same of points that the set-up was seen to suit

    def together(self) -> AbstractContextManager[Any]:
        """Do nothing: there are no other ranks."""
        return nullcontext()

    def survey(self, task: Task, arrays: dict[str, Any], extents: Any) -> Survey:
        """Return what the points have in common."""
        totals = arrays["trg"].shape[1], arrays["src"].shape[1]
        same, alike = arrays["trg"] is arrays["src"], np.array_equal(extents[:2], extents[2:])
        of_sources = extents[-2:] if totals[1] else extents[:0]
        return Survey(totals, (0, 0), same, extents, of_sources, alike)

    def total(self, value: float) -> float:
        """Return the number."""
        return value

    def empty(self) -> OneDevice:
        """Return a pipeline without points."""
        return OneDevice()

    @property
    def holds(self) -> float:
        """Bytes that the stages hold, as predicted."""
        return sum(self.memory.parts.values()) if self.memory and self._sizes else 0.0

    def placed(self, task: Task, points: Points, once: bool) -> OneDevice:
        """Return a pipeline for other points: see `Pipeline.placed`."""
        placing, setup, arrays = self._placing, self.setup, self._named(points)
        same = points.systems is self._systems
        if self._slack is not None and self._slack.takes(arrays):
            arrays = self._slack.points(task.xp, arrays)
        if placing is None or setup is None or not (same and placing.takes(arrays)):
            return self._renewed(task, points, once)
        before = {name: array.copy() for name, array in placing.arrays.items()}
        placing(arrays, {})
        try:
            return self if self._suited(setup, points) else self._renewed(task, points, once)
        except BaseException:
            placing(before, {})
            raise

    def transposed(self, task: Task, points: Points, given: Setup | None) -> OneDevice:
        """Return a pipeline of the transposed sum: see `Pipeline.transposed`."""
        placing, arrays = self._placing, self._named(points)
        same = given is self.setup and points.systems is self._systems
        if self._slack is not None and self._slack.takes(arrays):
            arrays = self._slack.points(task.xp, arrays)
        if placing is not None and given is not None and same and placing.takes(arrays):
            placing(arrays, {})
            self._begin()
            return self
        return self._renewed(task, points, False, given)

    def _renewed(
        self, task: Task, points: Points, once: bool, given: Setup | None = None
    ) -> OneDevice:
        """Return another pipeline for points, which keeps what suits them.

        With a set-up that is ``given``, whether or not it suits them.
        """
        new, arrays = OneDevice(), self._named(points)
        new._plain = why_not(task.space, task.executor, points.targets, points.sources)
        setup = given or self.setup
        frame = setup.frame if setup else Frame.of(task, points.box)
        wrapped = _wrapped(task, frame, arrays)
        if new._plain and not once and self._suits(new, points, arrays, wrapped):
            return new
        density = pair_density(*wrapped, frame.box, points.systems)
        if not (new._plain or once or points.systems):
            new._slack = self._made(task, arrays)
        if new._slack is not None:
            arrays = new._slack.points(task.xp, arrays)
            wrapped = _wrapped(task, frame, arrays)
        new._sizes = {name: array.shape for name, array in arrays.items()}
        new._systems = points.systems
        if setup is None or (given is None and not setup.suits(density, points)):
            clouds = wrapped[wrapped[0] is wrapped[1] :]
            problem, chosen = choose(task, points, frame, density, clouds, once=once)
            setup = Setup.of(task, frame, problem, chosen)
        kept = setup is self.setup
        many = points.counts[2]
        old = self if kept and self._sizes and many == _count(self._systems) else None
        if old is not None:
            new.memory = old.memory
        else:
            problem, chosen = setup.asked(points)
            if new._slack is not None:
                slack = new._slack
                problem = replace(problem, targets=slack.targets, sources=slack.sources)
            needs = problem, chosen, use(task, points, once)
            new.memory = check_memory(*needs, frame.length, plan_cache.clear_cache)
            prepare(setup.kernels(points.targets))
        new.setup, same = setup, new._systems is self._systems
        new._follows = kept and same and self._sizes == new._sizes
        if new._follows and self._follows and not new._plain and not self._waits:

            def place(given: dict[str, Any]) -> None:
                new._place(setup, given, _wrapped(task, frame, given), old)

            placing = Replay(task.space, place, arrays)
            new._waits = placing.problem
            if not new._waits:
                placing(arrays, {})
                new._placing, new._judged = placing, new._crowded()
                return new
        new._place(setup, arrays, wrapped, old, once)
        if new._plain and not once:
            new._judged = new._crowded()
        return new

    def _made(self, task: Task, arrays: dict[str, Any]) -> Slack | None:
        """Return the slack for points: as it is, or more where their number has changed."""
        if self._slack is not None and self._slack.takes(arrays):
            return self._slack
        sizes = {name: array.shape for name, array in arrays.items()}
        changed = bool(self._sizes) and sizes != self._sizes
        return Slack.of(arrays, norms=task.transposed_pair == "") if changed else None

    def _suits(
        self, new: OneDevice, points: Points, arrays: dict[str, Any], wrapped: tuple[Any, Any]
    ) -> bool:
        """Place points by the set-up of now; return whether they are crowded as those it suited."""
        if self.setup is None or self._judged is None or points.systems is not self._systems:
            return False
        new._sizes = {name: array.shape for name, array in arrays.items()}
        new._systems = points.systems
        new.setup, new.memory, new._judged = self.setup, self.memory, self._judged
        new._follows = True
        new._place(self.setup, arrays, wrapped, self)
        return self._alike(new._crowded())

    def _alike(self, crowds: Any) -> bool:
        return bool((abs(crowds - self._judged) <= CROWDED * self._judged).all())

    @staticmethod
    def _named(points: Points) -> dict[str, Any]:
        """Return the arrays given, without sources that are the targets."""
        left_out = {"src"} if points.survey.same else set()
        return {name: a for name, a in points.arrays.items() if name not in left_out}

    def _begin(self) -> None:
        """Forget what hangs on the points before."""
        self._begun = False
        self._replays = {key: replay for key, replay in self._replays.items() if not key[1]}
        if self.lists is not None:
            self.lists.drop()

    def _suited(self, setup: Setup, points: Points) -> bool:
        """Begin anew with points that were placed; return whether the set-up suits them."""
        self._begin()
        crowds = self._crowded()
        if self._alike(crowds):
            return True
        wrapped = _wrapped(setup.task, setup.frame, self._named(points))
        self._judged = crowds
        return setup.suits(pair_density(*wrapped, setup.frame.box, points.systems), points)

    def _crowded(self) -> Any:
        """Return how many pairs share a cell of the near field, and of the far field's sorts."""
        return to_host(self._crowds)

    def _place(
        self,
        setup: Setup,
        arrays: dict[str, Any],
        wrapped: tuple[Any, Any],
        old: OneDevice | None,
        once: bool = False,
    ) -> None:
        """Set up the stages for points; waits for nothing where ``old`` did the same."""
        task, frame, (trg, src) = setup.task, setup.frame, wrapped
        given = arrays["trg"], arrays.get("src", arrays["trg"])
        norms, exact, self.normal_squares = None, None, normal_squares(arrays)
        if "norms" in arrays:
            exact = arrays["norms"] * task.dtype.type(frame.factor)
            norms = exact.astype(task.dtype, copy=False)
        tensors = arrays.get("tensors")
        if tensors is not None:
            tensors = tensors.astype(task.dtype, copy=False)
        self.p2p = P2P(
            task, frame, setup.pair, *given, norms, tensors=tensors, systems=self._systems
        )
        rows = task.sum.rows
        self._buffers[1] = self.p2p.buffer(rows)
        self.sorted = self._buffers[1].reshape(-1)[: rows * src.shape[1]].reshape(rows, -1)

        def far() -> None:
            spread = None if task.transposed_pair else norms
            self._place_far(setup, trg, src, spread, tensors, old)
            self.gauge = setup.gauge(*given, exact, systems=self._systems)

        if once:
            self._pending = far
            return
        far()
        if self._follows or self._plain:
            cells = (self.p2p.targets, self.p2p.sources, self.g2p.targets, self.p2g.sources)
            trg_near, src_near, trg_far, src_far = (each.counts * 1.0 for each in cells)
            pairs = (trg_near * src_near, trg_far * trg_far, src_far * src_far)
            self._crowds = task.xp.empty(3)
            for place, each in enumerate(pairs):
                self._crowds[place] = each.sum()

    def _place_far(
        self, setup: Setup, trg: Any, src: Any, norms: Any, tensors: Any, old: OneDevice | None
    ) -> None:
        """Set up the far field of wrapped points, normals and tensors in solver units."""
        mesh, systems = setup.mesh, self._systems
        count = _count(systems)
        targets, sources_at = (systems.targets, systems.sources) if systems else (None, None)
        # The field takes the place of the grid, whose values are in Fourier space by then.
        scratch = FGC.scratch(mesh, count)
        self.p2g = P2G(mesh, src, norms, scratch, old and old.p2g.memory, sources_at)
        sources = self.p2g.sources
        if PlaneModes.needed(mesh):
            normals = self.p2g.arguments["norms"]
            self.plane = PlaneModes(mesh, sources.points[2], normals, systems)
        self.fgc = old.fgc if old else FGC(mesh, setup.split, self.p2g.memory, count)
        self._grids = old._grids if old else {}
        self.g2p = G2P(mesh, trg, sources, trg is src, targets, tensors)

    def apply(self, dens: Any, results: dict[str, Any], watch: Watch) -> None:
        """Run the stages, or replay them where they launch the same again and again."""
        if self._slack is None:
            self._applied(dens, results, watch)
            return
        xp = self.p2p.sources.xp
        found = self._slack.results(xp, results)
        self._applied(self._slack.densities(xp, dens), found, watch)
        for name, array in results.items():
            array[...] = found[name][..., : array.shape[-1]]

    def _applied(self, dens: Any, results: dict[str, Any], watch: Watch) -> None:
        """Apply to densities of as many sources as there are columns for."""
        lists, many = self.lists, len(dens)
        if many > 1 and lists is not None and self._placing is None:
            lists.begun = True  # this is a repeated sum
        often = many in self._ready and (self._begun or self._placing is not None)
        self._begun = True
        due = lists is not None and lists.due
        if self._plain or due or not often or watch is not unwatched:
            self._stages(dens, results, watch)
            self._ready.add(many)
            return
        kept = many, lists is not None and lists.kept
        if kept not in self._replays:
            arrays = {"dens": dens, **results}

            def stages(given: dict[str, Any]) -> None:
                self._stages(given["dens"], {name: given[name] for name in results})

            replay = Replay(self.p2p.sources.space, stages, arrays)
            if replay.problem:
                self._plain = replay.problem
                self._stages(dens, results)
                return
            self._replays[kept] = replay
        self._replays[kept]({"dens": dens}, results)
        if lists is not None:
            lists.begun = True

    def _stages(self, dens: Any, results: dict[str, Any], watch: Watch = unwatched) -> None:
        """Run the stages; they see results as (k, rows, targets)."""
        space, xp, real = self.p2p.sources.space, self.p2p.sources.xp, self.p2p.dtype
        flat = {n: array.reshape(len(dens), -1, array.shape[-1]) for n, array in results.items()}
        given, exact = flat, dens
        if dens.dtype != real:
            dens = dens.astype(real)
            flat = {name: xp.empty(array.shape, dtype=real) for name, array in given.items()}
        pending, self._pending = self._pending, None
        with space.adapter.beside(pending), watch("P2P"):
            self.p2p.apply(dens, self._buffer(len(dens)), flat)
        done = 0
        while done < len(dens):
            many = self._together(len(dens) - done)
            part = slice(done, done + many)
            own = {name: array[part] for name, array in flat.items()}
            self._far(dens[part], own, watch, exact[part])
            done += many
        for name, array in given.items():
            if array is not flat[name]:
                array[...] = flat[name]

    def _far(self, dens: Any, results: dict[str, Any], watch: Watch, exact: Any) -> None:
        """Add the far field of densities whose grids there is memory for.

        The gauge takes them as they were given: ``exact``, in double precision where ``dens`` are
        rounded.
        """
        many, systems = len(dens), _count(self._systems)
        grid, fgc = self._grids[many] if many > 1 else (None, self.fgc)
        planes = []
        with watch("P2G"):
            for place, each in enumerate(dens):
                spread = self.p2g.apply(each, self.sorted, grid, place * systems)
                if self.plane is not None:
                    planes.append(self.plane.apply(self.sorted if self.p2g.sorts else each))
        with watch("FGC"):
            plane = self.p2g.sources.xp.concatenate(planes, axis=1) if planes else None
            field = fgc.apply(spread, plane)
        with watch("G2P"):
            for place, each in enumerate(exact):
                own = {name: a[place] for name, a in results.items() if name != "transposed_pair"}
                self.g2p.apply(field, own, place * systems)
                self.gauge.add(each, own)

    def _buffer(self, many: int) -> Any:
        """Return memory for the sorted densities of P2P, of which it takes some at a time.

        It is never given back: launches that were recorded may use it.
        """
        most = self.p2p.most(many)
        if most not in self._buffers:
            self._buffers[most] = self.p2p.buffer(most * self.p2p.rows)
        return self._buffers[most]

    def _together(self, many: int) -> int:
        """Return of how many densities the far field takes the grids at a time; make these.

        On a CPU one after the other, which finds its grid in the cache.
        """
        setup, memory = self.setup, self.memory
        if many == 1 or setup is None or memory is None or not self.p2g.variant.several:
            return 1
        mesh, space = setup.mesh, setup.task.space
        if not space.on_device:
            return 1
        names = ("grid", "modes", "padded block", "transforms")
        own = sum(memory.parts[name] for name in names)
        for most in [n for n in GRIDS if n <= many]:
            if most not in self._grids and most * own <= PART * free_memory(space):
                inputs, (x, y, z) = mesh.task.sum.components, mesh.stored
                sets = most * _count(self._systems)
                shape = (inputs, x, sets * y, z)
                size = max(FGC.scratch(mesh, sets)[1], math.prod(shape))
                values = mesh.task.xp.empty(size, dtype=mesh.dtype)
                fgc = FGC(mesh, setup.split, values, sets, self.fgc)
                self._grids[most] = values[: math.prod(shape)].reshape(shape), fgc
            if most in self._grids:
                return most
        return 1

    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""
        return self.p2p.lists if self.setup else None

    @property
    def gathering(self) -> str:
        """The variant of G2P, in words."""
        return self.g2p.method

    def describe(self) -> str:
        """Return how points are placed, and applications launched, where it is known."""
        lines = ""
        if self.setup is None or not self.setup.task.space.on_device:
            return lines
        if self._slack is not None:
            lines += f"\n  slack for {self._slack.targets} targets, {self._slack.sources} sources"
        if self._placing is not None or self._waits:
            lines += f"\n  updates: {_how(self._waits)}"
        if self._replays or self._plain:
            lines += f"\n  launches: {_how(self._plain)}"
        return lines


def normal_squares(arrays: dict[str, Any]) -> Any:
    """Return the squares of the normals among arrays that were given, or None."""
    norms = arrays.get("norms")
    return None if norms is None else (norms.astype(np.float64) ** 2).sum(axis=0)


def _count(systems: Systems | None) -> int:
    return systems.count if systems else 1


def _how(problem: str) -> str:
    return f"one by one: {problem}" if problem else "as one graph"


def _wrapped(task: Task, frame: Frame, arrays: dict[str, Any]) -> tuple[Any, Any]:
    """Return targets and sources as the grid takes them; one array, if they are the same."""
    trg = frame.wrap(task, arrays["trg"])
    return trg, frame.wrap(task, arrays["src"]) if "src" in arrays else trg
