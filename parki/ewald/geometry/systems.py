"""Pairs that are left out: `Systems`, many small ones that do not interact, and `Labels`.

Systems share one box and one set of parameters. Points of a system are contiguous, and so are its
cells, its tiles and its grid. The stages take all systems at once: only offsets of cells and planes
keep them apart.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from parki.errors import ImageWarning, ParkiTypeError, ParkiValueError, warn
from parki.ewald.options import EwaldOptions
from parki.interchange import as_array, real_name, to_host
from parki.runtime import ExecutionSpace, load
from parki.typing import AnyArray, OfPoints

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
    boxes : ndarray, shape (S, 3, 3), optional
        The vectors of the box of each, as for `Enclosed`, where they have boxes of their own.
    first : int
        The number of the first one where these are a group of all systems.

    Attributes
    ----------
    arrays : tuple of arrays
        Where sources begin, and the systems of targets and of sources, in the space; also of equal
        systems in other boxes, which are `at` the same offsets.
    """

    def __init__(
        self,
        targets: Offsets,
        sources: Offsets,
        space: ExecutionSpace,
        executor: str | None,
        boxes: Any = None,
        first: int = 0,
    ) -> None:
        self.targets, self.sources, self.count = targets, sources, len(sources) - 1
        self.first = first
        self.space, self.executor, self.boxes = space, executor, boxes
        numbers = [np.repeat(np.arange(self.count), np.diff(ends)) for ends in (targets, sources)]
        constant = space.adapter.constant
        self.arrays = tuple(constant(array, np.int32) for array in (sources, *numbers))
        self._beside: dict[int, tuple[Systems, Offsets, Any]] = {}

    def at(self, other: Systems) -> Systems:
        """Return these systems in the boxes of others, which are equal."""
        if other.boxes is None:
            return self
        there = copy(self)
        there.boxes = other.boxes
        return there

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Systems) and all(
            np.array_equal(a, b)
            for a, b in ((self.targets, other.targets), (self.sources, other.sources))
        )

    def __hash__(self) -> int:
        return hash((self.targets.tobytes(), self.sources.tobytes()))

    def swapped(self) -> Systems:
        """Return the systems of the transposed sum."""
        return self._with(self.sources, self.targets)

    def _with(self, targets: Offsets, sources: Offsets) -> Systems:
        return Systems(targets, sources, self.space, self.executor, self.boxes, self.first)

    def beside(self, copies: int) -> tuple[Systems, Offsets, Any]:
        """Return the systems of copies of all sources, and the order that they need.

        The order puts the copies of a system together; it is on the host, and in the space.
        """
        if copies not in self._beside:
            owner = np.tile(np.repeat(np.arange(self.count), np.diff(self.sources)), copies)
            order = np.argsort(owner, kind="stable").astype(np.int32)
            systems = self._with(self.targets, copies * self.sources)
            self._beside[copies] = systems, order, self.space.array_module.asarray(order)
        return self._beside[copies]

    def sums(self, rows: AnyArray) -> Any:
        """Return the sum of each row over the sources of each system, shape (rows, S)."""
        xp = self.space.array_module
        sums = xp.empty((len(rows), self.count), dtype=rows.dtype)
        real = real_name(rows.dtype)
        kernel = load("cell_list", "sum_systems", self.space, executor=self.executor, REAL=real)
        rows = xp.ascontiguousarray(rows)
        kernel(sums.size, rows=rows, sums=sums, offsets=self.arrays[0], systems=self.count)
        return sums

    def of_targets(self, values: AnyArray) -> Any:
        """Return the values (rows, S) of each target's system, shape (rows, targets)."""
        return values[:, self.arrays[1]]

    def of_sources(self, values: AnyArray) -> Any:
        """Return the values (rows, S) of each source's system, shape (rows, sources)."""
        return values[:, self.arrays[2]]


