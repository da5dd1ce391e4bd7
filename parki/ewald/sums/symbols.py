"""`Symbol`: what FGC multiplies the modes of the far field by."""

from __future__ import annotations

import math
from typing import NamedTuple


class Shell(NamedTuple):
    """The surface of a sphere, which forces and velocities share, or torques and turns.

    See `parki.ewald.split.shells`.
    """

    radius: float
    turns: bool


# Files of ``kernels/symbols`` that are polynomials of the wave vector, times ``1 / k^(2 order)``.
POLYNOMIALS = ("scalar", "slope", "curl", "flow", "axis_derivative")


class Symbol(NamedTuple):
    """``strength / k^(2 order)`` times the split's factor of this order, and a tensor structure.

    A screened symbol has ``k^2 + screening^2`` in place of k^2, and one of order 2 in place of one
    of its two factors k^2: that is Brinkman's equation.

    Attributes
    ----------
    order : int
        1 for harmonic symbols (Laplace's equation), 2 for biharmonic ones (Stokes' equations).
    components : int
        Fields on the grid that sources are spread onto.
    results : int
        Rows of the velocity or potential.
    structure : str
        File of ``kernels/symbols`` that has the tensor structure.
    shells : tuple of 2 Shell, or None
        Targets and sources that are spheres.
    screening : float
        An inverse length.
    laplacians : tuple of 2 bools
        Whether targets take the Laplacian of the field, too, and sources make one of their fields:
        spheres of any radii a do. Theirs is the symbol times
        ``1 - (k a)^2 / 6``. A second grid has the Laplacian, or what it is taken of.
    up : int or None
        The axis that the tensor structure distinguishes, in the solver's order.
    """

    order: int
    components: int
    results: int
    structure: str
    shells: tuple[Shell, Shell] | None = None
    screening: float = 0.0
    laplacians: tuple[bool, bool] = (False, False)
    up: int | None = None

    @property
    def grids(self) -> int:
        """Grids of a density."""
        return 2 if any(self.laplacians) else 1

    @property
    def ends(self) -> bool:
        """Whether parki has a kernel of it that ends, as free axes need: derivatives of such a one.

        These are the kernels of Laplace's equation and of Stokes' equations, screened or not: see
        `parki.ewald.far.truncated`.
        """
        return self.structure in POLYNOMIALS and (not self.alpha or self.structure == "flow")

    @property
    def alpha(self) -> float:
        """The alpha of Brinkman's equation, an inverse length, or 0."""
        return self.screening if self.order == 2 else 0.0

    @property
    def strength(self) -> float:
        """``4 pi`` or ``8 pi``: what the equation has at a unit source."""
        return 4 * math.pi * self.order


POTENTIAL = Symbol(order=1, components=1, results=1, structure="scalar")
SLOPE = Symbol(order=1, components=1, results=3, structure="slope")
CURL = Symbol(order=1, components=3, results=3, structure="curl")
FLOW = Symbol(order=2, components=3, results=3, structure="flow")
CURL_OF_CURL = Symbol(order=1, components=3, results=3, structure="flow")
# The fourth component is the strength q.n of a double layer's sources and sinks.
FLOW_OF_LAYERS = Symbol(order=2, components=4, results=3, structure="flow")
