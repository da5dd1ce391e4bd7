"""Ions between two electrodes at a voltage: the charge that the electrodes take up.

    python examples/electrodes.py [--voltage 4.0] [--steps 4000]

Plates of metal at z = 0 and z = H are kept at a voltage. Ions move by Brownian dynamics, in units
of their diameter, of kT and of the elementary charge. They repel each other and the plates at short
range, and every ion has its images in both plates. Ions go to the plate of the other sign, so that
the plates take up more charge than they have without ions.
"""

import argparse
from typing import NamedTuple

import numpy as np

import parki

BOX, BJERRUM, STEP = (6.0, 6.0, 5.0), 2.0, 1e-3
UNIT = BJERRUM**0.5  # of charges: two of them at the distance r have the energy BJERRUM / r
SPRING = 200.0  # of what is closer than a diameter


class Result(NamedTuple):
    """The charge of the upper plate without ions, and its mean with them."""

    empty: float
    charge: float


def pushes(apart: np.ndarray) -> np.ndarray:
    """Return the repulsive forces (3, ...) of ions, or of plates, at these distances (3, ...)."""
    distance = np.sqrt((apart**2).sum(axis=0))
    return SPRING * np.maximum(1 / distance - 1, 0) * apart


def short_range(x: np.ndarray) -> np.ndarray:
    """Return the forces (3, N) at short range."""
    apart = x[:, :, None] - x[:, None]
    apart[:2] -= BOX[0] * np.round(apart[:2] / BOX[0])
    apart[:, range(x.shape[1]), range(x.shape[1])] = 1
    forces = pushes(apart).sum(axis=2)
    for plate in (-0.5, BOX[2] + 0.5):  # an ion stays half a diameter away
        forces += pushes((x - plate) * [[0], [0], [1]])
    return forces


def main(voltage: float = 4.0, steps: int = 4000) -> Result:
    """Move the ions; return what the upper plate takes up, in elementary charges."""
    rng = np.random.default_rng(0)
    lattice = np.indices((4, 4, 2)).reshape(3, -1)
    x = (lattice + 0.5) * np.array(BOX)[:, None] / [[4], [4], [2]]
    q = UNIT * (-1.0) ** lattice.sum(axis=0)
    how = {"periodicity": 2, "box": BOX, "tolerance": 1e-4, "wall": ("metal", "metal")}
    empty = BOX[0] * BOX[1] / (4 * np.pi * BOX[2]) * voltage / BJERRUM
    taken = []
    for step in range(steps):
        found = parki.energy(x, q, voltage=voltage / UNIT, **how)
        moves = STEP * (found.forces + short_range(x))
        x = x + moves + np.sqrt(2 * STEP) * rng.standard_normal(x.shape)
        x[:2] %= BOX[0]
        if step >= steps // 4:
            taken.append(found.plate_charges[1] / UNIT)
    charge = float(np.mean(taken))
    print(f"without ions: {empty:.3f}; with {q.size} ions: {charge:.2f} on the upper plate")
    print(f"the capacitance is {charge / empty:.1f} times as large")
    return Result(empty, charge)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--voltage", type=float, default=4.0)
    parser.add_argument("--steps", type=int, default=4000)
    main(**vars(parser.parse_args()))
