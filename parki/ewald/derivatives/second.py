"""First and second derivatives of sums as frameworks take them, by all inputs and the box.

A sum has the change J m for moves m of its inputs; values v times this have derivatives by m, which
are J^T v. Both of these change with the inputs: see `parki.ewald.sums.changes`. The change of J m
for other moves m' is symmetric in m and m', and its product with v has derivatives by m', which are
the change of J^T v for m. So two functions have all first and second derivatives.

A box that moves strains itself and the points, which then move back. Along the strain derivatives
have differences: see `parki.ewald.derivatives.by_box`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from parki.ewald.derivatives import vjp
from parki.ewald.derivatives.by_box import check_box, strained, vectors_of
from parki.ewald.derivatives.overflow import passed_on
from parki.ewald.geometry.systems import Batch
from parki.ewald.options import EwaldOptions
from parki.ewald.points import result_shape
from parki.ewald.sums import SUMS
from parki.ewald.sums.changes import refuse_third as refuse_third
from parki.interchange import as_array, as_given, to_host
from parki.typing import AnyArray

Arrays = Mapping[str, Any]  # by names of inputs: no sources where these are the targets
NONE: Arrays = {}


def pulled(
    kernel: Any,
    options: EwaldOptions,
    batch: Batch,
    inputs: Arrays,
    values: AnyArray,
    names: tuple[str, ...],
    moves: Arrays = NONE,
) -> dict[str, Any]:
    """Return derivatives, by names of inputs, of values times a sum or its change for moves.

    Targets that are the sources have derivatives in both roles. Values, densities and moves that
    are not finite give NaN.
    """
    points = arrays(inputs)
    lists = arrays({"values": values}), arrays(moves)

    def run(weights: Arrays, left: Arrays, dens: Arrays = NONE) -> dict[str, Any]:
        there = {**points, **dens}
        return _pulled(kernel, options, batch, there, weights["values"], names, left)

    found = passed_on(options, lists, axes(kernel), run, ("dens",), density(points))
    return {name: as_given(array, values) for name, array in found.items()}


def _pulled(
    kernel: Any,
    options: EwaldOptions,
    batch: Batch,
    points: Arrays,
    values: AnyArray,
    names: tuple[str, ...],
    moves: Arrays,
) -> dict[str, Any]:
    left, parts = {**moves}, list[dict[str, Any]]()
    weights = {"values": values}
    if "box" in left:
        strain, left = unboxed(points, left, options, batch)

        def of(there: EwaldOptions, points: Arrays, more: Arrays) -> dict[str, Any]:
            return pulled(kernel, there, batch, points, more["values"], names)

        parts.append(along(strain, options, points, weights, of))
    if "dens" in left:
        others = tuple(name for name in names if name != "dens")
        moved = {**points, "dens": left.pop("dens")}
        if others:
            parts.append(pulled(kernel, options, batch, moved, weights["values"], others))
    if left or not moves:
        both = "src" not in points and "trg" in names
        lattice = "lattice" if "box" in points and points["box"].ndim == 2 else "box"
        wrt: Any = (*(lattice if n == "box" else n for n in names), *["src"] * both)
        how: dict[str, Any] = {"moves": in_roles(left, points), **batch._asdict()}
        sum_of = taken(kernel, options, points, names != ("dens",))
        derivatives = vjp.pulled(*sum_of, values=weights["values"], wrt=wrt, **how)
        if both:
            derivatives["trg"] = derivatives["trg"] + derivatives.pop("src")
        if "box" in names:
            derivatives["box"] = derivatives.pop(lattice)
        parts.append(derivatives)
    total: dict[str, Any] = {}
    for name in names:
        every = [part[name] for part in parts if name in part]
        total[name] = reduce(add, every) if every else np.zeros_like(points[name])
    return total


def pushed(
    kernel: Any,
    options: EwaldOptions,
    batch: Batch,
    inputs: Arrays,
    tangents: Arrays,
    moves: Arrays = NONE,
) -> Any:
    """Return the change of a sum for tangents, or with moves the change of this for them.

    Densities, tangents and moves that are not finite give NaN.
    """
    points = arrays(inputs)

    def run(of: Arrays, others: Arrays, dens: Arrays = NONE) -> dict[str, Any]:
        return {"u": _pushed(kernel, options, batch, {**points, **dens}, of, others)}

    lists = arrays(tangents), arrays(moves)
    found = passed_on(options, lists, axes(kernel), run, ("u",), density(points))
    return as_given(found["u"], inputs["trg"])


def summed(
    total: Callable[..., AnyArray], kernel: Any, options: EwaldOptions, batch: Batch, inputs: Arrays
) -> Any:
    """Return the sum of a density that is a change of another; NaN where it is not finite.

    ``total`` is `parki.ewald.api.summed`.
    """
    points = arrays(inputs)
    trg, src, norms = points["trg"], points.get("src", points["trg"]), points.get("norms")

    def run(dens: Arrays) -> dict[str, Any]:
        values = dens["dens"]
        return {"u": total(kernel, trg, src, values, norms, options, **batch._asdict())}

    found = passed_on(options, [density(points)], axes(kernel), run, ("u",))
    return as_given(found["u"], inputs["dens"])


def density(inputs: Arrays) -> dict[str, Any]:
    """Return the density, by name, if there is one: changes are linear in it."""
    return {name: inputs[name] for name in ("dens",) if name in inputs}


def axes(kernel: Any) -> dict[str, int]:
    """Return how many axes values and one density have."""
    of_dens = len(SUMS[kernel].density_shape(0))
    return {"values": len(result_shape(kernel, "u", 0)), "dens": of_dens}


def _pushed(
    kernel: Any,
    options: EwaldOptions,
    batch: Batch,
    points: Arrays,
    tangents: Arrays,
    moves: AnyArray,
) -> Any:
    parts = list[Any]()
    lists = [{**of} for of in (moves, tangents) if of]
    left, *others = sorted(lists, key=lambda of: "box" not in of)
    other = others[0] if others else {}
    if "box" in left:
        strain, left = unboxed(points, left, options, batch)

        def of(there: EwaldOptions, points: Arrays, more: Arrays) -> dict[str, Any]:
            # A sum itself is its change for its density.
            return {"u": pushed(kernel, there, batch, points, more or {"dens": points["dens"]})}

        parts.append(along(strain, options, points, other, of)["u"])
    if other and "dens" in left:
        moved = {**points, "dens": left.pop("dens")}
        rest = {name: move for name, move in other.items() if name != "dens"}
        if rest:
            parts.append(pushed(kernel, options, batch, moved, rest))
    if left and "box" in other:
        parts.append(pushed(kernel, options, batch, points, left, other))
    elif left:
        pair = (other, left) if other else (left, {})
        first, second = (in_roles(of, points) for of in pair)
        sum_of = taken(kernel, options, points)
        parts.append(vjp.pushed(*sum_of, tangents=first, moves=second, **batch._asdict()))
    return reduce(add, parts)


def one_by_one(primals: list[Any], tangents: list[AnyArray]) -> list[list[Any]]:
    """Return inputs and lists of moves whose parts are a change, which is linear in all lists.

    ``primals`` are inputs and lists of moves, and ``tangents`` the changes of each, by name.
    """
    inputs, *moves = primals
    first, *others = tangents
    lists = [[first, *moves]]
    lists += [[o, *without(moves, one)] for one, o in zip(moves, others, strict=False)]
    return [[inputs, *of] for of in lists if of[0]]


def without(lists: Iterable[Any], one: Any) -> list[Any]:
    """Return lists but one of them."""
    return [other for other in lists if other is not one]


def arrays(named: Arrays) -> dict[str, Any]:
    """Return arrays of any library as arrays of NumPy or CuPy."""
    return {name: as_array(name, array) for name, array in named.items()}


def in_roles(moves: Arrays, inputs: Arrays) -> dict[str, Any]:
    """Return moves of sources, too, where these are the targets."""
    both = "trg" in moves and "src" not in inputs
    return {**moves, "src": moves["trg"]} if both else {**moves}


def taken(kernel: Any, options: EwaldOptions, inputs: Arrays, dens: bool = True) -> Any:
    """Return the arguments of `parki.vjp`, with a density or without."""
    trg, density = inputs["trg"], inputs.get("dens") if dens else None
    return kernel, trg, inputs.get("src", trg), density, inputs.get("norms"), options


def along(
    strain: AnyArray,
    options: EwaldOptions,
    inputs: Arrays,
    more: Arrays,
    of: Callable[[EwaldOptions, Arrays, Arrays], dict[str, Any]],
) -> dict[str, Any]:
    """Return the change, by name, along a strain (3, 3) of points and box.

    ``of(options, inputs, more)`` changes, which takes arrays in double precision.
    """
    total: dict[str, Any] = {}
    double, others = ({n: a.astype(np.float64) for n, a in by.items()} for by in (inputs, more))
    for weight, there, moved in strained(options, strain):
        matrix = np.asarray(moved, like=double["trg"])
        points: Arrays = {n: matrix @ double[n] for n in ("trg", "src") if n in double}
        for name, part in of(there, {**double, **points}, others).items():
            total[name] = total.get(name, 0.0) + weight * part
    return {name: array.astype(inputs["trg"].dtype) for name, array in total.items()}


def unboxed(
    inputs: Arrays, moves: Arrays, options: EwaldOptions, batch: Batch
) -> tuple[Any, dict[str, Any]]:
    """Return the strain (3, 3) of points and box that moves the box, and the moves of all else."""
    check_box(batch.boxes)
    box = to_host(moves["box"])
    rows = (box if box.ndim == 2 else np.diag(box)) * np.outer(options.periodic, options.periodic)
    strain = (np.linalg.inv(vectors_of(options)) @ rows).T
    others = {name: move for name, move in moves.items() if name != "box"}
    for name in {"trg", "src"} & inputs.keys():
        points = inputs[name]
        matrix = np.asarray(strain.astype(points.dtype), like=points)
        others[name] = others.get(name, 0) - matrix @ points
    return strain, others
