"""How the far field of ``w.u`` changes as box and points are strained together.

By Parseval's theorem ``w.u`` is a sum over modes of the transforms of what targets and sources
spread. These do not change: a point keeps its fractions of the lattice vectors. Only wave vectors
do, ``dk_b = -k_a`` for a strain ``dx_a = x_b``, and the volume: see docs/theory.md. The sources'
normals and tensors are spread by the window itself, so that their gradient is a product with k.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from functools import reduce
from itertools import combinations_with_replacement, pairwise
from operator import add
from typing import Any, cast

import numpy as np

from parki.cells.sorted_points import SortedPoints
from parki.ewald.far.convolution import Changed, ModeBlock, StrainTables
from parki.ewald.far.fgc import FGC
from parki.ewald.far.mesh import Fields
from parki.ewald.far.p2g import P2G
from parki.ewald.far.pairings import SYMBOLS, Parts, Waves, along, field_at
from parki.ewald.far.spreading import place_sources
from parki.ewald.split.protocol import Split
from parki.ewald.sums import SUMS
from parki.ewald.sums.record import Interaction
from parki.typing import AnyArray

MODES = {False: 2**18, True: 2**20}  # that are taken at a time, on a CPU and on a device
# Differences of multipliers that have no closed form, because their kernels end: a relative change
# of the box, and weights of its multiples. The first is of fourth order, which differs by 1e-11
# from one of sixth, the second of eighth: rounding grows by the square of the step.
STEP, SECOND_STEP = 1e-3, 1e-2
OF_FOURTH = {2: -1 / 12, -2: 1 / 12, 1: 2 / 3, -1: -2 / 3}
OF_EIGHTH = {4: -1 / 560, 3: 8 / 315, 2: -1 / 5, 1: 8 / 5}
FIRST = {n * STEP: weight / STEP for n, weight in OF_FOURTH.items()}
SECOND = {
    n * SECOND_STEP: OF_EIGHTH.get(abs(n), -2 * sum(OF_EIGHTH.values())) / SECOND_STEP**2
    for n in range(-4, 5)
}


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

    def prepare(self, twice: bool = False) -> None:
        """Make the tables of all modes, or make them again for another box, in the same memory.

        If ``twice``, make tables of second derivatives as well.
        """
        blocks, xp = self.fgc.whole, self.fgc.xp
        if any(block.strain is None or block.stale for block in blocks):
            for block, slope in zip(blocks, self._slopes(), strict=True):
                if block.strain is None:
                    memory = xp.empty_like(block.multiplier)
                    block.strain = StrainTables(memory, *self._times(block))
                block.strain.slope[...] = slope
                block.strain.curved = False
                block.stale = False
        tables = [cast(StrainTables, block.strain) for block in blocks]
        if twice and not all(of_block.curved for of_block in tables):
            for of_block, curvature in zip(tables, self._curvatures(), strict=True):
                if of_block.curvature is None:
                    of_block.curvature = xp.empty_like(of_block.slope)
                of_block.curvature[...] = curvature  # which recorded launches read
                of_block.curved = True

    def _slopes(self) -> list[Any]:
        """Return the multipliers, differentiated by the square of k along periodic directions."""
        blocks, xp = self.fgc.whole, self.fgc.xp
        squares = [self._along_periods(block) for block in blocks]
        if self.mesh.periodicity == 3:
            pairs = zip(blocks, squares, strict=True)
            return [block.multiplier * self._logarithms(square)[0] for block, square in pairs]
        slopes = []
        for change, square in zip(self._changes(FIRST), squares, strict=True):
            none = square == 0
            slopes.append(xp.where(none, 0, change / xp.where(none, 1, -2 * square)))
        return slopes

    def _curvatures(self) -> list[Any]:
        """Return the multipliers, differentiated twice."""
        blocks, xp, curvatures = self.fgc.whole, self.fgc.xp, list[Any]()
        changes = self._changes(SECOND) if self.mesh.periodicity < 3 else [None for _ in blocks]
        for block, change in zip(blocks, changes, strict=True):
            square = self._along_periods(block)
            if change is None:
                slope, slope_of_slope = self._logarithms(square)
                curvatures.append(block.multiplier * (slope**2 + slope_of_slope))
                continue
            none, slope = square == 0, cast(StrainTables, block.strain).slope
            whole = xp.where(none, 1, 4 * square**2)
            curvatures.append(xp.where(none, 0, (change - 6 * square * slope) / whole))
        return curvatures

    def _along_periods(self, block: ModeBlock) -> Any:
        """Return the squares of k along periodic directions, of the modes of a multiplier."""
        shape, count = block.multiplier.shape, block.arguments["k0"].size
        places = [self.fgc.xp.arange(n) for n in (count, *shape[1:])]
        _, squares = self._waves(block.arguments, places)
        across = sum(squares[: self.mesh.periodicity]) + 0 * squares[1] + 0 * squares[2]
        return across.reshape(shape)

    def _times(self, block: ModeBlock) -> tuple[Any, Any]:
        """Return how many modes a mode stands for, by its places along two axes.

        Transforms of real numbers leave out half of the modes, along x or along z.
        """
        xp, free = self.fgc.xp, self.mesh.periodicity < 3
        x, _, z = (block.arguments[f"k{axis}"].size for axis in range(3))
        if not free:
            z = z // 2 + 1
        half, axis = (xp.arange(x) + block.first, 0) if free else (xp.arange(z), 2)
        twice = xp.where((half == 0) | (2 * half == block.lengths[axis]), 1.0, 2.0)
        return (twice, xp.ones(z)) if free else (xp.ones(x), twice)

    def of_modes(self, sums: dict[int, Any]) -> Any:
        """Return the derivatives by strains (9, sets) for sums over the modes of all blocks.

        They are of w.u where the values w are the density itself, of one component: see the kernel
        ``strain``.
        """
        total = reduce(add, (sums[first] for first in sorted(sums)))
        strains = (-2 * self.unit) * self._moments(total).reshape(9, -1)
        strains[::4] -= self.unit * total[0]
        return strains

    def _moments(self, sums: AnyArray) -> Any:
        """Return the moments (3, 3, sets) of sums over modes, (7, sets), along the axes."""
        moments = self.fgc.xp.empty((3, 3, sums.shape[1]))
        for n, (a, b) in enumerate(combinations_with_replacement(range(3), 2), start=1):
            moments[a, b] = moments[b, a] = sums[n]
        if self.mesh.solver_box.lattice.basis is not None:
            basis = self.fgc.whole[0].arguments["basis"].astype(np.float64)
            basis = basis.reshape(-1, 3, 3).transpose(1, 2, 0)  # of each system, in turn
            sets = moments.reshape(3, 3, -1, basis.shape[2])
            sets = (basis[:, :, None, None] * sets[:, None]).sum(axis=0)
            moments = (sets[:, :, None] * basis[None, :, :, None]).sum(axis=1)
        return moments.reshape(3, 3, -1)

    @property
    def unit(self) -> float:
        """The user's unit of w.u over the solver's."""
        return float(self.mesh.solver_box.factor ** (self.kind.pair.power - 1))

    def __call__(
        self,
        targets: SortedPoints,
        weights: AnyArray,
        sources: SortedPoints,
        parts: Parts,
        faxen_factor: Any = None,
    ) -> Any:
        """Return the derivative of ``w.u`` by strains, shape (3, 3), of the far field.

        The mesh has sorted the points, of one system, and parts are in their order. Densities and
        normals do not change. ``faxen_factor`` is for targets what it is for sources in
        `parts_of`. Rows and columns of free axes mean nothing. Tables are there: see `prepare`.
        """
        xp, many, ends = self.fgc.xp, len(weights), parts.ends
        of_targets = weights
        if faxen_factor is not None:
            of_targets = xp.concatenate([weights, weights * faxen_factor])
        at_sources = at_targets = place_sources(self.mesh, sources.points)
        if targets is not sources:
            at_targets = place_sources(self.mesh, targets.points)
        of_targets, of_sources = targets.sort(of_targets), xp.concatenate(parts)
        hats = self._spread(at_targets, of_targets), self._spread(at_sources, of_sources)
        total, slopes = xp.zeros(()), xp.zeros((3, 3))
        for block in self.fgc.whole:
            for part in self._parts(block):
                modes = self._modes(block, part)
                w, fields = (self._transformed(hat, block, part) for hat in hats)
                a, t, second, d, laplacian = (fields[m:n] for m, n in pairwise(ends))
                w, w_slopes = field_at(modes, w[:many].conj(), w[:0], w[:0], w[many:].conj())
                a, a_slopes = field_at(modes, a, t, second, laplacian)
                pair = SYMBOLS[self.kind.symbol.structure](modes, w, a, d[0] if len(d) else None)
                value = pair.value.real
                total += (modes.multiplier * value).sum()
                for b, k in enumerate(modes.k):
                    slope = pair.slopes[b]
                    for by, moves in ((pair.by_values, w_slopes), (pair.by_fields, a_slopes)):
                        if moves is not None:
                            slope = slope + (by * moves[b]).sum(axis=0)
                    slope = 2 * k * modes.slope * value + modes.multiplier * slope.real
                    slopes[:, b] -= xp.stack([(other * slope).sum() for other in modes.k])
        return self.unit * (slopes - total * xp.eye(3))

    def _spread(self, p2g: P2G, rows: AnyArray) -> Any:
        """Return the transforms of rows (rows, N) of placed points; planes are padded later."""
        xp = self.fgc.xp
        hats = xp.empty((len(rows), *self.mesh.padding.modes), dtype=self.fgc.complex_type)
        buffer = xp.empty((1, rows.shape[1]), dtype=self.mesh.dtype)
        for row, into in zip(rows, hats, strict=True):
            grid = p2g.apply(xp.ascontiguousarray(row[None]), buffer)
            self.fgc.transforms.real(grid, into[None])
        return hats

    def _transformed(self, hat: AnyArray, block: ModeBlock, part: slice) -> Any:
        """Return the transforms (rows, x, y, z) of a part of a block, in double precision."""
        own = hat[:, block.first + part.start : block.first + part.stop]
        if self.mesh.periodicity < 3:
            padded = np.zeros_like(own, shape=(*own.shape[:2], *block.lengths[1:]))
            padded[..., : own.shape[2], : own.shape[3]] = own
            self.fgc.transforms.planes(padded)
            own = padded
        return own.astype(np.complex128, copy=False)

    def _parts(self, block: ModeBlock) -> list[slice]:
        """Return planes of a block that are taken at a time."""
        x, y, z = block.shape
        step = max(1, MODES[self.mesh.space.on_device] // (y * z))
        return [slice(first, min(x, first + step)) for first in range(0, x, step)]

    def changed(self, motion: AnyArray, twice: bool = False) -> Changed:
        """Return a function of blocks for `FGC.multiply`: of the change along ``dx = motion x``.

        The field is of charges, and the strain, an array where the field is, in the order of axes
        of the pipeline. If ``twice``, sums over the modes of these blocks are what `twice` needs.
        Tables are there: see `prepare`.
        """
        only = list[ModeBlock]()  # the block, where there is one, for densities one after the other

        def change(block: ModeBlock) -> ModeBlock:
            if only:
                return only[0]
            whole, xp = block.whole or block, self.fgc.xp
            part = slice(block.first - whole.first, block.last - whole.first)
            modes = self._modes(whole, part, 1.0)
            product = _product(motion, modes.k)
            values = -2 * product * modes.slope - motion.trace() * modes.multiplier
            slope, strain = None, cast(StrainTables, whole.strain)
            if twice:
                slope = xp.ascontiguousarray(2 * product * modes.curvature, dtype=self.mesh.dtype)
            new = replace(
                block,
                full=tuple(2 * n for n in block.shape),
                multiplier=xp.ascontiguousarray(values, dtype=self.mesh.dtype),
                arguments=block.arguments | {"full": 2 * block.arguments["shape"]},
                strain=StrainTables(slope, strain.times0[part], strain.times2),
                whole=None,
            )
            if len(self.fgc.blocks) == 1:
                only.append(new)
            return new

        return change

    def twice(self, sums: dict[int, Any], changed: dict[int, Any], motion: AnyArray) -> Any:
        """Return the derivatives by strains (9, sets) of the changes of w.u along one.

        They are for sums over the modes of all blocks and of those that have `changed`, of values
        w that are the density, as for `of_modes`. Both strains are of points and box at once, not
        one after the other.
        """
        whole, bent = (reduce(add, (by[n] for n in sorted(by))) for by in (sums, changed))
        two, four = (2 * self._moments(rows).transpose(2, 0, 1) for rows in (whole, bent))
        xp, one = self.fgc.xp, whole[0][:, None, None]
        strain, trace = motion, motion.trace()

        def times(a: AnyArray, b: AnyArray) -> Any:
            return (a[..., :, :, None] * b[..., None, :, :]).sum(axis=-2)

        level = trace * one + (strain * two).sum(axis=(1, 2))[:, None, None]
        strains = level * xp.eye(3) + strain.T * one + trace * two + four
        strains += times(two, strain) + times(strain.T, two) + times(two, strain.T)
        return self.unit * strains.transpose(1, 2, 0).reshape(9, -1)

    def _modes(self, block: ModeBlock, part: slice, times: Any = None) -> Waves:
        """Return the modes of a part of a block, by default as many times as they count."""
        xp, tables = self.fgc.xp, cast(StrainTables, block.strain)
        full, places = block.full, [xp.arange(n) for n in block.shape]
        places[0] = places[0][part]
        k, squares = self._waves(block.arguments, places)
        if times is None:
            times = along(tables.times0[part], 0) * along(tables.times2, 2)
        folds = [xp.minimum(at, n - at) for at, n in zip(places, full, strict=True)]
        unfolded = [
            values if values is None else values[part][:, folds[1]][:, :, folds[2]] * times
            for values in (block.multiplier, tables.slope, tables.curvature)
        ]
        return Waves(k, squares[0] + squares[1] + squares[2], *unfolded)

    def _waves(self, arguments: dict[str, Any], places: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return wave vectors and the squares of their components, which broadcast."""
        k, squares = (
            [
                along(arguments[f"{name}{n}"][at].astype(np.float64), n)
                for n, at in enumerate(places)
            ]
            for name in ("k", "square")
        )
        if self.mesh.solver_box.lattice.basis is not None:
            basis = self.mesh.solver_box.basis_on(self.mesh.space, np.float64)
            if len(basis) > 3:  # of several boxes, along an axis after the first
                basis = basis.reshape(-1, 3, 3).transpose(1, 2, 0)[..., None, None]
                k[0] = k[0][:, None]
            k = [sum(basis[n, axis] * k[n] for n in range(axis + 1)) for axis in range(3)]
            squares = [each**2 for each in k]
        return k, squares

    def _logarithms(self, square: AnyArray) -> tuple[Any, Any]:
        """Return the logarithm of a multiplier in closed form, differentiated by the square.

        Once, and twice.
        """
        order = self.kind.symbol.order
        factor = self.split.factor(order)
        kk = square + self.split.screening**2
        x = np.minimum(kk * factor.scale, factor.end)
        value, slope, second = x * 0, x * 0, x * 0
        for each in factor.coefficients.tolist():
            second = second * (x - factor.shift) + 2 * slope
            slope = slope * (x - factor.shift) + value
            value = value * (x - factor.shift) + each
        value[value == 0] = math.inf  # where the multiplier is 0, too
        kk[kk == 0] = math.inf
        power, rest = order / kk, order / kk**2
        if self.split.alpha:
            other = kk + self.split.alpha**2
            power, rest = 1 / kk + 1 / other, 1 / kk**2 + 1 / other**2
        ratio = slope / value
        first = factor.scale * (ratio - factor.decays) - power
        return first, factor.scale**2 * (second / value - ratio**2) + rest

    def _changes(self, weights: dict[float, float]) -> list[Any]:
        """Return derivatives of the multipliers by the periodic edges, at equal volume.

        As weighted sums over relative changes of the edges.
        """
        changes: list[Any] = [0.0 for _ in self.fgc.whole]
        for change, weight in weights.items():
            for n, values in enumerate(self._scaled(1 + change)):
                changes[n] = changes[n] + weight * values
        return changes

    def _scaled(self, scale: float) -> list[Any]:
        """Return the multipliers of a box whose periodic edges are multiplied, at equal volume.

        In double precision.
        """
        other, mesh = copy(self.fgc), copy(self.mesh)
        lattice = mesh.solver_box.lattice
        scales = np.where(lattice.periodic, scale, 1.0)
        tilts = lattice.tilts and tuple(scale * each for each in lattice.tilts)
        enclosed = lattice.enclosed
        if enclosed is not None:
            enclosed = replace(enclosed, matrices=enclosed.matrices * scales)
        sides = scales * lattice.sides
        lattice = replace(lattice, sides=sides, tilts=tilts, enclosed=enclosed)
        mesh.solver_box = replace(mesh.solver_box, lattice=lattice, numbers=None)
        mesh.steps, mesh.box = mesh.steps * scales, mesh.box * scales
        mesh.task = replace(mesh.task, dtype=np.dtype(np.float64))
        other.mesh = mesh
        volume = scale**self.mesh.periodicity
        return [volume * block.multiplier for block in other._blocks(self.split)]


def _product(motion: AnyArray, k: list[Any]) -> Any:
    """Return k.(motion k) at all modes."""
    rows = [sum(x * wave for x, wave in zip(row, k, strict=True)) for row in motion]
    return sum(row * wave for row, wave in zip(rows, k, strict=True))


def of_modes_alone(kind: Interaction) -> bool:
    """Return whether `FarStrain.of_modes` has the far field of w.u, of a potential of charges."""
    plain = not any(each.gradient or each.normal or each.curvature for each in kind.sources)
    flat = kind.symbol.structure == "scalar" and not kind.symbol.alpha
    return plain and flat and kind.symbol.grids == 1 and kind.pair.point_radii is None
