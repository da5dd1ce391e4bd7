"""`Problem`: what parameters are chosen for, with the errors and the times of a choice.

Joins the error estimates, which know no tolerance, the measured pair density, and the cost model.
All lengths are in units of the cube root of the box's volume, in which the promise of the tolerance
is ``error <= tolerance * sqrt(Q)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.arrays import USUAL
from parki.ewald import estimates
from parki.ewald.clustering import PairDensity
from parki.ewald.cost import AROUND, Machine, Pairs, Work, near_name
from parki.ewald.lengths import Tables
from parki.ewald.p2g import owner_tiles
from parki.ewald.padding import Padding, Passes, pad
from parki.ewald.split import Split
from parki.ewald.sums import SUMS, term_of

# Shares of the squared tolerance: near field, its polynomials, far field. The rest is kept for the
# scatter of clouds of few points, whose error hangs on single pairs.
NEAR, POLYNOMIAL, FAR = 0.20, 0.02, 0.48
# The error that a point's own images add to its own, over the mean of as many points elsewhere.
IMAGES = 7.0
# How much longer than foreseen P2P, P2G and G2P may take by a variant that is not the usual one, on
# hosts and on devices: P2P by cells took up to 3.2 times as long on CPUs, where cells hold few
# sources, and G2P by targets 2.4 times as long on an H200, for few points.
UNSURE = {False: (3.5, 1.2, 1.2), True: (1.05, 1.05, 1.2)}

# Targets that a multiprocessor of a device works on at a time.
AT_A_TIME = 512
# Grid values that tell what each takes.
_MANY = 1e12
_Count = Callable[[str, int, float], tuple[float, ...]]


class _Line(NamedTuple):
    """What a variant takes by the grid's values: the same for few, then a line."""

    least: float
    start: float
    each: float
    variant: str

    def at(self, grid: float) -> float:
        """Return the seconds for so many values."""
        return max(self.least, self.start + self.each * grid)


class Times(NamedTuple):
    """Predicted seconds of the far field's stages, and the variants they are of."""

    spread: float
    far: float
    gather: float
    p2g: str
    g2p: str

    @property
    def total(self) -> float:
        """Seconds of the three."""
        return self.spread + self.far + self.gather


