"""`Crowding`: whether points that moved crowd as did those that the set-up was seen to suit.

This compares three numbers, which follow from how the stages have sorted the points. Only where
they differ is `Setup.suits` asked, which counts the close pairs of a sample.
"""

from __future__ import annotations

from typing import Any

from parki.ewald.pipeline.stages import Stages
from parki.interchange import to_host

# While the pairs that share a cell change by no more than this, in parts of what they were when the
# set-up was seen to suit the points, it suits them still: `choice.reuse` allows more.
CROWDED = 0.1


class Crowding:
    """How many pairs share a cell: now, on the device, and when the set-up was seen to suit."""

    def __init__(self, suited: Any = None) -> None:
        self.suited = suited
        self._now: Any = None

    def count(self, stages: Stages) -> None:
        """Count pairs of the near field, and of the far field's sorts; waits for nothing."""
        cells = stages.p2p.targets, stages.p2p.sources, stages.g2p.targets, stages.p2g.sources
        trg_near, src_near, trg_far, src_far = (each.counts * 1.0 for each in cells)
        self._now = stages.setup.task.xp.empty(3)
        for place, each in enumerate((trg_near * src_near, trg_far * trg_far, src_far * src_far)):
            self._now[place] = each.sum()

    def read(self) -> Any:
        """Return the numbers of now, for which the host waits."""
        return to_host(self._now)

    def matches(self, now: Any) -> bool:
        """Return whether numbers are about those that suited."""
        return bool((abs(now - self.suited) <= CROWDED * self.suited).all())
