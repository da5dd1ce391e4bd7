"""Suspensions: spheres of finite size in a viscous fluid, and their Brownian displacements.

spheres        `Spheres`, in physical units
mobility       `SphereMobility`: what moves by what, by plans at the same points
derivatives    of velocities by forces, torques and positions
noise          roots of the mobility
wall           spheres near a wall, and the drift of their steps there
functions      velocities as sums of PyTorch and JAX
"""

from parki.suspensions.spheres import Spheres

__all__ = ["Spheres"]
