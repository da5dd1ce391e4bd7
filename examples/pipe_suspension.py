"""Rods that settle in a pipe: the wall by GMRES, streamlines and pressure in the plane of the axis.

    python examples/pipe_suspension.py [--rods 40] [--around 80] [--output pipe.png]

A pipe of radius 1 along x repeats after 6 radii. Rods fall along it. Each is a row of point forces,
which add up to its weight. The wall is at rest. Point forces outside the pipe represent it (the
method of fundamental solutions); GMRES finds them so that the whole velocity is zero at points of
the wall. The matrix is a plan with the wall's points as targets and the outer points as sources.
The pipe is closed far away: a Poiseuille flow, which vanishes at the wall, takes back the rods'
flux.

Two results are known. The flux of point forces f at distances r from the axis, without a mean
pressure gradient, is Q = sum f_x (1 - r^2) / (4 viscosity period), by the reciprocal theorem. The
wall of an infinite closed pipe slows a force on its axis by 2.10444 f / (6 pi viscosity), the
correction to the mobility of a small sphere. The program checks both before it fills the pipe.

J. Happel, H. Brenner, Low Reynolds Number Hydrodynamics, chapter 7 (1983).
"""

import argparse
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from scipy.sparse.linalg import LinearOperator, gmres

import parki

PERIOD = 6.0
# Distance of the point forces from the wall, in spacings. Larger is smoother but worse conditioned.
OUTSIDE = 3
WALL_CORRECTION = 2.10444
RESIDUAL = 1e-6  # of GMRES, relative to the velocity at the wall without its forces
OPTIONS = parki.EwaldOptions(periodicity=1, box=[PERIOD, None, None], tolerance=1e-8)
# Points of rods have distance 2 BEAD, and are all within REACH of the axis.
BEADS, BEAD, REACH = 12, 0.02, 0.72
INK, PAPER = "#1d1b2e", "#fbfaf8"


def cylinder(radius: float, around: int, along: int) -> np.ndarray:
    """Return a regular pattern of points on a cylinder, shape (3, along * around)."""
    x = (np.arange(along) + 0.5) / along * PERIOD
    angle = 2 * np.pi * (np.arange(around) + 0.5) / around
    x, angle = (a.ravel() for a in np.meshgrid(x, angle, indexing="ij"))
    return np.stack([x, radius * np.cos(angle), radius * np.sin(angle)])


