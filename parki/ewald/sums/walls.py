"""Sums near a wall without slip at x3 = 0: composites of sums of sources and of their images.

A force f at y, of height h over the wall, has its image at ``y* = (y1, y2, -h)``. Then

``u = G(x - y) f - G(x - y*) f + h grad chi + x3 grad phi - e3 phi``,  ``p = p_G + 2 d phi / d x3``,

where charges -2 f3 at y* have the potential chi, dipoles -2 h (f1, f2, -f3) there the potential
phi, and both Stokeslets the pressure p_G: the images of Blake (1971). Their forces add up to zero,
so that no gauge is left of them. Gradients, and derivatives by points, would take second
derivatives of chi and phi. So they are those of the same flow in another form, Blake's own, of
dipoles of forces and of source doublets at y*:

``u = G(x - y) f - G(x - y*) f - 2 h (f* . grad) G(x - y*) e3 - 2 h^2 grad (f* . grad) 1 / R``

with ``f* = (f1, f2, -f3)`` and ``R = |x - y*|``. Dipoles of forces are derivatives of the flow by
y, and with h, and double layers add sinks. Spheres take the Laplacian of the flow by x and by y,
which quadrupoles of charges make: ``Q : grad grad (1 / R)`` is part of phi then. See
``docs/theory.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums import SUMS
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


def _of_forces(name: str, kernel: str, want: str, *more: Addend) -> Composite:
    """Return the velocity or the pressure of forces, with ``more`` addends."""
    own, of_flow = (velocity, _flow) if want == "u" else (_pressure, _pressure_of_flow)
    flow = ("u", "grad_u") if want == "u" else ("grad_u",)
    addends = [
        Addend(kernel, (want,), own),
        Addend(kernel, (want,), own, _against, mirrored),
        Addend("laplace", ("grad_u",), gradient, _charges, mirrored),
        Addend("laplace_dipole", flow, of_flow, _dipoles, mirrored),
    ]
    if want == "p":
        del addends[2]  # a potential flow has none
    result = (3,) if want == "u" else ()
    return Composite(f"{name} near a wall", (3,), result, (*addends, *more))


def _along(axis: int, found: Arrays, at: Arrays) -> Any:
    """Return ``e3`` times a slope: quadrupoles have the potential that dipoles lose along it."""
    rows = np.zeros_like(found["grad_u"])
    rows[2] = found["grad_u"][axis]
    return rows


_ALONG = tuple(partial(_along, axis) for axis in range(3))


# ------------------------------------------------------------------ Blake's own form
def _force_dipoles(dens: Any, at: Arrays) -> Any:
    return _across(2 * at["points"][2] * mirrored(dens, at))


def _across(vectors: Any) -> Any:
    """Return the dipoles ``e3 v^T``."""
    rows = np.zeros_like(vectors, shape=(9, vectors.shape[1]))
    rows[6:] = vectors
    return rows


def _doublets(dens: Any, at: Arrays) -> Any:
    return -2 * at["points"][2] ** 2 * mirrored(dens, at)


def _change_of_doublets(dens: Any, at: Arrays, moves: Arrays) -> Any:
    return -4 * at["points"][2] * moves["points"][2] * mirrored(dens, at)


def _blake(name: str, want: tuple[str, ...], results: Map) -> Composite:
    """Return what is found in the same way of each sum: a velocity or tensors."""
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


# ------------------------------------------------------------------ dipoles of forces
def _tensors(dens: Any, at: Arrays) -> Any:
    """Return dipoles D as (3, 3, N)."""
    return dens.reshape(3, 3, dens.shape[-1])


def _layers(dens: Any, at: Arrays) -> Any:
    """Return the dipoles of a double layer, which has sinks ``2 q.n`` besides."""
    product = dens[:, None] * at["norms"]
    return -(product + product.swapaxes(0, 1))


def _sinks(dens: Any, at: Arrays) -> Any:
    return 2 * (dens * at["norms"]).sum(axis=0)


def _quadrupole_flow(found: Arrays, at: Arrays) -> Any:
    """Return ``x3 grad phi`` of quadrupoles, for dipoles of doublets, which point against it."""
    return -at["points"][2] * found["u"]


def _pressure_of_quadrupoles(found: Arrays, at: Arrays) -> Any:
    return -2 * found["u"][2:]


def _of_dipoles(kernel: str, want: str, tensors: Map, sinks: Map | None = None) -> Composite:
    """Return the velocity or the pressure of dipoles of forces, or of double layers."""

    def image(dens: Any, at: Arrays) -> Any:
        rows = -tensors(dens, at)
        rows[:, 2] *= -1
        return rows.reshape(9, -1)

    def charges(dens: Any, at: Arrays) -> Any:
        rows = -2 * tensors(dens, at)[2, 2:]
        return rows if sinks is None else rows - sinks(dens, at)

    def dipoles(dens: Any, at: Arrays) -> Any:
        return -2 * at["points"][2] * mirrored(tensors(dens, at)[2], at)

    def flow(dens: Any, at: Arrays) -> Any:
        rows = -2 * mirrored(tensors(dens, at)[:, 2], at)
        if sinks is not None:
            rows[2] += 2 * sinks(dens, at)
        return rows

    def quadrupoles(dens: Any, at: Arrays) -> Any:
        rows = image(dens, at)
        rows[6:] *= -1
        return 2 * at["points"][2] * rows

    def row(axis: int) -> Map:
        return lambda dens, at: quadrupoles(dens, at)[3 * axis : 3 * axis + 3]

    own = velocity if want == "u" else _pressure
    addends = [Addend(kernel, (want,), own), Addend("stokes_dipole", (want,), own, image, mirrored)]
    if want == "u":
        addends += [
            Addend("laplace", ("grad_u",), gradient, charges, mirrored),
            Addend("laplace_dipole", ("grad_u",), gradient, dipoles, mirrored),
            Addend("laplace_dipole", ("u", "grad_u"), _flow, flow, mirrored),
            *(Addend("laplace_dipole", ("grad_u",), _ALONG[n], row(n), mirrored) for n in range(3)),
            Addend("doublet_dipole", ("u",), _quadrupole_flow, quadrupoles, mirrored),
        ]
    else:
        addends += [
            Addend("laplace_dipole", ("grad_u",), _pressure_of_flow, flow, mirrored),
            Addend("doublet_dipole", ("u",), _pressure_of_quadrupoles, quadrupoles, mirrored),
        ]
    density, result = (3,) if sinks else (3, 3), (3,) if want == "u" else ()
    name = f"{'' if want == 'u' else 'pressure of '}{kernel} near a wall"
    return Composite(name, density, result, tuple(addends))


# ------------------------------------------------------------------ spheres
def _of_spheres(kernel: str, radius: float, source_radius: float, want: str) -> Composite:
    """Return velocities of spheres, or the pressure, by forces on spheres of another radius.

    With ``c = 2 b^2 / 3``, b the sources' radius, sources have quadrupoles ``c e3 f*`` more in phi,
    and dipoles ``c f3 e3`` of a potential flow. ``a^2 / 3`` times the slope along x3 of grad phi is
    what a target of radius a feels more.
    """
    share, c = radius**2 / 3, 2 * source_radius**2 / 3

    def axial(dens: Any, at: Arrays) -> Any:
        rows = np.zeros_like(dens)
        rows[2] = c * dens[2]
        return rows

    def level(dens: Any, at: Arrays) -> Any:
        return c * mirrored(dens, at)

    def quadrupoles(dens: Any, at: Arrays) -> Any:
        return _across(c * mirrored(dens, at))

    def rising(found: Arrays, at: Arrays) -> Any:
        return -at["points"][2] * found["u"] - share * found["grad_u"][2::3]

    def dipoles(dens: Any, at: Arrays) -> Any:
        return _across(_dipoles(dens, at))

    def felt(found: Arrays, at: Arrays) -> Any:
        return share * found["u"]

    more: list[Addend] = []
    if want == "p":
        if c:
            maps = _pressure_of_quadrupoles, quadrupoles, mirrored
            more = [Addend("doublet_dipole", ("u",), *maps)]
        return _of_forces(f"pressure of {kernel}", kernel, "p", *more)
    if c:
        slopes = ("u", "grad_u") if share else ("u",)
        moved = rising if share else _quadrupole_flow
        more = [
            Addend("laplace_dipole", ("grad_u",), gradient, axial, mirrored),
            Addend("laplace_dipole", ("grad_u",), _ALONG[2], level, mirrored),
            Addend("doublet_dipole", slopes, moved, quadrupoles, mirrored),
        ]
    if share:
        more.append(Addend("doublet_dipole", ("u",), felt, dipoles, mirrored))
    return _of_forces(kernel, kernel, "u", *more)


Wanted = dict[str, Callable[[], Composite]]
_KERNELS: dict[str, Wanted] = {
    "stokes_sl": {
        "u": partial(_of_forces, "stokes_sl", "stokes_sl", "u"),
        "p": partial(_of_forces, "pressure of stokes_sl", "stokes_sl", "p"),
        "grad_u": partial(_blake, "gradient of stokes_sl", ("grad_u",), gradient),
        "stress": partial(_blake, "stress of stokes_sl", ("p", "grad_u"), stress),
    },
    "stokes_dipole": {n: partial(_of_dipoles, "stokes_dipole", n, _tensors) for n in ("u", "p")},
    "stokes_dl": {n: partial(_of_dipoles, "stokes_dl", n, _layers, _sinks) for n in ("u", "p")},
}


def near_wall(kernel: Any, wall: Any, want: Any = "u", *, moves: bool = False) -> Composite:
    """Return a sum near a wall; refuse sums and results that parki does not have there.

    With ``moves`` it is the form of the velocity that has derivatives by points, if there is one.

    Raises
    ------
    ParkiValueError
    """
    known: Wanted = {}
    if isinstance(kernel, str):
        known, shells = _KERNELS.get(kernel, {}), SUMS[kernel].symbol.shells
        if shells and not (shells[0].turns or shells[1].turns):
            radii = shells[0].radius, shells[1].radius
            results = ("u",) if radii[0] else ("u", "p")
            known = {name: partial(_of_spheres, kernel, *radii, name) for name in results}
    if not isinstance(want, str) or want not in known:
        name = kernel.name if isinstance(kernel, Composite) else kernel
        raise ParkiValueError(
            f"wall is {wall!r}, which {name} with want={want!r} does not have; near a wall "
            "parki sums stokes_sl, with want='u', 'p', 'grad_u' or 'stress', and stokes_dipole "
            "and stokes_dl, with want='u' or 'p'"
        )
    if moves and kernel == "stokes_sl":
        return _blake("stokes_sl", ("u",), velocity)
    return known[want]()
