"""`Table`, for the terminal and for the docs, and the common style of all pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as Grid

PARKI, PAPER, DARK, MILD = "#2b6a99", "#c2703d", "#4a4a4a", "#e6e6e6"
STAGE_COLOURS = {"P2P": "#2b6a99", "P2G": "#c2703d", "FGC": "#7d9b5f", "G2P": "#b89a3e"}
SERIES = (PARKI, PAPER, "#7d9b5f", "#8a6f9e", "#b89a3e")
MARKS = ("D", "o", "s", "^")
STYLE = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.axisbelow": True,
    "grid.color": MILD,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
}


@dataclass
class Table:
    """Rows of text under a head and a title; ``notes`` follow."""

    title: str
    head: Sequence[str]
    rows: list[Sequence[str]]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        title: str,
        rows: Iterable[Any],
        *columns: tuple[str, Callable[[Any], str]],
        notes: Sequence[str] = (),
    ) -> Table:
        """Return a table of ``rows``; columns are heads and functions that return cells."""
        cells = [[make(row) for _, make in columns] for row in rows]
        return cls(title, [head for head, _ in columns], cells, list(notes))

    @classmethod
    def plain(cls, title: str, rows: Sequence[dict[str, Any]]) -> Table:
        """Return a table of dictionaries, whose keys are the heads."""
        return cls(title, list(rows[0]), [list(map(cell, row.values())) for row in rows])

    def text(self) -> str:
        """Return the table in Markdown, with columns that also line up in a terminal."""
        lines = [list(self.head), *map(list, self.rows)]
        widths = [max(3, *(len(line[k]) for line in lines)) for k in range(len(self.head))]
        text = [f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines]
        text.insert(1, f"| {' | '.join('-' * width for width in widths)} |")
        notes = ["", *map(folded, self.notes)] if self.notes else []
        return "\n".join([folded(self.title), "", *text, *notes])

    def print(self) -> None:
        """Print the table, folded to the width of a terminal, or in Markdown elsewhere."""
        console = Console(highlight=False)
        if not console.is_terminal:
            print(self.text(), flush=True)
            return
        table = Grid(title=self.title, title_justify="left", box=box.SIMPLE_HEAD)
        for k, name in enumerate(self.head):
            table.add_column(name, justify="right" if k else "left")
        for row in self.rows:
            table.add_row(*row)
        console.print(table, *self.notes, sep="\n")


def folded(text: str) -> str:
    """Return a paragraph in lines as long as those of the pages."""
    return textwrap.fill(text, 99, break_long_words=False, break_on_hyphens=False)


def markdown(head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown, whose columns do not line up."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def cell(value: Any) -> str:
    """Return a number with three digits, a count in full, and text as it is."""
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else number(value)


def ms(seconds: float | None) -> str:
    """Return milliseconds with three digits, or '' for None."""
    return "" if seconds is None else number(1e3 * seconds)


def number(value: float | None) -> str:
    """Return three digits without an exponent, or '' for None."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.1e}"


def count(value: float) -> str:
    """Return a number of points in words."""
    if value >= 1e6:
        return f"{value / 1e6:g} million"
    return f"{value:,.0f}".replace(",", " ")


def precision(dtype: str) -> str:
    """Return the name of a precision."""
    return {"f8": "double", "f4": "single"}[dtype]


def figure(
    columns: int, height: float, width: float = 10.0, rows: int = 1, **keywords: Any
) -> tuple[Any, Any]:
    """Return a figure and its panels, row after row, in the style of all pictures."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcdefaults()
    mpl.use("Agg")
    plt.rcParams.update(STYLE)
    made, axes = plt.subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **keywords
    )
    made.get_layout_engine().set(wspace=0.06)  # the columns of values need some space
    return made, axes.ravel()


def save(made: Any, file: Path, machine: str) -> None:
    """Write a figure, with the machine beneath."""
    from matplotlib import pyplot as plt

    made.supxlabel(machine, fontsize=9, color="#777777", x=0.99, ha="right")
    file.parent.mkdir(parents=True, exist_ok=True)
    made.savefig(file, dpi=150)
    plt.close(made)


def stacks(axis: Any, names: Sequence[str], stages: Sequence[dict[str, float]]) -> None:
    """Draw a horizontal stack of milliseconds by stage for each name."""
    places = list(range(len(names)))[::-1]
    ends = [0.0] * len(names)
    for stage, colour in STAGE_COLOURS.items():
        widths = [1e3 * s[stage] for s in stages]
        axis.barh(places, widths, 0.66, left=ends, color=colour, label=stage)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for end, place in zip(ends, places, strict=True):  # in a column at the right, beyond all bars
        how = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axis.annotate(number(end), (1, place), (6, 0), va="center_baseline", color=DARK, **how)
    axis.set_xlim(0, 1.03 * max(ends))
    axis.set_yticks(places, names)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(axis="x")
    axis.set_xlabel("milliseconds")
