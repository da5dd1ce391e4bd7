"""Regularised sums: sources are blobs of finite size in place of points.

A blob is a mollifier psi like a split's. So a regularised sum has the symbol, the sources, the
gauge and the errors of the plain one; only close pairs differ. The blob of Cortez never ends, and
the grid has its transform along with the split's. It is for forces, and their layers and dipoles;
charges are Gaussian or prolate. See "Regularised sums" of ``docs/theory.md``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from parki.errors import ParkiValueError
from parki.ewald.sums.adjoint import by_layers
from parki.ewald.sums.names import InteractionFamily, named, read_name
from parki.ewald.sums.pairs import Blob
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.words import REGULARISED
from parki.interchange import number, one_of
from parki.typing import OfPoints

LAYERS, BLOBS = "stokes_dl", ("gaussian", "prolate", "cortez")
# Names of sums of charges whose pairs have widths of their own, by the names for points.
OF_PAIRS = {
    "laplace": "gaussian_charges",
    "laplace_dipole": "gaussian_dipoles",
    "multipoles": "gaussian_multipoles",
}
QUADRUPOLES = "multipoles(order=2)"
# A Gaussian of the same hydrodynamic radius as the blob of Cortez has this many times its epsilon.
CORTEZ = 2 / math.sqrt(math.pi)


def checked(kind: Any, epsilon: Any, order: int) -> Blob:
    """Return a blob for a symbol of an order, or refuse it."""
    width = number("epsilon", epsilon, "a number, the width of a source in the unit of box")
    if not 0 <= width < math.inf:
        raise ParkiValueError(
            f"epsilon is {width:g}; expected the width of a source in the unit of box, or 0 for "
            "a point"
        )
    return Blob(one_of("blob", kind, BLOBS if order == 2 else BLOBS[:2]), width)


def families(plain: Mapping[str, InteractionFamily]) -> dict[str, InteractionFamily]:
    """Return families of sums that are regularised, if their calls say so, by their names."""
    names, regularised = {*plain}, {}
    for name, family in plain.items():
        order = family.record(family.example).symbol.order
        words = family.words and family.words._replace(parameters=REGULARISED[order])
        regularised[name] = InteractionFamily(
            _maker(family, names), {"epsilon": 1}, family.example, words
        )
    return regularised


def families_of_pairs(plain: Mapping[str, InteractionFamily]) -> dict[str, InteractionFamily]:
    """Return families of charges whose pairs have widths of their own, between two lengths.

    The square of the width of a pair is the sum of the squares of both points.
    """
    lengths = dict.fromkeys(("narrowest", "widest"), 1)
    example = dict.fromkeys(lengths, 0.02)
    return {
        OF_PAIRS[name]: InteractionFamily(
            _maker_of_pairs(family), lengths, {**family.example, **example}
        )
        for name, family in plain.items()
    }


def _maker(plain: InteractionFamily, names: set[str]) -> Callable[..., Interaction]:
    def make(
        epsilon: float | OfPoints = 0.0, blob: str = "gaussian", **parameters: Any
    ) -> Interaction:
        record = plain.record(parameters)
        chosen = checked(blob, epsilon, record.symbol.order)
        if not chosen.epsilon:
            return record
        # The default is no part of names.
        kind = {} if blob == BLOBS[0] else {"blob": blob}

        def name(kernel: str) -> str | None:
            family, parameters = read_name(kernel)
            all_parameters = {**parameters, "epsilon": chosen.epsilon, **kind}
            return named(family, **all_parameters) if family in names else None

        return regularised(record, chosen, name)

    return _with_parameters(make, plain)


def _maker_of_pairs(plain: InteractionFamily) -> Callable[..., Interaction]:
    def make(narrowest: float, widest: float, **parameters: Any) -> Interaction:
        def name(kernel: str) -> str:
            family, parameters = read_name(kernel)
            return named(OF_PAIRS[family], **parameters, narrowest=narrowest, widest=widest)

        record = regularised(plain.record(parameters), Blob(BLOBS[0], narrowest, widest), name)
        pair = record.pair._replace(point_radii=2)
        return replace(record, pair=pair, quadrupoles=name(QUADRUPOLES))

    return _with_parameters(make, plain)


def _with_parameters(
    make: Callable[..., Interaction], plain: InteractionFamily
) -> Callable[..., Interaction]:
    """Return a callable that shows the parameters of another family, too."""
    signature = inspect.signature(make)
    *own, _ = signature.parameters.values()
    shown = signature.replace(parameters=[*plain.parameters.values(), *own])
    make.__signature__ = shown  # type: ignore[attr-defined]
    return make


def regularised(plain: Interaction, blob: Blob, name: Callable[[str], str | None]) -> Interaction:
    """Return a sum whose sources are blobs, with transposes and derivatives of the same blob.

    ``name`` returns the name of a sum with this blob, or None where there is none. In place of
    charges, which would be blobs of another shape, transposes of pressures take double layers.
    """
    polynomials, others = plain.pair.operations
    return replace(
        plain,
        name=str(name(plain.name)),
        # Each polynomial comes with the blob's; the choice between both takes some operations.
        pair=plain.pair._replace(operations=(2 * polynomials, others + 4), blob=blob),
        adjoints={
            result: replace(adjoint, kernel=kernel)
            if (kernel := name(adjoint.kernel))
            else by_layers(adjoint, str(name(LAYERS)))
            for result, adjoint in plain.adjoints.items()
        },
        dipoles=(plain.dipoles and name(plain.dipoles)) or "",
    )
