"""`SphereRadii`: the radii that maps of sums of spheres take, of all points or of each."""

from __future__ import annotations

from typing import NamedTuple

from parki.ewald.sums.maps import Arrays
from parki.ewald.sums.record import Interaction
from parki.typing import AnyArray


class SphereRadii(NamedTuple):
    """The radii of targets and of sources; None where each point has its own.

    ``largest`` is the largest one of all.
    """

    targets: float | None
    sources: float | None
    largest: float

    @classmethod
    def of(cls, kind: Interaction) -> SphereRadii:
        """Return the radii that the targets and the sources of a sum of spheres have."""
        if kind.pair.point_radii is None:
            one, other = (shell.radius for shell in kind.symbol.shells or ())
            return cls(one, other, max(one, other))
        flow = kind.symbol.order == 2 and not kind.symbol.laplacians[0]
        return cls(0.0 if flow else None, None, kind.pair.largest)


def of_spheres(kind: Interaction) -> bool:
    """Return whether a sum is of spheres."""
    return bool(kind.symbol.shells) or kind.pair.point_radii is not None


def square(radius: float | None, cloud: Arrays) -> AnyArray:
    """Return the square of the radius of the points of a cloud."""
    return cloud["point_radii"] ** 2 if radius is None else radius**2
