"""Measured error against the requested tolerance, for every kernel, periodicity and precision.

    python examples/convergence.py [--points 1000] [--output convergence.png]

Sources and targets are random points in the unit box; densities and normals are random numbers. The
error is measured against `parki.reference.direct_sum`, which shares no code with the solver. It is
divided by the promise's factor of the tolerance, so that it is comparable with the tolerance
itself: a point on the line of the picture is an error exactly as large as promised.

In single precision the direct sum also takes the rounded points and densities, since these are the
solver's input.
"""

import argparse
import importlib.util
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import parki

KERNELS = {
    "laplace": ("Laplace", "#e69f00", "o"),
    "stokes_sl": ("single layer", "#0072b2", "s"),
    "stokes_dl": ("double layer", "#d55e00", "^"),
    "stokes_comb": ("combined", "#009e73", "D"),
    "stokes_rotlet": ("rotlets", "#cc79a7", "v"),
}
DTYPES = {"float64": "double precision", "float32": "single precision"}
TOLERANCES = tuple(10.0**-digits for digits in range(1, 13))
SMALLEST = {"float64": 1e-13, "float32": 1e-6}  # smallest tolerances in parki
TARGETS = 60
BOX = (1.0, 1.0, 1.0)
# Bound of the rounding added to the promise, in unit roundoffs of the potential's rms.
ROUNDING = 32
INK, PAPER, GREEN = "#1d1b2e", "#fbfaf8", "#3a6b35"


@dataclass(frozen=True)
class Error:
    """One measured error and its bound, both divided by the factor of the tolerance."""

    kernel: str
    periodicity: int
    dtype: str
    tolerance: float
    error: float
    bound: float

    @property
    def ratio(self) -> float:
        """Measured over allowed error, at most 1."""
        return self.error / self.bound


def rms(field: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.sum(np.atleast_2d(field) ** 2, axis=0))))


def measure(
    kernel: str, periodicity: int, dtype: str, tolerances: tuple[float, ...], count: int
) -> list[Error]:
    """Return the errors of one sum at all tolerances of the precision."""
    rng = np.random.default_rng(0)
    rows = {"laplace": (), "stokes_comb": (6,)}.get(kernel, (3,))
    trg = rng.random((3, TARGETS)).astype(dtype)
    src = rng.random((3, count)).astype(dtype)
    dens = rng.standard_normal((*rows, count)).astype(dtype)
    norms = None
    if kernel in ("stokes_dl", "stokes_comb"):
        norms = rng.standard_normal((3, count)).astype(dtype)
    exact = parki.reference.direct_sum(
        kernel, trg, src, dens, norms, box=BOX, periodicity=periodicity
    )
    errors = []
    for tolerance in tolerances:
        if tolerance < SMALLEST[dtype]:
            continue
        options = parki.EwaldOptions(periodicity=periodicity, box=BOX, tolerance=tolerance)
        plan = parki.Plan(kernel, trg, src, norms, options)
        factor = plan.promise(dens) / tolerance
        rounding = ROUNDING * float(np.finfo(dtype).eps) / 2 * rms(exact)
        errors.append(
            Error(
                kernel,
                periodicity,
                dtype,
                tolerance,
                rms(plan(dens) - exact) / factor,
                tolerance + rounding / factor,
            )
        )
    return errors


def table_of(errors: list[Error], dtype: str) -> Table:
    """Return errors in percent of bounds, with a row for each sum, a column for each tolerance."""
    errors = [e for e in errors if e.dtype == dtype]
    tolerances = sorted({e.tolerance for e in errors}, reverse=True)
    title = f"Measured error in percent of the promised one, {DTYPES[dtype]}"
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("digits of the tolerance")
    for tolerance in tolerances:
        table.add_column(f"{-np.log10(tolerance):.3g}", justify="right")
    found = {(e.kernel, e.periodicity, e.tolerance): e.ratio for e in errors}
    for kernel, periodicity in dict.fromkeys((e.kernel, e.periodicity) for e in errors):
        ratios = [found[kernel, periodicity, tolerance] for tolerance in tolerances]
        table.add_row(f"{kernel} {periodicity}P", *(f"{ratio:.0%}"[:-1] for ratio in ratios))
    return table


