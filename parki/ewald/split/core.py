"""`Core`: the split of a blob, and the radius within which the blob differs from a point.

A regularised kernel is the far kernel of one more split, whose mollifier is the blob's. The near
field of pairs within the core is that smooth kernel minus the one on the grid. Beyond it a blob is
a point. If the split on the grid is the blob's own, the grid has the whole sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.special import kv

from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.prolate import Prolate, exponent, solve
from parki.ewald.split.protocol import Factor, Split
from parki.ewald.split.quadrature import gauss, plus
from parki.ewald.split.radial_series import horner_order, series_losses
from parki.ewald.sums import term_of
from parki.ewald.sums.pairs import POWERS, Blob
from parki.ewald.sums.tables import FLOW, NUMBERS, RadialTables, Table, Tables

Array = NDArray[np.float64]
NODES = 160  # of quadratures over the band
# Terms of the far field's factor beyond the split's own: the transform has a logarithm at k = 0.
MORE_TERMS = 6
# Series of j_n(z) / z^n in z^2, highest power first, for n = 3 and 4, up to z = 3.
_BESSEL = [
    [(-0.5) ** k / (math.factorial(k) * math.prod(range(1, 2 * (n + k) + 2, 2))) for k in range(14)]
    for n in (3, 4)
]
_BESSEL = [each[::-1] for each in _BESSEL]


@dataclass(frozen=True)
class CortezSplit(Prolate):
    """The prolate split of a sum of blobs of Cortez, whose transform is on the grid along with it.

    The blob ``15 epsilon^4 / (8 pi (r^2 + epsilon^2)^(7/2))`` has the transform
    ``(k epsilon)^2 K_2(k epsilon) / 2``. It falls so slowly in space that the near field must be
    the blob's flow minus the one on the grid, which both know the blob. Beyond the cut-off the two
    differ by about ``epsilon^4 r_c^4 / r^9``. See "Regularised sums" of docs/theory.md.

    Parameters
    ----------
    c, rc : float
        See `parki.ewald.split.prolate.Prolate`.
    epsilon : float
    """

    epsilon: float = 0.0

    def scaled(self, factor: float) -> CortezSplit:
        """Return the same split with all lengths multiplied by ``factor``."""
        return CortezSplit(self.c, self.rc * factor, self.epsilon * factor)

    def factor(self, order: int) -> Factor:
        """Return the split's factor times the blob's transform."""
        plain = super().factor(order)
        count = plain.coefficients.size + MORE_TERMS
        x = np.cos(np.pi / (2 * count) * (2 * np.arange(count) + 1))
        k2 = (x + plain.shift) / plain.scale
        series = np.asarray(dct(plain.at(k2) * transform(np.sqrt(k2) * self.epsilon))) / count
        series[0] /= 2
        return plain._replace(coefficients=horner_order(series, count - 1))

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take, with integrals as in `quadrature`.

        They follow from the near field at the cut-off, where it is what pairs beyond leave out.
        """
        tables = self.radial_polynomials(rc, degree)
        edge = tables.map(np.sum)  # at the cut-off
        s, r, mean = float(edge.flow), float(edge.psi(1)), float(edge.smooth(0))
        square = (self.epsilon / rc) ** 2
        root = math.sqrt(1 + square)
        first, second = 1 / root - 2 * mean, square / root**3 - 2 * (s - mean)
        third = -3 * square / root**5 - 2 * r
        more_r = 3 / 2 * (second - first)
        more_w = 5 / 2 * (third + 2 * second - 2 * first - 10 / 3 * more_r)
        more = {FLOW: first, Table("psi", 1): more_r, Table("psi", 2): more_w}
        return tables | {table: plus(tables[table], constant) for table, constant in more.items()}

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the radial functions of the grid's kernel."""
        return _series(self.c, self.epsilon / self.rc)

    def losses(self, rc: float, term: str) -> Array:
        """Return the errors of cutting the series."""
        return series_losses(self.series(rc), term)

    def remainder(self, term: str) -> tuple[float, float]:
        """Return the error by pairs beyond the cut-off, in its unit: rms and peak."""
        return _remainder(term, self.c, self.epsilon / self.rc)


def transform(x: Array) -> Array:
    """Return the transform of the blob at x = k epsilon."""
    x = np.maximum(x, 1e-6)
    return np.asarray(x**2 * kv(2, x) / 2)


