"""Source doublets s, ``u = grad (s . grad(1 / r))``, and their derivatives: potential flows.

``doublet``         ``u_i = sum d_i d_j (1 / r) s_j``
``doublet_dipole``  ``u_i = sum D_jk d/dy_k d_i d_j (1 / r)``, of which the gradient is the fourth
                    derivative of ``1 / r``
``doublet_axis_derivative``
                    the second derivative of the doublets' flow along an axis, in the solver's order

Images near a wall take them: see `parki.ewald.sums.walls`.
"""

from __future__ import annotations

from dataclasses import replace

from parki.ewald.sums import symbols
from parki.ewald.sums.adjoint import Adjoint, of_itself, velocity
from parki.ewald.sums.dipoles import dipoles_of
from parki.ewald.sums.names import InteractionFamily, always, named
from parki.ewald.sums.record import Interaction, error_terms_of
from parki.ewald.sums.sources import DIPOLE, FORCE
from parki.ewald.sums.spheres import sphere_turns
from parki.ewald.sums.written import pair_of

# The second derivative of doublets along an axis: errors are means over all axes.
_ALONG_AXIS = symbols.CURL_OF_CURL._replace(structure="axis_derivative", up=2)
_VECTOR = FORCE._replace(decay=5)
_TERMS = error_terms_of(
    name="doublet_axis_derivative",
    symbol=_ALONG_AXIS,
    source=_VECTOR,
    aligned={"u": 1.3, "grad_u": 1.3},
)
# Torques on points turn other points as doublets do.
_TURNS = sphere_turns(0.0, 0.0)
DOUBLET = replace(
    _TURNS,
    name="doublet",
    symbol=symbols.CURL_OF_CURL,
    pair=pair_of(symbols.CURL_OF_CURL, _TURNS.sources, operations=(2, 60)),
    adjoints={
        "u": of_itself("doublet"),
        "grad_u": Adjoint(kernel="doublet_dipole", want=("u",), results=velocity),
    },
    dipoles="doublet_dipole",
)
DOUBLET_DIPOLE = dipoles_of(
    kernel="doublet",
    name="doublet_dipole",
    symbol=symbols.CURL_OF_CURL,
    operations=(2, 55),
    terms=error_terms_of(
        name="doublet_dipole",
        symbol=symbols.CURL_OF_CURL,
        source=DIPOLE._replace(decay=4),
        aligned={"u": 1.3, "grad_u": 1.3, "grad_tensor": 1.3},
    ),
)


def doublet_axis_derivative(up: int) -> Interaction:
    """Return the sum of second derivatives of doublets along an axis, of vectors s."""
    name, symbol = named("doublet_axis_derivative", up=up), _ALONG_AXIS._replace(up=up)
    return Interaction(
        name=name,
        symbol=symbol,
        pair=pair_of(symbol, (_VECTOR,), operations=(3, 60)),
        sources=(_VECTOR,),
        gauge=None,
        terms=_TERMS,
        adjoints={"u": of_itself(name)},
    )


# Parts of sums near walls, without words.
FAMILIES = {record.name: always(record) for record in (DOUBLET, DOUBLET_DIPOLE)}
FAMILIES["doublet_axis_derivative"] = InteractionFamily(doublet_axis_derivative, example={"up": 2})
