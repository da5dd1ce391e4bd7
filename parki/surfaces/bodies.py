"""`Bodies`: shapes at their places, and the nodes of all of them in the lab's frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from parki.core import EwaldOptions, as_points
from parki.errors import ParkiValueError
from parki.interchange import as_array, to_host
from parki.memory import telling
from parki.runtime import get_execution_space
from parki.runtime.forks import cached_property
from parki.solving.pairs import pairs_within
from parki.solving.rotations import frames, quaternions
from parki.surfaces.shapes import TOUCHING, Shape
from parki.typing import AnyArray, Array, ArrayModule

ROUNDED = 1e-5  # of a distance: more than single precision loses
MARGIN = 16  # unit roundoffs of coordinates and box within which a target is a node


@telling
class Bodies:
    """Bodies of some shapes, each at a centre and with a rotation: see `parki.Surface`."""

    ready_made: ClassVar[type[Bodies]]  # the class of the same bodies elsewhere

    def __init__(
        self,
        shapes: Sequence[Shape],
        kinds: AnyArray,
        centres: AnyArray,
        frames: AnyArray,
        like: AnyArray,
    ) -> None:
        """Body k has the shape ``shapes[kinds[k]]``; arrays are as ``like`` is."""
        self.shapes, self.kinds, self.centres, self.frames = tuple(shapes), kinds, centres, frames
        array = as_array("nodes", like)
        self._dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.space = get_execution_space(None, array)
        self.xp = self.space.array_module
        sizes = np.array([shape.areas.size for shape in shapes])
        self.systems = np.concatenate([[0], np.cumsum(sizes[kinds])])
        self.nodes, self.normals = self._placed("nodes"), self._rotated("normals")
        self.areas, self.spacing = self._joined("areas"), self._joined("spacing")
        self._copies: dict[Any, Any] = {}
        self.close: dict[Any, Any] = {}  # nodes near other bodies, by the box and how near

    def moved(self, centres: Array, rotations: AnyArray = None) -> Any:
        """Return the same bodies elsewhere.

        Parameters
        ----------
        centres : array, shape (3, B)
        rotations : array, shape (4, B), or ``scipy.spatial.transform.Rotation``, optional
            From the bodies' own frames. Default: as before.
        """
        positions = numbers("centres", as_points("centres", centres))
        if positions.shape != self.centres.shape:
            raise ParkiValueError(
                f"centres has shape {positions.shape}; expected {self.centres.shape}, as before"
            )
        frames = self.frames if rotations is None else matrices(rotations, self.kinds.size)
        moved: Any = self.ready_made(self.shapes, self.kinds, positions, frames, self.nodes)
        moved._copies = self._copies
        return moved

    @staticmethod
    def alone(shape: Shape, xp: ArrayModule = np) -> Bodies:
        """Return one body of a shape, in its own frame, in double precision."""
        frame, at = np.eye(3)[None], np.zeros((3, 1))
        return Bodies([shape], np.zeros(1, int), at, frame, xp.empty((3, 0)))

    def smooth(self, density: AnyArray) -> Any:
        """Return the parts (..., N) of densities that finer nodes resolve: see `Shape.smooth`."""
        smooth_part = density
        for shape, index, _ in self.groups:
            if shape.smooth is not None:
                smooth_part = smooth_part.copy() if smooth_part is density else smooth_part
                smooth_part[..., index] = density[..., index] @ self.on_device(shape, "smooth").T
        return smooth_part

    def last_degrees(self, density: AnyArray) -> Any:
        """Return the parts (..., N) of densities in the last degrees of their series, and beyond.

        They are zero where nothing is known of a series.
        """
        last = self.xp.zeros_like(density)
        for shape, index, _ in self.groups:
            if shape.finer is not None and shape.finer.interpolation.lower is not None:
                lower = self.on_device(shape, "finer.interpolation.lower")
                values = density[..., index]
                last[..., index] = values - values @ lower.T
        return last

    def on_device(self, shape: Shape, name: str) -> Any:
        """Return a matrix of a shape in the memory of the nodes, which is copied once."""
        if (shape, name) not in self._copies:
            self._copies[shape, name] = self.xp.asarray(shape.part(name), order="C")
        return self._copies[shape, name]

    @cached_property
    def home(self) -> np.ndarray:
        """The body of each node, shape (N,), on the host."""
        return np.repeat(np.arange(self.kinds.size), np.diff(self.systems))

    @cached_property
    def body(self) -> Any:
        """The body of each node, shape (N,)."""
        return self.xp.asarray(self.home)

    @cached_property
    def curvature(self) -> Any:
        """The sum of both curvatures at each node, shape (N,): 2/a on a sphere of radius a."""
        return self._joined("curvature")

    @cached_property
    def groups(self) -> list[tuple[Shape, Any, np.ndarray]]:
        """Each shape, the nodes of its bodies (B, n), and the numbers of these bodies."""
        bodies = [np.flatnonzero(self.kinds == kind) for kind in range(len(self.shapes))]
        indices = [self._nodes_of(group) for group in bodies]
        return list(zip(self.shapes, indices, bodies, strict=True))

    @cached_property
    def alike(self) -> list[tuple[Any, Any]]:
        """The nodes (B, n) of bodies with as many nodes, and the numbers of these bodies."""
        sizes = np.diff(self.systems)
        bodies = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
        return [(self._nodes_of(group), self.xp.asarray(group)) for group in bodies]

    def _nodes_of(self, bodies: np.ndarray) -> Any:
        first = self.systems[bodies][:, None]
        return self.xp.asarray(first + np.arange(np.diff(self.systems)[bodies[0]]))

    # ------------------------------------------------------------------ integrals
    def integrals(self, values: AnyArray) -> Any:
        """Return integrals over the surface of each body, (..., B), of values (..., N)."""
        weighted = values * self.areas
        integrals = self.xp.empty((*values.shape[:-1], self.kinds.size), weighted.dtype)
        for index, bodies in self.alike:
            integrals[..., bodies] = weighted[..., index].sum(axis=-1)
        return integrals

    def _of_shapes(self, number: Callable[[Shape], Any]) -> np.ndarray:
        """Return a number, or numbers, of the shape of each body: shape (B, ...), on the host."""
        return np.array([number(shape) for shape in self.shapes])[self.kinds]

    def _by_bodies(self, values: np.ndarray) -> Any:
        return self.xp.asarray(values.astype(self._dtype), order="C")

    @cached_property
    def total_areas(self) -> Any:
        """The area of each body, shape (B,)."""
        return self._by_bodies(self._of_shapes(lambda shape: shape.areas.sum()))

    @cached_property
    def volumes(self) -> Any:
        """The volume of each body, shape (B,)."""
        return self._by_bodies(self._of_shapes(lambda shape: shape.solid[0]))

    @cached_property
    def centroids(self) -> Any:
        """The middle of each body's volume, shape (3, B); frames begin at `centres`."""
        local = self._of_shapes(lambda shape: shape.solid[1])
        return self._by_bodies(self.centres + (self.frames @ local[:, :, None])[..., 0].T)

    @cached_property
    def arms(self) -> Any:
        """The nodes as seen from their bodies' centres, shape (3, N)."""
        return self._rotated("nodes")

    @cached_property
    def mobility(self) -> np.ndarray:
        """Matrices (B, 6, 6) from moments of velocities to the rigid motions that have them.

        On the host. Moments are the integrals over the surface of velocity and of arm x velocity.
        """
        whole = self._of_shapes(lambda shape: shape.areas.sum())
        first = self._of_shapes(lambda shape: shape.nodes @ shape.areas)
        second = self._of_shapes(lambda shape: (shape.nodes * shape.areas) @ shape.nodes.T)
        first = (self.frames @ first[:, :, None])[..., 0].T
        second = self.frames @ second @ self.frames.transpose(0, 2, 1)
        matrices, eye = np.zeros((self.kinds.size, 6, 6)), np.eye(3)
        matrices[:, :3, :3] = whole[:, None, None] * eye
        matrices[:, 3:, 3:] = np.trace(second, axis1=1, axis2=2)[:, None, None] * eye - second
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):  # first x velocity, spin x first
            matrices[:, 3 + i, j], matrices[:, 3 + j, i] = -first[k], first[k]
            matrices[:, i, 3 + j], matrices[:, j, 3 + i] = first[k], -first[k]
        return np.linalg.inv(matrices)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """What kernels of projections take, in the type of the nodes."""
        home, starts = (
            self.xp.asarray(array.astype(np.int32)) for array in (self.home, self.systems)
        )
        return {
            "home": home,
            "starts": starts,
            "arms": self.arms,
            "normals": self.normals,
            "areas": self.areas,
            "total_areas": self.total_areas,
            "mobility": self._by_bodies(self.mobility),
        }

    # ------------------------------------------------------------------ close points
    def copies(
        self, targets: AnyArray, options: EwaldOptions, reach: float
    ) -> tuple[Any, Any, Any]:
        """Return targets that may be within reach of copies of bodies, and the copies.

        Parameters
        ----------
        targets : array, shape (3, Nt)
        options : EwaldOptions
            With the box.
        reach : float
            In the largest node distance of each shape.

        Returns
        -------
        tuple of 3 arrays, shape (n,), (n,) and (3, n)
            Targets, bodies, and displacements from the bodies' centres; on the host.
        """
        i, body, r = self.around(targets, options, reach)
        close = np.zeros(i.size, bool)
        for shape, mine, local in self._local(body, r):
            close[mine] = shape.distances(local, reach * shape.spacing.max()) < np.inf
        return i[close], body[close], r[:, close]

    def around(
        self, targets: AnyArray, options: EwaldOptions, reach: float
    ) -> tuple[Any, Any, Any]:
        """Return targets in the balls around copies of bodies, which ``reach`` widens: `copies`."""
        radii = np.array([shape.radius + reach * shape.spacing.max() for shape in self.shapes])
        size, near = np.ceil(np.log2(radii))[self.kinds], []
        for exponent in np.unique(size):  # one search for bodies of about one size
            bodies = np.flatnonzero(size == exponent)
            centres = self.xp.asarray(self.centres[:, bodies].astype(self._dtype), order="C")
            radius = (1 + ROUNDED) * float(radii[self.kinds[bodies]].max())
            pairs = pairs_within(targets, centres, radius, options)
            several = pairs.indptr, pairs.indices, pairs.displacements
            ends, j, r = (to_host(array) for array in several)
            i = np.repeat(np.arange(ends.size - 1), np.diff(ends))
            near.append((i, bodies[j], r.astype(np.float64)))
        i, body, r = (np.concatenate(parts, axis=-1) for parts in zip(*near, strict=True))
        return i, body, r

    def inside(self, body: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Return whether points at r (3, n) from bodies' centres, far from nodes, are inside."""
        inside = np.zeros(body.size, bool)
        for shape, mine, local in self._local(body, r):
            inside[mine] = shape.solid_angles(local) > 2 * np.pi
        return inside

    def _local(self, body: np.ndarray, r: np.ndarray) -> Iterator[tuple[Shape, Any, Any]]:
        """Yield each shape, the points that are at its bodies, and these in the bodies' frames."""
        for kind, shape in enumerate(self.shapes):
            mine = np.flatnonzero(self.kinds[body] == kind)
            yield shape, mine, np.einsum("nji,jn->in", self.frames[body[mine]], r[:, mine])

    def nearest(
        self, points: np.ndarray, bodies: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return normals at nearest points, signed distances, node distances and nodes.

        Within rounding a point is on the surface, or at a node.

        Parameters
        ----------
        points : ndarray, shape (3, n)
        bodies : ndarray, shape (n,)
            The body that each point is near to.
        sizes : ndarray, shape (n,)
            Sizes of the coordinates that were rounded, in the precision of the nodes.

        Returns
        -------
        tuple of 4 arrays
            The last one, shape (3, n), has nodes counted over all bodies, or -1: the one that a
            point is `TOUCHING`, the one that it is at, and the finer one that it is at.
        """
        normals, b = np.zeros_like(points), np.zeros(bodies.size)
        h, node = np.ones(bodies.size), np.full((3, bodies.size), -1)
        starts = np.stack([self.systems[:-1], self.systems[:-1], self.finer_starts])
        reach = np.array([shape.radius for shape in self.shapes])[self.kinds[bodies]]
        reach += np.abs(self.centres[:, bodies]).max(axis=0)
        margin = MARGIN * float(np.finfo(self.nodes.dtype).eps) * (sizes + reach)
        for kind, shape in enumerate(self.shapes):
            mine = np.flatnonzero(self.kinds[bodies] == kind)
            if not mine.size:
                continue
            body = bodies[mine]
            margin[mine] += shape.rounding * np.finfo(float).eps * shape.radius
            arms = points[:, mine] - self.centres[:, body]
            local = np.einsum("nji,jn->in", self.frames[body], arms)
            n, b[mine], h[mine] = shape.near(local)
            distance, there = shape.at(local, margin[mine])
            there[0, distance >= TOUCHING * h[mine]] = -1
            at = there[1] >= 0
            n[:, at], b[mine[at]] = shape.normals[:, there[1, at]], 0.0
            normals[:, mine] = np.einsum("nij,jn->in", self.frames[body], n)
            node[:, mine] = np.where(there < 0, -1, starts[:, body] + there)
        b[np.abs(b) <= margin] = 0.0
        return normals, b, h, node

    @cached_property
    def has_finer(self) -> bool:
        """Whether all bodies have finer nodes; otherwise none are used between bodies."""
        return all(shape.finer is not None for shape in self.shapes)

    @cached_property
    def finer_sizes(self) -> Any:
        """How many finer nodes each body has, shape (B,)."""
        sizes = [0 if shape.finer is None else shape.finer.areas.size for shape in self.shapes]
        return np.array(sizes)[self.kinds]

    @cached_property
    def finer_starts(self) -> Any:
        """The first finer node of each body, shape (B,)."""
        return np.cumsum(self.finer_sizes) - self.finer_sizes

    def finer(self) -> tuple[Any, ...]:
        """Return nodes, normals and areas of finer nodes, and their bodies."""
        body = np.repeat(np.arange(self.kinds.size), self.finer_sizes)
        arrays = (
            self._placed("finer.nodes"),
            self._rotated("finer.normals"),
            self._joined("finer.areas"),
        )
        return (*arrays, self.xp.asarray(body))

    def _by_body(self, name: str) -> list[np.ndarray]:
        parts = [shape.part(name) for shape in self.shapes]
        return [parts[kind] for kind in self.kinds]

    def _array(self, several: list[np.ndarray]) -> Any:
        joined = np.concatenate([np.empty((*several[0].shape[:-1], 0)), *several], axis=-1)
        return self.xp.asarray(joined.astype(self._dtype))

    def _joined(self, name: str) -> Any:
        return self._array(self._by_body(name))

    def _rotated(self, name: str) -> Any:
        vectors = zip(self.frames, self._by_body(name), strict=True)
        return self._array([frame @ local for frame, local in vectors])

    def _placed(self, name: str) -> Any:
        points = zip(self.centres.T, self.frames, self._by_body(name), strict=True)
        return self._array([centre[:, None] + frame @ local for centre, frame, local in points])


def numbers(name: str, values: AnyArray) -> Any:
    """Return finite numbers on the host in double precision.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    array = np.asarray(to_host(as_array(name, values)), np.float64)
    if not np.isfinite(array).all():
        raise ParkiValueError(f"{name} contains NaN or infinity")
    return array


def matrices(rotations: AnyArray, count: int) -> Any:
    """Return rotations as matrices (B, 3, 3)."""
    return frames(np, to_host(quaternions("rotations", rotations, count)))
