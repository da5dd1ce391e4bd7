"""`energy`: the energy of charges and dipoles, with forces, virial, potentials and fields."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError, by_words
from parki.ewald.derivatives.charges import WORDS, check_alike, checked_charges
from parki.ewald.derivatives.energies_of_points import energies_of
from parki.ewald.derivatives.plates import (
    capacity,
    check_plates,
    moment,
    plate_charges,
)
from parki.ewald.geometry.own_boxes import (
    check_systems_of_boxes,
    of_first,
    own_boxes,
)
from parki.ewald.options import EwaldOptions
from parki.ewald.points import take_options
from parki.interchange import as_array, flag, library_of
from parki.memory import telling
from parki.typing import AnyArray, Array, Boxes, OfPoints, OptionKeywords, Periodicities, Unpack


class Energy(NamedTuple):
    """What `energy` returns; forces and potentials are in the library of the points.

    Attributes
    ----------
    energy : float, or ndarray of shape (S,)
        ``1/2 sum q phi``, and of each system if there are several. With a voltage less the work of
        what keeps it, ``1/2 sum q phi + V / H sum q z - A V^2 / (8 pi H)``, for phi without it.
    forces : array, in the shape of the points
        Minus the derivative by the points.
    virial : ndarray, shape (3, 3) or (S, 3, 3), or None
        Minus the derivative by a strain e of points and box together, dx = e x, while dipoles
        stay as they are. The stress is ``-virial`` over the volume. With torques on dipoles it is
        not symmetric. None where it was not asked for.
    potentials : array, shape (N,)
        ``phi``, the derivative of the energy by the charges.
    fields : array, in the shape of the points, or None
        ``-grad phi``, minus the derivative by the dipoles, on which torques ``d x field`` act.
        None without dipoles.
    plate_charges : ndarray, shape (1,) or (2,), or None
        The charge of each plate of metal, the lower one first. None without one.
    """

    energy: Any
    forces: AnyArray
    virial: NDArray[np.float64] | None
    potentials: AnyArray
    fields: AnyArray = None
    plate_charges: NDArray[np.float64] | None = None


@telling
def energy(
    points: Array,
    charges: Array,
    options: EwaldOptions | None = None,
    *,
    rows: bool | None = None,
    dipoles: Array | None = None,
    epsilon: float | Array = 0.0,
    kappa: float | None = None,
    virial: bool | None = None,
    exclude: OfPoints | None = None,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    periodicities: Periodicities | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Energy:
    """Return the energy of charges and dipoles, their forces, the virial, and the potentials.

    The energy is half the sum of ``q_i q_j / r_ij`` over all pairs of a charge and another one or
    an image, and of the same of charges with dipoles. The gauge is the one of `laplace`: with three
    periodic axes a uniform background neutralises a net charge. With ``kappa`` pairs have
    ``exp(-kappa r) / r``, and no background. With ``epsilon`` charges are Gaussians, whose own
    energy ``q^2 / (sqrt(2 pi) epsilon)`` is in the sum. Multiply all by 1 / (4 pi eps_0) in your
    units, such as 14.399645 eV angstrom for elementary charges.

    Parameters
    ----------
    points : array, shape (N, 3) or (3, N)
        Positions.
    charges : array, shape (N,)
        Zeros for dipoles alone. Several sets of charges take a call each.
    options : EwaldOptions, optional
    rows : bool, optional
        Whether each row of ``points`` is a point, (N, 3), or each column, (3, N). Default: as the
        shape says; that of three points, (3, 3), says nothing, so that they are refused.
    dipoles : array, in the shape of the points, optional
    epsilon : float, or array of shape (N,), optional
        Width of Gaussian charges, and of the charges that make dipoles, in the unit of the box:
        of all, or of each. The density is ``q exp(-(r / epsilon)^2) / (sqrt(pi) epsilon)^3``, and
        a pair has ``erf(r / w) / r`` in place of 1 / r, where ``w^2`` is the sum of both squares. A
        standard deviation s is ``epsilon = sqrt(2) s``. Zero, which is the default, is for points.
    kappa : float, optional
        Inverse of the screening length, in the unit of the box; of charges alone.
    virial : bool, optional
        Whether the virial is wanted, which takes little time, but several times that of the rest
        with dipoles. Default: of one system without dipoles.
    exclude, systems, boxes, periodicities
        As for `laplace`, of points that are targets and sources.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``.

    Returns
    -------
    Energy
        Named tuple of energy, forces, virial and potentials.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible; before any work.

    Examples
    --------
    Rock salt, whose energy is -1.7476 for each pair of ions in units of their distance:

    >>> import numpy as np, parki
    >>> cell = np.indices((2, 2, 2)).reshape(3, 8).T
    >>> charges = (-1.0) ** cell.sum(axis=1)
    >>> found = parki.energy(cell + 0.25, charges, periodicity=3, box=[2, 2, 2], tolerance=1e-9)
    >>> round(found.energy / 4, 6)
    -1.747565
    """
    system_boxes = own_boxes(boxes, periodicities)
    _, options = take_options(None, options, keywords, first=of_first(system_boxes))
    arrays = {"points": as_array("points", points), "charges": as_array("charges", charges)}
    if dipoles is not None:
        arrays["dipoles"] = as_array("dipoles", dipoles)
    checked, in_rows = checked_charges(
        arrays, rows, options, epsilon=epsilon, kappa=kappa, boxes=system_boxes is not None
    )
    check_alike("exclude", exclude)
    check_alike("systems", systems)
    if systems is None and system_boxes is not None:
        check_systems_of_boxes(None, system_boxes)  # refuses them without systems
    default = systems is None and dipoles is None and not options.walled
    strained = default if virial is None else flag("virial", virial)
    if options.walled:
        batch = {"systems": systems, "boxes": boxes, "periodicities": periodicities}
        others = {name: value is not None for name, value in batch.items()}
        check_plates(checked, options, {**others, "kappa": kappa is not None, "virial": strained})
    with by_words(WORDS), np.errstate(over="ignore", invalid="ignore"):  # refused below
        energies = energies_of(
            checked,
            options,
            strained=strained,
            exclude=exclude,
            systems=systems,
            boxes=system_boxes,
        )
        total = energies.total()
    plates = plate_charges(checked, options) if options.walled else None
    if options.voltage:
        work = options.slope * moment(checked) - capacity(options) * options.voltage**2 / 2
        total, energies = total + work, energies.at_voltage(checked, options.slope)
    if not np.isfinite(total).all():
        raise ParkiValueError(
            "the energy is beyond the largest number of float64; give charges in a larger unit"
        )

    back = library_of(points)

    def like(values: AnyArray) -> AnyArray:
        return back(values.T if in_rows else values)

    return Energy(
        energy=total,
        forces=like(energies.forces),
        virial=energies.virial,
        potentials=back(energies.potentials),
        fields=None if energies.field is None else like(energies.field),
        plate_charges=plates,
    )
