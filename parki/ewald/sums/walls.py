"""Sums near a wall without slip at x3 = 0: composites of sums of sources and of their images.

A force f at y, of height h over the wall, has its image at ``y* = (y1, y2, -h)``. With
``f* = (f1, f2, -f3)``

``u = G(x - y) f - G(x - y*) f* + x3 grad phi - e3 phi``,  ``p = p_G + 2 d phi / d x3``,

where charges 2 f3 and dipoles -2 h f* at y* have the potential phi, and both Stokeslets the
pressure p_G: the images of Gimbutas, Greengard and Veerapaneni (2015). Dipoles of forces are
derivatives of the flow by y, and with h, and double layers add sinks. So every sum near a wall is
the sum itself, of sources and of their images, and one sum of `parki.ewald.sums.multipoles` or of
their flow. Spheres take the Laplacian of the flow by x and by y, which quadrupoles make.

Derivatives by points would take third derivatives of phi. For these the same flow has another form,
by Blake (1971), of dipoles of forces and of source doublets at y*:

``u = G(x - y) f - G(x - y*) f - 2 h (f* . grad) G(x - y*) e3 - 2 h^2 grad (f* . grad) 1 / R``

with ``R = |x - y*|``. See ``docs/theory.md``.
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
from parki.ewald.sums.maps import Arrays, Curved, Map, mapped, velocity
from parki.ewald.sums.names import named
from parki.ewald.sums.results import LONG, OWN
from parki.ewald.sums.stress import stress


def mirrored(vectors: Any, at: Arrays) -> Any:
    """Return points, or other vectors, mirrored at the wall."""
    rows = vectors.copy()
    rows[2] *= -1
    return rows


def _against(dens: Any, at: Arrays) -> Any:
    return -mirrored(dens, at)


def _charges(dens: Any, at: Arrays) -> Any:
    return 2 * dens[2:]


def _dipoles(dens: Any, at: Arrays) -> Any:
    return -2 * at["points"][2] * mirrored(dens, at)


# ------------------------------------------------------------------ results of phi
def _flow(found: Arrays, at: Arrays) -> Any:
    """Return ``x3 grad phi - e3 phi``, a flow of Stokes for any potential phi."""
    rows = at["points"][2] * found["grad_u"]
    rows[2] -= found["u"][0]
    return rows


def _pressure_of_flow(found: Arrays, at: Arrays) -> Any:
    return 2 * found["grad_u"][2:]


def _slopes_of_flow(found: Arrays, at: Arrays) -> Any:
    """Return the gradient of the flow, for u = grad phi and its gradient."""
    rows = at["points"][2] * found["grad_u"]
    rows[2::3] += found["u"]
    rows[6:] -= found["u"]
    return rows


def _stress_of_flow(found: Arrays, at: Arrays) -> Any:
    return stress({"grad_u": _slopes_of_flow(found, at), "p": 2 * found["u"][2:]}, {})


class _Want(NamedTuple):
    """A result: what it needs of a sum in a fluid without a wall, its map, and its shape.

    And the family of sums of phi, what is needed of them, and the map of this.
    """

    needs: tuple[str, ...]
    own: Map
    shape: tuple[int, ...]
    family: str
    of_phi: tuple[str, ...]
    flow: Map


_BOTH = ("u", "grad_u")
_WANTED = {
    "u": _Want(*OWN["u"], (3,), "multipoles", _BOTH, _flow),
    "p": _Want(*OWN["p"], (), "multipoles", _BOTH[1:], _pressure_of_flow),
    "grad_u": _Want(*OWN["grad_u"], (3, 3), "multipole_flow", _BOTH, _slopes_of_flow),
    "stress": _Want(*OWN["stress"], (3, 3), "multipole_flow", _BOTH, _stress_of_flow),
}


class _Images(NamedTuple):
    """What a sum has at y*: maps of its densities, to densities of its own and to phi's.

    ``normals`` are the map of normals, where there are any.
    """

    own: Map
    charges: Map | None
    dipoles: Map | None
    quadrupoles: Map | None = None
    normals: Map | None = None

    def rows(self, dens: Any, at: Arrays) -> Any:
        """Return the density of the multipoles of phi."""
        rows = np.zeros_like(dens, shape=(4 if self.quadrupoles is None else 13, dens.shape[-1]))
        each = self.charges, self.dipoles, self.quadrupoles
        for made, part in zip(each, (slice(1), slice(1, 4), slice(4, 13)), strict=True):
            if made is not None:
                rows[part] = made(dens, at)
        return rows

    def phi(self, needs: tuple[str, ...], flow: Map, family: str = "multipoles") -> Addend:
        """Return the flow that phi makes."""
        name = named(family, order=1 if self.quadrupoles is None else 2)
        return Addend(name, needs, flow, self.rows, mirrored)

    def addends(self, kernel: str, want: str) -> list[Addend]:
        """Return the sum and its images, without phi."""
        needs, own, *_ = _WANTED[want]
        images = Addend(kernel, needs, own, self.own, mirrored, self.normals)
        return [Addend(kernel, needs, own), images]


def _near(
    kernel: str, want: str, of: _Images, more: Iterable[Addend] = (), **others: Any
) -> Composite:
    """Return a result of a sum near a wall, with ``more`` addends."""
    wanted = _WANTED[want]
    addends = *of.addends(kernel, want), of.phi(wanted.of_phi, wanted.flow, wanted.family), *more
    return _composite(kernel, want, addends, **others)


def _composite(
    kernel: str,
    want: str,
    addends: Iterable[Addend],
    density: tuple[int, ...] = (3,),
    **others: Any,
) -> Composite:
    name, shape = f"{LONG[want]}{kernel} near a wall", _WANTED[want].shape
    return Composite(name, density, shape, tuple(addends), walled=True, **others)


_FORCES = _Images(_against, _charges, _dipoles)


def _of_forces(want: str) -> Composite:
    back = ("stokes_dipole", "u", velocity) if want == "grad_u" else None
    return _near("stokes_sl", want, _FORCES, transposed=back)


# ------------------------------------------------------------------ Blake's own form
def _opposite(dens: Any, at: Arrays) -> Any:
    return -dens


def _across(vectors: Any) -> Any:
    """Return the dipoles ``e3 v^T``."""
    rows = np.zeros_like(vectors, shape=(9, vectors.shape[1]))
    rows[6:] = vectors
    return rows


def _force_dipoles(dens: Any, at: Arrays) -> Any:
    return _across(-_dipoles(dens, at))


def _doublets(dens: Any, at: Arrays) -> Any:
    return -2 * at["points"][2] ** 2 * mirrored(dens, at)


def _change_of_doublets(dens: Any, at: Arrays, moves: Arrays) -> Any:
    return -4 * at["points"][2] * moves["points"][2] * mirrored(dens, at)


def _blake() -> Composite:
    doublets, of_u = Curved(_doublets, _change_of_doublets), (("u",), velocity)
    addends = (
        Addend("stokes_sl", *of_u),
        Addend("stokes_sl", *of_u, _opposite, mirrored),
        Addend("stokes_dipole", *of_u, _force_dipoles, mirrored),
        Addend("doublet", *of_u, doublets, mirrored),
    )
    return _composite("stokes_sl", "u", addends)


# ------------------------------------------------------------------ dipoles of forces
def _tensors(dens: Any, at: Arrays) -> Any:
    """Return dipoles D as (3, 3, N)."""
    return dens.reshape(3, 3, dens.shape[-1])


def _layers(dens: Any, at: Arrays) -> Any:
    """Return the dipoles of a double layer, whose other part are its sinks."""
    product = dens[:, None] * at["norms"]
    return -(product + product.swapaxes(0, 1))


def _spin(dens: Any, at: Arrays) -> Any:
    """Return torques t as dipoles of forces, ``D_ik = eps_ijk t_j / 2``."""
    rows = np.zeros_like(dens, shape=(3, 3, dens.shape[-1]))
    for j in range(3):
        i, k = (j + 2) % 3, (j + 1) % 3
        rows[k, i], rows[i, k] = -dens[j] / 2, dens[j] / 2
    return rows


def _reflected(tensors: Map, dens: Any, at: Arrays) -> Any:
    """Return the dipoles at y*, ``-P D P`` with ``P = diag(1, 1, -1)``."""
    rows = -tensors(dens, at)
    rows[2] *= -1
    rows[:, 2] *= -1
    return rows.reshape(9, -1)


def _slope_of_dipoles(tensors: Map, dens: Any, at: Arrays) -> Any:
    """Return phi's dipoles: of charges that are apart, and of dipoles as heights change."""
    rows = tensors(dens, at)
    return mirrored(2 * (rows[2] - rows[:, 2]), at)


