"""Draw energy and forces of charges while their box strains and points cross cells.

    python scripts/steps.py --steps 200 --output docs/images/steps.png

A plan follows a box that swells by a fifth, and one that shears by 0.4, while all points drift.
Where its cut-off or its grid changes, errors jump. The script prints these jumps and the bound by
the tolerance, and exits with 1 if one is larger.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import parki  # noqa: E402

COUNT, TOLERANCE, DRIFT = 200, 1e-4, np.array([[0.1], [-0.2], [0.15]])
BOXES = {
    "isotropic": lambda strain: (0.9 + 0.2 * strain) * np.eye(3),
    "shear": lambda strain: parki.lattice(1.0, 1.1, 0.9, xy=0.4 * strain),
}


class Walk(NamedTuple):
    """Errors along the steps of a strain, and what they may be.

    Attributes
    ----------
    energy, forces : ndarray
        Error of the energy at each step, and the rms over charges of the change of the forces'
        error from each step to the next.
    changes : ndarray of bool
        Whether the plan has another cut-off or grid at a step than before.
    bounds : tuple of 2 floats
        The promise, of the energy as if errors of potentials had random signs, and of the forces.
    """

    energy: np.ndarray
    forces: np.ndarray
    changes: np.ndarray
    bounds: tuple[float, float]


def walk(kind: str, steps: int) -> Walk:
    """Take a plan through all strains, next to sums of a much smaller tolerance."""
    rng = np.random.default_rng(0)
    fractions, charges = rng.random((3, COUNT)), np.tile([1.0, -1.0], COUNT // 2)
    plan, known, energies, errors, changes = None, None, [], [], []
    for strain in np.linspace(0, 1, steps):
        box = BOXES[kind](strain)
        points = box.T @ fractions + DRIFT * strain
        if plan is None:
            how = {"periodicity": 3, "box": box, "tolerance": TOLERANCE, "want": ("u", "grad_u")}
            plan = parki.Plan("laplace", points, points, **how)
        else:
            plan.update_points(points, points, box=box)
        potentials, slopes = plan(charges)
        exact = parki.energy(points, charges, rows=False, periodicity=3, box=box, tolerance=1e-10)
        energies.append(0.5 * charges @ potentials - exact.energy)
        errors.append(-charges * slopes - exact.forces)
        before, known = known, (plan.parameters.cutoff, *np.rint(1 / plan.parameters.steps))
        changes.append(before is not None and known != before)
    moved = np.sqrt((np.diff(errors, axis=0) ** 2).sum(axis=1).mean(axis=1))
    potential, force = plan.promise(charges)
    bounds = 0.5 * np.linalg.norm(charges) * potential, force
    return Walk(np.array(energies), moved, np.array(changes), bounds)


def draw(walks: dict[str, Walk], path: Path) -> None:
    """Draw errors of energies, and how forces jump, over the strain."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(2, len(walks), figsize=(9, 5), sharex=True, layout="constrained")
    for column, (kind, found) in zip(panels.T, walks.items(), strict=True):
        strain, (energy, force) = np.linspace(0, 1, found.energy.size), found.bounds
        for axes, at, values, bound, name in (
            (column[0], strain, abs(found.energy), energy, "error of the energy"),
            (column[1], strain[1:], found.forces, force, "step of the forces' error, rms"),
        ):
            for place in strain[found.changes]:
                axes.axvline(place, color="#cccccc", linewidth=0.8)
            axes.semilogy(at, values, color="#0072b2")
            axes.axhline(bound, color="#d55e00", linestyle="--")
            axes.set_ylabel(name)
        column[0].set_title(kind)
        column[1].set_xlabel("part of the strain")
    figure.savefig(path, dpi=120)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(words)
    walks = {kind: walk(kind, arguments.steps) for kind in BOXES}
    worst = 0.0
    for kind, found in walks.items():
        jumps = abs(np.diff(found.energy)).max(), found.forces.max()
        parts = [jump / bound for jump, bound in zip(jumps, found.bounds, strict=True)]
        worst = max(worst, *parts)
        print(
            f"{kind}: {found.changes.sum()} changes in {arguments.steps} steps; largest step of "
            f"the energy's error {jumps[0]:.1e}, {parts[0]:.2f} of the bound; of the forces' "
            f"{jumps[1]:.1e}, {parts[1]:.2f} of the bound"
        )
    if arguments.output:
        draw(walks, arguments.output)
    return int(worst > 1)


if __name__ == "__main__":
    sys.exit(main())
