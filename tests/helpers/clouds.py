"""Boxes, clouds of points, and densities that sums are tested on: `cloud`."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

import parki
from examples import example

Array = np.ndarray[Any, np.dtype[Any]]

# In units far from 1, and exact in float32, so that both precisions share a reference.
BOXES = {
    "cube": (1.0, 1.0, 1.0),
    "brick": (1.5, 1.0, 0.5),
    "long": (64.0, 16.0, 16.0),
    "pipe": (10.0, 1.0, 1.0),
    "tower": (0.125, 0.125, 1.25),
    "film": (5.0, 5.0, 0.5),
    "plank": (1.0, 8.0, 0.5),
    "sheet": (1.0, 0.0625, 1.5),
}
# Every ratio of edges from 1/8 to 8, for sweeps of boxes alone.
FLAT = {
    f"1x{a:g}x{b:g}": (1.0, a, b)
    for a, b in itertools.product([0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0], repeat=2)
}
# Sides, and tilts over the sides that they are along.
TILTED = {
    f"{x:g}x{y:g}x{z:g} leaning {a:g} {b:g} {c:g}": ((x, y, z), (a * x, b * x, c * y))
    for (x, y, z), (a, b, c) in itertools.product(
        ((1, 1, 1), (1, 1, 0.125), (8, 1, 1), (1, 8, 1), (0.25, 1, 2)),
        ((0.5, 0.5, 0.5), (0.5, 0, 0), (0.3, -0.5, 0.2), (-0.5, 0.1, 0.5), (0.02, 0.5, -0.4)),
    )
}


#
# Points of the unit cube: n of them, from random numbers.


def _uniform(rng: np.random.Generator, n: int) -> Array:
    return rng.random((3, n))


def _blobs(rng: np.random.Generator, n: int) -> Array:
    """Two Gaussian blobs of width 0.03."""
    middle = np.where(np.arange(n) % 2, 0.3, 0.7)
    return np.clip(middle + 0.03 * rng.standard_normal((3, n)), 0, 1)


def _sphere(rng: np.random.Generator, n: int) -> Array:
    x = rng.standard_normal((3, n))
    return 0.5 + 0.3 * x / np.linalg.norm(x, axis=0)


def _corner(rng: np.random.Generator, n: int) -> Array:
    return 0.4 * rng.random((3, n))


def _opposite(rng: np.random.Generator, n: int) -> Array:
    return 1 - _corner(rng, n)


def _lattice(rng: np.random.Generator, n: int) -> Array:
    """Some points of a regular grid that often lies on the solver's own."""
    side = 8 if n <= 512 else 32
    chosen = rng.permutation(side**3)[:n]
    return np.array(np.unravel_index(chosen, (side,) * 3)) / side


def _whole_lattice(rng: np.random.Generator, n: int) -> Array:
    """All sites of a lattice that often lies on the solver's grid: n of them, or somewhat fewer."""
    side = 2 * int(n ** (1 / 3) / 2)
    return np.array(np.unravel_index(np.arange(side**3), (side,) * 3)) / side


def _shifted_lattice(rng: np.random.Generator, n: int) -> Array:
    points = _whole_lattice(rng, n)
    return points + 0.37 * (1 - points.max())


def _nearly_lattice(rng: np.random.Generator, n: int) -> Array:
    return _lattice(rng, n) + 1e-5 * rng.random((3, n))


def _line(rng: np.random.Generator, n: int) -> Array:
    """Return points along a diagonal, which is the extreme of a filament."""
    return rng.random(n) + 1e-4 * rng.standard_normal((3, n))


def _two_scales(rng: np.random.Generator, n: int) -> Array:
    """Half of the points in a cube of 1/50 of the edge."""
    x = rng.random((3, n))
    x[:, ::2] = 0.43 + 0.02 * x[:, ::2]
    return x


def _around(rng: np.random.Generator, n: int) -> Array:
    """Two boxes further on either side: other periods, or far away along free axes."""
    return 5 * rng.random((3, n)) - 2


def _faces(rng: np.random.Generator, n: int) -> Array:
    """A third of the points in a small cloud that all faces cut."""
    x = rng.random((3, n))
    x[:, ::3] = np.mod(1e-3 * rng.standard_normal(x[:, ::3].shape), 1)
    return x


# Shape of the sources, of the targets, and the part of the targets that are sources.
CLOUDS = {
    "uniform": (_uniform, _uniform, 0.0),
    "same": (_uniform, _uniform, 1.0),
    "partly": (_uniform, _uniform, 0.3),
    "blobs_same": (_blobs, _blobs, 1.0),
    "blobs": (_blobs, _blobs, 0.0),
    "blobs_from_afar": (_blobs, _uniform, 0.0),
    "lattice": (_lattice, _lattice, 1.0),
    "whole_lattice": (_whole_lattice, _whole_lattice, 1.0),
    "shifted_lattice": (_shifted_lattice, _shifted_lattice, 1.0),
    "nearly_lattice": (_nearly_lattice, _uniform, 0.0),
    "sphere_same": (_sphere, _sphere, 1.0),
    "line": (_line, _line, 1.0),
    "two_scales": (_two_scales, _two_scales, 1.0),
    "faces": (_faces, _faces, 0.3),
    "elsewhere": (_corner, _opposite, 0.0),
    "outside": (_uniform, _around, 0.0),
}
# Densities of one sign and smooth ones meet all of a lattice's modes in phase.
WHOLE = ("whole_lattice", "shifted_lattice")
# Their shape is kept in boxes that are not cubes.
ROUND = (_blobs, _sphere)


