"""`BatchedPlan`: systems in boxes of their own, as plans of systems that share a box.

A sum without a length of its own is the same in a box of twice the size, up to a power of two. So
with three periodic axes systems share a plan if their boxes have one shape, and their points are
scaled to the box of the first of them. Other sums, and other periodicities, need equal boxes. So do
points in single precision, where scaled positions would be rounded too much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.derivatives.linear_operator import linear_operator, shapes_of
from parki.ewald.derivatives.vjp import jvp, vjp
from parki.ewald.geometry.systems import Systems, check_systems, rows_of_boxes
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan, Uncopied
from parki.ewald.points import (
    check_arguments,
    check_density,
    check_outputs,
    like_points,
    result_shape,
    take_options,
)
from parki.ewald.sums import SUMS
from parki.ewald.task import Task
from parki.interchange import as_given, names_of
from parki.memory import telling
from parki.runtime.forks import cached_property
from parki.typing import InputName, OptionKeywords, Unpack

DIGITS = 14  # to which the shapes of boxes agree


@dataclass
class _Group:
    """Systems that share a plan, by their numbers, and the sizes of their boxes over the plan's."""

    options: EwaldOptions
    numbers: list[int]
    sizes: list[float]
    plan: Any = None
    targets: Any = None  # their columns
    sources: Any = None
    # Sizes of each target and source, where they differ.
    scales: tuple[Any, Any] = (None, None)

    def place(self, systems: Systems, xp: Any) -> None:
        """Find the columns of the systems."""

        def columns(offsets: NDArray[np.int32]) -> Any:
            each = [np.arange(offsets[n], offsets[n + 1]) for n in self.numbers]
            return xp.asarray(np.concatenate(each))

        self.targets, self.sources = columns(systems.targets), columns(systems.sources)
        if any(size != 1 for size in self.sizes):
            counts = [np.diff(each)[self.numbers] for each in (systems.targets, systems.sources)]
            of_targets, of_sources = (xp.asarray(np.repeat(self.sizes, n)) for n in counts)
            self.scales = of_targets, of_sources

    def columns(self, name: str) -> Any:
        """Return the columns of an argument or a result."""
        return self.targets if name in ("trg", "u") else self.sources

    def scaled(self, name: str, values: Any) -> Any:
        """Return lengths of points or normals, or derivatives by them, over the boxes' sizes."""
        scale = self.scales[name not in ("trg", "u")]
        return values if scale is None or name == "dens" else values / scale

    def points(self, arrays: dict[str, Any], systems: Systems) -> tuple[Any, ...]:
        """Return targets, sources, normals, and offsets of them, in the plan's box."""
        trg, src, norms = (
            self.scaled(name, arrays[name][:, self.columns(name)]) if name in arrays else None
            for name in ("trg", "src", "norms")
        )
        same = arrays["trg"] is arrays["src"]
        return trg, trg if same else src, norms, self.offsets(systems)

    def offsets(self, systems: Systems) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the points of each system begin in the plan."""
        of_targets, of_sources = (
            np.concatenate([[0], np.cumsum(np.diff(each)[self.numbers])])
            for each in (systems.targets, systems.sources)
        )
        return of_targets, of_sources


class BatchedPlan(Uncopied):
    """Systems in boxes of their own, which have nothing to do with each other.

    Parameters
    ----------
    kernel, trg, src, norms, options, want, systems, **keywords
        As for `parki.Plan`; the boxes take the place of the options' ``box``.
    boxes : array or sequence, shape (S, 3) or (S, 3, 3)
        The edge lengths or the lattice vectors of each system; as for ``box``, None along free axes
        is the extent of the points, here of all systems that have the same box.

    Attributes
    ----------
    plans : list of Plan
        Plans of the systems that share one.

    Raises
    ------
    ParkiValueError, ParkiTypeError, ParkiMemoryError
        As of `parki.Plan`; and if there are not as many boxes as systems.
    """

    @telling
    def __init__(
        self,
        kernel: Any,
        trg: Any,
        src: Any,
        norms: Any = None,
        options: Any = None,
        *,
        want: Any = "u",
        systems: Any = None,
        boxes: Any,
        exclude: Any = None,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        if exclude is not None:
            raise ParkiValueError(
                "exclude was given with boxes, whose systems leave out no pairs; leave it out, or "
                "sum systems with one box in the options"
            )
        rows = rows_of_boxes(boxes)
        norms, options = take_options(norms, options, keywords, box=rows[0])
        each = [replace(options, box=row) for row in rows]
        self._options: EwaldOptions = options
        self.want = want
        checked = self._arguments(kernel, trg, src, norms)
        self.kernel, self.space = checked.kernel, checked.space
        if systems is None:
            raise ParkiValueError(
                "boxes was given without systems; say by systems where the points of each box "
                "begin, or give one box in the options"
            )
        self._systems = self._checked(systems, checked.arrays, len(rows))
        self.dtype = np.dtype(checked.arrays["src"].dtype)
        self._groups = self._grouped(each)
        xp, plan = self.space.array_module, cast(Any, Plan)
        for group in self._groups:
            group.place(self._systems, xp)
            *given, offsets = group.points(checked.arrays, self._systems)
            group.plan = plan(self.kernel, *given, group.options, want=want, systems=offsets)

    def _arguments(self, kernel: Any, trg: Any, src: Any, norms: Any) -> Any:
        """Return checked arguments; each box is looked at by its plan."""
        tolerance, precision = self.options.tolerance, self.options.precision
        space = self.options.execution_space
        own = EwaldOptions(0, tolerance=tolerance, precision=precision, execution_space=space)
        return check_arguments(kernel, trg, src, norms, own)

    def _checked(self, systems: Any, arrays: dict[str, Any], boxes: int) -> Systems:
        found = check_systems(systems, arrays, self.space, self.options)
        if found is None or found.count != boxes:
            count = found.count if found else 0
            raise ParkiValueError(
                f"boxes has {boxes} boxes, but systems has {count} systems; give each system a box"
            )
        return found

    def _grouped(self, each: list[EwaldOptions]) -> list[_Group]:
        """Return the groups of systems that share a plan."""
        similar = all(self.options.periodic) and self.dtype == np.float64
        similar = similar and SUMS.in_unit(self.kernel, 2.0) == self.kernel
        groups: dict[Any, _Group] = {}
        for number, options in enumerate(each):
            key: Any = options.box
            edge: Any = options.edges[0]
            if similar:
                key = tuple(round(length / edge, DIGITS) for length in np.ravel(key).tolist())
            group = groups.setdefault(key, _Group(options, [], []))
            first: Any = group.options.edges[0]
            group.numbers.append(number)
            group.sizes.append(edge / first if similar else 1.0)
        return list(groups.values())

    @property
    def options(self) -> EwaldOptions:
        """The options, with the first box."""
        return self._options

    @property
    def plans(self) -> list[Plan[Any]]:
        """The plans of the groups."""
        return [group.plan for group in self._groups]

    @property
    def task(self) -> Task:
        """What is summed, in the first box."""
        task: Task = self._groups[0].plan.task
        return task

    @property
    def points(self) -> Systems:
        """Where the points of each system are: another object for other points."""
        return self._systems

    @property
    def n_targets(self) -> int:
        """Targets of all systems."""
        return int(self._systems.targets[-1])

    @property
    def n_sources(self) -> int:
        """Sources of all systems."""
        return int(self._systems.sources[-1])

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.want,) if isinstance(self.want, str) else tuple(self.want)

    @cached_property
    def _powers(self) -> dict[str, int]:
        """Powers of a length by which results fall; normals are scaled along with the points."""
        kind = SUMS[self.kernel]
        power = 1 if kind.normals else kind.pair.power
        return {name: power + (name != "u") for name in self._names}

    def _scaled(self, group: _Group, name: str, values: Any) -> Any:
        """Return results of a group's plan, or values for its adjoint, in the units of each box."""
        scale, _ = group.scales
        return values if scale is None else values / scale ** self._powers[name]

    def update_points(self, trg: Any, src: Any, norms: Any = None, *, systems: Any = None) -> None:
        """Give the systems other points in the same boxes: see `parki.Plan.update_points`."""
        checked = self._arguments(self.kernel, trg, src, norms)
        old, xp, done = self._systems, self.space.array_module, []
        given = (old.targets, old.sources) if systems is None else systems
        new = self._checked(given, checked.arrays, old.count)
        try:
            for group in self._groups:
                before = dict(group.plan.points.arrays), group.offsets(self._systems)
                group.place(new, xp)
                *points, offsets = group.points(checked.arrays, new)
                done.append((group, before))
                group.plan.update_points(*points, systems=offsets)
        except BaseException:
            for group, (arrays, offsets) in done:
                group.place(old, xp)
                group.plan.update_points(
                    arrays["trg"], arrays["src"], arrays.get("norms"), systems=offsets
                )
            raise
        self._systems = new

    # ------------------------------------------------------------------ apply
    def _density(self, dens: Any) -> tuple[Any, tuple[int, ...]]:
        """Return a density in the memory of the points, and (k,) of k of them."""
        values = like_points("dens", dens, self.space, self.dtype)
        shape = self.task.sum.density_shape(self.n_sources)
        return values, check_density("dens", values, shape, several=True).shape[:-2]

    @telling
    def __call__(self, dens: Any, out: Any = None) -> Any:
        """Return the wanted results of a density, or of several: see `parki.Plan`."""
        values, several = self._density(dens)
        shapes = {n: (*several, *result_shape(self.kernel, n, self.n_targets)) for n in self._names}
        results = check_outputs(out, self.want, shapes, values, self.space)
        for group in self._groups:
            found = group.plan(values[..., group.sources])
            parts = (found,) if isinstance(self.want, str) else found
            for name, part in zip(self._names, parts, strict=True):
                results[name][..., group.targets] = self._scaled(group, name, part)
        found = tuple(results.values())
        given = found[0] if isinstance(self.want, str) else found
        return as_given(given, dens) if out is None else given

    def adjoint(self, values: Any) -> Any:
        """Return the transposed sum of values at the targets: see `parki.Plan.adjoint`."""
        one = isinstance(self.want, str)
        given = (values,) if one else values
        arrays = [like_points("values", each, self.space, self.dtype) for each in given]
        for name, array in zip(self._names, arrays, strict=True):
            shape = result_shape(self.kernel, name, self.n_targets)
            check_density("values", array, shape, several=True, of="targets")
        found: dict[str, Any] = {}
        for group in self._groups:
            own = [
                self._scaled(group, name, array[..., group.targets])
                for name, array in zip(self._names, arrays, strict=True)
            ]
            self._scatter(group, "dens", group.plan.adjoint(own[0] if one else tuple(own)), found)
        return as_given(found["dens"], given[0])

    def vjp(self, dens: Any, values: Any, wrt: tuple[InputName, ...] = ("dens",)) -> dict[str, Any]:
        """Return the derivatives of ``<values, u>``, ``u = plan(dens)``: see `parki.vjp`."""
        v = self._input("values", values, "u")
        dens = None if dens is None else self._density(dens)[0]
        found: dict[str, Any] = {}
        for group in self._groups:
            given = self._given(group, dens)
            own = self._scaled(group, "u", v[..., group.targets])
            for name, part in vjp(*given[:-1], values=own, wrt=wrt, systems=given[-1]).items():
                self._scatter(group, name, group.scaled(name, part), found)
        return {name: as_given(array, values) for name, array in found.items()}

    def jvp(self, dens: Any, tangents: dict[InputName, Any]) -> Any:
        """Return the first-order change of ``plan(dens)``: see `parki.jvp`."""
        names_of("tangents", tangents, "names of inputs, with their changes", mapping=True)
        moves = {n: self._input(f"tangents[{n!r}]", each, n) for n, each in tangents.items()}
        dens = None if dens is None else self._density(dens)[0]
        found: dict[str, Any] = {}
        for group in self._groups:
            *given, systems = self._given(group, dens)
            own: Any = {n: group.scaled(n, a[..., group.columns(n)]) for n, a in moves.items()}
            part = jvp(*given, tangents=own, systems=systems)
            self._scatter(group, "u", self._scaled(group, "u", part), found)
        return as_given(found["u"], next(iter(tangents.values())))

    def _scatter(self, group: _Group, name: str, part: Any, found: dict[str, Any]) -> None:
        """Write a group's columns of an input or a result to ``found[name]``."""
        if name not in found:
            shape = (*part.shape[:-1], self._counts[name in ("trg", "u")])
            found[name] = self.space.array_module.empty(shape, part.dtype)
        found[name][..., group.columns(name)] = part

    def _given(self, group: _Group, dens: Any) -> tuple[Any, ...]:
        """Return the arguments of derivatives of a group's sums, and at last its systems."""
        at, own = group.plan.points.arrays, None if dens is None else dens[..., group.sources]
        points = at["trg"], at["src"], own, at.get("norms"), group.options
        return self.kernel, *points, group.offsets(self._systems)

    def _input(self, label: str, given: Any, name: str) -> Any:
        """Return an array of the shape of an input or of the result, or refuse it."""
        if self.want != "u":
            raise ParkiValueError(
                f"derivatives are of plans with want='u', but want is {self.want!r}; make a plan "
                "with want='u'"
            )
        values = like_points(label, given, self.space, self.dtype)
        count, kind = self._counts[name in ("trg", "u")], SUMS[self.kernel]
        shape = {"u": result_shape(self.kernel, "u", count), "dens": kind.density_shape(count)}
        several, of = name in shape, "targets" if name in ("trg", "u") else "sources"
        check_density(label, values, shape.get(name, (3, count)), several=several, of=of)
        return values

    @property
    def _counts(self) -> tuple[int, int]:
        """Sources and targets."""
        return self.n_sources, self.n_targets

    # ------------------------------------------------------------------ views
    def promise(self, dens: Any) -> Any:
        """Return the bounds of the rms errors of each system: see `parki.Plan.promise`.

        Returns
        -------
        array, shape (S,), or tuple of them if ``want`` is a tuple
            The shape is (k, S) for k densities at once.
        """
        values, _ = self._density(dens)
        found: dict[str, Any] = {}
        for group in self._groups:
            bounds = group.plan.promise(values[..., group.sources])
            parts = (bounds,) if isinstance(self.want, str) else bounds
            for name, part in zip(self._names, parts, strict=True):
                shape = (*part.shape[:-1], self._systems.count)
                own = part / np.array(group.sizes) ** self._powers[name]
                found.setdefault(name, np.empty(shape))[..., group.numbers] = own
        return found[self._names[0]] if isinstance(self.want, str) else tuple(found.values())

    def describe(self) -> str:
        """Return how many plans there are, and what was chosen for each."""
        count, plans = self._systems.count, self.plans
        lines = [f"{self.kernel}: {count} systems in boxes of their own, {len(plans)} plans"]
        return "\n".join([*lines, *(plan.describe() for plan in plans)])

    def __repr__(self) -> str:
        return f"<parki.Plan: {self.kernel}, {self._systems.count} boxes>"

    def as_linear_operator(self) -> Any:
        """Return the plan as a linear operator: see `parki.Plan.as_linear_operator`."""
        shapes = shapes_of(self, "as_linear_operator")
        return linear_operator(self, self.adjoint, shapes, self.dtype, self.space)
