"""The first sum: the velocity at some points due to many others and their periodic images.

python examples/first_sum.py [number of sources]
"""

import argparse

import numpy as np

import parki


def main(count: int = 60_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    trg = rng.random((3, count * 5 // 6))  # where the velocity is wanted
    src = rng.random((3, count))  # where the densities are
    norms = rng.standard_normal((3, count))
    dens = rng.standard_normal((6, count))  # rows 0-2 single layer, rows 3-5 double layer

    options = parki.EwaldOptions(periodicity=1, box=[1, 1, 1], tolerance=1e-6)
    pot = parki.stokes_comb(trg, src, dens, norms, options)
    print(f"{count} sources, {trg.shape[1]} targets: pot has shape {pot.shape}, {pot.dtype}")

    # Many densities on the same points: the work on the geometry is done once.
    plan = parki.Plan("stokes_comb", trg, src, norms, options)
    print(plan.describe())
    again = plan(dens)
    print(f"the plan gives the same to {np.abs(again - pot).max() / np.abs(pot).max():.0e}")
    return pot


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sources", type=int, nargs="?", default=60_000, help="number of sources")
    main(parser.parse_args().sources)
