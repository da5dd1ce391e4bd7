"""`PlacedSpheres`: where spheres are, and the plans of what moves by what, which move with them.

What is made of the plans, such as velocities and noise, is in `parki.suspensions.spheres`.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from parki.core import AnyPlan, EwaldOptions, as_points, like_points, summed, take_options
from parki.errors import ParkiTypeError, ParkiValueError, by_words
from parki.interchange import library_of, unchanged
from parki.memory import telling
from parki.suspensions import derivatives, noise, wall
from parki.suspensions.derivatives import ACTS
from parki.suspensions.fluid import InFluid
from parki.suspensions.noise import Couplets
from parki.suspensions.radii import KINDS, Radii
from parki.typing import Array, Box, OptionKeywords, Unpack

MOST_BOXES = 1e8  # radii over the longest edge of the box

ALL = "all", "all"  # what moves by what, in the sum of forces and couplets

# What sums call them.
WORDS = {"trg": "points", "src": "centres", "dens": "forces or torques"}
WORDS |= {"the plan was": "they were", "a new plan": "new spheres", "the plan's": "their"}

Method = TypeVar("Method", bound=Callable[..., Any])


def alone(method: Method) -> Method:
    """Let one thread after the other do what takes several sums, at the same points."""

    @functools.wraps(method)
    def call(self: Any, *given: Any, **keywords: Any) -> Any:
        with by_words(WORDS), self._first.alone():
            return method(self, *given, **keywords)

    return cast(Method, call)


class Attached(NamedTuple):
    """What moves with the spheres.

    Attributes
    ----------
    back : callable
        To the library of the points.
    on_top : object
        What a room on top has at these points, such as bodies that are made of them.
    """

    back: Callable[[Any], Any]
    on_top: Any = None


@telling
class PlacedSpheres(InFluid):
    """The points of spheres, their radii, and their plans: see `Spheres` for the arguments."""

    _made_of = "points, radii, options and viscosity"

    def __init__(
        self,
        points: Array,
        radii: Any,
        options: EwaldOptions | None = None,
        *,
        viscosity: float = 1.0,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        with self._together("Spheres"):
            _, given = take_options(None, options, keywords, also=("radii", "viscosity"))
            array = as_points("points", points)
            self._shape = tuple(array.shape)
            self._begin(array, given, Attached(library_of(points)))
            self._sizes = Radii.of(radii, self._shape[1], self._of_all)
        self.viscosity = viscosity
        self._products = noise.FIRST  # which the last noise took
        with self._together("radii"):
            self._check_radii()
        with by_words(WORDS):
            self._plan("velocity", "force")  # refuses impossible points
        with self._together("heights"):
            self._check_heights(self._points)

    def _begin(self, points: Any, options: EwaldOptions, attached: Attached) -> None:
        """Begin with points by options, without plans."""
        # Until there is a plan, which has them then.
        self._start: Any = points, options, attached
        self._plans: dict[tuple[str, str], Any] = {}
        self._turns: Couplets | None = None  # for noise of torques
        self._shifted: PlacedSpheres | None = None  # for `wall.divergence`
        self._shifting = threading.RLock()

    def _twin(self, points: Any, options: EwaldOptions) -> PlacedSpheres:
        """Return the same spheres elsewhere, whose plans are their own and not made yet."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other._begin(points, options, self._attached)
        return other

    @alone
    def __copy__(self) -> Any:
        return self._twin(self._points, self._options)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    @property
    def _first(self) -> Any:
        """The plan of velocities by forces, whose points all plans have."""
        return self._plan("velocity", "force")

    @property
    def _points(self) -> Any:
        """The centres, which nobody else changes."""
        return self._first.points.arrays["trg"] if self._start is None else self._start[0]

    @property
    def _options(self) -> EwaldOptions:
        options: EwaldOptions = self._first.options if self._start is None else self._start[1]
        return options

    @property
    def _attached(self) -> Attached:
        attached: Attached = self._first.attached if self._start is None else self._start[2]
        return attached

    @property
    def _back(self) -> Callable[[Any], Any]:
        return self._attached.back

    # ------------------------------------------------------------------ attributes
    @property
    def points(self) -> Any:
        """The centres, shape (3, N)."""
        if not isinstance(self._points, np.ndarray) or self._back is not unchanged:
            return self._back(self._points.copy())
        view = self._points.view()
        view.flags.writeable = False
        return view

    @points.setter
    def points(self, points: Array) -> None:
        self.update_points(points)

    @property
    def radii(self) -> Any:
        """The radius of each sphere, shape (N,)."""
        return self._sizes.each

    @radii.setter
    def radii(self, _: Any) -> None:
        raise _fixed("radii", "make new Spheres of other radii")

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        return self._options

    @options.setter
    def options(self, _: Any) -> None:
        raise _fixed("options", "make new Spheres, or call update_points(points, box=...)")

    def _check_heights(self, points: Any) -> None:
        if self._options.walled:
            wall.check_heights(points, self.radii)

    def _check_radii(self) -> None:
        """Refuse radii that the box is a point of, or whose third powers are no numbers."""
        dtype, box = self._points.dtype, self._options.edges
        sizes = self.radii[self.radii > 0]
        if not sizes.size:
            return
        with np.errstate(invalid="ignore", over="ignore"):  # the plan refuses such points
            longest = float(max(row.max() - row.min() for row in self._points))
        if not math.isfinite(longest):
            return
        longest = max([longest or 1.0, *(edge for edge in box if edge is not None)])
        numbers = np.finfo(dtype)
        least, most = (float(end) ** (1 / 3) for end in (numbers.tiny, numbers.max / 1000))
        least, most = max(1.0, longest) * least, min(most, MOST_BOXES * longest)
        for size in (sizes.min(), sizes.max()):
            if not least <= size <= most:
                raise ParkiValueError(
                    f"radii has {size:g}, but spheres in this box have radii of {least:.2g} to "
                    f"{most:.2g} in {dtype}; give 0 for a tracer"
                )

    def _plan(self, moves: str, acts: str) -> Any:
        """Return the plan of what moves by what acts."""
        key = moves, acts
        if key not in self._plans:
            kernel = self._sizes.kernels[key]
            if self._plans:
                self._plans[key] = self._first.beside(kernel)
            else:
                points, options, attached = self._start
                radii = self._sizes.marks
                plan: Any = AnyPlan(self._ranks, kernel, points, points, radii, options)
                plan.attach(attached)
                self._plans[key] = plan
                self._start = None
        return self._plans[key]

    def _given(self, moves: str, acts: str) -> tuple[Any, ...]:
        """Return the kernel of such a plan, its targets, sources, marks and options."""
        sizes, points = self._sizes, self._points
        return sizes.kernels[moves, acts], points, points, sizes.marks, self._options

    def _turning(self) -> Couplets:
        """Return the near field and the grid of noise with torques."""
        if self._turns is None:
            plan = self._plans[ALL] = self._first.beside(self._sizes.couplets, noise.WANT)
            self._turns = Couplets(plan)
        return self._turns

    def _of_all(self, values: Any) -> Any:
        """Return radii of all ranks: near a wall all of them, else the smallest and largest."""
        own = np.unique(values)
        told = self._ranks.allgather(own if self._options.walled else own[[0, -1][: own.size]])
        return np.concatenate(told)

    def _white(self, rng: Any) -> noise.White:
        return noise.white(rng, self._plan("velocity", "force").dtype)

    def update_points(self, points: Array, *, box: Box | None = None) -> None:
        """Move the spheres, each of which keeps its radius.

        Parameters
        ----------
        points : array, shape (3, N)
        box : array, shape (3, 3), or 3 lengths
            The present box: see `parki.Plan.update_points`. Default: as before.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If there are more or fewer points, or they are impossible.
        """
        self._update(points, box)

    @alone
    def _update(self, points: Array, box: Any, on_top: Any = None) -> None:
        """Do what `update_points` does, with what a room on top has at these points."""
        with self._together("update_points" + " and box" * (box is not None)):
            given: Any = as_points("points", points)
            if given.shape != self._shape:
                raise ParkiValueError(
                    f"points has shape {given.shape}; expected {self._shape}, a centre for "
                    "each of the spheres; make new Spheres for another number"
                )
            self._check_heights(given)
        self._move(given, box, Attached(library_of(points), on_top))

    def _move(self, points: Any, box: Any = None, attached: Attached | None = None) -> None:
        """Move all plans, and what is attached to them, to points that were checked."""
        self._first.place(points, points, None, attached or self._attached, box)

    # ------------------------------------------------------------------ products
    def _taken(self, **given: Any) -> dict[str, Any]:
        """Return the arrays that are not None, by what acts: first "force", then "torque".

        On all ranks, refuse nothing at all, and impossible arrays.
        """
        names = [name for name, each in given.items() if each is not None]
        with self._together(" and ".join(names)):
            derivatives.refuse_none(given, given.values())
            plan, arrays = self._plan("velocity", "force"), {}
            for acts, (name, each) in zip(ACTS, given.items(), strict=False):
                if each is not None:
                    arrays[acts] = like_points(name, each, plan.space, plan.dtype)
                    derivatives.check_shape(name, arrays[acts], self._shape)
            derivatives.check_alike(given, *arrays.values())
        return arrays

    def _motions(
        self, given: dict[str, Any], moves: Iterable[str], own: bool = False
    ) -> tuple[Any, ...]:
        """Return velocities, or turns, or both, by what acts, by name."""
        return tuple(self._moved(each, given, own) for each in moves)

    def _moved(self, moves: str, given: dict[str, Any], own: bool = False) -> Any:
        """Return velocities or turns by what acts, by name; ``own`` arrays are not checked."""
        first, *others = self._parts(moves, given, own=own)
        for each in others:
            first += each
        return first

    def _parts(
        self, moves: str, given: dict[str, Any], want: str = "u", own: bool = False
    ) -> Iterator[Any]:
        """Yield the parts of each sphere's velocity that forces and torques make.

        ``want`` may be "grad_u": then it is the gradient (..., 3, 3, N) by their own positions.
        """
        for acts, values in given.items():
            if want == "u":
                plan = self._plan(moves, acts)
                each = plan.product(values) if own else plan(values)
            else:
                kernel, trg, src, radii, options = self._given(moves, acts)
                options = options.of_derivatives()
                each = summed(
                    kernel, trg, src, values, radii, options, want=want, ranks=self._ranks
                )
            each *= each.dtype.type(KINDS[moves, acts][2] * self.factor)
            yield each


def _fixed(name: str, remedy: str) -> ParkiTypeError:
    """Return the error of an attribute that was assigned to."""
    return ParkiTypeError(f"{name} of Spheres cannot be changed; {remedy}")
