"""Systems in boxes of their own: what is checked once, and derivatives, a group after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from parki.ewald.derivatives.mapped_sum import arguments_of, labels_of
from parki.ewald.geometry.boxes import Columns, Group, check_systems_of_boxes, grouped
from parki.ewald.geometry.labels import Labels, check_labels, warn_of_long
from parki.ewald.geometry.systems import Systems, check_systems
from parki.ewald.options import EwaldOptions
from parki.ewald.points import check_density, like_points, result_shape, take_arguments
from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import Composite
from parki.interchange import as_given, names_of
from parki.runtime import ExecutionSpace


def power_of(kernel: str, name: str) -> int:
    """Return the power of a length by which a result falls, where normals are lengths, too."""
    kind = SUMS[kernel]
    return (1 if kind.normals else kind.pair.power) + (name != "u")


class InBoxes(NamedTuple):
    """Points of systems in boxes of their own, checked, and the groups that are summed at once.

    Each box is looked at by the sum of its group.
    """

    kernel: str | Composite
    composite: Composite | None
    space: ExecutionSpace
    trg: Any
    src: Any
    norms: Any
    systems: Systems
    labels: Labels | None
    groups: list[Group]

    @classmethod
    def checked(
        cls,
        kernel: Any,
        composite: Composite | None,
        points: tuple[Any, Any, Any],
        options: EwaldOptions,
        boxes: tuple[Any, ...],
        systems: Any,
        exclude: Any,
    ) -> InBoxes:
        """Return the systems; refuse impossible arguments.

        ``composite`` is what sums ``kernel``, if it is one.

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
        if composite is None:
            taken = take_arguments(kernel, *points, free)
        else:
            taken = arguments_of(composite, composite is kernel, *points, free)
        taken = taken.checked()
        arrays = taken.arrays
        if isinstance(systems, Systems):
            systems = systems.targets, systems.sources
        systems = check_systems(systems, arrays, taken.space, options)
        systems = check_systems_of_boxes(systems, len(boxes))
        points = arrays["trg"], arrays["src"], taken.normals
        if composite is None:
            kernel, own = taken.kernel, SUMS[taken.kernel].pair.of_points
            labels = check_labels(exclude, kernel, own, arrays, free, systems)
            similar = all(options.periodic) and arrays["src"].dtype == np.float64
            similar = similar and SUMS.in_unit(kernel, 2.0) == kernel
        else:  # whose maps may have lengths
            labels, similar = labels_of(composite, exclude, arrays, free, systems), False
        of = taken.space, *points, systems, labels, grouped(options, boxes, similar)
        made = cls(kernel, composite, *of)
        if labels and labels is not exclude:
            made.warn_of_long(labels)
        return made

    def warn_of_long(self, labels: Labels) -> None:
        """Warn where the points of a label are on more than half of a period of their box."""
        for group in self.groups:
            columns = self.columns(group)
            trg, src, _ = columns.points(self.trg, self.src, None)
            _, own = group.marked(columns, self.systems, labels)
            warn_of_long(cast(Labels, own), {"trg": trg, "src": src}, group.options)

    def columns(self, group: Group) -> Columns:
        """Return the columns of a group's points."""
        return group.columns(self.systems, self.space.array_module)

    # ------------------------------------------------------------------ derivatives
    def vjp(self, vjp: Callable[..., Any], dens: Any, values: Any, wrt: Any) -> dict[str, Any]:
        """Return derivatives by name, of what ``vjp`` finds for each group."""
        v, dens = self._input("values", values, "u"), self._density(dens)
        derivatives: dict[str, Any] = {}
        for columns, given, how in self._each(dens):
            own = columns.results(columns.take("u", v), self._power)
            for name, part in vjp(*given, values=own, wrt=wrt, **how).items():
                self._scatter(columns, name, columns.scaled(name, part), derivatives)
        return {name: as_given(array, values) for name, array in derivatives.items()}

    def jvp(self, jvp: Callable[..., Any], dens: Any, tangents: dict[Any, Any]) -> Any:
        """Return the change of the sums, of what ``jvp`` finds for each group."""
        names_of("tangents", tangents, "names of inputs, with their changes", mapping=True)
        moves = {n: self._input(f"tangents[{n!r}]", each, n) for n, each in tangents.items()}
        changes: dict[str, Any] = {}
        for columns, given, how in self._each(self._density(dens)):
            own = {n: columns.scaled(n, columns.take(n, a)) for n, a in moves.items()}
            part = jvp(*given, tangents=own, **how)
            self._scatter(columns, "u", columns.results(part, self._power), changes)
        return as_given(changes["u"], next(iter(tangents.values())))

    def _each(self, dens: Any) -> Iterator[tuple[Columns, tuple[Any, ...], dict[str, Any]]]:
        """Yield the columns of each group, its arguments of derivatives, systems and labels."""
        for group in self.groups:
            columns = self.columns(group)
            trg, src, norms = columns.points(self.trg, self.src, self.norms)
            own = None if dens is None else columns.take("dens", dens)
            systems, labels = group.marked(columns, self.systems, self.labels)
            how = {"systems": (systems.targets, systems.sources), "exclude": labels}
            yield columns, (self.kernel, trg, src, own, norms, group.options), how

    @property
    def _power(self) -> int:
        """The power of sizes by which results fall; composites have no sizes."""
        return 0 if self.composite else power_of(cast(str, self.kernel), "u")

    def _count(self, name: str) -> int:
        return int((self.trg if name in ("trg", "u") else self.src).shape[1])

    def _density(self, dens: Any) -> Any:
        return None if dens is None else self._input("dens", dens, "dens")

    def _input(self, label: str, given: Any, name: str) -> Any:
        """Return an array of the shape of an input or of the result, or refuse it."""
        values = like_points(label, given, self.space, self.src.dtype)
        count, composite, kernel = self._count(name), self.composite, cast(str, self.kernel)
        if composite:
            shape = {"u": (*composite.result, count), "dens": (*composite.density, count)}
        else:
            own = SUMS[kernel].density_shape(count)
            shape = {"u": result_shape(kernel, "u", count), "dens": own}
        several, of = name in shape, "targets" if name in ("trg", "u") else "sources"
        check_density(label, values, shape.get(name, (3, count)), several=several, of=of)
        return values

    def _scatter(self, columns: Columns, name: str, part: Any, arrays: dict[str, Any]) -> None:
        """Write a group's columns of an input or a result to ``found[name]``."""
        if name not in arrays:
            shape = (*part.shape[:-1], self._count(name))
            arrays[name] = self.space.array_module.empty(shape, part.dtype)
        arrays[name][..., columns.place(name)] = part
