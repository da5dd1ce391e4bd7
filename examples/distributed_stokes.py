"""A suspension over several ranks: the velocity of particles that sink in a periodic box.

    mpirun -n 4 python examples/distributed_stokes.py [particles of each rank] [result file]

Each rank has its own particles, anywhere in the box, and never sees the others'. With one GPU per
rank, only use CuPy arrays in place of NumPy's (see docs/distributed.md).
"""

import argparse
from pathlib import Path

import numpy as np
from mpi4py import MPI

import parki
from parki import distributed


def main(count: int = 20_000, path: str = "velocities.npz") -> np.ndarray:
    comm = MPI.COMM_WORLD

    def say(text: str) -> None:
        if comm.rank == 0:
            print(text, flush=True)

    rng = np.random.default_rng([0, comm.rank])
    points = rng.random((3, count))
    # Half of the particles rise, so that the forces add up to zero.
    force = np.zeros((3, count))
    force[2, ::2], force[2, 1::2] = -1.0, 1.0
    if count % 2:
        force[2, -1] = 0.0

    options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-6)
    say(f"{comm.size} ranks with {count} particles each: planning")
    plan = distributed.Plan("stokes_sl", points, points, options, comm=comm)
    say(plan.describe())
    say("summing")
    velocity, seconds = plan.timed(force)
    velocity /= 8 * np.pi  # for viscosity 1
    say("  " + ", ".join(f"{stage} {time:.3f} s" for stage, time in seconds.items()))

    say(f"collecting the results into {path}")
    parts = comm.gather((points, force, velocity))
    if parts:
        names = ("points", "force", "velocity")
        whole = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
        np.savez(Path(path), **dict(zip(names, whole, strict=True)))
    say("done")
    return velocity


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("particles", type=int, nargs="?", default=20_000, help="of each rank")
    parser.add_argument("path", nargs="?", default="velocities.npz", help="file for the results")
    given = parser.parse_args()
    main(given.particles, given.path)
