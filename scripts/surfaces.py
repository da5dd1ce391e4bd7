"""Measure layers and equations on surfaces against exact flows, and print what was found.

    python scripts/surfaces.py                       # all but the suspension
    python scripts/surfaces.py suspension --bodies 216 --order 6
    python scripts/surfaces.py suspension --space Cuda   # and checks against the CPU

`gaps` measures the table of `parki/surfaces/apart.py`, `drops` the one of the manual, and
`suspension` the time that corrections take. What the others find is tested with fewer nodes in
`tests/test_surface_rows.py`.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import itertools
from typing import Any

import numpy as np
from benchmarks.run import Run
from scipy.spatial.transform import Rotation
from scipy.special import elliprd, elliprf

import parki
from parki.interchange import to_host
from parki.reference import two_spheres
from parki.runtime import get_execution_space

AXES = np.array([[1.0], [0.7], [0.5]])
FORCE = np.array([[1.0], [-0.6], [0.8]])
ORIGIN = np.zeros((3, 1))
FREE: dict[str, Any] = {"periodicity": 0, "tolerance": 1e-9}
PLACES = (0, 0.02, 0.3, 1, 2, 5)  # distances from a surface, in node distances
ORDERS = ((2, 1.45), (4, 1.6), (6, 1.8), (8, 2.0))
ARRAYS = {0.125: "4.29159", 0.343: "15.4", 0.45: "28.1"}
AXIS = np.array([[0.48], [0.6], [0.64]])  # not along the poles of the nodes


# ------------------------------------------------------------------ exact flows
def confocal(x: Any) -> Any:
    """Return the largest root s of sum x^2 / (a^2 + s) = 1, or 0 inside the ellipsoid."""
    low, high = np.zeros(x.shape[1]), (x**2).sum(axis=0) + 1
    inside = (x**2 / AXES**2).sum(axis=0) <= 1
    for _ in range(100):
        s = (low + high) / 2
        outside = (x**2 / (AXES**2 + s)).sum(axis=0) > 1
        low, high = np.where(outside, s, low), np.where(outside, high, s)
    return np.where(inside, 0.0, s)


def translating(x: Any) -> tuple[Any, Any]:
    """Return velocity and pressure of the ellipsoid that `FORCE` moves, 8 pi times as large.

    A. Oberbeck, Journal fuer die reine und angewandte Mathematik 81, 62-80 (1876).
    """
    s = AXES**2 + confocal(x)
    inside = (x**2 / AXES**2).sum(axis=0) <= 1
    size = np.where(inside, np.inf, (x**2 / s**2).sum(axis=0))
    slope = 2 * x / s / size  # of the root
    root = np.sqrt(s.prod(axis=0))
    alpha = 2 / 3 * np.stack([elliprd(*np.delete(s, k, 0), s[k]) for k in range(3)])
    along, weighted = (FORCE * x).sum(axis=0), (FORCE * AXES**2 * x / s).sum(axis=0)
    u = FORCE * (elliprf(*s) + AXES**2 * alpha / 2) + (along - weighted) * slope / (2 * root)
    return u, (FORCE * slope).sum(axis=0) / root


def traction(x: Any, n: Any, step: float = 1e-4) -> Any:
    """Return the traction along n of the same flow, by differences."""
    g = []
    for shift in step * np.eye(3)[:, :, None]:
        far, near = ([translating(x + k * shift)[0] for k in (d, -d)] for d in (2, 1))
        g.append((8 * (near[0] - near[1]) - far[0] + far[1]) / (12 * step))
    both = np.stack(g, axis=1) + np.stack(g, axis=0)
    return np.einsum("ijx,jx->ix", both, n) - translating(x)[1] * n


def density(x: Any) -> Any:
    """Return the force per area on this ellipsoid's surface."""
    return FORCE / np.sqrt((x**2 / AXES**4).sum(axis=0)) / (4 * np.pi * AXES.prod())


def between_nodes(surface: Any, count: int = 40) -> tuple[Any, Any, Any]:
    """Return points on a surface, normals and node distances there."""
    shape, rng = surface.shapes[0], np.random.default_rng(7)
    nodes = rng.choice(shape.areas.size, count, replace=False)
    x = shape.nodes[:, nodes] + 0.4 * shape.spacing[nodes] * rng.normal(size=(3, count))
    n, b, h = shape.near(x)
    return x - b * n, n, h


