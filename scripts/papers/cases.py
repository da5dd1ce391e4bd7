"""Common parts of the comparisons: clocks, and spreading and interpolation by any method."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.run import Run

from parki.ewald.far.host_memory import clear
from parki.ewald.far.mesh import Fields
from parki.ewald.split.window import Window
from parki.mesh.grid import Grid, Placement
from parki.mesh.plans import VARIANTS, InterpolatePlan

# Largest number of runs of a case, and the seconds after which it is not run again.
ROUNDS, ENOUGH = 5, 0.25
QUICK = 300  # points of --quick


@dataclass
class Case:
    """A method that was set up for points.

    Attributes
    ----------
    setup : float
        Seconds of setting up, by the clock, with compiled kernels.
    apply : callable
    memory : int
        Bytes kept for the points, without the points themselves.
    result : array
        The output of `apply`.
    """

    setup: float
    apply: Callable[[], Any]
    memory: int
    result: Any


def seconds(run: Run, call: Callable[[], Any], enough: float = ENOUGH) -> float:
    """Return the median seconds of calls after a first one."""
    call()
    begun = run.now()
    times = [run.seconds(call)]
    while len(times) < (2 if run.quick else ROUNDS) and run.now() - begun < enough:
        times.append(run.seconds(call))
    return statistics.median(times)


def alternating(run: Run, calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each call; calls alternate because machines are shared."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(2 if run.quick else rounds):
        for name, call in calls.items():
            times[name].append(run.seconds(call))
    return {name: statistics.median(found) for name, found in times.items()}


def not_installed(package: str) -> str:
    """Return the message that a package is not installed, or '' if it is."""
    return "" if importlib.util.find_spec(package) else f"{package} is not installed"


def timed(run: Run, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of work by the clock, and its result."""
    begun = run.now()
    found = work()
    return run.now() - begun, found


def free(run: Run) -> None:
    """Free a device's unused memory."""
    if run.space.on_device:
        run.xp.get_default_memory_pool().free_all_blocks()


def spreading(
    run: Run,
    method: Any,
    points: Any,
    values: Any,
    grid: Grid,
    window: Window,
    **changes: Any,
) -> Case:
    """Set up spreading ``values`` (C, N), at most three components, at ``points`` (3, N) of [0, 1).

    ``method`` is a name or a variant; ``changes`` replace some of its arguments.
    """
    fields = Fields({"PLAIN": len(values), "LAYERS": False}, len(values), len(values))
    name = method if isinstance(method, str) else "group_mesh"
    mesh = Placement(grid, window).mesh(run.space, points.dtype, fields, name)
    variant = VARIANTS[method](mesh) if isinstance(method, str) else method(mesh)
    took, (sources, arguments) = timed(run, lambda: variant.place(_solid(run, points)))
    arguments.update(changes)
    kept = {k: v for k, v in arguments.items() if k not in (*mesh.arguments, "src", "norms")}
    stored = run.xp.zeros((len(values), *variant.shape), dtype=points.dtype)
    buffer = run.xp.empty_like(values)

    def apply() -> None:
        dens = sources.sort(values, out=buffer) if variant.sorts else values
        if variant.adds:
            clear(stored)
        variant.spread(dict(arguments, dens=dens, grid=stored, first=0))

    ends = tuple(slice(0, n) for n in mesh.grid)
    return Case(took, apply, _bytes(kept), stored[(slice(None), *ends)])


def interpolation(
    run: Run, method: str, points: Any, field: Any, grid: Grid, window: Window
) -> Case:
    """Set up interpolation of ``field`` (C, *shape) at ``points`` of [0, 1)."""
    given = {"components": len(field), "execution_space": run.space}
    plan = InterpolatePlan(points, grid, window, method, **given)
    run.now()
    result = run.xp.zeros((len(field), points.shape[1]), dtype=points.dtype)
    kept = {"matrix": plan._g2p.matrix} if method == "stored" else {}
    return Case(plan.seconds, lambda: plan(field, out=result), _bytes(kept), result)


def mesh_of(run: Run, dtype: Any, grid: Grid, window: Window) -> Any:
    """Return the mesh of a grid, for other kernels than parki's."""
    return Placement(grid, window).mesh(run.space, dtype, Fields({}, 1, 1))


def uniform(run: Run, dimensions: int, n: int, dtype: str = "f8") -> Any:
    """Return uniform points in [0, 1)."""
    return run.send(run.random.random((dimensions, n)) * (1 - 1e-6), dtype)


def normal(run: Run, shape: tuple[int, ...], dtype: str = "f8") -> Any:
    """Return normal random numbers."""
    return run.send(np.random.default_rng(8).standard_normal(shape), dtype)


def apart(found: Any, expected: Any) -> float:
    """Return the largest difference over the largest value, in units of rounding."""
    scale = float(abs(expected).max()) * float(np.finfo(expected.dtype).eps)
    return float(abs(found - expected).max()) / scale


def _solid(run: Run, points: Any) -> Any:
    """Return points with three rows; in two dimensions the first row is zero."""
    if len(points) == 3:
        return points
    solid = run.xp.zeros((3, points.shape[1]), dtype=points.dtype)
    solid[1:] = points
    return solid


def _bytes(arrays: dict[str, Any]) -> int:
    """Return the bytes of arrays, and of the parts of sparse matrices."""
    total = 0
    for array in arrays.values():
        if hasattr(array, "indptr"):
            total += int(array.data.nbytes + array.indices.nbytes + array.indptr.nbytes)
        elif hasattr(array, "nbytes"):
            total += int(array.nbytes)
    return total
