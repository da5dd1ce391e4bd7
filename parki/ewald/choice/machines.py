"""The seconds of the cost model: those that `parki tune` measured here, or built-in ones."""

from __future__ import annotations

import json
import logging
import math
import platform
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from parki.arrays import vector_row
from parki.ewald.choice.cost import COUNTS, Machine
from parki.ewald.far.lengths import Lengths, Tables
from parki.runtime import ExecutionSpace, host
from parki.settings import cache_directory, thread_count

log = logging.getLogger("parki")

# Of what the seconds of a file are of: changes with the counts of `parki.ewald.choice.cost`.
VERSION = 13
# Fewest points that the built-in numbers of other variants than the usual ones were measured for.
BUILT_IN_FROM = {False: 5000, True: 10_000}

# By precision: one core of an AMD EPYC with AVX-512, and one H200.
# The core's usual variants in double precision have the ratios among their numbers that fit 77 sums
# of 1000 to a million points best, which `parki tune` starts from.
CORE: dict[str, dict[str, tuple[float, ...]]] = {
    "float64": {
        "p2p_tile": (0.0, 0.0, 0.0, 3.3e-10, 0.0),
        "kept_tile": (0.0, 0.0, 0.0, 2e-10, 0.0),
        "p2p_staged": (0.00024, 5.5e-07, 1.1e-09, 2.1e-11),
        "p2p_gm1d": (0.0, 0.0, 0.0, 1.9e-11),
        "p2p_gm2d": (0.0, 0.0, 0.0, 2e-11),
        "p2p_sm1d": (0.0, 0.0, 0.0, 1.9e-11, 0.0),
        "p2p_sm2d": (0.0, 0.0, 0.0, 2.2e-11),
        "p2g_owner": (0.0, 7.5e-05, 4.5e-08, 1.5e-10, 8.8e-11, 7e-09),
        "p2g_tile": (5.8e-05, 8.3e-08, 1.9e-10, 7.9e-10, 2.6e-09, 4.6e-08),
        "p2g_base": (0.0, 0.0, 6.1e-09),
        "p2g_source": (3.4e-05, 1.2e-06, 5.2e-09),
        "p2g_grid": (0.0, 0.0, 1e-08),
        "p2g_hybrid": (0.0, 0.0, 4e-09),
        "fgc": (0.0002, 1.6e-09, 3.9e-09, 7.3e-10, 0.00015),
        "g2p_target": (2e-05, 1.9e-08, 1.1e-10, 2.3e-09, 2.4e-05),
        "g2p_base": (3.8e-05, 0.0, 2.2e-10, 1.4e-08, 0.0),
        "g2p_tile": (0.0, 0.0, 8.8e-11, 4.7e-09, 0.0, 0.0),
    },
    "float32": {
        "p2p_tile": (0.0, 1e-06, 0.0, 2e-10, 0.0),
        "kept_tile": (0.0, 1e-06, 0.0, 2e-10, 0.0),
        "p2p_staged": (0.00024, 2.3e-07, 5.5e-10, 1.05e-11),
        "p2p_gm1d": (0.0, 0.0, 0.0, 1e-11),
        "p2p_gm2d": (0.0, 0.0, 0.0, 1.1e-11),
        "p2p_sm1d": (0.0, 0.0, 0.0, 9.9e-12, 0.0),
        "p2p_sm2d": (0.0, 0.0, 0.0, 1.1e-11),
        "p2g_owner": (0.0, 7.5e-05, 4.4e-08, 7e-11, 4e-11, 3e-09),
        "p2g_tile": (2.9e-05, 4.2e-08, 9.5e-11, 3.9e-10, 1.3e-09, 2.3e-08),
        "p2g_base": (0.0, 0.0, 2.9e-09),
        "p2g_source": (0.0, 0.0, 2.3e-09),
        "p2g_grid": (0.0, 0.0, 5.2e-09),
        "p2g_hybrid": (0.0, 0.0, 1.9e-09),
        "fgc": (0.0002, 9.5e-10, 2.5e-09, 4.8e-10, 0.00015),
        "g2p_target": (2e-05, 1.9e-08, 6.2e-11, 1.2e-09, 2.4e-05),
        "g2p_base": (0.0, 0.0, 1.4e-10, 7e-09, 0.0),
        "g2p_tile": (0.0, 0.0, 5.8e-11, 3e-09, 0.0, 0.0),
    },
}
H200: dict[str, dict[str, tuple[float, ...]]] = {
    "float64": {
        "p2p_tile": (2.8e-05, 1.2e-09, 9.6e-12, 3.1e-14, 6.1e-10),
        "kept_tile": (2.4e-05, 3.2e-11, 1e-11, 2.3e-14, 3.4e-10),
        "p2p_staged": (0.00024, 2.4e-09, 3e-12, 7e-14),
        "p2p_gm1d": (0.00052, 6e-10, 7e-13, 4.5e-14),
        "p2p_gm2d": (3.4e-05, 3.9e-09, 1.1e-12, 2.6e-14),
        "p2p_sm1d": (8e-05, 3.7e-11, 5e-12, 4.4e-15, 3.6e-08),
        "p2p_sm2d": (0.00013, 6.4e-10, 1.5e-12, 4e-14),
        "p2g_owner": (0.0, 0.0, 0.0, 1.8e-09, 0.0, 0.0),
        "p2g_tile": (5.3e-06, 6.3e-11, 1.1e-12, 2.1e-13, 8.1e-12, 1e-08),
        "p2g_base": (0.0, 0.0, 1.9e-11),
        "p2g_source": (8.8e-05, 4.4e-12, 1e-11),
        "p2g_grid": (6.5e-05, 0.0, 9.3e-12),
        "p2g_hybrid": (2.7e-05, 0.0, 2.4e-12),
        "fgc": (6.5e-05, 7e-12, 7e-12, 9.3e-12, 0.0),
        "g2p_target": (9.7e-05, 0.0, 2.6e-12, 0.0, 0.0),
        "g2p_base": (1.7e-05, 0.0, 4.5e-12, 0.0, 0.0),
        "g2p_tile": (1.3e-05, 3.7e-10, 3.3e-13, 3.5e-12, 5.8e-11, 0.0),
    },
    "float32": {
        "p2p_tile": (3.8e-05, 6.3e-10, 1.1e-11, 9.4e-15, 1e-10),
        "kept_tile": (2.3e-05, 8e-11, 7.8e-12, 6.1e-15, 1.1e-10),
        "p2p_staged": (0.00024, 8.4e-10, 1.1e-12, 2.5e-14),
        "p2p_gm1d": (0.00052, 2.1e-10, 2.1e-13, 1.5e-14),
        "p2p_gm2d": (2.4e-05, 2.5e-09, 3.3e-12, 0.0),
        "p2p_sm1d": (9.5e-05, 0.0, 8e-13, 2.4e-14, 1.2e-08),
        "p2p_sm2d": (0.00014, 0.0, 0.0, 2e-14),
        "p2g_owner": (0.0, 0.0, 0.0, 8.3e-10, 0.0, 0.0),
        "p2g_tile": (1.2e-05, 8.9e-11, 4.7e-13, 1.3e-13, 2e-12, 7e-09),
        "p2g_base": (0.0, 0.0, 8.7e-12),
        "p2g_source": (8.8e-05, 2.2e-12, 4.8e-12),
        "p2g_grid": (6.5e-05, 0.0, 4.2e-12),
        "p2g_hybrid": (2.7e-05, 0.0, 1.1e-12),
        "fgc": (6.7e-05, 3.8e-12, 3.8e-12, 4.2e-12, 0.0),
        "g2p_target": (1.7e-05, 0.0, 1.6e-12, 0.0, 0.0),
        "g2p_base": (1.1e-05, 0.0, 2.4e-12, 0.0, 0.0),
        "g2p_tile": (1.8e-05, 3.2e-10, 2.1e-13, 8.4e-13, 1e-10, 0.0),
    },
}
# Lengths of transforms on an H200, and their costs per value over that of the median one of planes.
# fmt: off
H200_PLANES: dict[str, dict[int, float]] = {
    "float64": {
        128: 0.64, 140: 0.83, 144: 0.63, 150: 0.71, 160: 0.63, 162: 0.93, 168: 0.79, 180: 0.81,
        192: 0.63, 196: 0.63, 200: 0.81, 210: 0.77, 216: 0.64, 224: 0.85, 240: 0.81, 250: 0.77,
        252: 0.72, 256: 0.63, 270: 0.68, 280: 0.89, 288: 0.69, 294: 1.3, 300: 1.1, 320: 0.75,
        324: 0.75, 336: 0.88, 350: 1, 360: 0.75, 378: 0.78, 384: 0.78, 392: 0.8, 400: 0.81, 420: 1,
        432: 0.93, 448: 0.87, 450: 0.87, 480: 1, 486: 1.3, 490: 0.96, 500: 0.94, 504: 0.72,
        512: 0.65, 540: 1.3, 560: 0.94, 576: 0.98, 588: 1.3, 600: 1.3, 630: 1.6, 640: 1, 648: 1,
        672: 1.3, 700: 1.2, 720: 1.4, 750: 0.85, 756: 1.3, 768: 1.1, 784: 1, 800: 0.94, 810: 1.3,
        840: 1.6, 864: 1.1, 882: 1.3, 896: 1, 900: 0.65, 960: 1.3, 972: 1, 980: 1.3, 1000: 0.95,
        1008: 1, 1024: 0.76, 1050: 1.6, 1080: 1.3, 1120: 1.2, 1134: 1.3, 1152: 0.94, 1176: 1.3,
        1200: 1.3, 1260: 1.5, 1280: 0.97, 1296: 0.95, 1344: 1.9, 1350: 1.3, 1400: 1.3, 1440: 1.3,
        1470: 1.7, 1500: 1.3, 1512: 1.3, 1536: 1, 1568: 0.97, 1600: 0.97, 1620: 1.4, 1680: 1.6,
        1728: 0.95, 1750: 1.4, 1764: 1.3, 1792: 1.1, 1800: 1.3, 1890: 1.7, 1920: 1.3, 1944: 0.99,
        1960: 1.3, 2000: 0.99, 2016: 1.3, 2048: 0.86,
    },
    "float32": {
        128: 0.97, 140: 0.92, 144: 0.72, 150: 0.9, 160: 0.77, 162: 1.1, 168: 0.97, 180: 0.93,
        192: 0.73, 196: 0.74, 200: 0.87, 210: 0.94, 216: 0.74, 224: 1, 240: 0.89, 250: 1,
        252: 0.91, 256: 0.74, 270: 0.87, 280: 0.96, 288: 0.87, 294: 1.8, 300: 0.95, 320: 0.93,
        324: 0.88, 336: 0.99, 350: 1.1, 360: 0.87, 378: 0.89, 384: 0.91, 392: 0.93, 400: 1.2,
        420: 1, 432: 0.9, 448: 1.1, 450: 1, 480: 0.98, 486: 1.2, 490: 0.97, 500: 0.88, 504: 0.88,
        512: 0.76, 540: 0.93, 560: 0.89, 576: 0.98, 588: 0.94, 600: 1.2, 630: 0.96, 640: 0.88,
        648: 1.2, 672: 1.1, 700: 0.91, 720: 0.94, 750: 1, 756: 1.2, 768: 1.1, 784: 1.2, 800: 1.3,
        810: 1, 840: 1.2, 864: 1.2, 882: 1.6, 896: 1.1, 900: 0.81, 960: 1.2, 972: 1.2, 980: 0.95,
        1000: 0.81, 1008: 1.4, 1024: 0.76, 1050: 1, 1080: 1.4, 1120: 0.89, 1134: 1.4, 1152: 1,
        1176: 1.2, 1200: 1, 1260: 1.2, 1280: 1, 1296: 1.1, 1344: 1.4, 1350: 1, 1400: 0.93,
        1440: 0.97, 1470: 1.3, 1500: 1.8, 1512: 1.2, 1536: 1.2, 1568: 1.1, 1600: 1.3, 1620: 1.3,
        1680: 1.3, 1728: 1.1, 1750: 1.5, 1764: 1.2, 1792: 1.1, 1800: 1.1, 1890: 1.3, 1920: 1.6,
        1944: 1.2, 1960: 1.3, 2000: 1.1, 2016: 1.5, 2048: 0.93,
    },
}
H200_LINES: dict[str, dict[int, float]] = {
    "float64": {
        128: 0.71, 140: 1.1, 144: 0.73, 150: 1, 160: 1, 162: 1.6, 168: 1.2, 180: 1.4, 192: 0.83,
        196: 4.6, 200: 1.2, 210: 1.2, 216: 0.85, 224: 1.5, 240: 1.2, 250: 1.3, 252: 1.1, 256: 0.77,
        270: 4.9, 280: 1.3, 288: 1.2, 294: 4.5, 300: 2, 320: 1.2, 324: 1.2, 336: 1.2, 350: 2.1,
        360: 1.6, 378: 1.3, 384: 1.2, 392: 1.2, 400: 1.9, 420: 1.6, 432: 1.5, 448: 1.7, 450: 1.7,
        480: 1.8, 486: 2.7, 490: 1.6, 500: 4.9, 504: 1.2, 512: 0.89, 540: 4.8, 560: 1.8, 576: 1.3,
        588: 4.8, 600: 5.1, 630: 4.9, 640: 5, 648: 5, 672: 5.1, 700: 5, 720: 4.9, 750: 2.5,
        756: 4.9, 768: 5, 784: 5, 800: 2.4, 810: 5.2, 840: 5.1, 864: 5.1, 882: 5, 896: 5, 900: 5,
        960: 5.2, 972: 5.2, 980: 5, 1000: 4.9, 1008: 2.6, 1024: 5,
    },
    "float32": {
        128: 0.77, 140: 1.5, 144: 1, 150: 1.4, 160: 1.6, 162: 2.2, 168: 1.7, 180: 1.5, 192: 0.98,
        196: 6.4, 200: 1.6, 210: 1.6, 216: 1.1, 224: 1.7, 240: 1.5, 250: 2.1, 252: 1.4, 256: 1,
        270: 1.4, 280: 1.5, 288: 1.7, 294: 6.5, 300: 1.6, 320: 1.6, 324: 1.6, 336: 1.4, 350: 2,
        360: 1.7, 378: 1.5, 384: 1.6, 392: 1.6, 400: 2.7, 420: 1.8, 432: 1.6, 448: 2.2, 450: 2.1,
        480: 1.7, 486: 2.3, 490: 1.7, 500: 7.2, 504: 1.5, 512: 1.2, 540: 1.9, 560: 1.6, 576: 1.8,
        588: 1.7, 600: 2.5, 630: 1.7, 640: 1.4, 648: 2.6, 672: 2.6, 700: 7.2, 720: 1.8, 750: 2.2,
        756: 2.3, 768: 2.5, 784: 2.5, 800: 3.4, 810: 2.2, 840: 2.8, 864: 2.8, 882: 7.3, 896: 2.8,
        900: 7.3, 960: 2.5, 972: 2.5, 980: 7.3, 1000: 1.8, 1008: 3.6, 1024: 1.7,
    },
}
H200_BOXES: dict[str, dict[int, float]] = {
    "float64": {
        128: 0.9, 140: 1.2, 144: 0.75, 150: 1, 160: 0.78, 162: 1.3, 168: 1.2, 180: 1.1, 192: 0.82,
        196: 0.99, 200: 1.1, 210: 1, 216: 0.79, 224: 1.2, 240: 1.1, 250: 1, 252: 0.96, 256: 0.73,
        270: 0.9, 280: 1.2, 288: 0.91, 294: 1.7, 300: 1.3, 320: 0.98, 324: 0.9, 336: 1.1, 350: 1.2,
        360: 0.93, 378: 0.89, 384: 0.96, 392: 1, 400: 1.3, 420: 1.3, 432: 1.1, 448: 1.1, 450: 0.98,
        480: 1.3, 486: 1.6, 490: 1.1, 500: 1.3, 504: 0.82, 512: 0.69, 540: 1.6, 560: 1.2, 576: 1.2,
        588: 1.6, 600: 1.7, 630: 2, 640: 1.3, 648: 1.3, 672: 1.6, 700: 1.7, 720: 1.7, 750: 1,
        756: 1.6, 768: 1.4, 784: 1.4, 800: 1.6, 810: 1.6, 840: 2, 864: 1.3, 882: 1.7, 896: 1.5,
        900: 0.96, 960: 1.7, 972: 1.2, 980: 1.6, 1000: 1.1, 1008: 1.7, 1024: 0.8, 1050: 2.1,
        1080: 1.6, 1120: 1.6, 1134: 1.7, 1152: 1.3, 1200: 1.6, 1260: 2, 1280: 1.4,
    },
    "float32": {
        128: 1.3, 140: 1.6, 144: 1.1, 150: 1.4, 160: 1.2, 162: 1.7, 168: 1.5, 180: 1.3, 192: 0.95,
        196: 1.2, 200: 1.3, 210: 1.2, 216: 0.92, 224: 1.4, 240: 1.2, 250: 1.3, 252: 1.2, 256: 0.87,
        270: 1.1, 280: 1.3, 288: 1.1, 294: 2.3, 300: 1.2, 320: 1.2, 324: 1.1, 336: 1.3, 350: 1.3,
        360: 1.1, 378: 1, 384: 1.1, 392: 1.2, 400: 1.6, 420: 1.2, 432: 1.1, 448: 1.4, 450: 1.2,
        480: 1.2, 486: 1.5, 490: 1.1, 500: 1.1, 504: 1, 512: 0.86, 540: 1.1, 560: 1, 576: 1.2,
        588: 1.1, 600: 1.5, 630: 1, 640: 1.1, 648: 1.5, 672: 1.4, 700: 1.1, 720: 1.1, 750: 1.3,
        756: 1.4, 768: 1.4, 784: 1.6, 800: 2.3, 810: 1.1, 840: 1.5, 864: 1.5, 882: 2.1, 896: 1.7,
        900: 1.1, 960: 1.5, 972: 1.4, 980: 1.4, 1000: 0.91, 1008: 2.4, 1024: 0.79, 1050: 1.4,
        1080: 1.7, 1120: 1.1, 1134: 1.6, 1152: 1.5, 1200: 1.4, 1260: 1.6, 1280: 1.4,
    },
}
# fmt: on


