"""`Transport`: moves arrays between the ranks of a team.

Everything that crosses the network goes through `Transport.exchange`; what it is and where it lies
in the arrays is the caller's business.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parki.distributed.team import Team


class Buffers:
    """Pairs of buffers that grow: exchanges take turns, so that all of a plan share them.

    Parameters
    ----------
    empty : callable
        Makes an array of so many elements of a type.
    """

    def __init__(self, empty: Callable[[int, Any], Any]) -> None:
        self.empty = empty
        self.parts: dict[tuple[int, int], Any] = {}

    def views(self, counts: tuple[int, int], dtype: Any, slot: int) -> tuple[Any, Any]:
        """Return 1-D arrays of as many elements; those of different slots do not share memory."""
        found = []
        for place, count in enumerate(counts):
            size, key = count * np.dtype(dtype).itemsize, (slot, place)
            if key not in self.parts or self.parts[key].size < size:
                self.parts[key] = self.empty(size, np.uint8)
            found.append(self.parts[key][:size].view(dtype))
        return found[0], found[1]


class Transport(ABC):
    """One way to move arrays.

    Parameters
    ----------
    team : Team
    xp : module
        numpy or cupy: where the arrays live.
    name : str
        The way in words.
    empty : callable
        Makes its buffers, see `Buffers`.

    Attributes
    ----------
    sent : dict
        Bytes sent to other ranks so far, by the labels of `exchange`.
    """

    def __init__(self, team: Team, xp: Any, name: str, empty: Callable[[int, Any], Any]) -> None:
        self.team, self.name = team, name
        self.xp: Any = xp
        self.sent: dict[str, int] = {}
        self.memory = Buffers(empty)

    def buffers(self, n_send: int, n_receive: int, dtype: Any, slot: int = 0) -> tuple[Any, Any]:
        """Return 1-D arrays for an exchange; they are reused by the next ones of the same slot."""
        return self.memory.views((n_send, n_receive), dtype, slot)

    @abstractmethod
    def exchange(
        self,
        label: str,
        send: Any,
        send_counts: Sequence[int],
        receive: Any,
        receive_counts: Sequence[int],
    ) -> None:
        """Send to each rank its part of ``send``; the parts follow each other, as in ``receive``.

        Parameters
        ----------
        label : str
            What to count the bytes for.
        send, receive : array, 1-D, of one dtype
        send_counts, receive_counts : sequence of int
            Elements for, and from, each rank.
        """

    def start(
        self,
        label: str,
        send: Any,
        send_counts: Sequence[int],
        receive: Any,
        receive_counts: Sequence[int],
    ) -> Callable[[], None]:
        """Begin an exchange, of which there may be several; return what waits for its end."""
        self.exchange(label, send, send_counts, receive, receive_counts)
        return lambda: None

    def _begin(self, label: str, send: Any, send_counts: Sequence[int]) -> None:
        """Vote on whether all ranks are well, and count the bytes that leave this one."""
        self.team.agree()
        away = (send.size - send_counts[self.team.rank]) * send.itemsize
        self.sent[label] = self.sent.get(label, 0) + away


class HostTransport(Transport):
    """MPI for arrays in host memory; ``empty`` makes its buffers."""

    def __init__(self, team: Team, empty: Callable[[int, Any], Any] = np.empty) -> None:
        super().__init__(team, np, "MPI", empty)

    def exchange(
        self,
        label: str,
        send: Any,
        send_counts: Sequence[int],
        receive: Any,
        receive_counts: Sequence[int],
    ) -> None:
        """Exchange by messages between the ranks that have something for each other.

        Most exchanges are between neighbours: ``MPI_Alltoallv`` takes the same time for those of
        all ranks, but touches all ranks each time.
        """
        self._begin(label, send, send_counts)
        rank, size, comm = self.team.rank, self.team.size, self.team.comm
        given, got = _parts(send_counts), _parts(receive_counts)
        waiting = []
        # Each rank begins with the next one: no rank is everybody's first.
        for step in range(1, size):
            other = (rank - step) % size
            if receive_counts[other]:
                waiting.append(comm.Irecv(receive[got[other]], other))
        for step in range(1, size):
            other = (rank + step) % size
            if send_counts[other]:
                waiting.append(comm.Isend(send[given[other]], other))
        receive[got[rank]] = send[given[rank]]
        self.team.mpi.Request.Waitall(waiting)


def _parts(counts: Sequence[int]) -> list[slice]:
    """Return where each rank's part is."""
    return list(itertools.starmap(slice, itertools.pairwise([0, *itertools.accumulate(counts)])))
