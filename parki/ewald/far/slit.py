"""`SlitFlow`: the smooth flow that images in two walls lack, of any sources, at any targets.

Words say which operation on the flows of `parki.ewald.far.slit_modes` sources and targets take: a
letter for each derivative by "x", "y" or "z", "l" for a Laplacian, "c" for a curl, and last "p" for
the pressure in place of the velocity. The word "" is a force, or the velocity.

Moments of sources, and coefficients of flows, are arrays (F, M, k), by flow, mode and density.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add

import numpy as np

from parki.ewald.far.slit_grid import GridSize, PointsOnGrid, SlitGrid
from parki.ewald.far.slit_modes import SlitModes
from parki.runtime import ExecutionSpace
from parki.runtime.forks import cached_property
from parki.typing import AnyArray, DType

# Pairs of points and modes up to which plain sums take a CPU less time than a grid. On devices
# products of matrices are in no graph.
FEW = 2**14
TABLES = 14  # numbers for each pair


class FewPoints:
    """A few points, at which a few modes are summed one by one, in double precision."""

    spread = gather = None

    def __init__(self, modes: SlitModes, points: AnyArray) -> None:
        lengths, gap, z = modes.lengths[:, None], modes.gap, points[2].astype(np.float64)
        up, down = np.exp(-lengths * (gap - z)), np.exp(-lengths * z)
        c, s, y = (up + down) / 2, (up - down) / 2, lengths * (z - gap / 2)
        functions = np.stack([c, s, y * c, y * s])
        functions[:, 0] = np.ones_like(z), z - gap / 2, z * (gap - z), np.zeros_like(z)
        phases = modes.waves @ points[:2].astype(np.float64)
        self._cosines, self._sines = functions * np.cos(phases), functions * np.sin(phases)

    def summed(self, columns: AnyArray) -> AnyArray:
        """Return sums (4, M, c) of columns (c, N): see `PointsOnGrid.summed`."""
        columns = columns.astype(np.float64, copy=False)
        return self._cosines @ columns.T - 1j * (self._sines @ columns.T)

    def evaluated(self, weights: AnyArray) -> AnyArray:
        """Return the real parts (c, N) of sums over modes, with weights (4, M, c)."""
        weights = np.moveaxis(weights, -1, 1)
        return (weights.real @ self._cosines - weights.imag @ self._sines).sum(axis=0)


SlitPoints = FewPoints | PointsOnGrid


class SlitFlow:
    """The correction of these modes: by plain sums in double precision, or by a grid.

    Parameters
    ----------
    modes : SlitModes
    space : ExecutionSpace
    digits : float
        Of the tolerance, for grids.
    dtype : dtype
        Of points.
    points : int
        About how many there are.
    """

    def __init__(
        self,
        modes: SlitModes,
        space: ExecutionSpace,
        digits: float,
        dtype: DType,
        points: int,
    ) -> None:
        self.modes, self.space, self.xp = modes, space, space.array_module
        self._dtype, xp = np.dtype(dtype), self.xp
        self._size = GridSize.of(modes, digits, dtype, points)
        self._few, table, lengths = 0 if space.on_device else FEW, modes.table, modes.lengths
        self._lengths = xp.asarray(lengths)[:, None]
        self._matrices = xp.asarray(np.moveaxis(modes.matrices, 0, -1))
        self._values = xp.asarray(table.values.reshape(2, table.values.shape[1], -1))
        self._pressures = xp.asarray(table.pressures)
        # By letter, with the power of k that they are over.
        self._operators = {
            "z": (xp.asarray(table.slopes), 1),
            "l": (xp.asarray(table.laplacians), 2),
            "c": (xp.asarray(table.curls), 1),
        }
        self._by_axis = dict(zip("xy", xp.asarray(modes.waves.T[..., None]), strict=True))
        along = modes.waves / np.where(lengths, lengths, 1)[:, None]
        along[0] = 1, 0
        self._along = xp.asarray(along.T[..., None])

    def place(self, src: AnyArray, trg: AnyArray) -> tuple[SlitPoints, SlitPoints]:
        """Return sources and targets (3, N) at their places; one object if they are the same."""
        sources = self._placed(src)
        return sources, sources if trg is src else self._placed(trg)

    def _placed(self, points: AnyArray) -> SlitPoints:
        if self._plain(points.shape[1]):
            return FewPoints(self.modes, points)
        return PointsOnGrid(self._grid, points)

    # ------------------------------------------------------------------ from sources to targets
    def moments(self, placed: SlitPoints, rows: Mapping[str, AnyArray]) -> AnyArray:
        """Return the moments of sources: of vectors (k, 3, N), or numbers (k, 1, N), by word."""
        return reduce(
            add, [self._moments_of(placed, word, values) for word, values in rows.items()]
        )

    def flow(self, moments: AnyArray, *, back: bool = False) -> AnyArray:
        """Return the flow of moments; with ``back`` the transpose: to sources, of targets."""
        matrices = self._matrices.swapaxes(0, 1) if back else self._matrices
        return contracted(matrices, moments)

    def taken(
        self, placed: SlitPoints, flow: AnyArray, words: Iterable[str]
    ) -> dict[str, AnyArray]:
        """Return a flow at points by word: vectors (k, 3, N), or of the pressure (k, 1, N)."""
        return {word: self._taken(placed, flow, word) for word in words}

    def _moments_of(self, placed: SlitPoints, word: str, values: AnyArray) -> AnyArray:
        many, rows, count = values.shape
        sums = placed.summed(values.reshape(many * rows, count)).reshape(4, -1, many, rows)
        if word.endswith("p"):
            moments = self._by_mode(self._pressures, sums[..., 0], 1)
        else:
            if rows == 3:
                sums = self._rotated(sums, self._along[1] * -1)
            parts = self.xp.moveaxis(sums, -1, 0).reshape(4 * rows, -1, many)
            moments = self._by_mode(self._values.conj(), parts)
        for letter in word.removesuffix("p"):
            moments = self._derived(moments, letter, of_source=True)
        return moments

    def _taken(self, placed: SlitPoints, flow: AnyArray, word: str) -> AnyArray:
        many = flow.shape[-1]
        for letter in word.removesuffix("p"):
            flow = self._derived(flow, letter)
        if word.endswith("p"):
            weights = self._by_mode(self._pressures.swapaxes(1, 2), flow, 1)[..., None]
        else:
            parts = self._by_mode(self._values.swapaxes(1, 2), flow)
            weights = self.xp.moveaxis(parts.reshape(-1, 4, *parts.shape[1:]), 0, -1)
            if weights.shape[-1] == 3:
                weights = self._rotated(weights, self._along[1])
        rows = weights.shape[-1]
        fields = placed.evaluated(weights.reshape(4, -1, many * rows))
        return fields.reshape(many, rows, -1)

    # ------------------------------------------------------------------ mode by mode
    def _rotated(self, vectors: AnyArray, across: AnyArray) -> AnyArray:
        """Return vectors (4, M, k, 3) rotated about z: to the axes of each mode, or back."""
        along, (x, y, z) = self._along[0], (vectors[..., n] for n in range(3))
        rotated = self.xp.empty_like(vectors)
        rotated[..., 0], rotated[..., 1] = along * x - across * y, across * x + along * y
        rotated[..., 2] = z
        return rotated

    def _by_mode(self, matrices: AnyArray, values: AnyArray, power: int = 0) -> AnyArray:
        """Return products (a, M, k) with the matrices (2, a, b) of k = 0 and of others.

        They are over a power of k.
        """
        products = contracted(matrices[1], values)
        if power:
            products *= self._lengths**power
        products[:, :1] = contracted(matrices[0], values[:, :1])
        return products

    def _derived(self, flow: AnyArray, letter: str, of_source: bool = False) -> AnyArray:
        """Return coefficients of a derivative of a flow; with ``of_source``, moments by it."""
        if letter in "xy":
            return (-1j if of_source else 1j) * self._by_axis[letter] * flow
        matrices, power = self._operators[letter]
        matrices = matrices.conj() if of_source else matrices.swapaxes(1, 2)
        return self._by_mode(matrices, flow, power)

    # ------------------------------------------------------------------ sizes
    @cached_property
    def _grid(self) -> SlitGrid:
        return SlitGrid(self.modes, self._size, self.space, self._dtype)

    def size(self, count: int) -> GridSize | None:
        """Return the grid by which a number of points is summed; None for plain sums."""
        return None if self._plain(count) else self._size

    def _plain(self, count: int) -> bool:
        """Return whether a number of points takes plain sums."""
        return len(self.modes.waves) * count <= self._few

    def bytes(self, count: int) -> float:
        """Return the memory that sums over a number of points take."""
        if (size := self.size(count)) is not None:
            columns = self.modes.table.columns
            return size.bytes(self._dtype, columns) + 32.0 * len(self.modes.waves) * size.shape[2]
        return 8.0 * TABLES * len(self.modes.waves) * count


def contracted(matrix: AnyArray, values: AnyArray) -> AnyArray:
    """Return products (a, M, k) of a matrix (a, b), or of one for each mode, (a, b, M), and values.

    Values are (b, M, k). Products by a library of matrices are in no graph of a device.
    """
    of_modes = matrix if matrix.ndim == 3 else matrix[..., None]
    return (of_modes[..., None] * values).sum(axis=1)


def stacked(arrays: Sequence[AnyArray]) -> AnyArray:
    """Return arrays of one shape, one after the other; `stack` uploads what no graph would keep."""
    if len(arrays) == 1:
        return arrays[0][None]
    stack = np.empty_like(arrays[0], shape=(len(arrays), *arrays[0].shape))
    for place, array in zip(stack, arrays, strict=True):
        place[...] = array
    return stack
