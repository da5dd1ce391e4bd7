"""`Swap`: exchanges arrays split along one axis for the same arrays split along another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from parki.distributed.transport import Transport, cut
from parki.typing import AnyArray

Bounds = tuple[int, ...]


class Swap:
    """An exchange that moves the split from one axis to another.

    Parameters
    ----------
    label : str
        Name under which the bytes are counted.
    split : int, tuple of ints
        The axis that is split before, and the bounds of the ranks' parts.
    join : int, tuple of ints
        The same after the exchange.
    """

    def __init__(
        self, transport: Transport, label: str, split: tuple[int, Bounds], join: tuple[int, Bounds]
    ) -> None:
        self.transport, self.label = transport, label
        self.split, self.join = split, join

    def back(self) -> Swap:
        """Return the swap that undoes this one."""
        return Swap(self.transport, self.label, self.join, self.split)

    def start(self, values: AnyArray, out: AnyArray, slot: int) -> Callable[[], None]:
        """Exchange this rank's part along one axis, ``values``, for the other's, ``out``.

        Return a function that ends the exchange, of which each slot has one at a time.
        """
        rank = self.transport.team.rank
        (join, joined), (split, parts) = self.join, self.split
        sent, got = _blocks(values, join, joined), _blocks(out, split, parts)
        # The rank's own part does not go through the buffers.
        got[rank][...] = sent[rank]
        sent[rank], got[rank] = sent[rank][:0], got[rank][:0]
        send_counts, receive_counts = ([block.size for block in blocks] for blocks in (sent, got))
        parcels = self.transport.parcels(
            self.label, send_counts, receive_counts, values.dtype, slot
        )
        for block, part in zip(sent, cut(parcels.send, [b.shape for b in sent]), strict=True):
            part[...] = block
        wait = self.transport.start(parcels)

        def end() -> None:
            wait()
            arrived = cut(parcels.receive, [block.shape for block in got])
            for block, part in zip(got, arrived, strict=True):
                block[...] = part

        return end


def _blocks(values: AnyArray, axis: int, bounds: Bounds) -> list[Any]:
    """Return the parts of an array along an axis."""
    return [values[(slice(None),) * axis + (slice(a, b),)] for a, b in pairwise(bounds)]
