"""Failures of one rank among several, their ends, and what they need (see `ranks`)."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from clouds import cloud
from ranks_shared import Memory, attempt, tell

import parki
from parki import distributed
from parki.distributed import memory as slab_memory
from parki.distributed.near import SlabP2P
from parki.ewald.near import p2p
from parki.ewald.near import sizes as near_sizes
from parki.ewald.pipeline import setup as setups
from parki.ewald.pipeline.setup import Setup


def failures(comm: Any, space: str = "CPU") -> None:
    """Fail on one rank in all ways, each followed by a sum that succeeds."""
    memory = Memory(space, comm)
    options = parki.EwaldOptions(3, (1, 1, 1), 1e-3)
    last = comm.rank == comm.size - 1
    rng = np.random.default_rng(comm.rank)
    points, dens = (memory.send(rng.random((3, 50))) for _ in range(2))
    bad = points.copy()
    if last:
        bad[1, 7] = np.nan
    plan = distributed.Plan("stokes_sl", points, points, options, comm=comm)
    # The last rank works on these while the others wait for it.
    inner = (
        ("spreading", plan.pipeline.far, "spread"),
        ("near field", plan.pipeline.near, "apply"),
        ("halo", plan.pipeline.far.halo, "copy"),
        ("transform", plan.pipeline.far.fgc.transforms, "across"),
        ("results", plan.pipeline.far, "gather"),
    )

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("injected")

    def good() -> None:
        plan(dens)

    # Kernels are compiled by the first rank of a node, and then found by the others.
    times: list[float] = []
    plan.team.in_order(lambda: times.append(time.monotonic()))
    others = [t for rank, t in enumerate(comm.allgather(times[0])) if rank]
    assert comm.rank or times[0] < min(others)

    def compiling() -> None:
        with plan.team.collective():
            plan.team.in_order(lambda: None if comm.rank else broken())

    attempt(comm, "compiling", compiling)
    attempt(comm, "good", good)
    attempt(comm, "points", lambda: distributed.stokes_sl(bad, bad, dens, options, comm=comm))
    attempt(comm, "good", good)
    attempt(comm, "density", lambda: plan(dens[:, 1:] if last else dens))
    attempt(comm, "promise", lambda: plan.promise(dens[:, 1:] if last else dens))
    attempt(comm, "adjoint", lambda: plan.adjoint(dens[:, 1:] if last else dens))
    attempt(comm, "vjp", lambda: plan.vjp(dens[:, 1:] if last else dens, dens, ("dens", "src")))
    attempt(comm, "wrt", lambda: plan.vjp(dens, dens, ("src",) if last else ("trg",)))
    attempt(comm, "check", lambda: plan.check(dens[:, 1:] if last else dens))
    attempt(comm, "targets", lambda: plan.check(dens, 5 if last else 4))
    attempt(comm, "operator", plan.as_linear_operator if last else lambda: plan.promise(dens))
    attempt(comm, "good", good)
    for name, stage, method in inner:
        if last:
            setattr(stage, method, broken)
        attempt(comm, name, good)
        if last:
            delattr(stage, method)
        attempt(comm, "good", good)
    before = plan(dens)

    def compare(found: Any) -> None:
        assert memory.xp.abs(found - before).max() < 1e-12 * memory.xp.abs(before).max()

    # None of the ranks has the new points after one of them has failed.
    there = memory.send(rng.random((3, 60)))
    attempt(comm, "new points", lambda: plan.update_points(bad, bad))
    attempt(comm, "good", good)
    if last:
        SlabP2P.__init__, placed = broken, SlabP2P.__init__  # what comes last
    attempt(comm, "placing", lambda: plan.update_points(there, there))
    if last:
        SlabP2P.__init__ = placed
    attempt(comm, "good", lambda: compare(plan(dens)))
    attempt(comm, "good", lambda: plan.update_points(there, there))
    attempt(comm, "new density", good)
    attempt(comm, "good", lambda: plan.update_points(points, points))
    attempt(comm, "good", lambda: compare(plan(dens)))
    attempt(comm, "migration", lambda: plan.migrate(points, dens[:, 1:] if last else dens))
    # Ranks whose calls differ, each way before anything is exchanged that does not fit.
    other = distributed.Plan("stokes_sl", points, points, options, comm=comm)
    attempt(comm, "owners", lambda: plan.owners(bad))
    attempt(comm, "arrays", lambda: plan.migrate(points, *[dens] * (1 + last)))
    operator = plan.as_linear_operator()
    whole = memory.xp.ones(operator.shape[1])
    attempt(comm, "vector", lambda: operator @ (whole + last))
    attempt(comm, "length", lambda: operator.matvec(whole[last:]))
    attempt(
        comm, "columns", lambda: operator.rmatmat(memory.xp.stack([whole, whole + last], axis=1))
    )
    attempt(comm, "transpose", lambda: operator.T @ (whole + last))
    # CuPy's own multiples have no transposes: it takes the conjugate of a number for an array.
    back = (2 * operator).H if space == "CPU" else 2 * operator.H
    attempt(comm, "transpose", lambda: back @ (whole + last))
    attempt(comm, "transposed length", lambda: operator.H.matvec(whole[last:]))
    derived = {
        "scaled": 2 * operator,
        "negative": -operator,
        "sum": operator + operator,
        "difference": operator - 3 * operator,
        "product": operator @ operator,
        "power": operator**2,
        "transposed": operator.T,
        "sum transposed": (operator + operator).T,
        "product adjoint": (operator @ operator).H,
    }
    if space == "CPU":  # CuPy's operators have no quotients
        derived["divided"] = operator / 2
    for name, each in derived.items():
        attempt(comm, f"length: {name}", lambda each=each: each @ whole[last:])
    attempt(comm, "axes", lambda: operator @ whole.reshape((-1, 1, 1) if last else (-1, 1)))
    if space == "CPU":  # CuPy has no products from the left
        attempt(comm, "from the left", lambda: whole[last:] @ operator)
        back = operator.T @ whole
        assert memory.xp.abs(whole @ operator - back).max() < 1e-12 * memory.xp.abs(back).max()
    attempt(comm, "good", lambda: operator.H.T @ whole)
    once, back = operator @ whole, operator.T @ whole
    expected = {
        "scaled": 2 * once,
        "negative": -once,
        "divided": once / 2,
        "sum": 2 * once,
        "difference": -2 * once,
        "product": operator @ once,
        "power": operator @ once,
        "transposed": back,
        "sum transposed": 2 * back,
        "product adjoint": operator.T @ back,
    }
    size = memory.xp.abs(expected["product"]).max()
    for name, each in derived.items():
        assert memory.xp.abs(each @ whole - expected[name]).max() < 1e-12 * size, name
    attempt(comm, "good", lambda: operator @ whole)
    attempt(comm, "rows", lambda: plan.migrate(points, dens[: 3 - last]))
    attempt(comm, "calls", lambda: plan.promise(dens) if last else plan(dens))
    attempt(comm, "plans", lambda: (other if last else plan)(dens))
    given = "stokes_sl", points, points, options
    attempt(comm, "made", lambda: distributed.Plan(*given, comm=comm) if last else plan(dens))
    attempt(comm, "good", lambda: compare(plan(dens)))
    other = parki.EwaldOptions(3, (1, 1, 1), 1e-4) if last else options
    attempt(
        comm, "options", lambda: distributed.Plan("stokes_sl", points, points, other, comm=comm)
    )
    free_memory, compiled = slab_memory.free_memory, Setup.kernels
    slab_memory.free_memory = lambda space: 1e4 if last else 1e12
    Setup.kernels = broken  # is not come to
    attempt(comm, "memory", lambda: distributed.stokes_sl(points, points, dens, options, comm=comm))
    slab_memory.free_memory, Setup.kernels = free_memory, compiled
    attempt(comm, "good", good)
    none = memory.xp.empty((3, 0))
    for box in ((1, 1, 1), (1, None, None)):
        alike = parki.EwaldOptions(1, box, 1e-3)
        empty = distributed.stokes_sl(points, none, none, alike, comm=comm)
        assert empty.shape == points.shape and not empty.any()
        walk = distributed.Plan("stokes_sl", points, points, alike, comm=comm)
        expected = walk(dens)
        attempt(comm, "good", lambda walk=walk: walk.update_points(points, none))
        assert not walk(none).any()
        walk.update_points(points, points)
        assert memory.xp.abs(walk(dens) - expected).max() < 1e-12 * memory.xp.abs(expected).max()
    # The first rank alone warns of a far point that another has, and at the user's line; on devices
    # that point costs little, and none does.
    many = rng.random((3, 30000 // comm.size))
    many[:, -1] = 100.0 if last else 0.5
    many = memory.send(many)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        distributed.Plan("stokes_sl", many, many, parki.EwaldOptions(0, None, 1e-6), comm=comm)
    lines = [w.filename for w in heard if issubclass(w.category, parki.ParkiWarning)]
    assert lines == ([] if comm.rank or memory.xp is not np else [__file__])
    # So it does of images of points that different ranks have, and of their sum of q.n.
    some = memory.send(rng.random((3, 40)))
    single = some.astype("f4")
    near, far = (single[:, :0], single + 1) if last else (single, single[:, :0])
    flux = parki.EwaldOptions(3, (1, 1, 1), 1e-4, dl_mean="flux")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        distributed.Plan("stokes_sl", near, far, parki.EwaldOptions(3, (1, 1, 1), 1e-4), comm=comm)
        distributed.Plan("stokes_dl", some, some + last, some, flux, comm=comm)(some)
    lines = [w.filename for w in heard if w.category is parki.ImageWarning]
    assert lines == ([] if comm.rank else [__file__] * 2)
    # Parts of the ranks sum on their own, a different number of times.
    part = comm.Split(comm.rank % 2)
    expected = parki.stokes_sl(points, points, dens, options)
    for _ in range(1 + comm.rank % 2):
        alone = distributed.stokes_sl(points, points, dens, options, comm=part)
    own = comm.Split(comm.rank)
    found = distributed.stokes_sl(points, points, dens, options, comm=own)
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
    assert memory.xp.isfinite(alone).all()
    attempt(comm, "good", good)


def needed(comm: Any, periodicity: str) -> None:
    """Print the memory that each rank is predicted to take over what it takes, one has all given.

    By resident memory that is no file's, which libraries' buffers for messages between processes
    of a node are not. With three periodic axes these are spheres of many radii.
    """
    script = Path(__file__).parents[2] / "scripts" / "check_memory.py"
    spec = importlib.util.spec_from_file_location("check_memory", script)
    check_memory = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_memory)

    def measure(n: int) -> float:
        points = np.random.default_rng(0).random((3, n if comm.rank == 0 else 0))
        with check_memory.Watch(np) as watch:
            options = parki.EwaldOptions(int(periodicity), (1, 1, 1), 1e-4)
            given: Any = "stokes_sl", points, points, options
            if periodicity == "3":
                name = parki.kernel("polydisperse_sl", largest=0.01)
                given = name, points, points, 0.01 * points[0], options
            plan = distributed.Plan(*given, comm=comm)
            plan(points)
        return plan.memory.peak / watch.growth

    measure(1000)  # imports, threads, and what libraries keep
    tell(comm, periodicity, ratios=measure(120_000))


def tiles(comm: Any) -> None:
    """Print the tiles of the near field that each rank compiles, and launches."""
    near_sizes.FEW = 500
    seen: list[list[Any]] = []

    def watched(*arguments: Any) -> Any:
        seen[-1].append(near_tile(*arguments))
        return seen[-1][-1]

    near_tile, p2p.near_tile, setups.near_tile = p2p.near_tile, watched, watched
    c = cloud("partly", 900, (1.0, 1.0, 1.0), "f8")
    options = parki.EwaldOptions(3, (1.0, 1.0, 1.0), 1e-2, expert=parki.Expert(p2p_method="tile"))
    for given in range(comm.size):  # the rank that has all points
        seen.append([])
        trg, src = (p if comm.rank == given else p[:, :0] for p in (c.trg, c.src))
        distributed.Plan("laplace", trg, src, options, comm=comm)
    tell(comm, "tiles", seen=seen)


def threads(comm: Any) -> None:
    """Sum by two threads, each with a plan: on one communicator, and then each on its own."""
    points = np.random.default_rng(comm.rank).random((3, 50))
    options = parki.EwaldOptions(3, (1, 1, 1), 1e-3)
    dens = points, -2 * points
    for case, comms in (("one", (comm, comm)), ("own", (comm.Dup(), comm.Dup()))):
        plans = [
            distributed.Plan("stokes_sl", points, points, options, comm=each) for each in comms
        ]
        expected = [plan(each) for plan, each in zip(plans, dens, strict=True)]
        seen: list[str] = []

        def work(n: int, plan: Any, exact: Any, seen: list[str] = seen) -> None:
            for _ in range(30):
                try:
                    right = np.allclose(plan(dens[n]), exact, rtol=1e-12)
                    seen.append("right" if right else "wrong")
                except parki.ParkiValueError as error:
                    seen.append(str(error)[:28])
                time.sleep(1e-3 * (comm.rank + n))  # so that threads meet in another order

        workers = [
            threading.Thread(target=work, args=(n, *each))
            for n, each in enumerate(zip(plans, expected, strict=True))
        ]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        tell(comm, case, seen=sorted({*seen}), calls=len(seen))


def ending(comm: Any, how: str, space: str = "CPU") -> None:
    """End one rank while the others are inside of a sum; if ``how`` is "none", end well.

    If it is "early", one rank ends well before the others, which sum without it.
    """
    points = Memory(space, comm).send(np.random.default_rng(comm.rank).random((3, 50)))
    plan = distributed.Plan("stokes_sl", points, points, parki.EwaldOptions(3, (1, 1, 1), 1e-3))
    part = comm.Split(comm.rank == comm.size - 1)
    if comm.rank == comm.size - 1:
        if how == "raise":
            raise ValueError("outside of the sum")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exit":
            sys.exit(3)
    if how == "early":
        if part.size > 1:
            distributed.stokes_sl(points, points, points, plan.options, comm=part)
        return
    if how == "refuse" and comm.rank == comm.size - 1:
        points = points[:, 1:]
    plan(points)
