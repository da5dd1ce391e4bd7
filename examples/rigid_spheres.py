"""Rigid spheres: viscosity and short-time diffusion of suspensions, and pairs in shear.

    python examples/rigid_spheres.py [--spheres 108] [--configurations 3] [--output PICTURE]

Hard spheres of radius 1 at random, by a Monte Carlo walk from a lattice, are rigid in a periodic
cube. Their viscosity is their stress in shear. Their diffusion at short times is the mean mobility
of a sphere, here by forces +1 and -1 at random. It is corrected for the images of the spheres in
the box by 1.7601 (phi / N)^(1/3) over the viscosity (Ladd, J. Chem. Phys. 93, 1990). Curves are
fits of the literature to simulations: the viscosity by Saito's formula with 1 + phi - 0.189 phi^2,
and the diffusion by 1 - 1.8315 phi (1 + 0.12 phi - 0.70 phi^2) (Heinen, Banchio and Naegele, J.
Chem. Phys. 135, 2011).

Two spheres in shear come together and part again in free space. Without lubrication they would run
into each other. With it they end at the height at which they began: the flow is reversible.
"""

import argparse
import importlib.util

import numpy as np
from scipy.integrate import solve_ivp

import parki

FRACTIONS = (0.1, 0.2, 0.3, 0.4)
SHEAR = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
HEIGHTS, FAR = (0.6, 1.0, 1.4), 4.0  # at which pairs begin, this far from each other
DIRECTIONS = 8  # sets of forces at random
BLUE, ORANGE, INK = "#0072b2", "#d55e00", "#1d1b2e"


def viscosity(phi: float) -> float:
    """Return the viscosity of the literature, over the fluid's."""
    s = phi * (1 + phi - 0.189 * phi**2)
    return (1 + 1.5 * s) / (1 - s)


def diffusion(phi: float) -> float:
    """Return the short-time diffusion of the literature, over that of a sphere alone."""
    return 1 - 1.8315 * phi * (1 + 0.12 * phi - 0.70 * phi**2)


