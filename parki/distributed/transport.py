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


class Memory:
    """Two buffers that grow: exchanges take turns, so that all of a plan share them.

    Parameters
    ----------
    empty : callable
        Makes an array of so many elements of a type.
    """

    def __init__(self, empty: Callable[[int, Any], Any]) -> None:
        self.empty = empty
        self.parts = [empty(0, np.uint8), empty(0, np.uint8)]

    def views(self, counts: tuple[int, int], dtype: Any) -> tuple[Any, Any]:
        """Return 1-D arrays of as many elements."""
        found = []
        for place, count in enumerate(counts):
            size = count * np.dtype(dtype).itemsize
            if self.parts[place].size < size:
                self.parts[place] = self.empty(size, np.uint8)
            found.append(self.parts[place][:size].view(dtype))
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
        Makes its buffers, see `Memory`.

    Attributes
    ----------
    sent : dict
        Bytes sent to other ranks so far, by the labels of `exchange`.
    """

    def __init__(self, team: Team, xp: Any, name: str, empty: Callable[[int, Any], Any]) -> None:
        self.team, self.name = team, name
        self.xp: Any = xp
        self.sent: dict[str, int] = {}
        self.memory = Memory(empty)

    def buffers(self, n_send: int, n_receive: int, dtype: Any) -> tuple[Any, Any]:
        """Return 1-D arrays for the next exchange; they are reused by those that follow."""
        return self.memory.views((n_send, n_receive), dtype)

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
        """Exchange by ``MPI_Alltoallv``."""
        self._begin(label, send, send_counts)
        if self.team.size == 1:
            receive[...] = send
            return
        self.team.comm.Alltoallv(
            (send, (send_counts, _offsets(send_counts))),
            (receive, (receive_counts, _offsets(receive_counts))),
        )


def _offsets(counts: Sequence[int]) -> list[int]:
    """Return where the parts begin."""
    return [0, *itertools.accumulate(counts)][:-1]
