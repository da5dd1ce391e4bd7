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

# Least and most that a length may be in units of the box: results and errors take powers of it, up
# to the seventh, and cells of the near field, which may reach as far, are counted with 32 bits.
LEAST, MOST = 1e-30, 1e6


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


def named(family: str, **parameters: Any) -> str:
    """Return the name of a sum; numbers are written as Python reads them back."""
    inner = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    return f"{family}({inner})" if inner else family


def always(record: Interaction, words: Words) -> InteractionFamily:
    """Return the family of a sum without parameters."""
    return InteractionFamily(lambda: record, words=words)


class Sums(Mapping[str, Interaction]):
    """The records of sums by name: all that there are, of which one of each family is listed."""

    def __init__(self, families: Mapping[str, InteractionFamily]) -> None:
        self.families = families
        self._listed = [each.make(**each.example).name for each in self.listed.values()]
        # Sums whose parameters change all the time do not stay in memory.
        self._made = lru_cache(maxsize=256)(self._make)

    @property
    def listed(self) -> dict[str, InteractionFamily]:
        """The families that have calls, and stand in lists."""
        return {name: family for name, family in self.families.items() if family.words}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters that calls take."""
        return tuple(dict.fromkeys(n for each in self.listed.values() for n in each.parameters))

    def examples(self) -> Iterator[Interaction]:
        """Yield one sum of each family, listed or not."""
        return (family.make(**family.example) for family in self.families.values())

    def add(self, name: str, family: InteractionFamily) -> None:
        """Add a family, which is not listed."""
        self.families = {**self.families, name: family._replace(words=None)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __getitem__(self, name: str) -> Interaction:
        return self._made(name)

    def _make(self, name: str) -> Interaction:
        family, parameters = self._read(name)
        return self.make(family, **parameters)

    def make(self, family: Any, /, **parameters: Any) -> Interaction:
        """Return the record of a sum by its family and parameters, or refuse them."""
        if not isinstance(family, str) or family not in self.families:
            raise ParkiValueError(f"kernel is {shown(family)}; expected one of {', '.join(self)}")
        known = self.families[family].parameters
        for name in parameters:
            if name not in known:
                takes = ", ".join(known) if known else "no parameters"
                raise ParkiTypeError(f"{family} takes {takes}; it has no {name!r}")
        missing = [n for n, p in known.items() if p.default is p.empty and n not in parameters]
        if missing:
            example = self.families[family].example
            raise ParkiTypeError(
                f"{family} needs {' and '.join(missing)}, as in {named(family, **example)!r}"
            )
        return self.families[family].make(**parameters)

    def _read(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the family and the parameters of a name."""
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
            f"{next((each for each in self if '(' in each), 'name(parameter=1.0)')!r}"
        )

    def lengths(self, name: str) -> dict[str, tuple[float, int]]:
        """Return the parameters of a listed sum that are powers of a length, and the powers."""
        family, given = self._read(name)
        powers = self.families[family].lengths if family in self.listed else {}
        return {n: (given[n], power) for n, power in powers.items() if given.get(n)}

    def in_unit(self, name: str, unit: float) -> str:
        """Return the name of a sum whose lengths are measured in another unit."""
        if "(" not in name:
            return name
        family, parameters = self._read(name)
        for length, power in self.families[family].lengths.items():
            given = parameters.get(length)
            if given:
                parameters[length] = value = given / unit**power
                if power > 0 and not LEAST <= value <= MOST:
                    raise ParkiValueError(
                        f"{length} is {given:g}, but the box has edges of about {unit:.3g}; "
                        f"expected {LEAST:g} to {MOST:g} times that"
                    )
        return self.make(family, **parameters).name
