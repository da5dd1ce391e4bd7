"""parki: fast periodic Stokes and Laplace sums of millions of points by spectral Ewald sums.

velocity = parki.stokes_sl(trg, src, dens, periodicity=1, box=[1, 1, 1], tolerance=1e-6)

"""

from importlib import metadata as _metadata
from typing import TYPE_CHECKING

from parki import distributed as distributed
from parki import errors
from parki import ewald as ewald
from parki import mesh as mesh
from parki import reference as reference
from parki import typing as typing
from parki import utils as utils
from parki.cell_list import CellList as CellList
from parki.dynamics import BodyShape as BodyShape
from parki.dynamics import RigidBodies as RigidBodies
from parki.dynamics import RigidSpheres as RigidSpheres
from parki.errors import *  # noqa: F403
from parki.ewald import *  # noqa: F403
from parki.ewald.derivatives.energies import energy as energy
from parki.ewald.estimate import estimate as estimate
from parki.ewald.geometry.lattice import lattice as lattice
from parki.runtime import ExecutionSpace as ExecutionSpace
from parki.runtime import available_spaces as available_spaces
from parki.runtime import get_execution_space as get_execution_space
from parki.solving import NearPairs as NearPairs
from parki.solving import Progress as Progress
from parki.solving import near_pairs as near_pairs
from parki.surfaces import Drops as Drops
from parki.surfaces import FirstKind as FirstKind
from parki.surfaces import LayerPlan as LayerPlan
from parki.surfaces import RigidSurfaces as RigidSurfaces
from parki.surfaces import Surface as Surface
from parki.suspensions import Spheres as Spheres

try:
    __version__ = _metadata.version("parki")  # a tag made it: see pyproject.toml
except _metadata.PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0.0"

if not TYPE_CHECKING:  # type checkers have the calls from `calls.pyi`, and the new names alone
    __all__ = [
        *("BodyShape", "CellList", "ExecutionSpace", "NearPairs", "Progress", "RigidBodies"),
        *("RigidSpheres", "Spheres"),
        *("Drops", "FirstKind", "LayerPlan", "RigidSurfaces", "Surface"),
        *("available_spaces", "energy", "estimate", "get_execution_space", "lattice", "near_pairs"),
        *("distributed", "ewald", "mesh", "reference", "typing", "utils"),
        *errors.__all__,
        *ewald.__all__,
    ]
    _shown = [*ewald.api.__all__, "Plan", "vjp", "jvp", "kernel", "EwaldOptions", "Expert"]
    _shown += ["Spheres", "RigidSpheres", "RigidBodies", "near_pairs", "CellList", "lattice"]
    _shown += ["Surface", "RigidSurfaces", "Drops", "energy", "estimate"]
    for _name in _shown:  # `help(parki)` begins with them
        _about = (globals()[_name].__doc__ or "").partition("\n")[0]
        __doc__ = f"{__doc__}    {_name:16}{_about}\n"

    def __dir__() -> list[str]:
        """Return the names that users have."""
        return sorted([*__all__, "__version__"])

    __getattr__ = errors.old_names(__name__, "0.3", {"forget": "clear_cache"})
