"""Layer potentials on closed surfaces, near them and far away, in periodic boxes.

functions    what takes the place of 1/r^k near a surface, of any order
kernels      each layer and result as blocks of pairs
fits         node distances and nearest points, of nodes and normals alone
series       harmonics and Fourier's series, from nodes to finer ones
shapes       shapes in their own frames: ellipsoids, tori, nodes of the user
spherical    shapes that are maps of the unit sphere, and their curvatures
near         corrections of pairs as blocks, exact for constants
plain        the sums over nodes that corrections are added to
dense        corrections of small bodies by all of their finer nodes
products     products of densities with matrices of events
polar        layers at a body's own nodes by polar coordinates
own          a body's own matrix
corrections  near pairs of targets with other bodies and images
bodies       `Bodies`: shapes at their places
gaps         what accuracy to expect where bodies are close
layer        `LayerPlan`: the sum of a plan, and its corrections
surface      `Surface`: bodies by nodes or ready made, and their layers
rigid        forces, torques and rigid motions of bodies
equations    `RigidSurfaces`, `FirstKind` and `Drops`: operators, and preconditioners by bodies
"""

from parki.surfaces.equations import Drops, FirstKind, RigidSurfaces
from parki.surfaces.layer import LayerPlan
from parki.surfaces.surface import Surface

__all__ = ["Drops", "FirstKind", "LayerPlan", "RigidSurfaces", "Surface"]