def _slope_of_heights(tensors: Map, dens: Any, at: Arrays) -> Any:
    """Return phi's quadrupoles."""
    return 2 * at["points"][2] * _reflected(tensors, dens, at)


def _sinks(dens: Any, at: Arrays) -> Any:
    """Return phi's dipoles of sinks; a double layer's D is symmetric, and has none."""
    rows = np.zeros_like(dens)
    rows[2] = 4 * (dens * at["norms"]).sum(axis=0)
    return rows


def _of_tensors(tensors: Map) -> _Images:
    maps = (partial(each, tensors) for each in (_slope_of_dipoles, _slope_of_heights))
    return _Images(partial(_reflected, tensors), None, *maps)


def _traction(found: Arrays, at: Arrays) -> Any:
    """Return ``-sigma n``, sigma the stress."""
    return -(found["stress"].reshape(3, 3, -1) * at["norms"]).sum(axis=1)


_LAYERS = _Images(_against, None, _sinks, partial(_slope_of_heights, _layers), mirrored)
_DIPOLES = {"stokes_dipole": _of_tensors(_tensors), "stokes_dl": _LAYERS}
# Forces or dipoles at x make at y what the transposes are of: a gradient, or a traction.
_BACK = {"stokes_dipole": ("grad_u", gradient), "stokes_dl": ("stress", _traction)}


