"""What users write for the box and its periodicity, checked and as numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.lattice import check_length, rows_of, straight
from parki.interchange import as_number
from parki.meaning import Varied, given_box, is_tensor, refuse_variable, values_of, varied

PERIODICITIES = (0, 1, 2, 3)
MOST_SLENDER = 1e4  # ratio of the longest to the shortest edge


def checked_box(box: Any, periodicity: Any, periodic: tuple[bool, bool, bool]) -> tuple[Any, ...]:
    """Return the box as numbers, with the tensor that it was, if it was one.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If it is no box, or lacks the length of a periodic axis.
    """
    box = given_box(box)
    if varied(box) is None:
        refuse_variable("box", box)
    if not is_tensor(box):
        return lengths_of(box, periodicity, periodic)
    # Within transformations of PyTorch the numbers of a constant tensor have to be taken.
    return Varied.of(lengths_of(values_of("box", box), periodicity, periodic), box)


def lengths_of(box: Any, periodicity: Any, periodic: tuple[bool, bool, bool]) -> tuple[Any, ...]:
    """Return the edge lengths of a box along the axes, or its lattice vectors."""
    if box is None and not any(periodic):
        return (None, None, None)
    if box is None:
        example = [1 if repeats else None for repeats in periodic]
        free = " (None for a free axis: the extent of the points)" * (not all(periodic))
        raise ParkiValueError(
            f"box is missing, but periodicity is {periodicity} and periodic axes need "
            f"their lengths; write box=[...], such as {example}{free}, or periodicity=0"
        )
    box = _without_zeros(box, periodic)
    rows = rows_of(box)
    if rows is not None:
        box = straight(rows)
        if box is None:
            return rows
    try:
        lengths = [None if length is None else as_number(length) for length in box]
    except (RuntimeError, TypeError, ValueError):
        raise ParkiTypeError(
            f"box is {box!r}; expected 3 edge lengths, such as [1, 1, 1], or 3 lattice vectors"
        ) from None
    known = [length for length in lengths if length is not None]
    if len(lengths) != 3 or not all(math.isfinite(length) and length > 0 for length in known):
        raise ParkiValueError(f"box is {box!r}; expected 3 positive, finite edge lengths")
    lacking = [n for n, length in enumerate(lengths) if length is None and periodic[n]]
    if lacking:
        raise ParkiValueError(
            f"box is {box!r}, but axis {lacking[0]} is periodic and needs its length; "
            "only free axes can take None, for the extent of the points"
        )
    if known and max(known) > MOST_SLENDER * min(known):
        raise ParkiValueError(
            f"box is {box!r}; its edges differ by more than a factor of {MOST_SLENDER:g}"
        )
    if known:
        check_length(max(known))
    return tuple(lengths)


def _without_zeros(box: Any, periodic: tuple[bool, bool, bool]) -> Any:
    """Return a box with None for a free axis of length 0, as arrays have it that have no None."""
    known = hasattr(box, "__len__") and not isinstance(box, type)  # whose length is none
    known = known and getattr(box, "ndim", 1) != 0  # an array without axes has none either
    sized = known and len(box) == 3 and not all(periodic)
    free = [sized and not repeats and _is_zero(box[axis]) for axis, repeats in enumerate(periodic)]
    return [None if free[axis] else box[axis] for axis in range(3)] if any(free) else box


def _is_zero(length: Any) -> bool:
    """Return whether it is the number 0, or a vector of three of them."""
    try:
        return np.shape(length) in ((), (3,)) and bool((np.asarray(length, dtype=float) == 0).all())
    except (RuntimeError, TypeError, ValueError):
        return False


def checked_periodicity(periodicity: Any) -> int | tuple[bool, bool, bool]:
    """Return the number of periodic axes if they come first, and else a truth value for each axis.

    Raises
    ------
    ParkiTypeError, ParkiValueError
        If it is neither; a single truth value is not, as 1 is the number of one axis.
    """
    if isinstance(periodicity, (int, np.integer)) and not isinstance(periodicity, bool):
        if periodicity not in PERIODICITIES:
            raise ParkiValueError(
                f"periodicity is {periodicity}; expected 0 to 3, the number of periodic axes, or a "
                "truth value for each of the three"
            )
        return int(periodicity)
    try:
        flags = [flag.item() if hasattr(flag, "item") else flag for flag in periodicity]
        whole = all(isinstance(flag, int) for flag in flags)  # truth values are ints
    except (RuntimeError, TypeError, ValueError):  # the first of tensors
        flags, whole = [], False
    if not whole:
        raise ParkiTypeError(
            f"periodicity is {periodicity!r} ({type(periodicity).__name__}); expected the number "
            "of periodic axes, 0 to 3, or a truth value for each axis, such as (False, True, True)"
        )
    if len(flags) != 3 or not all(flag in (0, 1) for flag in flags):
        raise ParkiValueError(
            f"periodicity is {periodicity!r}; expected 3 truth values, one for each axis, such as "
            "(False, True, True), or the number of periodic axes"
        )
    x, y, z = map(bool, flags)
    count = x + y + z
    return count if all((x, y, z)[:count]) else (x, y, z)
