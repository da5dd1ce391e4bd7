"""Infinities and NaN among changes, which derivatives pass on, and changes that are very large.

A loss that is scaled overflows now and then, and its derivatives with it. Whoever scales it finds
NaN in these, and takes another scale, as `torch.amp.GradScaler` does. Derivatives are linear in
changes, so that large changes are scaled down first, and their derivatives up again. Nearly always
all is finite without, which results say: to look at changes first would leave a device idle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import add, or_
from types import MappingProxyType
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.ewald.points import extremes
from parki.typing import AnyArray

Arrays = Mapping[str, AnyArray]
SINGLE = 1e4  # in mixed precision, whose sums take a product of two


def passed_on(
    options: EwaldOptions,
    lists: Sequence[Arrays],
    axes: Mapping[str, int],
    run: Callable[[list[Arrays], Arrays], dict[str, AnyArray]],
    in_rows: Collection[str],
    fixed: Arrays = MappingProxyType({}),
    apart: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, AnyArray]:
    """Return the results of ``run``, which are NaN where they depend on NaN or infinity.

    Parameters
    ----------
    options : EwaldOptions
    lists : sequence of dict
        Arrays by name, which ``run`` takes, of moderate size and with zeros in the place of rows
        that are not finite. Results are linear in each list. Some arrays may have several rows,
        along a first axis.
    axes : dict of str to int
        The number of axes of one row, by name; arrays of other names are one row.
    run : callable
        ``run(lists, fixed)`` returns results by name.
    in_rows : collection of str
        Results with a row for each of several; others are sums of all.
    fixed : dict
        A last list, in which results need not be linear, and which keeps its size.
    apart : dict of str to int
        For results that do not depend on one of the lists, which one that is.
    """
    if options.precision != "mixed":  # whose sums take no other sizes
        with np.errstate(over="ignore", invalid="ignore"), suppress(ParkiValueError):
            results = run([*lists], fixed)
            if math.isfinite(float(reduce(add, [part.sum() for part in results.values()]))):
                return results  # a device was waited for once
    shift, taken = 0, list[Arrays]()
    bad, powers = [np.zeros((), dtype=bool) for _ in (fixed, *lists)], list[int]()
    sizes = _sizes((fixed, *lists), axes)
    for place, (by_name, rows_of) in enumerate(zip((fixed, *lists), sizes, strict=True)):
        largest, finite = 0.0, {**by_name}
        least, most = 0.0, math.inf
        for name, array in by_name.items():
            top = float(np.finfo(array.dtype).max)
            if array.size:
                rows = rows_of[name]
                lost = ~(rows <= top)
                finite[name] = _filled(array, lost, 0)
                bad[place] = bad[place] | lost
                largest = max(largest, float(np.where(lost, 0, rows).max()))
            least, most = _limits(options, top)
        # Products with what keeps its size are of moderate size as well.
        shift = (max(0, shift) if len(taken) == 1 else 0) + _shift(largest, least, most)
        powers.append(shift if taken else 0)
        if powers[-1]:
            finite = {name: np.ldexp(array, -shift) for name, array in finite.items()}
        taken.append(finite)
    with np.errstate(over="ignore", invalid="ignore"):  # results may overflow
        results = run(taken[1:], taken[0])
        for name, part in results.items():
            on = [n for n in range(len(taken)) if n != apart.get(name, -1) + 1]
            if power := sum(powers[n] for n in on):
                part = np.ldexp(part, power)
            lost = reduce(or_, [bad[n] for n in on])
            results[name] = _filled(part, lost if name in in_rows else lost.any(), np.nan)
    return results


def _sizes(lists: Sequence[Arrays], axes: Mapping[str, int]) -> list[dict[str, AnyArray]]:
    """Return the largest size in each row of arrays that are not empty; a device waits once.

    Rows that are not finite have a size that is not.
    """
    sizes: list[dict[str, AnyArray]] = [{} for _ in lists]
    alike: dict[Any, list[tuple[int, str, AnyArray]]] = {}
    for place, by_name in enumerate(lists):
        for name, array in by_name.items():
            if array.size:
                alike.setdefault((type(array), array.dtype), []).append((place, name, array))
    for group in alike.values():
        ends = extremes([array.reshape(-1, array.shape[-1]) for _, _, array in group])
        for (place, name, array), both in zip(group, ends, strict=True):
            several = array.shape[: array.ndim - axes.get(name, array.ndim)]
            sizes[place][name] = abs(both).max(axis=0).reshape((*several, -1)).max(axis=-1)
    return sizes


def _limits(options: EwaldOptions, top: float) -> tuple[float, float]:
    """Return the smallest and largest sizes of arrays of which products of four are finite."""
    return (1 / SINGLE, SINGLE) if options.precision == "mixed" else (0.0, top**0.25)


def _shift(largest: float, least: float, most: float) -> int:
    """Return the power of two over which a size is within limits."""
    if largest > most:
        return math.frexp(largest / most)[1]
    return math.frexp(largest / least)[1] - 1 if 0 < largest < least else 0


def _filled(array: AnyArray, rows: AnyArray, value: float) -> AnyArray:
    """Return an array with a value in all of some rows, or in all of it; itself if in none."""
    if not rows.any():
        return array
    array = array.copy()
    array[np.flatnonzero(rows).tolist() if rows.ndim else ...] = value
    return array
