"""Rigid bodies that settle in a periodic box, by a completed double layer and GMRES.

    python examples/rigid_bodies.py [--bodies 216] [--steps 20] [--space CPU]

The flow of rigid bodies is a double layer q on their surfaces, completed by a point force F at each
centre, which is the body's weight. At the surface of a body with velocity U and angular velocity w

    -q/2 + D q + V F = U + w x r    with    U = -(mean of q),  w = -(mean rotation of q)

D is the double layer in the surface and V F is the flow of the point forces. The equation is of the
second kind: GMRES takes a few steps, whatever the number of nodes. See docs/boundary_integrals.md.

A body's own part of D needs a better quadrature than parki's sum over other nodes. It is one matrix
for all bodies of a shape, which turns with them. Its inverse is the preconditioner. Bodies cross
the faces of the box, and their nodes stay together: `dl_mean="flux"` asks for that.

First, the program computes the drag on spheres of cubic arrays. A. A. Zick, G. M. Homsy, Journal of
Fluid Mechanics 115, 13-26 (1982). A. S. Sangani, A. Acrivos, International Journal of Multiphase
Flow 8, 343-360 (1982). H. Hasimoto, Journal of Fluid Mechanics 5, 317-328 (1959).
"""

import argparse
import importlib.util
import inspect
import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss, legval
from numpy.polynomial.polynomial import polyval
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from scipy.spatial.transform import Rotation

import parki

# Positions of spheres in the unit box; the coefficients of c^(1/3) and of c^2 in Hasimoto's dilute
# expansion 1 / K = 1 - A c^(1/3) + c - B c^2; and drag factors of Zick and Homsy by solid fraction.
ARRAYS = {
    "simple": ([[0, 0, 0]], 1.7601, 1.5593),
    "body-centred": ([[0, 0, 0], [0.5, 0.5, 0.5]], 1.7918, 0.3292),
    "face-centred": ([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]], 1.7917, 0.3020),
}
CLOSE_PACKED = {"simple": np.pi / 6, "body-centred": np.sqrt(3) * np.pi / 8}  # solid fractions
# Sangani and Acrivos: K is a polynomial of the cube root of the solid fraction over the
# close-packed one. The first row is as open lattice-Boltzmann programs reprint it, the second is
# from memory. K as computed here, with 11 digits at 35 fractions, confirms each coefficient of the
# first, and the second except for 0.003 in the coefficient of power 14, or 0.002 in the one before,
# which is 2e-6 in K. No row of face-centred arrays was at hand.
# fmt: off
SANGANI_ACRIVOS = {
    "simple": [
        1, 1.418649, 2.012564, 2.331523, 2.564809, 2.584787, 2.873609, 3.340163, 3.536763, 3.504092,
        3.253622, 2.689757, 2.037769, 1.809341, 1.877347, 1.534685, 0.9034708, 0.2857896,
        -0.5512626, -1.278724, 1.013350, 5.492491, 4.615388, -0.5736023, -2.865924, -4.709215,
        -6.870076, 0.1455304, 12.51891, 9.742811, -5.566269,
    ],
    "body-centred": [
        1, 1.575834, 2.483254, 3.233022, 4.022864, 4.650320, 5.281412, 5.826374, 6.258376, 6.544504,
        6.878396, 7.190839, 7.268068, 7.304025, 7.301217, 7.2364107, 7.298014, 7.369849, 7.109497,
        6.228418, 5.235796, 4.476874, 3.541982, 2.939353, 3.935484, 5.179097, 3.959872, 2.227627,
        3.393390, 4.491369, 2.200686,
    ],
}
# fmt: on
ZICK_HOMSY = {0.027: 2.008, 0.064: 2.810, 0.125: 4.292, 0.216: 7.442, 0.343: 15.4}
AXES = {"spheres": (0.25, 0.25, 0.25), "ellipsoids": (0.35, 0.22, 0.2)}  # in lattice steps
REACH, STIFFNESS = 2.5, 1.5 * np.pi  # of nodes: in their steps, and a quarter of a weight
RTOL = 1e-5
INK, PAPER, BLUE, RED, GREEN = "#1d1b2e", "#fbfaf8", "#2f5d8c", "#c2452d", "#2e7d5b"


