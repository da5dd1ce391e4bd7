"""Layer potentials on closed surfaces, near them and far away, in periodic boxes.

kernels      which layers and results there are, with their jumps
series       harmonics and Fourier's series, from nodes to finer ones; fits of nodes alone
shapes       shapes in their own frames: ellipsoids, tori, nodes of the user
near         targets near bodies, and how they are corrected
blocks       corrections of pairs as blocks, exact for constants: what kernels launch
plain        the sums over nodes that corrections are added to; what to expect in gaps
dense        corrections of small bodies by all of their finer nodes, and matrices of events
self_matrix  a body's own matrix, some by polar coordinates
corrections  near pairs of targets with other bodies and images
bodies       `Bodies`: shapes at their places
placed       `PlacedLayer`: what follows from places of bodies, and corrections there
layer        `SurfaceLayer`: the sum of a plan, and its corrections
layer_plan   `LayerPlan`: such a layer from a user's arguments
surface      `Surface`: bodies by nodes or ready made, and their layers
projections  what equations do to each body alone: resultants, rigid motions, mean fluxes
equations    `RigidSurfaces`, `FirstKind` and `Drops`: operators, and preconditioners by bodies
"""

from parki.surfaces.equations import Drops, FirstKind, RigidSurfaces
from parki.surfaces.layer_plan import LayerPlan
from parki.surfaces.surface import Surface

__all__ = ["Drops", "FirstKind", "LayerPlan", "RigidSurfaces", "Surface"]
