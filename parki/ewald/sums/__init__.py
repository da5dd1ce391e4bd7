"""The sums that there are: a record for each, by name, and the terms that they are made of."""

from __future__ import annotations

from parki.errors import ParkiValueError
from parki.ewald.sums.laplace import LAPLACE
from parki.ewald.sums.laplace_dipole import LAPLACE_DIPOLE
from parki.ewald.sums.record import Far, Sum, Term, WindowWeights
from parki.ewald.sums.stokes_comb import STOKES_COMB
from parki.ewald.sums.stokes_dipole import STOKES_DIPOLE
from parki.ewald.sums.stokes_dl import STOKES_DL
from parki.ewald.sums.stokes_rotlet import STOKES_ROTLET
from parki.ewald.sums.stokes_sl import STOKES_SL

__all__ = ["SUMS", "TERMS", "Far", "Sum", "Term", "WindowWeights", "term_of"]

_ALL = (
    LAPLACE,
    STOKES_SL,
    STOKES_DL,
    STOKES_COMB,
    STOKES_ROTLET,
    STOKES_DIPOLE,
    LAPLACE_DIPOLE,
)
SUMS = {each.name: each for each in _ALL}
TERMS = {
    term.name: term for each in SUMS.values() for terms in each.terms.values() for term in terms
}


def term_of(name: str) -> Term:
    """Return a term, or refuse an unknown one by name."""
    if name not in TERMS:
        raise ParkiValueError(f"kernel is {name!r}; expected one of {', '.join(TERMS)}")
    return TERMS[name]
