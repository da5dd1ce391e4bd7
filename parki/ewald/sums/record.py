"""`Interaction`: the values that a sum is made of, and the terms that its error estimates take.

Whatever is true of one sum and not of another stands in these values. The rest of parki asks them,
and never which sum it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.force_dipoles import text_of
from parki.ewald.sums.gauges import Gauge, check_gauge
from parki.ewald.sums.images import (
    CURVATURE,
    GRADIENT,
    LAYER,
    LAYER_OF_PRESSURE,
    PLAIN,
    READ_DOUBLET,
    READ_FORCE,
    READ_LAYER,
    ImageParts,
)
from parki.ewald.sums.maps import Map
from parki.ewald.sums.pairs import PairFunction
from parki.ewald.sums.sizes import square
from parki.ewald.sums.sources import Source, check_sources, takes
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.tables import RadialTables, Tables
from parki.ewald.sums.written import check_pair
from parki.interchange import shown
from parki.runtime.forks import cached_property
from parki.typing import AnyArray

Array = NDArray[np.float64]
TERMS_OF = ("u", "p", "grad_u", "grad_tensor")
SHELL, BALL = 1 / 6, 1 / 10  # factors 1 - x (k a)^2 of spheres


class ProlateError(NamedTuple):
    """Leading terms for large c of the prolate split's error of a pair, in units of its edge.

    Each of them is ``sqrt(factor) * c**power``: see `parki.ewald.split.prolate_error`.

    Attributes
    ----------
    rms, rms_power : float
        Of the root of the square's integral over space.
    peak, peak_power : float
        Of the largest error.
    zero, zero_power : float
        Of the error at r = 0, where pair functions of odd power have none.
    """

    rms: float
    rms_power: float
    peak: float
    peak_power: float
    zero: float = 0.0
    zero_power: float = 0.0


@dataclass(frozen=True)
class ErrorTerm:
    """A part of a kernel, or a quantity derived from one: what its error estimates take.

    Attributes
    ----------
    name : str
    power : int
        The pair kernel is an inverse length to this power.
    square : callable
        ``square(r2, tables)``: squared size of the pair kernel of -2 times the tables, which have
        values of the radial functions, or of errors of them, at squared distances ``r2``. The size
        is the Frobenius norm averaged over the directions of the densities (and normals),
        ``|K|``, ``|K| / sqrt(3)`` or ``|K| / 3``: what a density of unit norm feels in the mean
        square: see `parki.ewald.sums.sizes`.  The sizes of the symbol and of the splits' errors
        follow from it.
    spread, gather : ImageParts
        What the window's images add in the halves of the far field.
    order : int
        Order of the symbol, which follows from ``square``: 1 harmonic, 2 biharmonic.
    prolate : ProlateError, optional
        A fast path: None takes the quadrature of ``square``.
    aligned_factor : float
        Ratio of the rms error for q parallel to n to the one for random directions; so for the
        two vectors of a tensor, while numbers and single vectors have 1. It follows from averages
        such as (q.k)^2 (n.k)^2: 1/9 for random q and n, 1/5 for q along n.
    derived : bool
        Whether it is a pressure or a gradient.
    """

    name: str
    power: int
    square: Callable[[Array, RadialTables], Array]
    spread: ImageParts
    gather: ImageParts
    order: int
    prolate: ProlateError | None = None
    aligned_factor: float = 1.0
    derived: bool = False

    @property
    def differentiates_window(self) -> bool:
        """Whether windows have larger errors in it than in the kernel's other terms."""
        return self.derived and {self.spread, self.gather} != {PLAIN}


# What results have in a name, powers of the inverse length more, and how the window gathers them.
_ENDS = {
    "u": ("", 0, PLAIN),
    "p": ("_p", 1, PLAIN),
    "grad_u": ("_grad", 1, GRADIENT),
    "grad_tensor": ("_tensor", 2, READ_FORCE),
}


