"""The kernels of P2P: which there are for a task, and their constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.ewald.near.near_field import NearField, cells_kernel, own_constants
from parki.ewald.near.p2p_lists import FORGETS, TEAM
from parki.ewald.near.sizes import (
    Tile,
    copied_at_once,
    staged_at_once,
    tile_of_slopes,
)
from parki.ewald.sums import SUMS
from parki.ewald.sums.record import Interaction
from parki.ewald.task import Task
from parki.interchange import real_name
from parki.runtime import Kernel, load

# Sources that a lane of p2p_tile searches before it computes the ones in reach, by the bytes of a
# number. Longer lists are more equal, but leave less of a multiprocessor's memory to its cache.
CANDIDATES = {8: 64, 4: 32}


def stages(near: NearField) -> bool:
    """Return whether sources are staged for all targets of a tile, as on a CPU."""
    return near.method == "staged" and not near.task.space.on_device


def together(near: NearField) -> bool:
    """Return whether the kernel of derivatives sums the potential, too."""
    want, one_kernel = near.task.want, near.method == "tile" or stages(near)
    return one_kernel and not near.task.slopes and "u" in want and want != ("u",)


def near_kernels(near: NearField, tile: Tile) -> dict[str, Kernel]:
    """Return the P2P kernels for the wanted results: of the potential, and of its derivatives."""
    kernels, values, task = {}, together(near), near.task
    want = task.want
    if task.slopes or ("u" in want and not values):
        if near.launch is not None:
            kernels["u"] = cells_kernel(near, near.launch)
        else:
            kernels["u"] = near_kernel(near, tile)
    if want != ("u",) and not task.slopes:
        kernels["derivatives"] = slopes_kernel(near, tile)
    return kernels


def derived_sum(task: Task, moved: bool) -> Interaction:
    """Return the sum of which a kernel of derivatives has the pair function.

    If charges are ``moved``, changes of their sum are sums of dipoles.
    """
    return SUMS[task.sum.dipoles] if moved else task.sum


def slopes_kernel(
    near: NearField,
    tile: Tile,
    lists: int = FORGETS,
    _: int = 1,
    *,
    strain: bool = False,
    moved: bool = False,
) -> Kernel:
    """Return the kernel of derivatives, tile or staged.

    With ``strain``, or of charges that are ``moved``, it is one of all that is wanted.
    """
    task = near.task
    want, kind = task.want, derived_sum(task, moved)
    values = "u" in want if strain or moved else together(near)
    names = kind.derivative_tables(want)
    shape = near.rows(kind.derivative_tables(want, values)).shape
    if stages(near):
        file, workunit, team, vector = "p2p_derivatives", "p2p_staged_derivatives", tile.targets, 1
        constants = dict[str, Any](_staging(task, task.sum.p2p()))
    else:
        tile = tile_of_slopes(near.method, tile)
        file = workunit = "p2p_tile"
        team, vector = TEAM, tile.targets * tile.lanes
        constants = dict(_by_lists(task, tile, lists), DERIVATIVES=True)
    if strain:
        constants["STRAIN"] = True
    return load(
        file,
        workunit,
        task.space,
        constants | own_constants(task) | kind.p2p(derivatives=names, moved=moved),
        executor=task.executor,
        team_size=team,
        vector_length=vector,
        tables={"radial": shape},
        REAL=real_name(task.dtype),
        DEGREE=near.degree,
        PERIODIC=task.periodicity,
        PRESSURE="p" in want,
        GRADIENT="grad_u" in want,
        TENSORS=task.tensors,
        VALUES=values,
        TILE=tile.targets,
    )


def near_kernel(near: NearField, tile: Tile, lists: int = FORGETS, many: int = 1) -> Kernel:
    """Return the P2P kernel of the potential, tile or staged, for ``many`` densities at a time.

    ``lists`` says what the tile kernel does with lists: see `parki.ewald.near.p2p_lists`.
    """
    task, constants = near.task, dict(near.constants, MANY=many, TILE=tile.targets)
    tiles = near.method == "tile"
    if tiles:
        constants.update(_by_lists(task, tile, lists))
    else:
        constants.update(_staging(task, constants, many))
    return load(
        "p2p_tile" if tiles else "p2p",
        "p2p_tile" if tiles else "p2p_staged",
        task.space,
        constants,
        executor=task.executor,
        team_size=TEAM if tiles else tile.targets,
        vector_length=tile.targets * tile.lanes if tiles else 1,
        tables={"radial": near.table.shape},
    )


def _by_lists(task: Task, tile: Tile, lists: int) -> dict[str, int]:
    """Return the constants of p2p_tile: its lanes, and what it does with lists."""
    candidates, listed = (
        CANDIDATES[task.dtype.itemsize],
        lists != FORGETS,
    )  # these are in other memory
    return {
        "TILTED": task.tilted,
        "LANES": tile.lanes,
        "TILES": TEAM,
        "CANDIDATES": tile.candidates if listed else candidates,
        "LIST": 1 if listed else candidates,
        "LISTS": lists,
    }


def _staging(task: Task, kernel: dict[str, Any], many: int = 1) -> dict[str, int]:
    """Return how many sources are staged at a time, and copied, by constants of the kernel."""
    rows = 3 + task.periodicity + many * kernel["CHARGES"] + 3 * kernel["NORMALS"]
    size = rows * np.dtype(task.dtype).itemsize
    return {
        "CHUNK": staged_at_once(task.space, size),
        "LANES": copied_at_once(task.space, task.dtype),
    }
