r"""Slow, accurate sums to test the solver against; nothing here is shared with it.

The kernels, with r = target - source (no viscosity and no factor 8 pi; see :func:`direct_sum`)::

    laplace      phi = q / |r|
    stokes_sl    u   = f / |r| + r (r.f) / |r|^3
    stokes_dl    u   = -6 r (r.q) (r.n) / |r|^5
    stokes_comb  both of the Stokes kernels

In free space (periodicity 0) the sum is formed as it stands. Otherwise it is split as Hasimoto
does, with psi(r) = xi/sqrt(pi) exp(-xi^2 r^2) and b(r) = r - B(r), B'' = 2 psi:

* The *near* part adds the pairs, with all their images, closer than ``_CUT / xi``.
* The *far* part is a Fourier series in the periodic directions and a trapezoidal rule in the free
  ones, where the kernel is cut off at a radius that no pair reaches: the rule then converges
  spectrally, and the zero mode needs no special functions of each pair. No grid, window or FFT:
  sources enter through products of one function per direction, cos and sin along periodic
  directions and Chebyshev polynomials along free ones (Jacobi-Anger expansion of exp(-iky)), which
  makes the far part a few matrix products.

Both are cut off at exp(-6.3^2) = 6e-18, so the result is good to about 1e-14 of its rms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc, j0, j1, jv, k0, k1

__all__ = ["direct_sum"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

_CUT = 6.3  # xi r and k / (2 xi) at the two cut-offs: exp(-_CUT**2) = 5.8e-18
_REACH = 6.6  # xi r over which the edge of a cut-off kernel is felt: more than _CUT, for its jumps
_TARGETS, _SOURCES = 16, 4096  # block of the near sum: small temporaries, short running sums
_DOUBLES = 4_000_000  # largest temporary of the far sum

# Rows of the density, and the moments that the far field needs: f; q n^T symmetrised; both.
_ROWS = {"laplace": 1, "stokes_sl": 3, "stokes_dl": 3, "stokes_comb": 6}
_MOMENTS = {"laplace": 1, "stokes_sl": 3, "stokes_dl": 6, "stokes_comb": 9}
_SYMMETRIC = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


def direct_sum(
    kernel: str,
    trg: ArrayLike,
    src: ArrayLike,
    dens: ArrayLike,
    norms: ArrayLike | None = None,
    *,
    box: Sequence[float] | Array,
    periodicity: int,
    xi: float | None = None,
) -> Array:
    """Sum a kernel over all sources and their periodic images, to about 1e-14 of the rms.

    Nothing is scaled: the physical velocity is the single layer over 8 pi mu, and the double layer
    over 8 pi when its density is a velocity. Pairs (or images) closer than 1e-14 times the longest
    side are skipped.

    Where a sum over images does not converge by itself, the constant is fixed so: 3-periodic, the
    potential has zero mean over the cell (a uniform background neutralises the Laplace charges);
    2-periodic, the part constant in the plane is -4 pi |z| f / A (in-plane components),
    -2 pi |z| q / A (Laplace), and odd in z for the double layer; 1-periodic, the part constant
    along the axis is that of the two-dimensional biharmonic -rho^2 ln rho, -2 q ln(rho) / L
    (Laplace), with rho in the length unit of ``box``.

    Parameters
    ----------
    kernel : {"laplace", "stokes_sl", "stokes_dl", "stokes_comb"}
        What to sum.
    trg, src : array_like, shape (3, Nt) and (3, Ns)
        Points, anywhere (also outside of the box), in the length unit of ``box``.
    dens : array_like, shape (Ns,), (3, Ns) or (6, Ns)
        Charges (Laplace); f or q; rows 0:3 f of the single layer and 3:6 q of the double layer.
    norms : array_like, shape (3, Ns), optional
        Normals of the double layer; any length. Needed by ``stokes_dl`` and ``stokes_comb`` only.
    box : sequence of 3 floats
        Side lengths. Those of free directions matter only for what counts as a coinciding pair.
    periodicity : {0, 1, 2, 3}
        How many directions, the first ones, are periodic.
    xi : float, optional
        Split parameter, an inverse length; by default the one that costs least. The result does not
        depend on it. Without effect if ``periodicity`` is 0, as nothing is split there.

    Returns
    -------
    ndarray, shape (Nt,) or (3, Nt), float64
        Potential or velocity at the targets.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range.
    """
    points, moments = _checked(kernel, trg, src, dens, norms, box, periodicity, xi)
    if periodicity == 0:
        split = _Split(kernel, points, periodicity, 0.0)
    elif xi is not None:
        split = _Split(kernel, points, periodicity, float(xi))
    else:
        split = _cheapest_split(kernel, points, periodicity)

    result = _near(split, moments)
    if periodicity > 0 and points.src.shape[1] > 0:
        result += _far(split, moments)
    return result[0] if kernel == "laplace" else result


# --- arguments ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Points:
    """Targets (3, Nt), sources (3, Ns) and the box, all float64."""

    trg: Array
    src: Array
    box: Array

    @cached_property
    def intervals(self) -> list[tuple[float, float]]:
        """Return middle and half length of the interval that all points fill, along each axis."""
        both = np.concatenate([self.trg, self.src], axis=1)
        if both.shape[1] == 0:
            return 3 * [(0.0, 0.0)]
        ends = zip(both.min(axis=1).tolist(), both.max(axis=1).tolist(), strict=True)
        return [(0.5 * (low + high), 0.5 * (high - low)) for low, high in ends]


@dataclass(frozen=True)
class _Moments:
    """Densities by role: f (1 or 3, Ns) or None; q and n (3, Ns) or None."""

    f: Array | None
    q: Array | None
    n: Array | None

    def stacked(self) -> Array:
        """Return f, then the six distinct entries of (q n^T + n q^T) / 2: shape (moments, Ns)."""
        rows: list[Array] = [] if self.f is None else list(self.f)
        if self.q is not None and self.n is not None:
            q, n = self.q, self.n
            rows += [0.5 * (q[j] * n[m] + q[m] * n[j]) for j, m in _SYMMETRIC]
        return np.stack(rows)


def _checked(
    kernel: str,
    trg: ArrayLike,
    src: ArrayLike,
    dens: ArrayLike,
    norms: ArrayLike | None,
    box: Sequence[float] | Array,
    periodicity: int,
    xi: float | None,
) -> tuple[_Points, _Moments]:
    """Validate the arguments of :func:`direct_sum` and bring them into one shape."""
    if kernel not in _ROWS:
        raise ValueError(f"kernel is {kernel!r}, expected one of {', '.join(map(repr, _ROWS))}")
    if periodicity not in (0, 1, 2, 3):
        raise ValueError(f"periodicity is {periodicity!r}, expected 0, 1, 2 or 3")
    if xi is not None and not 0.0 < xi < np.inf:
        raise ValueError(f"xi is {xi!r}, expected a positive number or None")
    sides = np.asarray(box, dtype=np.float64)
    if sides.shape != (3,) or not np.all((sides > 0) & np.isfinite(sides)):
        raise ValueError(f"box is {box!r}, expected three positive lengths")
    targets, sources = _matrix("trg", trg, 3), _matrix("src", src, 3)
    count = sources.shape[1]
    density = np.asarray(dens, dtype=np.float64)
    if kernel == "laplace" and density.ndim == 1:
        density = density[None, :]
    density = _matrix("dens", density, _ROWS[kernel], count)
    points = _Points(targets, sources, sides)
    if kernel in ("laplace", "stokes_sl"):
        return points, _Moments(density, None, None)
    if norms is None:
        raise ValueError(f"{kernel} needs norms, an array of shape (3, {count})")
    normals = _matrix("norms", norms, 3, count)
    if kernel == "stokes_dl":
        return points, _Moments(None, density, normals)
    return points, _Moments(density[:3], density[3:], normals)


def _matrix(name: str, values: ArrayLike, rows: int, columns: int | None = None) -> Array:
    """Return a float64 copy of ``values`` if its shape is (rows, columns), columns None for any."""
    array = np.array(values, dtype=np.float64, order="C")
    if array.ndim != 2 or array.shape[0] != rows or columns not in (None, array.shape[1]):
        expected = "N" if columns is None else columns
        raise ValueError(f"{name} has shape {array.shape}, expected ({rows}, {expected})")
    return array


# --- the split parameter --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Split:
    """The kernel and the geometry with a split parameter, and the sizes that follow from it."""

    kernel: str
    points: _Points
    periodicity: int
    xi: float

    @property
    def near_cutoff(self) -> float:
        """Radius of the near sum."""
        return _CUT / self.xi if self.xi > 0 else np.inf

    @property
    def far_cutoff(self) -> float:
        """Largest wavenumber of the far sum, along each axis."""
        return 2 * _CUT * self.xi

    def truncation_radius(self) -> float:
        """Return the radius at which the kernel is cut off in the free directions.

        It lies beyond every pair plus the reach of the mollifier.
        """
        extents = [2 * self.points.intervals[axis][1] for axis in range(self.periodicity, 3)]
        return float(np.hypot.reduce(extents)) + _REACH / self.xi

    def period(self, axis: int) -> float:
        """Return the length over which the far field repeats: the box's, or one too long to see."""
        if axis < self.periodicity:
            return float(self.points.box[axis])
        return 2 * self.points.intervals[axis][1] + self.truncation_radius() + _REACH / self.xi

    def modes(self, axis: int) -> int:
        """Return the number of modes kept on either side of zero."""
        return int(np.ceil(self.far_cutoff * self.period(axis) / (2 * np.pi)))

    def functions(self, axis: int) -> int:
        """Return the number of basis functions of an axis: cos and sin, or Chebyshev."""
        if axis < self.periodicity:
            return 2 * self.modes(axis) + 1
        # J_p(z) < 1e-18 beyond this order, for every z up to the largest.
        largest = self.modes(axis) * 2 * np.pi / self.period(axis) * self.points.intervals[axis][1]
        orders = np.arange(int(largest + 12 * largest ** (1 / 3)) + 30)
        visible = np.abs(jv(orders, largest)) > 1e-18
        return int(np.flatnonzero(visible)[-1]) + 1

    def image_range(self, axis: int) -> int:
        """Return how many images on either side of the nearest one the near sum may reach."""
        if axis >= self.periodicity:
            return 0
        return int(self.near_cutoff / float(self.points.box[axis]) + 0.5)

    def seconds(self) -> float:
        """Estimate the time on two cores, to choose xi: 50 GFLOP/s, 30 to 120 ns a near pair."""
        targets, sources = self.points.trg.shape[1], self.points.src.shape[1]
        moments = _MOMENTS[self.kernel]
        images, functions, modes = 1.0, 1.0, 1.0
        around, inside = 1.0, 1.0  # images per pair in the cube around the ball, and seen there
        for axis in range(3):
            images *= 2 * self.image_range(axis) + 1
            functions *= self.functions(axis)
            modes *= 2 * self.modes(axis) + 1
            extent = 2 * self.points.intervals[axis][1]
            if axis < self.periodicity:
                share = 2 * self.near_cutoff / float(self.points.box[axis])
                around, inside = around * share, inside * share
            elif extent > 0:
                share = 2 * self.near_cutoff / extent
                around, inside = around * share, inside * min(share, 1.0)
        pairs = min(np.pi / 6 * around, inside, images)
        near = targets * sources * (4e-8 + 2e-9 * images + (2e-8 + 1.1e-8 * moments) * pairs)
        far = functions * (4e-11 * moments * sources + 1.2e-10 * targets)
        return float(near + far + 3e-8 * moments * modes)