def _of_dipoles(kernel: str, want: str, transposed: bool = False) -> Composite:
    """Return a result of dipoles of forces, or of double layers.

    If ``transposed``, it is of sums that have transposes.
    """
    of, density = _DIPOLES[kernel], (3, 3) if kernel == "stokes_dipole" else (3,)
    if transposed:
        along = [Addend(*_ALONG[n], partial(_row, of.quadrupoles, n), mirrored) for n in range(3)]
        flow = Addend("doublet_dipole", ("u",), _quadrupole_flow, of.quadrupoles, mirrored)
        others = of._replace(quadrupoles=None).phi(_BOTH, _flow)
        return _composite(
            kernel, want, [*of.addends(kernel, want), others, *along, flow], density=density
        )
    own = {"u": "stokes_sl", "grad_u": "stokes_dipole"}
    back = (own[want], *_BACK[kernel]) if want in own else None
    return _near(kernel, want, of, density=density, transposed=back)


# ------------------------------------------------------------------ quadrupoles with transposes
def _along(axis: int, found: Arrays, at: Arrays) -> Any:
    """Return ``e3`` times a slope: quadrupoles have the potential that dipoles lose along it."""
    rows = np.zeros_like(found["grad_u"])
    rows[2] = found["grad_u"][axis]
    return rows


def _row(quadrupoles: Map | None, axis: int, dens: Any, at: Arrays) -> Any:
    """Return a row of quadrupoles: dipoles that have their potential as a slope."""
    return mapped(quadrupoles, dens, at)[3 * axis : 3 * axis + 3]


_ALONG = tuple(("laplace_dipole", ("grad_u",), partial(_along, axis)) for axis in range(3))


def _quadrupole_flow(found: Arrays, at: Arrays) -> Any:
    """Return ``x3 grad phi`` of quadrupoles, for dipoles of doublets, which point against it."""
    return -at["points"][2] * found["u"]


def _potential_flow(found: Arrays, at: Arrays) -> Any:
    """Return the potential flow of quadrupoles."""
    return -found["u"]


# ------------------------------------------------------------------ spheres
def _of_spheres(
    kernel: str, radius: float, source_radius: float, up: int, want: str, transposed: bool = False
) -> Composite:
    """Return velocities of spheres, or other results at points, by forces on other spheres.

    With ``c = 2 b^2 / 3``, b the sources' radius, phi has quadrupoles ``c e3 f*``, too. ``a^2 / 3``
    times the slope along x3 of grad phi is what a target of radius a feels more: the potential flow
    of dipoles of phi's charges, of quadrupoles and of octupoles.
    """
    share, c = radius**2 / 3, 2 * source_radius**2 / 3
    quadrupoles = partial(_of_radius, source_radius)

    def raised(dens: Any, at: Arrays) -> Any:
        rows = np.zeros_like(dens)
        rows[2] = -share * _charges(dens, at)[0]
        return rows

    def lifted(dens: Any, at: Arrays) -> Any:
        return _across(-share * _dipoles(dens, at))

    def level(dens: Any, at: Arrays) -> Any:
        return c * mirrored(dens, at)

    def of_level(found: Arrays, at: Arrays) -> Any:
        return _quadrupole_flow(found, at) - share * found["grad_u"][2::3]

    of = _FORCES._replace(quadrupoles=quadrupoles if c else None)
    if want != "u":
        return _near(kernel, want, of)
    more: list[Addend] = []
    if transposed:
        more += [Addend(*_ALONG[2], level, mirrored)] if c else []
        more += [Addend("doublet_dipole", _BOTH, of_level, quadrupoles, mirrored)] if c else []
        if share:
            more += [Addend("laplace_dipole", ("grad_u",), gradient, raised, mirrored)]
            more += [Addend("doublet_dipole", ("u",), _potential_flow, lifted, mirrored)]
        return _near(kernel, want, _FORCES, more)
    swapped = named("sphere_sl", radius=source_radius, source_radius=radius)
    more = [_rise(radius, quadrupoles, up)] if share else []
    scales = tuple((each.kernel, share**0.5, 2) for each in more)
    return _near(kernel, want, of, more, scales=scales, transposed=(swapped, "u", velocity))


