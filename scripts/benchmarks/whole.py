"""Whole sums for tables 9, 10 and figure 9: stages of repeated applications, and one-shot calls."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import parki

from .run import Run
from .show import ms

STAGES = ("P2P", "P2G", "FGC", "G2P")
SHOTS = 3


def published(*column: float) -> dict[str, float]:
    """Convert a column of the paper, in milliseconds, to parki's stages, in seconds."""
    near, spread, fft, cnv, ifft, gather, total = (1e-3 * value for value in column)
    return {"P2P": near, "P2G": spread, "FGC": fft + cnv + ifft, "G2P": gather, "total": total}


def whole(
    run: Run, trg: Any, src: Any, dens: Any, norms: Any, tolerance: float, periodicity: int = 1
) -> dict[str, Any]:
    """Return the seconds of a sum of both layers in the unit cube.

    ``one_shot`` is the public call (a plan and one application) with compiled kernels. ``stages``
    has medians of a plan's repeated applications, ``predicted`` the times of parki's cost model.
    """
    options = run.options(periodicity, tolerance)

    def call() -> Any:
        return parki.ewald.stokes_comb(trg, src, dens, norms, options)

    call()
    shots = [run.clock(call) for _ in range(1 if run.quick else SHOTS)]
    plan = parki.Plan("stokes_comb", trg, src, norms, options)
    stages = run.stages(plan, dens)
    chosen = plan.parameters
    if chosen is None:
        raise RuntimeError("an empty sum has nothing to time")
    return {
        "one_shot": statistics.median(shots),
        "stages": {stage: stages[stage] for stage in STAGES},
        "apply": sum(stages[stage] for stage in STAGES),
        "predicted": dict(chosen.seconds),
        "grid": list(plan.setup.mesh.padding.grid),
        "P": chosen.points,
        "cell_size": src.shape[1] * chosen.cutoff**3,
    }


def grid(row: dict[str, Any]) -> str:
    """Return the cell of a grid and its window."""
    return f"{' x '.join(map(str, row['grid']))}, P = {row['P']}"


def paper_cell(column: dict[str, float] | None) -> str:
    """Return the paper's cell; its one-shot sums are timed without the cell lists."""
    if column is None:
        return ""
    return f"{ms(column['total'])} ({' / '.join(ms(column[stage]) for stage in STAGES)})"


def with_paper(of: Callable[[Any], Any]) -> tuple[str, Callable[[Any], str]]:
    """Return the column of the paper's times."""
    return "paper, H200: total (stages)", lambda row: paper_cell(of(row))


TIMES: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("one-shot", lambda row: ms(row["one_shot"])),
    ("apply", lambda row: ms(row["apply"])),
    *((stage, lambda row, stage=stage: ms(row["stages"][stage])) for stage in STAGES),
)
COLUMNS = (*TIMES, ("grid", grid))
