"""Measure cases: the tables of the paper, other papers and libraries, and parki's own questions.

    python scripts/benchmark.py                                # lists the cases
    python scripts/benchmark.py table9 --json table9.json --draw table9.png
    python scripts/benchmark.py table6 table7 --space Cuda
    python scripts/benchmark.py benchmarks --space Cuda --json h200.json     # all of a folder
    python scripts/benchmark.py --from h200.json               # shows records again
    python scripts/benchmark.py --from a.json b.json --join --json c.json   # runs as one
    python scripts/benchmark.py --docs                         # tables in docs, from docs/results

Files in ``scripts/benchmarks``, ``scripts/papers`` and ``scripts/cases`` say what cases measure.
``--points``, ``--tolerance``, ``--periodicity``, ``--kernel`` and ``--dtype`` replace the case's
own values, where it has some. FINUFFT (cuFINUFFT on a GPU) and FMM3D (fmm3dpy, on CPUs) are left
out if their packages are not installed, and DMK (on CPUs) unless DMK_LIBRARY names the file of its
library. ``spheres`` and ``dpstokes`` measure parki alone if libMobility, or a module with its calls
that LIBMOBILITY names, cannot be imported; ``charges`` has a line for each library that cannot be,
takes their names by ``--kernel``, and searches parameters for ``--search`` seconds. Each library
can have a run of its own: ``--join`` makes one record of them. Pictures need matplotlib.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import FOLDERS, case, page, record
from benchmarks.run import Run, asked, basic_parser
from benchmarks.show import Table

NAMES = [name for names in FOLDERS.values() for name in names]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read records; then print, write and draw."""
    args = _parser().parse_args(arguments)
    if args.docs is not None:
        write_pages(args.docs)
        return 0
    records = record.read(args.read)
    if args.join:
        records = record.joined(records)
    if args.json and records:
        record.write(args.json, records)
    for found in records:
        show(found)
    chosen = ("tolerance", "periodicity", "kernel", "dtype")
    more = {name: tuple(getattr(args, name)) for name in chosen}
    run = asked(args, **more, search=args.search)
    names = [name for given in args.cases for name in FOLDERS.get(given, (given,))]
    for name in names:
        if missing := case(name).missing(run.device):
            print(f"{name} is left out: {missing}")
            continue
        records.append(_measured(name, run, args.json, tuple(records)))
        show(records[-1])
    for found in records if args.draw else ():
        if draw := case(found["kind"]).draw:
            ending = f"-{found['kind']}" if len(records) > 1 else ""
            draw(found, args.draw.with_stem(args.draw.stem + ending))
    if not records and not names:
        for name in NAMES:
            print(f"{name:14} {': '.join(case(name).about)}")
    return 0


def _measured(
    name: str, run: Run, file: Path | None, earlier: Sequence[record.Record]
) -> record.Record:
    """Return the record of a case, written to a file when the case keeps results and at the end."""
    begun = time.perf_counter()

    def kept(results: dict[str, Any]) -> record.Record:
        made = record.record(name, run, time.perf_counter() - begun, results)
        if file:
            record.write(file, [*earlier, made])
        return made

    return kept(case(name).measure(replace(run, keep=kept)))


def tables(found: record.Record) -> list[Table]:
    """Return the tables of a record."""
    if make := case(found["kind"]).tables:
        return make(found)
    return [Table.plain(title, rows) for title, rows in found["results"].items() if rows]


def show(found: record.Record) -> None:
    """Print the tables of a record."""
    print(f"\n{found['kind'].capitalize()}. {record.where(found)}; {found['seconds']:.0f} s\n")
    for table in tables(found):
        table.print()
        print()


def text(name: str) -> str:
    """Return a page of docs with its tables."""
    return page.page(name, tables)


def write_pages(names: Sequence[str]) -> None:
    """Write the tables and pictures of pages."""
    for name in names or page.PAGES:
        for found in page.results(name):
            if draw := case(found["kind"]).draw:
                draw(found, page.DOCS / page.picture(name, found))
        page.write(name, text(name))


def _parser() -> argparse.ArgumentParser:
    parser = basic_parser(__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *NAMES, *FOLDERS], metavar="CASE")
    for name, kind in (("tolerance", float), ("periodicity", int), ("kernel", str), ("dtype", str)):
        parser.add_argument(f"--{name}", type=kind, nargs="+", default=[])
    parser.add_argument("--search", type=float, metavar="SECONDS", help="for other libraries")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument("--draw", type=Path, metavar="FILE.png", help="draw the results")
    parser.add_argument("--from", dest="read", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--join", action="store_true", help="make one record of those read")
    parser.add_argument("--docs", nargs="*", choices=[[], *page.PAGES], metavar="PAGE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
