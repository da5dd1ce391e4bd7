"""Squirmers: spheres that swim by the slip of the fluid along their surfaces, as blobs.

    python examples/squirmers.py [--blobs 162] [--output squirmers.png]

The slip is (B1 sin(theta) + B2 sin(theta) cos(theta)) along theta, the angle to the direction of
swimming. A squirmer swims at 2 B1 / 3, whatever B2 is. With B2 < 0 it pushes the fluid away ahead
and behind, and with B2 > 0 it pulls. In units of its radius a, the flow around it is

    u_r = 2/3 B1 cos(theta) / r^3 + B2 (1 / r^4 - 1 / r^2) (3 cos^2(theta) - 1) / 2,
    u_theta = 1/3 B1 sin(theta) / r^3 + B2 sin(theta) cos(theta) / r^4

(Blake, Journal of Fluid Mechanics 46, 199-208, 1971), and the stresslet on the fluid
-4 pi viscosity a^2 B2 (e e - I/3). The program compares the flow of blobs with this one. Between
blobs fluid leaks through the surface, so that the part that falls as 1 / r^3 is too weak near by.
"""

import argparse
import importlib.util
from typing import Any

import numpy as np

import parki

KINDS = {"pusher": -3.0, "neutral": 0.0, "puller": 3.0}  # B2 over B1, which is 1
UP = np.array([[0.0], [0.0], [1.0]])
EXTENT = 4.0
INK, PAPER, BLUE = "#1d1b2e", "#fbfaf8", "#2f5d8c"


def exact(points: Any, second: float) -> Any:
    """Return the flow at points (3, ...) around a squirmer at the origin that swims upwards."""
    r = np.maximum(np.linalg.norm(points, axis=0), 0.1)
    out = points / r
    cosine, sine = out[2], np.hypot(out[0], out[1])
    along = out * cosine / np.maximum(sine, 1e-12)  # of theta
    along[2] = -sine
    radial = 2 / 3 * cosine / r**3 + second * (r**-4.0 - r**-2.0) * (3 * cosine**2 - 1) / 2
    return radial * out + (sine / 3 / r**3 + second * sine * cosine / r**4) * along


def swimmer(blobs: int) -> parki.RigidBodies:
    """Return a squirmer in free space, in a box that its flow is asked in."""
    ball, middle = parki.BodyShape.sphere(1.0, blobs), np.full((3, 1), EXTENT)
    box = 3 * [2 * EXTENT]
    return parki.RigidBodies(ball, middle, periodicity=0, box=box, tolerance=1e-5)


def swim(bodies: parki.RigidBodies, second: float) -> parki.dynamics.BodyMotion:
    """Return the motion by the slip of both modes."""
    (ball,) = bodies.shapes
    out = ball.blobs / np.linalg.norm(ball.blobs, axis=0)
    slip = (out * out[2] - UP) * (1 + second * out[2])
    return bodies.solve(slip=bodies.in_lab(slip / ball.slip))


def sheet(count: int) -> Any:
    """Return points (3, count, count) of the plane through the axis of a squirmer."""
    line = np.linspace(-EXTENT, EXTENT, count)
    x, z = np.meshgrid(line, line)
    return np.stack([x, 0 * x, z])


def around(bodies: parki.RigidBodies, second: float, points: Any) -> Any:
    """Return the flow of blobs at points from their middle, of the shape of the points."""
    motion = swim(bodies, second)
    there = np.clip(points.reshape(3, -1) + EXTENT, 0, 2 * EXTENT * (1 - 1e-12))
    return bodies.flow(motion, there).reshape(points.shape)


def draw(picture: str, bodies: parki.RigidBodies) -> None:
    """Draw streamlines of blobs, on the left of each panel, and exact ones on the right."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(11, 4.1), facecolor=PAPER)
    points = sheet(161)
    for axes, (name, second) in zip(panels, KINDS.items(), strict=True):
        flow = np.where(points[0] < 0, around(bodies, second, points), exact(points, second))
        inside = np.linalg.norm(points, axis=0) < 1
        flow[:, inside] = np.nan
        speed = np.hypot(flow[0], flow[2])
        levels = np.linspace(0, 1, 21)
        axes.contourf(points[0], points[2], speed, levels, cmap="Blues", extend="max", alpha=0.85)
        line = points[0, 0]
        axes.streamplot(
            line, line, flow[0], flow[2], color=INK, linewidth=0.6, density=1.3, arrowsize=0.7
        )
        axes.add_patch(plt.Circle((0, 0), 1, facecolor=PAPER, edgecolor=INK))
        axes.annotate("", (0, 0.7), (0, -0.7), arrowprops={"arrowstyle": "-|>", "color": INK})
        axes.axvline(0, color=INK, linewidth=0.5, linestyle=":")
        axes.set(xlim=(-EXTENT, EXTENT), ylim=(-EXTENT, EXTENT), aspect="equal")
        title = f"{name.capitalize()}, B2 = {second:g} B1"
        axes.set_title(title, loc="left", fontweight="bold", fontsize=10)
        axes.set_xticks([-1.9, 1.9], ["blobs", "exact"])
        axes.tick_params(length=0)
        axes.set_yticks([])
    figure.tight_layout()
    figure.savefig(picture, dpi=105, facecolor=PAPER)
    plt.close(figure)


def main(blobs: int = 162, output: str = "") -> dict[str, tuple[float, float, float]]:
    """Return speeds, stresslets over the exact one, and errors of the flow, by kind."""
    bodies, found = swimmer(blobs), {}
    points = sheet(41).reshape(3, -1)
    points = points[:, np.linalg.norm(points, axis=0) > 1.5]
    for name, second in KINDS.items():
        motion = swim(bodies, second)
        whole = -4 * np.pi * (second or 1.0) * 2 / 3
        flow = exact(points, second)
        off = np.linalg.norm(around(bodies, second, points) - flow) / np.linalg.norm(flow)
        stresslet = float(motion.stresslets[2, 2, 0] / whole)
        found[name] = float(motion.velocities[2, 0]), stresslet, float(off)
        print(f"{name}: speed {found[name][0]:.4f} B1, stresslet {stresslet:.3f} of the exact one,")
        print(f"    flow beyond 1.5 radii off by {off:.1%}")
    if output and importlib.util.find_spec("matplotlib") is not None:
        draw(output, bodies)
        print(f"picture: {output}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blobs", type=int, default=162, help="12, 42, 162 or 642 (162)")
    parser.add_argument("--output", default="squirmers.png", help="picture (squirmers.png)")
    given = parser.parse_args()
    main(given.blobs, given.output)
