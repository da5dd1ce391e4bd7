"""The tables of pages in docs: written from JSON, never by hand; the text around them stays."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from . import case
from .record import Record, pick, read, where
from .show import Table, folded

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("benchmarks", "papers", "floor", "walls")
PLACE = re.compile(r"(<!-- (\w+): [^>]*-->\n\n).*?(\n<!-- end of \2 -->)", re.S)


def results(name: str) -> list[Record]:
    """Return the records of a page."""
    return read(sorted((DOCS / "results").glob(f"{name}-*.json")))


def fill(name: str, write: Callable[[str], str]) -> str:
    """Return a page, its places filled by a function of their names."""
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    return PLACE.sub(lambda place: place[1] + write(place[2]) + place[3], text)


def write(name: str, text: str) -> None:
    """Write a page."""
    (DOCS / f"{name}.md").write_text(text, encoding="utf-8")
    print(f"wrote {name}.md")


def page(name: str, tables: Callable[[Record], list[Table]]) -> str:
    """Return a page with the tables of its records."""
    records = results(name)

    def write(kind: str) -> str:
        text = []
        title, heading = case(kind).about
        for found in pick(records, kind=kind):
            machine, _, versions = where(found).partition("; ")
            level = "##" if name == "floor" else "###"  # which has one case
            text.append(f"{level} {title.split(' (')[0]}, on {machine}\n\n{folded(versions)}\n")
            if case(kind).draw:
                text.append(f"![{heading}]({picture(name, found)})\n")
            text += [f"{table.text()}\n" for table in tables(found)]
        return "\n".join(text)

    return fill(name, write)


def picture(name: str, found: Record) -> str:
    """Return the path of a record's picture, relative to the page."""
    words = "".join(c if c.isalnum() else " " for c in found["machine"]["name"].lower())
    return f"images/{name}/{found['kind']}-{'-'.join(words.split())}.png"
