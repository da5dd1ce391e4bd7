"""`Swap`: from arrays that are split along one axis to the same arrays split along another."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from parki.distributed.transport import Transport

Bounds = tuple[int, ...]


class Swap:
    """An exchange of shares.

    Parameters
    ----------
    transport : Transport
    label : str
        What to count its bytes for.
    split : int, tuple of ints
        The axis along which ranks have parts before, and the bounds of the parts.
    join : int, tuple of ints
        The same after.
    """

    def __init__(
        self, transport: Transport, label: str, split: tuple[int, Bounds], join: tuple[int, Bounds]
    ) -> None:
        self.transport, self.label = transport, label
        self.split, self.join = split, join

    def back(self) -> Swap:
        """Return the swap that undoes this one."""
        return Swap(self.transport, self.label, self.join, self.split)

    def __call__(self, values: Any, out: Any) -> None:
        """Exchange: ``values`` has this rank's part of one axis, ``out`` that of the other."""
        axis, bounds = self.join
        sent = [_part(values, axis, a, b) for a, b in pairwise(bounds)]
        axis, bounds = self.split
        got = [_part(out, axis, a, b) for a, b in pairwise(bounds)]
        send_counts = [math.prod(block.shape) for block in sent]
        receive_counts = [math.prod(block.shape) for block in got]
        send, receive = self.transport.buffers(sum(send_counts), sum(receive_counts), values.dtype)
        done = 0
        for block, count in zip(sent, send_counts, strict=True):
            send[done : done + count].reshape(block.shape)[...] = block
            done += count
        self.transport.exchange(self.label, send, send_counts, receive, receive_counts)
        done = 0
        for block, count in zip(got, receive_counts, strict=True):
            block[...] = receive[done : done + count].reshape(block.shape)
            done += count


def _part(values: Any, axis: int, first: int, last: int) -> Any:
    return values[(slice(None),) * axis + (slice(first, last),)]
