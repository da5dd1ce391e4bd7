"""Sums as differential operators, which follow from their records.

All fields of a sum are derivatives of one radial function psi: 1 / r for a symbol of order 1, and
-r for one of order 2, or what a split or a plane's mean makes of these. Nobody asks which sum it
is: the record says how a density is spread, and which structure the symbol has.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from parki.ewald.sums import SUMS
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.sources import Source
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.tables import Tables

Array = np.ndarray[Any, np.dtype[Any]]


class Operator(dict[tuple[int, ...], Any]):
    """Derivatives of psi by their axes, with coefficients: ``{(0, 2): 3.0}`` is 3 d_x d_z psi."""

    def d(self, *axes: int) -> Operator:
        """Return the derivative along axes."""
        return Operator({tuple(sorted(key + axes)): value for key, value in self.items()})

    def __add__(self, other: Operator) -> Operator:
        keys = dict.fromkeys([*self, *other])
        return Operator({key: self.get(key, 0) + other.get(key, 0) for key in keys})

    def __mul__(self, factor: Any) -> Operator:
        return Operator({key: value * factor for key, value in self.items()})

    def __sub__(self, other: Operator) -> Operator:
        return self + other * -1

    @property
    def laplacian(self) -> Operator:
        """The sum of the second derivatives."""
        return added(self.d(axis, axis) for axis in range(3))

    def of(self, derivative: Callable[[tuple[int, ...]], Any]) -> Any:
        """Return the values where ``derivative(axes)`` are those of psi."""
        return sum(value * derivative(axes) for axes, value in self.items())


def added(operators: Iterable[Operator]) -> Operator:
    """Return the sum of operators."""
    return functools.reduce(operator.add, operators, Operator())


def moments(source: Source, dens: Array, norms: Any, spread: Any) -> list[Operator]:
    """Return what the components of a grid get of one part of a density, (rows, N)."""
    order, more = source.gradient + source.curvature, []
    if source.normal:  # stresslets, which have sources of fluid
        more = [spread((dens * norms).sum(axis=0))]
        dens = -(dens[:, None] * norms + norms[:, None] * dens)
    along = list(itertools.product(range(3), repeat=order))
    components = (-1) ** order * dens.reshape(-1, len(along), dens.shape[-1])
    return [added(map(spread, each, *zip(*along, strict=True))) for each in components] + more


def _curl(a: list[Operator]) -> list[Operator]:
    return [a[k].d(j) - a[j].d(k) for j, k in ((1, 2), (2, 0), (0, 1))]


def _along_axis(up: Any, a: list[Operator]) -> list[Operator]:
    field = a[0] if len(a) == 1 else added(each.d(up, axis) for axis, each in enumerate(a))
    return [field.d(up, axis) for axis in range(3)]


def _flow(a: list[Operator]) -> list[Operator]:
    along = added(a[axis].d(axis) for axis in range(3))
    pushed = along - added(a[3:]).laplacian
    return [*(pushed.d(axis) - a[axis].laplacian for axis in range(3)), along.laplacian]


def fields(symbol: Symbol, a: list[Operator]) -> tuple[list[Operator], Operator]:
    """Return the rows of u, and p, of what the grid has. Without a pressure that is empty."""
    structures: dict[str, Callable[[], list[Operator]]] = {
        "scalar": lambda: a,
        "slope": lambda: [a[0].d(axis) for axis in range(3)],
        "axis_derivative": lambda: _along_axis(symbol.up, a),
        "curl": lambda: _curl(a),
        "flow": lambda: _flow(a)[: 2 + symbol.order],  # of doublets there is no pressure
    }
    rows = structures[symbol.structure]()
    return rows[: symbol.results], added(rows[symbol.results :])


def of_points(values: Any, *axes: int) -> Operator:
    """Return what points spread."""
    return Operator({tuple(sorted(axes)): values})


def of_sum(kind: Interaction, dens: Array, norms: Any) -> tuple[list[Operator], Operator]:
    """Return u and p of a density, for each source."""
    found: list[Operator] = []
    for source, own in kind.parts(np.reshape(dens, (kind.rows, -1))):
        spread = moments(source, own, norms, of_points)
        both = itertools.zip_longest(found, spread, fillvalue=Operator())
        found = [a + b for a, b in both]
    return fields(kind.symbol, found)


def radial(near: Array, r: Array, order: int) -> list[Array]:
    """Return (d/dr / r)^n psi for n up to 5, of b', b'' ... at distances r; b is what r became."""
    b1, b2, b3, b4, b5, b6 = near
    second = [b2, b3 / r, (b4 - b3 / r) / r**2, (b5 - 3 * (b4 - b3 / r) / r) / r**3]
    second.append((b6 - 6 * b5 / r + 15 * b4 / r**2 - 15 * b3 / r**3) / r**4)
    found = [b1 / r]
    for n, each in enumerate(second):
        found.append((each - (2 * n + 1) * found[n]) / r**2)
    return found if order == 1 else [0 * r, *(-each for each in found[:-1])]


