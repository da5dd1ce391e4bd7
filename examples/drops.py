"""Drops that deform in a flow: surfaces of spherical harmonics, and layers on them at any distance.

    python examples/drops.py [--drops 27] [--steps 20] [--space CPU] [--restart drops.npz]

The interface of drops pulls at the fluid by its tension, f = -curvature x normal. `parki.Drops` has
the equation for its velocity, and a ratio of viscosities (docs/boundary_integrals.md). The unit of
length is the radius, and the unit of time is viscosity x radius / tension: the rate of the flow is
the capillary number Ca.

First, a drop in simple shear in free space is compared with theories of Taylor and Cox. Then drops
move in a periodic box. Simple shear would shear the box. So the flow is like the four-roll mill in
which Taylor saw drops deform: it is periodic, and a body force on both fluids keeps it up.
G. I. Taylor, Proceedings of the Royal Society A 138, 41-48 (1932) and 146, 501-523 (1934).
R. G. Cox, Journal of Fluid Mechanics 37, 601-623 (1969).
"""

import argparse
import importlib
import importlib.util
import inspect
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss, legval
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import parki

QUAD = ((0, 0), (1, 0), (1, 1), (0, 1))  # corners of a patch
SPACING, STEP, RTOL, ACCURACY, SPHERE = 2.8, 0.5, 1e-5, 1e-4, 4 / 3 * np.pi
INK, PAPER, COLOURS = "#1d1b2e", "#fbfaf8", ("#2f5d8c", "#c2452d", "#2e7d5b")


class Drops:
    """The velocities of drops' nodes, and their steps.

    Parameters
    ----------
    ratio : float
        Viscosity of the drops over the fluid's.
    flow : function
        Velocity (3, N) without drops at points (3, N).
    options : EwaldOptions
        Box and tolerance.
    space : ExecutionSpace
        Where to compute.
    """

    def __init__(self, ratio: float, flow: Callable, options: Any, space: Any = "CPU") -> None:
        self.xp = parki.utils.get_array_module(space)
        self.ratio, self.flow, self.options = ratio, flow, options
        self.equation: Any = None
        # The least distance of drops so far, in distances of nodes.
        self.guess, self.gap = None, np.inf

    def place(self, x: Any) -> Any:
        """Return the surface of nodes x, shape (3, B, n), and give it to the equation."""
        surface = parki.Surface.harmonics(x)
        if self.equation is None:
            self.equation = parki.Drops(surface, self.ratio, self.options, accuracy=ACCURACY)
        else:
            self.equation.update(surface)
        self.gap = min(self.gap, self.equation.layer.gap)
        return surface

    def velocity(self, x: Any) -> Any:
        """Return the velocity of the interface at its nodes x, shape (3, B, n).

        Raises
        ------
        SystemExit
            If GMRES does not converge.
        """
        surface = self.place(x)
        pull, flow = -surface.curvature * surface.normals, self.flow(surface.nodes)
        right_side = self.equation.right_side(pull, flow)
        if self.ratio == 1:
            return right_side.reshape(x.shape)
        module = "scipy" if self.xp is np else "cupyx.scipy"
        gmres = importlib.import_module(f"{module}.sparse.linalg").gmres
        name = "rtol" if "rtol" in inspect.signature(gmres).parameters else "tol"  # older CuPy
        found, status = gmres(
            self.equation.as_linear_operator(),
            right_side.ravel(),
            x0=self.guess,
            **{name: RTOL, "restart": 8, "maxiter": 200},
            callback=parki.Progress("GMRES"),
            callback_type="pr_norm",
        )
        if status != 0:
            raise SystemExit("GMRES did not converge; drops may be too close for their nodes")
        self.guess = found
        return found.reshape(x.shape)

    def move(self, x: Any, time: float) -> Any:
        """Return the nodes after a step of the midpoint rule.

        Nodes move along the normal, and with their drop's mean velocity, and so stay apart.
        """
        middle, start = x, None
        for part in (0.5, 1.0):
            u, surface = self.velocity(middle), self.equation.surface
            if start is None:  # as the series has it
                start = surface.nodes.reshape(x.shape)
            normals, areas = surface.normals.reshape(x.shape), surface.areas.reshape(x.shape[1:])
            whole = areas.sum(axis=1)
            mean = ((u * areas).sum(axis=2) / whole)[..., None]
            speed = ((u - mean) * normals).sum(axis=0)
            # No flux passes the surface; quadratures leave one where drops are close.
            speed -= ((speed * areas).sum(axis=1) / whole)[:, None]
            middle = start + part * time * (mean + speed * normals)
        return middle


