"""Densities and results: values at points, which are checked once, and what arrays must have.

`parki.ewald.points.arguments` does so with the points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.sums import SUMS, stress
from parki.interchange import as_array, check_space, real_name, to_host
from parki.runtime import ExecutionSpace, Kernel, get_execution_space, load
from parki.typing import AnyArray

RESULTS = ("u", "p", "grad_u", "stress")
TENSOR = "grad_tensor"  # a result of tensor targets
PARTS = {"p": "pressure", "grad_u": "gradient", TENSOR: "gradient at tensor targets"}
TENSOR_ROWS = 10
# Work items that search a row on a device: MOST_ITEMS, then FEW_ITEMS, whose results the host
# reads. Up to AT_ONCE columns there is only the second pass.
MOST_ITEMS, FEW_ITEMS, AT_ONCE = 1 << 14, 1 << 8, 1 << 13
MOST_RATIOS = 1 << 12  # work items that search for ratios, in one pass
MOST_SINGLE = 1e9  # largest density or normal in mixed precision, in the user's unit


def check_density(
    name: str,
    values: AnyArray,
    shape: tuple[int, ...],
    *,
    several: bool = False,
    single: bool = False,
    of: str = "sources",
    looked: bool = True,
) -> Any:
    """Return density or normals as (rows, N), C-contiguous; refuse other shapes, NaN, infinity.

    With ``several``, also take k of them at once, returned as (k, rows, N). With ``single``,
    numbers must fit single precision, with a margin for products. ``of`` names the points. Values
    are ``looked`` at here, or were before.
    """
    values = as_rows(name, values, shape, several, of)
    if looked:
        check_values(name, values, shape, single)
    return values


def check_values(name: str, values: AnyArray, shape: tuple[int, ...], single: bool = False) -> None:
    """Refuse NaN and infinity in density or normals, as `as_rows` returns them."""
    if not values.size:
        return
    flat = values.reshape(math.prod(values.shape[:-1]), shape[-1])
    (ends,) = extremes([flat])
    check_finite(name, values.reshape((*values.shape[:-2], *shape)), ends)
    if single:
        check_single(name, ends)


def check_single(name: str, ends: NDArray[np.float64]) -> None:
    """Refuse values whose `extremes` exceed single precision, with a margin for products."""
    largest = float(abs(ends).max(initial=0.0))
    if largest and not 1 / MOST_SINGLE <= largest <= MOST_SINGLE:
        raise ParkiValueError(
            f"{name} has values of up to {largest:g}; precision='mixed' takes {1 / MOST_SINGLE:g} "
            f"to {MOST_SINGLE:g}: use another unit, or precision='full'"
        )


def as_rows(
    name: str, values: AnyArray, shape: tuple[int, ...], several: bool = False, of: str = "sources"
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
    return _module(values).ascontiguousarray(values.reshape((*many, rows, count)))


def check_want(kernel: str, want: Any, tensors: bool = False) -> tuple[str, ...]:
    """Return the wanted results as a tuple of `RESULTS`; refuse what the kernel does not have."""
    names = check_names(want, (*RESULTS, TENSOR) if tensors else RESULTS)
    for name in names:
        for part in stress.parts([name]):
            if part not in SUMS[kernel].terms and (part != "p" or not SUMS[kernel].pressure):
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
    *vector, _ = SUMS[kernel].value_shape(targets)
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
    out: AnyArray,
    want: str | tuple[str, ...],
    shapes: dict[str, tuple[int, ...]],
    values: AnyArray,
    space: ExecutionSpace,
) -> tuple[Any, dict[str, Any]]:
    """Return the arrays that a call returns, unwritten; and by name their rows (k, rows, N).

    Parameters
    ----------
    out : array, tuple of arrays or None
        One array for each name of ``want``, in the same order. Default: new ones.
    want : str or tuple of str
    shapes : dict
        Shape of each result that is wanted.
    values : array
        The density, (rows, sources), or several, (k, rows, sources). Results have its dtype, and
        must not share its memory.
    space : ExecutionSpace

    Raises
    ------
    ParkiTypeError, ParkiValueError
        If an array cannot take its result.
    """
    xp, single = space.array_module, isinstance(want, str)
    if out is None:
        results = [xp.empty(shape, dtype=values.dtype) for shape in shapes.values()]
    elif single:
        results = [out]
    elif isinstance(out, (tuple, list)) and len(out) == len(want):
        results = [*out]
    else:
        what = f"{len(out)} of them" if isinstance(out, (tuple, list)) else type(out).__name__
        raise ParkiTypeError(f"out is {what}; expected a tuple of {len(want)} arrays, as want has")
    for place, shape in enumerate([] if out is None else shapes.values()):
        label = "out" if single else f"out[{place}]"
        check_output(label, results[place], shape, values, space)
        for n, other in enumerate(results):
            if n != place and xp.may_share_memory(results[place], other):
                raise ParkiValueError(f"{label} shares memory with out[{n}]; both are written")
    several = values.ndim - 2
    many = len(values) if several else 1
    rows = {
        name: array.reshape(many, math.prod(array.shape[several:-1]), array.shape[-1])
        for name, array in zip(shapes, results, strict=True)
    }
    return results[0] if single else (*results,), rows


def check_output(
    label: str,
    out: AnyArray,
    shape: tuple[int, ...],
    values: AnyArray,
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
    check_space(label, out, space)
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ParkiValueError(f"{label} is read-only; pass an array that can be written")
    if space.array_module.may_share_memory(out, values):
        raise ParkiValueError(
            f"{label} shares memory with {given}, which is read after it is written"
        )


def like_points(name: str, values: AnyArray, space: ExecutionSpace, dtype: DTypeLike) -> Any:
    """Return an array in the memory and dtype of the points, or refuse it."""
    values = as_array(name, values)
    check_space(name, values, space)
    if values.dtype != dtype:
        raise ParkiTypeError(
            f"{name} has dtype {values.dtype}, but the points have {dtype}; convert one"
        )
    return values


def check_fields(
    name: str,
    fields: AnyArray,
    want: str | tuple[str, ...],
    shapes: dict[str, tuple[int, ...]],
    space: ExecutionSpace,
    dtype: DTypeLike,
    single: bool = False,
    looked: bool = True,
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return values of results by their names, (k, rows, N); and (k,), if there are k of each.

    Parameters
    ----------
    fields : array, or tuple of arrays
        As what a call with this ``want`` returns.
    shapes : dict
        Shape of each result that is wanted.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    many = not isinstance(want, str)
    if many and not (isinstance(fields, (tuple, list)) and len(fields) == len(want)):
        raise ParkiTypeError(
            f"{name} is a {type(fields).__name__}; expected a tuple of {len(want)} arrays, as want "
            "has"
        )
    arrays, rows = fields if many else (fields,), {}
    for place, (result, shape) in enumerate(shapes.items()):
        label = f"{name}[{place}]" if many else name
        values = like_points(label, arrays[place], space, dtype)
        rows[result] = check_density(
            label, values, shape, several=True, single=single, of="targets", looked=looked
        )
    sizes = {array.shape[:-2] for array in rows.values()}
    if len(sizes) > 1:
        raise ParkiValueError(
            f"{name} have shapes {', '.join(str(tuple(a.shape)) for a in arrays)}; expected as "
            "many in each, one or k"
        )
    (several,) = sizes
    return {n: a if several else a[None] for n, a in rows.items()}, several


def extremes(arrays: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Return the smallest and largest values of the rows of each array, (2, rows), on the host.

    Rows with values that are not finite give NaN on a device; on the host they give what NumPy
    does. Without columns the shape is (0, rows). All arrays have one dtype, and a device is waited
    for once.
    """
    if isinstance(arrays[0], np.ndarray):
        return [_ends(array) for array in arrays]
    xp, dtype = _module(arrays[0]), arrays[0].dtype
    kernel = _extremes_kernel(get_execution_space("GPU"), dtype)
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
            sizes_of_step = {"total": low.shape[1], "items": items, "rows": len(array)}
            kernel(items, arguments=sizes_of_step, lows=low, highs=high, low=step[0], high=step[1])
            low, high = step
    return [
        _ends(np.concatenate(lows_and_highs, axis=1)) for lows_and_highs in parts(to_host(together))
    ]


