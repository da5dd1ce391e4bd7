"""Sums near a wall without slip at x3 = 0: which composite a sum is, and the ones of spheres.

Images of forces and of their dipoles are in `parki.ewald.sums.wall_images`. A sphere takes the
Laplacian of the flow by x and by y, and torques half of its curl.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums import SUMS
from parki.ewald.sums import wall_images as images
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Curved, velocity
from parki.ewald.sums.names import named
from parki.ewald.sums.record import Sum
from parki.ewald.sums.wall_images import Wanted, mirrored


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


def _square(radius: float | None, cloud: Arrays) -> Any:
    return cloud["marks"] ** 2 if radius is None else radius**2


def _swollen(radius: float | None, results: Arrays, cloud: Arrays) -> Any:
    """Return a third of a velocity times the squares of the targets' radii."""
    return _square(radius, cloud) / 3 * results["u"]


def _of_radius(radius: float | None, dens: Any, cloud: Arrays) -> Any:
    """Return phi's quadrupoles ``2 b^2 / 3 e3 f*`` of forces on spheres."""
    return images.across(2 / 3 * _square(radius, cloud) * mirrored(dens, cloud))


def _of_forces_on_spheres(kernel: str, radii: _Radii, up: int, want: str) -> Composite:
    """Return velocities of spheres, or other results at points, by forces on other spheres.

    With ``c = 2 b^2 / 3``, b the sources' radius, phi has quadrupoles ``c e3 f*``, too. ``a^2 / 3``
    times the slope along x3 of grad phi is what a target of radius a feels more.
    """
    more, how = list[Addend](), dict[str, Any]()
    swollen = images.FORCES._replace(quadrupoles=partial(_of_radius, radii.sources))
    of = images.FORCES if radii.sources == 0 else swollen
    if radii.targets != 0:
        name, results = named("multipole_rise", up=up), partial(_swollen, radii.targets)
        more = [Addend(name, ("u",), results, swollen.rows, mirrored)]
        how["scales"] = ((name, radii.largest / 3**0.5, 2),)
    back = SUMS[kernel].adjoints.get("u")
    if want == "u" and back is not None:  # the mobility, which is symmetric
        how["transposed"] = back.kernel, "u", velocity
    return images.composite_of(kernel, want, of, more, **how)


def _along_normal(results: Arrays, cloud: Arrays) -> Any:
    rows = np.zeros_like(results["u"])
    rows[2] = results["u"][2]
    return rows


def _raised(dens: Any, cloud: Arrays) -> Any:
    return images.across(images.dipoles(dens, cloud))


def _blake_spheres(kernel: str, radii: _Radii, up: int) -> Composite:
    """Return the velocities of spheres by Blake's form, of velocities of sums alone.

    The Laplacians of the flow by x and by y make ``2 grad (f . grad) + 4 h d3 grad (f* . grad)``
    and ``2 P grad (f* . grad) + 4 x3 d3 grad (f* . grad)`` of 1 / R, with ``P = diag(1, 1, -1)``,
    and both of them ``8 d3 d3 grad (f* . grad)``. The image of the sum itself has the first term
    of one and of the other radius.
    """

    def own(dens: Any, cloud: Arrays) -> Any:
        """Return ``2 b^2 / 3 f*``."""
        return 2 / 3 * _square(radii.sources, cloud) * mirrored(dens, cloud)

    def doublets(dens: Any, cloud: Arrays) -> Any:
        rows = images.doublets(dens, cloud)
        rows[2] += own(dens, cloud)[2]
        return rows

    of_u, dipoles = (("u",), velocity), ("doublet_dipole", ("u",))
    swollen, name = partial(_swollen, radii.targets), named("doublet_rise", up=up)
    addends = [
        Addend(kernel, *of_u),
        Addend(kernel, *of_u, images.opposite, mirrored),
        Addend("stokes_dipole", *of_u, images.force_dipoles, mirrored),
        Addend("doublet", *of_u, Curved(doublets, images.change_of_doublets), mirrored),
    ]
    if radii.sources != 0:
        along = partial(_of_radius, radii.sources)
        addends += [
            Addend("doublet", ("u",), _along_normal, lambda *given: -own(*given), mirrored),
            Addend(*dipoles, partial(images.over_wall, -1.0), along, mirrored),
        ]
    if radii.targets != 0:
        addends.append(Addend(*dipoles, swollen, _raised, mirrored))
    if radii.targets != 0 != radii.sources:
        addends.append(Addend(name, ("u",), swollen, own, mirrored))
    scales = ("doublet_dipole", radii.largest, 2), (name, 0.7 * radii.largest, 4)
    return images.composite(kernel, "u", addends, scales=scales)


