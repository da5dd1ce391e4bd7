"""Which points are near each other, images included: a search over cells by kernels.

Points are sorted by cells along the vectors of the box. Two launches find the pairs, on a device as
on a CPU: one counts them, and one writes them down.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from parki.cells.sorted_points import SORTED_AT_ONCE, SORTING, sort_on_device
from parki.core import EwaldOptions
from parki.errors import ParkiValueError
from parki.interchange import to_host
from parki.runtime import ExecutionSpace, Kernel, load, load_all
from parki.settings import MOST_THREADS
from parki.typing import AnyArray

MARGIN = 1 + 1e-9  # of cells, so that rounding takes no pair over two of them
MOST = 2**31 - 1  # pairs, images and rows, which sparse matrices count in 32 bits
FEW = 256  # points, whose pairs take less time than to wake another thread


def kernel(name: str, space: ExecutionSpace, writes: int = 0, spheres: int = 0) -> Kernel:
    """Return a kernel of the search, which is in double precision."""
    return load("near_pairs", name, space, REAL="double", WRITES=writes, SPHERES=spheres)


def kernels(space: ExecutionSpace, spheres: int) -> list[Kernel]:
    """Return all kernels of a search for pairs of points, or of spheres."""
    find = [kernel("find_pairs", space, writes, spheres) for writes in (0, 1)]
    sorting = load_all("cell_list", SORTING[True], space) if space.on_device else ()
    return [kernel("locate_points", space), *find, *sorting]


def threads(count: int) -> int:
    """Return the most threads that take points, or the pairs of as many."""
    return 1 if count <= FEW else MOST_THREADS


class Found(NamedTuple):
    """Pairs in the order of the targets.

    Attributes
    ----------
    indptr : array, shape (Nt + 1,), int32
        Where the pairs of each target begin, and the last ones end; of spheres None.
    first, second : array, shape (n,), int32
        The larger and the other sphere of each pair; of points ``first`` is None, and ``second``
        has the sources.
    apart : array, shape (3, n)
        From the source to the target; of spheres from the first one to the second one.
    distances : array, shape (n,), or None
    """

    indptr: Any
    first: Any
    second: Any
    apart: Any
    distances: Any


def search(
    space: ExecutionSpace,
    targets: AnyArray,
    sources: AnyArray,
    options: EwaldOptions,
    *,
    reach: float,
    itself: bool = True,
    radii: AnyArray = None,
    largest: float = 0.5,
    refusal: str,
) -> Found:
    """Return all pairs of targets and images of sources that are at most ``reach`` apart.

    Parameters
    ----------
    space : ExecutionSpace
    targets, sources : array, shape (3, N), float64
        At least one each.
    options : EwaldOptions
        Its periodicity and its box count.
    reach : float
    itself : bool
        Whether a source at the target itself is a pair.
    radii : array, shape (N,), float64, optional
        Radii of spheres, which are targets and sources: they are near if they are nearer than
        ``reach`` times the sum of their radii, and each pair counts once.
    largest : float
        The largest radius, for which no device is waited for.
    refusal : str
        Of 2**31 pairs or more.

    Raises
    ------
    ParkiValueError
        If there are 2**31 or more.
    """
    xp, spheres = space.array_module, int(radii is not None)
    count, farthest = targets.shape[1], 2 * reach * largest
    clouds = [targets] if spheres or sources is targets else [targets, sources]
    vectors, periodic = options.vectors, np.array(options.periodic)
    inverse, constant = np.linalg.inv(vectors), space.adapter.constant
    widths = 1 / np.sqrt((inverse**2).sum(axis=0))
    low, extent = np.zeros(3), np.ones(3)
    if not periodic.all():
        with np.errstate(invalid="ignore"):  # sums refuse points that are no numbers
            places = [constant(inverse.T, np.float64) @ points for points in clouds]
        ends = [extreme(place, axis=1) for place in places for extreme in (xp.min, xp.max)]
        ends = np.nan_to_num(to_host(xp.stack(ends)))
        low[~periodic] = ends.min(axis=0)[~periodic]
        highest = np.maximum(ends.max(axis=0) - low, np.finfo(float).tiny)
        extent[~periodic] = highest[~periodic]
    # Cells are somewhat wider than points reach.
    with np.errstate(over="ignore"):
        many = widths * extent / (farthest * MARGIN)
    shape = np.clip(many, 1, 2 * math.ceil(clouds[-1].shape[1] ** (1 / 3))).astype(int)
    over = np.ceil(shape / np.where(periodic, many, shape))
    box = {
        "shape": constant(np.stack([shape, periodic, over]), np.int32),
        "vectors": constant(vectors, np.float64),
    }
    cuts = constant(np.stack([low, shape / extent]), np.float64)
    locate, located = kernel("locate_points", space), []
    for points in clouds:
        inside, cells = xp.empty(points.shape), xp.empty(points.shape, np.int32)
        keys = xp.empty(points.shape[1], np.int32)
        locate(
            points.shape[1],
            threads(points.shape[1]),
            points=xp.ascontiguousarray(points),
            inverse=constant(inverse, np.float64),
            inside=inside,
            cells=cells,
            keys=keys,
            cuts=cuts,
            arguments=box,
        )
        located.append((inside, cells, keys))
    (inside, cells, _), (others, _, keys) = located[0], located[-1]
    # Sources of a cell are compared with each other, as the search does where they are targets.
    if space.on_device and (len(clouds) == 1 or keys.size <= SORTED_AT_ONCE):
        sorting = load_all("cell_list", SORTING[True], space)
        order, _, starts = sort_on_device(space, keys, math.prod(shape), sorting)
    else:
        order = xp.argsort(keys, kind="stable")
        starts = xp.searchsorted(keys[order], xp.arange(math.prod(shape) + 1), side="left")
        order, starts = order.astype(np.int32), starts.astype(np.int32)
    counts = xp.empty(count, np.int32)
    arguments = {
        "targets": inside,
        "sources": others,
        "radii": radii,
        "cells": cells,
        "order": order,
        "starts": starts,
        "reach": reach,
        "itself": int(itself),
        "counts": counts,
        "ends": None,
        **box,
    }
    blank: dict[str, Any] = dict.fromkeys(Found._fields)
    kernel("find_pairs", space, 0, spheres)(count, threads(count), arguments=arguments | blank)
    ends = xp.cumsum(counts, dtype=np.int64)
    total = int(ends[-1])  # for which a device waits
    if total > MOST:
        raise ParkiValueError(refusal)
    pairs = Found(
        None if spheres else xp.zeros(count + 1, np.int32),
        xp.empty(total, np.int32) if spheres else None,
        xp.empty(total, np.int32),
        xp.empty((3, total)),
        None if spheres else xp.empty(total),
    )
    if total:
        find = kernel("find_pairs", space, 1, spheres)
        find(count, threads(count), arguments=arguments | pairs._asdict() | {"ends": ends})
    return pairs
