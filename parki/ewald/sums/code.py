"""`Code`: lines of a pair function, and the local variables that they declare."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from parki.ewald.sums.operators import Dots, Expanded, Place
from parki.ewald.sums.pairs import EVALUATED
from parki.ewald.sums.tables import CONSTANTS, Table, Tables

# Writes b_n r^m as coefficients of local variables times powers of r: see `operators.radial`.
Functions = Callable[[dict[Place, float]], dict[tuple[str, int], float]]

Scalars = dict[Dots, float]  # products of vectors, with coefficients
Sharing = dict[str, Scalars]  # the same for each function of the distance, by its name
Vector = dict[Any, Sharing]  # the same for each vector or matrix
AXES = range(3)
ENTRIES = {"ab": "d", "AB": "s"}  # of tensors of sources and of targets


def evaluated(table: Table, row: int) -> str:
    """Return the line that declares the function of a table, from a row of them."""
    return f"function({table.name}, p{row}, {table.order})"


class Code:
    """Lines of a function, and the local variables that they declare.

    ``outer`` has the lines before these, where the vectors are that it ``knows``. Names of local
    variables of these lines begin with ``prefix``.
    """

    def __init__(self, knows: str, prefix: str = "", outer: Code | None = None, up: int = 0):
        self.knows, self.prefix, self.outer = knows.split(), prefix, outer
        self.up: int = outer.up if outer else up
        self.lines: list[str] = []
        self.tables: set[str] = set()  # local variables that have them in all lines after these
        self.declared: dict[str, str] = {}  # expressions, by name
        self.radials: dict[tuple[Any, ...], tuple[str, float]] = {}

    def write(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line)

    def within(self, head: str, inner: Code) -> None:
        """Add lines under another one."""
        self.lines += [head, *deeper(inner.lines or ["pass"])]

    def declare(self, name: str, expression: str) -> str:
        """Return a local variable that has a value, here or in the lines before."""
        if self.declared.setdefault(name, expression) != expression:
            return self.declare(name + "_", expression)
        line = f"{name}: REAL = {expression}"
        if line not in self.lines:
            self.write(line)
        return name

    def power(self, base: str, power: int) -> str:
        """Return a power of y or of r, whose square is rr; 1 / r is y."""
        if self.outer:
            return self.outer.power(base, power)
        if power < 0:
            return self.power("y", -power)
        if power == 1:
            return base
        if power == 2:
            return "rr" if base == "r" else self.declare("yy", "y * y")
        half = self.power(base, 2) if power < 4 else self.power(base, power - 2)
        return self.declare(f"{base}{power}", f"{half} * {self.power(base, 2 if power > 3 else 1)}")

    def take(self, tables: Tables, evaluators: bool = False) -> None:
        """Take tables, of which ``evaluators`` may have the values, too."""
        self.tables = {table.name for table in tables}
        inner = Code("")
        inner.write("variable(rr)")
        for row, table in enumerate(tables):
            if table not in CONSTANTS:
                inner.write(evaluated(table, row))
        if not evaluators:
            self.lines += inner.lines
            return
        self.within("if EVALUATOR == 0:", inner)
        other = Code("")
        other.write("evaluate()")
        for table in tables:
            other.write(f"{table.name}: REAL = {EVALUATED[table]}")
        self.within("else:", other)

    def begin(self, places: Iterable[Place]) -> None:
        """Take the direction, and the distance."""
        powers = {m for _, m in places}
        if any(powers):
            self.write("direction()")
        if any(m % 2 for m in powers):
            self.write("distance(r)")

    def radial(
        self, places: Mapping[Place, float], functions: Functions, cut: bool
    ) -> tuple[str, float]:
        """Return a function of the distance: the name of one, and a factor."""
        atoms = sorted(functions(dict(places)).items(), key=lambda atom: atom[0][0] != "y")
        scale = atoms[0][1]
        key = tuple((atom, x / scale) for atom, x in atoms)
        if self.outer and {table for (table, _), _ in atoms} <= {*self.outer.tables, "y"}:
            return self.outer.radial(places, functions, cut)
        if key in self.radials:
            name, first_scale = self.radials[key]
            return name, scale / first_scale
        name = f"{self.prefix}k{len(self.radials)}"
        by_power: dict[int, dict[str, float]] = defaultdict(dict)
        terms = []
        for (table, power), x in atoms:
            if table == "y":
                terms.append((x, self.power("y", power)))
            else:
                by_power[power][table] = x
        for power, tables in sorted(by_power.items()):
            if not power:
                terms += [(x, table) for table, x in tables.items()]
                continue
            first = min(tables.values(), key=abs)
            inner = total([(x / first, [table]) for table, x in tables.items()])
            inner = f"({inner})" if len(tables) > 1 else inner
            terms.append((first, f"{inner} * {self.power('r', power)}"))
        self.declare(name, total([(x, [text]) for x, text in terms]))
        if cut:
            self.write(f"cut({name})")
        self.radials[key] = name, scale
        return name, 1.0

    def shared(
        self,
        expanded: Mapping[str, Expanded],
        functions: Functions | Mapping[str, Functions],
        cut: bool = False,
    ) -> Sharing:
        """Return the products of vectors that each function of the distance multiplies.

        The parts of a density may have different ``functions``.
        """
        products: Sharing = defaultdict(dict)
        for part, operator in expanded.items():
            of_part = functions[part] if isinstance(functions, Mapping) else functions
            for dots, places in operator.items():
                name, factor = self.radial(places, of_part, cut)
                products[name][dots] = factor
        return products

    def where_known(self, names: Iterable[str]) -> Code:
        """Return where vectors are known first."""
        return self.outer if self.outer and {*names} <= {*self.outer.knows} else self

    def scalar(self, dots: tuple[str, ...]) -> str:
        """Return a product of vectors, or a number of a source."""
        if dots in (("ab",), ("AB",)):
            if dots == ("AB",):
                return "read_trace"
            return self.where_known(["ab"]).declare("trace", "d00 + d11 + d22")
        if len(dots) == 1:
            return dots[0]
        if "up" in dots[-2:] and dots != ("ab", "up", "up"):
            if dots[0] in ("ab", "AB"):
                open_ = (dots[0], *("*" if vector == "up" else vector for vector in dots[1:]))
                return self.component(open_, self.up)
            return self.component(dots[0] if dots[1] == "up" else dots[1], self.up)
        if dots[0] in ("ab", "AB"):
            vector: Any = dots[0], "*", dots[2]
            d = ENTRIES[dots[0]]
            left, name = dots[1], f"{dots[1]}{d}{dots[2]}"
            if left == "e" != dots[2]:
                vector = dots[0], "e", "*"
                left, name = dots[2], f"{dots[2]}{d}te"
        else:
            (left, vector), name = dots, "".join(dots)
        pairs = [(1.0, [self.component(left, i), self.component(vector, i)]) for i in AXES]
        return self.where_known(vectors_of([dots])).declare(name, total(pairs))

    def component(self, vector: Any, axis: int) -> str:
        """Return a component of a vector, or of a tensor times a vector."""
        if vector == "txe":
            j, k = (axis + 1) % 3, (axis + 2) % 3
            text = f"t{j} * e{k} - t{k} * e{j}"
            return self.where_known(["t", "e"]).declare(f"txe{axis}", text)
        if isinstance(vector, str):
            return f"{vector}{axis}"
        tensor, *open_ = vector
        other, d = open_[1] if open_[0] == "*" else open_[0], ENTRIES[tensor]
        entries = [f"{d}{axis}{i}" if open_[0] == "*" else f"{d}{i}{axis}" for i in AXES]
        if other == "up":
            return entries[self.up]
        name = f"{d if open_[0] == '*' else d + 't'}{other}{axis}"
        terms = [(1.0, [entry, f"{other}{i}"]) for i, entry in enumerate(entries)]
        return self.where_known([tensor, other]).declare(name, total(terms))

    def factor(self, sharing: Sharing) -> str:
        """Return the factor of a vector."""
        return total(self.terms(sharing))

    def terms(self, sharing: Sharing) -> list[tuple[float, list[str]]]:
        """Return the terms of a factor."""
        terms: list[tuple[float, list[str]]] = []
        for name, scalars in sharing.items():
            products = [(x, self.product(dots)) for dots, x in scalars.items()]
            if len(products) == 1:
                terms.append((products[0][0], [name, *products[0][1]]))
            else:
                terms.append((1.0, [name, f"({total(products)})"]))
        return terms

    def product(self, dots: Dots) -> list[str]:
        """Return the factors of a product, with those first that all densities share."""
        known = {*self.outer.knows} if self.outer else set()
        known_first = sorted(dots, key=lambda pair: not {*vectors_of([pair])} <= known)
        factors = [self.scalar(pair) for pair in known_first]
        if not self.prefix or len(factors) < 2:
            return factors
        return [self.where_known(vectors_of(dots)).declare("by".join(factors), " * ".join(factors))]

    def coefficient(self, name: str, sharing: Sharing) -> str:
        """Return the name of a variable that has this coefficient."""
        text = self.factor(sharing)
        return text if text.isidentifier() else self.declare(self.prefix + name, text)

    def add(self, row: str, terms: Iterable[tuple[float, list[str]]]) -> None:
        """Add terms to a sum one by one, each with one fused operation."""
        for x, factors in terms:
            self.write(f"{row} {'-' if x < 0 else '+'}= {total([(abs(x), factors)])}")

    def add_vector(self, vectors: Vector, rows: Sequence[str]) -> None:
        """Add a vector to rows."""
        if self.prefix and not {*vectors} & {"up"}:  # what is summed here may be so elsewhere
            others = {v: sharing for v, sharing in vectors.items() if v != "e"}
            sums = self._side(self._scaled_sums(others))
            if "e" in vectors:
                name = self.coefficient("of_e", vectors["e"])
                sums = [[*terms, (1.0, [name, f"e{axis}"])] for axis, terms in enumerate(sums)]
            for row, terms in zip(rows, sums, strict=True):
                self.add(row, terms)
            return
        named = {v: self.coefficient(f"of_{_word(v)}", k) for v, k in vectors.items()}
        for axis, row in enumerate(rows):
            terms = [(1.0, [k, self.component(v, axis)]) for v, k in named.items() if v != "up"]
            terms += [(1.0, [named["up"]])] if "up" in named and axis == self.up else []
            self.add(row, terms)

    def add_matrix(self, parts: Vector, rows: Sequence[str]) -> None:
        """Add a matrix, of what `paired` has, to rows 3 i + j."""
        left, right = ({k[i]: s for k, s in parts.items() if _beside(k, i)} for i in (1, 2))
        level = parts.get(("delta",))
        scaled = [self._scaled_sums(left), self._scaled_sums(right)]
        sums = [self._side(side) for side in scaled]
        if ("dyad", "e", "e") in parts:
            along = self.coefficient("along", parts["dyad", "e", "e"])
            sums[0] = [[*terms, (1.0, [along, f"e{i}"])] for i, terms in enumerate(sums[0])]
        v, z = (
            [self._named(f"{name}{axis}", terms) for axis, terms in enumerate(side)]
            for name, side in zip(("left", "right"), sums, strict=True)
        )
        if level:
            level_name = self.coefficient("level", level)
        others: dict[str, list[Any]] = defaultdict(list)
        for key, sharing in parts.items():
            if key[0] in ("tensor", "swapped", "cross") or (key[0] == "dyad" and "e" not in key):
                others[self.factor(sharing)].append(key)
        named = {self._short(f"m{n}", text): keys for n, (text, keys) in enumerate(others.items())}
        for row, (i, j) in zip(rows, itertools.product(AXES, AXES), strict=True):
            terms = [(1.0, [v[i], f"e{j}"])] if v[i] else []
            terms += [(1.0, [f"e{i}", z[j]])] if z[j] else []
            terms += [(1.0, [level_name])] if level and i == j else []
            for name, keys in named.items():
                same = {_mirrored(key) for key in keys} == {*keys}
                row_, column = (min(i, j), max(i, j)) if same else (i, j)
                inner = [term for key in keys for term in self._entry(key, row_, column)]
                if len(inner) == 1:
                    terms.append((inner[0][0], [name, *inner[0][1]]))
                elif inner:
                    text = f"{name} * ({total(inner)})"
                    entry = f"{self.prefix}{name}{row_}{column}"
                    terms.append((1.0, [self.declare(entry, text) if same else text]))
            self.write(f"{row} += {total(terms)}") if terms else None

    def _entry(self, key: tuple[Any, ...], i: int, j: int) -> list[tuple[float, list[str]]]:
        """Return an entry of a matrix without a factor."""
        if key[0] == "cross":
            return [] if i == j else [(1.0 if (j - i) % 3 == 2 else -1.0, [f"t{3 - i - j}"])]
        if key[0] in ("tensor", "swapped"):
            return [(1.0, [f"d{i}{j}" if key[0] == "tensor" else f"d{j}{i}"])]
        return [(1.0, [self.component(key[1], i), self.component(key[2], j)])]

    def _short(self, name: str, text: str) -> str:
        return text if text.isidentifier() else self.declare(self.prefix + name, text)

    def _named(self, name: str, terms: list[tuple[float, list[str]]]) -> str:
        return self._short(name, total(terms)) if terms else ""

    def _scaled_sums(self, vectors: Vector) -> dict[str, tuple[float, Any]]:
        """Return vectors by functions of the distance: each a factor times a sum."""
        by_name: dict[str, dict[Any, float]] = defaultdict(dict)
        for vector, sharing in vectors.items():
            for name, scalars in sharing.items():
                for dots, x in scalars.items():
                    by_name[name][vector, dots] = x
        sums: dict[str, tuple[float, Any]] = {}
        for name, terms in by_name.items():
            scale = next(iter(terms.values()))
            sums[name] = scale, tuple((key, x / scale) for key, x in terms.items())
        return sums

    def _side(self, side: dict[str, tuple[float, Any]]) -> list[list[Any]]:
        """Return the terms of each component of a vector next to e."""
        components: list[list[tuple[float, list[str]]]] = [[] for _ in AXES]
        for k, (scale, terms) in side.items():
            for axis in AXES:
                components[axis].append((scale, [k, self._inner(terms, axis)]))
        return components

    def _inner(self, terms: Any, axis: int) -> str:
        """Return a component of a sum of vectors."""
        text = total(
            [
                (x, [*(self.scalar(pair) for pair in dots), self.component(vector, axis)])
                for (vector, dots), x in terms
            ]
        )
        if text.isidentifier():
            return text
        parts = [(v,) if isinstance(v, str) else v for (v, _), _ in terms]
        where = self.where_known(
            vectors_of([*parts, *(pair for (_, dots), _ in terms for pair in dots)])
        )
        known = [name for name, expression in where.declared.items() if expression == text]
        return known[0] if known else where.declare(f"{where.prefix}h{len(where.declared)}", text)


def total(terms: Iterable[tuple[float, list[str]]]) -> str:
    """Return a sum of products with coefficients."""
    text = ""
    for x, factors in sorted(terms, key=lambda term: term[0] < 0):
        size = abs(x)
        product = " * ".join(factors if size == 1 else [repr(float(size)), *factors])
        if text:
            text += f" {'-' if x < 0 else '+'} {product}"
        elif x < 0:
            text = f"-{product}" if size != 1 else f"0.0 - {product}"
        else:
            text = product
    return text


def vectors_of(dots: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the vectors and tensors of products."""
    names = [name for pair in dots for name in pair if name not in ("up", "*")]
    return [part for name in names for part in (("t", "e") if name == "txe" else (name,))]


