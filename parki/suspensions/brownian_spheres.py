"""`BrownianSpheres`: noise of placed spheres, the drift near walls, and Brownian steps of both."""

from __future__ import annotations

import math
from typing import Any, Literal

from parki.errors import ParkiValueError
from parki.interchange import flag
from parki.memory import telling
from parki.suspensions import noise, wall
from parki.suspensions.placed_spheres import PlacedSpheres, alone
from parki.suspensions.radii import MOVES
from parki.typing import Array, Seed


@telling
class BrownianSpheres(PlacedSpheres):
    """Spheres that noise moves, too: see `Spheres` for the arguments."""

    def _velocities(self, forces: Array | None, torques: Array | None) -> tuple[Any, ...]:
        """Return velocities and, with torques, turns as arrays of NumPy or CuPy."""
        acts = self._taken(forces=forces, torques=torques)
        moves = MOVES[: 1 + (torques is not None)]
        return self._mobility.products(acts, moves, factor=self.factor)

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
        accuracy: float = 1e-3,
        mean: Literal["zero"] | None = None,
    ) -> Any:
        """Return a Brownian step: ``M F dt``, and noise of covariance ``2 kT dt M``.

        Without a wall the divergence of this mobility is zero: there is no drift to add. Near a
        wall the drift ``kT dt div M`` is in the step, by a random finite difference.

        Parameters
        ----------
        kT, dt : float
            Thermal energy, and duration of the step.
        rng : numpy.random.Generator or cupy.random.Generator
            From the library of the points, or what its ``default_rng`` makes one of: a seed, of
            which each call draws the same numbers, or None. Noise is the same for any number of
            threads.
        forces, torques : array, shape (3, N), optional
        accuracy : float
            Relative error of the noise, as its last changes suggest it, at which its iteration
            stops. Below 1, and above what the dtype of the points holds.
        mean : {"zero"}, optional
            With one or two periodic axes, without walls: "zero" takes out the mean of all
            displacements along the axes of the gauge, and the net force. The fluid is unbounded,
            and its motion as a whole grows without limit. What spheres do relative to each other is
            exact; the diffusion of one sphere in the laboratory is not defined there.

        Returns
        -------
        array, shape (3, N), or tuple of 2 arrays
            Displacements; with torques, displacements and rotation vectors. In the library of the
            points. Without noise, where kT is 0, they are ``M F dt`` for every periodicity and for
            tracers, too.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of `noise`.
        """
        with self._together(f"displacements by kT={kT}, dt={dt}"):
            kT, dt = noise.check_step(kT, dt)
            axes = noise.open_axes(self.options, mean)
        rng = self._generator(
            rng, torques is not None, accuracy, drawn=bool(kT * dt), relative=bool(axes)
        )
        turns, parts = torques is not None, list[Any]()
        if forces is not None or turns:
            if kT * dt:
                self._mobility.expect_noise()
            if axes and forces is not None:
                taken = self._taken(forces=forces)["force"]
                forces = self._mobility.relative(taken, axes)
            moved, *spun = (dt * each for each in self._velocities(forces, torques))
            parts.append([self._mobility.relative(moved, axes), *spun])
        if kT * dt:
            drawn = self._mobility.noise(
                self._white(rng),
                torques=turns,
                accuracy=accuracy,
                factor=self.factor,
                size=math.sqrt(2 * kT * dt),
                without_mean=axes,
            )
            parts.append([*drawn] if turns else [drawn])
        if self.options.walled and kT * dt:
            drifts = wall.divergence(
                self._mobility, self._white(rng), MOVES[: 1 + turns], factor=self.factor
            )
            parts.append([kT * dt * each for each in drifts])
        if not parts:
            return self._back(0 * self._mobility.points)
        steps = [sum(each[1:], each[0]) for each in zip(*parts, strict=True)]
        return self._in_library(steps, turns)

    @alone
    def noise(
        self,
        rng: Seed,
        *,
        torques: bool = False,
        accuracy: float = 1e-3,
        mean: Literal["zero"] | None = None,
    ) -> Any:
        """Return normal numbers whose covariance is the mobility M: for other integrators.

        Parameters
        ----------
        rng, accuracy, mean
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
            With one or two periodic axes, no wall and no ``mean``, where the mean velocity of a
            cell depends on a gauge, and the mobility is not positive; and for tracers, which have
            no noise.
        """
        torques = flag("torques", torques)
        with self._together(f"noise of mean {mean!r}"):
            axes = noise.open_axes(self.options, mean)
        rng = self._generator(rng, torques, accuracy, relative=bool(axes))
        drawn = self._mobility.noise(
            self._white(rng),
            torques=torques,
            accuracy=accuracy,
            factor=self.factor,
            without_mean=axes,
        )
        return self._in_library(drawn) if torques else self._back(drawn)

    @alone
    def divergence(self, rng: Seed, *, torques: bool = False) -> Any:
        """Return numbers whose mean is the divergence of the mobility: for other integrators.

        Near walls it is a random finite difference of two products; without walls it is zero.

        Parameters
        ----------
        rng, torques
            As for `noise`.

        Returns
        -------
        array, shape (3, N), or tuple of 2 arrays
            In the library of the points.

        Raises
        ------
        ParkiTypeError
            If ``rng`` is no generator, and nothing of which one is made.
        """
        torques, xp = flag("torques", torques), self._first.space.array_module
        with self._together(f"divergence{' of torques' * torques}"):
            rng = noise.generator("rng", rng, xp)
        if self.options.walled:
            moves = MOVES[: 1 + torques]
            parts = wall.divergence(self._mobility, self._white(rng), moves, factor=self.factor)
        else:
            parts = [0 * self._mobility.points for _ in range(1 + torques)]
        return self._in_library(parts, torques)

    def _generator(
        self,
        rng: Seed,
        torques: bool,
        accuracy: float,
        drawn: bool = True,
        relative: bool = False,
    ) -> Any:
        """Return a generator of random numbers; refuse noise, if it is drawn, that is not there."""
        plan = self._first
        with self._together(f"noise{' of torques' if torques else ''} to {accuracy}"):
            noise.check_accuracy(accuracy, plan.dtype)
            rng = noise.generator("rng", rng, plan.space.array_module)
            if drawn:
                self._check_noise(relative)
        return rng

    def _check_noise(self, relative: bool) -> None:
        """Refuse noise of a mobility that is not positive and finite."""
        if not self.options.walled and not relative:
            others = "0 or 3, or a wall; or pass mean='zero', which takes the mean of all out"
            noise.refuse_gauge(self.options, others)
        if self._mobility.sizes.tracers:
            raise ParkiValueError(
                "noise of tracers is not defined: their own mobility is infinite; give all "
                "spheres a radius"
            )
