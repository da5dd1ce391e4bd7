"""`Split`: how a kernel is divided into the near and the far field.

A split is one even mollifier psi with unit integral. The near field is made of
``b' = 1 - 2 int_0^r psi``, ``b'' = -2 psi`` and so on; the far field multiplies the free-space
symbols by ``gamma``: the transform psi^ for Laplace and the rotlet, ``psi^ - k psi^' / 2`` for the
layers. A split has the exact functions for the error estimates, and polynomials for the P2P kernel,
which never evaluates erfc or exp: see `parki.ewald.split.radial_series`. The choice of parameters
gives it its width and the cut-off rc. `parki.ewald.split.hasimoto` has one split, and
`parki.ewald.split.prolate` the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.ewald.split.radial_series import horner_order, series_losses
from parki.ewald.sums.tables import RadialTables
from parki.typing import AnyArray

Array = NDArray[np.float64]


class Factor(NamedTuple):
    """The far field's factor gamma in a form that kernels evaluate.

    It is the polynomial of these ``coefficients`` (highest power first) in ``scale k^2 - shift``,
    times ``exp(-scale k^2)`` if it ``decays``. It is 0 where ``scale k^2`` is beyond ``end``.
    """

    coefficients: Array
    scale: float
    shift: float
    end: float
    decays: bool

    def at(self, k2: AnyArray) -> Any:
        """Return the factor at squared wavenumbers ``k2``.

        Terms of the polynomial are at most as large as its value at k = 0: powers lose nothing.
        """
        x = np.asarray(k2) * self.scale
        value = np.polyval(self.coefficients, np.minimum(x, self.end) - self.shift)
        return value * (np.exp(-x) if self.decays else 1.0) * (x <= self.end)


class Estimate(NamedTuple):
    """An error: root mean square over points, the largest of a pair, and of a point with itself.

    Errors are per sqrt(Q), see `parki.ewald.split.estimates`; or of one pair, with an integral over
    space for the mean.
    """

    rms: float
    peak: float
    itself: float


class Split(Protocol):
    """Functions of a split that the near field, the far field and the error estimates need.

    Attributes
    ----------
    screening : float
        The kappa of a screened split, which takes ``k^2 + kappa^2`` in place of k^2.
    alpha : float
        The alpha of Brinkman's equation, which takes ``k^2 + alpha^2`` in place of one k^2 of two.
    amplitude : float
        The far field at k^2 = 0, over the kernel's own; less than 1 if it is screened.
    """

    screening: float = 0.0
    alpha: float = 0.0
    amplitude: float = 1.0

    def __hash__(self) -> int:  # in dataclasses by their values
        return id(self)

    @property
    def name(self) -> str:
        """Name of the split, with its parameter."""

    @property
    def bare(self) -> Split:
        """The split without its screening."""
        return self

    @property
    def endless(self) -> Split:
        """The split of which errors are estimated: without the end of a Gaussian's near field."""
        return self

    def scaled(self, factor: float) -> Split:
        """Return the same split with all lengths multiplied by ``factor``."""

    @property
    def psi0(self) -> float:
        """Mollifier at 0; a coinciding pair contributes -4 psi0 f (Stokes), -2 psi0 q (Laplace)."""

    @property
    def band(self) -> float:
        """Largest wavenumber of the far field; infinite if it only decays."""

    @property
    def background(self) -> float:
        """``4 pi a``: a triply periodic potential gets ``-4 pi a / V sum(q)``."""

    def factor(self, order: int) -> Factor:
        """Return the far-field factor of symbols of an order: 1 harmonic, 2 biharmonic."""

    def felt(self, order: int, k2: Array) -> Array:
        """Return the size of the largest factor of modes, for the errors of grid and window."""
        return np.asarray(np.abs(self.endless.factor(order).at(k2)))

    def enlarged(self, term: str, rc: float) -> tuple[float, float]:
        """Return how many times larger the near field's error is than of points: rms and peak."""
        return 1.0, 1.0

    def of_points(self, rc: float) -> tuple[Split, float]:
        """Return the split, and its cut-off, whose errors bound the errors of this one."""
        return self, rc

    def near(self, r: ArrayLike) -> tuple[Array, ...]:
        """Return residual derivatives ``b', b'', ...`` at distances ``r``, up to the fifth."""

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the radial functions for the cut-off ``rc``."""

    def losses(self, rc: float, term: str) -> Array:
        """Return the errors of a pair kernel by cutting the series: see `series_losses`."""
        return series_losses(self.series(rc), term)

    def radial_polynomials(self, rc: float, degree: int) -> RadialTables:
        """Return polynomials of the near kernel's smooth parts in powers of s, highest first."""
        return self.series(rc).map(lambda series: horner_order(series[: degree + 1], degree))

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take: see `parki.ewald.split.quadrature`."""
        return self.radial_polynomials(rc, degree)

    def polynomial_degree(self, term: str, rc: float, tolerance: float) -> int:
        """Return the smallest degree whose pair kernel is within a tolerance on ``0 < r <= rc``.

        Parameters
        ----------
        term : str
            A name in `parki.ewald.sums.TERMS`.
        rc : float
            Cut-off of the near field; for the prolate split its own.
        tolerance : float
            Tolerance in units of 1/rc to the power of the term.
        """
        enough = self.losses(rc, term) < tolerance
        return int(np.nonzero(~enough)[0][-1]) + 1 if not enough.all() else 0