def check_systems(
    systems: Any, arrays: dict[str, AnyArray], space: ExecutionSpace, options: EwaldOptions
) -> Systems | None:
    """Return the systems of these offsets; refuse offsets that do not fit the points.

    Parameters
    ----------
    systems : sequence of int, pair of these, Systems or None
        Offsets of targets and sources; one sequence if both have the same. Systems stay themselves.
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
    before = systems if isinstance(systems, Systems) else None
    if before is not None:
        systems = before.targets, before.sources
    for name, known in KNOWING.items():
        if (method := getattr(options.expert, name)) not in known:
            raise ParkiValueError(
                f"{name} is {method!r}, which sums one system at a time; with "
                f"systems leave it to 'auto', or choose one of {', '.join(known)}"
            )
    offsets = []
    counts = (arrays[name].shape[1] for name in ("trg", "src"))
    for name, array, count in zip(("targets", "sources"), pair_of(systems), counts, strict=True):
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
    return before or Systems(offsets[0], offsets[1], space, options.expert.executor)


def pair_of(systems: Any) -> list[NDArray[Any]]:
    """Return the offsets of targets and of sources; refuse what is no list of whole numbers."""
    pair = systems if isinstance(systems, tuple) and len(systems) == 2 else (systems, systems)
    arrays = []
    for offsets in pair:
        try:
            array = np.asarray(numbers_of(offsets))
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


def numbers_of(values: AnyArray) -> Any:
    """Return arrays of any library, and nested lists, as nested tuples of numbers."""
    if type(values) in (float, int):
        return values
    if hasattr(values, "tolist"):
        return _plain(values.tolist())
    return tuple(map(numbers_of, values)) if isinstance(values, (list, tuple)) else values


def _plain(values: Any) -> Any:
    """Return nested lists of numbers as tuples."""
    if not isinstance(values, list):
        return values
    deep = bool(values) and isinstance(values[0], list)
    return tuple(map(_plain, values)) if deep else tuple(values)


# Offsets as users give them, or what was made of them.
SystemsLike: TypeAlias = "Systems | OfPoints | None"
Numbers = NDArray[np.int64]
MOST = 2**24  # labels that float32 can tell apart


class Members(NamedTuple):
    """Points whose label a target and a source have, a label after the other, in a space.

    Attributes
    ----------
    targets, sources : array, int32
        Their columns.
    begins, ends : array, int32
        Target i of these meets the sources ``begins[i]`` to ``ends[i] - 1``.
    """

    targets: Any
    sources: Any
    begins: Any
    ends: Any


class Labels:
    """A label of each target and of each source, on the host.

    Parameters
    ----------
    targets, sources : ndarray, shape (Nt,) and (Ns,), int64
        Negative where a point has none.
    systems : Systems, optional
        Points of different systems have no label in common.
    side : int
        Which of two images that are equally near is left out, 1 or -1.
    """

    def __init__(
        self, targets: Numbers, sources: Numbers, systems: Systems | None = None, side: int = 1
    ) -> None:
        self.targets, self.sources, self.systems, self.side = targets, sources, systems, side
        labels: list[Any] = [targets, sources]
        if systems is not None:
            known = np.unique(np.concatenate(labels))  # whose places are no large numbers
            for n, offsets in enumerate((systems.targets, systems.sources)):
                owner = np.repeat(np.arange(systems.count), np.diff(offsets))
                place = np.searchsorted(known, labels[n]) * systems.count + owner
                labels[n] = np.where(labels[n] < 0, -1, place)
        of_targets, of_sources = (numbers[numbers >= 0] for numbers in labels)
        common = np.intersect1d(of_targets, of_sources)
        # The place of a label in common; others have numbers that never meet.
        self.count, self.numbers = common.size, []
        for numbers, none in zip(labels, (-1, -2), strict=True):
            place = np.searchsorted(common, numbers)
            shared = place < common.size
            shared[shared] = common[place[shared]] == numbers[shared]
            self.numbers.append(np.where(shared, place, none).astype(np.int32))
        self._placed: dict[Any, tuple[Members, list[Any]]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and all(
            np.array_equal(a, b)
            for a, b in ((self.targets, other.targets), (self.sources, other.sources))
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def sizes(self) -> tuple[int, int]:
        """Targets and sources of labels that both have."""
        targets, sources = (int((numbers >= 0).sum()) for numbers in self.numbers)
        return targets, sources

    def placed(self, space: ExecutionSpace) -> tuple[Members, list[Any]]:
        """Return members, and the numbers of all targets and sources, in the memory of a space.

        They are copied once: launches that were recorded may use them.
        """
        if space not in self._placed:
            xp = space.array_module
            targets, sources = (np.argsort(numbers, kind="stable") for numbers in self.numbers)
            of_targets, of_sources = self.numbers
            targets, sources = targets[of_targets[targets] >= 0], sources[of_sources[sources] >= 0]
            labels = of_sources[sources]

            def there(array: AnyArray) -> AnyArray:
                return xp.asarray(array.astype(np.int32))

            members = Members(
                targets=there(targets),
                sources=there(sources),
                begins=there(np.searchsorted(labels, of_targets[targets], "left")),
                ends=there(np.searchsorted(labels, of_targets[targets], "right")),
            )
            self._placed[space] = members, [xp.asarray(array) for array in self.numbers]
        return self._placed[space]

    def swapped(self, systems: Systems | None = None) -> Labels:
        """Return the labels of the transposed sum, with its systems."""
        return Labels(self.sources, self.targets, systems, -self.side)

    def among(self, systems: Systems | None) -> Labels:
        """Return the labels of the same points in other systems."""
        if systems == self.systems:
            return self
        return Labels(self.targets, self.sources, systems, self.side)

    def beside(
        self, labelled: tuple[bool, ...], systems: Systems | None, order: AnyArray | None
    ) -> Labels | None:
        """Return the labels of copies of all sources, in an order; some copies have none."""
        if labelled == (True,) or not any(labelled):
            return self if any(labelled) else None
        none = np.full_like(self.sources, -1)
        sources = np.concatenate([self.sources if has_labels else none for has_labels in labelled])
        return Labels(
            self.targets, sources if order is None else sources[order], systems, self.side
        )

    def of_columns(self, columns: AnyArray, systems: Systems | None) -> Labels:
        """Return the labels of targets and sources in `Columns`, with their systems."""
        targets, sources = (to_host(columns.place(name)) for name in ("trg", "src"))
        return Labels(self.targets[targets], self.sources[sources], systems, self.side)


# Labels as users give them, or what was made of them.
LabelsLike: TypeAlias = "Labels | OfPoints | None"


def check_labels(
    exclude: Any,
    kernel: str,
    of_points: bool,
    arrays: dict[str, AnyArray],
    options: EwaldOptions,
    systems: Systems | None = None,
) -> Labels | None:
    """Return the labels that were given; refuse impossible ones.

    Parameters
    ----------
    exclude : array of int, pair of these, Labels or None
        Labels of targets and sources; one array if both have the same.
    kernel : str
    of_points : bool
        Whether its sources and targets are points, whose pairs are singular.
    arrays : dict
        "trg" and "src", shape (3, N).
    options : EwaldOptions
        Options, whose variants must know of labels.
    systems : Systems, optional
        Of these points, also where labels were made for others.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    counts = tuple(arrays[name].shape[1] for name in ("trg", "src"))
    if isinstance(exclude, Labels):
        if counts == (exclude.targets.size, exclude.sources.size):
            return exclude.among(systems)
        exclude = exclude.targets, exclude.sources
    if exclude is None:
        return None
    if not of_points:
        raise ParkiValueError(
            f"exclude was given, but {kernel} sums blobs or spheres; their pairs are finite, so "
            "sum all, and subtract the pairs to leave out yourself (parki.near_pairs lists them)"
        )
    method = options.expert.p2p_method
    if method not in KNOWING["p2p_method"]:
        raise ParkiValueError(
            f"p2p_method is {method!r}, which cannot leave out pairs; with exclude leave it to "
            "'auto'"
        )
    pair = exclude if isinstance(exclude, tuple) and len(exclude) == 2 else (exclude, exclude)
    checked = []
    for name, numbers, count in zip(("targets", "sources"), pair, counts, strict=True):
        try:
            labels = np.asarray(to_host(as_array("exclude", numbers)))
        except (TypeError, ValueError):
            labels = np.array("")
        if labels.dtype.kind not in "iu" or labels.ndim != 1:
            raise ParkiTypeError(
                f"exclude has labels of {name} of type {labels.dtype} and shape {labels.shape}; "
                "expected whole numbers, one for each point and negative for none; or a tuple of "
                "two such arrays, for targets and sources"
            )
        if labels.size != count:
            raise ParkiValueError(
                f"exclude has {labels.size} labels of {name}; expected one for each of the "
                f"{count} {name} given, negative for none (exclude=(of_targets, of_sources) gives "
                "both)"
            )
        checked.append(labels.astype(np.int64))
    excluded = Labels(checked[0], checked[1], systems)
    if excluded.count > MOST and options.arithmetic(arrays["src"].dtype) == np.float32:
        raise ParkiValueError(
            f"exclude has {excluded.count} labels, of which single precision tells {MOST} apart; "
            "pass float64 arrays"
        )
    warn_of_long(excluded, arrays, options)
    return excluded


