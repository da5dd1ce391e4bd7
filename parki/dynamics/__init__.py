"""Rigid particles: constraints that are solved around sums of plans.

Spheres that do not strain:

moments     eleven numbers of each sphere, and their tensors
mobility    `MomentMobility`: how forces and couplets move spheres
contact     the singular resistance of two spheres close to contact
tables      the rest of it, by a file that `scripts/lubrication.py` makes
lubrication `Lubrication`: pairs of spheres in reach, and how they resist
pair_product `PairProduct`: the same by a kernel, for many products
pair_matrix `PairMatrix`: solves with these products
solver      the equations of rigid spheres, and their preconditioner
brownian    noise and drift of Brownian steps
rigid       `RigidSpheres`, in physical units, and `Motion` in `rigid_motion`
flows       flows around them, and around bodies

Bodies of blobs, which are spheres that a body holds:

shapes      `BodyShape`: the blobs of a body, and its own matrices
conjugate   conjugate gradients for what acts on the fluid and what moves
placed      bodies at their places, and what each does alone
bodies      `RigidBodies`, in physical units, with files for arguments, solves, motion and noise
"""

from parki.dynamics.bodies import RigidBodies
from parki.dynamics.bodies_motion import BodyMotion
from parki.dynamics.rigid import RigidSpheres
from parki.dynamics.rigid_motion import Motion
from parki.dynamics.shapes import BodyShape

__all__ = ["BodyMotion", "BodyShape", "Motion", "RigidBodies", "RigidSpheres"]
