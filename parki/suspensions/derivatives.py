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
from parki.suspensions.mobility import SphereMobility
from parki.suspensions.radii import ACTS, MOVES
from parki.typing import AnyArray

NAMES = ("forces", "torques", "points")
MEANING = f"names of what velocities depend on: {', '.join(NAMES)}"


def vjp(
    mobility: SphereMobility,
    acts: dict[str, AnyArray],
    weights: dict[str, Any],
    wrt: tuple[str, ...],
    *,
    factor: float,
) -> dict[str, Any]:
    """Return derivatives of weighed motions by the names of ``wrt``: see `parki.Spheres.vjp`.

    Forces and torques that act are needed by "points" alone. Weights are by the same names.
    """
    derivatives = {}
    if "points" in wrt:
        derivatives["points"] = _by_points(mobility, acts, weights, factor)
    for name, moves in zip(NAMES[:2], MOVES, strict=True):
        if name in wrt:
            derivatives[name] = mobility.product(moves, weights, factor=factor)
    return derivatives


def jvp(
    mobility: SphereMobility,
    acts: dict[str, AnyArray],
    changes: dict[str, Any],
    move: AnyArray,
    moves: tuple[str, ...],
    *,
    factor: float,
) -> list[Any]:
    """Return the changes of what moves: see `parki.Spheres.jvp`.

    Spheres are displaced by ``move`` (3, N), or stay if it is None; only then acts may be empty.
    """
    parts = list[Any]()
    if changes:
        parts.append(mobility.products(changes, moves, factor=factor))
    if move is not None:
        parts.append([_by_moves(mobility, each, acts, move, factor) for each in moves])
    return [sum(each[1:], each[0]) for each in zip(*parts, strict=True)]


def refuse_none(names: Iterable[str], arrays: Iterable[Any]) -> None:
    """Refuse arguments all of which are None."""
    if all(each is None for each in arrays):
        raise ParkiTypeError(f"{' and '.join(names)} are None; give one of them, or both")


def check_shape(name: str, values: AnyArray, shape: tuple[int, ...]) -> None:
    """Refuse what is neither (3, N) nor (k, 3, N)."""
    if values.ndim > 3 or tuple(values.shape[-2:]) != shape:
        raise ParkiValueError(
            f"{name} has shape {tuple(values.shape)}; expected {shape} for the {shape[1]} spheres "
            f"given, or (k, {shape[0]}, {shape[1]}) for k of these at once"
        )


def check_alike(names: Iterable[str], arrays: Iterable[AnyArray]) -> None:
    """Refuse arrays of different shapes."""
    shapes = {tuple(each.shape) for each in arrays}
    if len(shapes) > 1:
        raise ParkiValueError(
            f"{' and '.join(names)} have the shapes {' and '.join(map(str, sorted(shapes)))}; "
            "expected the same shape"
        )


def _by_points(
    mobility: SphereMobility, f: dict[str, Any], v: dict[str, Any], factor: float
) -> Any:
    """Return derivatives (3, N) by positions, of forces and torques f and of weights v."""
    if mobility.options.walled:
        return _by_points_at_wall(mobility, f, v, factor)
    names = [acts for acts in ACTS if acts in f or acts in v]
    none = 0 * next(iter(f.values()))
    derivatives = np.zeros_like(none, shape=none.shape[-2:])

    def beside(*both: dict[str, Any]) -> dict[str, Any]:
        parts = {name: [_many(each.get(name, none)) for each in both] for name in names}
        return {name: np.concatenate(each) for name, each in parts.items()}

    factors = beside(v, f)
    for acts, moves in zip(ACTS, MOVES, strict=True):
        if acts in names:
            for slopes in mobility.gradients(moves, beside(f, v), factor=factor):
                derivatives += (factors[acts][:, :, None] * slopes).sum(axis=(0, 1))
    return derivatives


def _by_moves(
    mobility: SphereMobility, moves: str, f: dict[str, Any], move: AnyArray, factor: float
) -> Any:
    """Return the change of what moves, for changes (3, N) of positions."""
    if mobility.options.walled:
        moved: Any = {"trg": move, "src": move}
        changes = (
            mobility.plan(moves, acts).jvp(values, moved) * mobility.scale(moves, acts, factor)
            for acts, values in f.items()
        )
        return reduce(add, changes)
    moving = np.zeros_like(next(iter(f.values())))
    # What acts makes a flow; where it is displaced along an axis, that flow lags behind.
    flows = {
        name: np.concatenate([_many(each), *(_many(each * axis) for axis in move)])
        for name, each in f.items()
    }
    for slopes in mobility.gradients(moves, flows, factor=factor):
        still, *lag = np.split(slopes, 4)
        change = (still * move).sum(axis=2)
        for axis, each in enumerate(lag):
            change -= each[:, :, axis]
        _many(moving)[...] += change
    return moving


def _by_points_at_wall(
    mobility: SphereMobility, f: dict[str, Any], v: dict[str, Any], factor: float
) -> Any:
    """Return `_by_points` near a wall, which moves images, too: of each sum by its own points."""
    derivatives = 0.0 * mobility.points
    values: Any
    for moves, values in zip(MOVES, map(v.get, ACTS), strict=True):
        for acts, forces in f.items() if values is not None else ():
            parts = mobility.plan(moves, acts).vjp(forces, values, ("trg", "src"))
            derivatives += mobility.scale(moves, acts, factor) * (parts["trg"] + parts["src"])
    return derivatives


def _many(values: AnyArray) -> Any:
    """Return values (3, N) or (k, 3, N) as (k, 3, N)."""
    return values if values.ndim == 3 else values[None]
