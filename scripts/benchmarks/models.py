"""Operations and bytes of parki's kernels, as section 5 of the paper counts those of its own.

Counted by hand from the kernels: a multiply-add is two operations, an inverse root as many as take
its time (see ``ceilings.py``). Bytes are those asked of global memory (``moved``) and of scratch
memory (``staged``), and those that must move at least once (``least``); an atomic counts as one
number, as in the paper. The combined kernel has 12 numbers per source, 3 per target, and 4 grid
components out, 3 back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from parki.ewald.far import sizes
from parki.ewald.near.sizes import COLUMNS, CPU, DEPTH, DEVICE, TILES, Launch

from .ceilings import L1, L2, Ceilings

CANDIDATE = 14  # operations that find a squared distance
# Operations per pair apart from the inverse root, and polynomials to evaluate, by kernel.
PAIR = {"laplace": (6, 1), "stokes_sl": (28, 2), "stokes_comb": (72, 3)}
SOURCE, TARGET, FOUR, THREE = 12, 6, 4, 3  # numbers
MODELS = ("T0", "T∞", "T∞,L1", "Tf")  # of the paper
LABELS = {"T0": "$T_0$", "T∞": r"$T_\infty$", "T∞,L1": r"$T_{\infty,L1}$", "Tf": "$T_f$"}


@dataclass(frozen=True)
class Work:
    """What a kernel does."""

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
    """Return the operations of a pair within r_c; ``root`` are those of an inverse root."""
    own, polynomials = PAIR[kernel]
    return own + root + polynomials * 2 * degree


def tile_candidates(cell_size: float, tile: int) -> float:
    """Return how many sources a target of parki's tiles looks at, for uniform points.

    A tile of ``tile`` targets has a column of cells as its base; it takes all cells of the columns
    around it that reach into the sphere around its bounding box.
    """
    width = 1 / COLUMNS  # lengths over r_c
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
    """Return the work of P2P for ``n`` sources and targets; ``flops`` are those of a pair.

    A target of the paper's variants looks at 27 cells, one of parki's at `tile_candidates`.
    """
    seen = 27 * cell_size
    least = 8.0 * n * (TARGET + SOURCE)
    if launch is None:
        # Of many targets, with few sources near.
        tile = (
            TILES[False, False] if method == "tile" else (DEVICE if device else CPU).staged
        ).targets
        seen = tile_candidates(cell_size, tile)
        if method == "staged":
            # A team copies sources, each once for all its targets.
            staged = 8 * SOURCE * n * seen
            moved = 8 * n * TARGET + staged / tile
        else:
            # Threads look at the positions of the same sources, and read those in reach themselves.
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
    """Return the grid values of a component that teams walking along x through columns move.

    Each column with a window's reach around it, and a reach more where a team begins.
    """
    p, cells = mesh.window.points, mesh.padding.cells
    width, depth = (-(-cells[axis] // columns[axis]) + p - 1 for axis in (1, 2))
    planes = cells[0] * columns[1] * columns[2] + teams * (p - 1)
    return float(width * depth * planes)


def spread(method: str, mesh: Any, n: int, teams: int) -> Work:
    """Return the work of P2G for ``n`` sources.

    ``teams`` are those that hybrid and tile launch.
    """
    p, terms, values = mesh.window.points, mesh.terms, math.prod(mesh.padding.grid)
    half = (p + 1) // 2
    # By columns: a line of P points along z costs 24 operations, each of its points 14.
    flops = n * (14 * p**3 + 24 * p**2 + 12 * p * terms)
    least = 8.0 * (n * SOURCE + values * FOUR)
    given, staged = n * SOURCE, 0.0
    if method in ("base", "source"):
        moved = given + FOUR * n * p**3
    elif method == "grid":
        seen = 27 * n * half**3  # points of the cubes around a source, at which it is looked at
        flops = n * p**3 * (12 * terms + 43) + CANDIDATE * seen
        moved = THREE * seen + 9 * n * p**3 + FOUR * values
    elif method == "hybrid":
        reached = (half + p - 1) ** 3
        flops = n * p**3 * 43 + n * 12 * p * terms
        moved = given + FOUR * teams * reached
        staged = n * (1.5 * reached + 15 * p**3)
    elif method == "tile":
        # Sources once for each tile they reach. Blocks of columns, a warp each, read their windows
        # from scratch memory; teams that share a tile write P - 1 planes in common.
        entries = n * sizes.reached(p)
        flops += 12 * p * terms * (entries - n)
        moved = entries * (SOURCE + 1) + FOUR * (values + teams * (p - 1) * math.prod(sizes.TILE))
        blocks = n * math.prod(side + p - 1 for side in sizes.SIDES) / math.prod(sizes.SIDES)
        staged = entries * (6 * p + 10) + blocks * (2 * p + 14)
    else:  # owner: reads and writes the grid as it goes
        moved = given + 2 * FOUR * n * p**3
    return Work(float(flops), least, 8.0 * moved, 8.0 * staged)


def gather(method: str, mesh: Any, n: int, teams: int, columns: tuple[int, ...]) -> Work:
    """Return the work of G2P for ``n`` targets; ``teams`` and ``columns`` are those of tile."""
    p, terms, values = mesh.window.points, mesh.terms, math.prod(mesh.padding.grid)
    flops = n * (6 * p**3 + p**2 + 6 * p * terms)
    least = 8.0 * (n * TARGET + values * THREE)
    moved, staged = TARGET * n + THREE * n * p**3, 0.0
    if method == "tile":
        staged = THREE * n * p**3
        moved = TARGET * n + THREE * columns_values(mesh, teams, columns)
    return Work(float(flops), least, 8.0 * moved, 8.0 * staged)


def convolve(mesh: Any) -> Work:
    """Return the work of FGC: transforms in passes, one along each axis, that read and write.

    Passes cannot share what they read: all of it counts as what must move. Where axes are free: the
    real transform along x, padding, planes, the multiplier, and back.
    """
    padding, components = mesh.padding, FOUR + THREE
    grid = math.prod(padding.grid)
    if mesh.periodicity == 3:
        values, modes = grid, grid / 2
        moved = components * (8 * grid + 16 * modes + 2 * 32 * modes)
    else:
        x, y, z = padding.local[0], *padding.grid[1:]
        half, modes = (x // 2 + 1) * y * z, padding.values().planes / 4
        values = 2 * modes + x * y * z
        moved = components * (8 * grid + 2 * 16 * half + 16 * modes + 2 * 32 * modes)
    moved += (16 * components + 8) * modes
    flops = components * 2.5 * values * math.log2(math.prod(padding.local)) + 40 * modes
    return Work(flops, float(moved), float(moved))
