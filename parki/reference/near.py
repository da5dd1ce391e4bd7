"""The near part of `parki.reference`: pairs of points and their images within the cut-off."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from parki.reference import screened
from parki.reference.blobs import ReferenceBlob
from parki.reference.split import SOURCES, TARGETS, Array, Clouds, Moments, ReferenceSplit

_PAIRS = 8192  # of several images, whose values are computed together
_IDENTITY = np.eye(3).reshape(9, 1)


def near(split: ReferenceSplit, moments: Moments) -> Array:
    """Sum the near part of all pairs: shape (rows of all fields, Nt)."""
    points, vectors = split.points, split.points.vectors
    count, total = points.trg.shape[1], points.src.shape[1]
    result = np.zeros((split.all_rows, count))
    images = [
        shift
        for shift in itertools.product(
            *(range(-split.image_range(a), split.image_range(a) + 1) for a in range(3))
        )
        if _closest(shift, points) < split.near_cutoff
    ]
    # Bound of the rounding by wrapping; along free axes equal points differ by exactly zero.
    coincide = (1e-14 * float(points.box[: split.periodicity].max(initial=0.0))) ** 2
    coincide = max(coincide, np.finfo(np.float64).tiny)  # squares of shorter distances underflow
    cutoff2 = split.near_cutoff**2
    for t0, s0 in itertools.product(range(0, count, TARGETS), range(0, total, SOURCES)):
        trg, src = slice(t0, t0 + TARGETS), slice(s0, s0 + SOURCES)
        if vectors is None:
            offsets = [_difference(split, axis, trg, src) for axis in range(3)]
        else:
            offsets = _tilted_differences(split, trg, src)
        shape = offsets[0].shape
        # One displacement and its square for each axis and shift, reused by all images.
        along = [
            {n: offsets[a] - n * points.box[a] for n in {shift[a] for shift in images}}
            for a in range(3)
        ]
        square = [{n: d * d for n, d in shifts.items()} for shifts in along]
        parts, pairs = [], 0
        for shift in images:
            if vectors is not None:
                moves = np.array(shift) @ vectors
                along = [{n: offsets[a] - moves[a]} for a, n in enumerate(shift)]
                square = [{n: d * d for n, d in shifts.items()} for shifts in along]
            r2 = square[0][shift[0]] + square[1][shift[1]] + square[2][shift[2]]
            pair = np.flatnonzero(r2 < cutoff2)
            r = np.stack([along[a][shift[a]].take(pair) for a in range(3)])
            target = pair // shape[1]
            parts.append((r, r2.take(pair), target, pair - (target * shape[1] - s0)))
            pairs += pair.size
            if pairs < _PAIRS and shift is not images[-1]:
                continue
            r, r2, target, source = (
                np.concatenate(arrays, -1) for arrays in zip(*parts, strict=True)
            )
            values = _pair_values(split, moments, r, r2, source, coincide)
            for row in range(split.all_rows):
                result[row, trg] += np.bincount(target, values[row], shape[0])
            parts, pairs = [], 0
    return result


def _closest(shift: tuple[int, ...], points: Clouds) -> float:
    """Return a lower bound for the length of a nearest-image displacement moved by ``shift``."""
    widths = zip(shift, points.widths, strict=True)
    gaps = [max(abs(n) - 0.5, 0.0) * float(width) for n, width in widths]
    return float(np.hypot.reduce(gaps)) if points.vectors is None else max(gaps)


def _difference(split: ReferenceSplit, axis: int, trg: slice, src: slice) -> Array:
    """Target minus nearest image of the source along one axis, shape (targets, sources).

    The period is subtracted from the larger of the two, which is exact for points in the box;
    subtracting it from their rounded difference is not.
    """
    x, y = split.points.trg[axis, trg, None], split.points.src[axis, None, src]
    if axis >= split.periodicity:
        return x - y
    side = float(split.points.box[axis])
    wraps = np.rint((x - y) / side)
    return np.asarray((x - np.maximum(wraps, 0) * side) - (y + np.minimum(wraps, 0) * side))


def _tilted_differences(split: ReferenceSplit, trg: slice, src: slice) -> list[Array]:
    """Target minus source, less the whole vectors that make fractions of vectors least."""
    points = split.points
    offsets = [points.trg[axis, trg, None] - points.src[axis, None, src] for axis in range(3)]
    fractions = points.along(np.stack([offset.ravel() for offset in offsets]))
    for axis in range(split.periodicity):
        wraps = np.rint(fractions[axis] / points.box[axis]).reshape(offsets[0].shape)
        offsets = [
            offset - wraps * float(move)
            for offset, move in zip(offsets, points.vectors[axis], strict=True)  # type: ignore[index]
        ]
    return offsets


def _pair_values(
    split: ReferenceSplit,
    moments: Moments,
    r: Array,
    r2: Array,
    source: NDArray[np.intp],
    coincide: float,
) -> Array:
    """Near kernel times density, shape (rows of all fields, pairs)."""
    depth = split.sum.depth + ("grad_u" in split.fields)
    phi, g = _radial(r2, split.xi, coincide, depth + 2 * split.brinkman)
    if split.brinkman:
        charges = phi
        phi, g = screened.brinkman(phi, r2, split.xi, split.kappa, coincide)
        harmonic = [own - one for own, one in zip(phi, charges, strict=False)]
    elif split.kappa:
        phi = screened.radial(r2, split.xi, split.kappa, coincide, depth)
    if split.blob is not None:
        close = np.flatnonzero(r2 < split.blob.radius**2)
        _put_blob(split.blob, split.xi, r2[close], close, phi, g)
    if not split.brinkman:
        harmonic = [own / 2 for own in g]
    layers = {"charge": _laplace, "dipole": _charges, "rotlet": _rotlet, "flow": _single_layer}
    layer = layers[split.sum.rule]
    values = np.zeros((split.all_rows, r2.size))
    start = 0
    for field in split.fields:
        part = values[start : start + split.rows(field)]
        start += part.shape[0]
        if moments.f is not None:
            part += layer(field, moments.f.take(source, axis=1), r, phi, g)
        if moments.dipoles is not None:
            part += _dipole(
                field,
                moments.dipoles.take(source, axis=1),
                r,
                phi,
                g,
                harmonic if split.sum.layered else phi,
            )
    return values


# --- near kernels ---------------------------------------------------------------------------------
#
# Each returns the rows of one field, for densities and displacements r (3, pairs) and the radial
# functions of `_radial`. Rows of a gradient are component 0 along x, y and z, then 1, then 2.


def _radial(r2: Array, xi: float, coincide: float, depth: int) -> tuple[list[Array], list[Array]]:
    """Radial functions of the near kernels, ``depth`` of each of two kinds.

    With b(r) the near part of r and D = (1/r) d/dr they are phi[n] = D^n (b'/r) and g[n] =
    -D^n b'', so that Lap b = 2 phi[0] - g[0]. All terms of the recurrence have the same sign.
    Where points coincide, phi excludes its singular part, D^n (1/r). With ``xi`` 0 the kernels are
    not split.
    """
    same = r2 <= coincide
    g = [2 * xi / np.sqrt(np.pi) * np.exp(-(xi**2) * r2) if xi > 0 else np.zeros_like(r2)]
    r2 = np.where(same, 1.0, r2)
    inverse = 1 / np.sqrt(r2)
    inverse2 = inverse * inverse
    phi = [erfc(xi * r2 * inverse) * inverse if xi > 0 else inverse]
    for n in range(depth - 1):
        phi.append(-(g[n] + (2 * n + 1) * phi[n]) * inverse2)
        g.append(-2 * xi**2 * g[n])
    for n in range(depth):
        phi[n][same] = -g[n][same] / (2 * n + 1)
    return phi, g


def _put_blob(
    blob: ReferenceBlob,
    xi: float,
    r2: Array,
    close: NDArray[np.intp],
    phi: list[Array],
    g: list[Array],
) -> None:
    """Change the radial functions of close pairs from points to blobs."""
    mean, second = blob.smooth(r2, len(phi))
    for n, (whole, curved) in enumerate(zip(mean, second, strict=True)):
        phi[n][close], g[n][close] = whole, -curved
    if xi > 0:
        mean, second = ReferenceBlob("gaussian", 1 / xi).smooth(r2, len(phi))
        for n, (whole, curved) in enumerate(zip(mean, second, strict=True)):
            phi[n][close] -= whole
            g[n][close] += curved


def _laplace(field: str, charge: Array, r: Array, phi: list[Array], g: list[Array]) -> Array:
    """Return q phi[0] or its gradient, for charges q (1, pairs)."""
    return np.asarray(phi[0] * charge if field == "u" else (phi[1] * charge) * r)


def _charges(field: str, d: Array, r: Array, phi: list[Array], g: list[Array]) -> Array:
    """Return -d.grad phi[0] or its gradient, for dipoles d of charges."""
    dr = _dot(d, r)
    return -phi[1] * dr if field == "u" else -phi[1] * d - (phi[2] * dr) * r


def _rotlet(field: str, t: Array, r: Array, phi: list[Array], g: list[Array]) -> Array:
    """Return curl(t phi[0]), no pressure, or the gradient."""
    if field == "p":
        return np.zeros_like(t[:1])
    crossed = np.stack([t[i - 2] * r[i - 1] - t[i - 1] * r[i - 2] for i in range(3)])  # t x r
    if field == "u":
        return np.asarray(-phi[1] * crossed)
    zero = np.zeros_like(t[0])
    skew = np.stack([zero, -t[2], t[1], t[2], zero, -t[0], -t[1], t[0], zero])
    return np.asarray(-phi[1] * skew - _outer(phi[2] * crossed, r))


def _single_layer(field: str, f: Array, r: Array, phi: list[Array], g: list[Array]) -> Array:
    """Return u = f Lap b - grad (f.grad b), p = -f.grad Lap b or the gradient of u."""
    fr = _dot(f, r)
    if field == "u":
        return np.asarray((phi[0] - g[0]) * f - (phi[1] * fr) * r)
    if field == "p":
        return np.asarray((g[1] - 2 * phi[1]) * fr)
    along = _outer((phi[1] - g[1]) * f - (phi[2] * fr) * r, r)
    return along - (phi[1] * fr) * _IDENTITY - _outer(phi[1] * r, f)


def _dipole(
    field: str, dens: Array, r: Array, phi: list[Array], g: list[Array], of_trace: list[Array]
) -> Array:
    """Return u = -D : grad of `_single_layer`, its p or the gradient of u, for D (9, pairs).

    A double layer also has sources, u = -tr D / 2 grad Lap b, which have no pressure: its
    ``of_trace`` is phi with them.
    """
    tensor = dens.reshape(3, 3, -1)
    v, w = (np.einsum(order, tensor, r) for order in ("jkn,kn->jn", "jkn,jn->kn"))
    trace, vr = np.einsum("jjn->n", tensor), _dot(v, r)
    if field == "p":
        return np.asarray((2 * phi[1] - g[1]) * trace + (2 * phi[2] - g[2]) * vr)
    along = of_trace[1] * trace + phi[2] * vr
    if field == "u":
        return np.asarray((g[1] - phi[1]) * v + phi[1] * w + along * r)
    total = (g[2] - phi[2]) * v + phi[2] * w + (of_trace[2] * trace + phi[3] * vr) * r
    total = _outer(total, r) + _outer(phi[2] * r, v + w) + along * _IDENTITY
    return np.asarray(
        total + (g[1] - phi[1]) * dens + phi[1] * tensor.swapaxes(0, 1).reshape(9, -1)
    )


def _dot(a: Array, b: Array) -> Array:
    """Return the scalar products of two arrays of vectors, (3, N) each."""
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def _outer(a: Array, b: Array) -> Array:
    """Return the products a_i b_j of two arrays of vectors, (3, N) each: shape (9, N)."""
    return (a[:, None] * b[None, :]).reshape(9, -1)
