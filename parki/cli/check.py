"""`parki check`: compares this installation with direct sums, for every kernel and periodicity.

It sums small clouds of random points, and takes about twenty seconds once the kernels are
compiled; the repository's tests do far more. It uses the public calls and the reference only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table

from parki.cli.arguments import (
    Commands,
    Console,
    add_common,
    add_json,
    command,
    progress,
)
from parki.ewald import EwaldOptions, Plan
from parki.ewald.sums import SUMS
from parki.interchange import to_host
from parki.reference import direct_sum
from parki.runtime import ExecutionSpace, available_spaces, get_execution_space
from parki.typing import AnyArray, AnyKernel

BOX = (1.5, 1.0, 0.75)
POINTS = 1000
SAMPLES = 50  # targets at which the direct sum is formed
TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
# With --quick every fifth sum is checked, and each kernel, periodicity and precision occurs.
EVERY = 5
# Rounding errors added to a promise, in unit roundoffs of the typical value.
ROUNDING = 32

DESCRIPTION = """\
Compare parki's sums with direct sums on this machine, for every kernel, 0 to 3 periodic axes, and
double and single precision, with random points. The table shows error over promise, which is at
most 1 where the promise is kept. The check takes about twenty seconds for each space; the first
time, when the kernels are compiled, it takes a minute or two.
"""

EPILOG = """\
Without --space, all spaces of this machine are checked, except that Serial is skipped where there
is OpenMP, because it runs the same kernels in one thread.

Exit code 0 if every promise is kept, 1 if one is broken, 2 if the space is not here.
"""


@dataclass(frozen=True)
class CheckedSum:
    """One sum: its case, its rms error, the promise plus rounding, and the exact rms."""

    space: str
    kernel: str
    periodicity: int
    dtype: str
    tolerance: float
    error: float
    promise: float
    flow: float

    @property
    def ratio(self) -> float:
        """Error over promise."""
        return self.error / self.promise

    @property
    def kept(self) -> bool:
        """Whether the promise was kept; a NaN breaks it."""
        return self.ratio <= 1


def declare(commands: Commands) -> None:
    """Add the command to the command line."""
    summary = "test this installation against direct sums"
    parser = command(
        commands, "check", run, summary=summary, description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument("--quick", action="store_true", help="a dozen sums of all")
    add_common(parser, space="those of this machine")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check the spaces, print the results, and return the exit code."""
    start = time.perf_counter()
    spaces = [get_execution_space(name) for name in _names(arguments.space)]
    chosen = cases()[:: EVERY if arguments.quick else 1]
    sums = list(_shown(checks(spaces, chosen), len(spaces) * len(chosen)))
    seconds = time.perf_counter() - start
    all_kept = all(case.kept for case in sums)
    if arguments.json:
        rows = [{**_finite(asdict(case)), "kept": case.kept} for case in sums]
        print(json.dumps({"kept": all_kept, "seconds": seconds, "sums": rows}, indent=2))
        return 0 if all_kept else 1
    console = Console()
    for space in spaces:
        console.print(report(space, [case for case in sums if case.space == space.name]))
    broken = sum(not case.kept for case in sums)
    verdict = (
        f"OK: all {len(sums)} promises are kept"
        if all_kept
        else f"NOT OK: {broken} of {len(sums)} promises are broken; please report it, with the "
        "output of 'parki info'"
    )
    console.print(f"{verdict} ({seconds:.1f} s).", soft_wrap=True, highlight=False)
    return 0 if all_kept else 1


def _names(space: str | None) -> list[str | None]:
    """Return the spaces to check; None asks for the CPU, so that the error says what it lacks."""
    if space is not None:
        return [space]
    here = available_spaces()
    return [name for name in here if name != "Serial" or "OpenMP" not in here] or [None]


def _shown(sums: Iterable[CheckedSum], total: int) -> Iterator[CheckedSum]:
    """Pass the sums on, with a display of progress on stderr."""
    with progress() as shown:
        yield from shown.track(sums, total=total, description="checking")


