"""Rods, boomerangs and rings that fall together in a periodic box: rigid bodies of blobs.

    python examples/falling_bodies.py [--bodies 120] [--steps 150] [--output falling.png]

All have the same weight and are made of blobs of one size. A rod alone falls along itself nearly
twice as fast as across itself, so that a tilted one drifts to the side:

    U = across + (along - across) cos^2(angle)    for a rod at an angle to the weight.

In a suspension each body falls in the flow of the others. Bodies push each other apart where blobs
of two of them come close. Times and speeds are in units in which a rod falls by its length in a
unit of time, on the average over its directions.
"""

import argparse
import importlib.util
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

import parki

LENGTH, RADIUS = 2.0, 0.1
SHAPES = {
    "rods": parki.BodyShape.rod(LENGTH, RADIUS),
    "boomerangs": parki.BodyShape.boomerang(LENGTH / 2, RADIUS, np.pi / 2),
    "rings": parki.BodyShape.ring(LENGTH / (2 * np.pi), RADIUS),
}
BLOB = SHAPES["rods"].radii[0]
ACROSS, _, ALONG = np.diag(SHAPES["rods"].mobility())[:3]
WEIGHT = LENGTH / ((2 * ACROSS + ALONG) / 3)  # at a viscosity of 1
SPACE = 4.0  # volume for each body, in cubes of half a rod
REACH, STEP = 2.6, 0.02  # of forces between blobs, in their radii; and a step of time
INK, PAPER = "#1d1b2e", "#fbfaf8"
COLOURS = {"rods": "#2f5d8c", "boomerangs": "#c2452d", "rings": "#2e7d5b"}


@dataclass
class Fall:
    """The bodies, and what they did: speeds downwards of all, and products, in each step."""

    bodies: parki.RigidBodies
    speeds: list[Any] = field(default_factory=list)
    products: list[int] = field(default_factory=list)

    def of(self, name: str) -> Any:
        """Return the numbers of the bodies of a shape."""
        return np.flatnonzero(self.bodies.which == list(SHAPES).index(name))


