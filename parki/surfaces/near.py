"""Events near surfaces, and how they are corrected.

An *event* is a target close to one copy of one body: it has the normal at the nearest point, the
signed distance and the node distance there. Without finer nodes, all pairs of an
event within reach change from the singular kernel to the regularised one. With finer nodes, pairs
change to a smooth kernel instead, and the rest of the regularised one is a sum over finer nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.interchange import flag, positive, shown, told_apart, whole
from parki.surfaces.kernels import Layer

SPLIT = 1.5  # width of the smooth kernel in node distances
NARROWEST = 0.1  # width in node distances: half of 1.15, the least one chosen, is rough already
WIDER = 4.0  # how many times larger an error is that an estimate compares with
BEHIND = 3.5  # widths within which nodes that face away are of another part of a thin body


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
    """Targets near copies of bodies, as arrays of NumPy.

    Attributes
    ----------
    target : ndarray, shape (n,)
    node : ndarray, shape (n,)
        The node that the target is at, or -1.
    n0, directions : ndarray, shape (3, n)
        Normals at the nearest points, and the directions of tractions.
    distance, spacing : ndarray, shape (n,)
        Signed distances of targets, and node distances.
    times : ndarray, shape (n,)
        How many times finer the nodes are that kernels are regularised on.
    thin : ndarray, shape (n,), bool
    body : ndarray, shape (n,)
        Numbers of the bodies.
    finer : ndarray, shape (n,)
        The finer node that the target is at, or -1.
    excluded : ndarray, shape (n,)
        The node so close that the sum leaves out its pair with the target, or -1.
    """

    target: np.ndarray
    node: np.ndarray
    n0: np.ndarray
    directions: np.ndarray
    distance: np.ndarray
    spacing: np.ndarray
    times: np.ndarray
    thin: np.ndarray
    body: np.ndarray
    finer: np.ndarray
    excluded: np.ndarray

    def some(self, index: Any) -> Events:
        """Return some of the events."""
        return Events._make(values[..., index] for values in self)

    def signs(self, layer: Layer, side: int) -> np.ndarray:
        """Return on which side of the surface events are, 1 outside, shape (n,).

        At nodes it is the mean of both sides, if the jump is a multiple of the density there.
        """
        known = (self.node >= 0) & (layer.jump is not None)
        return np.where(self.distance == 0, np.where(known, 0, side), np.sign(self.distance))
