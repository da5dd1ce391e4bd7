"""Faults of one line each, which the tests must find: `python tests/faults.py`.

`tests/faults.txt` has them. Each is made in a copy of the tree, where the tests run that should
find it. A shorter suite is as good as the longer one if it finds the same ones.

    python tests/faults.py               # all faults, by the tests that should find them
    python tests/faults.py P2P ranks     # those of some stages
    python tests/faults.py --all         # those that are missed then meet the whole suite
    python tests/faults.py --list        # what there is; nothing runs
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SECONDS = 900  # a fault may make tests wait for ever: that finds it too


class Fault(NamedTuple):
    """One line that is wrong.

    Attributes
    ----------
    stage, what : str
        Where it is, and what is wrong.
    file, right, wrong : str
        What stands once in the files of this name, and what replaces it.
    tests : str
        What should find it: arguments of pytest, separated by blanks.
    """

    stage: str
    what: str
    file: str
    right: str
    wrong: str
    tests: str


SUMS = "tests/test_accuracy.py::test_small_clouds"


def read(text: str) -> tuple[Fault, ...]:
    """Return the faults of a text: blocks of a title, a place with tests, and two lines."""
    found = []
    for block in text.strip("\n").split("\n\n"):
        title, place, right, wrong = block.split("\n")
        stage, _, what = title.partition(": ")
        file, _, tests = place.removeprefix("in ").partition(" by ")
        tests = " ".join(SUMS if test == "SUMS" else test for test in tests.split())
        found.append(Fault(stage, what, file, right[2:], wrong[2:], tests))
    return tuple(found)


FAULTS = read((ROOT / "tests" / "faults.txt").read_text(encoding="utf-8"))


def places(folder: Path, fault: Fault) -> list[Path]:
    """Return the file of a fault, as often as it has what is to be replaced: once, it should be."""
    return [
        path
        for part in ("kernels", "parki")
        for path in (folder / part).rglob(fault.file)
        for _ in range(path.read_text(encoding="utf-8").count(fault.right))
    ]


def fault_in(folder: Path, fault: Fault) -> None:
    """Make a fault in a tree."""
    found = places(folder, fault)
    if len(found) != 1:
        raise SystemExit(
            f"files {fault.file} have {len(found)} times, not once:\n    {fault.right}\n"
            "Write this fault in tests/faults.txt anew."
        )
    text = found[0].read_text(encoding="utf-8")
    found[0].write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")


def copy_tree(folder: Path) -> None:
    """Copy what git tracks, and what it would, to a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def run_tests(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest in a copy of the tree until one test fails; return its exit status and words."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    usual = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **os.environ}
    try:
        run = subprocess.run(
            [*command, *arguments], cwd=folder, env={**usual, "PYTHONPATH": str(folder)},
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1, f"FAILED by taking more than {SECONDS} s"
    return run.returncode, run.stdout


def verdict(status: int, words: str) -> str:
    """Return by what a fault was found, or '' if it was not."""
    if status == 0:
        return ""
    if status < 0:
        return f"the process's end by signal {-status}"
    found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", words, re.MULTILINE)
    if found is None:
        raise SystemExit(f"pytest ended with {status}:\n{words[-2000:]}")
    return found[1]


class Search:
    """Searches for faults; tests that fail without one find none, and are left out from then on.

    Parameters
    ----------
    folder : Path
        Where copies of the tree go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.whole = folder, folder / "whole"
        copy_tree(self.whole)
        self.sound: set[str] = set()
        self.failing: set[str] = set()

    def find(self, fault: Fault, *tests: str) -> str:
        """Return by what a fault is found, or '' if it is not."""
        broken = self.folder / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(self.whole, broken)  # which nobody edits meanwhile
        fault_in(broken, fault)
        while True:
            left_out = [word for test in self.failing for word in ("--deselect", test)]
            found = verdict(*run_tests(broken, *tests, *left_out))
            if "::" not in found or self._passes(found):
                return found

    def _passes(self, test: str) -> bool:
        """Whether a test passes in the tree as it is."""
        if test not in self.sound:
            if run_tests(self.whole, test)[0]:
                print(
                    f"\n        {test} fails without a fault, and is left out", end="", flush=True
                )
                self.failing.add(test)
            else:
                self.sound.add(test)
        return test in self.sound


def main() -> int:
    """Return 0 if all faults are found, else 1."""
    stages = sorted({fault.stage for fault in FAULTS})
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(stages))
    parser.add_argument("--all", action="store_true", help="the whole suite for what is missed")
    parser.add_argument("--list", action="store_true", help="print the faults, and run nothing")
    given = parser.parse_args()
    if unknown := {*given.stages} - {*stages}:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(stages)}")
    chosen = [fault for fault in FAULTS if fault.stage in (given.stages or stages)]
    if given.list:
        for fault in chosen:
            print(f"{fault.stage}: {fault.what}")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory(prefix="parki-faults-") as name:
        search = Search(Path(name))
        for number, fault in enumerate(chosen, 1):
            print(f"[{number:2}/{len(chosen)}] {fault.stage}: {fault.what}", end="", flush=True)
            begun = time.monotonic()
            found = search.find(fault, *fault.tests.split())
            if not found and given.all:
                print("\n        not by the tests that should, now by all", end="", flush=True)
                found = search.find(fault)
            missed += not found
            print(f"\n        {found or 'MISSED'} ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults were found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
