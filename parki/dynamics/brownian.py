"""Brownian motion of rigid spheres: noise of the mobility and of pairs, and the drift.

The fluid shakes spheres by slip velocities of covariance M, and pairs by forces of covariance R:
each pair has its own root. Solved together, their motion has the covariance of the mobility of
rigid spheres G (Fiore and Swan, 2018, without R). G varies in space, so that a step has the drift
kT div G as well. That is minus the motion by a slip and by forces on the fluid,

    M(r + d w) x - M(r) x    and    R(r + d w) v - R(r) v    over d,

in the mean over normal numbers w, where x acts and v moves under forces w. So a step takes two
solves, and no difference of solutions. What is left out of order d is odd in w: it has no mean. The
distances d differ: M varies over radii, R over gaps. The stresslets of forces w change in the same
way along w: they are the Brownian stress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parki.dynamics import moments, solver
from parki.dynamics.solver import RigidEquations
from parki.errors import OverlapError
from parki.suspensions.noise import White
from parki.typing import AnyArray

STEPS = {"float64": 1e-3, "float32": 1e-2}  # distances for M, in smallest radii, by arithmetic
STEP_OF_PAIRS = 1e-7
# Power of the accuracy to which motions under forces w are solved. To 0.1 the mean of the drift is
# right to a hundredth, as most errors have no mean: see docs/notebook/decisions.md.
ROUGHLY = 0.5
MOST_HALVES = 12  # how often a step is halved, which leaves a 64th of its noise


def noise(equations: RigidEquations, standard_normal: White) -> tuple[Any, Any]:
    """Return slip (11, N) and forces of pairs (6, N) of the covariances M and R."""
    k, f = -equations.mobility.noise(standard_normal, equations.accuracy), equations.zeros(6)
    if equations.pairs is not None:
        f = equations.pairs.brownian_noise(standard_normal((4, 3, equations.pairs.first.size)))
    return k, f


def drift(equations: RigidEquations, w: AnyArray, stresslets: bool = False) -> tuple[Any, Any, Any]:
    """Return slip (11, N) and forces (6, N) whose mean over normal numbers w (3, N) drifts.

    And the change of the stresslets (3, 3, N) of pairs along w, by the same motion, if wanted.
    """
    mobility, pairs = equations.mobility, equations.pairs
    f = equations.zeros(6)
    f[:3] = w
    roughly = equations.accuracy**ROUGHLY
    under = solver.solve(equations, equations.zeros(11), f, accuracy=roughly)
    real = mobility.options.arithmetic(mobility.dtype)
    distance = STEPS[real.name] * mobility.smallest
    slips = mobility.shifted(distance * w).product(under.acts) - mobility.product(under.acts)
    slips /= distance
    if pairs is None:
        return slips, equations.zeros(6), 0.0
    distance = STEP_OF_PAIRS * mobility.smallest
    ahead, here = (
        near.acting(under.moves, stresslets=stresslets)
        for near in (pairs.shifted(distance * w), pairs)
    )
    forces, changes = ((one - other) / distance for one, other in zip(ahead, here, strict=True))
    return slips, forces, changes


def stresslets(equations: RigidEquations, w: AnyArray) -> Any:
    """Return the change of the stresslets (3, 3, N) of forces w along w: Brownian ones over kT."""
    slips, forces, drifting = drift(equations, w, stresslets=True)
    change = solver.solve(equations, -slips, -forces)
    drifting = drifting + moments.symmetric(equations.mobility.space, change.acts[6:])
    if equations.pairs is not None:
        drifting += equations.pairs.acting(change.moves)[1]
    return drifting


def advance(rigid: Any, dt: float, step: Callable[[float], Any]) -> int:
    """Move spheres by steps of a duration; where they would overlap, by two of half of it.

    Parameters
    ----------
    rigid : RigidSpheres
    dt : float
    step : callable
        A step by its duration.

    Returns
    -------
    int
        The number of steps that were rejected.
    """
    spans, rejected = [dt], 0
    while spans:
        span = spans.pop()
        try:
            rigid.update_points(rigid.points + step(span))
        except OverlapError:
            rejected += 1
            if span < dt / 2**MOST_HALVES:
                raise
            spans += [span / 2] * 2
    return rejected
