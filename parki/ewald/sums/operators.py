"""Sums as differential operators on a radial function: what follows from a symbol and its sources.

Fields are derivatives of one function psi. With b_0 = b and b_{n+1} = b_n' / r, derivatives along
vectors a_1 ... a_m are a sum over all ways to pair 2 j of them:

    (a_1.grad) ... (a_m.grad) b = sum b_{m-j} prod (a_p.a_q) prod (a_s.r)

A symbol of order 1 has psi = b, where b is 1 / r without its smooth part, and one of order 2 has
psi' / r = -b: -r without its smooth part. So all sums take the same functions, of which
`parki.ewald.sums.tables` has T_0, T_1, T_2, psi_1 to psi_4, and "flow":

    b_n = s_n / r^(2 n + 1) - 2 (-1)^n T_n,   s_n = 1, -1, 3, -15, 105 ...
    flow = 2 T_0 - r^2 T_1,   r^2 T_{n+1} = (2 n + 1) T_n - (-1)^n psi_n

Brinkman's equation, ``alpha^2 u - laplace u + grad p = 8 pi f``, has another b_0, by `brinkman`.
Its pressure takes the Laplacian less alpha^2 of psi, which is -2/r. The functions b_n of 1/r, which
`brinkman` makes, too, have n + HARMONIC in place of n, and the tables "pressure".

Vectors have names. "v" is the direction in which the result is taken, "w" one along which it is
differentiated once more, and "e" from source to target. Tensors D are products a b of two vectors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from parki.ewald.sums.sources import Source
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.tables import FLOW, Table, Tables

Dots = tuple[tuple[str, ...], ...]
Place = tuple[int, int]  # n and m of b_n r^m
Expanded = dict[Dots, dict[Place, float]]
LAST = 2  # the largest n of T_n that splits have
HARMONIC = 8


class Differential(NamedTuple):
    """A coefficient, vectors to differentiate along, products of vectors, and Laplacians.

    ``brinkman`` says whether these are less friction.
    """

    coefficient: float
    along: tuple[str, ...]
    dots: Dots = ()
    laplacians: int = 0
    brinkman: bool = False

    def renamed(self, names: Mapping[str, str]) -> Differential:
        """Return it with other vectors in the place of those named."""
        along, *dots = (
            tuple(names.get(vector, vector) for vector in vectors)
            for vectors in (self.along, *self.dots)
        )
        return self._replace(along=along, dots=tuple(tuple(sorted(pair)) for pair in dots))


Differentials = list[Differential]


def differentiated(operator: Differentials, vectors: tuple[str, ...]) -> Differentials:
    """Return the derivative of an operator along vectors."""
    return [term._replace(along=term.along + vectors) for term in operator]


def laplacian(operator: Differentials, factor: float = 1.0) -> Differentials:
    """Return a multiple of the Laplacian of an operator."""
    return [
        term._replace(coefficient=factor * term.coefficient, laplacians=term.laplacians + 1)
        for term in operator
    ]


def dot(first: str, second: str) -> tuple[str, ...]:
    """Return the name of a product of vectors."""
    return (first, second) if first <= second else (second, first)


def moments(source: Source, name: str, into: str = "") -> Differentials:
    """Return the numbers or vectors that a source spreads, with derivatives of psi.

    That is a number, or the product of a vector with ``into``; "" stands for the gradient.
    """

    def along(coefficient: float, vector: str, *others: str) -> Differential:
        if into:
            return Differential(coefficient, others, (dot(into, vector),))
        return Differential(coefficient, (vector, *others))

    if source.normal:
        return [along(1.0, name, "n"), along(1.0, "n", name)]
    if source.curvature:
        return [Differential(1.0, ("a", "b"))]
    if source.rows == 9:
        return [along(-1.0, "a", "b")]
    if source.gradient:
        return [Differential(-1.0, (name,))]
    if source.rows == 1:
        return [Differential(1.0, (), ((name,),))]
    return [along(1.0, name)]


def flow(symbol: Symbol, source: Source, name: str, v: str = "v") -> Differentials:
    """Return the operator on psi that makes the velocity or potential of a source."""
    spread = moments(source, name)
    if symbol.structure == "scalar":
        return spread
    if symbol.structure == "curl":
        return [Differential(-1.0, ("c",))]  # c is v x t
    parts = differentiated(spread, (v,))
    if symbol.structure == "axis_derivative":  # of the slope, and of vectors twice
        up = ("up",) * (1 if symbol.components == 1 else 2)
        return differentiated(parts, up)
    if symbol.structure != "flow":
        return parts
    parts += laplacian(moments(source, name, into=v), factor=-1.0)
    if source.normal:
        parts += harmonic(symbol, [Differential(-1.0, (v,), (dot(name, "n"),))])
    return parts


def pressure(symbol: Symbol, source: Source, name: str) -> Differentials:
    """Return the operator on psi that makes the pressure, if there is one."""
    if symbol.structure != "flow" or symbol.order != 2:
        return []
    return harmonic(symbol, moments(source, name))


def readings(symbol: Symbol, source: Source, name: str) -> Differentials:
    """Return the operator of a reading, differentiated along w; a tensor is the product f m."""
    columns = {"a": "f", "b": "m"} if name == "ab" else {}
    stretched = differentiated(flow(symbol, source, name, v="A"), ("B", "w"))
    pushed = [
        term._replace(dots=(*term.dots, ("strength",)))
        for term in differentiated(pressure(symbol, source, name), ("w",))
    ]
    return [term.renamed(columns) for term in stretched + pushed]


def harmonic(symbol: Symbol, operator: Differentials) -> Differentials:
    """Return an operator on the Laplacian of psi, less friction: on -2/r."""
    return [term._replace(brinkman=bool(symbol.alpha)) for term in laplacian(operator)]


def names_of(sources: Iterable[Source]) -> list[str]:
    """Return a name for each source."""
    names = []
    for source in sources:
        if source.rows == 9:
            names.append("ab")
        elif source.rows == 1:
            names.append("charge")
        else:
            names.append("q" if source.normal else "t" if source.axial else "f")
    return names


def pairings(items: tuple[str, ...]) -> Iterator[tuple[Dots, tuple[str, ...]]]:
    """Yield pairs and what is left over, for all ways to pair some of the items."""
    if not items:
        yield (), ()
        return
    first, rest = items[0], items[1:]
    for pairs, singles in pairings(rest):
        yield pairs, (first, *singles)
    for place, other in enumerate(rest):
        for pairs, singles in pairings(rest[:place] + rest[place + 1 :]):
            yield (dot(first, other), *pairs), singles


def expand(operator: Differentials, order: int) -> Expanded:
    """Return the products of an operator on psi, each with its coefficients of b_n r^m."""
    products: dict[Dots, dict[Place, float]] = defaultdict(lambda: defaultdict(float))
    for coefficient, along, dots, laplacians, brinkman in operator:
        for pairs, singles in pairings(along):
            key = contracted((*dots, *pairs, *(dot(vector, "e") for vector in singles)))
            if brinkman:
                products[key][HARMONIC + len(pairs) + len(singles), len(singles)] -= 2 * coefficient
                continue
            radial = {(len(pairs) + len(singles), 0): coefficient}
            for _ in range(laplacians):  # (lap b)_n = (3 + 2 n) b_{n+1} + r^2 b_{n+2}
                more: dict[Place, float] = defaultdict(float)
                for (n, squares), x in radial.items():
                    more[n + 1, squares] += (3 + 2 * n) * x
                    more[n + 2, squares + 1] += x
                radial = more
            for (n, squares), x in radial.items():
                products[key][n + 1 - order, len(singles) + 2 * squares] += (3 - 2 * order) * x
    nonzero = {key: {p: x for p, x in radial.items() if x} for key, radial in products.items()}
    return {key: radial for key, radial in nonzero.items() if radial}


def contracted(dots: Dots) -> Dots:
    """Return products in one order. Tensors and c = v x t have one product each.

    A tensor's are ("ab", x, y), or ("ab",) for its trace; (v x t).e is v.(t x e), and the product
    with another vector w is ("cross", "v", "w"). "up" has the length 1.
    """
    products = [pair for pair in dots if pair != ("up", "up")]
    for a, b in (("a", "b"), ("A", "B")):
        pairs = [pair for pair in products if a in pair or b in pair]
        if pairs:
            products = [pair for pair in products if pair not in pairs]
            partners = () if len(pairs) == 1 else (partner(pairs, a), partner(pairs, b))
            products.append((a + b, *partners))
    for pair in [pair for pair in products if "c" in pair]:
        products.remove(pair)
        other = partner([pair], "c")
        products.append(dot("txe", "v") if other == "e" else ("cross", "v", other))
    return tuple(sorted(products))


def partner(pairs: Iterable[tuple[str, ...]], vector: str) -> str:
    """Return the other vector of the first pair that has this one."""
    first, second = next(pair for pair in pairs if vector in pair)
    return first if second == vector else second


def singular(n: int) -> int:
    """Return s_n."""
    return math.prod(1 - 2 * k for k in range(1, n + 1))


def tables_of(places: Iterable[Place], preferred: Tables = ()) -> Tables:
    """Return the tables that functions b_n r^m take, if possible of those preferred."""
    tables: dict[Table, None] = {}

    def need(n: int, m: int) -> None:
        table = Table("smooth", n)
        if n <= LAST and (m < 2 or n == 1 or table in preferred):
            tables[table] = None
        elif table not in tables:
            need(n - 1, m - 2)
            tables[Table("psi", n - 1)] = None

    for n, m in sorted(places, key=lambda place: (place[1] > 1, place)):
        if n < HARMONIC:
            need(n, m)
        else:
            tables[Table("pressure", n - HARMONIC)] = None
    return tuple(tables)


@lru_cache(maxsize=1024)
def smooth(n: int, m: int, tables: Tables) -> dict[tuple[str, int], float]:
    """Return T_n r^m as coefficients of tables, by their names, times powers of r."""
    table = Table("smooth", n)
    if table in tables:
        return {(table.name, m): 1.0}
    if n == 0:
        return {(FLOW.name, m): 0.5, (Table("smooth", 1).name, m + 2): 0.5}
    coefficients = {key: (2 * n - 1) * x for key, x in smooth(n - 1, m - 2, tables).items()}
    key = Table("psi", n - 1).name, m - 2
    coefficients[key] = coefficients.get(key, 0.0) + (-1) ** n
    return coefficients


def radial(places: dict[Place, float], tables: Tables) -> dict[tuple[str, int], float]:
    """Return functions as coefficients of tables times powers of r, and of powers of "y" = 1 / r.

    What cancels is left out, so that nothing loses digits.
    """
    coefficients: dict[tuple[str, int], float] = defaultdict(float)
    for (n, m), x in places.items():
        coefficients["y", 2 * n + 1 - m] += singular(n) * x
        for key, coefficient in smooth(n, m, tables).items():
            coefficients[key] -= 2 * (-1) ** n * x * coefficient
    return {key: x for key, x in coefficients.items() if x}


def brinkman(places: dict[Place, float], tables: Tables) -> dict[tuple[str, int], float]:
    """Return `radial` for Brinkman's equation.

    The singular part of b_n is a local variable, ``whole0`` for n = 0 and so on: see
    ``kernels/blocks/screened.py``.
    """
    screened = {place: x for place, x in places.items() if place[0] < HARMONIC}
    smooth_parts = {k: x for k, x in radial(screened, tables).items() if k[0] != "y"}
    coefficients = defaultdict(float, smooth_parts)
    for (n, m), x in places.items():
        if n < HARMONIC:
            coefficients[f"whole{n}", m] += x
        else:
            n -= HARMONIC
            coefficients["y", 2 * n + 1 - m] += singular(n) * x
            coefficients[Table("pressure", n).name, m] -= 2 * (-1) ** n * x
    return {key: x for key, x in coefficients.items() if x}


def functions_of(fields: Iterable[dict[str, Expanded]]) -> set[Place]:
    """Return the functions of the distance that fields take, each by the parts of a density."""
    expansions = (expanded for parts in fields for expanded in parts.values())
    return {place for expanded in expansions for radial in expanded.values() for place in radial}
