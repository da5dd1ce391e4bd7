"""`Spheres`: the mobility of spheres by Rotne, Prager and Yamakawa, in physical units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.checks import FINER, Check
from parki.ewald.derivatives.linear_operator import linear_operator
from parki.ewald.options import SMALLEST_TOLERANCE, EwaldOptions
from parki.ewald.plan import Plan, summed
from parki.ewald.points import as_points, check_want, like_points, take_options
from parki.interchange import as_given, flag, number, positive
from parki.suspensions import derivatives, noise, wall
from parki.suspensions.derivatives import ACTS, MOVES
from parki.suspensions.radii import KINDS, Radii
from parki.suspensions.turning import Turning
from parki.typing import Array, Box, OptionKeywords, Unpack


class Spheres:
    """Spheres in a viscous fluid: set up once, apply to many forces and torques, move in time.

    Forces are spread over the surfaces of spheres, and velocities are averaged over them: the
    mobility of Rotne and Prager (1969) and Yamakawa (1970), with overlaps by Zuk, Wajnryb,
    Mizerski and Szymczak (2014). It is symmetric and positive, for spheres that overlap and for
    images across the faces of the box, too. Lubrication is not in it.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
        Centres, in the unit of ``options.box``.
    radii : float, or array of shape (N,)
        One radius, or one for each sphere; 0 for a tracer, which moves with the fluid.
    options : EwaldOptions
    viscosity : float
        Viscosity of the fluid.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``.

    Attributes
    ----------
    points : array, shape (3, N)
    radii : ndarray, shape (N,), float64
    viscosity : float

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible; before any work.

    Examples
    --------
    >>> import numpy as np, parki
    >>> points = np.random.default_rng(0).random((3, 1000))
    >>> spheres = parki.Spheres(points, 0.02, periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    >>> spheres.velocities(np.ones((3, 1000))).shape
    (3, 1000)
    """

    def __init__(
        self,
        points: Array,
        radii: Any,
        options: EwaldOptions | None = None,
        *,
        viscosity: float = 1.0,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        with self._together("Spheres"):
            _, self.options = take_options(None, options, keywords)
            self.viscosity = positive("viscosity", viscosity)
            self.points: Any = as_points("points", points)
            self._sizes = Radii.of(radii, self.points.shape[-1], self._of_all)
            self.radii = self._sizes.each
        self._plans: dict[tuple[str, str], Any] = {}
        self._products = noise.FIRST  # which the last noise took
        self._turns: Turning | None = None  # for noise of torques
        self._plan("velocity", "force")  # refuses impossible points
        with self._together("heights"):
            self._check_heights(self.points)

    @property
    def factor(self) -> float:
        """What the sums are multiplied by: ``1 / (8 pi viscosity)``."""
        return 1 / (8 * math.pi * self.viscosity)

    def _check_heights(self, points: Any) -> None:
        if self.options.walled:
            wall.check_heights(points, self.radii)

    def _plan(self, moves: str, acts: str) -> Any:
        """Return the plan of what moves by what acts."""
        key = moves, acts
        if key not in self._plans:
            if not self.options.walled:
                self._plans[key] = self._make(*self._given(*key))
            elif key == ("velocity", "torque"):
                self._plans[key] = wall.Transposed(self._plan("turn", "force"))
            elif self._sizes.marks is not None:
                self._plans[key] = wall.ByRadii(self, *key)
            else:
                self._plans[key] = self._make(*self._given(*key))
        return self._plans[key]

    def _given(self, moves: str, acts: str) -> tuple[Any, ...]:
        """Return the kernel of such a plan, its targets, sources, marks and options."""
        sizes, points = self._sizes, self.points
        return sizes.kernels[moves, acts], points, points, sizes.marks, self.options

    def _turning(self) -> Turning:
        """Return the near fields and grids of noise with torques."""
        if self._turns is None:
            kernels, plan = self._sizes.kernels, self._plan("velocity", "force")
            self._turns = Turning(plan, (kernels["turn", "force"], kernels["turn", "torque"]))
        return self._turns

    # What differs over ranks: see `parki.distributed.spheres`.
    _splits = True  # whether noise may be drawn apart for far and near field

    def _make(self, *given: Any) -> Any:
        return Plan(*given)

    def _sum(self, given: tuple[Any, ...], dens: Any, want: str | tuple[str, ...]) -> Any:
        """Return a sum whose plan is not kept."""
        return summed(given, dens, want)

    def _together(self, call: str) -> AbstractContextManager[Any]:
        """Raise on all ranks what is raised on one of them; refuse ranks in other calls."""
        return nullcontext()

    def _of_all(self, values: Any) -> Any:
        """Return radii of all ranks, among which are the smallest and the largest ones."""
        return values

    def _total(self, values: Any) -> Any:
        """Return sums over the spheres of all ranks."""
        return values

    def _again(self, points: Any, options: EwaldOptions) -> Spheres:
        """Return the same spheres by other options."""
        return Spheres(points, self.radii, options, viscosity=self.viscosity)

    def _white(self, rng: Any, dtype: Any) -> noise.White:
        return noise.white(rng, dtype)

    def update_points(self, points: Array, *, box: Box | None = None) -> None:
        """Move the spheres, each of which keeps its radius.

        Parameters
        ----------
        points : array, shape (3, N)
        box : array, shape (3, 3), or 3 lengths
            The present box: see `parki.Plan.update_points`. Default: as before.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If there are more or fewer points, or they are impossible.
        """
        with self._together("update_points" + " and box" * (box is not None)):
            given: Any = as_points("points", points)
            if given.shape != self.points.shape:
                raise ParkiValueError(
                    f"points has shape {given.shape}; expected {self.points.shape}, a centre for "
                    "each of the spheres; make new Spheres for another number"
                )
            self._check_heights(given)
        try:
            self._place(given, box)
        except BaseException:
            old = None if box is None else self.options.box
            self._place(self.points, old)  # some plans may have moved
            raise
        self.points = given
        if box is not None:
            self.options = self.options.deformed(box)

    def _place(self, points: Any, box: Any = None) -> None:
        own = {} if box is None else {"box": box}
        for plan in self._plans.values():
            plan.update_points(points, points, **own)

    # ------------------------------------------------------------------ velocities
    def velocities(self, forces: Array | None, torques: Array | None = None) -> Any:
        """Return the velocities of the spheres; with torques, their angular velocities as well.

        Parameters
        ----------
        forces : array, shape (3, N) or (k, 3, N), or None
            Force on each sphere; or k sets of forces at once. None stands for no forces. On a
            tracer it is a force at a point, which does not move the tracer itself.
        torques : array, of the same shape, optional

        Returns
        -------
        array, or tuple of 2 arrays
            Velocities ``U = M F``, ``F / (6 pi viscosity a)`` of a sphere alone. With torques, U
            and angular velocities, ``T / (8 pi viscosity a^3)`` of a sphere alone.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If there are neither forces nor torques, or they are impossible.
        """
        given = self._taken(forces=forces, torques=torques)
        like, turns = torques if forces is None else forces, torques is not None
        found = [as_given(self._moved(moves, given), like) for moves in MOVES[: 1 + turns]]
        return tuple(found) if turns else found[0]

    def _taken(self, **given: Any) -> dict[str, Any]:
        """Return the arrays that are not None, by what acts: first "force", then "torque".

        On all ranks, refuse nothing at all, and impossible arrays.
        """
        names = [name for name, each in given.items() if each is not None]
        with self._together(" and ".join(names)):
            derivatives.refuse_none(given, given.values())
            plan, found = self._plan("velocity", "force"), {}
            for acts, (name, each) in zip(ACTS, given.items(), strict=False):
                if each is not None:
                    found[acts] = like_points(name, each, plan.space, plan.dtype)
                    derivatives.check_shape(name, found[acts], self.points.shape)
            derivatives.check_alike(given, *found.values())
        return found

    def _moved(self, moves: str, given: dict[str, Any]) -> Any:
        """Return velocities or turns by what acts, by name."""
        first, *others = self._parts(moves, given)
        for each in others:
            first += each
        return first

    def _parts(self, moves: str, given: dict[str, Any], want: str = "u") -> Iterator[Any]:
        """Yield the parts of each sphere's velocity that forces and torques make.

        ``want`` may be "grad_u": then it is the gradient (..., 3, 3, N) by their own positions.
        """
        if want != "u" and self.options.walled:
            raise wall.lacking("derivatives by points")
        for acts, values in given.items():
            if want == "u":
                each = self._plan(moves, acts)(values)
            else:
                *points, options = self._given(moves, acts)
                each = self._sum((*points, options.of_derivatives()), values, want)
            each *= each.dtype.type(KINDS[moves, acts][2] * self.factor)
            yield each

    def flow(
        self, forces: Array | None, points: Array, torques: Array | None = None, *, want: Any = "u"
    ) -> Any:
        """Return the fluid's velocity elsewhere, and what else is wanted, of forces and torques.

        Inside of a sphere it is the velocity that what acts on its surface makes there.

        Parameters
        ----------
        forces : array, shape (3, N), or None
        points : array, shape (3, M)
        torques : array, shape (3, N), optional
        want : {"u", "p", "grad_u", "stress"}, or a tuple of these
            The velocity, pressure, gradient ``[i, j] = d u_i / d x_j`` and stress of the fluid.

        Returns
        -------
        array, or tuple of arrays
            Shapes (3, M), (M,), (3, 3, M), (3, 3, M).
        """
        with self._together(f"flow of {want!r}"):
            names = check_want("stokes_sl", want)
        found: dict[str, Any] = dict.fromkeys(names, 0.0)
        for acts, values in self._taken(forces=forces, torques=torques).items():
            for name, each in self._flow(acts, values, points, names):
                found[name] = found[name] + each
        return found[want] if isinstance(want, str) else tuple(found.values())

    def _flow(
        self, acts: str, values: Any, points: Array, names: tuple[str, ...]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the parts of the flow that forces or torques make, by name."""
        # Torques make no pressure, and their sums have no stress.
        of = {"stress": "grad_u", "p": "u"} if acts == "torque" else {}
        asked = tuple(dict.fromkeys(of.get(name, name) for name in names))
        if self.options.walled:
            sums = wall.flow(self, acts, points, values, asked)
        else:
            marks = self._sizes.marks
            if marks is not None:
                marks = np.zeros(as_points("points", points).shape[1]), marks
            given = self._sizes.flow(acts), points, self.points, marks, self.options
            sums = self._sum(given, values, asked)
        flow = dict(zip(asked, sums, strict=True))
        for each in names:
            value = flow[of.get(each, each)]
            if of and each == "p":
                value = 0 * value[..., 0, :]
            elif of and each == "stress":
                value = value + value.swapaxes(-3, -2)
            scale = self.factor if each in ("u", "grad_u") else 1 / (8 * math.pi)
            yield each, value.dtype.type(scale) * value

    # ------------------------------------------------------------------ derivatives
    def vjp(
        self,
        forces: Array | None,
        torques: Array | None = None,
        *,
        values: Array | None,
        turns: Array | None = None,
        wrt: tuple[str, ...] = ("forces", "points"),
    ) -> dict[str, Any]:
        """Return the derivatives of ``<values, U> + <turns, W>`` by forces, torques and positions.

        U and W are the velocities and angular velocities that `velocities` returns.

        Parameters
        ----------
        forces, torques : array, shape (3, N) or (k, 3, N), or None
            As for `velocities`. Derivatives by them alone do not depend on them.
        values, turns : array, of the same shape, or None
            Weights of the velocities, and of the angular velocities.
        wrt : tuple of {"forces", "torques", "points"}
            What to differentiate by.

        Returns
        -------
        dict of str to array
            By the names of ``wrt``: by forces and torques in their shape, by points (3, N), summed
            over k sets of forces.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If an argument is impossible, or there are neither forces nor torques, or no weights.
        """
        return derivatives.vjp(self, (forces, torques), (values, turns), wrt)

    def jvp(
        self, forces: Array | None, torques: Array | None = None, *, tangents: dict[str, Array]
    ) -> Any:
        """Return the first-order change of what `velocities` returns.

        Parameters
        ----------
        forces, torques : array, shape (3, N) or (k, 3, N), or None
            As for `velocities`.
        tangents : dict of str to array
            Changes of "forces", "torques" and "points", in their shapes. What is left out does not
            change.

        Returns
        -------
        array, or tuple of 2 arrays
            As of `velocities`; with torques, or changes of torques, two arrays.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If an argument is impossible.
        """
        return derivatives.jvp(self, (forces, torques), tangents)

    # ------------------------------------------------------------------ noise
    def displacements(
        self,
        kT: float,
        dt: float,
        rng: Any,
        forces: Array | None = None,
        torques: Array | None = None,
        *,
        accuracy: float = 1e-3,
    ) -> Any:
        """Return a Brownian step: ``M F dt``, and noise of covariance ``2 kT dt M``.

        Without a wall the divergence of this mobility is zero: there is no drift to add. Near a
        wall the drift ``kT dt div M`` is in the step, by a random finite difference.

        Parameters
        ----------
        kT, dt : float
            Thermal energy, and duration of the step.
        rng : numpy.random.Generator or cupy.random.Generator
            From the library of the points. Its noise is the same for any number of threads.
        forces, torques : array, shape (3, N), optional
        accuracy : float
            Relative error of the noise, as its last changes suggest it, at which its iteration
            stops.

        Returns
        -------
        array, shape (3, N), or tuple of 2 arrays
            Displacements; with torques, displacements and rotation vectors.

        Raises
        ------
        ParkiValueError
            As of `noise`.
        """
        with self._together(f"displacements by kT={kT}, dt={dt}"):
            for name, value in (("kT", kT), ("dt", dt)):
                if not 0 <= number(name, value, "a number, 0 or more") < math.inf:
                    raise ParkiValueError(f"{name} is {value!r}; expected a number, 0 or more")
        turns, moved = torques is not None, list[Any]()
        if forces is not None or turns:
            noise.expect(self)
            found = self.velocities(forces, torques)
            moved = [dt * each for each in (found if turns else (found,))]
        drawn = self._noise(rng, turns, accuracy, math.sqrt(2 * kT * dt))
        steps = [*drawn] if turns else [drawn]
        if self.options.walled and kT * dt:
            white = self._white(rng, steps[0].dtype)
            drifts = wall.divergence(self, white, MOVES[: 1 + turns])
            steps = [step + kT * dt * each for step, each in zip(steps, drifts, strict=True)]
        if moved:
            steps = [step + each for step, each in zip(steps, moved, strict=True)]
        return tuple(steps) if turns else steps[0]

    def noise(self, rng: Any, *, torques: bool = False, accuracy: float = 1e-3) -> Any:
        """Return normal numbers whose covariance is the mobility M: for other integrators.

        Parameters
        ----------
        rng, accuracy
            As for `displacements`.
        torques : bool
            Whether rotations are wanted as well.

        Returns
        -------
        array, shape (3, N), or tuple of 2 arrays

        Raises
        ------
        ParkiValueError
            With one or two periodic axes and no wall, where the mean velocity of a cell depends on
            a gauge, and the mobility is not positive; and for tracers, which have no noise.
        """
        found = self._noise(rng, flag("torques", torques), accuracy)
        return (found[0], found[1]) if torques else found

    def _noise(self, rng: Any, torques: bool, accuracy: float, size: float = 1.0) -> Any:
        """Return ``size`` times what `noise` does; with torques, as one array."""
        with self._together(f"noise{' of torques' if torques else ''} to {accuracy}"):
            self._check_noise()
        white = self._white(rng, self._plan("velocity", "force").dtype)
        return noise.drawn(self, white, torques, accuracy, size)

    def _check_noise(self) -> None:
        if sum(self.options.periodic) in (1, 2) and not self.options.walled:
            raise ParkiValueError(
                f"noise with periodicity={self.options.periodicity} is not defined: the mean "
                "velocity of a cell depends on the gauge there, and the mobility is not positive; "
                "take periodicity 0 or 3, or a wall"
            )
        if not self._sizes.smallest:
            raise ParkiValueError(
                "noise of tracers is not defined: their own mobility is infinite; give all "
                "spheres a radius"
            )

    # ------------------------------------------------------------------ views
    def promise(self, forces: Array) -> Any:
        """Return the bound of the rms error of the velocities that the tolerance promises.

        ``tolerance * sqrt(sum |F|^2) / (8 pi viscosity l)``, l the cube root of the box's volume,
        for spheres of any radii.
        """
        taken = self._taken(forces=forces)["force"]
        return self.factor * self._plan("velocity", "force").promise(taken)

    def check(self, forces: Array) -> Check:
        """Measure the error of the velocities, by a sum of other parameters.

        That sum is in double precision, by Hasimoto's split, at a tolerance 100 times smaller.

        Returns
        -------
        Check
            The rms error, the promise, and the rms of the velocities.
        """
        given = self._taken(forces=forces)["force"]
        tolerance = max(self.options.tolerance / FINER, SMALLEST_TOLERANCE[np.dtype(np.float64)])
        finer = replace(
            self.options, tolerance=tolerance, precision="double", split="hasimoto", cutoff=None
        )
        other = self._again(self.points.astype(np.float64), finer)
        exact = other.velocities(given.astype(np.float64))
        apart = self.velocities(given) - exact
        squares = [float((v * v).sum()) for v in (apart, exact)]
        *squares, count = self._total(np.array([*squares, exact.shape[-1]]))
        sizes = [math.sqrt(each / count) for each in squares]
        return Check(sizes[0], float(self.promise(forces)), sizes[1], tolerance)

    def as_linear_operator(self, *, torques: bool = False) -> Any:
        """Return the mobility as an operator of SciPy, on a device of CuPy.

        Parameters
        ----------
        torques : bool
            Whether it takes forces and torques to velocities and angular velocities: of shape
            (2, 3, N), flattened. Otherwise it takes forces (3, N), flattened.
        """
        plan = self._plan("velocity", "force")
        shape = ((2,) if flag("torques", torques) else ()) + tuple(self.points.shape)

        def product(values: Any) -> Any:
            if not torques:
                return self.velocities(values)
            xp = plan.task.xp
            return xp.stack(self.velocities(values[..., 0, :, :], values[..., 1, :, :]), axis=-3)

        return linear_operator(product, product, (shape, shape), plan.dtype, plan.space)

    def describe(self) -> str:
        """Return the chosen parameters, as text."""
        head = f"spheres: {self._sizes}; viscosity {self.viscosity:g}"
        return "\n".join([head, *(plan.describe() for plan in self._plans.values())])

    def __repr__(self) -> str:
        return f"<parki.Spheres: {self.points.shape[1]}, {self.options.periods}>"
