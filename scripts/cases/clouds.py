"""Clouds: the near field's time for a pair within the cut-off, for uneven clouds.

The sums are `stokes_comb`, 1-periodic, sources = targets, in double precision, with parki's choice
of cut-off for each cloud. A tree counts the pairs of some targets. A padded cell list takes 3.8
times as long on a sphere as for uniform points (Kosmacher, Du, Bagge and Biros 2026, table 9); 2 is
the limit here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.run import Run
from scipy.spatial import cKDTree

import parki
from parki.cli.tune import measure as tune

COUNTED = 20_000  # targets whose pairs are counted


def clouds(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return points in the unit cube, shape (3, n), by name."""
    even = rng.random((3, n))
    sphere = rng.standard_normal((3, n))
    sphere = 0.5 + 0.4 * sphere / np.linalg.norm(sphere, axis=0)
    scales = even.copy()
    scales[:, : n // 2] = 0.3 + 0.05 * rng.random((3, n // 2))
    clustered = tune.cloud(n, True)
    return {"uniform": even, "clustered": clustered, "sphere": sphere, "two scales": scales}


def pairs(points: np.ndarray, cutoff: float, rng: np.random.Generator) -> float:
    """Estimate the number of pairs within the cut-off, in a box that repeats along x."""
    images = [points.T + np.array([shift, 0.0, 0.0]) for shift in (-1.0, 0.0, 1.0)]
    tree = cKDTree(np.concatenate(images))
    some = rng.choice(points.shape[1], min(COUNTED, points.shape[1]), replace=False)
    found = tree.query_ball_point(points[:, some].T, cutoff, return_length=True, workers=-1)
    return float(found.mean()) * points.shape[1]


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each tolerance and cloud."""
    n, rng, rows = run.size(100_000, 1_000_000), run.random, []
    given = clouds(n, rng)
    for tolerance in run.tolerance or (1e-4, 1e-9):
        even = 0.0
        for name, cloud in given.items():
            points, dens, norms = run.cloud("stokes_comb", n, points=cloud)
            plan = parki.Plan("stokes_comb", points, points, norms, run.options(1, tolerance))
            seconds = run.stages(plan, dens)["P2P"]
            near = pairs(cloud, plan.parameters.cutoff, rng)
            each = 1e9 * seconds / near
            even = even or each
            row = {"tolerance": f"{tolerance:g}", "cloud": name, "P2P, ms": 1e3 * seconds}
            row |= {"pairs for a target": near / n, "ns for a pair": each}
            rows.append(row | {"over uniform": each / even})
    return {f"The near field of clouds, {n:,} points": rows}
