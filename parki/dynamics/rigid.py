"""`RigidSpheres`: spheres that do not strain, with their stresslets, in physical units."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast, overload

import numpy as np

from parki.core import EwaldOptions, as_points, like_points, linear_operator, take_options
from parki.dynamics import brownian, moments, solver
from parki.dynamics.conjugate import Solved
from parki.dynamics.moments import MomentMobility
from parki.dynamics.solver import ClosePairs, Motion, RigidEquations
from parki.dynamics.tables import SMALLEST_RATIO
from parki.errors import ParkiValueError, by_words
from parki.interchange import as_given, finite, flag, library_of
from parki.memory import telling
from parki.suspensions.derivatives import refuse_none
from parki.suspensions.fluid import Attached, Solving, new_centres, operator_product
from parki.suspensions.noise import check_step, generator, refuse_gauge
from parki.suspensions.noise import standard_normal as white_numbers
from parki.suspensions.placed_spheres import WORDS, alone
from parki.suspensions.radii import Radii
from parki.typing import AnyArray, Array, ArrayT, Box, OptionKeywords, Seed, Unpack

WORDS_OF_OWN = "radii", "viscosity", "lubrication", "roughness", "accuracy"
ROUGH = "a gap over the mean radius, 0 or more and below 1"


@telling
class RigidSpheres(Solving):
    """Rigid spheres in a viscous fluid: they do not strain, and resist the strain of others.

    `parki.Spheres` has forces and torques alone. Here each sphere has a stresslet as well, such
    that it keeps its shape in the flow of the others and in a flow far away (Durlofsky, Brady and
    Bossis, 1987). So there are the viscosity of a suspension, and diffusion at short times that
    falls with the volume fraction. Close pairs have the lubrication of two spheres alone (Brady,
    Phillips, Lester and Bossis, 1988). Each motion is a solve by conjugate gradients.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
        Centres, in the unit of ``options.box``.
    radii : float, or array of shape (N,)
        One radius, or one for each sphere; positive.
    options : EwaldOptions
    viscosity : float
        Viscosity of the fluid.
    lubrication : bool
        Whether pairs of spheres, up to a gap of their mean diameter, resist their motion as exactly
        as two rigid spheres do. For radii that differ by a factor of five at most.
    roughness : float
        Gap, over the mean radius, below which pairs resist no more than there.
    accuracy : float
        Relative error of motions and stresslets at which solves stop: see `Motion.error`.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``.

    Attributes
    ----------
    points : array, shape (3, N)
        The centres; a copy.
    radii : ndarray, shape (N,), float64
    options : EwaldOptions
        With the present box.
    viscosity, accuracy : float
        Others may be assigned.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, or smooth spheres overlap.

    Examples
    --------
    >>> import numpy as np, parki
    >>> points = (np.mgrid[:4, :4, :4].reshape(3, -1) + 0.5) / 4
    >>> rigid = parki.RigidSpheres(points, 0.08, periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    >>> shear = np.zeros((3, 3))
    >>> shear[0, 1] = 1.0
    >>> motion = rigid.solve(gradient=shear)
    >>> bool(1.3 < 1 + rigid.stress(motion)[0, 1] < 1.4)  # relative viscosity
    True
    """

    _made_of = "points, radii, options and viscosity"
    _mobility: MomentMobility

    def __init__(
        self,
        points: Array,
        radii: AnyArray,
        options: EwaldOptions | None = None,
        *,
        viscosity: float = 1.0,
        lubrication: bool = True,
        roughness: float = 0.0,
        accuracy: float = 1e-3,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        _, checked = take_options(None, options, keywords, also=WORDS_OF_OWN)
        array = as_points("points", points)
        self._sizes = Radii.of(radii, array.shape[1])
        if array.shape[1] and not self._sizes.smallest:
            raise ParkiValueError(
                "radii has 0; expected rigid spheres of positive radii: parki.Spheres has tracers"
            )
        if checked.walled:
            raise ParkiValueError(
                f"wall is {checked.wall!r}, but rigid spheres have no stresslets near a wall; take "
                "parki.Spheres"
            )
        self.viscosity = viscosity
        self._lubricated = flag("lubrication", lubrication)
        self._roughness = finite("roughness", roughness, ROUGH)
        if not 0 <= self._roughness < 1:
            raise ParkiValueError(f"roughness is {roughness!r}; expected {ROUGH}")
        if self._lubricated and self._sizes.smallest < SMALLEST_RATIO * self._sizes.largest:
            raise ParkiValueError(
                f"radii {self._sizes.smallest:g} and {self._sizes.largest:g} differ by more than "
                f"{1 / SMALLEST_RATIO:g}, up to which lubrication has tables; give "
                "lubrication=False, or other radii"
            )
        self._dtype, self.accuracy = array.dtype, accuracy
        with by_words(WORDS):
            self._mobility = MomentMobility(array, self._sizes.each, checked)
        pairs = self._close_pairs(self._mobility.points, self.options)
        self._first.attach(Attached(library_of(points), pairs))

    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = {"lubrication": self._lubricated, "roughness": self._roughness}
        names |= {"viscosity": self.viscosity, "accuracy": self.accuracy}
        return (self.points, self.radii, self.options), names

    def _close_pairs(self, points: AnyArray, options: EwaldOptions) -> ClosePairs:
        if not self._lubricated:
            return ClosePairs()
        return solver.close_pairs(self._mobility, points, options, self._roughness)

    @property
    def _equations(self) -> RigidEquations:
        pairs, matrix = cast(ClosePairs, self._mobility.attached.on_top)
        return RigidEquations(self._mobility, pairs, matrix, self.accuracy)

    # ------------------------------------------------------------------ attributes
    @property
    def points(self) -> Any:
        """The centres, shape (3, N)."""
        return self._back(self._mobility.points.copy())

    @property
    def radii(self) -> Any:
        """The radius of each sphere, shape (N,)."""
        return self._sizes.each

    @alone
    def update_points(self, points: Array, *, box: Box | None = None) -> None:
        """Move the spheres, each of which keeps its radius.

        Parameters
        ----------
        points : array, shape (3, N)
        box : array, shape (3, 3), or 3 lengths
            The present box, such as ``parki.lattice(l, l, l, xy=rate * time * l)`` of simple
            shear. Default: as before.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If there are more or fewer points, or they are impossible, or smooth spheres overlap. On
            a device impossible coordinates may be refused by the next call instead; the spheres
            then have their old points.
        """
        centres = new_centres(points, (3, self.radii.size), "RigidSpheres")
        centres = like_points("points", centres, self._mobility.space, self._mobility.dtype)
        options = self.options if box is None else self.options.deformed(box)
        attached = Attached(library_of(points), self._close_pairs(centres, options))
        self._mobility.update_points(centres, box, attached)

    # ------------------------------------------------------------------ motion
    @overload
    def velocities(self, forces: ArrayT, torques: None = None) -> ArrayT: ...
    @overload
    def velocities(self, forces: ArrayT | None, torques: ArrayT) -> tuple[ArrayT, ArrayT]: ...
    @alone
    def velocities(self, forces: AnyArray, torques: AnyArray = None) -> Any:
        """Return the velocities of the spheres; with torques, their angular velocities as well.

        Parameters
        ----------
        forces : array, shape (3, N), or None
            Force on each sphere, or k sets of them, (k, 3, N), which are solved one by one. None
            stands for no forces.
        torques : array, optional
            As the forces.

        Returns
        -------
        array, or tuple of 2 arrays
            In the shape and the library of the forces.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of `solve`.
        """
        refuse_none(("forces", "torques"), (forces, torques))
        both = solver.of_sets(self.solve, self._mobility.dtype, forces, torques)
        return both[0] if torques is None else both

    @alone
    def solve(
        self,
        forces: Array | None = None,
        torques: Array | None = None,
        *,
        gradient: AnyArray = None,
        start: Motion | None = None,
        callback: Callable[[float], Any] | None = None,
    ) -> Motion:
        """Return the motion and the stresslets of spheres under forces, torques and a flow.

        Parameters
        ----------
        forces, torques : array, shape (3, N), optional
        gradient : array, shape (3, 3), optional
            ``[i, j] = d u_i / d x_j`` of the flow far away, without a trace. Results are relative
            to that flow, and periodic: add ``gradient @ points`` to the velocities, and half its
            curl to the turns. With three periodic axes it is the mean over fluid and spheres.
        start : Motion, optional
            Of the time step before: if forces and flow are about the same, the solve is shorter.
        callback : callable, optional
            Called with the estimated error in each iteration, such as a `parki.Progress`.

        Returns
        -------
        Motion
            In the library of the forces, or of the points.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If an argument is impossible, or the gradient moves a periodic vector out of the box's
            periodic axes.
        ParkiError
            If the solve does not converge.
        """
        equations, factor = self._equations, self.factor
        k, f, strain = solver.sides(equations, forces, torques, gradient, factor)
        begin = solver.begun(equations, start, strain, factor)
        solution = solver.solve(equations, k, f, start=begin, watch=callback)
        like = torques if forces is None else forces
        back = self._back if like is None else partial(as_given, like=like)
        return solver.motion(equations, solution, strain, factor, back)

    # ------------------------------------------------------------------ noise
    @alone
    def displacements(
        self,
        kT: float,
        dt: float,
        rng: Seed,
        forces: Array | None = None,
        torques: Array | None = None,
        *,
        gradient: AnyArray = None,
    ) -> Any:
        """Return a Brownian step: motion times dt, noise of covariance ``2 kT dt G``, and drift.

        G is the mobility of rigid spheres, which `velocities` applies. The drift is ``kT dt div G``
        in the mean of many steps.

        Parameters
        ----------
        kT, dt : float
            Thermal energy, and duration of the step.
        rng : numpy.random.Generator or cupy.random.Generator
            From the library of the points, or what its ``default_rng`` makes one of.
        forces, torques : array, shape (3, N), optional
        gradient : array, shape (3, 3), optional
            Of a flow far away: see `solve`. The step is relative to that flow.

        Returns
        -------
        array, shape (3, N), or tuple of 2 arrays
            Displacements; with torques, displacements and rotation vectors.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of `noise` and `solve`.
        """
        kT, dt = check_step(kT, dt)
        standard_normal, equations = self._white(rng, drawn=bool(kT * dt)), self._equations
        k, f, _ = solver.sides(equations, forces, torques, gradient, self.factor)
        if kT * dt:
            size = math.sqrt(2 * kT / dt / self.factor)
            noises = brownian.noise(equations, standard_normal)
            drifts = brownian.drift(equations, standard_normal(f[:3].shape))[:2]
            for side, noise, drift in zip((k, f), noises, drifts, strict=True):
                side += size * noise - kT * drift
        solution = solver.solve(equations, k, f)
        return self._step(solution, dt * self.factor, torques is not None)

    @alone
    def advance(self, kT: float, dt: float, rng: Seed, forces: Array | None = None) -> int:
        """Move the spheres by a Brownian step, and by shorter ones where smooth ones would overlap.

        A step after which they overlap is rejected, and two of half its length take its place, with
        other noise. Far fewer than all steps should be: take a shorter ``dt`` otherwise.

        Parameters
        ----------
        kT, dt, rng, forces
            As for `displacements`.

        Returns
        -------
        int
            The number of steps that were rejected.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of `displacements` and `update_points`. Steps before an error have moved the spheres.
        """
        rng = generator("rng", rng, self._mobility.space.array_module)
        return brownian.advance(self, dt, lambda span: self.displacements(kT, span, rng, forces))

    @alone
    def brownian_stresslets(self, kT: float, rng: Seed) -> Any:
        """Return stresslets whose mean over many calls is the mean stresslet of Brownian motion.

        The mean is ``kT div C`` of the stresslets C F by forces, on the fluid: see `stress`. It
        takes two solves.

        Parameters
        ----------
        kT, rng
            As for `displacements`.

        Returns
        -------
        array, shape (3, 3, N)

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of `noise`.
        """
        kT = finite("kT", kT, "a number, 0 or more")
        w = self._white(rng)((3, self.radii.size))
        stresslets = kT * brownian.stresslets(self._equations, w)
        return self._back(stresslets.astype(self._mobility.dtype))

    @alone
    def noise(self, rng: Seed, *, torques: bool = False) -> Any:
        """Return normal numbers whose covariance is the mobility: for other integrators.

        Parameters
        ----------
        rng
            As for `displacements`.
        torques : bool
            Whether rotations are wanted as well.

        Returns
        -------
        array, shape (3, N), or tuple of 2 arrays
            In the library of the points.

        Raises
        ------
        ParkiTypeError
            If ``rng`` is no generator, and nothing of which one is made.
        ParkiValueError
            With one or two periodic axes, where the mobility is not positive.
        """
        torques = flag("torques", torques)
        equations = self._equations
        k, f = brownian.noise(equations, self._white(rng))
        solution = solver.solve(equations, k, f)
        return self._step(solution, math.sqrt(self.factor), torques)

    def _white(self, rng: Seed, drawn: bool = True) -> Any:
        """Return a function that makes arrays of normal numbers; refuse noise that is not there."""
        rng = generator("rng", rng, self._mobility.space.array_module)
        if drawn:
            refuse_gauge(self.options, "0 or 3")
        return white_numbers(rng, np.dtype(np.float64))

    def _step(self, solution: Solved, size: float, turns: bool) -> Any:
        """Return motion times a size, in the library and dtype of the points."""
        moves = (size * solution.moves).astype(self._mobility.dtype)
        return self._in_library((moves[:3], moves[3:]), turns)

    # ------------------------------------------------------------------ views
    def stress(self, motion: Motion | Array) -> Any:
        """Return the mean stress of the spheres, ``-sum S / V``, shape (3, 3).

        The stress of the suspension is this plus ``viscosity (L + L^T)`` and a pressure, with the
        gradient L of the flow. Forces between spheres add ``-sum r F / V``.

        Parameters
        ----------
        motion : Motion, or array of shape (3, 3, N)
            Stresslets alone are those of `brownian_stresslets`, for instance.

        Returns
        -------
        ndarray, shape (3, 3)
            Symmetric, without a trace.

        Raises
        ------
        ParkiValueError
            If an axis is free.
        """
        stresslets = motion.stresslets if isinstance(motion, Motion) else motion
        return moments.stress(stresslets, self.options, self.radii.size)

    def as_linear_operator(self, *, torques: bool = False) -> Any:
        """Return the mobility as an operator of SciPy, on a device of CuPy; a product is a solve.

        Parameters
        ----------
        torques : bool
            Whether it takes forces and torques to velocities and angular velocities: of shape
            (2, 3, N), flattened. Otherwise it takes forces (3, N), flattened.
        """
        torques = flag("torques", torques)
        shape = ((2,) if torques else ()) + (3, self.radii.size)
        space, dtype = self._mobility.space, self._mobility.dtype
        product = operator_product(self.velocities, space.array_module, torques)
        return linear_operator(product, product, (shape, shape), dtype, space)

    def __repr__(self) -> str:
        return f"<parki.RigidSpheres: {self.radii.size}, {self.options.periods}>"
