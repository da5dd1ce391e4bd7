"""The text of the pair function of spheres of any radii that carry forces and their dipoles.

It is written as `parki.ewald.sums.written` does for the same symbol and sources, with functions of
the distance for each kind of pair: forces and velocities are of shells, dipoles and gradients of
balls. The block ``kernels/blocks/force_dipoles.py`` has what overlaps. Tables have the smooth
parts: of points, of the Laplacian of their field, and of its Laplacian.
"""

from __future__ import annotations

from functools import lru_cache, partial

from parki.ewald.sums.code import AXES, Code, Functions, deeper, grouped, paired, plus, total
from parki.ewald.sums.operators import Place, singular
from parki.ewald.sums.pairs import PairFunction
from parki.ewald.sums.sources import FORCE, SPHERE_DIPOLE, Source
from parki.ewald.sums.symbols import FLOW, Symbol
from parki.ewald.sums.tables import NUMBERS, Function, Table, Tables
from parki.ewald.sums.written import Text

# Kinds of what a part of a density makes: in u, and in its derivatives.
VALUES, SLOPES = {"f": "ss", "ab": "sb"}, {"f": "bs", "ab": "bb"}
# Their tables, of spheres of one radius.
ALIKE_OF: dict[str, Function] = {"ss": "shells", "sb": "shell_ball", "bb": "balls"}
# The functions b_n r^m of each kind, as m by n.
FUNCTIONS = {
    "ss": {0: 0, 1: 2},
    "sb": {1: 1, 2: 3},
    "bs": {1: 1, 2: 3},
    "bb": {1: 0, 2: 2, 3: 4},
}
SOURCES = FORCE, SPHERE_DIPOLE


def _levels(*orders: int) -> Tables:
    """Return T_n of points and of both Laplacians."""
    return tuple(Table("smooth", n, laplacians) for laplacians in range(3) for n in orders)


PAIR = PairFunction(
    file="",
    operations=(9, 160),
    values=(*_levels(0, 1, 2), NUMBERS),
    derivatives=(*_levels(1, 2, 3), NUMBERS),
    with_values=_levels(0),
    overlap_correction="apart",
)
# Spheres of one radius combine the tables. Values take three more, as `take_polynomials` does.
_SHELLS = Table("shells", 0), Table("shells", 1)
_SHELL_BALL = Table("shell_ball", 1), Table("shell_ball", 2)
_BALLS = Table("balls", 1), Table("balls", 2), Table("balls", 3)
ALIKE = PAIR._replace(
    operations=(7, 120),
    values=(*_SHELLS, *_SHELL_BALL, NUMBERS),
    derivatives=(*_SHELL_BALL, *_BALLS, NUMBERS),
    with_values=(*_SHELLS, _SHELL_BALL[0]),
)
REST = PAIR._replace(
    values=(NUMBERS,), derivatives=(NUMBERS,), with_values=(), overlap_correction="rest"
)
HEAD = '''"""{formula}"""

from kernels.blocks.force_dipoles import overlap, stay_apart, weigh_laplacians
from kernels.blocks.cut import cut
from kernels.blocks.radial import begin_points, direction, distance, polynomial, variable
from kernels.blocks.radii import take_radii
from kernels.blocks.vector import take_tensor, take_vector
'''


def near_functions(places: dict[Place, float], kind: str) -> dict[tuple[str, int], float]:
    """Return b_n r^m as coefficients of the local variables of `SphereText`."""
    return {(f"near_{kind}{n}", 0): x for (n, _), x in places.items()}


def _by_part(kinds: dict[str, str]) -> dict[str, Functions]:
    """Return the callable that writes functions of the distance, by part of a density."""
    return {part: partial(near_functions, kind=kind) for part, kind in kinds.items()}