def shape(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return volumes and deformations (L - B) / (L + B) of drops with nodes x, each of shape (B,).

    L and B are the longest and the shortest axis of an ellipsoid with the same second moments.
    """
    # Finer nodes integrate what products of the series need.
    *several, _ = parki.Surface.harmonics(host(x)).finer()
    y, normals, areas = (each.reshape(*each.shape[:-1], x.shape[1], -1) for each in several)
    y = y - (y * areas).sum(axis=2, keepdims=True) / areas.sum(axis=1)[:, None]
    height = (y * normals).sum(axis=0) * areas
    moments = np.einsum("ibn,jbn,bn->bij", y, y, height)
    short, _, long = np.sqrt(np.linalg.eigvalsh(moments)).T
    return height.sum(axis=1) / 3, (long - short) / (long + short)


def between(order: int, at: np.ndarray) -> np.ndarray:
    """Return the matrix from values at `parki.Surface.directions` to values at directions (3, m).

    Products of spherical harmonics, summed over each degree, are Legendre polynomials.
    """
    weights = np.repeat(leggauss(order + 1)[1], 2 * order + 2) * np.pi / (order + 1)
    series = (2 * np.arange(order + 1) + 1) / (4 * np.pi)
    return legval(at.T @ parki.Surface.directions(order), series) * weights


def host(array: Any) -> np.ndarray:
    """Return an array of NumPy."""
    return array if isinstance(array, np.ndarray) else array.get()


def theory(ratio: float, capillary: Any) -> tuple[Any, Any]:
    """Return Taylor's deformation in shear, for small Ca, and Cox's, for a drop that also turns."""
    taylor = capillary * (19 * ratio + 16) / (16 * ratio + 16)
    return taylor, taylor / np.sqrt(1 + (19 * ratio * capillary / 20) ** 2)


def shear(ratio: float, capillary: float, order: int, steps: int) -> tuple[float, float]:
    """Return the deformation of a drop in simple shear, and the change of its volume."""
    options = parki.EwaldOptions(periodicity=0, tolerance=1e-6)

    def flow(x: Any) -> Any:
        return np.stack([capillary * x[1], 0 * x[1], 0 * x[1]])

    drop = Drops(ratio, flow, options)
    x = parki.Surface.directions(order)[:, None]
    # Without a flow, small deformations decay at this rate.
    rate = 40 * (ratio + 1) / ((2 * ratio + 3) * (19 * ratio + 16))
    for _ in parki.Progress(f"ratio {ratio:g}, Ca {capillary:g}").over(range(steps)):
        x = drop.move(x, 6 / rate / steps)
    volume, deformation = shape(x)
    return float(deformation[0]), float(volume[0] / SPHERE - 1)


def mill(
    count: int, ratio: float, capillary: float, order: int, space: Any
) -> tuple[Drops, np.ndarray]:
    """Return drops near the sites of a cubic lattice, with their nodes, in a periodic mill."""
    edge = int(np.ceil(count ** (1 / 3)))
    rng = np.random.default_rng(0)
    sites = np.indices((edge, edge, edge)).reshape(3, -1)[:, rng.permutation(edge**3)[:count]]
    centres = SPACING * (sites + rng.uniform(0.4, 0.6, (3, count)))
    wave = 2 * np.pi / (SPACING * edge)
    options = parki.EwaldOptions(periodicity=3, box=[SPACING * edge] * 3, tolerance=1e-4)
    xp = parki.utils.get_array_module(space)

    def flow(x: Any) -> Any:
        """Strain between rollers at the rate of a shear of rate Ca."""
        a, b = wave * x[0], wave * x[1]
        u = xp.stack([xp.sin(a) * xp.cos(b), -xp.cos(a) * xp.sin(b), 0 * a])
        return capillary / (2 * wave) * u

    start = centres[:, :, None] + parki.Surface.directions(order)[:, None]
    return Drops(ratio, flow, options, space), start


def run(drops: Drops, x: np.ndarray, steps: int, restart: str) -> dict[str, Any]:
    """Take steps, or go on from the file `restart` if it exists; return what was found."""
    record: dict[str, Any] = {"x": x, "deformations": [], "volumes": []}
    if restart and Path(restart).exists():
        with np.load(restart) as kept:
            record = {"x": kept["x"], **{name: list(kept[name]) for name in list(record)[1:]}}
    nodes = drops.xp.asarray(record["x"])
    for _ in parki.Progress("drops in a mill").over(range(len(record["volumes"]), steps)):
        nodes = drops.move(nodes, STEP)
        volumes, deformations = shape(nodes)
        record["volumes"].append(volumes)
        record["deformations"].append(deformations)
        record["x"] = host(nodes)
        if restart:
            np.savez(restart, **record)
    return record


def draw(picture: str, found: dict, drops: Drops, record: dict[str, Any]) -> None:
    """Draw the deformations in shear next to theory, and the drops in the mill."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 5.2), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    left = figure.add_axes((0.065, 0.125, 0.40, 0.76), facecolor=PAPER)
    thin = np.linspace(0, 1.1 * max(at for _, at in found), 100)
    for ratio, colour in zip(sorted({ratio for ratio, _ in found}), COLOURS, strict=False):
        at = [capillary for each, capillary in found if each == ratio]
        values = [found[ratio, capillary][0] for capillary in at]
        left.plot(at, values, "o", color=colour, label=f"viscosity ratio {ratio:g}")
        for known, style in zip(theory(ratio, thin), ("--", ":"), strict=True):
            left.plot(thin, known, style, color=colour, linewidth=1.2)
    left.set(xlabel="capillary number", ylabel="(L - B) / (L + B)", xlim=(0, None), ylim=(0, None))
    left.grid(color=INK, alpha=0.12)
    left.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, loc="upper left")
    title = "A drop in shear; dashed: Taylor, dotted: Cox"
    left.set_title(title, loc="left", fontweight="bold")

    right = figure.add_axes((0.53, 0.125, 0.76 * 5.2 / 11.5, 0.76), facecolor=PAPER)
    edge = drops.options.box[0]
    colours = ScalarMappable(Normalize(0, record["deformations"][-1].max()), "viridis")
    # Patches of the surfaces, from below to above, shaded by the way they face.
    polar, azimuth = np.meshgrid(np.linspace(0.01, np.pi - 0.01, 25), np.linspace(0, 2 * np.pi, 49))
    ring = np.sin(polar)
    at = np.stack([ring * np.cos(azimuth), ring * np.sin(azimuth), np.cos(polar)]).reshape(3, -1)
    order = round((record["x"].shape[2] / 2) ** 0.5) - 1
    y = record["x"] @ between(order, at).T
    y -= edge * np.floor(record["x"].mean(axis=2, keepdims=True) / edge)
    y = y.reshape(3, -1, *polar.shape)
    places = [(slice(i, i - 1 or None), slice(j, j - 1 or None)) for i, j in QUAD]
    corners = np.stack([y[:, :, i, j] for i, j in places], axis=-1)
    way = np.cross(corners[..., 2] - corners[..., 0], corners[..., 1] - corners[..., 3], axis=0)
    light = np.tensordot([-0.4, 0.5, 0.77], way / np.linalg.norm(way, axis=0), 1)
    shade = 0.45 + 0.55 * np.clip(light, 0, 1)[..., None]
    paint = colours.to_rgba(record["deformations"][-1])[:, None, None, :3] * shade
    corners, paint = corners.reshape(3, -1, 4), paint.reshape(-1, 3)
    upwards = np.argsort(corners[2].mean(axis=-1))
    shifts = edge * np.array([*itertools.product((-1, 0, 1), repeat=2)])[:, None]
    patches = corners[:2, upwards].transpose(1, 2, 0)[:, None] + shifts
    paint = np.repeat(paint[upwards], len(shifts), axis=0)
    at = np.linspace(0, edge, 100)
    stream = np.outer(np.sin(2 * np.pi * at / edge), np.sin(2 * np.pi * at / edge))
    right.contour(at, at, stream, 10, colors=INK, linestyles="-", linewidths=0.6, alpha=0.35)
    right.add_collection(
        PolyCollection(
            patches.reshape(-1, 4, 2), facecolors=paint, edgecolors="face", linewidths=0.2, zorder=3
        )
    )
    right.set(xlim=(0, edge), ylim=(0, edge), aspect="equal", xlabel="x", ylabel="y")
    title = f"{record['x'].shape[1]} drops in a four-roll mill"
    right.set_title(title, loc="left", fontweight="bold")
    bar = figure.colorbar(colours, cax=figure.add_axes((0.90, 0.125, 0.012, 0.76)))
    bar.outline.set_visible(False)
    bar.set_label("(L - B) / (L + B)", color=INK)
    figure.savefig(picture, facecolor=PAPER)


