"""`Lubrication`: how pairs of spheres close to each other resist, by the tables of exact pairs.

A pair resists its motion and strain by a matrix that is positive, whatever the radii and the gap.
It fades out towards the gap `FAR`. A unit vector e from sphere 1 to sphere 2 and `SCALARS` make it:
motion along e and about it, motion across e, and strain in the plane across e.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from parki.core import EwaldOptions
from parki.dynamics.moments import gauged
from parki.dynamics.tables import FAR, LENGTHS, PLACES, SIZES, SQRT2, SQRT6, scalars
from parki.errors import OverlapError
from parki.solving.pairs import module_of, pairs_within, sums_by
from parki.typing import AnyArray

SMALLEST_GAP = 1e-6  # over the mean radius; closer pairs resist as much as these
ROUNDING = 1e-6  # by which spheres that touch may overlap
SAME = 1 - 1e-12  # overlap of rough ones, whose direction rounding makes
FADED = 0.25  # the part of the gaps in which it fades out


class Lubrication:
    """The resistance of all pairs in reach, in units of 8 pi viscosity = 1.

    Parameters
    ----------
    points : array, shape (3, N), float64
    radii : array, shape (N,), float64
    options : EwaldOptions
    roughness : float
        Gap, over the mean radius, below which pairs resist no more than there.
    """

    def __init__(
        self, points: AnyArray, radii: AnyArray, options: EwaldOptions, roughness: float
    ) -> None:
        self.count, self.radii = points.shape[1], radii
        self.least = max(roughness, SMALLEST_GAP)
        # Without a net force on the fluid the gauge of free axes adds a velocity to all spheres,
        # which must not count: pairs resist nothing there that moves both spheres in the same way.
        self.relative = any(gauged(options))
        reach = (2 + FAR) * float(radii.max()) if self.count else 1.0
        pairs = pairs_within(points, points, reach, options)  # with those at one place
        i, j, d = pairs.targets, pairs.indices, pairs.displacements
        x, y, z = d
        ahead = (x > 0) | (x == 0) & ((y > 0) | (y == 0) & (z > 0))
        near = pairs.distances < (1 + FAR / 2) * (radii[i] + radii[j])
        once = np.flatnonzero(near & ((i < j) | (i == j) & ahead))
        i, j, d = i[once], j[once], d[:, once]
        larger = radii[i] >= radii[j]
        self.first, self.second = np.where(larger, i, j), np.where(larger, j, i)
        both = np.concatenate([self.first, self.second])
        self.sums = sums_by(module_of(points), both, self.count)
        if once.size:
            self._check(1 - pairs.distances[once] / (radii[i] + radii[j]), not roughness)
        self._place(np.where(larger, -d, d))

    def _check(self, over: Any, smooth: bool) -> None:
        """Refuse smooth spheres that overlap, and any two at one place."""
        worst = int(over.argmax())
        if over[worst] > (ROUNDING if smooth else SAME):
            one, two = sorted((int(self.first[worst]), int(self.second[worst])))
            what = f"spheres {one} and {two}" if one != two else f"sphere {one} and its own image"
            if not smooth:
                raise OverlapError(
                    f"{what} are at one place, where rough ones have no axis to resist along; "
                    "move one of them, or give lubrication=False"
                )
            raise OverlapError(
                f"{what} overlap by {float(over[worst]):.2g} of the sum of their radii; give a "
                "roughness, a smaller step, forces that keep them apart, or lubrication=False"
            )

    def _place(self, vectors: AnyArray) -> None:
        """Take the vectors from first to second spheres, (3, n)."""
        a, b = self.radii[self.first], self.radii[self.second]
        r = np.sqrt((vectors**2).sum(axis=0))
        gap = np.clip(2 * r / (a + b) - 2, self.least, FAR)
        t = np.clip((FAR - gap) / (FADED * FAR), 0, 1)
        numbers = scalars(gap, b / a) * a ** np.asarray(LENGTHS, like=a)[:, None]
        numbers *= t * t * (3 - 2 * t)
        self.vectors, self.axes, self.gaps = vectors, vectors / r, gap
        self.blocks = [self._block(numbers, m) for m in range(3)]

    def _block(self, numbers: AnyArray, m: int) -> Any:
        """Return the symmetric matrices (k, k, n) of one m."""
        size = SIZES[m]
        block = np.zeros_like(numbers, shape=(size, size, numbers.shape[1]))
        for (own, i, j), place in PLACES.items():
            if own == m:
                block[i, j] = block[j, i] = numbers[place]
        if self.relative and m < 2:
            mean = np.eye(6)
            mean[np.ix_([0, 3], [0, 3])] -= 0.5
            mean = np.asarray(mean, like=numbers)
            block = np.einsum("ab,bcn,cd->adn", mean, block, mean)
        return block

    def shifted(self, shift: AnyArray) -> Lubrication:
        """Return the same pairs of spheres that have moved by (3, N)."""
        other = copy(self)
        other._place(self.vectors + shift[:, self.second] - shift[:, self.first])
        return other

    # ------------------------------------------------------------------ products
    def acting(
        self, moves: AnyArray = None, strain: AnyArray = None, stresslets: bool = True
    ) -> tuple[Any, Any]:
        """Return how pairs act on the fluid, by motions (6, N) and a strain (3, 3) of all spheres.

        These are forces and torques (6, N), and stresslets (3, 3, N), which are left out for less
        time: (3, 3, 0). Motions or strain may be None.
        """
        e, n = self.axes, self.first.size
        along = np.zeros_like(e, shape=(6, n))
        across = np.zeros_like(e, shape=(6, 3, n))
        plane = np.zeros_like(e, shape=(3, 3, n))
        if strain is not None:
            strain = np.asarray(strain, like=e)
            stretched = strain @ e
            size = _dot(e, stretched)
            aside = stretched - size * e
            along[2::3], across[2::3] = 3 * size / SQRT6, SQRT2 * aside
            plane = strain[..., None] - size / 2 * _deviator(e) - _twice(aside, e)
        if moves is not None:
            for place, spheres in ((0, self.first), (3, self.second)):
                u, w = moves[:3, spheres], moves[3:, spheres]
                along[place], along[place + 1] = _dot(e, u), _dot(e, w)
                across[place], across[place + 1] = u - e * along[place], _cross(w, e)
        along = np.einsum("abn,bn->an", self.blocks[0], along)
        across = np.einsum("abn,bin->ain", self.blocks[1], across)
        said = np.empty_like(e, shape=(15 if stresslets else 6, 2, n))
        for k in range(2):
            (f, t, s), (force, torque, shear) = (x[3 * k : 3 * k + 3] for x in (along, across))
            said[:3, k], said[3:6, k] = f * e + force, t * e + _cross(e, torque)
            if stresslets:
                tensors = s / SQRT6 * _deviator(e) + _twice(shear, e) / SQRT2
                tensors += self.blocks[2][k].sum(axis=0) * plane
                said[6:, k] = tensors.reshape(9, n)
        found = self._summed(said)
        return found[:6], found[6:].reshape(3, 3, self.count if stresslets else 0)

    def brownian_noise(self, numbers: AnyArray) -> Any:
        """Return forces and torques (6, N) whose covariance is the matrix of motions.

        Parameters
        ----------
        numbers : array, shape (4, 3, n)
            Independent normal numbers, twelve for each pair.
        """
        e = self.axes
        along = np.einsum("in,kin->kn", e, numbers)
        across = numbers - along[:, None] * e
        moves = np.array([0, 1, 3, 4])  # no strains
        rows = [
            np.einsum("abn,bn->an", _root(self.blocks[0][np.ix_(two, two)]), along[2 * place :][:2])
            for place, two in enumerate(([0, 3], [1, 4]))
        ]
        sides = np.einsum("abn,bin->ain", _root(self.blocks[1][np.ix_(moves, moves)]), across)
        said = np.empty_like(e, shape=(6, 2, self.first.size))
        for k in range(2):
            said[:3, k] = rows[0][k] * e + sides[2 * k]
            said[3:, k] = rows[1][k] * e + _cross(e, sides[2 * k + 1])
        return self._summed(said)

    def _summed(self, said: AnyArray) -> Any:
        """Return sums (rows, N) of what pairs (rows, 2, n) say of first and second spheres."""
        if not self.first.size:
            return np.zeros_like(said, shape=(len(said), self.count))
        return (self.sums @ said.reshape(len(said), -1).T).T

    def between(self, which: Any) -> Any:
        """Return blocks (6, 6, n): forces and torques on first spheres by motions of second ones.

        ``which`` has the numbers of the n pairs.
        """
        e = self.axes[:, which]
        blocks = np.empty_like(e, shape=(6, 6, which.size))
        axial, across = (each[:3, 3:, which] for each in self.blocks[:2])
        for part in range(2):  # forces by velocities, and torques by turns
            block = blocks[3 * part : 3 * part + 3, 3 * part : 3 * part + 3]
            side = across[part, part]
            stretched = (axial[part, part] - side) * e
            for row in range(3):
                np.multiply(stretched[row], e, out=block[row])
                block[row, row] += side
        _crossed(-across[0, 1] * e, blocks[:3, 3:])
        _crossed(across[1, 0] * e, blocks[3:, :3])
        return blocks


def _dot(a: AnyArray, b: AnyArray) -> Any:
    return (a * b).sum(axis=0)


def _cross(a: AnyArray, b: AnyArray) -> Any:
    return np.stack([a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)])


def _crossed(e: AnyArray, found: AnyArray) -> None:
    """Write the matrices (3, 3, n) of products ``e x`` of vectors (3, n)."""
    for row in range(3):
        i, j = row - 2, row - 1
        found[row, row], found[row, i], found[row, j] = 0, -e[j], e[i]


def _twice(a: AnyArray, b: AnyArray) -> Any:
    """Return a b + b a of vectors (3, n), as tensors (3, 3, n)."""
    both = a[:, None] * b
    return both + both.swapaxes(0, 1)


def _deviator(e: AnyArray) -> Any:
    """Return 3 e e - 1 of unit vectors (3, n)."""
    return 3 * e[:, None] * e - np.asarray(np.eye(3), like=e)[..., None]


def _root(matrices: AnyArray) -> Any:
    """Return L (k, k, n) with L L^T the matrices, which rounding may leave not quite positive."""
    left, root = matrices.copy(), np.zeros_like(matrices)
    for k in range(len(left)):
        size = np.sqrt(np.maximum(left[k, k], 0))
        root[:, k] = np.where(size > 0, left[:, k] / np.where(size > 0, size, 1), 0)
        left -= root[:, k, None] * root[None, :, k]
    return root
