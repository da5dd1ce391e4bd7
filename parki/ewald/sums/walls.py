"""Sums near a wall at x3 = 0: which composite a sum is, and sums of spheres.

Images of forces and of their dipoles are in `parki.ewald.sums.wall_images`. A sphere takes the
Laplacian of the flow by x and by y, and torques half of its curl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums import SUMS
from parki.ewald.sums import wall_images as images
from parki.ewald.sums.composite import Addend, Composite, Transposed
from parki.ewald.sums.maps import Arrays, Curved, Map, after, fixed, velocity
from parki.ewald.sums.names import named
from parki.ewald.sums.plates import near_plates
from parki.ewald.sums.slit import between, of_forces, of_layers, sources_of
from parki.ewald.sums.sphere_radii import SphereRadii, of_spheres, square
from parki.ewald.sums.stokes_rotlet import torques_as_dipoles
from parki.ewald.sums.wall_images import Wanted, addend, mirrored
from parki.typing import AnyArray, Walls


def _swollen(radius: float | None, results: Arrays, cloud: Arrays) -> AnyArray:
    """Return a third of a velocity times the squares of the targets' radii."""
    return square(radius, cloud) / 3 * results["u"]


def _felt(radius: float | None) -> Map:
    """Return a map of velocities to what the targets' radii add, whatever the place of the wall."""
    return Curved(partial(_swollen, radius), None)


