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

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import gradient, half_curl
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Curved, Map, velocity
from parki.ewald.sums.names import named
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


# What each result needs of a sum in a fluid without a wall, its map, and its shape.
_WANTED: dict[str, tuple[tuple[str, ...], Map, tuple[int, ...]]] = {
    "u": (("u",), velocity, (3,)),
    "p": (("p",), _pressure, ()),
    "grad_u": (("grad_u",), gradient, (3, 3)),
    "stress": (("p", "grad_u"), stress, (3, 3)),
}
_LONG = {"u": "", "p": "pressure of ", "grad_u": "gradient of ", "stress": "stress of "}


def _name(kernel: str, want: str) -> str:
    return f"{_LONG[want]}{kernel} near a wall"


def _of_forces(kernel: str, want: str, *more: Addend) -> Composite:
    """Return the velocity or the pressure of forces, with ``more`` addends."""
    (_, own, result), of_flow = _WANTED[want], _flow if want == "u" else _pressure_of_flow
    flow = ("u", "grad_u") if want == "u" else ("grad_u",)
    addends = [
        Addend(kernel, (want,), own),
        Addend(kernel, (want,), own, _against, mirrored),
        Addend("laplace", ("grad_u",), gradient, _charges, mirrored),
        Addend("laplace_dipole", flow, of_flow, _dipoles, mirrored),
    ]
    if want == "p":
        del addends[2]  # a potential flow has none
    return Composite(_name(kernel, want), (3,), result, (*addends, *more))


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


def _blake(want: str) -> Composite:
    """Return the part of a wanted result that is the same of each sum: a velocity or tensors."""
    needs, own, result = _WANTED[want]
    flow = tuple(each for each in needs if each != "p")  # of doublets, which have no pressure
    return Composite(
        _name("stokes_sl", want),
        (3,),
        result,
        (
            Addend("stokes_sl", needs, own),
            Addend("stokes_sl", needs, own, _against, mirrored),
            Addend("stokes_dipole", needs, own, _force_dipoles, mirrored),
            Addend("doublet", flow, own, Curved(_doublets, _change_of_doublets), mirrored),
        ),
    )


# ------------------------------------------------------------------ potentials
class _Multipoles(NamedTuple):
    """Charges with dipoles and quadrupoles, of maps of densities; None where there are none."""

    charges: Map | None
    dipoles: Map
    quadrupoles: Map | None

    def rows(self, dens: Any, at: Arrays) -> Any:
        """Return the density of `multipoles`."""
        rows = np.zeros_like(dens, shape=(13, dens.shape[-1]))
        for each, part in zip(self, (slice(1), slice(1, 4), slice(4, 13)), strict=True):
            if each is not None:
                rows[part] = each(dens, at)
        return rows


def _potentials(
    charges: Map, raised: Map, lifted: Map | None, flow: Map, quadrupoles: Map | None
) -> list[Addend]:
    """Return the velocity of images.

    It is a potential flow of charges, ``raised`` dipoles and ``lifted`` quadrupoles, and the flow
    of phi of ``flow`` dipoles and quadrupoles.
    """
    own, phi = _Multipoles(charges, raised, lifted), _Multipoles(None, flow, quadrupoles)
    return [
        Addend("multipoles", ("grad_u",), gradient, own.rows, mirrored),
        Addend("multipoles", ("u", "grad_u"), _flow, phi.rows, mirrored),
    ]


def _traction(found: Arrays, at: Arrays) -> Any:
    """Return ``-sigma n``, sigma the stress."""
    return -(found["stress"].reshape(3, 3, -1) * at["norms"]).sum(axis=1)


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


def _potential_flow(found: Arrays, at: Arrays) -> Any:
    """Return the potential flow of quadrupoles."""
    return -found["u"]


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


def _dipoles_along(charges: Map, axis: int, dens: Any, at: Arrays) -> Any:
    """Return dipoles that have the slope of charges' potential along an axis."""
    rows = np.zeros_like(dens, shape=(3, dens.shape[-1]))
    rows[axis] = charges(dens, at)
    return rows


def _slopes(want: str, charges: Map, raised: Map, flow: Map, quadrupoles: Map) -> list[Addend]:
    """Return the gradient or the stress of images, of maps of densities.

    Charges and ``raised`` dipoles have a potential flow, and ``flow`` dipoles and quadrupoles phi.
    """
    both, of_flow, potential = ("u", "grad_u"), _slopes_of_flow, [_slopes_of_potential]
    potential += [partial(_slopes_along, n) for n in range(3)]
    if want == "stress":
        of_flow, potential = _stress_of_flow, [partial(_doubled, each) for each in potential]
    of_charges = [
        Addend(
            "laplace_dipole",
            ("grad_u",),
            potential[n + 1],
            partial(_dipoles_along, charges, n),
            mirrored,
        )
        for n in range(3)
    ]
    return [
        *of_charges,
        Addend("doublet", ("grad_u",), potential[0], raised, mirrored),
        Addend("doublet", both, of_flow, flow, mirrored),
        Addend("doublet_dipole", both, of_flow, quadrupoles, mirrored),
    ]


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


