"""UAMMD (Peláez and others): mobilities of spheres, their velocities and Brownian steps.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.record import Record, pick
from benchmarks.run import CLOUDS, TINY, Run, reach
from benchmarks.show import SERIES, Table, count, figure, ms, save

import parki

SIZES = (1000, 10_000, 100_000, 1_000_000)
MOST = 100_000  # on the CPU, if no number is given
FRACTIONS = (0.01, 0.1, 0.4)
ERRORS = (1e-3, 1e-4)
CHECKED = 1000  # spheres at which errors are measured
KT, DT = 1.0, 1e-3
# parki's first tolerance relative to the error, the safety factor of the next, and their number.
FIRST, SAFE, TRIES = 30, 0.9, 10
# PSE's tolerances, and its splitting parameters times the radius.
TOLERANCES = tuple(float(f"{d}e-{n}") for n in range(2, 7) for d in (3, 1))
SPLITS = (0.3, 0.5, 0.8, 1.2)
PEERS = ("PSE", "FCM")
OWN = "parki.libmobility"  # tests the script on CPUs
# Sums of points whose time steps are measured in the same run: periodicity, dtype, tolerance.
STEPS = {"stokes_sl": (3, "f4", 1e-3), "stokes_comb": (1, "f8", 1e-4)}

Error = Callable[[Any], float]


def peer_module(on_device: bool) -> tuple[Any, str]:
    """Return the module with libMobility's calls, or why its solvers are left out."""
    name = os.environ.get("LIBMOBILITY", "libMobility")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        return None, f"{error}; LIBMOBILITY names another module with libMobility's calls"
    if on_device or name == OWN:
        return module, ""
    return None, f"{name} runs on GPUs alone"


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each number of spheres, fraction, error and solver."""
    module, reason = peer_module(run.device)
    if reason:
        print(f"PSE and FCM are left out: {reason}")
    rows: list[dict[str, Any]] = []
    for n, fraction in itertools.product(_sizes(run), FRACTIONS[1:2] if run.quick else FRACTIONS):
        given = Suspension(run, n, fraction)
        for error in ERRORS[:1] if run.quick else ERRORS:
            found = {"parki": ours(run, given, error)}
            if module is not None:
                found |= {peer: theirs(run, given, module, peer, error) for peer in PEERS}
            head = {"N": n, "fraction": fraction, "asked": error}
            rows += [head | {"solver": name} | row for name, row in found.items() if row]
        run.free()
    steps = [{"N": n, **time_steps(run, n)} for n in _sizes(run)]
    return {"rows": rows, "left out": reason, "time steps": steps}


def time_steps(run: Run, n: int) -> dict[str, float]:
    """Return the median seconds of time steps of uniform points, by sum."""
    found = {}
    for kernel, (periodicity, dtype, tolerance) in STEPS.items():
        step = run.steps(kernel, n, dtype, periodicity, tolerance)
        numbers = range(4 if run.quick else 2 * CLOUDS * 5)
        times = [run.clock(lambda number=number: step(number)) for number in numbers]  # noqa: B023
        found[kernel] = float(np.median(times[len(times) // 4 :]))  # graphs are made in the first
    return found


def _sizes(run: Run) -> list[int]:
    if run.quick:
        return [TINY]
    most = run.points or (max(SIZES) if run.device else MOST)
    return [n for n in SIZES if n <= most] or [most]


class Suspension:
    """Spheres of radius 1 in a box, twice: as columns in single precision.

    Attributes
    ----------
    edges : ndarray, shape (3,)
    points : list of 2 arrays, shape (3, N)
    forces : array, shape (3, N)
    exact : ndarray, shape (3, n)
        Velocities of the first n spheres, for the first points and viscosity 1.
    """

    periodicity, shape, wall = 3, (1.0, 1.0, 1.0), None
    finest = 1e-9

    def __init__(self, run: Run, n: int, fraction: float) -> None:
        volume = 4 / 3 * np.pi * n / fraction
        self.edges = np.array(self.shape) * (volume / np.prod(self.shape)) ** (1 / 3)
        sides = np.ceil(self.edges * (n / volume) ** (1 / 3) - 1e-9).astype(int)
        cells = (self.edges / sides)[:, None]
        random = run.random
        sites = random.permutation(sides.prod())[:n]
        lattice = cells * (np.array(np.unravel_index(sites, sides)) + 0.5)
        free = np.maximum(cells - 2, 0) / 2
        clouds = [lattice + free * random.uniform(-1, 1, (3, n)) for _ in range(2)]
        self.points = [run.send(cloud, "f4") for cloud in clouds]
        self.forces = run.send(random.standard_normal((3, n)), "f4")
        fine = parki.Spheres(self.points[0].astype("f8"), 1.0, self.options(self.finest))
        self.exact = self.sample(fine.velocities(self.forces.astype("f8")))

    def options(self, tolerance: float) -> parki.EwaldOptions:
        """Return parki's options."""
        return parki.EwaldOptions(self.periodicity, self.edges, tolerance, wall=self.wall)

    @staticmethod
    def sample(velocities: Any) -> np.ndarray:
        """Return the velocities of the first spheres on the host."""
        some = velocities[:, :CHECKED]
        return np.asarray(some.get() if hasattr(some, "get") else some, dtype=np.float64)

    def error(self, velocities: Any, exact: np.ndarray) -> float:
        """Return the relative error of velocities (3, N)."""
        return float(np.linalg.norm(self.sample(velocities) - exact) / np.linalg.norm(exact))


