"""`vjp` and `jvp`: derivatives of sums by their densities, normals, targets and sources.

A sum is a composite of one. The derivatives of its sums are carried through the maps of a
composite. See ``docs/derivatives.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parki.ewald.derivatives.by_box import NAMES, check_box
from parki.ewald.derivatives.checked import NONE, CheckedDerivative, at_least_one, several_rows
from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.derivatives.mapped_sum import RADII
from parki.ewald.geometry.own_boxes import OwnBox, of_first, own_boxes
from parki.ewald.geometry.systems import LabelsLike, SystemsLike
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.points import take_options
from parki.ewald.points.request import SumRequest
from parki.ewald.points.widths import take_widths
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import Composite
from parki.ewald.sums.maps import Arrays
from parki.interchange import as_given
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
    Periodicities,
    SumKeywords,
    Unpack,
)


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
    periodicities: Periodicities | None = None,
    **keywords: Unpack[SumKeywords],
) -> dict[str, ArrayT]:
    """Return the derivatives of ``<values, u>``, u a sum, with respect to its inputs.

    With several results, these products add up.

    Parameters
    ----------
    kernel, trg, src, norms, options, want, exclude, systems, boxes, periodicities, **keywords
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
        vector even where the box has lengths; with ``boxes`` of each system. Points stay where
        they are while the box changes: see ``docs/derivatives.md``. The last three are parameters
        of sums. "trg_epsilon" and "src_epsilon" are widths of each target and source, where
        ``epsilon`` is an array or two of them.

    Returns
    -------
    dict of str to array
        The derivatives by the names of ``wrt``: in the shape of that argument and the library of
        ``values``. Derivatives with respect to normals, points and the box are summed over k
        densities. For ``boxes`` they have the shape (S, 3) of lengths, or (S, 3, 3). For the
        errors see ``docs/derivatives.md``.

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
    system_boxes = own_boxes(boxes, periodicities)
    kernel, norms, options, others = take_widths(
        kernel, keywords, trg, src, norms, options, in_boxes=system_boxes is not None
    )
    norms, options = take_options(norms, options, others, first=of_first(system_boxes))
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
        boxes=system_boxes,
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
    boxes: tuple[OwnBox, ...] | None = None,
    moves: Mapping[str, AnyArray] = NONE,
    motion: NDArray[np.float64] | None = None,
    ranks: Ranks = SERIAL,
    looked: bool = True,
) -> Arrays:
    """Return the derivatives by inputs: see `vjp`.

    With ``moves`` of normals, targets or sources they are derivatives of the change of the velocity
    or potential. With a ``motion`` they are themselves changes along the strain ``dx = motion x``
    of points and box, of sums of charges. Values are ``looked`` at here, or were before: see
    `CheckedDerivative.of`.
    """
    if boxes is not None:
        in_boxes = _in_boxes(
            kernel,
            trg,
            src,
            norms,
            options,
            want=want,
            by={*wrt, *moves},
            boxes=boxes,
            systems=systems,
            exclude=exclude,
        )
        return in_boxes.vjp(pulled, dens=dens, values=values, wrt=wrt, moves=moves)
    checked = CheckedDerivative.of(
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
        looked=looked,
        motion=motion,
    )
    v, many = checked.values(values)
    if {*wrt} != {"dens"}:
        checked.check_as_many("values", next(iter(v.values())))
    count, checked = len(next(iter(v.values()))), checked._replace(dens=at_least_one(checked.dens))
    v = {name: at_least_one(rows) for name, rows in v.items()}
    by_box, by_length = {*wrt} & {*NAMES}, {*wrt} & {*checked.lengths}
    inputs: set[str] = {name for name in wrt if name not in by_box | by_length}
    lattice = "lattice" if "lattice" in wrt or checked.options.cell is not None else "box"
    inputs = {RADII.get(name, name) for name in inputs}
    inputs |= {"trg", "src", lattice} if by_box or by_length else set()
    inputs |= checked.inputs.keys() if by_length else set()
    if {*wrt} == {"dens"}:
        parts = [checked.pulled(checked.sums, v, dens=None, wrt=inputs)]
    else:
        of_one = [{name: rows[n : n + 1] for name, rows in v.items()} for n in range(max(1, count))]
        pairs, sums = zip(of_one, checked.dens, strict=True), checked.sums
        parts = [checked.pulled(sums, one, dens=density, wrt=inputs) for one, density in pairs]
    derivatives: Arrays = {
        n: reduce(add, [part[n] for part in parts]) for n in inputs if n != "dens"
    }
    shapes = dict(checked.shapes)
    if by_box:
        derivatives |= checked.by_box(derivatives[lattice])
    for name in {*wrt} & {*RADII}:
        derivatives[name] = checked.widening[name] * derivatives[RADII[name]]
    if by_length:
        derivatives |= checked.by_lengths(parts, v["u"])
    if "dens" in wrt:
        every = [part["dens"] for part in parts]
        whole = every[0] if len(every) == 1 else checked.cloud.xp.concatenate(every)
        derivatives["dens"] = whole[:count]
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
    periodicities: Periodicities | None = None,
    **keywords: Unpack[SumKeywords],
) -> Any:
    """Return the first-order change of a sum u for changes of its arguments.

    Parameters
    ----------
    kernel, trg, src, dens, norms, options, want, exclude, systems, boxes, periodicities, **keywords
        As for `vjp`.
    tangents : dict of str to array
        Changes of "dens", "norms", "trg", "src", and widths as of `vjp`: in their shapes, in the
        dtype and memory of the points. Arguments left out do not change.

    Returns
    -------
    array, or tuple of arrays if ``want`` is one
        The change, in the shape of the sum and the library of the first of ``tangents``.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, as for a plan.
    """
    system_boxes = own_boxes(boxes, periodicities)
    kernel, norms, options, others = take_widths(
        kernel, keywords, trg, src, norms, options, in_boxes=system_boxes is not None
    )
    norms, options = take_options(norms, options, others, first=of_first(system_boxes))
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
        boxes=system_boxes,
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
    boxes: tuple[OwnBox, ...] | None = None,
    moves: Mapping[str, AnyArray] = NONE,
    motion: NDArray[np.float64] | None = None,
    ranks: Ranks = SERIAL,
) -> Any:
    """Return the change of a sum, or of its change: see `jvp`, and for the arguments `pulled`.

    With a ``motion``, how this changes.
    """
    if boxes is not None:
        in_boxes = _in_boxes(
            kernel,
            trg,
            src,
            norms,
            options,
            want=want,
            by={*tangents, *moves},
            boxes=boxes,
            systems=systems,
            exclude=exclude,
        )
        return in_boxes.jvp(pushed, dens=dens, tangents=tangents, moves=moves)
    checked = CheckedDerivative.of(
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
        motion=motion,
    )
    inner = checked.moved("tangents", tangents)
    like, changes = next(iter(tangents.values())), inner.pop("dens", None)
    many = checked.dens if checked.dens is not None else several_rows(changes)
    if changes is not None:
        checked.check_as_many("tangents['dens']", several_rows(changes))
        inner["dens"] = at_least_one(several_rows(changes))
    several = checked.several if checked.dens is not None else changes.ndim == 3
    shapes, dtype, results = checked.shapes_of_results, checked.cloud.trg.dtype, []
    for name, rows in checked.pushed(at_least_one(many), inner).items():
        changed = rows[: len(many)].astype(dtype, copy=False)
        shape = *changed.shape[: 1 if several else 0], *shapes[name]
        results.append(as_given(changed.reshape(shape), like))
    return results[0] if isinstance(want, str) else tuple(results)


def _in_boxes(
    kernel: str | Composite,
    trg: AnyArray,
    src: AnyArray,
    norms: AnyArray,
    options: EwaldOptions,
    *,
    want: str | tuple[str, ...],
    by: Iterable[str],
    boxes: tuple[OwnBox, ...],
    systems: SystemsLike,
    exclude: LabelsLike,
) -> InBoxes:
    """Return systems in boxes of their own; refuse derivatives ``by`` parameters."""
    for name in {*by} & {*SUMS.parameters}:
        check_box(boxes, f"a derivative by {name}")
    return InBoxes.checked(
        SumRequest.of(kernel, want, options),
        trg,
        src,
        norms,
        options,
        boxes=boxes,
        systems=systems,
        exclude=exclude,
        apart=not {*by}.isdisjoint(NAMES),
    )