def grouped(sharing: Sharing, formal: str) -> Vector:
    """Return the vectors that multiply a formal vector."""
    vectors: Vector = defaultdict(lambda: defaultdict(dict))
    for name, scalars in sharing.items():
        for dots, x in scalars.items():
            product = next(pair for pair in dots if formal in pair)
            others = list(dots)
            others.remove(product)
            vectors[_partner(product, formal)][name][tuple(others)] = x
    return vectors


def paired(sharing: Sharing, formal: str) -> Vector:
    """Return the matrix that two formal vectors, of rows and of columns, are multiplied by."""
    matrix: Vector = defaultdict(lambda: defaultdict(dict))
    for name, scalars in sharing.items():
        for dots, x in scalars.items():
            key, products = _place(dots, formal[0], formal[1])
            others = tuple(pair for pair in dots if pair not in products)
            matrix[key][name][others] = x
    return matrix


def _place(dots: Dots, v: str, w: str) -> tuple[tuple[Any, ...], list[tuple[str, ...]]]:
    """Return a matrix, and the products that make it."""
    if (v + w,) in dots:  # the trace of a tensor
        return ("delta",), [(v + w,)]
    for product in dots:
        if product[0] == v + w:  # of a tensor of which the matrix is one
            return ("dyad", product[1], product[2]), [product]
        if v in product and w in product:
            if product[0] == "cross":
                return ("cross",), [product]
            if len(product) == 3:
                return ("tensor" if product[1] == v else "swapped",), [product]
            return ("delta",), [product]
    of_v, of_w = (next(product for product in dots if name in product) for name in (v, w))
    return ("dyad", _partner(of_v, v), _partner(of_w, w)), [of_v, of_w]


def _partner(product: tuple[str, ...], formal: str) -> Any:
    if len(product) == 3:
        return tuple("*" if name == formal else name for name in product)
    return product[0] if product[1] == formal else product[1]


def _beside(key: tuple[Any, ...], place: int) -> bool:
    """Return whether a matrix is a vector, in this place, next to e."""
    return bool(key[0] == "dyad" and key[place] != "e" and key[3 - place] == "e")


def _mirrored(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the matrix with rows for columns."""
    names = {"tensor": "swapped", "swapped": "tensor", "cross": ""}
    return names.get(key[0], key[0]), *key[:0:-1]


def _word(vector: Any) -> str:
    return vector if isinstance(vector, str) else "".join(vector).replace("*", "_")


def deeper(lines: Iterable[str]) -> list[str]:
    """Return lines of an inner block."""
    return ["    " + line for line in lines]


def plus(number: int) -> str:
    """Return a sum's second part, or nothing for 0."""
    return f" + {number}" if number else ""