def _cheapest_split(kernel: str, points: _Points, periodicity: int) -> _Split:
    """Try cut-offs of the near sum from an eighth of the longest period to 32 times it."""
    longest = float(points.box[:periodicity].max())
    cutoffs = longest * np.geomspace(0.125, 32.0, 33)
    splits = [_Split(kernel, points, periodicity, _CUT / cutoff) for cutoff in cutoffs]
    return min(splits, key=_Split.seconds)


# --- near part ------------------------------------------------------------------------------------


def _near(split: _Split, moments: _Moments) -> Array:
    """Sum the near part of all pairs: shape (1 or 3, Nt)."""
    points, xi = split.points, split.xi
    count, total = points.trg.shape[1], points.src.shape[1]
    rows = 1 if split.kernel == "laplace" else 3
    result = np.zeros((rows, count))
    images = [
        shift
        for shift in itertools.product(
            *(range(-split.image_range(a), split.image_range(a) + 1) for a in range(3))
        )
        if _closest(shift, points.box) < split.near_cutoff
    ]
    coincide = (1e-14 * float(points.box.max())) ** 2
    cutoff2 = split.near_cutoff**2
    for t0, s0 in itertools.product(range(0, count, _TARGETS), range(0, total, _SOURCES)):
        trg, src = slice(t0, t0 + _TARGETS), slice(s0, s0 + _SOURCES)
        offsets = [_difference(split, axis, trg, src) for axis in range(3)]
        shape = offsets[0].shape
        # One displacement and its square for each axis and shift, shared by all the images.
        along = [
            {n: offsets[a] - n * points.box[a] for n in {shift[a] for shift in images}}
            for a in range(3)
        ]
        square = [{n: d * d for n, d in shifts.items()} for shifts in along]
        for shift in images:
            r2 = square[0][shift[0]] + square[1][shift[1]] + square[2][shift[2]]
            pair = np.flatnonzero(r2 < cutoff2)
            if pair.size == 0:
                continue
            r = np.stack([along[a][shift[a]].take(pair) for a in range(3)])
            target = pair // shape[1]
            source = pair - (target * shape[1] - s0)
            values = _pair_values(moments, r, r2.take(pair), source, xi, coincide)
            for row in range(rows):
                result[row, trg] += np.bincount(target, values[row], shape[0])
    return result


