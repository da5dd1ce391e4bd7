"""`OccupancyStatistics`: whether points crowd as those that the parameters suit."""

from __future__ import annotations

from typing import Any, cast

from parki.cells.sorted_points import SortedPoints
from parki.ewald.pipeline.stages import Stages
from parki.runtime import ExecutionSpace
from parki.settings import MOST_THREADS

# Parameters still suit while the pairs that share a cell change by no more than this part of their
# number: `choice.reuse` allows more. Fewer pairs than points take no time, and change by chance:
# images behind a wall have few near the targets.
CROWDED = 0.1
MOST_ITEMS = 1 << 12  # work items that count pairs, each of some cells


class OccupancyStatistics:
    """How many pairs share a cell: now, and when the parameters were last found to suit.

    Three numbers follow from how the stages have sorted the points. Only where they differ is
    `Setup.suits` asked, which counts the close pairs of a sample.

    Attributes
    ----------
    suited : list of 3 floats or None
        The numbers when the parameters were last found to suit.
    report : HostReport, DeviceReport or None
        The numbers of now, once they were counted; and last how many coordinates did not fit.
    points : int
        Targets or sources, whichever are more.
    """

    def __init__(self) -> None:
        self.suited: list[float] | None = None
        self.report: Any = None
        self.points = 0

    def begin(self, space: ExecutionSpace) -> Any:
        """Return the report, of which the last number may be counted up."""
        self.report = self.report or space.adapter.report(4)
        return self.report

    def count(self, stages: Stages) -> None:
        """Count pairs of the near field, and of the far field's sorts; waits for nothing."""
        near, far = stages.p2p, (stages.g2p.targets.counts, stages.p2g.sources.counts)
        trg, src = near.targets.counts, near.sources.counts
        self.points = max(near.targets.cells.size, near.sources.cells.size)
        space, first = stages.setup.task.space, self.report is None
        numbers = self.begin(space).numbers
        if not first:
            numbers[:3] = 0
        sizes = {"near": trg.size, "trg_far": far[0].size, "src_far": far[1].size}
        most = max(sizes.values())
        items = min(MOST_ITEMS, most)
        kernel = SortedPoints.pairs_kernel(space, stages.setup.task.executor)
        threads = 1 if most <= MOST_ITEMS else MOST_THREADS  # no thread of a CPU need wake
        cells = {"trg": trg, "src": src, "gathered": far[0], "spread": far[1]}
        kernel(3 * items, threads, items=items, pairs=numbers, **sizes, **cells)

    def read(self) -> list[float]:
        """Return the numbers of now, for which the host waits."""
        self.report.send()
        return self.received()

    def received(self) -> list[float]:
        """Return the numbers that were sent last, for which the host waits."""
        return cast(list[float], self.report.read()[:3])

    def matches(self, now: list[float]) -> bool:
        """Return whether numbers are about those that suited."""
        pairs = zip(now, cast(list[float], self.suited), strict=True)
        return all(abs(n - before) <= CROWDED * max(before, self.points) for n, before in pairs)
