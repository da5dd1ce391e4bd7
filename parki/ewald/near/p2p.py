"""P2P on the host side: sorts sources and targets for the near field, and launches it.

Takes points as they were given and the radial polynomials; knows nothing of the grid. Points are
not moved into the box, which would round them, and with them the distances of close pairs: free
axes keep their corner, periodic ones are wrapped to -box/2 ... box/2, exactly. The pressure and the
gradient come from a kernel of their own, which walks the same cells. The variants of the
literature, which walk others, are described in `parki.ewald.near.p2p_cells`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parki.arrays import real_name
from parki.cell_list import CellList, runs, with_spare
from parki.ewald.near.p2p_cells import cells_kernel, reach
from parki.ewald.near.p2p_lists import FORGETS, PairLists
from parki.ewald.near.radial import Evaluator
from parki.ewald.near.sizes import Launch, Tile, cells_of, choose_launch, near_tile, resolve
from parki.ewald.split.hasimoto import RadialPolynomials
from parki.ewald.sums import SUMS
from parki.ewald.task import Frame, Task
from parki.runtime import ExecutionSpace, Kernel, load

TEAM = 4  # tiles of a team of p2p_tile
# Sources that a lane of p2p_tile looks at before it computes those in reach, by the bytes of a
# number: longer lists are more alike, and leave less of a multiprocessor's memory to its cache.
LOOKS = {8: 64, 4: 32}
DERIVATIVES_TILE = 32  # on a device; one thread a target
HOST_CHUNK, DEVICE_CHUNK = 256, 64  # sources staged at a time


class Pair(NamedTuple):
    """What the near field takes of a plan's parameters, in solver units.

    Attributes
    ----------
    cutoff : float
    radial : RadialPolynomials
    evaluator : Evaluator or None
        Evaluates the radial functions of "u" in place of the polynomials.
    method : str
        Variant, one of P2P_METHODS of `parki.ewald.near.p2p_cells`.
    read : float
        Sources near the targets that a device works on at a time: see `near_tile`.
    """

    cutoff: float
    radial: RadialPolynomials
    evaluator: Evaluator | None = None
    method: str = "auto"
    read: float = 0.0


class P2P:
    """The near field for fixed points.

    Parameters
    ----------
    task : Task
    frame : Frame
        Along periodic axes its origin is of no effect.
    pair : Pair
    trg, src : array, shape (3, N)
        Points in the user's unit, not wrapped.
    norms : array, shape (3, N), or None
        Normals in solver units.
    launch : Launch or None
        How a variant by cells runs; None for its defaults.
    stretch : tuple of 2 floats, optional
        Part of the first axis, in solver units, that has all points and no images of theirs in
        reach: where the cells are. Points must be wrapped into it. Default: the box.

    Attributes
    ----------
    lists : PairLists or None
        A tile's lists of sources, kept for other densities unless the task is deterministic.
    """

    def __init__(
        self,
        task: Task,
        frame: Frame,
        pair: Pair,
        trg: Any,
        src: Any,
        norms: Any,
        *,
        launch: Launch | None = None,
        stretch: tuple[float, float] | None = None,
    ) -> None:
        kernel, space, want, executor = task.kernel, task.space, task.want, task.executor
        box, origin, periodicity, factor = frame.box, frame.origin, frame.periodicity, frame.factor
        cutoff, radial, evaluator, method, read = pair
        keep = not task.options.deterministic
        xp = space.array_module
        self.dtype = src.dtype
        # What wrapping may round. Along free axes nothing is, and equal points differ by zero.
        coincident = 1e-14 * float(box[:periodicity].max(initial=0.0))
        periodic = [axis < periodicity for axis in range(3)]
        corner = np.where(periodic, -box / 2, origin).tolist()
        if stretch is not None:
            periodic[0] = False
            corner[0] = stretch[0]
            box = np.array([stretch[1] - stretch[0], box[1], box[2]])
        launch = choose_launch(method, space, launch)
        tile = near_tile(space, method, trg.shape[1], read, self.dtype)
        shape = cells_of(box, cutoff, src.shape[1], launch, space)
        self._spare = _lanes(space, self.dtype) - 1

        def sort(points: Any) -> CellList:
            how: dict[str, Any] = {"scale": factor, "spare": self._spare, "executor": executor}
            return CellList(points, None, box, periodic, corner, space, shape=shape, **how)

        self.sources = sort(src)
        targets = self.sources if trg is src else sort(trg)
        if launch is not None:
            self.tiles = runs(xp, targets.starts, launch.targets)
        else:
            # A tile never spans two columns: its bounding box would span the box.
            columns = targets.starts[:: shape[2]]
            self.tiles = runs(xp, columns, tile.targets)
        self.work = {"u": self.tiles, "derivatives": self.tiles}
        if space.on_device and ("p" in want or "grad_u" in want):
            ends = targets.starts if launch is not None else targets.starts[:: shape[2]]
            self.work["derivatives"] = runs(xp, ends, DERIVATIVES_TILE)
        self.norms = None
        if norms is not None:
            self.norms = self.sources.sort(norms, out=self.buffer(3))
            self.norms /= cutoff
        degree = radial.S.size - 1
        near = (space, self.dtype, degree, periodicity, want, executor, evaluator)
        kernels = near_kernels(kernel, *near, method, tile, launch)
        self.launches: dict[str, Callable[..., None]] = {
            name: partial(each, self.work[name].shape[1]) for name, each in kernels.items()
        }
        self.lists: PairLists | None = None
        if "u" in want and launch is None and resolve(method, space) == "tile":
            special = partial(near_kernel, kernel, *near[:4], executor, evaluator, method, tile)
            tiles, lanes = self.tiles.shape[1], tile.targets * tile.lanes
            self.lists = PairLists(space, special, tiles, lanes, TEAM, keep)
            self.launches["u"] = self.lists

        def table(name: str, values: Any) -> Any:
            values = np.asarray(values, dtype=self.dtype)
            return values if kernels[name].translated.tables else xp.asarray(values)

        (values, derivatives), decay = SUMS[kernel].polynomials, SUMS[kernel].decay
        rate = factor / cutoff  # its powers may pass all numbers, which ** would refuse
        # `p2p` divides by r_c once on its own.
        own: dict[str, dict[str, Any]] = {}
        if "u" in self.launches:
            own["u"] = {"factor": factor * rate ** (decay - 1)}
            rows = [getattr(radial, r) for r in values]
            own["u"]["radial"] = table("u", rows if evaluator is None else evaluator.table)
            if evaluator is not None:
                own["u"]["xi_rc"] = evaluator.xi_rc
        if "derivatives" in self.launches:
            scale = rate * rate * rate ** (decay - 1)
            rows = [getattr(radial, r) for r in derivatives]
            own["derivatives"] = {"radial": table("derivatives", rows), "scale": scale}
        self.own = own
        self.arguments = {
            "trg": targets.points,
            "order": targets.order,
            "src": self.sources.points,
            "norms": self.norms,
            "starts": self.sources.starts,
            "shape": xp.asarray(shape, dtype=np.int32),
            "width": xp.asarray(box / np.array(shape), dtype=self.dtype),
            "reach": xp.asarray(reach(box, shape, cutoff)),
            "origin": xp.asarray(corner, dtype=self.dtype),
            "half": xp.asarray(box / 2, dtype=self.dtype),
            "cutoff": cutoff,
            # Squares of shorter distances underflow.
            "coincident": max((coincident / cutoff) ** 2, float(np.finfo(self.dtype).tiny)),
        }

    def buffer(self, rows: int) -> Any:
        """Return memory for so many rows of sorted sources, with columns of zeros beyond them."""
        sources = self.sources
        return with_spare(sources.xp, (rows, sources.order.size), self._spare, self.dtype)

    def apply(self, dens: Any, buffer: Any, results: dict[str, Any]) -> None:
        """Overwrite ``results`` with the near field of ``dens`` (rows, sources).

        ``buffer`` comes from `buffer` and takes the sorted densities. Results have shape
        (rows, targets): 1 or 3 rows of "u", 1 of "p", 3 or 9 of "grad_u".
        """
        self.sources.sort(dens, out=buffer)
        for name, launch in self.launches.items():
            launch(
                tiles=self.work[name],
                dens=buffer,
                pot=results.get("u"),
                pressure=results.get("p"),
                gradient=results.get("grad_u"),
                **self.own[name],
                **self.arguments,
            )


def near_kernels(
    kernel: str,
    space: ExecutionSpace,
    dtype: Any,
    degree: int,
    periodicity: int,
    want: tuple[str, ...],
    executor: str | None,
    evaluator: Evaluator | None,
    method: str,
    tile: Tile,
    launch: Launch | None = None,
) -> dict[str, Kernel]:
    """Return the P2P kernels of a specialisation: of the potential, and of its derivatives."""
    kernels = {}
    if "u" in want:
        special = (kernel, space, dtype, degree, periodicity, executor, evaluator)
        launch = choose_launch(method, space, launch)
        if launch is not None:
            table = _table_shape(kernel, degree, evaluator)
            kernels["u"] = cells_kernel(method, launch, table, *special)
        else:
            kernels["u"] = near_kernel(*special, method, tile)
    if "p" in want or "grad_u" in want:
        kernels["derivatives"] = load(
            "p2p_derivatives",
            "p2p_derivatives",
            space,
            executor=executor,
            team_size=DERIVATIVES_TILE,
            tables={"radial": (len(SUMS[kernel].polynomials[1]), degree + 1)},
            REAL=real_name(dtype),
            DEGREE=degree,
            PERIODIC=periodicity,
            PRESSURE="p" in want,
            GRADIENT="grad_u" in want,
            **SUMS[kernel].layers,
        )
    return kernels


def near_kernel(
    kernel: str,
    space: ExecutionSpace,
    dtype: Any,
    degree: int,
    periodicity: int,
    executor: str | None,
    evaluator: Evaluator | None,
    method: str,
    tile: Tile,
    lists: int = FORGETS,
) -> Kernel:
    """Return the P2P kernel of the potential: tile or staged, by space if method is auto.

    Tile does with ``lists`` what `parki.ewald.near.p2p_lists` says.
    """
    constants: dict[str, Any] = dict(
        SUMS[kernel].layers, REAL=real_name(dtype), DEGREE=degree, PERIODIC=periodicity
    )
    if evaluator is not None:
        constants.update(DEGREE=evaluator.degree, EVALUATOR=evaluator.number)
    method = resolve(method, space)
    constants["TILE"] = tile.targets
    if method == "tile":
        looks = LOOKS[np.dtype(dtype).itemsize]
        constants.update(LANES=tile.lanes, TILES=TEAM, LOOKS=looks, LIST=looks, LISTS=lists)
        if lists != FORGETS:  # they lie elsewhere
            constants.update(LOOKS=tile.looks, LIST=1)
    else:
        constants["CHUNK"] = DEVICE_CHUNK if space.on_device else HOST_CHUNK
        constants["LANES"] = _lanes(space, dtype)
    return load(
        "p2p_tile" if method == "tile" else "p2p",
        f"p2p_{method}",
        space,
        executor=executor,
        team_size=TEAM if method == "tile" else tile.targets,
        vector_length=tile.targets * tile.lanes if method == "tile" else 1,
        tables={"radial": _table_shape(kernel, degree, evaluator)},
        **constants,
    )


def _lanes(space: ExecutionSpace, dtype: Any) -> int:
    """Return the sources that p2p_staged copies at a time: the longest vector's."""
    return 1 if space.on_device else 64 // np.dtype(dtype).itemsize


def _table_shape(kernel: str, degree: int, evaluator: Evaluator | None) -> tuple[int, ...]:
    """Return the shape of the table that evaluates the radial functions of "u"."""
    if evaluator is not None:
        return evaluator.table.shape
    return len(SUMS[kernel].polynomials[0]), degree + 1
