"""Sums beside a wall without slip at x3 = 0: composites of sums of sources and of their images.

A force f at y, of height h, has its image at ``y* = (y1, y2, -h)``. With ``f* = (f1, f2, -f3)``

``u = G(x - y) f - G(x - y*) f* + x3 grad phi - e3 phi``,  ``p = p_G + 2 d phi / d x3``,

where phi is the potential of charges 2 f3 and dipoles -2 h f* at y*, and p_G the pressure of both
Stokeslets (Blake 1971, as Gimbutas, Greengard and Veerapaneni 2015 write it). See
``docs/theory.md``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Map, velocity


def images(points: Any, at: Arrays) -> Any:
    """Return points, or vectors, mirrored at the wall."""
    rows = points.copy()
    rows[2] *= -1
    return rows


def _against(dens: Any, at: Arrays) -> Any:
    return -images(dens, at)


def _charges(dens: Any, at: Arrays) -> Any:
    return 2 * dens[2:]


def _dipoles(dens: Any, at: Arrays) -> Any:
    return -2 * at["points"][2] * images(dens, at)


def _flow(found: Arrays, at: Arrays) -> Any:
    """Return ``x3 grad phi - e3 phi``, a flow of Stokes for any potential phi."""
    rows = at["points"][2] * found["grad_u"]
    rows[2] -= found["u"][0]
    return rows


def _pressure(found: Arrays, at: Arrays) -> Any:
    return found["p"]


def _pressure_of_flow(found: Arrays, at: Arrays) -> Any:
    return 2 * found["grad_u"][2:]


def _upwards(factor: float, dens: Any, at: Arrays) -> Any:
    """Return the flow that each force adds everywhere."""
    rows = np.zeros_like(dens)
    rows[2] = factor * dens[2]
    return rows


# What is wanted: shape; results of the single layer and of potentials, with their maps.
_WANTED: dict[Any, tuple[tuple[int, ...], tuple[tuple[str, ...], Map], tuple[Any, Map]]] = {
    "u": ((3,), (("u",), velocity), (("u", "grad_u"), _flow)),
    "p": ((), (("p",), _pressure), (("grad_u",), _pressure_of_flow)),
}


def beside_wall(kernel: Any, options: Any, want: Any = "u") -> Composite:
    """Return a sum beside the wall of options; refuse sums and results that parki lacks there.

    Raises
    ------
    ParkiValueError
    """
    if kernel != "stokes_sl" or not isinstance(want, str) or want not in _WANTED:
        name = kernel.name if isinstance(kernel, Composite) else kernel
        raise ParkiValueError(
            f"wall is {options.wall!r}, which {name} with want={want!r} does not have; beside a "
            "wall parki sums stokes_sl with want='u' or want='p'"
        )
    shape, layer, potential = _WANTED[want]
    everywhere = None
    if options.periodicity == 1 and want == "u":
        # What the gauge of one periodic axis leaves of the flow at the wall.
        everywhere = partial(_upwards, 6 / options.box[0])
    addends = (
        Addend("stokes_sl", *layer),
        Addend("stokes_sl", *layer, _against, images),
        Addend("laplace", *potential, _charges, images),
        Addend("laplace_dipole", *potential, _dipoles, images),
    )
    return Composite("stokes_sl beside a wall", (3,), shape, addends, everywhere)
