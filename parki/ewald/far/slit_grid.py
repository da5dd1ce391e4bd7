"""`SlitGrid`: sums of the flows between two walls over many points and modes, on a grid.

Points are spread onto a grid that is periodic along the walls and reaches half a window beyond
each of them. In the plane FFTs make modes. Across the walls the flows are exponentials, so that the
window's transform at an imaginary wave number, ``W(q)``, undoes it there: tables of the flows at
the planes of the grid have c / W, s / W, (y c - rho s) / W and (y s - rho c) / W, with
``rho = q W' / W``. The same tables serve sources and targets, so that transposes are exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.fft
from scipy.special import i0

from parki.cells.cell_grid import CellGrid, locate, multiplied
from parki.ewald.far.g2p import G2P
from parki.ewald.far.mesh import Fields, Mesh
from parki.ewald.far.p2g import P2G
from parki.ewald.far.slit_modes import Array, SlitModes
from parki.ewald.far.spreading import VARIANTS
from parki.ewald.far.transforms import DeviceTransforms
from parki.ewald.split.windows import kaiser_bessel
from parki.runtime import ExecutionSpace
from parki.runtime.forks import cached_property
from parki.settings import thread_count
from parki.typing import AnyArray, DType

REFINED = 1.5  # least number of grid points for each of the fewest that hold all modes
NARROW = 6  # points of windows that devices spread without tiles


class GridSize(NamedTuple):
    """Points of the grid along each axis, and of its window, with this shape for each of them."""

    shape: tuple[int, int, int]
    points: int
    sharpness: float

    @classmethod
    def of(cls, modes: SlitModes, digits: float, dtype: DType, count: int) -> GridSize:
        """Return the size for all modes and a number of points, by the digits of a tolerance.

        A finer grid takes windows of fewer points, whose errors are ``e^{-pi P sqrt(1 - 1/s)}``
        where it is s times as fine as all modes need. Its own points take about as long as the
        others where both are as many.
        """
        most = 16 if np.dtype(dtype) == np.float64 else 12
        edges = np.hypot(*modes.vectors.T)
        volume = abs(float(np.linalg.det(modes.vectors))) * modes.gap / max(1, count)
        step = min(modes.finest / REFINED, volume ** (1 / 3))
        refined = modes.finest / step
        width = digits * math.log(10) / (math.pi * math.sqrt(1 - 1 / refined))
        points = min(most, math.ceil(width + 0.5))
        x, y = (max(_even(edge / step), _even(points)) for edge in edges)
        return cls(
            (x, y, math.ceil(modes.gap / step) + points), points, math.pi * (1 - 0.5 / refined)
        )

    def bytes(self, dtype: DType, columns: int) -> float:
        """Return the memory that grids of sources and targets, fields and modes take."""
        copies = 2 + 1 + 1 + 2  # the last ones are the complex modes, and what a FFT takes
        return float(copies * columns * math.prod(self.shape) * np.dtype(dtype).itemsize)


class SlitGrid:
    """A grid for all modes.

    Parameters
    ----------
    modes : SlitModes
    size : GridSize
    space : ExecutionSpace
    dtype : dtype
        Of points and of the grid.
    """

    def __init__(
        self, modes: SlitModes, size: GridSize, space: ExecutionSpace, dtype: DType
    ) -> None:
        self.modes, self.space, self.dtype = modes, space, np.dtype(dtype)
        grid, width, self.columns = size.shape, size.points, modes.table.columns
        self.window = kaiser_bessel(width, size.sharpness * width)
        edges, planes = np.hypot(*modes.vectors.T), grid[2] + 1 - width
        step, (x, y, _) = modes.gap / (planes - 1), grid
        self.corner = np.array(
            [*(edges / (x, y) * (width / 2 - 1)), (modes.gap - planes * step) / 2]
        )
        box, steps = np.array([*edges, planes * step]), np.array([*(edges / (x, y)), step])
        usual = "hybrid" if width <= NARROW else "tile"
        fields = {"PLAIN": self.columns, "LAYERS": False}
        self.mesh = Mesh(
            space,
            self.dtype,
            Fields(fields, components=self.columns, results=self.columns),
            box,
            steps,
            cells=(x, y, planes),
            grid=grid,
            window=self.window,
            spread=usual if space.on_device else "owner",
            gather="tile" if space.on_device else "target",
        )
        xp = space.array_module
        heights = self.corner[2] + (np.arange(grid[2]) - (width / 2 - 1)) * step
        self._tables = xp.asarray(self._tables_at(heights, step))
        i, j = modes.numbers.T
        self._i, self._j = xp.asarray(i % x), xp.asarray(j)
        here = np.flatnonzero(j == 0)
        self._here, self._opposite = xp.asarray(here), xp.asarray(-i[here] % x)
        across = self.window.fourier(2 * np.pi * i / x) * self.window.fourier(2 * np.pi * j / y)
        self._across = xp.asarray(1 / across)[:, None]
        # Half of a real sum is of waves, and half of their opposites.
        self._halves = self._across / xp.asarray(np.where(modes.lengths, 2, 1))[:, None]
        in_edges = np.eye(3)
        in_edges[:2, :2] = edges[:, None] * np.linalg.inv(modes.vectors).T
        straight = np.allclose(in_edges, np.eye(3), atol=0)
        self._along = None if straight else xp.asarray(in_edges, dtype=self.dtype)

    def _tables_at(self, heights: Array, step: float) -> Array:
        """Return c, s, y c, y s at these heights without the window, (M, 4, planes)."""
        lengths, gap, width = self.modes.lengths[:, None], self.modes.gap, self.window.points
        q = lengths * step
        g = np.sqrt(self.window.beta**2 + (width * q / 2) ** 2)
        smoothed = width * np.sinh(g) / (g * i0(self.window.beta))
        rho = q * (1 / np.tanh(g) - 1 / g) * width**2 * q / (4 * g)
        y = lengths * (heights - gap / 2)
        up, down = np.exp(y - lengths * gap / 2), np.exp(-y - lengths * gap / 2)
        c, s = (up + down) / (2 * smoothed), (up - down) / (2 * smoothed)
        tables = np.stack([c, s, y * c - rho * s, y * s - rho * c], axis=1)
        from_middle, beta = heights - gap / 2, self.window.beta
        # The window's mean square, which is rho / q^2 where q vanishes.
        square = step**2 * (1 / np.tanh(beta) - 1 / beta) * width**2 / (4 * beta)
        functions = np.ones_like(heights), from_middle, heights * (gap - heights) + square
        tables[0] = [*(function / smoothed[0] for function in functions), 0 * heights]
        return tables

    def places(self, points: AnyArray) -> AnyArray:
        """Return points (3, N) in the grid's box, whose axes are its edges."""
        xp, adapter = self.space.array_module, self.space.adapter
        if self._along is not None:
            points = multiplied(points, self._along, self.space)
        moved = points - adapter.constant(self.corner[:, None], self.dtype)
        box = CellGrid((1, 1, 1), tuple(self.mesh.box), (True, True, False))
        return locate(xp.ascontiguousarray(moved), box, self.space)[0]

    # ------------------------------------------------------------------ planes and modes
    def moments(self, grid: AnyArray) -> AnyArray:
        """Return sums (4, M, c) over values (c, x, y, planes): see `PointsOnGrid.summed`."""
        xp, hat = self.space.array_module, self._forward(grid)[:, self._i, self._j]
        hat = xp.ascontiguousarray(xp.moveaxis(hat * self._across, 0, -1))  # (M, planes, c)
        return xp.moveaxis(self._product(self._tables, hat), 1, 0)

    def field(self, weights: AnyArray) -> AnyArray:
        """Return the real parts (c, x, y, planes) of sums over modes, with weights (4, M, c)."""
        xp, (x, y, z) = self.space.array_module, self.mesh.grid
        of_modes = xp.ascontiguousarray(xp.moveaxis(weights, 1, 0))  # (M, 4, c)
        planes = self._product(xp.ascontiguousarray(self._tables.swapaxes(1, 2)), of_modes)
        planes = xp.moveaxis(planes, -1, 0) * self._halves
        kind = np.result_type(self.dtype, np.complex64)
        hat = xp.zeros((len(planes), x, y // 2 + 1, z), dtype=kind)
        hat[:, self._i, self._j] = planes
        hat[:, self._opposite, 0] = planes[:, self._here].conj()
        return self._backward(hat, (x, y))

    def _product(self, real: AnyArray, numbers: AnyArray) -> AnyArray:
        """Return products of real matrices (M, a, b) and complex ones (M, b, c)."""
        if self.space.on_device:  # whose graphs have no products by a library of matrices
            return (real[..., None] * numbers[:, None]).sum(axis=2)
        return real @ numbers.real + 1j * (real @ numbers.imag)

    @cached_property
    def _transforms(self) -> DeviceTransforms:
        """Plans of a device. CuPy drops its own ones after some others; recordings need them."""
        grid = self.mesh.grid
        return DeviceTransforms(grid, grid[0], periodic=True)

    def _forward(self, grid: AnyArray) -> AnyArray:
        if not self.space.on_device:
            return scipy.fft.rfftn(grid, axes=(1, 2), workers=thread_count())
        count, x, y, layers = grid.shape
        kind = np.result_type(self.dtype, np.complex64)
        hat = self.space.array_module.empty((count, x, y // 2 + 1, layers), dtype=kind)
        self._transforms.columns(grid, hat, forward=True)
        return hat

    def _backward(self, hat: AnyArray, shape: tuple[int, int]) -> AnyArray:
        if not self.space.on_device:
            workers = thread_count()
            return scipy.fft.irfftn(hat, s=shape, axes=(1, 2), norm="forward", workers=workers)
        values = self.space.array_module.empty((len(hat), *shape, hat.shape[-1]), dtype=self.dtype)
        self._transforms.columns(values, hat, forward=False)
        return values


class PointsOnGrid:
    """Points on the grid, as sources or targets. A device may record all that is done here.

    Parameters
    ----------
    grid : SlitGrid
    points : array, shape (3, N)
        Between the walls.
    """

    def __init__(self, grid: SlitGrid, points: AnyArray) -> None:
        self._grid, self._count = grid, points.shape[1]
        self._places = grid.places(points)

    @cached_property
    def spread(self) -> P2G:
        """What spreads the points as sources."""
        spread = VARIANTS[self._grid.mesh.spread](self._grid.mesh)
        spread.place(self._places)
        spread.take_grid()
        return spread

    @cached_property
    def gather(self) -> G2P:
        """What gathers at the points as targets."""
        return G2P(self._grid.mesh, self._places, None, False)

    def summed(self, columns: AnyArray) -> AnyArray:
        """Return sums (4, M, c) of columns (c, N), with c, s, y c, y s times ``e^{-ikx}``.

        For k = 0 the four functions are 1, ``z - H/2``, ``z (H - z)`` and 0.
        """
        grid, xp, many = self._grid, self._grid.space.array_module, len(columns)
        sums = xp.empty((4, len(grid.modes.waves), many), dtype=np.complex128)
        for first in range(0, many, grid.columns):
            dens = xp.ascontiguousarray(columns[first : first + grid.columns], dtype=grid.dtype)
            if (some := len(dens)) < grid.columns:
                part, dens = dens, xp.zeros((grid.columns, self._count), dtype=grid.dtype)
                dens[:some] = part
            values = self.spread.apply(dens, xp.empty_like(dens))[..., : grid.mesh.grid[2]]
            sums[..., first : first + some] = grid.moments(values[:some])
        return sums

    def evaluated(self, weights: AnyArray) -> AnyArray:
        """Return the real parts (c, N) of sums over modes, with weights (4, M, c)."""
        grid, xp, many = self._grid, self._grid.space.array_module, weights.shape[-1]
        columns = grid.columns
        field = xp.zeros((columns, *grid.mesh.stored), dtype=grid.dtype)
        values = xp.zeros((columns * -(-many // columns), self._count), dtype=grid.dtype)
        for first in range(0, many, columns):
            part = weights[..., first : first + columns]
            field[: part.shape[-1], ..., : grid.mesh.grid[2]] = grid.field(part)
            self.gather.apply(field, {"u": values[first : first + columns]})
        return values[:many]


def _even(number: float) -> int:
    """Return an even length of fast transforms, at least this number."""
    return 2 * int(scipy.fft.next_fast_len(math.ceil(number / 2)))
