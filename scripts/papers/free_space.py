"""Common parts of comparisons with other sums in free space: points, errors, times, tables.

A peer is a function of kernel, points, densities and tolerance that returns two calls: a whole sum,
and one that reuses everything independent of the densities, or None.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.record import Record
from benchmarks.run import Run
from benchmarks.show import SERIES, Table, count, figure, number, save

import parki
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

Call = Callable[[], Any]
Peer = Callable[[str, Any, Any, float], tuple[Call, Call | None]]

NAMES = {"laplace": "charges", "stokes_sl": "point forces"}
CLOUDS = ("uniform", "sphere", "clusters")
DIGITS = (1e-3, 1e-6, 1e-9)
CHECKED = 100  # points at which errors are measured
ROUNDS = 3
# parki's first tolerance relative to the peer's, the safety factor of the next, and their number.
FIRST, SAFE, TRIES = 300, 0.7, 8
BOX = (1.0, 1.0, 1.0)


def measure(run: Run, peer: Peer) -> list[dict[str, Any]]:
    """Return a row for each kernel, cloud and number of digits."""
    n = run.size(100_000, 100_000)
    rows = []
    for kernel, cloud in itertools.product(NAMES, CLOUDS):
        points = _points(run, cloud, n)
        dens = run.random.standard_normal(SUMS[kernel].density_shape(n))
        some = points[:, :CHECKED].copy()
        exact = direct_sum(kernel, some, points, dens, box=BOX, periodicity=0)
        for eps in DIGITS[:1] if run.quick else DIGITS:
            row = {"kernel": kernel, "cloud": cloud, "N": n, "eps": eps}
            rows.append(row | _row(run, peer, kernel, points, dens, exact, eps))
    return rows


def _points(run: Run, cloud: str, n: int) -> np.ndarray:
    if cloud == "uniform":
        return run.random.random((3, n))
    found = run.random.standard_normal((3, n))
    if cloud == "clusters":
        middles = 0.1 + 0.8 * np.random.default_rng(1).random((3, 8))
        return middles[:, np.arange(n) % 8] + 0.01 * found
    return 0.5 + 0.49 * found / np.linalg.norm(found, axis=0)


def _row(
    run: Run, peer: Peer, kernel: str, points: Any, dens: Any, exact: Any, eps: float
) -> dict[str, float]:
    """Return errors and seconds of both."""
    theirs, theirs_further = peer(kernel, points, dens, eps)

    def error(found: Any) -> float:
        some = np.asarray(found).reshape((*exact.shape[:-1], -1))[..., :CHECKED]
        return float(np.linalg.norm(some - exact) / np.linalg.norm(exact))

    their_error = error(theirs())
    # For few points a peer may sum directly.
    tolerance, aim = FIRST * eps, max(their_error, 1e-3 * eps)
    for _ in range(TRIES):
        options = run.options(0, tolerance)
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
    if theirs_further is not None:
        calls["theirs further"] = theirs_further
    plan(dens)
    return run.medians(calls, ROUNDS) | {
        "their error": their_error,
        "error": ours_error,
        "tolerance": tolerance,
    }


def tables(record: Record) -> list[Table]:
    """Return a table of errors and times."""
    rows, name = record["results"]["rows"], record["results"]["library"]

    def further(row: dict[str, float]) -> float:
        return row.get("theirs further", row["theirs"])

    return [
        Table.of(
            f"{count(rows[0]['N'])} points in free space",
            rows,
            ("sum", lambda row: NAMES[row["kernel"]]),
            ("points", lambda row: row["cloud"]),
            ("asked", lambda row: f"{row['eps']:g}"),
            (f"error: {name}", lambda row: f"{row['their error']:.1e}"),
            ("parki", lambda row: f"{row['error']:.1e}"),
            (f"seconds of one call: {name}", lambda row: number(row["theirs"])),
            ("parki", lambda row: number(row["one call"])),
            ("ratio", lambda row: f"{row['theirs'] / row['one call']:.1f}"),
            (f"of a further density: {name}", lambda row: number(further(row))),
            ("parki", lambda row: number(row["further"])),
            ("ratio", lambda row: f"{further(row) / row['further']:.1f}"),
        )
    ]


def draw(record: Record, file: Path) -> None:
    """Draw times over measured errors."""
    rows, name = record["results"]["rows"], record["results"]["library"].split()[0]
    lines = {
        "theirs": (f"{name}, one call", "their error"),
        "theirs further": (f"{name}, further density", "their error"),
        "one call": ("parki, one call", "error"),
        "further": ("parki, further density", "error"),
    }
    made, panels = figure(2, 4.2, 10, sharey=True)
    for panel, kernel in zip(panels, NAMES, strict=True):
        for line, cloud in zip(("-", ":", "--"), CLOUDS, strict=True):
            of = [r for r in rows if (r["kernel"], r["cloud"]) == (kernel, cloud)]
            for color, (seconds, (label, error)) in zip(SERIES, lines.items(), strict=False):
                if seconds in of[0]:
                    x, y = zip(*((r[error], r[seconds]) for r in of), strict=True)
                    how = {"marker": "o", "color": color, "label": f"{label}, {cloud}"}
                    panel.loglog(x, y, line, **how)
        panel.set(title=NAMES[kernel].capitalize(), xlabel="measured relative error")
        panel.invert_xaxis()
        panel.grid()
    panels[0].set_ylabel("seconds")
    made.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    save(made, file, f"{record['machine']['name']}, {record['results']['library']}")
