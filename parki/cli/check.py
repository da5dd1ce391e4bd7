"""`parki check`: this installation against direct sums, in every kernel and periodicity.

Small clouds of random points, so that it takes some twenty seconds once the kernels are compiled;
the tests of the repository do far more. Knows the public calls and the reference, and nothing of
the solver's inside.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table

from parki.cli.arguments import add_common, add_json, command
from parki.cli.terminal import Console, progress
from parki.ewald import EwaldOptions, Plan
from parki.ewald.sums import SUMS
from parki.interchange import to_host
from parki.reference import direct_sum
from parki.runtime import ExecutionSpace, available_spaces, get_execution_space

BOX = (1.5, 1.0, 0.75)
POINTS = 1000
SAMPLES = 50  # targets at which the direct sum is formed
TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
# Rounding comes on top of a promise: unit roundoffs of the typical value.
ROUNDING = 32

DESCRIPTION = """\
Compare parki's sums with direct sums on this machine: every kernel, 0 to 3 periodic axes, double
and single precision, for clouds of random points. Prints error over promise, which is at most 1
where the promise is kept. Takes some twenty seconds for each space; the first time, when the
kernels are compiled, a minute or two.
"""

EPILOG = """\
Without --space, the spaces of this machine are checked in turn; Serial only where there is no
OpenMP, as it runs the same kernels in one thread.

Exit code 0 if every promise is kept, 1 if one is broken, 2 if the space is not here.
"""


@dataclass(frozen=True)
class CheckedSum:
    """One sum: what it was, its rms error, what is promised with rounding, and the exact rms."""

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
        """Whether the promise was kept; it is not by NaN."""
        return self.ratio <= 1


def declare(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    summary = "test this installation against direct sums"
    parser = command(commands, "check", run, summary, DESCRIPTION, EPILOG)
    add_common(parser, space="those of this machine")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check the spaces, print what came out, and return the exit code."""
    start = time.perf_counter()
    spaces = [get_execution_space(name) for name in _names(arguments.space)]
    sums = list(_shown(checks(spaces), len(spaces)))
    seconds = time.perf_counter() - start
    kept = all(each.kept for each in sums)
    if arguments.json:
        rows = [{**_finite(asdict(each)), "kept": each.kept} for each in sums]
        print(json.dumps({"kept": kept, "seconds": seconds, "sums": rows}, indent=2))
        return 0 if kept else 1
    console = Console()
    for space in spaces:
        console.print(report(space, [each for each in sums if each.space == space.name]))
    broken = sum(not each.kept for each in sums)
    verdict = (
        f"OK: all {len(sums)} promises are kept"
        if kept
        else f"NOT OK: {broken} of {len(sums)} promises are broken; please report it, with the "
        "output of 'parki info'"
    )
    console.print(f"{verdict} ({seconds:.1f} s).", soft_wrap=True, highlight=False)
    return 0 if kept else 1


def _names(asked: str | None) -> list[str | None]:
    """Return the spaces to check; None stands for the CPU, and says what is missing for it."""
    if asked is not None:
        return [asked]
    here = available_spaces()
    return [name for name in here if name != "Serial" or "OpenMP" not in here] or [None]


def _shown(sums: Iterable[CheckedSum], spaces: int) -> Iterator[CheckedSum]:
    """Pass the sums on, with a display of progress on stderr."""
    total = spaces * len(SUMS) * 4 * len(TOLERANCES)
    with progress() as shown:
        yield from shown.track(sums, total=total, description="checking")


def checks(spaces: Iterable[ExecutionSpace]) -> Iterator[CheckedSum]:
    """Yield the sums of some spaces, as they are done."""
    for space in spaces:
        rng = np.random.default_rng(5)
        for case in itertools.product(SUMS, range(4), TOLERANCES.items()):
            kernel, periodicity, (dtype, tolerance) = case
            yield check(space, kernel, periodicity, dtype, tolerance, rng)


def check(
    space: ExecutionSpace,
    kernel: str,
    periodicity: int,
    dtype: str,
    tolerance: float,
    rng: np.random.Generator,
    count: int = POINTS,
) -> CheckedSum:
    """Form one sum of ``count`` points by a plan, and directly at some of its targets."""
    xp = space.array_module
    box = np.array(BOX)
    src = (rng.random((3, count)) * box[:, None]).astype(dtype)
    dens = rng.standard_normal(SUMS[kernel].density_shape(count)).astype(dtype)
    norms = None
    if SUMS[kernel].double:
        norms = rng.standard_normal((3, count)).astype(dtype)
    options = EwaldOptions(
        periodicity=periodicity, box=BOX, tolerance=tolerance, execution_space=space.name
    )
    points, density = xp.asarray(src), xp.asarray(dens)
    plan = Plan(kernel, points, points, None if norms is None else xp.asarray(norms), options)
    return compare(plan, src, dens, norms, plan(density), slice(SAMPLES))


def compare(plan: Plan, src: Any, dens: Any, norms: Any, result: Any, sampled: Any) -> CheckedSum:
    """Compare a plan's result with the direct sum, at some of the sources, which are its targets.

    Parameters
    ----------
    plan : Plan
    src, dens, norms : array
        What the plan was given, rounded to its dtype; on the host or where the plan is.
    result : array
        What it returned for ``dens``.
    sampled : slice or array of int
        Targets at which the direct sum is formed.
    """
    promise = float(plan.promise(plan.space.array_module.asarray(dens)))
    src, dens, norms, result = map(to_host, (src, dens, norms, result))
    exact = direct_sum(plan.kernel, src[:, sampled], src, dens, norms, plan.options)
    error, flow = _rms(result[..., sampled] - exact), _rms(exact)
    promise += ROUNDING * 0.5 * float(np.finfo(plan.dtype).eps) * flow
    asked = plan.options
    task = plan.space.name, plan.kernel, asked.periodicity, str(plan.dtype), asked.tolerance
    return CheckedSum(*task, error, promise, flow)


def _rms(values: NDArray[Any]) -> float:
    """Return the rms over points of vectors or numbers."""
    columns = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return float(np.sqrt(np.mean(np.sum(columns**2, axis=0))))


def report(space: ExecutionSpace, sums: list[CheckedSum]) -> Table:
    """Return error over promise of a space's sums as a table; broken promises stand out."""
    table = Table(title=f"{space}: error over promise", title_justify="left", box=SIMPLE_HEAD)
    for name in ("kernel", "precision", "tolerance"):
        table.add_column(name)
    for periodicity in range(4):
        table.add_column(f"{periodicity}P", justify="right")
    rows: dict[tuple[str, str, str], list[str]] = {}
    for each in sums:
        head = (each.kernel, each.dtype, f"{each.tolerance:g}")
        cell = f"{each.ratio:.3f}" if each.kept else f"[bold red]{each.ratio:.3g} broken[/]"
        rows.setdefault(head, []).append(cell)
    for head, cells in rows.items():
        table.add_row(*head, *cells)
    return table


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with None for NaN and infinity, which JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
