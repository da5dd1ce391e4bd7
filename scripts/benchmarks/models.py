"""Operations and bytes of parki's kernels, counted as in section 5 of the paper.

They were counted by hand from the kernels. A multiply-add is two operations; an inverse root counts
as the operations that take its time (see ``ceilings.py``). Bytes are requests to global memory
(``moved``) and to scratch memory (``staged``), and the least possible traffic (``least``). An
atomic counts as one number, as in the paper. The combined kernel has 12 numbers per source, 3 per
target, and 4 spread and 3 gathered grid components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from parki.ewald.far import sizes
from parki.ewald.near.sizes import COLUMNS, CPU, DEPTH, DEVICE, TILES, Launch

from .ceilings import L1, L2, Ceilings
from .show import ms

CANDIDATE = 14  # operations of a squared distance
# Operations per pair apart from the inverse root, and polynomials to evaluate, by kernel.
PAIR = {"laplace": (6, 1), "stokes_sl": (28, 2), "stokes_comb": (72, 3)}
SOURCE, TARGET, FOUR, THREE = 12, 6, 4, 3  # numbers
MODELS = ("T0", "T∞", "T∞,L1", "Tf")  # the paper's
TIMES = tuple((name, lambda row, name=name: ms(row["models"][name])) for name in MODELS)


@dataclass(frozen=True)
class Work:
    """Operations and bytes of a kernel."""

    flops: float
    least: float
    moved: float
    staged: float = 0.0

    def seconds(self, machine: Ceilings) -> dict[str, float]:
        """Return the seconds of each of the paper's models, `MODELS`."""
        arithmetic = self.flops / machine.flops
        moved = {
            "T0": self.moved + L1 * self.staged,
            "T∞": self.least + L2 * self.moved + L1 * self.staged,
            "T∞,L1": self.least + L1 * (self.moved + self.staged),
            "Tf": 0.0,
        }
        return {name: arithmetic + b / machine.bandwidth for name, b in moved.items()}


def pair_flops(kernel: str, degree: int, root: float) -> float:
    """Return the operations of a pair within r_c, with ``root`` for an inverse root."""
    own, polynomials = PAIR[kernel]
    return own + root + polynomials * 2 * degree


def tile_candidates(cell_size: float, tile: int) -> float:
    """Return the number of candidate sources of a target in parki's tiles, for uniform points.

    A tile of ``tile`` targets has a column of cells as its base. Its candidates are in the cells of
    the columns around it that intersect the sphere around its bounding box.
    """
    width = 1 / COLUMNS  # in units of r_c
    height = tile / (cell_size * width**2) + 1 / DEPTH
    total = 0.0
    for x in range(-COLUMNS - 1, COLUMNS + 2):
        for y in range(-COLUMNS - 1, COLUMNS + 2):
            gaps = [max(0, abs(v) - 1) * width for v in (x, y)]
            span = 1 - gaps[0] ** 2 - gaps[1] ** 2
            if span > 0:
                total += 2 * math.sqrt(span) + height
    return total * width**2 * cell_size


def near(
    method: str,
    launch: Launch | None,
    n: int,
    pairs: float,
    cell_size: float,
    flops: float,
    device: bool,
) -> Work:
    """Return the work of P2P for ``n`` sources and targets, with ``flops`` for each pair.

    The paper's variants have candidates in 27 cells, and parki's have `tile_candidates`.
    """
    seen = 27 * cell_size
    least = 8.0 * n * (TARGET + SOURCE)
    if launch is None:
        # parki's own variants; TILES is for many targets with few sources near.
        tile = (
            TILES[False, False] if method == "tile" else (DEVICE if device else CPU).staged
        ).targets
        seen = tile_candidates(cell_size, tile)
        if method == "staged":
            # A team copies each source once for all its targets.
            staged = 8 * SOURCE * n * seen
            moved = 8 * n * TARGET + staged / tile
        else:
            # Threads test the same sources' positions, and each reads the sources within reach.
            staged = 0.0
            moved = 8 * (n * TARGET + SOURCE * pairs + 3 * n * seen / tile)
    elif method.startswith("gm"):
        moved = 8 * n * (THREE * (launch.vectors + 1) + SOURCE * seen)
        staged = 0.0
    else:
        moved = 8 * n * (TARGET + SOURCE * seen / launch.targets)
        staged = 8 * n * (THREE * launch.vectors + SOURCE * seen)
    return Work(pairs * flops + n * seen * CANDIDATE, least, moved, staged)


def columns_values(mesh: Any, teams: int, columns: tuple[int, ...]) -> float:
    """Return the grid values per component that teams move when they walk along x through columns.

    A team moves each column with a window's reach around it, and one reach more at its start.
    """
    p, cells = mesh.window.points, mesh.padding.cells
    width, depth = (-(-cells[axis] // columns[axis]) + p - 1 for axis in (1, 2))
    planes = cells[0] * columns[1] * columns[2] + teams * (p - 1)
    return float(width * depth * planes)


def spread(method: str, mesh: Any, n: int, teams: int) -> Work:
    """Return the work of P2G for ``n`` sources.

    ``teams`` is the number that hybrid and tile launch.
    """
    p, terms, values = mesh.window.points, mesh.terms, math.prod(mesh.padding.grid)
    half = (p + 1) // 2
    # A line of P points along z costs 24 operations, and each of its points 14.
    flops = n * (14 * p**3 + 24 * p**2 + 12 * p * terms)
    least = 8.0 * (n * SOURCE + values * FOUR)
    given, staged = n * SOURCE, 0.0
    if method in ("base", "source"):
        moved = given + FOUR * n * p**3
    elif method == "grid":
        seen = 27 * n * half**3  # grid points for which a source is a candidate
        flops = n * p**3 * (12 * terms + 43) + CANDIDATE * seen
        moved = THREE * seen + 9 * n * p**3 + FOUR * values
    elif method == "hybrid":
        reached = (half + p - 1) ** 3
        flops = n * p**3 * 43 + n * 12 * p * terms
        moved = given + FOUR * teams * reached
        staged = n * (1.5 * reached + 15 * p**3)
    elif method == "tile":
        # Each tile reads the sources that reach it. Blocks of columns, a warp each, read windows
        # from scratch memory; teams in the same tile have P - 1 planes in common.
        entries = n * sizes.reached(p)
        flops += 12 * p * terms * (entries - n)
        moved = entries * (SOURCE + 1) + FOUR * (values + teams * (p - 1) * math.prod(sizes.TILE))
        blocks = n * math.prod(side + p - 1 for side in sizes.SIDES) / math.prod(sizes.SIDES)
        staged = entries * (6 * p + 10) + blocks * (2 * p + 14)
    else:  # owner: reads and writes the grid for each source
        moved = given + 2 * FOUR * n * p**3
    return Work(float(flops), least, 8.0 * moved, 8.0 * staged)


def gather(method: str, mesh: Any, n: int, teams: int, columns: tuple[int, ...]) -> Work:
    """Return the work of G2P for ``n`` targets; ``teams`` and ``columns`` are for tile."""
    p, terms, values = mesh.window.points, mesh.terms, math.prod(mesh.padding.grid)
    flops = n * (6 * p**3 + p**2 + 6 * p * terms)
    least = 8.0 * (n * TARGET + values * THREE)
    moved, staged = TARGET * n + THREE * n * p**3, 0.0
    if method == "tile":
        staged = THREE * n * p**3
        moved = TARGET * n + THREE * columns_values(mesh, teams, columns)
    return Work(float(flops), least, 8.0 * moved, 8.0 * staged)
