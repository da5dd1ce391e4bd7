"""A Brownian monolayer between two walls: spheres that sink to the lower one, and move along it.

    python examples/monolayer.py [--spheres 324] [--steps 200] [--output monolayer.png]

Spheres of radius 1 are between walls at z = 0 and z = H. Their weight W pulls them down, both walls
repel them at short range, and spheres that overlap push each other apart. Steps are those of Euler
and Maruyama: x += M F dt + noise of covariance 2 kT dt M + kT dt div M. `Spheres.displacements` has
all three parts; near walls the divergence is not zero, and without it spheres would gather there.
Times are in units of a^2 / D0, where D0 = kT / (6 pi viscosity a) is the diffusion of a sphere far
from all others.

In equilibrium the heights of spheres that are far from each other have the density exp(-U / kT),
where U is the potential of the weight and of the walls, so that their mean is known. Along the
walls a sphere diffuses as one does that is alone at its height, for short times: here by 0.6 of D0.
"""

import argparse
import importlib.util
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

import parki

HEIGHT, COVER = 6.0, 0.35  # of the upper wall, and the part of the lower one that spheres cover
KT, VISCOSITY, STEP = 1.0, 1 / (6 * np.pi), 0.004
WEIGHT, WALL, DECAY = 5.0, 20.0, 0.1  # in kT: weight, and potential at contact, which decays
STIFF = 60.0  # of what pushes spheres apart
DRAWS = 20  # of noise, for the diffusion at the shortest times
INK, PAPER = "#1d1b2e", "#fbfaf8"


class Result(NamedTuple):
    """Mean heights and their value in equilibrium, and diffusion along the walls over D0."""

    heights: np.ndarray
    expected: float
    diffusion: float
    alone: float


def potential(z: np.ndarray) -> np.ndarray:
    """Return the potential of a sphere at heights, over kT."""
    walls = np.exp(-(z - 1) / DECAY) + np.exp(-(HEIGHT - 1 - z) / DECAY)
    return WEIGHT * z + WALL * walls


def forces_on(points: np.ndarray, edge: float) -> np.ndarray:
    """Return the forces (3, N) of the weight, the walls and the other spheres."""
    flat = np.stack([*(points[:2] % edge) % edge, points[2]], axis=1)
    pairs = cKDTree(flat, boxsize=[edge, edge, 1e3]).query_pairs(2.0, output_type="ndarray")
    apart = flat[pairs[:, 0]] - flat[pairs[:, 1]]
    apart[:, :2] -= edge * np.round(apart[:, :2] / edge)
    distance = np.linalg.norm(apart, axis=1, keepdims=True)
    push = STIFF * KT * (2 / np.maximum(distance, 1e-9) - 1) * apart
    forces = np.zeros_like(flat)
    np.add.at(forces, pairs[:, 0], push)
    np.add.at(forces, pairs[:, 1], -push)
    z = points[2]
    walls = np.exp(-(z - 1) / DECAY) - np.exp(-(HEIGHT - 1 - z) / DECAY)
    forces[:, 2] += KT * (WALL / DECAY * walls - WEIGHT)
    return forces.T


