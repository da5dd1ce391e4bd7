"""`PairFunction`: what P2P sums, and the smooth tables that it takes of a split."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class RadialPolynomials(NamedTuple):
    """Smooth parts of the near kernels in ``s = 2 (r/rc)^2 - 1``, made dimensionless with rc.

    With ``int_0^r psi = r P``, ``psi = Q``, ``psi' = r R``, ``X = (P - Q)/r^2``, ``W = R'/r``,
    ``V = W'/r`` and ``U = V'/r``, each field is a 1-D float64 array of coefficients:
    ``S = rc (P + Q)``, ``X = rc^3 X``, ``R = rc^3 R``, ``L = rc P``, ``W = rc^5 W``,
    ``V = rc^7 V``, ``U = rc^9 U``.
    """

    S: Array
    X: Array
    R: Array
    L: Array
    W: Array
    V: Array
    U: Array

    @property
    def Y(self) -> Array:  # noqa: N802 (as the fields)
        """``rc^5 (3 X + R) / r^2``, in which X and R of their own would lose digits at small r.

        ``(r^5 Y)' = r^4 W``: of W's coefficients of powers of s, the highest first.
        """
        series, above = np.array(self.W), 0.0
        for place, power in enumerate(reversed(range(series.size))):
            above = series[place] = (series[place] - 2 * (power + 1) * above) / (2 * power + 5)
        return series


class BalancedPolynomials(NamedTuple):
    """`RadialPolynomials` with constants that make integrals exact: see `split.quadrature`."""

    S: Array
    X: Array
    R: Array
    L: Array
    W: Array
    V: Array
    U: Array
    Y: Array


class FrictionPolynomials(NamedTuple):
    """`RadialPolynomials` of Brinkman's equation, and the constant ``K = alpha rc``.

    P, Q and O are T_1 to T_3 of the pressure. `parki.ewald.split.screened` makes them.
    """

    S: Array
    X: Array
    R: Array
    L: Array
    W: Array
    V: Array
    P: Array
    Q: Array
    O: Array  # noqa: E741 (as the others)
    K: Array

    @property
    def Y(self) -> Array:  # noqa: N802
        """As of `RadialPolynomials`."""
        return RadialPolynomials(*self[:6], self.V).Y


class ScreenedPolynomials(NamedTuple):
    """Smooth parts of screened charges in ``s = 2 (r/rc)^2 - 1``, made dimensionless with rc.

    With the near field ``exp(-kappa r) / r - 2 L`` they are ``rc L``, ``X = -rc^3 L' / r``,
    ``R = rc^3 (L'' + 2 L' / r)``, and the constant ``K = kappa rc``. See
    `parki.ewald.split.screened`.
    """

    L: Array
    X: Array
    R: Array
    K: Array


class LiftedPolynomials(NamedTuple):
    """S, X and R of `RadialPolynomials`, and of the Laplacian of their field once and twice.

    `parki.ewald.split.lifted` makes them. T and U are S of the Laplacians, Y and Z are X, Q and V
    are R. Each Laplacian adds a factor rc^2.
    """

    S: Array
    T: Array
    U: Array
    X: Array
    Y: Array
    Z: Array
    R: Array
    Q: Array
    V: Array


class CoupletPolynomials(NamedTuple):
    """Smooth parts T_0 to T_3 of b_0 to b_3, of points, and of the Laplacian once and twice.

    A to D are T_0 to T_3 of points (`parki.ewald.sums.operators`), E to H of the Laplacian of
    their field, and I to M of its Laplacian. T_n is dimensionless with rc to the power 2 n + 1, and
    each Laplacian adds a factor rc^2. `parki.ewald.split.lifted` makes them.
    """

    A: Array
    B: Array
    C: Array
    D: Array
    E: Array
    F: Array
    G: Array
    H: Array
    I: Array  # noqa: E741 (as the others)
    J: Array
    K: Array
    M: Array


class AlikePolynomials(NamedTuple):
    """The same functions of spheres of one radius, with all Laplacians.

    P and Q are T_0 and T_1 of two shells, R and S are T_1 and T_2 of a shell and a ball, and T to V
    are T_1 to T_3 of two balls.
    """

    P: Array
    Q: Array
    R: Array
    S: Array
    T: Array
    U: Array
    V: Array


Tables = (
    RadialPolynomials
    | BalancedPolynomials
    | FrictionPolynomials
    | ScreenedPolynomials
    | LiftedPolynomials
    | CoupletPolynomials
    | AlikePolynomials
)


# Powers of q = 1 / (r^2 + epsilon^2) in the tables of a blob of Cortez over the root of q.
POWERS = {"L": 0, "S": 1, "X": 1, "R": 2, "Y": 2, "W": 3, "V": 4}


class Blob(NamedTuple):
    """A blob, in place of a point: see `parki.ewald.sums.blobs`.

    Attributes
    ----------
    kind : {"gaussian", "prolate", "cortez"}
    epsilon : float
        Its width: of ``exp(-r^2 / epsilon^2)``, the radius where a prolate blob ends, or of
        ``15 epsilon^4 / (8 pi (r^2 + epsilon^2)^(7/2))`` by Cortez, Fauci and Medovikov (2005).
    """

    kind: str
    epsilon: float

    @property
    def algebraic(self) -> bool:
        """Whether it never ends, so that its transform is on the grid, too."""
        return self.kind == "cortez"

    def degree(self, names: str) -> int:
        """Return the degree in ``1 / (r^2 + epsilon^2)`` of tables that never end, or 0."""
        return max((POWERS.get(name, 0) for name in names), default=0) if self.algebraic else 0


class PairFunction(NamedTuple):
    """The pair function of a sum. Tables are named by the fields of ``polynomials``.

    Attributes
    ----------
    file : str
        Of ``kernels/pairs``; "" if symbol and sources say it all: see `parki.ewald.sums.written`.
    operations : tuple of two int
        Polynomials that a pair evaluates, and its other operations.
    values, derivatives : str
        Tables of the velocity or potential, and of pressure and gradient; "-" is the row of
        `numbers`.
    power : int
        Power of the inverse cut-off in front, apart from that of normals.
    tensors : str
        Tables of the gradient that tensor targets read, where there are such targets.
    with_values : str
        Table that values need in addition where a kernel sums them with the derivatives.
    lengths : tuple of float
        Lengths of the sum itself.
    polynomials : type
        The tables that there are.
    blob : Blob or None
        What a source is, if it is not a point.
    marks : int or None
        Power of the length of *marks*, where pairs take a number of each point; None without marks.
    largest : float
        The largest mark.
    least : float
        Least cut-off.
    slopes : str
        Tables of the potential and its gradient, where `interact` has both; else "". So devices
        sum both.
    fused : bool
        Whether CPUs sum both so, too.
    constants : tuple of (str, int)
        More constants of the file.
    contacts : {"", "apart", "rest"}
        Whether pairs closer than ``least`` are taken as at that distance, or are the rest, which
        another sum adds: see `Sum.contacts`.
    """

    file: str
    operations: tuple[int, int]
    values: str
    derivatives: str
    power: int = 1
    tensors: str = ""
    with_values: str = ""
    lengths: tuple[float, ...] = ()
    polynomials: type[Tables] = RadialPolynomials
    blob: Blob | None = None
    marks: int | None = None
    largest: float = 0.0
    least: float = 0.0
    slopes: str = ""
    fused: bool = False
    constants: tuple[tuple[str, int], ...] = ()
    contacts: str = ""

    def numbers(self, cutoff: float) -> tuple[float, ...]:
        """Return the numbers of the table "-", lengths over the cut-off."""
        if self.contacts:
            inverse = cutoff / self.least if self.least else 0.0
            return self.least / cutoff, inverse, self.largest / cutoff
        return tuple(length / cutoff for length in self.lengths)

    @property
    def size(self) -> float:
        """The diameter of the largest source, 0 of points."""
        radii = *self.lengths, self.largest, self.blob.epsilon if self.blob else 0.0
        return 2 * max(radii)

    @property
    def polynomials_alone(self) -> bool:
        """Whether it takes more than the radial functions of a split, or others."""
        own = self.polynomials is not RadialPolynomials
        own = own or self.fused or not {*self.values} <= {*"SXRL"}
        return own or not self.of_points

    @property
    def of_points(self) -> bool:
        """Whether pairs are of points, and not of blobs or spheres."""
        return self.blob is None and not self.lengths and self.marks is None
