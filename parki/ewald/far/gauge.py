"""What grid and pairs do not fix, `Constants`; and what the grid rounds too much, `PlaneModes`.

The gauges of `parki.ewald.sums.gauges` are for densities that do not add up to zero. The triply
periodic double layer is fixed up to a linear function only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import add, mul
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parki.ewald.far.fading import zero_mode
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.far.sizes import sizes_of
from parki.ewald.geometry.systems import Systems
from parki.ewald.lattice import Lattice
from parki.ewald.solver_box import SolverBox
from parki.ewald.split.protocol import Split
from parki.ewald.sums.gauges import Ends
from parki.ewald.task import Task
from parki.interchange import real_name
from parki.runtime import Kernel, load
from parki.typing import AnyArray

Array = NDArray[np.float64]
SHORT = 200_000  # numbers of a row that a single block of a device adds up in time


class Constants:
    """What a plan adds to the sums of grid and pairs.

    Parameters
    ----------
    mesh : EwaldMesh
    split : Split
        Solver units.
    background : float
        Integral of what near and far field have per unit of a density, apart from the mode k = 0,
        which they leave out; of triply periodic sums with a background.
    arrays : dict
        "trg", "src" and "norms", as they were given: in the user's unit, not wrapped. The double
        layer with a mean of zero flux takes them.
    widths : tuple of 2 arrays, shapes (Nt,) and (Ns,), or None
        Squares of the widths of targets and sources that are Gaussians, in solver units.
    together : callable, optional
        Adds up arrays of all ranks, where these share the sources out.
    systems : Systems, optional
        Which targets and sources are together. Default: all.
    """

    def __init__(
        self,
        mesh: EwaldMesh,
        split: Split,
        background: float,
        arrays: dict[str, AnyArray],
        widths: tuple[Any, Any] | None = None,
        *,
        together: Callable[[Any], Any] | None = None,
        systems: Systems | None = None,
    ) -> None:
        self.together, self.systems = together, systems
        self.xp, kind = mesh.task.xp, mesh.task.sum
        self.rows = kind.results
        self.points: Any = None
        self.task = mesh.task
        if mesh.task.flux:
            names = ("src", "norms") if arrays["src"] is arrays["trg"] else ("trg", "src", "norms")
            exact = {name: self.xp.empty(arrays[name].shape) for name in names}
            for name, copy in exact.items():  # the caller's arrays may change
                mesh.space.adapter.copy(copy, arrays[name])
            self.points = exact.get("trg", exact["src"]), exact["src"], exact["norms"]
        self.constant: Any = None
        # Over the volume in the user's unit, as points and normals are given.
        self.flux = 8 * np.pi * mesh.solver_box.factor**3 / mesh.solver_box.lattice.volume
        column: Callable[[SolverBox], Any] | None = None  # a row for each result
        if kind.gauge and mesh.periodicity < 3:
            gauge = kind.gauge

            def column(box: SolverBox) -> Any:
                return box.factor * gauge.ends(_ends(mesh, split, box.lattice))

        elif kind.gauge and kind.gauge.background:

            def column(box: SolverBox) -> Any:
                return -background * box.factor / box.lattice.volumes[None]

        if column is not None:
            # With little screening it is far larger than the rest: its own rounding would show.
            dtype = np.float64 if split.screening or split.alpha else mesh.dtype
            self.constant = mesh.solver_box.constant(mesh.space, "gauge", column, dtype)
        self.widths: Any = None  # what multiplies the constant: Gaussians have pi w^2 less
        if widths is not None and self.constant is not None and mesh.periodicity == 3:
            rate = mesh.dtype.type(-np.pi / background)
            self.widths = tuple(rate * width for width in widths)

    @staticmethod
    def needed(mesh: EwaldMesh) -> bool:
        """Return whether there is anything to add to the sums of a mesh."""
        gauge = mesh.task.sum.gauge
        ends = gauge is not None and (mesh.periodicity < 3 or gauge.background)
        return bool(mesh.task.flux or ends)

    def add(self, dens: AnyArray, results: dict[str, AnyArray]) -> None:
        """Add to the results (rows, targets) what belongs to a density (rows, sources)."""
        if self.constant is not None and "u" in results:
            dtype = np.result_type(dens.dtype, self.constant.dtype)
            rows = dens[: self.rows].astype(dtype, copy=False)
            total = self._total(rows, self.constant)
            results["u"] += total
            if self.widths is not None:
                of_targets, of_sources = self.widths
                results["u"] += of_targets * total + self._total(of_sources * rows, self.constant)
        if self.points is None:
            return
        # In double precision, whatever the arithmetic: see ``kernels/flux.py``.
        trg, src, norms = self.points
        moments = self.xp.zeros((4, src.shape[1]))
        for q, normal in zip(dens[-3:], norms, strict=True):  # rows fit into a CPU's cache
            moments[3] += self.xp.multiply(q, normal, dtype=np.float64)
        self.xp.multiply(src, moments[3], out=moments[:3])
        sums = self.xp.ascontiguousarray(self._total(moments))
        if "u" in results:
            u, each, factor = results["u"], int(sums.shape[1] > 1), self.flux
            add_linear = flux_kernel(self.task, u.dtype)
            add_linear(u.shape[1], each=each, sums=sums, trg=trg, factor=factor, u=u)
        if "grad_u" in results:
            slope = self.flux * sums[3:]
            results["grad_u"][::4] -= slope.astype(results["grad_u"].dtype, copy=False)

    def _total(self, rows: AnyArray, factor: Any = None) -> Any:
        """Return the sums of rows that targets see, shape (rows, 1) or (rows, targets).

        Times a factor, of each system perhaps.
        """
        if self.systems is not None:
            sums = self.systems.sums(rows)
            return self.systems.of_targets(sums if factor is None else factor * sums)
        if self.xp is np or rows.shape[1] <= SHORT:
            sums = rows.sum(axis=1, keepdims=True)
        else:  # CuPy gives each row to a single block: long ones are added up one at a time
            sums = self.xp.empty((len(rows), 1), dtype=rows.dtype)
            for place, row in enumerate(rows):  # what `stack` uploads, no graph would keep
                sums[place] = row.sum()
        sums = sums if self.together is None else self.together(sums)
        return sums if factor is None else factor * sums


def flux_kernel(task: Task, dtype: DTypeLike, name: str = "add_linear") -> Kernel:
    """Return a kernel of the mean without flux, for results or densities of a type."""
    return load("flux", name, task.space, executor=task.executor, REAL=real_name(dtype))


def _ends(mesh: EwaldMesh, split: Split, lattice: Lattice) -> Ends:
    """Return the numbers of kernels that end, for the gauges of free axes."""
    padding, enclosed = mesh.padding, lattice.enclosed
    sides = lattice.sides[:, None] if enclosed is None else enclosed.sides.T
    edges = np.where(np.array(lattice.periodic)[:, None], sides, padding.period)
    order, screening = mesh.task.sum.symbol.order, split.screening or split.alpha
    mean = zero_mode(order, lattice.periodicity, padding, screening) / np.prod(edges, axis=0)
    mean *= split.amplitude
    log = np.log(padding.radius * mesh.solver_box.unit)
    return Ends(lattice.periodicity, sides, padding.radius, log, mean)


# Number of modes. With 16 the error that is smooth along z falls by 30 (a box of 1:1:30) to 100
# (1:1:300), below the rounding elsewhere.
MODES = 16
PIECE = 128  # points whose modes one work item sums
# Least height of a box over its width: in lower boxes other rounding is larger than this one.
HIGH = 3.0


class PlaneModes:
    """The lowest modes of the flow's average over a plane, summed without the grid.

    A 2-periodic double layer's average over planes is a step, ``sign(z - z_s)``, across each
    source. The grid makes it from the window's derivative, whose plane sums nearly vanish, and from
    a kernel that grows as R^2. In single precision the rounding of the grid and of its transforms
    reached 75 promises in a box of 1:1:30. Rounding is the same in all modes, but the kernel falls
    as ``1 / k^2``, so that the lowest few modes have nearly all of the error. They are replaced by
    sums over the sources in double precision, with the exact derivative:

        A_j^(k) = sum_s [ f_j + i k (q_j n_3 + n_j q_3) ] e^(-i k z_s) ,  j = 1, 2

    times the factors of the window and the grid. For force dipoles -D_j3 stands in place of
    ``q_j n_3 + n_j q_3``, and for charges' dipoles -d_3, in the only component. Charges add q, and
    quadrupoles -k^2 Q_33. Spheres have a second grid, of their density times a square of radii.

    Parameters
    ----------
    mesh : EwaldMesh
        Mesh with two periodic directions.
    heights : array, shape (N,)
        z of the sources in solver units, wrapped, in the order of the densities that follow.
    norms : array, shape (3, N), or None
        Normals of the sources in solver units, if they have any.
    systems : Systems, optional
        Systems, each with modes of its own.
    """

    def __init__(
        self, mesh: EwaldMesh, heights: AnyArray, norms: AnyArray, systems: Systems | None = None
    ) -> None:
        self.xp, self.sources = mesh.task.xp, mesh.task.sum.sources
        self.rows = min(2, mesh.task.sum.components)
        self.heights, self.norms, self.systems = heights, norms, systems
        length, step = mesh.padding.local[2], float(mesh.steps[2])
        angles = 2 * np.pi / length * np.arange(1, min(MODES, length // 2 - 1) + 1)
        self.kernel = load(
            "fgc", "sum_lowest_modes", mesh.space, executor=mesh.executor, MODES=MODES
        )
        self.lowest = angles[0] / step
        # A device sums pieces of points side by side; the modes of a system are summed together.
        self.offsets, self.chunk = None, sizes_of(mesh.space.on_device).plane
        if systems is not None:
            self.offsets, self.chunk = systems.arrays[0], max(1, heights.size)
        # The grid starts at half a window before the points, in steps.
        shift = np.exp(-1j * angles * (mesh.window.points / 2 - 1))
        factor = mesh.window.fourier(angles) * mesh.window.fourier(0.0) ** 2 * shift
        self.factor = mesh.space.adapter.constant(factor, np.complex128)
        self.slope = mesh.space.adapter.constant(1j * angles / step, np.complex128)

    @staticmethod
    def needed(mesh: EwaldMesh) -> bool:
        """Return whether the grid's own modes exceed the rounding elsewhere."""
        wide = float(mesh.box[0] * mesh.box[1]) ** 0.5
        if (enclosed := mesh.solver_box.lattice.enclosed) is not None:
            wide = (enclosed.volume / float(mesh.box[2])) ** 0.5  # of the smallest one
        return (
            mesh.task.sum.gradient
            and mesh.periodicity == 2
            and mesh.dtype == np.float32
            and float(mesh.box[2]) >= HIGH * wide
        )

    def apply(self, dens: AnyArray) -> Any:
        """Return components 1 and 2 of the modes, or the only one, for ``dens`` (rows, N).

        Shape (2, systems, modes) or (1, systems, modes).
        """
        powers, total = tuple[int, ...](), cast(Any, 0)
        for start in range(0, max(1, self.heights.size), self.chunk):
            part = slice(start, start + self.chunk)
            powers, weights = zip(*self._weights(dens, part), strict=True)
            total = total + self._sums(self.xp.concatenate(weights), self.heights[part])
        modes = total.reshape(len(powers), self.rows, MODES, 2, -1)[:, :, : self.slope.size]
        modes = (modes[..., 0, :] + 1j * modes[..., 1, :]).swapaxes(2, 3)
        slopes = [self.slope**power for power in powers]
        return reduce(add, map(mul, slopes, modes)) * self.factor

    def _sums(self, weights: AnyArray, heights: AnyArray) -> Any:
        """Return the sums of weights (rows, N) times waves, shape (2 rows modes, systems)."""
        xp, size = self.xp, heights.size
        rotation = xp.exp(-1j * self.lowest * heights.astype(np.float64))
        offsets = self.offsets
        if offsets is None:
            offsets = xp.minimum(xp.arange(0, max(1, size) + PIECE, PIECE, dtype=np.int32), size)
        pieces = offsets.size - 1
        sums = xp.empty((2 * MODES * len(weights), pieces))
        self.kernel(
            len(weights) * pieces,
            rotation=rotation.view(np.float64).reshape(-1, 2),
            weights=weights,
            offsets=offsets,
            pieces=pieces,
            sums=sums,
        )
        return sums if self.systems else sums.sum(axis=1, keepdims=True)

    def _weights(self, dens: AnyArray, part: slice) -> Iterator[tuple[int, Any]]:
        """Return the power of the wavenumber and weights (components, points) of each source."""
        first = 0
        for source in self.sources:
            rows = dens[first : first + source.rows, part].astype(np.float64)
            first += source.rows
            if source.normal:
                n = self.norms[:, part].astype(np.float64)
                yield 1, rows[:2] * n[2] + n[:2] * rows[2]
            elif source.curvature:
                yield 2, rows[-1:]
            elif source.gradient:
                yield 1, -rows[2::3][: self.rows]
            else:
                yield 0, rows[: self.rows]
