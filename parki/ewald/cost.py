"""What a choice of parameters costs: seconds per stage and variant, linear in counts of the work.

Each variant has a few counts (`COUNTS`), in the spirit of the paper's Section 5: what it computes
and what it moves. A machine has seconds for each of them: those measured by `parki tune`, or the
built-in ones, of one core of an AVX-512 server and of an H200 (`parki.ewald.machines`). A factor
1.5 in one of them moves the cut-off by about 7 %, and the total by a percent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from parki.arrays import USUAL
from parki.ewald.columns import computed, device_threads, usual_staging
from parki.ewald.g2p import share as g2p_share
from parki.ewald.lengths import NO_TABLES, Tables
from parki.ewald.p2g import (
    ATOMIC,
    SIDES,
    UNORDERED,
    owner_shares,
    owner_turns,
    reached,
    shared_work,
)
from parki.ewald.p2g import share as p2g_share
from parki.ewald.padding import Passes
from parki.ewald.sums import SUMS

_CELLS = ("targets", "candidates", "operations")
_POINTS = ("sources", "updates")
# What each variant's time is linear in, after a constant for its launches.
COUNTS = {
    # The last are operations of one target: however few tiles there are, one takes that long.
    "p2p_tile": ("targets", "pairs", "operations", "chain"),
    # Of repeated sums, which take lists that are kept.
    "kept_tile": ("targets", "pairs", "operations", "chain"),
    "p2p_staged": ("targets", "computed", "operations"),
    "p2p_gm1d": _CELLS,
    "p2p_gm2d": _CELLS,
    "p2p_sm1d": (*_CELLS, "steps"),
    "p2p_sm2d": _CELLS,
    # Values are the grid's: of sparse clouds it does not fit into a host's caches. G2P counts those
    # beyond `CACHED`.
    "p2g_owner": ("colours", *_POINTS, "idle", "values"),
    "p2g_tile": ("entries", "windows", "updates", "flushes", "share"),
    "p2g_base": _POINTS,
    "p2g_source": _POINTS,
    "p2g_grid": _POINTS,
    "p2g_hybrid": _POINTS,
    # Free directions take FGC more steps, by other threads than those of kernels, which fall asleep
    # and which G2P wakes: threads, or 0. Values of a host's lines take nearly twice as long as
    # those of its boxes and planes: lines cross memory in the largest strides.
    "fgc": ("boxes", "lines", "planes", "free"),
    "g2p_target": ("targets", "reads", "beyond", "free"),
    "g2p_base": ("targets", "reads", "beyond", "free"),
    "g2p_tile": ("targets", "reads", "staged", "share", "free"),
}
# Pressure and gradient come from a kernel of their own: times the velocity's (H200 1.05, CPU 1.5).
_DERIVATIVES = 1.5
_BALL = 4 / 3 * math.pi
# Sources in the 27 cells around a target's, of width r_c, over those within r_c.
_CANDIDATES = 27 / _BALL
# Of r_c: staged tiles compute as many pairs as there are within. Of even points these are 2.7 times
# those within r_c, of a cluster that the cut-off encloses hardly more than those: it takes two
# thirds of the time. On a CPU 30 clouds of 65 to 1420 pairs, even and clustered, were foreseen 0.79
# to 1.23 times (by the pairs within r_c and a constant 0.63 to 1.47).
AROUND = 1.4
# Values of the grid's components that a host's caches hold: 16 MB of doubles. What those beyond
# take is known by sums with large grids alone: by a count of all, small sums set the number, and 90
# sums of up to 1e6 points were foreseen 0.53 to 1.32 times; by this one 0.64 to 1.39.
CACHED = 2e6
_WARP = 32
# Values that a thread of P2G by tiles keeps: of more, some spill from its registers, and each takes
# longer. On an H200 four components of P = 18 took 1.4 to 2.0 times as long as foreseen by those of
# P = 17, which take 255 registers. Single precision has no such windows.
_KEPT_VALUES, _SPILLED = 68, 1.7


def near_name(variant: str, repeated: bool) -> str:
    """Return the name of a variant of P2P here: of tiles, repeated sums have one of their own."""
    return "kept_tile" if repeated and variant == "tile" else f"p2p_{variant}"


class Pairs(NamedTuple):
    """Numbers of pairs: within the cut-off, and within `AROUND` times as much."""

    within: float
    around: float


@dataclass(frozen=True)
class Machine:
    """Seconds per unit of work, for one precision.

    Attributes
    ----------
    name : str
        Where the numbers come from.
    seconds : mapping of str to tuple of float
        By variant: seconds of its launches, then seconds for each of its `COUNTS`.
    workers : float
        What all but the launches is divided by: threads over those it was measured with.
    lengths : Tables
        Lengths of transforms and their costs, in which the values of FGC are counted.
    on_device : bool
        Whether it is a device, which has other usual variants.
    others_from : float
        Fewest points that the other variants were timed for; infinite if they were not.
    lanes : int
        Values of a vector, in which windows are computed; 1 on devices.
    threads : int
        Of a host.
    """

    name: str
    seconds: Mapping[str, tuple[float, ...]]
    workers: float = 1.0
    lengths: Tables = NO_TABLES
    on_device: bool = False
    others_from: float = math.inf
    lanes: int = 1
    threads: int = 1

    def time(self, variant: str, counts: tuple[float, ...]) -> float:
        """Return the predicted seconds of a variant."""
        launch, *each = self.seconds[variant]
        return launch + sum(s * n for s, n in zip(each, counts, strict=True)) / self.workers

    def variants(
        self, stage: str, method: str, points: int, deterministic: bool = False
    ) -> tuple[str, ...]:
        """Return the variants to choose from, for so many points: the one asked for, or several.

        The usual one; and others if they were timed for so few points. On a host, and wherever
        ``deterministic`` asks for it, all give the same result every time, bit for bit.
        """
        if method != "auto":
            return (method,)
        # For far fewer points other things count than those that were measured.
        if points < self.others_from / 4:
            usual = USUAL[self.on_device][("p2p", "p2g", "g2p").index(stage)]
            return (usual,)
        names = [n.removeprefix(f"{stage}_") for n in self.seconds if n.startswith(stage)]
        if stage == "p2g" and not self.on_device:
            names = [name for name in names if name not in ATOMIC]
        elif stage == "p2g" and deterministic:
            names = [name for name in names if name not in UNORDERED]
        return tuple(names)


@dataclass(frozen=True)
class Work:
    """What a sum asks of its stages, whatever its parameters: gives the counts of variants.

    ``lanes`` and ``threads`` are those of the `Machine`.
    """

    kernel: str
    want: tuple[str, ...]
    targets: int
    sources: int
    periodicity: int = 3
    lanes: int = 1
    threads: int = 1

    def near(self, variant: str, each: Pairs, degree: int) -> tuple[float, ...]:
        """Return the counts of P2P for numbers of pairs and polynomials of ``degree``.

        Variants by cells compute all candidates, staged tiles those around r_c, lists those within:
        what they look at grows with targets and pairs. A team of SM-1D has the targets of a cell,
        which take all its sources in turn: with few cells, that counts.
        """
        pairs = each.within
        polynomials, others = SUMS[self.kernel].operations
        passes = ("u" in self.want) + (_DERIVATIVES if self.want != ("u",) else 0.0)
        operations = passes * (others + 2 * polynomials * degree)
        targets, near = self.targets * passes, pairs * passes
        if variant == "tile":
            return targets, near, pairs * operations, pairs / self.targets * operations
        if variant == "staged":
            return targets, each.around * passes, each.around * operations
        counts = (targets, near * _CANDIDATES, pairs * _CANDIDATES * operations)
        if variant != "sm1d":
            return counts
        cell = pairs / self.targets / _BALL
        return (*counts, (cell / _WARP + 1) * 27 * cell * passes)

    def spread(
        self, variant: str, points: int, grid: float, tiles: tuple[int, int]
    ) -> tuple[float, ...]:
        """Return the counts of P2G by P ``points`` into components of ``grid`` values.

        ``tiles`` are those of `p2g_owner`. However many teams there are, one takes its share of
        sources one after the other.
        """
        components = SUMS[self.kernel].components
        if variant == "tile":
            # Windows and their slopes, of each tile that a source reaches, and the blocks of
            # columns that take it together.
            tables = 2 if components == 4 else 1
            entries = reached(points) * self.sources
            blocks = math.prod(side + points - 1 for side in SIDES)
            updates = float(components * points)
            if updates > _KEPT_VALUES:
                updates *= _SPILLED
            return (
                tables * entries,
                tables * entries * points**2,
                self.sources * blocks * updates,
                components * grid,
                p2g_share(int(entries)) * updates,
            )
        updates = self._updates(self.sources, components, points)
        if variant == "owner":
            colours, work, idle = self.rounds(tiles, points)
            return colours, self.sources, work * updates, idle * updates, components * grid
        return self.sources, updates

    def rounds(self, tiles: tuple[int, int], points: int) -> tuple[float, float, float]:
        """Return the colours of P2G by ``owner``, its work, and what idle threads could do.

        The latter two over the work of tiles whose planes are not shared out: those of one colour
        are all that runs at once. What idle threads cost is a machine's own: of two that share a
        core, one alone is faster.
        """
        rows, columns = ((n - n // 2, n // 2) for n in tiles)
        colours = [r * c for r in rows for c in columns if r * c]
        shares = [(n, owner_shares(n, self.threads, points)) for n in colours]
        work = sum(n * shared_work(s) for n, s in shares)
        turns = sum(owner_turns(n, s, self.threads) for n, s in shares)
        every = math.prod(tiles)
        return float(len(colours)), work / every, (turns * self.threads - work) / every

    def far(self, passes: Passes) -> tuple[float, ...]:
        """Return the counts of FGC, for the values of one component over all its passes."""
        components = SUMS[self.kernel].components + self._rows + ("p" in self.want)
        return *(components * values for values in passes), self._free

    def gather(self, variant: str, points: int, grid: float) -> tuple[float, ...]:
        """Return the counts of G2P; a gradient takes the window's slopes beside its values.

        Tiles stage values of the grid, and a team takes its share of targets one by one.
        """
        fields = 4 if "grad_u" in self.want else "u" in self.want
        components = self._rows * fields + ("p" in self.want)
        reads = self._updates(self.targets, components, points)
        if variant != "tile":
            beyond = max(0.0, components * grid - CACHED)
            return float(self.targets), reads, beyond, self._free
        staged = components * grid * usual_staging(points)
        one = g2p_share(self.targets) * reads / self.targets
        idle = _idle(points) if self.lanes == 1 else 1.0
        return float(self.targets), idle * reads, staged, idle * one, self._free

    @property
    def _free(self) -> float:
        return float(self.threads if self.periodicity < 3 else 0)

    @property
    def _rows(self) -> int:
        return SUMS[self.kernel].results

    def _updates(self, count: int, components: int, points: int) -> float:
        """Return the values of all windows; along z they are computed in whole vectors."""
        row = -(-points // self.lanes) * self.lanes
        return float(count * components * points**2 * row)


@lru_cache(maxsize=32)
def _idle(points: int) -> float:
    """Return the threads of a device that take a target's plane in G2P, over those with work."""
    return computed(points, device_threads(points, 8)) / points**2
