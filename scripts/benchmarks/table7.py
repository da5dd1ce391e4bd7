"""Table 7: variants of spreading (P2G) by window.

docs/benchmarks.md says what is compared.
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
