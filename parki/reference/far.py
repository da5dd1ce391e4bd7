"""The far part of `parki.reference`: Fourier sums without grid, window or FFT."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy.special import j0, j1, jv, k0, k1

from parki.reference import screened
from parki.reference.split import Array, Complex, Moments, ReferenceSplit

_DOUBLES = 4_000_000  # largest temporary


def far(split: ReferenceSplit, moments: Moments) -> Array:
    """Sum the far part: shape (rows of all fields, Nt)."""
    spectrum = _project(split, moments.stacked())
    result = _evaluate(split, _multiply(split, spectrum))
    if "u" in split.fields:
        constant = _constant(split, moments)
        result[: constant.size] += constant[:, None]  # u has the first rows
    return result


def _basis(split: ReferenceSplit, axis: int, x: Array) -> Array:
    """Evaluate the basis functions of one axis at coordinates (N,): shape (functions, N).

    They are 1, cos t, ..., cos m t, sin t, ..., sin m t with t = 2 pi x / L, or T_0, T_1, ...
    """
    if axis < split.periodicity:
        wraps = x / split.period(axis)
        angle = 2 * np.pi * (wraps - np.rint(wraps))
        order = np.arange(1, split.modes(axis) + 1)[:, None]
        return np.concatenate([np.ones((1, x.size)), np.cos(order * angle), np.sin(order * angle)])
    middle, half = split.points.intervals[axis]
    scaled = np.clip((x - middle) / half, -1, 1) if half > 0 else np.zeros_like(x)
    return np.asarray(np.cos(np.arange(split.functions(axis))[:, None] * np.arccos(scaled)))


def _wavenumbers(split: ReferenceSplit, axis: int) -> Array:
    """Wavenumbers of an axis, from -modes to modes."""
    m = split.modes(axis)
    return np.asarray(2 * np.pi / split.period(axis) * np.arange(-m, m + 1))


def _exponentials(split: ReferenceSplit, axis: int) -> Complex:
    """Coefficients of exp(-i k x) in the basis of an axis: shape (modes, functions).

    On free axes, x counts from the middle and exp(-i z t) = J_0(z) + 2 sum_p (-i)^p J_p(z) T_p(t).
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


