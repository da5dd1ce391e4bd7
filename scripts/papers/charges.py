"""PME in other libraries: energy and forces of charges, at the same measured error.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.record import Record, pick
from benchmarks.run import Run, reach
from benchmarks.show import SERIES, Table, count, figure, ms, precision, save

import parki
from papers.charge_peers import PEERS, Choice, Peer

SIZES = (2000, 20_000, 200_000, 1_000_000)
MOST = 2000  # on the CPU, if no number is given
ERRORS = (1e-3, 1e-5)
FEW = 60  # of --quick
# Cut-offs in mean distances of charges, the first that is tried, and limits of others.
CUTOFFS, FIRST, NEAREST, FARTHEST = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0), 3.0, 1.5, 8.0
REAL, MESH = 0.6, 0.8  # of the error: of pairs beyond the cut-off, and of the mesh
TRIES = 5  # meshes for one cut-off
ROUNDS, WARM, ENOUGH = 9, 4, 0.4
CELL = 5.0  # seconds after which the search of one cell tries nothing new
LOOSE = 24  # parki's first tolerance relative to the error
EXACT = 1e-9  # parki's tolerance of the forces that others are measured by


class Melt:
    """Charges of both signs in a cube, one in a unit of volume, on a lattice moved at random.

    Attributes
    ----------
    edge : float
    clouds : list of 2 ndarrays, shape (N, 3)
        Positions, rounded to single precision; the second are near the first.
    charges : ndarray, shape (N,)
        1 and -1, as many of both.
    forces : ndarray, shape (N, 3)
        Of the first cloud.
    rms : float
        Root mean square of the forces' lengths.
    """

    def __init__(self, run: Run, n: int) -> None:
        self.edge = float(n ** (1 / 3))
        side = math.ceil(n ** (1 / 3) - 1e-9)
        random, gap = run.random, self.edge / side
        sites = np.array(np.unravel_index(random.permutation(side**3)[:n], 3 * (side,))).T
        cloud = gap * (sites + 0.5 + random.uniform(-0.25, 0.25, (n, 3)))
        clouds = [cloud, cloud + gap * random.uniform(-0.1, 0.1, (n, 3))]
        self.clouds = [near.astype("f4").astype("f8") for near in clouds]
        self.charges = np.where(np.arange(n) % 2, 1.0, -1.0)
        self.forces = parki_forces(run, self, "f8", EXACT)
        self.rms = float(np.sqrt((self.forces**2).sum(axis=1).mean()))

    def error(self, forces: np.ndarray) -> float:
        """Return the relative root mean square of the error of forces (N, 3)."""
        return float(np.linalg.norm(forces - self.forces) / np.linalg.norm(self.forces))


def parki_forces(run: Run, given: Melt, dtype: str, tolerance: float) -> np.ndarray:
    """Return the forces of the first cloud by a plan."""
    points, charges, options = _inputs(run, given, dtype, tolerance)
    found = parki.Plan("laplace", points[0], points[0], None, options, want="grad_u")(charges)
    forces = -found.reshape(3, -1) * charges
    return np.asarray(forces.get() if run.device else forces, dtype="f8").T


def _inputs(run: Run, given: Melt, dtype: str, tolerance: float) -> tuple[Any, Any, Any]:
    points = [run.send(cloud.T, dtype) for cloud in given.clouds]
    options = run.options(3, tolerance, [given.edge] * 3)
    return points, run.send(given.charges, dtype), options


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each number of charges, precision, error and solver."""
    reasons = {peer.name: peer.missing(run.device) for peer in PEERS}
    for name, reason in reasons.items():
        if reason:
            print(f"{name} is left out: {reason}", flush=True)
    rows: list[dict[str, Any]] = []
    starts: dict[Any, Any] = {}
    stopped = ""
    for n in _sizes(run):
        given = None
        for name, solve, dtype, asked in _cells(run, reasons, starts):
            try:
                if not stopped:
                    given = given or Melt(run, n)
                    found = _tried(lambda: solve(given, dtype, asked))  # noqa: B023
            except KeyboardInterrupt:
                stopped = "stopped before"
            found = {"reason": stopped} if stopped else found
            rows.append({"N": n, "dtype": dtype, "asked": asked, "solver": name} | found)
            print(_line(rows[-1]), flush=True)
            run.free()
    left_out = {name: reason for name, reason in reasons.items() if reason}
    packages = [peer.version for peer in PEERS if not reasons[peer.name]]
    return {"rows": rows, "left out": left_out, "packages": packages}


