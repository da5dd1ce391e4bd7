"""Draw the pictures of the manual, and write the table of docs/boundary_integrals.md.

    python scripts/pictures.py                    # all of them, into docs/images
    python scripts/pictures.py surface fading     # some
    python scripts/pictures.py --folder /tmp      # elsewhere, and no table

In `gauges`, a picture for each number of periodic axes, lines are the formulas of docs/gauges.md
and dots means of parki's sums. `distance` has the errors of plain sums near a sphere, `corrected`
how near pairs mend them, `fading` how a kernel fades along a free axis, `walls` flows between two
walls, `radial` errors of approximations of erf(x)/x, and `surface` and `near-and-far` the words of
the manual.
"""

from __future__ import annotations

import argparse
import itertools
import math
from decimal import Decimal, getcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import page
from benchmarks.show import markdown
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.special import erf, erfc

import parki
from parki.ewald.near.radial import quotient
from parki.ewald.split.hasimoto import Hasimoto

Array = NDArray[np.float64]
BLUE, ORANGE, PALE, INK = "#1f6f8b", "#c4622d", "0.8", "0.25"

# --- what fixes a periodic sum --------------------------------------------------------------------

SOURCE = np.full((3, 1), 0.5)
ALONG = np.array([[1.0], [0.0], [0.0]])
TOLERANCE = 1e-6
IMAGES = "0.78"


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
        colour, width = (IMAGES, 0.7) if any(image) else (INK, 1.6)
        for edge in edges:
            axes.plot(*flat(np.transpose(edge) + np.array(image)[:, None]), color=colour, lw=width)
        place = flat(SOURCE + np.array(image)[:, None]).ravel()
        axes.annotate(
            "",
            place + np.array([0.42, 0]),
            place,
            arrowprops={"arrowstyle": "-|>", "color": colour if any(image) else BLUE, "lw": 1.5},
        )
        axes.plot(*place, "o", color=colour if any(image) else BLUE, ms=4)
    for axis in range(periodicity, 3):
        for side in (-1.0, 1.0):
            start, end = SOURCE.copy(), SOURCE.copy()
            start[axis], end[axis] = 0.5 + 0.55 * side, 0.5 + 1.25 * side
            style = {"arrowstyle": "->", "color": ORANGE, "lw": 1.5}
            axes.annotate("", flat(end).ravel(), flat(start).ravel(), arrowprops=style)
    free = ", ".join("xyz"[periodicity:])
    title = f"Free: {free}" if free else "All axes periodic"
    axes.set_title(title, color=ORANGE if free else INK, fontsize=10)
    axes.set(xlim=(-1.3, 2.7), ylim=(-1.35, 2.35), aspect="equal")
    axes.axis("off")


def three(left: Any, right: Any) -> None:
    """Draw the mean of a single layer over planes, and the two means of a double layer."""
    away = np.linspace(-0.5, 0.5, 201)
    dots = np.linspace(-0.475, 0.475, 20)
    left.axhline(0, color=IMAGES, lw=1)
    left.plot(away, 8 * np.pi * (away**2 / 2 - abs(away) / 2 + 1 / 12), color=BLUE)
    left.plot(dots, means(dots, 3, ALONG)[0], "o", color=BLUE, ms=4)
    left.set(title="Single layer: mean over the box 0", xlabel="z from the force")
    left.set_ylabel("u along the force, mean over x, y")
    normals, weights = sphere(15)
    areas = weights * 0.3**2
    line = np.linspace(-0.5, 0.5, 301)
    line = line[abs(abs(line) - 0.3) > 0.06]  # plain sums are wrong close to the surface
    targets = 0.5 + line * ALONG
    for mean, colour in (("flux", BLUE), ("zero", ORANGE)):
        u = parki.stokes_dl(
            targets, 0.5 + 0.3 * normals, ALONG * areas, normals, options(3, dl_mean=mean)
        )
        for part in (line < -0.3, abs(line) < 0.3, line > 0.3):
            label = f'dl_mean="{mean}"' if part[0] else None
            right.plot(line[part], u[0, part] / (8 * np.pi), color=colour, label=label)
    right.axhline(0, color=IMAGES, lw=1, zorder=0)
    right.legend(frameon=False, fontsize=9)
    right.set(title="Double layer: q constant on a sphere", xlabel="x from the centre")
    right.set(ylabel="u / 8π q", ylim=(-0.3, 1.6))