def draw(errors: list[Error], output: str) -> None:
    """Draw error against tolerance, in a panel for each periodicity and precision."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    periodicities = sorted({e.periodicity for e in errors})
    dtypes = [dtype for dtype in DTYPES if any(e.dtype == dtype for e in errors)]
    figure = Figure(figsize=(11.5, 0.9 + 2.9 * len(dtypes)), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(dtypes), len(periodicities), sharey="row", squeeze=False)
    for line, dtype in zip(grid, dtypes, strict=True):
        of_dtype = [e for e in errors if e.dtype == dtype]
        ends = np.array(
            [3 * max(e.tolerance for e in of_dtype), min(e.tolerance for e in of_dtype) / 3]
        )
        lowest = min(e.error for e in of_dtype) / 3
        for axes, periodicity in zip(line, periodicities, strict=True):
            axes.fill_between(ends, lowest, ends, color=GREEN, alpha=0.08, linewidth=0)
            axes.loglog(ends, ends, color=GREEN, linewidth=1.5)
            for kernel, (_, colour, marker) in KERNELS.items():
                chosen = [e for e in of_dtype if (e.kernel, e.periodicity) == (kernel, periodicity)]
                axes.loglog(
                    [e.tolerance for e in chosen],
                    [e.error for e in chosen],
                    color=colour,
                    marker=marker,
                    markersize=4.5,
                    linewidth=0.8,
                    alpha=0.9,
                )
            axes.set(xlim=ends, ylim=(lowest, ends[0]), facecolor=PAPER)
            axes.minorticks_off()
            axes.grid(color=INK, alpha=0.10)
            axes.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"measured error\n{DTYPES[dtype]}", color=INK)
        line[0].text(0.52, 0.86, "promised", color=GREEN, transform=line[0].transAxes)
        if dtype == "float32":  # where the points leave the line
            place = {"ha": "right", "transform": line[-1].transAxes, "color": INK, "alpha": 0.75}
            line[-1].text(0.98, 0.40, "rounding\non top", **place)
    for axes, periodicity in zip(grid[0], periodicities, strict=True):
        axes.set_title(
            f"{periodicity} periodic ax{'i' if periodicity == 1 else 'e'}s",
            loc="left",
            fontweight="bold",
        )
    for axes in grid[-1]:
        axes.set_xlabel("tolerance", color=INK)
    present = [kernel for kernel in KERNELS if any(e.kernel == kernel for e in errors)]
    figure.legend(
        [Line2D([], [], color=KERNELS[k][1], marker=KERNELS[k][2]) for k in present],
        [KERNELS[kernel][0] for kernel in present],
        loc="lower center",
        ncols=len(present),
        frameon=False,
    )
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(output, facecolor=PAPER)


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    many = partial(parser.add_argument, nargs="+")
    parser.add_argument("--points", type=int, default=1000, help="sources")
    many("--kernels", choices=tuple(KERNELS), default=tuple(KERNELS), metavar="KERNEL", help="sums")
    many("--periodicities", type=int, choices=range(4), default=(0, 1, 2, 3), help="periodic axes")
    many("--dtypes", choices=tuple(DTYPES), default=tuple(DTYPES), help="precisions")
    many("--tolerances", type=float, default=TOLERANCES, help="tolerances to ask for")
    parser.add_argument("--output", default="convergence.png", help="picture; '' draws nothing")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> list[Error]:
    given = arguments(words)
    errors = []
    for dtype in given.dtypes:
        for kernel in given.kernels:
            for periodicity in given.periodicities:
                errors += measure(kernel, periodicity, dtype, tuple(given.tolerances), given.points)
    for dtype in given.dtypes:
        Console().print(table_of(errors, dtype))
    worst = max(errors, key=lambda e: e.ratio)
    print(
        f"{len(errors)} sums of {given.points} sources; the largest error is {worst.ratio:.0%} of "
        f"the promised one ({worst.kernel}, {worst.periodicity} periodic axes, {worst.dtype}, "
        f"tolerance {worst.tolerance:.0e})"
    )
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(errors, given.output)
        print(f"Picture: {Path(given.output)}")
    return errors


if __name__ == "__main__":
    main()
