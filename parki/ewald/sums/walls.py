"""Sums near a wall without slip at x3 = 0: composites of sums of sources and of their images.

A force f at y, of height h over the wall, has its image at ``y* = (y1, y2, -h)``. Then

``u = G(x - y) f - G(x - y*) f + h grad chi + x3 grad phi - e3 phi``,  ``p = p_G + 2 d phi / d x3``,

where charges -2 f3 at y* have the potential chi, dipoles -2 h (f1, f2, -f3) there the potential
phi, and both Stokeslets the pressure p_G: the images of Blake (1971). Their forces add up to zero,
so that no gauge is left of them. Gradients, and derivatives by points, would take second
derivatives of chi and phi. For these the same flow has another form, Blake's own, of dipoles of
forces and of source doublets at y*:

``u = G(x - y) f - G(x - y*) f - 2 h (f* . grad) G(x - y*) e3 - 2 h^2 grad (f* . grad) 1 / R``

with ``f* = (f1, f2, -f3)`` and ``R = |x - y*|``. Dipoles of forces are derivatives of the flow by
y, and with h, and double layers add sinks. Spheres take the Laplacian of the flow by x and by y,
which quadrupoles of charges make: ``Q : grad grad (1 / R)`` is part of phi then. See
``docs/theory.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import gradient
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Curved, Map, velocity
from parki.ewald.sums.stress import stress

LONG = {"p": "pressure", "grad_u": "gradient", "stress": "stress"}


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
    """Return the dipoles of a double layer, whose other part are its sinks."""
    product = dens[:, None] * at["norms"]
    return -(product + product.swapaxes(0, 1))


def _sinks(dens: Any, at: Arrays) -> Any:
    return 2 * (dens * at["norms"]).sum(axis=0)


def _quadrupole_flow(found: Arrays, at: Arrays) -> Any:
    """Return ``x3 grad phi`` of quadrupoles, for dipoles of doublets, which point against it."""
    return -at["points"][2] * found["u"]


def _pressure_of_quadrupoles(found: Arrays, at: Arrays) -> Any:
    return -2 * found["u"][2:]


def _slopes_of_flow(found: Arrays, at: Arrays) -> Any:
    """Return the gradient of ``x3 grad phi - e3 phi``, for u = -grad phi and its gradient."""
    rows = -at["points"][2] * found["grad_u"]
    rows[2::3] -= found["u"]
    rows[6:] += found["u"]
    return rows


def _stress_of_flow(found: Arrays, at: Arrays) -> Any:
    return stress({"grad_u": _slopes_of_flow(found, at), "p": -2 * found["u"][2:]}, {})


def _slopes_of_potential(found: Arrays, at: Arrays) -> Any:
    """Return the gradient of grad phi, for the gradient of -grad phi."""
    return -found["grad_u"]


def _slopes_along(axis: int, found: Arrays, at: Arrays) -> Any:
    """Return one column of it for charges, for dipoles of these charges along an axis."""
    rows = np.zeros_like(found["grad_u"], shape=(9, found["grad_u"].shape[1]))
    rows[axis::3] = -found["grad_u"]
    return rows


def _doubled(of: Map, found: Arrays, at: Arrays) -> Any:
    """Return the stress of a potential flow, whose gradient is symmetric."""
    return 2 * of(found, at)


class _Images(NamedTuple):
    """The images of dipoles ``tensors`` of forces, and of ``sinks``: maps of densities."""

    tensors: Map
    sinks: Map | None

    def dipoles(self, dens: Any, at: Arrays) -> Any:
        """Return dipoles of forces."""
        rows = -self.tensors(dens, at)
        rows[:, 2] *= -1
        return rows.reshape(9, -1)

    def charges(self, dens: Any, at: Arrays) -> Any:
        """Return charges of a potential flow."""
        rows = -2 * self.tensors(dens, at)[2, 2:]
        return rows if self.sinks is None else rows - self.sinks(dens, at)

    def charges_along(self, axis: int, dens: Any, at: Arrays) -> Any:
        """Return dipoles that have the slope of these charges' potential along an axis."""
        rows = np.zeros_like(dens, shape=(3, dens.shape[-1]))
        rows[axis] = self.charges(dens, at)
        return rows

    def raised(self, dens: Any, at: Arrays) -> Any:
        """Return charges' dipoles of a potential flow."""
        return -2 * at["points"][2] * mirrored(self.tensors(dens, at)[2], at)

    def flow(self, dens: Any, at: Arrays) -> Any:
        """Return charges' dipoles of phi."""
        rows = -2 * mirrored(self.tensors(dens, at)[:, 2], at)
        if self.sinks is not None:
            rows[2] += 2 * self.sinks(dens, at)
        return rows

    def quadrupoles(self, dens: Any, at: Arrays) -> Any:
        """Return quadrupoles of phi."""
        rows = self.dipoles(dens, at)
        rows[6:] *= -1
        return 2 * at["points"][2] * rows

    def row(self, axis: int, dens: Any, at: Arrays) -> Any:
        """Return one row of them: dipoles that have their potential as a slope."""
        return self.quadrupoles(dens, at)[3 * axis : 3 * axis + 3]


