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
from parki.dynamics.close import Slots, close_pairs, kernel
from parki.dynamics.moments import gauged
from parki.dynamics.radius_tables import WHERE, RadiusTables, split
from parki.dynamics.tables import FAR
from parki.errors import OverlapError
from parki.interchange import to_host
from parki.runtime import get_execution_space
from parki.solving.search import threads
from parki.typing import AnyArray

SMALLEST_GAP = 1e-6  # over the mean radius; closer pairs resist as much as these
ROUNDING = 1e-6  # by which spheres that touch may overlap
SAME = 1 - 1e-12  # overlap of rough ones, whose direction rounding makes


class Lubrication:
    """The resistance of all pairs in reach, in units of 8 pi viscosity = 1.

    Parameters
    ----------
    points : array, shape (3, N), float64
    radii : array, shape (N,), float64; or RadiusTables
    options : EwaldOptions
    roughness : float
        Gap, over the mean radius, below which pairs resist no more than there.

    Attributes
    ----------
    first, second : array, shape (n,), int32
        The larger spheres of the pairs, and the others.
    slots : Slots
    axes : array, shape (3, n)
        Unit vectors from first to second spheres.
    gaps : array, shape (n,)
    rows : array, shape (76, n)
        Symmetric matrices of m = 0, 1 and 2.
    """

    def __init__(
        self,
        points: AnyArray,
        radii: AnyArray | RadiusTables,
        options: EwaldOptions,
        roughness: float,
    ) -> None:
        if not isinstance(radii, RadiusTables):
            space = get_execution_space(None, points)
            radii = RadiusTables(space, to_host(radii), any(gauged(options)))
        self.tables, self.radii, self.count = radii, radii.radii, points.shape[1]
        self.space, self.least = radii.space, max(roughness, SMALLEST_GAP)
        self.first = self.second = np.zeros_like(self.radii, shape=(0,), dtype=np.int32)
        vectors = np.zeros_like(points, shape=(3, 0))
        if self.count:
            self.first, self.second, vectors = close_pairs(
                self.space, points, self.radii, radii.largest, options, 1 + FAR / 2
            )
        self.slots = Slots(self.space, self.first, self.second, self.count)
        self._place(vectors)
        if self.first.size:
            self._check(not roughness)

    def _check(self, smooth: bool) -> None:
        """Refuse smooth spheres that overlap, and any two at one place."""
        over, most = self._overlaps, ROUNDING if smooth else SAME
        if float(over.max()) <= most:
            return
        worst = int(over.argmax())
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
        xp, count = self.space.array_module, vectors.shape[1]
        self.vectors = xp.ascontiguousarray(vectors)
        self.axes, self.gaps = (np.empty_like(self.radii, shape=s) for s in ((3, count), (count,)))
        self._overlaps = np.empty_like(self.gaps)
        kinds = np.empty_like(self.first, shape=(2, count))
        kernel("close_pairs", "measure_pairs", self.space)(
            count,
            threads(count),
            first=self.first,
            second=self.second,
            radii=self.radii,
            sorts=self.tables.sorts,
            vectors=self.vectors,
            least=self.least,
            farthest=FAR,
            axes=self.axes,
            gaps=self.gaps,
            overlaps=self._overlaps,
            kinds=kinds,
        )
        self.rows = np.zeros_like(self.axes, shape=(len(WHERE), count))
        if count:
            numbers = self.tables.scalars(self.first, self.second, self.gaps, kinds)
            self.rows = np.take(numbers, self.space.adapter.constant(WHERE, np.int64), axis=0)

    @property
    def blocks(self) -> list[Any]:
        """The symmetric matrices (k, k, n) of each m."""
        return split(self.rows)

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
        if moves is None:
            moves = np.zeros_like(self.axes, shape=(6, self.count))
        strain = np.zeros((3, 3)) if strain is None else to_host(strain)
        found = self._summed(
            "act",
            15 if stresslets else 6,
            first=self.first,
            second=self.second,
            moves=moves,
            strain=self.space.adapter.constant(strain, np.float64),
        )
        return found[:6], found[6:].reshape(3, 3, self.count if stresslets else 0)

    def brownian_noise(self, numbers: AnyArray) -> Any:
        """Return forces and torques (6, N) whose covariance is the matrix of motions.

        Parameters
        ----------
        numbers : array, shape (4, 3, n)
            Independent normal numbers, twelve for each pair.
        """
        return self._summed("shake", 6, normal=numbers.reshape(12, -1))

    def _summed(self, name: str, rows: int, **arrays: Any) -> Any:
        """Return sums (rows, N) of what pairs say of their spheres, by a kernel."""
        said = np.empty_like(self.axes, shape=(rows, self.slots.size))
        kernel("close_pairs", name, self.space)(
            self.first.size,
            threads(self.first.size),
            arguments=arrays,
            said=said,
            rows=rows,
            places=self.slots.places,
            axes=self.axes,
            blocks=self.rows,
        )
        return self.slots.add_up(said)
