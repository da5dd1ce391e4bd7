"""`direct_sum`: checks the arguments and adds the near and the far part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from parki.reference.blobs import ReferenceBlob, read
from parki.reference.far import far
from parki.reference.near import near
from parki.reference.screened import PARAMETERS, parsed
from parki.reference.split import (
    FIELDS,
    KERNELS,
    WITH_BLOBS,
    Array,
    Clouds,
    Moments,
    ReferenceSplit,
    cheapest_split,
)

MOST_LENGTH = 1e90  # its inverse is the least, so that powers of lengths are numbers
MOST_SECONDS = 600  # predicted, that nobody waits for who has not asked for it

if TYPE_CHECKING:
    from parki.ewald import EwaldOptions


def direct_sum(
    kernel: str,
    trg: ArrayLike,
    src: ArrayLike,
    dens: ArrayLike,
    norms: ArrayLike | None = None,
    options: EwaldOptions | None = None,
    *,
    box: Sequence[float | None] | Array | None = None,
    periodicity: int | Sequence[bool] | None = None,
    xi: float | None = None,
    want: str | tuple[str, ...] = "u",
) -> Any:
    """Sum a kernel over all sources and their periodic images, to about 1e-14 of the rms.

    Nothing is scaled. The physical velocity is the single layer, the rotlet or the dipole over
    8 pi mu, and the double layer over 8 pi if its density is a velocity; the physical pressure is
    mu times that. The singular part of coinciding pairs (or images) is skipped, in every field.
    They are no further apart than 1e-14 times the longest periodic side; without one, than 1e-154.

    Where a sum over images does not converge by itself, its constant is fixed by periodicity:

    * 3: the mean over the cell is zero (a uniform background neutralises the Laplace charges).
    * 2: the part constant in the plane is ``-4 pi |z| f / A`` (in-plane components) or
      ``-2 pi |z| q / A`` (Laplace), and odd in z for the double layer, the rotlet and the dipole.
    * 1: the part constant along the axis comes from the two-dimensional biharmonic -rho^2 ln rho,
      or is -2 q ln(rho) / L (Laplace), with rho in the length unit of ``box``.

    The pressure of a 3-periodic sum is the periodic part of zero mean, so that -Lap u + grad p =
    -8 pi f / V between the sources, and p + 8 pi (f . x) / V is the physical pressure. The mean
    includes 16 pi / 3 q.n (double layer) or -8 pi / 3 tr D (dipole) at the source itself. With two
    periodic axes the part constant in the plane is 4 pi sign(z) f_z / A; otherwise it decays.

    Parameters
    ----------
    kernel : str
        The sum: "laplace", "laplace_dipole", "stokes_sl", "stokes_dl", "stokes_comb",
        "stokes_rotlet", "stokes_dipole", or, with any kappa, "yukawa(kappa=2.0)"; with any alpha,
        "brinkman_sl(alpha=2.0)", "brinkman_dl(alpha=2.0)" and "brinkman_dipole(alpha=2.0)".
        Stokeslets, layers, charges and dipoles of both may be regularised, as in
        "stokes_sl(epsilon=0.1)" or "stokes_sl(epsilon=0.1, blob='prolate')": then coinciding pairs
        are summed, too.
    trg, src : array_like, shape (3, Nt) and (3, Ns)
        Targets and sources, anywhere (also outside the box), in the length unit of ``box``.
    dens : array_like, shape (Ns,), (3, Ns), (6, Ns) or (3, 3, Ns)
        Charges (Laplace), or their dipoles d; f, q or t; f in rows 0:3 and q in rows 3:6
        (combined layers); or D.
    norms : array_like, shape (3, Ns), optional
        Normals of the double layer; any length. Needed by ``stokes_dl`` and ``stokes_comb`` only.
    options : EwaldOptions, optional
        Source of ``box`` and ``periodicity``, in place of these; its other options are ignored. It
        may be given in place of ``norms`` for kernels without normals.
    box : sequence of 3 floats, or array of shape (3, 3)
        Side lengths. The sides of free directions do not matter; they may be None. Or lattice
        vectors in rows, with 2 or 3 periodic directions; a free one is normal to the
        others, or None.
    periodicity : {0, 1, 2, 3}, or sequence of 3 bools
        Number of periodic directions, which are the first ones; or for each direction whether it is
        periodic.
    xi : float, optional
        Split parameter, an inverse length; by default the cheapest one. The result does not depend
        on it, and with ``periodicity`` 0 it is unused.
    want : {"u", "p", "grad_u", "stress"} or tuple of these, default "u"
        Fields to return: potential or velocity, pressure, gradient of u, and stress. Laplace sums
        have no pressure or stress.

    Returns
    -------
    ndarray, float64, or tuple of such arrays in the order of ``want``
        Fields at the targets: u of shape (3, Nt) or, for Laplace, (Nt,); p (Nt,), in units of u
        over length; grad_u (3, 3, Nt), where [i, j] is the derivative of component i along
        direction j, or, for Laplace, (3, Nt); stress (3, 3, Nt).

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, if the kernel has no such
        field, or if the sum would take more than ten minutes and ``xi`` is not given.
    TypeError
        If an argument is of another type: text or complex numbers for real ones, for example.
    """
    kernel, kappa, blob = _checked_kernel(kernel)
    given: Any = norms
    if options is None and hasattr(given, "periodicity"):
        norms, options = None, given
    box, periodic = _checked_geometry(kernel, options, box, periodicity)
    given_box = box
    vectors, box = _checked_vectors(box, periodic)
    periodicity, axes = sum(periodic), _periodic_first(periodic)
    if blob is not None and blob.kind == "cortez" and periodicity > 0:
        raise ValueError("blob is 'cortez', which direct_sum has in free space alone")
    points, moments = _checked(kernel, trg, src, dens, norms, box, xi)
    _check_sides(points.box[periodic])
    if vectors is not None:
        vectors = vectors[np.ix_(axes, axes)]
    points = Clouds(points.trg[axes], points.src[axes], points.box[axes], vectors)
    f, dipoles = (None if rows is None else _ordered(rows, axes) for rows in moments)
    moments = Moments(f, dipoles)
    names = _checked_want(kernel, want)
    # The two parts return rows in the order of FIELDS.
    parts = {"p", "grad_u"} if "stress" in names else set()
    summed = tuple(name for name in FIELDS if name in {*names, *parts})
    if periodicity == 0:
        split = ReferenceSplit(kernel, points, periodicity, summed, 0.0, kappa)
    elif xi is not None:
        split = ReferenceSplit(kernel, points, periodicity, summed, float(xi), kappa)
        _check_time(split, 100 * MOST_SECONDS, f"take another xi than {xi}")
    else:
        split = cheapest_split(kernel, points, periodicity, summed, kappa)
        _check_time(split, MOST_SECONDS, f"give xi={split.xi:.6g} to sum nevertheless")

    split = replace(split, blob=blob)
    rows = near(split, moments)
    if periodicity > 0 and points.src.shape[1] > 0:
        rows += far(split, moments)
    back = [axes.index(axis) for axis in range(3)]
    fields = _cut(split, rows, back)
    if split.brinkman and "p" in fields:  # friction does not change pressures of forces
        fields["p"] = direct_sum(
            kernel.replace("brinkman", "stokes"),
            trg,
            src,
            dens,
            norms,
            box=given_box,
            periodicity=periodic,
            xi=xi,
            want="p",
        )
        if norms is not None:  # but takes the flow from a layer's sources and sinks
            strengths = 2 * kappa**2 * (np.asarray(dens) * norms).sum(axis=0)
            fields["p"] = fields["p"] - direct_sum(
                "laplace", trg, src, strengths, box=given_box, periodicity=periodic, xi=xi
            )
    if "stress" in names:
        gradient = fields["grad_u"]
        fields["stress"] = gradient + gradient.swapaxes(0, 1) - fields["p"] * np.eye(3)[:, :, None]
    return fields[want] if isinstance(want, str) else tuple(fields[name] for name in names)


def _check_sides(sides: Array) -> None:
    """Refuse sides whose powers overflow or vanish."""
    if not all(1 / MOST_LENGTH <= side <= MOST_LENGTH for side in sides):
        raise ValueError(
            f"box has sides of {sides}, whose powers are no numbers; take another unit"
        )


def _check_time(split: ReferenceSplit, most: float, remedy: str) -> None:
    """Refuse a sum that would take more than a given number of seconds."""
    try:
        seconds = split.seconds()
    except OverflowError:  # of numbers of images or modes
        seconds = np.inf
    if not seconds <= most:
        targets, sources = split.points.trg.shape[1], split.points.src.shape[1]
        raise ValueError(
            f"direct_sum would take {seconds:.2g} s or more for {targets} targets and {sources} "
            f"sources in a box of {split.points.box.tolist()}; expected {most:g} s at most: take "
            f"fewer points, points or a box of more equal extents, or {remedy}"
        )


def _periodic_first(periodic: list[bool]) -> list[int]:
    """Return the axes, turned in a circle so that the periodic ones are the first.

    A turn, unlike an exchange of two axes, keeps the signs of torques.
    """
    circles = [[first, (first + 1) % 3, (first + 2) % 3] for first in range(3)]
    return max(circles, key=lambda axes: [periodic[axis] for axis in axes])


def _ordered(rows: Array, axes: list[int]) -> Array:
    """Return the rows of numbers, vectors or tensors, (1, 3 or 9, N), for axes in an order."""
    if len(rows) == 9:
        return rows.reshape(3, 3, -1)[axes][:, axes].reshape(rows.shape)
    return rows[axes] if len(rows) == 3 else rows


def _cut(split: ReferenceSplit, rows: Array, axes: list[int]) -> dict[str, Array]:
    """Cut the rows of all fields, (rows, Nt), into arrays of the shapes of `direct_sum`.

    Their axes are put in an order.
    """
    count = rows.shape[1]
    vector = () if KERNELS[split.kernel].components == 1 else (3,)
    shapes = {"u": (*vector, count), "p": (count,), "grad_u": (*vector, 3, count)}
    ends = np.cumsum([split.rows(name) for name in split.fields])
    parts = zip(split.fields, np.split(rows, ends[:-1]), strict=True)
    return {name: _ordered(part, axes).reshape(shapes[name]) for name, part in parts}


def _checked_want(kernel: str, want: Any) -> tuple[str, ...]:
    """Return the names of the wanted fields."""
    names = tuple(want) if isinstance(want, (tuple, list)) else (want,)
    if not names:
        raise ValueError(f"want is empty, expected one of {', '.join(FIELDS)} or more")
    for name in names:
        if not isinstance(name, str) or name not in (*FIELDS, "stress"):
            expected = ", ".join(map(repr, (*FIELDS, "stress")))
            kind = ValueError if isinstance(want, (str, tuple, list)) else TypeError
            raise kind(f"want is {want!r}, expected one of {expected} or a tuple of them")
        if name in ("p", "stress") and KERNELS[kernel].components == 1:
            raise ValueError(f"want asks for {name!r}, but the {kernel} kernel has no pressure")
    return names


def _checked_kernel(kernel: Any) -> tuple[str, float, ReferenceBlob | None]:
    """Return the kernel without its parameters, kappa, and the blob."""
    expected = f"expected one of {', '.join(map(repr, KERNELS))}"
    if not isinstance(kernel, str):
        raise TypeError(f"kernel is {kernel!r}, {expected}")
    kappa, blob = 0.0, None
    if kernel.partition("(")[0] in PARAMETERS:
        name, kappa = parsed(kernel)
    else:
        name, blob = read(kernel)
    if name not in KERNELS:
        raise ValueError(f"kernel is {kernel!r}, {expected}")
    if name in PARAMETERS and not kappa:
        word = PARAMETERS[name]
        raise ValueError(f"{name} needs {word}, as in '{name}({word}=2.0)'")
    if blob is not None and name not in WITH_BLOBS:
        raise ValueError(f"kernel is {kernel!r}, but {name} has no blobs")
    return name, kappa, blob


def _checked_geometry(
    kernel: str, options: Any, box: Any, periodicity: Any
) -> tuple[list[float | None], list[bool]]:
    """Return side lengths (None if the points set them) and which axes are periodic."""
    if options is not None:
        if not (hasattr(options, "box") and hasattr(options, "periodicity")):
            raise TypeError(f"options is a {type(options).__name__}, expected EwaldOptions")
        if box is not None or periodicity is not None:
            raise ValueError(
                "options and box or periodicity were given; leave out box and periodicity"
            )
        # A tensor is read again.
        box, periodicity = getattr(options.box, "present", options.box), options.periodicity
        if getattr(options, "wall", None) is not None:
            raise ValueError(
                f"wall is {options.wall!r}, which direct_sum does not have; give box and "
                "periodicity for sums without a wall"
            )
        double = KERNELS[kernel].layered
        if double and getattr(options, "dl_mean", "zero") == "flux":
            raise ValueError(
                "dl_mean is 'flux', but direct_sum has the mean of zero; add "
                "8 pi / V sum (q.n) (y - x) yourself, with x and y as they are given to parki"
            )
    if periodicity is None:
        raise ValueError("periodicity is missing; give box and periodicity, or options")
    periodic = _periodic(periodicity)
    if box is None and any(periodic):
        raise ValueError("box is missing; give box and periodicity, or options")
    if _has_vectors(box):
        return box, periodic
    try:
        edges = [None] * 3 if box is None else list(box)
    except TypeError:
        raise TypeError(f"box is {box!r}, expected three lengths") from None
    sides = [None if edge is None else _numbers("box", edge) for edge in edges]
    positive = all(side is None or (side.ndim == 0 and 0 < side < np.inf) for side in sides)
    if len(sides) != 3 or not positive:
        raise ValueError(f"box is {box!r}, expected three positive lengths")
    for axis, side in enumerate(sides):
        if periodic[axis] and side is None:
            raise ValueError(f"box is {box!r}, but axis {axis} is periodic and needs its length")
    return [None if side is None else float(side) for side in sides], periodic


def _has_vectors(box: Any) -> bool:
    """Return whether a box has lattice vectors."""
    listed = isinstance(box, (tuple, list, np.ndarray))
    return listed and any(np.ndim(row) == 1 and len(row) == 3 for row in box)


def _checked_vectors(box: Any, periodic: list[bool]) -> tuple[Array | None, list[float | None]]:
    """Return the lattice vectors of a tilted box, in rows, and side lengths, as of other boxes."""
    if not _has_vectors(box):
        return None, box
    rows = [np.zeros(3) if row is None else _numbers("box", row) for row in box]
    free = [axis for axis in range(3) if not periodic[axis]]
    shaped = len(rows) == 3 and all(row.shape == (3,) and np.isfinite(row).all() for row in rows)
    if not shaped or len(free) > 1 or any(box[axis] is None for axis in range(3) if periodic[axis]):
        raise ValueError(
            f"box is {box!r}, expected three lattice vectors, two or three of which are periodic"
        )
    vectors = np.array(rows)
    _check_sides(np.abs(vectors).max(axis=1)[periodic])
    sides = [None if row is None else float(np.linalg.norm(row)) for row in box]
    for axis in free:
        if vectors[axis].any() and not np.isclose(vectors[axis, axis], sides[axis] or 0.0):
            raise ValueError(f"box is {box!r}, whose free axis {axis} is not along that axis")
        vectors[axis] = 0
        if vectors[:, axis].any():
            raise ValueError(f"box is {box!r}, whose periodic axes lean along axis {axis}")
        vectors[axis, axis] = 1 if sides[axis] is None else sides[axis]
    if np.linalg.det(vectors) <= 0:
        raise ValueError(f"box is {box!r}, expected right-handed lattice vectors")
    return vectors, sides


def _periodic(periodicity: Any) -> list[bool]:
    """Return for each axis whether it is periodic."""
    expected = "expected 0, 1, 2 or 3, or three truth values"
    flags = periodicity.tolist() if isinstance(periodicity, np.ndarray) else periodicity
    listed = isinstance(flags, (tuple, list)) and len(flags) == 3
    if listed and all(isinstance(flag, (int, np.bool_)) and flag in (0, 1) for flag in flags):
        return [bool(flag) for flag in flags]
    if isinstance(periodicity, bool) or not isinstance(periodicity, (int, np.integer)):
        raise TypeError(
            f"periodicity is {periodicity!r} ({type(periodicity).__name__}), {expected}"
        )
    if periodicity not in (0, 1, 2, 3):
        raise ValueError(f"periodicity is {periodicity!r}, {expected}")
    return [bool(axis < periodicity) for axis in range(3)]


def _checked(
    kernel: str,
    trg: ArrayLike,
    src: ArrayLike,
    dens: ArrayLike,
    norms: ArrayLike | None,
    box: list[float | None],
    xi: float | None,
) -> tuple[Clouds, Moments]:
    """Validate the arguments of :func:`direct_sum` and convert them to uniform shapes."""
    if xi is not None and not 0.0 < _numbers("xi", xi) < np.inf:
        raise ValueError(f"xi is {xi!r}, expected a positive number or None")
    targets, sources = _matrix("trg", trg, 3), _matrix("src", src, 3)
    for name, points in (("trg", targets), ("src", sources)):
        if points.size and abs(points).max() > MOST_LENGTH:
            raise ValueError(
                f"{name} has coordinates of {abs(points).max():g}, expected {MOST_LENGTH:g} at "
                "most; take another unit"
            )
    count = sources.shape[1]
    density, kind = _numbers("dens", dens), KERNELS[kernel]
    if kind.rows == 1 and density.ndim == 1:
        density = density[None, :]
    if kind.rows == 9:
        if density.shape != (3, 3, count):
            raise ValueError(f"dens has shape {density.shape}, expected (3, 3, {count})")
        density = density.reshape(9, count)
    density = _matrix("dens", density, kind.rows, count)
    clouds = Clouds(targets, sources, _sides(box, targets, sources))
    if not kind.dipoles:
        return clouds, Moments(density, None)
    if not kind.layered:
        return clouds, Moments(None, density)
    if norms is None:
        raise ValueError(f"{kernel} needs norms, an array of shape (3, {count})")
    strength = density[-3:, None] * _matrix("norms", norms, 3, count)
    dipoles = -(strength + strength.swapaxes(0, 1)).reshape(9, count)
    return clouds, Moments(density[: kind.single] if kind.single else None, dipoles)


def _sides(box: list[float | None], targets: Array, sources: Array) -> Array:
    """Return the side lengths; a missing one is the extent of the points."""
    points = np.concatenate([targets, sources], axis=1)
    extents = np.ptp(points, axis=1) if points.size else np.zeros(3)
    sides = np.array([extent if b is None else b for b, extent in zip(box, extents, strict=True)])
    return sides if sides.any() else np.ones(3)  # a single point has no extent


def _numbers(name: str, values: Any) -> Array:
    """Return an array of float64; refuse text and complex numbers, which NumPy would convert."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise TypeError(
            f"{name} is a {type(values).__name__} of uneven rows, expected an array"
        ) from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {array.dtype}, expected real numbers")
    return array.astype(np.float64)


def _matrix(name: str, values: ArrayLike, rows: int, columns: int | None = None) -> Array:
    """Return a float64 copy of ``values`` of shape (rows, columns), with any columns for None."""
    array = np.ascontiguousarray(_numbers(name, values))
    if array.ndim != 2 or array.shape[0] != rows or columns not in (None, array.shape[1]):
        expected = "N" if columns is None else columns
        raise ValueError(f"{name} has shape {array.shape}, expected ({rows}, {expected})")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity, expected finite numbers")
    return array
