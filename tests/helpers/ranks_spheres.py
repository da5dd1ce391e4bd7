"""Spheres, walls and derivatives by the box over ranks, and what they refuse (see `ranks`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from ranks_shared import Memory, attempt, tell

import parki
from parki import distributed

# --- spheres --------------------------------------------------------------------------------------


def dealt(memory: Memory, mine: Any, many: int, rank: int) -> Any:
    """Return a generator of a rank: its columns of the same numbers, whatever ranks there are."""
    own = memory.xp.random.default_rng(0)
    every = np.random.default_rng(4).standard_normal((2, 3, many))

    class Dealt(type(own)):  # type: ignore[misc]
        def standard_normal(self, shape: tuple[int, ...], dtype: Any) -> Any:
            if shape == (1,):
                return np.full(1, rank, dtype)
            numbers = every if len(shape) == 3 else every[0]
            return memory.send(numbers[..., mine].astype(dtype))

    return Dealt(own.bit_generator)


def spheres(comm: Any, space: str = "CPU") -> None:
    """Compare spheres with those of one rank, and fail on one rank."""
    memory, last, many = Memory(space, comm), comm.rank == comm.size - 1, 24
    rng = np.random.default_rng(0)
    points, moved = rng.random((2, 3, many)) * 0.9 + 0.05
    points[:, 1::2] = points[:, ::2] + 0.03
    forces, torques, values, turns = rng.standard_normal((4, 3, many))
    radii = np.where(np.arange(many) < many // 2, 0.05, 0.05 + 0.001 * np.arange(many))
    # The first rank has one radius alone, and the last one of three has no spheres.
    owner = np.arange(many) * 2 // many if comm.size > 2 else np.arange(many) * 3 // many // 2
    mine, every = owner == comm.rank, owner >= 0

    def own(array: Any) -> Any:
        return memory.send(array[..., mine])

    wrt = ("forces", "torques", "points")
    for case, of in (("tilted wall, 2P", 0.05), ("2P", radii), ("0P", radii), ("3P", radii)):
        periodicity, near = int(case[-2]), "no-slip" if "wall" in case else None
        box: Any = parki.lattice(1, 1, 1, 0.4) if near else (1, 1, 1)
        options = parki.EwaldOptions(periodicity, box, 1e-6 if near else 1e-4, wall=near)
        alone = parki.Spheres(points, of, options, viscosity=0.5)
        of = of if of is not radii else radii[mine]
        found = parki.distributed.Spheres(own(points), of, options, viscosity=0.5, comm=comm)
        if near:
            pairs = [(found.velocities(own(forces)), alone.velocities(forces)[:, mine])]
        elif periodicity == 2 or (periodicity and comm.size == 2):  # two are for the long run
            how = {"torques": torques, "values": values, "turns": turns}
            ours = found.vjp(own(forces), **{n: own(a) for n, a in how.items()}, wrt=wrt)
            theirs = alone.vjp(forces, **how, wrt=wrt)
            pairs = [(ours[name], theirs[name][:, mine]) for name in wrt]
        elif periodicity:
            ours = found.velocities(own(forces), own(torques))
            theirs = alone.velocities(forces, torques)
            pairs = [(each, whole[:, mine]) for each, whole in zip(ours, theirs, strict=True)]
        else:
            drawn = dealt(memory, mine, many, comm.rank), dealt(Memory("CPU", comm), every, many, 0)
            pairs = [(found.noise(drawn[0]), alone.noise(drawn[1])[:, mine])]
            there = memory.send(moved[:, : 5 * last])
            pairs += [(found.flow(own(forces), there), alone.flow(forces, moved[:, : 5 * last]))]
        found.update_points(own(moved))
        alone.update_points(moved)
        pairs += [(found.velocities(own(forces)), alone.velocities(forces)[:, mine])]
        apart = [memory.apart(*pair) for pair in pairs]
        apart.append(abs(found.promise(own(forces)) / alone.promise(forces) - 1))
        if case == "3P":
            check, other = found.check(own(forces)), alone.check(forces)
            apart.append(abs(check.flow / other.flow - 1))
            assert check.error <= check.promise
        tell(comm, case, apart=apart)
    attempt(comm, "rng", lambda: found.noise(dealt(memory, mine, many, 0), torques=True))
    attempt(comm, "forces", lambda: found.velocities(own(forces)[:2] if last else own(forces)))
    attempt(comm, "points", lambda: found.update_points(own(moved)[: 3 - last]))
    given = own(points), -1.0 if last else 0.1, options
    attempt(comm, "radii", lambda: parki.distributed.Spheres(*given, comm=comm))
    mu = 1.0 + last
    given = own(points), 0.1, options
    attempt(comm, "viscosity", lambda: parki.distributed.Spheres(*given, viscosity=mu, comm=comm))
    attempt(comm, "wrt", lambda: found.vjp(None, values=own(forces), wrt=("x",)[:last] or wrt[:1]))
    more = own(torques) if last else None
    attempt(comm, "torques", lambda: found.velocities(own(forces), more))
    want = "p" if last else "u"
    attempt(comm, "flow", lambda: found.flow(own(forces), own(moved), want=want))
    drawn = dealt(memory, mine, many, comm.rank)
    attempt(comm, "kT", lambda: found.displacements(float(last), 1.0, drawn))
    attempt(comm, "accuracy", lambda: found.noise(drawn, accuracy=0.1 if last else 0.01))
    by = ("points",) if last else ("forces",)
    attempt(comm, "names", lambda: found.vjp(own(forces), values=own(forces), wrt=by))
    box = [1, 1, 1] if last else None
    attempt(comm, "box", lambda: found.update_points(own(moved), box=box))
    attempt(comm, "good", lambda: found.velocities(own(forces)))


# --- walls ----------------------------------------------------------------------------------------


def wall(comm: Any, space: str = "CPU") -> None:
    """Fail on one rank: a target of it is below the wall, or it alone has one; or on all."""
    memory, last = Memory(space, comm), comm.rank == comm.size - 1
    points = memory.send(np.random.default_rng(comm.rank).random((3, 10)))
    options = parki.EwaldOptions(2, (1, 1, 1), 1e-3, wall="no-slip")
    bad = memory.send(np.full((3, 1), -1.0 if last else 1.0))
    attempt(comm, "below", lambda: distributed.Plan("stokes_sl", bad, points, options, comm=comm))
    own = replace(options, wall="no-slip" if last else None)
    attempt(comm, "one rank", lambda: distributed.Plan("stokes_sl", points, points, own, comm=comm))
    slit = replace(options, wall=("no-slip", "no-slip"))
    attempt(comm, "slit", lambda: distributed.Plan("stokes_sl", points, points, slit, comm=comm))
    attempt(comm, "spheres in a slit", lambda: distributed.Spheres(points, 0.0, slit, comm=comm))


# --- boxes ----------------------------------------------------------------------------------------


def derived(comm: Any, space: str = "CPU") -> None:
    """Compare derivatives by the box, and by a parameter, with those of one rank."""
    memory, rng, count = Memory(space, comm), np.random.default_rng(0), 40
    trg, src, norms, dens, values = rng.random((5, 3, count))
    to = np.arange(count) * 2 // count == comm.rank  # the last of three has none
    of = rng.integers(0, 2, count) == comm.rank
    cases: tuple[tuple[Any, ...], ...] = (
        ("yukawa(kappa=2.0)", 1, dens[0], values[0], None, ("kappa", "box"), {}),
        ("stokes_dl", 3, dens, values, norms, ("lattice", "norms"), {"dl_mean": "flux"}),
        ("stokes_sl", 2, dens, values, None, ("box", "trg"), {"wall": "no-slip"}),
    )
    for kernel, periodicity, q, v, n, wrt, more in cases:
        options = parki.EwaldOptions(periodicity, (1, 1, 1), 1e-8, **more)
        normals = n if n is None else memory.send(n[:, of])
        given = memory.send(trg[:, to]), memory.send(src[:, of]), normals
        plan = distributed.Plan(kernel, *given, options, comm=comm)
        ours = plan.vjp(memory.send(q[..., of]), memory.send(v[..., to]), wrt)
        theirs = parki.vjp(kernel, trg, src, q, n, options, values=v, wrt=wrt)
        part = {"trg": to, "norms": of}
        pairs = [(ours[by], theirs[by][..., part[by]] if by in part else theirs[by]) for by in wrt]
        tell(comm, f"by {wrt[0]}", apart=[memory.apart(*pair) for pair in pairs])
