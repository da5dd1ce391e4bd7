"""What is asked of a plan: `Task`, `Request`, `Points`; the order of the axes; and the `Frame`."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.cell_list import locate, multiplied
from parki.errors import ParkiValueError
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.lattice import Lattice, check_length
from parki.ewald.options import EwaldOptions
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS, stress
from parki.ewald.sums.record import Sum
from parki.runtime import ExecutionSpace
from parki.runtime.forks import cached_property


class LatticeNumbers:
    """Arrays of a few numbers each, which follow from a box that deforms, and stay.

    Launches that were recorded read the same memory each time: another box is another content.

    Parameters
    ----------
    space : ExecutionSpace
        Whose memory they are in.
    """

    def __init__(self, space: ExecutionSpace) -> None:
        self._space = space
        self._arrays: dict[Hashable, tuple[Callable[[Frame], Any], Any]] = {}

    def array(self, name: Hashable, made: Callable[[Frame], Any], frame: Frame, dtype: Any) -> Any:
        """Return the numbers ``made`` of a frame, as one array for each name and dtype."""
        key = name, np.dtype(dtype)
        if key not in self._arrays:
            values = self._space.array_module.array(made(frame), dtype=dtype, order="C")
            self._arrays[key] = made, values
        return self._arrays[key][1]

    def move(self, frame: Frame) -> None:
        """Overwrite all arrays by as many numbers of another frame; wait for nothing."""
        for made, array in self._arrays.values():
            values = np.ascontiguousarray(made(frame), dtype=array.dtype)
            self._space.adapter.upload(array, values)


class Order:
    """The caller's axes in another order: periodic ones come first, or slabs divide the first.

    It also turns vectors into the axes of a tilted box, whose first vector is along the first axis.
    The sums do not depend on the order of the axes, except that a mirror changes the sign of what a
    vector of rotation makes.

    Parameters
    ----------
    axes : sequence of 3 ints
        The caller's axis for each axis of the other order.
    rotation : ndarray, shape (3, 3), optional
        Turns vectors in the other order.
    finer : bool
        Whether arrays of points become float64.

    Attributes
    ----------
    kept : bool
        Whether the order is the caller's, and nothing turns.
    mirrors : bool
        Whether it mirrors the box, as an exchange of two axes does. A turn in a circle does not.
    """

    def __init__(self, axes: Iterable[int], rotation: Any = None, finer: bool = False) -> None:
        self.axes, self.rotation, self.finer = [*axes], rotation, finer
        self.kept = self.axes == [0, 1, 2] and rotation is None
        self.mirrors = self.axes not in ([0, 1, 2], [1, 2, 0], [2, 0, 1])

    @property
    def changes(self) -> bool:
        """Whether points in the order are others than the caller's."""
        return self.finer or not self.kept

    @property
    def inverse(self) -> Order:
        """The order that gives the caller's axes back."""
        return Order(self.axes.index(axis) for axis in range(3))

    def arrays(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return arrays (rows, N) in the other order; one array for both clouds stays one."""
        if not self.changes:
            return arrays
        same = arrays["trg"] is arrays["src"]
        ordered = {n: each for n, each in arrays.items() if not (same and n == "src")}
        if self.finer:
            ordered = {n: each.astype(np.float64, copy=False) for n, each in ordered.items()}
        ordered = {n: self.rows(each) for n, each in ordered.items()}
        return {name: ordered["trg" if same and name == "src" else name] for name in arrays}

    def rows(self, values: Any) -> Any:
        """Return values (..., rows, N) in the other order; themselves, if that is the same."""
        if self.kept or values.shape[-2] == 1:
            return values
        ordered = values.take(self.places(values.shape[-2]), axis=-2)
        return ordered if self.rotation is None else _rotated(ordered, self.rotation)

    def back(self, values: Any, out: Any) -> None:
        """Write values (..., rows, N) of the other order in the caller's."""
        if self.kept or values.shape[-2] == 1:
            out[...] = values
            return
        if self.rotation is not None:
            values = _rotated(values, self.rotation.T)
        out[..., self.places(values.shape[-2]), :] = values

    def density(self, dens: Any, sources: Iterable[Any]) -> Any:
        """Return a density (rows, N), whose sources have rows that follow each other."""
        rows, start = self.rows(dens), 0
        for source in sources if self.mirrors else ():
            if source.axial:  # it changes its sign in a mirror
                rows[start : start + source.rows] *= -1
            start += source.rows
        return rows

    def places(self, rows: int) -> list[int]:
        """Return the caller's row for each row in the other order.

        The rows are a number, one vector or two, a tensor, a vector and a tensor, a tensor and a
        number, or a number and a vector, perhaps with a tensor.
        """
        vector = [3 * each + axis for each in range(rows // 3) for axis in self.axes]
        tensor = [3 * row + column for row in self.axes for column in self.axes]
        if rows in (4, 13):  # a number and a vector, perhaps with a tensor
            return [0, *(1 + axis for axis in self.axes), *(4 + place for place in tensor)][:rows]
        if rows == 12:
            return [*self.axes, *(3 + place for place in tensor)]
        return {1: [0], 9: tensor, 10: [*tensor, 9]}.get(rows, vector)


def _rotated(values: Any, rotation: Any) -> Any:
    """Return turned vectors and tensors, in rows as of `Order.places`.

    Value by value, so that equal points stay equal; in double precision.
    """
    rows, rotated = values.shape[-2], values.astype(np.float64)
    first = rows in (4, 13)  # a number comes before the rest
    groups = [[first + 3 * each + axis for axis in range(3)] for each in range(rows // 3)]
    if rows > 6:  # both indices of a tensor, one after the other
        start = {13: 4, 12: 3}.get(rows, 0)
        groups += [[start + axis + 3 * each for each in range(3)] for axis in range(3)]
    for group in groups:
        given = [rotated[..., row, :].copy() for row in group]
        for row, weights in zip(group, rotation.tolist(), strict=True):
            rotated[..., row, :] = sum(w * each for w, each in zip(weights, given, strict=True))
    return rotated.astype(values.dtype)


@dataclass(frozen=True)
class Task:
    """A sum, independent of its points.

    Attributes
    ----------
    kernel : str
    space : ExecutionSpace
    dtype : dtype
        Dtype of the arithmetic; arrays may have another (`EwaldOptions.precision`).
    options : EwaldOptions
        As they were given. The solver takes their axes in the order ``options.axes``.
    names : tuple of str
        The wanted results: "u", "p", "grad_u", "stress"; and "grad_tensor" of tensor targets.
    transposed_pair : str
        Internal: the kernel whose transposed near field is added, or "". The pair function is
        transposed then and takes normals of the targets. Its result is "transposed_pair"; the
        wanted results have the far field alone.
    labelled : bool
        Whether points have labels, and pairs of equal ones are left out.
    """

    kernel: str
    space: ExecutionSpace
    dtype: Any
    options: EwaldOptions
    names: tuple[str, ...] = ("u",)
    transposed_pair: str = ""
    labelled: bool = False

    @cached_property
    def sum(self) -> Sum:
        """The record of the kernel."""
        return SUMS[self.kernel]

    @cached_property
    def pair(self) -> Sum:
        """The record of the kernel of the near field."""
        return SUMS[self.transposed_pair or self.kernel]

    @cached_property
    def chosen_by(self) -> tuple[str, tuple[str, ...]]:
        """The kernel, and its wanted results, for which parameters are chosen."""
        return (self.transposed_pair, ("u",)) if self.transposed_pair else (self.kernel, self.want)

    @cached_property
    def asked(self) -> dict[str, Any]:
        """What every rank must ask for, by the names that users know."""
        options = {each.name: getattr(self.options, each.name) for each in fields(self.options)}
        own = {"kernel": self.kernel, "want": self.names, "dtype": self.dtype}
        return own | {"space": self.space.name} | options

    @cached_property
    def of_contacts(self) -> Task:
        """The task of `Sum.contacts`."""
        return replace(self, kernel=self.sum.contacts)

    @cached_property
    def want(self) -> tuple[str, ...]:
        """The results to compute: parts of the wanted ones that are not zero everywhere."""
        return tuple(name for name in stress.parts(self.names) if self.sum.terms[name])

    @cached_property
    def slopes(self) -> bool:
        """Whether the near field's kernel of "u" sums the gradient, too."""
        known = not (self.transposed_pair or self.labelled)
        return known and self.sum.slopes(self.want, self.space.on_device)

    @cached_property
    def periodicity(self) -> int:
        """The number of periodic axes, which come first in the solver."""
        return sum(self.options.periodic)

    @cached_property
    def tensors(self) -> bool:
        """Whether targets have tensors."""
        return "grad_tensor" in self.names

    @cached_property
    def flux(self) -> bool:
        """Whether the mean of a double layer is the one without flux through the box."""
        return self.sum.normals and self.options.dl_mean == "flux"

    @cached_property
    def mixed(self) -> bool:
        """Whether arrays are float64 while most of the arithmetic is float32."""
        return self.options.precision == "mixed"

    @cached_property
    def finer(self) -> bool:
        """Whether positions are float64 while most of the arithmetic is float32.

        In mixed precision, and in tilted boxes: turning and wrapping would round single ones.
        """
        return self.mixed or (self.tilted and self.dtype == np.float32)

    @cached_property
    def tilted(self) -> bool:
        """Whether the box has lattice vectors, not lengths."""
        return self.options.cell is not None

    def alike(self, other: Task) -> bool:
        """Return whether the boxes of two tasks are equal, or both tilted."""
        return (self.tilted and other.tilted) or self.options.box == other.options.box

    @cached_property
    def executor(self) -> str | None:
        """The executor of the kernels."""
        return self.options.expert.executor

    @cached_property
    def xp(self) -> Any:
        """The array module of the space."""
        return self.space.array_module

    def tolerance(self, survey: Survey, systems: Systems | None) -> float:
        """Return the tolerance of random densities, for as many sources as a system has at most."""
        sources = survey.totals[1] if systems is None else int(np.diff(systems.sources).max())
        return self.options.random_tolerance(sources, self.sum.source_components, self.dtype)


@dataclass(frozen=True)
class Request:
    """What derivatives need of a sum, and the labels of its points; by default nothing.

    Attributes
    ----------
    tensors : array, shape (10, Nt), optional
        A tensor D, with D_jk in row 3 j + k, and a strength s for each target of a single layer.
        The target reads ``D_jk d u_j / d x_k + s p``, and ``want`` may ask for the gradient of
        that, "grad_tensor", of shape (3, Nt). It is what a source of `parki.vjp` feels.
    transposed_pair : tuple (str, array or None), optional
        The sum whose transposed near field is added, and normals of the targets, shape (3, Nt),
        if it has any. This near field is one more result, after what is wanted, of the shape of
        that sum's density, (rows, Nt).
    exclude : array of int, tuple of two, or Labels, optional
        Labels of the points, as for `parki.Plan`.
    """

    tensors: Any = None
    transposed_pair: tuple[str, Any] | None = None
    exclude: Any = None


class Survey(NamedTuple):
    """Facts about the points of all ranks that each rank needs.

    Attributes
    ----------
    totals : tuple of 2 ints
        Targets and sources of all ranks.
    before : tuple of 2 ints
        Targets and sources of the ranks before this one.
    same : bool
        Whether the targets are the sources, on all ranks.
    extents : ndarray, shape (n, 3)
        Smallest and largest coordinates of all ranks' clouds.
    of_sources : ndarray, shape (m, 3)
        Smallest and largest coordinates of all ranks' sources alone.
    same_extents : bool
        Whether targets and sources have the same smallest and largest coordinates, on all ranks.
    rank : int
        This rank; the first rank warns.
    """

    totals: tuple[int, int]
    before: tuple[int, int]
    same: bool
    extents: NDArray[np.float64]
    of_sources: NDArray[np.float64]
    same_extents: bool
    rank: int = 0

    @classmethod
    def of(cls, ranks: Ranks, task: Task, arrays: dict[str, Any], extents: Any) -> Survey:
        """Return the facts about the points of all ranks; refuse ranks with other tasks.

        Parameters
        ----------
        ranks : Ranks
        task : Task
            Of this rank.
        arrays : dict
            "trg" and "src", shape (3, N), of this rank.
        extents : ndarray, shape (n, 3)
            Smallest and largest coordinates of the targets, and of the sources.

        Raises
        ------
        ParkiValueError
            If ranks have different tasks.
        """
        counts = int(arrays["trg"].shape[1]), int(arrays["src"].shape[1])
        same = arrays["trg"] is arrays["src"]
        same_extents = np.array_equal(extents[:2], extents[2:])
        of_sources = extents[-2:] if counts[1] else extents[:0]
        if ranks.serial:
            return cls(counts, (0, 0), same, extents, of_sources, same_extents)
        told = ranks.allgather((same, same_extents, task.asked, counts, extents, of_sources))
        sames, alike, asked, numbers, ends, sources = zip(*told, strict=True)
        _refuse_other_tasks(asked)
        before, totals = (np.sum(numbers[:n], axis=0, dtype=int) for n in (ranks.rank, ranks.size))
        return cls(
            (int(totals[0]), int(totals[1])),
            (int(before[0]), int(before[1])) if ranks.rank else (0, 0),
            all(sames),
            np.concatenate(ends),
            np.concatenate(sources),
            all(alike),
            ranks.rank,
        )


def _refuse_other_tasks(told: Sequence[dict[str, Any]]) -> None:
    """Raise if ranks ask for different sums, which each of them told."""
    for rank, other in enumerate(told):
        for name, value in told[0].items():
            if other[name] != value:
                raise ParkiValueError(
                    f"{name} is {other[name]} on rank {rank}, but {value} on rank 0; "
                    "all ranks take part in one sum"
                )


@dataclass(frozen=True)
class Points:
    """The points of a plan, checked.

    Attributes
    ----------
    arrays : dict
        "trg" and "src" (one array, if the targets are the sources), "norms" of sources, "tensors"
        of targets, and marks, (1, N), "trg_marks" and "src_marks"; as given, unless the axes are
        `ordered`.
    extents : ndarray, shape (n, 3)
        Smallest and largest coordinates of this rank's clouds.
    survey : Survey
    lattice : Lattice
        The box, in the user's unit.
    tolerance : float
        Tolerance by which parameters are chosen.
    systems : Systems or None
        Which targets and sources belong together; None if all do.
    labels : Labels or None
        Labels of the points, if pairs are left out.
    """

    arrays: dict[str, Any]
    extents: NDArray[np.float64]
    survey: Survey
    lattice: Lattice
    tolerance: float
    systems: Systems | None = None
    labels: Labels | None = None

    def ordered(self, order: Order) -> Points:
        """Return the points with their axes in another order."""
        if not order.changes:
            return self
        x, old = order.axes, self.survey
        survey = old._replace(extents=old.extents[:, x], of_sources=old.of_sources[:, x])
        return replace(
            self, arrays=order.arrays(self.arrays), extents=self.extents[:, x], survey=survey
        )

    @cached_property
    def targets(self) -> int:
        """Targets of this rank."""
        return int(self.arrays["trg"].shape[1])

    @cached_property
    def sources(self) -> int:
        """Sources of this rank."""
        return int(self.arrays["src"].shape[1])

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """Average targets and sources of a system, and the number of systems."""
        count = self.systems.count if self.systems else 1
        targets, sources = (max(1, -(-total // count)) for total in self.survey.totals)
        return targets, sources, count


@dataclass(frozen=True)
class Frame:
    """The box in the solver, whose lengths are over a power of two.

    Scaling by a power of two is exact in both directions. So no box is too large or too small for
    float32.

    Attributes
    ----------
    lattice : Lattice
        In solver units.
    unit : float
        The solver's unit of length in the user's unit.
    length : float
        Cube root of the box's volume in the user's unit.
    numbers : LatticeNumbers or None
        Where other tilts need no other launches: all that kernels read of them.
    """

    lattice: Lattice
    unit: float = 1.0
    length: float = 1.0
    numbers: LatticeNumbers | None = field(default=None, compare=False)

    @classmethod
    def of(cls, task: Task, given: Lattice, before: Frame | None = None) -> Frame:
        """Return the frame of a box, whose unit is near the cube root of the volume.

        A box whose tilts are not the tilts of the frame ``before`` may change them again.
        """
        length = given.length
        kernel, want = task.chosen_by
        terms = [term for name in want for term in SUMS[kernel].terms.get(name, ())]
        check_length(length, task.dtype, max((term.power for term in terms), default=1))
        unit = 2.0 ** round(math.log2(length))
        if task.mixed and not 1e-9 <= unit <= 1e9:
            raise ParkiValueError(
                f"the box has edges of about {length:g}; precision='mixed' takes 1e-9 to 1e9: "
                "give lengths in another unit"
            )
        lattice = given.over(unit)
        frame = cls(lattice.following(before.lattice) if before else lattice, unit, length)
        if any(frame.lattice.deforms):
            kept = before.numbers if before and before.takes(frame) else None
            frame = replace(frame, numbers=kept or LatticeNumbers(task.space))
        return frame

    def takes(self, other: Frame) -> bool:
        """Return whether the grid of this frame is one for another frame, of other tilts."""
        return self.unit == other.unit and self.lattice.widest == other.lattice.widest

    def constant(
        self, space: ExecutionSpace, name: Hashable, made: Callable[[Frame], Any], dtype: Any
    ) -> Any:
        """Return the numbers ``made`` of the frame as an array; ``name`` tells them from others."""
        if self.numbers is None:
            return space.adapter.constant(made(self), dtype)
        return self.numbers.array(name, made, self, dtype)

    def basis_on(self, space: ExecutionSpace, dtype: Any) -> Any:
        """Return the basis as an array of a space."""
        return self.constant(space, "basis", lambda frame: frame.lattice.basis, dtype)

    @cached_property
    def factor(self) -> float:
        """Factor from the user's lengths to solver units, and from the solver's results back."""
        return 1 / self.unit

    def wrap(self, task: Task, points: Any) -> Any:
        """Return points (3, N) in the box and in solver units, as the grid takes them."""
        lattice = self.lattice
        if lattice.origin.any():
            # This rounds; the grid does not mind, and the near field takes the points as given.
            corner = lattice.origin[:, None] * self.unit
            points = points - task.space.adapter.constant(corner, points.dtype)
        if lattice.tilted:
            basis = self.basis_on(task.space, points.dtype)
            points = multiplied(points, basis, task.space, task.executor)
        wrapped, _ = locate(
            points,
            lattice.edges,
            (1, 1, 1),
            lattice.periodic,
            (0.0, 0.0, 0.0),
            task.space,
            scale=self.factor,
            executor=task.executor,
        )
        return wrapped.astype(task.dtype, copy=False)
