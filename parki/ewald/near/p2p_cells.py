"""The literature's variants of P2P, by cells about r_c wide: their names, and how they run.

One team owns some targets of one cell and walks the cells around it; see
``kernels/literature/p2p_cells.py``, and Kosmacher, Du, Bagge, Biros 2026, section 3.1. The variants
serve comparisons by ``scripts/benchmark.py table6``, and compute the velocity or potential
alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.near.pair import Pair
from parki.ewald.near.sizes import CELL_METHODS, STAGED, Launch
from parki.ewald.sums import SUMS
from parki.ewald.task import Task
from parki.runtime import Kernel, load


def check_wanted(method: str, radial: str, kernel: str, want: tuple[str, ...]) -> None:
    """Refuse a variant, or an evaluator of radial functions, without kernels for what is wanted.

    Raises
    ------
    ParkiValueError
    """
    for name, value, special, usual in (
        ("p2p_method", method, method in CELL_METHODS, "auto"),
        ("radial", radial, radial != "polynomial", "polynomial"),
    ):
        if special and want != ("u",):
            raise ParkiValueError(
                f"{name} is {value!r}, which computes 'u' alone, but want is {', '.join(want)}; "
                f"leave {name} to {usual!r}"
            )
    if radial != "polynomial" and SUMS[kernel].pair.polynomials_alone:
        raise ParkiValueError(
            f"radial is {radial!r}, but {kernel} has polynomials alone; leave radial to "
            "'polynomial'"
        )


def reach(
    box: NDArray[np.float64], shape: tuple[int, int, int], cutoff: float
) -> NDArray[np.int32]:
    """Return how many cells the cut-off spans along each axis, for cells of box / shape."""
    # Without the last digits: r_c over its own fraction is no more than a whole number.
    cells = np.ceil(cutoff * np.array(shape) / box * (1 - 1e-12))
    return np.maximum(cells, 1).astype(np.int32)


def cells_kernel(task: Task, pair: Pair, launch: Launch) -> Kernel:
    """Return the kernel of a variant."""
    return load(
        "literature/p2p_cells",
        "p2p_cells",
        task.space,
        executor=task.executor,
        team_size=launch.team,
        vector_length=launch.vectors,
        tables={"radial": pair.table(task).shape},
        STAGED=pair.method in STAGED,
        VECTORS=launch.vectors,
        TARGETS=launch.targets,
        CHUNK=launch.chunk,
        **pair.constants(task),
    )