def hard_spheres(count: int, phi: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return centres (3, N) of hard spheres of radius 1 in a cube, and its edge."""
    edge, side = (4 / 3 * np.pi * count / phi) ** (1 / 3), round((count / 4) ** (1 / 3))
    corners = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).T / 2
    cells = np.mgrid[:side, :side, :side].reshape(3, -1, 1)
    points = (cells + corners[:, None]).reshape(3, -1) * edge / side
    for _ in range(100):
        for i in rng.permutation(points.shape[1]):
            moved = points[:, i] + 0.5 * rng.uniform(-1, 1, 3)
            apart = points - moved[:, None]
            apart -= edge * np.round(apart / edge)
            apart[:, i] = edge
            if (apart**2).sum(axis=0).min() > 4:
                points[:, i] = moved
    return points % edge, edge


def properties(rigid: parki.RigidSpheres, rng: np.random.Generator) -> tuple[float, float]:
    """Return viscosity and short-time diffusion, over the fluid's and those of a sphere alone."""
    count, eta = rigid.radii.size, 0.0
    for one, other in ((0, 1), (1, 2), (2, 0)):
        flow = np.zeros((3, 3))
        flow[one, other] = 1
        eta += (1 + rigid.stress(rigid.solve(gradient=flow))[one, other] / rigid.viscosity) / 3
    mean = 0.0
    for _ in range(DIRECTIONS):
        forces = rng.choice([-1.0, 1.0], (3, count))
        forces -= forces.mean(axis=1, keepdims=True)  # their own sums would move all of them
        mean += float((forces * rigid.velocities(forces)).sum() / (forces**2).sum()) / DIRECTIONS
    fraction = 4 / 3 * np.pi * count / float(np.prod(rigid.options.box))
    images = 1.7601 * (fraction / count) ** (1 / 3)
    return eta, 6 * np.pi * rigid.viscosity * mean + images / eta


def trajectory(height: float, lubrication: bool) -> np.ndarray:
    """Return where one sphere is from the other one, (2, n), from far left to far right."""
    pair = np.array([[-FAR / 2, FAR / 2], [height / 2, -height / 2], [0.0, 0.0]])
    how = {"periodicity": 0, "box": [10, 10, 10], "tolerance": 1e-4, "accuracy": 1e-5}
    # Steps that are tried may overlap, which a roughness allows.
    rigid = parki.RigidSpheres(pair + 5, 1.0, lubrication=lubrication, roughness=1e-6, **how)

    def slope(_: float, apart: np.ndarray) -> np.ndarray:
        pair = 0.5 * np.array([[1, -1], [1, -1], [0, 0]]) * [*apart[:, None], [0.0]]
        rigid.update_points(pair + 5)
        moved = rigid.solve(gradient=SHEAR).velocities + SHEAR @ pair
        return moved[:2, 0] - moved[:2, 1]

    def past(_: float, apart: np.ndarray) -> float:
        return float(apart[0] - FAR)

    past.terminal = True
    start = np.array([-FAR, height])
    how = {"method": "LSODA", "rtol": 1e-6, "atol": 1e-8, "max_step": 1.0}
    return solve_ivp(slope, (0, 100), start, **how, events=past).y


def draw(found: np.ndarray, pairs: list[tuple[np.ndarray, bool]], path: str) -> None:
    """Draw viscosity, diffusion, and trajectories of pairs."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    phi = np.linspace(0, 0.45, 100)
    for axes, curve, rows, name in (
        (panels[0], viscosity, found[:, :, 0], "Viscosity over the fluid's"),
        (panels[1], diffusion, found[:, :, 1], "Short-time diffusion over $D_0$"),
    ):
        axes.plot(phi, [curve(each) for each in phi], color=INK, lw=1, label="literature")
        for values, colour, label in zip(
            rows, (ORANGE, BLUE), ("without lubrication", "with lubrication"), strict=True
        ):
            axes.plot(FRACTIONS, values, "o", color=colour, label=label)
        axes.set_xlabel("volume fraction")
        axes.set_title(name, loc="left", fontweight="bold")
    panels[0].legend(frameon=False)
    for points, lubrication in pairs:
        style = {"color": BLUE} if lubrication else {"color": ORANGE, "ls": "--"}
        panels[2].plot(*points, lw=1.5, **style)
    panels[2].add_patch(plt.Circle((0, 0), 2, color="0.9"))
    panels[2].set(aspect="equal", xlim=(-FAR, FAR), ylim=(-0.3, 3))
    panels[2].set_title("Pairs in shear", loc="left", fontweight="bold")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def main(
    count: int = 108,
    configurations: int = 3,
    output: str = "",
    heights: tuple[float, ...] = HEIGHTS,
) -> np.ndarray:
    """Return viscosities and diffusions, (2, fractions, 2), without and with lubrication."""
    rng = np.random.default_rng(0)
    found = np.zeros((2, len(FRACTIONS), 2))
    with parki.Progress("suspensions", steps=len(FRACTIONS) * configurations) as show:
        for place, phi in enumerate(FRACTIONS):
            for _ in range(configurations):
                points, edge = hard_spheres(count, phi, rng)
                options = parki.EwaldOptions(periodicity=3, box=[edge] * 3, tolerance=1e-3)
                for lubrication in (False, True):
                    rigid = parki.RigidSpheres(points, 1.0, options, lubrication=lubrication)
                    found[int(lubrication), place] += np.array(properties(rigid, rng))
                show()
    found /= configurations
    print("fraction   viscosity, literature   diffusion, literature")
    for phi, (eta, mean) in zip(FRACTIONS, found[1], strict=True):
        print(f"{phi:8}   {eta:9.3f}  {viscosity(phi):10.3f}   {mean:9.3f}  {diffusion(phi):10.3f}")
    if output and importlib.util.find_spec("matplotlib") is not None:
        pairs = [(trajectory(height, each), each) for height in heights for each in (False, True)]
        draw(found, pairs, output)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spheres", type=int, default=108)
    parser.add_argument("--configurations", type=int, default=3)
    parser.add_argument("--output", default="rigid_spheres.png", help="picture")
    arguments = parser.parse_args()
    main(arguments.spheres, arguments.configurations, arguments.output)
