"""Spheres that settle together: their mean velocity at several volume fractions.

    python examples/sedimenting_spheres.py [--spheres 1000] [--steps 100] [--output settling.png]

Spheres of radius 1 and of the same weight fall in a box that repeats along all axes, where the
fluid that they drag down comes up again between them. So the more they are, the slower they fall.
In units of the velocity U0 of a sphere alone, and for the mobility of Rotne, Prager and Yamakawa,
the mean velocity is

    U / U0 = 2 a / pi * integral over k of (sin(k a) / (k a))^2 S(k)

with the structure factor S of the positions (Brady and Durlofsky, Phys. Fluids 31, 1988). That of
hard spheres in equilibrium, by Percus and Yevick, gives (1 - phi)^3 / (1 + 2 phi) + phi^2 / 5. In a
box with N spheres 1.7601 (phi / N)^(1/3) S(0) is missing. In a cubic array it is exactly
1 - 1.7601 phi^(1/3) + phi: spheres of an array are farther apart than at random, and fall slower.

Each run begins with hard spheres in equilibrium, by Metropolis' rule. Then they fall, and forces
push apart what overlaps. A run goes on from the files of `--restart`, if they exist.
"""

import argparse
import importlib.util
from pathlib import Path

import numpy as np
from rich.progress import Progress
from scipy.spatial import cKDTree

import parki

FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4)
DRAWS, SWEEPS, REACH = 8, 30, 0.6  # positions in equilibrium; moves between, and their lengths
FAR = 0.1  # part of the moves that go anywhere
STEP, STIFF = 0.05, 10.0  # in a / U0, and in weights over a
VISCOSITY = 1 / (6 * np.pi)  # the weight 1 moves a sphere alone with velocity 1
INK, PAPER, RANDOM, ARRAY = "#1d1b2e", "#fbfaf8", "#0072b2", "#d55e00"


def random_array(fraction: float, count: float = np.inf) -> float:
    """Return the mean velocity of hard spheres in equilibrium."""
    whole = (1 - fraction) ** 3 / (1 + 2 * fraction) + fraction**2 / 5
    order = (1 - fraction) ** 4 / (1 + 2 * fraction) ** 2
    return whole - 1.7601 * (fraction / count) ** (1 / 3) * order


def cubic_array(fraction: float) -> float:
    """Return the velocity of a simple cubic array."""
    return 1 - 1.7601 * fraction ** (1 / 3) + fraction


def made(points: np.ndarray, edge: float) -> parki.Spheres:
    """Return spheres in a cube."""
    return parki.Spheres(
        points, 1.0, viscosity=VISCOSITY, periodicity=3, box=3 * [edge], tolerance=1e-3
    )


def lattice(count: int, edge: float) -> np.ndarray:
    """Return the first sites of a cubic lattice, (3, N)."""
    side = int(np.ceil(count ** (1 / 3) - 1e-9))
    return edge / side * np.array(np.unravel_index(np.arange(count), 3 * (side,)))


def shuffle(points: np.ndarray, edge: float, sweeps: int, rng: np.random.Generator) -> None:
    """Move spheres one by one to places near by or anywhere, where these are free."""
    count = points.shape[1]
    for one in rng.integers(count, size=sweeps * count):
        near = points[:, one] + rng.uniform(-REACH, REACH, 3)
        place = near if rng.random() > FAR else edge * rng.random(3)
        apart = points - place[:, None]
        apart -= edge * np.round(apart / edge)
        squares = (apart**2).sum(axis=0)
        squares[one] = 4
        if squares.min() >= 4:
            points[:, one] = place


def forces(points: np.ndarray, edge: float) -> np.ndarray:
    """Return the weights, and springs between spheres that overlap, (3, N)."""
    wrapped = (points.T % edge) % edge  # the second one for numbers that round up to the edge
    pairs = cKDTree(wrapped, boxsize=edge).query_pairs(2.0, output_type="ndarray")
    r = wrapped[pairs[:, 0]] - wrapped[pairs[:, 1]]
    r -= edge * np.round(r / edge)
    push = STIFF * (2 / np.maximum(np.linalg.norm(r, axis=1, keepdims=True), 1e-9) - 1) * r
    found = np.zeros_like(wrapped)
    found[:, 2] = -1
    np.add.at(found, pairs[:, 0], push)
    np.add.at(found, pairs[:, 1], -push)
    return found.T


