"""`Radii`: the sizes of spheres, and the sums that take them: what moves by what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from parki.core import kernel
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import as_array, shown, to_host
from parki.meaning import refuse_variable
from parki.typing import AnyArray

ACTS, MOVES = ("force", "torque"), ("velocity", "turn")
# What moves by what: the kernel, with the names of the radii of what moves and of what acts on it,
# the factor of its sum, and the kernel of all radii.
KINDS = {
    ("velocity", "force"): ("sphere_sl", ("radius", "source_radius"), 1.0, "polydisperse_sl"),
    ("velocity", "torque"): ("sphere_curl", ("moving", "turning"), 1.0, "polydisperse_curl"),
    ("turn", "force"): ("sphere_spin", ("turning", "moving"), 1.0, "polydisperse_turn"),
    ("turn", "torque"): ("sphere_turns", ("radius", "source_radius"), 0.5, "polydisperse_turns"),
}
LONGEST = 1e100  # and the shortest one is its inverse: their third powers are numbers


class Radii(NamedTuple):
    """The radii of spheres, and radii of all ranks: the smallest and the largest one, or all."""

    each: Any
    every: Any

    @classmethod
    def of(cls, radii: AnyArray, count: int, of_all: Callable[[Any], Any] = np.unique) -> Radii:
        """Return the radius of each of ``count`` spheres, or refuse it.

        ``of_all(values)`` has radii of all ranks, among which are the smallest and the largest one.
        """
        values = lengths(radii, count)
        return cls(np.broadcast_to(values, (count,)), of_all(values))

    @property
    def smallest(self) -> float:
        """The smallest radius; 0 without spheres."""
        return float(self.every.min()) if self.every.size else 0.0

    @property
    def tracers(self) -> bool:
        """Whether some spheres have no radius."""
        return not bool(self.every.all())

    @property
    def largest(self) -> float:
        """The largest radius."""
        return float(self.every.max(initial=0.0))

    @property
    def point_radii(self) -> Any:
        """The radii as marks of points; None if they are all the same."""
        return None if self.smallest == self.largest else self.each

    @property
    def kernels(self) -> dict[tuple[str, str], str]:
        """The names of the sums, by what moves and what acts."""
        if self.point_radii is None:
            each = {
                key: dict.fromkeys(names, self.largest) for key, (_, names, *_) in KINDS.items()
            }
            return {key: kernel(KINDS[key][0], **radii) for key, radii in each.items()}
        return {key: kernel(name, largest=self.largest) for key, (*_, name) in KINDS.items()}

    @property
    def force_dipoles(self) -> str:
        """The name of the sum of forces and torques together."""
        if self.point_radii is None:
            return kernel("sphere_dipoles", radius=self.largest)
        return kernel("polydisperse_dipoles", largest=self.largest)

    def flow(self, acts: str) -> str:
        """Return the name of the sum of the fluid's velocity by what acts."""
        family, (own, other), _, any_radii = KINDS["velocity", acts]
        if self.point_radii is None:
            return kernel(family, **{own: 0.0, other: self.largest})
        return kernel("polydisperse_flow" if acts == "force" else any_radii, largest=self.largest)

    def __str__(self) -> str:
        if self.point_radii is None:
            return f"{self.each.size} of radius {self.largest:g}"
        return f"{self.each.size} of radii {self.smallest:g} to {self.largest:g}"


def lengths(radii: AnyArray, count: int) -> Any:
    """Return the radius of each sphere, or refuse it."""
    refuse_variable("radii", radii)
    values = to_host(as_array("radii", radii))
    if values.dtype.kind not in "iuf":  # as of text, which NumPy would read
        raise ParkiTypeError(f"radii is {shown(radii)}; expected a length, or one for each sphere")
    values = values.astype(np.float64)
    if values.ndim and values.shape != (count,):
        raise ParkiValueError(
            f"radii has shape {values.shape}; expected one number, or shape ({count},)"
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ParkiValueError("radii has negative or infinite numbers, or NaN; expected lengths")
    if not ((values == 0) | (values >= 1 / LONGEST) & (values <= LONGEST)).all():
        raise ParkiValueError(
            f"radii has lengths below {1 / LONGEST:g} or above {LONGEST:g}, whose third powers are "
            "no numbers; give 0 for a tracer, or lengths in another unit"
        )
    return values