def error_terms_of(
    name: str,
    symbol: Symbol,
    source: Source,
    *,
    aligned: Mapping[str, float],
    prolate: Mapping[str, ProlateError] | None = None,
) -> dict[str, tuple[ErrorTerm, ...]]:
    """Return the terms of the results of one source.

    Parameters
    ----------
    name : str
        The first part of the terms' names; the same for all values of a sum's parameters.
    symbol : Symbol
        Without screening, which makes errors smaller.
    source : Source
    aligned : mapping of str to float
        For each result the ``aligned_factor`` of its term.
    prolate : mapping of str to ProlateError, optional
        For results of which they are known.

    Raises
    ------
    ParkiValueError
    """
    if not {*aligned} <= {*_ENDS} or not isinstance(source, Source):
        raise ParkiValueError(
            f"the terms of {name} are of {shown(source)}, aligned for {', '.join(aligned)}; "
            f"expected one Source, and some of {', '.join(_ENDS)}"
        )
    if not takes(source, symbol.structure, symbol.components):
        raise ParkiValueError(
            f"the terms of {name} are of a source of shape {source.shape} that their symbol does "
            "not take: docs/adding-a-sum.md lists which go together"
        )
    if symbol.order == 1 and "p" in aligned:
        raise ParkiValueError(
            f"the terms of {name} are aligned for p, but their symbol has no pressure; leave p out "
            'of aligned, and give the record "p": () if it is a flow'
        )
    spread = CURVATURE if source.curvature else GRADIENT if source.gradient else PLAIN
    terms: dict[str, tuple[ErrorTerm, ...]] = {}
    for result, factor in aligned.items():
        end, more, gather = _ENDS[result]
        if source.normal:  # four grid components, of which the pressure takes k.A alone
            spread = LAYER_OF_PRESSURE if result == "p" else LAYER
        if result == "grad_tensor" and (source.normal or symbol.order == 1):
            gather = READ_LAYER if source.normal else READ_DOUBLET
        terms[result] = (
            ErrorTerm(
                name=name + end,
                power=source.decay + more,
                square=square(symbol, source, result),
                spread=spread,
                gather=gather,
                order=symbol.order,
                prolate=(prolate or {}).get(result),
                aligned_factor=float(factor),
                derived=result != "u",
            ),
        )
    return terms


