"""Radial functions: figure 4 of Kosmacher, Du, Bagge and Biros (2026), and times.

The first table has the error of erf(x)/x on [0, 6] against the number of terms, for rational
functions by the AAA algorithm in x (the paper's) and in x² (parki's), for polynomials in x², and
for the library's erf. The second one has the time of P2P with each evaluator, with equal
parameters, 3-periodic, in double precision: the least over a few rounds in which they alternate.
"""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.record import Record
from benchmarks.run import Run
from benchmarks.show import DARK, PAPER, PARKI, figure, save
from scipy.special import erf

import parki
from parki.ewald.near.radial import EVALUATORS, quotient
from parki.ewald.split.hasimoto import Hasimoto

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


def measure(run: Run) -> dict[str, Any]:
    """Return rows of errors, and a row of each kernel and evaluator."""
    curves, floor = errors()
    n, rows = run.size(50_000, 4_000_000), []
    for tolerance in run.tolerance or (1e-6,):
        for kernel in run.kernel or (KERNELS[:1] if run.quick else KERNELS):
            rows += [{"tolerance": tolerance, **row} for row in times(run, kernel, n, tolerance)]
    missing = [""] * len(TERMS)
    columns = {CURVES[name]: [*curve, *missing][: len(TERMS)] for name, curve in curves.items()}
    lines = zip(TERMS, *columns.values(), strict=True)
    head = ["terms", *columns]
    return {
        "Error of erf(x)/x on [0, 6]": [dict(zip(head, line, strict=True)) for line in lines],
        "Of the library's erf": [{"error": floor}],
        f"P2P, {n:,} points": rows,
    }


def times(run: Run, kernel: str, n: int, tolerance: float) -> list[dict[str, Any]]:
    """Return the measurements of every evaluator."""
    src, dens, norms = run.cloud(kernel, n)
    plans = {}
    for name in EVALUATORS:
        p2p: Any = "tile" if run.device else "staged"
        expert = parki.Expert(split="hasimoto", radial=name, p2p_method=p2p)
        options = run.options(3, tolerance, expert=expert)
        plans[name] = parki.Plan(kernel, src, src, norms, options)
    seconds, results = dict.fromkeys(EVALUATORS, math.inf), {}
    for _ in range(5):
        for name, plan in plans.items():
            results[name], stages = plan.timed(dens)
            seconds[name] = min(seconds[name], stages["P2P"])
    rows = []
    for name, plan in plans.items():
        difference = float(((results[name] - results["polynomial"]) ** 2).sum() / n) ** 0.5
        row = {"kernel": kernel, "evaluator": name, "degree": plan.parameters.degree}
        row |= {"terms": plan.setup.pair.evaluator.degree + 1 if name == "rational" else ""}
        row |= {"seconds": seconds[name], "ratio": seconds[name] / seconds["polynomial"]}
        rows.append(row | {"difference / promise": difference / plan.promise(dens)})
    return rows


def draw(record: Record, file: Path) -> None:
    """Draw the errors, and the times of the first tolerance over those with polynomials."""
    lines, (library,), rows = record["results"].values()
    made, (left, right) = figure(2, 4.9, 11)
    styles = ("s", PAPER), ("o", PARKI), (".", DARK)
    for (mark, colour), label in zip(styles, CURVES.values(), strict=True):
        curve = [(line["terms"], line[label]) for line in lines if line[label] != ""]
        left.semilogy(*zip(*curve, strict=True), marker=mark, color=colour, label=label)
    left.axhline(library["error"], color="#7d9b5f", linestyle="--", label="library erf")
    left.set(title="Error of erf(x)/x on [0, 6]", xlabel="number of terms", ylim=(1e-17, 3))
    left.grid()
    left.legend()
    first = rows[0]["tolerance"]
    rows = [row for row in rows if row["tolerance"] == first]
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))[::-1]
    bars = {"erfc": ("library erf", "#7d9b5f", 0.19), "rational": ("rational", PARKI, -0.19)}
    for name, (label, colour, shift) in bars.items():
        ratios = {row["kernel"]: row["ratio"] for row in rows if row["evaluator"] == name}
        places = [kernels.index(kernel) + shift for kernel in ratios]
        drawn = right.barh(places, list(ratios.values()), 0.34, color=colour, label=label)
        right.bar_label(drawn, fmt="%.2f", padding=3)
    right.axvline(1, color=DARK, label="polynomials")
    right.set_yticks(range(len(kernels)), kernels)
    right.set(title=f"Time of P2P over that with polynomials, tolerance {first:g}")
    right.legend()
    save(made, file, record["machine"]["name"])


CASES = {"radial": Case(__doc__, measure, draw=draw)}
