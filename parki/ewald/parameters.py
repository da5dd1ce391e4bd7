"""From the tolerance to every parameter of the method (MATH E.1).

Inverts the error estimates: a cut-off r_c gives the split (Hasimoto's xi, or the prolate c) and the
near polynomials' degree; the split gives the coarsest grid, and among slightly finer grids the
cheapest combination of grid, window points P and window shape beta is taken whose errors stay
within the tolerance. The cut-off itself minimises the predicted time. All lengths are in units of
the cube root of the box's volume, in which the promise of the tolerance is ``error <= tolerance *
sqrt(Q)``.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald import estimates
from parki.ewald.clustering import PairDensity
from parki.ewald.cost import Machine
from parki.ewald.p2g import COMPONENTS
from parki.ewald.padding import Padding, friendly, pad
from parki.ewald.prolate import solve
from parki.ewald.split import Split
from parki.ewald.window import default_degree

# What wanted quantities are called in the names of the error estimates' terms.
SUFFIXES = {"u": "", "p": "_p", "grad_u": "_grad"}
# The estimates average over directions. Double layers with q along n have larger errors: by the
# averages of (q.k)^2 (n.k)^2, which is 1/9 for any q and n, and 1/5 for q along n, and the like.
ALIGNED = {"stokes_dl": 1.4, "stokes_dl_grad": 1.5, "stokes_dl_p": 1.8}
# Errors of the window vary over the place between grid points; on a lattice all points have the
# same. That of derivatives is up to this much larger than on average.
CREST = 1.7
# Shares of the squared tolerance: near field, its polynomials, far field. The rest is kept for the
# scatter of clouds of few points, whose error hangs on single pairs.
NEAR, POLYNOMIAL, FAR = 0.20, 0.02, 0.48
POINTS = tuple(range(2, 19))
SHAPES = np.arange(1.8, 2.95, 0.1)
REFINEMENTS = (1.0, 1.05, 1.1, 1.16, 1.22, 1.3, 1.4, 1.55, 1.75, 2.0)
# A periodic axis has at least this many grid points, so that no window meets itself.
FEWEST = 18


@dataclass(frozen=True)
class Parameters:
    """Everything the method needs, in units of the cube root of the box's volume.

    Attributes
    ----------
    cutoff : float
        Cut-off r_c of the near field.
    split : Split
        Hasimoto's or the prolate split.
    degree : int
        Degree of the near field's polynomials.
    steps : ndarray, shape (3,)
        Grid spacings.
    points : int
        Window points P along each axis.
    beta : float
        Kaiser-Bessel shape of the window.
    window_degree : int
        Degree of the window's polynomials.
    errors : dict
        Predicted errors over the tolerance: near, truncation, window.
    seconds : dict
        Predicted times: P2P, mesh (P2G and G2P), FGC.
    """

    cutoff: float
    split: Split
    degree: int
    steps: NDArray[np.float64]
    points: int
    beta: float
    window_degree: int
    errors: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """What parameters are chosen for; lengths in units of the cube root of the box's volume."""

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

    @property
    def terms(self) -> tuple[str, ...]:
        """What must keep the promise: every wanted quantity of every part of the kernel."""
        parts = ("stokes_sl", "stokes_dl") if self.kernel == "stokes_comb" else (self.kernel,)
        names = (part + SUFFIXES[quantity] for part in parts for quantity in self.want)
        return tuple(name for name in names if name != "stokes_rotlet_p")  # there is none

    @property
    def transforms(self) -> int:
        """Grid components transformed, forward and back."""
        back = 1 if self.kernel == "laplace" else 3
        return COMPONENTS[self.kernel] + back + ("p" in self.want)

    def mesh(self, points: int, padding: Padding) -> float:
        """Return the seconds of P2G and G2P."""
        values = COMPONENTS[self.kernel] * float(np.prod(padding.grid))
        return self.machine.mesh(self.sources, self.targets, points, values)

    def pairs(self, cutoff: float, degree: int) -> float:
        """Return the seconds of P2P; derivatives run a kernel of their own beside the velocity's.

        Measured: pressure and gradient take 1.05 (H200) and 1.5 (CPU) times the velocity's time.
        """
        enhancement = self.density.at(cutoff)
        uniform = 4 / 3 * math.pi * cutoff**3
        images = math.prod(1 + 2 * cutoff / float(b) for b in self.box[: self.periodicity])
        # No more than there are, with the images in reach.
        pairs = self.targets * self.sources * min(enhancement * uniform, max(images, uniform))
        seconds = self.machine.near(self.targets, pairs, degree)
        derivatives = 1.5 if self.want != ("u",) else 0.0
        return seconds * (("u" in self.want) + derivatives)

    def bound(self, estimate: estimates.Estimate, scale: float) -> float:
        """Return the error (per sqrt(Q)) for this cloud."""
        square = self.density.at(scale) * estimate.rms**2
        square += self.density.self_pairs * estimate.itself**2
        return math.sqrt(min(square, max(estimate.peak, estimate.itself) ** 2))

    def near(self, split: Split, cutoff: float) -> float:
        """Return the error of the split's near field over the tolerance."""
        worst = max(
            self.bound(estimates.near(term, split, cutoff, 1.0), cutoff) for term in self.terms
        )
        return worst / self.tolerance

    def truncation(self, split: Split, steps: NDArray[np.float64]) -> float:
        """Return the error over the tolerance of the modes that the grid leaves out."""
        scale = 2 * float(steps.min())
        worst = max(
            self.bound(estimates.truncation(term, split, list(steps), 1.0), scale)
            * ALIGNED.get(term, 1)
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


def _split(problem: Problem, cutoff: float, start: float = 3.0) -> Split:
    """Return the split whose near field just keeps its share of the tolerance."""
    error = partial(problem.near, cutoff=cutoff)
    return solve(problem.split, cutoff, error, math.sqrt(NEAR), start)


def _coarsest(problem: Problem, split: Split) -> float:
    """Return the grid spacing at which truncation alone takes half of the far field's share."""
    if math.isfinite(split.band):
        return math.pi / split.band
    xi = math.sqrt(math.pi) * split.psi0
    x = 9.0  # the error falls like exp(-x), x = (K / 2 xi)^2
    for _ in range(12):
        step = math.pi / (2 * xi * math.sqrt(x))
        error = problem.truncation(split, np.full(3, step))
        change = math.log(max(error, 1e-300) / math.sqrt(FAR / 2))
        x = min(max(x + max(-4.0, min(8.0, change)), 0.05), 60.0)
        if abs(change) < 0.02:
            break
    return math.pi / (2 * xi * math.sqrt(x))


def _steps(problem: Problem, step: float) -> NDArray[np.float64]:
    """Return spacings near ``step`` that divide the periodic edges into FFT-friendly numbers."""
    steps = np.full(3, step)
    for axis in range(problem.periodicity):
        steps[axis] = problem.box[axis] / friendly(max(problem.box[axis] / step, FEWEST))
    return steps


class _Windows:
    """Errors of windows on one grid."""

    def __init__(
        self, problem: Problem, split: Split, cutoff: float, steps: NDArray[np.float64], most: int
    ) -> None:
        self.problem = problem
        shape = np.rint(problem.box / steps).astype(int)
        periodic = np.arange(3) < problem.periodicity
        self.most = int(shape[periodic].min(initial=most))
        # Free axes: the modes of the padded box, on which the points fill a part.
        local = pad(problem.periodicity, problem.box, steps, most, cutoff, problem.tolerance).local
        padded = np.where(periodic, shape, local)
        lengths = padded * steps
        self.volume = float(np.prod(lengths))
        self.scale = 2 * float(steps.min())
        self.modes = [
            estimates.Modes(term, split, list(lengths), list(padded)) for term in problem.terms
        ]
        self.known: dict[int, tuple[float, float]] = {}

    def __call__(self, points: int) -> tuple[float, float]:
        """Return the least error over the tolerance with P points, and the beta that has it."""
        if points not in self.known:
            problem = self.problem
            worst = np.zeros(SHAPES.size)
            for modes in self.modes:
                rms, peak = (a[0] for a in modes.aliasing(points, SHAPES))
                rms = rms * math.sqrt(self.volume)  # the promise is for the box, of volume 1
                square = problem.density.at(self.scale) * rms**2
                square += problem.density.self_pairs * peak**2
                error = np.sqrt(np.minimum(square, peak**2)) * ALIGNED.get(modes.term, 1)
                if modes.term.endswith(("_grad", "_p")):
                    error *= CREST
                worst = np.maximum(worst, error)
            best = int(worst.argmin())
            error = float(worst[best]) / problem.tolerance
            self.known[points] = error, float(SHAPES[best]) * points
        return self.known[points]


def _at_cutoff(problem: Problem, cutoff: float, choices: Sequence[int]) -> Parameters | None:
    """Return the cheapest parameters for a cut-off.

    From coarse to fine grids: a finer one pays only if it needs fewer window points, so that most
    of them are dismissed by one look at the most points with which they would.
    """
    split = _split(problem, cutoff)
    degree = problem.polynomial_degree(split, cutoff)
    coarsest = _coarsest(problem, split)
    near = problem.pairs(cutoff, degree)

    def cost(steps: NDArray[np.float64], points: int) -> dict[str, float]:
        padding = pad(problem.periodicity, problem.box, steps, points, cutoff, problem.tolerance)
        far = problem.machine.convolution(problem.transforms * padding.values())
        return {"P2P": near, "mesh": problem.mesh(points, padding), "FGC": far}

    best: Parameters | None = None
    seen = set()
    for refinement in REFINEMENTS:
        steps = _steps(problem, coarsest / refinement)
        if tuple(steps) in seen:
            continue
        seen.add(tuple(steps))
        points = list(choices)
        if best is not None:
            least = sum(best.seconds.values())
            points = [p for p in points if p < best.points and sum(cost(steps, p).values()) < least]
        truncation = problem.truncation(split, steps)
        if not points or truncation**2 > FAR:
            continue
        windows = _Windows(problem, split, cutoff, steps, max(choices))
        points = [p for p in points if p <= windows.most]
        room = math.sqrt(FAR - truncation**2)
        if not points or windows(points[-1])[0] > room:
            continue
        # The fewest points that suffice: errors fall with P.
        p = points[bisect.bisect_left(points, True, key=lambda p: windows(p)[0] <= room)]
        window, beta = windows(p)
        errors = {
            "near": problem.near(split, cutoff),
            "truncation": truncation,
            "window": window,
        }
        best = Parameters(
            cutoff, split, degree, steps, p, beta, default_degree(p), errors, cost(steps, p)
        )
    return best


def _best_cutoff(problem: Problem) -> float:
    """Return the cut-off with the least predicted time, from a rough model of the far field."""
    digits = -math.log10(problem.tolerance)
    points = 2 * round((digits + 3.5) / 2)
    best, least, z = 0.3, math.inf, 3.0
    spread = problem.density.at(0.1)
    degree = 4 + int(2.5 * digits)
    for size in 8 * 1.577 ** np.arange(60):
        cutoff = float((size / problem.sources / spread) ** (1 / 3))
        cutoff = min(max(cutoff, 0.004), 0.9)
        if problem.pairs(cutoff, degree) > least:
            break  # and more so for larger ones
        split = _split(problem, cutoff, z)
        z = math.sqrt(math.pi) * split.psi0 * cutoff
        step = _coarsest(problem, split) / 1.15
        padding = pad(
            problem.periodicity,
            problem.box,
            _steps(problem, step),
            points,
            cutoff,
            problem.tolerance,
        )
        degree = 4 + int(2.5 * digits)
        time = (
            problem.pairs(cutoff, degree)
            + problem.mesh(points, padding)
            + problem.machine.convolution(problem.transforms * padding.values())
        )
        if time < least:
            best, least = cutoff, time
        if cutoff in (0.9,):
            break
    return best


def select(
    problem: Problem,
    cutoff: float | None = None,
    window_points: int | None = None,
    most_points: int = POINTS[-1],
) -> Parameters:
    """Choose all parameters.

    Parameters
    ----------
    problem : Problem
    cutoff : float, optional
        Use this r_c instead of the predicted optimum.
    window_points : int, optional
        Use this P.
    most_points : int
        Largest P to consider.

    Raises
    ------
    ParkiValueError
        If no grid and window reach the tolerance.
    """
    chosen = cutoff if cutoff is not None else _best_cutoff(problem)
    choices = (window_points,) if window_points else POINTS[: POINTS.index(most_points) + 1]
    found = _at_cutoff(problem, chosen, choices)
    if found is None:
        raise ParkiValueError(
            f"no grid reaches tolerance {problem.tolerance:g} with cutoff {chosen:.3g}"
            f"{f' and window_points {window_points}' if window_points else ''}"
            " (in units of the cube root of the box's volume); leave them to parki, or relax one"
        )
    return found
