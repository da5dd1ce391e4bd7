"""Measure the tables and figures of the paper again with parki, and compare with the paper.

    python scripts/benchmark.py --table 9 --json table9.json --draw table9.png     # on the CPU
    python scripts/benchmark.py --table 6 7 8 --space Cuda                         # on a GPU
    python scripts/benchmark.py --all --space Cuda --json h200.json
    python scripts/benchmark.py --from h200.json --draw pictures/h200.png          # show again
    python scripts/benchmark.py --docs docs/results/benchmarks-*.json              # write the page

These are tables 3, 5, 6, 7, 8, 9, 10 and figures 5, 6, 9 of Kosmacher, Du, Bagge and Biros (2026).
A file in ``scripts/benchmarks`` for each says what is compared and what cannot be. A table takes
about a minute. Pictures need matplotlib; several pictures have the table's name added to FILE.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from benchmarks import (
    figure5,
    figure6,
    figure9,
    page,
    record,
    table3,
    table5,
    table6,
    table7,
    table8,
    table9,
    table10,
)
from benchmarks.run import Run

import parki

KINDS: dict[str, ModuleType] = {
    "table 3": table3,
    "table 5": table5,
    "table 6": table6,
    "table 7": table7,
    "table 8": table8,
    "table 9": table9,
    "table 10": table10,
    "figure 5": figure5,
    "figure 6": figure6,
    "figure 9": figure9,
}
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read records; then print, write and draw."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.docs:
        records = record.read(args.docs)
        text = page.page(records, tables, about)
        args.page.write_text(text, encoding="utf-8")
        for found in records:
            if found["kind"] in page.DRAWN:
                draw(found, args.page.parent / page.picture(found))
        print(f"wrote {args.page}")
        return 0
    if args.read:
        records = record.read(args.read)
        for found in records:
            show(found)
    else:
        kinds = list(KINDS) if args.all else _kinds(args.table, args.figure)
        if not kinds:
            parser.error("say what to do: --table, --figure, --all, --from or --docs")
        run = Run(parki.get_execution_space(args.space), args.points, args.quick)
        records = []
        for kind in kinds:
            begun = time.perf_counter()
            results = KINDS[kind].measure(run)
            records.append(record.record(kind, run, time.perf_counter() - begun, results))
            show(records[-1])
            if args.json:  # after each, so that an interrupted run keeps its results
                record.write(args.json, records)
    if args.draw:
        for found in records:
            file = args.draw
            if len(records) > 1:
                file = file.with_stem(f"{file.stem}-{found['kind'].replace(' ', '')}")
            draw(found, file)
            print(f"wrote {file}")
    return 0


def tables(found: record.Record) -> list[page.Table]:
    """Return the tables of a record."""
    made: list[page.Table] = KINDS[found["kind"]].tables(found)
    return made


def about(kind: str) -> str:
    """Return the text on what is compared and what cannot be."""
    return str(KINDS[kind].__doc__)


def draw(found: record.Record, file: Path) -> None:
    """Draw the picture of a record."""
    KINDS[found["kind"]].draw(found, file)


def show(found: record.Record) -> None:
    """Print the tables of a record."""
    print(f"\n{found['kind'].capitalize()}. {record.where(found)}; {found['seconds']:.0f} s\n")
    for table in tables(found):
        table.print()
        print()


def _kinds(chosen: list[int], figures: list[int]) -> list[str]:
    return [*(f"table {n}" for n in chosen), *(f"figure {n}" for n in figures)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = {
        word: sorted(int(kind.split()[1]) for kind in KINDS if kind.startswith(word))
        for word in ("table", "figure")
    }
    for word, choices in numbers.items():
        parser.add_argument(f"--{word}", type=int, nargs="+", default=[], choices=choices)
    parser.add_argument("--all", action="store_true", help="all tables and figures")
    parser.add_argument("--space", default="CPU", help="CPU, Cuda, ...")
    parser.add_argument("--points", type=int, help="default: a number that suits the table")
    parser.add_argument("--quick", action="store_true", help="few points: tests the script")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument("--draw", type=Path, metavar="FILE.png", help="draw the results")
    parser.add_argument(
        "--from", dest="read", type=Path, nargs="+", metavar="FILE", help="measure nothing"
    )
    parser.add_argument(
        "--docs", type=Path, nargs="+", metavar="FILE", help="write the page in docs from results"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
