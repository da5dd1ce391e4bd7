"""`parki.mesh`: every method, window and kind of grid against NumPy, point by point."""

from __future__ import annotations

import warnings
from functools import partial
from types import SimpleNamespace

import mesh_reference as reference
import numpy as np
import pytest
from few import LONG_RUN

import parki
from parki import ParkiMemoryError, ParkiTypeError, ParkiValueError, ParkiWarning, mesh
from parki.ewald.far import sizes, stored_mesh
from parki.ewald.far.stored_mesh import Private
from parki.interchange import to_host
from parki.mesh import Grid, InterpolatePlan, SpreadPlan

SHAPES = {2: (20, 31), 3: (18, 25, 23)}
WINDOWS = {
    "kaiser_bessel": mesh.kaiser_bessel(6),
    "kaiser_bessel odd": mesh.kaiser_bessel(5),
    "prolate": mesh.prolate(8),
    "bspline 2": mesh.bspline(2),
    "bspline 10": mesh.bspline(10),
    "m4prime": mesh.m4prime(),
}
SPREADS = [m for m in mesh.SPREAD_METHODS if m != "unprotected"]
# Methods for three dimensions; and those with kernels that the default run has in three alone.
SOLID = ("tile", "grid")
ALIKE = () if LONG_RUN[0] else ("base", "atomics", "colouring", "group_mesh", "hybrid_mesh")
# By the number of dimensions: which axes of the grid are periodic, and numbers of components.
FREE = {2: ([[False, False]], 1), 3: ([[True] * 3, [True, False, True]], 3)}
USUAL = mesh.kaiser_bessel(6)  # which most tests take, so that they share kernels
# Sums in another order, of weights of either sign; and coordinates that are rounded as they are
# shifted, which a window's slope passes on.
ROUNDING = {"f8": 1e-12, "f4": 2e-4}


def make_grid(dimensions: int, periodic=True) -> Grid:
    return Grid(
        SHAPES[dimensions],
        spacing=[0.1, 0.2, 0.15][:dimensions],
        origin=[1, -2, 0.5][:dimensions],
        periodic=periodic,
    )


def cloud(grid: Grid, n: int = 300, dtype="f8") -> np.ndarray:
    """Points in the grid's box, every other one in a corner of it."""
    place = np.random.default_rng(1).random((grid.dimensions, n))
    place[:, ::2] *= 0.3
    return (np.array(grid.origin)[:, None] + place * np.array(grid.box)[:, None]).astype(dtype)


def close(found, expected, dtype="f8") -> bool:
    found = to_host(found)
    largest = np.abs(expected).max()
    assert found.dtype == np.dtype(dtype) and 0 < largest < np.inf
    return bool(np.abs(found - expected).max() <= ROUNDING[dtype] * largest)


def check(kind, space, grid, window, method, dtype="f8", components=1, n=300) -> None:
    """Compare a plan's second result, written over ``out``, with NumPy's."""
    points, spreads = cloud(grid, n, dtype), kind is SpreadPlan
    shape = (n,) if spreads else grid.shape
    values = np.random.default_rng(2).standard_normal((components, *shape)).astype(dtype)
    given = [space.array_module.array(a) for a in (points, values)]
    plan = kind(given[0], grid, window, method, components=components, execution_space=space)
    out = plan(-3 * given[1])  # of which nothing may be left
    found = plan(given[1], out=out)
    expected = (reference.spread if spreads else reference.interpolate)(
        points, values, grid, window
    )
    expected = expected if components > 1 else expected[0]
    assert found is out and found.shape == expected.shape
    assert close(found, expected, dtype)


check_spread, check_interpolate = partial(check, SpreadPlan), partial(check, InterpolatePlan)


# ---------------------------------------------------------------------- against NumPy
@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *((SpreadPlan, method) for method in SPREADS),
        *((InterpolatePlan, method) for method in mesh.INTERPOLATE_METHODS),
    ],
)
def test_against_numpy(space, kind, method):
    if space.on_device and method in ("owner", "private"):
        pytest.skip("not for this space")
    for dimensions in (3,) if method in (*SOLID, *ALIKE) else (2, 3):
        periodic, components = FREE[dimensions]
        grids = [make_grid(dimensions, axes) for axes in periodic]
        for grid in (*grids, Grid((USUAL.points,) * dimensions)):  # the shortest periodic one
            check(kind, space, grid, USUAL, method, "f8", components)


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(space, window):
    dimensions = 3 if WINDOWS[window].points in (2, 8, 10) else 2
    grid = make_grid(dimensions, [True, False, False][:dimensions])
    dtype = "f4" if window == "prolate" else "f8"
    check_spread(space, grid, WINDOWS[window], "auto", dtype)
    check_interpolate(space, grid, WINDOWS[window], "auto", dtype)


