"""parki: fast periodic Stokes and Laplace sums of millions of points by spectral Ewald sums.

velocity = parki.stokes_sl(trg, src, dens, periodicity=1, box=[1, 1, 1], tolerance=1e-6)

    Spheres         Spheres in a viscous fluid, with forces and torques, that move in time.
    RigidSpheres    Rigid spheres: they do not strain, with lubrication, shear and Brownian motion.
    RigidBodies     Rigid bodies of blobs, with forces, slip, shear and Brownian motion.
    Surface         Closed surfaces of bodies, for layer potentials on them, near them and far away.
    RigidSurfaces   Rigid bodies that forces and torques move: the completed double layer.
    Drops           Drops in a flow, whose surfaces pull at the fluid.
    LayerPlan       Layer potentials of surfaces: set up once, apply to many densities.
    energy          Energy of charges and dipoles, their forces, the virial, and the potentials.
    equilibrate     Charges and dipoles that respond to a potential, by conjugate gradients.
    estimate        Memory and time of a sum, without running it.
    hard_spheres    Centres of spheres at random that do not overlap.
    near_pairs      All pairs of a target and an image of a source within a radius.
    CellList        Points sorted by cells.
    lattice         The lattice vectors of a box by its lengths and tilts, for ``box``.
"""

from importlib import metadata as _metadata
from typing import TYPE_CHECKING

from parki import errors
from parki import ewald as ewald
from parki import typing as typing
from parki import utils as utils
from parki.cells.cell_list import CellList as CellList
from parki.errors import *  # noqa: F403
from parki.ewald import *  # noqa: F403
from parki.ewald.lattice import lattice as lattice
from parki.memory import telling as _telling
from parki.runtime import ExecutionSpace as ExecutionSpace
from parki.runtime import available_spaces as available_spaces
from parki.runtime import get_execution_space as get_execution_space

try:
    __version__ = _metadata.version("parki")  # a tag made it: see pyproject.toml
except _metadata.PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0.0"

if TYPE_CHECKING:
    from parki import distributed as distributed
    from parki import files as files
    from parki import mesh as mesh
    from parki import reference as reference
    from parki.dynamics import BodyShape as BodyShape
    from parki.dynamics import RigidBodies as RigidBodies
    from parki.dynamics import RigidSpheres as RigidSpheres
    from parki.ewald.derivatives.energies import energy as energy
    from parki.prediction import estimate as estimate
    from parki.solving import *  # noqa: F403
    from parki.surfaces import *  # noqa: F403
    from parki.suspensions import *  # noqa: F403
else:  # type checkers have the calls from `calls.pyi`, and the new names alone
    # Whoever sums points alone imports nothing of what is built on sums.
    _LATER = {
        "parki.dynamics": ("BodyShape", "RigidBodies", "RigidSpheres"),
        "parki.ewald.derivatives.energies": ("energy",),
        "parki.prediction": ("estimate",),
        "parki.solving": (
            *("Equilibrium", "NearPairs", "Progress", "equilibrate", "hard_spheres", "near_pairs"),
        ),
        "parki.surfaces": ("Drops", "FirstKind", "LayerPlan", "RigidSurfaces", "Surface"),
        "parki.suspensions": ("Spheres",),
    }
    _later = {name: module for module, names in _LATER.items() for name in names}
    _later |= {name: f"parki.{name}" for name in ("distributed", "files", "mesh", "reference")}
    __all__ = [
        *("CellList", "ExecutionSpace", "available_spaces", "get_execution_space", "lattice"),
        *("ewald", "typing", "utils"),
        *_later,
        *errors.__all__,
        *ewald.__all__,
    ]
    if __doc__:  # `help(parki)` has all names; Python's -OO leaves no docstrings
        _shown = ""
        for _name in [*ewald.api.__all__, "Plan", "vjp", "jvp", "kernel", "EwaldOptions", "Expert"]:
            _about = (globals()[_name].__doc__ or "").partition("\n")[0]
            _shown += f"    {_name:16}{_about}\n"
        __doc__ = __doc__.replace("    Spheres ", f"{_shown}    Spheres ", 1)

    def __dir__() -> list[str]:
        """Return the names that users have."""
        return sorted([*__all__, "__version__"])

    __getattr__ = _telling(
        errors.old_names(__name__, "0.3", {"forget": "clear_cache"}, later=_later)
    )
