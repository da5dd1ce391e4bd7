"""Which evaluation of the radial functions the P2P kernel uses, and what it needs for that.

parki's own are the polynomials of `parki.ewald.split`, for any split. The literature calls the
library's erf and exp for every pair of Hasimoto's split, or approximates erf(x)/x by a rational
function (Kosmacher, Du, Bagge, Biros 2026, section 4): both are here to be compared with, see
``scripts/figure4.py``. With z = xi rc, and r in units of rc, Hasimoto's functions are ::

    P = z/sqrt(pi) F0(z^2 r^2)       Q = z/sqrt(pi) exp(-z^2 r^2)        R = -2 z^2 Q
    X = 2 z^3/sqrt(pi) F1(z^2 r^2)   S = P + Q = 2 Q + r^2 X             L = P

with ``F_n(t) = int_0^1 u^2n exp(-t u^2) du``, so that ``erf(x)/x = 2/sqrt(pi) F0(x^2)``.  Laplace
needs F0 alone; the others have a rational function of F1 and an exponential, from which P follows
without the difference P - Q.  A rational function in the square of r needs one or two terms fewer
than the paper's in r, and its coefficients hardly cancel: Horner's scheme from r = 0 is stable in
float32 too.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import AAA
from scipy.special import hyp1f1

from parki.errors import ParkiValueError
from parki.ewald.split import Hasimoto, RadialPolynomials, Split, term_of

Array = NDArray[np.float64]
# The place of a name is EVALUATOR in kernels/p2p.py.
EVALUATORS = ("polynomial", "erfc", "rational")
_MOST_TERMS = 20
# Rounding of the values that are approximated, relative to the largest.
_FLOOR = 2e-14
# By how much the terms of numerator and denominator may exceed their sums: this many roundings.
_CANCELLATION = 8.0


class Evaluator(NamedTuple):
    """What the P2P kernel is told of an evaluator other than polynomials.

    Attributes
    ----------
    name : {"erfc", "rational"}
    degree : int
        Of numerator and denominator: one less than the terms of the barycentric form.
    table : ndarray, shape (2, degree + 1)
        Coefficients of numerator and denominator in powers of (r/rc)^2, highest first.
    xi_rc : float
        Product of Hasimoto's xi and the cut-off.
    """

    name: str
    degree: int
    table: Array
    xi_rc: float

    @property
    def number(self) -> int:
        """EVALUATOR of the P2P kernel."""
        return EVALUATORS.index(self.name)

    def describe(self) -> str:
        """Return what evaluates the radial functions, in words."""
        if self.name == "erfc":
            return "erf and exp of the library"
        return f"a rational function of {self.degree + 1} terms"


def check_evaluator(name: str, want: tuple[str, ...]) -> None:
    """Refuse an evaluator that what is wanted has no kernel for.

    Raises
    ------
    ParkiValueError
    """
    if name != "polynomial" and want != ("u",):
        raise ParkiValueError(
            f"radial is {name!r}, which evaluates 'u' alone, but want is {', '.join(want)}; "
            "leave radial to 'polynomial'"
        )


def choose_evaluator(
    name: str, kernel: str, split: Split, cutoff: float, degree: int
) -> Evaluator | None:
    """Return the evaluator of a name in `EVALUATORS`, None for polynomials.

    Parameters
    ----------
    name, kernel : str
    split : Split
        Hasimoto's, which the options make sure of.
    cutoff : float
        In the unit of the split.
    degree : int
        Of the polynomials that would keep the tolerance; a rational function is given the fewest
        terms that make its pair kernel as accurate.
    """
    xi_rc = float(np.sqrt(np.pi) * split.psi0 * cutoff)
    if name == "polynomial":
        return None
    if name == "erfc":
        return Evaluator(name, 0, np.zeros((2, 1)), xi_rc)
    table = _rational(int(kernel != "laplace"), xi_rc, _allowed(kernel, xi_rc, degree))
    return Evaluator(name, table.shape[1] - 1, table, xi_rc)


def hasimoto_functions(xi_rc: float, r2: Array) -> RadialPolynomials:
    """Return the exact radial functions at squared distances ``r2``, for rc = 1 (no W)."""
    z, t = xi_rc, xi_rc**2 * r2
    psi = z / np.sqrt(np.pi) * np.exp(-t)
    mean, cross = _scale(0, z) * _boys(0, t), _scale(1, z) * _boys(1, t)
    return RadialPolynomials(S=mean + psi, X=cross, R=-2 * z**2 * psi, L=mean, W=0 * r2)


def _boys(n: int, t: Array) -> Array:
    return np.asarray(hyp1f1(n + 0.5, n + 1.5, -t) / (2 * n + 1))


def _scale(n: int, xi_rc: float) -> float:
    """Factor of F_n in P (n = 0) and X (n = 1)."""
    return float((2 * xi_rc**2) ** n * xi_rc / np.sqrt(np.pi))


def _size(kernel: str, r2: Array, lost: RadialPolynomials) -> Array:
    """Errors of the pair kernel for errors of the radial functions; one row for each term."""
    terms = ("stokes_sl", "stokes_dl") if kernel == "stokes_comb" else (kernel,)
    return np.sqrt([term_of(term).square(r2, lost).max() for term in terms])


@lru_cache(maxsize=64)
def _allowed(kernel: str, xi_rc: float, degree: int) -> float:
    """Error of L or X that is felt in the pair kernel as much as that of polynomials."""
    r2 = _samples()
    kept = Hasimoto(xi_rc).radial_polynomials(1.0, degree)
    exact = hasimoto_functions(xi_rc, r2)
    lost = [np.polyval(p, 2 * r2 - 1) - f for p, f in zip(kept, exact, strict=True)]
    lost[-1] = 0 * r2  # W
    # An error of X is one of P as well, r^2 times.
    felt = r2**0 if kernel == "laplace" else r2
    unit = RadialPolynomials(S=felt, X=r2**0, R=0 * r2, L=felt, W=0 * r2)
    sizes = _size(kernel, r2, RadialPolynomials(*lost)) / _size(kernel, r2, unit)
    return float(sizes.min())


@lru_cache(maxsize=64)
def _rational(n: int, xi_rc: float, allowed: float) -> Array:
    """Numerator and denominator in powers of r^2, highest first, of ``scale F_n`` on r <= 1.

    The fewest terms whose error is ``allowed``, or down to rounding, and that are stable.
    """
    scale, r2 = _scale(n, xi_rc), _samples()
    exact = scale * _boys(n, xi_rc**2 * r2)
    allowed = max(allowed, _FLOOR * scale)
    nodes = (1 - np.cos(np.linspace(0, np.pi, 257))) / 2
    values = scale * _boys(n, xi_rc**2 * nodes)
    best, least = np.zeros((2, 1)), np.inf
    for terms in range(2, _MOST_TERMS + 1):
        if least <= allowed or (best.any() and terms > best.shape[1] + 2):
            break  # good enough, or at the level of rounding, where more terms only cancel
        with warnings.catch_warnings():
            # That it has not converged with so few terms is no news.
            warnings.simplefilter("ignore", RuntimeWarning)
            approximant = AAA(nodes, values, rtol=0.1 * _FLOOR, max_terms=terms)
        if np.abs(approximant(r2) - exact).max() > max(allowed, 100 * _FLOOR * scale):
            continue  # before the conversion, which is slow
        table = quotient(approximant)
        top, bottom = np.polyval(table[0], r2), np.polyval(table[1], r2)
        bounds = np.polyval(np.abs(table[0]), r2), np.polyval(np.abs(table[1]), r2)
        if max((bounds[0] / abs(top)).max(), (bounds[1] / abs(bottom)).max()) > _CANCELLATION:
            continue
        error = float(np.abs(top / bottom - exact).max())
        if error < least:
            best, least = table, error
    return best


def quotient(approximant: AAA) -> Array:
    """Return the barycentric form ``sum w f / (x - z) / sum w / (x - z)`` as two polynomials.

    In exact arithmetic: the weights alternate in sign, so that these sums cancel.
    """
    nodes, weights, values = (
        [Fraction(float(v)) for v in array]
        for array in (
            approximant.support_points,
            approximant.weights,
            approximant.support_values,
        )
    )
    zero = Fraction(0)
    top = bottom = [zero] * len(nodes)
    for j, (weight, value) in enumerate(zip(weights, values, strict=True)):
        row = [weight]
        for i, node in enumerate(nodes):
            if i != j:
                row = [a - node * b for a, b in zip([*row, zero], [zero, *row], strict=True)]
        bottom = [a + b for a, b in zip(bottom, row, strict=True)]
        top = [a + value * b for a, b in zip(top, row, strict=True)]
    return np.array([[float(c / bottom[-1]) for c in row] for row in (top, bottom)])


@lru_cache(maxsize=1)
def _samples() -> Array:
    """Squared distances in [0, 1], dense at the ends, between those that are interpolated."""
    return np.asarray((1 - np.cos(np.linspace(0, np.pi, 1001))) / 2)
