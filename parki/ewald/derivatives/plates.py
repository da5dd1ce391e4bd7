"""Charges near metal and dielectrics: images, a voltage, and the charges of plates, of `energy`.

Twice the energy is the sum of charges times potentials, each with its own images, and forces are
those at fixed images: what moves with a charge counts by half, and twice.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.derivatives.between_walls import correction_of
from parki.ewald.derivatives.charges import Charges
from parki.ewald.options import EwaldOptions
from parki.ewald.options.walls import METAL
from parki.ewald.points import check_points
from parki.ewald.points.arguments import check_net
from parki.ewald.sums.maps import Beside
from parki.ewald.sums.plates import Image, mirrors
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray


def check_plates(charges: Charges, options: EwaldOptions, present: dict[str, bool]) -> None:
    """Refuse walls for flows, points behind walls, net charges, and what is not there near plates.

    ``present`` says what was given, by name.

    Raises
    ------
    ParkiValueError
    """
    if not options.image_factors:
        raise ParkiValueError(
            f"wall is {options.wall!r}, which is for flows; energies take 'metal', the image "
            "factor of a dielectric, or no wall"
        )
    there = [name for name, given in present.items() if given]
    if there:
        raise ParkiValueError(
            f"{there[0]} was given, but wall is {options.wall!r}; near plates parki has the "
            "energies and forces of charges and dipoles of one system, without screening and "
            "without a virial"
        )
    check_points("points", charges.points, options)
    check_net("charges", charges.values, options)


def with_images(charges: Charges, options: EwaldOptions) -> Charges:
    """Return charges and dipoles with their images after them, as sources of sums."""
    pairs = mirrors(options.image_factors, options.gap)
    images = Beside((None, *(Image(factor) for _, factor in pairs)))
    widths = charges.widths and (charges.widths[0], np.tile(charges.widths[1], 1 + len(pairs)))
    return charges._replace(
        points=Beside((None, *(mirror for mirror, _ in pairs)))(charges.points, {}),
        values=images(charges.values[None], {})[0],
        dipoles=None if charges.dipoles is None else images(charges.dipoles, {}),
        widths=widths,
    )


class Rest(NamedTuple):
    """What images in two walls lack: of potentials, fields, and forces."""

    potentials: AnyArray
    fields: AnyArray
    forces: AnyArray

    @classmethod
    def of(cls, charges: Charges, options: EwaldOptions, space: ExecutionSpace) -> Rest:
        """Return it for charges, and dipoles if there are any, without their images."""
        x, q, d = charges.points, charges.values, charges.dipoles
        cloud, parts = {"points": x, "norms": None}, []
        for kernel, dens in (
            ("laplace", q[None, None]),
            ("laplace_dipole", None if d is None else d[None]),
        ):
            if dens is None:
                continue
            correction = correction_of(
                {name: (kernel, name) for name in ("u", "grad_u")},
                options,
                sources=q.size,
                components=dens.shape[1],
                points=q.size,
                dtype=x.dtype,
                space=space,
            ).place(cloud, cloud)
            results = correction.summed(dens)
            along = [] if d is None else correction.pushed(dens, {"trg": d})
            curved = [rows[0] for name, rows in along if name == "grad_u"]
            parts.append((results["u"][0, 0], results["grad_u"][0], sum(curved)))
        phi, slopes, curved = (sum(each) for each in zip(*parts, strict=True))

        def rounded(rows: AnyArray) -> AnyArray:
            return rows.astype(x.dtype, copy=False)

        return cls(
            potentials=rounded(phi),
            fields=rounded(-slopes),
            forces=rounded(-q * slopes - curved),
        )


def moment(charges: Charges) -> float:
    """Return the dipole moment of charges and dipoles along x3."""
    x, q, d, double = charges.points, charges.values, charges.dipoles, np.dtype(np.float64)
    total = float((q * x[2].astype(double)).sum(dtype=double))
    return total if d is None else total + float(d[2].sum(dtype=double))


def capacity(options: EwaldOptions) -> float:
    """Return the charge that two plates take for each unit of voltage, ``A / (4 pi H)``."""
    area = abs(float(np.linalg.det(options.vectors[:2, :2])))
    return area / (4 * math.pi * float(options.gap or math.inf))


def plate_charges(charges: Charges, options: EwaldOptions) -> NDArray[np.float64] | None:
    """Return the charge of each plate of metal, the lower one first; None if there is none.

    The field of charges ends at plates: one takes all, and two share it by the heights of charges.
    """
    metals = options.image_factors.count(METAL)
    net = -float(charges.values.sum(dtype=np.float64))
    if metals < 2:
        return np.full(1, net) if metals else None
    gap, voltage = float(options.gap or math.inf), options.voltage or 0.0
    upper = capacity(options) * voltage - moment(charges) / gap
    return np.array([net - upper, upper])
