"""The triply periodic single layer by FINUFFT, and the price of a whole sum in its transforms.

    python examples/compare_with_finufft.py [--points 100000] [--output finufft.png]

First an Ewald sum of a few lines, without code of parki, checks parki's sum to many digits. Its far
field is a type 1 non-uniform FFT (sources to modes), a product with the modes of the Stokeslet, and
a type 2 (modes to targets); its near field goes through all pairs.

Then times are compared. Any sum over points in a periodic box that goes through Fourier space needs
at least the two transforms, so that they are a yardstick on every machine. parki's combined sum
spreads and transforms four real components; here they are two complex vectors.

H. Hasimoto, On the periodic fundamental solutions of the Stokes equations, Journal of Fluid
Mechanics 5, 317-328 (1959). A. H. Barnett, J. Magland, L. af Klinteberg, A parallel nonuniform fast
Fourier transform library based on an "exponential of semicircle" kernel, SIAM Journal on Scientific
Computing 41, C479-C504 (2019).
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from scipy.special import erfc

import parki
from parki.settings import thread_count

MODES = 60  # of the timed transforms; their internal grid is twice as fine, about as parki's
TOLERANCE = 1e-4
# Both Gaussians of the check have fallen to exp(-CUT^2) = 2e-14 where they are cut off.
CUT = 5.6
STAGES = {"P2P": "#0072b2", "P2G": "#e69f00", "FGC": "#009e73", "G2P": "#cc79a7"}
TRANSFORMS = {"type 1": "#e69f00", "type 2": "#cc79a7"}  # in the colours of P2G and G2P
INK, PAPER, GREY = "#1d1b2e", "#fbfaf8", "#a9a7b0"


def ewald_by_finufft(points: np.ndarray, forces: np.ndarray) -> np.ndarray:
    """Sum Stokeslets over points (3, n) of the unit box and all images, except a point on itself.

    The mean velocity over the box is zero, as in parki.
    """
    import finufft

    xi = 2 * CUT  # so that the near field ends at half a period
    # The near field takes the nearest image of each pair.
    r = points[:, :, None] - points[:, None, :]
    r -= np.rint(r)
    distance = np.sqrt(np.sum(r**2, axis=0))
    np.fill_diagonal(distance, 1.0)
    gauss = 2 * xi / np.sqrt(np.pi) * np.exp(-((xi * distance) ** 2))
    near = np.where(distance < 0.5, erfc(xi * distance) / distance, 0)
    gauss = np.where(distance < 0.5, gauss, 0)
    np.fill_diagonal(near, 0)
    np.fill_diagonal(gauss, 0)
    along = np.einsum("ist,it->st", r / distance, forces)
    field = forces @ (near - gauss) + np.einsum("ist,st->is", r / distance, (near + gauss) * along)
    field -= 4 * xi / np.sqrt(np.pi) * forces  # the far field of the point itself

    # The far field is 8 pi / k^2 (1 - kk/k^2) (1 + k^2 / 4 xi^2) exp(-k^2 / 4 xi^2), without k = 0.
    modes = 2 * int(np.ceil(2 * xi * CUT / (2 * np.pi))) + 1
    k = 2 * np.pi * np.stack(np.meshgrid(*3 * [np.arange(modes) - modes // 2], indexing="ij"))
    k2 = np.sum(k**2, axis=0)
    k2[3 * (modes // 2,)] = np.inf
    decay = np.exp(-k2 / (4 * xi**2)) * np.where(np.isinf(k2), 0, 1 + k2 / (4 * xi**2))
    angles = np.mod(2 * np.pi * points, 2 * np.pi)
    hat = finufft.nufft3d1(*angles, forces + 0j, 3 * (modes,), eps=1e-14, isign=-1)
    hat -= k * np.sum(k * hat, axis=0) / k2
    hat *= 8 * np.pi * decay / k2
    return field + finufft.nufft3d2(*angles, hat, eps=1e-14, isign=1).real


def difference(count: int) -> float:
    """Return the relative difference of the two sums over ``count`` points."""
    rng = np.random.default_rng(0)
    points, forces = rng.random((3, count)), rng.standard_normal((3, count))
    options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-12)
    ours = parki.stokes_sl(points, points, forces, options)
    other = ewald_by_finufft(points, forces)
    return float(np.linalg.norm(ours - other) / np.linalg.norm(other))


def seconds_of(run: Callable[[], Any], repeats: int) -> float:
    """Return the median time of a call that has run once before."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)


