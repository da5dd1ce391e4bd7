"""Run the examples as their pages say, note how long each takes, and write the table of them.

    python scripts/gallery.py                      # all of them
    python scripts/gallery.py swimmers drops       # some
    python scripts/gallery.py --pictures swimmers  # what it draws replaces the manual's picture
    python scripts/gallery.py --table              # run nothing
    python scripts/gallery.py --small              # the small pictures of docs/index.md alone

Each page of docs/examples has the command of its program. Times are in docs/results/examples.json,
in seconds of all threads together, which other programs on the machine hardly change. Kernels are
compiled before: a first run takes longer. Small pictures are the parts of the manual's that show
the problem.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.record import processor
from benchmarks.show import markdown

DOCS = page.DOCS
ROOT = DOCS.parent
INDEX, RECORD = DOCS / "examples.md", DOCS / "results/examples.json"
COMMAND = re.compile(r"^```sh\n(?:pip .*\n)?(.*python )(examples/(\w+)\.py.*)\n```\n", re.M)

SIZE, PAPER = (480, 300), "#fcfaf8"
# Left, top and width of what is shown, as parts of the picture's width and height. The height
# follows from the width.
PARTS = {
    "rigid_bodies": (0.529, 0.12, 0.345),
    "pipe": (0.31, 0.13, 0.47),
    "swimmers": (0.05, 0.3, 0.345),
    "sedimentation": (0.51, 0.1, 0.49),
    "settling": (0.062, 0.2, 0.345),
    "brownian": (0.0, 0.0, 1.0),
    "inverse": (0.392, 0.2, 0.3),
    "convergence": (0.755, 0.0, 0.245),
    "drops": (0.529, 0.25, 0.345),
    "sheared": (0.05, 0.22, 0.46),
    "poisson": (0.021, 0.05, 0.268),
    "finufft": (0.0, 0.0, 1.0),
    "falling": (0.085, 0.12, 0.36),
    "squirmers": (0.02, 0.2, 0.3),
    "rigid_spheres": (0.67, 0.2, 0.33),
    "capsule": (0.575, 0.13, 0.425),
    "monolayer": (0.062, 0.1, 0.345),
}


def run(name: str, pictures: bool) -> dict[str, Any]:
    """Run a program by the command of its page; return the time that it took."""
    before, command, _ = COMMAND.search((DOCS / f"examples/{name}.md").read_text("utf-8")).groups()
    words = [*before.split()[:-1], sys.executable, *f"{ROOT}/{command}".split()]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as folder:
        used, begun = spent(), time.perf_counter()
        subprocess.run(words, cwd=folder, env={**os.environ, "PYTHONPATH": paths}, check=True)
        elapsed, seconds = time.perf_counter() - begun, spent() - used
        for drawn in Path(folder).glob("*.png") if pictures else ():
            shutil.copy(drawn, DOCS / "images")
    found = {"command": before + command, "seconds": round(seconds, 1)}
    return {**found, "elapsed": round(elapsed, 1), "machine": processor()}


def records() -> dict[str, Any]:
    """Return what was measured last, by name."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


def spent() -> float:
    """Return the seconds that programs started here have computed, in all threads."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(measured: dict[str, Any]) -> str:
    """Return the table: page, problem and time, in the order of the list of pages."""
    rows = []
    for name in re.findall(r"^examples/(\w+)$", INDEX.read_text("utf-8"), re.M):
        title = (DOCS / f"examples/{name}.md").read_text("utf-8").partition("\n")[0].lstrip("# ")
        text = ast.get_docstring(ast.parse((ROOT / f"examples/{name}.py").read_text("utf-8")))
        seconds = f"{measured[name]['seconds']:.0f}" if name in measured else ""
        problem = (text or "").partition("\n")[0].rstrip(".")
        rows.append((f"[{title}](examples/{name}.md)", problem, seconds))
    return markdown(("page", "problem", "seconds"), rows)


def small(name: str) -> Any:
    """Return the part of a picture that shows the problem."""
    from PIL import Image, ImageOps

    picture = Image.open(DOCS / f"images/{name}.png").convert("RGBA")
    paper = Image.new("RGBA", picture.size, "white")
    picture = Image.alpha_composite(paper, picture).convert("RGB")
    width, height = picture.size
    left, top, part = PARTS[name]
    across = part * width
    down = min(across * SIZE[1] / SIZE[0], (1 - top) * height)
    box = (left * width, top * height, left * width + across, top * height + down)
    cut = picture.crop(tuple(round(each) for each in box))
    cut = ImageOps.contain(cut, SIZE, Image.Resampling.LANCZOS)
    found = Image.new("RGB", SIZE, PAPER)
    found.paste(cut, ((SIZE[0] - cut.width) // 2, (SIZE[1] - cut.height) // 2))
    return found


def write_small() -> None:
    """Write all small pictures."""
    for name in PARTS:
        cut = small(name)
        file = DOCS / f"images/small/{name}.png"
        cut.quantize(palette=cut.quantize(128)).save(file, optimize=True)


def main(words: list[str] | None = None) -> None:
    """Run what is asked for; write the record and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = sorted(path.stem for path in (DOCS / "examples").glob("*.md"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--pictures", action="store_true", help="replace pictures of the manual")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table")
    parser.add_argument("--small", action="store_true", help="cut the small pictures alone")
    given = parser.parse_args(words)
    if given.small:
        write_small()
        return
    for name in [] if given.table else given.names or names:
        found = run(name, given.pictures)
        RECORD.write_text(json.dumps(records() | {name: found}, indent=1, sort_keys=True) + "\n")
    page.write("examples", page.fill("examples", lambda _: table(records())))


if __name__ == "__main__":
    main()