def two(left: Any, right: Any) -> None:
    """Draw velocity and pressure, averaged over planes."""
    away, dots = np.linspace(-1.5, 1.5, 301), np.linspace(-1.45, 1.45, 20)
    left.plot(away, -4 * np.pi * abs(away), color=BLUE)
    left.plot(dots, means(dots, 2, ALONG)[0], "o", color=BLUE, ms=4)
    left.set(title="Force along the plane: 0 at z = 0", xlabel="z from the force")
    left.set_ylabel("u along the force, mean over x, y")
    right.plot(away, 4 * np.pi * np.sign(away), color=BLUE)
    right.plot(dots, means(dots, 2, ALONG[::-1], want="p"), "o", color=BLUE, ms=4)
    right.set(title="Force across it: odd in z", xlabel="z from the force")
    right.set_ylabel("p, mean over x, y")


def one(left: Any, right: Any) -> None:
    """Draw velocities averaged along the axis, and what another unit of length does."""
    away, dots = np.linspace(0.05, 2, 200), np.linspace(0.1, 1.95, 16)
    across = ALONG[[1, 0, 2]]
    left.plot(away, -4 * (np.log(away) + 1), color=BLUE, label="force along the axis")
    left.plot(dots, means(dots, 1, ALONG)[0], "o", color=BLUE, ms=4)
    left.plot(away, -(2 * np.log(away) + 3), color=ORANGE, label="force across it")
    left.plot(dots, means(dots, 1, across)[1], "o", color=ORANGE, ms=4)
    left.legend(frameon=False, fontsize=9)
    left.set(title="The logarithm has no constant", xlabel="distance from the axis, L = 1")
    left.set_ylabel("u along the force, mean over x")
    for scale, colour in ((1.0, BLUE), (10.0, ORANGE)):
        shift = -4 * np.log(scale)
        right.plot(away, -4 * (np.log(away) + 1) + shift, color=colour, label=f"L = {scale:g}")
        right.plot(dots, scale * means(dots, 1, ALONG, scale)[0], "o", color=colour, ms=4)
    right.legend(frameon=False, fontsize=9)
    right.set(title="The unit of length shifts it", xlabel="distance from the axis / L")
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
    for (name, (u, p)), colour in zip(sums.items(), (BLUE, ORANGE), strict=True):
        left.loglog(away, np.linalg.norm(u, axis=0), "o-", color=colour, ms=4, label=name)
        right.loglog(away, abs(p), "o-", color=colour, ms=4, label=name)
    left.set(title="Velocities vanish", xlabel="distance", ylabel="|u|")
    right.set(title="Pressures vanish", xlabel="distance", ylabel="|p|")
    left.legend(frameon=False, fontsize=9)


def gauge(periodicity: int, panels: Any) -> None:
    """Draw the box and two panels for a number of periodic axes."""
    box, *others = panels
    sketch(box, periodicity)
    (none, one, two, three)[periodicity](*others)
    for panel in others:
        panel.title.set_fontsize(10)


# --- surfaces, and near field, grid and window ----------------------------------------------------


def say(axes: Any, text: str, place: Any, **how: Any) -> None:
    """Write words at a place."""
    axes.text(*place, text, **{"color": INK, "ha": "center", "va": "center", **how})


