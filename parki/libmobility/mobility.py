"""`Mobility`: the calls that all solvers have, and rows of coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import ParkiValueError, UnavailableError
from parki.interchange import as_array, as_given
from parki.suspensions import Spheres
from parki.suspensions.noise import generator
from parki.typing import AnyArray
from parki.utils import get_array_module

Back = Callable[[Any], Any]


def columns(
    name: str, values: AnyArray, dtype: DTypeLike | None = None, count: int | None = None
) -> tuple[Any, Back]:
    """Return an array of columns (3, N), and a function that gives others the shape of ``values``.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    values : array, shape (N, 3) or (3 N,)
        An array of any library that `parki.interchange` takes.
    dtype : dtype, optional
        The dtype of the columns; float64 for numbers that are not float32, if it is left out.
    count : int, optional
        The number of spheres.

    Raises
    ------
    ParkiValueError
        If the shape is another one.
    """
    array = as_array(name, values)
    shape = array.shape
    rows = shape[1] == 3 if len(shape) == 2 else len(shape) == 1 and array.size % 3 == 0
    if not rows or not array.size or count not in (None, array.size // 3):
        expected = "(N, 3) or (3 N,)" if count is None else f"({count}, 3) or ({3 * count},)"
        raise ParkiValueError(
            f"{name} has shape {shape}; expected {expected}, a row for each sphere"
        )
    if dtype is None:
        dtype = array.dtype if array.dtype == "f4" else "f8"

    def back(result: AnyArray) -> Any:
        return as_given(result.T.copy().reshape(shape), values)

    return array.reshape(-1, 3).T.astype(dtype, order="C"), back


KINDS = ("open", "periodic")
# What the third axis may be, too, and what parki calls it.
WALLS: dict[str, Any] = {"single_wall": "no-slip", "two_walls": ("no-slip", "no-slip")}


class Fluid(NamedTuple):
    """What `initialize` is given, and where the lowest place of the box is."""

    viscosity: float
    radius: Any
    angular: bool
    tolerance: float
    seed: int | None
    options: dict[str, Any]
    floor: float


class Mobility:
    """The calls that all solvers have.

    A program makes a solver, calls ``setParameters``, `initialize` and `setPositions`, and then the
    other calls. They return pairs of linear and angular values; the second one is None without
    ``includeAngular``. Results have the shape, the library and the memory of what was given, and
    the precision of the positions.

    Parameters
    ----------
    periodicityX, periodicityY, periodicityZ : {"open", "periodic"}
        Which axes are periodic; of some solvers the third one is "single_wall" or "two_walls", too.
    """

    precision = "double"  # of the arrays that programs make by it; parki takes both
    walls: tuple[str, ...] = ()  # that the third axis may have

    def __init__(self, periodicityX: str, periodicityY: str, periodicityZ: str) -> None:
        kinds = (periodicityX, periodicityY, periodicityZ)
        for axis, kind in zip("XYZ", kinds, strict=True):
            known = KINDS + (self.walls if axis == "Z" else ())
            if kind not in known:
                raise ParkiValueError(
                    f"periodicity{axis} is {kind!r}; expected {' or '.join(map(repr, known))}; "
                    "DPStokes has walls across Z, and NBody has one"
                )
        self._kinds = kinds
        self.periodic = tuple(kind == "periodic" for kind in kinds)
        self._options: dict[str, Any] | None = None
        self._floor = 0.0
        if kinds == ("open",) * 3:
            self._take((None, None, None), {})
        self._fluid: Fluid | None = None
        self._spheres: Spheres | None = None
        self._back: Back
        self._random: dict[Any, Any] = {}

    def __copy__(self) -> Mobility:
        """Return a solver with spheres of its own."""
        other = type(self)(*self._kinds)
        other.__dict__ |= self.__dict__ | {"_spheres": copy(self._spheres)}
        return other

    def _take(
        self, lengths: tuple[float | None, ...], options: dict[str, Any], floor: float = 0.0
    ) -> None:
        """Keep the lengths of the box and options of parki, for the next `initialize`.

        The box begins at the height ``floor``.
        """
        for axis, length, periodic in zip("XYZ", lengths, self.periodic, strict=True):
            if periodic and length is None:
                raise ParkiValueError(
                    f"L{axis.lower()} is None, but axis {axis} is periodic; give its length"
                )
        wall = WALLS.get(self._kinds[2])
        self._options = {"box": list(lengths), **({"wall": wall} if wall else {}), **options}
        self._floor = floor

    def initialize(
        self,
        viscosity: float,
        hydrodynamicRadius: Any,
        includeAngular: bool = False,
        tolerance: float = 1e-4,
        seed: int | None = None,
        lanczos_callback: None = None,
    ) -> None:
        """Take the fluid and the radius; positions follow.

        Parameters
        ----------
        viscosity : float
        hydrodynamicRadius : float, or array of shape (N,)
            One radius, or here also one for each sphere.
        includeAngular : bool
            Whether there are torques and angular velocities.
        tolerance : float
            As in `EwaldOptions`, and the relative error at which the iteration of noise stops.
        seed : int, optional
            The seed of the noise, which is another one in each run without it.
        lanczos_callback : None
            Nothing else: parki does not call it.

        Raises
        ------
        ParkiValueError, UnavailableError
            If there is a callback, or ``setParameters`` was not called before.
        """
        if lanczos_callback is not None:
            raise ParkiValueError("lanczos_callback is given, but parki calls none; leave it out")
        if self._options is None:
            raise UnavailableError("setParameters was not called; give it the lengths of the box")
        self._fluid = Fluid(
            viscosity,
            hydrodynamicRadius,
            includeAngular,
            tolerance,
            seed,
            self._options,
            self._floor,
        )
        self._random = {}
        self.clean()

    def clean(self) -> None:
        """Forget the spheres and free their memory; `setPositions` places them again."""
        self._spheres = None

    def setPositions(self, positions: AnyArray) -> None:
        """Place the spheres; shape (N, 3) or (3 N,). Their number may change."""
        fluid = self._initialized
        points, self._back = columns("positions", positions)
        points[2] -= fluid.floor
        before, self._spheres = self._spheres, None
        if before is not None and _alike(before.points, points):
            before.update_points(points)
        else:
            before = None
        self._spheres = before or Spheres(
            points,
            fluid.radius,
            viscosity=fluid.viscosity,
            periodicity=self.periodic,
            tolerance=fluid.tolerance,
            **fluid.options,
        )

    # ------------------------------------------------------------------ results
    def Mdot(self, forces: AnyArray = None, torques: AnyArray = None) -> tuple[Any, Any]:
        """Return the velocities by forces and torques, either of which may be left out."""
        acts, backs = self._read(forces, torques)
        return self._pair(self._moved(acts), backs)

    def sqrtMdotW(self, prefactor: float = 1.0) -> tuple[Any, Any]:
        """Return noise whose covariance is the mobility, times ``prefactor``.

        It is refused with one or two periodic axes, as by `Spheres.noise`.
        """
        _, backs = self._read()
        return self._pair(self._noise(prefactor), backs)

    def divM(self, prefactor: float = 1.0) -> tuple[Any, Any]:
        """Return the divergence of the mobility, times ``prefactor``.

        Near walls it is a random finite difference, whose mean it is; without walls it is zero.
        """
        _, backs = self._read()
        return self._pair(self._drift(prefactor), backs)

    def LangevinVelocities(
        self, dt: float, kbt: float, forces: AnyArray = None, torques: AnyArray = None
    ) -> tuple[Any, Any]:
        """Return the velocities of a Brownian step.

        They are ``M F + sqrt(2 kbt / dt) sqrt(M) W + kbt div M``. Without forces and torques the
        first part is left out, and for ``kbt = 0`` both others are.
        """
        if not (0 < dt < math.inf and 0 <= kbt < math.inf):
            raise ParkiValueError(
                f"dt is {dt!r} and kbt is {kbt!r}; expected a positive time, and an energy of 0 or "
                "more"
            )
        acts, backs = self._read(forces, torques)
        velocities = self._moved(acts) if acts else self._nothing()
        if kbt:
            parts = zip(
                velocities, self._noise(math.sqrt(2 * kbt / dt)), self._drift(kbt), strict=True
            )
            velocities = [u + random + drift for u, random, drift in parts]
        return self._pair(velocities, backs)

    # ------------------------------------------------------------------ work
    @property
    def _initialized(self) -> Fluid:
        if self._fluid is None:
            raise UnavailableError(
                "initialize was not called; give it the viscosity and the radius first"
            )
        return self._fluid

    @property
    def _placed(self) -> Spheres:
        if self._spheres is None:
            raise UnavailableError("setPositions was not called; place the spheres first")
        return self._spheres

    def _read(
        self, forces: AnyArray = None, torques: AnyArray = None
    ) -> tuple[dict[str, Any], list[Back]]:
        """Return forces and torques as columns, and for each result the way back to rows."""
        points, acts, backs = self._placed.points, {}, {}
        if torques is not None and not self._initialized.angular:
            raise ParkiValueError(
                "torques are given, but includeAngular is False; call "
                "initialize(..., includeAngular=True)"
            )
        for name, values in (("forces", forces), ("torques", torques)):
            if values is not None:
                acts[name], backs[name] = columns(name, values, points.dtype, points.shape[1])
        other = next(iter(backs.values()), self._back)
        return acts, [backs.get(name, other) for name in ("forces", "torques")]

    def _pair(self, results: list[Any], backs: list[Back]) -> tuple[Any, Any]:
        """Return linear and angular results in the shapes of forces and torques."""
        linear, *angular = (back(result) for back, result in zip(backs, results, strict=False))
        return linear, angular[0] if angular else None

    def _nothing(self) -> list[Any]:
        return [0 * self._placed.points for _ in range(1 + self._initialized.angular)]

    def _moved(self, acts: dict[str, AnyArray]) -> list[Any]:
        forces: Any = acts.get("forces")
        torques: Any = acts.get("torques")
        if not self._initialized.angular:
            return [self._placed.velocities(forces)]
        if torques is None and forces is not None:
            torques = 0 * forces
        return list(self._placed.velocities(forces, torques))

    def _generator(self) -> Any:
        """Return the stream of random numbers of the library of the points."""
        xp = np if isinstance(self._placed.points, np.ndarray) else get_array_module("GPU")
        if xp not in self._random:
            self._random[xp] = generator("seed", self._initialized.seed, xp)
        return self._random[xp]

    def _noise(self, size: float) -> list[Any]:
        spheres, fluid = self._placed, self._initialized
        noise = spheres.noise(self._generator(), torques=fluid.angular, accuracy=fluid.tolerance)
        return [size * values for values in (noise if fluid.angular else (noise,))]

    def _drift(self, size: float) -> list[Any]:
        angular = self._initialized.angular
        drift = self._placed.divergence(self._generator(), torques=angular)
        return [size * values for values in (drift if angular else (drift,))]


def _alike(old: AnyArray, new: AnyArray) -> bool:
    """Whether new points can take the place of old ones."""
    return (type(old), old.shape, old.dtype) == (type(new), new.shape, new.dtype)
