"""Draw the error of plain sums near a sphere, and write the table of docs/boundary_integrals.md.

python scripts/draw_distance.py [FILE]    # default docs/images/distance.png
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

import parki

Array = NDArray[np.float64]
DOCS = Path(__file__).parents[1] / "docs"
FILE, PAGE = DOCS / "images" / "distance.png", DOCS / "boundary_integrals.md"
ORDERS, SHOWN = (8, 16, 32), (0.5, 1.0, 2.0, 4.0)
EXACT = 200  # order of the nodes that give exact values at the distances drawn
OPTIONS = parki.EwaldOptions(periodicity=0, tolerance=1e-12)
SUMS = {
    "velocity of a single layer": ("stokes_sl", "u"),
    "traction of a single layer": ("stokes_sl", "stress"),
    "velocity of a double layer": ("stokes_dl", "u"),
}
MARK = re.compile(r"(<!-- distance:.*?-->\n\n).*?(\n<!-- end of distance -->)", re.S)
COLOURS = ("#9fb8c9", "#1f6f8b", "#12303d")


def sphere(order: int) -> tuple[Array, Array]:
    """Return nodes (3, n) and weights of the unit sphere."""
    height, weight = leggauss(order + 1)
    around = 2 * order + 2
    z, ring = np.repeat(height, around), np.repeat(np.sqrt(1 - height**2), around)
    angle = np.tile(2 * np.pi * np.arange(around) / around, order + 1)
    nodes = np.stack([ring * np.cos(angle), ring * np.sin(angle), z])
    return nodes, np.repeat(weight, around) * 2 * np.pi / around


def density(nodes: Array) -> Array:
    """Return a smooth density at points of the sphere."""
    return np.stack([nodes[1] * nodes[2], 1 + nodes[0], nodes[2] ** 2])


def values(name: str, targets: Array, normals: Array, order: int) -> Array:
    """Return a sum over the nodes of a sphere, over 8 pi, at targets."""
    kernel, want = SUMS[name]
    nodes, weights = sphere(order)
    norms = nodes if kernel == "stokes_dl" else None
    found = parki.Plan(kernel, targets, nodes, norms, OPTIONS, want=want)(density(nodes) * weights)
    return (np.einsum("ijx,jx->ix", found, normals) if want == "stress" else found) / (8 * np.pi)


def errors(name: str, order: int, distances: tuple[float, ...]) -> list[float]:
    """Return errors relative to the density, at distances in steps of the nodes."""
    nodes, weights = sphere(order)
    step = np.sqrt(weights.mean())
    normals = nodes[:, :: max(1, len(weights) // 150)]
    targets = np.concatenate([(1 + d * step) * normals for d in distances], axis=1)
    normals = np.tile(normals, len(distances))
    off = values(name, targets, normals, order) - values(name, targets, normals, EXACT)
    squares = np.mean(off.reshape(3, len(distances), -1) ** 2, axis=(0, 2))
    return np.sqrt(squares / np.mean(density(nodes) ** 2)).tolist()


def rows(orders: tuple[int, ...] = ORDERS) -> list[str]:
    """Return the rows of the page's table."""
    return [
        f"| {name} | {2 * (order + 1) ** 2} | "
        + " | ".join(f"{error:.0e}" for error in errors(name, order, SHOWN))
        + " |"
        for name in SUMS
        for order in orders
    ]


def main(file: Path) -> None:
    """Draw, and write the table into the page."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    distances = tuple(np.linspace(0.5, 4, 15))
    for panel, name in zip(panels, SUMS, strict=True):
        for order, colour in zip(ORDERS, COLOURS, strict=True):
            label = f"{2 * (order + 1) ** 2} nodes"
            panel.semilogy(distances, errors(name, order, distances), color=colour, label=label)
        panel.set(title=name, xlabel="distance from the surface / h")
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("error / density")
    panels[0].legend(frameon=False)
    figure.savefig(file, dpi=130)
    head = "| sum | nodes | d = h/2 | d = h | d = 2h | d = 4h |\n" + "| --- " * 6 + "|\n"
    text = PAGE.read_text(encoding="utf-8")
    table = head + "\n".join(rows()) + "\n"
    PAGE.write_text(MARK.sub(lambda found: found[1] + table + found[2], text), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
