"""`Plan` over the points of all ranks: a plan of `parki.ewald` whose stages work on a slab each.

Points move to the slab of their grid cell, and stay there for all densities. The near field takes
the slab's targets, its sources and those of other slabs in reach (ghosts); the far field the slab's
planes of the grid. Parameters are chosen on one rank, from points of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from parki.distributed.axes import Order, longest_first
from parki.distributed.device import choose_transport
from parki.distributed.far import SlabFar
from parki.distributed.memory import Points, check, predict
from parki.distributed.near import SlabP2P
from parki.distributed.routes import Route
from parki.distributed.slabs import Slabs, near_work
from parki.distributed.team import Team
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald import plan as single
from parki.ewald.beside import beside
from parki.ewald.clustering import SAMPLE, pair_density
from parki.ewald.extent import Extent
from parki.ewald.gauge import Gauge
from parki.ewald.memory import Memory
from parki.ewald.mesh import Mesh
from parki.ewald.options import EwaldOptions
from parki.ewald.parameters import Parameters
from parki.ewald.points import check_points, check_space
from parki.ewald.problem import Problem
from parki.ewald.sums import SUMS
from parki.interchange import as_array, as_given

Watch = Callable[[str], AbstractContextManager[Any]]
# Slabs are cut anew where the one with most work has this many times what it could have.
IMBALANCE = 1.3


class Plan(single.Plan):
    """An Ewald sum over the points of all ranks: set up once, apply to many densities.

    All ranks make the same calls, each with its own points and densities. An exception on one rank
    is raised on all of them.

    Parameters
    ----------
    kernel, trg, src, norms, options, want, dens
        As for `parki.ewald.Plan`; the points, normals and density of this rank, of which there may
        be none. Kernel, options, dtype and ``want`` are the same on all ranks.
    comm : mpi4py.MPI.Comm, optional
        The ranks that take part, not to be freed before the plan. Default: all (``COMM_WORLD``).

    Attributes
    ----------
    slabs : Slabs
        What each rank works on.
    transport : Transport
        How arrays move; ``transport.sent`` counts the bytes.
    memory : Memory
        Bytes that this rank needs, by part, as predicted for the points the plan was made of.
    sent : dict
        Bytes that this rank sent to others in the last application, by step.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        As for `parki.ewald.Plan`, on all ranks; and if ranks ask for different sums.
    ParkiMemoryError
        On all ranks, if those of a node or of a device need more memory than is free there.

    Examples
    --------
    >>> import numpy as np, parki
    >>> from parki.distributed import ewald
    >>> points = np.random.default_rng(0).random((3, 1000))  # of this rank
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-6)
    >>> plan = ewald.Plan("stokes_sl", points, points, options)
    >>> plan(np.ones((3, 1000))).shape
    (3, 1000)
    """

    _ahead = False  # some exchanges wait for the device

    def __init__(
        self,
        kernel: str,
        trg: Any,
        src: Any,
        norms: Any = None,
        options: EwaldOptions | None = None,
        *,
        comm: Any = None,
        want: str | tuple[str, ...] = "u",
        dens: Any = single._NOT_GIVEN,
    ) -> None:
        self.team = Team(comm)
        self.slabs: Slabs
        # Of the near field and exchanges, on devices; where there are none it costs 3 %.
        self._overlap = self.team.size > 1
        with self.team.together():
            super().__init__(kernel, trg, src, norms, options, want=want, dens=dens)

    # ------------------------------------------------------------------ what all ranks share
    def _take(self, arrays: dict[str, Any], extents: Any) -> None:
        super()._take(arrays, extents)
        self.sent: dict[str, int] = {}

    def _count(self, arrays: dict[str, Any]) -> tuple[int, int]:
        """Return the targets and the sources of all ranks, which must ask for one sum."""
        asked = {
            "kernel": self.kernel,
            "want": self.want,
            "dtype": self.dtype,
            "space": self.space.name,
            **{field.name: getattr(self.options, field.name) for field in fields(self.options)},
        }
        same = arrays["trg"] is arrays["src"]
        told = self.team.all((asked, same, self.n_targets, self.n_sources))
        for rank, (other, *_) in enumerate(told):
            for name, value in told[0][0].items():
                if other[name] != value:
                    raise ParkiValueError(
                        f"{name} is {other[name]} on rank {rank}, but {value} on rank 0; "
                        "all ranks take part in one sum"
                    )
        self._same = all(same for _, same, _, _ in told)
        # How many points the ranks before this one have.
        self._before = [sum(counts[k] for counts in told[: self.team.rank]) for k in (2, 3)]
        return sum(n for _, _, n, _ in told), sum(n for _, _, _, n in told)

    def _extent(self, extents: Any) -> Extent:
        """Return the box of all points."""
        if None in self.options.box:
            extents = np.concatenate(self.team.all(extents))
        found = super()._extent(extents)
        self._axes = longest_first(found.box, self.options.periodicity)
        self._order = Order(self._axes)
        return found

    def _sample(self, trg: Any, src: Any) -> list[Any] | None:
        """Return some targets and sources of all ranks on rank 0, one array if they are the same.

        Those that `pair_density` takes of the points of one device which has them rank by rank.
        """
        clouds = (src,) if self._same else (trg, src)
        parts, n = [], len(clouds)
        for points, total, before in zip(clouds, self._totals[-n:], self._before[-n:], strict=True):
            stride = max(1, total // SAMPLE)
            part = points[:, -before % stride :: stride]
            parts.append(part.get() if self.space.on_device else part)
        told = self.team.gather(parts)
        if told is None:
            return None
        return [np.concatenate(parts, axis=1) for parts in zip(*told, strict=True)]

    def _choose(self, trg: Any, src: Any, length: float) -> Parameters:
        """Return the parameters that rank 0 chooses, or keeps; ``trg`` and ``src`` are wrapped."""
        clouds = self._sample(trg, src)
        chosen: tuple[Parameters, Problem | None] | None = None
        if clouds:
            density = pair_density(clouds[0], clouds[-1], self.box / self.unit)
            if density.self_pairs:  # those of the sample
                density = replace(density, self_pairs=1 / self._totals[1])
            old = self.parameters
            if old is None or not self._suit(old, density):
                chosen = (self._select(density, length, clouds, self.team.size), self._problem)
            else:
                chosen = (old, None)
        parameters, problem = self.team.share(chosen)
        if problem is not None:
            self._problem = problem
            self._settle(parameters, length)
        found: Parameters = parameters
        return found

    def _sum_up(self, value: float) -> float:
        return float(self.team.sum(np.array(value)))

    # ------------------------------------------------------------------ other points
    def update_points(self, trg: Any, src: Any, norms: Any = None) -> None:
        """Give the plan other points, on all ranks: see `parki.ewald.Plan.update_points`.

        Each rank may have more points than before, or fewer. Slabs keep their bounds until one of
        them has 1.3 times the work it would have with others. Points that are on their slab's rank
        when they are given (`owners`, `migrate`) cross no network; ranks that have nothing for each
        other exchange nothing.
        """
        super().update_points(trg, src, norms)

    def _move(self, trg: Any, src: Any, norms: Any) -> None:
        with self.team.together():  # all of them, or none
            super()._move(trg, src, norms)

    def owners(self, points: Any) -> Any:
        """Return the rank on whose slab each point is; shape (N,) for points (3, N)."""
        if self.parameters is None:
            raise ParkiValueError("the plan has no points, and so no slabs")
        array = as_array("points", points)
        check_space({"points": array}, self.space)
        check_points("points", array, self.options)
        return self._owners(self._cells(self._wrap(array[self._axes].astype(self.dtype))))

    def migrate(self, points: Any, *others: Any) -> tuple[Any, ...]:
        """Return points, and what belongs to them, on the ranks on whose slabs they are.

        All ranks call it. Where points stay near where they are, few of them change ranks, most of
        these to neighbours; a plan made of them, or updated, then has little to send.

        Parameters
        ----------
        points : array, shape (3, N)
        *others : array, shape (rows, N)
            Such as normals or densities: their columns go with the points.

        Returns
        -------
        tuple of arrays
        """
        given = (points, *others)
        with self.team.together(), self._turn():
            owners = self.owners(points)
            route = Route.by_owner(self.transport, owners)
            arrays = [as_array(f"array {n}", values) for n, values in enumerate(given)]
            for n, array in enumerate(arrays):
                if array.ndim != 2 or array.shape[1] != route.order.size:
                    raise ParkiValueError(
                        f"array {n} has shape {array.shape}; expected (rows, {route.order.size}), "
                        "a column for each point"
                    )
            there = [route.forward("migration", array) for array in arrays]
        return tuple(as_given(array, like) for array, like in zip(there, given, strict=True))

    # ------------------------------------------------------------------ set-up
    def _build(self, arrays: dict[str, Any]) -> None:
        if self.parameters is None:
            self.transport = choose_transport(self.team, self.space)
        length = self._units()
        arrays = self._order.arrays(arrays)
        src = self._wrap(arrays["src"])
        trg = src if self._same else self._wrap(arrays["trg"])
        chosen = self._choose(trg, src, length)
        split, cutoff, radial = self._division
        cells = [self._cells(points) for points in (trg, src)]
        counts, reach = self._per_cell(cells), int(cutoff / self.mesh.steps[0]) + 1
        slabs = self._balance(chosen, counts, reach)
        kept = self._memory is not None and slabs == self.slabs
        self.slabs = slabs
        if self._memory is None:  # the parameters are new
            first, last = slabs.cells[self.team.rank : self.team.rank + 2]
            targets, sources = (int(count[first:last].sum()) for count in counts)
            near = int(counts[1][slabs.near(self.team.rank, reach)].sum())
            points = Points((self.n_targets, self.n_sources), (targets, sources), near)
            self.memory = self._check_memory(chosen, length, reach, points)
            self._prepare(chosen, targets)
        routes = [
            Route.by_owner(self.transport, self._owners(index))
            for index in (cells[1:] if self._same else cells)
        ]
        self._to_targets, self._from_sources = routes[0], routes[-1]
        own = {"src": self._from_sources.forward("points", arrays["src"])}
        own["trg"], own["norms"] = own["src"], None
        if not self._same:
            own["trg"] = self._to_targets.forward("points", arrays["trg"])
        if "norms" in arrays:
            norms = arrays["norms"] * self.dtype.type(1 / self.unit)
            own["norms"] = self._from_sources.forward("points", norms)
        src = self._wrap(own["src"])
        trg = src if self._same else self._wrap(own["trg"])
        factor, norms = 1 / self.unit, own["norms"]
        if not kept:
            self._far = SlabFar(
                self.transport,
                slabs,
                self.kernel,
                self.mesh,
                self._slab_mesh(chosen),
                self.rows,
                split,
                factor,
                self._computed,
                self.options.executor,
            )
        self._far = self._far.placed(trg, src, norms)
        self._memory, self.g2p = self._far.memory, self._far.g2p
        double = SUMS[self.kernel].double
        self._gauge = Gauge(
            self.kernel,
            self.mesh,
            split,
            self.unit,
            factor,
            (trg, src, norms) if double and self.options.dl_mean == "flux" else None,
            self.team.sum,
        )
        self._near = SlabP2P(
            self.transport,
            slabs,
            self.kernel,
            self.space,
            own["trg"],
            own["src"],
            norms,
            self._cells(src),
            float(self.mesh.steps[0]),
            self._frame.box / self.unit,
            self._frame.origin / self.unit,
            self.options.periodicity,
            cutoff,
            radial,
            factor,
            self._computed,
            self.evaluator,
            self.options.executor,
            chosen.p2p,
            not self.options.deterministic,
            chosen.read,
        )

    @property
    def xp(self) -> Any:
        """The array module of the plan's space."""
        return self.space.array_module

    def _cells(self, points: Any) -> Any:
        """Return the grid cells along the first axis of wrapped points."""
        place = (points[0] * self.mesh.arguments["inverse_step"][0]).astype(np.int32)
        return self.xp.clip(place, 0, self.mesh.padding.cells[0] - 1)

    def _owners(self, cells: Any) -> Any:
        """Return the ranks whose slabs have grid cells."""
        ends = self.xp.asarray(self.slabs.cells[1:], dtype=np.int32)
        return self.xp.searchsorted(ends, cells, side="right")

    def _per_cell(self, cells: list[Any]) -> list[NDArray[np.float64]]:
        """Return the targets and the sources of all ranks in each cell along the first axis."""
        n = self.mesh.padding.cells[0]
        counts = self.xp.stack([self.xp.bincount(index, minlength=n) for index in cells])
        found = self.team.sum(counts.astype(np.float64))
        return list(found.get() if self.space.on_device else found)

    def _balance(self, chosen: Parameters, counts: list[NDArray[np.float64]], reach: int) -> Slabs:
        """Return slabs that take about the same time, as predicted: those there are, if they do."""
        padding, seconds = self.mesh.padding, chosen.seconds
        n, (trg, src) = padding.cells[0], counts
        periodic = self.options.periodicity > 0
        work = near_work(trg, src, reach, periodic) * seconds["P2P"]
        work += src / self._totals[1] * seconds["P2G"] + trg / self._totals[0] * seconds["G2P"]
        work += seconds["FGC"] / n
        best = Slabs.balanced(work, padding.grid[0], self.team.size, chosen.points)
        if self._memory is not None and self.slabs.load(work) <= IMBALANCE * best.load(work):
            return self.slabs
        return best

    def _check_memory(
        self, chosen: Parameters, length: float, reach: int, points: Points
    ) -> Memory:
        """Return the bytes that this rank needs; refuse the plan if those of any are not free."""
        problem, use = self._problem, replace(self._use(self._same), once=False)
        place = (self.mesh, self.slabs, self.team.rank, reach, self._axes, points)
        needed = predict(problem, chosen, use, *place)
        check(self.team, problem, chosen, use, length, needed)
        return needed

    def _prepare(self, chosen: Parameters, targets: int) -> None:
        """Compile all kernels of the plan, once on each node."""
        self.team.in_turn(lambda: single.Plan._prepare(self, chosen, targets))

    def _slab_mesh(self, chosen: Parameters) -> Mesh:
        """Return the grid of this rank's slab, with what its windows reach."""
        mesh, rank = self.mesh, self.team.rank
        first, last = self.slabs.cells[rank : rank + 2]
        n = max(last - first, 1)  # a slab without cells has a grid, of no use
        local = replace(
            mesh.padding,
            cells=(n, *mesh.padding.cells[1:]),
            grid=(n + chosen.points - 1, *mesh.padding.grid[1:]),
        )
        box = np.array([n * mesh.steps[0], *mesh.box[1:]])
        return self._mesh(chosen, box, mesh.steps, local)

    # ------------------------------------------------------------------ apply
    def promise(self, dens: Any) -> Any:
        """Return the bound of the error on all ranks: see `parki.ewald.Plan.promise`."""
        with self.team.together():
            return super().promise(dens)

    def _apply(self, dens: Any, out: Any, watch: Watch) -> Any:
        with self.team.together():
            return super()._apply(dens, out, watch)

    def _sum(self, values: Any, results: dict[str, Any], watch: Watch) -> None:
        """Run the stages on the slab; they see results as (rows, targets)."""
        count = self._to_targets.arriving
        flat = {
            name: array.reshape(math.prod(array.shape[:-1]), self.n_targets)
            for name, array in results.items()
        }
        rows = sum(array.shape[0] for array in flat.values())
        together = self.xp.zeros((rows, count), dtype=self.dtype)
        own, done = {}, 0
        for name, array in flat.items():
            own[name] = together[done : done + array.shape[0]]
            done += array.shape[0]
        before = dict(self.transport.sent)
        with watch("densities"):
            dens = self._from_sources.forward("densities", self._order.density(self.kernel, values))
        with watch("ghosts"):
            near = self._near.fetch(dens)

        def far() -> None:
            with watch("P2G"):
                self._far.spread(dens)
            with watch("P2G halo"):
                self._far.add_halo()
            with watch("FGC"):
                self._far.convolve()
            with watch("G2P halo"):
                self._far.copy_halo()

        # Stages that are timed do not overlap: each one's time would have parts of the other's.
        apart = watch is not single._unwatched or not self._overlap
        with beside(self.space, [] if apart else [far]), watch("P2P"):
            self._near.apply(near, own)
        if apart:
            far()
        with watch("G2P"):
            self._far.gather(own)
            self._gauge.add(dens, own)
        with watch("results"):
            back = self.xp.empty((rows, self.n_targets), dtype=self.dtype)
            self._to_targets.backward("results", together, back)
            done = 0
            for name, array in flat.items():
                array[self._order.places(name, self.rows)] = back[done : done + array.shape[0]]
                done += array.shape[0]
        sent = {n: count - before.get(n, 0) for n, count in self.transport.sent.items()}
        self.sent = {label: count for label, count in sent.items() if count}

    def describe(self) -> str:
        """Return what the plan is, as `parki.ewald.Plan.describe`, and how ranks share it."""
        text = super().describe()
        if self.parameters is None:
            return text
        widths = np.diff(self.slabs.cells)
        text += (
            f"\n  {self.team.size} ranks by {self.transport.name}: slabs of {widths.min()} to "
            f"{widths.max()} of {widths.sum()} grid cells along axis {self._axes[0]}"
            + (", the first of the grid above" if self._axes[0] else "")
        )
        if not self.sent:
            return text
        megabytes = ", ".join(f"{label} {count / 1e6:.3g}" for label, count in self.sent.items())
        return f"{text}\n  sent from rank {self.team.rank} by the last application, MB: {megabytes}"

    def check(self, dens: Any, targets: int = 32) -> NoReturn:
        """Refuse: the sample would have to be one of all ranks' targets."""
        raise ParkiTypeError(
            "check works for parki.Plan alone, but this plan is shared by many ranks; check a "
            "parki.Plan of fewer points, or compare with a plan of a smaller tolerance"
        )

    def as_linear_operator(self) -> NoReturn:
        """Refuse: solvers of SciPy and CuPy would take each rank's part for the whole."""
        raise ParkiValueError(
            "as_linear_operator has no meaning over many ranks: SciPy's solvers take the norm of "
            "one rank's part for that of the whole; use a solver that sums over the ranks, and "
            "call the plan from it"
        )
