"""`Plan.check`: the error of one sum, measured at a few targets against a more accurate sum.

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
from parki.ewald.options import SMALLEST_TOLERANCE, EwaldOptions
from parki.ewald.task import Points, Request, Task
from parki.interchange import as_array, to_host

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
    """A sample of targets at which another sum is compared with a plan's; see `Plan.check`.

    The other sum has Hasimoto's split, whatever the plan's, and chooses cut-off, window and grid
    for its own tolerance and few targets. Its points are not shifted: shifting rounds positions,
    which changes close pairs, and grids of different steps are as independent as shifted ones.

    Parameters
    ----------
    task : Task
    points : Points
        Points of the plan.
    dens : array
        One density.
    targets : int
        Number of targets to sample.

    Attributes
    ----------
    density : array
        The density as given.
    given : tuple
        The first arguments of a plan of the other sum, in float64 whatever the plan's dtype: equal
        positions stay equal.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If there is nothing to sample.
    """

    def __init__(self, task: Task, points: Points, dens: Any, targets: int) -> None:
        count = _count(targets)
        if not points.targets:
            raise ParkiValueError("check needs targets, but the plan was made with none")
        arrays = points.arrays
        self.density = as_array("dens", dens)
        if points.systems:
            raise ParkiValueError(
                "check takes plans without systems; check some systems by plans of their own"
            )
        if self.density.ndim > len(task.sum.density_shape(0)):
            raise ParkiValueError(
                f"dens has shape {self.density.shape}; check takes one density at a time, such as "
                "dens[0]"
            )
        chosen = np.arange(points.targets)
        if count < points.targets:
            draw = np.random.default_rng(SEED)
            chosen = np.sort(draw.choice(points.targets, count, replace=False))
        # Where the box is the points' extent, the outermost targets give the other sum the same.
        free = [r for r, edge in zip(arrays["trg"], task.options.box, strict=True) if edge is None]
        outer = [int(end) for row in free for end in (row.argmin(), row.argmax())]
        places = task.xp.asarray(np.concatenate([chosen, np.array(outer, dtype=int)]))
        norms = arrays.get("norms")
        self.options = _more_accurate(task, points)
        self.given = (
            task.kernel,
            arrays["trg"][:, places].astype(np.float64),
            arrays["src"].astype(np.float64),
            None if norms is None else norms.astype(np.float64),
            self.options,
        )
        self._names, self._chosen = task.names, task.xp.asarray(chosen)
        self._labels = points.labels and points.labels.of(to_host(places))

    def request(self, dens: Any) -> Request:
        """Return the request of the other sum for a density, or for several."""
        return Request(once=True, density=dens.astype(np.float64), exclude=self._labels)

    def errors(self, found: Any, promises: Any, exact: Any) -> Checks:
        """Return the error of each result from the results of the other sum."""
        checks = []
        for ours, theirs, promise in zip(found, exact, promises, strict=True):
            right = theirs[..., : self._chosen.size]
            difference = ours[..., self._chosen].astype(np.float64) - right
            error, flow = _rms(difference), _rms(right)
            checks.append(Check(error, float(promise), flow, self.options.tolerance))
        return Checks(self._names, checks)


def _count(targets: Any) -> int:
    try:
        count = operator.index(targets)
    except TypeError:
        raise ParkiTypeError(f"targets is {targets!r}; expected a whole number") from None
    if count < 1:
        raise ParkiValueError(f"targets is {count}; expected how many to sample, 1 or more")
    return count


def _more_accurate(task: Task, points: Points) -> EwaldOptions:
    """Return options for a more accurate sum of the same points, with other parameters."""
    given, blob = task.options, task.sum.pair.blob
    return type(given)(
        given.periodicity,
        given.box,
        max(points.tolerance / FINER, SMALLEST_TOLERANCE[np.dtype(np.float64)]),
        execution_space=task.space,
        split="prolate" if blob and blob.algebraic else "hasimoto",  # the one that such blobs have
        dl_mean=given.dl_mean or "zero",
        exclude_image=given.exclude_image,
        executor=given.executor,
    )


def _rms(values: Any) -> float:
    """Return the rms over targets, the last axis, of the norm over the other axes."""
    largest = float(abs(values).max()) if values.size else 0.0
    if not 0 < largest < math.inf:
        return largest
    scaled = values / largest  # their squares are finite
    return largest * math.sqrt(float((scaled * scaled).sum()) / values.shape[-1])
