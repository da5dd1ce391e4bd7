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

LAYERS, BLOBS = "stokes_dl", ("gaussian", "prolate", "cortez")
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


def _maker(plain: InteractionFamily, names: set[str]) -> Callable[..., Interaction]:
    def make(epsilon: float = 0.0, blob: str = "gaussian", **parameters: Any) -> Interaction:
        record = plain.record(parameters)
        chosen = checked(blob, epsilon, record.symbol.order)
        return regularised(record, chosen, names) if chosen.epsilon else record

    signature = inspect.signature(make)
    *more, _ = signature.parameters.values()
    shown = signature.replace(parameters=[*plain.parameters.values(), *more])
    make.__signature__ = shown  # type: ignore[attr-defined]
    return make


def regularised(plain: Interaction, blob: Blob, names: set[str]) -> Interaction:
    """Return a sum whose sources are blobs, with transposes and derivatives of the same blob.

    ``names`` are the sums that have blobs. In place of charges, which would be blobs of another
    shape, transposes of pressures take double layers.
    """

    def name(kernel: str) -> str:
        family, parameters = read_name(kernel)
        parameters["epsilon"] = blob.epsilon
        if blob.kind != BLOBS[0]:  # the default, which names leave out
            parameters["blob"] = blob.kind
        return named(family, **parameters)

    polynomials, others = plain.pair.operations
    adjoints = {
        n: replace(a, kernel=name(a.kernel))
        if read_name(a.kernel)[0] in names
        else by_layers(a, name(LAYERS))
        for n, a in plain.adjoints.items()
    }
    return replace(
        plain,
        name=name(plain.name),
        # Each polynomial comes with the blob's; the choice between both takes some operations.
        pair=plain.pair._replace(operations=(2 * polynomials, others + 4), blob=blob),
        adjoints=adjoints,
        dipoles=plain.dipoles and name(plain.dipoles),
    )
