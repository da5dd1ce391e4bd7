"""The program of the paper's Figure 10, at any size and on any execution space.

Kosmacher, Du, Bagge, Biros, A Performance Portable Fast Ewald Summation for Stokes Flow (2026),
Appendix A. There it has 4000000 points and runs on an NVIDIA GPU:

    python examples/figure10.py 4000000 CUDA
"""

import argparse
from typing import Any

import parki


def main(count: int = 20_000, space: str = "OpenMP") -> Any:
    ex = parki.utils.get_execution_space(space)  # Kokkos backend
    am = parki.utils.get_array_module(ex)  # 'cupy' or 'numpy', conditional on ex
    # set spectral Ewald box and tolerance
    box = [1.0, 1.0, 1.0]
    tol = 1e-4
    # generate sources, targets, densities, and normals
    nt = count
    ns = count
    trg = am.random.rand(3, nt) * am.array(box).reshape(3, 1)
    src = am.random.rand(3, ns) * am.array(box).reshape(3, 1)
    dens_sl = am.random.randn(3, ns)
    dens_dl = am.random.randn(3, ns)
    norms = am.random.randn(3, ns)
    dens = am.vstack((dens_sl, dens_dl))  # stack densities for ewald call
    # get the potential for the Stokes single and double layer potential
    options = parki.ewald.EwaldOptions(
        periodicity=1, box=box, tolerance=tol, cell_size=224, execution_space=ex
    )
    pot = parki.ewald.stokes_comb(trg, src, dens, norms, options)
    print(f"{ns} sources, {nt} targets on {ex}: pot has shape {pot.shape}")
    return pot


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("points", type=int, nargs="?", default=20_000, help="number of points")
    parser.add_argument("space", nargs="?", default="OpenMP", help="where kernels run")
    given = parser.parse_args()
    main(given.points, given.space)
