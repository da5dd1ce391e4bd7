"""The seconds of `parki.ewald.cost`: those that `parki tune` measured here, or built-in ones."""

from __future__ import annotations

import json
import logging
import platform
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from parki.ewald.cost import COUNTS, Machine
from parki.ewald.lengths import Lengths
from parki.runtime import ExecutionSpace
from parki.settings import cache_directory, thread_count

log = logging.getLogger("parki")

# By precision: one core of an Intel Xeon with AVX-512, and one H200.
CORE: dict[str, dict[str, tuple[float, ...]]] = {
    "float64": {
        "p2p_tile": (0.0, 1.8e-07, 8.1e-09, 3.6e-10),
        "p2p_staged": (1.8e-06, 5.8e-07, 2.4e-09, 7.4e-11),
        "p2p_gm1d": (0.0, 7e-08, 7e-10, 3.5e-11),
        "p2p_gm2d": (0.0, 6.4e-08, 6.4e-10, 3.2e-11),
        "p2p_sm1d": (0.0, 6.1e-08, 6.1e-10, 3e-11),
        "p2p_sm2d": (0.0, 6.3e-08, 6.3e-10, 3.1e-11),
        "p2g_owner": (0.00022, 4.6e-08, 4.3e-10),
        "p2g_tile": (0.0, 0.0, 2e-09, 8.1e-09),
        "p2g_base": (0.0, 0.0, 8.7e-09),
        "p2g_source": (0.0, 0.0, 7.8e-09),
        "p2g_grid": (0.0, 0.0, 1.2e-08),
        "p2g_hybrid": (0.0, 0.0, 5.9e-09),
        "fgc": (0.0, 3.2e-09),
        "g2p_target": (4.1e-05, 1.7e-07, 1.7e-10),
        "g2p_base": (0.0, 0.0, 3.6e-10),
        "g2p_tile": (0.0, 0.0, 2.8e-10, 1.9e-09),
    },
    "float32": {
        "p2p_tile": (0.0, 1.4e-07, 6.5e-09, 2.9e-10),
        "p2p_staged": (0.0, 3.5e-07, 1.9e-09, 5.2e-11),
        "p2p_gm1d": (0.0, 5.6e-08, 5.6e-10, 2.8e-11),
        "p2p_gm2d": (0.0, 5.1e-08, 5.1e-10, 2.6e-11),
        "p2p_sm1d": (0.0, 4.8e-08, 4.8e-10, 2.4e-11),
        "p2p_sm2d": (0.0, 5e-08, 5e-10, 2.5e-11),
        "p2g_owner": (0.0015, 5.3e-08, 3.2e-10),
        "p2g_tile": (0.0, 0.0, 1.5e-09, 6e-09),
        "p2g_base": (0.0, 0.0, 6.4e-09),
        "p2g_source": (0.0, 0.0, 5.7e-09),
        "p2g_grid": (0.0, 0.0, 9e-09),
        "p2g_hybrid": (0.0, 0.0, 4.4e-09),
        "fgc": (0.0, 2.8e-09),
        "g2p_target": (2.7e-06, 1.7e-08, 1.8e-10),
        "g2p_base": (0.0, 0.0, 3.6e-10),
        "g2p_tile": (0.0, 0.0, 2.8e-10, 1.9e-09),
    },
}
H200: dict[str, dict[str, tuple[float, ...]]] = {
    "float64": {
        "p2p_tile": (0.00054, 8.2e-10, 1.1e-11, 8.6e-14),
        "p2p_staged": (0.0, 4.8e-09, 1.3e-11, 1.3e-13),
        "p2p_gm1d": (0.0, 3e-09, 3.3e-12, 2.5e-14),
        "p2p_gm2d": (0.0, 2.6e-09, 2.8e-12, 2.1e-14),
        "p2p_sm1d": (0.0, 2.5e-09, 2.4e-12, 2.1e-14),
        "p2p_sm2d": (0.0, 2.6e-09, 2.9e-12, 2.2e-14),
        "p2g_owner": (0.0, 0.0, 1.7e-09),
        "p2g_tile": (7e-05, 3.4e-10, 1.3e-12, 5.7e-13),
        "p2g_base": (0.0, 0.0, 2.3e-11),
        "p2g_source": (0.0, 0.0, 1e-11),
        "p2g_grid": (0.0, 0.0, 8.5e-12),
        "p2g_hybrid": (0.0, 0.0, 2.6e-12),
        "fgc": (0.00013, 8.5e-12),
        "g2p_target": (0.0, 0.0, 2e-12),
        "g2p_base": (0.0, 0.0, 3.1e-12),
        "g2p_tile": (8.3e-05, 5.1e-10, 2.9e-13, 1.6e-12),
    },
    "float32": {
        "p2p_tile": (0.00047, 2e-09, 3.9e-12, 5.4e-14),
        "p2p_staged": (0.0, 2.4e-09, 6.7e-12, 6.7e-14),
        "p2p_gm1d": (0.0, 1.5e-09, 1.6e-12, 1.2e-14),
        "p2p_gm2d": (0.0, 1.3e-09, 1.4e-12, 1.1e-14),
        "p2p_sm1d": (0.0, 1.2e-09, 1.2e-12, 1e-14),
        "p2p_sm2d": (0.0, 1.3e-09, 1.5e-12, 1.1e-14),
        "p2g_owner": (0.0, 0.0, 1.1e-09),
        "p2g_tile": (0.00014, 2.7e-10, 8.2e-13, 4.2e-12),
        "p2g_base": (0.0, 0.0, 1.5e-11),
        "p2g_source": (0.0, 0.0, 6.6e-12),
        "p2g_grid": (0.0, 0.0, 5.5e-12),
        "p2g_hybrid": (0.0, 0.0, 1.7e-12),
        "fgc": (6.2e-05, 7.4e-12),
        "g2p_target": (0.0, 0.0, 2e-12),
        "g2p_base": (0.0, 0.0, 3.1e-12),
        "g2p_tile": (2.9e-05, 1.1e-10, 4.1e-13, 1.5e-12),
    },
}

