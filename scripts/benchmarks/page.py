"""The page of results in docs: written from JSON, never by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .record import Record, where
from .show import Table

HEAD = """\
# Benchmarks

On the same kind of GPU, whole sums take parki less than a quarter of the time that Kosmacher, Du,
Bagge and Biros (2026) report. The tables and figures of their paper are measured with parki here,
next to the paper's numbers.

Each section says how to measure its tables again, and `python scripts/benchmark.py --docs
docs/results/benchmarks-*.json` writes this page.

The paper states a relative error E, which close pairs dominate. Its "nine digits" (E = 1e-9) are
tolerance 1e-4 here, and its "seven digits" tolerance 1e-1.
"""
DRAWN = ("table 9", "figure 5", "figure 6", "figure 9")


def page(
    records: Sequence[Record], tables: Callable[[Record], list[Table]], about: Callable[[str], str]
) -> str:
    """Return the page.

    Parameters
    ----------
    records : sequence of dict
    tables, about : callable
        The tables of a record, and the text that explains a kind.
    """
    text = [HEAD]
    for kind in sorted({found["kind"] for found in records}, key=_order):
        title, _, words = about(kind).replace("``", "`").partition(": ")
        heading, _, rest = words.partition("\n\n")
        heading = " ".join(heading.split()).rstrip(".")
        text.append(f"## {title}: {heading}\n\n{rest.strip()}\n")
        text.append(
            f"Repeat it by `python scripts/benchmark.py --{kind}`, with `--space Cuda` on a GPU.\n"
        )
        for found in (found for found in records if found["kind"] == kind):
            name, _, versions = where(found).partition("; ")
            text.append(f"### {name}\n\n{versions}\n")
            text += [f"{table.text()}\n" for table in tables(found)]
            if kind in DRAWN:
                text.append(f"![{title}]({picture(found)})\n")
    return "\n".join(text)


def picture(found: Record) -> str:
    """Return the path of a record's picture, relative to the page."""
    name = "".join(c if c.isalnum() else " " for c in found["machine"]["name"].lower())
    return f"images/benchmarks/{found['kind'].replace(' ', '')}-{'-'.join(name.split())}.png"


def _order(kind: str) -> tuple[bool, int]:
    name, _, number = kind.partition(" ")
    return name == "figure", int(number)
