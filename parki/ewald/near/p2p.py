"""P2P on the host side: sorts sources and targets for the near field, and launches it.

It takes points as they were given, and the radial polynomials. Moving points into the box would
round them, and with them the distances of close pairs. So free axes keep their corner, and periodic
ones are wrapped to -box/2 ... box/2, which is exact, except along tilted axes. The pressure and the
gradient have a kernel of their own, which walks the same cells. The variants of the literature,
which walk other cells, are described in `parki.ewald.near.near_field`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from parki.cells.runs import runs
from parki.cells.sorted_points import with_spare
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.near.near_field import NearField
from parki.ewald.near.p2p_kernels import (
    derived_sum,
    near_kernel,
    near_kernels,
    slopes_kernel,
    stages,
    together,
)
from parki.ewald.near.p2p_labels import LabelledPairs
from parki.ewald.near.p2p_lists import FORGETS, PairLists
from parki.ewald.near.p2p_points import digit_of, near_cells, position_arguments, sort_points
from parki.ewald.near.sizes import (
    Tile,
    copied_at_once,
    near_tile,
    tile_of_slopes,
)
from parki.ewald.solver_box import SolverBox
from parki.ewald.sums import SUMS, in_unit
from parki.runtime import Kernel
from parki.settings import MOST_THREADS
from parki.typing import AnyArray

# Densities that are summed at a time, the most first; each number has a kernel. On a CPU with
# AVX-512 four take 1.1 (Laplace) to 2.8 times (dipoles) as long as one. The sums of four fill 12 of
# its 32 registers; the sums of eight would fill 24.
TOGETHER = (4, 2, 1)
# Targets whose near field one CPU thread computes in about the time that another takes to wake.
FEW = 256
MOST_OUTPUTS = 3  # most rows of a result for which several densities are summed at a time


class P2P:
    """The near field for fixed points.

    Parameters
    ----------
    near : NearField
    solver_box : SolverBox
        The origin has no effect along periodic axes.
    trg, src : array, shape (3, N)
        Points in the user's unit, not wrapped.
    norms : array, shape (3, N), or None
        Normals in solver units, in the order given.
    tensors : array, shape (10, N), optional
        Tensors of the targets, in the order given and in the user's unit.
    point_radii : tuple of 2 arrays, shapes (Nt,) and (Ns,), optional
        Marks of the targets and of the sources in solver units, in the order given.
    stretch : tuple of 2 floats, optional
        Part of the first axis, in solver units, that holds all points and has none of their images
        in reach; cells cover this part. Points must be wrapped into it. Default: the box.
    systems : Systems, optional
        Which targets and sources belong together. Default: all.
    labels : Labels, optional
        Labels of the points, where pairs are left out.
    before : P2P, optional
        For other points, whose kernels are taken if they are the same.

    Attributes
    ----------
    kernels : dict of str to Kernel
        See `near_kernels`.
    special, gradients : callable
        ``special(lists, many)``: kernels of the potential, see `near_kernel`; and of a strain.
    cut : callable
        Returns tiles, given the most targets of a tile.
    overlap_correction : P2P or None
        What is added for pairs that may overlap: see `Interaction.overlap_correction`.
    labelled : LabelledPairs or None
        What is added for pairs of equal labels, which the other kernels skip.
    lists : PairLists or None
        A tile's lists of sources, kept for other densities unless the task is deterministic.
    """

    kernels: dict[str, Kernel]
    special: Callable[..., Kernel]
    gradients: Callable[..., Kernel]
    near: NearField
    tile: Tile

    def __init__(
        self,
        near: NearField,
        solver_box: SolverBox,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray,
        *,
        tensors: AnyArray = None,
        point_radii: tuple[Any, Any] | None = None,
        stretch: tuple[float, float] | None = None,
        systems: Systems | None = None,
        labels: Labels | None = None,
        before: P2P | None = None,
    ) -> None:
        task, cutoff, factor = near.task, near.cutoff, solver_box.factor
        space, executor, constant = task.space, task.executor, task.space.adapter.constant
        self.near, self.dtype = near, task.dtype
        launch = near.launch
        tile = near_tile(space, near.method, trg.shape[1], near.read, self.dtype)
        self._spare = copied_at_once(space, self.dtype) - 1
        cells = near_cells(near, solver_box, src.shape[1], stretch=stretch, systems=systems)
        self.targets, self.sources = sort_points(
            task, solver_box, cells, trg, src, systems=systems, spare=self._spare
        )
        targets = self.targets

        def cut(size: int) -> Any:
            # A tile never spans two columns: its bounding box would span the box.
            length = cells.counts[2] if launch is None else 1
            n = targets.order.size
            return runs(space, targets.starts, size, n, length=length, executor=executor)

        size = tile.targets if launch is None else launch.targets
        self.cut, self.tiles = cut, cut(size)
        if before is not None and before.near is near and before.tile == tile:
            self.kernels, self.special = before.kernels, before.special
            self.gradients = before.gradients
        else:
            self.kernels = near_kernels(near, tile)
            self.special = cache(partial(near_kernel, near, tile))
            self.gradients = cache(partial(slopes_kernel, near, tile))
        kernels, special = self.kernels, self.special
        self.norms = None
        if norms is not None:
            self.norms = self.sources.sort(norms, out=self.buffer(3))
            self.norms *= 1 / cutoff  # as normals were by their factor: one kernel on a device
        self.lists: PairLists | None = None
        self.point_radii: Any = None  # of the sorted sources, over r_c to their power
        if point_radii is not None:
            unit = cutoff ** -(task.sum.pair.point_radii or 0)
            of_targets, self.point_radii = (
                self.dtype.type(unit) * points.sort(marks)
                for points, marks in zip((self.targets, self.sources), point_radii, strict=True)
            )
        lengths = task.sum.lengths
        self.unit: Any = None  # of the rows of a density over r_c, where they differ
        if lengths is not None:
            self.unit = constant(cutoff ** -lengths.astype(float), self.dtype)
        self.rows = task.sum.near_rows
        self.slopes = task.slopes
        self.together: tuple[int, ...] = (1,)
        if launch is None and task.sum.results <= MOST_OUTPUTS:
            self.together = TOGETHER[self.slopes :]
        # On a CPU three densities, and a fourth one of zeros, take less time than two and one.
        self.full = 3 / 4 if stages(near) else 1.0
        self.launches: dict[str, Callable[..., None]] = {}
        few = not space.on_device and trg.shape[1] <= FEW
        self.threads, self.tile = 1 if few else MOST_THREADS, tile
        if "u" in kernels:
            count = self.tiles.shape[1]

            def velocity(many: int, arguments: dict[str, Any]) -> None:
                kernel = special(FORGETS, many) if launch is None else kernels["u"]
                kernel(count, self.threads, arguments=arguments)

            self.launches["u"] = velocity
            if near.method == "tile":
                keep, lanes = not task.options.deterministic, tile.targets * tile.lanes
                self.launches["u"] = self.lists = PairLists(space, special, count, lanes, keep)
        by = self.derivatives() if "derivatives" in kernels else None
        if by is not None:
            self.launches["derivatives"] = by.launch
            if isinstance(by.launch, PairLists) and self.lists is None:
                self.lists = by.launch

        self._derived: dict[tuple[bool, bool], tuple[Derivatives, dict[str, Any]]] = {}
        self._moment = cutoff * solver_box.unit
        rate = factor / cutoff  # its powers may overflow, which ** would refuse
        power = rate ** (task.sum.pair.power - 1)
        self.rate = self.dtype.type(rate)
        self._units = rate, power
        # `p2p` itself divides by r_c once.
        self.launch_arguments: dict[str, dict[str, Any]] = {}
        if "u" in kernels:
            radial = kernels["u"].table(near.table, self.dtype)
            xi_rc = near.evaluator.xi_rc if near.evaluator else 0.0
            self.launch_arguments["u"] = {
                "factor": factor * power,
                "radial": radial,
                "xi_rc": xi_rc,
                "tiles": self.tiles,
            }
        if by is not None:
            names = task.sum.derivative_tables(task.want, together(near))
            arguments = self.of_derivatives(by, near.rows(names), tensors)
            self.launch_arguments["derivatives"] = arguments
        digit = digit_of(task, solver_box)
        self.arguments = position_arguments(
            near, solver_box, cells, targets, self.sources, digit=digit
        )
        self.arguments["norms"] = self.norms
        if point_radii is not None:
            self.arguments["trg"] = self._numbered(self.arguments["trg"], of_targets)
        self.overlap_correction: P2P | None = None  # adds pairs that may overlap
        if task.sum.overlap_correction:
            rest = SUMS[in_unit(task.sum.overlap_correction, solver_box.unit)].pair
            close = near._replace(
                task=task.of_overlap, cutoff=rest.least, lengths=rest.numbers(rest.least)
            )
            self.overlap_correction = P2P(
                close,
                solver_box,
                trg,
                src,
                norms,
                point_radii=point_radii,
                stretch=stretch,
                systems=systems,
            )
        self.labelled = None
        if labels is not None:
            _, numbers = labels.placed(space)
            for name, points, of_points in zip(
                ("trg", "src"), (targets, self.sources), numbers, strict=True
            ):
                row = points.sort(of_points.astype(self.dtype))
                self.arguments[name] = self._numbered(self.arguments[name], row)

            normals = None if norms is None else norms / cutoff
            shared = (
                self.arguments
                | self.launch_arguments.get("u", {})
                | self.launch_arguments.get("derivatives", {})
            )
            self.labelled = LabelledPairs(
                near,
                solver_box,
                labels,
                points=(trg, src),
                norms=normals,
                digit=digit,
                arguments=shared,
                together=self.together,
            )

    def derived(self, strain: bool, moved: bool) -> tuple[Derivatives, dict[str, Any]]:
        """Return the derivatives that also sum values, if these are wanted, and their arguments.

        With ``strain`` along with those by strains; of charges that are ``moved`` their changes.
        """
        if (strain, moved) not in self._derived:
            by = self.derivatives(strain=strain, moved=moved)
            kind, want = derived_sum(self.near.task, moved), self.near.task.want
            rows = self.near.rows(kind.derivative_tables(want, "u" in want))
            arguments = self.of_derivatives(by, rows, None)
            arguments["derivative_scale"] = self._moment * arguments["scale"]
            self._derived[strain, moved] = by, arguments
        return self._derived[strain, moved]

    def derivatives(self, *, strain: bool = False, moved: bool = False) -> Derivatives:
        """Return a kernel of derivatives, its tiles, and its launch, by lists on a device.

        ``strain`` and ``moved`` are as for `slopes_kernel`.
        """
        near, task = self.near, self.near.task
        special = partial(self.gradients, strain=strain, moved=moved)
        kernel, tiles = special(), self.tiles
        if stages(near):
            count, threads = tiles.shape[1], self.threads
            return Derivatives(kernel, tiles, lambda _, a: kernel(count, threads, arguments=a))
        tile = tile_of_slopes(near.method, self.tile)
        if near.method != "tile":
            tiles = self.cut(tile.targets)
        keep, lanes = not task.options.deterministic, tile.targets * tile.lanes
        launch = PairLists(task.space, special, tiles.shape[1], lanes, keep)
        return Derivatives(kernel, tiles, launch)

    def of_derivatives(self, by: Derivatives, rows: AnyArray, tensors: AnyArray) -> dict[str, Any]:
        """Return the arguments of derivatives, with ``rows`` of polynomials."""
        rate, power = self._units
        scale = rate * rate * power
        return {
            "tiles": by.tiles,
            "radial": by.kernel.table(rows, self.dtype),
            "gentle": rate * power,
            "scale": scale,
            "derivative_scale": rate * scale,
            "tensors": tensors,
            "motion": None,
        }

    def scaled(self, dens: AnyArray) -> Any:
        """Return densities (..., rows, sources) over r_c to the powers of their rows."""
        return dens if self.unit is None else dens * self.unit

    def _numbered(self, points: AnyArray, row: AnyArray) -> Any:
        """Return sorted points with a fourth row, of a number for each."""
        rows = self.sources.xp.zeros((4, points.shape[1]), dtype=self.dtype)
        rows[:3], rows[3, : row.size] = points, row
        return rows

    def most(self, many: int) -> int:
        """Return the number of densities that a kernel takes at a time, of ``many``.

        Zeros may take the place of one that there is not.
        """
        return next(n for n in self.together if self.full * n <= many)

    def buffer(self, rows: int) -> Any:
        """Return memory for ``rows`` rows of sorted sources, with columns of zeros beyond them."""
        sources = self.sources
        return with_spare(sources.xp, (rows, sources.order.size), self._spare, self.dtype)

    def apply(
        self,
        dens: AnyArray,
        buffer: AnyArray,
        results: dict[str, AnyArray],
        lists: bool = True,
        weights: AnyArray = None,
        motion: AnyArray = None,
    ) -> None:
        """Overwrite ``results`` with the near field of densities (k, rows, sources).

        ``buffer`` comes from `buffer`, with the rows of `most` densities, and takes the sorted
        densities. Results have shape (k, rows, targets): 1 or 3 rows of "u", 1 of "p", 3 or 9 of
        "grad_u", 3 of "grad_tensor". ``lists`` says whether lists of pairs may be kept and taken.

        With weights w of "u", shape (k, rows, targets), "strain" has 9 rows, of which 3 a + b is
        what the near field of a target gains of w.u by a strain ``dx_a = x_b`` of points and box.
        With a ``motion`` (3, 3) in the dtype of the arithmetic, u is its own change as points
        and box move by ``motion x``.
        """
        done, rows, xp = 0, self.rows, self.sources.xp
        if self.lists is not None and not self.lists.kept:
            # Lists that the second density would begin wait for the device, which ends a recording.
            lists = lists and not self.sources.space.adapter.capturing()
        launches, derived = self.launches, self.launch_arguments.get("derivatives", {})
        if weights is not None or motion is not None:
            by, derived = self.derived(weights is not None, motion is not None)
            launches, lists = {"derivatives": by.launch}, False
            derived = derived | {"motion": motion}
        rows_of_dens = rows - (self.point_radii is not None)
        while done < len(dens):
            # The sum that keeps lists takes one density.
            most = 1 if lists and self.lists is not None and self.lists.due else len(dens) - done
            many = 1 if most == 1 else self.most(most)
            part = slice(done, done + min(many, most))
            buffer[len(dens[part]) * rows : many * rows] = 0
            for place, density in enumerate(dens[part]):
                first = place * rows
                self.sources.sort(density, out=buffer[first : first + rows_of_dens])
                if self.unit is not None:
                    buffer[first : first + rows_of_dens] *= self.unit
                if self.point_radii is not None:
                    buffer[first + rows_of_dens, : self.point_radii.size] = self.point_radii
            if "u" in launches:
                sums = pot = results["grad_u" if self.slopes else "u"][part]
                if len(pot) < many or self.slopes:
                    count = pot.shape[1] * 4 // 3 if self.slopes else pot.shape[1]
                    sums = xp.empty((many, count, pot.shape[2]), dtype=pot.dtype)
                launch = launches["u"]
                if not lists and isinstance(launch, PairLists):
                    launch = launch.without
                flat = sums.reshape(-1, sums.shape[-1])
                launch(
                    many,
                    {**self.arguments, **self.launch_arguments["u"], "dens": buffer, "pot": flat},
                )
                if self.slopes:
                    np.multiply(sums[: len(pot), 1:], self.rate, out=pot)
                    if "u" in results:
                        results["u"][part] = sums[: len(pot), :1]
                elif sums is not pot:
                    pot[...] = sums[: len(pot)]
            if "derivatives" in launches:
                launch = launches["derivatives"]
                if not lists and isinstance(launch, PairLists):
                    launch = launch.without
                for place in range(len(dens[part])):
                    one = {name: array[done + place] for name, array in results.items()}
                    arguments = {
                        **self.arguments,
                        **derived,
                        "dens": buffer[place * rows : (place + 1) * rows],
                        "pot": one.get("u"),
                        "pressure": one.get("p"),
                        "gradient": one.get("grad_u"),
                        "pull": one.get("strain", one.get("grad_tensor")),
                    }
                    if weights is not None:
                        arguments["tensors"] = weights[done + place]
                    launch(1, arguments)
            done = part.stop
        if self.overlap_correction is not None:
            self.overlap_correction.add(dens, results, weights)
        if self.labelled is not None:
            self.labelled.add(self.scaled(dens), results, derived, weights, motion is not None)

    def add(self, dens: AnyArray, results: dict[str, AnyArray], weights: AnyArray = None) -> None:
        """Add the near field of densities to ``results``, as `apply` makes it."""
        buffer, xp = self.buffer(self.rows), self.sources.xp
        for place, density in enumerate(dens):
            more = {name: xp.empty_like(array[:1]) for name, array in results.items()}
            weights_of_one = None if weights is None else weights[place : place + 1]
            self.apply(density[None], buffer, more, lists=False, weights=weights_of_one)
            for name, array in more.items():
                results[name][place] += array[0]


class Derivatives(NamedTuple):
    """Derivatives: their kernel, tiles, and what launches it for a number of densities, 1."""

    kernel: Kernel
    tiles: Any
    launch: Callable[..., None]
