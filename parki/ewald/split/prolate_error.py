"""Error of the prolate split for one pair, in closed form or by quadrature, for rc = 1.

The far field's modes end at c. Since psi_0 is its own transform, the modes up to c are
``lambda psi_0(r)`` at every r, where 1 - lambda is about exp(-2 c), and the near field subtracts
psi_0 up to r = 1 only. So the error is the field of the mollifier ``-(1 - lambda) psi_0`` up to 1,
and of ``lambda psi_0`` beyond. With the factor of biharmonic symbols the modes up to c are
``lambda (3 psi_0 + r psi_0') / 2`` and the wave of their jump at k = c, which adds
``2 psi_0(1) / (pi c psi_0(0)) j_0(c r)`` to the error of r, whose double Laplacian is -8 pi delta.

Large numbers do not cancel here. So the quadrature is good for errors far below the rounding of the
fields, which a sum over modes would not be.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import spherical_jn

from parki.ewald.split.prolate import Prolate, legendre_series
from parki.ewald.split.protocol import Estimate
from parki.ewald.split.quadrature import gauss
from parki.ewald.split.radial_series import radial_functions
from parki.ewald.sums import ErrorTerm, term_of
from parki.ewald.sums.tables import RadialTables

Array = NDArray[np.float64]
_NODES, _TERMS = 16, 40  # Gauss nodes and terms of the series of a panel
_PHASE = 5.0  # most radians of a panel


class Beyond(NamedTuple):
    """``psi_0(r) / psi_0(1)`` at nodes of quadrature from r = 1 to 2 c + 8, of shape (n,) each.

    ``rest`` has the integrals from the nodes to infinity, and ``whole`` is the integral from r = 1.
    The start of each panel is a node without weight, since many functions are largest at r = 1.
    """

    r: Array
    weights: Array
    psi: Array
    slope: Array
    second: Array
    third: Array
    fourth: Array
    rest: Array
    whole: float
    edge: float  # psi_0(1) / psi_0(0)


def beyond(c: float) -> Beyond:
    """Return psi_0 beyond r = 1, where it is small and oscillates, for a bandwidth c.

    Its Legendre series gives it only to the rounding of its value at 0. Its differential equation,
    ``((r^2 - 1) psi')' = (chi - c^2 r^2) psi``, gives it relative to its value at 1, however small
    this is. Taylor series solve the equation in panels of less than a wavelength.
    """
    _, chi = legendre_series(c)
    ends = _panels(c)
    x0, w = 1 + np.array([0.0, *ends[:-1]]), np.diff([0.0, *ends])
    n = np.arange(_TERMS)
    first, others = _from_one(c, chi, ends[0], _TERMS), _solutions(c, chi, x0[1:], w[1:])
    steps = np.array([others.sum(axis=0), np.tensordot(n, others, 1) / w[1:]]).transpose(2, 0, 1)
    states = [np.array([first.sum(), n @ first / w[0]])]  # value and slope where panels meet
    for step in steps:
        states.append(step @ states[-1])
    series = np.column_stack([first, np.einsum("nsp,ps->np", others, np.array(states[:-1]))])

    x, weights = gauss(_NODES)
    # Next to the start: the equation does not give the second derivative at r = 1 itself.
    t, weights = np.append(1e-6, (x + 1) / 2)[:, None], np.append(0.0, weights / 2)[:, None]
    r, psi, slope = x0 + w * t, t**n @ series, n[1:] * t ** n[:-1] @ series[1:] / w
    rate = (c * r) ** 2 - chi
    second = -(2 * r * slope + rate * psi) / (r**2 - 1)
    third = -(4 * r * second + (2 + rate) * slope + 2 * c**2 * r * psi) / (r**2 - 1)
    # By the series, since the equation divides by r - 1 once more for each derivative.
    falling = n[4:] * (n[4:] - 1) * (n[4:] - 2) * (n[4:] - 3)
    fourth = falling * t ** n[:-4] @ series[4:] / w**4
    # Integrals beyond the last panel by parts, since q = c^2 r^2 - chi changes slowly there.
    end, (value, rise) = 1 + ends[-1], states[-1]
    q = (c * end) ** 2 - chi
    last = (end**2 - 1) / q * (rise + 2 * c**2 * end / q * value)
    later = np.cumsum(np.append(w * (1 / (n + 1) @ series), last)[::-1])[::-1]
    rest = later[1:] + w * ((1 - t ** (n + 1)) / (n + 1) @ series)
    columns = [f.T.ravel() for f in (r, w * weights, psi, slope, second, third, fourth, rest)]
    # The series about 1 reaches 0 too. It loses exp(0.4 c) to rounding there: 1e-10 for c = 60.
    inwards = _from_one(c, chi, -1.0, 150 + int(3 * c))
    edge = 1 / float(inwards.sum())
    return Beyond._make([*columns, float(later[0]), edge])


def _panels(c: float) -> list[float]:
    """Return the ends of the panels, as distances from 1, where the equation is singular."""
    ends = [min(0.5, 18 / c**2)]
    while ends[-1] < 2 * c + 7:
        u = ends[-1]
        wavenumber = c * (1 + u) / math.sqrt(u * (2 + u))
        ends.append(u + min(u / 2, _PHASE / wavenumber))
    return ends


def _from_one(c: float, chi: float, width: float, count: int) -> Array:
    """Taylor series of ``psi_0(1 + width t) / psi_0(1)`` in t, lowest power first."""
    a = [0.0, 0.0, 1.0]
    for n in range(count - 1):
        terms = (n * (n + 1) + c**2 - chi) * a[-1] + c**2 * width * (2 * a[-2] + width * a[-3])
        a.append(-width * terms / (2 * (n + 1) ** 2))
    return np.array(a[2:])


def _solutions(c: float, chi: float, x0: Array, w: Array) -> Array:
    """Taylor series in ``t = (r - x0) / w`` of the solutions of value 1 and of slope 1 at x0.

    Shape (terms, 2, panels), lowest power first.
    """
    a = np.zeros((_TERMS + 2, 2, x0.size))
    a[2, 0], a[3, 1] = 1.0, w
    for n in range(_TERMS - 2):
        terms = 2 * x0 * (n + 1) ** 2 * a[n + 3]
        terms += w * (n * (n + 1) + (c * x0) ** 2 - chi) * a[n + 2]
        terms += (c * w) ** 2 * (2 * x0 * a[n + 1] + w * a[n])
        a[n + 4] = -w * terms / ((x0**2 - 1) * (n + 2) * (n + 1))
    return a[2:]


def pair_error(term: str, c: float) -> Estimate:
    """Error of the split for one pair, in units of rc, for a term of `parki.ewald.sums.TERMS`.

    ``rms^2 = int |e(r)|^2 dr`` over all space; the size of e is averaged over directions as in
    `parki.ewald.sums.ErrorTerm`.  Closed forms are within 14 % (rms) of `by_quadrature` for c from
    5 on; their ``peak`` is raised to a bound.  Beyond rc the error decays like cos(k r) / r, with
    k = c / rc, up to about 2 c rc, and then faster. At least half of the square (all of it, for the
    single layer) is spread evenly over these distances.
    """
    # The unit is eps = 2 sqrt(pi c) exp(-c) = psi_0(1) / psi_0(0). The constants follow from
    # psi_0(x) ~ psi_0(1) J0(c sqrt(2 (x - 1))) beyond x = 1, and its WKB form further out.
    kind = term_of(term)
    if kind.prolate is None:
        return by_quadrature(kind, c)
    known, edge = kind.prolate, 2 * math.sqrt(math.pi * c) * math.exp(-c)
    return Estimate(
        math.sqrt(known.rms) * c**known.rms_power * edge,
        1.15 * math.sqrt(known.peak) * c**known.peak_power * edge,
        math.sqrt(known.zero) * c**known.zero_power * edge,
    )


@lru_cache(maxsize=1024)
def by_quadrature(term: ErrorTerm, c: float) -> Estimate:
    """Return the error by radial quadrature of the term's square, for c from 3 on.

    The rms is good to 0.1 %, and the peak, which is the largest one at the nodes, to 1 %.
    """
    r, weights, fields = _error(c, term.order)
    square = term.square(r**2, fields)
    # From the end of the quadrature on, the square falls like 1 / r^4 in the mean.
    last = r > r[-1] - 8 * math.pi / c
    tail = weights[last] @ (r**4 * square)[last] / weights[last].sum() / r[-1]
    rms = math.sqrt(4 * math.pi * (weights @ (r**2 * square) + tail))
    return Estimate(rms, math.sqrt(square.max()), math.sqrt(square[0]))


@lru_cache(maxsize=8)
def _error(c: float, order: int) -> tuple[Array, Array, RadialTables]:
    """Nodes from 0 to beyond 2 c, the first of them 0, weights, and the error's radial functions.

    The nodes are about 7 c^2, and take milliseconds.
    """
    out = beyond(c)
    scale = 2 * Prolate(c, 1.0).psi0 * out.edge
    # The mollifier of the modes up to c has an integral of 1: the part 1 - lambda is beyond 1.
    scale /= 1 + scale * out.whole
    derived = out.psi, out.slope, out.second, out.third, out.fourth
    derivatives = (scale * f for f in (-out.rest, *derived))
    outer = radial_functions(out.r, derivatives)
    x, w = gauss(40 + int(c))
    inner = np.append(0.0, (x + 1) / 2)
    near = Prolate(c, 1.0).series(1.0).map(lambda f: chebyshev.chebval(2 * inner**2 - 1, f))
    lost = scale * out.whole
    fields = near.map(lambda a, b: np.append(lost * a, b), outer)
    r, weights = np.append(inner, out.r), np.concatenate([[0.0], w / 2, out.weights])
    if order == 2:
        jump = _wave(2 * out.edge / (math.pi * c), c, r)
        fields = fields.map(np.add, jump)
    return r, weights, fields


def _wave(size: float, c: float, r: Array) -> RadialTables:
    """Radial functions of ``size j_0(c r)``, by ``j_n(z) / z^n``: each one is the next's slope."""
    z = np.maximum(c * r, 1e-3)
    _, g1, g2, g3, g4, g5, g6 = (spherical_jn(n, z) / z**n for n in range(7))
    unit = size * c**2 / 2
    mean, psi = unit * g1, unit * (g1 - z**2 * g2)
    return RadialTables.of(
        flow=mean + psi,
        smooth=(mean, unit * c**2 * g2),
        psi=(
            unit * c**2 * (z**2 * g3 - 3 * g2),
            unit * c**4 * (5 * g3 - z**2 * g4),
            unit * c**6 * (z**2 * g5 - 7 * g4),
            unit * c**8 * (9 * g5 - z**2 * g6),
        ),
    )
