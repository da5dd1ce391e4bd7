"""`Placed`: bodies of some shapes at their places, and what each of them does alone.

Arrays of blobs have the shape (3, N), one body after the other, and motions or loads of bodies
(2, 3, B): velocities and turns, or forces and torques. Everything is at a viscosity of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parki.dynamics.conjugate import dot
from parki.dynamics.shapes import BodyShape
from parki.interchange import to_host
from parki.solving import rotations
from parki.typing import AnyArray, ArrayModule, DType


class SameShape:
    """The bodies of one shape: which ones, their blobs among all, and matrices in an array type."""

    def __init__(
        self, xp: ArrayModule, dtype: DType, shape: BodyShape, bodies: Any, starts: AnyArray
    ) -> None:
        index = starts[bodies][:, None] + np.arange(shape.n)
        self.shape, self.count = shape, len(bodies)
        self.bodies, self.blobs = xp.asarray(bodies), xp.asarray(index)
        self.axes = xp.asarray(shape.spin_axes.astype(dtype))
        own = shape.own
        answer = np.concatenate([own.held, -own.driven.T])
        self.answer, self.driven, self.motion, self.inverse, self.drag = (
            xp.asarray(np.ascontiguousarray(each.T).astype(dtype))
            for each in (answer, own.driven, own.motion, own.inverse, own.drag)
        )


def same_shapes(
    xp: ArrayModule, dtype: DType, shapes: Sequence[BodyShape], which: Any
) -> tuple[list[SameShape], Any]:
    """Return the bodies of each shape, and the radii (N,) of all blobs, by each body's shape."""
    counts = np.array([shape.n for shape in shapes])[which]
    starts, radii = np.cumsum(counts) - counts, np.empty(counts.sum())
    kinds = list[SameShape]()
    for number_of, shape in enumerate(shapes):
        kind = SameShape(xp, dtype, shape, np.flatnonzero(which == number_of), starts)
        radii[to_host(kind.blobs)] = shape.radii
        kinds.append(kind)
    return kinds, radii


