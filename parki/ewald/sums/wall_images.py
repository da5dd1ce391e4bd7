"""Images of forces and of their dipoles at a wall without slip, x3 = 0: composites of sums.

A force f at y, of height h over the wall, has its image at ``y* = (y1, y2, -h)``. With
``f* = (f1, f2, -f3)``

``u = G(x - y) f - G(x - y*) f* + x3 grad phi - e3 phi``,  ``p = p_G + 2 d phi / d x3``,

where charges 2 f3 and dipoles -2 h f* at y* have the potential phi, and both Stokeslets the
pressure p_G: the images of Gimbutas, Greengard and Veerapaneni (2015). Dipoles of forces are
derivatives of the flow by y, and with h, and double layers add sinks. So every sum near a wall is
the sum itself, of sources and of their images, and one sum of `parki.ewald.sums.multipoles` or of
their flow. Spheres take the Laplacian of the flow by x and by y, which quadrupoles make.

Derivatives by points and transposes take sums whose velocities alone are used. So for these the
slopes of phi are flows of source doublets, and forces have another form, by Blake (1971), of
dipoles of forces and of source doublets at y*:

``u = G(x - y) f - G(x - y*) f - 2 h (f* . grad) G(x - y*) e3 - 2 h^2 grad (f* . grad) 1 / R``

with ``R = |x - y*|``. Spheres with torques have no other form. See ``docs/theory.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from parki.ewald.sums.adjoint import gradient
from parki.ewald.sums.composite import Addend, Composite, Transposed
from parki.ewald.sums.maps import Arrays, Curved, Map, mapped, velocity
from parki.ewald.sums.names import named
from parki.ewald.sums.results import LONG, RESULTS, Slopes
from parki.ewald.sums.stress import stress
from parki.typing import AnyArray


def mirrored(vectors: AnyArray, cloud: Arrays) -> AnyArray:
    """Return points, or other vectors, mirrored at the wall."""
    rows = vectors.copy()
    rows[2] *= -1
    return rows


def _against(dens: AnyArray, cloud: Arrays) -> AnyArray:
    return -mirrored(dens, cloud)


def _charges(dens: AnyArray, cloud: Arrays) -> AnyArray:
    return 2 * dens[2:]


def dipoles(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return phi's dipoles of forces, ``-2 h f*``."""
    return -2 * cloud["points"][2] * mirrored(dens, cloud)