def ours(run: Run, given: Suspension, asked: float, first: float = FIRST) -> dict[str, Any]:
    """Return parki's tolerance, measured error and seconds."""

    def made(tolerance: float) -> parki.Spheres:
        return parki.Spheres(given.points[0], 1.0, given.options(tolerance))

    def error_of(tolerance: float) -> float:
        return given.error(made(tolerance).velocities(given.forces), given.exact)

    tolerance, error = reach(asked, first * asked, error_of, SAFE, TRIES)
    spheres = made(tolerance)
    random, turn = run.xp.random.default_rng(1), itertools.cycle(given.points)

    def step() -> None:
        spheres.update_points(next(turn))
        spheres.displacements(KT, DT, random, given.forces, accuracy=asked)

    def move() -> None:
        spheres.update_points(next(turn))
        spheres.velocities(given.forces)

    return {"tolerance": tolerance, "error": error, **seconds(run, move, step)}


def theirs(run: Run, given: Suspension, module: Any, peer: str, asked: float) -> dict[str, Any]:
    """Return the same of a peer, with its fastest splits; {} if no tolerance is small enough."""
    rows = [cloud.T.copy() for cloud in given.points]
    forces = given.forces.T.copy()

    def solver(psi: float, tolerance: float) -> Any:
        made = module.PSE("periodic", "periodic", "periodic")
        made.setParameters(
            psi=psi, **dict(zip(("Lx", "Ly", "Lz"), given.edges.tolist(), strict=True))
        )
        made.initialize(viscosity=1.0, hydrodynamicRadius=1.0, tolerance=tolerance)
        made.setPositions(rows[0])
        return made

    exact, splits = given.exact, SPLITS
    if peer == "FCM":  # libMobility's name for it is a psi of 0
        splits = (0.0,)
        try:
            exact = given.sample(solver(0.0, min(TOLERANCES)).Mdot(forces)[0].T)
        except RuntimeError as error:
            print(f"FCM with {given.forces.shape[1]} spheres is left out: {error}")
            return {}
    found: list[dict[str, Any]] = []
    done: set[float] = set()
    for psi, tolerance in itertools.product(splits, TOLERANCES):
        if psi in done:
            continue
        try:
            made = solver(psi, tolerance)
            error = given.error(made.Mdot(forces)[0].T, exact)
        except RuntimeError as reason:  # as smaller tolerances would have, too
            print(f"{peer} with psi {psi:g} and tolerance {tolerance:g} is left out: {reason}")
            done.add(psi)
            continue
        if not error <= asked:
            continue
        turn = itertools.cycle(rows)

        def move(made: Any = made, turn: Any = turn) -> None:
            made.setPositions(next(turn))
            made.Mdot(forces)

        def step(made: Any = made, turn: Any = turn) -> None:
            made.setPositions(next(turn))
            made.LangevinVelocities(DT, KT, forces)

        found.append(
            {"psi": psi, "tolerance": tolerance, "error": error, **seconds(run, move, step)}
        )
        done.add(psi)
        made.clean()
    if not found:
        return {}
    fastest = min(found, key=lambda row: row["M F"])
    return fastest | {"step": min(row["step"] for row in found)}


