"""`energy`: the energy of charges and dipoles, with forces, virial, potentials and fields.

Forces of charges, and the virial, are one derivative. Dipoles take one sum more, of multipoles: the
field along an axis is the potential of what sources become that move along it. So the energy is one
of charges and dipoles at charges, minus one along each axis at dipoles, which have a virial by box.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError, by_words
from parki.ewald.derivatives.by_box import by_lattice, vectors_of
from parki.ewald.derivatives.vjp import pulled
from parki.ewald.geometry.systems import (
    LabelsLike,
    Systems,
    SystemsLike,
    check_labels,
    check_systems,
    check_systems_of_boxes,
    first_box,
    rows_of_boxes,
)
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.ewald_sum import sum_once
from parki.ewald.points import check_density, check_dtypes, check_options, take_options
from parki.ewald.sums import SUMS, kernel
from parki.interchange import as_array, as_given, flag, to_host
from parki.memory import telling
from parki.runtime import get_execution_space
from parki.typing import AnyArray, Array, Boxes, DerivedBy, OfPoints, OptionKeywords, Unpack

MULTIPOLES = "multipoles(order=2)"
# What sums call them.
WORDS = {"dens": "charges", "trg": "points", "src": "points"}
WORDS |= {f"of {each}": "of points" for each in ("targets", "sources")}
WORDS |= {f"{each} given": "points given" for each in ("targets", "sources")}


class Energy(NamedTuple):
    """What `energy` returns; forces and potentials are in the library of the points.

    Attributes
    ----------
    energy : float, or ndarray of shape (S,)
        ``1/2 sum q phi``, and of each system if there are several.
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
    """

    energy: Any
    forces: AnyArray
    virial: NDArray[np.float64] | None
    potentials: AnyArray
    fields: AnyArray = None


@telling
def energy(
    points: Array,
    charges: Array,
    options: EwaldOptions | None = None,
    *,
    rows: bool | None = None,
    dipoles: Array | None = None,
    kappa: float | None = None,
    virial: bool | None = None,
    exclude: OfPoints | None = None,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Energy:
    """Return the energy of charges and dipoles, their forces, the virial, and the potentials.

    The energy is half the sum of ``q_i q_j / r_ij`` over all pairs of a charge and another one or
    an image, and of the same of charges with dipoles. The gauge is the one of `laplace`: with three
    periodic axes a uniform background neutralises a net charge. With ``kappa`` pairs have
    ``exp(-kappa r) / r``, and no background. Multiply all by 1 / (4 pi eps_0) in your units, such
    as 14.399645 eV angstrom for elementary charges.

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
    kappa : float, optional
        Inverse of the screening length, in the unit of the box; of charges alone.
    virial : bool, optional
        Whether the virial is wanted, which several systems take one after the other. Default: of
        one system without dipoles, with which it takes several times the time of the rest.
    exclude, systems, boxes
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
    _, options = take_options(None, options, keywords, box=first_box(boxes))
    if options.walled:
        raise ParkiValueError(f"wall is {options.wall!r}, but energies are those of boxes without")
    arrays = {"points": as_array("points", points), "charges": as_array("charges", charges)}
    if dipoles is not None:
        arrays["dipoles"] = as_array("dipoles", dipoles)
    x, q, d, in_rows = _checked(arrays, rows, options, kappa)
    for name, labels in {"exclude": exclude, "systems": systems}.items():
        _check_alike(name, labels)
    if systems is None and boxes is not None:
        check_systems_of_boxes(None, len(rows_of_boxes(boxes)))  # refuses them without systems
    default = systems is None and d is None
    strained = default if virial is None else flag("virial", virial)
    charged = _Charges(x, q, d, kappa)
    total: float | NDArray[np.float64]
    with by_words(WORDS), np.errstate(over="ignore", invalid="ignore"):  # refused below
        if systems is None:
            energies = _of_one(
                charged,
                options,
                strained=strained,
                exclude=exclude,
                systems=systems,
                boxes=boxes,
            )
            total = float(energies.each.sum())
        else:
            energies = _of_several(
                charged,
                options,
                strained=strained,
                exclude=exclude,
                systems=systems,
                boxes=boxes,
            )
            total = np.array([energies.each[a:b].sum() for a, b in pairwise(energies.ends)])
    if not np.isfinite(total).all():
        raise ParkiValueError(
            "the energy is beyond the largest number of float64; give charges in a larger unit"
        )

    def like(values: AnyArray) -> AnyArray:
        return as_given(values.T if in_rows else values, points)

    fields = None if energies.field is None else like(energies.field)
    potentials = as_given(energies.potentials, points)
    return Energy(total, like(energies.forces), energies.virial, potentials, fields)


