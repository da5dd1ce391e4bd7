"""Which layers and results there are, with their jumps, and what they make of constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

Key = tuple[str, str]  # a kernel and a result


@dataclass(frozen=True)
class Layer:
    """A layer and one of its results.

    Attributes
    ----------
    rows, columns : int
        Numbers of components of a result and of a density.
    want : str
        What the sum has to give: tractions are made of stresses.
    exact : float, optional
        Inside of a closed surface, what the layer of 1 is; None for single layers. The layers of
        constants are made exact.
    jump : float, optional
        Outside minus inside, for a density of 1 (pressures: along the normal); None if a result
        has a singularity as 1/r^3, with derivatives of the density in its jump.
    parts : tuple of 2 keys
        The layers whose sum it is, with a density each; of any other layer none.
    """

    rows: int
    columns: int
    want: str
    exact: float | None = None
    jump: float | None = None
    parts: tuple[Key, ...] = ()

    def jumps(self, n: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Return the jumps at normals n (3, n) along directions e, (rows, columns, n)."""
        jumps = np.eye(self.rows, self.columns)[:, :, None] + 0 * n[0]
        if self.jump is None:
            return np.zeros_like(jumps)
        if self.rows == 1 and self.columns == 3:  # pressures
            jumps = n[None]
        elif self.want == "stress":
            along = (n * e).sum(axis=0)
            mixed = n[:, None] * (e - along * n)
            jumps = jumps * along + mixed + mixed.transpose(1, 0, 2)
        return np.asarray(self.jump * jumps)

    def missing(self, inside: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return errors of sums of constants (rows, columns, n), with ``inside`` of 1 inside."""
        eye = np.eye(self.rows, self.columns)[:, :, None]
        return np.asarray((self.exact or 0.0) * eye * inside - sums)


WHOLE, POINT = 8 * math.pi, 4 * math.pi  # what sums leave out, of Stokes and of Laplace

LAYERS = {
    ("stokes_sl", "u"): Layer(3, 3, "u", jump=0.0),
    ("stokes_sl", "p"): Layer(1, 3, "p", jump=WHOLE),
    ("stokes_sl", "traction"): Layer(3, 3, "stress", jump=-WHOLE),
    ("stokes_dl", "u"): Layer(3, 3, "u", WHOLE, jump=-WHOLE),
    ("stokes_dl", "p"): Layer(1, 3, "p", 0.0),
    ("stokes_dl", "traction"): Layer(3, 3, "stress", 0.0),
    ("laplace", "u"): Layer(1, 1, "u", jump=0.0),
    ("laplace_dipole", "u"): Layer(1, 1, "u", -POINT, jump=POINT),
}
NUMBERS = list(LAYERS)  # by which ``kernels/blocks/layers.py`` knows them
for _want in ("u", "p", "traction"):  # the sum of both layers, with one density above the other
    _keys = ("stokes_sl", _want), ("stokes_dl", _want)
    LAYERS["stokes_comb", _want] = replace(LAYERS[_keys[1]], columns=6, parts=_keys)


def parts_of(key: Key) -> list[tuple[Key, int]]:
    """Return the layers whose sum a layer is, each with the first column of its densities."""
    return [(part, 3 * n) for n, part in enumerate(LAYERS[key].parts or (key,))]
