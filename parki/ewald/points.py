"""The public boundary: arrays come in, are checked once, and leave as solver arrays.

No module after this one checks a user's array again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.arrays import real_name, rounded
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.geometry.systems import Batch
from parki.ewald.options import EwaldOptions
from parki.ewald.options.keywords import refuse_unknown
from parki.ewald.sums import SUMS, stress, sum_of
from parki.interchange import as_array, to_host
from parki.meaning import varied
from parki.runtime import ExecutionSpace, Kernel, get_execution_space, load
from parki.typing import OptionKeywords

OPTIONS = tuple(field.name for field in fields(EwaldOptions))
RESULTS = ("u", "p", "grad_u", "stress")
TENSOR = "grad_tensor"  # a result of tensor targets
PARTS = {"p": "pressure", "grad_u": "gradient", TENSOR: "gradient at tensor targets"}
TENSOR_ROWS = 10
# Work items that search a row on a device: MOST_ITEMS, then FEW_ITEMS, whose results the host
# reads. Up to AT_ONCE columns there is only the second pass.
MOST_ITEMS, FEW_ITEMS, AT_ONCE = 1 << 14, 1 << 8, 1 << 13
MOST_SINGLE = 1e9  # largest density or normal in mixed precision, in the user's unit


class Arguments(NamedTuple):
    """The arguments of a plan: see `take_arguments` and `check_arguments`."""

    kernel: str
    space: ExecutionSpace
    options: EwaldOptions
    arrays: dict[str, Any]
    extents: Any = None

    def checked(self) -> Arguments:
        """Return these with `extents`, for which a device is waited for; refuse impossible values.

        Raises
        ------
        ParkiValueError
        """
        arrays, options = self.arrays, self.options
        clouds = {"trg": arrays["trg"], "src": arrays["src"]}
        if arrays["src"] is arrays["trg"]:
            del clouds["src"]
        looked_at = [
            *map(options.along, clouds.values()),
            *([arrays["norms"]] if "norms" in arrays else []),
        ]
        ends = extremes(*looked_at)
        extents = [
            _check_extent(name, points, extent, options)
            for (name, points), extent in zip(clouds.items(), ends, strict=False)
        ]
        if "norms" in arrays:
            _check_finite("norms", arrays["norms"], ends[-1])
            if options.precision == "mixed":
                _check_single("norms", ends[-1])
        return self._replace(extents=np.concatenate(extents))

    @property
    def normals(self) -> Any:
        """Normals of sources, or marks of targets and of sources; None where there are none."""
        return self.arrays.get("norms", marks_of(self.arrays))

    def owned(self) -> Arguments:
        """Return these with copies of the arrays, which nobody changes later; one stays one."""
        copies = {name: each.copy() for name, each in self.arrays.items()}
        if self.arrays["trg"] is self.arrays["src"]:
            copies["src"] = copies["trg"]
        return self._replace(arrays=copies)


def take_arguments(
    kernel: Any,
    trg: Any,
    src: Any,
    norms: Any,
    options: EwaldOptions | None,
    space: ExecutionSpace | None = None,
) -> Arguments:
    """Refuse kernels, points, normals and options that do not match; look at no values.

    Parameters
    ----------
    kernel, trg, src, options
        As for `parki.Plan`.
    norms : array, or tuple of 2 arrays
        As for `parki.Plan`; or marks, where the pair function takes a number of each point, such as
        the radii of spheres: (N,) of points that are targets and sources, or one array for each.
    space : ExecutionSpace, optional
        Where arrays must be. Default: the space of the options, or the space where they are.

    Returns
    -------
    Arguments
        The name of the sum, as all its names are written; space and options; "trg", "src" (the
        same array, if they were given so), "norms", if any, and marks (1, N), "trg_marks" and
        "src_marks".

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    kernel = sum_of(kernel).name
    options = check_options(options)
    if varied(options.box) is not None:
        raise ParkiTypeError(
            "box requires a gradient, which the sums of parki itself do not have; call those of "
            "parki.torch, or pass box.detach()"
        )
    if not (SUMS[kernel].symbol.ends or all(options.periodic)):
        raise ParkiValueError(
            f"{kernel} has three periodic axes alone, but the sum is {options.periods}; free axes "
            "need a kernel that ends, which parki does not have of it: choose periodicity=3"
        )
    arrays = {"trg": as_array("trg", trg)}
    arrays["src"] = arrays["trg"] if trg is src else as_array("src", src)
    check_normals(kernel, norms)
    marked = SUMS[kernel].pair.marks is not None
    if norms is not None and not marked:
        arrays["norms"] = as_array("norms", norms)
    dtype = check_dtypes(arrays)
    options.check_dtype(dtype)
    space = space or get_execution_space(options.execution_space, *arrays.values())
    check_space(arrays, space)  # values on another device cannot be read
    for name in ("trg", "src"):
        check_shape(name, arrays[name])
    if "norms" in arrays:
        arrays["norms"] = as_rows("norms", arrays["norms"], (3, arrays["src"].shape[1]))
    if marked:
        arrays |= _marks(kernel, norms, arrays, space)
    return Arguments(kernel, space, options, arrays)


