"""What a sum, or a composite of sums, is made of, for programs that add one.

=============== ==================================================================================
a sum           `Interaction`, its `pair_of`, `error_terms_of` and `Words`; `always` and
                `InteractionFamily` for `register`
a symbol        `Symbol`, and `POTENTIAL`, `SLOPE`, `CURL`, `FLOW`, `FLOW_OF_LAYERS`,
                `CURL_OF_CURL`
sources         `Source`, and `CHARGE`, `CHARGE_DIPOLE`, `QUADRUPOLE`, `FORCE`, `TORQUE`, `DIPOLE`,
                `LAYER`
a gauge         `OF_CHARGES`, `OF_FORCES`, or None; of screened symbols `OF_SCREENED`,
                `WITH_FRICTION`
its transpose   `Adjoint`
a composite     `Composite`, of `Addend`
maps of results `velocity`, `pressure`, `gradient`, or a function; `Curved` where it has a
                derivative by the points
by hand         `PairFunction` of a `Table` or more, `ErrorTerm`, `ProlateError`, `named`
what there is   `SUMS`, `TERMS`
=============== ==================================================================================

All of these take their arguments by name. The page "How a sum is added" has a program.
"""

from __future__ import annotations

from parki.ewald.sums import SUMS, TERMS, register
from parki.ewald.sums.adjoint import Adjoint, gradient
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.gauges import OF_CHARGES, OF_FORCES, OF_SCREENED, WITH_FRICTION
from parki.ewald.sums.maps import Curved, pressure, velocity
from parki.ewald.sums.names import InteractionFamily, always, named
from parki.ewald.sums.pairs import PairFunction
from parki.ewald.sums.record import ErrorTerm, Interaction, ProlateError, error_terms_of
from parki.ewald.sums.sources import (
    CHARGE,
    CHARGE_DIPOLE,
    DIPOLE,
    FORCE,
    LAYER,
    QUADRUPOLE,
    TORQUE,
    Source,
)
from parki.ewald.sums.symbols import (
    CURL,
    CURL_OF_CURL,
    FLOW,
    FLOW_OF_LAYERS,
    POTENTIAL,
    SLOPE,
    Symbol,
)
from parki.ewald.sums.tables import Table
from parki.ewald.sums.words import Words
from parki.ewald.sums.written import pair_of

__all__ = [
    "CHARGE",
    "CHARGE_DIPOLE",
    "CURL",
    "CURL_OF_CURL",
    "DIPOLE",
    "FLOW",
    "FLOW_OF_LAYERS",
    "FORCE",
    "LAYER",
    "OF_CHARGES",
    "OF_FORCES",
    "OF_SCREENED",
    "POTENTIAL",
    "QUADRUPOLE",
    "SLOPE",
    "SUMS",
    "TERMS",
    "TORQUE",
    "WITH_FRICTION",
    "Addend",
    "Adjoint",
    "Composite",
    "Curved",
    "ErrorTerm",
    "Interaction",
    "InteractionFamily",
    "PairFunction",
    "ProlateError",
    "Source",
    "Symbol",
    "Table",
    "Words",
    "always",
    "error_terms_of",
    "gradient",
    "named",
    "pair_of",
    "pressure",
    "register",
    "velocity",
]
