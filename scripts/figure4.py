"""Compare evaluators of the near field's radial functions: figure 4 of the paper, and times.

    python scripts/figure4.py                                       # on the CPU, some 30 s
    python scripts/figure4.py --space Cuda --points 4000000 --tolerance 1e-6 1e-4 1e-9

The figure needs matplotlib. Its left side is figure 4 of Kosmacher, Du, Bagge and Biros (2026): the
error of erf(x)/x on [0, 6] against the number of terms, for rational functions by the AAA algorithm
in x (the paper's) and in x^2 (parki's), for polynomials in x^2, and for the library's erf. The
right side has the time of P2P with each evaluator at the first tolerance, with equal parameters.
Each time is the least over a few rounds in which the evaluators alternate.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

import parki
from parki.ewald.near.radial import EVALUATORS, quotient
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.sums import SUMS
from parki.settings import thread_count

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "radial.png"
END = 6.0  # the paper's interval
TERMS = range(4, 41)
MOST_RATIONAL = 14  # more terms would approximate rounding errors
KERNELS = ("stokes_comb", "stokes_sl", "stokes_dl", "stokes_rotlet", "laplace")
CURVES = {
    "x": "rational in x (paper)",
    "x2": "rational in x²",
    "polynomial": "polynomial in x²",
}


def exact(x: float) -> float:
    """Evaluate erf(x)/x, rounded from 30 digits."""
    square = Decimal(x) ** 2
    term = total = Decimal(2) / Decimal("3.14159265358979323846264338327950288420").sqrt()
    k = 0
    while term > total * Decimal("1e-32"):
        k += 1
        term *= 2 * square / (2 * k + 1)
        total += term
    return float(total * (-square).exp())


def rational(x: Any, terms: int, power: int) -> Any:
    """Evaluate AAA's approximation of erf(x)/x with ``terms`` terms in x**power, as kernels do."""
    nodes = (1 - np.cos(np.linspace(0, np.pi, 129))) / 2
    arguments = END * nodes ** (1 / power)
    values = np.full(nodes.shape, 2 / math.sqrt(math.pi))
    np.divide(erf(arguments), arguments, out=values, where=arguments > 0)
    top, bottom = quotient(nodes, values, terms)
    variable = (x / END) ** power
    return np.polyval(top, variable) / np.polyval(bottom, variable)


def polynomial(x: Any, terms: int) -> Any:
    """Evaluate parki's polynomial for erf(x)/x, as the kernel does."""
    coefficients = Hasimoto(END).radial_polynomials(1.0, terms - 1).L
    return 2 / END * np.polyval(coefficients, 2 * (x / END) ** 2 - 1)


def errors(points: int = 1500) -> tuple[dict[str, list[float]], float]:
    """Return the largest errors of each curve for `TERMS`, and of the library's erf."""
    getcontext().prec = 36
    x = END * np.linspace(1e-6, 1, points)
    right = np.array([exact(float(v)) for v in x])

    def worst(values: Any) -> float:
        return float(np.abs(values - right).max())

    few = [n for n in TERMS if n <= MOST_RATIONAL]
    curves = {
        "x": [worst(rational(x, n, 1)) for n in few],
        "x2": [worst(rational(x, n, 2)) for n in few],
        "polynomial": [worst(polynomial(x, n)) for n in TERMS],
    }
    return curves, worst(erf(x) / x)


def times(
    space: str, points: int, tolerance: float, kernels: Sequence[str], rounds: int = 5
) -> list[dict[str, Any]]:
    """Return the measurements of every kernel and evaluator."""
    xp = parki.get_execution_space(space).array_module
    rng = np.random.default_rng(4)
    src, norms = xp.asarray(rng.random((3, points))), xp.asarray(rng.standard_normal((3, points)))
    density = xp.asarray(rng.standard_normal((6, points)))
    rows = []
    for kernel in kernels:
        dens = {"laplace": density[0], "stokes_comb": density}.get(kernel, density[:3])
        plans = {
            name: parki.Plan(
                kernel,
                src,
                src,
                norms if SUMS[kernel].normals else None,
                parki.EwaldOptions(
                    box=[1, 1, 1],
                    tolerance=tolerance,
                    execution_space=space,
                    split="hasimoto",
                    radial=name,
                    p2p_method="tile" if xp is not np else "staged",
                ),
            )
            for name in EVALUATORS
        }
        seconds = dict.fromkeys(EVALUATORS, math.inf)
        results = {}
        for _ in range(rounds):
            for name, plan in plans.items():
                results[name], stages = plan.timed(dens)
                seconds[name] = min(seconds[name], stages["P2P"])
        for name, plan in plans.items():
            difference = ((results[name] - results["polynomial"]) ** 2).sum() / points
            rows.append(
                {
                    "kernel": kernel,
                    "evaluator": name,
                    "terms": plan.setup.pair.evaluator.degree + 1 if name == "rational" else 0,
                    "degree": plan.parameters.degree,
                    "seconds": seconds[name],
                    "ratio": seconds[name] / seconds["polynomial"],
                    "difference": float(difference) ** 0.5 / plan.promise(dens),
                }
            )
    return rows


