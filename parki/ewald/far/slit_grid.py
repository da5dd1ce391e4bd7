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

from parki.cells.cell_grid import CellGrid, locate
from parki.ewald.far.g2p import G2P
from parki.ewald.far.mesh import Fields, Mesh
from parki.ewald.far.p2g import P2G
from parki.ewald.far.slit_modes import Array, SlitModes
from parki.ewald.far.spreading import VARIANTS
from parki.ewald.split.windows import kaiser_bessel
from parki.runtime import ExecutionSpace
from parki.settings import thread_count
from parki.typing import AnyArray, DType

REFINED = 1.5  # grid points for each of the fewest that hold all modes
COLUMNS = 3  # that are spread and gathered at once
# Digits of the tolerance, and points of the window.
DIGITS, POINTS = (3.0, 4.0, 6.0, 9.0, 12.0), (5.0, 6.0, 8.0, 12.0, 16.0)
NARROW = 6  # points of windows that devices spread without tiles


class _Placed(NamedTuple):
    """Points, and their places on the grid."""

    points: AnyArray
    spread: P2G
    gather: G2P


class GridSize(NamedTuple):
    """Points of the grid along each axis, and of its window."""

    shape: tuple[int, int, int]
    points: int

    @classmethod
    def of(cls, modes: SlitModes, digits: float, dtype: DType) -> GridSize:
        """Return the size for all modes, by the digits of a tolerance."""
        most = 16 if np.dtype(dtype) == np.float64 else 12
        points = min(most, math.ceil(np.interp(digits, DIGITS, POINTS)))
        step, edges = modes.finest / REFINED, np.hypot(*modes.vectors.T)
        x, y = (max(_even(edge / step), _even(points)) for edge in edges)
        return cls((x, y, math.ceil(modes.gap / step) + points), points)

    def bytes(self, dtype: DType) -> float:
        """Return the memory that grids of sources and targets, fields and modes take."""
        copies = 2 + 1 + 1 + 2  # the last ones are the complex modes, and what a FFT takes
        return float(copies * COLUMNS * math.prod(self.shape) * np.dtype(dtype).itemsize)


