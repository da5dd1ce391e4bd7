"""What a plan is and what was chosen for it, in words and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.choice.parameters import select
from parki.ewald.pipeline.protocol import Pipeline
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.split.window import default_degree
from parki.ewald.sums import SUMS
from parki.ewald.task import Task
from parki.memory import in_words

NAMES = {"hasimoto": "Hasimoto's split", "prolate": "the prolate split"}


def headline(task: Task, points: SurveyedCloud) -> str:
    """Return the sum, its periodic axes, the numbers of points, dtype and space in one line."""
    head = (
        f"{task.kernel}, {task.options.periods}, {_counts(points)}, "
        f"{_dtype(task, points)}, {task.space}"
    )
    if task.names != ("u",):
        head += f", want {', '.join(task.names)}"
    return head


def facts(task: Task, points: SurveyedCloud, pipeline: Pipeline, seconds: float) -> dict[str, str]:
    """Return the facts of the plan and what was chosen, by name; cheap."""
    lines = {
        "sum": f"{task.kernel}, {task.options.periods}",
        "wanted": ", ".join(task.names),
        "points": _counts(points),
        "box": _box(points),
        "arrays": f"{_dtype(task, points)}, {task.space}",
        "tolerance": f"{task.options.tolerance:g}{_densities(task, points)}",
    }
    setup = pipeline.setup
    if setup is not None:
        p, mesh, length = setup.parameters, setup.mesh, setup.solver_box.length
        lines["near field"] = f"r_c = {p.cutoff * length:.4g}, P2P by {p.p2p}"
        lines["far field"] = (
            f"grid {_grid(setup)}, "
            f"window of {p.points} points, P2G by {mesh.spread}, G2P by {pipeline.gathering}"
        )
        if pipeline.memory is not None:
            lines["memory"] = f"{in_words(pipeline.memory.peak)} at most, predicted"
        lines["seconds"] = f"plan {seconds:.3g}, predicted of a call " + (f"{p.total:.3g}")
    return lines


def _box(points: SurveyedCloud) -> str:
    """Return the edge lengths of the box; of a tilted one its extents, and the tilts, turned."""
    lattice = points.lattice
    lengths = " x ".join(f"{length:.4g}" for length in lattice.to_user(lattice.sides))
    if lattice.tilts is None or not any(lattice.tilts):
        return lengths
    return f"{lengths}, tilts {', '.join(f'{each:.4g}' for each in lattice.tilts)}"


def _dtype(task: Task, points: SurveyedCloud) -> str:
    """Return the dtype of the arrays, and the precision of the arithmetic if it differs."""
    return f"{points.arrays['src'].dtype}{' in mixed precision' if task.mixed else ''}"


def _counts(points: SurveyedCloud) -> str:
    """Return how many points there are."""
    (targets, sources), systems = points.totals, points.systems
    of = f" of {systems.count} systems" if systems else ""
    return f"{sources} sources, {targets} targets{of}"


def _densities(task: Task, points: SurveyedCloud) -> str:
    """Return which densities the tolerance is for, where it is not for random ones."""
    if task.options.densities == "random" or not points.sources:
        return ""
    return f" for any density, {points.tolerance:.1e} for random ones"


def _grid(setup: Setup) -> str:
    """Return the points of the grid along each axis."""
    return " x ".join(map(str, setup.grid))


def _lists(pipeline: Pipeline) -> Iterator[str]:
    """Yield the size of the lists of pairs, and whether they are kept, if there are any."""
    lists = pipeline.lists
    if lists and lists.size is not None:
        size = in_words(lists.size)
        yield f"{size}, {'' if lists.kept else 'not '}kept"


def _instead(setup: Setup) -> Iterator[str]:
    """Yield how the other split compares, if the plan could take it with the same options."""
    problem = setup.parameters.problem
    other = "prolate" if problem.split == "hasimoto" else "hasimoto"
    if setup.near.evaluator:  # only Hasimoto's split can
        return
    try:
        other_choice = select(replace(problem, split=other))
    except ParkiValueError:
        yield f"{NAMES[other]}, which does not reach the tolerance"
    else:
        ratio = other_choice.total / setup.parameters.total
        yield f"{NAMES[other]}, predicted to take {ratio:.2f} times as long"


def describe(task: Task, points: SurveyedCloud, pipeline: Pipeline) -> str:
    """Return a plan's parameters with their reasons, and how the other split compares."""
    head = headline(task, points)
    setup = pipeline.setup
    if setup is None:
        return head
    p, mesh, length = setup.parameters, setup.mesh, setup.solver_box.length
    pads, kind = mesh.padding, SUMS[task.kernel]
    evaluation = f"polynomials of degree {p.degree}"
    if setup.near.evaluator:
        evaluation = setup.near.evaluator.describe()
    of_pairs = (
        f"r_c = {p.cutoff * length:.4g} "
        f"({points.counts[1] * p.cutoff**3:.0f} sources per r_c^3), "
        f"{p.split.scaled(length).name}, {evaluation}, P2P by {p.p2p}"
    )
    if p.core is not None and p.core.everywhere:
        of_pairs = f"none, the grid has all of the blobs, {p.split.scaled(length).name}"
    lines = [
        head,
        f"  tolerance {task.options.tolerance:g}{_densities(task, points)}; "
        "predicted error over tolerance: " + ", ".join(f"{k} {v:.2f}" for k, v in p.errors.items()),
        f"  near field: {of_pairs}",
        f"  far field: grid {_grid(setup)}, "
        f"{kind.components * kind.symbol.grids} components, window of {p.points} points "
        f"(beta = {p.beta:.1f}, degree {default_degree(p.points)}), "
        f"P2G by {mesh.spread}, G2P by {pipeline.gathering}",
    ]
    if not pads.whole:
        order = np.argsort(setup.solver_box.lattice.axes[1:]) + 1
        levels = [(b - a, *(level.lengths[n] for n in order)) for a, b, level in pads.spans()]
        sizes = ", ".join(f"{y} x {z} ({n})" for n, y, z in levels)
        lines.append(f"  free directions: modes padded to {sizes}")
    lines.append(
        "  predicted seconds: "
        + ", ".join(f"{k} {v:.3g}" for k, v in p.seconds.items())
        + f" ({p.problem.machine.name})"
    )
    if pipeline.memory is not None:
        lines.append(f"  predicted memory: {pipeline.memory}")
    lines += [f"  lists of pairs: {words}" for words in _lists(pipeline)]
    lines += [f"  instead: {words}" for words in _instead(setup)]
    return "\n".join(lines)
