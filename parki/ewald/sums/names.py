"""Names of sums: a name may carry parameters, as in ``"yukawa(kappa=2.0)"``.

A sum is named by a string everywhere. So it hashes, pickles, prints itself and goes through
compilers of PyTorch and JAX, and one with parameters does so too. Equal sums have equal names.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.words import Words
from parki.interchange import shown


class InteractionFamily(NamedTuple):
    """The sums of one name.

    Attributes
    ----------
    make : callable
        ``make(**parameters)``: the record of one of them, named by `named`. It refuses parameters
        that are impossible. Its signature says which there are, and their defaults.
    lengths : mapping of str to int
        Parameters that are powers of a length, with the power.
    example : mapping of str
        Parameters of the one that stands for all in lists of sums. `register` makes it, so that it
        needs each parameter without a default.
    words : Words, optional
        What its calls say. Parts of something larger have none: no calls, no place in lists.
    """

    make: Callable[..., Interaction]
    lengths: Mapping[str, int] = {}
    example: Mapping[str, Any] = {}
    words: Words | None = None

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the sums."""
        return inspect.signature(self.make).parameters

    def record(self, parameters: Mapping[str, Any]) -> Interaction:
        """Return the record of the sum with these parameters."""
        return self.make(**parameters)


def named(family: str, **parameters: Any) -> str:
    """Return the name of a sum; numbers are written as Python reads them back."""
    inner = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    return f"{family}({inner})" if inner else family


def read_name(name: str) -> tuple[str, dict[str, Any]]:
    """Return the family and the parameters of a name that `named` writes, or refuse it."""
    if "(" not in name:
        return name, {}
    try:
        call: Any = ast.parse(name.strip(), mode="eval").body
        family: str = call.func.id
        if not call.args:
            return family, {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError, AttributeError, RecursionError, MemoryError):
        pass  # the last two of many brackets
    raise ParkiValueError(
        f"kernel is {shown(name)}; expected a name and parameters, such as "
        f"{named('yukawa', kappa=2.0)!r}"
    )


def always(record: Interaction, words: Words | None = None) -> InteractionFamily:
    """Return the family of a sum without parameters."""
    return InteractionFamily(lambda: record, words=words)


class Sums(dict[str, Interaction]):
    """The records of sums by name: it lists one of each family that has words, and makes others.

    Attributes
    ----------
    families : dict of InteractionFamily
        All families, by their names.
    listed : dict of InteractionFamily
        Those that have calls, and stand in lists.
    parameters : tuple of str
        The names of all parameters that calls take.
    """

    def __init__(self, families: Mapping[str, InteractionFamily]) -> None:
        self.families = dict(families)
        self.listed = {name: family for name, family in families.items() if family.words}
        records = [family.record(family.example) for family in self.listed.values()]
        super().__init__((record.name, record) for record in records)
        names = (name for family in self.listed.values() for name in family.parameters)
        self.parameters = tuple(dict.fromkeys(names))
        # Sums whose parameters change all the time do not stay in memory.
        self._unlisted = lru_cache(maxsize=256)(self._read)

    def examples(self) -> Iterator[Interaction]:
        """Yield one sum of each family, listed or not."""
        return (family.record(family.example) for family in self.families.values())

    def __missing__(self, name: str) -> Interaction:
        return self._unlisted(name)

    def _read(self, name: str) -> Interaction:
        family, parameters = read_name(name)
        return self.make(family, parameters)

    def make(self, name: Any, parameters: Mapping[str, Any]) -> Interaction:
        """Return the record of a sum by its family's name and parameters, or refuse them."""
        if not isinstance(name, str) or name not in self.families:
            raise ParkiValueError(f"kernel is {shown(name)}; expected one of {', '.join(self)}")
        family = self.families[name]
        known = family.parameters
        for parameter in parameters:
            if parameter not in known:
                takes = ", ".join(known) if known else "no parameters"
                raise ParkiTypeError(f"{name} takes {takes}; it has no {parameter!r}")
        missing = [n for n, p in known.items() if p.default is p.empty and n not in parameters]
        if missing:
            example = family.record(family.example).name
            raise ParkiTypeError(f"{name} needs {' and '.join(missing)}, as in {example!r}")
        return family.record(parameters)
