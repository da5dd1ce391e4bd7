"""A capsule in shear: fluid inside of an elastic membrane, whose energy pulls at the fluid.

    python examples/capsule.py [--capillaries 0.02 0.15 0.3] [--order 8]

The membrane is neo-Hookean and round at rest. It stretches by the ratios of its metric to the one
at rest, and the forces at its nodes are the derivatives of its energy by their places. Both fluids
have the same viscosity, so that the velocity is the single layer of these forces. The unit of
length is the radius, and the unit of time viscosity x radius / modulus: the rate of the shear is
the capillary number Ca.

D. Barthes-Biesel, J. M. Rallison, Journal of Fluid Mechanics 113, 251-267 (1981): D = 25/12 Ca.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial.legendre import legder, leggauss, legval

import parki

INK, PAPER, COLOURS = "#1d1b2e", "#fbfaf8", ("#2f5d8c", "#c2452d", "#2e7d5b")


class Membrane:
    """A neo-Hookean membrane over the unit sphere, by spherical harmonics up to an order."""

    def __init__(self, order: int) -> None:
        self.rest = y = parki.Surface.directions(order)
        self.weights = np.repeat(leggauss(order + 1)[1], 2 * order + 2) * np.pi / (order + 1)
        # The slope of sum_l (2 l + 1) / (4 pi) P_l(y.z) along two tangents at y.
        series = (2 * np.arange(order + 1) + 1) / (4 * np.pi)
        across = np.cross(y, np.eye(3)[np.abs(y).argmin(axis=0)].T, axis=0)
        across /= np.linalg.norm(across, axis=0)
        slope = legval(y.T @ y, legder(series)) * self.weights
        tangents = across, np.cross(y, across, axis=0)
        self.slopes = np.stack([slope * (each.T @ y) for each in tangents])  # (2, n, n)

    def forces(self, x: np.ndarray) -> np.ndarray:
        """Return forces on the nodes x, shape (3, n).

        The energy of an area at rest is (I1 - 1 + 1 / (I2 + 1)) / 2 with I1 = |a|^2 + |b|^2 - 2
        and I2 + 1 = |a|^2 |b|^2 - (a.b)^2, for the tangents a and b that were unit vectors.
        """
        a, b = (x @ slope.T for slope in self.slopes)
        aa, ab, bb = (a**2).sum(axis=0), (a * b).sum(axis=0), (b**2).sum(axis=0)
        change = -1 / (aa * bb - ab**2) ** 2
        pull = a + change * (bb * a - ab * b), b + change * (aa * b - ab * a)
        return -sum(
            (each * self.weights) @ slope for each, slope in zip(pull, self.slopes, strict=True)
        )


def deformation(surface: Any) -> float:
    """Return (L - B) / (L + B) for the longest and the shortest axis of the same moments."""
    x = surface.nodes - surface.integrals(surface.nodes) / surface.integrals(1 + 0 * surface.areas)
    moments = (x * surface.areas * (x * surface.normals).sum(axis=0)) @ x.T
    short, _, long = np.sqrt(np.linalg.eigvalsh(moments))
    return float((long - short) / (long + short))


def shear(capillary: float, order: int, step: float, strain: float) -> tuple[Any, list[float]]:
    """Return the surface of a capsule after a strain, and deformations at all steps."""
    membrane, layer, found = Membrane(order), None, []
    x = membrane.rest
    for _ in parki.Progress(f"Ca {capillary:g}").over(range(round(strain / (capillary * step)))):
        middle = x
        for part in (0.5, 1.0):
            surface = parki.Surface.harmonics(middle)
            if layer is None:
                options = {"periodicity": 0, "tolerance": 1e-5, "accuracy": 1e-4}
                layer = parki.LayerPlan("stokes_sl", surface, **options)
            else:
                layer.update(surface)
            u = layer(membrane.forces(middle) / surface.areas) / (8 * np.pi)
            u[0] += capillary * middle[1]
            middle = x + part * step * u
        surface = parki.Surface.harmonics(middle)
        x = surface.nodes  # without what harmonics lack
        found.append(deformation(surface))
    return surface, found


def draw(path: Path, shapes: dict[float, Any], records: dict[float, tuple[Any, Any]]) -> None:
    """Draw deformations over the strain, and outlines in the plane of the shear."""
    import matplotlib.pyplot as plt

    style = {"figure.facecolor": PAPER, "axes.facecolor": PAPER, "text.color": INK}
    with plt.style.context(["default", style]):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for colour, (capillary, (strains, found)) in zip(COLOURS, records.items(), strict=False):
            left.plot(strains, found, color=colour, label=f"Ca = {capillary:g}")
            x = parki.Surface.harmonics(shapes[capillary].nodes, finer=6).finer()[0]
            rings = x.reshape(3, round((x.shape[1] / 2) ** 0.5), -1)
            middle = rings.shape[1] // 2
            flat = rings[:2, middle - 1 : middle + 1].mean(axis=1)
            right.plot(*np.append(flat, flat[:, :1], axis=1), color=colour)
        left.set(xlabel="strain", ylabel="deformation (L − B) / (L + B)", ylim=(0, None))
        left.legend(frameon=False)
        right.set(xlabel="along the flow", ylabel="across it", aspect="equal")
        right.set(xlim=(-1.9, 1.9), ylim=(-1.15, 1.15))
        figure.savefig(path, dpi=150)
        plt.close(figure)


def main(words: list[str] | None = None) -> dict[float, float]:
    """Print and return the last deformations, and draw them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--capillaries", type=float, nargs="+", default=(0.02, 0.15, 0.3))
    parser.add_argument("--order", type=int, default=8, help="degree of the harmonics")
    parser.add_argument("--step", type=float, default=0.2)
    parser.add_argument("--plot", type=Path, default=Path("capsule.png"))
    given = parser.parse_args(words)
    shapes, records = {}, {}
    for capillary in given.capillaries:
        strain = min(4.0, 25 * capillary)
        shapes[capillary], found = shear(capillary, given.order, given.step, strain)
        records[capillary] = strain / len(found) * np.arange(1, len(found) + 1), found
        theory = 25 / 12 * capillary
        print(f"Ca {capillary:g}: D {found[-1]:.4f}, for small Ca {theory:.4f}", flush=True)
    try:
        draw(given.plot, shapes, records)
    except ImportError:
        print("matplotlib is not installed, so there is no picture")
    return {capillary: found[-1] for capillary, (_, found) in records.items()}


if __name__ == "__main__":
    main()
