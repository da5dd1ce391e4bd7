"""Suspensions: spheres of finite size in a viscous fluid, and their Brownian displacements.

spheres    `Spheres`, in physical units
noise      roots of the mobility
"""

from parki.suspensions.spheres import Spheres

__all__ = ["Spheres"]
