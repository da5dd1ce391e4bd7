"""Plans: several densities or systems, tilted boxes, and derivatives."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.run import Run

import parki
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.sums import SUMS

SIZES, SYSTEMS = (1000, 10_000, 100_000), ((10, 1000), (100, 100), (1000, 100), (1000, 1000))


def measure_several(run: Run) -> dict[str, Any]:
    """Return milliseconds of 1, 2, 4 and 8 densities, and of many systems."""
    sizes = [run.size(0, 0)] if run.quick or run.points else SIZES
    systems = SYSTEMS[:1] if run.quick else SYSTEMS
    return {
        "Several densities, ms": [densities(run, n) for n in sizes],
        "Many systems, ms": [many(run, count, n) for count, n in systems],
    }


def densities(run: Run, n: int) -> dict[str, Any]:
    """Time 1, 2, 4 and 8 densities."""
    points, _, norms = run.cloud("stokes_comb", n)
    plan = parki.Plan("stokes_comb", points, points, norms, run.options())
    dens = run.normal((8, 6, n))
    calls = {"1": partial(plan, dens[0]), **{f"{k}": partial(plan, dens[:k]) for k in (2, 4, 8)}}
    found = run.milliseconds(calls, 20, first=4)
    return {"points": n, **found, "8 over 1": found["8"] / found["1"]}


def many(run: Run, count: int, n: int) -> dict[str, Any]:
    """Time ``count`` systems of ``n`` points together, and one of them that many times."""
    points, forces, _ = run.cloud("stokes_sl", count * n)
    options = run.options(3)
    offsets = np.arange(0, count * n + 1, n)
    plan = parki.Plan("stokes_sl", points, points, options, systems=offsets)

    def step() -> None:
        plan.update_points(points, points)
        plan(forces)

    alone, part = points[:, :n].copy(), forces[:, :n].copy()
    one = partial(parki.Plan("stokes_sl", alone, alone, options), part)
    calls = {"apply": partial(plan, forces), "step": step, "one after the other": one}
    found = run.milliseconds(calls, 20, first=4)
    found["one after the other"] *= count
    return {"systems": count, "points of each": n, **found}


TILTS = {"xy": (0.5, 0, 0), "xy, xz, yz": (0.5, 0.5, 0.5)}
KERNELS = ("stokes_sl", "stokes_comb", "laplace")
ROUNDS = 15


def measure_tilted(run: Run) -> dict[str, Any]:
    """Return the times of sums in tilted boxes over those in a cube, and of steps."""
    n, tolerance = run.size(20_000, 1_000_000), (run.tolerance or (1e-4,))[0]

    def made(kernel: str, box: Any) -> Any:
        points, dens, norms = run.cloud(kernel, n)
        points = run.xp.ascontiguousarray(run.send(box.T) @ points)
        return parki.Plan(kernel, points, points, norms, run.options(3, tolerance, box)), dens

    rows: list[dict[str, Any]] = []
    for kernel in run.kernel or KERNELS:
        for name, tilts in TILTS.items():
            boxes = {"cube": np.eye(3), "tilted": parki.lattice(1, 1, 1, *tilts)}
            plans = {which: made(kernel, box) for which, box in boxes.items()}
            calls = {which: partial(*each) for which, each in plans.items()}
            times = run.milliseconds(calls, ROUNDS)
            work = {which: plan.parameters.total for which, (plan, _) in plans.items()}
            rows.append({"sum": kernel, "tilts": name})
            rows[-1] |= {f"{which}, ms": took for which, took in times.items()}
            rows[-1]["ratio"] = times["tilted"] / times["cube"]
            rows[-1]["predicted"] = work["tilted"] / work["cube"]
    return {f"{n:,} points": rows, "Steps": [steps(run, *made("stokes_sl", lattice(0.01)))]}


def lattice(tilt: float) -> Any:
    """Return a cube that is tilted along one axis."""
    return parki.lattice(1, 1, 1, tilt)


def steps(run: Run, plan: Any, dens: Any) -> dict[str, float]:
    """Return milliseconds of steps in a box that deforms, and in one that does not."""
    points = run.xp.asarray(run.random.random((3, plan.n_sources)))
    plan.update_points(points, points, box=lattice(0.02))
    tilt = iter(np.linspace(0.02, 0.5, ROUNDS + 1))

    def same() -> None:
        plan.update_points(points, points)
        plan(dens)

    def other() -> None:
        plan.update_points(points, points, box=lattice(next(tilt)))
        plan(dens)

    found = run.milliseconds({"same box, ms": same, "new box, ms": other}, ROUNDS)
    return {**found, "ratio": found["new box, ms"] / found["same box, ms"]}


BOX = (1.2, 1.0, 0.8)


def measure_derivatives(run: Run) -> dict[str, Any]:
    """Return a row for each sum."""
    n, rows = run.size(50_000, 1_000_000), []
    for kernel in run.kernel or SUMS:
        row: dict[str, Any] = {"sum": kernel}
        for name, took in run.milliseconds(calls_of(run, kernel, n), 7, first=3).items():
            if name in ("one call", "plan's call"):
                base = row[f"{name}, ms"] = took
            else:
                row[name] = took / (row["one call, ms"] if "PyTorch" in name else base)
        rows.append(row)
    return {f"Derivatives over the sum, {n:,} targets and sources": rows}


def calls_of(run: Run, kernel: str, n: int) -> dict[str, Callable[[], Any]]:
    """Return functions for a sum and its derivatives: one-shot, by a plan, and by PyTorch."""
    walls = run.xp.asarray(BOX)[:, None]
    src, dens, norms = run.cloud(kernel, n)
    given = {"trg": walls * run.normal((3, n)) % walls, "src": walls * src, "dens": dens}
    given |= {} if norms is None else {"norms": norms}
    v = run.normal((3, n) if SUMS[kernel].results == 3 else (n,))
    options = run.options((run.periodicity or (3,))[0], (run.tolerance or (1e-6,))[0], BOX)
    how = kernel, given["trg"], given["src"], dens, norms, options
    plan = parki.Plan(kernel, given["trg"], given["src"], norms, options)
    found: dict[str, Callable[[], Any]] = {
        "one call": lambda: sum_once(*how),
        "by densities": lambda: parki.vjp(*how, values=v),
        "by all": lambda: parki.vjp(*how, values=v, wrt=tuple(given)),
        "plan's call": lambda: plan(dens),
        "adjoint": lambda: plan.adjoint(v),
    }
    return found | of_torch(run, kernel, given, v, options)


def of_torch(
    run: Run, kernel: str, given: dict[str, Any], v: Any, options: Any
) -> dict[str, Callable[[], Any]]:
    """Return PyTorch's sum, and its backward passes through the graph of one forward pass."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    import parki.torch

    if run.device and not torch.cuda.is_available():
        return {}
    tensors = {name: torch.from_dlpack(array) for name, array in given.items()}
    values, call = torch.from_dlpack(v), partial(parki.torch._sum, kernel)
    some = {**tensors, "dens": tensors["dens"].clone().requires_grad_()}
    every = {name: each.clone().requires_grad_() for name, each in tensors.items()}
    by_some, by_every = (call(*each.values(), options) for each in (some, every))

    def backward(result: Any, leaves: list[Any]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(result, leaves, values, retain_graph=True)

    return {
        "PyTorch: sum": lambda: call(*tensors.values(), options),
        "PyTorch: by densities": backward(by_some, [some["dens"]]),
        "PyTorch: by all": backward(by_every, list(every.values())),
    }


CASES = {
    "several": Case(
        """Several: densities or systems at once, and one after the other.

        Densities are of `stokes_comb`, 1-periodic, and systems of `stokes_sl`, 3-periodic, with
        tolerance 1e-4 in double precision. A step moves the points and sums.
        """,
        measure_several,
    ),
    "tilted": Case(
        """Tilted: sums in tilted boxes, and steps in boxes that deform.

        Each line compares a cube with a box of the same volume whose tilts are one half: the median
        time of a sum by a plan, and of the predicted work. A step of points that move is an update
        and a sum, in the same box and in a box whose tilt changes.
        """,
        measure_tilted,
    ),
    "derivatives": Case(
        """Derivatives: the time of each sum's, by parki and by PyTorch, over that of the sum.

        The derivatives by densities and by all inputs are relative to one call, and the adjoint of
        a plan to the plan's call. Sums and derivatives alternate, and ratios are of medians.
        PyTorch is left out if it is not installed. The tests check that the derivatives are right.
        """,
        measure_derivatives,
    ),
}
