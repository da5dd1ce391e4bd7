"""The bytes that a plan needs, predicted from its parameters, and whether they are free.

The prediction follows the allocations of the stages (`parki.ewald.near.p2p`, `p2g`, `fgc`, `g2p`)
part by part. The work area of a device's transforms is not documented: it is counted as found on
an H200 for most lengths; some lengths need none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parki.errors import ParkiMemoryError, ParkiValueError
from parki.ewald.choice.parameters import Parameters, select
from parki.ewald.choice.problem import Problem
from parki.ewald.far.padding import Padding
from parki.ewald.far.sizes import (
    AT_ONCE,
    IN_ORDER,
    LINES,
    PART,
    along_z,
    field_rows,
    list_bytes,
    parts,
    scratch_before,
    sizes_of,
    workers,
)
from parki.ewald.near.sizes import cells_of, choose_launch, near_tile
from parki.ewald.options import MOST_POINTS, MOST_RECORDED
from parki.ewald.points import result_rows
from parki.ewald.sums import SUMS
from parki.memory import in_words
from parki.runtime import ExecutionSpace
from parki.runtime.spaces import LITTLE, free_memory
from parki.settings import thread_count

# Larger cut-offs to propose where a plan does not fit: their grids are coarser.
LARGER = (1.25, 1.6, 2.0, 2.5)
# On an H200, planes with edges longer than LONG take a work area of their own size, except these
# lengths (by the bytes of a number), which take none. Longer lines take twice their size.
LONG = 1024
LIGHT = {8: (2048,), 4: (1050, 1120, 1200, 1536, 1680, 2048, 2100, 2400)}
# Most values of a component: the device's FFT library counts with 32 bits.
MOST_VALUES = 2**31 - 1


@dataclass(frozen=True)
class Memory:
    """Bytes, as predicted.

    Attributes
    ----------
    parts : dict
        Bytes of each part while the plan is applied, with the results, without the user's arrays.
    held : float
        Bytes in use when parameters are chosen: points in the box, and scaled normals.
    peak : float
        Most bytes in use at a time, while the plan is made or first applied.
    """

    parts: dict[str, float]
    held: float
    peak: float

    @property
    def largest(self) -> str:
        """The largest part and its size, in words."""
        name = max(self.parts, key=lambda part: self.parts[part])
        return f"{name} ({in_words(self.parts[name])})"

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {in_words(size)}" for name, size in self.parts.items() if size)
        return f"{in_words(self.peak)} at most: {parts}"


@dataclass(frozen=True)
class Use:
    """What memory depends on, apart from the problem and the parameters.

    Attributes
    ----------
    space : ExecutionSpace
    dtype : dtype
    same : bool
        Whether the targets are the sources.
    flux : bool
        Whether the double layer's mean keeps the points.
    once : bool
        Whether the first application is part of making the plan.
    more : int
        Rows of results that are not summed, as of a stress that is wanted with the gradient.
    mixed : bool
        Whether arrays are float64 and ``dtype`` is the dtype of the arithmetic alone.
    finer : bool
        Whether positions are float64, and ``dtype`` is float32.
    ordered : bool
        Whether the user's arrays are copied, as their axes have another order in the solver.
    labels : tuple of 2 ints or None
        Targets and sources whose labels are common, where pairs are left out.
    """

    space: ExecutionSpace
    dtype: Any
    same: bool
    flux: bool
    once: bool
    more: int = 0
    mixed: bool = False
    finer: bool = False
    ordered: bool = False
    labels: tuple[int, int] | None = None

    def copied(self, problem: Problem, targets: int, sources: int) -> int:
        """Return how many numbers of points, of a density and of a result are copied."""
        kind = SUMS[problem.kernel]
        most = max(result_rows(problem.kernel, name) for name in problem.want)
        per_source = 3 + 3 * kind.normals + kind.rows
        return self.ordered * (per_source * sources + (3 * (not self.same) + most) * targets)

    def kept(self, kernel: str, targets: int, sources: int) -> int:
        """Return how many numbers of points and normals a plan keeps as they were given."""
        per_source = 3 + 3 * SUMS[kernel].normals
        return (not self.once) * (per_source * sources + 3 * (not self.same) * targets)


def predict(problem: Problem, chosen: Parameters, use: Use) -> Memory:
    """Return the memory that a plan with these parameters needs."""
    item = np.dtype(use.dtype).itemsize
    padding = problem.pad(chosen.steps, chosen.points, chosen.cutoff, chosen.split)
    held, near, far = points_bytes(problem, chosen, use, padding, item)
    rows = sum(result_rows(problem.kernel, name) for name in problem.want)
    systems, kind = problem.systems, SUMS[problem.kernel]
    grids = systems * kind.symbol.grids
    targets, sources = systems * problem.targets, systems * problem.sources
    given = 8 if use.mixed else item
    results = (rows + use.more) * given * targets
    dens = kind.near_rows * item * sources
    dens += given * use.copied(problem, targets, sources)
    if use.mixed:  # the sums, before they become results
        dens += rows * item * targets
    if use.space.on_device and max(targets, sources) <= MOST_RECORDED:
        dens += kind.rows * given * sources + rows * given * targets
    inputs, outputs = kind.components, field_rows(problem.kernel, problem.want)
    components, on_device = max(inputs, outputs), use.space.on_device
    x, y, z = padding.grid
    y *= grids  # side by side
    length = padding.local[0]
    free = problem.lattice.periodicity < 3
    sizes = padding, grids * components, item, on_device
    block, multiplier = block_sizes(*sizes, tilted=problem.lattice.tilted)
    numbers = grids * math.prod(padding.modes)
    component = 2 * item * numbers
    grid = item * float(x * y * _stored(problem, chosen, use, z))
    padded = 2 * item * block * grids * components
    if on_device:
        buffer = item * length * y * z if length > x else 0.0
        area = work_area(padding, max(buffer, grid), padded, item) if free else component
        if not free and grids == 1 and x * y * _stored(problem, chosen, use, z) <= AT_ONCE:
            area *= components
        modes, transforms = components * component, area + buffer
    else:
        before = scratch_before(components, 2 * numbers, x * y * z, item)
        modes = item * before
        # Real transforms of each thread's part, planes or rows of lines: what SciPy returns, or
        # DUCC's padded values.
        made = component * (components if before >= 2 * numbers * components else 1)
        threads = workers(made / (2 * item), thread_count())
        transforms = 2 * min(made, threads * max(PART, made / (y if free else x)))
    parts = {
        "points": near + far + given * use.kept(problem.kernel, targets, sources),
        "densities and results": dens + results,
        "grid": components * grid,
        "modes": modes,
        "padded block": padded,
        "multiplier": item * multiplier,
        "transforms": transforms,
    }
    total = sum(parts.values())
    # Points are dropped once the plan is made; transforms and results do not exist before that.
    peak = max(total + (held if use.once else 0), total + held - results - transforms)
    return Memory(parts, held, peak)


def is_free(needed: Memory, space: ExecutionSpace) -> bool:
    """Return whether there is the memory for a plan whose points are in the box already."""
    return needed.peak <= LITTLE or needed.peak <= free_memory(space) + needed.held


def check_memory(
    problem: Problem, chosen: Parameters, use: Use, length: float, release: Callable[[], None]
) -> Memory:
    """Return the memory that a plan needs; refuse it where that is not free.

    Parameters
    ----------
    problem, chosen, use
    length : float
        Cube root of the box's volume, in the user's unit.
    release : callable
        Frees what is kept for later sums; called where memory is short.

    Raises
    ------
    ParkiMemoryError
        If the memory is not free; the message says what would fit.
    ParkiValueError
        If the grid has more points than indices can count.
    """
    needed = predict(problem, chosen, use)
    if not is_free(needed, use.space):
        release()
    if is_free(needed, use.space):
        _check_values(problem, chosen, use)
        return needed
    free = free_memory(use.space) + needed.held
    proposals = list(fitting(problem, chosen, use, free, length))
    where = "on the device" if use.space.on_device else "here"
    raise ParkiMemoryError(
        f"the plan needs {in_words(needed.peak)}, but {in_words(free)} are free {where}; most of "
        f"it is for its {needed.largest}. What would fit: "
        + ("; ".join(proposals) or "nothing near")
    )


def points_bytes(
    problem: Problem, chosen: Parameters, use: Use, padding: Padding, item: int
) -> tuple[float, float, float]:
    """Return bytes of the wrapped points, and of the points sorted for near and far field."""
    systems = problem.systems
    sources, targets = systems * problem.sources, systems * problem.targets
    both = sources if use.same else sources + targets
    kind = SUMS[problem.kernel]
    normals = 3 * item * sources if kind.normals else 0
    on_device = use.space.on_device
    # A sorted list has points, order and cell of each, and two numbers for each cell.
    each = 3 * item + 8
    split = 9 * item if use.finer else 0  # positions in double, and what single lacks of them
    lists = 1 if use.same else 2
    launch = choose_launch(chosen.p2p, use.space)
    shape = cells_of(problem.lattice.edges, chosen.near, sources, launch, use.space, systems)
    near = (each + split) * both + 8.0 * lists * systems * math.prod(shape) + normals
    kinds = 1 + (on_device and problem.want != ("u",))
    tile = near_tile(use.space, chosen.p2p, targets, chosen.read, use.dtype)
    tiles = targets / tile.targets + systems * shape[0] * shape[1]
    near += 12.0 * kinds * min(tiles, targets)
    # Targets that are the sources keep their order, if the variants of both stages allow it.
    one_order = use.same and chosen.p2g != "base" and chosen.g2p == "target"
    far = float(each) * (sources if one_order else sources + targets) + normals
    cells = systems * math.prod(padding.cells)
    results = [result_rows(problem.kernel, name) for name in problem.want]
    if chosen.p2g == "tile":
        far += list_bytes(chosen.points, sources, cells)
    if chosen.g2p == "tile":
        far += 8.0 * cells / 16
    if not on_device and targets >= IN_ORDER:  # as G2P then gathers in order
        far += (8 + sum(results) * item) * targets
    if any(kind.symbol.laplacians):
        # A second gathering, and the largest of its results times their factors.
        far += item * (sum(results) + max(results)) * targets
        if kind.pair.marks is not None:
            # Marks as given, and what the Laplacians are multiplied by, for each row if rows
            # differ; targets with their marks, sorted.
            lifts = kind.rows if np.ndim(kind.lifts) else 1
            far += item * ((2 + lifts) * sources + 7 * targets)
    if kind.contacts:
        # A near field of its own: points sorted with their marks, a density and results.
        near += (each + (2 + kind.near_rows + sum(results)) * item) * both
    if use.labels is not None:
        # Points with a row of labels, and the labels; points by labels, and the densities.
        near += (4 * item + 4) * (sources + targets)
        own = 3 * item * (1 + use.finer) + 4
        rows = 3 * kind.normals + kind.rows
        near += (own + 8) * use.labels[0] + (own + rows * item) * use.labels[1]
    held = 3 * item * both + normals
    if use.flux:  # points as given, in double precision if that is mixed; and the moments
        far += held * (2 if use.finer else 1) + 32 * sources
    return held, near, far


def block_sizes(
    padding: Padding,
    components: int,
    item: int,
    on_device: bool,
    part: tuple[int, int] | None = None,
    tilted: bool = False,
) -> tuple[float, float]:
    """Return the modes of padded blocks that are convolved at a time, and the multiplier's values.

    A device takes its largest block, a CPU one for each thread. ``part`` is a range of modes along
    the first axis, from the first to the last + 1; None takes all. Multipliers of tilted boxes are
    not folded along the second axis.
    """
    if padding.whole:
        x, y, z = padding.grid
        return 0.0, float(x * (y if tilted else y // 2 + 1) * (z // 2 + 1))
    each = 2 * item * components
    sizes = [
        (last - first, y, z)
        for first, last, (_, y, z), _ in padding.blocks(sizes_of(on_device).block // each, part)
    ]
    threads, block = 1, 0.0
    if not on_device:
        threads = workers(components * sum(n * y * z for n, y, z in sizes), thread_count())
    for n, y, z in sizes:
        size = n if on_device else math.ceil(n / parts(each * n * y * z, threads))
        block = max(block, float(size * y * z))
    values = sum(n * (y if tilted else y // 2 + 1) * (z // 2 + 1) for n, y, z in sizes)
    return min(threads, sum(n for n, _, _ in sizes)) * block, float(values)


def work_area(padding: Padding, lines: float, padded: float, item: int) -> float:
    """Return the bytes of the work area that a device's transforms of lines and blocks share.

    ``lines`` are the bytes of all lines along x, ``padded`` the bytes of a block of planes.
    """
    lengths = {length for level in padding.levels for length in level.lengths[1:]}
    heavy = any(length > LONG and length not in LIGHT[item] for length in lengths)
    times = 2 if padding.local[0] > LONG else 1
    return max(times * min(lines, LINES), padded if heavy else 0.0)


def _stored(problem: Problem, chosen: Parameters, use: Use, z: int) -> int:
    """Return the grid's planes along z, spill included."""
    wraps = problem.lattice.periodicity == 3
    return z + along_z(chosen.points, use.dtype, wraps, use.space.on_device)[1]


