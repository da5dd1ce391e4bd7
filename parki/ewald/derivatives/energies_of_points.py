"""Energies of charges and dipoles, forces, potentials, fields and virials, by sums.

Forces of charges, and the virial, are one derivative. Dipoles take one sum more, of multipoles: the
field along an axis is the potential of what sources become that move along it. So the energy is one
of charges and dipoles at charges, minus one along each axis at dipoles, which have a virial by box.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.ewald.derivatives.by_box import by_strains
from parki.ewald.derivatives.charges import Charges
from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.derivatives.one_sum import OneSum
from parki.ewald.derivatives.plates import (
    Rest,
    with_images,
)
from parki.ewald.geometry.own_boxes import (
    OwnBox,
)
from parki.ewald.geometry.systems import (
    Labels,
    LabelsLike,
    Systems,
    SystemsLike,
    check_labels,
    check_systems,
)
from parki.ewald.options import EwaldOptions
from parki.ewald.options.mirrored import options_of_sums
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.points.request import SumRequest
from parki.ewald.sums import SUMS
from parki.ewald.sums.plates import mirrors
from parki.interchange import to_host
from parki.runtime import get_execution_space
from parki.typing import AnyArray


class EnergiesOfPoints(NamedTuple):
    """Energies of points, and what `parki.energy` returns, with columns.

    Attributes
    ----------
    each, potentials : array, shape (N,)
        The energy of each point, and its potential.
    forces, field : array, shape (3, N)
    virial : ndarray, shape (3, 3) or (S, 3, 3), or None
    ends : tuple of int
        Where systems begin, and the last one ends; empty without systems.
    """

    each: AnyArray
    forces: AnyArray
    potentials: AnyArray
    field: AnyArray = None
    virial: NDArray[np.float64] | None = None
    ends: tuple[int, ...] = ()

    def total(self) -> Any:
        """Return the energy, of each system if there are several."""
        if not self.ends:
            return float(self.each.sum(dtype=np.dtype(np.float64)))
        each = to_host(self.each)
        return np.array([each[a:b].sum(dtype=np.float64) for a, b in pairwise(self.ends)])

    def at_voltage(self, charges: Charges, slope: float) -> EnergiesOfPoints:
        """Return these where the potential has another slope, of a voltage."""
        z = np.zeros_like(charges.points)
        z[2] = slope
        return self._replace(
            forces=self.forces - charges.values * z,
            potentials=self.potentials + slope * charges.points[2],
            field=None if self.field is None else self.field - z,
        )


def energies_of(
    charges: Charges,
    options: EwaldOptions,
    *,
    strained: bool,
    exclude: LabelsLike,
    systems: SystemsLike,
    boxes: tuple[OwnBox, ...] | None,
) -> EnergiesOfPoints:
    """Return the energies of one system, or of several: at once, or by groups of boxes."""
    space = get_execution_space(options.execution_space, charges.points)
    arrays = {"trg": charges.points, "src": charges.points}
    members = check_systems(systems, arrays, space, options)
    if boxes is None:
        energies = _of_one(charges, options, strained=strained, exclude=exclude, systems=members)
        return energies._replace(ends=() if members is None else tuple(members.targets.tolist()))
    checked = InBoxes.checked(
        SumRequest.of(charges.kernel, "u", options),
        charges.points,
        charges.points,
        None,
        options,
        boxes=boxes,
        systems=members,
        exclude=exclude,
    )
    parts, of_parts = list(checked.parts(charges.values)), []
    for part in parts:
        of_part = charges._replace(points=part.trg, values=part.dens)
        if charges.dipoles is not None:
            of_part = of_part._replace(dipoles=part.columns.take("norms", charges.dipoles))
        of_parts.append(
            _of_one(
                of_part,
                part.options,
                strained=strained,
                exclude=part.labels,
                systems=part.systems,
                extents=part.extents,
            )
        )
    count = charges.points.shape[1]

    def joined(name: str, axes: int) -> AnyArray:
        """Return a value of all points, which has some axes before the columns."""
        values = [getattr(energies, name) for energies in of_parts]
        if values[0] is None:
            return None
        rows = np.empty_like(values[0], shape=(*values[0].shape[:-1], count))
        for part, value in zip(parts, values, strict=True):
            rows[..., part.columns.place("u")] = part.columns.back("u", value, axes)
        return rows

    virial = np.empty((len(checked.systems.targets) - 1, 3, 3)) if strained else None
    for group, energies in zip(checked.groups, of_parts, strict=True):
        if virial is None or energies.virial is None:
            continue
        virial[group.numbers] = energies.virial
        if group.boxes is not None:
            rotations = group.boxes.rotations
            virial[group.numbers] = rotations.swapaxes(1, 2) @ energies.virial @ rotations
    return EnergiesOfPoints(
        each=joined("each", axes=0),
        forces=joined("forces", axes=1),
        potentials=joined("potentials", axes=0),
        field=joined("field", axes=1),
        virial=virial,
        ends=tuple(checked.systems.targets.tolist()),
    )


def _of_one(
    charges: Charges,
    options: EwaldOptions,
    *,
    strained: bool,
    exclude: LabelsLike,
    systems: Systems | None,
    extents: NDArray[np.float64] | None = None,
) -> EnergiesOfPoints:
    """Return the energies of one system, or of several in one box, by one sum for charges alone.

    The derivatives by the points as targets and as sources are equal, and half of each is the
    energy's. So is that by strains. Images are sources, too.
    """
    x, q, d = charges.points, charges.values, charges.dipoles
    sources, rest = charges, None
    if options.walled:
        if options.corrected:
            rest = Rest.of(charges, options, get_execution_space(options.execution_space, x))
        sources = with_images(charges, options)
        exclude = _labels_of_images(charges, options, exclude)
        options = options_of_sums(options)
    by_box, field, strains = strained and any(options.periodic), None, np.zeros((1, 3, 3))
    want: tuple[str, ...] = ("u", "grad_u") if d is None or by_box else ("u",)
    options = options.of_derivatives
    results = sum_once(
        charges.kernel,
        x,
        sources.points,
        sources.values,
        sources.widths,
        options,
        want=want,
        systems=systems,
        exclude=exclude,
        strained=by_box,
        extents=extents,
    )
    (potentials, *slopes), strain = results if by_box else (results, None)
    forces = -q * slopes[0] if slopes else None
    if strain is not None:
        strains = to_host(strain)[0].T.reshape(-1, 3, 3)
    if rest is not None:
        potentials = potentials + rest.potentials
    each = q * potentials
    if d is not None:
        of_dipoles, field, forces = _multipoles(
            charges, sources, options, systems=systems, exclude=exclude
        )
        if by_box:
            strains = strains + _strains_of_dipoles(
                charges, d, options, systems=systems, exclude=exclude
            )
        potentials = potentials + of_dipoles
        if rest is not None:
            field = field + rest.fields
        each = q * potentials - (d * field).sum(axis=0)
    if rest is not None:
        forces = forces + rest.forces
    return EnergiesOfPoints(
        each=0.5 * each,
        forces=forces,
        virial=_virial(forces, x, strains, options, systems) if strained else None,
        potentials=potentials,
        field=field,
    )


def _labels_of_images(
    charges: Charges, options: EwaldOptions, exclude: LabelsLike
) -> Labels | None:
    """Return the labels of charges with images, which have none."""
    arrays = {"trg": charges.points, "src": charges.points}
    of_points = SUMS[charges.kernel].pair.of_points
    labels = check_labels(exclude, charges.kernel, of_points, arrays, options)
    images = len(mirrors(options.image_factors, options.gap))
    return labels and labels.beside((True, *[False] * images), None, None)


def _virial(
    forces: AnyArray,
    x: AnyArray,
    strains: NDArray[np.float64],
    options: EwaldOptions,
    systems: Systems | None,
) -> NDArray[np.float64]:
    """Return minus the derivatives by strains of each system, of which twice the energy has some.

    Free axes have no images, so that forces on the points are all.
    """
    periodic = np.outer(options.periodic, options.periodic)
    virial = -0.5 * strains
    if not periodic.all():
        moments = (forces[:, None] * x.astype(np.float64)).reshape(9, -1)
        sums = systems.sums(moments) if systems else moments.sum(axis=1, keepdims=True)
        virial = np.where(periodic, virial, to_host(sums).T.reshape(-1, 3, 3))
    return virial if systems is not None else virial[0]


def _multipoles(
    charges: Charges,
    sources: Charges,
    options: EwaldOptions,
    *,
    systems: SystemsLike,
    exclude: LabelsLike,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the potential of dipoles, then the field and the forces of dipoles and charges."""
    q, d = charges.values, charges.dipoles
    u, slopes = sum_once(
        charges.multipoles,
        charges.points,
        sources.points,
        _moving(charges.multipoles, sources.values, sources.dipoles),
        sources.widths,
        options.of_derivatives,
        want=("u", "grad_u"),
        systems=systems,
        exclude=exclude,
    )
    return u[0], u[1:], q * u[1:] + (d * slopes[1:]).sum(axis=1)