def check_arguments(*given: Any) -> Arguments:
    """Return arguments as `take_arguments` does, with their extents.

    The extents are the smallest and largest coordinates of clouds that are not empty, shape (n, 3).

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    return take_arguments(*given).checked()


def take_options(
    norms: Any,
    options: EwaldOptions | None,
    keywords: OptionKeywords,
    make: Callable[..., Any] = EwaldOptions,
    box: Any = None,
    also: Sequence[str] = (),
) -> tuple[Any, Any]:
    """Return the normals and the options of a call, by the one rule of all calls.

    Options are an `EwaldOptions`, last or in the place of normals, or keywords, of which ``make``
    makes them; never both. Keywords need no box if ``box`` is given. ``exclude_image``
    may come with an `EwaldOptions`. ``also`` are words that the call takes.

    Raises
    ------
    ParkiTypeError
        If there are no options, or both; and for keywords that are none.
    """
    if isinstance(norms, EwaldOptions) and options is None:
        norms, options = None, norms
    if not keywords:
        return norms, check_options(options)
    if box is not None:
        keywords = {"box": box, **keywords}
    for name in keywords:
        if name == "exclude":
            raise ParkiTypeError(
                "exclude is for parki.Plan, the calls of parki, parki.vjp and parki.jvp alone; "
                "elsewhere sum all pairs, or make a parki.Plan (parki.torch and parki.jax take one "
                "by apply)"
            )
        if name in Batch._fields:
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
    return norms, make(**keywords)


def check_options(options: Any) -> EwaldOptions:
    """Return options; refuse what is not `EwaldOptions`."""
    if not isinstance(options, EwaldOptions):
        raise ParkiTypeError(
            f"options is a {type(options).__name__}; expected EwaldOptions, "
            "such as EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-6), or its fields as "
            "keywords of the call"
        )
    return options


def _marks(kernel: str, marks: Any, arrays: dict[str, Any], space: ExecutionSpace) -> Any:
    """Return the marks (1, N) of targets and sources by name, in the memory of the points."""
    both = marks if isinstance(marks, tuple) else (marks, marks)
    points = {f"{name}_marks": arrays[name] for name in ("trg", "src")}
    if marks is None or any(
        len(a) != b.shape[1] for a, b in zip(both, points.values(), strict=True)
    ):
        raise ParkiValueError(
            f"{kernel} takes the radius of each point, which parki.Spheres gives it; make "
            "parki.Spheres of these points"
        )
    xp, dtype = space.array_module, arrays["src"].dtype
    named = zip(points, both, strict=True)
    return {n: xp.asarray(as_array(n, each), dtype=dtype).reshape(1, -1) for n, each in named}


def marks_of(arrays: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return the marks (N,) of targets and of sources among arrays of points, if they have any."""
    return (arrays["trg_marks"][0], arrays["src_marks"][0]) if "src_marks" in arrays else None


def check_normals(kernel: str, norms: Any) -> None:
    """Refuse normals of a kernel without normals or marks, and a double layer without them."""
    if SUMS[kernel].normals and norms is None:
        raise ParkiTypeError(f"norms is missing; {kernel} needs normals of shape (3, Ns)")
    if SUMS[kernel].pair.marks is not None:
        return
    if not SUMS[kernel].normals and norms is not None:
        raise ParkiTypeError(
            f"norms was given, but {kernel} has no normals; leave it out (a plan takes densities "
            "when it is called: plan(dens))"
        )


def check_dtypes(arrays: dict[str, Any]) -> Any:
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


def as_points(name: str, given: Any) -> Any:
    """Return points (3, N) as `as_array` does, or refuse them."""
    points = as_array(name, given)
    check_shape(name, points)
    check_dtypes({name: points})
    return points


def check_points(name: str, points: Any, options: EwaldOptions) -> Any:
    """Refuse points of a wrong shape, not finite, or outside the box along a free axis.

    Returns
    -------
    ndarray, shape (2, 3)
        Smallest and largest coordinates, of tilted boxes along their edges; shape (0, 3) if there
        are no points.
    """
    check_shape(name, points)
    return _check_extent(name, points, extremes(options.along(points))[0], options)


