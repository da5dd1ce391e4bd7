"""parki: fast periodic Stokes and Laplace sums of millions of points by spectral Ewald sums.

options = parki.EwaldOptions(periodicity=1, box=[1, 1, 1], tolerance=1e-6)
velocity = parki.stokes_comb(trg, src, dens, norms, options)
"""

from parki import distributed, ewald, mesh, reference, utils
from parki.cell_list import CellList
from parki.errors import (
    ImageWarning,
    KernelError,
    ParkiError,
    ParkiMemoryError,
    ParkiTypeError,
    ParkiValueError,
    ParkiWarning,
    UnavailableError,
)
from parki.ewald import (
    EwaldOptions,
    Plan,
    clear_cache,
    jvp,
    laplace,
    stokes_comb,
    stokes_dipole,
    stokes_dl,
    stokes_rotlet,
    stokes_sl,
    vjp,
)
from parki.runtime import ExecutionSpace, available_spaces, get_execution_space

__version__ = "0.1.0"

__all__ = [
    "CellList",
    "EwaldOptions",
    "ExecutionSpace",
    "ImageWarning",
    "KernelError",
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
    "laplace",
    "mesh",
    "reference",
    "stokes_comb",
    "stokes_dipole",
    "stokes_dl",
    "stokes_rotlet",
    "stokes_sl",
    "utils",
    "vjp",
]
