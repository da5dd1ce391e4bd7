"""Compare parki with the methods of its source papers, FINUFFT's spreading, FMM3D, DMK and UAMMD.

    python scripts/compare_papers.py guo ljungkvist rossinelli finufft fmm3d dmk --json cpu.json
    python scripts/compare_papers.py spheres --space Cuda --json spheres.json
    python scripts/compare_papers.py --space Cuda --json gpu.json           # all of them, on a GPU
    python scripts/compare_papers.py --from cpu.json                        # show again
    python scripts/compare_papers.py --docs docs/results/papers-*.json      # write the page

A file in ``scripts/papers`` for each says what is compared. ``--points`` bounds the number of
particles. FINUFFT (cuFINUFFT on a GPU) and FMM3D (fmm3dpy, on CPUs) are left out if their packages
are not installed. DMK (on CPUs) is left out unless DMK_LIBRARY names the file of its library.
``spheres`` measures parki alone if libMobility, or a module with its calls that LIBMOBILITY names,
cannot be imported: it has UAMMD's PSE and FCM, on GPUs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from benchmarks import record
from benchmarks.run import Run
from papers import dmk, finufft, fmm3d, guo, ljungkvist, page, rossinelli, spheres

import parki

KINDS: dict[str, ModuleType] = {
    "guo": guo,
    "ljungkvist": ljungkvist,
    "rossinelli": rossinelli,
    "finufft": finufft,
    "fmm3d": fmm3d,
    "dmk": dmk,
    "spheres": spheres,
}
PAGE = Path(__file__).parents[1] / "docs" / "papers.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read records; then print, write and draw."""
    args = _parser().parse_args(arguments)
    if args.docs:
        records = record.read(args.docs)
        args.page.write_text(page.page(records, KINDS), encoding="utf-8")
        for found in records:
            KINDS[found["kind"]].draw(found, args.page.parent / page.picture(found))
        print(f"wrote {args.page}")
        return 0
    if args.read:
        for found in record.read(args.read):
            show(found)
        return 0
    run = Run(parki.get_execution_space(args.space), args.points, args.quick)
    records = []
    for kind in args.kinds or KINDS:
        if missing := _missing(KINDS[kind], run.space.on_device):
            print(f"{kind} is left out: {missing}")
            continue
        begun = time.perf_counter()
        results = KINDS[kind].measure(run)
        records.append(record.record(kind, run, time.perf_counter() - begun, results))
        show(records[-1])
        if args.json:  # after each, so that an interrupted run keeps its results
            record.write(args.json, records)
    return 0


def _missing(module: ModuleType, on_device: bool) -> str:
    """Return why a comparison cannot run here, or ''."""
    if on_device and hasattr(module, "CPU_ALONE"):
        return "it runs on CPUs alone"
    return module.missing(on_device) if hasattr(module, "missing") else ""


def show(found: record.Record) -> None:
    """Print the tables of a record."""
    print(f"\n{found['kind'].capitalize()}. {record.where(found)}; {found['seconds']:.0f} s\n")
    for table in KINDS[found["kind"]].tables(found):
        table.print()
        print()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], help="default: all")
    parser.add_argument("--space", default="CPU", help="CPU, Cuda, ...")
    parser.add_argument("--points", type=int, help="default: a number that suits the space")
    parser.add_argument("--quick", action="store_true", help="few points: tests the script")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
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
