"""From the tolerance to every parameter of the method: "The choice" of docs/theory.md.

The choice inverts the error estimates. A cut-off r_c gives the split (Hasimoto's xi, or the prolate
c) and the degree of the near polynomials. The split gives the cheapest grid and window whose errors
stay within the tolerance (`parki.ewald.choice.grids`). The cut-off itself minimises the predicted
time. All lengths are in units of the cube root of the box's volume.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache

from parki.errors import ParkiValueError
from parki.ewald.choice.grids import POINTS, REFINEMENTS, GridSearch, coarsest, fit, forecast
from parki.ewald.choice.method import MethodParameters
from parki.ewald.choice.problem import NEAR, Problem
from parki.ewald.choice.times import far_times, near_time
from parki.ewald.far.padding import EQUAL_LENGTHS
from parki.ewald.split.core import Algebraic, Core
from parki.ewald.split.prolate import solve
from parki.ewald.split.protocol import Split
from parki.ewald.split.shells import LEAST, PARTS, Shells
from parki.ewald.sums import SUMS
from parki.ewald.sums.blobs import CORTEZ
from parki.interchange import told_apart

# Least and largest cut-off to consider, in units of the box, and the ratio of consecutive ones.
_LEAST, _MOST, _RATIO = 0.004, 1.2, 1.22
MOST = 64  # choices kept for problems that differ in their pair densities alone
# Sources within a typical cut-off, for each digit of the tolerance.
TYPICAL = 3.0
# Where a smaller cut-off lets lists be kept: its pairs over the most pairs with lists.
MARGIN = 0.97
# From this many cut-offs on, the radius of blobs may be so large that the grid alone is faster.
LARGE = 0.7
# A cut-off of the user's is at least and at most this many times the longest edge, and meets at
# most this many images of a source, or as many as parki's own may. Smaller ones have a grid that no
# memory holds. By larger ones near and far field cancel in many digits, and pairs are for nothing.
SHORTEST, LONGEST, MOST_IMAGES = 1e-8, 1e3, 1000.0
# Single precision needs this many sources of a target within such a cut-off, if derivatives are
# asked for: with fewer, the far field of a source at its own place, which falls as the cut-off to
# the power of the derivative, is larger than the sum by such a factor that its rounding is, too.
NEIGHBOURS_OF_SINGLE = 0.2
# Sums of more than UNEVEN seconds also try cut-offs near the choice, whose grids have other lengths
# of transforms: NEARBY are the factors, of which the most promising NEIGHBOURS are searched.
UNEVEN, NEARBY, NEIGHBOURS = 0.03, (0.9, 0.95, 1.05, 1.1), 2


def select(problem: Problem) -> MethodParameters:
    """Choose all parameters.

    Choices are kept: a sum with as many points takes the same ones again, if they cluster in the
    same way at all scales that the choice has read.

    Raises
    ------
    ParkiValueError
        If no grid and window reach the tolerance.
    """
    rounded = problem.rounded()
    density, choices = rounded.density, _kept(rounded.apart)
    for scales, values, chosen in choices:
        if density.down_to(scales) == values:
            return replace(chosen, problem=problem)
    chosen = _select(rounded)
    choices.append((density.read, density.down_to(density.read), chosen))
    del choices[:-MOST]
    return replace(chosen, problem=problem)


@lru_cache(maxsize=256)
def _kept(apart: tuple[Hashable, ...]) -> list[tuple[int, bytes, MethodParameters]]:
    """Return the choices for problems that differ in their pair densities, to add the next one to.

    Each comes with the number of scales that were read, and with what the density was there.
    """
    return []


def _select(problem: Problem) -> MethodParameters:
    chosen = min(problem.cutoff or _best_cutoff(problem), problem.reach)
    if isinstance(problem.core, Algebraic):
        _check_algebraic(problem, problem.core)
    if chosen < _core_radius(problem):
        what = "blobs" if problem.core else "spheres"
        cutoff, least = told_apart(chosen, _core_radius(problem), digits=3)
        raise ParkiValueError(
            f"cutoff is {cutoff}, but the {what} of {problem.kernel} need at least {least} (in "
            "units of the cube root of the box's volume); leave the cutoff to parki, or take a "
            "larger one"
        )
    search = GridSearch(problem, _split(problem, chosen), chosen)
    usual = search.best()
    if problem.cutoff is not None and usual is not None:
        return usual
    others: list[MethodParameters | None] = []
    if problem.cutoff is None and _core_radius(problem) > LARGE * chosen:
        others.append(_on_the_grid(problem))
    if usual is not None and 0 < problem.kept < usual.pairs:  # fewer pairs would be kept
        fewer = chosen * (MARGIN * problem.kept / usual.pairs) ** (1 / 3)
        others.append(_at_cutoff(problem, max(fewer, _core_radius(problem))))
    if usual is not None and usual.total > UNEVEN:
        others.append(_nearby(search, usual))
    best = min(filter(None, (usual, *others)), key=lambda p: p.total, default=None)
    if best is None:
        raise ParkiValueError(_why(problem, chosen))
    return best


def check_cutoff(problem: Problem, name: str, value: float, length: float, single: bool) -> None:
    """Refuse a cut-off of the user's that no sum can take.

    Parameters
    ----------
    problem : Problem
    name : {"cutoff", "sources_per_cell"}
    value : float
        The option that sets it, as it was given.
    length : float
        Cube root of the box's volume, in the user's unit.
    single : bool
        Whether the arithmetic is in single precision.

    Raises
    ------
    ParkiValueError
    """
    cutoff, longest = problem.cutoff or 0.0, float(problem.lattice.edges.max())
    least, most = min(SHORTEST * longest, problem.reach), LONGEST * longest
    images = max(MOST_IMAGES, problem.images(_largest_cutoff(problem)))
    while problem.images(most) > images:
        most /= 1.01
    if not least <= cutoff <= most:
        means = f", which makes a cut-off of {cutoff * length:.3g}" if name != "cutoff" else ""
        raise ParkiValueError(
            f"{name} is {value:g}{means}, beyond all use in a box of edges of up to "
            f"{longest * length:.3g}; expected a cut-off from {least * length:.3g} to "
            f"{most * length:.3g}; leave it to parki, which takes the fastest one"
        )
    neighbours = problem.pairs(cutoff) / (problem.systems * problem.targets)
    if single and problem.want != ("u",) and neighbours < NEIGHBOURS_OF_SINGLE:
        raise ParkiValueError(
            f"{name} is {value:g}, so that {neighbours:.2g} sources are about within the cut-off "
            f"of a target, and single precision would lose pressures and gradients to rounding; "
            f"expected {NEIGHBOURS_OF_SINGLE:g} at least; leave it to parki, which takes the "
            "fastest one, or pass float64 arrays and precision='full'"
        )


def _check_algebraic(problem: Problem, core: Algebraic) -> None:
    """Refuse blobs of Cortez that are too large for the tolerance, or for the split."""
    if problem.split != "prolate":
        raise ParkiValueError(
            f"blob='cortez' needs the prolate split, but {problem.split!r} was chosen at tolerance "
            f"{problem.tolerance:g}; leave split to parki, or give a larger tolerance"
        )
    most = _largest_cutoff(problem)
    if core.radius > most:
        raise ParkiValueError(
            f"blob='cortez' needs a cutoff of {core.radius:.3g}, where {most:.3g} is possible (in "
            f"units of the cube root of the box's volume), for {problem.kernel} at tolerance "
            f"{problem.tolerance:g}; give a larger tolerance, or take blob='gaussian' with an "
            f"epsilon {CORTEZ:.4g} times as large, which has the same hydrodynamic radius"
        )


def _core_radius(problem: Problem) -> float:
    """Return the least cut-off, within which blobs and spheres differ from points."""
    pair = SUMS[problem.kernel].pair
    return problem.core.reach if problem.core else max(pair.least, LEAST * sum(pair.lengths))


def _on_the_grid(problem: Problem) -> MethodParameters | None:
    """Return the cheapest parameters by which the grid has the whole sum of blobs, if any."""
    if not isinstance(problem.core, Core) or problem.core.widest:
        return None
    split, radius, _ = problem.core
    if problem.near(split, radius) > math.sqrt(NEAR):
        return None
    return GridSearch(problem, split, radius).best(Core(split, math.inf))


def _why(problem: Problem, chosen: float) -> str:
    """Say that no grid reaches the tolerance, and what to do."""
    tolerance, most = problem.tolerance, problem.windows[-1]
    if problem.cutoff is None and len(problem.windows) > 1:
        single = ", or points in float64 and precision='full'" if most < POINTS[-1] else ""
        return (
            f"no grid reaches tolerance {tolerance:g} for these points in a box of such edges, by "
            f"windows of up to {most} points; give a larger tolerance{single}"
        )
    window = f" and window_points {most}" if len(problem.windows) == 1 else ""
    return (
        f"no grid reaches tolerance {tolerance:g} with cutoff {chosen:.3g}{window} (in units of "
        "the cube root of the box's volume); leave them to parki, or relax one"
    )


def _at_cutoff(problem: Problem, cutoff: float) -> MethodParameters | None:
    """Return the cheapest parameters for a cut-off."""
    return GridSearch(problem, _split(problem, cutoff), cutoff).best()


def _nearby(search: GridSearch, usual: MethodParameters) -> MethodParameters | None:
    """Return the best parameters at the most promising cut-offs near the usual one."""
    problem, predicted = search.problem, []
    for factor in NEARBY:
        cutoff = min(factor * usual.cutoff, _largest_cutoff(problem))
        cutoff = max(cutoff, _core_radius(problem))
        other = GridSearch(problem, _split(problem, cutoff), cutoff, search)
        near = near_time(problem, cutoff, usual.degree)
        predicted.append((near + other.least(), other))
    promising = sorted((f for f in predicted if f[0] < usual.total), key=lambda f: f[0])
    looked = filter(None, (other.best() for _, other in promising[:NEIGHBOURS]))
    return min(looked, key=lambda p: p.total, default=None)


def _split(problem: Problem, cutoff: float) -> Split:
    """Return the split whose near field just keeps its share of the tolerance."""

    def error(points: Split) -> float:
        return problem.near(problem.on_grid(points), cutoff)

    reach = sum(SUMS[problem.kernel].pair.lengths)
    for part in PARTS if reach and problem.split == "prolate" else (1.0,):
        rc = cutoff - part * reach
        split = problem.on_grid(solve(problem.split, rc, error, math.sqrt(NEAR), problem.screening))
        if not isinstance(split, Shells) or split.keeps(problem.terms, cutoff):
            break
    return split


def _best_cutoff(problem: Problem) -> float:
    """Return the cut-off with the least predicted time, with grids and windows as predicted.

    The search walks from a typical cut-off in the direction of falling time until it rises twice.
    """
    # Cheap lengths change from grid to grid, which would scatter the times of the scan.
    problem = replace(problem, machine=replace(problem.machine, lengths=EQUAL_LENGTHS))
    most, digits = _largest_cutoff(problem), -math.log10(problem.tolerance)
    least = max(min(_LEAST, most / 2), _core_radius(problem))
    most = max(most, 2 * least)
    typical = TYPICAL * max(digits, 1.0) / problem.sources / problem.density.typical(0.1)
    first = float(min(max(typical ** (1 / 3), least), most))
    times: dict[int, float] = {}  # by the steps from the first
    degree = 0

    def cutoff(step: int) -> float:
        return float(min(max(first * _RATIO**step, least), most))

    def time(step: int) -> float:
        nonlocal degree
        if step not in times:
            split = _split(problem, cutoff(step))
            # The degree follows the split, which changes slowly.
            degree = degree or problem.polynomial_degree(split, cutoff(step))
            near = near_time(problem, cutoff(step), degree)
            times[step] = near + _far_time(problem, split, cutoff(step))
        return times[step]

    step = 0
    for way in (1, -1):
        ahead = 1
        while ahead <= 2 and cutoff(step + ahead * way) != cutoff(step):
            if time(step + ahead * way) < time(step):
                step, ahead = step + ahead * way, 0
            ahead += 1
    if not times:  # there is no other cut-off
        return first
    best = math.exp(_lowest(sorted((math.log(cutoff(k)), t) for k, t in times.items())))
    return max(best, _core_radius(problem))  # which the logarithm may round


def _largest_cutoff(problem: Problem) -> float:
    """Return the largest cut-off to consider.

    Transforms are padded along each free axis by the diagonal of the free axes. In long boxes the
    grid steps, and so the cut-off, must be a fair part of that diagonal.
    """
    most = max(_MOST, 0.5 * math.hypot(*problem.lattice.edges[problem.lattice.periodicity :]))
    return min(most, problem.reach)


def _lowest(scanned: list[tuple[float, float]]) -> float:
    """Return where the parabola through the lowest point and its neighbours is lowest."""
    i = min(range(len(scanned)), key=lambda i: scanned[i][1])
    if not 0 < i < len(scanned) - 1:
        return scanned[i][0]
    (x0, y0), (x1, y1), (x2, y2) = scanned[i - 1 : i + 2]
    left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    if right - left <= 0:
        return x1
    lowest = (x0 + x1) / 2 - left * (x2 - x0) / 2 / (right - left)
    return min(max(lowest, x0), x2)


def _far_time(problem: Problem, split: Split, cutoff: float) -> float:
    """Return the least predicted time of the far field, from one grid scaled."""
    largest, choices = coarsest(problem, split), problem.windows
    exponents, constant, margin = forecast(split, largest)
    steps, typical = fit(problem, largest / 1.2), choices[len(choices) // 2]
    padding = problem.pad(steps, typical, cutoff, split)
    values = padding.values()

    def seconds(points: int, refinement: float) -> float:
        times = far_times(problem, points, padding, values, scale=refinement / 1.2)
        return sum(times.values())

    enough = exponents <= (margin - constant)[:, None]
    best, fewest = math.inf, POINTS[-1] + 1
    for row, refinement in enumerate(REFINEMENTS):
        p = next((p for p in choices if enough[row, p - POINTS[0]]), fewest)
        if p < fewest:  # otherwise a finer grid gains nothing
            fewest = p
            best = min(best, seconds(p, refinement))
    if math.isinf(best):
        # No grid is predicted to suffice; if one does, assume twice the most expensive time.
        best = 2 * seconds(choices[-1], REFINEMENTS[-1])
    return best
