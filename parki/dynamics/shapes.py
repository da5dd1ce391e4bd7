"""`BodyShape`: the blobs of one rigid body in its own frame, and ready-made ones.

Blobs are spheres that one body holds together. A shape has what belongs to every body of it, in
units of a viscosity of 1: the mobility of its blobs in free space as a dense matrix, and the
inverse of what the blobs' forces and the body's motion solve (`OwnMatrices`). Shapes are NumPy's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from parki.core import as_points
from parki.errors import ParkiValueError
from parki.interchange import finite, positive, to_host, whole
from parki.memory import require, telling
from parki.runtime import get_execution_space
from parki.runtime.forks import cached_property
from parki.suspensions.radii import lengths
from parki.typing import AnyArray

# For spheres of this many blobs, the radius of blobs and the distance of their centres from the
# middle, over the hydrodynamic radius: a force and a torque see the same radius there. The last
# number is the speed of a squirmer with its slip at the blobs, over the exact one.
SPHERES = {
    12: (0.28618799, 0.93638293, 1.2625354),
    42: (0.16278516, 0.95925906, 1.2297688),
    162: (0.09259603, 0.97396579, 1.1517161),
    642: (0.05272368, 0.98408034, 1.0887282),
}
# The radius of a long line of blobs that overlap by half, over the radius of a blob: 0.883 for
# forces along the line, and 0.866 for forces across it.
SLENDER = 0.875
# By which the blobs at the ends lie within a rod, in their radii: rods turn as cylinders then.
INSET = 0.6
SAME = 1e-6  # of its radius: blobs that differ by less are one blob, by rounding
FLAT = 1e-6  # relative singular values of motions that move no blob


class OwnMatrices(NamedTuple):
    """What a body alone in free space has, at a viscosity of 1, with M and K as in `BodyShape`.

    Attributes
    ----------
    inverse : ndarray, shape (3 n, 3 n)
        Of M: from velocities of the blobs to forces on them.
    held, driven, motion : ndarray, shapes (3 n, 3 n), (3 n, 6), (6, 6)
        The solution of ``M x - K u = r``, ``K^T x + R u = f`` is ``x = held r + driven f`` and
        ``u = motion f - driven^T r``.
    drag : ndarray, shape (6, 6)
        The inverse of ``motion``.
    """

    inverse: np.ndarray
    held: np.ndarray
    driven: np.ndarray
    motion: np.ndarray
    drag: np.ndarray


@telling
@dataclass(frozen=True, eq=False)
class BodyShape:
    """Blobs of a rigid body: spheres in the body's own frame, which may overlap.

    Parameters
    ----------
    blobs : array, shape (3, n)
        Centres of the blobs. The origin of the frame is the point that positions of bodies mean:
        forces act there, and bodies turn about it.
    radii : float, or array of shape (n,)
    slip : float
        By how much a slip that blobs are given acts as a larger one on the surface of the body,
        which they lie within: divide slips by it.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If blobs have no radius, are the same blob twice, or lie on a line that misses the origin.

    Notes
    -----
    M is the mobility of Rotne, Prager and Yamakawa of the blobs in free space, and K has the
    velocities of the blobs by the velocity and the angular velocity of the body. Blobs on a line
    do not move when the body turns about the line. Such a turn takes a torque of ``8 pi viscosity
    sum(radii^3)``, R in formulas, as if each blob turned alone.

    Examples
    --------
    >>> import parki
    >>> ball = parki.BodyShape.sphere(1.0, 42)
    >>> print(f"{6 * 3.141593 * ball.mobility()[0, 0]:.4f}")
    1.0000
    """

    blobs: Any
    radii: Any
    slip: float = 1.0

    def __post_init__(self) -> None:
        points = to_host(as_points("blobs", self.blobs)).astype(np.float64)
        sizes = np.array(np.broadcast_to(lengths(self.radii, points.shape[1]), points.shape[1:]))
        if not points.size or not np.isfinite(points).all():
            raise ParkiValueError("blobs has no column, NaN or infinite numbers; expected centres")
        if not sizes.all():
            raise ParkiValueError("radii has zeros; expected a radius for each blob of a body")
        _check_apart(points, sizes)
        object.__setattr__(self, "blobs", points)
        object.__setattr__(self, "radii", sizes)
        if np.abs(self._still[:3]).max(initial=0.0) > FLAT:
            raise ParkiValueError(
                "the blobs lie on a line that misses the origin of their frame, or one lies alone "
                "outside of it; move the blobs, so that the line meets the origin"
            )

    @property
    def n(self) -> int:
        """The number of blobs."""
        return int(self.radii.size)

    @property
    def extent(self) -> float:
        """The largest distance of a blob's surface from the origin."""
        return float((np.linalg.norm(self.blobs, axis=0) + self.radii).max())

    @cached_property
    def motions(self) -> Any:
        """K, shape (3 n, 6): velocities of the blobs by velocity and angular velocity."""
        x, y, z = self.blobs
        o = np.zeros(self.n)
        turning = np.array([[o, z, -y], [-z, o, x], [y, -x, o]])  # [:, j]: rows e_j x r
        moving = np.repeat(np.eye(3)[:, :, None], self.n, axis=2)
        return np.concatenate([moving, turning], axis=1).transpose(0, 2, 1).reshape(-1, 6)

    @cached_property
    def _still(self) -> Any:
        """Motions (6, m) that move no blob, for lengths in units of the extent."""
        scaled = self.motions * np.repeat([1.0, 1 / self.extent], 3)
        _, sizes, rows = np.linalg.svd(scaled, full_matrices=True)
        return rows[np.append(sizes, np.zeros(6))[:6] <= FLAT * sizes[0]].T

    @property
    def spin_axes(self) -> Any:
        """Axes (3, 0, 1 or 3) of turns that move no blob."""
        return self._still[3:] / np.linalg.norm(self._still[3:], axis=0)

    @property
    def spin_drag(self) -> float:
        """The torque by such a turn, at a viscosity of 1."""
        return 8 * math.pi * float((self.radii**3).sum())

    @cached_property
    def own(self) -> OwnMatrices:
        """The matrices of a body alone."""
        space = get_execution_space(None, self.blobs)
        what = f"the matrices of a body of {self.n} blobs"
        require(space, 8 * 8.0 * (3 * self.n) ** 2, what, "take fewer blobs for a body")
        inverse, moved = np.linalg.inv(free_space(self.blobs, self.radii)), self.motions
        inverse = (inverse + inverse.T) / 2
        forces = inverse @ moved
        drag = moved.T @ forces
        drag[3:, 3:] += self.spin_drag * self.spin_axes @ self.spin_axes.T
        motion = np.linalg.inv(drag)
        driven = forces @ motion
        return OwnMatrices(inverse, inverse - driven @ forces.T, driven, motion, drag)

    def mobility(self, viscosity: float = 1.0) -> Any:
        """Return the mobility of a body alone in free space, in its own frame.

        Parameters
        ----------
        viscosity : float

        Returns
        -------
        ndarray, shape (6, 6)
            From force and torque, about the origin, to velocity and angular velocity.
        """
        return self.own.motion / positive("viscosity", viscosity)

    # ------------------------------------------------------------------ ready made
    @classmethod
    def sphere(cls, radius: float = 1.0, blobs: int = 42) -> BodyShape:
        """Return a sphere of 12, 42, 162 or 642 blobs, at the corners of divided icosahedra.

        ``radius`` is the hydrodynamic one: a force and a torque move a body alone exactly as they
        move this sphere. The blobs lie within its surface. In strain the radius is 2.4 per cent
        smaller with 12 blobs, 0.4 with 42, and 0.03 with more.
        """
        if blobs not in SPHERES:
            raise ParkiValueError(f"blobs is {blobs!r}; expected 12, 42, 162 or 642 for a sphere")
        size, within, slip = SPHERES[blobs]
        corners = icosphere(list(SPHERES).index(blobs))
        radius = _length("radius", radius)
        return cls(radius * within * corners, radius * size, slip)

    @classmethod
    def rod(cls, length: float, radius: float, blobs: int | None = None) -> BodyShape:
        """Return a rod along the last axis of its frame: one line of blobs that overlap by half.

        ``length`` and ``radius`` are a cylinder's, whose ends are flat. A rod alone moves and turns
        as this cylinder within 3 per cent, if its length is at least 5 times its width. It
        turns freely about itself: see `BodyShape`.
        """
        ends, size = _line(length, radius)
        count = _count(blobs, round(2 * ends / size) + 1, 2)
        return cls(np.array([[0.0], [0.0], [ends]]) * np.linspace(-1, 1, count), size)

    @classmethod
    def ring(cls, radius: float, thickness: float, blobs: int | None = None) -> BodyShape:
        """Return a ring around the last axis: a line of blobs that overlap by half.

        ``radius`` is the distance of its middle line from the axis, ``thickness`` the radius of the
        line, as a rod's.
        """
        size, around = _length("thickness", thickness) / SLENDER, _length("radius", radius)
        count = _count(blobs, round(2 * math.pi * around / size), 3)
        angle = 2 * math.pi * np.arange(count) / count
        return cls(around * np.stack([np.cos(angle), np.sin(angle), 0 * angle]), size)

    @classmethod
    def plate(cls, length: float, width: float, blobs: int = 36) -> BodyShape:
        """Return a flat plate across the last axis: rows of blobs, which touch.

        ``blobs`` is their number, about. The plate is as thick as a blob. The blobs at its edges
        lie within it.
        """
        sides = _length("length", length), _length("width", width)
        many = _count(blobs, 36, 3)
        step = math.sqrt(sides[0] * sides[1] / many)
        rows = [max(1, round(side / step)) for side in sides]
        size = min(side / count for side, count in zip(sides, rows, strict=True)) / 2
        lines = [
            (side - 2 * size) * (np.linspace(-0.5, 0.5, count) if count > 1 else np.zeros(1))
            for side, count in zip(sides, rows, strict=True)
        ]
        x, y = (each.ravel() for each in np.meshgrid(*lines, indexing="ij"))
        return cls(np.stack([x, y, 0 * x]), size)

    @classmethod
    def boomerang(
        cls, arm: float, radius: float, angle: float = math.pi / 2, blobs: int | None = None
    ) -> BodyShape:
        """Return two rods that meet at the ends, in the plane of the first two axes.

        Each has the length ``arm`` along its middle line, and half of the ``angle`` is between it
        and the first axis. The origin is the mean of the blobs. ``blobs`` is the number
        of one arm, with the corner.
        """
        if not 0 < finite("angle", angle, "an angle between 0 and pi") < math.pi:
            raise ParkiValueError(f"angle is {angle!r}; expected one between 0 and pi, in radians")
        ends, size = _line(2 * arm, radius)
        count = _count(blobs, round(ends / size) + 1, 2)
        along = np.linspace(0, ends, count)
        sides = [
            np.stack([np.cos(angle / 2) * some, side * np.sin(angle / 2) * some, 0 * some])
            for side, some in ((1, along[::-1]), (-1, along[1:]))
        ]
        blobs_of = np.concatenate(sides, axis=1)
        return cls(blobs_of - blobs_of.mean(axis=1, keepdims=True), size)


