"""`CellList` against a NumPy reference, on every space."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from parki import CellList, ParkiMemoryError, ParkiTypeError, ParkiValueError
from parki.cells import sorted_points
from parki.cells.runs import runs
from parki.ewald import points as ewald_points
from parki.runtime import get_execution_space, load

BOX, SHAPE = (2.0, 1.0, 0.7), (5, 1, 4)


def points_near(box, n, dtype="f8", seed=0):
    """Return points inside and somewhat outside of a box."""
    values = 3 * np.random.default_rng(seed).random((3, n)) - 1
    return (values * np.array(box)[:, None]).astype(dtype)


def wrapped_reference(points, box, periodic, origin=(0, 0, 0)):
    """Wrap in the points' dtype, as the kernel must: cell and point come from one number."""
    wrapped = points.copy()
    for axis in range(3):
        x, b, o = wrapped[axis], points.dtype.type(box[axis]), points.dtype.type(origin[axis])
        if periodic[axis]:
            images = np.floor((x - o) / b)
            moved = x - images * b
            off = (images != 0) & ((moved < o) | (moved - o >= b))
            wrapped[axis] = np.where(images == 0, x, np.where(off, o, moved))
    return wrapped


def listed(space, points, periodic=(True,) * 3, **how):
    """Return the cell list of points in the usual box, or another."""
    box = how.pop("box", BOX)
    shape = {"shape": SHAPE} | how
    return CellList(points, None, box, periodic, execution_space=space, **shape)


def check_structure(cells, n, host):
    """The invariants of every cell list."""
    index, counts = host(cells.cells), host(cells.counts)
    starts, order = host(cells.starts), host(cells.order)
    assert cells.n_cells == counts.size == np.prod(cells.shape)
    for values, length in ((index, n), (order, n), (starts, cells.n_cells + 1)):
        assert values.shape == (length,) and values.dtype == np.int32
    np.testing.assert_array_equal(counts, np.bincount(index, minlength=cells.n_cells))
    np.testing.assert_array_equal(starts, np.concatenate([[0], np.cumsum(counts)]))
    np.testing.assert_array_equal(order, np.argsort(index, kind="stable"))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("periodic", list(itertools.product([False, True], repeat=3)))
def test_against_numpy(space, to_space, to_host, dtype, periodic):
    n, origin = 777, (0.25, -3.0, 0.0)
    points = points_near(BOX, n, dtype) + np.array(origin, dtype)[:, None]
    given = to_space(points)
    cells = listed(space, given, periodic, origin=origin)
    check_structure(cells, n, to_host)
    np.testing.assert_array_equal(to_host(given), points)
    wrapped = wrapped_reference(points, BOX, periodic, origin)
    index, order = to_host(cells.cells), to_host(cells.order)
    # A fused multiply-add may round the last digit differently.
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(to_host(cells.points), wrapped[:, order], rtol=4 * eps, atol=8 * eps)
    x = to_host(cells.points) - np.array(origin, dtype)[:, None]
    width = np.array(BOX)[:, None] / np.array(SHAPE)[:, None]
    cell = np.array(np.unravel_index(index[order], SHAPE))
    last = np.array(SHAPE)[:, None] - 1
    slack = 16 * eps
    assert np.all((x >= cell * width - slack) | (cell == 0))
    assert np.all((x <= (cell + 1) * width + slack) | (cell == last))
    for axis in np.flatnonzero(periodic):
        assert np.all((x[axis] >= 0) & (x[axis] < BOX[axis]))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("length", [1.0, 0.7, 1 / 3, 1e5])
