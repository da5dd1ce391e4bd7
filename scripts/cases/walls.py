"""Times near walls: of flows, spheres and charges, over times without walls.

Points are uniform in a box of the periods L, L and of the height H, which has the volume 1. Each
line compares a sum without walls, near one wall and between two, in the same box and one after the
other. The correction is what images in both walls lack: its share is of the time between two walls,
by stages that run one after the other, as they do not in a graph.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.record import Record
from benchmarks.run import Run
from benchmarks.show import Table, count, number, precision

import parki

HOST, DEVICE = (10_000,), (100_000, 1_000_000)
SPHERES = (10_000, 100_000)  # on a device
RATIOS = (1, 5, 20)
COLUMNS = (40, 10, 2.5)  # points in a column of H by H, where the correction has few of them
MIDDLE = 5  # L over H of spheres and charges
FRACTION = 0.1  # of the volume, of spheres
KT, DT, ACCURACY = 1.0, 1e-3, 1e-3
ROUNDS, FIRST = 9, 4  # graphs and lists of pairs are made by the first calls
WALLS = {"none": None, "one": "no-slip", "two": ("no-slip", "no-slip")}
PLATES = {"none": None, "one": "metal", "two": ("metal", "metal")}
TITLES = {
    "flows": "Velocities of forces, `stokes_sl`",
    "spheres": f"Spheres of one radius, a tenth of the volume, L = {MIDDLE} H",
    "charges": f"Potentials and fields of charges near plates of metal, L = {MIDDLE} H",
}


def edges(ratio: float) -> tuple[float, float, float]:
    """Return periods and height of a box of the volume 1, by the ratio L over H."""
    height = ratio ** (-2 / 3)
    return ratio * height, ratio * height, height


def options(run: Run, ratio: float, wall: Any) -> parki.EwaldOptions:
    """Return options of a box with these walls."""
    return run.options(2, (run.tolerance or (1e-4,))[0], edges(ratio), wall=wall)


def measure(run: Run) -> dict[str, Any]:
    """Return rows of flows, spheres and charges; an interruption keeps those before."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TITLES}
    try:
        for name, row in rows(run):
            found[name].append(row)
            print(name, row, flush=True)
            run.free()
    except KeyboardInterrupt:
        print("stopped", flush=True)
    return found


