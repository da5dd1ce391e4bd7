"""`vjp` and `jvp`: derivatives of sums by their densities, normals, targets and sources.

A sum is a composite of one. The derivatives of its sums are carried through the maps of a
composite. See ``docs/derivatives.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import chain
from operator import add
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.derivatives.by_box import NAMES, check_box
from parki.ewald.derivatives.by_length import by_scale
from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.derivatives.mapped_sum import MappedSum, arguments_of, check_maps, labels_of
from parki.ewald.geometry.extent import resolve
from parki.ewald.geometry.labels import Labels
from parki.ewald.geometry.systems import Systems, check_systems, first_box, rows_of_boxes
from parki.ewald.options import EwaldOptions
from parki.ewald.points import check_density, like_points, take_options
from parki.ewald.sums import SUMS, sum_of
from parki.ewald.sums.composite import Composite, Shared, joined, together
from parki.ewald.sums.results import of_one
from parki.ewald.sums.walls import near_wall
from parki.interchange import as_given, names_of
from parki.memory import telling
from parki.runtime import ExecutionSpace
from parki.typing import AnyKernel, Array, ArrayT, DerivedBy, InputName, OptionKeywords, Unpack

INPUTS = ("trg", "src", "dens", "norms")


@telling
def vjp(
    kernel: AnyKernel | Composite,
    trg: Array,
    src: Array,
    dens: Array | None,
    norms: Array | EwaldOptions | None = None,
    options: EwaldOptions | None = None,
    *,
    values: ArrayT,
    wrt: tuple[DerivedBy, ...] = ("dens",),
    exclude: Any = None,
    systems: Any = None,
    boxes: Any = None,
    **keywords: Unpack[OptionKeywords],
) -> dict[str, ArrayT]:
    """Return the derivatives of ``<values, u>``, u a sum, with respect to its inputs.

    Parameters
    ----------
    kernel, trg, src, norms, options, exclude, systems, boxes, **keywords
        As for `Plan`; a `parki.ewald.sums.composite.Composite` may take the place of the kernel.
        Targets that are sources, one object, have derivatives in both roles: add them up.
    dens : array
        The density of the sum, or k of them at once; may be None for derivatives with respect to
        densities alone.
    values : array, shape (3, Nt), or (Nt,) for Laplace
        Weights in the dtype and memory of the points; k comes first if there are k densities.
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
    given = kernel, trg, src, dens, norms, options
    if boxes is not None:
        each, dens = _in_boxes(given, exclude, systems, boxes)
        return each.vjp(vjp, dens, values, wrt)
    asked = _Asked.checked(*given, "wrt", wrt, exclude, systems)
    v = asked.like("values", values, "u")
    several, v = v.ndim == 3, _many(v)
    if {*wrt} != {"dens"}:
        asked.check_as_many("values", v)
    count, v, asked = len(v), _some(v), asked._replace(dens=_some(asked.dens))
    by_box, by_length = {*wrt} & {*NAMES}, {*wrt} & {*asked.lengths}
    inputs: set[str] = {name for name in wrt if name not in by_box | by_length}
    inputs |= {"trg", "src", "lattice"} if by_box or by_length else set()
    inputs |= asked.inputs.keys() if by_length else set()
    if {*wrt} == {"dens"}:
        parts = [asked.pulled(v, None, inputs)]
    else:
        pairs = zip(v, asked.dens, strict=True)
        parts = [asked.pulled(each[None], density, inputs) for each, density in pairs]
    derivatives: dict[str, Any] = {n: sum(part[n] for part in parts) for n in inputs if n != "dens"}
    shapes = dict(asked.shapes)
    if by_box:
        derivatives |= asked.by_box(derivatives["lattice"])
    if by_length:
        derivatives |= asked.by_lengths(parts, v)
    if "dens" in wrt:
        every = [part["dens"] for part in parts]
        derivatives["dens"] = asked.space.array_module.concatenate(every)[:count]
        shapes["dens"] = (*[count][:several], *shapes["dens"])
    wanted = {name: derivatives[name] for name in wrt}
    shaped = {name: a.reshape(shapes.get(name, a.shape)) for name, a in wanted.items()}
    dtype = asked.trg.dtype  # maps may have made another
    return {n: as_given(array.astype(dtype, copy=False), values) for n, array in shaped.items()}


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
    exclude: Any = None,
    systems: Any = None,
    boxes: Any = None,
    **keywords: Unpack[OptionKeywords],
) -> ArrayT:
    """Return the first-order change of a sum u for changes of its arguments.

    Parameters
    ----------
    kernel, trg, src, dens, norms, options, exclude, systems, boxes, **keywords
        As for `vjp`.
    tangents : dict of str to array
        Changes of "dens", "norms", "trg", "src": in their shapes, in the dtype and memory of the
        points. Arguments left out do not change.

    Returns
    -------
    array
        The change, in the shape of the sum and the library of the first of ``tangents``.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, as for a plan.
    """
    norms, options = take_options(norms, options, keywords, box=first_box(boxes))
    given = kernel, trg, src, dens, norms, options
    if boxes is not None:
        each, dens = _in_boxes(given, exclude, systems, boxes)
        change: ArrayT = each.jvp(jvp, dens, tangents)
        return change
    asked = _Asked.checked(*given, "tangents", tangents, exclude, systems)
    moves: dict[Any, Any]
    moves = {n: asked.like(f"tangents[{n!r}]", given, n) for n, given in tangents.items()}
    like, changes = next(iter(tangents.values())), moves.pop("dens", None)
    many = asked.dens if asked.dens is not None else _many(changes)
    if changes is not None:
        asked.check_as_many("tangents['dens']", _many(changes))
        moves["dens"] = _some(_many(changes))
    changed = asked.pushed(_some(many), moves)[: len(many)].astype(asked.trg.dtype, copy=False)
    several = asked.several if asked.dens is not None else changes.ndim == 3
    shape = asked.shapes["u"]
    result: ArrayT = as_given(changed.reshape(*changed.shape[: 1 if several else 0], *shape), like)
    return result


