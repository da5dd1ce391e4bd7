"""`RigidBodies`: the motion of rigid bodies that are made of blobs, which are spheres."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from parki.core import EwaldOptions, as_points, like_points, linear_operator, take_options
from parki.dynamics import bodies_solver, solver
from parki.dynamics.bodies_solver import Blobs, BodyEquations, BodyMotion
from parki.dynamics.conjugate import Show
from parki.dynamics.placed import Placed, same_shapes
from parki.dynamics.shapes import BodyShape
from parki.errors import ParkiTypeError, ParkiValueError, by_words
from parki.interchange import library_of
from parki.memory import telling
from parki.runtime import get_execution_space
from parki.solving import rotations
from parki.suspensions import noise
from parki.suspensions.fluid import Solving, operator_product
from parki.suspensions.mobility import SphereMobility
from parki.suspensions.placed_spheres import alone
from parki.typing import (
    AnyArray,
    Array,
    ArrayT,
    Box,
    OptionKeywords,
    Seed,
    Unpack,
)

LOOSEST = 1e-3  # error of velocities, where the tolerance is larger


@telling
class RigidBodies(Solving):
    """Rigid bodies of blobs in a viscous fluid, with forces, slip, shear and Brownian motion.

    The blobs of a body are spheres that keep their places in it. Forces between them make all
    blobs move with the body. Blobs move as `parki.Spheres`, with the same boxes,
    walls and tolerance; so bodies have the hydrodynamics that their blobs resolve, and no
    lubrication beyond it. The method is Balboa Usabiaga et al. (2016), by conjugate gradients.

    Parameters
    ----------
    shapes : BodyShape, or list of BodyShape
    positions : array, shape (3, B), float32 or float64
        Where the origins of the bodies' frames are, in the unit of ``options.box``.
    quaternions : array, shape (4, B), or ``scipy.spatial.transform.Rotation``, optional
        Rotations from the bodies' own frames, with the scalar last. Default: none.
    options : EwaldOptions
    which : array of int, shape (B,), optional
        The shape of each body, if there are several.
    viscosity : float
        Viscosity of the fluid.
    accuracy : float, optional
        Relative error of velocities at which solves stop, and that of noise. Default: the
        tolerance, and 1e-3 at most.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``.

    Attributes
    ----------
    positions, quaternions : array, shape (3, B) and (4, B)
        Copies.
    blobs : array, shape (3, N)
        Centres of all blobs, one body after the other. A copy.
    shapes : tuple of BodyShape
    which : ndarray, shape (B,)
    options : EwaldOptions
        With the present box.
    viscosity, accuracy : float
        Others may be assigned.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible.

    Examples
    --------
    >>> import numpy as np, parki
    >>> ball = parki.BodyShape.sphere(0.1, 12)
    >>> places = np.random.default_rng(0).random((3, 5))
    >>> bodies = parki.RigidBodies(ball, places, periodicity=3, box=[1, 1, 1], tolerance=1e-3)
    >>> velocities, turns = bodies.velocities(np.ones((3, 5)))
    >>> velocities.shape, turns.shape
    ((3, 5), (3, 5))
    """

    _made_of = "shapes, positions, quaternions, options and viscosity"
    _mobility: SphereMobility
    # What spheres are called here.
    words: ClassVar = {"points": "blobs", "sphere": "blob", "Spheres": "RigidBodies"}
    words |= {"new spheres": "new bodies"}

    def __init__(
        self,
        shapes: BodyShape | Sequence[BodyShape],
        positions: Array,
        quaternions: AnyArray = None,
        options: EwaldOptions | None = None,
        *,
        which: Any = None,
        viscosity: float = 1.0,
        accuracy: float | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        also = ("which", "viscosity", "accuracy")
        quaternions, options = take_options(quaternions, options, keywords, also=also)
        array = as_points("positions", positions)
        self.shapes, self.which = bodies_solver.kinds(shapes, which, array.shape[1])
        space, dtype = get_execution_space(None, array), np.dtype(array.dtype)
        self._dtype, self.viscosity = dtype, viscosity
        self.accuracy = min(options.tolerance, LOOSEST) if accuracy is None else accuracy
        self._kinds, radii = same_shapes(space.array_module, dtype, self.shapes, self.which)
        placed = Placed.checked(space, self._kinds, array, quaternions, dtype)
        with by_words(self.words):
            self._spheres = Blobs(placed.blobs, radii, options)
        self._mobility = self._spheres.mobility
        self._spheres.attach(placed, library_of(positions))

    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = {"which": self.which, "viscosity": self.viscosity, "accuracy": self.accuracy}
        return (self.shapes, self.positions, self.quaternions, self.options), names

    @property
    def _placed(self) -> Placed:
        return self._spheres.bodies[0]

    @property
    def _back(self) -> Callable[[Any], Any]:
        return self._spheres.bodies[1]

    @property
    def _equations(self) -> BodyEquations:
        return BodyEquations(self._placed, self._mobility, self.accuracy)

    # ------------------------------------------------------------------ attributes
    @property
    def positions(self) -> Any:
        """Where the bodies are, shape (3, B)."""
        return self._back(self._placed.positions.astype(self._placed.dtype))

    @property
    def quaternions(self) -> Any:
        """Rotations from the bodies' frames, shape (4, B), of length 1, float64."""
        return self._back(self._placed.quaternions.copy())

    @property
    def blobs(self) -> Any:
        """Centres of all blobs, shape (3, N)."""
        return self._back(self._placed.blobs.copy())

    @property
    def extent(self) -> float:
        """The largest distance of a blob's surface from the position of its body."""
        return max(shape.extent for shape in self.shapes)

    def in_lab(self, vectors: AnyArray) -> Any:
        """Return vectors at the blobs of each shape in its frame as vectors in the lab's frame.

        Parameters
        ----------
        vectors : array, shape (3, n), or list of one for each shape
            Such as the slip of a swimmer.

        Returns
        -------
        array, shape (3, N)
            At the blobs, one body after the other.
        """
        several = isinstance(vectors, (list, tuple)) and len(self.shapes) > 1
        return self._back(self._placed.in_lab(list(vectors) if several else [vectors]))

    # ------------------------------------------------------------------ places
    @alone
    def update_positions(
        self, positions: Array, quaternions: AnyArray = None, *, box: Box | None = None
    ) -> None:
        """Move the bodies, each of which keeps its shape.

        Parameters
        ----------
        positions : array, shape (3, B)
        quaternions : array, shape (4, B), or ``scipy.spatial.transform.Rotation``, optional
            Default: as before.
        box : array, shape (3, 3), or 3 lengths
            The present box: see `parki.Plan.update_points`. Default: as before.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If there are more or fewer bodies, or they are impossible. Then nothing moves.
        """
        old = self._placed
        centres = like_points("positions", positions, self._first.space, old.dtype)
        if centres.shape != old.positions.shape:
            raise ParkiValueError(
                f"positions has shape {centres.shape}; expected {tuple(old.positions.shape)}, one "
                "for each of the bodies; make new RigidBodies for another number"
            )
        quaternions = old.quaternions if quaternions is None else quaternions
        placed = Placed.checked(old.space, self._kinds, centres, quaternions, old.dtype)
        self._move(placed, library_of(positions), box)

    @alone
    def move(self, moves: Array, turns: Array | None = None, *, box: Box | None = None) -> None:
        """Move bodies by displacements, and turn them by rotation vectors: a step of time.

        Parameters
        ----------
        moves, turns : array, shape (3, B)
            As `displacements` returns them, or velocities times a time. The length of a rotation
            vector is the angle, of any size: bodies turn exactly.
        box
            As for `update_positions`.
        """
        old = self._placed
        angles = self._equations.of_bodies("turns", turns).astype(np.float64)
        quaternions = rotations.rotated(old.xp, old.quaternions, angles)
        positions = old.positions + self._equations.of_bodies("moves", moves)
        placed = Placed(old.space, self._kinds, positions, quaternions, old.dtype)
        self._move(placed, self._back, box)

    def _move(self, placed: Placed, back: Callable[[Any], Any], box: Any) -> None:
        with by_words(self.words):
            self._spheres.place(placed, back, box)

    # ------------------------------------------------------------------ motions
    @alone
    def velocities(
        self, forces: ArrayT | None = None, torques: ArrayT | None = None
    ) -> tuple[ArrayT, ArrayT]:
        """Return the velocities and the angular velocities of the bodies, shape (3, B) each.

        Parameters
        ----------
        forces, torques : array, shape (3, B), optional
            Torques are about the positions of the bodies. None stands for none. Or k sets of them,
            (k, 3, B), which are solved one by one.
        """
        return solver.of_sets(self.solve, self._placed.dtype, forces, torques)

    @alone
    def solve(
        self,
        forces: Array | None = None,
        torques: Array | None = None,
        *,
        slip: Array | None = None,
        gradient: AnyArray = None,
        start: BodyMotion | None = None,
        callback: Show | None = None,
    ) -> BodyMotion:
        """Return how bodies move that are driven, swim, or are in a flow.

        Parameters
        ----------
        forces, torques : array, shape (3, B), optional
        slip : array, shape (3, N), optional
            Velocity of the fluid at each blob, relative to its body, in the lab's frame: bodies
            swim. See `in_lab`.
        gradient : array, shape (3, 3), optional
            ``[i, j] = d u_i / d x_j`` of a flow without bodies, which is zero at the origin.
            Results are then relative to it: add ``gradient @ positions`` to the velocities, and
            half of the curl to the turns. A periodic box must deform with the flow.
        start : BodyMotion, optional
            Of the time step before: if forces and flow are about the same, the solve is shorter.
        callback : callable, optional
            Called with the estimated error in each iteration, such as a `parki.Progress`.

        Returns
        -------
        BodyMotion

        Raises
        ------
        ParkiError
            If it does not converge.
        ParkiValueError, ParkiTypeError
            If an argument is impossible, or none of the first four is given.
        """
        if forces is torques is slip is gradient is None:
            raise ParkiTypeError("give forces, torques, slip or a gradient: nothing moves bodies")
        equations = self._equations
        flow = equations.flow(slip, gradient)
        loads = equations.loads(forces, torques, self.viscosity)
        solution = equations.solve(loads, flow, start=start, callback=callback)
        return bodies_solver.motion(self._placed, solution, self.viscosity, self._back)

    @alone
    def forces(
        self,
        velocities: Array | None = None,
        turns: Array | None = None,
        *,
        slip: Array | None = None,
        gradient: AnyArray = None,
        callback: Show | None = None,
    ) -> tuple[Any, Any]:
        """Return the forces and torques (3, B) that make bodies move with given velocities.

        This is the resistance, the inverse of `velocities`. It takes more products the more bodies
        there are. Parameters are as for `solve`.
        """
        equations = self._equations
        motions = self._placed.xp.stack(
            [equations.of_bodies("velocities", velocities), equations.of_bodies("turns", turns)]
        )
        loads = equations.resist(motions, equations.flow(slip, gradient), callback)
        loads *= self._placed.dtype.type(self.viscosity)
        return self._back(loads[0]), self._back(loads[1])

    @alone
    def flow(self, motion: BodyMotion, points: Array, *, want: Any = "u") -> Any:
        """Return the fluid's velocity elsewhere, and what else is wanted, of a motion.

        Parameters
        ----------
        motion : BodyMotion
            Of the bodies where they are now.
        points : array, shape (3, M)
        want : {"u", "p", "grad_u", "stress"}, or a tuple of these
            As for `parki.Spheres.flow`. With a gradient, all are relative to its flow.

        Returns
        -------
        array, or tuple of arrays
        """
        forces = bodies_solver.forces_of(motion, self._placed)
        fields = self._spheres.flow(forces, points, want=want)
        one, scale = isinstance(want, str), self._placed.dtype.type(self.viscosity)
        results = tuple(
            self._back(each * scale if name in ("p", "stress") else each)
            for name, each in ([(want, fields)] if one else zip(want, fields, strict=True))
        )
        return results[0] if one else results

    def as_linear_operator(self) -> Any:
        """Return the mobility as an operator of SciPy, on a device of CuPy.

        It takes forces and torques to velocities and turns, of shape (2, 3, B), flattened. Each
        product is a solve.
        """
        placed = self._placed
        shape = (2, *placed.positions.shape)
        product = operator_product(self.velocities, placed.xp)
        return linear_operator(product, product, (shape, shape), placed.dtype, self._first.space)

    # ------------------------------------------------------------------ Brownian motion
    @alone
    def displacements(
        self,
        kT: float,
        dt: float,
        rng: Seed,
        forces: Array | None = None,
        torques: Array | None = None,
        *,
        slip: Array | None = None,
        gradient: AnyArray = None,
    ) -> tuple[Any, Any]:
        """Return a Brownian step: displacements and rotation vectors, for `move`.

        With the mobility N of bodies it is ``N F dt``, noise of covariance ``2 kT dt N``, and the
        drift ``kT dt div N``, by a random finite difference. Sprinkle, Balboa Usabiaga, Patankar
        and Donev (2017). It takes two solves and two more products.

        Parameters
        ----------
        kT, dt : float
            Thermal energy, and duration of the step.
        rng
            As for `parki.Spheres.displacements`.
        forces, torques, slip, gradient
            As for `solve`.

        Returns
        -------
        tuple of 2 arrays, shape (3, B)

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of `parki.Spheres.noise`.
        """
        kT, dt = noise.check_step(kT, dt)
        placed = self._placed
        rng = noise.generator("rng", rng, placed.xp)
        equations = self._equations
        loads = equations.loads(forces, torques, self.viscosity)
        flow = equations.flow(slip, gradient)
        if kT * dt:
            noisy, spun = self._noise(rng, math.sqrt(2 * kT / (self.viscosity * dt)))
            standard_normal = noise.standard_normal(rng, placed.dtype)
            drift, pulled = equations.drift(standard_normal, kT / self.viscosity, self.extent)
            flow = noisy + drift if flow is None else flow + noisy + drift
            loads = loads + spun + pulled
        moved = placed.dtype.type(dt) * equations.solve(loads, flow).moves
        return self._back(moved[0]), self._back(moved[1])

    @alone
    def noise(self, rng: Seed) -> tuple[Any, Any]:
        """Return normal numbers whose covariance is the mobility of bodies: for other integrators.

        Returns
        -------
        tuple of 2 arrays, shape (3, B)
            Of velocities and of turns, without drift.
        """
        rng = noise.generator("rng", rng, self._placed.xp)
        flow, loads = self._noise(rng, 1 / math.sqrt(self.viscosity))
        motions = self._equations.solve(loads, flow).moves
        return self._back(motions[0]), self._back(motions[1])

    def _noise(self, rng: Seed, size: float) -> tuple[Any, Any]:
        """Return ``size`` times velocities (3, N) of blobs, and loads (2, 3, B), which are noise.

        Blobs have noise of their mobility M, and a torque that resists a turn has its own. Then
        motions have the covariance of the bodies' mobility N, because ``N = (K^T M^-1 K + R)^-1``,
        in the words of `parki.dynamics.conjugate`.
        """
        with by_words(self.words):
            flow = self._spheres.noise(rng, accuracy=self.accuracy)
        placed, real = self._placed, self._placed.dtype.type
        standard_normal = noise.standard_normal(rng, placed.dtype)((2, *placed.positions.shape))
        return real(size) * flow, real(size) * placed.resisted(standard_normal, 0.5)

    # ------------------------------------------------------------------ views
    def describe(self) -> str:
        """Return the bodies, and the parameters that were chosen for their blobs, as text."""
        several = ", ".join(f"{kind.count} of {kind.shape.n} blobs" for kind in self._kinds)
        head = f"bodies: {several}; viscosity {self.viscosity:g}; accuracy {self.accuracy:g}"
        return f"{head}\n{self._spheres.describe()}"

    def __repr__(self) -> str:
        return f"<parki.RigidBodies: {self.which.size}, {self.options.periods}>"
