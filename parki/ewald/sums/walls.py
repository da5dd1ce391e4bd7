"""Sums near a wall without slip at x3 = 0: composites of sums of sources and of their images.

A force f at y, of height h over the wall, has its image at ``y* = (y1, y2, -h)``. With
``f* = (f1, f2, -f3)``

``u = G(x - y) f - G(x - y*) f* + x3 grad phi - e3 phi``,  ``p = p_G + 2 d phi / d x3``,

where charges 2 f3 and dipoles -2 h f* at y* have the potential phi, and both Stokeslets the
pressure p_G: the images of Gimbutas, Greengard and Veerapaneni (2015). Dipoles of forces are
derivatives of the flow by y, and with h, and double layers add sinks. So every sum near a wall is
the sum itself, of sources and of their images, and one sum of `parki.ewald.sums.multipoles` or of
their flow. Spheres take the Laplacian of the flow by x and by y, which quadrupoles make.

Derivatives by points and transposes would take derivatives of phi that have no sums. For these the
same flow has another form, by Blake (1971), of dipoles of forces and of source doublets at y*:

``u = G(x - y) f - G(x - y*) f - 2 h (f* . grad) G(x - y*) e3 - 2 h^2 grad (f* . grad) 1 / R``

with ``R = |x - y*|``, of velocities of sums alone. Spheres with torques have no other form. See
``docs/theory.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import gradient
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Curved, Map, mapped, velocity
from parki.ewald.sums.names import named
from parki.ewald.sums.record import Sum
from parki.ewald.sums.results import LONG, OWN, Slopes
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


Wanted = dict[str, Callable[..., Composite]]


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
class _Radii(NamedTuple):
    """The radii of targets and of sources; None where marks of the points have them.

    ``largest`` is the largest one of all.
    """

    targets: float | None
    sources: float | None
    largest: float

    @classmethod
    def of(cls, kind: Sum) -> _Radii:
        """Return the radii that the targets and the sources of a sum of spheres have."""
        if kind.pair.marks is None:
            one, other = (shell.radius for shell in kind.symbol.shells or ())
            return cls(one, other, max(one, other))
        flow = kind.symbol.order == 2 and not kind.symbol.laplacians[0]
        return cls(0.0 if flow else None, None, kind.pair.largest)


def _square(radius: float | None, at: Arrays) -> Any:
    return at["marks"] ** 2 if radius is None else radius**2


def _swollen(radius: float | None, found: Arrays, at: Arrays) -> Any:
    """Return a third of a velocity times the squares of the targets' radii."""
    return _square(radius, at) / 3 * found["u"]


def _of_radius(radius: float | None, dens: Any, at: Arrays) -> Any:
    """Return phi's quadrupoles ``2 b^2 / 3 e3 f*`` of forces on spheres."""
    return _across(2 / 3 * _square(radius, at) * mirrored(dens, at))


def _of_forces_on_spheres(kernel: str, radii: _Radii, up: int, want: str) -> Composite:
    """Return velocities of spheres, or other results at points, by forces on other spheres.

    With ``c = 2 b^2 / 3``, b the sources' radius, phi has quadrupoles ``c e3 f*``, too. ``a^2 / 3``
    times the slope along x3 of grad phi is what a target of radius a feels more.
    """
    of, more, how = _FORCES, list[Addend](), dict[str, Any]()
    if radii.sources != 0:
        of = _FORCES._replace(quadrupoles=partial(_of_radius, radii.sources))
    if radii.targets != 0:
        name, results = named("multipole_rise", up=up), partial(_swollen, radii.targets)
        rows = _FORCES._replace(quadrupoles=partial(_of_radius, radii.sources)).rows
        more = [Addend(name, ("u",), results, rows, mirrored)]
        how["scales"] = ((name, radii.largest / 3**0.5, 2),)
    back = SUMS[kernel].adjoints.get("u")
    if want == "u" and back is not None:  # the mobility, which is symmetric
        how["transposed"] = back.kernel, "u", velocity
    return _near(kernel, want, of, more, **how)


def _over_wall(times: float, found: Arrays, at: Arrays) -> Any:
    """Return a velocity times the height over the wall."""
    return times * at["points"][2] * found["u"]


def _along_normal(found: Arrays, at: Arrays) -> Any:
    rows = np.zeros_like(found["u"])
    rows[2] = found["u"][2]
    return rows


def _raised(dens: Any, at: Arrays) -> Any:
    return _across(_dipoles(dens, at))


def _blake_spheres(kernel: str, radii: _Radii, up: int) -> Composite:
    """Return the velocities of spheres by Blake's form, of velocities of sums alone.

    The Laplacians of the flow by x and by y make ``2 grad (f . grad) + 4 h d3 grad (f* . grad)``
    and ``2 P grad (f* . grad) + 4 x3 d3 grad (f* . grad)`` of 1 / R, with ``P = diag(1, 1, -1)``,
    and both of them ``8 d3 d3 grad (f* . grad)``. The image of the sum itself has the first term
    of one and of the other radius.
    """

    def own(dens: Any, at: Arrays) -> Any:
        """Return ``2 b^2 / 3 f*``."""
        return 2 / 3 * _square(radii.sources, at) * mirrored(dens, at)

    def doublets(dens: Any, at: Arrays) -> Any:
        rows = _doublets(dens, at)
        rows[2] += own(dens, at)[2]
        return rows

    of_u, dipoles = (("u",), velocity), ("doublet_dipole", ("u",))
    swollen, name = partial(_swollen, radii.targets), named("doublet_rise", up=up)
    addends = [
        Addend(kernel, *of_u),
        Addend(kernel, *of_u, _opposite, mirrored),
        Addend("stokes_dipole", *of_u, _force_dipoles, mirrored),
        Addend("doublet", *of_u, Curved(doublets, _change_of_doublets), mirrored),
    ]
    if radii.sources != 0:
        along = partial(_of_radius, radii.sources)
        addends += [
            Addend("doublet", ("u",), _along_normal, lambda *given: -own(*given), mirrored),
            Addend(*dipoles, partial(_over_wall, -1.0), along, mirrored),
        ]
    if radii.targets != 0:
        addends.append(Addend(*dipoles, swollen, _raised, mirrored))
    if radii.targets != 0 != radii.sources:
        addends.append(Addend(name, ("u",), swollen, own, mirrored))
    scales = ("doublet_dipole", radii.largest, 2), (name, 0.7 * radii.largest, 4)
    return _composite(kernel, "u", addends, scales=scales)


