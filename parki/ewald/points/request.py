"""`SumRequest`: what a plan sums, one sum or a composite, and the shapes of its arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.geometry.systems import Labels, Systems, check_labels
from parki.ewald.options import EwaldOptions
from parki.ewald.points.cloud import Cloud, take_cloud
from parki.ewald.points.values import (
    check_density,
    check_names,
    check_want,
    like_points,
    result_rows,
    result_shape,
)
from parki.ewald.sums import SUMS, sum_of
from parki.ewald.sums.composite import Composite, check_composite
from parki.ewald.sums.maps import Arrays, Map, check_made, velocity, weights
from parki.ewald.sums.results import of_one, of_result
from parki.ewald.sums.walls import near_wall
from parki.runtime import ExecutionSpace
from parki.runtime.forks import cached_property
from parki.typing import AnyArray, OfPoints


@dataclass(frozen=True, eq=False)
class SumRequest:
    """What a plan sums, or takes derivatives of.

    Attributes
    ----------
    kernel : str or Composite
        As it was given, a name as all its names are written.
    want : str or tuple of str
    density : tuple of int
        Shape of a density for one source.
    results : dict
        Shape of each result for one target.
    composites : tuple of Composite
        For each result, if there is not one sum of this name that has them all.
    """

    kernel: str | Composite
    want: str | tuple[str, ...]
    density: tuple[int, ...]
    results: dict[str, tuple[int, ...]]
    composites: tuple[Composite, ...] = ()

    @classmethod
    def of(
        cls, kernel: Any, want: Any, options: EwaldOptions, by: Iterable[str] = ()
    ) -> SumRequest:
        """Return the sum that is asked for; refuse sums and results that parki does not have.

        ``by`` are the inputs of derivatives, if it is for these: see `near_wall`.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        if options.walled:
            names, up = check_names(want), options.axes.index(2)
            gap, factors = options.gap, options.image_factors
            parts = tuple(
                near_wall(kernel, options.wall, n, up=up, by=by, gap=gap, factors=factors)
                for n in names
            )
        elif isinstance(kernel, Composite):
            check_composite(kernel)
            names = check_names(want)
            parts = tuple(of_result(kernel, n) for n in names)
        else:
            kind = sum_of(kernel)
            kernel, names = kind.name, check_want(kind.name, want)
            parts = ()
            if kind.pressure and not {"p", "stress"}.isdisjoint(names):  # of other sums
                parts = tuple(of_result(of_one(kind), n) for n in names)
        want = want if isinstance(want, str) else names
        if parts:
            results = {name: part.result for name, part in zip(names, parts, strict=True)}
            return cls(kernel, want, parts[0].density, results, parts)
        return _of_one_sum(kernel, want, names)

    @cached_property
    def parts(self) -> tuple[Composite, ...]:
        """A composite for each result, also of one sum."""
        if self.composites:
            return self.composites
        one = of_one(SUMS[str(self.kernel)])
        return tuple(of_result(one, name) for name in self.results)

    @cached_property
    def whole(self) -> Composite:
        """The composite that has all results, also of one sum."""
        return _of_all((*self.results,), self.parts)

    @property
    def composite(self) -> Composite | None:
        """The composite that has all results; None if it is the one sum of this name."""
        return self.whole if self.composites else None

    @property
    def name(self) -> str:
        """The name of the sum."""
        return self.whole.name if self.composites else str(self.kernel)

    @property
    def widths(self) -> bool:
        """Whether points have widths of their own."""
        return not self.composites and bool(SUMS[self.name].quadrupoles)

    @property
    def near(self) -> dict[str, tuple[str, str]]:
        """For each result the sum near walls, and what is wanted of it; empty without walls."""
        pairs = zip(self.results, self.composites, strict=False)
        return {name: part.near for name, part in pairs if part.near is not None}

    def cloud(
        self,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray,
        options: EwaldOptions,
        *,
        systems: Systems | OfPoints | None = None,
        exclude: Labels | OfPoints | None = None,
        space: ExecutionSpace | None = None,
    ) -> Cloud:
        """Return the points of all sums, of which no values were looked at: see `take_cloud`.

        Maps of a user's composite may take normals that none of its sums has.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        kernel, alone = self._of_points
        norms_of_cloud = None if alone else norms
        cloud = take_cloud(kernel, trg, src, norms_of_cloud, options, systems=systems, space=space)
        if norms is not None and alone:
            like = like_points("norms", norms, cloud.space, cloud.src.dtype)
            cloud.arrays["norms"] = check_density("norms", like, cloud.src.shape)
        return cloud if exclude is None else replace(cloud, labels=self._labels(exclude, cloud))

    @cached_property
    def _of_points(self) -> tuple[str, bool]:
        """The sum that says which points there are, and whether maps alone take normals."""
        if not self.composites:
            return str(self.kernel), False
        kernels = [each.kernel for each in self.whole.addends]
        first = next((name for name in kernels if SUMS[name].normals), kernels[0])
        alone = isinstance(self.kernel, Composite) and SUMS[first].pair.point_radii is None
        return first, alone and not SUMS[first].normals

    def _labels(self, exclude: Labels | OfPoints | None, cloud: Cloud) -> Labels | None:
        """Return the labels that were given: see `check_labels`."""
        kernels = self.whole.labelled
        if not kernels:
            raise ParkiValueError(
                f"exclude was given, but {self.name} moves all sources, and pairs are left out of "
                "sums of sources where they are; leave exclude out"
            )
        points = all(SUMS[kernel].pair.of_points for kernel in kernels)
        return check_labels(exclude, self.name, points, cloud.arrays, cloud.options, cloud.systems)

    def check_maps(self, cloud: Cloud) -> None:
        """Refuse maps of a user's composite that make impossible values: see `check_maps`."""
        takes_maps = isinstance(self.kernel, Composite) and not self.kernel.near
        for part in self.parts if takes_maps else ():
            check_maps(part, cloud.trg, {"points": cloud.src, "norms": cloud.norms})