def _closest(shift: tuple[int, ...], box: Array) -> float:
    """Return a lower bound for the length of a nearest-image displacement moved by ``shift``."""
    gaps = [max(abs(n) - 0.5, 0.0) * float(side) for n, side in zip(shift, box, strict=True)]
    return float(np.hypot.reduce(gaps))


def _difference(split: _Split, axis: int, trg: slice, src: slice) -> Array:
    """Target minus nearest image of the source along one axis, shape (targets, sources).

    The period is taken from whichever of the two is the larger, which is exact for points of the
    box; from their rounded difference it would not be.
    """
    x, y = split.points.trg[axis, trg, None], split.points.src[axis, None, src]
    if axis >= split.periodicity:
        return x - y
    side = float(split.points.box[axis])
    turns = np.rint((x - y) / side)
    return np.asarray((x - np.maximum(turns, 0) * side) - (y + np.minimum(turns, 0) * side))


def _pair_values(
    moments: _Moments, r: Array, r2: Array, source: NDArray[np.intp], xi: float, coincide: float
) -> Array:
    """Near kernel times density, shape (1 or 3, pairs); ``xi`` 0 gives the kernel unsplit."""
    same = r2 < coincide
    r2 = np.where(same, 1.0, r2)
    inverse = 1 / np.sqrt(r2)
    rest = erfc(xi * r2 * inverse) * inverse if xi > 0 else inverse
    gauss = 2 * xi / np.sqrt(np.pi) * np.exp(-(xi**2) * r2) if xi > 0 else np.zeros_like(r2)
    inverse2 = inverse * inverse
    if moments.f is not None and moments.f.shape[0] == 1:
        rest[same] = -2 * xi / np.sqrt(np.pi)
        return np.asarray(rest * moments.f[0].take(source))[None, :]
    values = np.zeros_like(r)
    if moments.f is not None:
        f = moments.f.take(source, axis=1)
        a, b = rest - gauss, (rest + gauss) * inverse2
        a[same], b[same] = -4 * xi / np.sqrt(np.pi), 0.0
        values += a * f + (b * _dot(f, r)) * r
    if moments.q is not None and moments.n is not None:
        q, n = moments.q.take(source, axis=1), moments.n.take(source, axis=1)
        c = 2 * xi**2 * gauss
        d = -(6 * (rest + gauss) * inverse2 + 4 * xi**2 * gauss) * inverse2
        c[same], d[same] = 0.0, 0.0
        qr, nr = _dot(q, r), _dot(n, r)
        values += (c * _dot(q, n) + d * qr * nr) * r + (c * nr) * q + (c * qr) * n
    return values


