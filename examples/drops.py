"""Drops that deform in a flow: layers on surfaces of spherical harmonics, close drops corrected.

    python examples/drops.py [--drops 27] [--steps 20] [--space CPU] [--restart drops.npz]

The interface of drops pulls at the fluid by its tension, f = -curvature x normal. Its velocity is

    (1 + ratio)/2 u = S f + (ratio - 1) D u + flow

for single and double layers S and D, and a ratio of viscosities (docs/boundary_integrals.md). The
unit of length is the radius, and the unit of time is viscosity x radius / tension: the rate of the
flow is the capillary number Ca. A layer is a sum of parki, plus two corrections:

- a drop's own part, by polar coordinates around each node: a matrix for each drop;
- close drops, by `parki.near_pairs`: the sum of a smooth part of each pair needs no correction, and
  the rest, which has a short reach, takes more nodes.

First, a drop in simple shear in free space is compared with theories of Taylor and Cox. Then drops
move in a periodic box. Simple shear would shear the box. So the flow is like the four-roll mill in
which Taylor saw drops deform: it is periodic, and a body force on both fluids keeps it up.
G. I. Taylor, Proceedings of the Royal Society A 138, 41-48 (1932) and 146, 501-523 (1934).
R. G. Cox, Journal of Fluid Mechanics 37, 601-623 (1969).
"""

import argparse
import dataclasses
import importlib
import importlib.util
import inspect
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from scipy.spatial.transform import Rotation
from scipy.special import sph_harm_y_all

import parki

QUAD = ((0, 0), (1, 0), (1, 1), (0, 1))  # corners of a patch
FINER, SMOOTH, REACH = 3, 1.3, 3.0  # degree of finer nodes; width in node steps, reach in widths
SPACING, STEP, RTOL, SPHERE = 2.8, 0.5, 1e-5, 4 / 3 * np.pi
INK, PAPER, COLOURS = "#1d1b2e", "#fbfaf8", ("#2f5d8c", "#c2452d", "#2e7d5b")