def _of_radius(radius: float | None, dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return phi's quadrupoles ``2 b^2 / 3 e3 f*`` of forces on spheres."""
    return images.across(2 / 3 * square(radius, cloud) * mirrored(dens, cloud))


def _of_forces_on_spheres(kernel: str, radii: SphereRadii, up: int, want: str) -> Composite:
    """Return velocities of spheres, or other results at points, by forces on other spheres.

    With ``c = 2 b^2 / 3``, b the sources' radius, phi has quadrupoles ``c e3 f*``, too. ``a^2 / 3``
    times the slope along x3 of grad phi is what a target of radius a feels more.
    """
    swollen = images.FORCES._replace(quadrupoles=partial(_of_radius, radii.sources))
    of_sources = images.FORCES if radii.sources == 0 else swollen
    addends, scales = of_sources.all(kernel, want), tuple[tuple[str, float, int], ...]()
    if radii.targets != 0:
        name = named("multipole_axis_derivative", up=up)
        felt = _flow(_felt(radii.targets))
        addends.append(addend(name, felt, density=swollen.rows, sources=mirrored))
        scales = ((name, radii.largest / 3**0.5, 2),)
    transposed: Transposed = None
    back = SUMS[kernel].adjoints.get("u")
    if want == "u" and back is not None:  # the mobility, which is symmetric
        transposed = back.kernel, "u", velocity
    return images.composite(kernel, want, addends, scales=scales, transposed=transposed)


def _flow(results: Map) -> Addend:
    """Return a map of velocities as a result."""
    return Addend("", ("u",), results)


@fixed
def _along_normal(results: Arrays, cloud: Arrays) -> AnyArray:
    rows = np.zeros_like(results["u"])
    rows[2] = results["u"][2]
    return rows


def _raised(dens: AnyArray, cloud: Arrays) -> AnyArray:
    return images.across(images.dipoles(dens, cloud))


def _blake_spheres(kernel: str, radii: SphereRadii, up: int) -> Composite:
    """Return the velocities of spheres by Blake's form, of velocities of sums alone.

    The Laplacians of the flow by x and by y make ``2 grad (f . grad) + 4 h d3 grad (f* . grad)``
    and ``2 P grad (f* . grad) + 4 x3 d3 grad (f* . grad)`` of 1 / R, with ``P = diag(1, 1, -1)``,
    and both of them ``8 d3 d3 grad (f* . grad)``. The image of the sum itself has the first term
    of one and of the other radius.
    """

    def swelling(dens: AnyArray, cloud: Arrays) -> AnyArray:
        """Return ``2 b^2 / 3 f*``."""
        return 2 / 3 * square(radii.sources, cloud) * mirrored(dens, cloud)

    def shrinking(dens: AnyArray, cloud: Arrays) -> AnyArray:
        return -swelling(dens, cloud)

    def doublets(dens: AnyArray, cloud: Arrays) -> AnyArray:
        rows = images.doublets(dens, cloud)
        rows[2] += swelling(dens, cloud)[2]
        return rows

    plain, raised = _flow(velocity), _flow(partial(images.over_wall, -1.0))
    swollen, name = _flow(_felt(radii.targets)), named("doublet_axis_derivative", up=up)
    of_doublets = Curved(doublets, images.change_of_doublets)
    addends = [
        addend(kernel, plain),
        addend(kernel, plain, density=images.opposite, sources=mirrored),
        addend("stokes_dipole", plain, density=images.force_dipoles, sources=mirrored),
        addend("doublet", plain, density=of_doublets, sources=mirrored),
    ]
    if radii.sources != 0:
        along = partial(_of_radius, radii.sources)
        addends += [
            addend("doublet", _flow(_along_normal), density=shrinking, sources=mirrored),
            addend("doublet_dipole", raised, density=along, sources=mirrored),
        ]
    if radii.targets != 0:
        addends.append(addend("doublet_dipole", swollen, density=_raised, sources=mirrored))
    if radii.targets != 0 != radii.sources:
        addends.append(addend(name, swollen, density=swelling, sources=mirrored))
    scales = ("doublet_dipole", radii.largest, 2), (name, 0.7 * radii.largest, 4)
    return images.composite(kernel, "u", addends, scales=scales)


# ------------------------------------------------------------------ torques on spheres
def _crossed(vectors: AnyArray, times: float = 1.0) -> AnyArray:
    """Return ``times e3 x`` a vector."""
    rows = np.zeros_like(vectors)
    rows[0], rows[1] = -times * vectors[1], times * vectors[0]
    return rows


def _crossed_density(dens: AnyArray, cloud: Arrays) -> AnyArray:
    return _crossed(dens)


@fixed
def _crossed_flow(results: Arrays, cloud: Arrays) -> AnyArray:
    return _crossed(results["u"])


@fixed
def _against_crossed(results: Arrays, cloud: Arrays) -> AnyArray:
    return _crossed(results["u"], -4.0)


def _twice_across(dens: AnyArray, cloud: Arrays) -> AnyArray:
    return 2 * images.across(_crossed(dens))


@fixed
def _mirrored_flow(results: Arrays, cloud: Arrays) -> AnyArray:
    return mirrored(results["u"], cloud)


def _turns_of_forces(kernel: str, radii: SphereRadii) -> Composite:
    """Return turns of spheres by forces on others: half the curl of their flow in Blake's form."""

    def dipoles(dens: AnyArray, cloud: Arrays) -> AnyArray:
        return -images.dipoles(dens, cloud)

    def quadrupoles(dens: AnyArray, cloud: Arrays) -> AnyArray:
        return -_of_radius(radii.sources, dens, cloud)

    plain, crossed = _flow(velocity), _flow(_crossed_flow)
    addends = [
        addend(kernel, plain),
        addend(kernel, plain, density=images.opposite, sources=mirrored),
        addend("doublet", crossed, density=dipoles, sources=mirrored),
    ]
    if radii.sources != 0:
        addends.append(addend("doublet_dipole", crossed, density=quadrupoles, sources=mirrored))
    return images.composite(kernel, "u", addends, scales=(("doublet_dipole", radii.largest, 2),))


def _flow_of_torques(kernel: str, radii: SphereRadii, want: str) -> Composite:
    """Return velocities of spheres, or other results at points, by torques on other spheres.

    It is the transpose of the turns by forces, with the pressure of torques on points.
    """
    plain, mirror = (images.results_of(want, flow) for flow in (velocity, _mirrored_flow))
    raised = images.results_of(want, partial(images.over_wall, -2.0), pressure=-4.0)
    addends = [
        addend(kernel, plain),
        addend(kernel, mirror, density=mirrored, sources=mirrored),
        addend("doublet", raised, density=_crossed_density, sources=mirrored),
    ]
    if radii.targets != 0:
        swollen = images.results_of(want, _felt(radii.targets))
        addends.append(addend("doublet_dipole", swollen, density=_twice_across, sources=mirrored))
    return images.composite(kernel, want, addends, scales=(("doublet_dipole", radii.largest, 2),))


def _turns_of_torques(kernel: str) -> Composite:
    """Return twice the turns of spheres by torques on others: the curl of their flow."""
    plain, crossed = _flow(velocity), _flow(_against_crossed)
    addends = (
        addend(kernel, plain),
        addend("doublet", plain, density=mirrored, sources=mirrored),
        addend("doublet", crossed, density=_crossed_density, sources=mirrored),
    )
    return images.composite(kernel, "u", addends)


def _of_spheres(kernel: str, up: int, alone: bool) -> Wanted:
    """Return results of spheres, by sums whose velocities ``alone`` are taken, if so."""
    kind = SUMS[kernel]
    radii = SphereRadii.of(kind)
    if kind.symbol.order == 2 and alone:
        return {"u": partial(_blake_spheres, kernel, radii, up)}
    if kind.symbol.order == 2:
        results = ("u",) if radii.targets != 0 else tuple(images.WANTED)
        return {want: partial(_of_forces_on_spheres, kernel, radii, up, want) for want in results}
    of_targets, of_sources = kind.turns
    if not of_targets:
        return {want: partial(_flow_of_torques, kernel, radii, want) for want in images.WANTED}
    if of_sources:
        return {"u": partial(_turns_of_torques, kernel)}
    return {"u": partial(_turns_of_forces, kernel, radii)}


# ------------------------------------------------------------------ sums of these
# Densities of other sums in their place: of rotlets dipoles, of both layers each of them.
_PARTS: dict[str, dict[str, Map]] = {
    "stokes_rotlet": {"stokes_dipole": torques_as_dipoles},
    "stokes_comb": {"stokes_sl": of_forces, "stokes_dl": of_layers},
}


def _of_parts(kernel: str, want: str, alone: bool = False) -> Composite:
    """Return a result of a sum that is others; if ``alone``, as `images.of_dipoles` says."""
    of_parts = [
        (_KERNELS[part][want](alone=alone), density) for part, density in _PARTS[kernel].items()
    ]
    addends = [
        replace(each, density=after(density, each.density))
        for composite, density in of_parts
        for each in composite.addends
    ]
    back = None if alone else _of_parts(kernel, want, alone=True)
    shape = SUMS[kernel].density
    return images.composite(kernel, want, addends, density=shape, transposed=back)


def _wanted(make: Callable[..., Composite]) -> Wanted:
    return {want: partial(make, want) for want in images.WANTED}


_KERNELS: dict[str, Wanted] = {
    "stokes_sl": _wanted(images.of_forces),
    **{kernel: _wanted(partial(images.of_dipoles, kernel)) for kernel in images.DIPOLES},
    **{kernel: _wanted(partial(_of_parts, kernel)) for kernel in _PARTS},
}


def near_wall(
    kernel: str | Composite,
    wall: Walls,
    want: str = "u",
    *,
    up: int = 2,
    by: Iterable[str] = (),
    gap: float | None = None,
    factors: tuple[float, ...] = (),
) -> Composite:
    """Return a sum near a wall; refuse sums and results that parki does not have there.

    It is the form that takes the least time, of those that have derivatives ``by`` these inputs.
    ``up`` is the place of the wall's normal in the solver's order of axes. With a ``gap`` there is
    another wall at this height. Walls for charges have image ``factors``.

    Raises
    ------
    ParkiValueError
    """
    if isinstance(kernel, Composite) and kernel.near and want == "u" and not by:
        return kernel
    if factors:
        return near_plates(kernel, wall, want, factors, gap)
    known: Wanted = {}
    if isinstance(kernel, str):
        known, kind = _KERNELS.get(kernel, {}), SUMS[kernel]
        if of_spheres(kind):
            known = _of_spheres(kernel, up, bool(by))
    if want not in known:
        name = kernel.name if isinstance(kernel, Composite) else kernel
        where = "near a wall" if gap is None else "between two walls"
        raise ParkiValueError(
            f"wall is {wall!r}, which {name} with want={want!r} does not have; {where} "
            f"parki sums {', '.join(_KERNELS)}, with want='u', 'p', 'grad_u' and 'stress'"
        )
    if kernel not in _KERNELS:
        composite = known[want]()
    else:
        densities_alone = kernel == "stokes_sl" and want == "u" and not {*by} - {"dens"}
        composite = known[want](alone=bool(by) and not densities_alone)
    if gap is None:
        return composite
    if "p" in sources_of(str(kernel)) and composite.transposed:
        # Transposed sinks make a pressure that differs by a constant from the one of forces.
        composite = replace(composite, transposed=known[want](alone=True))
    return between(composite, gap)
