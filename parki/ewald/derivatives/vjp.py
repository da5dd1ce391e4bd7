"""`vjp` and `jvp`: derivatives of sums by their densities, normals, targets and sources.

A sum is a composite of one. The derivatives of its sums are carried through the maps of a
composite. See ``docs/derivatives.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple, cast

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.derivatives.by_box import NAMES, check_box
from parki.ewald.derivatives.by_length import by_scale
from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.derivatives.mapped_sum import MappedSum
from parki.ewald.geometry.systems import LabelsLike, SystemsLike, first_box, rows_of_boxes
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.points import Cloud, check_density, check_fields, like_points, take_options
from parki.ewald.points.extent import resolve
from parki.ewald.points.request import SumRequest
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS
from parki.ewald.sums.changes import changed
from parki.ewald.sums.composite import Addend, Composite, Shared, joined, together
from parki.ewald.sums.maps import Arrays
from parki.interchange import as_given, names_of
from parki.memory import telling
from parki.typing import (
    AnyArray,
    AnyKernel,
    Array,
    ArrayT,
    Boxes,
    DerivedBy,
    InputName,
    OfPoints,
    OptionKeywords,
    Unpack,
)

INPUTS = ("trg", "src", "dens", "norms")
NONE: Mapping[str, AnyArray] = {}


@telling
def vjp(
    kernel: AnyKernel | Composite,
    trg: Array,
    src: Array,
    dens: Array | None,
    norms: Array | EwaldOptions | None = None,
    options: EwaldOptions | None = None,
    *,
    values: ArrayT | Sequence[ArrayT],
    wrt: tuple[DerivedBy, ...] = ("dens",),
    want: str | tuple[str, ...] = "u",
    exclude: OfPoints | None = None,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    **keywords: Unpack[OptionKeywords],
) -> dict[str, ArrayT]:
    """Return the derivatives of ``<values, u>``, u a sum, with respect to its inputs.

    With several results, these products add up.

    Parameters
    ----------
    kernel, trg, src, norms, options, want, exclude, systems, boxes, **keywords
        As for `Plan`; a `parki.ewald.sums.composite.Composite` may take the place of the kernel.
        Targets that are sources, one object, have derivatives in both roles: add them up.
    dens : array
        The density of the sum, or k of them at once; may be None for derivatives with respect to
        densities alone.
    values : array, shape (3, Nt), or (Nt,) for Laplace; or tuple of arrays if ``want`` is one
        Weights in the shapes of the results, in the dtype and memory of the points; k comes first
        if there are k densities.
    wrt : tuple of {"dens", "norms", "trg", "src", "box", "lattice", "kappa", "alpha", "epsilon"}
        Inputs to differentiate with respect to; "box", or "lattice" for a row for each lattice
        vector even where the box has lengths. Points stay where they are while the box changes:
        see ``docs/derivatives.md``. The last three are parameters of sums.

    Returns
    -------
    dict of str to array
        The derivatives by the names of ``wrt``: in the shape of that argument and the library of
        ``values``. Derivatives with respect to normals, points and the box are summed over k
        densities. For the errors see ``docs/derivatives.md``.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, as for a plan; and for derivatives that parki does not have.

    Examples
    --------
    >>> import numpy as np, parki
    >>> rng = np.random.default_rng(0)
    >>> points, forces, values = rng.random((3, 3, 1000))
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1])
    >>> given = ("stokes_sl", points, points, forces, options)
    >>> found = parki.vjp(*given, values=values, wrt=("dens", "trg", "src"))
    >>> found["dens"].shape
    (3, 1000)
    """
    norms, options = take_options(norms, options, keywords, box=first_box(boxes))
    return pulled(
        kernel,
        trg,
        src,
        dens,
        norms,
        options,
        values=values,
        wrt=wrt,
        want=want,
        exclude=exclude,
        systems=systems,
        boxes=boxes,
    )


@telling
def pulled(
    kernel: str | Composite,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray,
    options: EwaldOptions,
    *,
    values: AnyArray,
    wrt: tuple[DerivedBy, ...],
    want: str | tuple[str, ...] = "u",
    exclude: LabelsLike = None,
    systems: SystemsLike = None,
    boxes: Boxes | None = None,
    moves: Mapping[str, AnyArray] = NONE,
    ranks: Ranks = SERIAL,
) -> Arrays:
    """Return the derivatives by inputs: see `vjp`.

    With ``moves`` of normals, targets or sources they are derivatives of the change of the velocity
    or potential.
    """
    if boxes is not None:
        by, request = {*wrt, *moves}, SumRequest.of(kernel, want, options)
        _check_boxes(boxes, by)
        in_boxes = InBoxes.checked(
            request,
            trg,
            src,
            norms,
            options,
            boxes=rows_of_boxes(boxes),
            systems=systems,
            exclude=exclude,
        )
        return in_boxes.vjp(pulled, dens=dens, values=values, wrt=wrt, moves=moves)
    checked = _Checked.of(
        kernel,
        trg,
        src,
        dens,
        norms,
        options,
        want=want,
        label="wrt",
        names=wrt,
        moves=moves,
        exclude=exclude,
        systems=systems,
        ranks=ranks,
    )
    v, many = checked.values(values)
    if {*wrt} != {"dens"}:
        checked.check_as_many("values", next(iter(v.values())))
    count, checked = len(next(iter(v.values()))), checked._replace(dens=_some(checked.dens))
    v = {name: _some(rows) for name, rows in v.items()}
    by_box, by_length = {*wrt} & {*NAMES}, {*wrt} & {*checked.lengths}
    inputs: set[str] = {name for name in wrt if name not in by_box | by_length}
    lattice = "lattice" if "lattice" in wrt or checked.options.cell is not None else "box"
    inputs |= {"trg", "src", lattice} if by_box or by_length else set()
    inputs |= checked.inputs.keys() if by_length else set()
    if {*wrt} == {"dens"}:
        parts = [checked.pulled(checked.sums, v, dens=None, wrt=inputs)]
    else:
        of_one = [{name: rows[n : n + 1] for name, rows in v.items()} for n in range(max(1, count))]
        pairs, sums = zip(of_one, checked.dens, strict=True), checked.sums
        parts = [checked.pulled(sums, one, dens=density, wrt=inputs) for one, density in pairs]
    derivatives: Arrays = {n: sum(part[n] for part in parts) for n in inputs if n != "dens"}
    shapes = dict(checked.shapes)
    if by_box:
        derivatives |= checked.by_box(derivatives[lattice])
    if by_length:
        derivatives |= checked.by_lengths(parts, v["u"])
    if "dens" in wrt:
        every = [part["dens"] for part in parts]
        derivatives["dens"] = checked.cloud.xp.concatenate(every)[:count]
        shapes["dens"] = (*many, *shapes["dens"])
    wanted = {name: derivatives[name] for name in wrt}
    shaped = {name: a.reshape(shapes.get(name, a.shape)) for name, a in wanted.items()}
    dtype = checked.cloud.trg.dtype  # maps may have made another
    like = values if isinstance(want, str) else values[0]
    return {n: as_given(array.astype(dtype, copy=False), like) for n, array in shaped.items()}


@telling
def jvp(
    kernel: AnyKernel | Composite,
    trg: Array,
    src: Array,
    dens: Array | None,
    norms: Array | EwaldOptions | None = None,
    options: EwaldOptions | None = None,
    *,
    tangents: dict[InputName, ArrayT],
    want: str | tuple[str, ...] = "u",
    exclude: OfPoints | None = None,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Return the first-order change of a sum u for changes of its arguments.

    Parameters
    ----------
    kernel, trg, src, dens, norms, options, want, exclude, systems, boxes, **keywords
        As for `vjp`.
    tangents : dict of str to array
        Changes of "dens", "norms", "trg", "src": in their shapes, in the dtype and memory of the
        points. Arguments left out do not change.

    Returns
    -------
    array, or tuple of arrays if ``want`` is one
        The change, in the shape of the sum and the library of the first of ``tangents``.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, as for a plan.
    """
    norms, options = take_options(norms, options, keywords, box=first_box(boxes))
    return pushed(
        kernel,
        trg,
        src,
        dens,
        norms,
        options,
        tangents=cast(Mapping[str, AnyArray], tangents),
        want=want,
        exclude=exclude,
        systems=systems,
        boxes=boxes,
    )


