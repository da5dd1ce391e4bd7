"""Rigid particles: constraints that are solved around sums of plans.

Spheres that do not strain:

moments       eleven numbers of each sphere, and flows; `MomentMobility`: how they move spheres
tables        the resistance of two spheres: close to contact by formulas, and the rest by a file
              that `scripts/lubrication.py` makes
radius_tables `RadiusTables`: what pairs have by their radii alone, once for all positions
close         which spheres are close to each other; `Slots`, to which their pairs write
lubrication   `Lubrication`: pairs of spheres in reach, and how they resist and shake
pair_matrix   `PairProduct`: how they resist, for many products; `PairMatrix`: solves with these
solver        the equations of rigid spheres, and their preconditioner
brownian      noise and drift of Brownian steps
rigid         `RigidSpheres`, in physical units, and `Motion` in `solver`

Bodies of blobs, which are spheres that a body holds:

shapes      `BodyShape`: the blobs of a body, and its own matrices
conjugate   conjugate gradients for what acts on the fluid and what moves
placed      bodies at their places, and what each does alone
bodies      `RigidBodies`, in physical units, with `bodies_solver` for solves and noise
"""

from parki.dynamics.bodies import RigidBodies
from parki.dynamics.bodies_solver import BodyMotion
from parki.dynamics.rigid import RigidSpheres
from parki.dynamics.shapes import BodyShape
from parki.dynamics.solver import Motion

__all__ = ["BodyMotion", "BodyShape", "Motion", "RigidBodies", "RigidSpheres"]