def machine(space: str) -> str:
    """Return the name of a GPU, or the number of threads."""
    chosen = parki.get_execution_space(space)
    if chosen.on_device:
        cupy = chosen.array_module
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        return str(properties["name"].decode())
    return f"CPU, {thread_count()} threads"


def draw(
    curves: dict[str, list[float]],
    floor: float,
    rows: list[dict[str, Any]],
    subtitle: str,
    file: Path,
) -> None:
    """Write the figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    colours = {"x": "#c2703d", "x2": "#2b6a99", "polynomial": "#4a4a4a", "library": "#7d9b5f"}
    plt.rcParams.update(
        {
            "font.size": 13,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": "#666666",
            "axes.titlesize": 14,
            "axes.titlelocation": "left",
            "axes.titlepad": 12,
        }
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.9), layout="constrained")
    markers = {"x": "s", "x2": "o", "polynomial": "."}
    for name, label in CURVES.items():
        left.semilogy(
            list(TERMS)[: len(curves[name])],
            curves[name],
            marker=markers[name],
            markersize=6,
            linewidth=1.8,
            color=colours[name],
            label=label,
        )
    left.axhline(floor, color=colours["library"], linewidth=1.8, linestyle="--")
    left.text(4, floor * 0.55, "library erf", color=colours["library"], va="top")
    left.set(
        title="Error of erf(x)/x on [0, 6]",
        xlabel="number of terms",
        ylabel="largest error",
        xlim=(3, 41),
        ylim=(1e-17, 3),
        yticks=10.0 ** np.arange(-16, 1, 4),
    )
    left.grid(color="#e6e6e6", linewidth=0.8)
    left.set_axisbelow(True)
    left.legend(frameon=False, loc="upper right")
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))[::-1]
    bars = {"erfc": ("library erf", "library", 0.19), "rational": ("rational", "x2", -0.19)}
    for name, (label, colour, shift) in bars.items():
        ratios = {row["kernel"]: row["ratio"] for row in rows if row["evaluator"] == name}
        places = [kernels.index(kernel) + shift for kernel in ratios]
        right.barh(places, list(ratios.values()), 0.34, color=colours[colour], label=label)
        for place, ratio in zip(places, ratios.values(), strict=True):
            number = {"color": "white", "fontsize": 12, "ha": "left", "va": "center_baseline"}
            right.annotate(f"{ratio:.2f}", (0, place), (5, 0), textcoords="offset points", **number)
    ends = (-0.6, len(kernels) - 0.45)
    right.plot([1, 1], ends, color=colours["polynomial"], linewidth=1.8, label="polynomials")
    right.set_yticks(range(len(kernels)), kernels)
    right.tick_params(axis="y", length=0)
    right.locator_params(axis="x", nbins=5)
    right.set(
        title="Time of P2P over that with polynomials",
        xlabel=subtitle,
        xlim=(0, 1.12 * max(row["ratio"] for row in rows)),
        ylim=(ends[0], ends[1] + 0.7),
    )
    right.spines["left"].set_visible(False)
    # The legend is above the bars, which may have any length.
    right.legend(
        frameon=False, loc="upper left", ncols=3, borderaxespad=0.0, borderpad=0.2, handlelength=1.2
    )
    figure.savefig(file, dpi=150)
    print(f"\nwrote {file}")


def main() -> None:
    """Print the tables and draw the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--space", default="CPU", help="execution space of the times")
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--tolerance", type=float, nargs="+", default=[1e-6])
    parser.add_argument("--kernels", nargs="+", default=KERNELS, choices=KERNELS)
    parser.add_argument("--output", type=Path, default=IMAGE, help="file of the figure")
    parser.add_argument("--no-figure", action="store_true", help="only measure times")
    args = parser.parse_args()
    rows = []
    for tolerance in args.tolerance:
        print(
            f"\nP2P, {args.points} points, 3-periodic, float64, tolerance {tolerance:g}, "
            f"{machine(args.space)}\n\n"
            "kernel         evaluator    degree  terms   seconds  ratio  difference/promise"
        )
        rows.append(times(args.space, args.points, tolerance, args.kernels))
        for r in rows[-1]:
            print(
                f"{r['kernel']:14s} {r['evaluator']:12s} {r['degree']:6d} {r['terms'] or '':>6}"
                f" {r['seconds']:9.4f} {r['ratio']:6.2f} {r['difference']:14.1e}"
            )
    if args.no_figure:
        return
    curves, floor = errors()
    print("\nlargest error of erf(x)/x on [0, 6], float64\n")
    print("terms  " + "".join(f"{label:>24}" for label in CURVES.values()))
    for row, terms in enumerate(TERMS):
        cells = [f"{c[row]:24.1e}" if row < len(c) else " " * 24 for c in curves.values()]
        print(f"{terms:5d}  " + "".join(cells))
    print(f"library erf: {floor:.1e}")
    subtitle = f"{machine(args.space)}, {args.points:,} points, tolerance {args.tolerance[0]:g}"
    for long, short in ((",000,000", " million"), ("e-0", "e-")):
        subtitle = subtitle.replace(long, short)
    draw(curves, floor, rows[0], subtitle, args.output)


if __name__ == "__main__":
    main()
