"""`Route`: sends columns of arrays to the ranks that need them, and back.

A route is made once for a set of points; densities and results then follow it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parki.distributed.transport import Parcels, Transport
from parki.typing import AnyArray

Counts = NDArray[np.int64]


class Route:
    """The destinations of this rank's columns.

    Parameters
    ----------
    columns : list of int arrays
        For each rank, the columns to send; one may go to several.

    Attributes
    ----------
    arriving : int
        Number of columns that arrive here; they are in the order of the sending ranks.
    """

    def __init__(self, transport: Transport, columns: list[AnyArray]) -> None:
        self.transport = transport
        self.order = transport.xp.concatenate(columns)
        self.counts = np.array([part.size for part in columns], dtype=np.int64)
        table = np.array(transport.team.allgather(self.counts))
        self.arrivals = table[:, transport.team.rank]
        self.arriving = int(self.arrivals.sum())

    @classmethod
    def by_owner(cls, transport: Transport, owners: AnyArray) -> Route:
        """Return the route of points to their owners, an array of ranks."""
        xp = transport.xp
        # A stable sort keeps the order within a rank; NumPy sorts short integers by radix.
        owners = owners.astype(np.uint16 if transport.team.size < 2**16 else np.int32)
        order = xp.argsort(owners, kind="stable")
        ranks = xp.arange(transport.team.size, dtype=owners.dtype)
        ends = xp.searchsorted(owners[order], ranks).tolist()
        return cls(transport, [order[a:b] for a, b in pairwise([*ends, owners.size])])

    def forward(self, label: str, values: AnyArray) -> Any:
        """Return the arriving columns of an array (rows, columns) on all ranks."""
        rows, xp = values.shape[0], self.transport.xp
        parcels = self._parcels(label, rows, self.counts, self.arrivals, values.dtype)
        # Buffers hold the numbers of a column side by side.
        columns = xp.ascontiguousarray(values.T)
        xp.take(columns, self.order, axis=0, out=parcels.send.reshape(self.order.size, rows))
        self.transport.exchange(parcels)
        # Never a view, because the buffer is reused.
        return parcels.receive.reshape(self.arriving, rows).T.copy()

    def backward(self, label: str, values: AnyArray, out: AnyArray) -> None:
        """Send columns (rows, arriving) back to their origin, into ``out``."""
        rows = values.shape[0]
        parcels = self._parcels(label, rows, self.arrivals, self.counts, values.dtype)
        parcels.send.reshape(-1, rows)[...] = values.T
        self.transport.exchange(parcels)
        out[:, self.order] = parcels.receive.reshape(-1, rows).T

    def _parcels(
        self, label: str, rows: int, sent: Counts, got: Counts, dtype: DTypeLike
    ) -> Parcels:
        return self.transport.parcels(
            label,
            send_counts=(sent * rows).tolist(),
            receive_counts=(got * rows).tolist(),
            dtype=dtype,
            rows=rows,
        )
