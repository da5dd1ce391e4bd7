"""Stokes drag on a simple cubic array of spheres, compared with Zick and Homsy (1982).

    python examples/drag_on_cubic_array.py [points on the sphere] [picture]

One sphere of radius a moves at velocity U through the unit box, which repeats along all three axes.
Point forces under the surface of the sphere make the flow (the method of fundamental solutions).
They are at points of the surface scaled by the factor ``DEPTH``, and have to give the velocity U at
the surface points themselves. GMRES finds them, with a plan as the matrix.

The mean velocity over the box is zero in parki's sums. They are free of divergence, also inside the
sphere, so that the flux through every plane is zero. U is therefore the velocity of the sphere
relative to the mean flow of fluid and sphere together. The box does not accelerate, so a mean
pressure gradient balances the forces. Their sum F is the whole drag on the sphere, the part of that
gradient included. The drag factor is then K = F / (6 pi viscosity a U).

A. A. Zick, G. M. Homsy, Stokes flow through periodic arrays of spheres, Journal of Fluid Mechanics
115, 13-26 (1982). H. Hasimoto, On the periodic fundamental solutions of the Stokes equations,
Journal of Fluid Mechanics 5, 317-328 (1959).
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse.linalg import LinearOperator, gmres

import parki

ZICK_HOMSY = {0.027: 2.008, 0.064: 2.810, 0.125: 4.292, 0.216: 7.442, 0.343: 15.4}
# Deeper points make a smoother flow but a worse conditioned matrix. Continued into the sphere, the
# flow is singular at the images of the other spheres. These must be deeper than the points; at the
# largest fraction drawn they are below 0.66 radii.
DEPTH = 0.7
OPTIONS = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-8)
CURVE = np.linspace(0.1, 0.74, 17)  # cube roots of the solid fractions on the drawn curve
DRAWN = 0.216  # solid fraction of the drawn flow
EDDY = 0.03  # where a drawn eddy is closest to the axis
INK, PAPER, BLUE, RED = "#1d1b2e", "#fbfaf8", "#2f5d8c", "#c2452d"


@dataclass(frozen=True)
class Drag:
    """The flow past a sphere of the array: forces (3, n) at ``sources``, for U = 1 along z."""

    radius: float
    sources: np.ndarray
    forces: np.ndarray
    factor: float
    iterations: int

    def velocity(self, targets: np.ndarray) -> np.ndarray:
        """Return the velocity, relative to the mean flow, at targets of shape (3, m)."""
        return parki.stokes_sl(targets, self.sources, self.forces, OPTIONS) / (8 * np.pi)

    def slip(self) -> float:
        """Return the largest error of the velocity on the sphere, at points not used before."""
        others = 0.5 + self.radius * sphere(2 * self.sources.shape[1] + 1)
        error = self.velocity(others) - [[0], [0], [1]]
        return float(np.sqrt(np.max(np.sum(error**2, axis=0))))


def sphere(count: int) -> np.ndarray:
    """Return evenly spread points on the unit sphere: shape (3, count)."""
    index = np.arange(count) + 0.5
    height = 1 - 2 * index / count
    ring, angle = np.sqrt(1 - height**2), np.pi * (1 + 5**0.5) * index
    return np.stack([ring * np.cos(angle), ring * np.sin(angle), height])


def lone_sphere(count: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map from velocities on a single sphere of radius 1 to its forces.

    It is the preconditioner. It leaves to GMRES only the flow that the other spheres induce, which
    is smooth on this one.
    """
    points = sphere(count)
    r = points[:, :, None] - DEPTH * points[:, None, :]
    inverse = 1 / np.linalg.norm(r, axis=0)
    matrix = np.einsum("ist,jst,st->isjt", r, r, inverse**3)
    for i in range(3):
        matrix[i, :, i] += inverse
    factors = lu_factor(matrix.reshape(3 * count, 3 * count), overwrite_a=True)
    return lambda velocity: lu_solve(factors, velocity)


