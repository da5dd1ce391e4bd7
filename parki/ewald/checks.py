"""`Plan.promise`, and `Plan.check`: the error of one sum, measured against a more accurate one.

A-priori estimates are averages over densities of random sign. Only a measurement knows the error of
a coherent density, as on a lattice.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.options import SMALLEST_TOLERANCE, EwaldOptions
from parki.ewald.options.expert import Expert
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.ewald.points import Cloud, take_cloud
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.ranks import Ranks
from parki.ewald.sums.maps import factors
from parki.ewald.sums.stress import WEIGHTS
from parki.ewald.task import Task
from parki.interchange import to_host
from parki.typing import AnyArray, Split


def promise(task: Task, points: SurveyedCloud, ranks: Ranks, dens: AnyArray) -> tuple[Any, ...]:
    """Return the promise for each result of a density (rows, N), or of several (k, rows, N)."""
    rows = dens.astype(np.float64)
    several = rows.ndim == 3
    bounds = [_bound(task, points, ranks, density) for density in (rows if several else rows[None])]
    of_each = (points.systems.count,) if points.systems else ()
    bound: Any = np.array(bounds).reshape(-1, *of_each) if several else bounds[0]
    of_derivatives = bound / (task.sum.unit or points.lattice.lengths)
    per_result = {
        name: sum(factors(density).values()) * of_derivatives for name, density in WEIGHTS.items()
    }
    return tuple(({"u": bound} | per_result).get(name, of_derivatives) for name in task.names)


def _bound(task: Task, points: SurveyedCloud, ranks: Ranks, density: AnyArray) -> Any:
    """Return the promise for "u" of a density (rows, N), a number or one for each system."""
    length, systems = points.lattice.lengths, points.systems

    def root(values: AnyArray) -> Any:
        if systems:
            return np.sqrt(to_host(systems.sums(values[None]))[0])
        return ranks.sum(float(values.sum())) ** 0.5

    bound: Any = 0.0
    for source, rows in task.sum.parts(density):
        square, scale = _squares(rows, ranks)
        if source.normal:
            of_normals, size = _squares(points.arrays["norms"].astype(np.float64), ranks)
            square, scale = square * of_normals, scale * size
        power = source.decay - task.sum.pair.power if task.sum.unit else 0
        unit = length ** (source.decay - power) * task.sum.unit**power
        bound = bound + root(square) / unit * scale
    return task.options.tolerance * bound


def _squares(rows: AnyArray, ranks: Ranks) -> tuple[Any, float]:
    """Return squares (N,) of vectors over a size, and that size, so that they stay finite.

    It is a power of two, which rounds nothing.
    """
    largest = ranks.max(float(abs(rows).max()) if rows.size else 0.0)
    size = 2.0 ** (math.frexp(largest)[1] - 1) if largest else 1.0
    return ((rows / size) ** 2).sum(axis=0), size


FINER = 100  # how many times more accurate the other sum is
SEED = 0


@dataclass(frozen=True)
class Check:
    """The error of a sum at sampled targets, as `Plan.check` measures it.

    Attributes
    ----------
    error : float
        Rms over the sampled targets of the difference from the more accurate sum. For a gradient it
        is the rms of the Frobenius norm.
    promise : float
        The bound that the tolerance promises: `Plan.promise`. It excludes rounding.
    flow : float
        Rms of the result itself at the sampled targets.
    reference : float
        Tolerance of the other sum: the plan's over 100, but at least 1e-13. At that limit, errors
        far below the promise are not resolved.
    """

    error: float
    promise: float
    flow: float
    reference: float

    @property
    def relative(self) -> float:
        """The error over the flow."""
        if self.error == 0:
            return 0.0
        return self.error / self.flow if self.flow else math.inf

    def __str__(self) -> str:
        share = f" ({self.error / self.promise:.2g} of it)" if self.promise else ""
        return (
            f"error {self.error:.2e}, promise {self.promise:.2e}{share}; "
            f"{self.relative:.1e} of the flow; "
            f"measured against a sum of tolerance {self.reference:.0e}"
        )


class Checks(tuple[Check, ...]):
    """The errors of several results, in the order of ``want``; as text, one line for each.

    Attributes
    ----------
    names : tuple of str
        The names of the results.
    """

    names: tuple[str, ...]

    def __new__(cls, names: tuple[str, ...], checks: Iterable[Check]) -> Checks:
        """Return the checks of the results with these names."""
        made = super().__new__(cls, tuple(checks))
        made.names = names
        return made

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[Check, ...]]:
        """Return the arguments from which copies are made."""
        return self.names, tuple(self)

    def __str__(self) -> str:
        pairs = zip(self.names, self, strict=True)
        return "\n".join(f"{name}: {check}" for name, check in pairs)


class Sample:
    """A sample of targets at which other sums are compared with a plan's; see `Plan.check`.

    The other sums have Hasimoto's split, whatever the plan's, and choose cut-off, window and grid
    for their own tolerance and few targets. Their points are not shifted: shifting rounds
    positions, which changes close pairs, and grids of different steps are as independent as shifted
    ones.

    Parameters
    ----------
    count : int
        Targets of the plan, on this rank.
    targets : int
        How many to sample, of all ranks' targets.
    ranks : Ranks

    Attributes
    ----------
    chosen : ndarray of int
        The targets of the sample, of this rank.
    tolerance : float
        Of the other sums, once there is one.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If there is nothing to sample.
    """

    def __init__(self, count: int, targets: int, ranks: Ranks) -> None:
        most, self.tolerance, self.ranks = _count(targets), math.inf, ranks
        before, total = ranks.offset_and_total(count)
        if not total:
            raise ParkiValueError("check needs targets, but the plan was made with none")
        self.chosen = np.arange(count)
        if most < total:
            draw = np.random.default_rng(SEED)
            chosen = np.sort(draw.choice(total, most, replace=False)) - before
            self.chosen = chosen[(chosen >= 0) & (chosen < count)]

    def of(self, columns: AnyArray) -> tuple[Any, Any]:
        """Return the targets of a sum in these columns that are sampled, and their places in it."""
        if columns is None:
            return self.chosen, slice(None)
        local = np.flatnonzero(np.isin(columns, self.chosen))
        return local, np.searchsorted(self.chosen, columns[local])

    def cloud(self, placed: EwaldSum, local: AnyArray) -> tuple[Cloud, Any]:
        """Return the points of the other sum, with some targets, and where these are in it.

        In float64 whatever the plan's dtype: equal positions stay equal.
        """
        task, points = placed.task, placed.cloud
        systems = points.systems
        # Where the box is the points' extent, the outermost targets give the other sum the same.
        free = [r for r, edge in zip(points.trg, task.options.box, strict=True) if edge is None]
        ends = [end for row in free if row.size for end in (row.argmin(), row.argmax())]
        places = np.concatenate([local, np.array([int(end) for end in ends], dtype=int)])
        order = np.argsort(places, kind="stable")
        places, back = places[order], np.argsort(order)[: len(local)]
        if systems is not None:
            offsets = np.searchsorted(places, systems.targets).astype(np.int32)
            systems = Systems(
                offsets, systems.sources, task.space, task.executor, boxes=systems.boxes
            )
        labels, norms, radii = points.labels, points.norms, points.radii
        if radii is not None:
            norms = radii[0][task.xp.asarray(places)], radii[1]
        elif norms is not None:
            norms = norms.astype(np.float64)
        options = _more_accurate(task, points)
        self.tolerance = min(self.tolerance, options.tolerance)
        cloud = take_cloud(
            task.kernel,
            points.trg[:, task.xp.asarray(places)].astype(np.float64),
            points.src.astype(np.float64),
            norms,
            options,
            systems=systems,
            exclude=labels and Labels(labels.targets[places], labels.sources, systems, labels.side),
            borrowed=False,
        )
        return cloud, task.xp.asarray(back)

    def errors(
        self, results: dict[str, AnyArray], exact: dict[str, AnyArray], promises: AnyArray
    ) -> Checks:
        """Return the error of each result (rows, N) from what the other sums make of it."""
        checks = []
        for (name, ours), promise in zip(results.items(), promises, strict=True):
            difference = ours[..., self.chosen].astype(np.float64) - exact[name]
            error, flow = (_rms(each, self.ranks) for each in (difference, exact[name]))
            checks.append(Check(error, float(promise), flow, self.tolerance))
        return Checks(tuple(results), checks)


def _count(targets: AnyArray) -> int:
    try:
        count = operator.index(targets)
    except TypeError:
        raise ParkiTypeError(f"targets is {targets!r}; expected a whole number") from None
    if count < 1:
        raise ParkiValueError(f"targets is {count}; expected how many to sample, 1 or more")
    return count


def _more_accurate(task: Task, points: SurveyedCloud) -> EwaldOptions:
    """Return options for a more accurate sum of the same points, with other parameters."""
    options, blob = task.options, task.sum.pair.blob
    # Such blobs have that one alone.
    split: Split = "prolate" if blob and blob.algebraic else "hasimoto"
    return type(options)(
        options.periodicity,
        options.box,
        finer_tolerance(points.tolerance),
        execution_space=task.space,
        dl_mean=options.dl_mean or "zero",
        exclude_image=options.exclude_image,
        expert=Expert(split=split, executor=options.expert.executor),
    )


def finer_tolerance(tolerance: float) -> float:
    """Return the tolerance of the sum that measures the error of another one."""
    return max(tolerance / FINER, SMALLEST_TOLERANCE[np.dtype(np.float64)])


def _rms(values: AnyArray, ranks: Ranks) -> float:
    """Return the rms over all ranks' targets, the last axis, of the norm over the other axes."""
    largest = ranks.max(float(abs(values).max()) if values.size else 0.0)
    if not 0 < largest < math.inf:
        return largest
    scaled = values / largest  # their squares are finite
    total = ranks.sum(float((scaled * scaled).sum()))
    return largest * math.sqrt(total / ranks.sum(values.shape[-1]))