def test_wrapping_at_the_faces(space, to_space, to_host, dtype, length):
    """On a face, one ulp either side of it, far away, and negative zero: always in [0, box)."""
    b = np.dtype(dtype).type(length)
    faces = np.array([0, -0.0, b, -b, 2 * b, -2 * b, 1000 * b, -1000 * b, b / 2, 1e-30], dtype)
    x = np.concatenate([faces, np.nextafter(faces, np.inf), np.nextafter(faces, -np.inf)])
    points = np.stack([x, x[::-1], np.roll(x, 3)]).astype(dtype)
    cells = listed(space, to_space(points), box=[length] * 3, shape=(4, 4, 4))
    check_structure(cells, x.size, to_host)
    out = to_host(cells.points)
    assert np.all((out >= 0) & (out < b))
    # Moved by whole boxes, up to the rounding of the result or of a product that is not fused.
    start = points[:, to_host(cells.order)].astype("f8")
    moved = out.astype("f8") - start
    off = np.abs(moved - np.rint(moved / float(b)) * float(b))
    assert np.all(off <= 2 * np.finfo(dtype).eps * np.maximum(np.abs(start), float(b)))
    # Points already inside are not touched, to the last bit; but CuPy compiles kernels so that
    # denormal numbers of single precision are zero.
    inside = np.all((points >= 0) & (points < b), axis=0)
    expected = points[:, inside]
    if cells.space.on_device and dtype == "f4":
        expected = np.where(np.abs(expected) < np.finfo(dtype).tiny, 0, expected)
    np.testing.assert_array_equal(out[:, np.argsort(to_host(cells.order))][:, inside], expected)
    # The index of the cell never leaves the box, whatever the rounding of the last cell's face.
    width = b / 4
    cell = np.array(np.unravel_index(to_host(cells.cells)[to_host(cells.order)], (4, 4, 4)))
    assert np.all(np.abs(out / width - cell - 0.5) <= 0.5 + 1e-5)


def test_free_axes_clamp_to_the_nearest_cell(space, to_space, to_host):
    x = np.array([-1e9, -1.0, -0.0, 0.0, 0.5, 1.0, np.nextafter(1, 2), 1e9])
    points = np.stack([x, x, x])
    cells = listed(space, to_space(points), (False,) * 3, box=[1, 1, 1], shape=(4, 2, 8))
    check_structure(cells, x.size, to_host)
    expected = [np.clip((x * n).clip(-9, 99).astype(int), 0, n - 1) for n in (4, 2, 8)]
    np.testing.assert_array_equal(to_host(cells.cells), np.ravel_multi_index(expected, (4, 2, 8)))
    out = to_host(cells.points)[:, np.argsort(to_host(cells.order))]
    np.testing.assert_array_equal(out, points)  # clamped to a cell, but not moved


def test_scale(space, to_space, to_host):
    points = points_near(BOX, 100)
    plain = listed(space, to_space(points * 0.5), (True, False, True))
    scaled = listed(space, to_space(points), (True, False, True), scale=0.5)
    np.testing.assert_array_equal(to_host(plain.points), to_host(scaled.points))
    np.testing.assert_array_equal(to_host(plain.order), to_host(scaled.order))


@pytest.mark.parametrize("layout", ["strided", "fortran", "read-only", "list"])
def test_layouts(space, to_space, to_host, layout):
    points = points_near(BOX, 60)
    given = to_space(points)
    if layout == "strided":
        given = to_space(np.repeat(points, 2, axis=1))[:, ::2]
    elif layout == "fortran":
        given = space.array_module.asfortranarray(given)
    elif layout == "list":
        given = points.tolist()
        if space.on_device:
            with pytest.raises(ParkiTypeError, match=r"points is on the host \(NumPy\), but"):
                listed(space, given)
            return
    elif not space.on_device:
        given.flags.writeable = False
    cells, expected = listed(space, given), listed(space, to_space(points))
    np.testing.assert_array_equal(to_host(cells.points), to_host(expected.points))


@pytest.mark.parametrize("n", [0, 1])
def test_few_points(space, to_space, to_host, n):
    cells = listed(space, to_space(np.full((3, n), 0.6)), box=[1, 1, 1], shape=(2, 2, 2))
    check_structure(cells, n, to_host)
    assert to_host(cells.points).shape == (3, n)
    assert to_host(cells.padded()).shape == (8, n)
    assert to_host(cells.sort(to_space(np.ones(n)))).shape == (n,)
    if n:
        np.testing.assert_array_equal(to_host(cells.cells), [7])


def test_coinciding_points_keep_their_order(space, to_space, to_host):
    n = 10_000
    cells = listed(space, to_space(np.full((3, n), 0.3)), box=[1, 1, 1], shape=(3, 3, 3))
    np.testing.assert_array_equal(to_host(cells.order), np.arange(n))
    assert int(cells.counts.max()) == n


def test_equal_for_any_number_of_threads(monkeypatch):
    points, found = np.random.default_rng(1).random((3, 20_001)), []
    for threads in "125":
        monkeypatch.setenv("PARKI_NUM_THREADS", threads)
        cells = CellList(points, 0.15, [1, 1, 1], execution_space="OpenMP")
        parts = (cells.points, cells.order, cells.cells, cells.counts, cells.starts)
        found.append(b"".join(part.tobytes() for part in parts))
    assert found[0] == found[1] == found[2]