def solve(fraction: float, count: int, alone: Callable[[np.ndarray], np.ndarray]) -> Drag:
    """Return the flow at a solid fraction, from ``count`` points on the sphere.

    Raises
    ------
    SystemExit
        If GMRES does not converge.
    """
    radius = (3 * fraction / (4 * np.pi)) ** (1 / 3)
    surface = 0.5 + radius * sphere(count)
    sources = 0.5 + DEPTH * radius * sphere(count)
    single = parki.Plan("stokes_sl", surface, sources, OPTIONS).as_linear_operator()
    # A point force's flow falls as 1/r, so forces on a sphere of radius a are a times larger.
    forces_alone = LinearOperator(single.shape, matvec=lambda v: radius * alone(v), dtype=float)
    wanted = np.zeros((3, count))
    wanted[2] = 8 * np.pi  # the sums are 8 pi viscosity times the velocity
    residuals: list[float] = []
    solution, status = gmres(
        single @ forces_alone,
        wanted.reshape(-1),
        rtol=1e-5,
        restart=80,
        maxiter=1,
        callback=residuals.append,
        callback_type="pr_norm",
    )
    if status != 0:
        raise SystemExit(f"GMRES did not converge for the solid fraction {fraction}")
    forces = forces_alone.matvec(solution).reshape(3, count)
    factor = float(forces[2].sum() / (6 * np.pi * radius))
    return Drag(radius, sources, forces, factor, len(residuals))


def dilute(fraction: np.ndarray | float) -> np.ndarray | float:
    """Return Hasimoto's expansion of 1 / K for small solid fractions."""
    return 1 - 1.7601 * fraction ** (1 / 3) + fraction - 1.5593 * fraction**2


def main(
    points: int = 1000,
    picture: str | None = "drag.png",
    fractions: tuple[float, ...] = tuple(ZICK_HOMSY),
) -> dict[float, float]:
    table = Table(title=f"Drag on a simple cubic array, {points} points on the sphere", box=SIMPLE)
    for head in ("fraction", "K", "published", "difference", "dilute", "slip", "steps", "s"):
        table.add_column(head, justify="right")
    alone = lone_sphere(points)
    found: dict[float, float] = {}
    for fraction in fractions:
        start = time.perf_counter()
        drag = solve(fraction, points, alone)
        seconds = time.perf_counter() - start
        known, expansion = ZICK_HOMSY[fraction], dilute(fraction)
        found[fraction] = drag.factor
        table.add_row(
            f"{fraction}",
            f"{drag.factor:.4f}",
            f"{known}",
            f"{drag.factor / known - 1:+.3%}",
            f"{1 / expansion:.3f}" if expansion > 0 else "-",
            f"{drag.slip():.0e}",
            f"{drag.iterations}",
            f"{seconds:.2f}",
        )
    Console().print(table)
    if picture is not None and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif picture is not None:
        draw(picture, points, alone)
        print(f"Picture: {picture}")
    return found


