"""Measure errors against the promised tolerance, over the whole sweep, and draw them.

    python scripts/accuracy.py --seconds 600 --output results.json     # on this machine's CPU
    python scripts/accuracy.py --space Cuda --seconds 600 --output cuda.json
    python scripts/accuracy.py --part 2/4 --cases 8000 --output part2.json   # one of four jobs
    python scripts/accuracy.py --boxes flat --costs device     # other boxes, by a GPU's costs
    python scripts/accuracy.py --densities one_sign smooth --kernels laplace "yukawa(kappa=30.0)"
    python scripts/accuracy.py --draw results.json cuda.json           # docs/images/accuracy.png

The cases come from ``tests/helpers/contract.py``. Their order is such that the first ones already
cover all pairs of values, so that an interrupted run is still representative. The script prints
the worst cases, and exits with 1 if an error is larger than promised.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import record, show
from benchmarks.run import Run

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/helpers")]

from clouds import BOXES, COHERENT, DENSITIES, FLAT, TILTED  # noqa: E402
from contract import (  # noqa: E402
    KERNELS,
    LARGE,
    LEAST,
    PERIODICITIES,
    SMALL,
    TOLERANCES,
    Case,
    costs_of_a_device,
    sweep,
)

import parki  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "accuracy.png"
SHAPES = {"usual": BOXES, "flat": FLAT, "tilted": TILTED}
SIZES = {"small": (SMALL,), "large": (LARGE,), "both": (SMALL, LARGE)}


# --- measure ----------------------------------------------------------------------------------


def measure(case: Case, space: str) -> dict[str, Any]:
    """Return one row of the results: error, promise, rounding, flow and ratio of each field."""
    row: dict[str, Any] = {"case": case._asdict()}
    start = time.perf_counter()
    case.reference()
    referred = time.perf_counter()
    try:
        outcomes = case.outcomes(space)
    except parki.ParkiValueError as error:  # refused, as tolerances out of reach may be
        row["refused"] = str(error)
        return row
    row["seconds"] = [referred - start, time.perf_counter() - referred]
    row["fields"] = [outcome._asdict() | {"ratio": outcome.ratio} for outcome in outcomes]
    return row


def worst(row: dict[str, Any]) -> float:
    """Return the largest ratio of the fields of a row; 0 if the sum was refused."""
    return max((field["ratio"] for field in row.get("fields", ())), default=0.0)


def name(row: dict[str, Any]) -> str:
    """Return the case of a row as text."""
    return str(Case(**row["case"] | {"want": tuple(row["case"]["want"])}))


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the cases of one part of the sweep, and show progress in one line."""
    part, parts = map(int, args.part.split("/"))
    rows: list[dict[str, Any]] = []
    start, shown = time.perf_counter(), 0.0
    which = {"kernels": args.kernels, "densities": args.densities}
    cases = sweep(SIZES[args.size], args.seed, SHAPES[args.boxes], **which)
    last = itertools.islice(cases, args.cases)
    tty = sys.stderr.isatty()
    try:
        for case in itertools.islice(last, part - 1, None, parts):
            passed = time.perf_counter() - start
            if passed > args.seconds:
                break
            if passed - shown > (0.5 if tty else 30):
                shown = passed
                most = max(rows, key=worst) if rows else None
                text = f"{len(rows)} cases, {args.seconds - passed:.0f} s left"
                if most:
                    text += f", worst {worst(most):.2f}: {name(most)}"
                print(f"\r\x1b[K{text}" if tty else text, end="" if tty else "\n", file=sys.stderr)
            rows.append(measure(case, args.space))
    except KeyboardInterrupt:
        print("\nstopped; what was measured counts", file=sys.stderr)
    if tty:
        print(file=sys.stderr)
    return rows


# --- report -----------------------------------------------------------------------------------


def largest(rows: list[dict[str, Any]], *factors: str) -> dict[tuple[Any, ...], float]:
    """Return the largest ratio of each value of some factors."""
    found: dict[tuple[Any, ...], float] = {}
    for row in rows:
        values = tuple(row["case"][factor] for factor in factors)
        found[values] = max(found.get(values, 0.0), worst(row))
    return found


def report(rows: list[dict[str, Any]]) -> int:
    """Print the worst ratios and cases; return the number of errors larger than promised."""
    summed = [row for row in rows if "fields" in row]
    refused = [row for row in rows if "refused" in row]
    print(f"{len(summed)} sums compared, {len(refused)} tolerances refused\n")
    print("Largest error over promise and rounding")
    columns = list(itertools.product(PERIODICITIES, TOLERANCES))
    print(f"{'':14s}" + "".join(f"{p}P {dtype}".rjust(9) for p, dtype in columns))
    most = largest(summed, "kernel", "periodicity", "dtype")
    for kernel in dict.fromkeys(row["case"]["kernel"] for row in summed):
        print(f"{kernel:14s}" + "".join(f"{most.get((kernel, *c), 0.0):9.2f}" for c in columns))
    for factor in ("cloud", "density", "box", "split", "n"):
        most = largest(summed, factor)
        print(f"\nby {factor}: " + ", ".join(f"{v} {r:.2f}" for (v,), r in most.items()), end="")
    print("\n\nWorst cases")
    passed = [row for row in summed if worst(row) > 1]
    summed.sort(key=worst, reverse=True)
    for row in summed[: max(10, len(passed))]:
        field = max(row["fields"], key=lambda f: f["ratio"])
        print(f"{worst(row):10.3f}  {field['field']:6s} {name(row)}")
    for row in refused:
        print(f"   refused  {name(row)}")
    return len(passed)


# --- draw -------------------------------------------------------------------------------------

