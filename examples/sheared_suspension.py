"""Spheres in simple shear: a box that deforms, and the viscosity of the suspension.

    python examples/sheared_suspension.py [--spheres 2000] [--steps 100] [--output sheared.png]

The flow y e_x shears a box that repeats along all axes. Its second lattice vector leans by the
strain, and each step gives the plans the present box (Lees and Edwards, 1972). A sphere that
leaves through the top comes back through the bottom, where the flow is slower by the height of the
box: its velocity jumps, the velocity relative to the flow does not.

Spheres of radius 1 do not deform: their stresslets S make flows that undo the strain of the shear,
averaged over each sphere by a Gaussian (the force coupling method of Lomholt and Maxey, J. Comput.
Phys. 184, 2003). A sphere alone has S_0 = 20/3 pi times the strain, in units of the fluid's
viscosity. Springs push apart what overlaps, by the mobility of Rotne, Prager and Yamakawa. The
viscosity over the fluid's is

    1 + 5/2 phi <S_xy> / S_0 - sum over pairs of r_y F_x / V

The first two terms are compared with 1 + 5/2 phi / (1 - phi), of
dipoles at random (Saito, J. Phys. Soc. Japan 5, 1950), and 1 + 5/2 phi + 5.2 phi^2 of spheres at
random (Batchelor, J. Fluid Mech. 83, 1977). What springs add grows with their stiffness.
"""

import argparse
import importlib.util
from typing import NamedTuple

import numpy as np
from rich.progress import Progress

import parki

FRACTIONS = (0.05, 0.1, 0.2, 0.3)
STEP, STIFF = 0.02, 30.0  # strain of a step; force at full overlap, over viscosity a^2 and rate
SOLVED, MOST = 1e-3, 50  # relative residual at which stresslets are found; most iterations
ALONE = 20 / 3 * np.pi
WIDTH = (10 / 3 / np.pi**0.5) ** (1 / 3)  # of the blob by which a sphere alone has S_0
INK, PAPER, BLUE, ORANGE = "#1d1b2e", "#fbfaf8", "#0072b2", "#d55e00"


def saito(fraction: float) -> float:
    """Return the viscosity of dipoles at random."""
    return 1 + 2.5 * fraction / (1 - fraction)


def batchelor(fraction: float) -> float:
    """Return the viscosity of spheres at random, to the square of their fraction."""
    return 1 + 2.5 * fraction + 5.2 * fraction**2


class Run(NamedTuple):
    """Viscosities of all steps, by flow and by springs; and the suspension at the end."""

    flow: list[float]
    springs: list[float]
    points: np.ndarray
    box: np.ndarray


def box_at(edge: float, strain: float) -> np.ndarray:
    """Return the lattice vectors of a cube after a strain."""
    return parki.lattice(edge, edge, edge, xy=strain * edge)