def main(words: list[str] | None = None) -> tuple[dict, dict]:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--drops", type=int, default=27)
    parser.add_argument("--steps", type=int, default=20, help="steps of half a unit of time")
    parser.add_argument("--ratio", type=float, default=1.0, help="viscosity of drops over fluid's")
    parser.add_argument("--capillary", type=float, default=0.2, help="of the mill")
    parser.add_argument("--order", type=int, default=7, help="degree of the surfaces")
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.2, 1.0, 5.0], help="in shear")
    parser.add_argument("--capillaries", type=float, nargs="+", default=[0.02, 0.05, 0.1, 0.2])
    parser.add_argument("--shear-steps", type=int, default=40)
    parser.add_argument("--space", default="CPU", help="where the mill runs: CPU, or GPU")
    parser.add_argument("--restart", default="", help="file to keep the mill's state, and go on")
    parser.add_argument("--output", default="drops.png", help="picture; '' draws nothing")
    given = parser.parse_args(words)

    table = Table(title="Deformation (L - B) / (L + B) in simple shear", box=SIMPLE)
    for head in ("ratio", "Ca", "found", "Taylor", "difference", "Cox", "volume"):
        table.add_column(head, justify="right")
    found = {}
    for ratio, at in itertools.product(given.ratios, given.capillaries):
        found[ratio, at] = value, change = shear(ratio, at, given.order, given.shear_steps)
        known, turned = theory(ratio, at)
        row = [f"{ratio:g}", f"{at:g}", f"{value:.4f}", f"{known:.4f}", f"{value / known - 1:+.1%}"]
        table.add_row(*row, f"{turned:.4f}", f"{change:+.0e}")
    Console().print(table)

    drops, start = mill(given.drops, given.ratio, given.capillary, given.order, given.space)
    print(f"{given.drops} drops, {start[0].size} nodes")
    record = run(drops, start, given.steps, given.restart)
    worst = np.abs(record["volumes"][-1] / SPHERE - 1).max()
    largest = record["deformations"][-1]
    print(f"deformation {largest.mean():.3f} on average, {largest.max():.3f} at most")
    print(f"volumes change by {worst:.1e} at most; least gap {drops.gap:.2f} node distances")
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(given.output, found, drops, record)
        print(f"Picture: {given.output}")
    return found, record


if __name__ == "__main__":
    main()
