"""Charge equilibration: molecules whose charges follow from electronegativities and hardnesses.

    python examples/charge_equilibration.py --molecules 64

Each molecule keeps its total charge. The energy is the least one, so that forces are as if charges
were fixed; the program compares one of them with the slope of the least energy.
"""

import argparse
from typing import NamedTuple

import numpy as np

import parki

UNIT = 14.399645  # eV angstrom: energies of sums are in elementary charges squared per angstrom
ARMS = np.array([[0.0, 0.9, -0.3], [0.0, 0.0, 0.9], [0.0, 0.0, 0.0]])  # angstrom
WIDTHS, NEGATIVITY, HARDNESS = (0.9, 0.85), (6.5, 4.5), (13.4, 13.9)  # angstrom, and eV
SPACE = 3.0  # of a molecule, angstrom


class Found(NamedTuple):
    """Charges and electronegativities of molecules; a force, and minus the slope of the energy."""

    charges: np.ndarray
    levels: np.ndarray
    force: float
    slope: float


def molecules(count: int) -> tuple[np.ndarray, float]:
    """Return the atoms (3, N) of molecules near sites of a cubic lattice, and the box's edge."""
    side = int(np.ceil(count ** (1 / 3)))
    middles = SPACE * np.array(np.unravel_index(np.arange(count), 3 * (side,))) + 1
    points = (middles[:, :, None] + ARMS[:, None]).reshape(3, -1)
    return points + 0.1 * np.random.default_rng(0).standard_normal(points.shape), side * SPACE


def main(count: int = 64) -> Found:
    """Find the charges, and compare a force with a difference of energies."""
    points, edge = molecules(count)
    kinds, which = np.tile([0, 1, 1], count), np.repeat(np.arange(count), 3)
    widths, wanted, hardness = (np.array(each)[kinds] for each in (WIDTHS, NEGATIVITY, HARDNESS))
    options = parki.EwaldOptions(periodicity=3, box=3 * [edge], tolerance=1e-8)

    def solve(places: np.ndarray) -> parki.Equilibrium:
        plan = parki.Plan("laplace", places, places, options, epsilon=(widths, widths))
        own = np.sqrt(2 / np.pi) / widths  # hardness of a Gaussian, which the sum has
        keep = {"total": np.zeros(count), "groups": which}
        return parki.equilibrate(plan, wanted / UNIT, hardness=hardness / UNIT - own, **keep)

    found, step = solve(points), np.zeros(points.shape)
    step[0, 1] = 1e-3
    slope = -UNIT * (solve(points + step).energy - solve(points - step).energy) / 2e-3
    force = UNIT * parki.energy(points, found.values, options, epsilon=widths).forces[0, 1]
    charges = found.values.reshape(count, 3)
    print(f"mean charges of the three atoms: {charges.mean(axis=0).round(3)}")
    print(f"electronegativities of molecules: {UNIT * found.levels.min():.2f} to ", end="")
    print(f"{UNIT * found.levels.max():.2f} eV, after {found.products} products")
    print(f"force {force:.6f} eV/angstrom, by energies {slope:.6f}")
    return Found(charges, UNIT * found.levels, float(force), float(slope))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--molecules", type=int, default=64)
    main(parser.parse_args().molecules)