def measure(count: int, repeats: int) -> tuple[parki.Plan, dict[str, float], dict[str, float]]:
    """Return a plan, and the seconds of its parts and of the two transforms."""
    import finufft

    rng = np.random.default_rng(1)
    points, norms = rng.random((3, count)), rng.standard_normal((3, count))
    dens = rng.standard_normal((6, count))
    options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=TOLERANCE)
    plan = parki.Plan("stokes_comb", points, points, norms, options)
    whole = seconds_of(lambda: parki.stokes_comb(points, points, dens, norms, options), repeats)
    plan(dens)
    runs = [plan.timed(dens)[1] for _ in range(repeats)]
    ours = {stage: median(run[stage] for run in runs) for stage in STAGES}
    ours["one call"] = whole

    angles, shape = 2 * np.pi * points, 3 * (MODES,)
    vectors = dens[:2] + 1j * dens[2:4]
    hat = rng.standard_normal((2, *shape)) + 1j * rng.standard_normal((2, *shape))
    more = {"eps": TOLERANCE, "nthreads": thread_count()}
    theirs = {
        "type 1": seconds_of(lambda: finufft.nufft3d1(*angles, vectors, shape, **more), repeats),
        "type 2": seconds_of(lambda: finufft.nufft3d2(*angles, hat, **more), repeats),
    }
    return plan, ours, theirs


def report(ours: dict[str, float], theirs: dict[str, float]) -> Table:
    """Return all seconds, and their ratios to both transforms together."""
    table = Table(box=SIMPLE)
    for head in ("", "ms", "over both transforms"):
        table.add_column(head, justify="right")
    unit = sum(theirs.values())
    stages = {stage: ours[stage] for stage in STAGES}
    lines = {f"FINUFFT, {name}": value for name, value in theirs.items()}
    lines |= {f"parki, {stage}": value for stage, value in stages.items()}
    lines |= {"parki, a further density": sum(stages.values()), "parki, one call": ours["one call"]}
    for name, value in lines.items():
        table.add_row(name, f"{1000 * value:.1f}", f"{value / unit:.2f}")
    return table


def draw(output: str, title: str, ours: dict[str, float], theirs: dict[str, float]) -> None:
    """Draw bars of the sum and of the transforms, in milliseconds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 3.1), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.13, 0.19, 0.83, 0.6), facecolor=PAPER)
    apply = sum(ours[stage] for stage in STAGES)
    bars = {
        "FINUFFT": {name: (theirs[name], TRANSFORMS[name]) for name in TRANSFORMS},
        "parki": {stage: (ours[stage], STAGES[stage]) for stage in STAGES},
    }
    bars["parki"]["plan"] = (max(ours["one call"] - apply, 0.0), GREY)
    longest = 1000 * max(ours["one call"], sum(theirs.values()))
    for place, parts in enumerate(bars.values()):
        left = 0.0
        for label, (seconds, colour) in parts.items():
            width = 1000 * seconds
            axes.barh(place, width, left=left, color=colour, height=0.62, edgecolor=PAPER)
            if width > 0.055 * longest:
                middle = left + width / 2
                ink = "white" if label in ("P2P", "FGC") else INK  # on the dark colours
                axes.text(middle, place, label, ha="center", va="center", color=ink, fontsize=9)
            left += width
        axes.text(left + 0.01 * longest, place, f"{left:.0f} ms", va="center", color=INK)
    axes.set(xlim=(0, 1.12 * longest), xlabel="milliseconds")
    axes.set_yticks(range(len(bars)), list(bars), fontweight="bold")
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.text(0.13, 0.92, "A whole sum, and the two transforms in it", fontweight="bold")
    figure.text(0.13, 0.84, title, fontsize=9.5, color=INK)
    figure.savefig(output, facecolor=PAPER)


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--points", type=int, default=100_000, help="of the timed sums")
    parser.add_argument("--checked", type=int, default=1000, help="of the sums that are compared")
    parser.add_argument("--repeats", type=int, default=7, help="of each timing; the median counts")
    parser.add_argument("--output", default="finufft.png", help="picture; '' draws nothing")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> tuple[float, float]:
    """Run; return the difference of the sums, and the ratio of one call to both transforms."""
    given = arguments(words)
    if importlib.util.find_spec("finufft") is None:
        raise SystemExit("FINUFFT is not installed; 'pip install finufft' brings it")
    apart = difference(given.checked)
    print(f"Single layer of {given.checked} points: relative difference of the sums {apart:.1e}")
    plan, ours, theirs = measure(given.points, given.repeats)
    grid, threads = plan.setup.mesh.padding.grid, thread_count()
    print(
        f"\nCombined sum of {given.points} points that are sources and targets, tolerance "
        f"{TOLERANCE:g},\n{threads} threads; parki's grid {grid[0]} x {grid[1]} x {grid[2]}, "
        f"the transforms' modes {MODES} x {MODES} x {MODES}"
    )
    Console().print(report(ours, theirs))
    ratio = ours["one call"] / sum(theirs.values())
    print(f"A whole sum takes {ratio:.1f} times as long as the two transforms")
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        count = f"{given.points:,}".replace(",", " ")
        title = f"{count} points, tolerance 1e-4, four real components, {threads} threads"
        draw(given.output, title, ours, theirs)
        print(f"Picture: {Path(given.output)}")
    return apart, ratio


if __name__ == "__main__":
    main()
