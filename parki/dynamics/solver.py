r"""The equations of rigid spheres, and their preconditioner, for `parki.dynamics.conjugate`.

What acts on the fluid, x of eleven numbers for each sphere, and what moves, v of six, obey

    M x - B v = k      kinematics: slip, and minus the strain of the flow far away
    B^T x + R v = f    balance: R is the lubrication of pairs

B^T takes forces and torques out of x. The preconditioner has a diagonal matrix D in the place of M,
a part of the mobility of a sphere alone: ``A v = f - B^T D^-1 k`` with ``A = B^T D^-1 B + R``,
which is sparse and positive. Forces and torques then follow from the balance, so that it holds
exactly in each iterate, even if A is not solved exactly. Without R the iterations are for the
stresslets alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from parki.dynamics.conjugate import Show, Solved, conjugate, dot

# Parts of the mobility of a sphere alone, of forces and torques and of stresslets: they take the
# fewest iterations at volume fractions of 0.1 to 0.5. They are small because the forces of close
# pairs move the fluid far away, as stresslets do, more than spheres alone would.
OF_FORCES, OF_STRESSLETS = 0.2, 0.5
MOST_PRODUCTS = 200


class Start(NamedTuple):
    """Stresslets (5, N) and motion (6, N) to start from."""

    stresslets: Any
    moves: Any


def diagonal(own: Any) -> Any:
    """Return the diagonal matrix D (11, N) in the place of M, of the mobility of spheres alone."""
    diagonal = own.copy()
    diagonal[:6] *= OF_FORCES
    diagonal[6:] *= OF_STRESSLETS
    return diagonal


def solve(
    mobility: Callable[[Any], Any],
    resistance: Any,
    own: Any,
    k: Any,
    f: Any,
    accuracy: float,
    start: Start | None = None,
    watch: Show | None = None,
) -> Solved:
    """Solve for what acts on the fluid and what moves: see the module.

    Parameters
    ----------
    mobility : callable
        The product with M of an array (11, N).
    resistance : Resistance or None
        R: ``resistance(v)`` is its product with (6, N), ``resistance.solve(f)`` is about A^-1 f,
        and the product with that.
    own : array, shape (11, N)
        The mobility of each sphere alone.
    k, f : array, shape (11, N) and (6, N)
    accuracy : float
        The relative error, in the norm of the energy, at which it stops.
    start : Start, optional
    watch : callable, optional
        Called with the error in each iteration.

    Raises
    ------
    ParkiError
        If it does not converge.
    """
    d = diagonal(own)

    def balanced(r: Any, s: Any) -> tuple[Any, Any]:
        """Precondition residuals of kinematics and balance: what acts, and what moves."""
        wanted = s - r[:6] / d[:6]
        y, resists = (d[:6] * wanted, 0.0) if resistance is None else resistance.solve(wanted)
        z = r / d
        z[:6] = s - resists
        return z, y

    def last(step: Any, z: Any, w: Any) -> tuple[Any, Any]:
        """Return a step as long as the last one in stresslets, and in motions as if D were exact.

        Steps of spheres far apart have the length `OF_STRESSLETS`, and mend motions in full.
        """
        size = 1.0 if resistance is None else np.minimum(1, step / OF_STRESSLETS)
        z = step * z
        z[:6] *= size / step
        return z, size * w

    def carried(v: Any) -> Any:
        moved = 0 * k
        moved[:6] = v
        return moved

    if start is None:
        first = balanced(k, f)
    else:
        x, v = 0 * k, start.moves
        x[6:] = start.stresslets
        x[:6] = f if resistance is None else f - resistance(v)
        first = x, v
    if not (k.any() or f.any()):
        return Solved(0 * k, 0 * f, 0, 0.0)
    return conjugate(
        mobility,
        lambda r: balanced(r, 0 * f),
        carried,
        first,
        k,
        lambda x, v: dot(x, k) + dot(v, f),
        accuracy,
        MOST_PRODUCTS,
        watch,
        last=last,
    )
