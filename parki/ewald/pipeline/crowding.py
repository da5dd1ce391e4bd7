"""`Crowding`: whether points that moved crowd as did those that the set-up was seen to suit.

`Setup.suits` counts the close pairs of a sample. This compares three numbers, which follow from how
the stages have sorted the points, and is asked first.
"""

from __future__ import annotations

from typing import Any

from parki.ewald.pipeline.stages import Stages
from parki.interchange import to_host

# While the pairs that share a cell change by no more than this, in parts of what they were when the
# set-up was seen to suit the points, it suits them still: `choice.moves` allows more.
CROWDED = 0.1


class Crowding:
    """How many pairs share a cell of the near field, and of the far field's sorts.

    Attributes
    ----------
    suited : ndarray, shape (3,), or None
        These numbers of points that the set-up was seen to suit, if there were any.
    """

    def __init__(self, suited: Any = None) -> None:
        self.suited = suited
        self._now: Any = None  # of the points that are placed

    def count(self, stages: Stages) -> None:
        """Count the pairs of points that were placed; waits for nothing."""
        near, far = stages.p2p, (stages.g2p.targets, stages.p2g.sources)
        trg_near, src_near, trg_far, src_far = (
            each.counts * 1.0 for each in (near.targets, near.sources, *far)
        )
        pairs = (trg_near * src_near, trg_far * trg_far, src_far * src_far)
        self._now = stages.setup.task.xp.empty(3)
        for place, each in enumerate(pairs):
            self._now[place] = each.sum()

    def read(self) -> Any:
        """Return the numbers, for which the host waits."""
        return to_host(self._now)

    def alike(self, now: Any) -> bool:
        """Return whether numbers are about those that suited."""
        return bool((abs(now - self.suited) <= CROWDED * self.suited).all())
