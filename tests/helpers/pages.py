"""The Python blocks of a page, which are one program from top to bottom.

The text of a block shows its needs: CuPy or `cuda` need a GPU, `parki.distributed` needs mpirun.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.md"))
MARKDOWN = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
PLAIN, GPU, RANKS, BOTH = "plain", "gpu", "ranks", "gpu and ranks"


def need(block: str) -> str:
    """Return the needs of a block; its comments do not count."""
    block = re.sub(r"#.*", "", block)
    many = "mpi4py" in block or "parki.distributed" in block
    if "cupy" in block or '"cuda"' in block:
        return BOTH if many else GPU
    return RANKS if many else PLAIN


def program(page: Path, *needs: str) -> str:
    """Return a page's blocks with these needs, at their own lines, so that errors name them."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for found in BLOCK.finditer(text):
        if need(found.group(1)) in needs:
            first = text.count("\n", 0, found.start(1))
            block = small(found.group(1)).splitlines()
            lines[first : first + len(block)] = block
    return "\n".join(lines)


def small(text: str) -> str:
    """Return a program at a hundredth of its size, on the CPU."""
    text = re.sub(r"\b\d[\d_]{4,}\b", lambda found: str(int(found.group()) // 100), text)
    return text.replace('"CUDA"', '"CPU"')
