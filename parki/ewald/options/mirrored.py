"""Options of the sums near walls, whose boxes have the images."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from parki.ewald.options.box import lengths_of
from parki.ewald.options.ewald_options import EwaldOptions
from parki.ewald.options.in_box import from_zero
from parki.runtime.forks import cached_property


@dataclass(frozen=True)
class Mirrored(EwaldOptions):
    """Options of the sums near a wall, whose box reaches as far below it as above it."""

    @property
    def walled(self) -> bool:
        """Whether sums are composites: these are the sums of one."""
        return False

    @cached_property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Where the box begins and ends along each axis."""
        x, y, z = self.edges
        return (*from_zero((x, y)), (0.0, math.nan) if z is None else (-z, z))

    def thinnest(self, extents: Any) -> float:
        """Return the distance of the lowest point from its image.

        So few points near a wall, one on its own, too, have a box of the size of their flow.
        """
        return 2 * float(abs(extents[:, 2]).min())

    def images_below(self, of_sources: Any) -> bool:
        """Return whether all sources are below the wall; targets are above it."""
        return len(of_sources) > 0 and bool(of_sources[:, 2].max() <= 0)


@dataclass(frozen=True)
class MirroredTwice(Mirrored):
    """Options of the sums between two walls, whose box reaches as far beyond each of them."""

    @cached_property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Where the box begins and ends along each axis."""
        x, y, z = self.edges
        return (*from_zero((x, y)), (-z, 2 * z))  # type: ignore[operator]

    def images_below(self, of_sources: Any) -> bool:
        """Return whether all sources are below the lower wall, or all above the upper one."""
        above = len(of_sources) > 0 and bool(of_sources[:, 2].min() >= self.edges[2])
        return above or super().images_below(of_sources)


@dataclass(frozen=True)
class Doubled(EwaldOptions):
    """Options of the sums between two plates of metal, with a period of twice their distance."""

    def deformed(self, box: Any) -> EwaldOptions:
        """Return the options with another box of the plates."""
        return super().deformed(_doubled(lengths_of(box, 2, (True, True, False))))


def _doubled(box: Any) -> tuple[Any, ...]:
    """Return a box whose third length or vector is twice as long."""
    first, second, third = box
    return first, second, tuple(2 * x for x in third) if isinstance(third, tuple) else 2 * third


def options_of_sums(options: EwaldOptions) -> EwaldOptions:
    """Return the options of the sums of a composite."""
    if not options.walled:
        return options
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    if options.plates:
        values |= {"box": _doubled(options.box), "periodicity": 3, "wall": None, "voltage": None}
        return Doubled(**values)
    return (Mirrored if options.gap is None else MirroredTwice)(**values)
