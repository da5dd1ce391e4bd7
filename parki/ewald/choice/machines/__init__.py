"""The constants of the cost model: measured here by `parki tune`, or built in.

Both are files of one format. They have seconds of the variants, the usual variants, and costs of
the lengths of transforms.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.choice.cost import COUNTS, USUAL, Machine
from parki.ewald.far.padding import Lengths, Tables
from parki.interchange import vector_row
from parki.runtime import ExecutionSpace, host, private
from parki.runtime import shipped as compiled
from parki.settings import cache_directory, thread_count

log = logging.getLogger("parki")

# Format version; increment when `parki.ewald.choice.cost.COUNTS` changes.
VERSION = 15
# Kernels come compiled for every second of the degrees that are otherwise used.
COMPILED_DEGREES = 4
# Files of the built-in numbers, by whether the space is a device.
FILES = {False: "avx512.json", True: "h200.json"}


def machine(space: ExecutionSpace, dtype: Any, fixed: bool = False) -> Machine:
    """Return the numbers for a space and precision.

    Measured numbers serve the same device, or the same processor and number of threads. Built-in
    ones scale with the number of threads. With ``fixed``, take the built-in ones for one thread.
    """
    threads = thread_count() if space.name == "OpenMP" and not fixed else 1
    lanes = 1 if space.on_device else vector_row(1, dtype)
    precision = np.dtype(dtype).name
    tuned = None if fixed else read(space)
    result = of_file(tuned or built_in(space), precision, lanes, threads)
    if not tuned and not space.on_device:
        result = replace(result, workers=threads)
    if not space.on_device and compiled.usable():
        result = replace(result, degrees=COMPILED_DEGREES)
        if not host.can_compile():
            return replace(result, usual=USUAL[False])  # only these came compiled
    return result


def of_file(content: dict[str, Any], precision: str, lanes: int = 1, threads: int = 1) -> Machine:
    """Return the machine that a file's content describes for a precision."""
    measured = any(content["samples"].values())
    return Machine(
        f"{'measured on' if measured else 'those of'} {content['machine']}",
        content["seconds"][precision],
        tuple(content["usual"][precision][stage] for stage in ("p2p", "p2g", "g2p")),
        lengths=content["lengths"][precision],
        lanes=lanes,
        threads=threads,
    )


def built_in(space: ExecutionSpace) -> dict[str, Any]:
    """Return the built-in content: for one core of an AVX-512 server, or for an H200."""
    return shipped(FILES[space.on_device])


@lru_cache(maxsize=4)
def shipped(file: str) -> dict[str, Any]:
    """Return the content of a file that ships with parki."""
    return _content((Path(__file__).parent / file).read_text(encoding="utf-8"))


def of_path(path: Path) -> dict[str, Any]:
    """Return the content of a file that ``parki tune`` wrote, perhaps on another machine.

    Raises
    ------
    ParkiValueError
        If it is no such file, or of another version.
    """
    try:
        return _content(path.read_text(encoding="utf-8"))
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ParkiValueError(
            f"{path} has no measurements of 'parki tune' that this version reads ({error}); run it "
            "again on that machine"
        ) from error


def read(space: ExecutionSpace) -> dict[str, Any] | None:
    """Return the numbers that `parki tune` wrote for a space, or None."""
    return _USED.get(space.name) or _tuned(str(path(space)))


def use(space: ExecutionSpace, content: dict[str, Any]) -> None:
    """Let plans of a space use these numbers, which may be of any machine, until `clear`."""
    _USED[space.name] = content


def clear() -> None:
    """Drop what was read and set, so that files are read again."""
    _USED.clear()
    _tuned.cache_clear()


_USED: dict[str, dict[str, Any]] = {}


def path(space: ExecutionSpace) -> Path:
    """Return the file of the measured numbers, which may not exist."""
    return _path(cache_directory(), identity(space))


@lru_cache(maxsize=16)
def _path(folder: Path, name: str) -> Path:
    return folder / f"tuned-{re.sub('[^A-Za-z0-9]', '-', name)}.json"


def identity(space: ExecutionSpace) -> str:
    """Return the name of the device, or of the processor with its threads: numbers are of one."""
    if space.on_device:
        return _device(space, int(space.array_module.cuda.Device().id))
    threads = thread_count() if space.name == "OpenMP" else 1
    return f"{processor()} {threads} threads"


@lru_cache(maxsize=16)
def _device(space: ExecutionSpace, number: int) -> str:
    """Return a device's name; asking takes a millisecond."""
    properties = space.array_module.cuda.runtime.getDeviceProperties(number)
    return str(properties["name"].decode())


@lru_cache(maxsize=1)
def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return os.environ.get("PROCESSOR_IDENTIFIER") or platform.machine()


@lru_cache(maxsize=8)
def _tuned(file: str) -> dict[str, Any] | None:
    """Read measured numbers; report and ignore a file that cannot be used."""
    try:
        return _content(private.read(Path(file)).decode())
    except (json.JSONDecodeError, OSError) as error:
        if not os.path.exists(file):  # nor where the folder is a file, or closed to this user
            return None
        log.warning("parki: %s cannot be read (%s); run 'parki tune' again", file, error)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        log.warning("parki: %s is of another version (%s); run 'parki tune' again", file, error)
    return None


def _content(text: str) -> dict[str, Any]:
    """Return the checked content of a file, with its lengths as `Tables`."""
    content = dict(json.loads(text))
    if content["counts"] != VERSION:
        raise ValueError("counts")
    if set(content["seconds"]) != {"float32", "float64"}:
        raise ValueError("precisions")
    for numbers in content["seconds"].values():
        for variant, each in numbers.items():
            if len(each) != len(COUNTS[variant]) + 1 or not all(x >= 0 for x in each):
                raise ValueError(variant)
    for precision, usual in content["usual"].items():
        for stage in ("p2p", "p2g", "g2p"):
            if f"{stage}_{usual[stage]}" not in content["seconds"][precision]:
                raise ValueError(usual[stage])
    content["lengths"] = {name: _lengths(content["lengths"][name]) for name in content["seconds"]}
    return content


def _lengths(tables: Any) -> Tables:
    """Return lengths from a file; a file may have none."""
    if not isinstance(tables, dict) or not set(tables) <= set(Tables._fields):
        raise ValueError("lengths")
    for table in tables.values():
        if not all(isinstance(n, int) and n > 0 and n % 2 == 0 and cost > 0 for n, cost in table):
            raise ValueError("lengths")
    return Tables(**{name: Lengths(table) for name, table in tables.items()})