# --- what is derived from a list ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("rows", [None, 1, 3, 6])
def test_payload(space, to_space, to_host, dtype, rows):
    n = 333
    cells = listed(space, to_space(points_near(BOX, n)))
    shape = (n,) if rows is None else (rows, n)
    payload = np.random.default_rng(2).random(shape).astype(dtype)
    out = cells.sort(to_space(payload))
    assert out.dtype == dtype and out.shape == shape
    np.testing.assert_array_equal(to_host(out), payload[..., to_host(cells.order)])
    if rows:
        wide = to_space(np.full((rows, n + 5), 7, dtype))
        assert cells.sort(to_space(payload), out=wide) is wide
        np.testing.assert_array_equal(to_host(wide)[:, :n], to_host(out))
        assert np.all(to_host(wide)[:, n:] == 7)


@pytest.mark.parametrize("cutoff", [0.1, 0.25, 0.3, 0.9, 7])
def test_cells_are_no_narrower_than_the_cutoff(cutoff):
    cells = CellList(points_near(BOX, 9), cutoff, BOX)
    for edge, count in zip(BOX, cells.shape, strict=True):
        assert count == 1 or edge / count >= cutoff > edge / (count + 1)


def test_padded(space, to_space, to_host):
    cells = listed(space, to_space(points_near(BOX, 90)))
    padded, starts = to_host(cells.padded()), to_host(cells.starts)
    assert padded.dtype == np.int32
    assert padded.shape == (cells.n_cells, to_host(cells.counts).max())
    for cell, row in enumerate(padded):
        inside = np.arange(starts[cell], starts[cell + 1])
        np.testing.assert_array_equal(row[: inside.size], inside)
        assert np.all(row[inside.size :] == -1)


@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize("shape", [(5, 6, 7), (1, 2, 3), (1, 1, 1)])
@pytest.mark.parametrize("periodic", [(True, True, True), (True, False, False), (False,) * 3])
def test_neighbours(space, to_space, to_host, reach, shape, periodic):
    cells = listed(space, to_space(points_near(BOX, 9)), periodic, shape=shape)
    found = to_host(cells.neighbours(reach))
    stencil = list(itertools.product(range(-reach, reach + 1), repeat=3))
    assert found.shape == (np.prod(shape), len(stencil)) and found.dtype == np.int32
    for cell, corner in enumerate(np.ndindex(*shape)):
        for column, step in enumerate(stencil):
            place = [c + s for c, s in zip(corner, step, strict=True)]
            outside = [not 0 <= p < n for p, n in zip(place, shape, strict=True)]
            if any(o and not p for o, p in zip(outside, periodic, strict=True)):
                assert found[cell, column] == -1
            else:
                place = [p % n for p, n in zip(place, shape, strict=True)]
                assert found[cell, column] == np.ravel_multi_index(place, shape)


@pytest.mark.parametrize(
    ("starts", "given", "cut", "expected"),
    [
        ([0, 0, 3, 10, 10, 11], (4, 11), {}, [[1, 0, 3], [2, 3, 7], [2, 7, 10], [4, 10, 11]]),
        # Columns of three cells, cut after the first one.
        (
            [0, 2, 3, 9, 9, 9, 10],
            (5, 10),
            {"length": 3, "pieces": 2},
            [[0, 0, 2], [0, 2, 7], [0, 7, 9], [1, 9, 10]],
        ),
    ],
)
def test_runs(space, to_space, to_host, starts, given, cut, expected):
    parts = to_host(runs(space, to_space(np.array(starts, np.int32)), *given, **cut))
    np.testing.assert_array_equal(parts[:, :4], np.array(expected).T)
    assert (parts[1:, 4:] == 0).all()  # on a device


@pytest.mark.parametrize("at_once", [0, 1000])
@pytest.mark.parametrize("along", [False, True])
def test_sort_of_devices(monkeypatch, at_once, along):
    """The kernels by which devices sort, here on the CPU: as its own."""
    monkeypatch.setattr(sorted_points, "SORTED_AT_ONCE", at_once)
    points, box = points_near(BOX, 500), BOX
    grid = {"periodic": (True,) * 3, "execution_space": "CPU", "shape": (3, 7, 2)}
    cells = CellList(points, None, box, along=along, **grid)
    names = ("sort_few", "count_cells", "list_cells", "order_cells")
    kernels = tuple(load("cell_list", n, cells.space) for n in names)
    found = sorted_points.sort_on_device(cells.space, cells.cells, cells.n_cells, kernels)
    for array, expected in zip(found, (cells.order, cells.counts, cells.starts), strict=True):
        np.testing.assert_array_equal(array, expected)
    if along:
        grid["shape"] = grid["shape"][::-1]
        turned = CellList(points[::-1], None, box[::-1], **grid)
        np.testing.assert_array_equal(turned.order, cells.order)
        np.testing.assert_array_equal(turned.points[::-1], cells.points)


