"""Second derivatives of sums.

Values times the change of a sum, ``G = <values, change for moves>``, have derivatives by all
inputs. Where densities or normals move, G is a sum of their changes. A target that moves reads the
gradient, and a source that moves is one where all targets move the other way. So G is a sum of
gradients, times the product of values and moves; where the sum of the sources' dipoles has
derivatives, it takes the place of three sums. Their first derivatives are the second derivatives
of the sum. The matrix of these is symmetric in the moves and the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from parki.errors import ParkiTypeError
from parki.ewald.sums import SUMS
from parki.ewald.sums.record import Sum
from parki.ewald.sums.results import of_one, of_result
from parki.ewald.sums.slopes import readable

# By kernel, its result, names of inputs, the inputs, and values.
Pull = Callable[[str, str, tuple[str, ...], tuple[Any, ...], Any], Mapping[str, Any]]


def of_want(kernel: Any, want: str) -> Any:
    """Return a sum for `parki.vjp`, of one of its results."""
    return kernel if want == "u" else of_result(of_one(SUMS[kernel]), want)


def bent(
    kernel: str,
    given: tuple[Any, ...],
    moves: Mapping[str, Any],
    values: Any,
    needs: tuple[str, ...],
    pull: Pull,
    array: Callable[[list[Any]], Any],
    walled: bool,
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
    pull : callable
        Derivatives of a result of a sum, by name.
    array : callable
        ``array(numbers)``: an array of numbers, like the values.
    walled : bool
        Whether there is a wall, near which gradients have no derivatives.

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
    if (walled or not bends(kind)) and [*moves] != ["dens"]:
        refuse_second(needs, moves, kernel, walled=walled)

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
        unit = array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        unit = unit[(slice(None), *[None] * (values.ndim - 1), slice(None), None)]
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

    ``twice`` says that both are changes, as of forward mode, and ``walled`` that there is a wall.

    Raises
    ------
    ParkiTypeError
    """
    if not (by := [*by]):
        return
    known = ", ".join(name for name, kind in SUMS.items() if bends(kind))
    remedy = f"parki has those of {known}, and of others by densities alone"
    if walled:
        remedy = "near a wall parki has those by densities alone"
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