def _ends(values: AnyArray) -> NDArray[np.float64]:
    """Return the smallest and the largest value of each row."""
    if not values.shape[1]:
        return np.empty((0, len(values)))
    return np.array([values.min(axis=1), values.max(axis=1)], dtype=np.float64)


def ratios(values: AnyArray, density: AnyArray) -> tuple[float, float]:
    """Return the smallest and the largest ratio of values (N,) to a density (N,).

    Zeros have any ratio. A device is waited for once. Both are NaN where a ratio is not finite, and
    where there are zeros alone.
    """
    if isinstance(values, np.ndarray):
        some = (values != 0) | (density != 0)
        with np.errstate(all="ignore"):
            lows = highs = values[some] / density[some]
    else:
        items = min(MOST_RATIOS, values.size)
        lows, highs = both = _module(values).empty((2, items), dtype=values.dtype)
        most = float(np.finfo(values.dtype).max)
        _ratios_kernel(get_execution_space("GPU"), values.dtype)(
            items,
            total=values.size,
            items=items,
            largest=most,
            values=values,
            density=density,
            low=lows,
            high=highs,
        )
        lows, highs = to_host(both)
    low, high = float(lows.min(initial=np.inf)), float(highs.max(initial=-np.inf))
    return (low, high) if math.isfinite(high - low) and low <= high else (math.nan, math.nan)


@lru_cache(maxsize=4)
def _extremes_kernel(space: ExecutionSpace, dtype: DTypeLike) -> Kernel:
    return load("extremes", "extremes", space, executor="embedded", REAL=real_name(dtype))


@lru_cache(maxsize=4)
def _ratios_kernel(space: ExecutionSpace, dtype: DTypeLike) -> Kernel:
    return load("extremes", "ratios", space, executor="embedded", REAL=real_name(dtype))


def check_finite(name: str, values: AnyArray, ends: NDArray[np.float64]) -> None:
    """Refuse values whose `extremes` are not finite."""
    if not np.isfinite(ends).all():
        raise ParkiValueError(f"{name} contains NaN or infinity; {_first_bad(values)}")


def _first_bad(values: AnyArray) -> str:
    xp = _module(values)
    index = np.unravel_index(int(xp.argmin(xp.isfinite(values))), values.shape)
    return f"the first is at index {tuple(int(i) for i in index)}"


def _module(values: AnyArray) -> Any:
    if isinstance(values, np.ndarray):
        return np
    import cupy

    return cupy