@telling
def pushed(
    kernel: str | Composite,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray,
    options: EwaldOptions,
    *,
    tangents: Mapping[str, AnyArray],
    want: str | tuple[str, ...] = "u",
    exclude: LabelsLike = None,
    systems: SystemsLike = None,
    boxes: Boxes | None = None,
    moves: Mapping[str, AnyArray] = NONE,
    ranks: Ranks = SERIAL,
) -> Any:
    """Return the change of a sum, or of its change: see `jvp`, and for the arguments `pulled`."""
    if boxes is not None:
        by, request = {*tangents, *moves}, SumRequest.of(kernel, want, options)
        _check_boxes(boxes, by)
        in_boxes = InBoxes.checked(
            request,
            trg,
            src,
            norms,
            options,
            boxes=rows_of_boxes(boxes),
            systems=systems,
            exclude=exclude,
        )
        return in_boxes.jvp(pushed, dens=dens, tangents=tangents, moves=moves)
    checked = _Checked.of(
        kernel,
        trg,
        src,
        dens,
        norms,
        options,
        want=want,
        label="tangents",
        names=tangents,
        moves=moves,
        exclude=exclude,
        systems=systems,
        ranks=ranks,
    )
    inner = checked.moved("tangents", tangents)
    like, changes = next(iter(tangents.values())), inner.pop("dens", None)
    many = checked.dens if checked.dens is not None else _many(changes)
    if changes is not None:
        checked.check_as_many("tangents['dens']", _many(changes))
        inner["dens"] = _some(_many(changes))
    several = checked.several if checked.dens is not None else changes.ndim == 3
    shapes, dtype, results = checked.shapes_of_results, checked.cloud.trg.dtype, []
    for name, rows in checked.pushed(_some(many), inner).items():
        changed = rows[: len(many)].astype(dtype, copy=False)
        shape = *changed.shape[: 1 if several else 0], *shapes[name]
        results.append(as_given(changed.reshape(shape), like))
    return results[0] if isinstance(want, str) else tuple(results)


