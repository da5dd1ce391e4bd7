"""Make the notebooks of the manual from its pages, by jupytext.

    python scripts/notebooks.py          # docs/notebooks/*.ipynb, without outputs

Commands, and blocks that need a GPU or several ranks, are shown, and not cells. The tests run
the notebooks.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/helpers")]

from pages import BLOCK, PLAIN, need  # noqa: E402

PAGES, FOLDER = ("tutorial", "suspensions"), ROOT / "docs/notebooks"
# What the text of a page has, and what Jupyter shows.
CHANGES = {
    r"^```math\n(.*?)^```": r"$$\n\1$$",
    r"^This page is also a \[notebook\].*?\n\n": "",
    r"\]\((?!https?:|#)([^)]+)\)": r"](../\1)",
    r"^```(\w+) \.noeval": r"```\1",
}


def made(page: str) -> Any:
    """Return the notebook of a page."""
    import jupytext

    def inactive(block: re.Match[str]) -> str:
        plain = need(block.group(1)) == PLAIN
        return block[0] if plain else block[0].replace("```python", "```python .noeval", 1)

    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    text = re.sub(r"^```sh$", "```sh .noeval", BLOCK.sub(inactive, text), flags=re.M)
    notebook = jupytext.reads(text, fmt="md")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{page}-{number}"  # else it is a random one
        if cell.cell_type == "markdown":
            for old, new in CHANGES.items():
                cell.source = re.sub(old, new, cell.source, flags=re.S | re.M)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook.nbformat_minor = 5
    return notebook


def main() -> None:
    """Write all notebooks."""
    import nbformat

    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    FOLDER.mkdir(exist_ok=True)
    for page in PAGES:
        nbformat.write(made(page), FOLDER / f"{page}.ipynb")
        print(FOLDER / f"{page}.ipynb")


if __name__ == "__main__":
    main()