def draw(picture: str, points: int, alone: Callable[[np.ndarray], np.ndarray]) -> None:
    """Draw the drag factors, and the flow past the spheres in the plane of their centres."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 5.2), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    left = figure.add_axes((0.065, 0.125, 0.40, 0.76), facecolor=PAPER)
    right = figure.add_axes((0.525, 0.125, 0.76 * 5.2 / 11.5, 0.76))

    left.semilogy(
        CURVE,
        [solve(c, points, alone).factor for c in CURVE**3],
        color=BLUE,
        linewidth=2,
        label="parki",
    )
    thin = np.linspace(0, 0.65, 200)  # the expansion of 1 / K is negative beyond
    left.semilogy(
        thin, 1 / dilute(thin**3), "--", color=INK, linewidth=1.2, label="Hasimoto, dilute"
    )
    left.semilogy(
        np.cbrt(list(ZICK_HOMSY)),
        list(ZICK_HOMSY.values()),
        "o",
        markersize=8,
        markerfacecolor="none",
        markeredgecolor=RED,
        markeredgewidth=1.8,
        label="Zick and Homsy",
    )
    ticks = [1, 2, 5, 10, 20]
    left.set(xlim=(0, 0.76), ylim=(1, 30), xlabel="cube root of the solid fraction")
    left.set_yticks(ticks, [str(tick) for tick in ticks])
    left.minorticks_off()
    left.grid(color=INK, alpha=0.12)
    left.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, loc="upper left")
    left.set_title("Drag factor K of a sphere in the array", loc="left", fontweight="bold")

    draw_flow(right, solve(DRAWN, points, alone))
    bar_axes = figure.add_axes((0.885, 0.125, 0.012, 0.76))
    bar = figure.colorbar(right.images[0], cax=bar_axes)
    bar.outline.set_visible(False)
    bar.set_label("speed / mean speed", color=INK)
    figure.savefig(picture, facecolor=PAPER)


def draw_flow(axes, drag: Drag, pixels: int = 128, cells: int = 2) -> None:
    """Draw speed and streamlines past spheres at rest, in the plane through their centres."""
    from matplotlib.patches import Circle

    middle = (np.arange(pixels) + 0.5) / pixels
    grid = np.empty((3, pixels, pixels))
    grid[0], grid[1], grid[2] = middle[:, None], 0.5, middle
    cell = drag.velocity(grid.reshape(3, -1)).reshape(grid.shape)
    # The spheres are at rest, and the mean flow is along +z. The point forces are inside them.
    flow = np.array([0, 0, 1])[:, None, None] - cell
    flow[:, np.hypot(grid[0] - 0.5, grid[2] - 0.5) < drag.radius] = 0
    # One cell more on every side, so that streamlines do not end at the edges of the picture.
    flow = np.tile(flow, (1, cells + 2, cells + 2))
    along = (np.arange((cells + 2) * pixels) + 0.5) / pixels - 1
    axes.imshow(
        np.linalg.norm(flow, axis=0),
        origin="lower",
        extent=(-1, cells + 1, -1, cells + 1),
        cmap="magma",
        vmin=0,
        interpolation="bicubic",
    )
    cell_numbers = np.arange(cells)[:, None]
    heights = (cell_numbers + np.delete((np.arange(13) + 0.5) / 13, [5, 6, 7])).ravel()
    through = [(1, x) for x in heights]
    centres = (cell_numbers + np.array([0.5 - EDDY, 0.5 + EDDY])).ravel()
    eddies = [(z, x) for z in range(cells + 1) for x in centres]
    # Lines start half-way between spheres: passing ones, and the eddy between two spheres. They go
    # round an eddy once or twice, by short steps, which streamplot takes from its density.
    for starts, density, longest in ((through, 4, 4.0), (eddies, 20, 0.2)):
        axes.streamplot(
            along,
            along,
            flow[2],
            flow[0],
            color=(1, 1, 1, 0.7),
            linewidth=0.8,
            arrowsize=0.7,
            density=density,
            start_points=starts,
            minlength=0.01,
            maxlength=longest,
            broken_streamlines=False,
        )
    for x in range(cells):
        for z in range(cells):
            axes.add_patch(
                Circle(
                    (z + 0.5, x + 0.5),
                    drag.radius,
                    facecolor="#cfc3ae",
                    edgecolor=INK,
                    linewidth=1,
                    zorder=4,
                )
            )
    axes.set(xlim=(0, cells), ylim=(0, cells), xlabel="z, in periods", aspect="equal")
    axes.set_xticks(range(cells + 1))
    axes.set_yticks([])
    axes.set_title(
        f"Flow past spheres at rest, solid fraction {DRAWN}", loc="left", fontweight="bold"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("points", type=int, nargs="?", default=1000, help="on the sphere")
    parser.add_argument("picture", nargs="?", default="drag.png", help="file to draw into")
    given = parser.parse_args()
    main(given.points, given.picture)
