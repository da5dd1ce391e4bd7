"""The cases of `scripts/benchmark.py`, and what they share.

A module has some cases in its ``CASES``: of this folder, if they are tables or figures of
Kosmacher, Du, Bagge and Biros (2026), of ``papers``, if they compare with another paper or library,
and else of ``cases``. They share

    run.py       the request, clocks, clouds of points
    record.py    the machine, versions, the JSON around the numbers
    show.py      tables and pictures        page.py    the pages in docs
    ceilings.py  bandwidth and arithmetic that the machine reaches
    models.py    operations and bytes of parki's kernels

The paper's numbers are for one NVIDIA H200. Its "nine digits" (E = 1e-9) is a relative error that
close pairs dominate; it corresponds to parki's tolerance 1e-4, and "seven digits" to 1e-1. Its
double layer spreads 12 components, and parki's 4 with the window's gradient, so that parki does
the same task with fewer operations.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from .record import Record
    from .run import Run
    from .show import Table


def _modules(words: str) -> dict[str, str]:
    """Return the modules of cases by name."""
    return dict(word.split(":") for word in words.split())


FOLDERS = {
    "benchmarks": _modules(
        "table3:near table6:near table7:mesh table8:mesh table9:whole table10:whole "
        "figure6:near figure9:whole"
    ),
    "papers": _modules(
        "guo:guo ljungkvist:ljungkvist rossinelli:rossinelli finufft:finufft fmm3d:free_space "
        "dmk:free_space spheres:spheres dpstokes:slit charges:charges"
    ),
    "cases": _modules(
        "floor:floor first_sums:first_sums several:plans tilted:plans "
        "derivatives:plans walls:walls calls:calls trace:trace small_sums:sanitized "
        "small_steps:sanitized"
    ),
}


@dataclass(frozen=True)
class Case:
    """A case of the benchmark.

    Attributes
    ----------
    words : str
        A title and what is compared, in one sentence, and perhaps more; docs say what cannot be.
    measure : callable
        Returns numbers for JSON.
    tables, draw : callable, optional
        Show a record, also one from a file. Without tables its numbers are rows by title.
    missing : callable
        Takes whether the space is a device, and returns why the case cannot run there, or ''.
    """

    words: str | None
    measure: Callable[[Run], dict[str, Any]]
    tables: Callable[[Record], list[Table]] | None = None
    draw: Callable[[Record, Path], None] | None = None
    missing: Callable[[bool], str] = lambda on_device: ""

    @property
    def about(self) -> tuple[str, str]:
        """The title, and what is compared."""
        title, _, words = str(self.words).partition("\n\n")[0].partition(": ")
        return title, " ".join(words.split()).rstrip(".")


def case(name: str) -> Case:
    """Return a case."""
    folder = next(folder for folder, names in FOLDERS.items() if name in names)
    found: Case = import_module(f"{folder}.{FOLDERS[folder][name]}").CASES[name]
    return found


def cpu_alone(on_device: bool) -> str:
    """Return why what runs on CPUs cannot run on a device, or ''."""
    return "it runs on CPUs alone" if on_device else ""


def not_installed(package: str) -> str:
    """Return the message that a package is not installed, or '' if it is."""
    return "" if importlib.util.find_spec(package) else f"{package} is not installed"