def _in_boxes(
    given: tuple[Any, ...], exclude: Any, systems: Any, boxes: Any
) -> tuple[InBoxes, Any]:
    """Return systems in boxes of their own, and the density."""
    kernel, trg, src, dens, norms, options = given
    composite = near_wall(kernel, options.wall) if options.walled else None
    composite = kernel if isinstance(kernel, Composite) else composite
    of = (trg, src, norms), options, rows_of_boxes(boxes), systems, exclude
    return InBoxes.checked(kernel, composite, *of), dens


class _Asked(NamedTuple):
    """A composite whose arguments were checked: densities (k, rows, Ns), normals (3, Ns).

    Marks (Nt,) and (Ns,) take the place of normals, where points have any.
    """

    composite: Composite
    options: EwaldOptions
    space: ExecutionSpace
    trg: Any
    src: Any
    norms: Any
    dens: Any = None
    several: bool = False
    labels: Labels | None = None
    systems: Systems | None = None
    length: float = 1.0  # of the box
    lengths: Mapping[str, tuple[float, int]] = {}  # parameters, and their powers of a length

    @classmethod
    def checked(
        cls,
        kernel: Any,
        trg: Any,
        src: Any,
        dens: Any,
        norms: Any,
        options: EwaldOptions,
        label: str,
        names: Iterable[str],
        exclude: Any,
        systems: Any,
    ) -> _Asked:
        """Return the composite; refuse impossible arguments, and ``names`` of inputs it lacks."""
        composite = kernel if isinstance(kernel, Composite) else of_one(sum_of(kernel))
        meaning = f"names of inputs of {composite.name}"
        names_of(label, names, meaning, mapping=label == "tangents")
        if options.walled:
            up = options.axes.index(2)
            composite = near_wall(kernel, options.wall, up=up, by=names)
        of = composite, composite is kernel, trg, src, norms, options
        given = arguments_of(*of).checked()
        arrays = given.arrays
        inputs: tuple[str, ...] = INPUTS if "norms" in arrays else INPUTS[:3]
        lengths = {} if composite.walled or composite is kernel else SUMS.lengths(composite.name)
        if label == "wrt":
            inputs += (*NAMES, *lengths)
        names_of(label, names, f"{meaning}: {', '.join(inputs)}", inputs)
        points = arrays["trg"], arrays["src"], given.normals
        asked = cls(composite, given.options.of_sums().of_derivatives(), given.space, *points)
        if composite is kernel:
            check_maps(composite, points[0], {"points": points[1], "norms": points[2]})
        own_systems = check_systems(systems, arrays, given.space, options)
        labels = labels_of(composite, exclude, arrays, options, own_systems)
        asked = asked._replace(labels=labels, systems=own_systems, lengths=lengths)
        if composite.scales:
            asked = asked._replace(length=resolve(asked.options, given.extents).length)
        for name in [n for n in names if n in NAMES or n in lengths]:
            check_box(composite, systems, name if name in lengths else "the box")
        if dens is None and {*names} == {"dens"}:
            return asked
        values = asked.like("dens", dens, "dens")
        return asked._replace(dens=_many(values), several=values.ndim == 3)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs, and of the sum "u"."""
        targets, sources = self.trg.shape[1], self.src.shape[1]
        return {
            "trg": (3, targets),
            "src": (3, sources),
            "norms": (3, sources),
            "dens": (*self.composite.density, sources),
            "u": (*self.composite.result, targets),
        }

    def like(self, label: str, given: Any, name: str) -> Any:
        """Return an array of the shape of an input as (rows, N), or densities as (k, rows, N)."""
        values = like_points(label, given, self.space, self.trg.dtype)
        how: dict[str, Any] = {"of": "targets" if name in ("trg", "u") else "sources"}
        return check_density(label, values, self.shapes[name], several=name in ("dens", "u"), **how)

    def check_as_many(self, label: str, values: Any) -> None:
        """Refuse values (k, rows, N) whose number differs from the number of densities, if any."""
        if self.dens is not None and len(values) != len(self.dens):
            raise ParkiValueError(
                f"{label} has {len(values)} of them at once, but dens has {len(self.dens)}; "
                "expected as many"
            )

    @property
    def sums(self) -> list[MappedSum]:
        """What is summed: each density of each sum."""
        cloud, of_targets = {"points": self.src, "norms": self.norms}, {"points": self.trg}
        if isinstance(self.norms, tuple):
            of_targets["marks"], cloud["marks"] = self.norms
        shared = together(joined(self.composite.addends))
        each = [Shared(one.kernel, [own]) for one in shared for own in one.lists]
        how = of_targets, cloud, self.labels, self.systems
        return [MappedSum.placed(one, self._of(one.kernel), *how) for one in each]

    def _of(self, kernel: str) -> EwaldOptions:
        """Return the options of a sum, with the tolerance that the scale of its results allows."""
        for name, size, power in self.composite.scales:
            if name == kernel:
                return self.options.looser((self.length / size) ** power)
        return self.options

    def pulled(self, v: Any, dens: Any, wrt: Iterable[str]) -> dict[str, Any]:
        """Return the derivatives (k, rows, N) for values (k, rows, Nt).

        k is 1 unless ``wrt`` is ("dens",).
        """
        rows = math.prod(self.composite.density)
        of_sums = [each.pulled(v, dens, wrt, rows) for each in self.sums]
        parts = {name: [*chain(*(each[name] for each in of_sums))] for name in wrt}
        none = np.zeros_like(self.src, shape=(1, 3, self.src.shape[1]))
        return {name: reduce(add, rows) if rows else none for name, rows in parts.items()}

    def by_box(self, lattice: Any) -> dict[str, Any]:
        """Return the derivatives by the box, by name, for those by lattice vectors (3, 3)."""
        own = lattice if self.options.cell is not None else lattice.diagonal()
        by_name = {"box": own, "lattice": lattice}
        return {name: self.space.array_module.asarray(each) for name, each in by_name.items()}

    @property
    def inputs(self) -> dict[str, Any]:
        """The arrays that a length is taken with: see `by_scale`."""
        arrays = {"dens": self.dens, "trg": self.trg, "src": self.src}
        return arrays if self.norms is None else {**arrays, "norms": self.norms}

    def by_lengths(self, parts: list[dict[str, Any]], v: Any) -> dict[str, Any]:
        """Return the derivatives by parameters, for those by inputs for each density."""
        each = zip(self.dens, parts, v, strict=True)
        total = sum(
            by_scale(self.composite.name, self.options, {**self.inputs, "dens": q}, part, own)
            for q, part, own in each
        )
        xp = self.space.array_module
        return {n: xp.asarray(total / (power * t)) for n, (t, power) in self.lengths.items()}

    def pushed(self, dens: Any, moves: dict[str, Any]) -> Any:
        """Return the change (k, rows, Nt) for changes of inputs, of which "dens" has k."""
        return reduce(add, [rows for each in self.sums for rows in each.pushed(dens, moves)])


def _some(values: Any) -> Any:
    """Return values (k, rows, N); a zero one, if there are none."""
    if values is None or len(values):
        return values
    return np.zeros_like(values, shape=(1, *values.shape[1:]))


def _many(values: Any) -> Any:
    """Return values (rows, N) or (k, rows, N) as (k, rows, N)."""
    return values if values.ndim == 3 else values[None]