@dataclass(frozen=True)
class Interaction:
    """One sum, composed of values.

    Attributes
    ----------
    name : str
    symbol : Symbol
        Its far field.
    pair : PairFunction
        Its near field.
    sources : tuple of Source
        The parts of a density, whose rows follow each other.
    gauge : Gauge or None
        None where the sum of the densities has no field of its own. A screened symbol has another
        one than the symbol without screening: see `parki.ewald.sums.gauges`.
    terms : mapping of str to tuple of ErrorTerm
        What makes up each quantity that the sum has: "u", "p", "grad_u"; and "grad_tensor", the
        gradient of ``D_jk d_k u_j + s p`` for a tensor D and a strength s at a *tensor target*.
        One other than "u" without terms is zero everywhere.
    adjoints : mapping of str to Adjoint
        How "u", "p" and "grad_u" are transposed, as far as there are sums for it.
    dipoles : str
        The sum of the dipoles of its sources: they are what sources are that move, so that it has
        the derivatives of all results by points. "" if there is none.
    unit : float
        A length, by which the tolerance measures derivatives of a density and of results: errors
        of gradients times it count as errors of velocities do, and dipoles over it as forces. 0
        for the box.
    overlap_correction : str
        The sum that adds what this one leaves out of pairs closer than ``pair.least``, if any; its
        near field alone.
    as_dipoles : tuple (str, callable) or None
        A sum of dipoles that it is, whose gradients targets read, and the map of its density.
    pressure : tuple of Addend
        What makes its pressure, where that is no result of its own.
    quadrupoles : str
        The sum of charges, dipoles and quadrupoles of the same widths, where points have widths of
        their own: it has the derivatives by these.
    """

    name: str
    symbol: Symbol
    pair: PairFunction
    sources: tuple[Source, ...]
    gauge: Gauge | None
    terms: Mapping[str, tuple[ErrorTerm, ...]] = field(hash=False)
    adjoints: Mapping[str, Adjoint] = field(default_factory=dict, hash=False)
    dipoles: str = ""
    unit: float = 0.0
    overlap_correction: str = ""
    as_dipoles: tuple[str, Map] | None = None
    pressure: tuple[Addend, ...] = ()
    quadrupoles: str = ""

    def __post_init__(self) -> None:
        """Refuse values that no sum can be made of.

        Raises
        ------
        ParkiValueError
        """
        if not self.terms.get("u") or not {*self.terms} <= {*TERMS_OF}:
            raise ParkiValueError(
                f"the sum {self.name} has terms of {', '.join(self.terms) or 'nothing'}; expected "
                f'one or more of "u", and perhaps terms of {", ".join(TERMS_OF[1:])}'
            )
        if not {*self.adjoints} <= {*self.terms}:
            raise ParkiValueError(
                f"the sum {self.name} has adjoints of {', '.join(self.adjoints)}, but terms of "
                f"{', '.join(self.terms)} alone; leave out the others"
            )
        if self.symbol.order not in (1, 2):
            raise ParkiValueError(
                f"the sum {self.name} has a symbol of order {self.symbol.order}; expected 1 or 2"
            )
        check_sources(
            f"the sum {self.name}", self.sources, self.symbol.structure, self.symbol.components
        )
        if self.gauge is not None:
            screened, power = bool(self.symbol.screening), self.pair.power
            check_gauge(self.name, self.gauge, screened, power, self.results)
        source = self.sources[0]
        if source.decay - source.normal != self.pair.power:
            raise ParkiValueError(
                f"the sum {self.name} has a first source of decay {source.decay}, but falls with "
                f"the power {self.pair.power + source.normal} of the distance; give "
                f"source._replace(decay={self.pair.power + source.normal})"
            )
        if self.gauge is None and self.pair.power == 1 and not self.sources[0].normal:
            raise ParkiValueError(
                f"the sum {self.name} falls as 1 / r, so that net densities have a field of their "
                "own; give a gauge of parki.extend"
            )
        if not self.pair.file and not self.pair.overlap_correction:
            check_pair(self.name, self.symbol, self.sources, self.pair)

    def derivative_tables(self, want: tuple[str, ...], values: bool = False) -> Tables:
        """Return the tables that derivatives take, with or without values."""
        tables = self.pair.tensors if "grad_tensor" in want else self.pair.derivatives
        return tables + values * self.pair.with_values

    @cached_property
    def rows(self) -> int:
        """Rows of a density."""
        return sum(source.rows for source in self.sources)

    @cached_property
    def results(self) -> int:
        """Rows of the velocity or potential."""
        return self.symbol.results

    @cached_property
    def components(self) -> int:
        """Fields on the grid that sources are spread onto."""
        return self.symbol.components

    @cached_property
    def spread(self) -> int:
        """Components that sources are spread onto, on all grids."""
        return self.components * (1 + self.symbol.laplacians[1])

    @cached_property
    def gathered(self) -> int:
        """Components that targets are gathered from, on all grids."""
        return self.results * (1 + self.symbol.laplacians[0])

    @cached_property
    def near_rows(self) -> int:
        """Rows of a density in the near field, where radii of points follow it."""
        return self.rows + (self.pair.point_radii is not None)

    @cached_property
    def normals(self) -> bool:
        """Whether sources have normals."""
        return any(source.normal for source in self.sources)

    @cached_property
    def gradient(self) -> bool:
        """Whether sources are spread with the window's gradient."""
        return any(source.gradient for source in self.sources)

    @cached_property
    def curvature(self) -> bool:
        """Whether sources are spread with the window's second derivatives."""
        return any(source.curvature for source in self.sources)

    @cached_property
    def lengths(self) -> Array | None:
        """How many lengths the rows of a density have more than the pair function counts.

        None if there are none, or normals have them.
        """
        powers = [s.decay - self.pair.power for s in self.sources for _ in range(s.rows)]
        return np.array(powers)[:, None] if any(powers) and not self.normals else None

    @cached_property
    def source_components(self) -> int:
        """Components of the largest part of a source: a vector, or the product of two."""
        return self.results * (9 if self.curvature else 3 if self.gradient else 1)

    @cached_property
    def turns(self) -> tuple[bool, bool]:
        """Whether targets, and sources, are spheres that turn, or that torques act on."""
        if self.symbol.shells:
            return self.symbol.shells[0].turns, self.symbol.shells[1].turns
        targets, sources = self.symbol.laplacians
        turning = self.pair.point_radii is not None and self.pair.blob is None
        turning = turning and self.symbol.order == 1
        return turning and not targets, turning and not sources

    @cached_property
    def faxen_factors(self) -> Array | float:
        """What squared radii are multiplied by, for each row of a density: see `Source.ball`."""
        factors = [(SHELL, BALL)[s.ball] for s in self.sources for _ in range(s.rows)]
        return factors[0] if len({*factors}) == 1 else np.array(factors)[:, None]

    def faxen_factor(self, result: str) -> float:
        """Return the factor of squared radii of targets, for a result."""
        ball = result != "u" and any(source.ball for source in self.sources)
        return BALL if ball else SHELL

    @cached_property
    def density(self) -> tuple[int, ...]:
        """The shape of a density of one source."""
        return self.sources[0].shape if len(self.sources) == 1 else (self.rows,)

    def density_shape(self, sources: int) -> tuple[int, ...]:
        """Return the shape of a density."""
        return (*self.density, sources)

    def value_shape(self, targets: int) -> tuple[int, ...]:
        """Return the shape of "u"."""
        return (targets,) if self.results == 1 else (3, targets)

    def parts(self, rows: AnyArray) -> Iterator[tuple[Source, Any]]:
        """Yield each source with its rows of a density."""
        start = 0
        for source in self.sources:
            yield source, rows[start : start + source.rows]
            start += source.rows

    def slopes(self, want: tuple[str, ...], on_device: bool) -> bool:
        """Return whether a pair adds to potential and gradient at once."""
        return bool(self.pair.slopes) and (on_device or self.pair.fused) and "grad_u" in want

    def p2p(
        self, slopes: bool = False, derivatives: Tables = (), moved: bool = False
    ) -> dict[str, Any]:
        """Return the constants of P2P's kernels that depend on the sum.

        ``derivatives`` are the tables of kernels that sum these. If ``moved``, densities are the
        charges of which it is the sum of dipoles: see `parki.ewald.sums.force_dipoles.text_of`.
        """
        file = self.pair.file or text_of(
            self.symbol,
            self.sources,
            overlap_correction=self.pair.overlap_correction,
            any_radii=self.pair.point_radii is not None,
            moved=moved,
        )
        tables = derivatives or (self.pair.slopes if slopes else self.pair.values)
        constants = {"PAIRS": file, "NORMALS": self.normals, "TABLES": len(tables)}
        blob = self.pair.blob
        constants |= {"BLOB": blob is not None, "ALGEBRAIC": blob.degree(tables) if blob else 0}
        constants |= {"MARKS": self.pair.point_radii is not None, **dict(self.pair.constants)}
        if derivatives:
            constants["WITH_VALUES"] = bool(self.pair.with_values)
        constants |= {"CHARGES": self.near_rows, "OUTPUTS": self.results}
        if moved:
            constants |= {"CHARGES": 1, "MOVED": True}
        if slopes:
            constants |= {"WITH_SLOPES": True, "OUTPUTS": 4 * self.results}
        return constants

    @cached_property
    def p2g(self) -> dict[str, Any]:
        """The constants of P2G's kernels; the literature's have none for tensors."""
        plain = sum(source.rows for source in self.sources if not source.gradient)
        tensors = any(source.gradient and not source.normal for source in self.sources)
        constants = {"PLAIN": plain, "LAYERS": self.normals}
        constants |= {"TENSORS": self.components} if tensors else {}
        return constants | ({"QUADRUPOLES": True} if self.curvature else {})

    @cached_property
    def fgc(self) -> dict[str, Any]:
        """The constants of FGC's convolution."""
        symbol = self.symbol
        targets, sources = symbol.laplacians
        constants = {"SYMBOLS": symbol.structure, "COMPONENTS": symbol.components}
        constants |= {"BRINKMAN": True} if symbol.alpha else {}
        constants |= {"SECOND_TARGETS": targets, "SECOND_SOURCES": sources}
        return constants | ({} if symbol.up is None else {"UP": symbol.up})
