"""Rigid particles: constraints that are solved around sums of plans.

moments     eleven numbers of each sphere, and their tensors
mobility    `MomentMobility`: how forces and couplets move spheres
contact     the singular resistance of two spheres close to contact
tables      the rest of it, by a file that `scripts/lubrication.py` makes
lubrication `Lubrication`: pairs of spheres in reach, and how they resist
pair_matrix `PairMatrix`: the same as a sparse matrix, and solves with it
solver      conjugate gradients for forces, stresslets and motion
rigid       `RigidSpheres`, in physical units
"""

from parki.dynamics.rigid import Motion, RigidSpheres

__all__ = ["Motion", "RigidSpheres"]