def machine(space: ExecutionSpace, dtype: Any, fixed: bool = False) -> Machine:
    """Return the numbers for a space and precision.

    Measured ones serve the same device, or the same processor and number of threads; others scale
    with the number of threads. With ``fixed``, built-in ones for one thread, whatever there is.
    """
    found = _numbers(space, dtype, fixed)
    if space.on_device or host.can_compile():
        return found
    return replace(found, others_from=math.inf)  # the usual variants alone came compiled


def _numbers(space: ExecutionSpace, dtype: Any, fixed: bool) -> Machine:
    precision = np.dtype(dtype).name
    threads = thread_count() if space.name == "OpenMP" and not fixed else 1
    lanes = 1 if space.on_device else vector_row(1, dtype)
    tuned = None if fixed else read(space)
    if tuned:
        return Machine(
            f"measured on {tuned['machine']}",
            tuned["seconds"][precision],
            lengths=tuned["lengths"][precision],
            on_device=space.on_device,
            others_from=tuned["others_from"][precision] or math.inf,
            lanes=lanes,
            threads=threads,
        )
    others_from = BUILT_IN_FROM[space.on_device] if precision == "float64" else math.inf
    if space.on_device:
        lengths = _built_in_lengths(precision)
        return Machine("those of an H200", H200[precision], 1, lengths, True, others_from)
    return Machine(
        "those of an AVX-512 server",
        CORE[precision],
        threads,
        others_from=others_from,
        lanes=lanes,
        threads=threads,
    )


