"""Corrections of pairs near a surface, as blocks and sparse matrices.

An *event* is a target close to one copy of one body: it has the normal at the nearest point, the
signed distance and the node distance there. Without finer nodes, all pairs of an
event within reach change from the singular kernel to the regularised one. With finer nodes, pairs
change to a smooth kernel instead, and the rest of the regularised one is a sum over finer nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.interchange import bincount, flag, positive, shown, told_apart, whole
from parki.solving.pairs import block_matrix
from parki.surfaces.functions import Functions, Smooth, coefficients
from parki.surfaces.kernels import Layer, SurfacePairs
from parki.typing import AnyArray, ArrayModule

SPLIT = 1.5  # width of the smooth kernel in node distances
NARROWEST = 0.1  # width in node distances: half of 1.15, the least one chosen, is rough already
WIDER = 4.0  # how many times larger an error is that an estimate compares with
BEHIND = 3.5  # widths within which nodes that face away are of another part of a thin body
AT_ONCE = {False: 1 << 14, True: 1 << 21}  # pairs, by whether they are on a device


@dataclass(frozen=True)
class Regularisation:
    """How layers are corrected: the order M, the width in node distances, and the side."""

    order: int = 6
    width: float = 1.8
    side: int = 0
    constants: bool = True
    digits: float = 6.0

    @classmethod
    def of(
        cls,
        *,
        accuracy: float,
        order: int | None,
        width: float | None,
        constants: bool,
        side: int = 0,
    ) -> Regularisation:
        """Return the one for a wanted accuracy of smooth densities, on nodes alone.

        Quadratures of sheets on square lattices have the accuracy by this width, and plain sums by
        these distances; higher orders have it with fewer nodes in a wavelength.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        if not 1e-9 <= positive("accuracy", accuracy) <= 1e-2:
            number, *_ = told_apart(accuracy, 1e-9, 1e-2)
            raise ParkiValueError(f"accuracy is {number}; expected 1e-9 to 1e-2")
        if width is not None and positive("width", width) < NARROWEST:
            raise ParkiValueError(
                f"width is {shown(width)}; expected at least {NARROWEST} node distances, as "
                "narrower corrections see no node; leave it out for one by the accuracy"
            )
        if order is not None:
            order = whole("order", order, "a whole number from 1 to 12")
            if order > 12:
                raise ParkiValueError(f"order is {order}; expected a whole number from 1 to 12")
        digits = round(-math.log10(accuracy), 6)
        if order is None:
            order = 2 * math.ceil(min(max(digits, 2.0), 8.0) / 2)
        if width is None:
            width = 0.825 + order / 16 + digits / 10
        return cls(order, float(width), side, flag("constants", constants), digits)

    def wider(self) -> Regularisation:
        """Return one whose width has `WIDER` times the error, with one more digit of reach."""
        width = max(1.15, WIDER ** (1 / (2 * self.order + 1))) * self.width
        return replace(self, width=width, digits=self.digits + 1)

    @property
    def reach(self) -> float:
        """Widths beyond which corrections are small enough."""
        return 4.75 + self.order / 8 - 0.45 * (6 - self.digits)

    @property
    def farthest(self) -> float:
        """Node distances from the surface where sums over nodes are good enough."""
        return 0.5 + 0.5 * self.digits

    @property
    def split_reach(self) -> float:
        """Node distances beyond which the smooth kernel is the sum's."""
        return SPLIT * math.sqrt(2.3 * self.digits + 3.8)

    def radius(self, finer: bool) -> float:
        """Node distances beyond which no pair is corrected."""
        return self.split_reach if finer else self.reach * self.width


class Events(NamedTuple):
    """Targets near copies of bodies.

    Attributes
    ----------
    target : array, shape (n,)
    node : array, shape (n,)
        The node that the target is at, or -1.
    n0, directions : array, shape (3, n)
        Normals at the nearest points, and the directions of tractions.
    distance, spacing : array, shape (n,)
        Signed distances of targets, and node distances.
    times : array, shape (n,)
        How many times finer the nodes are that kernels are regularised on.
    thin : array, shape (n,), bool
    body : array, shape (n,)
        Numbers of the bodies.
    finer : array, shape (n,)
        The finer node that the target is at, or -1.
    excluded : array, shape (n,)
        The node so close that the sum leaves out its pair with the target, or -1.
    """

    target: Any
    node: Any
    n0: Any
    directions: Any
    distance: Any
    spacing: Any
    times: Any
    thin: Any
    body: Any
    finer: Any
    excluded: Any

    def some(self, index: Any) -> Events:
        """Return some of the events."""
        return Events._make(values[..., index] for values in self)


@dataclass(frozen=True)
class Nodes:
    """Nodes and their pairs with events: displacements r, and whether sums leave a pair out."""

    normals: Any
    areas: Any
    event: Any
    index: Any
    r: Any
    excluded: Any


@dataclass(frozen=True)
class Blocks:
    """Blocks (rows, columns, n) of pairs of events and nodes, areas included, and their bumps."""

    event: Any
    index: Any
    values: Any
    bump: Any

    def matrix(self, xp: ArrayModule, events: Events, counts: tuple[int, int]) -> Any:
        """Return the sparse matrix from densities at the nodes to results at the targets."""
        return block_matrix(xp, self.values, events.target[self.event], self.index, counts)


