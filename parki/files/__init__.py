"""Positions, and fields at them or on grids, in files for ParaView that can be read back.

The format is VTKHDF: HDF5 that ParaView opens from version 5.11 on, and that any reader of HDF5
opens. `write` and `read` need h5py, which ``pip install h5py`` brings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields as fields_of
from importlib import import_module
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from parki.errors import MissingPackageError, ParkiTypeError, ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.ewald.options.expert import Expert
from parki.interchange import as_array, to_host
from parki.mesh.grid import Grid
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray

__all__ = ["Contents", "options_from_dict", "options_to_dict", "read", "write"]

ROOT, NOTE = "VTKHDF", "parki"  # the group that ParaView reads, and the attribute with the rest
VERTEX = 1  # VTK's number of a cell that is a point


class Contents(NamedTuple):
    """What `read` returns.

    Attributes
    ----------
    places : ndarray of shape (3, N), or Grid
        Where the fields are.
    fields : dict of str to ndarray
        In shapes such as (N,), (3, N) or (3, 3, N); on a grid with its shape in place of N.
    options : EwaldOptions or None
    """

    places: Any
    fields: dict[str, Any]
    options: EwaldOptions | None


def write(
    path: str | PathLike[str],
    places: AnyArray | Grid,
    fields: Mapping[str, AnyArray],
    options: EwaldOptions | None = None,
) -> None:
    """Write fields at points or on a grid to a file, which is replaced.

    ParaView takes numbers at the end of names, as of ``flow-0001.vtkhdf``, for steps in time.

    Parameters
    ----------
    path : str or path
        Should end with ``.vtkhdf``, by which ParaView knows it.
    places : array, shape (3, N), or parki.mesh.Grid
        Points are written as vertices, which ParaView shows as spheres by its filter *Glyph*.
    fields : mapping of str to array
        Of shape (N,), (3, N) or (3, 3, N), or with other axes before N; on a grid also with its
        shape in place of N, and N points in C order. Arrays of NumPy, CuPy, PyTorch or JAX.
    options : EwaldOptions, optional
        What was summed, to be read back.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If a field has another number of values; before the file is written.
    MissingPackageError
        If h5py is missing.

    Examples
    --------
    >>> import numpy as np, parki, parki.files
    >>> grid = parki.mesh.Grid((4, 4, 4), spacing=0.25)
    >>> parki.files.write("flow.vtkhdf", grid, {"height": grid.points[2]})
    >>> parki.files.read("flow.vtkhdf").fields["height"].shape
    (4, 4, 4)
    """
    grid = places if isinstance(places, Grid) else None
    shape = grid.shape if grid else _points(places).shape[1:]
    values = {name: _rows(name, field, shape) for name, field in fields.items()}
    note = {
        "options": None if options is None else options_to_dict(options),
        "shapes": {name: outer for name, (outer, _) in values.items()},
        "grid": grid and [grid.shape, grid.spacing, grid.origin, grid.periodic],
    }
    with _h5py().File(path, "w") as file:
        file.attrs[NOTE] = json.dumps(note)
        root = file.create_group(ROOT)
        root.attrs["Version"] = np.array([2, 0])
        if grid:
            _write_image(root, grid)
        else:
            _write_vertices(root, _points(places))
        data = root.create_group("PointData")
        for name, (_, rows) in values.items():
            table = rows.reshape((len(rows), *shape)).T  # x varies fastest, as VTK has it
            data[name] = table[..., 0] if len(rows) == 1 else table


def read(path: str | PathLike[str]) -> Contents:
    """Return the contents of a file that `write` has written.

    Raises
    ------
    ParkiValueError
        If the file is another one.
    MissingPackageError
        If h5py is missing.
    """
    with _h5py().File(path, "r") as file:
        if ROOT not in file or NOTE not in file.attrs:
            raise ParkiValueError(f"{path} is no file that parki.files.write has written")
        note, root = json.loads(file.attrs[NOTE]), file[ROOT]
        grid = None
        if note["grid"]:
            shape, spacing, origin, periodic = note["grid"]
            grid = Grid(shape, spacing, origin, periodic)
        places = grid or root["Points"][...].T
        shape = grid.shape if grid else places.shape[1:]
        fields = {
            name: root["PointData"][name][...].T.reshape((*outer, *shape))
            for name, outer in note["shapes"].items()
        }
    options = None if note["options"] is None else options_from_dict(note["options"])
    return Contents(places, fields, options)


def options_to_dict(options: EwaldOptions) -> dict[str, Any]:
    """Return the options that differ from the defaults as numbers, texts and lists, for JSON.

    Raises
    ------
    ParkiTypeError
        If they are none.

    Examples
    --------
    >>> import parki, parki.files
    >>> parki.files.options_to_dict(parki.EwaldOptions(1, [1, None, None], 1e-4))
    {'periodicity': 1, 'box': [1.0, None, None], 'tolerance': 0.0001}
    """
    if not isinstance(options, EwaldOptions):
        raise ParkiTypeError(f"options is a {type(options).__name__}; expected EwaldOptions")
    always = ("periodicity", "box", "tolerance")
    values = {
        field.name: getattr(options, field.name)
        for field in fields_of(options)
        if field.name in always or getattr(options, field.name) != field.default
    }
    if "expert" in values:
        expert, usual = values["expert"], Expert()
        names = [field.name for field in fields_of(expert)]
        differing = [name for name in names if getattr(expert, name) != getattr(usual, name)]
        values["expert"] = {name: getattr(expert, name) for name in differing}
    return {name: _plain(value) for name, value in values.items()}


def options_from_dict(values: Mapping[str, Any]) -> EwaldOptions:
    """Return the options of which `options_to_dict` has made a dictionary.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If a name or a value is none of an option.
    """
    keywords: dict[str, Any] = {**values}
    for name in ("wall", "mean_flow"):
        if isinstance(keywords.get(name), list):
            keywords[name] = tuple(keywords[name])
    if "expert" in keywords:
        keywords["expert"] = Expert(**keywords["expert"])
    return EwaldOptions(**keywords)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, ExecutionSpace):
        return value.name
    return value.item() if isinstance(value, np.generic) else value


def _points(places: AnyArray) -> Any:
    """Return points on the host, or refuse them."""
    points = to_host(as_array("places", places))
    if points.ndim != 2 or points.shape[0] != 3:
        raise ParkiValueError(
            f"places has shape {points.shape}; expected (3, N), or a parki.mesh.Grid"
        )
    return points


def _rows(name: str, field: AnyArray, shape: tuple[int, ...]) -> tuple[tuple[int, ...], Any]:
    """Return the axes of a field before its places, and its values (rows, N) on the host."""
    values, count = to_host(as_array(name, field)), math.prod(shape)
    axes = len(shape) if values.shape[-len(shape) :] == shape else 1
    if math.prod(values.shape[-axes:]) != count or not values.ndim:
        raise ParkiValueError(
            f"field {name!r} has shape {values.shape}; expected values for {count} places, such as "
            f"(3, {count})"
        )
    outer = values.shape[:-axes]
    return outer, values.reshape(math.prod(outer), count)


def _write_image(root: Any, grid: Grid) -> None:
    """Write the geometry of a grid; one of two dimensions is a plane."""
    flat = [0.0] * (3 - grid.dimensions)
    root.attrs["Type"] = np.bytes_("ImageData")
    ends = [*(n - 1 for n in grid.shape), *map(int, flat)]
    root.attrs["WholeExtent"] = np.array([[0, end] for end in ends]).ravel()
    root.attrs["Origin"] = np.array([*grid.origin, *flat])
    root.attrs["Spacing"] = np.array([*grid.spacing, *(zero + 1 for zero in flat)])
    root.attrs["Direction"] = np.eye(3).ravel()


def _write_vertices(root: Any, points: Any) -> None:
    """Write points, each of which is a cell."""
    count = points.shape[1]
    root.attrs["Type"] = np.bytes_("UnstructuredGrid")
    for name in ("NumberOfPoints", "NumberOfCells", "NumberOfConnectivityIds"):
        root[name] = np.array([count])
    root["Points"] = points.T
    root["Connectivity"], root["Offsets"] = np.arange(count), np.arange(count + 1)
    root["Types"] = np.full(count, VERTEX, dtype=np.uint8)


def _h5py() -> Any:
    """Import h5py, or say how to get it."""
    try:
        return import_module("h5py")
    except ImportError as error:
        raise MissingPackageError(
            "parki.files needs h5py, which pip install h5py brings"
        ) from error
