"""Calls: how many functions of parki itself a sum, an application and an update walk through.

The second of two equal calls is counted, so that nothing is compiled, and parameters are known. The
time of small sums follows these numbers.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from benchmarks import Case, cpu_alone
from benchmarks.run import Run

import parki
from parki.core import Batch, second

ROOT = str(Path(parki.__file__).parent)


def measure(run: Run) -> dict[str, Any]:
    """Return the files, functions and calls of each."""
    rng, count = np.random.default_rng(0), 200 if run.quick else 2000
    points, forces, normals = rng.random((3, 3, count))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-4)
    plan = parki.Plan("stokes_sl", points, points, options)
    few = np.array([[1], [1], [0.8]]) * points[:, : count // 4] + [[0], [0], [0.1]]
    spheres = parki.Spheres(few, 0.02, parki.EwaldOptions(2, [1, 1, 1], 1e-3, wall="no-slip"))
    both = np.concatenate([forces, forces])
    charges, every = {"trg": points, "dens": forces[0]}, ("trg", "dens", "values")
    derived = "laplace", options, Batch(), charges, forces[1]
    energy = "laplace", options, Batch(), charges, 2 * forces[0], every
    strained = {"trg": points, "box": np.eye(3)}
    works: dict[str, Callable[[], Any]] = {
        "parki.stokes_comb(...)": lambda: parki.stokes_comb(points, points, both, normals, options),
        "plan(dens)": lambda: plan(forces),
        "plan.update_points(...)": lambda: plan.update_points(points, points),
        "parki.energy(...)": lambda: parki.energy(points, forces[0], options),
        "forces of parki.torch, backward": lambda: second.pulled(*derived, ("trg",)),
        "a loss on forces, backward": lambda: second.pulled(*energy, {"trg": normals}),
        "a loss on the stress, backward": lambda: second.pulled(*energy, strained),
        "Spheres.displacements near a wall": lambda: spheres.displacements(1.0, 1e-4, 0),
    }
    return {
        "parki's own functions": [{"what": name, **counted(work)} for name, work in works.items()]
    }


def counted(work: Callable[[], Any]) -> dict[str, int]:
    """Return what the second call of ``work`` walks through."""
    calls: Counter[tuple[str, int]] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT):
            calls[code.co_filename, code.co_firstlineno] += 1

    work()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    files = len({file for file, _ in calls})
    return {"files": files, "functions": len(calls), "calls": sum(calls.values())}


CASES = {"calls": Case(__doc__, measure, missing=cpu_alone)}
