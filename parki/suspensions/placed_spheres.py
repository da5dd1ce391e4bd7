"""`PlacedSpheres`: where spheres are, and which ones may be there.

How they move is in `parki.suspensions.mobility`, and in units of users in `spheres`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from parki.core import EwaldOptions, Ranks, as_points, like_points, take_options
from parki.errors import ParkiTypeError, ParkiValueError, by_words
from parki.interchange import library_of, unchanged
from parki.memory import telling
from parki.suspensions import derivatives, noise, wall
from parki.suspensions.fluid import Attached, InFluid, new_centres
from parki.suspensions.mobility import SphereMobility
from parki.suspensions.radii import ACTS, Radii
from parki.typing import AnyArray, Array, Box, OptionKeywords, Seed, Unpack

MOST_BOXES = 1e8  # radii over the longest edge of the box

# What sums call them.
WORDS = {"trg": "points", "src": "centres", "dens": "forces or torques"}
WORDS |= {"the plan was": "they were", "a new plan": "new spheres", "the plan's": "their"}

Method = TypeVar("Method", bound=Callable[..., Any])


def alone(method: Method) -> Method:
    """Let one thread after the other do what takes several sums, at the same points."""

    @functools.wraps(method)
    def call(self: Any, *values: Any, **keywords: Any) -> Any:
        with by_words(WORDS), self._first.alone():
            return method(self, *values, **keywords)

    return cast(Method, call)


@telling
class PlacedSpheres(InFluid):
    """The points of spheres, their radii, and their plans: see `Spheres` for the arguments."""

    _made_of = "points, radii, options and viscosity"
    _mobility: SphereMobility

    def __init__(
        self,
        points: Array,
        radii: AnyArray,
        options: EwaldOptions | None = None,
        *,
        viscosity: float = 1.0,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        with self._together("Spheres"):
            _, checked = take_options(None, options, keywords, also=("radii", "viscosity"))
            array = as_points("points", points)
            sizes = Radii.of(radii, array.shape[1], partial(_radii_of_all, self._ranks, checked))
            attached = Attached(library_of(points))
            self._mobility = SphereMobility(array, sizes, checked, self._ranks, attached)
        self.viscosity = viscosity
        with self._together("radii"):
            self._check_radii()
        with by_words(WORDS):
            self._mobility.plan("velocity", "force")  # refuses impossible points
        with self._together("heights"):
            self._check_heights(self._mobility.points)

    @alone
    def __copy__(self) -> Any:
        mobility = self._mobility
        return self._with(_mobility=mobility.elsewhere(mobility.points, mobility.options))

    def _arguments(self) -> Any:
        if not self._ranks.serial:
            return None
        return (self.points, self.radii, self.options), {"viscosity": self.viscosity}

    # ------------------------------------------------------------------ attributes
    @property
    def points(self) -> Any:
        """The centres, shape (3, N)."""
        points = self._mobility.points
        if not isinstance(points, np.ndarray) or self._back is not unchanged:
            return self._back(points.copy())
        view = points.view()
        view.flags.writeable = False
        return view

    @points.setter
    def points(self, points: Array) -> None:
        self.update_points(points)

    @property
    def radii(self) -> Any:
        """The radius of each sphere, shape (N,)."""
        return self._mobility.sizes.each

    @radii.setter
    def radii(self, _: Any) -> None:
        raise _fixed("radii", "make new Spheres of other radii")

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        return self._mobility.options

    @options.setter
    def options(self, _: Any) -> None:
        raise _fixed("options", "make new Spheres, or call update_points(points, box=...)")

    def _check_heights(self, points: AnyArray) -> None:
        if self.options.walled:
            wall.check_heights(points, self.radii, self.options.gap)

    def _check_radii(self) -> None:
        """Refuse radii that the box is a point of, or whose third powers are no numbers."""
        points, box = self._mobility.points, self.options.edges
        sizes = self.radii[self.radii > 0]
        if not sizes.size:
            return
        with np.errstate(invalid="ignore", over="ignore"):  # the plan refuses such points
            longest = float(max(row.max() - row.min() for row in points))
        if not math.isfinite(longest):
            return
        longest = max([longest or 1.0, *(edge for edge in box if edge is not None)])
        numbers = np.finfo(points.dtype)
        least, most = (float(end) ** (1 / 3) for end in (numbers.tiny, numbers.max / 1000))
        least, most = max(1.0, longest) * least, min(most, MOST_BOXES * longest)
        for size in (sizes.min(), sizes.max()):
            if not least <= size <= most:
                raise ParkiValueError(
                    f"radii has {size:g}, but spheres in this box have radii of {least:.2g} to "
                    f"{most:.2g} in {points.dtype}; give 0 for a tracer"
                )

    def _white(self, rng: Seed) -> noise.White:
        return noise.standard_normal(rng, self._first.dtype)

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
            centres = new_centres(points, self._mobility.shape, "Spheres")
            self._check_heights(centres)
        self._mobility.move(centres, box, Attached(library_of(points), on_top))

    def _taken(self, **values: Any) -> dict[str, Any]:
        """Return the arrays that are not None, by what acts: first "force", then "torque".

        On all ranks, refuse nothing at all, and impossible arrays.
        """
        names = [name for name, each in values.items() if each is not None]
        with self._together(" and ".join(names)):
            derivatives.refuse_none(values, values.values())
            plan, arrays = self._first, {}
            for acts, (name, each) in zip(ACTS, values.items(), strict=False):
                if each is not None:
                    arrays[acts] = like_points(name, each, plan.space, plan.dtype)
                    derivatives.check_shape(name, arrays[acts], self._mobility.shape)
            derivatives.check_alike(values, arrays.values())
        return arrays


def _radii_of_all(ranks: Ranks, options: EwaldOptions, radii: AnyArray) -> Any:
    """Return radii of all ranks: near a wall all of them, else the smallest and largest."""
    sizes = np.unique(radii)
    told = ranks.allgather(sizes if options.walled else sizes[[0, -1][: sizes.size]])
    return np.concatenate(told)


def _fixed(name: str, remedy: str) -> ParkiTypeError:
    """Return the error of an attribute that was assigned to."""
    return ParkiTypeError(f"{name} of Spheres cannot be changed; {remedy}")
