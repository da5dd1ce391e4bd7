"""`SpreadPlan` and `spread`: values of points spread onto a grid, at once or many times.

`parki.ewald.far` does the work, by one P2G for each group of components that a kernel takes.
"""

from __future__ import annotations

import math
from typing import Any

from parki.errors import ParkiValueError, warn
from parki.ewald.far import spreading, stored_mesh
from parki.ewald.far.g2p import GROUP
from parki.ewald.far.mesh import Fields
from parki.ewald.far.p2g import P2G, clear, zeros
from parki.ewald.split.window import Window
from parki.interchange import as_array
from parki.memory import telling
from parki.mesh.grid import Grid
from parki.mesh.plans import MeshPlan, copy_field
from parki.runtime import ExecutionSpace, prepare
from parki.typing import AnyArray, Array, ArrayT

VARIANTS = spreading.VARIANTS | stored_mesh.VARIANTS
SPREAD_METHODS = ("auto", *VARIANTS)
NARROW = 6  # points of windows that spread in space as in two dimensions


class SpreadPlan(MeshPlan):
    """Spreading of values at fixed points onto a grid: ``grid[g] = sum_i w(g - x_i) values[i]``.

    Parameters
    ----------
    points : array, shape (D, N), float32 or float64
        Positions, in the unit of the grid's spacing, D = 2 or 3; NumPy, CuPy, or any library with
        DLPack. Points outside are wrapped along periodic axes. Not modified.
    grid : Grid
    window : Window, optional
        `kaiser_bessel`, `prolate`, `bspline` or `m4prime`; by default the first, with 6 points.
    method : str
        One of `SPREAD_METHODS`. "auto" takes the fastest for the space and the points.
    components : int
        Number of values per point.
    execution_space : ExecutionSpace or str, optional
        The default is the memory of the points.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is invalid; raised before any work.

    Examples
    --------
    >>> import numpy as np, parki
    >>> points = np.random.default_rng(0).random((3, 1000))
    >>> plan = parki.mesh.SpreadPlan(points, parki.mesh.Grid((16, 16, 16), spacing=1 / 16))
    >>> plan(np.ones(1000)).shape
    (16, 16, 16)
    """

    _methods, _doing = SPREAD_METHODS, "spreads"

    def _set_up(self, method: str) -> str:
        grid = self.grid
        small = grid.dimensions == 2 or self.window.points <= NARROW
        if method == "auto":
            method = ("hybrid" if small else "tile") if self.space.on_device else "owner"
        if method == "unprotected":
            warn(
                "method 'unprotected' loses contributions where threads meet; it is a bound for "
                "timings, and its values are wrong"
            )
        counts = dict.fromkeys(count for _, count in groups(self.components))
        self._variants = {count: self._variant(method, count) for count in counts}
        # Places the points for all of them.
        self._placed = variant = next(iter(self._variants.values()))
        prepare([k for variant in self._variants.values() for k in variant.launches])
        variant.place(self._points)
        self._sorted = self._stored = None
        if variant.sorts:
            of_points = (self.components, self.n_points)
            self._sorted = self.space.array_module.empty(of_points, dtype=self.dtype)
        shape = (self.components, *variant.shape)
        self._direct = math.prod(variant.shape) == math.prod(grid.shape)
        if not self._direct:
            self._stored = zeros(self.space, math.prod(shape), self.dtype).reshape(shape)
        return method

    def _variant(self, method: str, count: int) -> P2G:
        """Return the variant for as many components."""
        fields = Fields({"PLAIN": count, "LAYERS": False}, count, count)
        return VARIANTS[method](self.anchors.mesh(self.space, self.dtype, fields, method))

    @telling
    def __call__(self, values: ArrayT, out: ArrayT | None = None) -> ArrayT:
        """Return the grid's values.

        Parameters
        ----------
        values : array, shape (N,), or (components, N) if there are several
            Values at the points, in their memory and dtype.
        out : array, optional
            C-contiguous array for the result, of its shape and dtype.

        Returns
        -------
        array, shape ``grid.shape``, or (components, ``grid.shape``)
        """
        dens = self._values("values", values, (self.n_points,))
        result = self._output(out, self.grid.shape, dens)
        with self.access():
            self._spread(dens, result)
        returned: ArrayT = self._result(result, out, values)
        return returned

    def _spread(self, dens: AnyArray, result: AnyArray) -> None:
        """Spread densities (components, N) onto a grid's values."""
        variant = self._placed
        if self._sorted is not None:
            dens = variant.sources.sort(dens, out=self._sorted)
        stored = self._stored
        if stored is None:
            stored = result.reshape((self.components, *variant.shape))
        if variant.adds:
            clear(stored)
        for first, count in groups(self.components):
            part = slice(first, first + count)
            arguments = dict(variant.arguments, dens=dens[part], grid=stored[part], first=0)
            self._variants[count].spread(arguments)
        if not self._direct:
            copy_field(result, self.anchors.of_grid(stored))


def spread(
    points: Array,
    values: Array,
    grid: Grid,
    window: Window | None = None,
    method: str = "auto",
    *,
    execution_space: ExecutionSpace | str | None = None,
) -> Grid:
    """Spread values at points onto a grid, once.

    Parameters
    ----------
    points, grid, window, method, execution_space
        As for `SpreadPlan`.
    values : array, shape (N,) or (C, N)
        Values at the points, with C components, in their memory and dtype.

    Returns
    -------
    Grid
        The grid with values of shape ``grid.shape``, or (C, ``grid.shape``).
    """
    array = as_array("values", values)
    if array.ndim not in (1, 2):
        raise ParkiValueError(f"values has shape {array.shape}; expected (N,) or (C, N)")
    components = 1 if array.ndim == 1 else array.shape[0]
    plan = SpreadPlan(
        points, grid, window, method, components=components, execution_space=execution_space
    )
    on_grid: Any = plan(values)
    return grid.with_values(on_grid if array.ndim == 1 or components > 1 else on_grid[None])


def groups(components: int) -> list[tuple[int, int]]:
    """Return (first, count) of each group of components that a kernel takes."""
    return [(first, min(GROUP, components - first)) for first in range(0, components, GROUP)]