# Colours of all panels, readable by the colour-blind, and words.
LABELS = {
    "laplace": "Laplace",
    "stokes_sl": "single layer",
    "stokes_dl": "double layer",
    "stokes_comb": "combined",
    "stokes_rotlet": "rotlets",
    "stokes_dipole": "dipoles",
    "laplace_dipole": "dipoles of charges",
    "yukawa(kappa=2.0)": "screened charges",
    "brinkman_sl(alpha=2.0)": "Brinkman's single layer",
    "brinkman_dl(alpha=2.0)": "Brinkman's double layer",
}
COLOURS = dict(
    zip(
        LABELS,
        "#E69F00 #0072B2 #D55E00 #009E73 #CC79A7 #56B4E9 #000000 #999999 #F0E442 #8C510A".split(),
        strict=True,
    )
)
MARKERS = {"f8": "o", "f4": "^"}
FLOOR = 3e-3


def pale(row: dict[str, Any]) -> bool:
    """Return whether the bound of a sum depends on more than the tolerance."""
    field = max(row["fields"], key=lambda f: f["ratio"])
    return field["rounding"] > field["promise"] or row["case"]["density"] in COHERENT


def draw(files: list[Path]) -> None:
    """Draw all sums of all results in one picture, each by its worst field."""
    made, axes = show.figure(2, 7.2, 9, rows=2, sharex=True, sharey=True)
    rows = [row for file in files for row in json.loads(file.read_text())["rows"]]
    rng = np.random.default_rng(0)
    for periodicity, panel in zip(PERIODICITIES, axes, strict=True):
        panel.axhspan(LEAST, 1, color="#e8f1e4", zorder=0, lw=0)
        panel.axhline(1, color="#3c6e3c", lw=1.2, zorder=2.5)
        here = [r for r in rows if "fields" in r and r["case"]["periodicity"] == periodicity]
        here = [r for r in here if r["case"]["dtype"] in MARKERS]
        for (kernel, colour), (dtype, marker) in itertools.product(
            COLOURS.items(), MARKERS.items()
        ):
            of = [r for r in here if (r["case"]["kernel"], r["case"]["dtype"]) == (kernel, dtype)]
            is_pale = np.array([pale(row) for row in of], dtype=bool)
            # There are few tolerances, so kernels are shifted along the axis.
            shift = (KERNELS.index(kernel) - 3) * 0.11 + rng.uniform(-0.07, 0.07, len(of))
            x = np.array([row["case"]["tolerance"] for row in of]) * 10**shift
            y = np.array([max(worst(row), FLOOR) for row in of])
            for which, alpha, order in ((is_pale, 0.2, 2), (~is_pale, 0.8, 3)):
                how = {"s": 10, "c": colour, "marker": marker, "alpha": alpha, "zorder": order}
                panel.scatter(x[which], y[which], lw=0, **how)
        panel.set_title(f"{periodicity} periodic direction{'s' * (periodicity != 1)}")
        panel.set_title(f"{len(here)} sums", fontsize=9, loc="right", color="#666666")
        panel.set(xscale="log", yscale="log", xlim=(0.35, 3e-14))  # towards higher accuracy
        panel.grid(axis="y")
    top = max([worst(row) for row in rows] + [2.0])
    axes[0].set(ylim=(FLOOR / 1.3, top * 1.5), xticks=[10.0**-n for n in range(1, 14, 2)])
    axes[0].minorticks_off()
    made.supylabel("measured / promised error", fontsize=11)
    kinds = [(colour, "o", LABELS[kernel]) for kernel, colour in COLOURS.items()]
    kinds += [("#555555", "o", "double precision"), ("#555555", "^", "single")]
    kinds.append(("#cccccc", "o", "rounding or coherent"))
    for colour, marker, label in kinds:
        axes[0].plot([], [], ls="", marker=marker, color=colour, label=label)
    made.legend(loc="outside lower center", ncols=4, fontsize=9)
    show.save(made, PICTURE, "tolerance")
    print(f"wrote {PICTURE}")


def main() -> int:
    """Measure and report, or draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--space", default="CPU", help="CPU, Cuda, ...")
    add("--seconds", type=float, default=600, help="stop after this time")
    add("--cases", type=int, default=100_000, help="stop after this many cases")
    add("--part", default="1/1", help="k/n: every n-th case from the k-th on")
    add("--size", choices=SIZES, default="both", help="numbers of points")
    add("--seed", type=int, default=0, help="another order of the cases")
    add("--boxes", choices=SHAPES, default="usual", help="flat: 1:1/8 to 1:8 along axes")
    add("--costs", choices=("own", "device"), default="own", help="what chooses parameters")
    add("--kernels", nargs="+", default=KERNELS, help="sums, also with parameters")
    add("--densities", nargs="+", default=(), choices=tuple(DENSITIES))
    add("--output", type=Path, help="write the results, as JSON")
    add("--draw", type=Path, nargs="+", help="draw results; measure nothing")
    args = parser.parse_args()
    if args.draw:
        draw(args.draw)
        return 0
    warnings.simplefilter("ignore", parki.ParkiWarning)  # the sweep includes far points on purpose
    with costs_of_a_device() if args.costs == "device" else contextlib.nullcontext():
        rows = run(args)
    if args.output:
        settings = {key: x for key, x in vars(args).items() if key not in ("draw", "output")}
        run_of = Run(parki.get_execution_space(args.space))
        facts = {**record.machine(run_of), **record.versions(run_of)}
        result = {"machine": facts, "settings": settings, "rows": rows}
        args.output.write_text(json.dumps(result, indent=0))
    return int(report(rows) > 0)


if __name__ == "__main__":
    sys.exit(main())
