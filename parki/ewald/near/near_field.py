"""`NearField`: what P2P takes of a set-up; and the literature's variants of P2P.

In these one team owns some targets of one cell, about r_c wide, and walks the cells around it: see
``kernels/literature/p2p_cells.py``, and Kosmacher, Du, Bagge, Biros 2026, section 3.1. They serve
comparisons by ``scripts/benchmark.py table6``, and compute the velocity or potential alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parki.errors import ParkiValueError
from parki.ewald.near.radial import Evaluator
from parki.ewald.near.sizes import STAGED, Launch
from parki.ewald.options.variants import CELL_METHODS, EVALUATORS
from parki.ewald.split.core import AnyCore, Core
from parki.ewald.sums import SUMS
from parki.ewald.sums.tables import NUMBERS, RadialTables, Tables
from parki.ewald.task import Task
from parki.interchange import real_name
from parki.runtime import Kernel, load
from parki.typing import AnyArray

Array = NDArray[np.float64]


# Most of the largest number that a blob's polynomials may reach, which densities multiply.
MARGIN = 1e-2


class NearField(NamedTuple):
    """The near field of a task: what P2P sums, and how; in solver units.

    Attributes
    ----------
    task : Task
    cutoff : float
    radial : RadialTables
        Polynomials of the split's radial functions up to the cut-off.
    method : str
        Variant: one of P2P_METHODS of `parki.ewald.near.sizes`, except "auto".
    evaluator : Evaluator or None
        Evaluates the radial functions of "u" in place of the polynomials.
    read : float
        Sources near the targets that a device works on at a time: see `near_tile`.
    core : Core, Algebraic or None
        Where sources differ from points, if they are blobs.
    lengths : tuple of float
        Lengths of the sum, over the cut-off.
    launch : Launch or None
        How a variant of the literature runs; None of parki's own.
    """

    task: Task
    cutoff: float
    radial: RadialTables
    method: str
    evaluator: Evaluator | None = None
    read: float = 0.0
    core: AnyCore | None = None
    lengths: tuple[float, ...] = ()
    launch: Launch | None = None

    @property
    def degree(self) -> int:
        """Degree of the polynomials."""
        return self.radial.degree

    def rows(self, tables: Tables) -> Array:
        """Return the polynomials of radial functions, shape (functions, degree + 1).

        The row of `NUMBERS` has the lengths of the sum over the cut-off. The polynomials of blobs
        follow in each row, and the square of the cut-off over a blob's radius.
        """
        lengths = np.zeros(self.degree + 1)
        lengths[: len(self.lengths)] = self.lengths
        rows = np.array(
            [lengths if table == NUMBERS else self.radial.row(table) for table in tables]
        )
        if self.core is None:
            return rows
        return np.hstack([rows, self.core.columns(tables, self.cutoff, self.degree)])

    @property
    def table(self) -> Array:
        """The table that evaluates the radial functions of "u"."""
        function = self.task.sum.pair
        tables = function.slopes if self.task.slopes else function.values
        return self.evaluator.table if self.evaluator else self.rows(tables)

    def check_held(self) -> None:
        """Refuse blobs so small that their polynomials overflow in the arithmetic.

        Raises
        ------
        ParkiValueError
        """
        task, narrow, lost = self.task, self, False
        blob = task.sum.pair.blob
        if blob is None:
            return
        if isinstance(self.core, Core) and self.core.widest:
            narrow = self._replace(core=self.core._replace(widest=0.0))
            # A kernel takes the squares of widths.
            lost = (self.core.radius / self.cutoff) ** 2 < float(np.finfo(task.dtype).tiny) / MARGIN
        tables = [narrow.table]
        if task.want != ("u",):
            tables.append(narrow.rows(task.sum.derivative_tables(task.want, values=True)))
        largest = max(float(np.abs(table).max(initial=0.0)) for table in tables)
        most = MARGIN * float(np.finfo(task.dtype).max)
        if lost or largest > most:
            raise ParkiValueError(
                f"epsilon is {blob.epsilon:g}, so small in this box that inverse powers of it "
                f"exceed {np.dtype(task.dtype)}; take float64 and precision='full', a larger "
                "epsilon, or points (epsilon=0)"
            )

    @property
    def constants(self) -> dict[str, Any]:
        """The constants of the kernels of "u" that do not depend on the variant."""
        task = self.task
        number = EVALUATORS.index(self.evaluator.name) if self.evaluator else 0
        degree = self.evaluator.degree if self.evaluator else self.degree
        known = dict(
            task.sum.p2p(task.slopes),
            REAL=real_name(task.dtype),
            DEGREE=degree,
            PERIODIC=task.periodicity,
            EVALUATOR=number,
        )
        return known | own_constants(task)


def own_constants(task: Task) -> dict[str, Any]:
    """Return the constants that few tasks have, so that the others' kernels stay the same."""
    flags = {"LOW": task.finer, "LABELS": task.labelled}
    return {name: True for name, needed in flags.items() if needed}


def shifts(vectors: AnyArray, dtype: DTypeLike, digit: float) -> Any:
    """Return rows for shifts by vectors (3, n): half of each, and second parts of whole ones.

    For ``digit`` see `parts`.
    """
    high, low = parts(vectors, np.dtype(dtype), 2 * digit)
    return np.concatenate([high / 2, high if low is None else low])


def parts(points: AnyArray, dtype: DTypeLike, digit: float = 0.0) -> tuple[Any, Any]:
    """Return positions in the dtype of the arithmetic, and their remainders over 2^-24, or None.

    Distances of close points are then as exact as with the positions given. First parts are whole
    numbers of ``digit``, unless it is 0.
    """
    if points.dtype == dtype:
        return points, None
    high = points.astype(dtype)
    if digit:
        high = ((points / digit).round() * digit).astype(dtype)
    return high, ((points - high) * 2.0**24).astype(dtype)


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


def reach(box: NDArray[np.float64], shape: tuple[int, ...], cutoff: float) -> NDArray[np.int32]:
    """Return how many cells the cut-off spans along each axis, for cells of box / shape."""
    # Without the last digits: r_c over its own fraction is no more than a whole number.
    cells = np.ceil(cutoff * np.array(shape) / box * (1 - 1e-12))
    return np.maximum(cells, 1).astype(np.int32)


def cells_kernel(near: NearField, launch: Launch) -> Kernel:
    """Return the kernel of a variant."""
    return load(
        "literature/p2p_cells",
        "p2p_cells",
        near.task.space,
        near.constants,
        executor=near.task.executor,
        team_size=launch.team,
        vector_length=launch.vectors,
        tables={"radial": near.table.shape},
        STAGED=near.method in STAGED,
        VECTORS=launch.vectors,
        TARGETS=launch.targets,
        CHUNK=launch.chunk,
    )
