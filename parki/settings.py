"""Environment variables parki reads, in one self-describing table.

An option of a computation is a keyword of `EwaldOptions`; an environment variable is for the
machine. ``python -m parki.settings`` prints the table with the values in force.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Setting:
    """One environment variable: name, default, meaning, and whether compiled code depends on it."""

    name: str
    default: str
    meaning: str
    compiled: bool = False

    def value(self) -> str:
        """Return the value in force: the environment's, or the default when unset or empty."""
        return os.environ.get(self.name, "") or self.default


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("PARKI_CACHE_DIR", "", "folder of compiled kernels; default ~/.cache/parki"),
        Setting(
            "PARKI_EXECUTOR", "embedded", "who runs the kernels: embedded, or pykokkos (upstream)"
        ),
        Setting(
            "PARKI_NUM_THREADS",
            "",
            "threads of the OpenMP space; default OMP_NUM_THREADS or all cores",
        ),
        Setting(
            "PARKI_EMULATED_TEAM",
            "1",
            "team size emulated on the CPU, thread after thread between barriers; for tests",
            compiled=True,
        ),
        Setting(
            "CXX", "", "C++ compiler of the OpenMP and Serial spaces; default g++ or clang++", True
        ),
    )
}


def cache_directory() -> Path:
    """Return the folder of the compile cache (not created here)."""
    chosen = SETTINGS["PARKI_CACHE_DIR"].value()
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "parki"


def thread_count() -> int:
    """Return the OpenMP threads: ``PARKI_NUM_THREADS``, ``OMP_NUM_THREADS`` or all cores."""
    for text in (SETTINGS["PARKI_NUM_THREADS"].value(), os.environ.get("OMP_NUM_THREADS", "")):
        first = text.split(",")[0].strip()
        if first.isdigit() and int(first) > 0:
            return int(first)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def table() -> str:
    """Return the settings as text, one line each: name, value in force, meaning."""
    return "\n".join(
        f"{s.name:<20} {s.value() or '(unset)':<12} {s.meaning}" for s in SETTINGS.values()
    )


if __name__ == "__main__":
    print(table())
