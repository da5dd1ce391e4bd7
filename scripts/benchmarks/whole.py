"""Whole sums for tables 9, 10 and figure 9: stages of repeated applications, and one-shot calls."""

from __future__ import annotations

import statistics
from typing import Any

import parki

from .run import Run
from .show import ms

STAGES = ("P2P", "P2G", "FGC", "G2P")
SHOTS = 3
# The paper's stages in milliseconds; its FFT, CNV and IFFT are parki's FGC.
Published = tuple[float, float, float, float, float, float, float]


def published(column: Published) -> dict[str, float]:
    """Convert a column of the paper to parki's stages, in seconds."""
    near, spread, fft, cnv, ifft, gather, total = (1e-3 * value for value in column)
    return {"P2P": near, "P2G": spread, "FGC": fft + cnv + ifft, "G2P": gather, "total": total}


def whole(run: Run, trg: Any, src: Any, dens: Any, norms: Any, tolerance: float) -> dict[str, Any]:
    """Return the seconds of a 1-periodic sum of both layers in the unit cube.

    ``one_shot`` is the public call (a plan and one application) with compiled kernels. ``stages``
    has medians of a plan's repeated applications, ``predicted`` the times of parki's cost model.
    """
    options = parki.EwaldOptions(
        periodicity=1, box=(1, 1, 1), tolerance=tolerance, execution_space=run.space
    )

    def call() -> Any:
        return parki.ewald.stokes_comb(trg, src, dens, norms, options)

    call()
    shots = []
    for _ in range(1 if run.quick else SHOTS):
        start = run.now()
        call()
        shots.append(run.now() - start)
    plan = parki.Plan("stokes_comb", trg, src, norms, options)
    for _ in range(3):  # the second keeps lists of pairs, which the third uses
        plan(dens)
    timed = [plan.timed(dens)[1] for _ in range(2 if run.quick else 5)]
    stages = {stage: statistics.median(t[stage] for t in timed) for stage in STAGES}
    chosen = plan.parameters
    if chosen is None:
        raise RuntimeError("an empty sum has nothing to time")
    return {
        "one_shot": statistics.median(shots),
        "stages": stages,
        "apply": sum(stages.values()),
        "predicted": dict(chosen.seconds),
        "grid": list(plan.setup.mesh.padding.grid),
        "P": chosen.points,
        "cell_size": src.shape[1] * chosen.cutoff**3,
    }


def cells(found: dict[str, Any]) -> list[str]:
    """Return the cells of a table: one-shot, application, stages, all in milliseconds."""
    return [ms(found["one_shot"]), ms(found["apply"]), *(ms(found["stages"][s]) for s in STAGES)]


def paper_cell(column: dict[str, float] | None) -> str:
    """Return the paper's cell; its one-shot sums are timed without the cell lists."""
    if column is None:
        return ""
    return f"{ms(column['total'])} ({' / '.join(ms(column[stage]) for stage in STAGES)})"


HEAD = ("one-shot", "apply", *STAGES)
PAPER_HEAD = "paper, H200: total (stages)"
