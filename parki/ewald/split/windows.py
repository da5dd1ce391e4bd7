"""Other windows than Kaiser-Bessel: B-splines, M'4 and the prolate function.

Each of them is a `parki.ewald.split.window.Window`. B-splines and M'4 are piecewise polynomials,
which the tables hold exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

from parki.errors import ParkiValueError
from parki.ewald.split.prolate import legendre_series
from parki.ewald.split.quadrature import gauss
from parki.ewald.split.window import KaiserBessel, default_degree, fit
from parki.interchange import positive, shown, whole
from parki.typing import AnyArray

Array = NDArray[np.float64]
ORDERS = range(2, 11)  # orders of B-splines
POINTS = range(2, 19)  # points of other windows
MOST_SHAPE = 100.0  # beyond this shape only the middle of a window is not negligible
NODES = 80  # quadrature nodes of a transform, for wavenumbers of a grid and some images


@dataclass(frozen=True)
class BSpline:
    """The cardinal B-spline of an order: a polynomial of degree ``order`` - 1 on each grid step.

    Essmann et al. (1995), equation (4.1); Guo et al. (2015) spread with orders 4 and 6. Its values
    at the points of a grid sum to 1.

    Parameters
    ----------
    order : int
        Order, from 2 to 10. The window covers as many grid points along an axis.
    """

    order: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", _within("order", self.order, "a B-spline's", ORDERS))

    @property
    def points(self) -> int:
        """Grid points under the window along one axis."""
        return self.order

    @property
    def degree(self) -> int:
        """Degree of the polynomials."""
        return self.order - 1

    def fourier(self, k: ArrayLike) -> Array:
        """Fourier transform: the transform of a step's mean, to the power of the order."""
        return np.asarray(np.sinc(np.asarray(k, dtype=np.float64) / (2 * np.pi)) ** self.order)

    def piecewise(self, degree: int) -> tuple[Array, Array]:
        """One polynomial per window point: see `KaiserBessel.piecewise`."""
        return _splines(self.order, degree)


@dataclass(frozen=True)
class M4Prime:
    """The window M'4, which conserves moments: four cubic polynomials.

    Monaghan (1985); Rossinelli, Conti and Koumoutsakos (2011), equation (2.3). Its values at the
    points of a grid sum to 1, and polynomials of degree 2 are interpolated exactly.
    """

    points: int = 4
    degree: int = 3

    def fourier(self, k: ArrayLike) -> Array:
        """Fourier transform, by quadrature."""
        return _transform(self, k)

    def piecewise(self, degree: int) -> tuple[Array, Array]:
        """One polynomial per window point: see `KaiserBessel.piecewise`."""
        # In u, the place in a grid step, lowest power first, for r = -1 - u, -u, 1 - u and 2 - u.
        outer, inner = np.array([0, -0.5, 1, -0.5]), np.array([1, 0, -2.5, 1.5])
        return tables([outer, inner, _reversed(inner), _reversed(outer)], degree)


@dataclass(frozen=True)
class ProlateWindow:
    """The prolate spheroidal wave function of order zero over ``points`` grid points, 1 at 0.

    It has the least part of its transform beyond a wavenumber, among functions of its width.

    Parameters
    ----------
    points : int
        Grid points P under the window along one axis.
    c : float
        Bandwidth: half the window's width in grid steps times the wavenumber.
    """

    points: int
    c: float

    @property
    def degree(self) -> int:
        """Degree as for the Kaiser-Bessel window, which is similar."""
        return default_degree(self.points)

    def fourier(self, k: ArrayLike) -> Array:
        """Fourier transform, by quadrature."""
        return _transform(self, k)

    def piecewise(self, degree: int) -> tuple[Array, Array]:
        """One polynomial per window point: see `KaiserBessel.piecewise`."""
        terms, _ = legendre_series(self.c)
        scale, half = 1 / legendre.legval(0.0, terms), self.points / 2

        def sample(r: AnyArray) -> tuple[Any, Any]:
            x = (r / half).astype(np.float64)
            slope = legendre.legval(x, legendre.legder(terms))
            return scale * legendre.legval(x, terms), scale / half * slope

        value, slope = fit(self.points, degree, sample, scale * half)  # an integral of 1, scaled
        return value, slope


