"""Small sums that launch every workunit, and the arguments and results of each launch.

In `test_upstream`, upstream PyKokkos repeats these launches of the embedded executor.
"""

from __future__ import annotations

import ast
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import flat
import numpy as np
import pytest

import parki
from parki import CellList
from parki.cells import sorted_points
from parki.core import RecordedSteps
from parki.dynamics.conjugate import conjugate
from parki.dynamics.lubrication import Lubrication
from parki.dynamics.moments import make_density, make_moves
from parki.dynamics.pair_matrix import PairMatrix
from parki.dynamics.placed import Placed, multiplied, same_shapes
from parki.ewald.far import stored_mesh
from parki.ewald.far.gauge import MODES
from parki.ewald.near.sizes import Launch
from parki.ewald.sums import SUMS
from parki.interchange import real_name
from parki.runtime import get_execution_space, load
from parki.runtime.kernel import Kernel
from parki.runtime.linter import is_constant_name, is_decorated
from parki.runtime.specialise import kernel_directory
from parki.surfaces.projections import projected

BOX = (1.0, 1.1, 0.9)
POINTS = 150


class Call(NamedTuple):
    """One launch, with its arguments before and its arrays after."""

    kernel: Kernel
    count: int
    before: dict
    after: dict


def workunits() -> list[str]:
    """Return the names of all workunits in the kernel files."""
    return [
        name for _, functions, _ in _files() for name in functions if _is_workunit(functions[name])
    ]


def plain_workunits() -> dict[str, Path]:
    """Return the workunits that use neither constants nor blocks, with their files."""
    found = {}
    for path, functions, blocks in _files():
        for name, node in functions.items():
            if _is_workunit(node) and not _needs(node, functions, blocks):
                found[name] = path
    return found


