"""The sums that there are: a record for each, by name, and the terms that they are made of."""

from __future__ import annotations

from typing import Any

from parki.errors import ParkiValueError
from parki.ewald.sums.blobs import families
from parki.ewald.sums.laplace import LAPLACE
from parki.ewald.sums.laplace_dipole import LAPLACE_DIPOLE
from parki.ewald.sums.names import Sums, always
from parki.ewald.sums.record import Far, Sum, Term, WindowWeights
from parki.ewald.sums.stokes_comb import STOKES_COMB
from parki.ewald.sums.stokes_dipole import STOKES_DIPOLE
from parki.ewald.sums.stokes_dl import STOKES_DL
from parki.ewald.sums.stokes_rotlet import STOKES_ROTLET
from parki.ewald.sums.stokes_sl import STOKES_SL
from parki.typing import KernelWithParameters

__all__ = [
    "SUMS",
    "TERMS",
    "Far",
    "Sum",
    "Term",
    "WindowWeights",
    "kernel",
    "sum_of",
    "term_of",
]

_PLAIN = (
    LAPLACE,
    STOKES_SL,
    STOKES_DL,
    STOKES_COMB,
    STOKES_ROTLET,
    STOKES_DIPOLE,
    LAPLACE_DIPOLE,
)
_WITH_BLOBS = (STOKES_SL, STOKES_DL, STOKES_COMB, STOKES_DIPOLE)
SUMS = Sums({each.name: always(each) for each in _PLAIN} | families(_WITH_BLOBS))
TERMS = {
    term.name: term for each in SUMS.values() for terms in each.terms.values() for term in terms
}


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
    return KernelWithParameters(SUMS.make(name, **parameters).name)


def sum_of(kernel: Any) -> Sum:
    """Return the record of a sum by its name, or refuse what names none."""
    if not isinstance(kernel, str):
        raise ParkiValueError(f"kernel is {kernel!r}; expected one of {', '.join(SUMS)}")
    return SUMS[kernel]


def term_of(name: str) -> Term:
    """Return a term, or refuse an unknown one by name."""
    if name not in TERMS:
        raise ParkiValueError(f"kernel is {name!r}; expected one of {', '.join(TERMS)}")
    return TERMS[name]
