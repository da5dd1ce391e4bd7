"""First and second derivatives of sums as frameworks take them, by all inputs and the box.

A sum has the change J m for moves m of its inputs; values v times this have derivatives by m, which
are J^T v. Both of these change with the inputs: see `parki.ewald.sums.changes`. The change of J m
for other moves m' is symmetric in m and m', and its product with v has derivatives by m', which are
the change of J^T v for m. So two functions have all first and second derivatives. The derivative
by v is J m itself, so that one of them has those by all that such a product depends on.

A box that moves strains itself and the points, which then move back. Along the strain sums of
charges have changes that are sums again, at the same placement: see `Stages.run_changed`. Other
sums have differences: see `parki.ewald.derivatives.by_box`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from operator import add
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError, by_words
from parki.ewald.derivatives import symmetric, vjp
from parki.ewald.derivatives.by_box import check_box, finer, follows, strained, vectors_of
from parki.ewald.derivatives.mapped_sum import RADII
from parki.ewald.derivatives.overflow import passed_on
from parki.ewald.geometry.own_boxes import Batch
from parki.ewald.options import EwaldOptions
from parki.ewald.points import result_shape
from parki.ewald.sums import SUMS
from parki.ewald.sums.changes import refuse_third as refuse_third
from parki.interchange import as_array, as_given, to_host
from parki.settings import read_once
from parki.typing import AnyArray, DerivedBy

Arrays = Mapping[str, AnyArray]  # by names of inputs: no sources where these are the targets
ArraysT = TypeVar("ArraysT", bound=Arrays)
Array = NDArray[np.float64]
NONE: Arrays = {}
ROUNDED = 8  # units of roundoff by which points that the box takes along may be off


def pulled(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    inputs: Arrays,
    values: AnyArray,
    names: tuple[str, ...],
    moves: Arrays = NONE,
) -> dict[str, AnyArray]:
    """Return derivatives, by names of inputs, of values times a sum or its change for moves.

    "values" among the names are the values, by which the derivative is the sum, or its change. They
    may have moves as well, for which the derivatives change. Targets that are the sources have
    derivatives in both roles. Values, densities and moves that are not finite give NaN.
    """
    if "values" in moves:
        others = {name: move for name, move in moves.items() if name != "values"}
        by = tuple(name for name in names if name != "values")
        parts = [pulled(kernel, options, batch, inputs, moves["values"], by)] if by else []
        parts += [pulled(kernel, options, batch, inputs, values, names, others)] if others else []
        return _added(parts, names, {**inputs, "values": values})

    def run(lists: list[Arrays], dens: Arrays) -> dict[str, AnyArray]:
        weights, left = lists
        there = {**points, **dens}
        return _pulled(kernel, options, batch, there, weights["values"], names, left)

    in_rows, by_moves = ("dens", "values"), {"values": 0}
    with read_once():
        points = arrays(inputs)
        lists = arrays({"values": values}), arrays(moves)
        derivatives = passed_on(
            options, lists, axes(kernel), run, in_rows, density(points), by_moves
        )
    return {name: as_given(array, values) for name, array in derivatives.items()}


def _added(
    parts: list[dict[str, AnyArray]], names: tuple[str, ...], like: Arrays
) -> dict[str, AnyArray]:
    """Return the sums of parts of derivatives, by name; zeros like inputs where there is none."""
    total: dict[str, AnyArray] = {}
    for name in names:
        every = [part[name] for part in parts if name in part]
        total[name] = reduce(add, every) if every else 0 * like[name]
    return total


def _pulled(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    points: Arrays,
    values: AnyArray,
    names: tuple[str, ...],
    moves: Arrays,
    motion: Array | None = None,
) -> dict[str, AnyArray]:
    """Return `pulled` of arrays; with a ``motion`` how it changes along this strain."""
    left, parts = {**moves}, list[dict[str, AnyArray]]()
    weights = {"values": values}
    if "box" in left:
        strain, left = unboxed(points, left, options, batch)

        def changing(
            there: EwaldOptions, points: Arrays, more: Arrays, motion: Array | None
        ) -> dict[str, AnyArray]:
            return _pulled(kernel, there, batch, points, more["values"], names, NONE, motion)

        exact = follows(kernel) and ("src" not in points or "box" not in names)
        parts.append(along(strain, options, points, weights, changing, exact))
    if "dens" in left:
        others = tuple(name for name in names if name != "dens")
        moved = {**points, "dens": left.pop("dens")}
        if others:
            parts.append(pulled(kernel, options, batch, moved, weights["values"], others))
    if left or not moves:
        given = kernel, options, batch, points, weights["values"], names, left, motion
        parts.append(_of_symmetric(*given) or _pulled_apart(*given))
    return _added(parts, names, {**points, "values": values})


def _of_symmetric(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    points: Arrays,
    values: AnyArray,
    names: tuple[str, ...],
    left: Arrays,
    motion: Array | None,
) -> dict[str, AnyArray] | None:
    """Return `_pulled` by `symmetric`, if it has these derivatives."""
    one = "dens" in points and points["dens"].ndim == axes(kernel)["dens"]
    if not one or {"src", "norms"} & points.keys() or not points["dens"].size:
        return None
    if left and ({*left} != {"trg"} or not symmetric.moves(kernel)):
        return None
    if names == ("dens",) or not symmetric.is_symmetric(kernel, options, batch, frozenset(names)):
        return None
    return symmetric.pulled(
        kernel, options, batch, points, values, names, move=left.get("trg"), motion=motion
    )


def _pulled_apart(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    points: Arrays,
    values: AnyArray,
    names: tuple[str, ...],
    left: Arrays,
    motion: Array | None,
) -> dict[str, AnyArray]:
    """Return `_pulled` for moves of no density and no box, by `vjp.pulled`."""
    total = dict[str, AnyArray]()
    if "values" in names:
        moving = left or {"dens": points["dens"]}  # a sum itself is its change for its density
        total["values"] = _pushed(kernel, options, batch, points, moving, NONE, motion)
        names = tuple(name for name in names if name != "values")
    if not names:
        return total
    in_two_roles = "src" not in points and "trg" in names
    lattice: DerivedBy = "box"
    if "box" in points and points["box"].ndim == (2 if batch.boxes is None else 3):
        lattice = "lattice"
    wrt = [lattice if name == "box" else cast(DerivedBy, name) for name in names]
    widths = "norms" in names and bool(SUMS[kernel].quadrupoles)  # their squares
    if widths:
        wrt += cast(list[DerivedBy], [*RADII.values()])
        wrt.remove("norms")
    if in_two_roles:
        wrt.append("src")
    derive = partial(
        vjp.pulled,
        kernel,
        points["trg"],
        sources(points),
        points.get("dens") if names != ("dens",) else None,
        points.get("norms"),
        options,
        values=values,
        wrt=tuple(wrt),
        systems=batch.systems,
        boxes=batch.boxes,
        moves=in_roles(kernel, left, points),
        motion=motion,
    )
    try:
        derivatives = derive(looked=False)  # by `passed_on`
    except ParkiValueError:
        with by_words({"wrt 'lattice": "wrt 'box"}):  # which is of these arguments
            derivatives = derive()
    if in_two_roles:
        derivatives["trg"] = derivatives["trg"] + derivatives.pop("src")
    if widths:
        by_each = [derivatives.pop(name) for name in RADII.values()]
        derivatives["norms"] = np.concatenate(by_each)
    if "box" in names:
        derivatives["box"] = derivatives.pop(lattice)
    return total | derivatives


def pushed(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    inputs: Arrays,
    tangents: Arrays,
    moves: Arrays = NONE,
) -> AnyArray:
    """Return the change of a sum for tangents, or with moves the change of this for them.

    Densities, tangents and moves that are not finite give NaN.
    """
    points = arrays(inputs)

    def run(lists: list[Arrays], dens: Arrays) -> dict[str, AnyArray]:
        changes, others = lists
        return {"u": _pushed(kernel, options, batch, {**points, **dens}, changes, others)}

    lists = arrays(tangents), arrays(moves)
    results = passed_on(options, lists, axes(kernel), run, ("u",), density(points))
    return as_given(results["u"], inputs["trg"])


def summed(
    total: Callable[..., AnyArray], kernel: str, options: EwaldOptions, batch: Batch, inputs: Arrays
) -> AnyArray:
    """Return the sum of a density that is a change of another; NaN where it is not finite.

    ``total`` is `parki.ewald.api.summed`.
    """
    points = arrays(inputs)

    def run(lists: list[Arrays], _: Arrays) -> dict[str, AnyArray]:
        result = total(
            kernel,
            points["trg"],
            sources(points),
            lists[0]["dens"],
            points.get("norms"),
            options,
            systems=batch.systems,
            boxes=batch.boxes,
        )
        return {"u": result}

    results = passed_on(options, [density(points)], axes(kernel), run, ("u",))
    return as_given(results["u"], inputs["dens"])


def density(inputs: Arrays) -> dict[str, AnyArray]:
    """Return the density, by name, if there is one: changes are linear in it."""
    return {name: inputs[name] for name in ("dens",) if name in inputs}


def axes(kernel: str) -> dict[str, int]:
    """Return how many axes values and one density have."""
    of_dens = len(SUMS[kernel].density_shape(0))
    return {"values": len(result_shape(kernel, "u", 0)), "dens": of_dens}


def _pushed(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    points: Arrays,
    tangents: Arrays,
    moves: Arrays,
    motion: Array | None = None,
) -> AnyArray:
    """Return `pushed` of arrays; with a ``motion`` how it changes along this strain."""
    parts = list[AnyArray]()
    lists = [{**changes} for changes in (moves, tangents) if changes]
    left, *others = sorted(lists, key=lambda changes: "box" not in changes)
    other: dict[str, AnyArray] = others[0] if others else {}
    if "box" in left:
        strain, left = unboxed(points, left, options, batch)
        changes = other or {"dens": points["dens"]}  # a sum itself is its change for its density

        def changing(
            there: EwaldOptions, points: Arrays, more: Arrays, motion: Array | None
        ) -> dict[str, AnyArray]:
            own = more if other else {"dens": points["dens"]}
            return {"u": _pushed(kernel, there, batch, points, own, {}, motion)}

        exact = follows(kernel) and {*changes} == {"dens"}
        parts.append(along(strain, options, points, other, changing, exact)["u"])
    if other and "dens" in left:
        moved = {**points, "dens": left.pop("dens")}
        rest = {name: move for name, move in other.items() if name != "dens"}
        if rest:
            parts.append(pushed(kernel, options, batch, moved, rest))
    if left and "box" in other:
        parts.append(pushed(kernel, options, batch, points, left, other))
    elif left:
        first, second = (other, left) if other else (left, {})
        change = vjp.pushed(
            kernel,
            points["trg"],
            sources(points),
            points.get("dens"),
            points.get("norms"),
            options,
            tangents=in_roles(kernel, first, points),
            systems=batch.systems,
            boxes=batch.boxes,
            moves=in_roles(kernel, second, points),
            motion=motion,
        )
        parts.append(change)
    return reduce(add, parts)


def one_by_one(primals: list[ArraysT], tangents: list[ArraysT]) -> list[list[ArraysT]]:
    """Return inputs and lists of moves whose parts are a change, which is linear in all lists.

    ``primals`` are inputs and lists of moves, and ``tangents`` the changes of each, by name.
    """
    inputs, *moves = primals
    first, *others = tangents
    lists = [[first, *moves]]
    lists += [[o, *without(moves, one)] for one, o in zip(moves, others, strict=False)]
    return [[inputs, *changes] for changes in lists if changes[0]]


def without(lists: Iterable[ArraysT], one: ArraysT) -> list[ArraysT]:
    """Return lists but one of them."""
    return [other for other in lists if other is not one]


def arrays(named: Arrays) -> dict[str, AnyArray]:
    """Return arrays of any library as arrays of NumPy or CuPy."""
    return {name: as_array(name, array) for name, array in named.items()}


def in_roles(kernel: str, moves: Arrays, inputs: Arrays) -> dict[str, AnyArray]:
    """Return moves of sources, too, where these are the targets; and of widths by their role."""
    of_roles = {**moves}
    if "trg" in moves and "src" not in inputs:
        of_roles["src"] = moves["trg"]
    if "norms" in moves and SUMS[kernel].quadrupoles:
        parts = np.split(of_roles.pop("norms"), [inputs["trg"].shape[1]])
        of_roles |= zip(RADII.values(), parts, strict=True)
    return of_roles


def sources(inputs: Arrays) -> AnyArray:
    """Return the sources, which may be the targets."""
    return inputs.get("src", inputs["trg"])


def along(
    strain: Array,
    options: EwaldOptions,
    inputs: Arrays,
    more: Arrays,
    changing: Callable[[EwaldOptions, Arrays, Arrays, Array | None], dict[str, AnyArray]],
    exact: bool,
) -> dict[str, AnyArray]:
    """Return the change, by name, along a strain (3, 3) of points and box.

    ``changing(options, inputs, more, motion)`` changes, which takes arrays in double precision. If
    ``exact``, it takes the strain, too; there are differences else.
    """
    total: dict[str, AnyArray] = {}
    double, others = ({n: a.astype(np.float64) for n, a in by.items()} for by in (inputs, more))
    if exact:
        total = changing(finer(options), double, others, strain)
    else:
        points: Arrays = {name: double[name] for name in ("trg", "src") if name in double}
        for weight, in_box, there in strained(options, strain, points):
            for name, part in changing(in_box, {**double, **there}, others, None).items():
                total[name] = total.get(name, 0.0) + weight * part
    return {name: array.astype(inputs["trg"].dtype) for name, array in total.items()}


def unboxed(
    inputs: Arrays, moves: Arrays, options: EwaldOptions, batch: Batch
) -> tuple[Array, dict[str, AnyArray]]:
    """Return the strain (3, 3) of points and box that moves the box, and the moves of all else.

    Points that move along with the box, as in a loss on the stress, have no move but by rounding.
    """
    check_box(batch.boxes, "a second derivative by the box, or a change,")
    box = to_host(moves["box"])
    rows = (box if box.ndim == 2 else np.diag(box)) * np.outer(options.periodic, options.periodic)
    strain = (np.linalg.inv(vectors_of(options)) @ rows).T
    others = {name: move for name, move in moves.items() if name != "box"}
    for name in {"trg", "src"} & inputs.keys():
        points = inputs[name]
        matrix = np.asarray(strain.astype(points.dtype), like=points)
        along, alone = matrix @ points, others.pop(name, None)
        rest = -along if alone is None else alone - along
        rounding = ROUNDED * np.finfo(points.dtype).eps
        if alone is None or (rest.size and bool((abs(rest) > rounding * abs(along).max()).any())):
            others[name] = rest
    return strain, others
