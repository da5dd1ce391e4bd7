"""How the far field of ``w.u`` changes as box and points are strained together.

By Parseval's theorem ``w.u`` is a sum over modes of the transforms of what targets and sources
spread. These do not change: a point keeps its fractions of the lattice vectors. Only wave vectors
do, ``dk_b = -k_a`` for a strain ``dx_a = x_b``, and the volume: see docs/theory.md. The sources'
normals and tensors are spread by the window itself, so that their gradient is a product with k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from parki.ewald.far.fgc import FGC, Block
from parki.ewald.far.mesh import Fields
from parki.ewald.far.p2g import P2G
from parki.ewald.geometry.lattice import Lattice
from parki.ewald.split.hasimoto import Split
from parki.ewald.sums import SUMS
from parki.interchange import to_host

MODES = {False: 2**18, True: 2**20}  # that are taken at a time, on a CPU and on a device
# Relative changes of the box, and weights, of a difference of sixth order: of multipliers that
# have no closed form, because their kernels end.
STEP = 1e-3
WEIGHTS = {3: 1 / 60, 2: -3 / 20, 1: 3 / 4}


class Waves(NamedTuple):
    """Some modes.

    Attributes
    ----------
    k : list of 3 arrays
    square : array
        Of k.
    multiplier : array
        Of the symbol; of modes whose conjugates are left out, twice as large.
    rise : array
        The multiplier, differentiated by the square of k along periodic directions.
    """

    k: list[Any]
    square: Any
    multiplier: Any
    rise: Any


class FarStrain:
    """The far field of values at targets and of sources, by mode.

    Parameters
    ----------
    fgc : FGC
    split : Split
    """

    def __init__(self, fgc: FGC, split: Split) -> None:
        self.fgc, self.split, self.kind = fgc, split, fgc.mesh.task.sum
        self.mesh = copy(fgc.mesh)
        same = fgc.mesh.fields.deterministic
        self.mesh.fields = Fields(SUMS["laplace"].p2g, 1, 1, deterministic=same)  # row after row
        self.changes = self._changes()

    def __call__(self, trg: Any, weights: Any, src: Any, dens: Any, norms: Any) -> Any:
        """Return the derivative of ``w.u`` by strains, shape (3, 3), of the far field.

        Points are wrapped, and they and the normals are in solver units. Densities and normals
        do not change. Rows and columns of free axes mean nothing.
        """
        xp = self.fgc.xp
        plain, tensors, strength = parts_of(self.kind, dens, norms)
        rows, count = len(plain), plain.shape[-1]
        given = xp.concatenate([plain, tensors.reshape(-1, count), strength])
        hats = self._spread(trg, weights), self._spread(src, given)
        total, slopes = xp.zeros(()), xp.zeros((3, 3))
        for block, change in zip(self.fgc.whole, self.changes, strict=True):
            for part in self._parts(block):
                modes = self._modes(block, change, part)
                w, fields = (self._transformed(hat, block, part) for hat in hats)
                a, t = fields[:rows], fields[rows : len(given) - len(strength)]
                t = t.reshape(rows, -1, *a.shape[1:])
                if t.shape[1]:
                    a = a + 1j * sum(t[:, axis] * k for axis, k in enumerate(modes.k))
                d = fields[-1] if len(strength) else None
                pair = SYMBOLS[self.kind.symbol.structure](modes, w.conj(), a, d)
                value = pair.value.real
                total += (modes.multiplier * value).sum()
                for b, k in enumerate(modes.k):
                    slope = pair.slopes[b]
                    if t.shape[1]:
                        slope = slope + 1j * (pair.fields * t[:, b]).sum(axis=0)
                    slope = 2 * k * modes.rise * value + modes.multiplier * slope.real
                    slopes[:, b] -= xp.stack([(other * slope).sum() for other in modes.k])
        unit = self.mesh.frame.factor ** (self.kind.pair.power - 1)
        return unit * to_host(slopes - total * xp.eye(3))

    def _spread(self, points: Any, rows: Any) -> Any:
        """Return the transforms of rows (rows, N) at wrapped points; planes are padded later."""
        xp, p2g = self.fgc.xp, P2G(self.mesh, points, None)
        found = xp.empty((len(rows), *self.mesh.padding.modes), dtype=self.fgc.complex_type)
        buffer = xp.empty((1, points.shape[1]), dtype=self.mesh.dtype)
        for row, into in zip(rows, found, strict=True):
            grid = p2g.apply(xp.ascontiguousarray(row[None]), buffer)
            self.fgc.transforms.real(grid, into[None])
        return found

    def _transformed(self, hat: Any, block: Block, part: slice) -> Any:
        """Return the transforms (rows, x, y, z) of a part of a block, in double precision."""
        own = hat[:, block.first + part.start : block.first + part.stop]
        if self.mesh.periodicity < 3:
            padded = np.zeros_like(own, shape=(*own.shape[:2], *block.lengths[1:]))
            padded[..., : own.shape[2], : own.shape[3]] = own
            self.fgc.transforms.planes(padded)
            own = padded
        return own.astype(np.complex128, copy=False)

    def _parts(self, block: Block) -> list[slice]:
        """Return planes of a block that are taken at a time."""
        x, y, z = block.arguments["shape"].tolist()
        step = max(1, MODES[self.mesh.space.on_device] // (y * z))
        return [slice(first, min(x, first + step)) for first in range(0, x, step)]

    def _modes(self, block: Block, change: Any, part: slice) -> Waves:
        """Return the modes of a part of a block."""
        xp, given, free = self.fgc.xp, block.arguments, self.mesh.periodicity < 3
        shape, full = given["shape"].tolist(), given["full"].tolist()
        places = [xp.arange(n) for n in shape]
        places[0] = places[0][part]
        k, squares = self._waves(given, places)
        # Transforms of real numbers leave out half of the modes, along x or along z.
        half, axis = (places[0] + block.first, 0) if free else (places[2], 2)
        once = (half == 0) | (2 * half == block.lengths[axis])
        twice = along(xp.where(once, 1.0, 2.0), axis)
        folds = [xp.minimum(at, n - at) for at, n in zip(places, full, strict=True)]

        def unfolded(table: Any) -> Any:
            return table[part][:, folds[1]][:, :, folds[2]] * twice

        values, square = unfolded(block.multiplier), squares[0] + squares[1] + squares[2]
        if not free:
            return Waves(k, square, values, values * self._logarithm(square))
        across = sum(squares[: self.mesh.periodicity]) + 0 * square
        none = across == 0
        rise = unfolded(change) / xp.where(none, 1, -2 * across)
        return Waves(k, square, values, xp.where(none, 0, rise))

    def _waves(self, given: dict[str, Any], places: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return wave vectors and the squares of their components, which broadcast."""
        k, squares = (
            [along(given[f"{name}{n}"][at].astype(np.float64), n) for n, at in enumerate(places)]
            for name in ("k", "square")
        )
        if (basis := self.mesh.frame.basis) is not None:
            k = [sum(basis[n, axis] * k[n] for n in range(axis + 1)) for axis in range(3)]
            squares = [each**2 for each in k]
        return k, squares

    def _logarithm(self, square: Any) -> Any:
        """Return the logarithm of a multiplier in closed form, differentiated by the square."""
        order = self.kind.symbol.order
        factor = self.split.factor(order)
        kk = square + self.split.screening**2
        x = np.minimum(kk * factor.scale, factor.end)
        value, slope = x * 0, x * 0
        for each in factor.coefficients.tolist():
            slope = slope * (x - factor.shift) + value
            value = value * (x - factor.shift) + each
        value[value == 0] = math.inf  # where the multiplier is 0, too
        kk[kk == 0] = math.inf
        return factor.scale * (slope / value - factor.decays) - order / kk

    def _changes(self) -> list[Any]:
        """Return how multipliers change with the logarithm of the periodic edges, at equal volume.

        None for those in closed form.
        """
        mesh = self.mesh
        found: list[Any] = [None if mesh.periodicity == 3 else 0.0 for _ in self.fgc.whole]
        for number, weight in WEIGHTS.items() if mesh.periodicity < 3 else ():
            for change in (number * STEP, -number * STEP):
                own = weight * number / change * (1 + change) ** mesh.periodicity
                for n, block in enumerate(self._scaled(1 + change)):
                    found[n] = found[n] + own * block.multiplier
        return found

    def _scaled(self, scale: float) -> list[Block]:
        """Return the blocks of a box whose periodic edges are multiplied, in double precision."""
        other, mesh = copy(self.fgc), copy(self.mesh)
        frame, scales = mesh.frame, np.where(np.arange(3) < mesh.periodicity, scale, 1.0)
        lattice = frame.lattice
        if lattice is not None:
            sides, tilts = scales * lattice.sides, scale * np.array(lattice.tilts)
            lattice = Lattice(tuple(sides.tolist()), tuple(tilts.tolist()))
        mesh.frame = replace(frame, box=frame.box * scales, lattice=lattice)
        mesh.steps, mesh.box = mesh.steps * scales, mesh.box * scales
        mesh.task = replace(mesh.task, dtype=np.dtype(np.float64))
        other.mesh = mesh
        return other._blocks(self.split)


