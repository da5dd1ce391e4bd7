"""`Stages`: what is placed on one device, the stages for points and the memory that they share."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import numpy as np

from parki.ewald.choice.memory import Memory
from parki.ewald.far.buffers import grid_buffers
from parki.ewald.far.convolution import Changed
from parki.ewald.far.faxen import FaxenCorrections
from parki.ewald.far.fgc import FGC
from parki.ewald.far.g2p import G2P
from parki.ewald.far.gauge import Constants, PlaneModes
from parki.ewald.far.p2g import P2G
from parki.ewald.far.pairings import parts_of
from parki.ewald.far.spreading import place_sources
from parki.ewald.far.strain import FarStrain
from parki.ewald.near.p2p import P2P
from parki.ewald.pipeline.protocol import Watch, unwatched
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points import result_rows
from parki.ewald.points.cloud import Cloud
from parki.runtime.spaces import free_memory
from parki.typing import AnyArray

# Densities whose grids a device has at a time, as many as there are; and the part of the free
# memory that they may take.
GRIDS, PART = (8, 4, 2), 1 / 4
# Sources up to which near and far field are branches of a graph.
APART = 2**17


class Stages:
    """P2P for the near field, and P2G, FGC and G2P for the far field.

    Parameters
    ----------
    setup, memory
        With what the stages need, as predicted.
    cloud : Cloud
        In the axes of the pipeline.
    on_grid : Cloud
        The same points as the far field takes them: see `cloud_on_grid`.
    old : Stages, optional
        For other points, by the same set-up, but perhaps in a box of other tilts. Their grids are
        taken over, and nothing waits.
    far_later : bool
        Whether the far field is placed during the first near field.
    """

    p2p: P2P
    p2g: P2G
    fgc: FGC
    gauge: Constants | None

    def __init__(
        self,
        setup: Setup,
        memory: Memory,
        cloud: Cloud,
        *,
        on_grid: Cloud,
        old: Stages | None = None,
        far_later: bool = False,
    ) -> None:
        task, solver_box = setup.task, setup.solver_box
        self.setup, self.memory = setup, memory
        self.systems, self.labels = cloud.systems, cloud.labels
        self.sizes = {name: array.shape for name, array in cloud.distinct.items()}
        self.count = self.systems.count if self.systems else 1
        self.grids = self.count * task.sum.symbol.grids  # of a density
        self.plane: PlaneModes | None = None
        self.faxen = FaxenCorrections.of(task, solver_box, cloud.radii)
        self.radii = self.faxen and self.faxen.radii
        self._recorded = task.space.adapter.records()
        self.far_strain: FarStrain | None = None
        # For several densities, by their number; with their FGC.
        self.grid_sets: dict[int, tuple[Any, FGC]] = {} if old is None else old.grid_sets
        far = partial(self._place_far, cloud, on_grid, old)
        sources = cloud.sources
        apart = self._recorded and self._apart(sources)
        with task.space.adapter.beside(far) if apart else nullcontext():
            self.p2p = P2P(
                setup.near,
                solver_box,
                cloud.trg,
                cloud.src,
                on_grid.arrays.get("norms"),
                tensors=on_grid.arrays.get("tensors"),
                point_radii=self.radii,
                systems=self.systems,
                labels=self.labels,
                before=None if old is None else old.p2p,
            )
            rows = task.sum.rows
            # For sorted densities of P2P, by how many at a time.
            self._buffers: dict[int, Any] = {1: self.p2p.buffer(self.p2p.rows)}
            # A density of P2G, in the memory of P2P's densities.
            self.sorted = self._buffers[1].reshape(-1)[: rows * sources].reshape(rows, -1)
        self._to_place = far if far_later else None
        if not (far_later or apart):
            far()

    def _place_far(self, cloud: Cloud, on_grid: Cloud, old: Stages | None) -> None:
        """Set up the far field; its gauge takes points as they were given."""
        mesh, systems, arrays = self.setup.mesh, self.systems, on_grid.arrays
        targets, sources_at = (systems.targets, systems.sources) if systems else (None, None)
        # The field takes the place of the grid, whose values are in Fourier space by then.
        scratch = FGC.scratch(mesh, self.grids) if old is None else old.p2g.scratch
        sets = self.grids // self.count
        self.p2g = place_sources(
            mesh,
            arrays["src"],
            arrays.get("norms"),
            scratch=scratch,
            memory=old and old.p2g.memory,
            offsets=sources_at,
            grids=sets,
        )
        sources = self.p2g.sources
        if PlaneModes.needed(mesh) if old is None else old.plane is not None:
            normals = self.p2g.arguments["norms"]
            self.plane = PlaneModes(mesh, sources.points[2], normals, systems)
        if old is None:
            self.fgc = FGC(mesh, self.setup.split, self.p2g.memory, self.grids)
        else:
            self.fgc = old.fgc
        tensors = arrays.get("tensors")
        self.g2p = G2P(mesh, arrays["trg"], sources, on_grid.same, targets, tensors)
        same, task = old is not None and old.systems is systems, self.setup.task
        taken = task.flux or task.in_boxes or self.radii is not None
        if old is not None and same and not taken:
            self.gauge = old.gauge  # which takes no points, nor what tilts change
        else:
            self.gauge = self.setup.gauge(cloud, widths=self.radii)

    def run(self, dens: AnyArray, results: dict[str, AnyArray], watch: Watch = unwatched) -> None:
        """Overwrite results (k, rows, targets) with the sums of densities (k, rows, sources).

        "strain" among them, of shape (k, 9, systems), has what dens.u gains by strains
        ``dx_a = x_b`` of points and box in row 3 a + b, once `prepare_strain` was called.
        """
        space, xp, real = self.p2p.sources.space, self.p2p.sources.xp, self.p2p.dtype
        results = {**results}
        strain: AnyArray = results.pop("strain", None)
        modes = None if strain is None else list[dict[int, Any]]()
        flat, exact = results, dens
        if dens.dtype != real:
            dens = dens.astype(real)
            flat = {name: xp.empty(array.shape, dtype=real) for name, array in results.items()}
        to_place, self._to_place = self._to_place, None
        apart: list[Any] = []
        if self._recorded and len(dens) == 1 and self._apart(dens.shape[-1]):
            buffer = xp.empty_like(self.sorted)  # both fields sort the density at the same time
            to_place = partial(self._far_field, dens, watch, buffer, apart, modes)
        beside = space.adapter.beside(to_place) if to_place else nullcontext()
        with beside, watch("P2P"):
            buffer = self._buffers[1] if len(dens) == 1 else self._buffer(len(dens))
            if strain is None:
                self.p2p.apply(dens, buffer, flat)
            else:
                pairs = xp.empty((len(dens), 9, self.sizes["trg"][1]), dtype=real)
                near = flat | {"strain": pairs}
                self.p2p.apply(dens, buffer, near, weights=dens[:, : self.setup.task.sum.results])
        done = 0
        while done < len(dens):
            many = 1 if done + 1 == len(dens) else self._together(len(dens) - done)
            part = slice(done, done + many)
            fields = apart or [self._far_field(dens[part], watch, modes=modes)]
            with watch("G2P"):
                for place in range(many):
                    buffer = {n: a[done + place] for n, a in flat.items()}
                    self.gather(fields[0], exact[done + place], buffer, place)
            if strain is not None and modes:
                far = cast(FarStrain, self.far_strain).of_modes(modes.pop())
                strain[part] = far.reshape(9, many, -1).swapaxes(0, 1)
            done += many
        for name, array in results.items():
            if array is not flat[name]:
                array[...] = flat[name]
        for place in range(0 if strain is None else len(dens)):
            constant = {"u": xp.zeros(exact[place].shape, dtype=exact.dtype)}
            if self.gauge is not None:
                self.gauge.add(exact[place], constant)
            strain[place] += self._by_system(pairs[place])
            strain[place, ::4] -= self._by_system(exact[place] * constant["u"]).sum(axis=0)

    def run_changed(self, dens: AnyArray, results: dict[str, AnyArray], motion: AnyArray) -> None:
        """Overwrite results with how sums of charges change along a strain, ``dx = motion x``.

        Both points and box move. Gradients change in axes that stay. "strain" among them is as for
        `run`, of the change of dens.u: by two strains at once. The motion (3, 3) is where the
        densities are, and `prepare_strain` was called.
        """
        far, task, xp = cast(FarStrain, self.far_strain), self.setup.task, self.p2p.sources.xp
        results = {**results}
        strain: AnyArray = results.pop("strain", None)
        strained, trace = strain is not None, motion.trace()
        exact, dens = dens, dens.astype(self.p2p.dtype, copy=False)
        near = {n: xp.empty(rows.shape, dtype=self.p2p.dtype) for n, rows in results.items()}
        moved = motion.astype(self.p2p.dtype)
        pairs = xp.empty((len(dens), 9, self.sizes["trg"][1]), dtype=self.p2p.dtype)
        of_pairs = near | ({"strain": pairs} if strained else {})
        weights = dens[:, : task.sum.results] if strained else None
        buffer = self._buffer(len(dens))
        self.p2p.apply(dens, buffer, of_pairs, weights=weights, motion=moved)
        changed = far.changed(motion, strained)
        for place, density in enumerate(dens):
            rows, modes = {name: array[place] for name, array in near.items()}, list[Any]()
            sums = modes if strained else None
            if "grad_u" in rows or strained:
                field = self._far_field(density[None], modes=sums)
            if "grad_u" in rows:  # wave vectors move, by which the grid's field is differentiated
                still = {name: xp.zeros_like(array) for name, array in rows.items()}
                self.g2p.apply(field, still)
                changes_of_axes = moved[:, :, None] * still["grad_u"][:, None]
                rows["grad_u"] -= changes_of_axes.sum(axis=0)
            field = self._far_field(density[None], modes=sums, changed=changed)
            self.g2p.apply(field, rows)
            constant = {"u": xp.zeros((1, pairs.shape[2]), dtype=exact.dtype)}
            if self.gauge is not None:
                self.gauge.add(exact[place], constant)  # one over the volume
            if "u" in rows:
                rows["u"] -= trace * constant["u"]
            if strained:
                total = self._by_system(exact[place] * constant["u"]).sum(axis=0)
                per_volume = (trace * xp.eye(3) + motion.T).reshape(9, 1)
                strain[place] = far.twice(modes[0], modes[1], motion) + per_volume * total
                strain[place] += self._by_system(pairs[place])
        for name, array in results.items():
            array[...] = near[name]

    def run_strains(self, dens: AnyArray, weights: AnyArray, strain: AnyArray) -> None:
        """Overwrite ``strain`` (k, 9, 1) with what w.u gains by strains, for weights w of "u".

        The weights (k, rows, targets) are of as many densities, of one system. These and normals
        do not change. See `run`; `prepare_strain` was called.
        """
        task, xp, real = self.setup.task, self.p2p.sources.xp, self.p2p.dtype
        far, targets, sources = cast(FarStrain, self.far_strain), self.g2p.targets, self.p2g.sources
        rows, values = (xp.ascontiguousarray(each, dtype=real) for each in (dens, weights))
        shape = len(dens), self.sizes["trg"][1]
        sizes = {name: result_rows(task.kernel, name) for name in task.want} | {"strain": 9}
        near = {n: xp.empty((shape[0], size, shape[1]), dtype=real) for n, size in sizes.items()}
        self.p2p.apply(rows, self._buffer(len(dens)), near, weights=values)
        of_targets, factor = self.faxen.faxen_factors if self.faxen else (None, None)
        if factor is not None and factor.ndim and factor.shape[-1] > 1:
            factor = sources.sort(factor)
        for place, (density, w) in enumerate(zip(rows, values, strict=True)):
            norms = self.p2g.arguments["norms"]
            parts = parts_of(task.sum, sources.sort(density), norms, factor)
            far_field = far(targets, w, sources, parts, of_targets and of_targets["u"])
            strain[place] = far_field.reshape(9, 1) + self._by_system(near["strain"][place])
            constant = {"u": xp.zeros_like(weights[place])}
            if self.gauge is not None:
                self.gauge.add(dens[place], constant)
            strain[place, ::4] -= self._by_system(weights[place] * constant["u"]).sum(axis=0)

    def _by_system(self, rows: AnyArray) -> Any:
        """Return the sums of rows (rows, targets) over each system, in double precision."""
        if self.systems is not None:
            return self.systems.sums(rows.astype(np.float64, copy=False))
        return rows.sum(axis=1, dtype=np.float64, keepdims=True)

    def prepare_strain(self, twice: bool = False) -> None:
        """Make the tables that strains take, perhaps two at once, or fill them for another box."""
        self.place()  # whose grid they are for
        if self.far_strain is None:
            self.far_strain = FarStrain(self.fgc, self.setup.split)
        self.far_strain.prepare(twice)

    def place(self) -> None:
        """Place the far field, if it was left for the first near field."""
        to_place, self._to_place = self._to_place, None
        if to_place is not None:
            to_place()

    def near(self, dens: AnyArray, lists: bool = True) -> Any:
        """Return the near field alone of a density (rows, sources): the rows of all results.

        ``lists`` says whether P2P may keep and take lists of pairs.
        """
        real = self.p2p.dtype
        results = self.p2p.sources.xp.empty((self.rows, self.sizes["trg"][1]), dtype=real)
        dens = dens.astype(real, copy=False)[None]
        by_name = {name: rows[None] for name, rows in self._by_name(results).items()}
        self.p2p.apply(dens, self._buffers[1], by_name, lists)
        return results

    @property
    def rows(self) -> int:
        """Rows of all results."""
        task = self.setup.task
        return sum(result_rows(task.kernel, name) for name in task.want)

    def _by_name(self, rows: AnyArray) -> dict[str, Any]:
        """Return the rows of each result, which follow each other."""
        task, by_name, start = self.setup.task, dict[str, Any](), 0
        for name in task.want:
            end = start + result_rows(task.kernel, name)
            by_name[name], start = rows[start:end], end
        return by_name

    @property
    def standard_normal(self) -> tuple[int, ...]:
        """The shape of the grid of noise."""
        return (self.fgc.inputs, *self.setup.mesh.stored)

    def brownian_noise(self, arrays: dict[str, AnyArray]) -> None:
        """Overwrite "noise" (rows, targets) with noise whose covariance is the far field's matrix.

        "standard_normal" has normal numbers on the grid.
        """
        standard_normal, xp = arrays["standard_normal"], self.p2p.sources.xp
        if self.grids > 1:  # the second grid takes the Laplacian of the first one
            standard_normal = xp.concatenate(
                [standard_normal, xp.zeros_like(standard_normal)], axis=2
            )
        arrays["noise"].fill(0)
        field, by_name = self.fgc.brownian_noise(standard_normal), self._by_name(arrays["noise"])
        self.g2p.apply(field, by_name)
        if self.faxen is not None:
            self.faxen.gather(self.g2p, field, by_name, self.count)

    def _apart(self, sources: int) -> bool:
        """Return whether near and far field are recorded, as branches of a graph.

        Each launch of few points leaves most of a device idle.
        """
        return sources <= APART and bool(self.setup.task.space.adapter.capturing())

    def _far_field(
        self,
        dens: AnyArray,
        watch: Watch = unwatched,
        buffer: Any = None,
        fields: list[Any] | None = None,
        modes: list[dict[int, Any]] | None = None,
        changed: Changed | None = None,
    ) -> Any:
        """Return the field of densities whose grids there is memory for; add it to ``fields``.

        ``buffer`` has memory for the sorted density, if P2P uses the common one at the same time.
        ``modes`` takes what `FarStrain.of_modes` needs of the grid, and ``changed`` is as for
        `FGC.multiply`.
        """
        sums = None
        if modes is not None:
            sums = dict[int, Any]()
            modes.append(sums)
        with watch("P2G"):
            grid, planes = self.spread(dens, buffer)
        with watch("FGC"):
            fgc = self.grid_sets[len(dens)][1] if len(dens) > 1 else self.fgc
            plane = self.p2g.sources.xp.concatenate(planes, axis=1) if planes else None
            field = fgc.apply(grid, plane, sums, changed)
        if fields is not None:
            fields.append(field)
        return field

    def spread(self, dens: AnyArray, buffer: AnyArray = None) -> tuple[Any, list[Any]]:
        """Return densities (k, rows, sources) on the grid, side by side, and modes of planes.

        There are such modes, of each grid, where sources are in planes along a free axis.
        ``buffer`` has memory for a sorted density. Default: P2P's memory.
        """
        buffer, planes = self.sorted if buffer is None else buffer, list[Any]()
        grids = self.grid_sets[len(dens)][0] if len(dens) > 1 else None
        for place, density in enumerate(dens):
            parts = [density] if self.faxen is None else self.faxen.densities(density)
            for number, part in enumerate(parts):
                first = place * self.grids + number * self.count
                grid = self.p2g.apply(part, buffer, grids, first)
                if self.plane is not None:
                    planes.append(self.plane.apply(buffer if self.p2g.sorts else part))
        return grid, planes

    def gather(
        self, field: AnyArray, dens: AnyArray, results: dict[str, AnyArray], place: int = 0
    ) -> None:
        """Add the far field of one density to its results (rows, targets), and the gauge.

        ``place`` is the number of the density in the field. The gauge takes the density as it was
        given, in double precision where it is rounded for the rest.
        """
        first = place * self.grids
        self.g2p.apply(field, results, first)
        if self.faxen is not None:
            self.faxen.gather(self.g2p, field, results, first + self.count)
        if self.gauge is not None:
            self.gauge.add(dens, results)

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
        mesh, space = self.setup.mesh, self.setup.task.space
        if not self.p2g.several or not space.on_device:
            return 1
        names = ("grid", "modes", "padded block", "transforms")
        bytes_of_one = sum(self.memory.parts[name] for name in names)
        for most in [n for n in GRIDS if n <= many]:
            if most not in self.grid_sets and most * bytes_of_one <= PART * free_memory(space):
                sets = most * self.grids
                declared = grid_buffers(mesh.task, mesh.padding, mesh.stored, sets)
                xp, grid = mesh.task.xp, declared["grid"]
                grids = xp.empty(grid.shape, dtype=grid.dtype)
                fgc = FGC(mesh, self.setup.split, grids.reshape(-1), sets, self.fgc)
                self.grid_sets[most] = grids[: mesh.task.sum.components], fgc
            if most in self.grid_sets:
                return most
        return 1
