"""Derivatives of ``w.u`` by lengths that a sum has as parameters, such as 1 / kappa of `yukawa`.

A sum u has a parameter t that is a length to the power q; its other lengths are in points and box.
If all lengths, and normals, are multiplied by s, u is divided by a power p of s. So, by Euler,

    q t du/dt = - p u - sum_i x_i . du/dx_i - sum_i n_i . du/dn_i - sum_n A_n . du/dA_n

for lattice vectors A_n, and p = 1 where there are normals. One periodic axis makes u depend on the
logarithm of the unit of length, too, where the densities do not add up to zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parki.ewald.derivatives.by_box import vectors_of
from parki.ewald.geometry.systems import Systems
from parki.ewald.options import EwaldOptions
from parki.ewald.points.extent import resolve
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS
from parki.ewald.sums.gauges import Ends
from parki.typing import AnyArray


def by_scale(
    kernel: str,
    options: EwaldOptions,
    *,
    ranks: Ranks,
    inputs: dict[str, AnyArray],
    slopes: dict[str, AnyArray],
    values: AnyArray,
    systems: Systems | None = None,
) -> float:
    """Return ``q t d(w.u)/dt``, for the weights w of one density (rows, Ns).

    Parameters
    ----------
    kernel : str
    options : EwaldOptions
    ranks : Ranks
        What all ranks share.
    inputs, slopes : dict of arrays, shape (rows, N)
        "dens", "trg", "src" and perhaps "norms", and the derivatives by them; among these also
        that by the "lattice", (3, 3), or its diagonal as that by the "box" of lengths.
    values : array, shape (rows, Nt)
    systems : Systems, optional
    """
    # Normals are lengths, too.
    power = 1 if SUMS[kernel].normals else SUMS[kernel].pair.power
    scaled = power * _product(slopes["dens"], inputs["dens"])
    scaled += sum(_product(slopes[name], inputs[name]) for name in inputs if name != "dens")
    scaled = ranks.sum(scaled)
    if any(options.periodic):
        by_box = slopes["lattice"] if "lattice" in slopes else slopes["box"]
        scaled += float((vectors_of(options) * by_box).sum())
    if sum(options.periodic) == 1:
        rows = inputs["dens"][: len(values)], values
        strength, weight = (part.astype(np.float64) for part in rows)
        if systems is None:
            totals = (part.sum(axis=1, keepdims=True) for part in (strength, weight))
            strength, weight = map(ranks.sum, totals)
        else:
            strength, weight = systems.sums(strength), systems.swapped().sums(weight)
        flow = np.asarray(_by_unit(kernel, options), like=strength).reshape(-1, 1) * strength
        scaled -= float((flow * weight).sum())
    return -float(scaled)


def _product(a: AnyArray, b: AnyArray) -> float:
    return float((a.astype(np.float64) * b).sum())


def _by_unit(kernel: str, options: EwaldOptions) -> NDArray[np.float64]:
    """Return how results change with the logarithm of all lengths, for one periodic axis."""
    gauge, lattice = SUMS[kernel].gauge, resolve(options, np.empty((0, 3)))
    if gauge is None:
        return np.zeros(SUMS[kernel].results)
    sides = lattice.sides[:, None]
    after, before = (gauge.ends(Ends(1, sides, 1.0, log, np.zeros(1))) for log in (1.0, 0.0))
    change, rotation = after - before, np.eye(3)[[*options.axes]]
    if options.cell is not None and options.cell.rotation is not None:
        rotation = options.cell.rotation @ rotation
    return np.asarray(rotation.T @ change if change.size == 3 else change)
