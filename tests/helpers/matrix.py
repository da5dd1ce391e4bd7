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
    "derivatives": "derivatives",
    "check": "error measured",
    "operator": "operator",
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
# What works

| column | meaning |
| --- | --- |
| transpose | `adjoint` or `vjp` |
| derivatives | `vjp` and `jvp`, by points, densities and normals |
| error measured | `check` |
| operator | `as_linear_operator`, for solvers of SciPy |
| other points | `update_points`: more or fewer, or in another box |
| several at once | densities along a first axis |
| `out=` | an array for the result |
| any arrays | other libraries, any strides |
| memory told | `plan.memory` |
| threads | several threads call one plan |
| no (number) | a reason below; the tests make this page from what they check |

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
