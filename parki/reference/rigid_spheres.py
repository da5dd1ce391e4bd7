"""Two rigid spheres in Stokes flow, exactly, and many of them by forces, torques and stresslets.

Outside of a sphere of radius a the pressure p, a potential and a swirl are series of
``(a / r)^(n + 1) P_n^m(cos theta)`` times cos(m phi) or, for the swirl, sin(m phi): Lamb's
solution. About the other sphere these are growing harmonics, so that no slip on both spheres is
one linear system for each m = 0, 1, 2. Sphere 1 is at the origin, sphere 2 at height r.

Matrices are in units of 8 pi viscosity = 1. What acts on the fluid has a force F, a torque T and a
stresslet S; what moves has a velocity U, an angular velocity W and a rate of strain E:

    m = 0    U_z  W_z  E along (3 z z - 1) / sqrt 6    of sphere 1, then of sphere 2
    m = 1    U_x  W_y  E along (x z + z x) / sqrt 2
    m = 2    E along (x x - y y) / sqrt 2
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy.special import gammaln

MOST_TERMS = 1500  # of a series: a system of 4500 unknowns
SQRT2, SQRT6 = math.sqrt(2), math.sqrt(6)
# Force dipoles D of unit torques along the axes, D_ik = eps_ijk T_j / 2, and an orthonormal basis
# of the stresslets, which are symmetric and have no trace.
_EPS = np.array(
    [[[(i - j) * (j - k) * (k - i) / 2 for k in range(3)] for j in range(3)] for i in range(3)]
)
_XY, _XZ, _YZ = (
    (np.eye(3)[i][:, None] * np.eye(3)[j] + np.eye(3)[j][:, None] * np.eye(3)[i]) / SQRT2
    for i, j in ((0, 1), (0, 2), (1, 2))
)
FORCE_DIPOLES = np.array(
    [
        *(_EPS.transpose(1, 0, 2) / 2),
        np.diag([1, -1, 0]) / SQRT2,
        np.diag([-1, -1, 2]) / SQRT6,
        *(_XY, _XZ, _YZ),
    ]
)


def two_spheres(a: float, b: float, r: float) -> dict[str, tuple[float, float]]:
    """Return the resistance functions of two rigid spheres, exactly.

    They are the 11 functions of Jeffrey and Onishi (1984) and Jeffrey (1992) as Kim and Karrila
    (1991) normalise them, which are 1 or 0 for a sphere alone.

    Parameters
    ----------
    a, b : float
        Radii.
    r : float
        Distance of the centres, above a + b. A gap of 1e-4 of the radii takes about a minute.

    Returns
    -------
    dict of str to tuple of 2 floats
        ``{"XA": (X11, X12), "YA": ..., ...}``: what acts on sphere 1 by its own motion, and by the
        motion of sphere 2.

    Raises
    ------
    ValueError
        If the spheres overlap, or the gap is so small that the series are too long.
    """
    (axial, across, last), c = resistance(a, b, r).values(), a + b
    functions = {
        "XA": (axial[0, 0] / (0.75 * a), axial[0, 3] / (3 * c / 8)),
        "YA": (across[0, 0] / (0.75 * a), across[0, 3] / (3 * c / 8)),
        "YB": (-across[1, 0] / (a * a / 2), -across[1, 3] / (c * c / 8)),
        "XC": (axial[1, 1] / a**3, axial[1, 4] / (c**3 / 8)),
        "YC": (across[1, 1] / a**3, across[1, 4] / (c**3 / 8)),
        "XG": (axial[2, 0] / (a * a / SQRT6), axial[2, 3] / (c * c / 4 / SQRT6)),
        "YG": (across[2, 0] / (a * a / SQRT2), across[2, 3] / (c * c / 8 * SQRT2)),
        "YH": (across[2, 1] / (a**3 * SQRT2), across[2, 4] / (c**3 / 8 * SQRT2)),
    }
    for name, matrix, index in (("XM", axial, 2), ("YM", across, 2), ("ZM", last, 0)):
        other = index + len(matrix) // 2
        functions[name] = (
            matrix[index, index] / (5 / 6 * a**3),
            matrix[index, other] / (5 / 48 * c**3),
        )
    return {name: (float(one), float(two)) for name, (one, two) in functions.items()}


def resistance(a: float, b: float, r: float, digits: float = 9.0) -> dict[int, Any]:
    """Return the exact resistance of two spheres, by m: see the module.

    ``digits`` is how many decimals the series have, roughly.
    """
    terms = _terms(a, b, r, digits)
    return {m: _resistance(m, terms[m], a, b, r) for m in range(3)}


def pressures(a: float, b: float, r: float, digits: float = 9.0) -> Any:
    """Return the traces of the first moments of the forces on the fluid, by motions of m = 0.

    A sphere in an incoming flow of pressure p at its centre has ``4 pi a^3 p``, here of two
    spheres, exactly, shape (2, 6): for sphere 1 and 2, by U_z, W_z and E of both.
    """
    terms = _terms(a, b, r, digits)[0]
    n, series = np.arange(1, terms + 1), _series(0, terms, a, b, r)[..., 0, :]
    one = a**3 * (series[:, :, 1] * (-1.0) ** n * (b / r) ** (n + 1)).sum(axis=-1)
    two = b**3 * (series[:, :, 0] * (a / r) ** (n + 1)).sum(axis=-1)
    return np.stack([one, two]).reshape(2, 6) / 2


def _terms(a: float, b: float, r: float, digits: float) -> list[int]:
    """Return the numbers of terms of series, by m; refuse spheres that are too close."""
    if not r > a + b > 0 or min(a, b) <= 0:
        raise ValueError(f"radii {a:g} and {b:g} at a distance of {r:g}; expected a gap")
    gap, ratio = 2 * r / (a + b) - 2, min(a, b) / max(a, b)
    terms = 10 + int(1.2 * digits / math.sqrt(2 * gap * ratio / (1 + ratio)))
    if terms > MOST_TERMS:
        raise ValueError(f"gap is {gap:g} of the mean radius, which takes {terms} terms of series")
    # Motion along the line of centres is the hardest to resolve.
    return [max(count, 16) for count in (int(1.6 * terms), terms, terms)]


def _resistance(m: int, terms: int, a: float, b: float, r: float) -> Any:
    """Return the resistance of one m, by series of this many terms."""
    coefficients = _series(m, terms, a, b, r)
    parts = [_moments(m, radius, coefficients[:, :, i]) for i, radius in enumerate((a, b))]
    size = parts[0].shape[-1]
    matrix = np.concatenate(parts, axis=-1).reshape(2 * size, -1) / (8 * math.pi)
    return (matrix + matrix.T) / 2


def _series(m: int, terms: int, a: float, b: float, r: float) -> Any:
    """Return pressure, potential and swirl of spheres, by motions: (2, kinds, 2, 3, terms)."""
    n = np.arange(max(m, 1), terms + 1)
    kinds = "UWE" if m < 2 else "E"
    motions = [np.array([_motion(m, n.size, radius, kind) for kind in kinds]) for radius in (a, b)]
    alone = [_inverse(n, radius, data) for radius, data in zip((a, b), motions, strict=True)]
    one, two = _met(m, n, a, b, r), _met(m, n, b, a, -r)
    # No slip on sphere 1 is x_1 + one x_2 = own_1; x_2 is eliminated. Swirls about the line of
    # centres are a system of their own.
    coefficients = np.zeros((2, len(kinds), 2, 3, n.size))  # the sphere that moves, then the series
    for rows in [[0, 1], [2]] if m == 0 else [[0, 1, 2]]:
        size = len(rows) * n.size
        k1, k2 = (matrix[rows][:, :, rows].reshape(size, size) for matrix in (one, two))
        g1, g2 = (matrix[:, rows].reshape(-1, size).T for matrix in alone)
        right_side = np.hstack([g1, -k1 @ g2])
        x1 = np.linalg.solve(np.eye(size) - k1 @ k2, right_side)
        x2 = np.hstack([0 * g1, g2]) - k2 @ x1
        for sphere, x in enumerate((x1, x2)):
            coefficients[:, :, sphere, rows] = x.T.reshape(2, len(kinds), len(rows), n.size)
    return coefficients


def _met(m: int, n: Any, radius: float, other: float, height: float) -> Any:
    """Return the series of a sphere that the flow of the other one asks for.

    Shape (3, terms, 3, terms), from pressure, potential and swirl of the other sphere, which is at
    this height.
    """
    every, k = np.arange(n[0], n[-1] + 2), np.arange(m, n[-1] + 3)
    up, down = np.meshgrid(every, k)
    size = gammaln(up + down + 1) - gammaln(down + m + 1) - gammaln(up - m + 1)
    size += down * math.log(radius / abs(height)) + (up + 1) * math.log(other / abs(height))
    # A decaying harmonic of the other sphere as growing ones of this sphere.
    shifted = np.where((up if height > 0 else down) + m & 1, -1.0, 1.0) * np.exp(size)
    t, f, c = shifted[:, :-1], n.astype(float), height
    slope = shifted[:, 1:] * (-(f - m + 1) / other)  # of it along the axis

    def raised(x: Any) -> Any:
        """Return the harmonic part of the height times x."""
        result = np.zeros_like(x)
        result[1:] = x[:-1] * ((k[:-1] - m + 1) / (2 * k[:-1] + 1) * radius)[:, None]
        return result

    h = t * ((f + 1) / (2 * (2 * f - 1))) - c * (f - 2) / (2 * f * (2 * f - 1)) * slope
    g = c * (f + 1) / (f * (2 * f - 1)) * t
    rows = slice(n[0] - m, n[0] - m + n.size)
    q = f[:, None]
    met = np.zeros((3, n.size, 3, n.size))
    met[0, :, 0] = t[rows]
    met[1, :, 0] = (-2 * c * raised(h) + c * c * h + raised(g) - c * g)[rows] / q
    met[1, :, 1] = (-(f + 1) * t + c * slope)[rows] / q
    met[1, :, 2] = -(c * m * t)[rows] / q
    met[2, :, 0] = (c * m / f * t)[rows] / (q * (q + 1))
    met[2, :, 2] = (f * (f + 1) * t - c * f * slope)[rows] / (q * (q + 1))
    # The velocity along r, r times its derivative by r, and r times the curl, of growing harmonics.
    p, phi, swirl = met
    n_ = q[:, None]
    v = n_ * radius / (2 * (2 * n_ + 3)) * p + n_ / radius * phi
    w = n_ * (n_ + 1) * radius / (2 * (2 * n_ + 3)) * p + n_ * (n_ - 1) / radius * phi
    data = np.stack([v, w, n_ * (n_ + 1) * swirl]).transpose(2, 3, 0, 1)  # (3, terms, 3, terms)
    return _inverse(n, radius, data).transpose(2, 3, 0, 1)


def _inverse(n: Any, radius: float, data: Any) -> Any:
    """Return pressure, potential and swirl (..., 3, terms) of a sphere alone with these data."""
    v, w, curl = np.moveaxis(data, -2, 0)
    p = ((n + 2) * v + w) * (2 * n - 1) / (radius * (n + 1))
    phi = (w + n * v) * radius / (2 * (n + 1))
    return np.stack([p, phi, curl / (n * (n + 1))], axis=-2)


def _motion(m: int, terms: int, radius: float, kind: str) -> Any:
    """Return the data (3, terms) of a motion of the sphere: see `_met`."""
    data = np.zeros((3, terms))
    if kind == "U":
        data[0, 0] = 1
    elif kind == "W":
        data[2, 0] = 2 * radius
    else:
        index, size = ((1, 2 / SQRT6), (1, 2 / (3 * SQRT2)), (0, 1 / (3 * SQRT2)))[m]
        data[:2, index] = radius * size
    return data


def _moments(m: int, radius: float, series: Any) -> Any:
    """Return force, torque and stresslet of series (..., 3, terms)."""
    p, _, swirl = np.moveaxis(series, -2, 0)
    index, size = ((1, SQRT6 / 2), (1, 3 / SQRT2), (0, 3 * SQRT2))[m]
    stresslet = 4 * math.pi / 3 * radius**3 * size * p[..., index]
    if m == 2:
        return stresslet[..., None]
    force, torque = 4 * math.pi * radius**2 * p[..., 0], 8 * math.pi * radius**2 * swirl[..., 0]
    return np.stack([force, torque, stresslet], axis=-1)


# ---------------------------------------------------------------------- forces to stresslets alone
def in_basis(m: int) -> Any:
    """Return the vectors (22, k) of the module's motions of one m, of which there are two if m > 0.

    Each sphere has U, W and E, in the basis of `FORCE_DIPOLES`.
    """
    x, y, z = np.eye(3)
    strains = np.array(
        [(3 * np.outer(z, z) - np.eye(3)) / SQRT6, FORCE_DIPOLES[6], FORCE_DIPOLES[3]]
    )
    basis = np.einsum("mij,ij->m", FORCE_DIPOLES[3:], strains[m])
    vectors = [np.r_[z, np.zeros(8)], np.r_[np.zeros(3), z, np.zeros(5)]]
    if m == 1:
        vectors = [np.r_[x, np.zeros(8)], np.r_[np.zeros(3), y, np.zeros(5)]]
    vectors = [*(vectors if m < 2 else []), np.r_[np.zeros(6), basis]]
    return np.kron(np.eye(2), np.array(vectors).T)


def moment_mobility(points: Any, radii: Any) -> Any:
    """Return the mobility (11 N, 11 N) of spheres apart by forces, torques and stresslets.

    In free space, of Durlofsky, Brady and Bossis (1987). Each sphere has F, T, S and U, W, E, in
    the basis of `FORCE_DIPOLES`.
    """
    count = points.shape[1]
    mobility = np.zeros((count, 11, count, 11))
    for i, j in itertools.product(range(count), repeat=2):
        a, b = radii[i], radii[j]
        if i == j:
            mobility[i, :, j] = np.diag([4 / (3 * a)] * 3 + [1 / a**3] * 3 + [1.2 / a**3] * 5)
            continue
        r = points[:, i] - points[:, j]
        squares = {"ff": (a * a + b * b) / 3, "fc": a * a / 3 + b * b / 5}
        squares |= {"cf": a * a / 5 + b * b / 3, "cc": (a * a + b * b) / 5}
        part = {name: _derivatives(r, size) for name, size in squares.items()}
        mobility[i, :3, j, :3] = part["ff"][0]
        mobility[i, :3, j, 3:] = -np.einsum("ijk,mjk->im", part["fc"][1], FORCE_DIPOLES)
        mobility[i, 3:, j, :3] = np.einsum("ijk,mik->mj", part["cf"][1], FORCE_DIPOLES)
        mobility[i, 3:, j, 3:] = -np.einsum(
            "ijkl,pik,qjl->pq", part["cc"][2], FORCE_DIPOLES, FORCE_DIPOLES
        )
    return mobility.reshape(11 * count, -1)


def _derivatives(r: Any, size: float) -> tuple[Any, Any, Any]:
    """Return ``G = (I lap - grad grad) (r + size / r)``, its first and its second derivatives."""
    d, one = math.sqrt(r @ r), np.eye(3)
    w1, w2 = 1 / d - size / d**3, -1 / d**3 + 3 * size / d**5
    w3, w4 = 3 / d**5 - 15 * size / d**7, -15 / d**7 + 105 * size / d**9
    l1, l2 = 5 * w2 + d * d * w3, 7 * w3 + d * d * w4
    rr = np.outer(r, r)
    g = (2 * w1 + d * d * w2) * one - w2 * rr
    slope = (l1 - w2) * np.einsum("ij,k->ijk", one, r) - w3 * np.einsum("i,j,k->ijk", r, r, r)
    slope -= w2 * (np.einsum("ik,j->ijk", one, r) + np.einsum("jk,i->ijk", one, r))
    ones = {pair: np.einsum(f"{pair},{rest}->ijkl", one, one) for pair, rest in _PAIRS}
    curved = (l1 - w2) * ones["ij"] - w2 * (ones["ik"] + ones["il"])
    curved += (l2 - w3) * np.einsum("ij,kl->ijkl", one, rr)
    for pair, rest in (*_PAIRS[1:], *((rest, pair) for pair, rest in _PAIRS)):
        curved -= w3 * np.einsum(f"{pair},{rest}->ijkl", one, rr)
    return g, slope, curved - w4 * np.einsum("ij,kl->ijkl", rr, rr)


_PAIRS = (("ij", "kl"), ("ik", "jl"), ("il", "jk"))
