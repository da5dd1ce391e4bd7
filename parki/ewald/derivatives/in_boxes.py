"""Systems in boxes of their own: what is checked once, and derivatives, a group after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.geometry.boxes import Group, grouped
from parki.ewald.geometry.columns import OF_TARGETS, Columns
from parki.ewald.geometry.own_boxes import OwnBox, check_systems_of_boxes
from parki.ewald.geometry.systems import (
    Labels,
    LabelsLike,
    Systems,
    SystemsLike,
    check_systems,
    warn_of_long,
)
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.points import Cloud, check_density, check_fields, check_points, like_points
from parki.ewald.points.arguments import limits, refuse_between_walls
from parki.ewald.points.extent import lasting_lengths, resolve, warn_of_boxes
from parki.ewald.points.request import SumRequest
from parki.ewald.sums import SUMS
from parki.ewald.sums.maps import Arrays
from parki.interchange import as_given, names_of, to_host
from parki.typing import AnyArray, DerivedBy

Array = NDArray[np.float64]
NAMES = {"box", "lattice"}  # of derivatives by boxes


class Part(NamedTuple):
    """What a group has of all points."""

    columns: Columns
    trg: AnyArray
    src: AnyArray
    norms: AnyArray
    dens: AnyArray | None
    options: EwaldOptions
    systems: Systems
    labels: Labels | None
    extents: Array | None  # as `sum_once` takes it


class InBoxes(NamedTuple):
    """Points of systems in boxes of their own, checked, and the groups that are summed at once.

    Each box is looked at by the sum of its group.
    """

    request: SumRequest
    cloud: Cloud
    groups: list[Group]
    boxes: tuple[OwnBox, ...]

    @classmethod
    def checked(
        cls,
        request: SumRequest,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray,
        options: EwaldOptions,
        *,
        boxes: tuple[OwnBox, ...],
        systems: SystemsLike,
        exclude: LabelsLike,
        apart: bool = False,
    ) -> InBoxes:
        """Return the systems; refuse impossible arguments. For ``apart`` see `grouped`.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        remedy = "a sum has one system: call it for each, with its box"
        refuse_between_walls(options, {"boxes": True}, remedy)
        if options.walled and len({system.periodicity for system in boxes}) > 1:
            raise ParkiValueError(
                f"periodicities was given, but wall is {options.wall!r}; near a wall all systems "
                "have the same periodic axes: make a plan for each periodicity"
            )
        free = _free(options)
        cloud = request.cloud(trg, src, norms, free, systems=systems, exclude=exclude).checked()
        check_systems(cloud.systems, cloud.arrays, cloud.space, options)  # by the user's variants
        check_systems_of_boxes(cloud.systems.count if cloud.systems else None, boxes)
        cloud = replace(cloud, options=options)
        exact = cloud.src.dtype == np.float64
        moves = exact and request.composite is None  # whose maps take points where they are
        groups = grouped(
            options,
            boxes,
            several=partial(_several, request, cloud),
            exact=exact,
            apart=apart,
            extents=(lambda: cloud.system_extents) if moves else None,
        )
        checked = cls(request, cloud, groups, boxes)
        checked.check_inside()
        if cloud.labels and cloud.labels is not exclude:
            checked.warn_of_long(cloud.labels)
        return checked

    def check_inside(self) -> None:
        """Refuse points outside of their own box along a free axis, which sums take as longer."""
        for group in self.groups:
            if group.boxes is None or group.centred or all(group.options.periodic):
                continue
            lengths = group.boxes.vectors.diagonal(axis1=1, axis2=2)
            low, high = self.cloud.system_extents[group.numbers].swapaxes(0, 1)
            free = ~np.array(group.options.periodic)
            outside = ((low < 0) | (high > lengths))[:, free].any(axis=1)
            for n in np.array(group.numbers)[outside].tolist():
                options = self.boxes[n].of(self.cloud.options)
                for name, ends in (("trg", self.systems.targets), ("src", self.systems.sources)):
                    check_points(name, self.cloud.arrays[name][:, ends[n] : ends[n + 1]], options)

    def warn_of_long(self, labels: Labels) -> None:
        """Warn where the points of a label are on more than half of a period of their box."""
        for group in self.groups:
            columns = self.columns(group)
            trg, src, _ = columns.points(self.cloud.trg, self.cloud.src, None)
            _, of_group = group.marked(columns, self.systems, labels)
            warn_of_long(cast(Labels, of_group), {"trg": trg, "src": src}, group.options)

    def warn_of_images(self) -> None:
        """Warn where the mean of a double layer depends on images, in the boxes as given."""
        normals = "norms" in self.cloud.arrays and self.cloud.options.dl_mean is None
        for group in self.groups if normals else ():
            if group.boxes is not None and all(group.options.periodic):
                columns = self.columns(group)
                warn_of_boxes(
                    group.marked(columns, self.systems, None)[0],
                    self.cloud.src[..., columns.place("src")],
                    np.array([self._vectors(n) for n in group.numbers]),
                    group.boxes.vectors,
                )

    def _vectors(self, system: int) -> Array:
        """Return the vectors of a system's box, in rows, as they were given, if they were."""
        rows = np.eye(3)
        for axis, length in enumerate(self.boxes[system].box):
            if length not in (None, 0, (0, 0, 0)):
                rows[axis] = length if np.ndim(length) else length * rows[axis]
        return rows

    @property
    def systems(self) -> Systems:
        """The systems, which there are."""
        return cast(Systems, self.cloud.systems)

    def columns(self, group: Group) -> Columns:
        """Return the columns of a group's points."""
        return group.columns(self.systems, self.cloud.xp, lambda: self.cloud.system_extents)

    def enclosed(self, group: Group) -> tuple[Columns, EwaldOptions]:
        """Return the columns of a group for one sum, and its options, with all lengths.

        Those that points decide are longer, so that sums of other points keep the box.
        """
        if not group.centred:
            return self.columns(group), group.options
        widths = group.widths(self.cloud.system_extents)
        least = resolve(group.options, np.array([-0.5, 0.5])[:, None] * widths, None, self._size)
        sides = lasting_lengths(group.options, least.to_user(least.sides))
        columns = group.columns(
            self.systems, self.cloud.xp, lambda: self.cloud.system_extents, sides / 2
        )
        return columns, group.options.within(group.options.with_lengths(sides))

    @property
    def _size(self) -> float:
        """The size of a source, if it is not a point."""
        return SUMS[cast(str, self.request.kernel)].pair.size

    # ------------------------------------------------------------------ sums and derivatives
    def summed(self, dens: AnyArray) -> Any:
        """Return the wanted results of a density, or of several, by the sums of all groups."""
        like, dens = dens, self._density(dens)
        results, one = Arrays(), isinstance(self.request.want, str)
        for part in self.parts(dens):
            of_part = sum_once(
                self.request.kernel,
                part.trg,
                part.src,
                part.dens,
                part.norms,
                part.options,
                want=self.request.want,
                systems=part.systems,
                exclude=part.labels,
                extents=part.extents,
            )
            for n, rows in zip(self.request.results, (of_part,) if one else of_part, strict=True):
                self._scatter(part.columns, n, rows, results)
        arrays = tuple(as_given(rows, like) for rows in results.values())
        return arrays[0] if one else arrays

    def vjp(
        self,
        vjp: Callable[..., Arrays],
        *,
        dens: AnyArray | None,
        values: AnyArray,
        wrt: tuple[DerivedBy, ...],
        moves: Mapping[str, AnyArray],
    ) -> Arrays:
        """Return derivatives by name, of what ``vjp`` finds for each group."""
        want, space, dtype = self.request.want, self.cloud.space, self.cloud.src.dtype
        v, several = check_fields(
            "values", values, want=want, shapes=self.shapes, space=space, dtype=dtype
        )
        dens, derivatives = self._density(dens), Arrays()
        moves = self._moves("moves", moves)
        lattices = np.zeros((len(self.boxes), 3, 3))
        of_all = dict.fromkeys("lattice" if name in NAMES else name for name in wrt)
        for group, part in zip(self.groups, self.parts(dens), strict=True):
            columns, weights = part.columns, []
            # Nothing depends on a box without periodic axes.
            inner = [name for name in of_all if name != "lattice" or any(part.options.periodic)]
            if not inner:
                continue
            for n, rows in v.items():
                own = columns.take(n, rows)
                weights.append(own.reshape((*several, *self.request.results[n], own.shape[-1])))
            by_name = vjp(
                self.request.kernel,
                part.trg,
                part.src,
                part.dens,
                part.norms,
                part.options,
                values=weights[0] if isinstance(want, str) else weights,
                wrt=(*inner,),
                want=want,
                exclude=part.labels,
                systems=part.systems,
                moves=self._moved(columns, moves),
            )
            if "lattice" in by_name:
                lattices[group.numbers] = self._by_lattices(group, by_name.pop("lattice"))
            for name, rows in by_name.items():
                self._scatter(columns, name, rows, derivatives)
        for name in {*wrt} & NAMES:
            vectors = any(np.ndim(edge) for system in self.boxes for edge in system.box or ())
            edges = name == "box" and not vectors
            by_box = lattices.diagonal(axis1=1, axis2=2) if edges else lattices
            derivatives[name] = space.array_module.asarray(by_box.astype(dtype))
        like = values if isinstance(want, str) else values[0]
        return {name: as_given(derivatives[name], like) for name in wrt}

    def _by_lattices(self, group: Group, derivatives: AnyArray) -> Array:
        """Return derivatives by the vectors of the systems of a group, as they were given.

        The derivative D of rotated vectors M makes ``M^T D``, that by strains of the box, which
        rotates.
        """
        by_rows = np.asarray(to_host(derivatives), dtype=float).reshape(-1, 3, 3)
        if group.boxes is None:
            return by_rows
        matrices, rotations, _ = group.boxes
        strains = rotations.swapaxes(1, 2) @ matrices.swapaxes(1, 2) @ by_rows @ rotations
        vectors = np.array([self._vectors(n) for n in group.numbers])
        return np.asarray(np.linalg.inv(vectors).swapaxes(1, 2) @ strains)

    def jvp(
        self,
        jvp: Callable[..., AnyArray],
        *,
        dens: AnyArray | None,
        tangents: Mapping[str, AnyArray],
        moves: Mapping[str, AnyArray],
    ) -> Any:
        """Return the change of the sums, of what ``jvp`` finds for each group."""
        names_of("tangents", tangents, "names of inputs, with their changes", mapping=True)
        inner, moves = self._moves("tangents", tangents), self._moves("moves", moves)
        changes, one = Arrays(), isinstance(self.request.want, str)
        for part in self.parts(self._density(dens)):
            columns = part.columns
            change = jvp(
                self.request.kernel,
                part.trg,
                part.src,
                part.dens,
                part.norms,
                part.options,
                tangents=self._moved(columns, inner),
                want=self.request.want,
                exclude=part.labels,
                systems=part.systems,
                moves=self._moved(columns, moves),
            )
            for n, rows in zip(self.request.results, (change,) if one else change, strict=True):
                self._scatter(columns, n, rows, changes)
        like = next(iter(tangents.values()))
        results = tuple(as_given(change, like) for change in changes.values())
        return results[0] if one else results

    def parts(self, dens: AnyArray | None) -> Iterator[Part]:
        """Yield the points and the density of each group."""
        for group in self.groups:
            columns, options = self.enclosed(group)
            trg, src, norms = columns.points(self.cloud.trg, self.cloud.src, self.cloud.norms)
            systems, labels = group.marked(columns, self.systems, self.cloud.labels, options)
            yield Part(
                columns=columns,
                trg=trg,
                src=src,
                norms=norms,
                dens=None if dens is None else columns.take("dens", dens, self._axes("dens")),
                options=options,
                systems=systems,
                labels=labels,
                extents=self._looked_at(group, options),
            )

    def _looked_at(self, group: Group, options: EwaldOptions) -> Array | None:
        """Return the extents of all points, if points of a group need not be looked at again.

        A sum of boxes of their own has no more to refuse, and to warn of, unless points are far.
        """
        if group.boxes is None and any(options.periodic):
            return None
        extents, (lowest, highest) = self.cloud.extents, limits(options, self.cloud.src.dtype)
        near = (lowest <= extents) & (extents <= highest)
        return extents if near[:, options.periodic].all() else None

    def _moved(self, columns: Columns, moves: Mapping[str, AnyArray]) -> Arrays:
        """Return the moves of a group's points."""
        return {n: columns.take(n, move, self._axes(n)) for n, move in moves.items()}

    def _axes(self, name: str) -> int:
        """Return how many axes the values of an input or a result have."""
        shapes = {"dens": self.request.density, **self.request.results}
        return len(shapes.get(name, (3,)))

    def _count(self, name: str) -> int:
        return self.cloud.targets if name in OF_TARGETS else self.cloud.sources

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each result."""
        return {n: (*shape, self._count(n)) for n, shape in self.request.results.items()}

    def _density(self, dens: AnyArray | None) -> AnyArray | None:
        return None if dens is None else self._input("dens", dens, "dens")

    def _moves(self, label: str, moves: Mapping[str, AnyArray]) -> Arrays:
        """Return moves of inputs, checked."""
        return {n: self._input(f"{label}[{n!r}]", move, n) for n, move in moves.items()}

    def _input(self, label: str, array: AnyArray, name: str) -> AnyArray:
        """Return an array of the shape of an input, or refuse it."""
        values = like_points(label, array, self.cloud.space, self.cloud.src.dtype)
        shape = *(self.request.density if name == "dens" else (3,)), self._count(name)
        of = "targets" if name == "trg" else "sources"
        single = name == "dens" and self.cloud.options.precision == "mixed"
        check_density(label, values, shape, several=name == "dens", of=of, single=single)
        return values

    def _scatter(self, columns: Columns, name: str, rows: AnyArray, arrays: Arrays) -> None:
        """Write a group's columns of an input or a result to ``arrays[name]``."""
        rows = columns.back(name, rows, self._axes(name))
        if name not in arrays:
            shape = (*rows.shape[:-1], self._count(name))
            arrays[name] = self.cloud.space.array_module.empty(shape, rows.dtype)
        arrays[name][..., columns.place(name)] = rows


@lru_cache(maxsize=64)
def _free(options: EwaldOptions) -> EwaldOptions:
    """Return the options of sums without a box."""
    return EwaldOptions(
        0,
        tolerance=options.tolerance,
        precision=options.precision,
        execution_space=options.execution_space,
    )


def _several(request: SumRequest, cloud: Cloud, options: EwaldOptions) -> bool:
    """Return whether one sum takes systems in several boxes.

    Not for composites, as maps take points where the user has them, and pairs left out, sums with a
    second grid or an axis of their own, and the mean without flux.
    """
    if request.composite or cloud.labels or not any(options.periodic):
        return False
    if cloud.src.dtype == np.float32 and not cloud.same:  # which may be a period apart
        return False
    kind = SUMS[cast(str, request.kernel)]
    whole = kind.symbol.grids == 1 and not (kind.overlap_correction or kind.pair.point_radii)
    if kind.symbol.alpha and sum(options.periodic) == 2:  # whose mean over a plane is another sum
        return False
    return whole and kind.symbol.up is None and options.dl_mean != "flux"
