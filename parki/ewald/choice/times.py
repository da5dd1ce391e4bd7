"""Predicted seconds of the stages of a sum: counts of its work, times the seconds of a machine.

Each variant has its counts in `parki.ewald.choice.cost.COUNTS`; they are of all systems together.
"""

from __future__ import annotations

import math
from functools import lru_cache

from parki.ewald.choice.cost import near_name
from parki.ewald.choice.problem import Problem
from parki.ewald.far.columns import computed, device_threads, usual_staging
from parki.ewald.far.padding import Padding
from parki.ewald.far.sizes import (
    SIDES,
    g2p_part,
    owner_parts,
    owner_rounds,
    owner_tiles,
    p2g_part,
    reached,
    shared_work,
)
from parki.ewald.sums import SUMS

# Time of the kernel of pressure and gradient over the velocity's (H200 1.05, CPU 1.5).
_DERIVATIVES = 1.5
# Tensor targets add this much to it.
_TENSORS = 1.0
# Staged tiles compute the pairs within this many r_c. A cluster inside of the cut-off has hardly
# more of them than pairs within r_c; uniform points have many more.
AROUND = 1.4
# Grid values of all components that a CPU's caches hold: 16 MB of doubles. Values beyond these are
# counted separately, since small sums say nothing about their time.
CACHED = 2e6


def near_time(problem: Problem, cutoff: float, degree: int) -> float:
    """Return the seconds of P2P."""
    variant = problem.machine.counted("p2p", problem.p2p)
    name = near_name(variant, problem.pairs(cutoff) <= problem.kept)
    return problem.machine.time(name, near_counts(problem, variant, cutoff, degree))


def far_times(
    problem: Problem,
    points: int,
    padding: Padding,
    values: tuple[float, float, float],
    scale: float = 1.0,
) -> dict[str, float]:
    """Return the seconds of the far field's stages; arguments are as for `far_counts`."""
    counts = far_counts(problem, points, padding, values, scale)
    stages = zip(("P2G", "FGC", "G2P"), counts.items(), strict=True)
    return {stage: problem.machine.time(name, numbers) for stage, (name, numbers) in stages}


def far_counts(
    problem: Problem,
    points: int,
    padding: Padding,
    values: tuple[float, float, float],
    scale: float = 1.0,
) -> dict[str, tuple[float, ...]]:
    """Return the counts of P2G, FGC and G2P, by the names of `COUNTS`.

    Parameters
    ----------
    problem : Problem
    points : int
        Window points P.
    padding : Padding
    values : tuple of 3 floats
        What `Padding.values` returns for the machine's lengths.
    scale : float
        Refinement of the grid along each axis over the grid of padding and values.
    """
    machine, many = problem.machine, problem.systems * scale**3
    p2g, g2p = machine.counted("p2g", problem.p2g), machine.counted("g2p", problem.g2p)
    grid = float(math.prod(padding.grid)) * many
    boxes, lines, planes = values
    cells = [scale * n for n in padding.cells]
    x, y = owner_tiles(cells, points, problem.lattice.periodic[:2])
    return {
        f"p2g_{p2g}": spread_counts(problem, p2g, points, grid, (problem.systems * x, y)),
        "fgc": transform_counts(problem, many * boxes, many * lines, many * planes),
        f"g2p_{g2p}": gather_counts(problem, g2p, points, grid),
    }


def near_counts(problem: Problem, variant: str, cutoff: float, degree: int) -> tuple[float, ...]:
    """Return the counts of P2P for polynomials of ``degree``.

    Staged tiles compute the pairs around r_c; lists hold the pairs within r_c.
    """
    kind, want, all_targets = SUMS[problem.kernel], problem.want, problem.systems * problem.targets
    polynomials, others = kind.pair.operations
    passes = ("u" in want) + (_DERIVATIVES if want != ("u",) else 0.0)
    if kind.slopes(want, problem.machine.lanes == 1):
        passes = 1.0
    passes += _TENSORS * ("grad_tensor" in want)
    operations = passes * (others + 2 * polynomials * degree)
    targets = all_targets * passes
    if variant == "tile":
        pairs = problem.pairs(cutoff)
        return targets, pairs * passes, pairs * operations, pairs / all_targets * operations
    around = problem.pairs(AROUND * cutoff)
    return targets, around * passes, around * operations


