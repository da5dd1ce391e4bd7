"""`Code`: lines of a pair function, and the local variables that they declare."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from parki.ewald.sums.operators import Dots, Expanded, Place
from parki.ewald.sums.pairs import EVALUATED
from parki.ewald.sums.tables import CONSTANTS, Tables

# Writes b_n r^m as coefficients of local variables times powers of r: see `operators.radial`.
Functions = Callable[[dict[Place, float]], dict[tuple[str, int], float]]

Scalars = dict[Dots, float]  # products of vectors, with coefficients
Sharing = dict[str, Scalars]  # the same for each function of the distance, by its name
Vector = dict[Any, Sharing]  # the same for each vector or matrix
AXES = range(3)
ENTRIES = {"ab": "d", "AB": "s"}  # of tensors of sources and of targets


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
                inner.write(f"polynomial({table.name}, p{row})")
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
        atoms = sorted(functions(dict(places)).items(), key=lambda each: each[0][0] != "y")
        scale = atoms[0][1]
        key = tuple((atom, x / scale) for atom, x in atoms)
        if self.outer and {table for (table, _), _ in atoms} <= {*self.outer.tables, "y"}:
            return self.outer.radial(places, functions, cut)
        if key in self.radials:
            name, own = self.radials[key]
            return name, scale / own
        name = f"{self.prefix}k{len(self.radials)}"
        by_power: dict[int, dict[str, float]] = defaultdict(dict)
        terms = []
        for (table, power), x in atoms:
            if table == "y":
                terms.append((x, self.power("y", power)))
            else:
                by_power[power][table] = x
        for power, each in sorted(by_power.items()):
            if not power:
                terms += [(x, table) for table, x in each.items()]
                continue
            first = min(each.values(), key=abs)
            inner = total([(x / first, [table]) for table, x in each.items()])
            inner = f"({inner})" if len(each) > 1 else inner
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
        for part, of in expanded.items():
            own = functions[part] if isinstance(functions, Mapping) else functions
            for dots, places in of.items():
                name, factor = self.radial(places, own, cut)
                products[name][dots] = factor
        return products

    def of(self, names: Iterable[str]) -> Code:
        """Return where vectors are known first."""
        return self.outer if self.outer and {*names} <= {*self.outer.knows} else self

    def scalar(self, dots: tuple[str, ...]) -> str:
        """Return a product of vectors, or a number of a source."""
        if dots in (("ab",), ("AB",)):
            if dots == ("AB",):
                return "read_trace"
            return self.of(["ab"]).declare("trace", "d00 + d11 + d22")
        if len(dots) == 1:
            return dots[0]
        if "up" in dots[-2:] and dots != ("ab", "up", "up"):
            if dots[0] in ("ab", "AB"):
                open_ = (dots[0], *("*" if each == "up" else each for each in dots[1:]))
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
        return self.of(vectors_of([dots])).declare(name, total(pairs))

    def component(self, vector: Any, axis: int) -> str:
        """Return a component of a vector, or of a tensor times a vector."""
        if vector == "txe":
            j, k = (axis + 1) % 3, (axis + 2) % 3
            text = f"t{j} * e{k} - t{k} * e{j}"
            return self.of(["t", "e"]).declare(f"txe{axis}", text)
        if isinstance(vector, str):
            return f"{vector}{axis}"
        tensor, *open_ = vector
        other, d = open_[1] if open_[0] == "*" else open_[0], ENTRIES[tensor]
        entries = [f"{d}{axis}{i}" if open_[0] == "*" else f"{d}{i}{axis}" for i in AXES]
        if other == "up":
            return entries[self.up]
        name = f"{d if open_[0] == '*' else d + 't'}{other}{axis}"
        terms = [(1.0, [entry, f"{other}{i}"]) for i, entry in enumerate(entries)]
        return self.of([tensor, other]).declare(name, total(terms))

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
        each = sorted(dots, key=lambda one: not {*vectors_of([one])} <= known)
        factors = [self.scalar(one) for one in each]
        if not self.prefix or len(factors) < 2:
            return factors
        return [self.of(vectors_of(dots)).declare("by".join(factors), " * ".join(factors))]

    def coefficient(self, name: str, sharing: Sharing) -> str:
        """Return the same as a name."""
        text = self.factor(sharing)
        return text if text.isidentifier() else self.declare(self.prefix + name, text)

    def add(self, row: str, terms: Iterable[tuple[float, list[str]]]) -> None:
        """Add terms to a sum one by one, each with one fused operation."""
        for x, factors in terms:
            self.write(f"{row} {'-' if x < 0 else '+'}= {total([(abs(x), factors)])}")

    def add_vector(self, vectors: Vector, rows: Sequence[str]) -> None:
        """Add a vector to rows."""
        if self.prefix and not {*vectors} & {"up"}:  # what is summed here may be so elsewhere
            along = {vector: each for vector, each in vectors.items() if vector == "e"}
            (other,) = self._sides({v: each for v, each in vectors.items() if v != "e"})
            sums = self._side(other)
            if along:
                name = self.coefficient("of_e", along["e"])
                sums = [[*terms, (1.0, [name, f"e{axis}"])] for axis, terms in enumerate(sums)]
            for row, terms in zip(rows, sums, strict=True):
                self.add(row, terms)
            return
        named = {v: self.coefficient(f"of_{_word(v)}", each) for v, each in vectors.items()}
        for axis, row in enumerate(rows):
            terms = [(1.0, [k, self.component(v, axis)]) for v, k in named.items() if v != "up"]
            terms += [(1.0, [named["up"]])] if "up" in named and axis == self.up else []
            self.add(row, terms)

    def add_matrix(self, parts: Vector, rows: Sequence[str]) -> None:
        """Add a matrix, of what `paired` has, to rows 3 i + j."""
        left, right = ({k[i]: s for k, s in parts.items() if _beside(k, i)} for i in (1, 2))
        level = parts.get(("delta",))
        sides = self._sides(left, right)
        sums = [self._side(each) for each in sides]
        if ("dyad", "e", "e") in parts:
            along = self.coefficient("along", parts["dyad", "e", "e"])
            sums[0] = [[*terms, (1.0, [along, f"e{i}"])] for i, terms in enumerate(sums[0])]
        v, z = (
            [self._named(f"{name}{axis}", each) for axis, each in enumerate(of)]
            for name, of in zip(("left", "right"), sums, strict=True)
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
                above = (min(i, j), max(i, j)) if same else (i, j)
                inner = [each for key in keys for each in self._entry(key, *above)]
                if len(inner) == 1:
                    terms.append((inner[0][0], [name, *inner[0][1]]))
                elif inner:
                    text = f"{name} * ({total(inner)})"
                    both = f"{self.prefix}{name}{above[0]}{above[1]}"
                    terms.append((1.0, [self.declare(both, text) if same else text]))
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

    def _sides(self, *sides: Vector) -> list[dict[str, tuple[float, Any]]]:
        """Return vectors of two sides by functions of the distance: each a factor times a sum."""
        both = []
        for side in sides:
            by_name: dict[str, dict[Any, float]] = defaultdict(dict)
            for vector, sharing in side.items():
                for name, scalars in sharing.items():
                    for dots, x in scalars.items():
                        by_name[name][vector, dots] = x
            each: dict[str, tuple[float, Any]] = {}
            for name, terms in by_name.items():
                scale = next(iter(terms.values()))
                each[name] = scale, tuple((key, x / scale) for key, x in terms.items())
            both.append(each)
        return both

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
                (x, [*(self.scalar(each) for each in dots), self.component(vector, axis)])
                for (vector, dots), x in terms
            ]
        )
        if text.isidentifier():
            return text
        parts = [(v,) if isinstance(v, str) else v for (v, _), _ in terms]
        where = self.of(vectors_of([*parts, *(each for (_, dots), _ in terms for each in dots)]))
        known = [name for name, own in where.declared.items() if own == text]
        return known[0] if known else where.declare(f"{where.prefix}h{len(where.declared)}", text)


def total(terms: Iterable[tuple[float, list[str]]]) -> str:
    """Return a sum of products with coefficients."""
    text = ""
    for x, factors in sorted(terms, key=lambda each: each[0] < 0):
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
    names = [name for each in dots for name in each if name not in ("up", "*")]
    return [own for name in names for own in (("t", "e") if name == "txe" else (name,))]


def grouped(sharing: Sharing, formal: str) -> Vector:
    """Return the vectors that multiply a formal vector."""
    vectors: Vector = defaultdict(lambda: defaultdict(dict))
    for name, scalars in sharing.items():
        for dots, x in scalars.items():
            mine = next(each for each in dots if formal in each)
            vector = _partner(mine, formal)
            rest = list(dots)
            rest.remove(mine)
            vectors[vector][name][tuple(rest)] = x
    return vectors


def paired(sharing: Sharing, formal: str) -> Vector:
    """Return the matrix that two formal vectors, of rows and of columns, are multiplied by."""
    matrix: Vector = defaultdict(lambda: defaultdict(dict))
    for name, scalars in sharing.items():
        for dots, x in scalars.items():
            key, mine = _place(dots, *formal)
            rest = [each for each in dots if each not in mine]
            matrix[key][name][tuple(rest)] = x
    return matrix


def _place(dots: Dots, v: str, w: str) -> tuple[tuple[Any, ...], list[tuple[str, ...]]]:
    """Return a matrix, and the products that make it."""
    if (v + w,) in dots:  # the trace of a tensor
        return ("delta",), [(v + w,)]
    for each in dots:
        if each[0] == v + w:  # of a tensor of which the matrix is one
            return ("dyad", each[1], each[2]), [each]
        if v in each and w in each:
            if each[0] == "cross":
                return ("cross",), [each]
            if len(each) == 3:
                return ("tensor" if each[1] == v else "swapped",), [each]
            return ("delta",), [each]
    both = [next(each for each in dots if name in each) for name in (v, w)]
    return ("dyad", *(_partner(each, name) for each, name in zip(both, (v, w), strict=True))), both


def _partner(mine: tuple[str, ...], formal: str) -> Any:
    if len(mine) == 3:
        return tuple("*" if each == formal else each for each in mine)
    return mine[0] if mine[1] == formal else mine[1]


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
