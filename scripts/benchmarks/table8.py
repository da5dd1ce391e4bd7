"""Table 8: variants of gathering (G2P) by window.

The table has the columns of table 7. The paper's ``target`` variant, with sorted targets, is the
fastest on CPUs and for narrow windows on a GPU. parki's ``tile``, with a part of the grid in
scratch memory, is the fastest for wide windows. Both codes gather three components, so that their
times can be compared. Only the clouds differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .record import Record
from .run import Run
from .show import Table
from .table7 import draw_stage, measure_stage, stage_tables

STAGE = "G2P"
WINDOWS = (4, 8)
# Points per microsecond and efficiency on one H200, 4e6 points.
PAPER: dict[int, dict[str, tuple[float, int]]] = {
    4: {"base": (523.13, 24), "target": (760.22, 35)},
    8: {"base": (63.68, 23), "target": (141.38, 52)},
}


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each window and variant."""
    return measure_stage(run, STAGE, WINDOWS)


def tables(record: Record) -> list[Table]:
    """Return one table for each window."""
    return stage_tables(record, STAGE, PAPER)


def draw(record: Record, file: Path) -> None:
    """Draw a panel for each window."""
    draw_stage(record, file, STAGE, PAPER)
