"""`Grid`: geometry and periodicity of a uniform grid, and values on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.far.mesh import Fields, Mesh
from parki.ewald.split.window import Window
from parki.interchange import as_array, as_flag, as_number, as_whole, numbers, shown
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray, DType


@dataclass(frozen=True)
class Grid:
    """A uniform grid in two or three dimensions; point i of an axis is at origin + i spacing.

    Parameters
    ----------
    shape : sequence of 2 or 3 ints
        Grid points along each axis.
    spacing, origin : float or sequence of floats
        Spacing and first point, in the unit of the points; one number stands for all axes.
    periodic : bool or sequence of bools
        The period of a periodic axis of n points is n spacing. Along a free axis, points must lie
        between the first and the last grid point; the parts of windows beyond them are left out.
    values : array, shape ``shape`` or (C, ``shape``), float32 or float64, optional
        Values on the grid, with C components.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is invalid.

    Examples
    --------
    >>> import numpy as np, parki
    >>> grid = parki.mesh.Grid((32, 64), spacing=[1 / 32, 2 / 64])
    >>> grid.box
    (1.0, 2.0)
    """

    shape: tuple[int, ...]
    spacing: Any = 1.0
    origin: Any = 0.0
    periodic: Any = True
    values: Any = None

    def __post_init__(self) -> None:
        shape = numbers("shape", self.shape, as_whole, "2 or 3 numbers of grid points")
        if len(shape) not in (2, 3) or min(shape) < 1 or math.prod(shape) >= 2**31:
            raise ParkiValueError(
                f"shape is {shape}; expected 2 or 3 positive numbers, under 2**31 grid points"
            )
        spacing = self._by_axis(
            "spacing", as_number, shape, "a positive length, or one for each axis"
        )
        origin = self._by_axis("origin", as_number, shape, "a coordinate, or one for each axis")
        periodic = self._by_axis("periodic", as_flag, shape, "True, False, or one for each axis")
        if not all(math.isfinite(h) and h > 0 for h in spacing):
            raise ParkiValueError(
                f"spacing is {shown(self.spacing)}; expected positive, finite lengths"
            )
        if not all(map(math.isfinite, origin)):
            raise ParkiValueError(f"origin is {shown(self.origin)}; expected finite coordinates")
        for name, checked in zip(
            ("shape", "spacing", "origin", "periodic"),
            (shape, spacing, origin, periodic),
            strict=True,
        ):
            object.__setattr__(self, name, checked)
        present = None if self.values is None else tuple(as_array("values", self.values).shape)
        if present is not None and present[-len(shape) :] != shape:
            raise ParkiValueError(
                f"values has shape {present}; expected {shape}, or components before"
            )

    def _by_axis(
        self, name: str, convert: Callable[[Any], Any], shape: tuple[int, ...], meaning: str
    ) -> tuple[Any, ...]:
        """Return a number for each axis."""
        values = getattr(self, name)
        try:
            many = values if np.ndim(values) else [values] * len(shape)
        except ValueError:  # of ragged lists
            many = values
        result = numbers(name, many, convert, meaning, values)
        if len(result) != len(shape):
            raise ParkiValueError(
                f"{name} has {len(result)} numbers, but shape {shape} has {len(shape)} axes"
            )
        return result

    @property
    def dimensions(self) -> int:
        """Number of dimensions: 2 or 3."""
        return len(self.shape)

    @property
    def box(self) -> tuple[float, ...]:
        """Edges: the period, or the distance from first to last grid point of a free axis."""
        return tuple(
            h * (n if periodic else n - 1)
            for n, h, periodic in zip(self.shape, self.spacing, self.periodic, strict=True)
        )

    @property
    def points(self) -> NDArray[np.float64]:
        """All grid points in C order, shape (dimensions, N)."""
        spacing, origin = (np.array(row)[:, None] for row in (self.spacing, self.origin))
        places: NDArray[np.float64] = np.indices(self.shape).reshape(self.dimensions, -1) * spacing
        places += origin
        return places

    def with_values(self, values: AnyArray) -> Grid:
        """Return this grid with other values."""
        return replace(self, values=values)


@dataclass(frozen=True)
class Anchors:
    """The place of a grid in the three-dimensional `Mesh` that the kernels take.

    Mesh coordinates are shifted by half a window, so that a window of P points starts at the mesh
    point below its centre. Free axes have P - 1 points more in the mesh, and the first ``before``
    of them lie before the grid. A grid of two dimensions is one plane.

    Attributes
    ----------
    corner : ndarray, shape (dimensions,)
        Subtracted from the points.
    before : tuple of 3 ints
    """

    grid: Grid
    window: Window

    @property
    def _axes(self) -> list[tuple[int, float, bool]]:
        """Number of points, spacing and periodicity of each of the mesh's three axes."""
        grid = self.grid
        axes = list(zip(grid.shape, grid.spacing, grid.periodic, strict=True))
        return [(1, 1.0, True), *axes] if grid.dimensions == 2 else axes

    @property
    def before(self) -> tuple[int, ...]:
        """Number of mesh points before the grid's first one, along each axis."""
        return tuple(0 if periodic else (self.window.points - 1) // 2 for periodic in self.periodic)

    @property
    def corner(self) -> NDArray[np.float64]:
        """Vector subtracted from the points."""
        before = self.before[-self.grid.dimensions :]
        shift = self.window.points / 2 - 1 - np.array(before)
        corner: NDArray[np.float64] = self.grid.origin + shift * np.array(self.grid.spacing)
        return corner

    @property
    def box(self) -> NDArray[np.float64]:
        """Edges of the mesh; along periodic axes, the periods."""
        return np.array([n * h for n, h, _ in self._axes])

    @property
    def periodic(self) -> list[bool]:
        """Periodicity of the mesh's axes."""
        return [periodic for _, _, periodic in self._axes]

    def of_grid(self, stored: AnyArray) -> Any:
        """Return the grid's part of stored values (C, x, y, z), with the axes of the grid."""
        ends = zip(self.before, (n for n, _, _ in self._axes), strict=True)
        part = stored[(slice(None), *(slice(first, first + n) for first, n in ends))]
        return part[:, 0] if self.grid.dimensions == 2 else part

    def mesh(
        self,
        space: ExecutionSpace,
        dtype: DType,
        fields: Fields,
        spread: str = "owner",
        gather: str = "target",
        executor: str | None = None,
        spills: bool = True,
    ) -> Mesh:
        """Return the mesh."""
        shape = [n for n, _, _ in self._axes]
        more = [0 if periodic else self.window.points - 1 for periodic in self.periodic]
        grid = [n + m for n, m in zip(shape, more, strict=True)]
        return Mesh(
            space,
            dtype,
            fields,
            self.box,
            np.array([h for _, h, _ in self._axes]),
            (shape[0], shape[1], shape[2]),
            (grid[0], grid[1], grid[2]),
            self.window,
            spread,
            gather,
            executor=executor,
            planar=self.grid.dimensions == 2,
            spills=spills,
        )
