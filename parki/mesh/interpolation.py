"""`InterpolatePlan` and `interpolate`: a grid's values at points, at once or many times, by G2P."""

from __future__ import annotations

import math
from typing import Any

from parki.errors import ParkiTypeError
from parki.ewald.far import stored_mesh
from parki.ewald.far.g2p import G2P
from parki.ewald.far.mesh import Fields
from parki.ewald.far.p2g import zeros
from parki.ewald.split.window import Window
from parki.interchange import as_array
from parki.memory import telling
from parki.mesh.grid import Grid
from parki.mesh.plans import MeshPlan, copy_field
from parki.runtime import ExecutionSpace, prepare
from parki.typing import AnyArray, Array, ArrayT

INTERPOLATE_METHODS = ("auto", "target", "tile", "base", "stored")
# If the last axis has this many times the window's points, few windows wrap.
FEW_WRAP = 100


class InterpolatePlan(MeshPlan):
    """Interpolation of a grid's values at fixed points: ``values[i] = sum_g w(g - x_i) grid[g]``.

    The transpose of `SpreadPlan`.

    Parameters
    ----------
    points, grid, window, components, execution_space
        As for `SpreadPlan`.
    method : str
        One of `INTERPOLATE_METHODS`.
    """

    _methods, _doing = INTERPOLATE_METHODS, "interpolates at"

    def _set_up(self, method: str) -> str:
        grid = self.grid
        chosen = method
        if method == "auto":
            chosen = "tile" if self.space.on_device and grid.dimensions == 3 else "target"
        fields = Fields({}, self.components, self.components)
        # A field without free axes is read in place, if few windows wrap or if the kernel wraps
        # all of them. Other fields are copied into a larger one, which continues beyond the ends.
        few = grid.shape[-1] >= FEW_WRAP * self.window.points
        whole = all(grid.periodic) and (few or chosen in ("tile", "stored"))
        mesh = self.anchors.mesh(self.space, self.dtype, fields, gather=chosen, spills=not whole)
        self._g2p: Any
        if chosen == "stored":
            self._g2p = stored_mesh.StoredG2P(mesh, self._points)
        else:
            prepare(G2P.kernels(mesh))
            self._g2p = G2P(mesh, self._points, None, False)
        self._field, self._shape = None, mesh.stored
        self._spill = mesh.spill if mesh.wraps[2] else 0
        if not whole:
            shape = (self.components, *mesh.stored)
            self._field = zeros(self.space, math.prod(shape), self.dtype).reshape(shape)
        taken: str = self._g2p.method
        return taken

    @telling
    def __call__(self, values: ArrayT, out: ArrayT | None = None) -> ArrayT:
        """Return the values at the points.

        Parameters
        ----------
        values : array, shape ``grid.shape``, or (components, ``grid.shape``) if there are several
            Values on the grid, in the memory and dtype of the points.
        out : array, optional
            C-contiguous array for the result, of its shape and dtype.

        Returns
        -------
        array, shape (N,), or (components, N)
        """
        field = self._values("values", values, self.grid.shape)
        result = self._output(out, (self.n_points,), field)
        with self.access():
            self._interpolate(field, result)
        returned: ArrayT = self._result(result, out, values)
        return returned

    def _interpolate(self, field: AnyArray, result: AnyArray) -> None:
        """Interpolate a field (components, grid) at the points."""
        stored = self._field
        if stored is None:
            stored = field.reshape((self.components, *self._shape))
        else:
            copy_field(self.anchors.of_grid(stored), field)
            if self._spill:
                n = stored.shape[3] - self._spill
                stored[..., n:] = stored[..., : self._spill]
        result.fill(0)
        self._g2p.apply(stored, {"u": result})


def interpolate(
    points: Array,
    grid: Grid,
    window: Window | None = None,
    method: str = "auto",
    *,
    execution_space: ExecutionSpace | str | None = None,
) -> Any:
    """Return a grid's values at points, once.

    Parameters
    ----------
    points, window, method, execution_space
        As for `InterpolatePlan`.
    grid : Grid
        A grid with values of shape ``grid.shape`` or (C, ``grid.shape``).

    Returns
    -------
    array, shape (N,) or (C, N)
    """
    if getattr(grid, "values", None) is None:
        raise ParkiTypeError(
            "grid has no values; give a Grid with values, such as what spread returns"
        )
    array = as_array("grid.values", grid.values)
    plain = array.ndim == grid.dimensions
    components = 1 if plain else array.shape[0]
    plan = InterpolatePlan(
        points, grid, window, method, components=components, execution_space=execution_space
    )
    at_points = plan(grid.values)
    return at_points if plain or components > 1 else at_points[None]
