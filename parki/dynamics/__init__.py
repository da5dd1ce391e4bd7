"""Rigid particles: constraints that are solved around sums of plans.

moments     eleven numbers of each sphere, and their tensors
mobility    `MomentMobility`: how forces and couplets move spheres
solver      conjugate gradients for forces, stresslets and motion
rigid       `RigidSpheres`, in physical units
"""

from parki.dynamics.rigid import Motion, RigidSpheres

__all__ = ["Motion", "RigidSpheres"]