def seconds(run: Run, move: Callable[[], None], step: Callable[[], None]) -> dict[str, float]:
    """Return the median seconds of both; by the clock, because peers wait for the device."""
    return run.medians({"M F": move, "step": step}, by=run.clock)


def tables(record: Record) -> list[Table]:
    """Return a table of errors and times."""
    each = record["results"]["rows"]
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in each:
        lines.setdefault((row["N"], row["fraction"], row["asked"]), {})[row["solver"]] = row
    columns: list[Any] = [
        ("spheres", lambda line: count(line[0][0])),
        ("volume fraction", lambda line: f"{line[0][1]:g}"),
        ("error asked", lambda line: f"{line[0][2]:g}"),
    ]

    def cell(form: str, line: Any, name: str) -> str:
        row = line[1].get(name)
        return form.format(row["error"], ms(row["M F"]), ms(row["step"])) if row else ""

    for name in dict.fromkeys(row["solver"] for row in each):
        columns.append((f"{name}: error", lambda line, name=name: cell("{0:.1e}", line, name)))
        columns.append(("M F, step, ms", lambda line, name=name: cell("{1}, {2}", line, name)))
    reason = record["results"]["left out"]
    notes = [f"PSE and FCM are left out: {reason}."] if reason else []
    title = "Spheres in a cube with three periodic axes"
    found = [Table.of(title, lines.items(), *columns, notes=notes)]
    if steps := record["results"].get("time steps"):
        times = [(f"{name}, ms", lambda row, name=name: ms(row[name])) for name in STEPS]
        title = "Time steps of points, in the same run"
        found.append(Table.of(title, steps, ("points", lambda row: count(row["N"])), *times))
    return found


def draw(record: Record, file: Path) -> None:
    """Draw times over the number of spheres, a panel for each volume fraction."""
    found = record["results"]["rows"]
    solvers = list(dict.fromkeys(row["solver"] for row in found))
    asked = found[0]["asked"]
    panels = {
        f"Volume fraction {fraction:g}, error {asked:g}": {
            name: pick(found, fraction=fraction, solver=name, asked=asked) for name in solvers
        }
        for fraction in dict.fromkeys(row["fraction"] for row in found)
    }
    draw_times(record, file, panels)


def draw_times(
    record: Record, file: Path, panels: dict[str, dict[str, list[dict[str, Any]]]]
) -> None:
    """Draw times over the number of spheres: rows by solver, in panels by title."""
    made, axes = figure(len(panels), 3.8, 3.4 * len(panels) + 1.5, sharey=True)
    for axis, (title, solvers) in zip(axes, panels.items(), strict=True):
        for color, (name, rows) in zip(SERIES, solvers.items(), strict=False):
            for line, what in (("-", "M F"), ("--", "step")):
                x, y = zip(*((row["N"], 1e3 * row[what]) for row in rows), strict=True)
                axis.loglog(x, y, line, marker="o", color=color, label=f"{name}, {what}")
        axis.set(title=title, xlabel="spheres")
        axis.grid()
    axes[0].set_ylabel("milliseconds")
    made.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    save(made, file, record["machine"]["name"])


CASES = {"spheres": Case(__doc__, measure, tables, draw)}
