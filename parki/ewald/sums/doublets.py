"""Source doublets s, ``u = grad (s . grad(1 / r))``, and their dipoles: potential flows.

``doublet``         ``u_i = sum d_i d_j (1 / r) s_j``
``doublet_dipole``  ``u_i = sum D_jk d/dy_k d_i d_j (1 / r)``, of which the gradient is the fourth
                    derivative of ``1 / r``

Images near a wall take them: see `parki.ewald.sums.walls`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from parki.ewald.sums import symbols
from parki.ewald.sums.adjoint import Adjoint, of_itself, velocity
from parki.ewald.sums.names import Family
from parki.ewald.sums.record import GRADIENT, PLAIN, Far, Sum, Term
from parki.ewald.sums.sizes import square
from parki.ewald.sums.sources import DIPOLE
from parki.ewald.sums.spheres import sphere_turns
from parki.ewald.sums.written import pair_of

VELOCITY = Term(
    "doublet_dipole",
    4,
    square(symbols.CURL_OF_CURL, DIPOLE),
    Far(GRADIENT, PLAIN, order=1),
    aligned_factor=1.3,
)
VELOCITY_GRADIENT = Term(
    "doublet_dipole_grad",
    5,
    square(symbols.CURL_OF_CURL, DIPOLE, "grad_u"),
    Far(GRADIENT, GRADIENT, order=1),
    aligned_factor=1.3,
    derived=True,
)
# Torques on points turn other points as doublets do.
_TURNS = sphere_turns(0.0, 0.0)
DOUBLET = replace(
    _TURNS,
    name="doublet",
    symbol=symbols.CURL_OF_CURL,
    pair=pair_of(symbols.CURL_OF_CURL, _TURNS.sources, (2, 60)),
    adjoints={
        "u": of_itself("doublet"),
        "grad_u": Adjoint("doublet_dipole", ("u",), velocity),
    },
)
DOUBLET_DIPOLE = Sum(
    "doublet_dipole",
    symbols.CURL_OF_CURL,
    pair_of(symbols.CURL_OF_CURL, (DIPOLE,), (2, 55)),
    (DIPOLE._replace(decay=4),),
    gauge=None,
    terms={"u": (VELOCITY,), "grad_u": (VELOCITY_GRADIENT,)},
    adjoints={
        "u": Adjoint("doublet", ("grad_u",), lambda found, _: found["grad_u"]),
        "grad_u": Adjoint("doublet_dipole", ("grad_u",), lambda found, _: found["grad_u"]),
    },
)

# Parts of sums near walls, without words.
FAMILIES = {
    each.name: Family(partial(lambda record: record, each)) for each in (DOUBLET, DOUBLET_DIPOLE)
}
