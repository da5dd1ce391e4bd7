"""`MeshPlan`: what plans of both directions share, with the checks of arguments."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from parki.cells.cell_grid import CellGrid, locate
from parki.core import like_points
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.pipeline.protocol import Access
from parki.ewald.points import check_dtypes, check_output, extremes
from parki.ewald.split.window import Window
from parki.ewald.split.windows import kaiser_bessel
from parki.interchange import as_array, as_given, check_space, one_of, told_apart, whole
from parki.memory import telling
from parki.mesh.grid import Anchors, Grid
from parki.runtime import ExecutionSpace, get_execution_space
from parki.runtime.forks import MadeAnew, cuts, run_in_threads
from parki.settings import thread_count
from parki.typing import AnyArray, Array

SOLID = ("tile", "grid")  # methods for three-dimensional grids only
FARTHEST = 1e6  # periods from the grid, beyond which points have few digits left
PIECE = 4 << 20  # bytes whose copy takes a CPU thread about ten times as long as waking another


class MeshPlan(MadeAnew):
    """Common part of plans in both directions: points, grid, window and execution space.

    Attributes
    ----------
    seconds : float
        Seconds of setting up.
    """

    _made_of = "points and grid"

    _methods: tuple[str, ...]
    _doing: str  # what it does, in words

    @telling
    def __init__(
        self,
        points: Array,
        grid: Grid,
        window: Window | None = None,
        method: str = "auto",
        *,
        components: int = 1,
        execution_space: ExecutionSpace | str | None = None,
    ) -> None:
        start = time.perf_counter()
        if not isinstance(grid, Grid):
            raise ParkiTypeError(
                f"grid is a {type(grid).__name__}; expected parki.mesh.Grid, "
                "such as Grid((64, 64, 64), spacing=1 / 64)"
            )
        self.grid = grid
        self.components = whole("components", components, "a whole number, 1 or more")
        self.window = kaiser_bessel(6) if window is None else window
        if not hasattr(self.window, "piecewise"):
            raise ParkiTypeError(
                f"window is a {type(window).__name__}; expected a window, such as "
                "parki.mesh.kaiser_bessel(6)"
            )
        for axis, (n, periodic) in enumerate(zip(grid.shape, grid.periodic, strict=True)):
            if periodic and n < self.window.points:
                raise ParkiValueError(
                    f"grid has {n} points along axis {axis}, which is periodic, but the window has "
                    f"{self.window.points}; take a finer grid or a narrower window"
                )
        points = as_array("points", points)
        self.dtype = check_dtypes({"points": points})
        self.space = get_execution_space(execution_space, points)
        check_space("points", points, self.space)
        _check_points(points, grid)
        self.n_points = points.shape[1]
        self.anchors = Anchors(grid, self.window)
        _check_method(method, self._methods, grid)
        self.access = Access(self.space)
        with self.access():
            self._points = self._shifted(points)
            self.method = self._set_up(method)
        self.seconds = time.perf_counter() - start

    def _set_up(self, method: str) -> str:
        """Prepare what the calls launch; return the method that "auto" stands for."""
        raise NotImplementedError

    def _shifted(self, points: AnyArray) -> Any:
        """Return points (3, N) in mesh coordinates, wrapped into the periods."""
        xp, anchors = self.space.array_module, self.anchors
        moved = xp.zeros((3, self.n_points), dtype=self.dtype)
        corner = self.space.adapter.constant(anchors.corner[:, None], self.dtype)
        xp.subtract(points, corner, out=moved[-self.grid.dimensions :])
        box = CellGrid((1, 1, 1), tuple(anchors.box), tuple(anchors.periodic))
        wrapped, _ = locate(moved, box, self.space)
        return wrapped

    def _values(self, name: str, values: AnyArray, shape: tuple[int, ...]) -> Any:
        """Return an array as (components, *shape), C-contiguous; refuse other shapes."""
        array = as_array(name, values)
        expected = shape if self.components == 1 else (self.components, *shape)
        if array.dtype.kind == "c":
            raise ParkiTypeError(
                f"{name} has dtype {array.dtype}; give real and imaginary part as two components"
            )
        array = like_points(name, array, self.space, self.dtype)
        if array.shape != expected and array.shape != (self.components, *shape):
            raise ParkiValueError(
                f"{name} has shape {array.shape}; expected {expected} for components="
                f"{self.components}"
            )
        return self.space.array_module.ascontiguousarray(array).reshape((self.components, *shape))

    def _output(self, out: AnyArray, shape: tuple[int, ...], values: AnyArray) -> Any:
        """Return the array for results, (components, *shape), new or in the memory of ``out``."""
        whole = (self.components, *shape)
        if out is None:
            return self.space.array_module.empty(whole, dtype=self.dtype)
        one = self.components == 1 and getattr(out, "shape", whole) != whole
        check_output("out", out, shape if one else whole, values, self.space, "values")
        return out.reshape(whole)

    def _result(self, values: Any, out: AnyArray, like: AnyArray) -> Any:
        """Return results in the caller's shape and library."""
        if out is not None:
            return out
        return as_given(values[0] if self.components == 1 else values, like)

    def describe(self) -> str:
        """Return in words what the plan does."""
        grid = " x ".join(map(str, self.grid.shape))
        return (
            f"{self._doing} {self.n_points} points, grid {grid}, {self.window.points} window "
            f"points, {self.components} components, {self.dtype}, {self.space}, by {self.method}"
        )