def _of_dipoles(kernel: str, want: str, of: _Images) -> Composite:
    """Return a result of dipoles of forces, or of double layers."""
    density = (3,) if of.sinks else (3, 3)

    def images(*of_each: tuple[str, tuple[str, ...], Map, Map]) -> Iterator[Addend]:
        return (Addend(*each, mirrored) for each in of_each)

    def composite(result: tuple[int, ...], own: Map, *of_each: Any) -> Composite:
        needs = ("p", "grad_u") if want == "stress" else (want,)
        flow = Addend(kernel, needs, own), Addend("stokes_dipole", needs, own, of.dipoles, mirrored)
        name = kernel if want == "u" else f"{LONG[want]} of {kernel}"
        return Composite(f"{name} near a wall", density, result, (*flow, *images(*of_each)))

    both = ("u", "grad_u")
    if want == "u":
        of_rows = [("laplace_dipole", ("grad_u",), _ALONG[n], partial(of.row, n)) for n in range(3)]
        return composite(
            (3,),
            velocity,
            ("laplace", ("grad_u",), gradient, of.charges),
            ("laplace_dipole", ("grad_u",), gradient, of.raised),
            ("laplace_dipole", both, _flow, of.flow),
            *of_rows,
            ("doublet_dipole", ("u",), _quadrupole_flow, of.quadrupoles),
        )
    if want == "p":
        return composite(
            (),
            _pressure,
            ("laplace_dipole", ("grad_u",), _pressure_of_flow, of.flow),
            ("doublet_dipole", ("u",), _pressure_of_quadrupoles, of.quadrupoles),
        )
    own, flow, slopes = gradient, _slopes_of_flow, [_slopes_of_potential]
    slopes += [partial(_slopes_along, n) for n in range(3)]
    if want == "stress":
        own, flow, slopes = stress, _stress_of_flow, [partial(_doubled, each) for each in slopes]
    of_charges = [
        ("laplace_dipole", ("grad_u",), slopes[n + 1], partial(of.charges_along, n))
        for n in range(3)
    ]
    return composite(
        (3, 3),
        own,
        *of_charges,
        ("doublet", ("grad_u",), slopes[0], of.raised),
        ("doublet", both, flow, of.flow),
        ("doublet_dipole", both, flow, of.quadrupoles),
    )


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
    found = _of_forces(kernel, kernel, "u", *more)
    # There are three products with heights, one of them twice.
    return replace(found, areas=(("doublet_dipole", 2 * (c + 2 * share)),))


Wanted = dict[str, Callable[[], Composite]]
_KERNELS: dict[str, Wanted] = {
    "stokes_sl": {
        "u": partial(_of_forces, "stokes_sl", "stokes_sl", "u"),
        "p": partial(_of_forces, "pressure of stokes_sl", "stokes_sl", "p"),
        "grad_u": partial(_blake, "gradient of stokes_sl", ("grad_u",), gradient),
        "stress": partial(_blake, "stress of stokes_sl", ("p", "grad_u"), stress),
    },
    **{
        kernel: {want: partial(_of_dipoles, kernel, want, of) for want in ("u", *LONG)}
        for kernel, of in (
            ("stokes_dipole", _Images(_tensors, None)),
            ("stokes_dl", _Images(_layers, _sinks)),
        )
    },
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
            "parki sums stokes_sl, stokes_dipole and stokes_dl, with one of want='u', 'p', "
            "'grad_u' and 'stress'"
        )
    if moves and kernel == "stokes_sl":
        return _blake("stokes_sl", ("u",), velocity)
    return known[want]()