def cases() -> list[tuple[AnyKernel, int, tuple[str, float]]]:
    """Return a kernel, a periodicity, and a precision with its tolerance for each sum."""
    kernels = cast(Iterable[AnyKernel], SUMS)
    return list(itertools.product(kernels, range(4), TOLERANCES.items()))


def checks(
    spaces: Iterable[ExecutionSpace], sums: Iterable[tuple[AnyKernel, int, tuple[str, float]]]
) -> Iterator[CheckedSum]:
    """Yield the checked sums of each space, one after the other."""
    for space in spaces:
        rng = np.random.default_rng(5)
        for kernel, periodicity, (dtype, tolerance) in sums:
            yield check(space, kernel, periodicity, dtype=dtype, tolerance=tolerance, rng=rng)


def check(
    space: ExecutionSpace,
    kernel: AnyKernel,
    periodicity: int,
    *,
    dtype: str,
    tolerance: float,
    rng: np.random.Generator,
    count: int = POINTS,
) -> CheckedSum:
    """Compare a plan's sum over ``count`` points with the direct sum at some targets."""
    xp = space.array_module
    box = np.array(BOX)
    src = (rng.random((3, count)) * box[:, None]).astype(dtype)
    dens = rng.standard_normal(SUMS[kernel].density_shape(count)).astype(dtype)
    norms = None
    if SUMS[kernel].normals:
        norms = rng.standard_normal((3, count)).astype(dtype)
    options = EwaldOptions(
        periodicity=periodicity, box=BOX, tolerance=tolerance, execution_space=space
    )
    points, density = xp.asarray(src), xp.asarray(dens)
    plan = Plan(kernel, points, points, None if norms is None else xp.asarray(norms), options)
    sampled = slice(SAMPLES)
    return compare(plan, src, dens, norms, result=plan(density), sampled=sampled)


def compare(
    plan: Plan,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray,
    *,
    result: AnyArray,
    sampled: slice | NDArray[np.int64],
) -> CheckedSum:
    """Compare a plan's result with the direct sum, at some targets; the targets are the sources.

    Parameters
    ----------
    plan : Plan
    src, dens, norms : array
        The plan's input, rounded to its dtype; on the host or where the plan is.
    result : array
        The plan's result for ``dens``.
    sampled : slice or array of int
        Targets at which the direct sum is formed.
    """
    promise = float(plan.promise(plan.space.array_module.asarray(dens)))
    src, dens, norms, result = map(to_host, (src, dens, norms, result))
    exact = direct_sum(plan.kernel, src[:, sampled], src, dens, norms, plan.options)
    error, flow = _rms(result[..., sampled] - exact), _rms(exact)
    promise += ROUNDING * 0.5 * float(np.finfo(plan.dtype).eps) * flow
    return CheckedSum(
        space=plan.space.name,
        kernel=plan.kernel,
        periodicity=sum(plan.options.periodic),
        dtype=str(plan.dtype),
        tolerance=plan.options.tolerance,
        error=error,
        promise=promise,
        flow=flow,
    )


def _rms(values: AnyArray) -> float:
    """Return the rms of vectors or numbers over the points."""
    columns = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return float(np.sqrt(np.mean(np.sum(columns**2, axis=0))))


def report(space: ExecutionSpace, sums: list[CheckedSum]) -> Table:
    """Return a table of a space's errors over promises; broken promises stand out."""
    table = Table(title=f"{space}: error over promise", title_justify="left", box=SIMPLE_HEAD)
    for name in ("kernel", "precision", "tolerance"):
        table.add_column(name)
    for periodicity in range(4):
        table.add_column(f"{periodicity}P", justify="right")
    rows: dict[tuple[str, str, str], list[str]] = {}
    for case in sums:
        head = (case.kernel, case.dtype, f"{case.tolerance:g}")
        cell = f"{case.ratio:.3f}" if case.kept else f"[bold red]{case.ratio:.3g} broken[/]"
        rows.setdefault(head, [""] * 4)[case.periodicity] = cell
    for head, cells in rows.items():
        table.add_row(*head, *cells)
    return table


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with None for NaN and infinity, which JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