class SphereText(Text):
    """A pair function of spheres that is being written; or the ``rest`` of pairs in contact.

    ``any_radii`` says whether each sphere has a radius.
    """

    head = HEAD

    def __init__(self, rest: bool = False, any_radii: bool = True) -> None:
        super().__init__(FLOW, SOURCES)
        self.pair = REST if rest else PAIR if any_radii else ALIKE
        self.rest, self.any_radii = rest, any_radii

    def interact(self) -> list[str]:
        """Return the lines of `interact`."""
        code = self._begin("e", self.pair.values)
        self._take_functions(code, VALUES, cut=True)
        shared = code.shared(self.fields.values, _by_part(VALUES))
        inner = Code("", outer=code)
        self.take_sources(inner, "row + CHARGES * d")
        inner.add_vector(grouped(shared, "v"), [f"u[OUTPUTS * d{plus(i)}]" for i in AXES])
        code.within("for d in range(MANY):", inner)
        words = '    """Add to u what one source does."""'
        head = "def interact(density, row, normal, first_normal, at):"
        return [head, words, *deeper(code.lines)]

    def differentiate(self) -> list[str]:
        """Return the lines of `differentiate`."""
        code = self._begin("e f ab", self.pair.derivatives)
        self.take_sources(code, "row")
        inner = Code("", "v", code)
        for place, table in enumerate(self.pair.with_values):
            if table not in self.pair.derivatives:
                inner.write(f"polynomial({table.name}, p{len(self.pair.derivatives) + place})")
        self._take_functions(inner, VALUES)
        shared = inner.shared(self.fields.values, _by_part(VALUES))
        inner.add_vector(grouped(shared, "v"), [f"u{i}" for i in AXES])
        code.within("if VALUES:", inner)
        inner = Code("", "g", code)
        self._take_functions(inner, SLOPES)
        shared = inner.shared(self.fields.slopes, _by_part(SLOPES))
        inner.add_matrix(paired(shared, "vw"), [f"g{i}{j}" for i in AXES for j in AXES])
        code.within("if GRADIENT:", inner)
        words = '    """Add to the sums of derivatives what one source does."""'
        head = "def differentiate(density, row, normal, first_normal, at):"
        return [head, words, *deeper(code.lines)]

    def _begin(self, knows: str, tables: Tables) -> Code:
        """Return lines that take direction, distance, radii, tables, and functions of points."""
        code = Code(knows)
        for line in ("begin_points()", "variable(rr)", "direction()", "distance(r)"):
            code.write(line)
        numbers = f"p{tables.index(NUMBERS)}"
        if self.any_radii:
            code.write(f"take_radii(one, other, {numbers}, density, row, at)")
        else:
            code.declare("one", f"{numbers}[2]")
            code.declare("other", "one")
        code.write("weigh_laplacians()")
        if not self.rest:
            code.write(f"stay_apart({numbers})")
        for kind, functions in FUNCTIONS.items():
            for n, m in functions.items():
                first, second = (code.power("y", 2 * n + 1 - m + k) for k in (0, 2))
                terms = [(singular(n), [first]), (2 * singular(n + 1), [f"{kind}_once", second])]
                code.declare(f"{kind}{n}", total(terms))
        if self.rest:
            code.write("overlap()")
        for row, table in enumerate(tables):
            if table != NUMBERS:
                code.write(f"polynomial({table.name}, p{row})")
        return code

    def _take_functions(self, code: Code, kinds: dict[str, str], cut: bool = False) -> None:
        """Take the functions of kinds of pairs: b_n less the smooth part 2 (-1)^n T_n.

        The rest is what there is more than of points at the distance 1.
        """
        for kind in kinds.values():
            twice = "sb" if kind == "bs" else kind
            for n, m in FUNCTIONS[kind].items():
                first, second, third = (table.name for table in _levels(n))
                smooth = f"({first} + {kind}_once * {second} + {twice}_twice * {third})"
                if not self.any_radii:
                    smooth = Table(ALIKE_OF[twice], n).name
                power = [code.power("r", m)] if m else []
                terms = [(1.0, [f"{kind}{n}"]), (-2.0 * (-1) ** n, [*power, smooth])]
                if self.rest:
                    terms = [(1.0, [f"{kind}{n}"]), (-2.0 * singular(n + 1), [f"{kind}_once"])]
                    terms.append((-float(singular(n)), ["1.0"]))
                name = code.declare(f"near_{kind}{n}", total(terms))
                if cut:
                    code.write(f"cut({name})")


@lru_cache(maxsize=64)
def text_of(
    symbol: Symbol,
    sources: tuple[Source, ...],
    *,
    overlap_correction: str = "",
    any_radii: bool = False,
    moved: bool = False,
) -> str:
    """Return the text of a pair function; for its parameters see `PairFunction`.

    If ``moved``, it is of dipoles that are made as distances move by the kernel's ``motion``: from
    charges, which are the density.
    """
    if overlap_correction:
        return SphereText(rest=overlap_correction == "rest", any_radii=any_radii).text()
    return Text(symbol, sources, moved).text()
