"""`sum_once`: sums of one density, which take what the last such sum left, and leave it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.ewald.pipeline.invalid_values import InvalidValues
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.pipeline.protocol import Pipeline, unwatched
from parki.ewald.points import Cloud, check_outputs, take_cloud
from parki.ewald.ranks import Ranks
from parki.interchange import as_given
from parki.settings import read_once
from parki.typing import AnyArray, OfPoints


def place_and_sum(
    pipeline: Pipeline,
    kernel: Any,
    cloud: Cloud,
    dens: AnyArray,
    want: str | tuple[str, ...] = "u",
    *,
    tensors: AnyArray = None,
    strained: bool = False,
    motion: NDArray[np.float64] | None = None,
    weights: AnyArray = None,
) -> tuple[EwaldSum, Any]:
    """Return a sum that is placed for one density, and what is wanted of that: see `EwaldSum`.

    The density is checked along with the rest, before any work; unless the cloud has extents, as
    all values were looked at then. All ranks are in one call.
    """
    placed = EwaldSum(pipeline, kernel, cloud, want, tensors=tensors, one_shot=True)
    looked = placed.pending is None and cloud.extents is None
    values = placed.density(dens, placed.density_shape, looked)
    with placed.access():
        late, invalid = placed.pending is not None, None
        placed.place()
        task, pipeline = placed.task, placed.pipeline
        if late and values.size:
            invalid = pipeline.counts or InvalidValues(task.space, placed.dtype, task.mixed)
            invalid.count(values)
            pipeline.counts = invalid
        several = values if values.ndim > 2 else values[None]
        results, rows, many = None, dict[str, AnyArray](), len(several)
        if weights is None:
            shapes = placed.shapes(values.shape[:-2])
            results, rows = check_outputs(None, placed.want, shapes, values, task.space)
        if strained or weights is not None:
            count = placed.systems.count if placed.systems else 1
            rows["strain"] = task.xp.empty((many, 9, count))
        placed.overwrite(rows, several, unwatched, motion, weights)
        if invalid is not None:
            invalid.check(values, placed.density_shape)
        inside, suited = placed.validate_pending()
        seen = placed.committed(inside=inside, suited=suited)
        if seen.pipeline is not placed.pipeline:
            seen.overwrite(rows, several, unwatched, motion, weights)
        if weights is not None:
            return seen, rows["strain"]
        summed = as_given(results, dens)
        return seen, (summed, rows["strain"]) if strained else summed


def sum_once(
    kernel: Any,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray,
    options: EwaldOptions,
    *,
    want: str | tuple[str, ...] = "u",
    systems: Systems | OfPoints | None = None,
    exclude: Labels | OfPoints | None = None,
    tensors: AnyArray = None,
    strained: bool = False,
    motion: NDArray[np.float64] | None = None,
    weights: AnyArray = None,
    extents: NDArray[np.float64] | None = None,
    ranks: Ranks = SERIAL,
) -> Any:
    """Return the sum of one density, by what the last such sum left; leave it for the next.

    Takes what `parki.stokes_sl` and `EwaldSum` take. If ``strained``, return also what dens.u gains
    by strains of points and box, shape (k, 9, systems): see `Stages.run`. With a ``motion``, shape
    (3, 3), return how results change along the strain ``dx = motion x``: see `Stages.run_changed`.
    With ``weights`` of "u", shape (k, rows, Nt), of one system, return nothing but what these times
    "u" gain by strains, shape (k, 9, 1).
    With ``extents``, between which the points are, all values were looked at: see `Cloud`.
    """
    with ranks.collective("sum"), read_once():
        cloud = take_cloud(
            kernel,
            trg,
            src,
            norms,
            options,
            systems=systems,
            exclude=exclude,
            borrowed=False,  # it is summed at once
        )
        if extents is not None:
            cloud = replace(cloud, extents=extents)
        placed, result = place_and_sum(
            ranks.engine(),
            kernel,
            cloud,
            dens,
            want,
            tensors=tensors,
            strained=strained,
            motion=motion,
            weights=weights,
        )
    placed.cache_setup()
    return result