def _of_dipoles(kernel: str, want: str, of: _Images, transposed: bool = False) -> Composite:
    """Return a result of dipoles of forces, or of double layers.

    If ``transposed``, it is of sums that have transposes.
    """
    needs, own, result = _WANTED[want]
    addends = [
        Addend(kernel, needs, own),
        Addend("stokes_dipole", needs, own, of.dipoles, mirrored),
    ]
    back = None
    if want == "u" and not transposed:
        addends += _potentials(of.charges, of.raised, None, of.flow, of.quadrupoles)
        # A force at x makes at y what the transpose is of: its gradient, or a traction.
        back = ("stokes_sl", "stress", _traction) if of.sinks else ("stokes_sl", "grad_u", gradient)
    elif want == "u":
        along = [(_ALONG[n], partial(of.row, n)) for n in range(3)]
        addends += [
            Addend("laplace", ("grad_u",), gradient, of.charges, mirrored),
            Addend("laplace_dipole", ("grad_u",), gradient, of.raised, mirrored),
            Addend("laplace_dipole", ("u", "grad_u"), _flow, of.flow, mirrored),
            *(Addend("laplace_dipole", ("grad_u",), *maps, mirrored) for maps in along),
            Addend("doublet_dipole", ("u",), _quadrupole_flow, of.quadrupoles, mirrored),
        ]
    elif want == "p":
        maps = _pressure_of_quadrupoles, of.quadrupoles, mirrored
        addends += [
            Addend("laplace_dipole", ("grad_u",), _pressure_of_flow, of.flow, mirrored),
            Addend("doublet_dipole", ("u",), *maps),
        ]
    else:
        addends += _slopes(want, of.charges, of.raised, of.flow, of.quadrupoles)
    density = (3,) if of.sinks else (3, 3)
    return Composite(_name(kernel, want), density, result, tuple(addends), transposed=back)


# ------------------------------------------------------------------ spheres
def _of_spheres(
    kernel: str, radius: float, source_radius: float, up: int, want: str, transposed: bool = False
) -> Composite:
    """Return velocities of spheres, or other results at points, by forces on other spheres.

    With ``c = 2 b^2 / 3``, b the sources' radius, sources have quadrupoles ``c e3 f*`` more in phi,
    and dipoles ``c f3 e3`` of a potential flow. ``a^2 / 3`` times the slope along x3 of grad phi is
    what a target of radius a feels more.
    """
    share, c = radius**2 / 3, 2 * source_radius**2 / 3

    def axial(dens: Any, at: Arrays) -> Any:
        rows = np.zeros_like(dens)
        rows[2] = c * dens[2]
        return rows

    def quadrupoles(dens: Any, at: Arrays) -> Any:
        return _across(c * mirrored(dens, at))

    def lifted(dens: Any, at: Arrays) -> Any:
        return _across(-share * _dipoles(dens, at))

    def level(dens: Any, at: Arrays) -> Any:
        return c * mirrored(dens, at)

    def of_level(found: Arrays, at: Arrays) -> Any:
        return _quadrupole_flow(found, at) - share * found["grad_u"][2::3]

    def rising(found: Arrays, at: Arrays) -> Any:
        return share * c * found["u"]

    more: list[Addend] = []
    if want == "p":
        if c:
            maps = _pressure_of_quadrupoles, quadrupoles, mirrored
            more = [Addend("doublet_dipole", ("u",), *maps)]
        return _of_forces(kernel, "p", *more)
    if want != "u":
        needs, own, result = _WANTED[want]
        addends = [
            Addend(kernel, needs, own),
            Addend(kernel, needs, own, _against, mirrored),
            *_slopes(want, _charges, axial, _dipoles, quadrupoles),
        ]
        return Composite(_name(kernel, want), (3,), result, tuple(addends))
    needs, own, result = _WANTED["u"]
    if transposed:
        more = [
            Addend("laplace_dipole", ("grad_u",), gradient, axial, mirrored),
            Addend("laplace_dipole", ("grad_u",), _ALONG[2], level, mirrored),
            Addend("doublet_dipole", ("u", "grad_u"), of_level, quadrupoles, mirrored),
            Addend("doublet_dipole", ("u",), _potential_flow, lifted, mirrored),
        ]
        return _of_forces(kernel, "u", *more)
    addends = [
        Addend(kernel, needs, own),
        Addend(kernel, needs, own, _against, mirrored),
        *_potentials(_charges, axial, lifted, _dipoles, quadrupoles),
    ]
    if share and c:
        addends.append(Addend(named("octupole", up=up), ("u",), rising, mirrored, mirrored))
    return Composite(
        _name(kernel, "u"),
        (3,),
        result,
        tuple(addends),
        ((named("octupole", up=up), (share * c) ** 0.25, 4),),
        transposed=(named("sphere_sl", radius=source_radius, source_radius=radius), "u", velocity),
    )


