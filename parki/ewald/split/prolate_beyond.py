"""The prolate function psi_0 beyond r = 1, where it is small and oscillates.

Its Legendre series gives it only to the rounding of its value at 0. Its differential equation,
``((r^2 - 1) psi')' = (chi - c^2 r^2) psi``, gives it relative to its value at 1, however small this
is. Taylor series solve the equation in panels of less than a wavelength.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.ewald.split.prolate import legendre_series
from parki.ewald.split.quadrature import gauss

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
    """Return psi_0 beyond r = 1, for a bandwidth c."""
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
