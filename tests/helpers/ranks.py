"""Sums over several ranks, compared with those of one: run by tests/test_distributed.py.

    mpirun -n 2 python tests/helpers/ranks.py needed:1 sums:CPU:usual moves:CPU:usual threads
    mpirun -n 3 python tests/helpers/ranks.py failures:CPU spheres wall derived tiles ending:early
    mpirun -n 3 python tests/helpers/ranks.py ending:raise
    mpirun -n 2 python tests/helpers/ranks.py sums:Cuda:other

Each word is a mode and what it takes: modes run one after another, as starting the ranks takes
longer than most of them. The first rank prints a line of JSON for each mode and for each of its
cases. With the name of an execution space (default: CPU) arrays are in its memory, and results are
compared on the host; ranks may share a GPU.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from clouds import cloud
from contract import KERNELS, fields_of
from degrees import few_degrees
from ranks_failures import ending, failures, needed, threads, tiles
from ranks_shared import Memory
from ranks_spheres import derived, spheres, wall

import parki
from parki.distributed import slab as distributed
from parki.ewald.choice.clustering import SAMPLE
from parki.ewald.pipeline import setup as setups

CLOUDS = ("partly", "same", "blobs_same", "elsewhere", "outside", "line", "two_scales")
DEALS = ("random", "uneven", "one rank", "apart")
WANTS = (("u",), ("u",), ("p",), ("grad_u",), ("u", "p", "grad_u", "stress"))
BOXES = ((1.5, 1.0, 0.5), (1.0, 1.0, 1.0), (0.5, 1.0, 2.0))
N = 700


class Case(NamedTuple):
    """One sum: on how many ranks the default run has it, and whether its adjoint is met, too."""

    kernel: str
    periodicity: Any
    dtype: str = "f8"
    cloud: str = "partly"
    deal: str = "random"
    want: tuple[str, ...] = ("u",)
    box: tuple[float, ...] = BOXES[0]
    tilts: tuple[float, ...] = ()
    n: int = N
    tolerance: float = 1e-4
    more: tuple[tuple[str, Any], ...] = ()
    ranks: int = 0
    back: bool = False

    def __str__(self) -> str:
        words = [self.kernel, f"{self.periodicity}P", self.dtype, self.cloud, self.deal]
        words += ["+".join(self.want), "x".join(map(str, self.box))]
        words += [f"{self.n} points"] if self.n > N else []
        words += ["tilted by " + ", ".join(map(str, self.tilts))] if self.tilts else []
        return ", ".join([*words, *(f"{name}={value}" for name, value in self.more)])


class Walk(NamedTuple):
    """Points that move for some steps: how, what is summed, and on how many ranks by default."""

    kernel: str
    periodicity: int
    how: str
    cloud: str = "same"
    box: tuple[float, ...] = BOXES[0]
    dtype: str = "f8"
    ranks: int = 0

    def __str__(self) -> str:
        box = "x".join(map(str, self.box))
        return f"{self.how}, {self.kernel}, {self.periodicity}P, {self.cloud}, {box}, {self.dtype}"


def cases() -> list[Case]:
    """Return every kernel, with all else in turn; and some that are special."""
    found = [
        Case(
            kernel,
            i % 4,
            ("f8", "f4")[(i + i // 4) % 2],
            CLOUDS[i % 7],
            DEALS[(i + i // 4) % 4],
            fields_of(kernel, WANTS[i % 5]) or ("u",),
            BOXES[i % 3],
            ranks=(4, 0, 2, 0, 0)[i % 5],
        )
        for i, kernel in enumerate(KERNELS)
    ]
    flux, last = (("dl_mean", "flux"),), BOXES[2]  # slabs along the last axis, or the second
    tiles, thin = (("p2g_method", "tile"), ("g2p_method", "tile")), (0.1, 0.1, 1.0)
    found += [
        Case("stokes_rotlet", 0, "f4", "line", box=(0.05, 1.0, 1.0), back=True),  # 3 cells along x
        Case("stokes_comb", 3, more=flux, cloud="same", ranks=2, back=True),
        Case("stokes_comb", 3, more=flux, cloud="outside", box=last),  # positions as given
        # Modes summed without the grid.
        Case("stokes_dl", 2, "f4", box=thin, ranks=2, back=True),
        Case("stokes_dipole", 2, "f4", box=thin),
        Case("laplace_dipole", 2, "f4", box=thin),
        Case("stokes_sl", 3, n=2),
        Case("laplace", 3, n=70_002, tolerance=1e-2, cloud="blobs_same", deal="in order"),
        Case("laplace", 3, n=70_002, tolerance=1e-2, cloud="blobs_same"),
        Case("stokes_rotlet", 2, want=("u", "grad_u"), box=last, ranks=4),
        Case("stokes_comb", 0, want=("u", "p", "grad_u"), box=last),
        Case("stokes_dipole", 2, want=("u", "stress"), box=last),
        Case("laplace", 3, "f4", want=("grad_u",), box=last, back=True),
        Case("stokes_sl", 0, deal="apart", want=("u", "grad_u"), ranks=2, back=True),
        # The adjoint of the pressure chooses its own parameters.
        Case("stokes_sl", 3, want=("u", "stress"), ranks=2, back=True),
        Case("stokes_comb(epsilon=0.04)", 3, want=("u", "p", "grad_u")),
        Case("stokes_sl(epsilon=0.03, blob='prolate')", 1, "f4", cloud="same"),
        Case("stokes_dipole(epsilon=0.4)", 2),  # which the grid alone has
        Case("stokes_sl", 1, n=5000, more=tiles, ranks=2),
        # Slabs lean: along the first vector planes are closer together than its steps.
        Case("stokes_comb", 3, want=("u", "p", "grad_u"), tilts=(0.3, -0.2, 0.1), ranks=2),
        Case("stokes_dl", 3, "f4", cloud="outside", more=flux, tilts=(0.6, 0.4, 0.4)),
        Case("stokes_sl", 3, "f4", "same", want=("grad_u",), tilts=(0.0, 0.7, 0.4), back=True),
        Case("stokes_rotlet", 2, deal="uneven", box=last, tilts=(0.2,), ranks=4),
        Case("laplace_dipole", 2, deal="apart", tilts=(0.7,), back=True),
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
    if how == "in order":
        return np.arange(n) * size // n
    if how == "uneven":  # each rank has twice as many as the one before
        shares = 2.0 ** np.arange(size)
        return np.searchsorted(shares.cumsum() / shares.sum(), rng.random(n))
    if how == "one rank":
        return np.full(n, size - 1)
    return np.full(n, 0 if sources else size - 1)


def run(case: Case, comm: Any, memory: Memory) -> dict[str, Any] | None:
    """Sum on all ranks; return on the first one how far the results are from those of one rank."""
    c = cloud(case.cloud, case.n, case.box, case.dtype)
    dens, norms = c.arguments(case.kernel)
    same = c.trg is c.src
    owners = deal(case.deal, case.n, comm.size, True)
    places = owners if same else deal(case.deal, case.n, comm.size, False)
    mine, here = owners == comm.rank, places == comm.rank
    box: Any = list(case.box)
    if case.tilts:
        box = parki.lattice(*case.box, *case.tilts)
    elif case.cloud == "outside":
        periodic = parki.EwaldOptions(case.periodicity, box).periodic
        box = [edge if each else None for edge, each in zip(box, periodic, strict=True)]
    options = parki.EwaldOptions(case.periodicity, box, case.tolerance, **dict(case.more))
    src = memory.send(c.src[:, mine])
    trg = src if same else memory.send(c.trg[:, here])
    given = None if norms is None else memory.send(norms[:, mine])
    own = memory.send(dens[..., mine])
    plan = parki.distributed.Plan(case.kernel, trg, src, given, options, comm=comm, want=case.want)
    plan(memory.xp.ones_like(own))  # leaves nothing behind
    results = tuple(memory.fetch(part) for part in plan(own))
    promise = plan.promise(own)
    transposed = back(comm, plan, own, results, memory, case.want) if case.back else 0.0
    told = comm.gather((here, results))
    if told is None:
        return None
    src, own = memory.send(c.src), memory.send(dens)
    trg = src if same else memory.send(c.trg)
    alone = parki.Plan(case.kernel, trg, src, memory.send(norms), options, want=case.want)
    expected = tuple(memory.fetch(part) for part in alone(own))
    ratios, apart = {}, []
    bounds = alone.promise(own)
    for k, (name, ref) in enumerate(zip(case.want, expected, strict=True)):
        pot = np.empty_like(ref)
        for where, part in told:
            pot[..., where] = part[k]
        off = (pot.astype("f8") - ref).reshape(-1, ref.shape[-1])
        apart.append(float(np.sqrt((off**2).sum(axis=0).mean()) / bounds[k]))
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
        "promise": bool(np.allclose(promise, bounds, rtol=1e-5)),
        "apart": apart,
        "transposed": transposed,
        "kind": kind(case, plan, alone),
        "slabs": plan.slabs.cells,
    }


def back(
    comm: Any,
    plan: Any,
    own: Any,
    results: tuple[Any, ...],
    memory: Memory,
    want: tuple[str, ...] = (),
) -> float:
    """Return how far a plan is from the transpose of its adjoint, over what is allowed.

    One that chooses its own parameters does so within the promise.
    """
    rng, dtype = np.random.default_rng(comm.rank), results[0].dtype
    values = tuple(rng.standard_normal(each.shape).astype(dtype) for each in results)
    sent = tuple(map(memory.send, values))
    found = memory.fetch(plan.adjoint(sent if want else sent[0]))
    pairs = [(v.astype("f8"), u.astype("f8")) for v, u in zip(values, results, strict=True)]
    parts = np.array(
        [
            sum((v * u).sum() for v, u in pairs) - (found * memory.fetch(own).astype("f8")).sum(),
            sum((u**2).sum() for _, u in pairs),
            sum((v**2).sum() for v, _ in pairs),
        ]
    )
    total = comm.allreduce(parts)
    size = plan.options.tolerance if "stress" in want else 10 * float(np.finfo(dtype).eps)
    return float(abs(total[0]) / np.sqrt(total[1] * total[2]) / size)


def kind(case: Case | Walk, plan: Any, alone: Any = None) -> str:
    """Return in what the sum of many ranks differs from that of one, ``alone``."""
    setup = plan.setup
    order = setup.solver_box.lattice.places(setup.parameters.problem.lattice)
    if plan.task.periodicity == 2 and order[0] == 1:
        return "exchanged"  # axes: other modes are those whose images are left out
    if isinstance(case, Case) and case.n > SAMPLE and case.deal != "in order":
        return "sampled"  # in another order, and parameters chosen by other points
    if alone and _lengths(alone) != _lengths(plan):
        return "padded"  # a device transforms lines of other lengths fast than planes
    return "rounding"


def _lengths(plan: Any) -> list[int]:
    """Return the lengths of the longest transforms, whatever the order of axes."""
    return sorted(plan.setup.mesh.padding.local)


PARTS = ("usual", "other")  # what the default run has, and what the long run has besides
# Besides the usual ones a number of ranks has all on 4 ranks, halves on 2 and 3, a quarter on one.
STEPS_OF = {1: slice(0, None, 4), 2: slice(0, None, 2), 3: slice(1, None, 2), 4: slice(None)}


def of_part(every: Sequence[Any], size: int, part: str) -> list[Any]:
    """Return the cases or the walks of a number of ranks, and of a part of `PARTS`."""
    if part == "usual":
        return [case for case in every if case.ranks == size]
    return [case for case in every[STEPS_OF[size]] if case.ranks != size]


def sums(comm: Any, space: str, part: str) -> None:
    """Run the cases."""
    memory = Memory(space, comm)
    for case in of_part(cases(), comm.size, part):
        found = run(case, comm, memory)
        if found:
            print(json.dumps(found), flush=True)


# --- moving points --------------------------------------------------------------------------------


# How points move: a little, anywhere, to other ranks while they stay, together, to one side, or on
# the ranks of their slabs.
WALKS = (
    Walk("stokes_comb", 3, "walk", ranks=2),
    Walk("stokes_sl", 1, "walk", "partly"),
    Walk("stokes_dl", 2, "walk", "same", (0.1, 0.1, 1.0), "f4"),
    Walk("laplace", 0, "walk", "partly", BOXES[2]),
    Walk("stokes_rotlet", 3, "jump", "partly", ranks=2),
    Walk("stokes_comb", 1, "jump", "same", BOXES[1], "f4"),
    Walk("stokes_sl", 3, "deal", "partly", ranks=4),
    Walk("stokes_dl", 0, "deal"),
    Walk("stokes_sl", 3, "crowd", ranks=4),
    Walk("stokes_comb", 3, "lean", ranks=2),
    Walk("stokes_comb", 2, "home", "same", BOXES[2], ranks=4),
)
STEPS = 4
AXIS = np.array([[1.0], [0.0], [0.0]])


def moved(walk: Walk, points: Any, step: int, seed: int) -> Any:
    """Return points in the box after a step."""
    rng = np.random.default_rng((seed, step))
    edges = np.array(walk.box)[:, None]
    if walk.how == "jump":
        points = edges * rng.random(points.shape)
    elif walk.how == "crowd":
        points = points * [[0.5], [0.6], [1]]
    elif walk.how == "lean":
        points = points - edges / 2 * (np.arange(N) % 5 < 2) * (points[:1] > edges[0] / 2) * AXIS
    elif walk.how != "deal":
        points = points + 0.02 * edges * rng.standard_normal(points.shape)
    return np.clip(points, 0, edges * (1 - 1e-6)).astype(walk.dtype)


def moves(comm: Any, space: str, part: str) -> None:
    """Move points for some steps, and compare each with a new plan of the same parameters."""
    memory = Memory(space, comm)
    for walk in of_part(WALKS, comm.size, part):
        c = cloud(walk.cloud, N, walk.box, walk.dtype)
        same, options = c.trg is c.src, parki.EwaldOptions(walk.periodicity, walk.box, 1e-4)
        # Then slabs of 0.7 and 0.3 of the points are out of balance, but their grid still suits.
        distributed.IMBALANCE = 1.05 if walk.how == "lean" else 1.3
        norms, plan, here = c.arguments(walk.kernel)[1], None, []
        trg, src, dens = c.trg, c.src, c.arguments(walk.kernel)[0]
        off, slabs, meshes, crossed = [], set(), set(), []
        for step in range(STEPS):
            how = "random" if walk.how != "deal" else DEALS[step % len(DEALS)]
            here = [deal(how, N, comm.size, sources) == comm.rank for sources in (False, True)]
            if plan is not None and walk.how == "home":
                here[1] = memory.fetch(plan.owners(memory.send(src))) == comm.rank
            if same:
                here[0] = here[1]
            own = memory.send(src[:, here[1]])
            arrays = (
                own if same else memory.send(trg[:, here[0]]),
                own,
                None if norms is None else memory.send(norms[:, here[1]]),
            )
            if plan is None:
                plan = parki.distributed.Plan(walk.kernel, *arrays, options, comm=comm)
            else:
                before = plan.transport.sent["points"]
                plan.update_points(*arrays)
                crossed.append(plan.transport.sent["points"] - before)
                # All points arrive where they belong, and what belongs to them with them.
                there, row, first, both = plan.migrate(own, own[:1], own[0], own[None, :2])
                assert (plan.owners(there) == comm.rank).all() and (row[0] == there[0]).all()
                assert (first == there[0]).all() and (both[0] == there[:2]).all()
                assert comm.allreduce(there.shape[1]) == N
            given = memory.send(dens[..., here[1]])
            found = memory.fetch(plan(given))
            transposed = back(comm, plan, given, (found,), memory) if walk.how == "walk" else 0.0
            slabs.add(plan.slabs.cells)
            meshes.add(tuple(plan.parameters.steps))
            told = comm.gather((here[0], found))
            if told is not None:
                off.append(_off(walk, plan, told, memory, trg, src, norms, dens))
            src = moved(walk, src, step, 1)
            trg = src if same else moved(walk, trg, step, 2)
        crossed = comm.allreduce(np.array(crossed)).tolist()
        if told is not None:
            seen = {"off": off, "crossed": crossed, "slabs": len(slabs), "meshes": len(meshes)}
            seen |= {"case": str(walk), "kind": kind(walk, plan), "transposed": transposed}
            print(json.dumps(seen), flush=True)


def _off(
    walk: Walk, plan: Any, told: Any, memory: Memory, trg: Any, src: Any, norms: Any, dens: Any
) -> float:
    """Return how far results are from those of one rank with the same parameters."""
    select, setups.select = setups.select, lambda *_: plan.parameters
    try:
        arrays = [None if a is None else memory.send(a) for a in (src, norms, dens)]
        points = arrays[0] if trg is src else memory.send(trg)
        alone = parki.Plan(walk.kernel, points, *arrays[:2], plan.options)
        ref = memory.fetch(alone(arrays[2]))
    finally:
        setups.select = select
    pot = np.empty_like(ref)
    for where, part in told:
        pot[..., where] = part
    size = np.abs(ref) + np.median(np.abs(ref))
    if kind(walk, plan) == "exchanged":
        return float(np.abs(pot - ref).max() / alone.promise(arrays[2]))
    return float((np.abs(pot - ref) / size).max() / np.finfo(walk.dtype).eps)


def patient(mpi: Any) -> Any:
    """Return all ranks, as a communicator on which they sleep while they wait for each other.

    Every exchange of parki's begins with a vote. Others than the first would otherwise take the
    cores on which it compiles kernels, or makes the reference.
    """

    class Patient(mpi.Intracomm):
        def Allreduce(self, *given: Any) -> None:  # noqa: N802 (the name that mpi4py has)
            vote = self.Iallreduce(*given)
            while not vote.Test():
                time.sleep(1e-3)

    return Patient(mpi.COMM_WORLD)


if __name__ == "__main__":
    from mpi4py import MPI

    # As the fixture few_degrees does: sums share kernels.
    few_degrees()
    every = (sums, moves, spheres, wall, derived, failures, needed, threads, tiles, ending)
    modes = {each.__name__: each for each in every}
    for words in sys.argv[1:]:
        name, *given = words.split(":")
        comm = MPI.COMM_WORLD if name == "ending" else patient(MPI)
        if not comm.rank:
            print(json.dumps({"mode": words}), flush=True)
        modes[name](comm, *given)
