"""Time steps of JFSD, fast Stokesian dynamics in JAX, beside those of `parki.RigidSpheres`.

    JFSD=folder python scripts/stokesian.py --space Cuda          # JFSD's sources in that folder
    python scripts/stokesian.py --points 200 --solver parki       # one size, one solver

JFSD (Torre, Schram and de Graaf, 2025; Fiore and Swan, 2019) has spheres of one radius in single
precision, with lubrication and the drift. Its step makes lists of pairs, preconditioners, two
solves for the drift and one for the motion by GMRES; its error is 1e-5, and 1e-3 here as well. Its
first list is made by SciPy here, which is not timed: its own loop takes minutes. Spheres are hard
ones at random, at a volume fraction of 0.3. Times are medians over the steps after the first ones.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import statistics
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import rigid
from benchmarks.run import Run, asked, basic_parser
from scipy.spatial import cKDTree

import parki

SIZES, FRACTION, SPLIT, STEPS = (1000, 10_000, 100_000), 0.3, 0.5, 4
KT, DT = 1e-3, 1e-3
FIRST = 2  # steps in which JFSD compiles
MARGIN = 1.0  # by which JFSD's list of pairs reaches farther than its near field


def steps_of_parki(run: Run, points: Any, edge: float, dtype: str, accuracy: float) -> None:
    """Print the times of a deterministic and a Brownian step, each with an update."""
    options = run.options(3, accuracy, [edge] * 3)
    points = run.send(points, dtype)
    spheres = parki.RigidSpheres(points, 1.0, options, accuracy=accuracy, roughness=1e-5)
    forces = run.send(run.random.standard_normal(points.shape), dtype)
    rng = run.xp.random.default_rng(1)

    def moved() -> None:
        spheres.update_points(points)
        spheres.solve(forces)

    def brownian_noise() -> None:
        spheres.update_points(points)
        spheres.displacements(KT, DT, rng, forces)

    times = [rigid.timed(run, call, STEPS) for call in (moved, brownian_noise)]
    report(points.shape[1], "parki", dtype, accuracy, times)


def report(count: int, solver: str, dtype: str, error: float, times: list[float]) -> None:
    """Print the milliseconds of the steps of a solver, without and with Brownian motion."""
    print(f"{count:7d} spheres, {solver:5s} {dtype}, {error:g}: ", end="")
    print(f"step {times[0]:.1f} ms, Brownian {times[1]:.1f} ms", flush=True)


def loaded() -> Any:
    """Return JFSD's module, in the folder where its tables are."""
    folder = os.environ["JFSD"]
    sys.path.insert(0, folder)
    os.chdir(folder)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = importlib.import_module("jax")
    # Names of JAX 0.4, for which it was written.
    for name, values in {
        "jax.config": {"config": jax.config},
        "jax.lib.xla_bridge": {"get_backend": lambda: jax.devices()[0]},
        "tqdm": {"tqdm": iter},  # a progress bar
    }.items():
        module = types.ModuleType(name)
        module.__dict__.update(values)
        sys.modules[name] = module
    importlib.import_module("jax.lib").xla_bridge = sys.modules["jax.lib.xla_bridge"]
    np.__dict__.setdefault("longfloat", np.longdouble)  # of NumPy 1
    return importlib.import_module("jfsd.main")


def steps_of_jfsd(run: Run, points: Any, edge: float, error: float, steps: int = STEPS) -> None:
    """Print the same of JFSD, with this error of its solves."""
    jfsd = loaded()
    scipy = importlib.import_module("jax.scipy")
    count, centred = points.shape[1], (points.T - edge / 2).astype(np.float32)
    original = scipy.sparse.linalg.gmres
    times: list[float] = []

    def gmres(**keywords: Any) -> Any:
        return original(**(keywords | {"tol": error}))

    def clocked(steps: Any, **_: Any) -> Iterator[int]:
        for step in steps:
            begun = run.now()
            yield step
            times.append(1e3 * (run.now() - begun))

    jfsd.tqdm, jfsd.utils.cpu_nlist = clocked, listed
    scipy.sparse.linalg.gmres = gmres
    found = []
    for temperature in (0.0, KT):
        times.clear()
        with contextlib.redirect_stdout(io.StringIO()):
            jfsd.main(
                num_steps=FIRST + steps,
                writing_period=FIRST + steps,
                time_step=DT,
                lx=edge,
                ly=edge,
                lz=edge,
                num_particles=count,
                max_strain=0.0,
                temperature=temperature,
                particle_radius=1.0,
                ewald_xi=SPLIT,
                error_tolerance=1e-3,
                interaction_strength=0.0,
                buoyancy_flag=0,
                interaction_cutoff=0.0,
                positions=importlib.import_module("jax.numpy").array(centred),
                seed_rfd=1,
                seed_ffwave=2,
                seed_ffreal=3,
                seed_nf=4,
                shear_rate_0=0.0,
                shear_frequency=0.0,
                output=None,
                store_stresslet=False,
                store_velocity=False,
                store_orientation=False,
                constant_applied_forces=run.random.standard_normal((count, 3)),
                constant_applied_torques=np.zeros((count, 3)),
                hydrodynamic_interaction_flag=2,
                boundary_flag=0,
                thermal_test_flag=0,
                friction_coefficient=0.0,
                friction_range=0.0,
            )
        found.append(statistics.median(times[FIRST:]))
    report(count, "JFSD", "f4", error, found)


def listed(points: Any, edges: Any, *reaches: Any, **_: Any) -> tuple[Any, ...]:
    """Return what JFSD's function of this signature does: pairs, those in reach, and a margin."""
    xp, edge = importlib.import_module("jax.numpy"), float(edges[0])
    places = (np.asarray(points, dtype=np.float64) + edge / 2) % edge
    near, close, closest = (float(reach) for reach in reaches[:3])
    tree = cKDTree(places, boxsize=edge)
    pairs = tree.query_pairs(near + MARGIN, output_type="ndarray").T
    pairs = pairs[:, np.lexsort(pairs[::-1])]
    apart = places[pairs[0]] - places[pairs[1]]
    gaps = np.linalg.norm(apart - edge * np.round(apart / edge), axis=1)
    lists = [np.where(gaps < reach, pairs, len(places)) for reach in (near, close, closest)]
    lists[2] = lists[2][:, np.argsort(lists[2][0])][:, : 15 * len(places)]
    return *(xp.array(each) for each in (pairs, *lists)), MARGIN


def main(words: list[str] | None = None) -> None:
    parser = basic_parser(__doc__)
    parser.add_argument("--solver", choices=("parki", "JFSD"), help="default: both")
    parser.add_argument("--errors", type=float, nargs="+", default=[1e-3, 1e-5], help="of JFSD")
    given = parser.parse_args(words)
    run = asked(given)
    wanted = (given.solver,) if given.solver else ("parki", "JFSD")
    if "JFSD" in wanted and "JFSD" not in os.environ:
        print("JFSD is left out: the variable JFSD names the folder of its sources")
        wanted = ("parki",) if given.solver is None else ()
    sizes = (200,) if given.quick else (given.points,) if given.points else SIZES
    for count in sizes:
        points, edge = rigid.hard_spheres(count, FRACTION, run.random)
        if "parki" in wanted:
            for dtype, accuracy in (("f4", 1e-3), ("f8", 1e-3), ("f4", 1e-2)):
                steps_of_parki(run, points, edge, dtype, accuracy)
        for error in given.errors if "JFSD" in wanted else ():
            importlib.import_module("jax").clear_caches()  # they do not know the error
            steps_of_jfsd(run, points, edge, error)


if __name__ == "__main__":
    main()