def along(values: Any, axis: int) -> Any:
    """Return a row of values that broadcasts along an axis of three."""
    return values.reshape([-1 if n == axis else 1 for n in range(3)])


def parts_of(kind: Any, dens: Any, norms: Any) -> tuple[Any, Any, Any]:
    """Return fields f (n, N), tensors S (n, 3 or 0, N) and strengths (1 or 0, N) of sources.

    The source is ``f + i S k``, and the strength is that of ``kernels/symbols/flow.py``.
    """
    count = dens.shape[-1]
    rows = 1 if kind.symbol.structure == "scalar" else 3
    plain = np.zeros_like(dens, shape=(rows, count))
    tensors = np.zeros_like(dens, shape=(rows, 3 * kind.gradient, count))
    strength = np.zeros_like(dens, shape=(0, count))
    for source, own in kind.parts(dens):
        if not source.gradient:
            plain += own
        elif source.normal:
            both = own[:, None] * norms[None]
            tensors += both + both.swapaxes(0, 1)
            strength = (own * norms).sum(axis=0)[None]
        else:
            tensors -= own.reshape(rows, 3, count)
    return plain, tensors, strength


class Pairing(NamedTuple):
    """What a symbol makes of a mode's values and fields, without the multiplier.

    Attributes
    ----------
    value : array
        Linear in the fields.
    fields : array
        Its derivative by them.
    slopes : list of 3 arrays
        By the wave vector, for constant fields.
    """

    value: Any
    fields: Any
    slopes: list[Any]