def sphere(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (3, n) and weights of the unit sphere, n = 2 (order + 1)^2.

    They integrate spherical harmonics of degree up to 2 order + 1.
    """
    height, weight = leggauss(order + 1)
    around = 2 * order + 2
    angle = 2 * np.pi * np.arange(around) / around
    z, ring = np.repeat(height, around), np.repeat(np.sqrt(1 - height**2), around)
    angle = np.tile(angle, order + 1)
    nodes = np.stack([ring * np.cos(angle), ring * np.sin(angle), z])
    return nodes, np.repeat(weight, around) * 2 * np.pi / around


def double_layer(r: np.ndarray, normals: np.ndarray, areas: np.ndarray) -> np.ndarray:
    """Return parki's `stokes_dl` of pairs over 8 pi, times areas: blocks (3, 3, ...)."""
    distance = np.linalg.norm(r, axis=0)
    distance[distance == 0] = np.inf  # a node itself is left out
    factor = -6 / (8 * np.pi) * np.sum(r * normals, axis=0) * areas / distance**5
    return factor * r[:, None] * r[None]


class Shape:
    """An ellipsoid with its nodes and the matrices of its own part, in its own frame.

    Parameters
    ----------
    order : int
        Degree up to which the density is resolved.
    axes : sequence of 3 floats
        Half axes.
    """

    def __init__(self, order: int, axes: tuple[float, float, float]) -> None:
        self.order, self.axes = order, np.array(axes)[:, None]
        self.directions, weights = sphere(order)
        self.nodes, self.normals, self.areas = self.surface(self.directions, weights)
        self.n = self.areas.size
        n, r = self.n, self.nodes
        plain = double_layer(r[:, :, None] - r[:, None], self.normals[:, None], self.areas)
        # A density along the normal has a flux, which no rigid body has: it is taken out of D.
        normal = self.normals.reshape(-1)
        self.flux = np.tile(self.areas, 3) * normal / self.areas.sum()
        closed = np.eye(3 * n) - np.outer(normal, self.flux)
        inertia = (r * self.areas) @ r.T
        inertia = np.trace(inertia) * np.eye(3) - inertia
        moves = np.repeat(np.eye(3), n, axis=1) * np.tile(self.areas, 3) / self.areas.sum()
        turns = np.cross(np.eye(3)[:, :, None], r[:, None], axisa=0, axisb=0)  # (3, n, 3)
        turns = turns.transpose(0, 2, 1).reshape(3, 3 * n)  # e_i x r
        means = np.linalg.solve(inertia, turns * np.tile(self.areas, 3))
        self.motion = -np.concatenate([moves, means])  # (6, 3 n): U and w of a density
        modes = np.concatenate([np.repeat(np.eye(3), n, axis=1), turns])
        whole = self.exact() @ closed - np.eye(3 * n) / 2 - modes.T @ self.motion
        self.rest = whole - plain.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n) @ closed
        self.inverse = np.linalg.inv(whole)

    def surface(self, directions: Any, weights: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return points, outward normals and areas of points of the unit sphere."""
        stretched = directions / self.axes
        length = np.linalg.norm(stretched, axis=0)
        return self.axes * directions, stretched / length, weights * length * self.axes.prod()

    def exact(self) -> np.ndarray:
        """Return the double layer at the nodes, as a matrix (3 n, 3 n).

        Around each node the sphere has polar coordinates, in which the integrand is smooth. The
        density there follows from the nodes by the addition theorem of spherical harmonics.
        """
        order, around = self.order, 2 * self.order + 2
        t, weight = leggauss(order + 1)
        t, weight = (t + 1) * np.pi / 2, weight * np.pi / 2
        angle = 2 * np.pi * np.arange(around) / around
        polar = np.stack(
            np.broadcast_arrays(
                np.outer(np.sin(t), np.cos(angle)),
                np.outer(np.sin(t), np.sin(angle)),
                np.cos(t)[:, None],
            )
        ).reshape(3, -1)
        weights = np.repeat(weight * np.sin(t), around) * 2 * np.pi / around
        series = (2 * np.arange(order + 1) + 1) / (4 * np.pi)
        of_nodes = sphere(order)[1]
        matrix = np.empty((3, self.n, 3, self.n))
        for ring in range(order + 1):
            tilt = Rotation.from_euler("y", np.arccos(self.directions[2, ring * around]))
            points = tilt.as_matrix() @ polar
            values = legval(points.T @ self.directions, series) * of_nodes
            values = values.reshape(-1, order + 1, around)
            for place in range(around):  # all nodes of a ring see the sphere in the same way
                spin = Rotation.from_euler("z", angle[place]).as_matrix()
                y, normals, areas = self.surface(spin @ points, weights)
                node = ring * around + place
                blocks = double_layer(self.nodes[:, node, None] - y, normals, areas)
                here = np.roll(values, place, axis=2).reshape(-1, self.n)
                matrix[:, node] = (blocks.reshape(9, -1) @ here).reshape(3, 3, -1)
        return matrix.reshape(3 * self.n, -1)


@dataclass
class Suspension:
    """Bodies of some shapes in a periodic box, and the operator of their integral equation.

    Attributes
    ----------
    groups : list of (Shape, int)
        Shapes with the numbers of their bodies, in the order of the centres.
    centres : ndarray, shape (3, B)
    turns : Rotation
        Orientations of the bodies.
    box : list of 3 floats
    space : ExecutionSpace
        Where to compute.
    tolerance : float
        Tolerance of the sums.
    options : EwaldOptions, optional
        Of the sums. Default: for a triply periodic box.
    """

    groups: list[tuple[Shape, int]]
    centres: np.ndarray
    turns: Rotation
    box: list[float]
    space: Any = "CPU"
    tolerance: float = 1e-6
    options: Any = None
    plan: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.xp = parki.utils.get_array_module(self.space)
        self.options = self.options or parki.EwaldOptions(
            periodicity=3, box=self.box, tolerance=self.tolerance, dl_mean="flux"
        )
        names = ("rest", "inverse", "motion")
        self.matrices = [
            {name: self.xp.asarray(getattr(shape, name)) for name in names}
            for shape, _ in self.groups
        ]
        self.place()

    def place(self) -> None:
        """Give the plan the points of the bodies where they are now."""
        frames, first = self.turns.as_matrix(), 0
        columns: list[tuple[np.ndarray, ...]] = []
        self.parts, self.frames, at = [], [], 0
        for shape, count in self.groups:
            frame = frames[first : first + count]
            points = self.centres[:, first : first + count, None] + spread(frame, shape.nodes)
            normals = spread(frame, shape.normals)
            areas = np.tile(shape.areas, count)
            columns.append((points.reshape(3, -1), normals.reshape(3, -1), areas))
            self.parts.append(slice(at, at + areas.size))
            self.frames.append(self.xp.asarray(frame))
            first, at = first + count, at + areas.size
        joined = (np.concatenate(each, axis=-1) for each in zip(*columns, strict=True))
        self.points, self.normals, self.areas = (self.xp.asarray(each) for each in joined)
        given = self.targets(), self.points, self.normals
        if self.plan is None:
            self.plan = parki.Plan("stokes_dl", *given, self.options)
        else:
            self.plan.update_points(*given)

    def targets(self) -> Any:
        """Return the points where flows are needed."""
        return self.points

    def layer(self, strengths: Any) -> Any:
        """Return the flow of double layers at the nodes, with each node's own left out."""
        return self.plan(strengths) / (8 * np.pi)

    def driven(self, forces: Any) -> Any:
        """Return the flow of forces (3, B) on the bodies at the nodes."""
        centres = self.xp.asarray(self.centres)
        return parki.stokes_sl(self.targets(), centres, forces, self.options) / (8 * np.pi)

    def own(self, density: Any, name: str) -> list[Any]:
        """Return the product of each body's own matrix and its density: (B, rows) by group."""
        found = []
        for part, frame, matrices in zip(self.parts, self.frames, self.matrices, strict=True):
            bodies = density[:, part].reshape(3, len(frame), -1)
            local = self.xp.einsum("bij,ibn->bjn", frame, bodies).reshape(len(frame), -1)
            found.append(local @ matrices[name].T)
        return found

    def own_everywhere(self, vector: Any, name: str) -> Any:
        """Return the same at the nodes, as a vector."""
        density = vector.reshape(3, -1)
        result = self.xp.empty_like(density)
        for part, frame, local in zip(
            self.parts, self.frames, self.own(density, name), strict=True
        ):
            local = local.reshape(len(frame), 3, -1)
            turned = self.xp.einsum("bij,bjn->ibn", frame, local)
            result[:, part] = turned.reshape(3, -1)
        return result.reshape(-1)

    def apply(self, vector: Any) -> Any:
        """Return -q/2 + D q - U - w x r."""
        density = vector.reshape(3, -1).copy()
        for part, (shape, count) in zip(self.parts, self.groups, strict=True):
            flux = (density[:, part] * self.normals[:, part]).sum(axis=0) * self.areas[part]
            mean = flux.reshape(count, -1).sum(axis=1) / shape.areas.sum()
            density[:, part] -= self.normals[:, part] * self.xp.repeat(mean, shape.n)
        return self.layer(density * self.areas).reshape(-1) + self.own_everywhere(vector, "rest")

    def solve(self, forces: np.ndarray, guess: Any = None, show: Any = None) -> tuple[Any, ...]:
        """Return velocities and angular velocities (3, B), and the density, for viscosity 1.

        Raises
        ------
        SystemExit
            If GMRES does not converge.
        """
        if self.xp is np:
            from scipy.sparse.linalg import LinearOperator, gmres

            rounds = {"restart": 30, "maxiter": 2}
        else:
            from cupyx.scipy.sparse.linalg import LinearOperator, gmres

            # CuPy takes all steps of a round before it computes the residual, and counts steps.
            rounds = {"restart": 8, "maxiter": 80}
        name = "rtol" if "rtol" in inspect.signature(gmres).parameters else "tol"  # older CuPy
        xp, size = self.xp, 3 * self.areas.size
        flow = self.driven(xp.asarray(forces))
        density, status = gmres(
            LinearOperator((size, size), matvec=self.apply, dtype=float),
            -flow.reshape(-1),
            x0=guess,
            M=LinearOperator(
                (size, size), matvec=lambda v: self.own_everywhere(v, "inverse"), dtype=float
            ),
            **{name: RTOL, **rounds},
            callback=show or parki.Progress("GMRES"),
            callback_type="pr_norm",
        )
        if status != 0:
            raise SystemExit("GMRES did not converge; bodies may be too close for their nodes")
        local = xp.concatenate(self.own(density.reshape(3, -1), "motion"))
        local = local.get() if xp is not np else local
        return self.turns.apply(local[:, :3]).T, self.turns.apply(local[:, 3:]).T, density

    def repulsion(self) -> tuple[np.ndarray, float]:
        """Return forces (3, B) that keep bodies apart, and the least gap in steps of the nodes.

        Two nodes of different bodies push the bodies apart if they are closer than `REACH` steps,
        where plain sums lose their digits.
        """
        step = float(self.xp.sqrt(self.areas.mean()))
        pairs = parki.near_pairs(self.points, self.points, REACH * step, self.options)
        sizes = np.concatenate([[shape.n] * count for shape, count in self.groups])
        body = self.xp.asarray(np.repeat(np.arange(sizes.size), sizes))
        pushed, apart = body[pairs.targets], pairs.distances / step
        other = pushed != body[pairs.indices]
        push = STIFFNESS * (1 - apart / REACH) * pairs.displacements / pairs.distances * other
        forces = [self.xp.bincount(pushed, row, minlength=sizes.size) for row in push]
        near = apart[other]
        host = self.xp.stack(forces)
        return host.get() if self.xp is not np else host, float(near.min()) if near.size else REACH


def spread(frames: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return vectors (3, n) in the frames of all bodies: shape (3, B, n)."""
    return np.einsum("bij,jn->ibn", frames, vectors)


def drag(array: str, fraction: float, ball: Shape) -> tuple[float, int]:
    """Return the drag factor K = F / (6 pi U) of unit spheres in an array, and steps of GMRES."""
    places = np.array(ARRAYS[array][0], dtype=float).T
    count = places.shape[1]
    edge = float((4 * np.pi * count / (3 * fraction)) ** (1 / 3))
    # The first sphere is at a corner of the box, so that its nodes are beyond three faces.
    bodies = Suspension([(ball, count)], edge * places, Rotation.identity(count), [edge] * 3)
    with parki.Progress(f"{array}, {fraction}", rtol=RTOL) as show:
        velocity, _, _ = bodies.solve(np.tile([[0.0], [0.0], [1.0]], count), show=show)
    return float(1 / (6 * np.pi * velocity[2].mean())), show.count


def dilute(array: str, fraction: Any) -> Any:
    """Return Hasimoto's expansion of 1 / K for small solid fractions."""
    _, first, second = ARRAYS[array]
    return 1 - first * fraction ** (1 / 3) + fraction - second * fraction**2


def series(array: str, fraction: Any) -> Any:
    """Return K by the series of Sangani and Acrivos, which lacks the powers from 31 on."""
    return polyval(np.cbrt(fraction / CLOSE_PACKED[array]), SANGANI_ACRIVOS[array])


def suspension(bodies: int, order: int, space: Any) -> Suspension:
    """Return bodies near the sites of a cubic lattice, half of them spheres, in random order."""
    edge = int(np.ceil(bodies ** (1 / 3)))
    rng = np.random.default_rng(0)
    sites = np.indices((edge, edge, edge)).reshape(3, -1)[:, rng.permutation(edge**3)[:bodies]]
    centres = sites + rng.uniform(-0.06, 0.06, (3, bodies))
    half = bodies // 2
    groups = [
        (Shape(order, AXES["spheres"]), half),
        (Shape(order, AXES["ellipsoids"]), bodies - half),
    ]
    turns = Rotation.random(bodies, random_state=0)
    return Suspension(groups, centres, turns, [float(edge)] * 3, space, 1e-4)


@dataclass
class Settling:
    """What bodies did in each step: heights, not wrapped, mean speeds, and steps of GMRES.

    The least gap is in steps of the nodes; the velocity (3, B) is the last one.
    """

    heights: list[np.ndarray]
    speeds: list[float]
    iterations: list[int]
    gap: float
    velocity: np.ndarray


def settle(bodies: Suspension, steps: int, step: float = 0.06) -> Settling:
    """Take steps by the Adams-Bashforth rule of second order; weights are 6 pi, downwards."""
    count = bodies.centres.shape[1]
    weights = np.tile([[0.0], [0.0], [-6 * np.pi]], count)
    edges = np.array(bodies.box)[:, None]
    record, fallen = Settling([], [], [], np.inf, np.empty(0)), bodies.centres[2].copy()
    before: Any = None
    density = None
    for _ in parki.Progress("settling").over(range(steps)):
        show = parki.Progress("GMRES")
        push, gap = bodies.repulsion()
        velocity, spin, density = bodies.solve(weights + push, density, show)
        record.gap = min(record.gap, gap)
        record.heights.append(fallen.copy())
        record.speeds.append(float(-velocity[2].mean()))
        record.iterations.append(show.count)
        old_velocity, old_spin = before or (velocity, spin)
        move = step * (1.5 * velocity - 0.5 * old_velocity)
        fallen += move[2]
        # Centres come back into the box, and the nodes of each body follow its centre.
        bodies.centres = (bodies.centres + move) % edges
        turn = step * (1.5 * spin - 0.5 * old_spin)
        bodies.turns = Rotation.from_rotvec(turn.T) * bodies.turns
        before, record.velocity = (velocity, spin), velocity
        bodies.place()
    return record


def draw(
    picture: str, factors: dict[str, dict[float, float]], bodies: Suspension, run: Any
) -> None:
    """Draw the drag factors, and the bodies from the side with their speeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    figure = Figure(figsize=(11.5, 5.2), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    left = figure.add_axes((0.065, 0.125, 0.40, 0.76), facecolor=PAPER)
    thin, wide = np.linspace(1e-3, 0.6, 200), np.linspace(0, 0.7, 200)
    styles = zip((BLUE, RED, GREEN), (9, 6, 3), strict=True)
    for (array, found), (colour, size) in zip(factors.items(), styles, strict=True):
        at = np.cbrt(list(found))
        left.plot(at, list(found.values()), "o", color=colour, markersize=size, label=array)
        left.plot(thin, 1 / dilute(array, thin**3), "--", color=colour, linewidth=1.2)
        if array in SANGANI_ACRIVOS:
            left.plot(wide, series(array, wide**3), color=colour, linewidth=1.2)
    left.plot(
        np.cbrt(list(ZICK_HOMSY)), list(ZICK_HOMSY.values()), "o", markersize=12,
        markerfacecolor="none", markeredgecolor=INK, label="Zick and Homsy, simple",
    )  # fmt: skip
    left.set(xlabel="cube root of the solid fraction", xlim=(0, 0.75), ylim=(1, 20), yscale="log")
    left.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    left.minorticks_off()
    left.grid(color=INK, alpha=0.12)
    left.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, loc="upper left")
    left.set_title("Drag factor K of cubic arrays", loc="left", fontweight="bold")

    right = figure.add_axes((0.53, 0.125, 0.76 * 5.2 / 11.5, 0.76), facecolor=PAPER)
    scale, edge = Normalize(*np.percentile(-run.velocity[2], [2, 98])), bodies.box[0]
    colours = ScalarMappable(scale, "viridis")
    axes = np.repeat(
        [shape.axes[:, 0] for shape, _ in bodies.groups], [n for _, n in bodies.groups], axis=0
    )
    frames, angle = bodies.turns.as_matrix(), np.linspace(0, 2 * np.pi, 60)
    for i in np.argsort(-bodies.centres[1]):  # from the back to the front
        # The outline of an ellipsoid E S^2 seen along y: the ellipse of the matrix E E^T.
        spread_of = frames[i] * axes[i]
        seen = np.linalg.cholesky((spread_of @ spread_of.T)[np.ix_([0, 2], [0, 2])])
        outline = seen @ [np.cos(angle), np.sin(angle)] + bodies.centres[[0, 2], i, None]
        for shift in itertools.product((-edge, 0, edge), repeat=2):
            right.add_patch(
                Polygon(
                    outline.T + shift,
                    facecolor=colours.to_rgba(-run.velocity[2, i]),
                    edgecolor=INK,
                    linewidth=0.5,
                )
            )
    right.set(
        xlim=(0, edge), ylim=(0, edge), aspect="equal", xlabel="x", ylabel="z; weight pulls down"
    )
    title = f"{bodies.centres.shape[1]} bodies in a periodic box"
    right.set_title(title, loc="left", fontweight="bold")
    bar = figure.colorbar(colours, cax=figure.add_axes((0.90, 0.125, 0.012, 0.76)), extend="both")
    bar.outline.set_visible(False)
    bar.set_label("speed of falling", color=INK)
    figure.savefig(picture, facecolor=PAPER)


def main(words: list[str] | None = None) -> tuple[dict[str, dict[float, float]], Settling]:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--bodies", type=int, default=216)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--order", type=int, default=6, help="degree of a settling body's density")
    parser.add_argument("--array-order", type=int, default=16, help="the same for cubic arrays")
    parser.add_argument("--space", default="CPU", help="where to compute: CPU, or GPU")
    parser.add_argument("--output", default="rigid_bodies.png", help="picture; '' draws nothing")
    given = parser.parse_args(words)

    table = Table(title="Drag factor K of cubic arrays of spheres", box=SIMPLE, pad_edge=False)
    heads = ["solid", "simple", "Zick,\nHomsy", "Sangani,\nAcrivos", "body-\ncentred"]
    for head in [*heads, "Sangani,\nAcrivos", "face-\ncentred", "Hasimoto"]:
        table.add_column(head, justify="right")
    factors: dict[str, dict[float, float]] = {array: {} for array in ARRAYS}
    ball = Shape(given.array_order, (1.0, 1.0, 1.0))
    steps = []
    for fraction, known in ZICK_HOMSY.items():
        for array, found in factors.items():
            found[fraction], count = drag(array, fraction, ball)
            steps.append(count)
        simple, body, face = (found[fraction] for found in factors.values())
        row = [simple, known, series("simple", fraction), body, series("body-centred", fraction)]
        row += [face, 1 / dilute("face-centred", fraction)]
        table.add_row(str(fraction), *(f"{value:.4f}" for value in row))
    Console().print(table)
    print(f"GMRES takes {min(steps)} to {max(steps)} steps")

    bodies = suspension(given.bodies, given.order, given.space)
    print(f"{given.bodies} bodies, {bodies.areas.size} nodes")
    run = settle(bodies, given.steps)
    fallen = float(np.mean(run.heights[0] - run.heights[-1]))
    print(f"mean speed {run.speeds[0]:.3f} at first, {run.speeds[-1]:.3f} at last")
    print(
        f"mean fall {fallen:.2f}, in a box of {bodies.box[2]:g}; least gap {run.gap:.1f} node steps"
    )
    print(f"steps of GMRES: {run.iterations[0]} at first, {run.iterations[-1]} at last")
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(given.output, factors, bodies, run)
        print(f"Picture: {given.output}")
    return factors, run


if __name__ == "__main__":
    main()
