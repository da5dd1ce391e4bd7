"""Swimmers in a layer of fluid that repeats along two axes: one plan, new points at each step.

    python examples/swimmers.py [--swimmers 400] [--steps 1000] [--output swimmers.png]

A swimmer of length 1 moves at speed 1 along its direction p and pushes the fluid away at both of
its ends (a pusher, as most bacteria) or draws it in (a puller, as some algae): two point forces
that add up to zero. Its centre x moves, and its direction turns, with the flow of all others:

    dx/dt = p + u(x)        dp/dt = (1 - p p^T) grad u(x) p

By symmetry, its own two forces have no effect on it: their velocities at its centre cancel, and
their gradient stretches it along p. The centres are therefore targets, the ends are sources, and
both move: `Plan.update_points` gives the plan new points, without growing memory.

The layer is 5 lengths high, in a fluid without walls; swimmers that reach its top or bottom turn
back. Their mean square displacement is compared with the one of swimmers without a flow.
"""

import argparse
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import parki

BOX, LAYER = 20.0, 5.0  # in lengths of a swimmer, as below
FORCE = 6.0  # at each end, in units of viscosity times a swimmer's speed and length
STEP = 0.025
# Limits of velocities (in speeds of a swimmer) and gradients (in speeds over its length), because
# point forces are a poor model within the width of a swimmer.
FASTEST, STEEPEST = 3.0, 6.0
HEIGHT = LAYER + 1.0  # of the box, which also has to hold the ends
OPTIONS = parki.EwaldOptions(periodicity=2, box=[BOX, BOX, HEIGHT], tolerance=1e-3)
KINDS = {"pushers": (1.0, "#0072b2"), "pullers": (-1.0, "#d55e00")}
INK, PAPER = "#1d1b2e", "#fbfaf8"


@dataclass
class Run:
    """Swimmers and their record.

    Attributes
    ----------
    centres, directions : ndarray, shape (3, n)
        Centres, not wrapped into the box, and directions.
    sign : float
        1 for pushers, -1 for pullers.
    times, spread : list of float
        Times, and mean square displacements along the layer.
    memory : list of float
        Resident memory of the process in MB.
    """

    centres: np.ndarray
    directions: np.ndarray
    sign: float
    times: list[float]
    spread: list[float]
    memory: list[float]

    @property
    def sources(self) -> np.ndarray:
        """The ends of all swimmers, shape (3, 2 n)."""
        half = self.directions / 2
        return np.concatenate([self.centres + half, self.centres - half], axis=1)

    @property
    def forces(self) -> np.ndarray:
        """The forces at the ends, over 8 pi times the viscosity."""
        pull = self.sign * FORCE / (8 * np.pi) * self.directions
        return np.concatenate([pull, -pull], axis=1)


def start(count: int, sign: float) -> Run:
    """Return swimmers at random positions, in random directions."""
    rng = np.random.default_rng(0)
    centres = rng.uniform([[0], [0], [0.5]], [[BOX], [BOX], [0.5 + LAYER]], (3, count))
    directions = rng.standard_normal((3, count))
    return Run(centres, directions / np.linalg.norm(directions, axis=0), sign, [], [], [])


def limited(field: np.ndarray, most: float) -> np.ndarray:
    """Limit the norms of vectors or matrices, one for each entry of the last axis."""
    axes = tuple(range(field.ndim - 1))
    norms = np.sqrt(np.sum(field**2, axis=axes))
    return field * (most / np.maximum(norms, most))


def resident() -> float:
    """Return the memory of this process in MB."""
    return psutil.Process().memory_info().rss / 1e6


