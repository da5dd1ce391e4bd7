"""Shapes that are maps of the unit sphere, by spherical harmonics: drops, stars, rods.

The sums of products of harmonics over each degree are Legendre polynomials of y.z, so that values
and derivatives at directions y follow from those at nodes z without computing any harmonic.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.polynomial.legendre import legder, legval

from parki.surfaces import fits
from parki.surfaces.series import Sphere, directions, harmonics, tangents, to_finer
from parki.surfaces.shapes import FLAT, Shape, nested


@functools.lru_cache(maxsize=16)
def values(order: int, at: int) -> np.ndarray:
    """Return the matrix from values at nodes of one order to values at nodes of another one."""
    return np.asarray(harmonics(order, directions(at)[0]))


@functools.lru_cache(maxsize=16)
def derivatives(order: int, at: int) -> tuple[np.ndarray, ...]:
    """Return matrices from values at nodes of one order to derivatives at nodes of another one.

    They are along both `tangents`, and along great circles for the second ones: aa, ab and bb.
    """
    (nodes, weights), (y, _) = directions(order), directions(at)
    series = (2 * np.arange(order + 1) + 1) / (4 * np.pi)
    height = y.T @ nodes
    first, second = (legval(height, legder(series, k)) * weights for k in (1, 2))
    a, b = (each.T @ nodes for each in tangents(y))
    bent = first * height
    return first * a, first * b, second * a**2 - bent, second * a * b, second * b**2 - bent


def mapped(x: np.ndarray, order: int, times: int, densities: int | None = None) -> Shape:
    """Return the shape of points (3, n) at `directions` (order), with its curvatures.

    Parameters
    ----------
    times : int
        How many times finer the finer nodes are; at least 2.
    densities : int, optional
        The order of nodes and densities, if the shape has a higher one.
    """
    given, order = order, order if densities is None else densities
    nodes, normals, areas, spacing, bend = _geometry(x, given, order)

    apart = {}

    def rule(k: int) -> dict[str, Any]:
        points, facing, patches, apart[k], _ = _geometry(x, given, k * (order + 1) - 1)
        places = {"nodes": points, "normals": facing, "areas": patches}
        return {**places, **to_finer(order, k)}

    finer: Any = nested(times, rule)
    sizes = np.linalg.eigvalsh((nodes * areas) @ nodes.T)
    project = fits.Fit(finer.nodes, finer.normals, apart[times])
    thin = bool(sizes[-1] > FLAT**2 * sizes[0])
    sphere = Sphere(x, given, order)
    return Shape(nodes, normals, areas, spacing, project, finer, thin, bend, sphere)


def _geometry(x: np.ndarray, order: int, at: int) -> tuple[Any, ...]:
    """Return nodes of an order, normals, areas, spacings and curvatures."""
    _, weights = directions(at)
    nodes = x @ values(order, at).T
    a, b, aa, ab, bb = (x @ matrix.T for matrix in derivatives(order, at))
    normal = np.cross(a, b, axis=0)
    size = np.linalg.norm(normal, axis=0)
    normal /= size
    e, f, g = ((u * v).sum(axis=0) for u, v in ((a, a), (a, b), (b, b)))
    bends = ((each * normal).sum(axis=0) for each in (aa, ab, bb))
    first, mixed, second = bends
    bend = -(first * g - 2 * mixed * f + second * e) / size**2
    widest = np.sqrt((e + g) / 2 + np.sqrt(((e - g) / 2) ** 2 + f**2))
    return nodes, normal, weights * size, np.pi / (at + 1) * widest, bend


def rod(length: float, radius: float, order: int, times: int) -> Shape:
    """Return a rod around z with round caps: (z/l)^(2 p) + (d/radius)^2 = 1, 2 l its length.

    p is l/radius, rounded, so that the caps have about the radius of the rod.
    """
    half, fine = length / 2, 2 * order + 1  # rings of a multiple of the nodes
    unit, _ = directions(fine)
    power = max(1, round(half / radius))
    series = sum(unit[2] ** (2 * k) for k in range(power))  # (1 - z^(2 p)) / (1 - z^2)
    across = radius * np.sqrt(series)
    return mapped(np.stack([across, across, half + 0 * across]) * unit, fine, times, order)
