"""Write docs/matrix.md from the table of faces: `python tests/helpers/matrix.py`."""

from __future__ import annotations

from pathlib import Path

from faces import others, plans, ranks, spheres
from faces.base import Face

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
EVERY = (Face(), *plans.FACES, *spheres.FACES, *others.EVERY, *ranks.FACES)
# What users call that which a law is about, in two tables.
TABLES = {
    "What is computed": {
        "adjoint": "transpose",
        "derivatives": "derivatives",
        "check": "error measured",
        "operator": "operator",
        "several": "several at once",
        "mixed": "mixed precision",
    },
    "Updates, arrays, threads": {
        "moves": "other points",
        "counts": "more or fewer",
        "box": "another box",
        "out": "`out=`",
        "foreign": "any arrays",
        "memory": "memory told",
        "threads": "threads",
    },
}
# What each tier promises, in words and by the laws that its ways to sum may not lack. Calls may
# lack what needs a plan.
SUMMED = frozenset({"linear", "promise", "moves", "adjoint", "derivatives"})
TIERS = {
    "1": (
        "every column; a call has those that need no plan, and ranks have no threads",
        SUMMED.union(*TABLES.values()) - {"threads"},
    ),
    "2": (
        "results with their bound, other points, the transpose, and derivatives",
        SUMMED,
    ),
    "2 + 2": ("two of tier 2 at once: what follows from both; the rest is refused", set()),
    "room": ("what its page says", set()),
}
HEAD = """\
# What works

| column | meaning |
| --- | --- |
| tier | how far a way to sum goes, and will go |
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
| yes (number) | not for some sums, by a reason below |
| no (number) | a reason below; the tests make this page from what they check |
"""


def page() -> str:
    """Return the text of the page."""
    reasons: dict[str, int] = {}
    lines = [HEAD, "| tier | promises |", "| --- | --- |"]
    lines += [f"| {tier} | {words} |" for tier, (words, _) in TIERS.items()]
    lines.append("")
    for title, columns in TABLES.items():
        names = ["way to sum", "tier", *columns.values()]
        lines += [f"## {title}", "", f"| {' | '.join(names)} |"]
        lines += [f"| {' | '.join(['---'] * len(names))} |"]
        for face in EVERY:
            cells = [face.words, face.tier]
            for law in columns:
                some = (face.without(law, kernel) for kernel in face.sums)
                why = [*dict.fromkeys(filter(None, some))]
                numbers = ", ".join(str(reasons.setdefault(n, len(reasons) + 1)) for n in why)
                cells.append(("no" if law in face.lacks else "yes") + f" ({numbers})" * bool(why))
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines += ["## Reasons", "", "| number | reason |", "| --- | --- |"]
    lines += [f"| {number} | {why} |" for why, number in reasons.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
