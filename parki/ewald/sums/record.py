"""What a sum is: the record that each kernel fills in, and those of its terms.

Whatever is true of one kernel and not of another stands in its record: the rest of parki asks the
record, and compares no names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.sums.slopes import VECTORS, Slopes

Array = NDArray[np.float64]


class RadialPolynomials(NamedTuple):
    """Smooth parts of the near kernels in ``s = 2 (r/rc)^2 - 1``, made dimensionless with rc.

    With ``int_0^r psi = r P``, ``psi = Q``, ``psi' = r R``, ``X = (P - Q)/r^2`` and
    ``W = R'/r``, each field is a 1-D float64 array of coefficients: ``S = rc (P + Q)``,
    ``X = rc^3 X``, ``R = rc^3 R``, ``L = rc P``, ``W = rc^5 W``.
    """

    S: Array
    X: Array
    R: Array
    L: Array
    W: Array


class WindowWeights(NamedTuple):
    """Square of a symbol where ``rho k + b e`` stands for k: factors of these, averaged.

    With ``twice`` the symbol has the product of two k's, and the window its second derivative: e e
    has ``rho k_e^2 + c``.
    """

    k2: float  # rho^2 k^2
    k_e: float  # rho b k_e
    b2: float  # b^2
    axial_weight: float  # b^2 k_e^2 / k^2
    twice: bool = False


PLAIN = WindowWeights(1, 0, 0, 0)
GRADIENT = WindowWeights(1, 2, 1, 0)  # |rho k + b e|^2
CURVATURE = WindowWeights(1, 4, 2, -2, twice=True)  # over k^2: the squares of all products of two


class Far(NamedTuple):
    """Far field of a term: ``u = factor gamma / k^power`` in all, and its two halves.

    The square of the symbol, averaged over the directions of density and normal, is
    ``u^2 spread.k2 k^2``; likewise with gather.
    """

    factor: float
    power: int
    spread: WindowWeights = PLAIN
    gather: WindowWeights = PLAIN
    stokes: bool = True  # which gamma


@dataclass(frozen=True)
class Term:
    """A part of a kernel, or a quantity derived from one: what its error estimates take.

    Attributes
    ----------
    name : str
    power : int
        The pair kernel is an inverse length to this power.
    square : callable
        ``square(r2, p)``: squared size of the pair kernel ``-2 p`` at squared distances ``r2``; the
        fields of p are the values of the radial functions there, or of errors of them.  The size
        is the Frobenius norm averaged over the directions of the densities (and normals),
        ``|K|``, ``|K| / sqrt(3)`` or ``|K| / 3``: what a density of unit norm feels in the mean
        square.
    far : Far
    prolate : tuple of 6 floats
        Leading terms for large c of the prolate split's error: factor and power of c of its rms, of
        its peak, and of its value at r = 0. See `parki.ewald.split.prolate.pair_error`.
    aligned_factor : float
        How much larger errors are for densities along the normals than for any directions: by the
        averages of (q.k)^2 (n.k)^2, which is 1/9 for any q and n, and 1/5 for q along n, and the
        like.
    derived : bool
        Whether it is a pressure or a gradient.
    differentiates_window : bool
        Whether windows have larger errors in it than in the kernel's other terms.
    """

    name: str
    power: int
    square: Callable[[Array, RadialPolynomials], Array]
    far: Far
    prolate: tuple[float, ...]
    aligned_factor: float = 1.0
    derived: bool = False
    differentiates_window: bool = False


@dataclass(frozen=True)
class Sum:
    """One sum.

    Attributes
    ----------
    name : str
    rows : int
        Of a density.
    results : int
        Rows of the velocity or potential.
    components : int
        Of the grid that sources are spread onto.
    terms : mapping of str to tuple of Term
        What makes up each quantity that the sum has: "u", "p", "grad_u"; and "grad_tensor",
        the gradient of ``D_jk d_k u_j + s p`` for a tensor D and a strength s at a *tensor target*.
        One without terms is zero everywhere.
    polynomials : tuple of str
        Fields of `RadialPolynomials` that the pair kernel of the velocity takes, that of pressure
        and gradient, and that of tensors, if there is one.
    operations : tuple of two int
        Polynomials that a pair takes, and other operations.
    single, double, laplace, rotlet, dipole : bool
        Which pair kernels: the kernels' switches. Those with a double layer have normals.
    decay : int
        Power of the inverse length in the promise, of the rows that are not the double layer's.
    charged : bool
        Whether the sum of the densities has a field of its own, which gauges fix.
    harmonic : bool
        Whether the far field takes the multiplier of Laplace's equation, not of Stokes'.
    axial : bool
        Whether densities change sign where coordinates are mirrored.
    adjoints : mapping of str to Adjoint
        How "u", "p" and "grad_u" are transposed, as far as there are sums for it.
    slopes : Slopes
        How the derivatives of "u" by normals and sources follow from its adjoint.
    """

    name: str
    rows: int
    results: int
    components: int
    terms: Mapping[str, tuple[Term, ...]] = field(hash=False)
    polynomials: tuple[str, ...]
    operations: tuple[int, int]
    single: bool = False
    double: bool = False
    laplace: bool = False
    rotlet: bool = False
    dipole: bool = False
    decay: int = 1
    charged: bool = False
    harmonic: bool = False
    axial: bool = False
    adjoints: Mapping[str, Adjoint] = field(default_factory=dict, hash=False)
    slopes: Slopes = VECTORS

    def derivative_tables(self, want: tuple[str, ...], values: bool = False) -> str:
        """Return the polynomials that the derivatives take, and the values beside them."""
        found = self.polynomials[2] if "grad_tensor" in want else self.polynomials[1]
        return found + values * ("S" * self.single + "L" * self.laplace)

    @property
    def single_rows(self) -> int:
        """Rows of a density before those of the double layer."""
        return self.rows - 3 * self.double

    @property
    def source_components(self) -> int:
        """Components of the largest part of a source: a vector, or the product of two."""
        return self.results * (3 if self.tensor else 1)

    @property
    def tensor(self) -> bool:
        """Whether sources have tensors, which are spread with the window's gradient."""
        return self.double or self.dipole

    def density_shape(self, sources: int) -> tuple[int, ...]:
        """Return the shape of a density."""
        vector = {1: (), 9: (3, 3)}.get(self.rows, (self.rows,))
        return (*vector, sources)

    @cached_property
    def layers(self) -> dict[str, Any]:
        """The kernels' switches; the paper's P2G has none for dipoles."""
        found = {
            "SINGLE": self.single,
            "DOUBLE": self.double,
            "LAPLACE": self.laplace,
            "ROTLET": self.rotlet,
        }
        return found | {"DIPOLE": True} if self.dipole else found

    @cached_property
    def spread_layers(self) -> dict[str, Any]:
        """The switches of P2G, to which the torques of rotlets are vectors as forces are."""
        kept = {name: flag for name, flag in self.layers.items() if name != "ROTLET"}
        return kept | {"SINGLE": self.single or self.rotlet}
