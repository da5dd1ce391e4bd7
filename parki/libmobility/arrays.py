"""Arrays of rows, as libMobility takes them, and parki's arrays of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parki.errors import ParkiValueError
from parki.interchange import as_array, as_given

Back = Callable[[Any], Any]


def columns(
    name: str, values: Any, dtype: Any = None, count: int | None = None
) -> tuple[Any, Back]:
    """Return an array of columns (3, N), and a function that gives others the shape of ``values``.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    values : array, shape (N, 3) or (3 N,)
        An array of any library that `parki.interchange` takes.
    dtype : dtype, optional
        The dtype of the columns; float64 for numbers that are not float32, if it is left out.
    count : int, optional
        The number of spheres.

    Raises
    ------
    ParkiValueError
        If the shape is another one.
    """
    given = as_array(name, values)
    shape = given.shape
    rows = shape[1] == 3 if len(shape) == 2 else len(shape) == 1 and given.size % 3 == 0
    if not rows or not given.size or count not in (None, given.size // 3):
        of = "(N, 3) or (3 N,)" if count is None else f"({count}, 3) or ({3 * count},)"
        raise ParkiValueError(f"{name} has shape {shape}; expected {of}, a row for each sphere")
    if dtype is None:
        dtype = given.dtype if given.dtype == "f4" else "f8"

    def back(found: Any) -> Any:
        return as_given(found.T.copy().reshape(shape), values)

    return given.reshape(-1, 3).T.astype(dtype, order="C"), back
