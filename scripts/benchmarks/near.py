"""`Near`: a near field to time by any variant, for tables 3 and 6 and figures 5 and 6.

The cut-off follows from the number of sources in r_c^3. The split keeps its shape (xi r_c, or the
prolate c) when that number changes, so that all cases use the same kernels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from parki import Expert
from parki.ewald.geometry.lattice import Lattice
from parki.ewald.near.p2p import P2P
from parki.ewald.near.pair import Pair
from parki.ewald.near.sizes import Launch
from parki.ewald.plan import plan_and_sum
from parki.ewald.task import Frame

from .run import Run

PERIODICITY, TOLERANCE = 1, 1e-4
SAMPLED = 200  # targets whose neighbours are counted
# Names of the variants: parki's own, and the paper's as in its tables.
NAMES = {
    "tile": "parki, tiles",
    "staged": "parki, staged",
    "gm1d": "GM-1D",
    "gm2d": "GM-2D",
    "sm1d": "SM-1D",
    "sm2d": "SM-2D",
}


def own_variants(run: Run) -> tuple[str, str]:
    """Return parki's own variants, the one meant for the space first."""
    return ("tile", "staged") if run.device else ("staged", "tile")


def block(sizes: Any) -> str:
    """Return the cell of a block of threads and lanes, or ''."""
    return "({}, {})".format(*sizes) if sizes else ""


class Near:
    """Uniform points that are sources and targets, and the input of P2P.

    Attributes
    ----------
    cell_size : float
        Sources in r_c^3.
    degree : int
        Degree of the near field's polynomials.
    predicted : float
        Seconds of P2P by parki's own model of costs.
    """

    def __init__(
        self,
        run: Run,
        n: int,
        kernel: str = "stokes_comb",
        cell_size: float = 256,
        dtype: str = "f8",
    ) -> None:
        self.run, self.n, self.kernel, self.cell_size = run, n, kernel, cell_size
        self.points, dens, self.norms = run.cloud(kernel, n, dtype)
        self.dens = dens.reshape(-1, n)
        options = run.options(PERIODICITY, TOLERANCE, expert=Expert(sources_per_cell=cell_size))
        # A plan with a density is for one sum, and keeps no lists of pairs, like all variants here.
        plan, _ = plan_and_sum((kernel, self.points, self.points, self.norms, options), dens)
        chosen = plan.parameters
        if plan.setup is None or chosen is None or plan.setup.frame.unit != 1:
            raise RuntimeError("P2P takes solver units, which are not ours in this box")
        self.split, self.degree = chosen.split, chosen.degree
        self.task = plan.task
        self.cutoff = self.first_cutoff = chosen.cutoff
        self.predicted = chosen.seconds["P2P"]

    def resize(self, cell_size: float) -> None:
        """Change the number of sources in r_c^3."""
        self.cell_size = cell_size
        self.cutoff = (cell_size / self.n) ** (1 / 3)

    def pairs(self) -> float:
        """Return the number of pairs closer than r_c, counted for some of the targets."""
        images = math.ceil(self.cutoff)
        ranges = [
            range(-images, images + 1) if axis < PERIODICITY else range(1) for axis in range(3)
        ]
        shifts = self.run.xp.asarray(list(itertools.product(*ranges)))
        sampled = min(self.n, SAMPLED)
        found = 0
        for i in range(sampled):
            for shift in shifts:
                away = self.points - (self.points[:, i] + shift)[:, None]
                found += ((away**2).sum(axis=0) < self.cutoff**2).sum()
        return self.n * int(found) / sampled

    def near_field(self, method: str, launch: Launch | None = None) -> Callable[[], Any]:
        """Return a function that computes the near field by a variant."""
        split = self.split.scaled(self.cutoff / self.first_cutoff)
        pair = Pair(self.cutoff, split.radial_polynomials(self.cutoff, self.degree), method)
        frame = Frame(Lattice(np.ones(3), PERIODICITY))
        p2p = P2P(self.task, frame, pair, self.points, self.points, self.norms, launch=launch)
        if p2p.lists is not None:
            p2p.lists.keep = False
        pot = self.run.xp.empty_like(self.points[: 1 if len(self.dens) == 1 else 3])
        buffer = p2p.buffer(len(self.dens))

        def call() -> Any:
            p2p.apply(self.dens[None], buffer, {"u": pot[None]})
            return pot

        return call
