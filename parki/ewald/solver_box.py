"""`SolverBox`: the box in the solver's unit of length, and points in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from parki.cells.cell_grid import CellGrid, locate, multiplied
from parki.errors import ParkiValueError
from parki.ewald.lattice import Lattice, check_length
from parki.ewald.sums import SUMS
from parki.ewald.task import Task
from parki.runtime import ExecutionSpace
from parki.runtime.forks import cached_property
from parki.typing import AnyArray


class LatticeNumbers:
    """Arrays of a few numbers each, which follow from a box that deforms, and stay.

    Launches that were recorded read the same memory each time: another box is another content.

    Parameters
    ----------
    space : ExecutionSpace
        Whose memory they are in.
    """

    def __init__(self, space: ExecutionSpace) -> None:
        self._space = space
        self._arrays: dict[Hashable, tuple[Callable[[SolverBox], Any], Any]] = {}

    def array(
        self,
        name: Hashable,
        numbers_of: Callable[[SolverBox], Any],
        solver_box: SolverBox,
        dtype: DTypeLike,
    ) -> Any:
        """Return the ``numbers_of`` a box, as one array for each name and dtype."""
        key = name, np.dtype(dtype)
        if key not in self._arrays:
            values = self._space.array_module.array(numbers_of(solver_box), dtype=dtype, order="C")
            self._arrays[key] = numbers_of, values
        return self._arrays[key][1]

    def move(self, solver_box: SolverBox) -> None:
        """Overwrite all arrays by as many numbers of another box; wait for nothing."""
        for numbers_of, array in self._arrays.values():
            values = np.ascontiguousarray(numbers_of(solver_box), dtype=array.dtype)
            self._space.adapter.upload(array, values)


@dataclass(frozen=True)
class SolverBox:
    """The box in the solver, whose lengths are over a power of two.

    Scaling by a power of two is exact in both directions. So no box is too large or too small for
    float32.

    Attributes
    ----------
    lattice : Lattice
        In solver units.
    unit : float
        The solver's unit of length in the user's unit.
    numbers : LatticeNumbers or None
        Where other tilts need no other launches: all that kernels read of them.
    """

    lattice: Lattice
    unit: float = 1.0
    numbers: LatticeNumbers | None = field(default=None, compare=False)

    @classmethod
    def of(cls, task: Task, user_lattice: Lattice, before: SolverBox | None = None) -> SolverBox:
        """Return the solver's box for a box, whose unit is near the cube root of the volume.

        A box whose tilts are not the tilts of the box ``before`` may change them again.
        """
        length = user_lattice.length
        kernel, want = task.kernel, task.want
        terms = [term for name in want for term in SUMS[kernel].terms.get(name, ())]
        check_length(length, task.dtype, max((term.power for term in terms), default=1))
        unit = 2.0 ** round(math.log2(length))
        near = before is not None and before.unit / 2 <= length <= 2 * before.unit
        if before is not None and near and user_lattice.enclosed is not None:
            unit = before.unit  # whose grid may serve
        if task.mixed and not 1e-9 <= unit <= 1e9:
            raise ParkiValueError(
                f"the box has edges of about {length:g}; precision='mixed' takes 1e-9 to 1e9: "
                "give lengths in another unit"
            )
        lattice = user_lattice.over(unit)
        if before is not None:
            lattice = lattice.following(before.lattice)
        solver_box = cls(lattice, unit)
        if any(lattice.deforms) or lattice.enclosed is not None:
            numbers = before.numbers if before and before.takes(solver_box) else None
            solver_box = replace(solver_box, numbers=numbers or LatticeNumbers(task.space))
        return solver_box

    def takes(self, other: SolverBox) -> bool:
        """Return whether the grid of this box is one for another box, of other tilts."""
        return self.unit == other.unit and self.lattice.widest == other.lattice.widest

    def constant(
        self,
        space: ExecutionSpace,
        name: Hashable,
        numbers_of: Callable[[SolverBox], Any],
        dtype: DTypeLike,
    ) -> Any:
        """Return the ``numbers_of`` this box as an array; ``name`` tells them from others."""
        if self.numbers is None:
            return space.adapter.constant(numbers_of(self), dtype)
        return self.numbers.array(name, numbers_of, self, dtype)

    def basis_on(self, space: ExecutionSpace, dtype: DTypeLike) -> Any:
        """Return the basis as an array of a space."""
        return self.constant(space, "basis", lambda solver_box: solver_box.lattice.basis, dtype)

    @property
    def length(self) -> float:
        """Cube root of the box's volume, in the user's unit; or of what encloses all boxes."""
        return self.lattice.length * self.unit

    @cached_property
    def factor(self) -> float:
        """Factor from the user's lengths to solver units, and from the solver's results back."""
        return 1 / self.unit

    def wrap(self, task: Task, points: AnyArray, offsets: AnyArray = None) -> Any:
        """Return points (3, N) in the box and in solver units, as the grid takes them.

        ``offsets`` say where systems begin that have boxes of their own.
        """
        lattice = self.lattice
        if lattice.origin.any():
            # This rounds; the grid does not mind, and the near field takes the points as given.
            corner = lattice.origin[:, None] * self.unit
            points = points - task.space.adapter.constant(corner, points.dtype)
        if lattice.tilted:
            basis = self.basis_on(task.space, points.dtype)
            points = multiplied(points, basis, task.space, task.executor, offsets=offsets)
        box = CellGrid((1, 1, 1), tuple(lattice.edges), tuple(lattice.periodic))
        wrapped, _ = locate(points, box, task.space, scale=self.factor, executor=task.executor)
        return wrapped.astype(task.dtype, copy=False)
