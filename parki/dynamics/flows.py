"""Flows far away from rigid spheres and bodies, by their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.interchange import as_array, to_host

TRACE = 1e-9  # of a gradient, over its largest entry


def gradient(given: Any, options: EwaldOptions) -> Any:
    """Return the gradient (3, 3) of a flow as NumPy's array, or refuse it; None is no flow."""
    if given is None:
        return np.zeros((3, 3))
    slope = to_host(as_array("gradient", given)).astype(np.float64)
    if slope.shape != (3, 3) or not np.isfinite(slope).all():
        raise ParkiValueError(
            f"gradient has shape {slope.shape}; expected (3, 3), finite: [i, j] = d u_i / d x_j"
        )
    trace, size = float(np.trace(slope)), float(abs(slope).max())
    if abs(trace) > TRACE * size:
        raise ParkiValueError(
            f"gradient has a trace of {trace:g}; expected the gradient of an incompressible "
            "flow, whose trace is zero"
        )
    periodic = np.array(options.periodic)
    for axis in np.flatnonzero(periodic):
        moved = slope @ options.vectors[axis]
        if (abs(moved[~periodic]) > TRACE * size * abs(options.vectors[axis]).max()).any():
            raise ParkiValueError(
                f"gradient moves the periodic vector {axis} by {moved.tolist()}, along a "
                "free axis, which a box cannot follow; take a flow along the periodic axes, or "
                "three periodic axes"
            )
    if options.walled and (slope[:, :2].any() or slope[2].any()):
        raise ParkiValueError(
            "gradient is of a flow that moves the wall; expected one along the wall that depends "
            "on the height alone: numbers at [0, 2] and [1, 2]"
        )
    return slope