def least_cutoff(epsilon: float, error: Callable[[Split, float], float], goal: float) -> float:
    """Return the cut-off at which the remainder is within a goal.

    It falls as the fourth power of the cut-off, or faster. ``error(split, cutoff)`` also has the
    error of the plain split, which is kept to half of the goal.
    """
    radius = 5 * epsilon
    for _ in range(10):
        plain = solve("prolate", radius, partial(_at, error, radius), goal / 2)
        ratio = error(CortezSplit(plain.band * radius, radius, epsilon), radius) / goal
        radius *= min(max(ratio ** (1 / 4), 0.5), 2.0)
        if abs(ratio - 1) < 0.05:
            break
    return max(radius, 2 * epsilon)


def _at(error: Callable[[Split, float], float], radius: float, split: Split) -> float:
    return error(split, radius)


def _functions(c: float, epsilon: float, r: Array) -> RadialTables:
    """Radial functions of the kernel on the grid, for a cut-off of 1, at distances r."""
    x, weights = gauss(NODES)
    k = c * (x + 1) / 2
    # The polynomial that the grid has: what it lacks is no error within the cut-off.
    size = CortezSplit(c, 1.0, epsilon).factor(2).at(k**2) * weights * c / np.pi
    f0, f1, f2, f3, f4 = _bessel(np.multiply.outer(r, k))
    mean, psi, k2 = f1 @ size, (f0 - 2 * f1) @ size, k**2
    return RadialTables.of(
        flow=mean + psi,
        smooth=(mean, f2 @ (k2 * size)),
        psi=(
            (2 * f2 - f1) @ (k2 * size),
            (f2 - 2 * f3) @ (k2**2 * size),
            (2 * f4 - f3) @ (k2**3 * size),
            0 * mean,  # which no sum of blobs takes
        ),
    )


def _bessel(z: Array) -> list[Array]:
    """Return ``j_n(z) / z^n`` for n from 0 to 4: upwards, or downwards from the series if z < 3."""
    far, z2 = np.maximum(z, 3.0), np.minimum(z, 3.0) ** 2
    above = [np.sin(far) / far]
    above.append((above[0] - np.cos(far)) / far**2)
    below = [np.polyval(series, z2) for series in _BESSEL]
    for n in (3, 5, 7):
        above.append((n * above[-1] - above[-2]) / far**2)
        below.insert(0, (10 - n) * below[0] - z2 * below[1])
    return [np.where(z < 3, *pair) for pair in zip(below, above, strict=True)]


@lru_cache(maxsize=256)
def _series(c: float, epsilon: float) -> RadialTables:
    count = 20 + int(4 * math.sqrt(c))
    t = np.cos(np.pi / (4 * count) * (2 * np.arange(count) + 1))
    functions = _functions(c, epsilon, t)
    series = np.asarray(dct(np.array([*functions.values()]))) / count
    series[:, 0] /= 2
    return RadialTables(zip(functions, series, strict=True))


@lru_cache(maxsize=256)
def _remainder(term: str, c: float, epsilon: float) -> tuple[float, float]:
    x, weights = gauss(24)
    r = np.concatenate([[1.0], 1.5 + x / 2, 4 + 2 * x])
    weights = np.concatenate([[0.0], weights / 2, 2 * weights])
    q = 1 / (r**2 + epsilon**2)
    root = np.sqrt(q)
    blob = RadialTables.of(
        flow=(root + epsilon**2 * root * q) / 2,
        smooth=(root / 2, root * q / 2),
        psi=(
            -1.5 * epsilon**2 * root * q**2,
            7.5 * epsilon**2 * root * q**3,
            -52.5 * epsilon**2 * root * q**4,
            0 * r,
        ),
    )
    lost = _functions(c, epsilon, r).map(np.subtract, blob)
    square = term_of(term).square(r**2, lost)
    rms = math.sqrt(4 * math.pi * float(weights @ (r**2 * square)))
    return rms, math.sqrt(float(square.max()))


# Bandwidth of prolate blobs, which defines them. At their edge the velocity of a force jumps by
# 1e-9 of its value. With less bandwidth the blob is wider within its radius, and jumps by more.
BANDWIDTH = 25.0


