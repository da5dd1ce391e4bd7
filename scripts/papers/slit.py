"""DPStokes (Hashemi, Peláez and others): velocities of spheres between two walls.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.record import Record, pick
from benchmarks.run import TINY, Run
from benchmarks.show import Table, count, ms

from papers import spheres
from papers.spheres import DT, KT, peer_module, seconds

SIZES = (1000, 10_000, 100_000)
MOST = 1000  # on the CPU, if no number is given
FRACTIONS = (0.1, 0.01)
ERROR = 1e-3  # of parki, without DPStokes
FIRST = 5  # parki's first tolerance relative to the error
SHIFTS = 5  # of all spheres along the walls


class Suspension(spheres.Suspension):
    """Spheres of radius 1 between two walls, whose distance is a quarter of the periods."""

    periodicity, shape, wall = 2, (4.0, 4.0, 1.0), ("no-slip", "no-slip")
    finest = 1e-6


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each number of spheres and fraction; an interruption keeps those before."""
    module, reason = peer_module(run.device)
    if reason:
        print(f"DPStokes is left out: {reason}")
    found: list[dict[str, Any]] = []
    try:
        for row in rows(run, module):
            found.append(row)
            print(row, flush=True)
            run.free()
    except KeyboardInterrupt:
        print("stopped", flush=True)
    return {"rows": found, "left out": reason}


def rows(run: Run, module: Any) -> Iterator[dict[str, Any]]:
    """Yield what both take."""
    most = run.points or (SIZES[-1] if run.device else MOST)
    sizes = [TINY] if run.quick else [n for n in SIZES if n <= most] or [most]
    for fraction, n in itertools.product(FRACTIONS[: 1 if run.quick else None], sizes):
        given = Suspension(run, n, fraction)
        row: dict[str, Any] = {"N": n, "fraction": fraction}
        if module is not None:
            row["DPStokes"] = theirs(run, given, module)
        asked = row["DPStokes"]["error"] if module is not None else ERROR
        yield row | {"parki": spheres.ours(run, given, asked, FIRST)}


def theirs(run: Run, given: Suspension, module: Any) -> dict[str, Any]:
    """Return the error, how far from parki's its velocities are, and its seconds.

    Where all spheres move along the walls by a part of a step of its grid, exact velocities stay:
    the error is the root mean square deviation from the mean over such shifts. There is no
    tolerance, and the mobility is not quite that of Rotne, Prager and Yamakawa.
    """
    clouds = [cloud.T.copy() for cloud in given.points]
    forces, edges = given.forces.T.copy(), given.edges.tolist()

    def solver(tolerance: float) -> Any:
        made = module.DPStokes("periodic", "periodic", "two_walls")
        made.setParameters(Lx=edges[0], Ly=edges[1], zmin=0.0, zmax=edges[2])
        made.initialize(viscosity=1.0, hydrodynamicRadius=1.0, tolerance=tolerance)
        return made

    made, each = solver(ERROR), []
    for shift in run.random.random((SHIFTS, 3)) * (1, 1, 0):
        made.setPositions(clouds[0] + run.send(shift, "f4"))
        each.append(given.sample(made.Mdot(forces)[0].T))
    mean = np.mean(each, axis=0)
    error = float(np.sqrt(np.var(each, axis=0, ddof=1).sum() / (mean**2).sum()))
    made = solver(error)
    turn = itertools.cycle(clouds[::-1])

    def move() -> None:
        made.setPositions(next(turn))
        made.Mdot(forces)

    def step() -> None:
        made.setPositions(next(turn))
        made.LangevinVelocities(DT, KT, forces)

    return {"error": error, "apart": given.error(mean, given.exact), **seconds(run, move, step)}


def solvers(record: Record) -> list[str]:
    """Return the names of those that were measured."""
    return [name for name in ("parki", "DPStokes") if name in record["results"]["rows"][0]]


def tables(record: Record) -> list[Table]:
    """Return a table of errors and times."""
    found, names = record["results"], solvers(record)
    columns: list[Any] = [
        ("spheres", lambda row: count(row["N"])),
        ("volume fraction", lambda row: f"{row['fraction']:g}"),
    ]
    for name in names:
        columns.append((f"{name}: error", lambda row, name=name: f"{row[name]['error']:.1e}"))
        columns.append(
            (
                "M F, step, ms",
                lambda row, name=name: f"{ms(row[name]['M F'])}, {ms(row[name]['step'])}",
            )
        )
    if "DPStokes" in names:
        columns.append(("both differ by", lambda row: f"{row['DPStokes']['apart']:.1e}"))
    notes = [f"DPStokes is left out: {found['left out']}."] if found["left out"] else []
    title = "Spheres between two walls, whose distance is a quarter of the periods"
    return [Table.of(title, found["rows"], *columns, notes=notes)]


def draw(record: Record, file: Path) -> None:
    """Draw times over the number of spheres, a panel for each volume fraction."""
    found = record["results"]["rows"]
    panels = {
        f"Volume fraction {fraction:g}": {
            name: [{"N": row["N"], **row[name]} for row in pick(found, fraction=fraction)]
            for name in solvers(record)
        }
        for fraction in dict.fromkeys(row["fraction"] for row in found)
    }
    spheres.draw_times(record, file, panels)


CASES = {"dpstokes": Case(__doc__, measure, tables, draw)}
