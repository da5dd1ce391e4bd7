"""`Systems`: points of many small systems, which do not interact.

They share one box and one set of parameters. Points of a system are contiguous, and so are its
cells, its tiles and its grid. The stages take all systems at once: only offsets of cells and planes
keep them apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.arrays import real_name
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.meaning import refuse_variable
from parki.runtime import ExecutionSpace, load

Offsets = NDArray[np.int32]
# Variants of the stages that keep systems apart.
KNOWING = {
    "p2p_method": ("auto", "tile", "staged"),
    "p2g_method": ("auto", "owner", "tile"),
    "g2p_method": ("auto", "tile"),
}


class Systems:
    """Where the points of each system are.

    Parameters
    ----------
    targets, sources : ndarray, shape (S + 1,), int32
        System s has targets ``targets[s]`` to ``targets[s + 1] - 1``; sources likewise.
    space : ExecutionSpace
    executor : str or None
    """

    def __init__(
        self, targets: Offsets, sources: Offsets, space: ExecutionSpace, executor: str | None
    ) -> None:
        self.targets, self.sources, self.count = targets, sources, len(sources) - 1
        self.space, self.executor = space, executor
        constant = space.adapter.constant
        self._offsets = constant(sources, np.int32)
        self._of_targets = constant(np.repeat(np.arange(self.count), np.diff(targets)), np.int32)
        self._beside: dict[int, tuple[Systems, Offsets, Any]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Systems) and all(
            np.array_equal(a, b)
            for a, b in ((self.targets, other.targets), (self.sources, other.sources))
        )

    __hash__ = None  # type: ignore[assignment]

    def swapped(self) -> Systems:
        """Return the systems of the transposed sum."""
        return Systems(self.sources, self.targets, self.space, self.executor)

    def beside(self, copies: int) -> tuple[Systems, Offsets, Any]:
        """Return the systems of copies of all sources, and the order that they need.

        The order puts the copies of a system together; it is on the host, and in the space.
        """
        if copies not in self._beside:
            owner = np.tile(np.repeat(np.arange(self.count), np.diff(self.sources)), copies)
            order = np.argsort(owner, kind="stable").astype(np.int32)
            made = Systems(self.targets, copies * self.sources, self.space, self.executor)
            self._beside[copies] = made, order, self.space.array_module.asarray(order)
        return self._beside[copies]

    def sums(self, rows: Any) -> Any:
        """Return the sum of each row over the sources of each system, shape (rows, S)."""
        xp = self.space.array_module
        sums = xp.empty((len(rows), self.count), dtype=rows.dtype)
        real = real_name(rows.dtype)
        kernel = load("cell_list", "sum_systems", self.space, executor=self.executor, REAL=real)
        rows = xp.ascontiguousarray(rows)
        numbers = {"offsets": self._offsets, "systems": self.count}
        kernel(sums.size, rows=rows, sums=sums, **numbers)
        return sums

    def of_targets(self, values: Any) -> Any:
        """Return the values (rows, S) of each target's system, shape (rows, targets)."""
        return values[:, self._of_targets]


def check_systems(
    systems: Any, arrays: dict[str, Any], space: ExecutionSpace, options: EwaldOptions
) -> Systems | None:
    """Return the systems of given offsets; refuse offsets that do not fit the points.

    Parameters
    ----------
    systems : sequence of int, pair of these, or None
        Offsets of targets and sources; one sequence if both have the same.
    arrays : dict
        "trg" and "src", shape (3, N). One array becomes two if their systems differ.
    space : ExecutionSpace
    options : EwaldOptions
        Options, whose variants must support systems.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    if systems is None:
        return None
    for name, known in KNOWING.items():
        if (method := getattr(options.expert, name)) not in known:
            raise ParkiValueError(
                f"{name} is {method!r}, which sums one system at a time; with "
                f"systems leave it to 'auto', or choose one of {', '.join(known)}"
            )
    offsets = []
    counts = (arrays[name].shape[1] for name in ("trg", "src"))
    for name, array, count in zip(("targets", "sources"), _pair(systems), counts, strict=True):
        if array.size < 2 or array[0] != 0 or array[-1] != count or (np.diff(array) < 0).any():
            ends = f"{array[0]} to {array[-1]}" if array.size else "none"
            raise ParkiValueError(
                f"systems has {array.size} offsets of {name}, {ends}; expected two or more, from "
                f"0 to the {count} {name} given, none smaller than the one before"
            )
        offsets.append(array.astype(np.int32))
    if offsets[0].size != offsets[1].size:
        raise ParkiValueError(
            f"systems has {offsets[0].size - 1} systems of targets, but {offsets[1].size - 1} of "
            "sources; give each system both, of which there may be none"
        )
    if arrays["trg"] is arrays["src"] and (offsets[0] != offsets[1]).any():
        arrays["trg"] = arrays["trg"].copy()  # which are sorted by their own systems
    return Systems(offsets[0], offsets[1], space, options.expert.executor)


def _pair(systems: Any) -> list[NDArray[Any]]:
    """Return the offsets of targets and of sources; refuse what is no list of whole numbers."""
    pair = systems if isinstance(systems, tuple) and len(systems) == 2 else (systems, systems)
    arrays = []
    for offsets in pair:
        try:
            array = np.asarray(_numbers(offsets))
        except (RuntimeError, TypeError, ValueError):
            array = np.array("")
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ParkiTypeError(
                f"systems is {systems!r}; expected whole numbers, where the points of each system "
                "begin, and last how many points there are, such as [0, 100, 250]; or a tuple of "
                "two such lists, for targets and sources"
            )
        arrays.append(array)
    return arrays


def rows_of_boxes(boxes: Any) -> tuple[Any, ...]:
    """Return the box of each system, as numbers in tuples; refuse what is no list of boxes."""
    refuse_variable("boxes", boxes)
    rows = _numbers(boxes)
    if not (isinstance(rows, tuple) and rows and all(map(_of_three, rows))):
        raise ParkiTypeError(
            f"boxes is a {type(boxes).__name__}; expected 3 edge lengths for each system, such as "
            "[[1, 1, 1], [2, 2, 2]] for two of them"
        )
    return rows


def _of_three(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 3


def first_box(boxes: Any) -> Any:
    """Return the box of the first system, or None without boxes."""
    return None if boxes is None else rows_of_boxes(boxes)[0]


def _numbers(values: Any) -> Any:
    """Return arrays of any library, and nested lists, as nested tuples of numbers."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return tuple(map(_numbers, values)) if isinstance(values, (list, tuple)) else values


class Batch(NamedTuple):
    """Systems and boxes as other libraries' functions keep them: numbers that can be compared.

    Attributes
    ----------
    systems : tuple of 2 tuples of int, or None
        Offsets of targets and of sources.
    boxes : tuple, or None
        The edge lengths or the lattice vectors of each system.
    """

    systems: Any = None
    boxes: Any = None

    @classmethod
    def of(cls, systems: Any, boxes: Any) -> Batch:
        """Return systems and boxes as given, for any number of points.

        Raises
        ------
        ParkiTypeError
            If it is no numbers, or if it is no constant.
        """
        if systems is not None:
            refuse_variable("systems", systems)
            systems = tuple(tuple(each.tolist()) for each in _pair(systems))
        return cls(systems, None if boxes is None else rows_of_boxes(boxes))
