"""Table 8: variants of gathering (G2P) by window.

The table has the columns of table 7. The paper's ``target`` variant, with sorted targets, is the
fastest on CPUs and for narrow windows on a GPU. parki's ``tile``, with a part of the grid in
scratch memory, is the fastest for wide windows. Both codes gather three components, so that their
times can be compared. Only the clouds differ.
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
