"""Draw the words of the manual: surfaces, and near field, grid and window.

python scripts/draw_sketches.py [FOLDER]    # default docs/images
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "docs" / "images"
BLUE, ORANGE, PALE, INK = "#1f6f8b", "#c4622d", "0.8", "0.25"


def say(axes: Any, text: str, place: Any, **how: Any) -> None:
    """Write words at a place."""
    axes.text(*place, text, **{"color": INK, "ha": "center", "va": "center", **how})


def arrow(axes: Any, start: Any, end: Any, colour: str) -> None:
    """Draw an arrow."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=style)


def surface(axes: Any) -> None:
    """Draw a body with a source, its normal and its density, and targets in and out."""
    angle = np.linspace(0, 2 * np.pi, 400)

    def shape(t: Any) -> Any:
        return np.stack([1.5 * np.cos(t), np.sin(t) + 0.15 * np.cos(2 * t)])

    axes.fill(*shape(angle), color=BLUE, alpha=0.13, lw=0)
    axes.plot(*shape(angle), color=BLUE, lw=1.5)
    nodes = shape(2 * np.pi * np.arange(36) / 36)
    axes.plot(*nodes, "o", color=BLUE, ms=4)
    t = 2 * np.pi * 5 / 36
    source, slope = shape(t), shape(t + 1e-4) - shape(t - 1e-4)
    normal = np.array([slope[1], -slope[0]]) / np.linalg.norm(slope)
    arrow(axes, source, source + 0.75 * normal, INK)
    say(axes, "normal n, outwards", source + 0.75 * normal, ha="left", va="bottom")
    arrow(axes, source, np.add(source, (-0.55, -0.45)), ORANGE)
    say(axes, "density times area", np.add(source, (-0.6, -0.6)), color=ORANGE)
    axes.plot(*source, "o", color=ORANGE, ms=7)
    say(axes, "source y", np.add(source, (-0.12, 0.2)), color=ORANGE, ha="right")
    target = np.array([2.9, 0.95])
    axes.plot(*target, "s", color=INK, ms=6)
    say(axes, "target x", np.add(target, (0, 0.2)))
    axes.plot([source[0], target[0]], [source[1], target[1]], ":", color=INK, lw=1)
    say(axes, "r = x − y", np.add(source + target, (0.5, -0.4)) / 2)
    say(axes, "inside", (-0.55, 0.1), fontsize=11)
    say(axes, "outside: the fluid of rigid bodies", (0.3, -1.45), fontsize=11)
    axes.set(xlim=(-1.8, 3.9), ylim=(-1.7, 1.9), aspect="equal")
    axes.axis("off")


def sum_of_two(axes: Any) -> None:
    """Draw the near field of a target, the grid, and the window of a source."""
    rng = np.random.default_rng(7)
    lines, centre, cutoff = np.arange(0, 4.01, 0.25), np.array([1.1, 1.2]), 0.8
    for line in lines:
        axes.plot([line] * 2, [0, 2.5], color=PALE, lw=0.6, zorder=0)
        if line <= 2.5:
            axes.plot([0, 4], [line] * 2, color=PALE, lw=0.6, zorder=0)
    points = rng.random((70, 2)) * (4, 2.5)
    near = np.linalg.norm(points - centre, axis=1) < cutoff
    for point in points[near]:
        axes.plot(*zip(centre, point, strict=True), color=BLUE, lw=0.8, alpha=0.6)
    axes.plot(*points[~near].T, "o", color="0.55", ms=3.5)
    axes.plot(*points[near].T, "o", color=BLUE, ms=4)
    circle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(*(centre[:, None] + cutoff * np.stack([np.cos(circle), np.sin(circle)])), color=BLUE)
    axes.plot(*centre, "s", color=INK, ms=6, zorder=5)
    source = np.array([3.07, 1.27])
    x = np.arange(2.25, 3.9, 0.25)[:7]
    y = 0.25 * np.arange(2, 9)
    weight = np.sinc((x - source[0]) / 1.8) ** 2 * np.sinc((y[:, None] - source[1]) / 1.5) ** 2
    across, up = np.meshgrid(x, y)
    axes.scatter(across, up, s=75 * weight**2, color=ORANGE, alpha=0.6, lw=0)
    axes.plot(*source, "o", color=ORANGE, ms=6, markeredgecolor="white")
    say(axes, "near field: pairs within the cut-off", (1.1, 2.66), color=BLUE)
    say(axes, "far field: a window spreads sources onto the grid", (3.0, -0.18), color=ORANGE)
    axes.set(xlim=(-0.1, 4.3), ylim=(-0.35, 2.8), aspect="equal")
    axes.axis("off")


def main(folder: Path) -> None:
    """Draw both pictures."""
    import matplotlib.pyplot as plt

    for name, draw in (("surface", surface), ("near-and-far", sum_of_two)):
        figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
        draw(axes)
        figure.savefig(folder / f"{name}.png", dpi=110)
        plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
