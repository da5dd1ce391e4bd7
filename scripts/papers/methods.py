"""Common parts of the comparisons: spreading and interpolation by any method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.run import Run

from parki.ewald.far.mesh import Fields
from parki.ewald.far.p2g import clear
from parki.ewald.split.window import Window
from parki.mesh.grid import Anchors, Grid
from parki.mesh.interpolation import InterpolatePlan
from parki.mesh.spreading import VARIANTS


@dataclass
class Method:
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


def spreading(
    run: Run, method: Any, points: Any, values: Any, grid: Grid, window: Window, **changes: Any
) -> Method:
    """Set up spreading ``values`` (C, N), at most three components, at ``points`` (3, N) of [0, 1).

    ``method`` is a name or a variant; ``changes`` replace some of its arguments.
    """
    fields = Fields({"PLAIN": len(values), "LAYERS": False}, len(values), len(values))
    name = method if isinstance(method, str) else "group_mesh"
    mesh = Anchors(grid, window).mesh(run.space, points.dtype, fields, name)
    variant = VARIANTS[method](mesh) if isinstance(method, str) else method(mesh)
    if len(points) == 2:  # with a first row of zeros
        points = run.xp.concatenate([run.xp.zeros_like(points[:1]), points])
    took, _ = run.timed(lambda: variant.place(points))
    sources, arguments = variant.sources, variant.arguments | changes
    kept = {k: v for k, v in arguments.items() if k not in (*mesh.arguments, "src", "norms")}
    stored = run.xp.zeros((len(values), *variant.shape), dtype=points.dtype)
    buffer = run.xp.empty_like(values)

    def apply() -> None:
        dens = sources.sort(values, out=buffer) if variant.sorts else values
        if variant.adds:
            clear(stored)
        variant.spread(dict(arguments, dens=dens, grid=stored, first=0))

    ends = tuple(slice(0, n) for n in mesh.grid)
    return Method(took, apply, _bytes(kept), stored[(slice(None), *ends)])


def interpolation(
    run: Run, method: str, points: Any, field: Any, grid: Grid, window: Window
) -> Method:
    """Set up interpolation of ``field`` (C, *shape) at ``points`` of [0, 1)."""
    given = {"components": len(field), "execution_space": run.space}
    plan = InterpolatePlan(points, grid, window, method, **given)
    run.now()
    result = run.xp.zeros((len(field), points.shape[1]), dtype=points.dtype)
    kept = {"matrix": plan._g2p.matrix} if method == "stored" else {}
    return Method(plan.seconds, lambda: plan(field, out=result), _bytes(kept), result)


def _bytes(arrays: dict[str, Any]) -> int:
    """Return the bytes of arrays, and of the parts of sparse matrices."""
    total = 0
    for array in arrays.values():
        parts = ("data", "indices", "indptr") if hasattr(array, "indptr") else ()
        each = [getattr(array, part) for part in parts] or [array]
        total += sum(int(getattr(part, "nbytes", 0)) for part in each)
    return total
