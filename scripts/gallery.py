"""Run the examples as their pages say, note how long each takes, and write the table of them.

    python scripts/gallery.py                      # all of them
    python scripts/gallery.py swimmers drops       # some
    python scripts/gallery.py --pictures swimmers  # what it draws replaces the manual's picture
    python scripts/gallery.py --table              # run nothing

Each page of docs/examples has the command of its program. Times are in docs/results/examples.json,
in seconds of all threads together, which other programs on the machine hardly change. Kernels are
compiled before: a first run takes longer.
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

from benchmarks.record import processor

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INDEX, RECORD = DOCS / "examples.md", DOCS / "results/examples.json"
COMMAND = re.compile(r"^```sh\n(?:pip .*\n)?(.*python )(examples/(\w+)\.py.*)\n```\n", re.M)
TABLE = re.compile(r"(<!-- examples:.*?-->\n\n).*?(\n<!-- end of examples -->)", re.S)


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
    """Return the rows of the table: page, problem and time, in the order of the list of pages."""
    rows = ["| page | problem | seconds |", "| --- | --- | --- |"]
    for name in re.findall(r"^examples/(\w+)$", INDEX.read_text("utf-8"), re.M):
        title = (DOCS / f"examples/{name}.md").read_text("utf-8").partition("\n")[0].lstrip("# ")
        text = ast.get_docstring(ast.parse((ROOT / f"examples/{name}.py").read_text("utf-8")))
        seconds = f" {measured[name]['seconds']:.0f}" if name in measured else ""
        problem = (text or "").partition("\n")[0].rstrip(".")
        rows.append(f"| [{title}](examples/{name}.md) | {problem} |{seconds} |")
    return "\n".join(rows) + "\n"


def main(words: list[str] | None = None) -> None:
    """Run what is asked for; write the record and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = sorted(path.stem for path in (DOCS / "examples").glob("*.md"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--pictures", action="store_true", help="replace pictures of the manual")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table")
    given = parser.parse_args(words)
    for name in [] if given.table else given.names or names:
        found = run(name, given.pictures)
        RECORD.write_text(json.dumps(records() | {name: found}, indent=1, sort_keys=True) + "\n")
    text = INDEX.read_text("utf-8")
    INDEX.write_text(TABLE.sub(lambda m: m[1] + table(records()) + m[2], text), "utf-8")


if __name__ == "__main__":
    main()
