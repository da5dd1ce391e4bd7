"""Charges near metal and dielectrics, x3 = 0 and x3 = H: composites of sums and of images.

A charge q at y of height h has its image ``g q`` at ``y* = (y1, y2, -h)``. The image factor g is
``(e1 - e2) / (e1 + e2)`` of a dielectric of the permittivity e2, and -1 of metal; dipoles are
mirrored along. Between two plates of metal a box of height 2 H, whose three axes are periodic,
repeats a charge and its image, and has all images of images. Other pairs of walls have an image in
each, and what these lack is a smooth *correction* of few modes (`parki.ewald.far.slit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import Composite
from parki.ewald.sums.maps import Arrays, Curved, Map
from parki.ewald.sums.results import LONG, RESULTS
from parki.ewald.sums.slit import Mirror
from parki.ewald.sums.wall_images import addend, mirrored
from parki.typing import AnyArray

KERNELS: tuple[str, ...] = ("laplace", "laplace_dipole")
WANTED: dict[str, tuple[int, ...]] = {"u": (), "grad_u": (3,)}
FACTORS = tuple[float, ...]
BOTH_METAL: FACTORS = (-1.0, -1.0)


@dataclass(frozen=True)
class Image:
    """The map of charges, or of dipoles, to what their images have."""

    factor: float

    def __call__(self, dens: AnyArray, cloud: Arrays) -> AnyArray:
        """Return charges (1, N) or dipoles (3, N), mirrored and times the image factor."""
        return self.factor * (dens if len(dens) == 1 else mirrored(dens, cloud))


@dataclass(frozen=True)
class Nearer:
    """The map of points to their images in the nearer one of two plates, at 0 and at a height.

    The other image is a period away. A point at a plate is its own image, up to the last digit.
    """

    height: float

    def __call__(self, points: AnyArray, cloud: Arrays) -> AnyArray:
        """Return points (3, N) mirrored at a plate."""
        rows = mirrored(points, cloud)
        rows[2] = np.where(points[2] > self.height / 2, rows[2] + 2 * self.height, rows[2])
        return rows


def _moved(points: AnyArray, cloud: Arrays, moves: Arrays) -> AnyArray:
    """Return how images move."""
    if "points" not in moves:
        return np.zeros_like(points)
    return mirrored(moves["points"], cloud)


def mirrors(factors: FACTORS, gap: float | None) -> list[tuple[Map, float]]:
    """Return the map of points to their images in each wall, and the image factor.

    Two plates of metal have one image, which the box repeats.
    """
    if factors == BOTH_METAL:
        return [(Curved(Nearer(gap or 0.0), _moved), -1.0)]
    maps: list[Map] = [mirrored, Mirror(gap or 0.0)]
    return [*zip(maps, factors, strict=False)]


def near_plates(
    kernel: Any, wall: Any, want: str, factors: FACTORS, gap: float | None
) -> Composite:
    """Return a sum of charges or dipoles near walls of these image factors; refuse others.

    Raises
    ------
    ParkiValueError
    """
    family = kernel.partition("(")[0] if isinstance(kernel, str) else ""
    if family not in KERNELS or want not in WANTED:
        raise ParkiValueError(
            f"wall is {wall!r}, which {getattr(kernel, 'name', kernel)} with want={want!r} does "
            f"not have; near metal and dielectrics parki sums {', '.join(KERNELS)}, with want='u' "
            "and 'grad_u'"
        )
    addends = [addend(kernel, RESULTS[want])]
    for mirror, factor in mirrors(factors, gap):
        addends.append(addend(kernel, RESULTS[want], density=Image(factor), sources=mirror))
    where = "between plates" if gap is not None else "near a plate"
    return Composite(
        name=f"{LONG[want]}{kernel} {where}",
        density=SUMS[kernel].density,
        result=WANTED[want],
        addends=tuple(addends),
        near=(kernel, want),
    )


# ------------------------------------------------------------------ the correction
def _row(axis: int, dens: AnyArray, cloud: Arrays) -> AnyArray:
    return dens[axis : axis + 1]


# For each sum its sources, in the words of `parki.ewald.sums.slit`.
SOURCES: dict[str, dict[str, Map]] = {
    "laplace": {"": partial(_row, 0)},
    "laplace_dipole": {name: partial(_row, axis) for axis, name in enumerate("xyz")},
}


# ------------------------------------------------------------------ a voltage
def applied(name: str, slope: float, points: AnyArray) -> AnyArray:
    """Return the potential of a uniform field along x3 at points, (1, N), or its gradient."""
    if name == "u":
        return slope * points[2:]
    rows = np.zeros_like(points)
    rows[2] = slope
    return rows
