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
from typing import Any

import numpy as np
from pipe_suspension import OPTIONS, PERIOD, Pipe, flux
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rigid_bodies import repulsion, solve
from scipy.sparse.linalg import LinearOperator
from scipy.spatial.transform import Rotation

import parki

# Drag on a sphere at the axis, over its drag without the pipe, by its radius over the pipe's.
HABERMAN_SAYRE = {0.1: 1.263, 0.2: 1.680, 0.3: 2.371, 0.4: 3.596, 0.5: 5.970}
AXES = (0.2, 0.14, 0.14)  # half axes of the bodies that fall


class InPipe(parki.RigidSurfaces):
    """Bodies in a pipe of radius 1 along x, at rest."""

    def __init__(self, surface: parki.Surface, pipe: Pipe) -> None:
        super().__init__(surface, OPTIONS)
        self.pipe = pipe
        self.on_wall = parki.LayerPlan("stokes_comb", surface, pipe.wall, OPTIONS)

    def update_positions(self, centres: np.ndarray, rotations: Any = None) -> None:
        """Move the bodies."""
        super().update_positions(centres, rotations)
        self.on_wall.update_positions(centres, rotations)

    def __call__(self, density: np.ndarray) -> np.ndarray:
        """Return the equation's left side, with what the wall answers."""
        return super().__call__(density) + self.answer(self.layers(density))

    def right_side(self, forces: Any = None, torques: Any = None, flow: Any = None) -> np.ndarray:
        """Return minus the flow of forces and torques, and of the wall."""
        layers = self.layers(np.zeros_like(self.surface.nodes), forces, torques)
        return super().right_side(forces, torques, flow) - self.answer(layers)

    def as_linear_operator(self) -> LinearOperator:
        """Return the left side for GMRES."""
        size = self.surface.nodes.size
        return LinearOperator(
            (size, size), matvec=lambda q: self(q.reshape(3, -1)).ravel(), dtype=float
        )

    def answer(self, layers: np.ndarray) -> np.ndarray:
        """Return what the wall adds to both layers' flow, and the flow that takes it back."""
        points, areas = self.surface.nodes, self.surface.areas
        forces = self.pipe.preconditioner.matvec(-self.on_wall(layers).ravel() / (8 * np.pi))
        found = parki.stokes_sl(points, self.pipe.outside, forces.reshape(3, -1), OPTIONS)
        x, *across = points
        n, *others = self.surface.normals
        # The traction of the unit Poiseuille flow u = (1 - r^2) / 4, p = -x.
        outward = sum(a * b for a, b in zip(across, others, strict=True)) / 2
        traction = x * self.surface.normals - np.stack([outward, *(n * a / 2 for a in across)])
        through = flux(points, layers[:3] * areas)
        through -= np.sum(layers[3:] * areas * traction) / PERIOD
        found[0] -= through * 2 / np.pi * (1 - across[0] ** 2 - across[1] ** 2)
        return found


def drag(radius: float, order: int, pipe: Pipe) -> float:
    """Return the drag factor of a sphere at the axis."""
    centre = np.array([[PERIOD / 2], [0.0], [0.0]])
    equation = InPipe(parki.Surface.spheres(centre, radius, order=order), pipe)
    right_side = equation.right_side(np.array([[1.0], [0.0], [0.0]]))
    with parki.Progress(f"radius {radius}") as show:
        velocity, _, _ = solve(equation, right_side, show=show)
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

    centres, turns = placed(given.bodies), Rotation.random(given.bodies, random_state=0)
    surface = parki.Surface.ellipsoids(centres, AXES, turns, order=given.order)
    equation = InPipe(surface, pipe)
    weights = np.tile([[6 * np.pi * AXES[0]], [0.0], [0.0]], given.bodies)  # speed 1 or so, alone
    step, speeds, density = AXES[0] / 2, [], None
    for _ in parki.Progress("falling").over(range(given.steps)):
        push, _ = repulsion(equation)
        velocity, spin, density = solve(equation, equation.right_side(weights + push), density)
        speeds.append(velocity[0])
        centres, turns = centres + step * velocity, Rotation.from_rotvec(step * spin.T) * turns
        equation.update_positions(centres, turns)
    first, last = (float(np.mean(each)) for each in (speeds[0], speeds[-1]))
    print(f"{given.bodies} bodies: mean speed {first:.3f} at first, {last:.3f} at last")
    return found, np.array(speeds)


if __name__ == "__main__":
    main()