def free_space(points: AnyArray, radii: AnyArray) -> Any:
    """Return the mobility (3 n, 3 n) of spheres in free space at a viscosity of 1.

    Rows and columns are a component after the other. Wajnryb, Mizerski, Zuk and Szymczak (2013),
    Zuk, Wajnryb, Mizerski and Szymczak (2014): the closed forms of any radii, overlaps included.
    """
    apart = points[:, :, None] - points[:, None]
    a, b = radii[:, None], radii[None]
    r = np.sqrt((apart**2).sum(axis=0))
    nested = r <= abs(a - b)
    r = np.where(nested, 1.0, r)
    squares, gap = a * a + b * b, (a - b) ** 2
    overlap = (16 * r**3 * (a + b) - (gap + 3 * r * r) ** 2) / (24 * a * b * r**3)
    identity = np.where(r > a + b, (1 + squares / (3 * r * r)) / r, overlap)
    along = np.where(
        r > a + b, (1 - squares / (r * r)) / r, (gap - r * r) ** 2 / (8 * a * b * r**3)
    )
    identity = np.where(nested, 4 / (3 * np.maximum(a, b)), identity)
    along = np.where(nested, 0.0, along) / (r * r)
    blocks = identity * np.eye(3)[:, :, None, None] + along * apart[:, None] * apart[None]
    return blocks.transpose(0, 2, 1, 3).reshape(3 * len(radii), -1) / (8 * math.pi)