def rows(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all rows, each with its table."""
    sizes = [run.size(0, 0)] if run.quick or run.points else DEVICE if run.device else HOST
    dtypes = run.dtype or ("f8", "f4")
    some = sizes if run.quick or run.points or not run.device else SPHERES
    for dtype, n in itertools.product(dtypes, sizes):
        for ratio in RATIOS[: 1 if run.quick else None]:
            yield "flows", flows(run, dtype, n, ratio)
    for n in some:
        for row in spheres(run, dtypes[0], n):
            yield "spheres", row
    for dtype, n in itertools.product(dtypes, sizes):
        yield "charges", charges(run, dtype, n)
    for column in COLUMNS[: 0 if run.quick else None]:
        n = min(sizes)
        yield "flows", flows(run, dtypes[0], n, round((n / column) ** 0.5))


def compared(run: Run, calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Return milliseconds by walls, and their ratios to those without."""
    times = run.milliseconds(calls, ROUNDS, FIRST)
    ratios = {f"{walls} over none": times[walls] / times["none"] for walls in ("one", "two")}
    return {**times, **ratios}


def flows(run: Run, dtype: str, n: int, ratio: float) -> dict[str, Any]:
    """Compare `stokes_sl`, and time the correction between two walls."""
    sides = np.array(edges(ratio))[:, None]
    points = run.send(run.random.random((3, n)) * sides, dtype)
    forces = run.normal((3, n), dtype)
    made = {
        name: parki.Plan("stokes_sl", points, points, options(run, ratio, wall))
        for name, wall in WALLS.items()
    }
    row = {"dtype": dtype, "points": n, "L/H": ratio, "points in a column": n / ratio**2}
    row |= compared(run, {name: partial(plan, forces) for name, plan in made.items()})
    stages = [made["two"].timed(forces)[1] for _ in range(2 if run.quick else ROUNDS)]
    correction = statistics.median(each["correction"] for each in stages)
    whole = statistics.median(sum(each.values()) for each in stages)
    return row | {"correction": 1e3 * correction, "share": correction / whole}


def charges(run: Run, dtype: str, n: int) -> dict[str, Any]:
    """Compare `laplace` with its gradient."""
    sides = np.array(edges(MIDDLE))[:, None]
    points = run.send(run.random.random((3, n)) * sides, dtype)
    values = run.normal((n,), dtype)
    values -= values.mean()
    want = ("u", "grad_u")
    calls = {
        name: partial(
            parki.Plan("laplace", points, points, options(run, MIDDLE, wall), want=want), values
        )
        for name, wall in PLATES.items()
    }
    return {"dtype": dtype, "points": n, **compared(run, calls)}


def lattice(run: Run, n: int) -> tuple[float, list[Any]]:
    """Return a radius, and two clouds (3, n) of centres in cells of their own between the walls."""
    sides, random = np.array(edges(MIDDLE)), run.random
    layers = max(1, round(sides[2] * n ** (1 / 3)))
    shape = 2 * (int(np.ceil((n / layers) ** 0.5)),) + (layers,)
    cells = (sides / shape)[:, None]
    radius = float((3 * FRACTION / (4 * np.pi * n)) ** (1 / 3))
    places = np.array(np.unravel_index(random.permutation(np.prod(shape))[:n], shape))
    free = np.maximum(cells / 2 - radius, 0)
    return radius, [cells * (places + 0.5) + free * random.uniform(-1, 1, (3, n)) for _ in range(2)]


def spheres(run: Run, dtype: str, n: int) -> Iterator[dict[str, Any]]:
    """Compare velocities of forces, new points with velocities, and Brownian steps."""
    radius, clouds = lattice(run, n)
    clouds = [run.send(cloud, dtype) for cloud in clouds]
    forces, random = run.normal((3, n), dtype), run.xp.random.default_rng(1)
    made = {
        name: parki.Spheres(clouds[0], radius, options(run, MIDDLE, wall))
        for name, wall in WALLS.items()
    }

    def moved(each: parki.Spheres, turn: Iterator[Any]) -> Any:
        each.update_points(next(turn))
        return each.velocities(forces)

    def step(each: parki.Spheres, **more: Any) -> Any:
        return each.displacements(KT, DT, random, forces, accuracy=ACCURACY, **more)

    calls = {
        "velocities": {name: partial(each.velocities, forces) for name, each in made.items()},
        "new points, velocities": {
            name: partial(moved, each, itertools.cycle(clouds[::-1])) for name, each in made.items()
        },
        "Brownian step": {
            name: partial(step, each, **({"mean": "zero"} if name == "none" else {}))
            for name, each in made.items()
        },
    }
    for what, each in calls.items():
        yield {"dtype": dtype, "spheres": n, "what": what, **compared(run, each)}


def tables(record: Record) -> list[Table]:
    """Return a table of flows, one of spheres and one of charges."""

    def column(head: str, name: str, show: Callable[[Any], str]) -> Any:
        return head, lambda row: show(row[name])

    times = [column(f"{walls}, ms", walls, number) for walls in WALLS]
    times += [
        column(f"{walls} over none", f"{walls} over none", number) for walls in ("one", "two")
    ]
    share = [
        column("correction, ms", "correction", number),
        column("its share", "share", lambda part: f"{100 * part:.0f} %"),
    ]
    start = [column("precision", "dtype", precision)]
    points = [column("points", "points", count)]
    shape = [
        column("L/H", "L/H", str),
        column("in a column of H by H", "points in a column", number),
    ]
    what = [column("spheres", "spheres", count), column("what", "what", str)]
    columns = {
        "flows": [*start, *points, *shape, *times, *share],
        "spheres": [*start, *what, *times],
        "charges": [*start, *points, *times],
    }
    found = record["results"]
    return [
        Table.of(title, found[name], *columns[name])
        for name, title in TITLES.items()
        if found[name]
    ]


CASES = {"walls": Case(__doc__, measure, tables)}