def _check_values(problem: Problem, chosen: Parameters, use: Use) -> None:
    padding = problem.pad(chosen.steps, chosen.points, chosen.cutoff, chosen.split)
    _, y, z = padding.grid
    grids = problem.systems * SUMS[problem.kernel].symbol.grids
    values = padding.local[0] * grids * y * _stored(problem, chosen, use, z)
    if use.space.on_device and values > MOST_VALUES:
        raise ParkiValueError(
            f"the grid has {values} values with its padding along x; transforms on a device take "
            f"{MOST_VALUES}; raise the cut-off (cutoff, or sources_per_cell of Expert), "
            "or share the points out over ranks"
        )


def fitting(
    problem: Problem, chosen: Parameters, use: Use, free: float, length: float
) -> Iterator[str]:
    """Yield proposals that would fit, in words."""
    seconds = chosen.total

    def fits(changed: Problem, cutoff: float | None) -> Parameters | None:
        changed = replace(changed, cutoff=cutoff)
        try:
            proposal = select(changed)
        except ParkiValueError:
            return None
        return proposal if predict(changed, proposal, use).peak <= free else None

    # Where the user asked for a cut-off, parki's own choice may be enough.
    own = fits(problem, None)
    cutoffs = [ratio * chosen.cutoff for ratio in LARGER] + ([own.cutoff] if own else [])
    for cutoff in sorted(cutoffs):
        proposal = fits(problem, cutoff)
        if proposal is not None:
            ratio = proposal.total / seconds
            cost = f"takes {ratio:.2g} times as long" if ratio > 1 else "is faster, too"
            yield f"cutoff={proposal.cutoff * length:.4g}, which {cost}"
            break
    narrow = chosen.points <= MOST_POINTS[np.dtype(np.float32)]
    if use.dtype == np.float64 and problem.tolerance >= 1e-6 and narrow:
        single = predict(problem, chosen, replace(use, dtype=np.dtype(np.float32)))
        if single.peak <= free:
            yield f"float32 ({in_words(single.peak)})"
    least, most = 0.0, 1.0
    for _ in range(8):
        part = (least + most) / 2
        fewer = replace(
            problem,
            targets=max(1, int(part * problem.targets)),
            sources=max(1, int(part * problem.sources)),
        )
        if fits(fewer, None) is None:
            most = part
        else:
            least = part
    # Propose fewer than fit: points with other clustering may take a larger grid.
    if least and own is None:
        sources, targets = (_down(0.85 * least * n) for n in (problem.sources, problem.targets))
        yield f"about {sources:.2g} sources and {targets:.2g} targets"


def _down(number: float) -> float:
    """Return a number rounded down to two digits, since a proposal has to fit."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return math.floor(number / unit) * unit