# Lengths of planes of complex modes on an H200, and their costs per value over the median one's.
H200_LENGTHS: dict[str, dict[int, float]] = {
    "float64": {
        300: 1.05,
        320: 0.77,
        336: 0.89,
        350: 1.03,
        360: 0.78,
        378: 0.79,
        384: 0.79,
        392: 0.8,
        400: 0.83,
        420: 1.04,
        432: 0.94,
        448: 0.89,
        450: 0.88,
        480: 1,
        500: 0.94,
        504: 0.75,
        512: 0.68,
        560: 0.95,
        576: 0.97,
        600: 1.27,
        640: 1.02,
        672: 1.27,
        700: 1.2,
        720: 1.33,
        750: 0.86,
        756: 1.3,
        768: 1.06,
        784: 1.03,
        800: 0.95,
        810: 1.27,
        840: 1.54,
        864: 1.08,
        896: 1,
        900: 0.69,
        960: 1.3,
        972: 1,
        980: 1.21,
        1000: 0.95,
        1008: 1.01,
        1024: 0.78,
        1050: 1.52,
        1080: 1.24,
        1120: 1.21,
        1152: 0.94,
        1200: 1.27,
        1250: 1.09,
        1280: 0.96,
    },
    "float32": {
        300: 0.98,
        320: 0.92,
        336: 0.99,
        350: 1.03,
        360: 0.88,
        378: 0.88,
        384: 0.91,
        392: 0.94,
        400: 1.2,
        420: 0.98,
        432: 0.9,
        448: 1.04,
        450: 1.02,
        480: 0.97,
        500: 0.86,
        504: 0.87,
        512: 0.78,
        560: 0.9,
        576: 0.99,
        600: 1.16,
        640: 0.9,
        672: 1.06,
        700: 0.9,
        720: 0.95,
        750: 1.04,
        756: 1.18,
        768: 1.1,
        784: 1.19,
        800: 1.25,
        810: 1,
        840: 1.2,
        864: 1.2,
        896: 1.11,
        900: 0.84,
        960: 1.22,
        972: 1.16,
        980: 0.96,
        1000: 0.84,
        1008: 1.36,
        1024: 0.8,
        1050: 1.01,
        1080: 1.38,
        1120: 0.88,
        1152: 1.02,
        1200: 1.02,
        1250: 1.03,
        1280: 1,
    },
}


