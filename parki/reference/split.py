"""Common to both parts of `parki.reference`: kernels, points, moments, split parameter."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import jv

from parki.reference.blobs import ReferenceBlob

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

CUT = 6.3  # xi r and k / (2 xi) at the two cut-offs: exp(-CUT**2) = 5.8e-18
TARGETS, SOURCES = 16, 4096  # near block: small temporaries, short running sums
REACH = 6.6  # xi r within which a cut-off kernel's edge has an effect; more than CUT, for its jumps

FIELDS = ("u", "p", "grad_u")  # in the order of a result's rows


class SumCounts(NamedTuple):
    """What depends on the kernel: counts, and the rule of its flow."""

    rows: int  # rows of the density
    moments: int  # rows of the summed moments: charges, f or t; D; f and D
    components: int  # components of u
    depth: int  # number of radial functions b'/r, (b'/r)'/r, ... in the near part of u and p
    rule: str  # "charge", "dipole" of a potential, "flow" of forces and tensors, or "rotlet"

    @property
    def dipoles(self) -> bool:
        """Whether there are moments D (3, 3), after others or alone."""
        return self.moments >= 9

    @property
    def single(self) -> int:
        """The rows of the density that are moments by themselves: charges, f or t."""
        return self.moments % 9

    @property
    def layered(self) -> bool:
        """Whether there is a double layer: dipoles of normals, which have sources of -tr D / 2."""
        return self.dipoles and self.rows != 9


KERNELS = {
    "laplace": SumCounts(1, 1, 1, 1, "charge"),
    "laplace_dipole": SumCounts(3, 3, 1, 2, "dipole"),
    "stokes_sl": SumCounts(3, 3, 3, 2, "flow"),
    "stokes_dl": SumCounts(3, 9, 3, 3, "flow"),
    "stokes_comb": SumCounts(6, 12, 3, 3, "flow"),
    "stokes_rotlet": SumCounts(3, 3, 3, 2, "rotlet"),
    "stokes_dipole": SumCounts(9, 9, 3, 3, "flow"),
    "yukawa": SumCounts(1, 1, 1, 1, "charge"),
    "brinkman_sl": SumCounts(3, 3, 3, 2, "flow"),
    "brinkman_dl": SumCounts(3, 9, 3, 3, "flow"),
    "brinkman_dipole": SumCounts(9, 9, 3, 3, "flow"),
}

WITH_BLOBS = tuple(
    name
    for name in KERNELS
    if name.partition("_")[0] in ("laplace", "stokes") and "rotlet" not in name
)


@dataclass(frozen=True)
class Clouds:
    """Targets (3, Nt), sources (3, Ns) and the box, all float64.

    For a tilted box, ``vectors`` has the lattice vectors in rows, and ``box`` their lengths.
    """

    trg: Array
    src: Array
    box: Array
    vectors: Array | None = None

    @cached_property
    def basis(self) -> Array | None:
        """The matrix from positions to lengths along the vectors; its transpose turns waves."""
        if self.vectors is None:
            return None
        lengths = np.linalg.norm(self.vectors, axis=1)
        return np.asarray(lengths[:, None] * np.linalg.inv(self.vectors).T)

    @cached_property
    def widths(self) -> Array:
        """Distances of opposite faces."""
        if self.vectors is None:
            return self.box
        return np.asarray(1 / np.linalg.norm(np.linalg.inv(self.vectors), axis=0))

    @cached_property
    def part(self) -> float:
        """The volume over the product of the lengths."""
        return 1.0 if self.basis is None else float(1 / np.linalg.det(self.basis))

    def along(self, points: Array) -> Array:
        """Return points (3, N) in lengths along the vectors."""
        return points if self.basis is None else self.basis @ points

    @cached_property
    def intervals(self) -> list[tuple[float, float]]:
        """Return middle and half length of the points' extent, along each axis."""
        points = np.concatenate([self.trg, self.src], axis=1)
        if points.shape[1] == 0:
            return 3 * [(0.0, 0.0)]
        ends = zip(points.min(axis=1).tolist(), points.max(axis=1).tolist(), strict=True)
        return [(0.5 * (low + high), 0.5 * (high - low)) for low, high in ends]


class Moments(NamedTuple):
    """The summed moments: charges, d, f or t (1 or 3, Ns) and dipoles D (9, Ns), or None."""

    f: Array | None
    dipoles: Array | None

    def stacked(self) -> Array:
        """Return both, one below the other: shape (moments, Ns)."""
        return np.concatenate([rows for rows in self if rows is not None])