def advance(run: Run, steps: int, progress: Progress, name: str) -> parki.Plan:
    """Take steps by the Adams-Bashforth rule of second order; return the plan."""
    begin = run.centres.copy()
    task = progress.add_task(name, total=steps)
    plan = parki.Plan("stokes_sl", run.centres, run.sources, OPTIONS, want=("u", "grad_u"))
    before: tuple[np.ndarray, np.ndarray] | None = None
    for step in range(1, steps + 1):
        if step > 1:
            plan.update_points(run.centres, run.sources)
        u, grad_u = plan(run.forces)
        p = run.directions
        moving = p + limited(u, FASTEST)
        turning = np.einsum("ijn,jn->in", limited(grad_u, STEEPEST), p)
        turning -= p * np.sum(p * turning, axis=0)
        last = before or (moving, turning)
        run.centres = run.centres + STEP * (1.5 * moving - 0.5 * last[0])
        p = p + STEP * (1.5 * turning - 0.5 * last[1])
        run.directions = p / np.linalg.norm(p, axis=0)
        before = (moving, turning)
        turn_back(run, before)
        along = (run.centres - begin)[:2]
        run.times.append(step * STEP)
        run.spread.append(float(np.mean(np.sum(along**2, axis=0))))
        run.memory.append(resident())
        if step % max(1, steps // 5) == 0:
            progress.console.print(
                f"{name}: step {step}, mean square displacement {run.spread[-1]:.1f}, "
                f"{run.memory[-1]:.1f} MB"
            )
        progress.advance(task)
    plan.update_points(run.centres, run.sources)
    return plan


def turn_back(run: Run, rates: tuple[np.ndarray, ...]) -> None:
    """Mirror swimmers that have left the layer, with the rates that the next step needs."""
    low, high = 0.5, 0.5 + LAYER
    height = run.centres[2]
    out = (height < low) | (height > high)
    # A step is much shorter than the layer's height.
    height[out] = np.where(height[out] < low, 2 * low, 2 * high) - height[out]
    run.directions[2, out] *= -1
    for rate in rates:
        rate[2, out] *= -1


def error(run: Run, plan: parki.Plan, targets: int = 20) -> float:
    """Return the last velocities' error by a direct sum, relative to the promised one."""
    found = plan(run.forces)[0][:, :targets]
    exact = parki.reference.direct_sum(
        "stokes_sl",
        run.centres[:, :targets],
        run.sources,
        run.forces,
        box=(BOX, BOX, HEIGHT),
        periodicity=2,
    )
    apart = np.sqrt(np.mean(np.sum((found - exact) ** 2, axis=0)))
    return float(apart / plan.promise(run.forces)[0])


def draw(output: str, runs: dict[str, Run], pixels: int = 240) -> None:
    """Draw the pushers and the flow in mid-height, and the mean square displacements."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 5.2), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    left = figure.add_axes((0.05, 0.125, 0.76 * 5.2 / 11.5, 0.76))
    right = figure.add_axes((0.58, 0.125, 0.345, 0.76), facecolor=PAPER)

    name, run = next(iter(runs.items()))
    x = (np.arange(pixels) + 0.5) / pixels * BOX
    plane = np.stack(np.meshgrid(x, x, [HEIGHT / 2], indexing="ij")).reshape(3, -1)
    flow = parki.stokes_sl(plane, run.sources, run.forces, OPTIONS)
    speed = np.linalg.norm(flow, axis=0).reshape(pixels, pixels)
    image = left.imshow(
        speed.T,
        origin="lower",
        extent=(0, BOX, 0, BOX),
        cmap="magma",
        vmin=0,
        vmax=np.percentile(speed, 99),
        interpolation="bicubic",
    )
    # All swimmers are drawn, fainter with their distance from the plane.
    far = np.abs(run.centres[2] - HEIGHT / 2) / (LAYER / 2)
    colours = np.ones((run.centres.shape[1], 4))
    colours[:, 3] = 1 - 0.75 * far
    middle = np.mod(run.centres[:2], BOX)
    ends = np.stack([middle - run.directions[:2] / 2, middle + run.directions[:2] / 2])
    left.add_collection(LineCollection(ends.transpose(2, 0, 1), colors=colours, linewidths=1.6))
    left.scatter(*ends[1], s=9, color=colours, linewidths=0)
    left.set(xlim=(0, BOX), ylim=(0, BOX), aspect="equal")
    left.set_xlabel("x and y, in lengths of a swimmer")
    left.set_xticks(range(0, int(BOX) + 1, 5))
    left.set_yticks(range(0, int(BOX) + 1, 5))
    left.set_title(
        f"{name.capitalize()} after t = {run.times[-1]:g}", loc="left", fontweight="bold"
    )
    place = left.get_position()
    bar = figure.colorbar(
        image, cax=figure.add_axes((place.x1 + 0.012, 0.125, 0.012, 0.76)), extend="max"
    )
    bar.outline.set_visible(False)
    bar.set_label("speed of the fluid in mid-height / speed of a swimmer", color=INK)

    times = np.array(run.times)
    right.axhline(1, color=INK, linewidth=1.2, linestyle="--")
    for kind, (_, colour) in KINDS.items():
        if kind in runs:
            ratio = np.array(runs[kind].spread) / (2 / 3 * times**2)
            right.plot(times, ratio, color=colour, linewidth=2)
            right.text(times[-1], ratio[-1], f" {kind}", color=colour, va="center")
    right.text(times[-1], 1, " no flow", color=INK, va="center")
    right.set(xlim=(0, times[-1]), xlabel="time, in lengths over speed of a swimmer")
    right.set_ylim(bottom=0)
    right.grid(color=INK, alpha=0.12)
    right.spines[["top", "right"]].set_visible(False)
    title = "Mean square displacement along the layer,\nover that of swimmers that meet no flow"
    right.set_title(title, loc="left", fontweight="bold")
    figure.savefig(output, facecolor=PAPER)


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--swimmers", type=int, default=400)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--output", default="swimmers.png", help="picture; '' draws nothing")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> dict[str, Run]:
    given = arguments(words)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    runs = {}
    with Progress(*columns, transient=True) as progress:
        for kind, (sign, _) in KINDS.items():
            runs[kind] = start(given.swimmers, sign)
            plan = advance(runs[kind], given.steps, progress, kind)
            off = error(runs[kind], plan)
            progress.console.print(f"{kind}: last error over the promised one {off:.1e}")
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(given.output, runs)
        print(f"Picture: {Path(given.output)}")
    return runs


if __name__ == "__main__":
    main()