# ------------------------------------------------------------------ torques on spheres
def _crossed(vectors: Any, times: float = 1.0) -> Any:
    """Return ``times e3 x`` a vector."""
    rows = np.zeros_like(vectors)
    rows[0], rows[1] = -times * vectors[1], times * vectors[0]
    return rows


def _crossed_density(dens: Any, cloud: Arrays) -> Any:
    return _crossed(dens)


def _crossed_flow(times: float, results: Arrays, cloud: Arrays) -> Any:
    return _crossed(results["u"], times)


def _twice_across(dens: Any, cloud: Arrays) -> Any:
    return 2 * images.across(_crossed(dens))


def _mirrored_flow(results: Arrays, cloud: Arrays) -> Any:
    return mirrored(results["u"], cloud)


def _turns_of_forces(kernel: str, radii: _Radii, up: int) -> Composite:
    """Return turns of spheres by forces on others: half the curl of their flow in Blake's form."""
    crossed = ("u",), partial(_crossed_flow, 1.0)
    along = partial(_of_radius, radii.sources)
    addends = [
        Addend(kernel, ("u",), velocity),
        Addend(kernel, ("u",), velocity, images.opposite, mirrored),
        Addend("doublet", *crossed, lambda *given: -images.dipoles(*given), mirrored),
    ]
    if radii.sources != 0:
        addends.append(Addend("doublet_dipole", *crossed, lambda *given: -along(*given), mirrored))
    return images.composite(kernel, "u", addends, scales=(("doublet_dipole", radii.largest, 2),))


def _flow_of_torques(kernel: str, radii: _Radii, up: int, want: str) -> Composite:
    """Return velocities of spheres, or other results at points, by torques on other spheres.

    It is the transpose of the turns by forces, with the pressure of torques on points.
    """
    of = partial(images.results_of, want)
    addends = [
        Addend(kernel, *of(velocity)),
        Addend(kernel, *of(_mirrored_flow), mirrored, mirrored),
        Addend("doublet", *of(partial(images.over_wall, -2.0), -4.0), _crossed_density, mirrored),
    ]
    if radii.targets != 0:
        swollen = of(partial(_swollen, radii.targets))
        addends.append(Addend("doublet_dipole", *swollen, _twice_across, mirrored))
    return images.composite(kernel, want, addends, scales=(("doublet_dipole", radii.largest, 2),))


def _turns_of_torques(kernel: str, radii: _Radii, up: int) -> Composite:
    """Return twice the turns of spheres by torques on others: the curl of their flow."""
    addends = (
        Addend(kernel, ("u",), velocity),
        Addend("doublet", ("u",), velocity, mirrored, mirrored),
        Addend("doublet", ("u",), partial(_crossed_flow, -4.0), _crossed_density, mirrored),
    )
    return images.composite(kernel, "u", addends)


def _of_spheres(kernel: str, up: int, alone: bool) -> Wanted:
    """Return results of spheres, by sums whose velocities ``alone`` are taken, if so."""
    kind = SUMS[kernel]
    given = kernel, _Radii.of(kind), up
    if kind.symbol.order == 2 and alone:
        return {"u": partial(_blake_spheres, *given)}
    if kind.symbol.order == 2:
        results = ("u",) if given[1].targets != 0 else tuple(images.WANTED)
        return {want: partial(_of_forces_on_spheres, *given, want) for want in results}
    of_targets, of_sources = kind.turns
    if not of_targets:
        return {want: partial(_flow_of_torques, *given, want) for want in images.WANTED}
    return {"u": partial(_turns_of_torques if of_sources else _turns_of_forces, *given)}


_KERNELS: dict[str, Wanted] = {
    "stokes_sl": {want: partial(images.of_forces, want) for want in images.WANTED},
    **{
        kernel: {want: partial(images.of_dipoles, kernel, want) for want in images.WANTED}
        for kernel in images.DIPOLES
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
    if kernel == "stokes_sl" and by and (want != "u" or {*by} - {"dens"}):
        return images.of_forces_by_points(want)
    return known[want](alone=True) if by and kernel in images.DIPOLES else known[want]()
