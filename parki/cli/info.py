"""`parki info`: the versions, execution spaces, processor, memory and settings of this machine.

It prints the facts that a bug report needs, as text or as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

from parki import __version__
from parki.cli.arguments import (
    Commands,
    add_json,
    command,
)
from parki.errors import ParkiValueError, UnavailableError
from parki.ewald.choice import machines
from parki.ewald.pipeline.protocol import describe_cache
from parki.memory import in_words
from parki.runtime import ExecutionSpace, cache, host, shipped
from parki.runtime.spaces import SPACES, free_memory, why_unavailable
from parki.settings import SETTINGS, cache_directory, setting_text, table, thread_count

NONE = "none: "  # precedes the reason
# Spelling of the names that are not in small letters.
NAMES = {"python": "Python", "numpy": "NumPy", "scipy": "SciPy", "cupy": "CuPy"}

DESCRIPTION = """\
Print the versions of parki and of what it builds on, the execution spaces of this machine
(for a missing one, the reason and the remedy), compiler, processor, memory, cache and settings,
and when 'parki tune' has measured it.
Paste it into bug reports.
"""


def declare(commands: Commands) -> None:
    """Add the command to the command line."""
    add_json(
        command(
            commands,
            "info",
            run,
            summary="what parki found on this machine",
            description=DESCRIPTION,
        )
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the facts; return the exit code."""
    known = facts()
    print(json.dumps(known, indent=2) if arguments.json else text(known))
    return 0


def facts() -> dict[str, Any]:
    """Return the facts about this machine; None stands for a package that is not installed."""
    reasons = {space: why_unavailable(space) for space in SPACES}
    return {
        "parki": __version__,
        "python": platform.python_version(),
        "platform": _platform(),
        "numpy": _version("numpy"),
        "scipy": _version("scipy"),
        "ducc0": _version("ducc0"),
        "cupy": _cupy(),
        "mpi4py": _version("mpi4py"),
        "ranks": _ranks(),
        "h5py": _version("h5py"),
        "compiler": _answer(_compiler),
        "kernels": _answer(_kernels),
        "processor": machines.processor(),
        "threads": _answer(thread_count),
        "memory": _memory(),
        "measured": _measured(),
        "cache": _cache(),
        "kept": describe_cache(),
        "spaces": {
            space: {"available": not reason, "reason": reason} for space, reason in reasons.items()
        },
        "settings": {name: setting_text(name) for name in SETTINGS},
    }


def _platform() -> str:
    """Return the system, as `platform.platform` does, which runs other programs."""
    parts = platform.system(), platform.release(), platform.machine(), "".join(platform.libc_ver())
    return "-".join(filter(None, parts))


def text(report: dict[str, Any]) -> str:
    """Return `facts` as text for a terminal, each reason only once."""
    cache = report["cache"]
    state = f"cannot be used: {cache['unusable']}; " if cache["unusable"] else ""
    size = f"{cache['kernels']} kernels, {cache['bytes'] / 1e6:.1f} MB"
    report = report | {"cache": f"{cache['folder']} ({state}{size})"}
    rows, said = [], dict[str, str]()  # maps a reason to its line
    for name, value in report.items():
        if isinstance(value, dict):
            continue
        value = str(value or "not installed")
        reason = value.removeprefix(NONE)
        if reason != value:
            value = NONE + _once(reason, name, said)
        rows.append(f"{NAMES.get(name, name):<12}{value}")
    rows += ["", "Execution spaces"]
    for space, space_report in report["spaces"].items():
        reason = space_report["reason"]
        here = f"not here: {_once(reason, space, said)}" if reason else "available"
        rows.append(f"  {space:<10}{here}")
    rows += ["", "Settings (environment variables)"]
    rows += [f"  {line}" for line in table().splitlines()]
    return "\n".join(rows)