class Core(NamedTuple):
    """The core of a blob.

    Attributes
    ----------
    split : Split
    radius : float
        Infinite if the grid has the whole sum. The least one, where each pair has its own.
    widest : float
        The largest one then, or 0.
    """

    split: Split
    radius: float
    widest: float = 0.0

    def scaled(self, factor: float) -> Core:
        """Return the same core with all lengths multiplied by ``factor``."""
        return Core(self.split.scaled(factor), self.radius * factor, self.widest * factor)

    @property
    def reach(self) -> float:
        """The least cut-off."""
        return self.widest or self.radius

    @property
    def everywhere(self) -> bool:
        """Whether the grid has the whole sum, so that all pairs add zeros."""
        return math.isinf(self.radius)

    def columns(self, tables: Tables, cutoff: float, degree: int) -> Array:
        """Return polynomials by row, and the square of the cut-off over the radius.

        Where each pair has its own, the unit of both is the radius of the pair over its width.
        """
        if self.widest:
            cutoff = self.radius
        blob, none = self.tables(cutoff, degree), np.zeros(degree + 1)  # of the row of numbers
        rows = (none if table == NUMBERS else blob.row(table) for table in tables)
        width = 1 / (math.sqrt(math.pi) * self.split.psi0) if self.widest else cutoff
        return np.array([[*row, (width / self.radius) ** 2] for row in rows])

    def tables(self, cutoff: float, degree: int) -> RadialTables:
        """Return the blob's polynomials in powers of its own s, in units of the cut-off."""
        if self.everywhere:
            none = np.zeros(degree + 1)
            return RadialTables.of(flow=none, smooth=(none, none), psi=(none,) * 4)
        # A blob that ends has no tail to make up for.
        blob = self.split.radial_polynomials(self.radius, degree)
        rate = cutoff / self.radius
        return RadialTables(
            (key, rate ** (2 * key.order + 1) * polynomial) for key, polynomial in blob.items()
        )


class Algebraic(NamedTuple):
    """The core of a blob of Cortez, which is the whole near field.

    Attributes
    ----------
    epsilon : float
    radius : float
        The least cut-off, beyond which the blob and the grid's kernel differ by little.
    """

    epsilon: float
    radius: float

    @property
    def everywhere(self) -> bool:
        """Whether the grid has the whole sum: never."""
        return False

    @property
    def reach(self) -> float:
        """The least cut-off."""
        return self.radius

    def scaled(self, factor: float) -> Algebraic:
        """Return the same core with all lengths multiplied by ``factor``."""
        return Algebraic(self.epsilon * factor, self.radius * factor)

    def columns(self, tables: Tables, cutoff: float, degree: int) -> Array:
        """Return polynomials of ``q = 1 / (r^2 + epsilon^2)`` by row, and epsilon over cut-off.

        With ``B = q^(-1/2)`` the tables are the square root of q times these.
        """
        square = (self.epsilon / cutoff) ** 2
        degree = Blob("cortez", self.epsilon).degree(tables)
        sizes = {FLOW: square} | {
            Table("smooth", n): size for n, size in enumerate((1.0, 1.0, 3.0))
        }
        sizes |= {Table("psi", n): size * square for n, size in ((1, -3), (2, 15), (3, -105))}
        rows = np.zeros((len(tables), degree + 2))
        for row, table in zip(rows, tables, strict=True):
            if table in sizes:  # and not the row of numbers
                row[degree - POWERS[table]] = sizes[table] / 2
                row[degree] += (table == FLOW) / 2
        rows[:, -1] = square
        return rows


AnyCore = Core | Algebraic


def split_of(blob: Blob) -> Split:
    """Return the split whose mollifier a blob is."""
    if blob.kind == "prolate":
        return Prolate(BANDWIDTH, blob.epsilon)
    return Hasimoto(1 / blob.epsilon)


def core_of(
    blob: Blob, error: Callable[[Split, float], float], goal: float, least: float
) -> AnyCore:
    """Return the core of a blob.

    Parameters
    ----------
    blob : Blob
    error : callable
        ``error(split, radius)`` of taking a blob for a point beyond a radius.
    goal : float
        What the error must not exceed.
    least : float
        What a single pair's error must not exceed, relative to the largest flow of the blob.
    """
    if blob.algebraic:
        # This error is a part of the near field's, which has a larger share of the tolerance.
        return Algebraic(blob.epsilon, least_cutoff(blob.epsilon, error, 2 * goal))
    split = split_of(blob)
    if math.isfinite(split.band):  # it ends
        return Core(split, blob.epsilon)
    x = exponent(lambda x: error(split, blob.epsilon * math.sqrt(x)), goal)
    radii = math.sqrt(max(x, -math.log(least))) * np.array(blob[1:])
    radius, widest = radii.tolist()
    return Core(split, radius, widest)
