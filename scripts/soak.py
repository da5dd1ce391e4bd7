"""Sum for a long time, and check that memory does not grow.

    python scripts/soak.py [--space CPU] [--calls 10000] [--points 2000] [--steps]

The script applies a plan of each kernel in rotation, and sometimes makes a new plan, moves a plan's
points or makes an invalid request. With --steps it moves the points of one plan at every call. It
prints the memory in use without plans nine times. The exit code is 1 if the last third has --growth
MB, or a tenth, more than the middle third; in the first, caches of kernels and parameters fill up.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import sys
import time
from typing import Any

import numpy as np
from benchmarks.run import Run
from check_memory import resident

import parki
from parki.ewald.sums import SUMS

WANTS = ("u", "grad_u", ("u", "grad_u"))


class Soak:
    """Plans of all kernels, whose points move."""

    def __init__(self, space: str, points: int) -> None:
        self.space, self.points = Run(parki.get_execution_space(space)), points
        self.xp, self.rng = self.space.xp, np.random.default_rng(0)
        self.plans: dict[str, tuple[parki.Plan, Any, Any]] = {}
        self.counts = dict.fromkeys(("calls", "one-shots", "moves", "plans", "refused"), 0)

    def run(self, number: int) -> None:
        """Make one call, and sometimes another request."""
        kernel = tuple(SUMS)[number % len(SUMS)]
        if kernel not in self.plans or number % 97 == 7:
            periodicity, want = number // 7 % 4, WANTS[number % len(WANTS)]
            self.plans[kernel] = self.plan(kernel, periodicity, want)
            self.counts["plans"] += 1
        plan, dens, out = self.plans[kernel]
        # Most results overwrite an old array, and some are new.
        found = plan(dens, out=out) if number % 3 else plan(dens)
        assert bool(self.xp.isfinite(found[0] if isinstance(found, tuple) else found).all())
        self.counts["calls"] += 1
        if number % 20 == 3:
            src, _, norms = self.cloud(kernel)
            plan.update_points(src, src, norms)
            self.counts["moves"] += 1
        if number % 20 == 13:
            src, *arguments = (each for each in self.cloud(kernel) if each is not None)
            parki.ewald.api._sum(kernel, src, src, *arguments, plan.options)
            self.counts["one-shots"] += 1
        if number % 50 == 33:
            try:
                plan(dens[..., 1:])
            except parki.ParkiError:
                self.counts["refused"] += 1

    def step(self, number: int) -> None:
        """Move the points of a plan by a tenth of the cut-off at most, and sum."""
        kernel = "stokes_comb"
        if kernel not in self.plans:
            self.plans[kernel] = self.plan(kernel, 1, "u")
            self.moving = self.cloud(kernel)
        plan, _, out = self.plans[kernel]
        src, dens, norms = self.moving
        src += 0.1 * plan.parameters.cutoff * (self.xp.random.random(src.shape) - 0.5)
        src %= 1
        plan.update_points(src, src, norms)
        plan(dens, out=out)
        self.counts["moves"] += 1
        if number % 1000 == 0:
            assert bool(self.xp.isfinite(out).all())

    def plan(self, kernel: str, periodicity: int, want: Any) -> tuple[parki.Plan, Any, Any]:
        """Return a plan, a density and an array for results."""
        src, dens, norms = self.cloud(kernel)
        plan = parki.Plan(kernel, src, src, norms, self.space.options(periodicity), want=want)
        return plan, dens, plan(dens)

    def cloud(self, kernel: str) -> Any:
        """Return new points, a density and normals."""
        return self.space.cloud(kernel, self.points, random=self.rng)

    def warm_up(self) -> None:
        """Make a plan of every kind, because each new kernel keeps half a megabyte."""
        for kernel in SUMS:
            for periodicity in range(4):
                for want in WANTS:
                    self.plan(kernel, periodicity, want)

    def megabytes(self) -> dict[str, float]:
        """Return the memory in use without plans: resident memory, and CuPy's pool."""
        self.plans.clear()  # their sizes differ
        gc.collect()
        with contextlib.suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        found = {"resident": resident() / 1e6}
        if self.space.device:
            pool = self.xp.get_default_memory_pool()
            found["pool, used"] = pool.used_bytes() / 1e6
            found["pool, held"] = pool.total_bytes() / 1e6
        return found


def main() -> None:
    """Make the calls, and print the memory in use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--steps", action="store_true", help="move the points at every call")
    parser.add_argument("--growth", type=float, default=10.0, help="permitted growth in MB")
    args = parser.parse_args()
    soak, start = Soak(args.space, args.points), time.perf_counter()
    run = soak.step if args.steps else soak.run
    if not args.steps:
        soak.warm_up()
    seen: list[dict[str, float]] = []
    for number in range(args.calls):
        run(number)
        if (number + 1) % max(1, args.calls // 9) == 0:
            seen.append(soak.megabytes())
            words = ", ".join(f"{name} {size:.1f} MB" for name, size in seen[-1].items())
            seconds = time.perf_counter() - start
            print(f"{number + 1:7d} calls, {seconds:6.0f} s: {words}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in soak.counts.items()))
    grown, third = False, max(1, len(seen) // 3)
    for name in seen[0]:
        before = max(each[name] for each in seen[third : 2 * third] or seen)
        last = max(each[name] for each in seen[-third:])
        grown = grown or last - before > max(args.growth, 0.1 * before)
        print(f"{name}: {before:.1f} MB in the middle third, {last:.1f} MB in the last")
    print("memory grows" if grown else "memory does not grow")
    sys.exit(1 if grown else 0)


if __name__ == "__main__":
    main()