def _once(reason: str, name: str, said: dict[str, str]) -> str:
    """Return a reason, or a reference to the line that already gives it."""
    known = max((text for text in said if reason.startswith(text)), key=len, default="")
    said.setdefault(reason, name)
    return f"as for {said[known]}{reason.removeprefix(known)}" if known else reason


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _answer(ask: Callable[[], Any]) -> Any:
    """Return an answer, or why there is none."""
    try:
        return ask()
    except (ParkiValueError, UnavailableError) as error:
        return f"{NONE}{error}"


def _compiler() -> str:
    compiler = host.compiler()
    return f"{compiler.version} ({compiler.path})"


def _kernels() -> str:
    """Return where the CPU's kernels come from."""
    if shipped.usable():
        return f"the usual ones came compiled, for {shipped.level()}; others on first use"
    compilers = host.compilers()
    if compilers[0].here:
        return "compiled on first use"
    return f"those in the cache, compiled by {', '.join(c.version for c in compilers)}"


def _cupy() -> str | None:
    """Return CuPy's version, the driver's, and the device's name."""
    try:
        import cupy
    except ImportError:
        return None
    if why_unavailable("Cuda") and why_unavailable("HIP"):
        return f"{cupy.__version__}, without a usable GPU"
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(0)["name"].decode()
    return (
        f"{cupy.__version__}, driver for {_dotted(runtime.driverGetVersion())}, "
        f"runtime {_dotted(runtime.runtimeGetVersion())}, {runtime.getDeviceCount()} x {name}"
    )


def _memory() -> str:
    """Return the memory of the CPU, and how much of it is free."""
    import psutil

    free = free_memory(ExecutionSpace("Serial"))
    return f"{in_words(psutil.virtual_memory().total)}, of which {in_words(free)} are free"


def _measured() -> str:
    """Return since when plans choose by measurements of `parki tune`, for each space."""
    rows = []
    for name in SPACES:
        if why_unavailable(name):
            continue
        space = ExecutionSpace(name)
        try:
            path = machines.path(space)
        except ParkiValueError:  # the folder's name is impossible, which the cache's line says
            continue
        if machines.read(space) is None:
            built_in = machines.built_in(space)["machine"]
            rows.append(f"{name} never, by costs of {built_in}: 'parki tune --space {name}'")
        else:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
            rows.append(f"{name} on {when}")
    return "; ".join(rows) or "nothing"


def _ranks() -> str | None:
    """Return the libraries that move arrays between ranks: MPI, and NCCL for arrays on GPUs."""
    if _version("mpi4py") is None:
        return None
    # In its own process, which an MPI library that does not fit the machine may end.
    program = (
        "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
        "print(MPI.Get_library_version())"
    )
    try:
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
        )
    except (subprocess.SubprocessError, OSError):
        return "none: mpi4py finds no MPI library that works; 'pip install mpich' brings one"
    library = " ".join(ran.stdout.partition("\n")[0].replace("\0", "").split())
    return library + _device_ranks()


def _device_ranks() -> str:
    """Return how arrays on GPUs move between ranks; '' without a GPU."""
    if why_unavailable("Cuda") and why_unavailable("HIP"):
        return ""
    from cupy.cuda import nccl

    if not nccl.available:
        return "; arrays on GPUs through host memory (CuPy has no NCCL)"
    version = nccl.get_version()
    number = f"{version // 10000}.{version % 10000 // 100}.{version % 100}"
    return f"; arrays on GPUs by NCCL {number}, through host memory where ranks share a GPU"


def _dotted(version: int) -> str:
    """Return CUDA's version number, such as 12040, as text."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _cache() -> dict[str, Any]:
    try:
        folder = cache_directory()
    except ParkiValueError as error:
        setting = setting_text("PARKI_CACHE_DIR")
        return {"folder": setting, "unusable": str(error), "kernels": 0, "bytes": 0}
    sizes = [f.stat().st_size for f in folder.glob("*.so")] if os.path.isdir(folder) else []
    return {
        "folder": str(folder),
        "unusable": cache.why_unusable(),
        "kernels": len(sizes),
        "bytes": sum(sizes),
    }