def draw(track: np.ndarray, edge: float, path: str) -> None:
    """Draw tracks (T, 3, N) from above, coloured by height, and the heights over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Circle

    figure, (top, side) = plt.subplots(
        1, 2, figsize=(10, 5.2), width_ratios=[1.35, 1], layout="constrained", facecolor=PAPER
    )
    how = {"cmap": "viridis", "norm": plt.Normalize(1, 2.5)}
    last, lines = track[-1], np.swapaxes(track[:, :2], 1, 2)
    shifts = edge * np.floor(last[:2].T / edge)
    for image in np.indices((3, 3)).reshape(2, -1).T - 1:
        where = last[:2].T - shifts + edge * image
        seen = ((where > -1) & (where < edge + 1)).all(axis=1)
        discs = PatchCollection([Circle(place, 1.0) for place in where[seen]], alpha=0.35, lw=0)
        discs.set(array=last[2, seen], **how)
        top.add_collection(discs)
        along = (lines - shifts + edge * image)[:, seen]
        for part in range(0, len(track) - 1, 4):
            pieces = np.swapaxes(along[part : part + 5], 0, 1)
            heights = track[part, 2, seen]
            top.add_collection(LineCollection(pieces, array=heights, lw=0.9, **how))
    top.set(xlim=(0, edge), ylim=(0, edge), aspect="equal", xlabel="x / a", ylabel="y / a")
    top.set_title("From above: spheres and their tracks", loc="left")
    times = STEP * np.arange(len(track))
    side.plot(times, track[:, 2, ::5], color="#1f6f8b", lw=0.5, alpha=0.35)
    side.plot(times, track[:, 2].mean(axis=1), color=INK, lw=2, label="mean")
    side.axhline(equilibrium(), color="#c4622d", ls="--", lw=1.5, label="mean in equilibrium")
    side.axhspan(0, 1, color="0.85")
    side.text(times[-1] / 2, 0.5, "closer than a radius to the wall", ha="center", va="center")
    side.set(xlabel="time, a² / D₀", ylabel="height / a", ylim=(0, 3.2), xlim=(0, times[-1]))
    side.set_title("Heights over the lower wall", loc="left")
    side.legend(frameon=False)
    side.spines[["top", "right"]].set_visible(False)
    figure.colorbar(discs, ax=top, label="height / a", shrink=0.8)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def equilibrium() -> float:
    """Return the mean height of a sphere that is far from all others."""
    z = np.linspace(1, HEIGHT - 1, 20001)
    weights = np.exp(potential(z).min() - potential(z))
    return float((weights * z).sum() / weights.sum())


def main(count: int = 324, steps: int = 200, output: str = "") -> Result:
    """Let the spheres sink; return what was found."""
    side = int(np.ceil(count**0.5))
    edge = (np.pi * side**2 / COVER) ** 0.5
    rng = np.random.default_rng(0)
    places = (np.indices((side, side)).reshape(2, -1)[:, :count] + 0.5) * edge / side
    points = np.stack([*places, rng.uniform(1.3, 2.5, count)])
    how = {"periodicity": 2, "box": (edge, edge, HEIGHT), "wall": ("no-slip", "no-slip")}
    how |= {"viscosity": VISCOSITY, "tolerance": 1e-3}
    spheres, track = parki.Spheres(points, 1.0, **how), [points]
    for _ in range(steps):
        points = points + spheres.displacements(KT, STEP, rng, forces_on(points, edge))
        spheres.update_points(points)
        track.append(points)
    moves = [spheres.displacements(KT, STEP, rng)[:2] for _ in range(DRAWS)]
    diffusion = np.mean(np.square(moves)) / (2 * STEP)
    alone = [
        parki.Spheres([[0.0], [0.0], [z]], 1.0, **how).velocities([[1.0], [0.0], [0.0]])[0, 0]
        for z in np.quantile(points[2], (np.arange(8) + 0.5) / 8)
    ]
    heights = np.array([each[2].mean() for each in track])
    found = Result(heights, equilibrium(), float(diffusion), float(np.mean(alone)))
    print(f"mean height: {heights[0]:.3f} at first, {heights[-1]:.3f} after {steps} steps,")
    print(f"             {found.expected:.3f} in equilibrium, of a sphere far from all others")
    print(f"diffusion along the walls: {diffusion:.3f} D0; of a sphere alone: {found.alone:.3f} D0")
    if output and importlib.util.find_spec("matplotlib") is not None:
        draw(np.array(track), edge, output)
        print(f"picture: {output}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spheres", type=int, default=324, help="number of spheres (324)")
    parser.add_argument("--steps", type=int, default=200, help="time steps (200)")
    parser.add_argument("--output", default="monolayer.png", help="picture (monolayer.png)")
    given = parser.parse_args()
    main(given.spheres, given.steps, given.output)
