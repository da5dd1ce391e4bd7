"""`Source`: what a point carries, how it spreads, and how large its error may be."""

from __future__ import annotations

import math
from itertools import chain
from typing import NamedTuple

from parki.errors import ParkiValueError


class Source(NamedTuple):
    """One part of a density.

    Attributes
    ----------
    shape : tuple of int
        Shape for one point: a number, a vector or a tensor.
    decay : int
        Power of the inverse length in the promise.
    gradient : bool
        Whether it is spread with the window's gradient.
    curvature : bool
        Whether it is spread with the second derivatives of the window.
    normal : bool
        Whether it comes with a normal.
    axial : bool
        Whether it changes its sign where coordinates are mirrored.
    ball : bool
        Whether a sphere that carries it has the factor of a ball in k, ``1 - (k a)^2 / 10``, and
        not of a shell, ``1 - (k a)^2 / 6``.
    """

    shape: tuple[int, ...]
    decay: int = 1
    gradient: bool = False
    normal: bool = False
    axial: bool = False
    curvature: bool = False
    ball: bool = False

    @property
    def rows(self) -> int:
        """Rows of a density."""
        return math.prod(self.shape)


CHARGE = Source(())
FORCE = Source((3,))
TORQUE = Source((3,), decay=2, axial=True)
LAYER = Source((3,), decay=2, gradient=True, normal=True)
CHARGE_DIPOLE = Source((3,), decay=2, gradient=True)
DIPOLE = Source((3, 3), decay=2, gradient=True)
SPHERE_DIPOLE = DIPOLE._replace(ball=True)
QUADRUPOLE = Source((3, 3), decay=3, gradient=True, curvature=True)

_MULTIPOLES = CHARGE, CHARGE_DIPOLE, QUADRUPOLE
# The sources that a symbol of as many components takes, in this order; and a curl, which has three.
TAKEN: dict[object, tuple[tuple[Source, ...], ...]] = {
    1: ((CHARGE,), (CHARGE_DIPOLE,), _MULTIPOLES[:2], _MULTIPOLES),
    3: ((FORCE,), (TORQUE,), (DIPOLE,), (FORCE, DIPOLE)),
    4: ((LAYER,), (FORCE, LAYER)),
    "curl": ((TORQUE,),),
}


def fit(sources: tuple[Source, ...], structure: str, components: int) -> bool:
    """Return whether a symbol takes the sources, whatever the decay of the first one is."""

    def relative(sources: tuple[Source, ...]) -> list[Source]:
        return [s._replace(decay=s.decay - sources[0].decay, ball=False) for s in sources]

    return any(relative(sources) == relative(known) for known in _known(structure, components))


def takes(source: Source, structure: str, components: int) -> bool:
    """Return whether a symbol takes a source, perhaps next to others, whatever its decay is."""
    known = chain.from_iterable(_known(structure, components))
    return source._replace(decay=0, ball=False) in {other._replace(decay=0) for other in known}


def _known(structure: str, components: int) -> tuple[tuple[Source, ...], ...]:
    return TAKEN.get("curl" if structure == "curl" else components, ())


def check_sources(name: str, sources: tuple[Source, ...], structure: str, components: int) -> None:
    """Refuse sources that a symbol does not take; ``name`` says whose they are.

    Raises
    ------
    ParkiValueError
    """
    if not all(isinstance(source, Source) for source in sources):
        raise ParkiValueError(
            f"{name} has sources that are no tuple of Source; give one source as (source,)"
        )
    if not fit(sources, structure, components):
        raise ParkiValueError(
            f"{name} has sources that its symbol does not take: docs/adding-a-sum.md lists which "
            "go together"
        )
