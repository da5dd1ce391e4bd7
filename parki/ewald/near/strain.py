"""How the near field of ``w.u`` changes as box and points are strained together.

A pair ``r`` apart adds ``r_b d_a (w.G f)`` to the derivative by ``dx_a = x_b``, image by image.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.ewald.near.p2p import P2P
from parki.ewald.near.pair import Pair
from parki.ewald.task import Task
from parki.interchange import to_host
from parki.typing import AnyArray


def near_strain(
    p2p: P2P, task: Task, pair: Pair, unit: float, dens: AnyArray, weights: AnyArray
) -> Any:
    """Return the derivative, shape (3, 3), of a density (rows, sources) and of weights.

    ``p2p`` has the points of the sum of ``task``. Weights are of the results, (rows, targets);
    ``unit`` is the user's length of a solver's unit.
    """
    xp, sources = p2p.sources.xp, p2p.sources
    by = p2p.derivatives(task, pair, strain=True)
    buffer, scaled = p2p.buffer(p2p.rows), p2p.scaled(dens.astype(p2p.dtype, copy=False))
    sources.sort(scaled, out=buffer[: len(dens)])
    if p2p.point_radii is not None:
        buffer[len(dens), : p2p.point_radii.size] = p2p.point_radii
    gradients = xp.empty((9, weights.shape[1]), dtype=p2p.dtype)
    rows = pair.rows(task.sum.derivative_tables(("grad_u",)))
    own = p2p.of_derivatives(by, rows, weights.astype(p2p.dtype, copy=False))
    own |= dict.fromkeys(("pot", "pressure", "pull"))
    by.launch(1, dens=buffer, gradient=gradients, **own, **p2p.arguments)
    if p2p.labelled is not None:
        p2p.labelled.strained(scaled, gradients, **own)
    sums = to_host(xp.stack([row.sum(dtype=np.float64) for row in gradients]))
    total = pair.cutoff * unit * sums.reshape(3, 3)
    if p2p.overlap_correction is not None:
        of_overlap, close = p2p.close
        total = total + near_strain(p2p.overlap_correction, of_overlap, close, unit, dens, weights)
    return total