def _cells(
    run: Run, reasons: dict[str, str], starts: dict[Any, Any]
) -> Iterator[tuple[str, Callable[..., dict[str, Any]], str, float]]:
    """Yield names, functions of a melt, precision and error, precisions and errors."""
    dtypes = run.dtype or ("f4", "f8")
    errors = run.tolerance or (ERRORS[:1] if run.quick else ERRORS)
    for dtype, asked in itertools.product(dtypes, errors):
        yield "parki", partial(ours, run, starts), dtype, asked
    for peer in PEERS:
        if not reasons[peer.name]:
            for dtype, asked in itertools.product(dtypes, errors):
                if dtype in peer.dtypes:
                    yield peer.name, partial(theirs, run, starts, peer), dtype, asked


def theirs(
    run: Run, starts: dict[Any, Any], peer: Peer, given: Melt, dtype: str, asked: float
) -> dict[str, Any]:
    """Return the row of a peer."""
    return Search(run, given, peer, dtype, asked, starts).best()


def _tried(solve: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a row, or the reason why a library failed, which may be any error."""
    try:
        return solve()
    except Exception as error:  # noqa: BLE001
        return {"reason": _words(error)}


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def _line(row: dict[str, Any]) -> str:
    words = [f"{row['N']}", row["dtype"], f"{row['asked']:g}", row["solver"]]
    if "reason" in row:
        return " ".join([*words, row["reason"]])
    words += [f"error {row['error']:.1e}", f"moved {ms(row['moved'])} kept {ms(row['kept'])} ms"]
    return " ".join([*words, *(f"{k} {v:g}" for k, v in row["chosen"].items())])


def _sizes(run: Run) -> list[int]:
    if run.quick:
        return [FEW]
    most = run.points or (max(SIZES) if run.device else MOST)
    return [n for n in SIZES if n <= most] or [most]


def _times(run: Run, **calls: Callable[[], Any]) -> dict[str, float]:
    """Return the median seconds of calls by the clock, because some wait for the device."""
    found = {}
    for name, call in calls.items():
        call()  # which may compile
        begun = run.now()
        times = [run.clock(call)]
        while len(times) < ROUNDS + WARM and run.now() - begun < ENOUGH:
            times.append(run.clock(call))
        found[name] = statistics.median(times[min(WARM, len(times) // 2) :])
    return found


def ours(run: Run, starts: dict[Any, Any], given: Melt, dtype: str, asked: float) -> dict[str, Any]:
    """Return the row of parki: its tolerance, error and seconds of a plan's step, and `energy`."""

    def error_of(tolerance: float) -> float:
        return given.error(parki_forces(run, given, dtype, tolerance))

    first = starts.get(("parki", dtype, asked), LOOSE * asked)
    tolerance, error = reach(asked, first, error_of, 0.9, 6)
    starts["parki", dtype, asked] = tolerance
    if error > asked:
        return {"reason": f"least error {error:.1e}"}
    points, charges, options = _inputs(run, given, dtype, tolerance)
    plan = parki.Plan("laplace", points[0], points[0], None, options, want=("u", "grad_u"))
    turn = itertools.cycle((1, 0))

    def kept() -> None:
        potentials, slopes = plan(charges)
        (charges * potentials).sum()
        slopes *= -charges

    def moved() -> None:
        cloud = points[next(turn)]
        plan.update_points(cloud, cloud)
        kept()

    def energy(**more: Any) -> Any:
        return parki.energy(points[next(turn)], charges, options, rows=False, **more)

    times = _times(run, moved=moved, kept=kept, energy=lambda: energy(virial=False), virial=energy)
    return {"error": error, "chosen": {"tolerance": tolerance}, **times}


class Search:
    """The fastest parameters of a peer with which the error is at most the one that is asked for.

    The error of pairs beyond the cut-off is Kolafa and Perram's, which sets alpha; the mesh is the
    coarsest that is tried with which the measured error of all is small enough. Cut-offs are tried
    from the best of fewer charges on, up and down, while that is faster.
    """

    def __init__(
        self,
        run: Run,
        given: Melt,
        peer: Peer,
        dtype: str,
        asked: float,
        starts: dict[Any, Any],
    ) -> None:
        self.run, self.given, self.peer, self.dtype, self.asked = run, given, peer, dtype, asked
        self.starts, self.key = starts, (peer.name, dtype, asked)
        self.density = {5: 2 / (3 * asked**0.2)}  # mesh points over alpha L, by order
        self.begun = time.perf_counter()
        self.least = math.inf  # the least error of all tries
        self.rows: list[dict[str, Any]] = []
        self.failed = ""

    def best(self) -> dict[str, Any]:
        """Return the row of the fastest."""
        start = self.starts.get(self.key)
        first, orders = FIRST, self.peer.orders
        if start is not None:
            first, orders = start[0].cutoff, (start[0].order,)
            self.density[start[0].order] = start[1]
        for order in orders[: 1 if self.run.quick else None]:
            self._climb(order, first)
            if self.rows:
                first = self._fastest()["chosen"]["cutoff"]
        if self.rows:
            self._safely(self._own)
        if not self.rows:
            found = self.failed or f"least error {self.least:.1e}"
            return {"reason": f"{found} in {CELL:g} s" if self._late() else found}
        row = self._fastest()
        chosen = Choice(**row["chosen"])
        density = chosen.mesh / chosen.alpha / self.given.edge
        self.starts[self.key] = chosen, density
        return row

    def _fastest(self) -> dict[str, Any]:
        return min(self.rows, key=lambda row: row["moved"])

    def _late(self) -> bool:
        return time.perf_counter() - self.begun > CELL

    def _climb(self, order: int, first: float) -> None:
        """Try cut-offs of an order."""
        density = self.density.setdefault(order, self.density.get(5, 3.0))
        cutoffs = self._cutoffs(density)
        start = min(range(len(cutoffs)), key=lambda k: abs(cutoffs[k] - first))
        fastest = self._taken(cutoffs[start], order)
        if self.run.quick:
            return
        for way in (cutoffs[:start][::-1], cutoffs[start + 1 :]):
            last = fastest
            for cutoff in way:
                if self._late():
                    return
                taken = self._taken(cutoff, order)
                if taken >= last:
                    break
                last = taken
            if last < fastest:
                return

    def _taken(self, cutoff: float, order: int) -> float:
        found: float = self._safely(self._try, cutoff, order)
        return found

    def _safely(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what work returns, or infinity if a library fails, which may be any error."""
        try:
            return work(*arguments)
        except Exception as error:  # noqa: BLE001
            self.failed = _words(error)
            if self.run.device:
                self.peer.free()
            return math.inf

    def _cutoffs(self, density: float) -> Sequence[float]:
        """Return cut-offs; those that use a mesh fully, if it is a power of two."""
        most = min(FARTHEST, self.given.edge / 2 * 0.999)
        if not self.peer.dyadic:
            return [cutoff for cutoff in CUTOFFS if cutoff <= most] or [most]
        found = []
        for k in range(3, 11):
            alpha = 2**k / density / self.given.edge * 0.98
            cutoff = FIRST
            for _ in range(20):
                cutoff = self._alpha(cutoff) * cutoff / alpha
            if NEAREST <= cutoff <= most:
                found.append(cutoff)
        return sorted(found) or [min(FIRST, most)]

    def _alpha(self, cutoff: float) -> float:
        """Return alpha, with which pairs beyond the cut-off are so much of the error."""
        worst = 2 / math.sqrt(cutoff)  # of N unit charges in a volume N, without the exponential
        return math.sqrt(math.log(worst / (REAL * self.asked * self.given.rms))) / cutoff

    def _meshes(self) -> Iterator[int]:
        for n in range(8, 2049):
            left = n
            for p in (2,) if self.peer.dyadic else (2, 3, 5, 7):
                while left % p == 0:
                    left //= p
            if left == 1 and (self.peer.dyadic or n % 2 == 0):
                yield n

    def _mesh(self, wanted: float) -> int:
        return next((n for n in self._meshes() if n >= wanted), 2048)

    def _try(self, cutoff: float, order: int) -> float:
        """Add the row of a cut-off with the coarsest mesh, and return its seconds, or infinity."""
        alpha, edge = self._alpha(cutoff), self.given.edge
        mesh = self._mesh(self.density[order] * alpha * edge * 0.999)
        tried: dict[int, float] = {}
        solvers: dict[int, Any] = {}
        for _ in range(1 if self.run.quick else TRIES):
            if mesh <= order + 1 or mesh in tried or (tried and self._late()):
                break
            solvers = {k: v for k, v in solvers.items() if tried[k] <= self.asked}
            choice = Choice(cutoff, alpha, mesh, order)
            solvers[mesh] = self.peer.solver(self.given, self.dtype, choice, self.run.device)
            error = tried[mesh] = self.given.error(solvers[mesh].forces())
            self.least = min(self.least, error)
            if error > self.asked and any(m < mesh and e < 1.2 * error for m, e in tried.items()):
                break  # finer meshes do not help
            part = math.sqrt(max(error**2 - (REAL * self.asked) ** 2, (0.05 * self.asked) ** 2))
            factor = (part / (MESH * self.asked)) ** (1 / order)
            if error > self.asked:
                mesh = self._mesh(max(min(factor, 2.0) * mesh, mesh + 1))
            elif mesh > (coarse := self._mesh(max(factor, 0.5) * mesh)):
                if any(m >= coarse and e > self.asked for m, e in tried.items()):
                    break
                mesh = coarse
            else:
                break
        good = [m for m, e in tried.items() if e <= self.asked]
        if not good:
            return math.inf
        mesh = min(good)
        if not self.peer.dyadic:
            self.density[order] = mesh / alpha / edge
        return self._add(solvers[mesh], Choice(cutoff, alpha, mesh, order), tried[mesh], False)

    def _add(self, solver: Any, choice: Choice, error: float, own: bool) -> float:
        times = _times(self.run, moved=solver.moved, kept=solver.kept)
        self.rows.append({"error": error, "chosen": choice._asdict(), "own": own, **times})
        return times["moved"]

    def _own(self) -> None:
        """Try the library's own function, and smaller accuracies until the error is reached."""
        choice, accuracy = Choice(**self._fastest()["chosen"]), self.asked
        for _ in range(1 if self.run.quick else 3):
            if self._late():
                return
            given = (self.given, self.dtype)
            tuned = self.peer.tuned(*given, choice, accuracy, self.run.device)
            if tuned is None:
                return
            solver = self.peer.solver(*given, tuned, self.run.device)
            error = self.given.error(solver.forces())
            if error <= self.asked:
                self._add(solver, tuned, error, True)
                return
            accuracy *= 0.8 * self.asked / error


def tables(record: Record) -> list[Table]:
    """Return a table for each precision and error, and one of parameters."""
    found = record["results"]
    made = []
    kinds = dict.fromkeys((row["dtype"], row["asked"]) for row in found["rows"])
    for dtype, asked in kinds:
        rows = pick(found["rows"], dtype=dtype, asked=asked)
        sizes = list(dict.fromkeys(row["N"] for row in rows))
        lines = []
        for name in dict.fromkeys(row["solver"] for row in found["rows"]):
            of = {row["N"]: row for row in pick(rows, solver=name)}
            for words, what, less in _calls(name):
                if of:
                    lines.append([words, *(_cell(of.get(n), what, less) for n in sizes)])
                elif what == "moved":
                    lines.append([words, "has no such precision", *[""] * (len(sizes) - 1)])
        lines += [[name, reason, *[""] * (len(sizes) - 1)] for name, reason in _left(found)]
        title = f"Milliseconds, {precision(dtype)} precision, error of forces {asked:g}"
        head = ["", *(f"{count(n)} charges" for n in sizes)]
        made.append(Table(title, head, lines, []))
    each = [row for row in found["rows"] if "chosen" in row]
    made.append(
        Table.of(
            "Parameters and measured errors",
            each,
            ("charges", lambda row: count(row["N"])),
            ("precision", lambda row: precision(row["dtype"])),
            ("error asked", lambda row: f"{row['asked']:g}"),
            ("solver", lambda row: row["solver"]),
            ("error", lambda row: f"{row['error']:.1e}"),
            ("parameters", _parameters),
            notes=[f"Libraries: {', '.join(found['packages']) or 'none'}."],
        )
    )
    return made


def _left(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, f"left out: {reason}") for name, reason in found["left out"].items()]


def _calls(name: str) -> list[tuple[str, str, str]]:
    """Return words, which time, and the time without the list of pairs."""
    if name != "parki":
        return [(name, "moved", "kept")]
    one, more = "parki.energy", "parki.energy without the virial"
    return [("parki, a plan's step", "moved", "kept"), (more, "energy", ""), (one, "virial", "")]


def _cell(row: dict[str, Any] | None, what: str, less: str) -> str:
    if row is None:
        return ""
    if what not in row:
        return str(row["reason"])
    return ms(row[what]) + (f" ({ms(row[less])})" if less else "")


def _parameters(row: dict[str, Any]) -> str:
    words = {"cutoff": "cut-off", "alpha": "alpha", "mesh": "mesh", "order": "order"}
    text = ", ".join(f"{words.get(k, k)} {v:.3g}" for k, v in row["chosen"].items())
    return text + (", its own function's" if row.get("own") else "")


def draw(record: Record, file: Path) -> None:
    """Draw times over the number of charges, a panel for each precision and error."""
    rows = [row for row in record["results"]["rows"] if "moved" in row]
    kinds = list(dict.fromkeys((row["dtype"], row["asked"]) for row in rows))
    made, panels = figure(len(kinds), 3.8, 3.2 * len(kinds) + 1.5, sharey=True)
    for panel, (dtype, asked) in zip(panels, kinds, strict=True):
        of = pick(rows, dtype=dtype, asked=asked)
        for color, name in zip(SERIES, dict.fromkeys(r["solver"] for r in rows), strict=False):
            for line, what, words in (("-", "moved", ""), (":", "kept", ", pairs kept")):
                points = [(r["N"], 1e3 * r[what]) for r in pick(of, solver=name)]
                if points:
                    x, y = zip(*points, strict=True)
                    panel.loglog(x, y, line, marker="o", color=color, label=name + words)
        panel.set(title=f"{precision(dtype)}, error {asked:g}", xlabel="charges")
        panel.grid()
    panels[0].set_ylabel("milliseconds")
    made.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    save(made, file, record["machine"]["name"])


CASES = {"charges": Case(__doc__, measure, tables, draw)}
