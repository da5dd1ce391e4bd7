"""`Cloud`: targets and sources with all that belongs to them, from the boundary to the stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.geometry.axes import AxisPermutation
from parki.ewald.geometry.boxes import extents_of
from parki.ewald.geometry.systems import Labels, Systems, check_labels, check_systems
from parki.ewald.lattice import Lattice
from parki.ewald.options import EwaldOptions
from parki.ewald.points.arguments import (
    check_dtypes,
    check_extent,
    check_normals,
    check_options,
    check_shape,
)
from parki.ewald.points.values import as_rows, check_finite, check_single, extremes
from parki.ewald.sums import sum_of
from parki.interchange import as_array, check_space
from parki.meaning import varied
from parki.runtime import ExecutionSpace, get_execution_space
from parki.runtime.forks import cached_property
from parki.typing import AnyArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Cloud:
    """Targets and sources, and all that belongs to them.

    Attributes
    ----------
    arrays : dict
        "trg" and "src", shape (3, N), one array if the targets are the sources; "norms" of
        sources, "tensors" of targets; and radii, shape (1, N), "trg_radii" and "src_radii".
    space : ExecutionSpace
        Where the arrays are.
    options : EwaldOptions
        With the present box.
    systems : Systems or None
        Which targets and sources belong together; None if all do.
    labels : Labels or None
        Labels of the points, if pairs are left out.
    extents : ndarray, shape (n, 3), or None
        Smallest and largest coordinates of this rank's clouds that are not empty; None until the
        values were looked at, by `checked`.
    borrowed : bool
        Whether the arrays are the user's, who may change them.
    images : bool
        Whether the sources are the targets' own images in walls without slip, perhaps beside the
        targets. A source is a target, or across a wall.
    """

    arrays: dict[str, Any]
    space: ExecutionSpace
    options: EwaldOptions
    systems: Systems | None = None
    labels: Labels | None = None
    extents: Any = None
    borrowed: bool = True
    images: bool = False

    @cached_property
    def trg(self) -> Any:
        """Targets, shape (3, Nt)."""
        return self.arrays["trg"]

    @cached_property
    def src(self) -> Any:
        """Sources, shape (3, Ns)."""
        return self.arrays["src"]

    @property
    def norms(self) -> Any:
        """Normals of sources, or radii of targets and of sources; None where there are none."""
        return self.arrays.get("norms", self.radii)

    @property
    def radii(self) -> tuple[Any, Any] | None:
        """Radii (N,) of targets and of sources, if they have any."""
        arrays = self.arrays
        return (arrays["trg_radii"][0], arrays["src_radii"][0]) if "src_radii" in arrays else None

    @property
    def of_maps(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The sources, and the targets, as maps take them."""
        of_sources, of_targets = {"points": self.src, "norms": self.norms}, {"points": self.trg}
        if self.radii is not None:
            of_targets["point_radii"], of_sources["point_radii"] = self.radii
        return of_sources, of_targets

    @cached_property
    def same(self) -> bool:
        """Whether the targets are the sources."""
        return self.arrays["trg"] is self.arrays["src"]

    @property
    def xp(self) -> Any:
        """The array module of the space."""
        return self.space.array_module

    @cached_property
    def targets(self) -> int:
        """Targets of this rank."""
        return int(self.arrays["trg"].shape[1])

    @cached_property
    def sources(self) -> int:
        """Sources of this rank."""
        return int(self.arrays["src"].shape[1])

    @cached_property
    def system_extents(self) -> NDArray[np.float64]:
        """Smallest and largest coordinates of each system, shape (S, 2, 3): see `extents_of`."""
        return extents_of(cast(Systems, self.systems), self.trg, self.src)

    def most_sources(self, total: int) -> int:
        """Return how many sources a system has at most; the total, if there are no systems."""
        return total if self.systems is None else int(np.diff(self.systems.sources).max())

    @property
    def sizes(self) -> tuple[int, int, Systems | None]:
        """Targets and sources of this rank, and their systems."""
        return self.targets, self.sources, self.systems

    @cached_property
    def distinct(self) -> dict[str, Any]:
        """The arrays by name, without sources that are the targets."""
        return {n: a for n, a in self.arrays.items() if not (n == "src" and self.same)}

    @property
    def clouds(self) -> list[Any]:
        """Targets and sources, or the one array of both."""
        return [self.trg] if self.same else [self.trg, self.src]

    def checked(self) -> Cloud:
        """Return the cloud with `extents`, for which a device is waited for.

        Raises
        ------
        ParkiValueError
            If values are impossible.
        """
        clouds = {"trg": self.trg} if self.same else {"trg": self.trg, "src": self.src}
        normals = [self.arrays["norms"]] if "norms" in self.arrays else []
        ends = extremes([*map(self.options.along, clouds.values()), *normals])
        extents = [
            check_extent(name, points, extent, self.options)
            for (name, points), extent in zip(clouds.items(), ends, strict=False)
        ]
        for array in normals:
            check_finite("norms", array, ends[-1])
            if self.options.precision == "mixed":
                check_single("norms", ends[-1])
        return replace(self, extents=np.concatenate(extents))

    def owned(self) -> Cloud:
        """Return the cloud with copies of borrowed arrays; one array for both stays one."""
        if not self.borrowed:
            return self
        copies: dict[str, Any] = {}
        for name, array in self.distinct.items():
            copies[name] = self.xp.empty(array.shape, dtype=array.dtype)
            self.space.adapter.copy(copies[name], array)
        return replace(self, arrays={"src": copies["trg"], **copies}, borrowed=False)


