"""Second derivatives of sums whose sources have a sum of dipoles.

Values times the change of a sum, ``G = <values, change for moves>``, have derivatives by all
inputs. A source that moves adds a dipole. A target that moves reads the slope, of which the
transpose is a dipole at the target. So G is three sums: of changes of the density, of dipoles at
the sources, and of dipoles at the targets, where the sources read. Their first derivatives are the
second derivatives of the sum. The matrix of these is symmetric in the moves and the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from parki.errors import ParkiTypeError
from parki.ewald.sums import SUMS

# By kernel, whether targets and sources change places, names of inputs, the inputs, and values.
Pull = Callable[[str, bool, tuple[str, ...], tuple[Any, ...], Any], Mapping[str, Any]]
Total = Callable[[str, bool, tuple[Any, ...]], Any]


def bent(
    kernel: str,
    given: tuple[Any, ...],
    moves: Mapping[str, Any],
    values: Any,
    needs: tuple[str, ...],
    pull: Pull,
    total: Total,
) -> dict[str, Any]:
    """Return the derivatives of G by the inputs in ``needs``; those that are zero are left out.

    Parameters
    ----------
    kernel : str
    given : tuple
        Targets, sources or None, density, and normals or None, (..., N). Without sources the
        targets are the sources.
    moves : mapping
        Changes by the names of inputs.
    values : array
        In the shape of the sum.
    needs : tuple of str
    pull, total : callable
        Derivatives of a sum, by name, and a sum.

    Raises
    ------
    ParkiTypeError
        If the sum has no sum of dipoles, and more than densities move.
    """
    trg, src, dens, norms = given
    derivatives: dict[str, Any] = {}
    if not needs or not moves:
        return derivatives
    dipoles = SUMS[kernel].dipoles
    if not dipoles and [*moves] != ["dens"]:
        refuse_second(needs, moves, kernel)

    def add(names: dict[str, str], of: str, swapped: bool, inputs: Any, weights: Any) -> None:
        names = {own: name for own, name in names.items() if name in needs}
        parts = pull(of, swapped, (*names,), inputs, weights) if names else {}
        for own, name in names.items():
            part = (parts[own] * away).sum(-2) if own == "dens" else parts[own]
            derivatives[name] = derivatives[name] + part if name in derivatives else part

    same = {name: name for name in ("trg", "src", "norms")}
    away, towards = moves.get("trg" if src is None else "src"), moves.get("trg")
    if "dens" in moves:
        add(same, kernel, False, (trg, src, moves["dens"], norms), values)
    if away is not None:
        tensors = dens[..., None, :] * away
        names = {name: name for name in ("trg", "src", "dens")}
        add(names, dipoles, False, (trg, src, tensors, None), values)
    if towards is not None:
        points = (trg, None) if src is None else (src, trg)
        inputs = (*points, values[..., None, :] * towards, None)
        names = {"trg": "trg"} if src is None else {"src": "trg", "trg": "src"}
        add(names, dipoles, True, inputs, dens)
        if "dens" in needs:
            part = total(dipoles, True, inputs)
            derivatives["dens"] = derivatives["dens"] + part if "dens" in derivatives else part
    return derivatives


def refuse_second(by: Iterable[str], of: Iterable[str], kernel: str, twice: bool = False) -> None:
    """Refuse derivatives by inputs, if there are any, of derivatives by inputs.

    ``twice`` says that both are changes, as of forward mode.

    Raises
    ------
    ParkiTypeError
    """
    if not (by := [*by]):
        return
    known = ", ".join(name for name, kind in SUMS.items() if kind.dipoles)
    remedy = f"parki has those of {known}, and of others by densities alone"
    if twice:
        remedy = "take reverse mode for one of the two, as grad and backward do"
    raise ParkiTypeError(
        f"a second derivative of {kernel} by {', '.join(by)} was asked for, of a derivative by "
        f"{', '.join(of)}; {remedy}. A plan with want='grad_u' has the gradient as values, which "
        "apply differentiates by densities; where first derivatives alone are meant, do not "
        "differentiate them again"
    )
