"""A linear system with a plan as its matrix: (I + c S) x = b, solved by SciPy's GMRES.

S is the single layer between points on a sphere that repeats along all three axes; each point has
an equal part of its area. Integral equations of the second kind have this form. The identity keeps
the system well conditioned, so that the number of iterations does not grow with the points.

    python examples/gmres.py [number of points]
"""

import argparse

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

import parki


def sphere(count: int, radius: float) -> np.ndarray:
    """Return evenly spread points on a sphere in the middle of the unit box: shape (3, count)."""
    index = np.arange(count) + 0.5
    height = 1 - 2 * index / count
    ring, angle = np.sqrt(1 - height**2), np.pi * (1 + 5**0.5) * index
    return 0.5 + radius * np.stack([ring * np.cos(angle), ring * np.sin(angle), height])


def main(count: int = 5000) -> float:
    radius = 0.3
    points = sphere(count, radius)
    options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-8)
    plan = parki.Plan(
        "stokes_sl", points, points, options
    )  # the same object twice: targets = sources
    single = plan.as_linear_operator()  # acts on vectors of length 3 * count

    area = 4 * np.pi * radius**2 / count
    strength = area / (8 * np.pi * radius)
    system = LinearOperator(
        single.shape, matvec=lambda x: x + strength * single.matvec(x), dtype=single.dtype
    )
    wanted = np.sin(2 * np.pi * points[[1, 2, 0]]).reshape(-1)  # any smooth right-hand side
    with parki.Progress("GMRES", rtol=1e-8) as show:
        solution, status = gmres(system, wanted, rtol=1e-8, callback=show, callback_type="pr_norm")
    left = np.linalg.norm(system.matvec(solution) - wanted) / np.linalg.norm(wanted)
    print(f"{count} points, {show.count} iterations, residual {left:.1e}")
    if status != 0:
        raise SystemExit("GMRES did not converge")
    return float(left)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("points", type=int, nargs="?", default=5000, help="number of points")
    main(parser.parse_args().points)
