"""The text of a pair function, which `parki.ewald.sums.operators` makes of a symbol and sources.

It is a file of the language of ``kernels/``, like those of ``kernels/pairs``: `interact` adds to u,
and `differentiate` to the derivatives. Each function of the distance is a local variable, which all
products with vectors share, and each sum of vectors that two functions multiply is one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums.code import (
    AXES,
    Code,
    Functions,
    deeper,
    evaluated,
    grouped,
    paired,
    plus,
)
from parki.ewald.sums.operators import (
    HARMONIC,
    Differentials,
    Expanded,
    Place,
    brinkman,
    differentiated,
    expand,
    flow,
    functions_of,
    names_of,
    pressure,
    radial,
    readings,
    tables_of,
)
from parki.ewald.sums.pairs import EVALUATED, PairFunction
from parki.ewald.sums.sources import Source, check_sources
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.tables import CONSTANTS, FLOW, NUMBERS, SCREENING, Table, Tables
from parki.interchange import shown

HEAD = '''"""{formula}"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import begin_blob, direction, distance, evaluate, function
from kernels.blocks.radial import take_width, variable
from kernels.blocks.vector import take_tensor, take_vector
'''


# What a pair begins with.
BEGIN = ["take_width(density, row, at)", "begin_blob()"]
# Kernels that take derivatives, too, import them from all pair functions.
NO_SLOPES = [
    "def differentiate(density, row, normal, first_normal, at):",
    '    """Do nothing: there are no derivatives."""',
]


# Changes of charges that move are summed by the kernels of derivatives alone.
NO_VALUES = [
    "def interact(density, row, normal, first_normal, at):",
    '    """Do nothing: there are derivatives alone."""',
]


class Expansions(NamedTuple):
    """Operators, expanded, by the names of the parts of a density.

    They make u, p, the derivatives of u along w, and the derivatives along w of what a target reads
    of D_jk d_k u_j + s p, where D is a product A B.
    """

    values: dict[str, Expanded]
    pressure: dict[str, Expanded]
    slopes: dict[str, Expanded]
    readings: dict[str, Expanded]


@lru_cache(maxsize=64)
def fields_of(symbol: Symbol, sources: tuple[Source, ...]) -> Expansions:
    """Return the fields of all sources."""
    parts = [*zip(names_of(sources), sources, strict=True)]

    def by_part(operator: Callable[[Source, str], Differentials]) -> dict[str, Expanded]:
        return {name: expand(operator(source, name), symbol.order) for name, source in parts}

    has_slopes = symbol.up is None or symbol.components > 1
    has_readings = symbol.structure == "flow"
    return Expansions(
        values=by_part(partial(flow, symbol)),
        pressure=by_part(partial(pressure, symbol)),
        slopes=by_part(lambda source, name: differentiated(flow(symbol, source, name), ("w",)))
        if has_slopes
        else {},
        readings=by_part(partial(readings, symbol)) if has_readings else {},
    )


@lru_cache(maxsize=64)
def _pair(symbol: Symbol, sources: tuple[Source, ...]) -> PairFunction:
    """Return the pair function of sources, of which the operations are not counted."""
    fields = fields_of(symbol, sources)
    u, p, slopes, readings = (functions_of([field]) for field in fields)
    derivatives, screening = tables_of(p | slopes), (SCREENING,) if symbol.screening else ()
    values = tables_of(u, derivatives)
    smooth = {Table("smooth", 0), Table("smooth", 1)}
    if symbol.structure == "flow" and not screening and smooth <= {*values}:
        values = tuple(FLOW if table == Table("smooth", 0) else table for table in values)
    with_values = _without(derivatives, values) if derivatives else ()
    more = _without(derivatives, tables_of(p | slopes | readings)) if readings else ()
    tensors: Tables = ()
    if symbol.alpha:
        tensors = _filled(derivatives + screening, more) if more else ()
        with_values = _filled((), with_values)
    elif not screening:
        tensors = derivatives + more if readings else ()
        tensors += (NUMBERS,) * (len(tensors) % 2 if len(tensors) > 3 else 0)
        with_values += (NUMBERS,) * (2 if with_values and len(tensors) > 3 else 0)
    (power,) = {
        2 * (n % HARMONIC) + 1 - m
        for functions in next(iter(fields.values.values())).values()
        for n, m in functions
    }
    return PairFunction(
        file="",
        operations=(0, 0),
        values=values + screening,
        derivatives=derivatives + screening,
        power=power - sources[0].normal,
        tensors=tensors,
        with_values=with_values,
        slopes=tables_of(u | slopes) + screening if symbol.results == 1 else (),
    )


def _without(others: Tables, tables: Tables) -> Tables:
    """Return tables that others are not among."""
    return tuple(table for table in tables if table not in others)


def _filled(before: Tables, tables: Tables) -> Tables:
    """Return tables after others, with one more row where they are odd."""
    return before + tables + (NUMBERS,) * (len(tables) % 2)


def pair_of(
    symbol: Symbol,
    sources: tuple[Source, ...],
    operations: tuple[int, int],
    fused: bool = False,
) -> PairFunction:
    """Return the pair function of sources.

    Parameters
    ----------
    symbol : Symbol
    sources : tuple of Source
    operations : tuple of two int
        As of a `PairFunction`.
    fused : bool
        As of a `PairFunction`.

    Raises
    ------
    ParkiValueError
        If the symbol does not take the sources, or the operations are not two numbers.
    """
    check_sources("pair_of", sources, symbol.structure, symbol.components)
    if np.shape(operations) != (2,):
        raise ParkiValueError(
            f"pair_of has operations={shown(operations)}; expected two numbers: of "
            "polynomials, and of other operations of a pair"
        )
    return _pair(symbol, sources)._replace(operations=operations, fused=fused)


def check_pair(name: str, symbol: Symbol, sources: tuple[Source, ...], pair: PairFunction) -> None:
    """Refuse a pair function, of the sum of a name, of another symbol or of other sources.

    Raises
    ------
    ParkiValueError
    """
    written = _pair(symbol, sources)
    for part in ("power", "values", "derivatives", "tensors", "with_values", "slopes"):
        if getattr(pair, part) != getattr(written, part):
            raise ParkiValueError(
                f"the sum {name} has a pair function of another symbol or of other sources; give "
                "pair_of(symbol=..., sources=...) of its own"
            )


class Text:
    """A pair function that is being written."""

    head = HEAD

    def __init__(self, symbol: Symbol, sources: tuple[Source, ...], moved: bool = False) -> None:
        self.symbol, self.sources, self.moved = symbol, sources, moved
        self.fields, self.pair = fields_of(symbol, sources), _pair(symbol, sources)
        self.names = names_of(sources)
        self.rows = [sum(s.rows for s in sources[:n]) for n in range(len(sources))]
        self.scalar = symbol.results == 1
        self.normals = any(source.normal for source in sources)
        self.begin = "fall" if symbol.alpha else "fade"

    def text(self) -> str:
        """Return the whole text."""
        derivatives = self.differentiate() if self.fields.slopes else NO_SLOPES
        head = self.head.format(formula=self.formula())
        if self.symbol.screening:
            head += f"\nfrom kernels.blocks.screened import {self.begin}"
        values = NO_VALUES if self.moved else self.interact()
        return "\n".join([head, "", *values, "", "", *derivatives, ""])

    def formula(self) -> str:
        """Return u in the notation of `parki.ewald.sums.operators`."""
        lines = []
        for name, expanded in self.fields.values.items():
            for dots, places in expanded.items():
                b = " ".join(f"{x:+g} b{n} r^{m}" for (n, m), x in places.items())
                products = " ".join(".".join(vectors) for vectors in dots)
                lines.append(f"    ({b}) {products}")
            lines[-1] += f"    (a part of {name})"
        return "\n".join(["v.u is the sum of", "", *lines, ""])

    def interact(self) -> list[str]:
        """Return the lines of `interact`."""
        code, fields, pair = Code(""), self.fields, self.pair
        code.lines += BEGIN
        plain = self._interact(pair.values, [fields.values])
        constants = []
        if self.scalar:
            constants = [
                "WITH_SLOPES = False  # whether the slope follows the potential in u",
                "",
                "",
            ]
            code.within(
                "if WITH_SLOPES:", self._interact(pair.slopes, [fields.values, fields.slopes])
            )
            code.within("else:", plain)
        else:
            if self.normals:
                code.write("take_vector(n0, n1, n2, normal, first_normal, at)")
            code.lines += plain.lines
        words = '    """Add to u what one source does."""'
        head = "def interact(density, row, normal, first_normal, at):"
        return [*constants, head, words, *deeper(code.lines)]

    def _interact(self, tables: Tables, fields: Sequence[dict[str, Expanded]]) -> Code:
        """Return the lines for tables and fields."""
        code, near = Code("e n" if self.normals else "e", up=self.symbol.up or 0), self.near(tables)
        code.take(tables, evaluators={*tables} <= {*EVALUATED})
        self._take_distance(code, functions_of(fields), tables)
        shared = [code.shared(field, near, cut=True) for field in fields]
        inner = Code("", outer=code)
        self.take_sources(inner, "row + CHARGES * d")
        rows = [f"u[OUTPUTS * d{plus(i)}]" for i in range(4)]
        if self.scalar:
            inner.add(rows.pop(0), inner.terms(shared[0]))
        if not self.scalar or len(shared) > 1:
            inner.add_vector(grouped(shared[-1], "w" if self.scalar else "v"), rows[:3])
        code.within("for d in range(MANY):", inner)
        return code

    def near(self, tables: Tables) -> Functions:
        """Return the callable that writes functions of the distance by these tables."""
        return partial(brinkman if self.symbol.screening else radial, tables=tables)

    def _take_distance(self, code: Code, places: set[Place], tables: Tables) -> None:
        """Take the direction, the distance, and the singular functions that tables do not have."""
        if not self.symbol.screening:
            code.begin(places)
            return
        for line in ("direction()", "distance(r)", f"{self.begin}(p{tables.index(SCREENING)})"):
            code.write(line)
        for n in range(max(n for n, _ in places if n < HARMONIC) + 1):
            if not self.symbol.alpha:
                if n > 1:  # reverse Bessel polynomials
                    terms = f"{2 * n - 1}.0 * theta{n - 1} + squared * theta{n - 2}"
                    code.declare(f"theta{n}", terms)
                code.declare(f"shape{n}", f"theta{n} * fallen" if n else "fallen")
            sign = "0.0 - " if n % 2 else ""
            code.declare(f"whole{n}", f"{sign}shape{n} * {code.power('y', 2 * n + 1)}")
            code.tables.add(f"whole{n}")

    def take_sources(self, code: Code, row: str) -> None:
        """Write what takes the density of a source."""
        for name, first in zip(self.names, self.rows, strict=True):
            place = f"{row}{plus(first)}"
            if name == "ab":
                code.write(f"take_tensor(density, {place}, at)")
            elif self.moved:  # a charge times the move of its distance, the dipole that this makes
                code.write(f"charge: REAL = 0.0 - density[{place}][at]")
                for i in AXES:
                    move = " + ".join(f"motion[{i}][{j}] * r{j}" for j in AXES)
                    code.write(f"{name}{i}: REAL = charge * ({move})")
            elif name == "charge":
                code.write(f"charge: REAL = density[{place}][at]")
            else:
                code.write(f"take_vector({name}0, {name}1, {name}2, density, {place}, at)")

    def differentiate(self) -> list[str]:
        """Return the lines of `differentiate`."""
        fields, pair = self.fields, self.pair
        code = Code(" ".join(["e n", *self.names]), up=self.symbol.up or 0)
        code.lines += BEGIN
        if self.symbol.up is not None:
            for axis in AXES:
                code.declare(f"up{axis}", "1.0" if axis == self.symbol.up else "0.0")
        code.take(pair.derivatives)
        self._take_distance(code, functions_of(fields), pair.derivatives)
        self.take_sources(code, "row")
        if self.normals:
            code.write("take_vector(n0, n1, n2, normal, first_normal, at)")
        most = pair.derivatives + pair.with_values
        # The rows of tables that values alone take: see `take_polynomials`.
        lengths = len(pair.derivatives), len(pair.tensors)
        first, other = (3 if n < 4 else 6 if n < 7 else 10 for n in lengths)
        matrix = [f"g{i}{j}" for i in AXES for j in AXES]
        for flag, field, tables in (
            ("VALUES", fields.values, most),
            ("PRESSURE", fields.pressure, pair.derivatives),
            ("GRADIENT", fields.slopes, pair.derivatives),
            ("TENSORS", fields.readings, pair.tensors),
        ):
            inner = Code("", flag[0].lower(), code)
            for table in tables:
                if table in pair.derivatives + CONSTANTS:
                    continue
                if flag == "TENSORS":
                    inner.write(evaluated(table, pair.tensors.index(table)))
                    continue
                n = pair.with_values.index(table)
                lines = [evaluated(table, n + row) for row in (first, other)]
                if pair.tensors and first != other:
                    lines = ["if TENSORS:", *deeper(lines[1:]), "else:", *deeper(lines[:1])]
                inner.lines += lines if pair.tensors and first != other else lines[:1]
            if flag == "TENSORS" and self.names == ["ab"]:
                self._read_columns(inner, field, tables)
                code.within(f"if {flag}:", inner)
                continue
            shared = inner.shared(field, self.near(tables))
            if not shared:
                continue
            if flag == "PRESSURE" or (flag == "VALUES" and self.scalar):
                inner.add("p" if flag == "PRESSURE" else "u0", inner.terms(shared))
            elif flag == "VALUES":
                inner.add_vector(grouped(shared, "v"), [f"u{i}" for i in AXES])
            elif flag == "TENSORS":
                inner.add_vector(grouped(shared, "w"), [f"pull{i}" for i in AXES])
            elif self.scalar:
                inner.add_vector(grouped(shared, "w"), matrix[:3])
            else:
                inner.add_matrix(paired(shared, "vw"), matrix)
            code.within(f"if {flag}:", inner)
        words = '    """Add to the sums of derivatives what one source does."""'
        head = "def differentiate(density, row, normal, first_normal, at):"
        return [head, words, *deeper(code.lines)]

    def _read_columns(self, code: Code, fields: dict[str, Expanded], tables: Tables) -> None:
        """Write what a target reads of a tensor: of each column f, along its axis m."""
        if not fields:
            return
        shared = code.shared(fields, self.near(tables))
        inner = Code("f m", "c", code)
        for i in AXES:
            inner.write(f"f{i}: REAL = density[row + {3 * i} + column][at]")
            inner.write(f"m{i}: REAL = 0.0")
        for i in AXES:
            inner.lines += [f"if column == {i}:", f"    m{i} = 1.0"]
        inner.add_vector(grouped(shared, "w"), [f"pull{i}" for i in AXES])
        code.within("for column in range(3):", inner)
