"""A-priori errors of the near field, the far field, the window and the near polynomials.

Every estimate is per sqrt(Q), for densities of random sign and direction. Q is the sum of |f|^2, of
|q|^2 |n|^2, of |t|^2 or of q^2:

``rms``
    Root mean square of the error over targets, when all points fill ``volume`` uniformly.
``peak``
    The largest error that one pair can have, for any arrangement of the points.
``itself``
    The error of a point that is its own partner.

If pairs at short range are S >= 1 times as dense as among uniform points (a target that is a source
makes a pair), the square of the error is at most ``min(S rms^2, peak^2) Q``.  The size of a pair's
error is its Frobenius norm, averaged over the directions of density and normal: see
`parki.ewald.sums.ErrorTerm`.  Terms are the kernels' parts, and the gradients and pressures derived
from them.  `parki.ewald.choice` combines and inverts the estimates, which take no tolerance or
cost.  Lengths are in one unit; factors such as 1/(8 pi mu) are left out.

Kosmacher, Du, Bagge, Biros (2026), equation (10), give the double layer's errors in closed form.
Here they follow from the functions of the split and of the window. So any split is covered, and the
window's error is a sum over modes where the paper fits ``C(xi) exp(-2.5 P)``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.ewald.split.core import CortezSplit
from parki.ewald.split.prolate import Prolate
from parki.ewald.split.prolate_error import pair_error
from parki.ewald.split.protocol import Estimate, Split
from parki.ewald.split.quadrature import gauss
from parki.ewald.split.radial_series import radial_functions
from parki.ewald.split.window import ModeImages, images
from parki.ewald.sums import ErrorTerm, ImageParts, term_of
from parki.ewald.sums.tables import RadialTables

Array = NDArray[np.float64]
EXPONENT = 20.0  # integrals of decaying functions stop where the integrand has lost exp(-20)
_LOW, _GAUSS, _HIGH = 6, 14, 3  # modes summed one by one at the ends, Gauss nodes between


def coherence(split: Split, rc: float, periods: Sequence[float]) -> float:
    """Factor by which the images of sources raise the mean square of an error.

    Images carry one density, so their errors add up before they are squared.

    - The prolate split's error has wavenumber K, its band. The modes fill a sphere, on which each
      component of k along an axis is equally frequent (Archimedes). The sum over the lattice is
      at most 1 + (2 pi / L) / (2 K) times the integral over k, for each periodic axis.
    - Hasimoto's error is a shell that begins at rc and is 1/K thick, K = 2 xi^2 rc. Its images add
      up where lines are tangent to it (one axis), in planes (two axes), everywhere (three axes):
      1 + sum ln(K rc) / (K L) + sum 4 pi rc / (K L L') + 8 pi rc^2 / (K L L' L''). The logarithm,
      which is 3 to 4, is taken as pi.

    Parameters
    ----------
    split : Split
    rc : float
        Cut-off of the near field.
    periods : sequence of float
        Periodic edges L.
    """
    if math.isfinite(split.band):
        return math.prod(1 + math.pi / (split.band * period) for period in periods)
    largest = 2 * math.pi * split.psi0**2 * rc
    factors = (largest, math.pi, 4 * math.pi * rc, 8 * math.pi * rc**2)
    return sum(
        factors[n] / (largest * math.prod(chosen))
        for n in range(len(periods) + 1)
        for chosen in itertools.combinations(periods, n)
    )


def near(
    term: str, split: Split, rc: float, volume: float, periods: Sequence[float] = ()
) -> Estimate:
    """Error of cutting the near field off at ``rc``.

    Hasimoto's split leaves out the pairs beyond rc: ``rms^2 = (1/V) int_{r > rc} |K(r)|^2 dr`` and
    ``peak = max_{r > rc} |K(r)|``, E^N of equation (10).  All of the prolate split's error
    is here, with the far field's cut at its band. It affects points themselves, and pairs far
    beyond rc: see `parki.ewald.split.prolate_error.pair_error`.

    Parameters
    ----------
    term : str
        A name in `parki.ewald.sums.TERMS`.
    split : Split
    rc : float
        Cut-off of the near field.
    volume : float
        Volume that the points fill.
    periods : sequence of float
        Periodic edges of the box: see `coherence`.
    """
    kind = term_of(term)
    split, rc = split.of_points(rc)
    images, (spread, worst) = math.sqrt(coherence(split, rc, periods)), split.enlarged(term, rc)
    if isinstance(split.bare, Prolate):
        pair = pair_error(term, split.bare.c)
        if isinstance(split, CortezSplit):
            more = split.remainder(term)
            pair = pair._replace(
                rms=math.hypot(pair.rms, more[0]), peak=math.hypot(pair.peak, more[1])
            )
        unit = split.amplitude * rc**-kind.power
        rms = spread * pair.rms * unit * math.sqrt(rc**3 / volume) * images
        # Images add at most three times the mean to a pair's own error.
        return Estimate(rms, math.hypot(worst * pair.peak * unit, 3 * rms), pair.itself * unit)
    r, weights, functions = _beyond(split, rc)
    square = kind.square(r**2, functions)
    total = 4 * np.pi * float(weights @ (r**2 * square)[1:])
    rms = spread * math.sqrt(total / volume) * images
    return Estimate(rms, max(worst * math.sqrt(square.max()), rms), 0.0)


@lru_cache(maxsize=8)
def _beyond(split: Split, rc: float) -> tuple[Array, Array, RadialTables]:
    """Distances from the cut-off on, weights but the first, and radial functions for all terms."""
    nodes, weights = decay(rc, np.sqrt(np.pi) * split.psi0, 2.0, 2 * split.screening)
    r = np.concatenate([[rc], rc + nodes])
    return r, weights, radial_functions(r, split.near(r))


def polynomial(term: str, rc: float, volume: float, delta: float, images: float = 1.0) -> Estimate:
    """Error of a near pair kernel with an error of at most ``delta`` inside ``rc``.

    Parameters
    ----------
    term : str
        A name in `parki.ewald.sums.TERMS`.
    rc, volume : float
        As for `near`.
    delta : float
        Tolerance of ``polynomial_degree``, in units of 1/rc to the power of the term.
    images : float
        See `coherence`: errors of polynomials are waves as short as the split's.
    """
    peak = float(delta / rc ** term_of(term).power)
    rms = peak * math.sqrt(4 * math.pi * rc**3 / (3 * volume) * images)
    return Estimate(rms, max(peak, rms), peak)


class WindowErrors:
    """Errors of windows, by sums over the modes of a grid that are computed once.

    Spreading adds to a mode k of the grid its images ``k + 2 pi m / h`` along each axis e, with the
    weight ``rho = w^(k + 2 pi m / h) / w^(k)``; so does gathering.  The window's gradient spreads
    the double layer (four grid components) and gathers gradients. It carries ``rho k + b e`` for k,
    with b as in `parki.ewald.split.window.images`. Its second derivative, of which tensor targets
    read parts, carries ``rho k_e^2 + c`` for k_e^2. The square of the double layer's symbol,
    averaged over the directions of q and n, is multiplied by

        ``rho^2 + ((8/7) rho b k_e + (6/7) b^2 - (2/7) b^2 k_e^2 / k^2) / k^2``

    in the spreading half, and by ``rho^2`` in the gathering half. Other terms have other parts:
    see `parki.ewald.sums.images`.
    E^w of equation (10).

    Parameters
    ----------
    terms : sequence of str
        Names in `parki.ewald.sums.TERMS`.
    split : Split
    lengths : sequence of 3 float
        Lengths of the grid's box, which the points are assumed to fill.  If they fill a part of it,
        ``rms`` grows by the square root of the ratio of the volumes.
    shape : sequence of 3 int
        Grid points along each axis.
    basis : ndarray, shape (3, 3), optional
        For a tilted box, whose transpose makes wave vectors of the grid's. Modes of all signs are
        averaged. Derivatives along the grid's axes stand for those along the box's.
    """

    def __init__(
        self,
        terms: Sequence[str],
        split: Split,
        lengths: Sequence[float],
        shape: Sequence[int],
        basis: Array | None = None,
    ) -> None:
        self.lengths, self.shape = lengths, shape
        rules = [_mode_rule(int(n)) for n in shape]
        self.waves = [2 * np.pi / length * r[0] for length, r in zip(lengths, rules, strict=True)]
        edges = list(zip(lengths, shape, strict=True))
        # The first axis equal to each one, whose sums are shared.
        self.twins = [edges.index(edge) for edge in edges]
        x, y, z = self.waves[0][:, None, None], self.waves[1][:, None], self.waves[2]
        squares = [x**2 + y**2 + z**2]
        if basis is not None:
            signed = [(sx * x, sy * y, z) for sx in (1, -1) for sy in (1, -1)]
            squares = [_length_square(waves, basis) for waves in signed]
        errors: dict[str, list[Array]] = {}
        orders = {term_of(t).order for t in terms}
        for square in squares:
            k2 = square + split.screening**2
            k2[0, 0, 0] = 1.0  # any number: the mean is left out
            gammas = {order: split.felt(order, k2) for order in orders}
            for term in terms:
                powers = _mode_powers(term, gammas[term_of(term).order], k2)
                before = errors.get(term, [0.0 * power for power in powers])
                share = 1 / len(squares)
                errors[term] = [a + share * b for a, b in zip(before, powers, strict=True)]
        self.profiles: dict[str, list[list[Array]]] = {}
        for term in terms:
            powers = errors[term]
            for power in powers:
                power[0, 0, 0] = 0.0
            weights = [rule[1] for rule in rules]
            self.profiles[term] = [_profiles(power, weights, self.twins) for power in powers]

    def aliasing(self, term: str, points: ArrayLike, beta_over_p: ArrayLike) -> tuple[Array, Array]:
        """Return ``rms, peak`` for all pairs of a number of points and a shape.

        Parameters
        ----------
        term : str
        points : array_like, shape (n,), int
            Numbers of window points P.
        beta_over_p : array_like, shape (m,)
            Kaiser-Bessel shapes, as multiples of P.

        Returns
        -------
        rms, peak : ndarray, shape (n, m), float64
            See the module; in ``peak`` all modes, images, axes and both halves add in phase.
        """
        windows = tuple(
            (int(p), float(q) * int(p)) for p in np.ravel(points) for q in np.ravel(beta_over_p)
        )
        mean_square = np.zeros(len(windows))
        peak = np.zeros(len(windows))
        for axis in set(self.twins):
            step = self.lengths[axis] / self.shape[axis]
            sums = [profile[axis] for profile in self.profiles[term]]
            image = _images(int(self.shape[axis]), windows)
            for half in (term_of(term).spread, term_of(term).gather):
                square, size = _half_sums(half, self.waves[axis], step, image, sums)
                mean_square += self.twins.count(axis) * square
                peak += self.twins.count(axis) * size
        form = (np.size(points), np.size(beta_over_p))
        volume = float(np.prod(self.lengths))
        return np.sqrt(mean_square).reshape(form) / volume, peak.reshape(form) / volume


def _length_square(waves: Sequence[Array], basis: Array) -> Array:
    """Return the squares of wave vectors of a tilted box, of the grid's wavenumbers."""
    rows = basis.T.tolist()
    along = [sum(w * k for w, k in zip(row, waves, strict=True)) for row in rows]
    return np.asarray(sum(each**2 for each in along))


