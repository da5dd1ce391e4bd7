"""Blobs in place of points, in the near part of `parki.reference`.

With B'' = 2 psi for the blob's mollifier psi, a regularised kernel is made of B as the others are
of r. Close to each other, points also have the smooth kernel of Hasimoto's split taken away,
whose psi is a Gaussian. Both are smooth. So their radial functions, derivatives D^n by D = (1/r)
d/dr, are summed without any singular part: hypergeometric functions for a Gaussian, and a sum of
waves cos(k r) for the prolate blob.
"""

from __future__ import annotations

import ast
import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import hyp0f1, hyp1f1

Array = NDArray[np.float64]
CUT = 6.3  # of a Gaussian, over epsilon: exp(-CUT**2) = 5.8e-18
BANDWIDTH = 25.0  # of the prolate blob
NODES, TERMS = 64, 40
KINDS = ("gaussian", "prolate", "cortez")


class ReferenceBlob(NamedTuple):
    """A blob and its width."""

    kind: str
    epsilon: float

    @property
    def radius(self) -> float:
        """Distance beyond which it is a point."""
        return self.epsilon * {"gaussian": CUT, "prolate": 1.0, "cortez": math.inf}[self.kind]

    @property
    def spread(self) -> float:
        """The a of its transform, 1 - a k^2 + ...: half of the integral of psi x^2."""
        x, weights = np.polynomial.legendre.leggauss(NODES)
        x = self.radius * (1 + x) / 2
        _, (second,) = self.smooth(x**2, 1)
        return float(weights @ (x**2 * second)) * self.radius / 4

    def smooth(self, r2: Array, depth: int) -> tuple[list[Array], list[Array]]:
        """Return D^n (B'/r) and D^n B'' for n below ``depth``."""
        kinds = {"gaussian": _gaussian, "prolate": _prolate, "cortez": _cortez}
        scaled = kinds[self.kind](r2 / self.epsilon**2, depth)
        mean, second = (
            [f / self.epsilon ** (2 * n + 1) for n, f in enumerate(each)] for each in scaled
        )
        return mean, second


def _gaussian(t: Array, depth: int) -> tuple[list[Array], list[Array]]:
    """For psi = exp(-t) / sqrt(pi), t = r^2: B'/r is erf(r)/r.

    Its derivatives are multiples of F_n(t), the integral of x^(2 n) exp(-t x^2) from 0 to 1. They
    follow from the last one: (2 n + 1) F_n = 2 t F_(n + 1) + exp(-t), a sum without cancellation.
    """
    size, decay, last = 2 / math.sqrt(math.pi), np.exp(-t), depth - 1
    derivatives = [hyp1f1(last + 0.5, last + 1.5, -t) / (2 * last + 1)]
    for n in reversed(range(last)):
        derivatives.insert(0, (2 * t * derivatives[0] + decay) / (2 * n + 1))
    mean = [size * (-2.0) ** n * derivative for n, derivative in enumerate(derivatives)]
    return mean, [size * (-2.0) ** n * decay for n in range(depth)]


def _cortez(t: Array, depth: int) -> tuple[list[Array], list[Array]]:
    """For the blob of Cortez, B' = r / (t + 1)^(1/2)."""
    mean, second = [(1 + t) ** -0.5], [(1 + t) ** -1.5]
    for n in range(1, depth):
        mean.append(-(2 * n - 1) / (1 + t) * mean[-1])
        second.append(-(2 * n + 1) / (1 + t) * second[-1])
    return mean, second


def _prolate(t: Array, depth: int) -> tuple[list[Array], list[Array]]:
    """For a prolate blob of radius 1, by interpolation in t from 0 to 1."""
    mean, second = zip(*map(_interpolated, range(depth)), strict=True)
    return (
        [chebyshev.chebval(2 * t - 1, series) for series in mean],
        [chebyshev.chebval(2 * t - 1, series) for series in second],
    )


@lru_cache(maxsize=8)
def _interpolated(n: int) -> tuple[Array, Array]:
    """Chebyshev series of D^n of B'/r and B'', from sums of waves.

    D^n (sin z / z) = (-1)^n j_n(z) / z^n, and D (cos z) = -sin z / z.
    """
    weights, waves = _waves()
    odd = math.prod(range(1, 2 * n, 2))  # of j_(n - 1)

    def summed(order: float, over: float, s: Array) -> Array:
        z = np.multiply.outer((s + 1) / 2, waves**2) / 4
        return np.asarray(hyp0f1(order, -z) @ (2 * weights * (-(waves**2)) ** n / over))

    s = chebyshev.chebpts1(TERMS)
    fit = np.linalg.inv(chebyshev.chebvander(s, TERMS - 1))
    return fit @ summed(n + 1.5, odd * (2 * n + 1), s), fit @ summed(n + 0.5, odd, s)


@lru_cache(maxsize=1)
def _waves() -> tuple[Array, Array]:
    """Weights and wavenumbers of the prolate mollifier of radius 1.

    The prolate function of order zero minimises the quotient of the integrals of
    ``(1 - x^2) f'^2 + c^2 x^2 f^2`` and of f^2, here among polynomials. It is its own transform:
    the integral of f(y) cos(c y r), by quadrature, is a multiple of f(r).
    """
    x, w = np.polynomial.legendre.leggauss(NODES)
    apart = x[:, None] - x + np.eye(NODES)
    bary = 1 / np.prod(apart, axis=1)
    slope = bary / bary[:, None] / apart
    slope -= np.diag(slope.sum(axis=1))
    energy = slope.T @ ((w * (1 - x**2))[:, None] * slope) + np.diag(w * (BANDWIDTH * x) ** 2)
    _, vectors = eigh(energy, np.diag(w), subset_by_index=(0, 0))
    waves, size = BANDWIDTH * x, w * vectors[:, 0]
    return size / (2 * (size @ np.sinc(waves / np.pi))), waves


def read(kernel: str) -> tuple[str, ReferenceBlob | None]:
    """Return the plain kernel of a name, and its blob: "stokes_sl(epsilon=0.1)" has one."""
    if "(" not in kernel:
        return kernel, None
    call = ast.parse(kernel.strip(), mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError(f"kernel is {kernel!r}, expected a name with parameters")
    parameters = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    blob = ReferenceBlob(parameters.pop("blob", "gaussian"), float(parameters.pop("epsilon", 0.0)))
    if parameters or blob.kind not in KINDS or not 0 <= blob.epsilon < math.inf:
        raise ValueError(
            f"kernel is {kernel!r}, expected epsilon, not negative, and blob, one of "
            f"{', '.join(KINDS)}"
        )
    return call.func.id, blob if blob.epsilon else None
