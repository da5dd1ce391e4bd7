"""`Example`: all that a test needs to know of a sum, from its record; and a sum of the tests alone.

Densities of random sign, normals, points, the exact result by `parki.reference.direct_sum`, and
the promise. Nobody asks which sum it is. "gravity" is a sum of the tests alone: it shows that a
record, a pair function and a reference are all that a new sum takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parki.ewald.points import RESULTS
from parki.ewald.sums import SUMS, Interaction, in_unit, register, symbols
from parki.ewald.sums.adjoint import Adjoint, velocity
from parki.ewald.sums.multipoles import multipole_flow
from parki.ewald.sums.names import InteractionFamily, always
from parki.ewald.sums.pairs import PairFunction
from parki.ewald.sums.sources import CHARGE, Source
from parki.ewald.sums.tables import Table
from parki.interchange import to_host
from parki.reference import direct_sum

Array = np.ndarray[Any, np.dtype[Any]]
# Frobenius norms: twice the gradient, and a pressure times the unit matrix.
STRESS = 2 + 3**0.5


def of_masses() -> InteractionFamily:
    """Return the sum of the tests alone: ``u = sum -m r / r^3``, the field of point masses."""
    terms = multipole_flow(0).terms
    record = Interaction(
        "gravity",
        symbols.SLOPE,
        PairFunction(
            str(Path(__file__).parent / "own_sum" / "gravity"),
            (2, 20),
            (Table("smooth", 1),),
            (Table("smooth", 1), Table("psi", 1)),
            power=2,
        ),
        (CHARGE._replace(decay=2),),
        gauge=None,
        terms={"u": terms["u"], "p": (), "grad_u": terms["grad_u"]},
        adjoints={"u": Adjoint("laplace_dipole", ("u",), velocity, tolerance_factor=1.0)},
    )
    return always(record, None)


def gravity(
    kernel: str,
    trg: Array,
    src: Array,
    dens: Array,
    norms: None = None,
    *,
    want: Any = "u",
    **how: Any,
) -> Any:
    """Return the field of masses: the gradient of their potential; its own is that of dipoles."""

    def slopes() -> Array:
        axes = (np.eye(3)[axis][:, None] * dens for axis in range(3))
        dipoles = (direct_sum("laplace_dipole", trg, src, d, want="grad_u", **how) for d in axes)
        return -np.array([*dipoles])

    made: dict[str, Callable[[], Array]] = {
        "u": lambda: direct_sum("laplace", trg, src, dens, want="grad_u", **how),
        "p": lambda: np.zeros(trg.shape[1]),
        "grad_u": slopes,
        "stress": lambda: 2 * slopes(),  # it is symmetric
    }
    found = tuple(made[name]() for name in ((want,) if isinstance(want, str) else want))
    return found[0] if isinstance(want, str) else found


register("gravity", of_masses())


class Example:
    """A sum, as tests take it.

    Attributes
    ----------
    name : str
    kind : Sum
        Its record.
    fields : tuple of str
        The results that are not zero everywhere.
    components : int
        Components of the largest part of a source, as in docs/accuracy.md.
    exact : callable
        `parki.reference.direct_sum`, without a name.
    """

    def __init__(self, name: str, exact: Any = direct_sum) -> None:
        self.name, self.kind, self._exact = name, SUMS[name], exact
        found = [each for each in RESULTS if self.kind.terms.get(each)]
        self.fields = tuple(found) + ("stress",) * ("p" in found)
        self.components = max(map(_components, self.kind.sources))

    def __repr__(self) -> str:
        return self.name

    @property
    def scalar(self) -> bool:
        """Whether the result is a potential."""
        return self.kind.results == 1

    @property
    def products(self) -> bool:
        """Whether a part of a source is the product of two vectors."""
        return self.components == 9

    @property
    def sized(self) -> bool:
        """Whether the sum has a length of its own."""
        return in_unit(self.name, 2.0) != self.name

    @property
    def transposed(self) -> bool:
        """Whether the transpose has the same matrix up to rounding."""
        return self.kind.adjoints["u"].tolerance_factor is None

    def density(self, rng: np.random.Generator, count: int) -> Array:
        """Return a density of random sign."""
        return rng.standard_normal(self.kind.density_shape(count))

    def normals(self, rng: np.random.Generator, count: int) -> Array | None:
        """Return normals of random length and direction; None where the sum has none."""
        return rng.standard_normal((3, count)) if self.kind.normals else None

    def taken(self, rows: Array, norms: Array) -> tuple[Array, Array | None]:
        """Return a density made of as many rows as it takes, and normals or None.

        Products of two vectors take the normals as the second one. Where there are too few rows,
        the first ones are taken again.
        """
        found, start = [], 0
        for source in self.kind.sources:
            vector = _components(source) == 9 and not source.normal
            end = start + (3 if vector else source.rows)
            own = np.take(rows, range(start, end), axis=0, mode="wrap")
            found.append((own[:, None] * norms).reshape(9, -1) if vector else own)
            start = end
        dens = np.concatenate(found).reshape(self.kind.density_shape(norms.shape[1]))
        return dens, norms if self.kind.normals else None

    def exact(
        self, trg: Array, src: Array, dens: Array, norms: Array | None = None, **how: Any
    ) -> Any:
        """Return the sum, or what is wanted of it, by the reference."""
        return self._exact(self.name, trg, src, dens, norms, **how)

    def promise(
        self, dens: Array, norms: Array | None, box: Any, tolerance: float, field: str = "u"
    ) -> float:
        """Return the bound of the rms error of a field, before rounding."""
        length, bound = float(np.prod(box)) ** (1 / 3), 0.0
        rows = np.asarray(to_host(dens), dtype=float).reshape(self.kind.rows, -1)
        for source, own in self.kind.parts(rows):
            square = (own**2).sum(axis=0)
            if source.normal:
                square = square * (np.asarray(to_host(norms), dtype=float) ** 2).sum(axis=0)
            bound += float(np.sqrt(square.sum())) / length**source.decay
        parts = STRESS if field == "stress" else 1
        bound *= tolerance * parts / (1 if field == "u" else length)
        for each in self.kind.pressure if field in ("p", "stress") else ():
            if each.density is not None:  # a part that adds to the pressure of the same density
                own = each.density(rows, {"norms": np.asarray(to_host(norms), dtype=float)})
                times = abs(each.results({name: np.ones((1, 1)) for name in each.want}, {}).item())
                own_bound = EXAMPLES[each.kernel].promise(own, None, box, tolerance)
                bound += parts * times * own_bound
        return bound

    def in_unit(self, unit: float, dens: Array) -> tuple[str, Array]:
        """Return the name and the density where all lengths are ``unit`` times as large.

        The result stays as it was, its derivatives are 1 / unit times as large.
        """
        parts = self.kind.parts(np.array(dens).reshape(self.kind.rows, -1))
        rows = [own * unit ** (source.decay - source.normal) for source, own in parts]
        name = in_unit(self.name, 1 / unit)
        return name, np.concatenate(rows).reshape(dens.shape)


def _components(source: Source) -> int:
    """Return the components of a source, among which those of its normal or its second vector."""
    return source.rows * (3 if source.normal else 1)


EXAMPLES: Mapping[str, Example] = {name: Example(name) for name in SUMS} | {
    "gravity": Example("gravity", gravity)
}


def example(name: str) -> Example:
    """Return the example of a sum by its name, which may have parameters."""
    return EXAMPLES[name] if name in EXAMPLES else Example(name)