def _mode_powers(term: str, gamma: Array, k2: Array) -> list[Array]:
    """Functions of the mode whose sums across an axis `_half_sums` takes: squares and sizes.

    Squares are over 1, k^2, k^4 ..., as far as parts of images take them, and sizes over k as well.
    """
    kind = term_of(term)
    size = symbol_size(term, gamma, k2)
    most = max((part.over for part in (*kind.spread, *kind.gather)), default=0)
    squares, sizes = [size**2], [size * np.sqrt(k2)] if most else [size]
    for powers in (squares, sizes):
        for _ in range(most):
            powers.append(powers[-1] / k2)
    return [*squares, *sizes, *[size] * bool(most)]


def _half_sums(
    half: ImageParts, k: Array, step: float, image: ModeImages, sums: list[Array]
) -> tuple[Array, Array]:
    """Spreading or gathering along one axis, by window: sums of squares and of sizes."""
    if not half:
        return image.rho_square @ sums[0], image.rho_size @ sums[-1]
    powers = len(sums) // 2
    by_square, by_size = sums[:powers], sums[powers:]
    signed = {"r": image.rho, "b": image.slope / step, "c": image.curvature / step**2}
    totals = {"bb": image.slope_square / step**2, "cc": image.curvature_square / step**4}
    rest = {"bb": image.slope_rest / step, "cc": image.curvature_rest / step**2}
    # Sizes are u sqrt(v), v their square in units of u: sums of u v bound them (Cauchy-Schwarz).
    u = by_size[1]
    squares, v = image.rho_square @ by_square[0], image.rho**2 * by_size[0]
    for part in half:
        (factor, pair, power), n = part, part.over
        product = signed[pair[0]] * signed[pair[1]]
        total = totals[pair] if pair in totals else product.sum(axis=0)
        squares = squares + (factor * total * k**power) @ by_square[n]
        v = v + factor * product * k**power * by_size[n]
    sizes = np.sqrt(u * np.maximum(v, 0.0)).sum(axis=(0, 2))
    for pair, far in rest.items():
        most = sum(max(part.factor, 0.0) for part in half if part.pair == pair)
        if most:
            sizes = sizes + far @ (math.sqrt(most) * np.sqrt(u * by_size["bc".index(pair[0]) + 1]))
    return squares, sizes


