"""Table 7: variants of spreading (P2G) by window.

The table compares the paper's four variants with parki's own two, for three widths of the window.
parki's usual variant is the fastest in all cases except one: the paper's hybrid is faster at P = 4
on the GPU. "Speedup" is over the baseline, and "T0 / T" is the paper's efficiency. "Differs" is the
distance from the usual variant's result, in units of its largest value times the roundoff.

The paper spreads 12 components and parki four, so the same task has fewer operations here. parki's
``owner`` is made for CPUs, and is left out on a GPU.
"""

from functools import partial

from .mesh import measure_stage, stage_tables

# Points per microsecond and efficiency on one H200, 4e6 points.
PAPER: dict[int, dict[str, tuple[float, int]]] = {
    4: {"base": (80.57, 5), "source": (54.17, 3), "grid": (82.52, 10), "hybrid": (178.23, 11)},
    8: {"base": (8.38, 3), "source": (11.3, 4), "grid": (16.28, 26), "hybrid": (101.28, 39)},
    14: {"base": (1.49, 2), "source": (2.52, 3), "grid": (3.39, 52), "hybrid": (24.05, 25)},
}
measure = partial(measure_stage, stage="P2G", windows=(4, 8, 14))
tables = partial(stage_tables, stage="P2G", papers=PAPER)