# ------------------------------------------------------------------ what is measured
def layers(
    nodes_order: int = 34, orders: Any = ORDERS, places: Any = PLACES, finer: int = 1
) -> dict[Any, float]:
    """Return errors of the ellipsoid's single layer and of a rigid motion's double layer.

    Limits from outside are at points between the nodes, the others at nodes.
    """
    surface = parki.Surface.ellipsoids(ORIGIN, AXES, order=nodes_order, finer=finer)
    on, n, h = between_nodes(surface)
    f, found = density(surface.nodes), {}
    size = 8 * np.pi * np.abs(f).max()
    for order, width in orders:
        more = {"order": order, "width": width, **FREE}
        for place in places:
            x = on + place * h * n
            u, p = translating(x)
            side = {} if place else {"side": "outside"}
            p, t = p, traction(x, n) if place else None
            if not place:
                p = 8 * np.pi * (density(x) * n).sum(axis=0)
                t = -8 * np.pi * density(x)
            for want, exact, scale in (("u", u, np.abs(u).max()), ("p", p, size)):
                value = surface.single_layer(f, x, want=want, **side, **more)
                found[order, place, want] = np.abs(value - exact).max() / scale
            value = surface.single_layer(f, x, want="traction", directions=n, **side, **more)
            found[order, place, "traction"] = np.abs(value - t).max() / size
        some = slice(0, None, max(1, surface.areas.size // 60))
        at, normals = surface.nodes[:, some], surface.normals[:, some]
        for want, exact in (("p", (f * surface.normals).sum(axis=0)), ("traction", -f)):
            e = {"directions": normals} if want == "traction" else {}
            value = surface.single_layer(f, at, want=want, **e, **more)
            off = np.abs(value - 4 * np.pi * exact[..., some]).max()
            found[order, 0, f"{want} at nodes"] = off / size
        motion = np.cross([0.3, 1.0, -0.5], surface.nodes.T).T + 1.0
        for name, constants in (("double", True), ("without constants", False)):
            value = surface.double_layer(motion, at, constants=constants, **more)
            off = np.abs(value / (8 * np.pi) - motion[:, some] / 2).max()
            found[order, 0, name] = off / np.abs(motion).max()
    return found


def solved(equation: Any, right_side: Any, rtol: float = 1e-8) -> tuple[Any, int]:
    """Return a density and the steps of GMRES."""
    on_device, residuals = not isinstance(right_side, np.ndarray), []
    gmres = importlib.import_module(
        "cupyx.scipy.sparse.linalg" if on_device else "scipy.sparse.linalg"
    ).gmres
    # CuPy computes a residual after all steps of a round.
    restart, rounds = (8, 8) if on_device else (60, 1)
    name = "rtol" if "rtol" in inspect.signature(gmres).parameters else "tol"  # older CuPy
    q, status = gmres(
        equation.as_linear_operator(),
        right_side.ravel(),
        M=equation.preconditioner(),
        restart=restart,
        callback=residuals.append,
        callback_type="pr_norm",
        **{name: rtol},
    )
    if status:
        raise SystemExit("GMRES did not converge")
    return q.reshape(3, -1), len(residuals) * rounds


def array(
    kind: Any, fraction: float, degree: int, finer: int = 3, **more: Any
) -> tuple[float, int]:
    """Return K of a simple cubic array, and the steps of GMRES."""
    a = (3 * fraction / (4 * np.pi)) ** (1 / 3)
    surface = parki.Surface.spheres(np.full((3, 1), 0.5), a, order=degree, finer=finer)
    equation = kind(surface, periodicity=3, box=[1, 1, 1], tolerance=1e-8, **more)
    up = np.array([[0.0], [0.0], [1.0]])
    if kind is parki.RigidSurfaces:
        q, steps = solved(equation, equation.right_side(up))
        return float(1 / (6 * np.pi * a * equation.motion(q)[0][2, 0])), steps
    f, steps = solved(equation, equation.right_side(up + 0 * surface.nodes))
    return float(equation.resultants(f)[0][2, 0] / (6 * np.pi * a)), steps


def ellipsoid(order: int, places: Any = PLACES, finer: int = 3) -> tuple[float, list[float], int]:
    """Return errors of a moved ellipsoid's velocity, and of the flow near it, and the steps."""
    surface = parki.Surface.ellipsoids(ORIGIN, AXES, order=order, finer=finer)
    equation = parki.RigidSurfaces(surface, **FREE)
    q, steps = solved(equation, equation.right_side(FORCE))
    exact = translating(ORIGIN)[0] / (8 * np.pi)
    on, n, h = between_nodes(surface)
    both, errors = equation.layers(q, FORCE), []
    for place in places:
        x = on + place * h * n
        u = surface.combined(both, x, **({} if place else {"side": "outside"}), **FREE)
        errors.append(np.abs(u - translating(x)[0]).max() / np.abs(8 * np.pi * exact).max())
    off = np.abs(equation.motion(q)[0] - exact).max() / np.abs(exact).max()
    return float(off), errors, steps


def gap(order: int, distance: float, finer: int = 3, turned: int = 0) -> tuple[float, float, float]:
    """Return the gap that a plan tells, and errors of spheres that move together, or apart.

    Errors are relative to the velocity of one sphere alone. The distance is in node distances.
    """
    width = distance * np.pi / (order + 1)
    axis = AXIS if not turned else Rotation.random(random_state=turned).apply(AXIS.T).T
    surface = parki.Surface.spheres(
        np.array([0.0, 2 + width]) * axis, 1.0, order=order, finer=finer
    )
    equation, errors = parki.RigidSurfaces(surface, **{**FREE, "tolerance": 1e-7}), []
    own, other = two_spheres(1.0, 1.0, 2 + width)["XA"]
    for sign in (1.0, -1.0):
        forces = axis * np.array([1.0, sign])
        q, _ = solved(equation, equation.right_side(forces), 1e-6)
        velocity = float((axis * equation.motion(q)[0][:, :1]).sum())
        errors.append(abs(6 * np.pi * velocity - 1 / (own + sign * other)))
    return equation.layer.gap, errors[0], errors[1]


def gap_of_drops(
    order: int, distance: float, way: str, ratio: float = 0.0, reference: int = 20
) -> tuple[float, float, float]:
    """Return the gap that a plan tells, and errors of two drops at the nodes, and of the mean.

    Buoyancy moves them together, or past each other. Errors are differences from more nodes,
    relative to the velocity of one drop alone.
    """
    width = distance * np.pi / (order + 1)
    towards = {"together": AXIS, "past": np.array([[0.8], [-0.64], [0.0]]) / 1.0496**0.5}
    e, options, found = towards[way], {**FREE, "tolerance": 1e-7}, []
    places = np.array([-1 - width / 2, 1 + width / 2]) * AXIS
    for each in (order, reference):
        surface = parki.Surface.spheres(places, 1.0, order=each)
        equation = parki.Drops(surface, ratio, **options)
        pull = np.where(surface.body == 0, 1.0, -1.0) * (e * surface.arms).sum(axis=0)
        force = 3 / (4 * np.pi) * pull * surface.normals
        u, _ = solved(equation, equation.right_side(force), 1e-6)
        mean = surface.integrals(u)[:, 0] / surface.total_areas[0]
        found.append((surface, force, u, mean, equation.layer.gap))
    (coarse, _, u, mean, told), (surface, force, q, exact, _) = found
    x = coarse.nodes
    layers = [surface.single_layer(force, x, **options), surface.double_layer(q, x, **options)]
    there = 2 / (1 + ratio) * (layers[0] + (ratio - 1) * layers[1]) / (8 * np.pi)
    alone = (1 + ratio) / (2 + 3 * ratio) / (2 * np.pi)
    return told, float(abs(u - there).max() / alone), float(abs(mean - exact).max() / alone)


def suspension(
    bodies: int, order: int, box: dict[str, Any], rtol: float, axes: Any, space: str = "CPU"
) -> None:
    """Print the times of sums, of near fields and of corrections for ellipsoids in a box.

    On a device, also how far values are from those of the CPU, before and after a move.
    """
    run = Run(get_execution_space(space))
    edge = int(np.ceil(bodies ** (1 / 3)))
    rng = np.random.default_rng(0)
    sites = np.indices((edge,) * 3).reshape(3, -1)[:, :bodies]
    centres = sites + rng.uniform(-0.06, 0.06, (3, bodies))
    turn = Rotation.random(bodies, random_state=0)
    box = {"periodicity": 3, "box": [edge] * 3, **box}
    pull = np.tile([[0.0], [0.0], [-6 * np.pi]], bodies)

    def made(xp: Any) -> Any:
        surface = parki.Surface.ellipsoids(xp.asarray(centres), np.array(axes), turn, order=order)
        return parki.RigidSurfaces(surface, **box)

    planned, equation = run.timed(lambda: made(run.xp))
    start = run.now()
    b = equation.right_side(run.xp.asarray(pull))
    equation.preconditioner()
    ready = run.now() - start
    took, (q, steps) = run.timed(lambda: solved(equation, b, rtol))
    velocity = to_host(equation.motion(q)[0])
    print(f"{bodies} ellipsoids on {run.space}, {b.shape[1]} nodes; {equation.layer.describe()}")
    print(f"plan {planned:.1f} s, right side and own parts {ready:.1f} s")
    print(f"GMRES {took:.2f} s in {steps} steps, mean speed {-velocity[2].mean():.4f}")
    print(f"GMRES once more {run.clock(lambda: solved(equation, b, rtol)):.2f} s")
    several = [equation.layer.timed(q)[1] for _ in range(5)]
    for name in several[0]:
        print(f"  {name:12} {min(each[name] for each in several) * 1e3:8.2f} ms")
    (took,) = run.milliseconds({"": lambda: equation.layer(q)}, 10).values()
    print(f"an application takes {took:.2f} ms by the clock")
    others = [made(np)] if run.device else []
    for moved in (False, True):
        if moved:
            took = run.clock(lambda: equation.update_positions(centres + 0.01, turn))
            print(f"a move takes {took:.2f} s")
            for other in others:
                other.update_positions(centres + 0.01, turn)
        for other in others:
            pairs = [
                (equation(q), other(to_host(q))),
                (equation.adjoint(q), other.adjoint(to_host(q))),
                (equation.right_side(run.xp.asarray(pull)), other.right_side(pull)),
            ]
            off = [abs(to_host(mine) - host).max() / abs(host).max() for mine, host in pairs]
            names = zip(("operator", "transpose", "right side"), off, strict=True)
            print("from the CPU's values:", ", ".join(f"{name} {each:.0e}" for name, each in names))


def report(what: list[str]) -> None:
    """Print the measures with these names."""
    if "layers" in what:
        for nodes_order, orders, finer in ((34, ORDERS, 1), (16, ORDERS[2:3], 3)):
            found = layers(nodes_order, orders, PLACES, finer)
            nodes = f"{2 * (nodes_order + 1) ** 2} nodes, {finer} times finer near a target"
            print(f"layers of an ellipsoid, {nodes}: distances in node distances")
            for order, _ in orders:
                for want in ("u", "p", "traction"):
                    row = " ".join(f"{found[order, place, want]:.0e}" for place in PLACES)
                    print(f"  M = {order}, {want:8} {row}")
                for name in ("p at nodes", "traction at nodes", "double", "without constants"):
                    print(f"  M = {order}, {name}: {found[order, 0, name]:.0e}")
    if "arrays" in what:
        print("K of simple cubic arrays")
        for fraction, known in ARRAYS.items():
            for order in (8, 12, 16):
                values = [array(kind, fraction, order) for kind in KINDS]
                row = "; ".join(f"{K:.6f} in {steps} steps" for K, steps in values)
                nodes = 2 * (order + 1) ** 2
                print(f"  c = {fraction} ({known}), {nodes} nodes: {row}", flush=True)
            for m, w in ORDERS[1:3]:
                K, _ = array(parki.RigidSurfaces, fraction, 16, 1, order=m, width=w)
                print(f"  c = {fraction}, 578 nodes alone, M = {m}: {K:.5f}", flush=True)
    if "ellipsoid" in what:
        print("a moved ellipsoid: error of U, and of the flow at", *PLACES, "node distances")
        for order in (8, 12, 16):
            off, errors, steps = ellipsoid(order)
            row = " ".join(f"{each:.0e}" for each in errors)
            print(f"  {2 * (order + 1) ** 2} nodes: {off:.0e}; {row}; {steps} steps", flush=True)
    if "gaps" in what:
        print("two spheres: gap over h, as a plan tells it; errors of U together and apart")
        distances = (2.0, 1.0, 0.5, 0.25, 0.1, 0.05)
        for finer, distance, order in itertools.product((3, 1), distances, (6, 9, 13)):
            told, together, apart = gap(order, distance, finer)
            print(f"  finer {finer}, order {order}, {distance}: ", end="")
            print(f"{told:.3f}; {together:.0e}, {apart:.0e}", flush=True)
    if "drops" in what:
        print("two drops: gap over h, as a plan tells it; errors at the nodes and of the mean")
        ways, distances = ("together", "past"), (2.0, 1.0, 0.5, 0.25, 0.1)
        for ratio, order, distance, way in itertools.product((0, 1, 10), (6, 9), distances, ways):
            told, at_nodes, mean = gap_of_drops(order, distance, way, ratio)
            print(f"  ratio {ratio}, order {order}, {distance}, {way}: ", end="")
            print(f"{told:.3f}; {at_nodes:.0e}, {mean:.0e}", flush=True)


KINDS = parki.RigidSurfaces, parki.FirstKind
WHAT = ("layers", "arrays", "ellipsoid", "gaps", "drops", "suspension")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="*", choices=[*WHAT, []], help="default: all but the last")
    parser.add_argument("--bodies", type=int, default=216)
    parser.add_argument("--order", type=int, default=6)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--accuracy", type=float, default=1e-4)
    parser.add_argument("--rtol", type=float, default=1e-4)
    parser.add_argument("--space", default="CPU", help="where the suspension is: CPU, Cuda, ...")
    parser.add_argument("--axes", type=float, nargs=3, default=(0.42, 0.33, 0.28))
    given = parser.parse_args()
    report(given.what or list(WHAT[:5]))
    if "suspension" in given.what:
        how = {"tolerance": given.tolerance, "accuracy": given.accuracy}
        suspension(given.bodies, given.order, how, given.rtol, given.axes, given.space)


if __name__ == "__main__":
    main()