class _Charges(NamedTuple):
    """Charges (N,) at points (3, N), perhaps with dipoles (3, N) or a screening."""

    points: AnyArray
    values: AnyArray
    dipoles: AnyArray | None
    kappa: float | None

    @property
    def kernel(self) -> str:
        """The sum of their potentials."""
        return "laplace" if self.kappa is None else kernel("yukawa", kappa=self.kappa)

    def taken(self, first: int, last: int) -> _Charges:
        """Return some of them."""
        x, q = self.points[:, first:last].copy(), self.values[first:last].copy()
        d = None if self.dipoles is None else self.dipoles[:, first:last].copy()
        return self._replace(points=x, values=q, dipoles=d)


class _Parts(NamedTuple):
    """Energies of points, and what `Energy` has, with columns."""

    each: NDArray[np.float64]
    forces: AnyArray
    virial: NDArray[np.float64] | None
    potentials: AnyArray
    field: AnyArray
    ends: tuple[int, ...] = ()  # where systems begin, and the last one ends


def _checked(
    arrays: dict[str, AnyArray], rows: bool | None, options: EwaldOptions, kappa: float | None
) -> tuple[AnyArray, AnyArray, AnyArray | None, bool]:
    """Return points and dipoles as columns, charges between them, and whether they were rows."""
    shape = arrays["points"].shape
    in_rows = _in_rows(shape, rows)
    count = shape[0 if in_rows else 1]
    check_dtypes(arrays)
    if arrays["charges"].shape != (count,):
        raise ParkiValueError(
            f"charges has shape {arrays['charges'].shape}; expected ({count},), a number for each "
            "point: several sets of charges take a call each"
        )
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
        if name in arrays:
            values = columns[name]
            check_density(name, values, values.shape, single=options.precision == "mixed")
    return columns["points"], columns["charges"], columns.get("dipoles"), in_rows


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


def _check_alike(name: str, pair: OfPoints | None) -> None:
    """Refuse a pair of arrays that differ, of points that are targets and sources at once."""
    if isinstance(pair, tuple) and len(pair) == 2:
        first, second = (to_host(as_array(name, array)) for array in pair)
        if first.ndim and not np.array_equal(first, second):
            raise ParkiValueError(
                f"{name} differs for targets and sources, but the points are both; give one array"
            )


def _of_one(
    charges: _Charges,
    options: EwaldOptions,
    *,
    strained: bool,
    exclude: LabelsLike,
    systems: SystemsLike,
    boxes: Boxes | None,
) -> _Parts:
    """Return the energies of one system, or of several that are summed at once."""
    x, q, d, _ = charges
    by_box = strained and any(options.periodic)
    # With charges as weights, the derivative by the density is the potential. The derivatives by
    # the points as targets and as sources are equal, and half of each is the energy's.
    wrt: list[DerivedBy] = ["dens"]
    if d is None or by_box:
        wrt.append("src")
    if by_box:
        wrt.append("lattice")
    derivatives = pulled(
        charges.kernel,
        x,
        x,
        q,
        None,
        check_options(options),
        values=q,
        wrt=tuple(wrt),
        exclude=exclude,
        systems=systems,
        boxes=boxes,
    )
    potentials, virial, field = derivatives["dens"], None, None
    forces = -derivatives["src"] if "src" in wrt else None
    lattice = to_host(derivatives["lattice"]) if by_box else np.zeros((3, 3))
    each = q * potentials
    if d is not None:
        of_dipoles = _multipoles(x, q, d, options, systems=systems, exclude=exclude)
        if by_box:
            apart = of_dipoles.forces - forces
            lattice = lattice + _multipoles_by_lattice(x, q, d, options, apart, exclude=exclude)
        potentials, field = potentials + of_dipoles.potentials, of_dipoles.field
        forces = of_dipoles.forces
        each = q * potentials - (d * field).sum(axis=0)
    if strained:
        virial = to_host(forces @ x.T) - 0.5 * lattice.T @ vectors_of(options)
    return _Parts(
        each=0.5 * to_host(each).astype(np.float64),
        forces=forces,
        virial=virial,
        potentials=potentials,
        field=field,
    )


