"""Predicted seconds of each stage and variant, linear in counts of the work.

Each variant has a few counts (`COUNTS`), in the spirit of the paper's Section 5: what it computes
and what it moves. A machine has seconds for each count: built in for one core of an AVX-512 server
and for an H200, perhaps times factors that `parki tune` measured (`parki.ewald.choice.machines`). A
factor of 1.5 in one of them moves the cut-off by about 7 %, and the total by about a percent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from parki.ewald.far.columns import computed, device_threads, usual_staging
from parki.ewald.far.padding import NO_TABLES, Passes, Tables
from parki.ewald.far.sizes import (
    SIDES,
    g2p_part,
    owner_parts,
    owner_rounds,
    p2g_part,
    reached,
    shared_work,
)
from parki.ewald.sums import SUMS
from parki.ewald.sums.record import Interaction
from parki.runtime.forks import cached_property

# Variants of P2P, P2G and G2P that are best nearly everywhere, by whether they run on a device.
USUAL = {False: ("staged", "owner", "target"), True: ("tile", "tile", "tile")}
# The counts that each variant's time is linear in, after a constant for its launches. Variants of
# the literature have none: parameters are chosen for them as for the usual variants.
COUNTS = {
    # The chain is the operations of one target: its time remains however few tiles there are.
    "p2p_tile": ("targets", "pairs", "operations", "chain"),
    # This is for repeated sums, which reuse kept lists.
    "kept_tile": ("targets", "pairs", "operations", "chain"),
    "p2p_staged": ("targets", "computed", "operations"),
    # Values are grid values: for sparse clouds they do not fit into a host's caches. G2P counts
    # the values beyond `CACHED`.
    "p2g_owner": ("colours", "sources", "updates", "idle", "values"),
    "p2g_tile": ("entries", "windows", "updates", "flushes", "part"),
    # Free directions give FGC more steps, in other threads than the kernels': these fall asleep,
    # and G2P wakes them. So free is the number of threads, or 0. On a CPU a value of a line takes
    # nearly twice as long as one of a box or plane: lines cross memory in the largest strides.
    "fgc": ("boxes", "lines", "planes", "free"),
    "g2p_target": ("targets", "reads", "beyond", "free"),
    "g2p_tile": ("targets", "reads", "staged", "part", "free"),
}
# The stages that have a factor of their own; P2P by kept lists is one.
STAGES = ("p2p", "kept", "p2g", "fgc", "g2p")
# Time of the kernel of pressure and gradient over the velocity's (H200 1.05, CPU 1.5).
_DERIVATIVES = 1.5
# Tensor targets add this much to it.
_TENSORS = 1.0
# Staged tiles compute the pairs within this many r_c. A cluster inside of the cut-off has hardly
# more of them than pairs within r_c; uniform points have many more.
AROUND = 1.4
# Grid values of all components that a CPU's caches hold: 16 MB of doubles. Values beyond these are
# counted separately, since small sums say nothing about their time.
CACHED = 2e6


def near_name(variant: str, repeated: bool) -> str:
    """Return the name of a variant of P2P in `COUNTS`; kept lists have a name of their own."""
    return "kept_tile" if repeated and variant == "tile" else f"p2p_{variant}"


def stage_of(variant: str) -> str:
    """Return the one of `STAGES` that a name in `COUNTS` belongs to."""
    return variant.partition("_")[0]


class Pairs(NamedTuple):
    """Numbers of pairs within the cut-off, and within `AROUND` times the cut-off."""

    within: float
    around: float


@dataclass(frozen=True)
class Machine:
    """Seconds per unit of work, for one precision.

    Attributes
    ----------
    name : str
        Source of the numbers.
    seconds : mapping of str to tuple of float
        Seconds of a variant's launches, then seconds for each of its `COUNTS`.
    usual : tuple of 3 str
        The usual variants of P2P, P2G and G2P.
    workers : float
        Divisor of all times except launches: threads over the threads of the measurement.
    lengths : Tables
        Lengths of transforms and their costs, by which the values of FGC are weighted.
    lanes : int
        Numbers in a vector, by which windows are computed; 1 on devices.
    threads : int
        Threads of the CPU.
    degrees : int
        Near polynomials have multiples of this degree, because each degree is a kernel.
    """

    name: str
    seconds: Mapping[str, tuple[float, ...]]
    usual: tuple[str, str, str]
    workers: float = 1.0
    lengths: Tables = NO_TABLES
    lanes: int = 1
    threads: int = 1
    degrees: int = 2

    def time(self, variant: str, counts: tuple[float, ...]) -> float:
        """Return the predicted seconds of a variant."""
        launch, *each = self.seconds[variant]
        return launch + sum(s * n for s, n in zip(each, counts, strict=True)) / self.workers

    def counted(self, stage: str, variant: str) -> str:
        """Return the variant whose numbers are used for a variant: itself, or the usual one."""
        place = ("p2p", "p2g", "g2p").index(stage)
        return variant if f"{stage}_{variant}" in self.seconds else self.usual[place]


@dataclass(frozen=True)
class Work:
    """Counts of the work of all variants for a sum, whatever its parameters.

    ``lanes`` and ``threads`` are as in `Machine`.
    """

    kernel: str
    want: tuple[str, ...]
    targets: int
    sources: int
    periodicity: int = 3
    lanes: int = 1
    threads: int = 1

    @cached_property
    def kind(self) -> Interaction:
        """The record of the kernel."""
        return SUMS[self.kernel]

    def near(self, variant: str, each: Pairs, degree: int) -> tuple[float, ...]:
        """Return the counts of P2P for numbers of pairs and polynomials of ``degree``.

        Staged tiles compute the pairs around r_c; lists hold the pairs within r_c.
        """
        pairs = each.within
        polynomials, others = self.kind.pair.operations
        passes = ("u" in self.want) + (_DERIVATIVES if self.want != ("u",) else 0.0)
        if self.kind.slopes(self.want, self.lanes == 1):
            passes = 1.0
        passes += _TENSORS * ("grad_tensor" in self.want)
        operations = passes * (others + 2 * polynomials * degree)
        targets, near = self.targets * passes, pairs * passes
        if variant == "tile":
            return targets, near, pairs * operations, pairs / self.targets * operations
        return targets, each.around * passes, each.around * operations

    def spread(
        self, variant: str, points: int, grid: float, tiles: tuple[int, int]
    ) -> tuple[float, ...]:
        """Return the counts of P2G with P ``points`` onto components of ``grid`` values.

        ``tiles`` are the tiles of `p2g_owner` along x and y. However many teams there are, each
        takes its part of the sources one by one.
        """
        components = self.kind.spread
        if variant == "tile":
            # Windows, and their slopes, for each tile that a source reaches, and the blocks of
            # columns that take it together.
            tables = 2 if self.kind.gradient else 1
            entries = reached(points) * self.sources
            blocks = math.prod(side + points - 1 for side in SIDES)
            updates = float(components * points)
            return (
                tables * entries,
                tables * entries * points**2,
                self.sources * blocks * updates,
                components * grid,
                p2g_part(int(entries)) * updates,
            )
        updates = self._updates(self.sources, components, points)
        colours, work, idle = self.rounds(tiles, points)
        return colours, self.sources, work * updates, idle * updates, components * grid

    def rounds(self, tiles: tuple[int, int], points: int) -> tuple[float, float, float]:
        """Return the colours of P2G by ``owner``, its work, and what idle threads could do.

        The work and the idle time are relative to the work of tiles in one part. Only tiles of one
        colour run at the same time. The cost of an idle thread depends on the machine: of two
        threads that share a core, one alone is faster.
        """
        return _rounds(tiles, points, self.threads)

    def far(self, passes: Passes) -> tuple[float, ...]:
        """Return the counts of FGC from the values of one component over all its passes."""
        pressure = "p" in self.want or "grad_tensor" in self.want
        kind = self.kind
        components = kind.symbol.grids * (kind.components + kind.results + pressure)
        return *(components * values for values in passes), self._free

    def gather(self, variant: str, points: int, grid: float) -> tuple[float, ...]:
        """Return the counts of G2P; a gradient also takes the window's slopes.

        Along y each value is multiplied by both, and plane sums along x after that; tiles multiply
        by all products. Tiles stage values of the grid, and a team takes its targets one by one.
        """
        slopes = 4 if variant == "tile" else 2
        fields = slopes if "grad_u" in self.want else "u" in self.want
        components = self.kind.gathered * fields + ("p" in self.want)
        if "grad_tensor" in self.want:  # second derivatives of three components, and slopes of one
            components = 11
        reads = self._updates(self.targets, components, points)
        if variant != "tile":
            beyond = max(0.0, components * grid - CACHED)
            return float(self.targets), reads, beyond, self._free
        staged = components * grid * usual_staging(points)
        one = g2p_part(self.targets) * reads / self.targets
        # Threads of a device for a target's plane, over the threads with work.
        idle = computed(points, device_threads(points, 8)) / points**2 if self.lanes == 1 else 1.0
        return float(self.targets), idle * reads, staged, idle * one, self._free

    @property
    def _free(self) -> float:
        return float(self.threads if self.periodicity < 3 else 0)

    def _updates(self, count: int, components: int, points: int) -> float:
        """Return the values of all windows; along z they are computed in whole vectors."""
        row = -(-points // self.lanes) * self.lanes
        return float(count * components * points**2 * row)


@lru_cache(maxsize=1024)
def _rounds(tiles: tuple[int, int], points: int, threads: int) -> tuple[float, float, float]:
    rows, columns = ((n - n // 2, n // 2) for n in tiles)
    colours = [r * c for r in rows for c in columns if r * c]
    parts = [(n, owner_parts(n, threads, points)) for n in colours]
    work = sum(n * shared_work(s) for n, s in parts)
    most = sum(owner_rounds(n, s, threads) for n, s in parts)
    every = math.prod(tiles)
    return float(len(colours)), work / every, (most * threads - work) / every
