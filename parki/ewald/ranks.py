"""`Ranks`: the processes that take part in a sum, and what they tell each other.

Without MPI there is one process, `parki.ewald.pipeline.one_device.SERIAL`, and all of it is plain.
`parki.distributed.team.Team` does the same over an MPI communicator.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from parki.interchange import to_host
from parki.typing import AnyArray


class Ranks:
    """One process, which has all points.

    Parameters
    ----------
    engine : callable
        Makes a pipeline without points for these ranks: see `parki.ewald.pipeline.protocol`.

    Attributes
    ----------
    rank, size : int
        The number of this rank, and how many there are.
    serial : bool
        Whether no communicator was given, so that later sums may take what an earlier one leaves.
    """

    rank, size, serial = 0, 1, True

    def __init__(self, engine: Callable[[Any], Any]) -> None:
        self._engine = engine

    def engine(self) -> Any:
        """Return a new `Pipeline` without points, whose stages these ranks share."""
        return self._engine(self)

    def collective(self, call: str) -> AbstractContextManager[Any]:
        """Raise on all ranks what is raised on one of them; refuse ranks in other calls."""
        return nullcontext()

    def allgather(self, value: Any) -> list[Any]:
        """Return the objects of all ranks, in order."""
        return [value]

    def sum(self, value: Any) -> Any:
        """Return the sum of a number, or of an array of a shape that all have, over all ranks."""
        return value

    def max(self, value: float) -> float:
        """Return the largest of a number of all ranks; NaN, if there is one."""
        return float(np.max(self.allgather(value)))

    def offset_and_total(self, count: int) -> tuple[int, int]:
        """Return how many points the ranks before this one have, and how many all have."""
        counts = self.allgather(count)
        return sum(counts[: self.rank]), sum(counts)

    def all_columns(self, values: AnyArray) -> Any:
        """Return an array (..., N) with the columns of all ranks, in their order."""
        if self.serial:
            return values
        parts = self.allgather(to_host(values))
        return np.asarray(np.concatenate(parts, axis=-1), like=values)
