"""Derivatives of the velocities of spheres by forces, torques and positions.

A sphere that is displaced meets another velocity of the fluid, by the gradient there; if what acts
on it is displaced as well, nothing changes. The mobility M is symmetric: for weights v of the
velocities ``v.M F`` is ``F.M v``. So its derivative by forces is M v, and by a position it is v
times the gradient there of the flow of F, plus F times the gradient of the flow of v. Near a wall
images move, too, and each sum has its own derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import as_given, names_of
from parki.suspensions.radii import KINDS

ACTS, MOVES = ("force", "torque"), ("velocity", "turn")
NAMES = ("forces", "torques", "points")
MEANING = f"names of what velocities depend on: {', '.join(NAMES)}"
Pair = tuple[Any, Any]  # forces and torques, or weights of velocities and turns; one may be None


def vjp(spheres: Any, given: Pair, weights: Pair, wrt: tuple[str, ...]) -> dict[str, Any]:
    """Return derivatives by name: see `parki.Spheres.vjp`."""
    with spheres._together("vjp"):
        names_of("wrt", wrt, MEANING, NAMES)
    with spheres._together(f"vjp by {[name for name in NAMES if name in wrt]}"):
        v, derivatives = spheres._taken(values=weights[0], turns=weights[1]), {}
    if "points" in wrt:
        f = spheres._taken(forces=given[0], torques=given[1])
        with spheres._together("vjp"):
            check_alike(("forces", "values"), *f.values(), *v.values())
        derivatives["points"] = _by_points(spheres, f, v)
    names = [name for name in NAMES[:2] if name in wrt]
    moves = [MOVES[NAMES.index(name)] for name in names]
    derivatives |= dict(zip(names, spheres._motions(v, moves) if moves else (), strict=True))
    like = weights[1] if weights[0] is None else weights[0]
    return {name: as_given(derivatives[name], like) for name in wrt}


def jvp(spheres: Any, given: Pair, tangents: dict[str, Any]) -> Any:
    """Return the change of velocities: see `parki.Spheres.jvp`."""
    with spheres._together("jvp"):
        names_of("tangents", tangents, MEANING, NAMES, mapping=True)
    with spheres._together(f"jvp by {[name for name in NAMES if name in tangents]}"):
        pass  # the exchanges that follow depend on it
    changes = [tangents.get(name) for name in NAMES[:2]]
    turns, by_position = given[1] is not None or changes[1] is not None, "points" in tangents
    df = f = {}
    if len(tangents) > by_position:
        df = spheres._taken(forces=changes[0], torques=changes[1])
    if by_position:
        f = spheres._taken(forces=given[0], torques=given[1])
        move = spheres._taken(points=tangents["points"])["force"]
        with spheres._together("jvp"):
            check_alike(("forces", "their tangents"), *f.values(), *df.values())
            check_alike(("points", "their tangents"), spheres._points, move)
    moving, moved = [], MOVES[: 1 + turns]
    changed = spheres._motions(df, moved) if df else ()
    for place, moves in enumerate(moved):
        parts = [changed[place]] if df else []
        if by_position:
            parts.append(_by_moves(spheres, moves, f, move))
        moving.append(as_given(sum(parts[1:], parts[0]), next(iter(tangents.values()))))
    return tuple(moving) if turns else moving[0]


def refuse_none(names: Iterable[str], arrays: Iterable[Any]) -> None:
    """Refuse arguments all of which are None."""
    if all(each is None for each in arrays):
        raise ParkiTypeError(f"{' and '.join(names)} are None; give one of them, or both")


def check_shape(name: str, values: Any, shape: tuple[int, ...]) -> None:
    """Refuse what is neither (3, N) nor (k, 3, N)."""
    if values.ndim > 3 or tuple(values.shape[-2:]) != shape:
        raise ParkiValueError(
            f"{name} has shape {tuple(values.shape)}; expected {shape} for the {shape[1]} spheres "
            f"given, or (k, {shape[0]}, {shape[1]}) for k of these at once"
        )


def check_alike(names: Iterable[str], *arrays: Any) -> None:
    """Refuse arrays of different shapes."""
    shapes = {tuple(each.shape) for each in arrays}
    if len(shapes) > 1:
        raise ParkiValueError(
            f"{' and '.join(names)} have the shapes {' and '.join(map(str, sorted(shapes)))}; "
            "expected the same shape"
        )


def _by_points(spheres: Any, f: dict[str, Any], v: dict[str, Any]) -> Any:
    """Return derivatives (3, N) by positions, of forces and torques f and of weights v."""
    if spheres._options.walled:
        return _by_points_at_wall(spheres, f, v)
    names = [acts for acts in ACTS if acts in f or acts in v]
    none = 0 * next(iter(f.values()))
    derivatives = np.zeros_like(none, shape=none.shape[-2:])

    def beside(*both: dict[str, Any]) -> dict[str, Any]:
        parts = {name: [_many(each.get(name, none)) for each in both] for name in names}
        return {name: np.concatenate(each) for name, each in parts.items()}

    factors = beside(v, f)
    for acts, moves in zip(ACTS, MOVES, strict=True):
        if acts in names:
            for slopes in spheres._parts(moves, beside(f, v), "grad_u"):
                derivatives += (factors[acts][:, :, None] * slopes).sum(axis=(0, 1))
    return derivatives


def _by_moves(spheres: Any, moves: str, f: dict[str, Any], move: Any) -> Any:
    """Return the change of what moves, for changes (3, N) of positions."""
    if spheres._options.walled:
        moved: Any = {"trg": move, "src": move}
        changes = (
            spheres._plan(moves, acts).jvp(values, moved) * _scale(spheres, moves, acts)
            for acts, values in f.items()
        )
        return reduce(add, changes)
    moving = np.zeros_like(next(iter(f.values())))
    # What acts makes a flow; where it is displaced along an axis, that flow lags behind.
    flows = {
        name: np.concatenate([_many(each), *(_many(each * axis) for axis in move)])
        for name, each in f.items()
    }
    for slopes in spheres._parts(moves, flows, "grad_u"):
        still, *lag = np.split(slopes, 4)
        change = (still * move).sum(axis=2)
        for axis, each in enumerate(lag):
            change -= each[:, :, axis]
        _many(moving)[...] += change
    return moving


def _by_points_at_wall(spheres: Any, f: dict[str, Any], v: dict[str, Any]) -> Any:
    """Return the same near a wall, which changes images, too: of each sum by its own points."""
    found = 0.0 * spheres._points
    values: Any
    for moves, values in zip(MOVES, map(v.get, ACTS), strict=True):
        for acts, forces in f.items() if values is not None else ():
            parts = spheres._plan(moves, acts).vjp(forces, values, ("trg", "src"))
            found += _scale(spheres, moves, acts) * (parts["trg"] + parts["src"])
    return found


def _scale(spheres: Any, moves: str, acts: str) -> Any:
    return spheres._points.dtype.type(KINDS[moves, acts][2] * spheres.factor)


def _many(values: Any) -> Any:
    """Return values (3, N) or (k, 3, N) as (k, 3, N)."""
    return values if values.ndim == 3 else values[None]
