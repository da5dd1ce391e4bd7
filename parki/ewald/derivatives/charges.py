"""`Charges`, which energies are of, with the sums that have them, and the checks of arguments.

`parki.torch` and `parki.jax` have sums with derivatives. Their energies are made of these by
`energy_of_sums`, so that everything works which works for sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError, by_words
from parki.ewald.options import EwaldOptions
from parki.ewald.points import check_density, check_dtypes
from parki.ewald.points.widths import energies_of_pairs, refuse_boxes
from parki.ewald.sums import kernel
from parki.interchange import as_array, flag, to_host
from parki.typing import AnyArray, OfPoints

# What sums call them.
WORDS = {"dens": "charges", "trg": "points", "src": "points"}
WORDS |= {"of targets": "of points", "of sources": "of points"}
WORDS |= {"targets given": "points given", "sources given": "points given"}


class Charges(NamedTuple):
    """Charges (N,) at points (3, N), perhaps with dipoles (3, N); and the names of their sums.

    Attributes
    ----------
    points, values, dipoles : array
    kernel, multipoles : str
        The sums of potentials, and of dipoles and quadrupoles.
    widths : tuple of 2 arrays, shape (N,), or None
        Squares of the widths of charges as targets and sources, where they are many.
    """

    points: AnyArray
    values: AnyArray
    dipoles: AnyArray | None
    kernel: str
    multipoles: str
    widths: tuple[AnyArray, AnyArray] | None = None


def sum_of_charges(kappa: float | None, epsilon: Any) -> tuple[str, dict[str, Any]]:
    """Return the sum of potentials of charges, and its parameters; or the widths of each charge.

    Two Gaussians have the energy of a point and a Gaussian of both widths.
    """
    if getattr(epsilon, "ndim", 0) > 0:
        _refuse_both(kappa)
        return "laplace", {"epsilon": (epsilon, epsilon)}
    if getattr(epsilon, "ndim", 0) == 0 and epsilon == 0:
        return ("laplace", {}) if kappa is None else ("yukawa", {"kappa": kappa})
    _refuse_both(kappa)
    kernel("laplace", epsilon=epsilon)  # refuses what is no width
    return "laplace", {"epsilon": math.sqrt(2) * epsilon}


def _refuse_both(kappa: float | None) -> None:
    """Refuse screened charges that are Gaussians."""
    if kappa is not None:
        raise ParkiValueError(
            "kappa was given, and epsilon as well; screened charges are points: leave out one of "
            "the two"
        )


def checked_charges(
    arrays: dict[str, AnyArray],
    rows: bool | None,
    options: EwaldOptions,
    *,
    epsilon: Any,
    kappa: float | None,
    boxes: bool,
) -> tuple[Charges, bool]:
    """Return charges with points and dipoles as columns, and whether these were rows.

    Values are looked at here only with dipoles, or ``boxes`` of each system: other sums do that.
    """
    shape = arrays["points"].shape
    in_rows = check_charges(shape, arrays["charges"].shape, rows)
    check_dtypes(arrays)
    if "dipoles" in arrays and arrays["dipoles"].shape != shape:
        raise ParkiValueError(
            f"dipoles has shape {arrays['dipoles'].shape}; expected that of the points, {shape}"
        )
    if "dipoles" in arrays and kappa is not None:
        raise ParkiValueError(
            "kappa is for charges, but dipoles were given; leave out one of the two"
        )
    columns = {n: a.T.copy() if in_rows and a.ndim == 2 else a for n, a in arrays.items()}
    for name in ("charges", "dipoles"):
        if name in arrays and (boxes or "dipoles" in arrays):
            values = columns[name]
            check_density(name, values, values.shape, single=options.precision == "mixed")
    x, q, d = columns["points"], columns["charges"], columns.get("dipoles")
    if np.ndim(epsilon) > 0:
        _refuse_both(kappa)
        refuse_boxes(boxes)
        charges, multipoles, widths = energies_of_pairs(x, epsilon)
        return Charges(x, q, d, charges, multipoles, widths), in_rows
    name, parameters = sum_of_charges(kappa, epsilon)
    if not parameters:
        return Charges(x, q, d, name, "multipoles(order=2)"), in_rows
    soft = parameters if kappa is None else {}
    multipoles = kernel("multipoles", order=2, **soft)
    return Charges(x, q, d, kernel(name, **parameters), multipoles), in_rows


def check_charges(shape: tuple[int, ...], charges: tuple[int, ...], rows: bool | None) -> bool:
    """Return whether points of this shape are in rows; refuse other shapes, also of charges."""
    in_rows = _in_rows(shape, rows)
    count = shape[0 if in_rows else 1]
    if charges != (count,):
        raise ParkiValueError(
            f"charges has shape {charges}; expected ({count},), a number for each point: several "
            "sets of charges take a call each"
        )
    return in_rows


def _in_rows(shape: tuple[int, ...], rows: bool | None) -> bool:
    """Return whether points of this shape are in rows; refuse three if nobody says so."""
    fits = {True: shape[1:] == (3,), False: shape[:1] == (3,) and len(shape) == 2}
    if rows is None and all(fits.values()):
        raise ParkiValueError(
            "points has shape (3, 3), whose rows or columns may be the points; pass rows=True if "
            "points[0] is one, or rows=False if points[:, 0] is"
        )
    in_rows = fits[True] if rows is None else flag("rows", rows)
    if not fits[in_rows]:
        expected = "(N, 3) or (3, N)" if rows is None else ("(3, N)", "(N, 3)")[in_rows]
        said = "" if rows is None else f", as rows is {in_rows}"
        raise ParkiValueError(f"points has shape {shape}; expected {expected}{said}")
    return in_rows


def check_alike(name: str, pair: OfPoints | None) -> None:
    """Refuse a pair of arrays that differ, of points that are targets and sources at once."""
    if isinstance(pair, tuple) and len(pair) == 2:
        first, second = (to_host(as_array(name, array)) for array in pair)
        if first.ndim and not np.array_equal(first, second):
            raise ParkiValueError(
                f"{name} differs for targets and sources, but the points are both; give one array"
            )


def energy_of_sums(
    product: Callable[..., AnyArray],
    points: AnyArray,
    charges: AnyArray,
    *,
    rows: bool | None,
    kappa: float | None,
    epsilon: Any,
    systems: Any,
    **others: Any,
) -> Any:
    """Return the energy of charges, or of each of several systems.

    Parameters
    ----------
    product : callable
        ``product(name, parameters, points, charges, systems=..., ...)`` is half the product of
        charges with their potentials, by the sum of a name, which takes points in columns.
    points, charges, rows, kappa, epsilon, systems, **others
        As for `parki.energy`.
    """
    in_rows = check_charges(tuple(points.shape), tuple(charges.shape), rows)
    check_alike("systems", systems)
    name, parameters = sum_of_charges(kappa, epsilon)
    columns = points.T if in_rows else points
    with by_words(WORDS):
        return product(name, parameters, columns, charges, systems=systems, **others)
