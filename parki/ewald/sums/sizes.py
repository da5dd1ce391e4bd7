"""Sizes of pair functions, which error estimates take: see `ErrorTerm.square`.

An operator of `parki.ewald.sums.operators` is a sum of products of vectors, each with a function of
the distance. It is linear in every vector of unit length but "up". So the mean square over all
directions is a quadratic form of these functions, by sums over the axes for each vector.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from parki.ewald.sums.operators import (
    Differential,
    Differentials,
    Dots,
    differentiated,
    expand,
    flow,
    names_of,
    pressure,
    readings,
)
from parki.ewald.sums.sources import Source
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.tables import Array, RadialTables

Square = Callable[[Array, RadialTables], Array]
_Places = tuple[tuple[tuple[int, int], float], ...]
RESULTS = "v", "w"  # whose squares add up, where sources are averaged
_GOLDEN = (1 + 5**0.5) / 2
# Axes of an icosahedron: means over them of products of up to five components are those over all
# directions. "up" is along each of them in turn.
UPS = np.array([np.roll([0, 1, sign * _GOLDEN], n) for n in range(3) for sign in (1, -1)])
UPS /= np.linalg.norm(UPS[0])


def square(symbol: Symbol, source: Source, result: str = "u") -> Square:
    """Return the squared size of a result of one source."""
    (name,) = names_of([source])
    operator: Differentials
    if result == "p":
        operator = pressure(symbol, source, name)
    elif result == "grad_tensor":
        operator = [term for read in readings(symbol, source, name) for term in _of_layer(read)]
    else:
        slope = ("w",) if result == "grad_u" else ()
        operator = differentiated(flow(symbol, source, name), slope)
    return of_operator(tuple(operator), symbol.order)


def _of_layer(reading: Differential) -> Differentials:
    """Return the reading of a double layer, which has the density x and the normal z."""
    if ("strength",) in reading.dots:
        dots = [("x", "z") if pair == ("strength",) else pair for pair in reading.dots]
        return [reading._replace(dots=tuple(dots))]
    tensors = (reading.renamed({"A": a, "B": b}) for a, b in ("xz", "zx"))
    return [term._replace(coefficient=-term.coefficient) for term in tensors]


def of_operator(operator: tuple[object, ...], order: int) -> Square:
    """Return the squared size of an operator on psi, of a symbol of this order."""

    def size(r2: Array, p: RadialTables) -> Array:
        functions, gram = _forms(operator, order)
        smooth = _Smooth(r2, p, order)
        sizes = [sum(x * smooth(n, m) for (n, m), x in key) for key in functions]
        pairs = combinations_with_replacement(range(len(sizes)), 2)
        return np.asarray(sum((1 + (i < j)) * gram[i, j] * sizes[i] * sizes[j] for i, j in pairs))

    return size


@lru_cache(maxsize=64)
def _forms(operator: tuple[object, ...], order: int) -> tuple[list[_Places], Array]:
    """Return functions of the distance, and the quadratic form of them that is the mean square."""
    by_functions: dict[_Places, Array] = {}
    expanded = expand(list(operator), order)  # type: ignore[arg-type]
    names = sorted({name for dots in expanded for name in _vectors(dots)} - {"e", "up"})
    for dots, places in expanded.items():
        scale = next(iter(places.values()))
        key = tuple((place, x / scale) for place, x in places.items())
        values = scale * np.array([_values(dots, names, up) for up in UPS])
        by_functions[key] = by_functions.get(key, 0.0) + values
    functions, values = [*by_functions], np.array([*by_functions.values()])
    values = values.reshape(len(functions), -1)
    averaged = len(UPS) * 3.0 ** len([name for name in names if name not in RESULTS])
    return functions, values @ values.T / averaged


class _Smooth:
    """The functions ``-2 (-1)^n T_n r^m`` at squared distances."""

    def __init__(self, r2: Array, tables: RadialTables, order: int) -> None:
        self.r2, first = np.asarray(r2), tables.smooth(1)
        # Flows of Stokes take "flow" in place of T_0, which is more than the same where both are
        # errors.
        mean = tables.smooth(0) if order == 1 else (tables.flow + self.r2 * first) / 2
        self.functions = [mean, first]
        # psi_n times (-1)^n, by n from 1 on; T_5 has r^5 as a factor, which is nothing at small r.
        psi = [tables.psi(n) for n in (1, 2, 3, 4)]
        self.slopes = [-psi[0], psi[1], -psi[2], psi[3], 0 * psi[3]]
        self.small = self.r2 <= 1e-6 * self.r2.max()

    def __call__(self, n: int, m: int) -> Array:
        """Return one of them."""
        while len(self.functions) <= n:  # by r^2 T_{n+1} = (2 n + 1) T_n - (-1)^n psi_n
            k = len(self.functions) - 1
            far = (2 * k + 1) * self.functions[k] - self.slopes[k - 1]
            far = far / np.where(self.small, 1.0, self.r2)
            self.functions.append(np.where(self.small, self.slopes[k] / (2 * k + 3), far))
        return np.asarray(-2 * (-1) ** n * self.functions[n] * self.r2 ** (m / 2))


def _vectors(dots: Dots) -> list[str]:
    """Return the vectors of products; a tensor is a product of two."""
    return [name for product in dots for factor in _plain(product) for name in factor]


def _plain(product: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return a product of vectors as products of two, or of three: a determinant; or a number."""
    if product in (("ab",), ("charge",)):
        return [("a", "b")] if product == ("ab",) else []
    if product[0] == "ab":
        return [("a", product[1]), ("b", product[2])]
    if product[0] == "cross":
        return [("v", "t", product[2] if product[1] == "v" else product[1])]
    return [("v", "t", "e")] if "txe" in product else [product]


def _values(dots: Dots, names: list[str], up: Array) -> Array:
    """Return products for all axes along which the named vectors may be, an axis of it for each."""
    fixed = {"e": np.eye(3)[2], "up": up}
    letters = {name: chr(ord("a") + n) for n, name in enumerate(names)}
    tensors: list[Any] = [np.ones(())]
    terms, free = [""], iter("zyxwvutsrqp")
    for factor in (factor for product in dots for factor in _plain(product)):
        indices = ""
        for name in factor:
            indices += letters.get(name) or next(free)
            if name in fixed:
                tensors.append(fixed[name])
                terms.append(indices[-1])
        tensors.append(np.eye(3) if len(factor) == 2 else _LEVI_CIVITA)
        terms.append(indices)
    return np.asarray(np.einsum(f"{','.join(terms)}->{''.join(letters.values())}", *tensors))


_LEVI_CIVITA = np.array(
    [[[(i - j) * (j - k) * (k - i) / 2 for k in range(3)] for j in range(3)] for i in range(3)]
)
