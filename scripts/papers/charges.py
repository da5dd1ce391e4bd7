"""PME in other libraries: energy and forces of charges, at the same measured error.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import Case
from benchmarks.record import Record, pick
from benchmarks.run import Run, reach
from benchmarks.show import SERIES, Table, count, figure, ms, number, precision, save

import parki
from papers.charge_peers import OpenMM, Peer
from papers.charge_search import Melt, Search, in_words, inputs, medians, parki_forces
from papers.charge_torch import MlipOps, Nvalchemi, TorchPme

SIZES = (2000, 20_000, 200_000, 1_000_000)
MOST = 2000  # on the CPU, if no number is given
ERRORS = (1e-3, 1e-5)
TIMES = ("moved", "kept", "energy", "virial")
FEW = 60  # of --quick
PEERS: Sequence[Peer] = (
    *(OpenMM(), TorchPme(), Nvalchemi(), MlipOps()),
    *(TorchPme(compiled=True), MlipOps(compiled=True)),
)
LOOSE, LOOSER = 150, 2  # parki's first tolerances: over the error, over that of fewer charges


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each number of charges, precision, error and solver."""
    peers = [peer for peer in PEERS if _is_asked_for(run, peer.name)]
    reasons = {peer.name: peer.missing(run.device) for peer in peers}
    for name, reason in reasons.items():
        if reason:
            print(f"{name} is left out: {reason}", flush=True)
    rows: list[dict[str, Any]] = []
    starts: dict[Any, Any] = {}
    left_out = {name: reason for name, reason in reasons.items() if reason}
    packages = dict.fromkeys(peer.version for peer in peers if not reasons[peer.name])
    results = {"rows": rows, "left out": left_out, "packages": [*packages]}
    for n in _sizes(run):
        given = Melt(run, n)
        if not rows:
            results["reference"] = {"N": n, "apart": given.apart()}
        for name, solve, dtype, asked in _cells(run, peers, reasons, starts):
            found = _tried(partial(solve, given, dtype, asked))
            rows.append({"N": n, "dtype": dtype, "asked": asked, "solver": name} | found)
            print(_line(rows[-1]), flush=True)
            run.keep(results)
            run.free()
    return results


def _is_asked_for(run: Run, name: str) -> bool:
    return not run.kernel or name in run.kernel


def _cells(
    run: Run, peers: Sequence[Peer], reasons: dict[str, str], starts: dict[Any, Any]
) -> Iterator[tuple[str, Callable[..., dict[str, Any]], str, float]]:
    """Yield names, functions of a melt, precision and error, precisions and errors."""
    dtypes = run.dtype or ("f4", "f8")
    errors = run.tolerance or (ERRORS[:1] if run.quick else ERRORS)
    for dtype, asked in itertools.product(dtypes, errors) if _is_asked_for(run, "parki") else ():
        yield "parki", partial(ours, run, starts), dtype, asked
    for peer in peers:
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
        return {"reason": in_words(error)}


def _line(row: dict[str, Any]) -> str:
    words = [f"{row['N']}", row["dtype"], f"{row['asked']:g}", row["solver"]]
    if "reason" in row:
        return " ".join([*words, row["reason"]])
    words += [f"error {row['error']:.1e}", "ms"]
    words += [f"{what} {ms(row[what])}" for what in TIMES if what in row]
    return " ".join([*words, *(f"{k} {v:g}" for k, v in row["chosen"].items())])


def _sizes(run: Run) -> list[int]:
    if run.quick:
        return [FEW]
    most = run.points or (max(SIZES) if run.device else MOST)
    return [n for n in SIZES if n <= most] or [most]


def ours(run: Run, starts: dict[Any, Any], given: Melt, dtype: str, asked: float) -> dict[str, Any]:
    """Return the row of parki: its tolerance, error and seconds of a plan's step, and `energy`."""

    def error_of(tolerance: float) -> float:
        return given.error(parki_forces(run, given, dtype, tolerance))

    first = LOOSER * starts.get(("parki", dtype, asked), LOOSE / LOOSER * asked)
    tolerance, error = reach(asked, first, error_of, 0.95, 8)
    starts["parki", dtype, asked] = tolerance
    if error > asked:
        return {"reason": f"least error {error:.1e}"}
    points, charges, options = inputs(run, given, dtype, tolerance)
    plan = parki.Plan("laplace", points[0], points[0], None, options, want=("u", "grad_u"))
    turn = itertools.cycle((1, 0))

    def moved() -> None:
        cloud = points[next(turn)]
        plan.update_points(cloud, cloud)
        potentials, slopes = plan(charges)
        (charges * potentials).sum()
        slopes *= -charges

    def energy(**more: Any) -> Any:
        return parki.energy(points[next(turn)], charges, options, rows=False, **more)

    taken = medians(run, moved=moved, energy=lambda: energy(virial=False), virial=energy)
    return {"error": error, "chosen": {"tolerance": tolerance}, **taken}


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
            notes=[_notes(found)],
        )
    )
    return made


def _notes(found: dict[str, Any]) -> str:
    words = f"Libraries: {', '.join(found['packages']) or 'none'}."
    if checked := found.get("reference"):  # older records have none
        apart = f"{checked['apart']:.1e}, with {count(checked['N'])} charges"
        words += f" Forces that count as exact differ from parki.reference's by {apart}."
    return words


def _left(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, f"left out: {reason}") for name, reason in found["left out"].items()]


def _calls(name: str) -> list[tuple[str, str, str]]:
    """Return words, which time, and the time without the list of pairs."""
    if name != "parki":
        return [(name, "moved", "kept")]
    one, more = "parki.energy", "parki.energy without the virial"
    return [("parki, a plan's step", "moved", ""), (more, "energy", ""), (one, "virial", "")]


def _cell(row: dict[str, Any] | None, what: str, less: str) -> str:
    if row is None:
        return ""
    if what not in row:
        return str(row["reason"])
    return ms(row[what]) + (f" ({ms(row[less])})" if less else "")


def _parameters(row: dict[str, Any]) -> str:
    words = {"cutoff": "cut-off", "alpha": "alpha", "mesh": "mesh", "order": "order"}
    text = ", ".join(f"{words.get(k, k)} {number(v)}" for k, v in row["chosen"].items())
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
                points = [(r["N"], 1e3 * r[what]) for r in pick(of, solver=name) if what in r]
                if points:
                    x, y = zip(*points, strict=True)
                    panel.loglog(x, y, line, marker="o", color=color, label=name + words)
        panel.set(title=f"{precision(dtype)}, error {asked:g}", xlabel="charges")
        panel.grid()
    panels[0].set_ylabel("milliseconds")
    made.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    save(made, file, record["machine"]["name"])


CASES = {"charges": Case(__doc__, measure, tables, draw)}
