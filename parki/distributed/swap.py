"""`Swap`: from arrays that are split along one axis to the same arrays split along another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from parki.distributed.transport import Transport, cut

Bounds = tuple[int, ...]


class Swap:
    """An exchange of parts.

    Parameters
    ----------
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
        sent, got = _blocks(values, *self.join), _blocks(out, *self.split)
        # Not by way of the buffers.
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


def _blocks(values: Any, axis: int, bounds: Bounds) -> list[Any]:
    """Return the parts of an array along an axis."""
    return [values[(slice(None),) * axis + (slice(a, b),)] for a, b in pairwise(bounds)]
