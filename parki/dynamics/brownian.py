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

from dataclasses import replace
from typing import Any

from parki.dynamics import moments
from parki.dynamics.moments import MomentFields, MomentMobility
from parki.errors import OverlapError, ParkiValueError
from parki.suspensions import noise

STEPS = {"float64": 1e-3, "float32": 1e-2}  # distances for M, in smallest radii, by arithmetic
STEP_OF_PAIRS = 1e-7
# Power of the accuracy to which motions under forces w are solved. To 0.1 the mean of the drift is
# right to a hundredth, as most errors have no mean: see docs/notebook/decisions.md.
ROUGHLY = 0.5
MOST_HALVES = 12  # how often a step is halved, which leaves a 64th of its noise


def check(rigid: Any) -> None:
    """Refuse noise of a mobility that is not positive."""
    if any(moments.gauged(rigid.options)):
        raise ParkiValueError(
            f"noise with periodicity={rigid.options.periodicity} is not defined: the mean "
            "velocity of a cell depends on the gauge there, and the mobility is not positive; "
            "take periodicity 0 or 3"
        )


def slip(rigid: Any, white: noise.White) -> Any:
    """Return slip velocities (11, N) of covariance M, of what makes normal numbers of a shape.

    With three periodic axes far and near field have noises of their own: see `noise.split`.
    """
    scales, plan = rigid._own**-0.5, rigid._mobility.sum
    apart = rigid.options.periodicity == 3 and rigid.radii.size > 0
    if apart and plan.terms[0].sum.order.kept and plan.setup.split.positive:
        how = {"scales": scales, "first": rigid._products if plan.space.on_device else 1}
        fields = MomentFields(plan)
        numbers, rigid._products = noise.split(plan, fields, white, rigid.accuracy, 1.0, **how)
        return numbers
    return noise.root(rigid._product, white(scales.shape), rigid.accuracy, scales=scales)[0]


def shaken(rigid: Any, white: Any) -> tuple[Any, Any]:
    """Return slip (11, N) and forces of pairs (6, N) of the covariances M and R."""
    k, f = -slip(rigid, white), rigid._zeros(6)
    if rigid._pairs is not None:
        f = rigid._pairs.shaken(white((4, 3, rigid._pairs.first.size)))
    return k, f


def drift(rigid: Any, w: Any, stresslets: bool = False) -> tuple[Any, Any, Any]:
    """Return slip (11, N) and forces (6, N) whose mean over normal numbers w (3, N) drifts.

    And the change of the stresslets (3, 3, N) of pairs along w, by the same motion, if wanted.
    """
    f = rigid._zeros(6)
    f[:3] = w
    under = rigid._solved(rigid._zeros(11), f, accuracy=rigid.accuracy**ROUGHLY)
    real = rigid.options.arithmetic(rigid._mobility.dtype)
    distance = STEPS[real.name] * rigid._sizes.smallest
    slips = rigid._product(under.acts, _there(rigid, distance * w)) - rigid._product(under.acts)
    slips /= distance
    if rigid._pairs is None:
        return slips, rigid._zeros(6), 0.0
    distance = STEP_OF_PAIRS * rigid._sizes.smallest
    ahead, here = (
        pairs.acting(under.moves, stresslets=stresslets)
        for pairs in (rigid._pairs.shifted(distance * w), rigid._pairs)
    )
    forces, changes = ((one - other) / distance for one, other in zip(ahead, here, strict=True))
    return slips, forces, changes


def stresslets(rigid: Any, w: Any) -> Any:
    """Return the change of the stresslets (3, 3, N) of forces w along w: Brownian ones over kT."""
    slips, forces, drifting = drift(rigid, w, stresslets=True)
    change = rigid._solved(-slips, -forces)
    drifting = drifting + moments.symmetric(rigid._xp, change.acts[6:])
    if rigid._pairs is not None:
        drifting += rigid._pairs.acting(change.moves)[1]
    return drifting


def advance(rigid: Any, dt: float, step: Any) -> int:
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


def _there(rigid: Any, shift: Any) -> MomentMobility:
    """Return the mobility of spheres that are shifted, by plans of their own."""
    points, options = rigid._mobility.points, rigid.options
    other: MomentMobility | None = rigid._shifted
    points = points + shift.astype(points.dtype)
    if options.periodicity == 0:  # where spheres may leave the box of now
        return MomentMobility(points, rigid.radii, replace(options, box=(None,) * 3))
    if other is None:
        rigid._shifted = other = MomentMobility(points, rigid.radii, options)
    else:
        other.update_points(points, None if other.options == options else options.box)
    return other