def check_shape(name: str, points: Any) -> None:
    """Refuse what is not (3, N)."""
    if points.ndim != 2 or points.shape[0] != 3:
        hint = f"; transpose it ({name}.T)" if points.ndim == 2 and points.shape[1] == 3 else ""
        raise ParkiValueError(f"{name} has shape {tuple(points.shape)}; expected (3, N){hint}")


def _check_extent(name: str, points: Any, extent: Any, options: EwaldOptions) -> Any:
    """Return the `extremes` of points; refuse them if not finite, or outside of the box."""
    _check_finite(name, points, extent)
    if not len(extent):
        return extent
    if options.walled and extent[0, 2] < 0:
        raise ParkiValueError(
            f"{name} reaches to {extent[0, 2]:g} along axis 2, below the wall at 0; shift the "
            "points, so that all are at the wall or above it"
        )
    lowest, highest = limits(options, points.dtype)
    for axis, length in enumerate(options.edges):
        low, high = extent[:, axis]
        if length is None or (lowest[axis] <= low and high <= highest[axis]):
            continue
        if options.periodic[axis]:
            raise ParkiValueError(
                f"{name} reaches to {max(low, high, key=abs):g} along axis {axis}, more than 1e6 "
                "boxes away; wrap the points into the box first, where their digits are known"
            )
        first, last = options.ends(axis)
        raise ParkiValueError(
            f"{name} reaches from {low:g} to {high:g} along axis {axis}, which is free, but the "
            f"box there is [{first:g}, {last:g}]; "
            "enlarge the box, shift the points, or give None for that edge of the box"
        )
    return extent


def limits(options: EwaldOptions, dtype: Any) -> NDArray[np.float64]:
    """Return the smallest and largest coordinates that points of a dtype may have, (2, 3).

    Wrapping a point from a million boxes away would leave it few digits. The edges of free axes
    count as inside where they are rounded to the dtype.
    """
    most = float(np.finfo(dtype).max)
    ends = np.array([[-most] * 3, [most] * 3])
    for axis, length in enumerate(options.edges):
        if length is None:
            continue
        first, last = options.ends(axis)
        if options.periodic[axis]:
            ends[:, axis] = -1e6 * length, 1e6 * length
        else:
            ends[0, axis] = min(first, rounded(first, dtype))
            ends[1, axis] = max(last, rounded(last, dtype))
    return ends


def check_density(
    name: str,
    values: Any,
    shape: tuple[int, ...],
    *,
    several: bool = False,
    single: bool = False,
    of: str = "sources",
) -> Any:
    """Return density or normals as (rows, N), C-contiguous; refuse other shapes, NaN, infinity.

    With ``several``, also take k of them at once, returned as (k, rows, N). With ``single``,
    numbers must fit single precision, with a margin for products. ``of`` names the points.
    """
    values = as_rows(name, values, shape, several, of)
    check_values(name, values, shape, single)
    return values


def check_values(name: str, values: Any, shape: tuple[int, ...], single: bool = False) -> None:
    """Refuse NaN and infinity in density or normals, as `as_rows` returns them."""
    if not values.size:
        return
    flat = values.reshape(math.prod(values.shape[:-1]), shape[-1])
    (ends,) = extremes(flat)
    _check_finite(name, values.reshape(*values.shape[:-2], *shape), ends)
    if single:
        _check_single(name, ends)


def _check_single(name: str, ends: NDArray[np.float64]) -> None:
    """Refuse values whose `extremes` exceed single precision, with a margin for products."""
    largest = float(abs(ends).max(initial=0.0))
    if largest and not 1 / MOST_SINGLE <= largest <= MOST_SINGLE:
        raise ParkiValueError(
            f"{name} has values of up to {largest:g}; precision='mixed' takes {1 / MOST_SINGLE:g} "
            f"to {MOST_SINGLE:g}: use another unit, or precision='full'"
        )


