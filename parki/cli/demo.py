"""`parki demo`: times, checks and draws the flow of a suspension of drops in a pipe.

Heavy and light drops fill a cylindrical pipe that repeats along x. Each drop is a sphere sampled by
points with outward normals; the points carry a single-layer density (the drop's weight less its
buoyancy, spread evenly over its surface) and a double-layer density (a stretching along the pipe).
Lengths are in pipe units; the unit of velocity is the settling speed of a single drop of mean
size. The pipe only confines the drops: its wall carries no density. The module uses the public
calls and the reference only.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.cli.arguments import (
    Commands,
    add_common,
    check_count,
    check_ending,
    check_output,
    command,
    home_expanded,
    replacing,
    whole,
)
from parki.cli.check import compare
from parki.errors import ParkiValueError
from parki.ewald import EwaldOptions, Plan, stokes_comb
from parki.interchange import to_host
from parki.runtime import get_execution_space

Array = NDArray[np.float64]

BOX = (4.0, 1.0, 1.0)
PIPE_RADIUS = 0.46
DROPS = 240
DROP_VOLUME = 0.2  # fraction of the pipe's volume
STRETCH = 1.5
SAMPLES = 50
PIXELS = (1280, 320)
STREAMLINES = (5.5, 2.0)  # density along and across
FEWEST_POINTS = 1000
INK, PAPER = "#1d1b2e", "#fbfaf8"
HEAVY, LIGHT = ("#5d7391", "#161b2b"), ("#ffffff", "#cfc3ae")  # lit and dark side of a drop


@dataclass(frozen=True)
class Suspension:
    """Drops in a pipe and the points on their surfaces.

    Attributes
    ----------
    points, normals : ndarray, shape (3, N), float64
        Points on the surfaces of the drops, in pipe units, and unit normals out of the drops.
    density : ndarray, shape (6, N), float64
        Rows 0-2 single layer (force), rows 3-5 double layer (velocity times area). With viscosity 1
        the velocity is the combined sum over 8 pi.
    centres, radii, heavy : ndarray, shape (3, M), (M,) and (M,)
        The drops; ``heavy`` is True for those that settle along +x.
    """

    points: Array
    normals: Array
    density: Array
    centres: Array
    radii: Array
    heavy: NDArray[np.bool_]


def suspension(count: int, seed: int) -> Suspension:
    """Return ``count`` points on random drops that do not overlap; the seed fixes them."""
    if seed < 0:
        raise ParkiValueError(f"seed is {seed}; expected 0 or more")
    if count < FEWEST_POINTS:
        raise ParkiValueError(
            f"points is {count}; expected at least {FEWEST_POINTS}, enough to sample the drops"
        )
    check_count(count)
    rng = np.random.default_rng(seed)
    number = min(DROPS, count // 50)
    radii = rng.uniform(0.65, 1.35, number)
    pipe_volume = np.pi * PIPE_RADIUS**2 * BOX[0]
    radii *= (DROP_VOLUME * pipe_volume / (4 / 3 * np.pi * np.sum(radii**3))) ** (1 / 3)
    radii = np.sort(radii)[::-1].copy()
    centres = _place(radii, rng)
    heavy = rng.permutation(number) % 2 == 0

    ends = np.rint(np.cumsum(radii**2) / np.sum(radii**2) * count).astype(np.int64)
    counts = np.diff(ends, prepend=0)
    drop = np.repeat(np.arange(number), counts)
    normals = np.concatenate([_sphere(n, rng) for n in counts], axis=1)
    points = centres[:, drop] + radii[drop] * normals
    points[0] %= BOX[0]

    # A single drop of mean radius a settles at speed 1 under a weight of 6 pi a. Weights are
    # proportional to the volume, and add up to zero over all drops.
    mean = radii.mean()
    weight = np.where(heavy, 1.0, -1.0) * (radii / mean) ** 3
    weight -= (radii**3 / np.sum(radii**3)) * weight.sum()
    density = np.zeros((6, count))
    density[0] = (6 * np.pi * mean * weight / counts)[drop]
    area = (4 * np.pi * radii**2 / counts)[drop]
    stretch = -0.5 * normals
    stretch[0] += 1.5 * normals[0]
    density[3:] = STRETCH * area * stretch
    return Suspension(points, normals, density, centres, radii, heavy)


def _place(radii: Array, rng: np.random.Generator) -> Array:
    """Return centres of spheres inside the pipe that do not touch: shape (3, M)."""
    gap = 0.12 * radii.mean()
    centres = np.empty((3, radii.size))
    for i, radius in enumerate(radii):
        for _ in range(400):
            x = rng.uniform(0, BOX[0], 256)
            rho = (PIPE_RADIUS - radius - gap / 2) * np.sqrt(rng.random(256))
            angle = rng.uniform(0, 2 * np.pi, 256)
            tries = np.stack(
                [x, BOX[1] / 2 + rho * np.cos(angle), BOX[2] / 2 + rho * np.sin(angle)]
            )
            step = tries[:, :, None] - centres[:, None, :i]
            step[0] -= BOX[0] * np.rint(step[0] / BOX[0])
            free = np.sum(step**2, axis=0) > (radius + radii[:i] + gap) ** 2
            fits = np.flatnonzero(free.all(axis=1))
            if fits.size:
                centres[:, i] = tries[:, fits[0]]
                break
        else:
            raise ParkiValueError("the drops do not fit into the pipe; try another seed")
    return centres


def _sphere(count: int, rng: np.random.Generator) -> Array:
    """Return evenly spread unit vectors, rotated at random: shape (3, count)."""
    index = np.arange(count) + 0.5
    height = 1 - 2 * index / count
    angle = np.pi * (1 + 5**0.5) * index
    ring = np.sqrt(1 - height**2)
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    return np.asarray(rotation @ np.stack([ring * np.cos(angle), ring * np.sin(angle), height]))


NEXT = """
Where to go next, in the checkout:
  docs/tutorial.md   sums of your own, step by step
  docs/examples.md   bodies, drops, swimmers and charges, each with its program
  docs/charges.md    energy, forces and stress of charges, and ASE
