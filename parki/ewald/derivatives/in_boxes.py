"""Systems in boxes of their own: what is checked once, and derivatives, a group after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from parki.ewald.geometry.boxes import OF_TARGETS, Columns, Group, grouped
from parki.ewald.geometry.systems import (
    Labels,
    Systems,
    check_systems,
    check_systems_of_boxes,
    warn_of_long,
)
from parki.ewald.options import EwaldOptions
from parki.ewald.points import Cloud, check_density, check_fields, like_points
from parki.ewald.points.request import SumRequest
from parki.ewald.sums import SUMS
from parki.interchange import as_given, names_of
from parki.typing import AnyArray


def power_of(kernel: str, name: str) -> int:
    """Return the power of a length by which a result falls, where normals are lengths, too."""
    kind = SUMS[kernel]
    return (1 if kind.normals else kind.pair.power) + (name != "u")


class InBoxes(NamedTuple):
    """Points of systems in boxes of their own, checked, and the groups that are summed at once.

    Each box is looked at by the sum of its group.
    """

    asked: SumRequest
    cloud: Cloud
    groups: list[Group]

    @classmethod
    def checked(
        cls,
        asked: SumRequest,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray,
        options: EwaldOptions,
        *,
        boxes: tuple[Any, ...],
        systems: Any,
        exclude: Any,
    ) -> InBoxes:
        """Return the systems; refuse impossible arguments.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        free = EwaldOptions(
            0,
            tolerance=options.tolerance,
            precision=options.precision,
            execution_space=options.execution_space,
        )
        cloud = asked.cloud(trg, src, norms, free, systems=systems, exclude=exclude).checked()
        check_systems(cloud.systems, cloud.arrays, cloud.space, options)  # by the user's variants
        check_systems_of_boxes(cloud.systems.count if cloud.systems else None, len(boxes))
        similar = all(options.periodic) and cloud.src.dtype == np.float64
        similar = similar and not asked.composite  # whose maps may have lengths
        similar = similar and SUMS.in_unit(asked.name, 2.0) == asked.name
        groups = grouped(options, boxes, similar)
        checked = cls(asked, replace(cloud, options=options), groups)
        if cloud.labels and cloud.labels is not exclude:
            checked.warn_of_long(cloud.labels)
        return checked

    def warn_of_long(self, labels: Labels) -> None:
        """Warn where the points of a label are on more than half of a period of their box."""
        for group in self.groups:
            columns = self.columns(group)
            trg, src, _ = columns.points(self.cloud.trg, self.cloud.src, None)
            _, own = group.marked(columns, self.systems, labels)
            warn_of_long(cast(Labels, own), {"trg": trg, "src": src}, group.options)

    @property
    def systems(self) -> Systems:
        """The systems, which there are."""
        return cast(Systems, self.cloud.systems)

    def columns(self, group: Group) -> Columns:
        """Return the columns of a group's points."""
        return group.columns(self.systems, self.cloud.space.array_module)

    # ------------------------------------------------------------------ derivatives
    def vjp(
        self,
        vjp: Callable[..., Any],
        dens: AnyArray,
        values: AnyArray,
        wrt: Any,
        moves: Mapping[str, AnyArray],
    ) -> dict[str, Any]:
        """Return derivatives by name, of what ``vjp`` finds for each group."""
        want, of = self.asked.want, (self.shapes, self.cloud.space, self.cloud.src.dtype)
        v, several = check_fields("values", values, want, *of)
        dens, derivatives = self._density(dens), dict[str, Any]()
        moves = self._moves("moves", moves)
        for columns, given, how in self._each(dens):
            own = []
            for n, rows in v.items():
                part = columns.results(columns.take(n, rows), self._power(n))
                own.append(part.reshape(*several, *self.asked.results[n], part.shape[-1]))
            each = own[0] if isinstance(want, str) else own
            for name, part in vjp(
                *given, values=each, wrt=wrt, moves=moved(columns, moves), **how
            ).items():
                self._scatter(columns, name, columns.scaled(name, part), derivatives)
        like = values if isinstance(want, str) else values[0]
        return {name: as_given(array, like) for name, array in derivatives.items()}

    def jvp(
        self,
        jvp: Callable[..., Any],
        dens: AnyArray,
        tangents: Mapping[AnyArray, AnyArray],
        moves: Mapping[str, AnyArray],
    ) -> Any:
        """Return the change of the sums, of what ``jvp`` finds for each group."""
        names_of("tangents", tangents, "names of inputs, with their changes", mapping=True)
        inner, moves = self._moves("tangents", tangents), self._moves("moves", moves)
        changes, one = dict[str, Any](), isinstance(self.asked.want, str)
        for columns, given, how in self._each(self._density(dens)):
            parts = jvp(*given, tangents=moved(columns, inner), moves=moved(columns, moves), **how)
            for n, part in zip(self.asked.results, (parts,) if one else parts, strict=True):
                self._scatter(columns, n, columns.results(part, self._power(n)), changes)
        like = next(iter(tangents.values()))
        results = tuple(as_given(change, like) for change in changes.values())
        return results[0] if one else results

    def _each(self, dens: AnyArray) -> Iterator[tuple[Columns, tuple[Any, ...], dict[str, Any]]]:
        """Yield the columns of each group, its arguments of derivatives, systems and labels."""
        for group in self.groups:
            columns = self.columns(group)
            trg, src, norms = columns.points(self.cloud.trg, self.cloud.src, self.cloud.norms)
            own = None if dens is None else columns.take("dens", dens)
            systems, labels = group.marked(columns, self.systems, self.cloud.labels)
            how: dict[str, Any] = {"want": self.asked.want, "exclude": labels}
            how["systems"] = systems.targets, systems.sources
            yield columns, (self.asked.kernel, trg, src, own, norms, group.options), how

    def _power(self, result: str) -> int:
        """Return the power of sizes by which a result falls; composites have no sizes."""
        asked = self.asked
        return 0 if asked.composite else power_of(cast(str, asked.kernel), result)

    def _count(self, name: str) -> int:
        return self.cloud.targets if name in OF_TARGETS else self.cloud.sources

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each result."""
        return {n: (*shape, self._count(n)) for n, shape in self.asked.results.items()}

    def _density(self, dens: AnyArray) -> Any:
        return None if dens is None else self._input("dens", dens, "dens")

    def _moves(self, label: str, moves: Mapping[str, AnyArray]) -> dict[str, Any]:
        """Return moves of inputs, checked."""
        return {n: self._input(f"{label}[{n!r}]", each, n) for n, each in moves.items()}

    def _input(self, label: str, given: Any, name: str) -> Any:
        """Return an array of the shape of an input, or refuse it."""
        values, count = (
            like_points(label, given, self.cloud.space, self.cloud.src.dtype),
            self._count(name),
        )
        shape = *(self.asked.density if name == "dens" else (3,)), count
        of = "targets" if name == "trg" else "sources"
        check_density(label, values, shape, several=name == "dens", of=of)
        return values

    def _scatter(self, columns: Columns, name: str, part: Any, arrays: dict[str, AnyArray]) -> None:
        """Write a group's columns of an input or a result to ``found[name]``."""
        if name not in arrays:
            shape = (*part.shape[:-1], self._count(name))
            arrays[name] = self.cloud.space.array_module.empty(shape, part.dtype)
        arrays[name][..., columns.place(name)] = part


def moved(columns: Columns, moves: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return the moves of a group's points."""
    return {n: columns.scaled(n, columns.take(n, move)) for n, move in moves.items()}