@dataclass(frozen=True)
class ReferenceSplit:
    """The fields to compute, the split parameter, and the sizes that follow from it.

    ``fields`` are a selection of `FIELDS`, in the same order; ``kappa`` screens charges, or is
    the alpha of Brinkman's equation; ``blob`` is what sources are, if they are not points.
    """

    kernel: str
    points: Clouds
    periodicity: int
    fields: tuple[str, ...]
    xi: float
    kappa: float = 0.0
    blob: ReferenceBlob | None = None

    @property
    def sum(self) -> SumCounts:
        """What is known of the kernel."""
        return KERNELS[self.kernel]

    @property
    def brinkman(self) -> bool:
        """Whether it is Brinkman's equation."""
        return bool(self.kappa) and self.sum.rule == "flow"

    def rows(self, field: str) -> int:
        """Return the number of rows of a field: its components, or their derivatives."""
        components = self.sum.components
        return {"u": components, "p": 1, "grad_u": 3 * components}[field]

    @property
    def all_rows(self) -> int:
        """Return the number of rows of all fields, one below the other in every result."""
        return sum(self.rows(field) for field in self.fields)

    @property
    def near_cutoff(self) -> float:
        """Radius of the near sum."""
        cut = CUT / self.xi if self.xi > 0 else np.inf
        return max(cut, self.blob.radius) if self.blob else cut

    @property
    def far_cutoff(self) -> float:
        """Largest wavenumber of the far sum, along each axis."""
        return 2 * CUT * self.xi

    def truncation_radius(self) -> float:
        """Return the radius at which the kernel is cut off in the free directions.

        It exceeds the distance of every pair plus the reach of the mollifier.
        """
        extents = [2 * self.points.intervals[axis][1] for axis in range(self.periodicity, 3)]
        return float(np.hypot.reduce(extents)) + REACH / self.xi

    def period(self, axis: int) -> float:
        """Return the period of the far field: the box's, or along free axes one with no effect."""
        if axis < self.periodicity:
            return float(self.points.box[axis])
        return 2 * self.points.intervals[axis][1] + self.truncation_radius() + REACH / self.xi

    def modes(self, axis: int) -> int:
        """Return the number of modes kept on either side of zero."""
        return int(np.ceil(self.far_cutoff * self.period(axis) / (2 * np.pi)))

    def functions(self, axis: int) -> int:
        """Return the number of basis functions of an axis: cos and sin, or Chebyshev."""
        if axis < self.periodicity:
            return 2 * self.modes(axis) + 1
        # J_p(z) < 1e-18 beyond this order, for every z up to the largest; it falls from p = z on.
        z = self.modes(axis) * 2 * np.pi / self.period(axis) * self.points.intervals[axis][1]
        orders = range(int(z), int(z + 12 * z ** (1 / 3)) + 30)
        return orders.start + bisect_left(orders, True, key=lambda p: bool(jv(p, z) <= 1e-18))

    def image_range(self, axis: int) -> int:
        """Return the number of images within reach on either side of the nearest one."""
        if axis >= self.periodicity:
            return 0
        return int(self.near_cutoff / float(self.points.widths[axis]) + 0.5)

    def seconds(self) -> float:
        """Estimate the time on two cores, to choose xi: 50 GFLOP/s, 30 to 120 ns a near pair.

        An image takes 0.1 ms for some targets at a time, whatever the number of its pairs. The
        estimate is for u only. With all fields both parts take up to three times as long, which
        moves the flat optimum little.
        """
        targets, sources = self.points.trg.shape[1], self.points.src.shape[1]
        moments = KERNELS[self.kernel].moments
        images, functions, modes = 1.0, 1.0, 1.0
        around, inside = 1.0, 1.0  # images per pair in the cube around the ball, and in the ball
        for axis in range(3):
            images *= 2 * self.image_range(axis) + 1
            functions *= self.functions(axis)
            modes *= 2 * self.modes(axis) + 1
            extent = 2 * self.points.intervals[axis][1]
            if axis < self.periodicity:
                part = 2 * self.near_cutoff / float(self.points.box[axis])
                around, inside = around * part, inside * part
            elif extent > 0:
                part = 2 * self.near_cutoff / extent
                around, inside = around * part, inside * min(part, 1.0)
        pairs = min(np.pi / 6 * around, inside, images)
        near = targets * sources * (4e-8 + 2e-9 * images + (2e-8 + 1.1e-8 * moments) * pairs)
        near += 1e-4 * images * -(-targets // TARGETS)
        far = functions * (4e-11 * moments * sources + 1.2e-10 * targets)
        # From basis functions to modes along the last two axes and back, one axis after the other.
        (_, m), (b, n), (c, o) = ((self.functions(a), 2.0 * self.modes(a) + 1) for a in range(3))
        far += 1e-8 * (b * n + c * o) + 8e-11 * m * 2 * moments * (b * c * o + b * n * o)
        return float(near + far + 3e-8 * moments * modes)


def cheapest_split(
    kernel: str, points: Clouds, periodicity: int, fields: tuple[str, ...], kappa: float = 0.0
) -> ReferenceSplit:
    """Try cut-offs of the near sum from an eighth of the mean period to 32 times the longest."""
    periods = points.box[:periodicity]
    first, last = 0.125 * np.exp(np.log(periods).mean()), 32.0 * periods.max()
    cutoffs = np.geomspace(first, last, 33)
    splits = [
        ReferenceSplit(kernel, points, periodicity, fields, CUT / cutoff, kappa)
        for cutoff in cutoffs
    ]
    return min(splits, key=ReferenceSplit.seconds)