def machine(space: ExecutionSpace, dtype: Any) -> Machine:
    """Return the numbers for a space and precision.

    Measured ones serve the same device, or the same processor and number of threads; others scale
    with the number of threads.
    """
    precision = np.dtype(dtype).name
    threads = thread_count() if space.name == "OpenMP" else 1
    tuned = read(space)
    if tuned:
        name, seconds = f"measured on {tuned['machine']}", tuned["seconds"][precision]
        return Machine(name, seconds, lengths=tuned["lengths"][precision])
    if space.on_device:
        lengths = _built_in_lengths(precision)
        return Machine("those of an H200", H200[precision], lengths=lengths)
    return Machine("those of an AVX-512 server", CORE[precision], float(threads))


def built_in(space: ExecutionSpace) -> dict[str, dict[str, tuple[float, ...]]]:
    """Return the built-in numbers, by precision and variant."""
    return H200 if space.on_device else CORE


@lru_cache(maxsize=2)
def _built_in_lengths(precision: str) -> Lengths:
    return Lengths(H200_LENGTHS[precision].items())


def read(space: ExecutionSpace) -> dict[str, Any] | None:
    """Return what `parki tune` wrote for a space, or None."""
    return _USED.get(space.name) or _tuned(str(path(space)))


def use(space: ExecutionSpace, lengths: dict[str, Lengths]) -> None:
    """Let plans take these lengths and the built-in numbers, until `forget`: to measure others."""
    _USED[space.name] = {
        "machine": "built-in",
        "seconds": built_in(space),
        "lengths": lengths,
        "samples": {},
    }


def forget() -> None:
    """Read measured numbers anew."""
    _USED.clear()
    _tuned.cache_clear()


_USED: dict[str, dict[str, Any]] = {}


def path(space: ExecutionSpace) -> Path:
    """Return the file of the measured numbers, which may not exist."""
    words = "".join(c if c.isalnum() else "-" for c in identity(space))
    return cache_directory() / f"tuned-{words}.json"


def identity(space: ExecutionSpace) -> str:
    """Return what numbers depend on: the device, or the processor and the threads."""
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
        return platform.processor() or platform.machine()


@lru_cache(maxsize=8)
def _tuned(file: str) -> dict[str, Any] | None:
    """Read measured numbers; what cannot be used is reported, and not used."""
    try:
        tuned = json.loads(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("parki: %s cannot be read (%s); run 'parki tune' again", file, error)
        return None
    expected = {variant: len(counts) + 1 for variant, counts in COUNTS.items()}
    try:
        for numbers in tuned["seconds"].values():
            for variant, each in numbers.items():
                if len(each) != expected[variant] or not all(x >= 0 for x in each):
                    raise ValueError(variant)
        if set(tuned["seconds"]) != {"float32", "float64"}:
            raise ValueError("precisions")
        tables = tuned.get("lengths") or dict.fromkeys(tuned["seconds"], ())
        tuned["lengths"] = {name: _lengths(tables[name]) for name in tuned["seconds"]}
    except (KeyError, TypeError, ValueError) as error:
        log.warning("parki: %s is of another version (%s); run 'parki tune' again", file, error)
        return None
    return dict(tuned)


def _lengths(table: Any) -> Lengths:
    """Return lengths from a file; a file may have none."""
    if not all(isinstance(n, int) and n > 0 and n % 2 == 0 and cost > 0 for n, cost in table):
        raise ValueError("lengths")
    return Lengths(table)
