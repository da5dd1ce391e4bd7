"""Time the near field per pair within the cut-off, for uneven clouds relative to an even one.

    python scripts/clouds.py [--space Cuda] [--points 1000000] [--tolerance 1e-4 1e-9]

The sums are `stokes_comb`, 1-periodic, sources = targets, in double precision, with parki's choice
of cut-off for each cloud. A tree counts the pairs of some targets. A padded cell list takes 3.8
times as long on a sphere (Kosmacher, Du, Bagge and Biros 2026, table 9); 2 is the limit here.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
from scipy.spatial import cKDTree

import parki
from parki.cli.tune import measure as tune
from parki.runtime import get_execution_space

COUNTED = 20_000  # targets whose pairs are counted
RUNS = 5


def clouds(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return points in the unit cube, shape (3, n), by name."""
    even = rng.random((3, n))
    sphere = rng.standard_normal((3, n))
    sphere = 0.5 + 0.4 * sphere / np.linalg.norm(sphere, axis=0)
    scales = even.copy()
    scales[:, : n // 2] = 0.3 + 0.05 * rng.random((3, n // 2))
    return {
        "uniform": even,
        "clustered": tune.cloud(n, True),
        "sphere": sphere,
        "two scales": scales,
    }


def pairs(points: np.ndarray, cutoff: float, rng: np.random.Generator) -> float:
    """Estimate the number of pairs within the cut-off, in a box that repeats along x."""
    images = [points.T + np.array([shift, 0.0, 0.0]) for shift in (-1.0, 0.0, 1.0)]
    tree = cKDTree(np.concatenate(images))
    some = rng.choice(points.shape[1], min(COUNTED, points.shape[1]), replace=False)
    found = tree.query_ball_point(points[:, some].T, cutoff, return_length=True, workers=-1)
    return float(found.mean()) * points.shape[1]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--tolerance", type=float, nargs="+", default=[1e-4, 1e-9])
    args = parser.parse_args()
    space, rng = get_execution_space(args.space), np.random.default_rng(0)
    given = clouds(args.points, rng)
    dens, norms = rng.standard_normal((6, args.points)), rng.standard_normal((3, args.points))
    to = space.array_module.asarray
    print("| tolerance | cloud | P2P, ms | pairs for a target | ns for a pair | over uniform |")
    print("| --- | --- | --- | --- | --- | --- |")
    for tolerance in args.tolerance:
        even = 0.0
        for name, points in given.items():
            options = parki.EwaldOptions(
                periodicity=1, box=[1, 1, 1], tolerance=tolerance, execution_space=space.name
            )
            where = to(points)
            plan = parki.Plan("stokes_comb", where, where, to(norms), options)
            assert plan.parameters is not None
            times = [plan.timed(to(dens))[1]["P2P"] for _ in range(3 + RUNS)]
            seconds = statistics.median(times[3:])  # with kept lists, on a device
            near = pairs(points, plan.parameters.cutoff, rng)
            each = 1e9 * seconds / near
            even = even or each
            print(
                f"| {tolerance:g} | {name} | {1e3 * seconds:.3g} | {near / args.points:.0f} "
                f"| {each:.3g} | {each / even:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
