"""Shapes of bodies in their own frames: nodes, local node distances and nearest points.

A shape knows the point of its surface that is nearest to a given one: exactly, by a function of the
user's, or by a `Fit`. With `Finer` nodes and a matrix, densities have values there, too. Shapes are
NumPy's. They do not know where bodies are, nor what is summed over them.

Some are maps of the unit sphere, by spherical harmonics: drops, stars, rods. The sums of products
of harmonics over each degree are Legendre polynomials of y.z, so that values and derivatives at
directions y follow from those at nodes z without computing any harmonic.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.polynomial.legendre import legder, legval

from parki.runtime.forks import cached_property
from parki.surfaces import series
from parki.surfaces.maps import Mapped
from parki.surfaces.series import (
    Interpolation,
    Sphere,
    around_torus,
    directions,
    harmonics,
    tangents,
    to_finer,
)
from parki.typing import AnyArray, ArrayModule

Project = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
AT_ONCE = 1 << 20  # pairs of a point and a node
TOUCHING = 0.2  # node distances within which sums leave out the pair of a target and a node
CLOSE = 9  # nodes by which curvature is estimated, with the one itself
FLAT = 2.5  # ratio of half axes from which an ellipsoid has another side near its nodes

STEPS, ROUNDING = 60, 1e-14  # of Newton's method: it takes 6 to 14 steps, 18 for flat bodies
NEARLY = 1e-8  # of an edge, where several points of a surface are nearest


@dataclass(frozen=True, eq=False)
class Shape:
    """Nodes of a closed surface, and what layers near it need.

    Attributes
    ----------
    nodes, normals : ndarray, shape (3, n)
    areas, spacing : ndarray, shape (n,)
        The largest distance of neighbouring nodes, in any direction, is the spacing.
    project : callable
        ``project(points)`` returns the normals at the nearest points of the surface, shape (3, m),
        and the signed distances, shape (m,).
    finer : Finer, optional
    thin : bool
        Whether another part of the surface may be behind the nodes, closer than the corrections
        reach.
    bend : ndarray, shape (n,), optional
        Sums of both curvatures, positive where the surface is convex. Default: by local fits.
    sphere : Sphere, optional
        The shape as a map of the unit sphere.
    rounding : float
        Unit roundoffs of the radius to which the surface and its nodes are known.
    matrices : dict
        Own matrices of layers, which all bodies of the shape have in common.
    """

    nodes: np.ndarray
    normals: np.ndarray
    areas: np.ndarray
    spacing: np.ndarray
    project: Project
    finer: Finer | None = None
    thin: bool = False
    bend: np.ndarray | None = None
    sphere: Sphere | None = None
    rounding: float = 0.0
    matrices: dict[Any, Any] = field(default_factory=dict, repr=False)

    def part(self, name: str) -> Any:
        """Return an attribute, such as "nodes", or "finer.nodes"."""
        return operator.attrgetter(name)(self)

    def near(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return normals at nearest points, signed distances and spacings, of points near it."""
        normals, distances = self.project(points)
        nearest = self._tree.query((points - distances * normals).T)[1]
        return normals, distances, self.spacing[nearest]

    @cached_property
    def _tree(self) -> Any:
        return series.tree(self.nodes.T)

    @cached_property
    def radius(self) -> float:
        """The largest distance of a node from the origin."""
        return float(np.linalg.norm(self.nodes, axis=0).max())

    def distances(self, points: np.ndarray, most: float) -> np.ndarray:
        """Return distances of points (3, m) from the nearest node; infinite ones beyond most."""
        return np.asarray(self._tree.query(points.T, distance_upper_bound=most)[0])

    def solid_angles(self, points: np.ndarray) -> np.ndarray:
        """Return solid angles of the surface at points (3, m): 4 pi inside, 0 outside."""
        angles, step = np.zeros(points.shape[1]), max(1, AT_ONCE // self.areas.size)
        for first in range(0, angles.size, step):
            r = self.nodes[:, None] - points[:, first : first + step, None]
            along = (r * self.normals[:, None]).sum(axis=0) / (r**2).sum(axis=0) ** 1.5
            angles[first : first + step] = along @ self.areas
        return angles

    @cached_property
    def turns(self) -> float:
        """The largest angle by which the surface turns within its spacing of a node, in radians."""
        near = self._tree.query(self.nodes.T, min(CLOSE, self.areas.size))[1][:, 1:]
        apart, rotated = (
            vectors.T[near] - vectors.T[:, None] for vectors in (self.nodes, self.normals)
        )
        bends = np.linalg.norm(rotated, axis=2) / np.linalg.norm(apart, axis=2)
        same = np.einsum("ia,ija->ij", self.normals.T, self.normals.T[near]) > series.FACING
        times = 1.0 if self.finer is None else self.finer.times
        # At a sharp rim no neighbour faces the same way. The mean curvature, where it is known, is
        # at most the larger one.
        mean = 0.0 if self.bend is None else abs(self.bend) / 2
        bent = np.maximum(np.where(same, bends, 0).max(axis=1), mean)
        return float((bent * self.spacing).max() / times)

    @cached_property
    def solid(self) -> tuple[float, np.ndarray]:
        """The volume and its middle, shape (3,), by integrals of x.n and x (x.n) over the surface.

        Finer nodes, where there are any, integrate what products of series need.
        """
        rule = self.finer or self
        heights = (rule.nodes * rule.normals).sum(axis=0) * rule.areas
        return float(heights.sum() / 3), 0.75 * (rule.nodes @ heights) / heights.sum()

    @cached_property
    def curvature(self) -> np.ndarray:
        """Sums of both curvatures at the nodes, shape (n,)."""
        if self.bend is not None:
            return self.bend
        return series.Fit(self.nodes, self.normals, self.spacing).curvatures()

    @cached_property
    def smooth(self) -> np.ndarray | None:
        """The projection (n, n) to densities that finer nodes resolve; None if these are all.

        It is symmetric in the integral over the surface.
        """
        resolved = None if self.finer is None else self.finer.interpolation.resolved
        if resolved is None:
            return None
        root = np.sqrt(self.areas)
        basis, sizes, _ = np.linalg.svd(root[:, None] * resolved, full_matrices=False)
        basis = basis[:, sizes > NEARLY * sizes[0]]
        return np.asarray((basis / root[:, None]) @ (basis * root[:, None]).T)

    @cached_property
    def _finer_tree(self) -> Any:
        return series.tree(self.finer.nodes.T) if self.finer is not None else None

    def at(self, points: np.ndarray, margin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return distances of points (3, m) from the nearest node, (m,), and nodes, (3, m).

        These are the nearest one; the same within the margin of rounding (m,), or else -1; and
        then the finer one.
        """
        distance, node = self._tree.query(points.T)
        nodes = [node, np.where(distance <= margin, node, -1), np.full(margin.shape, -1)]
        if self._finer_tree is not None:
            most = 2 * margin.max(initial=0.0)  # a search that soon finds nothing
            apart, finer = self._finer_tree.query(points.T, distance_upper_bound=most)
            nodes[2] = np.where(apart <= margin, finer, -1)
        return distance, np.stack(nodes)

    def with_finer(self, finer: Finer) -> Shape:
        """Return the shape with finer nodes."""
        return replace(self, finer=finer, matrices={})


@dataclass(frozen=True)
class Finer:
    """Finer nodes of a shape, and the values there of densities at its nodes.

    Attributes
    ----------
    nodes, normals : ndarray, shape (3, m)
    areas : ndarray, shape (m,)
    times : float
        The ratio of the spacings.
    interpolation : Interpolation
        From densities at the shape's nodes.
    fewer : Finer, optional
        Nodes between these and the shape's, for targets that are farther away.
    """

    nodes: np.ndarray
    normals: np.ndarray
    areas: np.ndarray
    times: float
    interpolation: Interpolation
    fewer: Finer | None = None

    def folding(self, xp: ArrayModule, matrix: AnyArray) -> Callable[[Any], Any]:
        """Return the product of rows (..., m) with the matrix, (..., n), in the memory of xp."""
        fold = self.interpolation.fold
        if fold is None:
            return lambda rows: rows @ matrix
        return functools.partial(fold, xp)


def nested(times: int, rule: Callable[[int], Finer]) -> Finer | None:
    """Return times finer nodes, and fewer ones for targets that are farther away.

    ``rule`` returns nodes that are some times finer.
    """
    if times < 2:
        return None
    half = (times + 1) // 2
    return replace(rule(times), fewer=rule(half) if 1 < half < times else None)


def of_nodes(
    nodes: AnyArray, normals: AnyArray, areas: AnyArray, spacing: AnyArray, project: Any
) -> Shape:
    """Return the shape of nodes alone, with local fits for what is not given."""
    spacing = series.spacings(nodes, normals) if spacing is None else spacing
    project = project or series.Fit(nodes, normals, spacing)
    return Shape(nodes, normals, areas, spacing, project, thin=True)


def ellipsoid(axes: AnyArray, order: int, times: int) -> Shape:
    """Return an ellipsoid with 2 (order + 1)^2 nodes."""
    half = np.asarray(axes, float)[:, None]
    unit, weights = directions(order)
    nodes, normals, areas = _stretched(half, unit, weights)
    spacing = np.pi / (order + 1) * _stretch(half, unit)
    finer = nested(times, lambda k: _finer_ellipsoid(half, order, k))
    thin = bool(half.max() > FLAT * half.min())
    slope = (
        nodes / half**2
    )  # of sum (x/a)^2 / 2, whose unit vectors have the curvature's divergence
    size = np.linalg.norm(slope, axis=0)
    bend = (half**-2).sum() / size - (slope**2 / half**2).sum(axis=0) / size**3
    sphere = Sphere(nodes, order, order) if finer is not None else None
    return Shape(nodes, normals, areas, spacing, Ellipsoid(half), finer, thin, bend, sphere)


def _finer_ellipsoid(half: np.ndarray, order: int, times: int) -> Finer:
    """Return times finer nodes of an ellipsoid."""
    unit, weights = directions(times * (order + 1) - 1)
    nodes, normals, areas = _stretched(half, unit, weights)
    return Finer(nodes, normals, areas, times, to_finer(order, times))


def _stretched(half: np.ndarray, unit: np.ndarray, weights: np.ndarray) -> tuple[Any, Any, Any]:
    """Return points, normals and areas of an ellipsoid by points of the unit sphere."""
    normals = unit / half
    length = np.linalg.norm(normals, axis=0)
    return half * unit, normals / length, weights * length * half.prod()


def _stretch(half: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return how much tangents of the unit sphere become longer, at most."""
    plane = np.eye(3) - unit.T[:, :, None] * unit.T[:, None]
    return np.asarray(np.sqrt(np.linalg.eigvalsh(plane * half[:, 0] ** 2 @ plane)[:, -1]))


@dataclass(frozen=True)
class Ellipsoid:
    """Nearest points of an ellipsoid with half axes of shape (3, 1)."""

    half: np.ndarray

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Solve sum (a x / (a^2 + s))^2 = 1 for s by Newton's steps.

        One over the root of the sum is concave and almost linear, so that steps from below do not
        pass the solution. A single term is below.
        """
        squares, shortest = self.half**2, int(self.half.argmin())

        def terms(s: AnyArray) -> np.ndarray:
            return np.asarray(squares * points**2 / (squares + s) ** 2)

        # Deep inside of it, on both sides of the shortest axis, two points are nearest: take one.
        points = points.copy()
        lowest = (NEARLY**1.25 - 1) * squares.min()
        points[shortest, terms(lowest).sum(axis=0) < 1] = NEARLY * self.half.min()
        s = np.maximum((self.half * np.abs(points) - squares).max(axis=0), lowest)
        for _ in range(STEPS):
            parts = terms(s)
            square, slope = parts.sum(axis=0), 2 * (parts / (squares + s)).sum(axis=0)
            step = 2 * square * (np.sqrt(square) - 1) / slope
            s = s + step
            if (step <= ROUNDING * (squares.min() + s)).all():
                break
        normals = points / (squares + s)
        length = np.linalg.norm(normals, axis=0)
        return normals / length, s * length


def torus(ring: float, tube: float, steps: tuple[int, int], times: int) -> Shape:
    """Return a torus around z with steps around its axis and around its tube."""
    nodes, normals, areas = _torus(ring, tube, steps)
    around = np.hypot(nodes[0], nodes[1]) * 2 * np.pi / steps[0]
    spacing = np.maximum(around, tube * 2 * np.pi / steps[1])

    def rule(k: int) -> Finer:
        points, facing, patches = _torus(ring, tube, (k * steps[0], k * steps[1]))
        return Finer(points, facing, patches, k, around_torus(steps, k))

    def project(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y, z = points  # on the axis and on the ring many points are nearest: take one
        x = np.where(np.hypot(x, y) < NEARLY * tube, NEARLY * tube, x)
        inwards = 1 - ring / np.hypot(x, y)
        z = np.where(np.hypot(inwards * np.hypot(x, y), z) < NEARLY * tube, NEARLY * tube, z)
        out = np.stack([inwards * x, inwards * y, z])
        length = np.linalg.norm(out, axis=0)
        return out / length, length - tube

    distance = np.hypot(nodes[0], nodes[1])
    bend = 1 / tube + (distance - ring) / (tube * distance)
    return Shape(nodes, normals, areas, spacing, project, nested(times, rule), False, bend)


def _torus(ring: float, tube: float, steps: tuple[int, int]) -> tuple[Any, Any, Any]:
    u, v = (2 * np.pi * np.arange(count) / count for count in steps)
    u, v = np.repeat(u, v.size), np.tile(v, u.size)
    distance = ring + tube * np.cos(v)
    nodes = np.stack([distance * np.cos(u), distance * np.sin(u), tube * np.sin(v)])
    normals = np.stack([np.cos(v) * np.cos(u), np.cos(v) * np.sin(u), np.sin(v)])
    return nodes, normals, tube * distance * 4 * np.pi**2 / (steps[0] * steps[1])


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
    a, b = (tangent.T @ nodes for tangent in tangents(y))
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
    most, order = order, order if densities is None else densities
    nodes, normals, areas, spacing, bend = _geometry(x, most, order)

    def rule(k: int) -> Finer:
        points, facing, patches, *_ = _geometry(x, most, k * (order + 1) - 1)
        return Finer(points, facing, patches, k, to_finer(order, k))

    finer: Any = nested(times, rule)
    sizes = np.linalg.eigvalsh((nodes * areas) @ nodes.T)
    project = Mapped(x, most, finer.nodes, directions(times * (order + 1) - 1)[0])
    thin = bool(sizes[-1] > FLAT**2 * sizes[0])
    sphere = Sphere(x, most, order)
    # Sums of Legendre polynomials at a node itself have this rounding, as y.z has one.
    rounding = float(most) ** 2
    return Shape(nodes, normals, areas, spacing, project, finer, thin, bend, sphere, rounding)


def _geometry(x: np.ndarray, order: int, at: int) -> tuple[Any, ...]:
    """Return nodes of an order, normals, areas, spacings and curvatures."""
    _, weights = directions(at)
    nodes = x @ values(order, at).T
    a, b, aa, ab, bb = (x @ matrix.T for matrix in derivatives(order, at))
    normal = np.cross(a, b, axis=0)
    size = np.linalg.norm(normal, axis=0)
    normal /= size
    e, f, g = ((u * v).sum(axis=0) for u, v in ((a, a), (a, b), (b, b)))
    bends = ((second_derivative * normal).sum(axis=0) for second_derivative in (aa, ab, bb))
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
