"""Count the products that rigid bodies take, and write the table of docs/bodies.md.

    python scripts/bodies.py            # all rows, into the page: some minutes on two cores
    python scripts/bodies.py 20         # rows of 20 bodies, printed

Bodies are spheres of 42 blobs at random places, with gaps of at least 0.05 radii, turned at random,
under random forces. The tolerance is 1e-4.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

import parki

PAGE = Path(__file__).parents[1] / "docs/bodies.md"
ROWS = [(20, 0.1), (2000, 0.1), (20, 0.25), (2000, 0.25)]
ACCURACIES = (1e-3, 1e-6)
APART = 2.05
MARK = re.compile(r"(<!-- products:.*?-->\n\n).*?(\n<!-- end of products -->)", re.S)
HEAD = "| bodies | volume fraction | to 1e-3 | to 1e-6 |\n| --- | --- | --- | --- |\n"


def places(count: int, edge: float, rng: np.random.Generator) -> np.ndarray:
    """Return centres (3, count) of unit spheres in a periodic cube, put there one by one."""
    found = np.zeros((0, 3))
    while len(found) < count:
        new = edge * rng.random((max(count, 200), 3))
        if len(found):
            new = new[cKDTree(found, boxsize=edge).query(new)[0] > APART]
        first: list[np.ndarray] = []
        for one in new:
            apart = np.array(first) - one if first else np.full((1, 3), edge / 2)
            if (((apart + edge / 2) % edge - edge / 2) ** 2).sum(axis=1).min() > APART**2:
                first.append(one)
        found = np.concatenate([found, *([first] if first else [])])
    return found[:count].T


def products(count: int, fraction: float, space: Any = None) -> list[int]:
    """Return the products to each accuracy, in an execution space; default: the CPU."""
    rng, edge = np.random.default_rng(count), (4 * np.pi * count / (3 * fraction)) ** (1 / 3)
    send = np.asarray if space is None else space.array_module.asarray
    bodies = parki.RigidBodies(
        parki.BodyShape.sphere(1.0, 42),
        send(places(count, edge, rng)),
        send(rng.standard_normal((4, count))),
        periodicity=3,
        box=3 * [edge],
        tolerance=1e-4,
        execution_space=space,
    )
    forces, found = send(rng.standard_normal((3, count))), []
    bodies.solve(forces)  # compiles kernels
    for accuracy in ACCURACIES:
        bodies.accuracy = accuracy
        begin = time.perf_counter()
        motion = bodies.solve(forces)
        found.append(motion.products)
        seconds = time.perf_counter() - begin
        print(f"{count} bodies, {fraction}, to {accuracy:g}: {found[-1]} in {seconds:.2f} s")
    return found


def table(rows: list[tuple[int, float]]) -> str:
    """Return rows of the page's table."""
    cells = ([count, fraction, *products(count, fraction)] for count, fraction in rows)
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in cells)


def main(words: list[str]) -> str:
    found = table([row for row in ROWS if not words or str(row[0]) in words])
    if not words:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(MARK.sub(lambda m: m[1] + HEAD + found + m[2], text), encoding="utf-8")
    return found


if __name__ == "__main__":
    print(HEAD + main(sys.argv[1:]))
