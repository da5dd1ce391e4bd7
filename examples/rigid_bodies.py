"""Rigid bodies that settle in a periodic box, by a completed double layer and GMRES.

    python examples/rigid_bodies.py [--bodies 216] [--steps 20] [--space CPU]

`parki.RigidSurfaces` has the integral equation, and docs/boundary_integrals.md explains it. It is
of the second kind: GMRES takes a few steps, whatever the number of nodes. Bodies cross the faces of
the box, and their nodes stay together. Velocities are right however close bodies are, but densities
need more nodes in narrow gaps: a force between close nodes keeps bodies apart.

First, the program computes the drag on spheres of cubic arrays. A. A. Zick, G. M. Homsy, Journal of
Fluid Mechanics 115, 13-26 (1982). A. S. Sangani, A. Acrivos, International Journal of Multiphase
Flow 8, 343-360 (1982). H. Hasimoto, Journal of Fluid Mechanics 5, 317-328 (1959).
"""

import argparse
import importlib.util
import inspect
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyval
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from scipy.spatial.transform import Rotation

import parki

# Positions of spheres in the unit box; the coefficients of c^(1/3) and of c^2 in Hasimoto's dilute
# expansion 1 / K = 1 - A c^(1/3) + c - B c^2; and drag factors of Zick and Homsy by solid fraction.
ARRAYS = {
    "simple": ([[0, 0, 0]], 1.7601, 1.5593),
    "body-centred": ([[0, 0, 0], [0.5, 0.5, 0.5]], 1.7918, 0.3292),
    "face-centred": ([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]], 1.7917, 0.3020),
}
CLOSE_PACKED = {"simple": np.pi / 6, "body-centred": np.sqrt(3) * np.pi / 8}  # solid fractions
# Sangani and Acrivos: K is a polynomial of the cube root of the solid fraction over the
# close-packed one. The first row is as open lattice-Boltzmann programs reprint it, the second is
# from memory. K as computed here, with 11 digits at 35 fractions, confirms each coefficient of the
# first, and the second except for 0.003 in the coefficient of power 14, or 0.002 in the one before,
# which is 2e-6 in K. No row of face-centred arrays was at hand.
# fmt: off
SANGANI_ACRIVOS = {
    "simple": [
        1, 1.418649, 2.012564, 2.331523, 2.564809, 2.584787, 2.873609, 3.340163, 3.536763, 3.504092,
        3.253622, 2.689757, 2.037769, 1.809341, 1.877347, 1.534685, 0.9034708, 0.2857896,
        -0.5512626, -1.278724, 1.013350, 5.492491, 4.615388, -0.5736023, -2.865924, -4.709215,
        -6.870076, 0.1455304, 12.51891, 9.742811, -5.566269,
    ],
    "body-centred": [
        1, 1.575834, 2.483254, 3.233022, 4.022864, 4.650320, 5.281412, 5.826374, 6.258376, 6.544504,
        6.878396, 7.190839, 7.268068, 7.304025, 7.301217, 7.2364107, 7.298014, 7.369849, 7.109497,
        6.228418, 5.235796, 4.476874, 3.541982, 2.939353, 3.935484, 5.179097, 3.959872, 2.227627,
        3.393390, 4.491369, 2.200686,
    ],
}
# fmt: on
ZICK_HOMSY = {0.027: 2.008, 0.064: 2.810, 0.125: 4.292, 0.216: 7.442, 0.343: 15.4}
AXES = {"spheres": (0.25, 0.25, 0.25), "ellipsoids": (0.35, 0.22, 0.2)}  # in lattice steps
REACH, STIFFNESS = 2.5, 1.5 * np.pi  # of nodes: in their steps, and a quarter of a weight
RTOL = 1e-5
INK, PAPER, BLUE, RED, GREEN = "#1d1b2e", "#fbfaf8", "#2f5d8c", "#c2452d", "#2e7d5b"


def host(array: Any) -> np.ndarray:
    """Return an array of NumPy."""
    return array if isinstance(array, np.ndarray) else array.get()