def _files():
    """Yield each kernel file, its functions, and the blocks that it imports."""
    for path in sorted(kernel_directory().rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        imports = [node for node in body if isinstance(node, ast.ImportFrom)]
        blocks = {a.name for node in imports if node.module != "typing" for a in node.names}
        if path.parent.name not in ("blocks", "pairs", "symbols"):
            yield path, {n.name: n for n in body if isinstance(n, ast.FunctionDef)}, blocks


def _is_workunit(node: ast.FunctionDef) -> bool:
    return is_decorated(node, "workunit")


def _needs(node: ast.FunctionDef, functions: dict, blocks: set[str]) -> set[str]:
    """Return the constants and blocks that a function uses, also through other functions."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    found = {name for name in names if is_constant_name(name)} | names & blocks
    for name in names & functions.keys() - {node.name}:
        found |= _needs(functions[name], functions, blocks)
    return found


def make_sum(kernel, periodicity, dtype, executor, want="u", box=BOX, more=None, **options):
    """Plan and apply a small sum; sums have as many kernels in common as possible."""
    rng = np.random.default_rng(1)
    trg = (0.9 * rng.random((3, POINTS - 20))).astype(dtype)
    src = (0.9 * rng.random((3, POINTS))).astype(dtype)
    norms = rng.standard_normal((3, POINTS)).astype(dtype)
    values = rng.standard_normal(SUMS[kernel].density_shape(POINTS)).astype(dtype)
    chosen = {"tolerance": 1e-2, "cutoff": 0.35, "window_points": 8, "p2g_method": "auto"}
    chosen = flat.options(periodicity, box, executor=executor, **chosen | options)
    given = trg, src, norms if SUMS[kernel].normals else None, chosen
    plan = parki.Plan(kernel, *given, want=want, **more or {})
    if plan.pipeline.lists is not None:  # the second sum keeps them, and the third uses them
        plan(values)
        plan(values)
    return plan(values)


def make_derivatives(dtype: type, **options) -> None:
    """Differentiate a small sum by the positions of its sources."""
    rng = np.random.default_rng(1)
    points, norms = (0.9 * rng.random((3, POINTS)).astype(dtype) for _ in range(2))
    dens, values = (rng.standard_normal((n, POINTS)).astype(dtype) for n in (6, 3))
    chosen = flat.options(1, BOX, 1e-2, executor="embedded", **options)
    given = "stokes_comb", points, points, dens, norms, chosen
    parki.vjp(*given, values=values, wrt=("src",))
    parki.energy(points, values[0], chosen)


def spread_and_interpolate(dtype: type) -> None:
    """Launch the other kernels of parki.mesh; on Serial, because atomics add in any order."""
    grid = parki.mesh.Grid((12, 13, 14), spacing=1 / 12)
    points = np.random.default_rng(0).random((3, POINTS)).astype(dtype)
    more = {"execution_space": "Serial"}
    for method in stored_mesh.VARIANTS:
        if method != "unprotected":
            spread = parki.mesh.SpreadPlan(points, grid, method=method, **more)
            spread(points[0])
    for method in ("target", "stored"):
        interpolate = parki.mesh.InterpolatePlan(points, grid, method=method, **more)
        interpolate(np.ones(grid.shape, dtype))


def sort_as_devices_do(dtype: type) -> None:
    """Launch kernels that only devices use; a host counts by chunks, and NumPy finds extremes."""
    points = np.random.default_rng(0).random((3, POINTS)).astype(dtype)
    space = get_execution_space("OpenMP")
    cells = CellList(points, None, (1, 1, 1), shape=(1, 1, 7), execution_space=space)
    real = real_name(dtype)
    names = ("sort_few", "list_cells", "order_cells")
    few, *others = (load("cell_list", n, space, REAL=real) for n in names)
    in_order = load("cell_list", "count_cells", get_execution_space("Serial"), REAL=real)
    for at_once in (POINTS, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sorted_points, "SORTED_AT_ONCE", at_once)
            sorted_points.sort_on_device(
                space, cells.cells, cells.n_cells, (few, in_order, *others)
            )
    cut = {"starts": cells.starts, "length": 7, "pieces": 2, "size": 30, "columns": 1}
    load("cell_list", "list_few", space)(9, parts=np.empty((3, 9), np.int32), **cut)
    ends = dict(zip(("low", "high"), np.empty((2, 3, 4), dtype), strict=True))
    sizes = {"total": POINTS, "items": 4, "rows": 3}
    extremes = load("extremes", "extremes", space, REAL=real)
    extremes(4, lows=points, highs=points, **sizes, **ends)
    lows, highs = (rows[0].copy() for rows in ends.values())
    rows = {"values": -3 * points[0], "density": points[0].copy(), "low": lows, "high": highs}
    load("extremes", "ratios", space, REAL=real)(4, total=POINTS, items=4, largest=1e9, **rows)
    np.testing.assert_allclose([lows, highs], -3, rtol=1e-6)
    values, limits = points.copy(), np.array([[0.1] * 3, [0.8] * 3], dtype)
    what = {"values": values, "invalid": np.zeros(1)}
    count, mend = (load("extremes", f"{n}_invalid", space, REAL=real) for n in ("count", "replace"))
    count(POINTS, least=0.1, most=0.8, rows=3, **what)
    matrix, inside = np.array([[1, 0.2, 0], [0, 1, 0], [0.1, 0, 1]], dtype), limits.mean(axis=0)
    where = {"edgewise": matrix, "inside": inside, "lowest": limits[0], "highest": limits[1]}
    mend(POINTS, **where, **what)
    radii, options = np.full(POINTS, 0.01), flat.options(3, BOX)
    pairs = Lubrication(points.astype(float), radii, options, roughness=0.1)
    PairMatrix(space, pairs, np.ones((2, POINTS))).solve(np.ones((6, POINTS)))
    pairs.acting(np.ones((6, POINTS)), np.diag([1.0, 1.0, -2.0]))
    pairs.brownian_noise(np.ones((4, 3, pairs.first.size)))
    make_moves(space, make_density(space, np.ones((11, POINTS))))
    move_bodies(dtype)
    sum_modes()
    iterate(dtype)


def move_bodies(dtype: type) -> None:
    """Launch what bodies do alone, also the product for which a host has a library."""
    places = np.array([[0.2, 0.7], [0.3, 0.6], [0.4, 0.5]], dtype)
    ball, space = parki.BodyShape.sphere(0.1, 12), get_execution_space("OpenMP")
    kinds, _ = same_shapes(np, np.dtype(dtype), [ball], np.zeros(2, int))
    placed = Placed(space, kinds, places, np.repeat([[0.0], [0.6], [0.0], [0.8]], 2, axis=1), dtype)
    placed.carried(placed.alone(placed.arms)[1])
    rows, matrix = np.eye(36, dtype=dtype)[:5], kinds[0].answer
    assert (multiplied(space, rows, matrix) == matrix[:5]).all()


def sum_modes() -> None:
    """Launch the sum of a plane's modes, of two pieces of points, which single precision takes."""
    rng = np.random.default_rng(2)
    rotation, weights = rng.random((POINTS, 2)) - 0.5, rng.random((1, POINTS))
    kernel = load("fgc", "sum_lowest_modes", get_execution_space("OpenMP"), MODES=MODES)
    sums, offsets = np.empty((2 * MODES, 2)), np.array([0, 7, POINTS], np.int32)
    kernel(2, rotation=rotation, weights=weights, offsets=offsets, pieces=2, sums=sums)
    powers = (rotation @ [1, 1j]) ** np.arange(1, MODES + 1)[:, None]
    assert np.allclose(sums[::2] + 1j * sums[1::2], np.add.reduceat(weights * powers, [0, 7], 1))


def leave_out_flux(dtype: type) -> None:
    """Launch what a mean without flux takes, of targets that have one sum in common."""
    space, trg = get_execution_space("OpenMP"), np.random.default_rng(3).random((3, POINTS))
    u, sums = np.zeros((3, POINTS), dtype), np.array([[1.0], [2.0], [3.0], [4.0]])
    kernel = load("flux", "add_linear", space, REAL=real_name(dtype))
    kernel(POINTS, each=0, sums=sums, trg=trg, factor=0.5, u=u)
    assert np.allclose(u, 0.5 * sums[:3] - 2 * trg, atol=1e-6)
    dens, strengths = np.stack([trg[0], *-trg]).astype(dtype), np.empty((2, POINTS))
    measure = load("flux", "measure_dipoles", space, REAL=real_name(dtype))
    measure(POINTS, row=1, dens=dens, norms=trg.astype(dtype), strengths=strengths)
    assert np.allclose(strengths, (trg**2).sum(axis=0) * np.array([[-1.0], [1.0]]))


def iterate(dtype: type) -> None:
    """Launch the steps of conjugate gradients, for a multiple of the identity."""
    steps, k = RecordedSteps(get_execution_space("OpenMP")), np.ones((3, 5), dtype)
    steps.begin((steps, "a host", False))
    k[0] = 2.0
    found = conjugate(
        steps,
        lambda x: 3 * x * k,
        lambda r: (r / 2, np.ones((2, 4), dtype)),
        lambda _: 0 * k,
        lambda: (0 * k, np.zeros((2, 4), dtype)),
        k,
        lambda *_: 1.0,
        1e-6,
        20,
    )
    assert np.allclose(found.acts, 1 / 3, rtol=1e-4)


def correct_surfaces(dtype: type) -> None:
    """Correct a layer near nodes alone, whose pairs are counted first, and project a density."""
    ball = parki.Surface.spheres(np.zeros((3, 1), dtype), 1.0, order=2, finer=1)
    expert = parki.Expert(executor="embedded")
    ball.double_layer(ball.nodes, 1.1 * ball.nodes, periodicity=0, tolerance=1e-2, expert=expert)
    projected(ball, ball.nodes, itself=1.0, rigid=1.0, flux=1.0)


def record(dtype: type) -> list[Call]:
    """Return all launches of small sums by the embedded executor."""
    calls: list[Call] = []
    original = Kernel.__call__  # all launches go through it, also in parki's own threads

    def run(self, count, /, *threads, arguments=MappingProxyType({}), **others):
        arguments = {**arguments, **others}
        before = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        original(self, count, *threads, arguments=arguments)
        after = {k: v.copy() for k, v in arguments.items() if isinstance(v, np.ndarray)}
        calls.append(Call(self, count, before, after))

    def comb(method="owner", want="u", periodicity=1, **more):
        make_sum("stokes_comb", periodicity, dtype, "embedded", want, p2g_method=method, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "__call__", run)
        comb(want=("u", "p", "grad_u"))
        # Uses the library's erf and exp.
        make_sum("laplace", 3, dtype, "embedded", split="hasimoto", radial="erfc")
        comb("tile", p2p_method="tile")
        comb(more={"systems": ([0, 20, POINTS - 20], [0, 30, POINTS])})
        labels = np.arange(POINTS) // 7
        for want in ("u", ("u", "grad_u")):
            comb(want=want, more={"exclude": (labels[20:], labels)})
        comb(want=("u", "p", "grad_u"), box=[[2, 0, 0], [0.5, 2, 0], [0, 0, 2]], periodicity=2)
        for method in ("source", "grid", "hybrid"):
            comb(method, g2p_method="tile")
        comb(p2p_method="gm1d")
        comb(want=("u", "grad_u"), p2p_method="tile", deterministic=True)  # keeps no lists
        # Wide windows are gathered from blocks, and derivatives, too, in double precision.
        comb(want=("u", "p", "grad_u"), window_points=12)
        make_derivatives(dtype)
        make_derivatives(dtype, window_points=12)
        correct_surfaces(dtype)
        leave_out_flux(dtype)
        # With lanes, which a host's team does not use by itself.
        lanes = Launch(team=1, vectors=4, targets=20, chunk=30, width=0.5)
        patch.setattr("parki.ewald.pipeline.setup.choose_launch", lambda *_: lanes)
        comb(p2p_method="sm2d")
        patch.setattr("parki.ewald.far.sizes.IN_ORDER", 1)
        spread_and_interpolate(dtype)
        sort_as_devices_do(dtype)
    return calls
