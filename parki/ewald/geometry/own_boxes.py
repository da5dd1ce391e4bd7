"""`OwnBox`: the box of one of many systems and its periodic axes; and `Batch`, which keeps them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiTypeError, ParkiValueError, by_words
from parki.ewald.geometry.systems import numbers_of, pair_of
from parki.ewald.options import EwaldOptions
from parki.ewald.options.box import checked_periodicity
from parki.meaning import refuse_variable

OF_BOXES = ("boxes", "periodicities")  # arguments that say what each system has


class OwnBox(NamedTuple):
    """The box of a system, and its periodic axes.

    Attributes
    ----------
    box : tuple, or None
        3 lengths or 3 vectors, as they were given; None for the box of the options.
    periodicity : int, tuple of 3 bools, or None
        As of `EwaldOptions`; None for the one of the options.
    """

    box: Any = None
    periodicity: Any = None

    @property
    def keywords(self) -> dict[str, Any]:
        """What takes the place of the options' own, by name."""
        values = {"periodicity": self.periodicity, "box": self.box}
        return {name: value for name, value in values.items() if value is not None}

    def of(self, options: EwaldOptions) -> EwaldOptions:
        """Return options with the axes and the box of the system, all checked."""
        return _of_system(options, self)


@lru_cache(maxsize=256)
def _of_system(options: EwaldOptions, system: OwnBox) -> EwaldOptions:
    return replace(options, **system.keywords)


def own_boxes(boxes: Any, periodicities: Any = None) -> tuple[OwnBox, ...] | None:
    """Return the box and the periodic axes of each system, as numbers; None if neither is given.

    What was returned before stays itself. No box is looked at one by one.

    Raises
    ------
    ParkiTypeError, ParkiValueError
        If they are no numbers, or no constants, or not as many.
    """
    if isinstance(boxes, tuple) and boxes and isinstance(boxes[0], OwnBox):
        return boxes
    rows = None if boxes is None else _rows(boxes)
    axes = None if periodicities is None else _axes(periodicities)
    if rows is None and axes is None:
        return None
    if rows is not None and axes is not None and len(rows) != len(axes):
        raise ParkiValueError(
            f"periodicities has {len(axes)} entries, but boxes has {len(rows)} boxes; give each "
            "system one of both"
        )
    none = (None,) * len(rows or axes or ())
    return tuple(map(OwnBox, rows or none, axes or none))


def _rows(boxes: Any) -> tuple[Any, ...]:
    """Return the box of each system, as numbers in tuples; refuse what is no list of boxes."""
    refuse_variable("boxes", boxes)
    rows = numbers_of(boxes)
    if isinstance(rows, tuple):
        rows = tuple((None,) * 3 if row is None else row for row in rows)
    if not (isinstance(rows, tuple) and rows and all(map(_of_three, rows))):
        raise ParkiTypeError(
            f"boxes is a {type(boxes).__name__}; expected 3 edge lengths for each system, such as "
            "[[1, 1, 1], [2, 2, 2]] for two of them"
        )
    return rows


def _axes(periodicities: Any) -> tuple[Any, ...]:
    """Return the periodic axes of each system; refuse what is no list of such."""
    refuse_variable("periodicities", periodicities)
    axes = numbers_of(periodicities)
    if not (isinstance(axes, tuple) and axes):
        raise ParkiTypeError(
            f"periodicities is a {type(periodicities).__name__}; expected the number of periodic "
            "axes of each system, or 3 truth values, such as [0, 3, (True, False, True)]"
        )
    known = dict[Any, Any]()
    for number, entry in enumerate(axes):
        key = type(entry), entry
        if key not in known:
            with by_words({"periodicity": f"periodicities[{number}]"}):
                known[key] = checked_periodicity(entry)
    return tuple(known[type(entry), entry] for entry in axes)


def check_systems_of_boxes(systems: int | None, boxes: tuple[OwnBox, ...]) -> None:
    """Refuse a number of systems that does not have a box for each, or None, for no systems."""
    count, (name, one, many) = len(boxes), ("boxes", "box", "boxes")
    if boxes[0].box is None:
        name, one, many = "periodicities", "periodicity", "entries"
    if systems is None:
        raise ParkiValueError(
            f"{name} was given without systems; say by systems where the points of each {one} "
            f"begin, or give one {one} in the options"
        )
    if systems != count:
        raise ParkiValueError(
            f"{name} has {count} {many}, but systems has {systems} systems; give each system one "
            f"{one}"
        )


def _of_three(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 3


def of_first(boxes: tuple[OwnBox, ...] | None) -> dict[str, Any]:
    """Return keywords of options of the first system, or none without boxes."""
    return {} if boxes is None else boxes[0].keywords


class Batch(NamedTuple):
    """Systems and boxes as other libraries' functions keep them: numbers that can be compared.

    Attributes
    ----------
    systems : tuple of 2 tuples of int, or None
        Offsets of targets and of sources.
    boxes : tuple of OwnBox, or None
        The box and the periodic axes of each system.
    """

    systems: Any = None
    boxes: tuple[OwnBox, ...] | None = None

    @classmethod
    def of(cls, systems: Any, boxes: Any, periodicities: Any = None) -> Batch:
        """Return systems and boxes as given, for any number of points.

        Raises
        ------
        ParkiTypeError, ParkiValueError
            If it is no numbers, or no constant, or if there is not a box for each system.
        """
        if systems is not None:
            refuse_variable("systems", systems)
            systems = tuple(tuple(offsets.tolist()) for offsets in pair_of(systems))
        system_boxes = own_boxes(boxes, periodicities)
        if system_boxes is not None:
            check_systems_of_boxes(systems and len(systems[0]) - 1, system_boxes)
        return cls(systems, system_boxes)

    def owners(self) -> tuple[NDArray[np.int64], int]:
        """Return the number of each target's system, and how many systems there are."""
        counts = np.diff(self.systems[0])
        return np.repeat(np.arange(len(counts)), counts), len(counts)