def arrow(axes: Any, start: Any, end: Any, colour: str) -> None:
    """Draw an arrow."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=style)


def walls(panels: Any) -> None:
    """Draw the flow of a force across two walls, and of one along them."""
    how = parki.EwaldOptions(2, [12, 12, 1], TOLERANCE, wall=("no-slip", "no-slip"))
    source, steps = np.array([[6.0], [6.0], [0.5]]), np.linspace(-2, 2, 121)
    names = ("z", (0.0, 1.0), "z", 2), ("y", (-2.0, 2.0), "x", 0)
    for axes, (up, ends, along, force) in zip(panels, names, strict=True):
        x, y = np.meshgrid(steps, np.linspace(*ends, 121))
        plane = [x, 0 * x, y - 0.5] if up == "z" else [x, y, 0 * x]
        density = np.zeros((3, 1))
        density[force] = 1 / (8 * np.pi)
        targets = source + np.reshape(plane, (3, -1))
        flow = parki.stokes_sl(targets, source, density, how).reshape(3, *x.shape)
        flow = flow[0], flow[2 if up == "z" else 1]
        speed = np.log10(np.hypot(*flow) + 1e-12)
        mesh = axes.pcolormesh(x, y, speed, cmap="viridis", vmin=-4, vmax=0, shading="gouraud")
        axes.streamplot(x, y, *flow, color="w", linewidth=0.7, arrowsize=0.7, density=1.4)
        place = (0, 0.5) if up == "z" else (0, 0)
        head = (0, 0.8) if up == "z" else (0.5, 0)
        arrow(axes, place, head, ORANGE)
        axes.set(title=f"A force along {along}", xlabel="x / H", ylabel=f"{up} / H", aspect="equal")
        axes.set(xlim=(-2, 2), ylim=ends)
    panels[0].figure.colorbar(mesh, ax=panels, label="log10 of μ H u / F", shrink=0.8)


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


# --- errors near a sphere -------------------------------------------------------------------------

ORDERS, SHOWN = (8, 16, 32), (0.5, 1.0, 2.0, 4.0)
EXACT = 200  # order of the nodes that give exact values at the distances drawn
EXACT_SUMS = parki.EwaldOptions(periodicity=0, tolerance=1e-12)
SUMS = {
    "velocity of a single layer": ("stokes_sl", "u"),
    "traction of a single layer": ("stokes_sl", "stress"),
    "velocity of a double layer": ("stokes_dl", "u"),
}
COLOURS = ("#9fb8c9", "#1f6f8b", "#12303d")


def sphere(order: int) -> tuple[Array, Array]:
    """Return nodes (3, n) and weights of the unit sphere."""
    height, weight = leggauss(order + 1)
    around = 2 * order + 2
    z, ring = np.repeat(height, around), np.repeat(np.sqrt(1 - height**2), around)
    angle = np.tile(2 * np.pi * np.arange(around) / around, order + 1)
    nodes = np.stack([ring * np.cos(angle), ring * np.sin(angle), z])
    return nodes, np.repeat(weight, around) * 2 * np.pi / around


def density(nodes: Array) -> Array:
    """Return a smooth density at points of the sphere."""
    return np.stack([nodes[1] * nodes[2], 1 + nodes[0], nodes[2] ** 2])


def values(name: str, targets: Array, normals: Array, order: int) -> Array:
    """Return a sum over the nodes of a sphere, over 8 pi, at targets."""
    kernel, want = SUMS[name]
    nodes, weights = sphere(order)
    norms = nodes if kernel == "stokes_dl" else None
    found = parki.Plan(kernel, targets, nodes, norms, EXACT_SUMS, want=want)(
        density(nodes) * weights
    )
    return (np.einsum("ijx,jx->ix", found, normals) if want == "stress" else found) / (8 * np.pi)


def errors(name: str, order: int, distances: tuple[float, ...]) -> list[float]:
    """Return errors relative to the density, at distances in steps of the nodes."""
    nodes, weights = sphere(order)
    step = np.sqrt(weights.mean())
    normals = nodes[:, :: max(1, len(weights) // 150)]
    targets = np.concatenate([(1 + d * step) * normals for d in distances], axis=1)
    normals = np.tile(normals, len(distances))
    off = values(name, targets, normals, order) - values(name, targets, normals, EXACT)
    squares = np.mean(off.reshape(3, len(distances), -1) ** 2, axis=(0, 2))
    return np.sqrt(squares / np.mean(density(nodes) ** 2)).tolist()


def table(orders: tuple[int, ...] = ORDERS) -> str:
    """Return the page's table."""
    rows = []
    for name, order in itertools.product(SUMS, orders):
        cells = (f"{error:.0e}" for error in errors(name, order, SHOWN))
        rows.append([name, 2 * (order + 1) ** 2, *cells])
    return markdown(("sum", "nodes", "d = h/2", "d = h", "d = 2h", "d = 4h"), rows)


def distance(panels: Any) -> None:
    """Draw the errors over the distance from the surface."""
    distances = tuple(np.linspace(0.5, 4, 15))
    for panel, name in zip(panels, SUMS, strict=True):
        for order, colour in zip(ORDERS, COLOURS, strict=True):
            label = f"{2 * (order + 1) ** 2} nodes"
            panel.semilogy(distances, errors(name, order, distances), color=colour, label=label)
        panel.set(title=name.capitalize(), xlabel="distance from the surface / h")
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("error / density")
    panels[0].legend(frameon=False)


