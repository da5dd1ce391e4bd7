"""Ljungkvist (2014): conflicting additions, and matrix-free operators against stored matrices.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import Case
from benchmarks.record import Record, pick
from benchmarks.run import Run
from benchmarks.show import SERIES, Table, count, figure, ms, number, precision, save

from parki.ewald.choice.cost import USUAL
from parki.mesh import Grid, kaiser_bessel

from .methods import interpolation, spreading

EXAMPLES = str(Path(__file__).parents[2] / "examples")
CONFLICTS = ("atomics", "colouring", "private", "unprotected")
WINDOWS = (4, 6, 8, 12)
APPLICATIONS = (20, 1000)
STORED = {"stored": "library", "single_mesh": "single mesh"}
DOFS = {False: 300_000, True: 2_000_000}


def measure(run: Run) -> dict[str, Any]:
    """Measure conflicts, stored meshes and the model problem."""
    return {"conflicts": _conflicts(run), "stored": _stored(run), "model": _model(run)}


def _grid(n: int) -> Grid:
    """Return a grid with about one point per particle."""
    k = max(16, 2 * round(n ** (1 / 3) / 2))
    return Grid((k,) * 3, spacing=1 / k)


def _conflicts(run: Run) -> list[dict[str, Any]]:
    n, rows = run.size(200_000, 4_000_000), []
    usual = USUAL[run.device][1]
    for dtype in ("f8", "f4"):
        points = run.uniform(3, n, dtype)
        for components in (1, 3):
            values = run.normal((components, n), dtype)
            for method in (*CONFLICTS, usual):
                if method == "private" and run.device:
                    continue
                case = spreading(run, method, points, values, _grid(n), kaiser_bessel(6))
                took = run.median(case.apply)
                row = {"dtype": dtype, "components": components, "method": method}
                rows.append(row | {"apply": took, "N": n, "memory": case.memory})
                del case
                run.free()
    return rows


def _stored(run: Run) -> list[dict[str, Any]]:
    """Time spreading and interpolation of one component, computed and stored."""
    n, rows = run.size(100_000, 1_000_000), []
    grid, usual = _grid(n), USUAL[run.device]
    for dtype in ("f8", "f4"):
        points = run.uniform(3, n, dtype)
        values, field = run.normal((1, n), dtype), run.normal((1, *grid.shape), dtype)
        for p in (4,) if run.quick else WINDOWS:
            window = kaiser_bessel(p)
            for stage, methods in (
                ("P2G", (usual[1], "stored", "single_mesh")),
                ("G2P", (usual[2], "stored")),
            ):
                if stage == "P2G":
                    make, given = spreading, values
                else:
                    make, given = interpolation, field
                found = {}
                for method in methods:
                    few = given[:, :100] if stage == "P2G" else given
                    make(run, method, points[:, :100], few, grid, window).apply()  # compiles
                    found[method] = make(run, method, points, given, grid, window)
                calls = {method: case.apply for method, case in found.items()}
                times = run.medians(calls)
                row = {"stage": stage, "dtype": dtype, "P": p, "N": n, "K": grid.shape[0]}
                for method, case in found.items():
                    more = {"method": method, "computed": method in usual, "setup": case.setup}
                    rows.append(row | more | {"apply": times[method], "memory": case.memory})
                del found, calls, case
                run.free()
    return rows


def _model(run: Run) -> list[dict[str, Any]]:
    """Time his model problem, by the example."""
    sys.path.insert(0, EXAMPLES)
    example = import_module("matrix_free_poisson")
    dofs = 300 if run.quick else DOFS[run.device]
    rows = []
    for dimensions in (2, 3):
        for degree in (1, 2) if run.quick else example.DEGREES:
            row = example.measure(dimensions, degree, dofs, run.space)
            rows.append({"axes": dimensions, "p": degree} | row)
            run.free()
    return rows


def tables(record: Record) -> list[Table]:
    """Return a table of each question."""
    found = record["results"]
    return [
        _conflict_table(found["conflicts"]),
        *(_stored_table(found["stored"], stage) for stage in ("P2G", "G2P")),
        _model_table(found["model"]),
    ]


def _model_table(found: list[dict[str, Any]]) -> Table:
    methods = list(dict.fromkeys(m for row in found for m in row["rates"]))
    rates = [
        (m, lambda row, m=m: number(row["rates"][m] / 1e6) if m in row["rates"] else "")
        for m in methods
    ]
    return Table.of(
        "The model problem, million degrees of freedom per second",
        found,
        ("", lambda row: f"{row['axes']}-D"),
        ("p", lambda row: str(row["p"])),
        ("unknowns", lambda row: f"{row['dofs']:,}".replace(",", " ")),
        *rates,
        ("set-up of stored, ms", lambda row: ms(row["setups"].get("stored"))),
    )


def _conflict_table(found: list[dict[str, Any]]) -> Table:
    times: dict[Any, dict[str, float]] = {}
    for row in found:
        of = times.setdefault((row["dtype"], row["components"]), {})
        of[row["method"]] = 1e9 * row["apply"] / row["N"]
    *methods, own = dict.fromkeys(row["method"] for row in found)
    names = dict(zip(methods, methods, strict=True)) | {own: f"parki, {own}"}
    n = count(found[0]["N"])
    return Table.of(
        f"Conflicts in spreading, ns for a source: P = 6, {n} sources",
        times.items(),
        ("precision", lambda row: precision(row[0][0])),
        ("components", lambda row: str(row[0][1])),
        *((name, lambda row, m=m: number(row[1][m])) for m, name in names.items()),
    )


def _stored_table(found: list[dict[str, Any]], stage: str) -> Table:
    of = pick(found, stage=stage)
    free = {(row["dtype"], row["P"]): row for row in of if row["computed"]}
    pairs = [(row, free[row["dtype"], row["P"]]) for row in of if not row["computed"]]

    def ratio(pair: Any, applications: int) -> str:
        stored, computed = (row["setup"] + applications * row["apply"] for row in pair)
        return number(stored / computed)

    return Table.of(
        f"{stage} computed and stored: {count(of[0]['N'])} points, {of[0]['K']}³ grid",
        pairs,
        ("precision", lambda pair: precision(pair[0]["dtype"])),
        ("P", lambda pair: str(pair[0]["P"])),
        ("stored as", lambda pair: STORED[pair[0]["method"]]),
        ("computed, ms", lambda pair: ms(pair[1]["apply"])),
        ("stored, ms", lambda pair: ms(pair[0]["apply"])),
        ("ratio", lambda pair: number(pair[0]["apply"] / pair[1]["apply"])),
        ("set-up, computed", lambda pair: ms(pair[1]["setup"])),
        ("set-up, stored", lambda pair: ms(pair[0]["setup"])),
        ("MB", lambda pair: number(pair[0]["memory"] / 1e6)),
        *((f"ratio of {k} with set-up", partial(ratio, applications=k)) for k in APPLICATIONS),
    )


def draw(record: Record, file: Path) -> None:
    """Draw conflicts, stored over computed, and the model problem (his Figure 4)."""
    found = record["results"]
    made, panels = figure(4, 4.0, 13.5)
    of = pick(found["conflicts"], dtype="f8", components=1)
    names = [row["method"] for row in of]
    panels[0].barh(range(len(of)), [1e9 * row["apply"] / row["N"] for row in of], color=SERIES[0])
    panels[0].set_yticks(range(len(of)), names)
    panels[0].set(title="Spreading, ns for a source", xlim=(0, None))
    for k, stage in enumerate(("P2G", "G2P")):
        for dtype, line in (("f8", "-"), ("f4", ":")):
            pairs = []
            for p in dict.fromkeys(row["P"] for row in found["stored"]):
                rows = pick(found["stored"], stage=stage, dtype=dtype, P=p)
                best = min(row["apply"] for row in pick(rows, computed=False))
                pairs.append((p, best / pick(rows, computed=True)[0]["apply"]))
            how = {"color": SERIES[k], "label": f"{stage}, {precision(dtype)}", "marker": "o"}
            panels[1].plot(*zip(*pairs, strict=True), line, **how)
    panels[1].axhline(1, color="#666666", linewidth=1)
    panels[1].set(title="Stored over computed", xlabel="window points P", ylim=(0, None))
    panels[1].legend(fontsize=8)
    methods = list(dict.fromkeys(m for row in found["model"] for m in row["rates"]))
    for panel, axes in zip(panels[2:], (2, 3), strict=True):
        rows = pick(found["model"], axes=axes)
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


CASES = {"ljungkvist": Case(__doc__, measure, tables, draw)}
