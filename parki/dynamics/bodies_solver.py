"""Solves for rigid bodies: arguments, forces on their blobs and how they move, noise and drift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.core import like_points
from parki.dynamics import moments
from parki.dynamics.conjugate import Show, Solved, conjugate, dot, power_near, scaled
from parki.dynamics.placed import Placed
from parki.dynamics.shapes import BodyShape
from parki.errors import ParkiTypeError, ParkiValueError, by_words
from parki.interchange import as_array, shown, to_host
from parki.suspensions import noise, wall


def kinds(shapes: Any, which: Any, count: int) -> tuple[tuple[BodyShape, ...], Any]:
    """Return shapes, and the number of each body's shape."""
    bodies = tuple(shapes) if isinstance(shapes, (list, tuple)) else (shapes,)
    for each in bodies or (None,):
        if not isinstance(each, BodyShape):
            raise ParkiTypeError(
                f"shapes is {shown(shapes)}; expected a parki.BodyShape, or a list of them (bodies "
                "of a parki.Surface are for parki.RigidSurfaces)"
            )
    if which is None:
        if len(bodies) > 1:
            raise ParkiTypeError(
                f"there are {len(bodies)} shapes, and which is missing; give the number of each "
                "body's shape, such as which=[0, 0, 1]"
            )
        return bodies, np.zeros(count, int)
    numbers = to_host(as_array("which", which))
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,):
        raise ParkiValueError(
            f"which has shape {numbers.shape} and dtype {numbers.dtype}; expected {count} whole "
            "numbers, the shape of each body"
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(bodies):
        raise ParkiValueError(
            f"which has numbers from {numbers.min()} to {numbers.max()}; expected 0 to "
            f"{len(bodies) - 1}, for {len(bodies)} shapes"
        )
    return bodies, numbers.astype(int)


def of_bodies(bodies: Any, name: str, given: Any) -> Any:
    """Return an array (3, B) that was given, or zeros."""
    placed = bodies._placed
    shape = tuple(placed.positions.shape)
    if given is None:
        return placed.xp.zeros(shape, placed.dtype)
    return like(bodies, name, given, shape, "one for each of the bodies")


def like(bodies: Any, name: str, given: Any, shape: tuple[int, ...], meaning: str) -> Any:
    """Return an array of a shape in the library of the blobs, or refuse it."""
    array = like_points(name, given, bodies._first.space, bodies._placed.dtype)
    if tuple(array.shape) != shape:
        raise ParkiValueError(f"{name} has shape {tuple(array.shape)}; expected {shape}, {meaning}")
    if not bool(bodies._placed.xp.isfinite(array).all()):
        raise ParkiValueError(f"{name} has NaN or infinite numbers")
    return array


def loads(bodies: Any, forces: Any, torques: Any) -> Any:
    """Return forces and torques at a viscosity of 1."""
    given = [of_bodies(bodies, *each) for each in (("forces", forces), ("torques", torques))]
    return bodies._placed.xp.stack(given) / bodies._placed.dtype.type(bodies.viscosity)


def flow(bodies: Any, slip: Any, gradient: Any) -> Any:
    """Return velocities of the fluid at the blobs, relative to rigid ones; None if not any."""
    placed, flow = bodies._placed, None
    if slip is not None:
        shape = tuple(placed.arms.shape)
        flow = like(bodies, "slip", slip, shape, "one for each of the blobs")
    if gradient is not None:
        slope = moments.gradient(gradient, bodies.options)
        strain = placed.xp.asarray((slope + slope.T) / 2, placed.dtype)
        flow = -strain @ placed.arms if flow is None else flow - strain @ placed.arms
    return flow


@dataclass(frozen=True, eq=False)
class BodyMotion:
    """How bodies move, and the forces on their blobs: see `RigidBodies.solve`.

    Attributes
    ----------
    velocities, turns : array, shape (3, B)
        Velocities of the bodies' positions, and angular velocities.
    blob_forces : array, shape (3, N)
        Forces of the blobs on the fluid, one body after the other.
    stresslets : array, shape (3, 3, B)
        Symmetric and traceless parts of the sums of r F^T over the blobs of each body, with r from
        its position: the stresslets on the fluid far away.
    products : int
        Products with the mobility of the blobs.
    error : float
        Relative error of the velocities, estimated.
    """

    velocities: Any
    turns: Any
    blob_forces: Any
    stresslets: Any
    products: int
    error: float
    _begin: tuple[Any, Any, Placed]  # forces and motions at a viscosity of 1


def motion(
    placed: Placed, found: Solved, viscosity: float, back: Callable[[Any], Any]
) -> BodyMotion:
    """Return a solution in physical units, in arrays of another library."""
    moments = placed.moments(found.acts)
    moments = (moments + moments.transpose(1, 0, 2)) / 2
    third = (moments[0, 0] + moments[1, 1] + moments[2, 2]) / 3
    for axis in range(3):
        moments[axis, axis] -= third
    scale = placed.dtype.type(viscosity)
    velocities, turns, forces, moments = map(
        back, (*found.moves, scale * found.acts, scale * moments)
    )
    begin = found.acts, found.moves, placed
    return BodyMotion(velocities, turns, forces, moments, found.products, found.error, begin)


def as_motion(name: str, given: Any) -> BodyMotion:
    """Return a motion of `parki.RigidBodies.solve`; refuse another value."""
    if not isinstance(given, BodyMotion):
        raise ParkiTypeError(f"{name} is {shown(given)}; expected what solve has returned")
    return given


def begun(placed: Placed, start: Any) -> tuple[Any, Any]:
    """Return forces and motions of another step, which turn with the bodies since then."""
    forces, motions, then = as_motion("start", start)._begin
    if then.kinds is not placed.kinds:
        raise ParkiValueError("start is of other bodies; expected one that these returned")
    if then is not placed:
        forces, motions = placed.rotated_since(then, forces, motions)
    return forces, motions


MOST_PRODUCTS = 300
# Part that counts of the energy of a flow that holds bodies in place: most of it moves no body. So
# velocities have errors of 0.3 to 1.2 times the estimate.
HELD = 0.15


def solved(
    bodies: Any,
    loads: Any,
    flow: Any,
    start: BodyMotion | None = None,
    callback: Show | None = None,
    accuracy: float | None = None,
) -> Solved:
    """Return forces and motions by loads and velocities of the blobs, at a viscosity of 1."""
    placed = bodies._placed
    power = power_near(loads, *() if flow is None else (flow,))
    loads, flow = (None if each is None else scaled(-power, each)[0] for each in (loads, flow))
    forces, motions = placed.driven(loads)
    energy = dot(loads, motions)
    if flow is not None:
        more, also = placed.alone(flow)
        energy = energy + HELD * dot(flow, more) + placed.energy(also)
        forces, motions = forces + more, motions + also
    if start is not None:
        forces, motions = scaled(-power, *begun(placed, start))
        missing = loads - placed.carried_back(forces) - placed.resisted(motions)
        more, also = placed.driven(missing)
        forces, motions = forces + more, motions + also
    if flow is None:
        flow = placed.xp.zeros_like(placed.arms)
    accuracy, first = bodies.accuracy if accuracy is None else accuracy, (forces, motions)
    found = iterated(bodies, placed.alone, first, flow, float(energy), accuracy, callback)
    return found.scaled(power)


def iterated(bodies: Any, alone: Any, first: Any, *given: Any) -> Solved:
    """Return the solution by conjugate gradients, from what acts and moves first."""
    if given[-1] is not None and not callable(given[-1]):
        raise ParkiTypeError(
            f"callback is {shown(given[-1])}; expected a function of the residual, such as a "
            "parki.Progress"
        )
    flow, scale, accuracy, show = given

    def mobility(forces: Any) -> Any:
        return bodies._spheres._moved("velocity", {"force": forces})

    carried, most, of = bodies._placed.carried, MOST_PRODUCTS, "the mobility of the blobs"
    return conjugate(
        mobility, alone, carried, first, flow, lambda *_: scale, accuracy, most, show, of
    )


LOOSER = 10.0  # times the accuracy: the error of the solve that only the drift takes


def shaken(bodies: Any, rng: Any, size: float) -> tuple[Any, Any]:
    """Return ``size`` times velocities (3, N) of blobs, and loads (2, 3, B), which are noise.

    The blobs have noise of their mobility M, and a torque that resists a turn has its own. Then
    motions have the covariance of the bodies' mobility N, because ``N = (K^T M^-1 K + R)^-1``, in
    the words of `conjugate`.
    """
    with by_words(bodies.words):
        flow = bodies._spheres.noise(rng, accuracy=bodies.accuracy)
    placed = bodies._placed
    real = placed.dtype.type
    white = noise.white(rng, placed.dtype)((2, *placed.positions.shape))
    return real(size) * flow, real(size) * placed.resisted(white, 0.5)


def drift(bodies: Any, white: noise.White, size: float) -> tuple[Any, Any]:
    """Return ``size`` times velocities and loads whose solution has the mean div N.

    With normal numbers w it is the mean of the change of N w along w, of translations and turns. M
    changes by a difference, K and R by formulas: none of N is needed (Sprinkle, Balboa Usabiaga,
    Patankar and Donev, 2017).
    """
    placed = bodies._placed
    real = placed.dtype.type
    extent, blob = bodies.extent, bodies._spheres._sizes.smallest
    w = white((2, *placed.positions.shape))
    # A turn moves blobs about as far as a translation: both are in units of the extent.
    loads, moves = w.copy(), w.copy()
    loads[0] /= real(extent)
    moves[0] *= real(extent)
    solution = solved(bodies, loads, None, accuracy=min(LOOSER * bodies.accuracy, 0.5))
    step = real(wall.STEP * blob / extent)
    [change] = wall.difference(bodies._spheres, step * placed.carried(moves), solution.acts)
    arms = placed.turning(w[1])  # by which these change
    flow = placed.turning(solution.moves[1], arms) - change / step
    pull = -placed.resisted_by(w[1], solution.moves)
    pull[1] -= placed.torques(solution.acts, arms)
    return real(size) * flow, real(size) * pull
