"""Points, normals and options: the arguments of sums, checked one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.geometry.own_boxes import OF_BOXES
from parki.ewald.options import EwaldOptions
from parki.ewald.options.expert import refuse_unknown
from parki.ewald.points.values import check_finite, extremes
from parki.ewald.sums.record import Interaction
from parki.interchange import as_array, rounded, told_apart
from parki.typing import AnyArray, DType, OptionKeywords

NET = 0.1  # of the tolerance, up to which sums of charges are rounding
OF_CHANGES = "a change of a change"
OF_MANY = ("systems", "boxes", "comm")
OPTIONS = tuple(field.name for field in fields(EwaldOptions))


def take_options(
    norms: AnyArray,
    options: EwaldOptions | None,
    keywords: OptionKeywords,
    make: Callable[..., Any] | None = None,
    first: Mapping[str, Any] = MappingProxyType({}),
    also: Sequence[str] = (),
) -> tuple[Any, Any]:
    """Return the normals and the options of a call, by the one rule of all calls.

    Options are an `EwaldOptions`, last or in the place of normals, or keywords; never both.
    ``make`` may make something else of keywords, which may lack what the ``first`` of many systems
    has of its own.
    ``exclude_image`` may come with an `EwaldOptions`. ``also`` are words that the call takes.

    Raises
    ------
    ParkiTypeError
        If there are no options, or both; and for keywords that are none.
    """
    if isinstance(norms, EwaldOptions) and options is None:
        norms, options = None, norms
    if "periodicity" in first and "periodicity" in keywords:
        raise ParkiTypeError(
            "periodicities was given, and periodicity as well; leave out one of the two"
        )
    if options is None:
        keywords = {**first, **keywords}  # type: ignore[typeddict-item]
    if not keywords:
        return norms, check_options(options)
    for name in keywords:
        if name == "exclude":
            raise ParkiTypeError(
                "exclude is for parki.Plan, the calls of parki, parki.vjp and parki.jvp alone; "
                "elsewhere sum all pairs, or make a parki.Plan (parki.torch and parki.jax take one "
                "by apply)"
            )
        if name in ("systems", *OF_BOXES):
            raise ParkiTypeError(
                f"{name} is for sums, as are parki.Plan, the calls of parki, parki.torch and "
                "parki.jax, parki.vjp and parki.jvp; elsewhere take one system after the other"
            )
    refuse_unknown(keywords, OPTIONS, also)
    if options is not None:
        if keywords.keys() == {"exclude_image"}:
            return norms, replace(check_options(options), **keywords)
        raise ParkiTypeError(
            f"options was given, and {', '.join(keywords)} as well; give all options as keywords, "
            "or change some by dataclasses.replace(options, ...)"
        )
    new = (make or EwaldOptions)(**keywords)
    return norms, new.of_call() if isinstance(new, EwaldOptions) else new


def refuse_voltage(keywords: OptionKeywords, *options: Any) -> None:
    """Refuse a voltage, with which results are not linear in densities, as derivatives take them.

    Raises
    ------
    ParkiValueError
    """
    voltages = [keywords.get("voltage"), *(getattr(each, "voltage", None) for each in options)]
    if any(voltage is not None for voltage in voltages):
        raise ParkiValueError(
            "voltage was given, which sums of tensors and of arrays of JAX do not take; leave it "
            "out, and add voltage * z / H to the potentials"
        )


def check_options(options: Any) -> EwaldOptions:
    """Return the options of a call; refuse what is not `EwaldOptions`."""
    if not isinstance(options, EwaldOptions):
        raise ParkiTypeError(
            f"options is a {type(options).__name__}; expected EwaldOptions, "
            "such as EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-6), or its fields as "
            "keywords of the call"
        )
    return options.of_call()


def check_normals(kind: Interaction, norms: AnyArray) -> None:
    """Refuse normals of a sum without normals or marks, and a double layer without them."""
    if kind.normals and norms is None:
        raise ParkiTypeError(f"norms is missing; {kind.name} needs normals of shape (3, Ns)")
    if not kind.normals and norms is not None and kind.pair.point_radii is None:
        raise ParkiTypeError(
            f"norms was given, but {kind.name} has no normals; leave it out (a plan takes "
            "densities when it is called: plan(dens))"
        )


def check_dtypes(arrays: dict[str, AnyArray]) -> Any:
    """Return the common dtype of the arrays, float32 or float64.

    Raises
    ------
    ParkiTypeError
        If an array has another dtype, if two differ, or if only some are on a device.
    """
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float64):
            raise ParkiTypeError(
                f"{name} has dtype {array.dtype}; expected float32 or float64 "
                f"(convert with {name}.astype(float), a tensor with {name}.double())"
            )
        if isinstance(array, np.ndarray) != isinstance(arrays[first], np.ndarray):
            where = {True: "the host (NumPy)", False: "a device (CuPy)"}
            raise ParkiTypeError(
                f"{name} is on {where[isinstance(array, np.ndarray)]}, but {first} is on "
                f"{where[isinstance(arrays[first], np.ndarray)]}; move one of them"
            )
        if array.dtype != arrays[first].dtype:
            raise ParkiTypeError(
                f"{name} has dtype {array.dtype}, but {first} has {arrays[first].dtype}; "
                "give all arrays the same dtype"
            )
    return arrays[first].dtype


def as_points(name: str, values: AnyArray) -> Any:
    """Return points (3, N) as `as_array` does, or refuse them."""
    points = as_array(name, values)
    check_shape(name, points)
    check_dtypes({name: points})
    return points


def check_points(name: str, points: AnyArray, options: EwaldOptions) -> Any:
    """Refuse points of a wrong shape, not finite, or outside the box along a free axis.

    Returns
    -------
    ndarray, shape (2, 3)
        Smallest and largest coordinates, of tilted boxes along their edges; shape (0, 3) if there
        are no points.
    """
    check_shape(name, points)
    return check_extent(name, points, extremes([options.along(points)])[0], options)


def check_shape(name: str, points: AnyArray) -> None:
    """Refuse what is not (3, N)."""
    if points.ndim != 2 or points.shape[0] != 3:
        hint = f"; transpose it ({name}.T)" if points.ndim == 2 and points.shape[1] == 3 else ""
        raise ParkiValueError(f"{name} has shape {tuple(points.shape)}; expected (3, N){hint}")


def check_extent(name: str, points: AnyArray, extent: AnyArray, options: EwaldOptions) -> Any:
    """Return the `extremes` of points; refuse them if not finite, or outside of the box."""
    check_finite(name, points, extent)
    if not len(extent):
        return extent
    if options.walled and extent[0, 2] < 0:
        raise ParkiValueError(
            f"{name} reaches to {extent[0, 2]:g} along axis 2, below the wall at 0; shift the "
            "points, so that all are at the wall or above it"
        )
    lowest, highest = limits(options, points.dtype)
    gap = options.gap
    if gap is not None and extent[1, 2] > highest[2]:
        raise ParkiValueError(
            f"{name} reaches to {extent[1, 2]:g} along axis 2, above the upper wall at {gap:g}; "
            "points must be between the walls: shift them, or enlarge the third length of box"
        )
    for axis, length in enumerate(options.edges):
        low, high = extent[:, axis]
        if length is None or (lowest[axis] <= low and high <= highest[axis]):
            continue
        if options.periodic[axis]:
            raise ParkiValueError(
                f"{name} reaches to {max(low, high, key=abs):g} along axis {axis}, more than 1e6 "
                "boxes away; wrap the points into the box first, where their digits are known"
            )
        begin, end = options.ends[axis]
        low, high, first, last = told_apart(low, high, begin, end)
        raise ParkiValueError(
            f"{name} reaches from {low} to {high} along axis {axis}, which is free, but the "
            f"box there is [{first}, {last}]; "
            "enlarge the box, shift the points, or give None for that edge of the box"
        )
    return extent


def refuse_between_walls(options: EwaldOptions, present: dict[str, bool], remedy: str) -> None:
    """Refuse what sums between two walls do not have: names of what is present, if it is.

    Near a dielectric each system has to be neutral, which one sum over all densities does not tell.

    Raises
    ------
    ParkiValueError
    """
    there = [name for name, is_there in present.items() if is_there]
    where = "between two walls"
    if options.plates:  # sums of charges and images are all that there is
        there = [name for name in there if name not in ("systems", OF_CHANGES)]
    if options.gap is None:
        where = "near a dielectric"
        there = [name for name in there if options.neutral and name in OF_MANY]
    if there:
        raise ParkiValueError(
            f"{there[0]} was given, but wall is {options.wall!r}; {where} {remedy}"
        )


def check_net(
    name: str, charges: AnyArray, options: EwaldOptions, density: tuple[int, ...] = ()
) -> None:
    """Refuse charges (..., N) that do not add up to zero near dielectrics alone.

    A part of the tolerance counts as zero. Nothing is looked at with other options, or in densities
    of another shape.

    Raises
    ------
    ParkiValueError
    """
    if not options.neutral or density or not charges.size:
        return
    values = charges.reshape(-1, charges.shape[-1])
    sums, sizes = (part.sum(axis=1, dtype=np.float64) for part in (values, np.abs(values)))
    squares = (values.astype(np.float64) ** 2).sum(axis=1)
    least = np.maximum(
        8 * float(np.finfo(charges.dtype).eps) * sizes, NET * options.tolerance * np.sqrt(squares)
    )
    most = int((np.abs(sums) - least).argmax())
    if abs(net := float(sums[most])) > float(least[most]):
        raise ParkiValueError(
            f"{name} adds up to {net:g}, but wall is {options.wall!r}; the field of net charges "
            "near dielectrics is decided far outside: take their mean away, or have a wall of "
            "metal, which takes up their field"
        )


@lru_cache(maxsize=64)
def limits(options: EwaldOptions, dtype: DType) -> NDArray[np.float64]:
    """Return the smallest and largest coordinates that points of a dtype may have, (2, 3).

    Wrapping a point from a million boxes away would leave it few digits. The edges of free axes
    count as inside where they are rounded to the dtype.
    """
    most = float(np.finfo(dtype).max)
    ends = np.array([[-most] * 3, [most] * 3])
    for axis, length in enumerate(options.edges):
        if length is None:
            continue
        first, last = options.ends[axis]
        if options.periodic[axis]:
            ends[:, axis] = -1e6 * length, 1e6 * length
        else:
            ends[0, axis] = min(first, rounded(first, dtype))
            ends[1, axis] = max(last, rounded(last, dtype))
    ends.flags.writeable = False
    return ends
