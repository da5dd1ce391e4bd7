"""Brownian spheres with hydrodynamic interactions: mean square displacements at three densities.

    python examples/brownian_suspension.py [--spheres 500] [--steps 200] [--output brownian.png]

Spheres of radius 1 move in a cube that repeats along all axes, by steps of Euler and Maruyama:

    x += M F dt + noise of covariance 2 kT dt M

M is the mobility of Rotne, Prager and Yamakawa, whose divergence is zero. F pushes spheres apart
that overlap. Times are in units of a^2 / D0, where D0 = kT / (6 pi viscosity a) is the diffusion of
a sphere alone. For short times the mean square displacement is 6 D t with

    D / D0 = 1 - 2.837297 a / L + 4 pi a^3 / (3 L^3)

exactly, for this mobility in a cube of edge L: a sphere feels its own images, and the other spheres
change nothing. That is the first check of any such program. Rigid spheres hinder each other at
once, which this mobility leaves out: they have D / D0 = 1 - 1.832 c - 0.219 c^2 at small volume
fractions c (Cichocki, Ekiel-Jezewska and Wajnryb, 1999). Later spheres get into each other's way. A
run goes on from the files of `--restart`, if they exist.
"""

import argparse
import importlib.util
from pathlib import Path

import numpy as np
from rich.progress import Progress
from scipy.spatial import cKDTree

import parki

FRACTIONS = {0.05: "#0072b2", 0.2: "#009e73", 0.4: "#d55e00"}
STEP, STIFF = 0.002, 60.0  # time step, and stiffness of the repulsion in kT / a^2
DRAWS = 20  # of noise, for the diffusion at the shortest times
KT, VISCOSITY = 1.0, 1 / (6 * np.pi)  # D0 = 1
INK, PAPER = "#1d1b2e", "#fbfaf8"


def repulsion(points: np.ndarray, edge: float) -> np.ndarray:
    """Return the forces on spheres that overlap: springs between their centres, (3, N)."""
    wrapped = (points.T % edge) % edge  # the second one for numbers that round up to the edge
    pairs = cKDTree(wrapped, boxsize=edge).query_pairs(2.0, output_type="ndarray")
    r = wrapped[pairs[:, 0]] - wrapped[pairs[:, 1]]
    r -= edge * np.round(r / edge)
    distance = np.linalg.norm(r, axis=1, keepdims=True)
    push = STIFF * KT * (2 / np.maximum(distance, 1e-9) - 1) * r
    forces = np.zeros_like(wrapped)
    np.add.at(forces, pairs[:, 0], push)
    np.add.at(forces, pairs[:, 1], -push)
    return forces.T


def run(count: int, fraction: float, steps: int, progress: Progress, restart: Path | None) -> dict:
    """Return times and mean square displacements, and the diffusion that is exact at first."""
    edge = (4 / 3 * np.pi * count / fraction) ** (1 / 3)
    rng = np.random.default_rng(int(1000 * fraction))
    points = parki.hard_spheres(np.ones(count), periodicity=3, box=3 * [edge], rng=rng)
    moved, squares = np.zeros_like(points), []
    if restart is not None and restart.exists():
        with np.load(restart) as kept:
            points, moved, squares = kept["points"], kept["moved"], list(kept["squares"])
    spheres = parki.Spheres(
        points, 1.0, viscosity=VISCOSITY, periodicity=3, box=3 * [edge], tolerance=1e-3
    )
    # The shortest time there is: noise without forces.
    draws = [spheres.displacements(KT, STEP, rng) for _ in range(DRAWS)]
    first = np.mean([(draw**2).sum(axis=0).mean() for draw in draws]) / (6 * STEP)
    task = progress.add_task(f"fraction {fraction:g}", total=steps, completed=len(squares))
    while len(squares) < steps:
        forces = repulsion(points, edge)
        step = spheres.displacements(KT, STEP, rng, forces)
        points, moved = points + step, moved + step
        spheres.update_points(points)
        squares.append(float((moved**2).sum(axis=0).mean()))
        progress.advance(task)
        if restart is not None and (len(squares) % 20 == 0 or len(squares) == steps):
            np.savez(restart, points=points, moved=moved, squares=squares)
    times = STEP * np.arange(1, steps + 1)
    return {
        "times": times,
        "diffusion": np.array(squares) / (6 * times),
        "first": float(first),
        "exact": 1 - 2.837297 / edge + 4 / 3 * np.pi / edge**3,
        "rigid": 1 - 1.832 * fraction - 0.219 * fraction**2,
    }


def draw(runs: dict[float, dict], path: str) -> None:
    """Draw the mean square displacements over 6 D0 t."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), facecolor=PAPER)
    axes.set_facecolor(PAPER)
    for fraction, found in runs.items():
        colour = FRACTIONS[fraction]
        axes.plot(found["times"], found["diffusion"], color=colour)
        axes.axhline(found["exact"], color=colour, linestyle=":", linewidth=1)
        axes.plot(0, found["rigid"], "o", color=colour, fillstyle="none", clip_on=False)
        end = found["times"][-1], found["diffusion"][-1]
        axes.annotate(f" {fraction:g}", end, color=colour, va="center")
    axes.set(
        xlabel="time, a² / D₀",
        ylabel="mean square displacement / 6 D₀ t",
    )
    axes.set_title("Brownian spheres at three volume fractions", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def main(count: int = 500, steps: int = 200, output: str = "", restart: str = "") -> dict:
    """Run all fractions; return what was found."""
    runs = {}
    with Progress() as progress:
        for fraction in FRACTIONS:
            kept = Path(f"{restart}-{fraction:g}.npz") if restart else None
            runs[fraction] = run(count, fraction, steps, progress, kept)
    print("fraction   D / D0 at first   exact   after all steps   rigid, at first")
    for fraction, found in runs.items():
        first, last = found["first"], found["diffusion"][-1]
        print(
            f"{fraction:8g}   {first:15.3f}   {found['exact']:5.3f}   {last:15.3f}   "
            f"{found['rigid']:15.3f}"
        )
    if output and importlib.util.find_spec("matplotlib") is not None:
        draw(runs, output)
        print(f"picture: {output}")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spheres", type=int, default=500, help="number of spheres (500)")
    parser.add_argument("--steps", type=int, default=200, help="time steps (200)")
    parser.add_argument("--output", default="brownian.png", help="picture (brownian.png)")
    parser.add_argument("--restart", default="", help="beginning of the names of files to go on")
    given = parser.parse_args()
    main(given.spheres, given.steps, given.output, given.restart)
