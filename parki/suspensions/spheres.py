"""`Spheres`: the mobility of spheres by Rotne, Prager and Yamakawa, in physical units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.placed_sum import sum_once
from parki.ewald.plan import Plan
from parki.ewald.points import take_options
from parki.ewald.sums import kernel
from parki.interchange import as_array, as_given, to_host
from parki.suspensions.noise import Noise
from parki.typing import Array, OptionKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

MOST_RADII = 8  # different ones, each pair of which is a sum of its own


class Spheres:
    """Spheres in a viscous fluid: set up once, apply to many forces, move in time.

    Forces are spread over the surfaces of spheres, and velocities are averaged over them (Rotne and
    Prager 1969; overlaps by Zuk, Wajnryb, Mizerski and Szymczak 2014). The mobility is symmetric
    and positive, for spheres that overlap and for images across the faces of the box, too.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
        Centres, in the unit of ``options.box``.
    radii : float, or array of shape (N,)
        One radius, or one for each sphere; 0 for a tracer, which moves with the fluid. At most
        eight different ones.
    options : EwaldOptions
    viscosity : float
        Of the fluid.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``.

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
        given = as_array("points", points)
        self._groups = _groups(radii, given.shape[-1])
        self._plans: dict[tuple[int, int], Plan] = {}
        self.points = self._place(given)

    @property
    def radii(self) -> Any:
        """The radius of each sphere, shape (N,), float64, on the host."""
        found = np.empty(sum(len(members) for _, members in self._groups))
        for radius, members in self._groups:
            found[members] = radius
        return found

    @property
    def factor(self) -> float:
        """What the sums are multiplied by: ``1 / (8 pi viscosity)``."""
        return 1 / (8 * math.pi * self.viscosity)

    def _place(self, points: Any) -> Any:
        """Make plans for points, or give them these; return the points."""
        clouds = [self._of(points, members) for _, members in self._groups]
        for t, (radius, _) in enumerate(self._groups):
            for s, (other, _) in enumerate(self._groups):
                if (t, s) in self._plans:
                    self._plans[t, s].update_points(clouds[t], clouds[s])
                elif radius or other:
                    name = kernel("stokes_spheres", radius=radius, source_radius=other)
                    self._plans[t, s] = Plan(name, clouds[t], clouds[s], self.options)
                else:
                    self._plans[t, s] = Plan("stokes_sl", clouds[t], clouds[s], self.options)
        return points

    def _of(self, values: Any, members: Any) -> Any:
        """Return the columns of a group; all of them, if there is one group."""
        return values if len(self._groups) == 1 else values[..., members]

    def update_points(self, points: Array) -> None:
        """Move the spheres, each of which keeps its radius.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If there are more or fewer points, or they are impossible.
        """
        given = as_array("points", points)
        if given.shape != self.points.shape:
            raise ParkiValueError(
                f"points has shape {given.shape}; expected {self.points.shape}, a centre for each "
                "of the spheres; make new Spheres for another number"
            )
        self.points = self._place(given)

    def velocities(self, forces: Array) -> Any:
        """Return the velocities of the spheres under forces.

        Parameters
        ----------
        forces : array, shape (3, N), or (k, 3, N)
            Force on each sphere; or k sets of forces at once. On tracers it is a force at a point,
            which does not move the tracer itself.

        Returns
        -------
        array, of the shape of ``forces``
            ``U_i = sum_j M_ij F_j``, with ``F_i / (6 pi viscosity a_i)`` of its own force.
        """
        given: Any = as_array("forces", forces)
        if len(self._groups) == 1:
            found = self._plans[0, 0](given)
        else:
            found = 0 * given
            for (t, s), plan in self._plans.items():
                parts = plan(self._of(given, self._groups[s][1]))
                found[..., self._groups[t][1]] += parts
        found *= self.factor
        return as_given(found, forces)

    def flow(self, forces: Array, points: Array, *, want: Any = "u") -> Any:
        """Return the fluid's velocity elsewhere, and what else is wanted, for forces on spheres.

        Inside of a sphere it is the velocity that the forces on its surface make there.

        Parameters
        ----------
        forces : array, shape (3, N)
        points : array, shape (3, M)
        want : {"u", "p", "grad_u", "stress"}, or a tuple of these
            As for `parki.stokes_sl`: the velocity, pressure, gradient and stress of the fluid.

        Returns
        -------
        array, or tuple of arrays
            Shapes (3, M), (M,), (3, 3, M), (3, 3, M).
        """
        given: Any = as_array("forces", forces)
        names = (want,) if isinstance(want, str) else tuple(want)
        found: list[Any] = [0] * len(names)
        for radius, members in self._groups:
            name = "stokes_sl"
            if radius:
                name = kernel("stokes_spheres", radius=0.0, source_radius=radius)
            cloud = name, points, self._of(self.points, members), None, self.options
            sums = sum_once(cloud, self._of(given, members), names)
            found = [before + each for before, each in zip(found, sums, strict=True)]
        scales = {"u": self.factor, "grad_u": self.factor}
        rest = 1 / (8 * math.pi)
        found = [each * scales.get(name, rest) for name, each in zip(names, found, strict=True)]
        return found[0] if isinstance(want, str) else tuple(found)

    def displacements(
        self, kT: float, dt: float, rng: Any, forces: Array | None = None, *, accuracy: float = 1e-3
    ) -> Any:
        """Return a Brownian step: ``M F dt``, and noise of covariance ``2 kT dt M``.

        The divergence of this mobility is zero, so that there is no drift to add.

        Parameters
        ----------
        kT, dt : float
            Thermal energy, and duration of the step.
        rng : numpy.random.Generator or cupy.random.Generator
            Of the library of the points. A seed gives the same noise for any number of threads.
        forces : array, shape (3, N), optional
        accuracy : float
            Relative change of the near field's noise by which its iteration stops.

        Returns
        -------
        array, shape (3, N)

        Raises
        ------
        ParkiValueError
            With one or two periodic axes, where the mean velocity of a cell depends on a gauge and
            the mobility is not positive.
        """
        for name, value in (("kT", kT), ("dt", dt)):
            if not 0 <= value < math.inf:
                raise ParkiValueError(f"{name} is {value!r}; expected a number, 0 or more")
        step = math.sqrt(2 * kT * dt) * self.noise(rng, accuracy=accuracy)
        if forces is not None:
            step += dt * as_array("forces", self.velocities(forces))
        return step

    def noise(self, rng: Any, *, accuracy: float = 1e-3) -> Any:
        """Return a vector (3, N) of normal numbers whose covariance is the mobility M.

        Parameters
        ----------
        rng, accuracy
            As for `displacements`, where errors are listed.
        """
        if self.options.periodicity in (1, 2):
            raise ParkiValueError(
                f"noise with periodicity={self.options.periodicity} is not defined: the mean "
                "velocity of a cell depends on the gauge there, and the mobility is not positive; "
                "take 0 or 3"
            )
        if not all(radius for radius, _ in self._groups):
            raise ParkiValueError("noise needs spheres; a tracer of radius 0 has no noise")
        found = Noise(self._plans, [members for _, members in self._groups]).draw(rng, accuracy)
        return math.sqrt(self.factor) * found

    def promise(self, forces: Array) -> Any:
        """Return what the tolerance promises: the bound of the rms error of the velocities.

        It is ``tolerance * sqrt(sum |F|^2) / (8 pi viscosity l)``, l the cube root of the box's
        volume, for spheres of any radius.
        """
        given: Any = as_array("forces", forces)
        bounds = [
            plan.promise(self._of(given, self._groups[s][1]))
            for (t, s), plan in self._plans.items()
            if t == 0
        ]
        return self.factor * np.sqrt(sum(np.square(bound) for bound in bounds))

    def as_linear_operator(self) -> Any:
        """Return the mobility as a SciPy (or CuPy) operator on flattened forces, (3 N, 3 N)."""
        from parki.ewald.derivatives.linear_operator import linear_operator

        plan = self._plans[0, 0]
        shape = tuple(self.points.shape)
        return linear_operator(
            self.velocities, self.velocities, (shape, shape), plan.dtype, plan.space
        )

    def describe(self) -> str:
        """Return what was chosen, as text."""
        kinds = ", ".join(
            f"{len(members)} of radius {radius:g}" for radius, members in self._groups
        )
        head = f"spheres: {kinds}; viscosity {self.viscosity:g}"
        return "\n".join([head, *(plan.describe() for plan in self._plans.values())])


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
            f"radii has {different.size} different lengths; expected at most {MOST_RADII}: "
            "round them to a few sizes"
        )
    return [(float(each), np.flatnonzero(values == each)) for each in different]
