"""`Adjoint`: how a result of a sum is transposed, which is a sum of another kernel.

A sum has the matrix ``K(x_t - y_s)`` from sources y to targets x. Its transpose takes values at the
targets to the sources: it is the *transposed* sum, from targets to sources, of a kernel that makes
of a vector v at x what a source at y would be multiplied by. See ``docs/derivatives.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, Any]
Rows = tuple[Any, ...]
Mean = Callable[[Any, Any], Any]


def velocity(found: Arrays, norms: Any) -> Rows:
    """Return the transposed sum itself."""
    return (found["u"],)


def gradient(found: Arrays, norms: Any) -> Rows:
    """Return its gradient: row 3 j + k is the derivative of component j along axis k."""
    return (found["grad_u"],)


def traction(found: Arrays, norms: Any) -> Rows:
    """Return ``-sigma n``, sigma the stress of the transposed sum.

    The double layer's ``T_jlm(r)`` is the stress of the single layer's flow of v_j, and odd in r,
    which changes its sign when the points are transposed.
    """
    slopes = found["grad_u"].reshape(3, 3, -1)
    both = ((slopes + slopes.swapaxes(0, 1)) * norms).sum(axis=1)
    return (found["p"] * norms - both,)


def velocity_and_traction(found: Arrays, norms: Any) -> Rows:
    """Return both, for the rows of the single and of the double layer."""
    return velocity(found, norms) + traction(found, norms)


def half_curl(found: Arrays, norms: Any) -> Rows:
    """Return half the curl of the transposed sum: a torque turns what a force moves."""
    slopes = found["grad_u"].reshape(3, 3, -1)
    rows = slopes[0].copy()
    for axis in range(3):
        after, last = (axis + 1) % 3, (axis + 2) % 3
        rows[axis] = (slopes[last, after] - slopes[after, last]) / 2
    return (rows,)


def mean_of_forces(values: Any, points: Any) -> Any:
    """Return ``v.(y - x)`` of each target x, which is linear in y: slope and constant, (4, N)."""
    return np.concatenate([values, -(values * points).sum(axis=0, keepdims=True)])


def mean_of_dipoles(values: Any, points: Any) -> Any:
    """Return the same of its derivative by x, ``-tr v``."""
    rows = np.zeros_like(values, shape=(4, values.shape[1]))
    rows[3] = -values[::4].sum(axis=0)
    return rows


class Adjoint(NamedTuple):
    """One result of a sum, transposed. Arrays have shape (rows, N).

    Attributes
    ----------
    kernel : str
        The transposed sum, whose density are the values at the targets.
    want : tuple of str
        What is needed of it.
    rows : callable
        ``rows(results, norms)``: the transpose's rows from these results, in blocks, with the
        normals of the sources.
    symmetric : bool
        True if K(r)^T = K(-r), so that the transpose is the same sum.
    tolerance_factor : float or None
        None where the transposed sum has the same symbol, window and pair function: by the same
        parameters its matrix is the same, up to rounding. Otherwise it chooses its own, by a
        tolerance smaller by this factor.
    transposed_pair : bool
        Whether its near field takes the sum's own pair function, transposed, which is faster
        than the pair functions of several results.
    mean : callable or None
        ``mean(values, targets)``: of a double layer without net flux, what each target adds to the
        pressure, over 8 pi / V: three components of its gradient, and a constant, (4, Nt). It is
        the mean gradient that balances forces in a triply periodic box.
    """

    kernel: str
    want: tuple[str, ...]
    rows: Callable[[Arrays, Any], Rows]
    symmetric: bool = False
    tolerance_factor: float | None = None
    mean: Mean | None = None
    transposed_pair: bool = False

    def density(self, found: Arrays, norms: Any) -> Any:
        """Return the transpose (rows, N): its rows and, if transposed, the near field."""
        blocks = self.rows(found, norms)
        rows = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return rows + found["transposed_pair"] if "transposed_pair" in found else rows


def of_itself(kernel: str) -> Adjoint:
    """Return the adjoint of a symmetric kernel."""
    return Adjoint(kernel, ("u",), velocity, symmetric=True)
