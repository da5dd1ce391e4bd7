"""Charges of a melt, and the search for the parameters with which a library is fastest."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from benchmarks.run import Run

import parki
from papers.charge_peers import Choice, Peer
from parki.reference import direct_sum

# Cut-offs in mean distances of charges, the first that is tried, and limits of others.
CUTOFFS, FIRST, NEAREST, FARTHEST = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0), 3.0, 1.5, 8.0
REAL, MESH = 0.6, 0.8  # of the error: of pairs beyond the cut-off, and of the mesh
TRIES = 5  # meshes for one cut-off
ROUNDS, WARM, ENOUGH = 60, 10, 0.4  # calls, the first that do not count, seconds
TRIED, TRIED_WARM = 9, 3  # in the search
SEARCH = 4.0  # seconds after which the search of one row tries nothing new
CHECKED = 100  # charges whose forces are compared with the reference's
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
        # As rows: some libraries read positions as if they were, whatever their strides.
        self.clouds = [np.ascontiguousarray(near.astype("f4"), dtype="f8") for near in clouds]
        self.charges = np.where(np.arange(n) % 2, 1.0, -1.0)
        self.forces = parki_forces(run, self, "f8", EXACT)
        self.rms = float(np.sqrt((self.forces**2).sum(axis=1).mean()))

    def error(self, forces: np.ndarray) -> float:
        """Return the relative root mean square of the error of forces (N, 3)."""
        return float(np.linalg.norm(forces - self.forces) / np.linalg.norm(self.forces))

    def apart(self) -> float:
        """Return by how much some of the forces differ from those of `parki.reference`."""
        rows, some = self.clouds[0].T, slice(CHECKED)
        where = {"box": [self.edge] * 3, "periodicity": 3, "want": "grad_u"}
        slopes = direct_sum("laplace", rows[:, some], rows, self.charges, **where)
        found, true = self.forces[some], -(slopes * self.charges[some]).T
        return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def parki_forces(run: Run, given: Melt, dtype: str, tolerance: float) -> np.ndarray:
    """Return the forces of the first cloud by a plan."""
    points, charges, options = inputs(run, given, dtype, tolerance)
    found = parki.Plan("laplace", points[0], points[0], None, options, want="grad_u")(charges)
    forces = -found.reshape(3, -1) * charges
    return np.asarray(forces.get() if run.device else forces, dtype="f8").T


def inputs(run: Run, given: Melt, dtype: str, tolerance: float) -> tuple[Any, Any, Any]:
    points = [run.send(cloud.T, dtype) for cloud in given.clouds]
    options = run.options(3, tolerance, [given.edge] * 3)
    return points, run.send(given.charges, dtype), options


def medians(
    run: Run, rounds: int = ROUNDS, warm: int = WARM, **calls: Callable[[], Any]
) -> dict[str, float]:
    """Return the median seconds of calls by the clock, because some wait for the device."""
    found = {}
    for name, call in calls.items():
        for _ in range(2):  # which may compile
            call()
        begun = run.now()
        times = [run.clock(call)]
        while len(times) < rounds + warm and run.now() - begun < ENOUGH:
            times.append(run.clock(call))
        found[name] = statistics.median(times[min(warm, len(times) // 2) :])
    return found


def in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


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
        self.starts, self.key = starts, (peer.package, dtype, asked)
        self.density = {5: 2 / (3 * asked**0.2)}  # mesh points over alpha L, by order
        self.most = SEARCH if run.search is None else run.search
        self.begun: float | None = None  # at the end of the first try, which may compile
        self.least = math.inf  # the least error of all tries
        self.rows: list[dict[str, Any]] = []
        self.solver: Any = None  # of the fastest row
        self.failed = ""

    def best(self) -> dict[str, Any]:
        """Return the row of the fastest."""
        start = self.starts.get(self.key)
        first, orders = FIRST, self.peer.orders
        if start is not None:
            first, orders = start[0].cutoff, (start[0].order,)
            self.density[start[0].order] = start[1]
        if self.peer.compiled and start is not None:  # the same choice, as compiling takes long
            self._safely(self._once, start[0], False)
        else:
            self._search(orders, first)
        if not self.rows:
            found = self.failed or f"least error {self.least:.1e}"
            return {"reason": f"{found} in {self.most:g} s" if self._late() else found}
        row = self._fastest()
        row |= medians(self.run, moved=self.solver.moved, kept=self.solver.kept)
        chosen = Choice(**row["chosen"])
        density = chosen.mesh / chosen.alpha / self.given.edge
        self.starts[self.key] = chosen, density
        return row

    def _search(self, orders: Sequence[int], first: float) -> None:
        for order in orders[: 1 if self.run.quick else None]:
            self._climb(order, first)
            if self.rows:
                first = self._fastest()["chosen"]["cutoff"]
        if self.rows:
            self._safely(self._own)

    def _once(self, choice: Choice, own: bool) -> float:
        """Add the row of a choice if its error is small enough, and return the error."""
        solver = self.peer.solver(self.given, self.dtype, choice, self.run.device)
        error = self._error(solver)
        if error <= self.asked:
            self._add(solver, choice, error, own)
        return error

    def _error(self, solver: Any) -> float:
        error = self.given.error(solver.forces())
        self.least = min(self.least, error)
        if self.begun is None:
            self.begun = time.perf_counter()
        return error

    def _fastest(self) -> dict[str, Any]:
        return min(self.rows, key=lambda row: row["moved"])

    def _late(self) -> bool:
        return self.begun is not None and time.perf_counter() - self.begun > self.most

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
            self.failed = in_words(error)
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
            error = tried[mesh] = self._error(solvers[mesh])
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
        row = {"error": error, "chosen": choice._asdict(), "own": own}
        row |= medians(self.run, TRIED, TRIED_WARM, moved=solver.moved)
        self.rows.append(row)
        if self._fastest() is row:
            self.solver = solver
        return float(row["moved"])

    def _own(self) -> None:
        """Try the library's own function, and smaller accuracies until the error is reached."""
        choice, accuracy = Choice(**self._fastest()["chosen"]), self.asked
        for _ in range(1 if self.run.quick else 3):
            if self._late():
                return
            how = (self.given, self.dtype, choice, accuracy, self.run.device)
            tuned = self.peer.tuned(*how)
            if tuned is None or (error := self._once(tuned, True)) <= self.asked:
                return
            accuracy *= 0.8 * self.asked / error
