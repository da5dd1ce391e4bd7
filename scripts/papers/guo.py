"""Guo, Liu, Xu, Du and Chow (2014, 2015): spreading many times over the same particles.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks import Case
from benchmarks.record import Record, pick
from benchmarks.run import TINY, Run, roundings
from benchmarks.show import SERIES, Table, count, figure, ms, number, save

from parki.ewald.choice.cost import USUAL
from parki.mesh import Grid, bspline

from .methods import Method, spreading

NAMES = {
    "base": "particle",
    "source": "sorted",
    "gather": "gather",
    "single_mesh": "single mesh",
    "group_mesh": "group mesh",
    "hybrid_mesh": "hybrid mesh",
    "stored": "library",
    "parki": "parki",
}
APPLICATIONS = (1, 20, 1000)
SLOW = 1.5  # seconds of an application, beyond which larger numbers of particles are left out


def plan(run: Run) -> tuple[list[tuple[int, int]], list[int], float]:
    """Return (order, mesh points per axis), numbers of particles, and the limit of entries."""
    if run.quick:
        return [(4, 16)], [TINY], math.inf
    counts, most = [1_000, 10_000, 100_000, 300_000], 7e7
    meshes = [(6, 32), (6, 64), (6, 128), (4, 64)]
    if run.device:
        meshes = [(6, 32), (6, 64), (6, 128), (6, 256), (4, 128)]
        counts, most = [1_000, 10_000, 100_000, 1_000_000, 10_000_000], 2.2e9
    return meshes, [n for n in counts if n <= (run.points or n)], most


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each order, mesh, number of particles and method."""
    meshes, counts, most = plan(run)
    rows: list[dict[str, Any]] = []
    for p, k in meshes:
        window, grid = bspline(p), Grid((k,) * 3, spacing=1 / k)

        def make(method: str, n: int) -> Method:
            name = USUAL[run.device][1] if method == "parki" else method
            points, values = run.uniform(3, n), run.normal((1, n))
            return spreading(run, name, points, values, grid, window)  # noqa: B023

        slow: set[str] = set()
        for method in NAMES:  # compiles
            make(method, 100).apply()
        for n in counts:
            expected = None
            for method in NAMES:
                stores = method not in ("base", "source", "gather", "parki")
                # Only one mesh has the largest number of particles, as its set-ups take seconds.
                bound = most if k == 128 or not run.device else most / 8
                if method == "stored":
                    bound = min(bound, 2**31 - 2)
                if method in slow or (stores and n * p**3 > bound):
                    continue
                case = make(method, n)
                took = run.median(case.apply)
                expected = case.result.copy() if expected is None else expected
                if roundings(case.result, expected) > 1e4:
                    raise RuntimeError(f"{method} differs from the particle-based method")
                row = {"p": p, "K": k, "N": n, "method": method}
                rows.append(row | {"setup": case.setup, "apply": took, "memory": case.memory})
                if took > SLOW:
                    slow.add(method)
                del case
                run.free()
    return {"rows": rows}


def total(row: dict[str, Any], applications: int) -> float:
    """Return the seconds of setting up and applying."""
    return float(row["setup"] + applications * row["apply"])


def tables(record: Record) -> list[Table]:
    """Return tables of applications, set-ups, and the fastest for 1, 20 and 1000 applications."""
    found, made = record["results"]["rows"], []
    for p, k in dict.fromkeys((row["p"], row["K"]) for row in found):
        times: dict[int, dict[str, Any]] = {}
        for row in pick(found, p=p, K=k):
            times.setdefault(row["N"], {})[row["method"]] = row
        for key, title in (("apply", "An application"), ("setup", "Setting up")):
            columns = [
                (name, lambda row, method=method, key=key: ms(row[1].get(method, {}).get(key)))
                for method, name in NAMES.items()
            ]
            title = f"{title}, milliseconds: p = {p}, K = {k}"
            particles = ("particles", lambda row: count(row[0]))
            made.append(Table.of(title, times.items(), particles, *columns))
    rows = []
    for p, k, n in dict.fromkeys((row["p"], row["K"], row["N"]) for row in found):
        of = pick(found, p=p, K=k, N=n)
        line = [f"p = {p}, K = {k}", count(n), number(n * p**3 / k**3)]
        papers = [row for row in of if row["method"] not in ("parki", "source", "stored")]
        for applications in APPLICATIONS:
            best = min(papers, key=lambda row: total(row, applications))
            (parki,) = pick(of, method="parki")
            ratio = total(best, applications) / total(parki, applications)
            line.append(f"{NAMES[best['method']]} {number(ratio)}")
        rows.append(line)
    heads = [f"{n} application{'s' * (n > 1)}" for n in APPLICATIONS]
    title = "The fastest of the paper's methods, set-up included, and its time over parki's"
    head = ("mesh", "particles", "entries of a mesh point", *heads)
    return [*made, Table(title, head, rows)]


def draw(record: Record, file: Path) -> None:
    """Draw applications, set-ups and their total for 20 applications, as Figures 9, 10 and 14."""
    rows = record["results"]["rows"]
    p, k = max((row["p"], row["K"]) for row in rows if row["K"] <= 128)
    rows = pick(rows, p=p, K=k)
    made, panels = figure(3, 4.2, 12.5, sharex=True)
    colours = dict(zip(NAMES, (*SERIES, "#4a4a4a", "#9a9a9a", "#d05050"), strict=True))
    for method, name in NAMES.items():
        of = pick(rows, method=method)
        n = [row["N"] for row in of]
        style: dict[str, Any] = {"color": colours[method], "marker": "o", "markersize": 4}
        if method == "parki":
            style |= {"linewidth": 3, "color": "#d05050"}
        panels[0].loglog(n, [1e3 * row["apply"] for row in of], label=name, **style)
        panels[1].loglog(n, [1e3 * row["setup"] for row in of], **style)
        panels[2].loglog(n, [1e3 * total(row, 20) for row in of], **style)
    titles = ("An application, ms", "Setting up, ms", "20 applications and set-up, ms")
    for panel, title in zip(panels, titles, strict=True):
        panel.set(title=title, xlabel="particles")
        panel.grid()
    made.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    save(made, file, f"{record['machine']['name']}, p = {p}, K = {k}")


CASES = {"guo": Case(__doc__, measure, tables, draw)}
