"""A rigid sphere that moves towards a plane wall: the exact drag."""

from __future__ import annotations

import numpy as np


def drag_towards_wall(height: float) -> float:
    """Return the drag on a rigid sphere that moves towards or from a wall, over its drag alone.

    Parameters
    ----------
    height : float
        Of its centre above the wall, over its radius; more than 1.

    Returns
    -------
    float
        Brenner (Chemical Engineering Science 16, 242-251, 1961), equation 2.19.

    Raises
    ------
    ValueError
        If the sphere touches the wall.
    """
    if not 1 < height < np.inf:
        raise ValueError(f"height is {height!r}; expected a number above 1, in radii")
    alpha = np.arccosh(height)
    # Terms fall as exp(-(2 n + 1) alpha): both of the fraction are scaled by that.
    n = np.arange(1, 20 + 20 / min(alpha, 1.0))
    odd = 2 * n + 1
    fall = np.exp(-odd * alpha)
    above = 1 - fall**2 + odd * np.sinh(2 * alpha) * fall
    below = (1 - fall) ** 2 - odd**2 * np.sinh(alpha) ** 2 * fall
    terms = n * (n + 1) / ((2 * n - 1) * (2 * n + 3)) * (above / below - 1)
    return float(4 / 3 * np.sinh(alpha) * terms.sum())
