"""parki: fast periodic Stokes and Laplace sums of millions of points by spectral Ewald sums.

velocity = parki.stokes_sl(trg, src, dens, periodicity=1, box=[1, 1, 1], tolerance=1e-6)
"""

from typing import TYPE_CHECKING

from parki import distributed, ewald, mesh, reference, typing, utils
from parki.cell_list import CellList
from parki.errors import (
    ImageWarning,
    KernelError,
    MissingPackageError,
    ParkiDeprecationWarning,
    ParkiError,
    ParkiMemoryError,
    ParkiTypeError,
    ParkiValueError,
    ParkiWarning,
    UnavailableError,
    old_names,
)
from parki.ewald import (
    EwaldOptions,
    Plan,
    clear_cache,
    jvp,
    kernel,
    vjp,
)
from parki.ewald.api import *  # noqa: F403
from parki.runtime import ExecutionSpace, available_spaces, get_execution_space

__version__ = "0.1.0"

__all__ = [
    "CellList",
    "EwaldOptions",
    "ExecutionSpace",
    "ImageWarning",
    "KernelError",
    "MissingPackageError",
    "ParkiDeprecationWarning",
    "ParkiError",
    "ParkiMemoryError",
    "ParkiTypeError",
    "ParkiValueError",
    "ParkiWarning",
    "Plan",
    "UnavailableError",
    "available_spaces",
    "clear_cache",
    "distributed",
    "ewald",
    "get_execution_space",
    "jvp",
    "kernel",
    "mesh",
    "reference",
    "typing",
    "utils",
    "vjp",
]

if not TYPE_CHECKING:  # type checkers have the calls from `calls.pyi`, and the new names alone
    __all__ += ewald.api.__all__
    __getattr__ = old_names(__name__, "0.3", {"forget": "clear_cache"})
