"""`Spheres`: the mobility of spheres by Rotne, Prager and Yamakawa, in physical units."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, overload

import numpy as np

from parki.core import Check, check_want, finer_tolerance
from parki.errors import ParkiValueError, by_words
from parki.interchange import as_given, flag, names_of
from parki.memory import telling
from parki.suspensions import derivatives, wall
from parki.suspensions.brownian_spheres import BrownianSpheres
from parki.suspensions.derivatives import MEANING, NAMES, check_alike
from parki.suspensions.fluid import operator_product
from parki.suspensions.placed_spheres import WORDS, alone
from parki.suspensions.radii import MOVES
from parki.typing import AnyArray, Array, ArrayT, ResultName


@telling
class Spheres(BrownianSpheres):
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
        The centres; to assign others is to call `update_points`. Spheres keep a copy of the array
        that they were given. This one cannot be written to on a CPU; on a device it is another
        copy.
    radii : ndarray, shape (N,), float64
        Cannot be changed.
    options : EwaldOptions
        With the present box. Cannot be changed.
    viscosity : float
        Another one may be assigned.

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

    # ------------------------------------------------------------------ velocities
    @overload
    def velocities(self, forces: ArrayT, torques: None = None) -> ArrayT: ...
    @overload
    def velocities(self, forces: ArrayT | None, torques: ArrayT) -> tuple[ArrayT, ArrayT]: ...
    @alone
    def velocities(self, forces: AnyArray, torques: AnyArray = None) -> Any:
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
        motions = self._velocities(forces, torques)
        return as_given(
            motions if motions[1:] else motions[0], torques if forces is None else forces
        )

    @overload
    def flow(
        self,
        forces: ArrayT | None,
        points: Array,
        torques: ArrayT | None = None,
        *,
        want: ResultName = "u",
    ) -> ArrayT: ...
    @overload
    def flow(
        self,
        forces: ArrayT | None,
        points: Array,
        torques: ArrayT | None = None,
        *,
        want: tuple[ResultName, ...],
    ) -> tuple[ArrayT, ...]: ...
    @alone
    def flow(
        self, forces: AnyArray, points: Array, torques: AnyArray = None, *, want: Any = "u"
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
            Shapes (3, M), (M,), (3, 3, M), (3, 3, M). In the library of the forces.
        """
        with self._together(f"flow of {want!r}"):
            names = check_want("stokes_sl", want)
        totals: dict[str, Any] = dict.fromkeys(names, 0.0)
        for acts, values in self._taken(forces=forces, torques=torques).items():
            flow = self._mobility.flow(acts, values, points, names, factor=self.factor)
            for name, each in flow:
                totals[name] = totals[name] + each
        like = torques if forces is None else forces
        return as_given(totals[want] if isinstance(want, str) else tuple(totals.values()), like)

    # ------------------------------------------------------------------ derivatives
    @alone
    def vjp(
        self,
        forces: Array | None,
        torques: Array | None = None,
        *,
        values: ArrayT | None,
        turns: ArrayT | None = None,
        wrt: tuple[str, ...] = ("forces", "points"),
    ) -> dict[str, ArrayT]:
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
        with self._together("vjp"):
            names_of("wrt", wrt, MEANING, NAMES)
        with self._together(f"vjp by {[name for name in NAMES if name in wrt]}"):
            acts, weights = dict[str, Any](), self._taken(values=values, turns=turns)
        if "points" in wrt:
            acts = self._taken(forces=forces, torques=torques)
            with self._together("vjp"):
                check_alike(("forces", "values"), [*acts.values(), *weights.values()])
        result = derivatives.vjp(self._mobility, acts, weights, wrt, factor=self.factor)
        like: Any = turns if values is None else values
        return {name: as_given(result[name], like) for name in wrt}

    @alone
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
        with self._together("jvp"):
            names_of("tangents", tangents, MEANING, NAMES, mapping=True)
        with self._together(f"jvp by {[name for name in NAMES if name in tangents]}"):
            pass  # the exchanges that follow depend on it
        acts, changes, move = dict[str, Any](), dict[str, Any](), None
        by_acts = tangents.get("forces"), tangents.get("torques")
        if len(tangents) > ("points" in tangents):
            changes = self._taken(forces=by_acts[0], torques=by_acts[1])
        if "points" in tangents:
            acts = self._taken(forces=forces, torques=torques)
            move = self._taken(points=tangents["points"])["force"]
            with self._together("jvp"):
                check_alike(("forces", "their tangents"), [*acts.values(), *changes.values()])
                check_alike(("points", "their tangents"), [self._mobility.points, move])
        turning = torques is not None or by_acts[1] is not None
        moving = derivatives.jvp(
            self._mobility, acts, changes, move, MOVES[: 1 + turning], factor=self.factor
        )
        like = next(iter(tangents.values()))
        results = tuple(as_given(each, like) for each in moving)
        return results if turning else results[0]

    # ------------------------------------------------------------------ views
    def promise(self, forces: Array) -> Any:
        """Return the bound of the rms error of the velocities that the tolerance promises.

        ``tolerance * sqrt(sum |F|^2) / (8 pi viscosity l)``, l the cube root of the box's volume,
        for spheres of any radii.
        """
        taken = self._taken(forces=forces)["force"]
        with by_words(WORDS):
            return self.factor * self._first.promise(taken)

    @alone
    def check(self, forces: Array) -> Check:
        """Measure the error of the velocities, by a sum of other parameters.

        That sum is in double precision, by Hasimoto's split, at a tolerance 100 times smaller.

        Returns
        -------
        Check
            The rms error, the promise, and the rms of the velocities.
        """
        array = self._taken(forces=forces)["force"]
        with self._together("check"):
            if array.ndim > 2:
                raise ParkiValueError(
                    f"forces has shape {tuple(array.shape)}; check takes one set of forces at a "
                    "time, such as forces[0]"
                )
        options, points = self.options, self._mobility.points.astype(np.float64)
        tolerance = finer_tolerance(options.tolerance)
        expert = replace(options.expert, split="hasimoto")
        finer = replace(options, tolerance=tolerance, precision="full", cutoff=None, expert=expert)
        other = self._with(_mobility=self._mobility.elsewhere(points, finer))
        exact = other.velocities(array.astype(np.float64))
        apart = self.velocities(array) - exact
        promise = float(self.promise(array))
        unit = promise or 1.0  # in which squares are finite
        squares = [float(((v / unit) ** 2).sum()) for v in (apart, exact)]
        *squares, count = self._ranks.sum(np.array([*squares, exact.shape[-1]]))
        sizes = [unit * math.sqrt(each / max(count, 1)) for each in squares]
        return Check(sizes[0], promise, sizes[1], tolerance)

    def as_linear_operator(self, *, torques: bool = False) -> Any:
        """Return the mobility as an operator of SciPy, on a device of CuPy.

        Parameters
        ----------
        torques : bool
            Whether it takes forces and torques to velocities and angular velocities: of shape
            (2, 3, N), flattened. Otherwise it takes forces (3, N), flattened. Over ranks it is of
            all spheres: see `parki.Plan.as_linear_operator`.
        """
        plan = self._first
        torques = flag("torques", torques)
        shape = ((2,) if torques else ()) + self._mobility.shape

        product = operator_product(self.velocities, plan.space.array_module, torques)
        with self._together("as_linear_operator"):
            return plan.operator(product, product, (shape, shape))

    def describe(self) -> str:
        """Return the chosen parameters, as text."""
        head = f"spheres: {self._mobility.sizes}; viscosity {self.viscosity:g}"
        lacks = [wall.LACKS if self.options.gap is None else wall.LACKS_BETWEEN]
        lacks = lacks if self.options.walled else []
        return "\n".join([head, *lacks, *(plan.describe() for plan in self._mobility.plans)])

    def __repr__(self) -> str:
        return f"<parki.Spheres: {self._mobility.shape[1]}, {self.options.periods}>"