def corrected(panels: Any) -> None:
    """Draw errors of the flow of a sphere that moves, by the sum alone and with near pairs."""
    ball = parki.Surface.spheres(np.zeros((3, 1)), 1.0, order=8)
    force = np.array([[0.0], [0.0], [1.0]]) * np.ones((1, ball.areas.size))
    alone: dict[str, Any] = {"periodicity": 0, "tolerance": 1e-9}
    size = 151
    x, z = np.meshgrid(np.linspace(-0.2, 1.8, size), np.linspace(-1, 1, size))
    at = np.stack([x.ravel(), np.zeros(x.size), z.ravel()])
    r = np.maximum(np.linalg.norm(at, axis=0), 1e-12)
    outside = np.array([[0.0], [0.0], [1.0]]) * (3 / r + 1 / r**3) + 3 * at * at[2] * (
        1 / r**3 - 1 / r**5
    )
    exact = 8 * np.pi / 3 * np.where(r > 1, outside / 2, [[0.0], [0.0], [2.0]])
    plain = parki.stokes_sl(at, ball.nodes, force * ball.areas, **alone)
    rows = np.split(at, size, axis=1)  # near the surface all nodes are near pairs
    near = [ball.single_layer(force, some, **alone) for some in rows]
    both = plain, np.concatenate(near, axis=1)
    titles = "Sum over 162 nodes", "With near pairs corrected"
    scale = 16 * np.pi / 3  # on the sphere
    for panel, found, title in zip(panels, both, titles, strict=True):
        off = np.linalg.norm(found - exact, axis=0).reshape(x.shape) / scale
        drawn = panel.pcolormesh(
            x, z, np.log10(off + 1e-16), vmin=-8, vmax=0, cmap="viridis", rasterized=True
        )
        turn = np.linspace(-np.pi, np.pi, 400)
        panel.plot(np.cos(turn), np.sin(turn), color="white", lw=0.8)
        panel.set(title=title, aspect="equal", xticks=[], yticks=[])
        panel.set(xlim=(x.min(), x.max()), ylim=(z.min(), z.max()))
    bar = panels[0].figure.colorbar(drawn, ax=panels, label="error of the velocity / velocity")
    bar.set_ticks([-8, -6, -4, -2, 0], labels=["1e-8", "1e-6", "1e-4", "1e-2", "1"])


# --- how a kernel fades along a free axis ---------------------------------------------------------

EDGE, CUTOFF, WIDTH, STEEPNESS = 1.0, 0.25, 0.6, 2.5
KEPT = EDGE + CUTOFF
PERIOD = 2 * KEPT + WIDTH  # of the transform


def mollified(x: np.ndarray) -> np.ndarray:
    """Return the kernel of a mollified source."""
    return 0.3 / np.hypot(x, 0.3)


def faded(x: np.ndarray) -> np.ndarray:
    """Return 1 up to where the kernel is kept, and 0 a width beyond."""
    t = 2 * (np.abs(x) - KEPT) / WIDTH - 1
    return erfc(STEEPNESS * t) / 2