@dataclass(frozen=True, eq=False)
class Problem:
    """What parameters are chosen for; lengths in units of the cube root of the box's volume.

    Problems are equal where a choice depends on nothing that differs.

    Attributes
    ----------
    p2p, p2g, g2p : sequence of str
        Variants to choose from.
    windows : sequence of int
        Numbers of window points P to choose from, the smallest first.
    cutoff : float or None
        Cut-off r_c that was asked for; None to choose it.
    kept : float
        Most pairs within the cut-off of which sums keep lists; 0 for what is summed once.
    """

    kernel: str
    want: tuple[str, ...]
    split: str
    periodicity: int
    box: NDArray[np.float64]
    tolerance: float
    density: PairDensity
    targets: int
    sources: int
    machine: Machine
    p2p: Sequence[str]
    p2g: Sequence[str]
    g2p: Sequence[str]
    windows: Sequence[int]
    cutoff: float | None = None
    kept: float = 0.0

    @property
    def terms(self) -> tuple[str, ...]:
        """What must keep the promise: every wanted quantity of every part of the kernel."""
        terms = SUMS[self.kernel].terms
        return tuple(term.name for quantity in self.want for term in terms[quantity])

    @property
    def steep_terms(self) -> tuple[str, ...]:
        """Those with the largest window errors: at each mode a gradient's exceeds the others'."""
        if "grad_u" not in self.want:
            return self.terms
        return tuple(t for t in self.terms if term_of(t).steep)

    @cached_property
    def work(self) -> Work:
        """What the sum asks of its stages."""
        machine = self.machine
        return Work(
            self.kernel,
            self.want,
            self.targets,
            self.sources,
            self.periodicity,
            machine.lanes,
            machine.threads,
        )

    @property
    def lengths(self) -> Tables:
        """The lengths of transforms to choose from."""
        return self.machine.lengths

    def pad(self, steps: NDArray[np.float64], points: int, cutoff: float) -> Padding:
        """Return the sizes of a grid and its transforms."""
        return pad(self.periodicity, self.box, steps, points, cutoff, self.tolerance, self.lengths)

    @cached_property
    def _key(self) -> tuple[Hashable, ...]:
        """What a choice depends on."""
        d, m = self.density, self.machine
        return (
            *(self.kernel, self.want, self.split, self.periodicity, self.tolerance),
            *(self.targets, self.sources, tuple(self.p2p), tuple(self.p2g), tuple(self.g2p)),
            *(tuple(self.windows), self.cutoff, self.kept),
            *(self.box.tobytes(), d.scales.tobytes(), d.enhancement.tobytes(), d.around.tobytes()),
            d.self_pairs,
            *(
                tuple((v, tuple(s)) for v, s in m.seconds.items()),
                m.workers,
                m.lengths,
                m.lanes,
                m.threads,
            ),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def rounded(self) -> Problem:
        """Return the problem with a pair density that is rounded up to steps of 3 %."""
        density = self.density
        enhancement, around = (
            np.exp(0.03 * np.ceil(np.log(values) / 0.03 - 1e-9))
            for values in (density.enhancement, density.around)
        )
        return replace(self, density=replace(density, enhancement=enhancement, around=around))

    # ------------------------------------------------------------------ times
    def pairs(self, cutoff: float) -> float:
        """Return the number of pairs within the cut-off."""
        edges = [float(b) for b in self.box]
        images = math.prod(1 + 2 * cutoff / b for b in edges[: self.periodicity])
        # What the box has of the ball around its points on average, in boxes; and no more than all
        # points and images in reach.
        free = edges[self.periodicity :]
        ball = 4 / 3 * math.pi * cutoff**3 * math.prod(_inside(cutoff / b) for b in free)
        block = (2 * cutoff) ** self.periodicity * math.prod(free)
        uniform = min(ball, block)
        share = min(self.density.typical(cutoff) * uniform, images)
        return float(self.targets * self.sources * share)

    def near_pairs(self, cutoff: float) -> Pairs:
        """Return the numbers of pairs that the times of P2P follow."""
        return Pairs(self.pairs(cutoff), self.pairs(AROUND * cutoff))

    def read(self, cutoff: float) -> float:
        """Return about how many sources are near the targets that a device works on at a time.

        Of a multiprocessor, where most pairs are: targets of a cube, and the cut-off around it.
        """
        targets, sources = self.density.about(cutoff)
        edge = (AT_A_TIME / (targets * self.targets)) ** (1 / 3)
        return float(sources * self.sources * (edge + 2 * cutoff) ** 3)

    def near_time(self, cutoff: float, degree: int) -> tuple[float, str]:
        """Return the seconds of P2P, and the variant that takes least."""
        pairs = self.near_pairs(cutoff)
        return self._best(0, {v: self._near_time(v, pairs, degree) for v in self.p2p})

    def _near_time(self, variant: str, pairs: Pairs, degree: int) -> float:
        name = near_name(variant, pairs.within <= self.kept)
        return self.machine.time(name, self.work.near(variant, pairs, degree))

    def _best(self, stage: int, times: dict[str, float]) -> tuple[float, str]:
        """Return the least time and its variant; others must promise more than the usual one."""
        usual = USUAL[self.machine.on_device][stage]
        unsure = UNSURE[self.machine.on_device][stage]
        best = min(times, key=lambda v: times[v] * (1 if v == usual else unsure))
        return times[best], best

    def tiles(self, cells: Sequence[float], points: int) -> tuple[int, int]:
        """Return the tiles of P2G by owner, for a grid's cells along each axis and P points."""
        return owner_tiles(cells, points, self.periodicity)

    def mesh_time(self, points: int, grid: float, passes: Passes, tiles: tuple[int, int]) -> Times:
        """Return the times of the far field, by the variants that take least.

        Parameters
        ----------
        points : int
            Window points P.
        grid : float
            Values of one component on the grid.
        passes : Passes
            Those in all its transforms, times their costs.
        tiles : tuple of 2 ints
            See `tiles`.
        """
        spreads, gathers = self._lines(points)
        times = {line.variant: line.at(grid) for line in spreads}
        if "owner" in self.p2g:
            times["owner"] = self._owner_time(points, grid, tiles)
        spread, p2g = self._best(1, times)
        gather, g2p = self._best(2, {line.variant: line.at(grid) for line in gathers})
        far = self.machine.time("fgc", self.work.far(passes))
        return Times(spread, far, gather, p2g, g2p)

    def _owner_time(self, points: int, grid: float, tiles: tuple[int, int]) -> float:
        """Return what P2G by owner takes: what hangs on tiles is kept, the rest grows evenly."""
        key = (points, *tiles)
        if key not in self._owners:
            *counts, values = self.work.spread("owner", points, grid, tiles)
            some, more = (self.machine.time("p2g_owner", (*counts, v)) for v in (0.0, values))
            self._owners[key] = some, (more - some) / grid
        some, each = self._owners[key]
        return some + each * grid

    @cached_property
    def _owners(self) -> dict[tuple[int, int, int], tuple[float, float]]:
        return {}

    def _lines(self, points: int) -> tuple[list[_Line], list[_Line]]:
        """Return what P2G and G2P take by P points with each variant but P2G's owner; kept."""
        if points not in self._known:

            def line(stage: str, count: _Count, variant: str) -> _Line:
                name = f"{stage}_{variant}"
                none, some, more = (
                    self.machine.time(name, count(variant, points, n * _MANY)) for n in range(3)
                )
                return _Line(none, 2 * some - more, (more - some) / _MANY, variant)

            spread = partial(self.work.spread, tiles=(1, 1))
            self._known[points] = (
                [line("p2g", spread, v) for v in self.p2g if v != "owner"],
                [line("g2p", self.work.gather, v) for v in self.g2p],
            )
        return self._known[points]

    @cached_property
    def _known(self) -> dict[int, tuple[list[_Line], list[_Line]]]:
        return {}

    def far_time(self, points: int, padding: Padding) -> Times:
        """Return the times of the far field on a grid."""
        passes, tiles = padding.values(self.lengths), self.tiles(padding.cells, points)
        return self.mesh_time(points, float(math.prod(padding.grid)), passes, tiles)

    def promising(self, cutoff: float, degree: int, points: int) -> Problem:
        """Return the problem without the variants that take twice the best one's time.

        But with the usual ones: of clusters the guess of the grid may be fifty times too large.
        """
        grid = (points / cutoff) ** 3  # typical
        machine, work, pairs = self.machine, self.work, self.near_pairs(cutoff)
        tiles = self.tiles((self.box * points / cutoff).tolist(), points)
        usual = USUAL[machine.on_device]

        def fast(times: dict[str, float]) -> tuple[str, ...]:
            most = 2 * min(times.values())
            return tuple(v for v, t in times.items() if t <= most or v in usual)

        return replace(
            self,
            p2p=fast({v: self._near_time(v, pairs, degree) for v in self.p2p}),
            p2g=fast(
                {v: machine.time(f"p2g_{v}", work.spread(v, points, grid, tiles)) for v in self.p2g}
            ),
            g2p=fast({v: machine.time(f"g2p_{v}", work.gather(v, points, grid)) for v in self.g2p}),
        )

    # ------------------------------------------------------------------ errors
    def bound(self, estimate: estimates.Estimate, scale: float) -> float:
        """Return the error (per sqrt(Q)) for this cloud."""
        square = self.density.at(scale) * estimate.rms**2
        # A point's own images are in phase.
        itself = estimate.itself**2 + (IMAGES * estimate.rms) ** 2
        square += self.density.self_pairs * itself
        return math.sqrt(min(square, max(estimate.peak**2, itself)))

    def near(self, split: Split, cutoff: float) -> float:
        """Return the error of the split's near field over the tolerance."""
        worst = max(
            self.bound(estimates.near(term, split, cutoff, 1.0), cutoff) for term in self.terms
        )
        return worst / self.tolerance

    def truncation(self, split: Split, steps: NDArray[np.float64]) -> float:
        """Return the error over the tolerance of the modes that the grid leaves out."""
        if split.band * float(steps.max()) <= math.pi:
            return 0.0
        scale = 2 * float(steps.min())
        worst = max(
            self.bound(estimates.truncation(term, split, list(steps), 1.0), scale)
            * term_of(term).aligned
            for term in self.terms
        )
        return worst / self.tolerance

    def polynomial_degree(self, split: Split, cutoff: float) -> int:
        """Return the degree of the near polynomials whose error stays within its share."""
        degree = 2
        for term in self.terms:
            unit = self.bound(estimates.polynomial(term, cutoff, 1.0, 1.0), cutoff)
            delta = math.sqrt(POLYNOMIAL) * self.tolerance / unit
            degree = max(degree, split.polynomial_degree(term, cutoff, delta))
        return degree + degree % 2  # even only: each degree is a kernel to compile


def _inside(ratio: float) -> float:
    """Return what a slab has of a ball around its points, on average; ``ratio`` r over width."""
    return 1 - 0.375 * ratio if ratio < 1 else 0.75 / ratio - 0.125 / ratio**3
