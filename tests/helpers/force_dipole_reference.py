"""The mobility of spheres with forces and force dipoles by closed forms and dense Ewald sums.

Forces, torques and stresslets of a few spheres of any radii, overlapping or not, over
1 / (8 pi viscosity). It shares nothing with parki. All pairs follow from w, the mean of |r| over
two shells ("s": forces, velocities) or balls ("b": force dipoles, gradients); w_n = (1/r d/dr)^n w.
"""

import itertools
from math import factorial

import numpy as np
from scipy.special import spherical_jn

KINDS = "ss", "sb", "bs", "bb"  # target first
XI, WIDTH = 6.0, 5.8  # of Hasimoto's split, of boxes of edges of about 1: to about 1e-12
TIMES = np.polynomial.legendre.leggauss(100)


def moments(kind, a, b):
    """Return (coefficient, power n, s, t): r w is the sum of c sgn(q) q^n, q = r + s a + t b."""
    found = []
    for s, t in itertools.product((1, -1), repeat=2):
        if kind == "ss":
            parts = [(s * t / (48 * a * b), 4)]
        elif kind == "sb":
            parts = [(s * b / factorial(5), 5), (-s * t / factorial(6), 6)]
            parts = [(3 / (2 * a * b**3) * c, n) for c, n in parts]
        elif kind == "bs":
            parts = [(t * a / factorial(5), 5), (-s * t / factorial(6), 6)]
            parts = [(3 / (2 * b * a**3) * c, n) for c, n in parts]
        else:
            parts = [(a * b / factorial(6), 6), (-(a * t + b * s) / factorial(7), 7)]
            parts = [
                (9 / (2 * (a * b) ** 3) * c, n) for c, n in [*parts, (s * t / factorial(8), 8)]
            ]
        found += [(c, n, s, t) for c, n in parts]
    return found


def exact(kind, a, b, r):
    """Return w_1 to w_4 at a distance, whatever it is."""
    total = np.zeros(9)
    for c, n, s, t in moments(kind, a, b):
        q = s * a + t * b
        sign = np.sign(r + q) if r + q else s if a > b else t
        total[: n + 1] += sign * c * np.polynomial.polynomial.polypow([q, 1.0], n)
    total[abs(total) * (a + b) ** np.arange(9) < 1e-12 * abs(total).max()] = 0
    if r <= abs(a - b):
        total[::2] = 0  # a polynomial of r^2
    found = []
    for k in range(1, 5):
        factors = [np.prod([n - 1 - 2 * j for j in range(k)]) for n in range(9)]
        powers = [
            0.0 if not f * c else r ** (n - 1 - 2 * k)
            for n, (f, c) in enumerate(zip(factors, total, strict=True))
        ]
        found.append(sum(c * f * p for c, f, p in zip(total, factors, powers, strict=True)))
    return np.array(found)


def blocks(w, r):
    """Return G, its gradient and second derivatives, of the four kinds' w_n (4, 4)."""
    one, r2 = np.eye(3), r @ r

    def gradient(v):
        along = 4 * v[1] + r2 * v[2]
        found = along * np.einsum("ij,k->ijk", one, r) - v[2] * np.einsum("i,j,k->ijk", r, r, r)
        return found - v[1] * (np.einsum("ik,j->ijk", one, r) + np.einsum("jk,i->ijk", one, r))

    _, w2, w3, w4 = w[3]
    ways = ("ik,j,l", "jk,i,l", "il,j,k", "jl,i,k", "kl,i,j")
    second = (4 * w2 + r2 * w3) * np.einsum("ij,kl->ijkl", one, one)
    second += (6 * w3 + r2 * w4) * np.einsum("ij,k,l->ijkl", one, r, r)
    second -= w2 * (np.einsum("ik,jl->ijkl", one, one) + np.einsum("il,jk->ijkl", one, one))
    second -= w3 * sum(np.einsum(f"{way}->ijkl", one, r, r) for way in ways)
    second -= w4 * np.einsum("i,j,k,l->ijkl", r, r, r, r)
    flow = (2 * w[0][0] + r2 * w[0][1]) * one - w[0][1] * np.outer(r, r)
    return flow, gradient(w[1]), gradient(w[2]), second


