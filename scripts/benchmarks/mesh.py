"""`Spreading`: P2G and G2P to time by any variant, for tables 5, 7 and 8.

The points are uniform in a triply periodic cube, and both layers are spread together in double
precision, with densities in the user's order, as in a repeated application.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np

from parki.arrays import USUAL
from parki.ewald.far.g2p import G2P
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.far.p2g import P2G
from parki.ewald.far.padding import pad
from parki.ewald.far.sizes import G2P_METHODS, P2G_METHODS
from parki.ewald.geometry.lattice import Lattice
from parki.ewald.options import EwaldOptions
from parki.ewald.split.window import KaiserBessel
from parki.ewald.task import Frame, Task

from . import models
from .run import Run

# Grid points along an edge by window P, at 4e6 points. The paper has 256 for P = 8; the numbers for
# 4 and 14 follow from its cell sizes (160, 960 sources) and tolerances.
GRIDS = {4: 144, 8: 256, 14: 336}
BETA = 2.3  # of the windows per point
METHODS = {"P2G": P2G_METHODS[1:], "G2P": G2P_METHODS[1:]}


class Spreading:
    """Points, densities and a grid for one window."""

    def __init__(self, run: Run, n: int, p: int) -> None:
        self.run, self.n, self.p = run, n, p
        self.grid = max(18, 2 * round(GRIDS[p] * (n / 4e6) ** (1 / 3) / 2))
        self.points, self.dens, self.norms = run.cloud("stokes_comb", n)
        self.buffer = run.xp.empty_like(self.dens)

    def mesh(self, spread: str = "", gather: str = "") -> EwaldMesh:
        """Return the mesh with the given variants, by default the usual ones."""
        usual = USUAL[self.run.space.on_device]
        variants = spread or usual[1], gather or usual[2]
        box = np.ones(3)
        steps = box / self.grid
        options = EwaldOptions(3, [1, 1, 1])
        task = Task("stokes_comb", self.run.space, np.dtype(np.float64), options)
        padding = pad(3, box, steps, self.p, 0.1, math.inf, 1e-4)
        window = KaiserBessel(self.p, BETA * self.p)
        return EwaldMesh(task, Frame(Lattice(box, 3)), steps, padding, window, *variants)

    def spread(self, method: str) -> tuple[list[float], Any, models.Work, str]:
        """Return the seconds of P2G, the grid, its work, and the variant that ran."""
        mesh = self.mesh(spread=method)
        p2g = P2G(mesh, self.points, self.norms)
        seconds = self.run.repeat(lambda: p2g.apply(self.dens, self.buffer))
        work = spread_work(p2g, mesh, self.n)
        return seconds, p2g.grid[..., : self.grid].copy(), work, method

    def gather(self, method: str) -> tuple[list[float], Any, models.Work, str]:
        """Return the seconds of G2P, the potential, its work, and the variant that ran."""
        xp, mesh = self.run.xp, self.mesh(gather=method)
        sources = P2G(mesh, self.points, self.norms).sources
        field = xp.random.RandomState(8).standard_normal(size=(3, *mesh.stored))
        field[..., self.grid :] = field[..., : mesh.spill]
        g2p = G2P(mesh, self.points, sources, True)
        pot = xp.zeros((3, self.n))
        g2p.apply(field, {"u": pot})
        first = pot.copy()
        seconds = self.run.repeat(lambda: g2p.apply(field, {"u": pot}))
        return seconds, first, gather_work(g2p, mesh, self.n), g2p.method


def spread_work(p2g: P2G, mesh: EwaldMesh, n: int) -> models.Work:
    """Return the work of spreading ``n`` sources by the variant used."""
    return models.spread(mesh.spread, mesh, n, _teams(p2g.arguments))


def gather_work(g2p: G2P, mesh: EwaldMesh, n: int) -> models.Work:
    """Return the work of gathering for ``n`` targets by the variant used."""
    method = g2p.method.partition(" ")[0]  # the rest says why it replaced another
    return models.gather(method, mesh, n, _teams(g2p.arguments), g2p.targets.tiles.counts)


def _teams(arguments: dict[str, Any]) -> int:
    """Return the number of teams that a kernel with a list of work launches, or 0."""
    return arguments["work"].shape[1] if "work" in arguments else 0


def variants(run: Run, stage: str, n: int, windows: list[int]) -> list[dict[str, Any]]:
    """Return a row for each window and variant of a stage; the default variants come first."""
    rows: list[dict[str, Any]] = []
    for p in windows:
        case = Spreading(run, n, p)
        default = case.mesh()
        first = default.spread if stage == "P2G" else default.gather
        reference: Any = None
        # `p2g_owner` has one thread for each tile, and would take over a minute on a device.
        names = [m for m in METHODS[stage] if not (run.space.on_device and m == "owner")]
        for method in sorted(names, key=lambda name: name != first):
            measured = case.spread if stage == "P2G" else case.gather
            seconds, result, work, ran = measured(method)
            if reference is None:
                reference = result
            scale = float(abs(reference).max()) * np.finfo(np.float64).eps
            rows.append(
                {
                    "P": p,
                    "grid": case.grid,
                    "points": n,
                    "method": method,
                    "ran": ran,
                    "seconds": statistics.median(seconds),
                    "runs": seconds,
                    "differs": float(abs(result - reference).max()) / scale,
                    "work": vars(work),
                }
            )
            del result
    return rows


def baselines(rows: list[dict[str, Any]]) -> dict[int, float]:
    """Return the seconds of the variant ``base`` for each window."""
    return {row["P"]: row["seconds"] for row in rows if row["method"] == "base"}


def efficiency(row: dict[str, Any], bandwidth: float, flops: float) -> float:
    """Return the time of the paper's model T0 over the measured time."""
    machine = models.Ceilings(bandwidth, flops, math.inf)
    return models.Work(**row["work"]).seconds(machine)["T0"] / row["seconds"]
