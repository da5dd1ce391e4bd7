"""Sums near a wall without slip at x3 = 0: composites of sums of sources and of their images.

A force f at y, of height h over the wall, has its image at ``y* = (y1, y2, -h)``. Then

``u = G(x - y) f - G(x - y*) f + h grad chi + x3 grad phi - e3 phi``,  ``p = p_G + 2 d phi / d x3``,

where charges -2 f3 at y* have the potential chi, dipoles -2 h (f1, f2, -f3) there the potential
phi, and both Stokeslets the pressure p_G: the images of Blake (1971). Their forces add up to zero,
so that no gauge is left of them. Gradients, and derivatives by points, would take second
derivatives of chi and phi. So they are those of the same flow in another form, Blake's own, of
dipoles of forces and of source doublets at y*:

``u = G(x - y) f - G(x - y*) f - 2 h (f* . grad) G(x - y*) e3 - 2 h^2 grad (f* . grad) 1 / R``

with ``f* = (f1, f2, -f3)`` and ``R = |x - y*|``. See ``docs/theory.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums.adjoint import gradient
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Curved, Map, velocity
from parki.ewald.sums.stress import stress


def mirrored(vectors: Any, at: Arrays) -> Any:
    """Return points, or other vectors, mirrored at the wall."""
    rows = vectors.copy()
    rows[2] *= -1
    return rows


def _against(dens: Any, at: Arrays) -> Any:
    return -dens


def _charges(dens: Any, at: Arrays) -> Any:
    return -2 * at["points"][2] * dens[2:]


def _dipoles(dens: Any, at: Arrays) -> Any:
    return -2 * at["points"][2] * mirrored(dens, at)


def _flow(found: Arrays, at: Arrays) -> Any:
    """Return ``x3 grad phi - e3 phi``, a flow of Stokes for any potential phi."""
    rows = at["points"][2] * found["grad_u"]
    rows[2] -= found["u"][0]
    return rows


def _pressure(found: Arrays, at: Arrays) -> Any:
    return found["p"]


def _pressure_of_flow(found: Arrays, at: Arrays) -> Any:
    return 2 * found["grad_u"][2:]


def _force_dipoles(dens: Any, at: Arrays) -> Any:
    rows = np.zeros_like(dens, shape=(9, dens.shape[1]))
    rows[6:] = 2 * at["points"][2] * mirrored(dens, at)
    return rows


def _doublets(dens: Any, at: Arrays) -> Any:
    return -2 * at["points"][2] ** 2 * mirrored(dens, at)


def _change_of_doublets(dens: Any, at: Arrays, moves: Arrays) -> Any:
    return -4 * at["points"][2] * moves["points"][2] * mirrored(dens, at)


def _blake(name: str, want: tuple[str, ...], results: Map) -> Composite:
    """Return what is found in the same way of each sum of Blake's form, (3, 3) or a velocity."""
    flow = tuple(each for each in want if each != "p")  # of doublets, which have no pressure
    return Composite(
        f"{name} near a wall",
        (3,),
        (3,) if results is velocity else (3, 3),
        (
            Addend("stokes_sl", want, results),
            Addend("stokes_sl", want, results, _against, mirrored),
            Addend("stokes_dipole", want, results, _force_dipoles, mirrored),
            Addend("doublet", flow, results, Curved(_doublets, _change_of_doublets), mirrored),
        ),
    )


_MOVES = _blake("stokes_sl", ("u",), velocity)
_WANTED = {
    "u": Composite(
        "stokes_sl near a wall",
        (3,),
        (3,),
        (
            Addend("stokes_sl", ("u",), velocity),
            Addend("stokes_sl", ("u",), velocity, _against, mirrored),
            Addend("laplace", ("grad_u",), gradient, _charges, mirrored),
            Addend("laplace_dipole", ("u", "grad_u"), _flow, _dipoles, mirrored),
        ),
    ),
    "p": Composite(
        "pressure of stokes_sl near a wall",
        (3,),
        (),
        (
            Addend("stokes_sl", ("p",), _pressure),
            Addend("stokes_sl", ("p",), _pressure, _against, mirrored),
            Addend("laplace_dipole", ("grad_u",), _pressure_of_flow, _dipoles, mirrored),
        ),
    ),
    "grad_u": _blake("gradient of stokes_sl", ("grad_u",), gradient),
    "stress": _blake("stress of stokes_sl", ("p", "grad_u"), stress),
}


def near_wall(kernel: Any, wall: Any, want: Any = "u", *, moves: bool = False) -> Composite:
    """Return a sum near a wall; refuse sums and results that parki does not have there.

    With ``moves`` it is the form of the velocity that has derivatives by points.

    Raises
    ------
    ParkiValueError
    """
    if kernel != "stokes_sl" or not isinstance(want, str) or want not in _WANTED:
        name = kernel.name if isinstance(kernel, Composite) else kernel
        raise ParkiValueError(
            f"wall is {wall!r}, which {name} with want={want!r} does not have; near a wall "
            "parki sums stokes_sl, with want='u', 'p', 'grad_u' or 'stress'"
        )
    return _MOVES if moves else _WANTED[want]