def as_rows(
    name: str, values: Any, shape: tuple[int, ...], several: bool = False, of: str = "sources"
) -> Any:
    """Return density or normals as (rows, N) or (k, rows, N); refuse other shapes."""
    rows, count = math.prod(shape[:-1]), shape[-1]
    many: tuple[int, ...] = ()
    if several and values.ndim == len(shape) + 1:
        many = (len(values),)
        if values.shape[1:] != shape:
            wanted = ", ".join(["k", *map(str, shape)])
            raise ParkiValueError(
                f"{name} has shape {values.shape}; expected {shape} for the {count} {of} given, "
                f"or ({wanted}) for k densities at once"
            )
    elif values.shape != shape:
        hint = ""
        if name == "dens" and values.ndim == 2 and rows == 6 and values.shape[0] == 3:
            hint = "; rows 0-2 are the single layer's density, rows 3-5 the double layer's"
        elif name == "norms" and values.shape == (6, count):
            hint = "; a plan takes densities when it is called: plan(dens)"
        elif rows == 9 and values.shape == (rows, count):
            hint = f"; reshape it ({name}.reshape(3, 3, -1))"
        elif rows == 9 and values.shape == (count, 3, 3):  # whose transpose is the array of D^T
            hint = f"; move its first axis to the end (numpy.moveaxis({name}, 0, -1))"
        elif values.shape == shape[::-1]:
            hint = f"; transpose it ({name}.T)"
        raise ParkiValueError(
            f"{name} has shape {values.shape}; expected {shape} for the {count} {of} given{hint}"
        )
    return _module(values).ascontiguousarray(values.reshape(*many, rows, count))


def check_want(kernel: str, want: Any, tensors: bool = False) -> tuple[str, ...]:
    """Return the wanted results as a tuple of `RESULTS`; refuse what the kernel does not have."""
    names = check_names(want, (*RESULTS, TENSOR) if tensors else RESULTS)
    for name in names:
        for part in stress.parts([name]):
            if part not in SUMS[kernel].terms:
                raise ParkiValueError(
                    f"want has {name!r}, but {kernel} has no {PARTS[part]}; leave it out"
                )
    return names


def check_names(want: Any, known: tuple[str, ...] = RESULTS) -> tuple[str, ...]:
    """Return the wanted results as a tuple of names; refuse what is not ``known``."""
    names = (want,) if isinstance(want, str) else want
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        raise ParkiTypeError(
            f"want is {want!r}; expected a name or a tuple of names: {', '.join(RESULTS)}"
        )
    if not names:
        raise ParkiValueError(f"want is empty; expected one or more of {', '.join(RESULTS)}")
    for place, name in enumerate(names):
        if name not in known:
            raise ParkiValueError(f"want has {name!r}; expected names among {', '.join(RESULTS)}")
        if name in names[:place]:
            raise ParkiValueError(f"want has {name!r} twice; name each result once")
    return tuple(names)


def result_shape(kernel: str, name: str, targets: int) -> tuple[int, ...]:
    """Return the shape of one of the `RESULTS`."""
    vector = () if SUMS[kernel].results == 1 else (3,)
    return {
        "u": (*vector, targets),
        "p": (targets,),
        "grad_u": (*vector, 3, targets),
        "stress": (3, 3, targets),
        TENSOR: (3, targets),
    }[name]


def result_rows(kernel: str, name: str) -> int:
    """Return the rows of one of the `RESULTS`."""
    return math.prod(result_shape(kernel, name, 1))


def check_outputs(
    out: Any,
    want: str | tuple[str, ...],
    shapes: dict[str, tuple[int, ...]],
    values: Any,
    space: ExecutionSpace,
) -> dict[str, Any]:
    """Return the arrays to write results to, by name: new ones where ``out`` is None.

    Parameters
    ----------
    out : array, tuple of arrays or None
        One array for each name of ``want``, in the same order.
    want : str or tuple of str
    shapes : dict
        Shape of each result that is wanted.
    values : array
        The density. Results have its dtype, and must not share its memory.
    space : ExecutionSpace

    Raises
    ------
    ParkiTypeError, ParkiValueError
        If an array cannot take its result.
    """
    xp = space.array_module
    if out is None:
        return {name: xp.empty(shape, dtype=values.dtype) for name, shape in shapes.items()}
    if isinstance(want, str):
        given = {"out": out}
    elif isinstance(out, (tuple, list)) and len(out) == len(want):
        given = {f"out[{place}]": array for place, array in enumerate(out)}
    else:
        what = f"{len(out)} of them" if isinstance(out, (tuple, list)) else type(out).__name__
        raise ParkiTypeError(f"out is {what}; expected a tuple of {len(want)} arrays, as want has")
    for (label, array), shape in zip(given.items(), shapes.values(), strict=True):
        check_output(label, array, shape, values, space)
        for other in given:
            if other != label and xp.may_share_memory(array, given[other]):
                raise ParkiValueError(f"{label} shares memory with {other}; both are written")
    return dict(zip(shapes, given.values(), strict=True))


