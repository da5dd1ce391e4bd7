"""`PairFunction`: what P2P sums, and the tables that it takes of a split."""

from __future__ import annotations

from typing import NamedTuple

from parki.ewald.sums.tables import FLOW, Table, Tables

# Powers of q = 1 / (r^2 + epsilon^2) in the tables of a blob of Cortez over the root of q.
POWERS = {FLOW: 1} | {Table("smooth", n): n for n in (0, 1, 2)}
POWERS |= {Table("psi", n): n + 1 for n in (1, 2, 3)}
# Tables of Hasimoto's split that have a formula.
EVALUATED = {
    FLOW: "mean + psi",
    Table("smooth", 0): "mean",
    Table("smooth", 1): "(mean - psi) * y * y",
    Table("psi", 1): "-2.0 * decay * psi",
}


class Blob(NamedTuple):
    """A blob, in place of a point: see `parki.ewald.sums.blobs`.

    Attributes
    ----------
    kind : {"gaussian", "prolate", "cortez"}
    epsilon : float
        Its width: of ``exp(-r^2 / epsilon^2)``, the radius where a prolate blob ends, or of
        ``15 epsilon^4 / (8 pi (r^2 + epsilon^2)^(7/2))`` by Cortez, Fauci and Medovikov (2005).
        The least one, where each pair has its own.
    widest : float
        The largest one then, or 0.
    """

    kind: str
    epsilon: float
    widest: float = 0.0

    @property
    def algebraic(self) -> bool:
        """Whether it never ends, so that its transform is on the grid, too."""
        return self.kind == "cortez"

    def degree(self, tables: Tables) -> int:
        """Return the degree in ``1 / (r^2 + epsilon^2)`` of tables that never end, or 0."""
        return max((POWERS.get(table, 0) for table in tables), default=0) if self.algebraic else 0


class PairFunction(NamedTuple):
    """The pair function of a sum.

    Attributes
    ----------
    file : str
        Of ``kernels/pairs``; "" if symbol and sources say it all: see `parki.ewald.sums.written`.
    operations : tuple of two int
        Polynomials that a pair evaluates, and its other operations.
    values, derivatives : tuple of Table
        Those of the velocity or potential, and of pressure and gradient.
    power : int
        Power of the inverse cut-off in front, apart from that of normals.
    tensors : tuple of Table
        Those of the gradient that tensor targets read, where there are such targets.
    with_values : tuple of Table
        Those that values need in addition where a kernel sums them with the derivatives.
    lengths : tuple of float
        Lengths of the sum itself.
    blob : Blob or None
        What a source is, if it is not a point.
    point_radii : int or None
        Power of the length, where pairs take a radius of each point, or the square of the width of
        its blob; None without these.
    largest : float
        The largest of them.
    least : float
        Least cut-off.
    slopes : tuple of Table
        Those of the potential and its gradient, where `interact` has both; else none. So devices
        sum both.
    fused : bool
        Whether CPUs sum both so, too.
    constants : tuple of (str, int)
        More constants of the file.
    overlap_correction : {"", "apart", "rest"}
        Whether pairs closer than ``least`` are taken as at that distance, or are the rest, which
        another sum adds: see `Interaction.overlap_correction`.
    """

    file: str
    operations: tuple[int, int]
    values: Tables
    derivatives: Tables
    power: int = 1
    tensors: Tables = ()
    with_values: Tables = ()
    lengths: tuple[float, ...] = ()
    blob: Blob | None = None
    point_radii: int | None = None
    largest: float = 0.0
    least: float = 0.0
    slopes: Tables = ()
    fused: bool = False
    constants: tuple[tuple[str, int], ...] = ()
    overlap_correction: str = ""

    def numbers(self, cutoff: float) -> tuple[float, ...]:
        """Return the row of `NUMBERS`, lengths over the cut-off."""
        if self.overlap_correction:
            inverse = cutoff / self.least if self.least else 0.0
            return self.least / cutoff, inverse, self.largest / cutoff
        return tuple(length / cutoff for length in self.lengths)

    @property
    def size(self) -> float:
        """The diameter of the largest source, 0 of points."""
        radii = *self.lengths, self.largest, max(self.blob[1:]) if self.blob else 0.0
        return 2 * max(radii)

    @property
    def polynomials_alone(self) -> bool:
        """Whether it takes more than the radial functions of a split, or others."""
        return self.fused or not {*self.values} <= {*EVALUATED} or not self.of_points

    @property
    def of_points(self) -> bool:
        """Whether pairs are of points, and not of blobs or spheres."""
        return self.blob is None and not self.lengths and self.point_radii is None
