"""`Addend`: results of one sum of a mapped density, put together. Addends are a composite.

A stress, the transpose of a sum and its derivatives are composites: their addends name other sums,
or the sum itself, and what becomes of densities and results. Addends of the same sum share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums.maps import (
    FIXED,
    Arrays,
    Beside,
    Map,
    mapped,
    pulled,
    transposed,
    velocity,
    weights,
)
from parki.interchange import shown
from parki.typing import AnyArray


@dataclass(frozen=True)
class Addend:
    """One sum of a composite. Arrays have shape (rows, N).

    Attributes
    ----------
    kernel : str
        The sum; "" is the sum that the composite belongs to.
    want : tuple of str
        What is needed of it.
    results : callable
        ``results(by_name, cloud)``: the rows of the composite, of the sum's results at the targets.
    density, sources, normals : callable or None
        ``density(dens, cloud)``: the density of the sum, of the composite's; likewise its sources
        and their normals. None takes them as they are.
    tensors : callable or None
        ``tensors(cloud)``: the targets as tensor targets, (10, N).
    of : str
        The result of the composite that it is a part of.
    """

    kernel: str
    want: tuple[str, ...]
    results: Map
    density: Map | None = None
    sources: Map | None = None
    normals: Map | None = None
    tensors: Callable[[Arrays], AnyArray] | None = None
    of: str = "u"

    def rows(self, results: Arrays, cloud: Arrays) -> AnyArray:
        """Return the rows that results make."""
        return self.results(results, cloud)


@dataclass(frozen=True)
class Composite:
    """A sum of sums: what its addends make of a density adds up.

    Attributes
    ----------
    name : str
    density, result : tuple of int
        Shapes for one source and for one target, such as (3,).
    addends : tuple of Addend
        All name their kernel.
    scales : tuple of (str, float, int)
        Kernels whose results are multiplied by lengths to a power, and have a power of the inverse
        length as much higher. They take a tolerance as much larger.
    transposed : tuple (str, str, callable), Composite or None
        A sum from the targets to the sources by the same options, its result and a map of this: the
        transpose of the composite, within the promise. Or a composite of the same result, whose
        addends have transposes. None takes the transposes of all addends.
    near : tuple of str, or None
        The sum near walls whose images its addends have, and its result; None of others.
    """

    name: str
    density: tuple[int, ...]
    result: tuple[int, ...]
    addends: tuple[Addend, ...]
    scales: tuple[tuple[str, float, int], ...] = ()
    transposed: Transposed = None
    near: tuple[str, str] | None = None

    @property
    def labelled(self) -> tuple[str, ...]:
        """The sums of sources where they are: pairs of equal labels are left out of these."""
        return tuple(addend.kernel for addend in self.addends if addend.sources is None)


def check_composite(composite: Composite) -> None:
    """Refuse a composite without addends, or whose shapes are no tuples of numbers.

    Raises
    ------
    ParkiValueError
    """
    shapes: list[Any] = [composite.density, composite.result]
    addends: Any = composite.addends
    shaped = all(isinstance(s, tuple) and all(isinstance(n, int) for n in s) for s in shapes)
    listed = isinstance(addends, tuple) and all(isinstance(one, Addend) for one in addends)
    if not (shaped and listed and addends):
        raise ParkiValueError(
            f"the composite {composite.name} has density={shown(shapes[0])}, "
            f"result={shown(shapes[1])} and addends={shown(addends)}; expected shapes such as (3,) "
            "or (), and a tuple of one Addend or more"
        )


def joined(addends: Iterable[Addend]) -> list[Addend]:
    """Return addends whose sources and densities are `Beside`, one for the same results."""
    groups: dict[tuple[str, tuple[str, ...], Map, str], list[Addend]] = {}
    for addend in addends:
        key = addend.kernel, addend.want, addend.results, addend.of
        groups.setdefault(key, []).append(addend)
    return [same[0] if len(same) == 1 else _beside(same) for same in groups.values()]


def _beside(addends: list[Addend]) -> Addend:
    return replace(
        addends[0],
        density=Beside(tuple(addend.density for addend in addends)),
        sources=Beside(tuple(addend.sources for addend in addends)),
        normals=Beside(tuple(addend.normals for addend in addends)),
    )


Transposed: TypeAlias = "tuple[str, str, Map] | Composite | None"


class SharedAddend(NamedTuple):
    """One sum of a composite: addends in lists of those that have the density in common.

    A sum takes the densities of all lists at once, and for each all results that are needed.
    """

    kernel: str
    lists: list[list[Addend]]

    @property
    def addends(self) -> list[Addend]:
        """All addends."""
        return [*chain.from_iterable(self.lists)]

    @property
    def want(self) -> tuple[str, ...]:
        """All that addends need, each once."""
        return wanted(self.addends)

    @property
    def made_by(self) -> tuple[tuple[Map | None, ...], ...]:
        """The maps of sources, and of densities, which say what the densities are."""
        return self._maps, tuple(addends[0].density for addends in self.lists)

    @property
    def _maps(self) -> tuple[Map | None, ...]:
        """The map of each copy of the sources."""
        sources = self.addends[0].sources
        return sources.maps if isinstance(sources, Beside) else (sources,)

    def arranged(self, systems: Any, labels: AnyArray) -> tuple[Any, Any, Arrays]:
        """Return the systems and the labels of the sum, and the order of its sources, if any.

        Sources that maps move are images, which have no labels. Images in the same sum as their
        sources come after them; an order puts sources and images of a system together.

        Parameters
        ----------
        systems : Systems or None
        labels : Labels or None

        Returns
        -------
        systems, labels, dict
            The order by the name "order", to be added to what its maps find.
        """
        maps, order, cloud = self._maps, None, {}
        if systems is not None and len(maps) > 1:
            systems, order, cloud["order"] = systems.beside(len(maps))
        if labels is not None:
            labels = labels.beside(tuple(function is None for function in maps), systems, order)
        return systems, labels, cloud

    def points(self, cloud: Arrays, kind: Any) -> tuple[AnyArray, AnyArray]:
        """Return the sources of the sum with this record, and their normals or radii, if any."""
        first, norms = self.addends[0], cloud["norms"]
        src = ordered(mapped(first.sources, cloud["points"], cloud), cloud)
        if kind.pair.point_radii is not None:  # of targets and sources
            return src, (norms[0], ordered(np.tile(norms[1], len(self._maps)), cloud))
        norms = mapped(first.normals, norms, cloud) if kind.normals and norms is not None else None
        return src, ordered(norms, cloud)

    def densities(self, dens: AnyArray, cloud: Arrays) -> AnyArray:
        """Return the densities (k lists, rows, N) of the sum, for k of the composite."""
        parts = [mapped(same[0].density, rows, cloud) for same in self.lists for rows in dens]
        stack = parts[0][None] if len(parts) == 1 else _stacked(parts)
        return ordered(stack, cloud) if "order" in cloud else stack

    def values(self, fields: Arrays, cloud: Arrays, sizes: dict[str, int]) -> Arrays:
        """Return values (k lists, rows, N) by result, from a composite's, (k, rows, N)."""
        first = next(iter(fields.values()))
        if sizes.keys() == {"u"} and [a.results for a in self.addends] == [velocity]:
            return {"u": fields[self.addends[0].of]}
        many, total = len(first), len(first) * len(self.lists)
        shapes = {name: (total, size, first.shape[-1]) for name, size in sizes.items()}
        values = {name: np.zeros_like(first, shape=shape) for name, shape in shapes.items()}
        for n, addends in enumerate(self.lists):
            for addend in addends:
                rows = fields[addend.of]
                parts = {"u": rows}
                if addend.results is not velocity:
                    places = None if addend.results in FIXED else cloud
                    needs = {name: sizes[name] for name in addend.want}
                    matrix = weights(addend.results, needs, places)
                    parts = transposed(matrix, rows)
                for name, part in parts.items():
                    values[name][n * many : (n + 1) * many] += part
        return values

    def pulled(self, back: AnyArray, cloud: Arrays, rows: int) -> AnyArray:
        """Return densities (k, rows, N) of a composite, from what the transposed sum makes."""
        back = unordered(back, cloud)
        pairs = zip(self.lists, np.split(back, len(self.lists)), strict=True)
        parts = [pulled(same[0].density, values, cloud, rows) for same, values in pairs]
        return reduce(add, parts)

    def rows(self, results: list[Arrays], cloud: Arrays) -> dict[Addend, AnyArray]:
        """Return the rows (k, rows, N) of each addend, from the results of each density."""
        many = len(results) // len(self.lists)
        places = [slice(n * many, (n + 1) * many) for n in range(len(self.lists))]
        return {
            addend: _stacked([addend.rows(by_name, cloud) for by_name in results[place]])
            for addends, place in zip(self.lists, places, strict=True)
            for addend in addends
        }


