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

from parki.ewald.split.hasimoto import Hasimoto, Split
from parki.ewald.split.prolate import Prolate, exponent
from parki.ewald.sums.pairs import Blob, RadialPolynomials

# Bandwidth of prolate blobs, which defines them. At their edge the flow jumps by exp(-BANDWIDTH)
# about, and smaller ones are wider there.
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

    def ratio(self, cutoff: float) -> float:
        """Return the square of the cut-off over the radius."""
        return float((cutoff / self.radius) ** 2)

    def radial_polynomials(self, cutoff: float, degree: int) -> RadialPolynomials:
        """Return the blob's polynomials in powers of its own s, in units of the cut-off."""
        if self.everywhere:
            return RadialPolynomials(*np.zeros((5, degree + 1)))
        found = self.split.radial_polynomials(self.radius, degree)
        rate = cutoff / self.radius
        return RadialPolynomials(
            S=rate * found.S,
            X=rate**3 * found.X,
            R=rate**3 * found.R,
            L=rate * found.L,
            W=rate**5 * found.W,
        )


def split_of(blob: Blob) -> Split:
    """Return the split whose mollifier a blob is."""
    if blob.kind == "prolate":
        return Prolate(BANDWIDTH, blob.epsilon)
    return Hasimoto(1 / blob.epsilon)


def core_of(blob: Blob, error: Callable[[Split, float], float], goal: float, least: float) -> Core:
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
    split = split_of(blob)
    if math.isfinite(split.band):  # it ends
        return Core(split, blob.epsilon)
    x = exponent(lambda x: error(split, blob.epsilon * math.sqrt(x)), goal)
    return Core(split, blob.epsilon * math.sqrt(max(x, -math.log(least))))
