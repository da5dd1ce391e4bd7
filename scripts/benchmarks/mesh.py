"""P2G and G2P by any variant and window, for tables 5, 7 and 8.

The points are uniform in a triply periodic cube, and both layers are spread together in double
precision, with densities in the user's order, as in a repeated application.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from parki.ewald.choice.cost import USUAL
from parki.ewald.far.g2p import G2P
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.far.padding import pad
from parki.ewald.far.spreading import place_sources
from parki.ewald.lattice import Lattice
from parki.ewald.options import EwaldOptions
from parki.ewald.options.variants import G2P_METHODS, P2G_METHODS
from parki.ewald.solver_box import SolverBox
from parki.ewald.split.window import KaiserBessel
from parki.ewald.task import Task

from . import Case, models
from .ceilings import Ceilings, ceilings
from .record import Record, pick
from .run import ENOUGH, ROUNDS, Run, roundings
from .show import Table, count, ms, number

# Grid points along an edge by window P, at 4e6 points. The paper has 256 for P = 8; the numbers for
# 4 and 14 follow from its cell sizes (160, 960 sources) and tolerances.
GRIDS = {4: 144, 8: 256, 14: 336}
BETA = 2.3  # of the windows per point
MODELLED_WINDOW = 8
# Table 5: milliseconds on one H200, 4e6 points: the measurement, then the models.
MODELLED = {
    ("P2G", "base"): (477, 88.9, 24.9, 12.0, 2.81),
    ("P2G", "source"): (354, 88.9, 24.9, 12.0, 2.81),
    ("P2G", "grid"): (246, 98.2, 34.2, 21.3, 12.2),
    ("P2G", "hybrid"): (39.5, 21.7, 13.4, 11.6, 2.81),
    ("G2P", "base"): (62.8, 12.8, 3.73, 1.88, 0.489),
    ("G2P", "target"): (28.3, 12.8, 3.73, 1.88, 0.489),
}
METHODS = {"P2G": P2G_METHODS[1:], "G2P": G2P_METHODS[1:]}


class Spreading:
    """Points, densities and a grid for one window."""

    def __init__(self, run: Run, n: int, p: int) -> None:
        self.run, self.n, self.p = run, n, p
        self.grid = max(18, 2 * round(GRIDS[p] * (n / 4e6) ** (1 / 3) / 2))
        self.points, self.dens, self.norms = run.cloud("stokes_comb", n)
        self.buffer = run.xp.empty_like(self.dens)

    def mesh(self, spread: str = "", gather: str = "") -> EwaldMesh:
        """Return the mesh with the given variants, by default the usual ones."""
        usual = USUAL[self.run.space.on_device]
        variants = spread or usual[1], gather or usual[2]
        box = np.ones(3)
        steps = box / self.grid
        options = EwaldOptions(3, [1, 1, 1])
        task = Task("stokes_comb", self.run.space, np.dtype(np.float64), options)
        padding = pad(3, box, steps, self.p, 0.1, math.inf, 1e-4)
        window = KaiserBessel(self.p, BETA * self.p)
        return EwaldMesh(task, SolverBox(Lattice(box, 3)), steps, padding, window, *variants)

    def spread(self, method: str) -> tuple[Any, Any, models.Work, str]:
        """Return a call of P2G, its grid, its work, and the variant that runs."""
        mesh = self.mesh(spread=method)
        p2g = place_sources(mesh, self.points, self.norms)
        call = partial(p2g.apply, self.dens, self.buffer)
        call()
        work = models.spread(method, mesh, self.n, _teams(p2g.arguments))
        return call, p2g.grid[..., : self.grid].copy(), work, method

    def gather(self, method: str) -> tuple[Any, Any, models.Work, str]:
        """Return a call of G2P, its potential, its work, and the variant that runs."""
        xp, mesh = self.run.xp, self.mesh(gather=method)
        sources = place_sources(mesh, self.points, self.norms).sources
        field = xp.random.RandomState(8).standard_normal(size=(3, *mesh.stored))
        field[..., self.grid :] = field[..., : mesh.spill]
        g2p = G2P(mesh, self.points, sources, True)
        pot = xp.zeros((3, self.n))
        call = partial(g2p.apply, field, {"u": pot})
        call()
        variant = g2p.method.partition(" ")[0]  # the rest says why it replaced another
        counts = g2p.targets.cell_grid.counts
        work = models.gather(variant, mesh, self.n, _teams(g2p.arguments), counts)
        return call, pot.copy(), work, g2p.method


def _teams(arguments: dict[str, Any]) -> int:
    """Return the number of teams that a kernel with a list of work launches, or 0."""
    return arguments["work"].shape[1] if "work" in arguments else 0


def variants(run: Run, stage: str, n: int, windows: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row for each window and variant of a stage; the default variants come first."""
    rows: list[dict[str, Any]] = []
    for p in windows:
        case = Spreading(run, n, p)
        default = case.mesh()
        first = default.spread if stage == "P2G" else default.gather
        reference: Any = None
        # `p2g_owner` has one thread for each tile, and would take over a minute on a device.
        names = [m for m in METHODS[stage] if not (run.device and m == "owner")]
        for method in sorted(names, key=lambda name: name != first):
            make = case.spread if stage == "P2G" else case.gather
            call, result, work, ran = make(method)
            reference = result if reference is None else reference
            row = {"P": p, "grid": case.grid, "points": n, "method": method, "ran": ran}
            row |= {"seconds": run.median(call, ROUNDS, ENOUGH), "work": vars(work)}
            rows.append(row | {"differs": roundings(result, reference)})
            del call, result
    return rows


