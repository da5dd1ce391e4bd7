"""The notebooks of the manual are its pages, and run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import notebooks  # noqa: E402
from pages import PLAIN, program, small  # noqa: E402

EXTRA = "pip install parki[test] brings jupytext, nbclient and ipykernel"


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_notebooks_are_made_from_the_pages(page):
    pytest.importorskip("jupytext", reason=EXTRA)
    nbformat = pytest.importorskip("nbformat", reason=EXTRA)
    stored = nbformat.read(notebooks.FOLDER / f"{page}.ipynb", as_version=4)
    assert stored == notebooks.made(page), "run python scripts/notebooks.py"


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_notebooks_have_the_code_of_the_pages(page):
    """Which the tests of pages run."""
    stored = json.loads((notebooks.FOLDER / f"{page}.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in stored["cells"] if cell["cell_type"] == "code"]
    shown, run = small("\n".join(cells)), program(ROOT / f"docs/{page}.md", PLAIN)
    lines = [[line for line in text.splitlines() if line] for text in (shown, run)]
    assert lines[0] == lines[1], "run python scripts/notebooks.py"


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_notebooks_run(page, tmp_path, monkeypatch):
    pytest.importorskip("ipykernel", reason=EXTRA)
    nbclient = pytest.importorskip("nbclient", reason=EXTRA)
    nbformat = pytest.importorskip("nbformat", reason=EXTRA)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    notebook = nbformat.read(notebooks.FOLDER / f"{page}.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = small(cell.source)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == [*range(1, len(counts) + 1)]