def tables(pieces: Sequence[Any], degree: int) -> tuple[Array, Array]:
    """Return the tables of a window and of its derivative from its polynomials.

    Parameters
    ----------
    pieces : sequence of ndarray
        Polynomials of each window point in u = (s + 1) / 2, lowest power first.
    degree : int
        Degree of the tables; at least the degree of the pieces.
    """
    w = np.zeros((degree + 1, len(pieces)))
    for column, piece in enumerate(pieces):
        knots = np.zeros(1, dtype=np.longdouble)
        for coefficient in piece[::-1]:  # Horner's rule for polynomials in s
            knots = np.convolve(knots, np.array([0.5, 0.5], dtype=np.longdouble))
            knots[0] += coefficient
        knots = np.trim_zeros(knots, "b")
        w[degree + 1 - knots.size :, column] = knots[::-1]
    powers = np.arange(degree, -1, -1)[:, None]
    dw = np.zeros_like(w)
    dw[1:] = -2 * (powers * w)[:-1]  # r falls by half a step as s grows by one
    return w, dw


def _reversed(piece: Array) -> Array:
    """Return a polynomial in 1 - u from one in u."""
    polynomial = np.zeros(1)
    for coefficient in piece[::-1]:
        polynomial = np.convolve(polynomial, [1.0, -1.0])
        polynomial[0] += coefficient
    return polynomial[: piece.size]


@lru_cache(maxsize=64)
def _splines(order: int, degree: int) -> tuple[Array, Array]:
    """Return the pieces by recursion over the order, on [j, j + 1] in u = x - j."""
    pieces: list[Any] = [np.ones(1, dtype=np.longdouble)]
    for n in range(2, order + 1):
        zero = np.zeros(n - 1, dtype=np.longdouble)
        before = [zero, *pieces, zero]
        pieces = [
            (np.convolve(before[j + 1], [j, 1]) + np.convolve(before[j], [n - j, -1])) / (n - 1)
            for j in range(n)
        ]
    return tables(pieces[::-1], degree)


def _transform(window: Any, k: ArrayLike) -> Array:
    """Return the Fourier transform of the window in the tables, an even function."""
    nodes, weights = gauss(NODES)
    w, _ = window.piecewise(window.degree)
    values = np.stack([np.polyval(column, nodes) for column in w.T], axis=1)
    r = np.arange(window.points) - (window.points / 2 - 1) - (nodes[:, None] + 1) / 2
    wave = np.cos(np.multiply.outer(np.asarray(k, dtype=np.float64), r))
    return np.asarray((wave * (values * weights[:, None] / 2)).sum(axis=(-2, -1)))


def kaiser_bessel(points: int, shape: float | None = None) -> KaiserBessel:
    """Return the Kaiser-Bessel window, which is 1 at its middle.

    Parameters
    ----------
    points : int
        Grid points under the window along one axis, from 2 to 18.
    shape : float, optional
        See `parki.ewald.split.window.KaiserBessel`. Default: 2.3 for each point, for grids twice as
        fine as their contents.
    """
    points = _points(points)
    return KaiserBessel(points, _shape(shape, points))


def prolate(points: int, shape: float | None = None) -> ProlateWindow:
    """Return the prolate window, which is 1 at its middle; ``shape`` is its bandwidth c.

    Parameters
    ----------
    points, shape
        As for `kaiser_bessel`.
    """
    points = _points(points)
    return ProlateWindow(points, _shape(shape, points))


def bspline(order: int) -> BSpline:
    """Return the cardinal B-spline of an order, from 2 to 10, over as many grid points."""
    return BSpline(order)


def m4prime() -> M4Prime:
    """Return the window M'4, over 4 grid points."""
    return M4Prime()


def _within(name: str, value: AnyArray, meaning: str, numbers: range) -> int:
    meaning = f"{meaning}, {numbers[0]} to {numbers[-1]}"
    result = whole(name, value, meaning, numbers[0])
    if result > numbers[-1]:
        raise ParkiValueError(f"{name} is {shown(value)}; expected {meaning}")
    return result


def _points(points: AnyArray) -> int:
    return _within("points", points, "the grid points of a window", POINTS)


def _shape(shape: float | None, points: int) -> float:
    if shape is None:
        return 2.3 * points
    meaning = f"a positive number, about 2.3 for each of {points} points, {MOST_SHAPE:g} at most"
    value = positive("shape", shape, meaning)
    if value > MOST_SHAPE:
        raise ParkiValueError(f"shape is {shown(shape)}; expected {meaning}")
    return value