def _dot(a: Array, b: Array) -> Array:
    """Return the scalar products of two arrays of vectors, (3, N) each."""
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


# --- far part -------------------------------------------------------------------------------------


def _far(split: _Split, moments: _Moments) -> Array:
    """Sum the far part: shape (1 or 3, Nt)."""
    weights = moments.stacked()
    spectrum = _project(split, weights)
    field = _multiply(split, spectrum)
    result = _evaluate(split, field)
    return result + _constant(split, moments)[:, None]


def _basis(split: _Split, axis: int, x: Array) -> Array:
    """Values of the basis functions of one axis at coordinates (N,): shape (functions, N).

    Periodic: 1, cos 1, ..., cos m, sin 1, ..., sin m, of 2 pi x / L. Free: T_0, T_1, ...
    """
    if axis < split.periodicity:
        turns = x / split.period(axis)
        angle = 2 * np.pi * (turns - np.rint(turns))
        order = np.arange(1, split.modes(axis) + 1)[:, None]
        return np.concatenate([np.ones((1, x.size)), np.cos(order * angle), np.sin(order * angle)])
    middle, half = split.points.intervals[axis]
    scaled = np.clip((x - middle) / half, -1, 1) if half > 0 else np.zeros_like(x)
    return np.asarray(np.cos(np.arange(split.functions(axis))[:, None] * np.arccos(scaled)))


