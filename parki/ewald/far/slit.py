"""`SlitFlow`: the smooth flow that images in two walls lack, of any sources, at any targets.

Words say which operation on the flows of `parki.ewald.far.slit_modes` sources and targets take: a
letter for each derivative by "x", "y" or "z", "l" for a Laplacian, and last "p" for the pressure in
place of the velocity. The word "" is a force, or the velocity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from parki.ewald.far.slit_grid import GridSize, SlitGrid
from parki.ewald.far.slit_modes import FLOWS, LAPLACIANS, PRESSURES, SLOPES, SlitModes
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray, DType

# Pairs of points and modes up to which plain sums take a CPU less time than a grid. On devices
# products of matrices are in no graph.
FEW = 2**14
TABLES = 14  # numbers for each pair


class Coefficients(NamedTuple):
    """A flow between walls by its coefficients, or the moments of sources.

    Attributes
    ----------
    waves : array, shape (6, M, k), complex
        By flow, mode and density.
    mean : array, shape (3, 3, k)
        Of the mode k = 0: by component and function 1, ``z - H/2``, ``z (H - z)``.
    level : array, shape (k,)
        Of the same, the pressure.
    """

    waves: AnyArray
    mean: AnyArray
    level: AnyArray

    def __add__(self, other: Coefficients) -> Coefficients:  # type: ignore[override]
        return Coefficients(*(a + b for a, b in zip(self, other, strict=True)))


class SlitFlow:
    """The correction of these modes: by plain sums in double precision, or by a grid.

    Parameters
    ----------
    modes : SlitModes
    space : ExecutionSpace
    digits : float
        Of the tolerance, for grids.
    """

    def __init__(self, modes: SlitModes, space: ExecutionSpace, digits: float) -> None:
        self.modes, self.space, self.xp = modes, space, space.array_module
        self._digits, xp = digits, self.xp
        self._few = 0 if space.on_device else FEW
        self._grids: dict[Any, SlitGrid] = {}  # by dtype
        self._waves, self._lengths = xp.asarray(modes.waves), xp.asarray(modes.lengths)[:, None]
        self._matrices = xp.asarray(np.moveaxis(modes.matrices, 0, -1))
        self._flows, self._pressures, self._slopes, self._laplacians = map(
            xp.asarray, (FLOWS.reshape(6, 12), PRESSURES, SLOPES, LAPLACIANS)
        )
        self._along = self._waves / self._lengths

    # ------------------------------------------------------------------ from sources to targets
    def of_sources(
        self, points: AnyArray, rows: Mapping[str, AnyArray], *, back: bool = False
    ) -> Coefficients:
        """Return the flow of sources: of vectors (k, 3, N), or numbers (k, 1, N), by word.

        With ``back`` the sources are values at targets, and the flow is the transpose of theirs.
        """
        return self.flow(self.moments(points, rows), back=back)

    def moments(self, points: AnyArray, rows: Mapping[str, AnyArray]) -> Coefficients:
        """Return the moments of sources, given as in `of_sources`."""
        sums = [self._moments_of(points, word, values) for word, values in rows.items()]
        total = sums[0]
        for one in sums[1:]:
            total = total + one
        return total

    def flow(self, moments: Coefficients, *, back: bool = False) -> Coefficients:
        """Return the flow of moments."""
        gap, area = self.modes.gap, self.modes.area
        waves = contracted(self._matrices, moments.waves)
        mean, level = np.zeros_like(moments.mean), np.zeros_like(moments.level)
        for axis, flux in enumerate(self.modes.flux):
            mean[axis, 0] = -6 * np.pi * gap / area * moments.mean[axis, 0]
            mean[axis, 1] = -8 * np.pi / (area * gap) * moments.mean[axis, 1]
            if flux:
                mean[axis, 2] = -24 * np.pi / (area * gap**3) * moments.mean[axis, 2]
        # What a double layer takes away comes from everywhere between the walls.
        from_layers = 8 * np.pi / (area * gap)
        if back:
            level = from_layers * moments.mean[2, 1]
        else:
            mean[2, 1] = from_layers * moments.level
        return Coefficients(waves, mean, level)

    def taken(
        self, points: AnyArray, flow: Coefficients, words: Iterable[str]
    ) -> dict[str, AnyArray]:
        """Return a flow at points by word: vectors (k, 3, N), or of the pressure (k, 1, N)."""
        return {word: self._at(points, flow, word) for word in words}

    # ------------------------------------------------------------------ one word
    def _moments_of(self, points: AnyArray, word: str, values: AnyArray) -> Coefficients:
        many, rows, count = values.shape
        columns = values.astype(np.float64, copy=False).reshape(many * rows, count)
        sums = self._summed(points, columns)
        sums = sums.reshape(4, -1, many, rows)
        if word.endswith("p"):
            waves = contracted(self._pressures, sums[..., 0])
            waves = waves * self._lengths
        else:
            ex, ey = self._along.T[..., None]
            x, y, z = (sums[..., n] for n in range(3))
            local = stacked([ex * x + ey * y, ex * y - ey * x, z])
            waves = contracted(self._flows.conj(), local.reshape(12, -1, many))
        mean, level = self._mean_moments(_doubled(points[2]), values, word)
        for letter in word.removesuffix("p"):
            waves = self._derived(waves, letter, of_source=True)
        return Coefficients(waves, mean, level)

    def _at(self, points: AnyArray, flow: Coefficients, word: str) -> AnyArray:
        waves, count, many = flow.waves, points.shape[1], flow.waves.shape[-1]
        mean, level = flow.mean, flow.level
        for letter in word.removesuffix("p"):
            waves, mean = self._derived(waves, letter), self._derived_mean(mean, letter)
            level = np.zeros_like(level)
        if word.endswith("p"):
            weights = contracted(self._pressures.T, waves)
            weights = (weights * self._lengths)[..., None]
        else:
            local = contracted(self._flows.T, waves).reshape(3, 4, -1, many)
            ex, ey = self._along.T[..., None]
            along, across, z = local
            axes = stacked([ex * along - ey * across, ey * along + ex * across, z])
            weights = self.xp.moveaxis(axes, 0, -1)
        rows = weights.shape[-1]
        fields = self._evaluated(points, weights.reshape(4, -1, many * rows))
        fields = fields.reshape(many, rows, count)
        if word.endswith("p"):
            return fields + level[:, None, None]
        for n, values in enumerate(self._functions(_doubled(points[2]))):
            fields += self.xp.moveaxis(mean[:, n], -1, 0)[..., None] * values
        return fields

    def _derived(self, waves: AnyArray, letter: str, of_source: bool = False) -> AnyArray:
        """Return coefficients of a derivative of a flow; with ``of_source``, moments by it."""
        if letter in "xy":
            waves_along = self._waves[:, "xy".index(letter), None]
            return (-1j if of_source else 1j) * waves_along * waves
        matrix, power = (self._slopes, 1) if letter == "z" else (self._laplacians, 2)
        return self._lengths**power * contracted(matrix if of_source else matrix.T, waves)

    # ------------------------------------------------------------------ the mode k = 0
    def _functions(self, z: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        return np.ones_like(z), z - self.modes.gap / 2, z * (self.modes.gap - z)

    @staticmethod
    def _derived_mean(mean: AnyArray, letter: str) -> AnyArray:
        """Return the coefficients of a derivative of the mean flow."""
        derived = np.zeros_like(mean)
        if letter == "z":
            derived[:, 0], derived[:, 1] = mean[:, 1], -2 * mean[:, 2]
        elif letter == "l":
            derived[:, 0] = -2 * mean[:, 2]
        return derived

    def _mean_moments(self, z: AnyArray, values: AnyArray, word: str) -> tuple[AnyArray, AnyArray]:
        many = len(values)
        mean = self.xp.zeros((3, 3, many))
        if word.endswith("p"):
            return mean, values[:, 0].sum(axis=-1) * (word == "p")
        for n, function in enumerate(self._functions(z)):
            mean[:, n] = (values * function).sum(axis=-1).T
        for letter in word:
            derived = np.zeros_like(mean)
            if letter == "z":
                derived[:, 1], derived[:, 2] = mean[:, 0], -2 * mean[:, 1]
            elif letter == "l":
                derived[:, 2] = -2 * mean[:, 0]
            mean = derived
        return mean, self.xp.zeros(many)

    # ------------------------------------------------------------------ sums over points and modes
    def size(self, count: int, dtype: DType) -> GridSize | None:
        """Return the grid by which a number of points is summed; None for plain sums."""
        return None if self._plain(count) else GridSize.of(self.modes, self._digits, dtype)

    def _plain(self, count: int) -> bool:
        """Return whether a number of points takes plain sums."""
        modes = len(self.modes.waves)
        return not modes or modes * count <= self._few

    def bytes(self, count: int, dtype: DType) -> float:
        """Return the memory that sums over a number of points take."""
        if (size := self.size(count, dtype)) is not None:
            return size.bytes(dtype) + 32.0 * len(self.modes.waves) * size.shape[2]
        return 8.0 * TABLES * len(self.modes.waves) * count

    def _grid(self, points: AnyArray) -> SlitGrid | None:
        dtype = points.dtype
        if self._plain(points.shape[1]):
            return None
        if dtype not in self._grids:
            self._grids[dtype] = SlitGrid(self.modes, self._digits, self.space, dtype)
        return self._grids[dtype]

    def _tables(self, points: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return c, s, y c and y s times the cosines, and times the sines, (4, M, N)."""
        xp, gap, lengths = self.xp, self.modes.gap, self._lengths
        z = _doubled(points[2])
        up, down = xp.exp(-lengths * (gap - z)), xp.exp(-lengths * z)
        c, s, y = (up + down) / 2, (up - down) / 2, lengths * (z - gap / 2)
        functions = stacked([c, s, y * c, y * s])
        phases = self._waves @ _doubled(points[:2])
        return functions * xp.cos(phases), functions * xp.sin(phases)

    def _summed(self, points: AnyArray, columns: AnyArray) -> AnyArray:
        """Return sums (4, M, c) of columns (c, N), with c, s, y c, y s times ``e^{-ikx}``."""
        if (grid := self._grid(points)) is not None:
            return grid.summed(points, columns)
        cosines, sines = self._tables(points)
        return cosines @ columns.T - 1j * (sines @ columns.T)

    def _evaluated(self, points: AnyArray, weights: AnyArray) -> AnyArray:
        """Return the real parts (c, N) of sums over modes, with weights (4, M, c)."""
        if (grid := self._grid(points)) is not None:
            return _doubled(grid.evaluated(points, weights))
        weights = self.xp.moveaxis(weights, -1, 1)
        cosines, sines = self._tables(points)
        return (weights.real @ cosines - weights.imag @ sines).sum(axis=0)


def contracted(matrix: AnyArray, values: AnyArray) -> AnyArray:
    """Return products (a, M, k) of a matrix (a, b), or of one for each mode, (a, b, M), and values.

    These are (b, M, k). Products by a library of matrices are in no graph of a device.
    """
    of_modes = matrix if matrix.ndim == 3 else matrix[..., None]
    return (of_modes[..., None] * values).sum(axis=1)


def stacked(arrays: Sequence[AnyArray]) -> AnyArray:
    """Return arrays of one shape, one after the other; `stack` uploads what no graph would keep."""
    stack = np.empty_like(arrays[0], shape=(len(arrays), *arrays[0].shape))
    for place, array in zip(stack, arrays, strict=True):
        place[...] = array
    return stack


def _doubled(array: AnyArray) -> AnyArray:
    """Return an array in double precision."""
    return array.astype(np.float64, copy=False)