def _blocks(split: ReferenceSplit, rows: int, count: int) -> Iterator[slice]:
    """Slices of ``count`` points for which ``rows`` functions of axis 0, and axes 1 x 2, fit."""
    first, second, third = (split.functions(axis) for axis in range(3))
    size = max(1, _DOUBLES // (rows * first + second * third))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _plane(split: ReferenceSplit, points: Array) -> Array:
    """Products of the basis functions of axes 1 and 2: shape (functions 1 x functions 2, N)."""
    second, third = _basis(split, 1, points[1]), _basis(split, 2, points[2])
    return np.asarray(second[:, None, :] * third[None, :, :]).reshape(-1, points.shape[1])


def _project(split: ReferenceSplit, weights: Array) -> Array:
    """Weighted sums of all products of basis functions over the sources.

    ``weights`` has shape (moments, Ns), the result (moments, functions 0, 1, 2).
    """
    shape = tuple(split.functions(axis) for axis in range(3))
    total = np.zeros((weights.shape[0] * shape[0], shape[1] * shape[2]))
    for block in _blocks(split, weights.shape[0], weights.shape[1]):
        points = split.points.along(split.points.src[:, block])
        rows = weights[:, None, block] * _basis(split, 0, points[0])[None, :, :]
        total += rows.reshape(total.shape[0], -1) @ _plane(split, points).T
    return total.reshape((weights.shape[0], *shape))


def _evaluate(split: ReferenceSplit, field: Array) -> Array:
    """Evaluate coefficients (count, functions 0, 1, 2) at the targets: shape (count, Nt)."""
    count, first = field.shape[:2]
    matrix = field.reshape(count * first, -1)
    result = np.empty((count, split.points.trg.shape[1]))
    for block in _blocks(split, count, result.shape[1]):
        points = split.points.along(split.points.trg[:, block])
        rows = (matrix @ _plane(split, points)).reshape(count, first, -1)
        result[:, block] = np.einsum("cat,at->ct", rows, _basis(split, 0, points[0]))
    return result


def _multiply(split: ReferenceSplit, spectrum: Array) -> Array:
    """Apply the far kernel to the projections of the sources; return coefficients of the fields.

    It maps a spectrum (moments, functions 0, 1, 2) to (rows, functions 0, 1, 2), one wavenumber of
    the periodic axis 0 at a time, without the negative ones because the fields are real.
    """
    m = split.modes(0)
    second, third = _exponentials(split, 1), _exponentials(split, 2)
    field = np.zeros((split.all_rows, *spectrum.shape[1:]))
    for n in range(m + 1):
        planes = spectrum[:, n].astype(np.complex128)
        if n > 0:
            planes.imag = -spectrum[:, m + n]
        modes = _modes(split, n, _change(planes, second, third))
        planes = _change(modes, second.conj().T, third.conj().T) * (2 if n > 0 else 1)
        field[:, n] = planes.real
        if n > 0:
            field[:, m + n] = -planes.imag
    return field


def _change(planes: Complex, second: Complex, third: Complex) -> Complex:
    """Multiply planes (count, b, c) by second (b', b) and third (c', c): shape (count, b', c')."""
    rows = np.tensordot(planes, third, axes=(2, 1))  # one matrix product each
    return np.asarray(np.tensordot(second, rows, axes=(1, 1)).transpose(1, 0, 2))


def _modes(split: ReferenceSplit, n: int, moments: Complex) -> Complex:
    """Multiply moments (moments, modes 1, modes 2) of mode n along axis 0 by the kernel's symbol.

    The result has shape (rows of all fields, modes 1, modes 2).
    """
    k = [
        np.full((1, 1), n * 2 * np.pi / split.period(0)),
        _wavenumbers(split, 1)[:, None],
        _wavenumbers(split, 2)[None, :],
    ]
    if split.points.basis is not None:
        k = [w[0] * k[0] + w[1] * k[1] + w[2] * k[2] for w in split.points.basis.T]
    k2 = k[0] ** 2 + k[1] ** 2 + k[2] ** 2
    half, harmonic, biharmonic = _symbols(split, k, k2)
    damping = k2 / (4 * split.xi**2)
    lengths = split.period(0) * split.period(1) * split.period(2)
    gauss = np.exp(-damping) / (lengths * split.points.part)
    rows: dict[str, list[Complex]] = {}
    if split.sum.rule == "charge":
        rows["u"] = [half * gauss * moments[0]]
    elif split.sum.rule == "dipole":
        along = k[0] * moments[0] + k[1] * moments[1] + k[2] * moments[2]
        rows["u"] = [-1j * half * gauss * along]
    elif split.sum.rule == "rotlet":
        curl = [k[i - 2] * moments[i - 1] - k[i - 1] * moments[i - 2] for i in range(3)]
        rows["u"] = [1j * half * gauss * component for component in curl]
        rows["p"] = [np.zeros_like(curl[0])]
    else:
        gamma = gauss if split.brinkman else (1 + damping) * gauss
        *rows["u"], pressure = _stokes(
            split,
            n,
            k,
            moments,
            harmonic=gamma * harmonic,
            biharmonic=gamma * biharmonic,
            charges=_unscreened(split, k, k2)[0] * gauss,
        )
        rows["p"] = [pressure]
    if "grad_u" in split.fields:
        rows["grad_u"] = [1j * k[j] * component for component in rows["u"] for j in range(3)]
    return np.stack([row for field in split.fields for row in rows[field]])


def _stokes(
    split: ReferenceSplit,
    n: int,
    k: list[Array],
    moments: Complex,
    *,
    harmonic: Array,
    biharmonic: Array,
    charges: Array,
) -> list[Complex]:
    """Return the modes (modes 1, modes 2) of u (three components) and p for layers and dipoles.

    With A = f - i D k: u = H A - k (k.A) M and p = -i (k.A) H; for double layers u also has the
    term -i k H tr D / 2. M is the biharmonic symbol. H = k^2 M is the harmonic one, which is
    8 pi / k^2 except for the cut-off and the damping.
    """
    size = moments.shape[1:]
    flow = np.zeros((3, *size), dtype=np.complex128)
    if split.sum.single:
        flow += moments[:3]
    sources = np.zeros(size, dtype=np.complex128)
    if split.sum.dipoles:
        dipoles = moments[-9:].reshape((3, 3, *size))
        for i, j in itertools.product(range(3), range(3)):
            flow[i] -= 1j * k[j] * dipoles[i, j]
        if split.sum.layered:
            sources -= 0.5 * np.einsum("jjbc->bc", dipoles)
    along = k[0] * flow[0] + k[1] * flow[1] + k[2] * flow[2]
    pressure = -1j * harmonic * along
    # As k vanishes, H and k k.A / k^2 do not.
    if n == 0 and split.periodicity == 2:
        flow[2, split.modes(1), split.modes(2)] = 0
    along *= biharmonic
    sources = sources * (2 * charges if split.brinkman else harmonic)
    rows = [harmonic * flow[j] + 1j * k[j] * sources - k[j] * along for j in range(3)]
    return [*rows, pressure]


def _symbols(split: ReferenceSplit, k: list[Array], k2: Array) -> tuple[Array, Array, Array]:
    """Symbols of 1/r, of the Laplacian of r and of minus r, cut off in the free directions.

    Each has the shape (modes 1, modes 2), for one mode of axis 0. Where all wavenumbers of the
    periodic axes vanish, one- or two-dimensional kernels apply; `_constant` fixes their constants.
    """
    if not split.kappa:
        return _unscreened(split, k, k2)
    less = _screened(split, k, k2)
    if not split.brinkman:
        return less, k2, k2  # charges take the first
    # The Laplacian of both mollified charges: they differ by what kappa adds to the damping.
    square = split.kappa**2
    damped = -np.expm1(-square / (4 * split.xi**2)) / square
    both = 2 * less + 8 * np.pi * damped
    if split.periodicity == 3:
        both = np.where(k2 > 0, both, 0)
    # The difference of both over kappa^2 / 2 by its parts, as it cancels where kappa is small.
    whole, apart = _cut_off(split, k)
    biharmonic = 2 * _unscreened(split, k, k2)[0] + 8 * np.pi * (apart + damped * whole)
    biharmonic /= k2 + square
    if split.periodicity == 2:  # modes along the free axis alone do not flow along it
        free = (k[0] == 0) & (k[1] == 0)
        biharmonic = np.where(free, both / np.where(k2 > 0, k2, 1.0), biharmonic)
    return less, both, biharmonic


def _unscreened(split: ReferenceSplit, k: list[Array], k2: Array) -> tuple[Array, Array, Array]:
    """Return the symbols of Laplace's and Stokes' equations."""
    shape = k2.shape
    if split.periodicity == 3:
        inverse = np.divide(1.0, k2, out=np.zeros(shape), where=k2 > 0)
        return 4 * np.pi * inverse, 8 * np.pi * inverse, 8 * np.pi * inverse**2
    if split.periodicity == 2:
        return _cut_off_2p(np.broadcast_to(np.hypot(k[0], k[1]), shape), k[2], k2, split)
    return _cut_off_1p(float(k[0][0, 0]), np.broadcast_to(np.hypot(k[1], k[2]), shape), k2, split)


def _screened(split: ReferenceSplit, k: list[Array], k2: Array) -> Array:
    """Symbol of screened charges, with what kappa adds to the damping."""
    return 4 * np.pi * screened.inverse(k2, split.kappa, split.xi) * _cut_off(split, k)[0]


def _cut_off(split: ReferenceSplit, k: list[Array]) -> tuple[Array, Array]:
    """Return the factors of symbols of screened charges that end: see `screened.cut_off`."""
    if split.periodicity == 3:
        return np.ones(1), np.zeros(1)
    radius = split.truncation_radius()
    if split.periodicity == 2:
        along, free = np.broadcast_arrays(np.hypot(k[0], k[1]), k[2])
        return screened.cut_off(1, along, free, split.kappa, radius)
    return screened.cut_off(2, float(k[0][0, 0]), np.hypot(k[1], k[2]), split.kappa, radius)


def _cut_off_2p(
    along: Array, free: Array, k2: Array, split: ReferenceSplit
) -> tuple[Array, Array, Array]:
    """Symbols for one free direction, cut off at |z| = R.

    ``along`` is the wavenumber in the plane. Where it vanishes, the kernels are -2 pi (|z| - R)
    and twice this.
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


def _cut_off_1p(
    along: float, free: Array, k2: Array, split: ReferenceSplit
) -> tuple[Array, Array, Array]:
    """Symbols for two free directions, cut off at rho = R.

    For mode zero along the axis: -2 ln(rho / R) and -rho^2 (ln(rho / R) - 1/2) - R^2 / 2.
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


def _constant(split: ReferenceSplit, moments: Moments) -> Array:
    """Constant that brings the far part of u to the gauge of `direct_sum`: shape (1 or 3,).

    It undoes the constant of cutting off at R, or is the neutralising background (3-periodic,
    Laplace). Rotlets, dipoles, pressures and gradients need no constant.
    """
    if moments.f is None or split.sum.rule in ("rotlet", "dipole"):
        return np.zeros(split.sum.components)
    total = np.array([math.fsum(row) for row in moments.f])  # which little screening multiplies
    box, periodicity = split.points.box, split.periodicity
    total = total / split.points.part
    if split.kappa:
        if periodicity == 3:
            return np.zeros(split.sum.components)
        constant = screened.constant(
            3 - periodicity,
            kappa=split.kappa,
            radius=split.truncation_radius(),
            xi=split.xi,
            brinkman=split.brinkman,
        )
        return np.asarray(constant / np.prod(box[:periodicity]) * total)
    if split.sum.rule == "charge":
        if periodicity == 3:
            background = -np.pi / split.xi**2 + (4 * np.pi * split.blob.spread if split.blob else 0)
            return np.asarray(background / np.prod(box) * total)
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