def _wavenumbers(split: _Split, axis: int) -> Array:
    """Wavenumbers of an axis, from -modes to modes."""
    m = split.modes(axis)
    return np.asarray(2 * np.pi / split.period(axis) * np.arange(-m, m + 1))


def _exponentials(split: _Split, axis: int) -> Complex:
    """Coefficients of exp(-i k x) in the basis of an axis: shape (modes, functions).

    Free axes, with x from the middle: exp(-i z t) = J_0(z) + 2 sum_p (-i)^p J_p(z) T_p(t).
    """
    m, count = split.modes(axis), split.functions(axis)
    if axis < split.periodicity:
        table = np.zeros((2 * m + 1, count), dtype=np.complex128)
        n = np.arange(-m, m + 1)
        table[n + m, np.abs(n)] = 1
        table[n[n != 0] + m, m + np.abs(n[n != 0])] = -1j * np.sign(n[n != 0])
        return table
    order = np.arange(count)
    argument = _wavenumbers(split, axis) * split.points.intervals[axis][1]
    bessel = jv(order[None, :], argument[:, None])
    bessel[np.abs(bessel) < 1e-30] = 0  # subnormal numbers would slow the products down
    factor = np.where(order == 0, 1, 2) * np.array([1, -1j, -1, 1j])[order % 4]
    return np.asarray(bessel * factor, dtype=np.complex128)