def test_compute_units(space):
    for method in ("single_mesh", "group_mesh"):
        for n in (5, 3000):  # compute units of 1 and of 16 threads
            check_spread(space, make_grid(3), USUAL, method, components=3, n=n)
    entries = [stored_mesh.compute_unit(x) for x in (0.2, 1, 3.9, 4, 15.9, 400)]
    assert entries == [1, 1, 2, 4, 8, 16]


@pytest.mark.parametrize("threads", [1, 3])
def test_crowded_tiles(threads, monkeypatch):
    """A tile with most of the sources is shared out among threads; values are the same bits."""
    monkeypatch.setenv("PARKI_NUM_THREADS", str(threads))
    monkeypatch.setattr(sizes, "WINDOWS_LEAST", 0)  # wake threads for few points, too
    grid = Grid((40, 40, 40), spacing=1 / 40)
    points = np.random.default_rng(0).random((3, 2000)) * 0.2
    values = np.random.default_rng(1).standard_normal(2000)
    plan = SpreadPlan(points, grid, method="owner")
    parts = [int(numbers[4]) for _, numbers in plan._placed.arguments["colours"]]
    assert max(parts) == threads
    expected = reference.spread(points, values[None], grid, plan.window)[0]
    assert close(plan(values), expected)


@pytest.mark.parametrize("dimensions", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_teams(dimensions, monkeypatch):
    """A missing barrier, or scratch memory that nobody wrote, gives a wrong value."""
    monkeypatch.setenv("PARKI_EMULATED_TEAM", "4")
    space = parki.get_execution_space("OpenMP")
    methods = "single_mesh", "group_mesh", "hybrid_mesh", "gather", "hybrid", "tile", "grid"
    for method in methods[: 4 if dimensions == 2 else None]:
        check_spread(space, make_grid(dimensions), USUAL, method, components=3)


# ---------------------------------------------------------------------- what must hold
def test_splines_conserve_what_they_spread():
    grid = make_grid(3)
    values = np.random.default_rng(0).standard_normal(300)
    for order in (2, 10):
        total = SpreadPlan(cloud(grid), grid, mesh.bspline(order))(values).sum()
        assert total == pytest.approx(values.sum(), rel=1e-12)


def test_moments_of_m4prime():
    """It interpolates polynomials of degree 2, where no window reaches the ends, exactly."""
    grid = Grid((20, 20), spacing=0.5, origin=-5.0, periodic=False)
    x, y = np.meshgrid(*(-5 + 0.5 * np.arange(20),) * 2, indexing="ij")
    points = np.random.default_rng(0).uniform(-3, 3, (2, 50))
    found = InterpolatePlan(points, grid, mesh.m4prime())(1 + x - 2 * y + x * y + 3 * y**2)
    a, b = points
    np.testing.assert_allclose(found, 1 + a - 2 * b + a * b + 3 * b**2, atol=1e-12)


def test_points_are_wrapped_and_corners_belong_to_the_grid():
    for periodic in (True, False):
        grid, window = make_grid(3, periodic), mesh.bspline(6)  # without jumps
        points = reference.corners(grid)
        if periodic:
            points = points + 7 * np.array(grid.box)[:, None]
        values = np.ones((3, 8))
        expected = reference.spread(points, values, grid, window)
        for method in ("owner", "tile", "source", "stored"):
            assert close(SpreadPlan(points, grid, window, method, components=3)(values), expected)


# ---------------------------------------------------------------------- the interface
def test_calls_that_use_a_plan_once():
    grid = make_grid(2)
    points, rng = cloud(grid), np.random.default_rng(0)
    for shape in ((300,), (1, 300), (4, 300)):  # of which kernels take up to three
        values = rng.standard_normal(shape)
        found = mesh.spread(points, values, grid, USUAL)
        assert isinstance(found, Grid) and found.values.shape == (*shape[:-1], *grid.shape)
        rows = np.atleast_2d(values)
        expected = reference.spread(points, rows, grid, USUAL).reshape(found.values.shape)
        assert close(found.values, expected)
        back = mesh.interpolate(points, found, USUAL)
        assert back.shape == shape


def test_no_points(space):
    grid, none = make_grid(3), space.array_module.empty((3, 0))
    for method in ("auto", "base", "single_mesh", "gather"):
        plan = SpreadPlan(none, grid, method=method, components=3, execution_space=space)
        assert not plan(none).any()
    assert InterpolatePlan(none, grid)(space.array_module.ones(grid.shape)).shape == (0,)


def test_plans_say_what_they_are():
    grid = make_grid(2)
    text = SpreadPlan(cloud(grid), grid, execution_space="CPU").describe()
    assert text == (
        "spreads 300 points, grid 20 x 31, 6 window points, 1 components, float64, OpenMP, by owner"
    )
    text = InterpolatePlan(cloud(grid), grid, method="stored", execution_space="CPU").describe()
    assert text.startswith("interpolates at 300 points") and text.endswith("by stored")


def test_unprotected_says_so():
    grid = make_grid(3)
    with pytest.warns(ParkiWarning, match="'unprotected' loses contributions"):
        plan = SpreadPlan(cloud(grid), grid, method="unprotected", execution_space="Serial")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = SpreadPlan(cloud(grid), grid)(np.ones(300))
    assert close(plan(np.ones(300)), expected)  # one thread loses nothing


# ---------------------------------------------------------------------- errors
GRID = make_grid(3)
POINTS = cloud(GRID, 10)


def spreads(points=POINTS, grid=GRID, *more, **how):
    return lambda *given, **out: SpreadPlan(points, grid, *more, **how)(*given, **out)


VALUES = {
    r"shape is \(4,\); expected 2 or 3 positive": lambda: Grid((4,)),
    "expected 2 or 3 positive": lambda: Grid((4, 0)),
    "spacing is -1; expected positive": lambda: Grid((4, 4), spacing=-1),
    "spacing has 3 numbers, but": lambda: Grid((4, 4), spacing=[1, 1, 1]),
    "origin is inf; expected finite": lambda: Grid((4, 4), origin=np.inf),
    r"values has shape \(3,\)": lambda: Grid((4, 4), values=np.ones(3)),
    "points is 1; expected .* 2 to 18": lambda: mesh.kaiser_bessel(1),
    "shape is -1; expected a positive": lambda: mesh.prolate(4, -1),
    "order is 11; expected a B-spline's, 2 to 10": lambda: mesh.bspline(11),
    "method is 'no'; exp": spreads(method="no"),
    "is 'owner'; exp": lambda: InterpolatePlan(POINTS, GRID, method="owner"),
    "components is 0": spreads(components=0),
    r"\(10, 3\); expected \(3, N\)": spreads(POINTS.T),
    "points contains NaN": spreads(np.nan * POINTS),
    "reaches to 1e.08 along axis 0, more than 1e6 periods away": spreads(1e8 + POINTS),
    "grid has 4 points along axis 0, which is periodic, but the window has 6": spreads(
        POINTS, Grid((4, 30, 30), periodic=True)
    ),
    "points reaches from .* along axis 0, which is free, but the grid there is": spreads(
        POINTS - 1, make_grid(3, False)
    ),
    r"from 1.0000001 to 1.0000001 along axis 0, which is .* grid there is \[0, 1\]": lambda: (
        mesh.spread(np.array([[1.0000001], [0.5]]), np.ones(1), Grid((9, 9), 1 / 8, periodic=False))
    ),
    "method is 'tile', which takes grids of three dimensions; choose one of owner, base": spreads(
        cloud(make_grid(2)), make_grid(2), method="tile"
    ),
    r"values has shape \(9,\)": partial(spreads(), np.ones(9)),
    r"out has shape \(3,\) and dtype float64; expected C-contiguous \(18, 25, 23\)": partial(
        spreads(), np.ones(10), out=np.ones(3)
    ),
    r"out has shape \(10,\) and dtype float64; expected C-contiguous \(10,\)": lambda: (
        InterpolatePlan(POINTS, GRID)(np.ones(GRID.shape), out=np.ones(20)[::2])
    ),
    r"values has shape \(1, 1, 10\); expected \(N,\) or \(C, N\)": lambda: mesh.spread(
        POINTS, np.ones((1, 1, 10)), GRID
    ),
}
KINDS = {
    "shape is 'ab'; expected 2 or 3 numbers": lambda: Grid("ab"),
    "periodic is 2; expected True, False": lambda: Grid((4, 4), periodic=2),
    "grid is a tuple; expected parki": spreads(POINTS, (4, 4)),
    "window is a int; expected": spreads(POINTS, GRID, 6),
    "components is 1.5": spreads(components=1.5),
    "points has dtype int64": spreads(POINTS.astype(int)),
    "dtype float32, but the points have float64": partial(spreads(), np.ones(10, "f4")),
    "values has dtype complex128; give real and imaginary part as two components": partial(
        spreads(), 1j * np.ones(10)
    ),
    "grid has no values; give a Grid": lambda: mesh.interpolate(POINTS, GRID),
}


@pytest.mark.parametrize(("error", "table"), [(ParkiValueError, VALUES), (ParkiTypeError, KINDS)])
def test_errors(error, table):
    for words, make in table.items():
        with pytest.raises(error, match=words):
            make()


def test_stored_meshes_need_memory(monkeypatch):
    monkeypatch.setattr(stored_mesh, "free_memory", lambda _: 1000.0)
    needs = r"stored m(esh|atrix) needs .* GB, but 1e-06 GB are free"
    for method in ("single_mesh", "hybrid_mesh", "stored"):
        with pytest.raises(ParkiMemoryError, match=needs):
            SpreadPlan(POINTS, GRID, method=method)
    with pytest.raises(ParkiMemoryError, match=needs):
        InterpolatePlan(POINTS, GRID, method="stored")


def test_private_grids_are_of_threads():
    device = SimpleNamespace(space=SimpleNamespace(on_device=True))
    with pytest.raises(ParkiValueError, match="method is 'private', which has a grid for each"):
        Private(device)