def measure_stage(run: Run, stage: str, windows: Sequence[int]) -> dict[str, Any]:
    """Return the ceilings and the rows of a stage, for tables 7 and 8."""
    machine = ceilings(run)
    n = run.size(20_000, 4_000_000)
    rows = variants(run, stage, n, [4] if run.quick else windows)
    return {"ceilings": vars(machine), "points": n, "rows": rows}


def stage_tables(record: Record, stage: str, papers: dict[int, Any]) -> list[Table]:
    """Return one table for each window, with the published numbers in the last columns."""
    found, made = record["results"], []
    machine = Ceilings(**found["ceilings"])
    base = {row["P"]: row["seconds"] for row in found["rows"] if row["method"] == "base"}
    for p in base:
        rows, paper = [], papers.get(p, {})
        for row in pick(found["rows"], P=p):
            least = models.Work(**row["work"]).seconds(machine)["T0"]
            of, first = paper.get(row["method"]), paper.get("base")
            theirs = (number(of[0]), f"{of[0] / first[0]:.2f}", f"{of[1]} %") if of else ("",) * 3
            rows.append(row | {"efficiency": least / row["seconds"], "paper": theirs})
        made.append(
            Table.of(
                f"{stage}, P = {p}, {count(found['points'])} points, grid {rows[0]['grid']}³",
                rows,
                ("variant", _name),
                ("ms", lambda row: ms(row["seconds"])),
                ("points/µs", lambda row: number(row["points"] / row["seconds"] / 1e6)),
                ("speedup", lambda row: f"{base[row['P']] / row['seconds']:.2f}"),
                ("T0 / T", lambda row: f"{100 * row['efficiency']:.0f} %"),
                ("differs", lambda row: f"{row['differs']:.1f}"),
                ("paper, H200, 4 million: points/µs", lambda row: row["paper"][0]),
                ("speedup", lambda row: row["paper"][1]),
                ("efficiency", lambda row: row["paper"][2]),
            )
        )
    if MODELLED_WINDOW in base:
        made.append(model_table(record, stage))
    return made


def model_table(record: Record, stage: str) -> Table:
    """Return table 5 of the paper: the models of table 3 against the measured times."""
    found = record["results"]
    machine = Ceilings(**found["ceilings"])
    rows = []
    for row in pick(found["rows"], P=MODELLED_WINDOW):
        seconds = models.Work(**row["work"]).seconds(machine)
        rows.append(row | {"models": seconds, "paper": MODELLED.get((stage, row["method"]), ())})
    return Table.of(
        f"{stage} and its models, milliseconds: {count(found['points'])} points, P = 8",
        rows,
        ("variant", _name),
        ("T", lambda row: ms(row["seconds"])),
        *models.TIMES,
        ("T0 / T", lambda row: f"{100 * row['models']['T0'] / row['seconds']:.0f} %"),
        ("paper, H200: T / T0 / T∞ / T∞,L1 / Tf", lambda row: " / ".join(map(str, row["paper"]))),
        notes=[
            f"Ceilings measured in the same run: {machine.bandwidth / 1e9:.0f} GB/s, "
            f"{machine.flops / 1e9:.0f} GFLOP/s."
        ],
    )


def _name(row: dict[str, Any]) -> str:
    return row["method"] + ("" if row["ran"] == row["method"] else f", ran as {row['ran']}")


# Points per microsecond and efficiency on one H200, 4e6 points, by window.
SPREAD: dict[int, dict[str, tuple[float, int]]] = {
    4: {"base": (80.57, 5), "source": (54.17, 3), "grid": (82.52, 10), "hybrid": (178.23, 11)},
    8: {"base": (8.38, 3), "source": (11.3, 4), "grid": (16.28, 26), "hybrid": (101.28, 39)},
    14: {"base": (1.49, 2), "source": (2.52, 3), "grid": (3.39, 52), "hybrid": (24.05, 25)},
}
GATHERED: dict[int, dict[str, tuple[float, int]]] = {
    4: {"base": (523.13, 24), "target": (760.22, 35)},
    8: {"base": (63.68, 23), "target": (141.38, 52)},
}
CASES = {
    "table7": Case(
        "Table 7: variants of spreading (P2G) by window.",
        partial(measure_stage, stage="P2G", windows=SPREAD),
        partial(stage_tables, stage="P2G", papers=SPREAD),
    ),
    "table8": Case(
        "Table 8: variants of gathering (G2P) by window.",
        partial(measure_stage, stage="G2P", windows=GATHERED),
        partial(stage_tables, stage="G2P", papers=GATHERED),
    ),
}