class SlitGrid:
    """A grid for all modes, and points on it.

    Parameters
    ----------
    modes : SlitModes
    digits : float
        Of the tolerance.
    space : ExecutionSpace
    dtype : dtype
        Of points and of the grid.
    """

    def __init__(
        self, modes: SlitModes, digits: float, space: ExecutionSpace, dtype: DType
    ) -> None:
        self.modes, self.space, self.dtype = modes, space, np.dtype(dtype)
        grid, width = GridSize.of(modes, digits, dtype)
        self.window = kaiser_bessel(width)
        edges, step = np.hypot(*modes.vectors.T), modes.finest / REFINED
        x, y, planes = grid[0], grid[1], grid[2] + 1 - width
        self.corner = np.array(
            [*(edges / (x, y) * (width / 2 - 1)), (modes.gap - planes * step) / 2]
        )
        box, steps = np.array([*edges, planes * step]), np.array([*(edges / (x, y)), step])
        narrow = width <= NARROW
        methods = (
            ("hybrid" if narrow else "tile", "tile") if space.on_device else ("owner", "target")
        )
        fields = Fields({"PLAIN": COLUMNS, "LAYERS": False}, COLUMNS, COLUMNS)
        cells = x, y, planes
        self.mesh = Mesh(space, self.dtype, fields, box, steps, cells, grid, self.window, *methods)
        xp = space.array_module
        heights = self.corner[2] + (np.arange(grid[2]) - (width / 2 - 1)) * step
        self._tables = xp.asarray(self._tables_at(heights, step))
        i, j = modes.numbers.T
        self._i, self._j = xp.asarray(i % x), xp.asarray(j)
        here = np.flatnonzero(j == 0)
        self._here, self._opposite = xp.asarray(here), xp.asarray(-i[here] % x)
        across = self.window.fourier(2 * np.pi * i / x) * self.window.fourier(2 * np.pi * j / y)
        self._across = xp.asarray(1 / across)[:, None]
        in_edges = np.eye(3)
        in_edges[:2, :2] = edges[:, None] * np.linalg.inv(modes.vectors).T
        self._along = None if np.allclose(in_edges, np.eye(3), atol=0) else xp.asarray(in_edges)
        self._placed: list[_Placed] = []

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
        return np.stack([c, s, y * c - rho * s, y * s - rho * c], axis=1)

    # ------------------------------------------------------------------ points
    def place(self, points: AnyArray) -> _Placed:
        """Return points (3, N) on the grid; the last two clouds stay there."""
        for placed in self._placed:
            if placed.points is points:
                return placed
        xp, mesh = self.space.array_module, self.mesh
        moved = points if self._along is None else (self._along @ points).astype(self.dtype)
        moved = moved - self.space.adapter.constant(self.corner[:, None], self.dtype)
        box = CellGrid((1, 1, 1), tuple(mesh.box), (True, True, False))
        moved, _ = locate(xp.ascontiguousarray(moved), box, self.space)
        spread = VARIANTS[mesh.spread](mesh)
        spread.place(moved)
        spread.take_grid()
        placed = _Placed(points, spread, G2P(mesh, moved, None, False))
        self._placed = [placed, *self._placed[:1]]
        return placed

    # ------------------------------------------------------------------ sums
    def summed(self, points: AnyArray, columns: AnyArray) -> AnyArray:
        """Return sums (4, M, c) of columns (c, N), with c, s, y c, y s times ``e^{-ikx}``."""
        placed, xp, count = self.place(points), self.space.array_module, len(columns)
        sums = xp.empty((4, len(self._tables), count), dtype=np.complex128)
        for first in range(0, count, COLUMNS):
            last = min(first + COLUMNS, count)
            dens = xp.zeros((COLUMNS, points.shape[1]), dtype=self.dtype)
            dens[: last - first] = columns[first:last]
            grid = placed.spread.apply(dens, xp.empty_like(dens))[..., : self.mesh.grid[2]]
            hat = self._forward(grid[: last - first])[:, self._i, self._j]
            hat = xp.ascontiguousarray(xp.moveaxis(hat * self._across, 0, -1))  # (M, planes, c)
            sums[..., first:last] = xp.moveaxis(self._product(self._tables, hat), 1, 0)
        return sums

    def evaluated(self, points: AnyArray, weights: AnyArray) -> AnyArray:
        """Return the real parts (c, N) of sums over modes, with weights (4, M, c)."""
        placed, xp, count = self.place(points), self.space.array_module, weights.shape[-1]
        x, y, z = self.mesh.grid
        field = xp.zeros((COLUMNS, *self.mesh.stored), dtype=self.dtype)
        values = xp.empty((count, points.shape[1]), dtype=self.dtype)
        of_modes = xp.ascontiguousarray(xp.moveaxis(weights, 1, 0))  # (M, 4, c)
        kind = np.result_type(self.dtype, np.complex64)
        for first in range(0, count, COLUMNS):
            part = xp.ascontiguousarray(of_modes[..., first : first + COLUMNS])
            planes = self._product(xp.ascontiguousarray(self._tables.swapaxes(1, 2)), part)
            planes = xp.moveaxis(planes, -1, 0) * self._across
            hat = xp.zeros((len(planes), x, y // 2 + 1, z), dtype=kind)
            hat[:, self._i, self._j] = planes
            hat[:, self._opposite, 0] = planes[:, self._here].conj()
            field[: len(planes), ..., :z] = self._backward(hat, (x, y)) * (x * y / 2)
            gathered = xp.zeros((COLUMNS, points.shape[1]), dtype=self.dtype)
            placed.gather.apply(field, {"u": gathered})
            values[first : first + len(planes)] = gathered[: len(planes)]
        return values

    def _product(self, real: AnyArray, numbers: AnyArray) -> AnyArray:
        """Return products of real matrices (M, a, b) and complex ones (M, b, c)."""
        if self.space.on_device:  # whose graphs have no products by a library of matrices
            return (real[..., None] * numbers[:, None]).sum(axis=2)
        return real @ numbers.real + 1j * (real @ numbers.imag)

    def _forward(self, grid: AnyArray) -> AnyArray:
        if self.space.on_device:
            return self.space.array_module.fft.rfftn(grid, axes=(1, 2))
        return scipy.fft.rfftn(grid, axes=(1, 2), workers=thread_count())

    def _backward(self, hat: AnyArray, shape: tuple[int, int]) -> AnyArray:
        if self.space.on_device:
            return self.space.array_module.fft.irfftn(hat, s=shape, axes=(1, 2))
        return scipy.fft.irfftn(hat, s=shape, axes=(1, 2), workers=thread_count())


def _even(number: float) -> int:
    """Return an even length of fast transforms, at least this number."""
    return 2 * int(scipy.fft.next_fast_len(math.ceil(number / 2)))
