"""How the P2P kernel evaluates the radial functions, and the tables that it needs.

parki itself evaluates the polynomials of `parki.ewald.split.radial_series`, for any split. The
literature calls the library's erf and exp for every pair of Hasimoto's split, or approximates
erf(x)/x by a rational function (Kosmacher, Du, Bagge, Biros 2026, section 4);
``scripts/pictures.py radial`` draws the errors. With z = xi rc, and r in units of rc, Hasimoto's
functions are ::

    T_0 = erf(z r) / (2 r)        psi = z / sqrt(pi) exp(-z^2 r^2)
    T_1 = (T_0 - psi) / r^2       psi_1 = -2 z^2 psi

The rational function for T_0 is in powers of r^2, where the paper's is in powers of r. It needs one
or two terms fewer. Its coefficients hardly cancel, so that Horner's scheme from r = 0 is stable in
float32 too. It is exact at r = 0: its error falls like r^2, and the error of T_1 is bounded.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.protocol import Split
from parki.ewald.sums import SUMS
from parki.ewald.sums.tables import RadialTables, Table

Array = NDArray[np.float64]
_MOST_TERMS = 18
_FLOOR = 1e-15  # relative floor of errors: terms beyond it only cancel
# Largest terms of a numerator or denominator, over their sum.
_CANCELLATION = 8.0


class Evaluator(NamedTuple):
    """An evaluator of the P2P kernel other than the polynomials.

    Attributes
    ----------
    name : {"erfc", "rational"}
    degree : int
        Degree of numerator and denominator: one less than the terms of the barycentric form.
    table : ndarray, shape (2, degree + 1)
        Coefficients of numerator and denominator in powers of (r/rc)^2, highest first.
    xi_rc : float
        Product of Hasimoto's xi and the cut-off.
    """

    name: str
    degree: int
    table: Array
    xi_rc: float

    def describe(self) -> str:
        """Return the evaluator in words."""
        if self.name == "erfc":
            return "erf and exp of the library"
        return f"a rational function of {self.degree + 1} terms"


def choose_evaluator(
    name: str, kernel: str, split: Split, cutoff: float, degree: int
) -> Evaluator | None:
    """Return the evaluator of a name in `EVALUATORS`; None for polynomials.

    Parameters
    ----------
    name, kernel : str
    split : Split
        Hasimoto's, as the options ensure.
    cutoff : float
        Cut-off in the unit of the split.
    degree : int
        Degree of the polynomials that keep the tolerance. A rational function takes the fewest
        terms that make the pair kernel as accurate.
    """
    if name == "polynomial":
        return None
    xi_rc = float(np.sqrt(np.pi) * split.psi0 * cutoff)
    if name == "erfc":
        return Evaluator(name, 0, np.zeros((2, 1)), xi_rc)
    table = _rational(kernel, xi_rc, degree)
    return Evaluator(name, table.shape[1] - 1, table, xi_rc)


def hasimoto_functions(xi_rc: float, r: Array) -> RadialTables:
    """Return the radial functions at distances ``r > 0`` for rc = 1; from psi_2 on they are 0."""
    mean = erf(xi_rc * r) / (2 * r)
    psi = xi_rc / np.sqrt(np.pi) * np.exp(-((xi_rc * r) ** 2))
    return RadialTables.of(
        flow=mean + psi,
        smooth=(mean, (mean - psi) / r**2),
        psi=(-2 * xi_rc**2 * psi, *np.zeros((3, r.size))),
    )


@lru_cache(maxsize=64)
def _rational(kernel: str, xi_rc: float, degree: int) -> Array:
    """Numerator and denominator of T_0 in powers of r^2, highest first, for r <= 1.

    They have the fewest terms whose error is at most the polynomials', or is rounding.
    """
    r = (np.arange(800) + 0.5) / 800
    exact = hasimoto_functions(xi_rc, r)

    def felt(lost: RadialTables) -> Array:
        """Rms error of the pair kernel over the ball r <= 1, for each term of the kernel."""
        squares = [t.square(r**2, lost) for t in SUMS[kernel].terms["u"]]
        return np.asarray(np.sqrt(np.mean(3 * r**2 * np.array(squares), axis=1)))

    def of_mean(error: Array) -> RadialTables:
        """Return the errors of all functions that follow from an error of T_0."""
        return RadialTables.of(flow=error, smooth=(error, error / r**2), psi=[0 * r] * 4)

    polynomials = Hasimoto(xi_rc).radial_polynomials(1.0, degree)
    lost = polynomials.map(lambda p, f: np.polyval(p, 2 * r**2 - 1) - f, exact)
    lost |= {Table("psi", n): 0 * r for n in (2, 3, 4)}
    peak = xi_rc / np.sqrt(np.pi)
    allowed = np.maximum(felt(lost), felt(of_mean(_FLOOR * peak + 0 * r)))

    nodes = (1 - np.cos(np.linspace(0, np.pi, 129))) / 2
    values = np.full(nodes.shape, peak)
    np.divide(erf(xi_rc * nodes**0.5), 2 * nodes**0.5, out=values, where=nodes > 0)
    best, least = np.zeros((2, 1)), np.inf
    for terms in range(2, _MOST_TERMS + 1):
        if least <= 1 or (least < 100 and terms > best.shape[1] + 2):
            break  # good enough, or as good as rounding lets it
        table = quotient(nodes, values, terms)
        top, bottom = (np.polyval(row, r**2) for row in table)
        cancels = [np.polyval(abs(row), r**2) / abs(np.polyval(row, r**2)) for row in table]
        if np.max(cancels) > _CANCELLATION:
            continue
        error = float((felt(of_mean(top / bottom - exact.smooth(0))) / allowed).max())
        if error < least:
            best, least = table, error
    return best


def quotient(nodes: Array, values: Array, terms: int) -> Array:
    """Return a rational approximation by the AAA algorithm, as a quotient of polynomials.

    The barycentric form ``sum w f / (x - z) / sum w / (x - z)`` needs a division for each term.

    Parameters
    ----------
    nodes, values : ndarray, shape (n,)
        Abscissas in [0, 1], the first of them 0, and the function values there.
    terms : int
        Terms of the barycentric form; 1 + the degrees of numerator and denominator.

    Returns
    -------
    ndarray, shape (2, terms)
        Coefficients of numerator and denominator, highest power first.
    """
    from scipy.interpolate import AAA  # takes half of parki's import time, and is rarely used

    with warnings.catch_warnings():
        # It is expected that these terms do not reach rounding.
        warnings.simplefilter("ignore", RuntimeWarning)
        approximant = AAA(nodes, values, rtol=1e-17, max_terms=terms)
    support, weights = approximant.support_points, approximant.weights
    bottom = np.sum([w * np.poly(np.delete(support, j)) for j, w in enumerate(weights)], axis=0)
    bottom /= bottom[-1]
    # The weights alternate in sign, so these sums round. The best numerator for this rounded
    # denominator makes up for that; its last coefficient is the value at 0.
    powers = np.vander(nodes, bottom.size) / np.polyval(bottom, nodes)[:, None]
    sizes = abs(powers).max(axis=0)  # a pole among the nodes makes them negative
    rest = values - values[0] * powers[:, -1]
    top = np.linalg.lstsq((powers / sizes)[:, :-1], rest, rcond=1e-16)[0] / sizes[:-1]
    return np.array([[*top, values[0]], bottom])
