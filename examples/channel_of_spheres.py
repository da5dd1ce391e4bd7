"""A channel with spheres that are held in place: how much less fluid a pressure gradient moves.

    python examples/channel_of_spheres.py [--spheres 200] [--radius 0.05]

Between plates at z = 0 and z = H a pressure gradient G along x moves an empty channel's fluid by
G z (H - z) / (2 mu). A sphere that is free of forces would move with the mean of this flow over its
surface, G (z (H - z) - a^2 / 3) / (2 mu). Forces F hold the spheres against that: the mobility of
all spheres times F is the opposite velocity. By the reciprocal theorem they change the flux by the
sum of F times that mean flow, over G and the area of a period: no flow has to be integrated. The
flow through a plane between the spheres has the same flux.
"""

import argparse
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import cg

import parki

BOX, GRADIENT, VISCOSITY = (1.0, 1.2, 0.8), 1.0, 1.0


class Result(NamedTuple):
    """The flux over that of the empty channel, by forces and through a plane, and the forces."""

    flux: float
    through_plane: float
    forces: np.ndarray


def poiseuille(z: np.ndarray, radius: float = 0.0) -> np.ndarray:
    """Return the empty channel's velocity along x at heights, or its mean over spheres there."""
    return GRADIENT / (2 * VISCOSITY) * (z * (BOX[2] - z) - radius**2 / 3)


def hold(points: np.ndarray, radius: float, tolerance: float = 1e-5) -> Result:
    """Return what spheres at these points (3, N) do to the flux, if forces hold them there."""
    how = {"periodicity": 2, "box": BOX, "wall": ("no-slip", "no-slip"), "tolerance": tolerance}
    spheres = parki.Spheres(points, radius, viscosity=VISCOSITY, **how)
    carried = poiseuille(points[2], radius)
    velocities = np.zeros_like(points)
    velocities[0] = -carried
    found, failed = cg(spheres.as_linear_operator(), velocities.ravel(), rtol=tolerance)
    if failed:
        raise RuntimeError(f"the forces are not found after {failed} products")
    forces = found.reshape(3, -1)
    empty = GRADIENT * BOX[2] ** 3 / (12 * VISCOSITY)
    change = (forces[0] * carried).sum() / (GRADIENT * BOX[0] * BOX[1])
    nodes, weights = np.polynomial.legendre.leggauss(24)
    z, across = BOX[2] * (nodes + 1) / 2, BOX[1] * np.arange(24) / 24
    plane = np.stack([np.zeros(24 * 24), np.repeat(across, 24), np.tile(z, 24)])
    along = poiseuille(plane[2]) + spheres.flow(forces, plane)[0]
    through = (along.reshape(24, 24) @ weights).mean() * BOX[2] / 2
    return Result(1 + change / empty, through / empty, forces)


def main(spheres: int = 200, radius: float = 0.05) -> Result:
    """Hold spheres at random places, away from the plane x = 0."""
    edges = np.array(BOX)[:, None]
    margin = np.array([[2], [0], [1]]) * radius
    places = np.random.default_rng(0).random((3, spheres))
    result = hold(margin + places * (edges - 2 * margin), radius)
    print(f"flux: {result.flux:.4f} of the empty channel's by the forces on {spheres} spheres")
    print(f"      {result.through_plane:.4f} of it through the plane x = 0")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spheres", type=int, default=200)
    parser.add_argument("--radius", type=float, default=0.05)
    main(**vars(parser.parse_args()))
