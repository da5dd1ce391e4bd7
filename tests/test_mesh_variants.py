"""Every variant of P2G and G2P gives what the default one gives, to rounding."""

from __future__ import annotations

import dataclasses
import itertools
import math

import flat
import numpy as np
import pytest
from problems import Window

import parki
from parki import ParkiValueError
from parki.ewald.far import mesh as mesh_module
from parki.ewald.far import sizes, spreading
from parki.ewald.far.buffers import source_buffers
from parki.ewald.far.columns import Gather
from parki.ewald.far.g2p import G2P
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.far.padding import Padding, pad
from parki.ewald.far.spreading import place_sources, spreading_kernels
from parki.ewald.lattice import Lattice
from parki.ewald.options import EwaldOptions
from parki.ewald.options.variants import G2P_METHODS, P2G_METHODS
from parki.ewald.solver_box import SolverBox
from parki.ewald.split.window import KaiserBessel
from parki.ewald.sums import SUMS
from parki.ewald.task import Task
from parki.runtime import get_execution_space

SPREADS = P2G_METHODS[1:]
GATHERS = G2P_METHODS[1:]
# A sum with each kind of source: others have the same kernels.
KERNELS = tuple({SUMS[name].sources: name for name in reversed([*SUMS])}.values())
# The long run has other windows too: the narrowest, odd ones and wide ones.
OTHERS = [pytest.param(points, marks=pytest.mark.slow) for points in (2, 5, 12)]
# Numbers of periodic axes, with precisions; single precision has no wide windows.
CASES = (*((n, np.float64) for n in range(3)), (3, np.float32))
WANTS = (("u", "grad_u"), ("u",), ("p",), ("u", "p", "grad_u"))
# Sums are added in another order; 14 units of the largest value were seen.
ROUNDING = 60
STEPS = np.array([1 / 16, 1 / 15, 1 / 18])
# Grid cells along the axes: the shortest periodic grid, and numbers that no tile divides.
SHORT = (18, 25, 23)


def make_mesh(points, periodicity, dtype, spread="owner", gather="target", cells=SHORT):
    box, steps = np.array(cells) * STEPS, STEPS
    options = EwaldOptions(periodicity, [1, 1, 1])
    task = Task("stokes_sl", get_execution_space("OpenMP"), np.dtype(dtype), options)
    frame = SolverBox(Lattice(box, periodicity), unit=2 / 3)
    padding = pad(periodicity, box, steps, points, 0.3, math.inf, 1e-4)
    return EwaldMesh(
        task, frame, steps, padding, KaiserBessel(points, 2.3 * points), spread, gather
    )


def asked(mesh: EwaldMesh, **task) -> EwaldMesh:
    """The mesh of another task."""
    other = dataclasses.replace(mesh.task, **task)
    kept = (mesh.solver_box, mesh.steps, mesh.padding, mesh.window, mesh.spread, mesh.gather)
    return EwaldMesh(other, *kept)


