"""Bodies that are close to each other, overlap, or are inside of one another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.core import EwaldOptions
from parki.interchange import to_host
from parki.surfaces.bodies import Bodies
from parki.surfaces.near import Events

# What to expect where bodies are close: measured by `scripts/surfaces.py gaps`, of two spheres that
# forces push together. The correction of close pairs is as good as elsewhere, but the density
# varies within the gap faster than nodes can tell.
#
# The smallest distance of a node from the other sphere, in node distances, and the largest error
# of velocities, relative to a sphere alone: on three times finer nodes for orders 6, 9 and 13, and
# on nodes alone for 9 and 13.
GAPS = (2.0, 1.04, 0.54, 0.29, 0.14, 0.09)
FINER = (4e-6, 2e-4, 3e-3, 1.5e-2, 4.3e-2, 6.2e-2)
ALONE = (2.2e-3, 7e-3, 1.7e-2, 2.2e-2, 0.16, 0.16)
WORTH = 2e-3  # an error that a warning is worth
MOST_BEND = 0.9  # width over radius of curvature, where errors are a hundredth


# What gaps that nodes do not resolve do to what is solved. The velocity of a rigid body is a mean
# over its surface. Drops have one at each node, whose error in the gap is larger. It depends on the
# flow and on the ratio of viscosities: bubbles move with one velocity in a thin gap, as nothing
# holds them there, and at a ratio of 1 nothing is solved.
RIGID = (
    "expect errors of {error:.1g} in velocities of rigid bodies that are pushed together, and far "
    "smaller ones where they move together"
)
AT_NODES = "expect errors that are largest at the nodes in the gap"


@dataclass(frozen=True)
class LayerUse:
    """What a layer is for.

    Attributes
    ----------
    nested : bool
        Whether a body may be inside of another, as in a cavity.
    in_gaps : str
        What to expect where bodies are close; nothing, if all is known there.
    """

    nested: bool = True
    in_gaps: str = RIGID


def expected(gap: float, finer: bool) -> float:
    """Return the error to expect at a gap in node distances, between the rows of the table."""
    rows = np.log(FINER if finer else ALONE)
    at = np.interp(np.log(max(gap, 1e-3)), np.log(GAPS[::-1]), rows[::-1])
    return 0.0 if gap > GAPS[0] else float(np.exp(at))


def smallest_gap(events: Events) -> tuple[float, int]:
    """Return the smallest distance over h, and the event that has it."""
    if not events.distance.size:
        return math.inf, -1
    distances = abs(events.distance) / events.spacing
    at = int(distances.argmin())
    return float(distances[at]), at


def warnings(
    surface: Bodies, events: Events, options: EwaldOptions, use: LayerUse
) -> Iterator[tuple[str, str]]:
    """Yield kinds and texts of warnings, from the events of the nodes."""
    count = surface.kinds.size
    body, b, pairs = events.body, events.distance, surface.home[events.target] * count + events.body
    crossing = _crossing(events.target, body, b, pairs, count)
    if crossing.size:
        yield (
            "overlap",
            f"{_both(crossing[0], count)} overlap: some nodes of "
            "one are inside of the other, where equations make no sense; move them apart",
        )
        return
    if not use.nested:
        nested = np.concatenate([pairs[b < 0], _deep(surface, pairs, options)])
        if nested.size:
            one, other = divmod(int(nested[0]), count)
            yield (
                "nested",
                f"body {one} is inside of body {other}, where the equation has no fluid; move it "
                "out, or sum layers of your own by parki.LayerPlan",
            )
    gap, at = smallest_gap(events)
    error = expected(gap, surface.has_finer)
    if error < WORTH or not use.in_gaps:
        return
    expect = use.in_gaps.format(error=error)
    yield (
        "gap",
        f"{_both(pairs[at], count)} are {gap:.2g} node distances apart, and nodes do not resolve "
        f"densities in the gap: {expect}; take more nodes, or keep bodies apart",
    )


def too_curved(surface: Bodies, width: float) -> str | None:
    """Return a warning of a width, in node distances, that is too long for the curvature."""
    most = width * max(shape.turns for shape in surface.shapes)
    if most <= MOST_BEND:
        return None
    return (
        f"the surface turns by {most:.2g} radians within the width of the corrections, "
        "which takes 1 % and more of accuracy near its sharpest place; take more nodes, or "
        "finer ones (finer=3), or a smaller order and width: plan.check(density) estimates "
        "the error"
    )


def _both(pair: Any, count: int) -> str:
    """Return the names of two bodies, or of a body and its image."""
    one, other = sorted(divmod(int(pair), count))
    return f"bodies {one} and {other}" if one != other else f"body {one} and its image"


def _crossing(
    target: np.ndarray, body: np.ndarray, b: np.ndarray, pairs: np.ndarray, count: int
) -> np.ndarray:
    """Return pairs of a body and one that some of its nodes are inside of, and some are not."""
    # A node inside of one copy of a body is outside of all others.
    order = np.lexsort((b, target * count + body))
    _, first = np.unique((target * count + body)[order], return_index=True)
    innermost = order[first]
    b, pairs = b[innermost], pairs[innermost]
    return np.intersect1d(pairs[b < 0], pairs[b > 0])


def _deep(surface: Bodies, pairs: np.ndarray, options: EwaldOptions) -> np.ndarray:
    """Return pairs of a body and the one that it is inside of, of those without near nodes."""
    count, first = surface.kinds.size, to_host(surface.nodes)[:, surface.systems[:-1]]
    home, body, r = surface.around(surface.xp.asarray(first, order="C"), options, 0.0)
    pair = home * count + body
    far = np.flatnonzero((home != body) & ~np.isin(pair, pairs))
    deep: np.ndarray = pair[far][surface.inside(body[far], r[:, far])]
    return deep