# ------------------------------------------------------------------ results of phi
def _flow(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return ``x3 grad phi - e3 phi``, a flow of Stokes for any potential phi."""
    rows = cloud["points"][2] * results["grad_u"]
    rows[2] -= results["u"][0]
    return rows


def _pressure_of_flow(results: Arrays, cloud: Arrays) -> AnyArray:
    return 2 * results["grad_u"][2:]


def _slopes_of_flow(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the gradient of the flow, for u = grad phi and its gradient."""
    rows = cloud["points"][2] * results["grad_u"]
    rows[2::3] += results["u"]
    rows[6:] -= results["u"]
    return rows


def _stress_of_flow(results: Arrays, cloud: Arrays) -> AnyArray:
    return stress({"grad_u": _slopes_of_flow(results, cloud), "p": 2 * results["u"][2:]}, {})


Wanted = dict[str, Callable[..., Composite]]


class _Want(NamedTuple):
    """A result: its shape, and what the sums of phi of this family make of it."""

    shape: tuple[int, ...]
    family: str
    of_phi: Addend


FLOW_AND_SLOPES = ("u", "grad_u")
WANTED = {
    "u": _Want((3,), "multipoles", Addend("", FLOW_AND_SLOPES, _flow)),
    "p": _Want((), "multipoles", Addend("", ("grad_u",), _pressure_of_flow)),
    "grad_u": _Want((3, 3), "multipole_flow", Addend("", FLOW_AND_SLOPES, _slopes_of_flow)),
    "stress": _Want((3, 3), "multipole_flow", Addend("", FLOW_AND_SLOPES, _stress_of_flow)),
}


class _Images(NamedTuple):
    """What a sum has at y*: maps of its densities, to densities of its own and to phi's.

    ``density`` is the map of the sum's own density, and ``normals`` of normals, if there are any.
    """

    density: Map
    charges: Map | None
    dipoles: Map | None
    quadrupoles: Map | None = None
    normals: Map | None = None

    def rows(self, dens: AnyArray, cloud: Arrays) -> AnyArray:
        """Return the density of the multipoles of phi."""
        rows = np.zeros_like(dens, shape=(4 if self.quadrupoles is None else 13, dens.shape[-1]))
        maps = self.charges, self.dipoles, self.quadrupoles
        for multipoles, part in zip(maps, (slice(1), slice(1, 4), slice(4, 13)), strict=True):
            if multipoles is not None:
                rows[part] = multipoles(dens, cloud)
        return rows

    def phi(self, want: str) -> Addend:
        """Return the flow that phi makes, or another result."""
        kernel = named(WANTED[want].family, order=1 if self.quadrupoles is None else 2)
        return addend(kernel, WANTED[want].of_phi, density=self.rows, sources=mirrored)

    def addends(self, kernel: str, want: str) -> list[Addend]:
        """Return the sum and its images, without phi."""
        result = RESULTS[want]
        return [
            addend(kernel, result),
            addend(kernel, result, density=self.density, sources=mirrored, normals=self.normals),
        ]

    def all(self, kernel: str, want: str) -> list[Addend]:
        """Return the sum, its images and phi."""
        return [*self.addends(kernel, want), self.phi(want)]


def addend(
    kernel: str,
    result: Addend,
    *,
    density: Map | None = None,
    sources: Map | None = None,
    normals: Map | None = None,
) -> Addend:
    """Return a result of this sum, of mapped sources."""
    return replace(result, kernel=kernel, density=density, sources=sources, normals=normals)


def composite(
    kernel: str,
    want: str,
    addends: Iterable[Addend],
    *,
    density: tuple[int, ...] = (3,),
    scales: tuple[tuple[str, float, int], ...] = (),
    transposed: Transposed = None,
) -> Composite:
    """Return addends as a result near a wall."""
    return Composite(
        name=f"{LONG[want]}{kernel} near a wall",
        density=density,
        result=WANTED[want].shape,
        addends=tuple(addends),
        scales=scales,
        transposed=transposed,
        near=(kernel, want),
    )


FORCES = _Images(density=_against, charges=_charges, dipoles=dipoles)


def of_forces(want: str, alone: bool = False) -> Composite:
    """Return a result of forces; ``alone`` in Blake's form, which has derivatives by points."""
    if alone:
        return of_forces_by_points(want)
    back: Transposed = ("stokes_dipole", "u", velocity) if want == "grad_u" else None
    back = of_forces_by_points(want) if want == "stress" else back
    return composite("stokes_sl", want, FORCES.all("stokes_sl", want), transposed=back)


# ------------------------------------------------------------------ Blake's own form
def opposite(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the forces at y*."""
    return -dens


def across(vectors: AnyArray) -> AnyArray:
    """Return the dipoles ``e3 v^T``."""
    rows = np.zeros_like(vectors, shape=(9, vectors.shape[1]))
    rows[6:] = vectors
    return rows


def force_dipoles(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the dipoles ``2 h e3 f*`` of forces."""
    return across(-dipoles(dens, cloud))


def doublets(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the source doublets ``-2 h^2 f*``."""
    return -2 * cloud["points"][2] ** 2 * mirrored(dens, cloud)


def change_of_doublets(dens: AnyArray, cloud: Arrays, moves: Arrays) -> AnyArray:
    """Return how the doublets change with the heights of their sources."""
    if "points" not in moves:  # of normals, which another part of the density has
        return np.zeros_like(dens)
    return -4 * cloud["points"][2] * moves["points"][2] * mirrored(dens, cloud)


def of_forces_by_points(want: str = "u") -> Composite:
    """Return a result of forces in Blake's form, which has derivatives by points."""
    of_doublets = Curved(doublets, change_of_doublets)
    addends = (
        addend("stokes_sl", RESULTS[want]),
        addend("stokes_sl", RESULTS[want], density=opposite, sources=mirrored),
        addend("stokes_dipole", RESULTS[want], density=force_dipoles, sources=mirrored),
        addend("doublet", results_of(want, velocity), density=of_doublets, sources=mirrored),
    )
    return composite("stokes_sl", want, addends)


# ------------------------------------------------------------------ dipoles of forces
def _tensors(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return dipoles D as (3, 3, N)."""
    return dens.reshape(3, 3, dens.shape[-1])


def _layers(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the dipoles of a double layer, whose other part are its sinks."""
    product = dens[:, None] * cloud["norms"]
    return -(product + product.swapaxes(0, 1))


def _reflected(tensors: Map, dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the dipoles at y*, ``-P D P`` with ``P = diag(1, 1, -1)``."""
    rows = -tensors(dens, cloud)
    rows[2] *= -1
    rows[:, 2] *= -1
    return rows.reshape(9, -1)


def _slope_of_dipoles(tensors: Map, dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return phi's dipoles: of charges that are apart, and of dipoles as heights change."""
    rows = tensors(dens, cloud)
    return mirrored(2 * (rows[2] - rows[:, 2]), cloud)


def _slope_of_heights(tensors: Map, dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return phi's quadrupoles."""
    return 2 * cloud["points"][2] * _reflected(tensors, dens, cloud)


def _sinks(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return phi's dipoles of sinks; a double layer's D is symmetric, and has none."""
    rows = np.zeros_like(dens)
    rows[2] = 4 * (dens * cloud["norms"]).sum(axis=0)
    return rows


def _of_tensors(tensors: Map) -> _Images:
    return _Images(
        density=partial(_reflected, tensors),
        charges=None,
        dipoles=partial(_slope_of_dipoles, tensors),
        quadrupoles=partial(_slope_of_heights, tensors),
    )


def _traction(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return ``-sigma n``, sigma the stress."""
    return -(results["stress"].reshape(3, 3, -1) * cloud["norms"]).sum(axis=1)


_LAYERS = _Images(
    density=_against,
    charges=None,
    dipoles=_sinks,
    quadrupoles=partial(_slope_of_heights, _layers),
    normals=mirrored,
)
DIPOLES = {"stokes_dipole": _of_tensors(_tensors), "stokes_dl": _LAYERS}
# Forces or dipoles at x make at y what the transposes are of: a gradient, or a traction.
_BACK = {"stokes_dipole": ("grad_u", gradient), "stokes_dl": ("stress", _traction)}


def of_dipoles(kernel: str, want: str, alone: bool = False) -> Composite:
    """Return a result of dipoles of forces, or of double layers.

    If ``alone``, phi is made of velocities of sums, which have transposes and derivatives.
    """
    images, density = DIPOLES[kernel], (3, 3) if kernel == "stokes_dipole" else (3,)
    if alone:
        addends = images.addends(kernel, want) + _phi_alone(images, want)
        return composite(kernel, want, addends, density=density)
    transposed: Transposed
    if want in ("u", "grad_u"):
        result, rows = _BACK[kernel]
        transposed = ("stokes_sl" if want == "u" else "stokes_dipole"), result, rows
    else:
        transposed = of_dipoles(kernel, want, alone=True)
    return composite(kernel, want, images.all(kernel, want), density=density, transposed=transposed)


# ------------------------------------------------------------------ phi by velocities alone
def results_of(want: str, flow: Map, pressure: float = 0.0) -> Addend:
    """Return a result of this flow; ``pressure`` times a row is p."""
    if want == "u":
        return Addend("", ("u",), flow)

    def result(results: Arrays, cloud: Arrays) -> AnyArray:
        parts = {"p": pressure * results["u"][2:]} if pressure or want == "p" else {}
        if want == "p":
            return parts["p"]
        parts["grad_u"] = Slopes(flow)(results, cloud)
        return parts["grad_u"] if want == "grad_u" else stress(parts, cloud)

    return Addend("", ("u",) if want == "p" else FLOW_AND_SLOPES, result)


def over_wall(times: float, results: Arrays, cloud: Arrays) -> AnyArray:
    """Return a velocity times the height over the wall."""
    return times * cloud["points"][2] * results["u"]


def _down(row: int, results: Arrays, cloud: Arrays) -> AnyArray:
    """Return ``-e3`` times a row."""
    rows = np.zeros_like(results["u"], shape=(3, results["u"].shape[1]))
    rows[2] = -results["u"][row]
    return rows


def _row(quadrupoles: Map | None, axis: int, dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return a row of quadrupoles: doublets whose flow along this axis is their potential."""
    return mapped(quadrupoles, dens, cloud)[3 * axis : 3 * axis + 3]


def _phi_alone(images: _Images, want: str) -> list[Addend]:
    """Return the flow of dipoles and quadrupoles, of sums whose velocities alone are taken.

    The flow of doublets is against the slope of the potential of such dipoles.
    """
    slopes = results_of(want, partial(over_wall, -1.0), -2.0)
    sums = [("doublet", slopes, images.dipoles), ("doublet_dipole", slopes, images.quadrupoles)]
    if want != "p":
        sums.append(("laplace_dipole", results_of(want, partial(_down, 0)), images.dipoles))
        for axis in range(3):
            flow = results_of(want, partial(_down, axis))
            sums.append(("doublet", flow, partial(_row, images.quadrupoles, axis)))
    return [
        addend(kernel, result, density=density, sources=mirrored)
        for kernel, result, density in sums
    ]