def warn_of_long(labels: Labels, arrays: dict[str, AnyArray], options: EwaldOptions) -> None:
    """Warn where the points of a label are on more than half of a period, if no image is chosen."""
    if options.exclude_image is not None:
        return
    members = [np.flatnonzero(numbers >= 0) for numbers in labels.numbers]
    number = np.concatenate(
        [numbers[m] for numbers, m in zip(labels.numbers, members, strict=True)]
    )
    order = np.argsort(number, kind="stable")
    number, inverse = number[order], np.linalg.inv(options.vectors)
    clouds = [to_host(arrays[name])[:, m] for name, m in zip(("trg", "src"), members, strict=True)]
    points = np.concatenate(clouds, axis=1)[:, order]
    for axis in range(3):
        if not options.periodic[axis] or not number.size:
            continue
        places = inverse[:, axis] @ points  # in periods
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        reach = np.maximum.reduceat(places, starts) - np.minimum.reduceat(places, starts)
        far = reach[number] > 1 / 2  # or wrapped
        label, places = number[far], places[far] % 1
        places = places[np.lexsort((places, label))]
        starts = np.flatnonzero(np.diff(label, prepend=-1))
        if not starts.size:
            continue
        gaps = np.diff(places, append=0)
        gaps[[*starts[1:] - 1, -1]] = places[starts] + 1 - places[[*starts[1:] - 1, -1]]
        covered = 1 - float(np.maximum.reduceat(gaps, starts).min())
        if covered > 1 / 2:
            warn(
                f"points of one label of exclude are on {covered:.2f} of the period along "
                f"axis {axis}, so that the nearest image of a point may be one of another body. "
                "Pass exclude_image='given' for bodies whose points are together, or "
                "exclude_image='nearest' to keep this sum",
                ImageWarning,
            )
            return