def fading(axes: Any) -> None:
    """Draw the kernel, its copy one transform away, and what both do to pairs."""
    x = np.linspace(-1.1 * EDGE, PERIOD + 1.1 * EDGE, 1500)
    axes.axvspan(-EDGE, EDGE, color=BLUE, alpha=0.12, lw=0)
    axes.axvspan(KEPT, KEPT + WIDTH, color=ORANGE, alpha=0.14, lw=0)
    axes.plot(x, mollified(x), ":", color="0.55", label="kernel that does not fade")
    axes.plot(x, mollified(x) * faded(x), color=BLUE, label="kernel that fades")
    away = x - PERIOD
    axes.plot(x, mollified(away) * faded(away), "--", color=ORANGE, label="its copy")
    places = {0: "0", EDGE: "L", KEPT: r"L + $r_c$", KEPT + WIDTH: r"L + $r_c$ + w", PERIOD: "W"}
    axes.set_xticks([*places], [*places.values()])
    axes.text(0, 1.06, "all pairs of points", ha="center")
    axes.text(KEPT + WIDTH / 2, 0.5, "both\nfade", ha="center")
    axes.set(xlim=(x[0], x[-1]), ylim=(0, 1.18), yticks=[], xlabel="distance along the free axis")
    axes.legend(loc="upper left", bbox_to_anchor=(0.555, 0.98), fontsize=8.5, frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


# --- approximations of erf(x)/x ------------------------------------------------------------------

END = 6.0  # the paper's interval
TERMS = range(4, 41)
MOST_RATIONAL = 14  # more terms would approximate rounding errors
CURVES = {
    "x": ("rational in x (paper)", "s", ORANGE),
    "x2": ("rational in x²", "o", BLUE),
    "polynomial": ("polynomial in x²", ".", INK),
}


def exact(x: float) -> float:
    """Evaluate erf(x)/x, rounded from 30 digits."""
    square = Decimal(x) ** 2
    term = total = Decimal(2) / Decimal("3.14159265358979323846264338327950288420").sqrt()
    k = 0
    while term > total * Decimal("1e-32"):
        k += 1
        term *= 2 * square / (2 * k + 1)
        total += term
    return float(total * (-square).exp())


def rational(x: Any, terms: int, power: int) -> Any:
    """Evaluate AAA's approximation of erf(x)/x with ``terms`` terms in x**power, as kernels do."""
    nodes = (1 - np.cos(np.linspace(0, np.pi, 129))) / 2
    arguments = END * nodes ** (1 / power)
    values = np.full(nodes.shape, 2 / math.sqrt(math.pi))
    np.divide(erf(arguments), arguments, out=values, where=arguments > 0)
    top, bottom = quotient(nodes, values, terms)
    variable = (x / END) ** power
    return np.polyval(top, variable) / np.polyval(bottom, variable)


def polynomial(x: Any, terms: int) -> Any:
    """Evaluate parki's polynomial for erf(x)/x, as the kernel does."""
    coefficients = Hasimoto(END).radial_polynomials(1.0, terms - 1).smooth(0)
    return 2 / END * np.polyval(coefficients, 2 * (x / END) ** 2 - 1)


def errors_of_terms(points: int = 1500) -> tuple[dict[str, list[float]], float]:
    """Return the largest errors of each curve for `TERMS`, and of the library's erf."""
    getcontext().prec = 36
    x = END * np.linspace(1e-6, 1, points)
    values = np.array([exact(float(v)) for v in x])

    def worst(found: Any) -> float:
        return float(np.abs(found - values).max())

    few = [n for n in TERMS if n <= MOST_RATIONAL]
    curves = {
        "x": [worst(rational(x, n, 1)) for n in few],
        "x2": [worst(rational(x, n, 2)) for n in few],
        "polynomial": [worst(polynomial(x, n)) for n in TERMS],
    }
    return curves, worst(erf(x) / x)


def radial(axes: Any) -> None:
    """Draw the errors of rational functions and polynomials, as figure 4 of the paper does."""
    curves, library = errors_of_terms()
    for name, (label, mark, colour) in CURVES.items():
        terms = TERMS[: len(curves[name])]
        axes.semilogy(terms, curves[name], marker=mark, color=colour, label=label)
    axes.axhline(library, color="#7d9b5f", linestyle="--", label="library erf")
    axes.set(title="Error of erf(x)/x on [0, 6]", xlabel="number of terms", ylim=(1e-17, 3))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


# --- all ------------------------------------------------------------------------------------------

# Each has what draws it, how its panels are made, and its dots per inch.
THREE: dict[str, Any] = {"ncols": 3, "figsize": (10, 3.1), "width_ratios": (1, 1.1, 1.1)}
PICTURES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "surface": (surface, {"figsize": (7, 4.2)}, 110),
    "near-and-far": (sum_of_two, {"figsize": (7, 4.2)}, 110),
    "fading": (fading, {"figsize": (8, 3)}, 150),
    "radial": (radial, {"figsize": (6, 4)}, 120),
    **{f"gauges-{n}": (partial(gauge, n), THREE, 120) for n in range(4)},
    "walls": (walls, {"ncols": 2, "figsize": (10, 3.4), "width_ratios": (1.6, 1)}, 110),
    "distance": (distance, {"ncols": 3, "figsize": (10, 3.4), "sharey": True}, 130),
    "corrected": (corrected, {"ncols": 2, "figsize": (8, 3.8)}, 110),
}
TITLES = {"axes.titlelocation": "left", "axes.titleweight": "bold", "axes.titlesize": "medium"}
GAUGES = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--folder", type=Path, help="default: docs/images")
    given = parser.parse_args()
    if unknown := {*given.names} - {*PICTURES}:
        parser.error(f"there is no picture {', '.join(unknown)}; expected {', '.join(PICTURES)}")
    import matplotlib.pyplot as plt

    for name in given.names or PICTURES:
        draw, panels, dots = PICTURES[name]
        with plt.rc_context(TITLES | (GAUGES if name.startswith("gauges") else {})):
            figure, axes = plt.subplots(layout="constrained", **panels)
            draw(axes)
            figure.savefig((given.folder or page.DOCS / "images") / f"{name}.png", dpi=dots)
            plt.close(figure)
        if name == "distance" and given.folder is None:
            page.write("boundary_integrals", page.fill("boundary_integrals", lambda _: table()))


if __name__ == "__main__":
    main()