def _scalar(modes: Waves, w: Any, a: Any, _: Any) -> Pairing:
    return Pairing((w * a).sum(axis=0), w, [0j * modes.square] * 3)


def _flow(modes: Waves, w: Any, a: Any, d: Any) -> Pairing:
    k, square = modes.k, modes.square
    kw, ka = (sum(x * each for x, each in zip(k, of, strict=True)) for of in (w, a))
    wa = (w * a).sum(axis=0)
    value = square * wa - kw * ka
    slopes = [2 * x * wa - w[n] * ka - kw * a[n] for n, x in enumerate(k)]
    if d is not None:
        value = value + 1j * kw * square * d
        for n, x in enumerate(k):
            slopes[n] = slopes[n] + 1j * d * (w[n] * square + 2 * x * kw)
    fields = np.stack([square * w[n] - kw * x for n, x in enumerate(k)])
    return Pairing(value, fields, slopes)


def _curl(modes: Waves, w: Any, a: Any, _: Any) -> Pairing:
    def cross(p: Any, q: Any) -> list[Any]:
        return [p[(n + 1) % 3] * q[(n + 2) % 3] - p[(n + 2) % 3] * q[(n + 1) % 3] for n in range(3)]

    fields = 1j * np.stack(cross(w, modes.k))
    return Pairing((fields * a).sum(axis=0), fields, [1j * each for each in cross(a, w)])


# By the files of ``kernels/symbols``.
SYMBOLS: dict[str, Callable[..., Pairing]] = {"scalar": _scalar, "flow": _flow, "curl": _curl}