def _check_method(method: Any, methods: tuple[str, ...], grid: Grid) -> None:
    one_of("method", method, methods)
    if grid.dimensions == 2 and method in SOLID:
        raise ParkiValueError(
            f"method is {method!r}, which takes grids of three dimensions; choose one of "
            f"{', '.join(name for name in methods[1:] if name not in SOLID)}, or leave it to 'auto'"
        )


def _check_points(points: AnyArray, grid: Grid) -> None:
    """Refuse points of a wrong shape, not finite, or outside the grid along a free axis."""
    axes = grid.dimensions
    if points.ndim != 2 or points.shape[0] != axes:
        raise ParkiValueError(
            f"points has shape {points.shape}; expected ({axes}, N), as the grid has {axes} axes"
        )
    if points.shape[1] == 0:
        return
    (ends,) = extremes([points])
    if not np.isfinite(ends).all():
        raise ParkiValueError("points contains NaN or infinity")
    for axis, (low, edge) in enumerate(zip(grid.origin, grid.box, strict=True)):
        first, last = ends[:, axis] - low
        if grid.periodic[axis]:
            if max(-first, last) > FARTHEST * edge:
                raise ParkiValueError(
                    f"points reaches to {max(ends[:, axis], key=abs):g} along axis {axis}, more "
                    "than 1e6 periods away; wrap the points first, where their digits are known"
                )
        elif first < 0 or last > edge * (1 + 4 * float(np.finfo(points.dtype).eps)):
            smallest, largest = ends[:, axis].tolist()
            lowest, highest, first, last = told_apart(smallest, largest, low, low + edge)
            raise ParkiValueError(
                f"points reaches from {lowest} to {highest} along axis {axis}, which is free, but "
                f"the grid there is [{first}, {last}]; enlarge the grid, or shift the points"
            )


def copy_field(target: AnyArray, source: AnyArray) -> None:
    """Copy values, on a CPU by several threads if there are many."""
    threads = min(thread_count(), target.nbytes // PIECE)
    if threads < 2 or not isinstance(target, np.ndarray):
        target[...] = source
        return
    planes = [(c, part) for c in range(len(target)) for part in cuts(target.shape[1], threads)]

    def copy_planes(part: tuple[int, slice]) -> None:
        target[part] = source[part]

    run_in_threads(copy_planes, planes, threads)