def _profiles(values: Array, weights: list[Array], twins: list[int]) -> list[Array]:
    """For each axis, its weights times the sums over the modes of the other two axes."""
    rows = values @ weights[2]
    totals = [rows @ weights[1]]
    totals.append(weights[0] @ rows if twins[1] == 1 else totals[0])
    if twins[2] == 2:
        totals.append(weights[1] @ np.tensordot(weights[0], values, 1))
    else:
        totals.append(totals[twins[2]])
    return [w * total for w, total in zip(weights, totals, strict=True)]


@lru_cache(maxsize=512)
def _mode_rule(count: int) -> tuple[Array, Array]:
    """Mode indices n >= 0 and weights that sum an even function over the modes of one axis.

    Small grids are summed exactly.  On large grids the lowest modes, where the symbols are steep,
    and the highest modes, where the images are, stay exact. A Gauss rule takes the modes between,
    so that the cost does not grow with the grid.
    """
    last = count // 2
    few = last < _LOW + _GAUSS + _HIGH
    modes = np.arange(last + 1.0) if few else np.append(range(_LOW), last - np.arange(_HIGH)[::-1])
    weights = np.where((modes == 0) | (modes == count / 2), 1.0, 2.0)
    if few:
        return modes, weights
    x, w = gauss(_GAUSS)
    start, width = _LOW - 0.5, last + 1 - _LOW - _HIGH
    u = (x + 1) / 2  # squared below, so that nodes crowd towards the low modes
    return (
        np.concatenate([modes[:_LOW], start + width * u**2, modes[_LOW:]]),
        np.concatenate([weights[:_LOW], 2 * width * u * w, weights[_LOW:]]),
    )


