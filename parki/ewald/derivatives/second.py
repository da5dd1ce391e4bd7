"""Second derivatives of sums.

Values times the change of a sum, ``G = <values, change for moves>``, have derivatives by all
inputs. Where densities or normals move, G is a sum of their changes. A target that moves reads the
gradient, and a source that moves is one where all targets move the other way. So G is a sum of
gradients, times the product of values and moves; where the sum of the sources' dipoles has
derivatives, it takes the place of three sums. Their first derivatives are the second derivatives
of the sum. The matrix of these is symmetric in the moves and the inputs.

A box that moves strains itself and the points, which then move back. Along the strain first
derivatives have differences: see `parki.ewald.derivatives.by_box`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np

from parki.errors import ParkiTypeError
from parki.ewald.derivatives.by_box import strained, vectors_of
from parki.ewald.derivatives.vjp import vjp
from parki.ewald.geometry.systems import Batch
from parki.ewald.options import EwaldOptions
from parki.ewald.sums import SUMS
from parki.ewald.sums.record import Sum
from parki.ewald.sums.slopes import readable
from parki.interchange import as_array, as_given, to_host

# By kernel, its result, names of inputs, the inputs, and values.
Pull = Callable[[str, str, tuple[str, ...], tuple[Any, ...], Any], Mapping[str, Any]]
Make = Callable[[list[Any]], Any]  # an array of numbers
UNIT = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def pulled(
    kernel: Any,
    options: EwaldOptions,
    batch: Batch,
    inputs: Any,
    values: Any,
    names: Any,
    want: str = "u",
) -> dict[str, Any]:
    """Return derivatives of a result by names of inputs, "box" among them, by name.

    ``inputs`` are targets, sources or None, density, normals or None, and the box or None. Without
    sources the targets are the sources, and have derivatives in both roles.
    """
    trg, src, dens, norms, box = inputs
    both = src is None and "trg" in names
    dens = None if names == ("dens",) else dens  # on which these do not depend
    lattice = "lattice" if box is not None and box.ndim == 2 else "box"
    wrt = tuple(lattice if name == "box" else name for name in (*names, *["src"] * both))
    how: dict[str, Any] = {"values": values, "wrt": wrt, "want": want, **batch._asdict()}
    points = trg, trg if src is None else src
    derivatives: dict[str, Any] = vjp(kernel, *points, dens, norms, options, **how)
    if both:
        derivatives["trg"] = derivatives["trg"] + derivatives.pop("src")
    if "box" in names:
        derivatives["box"] = derivatives.pop(lattice)
    return derivatives


def along(
    strain: Any,
    kernel: Any,
    options: EwaldOptions,
    batch: Batch,
    inputs: Any,
    values: Any,
    names: Iterable[str] = ("u",),
    summed: Any = None,
) -> list[Any]:
    """Return the change of derivatives along a strain (3, 3) of points and box: see `pulled`.

    Without values the sum itself changes, which ``summed`` computes.
    """
    arrays = [None if a is None else as_array("a tensor", a) for a in (strain, *inputs, values)]
    dtype = cast(Any, arrays[1]).dtype
    double: Any = (None if array is None else array.astype(np.float64) for array in arrays)
    matrix, trg, src, dens, norms, box, weights = double
    total: Any = dict.fromkeys(names, 0.0)
    for weight, there, moved in strained(options, to_host(matrix)):
        deformed = np.asarray(moved, like=trg)
        points = deformed @ trg, None if src is None else deformed @ src
        if weights is None:
            arguments = kernel, points[0], points[src is not None], norms, there
            parts = {"u": summed(arguments, dens, **batch._asdict())}
        else:
            parts = pulled(kernel, there, batch, (*points, dens, norms, box), weights, (*total,))
        total = {name: total[name] + weight * part for name, part in parts.items()}
    return [as_given(total[name].astype(dtype), inputs[0]) for name in names]


def unboxed(
    trg: Any, src: Any, moves: Mapping[str, Any], options: EwaldOptions, array: Make
) -> tuple[Any, dict[str, Any]]:
    """Return the strain (3, 3) of points and box that moves the box, and the moves of all else."""
    box, unit = moves["box"], array(UNIT)
    rows = (box if box.ndim == 2 else unit * box) * array(
        np.outer(options.periodic, options.periodic).tolist()
    )
    strain = (array(np.linalg.inv(vectors_of(options)).tolist()) @ rows).T
    others = {name: move for name, move in moves.items() if name != "box"}
    for name, points in (("trg", trg), ("src", src)):
        if points is not None:
            others[name] = others.get(name, 0) - strain @ points
    return strain, others


def bent(
    kernel: str,
    options: EwaldOptions,
    given: tuple[Any, ...],
    moves: Mapping[str, Any],
    values: Any,
    needs: tuple[str, ...],
    pull: Pull,
    change: Callable[[Any], list[Any]],
    array: Make,
) -> dict[str, Any]:
    """Return the derivatives of G by the inputs in ``needs``; those that are zero are left out.

    Parameters
    ----------
    kernel : str
    options : EwaldOptions
    given : tuple
        Targets, sources or None, density, and normals or None, (..., N). Without sources the
        targets are the sources.
    moves : mapping
        Changes by the names of inputs.
    values : array
        In the shape of the sum.
    needs : tuple of str
    pull : callable
        Derivatives of a result of a sum, by name.
    change : callable
        ``change(strain)``: those by ``needs`` along a strain, as of `along`.
    array : callable
        ``array(numbers)``: an array of numbers, like the values.

    Raises
    ------
    ParkiTypeError
        If the sum has no second derivatives, and more than densities move.
    """
    trg, src, dens, norms = given
    derivatives: dict[str, Any] = {}
    if not needs or not moves:
        return derivatives
    kind = SUMS[kernel]
    # Near a wall a source that moves is a dipole, and no target that moves the other way.
    walled = options.walled and not kind.dipoles
    if (walled or not bends(kind)) and [*moves] != ["dens"]:
        refuse_second(needs, moves, kernel, walled=walled)
    if "box" in moves:
        strain, moves = unboxed(trg, src, moves, options, array)
        derivatives |= zip(needs, change(strain), strict=True)

    def add(of: str, want: str, inputs: Any, weights: Any, **made: Any) -> None:
        """Add derivatives; ``made`` are maps of those by inputs which it does not take as given."""
        names = tuple(n for n in needs if n not in made or made[n])
        parts = pull(of, want, names, inputs, weights) if names else {}
        for name, part in parts.items():
            own = made[name](part) if name in made else part
            derivatives[name] = derivatives[name] + own if name in derivatives else own

    def of_layers(part: Any) -> Any:
        """Return a density of the layers alone."""
        own = [[float(source.normal)] for source in kind.sources for _ in range(source.rows)]
        return part * array(own)

    away, towards = moves.get("trg" if src is None else "src"), moves.get("trg")
    if "dens" in moves:
        add(kernel, "u", (trg, src, moves["dens"], norms), values, dens=None)
    if "norms" in moves:
        inputs = trg, src, of_layers(dens), moves["norms"]
        add(kernel, "u", inputs, values, dens=of_layers, norms=None)
    if towards is not None:
        add(kernel, "grad_u", (trg, src, dens, norms), values[..., None, :] * towards)
    if away is not None and kind.dipoles and SUMS[kind.dipoles].adjoints:
        tensors = dens[..., None, :] * away
        back = lambda part: (part * away).sum(-2)  # noqa: E731
        add(kind.dipoles, "u", (trg, src, tensors, None), values, dens=back)
    elif away is not None:
        inner = len(kind.density_shape(1))
        many = dens.ndim - inner
        along = away[(slice(None), *[None] * (dens.ndim - 1))]  # an axis of the points comes first
        moved = (along * dens[None]).reshape(-1, *dens.shape[many:])
        unit = array(UNIT)[(slice(None), *[None] * (values.ndim - 1), slice(None), None)]
        weights = 0 - values[None, ..., None, :] * unit
        weights = weights.reshape(-1, *weights.shape[1 + many :])
        back = lambda part: (part.reshape(3, *dens.shape) * along).sum(0)  # noqa: E731
        add(kernel, "grad_u", (trg, src, moved, norms), weights, dens=back)
    return derivatives


def bends(kind: Sum) -> bool:
    """Return whether a sum has second derivatives by points."""
    return "grad_u" in kind.adjoints and bool(kind.dipoles or readable(kind))


def refuse_second(
    by: Iterable[str], of: Iterable[str], kernel: str, twice: bool = False, walled: bool = False
) -> None:
    """Refuse derivatives by inputs, if there are any, of derivatives by inputs.

    ``twice`` says that both are changes, as of forward mode, and ``walled`` that a wall is why.

    Raises
    ------
    ParkiTypeError
    """
    if not (by := [*by]):
        return
    known = ", ".join(name for name, kind in SUMS.items() if bends(kind))
    remedy = f"parki has those of {known}, and of others by densities alone"
    if walled:
        remedy = "near a wall parki has those of stokes_sl, and of others by densities alone"
    elif twice:
        remedy = "take reverse mode for one of the two, as grad and backward do"
    raise ParkiTypeError(
        f"a second derivative of {kernel} by {', '.join(by)} was asked for, of a derivative by "
        f"{', '.join(of)}; {remedy}. A plan with want='grad_u' has the gradient as values, which "
        "apply differentiates by densities; where first derivatives alone are meant, do not "
        "differentiate them again"
    )


def refuse_third() -> None:
    """Refuse third derivatives.

    Raises
    ------
    ParkiTypeError
    """
    raise ParkiTypeError(
        "a third derivative was asked for, of a second one by points; parki has none"
    )