def _strains_of_dipoles(
    charges: Charges,
    d: AnyArray,
    options: EwaldOptions,
    *,
    systems: Systems | None,
    exclude: LabelsLike,
) -> NDArray[np.float64]:
    """Return the derivatives (S, 3, 3) of twice the energy of dipoles by strains."""
    x, q, kind, widths = charges.points, charges.values, charges.multipoles, charges.widths
    labels = check_labels(exclude, kind, True, {"trg": x, "src": x}, options, systems)
    one = OneSum(
        SUMS[kind], options=options, trg=x, src=x, norms=widths, labels=labels, systems=systems
    )
    weights = np.concatenate([q[None], -d])[:, None]
    gains = by_strains(one, _moving(kind, q, d), weights, want=("u", "grad_u"))
    return np.asarray(to_host(gains)).T.reshape(-1, 3, 3)


def _moving(kind: str, q: AnyArray, d: AnyArray) -> AnyArray:
    """Return dipoles, and what charges and dipoles become that move along each axis, (4, rows, N).

    A charge that moves along an axis adds a dipole, and a dipole a quadrupole. These have minus the
    slope of the potential as their own, which is the field.
    """
    dens = np.zeros_like(q, shape=(4, SUMS[kind].rows, q.size))
    dens[0, 1:4] = d
    for axis in range(3):
        dens[1 + axis, 1 + axis] = q
        dens[1 + axis, 4:].reshape(3, 3, -1)[:, axis] = d
    return dens