@pytest.mark.parametrize(("length", "pieces", "size"), [(1, 1, 4), (3, 2, 5), (12, 5, 1)])
def test_few_runs(length, pieces, size):
    """They are cut by one kernel on devices, as others by two."""
    counts = np.random.default_rng(1).integers(0, 7, 12)
    starts = np.concatenate([[0], counts.cumsum()]).astype(np.int32)
    space = get_execution_space("CPU")
    cut = {"length": length, "pieces": pieces}
    parts = runs(space, starts, size, starts[-1], **cut)
    found = np.full((3, parts.shape[1] + 2), -1, np.int32)
    at_once, columns = load("cell_list", "list_few", space), 12 // length
    at_once(found.shape[1], starts=starts, size=size, columns=columns, parts=found, **cut)
    np.testing.assert_array_equal(found[:, :-2], parts)
    np.testing.assert_array_equal(found[:, -2:].T, [[columns - 1, 0, 0]] * 2)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (r"points has shape \(2, 9\); expected \(3, N\)", {"points": np.ones((2, 9))}),
        (r"points has shape \(9,\); expected \(3, N\)", {"points": np.ones(9)}),
        ("points has dtype int64; expected float32 or", {"points": np.ones((3, 9), np.int64)}),
        ("points has dtype complex128; expected", {"points": np.ones((3, 9), complex)}),
        (r"shape is \(0, 1, 1\); expected 3 positive counts", {"shape": (0, 1, 1)}),
        (r"shape is \(1, 1\); expected 3 positive counts", {"shape": (1, 1)}),
        (r"shape is \(2048, 1024, 1024\); expected", {"shape": (2048, 1024, 1024)}),
        (r"box is \(1.0, 0.0, 1.0\); expected 3 positive lengths", {"box": (1, 0, 1)}),
        (r"box is \(1.0, nan, 1.0\); expected 3 positive", {"box": (1, np.nan, 1)}),
        (r"box is \(1.0, 1.0\); expected 3 positive", {"box": (1, 1)}),
        (r"box is \['1', '1', '1'\]; expected 3 positive lengths", {"box": ["1"] * 3}),
        (r"cutoff is 0; expected a positive, finite width", {"cutoff": 0}),
        (r"cutoff is '1'; expected a positive, finite width", {"cutoff": "1"}),
        (r"cutoff and shape both set the cells", {"cutoff": 1, "shape": (1, 1, 1)}),
        (r"shape is \(2.0, 2, 2\); expected 3 positive counts", {"shape": (2.0, 2, 2)}),
        (r"origin is \('0', 0, 0\); expected 3 finite coordinates", {"origin": ("0", 0, 0)}),
        (r"periodic is \(True, False\); expected 3", {"periodic": (True, False)}),
        (r"origin is \(0.0, 0.0\); expected 3 finite", {"origin": (0, 0)}),
        (r"origin is \(0.0, inf, 0.0\); expected 3 finite", {"origin": (0, np.inf, 0)}),
    ],
)
def test_errors(message, changes):
    arguments = {
        "points": np.full((3, 9), 0.5),
        "cutoff": None,
        "box": (1, 1, 1),
        "shape": None if "cutoff" in changes else (2, 2, 2),
    }
    with pytest.raises((ParkiValueError, TypeError), match=message):
        CellList(**{**arguments, **changes})


def test_payload_errors():
    cells = CellList(np.full((3, 9), 0.5), None, (1, 1, 1), shape=(2, 2, 2))
    for rows in (np.ones(8), np.ones((2, 10)), np.ones((9, 2))):
        with pytest.raises(ParkiValueError, match="expected 9 columns"):
            cells.sort(rows)
    for shape in ((9,), (2, 8), (3, 9), (2, 9, 1)):
        with pytest.raises(ParkiValueError, match=r"expected \(2, 9\), or more columns"):
            cells.sort(np.ones((2, 9)), out=np.empty(shape))
    with pytest.raises(TypeError, match="rows has dtype int64; expected float32 or float64"):
        cells.sort(np.ones(9, np.int64))
    np.testing.assert_array_equal(cells.sort(np.ones((9, 2)).T), np.ones((2, 9)))