@lru_cache(maxsize=64)
def _of_one_sum(kernel: str, want: str | tuple[str, ...], names: tuple[str, ...]) -> SumRequest:
    results = {name: result_shape(kernel, name, 1)[:-1] for name in names}
    return SumRequest(kernel, want, SUMS[kernel].density, results)


def check_maps(composite: Composite, trg: AnyArray, cloud: Arrays) -> None:
    """Refuse maps that do not make finite rows, of the right number, for each point.

    Maps of densities and of results are linear: what they make of ones says what they make of all.

    Parameters
    ----------
    composite : Composite
    trg : array, shape (3, Nt)
    cloud : dict of arrays
        "points", shape (3, Ns), and "norms", of the same shape or None.

    Raises
    ------
    ParkiValueError
    """
    inputs = {"dens": math.prod(composite.density)}
    for addend in composite.addends:
        kind, purpose = sum_of(addend.kernel), f"for {addend.kernel}"
        check_want(addend.kernel, addend.want)
        count = cloud["points"].shape[1]
        with np.errstate(all="ignore"):
            for name, function, values in (
                (f"sources {purpose}", addend.sources, cloud["points"]),
                (f"normals {purpose}", addend.normals if kind.normals else None, cloud["norms"]),
            ):
                if function is not None:
                    check_made(name, function, function(values, cloud), (3, count))
            if addend.density is not None or [*inputs.values()] != [kind.rows]:
                density = addend.density or itself
                columns = weights(partial(_of_density, density), inputs, cloud)
                for column in columns["dens"]:
                    check_made(f"a density {purpose}", density, column, (kind.rows, count))
            if addend.results is not velocity or kind.results != math.prod(composite.result):
                sizes = {name: result_rows(addend.kernel, name) for name in addend.want}
                shape = math.prod(composite.result), trg.shape[1]
                for columns in weights(addend.results, sizes, {"points": trg}).values():
                    for column in columns:
                        check_made(f"a result of {addend.kernel}", addend.results, column, shape)


def itself(values: AnyArray, _: Arrays) -> Any:
    """Return values, as None does in the place of a map."""
    return values


def _of_density(function: Map, inputs: Arrays, cloud: Arrays) -> Any:
    return function(inputs["dens"], cloud)


def _of_all(names: tuple[str, ...], parts: tuple[Composite, ...]) -> Composite:
    """Return the composite of several results, whose addends say which one they are of."""
    first = parts[0]
    if names == ("u",):
        return first
    addends = tuple(
        replace(addend, of=name)
        for name, part in zip(names, parts, strict=True)
        for addend in part.addends
    )
    scales = tuple(dict.fromkeys(scale for part in parts for scale in part.scales))
    name = ", ".join(part.name for part in parts)
    return replace(first, name=name, addends=addends, scales=scales, transposed=None)
