"""Names of the variants of stages, which `Expert` takes: parki's own, and the literature's."""

from __future__ import annotations

CELL_METHODS = ("gm1d", "gm2d", "sm1d", "sm2d")
P2P_METHODS = ("auto", "tile", "staged", *CELL_METHODS)
# The index of a name is EVALUATOR in kernels/p2p.py.
EVALUATORS = ("polynomial", "erfc", "rational")
LITERATURE = ("base", "source", "grid", "hybrid")  # variants of P2G
P2G_METHODS = ("auto", "owner", "tile", *LITERATURE)
# These add to the grid by atomics, in any order.
UNORDERED = ("base", "source", "hybrid")
G2P_METHODS = ("auto", "target", "base", "tile")