def _across_normal(times: float, name: str, found: Arrays, at: Arrays) -> Any:
    """Return ``times e3 x`` a vector: half the curl of ``x3 grad phi - e3 phi``, of grad phi."""
    rows = np.zeros_like(found[name])
    rows[0], rows[1] = -times * found[name][1], times * found[name][0]
    return rows


def _curl(found: Arrays, at: Arrays) -> Any:
    return 2 * half_curl(found, at)


def _spin(dens: Any, at: Arrays) -> Any:
    """Return torques t as dipoles of forces, ``D_ik = eps_ijk t_j / 2``."""
    rows = np.zeros_like(dens, shape=(3, 3, dens.shape[-1]))
    for j in range(3):
        i, k = (j + 2) % 3, (j + 1) % 3
        rows[k, i], rows[i, k] = -dens[j] / 2, dens[j] / 2
    return rows


def _of_turns(kernel: str, addends: list[Addend], times: float, flow: Map, level: Map) -> Composite:
    """Return turns, ``times`` half the curl, with phi of ``flow`` dipoles and quadrupoles.

    A potential flow does not turn.
    """
    of_flow, of_level = (
        partial(_across_normal, times, "grad_u"),
        partial(_across_normal, -times, "u"),
    )
    addends += [
        Addend("laplace_dipole", ("grad_u",), of_flow, flow, mirrored),
        Addend("doublet_dipole", ("u",), of_level, level, mirrored),
    ]
    return Composite(_name(kernel, "u"), (3,), (3,), tuple(addends))


def _turns_of_forces(kernel: str, source_radius: float) -> Composite:
    def quadrupoles(dens: Any, at: Arrays) -> Any:
        return _across(2 * source_radius**2 / 3 * mirrored(dens, at))

    own = Addend(kernel, ("u",), velocity), Addend(kernel, ("u",), velocity, _against, mirrored)
    return _of_turns(kernel, [*own], 1.0, _dipoles, quadrupoles)


def _turns_of_torques(kernel: str) -> Composite:
    of = _Images(_spin, None)
    image = Addend("stokes_dipole", ("grad_u",), _curl, of.dipoles, mirrored)
    addends = [Addend(kernel, ("u",), velocity), image]
    return _of_turns(kernel, addends, 2.0, of.flow, of.quadrupoles)


Wanted = dict[str, Callable[..., Composite]]
_DIPOLES = {"stokes_dipole": _Images(_tensors, None), "stokes_dl": _Images(_layers, _sinks)}
_KERNELS: dict[str, Wanted] = {
    "stokes_sl": {
        **{want: partial(_of_forces, "stokes_sl", want) for want in ("u", "p")},
        **{want: partial(_blake, want) for want in ("grad_u", "stress")},
    },
    **{
        kernel: {want: partial(_of_dipoles, kernel, want, of) for want in _WANTED}
        for kernel, of in _DIPOLES.items()
    },
}


def near_wall(
    kernel: Any, wall: Any, want: Any = "u", *, up: int = 2, by: Iterable[str] = ()
) -> Composite:
    """Return a sum near a wall; refuse sums and results that parki does not have there.

    It is the form that takes the least time, of those that have derivatives ``by`` these inputs.
    ``up`` is the place of the wall's normal in the solver's order of axes.

    Raises
    ------
    ParkiValueError
    """
    known: Wanted = {}
    if isinstance(kernel, str):
        known, shells = _KERNELS.get(kernel, {}), SUMS[kernel].symbol.shells
        if shells and shells[1].turns:
            known = {"u": partial(_turns_of_torques, kernel)}
        elif shells and shells[0].turns:
            known = {"u": partial(_turns_of_forces, kernel, shells[1].radius)}
        elif shells:
            radii = shells[0].radius, shells[1].radius
            results = ("u",) if radii[0] else tuple(_WANTED)
            known = {name: partial(_of_spheres, kernel, *radii, up, name) for name in results}
    if not isinstance(want, str) or want not in known:
        name = kernel.name if isinstance(kernel, Composite) else kernel
        raise ParkiValueError(
            f"wall is {wall!r}, which {name} with want={want!r} does not have; near a wall "
            "parki sums stokes_sl, stokes_dipole and stokes_dl, with one of want='u', 'p', "
            "'grad_u' and 'stress'"
        )
    if kernel == "stokes_sl" and {*by} - {"dens"}:
        return _blake("u")
    both = kernel in _DIPOLES or bool(shells and not shells[0].turns)
    return known[want](transposed=True) if by and both else known[want]()
