"""The grid and window that carry a split's far field at the least cost.

Finer grids need fewer window points. How many each grid needs is predicted from the window's
asymptotic error. Only the cheapest grid is judged by the sum over its modes, which also corrects
the forecasts for the others. This repeats until the cheapest grid is known to suffice.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parki.ewald.choice.method import MethodParameters, near_radius
from parki.ewald.choice.problem import FAR, Problem
from parki.ewald.choice.times import far_times, near_time
from parki.ewald.split import estimates
from parki.ewald.split.core import AnyCore
from parki.ewald.split.prolate import Prolate, exponent
from parki.ewald.split.protocol import Split
from parki.ewald.sums import term_of

Array = NDArray[np.float64]
# The window's error depends on the place between grid points, which all points of a lattice share.
# The error of derivatives there is up to this many times the average.
CREST = 1.7
POINTS = tuple(range(2, 19))
SHAPES = np.arange(1.8, 2.95, 0.1)
MODES = np.linspace(0, 1, 25)  # over the largest one
# Refinements of the coarsest grid: to choose a cut-off, and to choose the grid for it.
REFINEMENTS = (1.0, 1.05, 1.1, 1.16, 1.22, 1.3, 1.4, 1.55, 1.75, 2.0)
FINE = (*(round(1.03**k, 4) for k in range(14)), 1.5, 1.55, 1.65, 1.75, 1.85, 2.0)
# How much better than predicted a grid may be before it is judged, as a logarithm.
HOPE = 0.3
# Fraction of the far field's time that a grid must promise to save before it is judged.
WORTH = 0.04
# A periodic axis has at least this many grid points, so that no window meets itself.
FEWEST = 18
# Any spacing serves a far field that vanishes.
ANY = 0.5


def coarsest(problem: Problem, split: Split) -> float:
    """Return the grid spacing at which truncation alone takes half of the far field's share."""
    if split.amplitude == 0:
        return ANY
    if math.isfinite(split.band):
        return math.pi / split.band
    xi = math.sqrt(math.pi) * split.psi0

    def step(x: float) -> float:
        """Return the spacing for x = (K / 2 xi)^2."""
        return math.pi / (2 * xi * math.sqrt(x))

    def error(x: float) -> float:
        return problem.truncation(split, np.full(3, step(x)))

    return step(exponent(error, math.sqrt(FAR / 2)))


def fit(problem: Problem, step: float) -> Array:
    """Return spacings near ``step`` that divide periodic edges into numbers fast for FFTs."""
    steps = np.full(3, step)
    lengths = problem.machine.lengths
    for axis in range(problem.lattice.periodicity):
        edge = float(problem.lattice.edges[axis])
        least = max(edge / step, FEWEST)
        if problem.lattice.periodicity == 3:
            length = lengths.boxes.at_least(least, 3)
        else:
            length = (lengths.lines if axis == 0 else lengths.planes).at_least(least, 1)
        steps[axis] = edge / length
    return steps


def forecast(
    split: Split, largest: float, refinements: tuple[float, ...] = REFINEMENTS
) -> tuple[Array, float, Array]:
    """Predict the window's errors on refinements of the coarsest grid, of step ``largest``.

    The split damps a mode k to exp(-g), and the window damps its image to exp(-P a). The error
    follows the mode with the least sum of both, for the best shape of the window.

    Returns
    -------
    exponents : ndarray, shape (n, m)
        Logarithm of the error up to a constant, for n refinements and the m numbers of `POINTS`.
    constant : float
        First guess of that constant, good to about 1.5, for errors over the tolerance.
    margin : ndarray, shape (n,)
        Logarithm of the error over the tolerance that truncation leaves to the window.
    """
    if isinstance(split.bare, Prolate):
        margin, c = np.full(len(refinements), math.log(FAR) / 2), split.bare.c
        return _exponents(True, c, refinements), c, margin
    # On the coarsest grid the split damps the largest mode to exp(-x): half of the share.
    x = (math.sqrt(math.pi) / largest / 2 / split.psi0) ** 2
    cut = np.exp(2 * x * (1 - np.array(refinements) ** 2)) / 2
    x = 0.25 * round(4 * x)
    return _exponents(False, x, refinements), x + 6, np.log(FAR * (1 - cut)) / 2


