"""`Problem`: what parameters are chosen for, with the errors of a choice.

It joins the error estimates, which take no tolerance, with the measured pair density. All lengths
are in units of the cube root of the box's volume, in which the tolerance promises
``error <= tolerance * sqrt(Q)``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parki.ewald.choice.clustering import PairDensity
from parki.ewald.choice.cost import Machine
from parki.ewald.far.padding import Padding, pad
from parki.ewald.lattice import Lattice
from parki.ewald.split import estimates
from parki.ewald.split.core import Algebraic, AnyCore, Core, CortezSplit, core_of
from parki.ewald.split.faxen import EqualForceDipoleSplit, FaxenSplit, ForceDipoleSplit
from parki.ewald.split.prolate import Prolate
from parki.ewald.split.protocol import Estimate, Split
from parki.ewald.split.screened import REACH, brinkman_split, screened
from parki.ewald.split.shells import Shells
from parki.ewald.split.truncation import truncation
from parki.ewald.sums import SUMS, term_of
from parki.runtime.forks import cached_property

# Shares of the squared tolerance: near field, near polynomials, far field; and what is left out
# beyond the core of blobs. The rest is kept for clouds of few points, whose error scatters because
# it depends on single pairs.
NEAR, POLYNOMIAL, FAR, CORE = 0.20, 0.02, 0.48, 0.02
# Errors of a blob's flow that are no smaller than its rounding, in units of its radius.
ROUNDING = 1e-13
# Error that a point's own images add to it, over the mean error of as many points elsewhere.
IMAGES = 7.0
# Targets that a multiprocessor of a device works on at a time.
AT_A_TIME = 512


@dataclass(frozen=True, eq=False)
class Problem:
    """What parameters are chosen for; lengths in units of the cube root of the box's volume.

    Attributes
    ----------
    kernel : str
        The sum, whose lengths are in this unit, too.
    want : tuple of str
        Results that keep the promise.
    split : {"hasimoto", "prolate"}
    lattice : Lattice
        The box, at the largest tilts.
    tolerance : float
        Of random densities.
    density : PairDensity
    targets, sources : int
        Of each system.
    machine : Machine
    p2p, p2g, g2p : str
        Variants of the stages.
    windows : sequence of int
        Numbers of window points P to choose from, the smallest first.
    cutoff : float or None
        Cut-off r_c that the user asked for; None to choose it.
    kept : float
        Most pairs within the cut-off for which sums keep lists; 0 for sums made once.
    systems : int
        Number of systems.
    same, one_shot : bool
        Whether the targets are the sources, and whether a density follows at once. These and the
        next are for memory alone, not for the choice.
    labels : tuple of 2 ints or None
        Targets and sources whose labels are common, where pairs are left out.
    """

    kernel: str
    want: tuple[str, ...]
    split: str
    lattice: Lattice
    tolerance: float
    density: PairDensity
    targets: int
    sources: int
    machine: Machine
    p2p: str
    p2g: str
    g2p: str
    windows: Sequence[int]
    cutoff: float | None = None
    kept: float = 0.0
    systems: int = 1
    same: bool = False
    one_shot: bool = False
    labels: tuple[int, int] | None = None

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Terms that must keep the promise: all wanted quantities of all parts of the kernel."""
        terms = SUMS[self.kernel].terms
        return tuple(term.name for quantity in self.want for term in terms[quantity])

    @cached_property
    def differentiating_terms(self) -> tuple[str, ...]:
        """Terms of largest window error: at each mode the error of a gradient is the largest."""
        if not {"grad_u", "grad_tensor"} & {*self.want} or SUMS[self.kernel].unit:
            return self.terms
        return tuple(t for t in self.terms if term_of(t).differentiates_window)

    @property
    def screening(self) -> float:
        """The kappa of screened charges, whose sum ends, or 0."""
        symbol = SUMS[self.kernel].symbol
        return symbol.screening if symbol.order == 1 else 0.0

    @property
    def reach(self) -> float:
        """The largest useful cut-off."""
        return REACH / self.screening if self.screening else math.inf

    @cached_property
    def core(self) -> AnyCore | None:
        """The core of the sources, if they are blobs."""
        blob = SUMS[self.kernel].pair.blob

        def error(split: Split, radius: float) -> float:
            return self.near(split, radius, close=True)

        return blob and core_of(blob, error, math.sqrt(CORE), self.tolerance)

    def pad(self, steps: NDArray[np.float64], points: int, cutoff: float, split: Split) -> Padding:
        """Return the sizes of a grid and its transforms."""
        return pad(
            self.lattice.periodicity,
            self.lattice.edges,
            steps,
            points=points,
            cutoff=cutoff,
            band=split.band,
            tolerance=self.tolerance,
            lengths=self.machine.lengths,
        )

    @property
    def apart(self) -> tuple[Hashable, ...]:
        """All that a choice depends on, apart from pairs at each scale."""
        machine = self.machine
        return (
            (self.kernel, self.want, self.split, self.lattice, self.tolerance),
            (self.targets, self.sources, self.p2p, self.p2g, self.g2p),
            (tuple(self.windows), self.cutoff, self.kept, self.systems),
            self.density.self_pairs,
            tuple((variant, tuple(units)) for variant, units in machine.seconds.items()),
            (machine.workers, machine.lengths, machine.lanes, machine.threads, machine.degrees),
        )

    def rounded(self) -> Problem:
        """Return the problem with its pair density rounded up to steps of 3 %."""
        density = self.density
        enhancement, around = (
            np.exp(0.03 * np.ceil(np.log(values) / 0.03 - 1e-9))
            for values in (density.enhancement, density.around)
        )
        return replace(self, density=replace(density, enhancement=enhancement, around=around))

    # ------------------------------------------------------------------ pairs
    def images(self, cutoff: float) -> float:
        """Return how many images of a source are about within the cut-off along periodic axes."""
        return math.prod(1 + 2 * cutoff / b for b in self.periods)

    def pairs(self, cutoff: float) -> float:
        """Return the number of pairs within the cut-off, of all systems."""
        edges, periodicity = self.lattice.edges.tolist(), self.lattice.periodicity
        images = math.prod(1 + 2 * cutoff / b for b in edges[:periodicity])
        # The average part of the ball around a point that is inside of the box, in box volumes; at
        # most all points and images in reach.
        free = edges[periodicity:]
        ball = 4 / 3 * math.pi * cutoff**3 * math.prod(_inside(cutoff / b) for b in free)
        block = (2 * cutoff) ** periodicity * math.prod(free)
        uniform = min(ball, block)
        share = min(self.density.typical(cutoff) * uniform, images)
        return float(self.systems * self.targets * self.sources * share)

    def read(self, cutoff: float) -> float:
        """Return about how many sources are near the targets that a device works on at a time.

        A multiprocessor works on a cube of targets where pairs are densest.
        """
        targets, sources = self.density.about(cutoff)
        edge = (AT_A_TIME / (targets * self.targets)) ** (1 / 3)
        return float(sources * self.sources * (edge + 2 * cutoff) ** 3)

    # ------------------------------------------------------------------ errors
    def on_grid(self, split: Split) -> Split:
        """Return a split of points with what the grid has of spheres, blobs and screening."""
        symbol = SUMS[self.kernel].symbol
        if symbol.shells:
            return Shells(split.endless, symbol.shells, symbol.order)
        if any(symbol.laplacians):
            pair, kind = SUMS[self.kernel].pair, FaxenSplit
            if any(source.ball for source in SUMS[self.kernel].sources):
                kind = EqualForceDipoleSplit if pair.point_radii is None else ForceDipoleSplit
            return kind(split.endless, pair.largest, sum(symbol.laplacians), symbol.order)
        if symbol.alpha:
            return brinkman_split(split, symbol.alpha)
        if symbol.screening:
            return screened(split, symbol.screening)
        if isinstance(self.core, Algebraic) and isinstance(split, Prolate):
            return CortezSplit(split.c, split.rc, self.core.epsilon)
        return split

    def weight(self, term: str) -> float:
        """Return the weight of a term's error, where derivatives have a unit of their own."""
        kind = SUMS[self.kernel]
        return kind.unit ** (term_of(term).power - kind.pair.power) if kind.unit else 1.0

    def bound(self, estimate: Estimate, scale: float) -> float:
        """Return the error (per sqrt(Q)) for this cloud."""
        square = self.density.at(scale) * estimate.rms**2
        # A point's own images are in phase.
        itself = estimate.itself**2 + (IMAGES * estimate.rms) ** 2
        square += self.density.self_pairs * itself
        return math.sqrt(min(square, max(estimate.peak**2, itself)))

    @cached_property
    def periods(self) -> list[float]:
        """Distances of faces along periodic axes."""
        return list(self.lattice.widths[: self.lattice.periodicity].tolist())

    @cached_property
    def obliqueness(self) -> float:
        """The largest edge of a tilted box over the distance of its faces; 1 of other boxes."""
        return float((self.lattice.edges / self.lattice.widths).max())

    def near(self, split: Split, cutoff: float, close: bool = False) -> float:
        """Return the error of the split's near field over the tolerance.

        If all points may be ``close``, each target has a source just beyond the cut-off, whatever
        the cloud. The error there is half of the largest one in the mean.
        """
        errors = {t: estimates.near(t, split, cutoff, 1.0, self.periods) for t in self.terms}
        worst = max(self.weight(t) * self.bound(error, cutoff) for t, error in errors.items())
        if close:
            peak = max(error.peak for error in errors.values())
            worst = max(worst, peak / 2 / math.sqrt(self.sources))
        return worst / self.tolerance

    def truncation(self, split: Split, steps: NDArray[np.float64]) -> float:
        """Return the error of the modes that the grid leaves out, over the tolerance."""
        if split.band * float(steps.max()) <= math.pi:
            return 0.0
        scale = 2 * float(steps.min())
        worst = max(
            self.bound(truncation(term, split, list(steps), 1.0, self.periods), scale)
            * term_of(term).aligned_factor
            * self.weight(term)
            for term in self.terms
        )
        return worst / self.tolerance

    def polynomial_degree(self, split: Split, cutoff: float) -> int:
        """Return the degree of the near polynomials whose error stays within its share."""
        degree = self._degree(split, cutoff)
        if isinstance(self.core, Core):
            # However small a blob is, its own flow is as accurate.
            split, radius, _ = self.core
            for rate in {1.0, self.core.reach / radius}:
                own = self._degree(
                    split.scaled(rate), rate * radius, least=ROUNDING, most=self.tolerance
                )
                degree = max(degree, own)
        return -(-degree // self.machine.degrees) * self.machine.degrees

    def _degree(
        self, split: Split, cutoff: float, least: float = 0.0, most: float = math.inf
    ) -> int:
        degree, images = 2, estimates.coherence(split, cutoff, self.periods)
        for term in self.terms:
            error = estimates.polynomial(term, cutoff, 1.0, 1.0, images)
            # Whatever the cloud, each target may have a source in reach.
            unit = max(self.bound(error, cutoff), error.peak / math.sqrt(self.sources))
            unit *= self.weight(term)
            delta = min(max(math.sqrt(POLYNOMIAL) * self.tolerance / unit, least), most)
            degree = max(degree, split.polynomial_degree(term, cutoff, delta))
        return degree


def _inside(ratio: float) -> float:
    """Return the average part of a ball that a slab holds; ``ratio`` is r over its width."""
    return 1 - 0.375 * ratio if ratio < 1 else 0.75 / ratio - 0.125 / ratio**3
