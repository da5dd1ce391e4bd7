"""FMM3D (Greengard, Rokhlin and others): sums in free space by a fast multipole method.

Potentials of charges and velocities of point forces at the sources themselves, in no periodic box,
double precision. FMM3D is asked for some digits; its error is measured at some of the points
against the direct sum, relative to the root mean square, and parki's tolerance is the one for which
parki's measured error is at most that. *One call* has all that points need at first; a *further
density* of parki's plan has not, and FMM3D has no plan. Points fill a cube uniformly, lie on a
sphere, or in eight normal clouds of width 0.01 of the cube.
"""

from __future__ import annotations

import importlib
import itertools
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.record import Record
from benchmarks.run import Run
from benchmarks.show import SERIES, Table, count, figure, number, save

import parki
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

from . import cases

TODAY = """
On two CPU threads parki sums point forces in free space 25 to 50 times as fast as FMM3D at the same
measured error, and charges 11 to 24 times, where points fill a cube or lie on a sphere. In tight
clusters it is 4 to 25 and 2 to 16 times as fast: a uniform grid and one cut-off follow them less
well than FMM3D's adaptive tree does. The fewer digits are asked for, and the more the density of
the points changes, the closer FMM3D comes; and it needs no box.
"""

CPU_ALONE = True
NAMES = {"laplace": "charges", "stokes_sl": "point forces"}
# Their function, what its results are multiplied by, and its arguments: densities, and a flag.
THEIRS = {
    "laplace": ("lfmm3d", 4 * np.pi, ("charges", "pg")),
    "stokes_sl": ("stfmm3d", 8 * np.pi, ("stoklet", "ifppreg")),
}
CLOUDS = ("uniform", "sphere", "clusters")
DIGITS = (1e-3, 1e-6, 1e-9)
CHECKED = 100  # points at which errors are measured
ROUNDS = 3
# What parki's tolerance is at first, over that of FMM3D, and what each next one is over the last.
FIRST, SAFE, TRIES = 300, 0.7, 8
BOX = (1.0, 1.0, 1.0)


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each kernel, cloud and number of digits."""
    library = importlib.import_module("fmm3dpy")
    n = cases.QUICK if run.quick else run.size(100_000, 100_000)
    rows = []
    for kernel, cloud in itertools.product(NAMES, CLOUDS):
        points = _points(run, cloud, n)
        dens = run.random.standard_normal(SUMS[kernel].density_shape(n))
        some = points[:, :CHECKED].copy()
        exact = direct_sum(kernel, some, points, dens, box=BOX, periodicity=0)
        for eps in DIGITS[:1] if run.quick else DIGITS:
            row = {"kernel": kernel, "cloud": cloud, "N": n, "eps": eps}
            rows.append(row | _row(run, library, kernel, points, dens, exact, eps))
    return {"rows": rows, "library": f"FMM3D {_version()}"}


def _version() -> str:
    from importlib.metadata import version

    return version("fmm3dpy")


def _points(run: Run, cloud: str, n: int) -> np.ndarray:
    if cloud == "uniform":
        return run.random.random((3, n))
    found = run.random.standard_normal((3, n))
    if cloud == "clusters":
        middles = 0.1 + 0.8 * np.random.default_rng(1).random((3, 8))
        return middles[:, np.arange(n) % 8] + 0.01 * found
    return 0.5 + 0.49 * found / np.linalg.norm(found, axis=0)


def _row(
    run: Run, library: Any, kernel: str, points: Any, dens: Any, exact: Any, eps: float
) -> dict[str, float]:
    """Return errors and seconds of both."""
    function, factor, (charges, flag) = THEIRS[kernel]
    given = {"eps": eps, "sources": points, charges: dens, flag: 1}

    def theirs() -> Any:
        return factor * getattr(library, function)(**given).pot

    def error(found: Any) -> float:
        some = np.asarray(found).reshape((*exact.shape[:-1], -1))[..., :CHECKED]
        return float(np.linalg.norm(some - exact) / np.linalg.norm(exact))

    their_error = error(theirs())
    # Of few points FMM3D's sum is the direct one.
    tolerance, aim = FIRST * eps, max(their_error, 1e-3 * eps)
    for _ in range(TRIES):
        options = parki.EwaldOptions(0, BOX, tolerance, execution_space=run.space)
        ours_error = error(getattr(parki, kernel)(points, points, dens, options))
        if ours_error <= aim:
            break
        tolerance *= SAFE * min(aim / ours_error, 1.0)
    plan = parki.Plan(kernel, points, points, None, options)
    calls = {
        "theirs": theirs,
        "one call": lambda: getattr(parki, kernel)(points, points, dens, options),
        "further": lambda: plan(dens),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    plan(dens)
    for _ in range(1 if run.quick else ROUNDS):
        for name, call in calls.items():
            times[name].append(run.seconds(call))
    return {name: statistics.median(found) for name, found in times.items()} | {
        "their error": their_error,
        "error": ours_error,
        "tolerance": tolerance,
    }


def tables(record: Record) -> list[Table]:
    """Return a table of errors and times."""
    found = record["results"]
    rows = [
        [
            NAMES[row["kernel"]],
            row["cloud"],
            f"{row['eps']:g}",
            f"{row['their error']:.1e}",
            f"{row['error']:.1e}",
            number(row["theirs"]),
            number(row["one call"]),
            f"{row['theirs'] / row['one call']:.1f}",
            number(row["further"]),
            f"{row['theirs'] / row['further']:.1f}",
        ]
        for row in found["rows"]
    ]
    name = found["library"]
    head = ("sum", "points", "asked", f"error: {name}", "parki", f"seconds: {name}")
    head += ("parki, one call", "ratio", "parki, further density", "ratio")
    return [Table(f"{count(found['rows'][0]['N'])} points in free space", head, rows)]


def draw(record: Record, file: Path) -> None:
    """Draw times over measured errors."""
    rows = record["results"]["rows"]
    made, panels = figure(2, 4.2, 10, sharey=True)
    for panel, kernel in zip(panels, NAMES, strict=True):
        for line, cloud in zip(("-", ":", "--"), CLOUDS, strict=True):
            of = [r for r in rows if (r["kernel"], r["cloud"]) == (kernel, cloud)]
            for color, (label, seconds, error) in zip(
                SERIES,
                (
                    ("FMM3D", "theirs", "their error"),
                    ("parki, one call", "one call", "error"),
                    ("parki, further density", "further", "error"),
                ),
                strict=False,
            ):
                panel.loglog(
                    [r[error] for r in of],
                    [r[seconds] for r in of],
                    line,
                    marker="o",
                    color=color,
                    label=f"{label}, {cloud}",
                )
        panel.set(title=NAMES[kernel].capitalize(), xlabel="measured relative error")
        panel.invert_xaxis()
        panel.grid()
    panels[0].set_ylabel("seconds")
    made.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    save(made, file, f"{record['machine']['name']}, {record['results']['library']}")