def factors(k, radius):
    """Return the factors of a shell and of a ball."""
    x = k * radius
    return {
        "s": np.sinc(x / np.pi),
        "b": np.where(x > 1e-2, 3 * spherical_jn(1, x) / np.maximum(x, 1e-2), 1 - x**2 / 10),
    }


def smooth(a, b, r, largest, gamma):
    """Return w_1 to w_4 of the far field for each kind, by quadrature over wavenumbers."""
    k = largest * (TIMES[0] + 1) / 2
    weights = TIMES[1] * largest / 2 * gamma(k) * 4 / np.pi
    one, other = factors(k, a), factors(k, b)
    found, z = [], np.maximum(k * r, 1e-3)
    near = {
        n: np.where(k * r > 1e-3, spherical_jn(n, z) / z**n, 1 / np.prod(range(2 * n + 1, 0, -2)))
        for n in range(1, 5)
    }
    for target, source in KINDS:
        own = weights * one[target] * other[source]
        found.append([(-1) ** (n + 1) * near[n] @ (own * k ** (2 * n - 2)) for n in range(1, 5)])
    return np.array(found)


def mobility(points, radii, forces, dipoles, box=None):
    """Return velocities (3, N) and gradients (3, 3, N), in free space or in a box (rows, 3, 3)."""
    count = points.shape[1]
    u, g = np.zeros((3, count)), np.zeros((3, 3, count))

    def add(i, j, w, r):
        flow, of_dipoles, of_forces, second = blocks(w, r)
        d, f = dipoles[..., j], forces[:, j]
        u[:, i] += flow @ f - np.einsum("ijk,jk->i", of_dipoles, d)
        g[..., i] += np.einsum("ijk,j->ik", of_forces, f) - np.einsum("ijlk,jl->ik", second, d)

    def gamma(k):
        c = (k / (2 * XI)) ** 2
        return (1 + c) * np.exp(-c)

    largest, reach = 2 * XI * WIDTH, WIDTH / XI + 2 * radii.max()
    shifts = np.zeros((1, 3))
    if box is not None:
        counts = np.ceil(reach * np.linalg.norm(np.linalg.inv(box), axis=0)).astype(int) + 1
        shifts = np.array([*itertools.product(*(range(-n, n + 1) for n in counts))]) @ box
    for i, j in itertools.product(range(count), repeat=2):
        for shift in shifts:
            r = points[:, i] - points[:, j] + shift
            distance = np.linalg.norm(r)
            if box is not None and distance > reach:
                continue
            w = np.array([exact(kind, radii[i], radii[j], distance) for kind in KINDS])
            if box is not None:
                w -= smooth(radii[i], radii[j], distance, largest, gamma)
            add(i, j, w, r)
    if box is None:
        return u, g
    waves = 2 * np.pi * np.linalg.inv(box)  # columns
    counts = np.ceil(largest * np.linalg.norm(box, axis=1) / (2 * np.pi)).astype(int)
    modes = np.array([*itertools.product(*(range(-n, n + 1) for n in counts))]) @ waves.T
    size = np.linalg.norm(modes, axis=1)
    modes, size = modes[(size > 0) & (size <= largest)], size[(size > 0) & (size <= largest)]
    both = [factors(size, radius) for radius in radii]
    phases = np.exp(1j * modes @ points)
    field = np.zeros((len(modes), 3), dtype=complex)
    for j, of in enumerate(both):
        own = of["s"][:, None] * forces[:, j] - 1j * of["b"][:, None] * modes @ dipoles[..., j].T
        field += own * phases[:, j, None].conj()
    along = (field * modes).sum(axis=1) / size**2
    field = (field - along[:, None] * modes) * (
        8 * np.pi / size**2 * gamma(size) / abs(np.linalg.det(box))
    )[:, None]
    for i, of in enumerate(both):
        own = field * phases[:, i, None]
        u[:, i] += (of["s"] @ own).real
        g[..., i] += (1j * np.einsum("n,ni,nk->ik", of["b"], own, modes)).real
    return u, g