def sphere(order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return polar angles, azimuths and weights of nodes of the unit sphere, 2 (order + 1)^2."""
    height, weight = leggauss(order + 1)
    around = 2 * order + 2
    azimuth = np.tile(2 * np.pi * np.arange(around) / around, order + 1)
    weights = np.repeat(weight, around) * 2 * np.pi / around
    return np.repeat(np.arccos(height), around), azimuth, weights


def directions(polar: Any, azimuth: Any) -> np.ndarray:
    """Return unit vectors, shape (3, n)."""
    ring = np.sin(polar)
    return np.stack([ring * np.cos(azimuth), ring * np.sin(azimuth), np.cos(polar)])


def harmonics(order: int, polar: np.ndarray, azimuth: np.ndarray) -> np.ndarray:
    """Return real spherical harmonics: values, by both angles, and twice: (6, n, harmonics)."""
    value, first, second = sph_harm_y_all(order, order, polar, azimuth, diff_n=2)
    twice = (second[..., 0, 0], second[..., 0, 1], second[..., 1, 1])
    each = np.stack([value, first[..., 0], first[..., 1], *twice])
    found = [each[:, n, 0].real for n in range(order + 1)]
    for n in range(1, order + 1):
        for m in range(1, n + 1):
            found += [np.sqrt(2) * each[:, n, m].real, np.sqrt(2) * each[:, n, m].imag]
    return np.stack(found, axis=-1)


def resample(order: int, polar: np.ndarray, azimuth: np.ndarray) -> np.ndarray:
    """Return matrices from values at the nodes to values and derivatives at points: (6, m, n)."""
    *nodes, weights = sphere(order)
    return harmonics(order, polar, azimuth) @ (harmonics(order, *nodes)[0].T * weights)


def layers(xp: Any, r: Any, normals: Any) -> Any:
    """Return blocks of single and double layers of pairs, shape (2, 3, 3, ...)."""
    distance = xp.sqrt((r**2).sum(axis=0))
    distance[distance == 0] = np.inf  # a node itself is left out
    eye = xp.eye(3).reshape(3, 3, *[1] * distance.ndim)
    along = r[:, None] * r / distance**3
    double = -6 * along * (r * normals).sum(axis=0) / distance**2
    return xp.stack([eye / distance + along, double]) / (8 * np.pi)


class Drops:
    """Surfaces of drops, their layers, and the velocities of their nodes.

    Parameters
    ----------
    order : int
        Degree of the spherical harmonics.
    ratio : float
        Viscosity of the drops over the fluid's.
    flow : function
        Velocity (3, ...) without drops at points (3, ...).
    options : EwaldOptions
        Box and tolerance.
    space : ExecutionSpace
        Where to compute.
    """

    def __init__(
        self, order: int, ratio: float, flow: Callable, options: Any, space: Any = "CPU"
    ) -> None:
        self.xp = xp = parki.utils.get_array_module(space)
        scipy = "scipy" if xp is np else "cupyx.scipy"
        self.special = importlib.import_module(f"{scipy}.special")
        self.solvers = importlib.import_module(f"{scipy}.sparse.linalg")
        self.order, self.ratio, self.flow, self.options = order, ratio, flow, options
        self.plans: dict[int, Any] = {}
        self.guess, self.gap = None, np.inf  # the least distance of nodes of two drops so far
        self.grids = []  # the nodes, and finer ones: matrices from the nodes, and weights
        for degree in (order, FINER * order):
            *angles, weights = sphere(degree)
            grid = resample(order, *angles), weights / np.sin(angles[0])
            self.grids.append([xp.asarray(each) for each in grid])
        # Around a node, layers are smooth in polar coordinates. Here are the nodes at azimuth 0.
        t, weight = leggauss(order + 3)
        around = 2 * order + 6
        t, weight = (t + 1) * np.pi / 2, weight * np.pi / 2
        spin = np.tile(2 * np.pi * np.arange(around) / around, t.size)
        cap = directions(np.repeat(t, around), spin)
        self.cap = xp.asarray(np.repeat(weight * np.sin(t), around) * 2 * np.pi / around)
        self.poles = []
        for tilt in sphere(order)[0][:: 2 * order + 2]:
            y = Rotation.from_euler("y", tilt).as_matrix() @ cap
            angles = np.arccos(np.clip(y[2], -1, 1)), np.arctan2(y[1], y[0])
            self.poles.append(xp.asarray(resample(order, *angles)[0]))

    def surface(self, x: Any, fine: bool = False) -> tuple[Any, ...]:
        """Return points, normals, areas and curvatures at the nodes, or at finer ones.

        The curvature is the sum of both, 2 on the unit sphere.
        """
        table, weights = self.grids[fine]
        y, t, p, tt, tp, pp = self.xp.einsum("dmn,ibn->dibm", table, x)
        normal = self.xp.cross(t, p, axis=0)
        square = (normal**2).sum(axis=0)
        normal /= self.xp.sqrt(square)
        bend = (t * t).sum(axis=0) * pp - 2 * (t * p).sum(axis=0) * tp + (p * p).sum(axis=0) * tt
        return y, normal, self.xp.sqrt(square) * weights, -(bend * normal).sum(axis=0) / square

    def own(self, x: Any, normals: Any, areas: Any) -> Any:
        """Return what plain sums over a drop's own nodes miss, shape (2, 3, 3, B, n, n)."""
        xp, around = self.xp, 2 * self.order + 2
        vector = normals * areas / xp.asarray(sphere(self.order)[2])
        rings, place = xp.divmod(xp.arange(areas.shape[1]), around)
        turn = xp.arange(around)[:, None]
        to, back = (around * rings + (place + way * turn) % around for way in (1, -1))
        found = []
        for ring, table in enumerate(self.poles):
            y, area = (each[..., to] @ table.T for each in (x, vector))
            size = xp.sqrt((area**2).sum(axis=0))
            nodes = x[:, :, ring * around : (ring + 1) * around, None]
            blocks = layers(xp, nodes - y, area / size) * (size * self.cap) @ table
            plain = layers(xp, nodes - x[:, :, None], normals[:, :, None]) * areas[:, None]
            found.append(
                xp.take_along_axis(blocks, back.reshape(1, 1, 1, 1, around, -1), -1) - plain
            )
        return xp.concatenate(found, axis=-2)

    def near(self, x: Any, fine: bool, reach: float) -> Any:
        """Return the short part of the layers between drops: a sparse matrix for each layer."""
        xp = self.xp
        points, normals, areas, _ = self.surface(x, fine)
        points, normals, areas = points.reshape(3, -1), normals.reshape(3, -1), areas.ravel()
        pairs = parki.near_pairs(x.reshape(3, -1), points, reach, self.options)
        others = pairs.targets // x.shape[2] != pairs.indices // (areas.size // x.shape[1])
        index, r = pairs.indices[others], pairs.displacements[:, others]
        before = xp.concatenate([xp.zeros(1, int), xp.cumsum(others, dtype=int)])[pairs.indptr]
        pairs = dataclasses.replace(
            pairs, indptr=before.astype(np.int32), indices=index, displacements=r,
            distances=pairs.distances[others],
        )  # fmt: skip
        self.gap = min(self.gap, float(pairs.distances.min())) if index.size else self.gap
        # 1 - short is so flat at 0 that both layers, times it, are smooth there.
        short = self.special.gammaincc(2.5, (pairs.distances * REACH / reach) ** 2) * areas[index]
        return [pairs.matrix(each * short) for each in layers(xp, r, normals[:, index])]

    def place(self, x: Any) -> Any:
        """Prepare the layers for nodes x, and return the pull of the interface, shape (3, B, n)."""
        _, normals, self.areas, curvature = self.surface(x)
        reach = REACH * SMOOTH * float(self.xp.sqrt(self.areas.mean()))
        self.blocks = self.own(x, normals, self.areas)
        self.short = [self.near(x, fine, reach) for fine in (False, True)]
        points, self.normals = x.reshape(3, -1), normals.reshape(3, -1)
        for plan in self.plans.values():
            plan.update_points(points, points, *[self.normals] * (plan is self.plans.get(1)))
        self.points = points
        return -curvature * normals

    def layer(self, kind: int, q: Any) -> Any:
        """Return the single layer (0) or the double layer (1) of densities q, shape (3, B, n)."""
        if kind not in self.plans:
            name, normals = [("stokes_sl", []), ("stokes_dl", [self.normals])][kind]
            self.plans[kind] = parki.Plan(name, self.points, self.points, *normals, self.options)
        result = self.plans[kind]((q * self.areas).reshape(3, -1)).ravel() / (8 * np.pi)
        plain, finer = (each[kind] for each in self.short)
        result += finer @ (q @ self.grids[1][0][0].T).ravel() - plain @ q.ravel()
        return result.reshape(q.shape) + self.xp.einsum("ijbmn,jbn->ibm", self.blocks[kind], q)

    def velocity(self, x: Any) -> Any:
        """Return the velocity of the interface at its nodes x, shape (3, B, n).

        Raises
        ------
        SystemExit
            If GMRES does not converge.
        """
        pull = self.place(x)
        u = 2 / (1 + self.ratio) * (self.flow(x) + self.layer(0, pull))
        if self.ratio == 1:
            return u
        factor = 2 * (self.ratio - 1) / (1 + self.ratio)

        def apply(vector: Any) -> Any:
            return vector - factor * self.layer(1, vector.reshape(x.shape)).ravel()

        gmres, system = self.solvers.gmres, self.solvers.LinearOperator
        name = "rtol" if "rtol" in inspect.signature(gmres).parameters else "tol"  # older CuPy
        found, status = gmres(
            system((x.size, x.size), matvec=apply, dtype=float),
            u.ravel(),
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
        start, middle = x, x
        for part in (0.5, 1.0):
            u = self.velocity(middle)
            normals = self.normals.reshape(x.shape)
            mean = ((u * self.areas).sum(axis=2) / self.areas.sum(axis=1))[..., None]
            speed = ((u - mean) * normals).sum(axis=0)
            # No flux passes the surface; quadratures leave one where drops are close.
            speed -= (speed * self.areas).sum(axis=1)[:, None] / self.areas.sum(axis=1)[:, None]
            u = mean + speed * normals
            middle = (start + part * time * u) @ self.grids[0][0][0].T
        return middle

    def shape(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return volumes and deformations (L - B) / (L + B), each of shape (B,).

        L and B are the longest and the shortest axis of an ellipsoid with the same second moments.
        """
        y, normals, areas, _ = self.surface(x, fine=True)
        y = y - (y * areas).sum(axis=2, keepdims=True) / areas.sum(axis=1)[:, None]
        height = (y * normals).sum(axis=0) * areas
        moments = self.xp.einsum("ibn,jbn,bn->bij", y, y, height)
        short, _, long = np.sqrt(np.linalg.eigvalsh(host(moments))).T
        return host(height.sum(axis=1)) / 3, (long - short) / (long + short)


def host(array: Any) -> np.ndarray:
    """Return an array of NumPy."""
    return array if isinstance(array, np.ndarray) else array.get()


def theory(ratio: float, capillary: Any) -> tuple[Any, Any]:
    """Return Taylor's deformation in shear, for small Ca, and Cox's, for a drop that also turns."""
    taylor = capillary * (19 * ratio + 16) / (16 * ratio + 16)
    return taylor, taylor / np.sqrt(1 + (19 * ratio * capillary / 20) ** 2)


def shear(ratio: float, capillary: float, order: int, steps: int) -> tuple[float, float]:
    """Return the deformation of a drop in simple shear, and the change of its volume."""
    middle = 4.0  # of the box, which has room for the drop, and no images
    options = parki.EwaldOptions(periodicity=0, box=[2 * middle] * 3, tolerance=1e-6)

    def flow(x: Any) -> Any:
        return np.stack([capillary * (x[1] - middle), 0 * x[1], 0 * x[1]])

    drop = Drops(order, ratio, flow, options)
    x = middle + directions(*sphere(order)[:2])[:, None]
    # Without a flow, small deformations decay at this rate.
    rate = 40 * (ratio + 1) / ((2 * ratio + 3) * (19 * ratio + 16))
    for _ in parki.Progress(f"ratio {ratio:g}, Ca {capillary:g}").over(range(steps)):
        x = drop.move(x, 6 / rate / steps)
    volume, deformation = drop.shape(x)
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
    options = parki.EwaldOptions(
        periodicity=3, box=[SPACING * edge] * 3, tolerance=1e-4, dl_mean="flux"
    )
    xp = parki.utils.get_array_module(space)

    def flow(x: Any) -> Any:
        """Strain between rollers at the rate of a shear of rate Ca."""
        a, b = wave * x[0], wave * x[1]
        u = xp.stack([xp.sin(a) * xp.cos(b), -xp.cos(a) * xp.sin(b), 0 * a])
        return capillary / (2 * wave) * u

    start = centres[:, :, None] + directions(*sphere(order)[:2])[:, None]
    return Drops(order, ratio, flow, options, space), start


def run(drops: Drops, x: np.ndarray, steps: int, restart: str) -> dict[str, Any]:
    """Take steps, or go on from the file `restart` if it exists; return what was found."""
    record: dict[str, Any] = {"x": x, "deformations": [], "volumes": []}
    if restart and Path(restart).exists():
        with np.load(restart) as kept:
            record = {"x": kept["x"], **{name: list(kept[name]) for name in list(record)[1:]}}
    nodes = drops.xp.asarray(record["x"])
    for _ in parki.Progress("drops in a mill").over(range(len(record["volumes"]), steps)):
        nodes = drops.move(nodes, STEP)
        volumes, deformations = drops.shape(nodes)
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
    y = np.einsum(
        "mn,ibn->ibm", resample(drops.order, polar.ravel(), azimuth.ravel())[0], record["x"]
    )
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
    print(f"volumes change by {worst:.1e} at most; least gap {drops.gap:.2f} radii")
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(given.output, found, drops, record)
        print(f"Picture: {given.output}")
    return found, record


if __name__ == "__main__":
    main()
