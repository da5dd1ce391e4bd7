"""`SpreadPlan` and `InterpolatePlan`, which set up points for many calls, and one-time calls.

Arguments are checked here. `parki.ewald.far` does the work, by G2P and by one P2G for each group of
components that a kernel takes.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from parki.cells.cell_grid import CellGrid, locate
from parki.core import like_points
from parki.errors import ParkiTypeError, ParkiValueError, warn
from parki.ewald.far import spreading, stored_mesh
from parki.ewald.far.g2p import G2P, GROUP
from parki.ewald.far.mesh import Fields
from parki.ewald.far.p2g import P2G, clear, zeros
from parki.ewald.pipeline.protocol import Access
from parki.ewald.points import check_dtypes, check_output, extremes
from parki.ewald.split.window import Window
from parki.ewald.split.windows import kaiser_bessel
from parki.interchange import as_array, as_given, check_space, one_of, told_apart, whole
from parki.memory import telling
from parki.mesh.grid import Anchors, Grid
from parki.runtime import ExecutionSpace, get_execution_space, prepare
from parki.runtime.forks import MadeAnew, cuts, run_in_threads
from parki.settings import thread_count
from parki.typing import AnyArray, Array, ArrayT

VARIANTS = spreading.VARIANTS | stored_mesh.VARIANTS
SPREAD_METHODS = ("auto", *VARIANTS)
INTERPOLATE_METHODS = ("auto", "target", "tile", "base", "stored")
SPACES_METHODS = {False: ("owner", "target"), True: ("tile", "tile")}
# Methods for three-dimensional grids only; then the usual methods in two dimensions, also used for
# spreading by narrow windows.
SOLID = ("tile", "grid")
PLANAR_METHODS = {False: ("owner", "target"), True: ("hybrid", "target")}
NARROW = 6
# If the last axis has this many times the window's points, few windows wrap.
FEW_WRAP = 100
FARTHEST = 1e6  # periods from the grid, beyond which points have few digits left
PIECE = 4 << 20  # bytes whose copy takes a CPU thread about ten times as long as waking another


class _Plan(MadeAnew):
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
        check_space({"points": points}, self.space)
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


class SpreadPlan(_Plan):
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
        usual = (PLANAR_METHODS if small else SPACES_METHODS)[self.space.on_device]
        method = usual[0] if method == "auto" else method
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
            _copy(result, self.anchors.of_grid(stored))


class InterpolatePlan(_Plan):
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
        usual = (PLANAR_METHODS if grid.dimensions == 2 else SPACES_METHODS)[self.space.on_device]
        chosen = usual[1] if method == "auto" else method
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
            _copy(self.anchors.of_grid(stored), field)
            if self._spill:
                n = stored.shape[3] - self._spill
                stored[..., n:] = stored[..., : self._spill]
        result.fill(0)
        self._g2p.apply(stored, {"u": result})


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


def groups(components: int) -> list[tuple[int, int]]:
    """Return (first, count) of each group of components that a kernel takes."""
    return [(first, min(GROUP, components - first)) for first in range(0, components, GROUP)]


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


def _copy(target: AnyArray, source: AnyArray) -> None:
    """Copy values, on a CPU by several threads if there are many."""
    threads = min(thread_count(), target.nbytes // PIECE)
    if threads < 2 or not isinstance(target, np.ndarray):
        target[...] = source
        return
    planes = [(c, part) for c in range(len(target)) for part in cuts(target.shape[1], threads)]

    def copy(part: tuple[int, slice]) -> None:
        target[part] = source[part]

    run_in_threads(copy, planes, threads)