def _check_boxes(boxes: Boxes, by: Iterable[str]) -> None:
    """Refuse derivatives by boxes, and by lengths in boxes, that cannot be told apart."""
    for name in {*by} & {*NAMES, *SUMS.parameters}:
        check_box(boxes, "the box" if name in NAMES else name)


class _Checked(NamedTuple):
    """What is asked, with checked arguments: densities are (k, rows, Ns)."""

    asked: SumRequest
    cloud: Cloud
    options: EwaldOptions  # by which derivatives are summed
    ranks: Ranks
    dens: AnyArray = None
    several: bool = False
    length: float = 1.0  # of the box
    lengths: Mapping[str, tuple[float, int]] = {}  # parameters, and their powers of a length
    moves: Mapping[str, AnyArray] = NONE  # whose change it is of

    @classmethod
    def of(
        cls,
        kernel: str | Composite,
        trg: AnyArray,
        src: AnyArray,
        dens: AnyArray,
        norms: AnyArray,
        options: EwaldOptions,
        *,
        want: str | tuple[str, ...],
        label: str,
        names: Iterable[str],
        moves: Mapping[str, AnyArray],
        exclude: LabelsLike,
        systems: SystemsLike,
        ranks: Ranks,
    ) -> _Checked:
        """Check arguments; refuse impossible ones, and ``names`` of inputs that there are not."""
        meaning = f"names of inputs of {getattr(kernel, 'name', kernel)}"
        names_of(label, names, meaning, mapping=label == "tangents")
        asked = SumRequest.of(kernel, want, options, by={*names, *moves})
        cloud = asked.cloud(trg, src, norms, options, systems=systems, exclude=exclude).checked()
        inputs: tuple[str, ...] = INPUTS if "norms" in cloud.arrays else INPUTS[:3]
        lengths = {} if asked.composite or want != "u" else SUMS.lengths(asked.name)
        if label == "wrt":
            inputs += (*NAMES, *lengths)
        names_of(label, names, f"{meaning}: {', '.join(inputs)}", inputs)
        asked.check_maps(cloud)
        options = cloud.options.of_sums().of_derivatives()
        checked = cls(asked, cloud, options, ranks, lengths=lengths)
        if asked.whole.scales:
            extents = ranks.all_columns(cloud.extents.T).T
            size = SUMS[asked.whole.addends[0].kernel].pair.size
            lattice = resolve(checked.options, extents, size=size)
            checked = checked._replace(length=lattice.length)
        checked = checked._replace(moves=checked.moved("moves", moves))
        if dens is None and {*names} == {"dens"}:
            return checked
        values = checked.like("dens", dens, "dens")
        return checked._replace(dens=_many(values), several=values.ndim == 3)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs."""
        sources = self.cloud.sources
        return {
            "trg": (3, self.cloud.targets),
            "src": (3, sources),
            "norms": (3, sources),
            "dens": (*self.asked.density, sources),
        }

    @property
    def shapes_of_results(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the results."""
        return {n: (*shape, self.cloud.targets) for n, shape in self.asked.results.items()}

    def values(self, fields: AnyArray) -> tuple[Arrays, tuple[int, ...]]:
        """Return values of results as (k, rows, N): see `check_fields`."""
        return check_fields(
            "values",
            fields,
            want=self.asked.want,
            shapes=self.shapes_of_results,
            space=self.cloud.space,
            dtype=self.cloud.trg.dtype,
        )

    def like(self, label: str, array: AnyArray, name: str) -> AnyArray:
        """Return an array of the shape of an input as (rows, N), or densities as (k, rows, N)."""
        return check_density(
            label,
            like_points(label, array, self.cloud.space, self.cloud.trg.dtype),
            self.shapes[name],
            several=name == "dens",
            of="targets" if name == "trg" else "sources",
        )

    def moved(self, label: str, moves: Mapping[str, AnyArray]) -> Arrays:
        """Return moves of inputs, by name, as `like` does."""
        return {n: self.like(f"{label}[{n!r}]", move, n) for n, move in moves.items()}

    def check_as_many(self, label: str, values: AnyArray) -> None:
        """Refuse values (k, rows, N) whose number differs from the number of densities, if any."""
        if self.dens is not None and len(values) != len(self.dens):
            raise ParkiValueError(
                f"{label} has {len(values)} of them at once, but dens has {len(self.dens)}; "
                "expected as many"
            )

    @property
    def sums(self) -> list[MappedSum]:
        """What is summed: each density of each sum."""
        src, norms, trg = self.cloud.src, self.cloud.norms, self.cloud.trg
        cloud, of_targets = {"points": src, "norms": norms}, {"points": trg}
        if isinstance(norms, tuple):
            of_targets["marks"], cloud["marks"] = norms
        addends: Iterable[Addend] = joined(self.asked.whole.addends)
        if self.moves:
            cloud["moves"] = of_targets["moves"] = self.moves
            addends = changed(
                addends,
                cloud=cloud,
                rows=math.prod(self.asked.density),
                moves=lambda rows: self.ranks.max(float(rows.any())) > 0,
            )
        return [
            MappedSum.placed(
                Shared(shared.kernel, [same]),
                options=self._options(shared.kernel),
                of_targets=of_targets,
                cloud=cloud,
                labels=self.cloud.labels,
                systems=self.cloud.systems,
                ranks=self.ranks,
            )
            for shared in together(addends)
            for same in shared.lists
        ]

    def _options(self, kernel: str) -> EwaldOptions:
        """Return the options of a sum, with the tolerance that the scale of its results allows."""
        for name, size, power in self.asked.whole.scales:
            if name == kernel:
                return self.options.looser((self.length / size) ** power)
        return self.options

    def pulled(
        self, sums: list[MappedSum], v: Arrays, *, dens: AnyArray | None, wrt: Iterable[str]
    ) -> Arrays:
        """Return the derivatives (k, rows, N) for values (k, rows, Nt) of results of `sums`.

        k is 1 unless ``wrt`` is ("dens",).
        """
        rows = math.prod(self.asked.density)
        of_sums = [one.pulled(v, dens=dens, wrt=wrt, rows=rows) for one in sums]
        parts = {name: [part for each in of_sums for part in each[name]] for name in wrt}
        many = len(next(iter(v.values())))

        def none(name: str) -> AnyArray:
            *shape, count = self.shapes[name]
            return np.zeros_like(self.cloud.src, shape=(many, math.prod(shape), count))

        return {name: reduce(add, rows) if rows else none(name) for name, rows in parts.items()}

    def by_box(self, lattice: AnyArray) -> Arrays:
        """Return the derivatives by the box, by name, for those by lattice vectors (3, 3)."""
        edges = lattice if self.options.cell is not None else lattice.diagonal().copy()
        by_name = {"box": edges, "lattice": lattice}
        return {name: self.cloud.xp.asarray(array) for name, array in by_name.items()}

    @property
    def inputs(self) -> Arrays:
        """The arrays that a length is taken with: see `by_scale`."""
        arrays = {"dens": self.dens, "trg": self.cloud.trg, "src": self.cloud.src}
        norms = self.cloud.norms
        return arrays if norms is None else {**arrays, "norms": norms}

    def by_lengths(self, parts: list[Arrays], v: AnyArray) -> Arrays:
        """Return the derivatives by parameters, for those by inputs for each density."""
        total = sum(
            by_scale(
                self.asked.name,
                self.options,
                ranks=self.ranks,
                inputs={**self.inputs, "dens": density},
                slopes=part,
                values=values,
                systems=self.cloud.systems,
            )
            for density, part, values in zip(self.dens, parts, v, strict=True)
        )
        xp = self.cloud.xp
        return {n: xp.asarray(total / (power * t)) for n, (t, power) in self.lengths.items()}

    def pushed(self, dens: AnyArray, moves: Arrays) -> Arrays:
        """Return the changes (k, rows, Nt) of results for changes of inputs; "dens" has k."""
        parts = [part for one in self.sums for part in one.pushed(dens, moves)]
        return {
            name: reduce(add, [rows for result, rows in parts if result == name])
            for name in self.asked.results
        }


def _some(values: AnyArray) -> AnyArray:
    """Return values (k, rows, N); a zero one, if there are none."""
    if values is None or len(values):
        return values
    return np.zeros_like(values, shape=(1, *values.shape[1:]))


def _many(values: AnyArray) -> AnyArray:
    """Return values (rows, N) or (k, rows, N) as (k, rows, N)."""
    return values if values.ndim == 3 else values[None]