def _blocks(split: _Split, rows: int, count: int) -> Iterator[slice]:
    """Slices of ``count`` points for which ``rows`` functions of axis 0, and axes 1 x 2, fit."""
    first, second, third = (split.functions(axis) for axis in range(3))
    size = max(1, _DOUBLES // (rows * first + second * third))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _plane(split: _Split, points: Array) -> Array:
    """Products of the basis functions of axes 1 and 2: shape (functions 1 x functions 2, N)."""
    second, third = _basis(split, 1, points[1]), _basis(split, 2, points[2])
    return np.asarray(second[:, None, :] * third[None, :, :]).reshape(-1, points.shape[1])


def _project(split: _Split, weights: Array) -> Array:
    """Weighted sums of all products of basis functions over the sources.

    ``weights`` has shape (moments, Ns), the result (moments, functions 0, 1, 2).
    """
    shape = tuple(split.functions(axis) for axis in range(3))
    total = np.zeros((weights.shape[0] * shape[0], shape[1] * shape[2]))
    for block in _blocks(split, weights.shape[0], weights.shape[1]):
        points = split.points.src[:, block]
        rows = weights[:, None, block] * _basis(split, 0, points[0])[None, :, :]
        total += rows.reshape(total.shape[0], -1) @ _plane(split, points).T
    return total.reshape(weights.shape[0], *shape)


def _evaluate(split: _Split, field: Array) -> Array:
    """Evaluate coefficients (components, functions 0, 1, 2) at the targets: (components, Nt)."""
    components, first = field.shape[:2]
    matrix = field.reshape(components * first, -1)
    result = np.empty((components, split.points.trg.shape[1]))
    for block in _blocks(split, components, result.shape[1]):
        points = split.points.trg[:, block]
        rows = (matrix @ _plane(split, points)).reshape(components, first, -1)
        result[:, block] = np.einsum("cat,at->ct", rows, _basis(split, 0, points[0]))
    return result


def _multiply(split: _Split, spectrum: Array) -> Array:
    """Apply the far kernel to the projections of the sources; return the potential's coefficients.

    One wavenumber of axis 0 (which is periodic) at a time, and not the negative ones, as the
    potential is real: spectrum (moments, functions 0, 1, 2) to (1 or 3, functions 0, 1, 2).
    """
    m = split.modes(0)
    second, third = _exponentials(split, 1), _exponentials(split, 2)
    components = 1 if split.kernel == "laplace" else 3
    field = np.zeros((components, *spectrum.shape[1:]))
    for n in range(m + 1):
        planes = spectrum[:, n].astype(np.complex128)
        if n > 0:
            planes.imag = -spectrum[:, m + n]
        potential = _potential(split, n, _change(planes, second, third))
        planes = _change(potential, second.conj().T, third.conj().T) * (2 if n > 0 else 1)
        field[:, n] = planes.real
        if n > 0:
            field[:, m + n] = -planes.imag
    return field


def _change(planes: Complex, second: Complex, third: Complex) -> Complex:
    """Multiply planes (count, b, c) by second (b', b) and third (c', c): shape (count, b', c')."""
    rows = np.tensordot(planes, third, axes=(2, 1))  # each a single matrix product
    return np.asarray(np.tensordot(second, rows, axes=(1, 1)).transpose(1, 0, 2))


def _potential(split: _Split, n: int, moments: Complex) -> Complex:
    """Multiply moments (moments, modes 1, modes 2) of mode n along axis 0 by the kernel's symbol.

    With A = f + i (S + S^T) k and D = tr S, S the moments of q n^T, the velocity is
    gamma [ H A - k (k.A) M + i k H D ], where H = k^2 M = 8 pi / k^2 but for the cut-off.
    """
    k = [
        np.full((1, 1), n * 2 * np.pi / split.period(0)),
        _wavenumbers(split, 1)[:, None],
        _wavenumbers(split, 2)[None, :],
    ]
    k2 = k[0] ** 2 + k[1] ** 2 + k[2] ** 2
    half, harmonic, biharmonic = _symbols(split, k, k2)
    volume = split.period(0) * split.period(1) * split.period(2)
    damping = k2 / (4 * split.xi**2)
    if split.kernel == "laplace":
        return np.asarray(moments * (half * np.exp(-damping) / volume))
    gamma = (1 + damping) * np.exp(-damping) / volume
    size = moments.shape[1:]
    flow = np.zeros((3, *size), dtype=np.complex128)
    if split.kernel != "stokes_dl":
        flow += moments[:3]
    trace = np.zeros(size, dtype=np.complex128)
    if split.kernel != "stokes_sl":
        entries = dict(zip(_SYMMETRIC, moments[-6:], strict=True))
        for j in range(3):
            trace += entries[j, j]
            for l in range(3):  # noqa: E741
                flow[j] += 2j * k[l] * entries[min(j, l), max(j, l)]
    if n == 0 and split.periodicity == 2:  # H does not vanish with k, nor does k k.A / k^2 vanish
        flow[2, split.modes(1), split.modes(2)] = 0
    along = k[0] * flow[0] + k[1] * flow[1] + k[2] * flow[2]
    along *= biharmonic
    rows = [harmonic * (flow[j] + 1j * k[j] * trace) - k[j] * along for j in range(3)]
    return np.stack([gamma * row for row in rows])


def _symbols(split: _Split, k: list[Array], k2: Array) -> tuple[Array, Array, Array]:
    """Symbols of 1/r, of the Laplacian of r and of minus r, cut off in the free directions.

    Each of shape (modes 1, modes 2), for one mode of axis 0. Where all wavenumbers of the periodic
    axes vanish, the kernels are those of one or two dimensions, whose constants `_constant` mends.
    """
    shape = (k[1].size, k[2].size)
    k2 = np.broadcast_to(k2, shape)
    if split.periodicity == 3:
        inverse = np.divide(1.0, k2, out=np.zeros(shape), where=k2 > 0)
        return 4 * np.pi * inverse, 8 * np.pi * inverse, 8 * np.pi * inverse**2
    if split.periodicity == 2:
        return _cut_off_2p(np.broadcast_to(np.hypot(k[0], k[1]), shape), k[2], k2, split)
    return _cut_off_1p(float(k[0][0, 0]), np.broadcast_to(np.hypot(k[1], k[2]), shape), k2, split)


def _cut_off_2p(along: Array, free: Array, k2: Array, split: _Split) -> tuple[Array, Array, Array]:
    """Symbols for one free direction, cut off at |z| = R.

    ``along`` is the wavenumber in the plane. Where it vanishes the kernels are -2 pi (|z| - R) and
    the same twice.
    """
    radius = split.truncation_radius()
    zero = along == 0
    kp = np.where(zero, 1.0, along)
    square = np.where(k2 == 0, 1.0, k2)
    edge, cos, sin = np.exp(-kp * radius), np.cos(free * radius), np.sin(free * radius)
    plain = 1 - edge * (cos - free / kp * sin)
    slope = edge / (2 * kp * square) * (radius * (cos - free * sin / kp) - free * sin / kp**2)
    harmonic = np.where(zero, (1 - cos), plain) / square
    harmonic = np.where(k2 == 0, 0.5 * radius**2, harmonic)
    biharmonic = np.where(zero, harmonic / square, plain / square**2 - slope)
    biharmonic = np.where(k2 == 0, 0.0, biharmonic)  # only multiplies k (k.A), which vanishes
    laplacian = np.where(zero, harmonic, k2 * biharmonic)
    return 4 * np.pi * harmonic, 8 * np.pi * laplacian, 8 * np.pi * biharmonic


def _cut_off_1p(along: float, free: Array, k2: Array, split: _Split) -> tuple[Array, Array, Array]:
    """Symbols for two free directions, cut off at rho = R.

    Mode zero along the axis: -2 ln(rho / R) and -rho^2 (ln(rho / R) - 1/2) - R^2 / 2.
    """
    radius = split.truncation_radius()
    x, z = free * radius, along * radius
    square = np.where(k2 == 0, 1.0, k2)
    if along == 0:
        harmonic = (1 - j0(x)) / square
        biharmonic = (harmonic - radius * j1(x) / (2 * np.sqrt(square))) / square
        harmonic = np.where(k2 == 0, radius**2 / 4, harmonic)
        biharmonic = np.where(k2 == 0, radius**4 / 64, biharmonic)
    else:
        plain = 1 + x * j1(x) * k0(z) - z * j0(x) * k1(z)
        slope = radius**2 / (2 * along * square) * (along * j0(x) * k0(z) - free * j1(x) * k1(z))
        harmonic, biharmonic = plain / square, plain / square**2 - slope
    return 4 * np.pi * harmonic, 8 * np.pi * k2 * biharmonic, 8 * np.pi * biharmonic


def _constant(split: _Split, moments: _Moments) -> Array:
    """Constant that brings the far field to the gauge of :func:`direct_sum`: shape (1 or 3,).

    It undoes what cutting off at R added, or (3-periodic, Laplace) is the neutralising background.
    The double layer needs none.
    """
    components = 1 if split.kernel == "laplace" else 3
    total = np.zeros(components) if moments.f is None else moments.f.sum(axis=1)
    box, periodicity = split.points.box, split.periodicity
    if split.kernel == "laplace":
        if periodicity == 3:
            return np.asarray(-np.pi / split.xi**2 / np.prod(box) * total)
        if periodicity == 2:
            return np.asarray(-2 * np.pi * split.truncation_radius() / (box[0] * box[1]) * total)
        return np.asarray(-2 * np.log(split.truncation_radius()) / box[0] * total)
    if periodicity == 3:
        return np.zeros(3)
    if periodicity == 2:
        factor = -4 * np.pi * split.truncation_radius() / (box[0] * box[1])
        return np.asarray(factor * np.array([1.0, 1.0, 0.0]) * total)
    factor = -(np.log(split.truncation_radius()) + 0.5) / box[0]
    return np.asarray(factor * np.array([4.0, 2.0, 2.0]) * total)
