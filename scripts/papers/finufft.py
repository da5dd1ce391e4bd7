"""FINUFFT and cuFINUFFT (Barnett, Magland and af Klinteberg; Shih et al.): spreading alone.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import importlib
import itertools
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import Case, not_installed
from benchmarks.record import Record, pick
from benchmarks.run import Run
from benchmarks.show import SERIES, Table, count, figure, number, precision, save

from parki.mesh import Grid, InterpolatePlan, SpreadPlan, kaiser_bessel

WINDOWS = (4, 6, 8, 10, 12, 14)
MOST = {"f4": 8, "f8": 16}  # points of their widest window
CLOUDS = ("uniform", "clustered")
METHODS = {1: (1, 2, 3), 2: (1, 2)}  # cuFINUFFT's, by type of transform


def tolerance(points: int, dimensions: int) -> float:
    """Return a tolerance in the middle of the range where FINUFFT takes ``points`` points."""
    return 0.18 * 1.4 ** (dimensions - 1) * math.exp(-math.pi / math.sqrt(2) * (points - 1.5))


def missing(on_device: bool) -> str:
    """Return what is missing for the comparison, or ''."""
    return not_installed("cufinufft" if on_device else "finufft")


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each number of axes, precision, cloud and window."""
    if run.device:
        run.xp.fft.fft(run.xp.ones(8))  # loads CuPy's cuFFT, which cuFINUFFT needs and may not find
    library = importlib.import_module("cufinufft" if run.device else "finufft")
    rows = []
    for dimensions, dtype, cloud in itertools.product((3, 2), ("f8", "f4"), CLOUDS):
        n = run.size(1_000_000, 4_000_000)
        # There are as many points as grid points.
        k = 20 if run.quick else 2 * round(n ** (1 / dimensions) / 2)
        points = _points(run, dimensions, n, cloud)
        for p in (4,) if run.quick else WINDOWS:
            if p <= MOST[dtype]:
                row = {"axes": dimensions, "dtype": dtype, "cloud": cloud, "P": p, "N": n, "K": k}
                rows.append(row | _row(run, library, points, dtype, k, p))
                run.free()
    version = getattr(library, "__version__", "of unknown version")
    return {"rows": rows, "library": f"{library.__name__} {version}"}


def _points(run: Run, dimensions: int, n: int, cloud: str) -> np.ndarray:
    random = run.random
    if cloud == "uniform":
        return random.random((dimensions, n)) * (1 - 1e-6)
    middle = np.where(np.arange(n) % 2, 0.3, 0.7)
    return np.clip(middle + 0.03 * random.standard_normal((dimensions, n)), 0, 1 - 1e-6)


def _row(
    run: Run, library: Any, points: np.ndarray, dtype: str, k: int, p: int
) -> dict[str, float]:
    """Return nanoseconds per point and real component, and of sorting per point."""
    dimensions, n = points.shape
    shape, window = (k,) * dimensions, kaiser_bessel(p)
    complex_type = np.result_type(np.dtype(dtype), np.complex64).name
    device = run.device
    option = "gpu_spreadinterponly" if device else "spreadinterponly"
    options = {option: 1, "upsampfac": 2.0, "dtype": complex_type}
    here = run.send(points, dtype)
    angles = [run.send(2 * np.pi * row, dtype) for row in points]
    values, grid = run.normal((2, n), dtype), Grid(shape, spacing=1 / k)
    wave = (values[0] + 1j * values[1]).astype(complex_type)
    options["eps"] = tolerance(p, dimensions)
    mesh, at = (run.xp.zeros(size, dtype=complex_type) for size in (shape, n))
    theirs = [
        _fastest(run, library, kind, shape, options, angles, *data)
        for kind, data in ((1, (wave, mesh)), (2, (mesh, at)))
    ]
    theirs_set = run.median(lambda: theirs[0].setpts(*angles))
    ours_set = run.median(
        lambda: SpreadPlan(here, grid, window, components=2, execution_space=run.space)
    )
    spread = SpreadPlan(here, grid, window, components=2, execution_space=run.space)
    gather = InterpolatePlan(here, grid, window, components=2, execution_space=run.space)
    field, found = (run.xp.zeros((2, *size), dtype=dtype) for size in (shape, (n,)))
    calls: dict[str, Callable[[], Any]] = {
        "spread": lambda: spread(values, out=field),
        "their spread": lambda: theirs[0].execute(wave, out=mesh),
        "interpolate": lambda: gather(field, out=found),
        "their interpolate": lambda: theirs[1].execute(mesh, out=at),
    }
    times = run.medians(calls)
    ratio = float(abs(field).sum() / abs(mesh.real).sum())
    if not 0.2 < ratio < 5:
        raise RuntimeError("FINUFFT spreads something else")
    scale = 1e9 / n
    return {name: took * scale / 2 for name, took in times.items()} | {
        "set-up": ours_set * scale,
        "their set-up": theirs_set * scale,
    }


