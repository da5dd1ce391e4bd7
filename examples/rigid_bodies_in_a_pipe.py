"""Rigid bodies that fall along a pipe: two other examples put together.

    python examples/rigid_bodies_in_a_pipe.py [--bodies 12] [--steps 10] [--around 48]

The bodies are those of `rigid_bodies.py`: a double layer on their surfaces, completed by the
bodies' weights. The pipe is that of `pipe_suspension.py`: point forces outside of it, which make
the velocity at its wall zero. The inverse of the wall's matrix is known, so that GMRES solves for
the double layer alone: in each of its steps the wall answers the flow of the bodies.

The pipe is closed far away, and a Poiseuille flow p takes back the flux of the bodies. The
reciprocal theorem gives that flux Q without the flow on a section. With the flow u and the stress s
of a unit pressure gradient in a pipe of this length, Q length = sum F.u - sum (s q).n dS.

First, the program computes the drag on a sphere at the axis. The table is that of Haberman and
Sayre (1958): J. Happel, H. Brenner, Low Reynolds Number Hydrodynamics, chapter 7 (1983).
"""

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from pipe_suspension import OPTIONS, PERIOD, Pipe, flux
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rigid_bodies import Shape, Suspension
from scipy.spatial.transform import Rotation

import parki

# Drag on a sphere at the axis, over its drag without the pipe, by its radius over the pipe's.
HABERMAN_SAYRE = {0.1: 1.263, 0.2: 1.680, 0.3: 2.371, 0.4: 3.596, 0.5: 5.970}
AXES = (0.2, 0.14, 0.14)  # half axes of the bodies that fall


@dataclass
class InPipe(Suspension):
    """Bodies in a pipe of radius 1 along x, at rest."""

    pipe: Any = None

    def targets(self) -> np.ndarray:
        """Return the nodes, and the points of the wall."""
        return np.concatenate([self.points, self.pipe.wall], axis=1)

    def layer(self, strengths: np.ndarray) -> np.ndarray:
        """Return the flow of double layers and of the wall at the nodes."""
        x, *across = self.points
        n, *others = self.normals
        # The traction of the unit Poiseuille flow u = (1 - r^2) / 4, p = -x.
        outward = sum(a * b for a, b in zip(across, others, strict=True)) / 2
        traction = x * self.normals - np.stack([outward, *(n * a / 2 for a in across)])
        return self.answered(super().layer(strengths), -np.sum(strengths * traction) / PERIOD)

    def driven(self, forces: np.ndarray) -> np.ndarray:
        """Return the flow of forces and of the wall at the nodes."""
        return self.answered(super().driven(forces), flux(self.centres, forces))

    def answered(self, flow: np.ndarray, through: float) -> np.ndarray:
        """Return a flow at the nodes with what the wall adds, and the flow that takes it back."""
        count = self.points.shape[1]
        forces = self.pipe.preconditioner.matvec(-flow[:, count:].reshape(-1)).reshape(3, -1)
        wall = parki.stokes_sl(self.points, self.pipe.outside, forces, OPTIONS)
        found = flow[:, :count] + wall
        found[0] -= through * 2 / np.pi * (1 - self.points[1] ** 2 - self.points[2] ** 2)
        return found


def in_pipe(shape: Shape, centres: np.ndarray, turns: Rotation, pipe: Pipe) -> InPipe:
    """Return bodies of a shape at centres (3, B)."""
    groups, box = [(shape, centres.shape[1])], [PERIOD, 2.0, 2.0]
    return InPipe(groups, centres, turns, box, options=OPTIONS, pipe=pipe)


def drag(radius: float, order: int, pipe: Pipe) -> float:
    """Return the drag factor of a sphere at the axis."""
    sphere, centre = Shape(order, (radius,) * 3), np.array([[PERIOD / 2], [0.0], [0.0]])
    bodies = in_pipe(sphere, centre, Rotation.identity(1), pipe)
    with parki.Progress(f"radius {radius}") as show:
        velocity, _, _ = bodies.solve(np.array([[1.0], [0.0], [0.0]]), show=show)
    return float(1 / (6 * np.pi * radius * velocity[0, 0]))


def placed(count: int) -> np.ndarray:
    """Return centres (3, B) of bodies that meet neither each other nor the wall.

    Raises
    ------
    SystemExit
        If they do not fit.
    """
    rng, found = np.random.default_rng(0), np.empty((3, 0))
    for _ in range(3000 * count):
        reach = 0.9 - AXES[0]
        centre = rng.uniform([0, -reach, -reach], [PERIOD, reach, reach])
        apart = found - centre[:, None]
        apart[0] -= PERIOD * np.rint(apart[0] / PERIOD)
        if np.hypot(*centre[1:]) < reach and np.all(np.linalg.norm(apart, axis=0) > 2.3 * AXES[0]):
            found = np.concatenate([found, centre[:, None]], axis=1)
        if found.shape[1] == count:
            return found
    raise SystemExit(f"{count} bodies do not fit into the pipe")


def main(words: list[str] | None = None) -> tuple[dict[float, float], np.ndarray]:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--bodies", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--around", type=int, default=48, help="points around the wall")
    parser.add_argument("--order", type=int, default=8, help="degree of a body's density")
    given = parser.parse_args(words)

    pipe = Pipe(given.around)
    table = Table(title="Drag on a sphere at the axis, over its drag without a pipe", box=SIMPLE)
    for head in ("radius", "drag", "Haberman and Sayre", "difference"):
        table.add_column(head, justify="right")
    found = {radius: drag(radius, given.order, pipe) for radius in HABERMAN_SAYRE}
    for radius, known in HABERMAN_SAYRE.items():
        row = f"{found[radius]:.3f}", f"{known:.3f}", f"{found[radius] / known - 1:+.2%}"
        table.add_row(f"{radius}", *row)
    Console().print(table)

    turns = Rotation.random(given.bodies, random_state=0)
    bodies = in_pipe(Shape(given.order, AXES), placed(given.bodies), turns, pipe)
    weights = np.tile([[6 * np.pi * AXES[0]], [0.0], [0.0]], given.bodies)  # speed 1 or so, alone
    step, speeds, density = AXES[0] / 2, [], None
    for _ in parki.Progress("falling").over(range(given.steps)):
        push, _ = bodies.repulsion()
        velocity, spin, density = bodies.solve(weights + push, density)
        speeds.append(velocity[0])
        bodies.centres = bodies.centres + step * velocity
        bodies.turns = Rotation.from_rotvec(step * spin.T) * bodies.turns
        bodies.place()
    first, last = (float(np.mean(each)) for each in (speeds[0], speeds[-1]))
    print(f"{given.bodies} bodies: mean speed {first:.3f} at first, {last:.3f} at last")
    return found, np.array(speeds)


if __name__ == "__main__":
    main()
