"""`RadialTables`: smooth functions of the distance, found by what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError

Array = NDArray[np.float64]
Function = Literal[
    "smooth", "psi", "flow", "pressure", "shells", "shell_ball", "balls", "screening", "numbers"
]


class NoTableError(ParkiValueError, KeyError):
    """A table that a split does not have; a `KeyError`, too, as mappings raise."""

    __str__ = Exception.__str__


class Table(NamedTuple):
    """What a table is.

    Attributes
    ----------
    function : str
        - "smooth": T_n, the smooth part of b_n, see `parki.ewald.sums.operators`;
        - "psi": psi_n of the mollifier, with ``psi_0 = psi`` and ``psi_{n+1} = psi_n' / r``;
        - "flow": ``2 T_0 - r^2 T_1``, which the flow of forces takes;
        - "pressure": T_n of 1 / r, where the flow has another b;
        - "shells", "shell_ball", "balls": T_n of spheres of one radius, with their Laplacians;
        - "screening": the number kappa or alpha times the cut-off, last in its row;
        - "numbers": those of the sum, see `PairFunction.numbers`.
    order : int
        n.
    laplacians : int
        How many Laplacians of the field of points it belongs to.
    """

    function: Function
    order: int = 0
    laplacians: int = 0

    @property
    def name(self) -> str:
        """The local variable that has its value in pair functions."""
        order = "" if self.function == "flow" else self.order
        return f"{self.function}{order}" + (f"_lap{self.laplacians}" if self.laplacians else "")


FLOW, SCREENING, NUMBERS = Table("flow"), Table("screening"), Table("numbers")
CONSTANTS = SCREENING, NUMBERS  # rows that have numbers
Tables = tuple[Table, ...]


class RadialTables(Mapping[Table, Array]):
    """Smooth functions of a split, or what stands for each of them: a series, values, or errors.

    They are functions of ``s = 2 (r / rc)^2 - 1``, without dimensions: T_n is an inverse length to
    the power 2 n + 1, as is psi_n, "flow" is one as T_0 is, and each Laplacian adds two powers.
    """

    def __init__(self, tables: Mapping[Table, Array] | Iterable[tuple[Table, Array]]) -> None:
        self._tables = dict(tables)

    @classmethod
    def of(
        cls, *, smooth: Sequence[Array], psi: Sequence[Array] = (), flow: Array | None = None
    ) -> RadialTables:
        """Return T_n from n = 0 on, psi_n from n = 1 on, and "flow"."""
        tables = {} if flow is None else {FLOW: flow}
        tables |= {Table("smooth", n): table for n, table in enumerate(smooth)}
        return cls(tables | {Table("psi", n): table for n, table in enumerate(psi, 1)})

    @classmethod
    def of_levels(cls, levels: Sequence[RadialTables]) -> RadialTables:
        """Return tables of points, of the Laplacian of their field, of its Laplacian, and so on."""
        return cls(
            (key._replace(laplacians=n), table)
            for n, tables in enumerate(levels)
            for key, table in tables.items()
        )

    def level(self, laplacians: int) -> RadialTables:
        """Return the tables with a number of Laplacians, under the names of points' tables."""
        return RadialTables(
            (key._replace(laplacians=0), table)
            for key, table in self.items()
            if key.laplacians == laplacians
        )

    def __getitem__(self, key: Table) -> Array:
        if key not in self._tables:
            raise NoTableError(
                f"the sum takes {key.function}_{key.order}, of which its split has no table; "
                "screened symbols have those of the sums that docs/adding-a-sum.md lists"
            )
        return self._tables[key]

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __or__(self, others: Mapping[Table, Array]) -> RadialTables:
        return RadialTables({**self, **others})

    @property
    def degree(self) -> int:
        """Degree of the polynomials."""
        return next(iter(self._tables.values())).size - 1

    @property
    def flow(self) -> Array:
        """``2 T_0 - r^2 T_1``."""
        return self[FLOW]

    def smooth(self, order: int, laplacians: int = 0) -> Array:
        """Return T_n."""
        return self[Table("smooth", order, laplacians)]

    def psi(self, order: int, laplacians: int = 0) -> Array:
        """Return psi_n."""
        return self[Table("psi", order, laplacians)]

    def map(
        self, function: Callable[..., Array], other: RadialTables | None = None
    ) -> RadialTables:
        """Return a function's results, called with each table, and perhaps with one of another."""
        return RadialTables(
            (key, function(table) if other is None else function(table, other[key]))
            for key, table in self.items()
        )

    def row(self, table: Table) -> Array:
        """Return a table's coefficients of powers of s, the highest first.

        T_2 follows from psi_2 unless it is there: ``(r^5 T_2)' = r^4 psi_2``. T_1 and psi_1, of
        which it is a difference, would lose digits at small r.
        """
        if table in self._tables or table != ("smooth", 2, 0):
            return self._tables[table]
        series, above = np.array(self.psi(2)), 0.0
        for place, power in enumerate(reversed(range(series.size))):
            above = series[place] = (series[place] - 2 * (power + 1) * above) / (2 * power + 5)
        return series