@lru_cache(maxsize=256)
def _images(count: int, windows: tuple[tuple[int, float], ...]) -> ModeImages:
    """Images of the modes of `_mode_rule`; cached, as a search over xi and grids repeats them."""
    return images(2 * np.pi / count * _mode_rule(count)[0], windows)


def symbol_size(term: str, gamma: Array, k2: Array) -> Array:
    """Size of the far field's symbol, averaged over the directions of the density."""
    return np.asarray(_strength(term_of(term)) * gamma * k2 ** ((term_of(term).power - 3) / 2))


@lru_cache(maxsize=256)
def _strength(term: ErrorTerm) -> float:
    """Size of the symbol for gamma = k = 1.

    A wave is plane far from its source, and only its highest derivative counts there. The pair
    kernel of this derivative alone has the symbol's size.
    """
    highest = np.eye(6)[term.power + term.order - 2]
    size = float(term.square(np.ones(()), radial_functions(np.ones(()), highest)))
    return 4 * math.pi * term.order * math.sqrt(size)


def decay(start: float, scale: float, rate: float, fall: float = 0.0) -> tuple[Array, Array]:
    """Gauss rule for integrals over t >= 0 of ``exp(-rate scale^2 (start + t)^2)`` times powers.

    ``fall`` is the rate of another factor, ``exp(-fall t)``.
    """
    x, w = legendre()
    length = np.sqrt(start**2 + EXPONENT / (rate * scale**2)) - start
    if fall:
        length = min(length, EXPONENT / fall)
    return length * x, length * w


@lru_cache(maxsize=1)
def legendre() -> tuple[Array, Array]:
    """Gauss-Legendre rule on [0, 1]."""
    x, w = gauss(20)
    return (x + 1) / 2, w / 2
