"""`Swap`: from arrays that are split along one axis to the same arrays split along another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
        self.start(values, out)()

    def start(self, values: Any, out: Any, slot: int = 0) -> Callable[[], None]:
        """Begin an exchange as that of a call; return what ends it.

        Of those in a slot, one ends before the next begins.
        """
        rank = self.transport.team.rank
        axis, bounds = self.join
        sent = [_part(values, axis, a, b) for a, b in pairwise(bounds)]
        axis, bounds = self.split
        got = [_part(out, axis, a, b) for a, b in pairwise(bounds)]
        got[rank][...] = sent[rank]  # not by way of the buffers
        send_counts = [math.prod(block.shape) for block in sent]
        receive_counts = [math.prod(block.shape) for block in got]
        send_counts[rank] = receive_counts[rank] = 0
        send, receive = self.transport.buffers(
            sum(send_counts), sum(receive_counts), values.dtype, slot
        )
        for block, part in _parts(sent, send_counts, send):
            part[...] = block
        wait = self.transport.start(self.label, send, send_counts, receive, receive_counts)

        def end() -> None:
            wait()
            for block, part in _parts(got, receive_counts, receive):
                block[...] = part

        return end


def _parts(blocks: list[Any], counts: list[int], buffer: Any) -> Iterator[tuple[Any, Any]]:
    """Go through the blocks of other ranks, each with its part of the buffer in its shape."""
    done = 0
    for block, count in zip(blocks, counts, strict=True):
        if count:
            yield block, buffer[done : done + count].reshape(block.shape)
            done += count


def _part(values: Any, axis: int, first: int, last: int) -> Any:
    return values[(slice(None),) * axis + (slice(first, last),)]
