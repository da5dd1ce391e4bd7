"""Measure what rigid spheres and bodies take: sums, solves, Brownian steps, and products.

    python scripts/rigid.py --space Cuda                   # all parts
    python scripts/rigid.py solves steps --points 20000    # some, with another number of spheres
    python scripts/rigid.py bodies --docs                  # the table of docs/bodies.md: minutes

`sums` compares the fused sum of forces and dipoles with velocities of `parki.Spheres`, over the
number of spheres. `solves` counts products, and times how long pairs take in them, over the volume
fraction. `steps` times a Brownian step and its parts. `bodies` counts products of spheres of 42
blobs with gaps of at least 0.05 radii, turned at random, under random forces, at tolerance 1e-4.
Hard spheres are at random, by parallel Monte Carlo steps from a lattice. Times are medians by the
clock, after calls that compile. The other tolerances are 1e-3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks import page
from benchmarks.run import Run, asked, basic_parser
from benchmarks.show import markdown
from scipy.spatial import cKDTree

import parki
from parki.dynamics import brownian, solver
from parki.ewald.sums import kernel

SIZES, FRACTIONS, STEPS = (10_000, 100_000, 1_000_000), (0.1, 0.3, 0.5), 0.3
SWEEPS, FAR = 30, 0.3  # of Monte Carlo, and how far spheres move in each, in radii
KT, DT = 1e-3, 1e-3
# Rows of the page of bodies, and errors.
BODIES, ACCURACIES = ((20, 0.1), (2000, 0.1), (20, 0.25), (2000, 0.25)), (1e-3, 1e-6)


def hard_spheres(
    count: int, fraction: float, rng: np.random.Generator, apart: float = 2.0
) -> tuple[Any, float]:
    """Return centres (3, N) of spheres in a periodic cube, not nearer than ``apart``, and its edge.

    The fraction of the volume is that of spheres of radius 1.
    """
    edge, side = (4 / 3 * np.pi * count / fraction) ** (1 / 3), 1
    while 4 * side**3 < count:
        side += 1
    corners = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).T / 2
    cells = np.mgrid[:side, :side, :side].reshape(3, -1, 1)
    sites = (cells + corners[:, None]).reshape(3, -1).T * edge / side
    points = rng.permutation(sites)[:count]
    for _ in range(SWEEPS):
        moved = (points + rng.uniform(-FAR, FAR, points.shape)) % edge
        while True:  # back with those that overlap, and with those that these overlap then
            pairs = cKDTree(moved, boxsize=edge).query_pairs(apart, output_type="ndarray")
            if not pairs.size:
                break
            moved[pairs] = points[pairs]
        points = moved
    return points.T.copy(), edge


def timed(run: Run, call: Callable[[], Any], times: int = 3) -> float:
    """Return milliseconds of a call, the median of several after the first one."""
    return run.milliseconds({"": call}, times)[""]


def sums(run: Run, dtype: str) -> None:
    """Print the time of the fused sum over that of velocities by forces, for random spheres."""
    for count in (run.size(SIZES[0], SIZES[0]),) if run.quick or run.points else SIZES:
        for fraction in (0.1, 0.3):
            points = run.send(run.random.random((3, count)), dtype)
            radius, options = (3 * fraction / (4 * np.pi * count)) ** (1 / 3), run.options(3, 1e-3)
            spheres = parki.Spheres(points, radius, options)
            name: Any = kernel("sphere_dipoles", radius=radius)
            fused = parki.Plan(name, points, points, None, options, want=("u", "grad_u"))
            acts = run.send(run.random.standard_normal((12, count)), dtype)
            one = timed(run, lambda acts=acts, spheres=spheres: spheres.velocities(acts[:3]), 5)
            all_ = timed(run, lambda acts=acts, fused=fused: fused(acts), 5)
            print(f"{count} spheres, {fraction}: RPY {one:.2f} ms, fused {all_:.2f} ms", end="")
            print(f", ratio {all_ / one:.2f}", flush=True)


def made(run: Run, count: int, fraction: float, dtype: str) -> Any:
    """Return rigid spheres at random."""
    points, edge = hard_spheres(count, fraction, run.random)
    options = run.options(3, 1e-3, [edge] * 3)
    # Single precision may round spheres that nearly touch into each other.
    return parki.RigidSpheres(run.send(points, dtype), 1.0, options, roughness=1e-5)


def solves(run: Run, dtype: str) -> None:
    """Print products and times of solves under random forces, and the part of pairs in them."""
    count = run.size(4_000, 100_000)
    for fraction in FRACTIONS:
        rigid = made(run, count, fraction, dtype)
        forces = run.send(run.random.standard_normal((3, count)), dtype)
        equations, spent = rigid._equations, list[float]()
        solve = equations.matrix.solve

        def clocked(acts: Any, solve: Any = solve, spent: Any = spent) -> Any:
            seconds, found = run.timed(lambda: solve(acts))
            spent.append(seconds)
            return found

        whole = timed(run, lambda rigid=rigid, forces=forces: rigid.solve(forces))
        equations.matrix.solve = clocked
        seconds, motion = run.timed(lambda rigid=rigid, forces=forces: rigid.solve(forces))
        acts = run.send(run.random.standard_normal((11, count)))
        product = timed(run, lambda m=equations.mobility, acts=acts: m.product(acts))
        pairs = equations.pairs.first.size / count
        print(f"{count} spheres, {fraction}, {pairs:.1f} pairs a sphere: ", end="")
        print(f"{motion.products} products of {product:.2f} ms in {whole:.1f} ms; ", end="")
        print(f"pairs take {100 * sum(spent) / seconds:.0f} %", flush=True)


def steps(run: Run, dtype: str) -> None:
    """Print the times of a Brownian step and of its parts."""
    count = run.size(4_000, 100_000)
    rigid, rng = made(run, count, STEPS, dtype), run.xp.random.default_rng(1)
    standard_normal, points = rigid._white(rng), rigid.points
    w, equations = standard_normal((3, count)), rigid._equations
    (k, f), pairs = brownian.noise(equations, standard_normal), equations.pairs
    for name, call in (
        ("a step", lambda: rigid.displacements(KT, DT, rng)),
        ("noise of M", lambda: equations.mobility.noise(standard_normal, rigid.accuracy)),
        ("noise of pairs", lambda: pairs.brownian_noise(standard_normal((4, 3, pairs.first.size)))),
        ("drift, with a solve", lambda: brownian.drift(equations, w)),
        ("solve", lambda: solver.solve(equations, k, f)),
        ("update of the points", lambda: rigid.update_points(points)),
    ):
        print(f"{count} spheres, {STEPS}: {name} {timed(run, call):.1f} ms", flush=True)


def of_bodies(run: Run, dtype: str) -> None:
    """Print products and times of bodies."""
    for count, fraction in BODIES[:1] if run.quick else BODIES:
        products(run, count, fraction)


def products(run: Run, count: int, fraction: float) -> list[int]:
    """Print and return the products to each accuracy."""
    rng = np.random.default_rng(count)
    points, edge = hard_spheres(count, fraction, rng, 2.05)
    given = (
        run.send(points),
        run.send(rng.standard_normal((4, count))),
        run.options(3, 1e-4, [edge] * 3),
    )
    bodies = parki.RigidBodies(parki.BodyShape.sphere(1.0, 42), *given)
    forces, numbers = run.send(rng.standard_normal((3, count))), []
    bodies.solve(forces)  # compiles kernels
    for bodies.accuracy in ACCURACIES:
        seconds, motion = run.timed(lambda: bodies.solve(forces))
        numbers.append(motion.products)
        print(f"{count} bodies, {fraction}, to {bodies.accuracy:g}: {numbers[-1]}", end="")
        print(f" in {seconds:.2f} s", flush=True)
    return numbers


PARTS = {"sums": sums, "solves": solves, "steps": steps, "bodies": of_bodies}


def main(words: list[str] | None = None) -> None:
    parser = basic_parser(__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--dtype", choices=("f4", "f8"), default="f8")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/bodies.md")
    given = parser.parse_args(words)
    run = asked(given)
    if given.docs:
        rows = [[*row, *products(run, *row)] for row in BODIES]
        table = markdown(("bodies", "volume fraction", "to 1e-3", "to 1e-6"), rows)
        page.write("bodies", page.fill("bodies", lambda _: table))
        return
    for part in given.parts or PARTS:
        PARTS[part](run, given.dtype)


if __name__ == "__main__":
    main()
