"""Fading: the error due to the fading of kernels, in boxes of many aspect ratios.

Pairs of random points are summed by their modes, without windows: once with the kernels of
`cropped`, and once with kernels that fade much later and over twice the distance. The difference is
the error of fading only, relative to the promised error. It tests the bounds of
`parki.ewald.far.padding.fading`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
from benchmarks.run import Run

import parki
from parki.ewald.far.multiplier import cropped
from parki.ewald.far.padding import Padding, pad
from parki.ewald.split import estimates
from parki.ewald.split.prolate import Prolate, solve
from parki.ewald.sums import SUMS
from parki.ewald.task import Task
from parki.runtime import get_execution_space

EDGES = (0.125, 0.5, 1.0, 2.0, 8.0)
TOLERANCES = (0.1, 1e-3, 1e-6)
CUTOFFS = (0.2, 1.0)  # in units of the cube root of the volume
KERNELS = ("laplace", "stokes_sl", "stokes_dl")
PAIRS = 40
PERIODIC = 2  # modes along the periodic axis; the kernels of further modes decay without fading
FINER = 1.5  # grid refinement over the coarsest grid that holds the band


def boxes(periodicity: int) -> list[tuple[float, float, float]]:
    """Return boxes whose first edge is 1, without permutations of equivalent axes."""
    if periodicity == 2:
        return [(1.0, 1.0, edge) for edge in EDGES] + [(1.0, 4.0, edge) for edge in EDGES]
    found = itertools.combinations_with_replacement(sorted(EDGES, reverse=True), 2)
    return [(1.0, *pair) for pair in found]


def longer(padding: Padding, box: Any, steps: Any, periodicity: int, by: float) -> Padding:
    """Return a padding whose kernels fade three times farther out, over ``by`` times the width."""
    kept, width = 3 * padding.kept, by * padding.width
    free = range(periodicity, 3)
    lengths = [
        math.ceil((2 * (box[a] + kept) + width) / steps[a]) if a in free else padding.local[a]
        for a in range(3)
    ]
    level = padding.levels[0]._replace(lengths=(lengths[0], lengths[1], lengths[2]))
    period = max(box[a] for a in free) + padding.diameter + 2 * (kept + width)
    if periodicity == 2:
        period = lengths[2] * steps[2]
    # Both errors of fading fall as the width grows, if the steepness grows as its square root.
    steepness = math.sqrt(by) * padding.steepness
    return dataclasses.replace(
        padding, levels=(level,), period=period, kept=kept, width=width, steepness=steepness
    )


def field(
    task: Task, padding: Padding, box: Any, steps: Any, split: Any, apart: Any, density: Any
) -> Any:
    """Return the local modes' field at displacements ``apart`` from single sources."""
    kernel, lengths = task.sum, padding.local
    waves = [
        2 * math.pi / (n * h) * np.arange(n // 2 + 1) for n, h in zip(lengths, steps, strict=True)
    ]
    if task.options.periodicity:
        waves[0] = waves[0][:PERIODIC]
    square = waves[0][:, None, None] ** 2 + waves[1][:, None] ** 2 + waves[2] ** 2
    values = cropped(task, padding, np.array(box), np.array(steps), waves)
    values = values * split.factor(kernel.symbol.order).at(square) * (square <= split.band**2)
    for axis, k in enumerate(waves):
        count = np.where(k == 0, 1.0, 2.0)
        count[k > 0.999 * math.pi / steps[axis]] = 1.0
        values *= count.reshape([-1 if axis == a else 1 for a in range(3)])
    values /= math.prod(lengths) * math.prod(steps)
    slopes = []  # derivatives 0 to 3 of the waves along each axis
    for k, x in zip(waves, apart, strict=True):
        phase = np.multiply.outer(k, x)
        slopes.append([k[:, None] ** n * np.cos(phase + n * math.pi / 2) for n in range(4)])

    def derivative(*axes: int) -> Any:
        orders = [axes.count(a) for a in range(3)]
        x, y, z = (slope[order] for slope, order in zip(slopes, orders, strict=True))
        rows = np.einsum("abc,cn->abn", values, z)
        return np.einsum("abn,an,bn->n", rows, x, y)

    if kernel.symbol.order == 1:
        return derivative() * density[0]
    if not kernel.normals:
        second = np.array([[derivative(a, b) for b in range(3)] for a in range(3)])
        laplacian = np.trace(second)
        return np.einsum("abn,bn->an", second, density) - laplacian * density
    third = np.empty((3, 3, 3, apart.shape[1]))
    for axes in itertools.combinations_with_replacement(range(3), 3):
        found = derivative(*axes)
        for order in set(itertools.permutations(axes)):
            third[order] = found
    # Density and normal are along two axes, in both orders.
    laplacian = np.einsum("aabn->bn", third)
    u = 2 * np.einsum("abcn,bn,cn->an", third, density, density[::-1])
    for q, n in ((density, density[::-1]), (density[::-1], density)):
        u -= q * (n * laplacian).sum(axis=0)
    return u - laplacian * (density * density[::-1]).sum(axis=0)


def error(
    kernel: str, periodicity: int, box: Any, tolerance: float, cutoff: float, name: str
) -> float:
    """Return the rms error of pairs over the promise."""
    length = math.prod(box) ** (1 / 3)
    term = SUMS[kernel].terms["u"][0].name
    periods = [edge / length for edge in box[:periodicity]]

    def near(split: Any) -> float:
        return estimates.near(term, split, cutoff, 1.0, periods).rms / tolerance

    split = solve(name, cutoff, near, math.sqrt(0.2)).scaled(length)
    largest = min(split.band, 2 * math.pi * split.psi0**2 * cutoff * length)
    step = math.pi / largest / (FINER if isinstance(split, Prolate) else 1.0)
    steps = [
        edge / max(18, round(edge / step)) if axis < periodicity else step
        for axis, edge in enumerate(box)
    ]
    rng = np.random.default_rng(0)
    apart = (rng.random((3, PAIRS)) - rng.random((3, PAIRS))) * np.array(box)[:, None]
    density = rng.standard_normal((3, PAIRS))
    options = parki.EwaldOptions(periodicity, box, tolerance)
    task = Task(kernel, get_execution_space("CPU"), np.dtype(np.float64), options)
    given = (cutoff * length, split.band, tolerance)
    padding = pad(periodicity, np.array(box), np.array(steps), 5, *given)
    exact = longer(padding, box, steps, periodicity, 2.0)
    values = [field(task, p, box, steps, split, apart, density) for p in (padding, exact)]
    difference = np.atleast_2d(values[0] - values[1])
    if not SUMS[kernel].normals:
        # Remove a constant times the density, which the gauge corrects.
        own = density[: len(difference)]
        constant = (own * difference).sum(axis=1) / (own**2).sum(axis=1)
        difference = difference - constant[:, None] * own
    power = 2 if SUMS[kernel].normals else 1
    promise = tolerance / length**power
    size = (density[: len(difference)] ** 2).sum(axis=0) ** power
    return float(np.sqrt((difference**2).sum(axis=0).mean() / size.mean())) / promise


def measure(run: Run) -> dict[str, Any]:
    """Return the worst box for each kernel, periodicity and split."""
    rows = []
    names = ("prolate", "hasimoto")
    for periodicity, kernel, name in itertools.product((0, 1, 2), run.kernel or KERNELS, names):
        tolerances = run.tolerance or TOLERANCES
        cases = list(itertools.product(boxes(periodicity), tolerances, CUTOFFS))
        cases = cases[:: 9 if run.quick else 1]
        found = [error(kernel, periodicity, *case, name) for case in cases]
        box, tolerance, cutoff = cases[int(np.argmax(found))]
        row = {"sum": kernel, "periodic": periodicity, "split": name, "worst": max(found)}
        row |= {"box": "x".join(f"{e:g}" for e in box), "tolerance": f"{tolerance:g}"}
        rows.append(row | {"cut-off": cutoff})
    return {"Error of fading over the promise, in the worst box": rows}
