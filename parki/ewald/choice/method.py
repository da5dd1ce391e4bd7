"""`MethodParameters`: all that is chosen for a `Problem`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parki.ewald.choice.problem import Problem
from parki.ewald.far.padding import Padding
from parki.ewald.split.core import AnyCore
from parki.ewald.split.protocol import Split


@dataclass(frozen=True)
class MethodParameters:
    """Everything the method needs, in units of the cube root of the box's volume.

    Attributes
    ----------
    problem : Problem
        What the others were chosen for.
    cutoff : float
        Cut-off r_c of the near field.
    split : Split
        Hasimoto's or the prolate split.
    degree : int
        Degree of the near field's polynomials.
    steps : ndarray, shape (3,)
        Grid spacings; along axes in the order `EwaldOptions.axes`.
    points : int
        Window points P along each axis.
    beta : float
        Kaiser-Bessel shape of the window.
    pairs : float
        Estimated pairs within the cut-off.
    read : float
        Estimated sources near the targets that a device works on at a time: `Problem.read`.
    core : Core, Algebraic or None
        Where sources differ from points, if they are blobs.
    errors : dict
        Predicted errors over the tolerance: near, truncation, window.
    seconds : dict
        Predicted times: P2P, P2G, FGC, G2P.
    """

    problem: Problem = field(repr=False)
    cutoff: float
    split: Split
    degree: int
    steps: NDArray[np.float64]
    points: int
    beta: float
    pairs: float
    read: float
    core: AnyCore | None
    errors: dict[str, float]
    seconds: dict[str, float]

    @property
    def p2p(self) -> str:
        """The variant of P2P."""
        return self.problem.p2p

    @property
    def p2g(self) -> str:
        """The variant of P2G."""
        return self.problem.p2g

    @property
    def g2p(self) -> str:
        """The variant of G2P."""
        return self.problem.g2p

    @property
    def near(self) -> float:
        """Radius of the near field: the cut-off, or hardly anything if the grid has all of it."""
        return near_radius(self.core, self.cutoff, self.steps)

    @property
    def padding(self) -> Padding:
        """Sizes of the grid and its transforms."""
        return self.problem.pad(self.steps, self.points, self.cutoff, self.split)

    @property
    def total(self) -> float:
        """Predicted seconds of all stages."""
        return sum(self.seconds.values())


def near_radius(core: AnyCore | None, cutoff: float, steps: NDArray[np.float64]) -> float:
    """Return the radius of the near field: the cut-off, or a step if the grid has the whole sum.

    Pairs within a step, or the box where blobs are far larger, add zeros then.
    """
    return min(float(steps.min()), 1.0) if core and core.everywhere else cutoff