def built_in(space: ExecutionSpace) -> dict[str, dict[str, tuple[float, ...]]]:
    """Return the built-in numbers, by precision and variant."""
    return H200 if space.on_device else CORE


@lru_cache(maxsize=2)
def _built_in_lengths(precision: str) -> Tables:
    tables = (H200_PLANES, H200_LINES, H200_BOXES)
    return Tables(*(Lengths(table.get(precision, {}).items()) for table in tables))


def read(space: ExecutionSpace) -> dict[str, Any] | None:
    """Return what `parki tune` wrote for a space, or None."""
    return _USED.get(space.name) or _tuned(str(path(space)))


def use(space: ExecutionSpace, lengths: dict[str, Tables]) -> None:
    """Let plans take these lengths and the built-in numbers, until `forget`: to measure others."""
    _USED[space.name] = {
        "machine": "built-in",
        "seconds": built_in(space),
        "lengths": lengths,
        "others_from": dict.fromkeys(lengths),
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
        if tuned["counts"] != VERSION:
            raise ValueError("counts")
        for numbers in tuned["seconds"].values():
            for variant, each in numbers.items():
                if len(each) != expected[variant] or not all(x >= 0 for x in each):
                    raise ValueError(variant)
        if set(tuned["seconds"]) != {"float32", "float64"}:
            raise ValueError("precisions")
        tables = tuned.get("lengths") or {name: {} for name in tuned["seconds"]}
        tuned.setdefault("others_from", dict.fromkeys(tuned["seconds"]))
        tuned["lengths"] = {name: _lengths(tables[name]) for name in tuned["seconds"]}
    except (KeyError, TypeError, ValueError) as error:
        log.warning("parki: %s is of another version (%s); run 'parki tune' again", file, error)
        return None
    return dict(tuned)


def _lengths(tables: Any) -> Tables:
    """Return lengths from a file; a file may have none."""
    if not isinstance(tables, dict) or not set(tables) <= set(Tables._fields):
        raise ValueError("lengths")
    for table in tables.values():
        if not all(isinstance(n, int) and n > 0 and n % 2 == 0 and cost > 0 for n, cost in table):
            raise ValueError("lengths")
    return Tables(**{name: Lengths(table) for name, table in tables.items()})
