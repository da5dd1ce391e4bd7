"""Draw what fixes a periodic sum, a picture for each number of periodic axes in docs/gauges.md.

python scripts/draw_gauges.py [FOLDER]    # default docs/images

Lines are the formulas of the page, and dots are means of parki's sums.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import parki

Array = NDArray[np.float64]
FOLDER = Path(__file__).parents[1] / "docs" / "images"
FORCE, OTHER, PALE, INK = "#1f6f8b", "#c4622d", "0.78", "0.25"
SOURCE = np.full((3, 1), 0.5)
ALONG = np.array([[1.0], [0.0], [0.0]])
TOLERANCE = 1e-6


def options(periodicity: int, scale: float = 1.0, **more: Any) -> parki.EwaldOptions:
    """Return options of a cube that is free where it is not periodic."""
    box = [scale if axis < periodicity else None for axis in range(3)]
    return parki.EwaldOptions(periodicity, box, TOLERANCE, **more)


def means(across: Array, periodicity: int, force: Array, scale: float = 1.0, **how: Any) -> Array:
    """Return sums of one force, averaged along all periodic axes, at distances across them."""
    steps = (np.arange(32) + 0.5) / 32
    if periodicity == 1:
        x, away = np.meshgrid(steps, across, indexing="ij")
        targets = np.stack([x, np.full_like(x, 0.5), 0.5 + away])
    else:
        x, y, away = np.meshgrid(steps, steps, across, indexing="ij")
        targets = np.stack([x, y, 0.5 + away])
    targets = scale * targets.reshape(3, -1)
    found = parki.stokes_sl(targets, scale * SOURCE, force, options(periodicity, scale), **how)
    return found.reshape(*found.shape[:-1], -1, across.size).mean(axis=-2)


def sketch(axes: Any, periodicity: int) -> None:
    """Draw the box, its images along the periodic axes, and arrows along the free ones."""

    def flat(points: Array) -> Array:
        return np.stack([points[0] + 0.42 * points[1], points[2] + 0.3 * points[1]])

    corners = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    edges = [(a, b) for a, b in itertools.combinations(corners, 2) if np.abs(a - b).sum() == 1]
    images = itertools.product(*((-1, 0, 1) if axis < periodicity else (0,) for axis in range(3)))
    for image in sorted(images, key=any, reverse=True):
        colour, width = (PALE, 0.7) if any(image) else (INK, 1.6)
        for edge in edges:
            axes.plot(*flat(np.transpose(edge) + np.array(image)[:, None]), color=colour, lw=width)
        place = flat(SOURCE + np.array(image)[:, None]).ravel()
        axes.annotate(
            "",
            place + np.array([0.42, 0]),
            place,
            arrowprops={"arrowstyle": "-|>", "color": colour if any(image) else FORCE, "lw": 1.5},
        )
        axes.plot(*place, "o", color=colour if any(image) else FORCE, ms=4)
    for axis in range(periodicity, 3):
        for side in (-1.0, 1.0):
            start, end = SOURCE.copy(), SOURCE.copy()
            start[axis], end[axis] = 0.5 + 0.55 * side, 0.5 + 1.25 * side
            style = {"arrowstyle": "->", "color": OTHER, "lw": 1.5}
            axes.annotate("", flat(end).ravel(), flat(start).ravel(), arrowprops=style)
    free = ", ".join("xyz"[periodicity:])
    title = f"free: {free}" if free else "all axes periodic"
    axes.set_title(title, color=OTHER if free else INK, fontsize=10)
    axes.set(xlim=(-1.3, 2.7), ylim=(-1.35, 2.35), aspect="equal")
    axes.axis("off")


def three(left: Any, right: Any) -> None:
    """Draw the mean of a single layer over planes, and the two means of a double layer."""
    away = np.linspace(-0.5, 0.5, 201)
    dots = np.linspace(-0.475, 0.475, 20)
    left.axhline(0, color=PALE, lw=1)
    left.plot(away, 8 * np.pi * (away**2 / 2 - abs(away) / 2 + 1 / 12), color=FORCE)
    left.plot(dots, means(dots, 3, ALONG)[0], "o", color=FORCE, ms=4)
    left.set(title="single layer: mean over the box 0", xlabel="z from the force")
    left.set_ylabel("u along the force, mean over x, y")
    height, weight = np.polynomial.legendre.leggauss(16)
    angle = np.tile(np.pi * np.arange(32) / 16, 16)
    z, ring = np.repeat(height, 32), np.repeat(np.sqrt(1 - height**2), 32)
    normals = np.stack([ring * np.cos(angle), ring * np.sin(angle), z])
    areas = np.repeat(weight, 32) * np.pi / 16 * 0.3**2
    line = np.linspace(-0.5, 0.5, 301)
    line = line[abs(abs(line) - 0.3) > 0.06]  # plain sums are wrong close to the surface
    targets = 0.5 + line * ALONG
    for mean, colour in (("flux", FORCE), ("zero", OTHER)):
        u = parki.stokes_dl(
            targets, 0.5 + 0.3 * normals, ALONG * areas, normals, options(3, dl_mean=mean)
        )
        for part in (line < -0.3, abs(line) < 0.3, line > 0.3):
            label = f'dl_mean="{mean}"' if part[0] else None
            right.plot(line[part], u[0, part] / (8 * np.pi), color=colour, label=label)
    right.axhline(0, color=PALE, lw=1, zorder=0)
    right.legend(frameon=False, fontsize=9)
    right.set(title="double layer: q constant on a sphere", xlabel="x from the centre")
    right.set(ylabel="u / 8π q", ylim=(-0.3, 1.6))


def two(left: Any, right: Any) -> None:
    """Draw velocity and pressure, averaged over planes."""
    away, dots = np.linspace(-1.5, 1.5, 301), np.linspace(-1.45, 1.45, 20)
    left.plot(away, -4 * np.pi * abs(away), color=FORCE)
    left.plot(dots, means(dots, 2, ALONG)[0], "o", color=FORCE, ms=4)
    left.set(title="force along the plane: 0 at z = 0", xlabel="z from the force")
    left.set_ylabel("u along the force, mean over x, y")
    right.plot(away, 4 * np.pi * np.sign(away), color=FORCE)
    right.plot(dots, means(dots, 2, ALONG[::-1], want="p"), "o", color=FORCE, ms=4)
    right.set(title="force across it: odd in z", xlabel="z from the force")
    right.set_ylabel("p, mean over x, y")


def one(left: Any, right: Any) -> None:
    """Draw velocities averaged along the axis, and what another unit of length does."""
    away, dots = np.linspace(0.05, 2, 200), np.linspace(0.1, 1.95, 16)
    across = ALONG[[1, 0, 2]]
    left.plot(away, -4 * (np.log(away) + 1), color=FORCE, label="force along the axis")
    left.plot(dots, means(dots, 1, ALONG)[0], "o", color=FORCE, ms=4)
    left.plot(away, -(2 * np.log(away) + 3), color=OTHER, label="force across it")
    left.plot(dots, means(dots, 1, across)[1], "o", color=OTHER, ms=4)
    left.legend(frameon=False, fontsize=9)
    left.set(title="the logarithm has no constant", xlabel="distance from the axis, L = 1")
    left.set_ylabel("u along the force, mean over x")
    for scale, colour in ((1.0, FORCE), (10.0, OTHER)):
        shift = -4 * np.log(scale)
        right.plot(away, -4 * (np.log(away) + 1) + shift, color=colour, label=f"L = {scale:g}")
        right.plot(dots, scale * means(dots, 1, ALONG, scale)[0], "o", color=colour, ms=4)
    right.legend(frameon=False, fontsize=9)
    right.set(title="the unit of length shifts it", xlabel="distance from the axis / L")
    right.set_ylabel("u L, mean over x")


def none(left: Any, right: Any) -> None:
    """Draw how sums vanish."""
    away = np.geomspace(0.1, 100, 13)
    targets = np.array([[0.48], [0.6], [0.64]]) * away
    origin, q = np.zeros((3, 1)), np.array([[0.3], [0.8], [-0.5]])
    free = options(0)
    sums = {
        "single layer": parki.stokes_sl(targets, origin, q, free, want=("u", "p")),
        "double layer": parki.stokes_dl(targets, origin, q, ALONG, free, want=("u", "p")),
    }
    for (name, (u, p)), colour in zip(sums.items(), (FORCE, OTHER), strict=True):
        left.loglog(away, np.linalg.norm(u, axis=0), "o-", color=colour, ms=4, label=name)
        right.loglog(away, abs(p), "o-", color=colour, ms=4, label=name)
    left.set(title="velocities vanish", xlabel="distance", ylabel="|u|")
    right.set(title="pressures vanish", xlabel="distance", ylabel="|p|")
    left.legend(frameon=False, fontsize=9)


def main(folder: Path) -> None:
    """Draw the four pictures."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9})
    for periodicity, draw in enumerate((none, one, two, three)):
        figure, (box, left, right) = plt.subplots(
            1, 3, figsize=(10, 3.1), layout="constrained", width_ratios=(1, 1.1, 1.1)
        )
        sketch(box, periodicity)
        draw(left, right)
        for panel in (left, right):
            panel.title.set_fontsize(10)
        figure.savefig(folder / f"gauges-{periodicity}.png", dpi=120)
        plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
