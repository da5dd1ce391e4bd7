"""Sums between two walls without slip, x3 = 0 and x3 = H: composites of images in both walls.

The images in a wall at another height are those in a wall at 0, where heights are counted from that
wall, with their signs. What images in two walls leave of a flow there is a smooth *correction* of
few modes (`parki.ewald.far.slit`), of the sources and targets that `sources_of` and `targets_of`
return. Forces on spheres are spread over surfaces, over which spheres take the mean of the flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Curved, Map, fixed, still
from parki.ewald.sums.sphere_radii import SphereRadii, square
from parki.ewald.sums.wall_images import mirrored
from parki.typing import AnyArray


# ------------------------------------------------------------------ a wall at another height
@dataclass(frozen=True)
class Mirror:
    """The map of sources to their images in a wall at this height."""

    height: float

    def __call__(self, points: AnyArray, cloud: Arrays) -> AnyArray:
        """Return points (3, N) mirrored at the wall."""
        rows = mirrored(points, cloud)
        rows[2] += 2 * self.height
        return rows


@dataclass(frozen=True)
class FromWall:
    """A map of densities or results at a wall at 0, where the wall is at this height."""

    function: Map
    height: float

    def __call__(self, values: AnyArray, cloud: Arrays) -> AnyArray:
        """Return the map of values, for heights over that wall."""
        return self.function(values, self.cloud(cloud))

    def cloud(self, cloud: Arrays) -> Arrays:
        """Return a cloud whose points have heights over the wall."""
        points = cloud["points"].copy()
        points[2] -= self.height
        return {**cloud, "points": points}


def at_height(function: Map, height: float) -> Map:
    """Return a map of a wall at 0 for a wall at this height; the same, if it takes no points."""
    if still(function):
        return function
    if not isinstance(function, Curved) or function.change is None:
        return FromWall(function, height)
    inner = FromWall(function.function, height)
    return Curved(inner, partial(_changed, function.change, inner))


def _changed(
    change: Callable[[AnyArray, Arrays, Arrays], AnyArray],
    inner: FromWall,
    values: AnyArray,
    cloud: Arrays,
    moves: Arrays,
) -> AnyArray:
    return change(values, inner.cloud(cloud), moves)


def between(composite: Composite, height: float) -> Composite:
    """Return a sum near a wall at 0, with its images in a wall at this height, too."""
    images = [addend for addend in composite.addends if addend.sources is not None]
    upper = (_raised(addend, height) for addend in images)
    back = composite.transposed
    return replace(
        composite,
        name=composite.name.replace("near a wall", "between walls"),
        addends=(*composite.addends, *upper),
        transposed=between(back, height) if isinstance(back, Composite) else back,
    )


def _raised(addend: Addend, height: float) -> Addend:
    """Return an image in the lower wall as one in the upper wall."""
    return replace(
        addend,
        sources=Mirror(height),
        density=None if addend.density is None else at_height(addend.density, height),
        results=at_height(addend.results, height),
    )


# ------------------------------------------------------------------ sources of the correction
def _whole(dens: AnyArray, cloud: Arrays) -> AnyArray:
    return dens


def _dipoles(axis: int, dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the dipoles ``D_j,axis``, (3, N), of D (9, N)."""
    return dens[axis::3]


def _layers(axis: int, dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return these dipoles of a double layer: D is ``-(q n^T + n q^T)``."""
    norms = cloud["norms"]
    return -(dens * norms[axis] + norms * dens[axis])


def _sinks(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return ``q . n``, (1, N)."""
    return (dens * cloud["norms"]).sum(axis=0, keepdims=True)


def of_forces(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the forces of both layers, of `stokes_comb`."""
    return dens[:3]


def of_layers(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the densities of the double layer."""
    return dens[3:]


def _columns(columns: Callable[[int, AnyArray, Arrays], AnyArray]) -> dict[str, Map]:
    return {name: partial(columns, axis) for axis, name in enumerate("xyz")}


def _torques(dens: AnyArray, cloud: Arrays) -> AnyArray:
    return dens / 2


# For each sum its sources: forces, "", their derivatives by an axis of the source, "c" for curls,
# and sources that take the pressure of a flow, "p"; with the map of densities to each.
SOURCES: dict[str, dict[str, Map]] = {
    "stokes_sl": {"": _whole},
    "stokes_dipole": _columns(_dipoles),
    "stokes_dl": {**_columns(_layers), "p": _sinks},
    "stokes_rotlet": {"c": _torques},
    "stokes_comb": {
        "": of_forces,
        **_columns(lambda axis, dens, cloud: _layers(axis, dens[3:], cloud)),
        "p": lambda dens, cloud: _sinks(dens[3:], cloud),
    },
}


@fixed
def _value(results: Arrays, cloud: Arrays) -> AnyArray:
    return results[""]


@fixed
def _pressure(results: Arrays, cloud: Arrays) -> AnyArray:
    return results["p"]


@fixed
def _slopes(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the gradient: row 3 j + k is the derivative of component j along axis k."""
    first = results["x"]
    rows = np.empty_like(first, shape=(3 * len(first), *first.shape[1:]))
    for axis, name in enumerate("xyz"):
        rows[axis::3] = results[name]
    return rows


# For each result that sums have, what is taken of the correction's flow, in the same words, and
# what is made of it.
TARGETS = {
    "u": Addend("", ("",), _value),
    "p": Addend("", ("p",), _pressure),
    "grad_u": Addend("", ("x", "y", "z"), _slopes),
}


# ------------------------------------------------------------------ spheres
def _over_surface(radius: float | None, dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the forces whose Laplacian spreads forces over surfaces, ``a^2 / 6 f``."""
    return square(radius, cloud) / 6 * dens


def _mean(radius: float | None, plain: Addend, results: Arrays, cloud: Arrays) -> AnyArray:
    """Return a mean over surfaces, ``(1 + a^2 / 6 Laplacian) u``."""
    parts = {
        word: results[word] + square(radius, cloud) / 6 * results[f"{word}l"] for word in plain.want
    }
    return plain.results(parts, cloud)


def _half_curl(times: float, results: Arrays, cloud: Arrays) -> AnyArray:
    return times / 2 * results["c"]


def sources_of(kernel: str) -> dict[str, Map]:
    """Return the sources of a sum by word, with the map of its densities to each."""
    if kernel in SOURCES:
        return SOURCES[kernel]
    kind = SUMS[kernel]
    radius = SphereRadii.of(kind).sources
    if kind.turns[1]:
        return SOURCES["stokes_rotlet"]
    if radius == 0:
        return SOURCES["stokes_sl"]
    return {"": _whole, "l": partial(_over_surface, radius)}


def targets_of(kernel: str) -> dict[str, Addend]:
    """Return the parts of the correction's flow that make each result of a sum, as `TARGETS`."""
    if kernel in SOURCES:
        return TARGETS
    kind = SUMS[kernel]
    radius = SphereRadii.of(kind).targets
    if kind.turns[0]:  # of torques twice the turns
        return {"u": Addend("", ("c",), partial(_half_curl, 1.0 + kind.turns[1]))}
    if radius == 0:
        return TARGETS
    means = {
        name: Addend(
            "", (*plain.want, *(f"{word}l" for word in plain.want)), partial(_mean, radius, plain)
        )
        for name, plain in TARGETS.items()
        if name != "p"  # which is the same
    }
    return TARGETS | means
