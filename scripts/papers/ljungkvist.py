"""Ljungkvist (2014): conflicting additions, and matrix-free operators against stored matrices.

The section asks his questions about parki's operators. Sources near each other add to the same
values of the grid, as elements that share a node do. Conflicts are avoided by atomics, by colouring
(tiles of eight colours), or by a grid for each CPU thread. Unprotected additions lose
contributions, and are a bound. Spreading, interpolation and the near field are computed from the
points, or stored as sparse matrices. These are CSR matrices of SciPy or cuSPARSE, and 3 x 3 blocks
of the single layer's pairs within the cut-off. `examples/matrix_free_poisson.py` is his own model
problem, and its numbers are here too.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from benchmarks.near import Near, own_variants
from benchmarks.record import Record
from benchmarks.run import Run
from benchmarks.show import SERIES, Table, count, figure, ms, number, save
from scipy.sparse import bsr_matrix

import parki
from parki.arrays import USUAL, real_name
from parki.cell_list import CellList
from parki.mesh import Grid, kaiser_bessel
from parki.runtime import load

from . import cases

TODAY = """
**parki's plans store none of these.** Nothing in the tables would save a fifth of a whole
application, however many applications follow. Stored windows would save a tenth of spreading on
CPUs, or a fifth with four points in single precision, and nothing on GPUs.

| question | two CPU threads | H100 |
| --- | --- | --- |
| conflicts: colouring and private grids | a tenth of the time of atomics, about as fast as \
unprotected additions, as he found | colouring takes 13 times as long as atomics for a grid, 1.5 \
to 6 times for finite elements |
| the fastest way to handle conflicts | parki's tiles of four colours, with rows of the grid as \
vectors | atomics, even compared with unprotected additions |
| stored spreading and interpolation over computed ones | 1.2 to 20 in each application; set-up \
takes hundreds of applications more | 1.1 to 6.7 from P = 6 on; 0.7 to 1.5 at P = 4 |
| stored blocks of the near field | slower than computed pairs, in either precision | 1.2 to 1.6 \
times as long as computed pairs, three times as long as pairs from lists, which plans keep on GPUs \
|

At P = 4 the H100 was measured with tiles; parki now takes the hybrid variant there.

