"""Induced dipoles: polarisable atoms of a simple cubic crystal, and its dielectric constant.

    python examples/induced_dipoles.py

Each atom has a dipole that its polarisability and the field of all others give. In a crystal whose
mean field is the applied one, the dielectric constant is 1 + 4 pi P / E with the polarisation P,
and the formula of Clausius and Mossotti for points.
"""

import argparse

import numpy as np

import parki

FRACTIONS = (0.05, 0.1, 0.2)  # polarisability over the volume of an atom


def constant(fraction: float, side: int) -> float:
    """Return the dielectric constant of side**3 atoms of unit volume."""
    points = np.indices(3 * (side,)).reshape(3, -1) + 0.5
    how = {"periodicity": 3, "box": 3 * [float(side)], "tolerance": 1e-6}
    width = 0.2  # of a pair; it damps the fields of atoms that are close
    plan = parki.Plan("laplace_dipole", points, points, epsilon=width, want="grad_u", **how)
    field = np.zeros(points.shape)
    field[2] = 1.0
    own = 4 / (3 * np.sqrt(np.pi) * width**3)  # field of a Gaussian dipole at itself, in the sum
    found = parki.equilibrate(plan, -field, hardness=1 / fraction - own)
    return 1 + 4 * np.pi * float(found.values[2].mean())


def clausius_mossotti(fraction: float) -> float:
    """Return the dielectric constant of points on a cubic lattice."""
    return (1 + 8 * np.pi / 3 * fraction) / (1 - 4 * np.pi / 3 * fraction)


def main(side: int = 8) -> dict[float, tuple[float, float]]:
    """Print constants, found and by the formula."""
    found = {each: (constant(each, side), clausius_mossotti(each)) for each in FRACTIONS}
    print("polarisability / volume   dielectric constant   Clausius and Mossotti")
    for fraction, (ours, formula) in found.items():
        print(f"{fraction:23g} {ours:21.5f} {formula:23.5f}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=8, help="atoms along an edge")
    main(parser.parse_args().side)