def wrapped(points: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return points in the box, (3, N): a period along y moves them along x, too."""
    return points - box.T @ np.floor(np.linalg.solve(box.T, points))


def springs(points: np.ndarray, box: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the forces between spheres that overlap, (3, N), and minus the sum of r_y F_x."""
    pairs = parki.near_pairs(points, points, 2.0, periodicity=3, box=box)
    r, distance = pairs.displacements, pairs.distances
    push = STIFF * (2 - distance) / distance * r
    forces = np.zeros_like(points)
    for row, each in zip(forces, push, strict=True):
        np.add.at(row, pairs.targets, each)
    return forces, -0.5 * float((r[1] * push[0]).sum())  # each pair is there twice


def stresslets(plan: parki.Plan, guess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the tensors of rigid spheres in shear, (3, 3, N), and the velocities they make.

    By conjugate gradients, as the strain of stresslets is symmetric and undoes them.
    """

    def undone(tensors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        velocity, gradient = (each / (8 * np.pi) for each in plan(-tensors))
        return velocity, -(gradient + gradient.swapaxes(0, 1)) / 2

    strain = np.zeros_like(guess)
    strain[0, 1] = strain[1, 0] = 0.5
    found = guess.copy()
    velocity, image = undone(found)
    rest = strain - image
    way, square = rest, (rest**2).sum()
    for _ in range(MOST):
        if square < SOLVED**2 * (strain**2).sum():
            break
        moved, image = undone(way)
        step = square / (way * image).sum()
        found, velocity, rest = found + step * way, velocity + step * moved, rest - step * image
        before, square = square, (rest**2).sum()
        way = rest + square / before * way
    return found, velocity


def run(count: int, fraction: float, steps: int, progress: Progress) -> Run:
    """Shear spheres that are at random at first."""
    edge, rng = (4 / 3 * np.pi * count / fraction) ** (1 / 3), np.random.default_rng(1)
    task = progress.add_task(f"fraction {fraction:g}", total=steps)
    box = box_at(edge, 0.0)
    how = {"periodicity": 3, "box": box, "tolerance": 1e-3}
    points = parki.hard_spheres(np.ones(count), rng=rng, **how)
    spheres = parki.Spheres(points, 1.0, **how)
    dipoles = parki.kernel("stokes_dipole", epsilon=WIDTH)
    plan = parki.Plan(dipoles, points, points, want=("u", "grad_u"), **how)
    tensors = np.zeros((3, 3, count))
    tensors[0, 1] = tensors[1, 0] = ALONE / 2
    flow, contact = [], []
    for step in range(steps):
        points, box = wrapped(points, box), box_at(edge, step * STEP)
        spheres.update_points(points, box=box)
        plan.update_points(points, points, box=box)
        forces, virial = springs(points, box)
        tensors, velocity = stresslets(plan, tensors)
        velocity += spheres.velocities(forces)
        flow.append(1 + 2.5 * fraction * float(tensors[0, 1].mean()) / (ALONE / 2))
        contact.append(virial / edge**3)
        points = points + STEP * velocity
        points[0] += STEP * (points[1] - 0.5 * STEP * velocity[1])  # the shear
        progress.advance(task)
    box = box_at(edge, steps * STEP)
    return Run(flow, contact, wrapped(points, box), box)


def draw(runs: dict[float, Run], path: str) -> None:
    """Draw a slice of a sheared suspension, and viscosities over the volume fraction."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), facecolor=PAPER)
    found = list(runs.values())[-1]
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) @ found.box[:2, :2]
    left.plot(*corners.T, color=INK)
    for x, y, z in found.points.T:
        if abs(z - 1) < 1:  # the plane z = 1 cuts it
            colour = mpl.cm.viridis(y / found.box[1, 1])
            radius = (1 - (z - 1) ** 2) ** 0.5
            left.add_patch(plt.Circle((x, y), radius, facecolor=colour, edgecolor=INK))
    left.set(aspect="equal", xlabel="x / a", ylabel="y / a")
    left.set_title(f"A cut at volume fraction {list(runs)[-1]:g}", loc="left", fontweight="bold")
    phi = np.linspace(0, 1.1 * max(runs), 200)
    right.plot(phi, saito(phi), color=BLUE, label="dipoles at random (Saito)")
    right.plot(phi, batchelor(phi), color=INK, linestyle=":", label="to second order (Batchelor)")
    flow, both = averages(runs)
    right.plot(list(runs), flow, "o", color=BLUE, label="stresslets")
    right.plot(list(runs), both, "s", color=ORANGE, label="stresslets and springs")
    right.set(xlabel="volume fraction", xlim=(0, None))
    right.set_title("Viscosity over the fluid's", loc="left", fontweight="bold")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def averages(runs: dict[float, Run]) -> tuple[list[float], list[float]]:
    """Return mean viscosities over the second half of each run, without springs and with them."""
    flow = [float(np.mean(each.flow[len(each.flow) // 2 :])) for each in runs.values()]
    more = [float(np.mean(each.springs[len(each.springs) // 2 :])) for each in runs.values()]
    return flow, [a + b for a, b in zip(flow, more, strict=True)]


def main(
    count: int = 2000,
    steps: int = 100,
    output: str = "",
    fractions: tuple[float, ...] = FRACTIONS,
) -> dict[float, Run]:
    """Shear all suspensions; return what was found."""
    with Progress() as progress:
        runs = {each: run(count, each, steps, progress) for each in fractions}
    print(f"strain {steps * STEP:g}")
    print("fraction   stresslets   with springs   Saito   Batchelor")
    for fraction, flow, both in zip(runs, *averages(runs), strict=True):
        print(
            f"{fraction:8g}   {flow:10.3f}   {both:12.3f}   {saito(fraction):5.3f}   "
            f"{batchelor(fraction):9.3f}"
        )
    if output and importlib.util.find_spec("matplotlib") is not None:
        draw(runs, output)
        print(f"picture: {output}")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spheres", type=int, default=2000, help="number of spheres (2000)")
    parser.add_argument("--steps", type=int, default=100, help="time steps (100)")
    parser.add_argument("--output", default="sheared.png", help="picture (sheared.png)")
    given = parser.parse_args()
    main(given.spheres, given.steps, given.output)