def icosphere(level: int) -> Any:
    """Return the corners (3, n) on the unit sphere of an icosahedron whose edges are halved."""
    golden = (1 + math.sqrt(5)) / 2
    corners = np.array([(s, t * golden, 0.0) for s in (1, -1) for t in (1, -1)])
    corners = np.concatenate([np.roll(corners, shift, axis=1) for shift in range(3)])
    corners /= math.hypot(1, golden)
    apart = np.linalg.norm(corners[:, None] - corners, axis=2)
    near = apart < 1.2  # an edge is 1.05 long, and the next distance 1.7
    faces = [
        (i, j, k)
        for i in range(12)
        for j in range(i + 1, 12)
        for k in range(j + 1, 12)
        if near[i, j] and near[j, k] and near[i, k]
    ]
    nodes = corners.tolist()
    for _ in range(level):
        middle: dict[tuple[int, int], int] = {}
        divided = []
        for face in faces:
            i, j, k = face
            new = []
            for edge in ((i, j), (j, k), (i, k)):
                pair = min(edge), max(edge)
                if pair not in middle:
                    middle[pair] = len(nodes)
                    between = np.add(nodes[pair[0]], nodes[pair[1]])
                    nodes.append((between / np.linalg.norm(between)).tolist())
                new.append(middle[pair])
            a, b, c = new
            divided += [(i, a, c), (j, a, b), (k, b, c), (a, b, c)]
        faces = divided
    return np.array(nodes).T


