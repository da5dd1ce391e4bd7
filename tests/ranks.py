"""Sums over several ranks, compared with those of one: run by tests/test_distributed.py.

    mpirun -n 3 python tests/ranks.py sums
    mpirun -n 3 python tests/ranks.py failures
    mpirun -n 3 python tests/ranks.py ending raise

The first rank prints a line of JSON for each case.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from contract import KERNELS, cloud

import parki
from parki.distributed import ewald

CLOUDS = ("partly", "same", "blobs_same", "elsewhere", "outside", "line", "two_scales")
DEALS = ("random", "uneven", "one rank", "apart")
WANTS = (("u",), ("u",), ("p",), ("grad_u",), ("u", "p", "grad_u"))
BOXES = ((1.5, 1.0, 0.5), (1.0, 1.0, 1.0), (0.5, 1.0, 2.0))
N = 700


class Case(NamedTuple):
    """One sum."""

    kernel: str
    periodicity: int
    dtype: str = "f8"
    cloud: str = "partly"
    deal: str = "random"
    want: tuple[str, ...] = ("u",)
    box: tuple[float, ...] = BOXES[0]
    n: int = N
    tolerance: float = 1e-4
    more: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        words = [self.kernel, f"{self.periodicity}P", self.dtype, self.cloud, self.deal]
        words += ["+".join(self.want), "x".join(map(str, self.box))]
        return ", ".join([*words, *(f"{name}={value}" for name, value in self.more)])


def cases() -> list[Case]:
    """Return every kernel and periodicity, with all else in turn; and some that are special."""
    found = []
    for i, kernel in enumerate(KERNELS):
        for periodicity in range(4):
            k = 4 * i + periodicity + i  # neighbours along either axis differ
            want = WANTS[k % 5]
            if kernel in ("laplace", "stokes_rotlet"):
                want = tuple(name for name in want if name != "p") or ("u",)
            found.append(
                Case(
                    kernel,
                    periodicity,
                    ("f8", "f4")[(k + k // 4) % 2],
                    CLOUDS[k % 7],
                    DEALS[(k + k // 4) % 4],
                    want,
                    BOXES[k % 3],
                )
            )
    found += [
        Case("stokes_rotlet", 0, "f4", "line", box=(0.05, 1.0, 1.0)),  # 3 cells along x
        Case("stokes_comb", 3, more=(("dl_mean", "flux"),), cloud="same"),
        Case("stokes_dl", 2, "f4", box=(0.1, 0.1, 1.0)),  # modes summed without the grid
        Case("stokes_sl", 3, n=2),
        Case("stokes_sl", 1, n=5000, more=(("p2g_method", "tile"), ("g2p_method", "tile"))),
    ]
    methods = (
        ("gm1d", "source", "target"),
        ("gm2d", "hybrid", "base"),
        ("sm1d", "grid", "target"),
        ("tile", "tile", "tile"),  # those of devices
    )
    for periodicity, names in enumerate(methods):
        stages = ("p2p_method", "p2g_method", "g2p_method")
        found.append(Case("stokes_comb", periodicity, more=tuple(zip(stages, names, strict=True))))
    return found


def deal(how: str, n: int, size: int, sources: bool) -> Any:
    """Return the rank of each of n points."""
    rng = np.random.default_rng(n)
    if how == "random":
        return rng.integers(0, size, n)
    if how == "uneven":  # each rank has twice as many as the one before
        shares = 2.0 ** np.arange(size)
        return np.searchsorted(shares.cumsum() / shares.sum(), rng.random(n))
    if how == "one rank":
        return np.full(n, size - 1)
    return np.full(n, 0 if sources else size - 1)


def run(case: Case, comm: Any) -> dict[str, Any] | None:
    """Sum on all ranks; return on the first one how far the results are from those of one rank."""
    c = cloud(case.cloud, case.n, case.box, case.dtype)
    dens, norms = c.arguments(case.kernel)
    same = c.trg is c.src
    owners = deal(case.deal, case.n, comm.size, True)
    places = owners if same else deal(case.deal, case.n, comm.size, False)
    mine, here = owners == comm.rank, places == comm.rank
    box: list[float | None] = list(case.box)
    if case.cloud == "outside":
        box[case.periodicity :] = [None] * (3 - case.periodicity)
    options = parki.EwaldOptions(case.periodicity, box, case.tolerance, **dict(case.more))
    src = c.src[:, mine]
    trg = src if same else c.trg[:, here]
    given = None if norms is None else norms[:, mine]
    plan = ewald.Plan(case.kernel, trg, src, given, options, comm=comm, want=case.want)
    plan(np.ones_like(dens[..., mine]))  # leaves nothing behind
    results = plan(dens[..., mine])
    promise = plan.promise(dens[..., mine])
    told = comm.gather((here, results))
    if told is None:
        return None
    alone = parki.Plan(case.kernel, c.trg, c.src, norms, options, want=case.want)
    expected = alone(dens)
    ratios = {}
    for k, (name, ref) in enumerate(zip(case.want, expected, strict=True)):
        pot = np.empty_like(ref)
        for where, part in told:
            pot[..., where] = part[k]
        size = np.abs(ref) + np.median(np.abs(ref))
        ratios[name] = float((np.abs(pot - ref) / size).max() / np.finfo(case.dtype).eps)
    chosen = (plan.parameters, alone.parameters)
    return {
        "case": str(case),
        "ratios": ratios,
        "finite": bool(all(np.isfinite(r).all() for _, part in told for r in part)),
        "parameters": all(
            getattr(chosen[0], name) == getattr(chosen[1], name) for name in ("cutoff", "points")
        ),
        "promise": bool(np.allclose(promise, alone.promise(dens), rtol=1e-5)),
        "slabs": plan.slabs.cells,
    }


def cases_of(size: int) -> list[Case]:
    """Return the cases of a number of ranks: all on 4, halves on 2 and 3, a quarter on one."""
    parts = {1: slice(0, None, 4), 2: slice(0, None, 2), 3: slice(1, None, 2)}
    return cases()[parts.get(size, slice(None))]


def sums(comm: Any) -> None:
    """Run the cases."""
    for case in cases_of(comm.size):
        found = run(case, comm)
        if found:
            print(json.dumps(found), flush=True)


# --- failures -------------------------------------------------------------------------------------


def attempt(comm: Any, name: str, call: Callable[[], Any]) -> None:
    """Print what each rank sees of a call: the error's type and message, or none."""
    try:
        call()
        seen = ("", "")
    except parki.ParkiError as error:
        seen = (type(error).__name__, str(error))
    told = comm.gather(seen)
    if told:
        print(json.dumps({"case": name, "seen": told}), flush=True)


