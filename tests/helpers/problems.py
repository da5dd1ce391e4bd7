"""Tasks for the choice of parameters, with the cost constants that come with parki."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import i0e, i1e, ive

from parki.ewald.choice import machines
from parki.ewald.choice.grids import POINTS
from parki.ewald.choice.problem import Problem
from parki.ewald.far.padding import EQUAL_LENGTHS
from parki.ewald.lattice import Lattice
from parki.ewald.split.window import KaiserBessel

Array = NDArray[np.float64]


def numbers(file, **changes):
    """Return shipped cost constants, equal for all lengths, except for ``changes``."""
    return replace(
        machines.of_file(machines.shipped(file), "float64"), **{"lengths": EQUAL_LENGTHS} | changes
    )


def problem(density, periodicity=3, box=(1, 1, 1), **changes):
    """Return a sum of 100 000 points on a CPU, except for ``changes``."""
    machine = numbers("avx512.json")
    given = Problem(
        "stokes_comb",
        ("u",),
        "prolate",
        Lattice(np.array(box, dtype=float), periodicity),
        1e-5,
        density,
        100_000,
        100_000,
        machine,
        "staged",
        "owner",
        "target",
        POINTS,
    )
    return replace(given, **changes)


def device(density, **changes):
    """Return the same sum on an H200."""
    changes = {
        "machine": numbers("h200.json"),
        **dict.fromkeys(("p2p", "p2g", "g2p"), "tile"),
        **changes,
    }
    return problem(density, **changes)


class Window(KaiserBessel):
    """The window, with its values and its slope."""

    def __call__(self, r: ArrayLike) -> Array:
        """Window at the distances ``r`` (grid steps), any shape."""
        inside, z = self._bessel_argument(r)
        # The exponentially scaled I0 keeps large beta from overflowing.
        return np.where(inside, i0e(z) * np.exp(z - self.beta) / i0e(self.beta), 0.0)

    def derivative(self, r: ArrayLike) -> Array:
        """Slope of the window, ``dw/dr``, at the distances ``r`` (grid steps), any shape."""
        inside, z = self._bessel_argument(r)
        # I1(z)/z tends to 1/2 at the edge of the support, where z is 0.
        ratio = np.where(z > 0, i1e(z) / np.where(z > 0, z, 1.0), 0.5)
        scale = (self.beta / (self.points / 2)) ** 2 / i0e(self.beta)
        slope = -scale * np.asarray(r, dtype=np.float64) * ratio * np.exp(z - self.beta)
        return np.where(inside, slope, 0.0)

    def curvature(self, r: ArrayLike) -> Array:
        """Second derivative of the window at the distances ``r`` (grid steps), any shape."""
        inside, z = self._bessel_argument(r)
        half, x = self.points / 2, np.asarray(r, dtype=np.float64) / (self.points / 2)
        safe = np.where(z > 0, z, 1.0)
        first = np.where(z > 0, 2 * i1e(z) / safe, 1.0)  # by z^2 / 4, as I0
        second = np.where(z > 0, 4 * ive(2, z) / safe**2, 0.5)
        slope, bend = -(self.beta**2) * x / (2 * half), -(self.beta**2) / (2 * half**2)
        found = (second * slope**2 + first * bend) * np.exp(z - self.beta) / i0e(self.beta)
        return np.where(inside, found, 0.0)

    def _bessel_argument(self, r: ArrayLike) -> tuple[NDArray[np.bool_], Array]:
        """Return whether ``|r| <= a``, and ``beta sqrt(1 - (r/a)^2)`` there (0 elsewhere)."""
        x = np.asarray(r, dtype=np.float64) / (self.points / 2)
        t = (1 - x) * (1 + x)
        return t >= 0, self.beta * np.sqrt(np.maximum(t, 0.0))