@lru_cache(maxsize=256)
def _exponents(prolate: bool, c: float, refinements: tuple[float, ...]) -> Array:
    damping = c * (np.sqrt(1 - MODES**2) - 1) if prolate else -c * MODES**2
    worst = (damping - _drops(refinements)).max(axis=3)  # (points, shapes, refinements)
    return np.asarray(worst.min(axis=1).T)


@lru_cache(maxsize=2)
def _drops(refinements: tuple[float, ...]) -> Array:
    """Logarithms of the window at modes over the window at their images."""
    u = MODES / np.array(refinements)[:, None]  # in units of the grid's largest wavenumber
    shapes = SHAPES[:, None, None]
    # Transforms of the window at the mode and at its image: exp(P sqrt(q^2 - (k h / 2)^2)).
    window = np.sqrt(np.maximum(shapes**2 - (np.pi * u / 2) ** 2, 0))
    image = np.sqrt(np.maximum(shapes**2 - (np.pi * (1 - u / 2)) ** 2, 0))
    return np.asarray(np.array(POINTS)[:, None, None, None] * (window - image))


class GridSearch:
    """The search for the grid of a split and cut-off, with the cheapest predicted grid first.

    Parameters
    ----------
    problem : Problem
    split : Split
    cutoff : float
    like : GridSearch, optional
        A search at another cut-off, whose corrected forecasts are reused.
    """

    def __init__(
        self, problem: Problem, split: Split, cutoff: float, like: GridSearch | None = None
    ) -> None:
        self.problem, self.split, self.cutoff = problem, split, cutoff
        largest = coarsest(problem, split)
        self.exponents, self.constant, self.margin = forecast(split, largest, FINE)
        self.grids: dict[int, Array] = {}
        seen: set[tuple[float, ...]] = set()
        for row, refinement in enumerate(FINE):
            steps = fit(problem, largest / refinement)
            if tuple(steps) not in seen:
                seen.add(tuple(steps))
                self.grids[row] = steps
        # Constants of the forecasts for P points, from the last grid that they were judged on.
        self.constants = np.full(len(POINTS), math.nan)
        if like is not None:
            self.constant, self.constants = like.constant, like.constants.copy()
        # Points and beta of the window, truncation's error and the window's, of a grid.
        self.judged: dict[int, tuple[int, float, float, float]] = {}
        self.times: dict[tuple[int, int], dict[str, float]] = {}

    def best(self, core: AnyCore | None = None) -> MethodParameters | None:
        """Return parameters with the cheapest grid that suffices, or None.

        They have the problem's core by default.
        """
        while self.grids:
            predicted = self._predicted()
            known = [item for item in predicted if item[1] in self.judged]
            if known and known[0][0] <= (1 + WORTH) * predicted[0][0]:
                return self._parameters(known[0][1], core or self.problem.core)
            _, row, points = predicted[0]
            self._judge(row, points)
        return None

    def least(self) -> float:
        """Return the least predicted seconds."""
        return min((seconds for seconds, *_ in self._predicted()), default=math.inf)

    def _parameters(self, row: int, core: AnyCore | None) -> MethodParameters:
        """Return all parameters with a grid that was judged."""
        problem, split, cutoff, steps = self.problem, self.split, self.cutoff, self.grids[row]
        points, beta, truncation, window = self.judged[row]
        degree = problem.polynomial_degree(split, cutoff)
        near = near_radius(core, cutoff, steps)
        error = problem.near(split, cutoff)
        return MethodParameters(
            problem=problem,
            cutoff=cutoff,
            split=split,
            degree=degree,
            steps=steps,
            points=points,
            beta=beta,
            pairs=problem.pairs(near),
            read=problem.read(near),
            core=core,
            errors={"near": error, "truncation": truncation, "window": window},
            seconds={"P2P": near_time(problem, near, degree), **self._times(row, points)},
        )

    def _predicted(self) -> list[tuple[float, int, int]]:
        """Return seconds, row and window points of each refinement, cheapest first."""
        columns = [POINTS.index(p) for p in self.problem.windows]
        constants = np.where(np.isnan(self.constants), self.constant, self.constants)
        errors = (self.exponents + constants)[:, columns] - HOPE
        enough = errors <= self.margin[:, None]
        predictions = []
        for row in self.grids:
            suffices = row in self.judged or bool(enough[row].any())
            if row in self.judged:
                p = self.judged[row][0]
            else:
                p = self.problem.windows[int(enough[row].argmax()) if suffices else -1]
            # Grids that are predicted not to suffice come last.
            seconds = sum(self._times(row, p).values()) if suffices else math.inf
            predictions.append((seconds, row, p))
        return sorted(predictions)

    def _times(self, row: int, p: int) -> dict[str, float]:
        if (row, p) not in self.times:
            padding = self.problem.pad(self.grids[row], p, self.cutoff, self.split)
            values = padding.values(self.problem.machine.lengths)
            self.times[row, p] = far_times(self.problem, p, padding, values)
        return self.times[row, p]

    def _judge(self, row: int, start: int) -> None:
        """Find the fewest points that suffice on a grid, from ``start`` on; else drop the grid."""
        steps = self.grids[row]
        truncation = self.problem.truncation(self.split, steps)
        if truncation**2 > FAR:
            del self.grids[row]
            return
        margin = math.sqrt(FAR - truncation**2)
        errors, most = self.window_errors(steps)
        windows: dict[int, tuple[float, float]] = {}

        def error(p: int) -> float:
            if p not in windows:
                windows[p] = self.window(errors, steps, p)
            return windows[p][0]

        choices = [p for p in self.problem.windows if p <= most]
        place = min(self.problem.windows.index(start), len(choices) - 1)
        while 0 <= place < len(choices) and error(choices[place]) > margin:
            place += 1
        while place > 0 and place <= len(choices) and error(choices[place - 1]) <= margin:
            place -= 1
        for p, (window, _) in windows.items():
            if window > 0:  # no error if the split's band holds mode 0 alone
                column = POINTS.index(p)
                self.constant = math.log(window) - float(self.exponents[row, column])
                self.constants[column] = self.constant
        if not 0 <= place < len(choices):
            del self.grids[row]
            return
        p = choices[place]
        window, beta = windows[p]
        self.judged[row] = p, beta, truncation, window

    def window_errors(self, steps: Array) -> tuple[estimates.WindowErrors, int]:
        """Return the errors of windows on a grid, and the most points of a window there."""
        problem, lattice = self.problem, self.problem.lattice
        shape = np.rint(lattice.edges / steps).astype(int)
        periodic, most = np.array(lattice.periodic), max(problem.windows)
        # Along free axes these are the modes of the padded box, of which points fill a part.
        local = problem.pad(steps, most, self.cutoff, self.split).local
        padded = np.where(periodic, shape, local)
        errors = estimates.WindowErrors(
            problem.differentiating_terms,
            self.split,
            lengths=(padded * steps).tolist(),
            shape=padded.astype(int).tolist(),
            basis=lattice.basis,
        )
        return errors, int(shape[periodic].min(initial=most))

    def window(
        self, errors: estimates.WindowErrors, steps: Array, points: int
    ) -> tuple[float, float]:
        """Return the least error over the tolerance of windows of P points, and its beta."""
        problem, worst = self.problem, np.zeros(SHAPES.size)
        # The promise is for the box, of volume 1.
        volume, density = float(np.prod(errors.lengths)), problem.density
        pairs = density.at(2 * float(steps.min()))
        for term in problem.differentiating_terms:
            rms, peak = (values[0] for values in errors.aliasing(term, points, SHAPES))
            square = pairs * (rms * math.sqrt(volume)) ** 2
            square += density.self_pairs * peak**2
            error = np.sqrt(np.minimum(square, peak**2)) * term_of(term).aligned_factor
            if term_of(term).derived:
                error *= CREST
            if term_of(term).differentiates_window:
                error *= problem.obliqueness**2
            worst = np.maximum(worst, problem.weight(term) * error)
        best = int(worst.argmin())
        return float(worst[best]) / problem.tolerance, float(SHAPES[best]) * points
