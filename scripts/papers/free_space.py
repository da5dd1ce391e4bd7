"""Sums in free space beside other methods: points, errors, times, tables.

A peer is a function of kernel, points, densities and tolerance that returns two calls: a whole sum,
and one that reuses everything independent of the densities, or None.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import Case, cpu_alone, not_installed
from benchmarks.record import Record, pick
from benchmarks.run import Run, reach
from benchmarks.show import SERIES, Table, count, figure, number, save

import parki
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

Call = Callable[[], Any]
Calls = tuple[Call, Call | None]
Peer = Callable[[str, Any, Any, float], Calls]

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

    def ours(tolerance: float) -> Any:
        return getattr(parki, kernel)(points, points, dens, run.options(0, tolerance))

    aim = max(their_error, 1e-3 * eps)
    tolerance, ours_error = reach(aim, FIRST * eps, lambda t: error(ours(t)), SAFE, TRIES)
    plan = parki.Plan(kernel, points, points, None, run.options(0, tolerance))
    calls = {"theirs": theirs, "one call": lambda: ours(tolerance), "further": lambda: plan(dens)}
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
            of = pick(rows, kernel=kernel, cloud=cloud)
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


# --- FMM3D ----------------------------------------------------------------------------------------

# Their function, the factor of its results, and its arguments for densities and a flag.
FMM3D = {
    "laplace": ("lfmm3d", 4 * np.pi, ("charges", "pg")),
    "stokes_sl": ("stfmm3d", 8 * np.pi, ("stoklet", "ifppreg")),
}


def measure_fmm3d(run: Run) -> dict[str, Any]:
    """Return a row for each kernel, cloud and number of digits."""
    library = importlib.import_module("fmm3dpy")

    def peer(kernel: str, points: Any, dens: Any, eps: float) -> Calls:
        function, factor, (charges, flag) = FMM3D[kernel]
        given = {"eps": eps, "sources": points, charges: dens, flag: 1}
        return lambda: factor * getattr(library, function)(**given).pot, None

    return {"rows": measure(run, peer), "library": f"FMM3D {metadata.version('fmm3dpy')}"}


# --- DMK ------------------------------------------------------------------------------------------

LEAVES = (60, 200, 280)
# Number of the kernel, number of the output, and factor of the results.
DMK = {"laplace": (1, 1, 1.0), "stokes_sl": (3, 4, 2.0)}
SILENT = 6  # a log level


class Parameters(ctypes.Structure):
    """``pdmk_params`` of dmk.h."""

    _fields_ = (
        ("n_dim", ctypes.c_int),
        ("eps", ctypes.c_double),
        ("kernel", ctypes.c_int),
        ("eval_src", ctypes.c_int),
        ("eval_trg", ctypes.c_int),
        ("fparam", ctypes.c_double),
        ("use_periodic", ctypes.c_int),
        ("n_per_leaf", ctypes.c_int),
        ("log_level", ctypes.c_int),
        ("debug_flags", ctypes.c_uint32),
        ("debug_params", ctypes.c_double * 8),
    )


class Library:
    """DMK's functions for double precision."""

    def __init__(self, file: str) -> None:
        self.functions = ctypes.CDLL(file)
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.functions.pdmk_last_error_message.restype = ctypes.c_char_p
        self.functions.pdmk_tree_create.restype = pointer
        self.functions.pdmk_tree_create.argtypes = [
            *(pointer, Parameters, number, pointer, pointer, pointer, number, pointer)
        ]
        self.functions.pdmk_tree_eval.argtypes = [pointer] * 3
        self.functions.pdmk_tree_update_charges.argtypes = [pointer] * 3
        self.functions.pdmk_tree_destroy.argtypes = [pointer]

    def parameters(self, kernel: str, eps: float, leaf: int) -> Parameters:
        """Return the library's parameters of the sum."""
        found = Parameters()
        self.functions.pdmk_init_default_params(ctypes.byref(found))
        found.n_dim, found.eps, found.n_per_leaf, found.log_level = 3, eps, leaf, SILENT
        found.kernel, found.eval_src, _ = DMK[kernel]
        found.eval_trg = found.eval_src
        return found


class Tree:
    """A tree of sources, which are the targets; ``points`` (N, 3) and ``dens`` (N, rows)."""

    def __init__(self, library: Library, parameters: Parameters, points: Any, dens: Any) -> None:
        self.library, self.dens, self.result = library, dens, np.empty_like(dens)
        given = len(points), points.ctypes.data, dens.ctypes.data
        self.tree = library.functions.pdmk_tree_create(None, parameters, *given, None, 0, None)
        self._check(not self.tree)

    def evaluate(self) -> Any:
        """Return the sums, shape (N, rows)."""
        failed = self.library.functions.pdmk_tree_eval(self.tree, self.result.ctypes.data, None)
        self._check(failed)
        return self.result

    def again(self) -> Any:
        """Pass the densities again, and return their sums."""
        update = self.library.functions.pdmk_tree_update_charges
        self._check(update(self.tree, self.dens.ctypes.data, None))
        return self.evaluate()

    def destroy(self) -> None:
        """Free the tree."""
        self.library.functions.pdmk_tree_destroy(self.tree)

    def _check(self, failed: bool | int) -> None:
        if failed:
            raise RuntimeError(self.library.functions.pdmk_last_error_message().decode())


def measure_dmk(run: Run) -> dict[str, Any]:
    """Return a row for each kernel, cloud and number of digits."""
    library = Library(os.environ["DMK_LIBRARY"])
    kept: list[Tree] = []

    def peer(kernel: str, points: Any, dens: Any, eps: float) -> Calls:
        points = np.ascontiguousarray(points.T)
        dens = np.ascontiguousarray(dens.reshape(-1, len(points)).T)
        factor = DMK[kernel][2]

        def call(leaf: int) -> Any:
            tree = Tree(library, library.parameters(kernel, eps, leaf), points, dens)
            found = factor * tree.evaluate().T
            tree.destroy()
            return found

        call(LEAVES[0])
        best = min(LEAVES, key=lambda leaf: run.clock(lambda: call(leaf)))
        while kept:
            kept.pop().destroy()
        kept.append(Tree(library, library.parameters(kernel, eps, best), points, dens))
        return lambda: call(best), lambda: factor * kept[0].again().T

    return {"rows": measure(run, peer), "library": "DMK"}


CASES = {
    "fmm3d": Case(
        "FMM3D (Greengard, Rokhlin and others): sums in free space by a fast multipole method.",
        *(measure_fmm3d, tables, draw),
        missing=lambda on_device: cpu_alone(on_device) or not_installed("fmm3dpy"),
    ),
    "dmk": Case(
        "DMK (Jiang and Greengard, 2025): sums in free space by a dual-space multilevel splitting.",
        *(measure_dmk, tables, draw),
        missing=lambda on_device: (
            cpu_alone(on_device)
            or ("" if "DMK_LIBRARY" in os.environ else "DMK_LIBRARY is not set")
        ),
    ),
}
