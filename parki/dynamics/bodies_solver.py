"""Solves for rigid bodies: forces on their blobs, and how they move."""

from __future__ import annotations

from typing import Any

from parki.dynamics import bodies_motion
from parki.dynamics.bodies_motion import BodyMotion
from parki.dynamics.conjugate import Show, Solved, conjugate, dot
from parki.errors import ParkiTypeError
from parki.interchange import shown

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
    forces, motions = placed.driven(loads)
    energy = dot(loads, motions)
    if flow is not None:
        more, also = placed.alone(flow)
        energy = energy + HELD * dot(flow, more) + placed.energy(also)
        forces, motions = forces + more, motions + also
    if start is not None:
        forces, motions = bodies_motion.begun(placed, start)
        missing = loads - placed.carried_back(forces) - placed.resisted(motions)
        more, also = placed.driven(missing)
        forces, motions = forces + more, motions + also
    if flow is None:
        flow = placed.xp.zeros_like(placed.arms)
    accuracy, first = bodies.accuracy if accuracy is None else accuracy, (forces, motions)
    return iterated(bodies, placed.alone, first, flow, float(energy), accuracy, callback)


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