def placed(count: int, edge: float, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return shapes, positions and quaternions of bodies whose blobs are apart."""
    shapes, which = list(SHAPES.values()), np.arange(count) % len(SHAPES)
    places, turns, there = [], [], np.zeros((0, 3))
    while len(places) < count:
        place, turn = edge * rng.random(3), Rotation.random(random_state=rng)
        blobs = (turn.apply(shapes[which[len(places)]].blobs.T) + place) % edge
        if len(there) and cKDTree(there, boxsize=edge).query(blobs)[0].min() < REACH * BLOB:
            continue
        there = np.concatenate([there, blobs])
        places.append(place)
        turns.append(turn.as_quat())
    return which, np.transpose(places), np.transpose(turns)


def pushes(bodies: parki.RigidBodies) -> tuple[Any, Any]:
    """Return forces and torques of springs between blobs of two bodies that are close."""
    blobs, count = bodies.blobs, bodies.which.size
    body = np.repeat(np.arange(count), [bodies.shapes[k].n for k in bodies.which])
    pairs = parki.near_pairs(blobs, blobs, REACH * BLOB, bodies.options)
    pushed = pairs.targets
    other = body[pushed] != body[pairs.indices]
    stiff = other * WEIGHT * (REACH - pairs.distances / BLOB)
    each = stiff * pairs.displacements / pairs.distances
    arms = blobs[:, pushed] - bodies.positions[:, body[pushed]]
    loads = (*each, *np.cross(arms.T, each.T).T)
    sums = [np.bincount(body[pushed], row, minlength=count) for row in loads]
    return np.array(sums[:3]), np.array(sums[3:])


def fall(count: int, steps: int) -> Fall:
    """Take steps by the rule of Adams and Bashforth of second order."""
    edge = LENGTH / 2 * (SPACE * count) ** (1 / 3)
    which, places, turns = placed(count, edge, np.random.default_rng(0))
    bodies = parki.RigidBodies(
        [*SHAPES.values()],
        places,
        turns,
        which=which,
        periodicity=3,
        box=3 * [edge],
        tolerance=1e-3,
    )
    found, weights = Fall(bodies), np.tile([[0.0], [0.0], [-WEIGHT]], count)
    before: Any = None
    for _ in parki.Progress("falling").over(range(steps)):
        forces, torques = pushes(bodies)
        motion = bodies.solve(weights + forces, torques, start=before)
        last = motion if before is None else before
        found.speeds.append(-motion.velocities[2])
        found.products.append(motion.products)
        bodies.move(
            STEP * (1.5 * motion.velocities - 0.5 * last.velocities),
            STEP * (1.5 * motion.turns - 0.5 * last.turns),
        )
        before = motion
    return found


def directions(run: Fall) -> Any:
    """Return the squared cosine of each rod's angle to the weight."""
    rods = Rotation.from_quat(run.bodies.quaternions[:, run.of("rods")].T)
    return rods.apply([0.0, 0.0, 1.0])[:, 2] ** 2


def draw(picture: str, run: Fall) -> None:
    """Draw the bodies from the side, and speeds over time and over the rods' directions."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.collections import EllipseCollection

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 4.8), facecolor=PAPER, width_ratios=(1, 1.1)
    )
    bodies, edge = run.bodies, float(run.bodies.options.box[0])
    names = np.array(list(SHAPES))[bodies.which]
    each = np.repeat(names, [bodies.shapes[k].n for k in bodies.which])
    blobs = bodies.blobs % edge
    order = np.argsort(-blobs[1])  # from the back to the front
    # What is farther away is paler.
    colours = np.array([mpl.colors.to_rgb(COLOURS[name]) for name in each[order]])
    pale = 0.75 * (blobs[1, order, None] / edge) ** 0.7
    size = np.full(order.size, 2 * BLOB)
    left.add_collection(
        EllipseCollection(
            size,
            size,
            0 * size,
            units="x",
            offsets=blobs[:, order][[0, 2]].T,
            offset_transform=left.transData,
            facecolors=colours * (1 - pale) + pale * np.array(mpl.colors.to_rgb(PAPER)),
            edgecolors=INK,
            linewidths=0.15,
        )
    )
    left.set(xlim=(0, edge), ylim=(0, edge), aspect="equal", xlabel="x", ylabel="z")
    left.set_title(f"{names.size} bodies from the side", loc="left", fontweight="bold")
    times = STEP * np.arange(len(run.speeds))
    speeds = np.array(run.speeds) / LENGTH
    for name, colour in COLOURS.items():
        right.plot(times, speeds[:, run.of(name)].mean(axis=1), color=colour, label=name)
    right.set(xlabel="time", ylim=(0, None), xlim=(0, None))
    right.set_title("Mean speed of falling", loc="left", fontweight="bold")
    right.legend(frameon=False, loc="lower right")
    inset = right.inset_axes((0.1, 0.1, 0.42, 0.42), facecolor=PAPER)
    at = np.array([0.0, 1.0])
    inset.plot(directions(run), speeds[-1, run.of("rods")], "o", ms=3, color=COLOURS["rods"])
    inset.plot(at, (ACROSS + (ALONG - ACROSS) * at) * WEIGHT / LENGTH, color=INK, lw=1)
    inset.set_title("Rods at last, and one alone", fontsize=8, color=INK)
    inset.set_xlabel("cos² of the angle to the weight", fontsize=8)
    inset.tick_params(labelsize=7)
    for axes in (left, right, inset):
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(picture, dpi=105, facecolor=PAPER)
    plt.close(figure)


def main(count: int = 120, steps: int = 150, output: str = "") -> Fall:
    """Let bodies fall; return what was found."""
    run = fall(count, steps)
    blobs = run.bodies.blobs.shape[1]
    print(f"{count} bodies of {blobs} blobs; products in a step: {np.mean(run.products):.1f}")
    for name in SHAPES:
        first, last = (np.mean(run.speeds[k][run.of(name)]) / LENGTH for k in (0, -1))
        print(f"mean speed of {name}: {first:.2f} at first, {last:.2f} at last")
    if output and importlib.util.find_spec("matplotlib") is not None:
        draw(output, run)
        print(f"picture: {output}")
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bodies", type=int, default=120, help="number of bodies (120)")
    parser.add_argument("--steps", type=int, default=150, help="time steps (150)")
    parser.add_argument("--output", default="falling.png", help="picture (falling.png)")
    given = parser.parse_args()
    main(given.bodies, given.steps, given.output)
