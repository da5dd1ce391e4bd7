"""The change of a composite for moves of its inputs, which is a composite of other sums.

Its derivatives are the second derivatives of the composite. Targets that move read gradients, and
sources that move are dipoles, or targets that move the other way. Maps change with their points,
too. All of them find the moves as ``cloud["moves"]``, by the names of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from parki.errors import ParkiTypeError
from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.maps import Arrays, Curved, Map, after, pushed, still, velocity
from parki.ewald.sums.slopes import changes
from parki.typing import AnyArray

NAMES = {"trg": "points", "src": "points", "norms": "norms"}  # of inputs in what maps find
OF_SOURCES = ("src", "norms")


def changed(
    addends: Iterable[Addend], cloud: Arrays, rows: int, moves: Callable[[AnyArray], bool]
) -> Iterator[Addend]:
    """Yield the addends of the change of a composite's velocity or potential.

    Parameters
    ----------
    addends : iterable of Addend
    cloud : dict of arrays
        What maps find at the sources.
    rows : int
        Of the composite's density.
    moves : callable
        Returns whether an array has another number than zero, on any rank.

    Raises
    ------
    ParkiTypeError
        If another result changes.
    """
    of_sources = [name for name in OF_SOURCES if name in cloud["moves"]]
    # A density that shows whether a map changes: no differences of its rows are zero.
    one = np.ones_like(cloud["points"][:1])
    dens = np.concatenate([one * float(row) ** 0.5 for row in range(2, rows + 2)])
    for addend in addends:
        if addend.want != ("u",):
            refuse_third()
        if of_sources and addend.density is not None:
            density = partial(_change, addend.density, of_sources)
            if moves(density(dens, cloud)):
                yield replace(addend, density=density)
        if "trg" in cloud["moves"] and not still(addend.results):
            yield replace(addend, results=partial(_change, addend.results, ("trg",)))
        yield from _of_sum(addend, cloud, moves)


def _of_sum(addend: Addend, cloud: Arrays, moves: Callable[[AnyArray], bool]) -> Iterator[Addend]:
    """Yield the change of an addend's sum, whose targets, sources and normals move."""
    kind = SUMS[addend.kernel]
    if kind.dipoles and not SUMS[kind.dipoles].adjoints:
        kind = replace(kind, dipoles="")  # these would have no derivatives

    def there(cloud: Arrays) -> Arrays:
        """Return how sources and normals move."""
        names = [name for name in OF_SOURCES if name in cloud["moves"]]
        maps = {"src": addend.sources} | ({"norms": addend.normals} if kind.normals else {})
        if not names:
            return {}
        return {n: _change(one, names, cloud[NAMES[n]], cloud) for n, one in maps.items()}

    moved = there(cloud)

    def at_sources(function: Map | None) -> Map | None:
        def change(values: AnyArray, now: Arrays) -> AnyArray:
            known = all(now.get(name) is cloud.get(name) for name in ("moves", "points", "norms"))
            return cast(Map, function)(values, moved if known else there(now))

        return function and change

    def at_targets(function: Map) -> Map:
        if function is velocity:
            return addend.results
        change = Curved(lambda results, cloud: function(results, {**cloud, **cloud["moves"]}), None)
        if addend.results is velocity:
            return change
        whole = cast(Map, after(change, lambda rows, cloud: addend.results({"u": rows}, cloud)))
        return Curved(whole, None) if still(addend.results) else whole

    names = [name for name, rows in moved.items() if moves(rows)]
    for name in ["trg"] * ("trg" in cloud["moves"]) + names:
        for change in changes(kind, "u", name):
            yield replace(
                addend,
                kernel=change.kernel or addend.kernel,
                want=change.want,
                results=at_targets(change.results),
                density=after(addend.density, at_sources(change.density)),
                normals=at_sources(change.normals) or addend.normals,
            )


def _change(
    function: Map | None, names: Collection[str], values: AnyArray, cloud: Arrays
) -> AnyArray:
    """Return how a map changes with these inputs."""
    return pushed(function, values, cloud, {NAMES[n]: cloud["moves"][n] for n in names})


def refuse_third() -> None:
    """Refuse third derivatives.

    Raises
    ------
    ParkiTypeError
    """
    raise ParkiTypeError(
        "a third derivative was asked for, of a second one by points; parki has none"
    )
