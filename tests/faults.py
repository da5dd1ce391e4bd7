"""Faults of one line each, which the tests must find: `python tests/faults.py`.

Each fault is made in a copy of the tree, where the tests run that should find it. A shorter suite
is as good as the longer one if it finds the same ones.

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
FAULTS = (
    Fault(
        "P2P",
        "images along y are on the wrong side",
        "stage.py",
        "r1 = (y1 + stage[4][m])",
        "r1 = (y1 - stage[4][m])",
        SUMS,
    ),
    Fault(
        "P2P",
        "the trace of a dipole has the wrong sign",
        "dipole.py",
        "along: REAL = cc * (d00 + d11 + d22)",
        "along: REAL = 0.0 - cc * (d00 + d11 + d22)",
        "tests/test_accuracy.py::test_no_more_accurate_than_asked",
    ),
    Fault(
        "P2P",
        "several densities: all take the first one's",
        "rotlet.py",
        "take_vector(t0, t1, t2, density, row + CHARGES * d, at)",
        "take_vector(t0, t1, t2, density, row, at)",
        "tests/test_many.py",
    ),
    Fault(
        "P2G",
        "the tensor of a dipole has a number twice",
        "p2g.py",
        "xz: REAL = -dens[PLAIN + 2][j]",
        "xz: REAL = -dens[PLAIN + 1][j]",
        SUMS,
    ),
    Fault(
        "P2G",
        "windows do not wrap along y at the last plane",
        "p2g.py",
        "if g1 >= shape[1]:",
        "if g1 > shape[1]:",
        SUMS,
    ),
    Fault(
        "FGC",
        "the pressure's imaginary part has the wrong sign",
        "flow.py",
        "pressure_im: REAL = 0.0 - scale * a",
        "pressure_im: REAL = scale * a",
        SUMS,
    ),
    Fault(
        "FGC",
        "one component of a curl has the wrong sign",
        "curl.py",
        "hat[1][im] = m * (z * a0 - x * a2)",
        "hat[1][im] = m * (x * a2 - z * a0)",
        SUMS,
    ),
    Fault(
        "G2P",
        "the third component is gathered from the second",
        "gather.py",
        "plane2[z] += w * field[2][g0][g1][c2 + z]",
        "plane2[z] += w * field[1][g0][g1][c2 + z]",
        SUMS,
    ),
    Fault(
        "G2P",
        "windows do not wrap at their last points",
        "window.py",
        "if g >= shape[axis]:",
        "if g > shape[axis]:",
        SUMS,
    ),
    Fault(
        "cell lists",
        "points one ulp before the near face stay there",
        "cell_list.py",
        "if x < origin[d] or x - origin[d] >= length[d]:",
        "if x - origin[d] >= length[d]:",
        "tests/test_cell_list.py",
    ),
    Fault(
        "cell lists",
        "points before the first cell of a free axis are not clamped",
        "cell_list.py",
        "pk.fmin(pk.fmax(place, 0.0), REAL(shape[d] - 1))",
        "pk.fmin(place, REAL(shape[d] - 1))",
        "tests/test_cell_list.py",
    ),
    Fault(
        "windows",
        "polynomials of the window have a degree too few",
        "window.py",
        "return (points + 1) // 2 + 2",
        "return (points + 1) // 2 + 1",
        "tests/test_window.py tests/test_estimates.py tests/test_accuracy.py",
    ),
    Fault(
        "splits",
        "the background of charged lattices is that of another width",
        "hasimoto.py",
        "return float(np.pi / self.xi**2)",
        "return float(np.pi / (2 * self.xi**2))",
        "tests/test_split.py tests/test_identities.py " + SUMS,
    ),
    Fault(
        "splits",
        "polynomials of the near field have a degree too few",
        "hasimoto.py",
        "return int(np.nonzero(~enough)[0][-1]) + 1 if",
        "return int(np.nonzero(~enough)[0][-1]) if",
        "tests/test_split.py",
    ),
    Fault(
        "padding",
        "the far image of a flat box begins one edge too early",
        "padding.py",
        "least = (2 * (edges[axis] + kept) + width)",
        "least = (edges[axis] + kept + width)",
        SUMS,
    ),
    Fault(
        "padding",
        "images of decaying modes are taken for harmless too soon",
        "padding.py",
        "decay = x * edges[0] / (2 * math.pi)",
        "decay = x * edges[0] / (4 * math.pi)",
        "tests/test_cropped.py",
    ),
    Fault(
        "fading",
        "the integral of the two-periodic kernel forgets the inner ball",
        "truncated.py",
        "lambda: 2 * np.pi * r * (2 * radius - r),",
        "lambda: 2 * np.pi * r * (radius - r),",
        "tests/test_truncated.py " + SUMS,
    ),
    Fault(
        "choice",
        "of two cut-offs the slower one is taken",
        "parameters.py",
        "best = min(filter(None, (found, *others)), key=lambda p: p.total, default=None)",
        "best = max(filter(None, (found, *others)), key=lambda p: p.total, default=None)",
        "tests/test_choices.py tests/test_p2p_lists.py",
    ),
    Fault(
        "choice",
        "points that spread out keep the parameters of a crowd",
        "reuse.py",
        "if not 1 / PAIRS <= ratio <= PAIRS:",
        "if not ratio <= PAIRS:",
        "tests/test_reuse.py",
    ),
    Fault(
        "estimates",
        "images do not add to the error of a near field's end",
        "estimates.py",
        "rms = spread * math.sqrt(total / volume) * images",
        "rms = spread * math.sqrt(total / volume)",
        "tests/test_accuracy.py::test_thin_periods tests/test_estimates.py",
    ),
    Fault(
        "estimates",
        "the error of cut modes lacks a factor of two",
        "estimates.py",
        "found.append(4 * np.pi * float(",
        "found.append(2 * np.pi * float(",
        "tests/test_estimates.py",
    ),
    Fault(
        "gauges",
        "the logarithm of the one-periodic potential has the wrong sign",
        "gauges.py",
        "-2 / box[0] * (ends.log + more),",
        "2 / box[0] * (ends.log + more),",
        "tests/test_gauge.py",
    ),
    Fault(
        "gauges",
        "the mean without flux counts from the first target",
        "gauge.py",
        "start = (sums[:3] - sums[3:] * self.first)",
        "start = (sums[:3] + sums[3:] * self.first)",
        "tests/test_gauge.py tests/test_images.py",
    ),
    Fault(
        "promise",
        "the bound decays with a wrong power of the length",
        "promise.py",
        "/ length**source.decay",
        "/ length",
        "tests/test_want.py tests/test_accuracy.py::test_the_promise_of_a_plan",
    ),
    Fault(
        "derivatives",
        "values of a stress pull at the pressure and the gradient by the first row alone",
        "*.py",
        "[each * values[..., i, :] for",
        "[each * values[..., 0, :] for",
        "tests/test_adjoint.py",
    ),
    Fault(
        "derivatives",
        "derivatives by targets are summed over the wrong axis",
        "*.py",
        '(at["dens"][: len(slopes), None] * slopes).sum(axis=0)',
        '(at["dens"][: len(slopes), None] * slopes).sum(axis=1)',
        "tests/test_derivatives.py",
    ),
    Fault(
        "derivatives",
        "kernels that end do not change with the box",
        "strain.py",
        "xp.where(none, 0, rise)",
        "xp.where(none, 0, 0 * rise)",
        "tests/test_by_box.py",
    ),
    Fault(
        "derivatives",
        "the near field's strain leaves out the third row of a result",
        "slopes.py",
        "bend1 = bend1 + weigh1 * g11 + weigh2 * g21",
        "bend1 = bend1 + weigh1 * g11",
        "tests/test_by_box.py",
    ),
    Fault(
        "transposes",
        "the transposed double layer has the wrong part of a sum of two",
        "layers.py",
        "LAYER_OUT = 3 * SINGLE * TRANSPOSED_PAIR",
        "LAYER_OUT = 0",
        "tests/test_adjoint.py",
    ),
    Fault(
        "ranks",
        "what was spread beyond a slab replaces what is there",
        "halo.py",
        "grid[:, part.owned : part.owned + part.planes] += block",
        "grid[:, part.owned : part.owned + part.planes] = block",
        "tests/test_distributed.py",
    ),
    Fault(
        "ranks",
        "slabs touch a plane too few",
        "slabs.py",
        "last += self.window - 1",
        "last += self.window - 2",
        "tests/test_distributed.py",
    ),
    Fault(
        "mixed precision",
        "second parts of positions are lost along y",
        "stage.py",
        "r1 += (l1 - stage[LOWER + 1][m]) * tiny",
        "r1 += (l1 - l1) * tiny",
        "tests/test_precision.py " + SUMS,
    ),
    Fault(
        "mixed precision",
        "the second part of a position is taken from the first",
        "pair.py",
        "((points - high) * 2.0**24)",
        "((points - high) * 2.0**23)",
        "tests/test_precision.py " + SUMS,
    ),
    Fault(
        "float32",
        "close pairs count as one point",
        "p2p.py",
        "coincident = 1e-14 * longest",
        "coincident = 1e-6 * longest",
        "tests/test_p2p.py",
    ),
    Fault(
        "float32",
        "windows that amplify rounding are taken",
        "options.py",
        "np.dtype(np.float32): 12}",
        "np.dtype(np.float32): 18}",
        "tests/test_precision.py::test_what_is_refused",
    ),
    Fault(
        "systems",
        "targets see the density of the next system",
        "systems.py",
        "return values[:, self._of_targets]",
        "return values[:, self._of_targets - 1]",
        "tests/test_systems.py tests/test_images.py",
    ),
    Fault(
        "systems",
        "derivatives by sources read the grid of the first system",
        "g2p_tensor.py",
        "above = above + grids[i] * shape[1]",
        "above = above + 0 * grids[i]",
        "tests/test_systems.py",
    ),
    Fault(
        "plan cache",
        "a box that deforms keeps the multiplier of the one before",
        "fgc.py",
        "            block.fill()",
        "            block.change = None",
        "tests/test_tilted.py",
    ),
    Fault(
        "plan cache",
        "a new plan takes the set-up of other numbers of points unseen",
        "one_device.py",
        "if points.labels or sizes != self._sizes or not is_free(memory, setup.task.space):",
        "if points.labels or not is_free(memory, setup.task.space):",
        "tests/test_plan_cache.py",
    ),
    Fault(
        "images",
        "the flux of a body that crosses a face is never looked at",
        "images.py",
        "(abs(sums) > CLOSED * sizes).any()",
        "(sums > CLOSED * sizes).all()",
        "tests/test_images.py",
    ),
    Fault(
        "devices",
        "impossible points that a graph placed are taken for points in the box",
        "one_device.py",
        "return not misfits, self.crowding.matches(crowds)",
        "return True, self.crowding.matches(crowds)",
        "tests/test_late.py",
    ),
    Fault(
        "devices",
        "no sum is made again after points that need other parameters",
        "placed_sum.py",
        "            if self.settle():",
        "            if self.settle() and False:",
        "tests/test_late.py",
    ),
    Fault(
        "runtime cache",
        "an entry with another content counts as whole",
        "cache.py",
        "return content if sealed == _digest(path.name, content) else None",
        "return content if sealed else None",
        "tests/test_cache.py",
    ),
    Fault(
        "runtime cache",
        "entries that the group may write are trusted",
        "private.py",
        "if what.st_mode & stat.S_IWGRP else",
        "if False else",
        "tests/test_cache.py",
    ),
    Fault(
        "runtime cache",
        "a library that cannot be loaded is kept",
        "cache.py",
        "found = use(content, path)",
        "found = _keep(file, content) and use(content, path)",
        "tests/test_compiler.py",
    ),
    Fault(
        "runtime cache",
        "translations stay when blocks are edited",
        "translations.py",
        'cache.key("translation", _CODE, blocks, asked.text',
        'cache.key("translation", _CODE, asked.text',
        "tests/test_translations.py",
    ),
    Fault(
        "runtime cache",
        "translations of files edited meanwhile are kept",
        "translations.py",
        "if _blocks(folder) == blocks:",
        "if blocks:",
        "tests/test_translations.py",
    ),
    Fault(
        "translator",
        "offsets into views have 32 bits",
        "translate.py",
        'if axis else "(long long)"',
        'if axis else ""',
        "tests/test_translate.py tests/test_blocks.py tests/test_large.py tests/test_executor.py",
    ),
    Fault(
        "translator",
        "quotients of whole numbers are whole",
        "translate.py",
        'return f"(({self.real})({left}) / ({self.real})({right}))"',
        'return f"(({left}) / ({right}))"',
        "tests/test_translate.py",
    ),
    Fault(
        "options",
        "a cut-off and a cell size are taken together",
        "options.py",
        "if self.cell_size is not None and self.cutoff is not None:",
        "if self.cell_size is not None and self.cutoff is None and False:",
        "tests/test_errors.py",
    ),
    Fault(
        "options",
        "a free axis is taken for one whose length is needed",
        "options.py",
        "if length is None and periodic[n]]",
        "if length is None and any(periodic[: n + 1])]",
        "tests/test_extent.py tests/test_errors.py",
    ),
    Fault(
        "axes",
        "the first two axes change places",
        "options.py",
        "return first, (first + 1) % 3, (first + 2) % 3",
        "return (first + 1) % 3, first, (first + 2) % 3",
        "tests/test_axes.py",
    ),
    Fault(
        "axes",
        "tensors turn by one index",
        "axes.py",
        "tensor = [3 * row + column for row in self.axes for column in self.axes]",
        "tensor = [3 * row + column for row in self.axes for column in range(3)]",
        "tests/test_axes.py tests/test_distributed.py",
    ),
    Fault(
        "cli",
        "parki check keeps its promise by NaN",
        "check.py",
        "return self.ratio <= 1",
        "return not self.ratio > 1",
        "tests/test_commands.py::test_broken_promise",
    ),
    Fault(
        "P2P",
        "pairs that are left out stay on the grid beyond the cut-off",
        "labels.py",
        "if far < 1.0:",
        "if far >= 0.0:",
        "tests/test_exclude.py",
    ),
    Fault(
        "P2P",
        "the marks of targets are not in their order",
        "p2p.py",
        "self.dtype.type(unit) * points.sort(each)",
        "self.dtype.type(unit) * each",
        "tests/test_polydisperse.py",
    ),
    Fault(
        "FGC",
        "sources' Laplacians have the other sign",
        "fgc.py",
        "hat[c][re] = hat[c][re] - square * hat[c][re + apart]",
        "hat[c][re] = hat[c][re] + square * hat[c][re + apart]",
        "tests/test_polydisperse.py",
    ),
    Fault(
        "estimates",
        "spheres of any radii make no larger errors than points",
        "lifted.py",
        "return _ratios(base, self.order, term, square, self.sides)",
        "return 1.0, 1.0",
        "tests/test_polydisperse.py",
    ),
    Fault(
        "P2P",
        "lists that are taken give a row twice, and leave the next one out",
        "p2p_tile.py",
        "beyond = lists[row + 2][v]",
        "beyond = lists[row + 1][v]",
        "tests/test_p2p_lists.py",
    ),
    Fault(
        "windows",
        "the middle value of a window of an odd number of points counts twice",
        "mesh.py",
        "half[signs < 0, -1], counts[-1] = 0, 1",
        "half[signs < 0, -1], counts[-1] = 0, 2",
        "tests/test_mesh.py tests/test_window.py " + SUMS,
    ),
    Fault(
        "ranks",
        "the field of other ranks' planes stays zero",
        "halo.py",
        "field[:, part.touched : part.touched + part.planes] = block",
        "field[:, part.touched : part.touched + part.planes] = 0",
        "tests/test_distributed.py",
    ),
    Fault(
        "axes",
        "the second of two vectors is the first one",
        "axes.py",
        "vector = [3 * each + axis for each",
        "vector = [axis for each",
        "tests/test_axes.py",
    ),
    Fault(
        "mixed precision",
        "second parts of positions are lost in derivatives on devices",
        "p2p_derivatives.py",
        "r1 += (l1 - src_low[1][j]) * (inverse * UNIT)",
        "r1 += (l1 - l1) * (inverse * UNIT)",
        "tests/test_precision.py",
    ),
    Fault(
        "PLANS",
        "members that were moved before one failed are not moved back",
        "placement.py",
        "self._back(before, done)",
        "pass",
        "tests/laws/test_refused_updates.py",
    ),
    Fault(
        "PLANS",
        "another box reaches the first member alone",
        "placement.py",
        "member.sum.update(arguments, box, keep=several)",
        "member.sum.update(arguments, box if member is self.members[0] else None, keep=several)",
        "tests/laws/test_moves.py",
    ),
    Fault(
        "PLANS",
        "spheres near a wall take forces on those of their own radius alone",
        "wall.py",
        "Columns(at, by)",
        "Columns(at, at)",
        "tests/laws/test_moves.py",
    ),
    Fault(
        "PLANS",
        "the sums of a placement have no lock",
        "access.py",
        "with self._lock, read_once(), told():",
        "with read_once(), told():",
        "tests/laws/test_concurrent.py",
    ),
    Fault(
        "PLANS",
        "points that a device refused late stay with the members that took them",
        "placement.py",
        "self._back(self._before, self.members)",
        "pass",
        "tests/laws/test_refused_updates.py",
    ),
)


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
            "Write this fault in tests/faults.py anew."
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
        copy_tree(broken)
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
