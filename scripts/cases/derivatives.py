"""Derivatives: the time of each sum's derivatives, by parki and by PyTorch, over that of the sum.

The derivatives by densities and by all inputs are relative to one call, and the adjoint of a plan
to the plan's call. Sums and derivatives alternate, and ratios are of medians. PyTorch is left out
if it is not installed. The tests check that the derivatives are right.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.run import Run

import parki
from parki.ewald.pipeline.placed_sum import sum_once
from parki.ewald.sums import SUMS

BOX = (1.2, 1.0, 0.8)
TOLERANCE, PERIODICITY = 1e-6, 3


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each sum."""
    n, rows = run.size(50_000, 1_000_000), []
    for kernel in run.kernel or SUMS:
        seconds = run.medians(calls_of(run, kernel, n), 7, first=3, by=run.clock)
        row: dict[str, Any] = {"sum": kernel}
        for name, took in seconds.items():
            if name in ("one call", "plan's call"):
                base = row[f"{name}, ms"] = 1e3 * took
            else:
                row[name] = 1e3 * took / (row["one call, ms"] if "PyTorch" in name else base)
        rows.append(row)
    return {f"Derivatives over the sum, {n:,} targets and sources": rows}


def calls_of(run: Run, kernel: str, n: int) -> dict[str, Callable[[], Any]]:
    """Return functions for a sum and its derivatives: one-shot, by a plan, and by PyTorch."""
    walls = run.xp.asarray(BOX)[:, None]
    src, dens, norms = run.cloud(kernel, n)
    given = {"trg": walls * run.normal((3, n)) % walls, "src": walls * src, "dens": dens}
    given |= {} if norms is None else {"norms": norms}
    v = run.normal((3, n) if SUMS[kernel].results == 3 else (n,))
    tolerance, periodicity = run.tolerance or (TOLERANCE,), run.periodicity or (PERIODICITY,)
    options = run.options(periodicity[0], tolerance[0], BOX)
    how = kernel, given["trg"], given["src"], dens, norms, options
    plan = parki.Plan(kernel, given["trg"], given["src"], norms, options)
    found: dict[str, Callable[[], Any]] = {
        "one call": lambda: sum_once((*how[:3], *how[4:]), dens, "u"),
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
