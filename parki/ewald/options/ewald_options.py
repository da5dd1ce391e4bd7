"""`EwaldOptions`: what a user chooses. Only box, periodicity and tolerance are needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.lattice import (
    Moving,
    Standing,
    rows_of,
)
from parki.ewald.options.box import checked_box, checked_periodicity, lengths_of
from parki.ewald.options.expert import (
    USUAL,
    Expert,
    check_expert,
    of_expert,
    require_one_of,
    set_positive,
    understanding,
)
from parki.ewald.options.in_box import InBox
from parki.ewald.options.walls import (
    METAL,
    check_between,
    checked_mean_flow,
    checked_voltage,
    checked_walls,
    image_factors,
)
from parki.html import table
from parki.interchange import told_apart
from parki.meaning import Varied, refuse_variable, values_of, varied
from parki.runtime import ExecutionSpace, space_name
from parki.runtime.forks import cached_property
from parki.typing import (
    Box,
    Densities,
    ExcludeImage,
    Mean,
    MeanFlow,
    Periodicity,
    Precision,
    SpaceName,
    Walls,
)

# Below these, rounding in the dtype outweighs the method's own error.
SMALLEST_TOLERANCE = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 1e-6}
LARGEST_TOLERANCE = 0.5
CHOICES = {
    "densities": ("random", "any"),
    "precision": ("full", "mixed"),
    "dl_mean": ("zero", "flux"),
    "exclude_image": ("nearest", "given"),
}
# Targets and sources up to which applications are recorded. More keep a device busy while the host
# launches, and the copies of density and results would take memory.
MOST_RECORDED = 2**20
# Deconvolution divides by the window's transform, which falls below rounding for wide windows.
MOST_POINTS = {np.dtype(np.float64): 18, np.dtype(np.float32): 12}


class Shown(type):
    """Lists what users have, which are the fields, and not what sums ask of options."""

    def __dir__(cls) -> list[str]:
        """Return the names that `help` and completion show."""
        return ["__doc__", "__init__", *(field.name for field in fields(cls))]  # type: ignore[arg-type]


@dataclass(frozen=True)
class EwaldOptions(InBox, metaclass=Shown):
    """Options of an Ewald sum.

    Parameters
    ----------
    periodicity : {0, 1, 2, 3}, or sequence of 3 bools
        The number of periodic axes, which are the first ones; or for each axis whether it is
        periodic, such as ``(False, True, True)``. The others are free.
    box : sequence of 3 floats or None, or array of shape (3, 3)
        Edge lengths of the box, whose corner is at the origin. Points outside are wrapped along
        periodic axes, and refused along free ones. None, or 0 in arrays, for the length of a free
        axis: the extent of the points is used, wherever they are. May be left out if no axis is
        periodic.
        Or the lattice vectors of a tilted box in rows, as of ASE or `parki.lattice`, with 2 or 3
        periodic axes; a free axis has None or a vector along it. See ``docs/boxes.md``.
        For `parki.torch` it may be a tensor that requires a gradient. A tensor is read again at
        each call, so that later steps of it count; a plan keeps the box that it was made with.
    tolerance : float
        Bound of the error: the rms over targets is at most ``tolerance * sqrt(Q) / l**p`` with Q
        the sum of squared densities (times squared normals), l the cube root of the box's volume,
        and p = 1 for the potential and the single layer, 2 for double layers, rotlets and dipoles,
        and one more for pressures and gradients. For float64 from 1e-13, for float32 from 1e-6.
    densities : {"random", "any"}
        The densities whose error the tolerance bounds. "random" means random signs and directions.
        For "any", parameters are chosen by a tolerance smaller by the square root of the number of
        sources times a source's components: 1 (Laplace), 3, or 9 (double layers). "random" suits
        smooth densities too, except on lattices. See ``docs/accuracy.md``.
    precision : {"full", "mixed"}
        Precision of the arithmetic: "full" is that of the arrays. "mixed", for float64 arrays,
        takes exact differences of positions, and computes the rest in single precision: rounding
        is that of float32 arrays, and the promise holds otherwise. For tolerances from 1e-6 on.
        Much faster where a GPU has little double precision. See ``docs/accuracy.md``.
    execution_space : str or ExecutionSpace, optional
        OpenMP, Serial, Cuda or HIP (any case; also CPU, Threads, GPU). Default: where the
        arrays are.
    cutoff : float, optional
        Cut-off r_c of the near field, in the unit of ``box``. Default: the predicted optimum.
    dl_mean : {"zero", "flux"}, optional
        Mean of the double layer's velocity in a triply periodic box: zero over the box, or such
        that closed bodies have no net flux through its faces: ``8 pi / V sum (q.n) (y - x)`` more.
        It takes positions as they are given, not wrapped: keep the points of a body together where
        it crosses a face. Periodic only if the sum of q.n is zero. Default: zero, with a warning if
        sources are outside of the box. See ``docs/gauges.md``.
    exclude_image : {"nearest", "given"}, optional
        Which image of a pair ``exclude`` leaves out: the nearest one, as of molecules whose points
        may be wrapped, or the one at the positions given, as of bodies whose points are together. A
        body that is longer than half a period needs "given". Default: nearest, with a warning where
        the points of a label are on more than half of a period.
    wall : {"no-slip", "metal"} or float, or a pair of these and None, optional
        A plane without slip at x3 = 0, normal to the last axis, which is free: points are at or
        above it, up to the length of the box. For sums of Stokes flow that are not
        regularised, and for `parki.Spheres`. Its promise is larger than that of ``tolerance``, by
        the heights of the points: see ``docs/gauges.md``. A pair is the lower and the upper wall:
        with ``("no-slip", "no-slip")``, two periodic axes and the third length of the box for
        their distance, the points are between two such planes. ``("no-slip", None)`` is one.
        For `laplace`, `laplace_dipole` and `parki.energy` a wall is "metal" at the potential 0, or
        the image factor ``(e1 - e2) / (e1 + e2)`` of a dielectric beyond it, with the permittivity
        e2 there and e1 where the charges are. See ``docs/charges.md``.
    mean_flow : {"no-gradient", "no-flux"}, or one for each periodic axis, optional
        Between two walls: whether the fluid has no mean pressure gradient along them, or no net
        flux. Default: no gradient.
    voltage : float, optional
        Between two plates of metal: the potential of the upper one, while the lower one is at 0.
    deterministic : bool
        The same result every time, bit for bit, for the same points in the same order: devices
        share crowded places among fewer teams, and parameters are chosen by built-in numbers,
        whatever `parki tune` measured and however many threads there are. See
        ``docs/accuracy.md``.
    expert : Expert
        What only who studies the method chooses: see `parki.Expert`.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If a value is impossible; the message names it and what was expected.
    """

    periodicity: Periodicity = 3
    # Not None once it is checked.
    box: Box = None  # type: ignore[assignment]
    tolerance: float = 1e-6
    _: KW_ONLY
    densities: Densities = "random"
    precision: Precision = "full"
    execution_space: SpaceName | ExecutionSpace | None = None
    cutoff: float | None = None
    dl_mean: Mean | None = None
    exclude_image: ExcludeImage | None = None
    wall: Walls = None
    mean_flow: MeanFlow | tuple[MeanFlow, MeanFlow] | None = None
    voltage: float | None = None
    deterministic: bool = False
    expert: Expert = USUAL

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        object.__setattr__(self, "periodicity", checked_periodicity(self.periodicity))
        object.__setattr__(self, "box", checked_box(self.box, self.periodicity, self.periodic))
        set_positive(self, "tolerance", "the bound of the error, such as 1e-6")
        if self.tolerance > LARGEST_TOLERANCE:
            tolerance, most = told_apart(self.tolerance, LARGEST_TOLERANCE)
            raise ParkiValueError(f"tolerance is {tolerance}; expected at most {most}")
        if self.cutoff is not None:
            set_positive(self, "cutoff", "the cut-off of the near field in the unit of box")
        object.__setattr__(self, "wall", checked_walls(self.wall))
        for name, choices in CHOICES.items():
            if name not in ("dl_mean", "exclude_image") or getattr(self, name) is not None:
                require_one_of(self, name, choices)
        if not isinstance(self.deterministic, (bool, np.bool_)):
            raise ParkiTypeError(f"deterministic is {self.deterministic!r}; expected True or False")
        check_expert(self.expert)
        self.expert.check(self.cutoff, self.precision == "mixed", bool(self.deterministic))
        if self.cell is not None:
            self._check_tilted()
        if self.dl_mean == "flux" and not all(self.periodic):
            raise ParkiValueError(
                f"dl_mean is 'flux', but periodicity is {self.periodicity}; only sums over three "
                "periodic directions leave the mean open"
            )
        if self.wall is not None and self.periodic[2]:
            raise ParkiValueError(
                f"wall is {self.wall!r}, but periodicity is {self.periodicity}; a wall is normal "
                "to the last axis, which must be free: choose periodicity 0, 1 or 2"
            )
        object.__setattr__(self, "mean_flow", checked_mean_flow(self.mean_flow, self.wall))
        object.__setattr__(self, "voltage", checked_voltage(self.voltage, self.wall))
        if isinstance(self.wall, tuple):
            check_between(self.wall, self.periodicity, self.box)
        if self.execution_space is not None:
            space_name(self.execution_space)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a field of `expert` by its name before version 0.3."""
            return of_expert(self, name)

    def __dir__(self) -> list[str]:
        """Return the names that completion shows."""
        return dir(type(self))

    def _repr_html_(self) -> str:
        """Return box, periodicity, tolerance and all that differs from the defaults as a table."""
        usual = type(self)(self.periodicity, self.box, self.tolerance)
        shown, rows = ("periodicity", "box", "tolerance"), {}
        for options, default in ((self, usual), (self.expert, usual.expert)):
            for field in fields(options):
                name, value = field.name, getattr(options, field.name)
                if name in shown or (name != "expert" and value != getattr(default, name)):
                    rows[name] = str(value)
        rows["box"] = str(self.box)
        if self.cell is None:
            rows["box"] = " x ".join("free" if b is None else f"{b:g}" for b in self.box)
        return table("EwaldOptions", rows)

    def of_call(self) -> EwaldOptions:
        """Return the options of one call, for which a tensor that was given as box is read again.

        Only a box that has derivatives keeps the tensor.
        """
        if not isinstance(self.box, Varied):
            return self
        tensor = varied(self.box)
        box = values_of("box", self.box.tensor) if tensor is None else tensor
        return replace(self, box=box)

    def deformed(self, box: Any) -> EwaldOptions:
        """Return the options with another box.

        With two or three periodic axes it counts as tilted, even if it is straight.
        """
        refuse_variable("box", box)
        rows, tilts = lengths_of(box, self.periodicity, self.periodic), sum(self.periodic) > 1
        if tilts and rows_of(rows) is None:
            rows = tuple(None if b is None else tuple(b * np.eye(3)[n]) for n, b in enumerate(rows))
        if [row is None for row in rows] != [row is None for row in self.box]:
            raise ParkiValueError(
                f"box is {box!r}, but the plan's box is {self.box!r}; expected None for the same "
                "axes, along which the box is the extent of the plan's first points"
            )
        other = self._in(Moving(rows) if tilts else rows)
        other._check_tilted()
        if other.gap != self.gap:
            raise ParkiValueError(
                f"box is {box!r}, whose walls are {other.gap:g} apart, but those of the plan are "
                f"{self.gap:g} apart; keep the third length, or make a new plan"
            )
        return other

    def within(self, box: Any) -> EwaldOptions:
        """Return the options of a system in a box of its own, which is a tuple."""
        return _within(self, box)

    def standing(self, length: float, along_free: Sequence[float | None]) -> EwaldOptions:
        """Return the options of systems in boxes of their own, of about this length.

        Lengths ``along_free`` axes may be None, as for `box`. The boxes have warned of images.
        """
        edge = 2.0 ** round(math.log2(length))
        pairs = zip(self.periodic, along_free, strict=True)
        lengths = [edge if repeats else other for repeats, other in pairs]
        rows = zip(lengths, np.eye(3).tolist(), strict=True)
        box = [None if size is None else tuple(size * x for x in row) for size, row in rows]
        options = self._in(Standing(box))
        object.__setattr__(options, "dl_mean", self.dl_mean or "zero")
        return _as_before(options)

    @cached_property
    def walled(self) -> bool:
        """Whether sums are composites, of sources and of their images behind a wall."""
        return self.wall is not None

    @cached_property
    def gap(self) -> float | None:
        """The distance of two walls; None if there are no two."""
        return self.edges[2] if isinstance(self.wall, tuple) else None

    @cached_property
    def image_factors(self) -> tuple[float, ...]:
        """The image factor of each wall for charges, -1 of metal; none of other walls."""
        return image_factors(self.wall)

    @property
    def plates(self) -> bool:
        """Whether there are two plates of metal, whose images a period has."""
        return self.image_factors == (METAL, METAL)

    @property
    def corrected(self) -> bool:
        """Whether images in two walls leave a correction."""
        return self.gap is not None and not self.plates

    @property
    def neutral(self) -> bool:
        """Whether charges have to add up to zero: nothing but dielectrics bounds their field."""
        return bool(self.image_factors) and METAL not in self.image_factors and any(self.periodic)

    @property
    def slope(self) -> float:
        """The slope of the potential that a voltage makes."""
        return (self.voltage or 0.0) / self.gap if self.gap is not None else 0.0

    def images_below(self, of_sources: Any) -> bool:
        """Return whether all sources, of these smallest and largest coordinates, are images."""
        return False

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        """Refuse a tolerance or a window that ``dtype`` cannot hold.

        Raises
        ------
        ParkiValueError
        """
        if self.precision == "mixed" and dtype == np.float32:
            raise ParkiValueError(
                "precision is 'mixed', but the arrays have dtype float32, whose sums are in single "
                "precision anyway; leave precision to 'full', or pass float64 arrays"
            )
        real = self.arithmetic(dtype)
        smallest, most = SMALLEST_TOLERANCE[real], MOST_POINTS[real]
        holder = real if real == dtype else "mixed precision"
        if self.tolerance < smallest:
            remedy = "pass float64 arrays, or " if dtype == np.float32 else ""
            if real != dtype:
                remedy = "leave precision to 'full', or "
            tolerance, least = told_apart(self.tolerance, smallest)
            raise ParkiValueError(
                f"tolerance is {tolerance}, but {holder} holds {least} at best; {remedy}raise the "
                "tolerance"
            )
        if self.expert.window_points is not None and self.expert.window_points > most:
            raise ParkiValueError(
                f"window_points is {self.expert.window_points}; {holder} holds at most {most}: "
                "wider windows amplify rounding"
            )

    @cached_property
    def of_derivatives(self) -> EwaldOptions:
        """The options of derivatives.

        The sum itself has warned about `dl_mean`.
        """
        mean = self.dl_mean or "zero"
        return replace(self, expert=self.expert.of_derivatives(), dl_mean=mean)

    def looser(self, times: float) -> EwaldOptions:
        """Return options with a tolerance that is larger by a factor, up to the largest."""
        return replace(self, tolerance=self.larger_tolerance(times))

    def larger_tolerance(self, times: float) -> float:
        """Return a tolerance as many times larger, as far as there is such a one."""
        return max(self.tolerance, min(self.tolerance * times, LARGEST_TOLERANCE))

    def arithmetic(self, dtype: DTypeLike) -> np.dtype[Any]:
        """Return the dtype of the arithmetic for arrays of ``dtype``."""
        return np.dtype(np.float32 if self.precision == "mixed" else dtype)

    def random_tolerance(self, sources: int, components: int, dtype: np.dtype[Any]) -> float:
        """Return the tolerance of random densities by which all ``densities`` keep the promise.

        The promise is one of the mean square over random densities, which is the squared Frobenius
        norm of the error's matrix over ``sources * components``. That norm bounds the error of any
        density, by the inequality of Cauchy and Schwarz.

        Parameters
        ----------
        sources : int
        components : int
            Of one source.
        dtype : dtype

        Raises
        ------
        ParkiValueError
            If ``dtype`` cannot hold it.
        """
        if self.densities == "random":
            return self.tolerance
        ratio = math.sqrt(max(1, sources) * components)
        smallest = SMALLEST_TOLERANCE[np.dtype(dtype)]
        if self.tolerance < smallest * ratio:
            remedy = "pass float64 arrays, " if dtype == np.float32 else ""
            raise ParkiValueError(
                f"tolerance is {self.tolerance:g} for densities='any', which takes one of "
                f"{self.tolerance / ratio:.1e} for random densities of {sources} sources, but "
                f"{np.dtype(dtype)} holds {smallest:g} at best; {remedy}raise the tolerance to "
                f"{1.05 * smallest * ratio:.1e}, or leave densities to 'random'"
            )
        return self.tolerance / ratio

    def windows(self, dtype: DTypeLike) -> tuple[int, ...]:
        """Return the window points to choose from: those asked for, or all that dtype holds."""
        if self.expert.window_points is not None:
            return (self.expert.window_points,)
        return tuple(range(2, MOST_POINTS[np.dtype(dtype)] + 1))


@lru_cache(maxsize=256)
def _within(options: EwaldOptions, box: Any) -> EwaldOptions:
    """Return options in another box: the same ones again, with what follows from that box."""
    other = options._in(checked_box(box, options.periodicity, options.periodic))
    if other.cell is not None:
        other._check_tilted()
    return other


@lru_cache(maxsize=64)
def _as_before(options: EwaldOptions) -> EwaldOptions:
    """Return equal options of before, for which the cell and others are made."""
    return options


EwaldOptions.__init__ = understanding(EwaldOptions.__init__)  # type: ignore[method-assign]