def blocks(
    xp: ArrayModule,
    layer: Layer,
    events: Events,
    nodes: Nodes,
    finer: Nodes | None,
    setting: Regularisation,
    sums: Callable[[], Any],
) -> list[Blocks]:
    """Return the corrections of pairs with the nodes, and with the finer nodes where there are any.

    ``nodes`` and ``finer`` may have pairs beyond reach, which are left out. ``sums`` returns the
    sums of constants over the body of each event, (rows, columns, n).
    """
    if finer is None:
        levels = [_level(xp, layer, events, nodes, setting, (True, False))]
    else:
        kinds = zip((nodes, finer), ((False, True), (True, True)), strict=True)
        levels = [_level(xp, layer, events, rule, setting, what) for rule, what in kinds]
    at = xp.flatnonzero(events.node >= 0)
    known_values = 0.5 * setting.side * layer.jumps(xp, events.n0[:, at], events.directions[:, at])
    if layer.exact is not None and setting.constants and events.distance.size:
        missing = _missing(xp, layer, events, levels, sums().copy(), setting.side)
        known_values += missing[..., at]
        *first, last = levels
        total = bincount(xp, last.event, events.distance.size, last.bump)
        total = xp.where((events.node < 0) & (total > 0), total, xp.inf)
        share = last.bump / total[last.event]
        levels = [*first, replace(last, values=last.values + missing[..., last.event] * share)]
    known = Blocks(at, events.node[at], known_values, xp.zeros(at.size))
    return [_joined(xp, levels[0], known), *levels[1:]]


def _missing(
    xp: ArrayModule, layer: Layer, events: Events, levels: list[Blocks], whole: AnyArray, side: int
) -> Any:
    """Return minus the errors of constants on the body of each event, (rows, columns, n).

    They act on the density at the nearest point: a node's, or the mean that the smooth delta
    function takes of the nodes around. ``whole`` are the sums, to which corrections are added.
    """
    for level in levels:
        for row, column in np.ndindex(layer.rows, layer.columns):
            weights = level.values[row, column]
            whole[row, column] += bincount(xp, level.event, events.distance.size, weights)
    signs = _signs(xp, layer, events, side)
    return layer.missing(xp, 0.5 * (1 - signs), whole)


def _signs(xp: ArrayModule, layer: Layer, events: Events, side: int) -> Any:
    """Return on which side of the surface events are, 1 outside, shape (n,).

    At nodes it is the mean of both sides, if the jump is a multiple of the density there.
    """
    known = (events.node >= 0) & (layer.jump is not None)
    return xp.where(events.distance == 0, xp.where(known, 0, side), xp.sign(events.distance))


def _level(
    xp: ArrayModule,
    layer: Layer,
    events: Events,
    nodes: Nodes,
    setting: Regularisation,
    what: tuple[bool, bool],
) -> Blocks:
    """Return blocks of one set of nodes: of the regularised kernel, the smooth one, or of both."""
    regular, smooth = what
    width = setting.width * events.spacing / events.times
    squared = (nodes.r**2).sum(axis=0)
    reach = setting.split_reach * events.spacing if smooth else setting.reach * width
    near = xp.flatnonzero(squared < reach[nodes.event] ** 2)
    p = coefficients(xp, abs(events.distance) / width, setting.order)
    signs = _signs(xp, layer, events, setting.side)
    parts: list[tuple[Any, Any]] = []
    for first in range(0, near.size, AT_ONCE[xp is not np]):
        some = near[first : first + AT_ONCE[xp is not np]]
        event, n = nodes.event[some], nodes.normals[:, nodes.index[some]]
        r, e, excluded = nodes.r[:, some], events.directions[:, event], nodes.excluded[some]
        value, bump = xp.zeros((layer.rows, layer.columns, some.size)), xp.zeros(some.size)
        if smooth:
            f: Any = Smooth(xp, squared[some], SPLIT * events.spacing[event], excluded)
            plain = layer.block(SurfacePairs(xp, offset=r, normal=n, direction=e, functions=f))
            value += -plain if regular else plain
        if regular:
            n0 = events.n0[:, event]
            rho = xp.sqrt(squared[some]) / width[event]
            behind = events.thin[event] & ((n * n0).sum(axis=0) <= 0) & (rho < BEHIND)
            k = xp.flatnonzero((rho < setting.reach) & ~behind)
            at, b = event[k], events.distance[event[k]]
            f = Functions(xp, squared[some[k]], b, width[at], signs[at], p[:, at], excluded[k])
            value[..., k] += layer.block(
                SurfacePairs(
                    xp,
                    offset=r[:, k],
                    normal=n[:, k],
                    direction=e[:, k],
                    functions=f,
                    n0=n0[:, k],
                    distance=b,
                )
            )
            bump[k] = f.bump()
        areas = nodes.areas[nodes.index[some]]
        parts.append((value * areas, bump * areas))
    nothing = xp.zeros((layer.rows, layer.columns, 0)), xp.zeros(0)
    values, bumps = (
        xp.concatenate(parts_of, axis=-1) for parts_of in zip(nothing, *parts, strict=True)
    )
    return Blocks(nodes.event[near], nodes.index[near], values, bumps)


def _joined(xp: ArrayModule, *several: Blocks) -> Blocks:
    def joined(name: str) -> Any:
        return xp.concatenate([getattr(blocks, name) for blocks in several], axis=-1)

    return Blocks(joined("event"), joined("index"), joined("values"), joined("bump"))
