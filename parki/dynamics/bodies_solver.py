"""Solves for rigid bodies: arguments, forces on their blobs, how they move, and their drift."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.core import RecordedSteps, like_points
from parki.dynamics import moments
from parki.dynamics.conjugate import Show, Solved, conjugate, divide, dot
from parki.dynamics.placed import Placed
from parki.dynamics.shapes import BodyShape
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import as_array, shown, to_host
from parki.suspensions import wall
from parki.suspensions.mobility import SphereMobility
from parki.suspensions.noise import White
from parki.suspensions.spheres import Spheres
from parki.typing import AnyArray


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
    placed: Placed, solution: Solved, viscosity: float, back: Callable[[Any], Any]
) -> BodyMotion:
    """Return a solution in physical units, in arrays of another library."""
    moments = placed.moments(solution.acts)
    moments = (moments + moments.transpose(1, 0, 2)) / 2
    third = (moments[0, 0] + moments[1, 1] + moments[2, 2]) / 3
    for axis in range(3):
        moments[axis, axis] -= third
    scale = placed.dtype.type(viscosity)
    velocities, turns, forces, moments = map(
        back, (*solution.moves, scale * solution.acts, scale * moments)
    )
    begin = solution.acts, solution.moves, placed
    return BodyMotion(velocities, turns, forces, moments, solution.products, solution.error, begin)


def as_motion(name: str, value: Any) -> BodyMotion:
    """Return a motion of `parki.RigidBodies.solve`; refuse another value."""
    if not isinstance(value, BodyMotion):
        raise ParkiTypeError(f"{name} is {shown(value)}; expected what solve has returned")
    return value


def begun(placed: Placed, start: AnyArray) -> tuple[Any, Any]:
    """Return forces and motions of another step, which turn with the bodies since then."""
    forces, motions, then = as_motion("start", start)._begin
    if then.kinds is not placed.kinds:
        raise ParkiValueError("start is of other bodies; expected one that these returned")
    if then is not placed:
        forces, motions = placed.rotated_since(then, forces, motions)
    return forces, motions


def forces_of(motion: Any, placed: Placed) -> Any:
    """Return the forces (3, N) on blobs by a motion of bodies at these places; refuse another."""
    forces, _, then = as_motion("motion", motion)._begin
    if then is not placed:
        raise ParkiValueError(
            "motion is of other bodies, or of these before they moved; call solve again"
        )
    return forces


class Blobs(Spheres):
    """Spheres that bodies are made of, to which the bodies at their places are attached."""

    @property
    def mobility(self) -> SphereMobility:
        """How forces on blobs move them."""
        return self._mobility

    @property
    def bodies(self) -> tuple[Placed, Callable[[Any], Any]]:
        """The bodies, and what makes arrays of the library of their positions."""
        bodies: tuple[Placed, Callable[[Any], Any]] = self._mobility.attached.on_top
        return bodies

    def attach(self, placed: Placed, back: Callable[[Any], Any]) -> None:
        """Attach bodies of which these are the blobs."""
        self._first.attach(self._mobility.attached._replace(on_top=(placed, back)))

    def place(self, placed: Placed, back: Callable[[Any], Any], box: Any) -> None:
        """Move to the blobs of bodies elsewhere; on any error all stays as it was."""
        self._update(placed.blobs, box, (placed, back))


FACTOR = 1 / (8 * math.pi)  # of the mobility of blobs, at a viscosity of 1
MOST_PRODUCTS = 300
# Part that counts of the energy of a flow that holds bodies in place: most of it moves no body. So
# velocities have errors of 0.3 to 1.2 times the estimate.
HELD = 0.15
LOOSER = 10.0  # times the accuracy: the error of the solve that only the drift takes


@dataclass(frozen=True, eq=False)
class BodyEquations:
    """Bodies at their present places, how their blobs move, and how exactly that is solved.

    All is at a viscosity of 1.

    Attributes
    ----------
    placed : Placed
    mobility : SphereMobility
        Of the blobs.
    accuracy : float
        The relative error of velocities at which solves stop.
    """

    placed: Placed
    mobility: SphereMobility
    accuracy: float

    # ------------------------------------------------------------------ arguments
    def of_bodies(self, name: str, values: AnyArray) -> Any:
        """Return an argument (3, B), or zeros."""
        shape = tuple(self.placed.positions.shape)
        if values is None:
            return self.placed.xp.zeros(shape, self.placed.dtype)
        return self._argument(name, values, shape, "one for each of the bodies")

    def _argument(self, name: str, values: AnyArray, shape: tuple[int, ...], meaning: str) -> Any:
        """Return an array of a shape in the library of the blobs, or refuse it."""
        array = like_points(name, values, self.mobility.first.space, self.placed.dtype)
        if tuple(array.shape) != shape:
            raise ParkiValueError(
                f"{name} has shape {tuple(array.shape)}; expected {shape}, {meaning}"
            )
        if not bool(self.placed.xp.isfinite(array).all()):
            raise ParkiValueError(f"{name} has NaN or infinite numbers")
        return array

    def loads(self, forces: AnyArray, torques: AnyArray, viscosity: float) -> Any:
        """Return forces and torques (2, 3, B) at a viscosity of 1."""
        loads = [self.of_bodies("forces", forces), self.of_bodies("torques", torques)]
        return self.placed.xp.stack(loads) / self.placed.dtype.type(viscosity)

    def flow(self, slip: AnyArray, gradient: AnyArray) -> Any:
        """Return velocities of the fluid at the blobs, relative to rigid ones; None if not any."""
        placed, flow = self.placed, None
        if slip is not None:
            shape = tuple(placed.arms.shape)
            flow = self._argument("slip", slip, shape, "one for each of the blobs")
        if gradient is not None:
            slope = moments.gradient(gradient, self.mobility.options)
            strain = placed.xp.asarray((slope + slope.T) / 2, placed.dtype)
            flow = -strain @ placed.arms if flow is None else flow - strain @ placed.arms
        return flow

    # ------------------------------------------------------------------ solves
    def solve(
        self,
        loads: Any,
        flow: AnyArray,
        *,
        start: BodyMotion | None = None,
        callback: Show | None = None,
        accuracy: float | None = None,
    ) -> Solved:
        """Return forces and motions by loads and velocities of the blobs."""
        last = None if start is None else begun(self.placed, start)
        steps, placed = self._recorded()
        flowing = flow is not None
        flow = flow if flowing else placed.xp.zeros_like(placed.arms)
        loads, flow = steps.keep(loads=loads, flow=flow)
        before = None
        if last is not None:
            before = steps.keep(forces_before=last[0], motions_before=last[1])

        def begin() -> tuple[Any, Any, Any]:
            power = divide(steps, [loads, flow])
            forces, motions = placed.driven(loads)
            energy = dot(loads, motions)
            if flowing:
                more, also = placed.alone(flow)
                energy = energy + HELD * dot(flow, more) + placed.energy(also)
                forces, motions = forces + more, motions + also
            if before is not None:
                forces, motions = (np.ldexp(array, -power) for array in before)
                missing = loads - placed.carried_back(forces) - placed.resisted(motions)
                more, also = placed.driven(missing)
                forces, motions = forces + more, motions + also
            return forces, motions, energy

        return self._iterated(
            steps,
            placed,
            placed.alone,
            begin,
            flow,
            kind=("solve", flowing, before is not None),
            callback=callback,
            accuracy=accuracy,
        )

    def resist(self, motions: AnyArray, flow: AnyArray, callback: Show | None = None) -> Any:
        """Return the loads (2, 3, B) by which bodies have motions (2, 3, B) in such a flow."""
        steps, placed = self._recorded()
        carried = placed.carried(motions)
        [flow] = steps.keep(flow=carried if flow is None else carried + flow)

        def begin() -> tuple[Any, Any, Any]:
            divide(steps, [flow])
            forces, still = placed.freed(flow)
            return forces, still, dot(flow, forces)

        solution = self._iterated(
            steps, placed, placed.freed, begin, flow, kind="resist", callback=callback
        )
        return placed.carried_back(solution.acts) + placed.resisted(motions)

    def _recorded(self) -> tuple[RecordedSteps, Placed]:
        """Return the steps of a solve, and the bodies where these find them."""
        steps = self.mobility.steps.unused()
        if self.placed.blobs.size:
            steps.begin(self.mobility.first.recording)
        return steps, self.placed.recorded(steps)

    def _iterated(
        self,
        steps: RecordedSteps,
        placed: Placed,
        alone: Callable[[Any], tuple[Any, Any]],
        begin: Callable[[], tuple[Any, Any, Any]],
        flow: AnyArray,
        *,
        kind: Hashable,
        callback: Show | None,
        accuracy: float | None = None,
    ) -> Solved:
        """Return the solution by conjugate gradients.

        ``begin`` returns what acts and what moves first, and the energy of a solution, about.
        """
        if callback is not None and not callable(callback):
            raise ParkiTypeError(
                f"callback is {shown(callback)}; expected a function of the residual, such as a "
                "parki.Progress"
            )
        if not flow.size:
            motions = placed.xp.zeros((2, *placed.positions.shape), placed.dtype)
            return Solved(0 * flow, motions, 0, 0.0)
        energy = steps.empty("energy", (), np.dtype(np.float64))

        def start() -> tuple[Any, Any]:
            forces, motions, energy[...] = begin()
            return forces, motions

        def mobility(forces: AnyArray) -> Any:
            return self.mobility.product("velocity", {"force": forces}, factor=FACTOR, checked=True)

        return conjugate(
            steps,
            mobility,
            alone,
            placed.carried,
            start,
            flow,
            lambda *_: energy,
            self.accuracy if accuracy is None else accuracy,
            MOST_PRODUCTS,
            callback,
            "the mobility of the blobs",
            kind=lambda: kind,
        ).scaled(steps.arrays["power"])

    # ------------------------------------------------------------------ Brownian motion
    def drift(self, standard_normal: White, size: float, extent: float) -> tuple[Any, Any]:
        """Return ``size`` times velocities and loads whose solution has the mean div N.

        With normal numbers w it is the mean of the change of N w along w, of translations and
        turns. M changes by a difference, K and R by formulas: none of N is needed (Sprinkle, Balboa
        Usabiaga, Patankar and Donev, 2017). Bodies have that ``extent``.
        """
        placed, real = self.placed, self.placed.dtype.type
        w = standard_normal((2, *placed.positions.shape))
        # A turn moves blobs about as far as a translation: both are in units of the extent.
        loads, moves = w.copy(), w.copy()
        loads[0] /= real(extent)
        moves[0] *= real(extent)
        solution = self.solve(loads, None, accuracy=min(LOOSER * self.accuracy, 0.5))
        step = real(wall.STEP * self.mobility.sizes.smallest / extent)
        shift = step * placed.carried(moves)
        [change] = self.mobility.difference(shift, solution.acts, factor=FACTOR)
        arms = placed.turning(w[1])  # by which these change
        flow = placed.turning(solution.moves[1], arms) - change / step
        pull = -placed.resisted_by(w[1], solution.moves)
        pull[1] -= placed.torques(solution.acts, arms)
        return real(size) * flow, real(size) * pull
