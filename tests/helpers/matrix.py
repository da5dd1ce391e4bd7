"""Write docs/matrix.md from the table of faces: `python tests/helpers/matrix.py`."""

from __future__ import annotations

from pathlib import Path

from faces import others, plans, ranks, spheres
from faces.base import Face

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
EVERY = (Face(), *plans.FACES, *spheres.FACES, *others.EVERY, *ranks.FACES)
# What users call that which a law is about.
COLUMNS = {
    "adjoint": "transpose",
    "mixed": "mixed precision",
    "moves": "other points",
    "counts": "more or fewer",
    "box": "another box",
    "several": "several at once",
    "out": "`out=`",
    "foreign": "any arrays",
    "memory": "memory told",
    "threads": "threads",
}
HEAD = """\
# What works with what

Rows are ways to sum, columns are what else is wanted. A number leads to the reason below the table.
The tests make this page from what they check (`tests/helpers/matrix.py`).

- *Transpose* is `adjoint` or `vjp`.
- *Other points* are those of `update_points`: *more or fewer*, or in *another box*.
- *Several at once* are densities along a first axis, *`out=`* is an array for the result.
- *Any arrays* are those of other libraries, of any strides.
- *Memory told* is `plan.memory`, *threads* call one plan at a time from several threads.
"""


def page() -> str:
    """Return the text of the page."""
    reasons: dict[str, int] = {}
    rows = []
    for face in EVERY:
        cells = [face.words]
        for law in COLUMNS:
            why = face.lacks.get(law) or face.fails.get(law)
            cells.append(f"no ({reasons.setdefault(why, len(reasons) + 1)})" if why else "yes")
        rows.append(f"| {' | '.join(cells)} |")
    names = ["way to sum", *COLUMNS.values()]
    lines = [HEAD, f"| {' | '.join(names)} |", f"| {' | '.join(['---'] * len(names))} |", *rows]
    lines += ["", "| number | reason |", "| --- | --- |"]
    lines += [f"| {number} | {why} |" for why, number in reasons.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
