"""Time sums in tilted boxes, and steps of boxes that deform.

    python scripts/tilted.py [--points 20000] [--tolerance 1e-4] [--times 15]

Each line compares a cube with a box of the same volume whose tilts are one half: the median time of
a sum by a plan, and of the predicted work. The last lines compare a step of points that move, which
is an update and a sum, in the same box and in a box whose tilt changes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import parki

TILTS = {"xy": (0.5, 0, 0), "xy, xz, yz": (0.5, 0.5, 0.5)}
KERNELS = ("stokes_sl", "stokes_comb", "laplace")


def medians(times: int, *works: Callable[[], Any]) -> list[float]:
    """Return the median seconds of works that take turns."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, seconds in zip(works, found, strict=True):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(each) for each in found]


def cloud(kernel: str, box: Any, count: int) -> tuple[Any, Any, Any]:
    """Return points, normals (or None) and a density in a box."""
    rng, kind = np.random.default_rng(0), parki.ewald.sums.SUMS[kernel]
    points = np.ascontiguousarray(box.T @ rng.random((3, count)))
    norms = rng.standard_normal((3, count)) if kind.normals else None
    return points, norms, rng.standard_normal(kind.density_shape(count))


def sums(count: int, tolerance: float, times: int) -> None:
    """Print the times of sums in tilted boxes over those in a cube."""
    print("sum          tilts          cube, ms   tilted, ms   ratio   predicted")
    for kernel in KERNELS:
        for name, tilts in TILTS.items():
            plans, works = [], []
            for box in (np.eye(3), parki.lattice(1, 1, 1, *tilts)):
                points, norms, dens = cloud(kernel, box, count)
                how = {"periodicity": 3, "box": box, "tolerance": tolerance}
                plans.append(parki.Plan(kernel, points, points, norms, **how))
                works.append(partial(plans[-1], dens))
                works[-1]()
            first, second = medians(times, *works)
            predicted = plans[1].parameters.total / plans[0].parameters.total
            print(
                f"{kernel:12} {name:12} {1e3 * first:10.1f} {1e3 * second:12.1f} "
                f"{second / first:7.2f} {predicted:11.2f}"
            )


def steps(count: int, tolerance: float, times: int) -> None:
    """Print the times of steps in a box that deforms, over those in a box that does not."""
    box = parki.lattice(1, 1, 1, 0.01)
    points, _, dens = cloud("stokes_sl", box, count)
    plan = parki.Plan("stokes_sl", points, points, periodicity=3, box=box, tolerance=tolerance)
    plan.update_points(points, points, box=parki.lattice(1, 1, 1, 0.02))
    tilt = iter(np.linspace(0.02, 0.5, times))

    def same() -> None:
        plan.update_points(points, points)
        plan(dens)

    def other() -> None:
        plan.update_points(points, points, box=parki.lattice(1, 1, 1, next(tilt)))
        plan(dens)

    same()
    first, second = medians(times, same, other)
    print(
        f"step, same box {1e3 * first:.1f} ms, new box {1e3 * second:.1f} ms: {second / first:.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=20_000, help="number of points (20000)")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="tolerance (1e-4)")
    parser.add_argument("--times", type=int, default=15, help="times to measure (15)")
    given = parser.parse_args()
    sums(given.points, given.tolerance, given.times)
    steps(given.points, given.tolerance, given.times)


if __name__ == "__main__":
    main()
