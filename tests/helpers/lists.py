"""Write what the records of sums say into pages and types: `python tests/helpers/lists.py`.

Type checkers and readers of pages run nothing, so lists of sums stand there by name: tables and
calls in ``docs/api.md``, calls in ``parki/ewald/calls.pyi``, names and parameters in
``parki/typing.py``. `tests/test_calls.py` fails where they are not what this writes.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import parki
from parki.ewald.sums import SUMS

ROOT = Path(parki.__file__).parents[1]
PAGE, CALLS, TYPES = (
    ROOT / name for name in ("docs/api.md", "parki/ewald/calls.pyi", "parki/typing.py")
)


def table() -> str:
    """Return the table of sums."""
    lines = ["| call | velocity or potential | pressure | physical value |"]
    lines += ["| --- | --- | --- | --- |"]
    for name, family in SUMS.listed.items():
        words = family.words
        pressure = f"`{words.pressure}`" if words.pressure else "none"
        lines.append(f"| `{name}` | `{words.formula}` | {pressure} | {words.physical} |")
    return "\n".join(lines)


def calls(module: str) -> str:
    """Return the docstrings of the calls of a module, as the page asks for them."""
    lines = "\n".join(f".. autofunction:: {name}" for name in SUMS.listed)
    return f"```{{eval-rst}}\n.. currentmodule:: {module}\n\n{lines}\n```"


def parameters() -> dict[str, str]:
    """Return the type of each parameter of a sum."""
    found = {}
    for family in SUMS.listed.values():
        signature = inspect.signature(family.make).parameters
        found.update({name: str(signature[name].annotation) for name in family.parameters})
    return {name: found[name] for name in SUMS.parameters}


def put(text: str, begin: str, inside: str, end: str) -> str:
    """Return a text with other lines between one that begins and one that ends them."""
    found, count = re.subn(f"({begin}).*?(?={end})", lambda m: m[1] + inside, text, flags=re.S)
    assert count == 1, f"{begin!r} and {end!r} are {count} times in the text, not once"
    return found


def texts() -> dict[Path, str]:
    """Return the texts of the three files."""
    page, stub, types = (path.read_text(encoding="utf-8") for path in (PAGE, CALLS, TYPES))
    page = put(page, r"<!-- sums: [^>]*-->\n\n", table(), r"\n\n<!-- end of sums -->")
    for module in ("parki", "parki.distributed"):
        begin = rf"<!-- calls of {module}: [^>]*-->\n\n"
        page = put(page, begin, calls(module), r"\n\n<!-- end of calls -->")
    declared = "".join(f"{name}: _Call\n" for name in SUMS.listed)
    stub = put(stub, r"-> tuple\[ArrayT, \.\.\.\]: \.\.\.\n\n", declared, r"\Z")
    names = "".join(f'    "{name}",\n' for name in SUMS if "(" not in name)
    types = put(types, r"\nKernelName = Literal\[\n", names, r"\]\n")
    begin = r'as the calls do\."""\n\n'
    own = "".join(f"    {name}: {kind}\n" for name, kind in parameters().items())
    return {PAGE: page, CALLS: stub, TYPES: put(types, begin, own, r"\Z")}


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