def failures(comm: Any) -> None:
    """Fail on one rank in all ways, each followed by a sum that succeeds."""
    options = parki.EwaldOptions(3, (1, 1, 1), 1e-3)
    last = comm.rank == comm.size - 1
    rng = np.random.default_rng(comm.rank)
    points, dens = rng.random((3, 50)), rng.random((3, 50))
    bad = points.copy()
    if last:
        bad[1, 7] = np.nan
    plan = ewald.Plan("stokes_sl", points, points, options, comm=comm)
    # The last rank works on these while the others wait for it.
    inner = (
        ("spreading", plan._far, "spread"),
        ("near field", plan._near, "apply"),
        ("halo", plan._far.halo, "copy"),
        ("transform", plan._far.fgc, "_transform"),
        ("results", plan._gauge, "add"),
    )

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("injected")

    def good() -> None:
        plan(dens)

    attempt(comm, "points", lambda: ewald.stokes_sl(bad, bad, dens, options, comm=comm))
    attempt(comm, "good", good)
    attempt(comm, "density", lambda: plan(dens[:, 1:] if last else dens))
    attempt(comm, "good", good)
    for name, stage, method in inner:
        if last:
            setattr(stage, method, broken)
        attempt(comm, name, good)
        if last:
            delattr(stage, method)
        attempt(comm, "good", good)
    other = parki.EwaldOptions(3, (1, 1, 1), 1e-4) if last else options
    attempt(comm, "options", lambda: ewald.Plan("stokes_sl", points, points, other, comm=comm))
    none = np.empty((3, 0))
    attempt(comm, "sources", lambda: ewald.Plan("stokes_sl", points, none, options, comm=comm))
    attempt(comm, "operator", plan.as_linear_operator)
    # Parts of the ranks sum on their own, a different number of times.
    part = comm.Split(comm.rank % 2)
    expected = parki.stokes_sl(points, points, dens, options)
    for _ in range(1 + comm.rank % 2):
        alone = ewald.stokes_sl(points, points, dens, options, comm=part)
    own = comm.Split(comm.rank)
    found = ewald.stokes_sl(points, points, dens, options, comm=own)
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
    assert np.isfinite(alone).all()
    attempt(comm, "good", good)


def ending(comm: Any, how: str) -> None:
    """End one rank while the others are inside of a sum; if ``how`` is "none", end well."""
    points = np.random.default_rng(comm.rank).random((3, 50))
    plan = ewald.Plan("stokes_sl", points, points, parki.EwaldOptions(3, (1, 1, 1), 1e-3))
    if comm.rank == comm.size - 1:
        if how == "raise":
            raise ValueError("outside of the sum")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    if how == "refuse" and comm.rank == comm.size - 1:
        points = points[:, 1:]
    plan(points)


if __name__ == "__main__":
    from mpi4py import MPI

    {"sums": sums, "failures": failures, "ending": ending}[sys.argv[1]](
        MPI.COMM_WORLD, *sys.argv[2:]
    )