@dataclass(frozen=True)
class Flow:
    """The flow of point forces in the pipe, including the wall's; the viscosity is 1."""

    sources: np.ndarray
    forces: np.ndarray
    back: float  # the Poiseuille flow on the axis
    steps: int  # of GMRES

    def velocity(self, targets: np.ndarray) -> np.ndarray:
        """Return the velocity at targets (3, m); a force at a target itself is left out."""
        return self._of(targets, parki.stokes_sl(targets, self.sources, self.forces, OPTIONS))

    def velocity_and_pressure(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return velocity (3, m) and pressure (m,), the latter without its mean gradient."""
        want = ("u", "p")
        u, p = parki.stokes_sl(targets, self.sources, self.forces, OPTIONS, want=want)
        return self._of(targets, u), p / (8 * np.pi)

    def _of(self, targets: np.ndarray, u: np.ndarray) -> np.ndarray:
        u = u / (8 * np.pi)
        u[0] += self.back * (1 - targets[1] ** 2 - targets[2] ** 2)
        return u


class Pipe:
    """A pipe at rest, with ``around`` points around it, and about the same spacing along it.

    Both numbers are made odd, because an even pattern has a mode that vanishes between its points.
    """

    def __init__(self, around: int) -> None:
        self.around = around | 1
        self.along = round(around * PERIOD / (2 * np.pi)) | 1
        around = self.around
        self.wall = cylinder(1, around, self.along)
        self.outside = cylinder(1 + OUTSIDE * 2 * np.pi / around, around, self.along)
        plan = parki.Plan("stokes_sl", self.wall, self.outside, OPTIONS)
        self.matrix = plan.as_linear_operator()
        self.preconditioner = self._inverse(plan)

    def _inverse(self, plan: parki.Plan) -> LinearOperator:
        """Return the inverse of the matrix, from three of its columns.

        The wall looks the same from all of its points. In components along, off and around the
        axis, the matrix is therefore a convolution over the pattern, and FFTs make it 3 x 3
        blocks. GMRES only corrects an error of the size of the tolerance; for other walls than
        cylinders it would have to correct more.
        """
        shape = (3, self.along, self.around)
        modes = np.empty((3, *shape), dtype=complex)
        for column in range(3):
            unit = np.zeros(shape)
            unit[column, 0, 0] = 1
            velocity = plan(self._turn(unit, back=True).reshape(3, -1)).reshape(shape)
            modes[column] = np.fft.fft2(self._turn(velocity))
        # Equal forces along the normals have no effect, so their mode is left out of the inverse.
        blocks = np.linalg.pinv(modes.transpose(2, 3, 1, 0), rcond=1e-9)

        def matvec(vector: np.ndarray) -> np.ndarray:
            hat = np.fft.fft2(self._turn(vector.reshape(shape)))
            forces = np.fft.ifft2(np.einsum("xaij,jxa->ixa", blocks, hat)).real
            return self._turn(forces, back=True).reshape(-1)

        return LinearOperator(self.matrix.shape, matvec=matvec, dtype=float)

    def _turn(self, vectors: np.ndarray, back: bool = False) -> np.ndarray:
        """Return vectors (3, along, around) in components along, off and around the axis."""
        cos, sin = self.wall[1:].reshape(2, self.along, self.around)
        sin = -sin if back else sin
        x, y, z = vectors
        return np.stack([x, cos * y + sin * z, cos * z - sin * y])

    def flow(self, points: np.ndarray, forces: np.ndarray) -> Flow:
        """Return the flow of forces (3, n) at points (3, n) inside.

        Raises
        ------
        SystemExit
            If GMRES does not converge.
        """
        driven = parki.stokes_sl(self.wall, points, forces, OPTIONS)
        with parki.Progress("GMRES", rtol=RESIDUAL) as show:
            solution, status = gmres(
                self.matrix @ self.preconditioner,
                -driven.reshape(-1),
                rtol=RESIDUAL,
                restart=30,
                maxiter=1,
                callback=show,
                callback_type="pr_norm",
            )
        if status != 0:
            raise SystemExit("GMRES did not converge for the forces of the wall")
        wall_forces = self.preconditioner.matvec(solution)
        sources = np.concatenate([points, self.outside], axis=1)
        strengths = np.concatenate([forces, wall_forces.reshape(3, -1)], axis=1)
        # The Poiseuille flow, back (1 - r^2), has the flux back pi / 2.
        return Flow(sources, strengths, -flux(points, forces) * 2 / np.pi, show.count)

    def slip(self, flow: Flow, points: np.ndarray, forces: np.ndarray) -> float:
        """Return the largest velocity between the wall's points, over the one without a wall."""
        # One more each way, so that nearly all points are between the wall's points.
        others = cylinder(1, self.around + 1, self.along + 1)
        alone = parki.stokes_sl(others, points, forces, OPTIONS) / (8 * np.pi)
        speeds = (np.linalg.norm(u, axis=0).max() for u in (flow.velocity(others), alone))
        return float(next(speeds) / next(speeds))


def flux(points: np.ndarray, forces: np.ndarray) -> float:
    """Return the flux of forces inside a pipe without a mean pressure gradient."""
    return float(np.sum(forces[0] * (1 - points[1] ** 2 - points[2] ** 2)) / (4 * PERIOD))


def measured_flux(flow: Flow, rings: int = 24, around: int = 64) -> float:
    """Return the flux through the cross-section x = 0, by Gauss's and the trapezoidal rule."""
    nodes, weights = np.polynomial.legendre.leggauss(rings)
    radii, weights = np.repeat((nodes + 1) / 2, around), np.repeat(weights / 2, around)
    angle = np.tile(2 * np.pi * np.arange(around) / around, rings)
    section = np.stack([0 * radii, radii * np.cos(angle), radii * np.sin(angle)])
    return float(np.sum(flow.velocity(section)[0] * radii * weights) * 2 * np.pi / around)


def check(pipe: Pipe) -> tuple[float, float]:
    """Return the wall correction of a force on the axis, and the error of its flux (relative)."""
    point, force = np.array([[PERIOD / 2], [0.0], [0.0]]), np.array([[1.0], [0.0], [0.0]])
    flow = pipe.flow(point, force)
    correction = -6 * np.pi * float(flow.velocity(point)[0, 0])
    open_flux = measured_flux(flow) - flow.back * np.pi / 2
    return correction, abs(open_flux / flux(point, force) - 1)


def rods(count: int, seed: int = 0) -> np.ndarray:
    """Return points of rods at random positions and directions, apart: shape (3, count, BEADS).

    Raises
    ------
    SystemExit
        If the rods do not fit.
    """
    rng = np.random.default_rng(seed)
    placed = np.empty((3, 0, BEADS))
    for _ in range(3000 * count):
        axis = rng.standard_normal(3)
        steps = 2 * BEAD * (np.arange(BEADS) - (BEADS - 1) / 2)
        middle = rng.uniform([0, -REACH, -REACH], [PERIOD, REACH, REACH])
        rod = middle[:, None] + axis[:, None] / np.linalg.norm(axis) * steps
        apart = rod[:, None, :, None] - placed[:, :, None, :]
        apart[0] -= PERIOD * np.rint(apart[0] / PERIOD)
        close = np.any(np.sum(apart**2, axis=0) < (3 * BEAD) ** 2)
        if not close and np.max(np.hypot(rod[1], rod[2])) < REACH:
            placed = np.concatenate([placed, rod[:, None]], axis=1)
        if placed.shape[1] == count:
            return placed
    raise SystemExit(f"{count} rods do not fit into the pipe")


def draw(output: str, flow: Flow, beads: np.ndarray, across: int) -> None:
    """Draw pressure, streamlines and rods in the plane z = 0, from above."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    along = round(across * PERIOD / 2)
    x, y = (np.arange(along) + 0.5) / along * PERIOD, 2 * (np.arange(across) + 0.5) / across - 1
    plane = np.stack(np.meshgrid(x, y, [0.0], indexing="ij")).reshape(3, -1)
    u, p = flow.velocity_and_pressure(plane)
    u, p = u.reshape(3, along, across), p.reshape(along, across)
    p -= np.median(p)
    top = float(np.percentile(np.abs(p), 97))

    figure = Figure(figsize=(12, 4.5), dpi=100, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.045, 0.13, 0.86, 0.74))
    image = axes.imshow(
        p.T,
        origin="lower",
        extent=(0, PERIOD, -1, 1),
        cmap="RdBu_r",
        vmin=-top,
        vmax=top,
        interpolation="bicubic",
    )
    speed = np.hypot(u[0], u[1]).T
    width = 0.35 + 0.9 * np.minimum(speed / np.percentile(speed, 95), 1)
    axes.streamplot(
        x,
        y,
        u[0].T,
        u[1].T,
        color=(0.11, 0.1, 0.18, 0.6),
        linewidth=width,
        density=(3.2, 1.5),
        arrowsize=0.7,
        arrowstyle="-|>",
    )
    # Rods that the plane cuts, or nearly cuts. Rods that leave the period appear at both ends.
    near = np.abs(beads[2]).min(axis=1) < 0.12
    shifts = np.array([-PERIOD, 0, PERIOD])
    lines = [
        np.stack([rod[0] + shift, rod[1]], axis=1)
        for rod in beads[:, near].swapaxes(0, 1)
        for shift in shifts
    ]
    wide = 2 * BEAD * axes.get_position().width * 12 * 72 / PERIOD
    for extra, colour in ((1.6, PAPER), (0, INK)):
        axes.add_collection(
            LineCollection(
                lines, linewidths=wide + extra, colors=colour, capstyle="round", zorder=4
            )
        )
    axes.set(xlim=(0, PERIOD), ylim=(-1, 1), aspect="equal", yticks=(-1, 0, 1))
    axes.set(xlabel="x, in radii of the pipe", ylabel="y, in radii")
    axes.spines[["left", "right"]].set_visible(False)
    axes.spines[["top", "bottom"]].set(linewidth=3, color=INK)
    title = f"{beads.shape[1]} rods settle (to the right) in a closed pipe"
    axes.set_title(title, loc="left", fontweight="bold", pad=10)
    place = axes.get_position()
    bar = figure.colorbar(
        image, cax=figure.add_axes((0.92, place.y0, 0.011, place.height)), extend="both"
    )
    bar.outline.set_visible(False)
    bar.set_label("pressure, in weights of a rod per radius$^2$", color=INK)
    figure.savefig(output, facecolor=PAPER)


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rods", type=int, default=40)
    parser.add_argument("--around", type=int, default=80, help="points around the wall")
    parser.add_argument("--pixels", type=int, default=240, help="across the picture")
    parser.add_argument("--output", default="pipe.png", help="picture; '' draws nothing")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> dict[str, float]:
    """Run; return the checked numbers."""
    given = arguments(words)
    pipe = Pipe(given.around)
    correction, flux_error = check(pipe)
    beads = rods(given.rods)
    points = beads.reshape(3, -1)
    weights = np.zeros_like(points)
    weights[0] = 1 / BEADS
    flow = pipe.flow(points, weights)
    slip = pipe.slip(flow, points, weights)

    table = Table(box=SIMPLE, show_header=False)
    table.add_row("points of the wall", f"{pipe.wall.shape[1]}")
    table.add_row("wall correction of a force on the axis", f"{correction:.5f}")
    table.add_row("  known for an infinite pipe", f"{WALL_CORRECTION:.5f}")
    table.add_row("flux of that force, relative error", f"{flux_error:.0e}")
    table.add_row(f"{given.rods} rods: steps of GMRES", f"{flow.steps}")
    table.add_row("  largest velocity on the wall, over that without", f"{slip:.0e}")
    Console().print(table)
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(given.output, flow, beads, given.pixels)
        print(f"Picture: {Path(given.output)}")
    return {"correction": correction, "flux": flux_error, "slip": slip, "steps": flow.steps}


if __name__ == "__main__":
    main()
