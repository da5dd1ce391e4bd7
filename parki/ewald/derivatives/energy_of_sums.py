"""The energy of charges as a sum of other libraries' arrays, which differentiate it.

`parki.torch` and `parki.jax` have sums with derivatives. An energy is made of these, so that
everything works which works for sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parki.errors import by_words
from parki.ewald.derivatives.charges import WORDS, check_alike, check_charges, sum_of_charges
from parki.typing import AnyArray


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
