"""`Core`: the split of a blob, and the radius within which the blob differs from a point.

A regularised kernel is the far kernel of one more split, whose mollifier is the blob's. The near
field of pairs within the core is that smooth kernel minus the one on the grid. Beyond it a blob is
a point. If the split on the grid is the blob's own, the grid has the whole sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.ewald.split.cortez import least_cutoff
from parki.ewald.split.hasimoto import Hasimoto, Split
from parki.ewald.split.prolate import Prolate, exponent
from parki.ewald.sums.pairs import POWERS, Blob, RadialPolynomials

Array = NDArray[np.float64]
# Bandwidth of prolate blobs, which defines them. At their edge the velocity of a force jumps by
# 1e-9 of its value. With less bandwidth the blob is wider within its radius, and jumps by more.
BANDWIDTH = 25.0


class Core(NamedTuple):
    """The core of a blob.

    Attributes
    ----------
    split : Split
    radius : float
        Infinite if the grid has the whole sum.
    """

    split: Split
    radius: float

    def scaled(self, factor: float) -> Core:
        """Return the same core with all lengths multiplied by ``factor``."""
        return Core(self.split.scaled(factor), self.radius * factor)

    @property
    def everywhere(self) -> bool:
        """Whether the grid has the whole sum, so that all pairs add zeros."""
        return math.isinf(self.radius)

    def columns(self, names: str, cutoff: float, degree: int) -> Array:
        """Return polynomials by row, and the square of the cut-off over the radius."""
        found = self.tables(cutoff, degree)
        none = np.zeros_like(found.S)  # of the row of numbers
        rows = [[*getattr(found, name, none), (cutoff / self.radius) ** 2] for name in names]
        return np.array(rows)

    def tables(self, cutoff: float, degree: int) -> RadialPolynomials:
        """Return the blob's polynomials in powers of its own s, in units of the cut-off."""
        if self.everywhere:
            return RadialPolynomials(*np.zeros((7, degree + 1)))
        # A blob that ends has no tail to make up for.
        blob = self.split.radial_polynomials(self.radius, degree)
        rate = cutoff / self.radius
        return RadialPolynomials(
            S=rate * blob.S,
            X=rate**3 * blob.X,
            R=rate**3 * blob.R,
            L=rate * blob.L,
            W=rate**5 * blob.W,
            V=rate**7 * blob.V,
            U=rate**9 * blob.U,
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

    def scaled(self, factor: float) -> Algebraic:
        """Return the same core with all lengths multiplied by ``factor``."""
        return Algebraic(self.epsilon * factor, self.radius * factor)

    def columns(self, names: str, cutoff: float, degree: int) -> Array:
        """Return polynomials of ``q = 1 / (r^2 + epsilon^2)`` by row, and epsilon over cut-off.

        With ``B = q^(-1/2)``, L, S, X, R, W, Y and V are the square root of q times these.
        """
        square = (self.epsilon / cutoff) ** 2
        degree = Blob("cortez", self.epsilon).degree(names)
        size = {"L": 1, "S": square, "X": 1, "Y": 3}
        size |= {"R": -3 * square, "W": 15 * square, "V": -105 * square}
        rows = np.zeros((len(names), degree + 2))
        for row, name in zip(rows, names, strict=True):
            if name in size:  # and not the row of numbers
                row[degree - POWERS[name]] = size[name] / 2
                row[degree] += (name == "S") / 2
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
    return Core(split, blob.epsilon * math.sqrt(max(x, -math.log(least))))
