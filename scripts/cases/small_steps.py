"""Small steps: plans whose points move, as input for a sanitizer (see `scripts/sanitize.sh`).

Points move in boxes along the axes, in tilted and deforming ones, near a wall, with labels and as
spheres with noise. Results are only tested for NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.run import Run

import parki
from parki.ewald.sums import SUMS

from .small_sums import BOX, POINTS


def measure(run: Run) -> dict[str, Any]:
    """Move points of plans that a device records, some out of the box; return their number."""
    xp, rng, n = run.xp, run.random, run.points or POINTS
    tilted = parki.lattice(*BOX, 0.3, -0.2, 0.1)
    given = run.options(3, 1e-3, BOX, exclude_image="given")
    cases: list[tuple[str, str, Any, dict[str, Any]]] = [
        ("stokes_sl", "f4", run.options(3, 1e-3, BOX), {}),
        ("stokes_comb", "f8", run.options(1, 1e-4, BOX), {}),
        ("stokes_sl", "f8", run.options(3, 1e-4, tilted), {}),
        ("stokes_comb", "f4", run.options(2, 1e-3, parki.lattice(*BOX, 0.2)), {}),
        ("stokes_sl", "f4", given, {"exclude": np.arange(n) // 3}),
        ("stokes_sl", "f8", run.options(2, 1e-4, BOX, wall="no-slip"), {}),
    ]

    def array(dtype: str, *shape: int) -> Any:
        return xp.asarray(rng.random(shape).astype(dtype))

    for kernel, dtype, options, more in cases:
        edges = xp.asarray(np.array(BOX, dtype=dtype))[:, None]
        clouds = [array(dtype, 3, n) * edges for _ in range(3)]
        norms = array(dtype, 3, n) if SUMS[kernel].normals else None
        dens = array(dtype, *SUMS[kernel].density_shape(n))
        plan = parki.Plan(kernel, clouds[0], clouds[0], norms, options, **more)
        results = []
        for number in range(8):
            points = clouds[number % 3]
            plan.update_points(points, points, norms)
            results += [plan(dens) for _ in range(1 + number % 2)]
            results.append(plan(xp.stack([dens, dens])))
        if options.cell is not None and options.periodic[2]:
            for tilt in (0.31, 0.32, 0.33, 0.34, 0.35):
                plan.update_points(points, points, box=parki.lattice(*BOX, tilt, -0.2, 0.1))
                results.append(plan(dens))
        away = clouds[0].copy()
        away[:, 1] = np.nan
        try:  # a device says so late, at the sum
            plan.update_points(away, away, norms)
            plan(dens)
        except parki.ParkiError:
            results.append(plan(dens))
        else:
            raise AssertionError(f"{kernel}: NaN among the points was not noticed")
        assert all(bool(xp.isfinite(found).all()) for found in results), f"{kernel}: NaN"
    spheres = parki.Spheres(clouds[0], 0.02, run.options(3, 1e-3, BOX))
    random = xp.random.default_rng(0)
    for number in range(6):
        spheres.update_points(clouds[number % 3])
        moved = spheres.displacements(1.0, 1e-3, random, array("f8", 3, n), accuracy=1e-2)
        assert bool(xp.isfinite(moved).all()), "spheres: NaN"
    return {"Plans whose points moved, without NaN": [{"plans": len(cases) + 1}]}