def _check_apart(points: AnyArray, radii: AnyArray) -> None:
    """Refuse a blob that is there twice, whose two forces have no values of their own."""
    pairs = cKDTree(points.T).query_pairs(SAME * float(radii.max()), output_type="ndarray")
    i, j = pairs[np.lexsort(pairs.T[::-1])].T  # i < j
    apart = np.linalg.norm(points[:, i] - points[:, j], axis=0) + abs(radii[i] - radii[j])
    twice = np.flatnonzero(apart <= SAME * radii[i])
    if twice.size:
        raise ParkiValueError(
            f"blobs {i[twice[0]]} and {j[twice[0]]} are at one place and of one radius, to a "
            "millionth of it; leave one of them out"
        )


def _length(name: str, value: float) -> float:
    return positive(name, value, "a positive, finite length")


def _count(count: int | None, usual: int, least: int) -> int:
    """Return a number of blobs."""
    usual = max(usual, least)
    return usual if count is None else whole("blobs", count, "a number of blobs", least)


def _line(length: float, radius: float) -> tuple[float, float]:
    """Return where the line of a rod's blobs ends, and the blobs' radius."""
    size = _length("radius", radius) / SLENDER
    ends = _length("length", length) / 2 - INSET * size
    if ends <= 0:
        raise ParkiValueError(
            f"length is {length!r} for a rod of radius {radius!r}; expected a rod that is longer "
            "than it is wide; for a round body take BodyShape.sphere"
        )
    return ends, size
