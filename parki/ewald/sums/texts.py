"""The texts of pair functions that have no file of their own, which others of the package take."""

from __future__ import annotations

from functools import lru_cache

from parki.ewald.sums.couplets import CoupletText
from parki.ewald.sums.sources import Source
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.written import Text


@lru_cache(maxsize=64)
def text_of(
    symbol: Symbol, sources: tuple[Source, ...], contacts: str = "", marked: bool = False
) -> str:
    """Return the text of a pair function; for ``contacts`` and marks see `PairFunction`."""
    of_couplets = CoupletText(contacts == "rest", marked) if contacts else None
    return (of_couplets or Text(symbol, sources)).text()