Programs run by {programs}/python, where 'import parki' works;
{programs}/parki lists the other commands."""

DESCRIPTION = """\
Compute the Stokes flow around a few hundred drops in a pipe that repeats along its axis: the
velocity at every point of every drop, due to all points and their images. The command prints the
chosen parameters with their reasons, the time of each stage, and the error at sampled points next
to the promised one. Then it draws the flow in the plane through the axis of the pipe.
"""


def declare(commands: Commands) -> None:
    """Add the command to the command line."""
    summary = "compute, check and draw the flow around drops in a pipe"
    epilog = "Exit code 1 if the error is larger than promised."
    parser = command(commands, "demo", run, summary=summary, description=DESCRIPTION, epilog=epilog)
    add_common(parser, points=100_000, tolerance=1e-4, space="OpenMP", dtype="float64")
    picture = "parki-demo.png"
    add = parser.add_argument
    add("--output", default=picture, metavar="FILE", help=f"the picture ({picture})")
    add("--no-picture", action="store_true", help="draw nothing")
    add("--seed", type=whole, default=0, metavar="K", help="places the drops (0)")


def run(arguments: argparse.Namespace) -> int:
    """Compute, check, draw and print; return the exit code."""
    points, tolerance, dtype = arguments.points, arguments.tolerance, arguments.dtype
    space = get_execution_space(arguments.space)
    xp = space.array_module
    options = EwaldOptions(periodicity=1, box=BOX, tolerance=tolerance, execution_space=space)
    options.check_dtype(np.dtype(dtype))
    picture = None if arguments.no_picture else home_expanded(arguments.output)
    if picture is not None:
        check_ending("output", picture, (".png",))
        check_output(picture)
    drops = suspension(points, arguments.seed)
    where = f"{space}, {space.threads} threads" if space.name == "OpenMP" else f"{space}"
    print(
        f"Stokes flow driven by {drops.radii.size} drops in a pipe of period {BOX[0]:g}: the\n"
        f"velocity at {points} points on the drops, due to all of them and all their\n"
        f"periodic images, by the single and the double layer ({dtype}, {where}).\n",
        flush=True,
    )

    pts, norms, dens = (
        xp.asarray(a, dtype=dtype) for a in (drops.points, drops.normals, drops.density)
    )
    first = Plan("stokes_comb", pts, pts, norms, options).seconds["plan"]
    plan = Plan("stokes_comb", pts, pts, norms, options)
    again = plan.seconds["plan"]
    print(f"Plan: {plan.describe()}\n")
    if first > again + 0.5:
        print(f"The first plan took {first:.1f} s: it compiled kernels, which are kept.\n")

    plan(dens)  # warm up
    result, seconds = plan.timed(dens)
    total = sum(seconds.values())
    print(f"{'stage':<8}{'seconds':>10}{'per million points':>22}")
    for name, value in {"plan": again, **seconds, "total": total}.items():
        print(f"{name:<8}{value:>10.4f}{value * 1e6 / points:>22.4f}")
    print("The total is the time of one application; the plan is made once for many.\n", flush=True)

    sampled = np.linspace(0, points - 1, SAMPLES, dtype=int)
    compared = compare(plan, pts, dens, norms, result=result, sampled=sampled)
    verdict = "OK: the promise is kept" if compared.kept else "NOT OK: the promise is broken"
    print(
        f"Against the direct sum at {SAMPLES} of the points:\n"
        f"  error (rms) {compared.error:.2e}, promised {compared.promise:.2e}, "
        f"ratio {compared.ratio:.2g}\n"
        f"  relative to the flow (rms {compared.flow:.3g}): {compared.error / compared.flow:.1e}\n"
        f"  {verdict}.\n",
        flush=True,
    )

    if picture is not None:
        count = f"{points:,}".replace(",", " ")
        bound = f"{tolerance:.3g}" if tolerance > 0.001 else f"{tolerance:.0e}".replace("e-0", "e-")
        title = (
            f"Stokes flow around {drops.radii.size} drops in a periodic pipe",
            f"{count} points, tolerance {bound}",
        )
        _draw(drops, (pts, norms, dens), options, picture, title)
    if compared.kept:
        print(NEXT.format(programs=Path(sys.executable).parent))
    return 0 if compared.kept else 1


def _draw(
    drops: Suspension,
    arrays: tuple[Any, Any, Any],
    options: EwaldOptions,
    output: Path,
    title: tuple[str, str],
) -> None:
    """Compute the flow in the plane through the pipe's axis; draw it if matplotlib is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install matplotlib' brings it.")
        return
    points, normals, density = arrays
    module = get_execution_space(options.execution_space).array_module
    x, y = ((np.arange(n) + 0.5) * a / n for n, a in zip(PIXELS, BOX[:2], strict=True))
    grid = np.empty((3, *PIXELS))
    grid[0], grid[1], grid[2] = x[:, None], y, BOX[2] / 2
    start = time.perf_counter()
    targets = module.asarray(grid.reshape(3, -1), dtype=points.dtype)
    plane = to_host(stokes_comb(targets, points, density, normals, options)).astype(np.float64)
    seconds = time.perf_counter() - start
    with replacing(output) as part:
        _paint(drops, x, y, plane.reshape(grid.shape) / (8 * np.pi), part, title)
    print(
        f"The flow at {PIXELS[0]} x {PIXELS[1]} more targets, in the plane through the axis, took "
        f"{seconds:.1f} s.\nPicture: {output}"
    )


