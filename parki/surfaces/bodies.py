"""`Bodies`: shapes at their places, and the nodes of all of them in the lab's frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.points import as_points
from parki.interchange import as_array, to_host
from parki.runtime import get_execution_space
from parki.solving.rotations import frames, quaternions
from parki.surfaces.shapes import Shape
from parki.typing import Array


class Bodies:
    """Bodies of some shapes, each at a centre and with a rotation: see `parki.Surface`."""

    def begin(self, found: list[Shape], kinds: Any, centres: Any, frames: Any, like: Any) -> None:
        """Place shapes: body k has the shape ``found[kinds[k]]``; arrays are as ``like`` is."""
        self.shapes, self.kinds, self.centres, self.frames = tuple(found), kinds, centres, frames
        array = as_array("nodes", like)
        self._dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.xp = get_execution_space(None, array).array_module
        sizes = np.array([shape.areas.size for shape in found])
        self.systems = np.concatenate([[0], np.cumsum(sizes[kinds])])
        self.nodes, self.normals = self._placed("nodes"), self._rotated("normals")
        self.areas, self.spacing = self._joined("areas"), self._joined("spacing")

    def moved(self, centres: Array, rotations: Any = None) -> Any:
        """Return the same bodies elsewhere.

        Parameters
        ----------
        centres : array, shape (3, B)
        rotations : array, shape (4, B), or ``scipy.spatial.transform.Rotation``, optional
            From the bodies' own frames. Default: as before.
        """
        places = numbers(as_points("centres", centres))
        if places.shape != self.centres.shape:
            raise ParkiValueError(
                f"centres has shape {places.shape}; expected {self.centres.shape}, as before"
            )
        frames = self.frames if rotations is None else matrices(rotations, self.kinds.size)
        other = object.__new__(type(self))
        other.begin(list(self.shapes), self.kinds, places, frames, self.nodes)
        return other

    def alone(self, shape: Shape) -> Any:
        """Return one body of a shape, in its own frame, in double precision on the host."""
        other = object.__new__(type(self))
        places = np.zeros(1, int), np.zeros((3, 1)), np.eye(3)[None]
        other.begin([shape], *places, np.empty((3, 0)))
        return other

    def smooth(self, density: Any) -> Any:
        """Return the parts (..., N) of densities that finer nodes resolve: see `Shape.smooth`."""
        found = density
        for shape, index, _ in self.groups():
            if shape.smooth is not None:
                found = found.copy() if found is density else found
                found[..., index] = density[..., index] @ self.xp.asarray(shape.smooth.T)
        return found

    @property
    def body(self) -> Any:
        """The body of each node, shape (N,)."""
        return self.xp.asarray(np.repeat(np.arange(self.kinds.size), np.diff(self.systems)))

    @property
    def curvature(self) -> Any:
        """The sum of both curvatures at each node, shape (N,): 2/a on a sphere of radius a."""
        return self._joined("curvature")

    def groups(self) -> list[tuple[Shape, Any, np.ndarray]]:
        """Return each shape, the nodes of its bodies (B, n), and the numbers of these bodies."""
        found = []
        for kind, shape in enumerate(self.shapes):
            bodies = np.flatnonzero(self.kinds == kind)
            index = self.systems[bodies][:, None] + np.arange(shape.areas.size)
            found.append((shape, self.xp.asarray(index), bodies))
        return found

    def nearest(self, points: np.ndarray, bodies: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return normals at nearest points, signed distances, node distances and nodes.

        Parameters
        ----------
        points : ndarray, shape (3, n)
        bodies : ndarray, shape (n,)
            The body that each point is near to.

        Returns
        -------
        tuple of 4 arrays
            The last one, shape (2, n), has the node of the body and the finer one that a point is
            at, counted over all bodies, or -1.
        """
        normals, b = np.zeros_like(points), np.zeros(bodies.size)
        h, node = np.ones(bodies.size), np.full((2, bodies.size), -1)
        starts = np.stack([self.systems[:-1], self.finer_starts])
        for kind, shape in enumerate(self.shapes):
            mine = np.flatnonzero(self.kinds[bodies] == kind)
            if not mine.size:
                continue
            own = bodies[mine]
            arms = points[:, mine] - self.centres[:, own]
            local = np.einsum("nji,jn->in", self.frames[own], arms)
            n, b[mine], h[mine] = shape.near(local)
            normals[:, mine] = np.einsum("nij,jn->in", self.frames[own], n)
            there = shape.at(local, h[mine])
            node[:, mine] = np.where(there < 0, -1, starts[:, own] + there)
        return normals, b, h, node

    @property
    def has_finer(self) -> bool:
        """Whether all bodies have finer nodes; otherwise none are used between bodies."""
        return all(shape.finer is not None for shape in self.shapes)

    def _finer_sizes(self) -> Any:
        sizes = [0 if shape.finer is None else shape.finer.areas.size for shape in self.shapes]
        return np.array(sizes)[self.kinds]

    @property
    def finer_starts(self) -> Any:
        """The first finer node of each body, shape (B,)."""
        return np.cumsum(self._finer_sizes()) - self._finer_sizes()

    def finer(self) -> tuple[Any, ...]:
        """Return nodes, normals and areas of finer nodes, and their bodies."""
        body = np.repeat(np.arange(self.kinds.size), self._finer_sizes())
        arrays = (
            self._placed("finer.nodes"),
            self._rotated("finer.normals"),
            self._joined("finer.areas"),
        )
        return (*arrays, self.xp.asarray(body))

    def _each(self, name: str) -> list[np.ndarray]:
        found = []
        for shape in self.shapes:
            value: Any = shape
            for part in name.split("."):
                value = getattr(value, part)
            found.append(value)
        return [found[kind] for kind in self.kinds]

    def _array(self, several: list[np.ndarray]) -> Any:
        joined = np.concatenate([np.empty((*several[0].shape[:-1], 0)), *several], axis=-1)
        return self.xp.asarray(joined.astype(self._dtype))

    def _joined(self, name: str) -> Any:
        return self._array(self._each(name))

    def _rotated(self, name: str) -> Any:
        both = zip(self.frames, self._each(name), strict=True)
        return self._array([frame @ each for frame, each in both])

    def _placed(self, name: str) -> Any:
        both = zip(self.centres.T, self.frames, self._each(name), strict=True)
        return self._array([centre[:, None] + frame @ each for centre, frame, each in both])


def numbers(values: Any) -> Any:
    """Return numbers on the host in double precision."""
    return np.asarray(to_host(values), np.float64)


def matrices(rotations: Any, count: int) -> Any:
    """Return rotations as matrices (B, 3, 3)."""
    return frames(np, to_host(quaternions("rotations", rotations, count)))