def check_output(
    label: str,
    out: Any,
    shape: tuple[int, ...],
    values: Any,
    space: ExecutionSpace,
    given: str = "dens",
) -> None:
    """Refuse an array that cannot take a result of values, whose name is ``given``."""
    if not isinstance(out, space.array_module.ndarray | np.ndarray):
        raise ParkiTypeError(f"{label} is a {type(out).__name__}; expected an array")
    if out.shape != shape or out.dtype != values.dtype or not out.flags.c_contiguous:
        raise ParkiValueError(
            f"{label} has shape {out.shape} and dtype {out.dtype}; "
            f"expected C-contiguous {shape}, {values.dtype}"
        )
    check_space({label: out}, space)
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ParkiValueError(f"{label} is read-only; pass an array that can be written")
    if space.array_module.may_share_memory(out, values):
        raise ParkiValueError(
            f"{label} shares memory with {given}, which is read after it is written"
        )


def check_space(arrays: dict[str, Any], space: ExecutionSpace) -> None:
    """Refuse arrays outside of the memory of the space, or not on the current device."""
    current = space.adapter.device()
    for name, array in arrays.items():
        on_host = isinstance(array, np.ndarray)
        if on_host == space.on_device:
            here = "on the host (NumPy)" if on_host else "on a device (CuPy)"
            remedy = "cupy.asarray(...)" if on_host else "cupy.asnumpy(...)"
            raise ParkiTypeError(
                f"{name} is {here}, but execution_space is {space}; "
                f"move it with {remedy}, or leave execution_space to parki"
            )
        if not on_host and int(array.device.id) != current:
            raise ParkiValueError(
                f"{name} is on device {int(array.device.id)}, but the current one is {current}; "
                f"call parki inside of 'with cupy.cuda.Device({int(array.device.id)}):'"
            )


def like_points(name: str, given: Any, space: ExecutionSpace, dtype: Any) -> Any:
    """Return an array in the memory and dtype of the points, or refuse it."""
    values = as_array(name, given)
    check_space({name: values}, space)
    if values.dtype != dtype:
        raise ParkiTypeError(
            f"{name} has dtype {values.dtype}, but the points have {dtype}; convert one"
        )
    return values


def extremes(*arrays: Any) -> list[NDArray[np.float64]]:
    """Return the smallest and the largest value of each row, shape (2, rows), on the host.

    Rows with values that are not finite give NaN on a device; on the host they give what NumPy
    does. Without columns the shape is (0, rows). All arrays have one dtype, and a device is waited
    for once.
    """
    if isinstance(arrays[0], np.ndarray):
        return [_ends(array, array) for array in arrays]
    xp, dtype = _module(arrays[0]), arrays[0].dtype
    kernel = _extremes_kernel(get_execution_space(None, arrays[0]), dtype)
    sizes = [(2, len(a), min(FEW_ITEMS, a.shape[1])) for a in arrays]
    begins = np.cumsum([0, *map(math.prod, sizes)])
    together = xp.empty(int(begins[-1]), dtype=dtype)

    def parts(memory: Any) -> list[Any]:
        return [memory[a:b].reshape(n) for a, b, n in zip(begins, begins[1:], sizes, strict=False)]

    for array, few in zip(arrays, parts(together), strict=True):
        low = high = xp.ascontiguousarray(array)
        steps, total = [few], array.shape[1]
        if total > AT_ONCE:
            steps.insert(0, xp.empty((2, len(array), min(MOST_ITEMS, total)), dtype=dtype))
        for step in steps:
            items = step.shape[2]
            across = {"total": low.shape[1], "items": items, "rows": len(array)}
            kernel(items, lows=low, highs=high, low=step[0], high=step[1], **across)
            low, high = step
    return [_ends(low, high) for low, high in parts(to_host(together))]


def _ends(low: Any, high: Any) -> NDArray[np.float64]:
    """Return the smallest value of each row of one array, and the largest of another."""
    if not low.shape[1]:
        return np.empty((0, len(low)))
    return np.array([low.min(axis=1), high.max(axis=1)], dtype=np.float64)


@lru_cache(maxsize=4)
def _extremes_kernel(space: ExecutionSpace, dtype: Any) -> Kernel:
    return load("extremes", "extremes", space, executor="embedded", REAL=real_name(dtype))


def _check_finite(name: str, values: Any, ends: NDArray[np.float64]) -> None:
    """Refuse values whose `extremes` are not finite."""
    if not np.isfinite(ends).all():
        raise ParkiValueError(f"{name} contains NaN or infinity; {_first_bad(values)}")


def _first_bad(values: Any) -> str:
    xp = _module(values)
    index = np.unravel_index(int(xp.argmin(xp.isfinite(values))), values.shape)
    return f"the first is at index {tuple(int(i) for i in index)}"


def _module(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return np
    import cupy

    return cupy
