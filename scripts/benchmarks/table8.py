"""Table 8: variants of gathering (G2P) by window.

docs/benchmarks.md says what is compared.
"""

from functools import partial

from .mesh import measure_stage, stage_tables

# Points per microsecond and efficiency on one H200, 4e6 points.
PAPER: dict[int, dict[str, tuple[float, int]]] = {
    4: {"base": (523.13, 24), "target": (760.22, 35)},
    8: {"base": (63.68, 23), "target": (141.38, 52)},
}
measure = partial(measure_stage, stage="G2P", windows=(4, 8))
tables = partial(stage_tables, stage="G2P", papers=PAPER)
