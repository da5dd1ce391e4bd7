"""`Halo`: grid planes that several slabs touch.

Values spread beyond a slab are added to the planes of their owners; the field on these planes is
copied from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parki.distributed.slabs import Slabs, Touched
from parki.distributed.transport import Transport, cut
from parki.typing import AnyArray


class Halo:
    """Planes that this rank touches but does not own, and own planes that other ranks touch."""

    def __init__(self, transport: Transport, slabs: Slabs) -> None:
        self.transport = transport
        rank, ranks = transport.team.rank, range(slabs.size)
        mine = slabs.touched(rank)
        self.touched = [[t for t in mine if t.owner == owner] for owner in ranks]
        self.owned = [[t for t in slabs.touched(r) if t.owner == rank] for r in ranks]

    def add(self, grid: AnyArray) -> None:
        """Add the values spread beyond the slab to the owners' planes, in place.

        ``grid`` (components, planes, y, z) begins with the planes owned.
        """
        for part, block in self._exchange("P2G halo", grid, self.touched, "touched", self.owned):
            grid[:, part.owned : part.owned + part.planes] += block

    def copy(self, field: AnyArray) -> None:
        """Fetch the planes beyond the slab from their owners, in place; ``grid`` as for `add`."""
        for part, block in self._exchange("G2P halo", field, self.owned, "owned", self.touched):
            field[:, part.touched : part.touched + part.planes] = block

    def _exchange(
        self,
        label: str,
        values: AnyArray,
        outgoing: list[list[Touched]],
        field: str,
        got: list[list[Touched]],
    ) -> Iterator[tuple[Touched, Any]]:
        """Send planes, which begin at the attribute ``field``; return the arriving planes."""
        components, _, y, z = values.shape
        plane = components * y * z
        send_counts, receive_counts = (
            [plane * sum(t.planes for t in parts) for parts in ranks] for ranks in (outgoing, got)
        )
        parcels = self.transport.parcels(
            label, send_counts, receive_counts, values.dtype, rows=components
        )

        def blocks(buffer: AnyArray, ranks: list[list[Touched]]) -> Iterator[tuple[Touched, Any]]:
            parts = [part for parts in ranks for part in parts]
            shapes = ((components, part.planes, y, z) for part in parts)
            return zip(parts, cut(buffer, shapes), strict=True)

        for part, block in blocks(parcels.send, outgoing):
            begin = getattr(part, field)
            block[...] = values[:, begin : begin + part.planes]
        self.transport.exchange(parcels)
        return blocks(parcels.receive, got)
