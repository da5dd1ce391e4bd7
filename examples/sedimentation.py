"""A cloud of point forces that falls in a periodic box, leaks, and turns into a ring.

    python examples/sedimentation.py [--points 10000] [--steps 1000] [--space CPU]

Particles that fall in a viscous fluid drag it along, each by the Stokeslet of its weight, and move
with the flow of all others. A round cloud of them falls as a drop of a heavier fluid of the same
viscosity would, whose speed is F / (5 pi mu R) in an infinite fluid (Hadamard and Rybczynski); a
few particles leak from its rear. In time the cloud flattens and turns into a ring, as experiments
and computations show (Metzger, Nicolas and Guazzelli, J. Fluid Mech. 580, 2007).

The unit of length is the radius of the cloud, and the unit of speed is the drop's speed. In a box
of edge L whose fluid is at rest on average, the images slow a cloud down by 2.837 F / (6 pi mu L)
(Hasimoto, 1959). The points are sources and targets, and one plan serves all steps:
`Plan.update_points` gives it the next points.
"""

import argparse
import importlib.util
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import parki

EDGE = 10.0  # of the box
SLOWER = 2.837 * 5 / 6 / EDGE  # reduction of the drop's speed by the images
STEP = 0.15
OPTIONS = {"periodicity": 3, "box": [EDGE] * 3, "tolerance": 1e-4}
INK, PAPER, DROP = "#1d1b2e", "#fbfaf8", "#0072b2"


@dataclass
class Fall:
    """The record of a cloud.

    Attributes
    ----------
    times : list of float
        Times of the pictures.
    clouds : list of ndarray, shape (3, n)
        The points at these times, relative to their median.
    speeds : list of float
        Mean speed along the weight, in each step.
    seconds : list of float
        Seconds of each step.
    """

    times: list[float] = field(default_factory=list)
    clouds: list[np.ndarray] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def ball(count: int) -> np.ndarray:
    """Return points uniform in the unit ball, in the middle of the box."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((3, count))
    directions /= np.linalg.norm(directions, axis=0)
    return EDGE / 2 + directions * rng.random(count) ** (1 / 3)


def fall(count: int, steps: int, space: Any, pictures: int = 4) -> Fall:
    """Take steps by the Adams-Bashforth rule of second order."""
    xp, record = parki.utils.get_array_module(space), Fall()
    points = xp.asarray(ball(count))
    weights = xp.zeros((3, count))
    weights[2] = -5 / (8 * count)  # 1 / (8 pi mu) times each point's part of 5 pi mu
    plan = parki.Plan("stokes_sl", points, points, parki.EwaldOptions(**OPTIONS))
    shown = {round(n * steps / (pictures - 1)) for n in range(pictures)}
    before: Any = None
    for step in parki.Progress("falling").over(range(steps + 1)):
        begun = time.perf_counter()
        plan.update_points(points, points)
        velocity = plan(weights)
        record.speeds.append(-float(velocity[2].mean()))  # waits for the device
        record.seconds.append(time.perf_counter() - begun)
        if step in shown:
            host = points.get() if hasattr(points, "get") else points
            record.times.append(step * STEP)
            record.clouds.append(host - np.median(host, axis=1, keepdims=True))
        points = points + STEP * (1.5 * velocity - 0.5 * (velocity if before is None else before))
        before = velocity
    return record


def draw(output: str, record: Fall) -> None:
    """Draw the cloud from the side, at each recorded time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 4.6), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(record.times), sharey=True)
    for panel, instant, cloud in zip(panels, record.times, record.clouds, strict=True):
        panel.scatter(
            cloud[0], cloud[2], s=12_000 / cloud.shape[1], color=DROP, alpha=0.4, linewidths=0
        )
        panel.set(xlim=(-2.4, 2.4), ylim=(-2, 4), aspect="equal", facecolor=PAPER)
        panel.set_title(f"t = {instant:.0f}", loc="left", fontweight="bold", color=INK)
        panel.set_xlabel("x, in radii of the cloud")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("z; weight pulls down")
    figure.tight_layout()
    figure.savefig(output, facecolor=PAPER)


def main(words: list[str] | None = None) -> Fall:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--space", default="CPU", help="where to compute: CPU, or GPU")
    parser.add_argument("--output", default="sedimentation.png", help="picture; '' draws nothing")
    given = parser.parse_args(words)
    record = fall(given.points, given.steps, parki.utils.get_execution_space(given.space))
    print(f"speed at first: {record.speeds[0]:.3f}; a drop's in this box: {1 - SLOWER:.3f}")
    print(f"speed at last:  {record.speeds[-1]:.3f}, at t = {record.times[-1]:.0f}")
    print(f"a step took {1e3 * statistics.median(record.seconds):.2f} ms, in the median")
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(given.output, record)
        print(f"Picture: {Path(given.output)}")
    return record


if __name__ == "__main__":
    main()
