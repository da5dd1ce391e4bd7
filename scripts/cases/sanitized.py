"""Sums and steps that are small, as input for a sanitizer (see `scripts/sanitize.sh`).

Results are only tested for NaN; `parki check` tests whether they are correct.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.run import Run

import parki
from parki import Expert
from parki.ewald.options.variants import G2P_METHODS, P2G_METHODS, P2P_METHODS
from parki.ewald.sums import SUMS
from parki.mesh import Grid, interpolate, spread
from parki.mesh.interpolation import INTERPOLATE_METHODS
from parki.mesh.spreading import SPREAD_METHODS

POINTS = 150
BOX = (1.5, 1.0, 0.75)
ALL = ("u", "p", "grad_u")
TOLERANCES = {"f4": 1e-3, "f8": 1e-6}
Interaction = tuple[str, int, str, dict[str, str], tuple[str, ...]]


def cases(brief: bool) -> Iterator[Interaction]:
    """Yield kernel, periodicity, precision, options and wanted fields."""
    for number, kernel in enumerate(SUMS):
        fields = tuple(name for name in ALL if name in SUMS[kernel].terms)
        for periodicity in range(4):
            dtypes = ("f4", "f8") if (number + periodicity) % 2 else ("f8", "f4")
            if brief and periodicity != number % 4:
                continue
            yield kernel, periodicity, dtypes[0], {}, fields
            if not brief:
                yield kernel, periodicity, dtypes[1], {}, ("u",)
    for kernel, periodicity, dtype in (("stokes_comb", 3, "f8"), ("laplace", 1, "f4")):
        variants = [Expert(p2p_method=m) for m in P2P_METHODS[1:]]
        variants += [Expert(p2g_method=m) for m in P2G_METHODS[1:]]
        for expert in variants:
            yield kernel, periodicity, dtype, {"expert": expert}, ("u",)
        for method in G2P_METHODS[1:]:
            options = {"expert": Expert(g2p_method=method)}
            yield kernel, periodicity, dtype, options, ("u", "grad_u")
    for radial in ("erfc", "rational"):
        yield "stokes_comb", 2, "f8", {"expert": Expert(split="hasimoto", radial=radial)}, ("u",)
    yield "stokes_dl", 3, "f8", {"dl_mean": "flux"}, ALL
    yield "stokes_comb", 1, "f8", {"precision": "mixed"}, ALL


def sum_up(case: Interaction, run: Run, n: int, rng: np.random.Generator) -> None:
    """Make one sum, more with moved points and with systems, and derivatives."""
    kernel, periodicity, dtype, settings, want = case
    xp = run.xp

    edges = run.send(np.array(BOX), dtype)[:, None]
    src, dens, norms = run.cloud(kernel, n, dtype, random=rng)
    src, trg = edges * src, edges * run.send(rng.random((3, n // 2 + 1)), dtype)
    more: Any = settings
    options = run.options(periodicity, TOLERANCES[dtype], BOX, **more)
    plan = parki.Plan(kernel, trg, src, norms, options, want=want)
    plan(dens)
    results = []
    for _ in range(4 if run.device else 1):  # a device records the last sums
        plan.update_points(src, src, norms)
        results += [plan(dens), plan(xp.stack([dens, dens, dens]))]
    if not settings:
        offsets = ([0, n // 4, n // 2 + 1], [0, n // 3, n])
        batch = parki.Plan(kernel, trg, src, norms, options, want=want, systems=offsets)
        results += [batch(dens), batch(xp.stack([dens, dens]))]
        plan = parki.Plan(kernel, trg, src, norms, options)
        given, values = (kernel, trg, src, dens, norms, options), plan(dens)
        inputs = ("trg", "src", "dens", "norms")[: 3 if norms is None else 4]
        tangents = {"trg": trg, "src": src}
        results.append((plan.adjoint(values), parki.jvp(*given, tangents=tangents)))
        for wrt in (inputs, ("dens",)):
            results.append(parki.vjp(*given, values=values, wrt=wrt).values())
    for values in itertools.chain(*results):
        assert bool(xp.isfinite(values).all()), f"{case}: NaN or infinity"


def mesh_up(dimensions: int, dtype: str, run: Run, n: int, rng: np.random.Generator) -> int:
    """Spread and interpolate by every method of the space; return the number of methods."""
    xp, space, count = run.xp, run.space, 0
    points, values = (xp.asarray(rng.random((k, n)).astype(dtype)) for k in (dimensions, 2))
    periodic = [False, *[True] * (dimensions - 1)]
    grid = Grid((20, 17, 24)[:dimensions], spacing=1 / 19, periodic=periodic)
    left_out = {"auto", "unprotected", "private" if run.device else "tile"}
    left_out |= {"tile", "grid"} if dimensions == 2 else {"owner"} if run.device else set()
    for method in SPREAD_METHODS:
        if method not in left_out:
            made = spread(points, values, grid, method=method, execution_space=space)
            assert bool(xp.isfinite(made.values).all()), f"spread by {method}: NaN or infinity"
            count += 1
    for method in INTERPOLATE_METHODS:
        if method not in left_out:
            found = interpolate(points, made, method=method, execution_space=space)
            assert bool(xp.isfinite(found).all()), f"interpolate by {method}: NaN or infinity"
            count += 1
    return count


def measure_sums(run: Run) -> dict[str, Any]:
    """Make the sums, and return their number."""
    rng, count, n = np.random.default_rng(0), 0, run.points or POINTS
    for case in cases(run.quick):
        sum_up(case, run, n, rng)
        count += 1
    for dimensions, dtype in itertools.product((2, 3), ("f8",) if run.quick else ("f4", "f8")):
        count += mesh_up(dimensions, dtype, run, n, rng)
    return {"Small sums without NaN": [{"sums": count}]}


def measure_steps(run: Run) -> dict[str, Any]:
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

    for kernel, dtype, options, more in cases:
        edges = run.send(np.array(BOX), dtype)[:, None]
        clouds = [edges * run.cloud(kernel, n, dtype, random=rng)[0] for _ in range(3)]
        _, dens, norms = run.cloud(kernel, n, dtype)
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
        moved = spheres.displacements(1.0, 1e-3, random, run.normal((3, n)), accuracy=1e-2)
        assert bool(xp.isfinite(moved).all()), "spheres: NaN"
    return {"Plans whose points moved, without NaN": [{"plans": len(cases) + 1}]}


CASES = {
    "small_sums": Case(
        """Small sums: sums of every kind, as input for a sanitizer.

        The sums cover every kernel, periodicity and variant in both precisions, with pressures,
        gradients and derivatives, and every method of `parki.mesh`; with ``--quick`` they leave out
        what adds no compiled code on a device.
        """,
        measure_sums,
    ),
    "small_steps": Case(
        """Small steps: plans whose points move, as input for a sanitizer.

        Points move in boxes along the axes, in tilted and deforming ones, near a wall, with labels
        and as spheres with noise.
        """,
        measure_steps,
    ),
}