def cloud(n: int, dtype: type, seed: int = 4, cells=SHORT) -> np.ndarray:
    """Points in the box, half of them crowded, some at its corners and on its faces."""
    rng = np.random.default_rng(seed)
    share = rng.random((3, n))
    share[:, : n // 2] *= 0.25
    share[:, :4] = [[0, 0, 1, 0], [0, 1, 0.5, 0.3], [0, 1, 1, 1]]
    box = np.array(cells) * STEPS
    return np.minimum(share * box[:, None], np.nextafter(box, 0)[:, None]).astype(dtype)


def spread(kernel: str, mesh: EwaldMesh, n: int = 300) -> np.ndarray:
    """The grid of random densities, without its spill."""
    rng = np.random.default_rng(5)
    src = cloud(n, mesh.dtype)
    norms = rng.standard_normal((3, n)).astype(mesh.dtype)
    dens = rng.standard_normal((SUMS[kernel].rows, n)).astype(mesh.dtype)
    p2g = place_sources(asked(mesh, kernel=kernel), src, norms if SUMS[kernel].normals else None)
    buffer = np.empty_like(dens)
    p2g.apply(-3 * dens, buffer)  # of which nothing may be left
    return p2g.apply(dens, buffer)[..., : mesh.padding.grid[2]]


def gather(
    mesh: EwaldMesh,
    components: int,
    want: tuple,
    same=False,
    n: int = 300,
    times: int = 1,
    offsets=None,
):
    """What is gathered from a random field, by name; ``offsets`` are of several systems."""
    mesh = asked(mesh, kernel="laplace" if components == 1 else "stokes_sl", names=want)
    src, trg = cloud(n, mesh.dtype, 4, mesh.cells), cloud(n, mesh.dtype, 6, mesh.cells)
    trg = src if same else trg
    sources = place_sources(mesh, src).sources
    tensors = "grad_tensor" in want
    rows = components * (want != ("p",)) + ("p" in want or tensors)
    (x, y, z), rng = mesh.padding.grid, np.random.default_rng(7)
    y *= 1 if offsets is None else len(offsets) - 1
    field = np.zeros((rows, x, y, z + mesh.spill), dtype=mesh.dtype)
    values = rng.standard_normal((rows, x, y, z))
    field[..., : mesh.padding.grid[2]] = values
    if mesh.periodicity == 3:
        field[..., mesh.padding.grid[2] :] = field[..., : mesh.spill]
    if offsets is not None:
        sources = None
    read = rng.standard_normal((10, n)).astype(mesh.dtype) if tensors else None
    g2p = G2P(mesh, trg, sources, same, offsets, read)
    count = {"u": components, "p": 1, "grad_u": 3 * components, "grad_tensor": 3}
    results = {name: np.ones((count[name], n), dtype=mesh.dtype) for name in want}
    for _ in range(times):
        g2p.apply(field, results)
    return results


def close(a: np.ndarray, b: np.ndarray, rounding: float = ROUNDING) -> bool:
    largest = float(np.abs(b).max())
    assert 0 < largest < np.inf
    return float(np.abs(a - b).max()) <= rounding * np.finfo(b.dtype).eps * largest


# ---------------------------------------------------------------------- spreading
@pytest.mark.each
@pytest.mark.parametrize(
    ("method", "kernel"),
    # The paper's variants have no dipoles.
    [(m, k) for m in SPREADS[1:] for k in KERNELS if "dipole" not in k or m == "tile"],
)
@pytest.mark.parametrize("points", [8, *OTHERS])
def test_spreading(method, kernel, points):
    for periodicity in range(4):  # below, single precision is spread at the borders of tiles
        expected = spread(kernel, make_mesh(points, periodicity, np.float64))
        result = spread(kernel, make_mesh(points, periodicity, np.float64, method))
        assert close(result, expected), periodicity


def test_variants_without_dipoles():
    points = np.zeros((3, 1))
    for method in SPREADS[2:]:
        options = flat.options(3, [1, 1, 1], p2g_method=method)
        with pytest.raises(ParkiValueError, match=f"p2g_method is '{method}', which .*dipole"):
            parki.Plan("laplace_dipole", points, points, options)


@pytest.mark.parametrize(
    ("method", "dtype"), [*((m, np.float64) for m in SPREADS[1:]), ("tile", np.float32)]
)
def test_points_on_the_borders_of_tiles(method, dtype):
    """Cell lists and kernels may round them differently; no window leaves the scratch memory."""
    rng, n = np.random.default_rng(8), 200
    on = rng.integers(0, 18, (3, n)) * STEPS[:, None]
    src = np.maximum(np.nextafter(on.astype(dtype), dtype(rng.choice([-1, 9]))), 0)
    grids = []
    for name in (method, "owner"):
        mesh, dens = make_mesh(6, 3, dtype, name), np.ones((3, n), dtype)
        grids.append(place_sources(mesh, src).apply(dens, np.empty_like(dens))[..., : SHORT[2]])
    # A source counted with the next cell differs by the window's jump at its end.
    jump = float(Window(6, 2.3 * 6)(3.0))
    assert np.allclose(*grids, rtol=0, atol=n * jump)


@pytest.mark.parametrize("periodicity", [1, 3])  # in the last cell of all: no target, and one
def test_shares_of_columns(periodicity):
    """Every target has one share, which is short in targets and in cells."""
    mesh = make_mesh(5, periodicity, np.float64)
    tiles = mesh.columns(6, 7)
    trg = cloud(300, np.float64)
    trg[:, 0] = trg.max(axis=1)
    targets = mesh.sort(trg, tiles)
    cell = np.searchsorted(targets.starts, np.arange(300), side="right") - 1
    length = tiles.counts[0]
    for size, cells in itertools.product((1, 5, 1000), (1, 4, 7, 18, 100)):
        column, first, last = targets.parts(size, cells)
        assert first[0] == 0 and last[-1] == 300 and (first[1:] == last[:-1]).all()
        assert (last > first).all() and (last - first).max() <= size
        assert (cell[first] // length == column).all()
        assert (cell[last - 1] // length == column).all()
        assert (cell[last - 1] - cell[first]).max() < cells
        # No shorter than they must be.
        assert column.size <= np.unique(column).size * -(-length // cells) + 300 // size


@pytest.mark.parametrize("part", [7, 100])
@pytest.mark.parametrize("team", ["1", "4"])
def test_walks_with_gaps(team, part, monkeypatch):
    """Columns whose points lie far apart, in one cell, and on both sides of a part's end."""
    cells, rng = (90, 18, 18), np.random.default_rng(3)
    box = np.array(cells) * STEPS
    place = rng.random((3, 200))
    place[0] = np.repeat([0.01, 0.012, 0.4, 0.99], 50) + 0.005 * place[0] * (np.arange(200) % 50)
    src = np.minimum(place % 1 * box[:, None], np.nextafter(box, 0)[:, None])
    dens = rng.standard_normal((3, 200))
    results = {}
    for method in ("default", "tile"):
        if method == "tile":
            monkeypatch.setenv("PARKI_EMULATED_TEAM", team)
            monkeypatch.setattr("parki.ewald.far.sizes.P2G_PART", part)
            monkeypatch.setattr("parki.ewald.far.sizes.G2P_PART", part)
        names = (method, method) if method == "tile" else ("owner", "target")
        mesh = make_mesh(6, 3, np.float64, *names, cells=cells)
        p2g = place_sources(mesh, src)
        grid = p2g.apply(dens, np.empty_like(dens))[..., : cells[2]].copy()
        field = np.zeros((3, *mesh.stored))
        field[..., : cells[2]] = results.get("grid", grid)
        field[..., cells[2] :] = field[..., : mesh.spill]
        u = np.zeros((3, 200))
        G2P(mesh, src, p2g.sources, True).apply(field, {"u": u})
        if method == "tile":
            assert close(grid, results["grid"]) and close(u, results["u"])
        results = {"grid": grid, "u": u}


@pytest.mark.parametrize("periodicity", [0, 3])
def test_shares_in_order(periodicity):
    """No more than two shares add to a value of the grid, so that their order is all the same."""
    cells = (40, 18, 25)
    mesh = make_mesh(6, periodicity, np.float64, "tile", cells=cells)
    mesh = asked(mesh, options=EwaldOptions(periodicity, [1, 1, 1], deterministic=True))
    src = cloud(2000, np.float64, cells=cells)
    dens = np.random.default_rng(3).standard_normal((3, 2000))
    p2g = place_sources(mesh, src)
    tiles, first, last = work = p2g.arguments["work"]
    assert last[0] == first[1] and work.shape[1] > 4 * len(np.unique(tiles))
    written = np.zeros((tiles.max() + 1, mesh.padding.grid[0]), dtype=int)
    planes = p2g.arguments["entries"][1] // 64**2
    for tile, a, b in work.T:
        reach = np.arange(planes[a], planes[b - 1] + 6) % mesh.padding.grid[0]
        written[tile, np.unique(reach)] += 1
    assert written.max() == 2
    expected = p2g.apply(dens, np.empty_like(dens)).copy()
    for order in (slice(None, None, -1), np.random.default_rng(4).permutation(work.shape[1])):
        p2g.arguments["work"] = np.ascontiguousarray(work[:, order])
        assert np.array_equal(p2g.apply(dens, np.empty_like(dens)), expected)


@pytest.mark.parametrize("points", [6, 8, *OTHERS])
def test_lists(points):
    """A tile lists the sources whose windows reach it, and as many in all as predicted."""
    cells = (24, 64, 64)
    mesh = make_mesh(points, 3, np.float64, "tile", cells=cells)
    n = 30_000
    src = np.random.default_rng(1).random((3, n)) * (np.array(cells) * STEPS)[:, None]
    p2g = place_sources(asked(mesh, kernel="laplace"), src, None)
    source, code = p2g.arguments["entries"]
    assert len(source) == pytest.approx(n * sizes.reached(points, sizes.SIDES), rel=0.02)
    assert np.bincount(source).max() <= sizes.most_reached(points, sizes.SIDES)
    places = np.prod(p2g.counts) * cells[0]
    task = Task("laplace", mesh.space, mesh.dtype, parki.EwaldOptions(3, [1, 1, 1]))
    declared = source_buffers(task, "tile", Padding(cells, cells, ()), points, n)
    for name in ("points", "cells", "order", "counts", "starts"):
        array = getattr(p2g.sources, name)
        assert declared[name] == (array.shape, array.dtype)
    assert declared["entries"].shape[1] == pytest.approx(len(source), rel=0.02)
    assert declared["places"].shape[1] == places + 1
    assert 0 <= declared["work"].shape[1] - p2g.arguments["work"].shape[1] <= places / cells[0]
    sorted_ = p2g.sources.points
    cell = np.floor(sorted_ / STEPS[:, None]).astype(int)
    assert np.array_equal(code // 64**2, cell[0, source])
    edges = np.array(sizes.SIDES)
    for tile, first, last in merged(p2g.arguments["work"]):
        corner = np.array(np.divmod(tile, 64 // edges[1])) * edges
        away = (cell[1:] - corner[:, None] + 32) % 64 - 32
        reach = np.all((away > -points) & (away < edges[:, None]), axis=0)
        listed = source[first:last]
        assert set(np.flatnonzero(reach)) <= set(listed) and len(set(listed)) == len(listed)
        steps = np.stack([code[first:last] // 64 % 64, code[first:last] % 64]) - 32
        assert np.array_equal(steps, away[:, listed])
        assert np.all(np.diff(code[first:last] // 64**2) >= 0)


def test_lists_have_an_end(monkeypatch):
    src = cloud(20, np.float64)
    monkeypatch.setattr(spreading, "MOST_PLANES", 17)
    with pytest.raises(parki.ParkiValueError, match="18 cells along x; p2g_method='tile' takes 17"):
        place_sources(make_mesh(6, 3, np.float64, "tile"), src, None)


def merged(work: np.ndarray) -> list[tuple[int, int, int]]:
    """The lists of which these are parts."""
    tiles = np.unique(work[0])
    return [(t, work[1][work[0] == t].min(), work[2][work[0] == t].max()) for t in tiles]


# ---------------------------------------------------------------------- gathering
@pytest.mark.each
@pytest.mark.parametrize("method", GATHERS[1:])
@pytest.mark.parametrize("components", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("points", [6, *OTHERS])
def test_gathering(method, components, points):
    for periodicity, dtype in CASES[: 4 if points <= 8 else 3]:
        for want in WANTS[1:] if dtype is np.float64 else WANTS[:1]:
            if components == 1 and "p" in want:
                continue  # there is no pressure
            expected = gather(make_mesh(points, periodicity, dtype), components, want)
            result = gather(make_mesh(points, periodicity, dtype, gather=method), components, want)
            for name in want:
                assert result[name].dtype == dtype
                assert close(result[name], expected[name]), (periodicity, dtype, want, name)


# Long, flat and thin boxes; the last one's windows wrap around all axes, and fill rows of z.
BOXES = ((150, 12, 12), (12, 61, 66), (70, 64, 12), (12, 12, 12))


@pytest.mark.parametrize("cells", BOXES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_gather(dtype, cells):
    """Whatever the box and the cloud, one target or thousands."""
    points = 12 if dtype is np.float64 else 9
    for periodicity, n in itertools.product((0, 3), (4, 5000)):
        how = {"points": points, "periodicity": periodicity, "dtype": dtype, "cells": cells}
        found, expected = (
            gather(make_mesh(**how, gather=method), 3, ("u",), n=n)["u"] for method in GATHERS[:2]
        )
        assert close(found, expected), (periodicity, n)


TENSORS = [
    ("u", "p", "grad_u", "grad_tensor"),
    pytest.param(("grad_tensor",), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("want", TENSORS)
def test_blocks_gather_derivatives(want):
    """Gradients, the pressure, and what tensor targets read, also of several systems."""
    for cells, n in ((BOXES[3], 40), ((40, 33, 30), 3000)):
        mesh = make_mesh(12, 3, np.float64, cells=cells)
        other = make_mesh(12, 3, np.float64, gather="base", cells=cells)
        assert [g.blocks for g in G2P.gathers(asked(mesh, names=want))] == [True]
        for offsets in (None, [0, 13, 13, n]):
            how = {"n": n, "offsets": offsets}
            found, expected = (gather(each, 3, want, **how) for each in (mesh, other))
            for name in want:
                assert close(found[name], expected[name]), (cells, name, offsets)


@pytest.mark.parametrize("want", [("u",), *TENSORS])
def test_batches_do_not_matter(want, monkeypatch):
    """A target takes the same bits alone and with any others."""
    mesh = make_mesh(12, 3, np.float64, cells=(40, 33, 30))
    assert G2P.gathers(asked(mesh, names=want))[0].blocks
    expected = gather(mesh, 3, want, n=3000)
    for size in (1, 77, 1500):
        monkeypatch.setattr(sizes, "BLOCK_PART", size)
        found = gather(mesh, 3, want, n=3000)
        assert all(np.array_equal(found[name], expected[name]) for name in want), size


@pytest.mark.each
@pytest.mark.parametrize(
    ("threads", "cells"),
    [
        *(((1, 3, 2, 4), 0), ((5, 6, 1, 32), 0), (None, 1), (None, 3)),
        pytest.param((2, 1, 8, 2), 0, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("periodicity", [1, 3])
@pytest.mark.parametrize("want", [("u",), ("u", "grad_u")])
def test_shares_of_devices_gather(want, periodicity, threads, cells, monkeypatch):
    """Threads that share a target, with planes left over; or parts that end along a column."""
    expected = gather(make_mesh(6, periodicity, np.float64), 3, want)
    asked = []
    if threads:
        monkeypatch.setattr("parki.ewald.far.columns._threads", lambda _: threads)
        monkeypatch.setenv("PARKI_EMULATED_TEAM", "4")
    else:
        part = lambda tiles, device: asked.append(device) or cells  # noqa: E731
        monkeypatch.setattr("parki.ewald.far.g2p.part_cells", part)
    result = gather(make_mesh(6, periodicity, np.float64, gather="tile"), 3, want)
    assert asked == [False] * (not threads)
    assert all(close(result[name], expected[name]) for name in want)


@pytest.mark.parametrize("method", GATHERS)
def test_results_of_many_targets_are_gathered_in_order(method, monkeypatch):
    """And brought back, added to what is there, also the second time."""
    want = ("u", "p", "grad_u")
    mesh = make_mesh(6, 2, np.float64, gather=method)
    expected = gather(mesh, 3, want)
    monkeypatch.setattr(sizes, "IN_ORDER", 1)
    result = gather(mesh, 3, want)
    assert all(close(result[name], expected[name]) for name in want)
    twice = gather(mesh, 3, want, times=2)
    assert all(close(twice[name] - 1, 2 * (expected[name] - 1)) for name in want)


def test_cells_of_a_share():
    """Few where they are few; a thread of a host walks through its column."""
    few, many = (40, 2, 2), (400, 40, 40)
    assert [sizes.part_cells(tiles, True) for tiles in (few, many)] == [12, 625]
    assert [sizes.part_cells(tiles, False) for tiles in (few, many)] == [40, 400]


@pytest.mark.each
@pytest.mark.parametrize("method", SPREADS)
@pytest.mark.parametrize("gathers", GATHERS)
def test_targets_that_are_the_sources(method, gathers):
    """Sorted points are shared where both stages sort alike, and only there."""
    expected = gather(make_mesh(6, 1, np.float64), 3, ("u",), same=True)["u"]
    mesh = make_mesh(6, 1, np.float64, method, gathers)
    assert close(gather(mesh, 3, ("u",), same=True)["u"], expected)
    src = cloud(300, np.float64)
    sources = place_sources(mesh, src).sources
    g2p = G2P(mesh, src, sources, True)
    alike = method != "base" if gathers == "target" else (method, gathers) in SHARED
    assert (g2p.targets is sources) is alike
    in_order = np.array_equal(g2p.targets.order, np.arange(300))
    assert in_order is (gathers == "base")


SHARED = {("base", "base")}


# ---------------------------------------------------------------------- choice


@pytest.mark.parametrize("bytes_", [113_000, 60_000, 30_000])
def test_scratch_memory_is_what_the_kernels_take(bytes_, monkeypatch):
    monkeypatch.setattr(mesh_module, "SCRATCH", (bytes_, bytes_))
    for points in (2, 6, 12):
        mesh = make_mesh(points, 3, np.float64, "tile", "tile")
        kernels = spreading_kernels(asked(mesh, kernel="stokes_comb"))
        for want in (("u",), ("grad_u",)):
            if Gather.of(asked(mesh, names=want)):
                kernels += G2P.kernels(asked(mesh, names=want))
        assert all(k.translated.scratch <= bytes_ for k in kernels)


def small_sum(**options) -> tuple[np.ndarray, parki.Plan]:
    rng = np.random.default_rng(9)
    src = rng.random((3, 200))
    given = flat.options(3, [1, 1, 1], 1e-2, cutoff=0.4, window_points=6, **options)
    plan = parki.Plan("stokes_sl", src, src, given)
    return plan(rng.standard_normal((3, 200))), plan


def test_a_tile_that_does_not_fit_falls_back(monkeypatch):
    expected, plan = small_sum(g2p_method="target")
    assert "P2G by owner, G2P by target" in plan.describe()
    result, plan = small_sum(g2p_method="tile")
    assert close(result, expected)
    assert plan.describe().splitlines()[3].endswith("P2G by owner, G2P by tile")
    monkeypatch.setattr(mesh_module, "SCRATCH", (8_000, 8_000))
    result, plan = small_sum(g2p_method="tile")
    assert np.array_equal(result, expected)
    assert "G2P by target (no tile of P = 6 fits scratch memory)" in plan.describe()
    for method in SPREADS:
        result, plan = small_sum(p2g_method=method, g2p_method="base")
        assert close(result, expected)
        assert f"P2G by {method}, G2P by base" in plan.describe()
