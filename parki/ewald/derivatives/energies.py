"""`energy`: the energy of charges and dipoles, with forces, virial, potentials and fields.

Forces of charges, and the virial, are one derivative. Dipoles take one sum more, of multipoles: the
field along an axis is the potential of what sources become that move along it. So the energy is one
of charges and dipoles at charges, minus one along each axis at dipoles, which have a virial by box.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError, by_words
from parki.ewald.derivatives.by_box import strains_of
from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.derivatives.one_sum import OneSum
from parki.ewald.derivatives.plates import (
    ChargesAndImages,
    Rest,
    capacity,
    check_plates,
    moment,
    plate_charges,
)
from parki.ewald.geometry.own_boxes import (
    OwnBox,
    check_systems_of_boxes,
    of_first,
    own_boxes,
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
from parki.ewald.points import check_density, check_dtypes, take_options
from parki.ewald.points.request import SumRequest
from parki.ewald.points.widths import energies_of_pairs, refuse_boxes
from parki.ewald.sums import SUMS, kernel
from parki.ewald.sums.plates import mirrors
from parki.interchange import as_array, flag, library_of, to_host
from parki.memory import telling
from parki.runtime import get_execution_space
from parki.typing import AnyArray, Array, Boxes, OfPoints, OptionKeywords, Periodicities, Unpack

# What points have, and the axes of a value of it.
OF_POINTS = {"each": 0, "forces": 1, "potentials": 0, "field": 1}
# What sums call them.
WORDS = {"dens": "charges", "trg": "points", "src": "points"}
WORDS |= {f"of {each}": "of points" for each in ("targets", "sources")}
WORDS |= {f"{each} given": "points given" for each in ("targets", "sources")}


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
    x, q, d, in_rows = _checked(arrays, rows, options, kappa, looked=system_boxes is not None)
    charged = _Charges.of(x, q, d, epsilon=epsilon, kappa=kappa, boxes=system_boxes is not None)
    for name, labels in {"exclude": exclude, "systems": systems}.items():
        check_alike(name, labels)
    if systems is None and system_boxes is not None:
        check_systems_of_boxes(None, system_boxes)  # refuses them without systems
    default = systems is None and d is None and not options.walled
    strained = default if virial is None else flag("virial", virial)
    if options.walled:
        batch = {"systems": systems, "boxes": boxes, "periodicities": periodicities}
        others = {name: value is not None for name, value in batch.items()}
        present = {**others, "kappa": kappa is not None, "virial": strained}
        check_plates(x, q, options, present)
    with by_words(WORDS), np.errstate(over="ignore", invalid="ignore"):  # refused below
        energies = _energies(
            charged,
            options,
            strained=strained,
            exclude=exclude,
            systems=systems,
            boxes=system_boxes,
        )
        each, double = energies.each, np.dtype(np.float64)
        total: float | NDArray[np.float64]
        if systems is None:
            total = float(each.sum(dtype=double))
        else:
            each = to_host(each)
            total = np.array([each[a:b].sum(dtype=double) for a, b in pairwise(energies.ends)])
    plates = plate_charges(x, q, d, options) if options.walled else None
    if options.voltage:
        total += options.slope * moment(x, q, d) - capacity(options) * options.voltage**2 / 2
        energies = _at_voltage(charged, energies, options.slope)
    if not np.isfinite(total).all():
        raise ParkiValueError(
            "the energy is beyond the largest number of float64; give charges in a larger unit"
        )

    back = library_of(points)

    def like(values: AnyArray) -> AnyArray:
        return back(values.T if in_rows else values)

    fields = None if energies.field is None else like(energies.field)
    potentials = back(energies.potentials)
    return Energy(total, like(energies.forces), energies.virial, potentials, fields, plates)


def _at_voltage(charges: _Charges, energies: _Parts, slope: float) -> _Parts:
    """Return energies where the potential has another slope, of a voltage."""
    z = np.zeros_like(charges.points)
    z[2] = slope
    return energies._replace(
        forces=energies.forces - charges.values * z,
        potentials=energies.potentials + slope * charges.points[2],
        field=None if energies.field is None else energies.field - z,
    )


class _Charges(NamedTuple):
    """Charges (N,) at points (3, N), perhaps with dipoles (3, N); and the names of their sums."""

    points: AnyArray
    values: AnyArray
    dipoles: AnyArray | None
    kernel: str
    multipoles: str
    widths: tuple[Any, Any] | None = None

    @classmethod
    def of(
        cls,
        x: AnyArray,
        q: AnyArray,
        d: AnyArray | None,
        *,
        epsilon: Any,
        kappa: float | None,
        boxes: bool,
    ) -> _Charges:
        """Return charges with the sums of their potentials, and of dipoles and quadrupoles."""
        if np.ndim(epsilon) > 0:
            _refuse_both(kappa)
            refuse_boxes(boxes)
            return cls(x, q, d, *energies_of_pairs(x, epsilon))
        name, parameters = sum_of_charges(kappa, epsilon)
        if not parameters:
            return cls(x, q, d, name, "multipoles(order=2)")
        soft = parameters if kappa is None else {}
        multipoles = kernel("multipoles", order=2, **soft)
        return cls(x, q, d, kernel(name, **parameters), multipoles)


def sum_of_charges(kappa: float | None, epsilon: float) -> tuple[str, dict[str, float]]:
    """Return the sum of potentials of charges of one width, and its parameters.

    Two Gaussians have the energy of a point and a Gaussian of both widths.
    """
    if getattr(epsilon, "ndim", 0) == 0 and epsilon == 0:
        return ("laplace", {}) if kappa is None else ("yukawa", {"kappa": kappa})
    _refuse_both(kappa)
    kernel("laplace", epsilon=epsilon)  # refuses what is no width
    return "laplace", {"epsilon": math.sqrt(2) * epsilon}


def _refuse_both(kappa: float | None) -> None:
    """Refuse screened charges that are Gaussians."""
    if kappa is not None:
        raise ParkiValueError(
            "kappa was given, and epsilon as well; screened charges are points: leave out one of "
            "the two"
        )


class _Parts(NamedTuple):
    """Energies of points, and what `Energy` has, with columns."""

    each: AnyArray
    forces: AnyArray
    potentials: AnyArray
    field: AnyArray = None
    virial: NDArray[np.float64] | None = None
    ends: tuple[int, ...] = ()  # where systems begin, and the last one ends


def _checked(
    arrays: dict[str, AnyArray],
    rows: bool | None,
    options: EwaldOptions,
    kappa: float | None,
    looked: bool,
) -> tuple[AnyArray, AnyArray, AnyArray | None, bool]:
    """Return points and dipoles as columns, charges between them, and whether they were rows.

    The values of charges are ``looked`` at here only where the sum takes others.
    """
    shape = arrays["points"].shape
    in_rows = check_charges(shape, arrays["charges"].shape, rows)
    check_dtypes(arrays)
    if "dipoles" in arrays and arrays["dipoles"].shape != shape:
        raise ParkiValueError(
            f"dipoles has shape {arrays['dipoles'].shape}; expected that of the points, {shape}"
        )
    if "dipoles" in arrays and kappa is not None:
        raise ParkiValueError(
            "kappa is for charges, but dipoles were given; leave out one of the two"
        )
    columns = {n: a.T.copy() if in_rows and a.ndim == 2 else a for n, a in arrays.items()}
    for name in ("charges", "dipoles"):
        if name in arrays and (looked or "dipoles" in arrays):
            values = columns[name]
            check_density(name, values, values.shape, single=options.precision == "mixed")
    return columns["points"], columns["charges"], columns.get("dipoles"), in_rows


def check_charges(shape: tuple[int, ...], charges: tuple[int, ...], rows: bool | None) -> bool:
    """Return whether points of this shape are in rows; refuse other shapes, also of charges."""
    in_rows = _in_rows(shape, rows)
    count = shape[0 if in_rows else 1]
    if charges != (count,):
        raise ParkiValueError(
            f"charges has shape {charges}; expected ({count},), a number for each point: several "
            "sets of charges take a call each"
        )
    return in_rows


def _in_rows(shape: tuple[int, ...], rows: bool | None) -> bool:
    """Return whether points of this shape are in rows; refuse three if nobody says so."""
    fits = {True: shape[1:] == (3,), False: shape[:1] == (3,) and len(shape) == 2}
    if rows is None and all(fits.values()):
        raise ParkiValueError(
            "points has shape (3, 3), whose rows or columns may be the points; pass rows=True if "
            "points[0] is one, or rows=False if points[:, 0] is"
        )
    in_rows = fits[True] if rows is None else flag("rows", rows)
    if not fits[in_rows]:
        expected = "(N, 3) or (3, N)" if rows is None else ("(3, N)", "(N, 3)")[in_rows]
        said = "" if rows is None else f", as rows is {in_rows}"
        raise ParkiValueError(f"points has shape {shape}; expected {expected}{said}")
    return in_rows


def check_alike(name: str, pair: OfPoints | None) -> None:
    """Refuse a pair of arrays that differ, of points that are targets and sources at once."""
    if isinstance(pair, tuple) and len(pair) == 2:
        first, second = (to_host(as_array(name, array)) for array in pair)
        if first.ndim and not np.array_equal(first, second):
            raise ParkiValueError(
                f"{name} differs for targets and sources, but the points are both; give one array"
            )


def _energies(
    charges: _Charges,
    options: EwaldOptions,
    *,
    strained: bool,
    exclude: LabelsLike,
    systems: SystemsLike,
    boxes: tuple[OwnBox, ...] | None,
) -> _Parts:
    """Return the energies of one system, or of several: at once, or by groups of boxes."""
    space = get_execution_space(options.execution_space, charges.points)
    arrays = {"trg": charges.points, "src": charges.points}
    members = check_systems(systems, arrays, space, options)
    if boxes is None:
        found = _of_one(charges, options, strained=strained, exclude=exclude, systems=members)
        return found._replace(ends=() if members is None else tuple(members.targets.tolist()))
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
    count, whole = charges.points.shape[1], dict[str, Any]()
    for group, part in zip(checked.groups, checked.parts(charges.values), strict=True):
        columns, own = part.columns, charges._replace(points=part.trg, values=part.dens)
        if charges.dipoles is not None:
            own = own._replace(dipoles=columns.take("norms", charges.dipoles))
        found = _of_one(
            own, part.options, strained=strained, exclude=part.labels, systems=part.systems
        )
        for name, axes in OF_POINTS.items():
            if (values := getattr(found, name)) is not None:
                rows = columns.back("u", values, axes)
                shape = (*rows.shape[:-1], count)
                whole.setdefault(name, np.empty_like(rows, shape=shape))
                whole[name][..., columns.place("u")] = rows
        if found.virial is not None:
            virial = whole.setdefault("virial", np.empty((len(checked.systems.targets) - 1, 3, 3)))
            virial[group.numbers] = found.virial
            if group.boxes is not None:
                rotations = group.boxes.rotations
                rotated = rotations.swapaxes(1, 2) @ found.virial @ rotations
                virial[group.numbers] = rotated
    return _Parts(**whole, ends=tuple(checked.systems.targets.tolist()))


def _of_one(
    charges: _Charges,
    options: EwaldOptions,
    *,
    strained: bool,
    exclude: LabelsLike,
    systems: Systems | None,
) -> _Parts:
    """Return the energies of one system, or of several in one box, by one sum for charges alone.

    The derivatives by the points as targets and as sources are equal, and half of each is the
    energy's. So is that by strains. Images are sources, too.
    """
    x, q, d, *_ = charges
    sources: _Charges | ChargesAndImages = charges
    rest: Rest | None = None
    if options.walled:
        alone = ChargesAndImages(x, q, d, charges.widths)
        if options.corrected:
            rest = Rest.of(alone, options, get_execution_space(options.execution_space, x))
        sources = alone.with_images(options)
        exclude = _labels_of_images(charges, options, exclude)
        options = options_of_sums(options)
    by_box, field, strains = strained and any(options.periodic), None, np.zeros((1, 3, 3))
    want: tuple[str, ...] = ("u", "grad_u") if d is None or by_box else ("u",)
    options = options.of_derivatives
    found = sum_once(
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
    )
    (potentials, *slopes), strain = found if by_box else (found, None)
    forces = -q * slopes[0] if slopes else None
    if strain is not None:
        strains = to_host(strain)[0].T.reshape(-1, 3, 3)
    if rest is not None:
        potentials = potentials + rest.potentials
    each = q * potentials
    if d is not None:
        of_dipoles = _multipoles(charges, sources, options, systems=systems, exclude=exclude)
        if by_box:
            strains = strains + _strains_of_dipoles(
                charges, d, options, systems=systems, exclude=exclude
            )
        potentials, field = potentials + of_dipoles.potentials, of_dipoles.field
        forces = of_dipoles.forces
        if rest is not None:
            field = field + rest.fields
        each = q * potentials - (d * field).sum(axis=0)
    if rest is not None:
        forces = forces + rest.forces
    return _Parts(
        each=0.5 * each,
        forces=forces,
        virial=_virial(forces, x, strains, options, systems) if strained else None,
        potentials=potentials,
        field=field,
    )


def _labels_of_images(
    charges: _Charges, options: EwaldOptions, exclude: LabelsLike
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


class _OfDipoles(NamedTuple):
    """The potential of dipoles, and the field and the forces of dipoles and charges."""

    potentials: AnyArray
    field: AnyArray
    forces: AnyArray


def _multipoles(
    charges: _Charges,
    sources: _Charges | ChargesAndImages,
    options: EwaldOptions,
    *,
    systems: SystemsLike,
    exclude: LabelsLike,
) -> _OfDipoles:
    """Return the potential, the field and the forces of dipoles among charges, of these sources."""
    x, q, d, *_ = charges
    u, slopes = sum_once(
        charges.multipoles,
        x,
        sources.points,
        _moving(charges.multipoles, sources.values, sources.dipoles),
        sources.widths,
        options.of_derivatives,
        want=("u", "grad_u"),
        systems=systems,
        exclude=exclude,
    )
    return _OfDipoles(u[0], u[1:], q * u[1:] + (d * slopes[1:]).sum(axis=1))


def _strains_of_dipoles(
    charges: _Charges,
    d: AnyArray,
    options: EwaldOptions,
    *,
    systems: Systems | None,
    exclude: LabelsLike,
) -> NDArray[np.float64]:
    """Return the derivatives (S, 3, 3) of twice the energy of dipoles by strains."""
    x, q, _, _, kind, widths = charges
    labels = check_labels(exclude, kind, True, {"trg": x, "src": x}, options, systems)
    one = OneSum(
        SUMS[kind], options=options, trg=x, src=x, norms=widths, labels=labels, systems=systems
    )
    strains = []
    for alone, own, _ in one.by_system():
        weights = np.concatenate([q[None, own], -d[:, own]])[:, None]
        dens = _moving(kind, q[own], d[:, own])
        strains.append(sum(strains_of(alone, dens, weights, want=("u", "grad_u"))))
    return np.array(strains)


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
