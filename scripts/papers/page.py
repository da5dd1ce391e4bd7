"""The page of comparisons in docs, written from JSON and from the modules' texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from benchmarks.record import Record, where

HEAD = """\
# Comparisons with other papers

On two CPU threads parki is faster than FINUFFT, FMM3D and DMK, except that DMK is faster in tight
clusters with few digits. On an H100 cuFINUFFT is faster with narrow windows and in two dimensions,
and parki with wide windows in three.

The page also measures the methods of papers on spreading, interpolation and matrix-free operators
again, with parki's kernels. Each section begins with its conclusion, and one command repeats its
tables. `python scripts/compare_papers.py --docs docs/results/papers-*.json` writes this page.
"""


def page(records: Sequence[Record], kinds: Mapping[str, ModuleType]) -> str:
    """Return the page."""
    text = [HEAD]
    for kind, module in kinds.items():
        of = [found for found in records if found["kind"] == kind]
        if not of:
            continue
        title, _, words = str(module.__doc__).partition(": ")
        heading, _, rest = words.replace("``", "`").partition("\n\n")
        heading = " ".join(heading.split()).rstrip(".")
        text.append(f"## {title}: {heading}\n\n{module.TODAY.strip()}\n\n{rest.strip()}\n")
        command = f"python scripts/compare_papers.py {kind}"
        more = "" if hasattr(module, "CPU_ALONE") else ", with `--space Cuda` on a GPU"
        text.append(f"Repeat it by `{command}`{more}.\n")
        for found in of:
            name, _, versions = where(found).partition("; ")
            text.append(f"### {title.split(' (')[0]}, on {name}\n\n{versions}\n")
            text.append(f"![{heading}]({picture(found)})\n")
            text += [f"{table.text()}\n" for table in module.tables(found)]
    return "\n".join(text)


def picture(found: Record) -> str:
    """Return the path of a record's picture, relative to the page."""
    name = "".join(c if c.isalnum() else " " for c in found["machine"]["name"].lower())
    return f"images/papers/{found['kind']}-{'-'.join(name.split())}.png"