def _fastest(
    run: Run,
    library: Any,
    kind: int,
    shape: tuple[int, ...],
    options: dict[str, Any],
    angles: list[Any],
    given: Any,
    out: Any,
) -> Any:
    """Return their plan with points; on a GPU, by the fastest method."""
    found = []
    for method in METHODS[kind] if run.device else (None,):
        own = options if method is None else options | {"gpu_method": method}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                plan = library.Plan(kind, shape, **own)
                plan.setpts(*angles)
                took = run.median(lambda plan=plan: plan.execute(given, out=out), enough=0.05)
            except RuntimeError:  # too wide a window for this method
                if method in (None, 1):
                    raise
                continue
        found.append((took, method, plan))
    return min(found, key=lambda each: each[0])[2]


def tables(record: Record) -> list[Table]:
    """Return a table for each number of axes."""
    found, made = record["results"], []
    name = found["library"]
    columns: list[Any] = [
        ("precision", lambda row: precision(row["dtype"])),
        ("points", lambda row: row["cloud"]),
        ("P", lambda row: str(row["P"])),
    ]
    for what in ("spread", "interpolate"):
        columns += [
            (f"{what}: parki", lambda row, what=what: number(row[what])),
            (name, lambda row, what=what: number(row[f"their {what}"])),
            ("ratio", lambda row, what=what: f"{row[f'their {what}'] / row[what]:.2f}"),
        ]
    columns.append(("set-up: parki", lambda row: number(row["set-up"])))
    columns.append((name, lambda row: number(row["their set-up"])))
    for axes in (3, 2):
        of = pick(found["rows"], axes=axes)
        size = f"{count(of[0]['N'])} points, {of[0]['K']} grid points along each axis"
        made.append(Table.of(f"{axes}-D, {size}: ns", of, *columns))
    return made


def draw(record: Record, file: Path) -> None:
    """Draw the ratio of FINUFFT's time to parki's."""
    rows = record["results"]["rows"]
    made, panels = figure(4, 3.8, 12.5, sharey=True)
    kinds = [(axes, name) for axes in (3, 2) for name in ("spread", "interpolate")]
    for panel, (axes, name) in zip(panels, kinds, strict=True):
        for k, dtype in enumerate(("f8", "f4")):
            for cloud in CLOUDS:
                of = pick(rows, axes=axes, dtype=dtype, cloud=cloud)
                points = [(r["P"], r[f"their {name}"] / r[name]) for r in of]
                how = {"color": SERIES[k], "label": f"{precision(dtype)}, {cloud}", "marker": "o"}
                line = "-" if cloud == "uniform" else ":"
                panel.plot(*zip(*points, strict=True), line, **how)
        panel.axhline(1, color="#666666", linewidth=1)
        panel.set(title=f"{axes}-D, {name}", xlabel="window points P")
        panel.grid()
    panels[0].set_ylim(0, None)
    panels[0].set_ylabel("their time over parki's")
    panels[0].legend(fontsize=8)
    save(made, file, f"{record['machine']['name']}, {record['results']['library']}")


CASES = {"finufft": Case(__doc__, measure, tables, draw, missing)}