def take_cloud(
    kernel: Any,
    trg: AnyArray,
    src: AnyArray,
    norms: AnyArray,
    options: EwaldOptions | None,
    *,
    systems: Any = None,
    exclude: Any = None,
    space: ExecutionSpace | None = None,
    borrowed: bool = True,
    images: bool = False,
) -> Cloud:
    """Refuse kernels, points, normals and options that do not match; look at no values of points.

    Parameters
    ----------
    kernel, trg, src, options
        As for `parki.Plan`.
    norms : array, or tuple of 2 arrays
        As for `parki.Plan`; or radii, where the pair function takes a number of each point: (N,)
        of points that are targets and sources, or one array for each.
    systems, exclude
        As for `parki.Plan`; or `Systems` and `Labels`, which stay what they are where they fit.
    space : ExecutionSpace, optional
        Where arrays must be. Default: the space of the options, or the space where they are.
    borrowed, images : bool
        See `Cloud`.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    kind = sum_of(kernel)
    options = check_options(options)
    if varied(options.box) is not None:
        raise ParkiTypeError(
            "box requires a gradient, which only the calls of parki.torch have: its sums and "
            "sphere_velocities; elsewhere pass box.detach()"
        )
    if not (all(options.periodic) or kind.symbol.ends):
        raise ParkiValueError(
            f"{kind.name} has three periodic axes alone, but the sum is {options.periods}; free "
            "axes need a kernel that ends, which parki does not have of it: choose periodicity=3"
        )
    arrays = {"trg": as_array("trg", trg)}
    arrays["src"] = arrays["trg"] if trg is src else as_array("src", src)
    check_normals(kind, norms)
    with_radii = kind.pair.point_radii is not None
    if norms is not None and not with_radii:
        arrays["norms"] = as_array("norms", norms)
    dtype = check_dtypes(arrays)
    options.check_dtype(dtype)
    if space is None:
        where = "CPU" if isinstance(arrays["trg"], np.ndarray) else "GPU"
        space = get_execution_space(options.execution_space or where)
    for name, points in arrays.items():
        check_space(name, points, space)  # values on another device cannot be read
        if name != "norms":
            check_shape(name, points)
    if "norms" in arrays:
        arrays["norms"] = as_rows("norms", arrays["norms"], (3, arrays["src"].shape[1]))
    if with_radii:
        arrays |= _radii(kind.name, norms, arrays, space)
    systems = check_systems(systems, arrays, space, options)
    labels = None
    if exclude is not None:
        points = kind.pair.of_points
        labels = check_labels(exclude, kind.name, points, arrays, options, systems)
    return Cloud(
        arrays=arrays,
        space=space,
        options=options,
        systems=systems,
        labels=labels,
        borrowed=borrowed,
        images=images,
    )


def _radii(kernel: str, radii: AnyArray, arrays: dict[str, AnyArray], space: ExecutionSpace) -> Any:
    """Return the radii (1, N) of targets and sources by name, in the memory of the points."""
    points = {f"{name}_radii": arrays[name] for name in ("trg", "src")}
    radii_of_each = radii
    if radii is not None and not isinstance(radii, tuple):  # of targets, then of others
        targets, sources = (array.shape[1] for array in points.values())
        last = len(radii) - sources if len(radii) == targets + sources else 0
        radii_of_each = (radii[:targets] if last else radii, radii[last:])
    if radii is None or any(
        len(a) != b.shape[1] for a, b in zip(radii_of_each, points.values(), strict=True)
    ):
        if sum_of(kernel).pair.blob:
            raise ParkiValueError(
                f"{kernel} takes the width of each point, and other points have none; make a new "
                "plan with their epsilon"
            )
        raise ParkiValueError(
            f"{kernel} takes the radius of each point, which parki.Spheres gives it; make "
            "parki.Spheres of these points"
        )
    xp, dtype = space.array_module, arrays["src"].dtype
    named = zip(points, radii_of_each, strict=True)
    return {n: xp.asarray(as_array(n, values), dtype=dtype).reshape(1, -1) for n, values in named}


@dataclass(frozen=True, kw_only=True, eq=False)
class SurveyedCloud(Cloud):
    """A cloud with what follows from the points of all ranks: see `parki.ewald.points.survey`.

    Attributes
    ----------
    totals : tuple of 2 ints
        Targets and sources of all ranks.
    before : tuple of 2 ints
        Targets and sources of the ranks before this one.
    all_same : bool
        Whether the targets are the sources, on all ranks.
    all_extents : ndarray, shape (n, 3)
        Smallest and largest coordinates of all ranks' clouds.
    source_extents : ndarray, shape (m, 3)
        Smallest and largest coordinates of all ranks' sources alone.
    copies : bool
        Whether sources are taken for copies or images of the targets, on all ranks: where both have
        the same smallest and largest coordinates.
    rank : int
        This rank; the first rank warns.
    lattice : Lattice
        The box, in the user's unit.
    tolerance : float
        Tolerance by which parameters are chosen.
    """

    totals: tuple[int, int]
    before: tuple[int, int]
    all_same: bool
    all_extents: NDArray[np.float64]
    source_extents: NDArray[np.float64]
    copies: bool
    rank: int
    lattice: Lattice
    tolerance: float

    def within(self, arrays: dict[str, AnyArray]) -> SurveyedCloud:
        """Return the cloud with other arrays, which are `distinct`."""
        return replace(self, arrays={"src": arrays["trg"], **arrays})

    def ordered(self, order: AxisPermutation) -> SurveyedCloud:
        """Return the cloud with its axes in another order."""
        if not order.changes:
            return self
        return replace(
            self,
            arrays=order.all_to_solver(self.arrays),
            extents=self.extents[:, order.axes],
            all_extents=self.all_extents[:, order.axes],
            source_extents=self.source_extents[:, order.axes],
        )

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """Average targets and sources of a system, and the number of systems."""
        count = self.systems.count if self.systems else 1
        targets, sources = (max(1, -(-total // count)) for total in self.totals)
        return targets, sources, count
