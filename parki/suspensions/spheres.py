"""`Spheres`: the mobility of spheres by Rotne, Prager and Yamakawa, in physical units."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.checks import FINER, Check
from parki.ewald.derivatives.linear_operator import linear_operator
from parki.ewald.options import SMALLEST_TOLERANCE, EwaldOptions
from parki.ewald.pipeline.placed_sum import sum_once
from parki.ewald.plan import Plan
from parki.ewald.points import take_options
from parki.ewald.sums import kernel
from parki.interchange import as_array, as_given, to_host
from parki.suspensions import noise
from parki.typing import Array, OptionKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

MOST_RADII = 8  # different ones, each pair of which is a sum of its own
# What moves by what: the kernel, with the names of the radii of what moves and of what acts on it,
# and the factor of its sum.
KINDS = {
    ("velocity", "force"): ("sphere_sl", ("radius", "source_radius"), 1.0),
    ("velocity", "torque"): ("sphere_curl", ("moving", "turning"), 1.0),
    ("turn", "force"): ("sphere_curl", ("turning", "moving"), 1.0),
    ("turn", "torque"): ("sphere_turns", ("radius", "source_radius"), 0.5),
}


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
        One radius, or one for each sphere; 0 for a tracer, which moves with the fluid. At most
        eight different ones.
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
        _, self.options = take_options(None, options, keywords)
        if not 0 < viscosity < math.inf:
            raise ParkiValueError(f"viscosity is {viscosity!r}; expected a positive number")
        self.viscosity = float(viscosity)
        self.points: Any = as_array("points", points)
        self._groups = _groups(radii, self.points.shape[-1])
        self._clouds = self._cut(self.points)
        self._plans: dict[tuple[str, str, int, int], Plan] = {}
        self._plan("velocity", "force", 0, 0)  # refuses impossible points

    @property
    def radii(self) -> Any:
        """The radius of each sphere."""
        found = np.empty(self.points.shape[1])
        for radius, members in self._groups:
            found[members] = radius
        return found

    @property
    def factor(self) -> float:
        """What the sums are multiplied by: ``1 / (8 pi viscosity)``."""
        return 1 / (8 * math.pi * self.viscosity)

    def _cut(self, values: Any) -> list[Any]:
        """Return the columns of each group; ``values`` itself, if there is one group."""
        if len(self._groups) == 1:
            return [values]
        return [values[..., members] for _, members in self._groups]

    def _plan(self, moves: str, acts: str, t: int, s: int) -> Plan:
        """Return the plan of what moves in group t by what acts on group s."""
        key = moves, acts, t, s
        if key not in self._plans:
            family, (own, other), _ = KINDS[moves, acts]
            name = kernel(family, **{own: self._groups[t][0], other: self._groups[s][0]})
            self._plans[key] = Plan(name, self._clouds[t], self._clouds[s], self.options)
        return self._plans[key]

    def update_points(self, points: Array) -> None:
        """Move the spheres, each of which keeps its radius.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If there are more or fewer points, or they are impossible.
        """
        given: Any = as_array("points", points)
        if given.shape != self.points.shape:
            raise ParkiValueError(
                f"points has shape {given.shape}; expected {self.points.shape}, a centre for each "
                "of the spheres; make new Spheres for another number"
            )
        clouds = self._cut(given)
        for (_, _, t, s), plan in self._plans.items():
            plan.update_points(clouds[t], clouds[s])
        self.points, self._clouds = given, clouds

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
        acts = {"force": forces, "torque": torques}
        like = next((each for each in acts.values() if each is not None), None)
        if like is None:
            raise ParkiTypeError("forces and torques are None; give one of them, or both")
        given = {
            name: as_array(f"{name}s", each) for name, each in acts.items() if each is not None
        }
        velocities = as_given(self._moved("velocity", given), like)
        if torques is None:
            return velocities
        return velocities, as_given(self._moved("turn", given), like)

    def _moved(self, moves: str, given: dict[str, Any]) -> Any:
        """Return velocities or turns by what acts, by name."""
        found: Any = None
        for acts, values in given.items():
            factor, parts = KINDS[moves, acts][2] * self.factor, self._cut(values)
            for t, (_, members) in enumerate(self._groups):
                place = members if len(self._groups) > 1 else slice(None)
                for s, part in enumerate(parts):
                    each = self._plan(moves, acts, t, s)(part)
                    each *= each.dtype.type(factor)
                    if found is None:
                        found = each if len(self._groups) == 1 else 0 * values
                        if found is each:
                            continue
                    found[..., place] += each
        return found

    def flow(self, forces: Array, points: Array, *, want: Any = "u") -> Any:
        """Return the fluid's velocity elsewhere, and what else is wanted, for forces on spheres.

        Inside of a sphere it is the velocity that the forces on its surface make there.

        Parameters
        ----------
        forces : array, shape (3, N)
        points : array, shape (3, M)
        want : {"u", "p", "grad_u", "stress"}, or a tuple of these
            The velocity, pressure, gradient ``[i, j] = d u_i / d x_j`` and stress of the fluid.

        Returns
        -------
        array, or tuple of arrays
            Shapes (3, M), (M,), (3, 3, M), (3, 3, M).
        """
        names = (want,) if isinstance(want, str) else tuple(want)
        rest = 1 / (8 * math.pi)
        scales = {"u": self.factor, "grad_u": self.factor}
        found: list[Any] = [0] * len(names)
        parts = self._cut(as_array("forces", forces))
        for (radius, _), cloud, part in zip(self._groups, self._clouds, parts, strict=True):
            name = kernel("sphere_sl", radius=0.0, source_radius=radius)
            sums = sum_once((name, points, cloud, None, self.options), part, names)
            found = [
                before + scales.get(n, rest) * each
                for n, before, each in zip(names, found, sums, strict=True)
            ]
        return found[0] if isinstance(want, str) else tuple(found)

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

        The divergence of this mobility is zero: there is no drift to add.

        Parameters
        ----------
        kT, dt : float
            Thermal energy, and duration of the step.
        rng : numpy.random.Generator or cupy.random.Generator
            From the library of the points. Its noise is the same for any number of threads.
        forces, torques : array, shape (3, N), optional
        accuracy : float
            Relative change of the noise in a step of its iteration, at which it stops.

        Returns
        -------
        array, shape (3, N), or tuple of 2 arrays
            Displacements; with torques, displacements and rotation vectors.

        Raises
        ------
        ParkiValueError
            As of `noise`.
        """
        for name, value in (("kT", kT), ("dt", dt)):
            if not 0 <= value < math.inf:
                raise ParkiValueError(f"{name} is {value!r}; expected a number, 0 or more")
        turns = torques is not None
        steps = self.noise(rng, torques=turns, accuracy=accuracy)
        size = math.sqrt(2 * kT * dt)
        steps = [size * each for each in (steps if turns else (steps,))]
        if forces is not None or turns:
            moved = self.velocities(forces, torques)
            moved = moved if turns else (moved,)
            steps = [step + dt * each for step, each in zip(steps, moved, strict=True)]
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
            With one or two periodic axes, where the mean velocity of a cell depends on a gauge, and
            the mobility is not positive; and for tracers, which have no noise.
        """
        if sum(self.options.periodic) in (1, 2):
            raise ParkiValueError(
                f"noise with periodicity={self.options.periodicity} is not defined: the mean "
                "velocity of a cell depends on the gauge there, and the mobility is not positive; "
                "take periodicity 0 or 3"
            )
        if not all(radius for radius, _ in self._groups):
            raise ParkiValueError(
                "noise of tracers is not defined: their own mobility is infinite; give all "
                "spheres a radius"
            )
        plan = self._plan("velocity", "force", 0, 0)
        white = noise.white(rng, plan.dtype)
        shape = self.points.shape
        if torques:
            radii = plan.task.xp.asarray(self.radii, dtype=plan.dtype)
            # So scaled, a sphere alone has the same mobility for forces and torques.
            scales = plan.task.xp.stack([(3 * radii / 4) ** 0.5, radii**1.5])[:, None]
            scales = scales / plan.dtype.type(math.sqrt(self.factor))

            def matrix(values: Any) -> Any:
                given = dict(zip(("force", "torque"), values * scales, strict=True))
                moved = [self._moved(moves, given) for moves in ("velocity", "turn")]
                return plan.task.xp.stack(moved) * scales

            found = noise.root(matrix, white((2, *shape)), accuracy) / scales
            return found[0], found[1]
        size = math.sqrt(self.factor)
        if len(self._groups) == 1 and self.options.periodicity == 3:
            return size * noise.split(plan, white, accuracy)
        given = white(shape)
        return noise.root(lambda v: self._moved("velocity", {"force": v}), given, accuracy)

    # ------------------------------------------------------------------ views
    def promise(self, forces: Array) -> Any:
        """Return what the tolerance promises: the bound of the rms error of the velocities.

        ``tolerance * sqrt(sum |F|^2) / (8 pi viscosity l)``, l the cube root of the box's volume,
        for spheres of one radius; with more radii the bounds of all pairs of radii, added.
        """
        parts = self._cut(as_array("forces", forces))
        pairs = [(t, s) for t in range(len(parts)) for s in range(len(parts))]
        bounds = [self._plan("velocity", "force", t, s).promise(parts[s]) for t, s in pairs]
        return self.factor * sum(bounds)

    def check(self, forces: Array) -> Check:
        """Measure the error of the velocities, by a sum of other parameters.

        That sum is in double precision, by Hasimoto's split, at a tolerance 100 times smaller.

        Returns
        -------
        Check
            The rms error, the promise, and the rms of the velocities.
        """
        given: Any = as_array("forces", forces)
        tolerance = max(self.options.tolerance / FINER, SMALLEST_TOLERANCE[np.dtype(np.float64)])
        finer = replace(
            self.options, tolerance=tolerance, precision="double", split="hasimoto", cutoff=None
        )
        other = Spheres(self.points.astype(np.float64), self.radii, finer, viscosity=self.viscosity)
        exact = other.velocities(given.astype(np.float64))
        found: Any = as_array("forces", self.velocities(forces))
        sizes = [float((v * v).sum() / v.shape[-1]) ** 0.5 for v in (found - exact, exact)]
        return Check(sizes[0], float(self.promise(forces)), sizes[1], tolerance)

    def as_linear_operator(self, *, torques: bool = False) -> Any:
        """Return the mobility as an operator of SciPy, on a device of CuPy.

        Parameters
        ----------
        torques : bool
            Whether it takes forces and torques to velocities and angular velocities: of shape
            (2, 3, N), flattened. Otherwise it takes forces (3, N), flattened.
        """
        plan = self._plan("velocity", "force", 0, 0)
        shape = ((2,) if torques else ()) + tuple(self.points.shape)

        def product(values: Any) -> Any:
            if not torques:
                return self.velocities(values)
            xp = plan.task.xp
            return xp.stack(self.velocities(values[..., 0, :, :], values[..., 1, :, :]), axis=-3)

        return linear_operator(product, product, (shape, shape), plan.dtype, plan.space)

    def describe(self) -> str:
        """Return what was chosen, as text."""
        kinds = ", ".join(f"{len(own)} of radius {radius:g}" for radius, own in self._groups)
        head = f"spheres: {kinds}; viscosity {self.viscosity:g}"
        return "\n".join([head, *(plan.describe() for plan in self._plans.values())])

    def __repr__(self) -> str:
        return f"<parki.Spheres: {self.points.shape[1]}, {self.options.periods}>"


def _groups(radii: Any, count: int) -> list[tuple[float, Any]]:
    """Return each radius with the spheres that have it."""
    try:
        values = np.array(to_host(radii), dtype=np.float64)
    except (TypeError, ValueError):
        raise ParkiTypeError(
            f"radii is {radii!r}; expected a length, or one for each sphere"
        ) from None
    if values.ndim and values.shape != (count,):
        raise ParkiValueError(
            f"radii has shape {values.shape}; expected one number, or shape ({count},)"
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ParkiValueError("radii has negative or infinite numbers, or NaN; expected lengths")
    if not values.ndim:
        return [(float(values), np.arange(count))]
    different = np.unique(values)
    if different.size > MOST_RADII:
        raise ParkiValueError(
            f"radii has {different.size} different lengths; expected at most {MOST_RADII}: round "
            "them to a few sizes"
        )
    return [(float(each), np.flatnonzero(values == each)) for each in different]
