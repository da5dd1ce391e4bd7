"""`Placed`: bodies of some shapes at their places, and what each of them does alone.

Arrays of blobs have the shape (3, N), one body after the other, and motions or loads of bodies
(2, 3, B): velocities and turns, or forces and torques. Everything is at a viscosity of 1.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from parki.core import RecordedSteps
from parki.dynamics.conjugate import dot
from parki.dynamics.shapes import BodyShape
from parki.errors import ParkiValueError
from parki.interchange import as_array, real_name, to_host
from parki.runtime import ExecutionSpace, Kernel, load
from parki.solving import rotations
from parki.solving.search import threads
from parki.typing import AnyArray, ArrayModule, DType

TOGETHER = 4  # bodies for which a device reads a matrix once


class SameShape:
    """The bodies of one shape: which ones, their blobs among all, and matrices in an array type.

    ``numbers`` and ``begins`` are the same as ``bodies`` and the first blobs, as kernels take them.
    """

    def __init__(
        self, xp: ArrayModule, dtype: DType, shape: BodyShape, bodies: Any, starts: AnyArray
    ) -> None:
        index = starts[bodies][:, None] + np.arange(shape.n)
        self.shape, self.count = shape, len(bodies)
        self.bodies, self.blobs = xp.asarray(bodies), xp.asarray(index)
        self.numbers, self.begins = (
            xp.asarray(array.astype(np.int32)) for array in (bodies, starts[bodies])
        )
        self.axes = xp.asarray(shape.spin_axes.astype(dtype))
        matrices = shape.own
        answer = np.concatenate([matrices.held, -matrices.driven.T])
        driven = np.concatenate([matrices.driven, matrices.motion])
        self.answer, self.driven, self.inverse, self.drag = (
            xp.asarray(np.ascontiguousarray(each.T).astype(dtype))
            for each in (answer, driven, matrices.inverse, matrices.drag)
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
    space : ExecutionSpace
    kinds : list of SameShape
    positions, quaternions : array, shapes (3, B) and (4, B), float64
        Quaternions of length 1.
    dtype : dtype
    """

    def __init__(
        self,
        space: ExecutionSpace,
        kinds: list[SameShape],
        positions: AnyArray,
        quaternions: AnyArray,
        dtype: DType,
    ) -> None:
        self.space, self.kinds, self.dtype = space, kinds, dtype
        self.xp = xp = space.array_module
        self.positions, self.quaternions = positions, quaternions
        exact = rotations.frames(xp, quaternions)
        self.frames = xp.ascontiguousarray(exact, dtype=dtype)
        size = sum(kind.blobs.size for kind in kinds)
        self.arms = xp.empty((3, size), dtype)  # from the origins of bodies to their blobs
        self.blobs = xp.empty((3, size), dtype)
        for kind in kinds:
            arms = xp.matmul(exact[kind.bodies], xp.asarray(kind.shape.blobs))  # (B, 3, n)
            self.arms[:, kind.blobs] = arms.transpose(1, 0, 2)
            arms += positions.T[kind.bodies][:, :, None]
            self.blobs[:, kind.blobs] = arms.transpose(1, 0, 2)

    @classmethod
    def checked(
        cls,
        space: ExecutionSpace,
        kinds: list[SameShape],
        positions: AnyArray,
        quaternions: AnyArray,
        dtype: DType,
    ) -> Placed:
        """Return bodies at places that a user gave, or refuse these."""
        xp = space.array_module
        if not bool(xp.isfinite(positions).all()):
            raise ParkiValueError("positions contains NaN or infinite numbers")
        unit = rotations.quaternions("quaternions", quaternions, positions.shape[1])
        unit = xp.asarray(to_host(unit) if xp is np else unit)
        return cls(space, kinds, positions.astype(np.float64), unit, dtype)

    def recorded(self, steps: RecordedSteps) -> Placed:
        """Return the same bodies, their arrays where steps that are recorded find them."""
        other = copy.copy(self)
        other.frames, other.arms = steps.keep(frames=self.frames, arms=self.arms)
        return other

    # ------------------------------------------------------------------ to and from bodies
    def turning(self, turns: AnyArray, arms: AnyArray = None) -> Any:
        """Return the velocities (3, N) of blobs whose bodies turn about their origins.

        ``arms`` (3, N), from the origins to the blobs, may be others than at present.
        """
        motions = self.xp.zeros((2, *turns.shape), self.dtype)
        motions[1] = turns
        return self.carried(motions, arms)

    def carried(self, motions: AnyArray, arms: AnyArray = None) -> Any:
        """Return K u: the velocities of blobs that motions carry; ``arms`` as for `turning`."""
        velocities, arms = self.xp.empty_like(self.arms), self.arms if arms is None else arms
        for kind in self.kinds:
            self._launch("carry", kind, arms=arms, motions=motions, velocities=velocities)
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
            of_bodies = forces[:, kind.blobs].transpose(1, 0, 2)
            at_blobs = self.xp.matmul(rotation[kind.bodies], of_bodies)
            rotated[:, kind.blobs] = at_blobs.transpose(1, 0, 2)
        return rotated, self.xp.einsum("bij,tjb->tib", rotation, motions)

    def in_lab(self, vectors: list[AnyArray]) -> Any:
        """Return vectors (3, n) in the frames of each shape as vectors (3, N) in the lab's.

        Raises
        ------
        ParkiValueError
            If there are not as many, or of another shape than (3, n).
        """
        if len(vectors) != len(self.kinds):
            raise ParkiValueError(f"vectors has {len(vectors)} arrays; expected {len(self.kinds)}")
        rows = [self.xp.asarray(as_array("vectors", each), self.dtype) for each in vectors]
        for array, kind in zip(rows, self.kinds, strict=True):
            if array.shape != (3, kind.shape.n):
                raise ParkiValueError(
                    f"vectors has shape {array.shape}; expected {(3, kind.shape.n)}, for the blobs "
                    "of a shape"
                )
        in_lab = self.xp.empty_like(self.arms)
        for array, kind in zip(rows, self.kinds, strict=True):
            rotated = self.xp.matmul(self.frames[kind.bodies], array)
            in_lab[:, kind.blobs] = rotated.transpose(1, 0, 2)
        return in_lab

    # ------------------------------------------------------------------ each body alone
    def alone(self, residual: AnyArray) -> tuple[Any, Any]:
        """Return forces and motions of bodies alone whose blobs have velocities, without loads."""
        return self._answered([self._local(kind, residual) for kind in self.kinds], "answer")

    def driven(self, loads: Any) -> tuple[Any, Any]:
        """Return forces and motions of bodies alone by loads."""
        return self._answered([self._local_loads(kind, loads) for kind in self.kinds], "driven")

    def energy(self, motions: AnyArray) -> Any:
        """Return the power of motions (2, 3, B) against the drag of bodies alone."""
        power: Any = 0.0
        for kind in self.kinds:
            local = self._local_loads(kind, motions)
            power = power + dot(self._multiplied(local, kind.drag), local)
        return power

    def freed(self, residual: AnyArray) -> tuple[Any, Any]:
        """Return forces on blobs of bodies alone by velocities, and no motions."""
        return self._answered([self._local(kind, residual) for kind in self.kinds], "inverse")

    def resisted(self, motions: AnyArray, power: float = 1.0) -> Any:
        """Return R u, torques by turns that move no blob; or a power of R times u."""
        torques = self.xp.zeros_like(self._loads())
        for kind in self.kinds:
            if not kind.axes.shape[1]:
                continue
            axes = _rotated(self.frames[kind.bodies], kind.axes)  # (B, 3, 1 or 3)
            along = (axes * motions[1][:, kind.bodies].T[:, :, None]).sum(axis=1)
            strength = self.dtype.type(kind.shape.spin_drag**power)
            torques[1][:, kind.bodies] = strength * (axes * along[:, None]).sum(axis=2).T
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

    def _answered(self, rows: list[Any], matrix: str) -> tuple[Any, Any]:
        """Return forces and motions by what bodies have in their frames, times a matrix of each.

        Where it answers with forces alone, bodies have no motions.
        """
        forces, motions = self.xp.empty_like(self.arms), self.xp.zeros_like(self._loads())
        for kind, local in zip(self.kinds, rows, strict=True):
            answers, size = self._multiplied(local, getattr(kind, matrix)), 3 * kind.shape.n
            self._rotate("to_lab", kind, rotated=answers, values=forces)
            if answers.shape[1] > size:
                both = answers[:, size:].reshape(kind.count, 2, 3).transpose(0, 2, 1)
                rotated = _rotated(self.frames[kind.bodies], both)
                motions[:, :, kind.bodies] = rotated.transpose(2, 1, 0)
        return forces, motions

    def _local(self, kind: SameShape, values: AnyArray) -> Any:
        """Return values at blobs in the bodies' frames, shape (B, 3 n)."""
        rotated = self.xp.empty((kind.count, 3 * kind.shape.n), self.dtype)
        self._rotate("to_frames", kind, values=values, rotated=rotated)
        return rotated

    def _local_loads(self, kind: SameShape, loads: Any) -> Any:
        """Return loads in the bodies' frames, shape (B, 6)."""
        of_bodies = loads[:, :, kind.bodies].transpose(2, 1, 0)
        rotated = _rotated(self.frames[kind.bodies].transpose(0, 2, 1), of_bodies)
        return rotated.transpose(0, 2, 1).reshape(kind.count, 6)

    def _multiplied(self, rows: AnyArray, matrix: AnyArray) -> Any:
        """Return a product of rows (B, k), for which a device takes no library: it records none."""
        return multiplied(self.space, rows, matrix) if self.space.on_device else rows @ matrix

    def _rotate(self, name: str, kind: SameShape, *, values: AnyArray, rotated: AnyArray) -> None:
        """Launch a kernel between vectors at the blobs of a shape's bodies and in their frames."""
        self._launch(
            name,
            kind,
            values=values[None],
            rotated=rotated[:, None],
            count=kind.count,
            rows=3,
            frames=self.frames,
        )

    def _launch(self, name: str, kind: SameShape, **arrays: AnyArray) -> None:
        """Launch a kernel for the blobs of the bodies of a shape."""
        _kernel(name, self.space, self.dtype)(
            kind.blobs.size,
            threads(kind.blobs.size),
            arguments=arrays,
            bodies=kind.numbers,
            begins=kind.begins,
            blobs=kind.shape.n,
        )


def _kernel(name: str, space: ExecutionSpace, dtype: DType) -> Kernel:
    return load("bodies", name, space, REAL=real_name(dtype), TOGETHER=TOGETHER)


def multiplied(space: ExecutionSpace, rows: AnyArray, matrix: AnyArray) -> Any:
    """Return the product of rows (B, k) and a matrix (k, n) by a kernel."""
    count, (inner, columns) = len(rows), matrix.shape
    found = space.array_module.empty((count, columns), matrix.dtype)
    _kernel("multiply", space, matrix.dtype)(
        -(-count // TOGETHER) * columns,
        rows=count,
        inner=inner,
        columns=columns,
        left=space.array_module.ascontiguousarray(rows),
        right=matrix,
        product=found,
    )
    return found


def _rotated(frames: AnyArray, vectors: AnyArray) -> Any:
    """Return few vectors (B, 3, k), or (3, k), in turned frames (B, 3, 3)."""
    return (frames[:, :, :, None] * vectors[..., None, :, :]).sum(axis=2)


def cross(xp: ArrayModule, a: AnyArray, b: AnyArray) -> Any:
    """Return the cross product of columns."""
    return xp.stack([a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)])
