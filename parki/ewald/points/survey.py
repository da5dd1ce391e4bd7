"""`survey`: what each rank needs to know about the points of all, and the box that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.geometry.systems import Systems
from parki.ewald.lattice import Lattice
from parki.ewald.points.cloud import Cloud, SurveyedCloud
from parki.ewald.points.extent import outgrown, resolve, warn_of_images
from parki.ewald.ranks import Ranks
from parki.ewald.task import Task


def survey(ranks: Ranks, task: Task, cloud: Cloud, lattice: Lattice | None) -> SurveyedCloud:
    """Return a cloud with what follows from the points of all ranks; warn where images matter.

    Parameters
    ----------
    ranks : Ranks
    task : Task
        Of this rank.
    cloud : Cloud
        Of this rank, whose values were looked at.
    lattice : Lattice or None
        A plan's box, which stays while it holds the points.

    Raises
    ------
    ParkiValueError
        If ranks have different tasks, or there is no box for the points.
    """
    totals, before = (cloud.targets, cloud.sources), (0, 0)
    same, extents = cloud.same, cloud.extents
    copies = cloud.images or np.array_equal(extents[:2], extents[2:])
    source_extents = extents[-2:] if cloud.sources else extents[:0]
    if not ranks.serial:
        told = ranks.allgather((same, copies, task.told_to_ranks, totals, extents, source_extents))
        sames, alike, tasks, numbers, ends, source_ends = zip(*told, strict=True)
        _refuse_other_tasks(tasks)
        before, totals = (
            (sum(n for n, _ in part), sum(n for _, n in part))
            for part in (numbers[: ranks.rank], numbers)
        )
        same, copies = all(sames), all(alike)
        extents, source_extents = np.concatenate(ends), np.concatenate(source_ends)
    if not all(totals):  # an empty plan keeps no box
        lattice = None
    size, options = task.sum.pair.size, task.options
    box = resolve(options, extents, lattice, size)
    corners = None if lattice is None else outgrown(options, box, extents)
    if corners is not None:
        box = resolve(options, corners, size=size)
    if task.in_boxes:
        box = box.around(cast(Systems, cloud.systems).boxes)
    surveyed = SurveyedCloud(
        arrays=cloud.arrays,
        space=cloud.space,
        options=options,
        systems=cloud.systems,
        labels=cloud.labels,
        extents=cloud.extents,
        borrowed=cloud.borrowed,
        images=cloud.images,
        totals=totals,
        before=before,
        all_same=same,
        all_extents=extents,
        source_extents=source_extents,
        copies=copies,
        rank=ranks.rank,
        lattice=box,
        tolerance=task.tolerance(cloud.most_sources(totals[1])),
    )
    warn_of_images(task, surveyed, ranks.sum)
    return surveyed


def _refuse_other_tasks(told: Sequence[dict[str, Any]]) -> None:
    """Raise if ranks ask for different sums, which each of them told."""
    for rank, other in enumerate(told):
        for name, value in told[0].items():
            if other[name] != value:
                raise ParkiValueError(
                    f"{name} is {other[name]} on rank {rank}, but {value} on rank 0; "
                    "all ranks take part in one sum"
                )
