"""The constants of the cost model: built in, or built in times what `parki tune` measured here.

A built-in machine is a file that comes with parki: seconds of the variants, and costs of the
lengths of transforms. A file of `parki tune` has one factor for each stage and precision, by which
the seconds of a built-in machine are multiplied, and names that machine.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import platform
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import ParkiValueError
from parki.ewald.choice.cost import STAGES, USUAL, Machine, stage_of
from parki.ewald.far.padding import Lengths, TransformLengths
from parki.interchange import vector_row
from parki.runtime import ExecutionSpace, private
from parki.runtime import shipped as compiled
from parki.settings import cache_directory
from parki.typing import DType

log = logging.getLogger("parki")

# Kernels come compiled for every second of the degrees that are otherwise used.
COMPILED_DEGREES = 4
# Files of the built-in numbers, by whether the space is a device.
FILES = {False: "avx512.json", True: "h200.json"}


def machine(space: ExecutionSpace, dtype: DTypeLike, fixed: bool = False) -> Machine:
    """Return the numbers for a space and precision.

    Numbers measured here serve the same device, or the same processor and number of threads. With
    ``fixed``, take the built-in ones for one thread. A folder is read once, until `clear`.
    """
    shipped_kernels = not space.on_device and compiled.usable()
    threads = 1 if fixed else space.threads
    device = space.adapter.device()
    return _machine(space, np.dtype(dtype), device, threads, fixed, shipped_kernels)


@lru_cache(maxsize=32)
def _machine(
    space: ExecutionSpace, dtype: DType, _: Any, threads: int, fixed: bool, shipped_kernels: bool
) -> Machine:
    """Return the numbers for a precision and the current device."""
    lanes = 1 if space.on_device else vector_row(1, dtype)
    precision = "float64" if dtype == np.float64 else "float32"
    content = None if fixed else read(space)
    result = of_file(content or built_in(space), precision, lanes, threads)
    return replace(result, degrees=COMPILED_DEGREES) if shipped_kernels else result


def of_file(content: dict[str, Any], precision: str, lanes: int = 1, threads: int = 1) -> Machine:
    """Return the machine that a file's content describes for a precision.

    Seconds hold for one thread, and more threads divide them.
    """
    return Machine(
        f"{'measured on' if 'threads' in content else 'those of'} {content['machine']}",
        content["seconds"][precision],
        USUAL[content["device"]],
        workers=threads,
        lengths=content["lengths"][precision],
        lanes=lanes,
        threads=threads,
    )


def built_in(space: ExecutionSpace) -> dict[str, Any]:
    """Return the built-in content: for one core of an AVX-512 server, or for an H200."""
    return shipped(FILES[space.on_device])


@lru_cache(maxsize=4)
def shipped(file: str) -> dict[str, Any]:
    """Return the content of a file that ships with parki, with `TransformLengths`."""
    content = json.loads((Path(__file__).parent / file).read_text(encoding="utf-8"))
    for precision, tables in content["lengths"].items():
        named = {name: Lengths(table) for name, table in tables.items()}
        content["lengths"][precision] = TransformLengths(**named)
    return dict(content)


def tuned(space: ExecutionSpace, factors: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the content of the file of a space for a factor of each precision and stage."""
    return {
        "machine": identity(space),
        "threads": space.threads,
        "built_in": FILES[space.on_device],
        "numbers": _digest(FILES[space.on_device]),
        "factors": factors,
    }


@lru_cache(maxsize=4)
def _digest(file: str) -> str:
    """Return a hash of the seconds of a built-in machine, to which factors belong."""
    numbers = json.dumps(shipped(file)["seconds"], sort_keys=True)
    return hashlib.sha256(numbers.encode()).hexdigest()[:16]


def multiplied(content: dict[str, Any]) -> dict[str, Any]:
    """Return the built-in content that a file of `parki tune` names, times the file's factors.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is no content of such a file, or belongs to other built-in numbers.
    """
    if "factors" not in content:
        raise ValueError("it has no factor for each stage")
    base = content["built_in"]
    if base not in FILES.values() or content["numbers"] != _digest(base):
        raise ValueError("the costs that come with parki are others now")
    seconds = {}
    for precision, variants in shipped(base)["seconds"].items():
        factors = content["factors"][precision]
        if not all(0 < factors[stage] < math.inf for stage in STAGES):
            raise ValueError(f"factors of {precision}")
        seconds[precision] = {
            variant: [factors[stage_of(variant)] * s for s in numbers]
            for variant, numbers in variants.items()
        }
    threads = int(content["threads"])
    if threads < 1:
        raise ValueError("threads")
    measured = {"machine": str(content["machine"]), "threads": threads, "seconds": seconds}
    return {**shipped(base), **measured}


def of_path(path: Path) -> dict[str, Any]:
    """Return the content of a file that ``parki tune`` wrote, perhaps on another machine.

    Raises
    ------
    ParkiValueError
        If it is no such file, or of another version.
    """
    try:
        return multiplied(dict(json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ParkiValueError(
            f"{path} has no measurements of 'parki tune' that this version reads ({error}); run it "
            "again on that machine"
        ) from error


def read(space: ExecutionSpace) -> dict[str, Any] | None:
    """Return the numbers of a space that `parki tune` measured, or None."""
    return _USED.get(space.name) or _tuned(str(path(space)))


def use(space: ExecutionSpace, content: dict[str, Any]) -> None:
    """Let plans of a space use these numbers, which may be of any machine, until `clear`."""
    _USED[space.name] = content
    _machine.cache_clear()


def clear() -> None:
    """Drop what was read and set, so that files are read again."""
    _USED.clear()
    _tuned.cache_clear()
    _machine.cache_clear()


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
    return f"{processor()} {space.threads} threads"


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
        return multiplied(dict(json.loads(private.read(Path(file)).decode())))
    except (json.JSONDecodeError, OSError) as error:
        if not os.path.exists(file):  # nor where the folder is a file, or closed to this user
            return None
        log.warning("parki: %s cannot be read (%s); run 'parki tune' again", file, error)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        log.warning("parki: %s is of another version (%s); run 'parki tune' again", file, error)
    return None