def run(count: int, fraction: float, steps: int, progress: Progress, restart: Path | None) -> dict:
    """Return mean velocities in equilibrium and at each step, and what there is at the end."""
    edge, rng = (4 / 3 * np.pi * count / fraction) ** (1 / 3), np.random.default_rng(1)
    task = progress.add_task(f"fraction {fraction:g}", total=DRAWS + steps)
    if restart is not None and restart.exists():
        with np.load(restart) as kept:
            points, before = kept["points"], kept["before"]
            first, speeds = list(kept["first"]), list(kept["speeds"])
        spheres = made(points, edge)
    else:
        points, first, speeds, before = lattice(count, edge), [], [], None
        spheres = made(points, edge)
        weights = np.zeros_like(points)
        weights[2] = -1
        while len(first) < DRAWS:
            shuffle(points, edge, SWEEPS * (1 if first else 3), rng)
            spheres.update_points(points)
            first.append(-float(spheres.velocities(weights)[2].mean()))
            progress.advance(task)
    progress.update(task, completed=DRAWS + len(speeds))
    while len(speeds) < steps:
        velocity = spheres.velocities(forces(points, edge))
        speeds.append(-float(velocity[2].mean()))
        # By Adams and Bashforth, of second order.
        points = points + STEP * (1.5 * velocity - 0.5 * (velocity if before is None else before))
        before = velocity
        spheres.update_points(points)
        progress.advance(task)
        if restart is not None and (len(speeds) % 20 == 0 or len(speeds) == steps):
            np.savez(restart, points=points, before=before, first=first, speeds=speeds)
    return {
        "first": first,
        "speeds": speeds,
        "exact": random_array(fraction, count),
        "points": points % edge,
        "velocities": before,
        "edge": edge,
    }


def draw(runs: dict[float, dict], count: int, path: str) -> None:
    """Draw velocities over the volume fraction, and a slice of a suspension that falls."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), facecolor=PAPER)
    found = runs[0.1] if 0.1 in runs else next(iter(runs.values()))
    points, edge, rise = found["points"], found["edge"], found["velocities"][2]
    inside = np.flatnonzero(points[1] < 4)
    inside = inside[np.argsort(-points[1, inside])]
    most = np.abs(rise - rise.mean()).max()
    scale = mpl.cm.ScalarMappable(mpl.colors.Normalize(-most, most), "RdBu_r")
    for one in inside:
        colour = scale.to_rgba(rise[one] - rise.mean())
        left.add_patch(plt.Circle(points[[0, 2], one], 1, color=colour, ec=INK, lw=0.4))
    left.set(xlim=(0, edge), ylim=(0, edge), aspect="equal", xlabel="x / a", ylabel="z / a")
    left.set_title("A slice at volume fraction 0.1", loc="left", fontweight="bold")
    figure.colorbar(scale, ax=left, label="velocity upwards less the mean, over U₀")
    phi = np.linspace(1e-6, 0.45, 300)
    right.plot(phi, random_array(phi), color=RANDOM)
    right.plot(phi, random_array(phi, count), color=RANDOM, linestyle=":")
    right.plot(phi, cubic_array(phi), color=ARRAY)
    given = list(runs)
    first = [np.mean(each["first"]) for each in runs.values()]
    last = [np.mean(each["speeds"][-20:]) for each in runs.values()]
    right.plot(given, first, "o", color=RANDOM, label="in equilibrium")
    right.plot(given, last, "s", color=RANDOM, mfc="none", label="after falling")
    right.plot(given, [array(each) for each in given], "D", color=ARRAY, label="cubic array")
    right.annotate(
        "hard spheres",
        (0.05, random_array(0.05)),
        xytext=(8, 8),
        color=RANDOM,
        textcoords="offset points",
    )
    right.set(xlabel="volume fraction", ylim=(0, 1), xlim=(0, None))
    right.set_title("Mean velocity, over a single sphere's", loc="left", fontweight="bold")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def array(fraction: float) -> float:
    """Return the velocity of a cubic array, by a sphere and its images."""
    edge = (4 / 3 * np.pi / fraction) ** (1 / 3)
    weight = np.array([[0.0], [0.0], [-1.0]])
    return -float(made(np.zeros((3, 1)), edge).velocities(weight)[2, 0])


def main(
    count: int = 1000,
    steps: int = 100,
    output: str = "",
    restart: str = "",
    fractions: tuple[float, ...] = FRACTIONS,
) -> dict:
    """Run all fractions; return what was found."""
    runs = {}
    with Progress() as progress:
        for fraction in fractions:
            kept = Path(f"{restart}-{fraction:g}.npz") if restart else None
            runs[fraction] = run(count, fraction, steps, progress, kept)
    print("fraction   in equilibrium   by theory   after falling   cubic array")
    for fraction, found in runs.items():
        last = np.mean(found["speeds"][-20:])
        print(
            f"{fraction:8g}   {np.mean(found['first']):14.3f}   {found['exact']:9.3f}   "
            f"{last:13.3f}   {array(fraction):11.3f}"
        )
    if output and importlib.util.find_spec("matplotlib") is not None:
        draw(runs, count, output)
        print(f"picture: {output}")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spheres", type=int, default=1000, help="number of spheres (1000)")
    parser.add_argument("--steps", type=int, default=100, help="time steps (100)")
    parser.add_argument("--output", default="settling.png", help="picture (settling.png)")
    parser.add_argument("--restart", default="", help="beginning of the names of files to go on")
    given = parser.parse_args()
    main(given.spheres, given.steps, given.output, given.restart)
