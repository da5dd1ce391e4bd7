"""The sums that there are: a record for each, by name, and the terms that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from parki.errors import ParkiValueError
from parki.ewald.sums import (
    blobs,
    brinkman,
    doublets,
    laplace,
    laplace_dipole,
    multipoles,
    polydisperse,
    spheres,
    stokes_comb,
    stokes_dipole,
    stokes_dl,
    stokes_rotlet,
    stokes_sl,
    yukawa,
)
from parki.ewald.sums.images import ImageParts
from parki.ewald.sums.names import InteractionFamily, Sums, read_name
from parki.ewald.sums.record import ErrorTerm, Interaction
from parki.interchange import shown
from parki.typing import KernelWithParameters

__all__ = [
    "SUMS",
    "TERMS",
    "ErrorTerm",
    "ImageParts",
    "Interaction",
    "in_unit",
    "kernel",
    "lengths_of",
    "register",
    "sum_of",
    "term_of",
]

_MODULES = (
    laplace,
    stokes_sl,
    stokes_dl,
    stokes_comb,
    stokes_rotlet,
    stokes_dipole,
    laplace_dipole,
    yukawa,
)
_FAMILIES = {module.__name__.rpartition(".")[2]: module.FAMILY for module in _MODULES}
_PARTS = spheres.FAMILIES | polydisperse.FAMILIES | doublets.FAMILIES | multipoles.FAMILIES
_ALL = _FAMILIES | brinkman.FAMILIES | _PARTS | yukawa.FAMILIES
_FLOWS = ("stokes_sl", "stokes_dl", "stokes_comb", "stokes_dipole")
_POTENTIALS = {name: _ALL[name] for name in blobs.OF_PAIRS}
_REGULARISED = blobs.families({name: _ALL[name] for name in (*_POTENTIALS, *_FLOWS)})
SUMS = Sums(_ALL | _REGULARISED | blobs.families_of_pairs(_POTENTIALS))
TERMS = {
    term.name: term
    for record in SUMS.examples()
    for terms in record.terms.values()
    for term in terms
}
# Least and most that a length may be in units of the box: results and errors take powers of it, up
# to the seventh, and cells of the near field, which may reach as far, are counted with 32 bits.
LEAST, MOST = 1e-30, 1e6


def register(name: str, family: InteractionFamily) -> None:
    """Add the sums of one name to those that plans take, until the process ends.

    parki's own sums are in the list above. This is for others, such as one that is being developed
    outside of the package: `parki.Plan` takes their names, while calls, lists and pages have the
    listed ones alone. The file of a pair function may be a path without ".py".

    Parameters
    ----------
    name : str
        A name that no other family has; the records' names begin with it.
    family : InteractionFamily

    Raises
    ------
    ParkiValueError
        If there is such a sum or such a term already, the record has another name, or a length that
        is no parameter; or if it is no family.
    """
    if not isinstance(family, InteractionFamily):
        raise ParkiValueError(
            f"the family of {name!r} is {shown(family)}; expected an InteractionFamily, such as "
            "always(record=record, words=words)"
        )
    if name in SUMS.families:
        raise ParkiValueError(f"there is a sum {name!r} already; register it by another name")
    lacking = [parameter for parameter in family.parameters if parameter not in family.example]
    if lacking:
        raise ParkiValueError(
            f"the family {name!r} has no example of {', '.join(lacking)}; give one number of each "
            "parameter, which lists and tests take"
        )
    record = family.record(family.example)
    if record.name.partition("(")[0] != name:
        raise ParkiValueError(f"the record of {name!r} is named {record.name!r}; name both alike")
    if record.symbol.screening and not family.lengths:
        raise ParkiValueError(
            f"the sum {name!r} has a screening length, which is in the unit of the box; make it a "
            "parameter, and name it in lengths of its InteractionFamily"
        )
    terms = {term.name: term for group in record.terms.values() for term in group}
    for term_name, term in terms.items():
        if TERMS.get(term_name, term) != term:
            raise ParkiValueError(
                f"there is a term {term_name!r} already; give error_terms_of another name"
            )
    SUMS.families[name] = family._replace(words=None)
    TERMS.update(terms)


def kernel(name: str, /, **parameters: Any) -> KernelWithParameters:
    """Return the name of a sum with parameters, which every call takes as a kernel.

    It is a string such as ``"yukawa(kappa=2.0)"``, which may be written by hand, too.

    Parameters
    ----------
    name : str
        What to sum.
    **parameters
        The parameters of that sum, in the unit of ``box``.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If there is no such sum, or a parameter is missing, unknown or impossible.
    """
    return KernelWithParameters(SUMS.make(name, parameters).name)


def with_parameters(
    name: Any, keywords: Mapping[str, Any], make: Callable[..., str] = kernel
) -> tuple[Any, Any]:
    """Return the kernel of a sum's name and its parameters among keywords; and the others."""
    if not keywords:  # as of most calls: the list of parameters takes longer than the rest
        return name, keywords
    parameters = {n: keywords[n] for n in SUMS.parameters if n in keywords}
    if not parameters:
        return name, keywords
    return make(name, **parameters), {n: v for n, v in keywords.items() if n not in parameters}


def lengths_of(name: str) -> dict[str, tuple[float, int]]:
    """Return the parameters of a listed sum that are powers of a length, and the powers."""
    family, parameters = read_name(name)
    powers = SUMS.listed[family].lengths if family in SUMS.listed else {}
    return {n: (parameters[n], power) for n, power in powers.items() if parameters.get(n)}


def in_unit(name: str, unit: float) -> str:
    """Return the name of a sum whose lengths are measured in another unit."""
    if "(" not in name:
        return name
    family, parameters = read_name(name)
    for length, power in SUMS.families[family].lengths.items():
        if value := parameters.get(length):
            parameters[length] = value / unit**power
            if power > 0 and not LEAST <= parameters[length] <= MOST:
                raise ParkiValueError(
                    f"{length} is {value:g}, but the box has edges of about {unit:.3g}; "
                    f"expected {LEAST:g} to {MOST:g} times that"
                )
    return SUMS.make(family, parameters).name


def sum_of(kernel: Any) -> Interaction:
    """Return the record of a sum by its name, or refuse what names none."""
    if not isinstance(kernel, str):
        raise ParkiValueError(f"kernel is {shown(kernel)}; expected one of {', '.join(SUMS)}")
    return SUMS[kernel]


def term_of(name: str) -> ErrorTerm:
    """Return a term, or refuse an unknown one by name."""
    if name not in TERMS:
        raise ParkiValueError(f"kernel is {name!r}; expected one of {', '.join(TERMS)}")
    return TERMS[name]