def test_cells_that_do_not_fit(monkeypatch):
    """Killed the process."""
    monkeypatch.setattr("parki.memory.free_memory", lambda space: 8e9)
    for error, given, message in (
        (
            ParkiMemoryError,
            {"shape": (1290,) * 3, "cutoff": None},
            r"2.15e\+09 cells need 34.3 GB, .* shape",
        ),
        (
            ParkiMemoryError,
            {"cutoff": 1e6 / 1289.5},
            r"2.14e\+09 cells need 34.3 GB, .* a larger cut",
        ),
        (ParkiValueError, {"cutoff": 1}, r"cutoff is 1, which makes 2\*\*31 cells or more"),
    ):
        with pytest.raises(error, match=message):
            CellList(np.zeros((3, 5)), box=[1e6] * 3, **given)


# --- the smallest and the largest values of rows, for checks on devices ---------------------------


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("items", [1, 7, 100])
def test_kernel_of_extremes(real, items):
    dtype = {"float": "f4", "double": "f8"}[real]
    rows = np.random.default_rng(2).standard_normal((3, 100)).astype(dtype)
    rows[1, 50], rows[2, 70] = np.inf, np.nan
    low, high = np.empty((2, 3, items), dtype)
    sizes = {"total": 100, "items": items, "rows": 3}
    kernel = load("extremes", "extremes", get_execution_space("CPU"), REAL=real)
    kernel(items, lows=rows, highs=rows, low=low, high=high, **sizes)
    assert (low[0].min(), high[0].max()) == (rows[0].min(), rows[0].max())
    assert np.isnan(low[1:].min(axis=1)).all()
    assert np.isnan(high[1:].max(axis=1)).all()


@pytest.mark.parametrize("count", [1, 300, 10_000, 40_000])
def test_extremes_of_rows(space, to_space, count):
    rows = np.random.default_rng(3).standard_normal((6, count))
    arrays = [to_space(rows), to_space(rows[:2, :0]), to_space(rows[:1])]
    found, none, few = ewald_points.extremes(arrays)
    np.testing.assert_array_equal(found, [rows.min(axis=1), rows.max(axis=1)])
    assert none.shape == (0, 2)
    np.testing.assert_array_equal(few, found[:, :1])
    rows[4, count // 2] = np.inf
    assert not np.isfinite(ewald_points.extremes([to_space(rows)])).all()


@pytest.mark.parametrize("real", ["float", "double"])
def test_kernel_of_ratios(real):
    dtype = {"float": "f4", "double": "f8"}[real]
    density = np.random.default_rng(4).standard_normal(100).astype(dtype)
    density[30:70] = 0  # some work items find no ratio
    kernel = load("extremes", "ratios", get_execution_space("CPU"), REAL=real)
    for place, value in ((0, None), (0, 9), (50, 1), (99, np.nan)):
        values = -3 * density
        if value is not None:
            values[place] = value
        low, high = np.empty((2, 50), dtype)
        sizes = {"total": 100, "items": 50, "largest": float(np.finfo(dtype).max)}
        kernel(50, values=values, density=density, low=low, high=high, **sizes)
        found = low.min(), high.max()
        np.testing.assert_array_equal(found, ewald_points.ratios(values, density))
        assert np.isfinite(found).all() == (place == 0)


@pytest.mark.parametrize("count", [1, 300, 40_000])
def test_ratios_to_a_density(space, to_space, count):
    density = np.random.default_rng(5).standard_normal(count)
    density[count // 2 + 1 :] = 0
    found = ewald_points.ratios(to_space(0.7 * density), to_space(density))
    np.testing.assert_allclose(found, [0.7, 0.7], rtol=1e-15)
    other, some = density + np.arange(count) * (density != 0), density != 0
    found, expected = ewald_points.ratios(to_space(other), to_space(density)), other[some]
    expected = expected / density[some]
    assert found == (expected.min(), expected.max())
    other[count // 2 :] = 1e-9  # where the density may be zero
    assert np.isnan(ewald_points.ratios(to_space(other), to_space(density))).all() == (count > 1)
    zeros = to_space(np.zeros(count))
    assert np.isnan(ewald_points.ratios(zeros, zeros)).all()