def _paint(
    drops: Suspension, x: Array, y: Array, flow: Array, output: Path, title: tuple[str, str]
) -> None:
    """Draw the speed, streamlines and drops of a plane; ``flow`` has shape (3, nx, ny)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    speed = np.sqrt(np.sum(flow**2, axis=0))
    top = float(np.percentile(speed, 99))
    figure = Figure(figsize=(12.0, 3.7), dpi=130, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes: Any = figure.add_axes((0.025, 0.09, 0.89, 0.89 * 12.0 / 3.7 * BOX[1] / BOX[0]))
    image = axes.imshow(
        speed.T,
        cmap="magma",
        interpolation="bicubic",
        origin="lower",
        extent=(0, BOX[0], 0, BOX[1]),
        vmin=0,
        vmax=top,
    )
    axes.streamplot(
        x,
        y,
        flow[0].T,
        flow[1].T,
        density=STREAMLINES,
        color=(1, 1, 1, 0.5),
        linewidth=0.3 + 0.7 * np.minimum(speed.T / top, 1),
        arrowsize=0.5,
        arrowstyle="-|>",
    )
    _paint_drops(axes, drops)
    for wall in (BOX[1] / 2 - PIPE_RADIUS, BOX[1] / 2 + PIPE_RADIUS):
        axes.axhline(wall, color="white", linewidth=0.8, alpha=0.75, dashes=(7, 4))
    axes.set(
        xlim=(0, BOX[0]), ylim=(0, BOX[1]), xticks=range(int(BOX[0]) + 1), yticks=[], aspect="equal"
    )
    axes.tick_params(colors=INK, length=3, labelsize=9)
    axes.spines[:].set_visible(False)

    axes_box = axes.get_position()
    bar_axes = figure.add_axes((axes_box.x1 + 0.011, axes_box.y0, 0.009, axes_box.height))
    bar = figure.colorbar(image, cax=bar_axes, extend="max")
    bar.outline.set_visible(False)
    bar_axes.tick_params(colors=INK, length=2, labelsize=9)
    bar.set_label("speed  (1: a mean drop, alone)", color=INK, fontsize=9)

    def write(x: float, text: str, *, ha: str = "left") -> None:
        figure.text(x, 0.855, text, ha=ha, va="center", color=INK, fontsize=10)

    figure.text(
        axes_box.x0, 0.935, title[0], fontweight="bold", va="center", color=INK, fontsize=15
    )
    write(axes_box.x0, title[1])
    write(axes_box.x1 - 0.16, "dark drops are heavy  \u2192", ha="right")
    write(axes_box.x1, "\u2190  pale drops are light", ha="right")
    figure.savefig(output, format="png", facecolor=PAPER)
    with Image.open(output) as full:  # 256 colours look the same, in a third of the bytes
        colours = full.convert("RGB")
    colours.quantize(palette=colours.quantize(256)).save(output, "PNG", optimize=True)


def _paint_drops(axes: Any, drops: Suspension) -> None:
    """Draw each drop where the plane cuts it, as a shaded ball.

    Half the spacing of the points is added to the radii, because closer to the surface the flow
    shows single points.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Circle

    across = np.linspace(-1, 1, 96)
    shade = np.hypot(across + 0.35, across[:, None] - 0.35)
    maps = [LinearSegmentedColormap.from_list("drop", colours) for colours in (LIGHT, HEAVY)]
    spacing = np.sqrt(4 * np.pi * np.sum(drops.radii**2) / drops.points.shape[1])
    offset = drops.centres[2] - BOX[2] / 2
    section = np.sqrt(np.maximum((drops.radii + spacing / 2) ** 2 - offset**2, 0))
    for k, image in itertools.product(np.flatnonzero(section), (-1, 0, 1)):
        r, x, y = section[k], drops.centres[0, k] + image * BOX[0], drops.centres[1, k]
        if -r < x < BOX[0] + r:
            heavy = bool(drops.heavy[k])
            edge = LIGHT[1] if heavy else HEAVY[1]
            rim = Circle((x, y), r, facecolor="none", edgecolor=edge, linewidth=0.5, zorder=4)
            axes.add_patch(rim)
            ball = axes.imshow(
                shade,
                extent=(x - r, x + r, y - r, y + r),
                cmap=maps[heavy],
                origin="lower",
                vmin=0,
                vmax=1.45,
                zorder=3,
            )
            ball.set_clip_path(rim)
