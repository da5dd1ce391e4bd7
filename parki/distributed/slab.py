"""`Slab`: a plan's pipeline over the points of all ranks, each of which works on a slab.

Points move to the slab of their grid cell, and stay there for all densities. The near field takes
the slab's targets, its own sources and ghosts, which are sources of other slabs in reach. The far
field takes the slab's planes of the grid. One rank chooses the parameters, from points of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.distributed import memory
from parki.distributed.device import choose_transport
from parki.distributed.far import SlabFar
from parki.distributed.memory import RankShare
from parki.distributed.near import SlabP2P
from parki.distributed.routes import Route
from parki.distributed.slabs import Slabs, longest_first, near_work
from parki.distributed.team import Team
from parki.distributed.transport import Transport
from parki.errors import ParkiValueError
from parki.ewald.choice.clustering import SAMPLE, pair_density
from parki.ewald.choice.memory import Memory
from parki.ewald.far.faxen import FaxenCorrections
from parki.ewald.far.gauge import Constants
from parki.ewald.geometry.axes import AxisPermutation
from parki.ewald.lattice import Lattice
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline.protocol import Pipeline, Watch, unwatched
from parki.ewald.pipeline.setup import Setup, choose, cloud_on_grid
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.solver_box import SolverBox
from parki.ewald.task import Task
from parki.interchange import bincount, to_host
from parki.runtime import prepare
from parki.typing import AnyArray

# Slabs are cut anew where the one with most work has this many times what it could have.
IMBALANCE = 1.3
OF_TARGETS = "trg", "trg_radii", "tensors"  # arrays that go where targets are


class Slab(Pipeline):
    """The stages of a rank: see `parki.ewald.pipeline.protocol.Pipeline`.

    Attributes
    ----------
    overlap : bool
        Whether exchanges overlap the near field, on devices that have any.
    sent : dict
        Bytes that this rank sent to others in the last application, by step.
    """

    asynchronous = False  # some exchanges wait for the device

    def __init__(self, team: Team) -> None:
        self.ranks = self.team = team
        self.overlap = team.size > 1
        self.setup: Setup | None = None
        self.memory: Memory | None = None
        self.sent: dict[str, int] = {}
        self.transport: Transport
        self.slabs: Slabs
        self.order: AxisPermutation
        self.near: SlabP2P
        self.far: SlabFar
        self.gauge: Constants | None
        self._to_targets: Route
        self._from_sources: Route

    # ------------------------------------------------------------------ placing points
    def placed(
        self, task: Task, points: SurveyedCloud, one_shot: bool = False, setup: Setup | None = None
    ) -> Slab:
        """Return a pipeline for other points: see `Pipeline.placed`.

        Slabs keep their bounds until one of them has `IMBALANCE` times the work it would have with
        others.
        """
        new, old = Slab(self.team), self.setup
        if not (all(points.totals) and task.want):
            return new
        new.overlap = self.overlap
        new.transport = choose_transport(self.team, task.space) if old is None else self.transport
        solver_box = setup.solver_box if setup else self._frame(task, points.lattice)
        within = old and old.within(solver_box)
        new.order = AxisPermutation(solver_box.lattice.places(points.lattice))
        same, arrays = points.all_same, new.order.all_to_solver(points.arrays)
        src = solver_box.wrap(task, arrays["src"])
        trg = src if same else solver_box.wrap(task, arrays["trg"])
        setup = new.setup = setup or self._choose(
            task, within, points, solver_box, trg, src, one_shot
        )
        mesh = setup.mesh
        same_setup = setup is old
        cells = [_cells(setup, cloud) for cloud in (trg, src)]
        counts = self._per_cell(setup, cells)
        # In a tilted box planes of the grid are closer together than steps along the first vector.
        lean = float(solver_box.lattice.edges[0] / solver_box.lattice.widths[0])
        reach = int(lean * setup.near.cutoff / mesh.steps[0]) + 1
        slabs = new.slabs = self._balance(points, setup, counts, reach)
        new.memory = self.memory
        if not same_setup:
            first, last = slabs.cells[self.team.rank : self.team.rank + 2]
            targets, sources = (int(count[first:last].sum()) for count in counts)
            near = int(counts[1][slabs.near(self.team.rank, reach)].sum())
            chosen = setup.parameters
            chosen = replace(chosen, problem=replace(chosen.problem, same=points.all_same))
            share = RankShare(
                mesh=mesh,
                slabs=slabs,
                rank=self.team.rank,
                reach=reach,
                axes=new.order.axes,
                caller_counts=(points.targets, points.sources),
                slab_counts=(targets, sources),
                near=near,
            )
            new.memory = memory.predict(chosen, task, share)
            memory.check_memory(
                self.team,
                chosen,
                task,
                length=solver_box.length,
                needed=new.memory,
            )
            # Compile all kernels of the plan, once on each node.
            self.team.in_order(lambda: prepare(setup.kernels(targets)))
        routes = [
            Route.by_owner(new.transport, _owners(setup, slabs, index))
            for index in (cells[1:] if same else cells)
        ]
        new._to_targets, new._from_sources = routes[0], routes[-1]
        local = dict[str, Any]()
        for name, array in arrays.items():
            if not (same and name == "src"):
                route = new._to_targets if name in OF_TARGETS else new._from_sources
                local[name] = route.forward("points", array)
        cloud = points.within(local)
        on_grid = cloud_on_grid(task, solver_box, cloud)
        faxen = FaxenCorrections.of(task, solver_box, cloud.radii)
        radii = faxen and faxen.radii
        unchanged = same_setup and slabs == self.slabs
        far = self.far if unchanged else SlabFar(new.transport, slabs, setup)
        new.far = far.placed(on_grid, faxen)
        new.gauge = setup.gauge(cloud, widths=radii, together=self.team.sum)
        new.near = SlabP2P(
            new.transport,
            slabs,
            setup,
            reach=reach,
            trg=cloud.trg,
            src=cloud.src,
            norms=on_grid.arrays.get("norms"),
            point_radii=radii,
            cells=_cells(setup, on_grid.src),
            tensors=on_grid.arrays.get("tensors"),
        )
        return new

    def _frame(self, task: Task, lattice: Lattice) -> SolverBox:
        """Return the frame of a box, which follows the one there is."""
        if not task.tilted:  # else its vectors stay in their order
            lattice = lattice.ordered(longest_first(lattice.sides, task.periodicity))
        if self.setup is None:
            return replace(SolverBox.of(task, lattice), numbers=None)
        old = self.setup.solver_box
        before = replace(old, lattice=old.lattice.ordered(lattice.places(old.lattice)))
        # No launches are recorded, so that each box has numbers of its own.
        return replace(SolverBox.of(task, lattice, before), numbers=None)

    def _choose(
        self,
        task: Task,
        before: Setup | None,
        points: SurveyedCloud,
        solver_box: SolverBox,
        trg: AnyArray,
        src: AnyArray,
        one_shot: bool,
    ) -> Setup:
        """Return the set-up that rank 0 chooses, or keeps; ``trg`` and ``src`` are wrapped."""
        clouds = self._sample(task, points, trg, src)
        chosen: Any = None  # parameters, or None where the present ones are kept
        if clouds:
            apart = task.options.images_below(points.source_extents)
            density = pair_density(clouds[0], clouds[-1], solver_box.lattice.edges, apart=apart)
            if density.self_pairs:  # pairs of the sample with itself
                density = replace(density, self_pairs=1 / points.totals[1])
            if before is None or not before.suits(density, points):
                size = self.team.size
                chosen = choose(
                    task, points, solver_box, density, clouds, one_shot=one_shot, ranks=size
                )
        chosen = self.team.broadcast(chosen)
        if before is not None and chosen is None:
            return before
        return Setup.of(task, solver_box, chosen)

    def _sample(
        self, task: Task, points: SurveyedCloud, trg: AnyArray, src: AnyArray
    ) -> list[Any] | None:
        """Return some targets and sources of all ranks on rank 0, one array if they are the same.

        Those that `pair_density` takes of the points of one device which has them rank by rank.
        """
        clouds = (src,) if points.all_same else (trg, src)
        parts, n = [], len(clouds)
        for cloud, total, before in zip(
            clouds, points.totals[-n:], points.before[-n:], strict=True
        ):
            stride = max(1, total // SAMPLE)
            part = cloud[:, -before % stride :: stride]
            parts.append(to_host(part))
        told = self.team.gather(parts)
        if told is None:
            return None
        return [np.concatenate(parts, axis=1) for parts in zip(*told, strict=True)]

    def _per_cell(self, setup: Setup, cells: list[AnyArray]) -> list[NDArray[np.float64]]:
        """Return the targets and the sources of all ranks in each cell along the first axis."""
        task, n = setup.task, setup.mesh.padding.cells[0]
        counts = task.xp.stack([bincount(task.xp, index, n) for index in cells])
        totals = self.team.sum(counts.astype(np.float64))
        return list(to_host(totals))

    def _balance(
        self, points: SurveyedCloud, setup: Setup, counts: list[NDArray[np.float64]], reach: int
    ) -> Slabs:
        """Return slabs that take about the same time, as predicted: those there are, if they do."""
        chosen, padding, totals = setup.parameters, setup.mesh.padding, points.totals
        seconds, n, (trg, src) = chosen.seconds, padding.cells[0], counts
        work = near_work(trg, src, reach, setup.solver_box.lattice.periodicity > 0) * seconds["P2P"]
        work += src / totals[1] * seconds["P2G"] + trg / totals[0] * seconds["G2P"]
        work += seconds["FGC"] / n
        best = Slabs.balanced(work, padding.grid[0], self.team.size, chosen.points)
        if setup.same_choice(self.setup) and self.slabs.load(work) <= IMBALANCE * best.load(work):
            return self.slabs
        return best

    def owners(self, points: AnyArray) -> Any:
        """Return the rank on whose slab each point is; shape (N,) for points (3, N)."""
        setup = self.far.setup
        task, solver_box = setup.task, setup.solver_box
        dtype = np.dtype(np.float64) if task.finer else task.dtype
        wrapped = solver_box.wrap(task, points[self.order.axes].astype(dtype))
        return _owners(setup, self.slabs, _cells(setup, wrapped))

    # ------------------------------------------------------------------ apply
    def apply(self, dens: AnyArray, results: dict[str, AnyArray], watch: Watch) -> None:
        """Run the stages on the slab, for one density after the other."""
        counts = self.team.allgather(len(dens))
        if len(set(counts)) > 1:
            raise ParkiValueError(
                f"dens holds {len(dens)} densities on rank {self.team.rank}, but the ranks have "
                f"{', '.join(map(str, counts))}; all ranks give the same number"
            )
        for n, density in enumerate(dens):
            self._sum(density, {name: array[n] for name, array in results.items()}, watch)

    def _sum(self, dens: AnyArray, results: dict[str, AnyArray], watch: Watch) -> None:
        """Sum a density (rows, sources); stages see results as (rows, targets)."""
        task, count = self.far.setup.task, self._to_targets.arriving
        rows = sum(map(len, results.values()))
        together = task.xp.zeros((rows, count), dtype=task.dtype)
        local = dict(zip(results, _rows(together, results.values()), strict=True))
        before = dict(self.transport.sent)
        with watch("densities"):
            dens = self.order.density(dens, task.sum.sources)
            exact = self._from_sources.forward("densities", dens)
            dens = exact.astype(task.dtype, copy=False)
        with watch("ghosts"):
            near = self.near.fetch(dens)

        def far() -> None:
            with watch("P2G"):
                self.far.spread(dens)
            with watch("P2G halo"):
                self.far.add_halo()
            with watch("FGC"):
                self.far.convolve()
            with watch("G2P halo"):
                self.far.copy_halo()

        # Stages that are timed do not overlap: each one's time would have parts of the other's.
        apart = watch is not unwatched or not self.overlap
        with task.space.adapter.beside(None if apart else far), watch("P2P"):
            self.near.apply(near, local)
        if apart:
            far()
        with watch("G2P"):
            self.far.gather(local)
            if self.gauge is not None:
                self.gauge.add(exact, local)
        with watch("results"):
            back = task.xp.empty((rows, next(iter(results.values())).shape[1]), dtype=task.dtype)
            self._to_targets.backward("results", together, back)
            for array, part in zip(results.values(), _rows(back, results.values()), strict=True):
                self.order.to_user(part, array)
        sent = {n: count - before.get(n, 0) for n, count in self.transport.sent.items()}
        self.sent = {label: count for label, count in sent.items() if count}

    # ------------------------------------------------------------------ views
    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""
        return self.near.p2p.lists if self.setup and self.near.p2p else None

    @property
    def gathering(self) -> str:
        """The variant of G2P, in words."""
        return self.far.g2p.method

    def describe(self) -> str:
        """Return how ranks share the work."""
        if self.setup is None:
            return ""
        widths = np.diff(self.slabs.cells)
        axis = self.setup.solver_box.lattice.axes[0]
        text = (
            f"\n  {self.team.size} ranks by {self.transport.name}: slabs of {widths.min()} to "
            f"{widths.max()} of {widths.sum()} grid cells along axis {axis}"
        )
        if not self.sent:
            return text
        megabytes = ", ".join(f"{label} {count / 1e6:.3g}" for label, count in self.sent.items())
        return f"{text}\n  sent from rank {self.team.rank} by the last application, MB: {megabytes}"


def _rows(values: AnyArray, like: Iterable[Any]) -> list[Any]:
    """Return the rows of an array in parts, each with as many rows as one of others."""
    ends = accumulate(map(len, like), initial=0)
    return [values[a:b] for a, b in pairwise(ends)]


def _cells(setup: Setup, points: AnyArray) -> Any:
    """Return the grid cells along the first axis of wrapped points."""
    first_cell = (points[0] * setup.mesh.arguments["inverse_step"][0]).astype(np.int32)
    return setup.task.xp.clip(first_cell, 0, setup.mesh.padding.cells[0] - 1)


def _owners(setup: Setup, slabs: Slabs, cells: AnyArray) -> Any:
    """Return the ranks whose slabs have grid cells."""
    ends = setup.task.xp.asarray(slabs.cells[1:], dtype=np.int32)
    return setup.task.xp.searchsorted(ends, cells, side="right")