def ordered(values: AnyArray, cloud: Arrays) -> AnyArray:
    """Return values at sources in the order of their systems, if there is one."""
    return values if values is None or "order" not in cloud else values[..., cloud["order"]]


def unordered(values: AnyArray, cloud: Arrays) -> AnyArray:
    """Return values at sources as `ordered` took them."""
    if "order" not in cloud:
        return values
    before = np.empty_like(values)
    before[..., cloud["order"]] = values
    return before


def _stacked(arrays: list[AnyArray]) -> AnyArray:
    """Return arrays with one more axis, which takes a copy of several alone."""
    if len(arrays) == 1:
        return arrays[0][None]
    stack = np.empty_like(arrays[0], shape=(len(arrays), *arrays[0].shape))
    for place, array in zip(stack, arrays, strict=True):
        place[...] = array
    return stack


def together(addends: Iterable[Addend], own: str = "") -> list[SharedAddend]:
    """Return sums with their addends. The sum of the composite is ``own``.

    A sum has tensor targets of one kind; addends that need none share a sum of their density.
    """
    sums: dict[Any, dict[Any, dict[Any, list[Addend]]]] = {}
    for addend in addends:
        key = addend.kernel or own, addend.sources, addend.normals
        by_density = sums.setdefault(key, {}).setdefault(addend.tensors, {})
        by_density.setdefault(addend.density, []).append(addend)
    for by_tensors in sums.values():
        plain = by_tensors.get(None, {})
        for lists in by_tensors.values():
            for density in plain.keys() & lists.keys() if lists is not plain else ():
                lists[density] += plain.pop(density)
    return [
        SharedAddend(kernel, [*lists.values()])
        for (kernel, *_), by_tensors in sums.items()
        for lists in by_tensors.values()
        if lists
    ]


def wanted(addends: Iterable[Addend]) -> tuple[str, ...]:
    """Return all that addends need, each once."""
    return tuple(dict.fromkeys(name for addend in addends for name in addend.want))


def by_density(names: tuple[str, ...], results: tuple[AnyArray, ...]) -> list[Arrays]:
    """Return the results (k, ..., N) of a sum for each density, by name, as (rows, N)."""
    shapes = [(math.prod(array.shape[1:-1]), array.shape[-1]) for array in results]
    rows = list(zip(names, results, shapes, strict=True))
    return [
        {name: array[n].reshape(shape) for name, array, shape in rows}
        for n in range(len(results[0]))
    ]