def edges_of(box: str) -> tuple[float, ...]:
    """Return the edges of a box of `BOXES` or `FLAT`, or the sides of one of `TILTED`."""
    return TILTED[box][0] if box in TILTED else BOXES[box] if box in BOXES else FLAT[box]


def box_of(box: str, periodicity: int) -> list[Any]:
    """Return a box for `EwaldOptions`; the points of a tilted one fill its sides as well."""
    if box not in TILTED:
        return list(edges_of(box))
    edges, tilts = TILTED[box]
    return list(parki.lattice(*edges, *tilts[: 3 if periodicity == 3 else 1]).tolist())


def _place(shape: Any, rng: np.random.Generator, n: int, edges: Array) -> Array:
    """Return points in the box, exact in float32."""
    points = shape(rng, n)
    if shape not in (_lattice, _whole_lattice, _around):  # rounded, they stay inside
        points = np.clip(points, 0, 1) * (1 - 1e-7)
    scale = edges.min() if shape in ROUND else edges
    return (scale * points).astype("f4").astype("f8")


# --- densities --------------------------------------------------------------------------------


def _random(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    shape = src.shape[1]
    return rng.standard_normal((6, shape)), rng.standard_normal((3, shape))


def _neutral(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    """Densities that add up to exactly zero, in every precision."""
    dens, norms = _random(rng, src, edges)
    half = src.shape[1] // 2
    dens[:, 2 * half :] = 0
    dens[:, half : 2 * half] = -dens[:, :half]
    norms[:, half : 2 * half] = norms[:, :half]
    return dens, norms


def _uneven(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    """Sizes over some orders of magnitude: a part of the sources has most of Q."""
    dens, norms = _random(rng, src, edges)
    return dens * 10 ** rng.uniform(-4, 0, src.shape[1]), norms * 10 ** rng.uniform(-1, 1)


def _parallel(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    dens, norms = _random(rng, src, edges)
    dens[:3] = norms * rng.standard_normal(src.shape[1])
    dens[3:] = dens[:3]
    return dens, norms


def _perpendicular(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    dens, norms = _random(rng, src, edges)
    dens[:3] = np.cross(norms, dens[:3], axis=0)
    dens[3:] = dens[:3]
    return dens, norms


def _one_sign(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    dens, norms = _random(rng, src, edges)
    return np.abs(dens), np.abs(norms)


def _smooth(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    """Waves as long as the box, as the densities of boundary integrals are."""
    waves = 2 * np.pi * rng.integers(-1, 2, (9, 3)) / edges.T
    values = np.sin(waves @ src + rng.uniform(0, 2 * np.pi, (9, 1)))
    return values[:6], values[6:]


DENSITIES = {
    "random": _random,
    "neutral": _neutral,
    "uneven": _uneven,
    "parallel": _parallel,
    "perpendicular": _perpendicular,
    "one_sign": _one_sign,
    "smooth": _smooth,
}
# Errors of neighbours add up, and so does the flow: the promise takes the tolerance's part of it.
COHERENT = ("one_sign", "smooth")
OF_NORMALS = ("parallel", "perpendicular")


class Cloud(NamedTuple):
    """Points, and a density and normals for every kernel; all exact in float32."""

    trg: Array
    src: Array
    dens: Array
    norms: Array

    def arguments(self, kernel: str) -> tuple[Array, Array | None]:
        """Return the density and the normals of a kernel."""
        dens, norms = example(kernel).taken(self.dens, self.norms)
        return dens.astype("f4").astype(self.dens.dtype), norms


def cloud(
    name: str, n: int, box: Any, dtype: str = "f8", seed: int = 0, density: str = "random"
) -> Cloud:
    """Return ``n`` sources and as many targets; the same array where they are the same points."""
    rng = np.random.default_rng([seed, n, *name.encode(), *density.encode()])
    sources, targets, part = CLOUDS[name]
    edges = np.array(box, dtype=float)[:, None]
    src = trg = _place(sources, rng, n, edges).astype(dtype)
    if part < 1:
        trg = _place(targets, rng, n, edges).astype(dtype)
        trg[:, : int(part * n)] = src[:, : int(part * n)]
    dens, norms = DENSITIES[density](rng, src, edges)
    # Both halves of a combined sum get the same promise, or one would hide the other.
    length = float(edges.prod()) ** (1 / 3)
    size = np.linalg.norm(dens[3:] * np.linalg.norm(norms, axis=0))
    dens[3:] *= length * np.linalg.norm(dens[:3]) / size
    return Cloud(trg, src, *(a.astype("f4").astype(dtype) for a in (dens, norms)))