def over_plane(symbol: Symbol, functions: Sequence[Any]) -> Callable[[tuple[int, ...]], Any]:
    """Return the derivatives of psi's mean over a plane: of 1 / r's mean and its slopes along z.

    The mean of -r is that of 1 / r, twice integrated, times -2.
    """
    highest = 2 * (symbol.order - 1)

    def mean(axes: tuple[int, ...]) -> Any:
        along = len(axes) - highest
        known = {*axes} <= {2} and along < len(functions)
        return (-2.0) ** (symbol.order - 1) * functions[along] if known else 0 * functions[0]

    return mean


def derivative(axes: tuple[int, ...], r: Array, functions: list[Array], n: int = 0) -> Array:
    """Return a derivative of psi at displacements r, (3, N), of its functions by `radial`."""
    if not axes:
        return functions[n]
    first, rest = axes[0], axes[1:]
    found = r[first] * derivative(rest, r, functions, n + 1)
    for place, axis in enumerate(rest):
        if axis == first:
            found = found + derivative(rest[:place] + rest[place + 1 :], r, functions, n + 1)
    return found


def read(q: Array, n: Array, derived: Callable[..., Any]) -> list[Any]:
    """Return the gradient of what layers q, n would feel of ``derived(row, *axes)`` of u and p."""
    tensor, strength = -(q[:, None] * n + n[:, None] * q), (q * n).sum(axis=0)
    return [
        functools.reduce(
            operator.add,
            [derived(j, axis, m) * tensor[j, m] for j in range(3) for m in range(3)],
            derived(3, axis) * strength,
        )
        for axis in range(3)
    ]


class Part(NamedTuple):
    """What a term is of: a field, of one source of a sum, and tables of its pair function."""

    symbol: Symbol
    source: Source
    field: str
    tables: Tables

    @property
    def many_modes(self) -> bool:
        """Whether errors are those of many modes, so that few random systems have their mean."""
        plain = self.source.normal or not self.source.gradient
        return plain and self.field != "grad_tensor"

    def given(self, f: Array, q: Array, n: Array) -> tuple[Array, Array]:
        """Return a density, (rows, N), and normals: of f, of the products of q and n, or both."""
        if self.source.rows == 9:
            return (q[:, None] * n).reshape(9, -1), n
        return (q if self.source.normal else f[: self.source.rows]), n

    def strength(self, dens: Array, norms: Array) -> float:
        """Return Q."""
        square = (dens**2).sum(axis=0)
        return float((square * (norms**2).sum(axis=0) if self.source.normal else square).sum())

    def fields(self, dens: Array, norms: Array, spread: Any = of_points) -> list[Operator]:
        """Return the rows of u, or p, from which the field follows; both for tensor targets."""
        u, p = fields(self.symbol, moments(self.source, dens, norms, spread))
        return {"p": [p], "grad_tensor": [*u, p]}.get(self.field, u)

    def rows(self, fields: list[Any], derived: Callable[..., Any], q: Any, n: Any) -> list[Any]:
        """Return the rows of the field by ``derived(each, *axes)``; q, n are at the targets."""
        if self.field == "grad_tensor":
            return read(q, n, lambda row, *axes: derived(fields[row], *axes))
        along = [(axis,) for axis in range(3)] if self.field == "grad_u" else [()]
        return [derived(each, *axes) for each in fields for axes in along]


def part_of(term: str, up: int = 0) -> Part:
    """Return what a term is of: the first sum of the fewest sources that has it."""
    found = [
        (kind, field, source)
        for kind in SUMS.examples()
        for field, terms in kind.terms.items()
        for source, own in zip(kind.sources, terms, strict=False)
        if own.name == term
    ]
    kind, field, source = min(found, key=lambda each: len(each[0].sources))
    pair, symbol = kind.pair, kind.symbol
    tables = {"u": pair.values, "grad_tensor": pair.tensors}.get(field, pair.derivatives)
    symbol = symbol if symbol.up is None else symbol._replace(up=up)
    return Part(symbol, source, field, tables or pair.slopes)