# ------------------------------------------------------------------ torques on spheres
def _crossed(vectors: Any, times: float = 1.0) -> Any:
    """Return ``times e3 x`` a vector."""
    rows = np.zeros_like(vectors)
    rows[0], rows[1] = -times * vectors[1], times * vectors[0]
    return rows


def _crossed_density(dens: Any, at: Arrays) -> Any:
    return _crossed(dens)


def _crossed_flow(times: float, found: Arrays, at: Arrays) -> Any:
    return _crossed(found["u"], times)


def _twice_across(dens: Any, at: Arrays) -> Any:
    return 2 * _across(_crossed(dens))


def _mirrored_flow(found: Arrays, at: Arrays) -> Any:
    return mirrored(found["u"], at)


def _turns_of_forces(kernel: str, radii: _Radii, up: int) -> Composite:
    """Return turns of spheres by forces on others: half the curl of their flow in Blake's form."""
    crossed = ("u",), partial(_crossed_flow, 1.0)
    along = partial(_of_radius, radii.sources)
    addends = [
        Addend(kernel, ("u",), velocity),
        Addend(kernel, ("u",), velocity, _opposite, mirrored),
        Addend("doublet", *crossed, lambda *given: -_dipoles(*given), mirrored),
    ]
    if radii.sources != 0:
        addends.append(Addend("doublet_dipole", *crossed, lambda *given: -along(*given), mirrored))
    return _composite(kernel, "u", addends, scales=(("doublet_dipole", radii.largest, 2),))


def _flow_of_torques(kernel: str, radii: _Radii, up: int, want: str) -> Composite:
    """Return velocities of spheres, or other results at points, by torques on other spheres.

    It is the transpose of the turns by forces, with the pressure of torques on points.
    """

    def of(flow: Map, pressure: float = 0.0) -> tuple[tuple[str, ...], Map]:
        """Return results of a sum, and their map, of this flow; ``pressure`` times a row is p."""
        if want == "u":
            return ("u",), flow

        def made(found: Arrays, at: Arrays) -> Any:
            p = pressure * found["u"][2:]
            if want == "p":
                return p
            rows = Slopes(flow)(found, at)
            return rows if want == "grad_u" else stress({"p": p, "grad_u": rows}, at)

        return ("u",) if want == "p" else _BOTH, made

    addends = [
        Addend(kernel, *of(velocity)),
        Addend(kernel, *of(_mirrored_flow), mirrored, mirrored),
        Addend("doublet", *of(partial(_over_wall, -2.0), -4.0), _crossed_density, mirrored),
    ]
    if radii.targets != 0:
        swollen = of(partial(_swollen, radii.targets))
        addends.append(Addend("doublet_dipole", *swollen, _twice_across, mirrored))
    return _composite(kernel, want, addends, scales=(("doublet_dipole", radii.largest, 2),))


def _turns_of_torques(kernel: str, radii: _Radii, up: int) -> Composite:
    """Return twice the turns of spheres by torques on others: the curl of their flow."""
    addends = (
        Addend(kernel, ("u",), velocity),
        Addend("doublet", ("u",), velocity, mirrored, mirrored),
        Addend("doublet", ("u",), partial(_crossed_flow, -4.0), _crossed_density, mirrored),
    )
    return _composite(kernel, "u", addends)


def _of_spheres(kernel: str, up: int, alone: bool) -> Wanted:
    """Return results of spheres, by sums whose velocities ``alone`` are taken, if so."""
    kind = SUMS[kernel]
    given = kernel, _Radii.of(kind), up
    if kind.symbol.order == 2 and alone:
        return {"u": partial(_blake_spheres, *given)}
    if kind.symbol.order == 2:
        results = ("u",) if given[1].targets != 0 else tuple(_WANTED)
        return {want: partial(_of_forces_on_spheres, *given, want) for want in results}
    of_targets, of_sources = kind.turns
    if not of_targets:
        return {want: partial(_flow_of_torques, *given, want) for want in _WANTED}
    return {"u": partial(_turns_of_torques if of_sources else _turns_of_forces, *given)}


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
        known, kind = _KERNELS.get(kernel, {}), SUMS[kernel]
        if kind.symbol.shells or kind.pair.marks is not None:
            known = _of_spheres(kernel, up, bool(by))
    if not isinstance(want, str) or want not in known:
        name = kernel.name if isinstance(kernel, Composite) else kernel
        raise ParkiValueError(
            f"wall is {wall!r}, which {name} with want={want!r} does not have; near a wall "
            "parki sums stokes_sl, stokes_dipole and stokes_dl, with want='u', 'p', "
            "'grad_u' and 'stress'"
        )
    if kernel == "stokes_sl" and {*by} - {"dens"}:
        return _blake()
    return known[want](transposed=True) if by and kernel in _DIPOLES else known[want]()