class Placed:
    """Bodies at their places.

    Parameters
    ----------
    xp : module
        NumPy or CuPy.
    kinds : list of SameShape
    positions, quaternions : array, shapes (3, B) and (4, B), float64
        Quaternions of length 1.
    dtype : dtype
    """

    def __init__(
        self,
        xp: ArrayModule,
        kinds: list[SameShape],
        positions: AnyArray,
        quaternions: AnyArray,
        dtype: DType,
    ) -> None:
        self.xp, self.kinds, self.dtype = xp, kinds, dtype
        self.positions, self.quaternions = positions, quaternions
        exact = rotations.frames(xp, quaternions)
        self.frames = exact.astype(dtype)
        size = sum(kind.blobs.size for kind in kinds)
        self.arms = xp.empty((3, size), dtype)  # from the origins of bodies to their blobs
        self.blobs = xp.empty((3, size), dtype)
        for kind in kinds:
            arms = xp.matmul(exact[kind.bodies], xp.asarray(kind.shape.blobs))  # (B, 3, n)
            self.arms[:, kind.blobs] = arms.transpose(1, 0, 2)
            arms += positions.T[kind.bodies][:, :, None]
            self.blobs[:, kind.blobs] = arms.transpose(1, 0, 2)

    # ------------------------------------------------------------------ to and from bodies
    def turning(self, turns: AnyArray, arms: AnyArray = None) -> Any:
        """Return the velocities (3, N) of blobs whose bodies turn about their origins.

        ``arms`` (3, N), from the origins to the blobs, may be others than at present.
        """
        velocities = self.xp.empty_like(self.arms)
        arms = self.arms if arms is None else arms
        for kind in self.kinds:
            own, arm = turns[:, kind.bodies, None], arms[:, kind.blobs]
            velocities[:, kind.blobs] = cross(self.xp, own, arm)
        return velocities

    def carried(self, motions: AnyArray) -> Any:
        """Return K u: the velocities of blobs that motions carry."""
        velocities = self.turning(motions[1])
        for kind in self.kinds:
            velocities[:, kind.blobs] += motions[0][:, kind.bodies, None]
        return velocities

    def torques(self, forces: AnyArray, arms: AnyArray = None) -> Any:
        """Return the torques (3, B) of forces on blobs, about the origins of bodies."""
        torques = self._loads()[1]
        each = cross(self.xp, self.arms if arms is None else arms, forces)
        for kind in self.kinds:
            torques[:, kind.bodies] = each[:, kind.blobs].sum(axis=2)
        return torques

    def carried_back(self, forces: AnyArray) -> Any:
        """Return K^T x: forces and torques on bodies by forces on blobs."""
        loads = self._loads()
        for kind in self.kinds:
            loads[0][:, kind.bodies] = forces[:, kind.blobs].sum(axis=2)
        loads[1] = self.torques(forces)
        return loads

    def moments(self, forces: AnyArray) -> Any:
        """Return sums of r F^T over the blobs of each body, shape (3, 3, B)."""
        moments = self.xp.empty((3, 3, self._count), self.dtype)
        for kind in self.kinds:
            arm, force = self.arms[:, kind.blobs], forces[:, kind.blobs]
            moments[:, :, kind.bodies] = self.xp.einsum("ibn,jbn->ijb", arm, force)
        return moments

    def rotated_since(self, then: Placed, forces: AnyArray, motions: AnyArray) -> tuple[Any, Any]:
        """Return forces on blobs and motions turned with bodies that were elsewhere then."""
        rotation = self.xp.matmul(self.frames, then.frames.transpose(0, 2, 1))
        rotated = self.xp.empty_like(forces)
        for kind in self.kinds:
            own = forces[:, kind.blobs].transpose(1, 0, 2)
            rotated[:, kind.blobs] = self.xp.matmul(rotation[kind.bodies], own).transpose(1, 0, 2)
        return rotated, self.xp.einsum("bij,tjb->tib", rotation, motions)

    def in_lab(self, vectors: list[Any]) -> Any:
        """Return vectors (3, n) in the frames of each shape as vectors (3, N) in the lab's."""
        in_lab = self.xp.empty_like(self.arms)
        for kind, own in zip(self.kinds, vectors, strict=True):
            in_lab[:, kind.blobs] = self.xp.matmul(self.frames[kind.bodies], own).transpose(1, 0, 2)
        return in_lab

    # ------------------------------------------------------------------ each body alone
    def alone(self, residual: AnyArray) -> tuple[Any, Any]:
        """Return forces and motions of bodies alone whose blobs have velocities, without loads."""
        forces, motions = self.xp.empty_like(self.arms), self._loads()
        for kind in self.kinds:
            answers = self._local(kind, residual) @ kind.answer
            self._back(kind, answers, forces, motions)
        return forces, motions

    def driven(self, loads: Any) -> tuple[Any, Any]:
        """Return forces and motions of bodies alone by loads."""
        forces, motions = self.xp.empty_like(self.arms), self._loads()
        for kind in self.kinds:
            own = self._local_loads(kind, loads)
            answers = self.xp.concatenate([own @ kind.driven, own @ kind.motion], axis=1)
            self._back(kind, answers, forces, motions)
        return forces, motions

    def energy(self, motions: AnyArray) -> Any:
        """Return the power of motions (2, 3, B) against the drag of bodies alone."""
        power: Any = 0.0
        for kind in self.kinds:
            own = self._local_loads(kind, motions)
            power = power + dot(own @ kind.drag, own)
        return power

    def freed(self, residual: AnyArray) -> tuple[Any, Any]:
        """Return forces on blobs of bodies alone by velocities, and no motions."""
        forces = self.xp.empty_like(self.arms)
        for kind in self.kinds:
            acts = self._local(kind, residual) @ kind.inverse
            self._back(kind, acts, forces, None)
        return forces, self.xp.zeros_like(self._loads())

    def resisted(self, motions: AnyArray, power: float = 1.0) -> Any:
        """Return R u, torques by turns that move no blob; or a power of R times u."""
        torques = self.xp.zeros_like(self._loads())
        for kind in self.kinds:
            if not kind.axes.shape[1]:
                continue
            axes = self.xp.matmul(self.frames[kind.bodies], kind.axes)  # (B, 3, 1 or 3)
            along = self.xp.einsum("bim,ib->bm", axes, motions[1][:, kind.bodies])
            strength = self.dtype.type(kind.shape.spin_drag**power)
            torques[1][:, kind.bodies] = strength * self.xp.einsum("bim,bm->ib", axes, along)
        return torques

    def resisted_by(self, turns: AnyArray, motions: AnyArray) -> Any:
        """Return the change of R u where bodies turn by small rotation vectors (3, B)."""
        crossed = self.xp.zeros_like(motions)
        crossed[1] = cross(self.xp, turns, motions[1])
        change = -self.resisted(crossed)
        change[1] += cross(self.xp, turns, self.resisted(motions)[1])
        return change

    # ------------------------------------------------------------------ within
    @property
    def _count(self) -> int:
        return int(self.positions.shape[1])

    def _loads(self) -> Any:
        return self.xp.empty((2, 3, self._count), self.dtype)

    def _local(self, kind: SameShape, values: AnyArray) -> Any:
        """Return values at blobs in the bodies' frames, shape (B, 3 n)."""
        own = values[:, kind.blobs].transpose(1, 0, 2)
        frames = self.frames[kind.bodies].transpose(0, 2, 1)
        return self.xp.matmul(frames, own).reshape(kind.count, 3 * kind.shape.n)

    def _local_loads(self, kind: SameShape, loads: Any) -> Any:
        """Return loads in the bodies' frames, shape (B, 6)."""
        own = loads[:, :, kind.bodies].transpose(2, 1, 0)
        frames = self.frames[kind.bodies].transpose(0, 2, 1)
        return self.xp.matmul(frames, own).transpose(0, 2, 1).reshape(kind.count, 6)

    def _back(self, kind: SameShape, found: AnyArray, forces: AnyArray, motions: AnyArray) -> None:
        """Write (B, 3 n + 6) of the bodies' frames into forces and motions of the lab's."""
        size = 3 * kind.shape.n
        frames, own = self.frames[kind.bodies], found[:, :size].reshape(kind.count, 3, kind.shape.n)
        forces[:, kind.blobs] = self.xp.matmul(frames, own).transpose(1, 0, 2)
        if motions is not None:
            both = found[:, size:].reshape(kind.count, 2, 3).transpose(0, 2, 1)
            motions[:, :, kind.bodies] = self.xp.matmul(frames, both).transpose(2, 1, 0)


def cross(xp: ArrayModule, a: AnyArray, b: AnyArray) -> Any:
    """Return the cross product of columns."""
    return xp.stack([a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)])