def spread_counts(
    problem: Problem, variant: str, points: int, grid: float, tiles: tuple[int, int]
) -> tuple[float, ...]:
    """Return the counts of P2G with P ``points`` onto components of ``grid`` values.

    ``tiles`` are the tiles of `p2g_owner` along x and y. However many teams there are, each takes
    its part of the sources one by one.
    """
    kind, sources = SUMS[problem.kernel], problem.systems * problem.sources
    components = kind.spread
    if variant == "tile":
        # Windows, and their slopes, for each tile that a source reaches, and the blocks of columns
        # that take it together.
        tables = 2 if kind.gradient else 1
        entries = reached(points) * sources
        blocks = math.prod(side + points - 1 for side in SIDES)
        updates = float(components * points)
        return (
            tables * entries,
            tables * entries * points**2,
            sources * blocks * updates,
            components * grid,
            p2g_part(int(entries)) * updates,
        )
    updates = _updates(sources, components, points, problem.machine.lanes)
    colours, work, idle = rounds(tiles, points, problem.machine.threads)
    return colours, sources, work * updates, idle * updates, components * grid


def transform_counts(
    problem: Problem, boxes: float, lines: float, planes: float
) -> tuple[float, ...]:
    """Return the counts of FGC from the values of one component over all its passes."""
    kind, want = SUMS[problem.kernel], problem.want
    pressure = "p" in want or "grad_tensor" in want
    components = kind.symbol.grids * (kind.components + kind.results + pressure)
    return components * boxes, components * lines, components * planes, _free(problem)


def gather_counts(problem: Problem, variant: str, points: int, grid: float) -> tuple[float, ...]:
    """Return the counts of G2P; a gradient also takes the window's slopes.

    Along y each value is multiplied by both, and plane sums along x after that; tiles multiply by
    all products. Tiles stage values of the grid, and a team takes its targets one by one.
    """
    want, targets, lanes = problem.want, problem.systems * problem.targets, problem.machine.lanes
    slopes = 4 if variant == "tile" else 2
    fields = slopes if "grad_u" in want else "u" in want
    components = SUMS[problem.kernel].gathered * fields + ("p" in want)
    if "grad_tensor" in want:  # second derivatives of three components, and slopes of one
        components = 11
    reads = _updates(targets, components, points, lanes)
    if variant != "tile":
        return float(targets), reads, max(0.0, components * grid - CACHED), _free(problem)
    staged = components * grid * usual_staging(points)
    one = g2p_part(targets) * reads / targets
    # Threads of a device for a target's plane, over the threads with work.
    idle = computed(points, device_threads(points, 8)) / points**2 if lanes == 1 else 1.0
    return float(targets), idle * reads, staged, idle * one, _free(problem)


def _free(problem: Problem) -> float:
    """Return the threads that wait while free directions are transformed."""
    return float(problem.machine.threads if problem.lattice.periodicity < 3 else 0)


def _updates(count: int, components: int, points: int, lanes: int) -> float:
    """Return the values of all windows; along z they are computed in whole vectors."""
    row = -(-points // lanes) * lanes
    return float(count * components * points**2 * row)


@lru_cache(maxsize=1024)
def rounds(tiles: tuple[int, int], points: int, threads: int) -> tuple[float, float, float]:
    """Return the colours of P2G by ``owner``, its work, and what idle threads could do.

    The work and the idle time are relative to the work of tiles in one part. Only tiles of one
    colour run at the same time. The cost of an idle thread depends on the machine: of two threads
    that share a core, one alone is faster.
    """
    rows, columns = ((n - n // 2, n // 2) for n in tiles)
    colours = [r * c for r in rows for c in columns if r * c]
    parts = [(n, owner_parts(n, threads, points)) for n in colours]
    work = sum(n * shared_work(s) for n, s in parts)
    most = sum(owner_rounds(n, s, threads) for n, s in parts)
    every = math.prod(tiles)
    return float(len(colours)), work / every, (most * threads - work) / every
