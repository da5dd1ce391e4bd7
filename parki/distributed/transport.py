"""`Transport`: moves arrays between the ranks of a team.

All network traffic goes through `Transport.exchange`. The caller packs and unpacks the arrays.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from parki.distributed.team import Team
from parki.typing import AnyArray, ArrayModule


class Parcels(NamedTuple):
    """The parts that a rank sends and receives in one exchange.

    Attributes
    ----------
    label : str
        Name under which the bytes are counted.
    rows : int
        Numbers of each point, or of each place of a plane: ranks where they differ raise an error.
    send, receive : array, 1-D, of one dtype
        The parts for each rank, and from each rank, in the order of the ranks.
    send_counts, receive_counts : sequence of int
        Number of elements of each part.
    """

    label: str
    rows: int
    send: Any
    send_counts: Sequence[int]
    receive: Any
    receive_counts: Sequence[int]


class Transport(ABC):
    """One way to move arrays.

    Parameters
    ----------
    team : Team
    xp : module
        The arrays' module: numpy or cupy.
    name : str
        Description of the transport.
    empty : callable
        Makes an array of a given number of elements and dtype, for buffers.

    Attributes
    ----------
    sent : dict
        Bytes sent to other ranks so far, by the labels of parcels.
    """

    def __init__(
        self, team: Team, xp: ArrayModule, name: str, empty: Callable[[int, Any], Any]
    ) -> None:
        self.team, self.name = team, name
        self.xp: Any = xp
        self.sent: dict[str, int] = {}
        self._empty = empty
        self._memory: dict[tuple[int, str], Any] = {}

    def parcels(
        self,
        label: str,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
        dtype: DTypeLike,
        slot: int = 0,
        rows: int = 1,
    ) -> Parcels:
        """Return parcels to fill; the next parcels of the same slot reuse their memory."""
        send, receive = (
            self._buffer((slot, way), sum(counts) * np.dtype(dtype).itemsize).view(dtype)
            for way, counts in (("send", send_counts), ("receive", receive_counts))
        )
        return Parcels(label, rows, send, send_counts, receive, receive_counts)

    def _buffer(self, key: tuple[int, str], size: int) -> Any:
        """Return ``size`` bytes of a buffer, which grows if needed."""
        if key not in self._memory or self._memory[key].size < size:
            self._memory[key] = self._empty(size, np.uint8)
        return self._memory[key][:size]

    @abstractmethod
    def exchange(self, parcels: Parcels) -> None:
        """Send its part to each rank, and receive one from each."""

    def start(self, parcels: Parcels) -> Callable[[], None]:
        """Begin one of several exchanges; return a function that waits for its end."""
        self.exchange(parcels)
        return lambda: None

    def _begin(self, parcels: Parcels) -> None:
        """Vote on what all ranks are about to exchange, and count the bytes that leave this one."""
        send, label = parcels.send, parcels.label
        self.team.agree(f"{label}: {parcels.rows} x {send.dtype}")
        away = (send.size - parcels.send_counts[self.team.rank]) * send.itemsize
        self.sent[label] = self.sent.get(label, 0) + away


class HostTransport(Transport):
    """MPI for arrays in host memory; ``empty`` makes its buffers."""

    def __init__(self, team: Team, empty: Callable[[int, Any], Any] = np.empty) -> None:
        super().__init__(team, np, "MPI", empty)

    def exchange(self, parcels: Parcels) -> None:
        """Exchange by messages between the ranks with non-empty parts.

        Most exchanges are between neighbours, where ``MPI_Alltoallv`` would involve all ranks each
        time; for exchanges between all ranks it takes the same time.
        """
        self._begin(parcels)
        rank, size, comm = self.team.rank, self.team.size, self.team.comm
        outgoing = cut(parcels.send, [(count,) for count in parcels.send_counts])
        got = cut(parcels.receive, [(count,) for count in parcels.receive_counts])
        waiting = []
        # Each rank begins with its successor, so that the ranks do not all begin with the same one.
        for step in range(1, size):
            other = (rank - step) % size
            if got[other].size:
                waiting.append(comm.Irecv(got[other], other))
        for step in range(1, size):
            other = (rank + step) % size
            if outgoing[other].size:
                waiting.append(comm.Isend(outgoing[other], other))
        got[rank][...] = outgoing[rank]
        self.team.mpi.Request.Waitall(waiting)


def cut(buffer: AnyArray, shapes: Iterable[tuple[int, ...]]) -> list[Any]:
    """Return views of consecutive arrays in a buffer."""
    shapes = list(shapes)
    ends = pairwise([0, *accumulate(map(math.prod, shapes))])
    return [buffer[a:b].reshape(shape) for (a, b), shape in zip(ends, shapes, strict=True)]
