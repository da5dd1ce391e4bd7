"""The record of a run: machine, versions, settings and date around the numbers, as JSON."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from parki import __version__
from parki.runtime import host
from parki.settings import checked_setting, thread_count

from .run import Run

Record = dict[str, Any]


def record(kind: str, run: Run, seconds: float, results: dict[str, Any]) -> Record:
    """Return the record of a case."""
    settings = {
        "space": str(run.space),
        **{k: getattr(run, k) for k in ("points", "quick", "seed")},
    }
    return {
        "kind": kind,
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "machine": machine(run),
        "versions": versions(run),
        "settings": settings,
        "seconds": round(seconds, 1),
        "results": results,
    }


def machine(run: Run) -> dict[str, Any]:
    """Return the machine's name and properties."""
    facts: dict[str, Any] = {"system": platform.platform(terse=True), "cpu": processor()}
    if not run.device:
        # Load of the last minute, this run included: more than the threads means other programs.
        facts["load"] = round(os.getloadavg()[0], 1)
        threads = thread_count()
        return {**facts, "name": f"{facts['cpu']}, {threads} thread{'s' * (threads > 1)}"}
    runtime = run.xp.cuda.runtime
    properties = runtime.getDeviceProperties(run.xp.cuda.Device().id)
    return {
        **facts,
        "name": properties["name"].decode(),
        "memory_gb": round(properties["totalGlobalMem"] / 1e9, 1),
        "multiprocessors": properties["multiProcessorCount"],
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
    }


def versions(run: Run) -> dict[str, str]:
    """Return the versions of parki and of the packages that compute."""
    found = {"parki": _commit(), "python": platform.python_version()}
    for package in ("numpy", "scipy"):
        found[package] = metadata.version(package)
    if run.device:
        found["cupy"] = run.xp.__version__
        major, minor = run.xp.cuda.nvrtc.getVersion()
        found["nvrtc"] = f"{major}.{minor}"
    else:
        found["compiler"] = host.compiler().version
    return found


def write(file: Path, records: Sequence[Record]) -> None:
    """Write records with few digits, because the files are kept in the repository."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_short(list(records)), indent=1) + "\n", encoding="utf-8")


def read(files: Sequence[Path]) -> list[Record]:
    """Return the records of all files."""
    return [r for file in files for r in json.loads(file.read_text(encoding="utf-8"))]


def joined(records: Sequence[Record]) -> list[Record]:
    """Return one record for each kind and machine, with the rows of all of them."""
    found: dict[tuple[str, str], Record] = {}
    for more in records:
        key = more["kind"], more["machine"]["name"]
        first = found.get(key, {**more, "seconds": 0, "results": {}})
        seconds = round(first["seconds"] + more["seconds"], 1)
        results = _both(first["results"], more["results"])
        found[key] = {**first, "seconds": seconds, "results": results}
    return [*found.values()]


def _both(first: Any, more: Any) -> Any:
    """Return what two results hold: lists joined, dicts name by name, and else the first."""
    if isinstance(first, dict):
        shared = {key: _both(first[key], more[key]) for key in first if key in more}
        return {**first, **more, **shared}
    if isinstance(first, list):
        return first + [row for row in more if row not in first]
    return first


def where(found: Record) -> str:
    """Return machine, versions and date in one line."""
    machine = found["machine"]
    load = f" (load {machine['load']})" if "load" in machine else ""
    of = " ".join(f"{name} {version}," for name, version in found["versions"].items())
    return f"{machine['name']}{load}; {of} {found['date']}"


def on_device(found: Record) -> bool:
    """Return whether a record is of a GPU."""
    return found["settings"]["space"] in ("Cuda", "HIP")


def pick(rows: Sequence[dict[str, Any]], **values: Any) -> list[dict[str, Any]]:
    """Return the rows that have some values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def processor() -> str:
    """Return the CPU's name and its widest vectors that CXX allows, as far as known."""
    name, wide = platform.processor() or platform.machine(), ""
    facts = Path("/proc/cpuinfo")
    if facts.is_file():
        text = facts.read_text(encoding="utf-8")
        for line in text.splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
        long = "avx512f" in text and "-mno-avx512f" not in checked_setting("CXX")
        wide = " (AVX-512)" if long else " (AVX2)" if " avx2" in text else ""
    return name + wide


def _commit() -> str:
    """Return parki's version, and the commit if this is a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__} ({found})"


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(item) for item in value]
    return value