def solve(
    equation: Any, right_side: Any, guess: Any = None, show: Any = None
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return velocities and angular velocities (3, B), and the density, for viscosity 1.

    Raises
    ------
    SystemExit
        If GMRES does not converge.
    """
    if isinstance(right_side, np.ndarray):
        from scipy.sparse.linalg import gmres

        rounds = {"restart": 30, "maxiter": 2}
    else:
        from cupyx.scipy.sparse.linalg import gmres

        # CuPy takes all steps of a round before it computes the residual, and counts steps.
        rounds = {"restart": 8, "maxiter": 80}
    name = "rtol" if "rtol" in inspect.signature(gmres).parameters else "tol"  # older CuPy
    density, status = gmres(
        equation.as_linear_operator(),
        right_side.ravel(),
        x0=guess,
        M=equation.preconditioner(),
        **{name: RTOL, **rounds},
        callback=show or parki.Progress("GMRES"),
        callback_type="pr_norm",
    )
    if status != 0:
        raise SystemExit("GMRES did not converge; bodies may be too close for their nodes")
    velocity, spin = equation.motion(density.reshape(3, -1))
    return host(velocity), host(spin), density


def repulsion(equation: Any) -> tuple[Any, float]:
    """Return forces (3, B) that keep bodies apart, and the least gap in steps of the nodes.

    Two nodes of different bodies push the bodies apart if they are closer than `REACH` steps.
    """
    surface, xp = equation.surface, equation.surface.xp
    step = float(xp.sqrt(surface.areas.mean()))
    options = equation.layer.options
    pairs = parki.near_pairs(surface.nodes, surface.nodes, REACH * step, options)
    pushed, apart = surface.body[pairs.targets], pairs.distances / step
    other = pushed != surface.body[pairs.indices]
    push = STIFFNESS * (1 - apart / REACH) * pairs.displacements / pairs.distances * other
    forces = [xp.bincount(pushed, row, minlength=surface.kinds.size) for row in push]
    near = apart[other]
    return xp.stack(forces), float(near.min()) if near.size else REACH


def drag(array: str, fraction: float, order: int) -> tuple[float, int]:
    """Return the drag factor K = F / (6 pi U) of unit spheres in an array, and steps of GMRES."""
    places = np.array(ARRAYS[array][0], dtype=float).T
    count = places.shape[1]
    edge = float((4 * np.pi * count / (3 * fraction)) ** (1 / 3))
    # The first sphere is at a corner of the box, so that its nodes are beyond three faces.
    spheres = parki.Surface.spheres(edge * places, 1.0, order=order)
    equation = parki.RigidSurfaces(spheres, periodicity=3, box=[edge] * 3, tolerance=1e-6)
    with parki.Progress(f"{array}, {fraction}", rtol=RTOL) as show:
        up = np.tile([[0.0], [0.0], [1.0]], count)
        velocity, _, _ = solve(equation, equation.right_side(up), show=show)
    return float(1 / (6 * np.pi * velocity[2].mean())), show.count


def dilute(array: str, fraction: Any) -> Any:
    """Return Hasimoto's expansion of 1 / K for small solid fractions."""
    _, first, second = ARRAYS[array]
    return 1 - first * fraction ** (1 / 3) + fraction - second * fraction**2


def series(array: str, fraction: Any) -> Any:
    """Return K by the series of Sangani and Acrivos, which lacks the powers from 31 on."""
    return polyval(np.cbrt(fraction / CLOSE_PACKED[array]), SANGANI_ACRIVOS[array])


def suspension(bodies: int, order: int, space: Any) -> tuple[Any, np.ndarray]:
    """Return bodies near the sites of a cubic lattice, in random order, and their half axes (3, B).

    Half of them are spheres.
    """
    edge = int(np.ceil(bodies ** (1 / 3)))
    rng = np.random.default_rng(0)
    sites = np.indices((edge, edge, edge)).reshape(3, -1)[:, rng.permutation(edge**3)[:bodies]]
    centres = sites + rng.uniform(-0.06, 0.06, (3, bodies))
    half = bodies // 2
    axes = np.repeat(np.array(list(AXES.values())).T, [half, bodies - half], axis=1)
    turns, xp = Rotation.random(bodies, random_state=0), parki.utils.get_array_module(space)
    surface = parki.Surface.ellipsoids(xp.asarray(centres), axes, turns, order=order)
    more = {"periodicity": 3, "box": [float(edge)] * 3, "tolerance": 1e-4, "accuracy": 1e-4}
    return parki.RigidSurfaces(surface, **more), axes


@dataclass
class Settling:
    """What bodies did in each step: heights, not wrapped, mean speeds, and steps of GMRES.

    The least gap is in steps of the nodes; the velocity (3, B) is the last one.
    """

    heights: list[np.ndarray]
    speeds: list[float]
    iterations: list[int]
    gap: float
    velocity: np.ndarray


def settle(equation: Any, steps: int, step: float = 0.06) -> Settling:
    """Take steps by the Adams-Bashforth rule of second order; weights are 6 pi, downwards."""
    centres, xp = equation.surface.centres, equation.surface.xp
    turns = Rotation.from_matrix(equation.surface.frames)
    weights = xp.asarray(np.tile([[0.0], [0.0], [-6 * np.pi]], centres.shape[1]))
    edges = np.array(equation.layer.options.box)[:, None]
    record, fallen = Settling([], [], [], np.inf, np.empty(0)), centres[2].copy()
    before: Any = None
    density = None
    for _ in parki.Progress("settling").over(range(steps)):
        show = parki.Progress("GMRES")
        push, gap = repulsion(equation)
        velocity, spin, density = solve(
            equation, equation.right_side(weights + push), density, show
        )
        record.gap = min(record.gap, gap)
        record.heights.append(fallen.copy())
        record.speeds.append(float(-velocity[2].mean()))
        record.iterations.append(show.count)
        old_velocity, old_spin = before or (velocity, spin)
        move = step * (1.5 * velocity - 0.5 * old_velocity)
        fallen += move[2]
        # Centres come back into the box, and the nodes of each body follow its centre.
        centres = (centres + move) % edges
        turns = Rotation.from_rotvec(step * (1.5 * spin - 0.5 * old_spin).T) * turns
        before, record.velocity = (velocity, spin), velocity
        equation.update_positions(centres, turns)
    return record


def draw(
    picture: str, factors: dict[str, dict[float, float]], equation: Any, axes: np.ndarray, run: Any
) -> None:
    """Draw the drag factors, and the bodies from the side with their speeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    figure = Figure(figsize=(11.5, 5.2), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    left = figure.add_axes((0.065, 0.125, 0.40, 0.76), facecolor=PAPER)
    thin, wide = np.linspace(1e-3, 0.6, 200), np.linspace(0, 0.7, 200)
    styles = zip((BLUE, RED, GREEN), (9, 6, 3), strict=True)
    for (array, found), (colour, size) in zip(factors.items(), styles, strict=True):
        at = np.cbrt(list(found))
        left.plot(at, list(found.values()), "o", color=colour, markersize=size, label=array)
        left.plot(thin, 1 / dilute(array, thin**3), "--", color=colour, linewidth=1.2)
        if array in SANGANI_ACRIVOS:
            left.plot(wide, series(array, wide**3), color=colour, linewidth=1.2)
    left.plot(
        np.cbrt(list(ZICK_HOMSY)), list(ZICK_HOMSY.values()), "o", markersize=12,
        markerfacecolor="none", markeredgecolor=INK, label="Zick and Homsy, simple",
    )  # fmt: skip
    left.set(xlabel="cube root of the solid fraction", xlim=(0, 0.75), ylim=(1, 20), yscale="log")
    left.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    left.minorticks_off()
    left.grid(color=INK, alpha=0.12)
    left.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, loc="upper left")
    left.set_title("Drag factor K of cubic arrays", loc="left", fontweight="bold")

    right = figure.add_axes((0.53, 0.125, 0.76 * 5.2 / 11.5, 0.76), facecolor=PAPER)
    scale, edge = (
        Normalize(*np.percentile(-run.velocity[2], [2, 98])),
        equation.layer.options.box[0],
    )
    colours = ScalarMappable(scale, "viridis")
    bodies = equation.surface
    frames, centres, angle = bodies.frames, bodies.centres, np.linspace(0, 2 * np.pi, 60)
    for i in np.argsort(-centres[1]):  # from the back to the front
        # The outline of an ellipsoid E S^2 seen along y: the ellipse of the matrix E E^T.
        spread_of = frames[i] * axes[:, i]
        seen = np.linalg.cholesky((spread_of @ spread_of.T)[np.ix_([0, 2], [0, 2])])
        outline = seen @ [np.cos(angle), np.sin(angle)] + centres[[0, 2], i, None]
        for shift in itertools.product((-edge, 0, edge), repeat=2):
            right.add_patch(
                Polygon(
                    outline.T + shift,
                    facecolor=colours.to_rgba(-run.velocity[2, i]),
                    edgecolor=INK,
                    linewidth=0.5,
                )
            )
    right.set(
        xlim=(0, edge), ylim=(0, edge), aspect="equal", xlabel="x", ylabel="z; weight pulls down"
    )
    title = f"{bodies.centres.shape[1]} bodies in a periodic box"
    right.set_title(title, loc="left", fontweight="bold")
    bar = figure.colorbar(colours, cax=figure.add_axes((0.90, 0.125, 0.012, 0.76)), extend="both")
    bar.outline.set_visible(False)
    bar.set_label("speed of falling", color=INK)
    figure.savefig(picture, facecolor=PAPER)


def main(words: list[str] | None = None) -> tuple[dict[str, dict[float, float]], Settling]:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--bodies", type=int, default=216)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--order", type=int, default=6, help="degree of a settling body's density")
    parser.add_argument("--array-order", type=int, default=16, help="the same for cubic arrays")
    parser.add_argument("--space", default="CPU", help="where to compute: CPU, or GPU")
    parser.add_argument("--output", default="rigid_bodies.png", help="picture; '' draws nothing")
    given = parser.parse_args(words)

    table = Table(title="Drag factor K of cubic arrays of spheres", box=SIMPLE, pad_edge=False)
    heads = ["solid", "simple", "Zick,\nHomsy", "Sangani,\nAcrivos", "body-\ncentred"]
    for head in [*heads, "Sangani,\nAcrivos", "face-\ncentred", "Hasimoto"]:
        table.add_column(head, justify="right")
    factors: dict[str, dict[float, float]] = {array: {} for array in ARRAYS}
    steps = []
    for fraction, known in ZICK_HOMSY.items():
        for array, found in factors.items():
            found[fraction], count = drag(array, fraction, given.array_order)
            steps.append(count)
        simple, body, face = (found[fraction] for found in factors.values())
        row = [simple, known, series("simple", fraction), body, series("body-centred", fraction)]
        row += [face, 1 / dilute("face-centred", fraction)]
        table.add_row(str(fraction), *(f"{value:.4f}" for value in row))
    Console().print(table)
    print(f"GMRES takes {min(steps)} to {max(steps)} steps")

    equation, axes = suspension(given.bodies, given.order, given.space)
    print(f"{given.bodies} bodies, {equation.surface.areas.size} nodes")
    run = settle(equation, given.steps)
    fallen = float(np.mean(run.heights[0] - run.heights[-1]))
    print(f"mean speed {run.speeds[0]:.3f} at first, {run.speeds[-1]:.3f} at last")
    height = equation.layer.options.box[2]
    print(f"mean fall {fallen:.2f}, in a box of {height:g}; least gap {run.gap:.1f} node steps")
    print(f"steps of GMRES: {run.iterations[0]} at first, {run.iterations[-1]} at last")
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(given.output, factors, equation, axes, run)
        print(f"Picture: {given.output}")
    return factors, run


if __name__ == "__main__":
    main()