def _of_several(
    charges: _Charges,
    options: EwaldOptions,
    *,
    strained: bool,
    exclude: LabelsLike,
    systems: SystemsLike,
    boxes: Boxes | None,
) -> _Parts:
    """Return the energies of several systems: at once, or one after the other where it must be."""
    space = get_execution_space(options.execution_space, charges.points)
    arrays = {"trg": charges.points, "src": charges.points}
    members = cast(Systems, check_systems(systems, arrays, space, options))
    ends, cells = tuple(members.targets.tolist()), [options.box] * members.count
    if boxes is not None:
        cells = [*rows_of_boxes(boxes)]
        check_systems_of_boxes(members.count, len(cells))
    if not strained and (charges.dipoles is None or boxes is None):
        together = _of_one(
            charges, options, strained=False, exclude=exclude, systems=systems, boxes=boxes
        )
        return together._replace(ends=ends)
    # Each system is checked below in its own box, whose images are those that count.
    unwarned = replace(options, exclude_image=options.exclude_image or "nearest")
    parts, labels = [], check_labels(exclude, "laplace", True, arrays, unwarned)
    for (first, last), box in zip(pairwise(ends), cells, strict=True):
        one = _of_one(
            charges.taken(first, last),
            replace(options, box=box),
            strained=strained,
            exclude=labels and labels.targets[first:last],
            systems=None,
            boxes=None,
        )
        parts.append(one)
    forces, potentials, field = (
        None if arrays[0] is None else space.array_module.concatenate(arrays, axis=-1)
        for arrays in zip(*((p.forces, p.potentials, p.field) for p in parts), strict=True)
    )
    virials = [part.virial for part in parts if part.virial is not None]
    return _Parts(
        each=np.concatenate([part.each for part in parts]),
        forces=forces,
        virial=np.stack(virials) if strained else None,
        potentials=potentials,
        field=field,
        ends=ends,
    )


class _OfDipoles(NamedTuple):
    """The potential of dipoles, and the field and the forces of dipoles and charges."""

    potentials: AnyArray
    field: AnyArray
    forces: AnyArray


def _multipoles(
    x: AnyArray,
    q: AnyArray,
    d: AnyArray,
    options: EwaldOptions,
    *,
    systems: SystemsLike,
    exclude: LabelsLike,
) -> _OfDipoles:
    """Return the potential, the field and the forces of dipoles d among charges q."""
    u, slopes = sum_once(
        MULTIPOLES,
        x,
        x,
        _moving(q, d),
        None,
        options.of_derivatives(),
        want=("u", "grad_u"),
        systems=systems,
        exclude=exclude,
    )
    return _OfDipoles(u[0], u[1:], q * u[1:] + (d * slopes[1:]).sum(axis=1))


def _multipoles_by_lattice(
    x: AnyArray,
    q: AnyArray,
    d: AnyArray,
    options: EwaldOptions,
    forces: AnyArray,
    *,
    exclude: LabelsLike,
) -> NDArray[np.float64]:
    """Return the derivative of twice the energy by lattice vectors, for forces of dipoles alone."""
    options = options.of_derivatives()
    labels = check_labels(exclude, MULTIPOLES, True, {"trg": x, "src": x}, options)
    weights = np.concatenate([q[None], -d])[:, None]
    return by_lattice(
        MULTIPOLES,
        x,
        x,
        _moving(q, d),
        None,
        options,
        values={"u": weights},
        moves=[(x, -2 * forces)],
        labels=labels,
    )


def _moving(q: AnyArray, d: AnyArray) -> AnyArray:
    """Return dipoles, and what charges and dipoles become that move along each axis, (4, rows, N).

    A charge that moves along an axis adds a dipole, and a dipole a quadrupole. These have minus the
    slope of the potential as their own, which is the field.
    """
    dens = np.zeros_like(q, shape=(4, SUMS[MULTIPOLES].rows, q.size))
    dens[0, 1:4] = d
    for axis in range(3):
        dens[1 + axis, 1 + axis] = q
        dens[1 + axis, 4:].reshape(3, 3, -1)[:, axis] = d
    return dens
