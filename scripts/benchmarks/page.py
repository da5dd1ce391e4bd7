"""The pages of results in docs: written from JSON, never by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from .record import Record, read, where
from .show import Table

DOCS = Path(__file__).parents[2] / "docs"
BENCHMARKS = """\
# Benchmarks

On the same kind of GPU, whole sums take parki less than a quarter of the time that Kosmacher, Du,
Bagge and Biros (2026) report. The tables and figures of their paper are measured with parki here,
next to the paper's numbers.

Each section says how to measure its tables again, and `python scripts/benchmark.py --docs` writes
this page. Figure 5 of the paper is on the page of [floors](floor.md).

The paper states a relative error E, which close pairs dominate. Its "nine digits" (E = 1e-9) are
tolerance 1e-4 here, and its "seven digits" tolerance 1e-1.
"""
PAPERS = """\
# Comparisons with other papers

On two CPU threads parki is faster than FINUFFT, FMM3D and DMK, except that DMK is faster in tight
clusters with few digits. On an H100 cuFINUFFT is faster with narrow windows and in two dimensions,
and parki with wide windows in three.

The page also measures the methods of papers on spreading, interpolation and matrix-free operators
again, with parki's kernels. Each section begins with its conclusion, and one command repeats its
tables. `python scripts/benchmark.py --docs` writes this page.
"""
PAGES = {"benchmarks": BENCHMARKS, "papers": PAPERS, "floor": ""}  # with their beginnings


def results(name: str) -> list[Record]:
    """Return the records of a page."""
    return read(sorted((DOCS / "results").glob(f"{name}-*.json")))


def page(
    name: str,
    records: Sequence[Record],
    modules: dict[str, ModuleType],
    tables: Callable[[Record], list[Table]],
) -> str:
    """Return a page; a section has what is found today, and then what is compared."""
    text = [PAGES[name]] if PAGES[name] else []
    level = "##" if text else "#"
    for kind, module in modules.items():
        of = [found for found in records if found["kind"] == kind]
        if not of:
            continue
        title, heading, rest = about(module)
        text.append(f"{level} {title}: {heading}\n")
        text += [f"{words.strip()}\n" for words in (getattr(module, "TODAY", ""), rest) if words]
        more = "" if hasattr(module, "CPU_ALONE") else ", with `--space Cuda` on a GPU"
        text.append(f"Repeat it by `python scripts/benchmark.py {kind}`{more}.\n")
        for found in of:
            machine, _, versions = where(found).partition("; ")
            text.append(f"{level}# {title.split(' (')[0]}, on {machine}\n\n{versions}\n")
            if hasattr(module, "draw"):
                text.append(f"![{heading}]({picture(name, found)})\n")
            text += [f"{table.text()}\n" for table in tables(found)]
    return "\n".join(text)


def about(module: ModuleType) -> tuple[str, str, str]:
    """Return a case's title, its heading, and what is compared."""
    title, _, words = str(module.__doc__).replace("``", "`").partition(": ")
    heading, _, rest = words.partition("\n\n")
    return title, " ".join(heading.split()).rstrip("."), rest.strip()


def picture(name: str, found: Record) -> str:
    """Return the path of a record's picture, relative to the page."""
    words = "".join(c if c.isalnum() else " " for c in found["machine"]["name"].lower())
    return f"images/{name}/{found['kind']}-{'-'.join(words.split())}.png"