def _of_radius(radius: float | None, dens: Any, at: Arrays) -> Any:
    """Return phi's quadrupoles of forces on spheres; without a radius, of marks."""
    squares = at["marks"] ** 2 if radius is None else radius**2
    return _across(2 / 3 * squares * mirrored(dens, at))


def _rising(radius: float | None, found: Arrays, at: Arrays) -> Any:
    """Return the velocity that spheres gain over points; without a radius, by marks."""
    return (at["marks"] ** 2 if radius is None else radius**2) / 3 * found["u"]


def _rise(radius: float | None, quadrupoles: Map, up: int) -> Addend:
    rows = _FORCES._replace(quadrupoles=quadrupoles).rows
    name = named("multipole_rise", up=up)
    return Addend(name, ("u",), partial(_rising, radius), rows, mirrored)


def _of_marks(kernel: str, up: int) -> Wanted:
    """Return results of spheres of any radii, which are marks of their points."""
    kind = SUMS[kernel]
    targets, sources = kind.symbol.laplacians
    if kind.symbol.order != 2:  # turns
        forces, torques = (
            partial(_turns_of_forces, kernel, None),
            partial(_turns_of_torques, kernel),
        )
        return {"u": forces if sources else torques}
    quadrupoles = partial(_of_radius, None)
    of, known = _FORCES._replace(quadrupoles=quadrupoles), ("u",) if targets else tuple(_WANTED)
    more = [_rise(None, quadrupoles, up)] if targets else []
    scales = tuple((each.kernel, kind.pair.largest / 3**0.5, 2) for each in more)
    how: dict[str, Any] = {"scales": scales}
    if targets:  # the mobility, which is symmetric
        how["transposed"] = kernel, "u", velocity
    return {want: partial(_near, kernel, want, of, more, **how) for want in known}


def _across_normal(times: float, name: str, found: Arrays, at: Arrays) -> Any:
    """Return ``times e3 x`` a vector: half the curl of ``x3 grad phi - e3 phi``, of grad phi."""
    rows = np.zeros_like(found[name])
    rows[0], rows[1] = -times * found[name][1], times * found[name][0]
    return rows


def _curl(found: Arrays, at: Arrays) -> Any:
    return 2 * half_curl(found, at)


def _turns(kernel: str, addends: list[Addend], times: float, of: _Images) -> Composite:
    """Return turns, ``times`` half the curl of the flow, by sums that have transposes."""
    of_flow, of_level = (
        partial(_across_normal, times, "grad_u"),
        partial(_across_normal, -times, "u"),
    )
    addends += [
        of._replace(quadrupoles=None).phi(("grad_u",), of_flow),
        Addend("doublet_dipole", ("u",), of_level, of.quadrupoles, mirrored),
    ]
    return _composite(kernel, "u", addends)


def _turns_of_forces(kernel: str, source_radius: float | None) -> Composite:
    of = _FORCES._replace(quadrupoles=partial(_of_radius, source_radius))
    return _turns(kernel, of.addends(kernel, "u"), 1.0, of)


def _turns_of_torques(kernel: str) -> Composite:
    of = _of_tensors(_spin)
    image = Addend("stokes_dipole", ("grad_u",), _curl, of.own, mirrored)
    return _turns(kernel, [Addend(kernel, ("u",), velocity), image], 2.0, of)


Wanted = dict[str, Callable[..., Composite]]
_KERNELS: dict[str, Wanted] = {
    "stokes_sl": {want: partial(_of_forces, want) for want in _WANTED},
    **{
        kernel: {want: partial(_of_dipoles, kernel, want) for want in _WANTED}
        for kernel in _DIPOLES
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
    if isinstance(kernel, Composite) and kernel.walled and want == "u" and not by:
        return kernel
    known: Wanted = {}
    if isinstance(kernel, str):
        known, shells = _KERNELS.get(kernel, {}), SUMS[kernel].symbol.shells
        if SUMS[kernel].pair.marks is not None:
            known = _of_marks(kernel, up)
        elif shells and shells[1].turns:
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
            "parki sums stokes_sl, stokes_dipole and stokes_dl, with want='u', 'p', "
            "'grad_u' and 'stress'"
        )
    if kernel == "stokes_sl" and {*by} - {"dens"}:
        return _blake()
    both = kernel in _DIPOLES or bool(shells and not shells[0].turns)
    return known[want](transposed=True) if by and both else known[want]()