His model problem gives the same answer as in his paper. Computing is twice as fast as CSR from
degree 2 on. In three dimensions, from degree 3 on, the product with the local matrix takes all the
time, and the way to handle conflicts makes no difference.
"""

KERNELS = Path(__file__).parent / "kernels"
EXAMPLE = Path(__file__).parents[2] / "examples" / "matrix_free_poisson.py"
CONFLICTS = ("atomics", "colouring", "private", "unprotected")
WINDOWS = (4, 6, 8, 12)
APPLICATIONS = (20, 1000)
TARGETS, LANES = 8, 32  # of a device's team that multiplies blocks
DOFS = {False: 300_000, True: 2_000_000}
# Speedup of his best GPU version over his fastest CPU version, for the largest problems on a Tesla
# K20c, from the text.
PAPER = "5.4 to 10 times (2-D) and 4.5 to 10 times (3-D)"


def measure(run: Run) -> dict[str, Any]:
    """Measure conflicts, stored meshes, stored windows, stored blocks and the model problem."""
    return {
        "conflicts": _conflicts(run),
        "stored": _stored(run),
        "windows": _windows(run),
        "blocks": _blocks(run),
        "model": _model(run),
    }


def _size(run: Run, host: int, device: int) -> int:
    return cases.QUICK if run.quick else run.size(host, device)


def _grid(n: int) -> Grid:
    """Return a grid with about one point per particle."""
    k = max(16, 2 * round(n ** (1 / 3) / 2))
    return Grid((k,) * 3, spacing=1 / k)


def _conflicts(run: Run) -> list[dict[str, Any]]:
    n, rows = _size(run, 200_000, 4_000_000), []
    usual = USUAL[run.space.on_device][1]
    for dtype in ("f8", "f4"):
        points = cases.uniform(run, 3, n, dtype)
        for components in (1, 3):
            values = cases.normal(run, (components, n), dtype)
            for method in (*CONFLICTS, usual):
                if method == "private" and run.space.on_device:
                    continue
                case = cases.spreading(run, method, points, values, _grid(n), kaiser_bessel(6))
                took = cases.seconds(run, case.apply)
                row = {"dtype": dtype, "components": components, "method": method}
                rows.append(row | {"apply": took, "N": n, "memory": case.memory})
                del case
                cases.free(run)
    return rows


def _stored(run: Run) -> list[dict[str, Any]]:
    """Time spreading and interpolation of one component, computed and stored."""
    n, rows = _size(run, 100_000, 1_000_000), []
    grid, usual = _grid(n), USUAL[run.space.on_device]
    for dtype in ("f8", "f4"):
        points = cases.uniform(run, 3, n, dtype)
        values, field = cases.normal(run, (1, n), dtype), cases.normal(run, (1, *grid.shape), dtype)
        for p in (4,) if run.quick else WINDOWS:
            window = kaiser_bessel(p)
            for stage, methods in (
                ("P2G", (usual[1], "stored", "single_mesh")),
                ("G2P", (usual[2], "stored")),
            ):
                if stage == "P2G":
                    make, given = cases.spreading, values
                else:
                    make, given = cases.interpolation, field
                found = {}
                for method in methods:
                    few = given[:, :100] if stage == "P2G" else given
                    make(run, method, points[:, :100], few, grid, window).apply()  # compiles
                    found[method] = make(run, method, points, given, grid, window)
                calls = {method: case.apply for method, case in found.items()}
                times = cases.alternating(run, calls, cases.ROUNDS)
                row = {"stage": stage, "dtype": dtype, "P": p, "N": n, "K": grid.shape[0]}
                for method, case in found.items():
                    more = {"method": method, "computed": method in usual, "setup": case.setup}
                    rows.append(row | more | {"apply": times[method], "memory": case.memory})
                del found, calls, case
                cases.free(run)
    return rows


def _windows(run: Run) -> list[dict[str, Any]]:
    """Return the possible saving by stored windows: the time of computing minus reading them."""
    n = _size(run, 200_000, 4_000_000)
    windows = (4,) if run.quick else WINDOWS
    return [_window(run, n, dtype, p) for dtype in ("f8", "f4") for p in windows]


def _window(run: Run, n: int, dtype: str, p: int) -> dict[str, Any]:
    xp, grid, window = run.xp, _grid(n), kaiser_bessel(p)
    points, values = cases.uniform(run, 3, n, dtype), cases.normal(run, (1, n), dtype)
    case = cases.spreading(run, USUAL[run.space.on_device][1], points, values, grid, window)
    whole = cases.seconds(run, case.apply)
    del case
    mesh, file = cases.mesh_of(run, points.dtype, grid, window), str(KERNELS / "windows.py")
    out = xp.zeros(n, dtype=dtype)
    compute = mesh.load(file, "compute")
    computing = cases.seconds(run, lambda: compute(n, src=points, out=out, **mesh.arguments))
    read = load(file, "read", run.space, REAL=real_name(points.dtype), P=p)
    windows, anchors = xp.ones((n, 3 * p), dtype=dtype), xp.ones((3, n), dtype=np.int32)
    reading = cases.seconds(run, lambda: read(n, anchors=anchors, stored=windows, out=out))
    cases.free(run)
    row = {"dtype": dtype, "P": p, "N": n, "spread": whole}
    return row | {"compute": computing, "read": reading}


def _blocks(run: Run) -> list[dict[str, Any]]:
    """Time the near field of the single layer, computed and as blocks, alternately."""
    n, device = _size(run, 20_000, 100_000), run.space.on_device
    size = 5 if run.quick else 64 if device else 40
    calls: dict[str, Any] = {}
    kept: dict[str, tuple[float, int]] = {}
    for dtype in ("f8", "f4"):
        name = _precision(dtype)
        near = Near(run, n, "stokes_sl", cell_size=size, dtype=dtype)
        calls[f"computed, {name}"] = computed = near.near_field(own_variants(run)[0])
        expected = computed().copy()
        _pair_blocks(run, near)  # compiles
        setup, (matrix, order) = cases.timed(run, lambda near=near: _pair_blocks(run, near))
        dens = run.xp.ascontiguousarray(near.dens[:, order])
        pot = run.xp.empty_like(dens)
        multiply = _product(run, n, matrix, dens, pot)
        multiply()
        error = float(abs(pot - expected[:, order]).max() / abs(expected).max())
        if error > (1e-11 if dtype == "f8" else 1e-4):
            raise RuntimeError(f"blocks differ from the near field by {error}")
        calls[f"blocks, {name}"] = multiply
        kept[f"blocks, {name}"] = setup, sum(int(part.nbytes) for part in matrix)
        if not device:
            name = f"blocks, {name}, SciPy"
            calls[name] = _scipy(matrix, dens, n)
            kept[name] = setup, sum(int(part.nbytes) for part in matrix)
        pairs = int(matrix[1].size)
    times = cases.alternating(run, calls, cases.ROUNDS)
    rows = []
    for name, took in times.items():
        setup, memory = kept.get(name, (0.0, 0))
        rows.append({"method": name, "apply": took, "setup": setup, "memory": memory})
    if device:  # the plan's own lists of pairs
        rows += _lists(run, Near(run, n, "stokes_sl", cell_size=size))
    return [row | {"N": n, "pairs": pairs / n} for row in rows]


def _product(run: Run, n: int, matrix: Any, dens: Any, pot: Any) -> Any:
    """Return a function that multiplies blocks by a kernel."""
    begins, columns, blocks = matrix
    device = run.space.on_device
    kernel = load(
        str(KERNELS / "near_blocks.py"),
        "sum_blocks",
        run.space,
        REAL=real_name(dens.dtype),
        team_size=TARGETS if device else 1,
        vector_length=LANES if device else 1,
    )
    each = TARGETS if device else 64
    given = {"begins": begins, "columns": columns, "blocks": blocks, "dens": dens, "pot": pot}
    return partial(kernel, -(-n // each), targets=n, rows=each, **given)


def _lists(run: Run, near: Near) -> list[dict[str, Any]]:
    """Return parki's near field with the lists of pairs that a plan keeps."""
    options = parki.EwaldOptions(
        periodicity=1,
        box=(1, 1, 1),
        tolerance=1e-4,
        cell_size=near.cell_size,
        execution_space=run.space,
    )
    begun = run.now()
    plan = parki.Plan("stokes_sl", near.points, near.points, options)
    for _ in range(3):
        plan(near.dens)
    took = run.now() - begun
    times = sorted(plan.timed(near.dens)[1]["P2P"] for _ in range(cases.ROUNDS))
    lists = plan.pipeline.lists
    if lists is None or not lists.kept:
        return []
    row = {"method": "computed, double, lists kept", "apply": times[len(times) // 2]}
    return [row | {"setup": took, "memory": int(lists.size)}]


def _scipy(matrix: Any, dens: Any, n: int) -> Any:
    """Return a function that multiplies blocks by SciPy, in one thread."""
    begins, columns, blocks = matrix
    data = np.ascontiguousarray(blocks.T).reshape(-1, 3, 3)
    whole = bsr_matrix((data, columns, begins), shape=(3 * n, 3 * n))
    vector = np.ascontiguousarray(dens.T).ravel()
    return lambda: whole @ vector


def _pair_blocks(run: Run, near: Near) -> Any:
    """Return (begins, columns, blocks), and the order of the points."""
    xp, n, dtype = run.xp, near.n, near.points.dtype
    periodic = (True, False, False)
    cells = CellList(near.points, near.cutoff, (1, 1, 1), periodic, execution_space=run.space)
    if cells.shape[0] < 3:
        raise RuntimeError("the cut-off is too long for lists of pairs")
    constants = {"REAL": real_name(dtype), "DEGREE": near.degree}
    split = near.split.scaled(near.cutoff / near.first_cutoff)
    radial = split.radial_polynomials(near.cutoff, near.degree)
    counts, begins = xp.empty(n, dtype=np.int32), xp.zeros(n + 1, dtype=np.int64)
    given = {
        "points": cells.points,
        "cell": cells.cells[cells.order],
        "shape": xp.asarray(cells.shape, dtype=np.int32),
        "starts": cells.starts,
        "radial": xp.asarray(np.array([radial.S, radial.X]), dtype=dtype),
        "cutoff": near.cutoff,
        "counts": counts,
        "begins": begins,
        "columns": None,
        "blocks": None,
    }
    file = str(KERNELS / "near_blocks.py")
    load(file, "find_pairs", run.space, COUNTING=True, **constants)(n, **given)
    xp.cumsum(counts, out=begins[1:], dtype=np.int64)
    total = int(begins[-1])
    given["columns"] = xp.empty(total, dtype=np.int32)
    given["blocks"] = xp.empty((9, total), dtype=dtype)
    load(file, "find_pairs", run.space, COUNTING=False, **constants)(n, **given)
    return (begins, given["columns"], given["blocks"]), cells.order


def _model(run: Run) -> list[dict[str, Any]]:
    """Time his model problem, by the example."""
    example = _example()
    dofs = 300 if run.quick else DOFS[run.space.on_device]
    rows = []
    for dimensions in (2, 3):
        for degree in (1, 2) if run.quick else example.DEGREES:
            row = example.measure(dimensions, degree, dofs, run.space)
            rows.append({"axes": dimensions, "p": degree} | row)
            cases.free(run)
    return rows


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("matrix_free_poisson", EXAMPLE)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{EXAMPLE} is missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def tables(record: Record) -> list[Table]:
    """Return a table of each question."""
    found = record["results"]
    made = [_conflict_table(found["conflicts"])]
    made += [_stored_table(found["stored"], stage) for stage in ("P2G", "G2P")]
    rows = []
    for row in found["windows"]:
        saved = (row["compute"] - row["read"]) / row["spread"]
        line = [_precision(row["dtype"]), str(row["P"]), ms(row["spread"]), ms(row["compute"])]
        rows.append([*line, ms(row["read"]), f"{100 * saved:.0f} %"])
    head = ("precision", "P", "P2G", "computing windows", "reading windows", "saved at most")
    n = count(found["windows"][0]["N"])
    made.append(Table(f"Stored windows, milliseconds: {n} sources, one component", head, rows))
    base = {row["method"]: row["apply"] for row in found["blocks"]}
    rows = []
    for row in found["blocks"]:
        of = f"computed, {'single' if 'single' in row['method'] else 'double'}"
        line = [row["method"], ms(row["apply"]), number(row["apply"] / base[of]), ms(row["setup"])]
        rows.append([*line, number(row["memory"] / 1e6)])
    size = f"{count(found['blocks'][0]['N'])} points, {found['blocks'][0]['pairs']:.0f} pairs each"
    head = ("near field", "ms", "over computed", "set-up, ms", "MB")
    made.append(Table(f"The near field of the single layer: {size}", head, rows))
    methods = list(dict.fromkeys(m for row in found["model"] for m in row["rates"]))
    rows = [
        [
            f"{row['axes']}-D",
            str(row["p"]),
            f"{row['dofs']:,}".replace(",", " "),
            *(number(row["rates"][m] / 1e6) if m in row["rates"] else "" for m in methods),
            ms(row["setups"].get("stored")),
        ]
        for row in found["model"]
    ]
    head = ("", "p", "unknowns", *methods, "set-up of stored, ms")
    made.append(Table("The model problem, million degrees of freedom per second", head, rows))
    return made


def _conflict_table(found: list[dict[str, Any]]) -> Table:
    methods = list(dict.fromkeys(row["method"] for row in found))
    rows = []
    for dtype, components in dict.fromkeys((row["dtype"], row["components"]) for row in found):
        times = {
            row["method"]: 1e9 * row["apply"] / row["N"]
            for row in found
            if (row["dtype"], row["components"]) == (dtype, components)
        }
        line = [_precision(dtype), str(components)]
        rows.append([*line, *(number(times[method]) for method in methods)])
    head = ("precision", "components", *methods[:-1], f"parki, {methods[-1]}")
    n = count(found[0]["N"])
    return Table(f"Conflicts in spreading, ns for a source: P = 6, {n} sources", head, rows)


def _stored_table(found: list[dict[str, Any]], stage: str) -> Table:
    rows = []
    for dtype, p in dict.fromkeys((row["dtype"], row["P"]) for row in found):
        of = [r for r in found if (r["stage"], r["dtype"], r["P"]) == (stage, dtype, p)]
        free = next(row for row in of if row["computed"])
        for row in of:
            if row is free:
                continue
            ratios = []
            for k in APPLICATIONS:
                whole = row["setup"] + k * row["apply"]
                ratios.append(number(whole / (free["setup"] + k * free["apply"])))
            name = {"stored": "library"}.get(row["method"], "single mesh")
            line = [_precision(dtype), str(p), name, ms(free["apply"]), ms(row["apply"])]
            line += [number(row["apply"] / free["apply"]), ms(free["setup"]), ms(row["setup"])]
            rows.append([*line, number(row["memory"] / 1e6), *ratios])
    head = ("precision", "P", "stored as", "computed, ms", "stored, ms", "ratio")
    head += ("set-up, computed", "set-up, stored", "MB")
    head += tuple(f"ratio of {k} with set-up" for k in APPLICATIONS)
    first = found[0]
    return Table(
        f"{stage} computed and stored: {count(first['N'])} points, {first['K']}³ grid", head, rows
    )


def _precision(dtype: str) -> str:
    return {"f8": "double", "f4": "single"}[dtype]


def draw(record: Record, file: Path) -> None:
    """Draw conflicts, stored over computed, and the model problem (his Figure 4)."""
    found = record["results"]
    made, panels = figure(4, 4.0, 13.5)
    of = [row for row in found["conflicts"] if row["dtype"] == "f8" and row["components"] == 1]
    names = [row["method"] for row in of]
    panels[0].barh(range(len(of)), [1e9 * row["apply"] / row["N"] for row in of], color=SERIES[0])
    panels[0].set_yticks(range(len(of)), names)
    panels[0].set(title="Spreading, ns for a source", xlim=(0, None))
    for k, stage in enumerate(("P2G", "G2P")):
        for dtype, line in (("f8", "-"), ("f4", ":")):
            pairs = []
            for p in dict.fromkeys(row["P"] for row in found["stored"]):
                kind = stage, dtype, p
                rows = [r for r in found["stored"] if (r["stage"], r["dtype"], r["P"]) == kind]
                free = next(row["apply"] for row in rows if row["computed"])
                pairs.append((p, min(row["apply"] for row in rows if not row["computed"]) / free))
            label = f"{stage}, {_precision(dtype)}"
            panels[1].plot(
                *zip(*pairs, strict=True), line, marker="o", color=SERIES[k], label=label
            )
    panels[1].axhline(1, color="#666666", linewidth=1)
    panels[1].set(title="Stored over computed", xlabel="window points P", ylim=(0, None))
    panels[1].legend(fontsize=8)
    methods = list(dict.fromkeys(m for row in found["model"] for m in row["rates"]))
    for panel, axes in zip(panels[2:], (2, 3), strict=True):
        rows = [row for row in found["model"] if row["axes"] == axes]
        for k, method in enumerate(methods):
            line = [
                (row["p"], row["rates"][method] / 1e6) for row in rows if method in row["rates"]
            ]
            if line:
                panel.semilogy(*zip(*line, strict=True), "o-", color=SERIES[k], label=method)
        panel.set(title=f"{axes}-D, 10⁶ unknowns per second", xlabel="degree p")
    panels[2].legend(fontsize=8)
    for panel in panels:
        panel.grid()
    save(made, file, record["machine"]["name"])
