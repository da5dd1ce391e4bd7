"""P2P on the host side: sorts sources and targets for the near field, and launches it.

Takes points as they were given and the radial polynomials; knows nothing of the grid. Points are
not moved into the box, which would round them, and with them the distances of close pairs: free
axes keep their corner, periodic ones are wrapped to -box/2 ... box/2, exactly. The pressure and the
gradient come from a kernel of their own, which walks the same cells. The variants of the
literature, which walk others, are described in `parki.ewald.p2p_cells`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parki.arrays import USUAL, real_name
from parki.cell_list import CellList, runs, with_spare
from parki.ewald.p2p_cells import Launch, cells_kernel, choose_launch, reach
from parki.ewald.p2p_lists import FORGETS, PairLists
from parki.ewald.radial import Evaluator
from parki.ewald.split import RadialPolynomials
from parki.ewald.sums import SUMS
from parki.runtime import ExecutionSpace, Kernel, load

# Columns of cells are r_c / COLUMNS wide; along z a cell is r_c / DEPTH deep.
COLUMNS, DEPTH = 2, 8
# Most cells for each source, on hosts and on devices. Clouds of two scales have a cut-off for the
# denser one, by which the box has many.
MOST_CELLS = {False: 4.0, True: 64.0}
# Tiles of p2p_tile have few targets, for their bounding boxes to cull tightly, and one warp's worth
# of lanes. Lanes with long lists drift apart, and find less in the cache of what others have read:
# where the positions near the targets of a multiprocessor fill it, smaller tiles and fewer looks
# keep together. Of few targets there are fewer tiles than a device runs at once, and the longest
# list takes all the time: smaller tiles serve them, too, and the smallest where they are long.
# An H200, sums that take lists, ms, by tiles of 8, 4 and 2 targets: of even clouds 10 000 points
# -, 0.080, 0.092; 100 000 0.516, 0.503, 0.549. Half of them in clusters: 10 000 -, 0.132, 0.097;
# 30 000 1.27, 0.85, 0.72; 100 000 2.88, 2.48, 2.44, but first sums 3.03, 2.69, 3.12; 1e6 36.2,
# 35.9, 37.8. Those by lists twice as long: 100 000 3.40, 2.95, 2.93; 1e6 42.9, 45.7, 49.1.
FEW = 50_000  # targets
# From so many sources near those worked on at a time, `Problem.read`: of few targets, and of many
# by the bytes of their positions. Fitted to 94 sums on an H200 (even, normal, clustered and
# spherical clouds, 1e4 to 4e6 points, lists kept): 7 take 1.03 to 1.08 times as long as with the
# other tile, all others 1.02 at most; with the tile of even clouds 21 took 1.2 to 1.8 times.
FEW_READ, MANY_READ = 7000, 240_000
TEAM = 4  # tiles of a team of p2p_tile
# Sources that a lane of p2p_tile looks at before it computes those in reach, by the bytes of a
# number: longer lists are more alike, and leave less of a multiprocessor's memory to its cache.
LOOKS = {8: 64, 4: 32}


class Tile(NamedTuple):
    """A tile: most targets, lanes that share a target's sources, looks of each for lists kept."""

    targets: int
    share: int = 1
    looks: int = 0


# By whether there are few targets, and whether many sources are near those worked on at a time.
TILES = {
    (False, False): Tile(8, 4, 256),
    (True, False): Tile(4, 8, 128),
    (False, True): Tile(4, 8, 64),
    (True, True): Tile(2, 16, 32),
}
STAGED_TILE = {False: Tile(4), True: Tile(16)}  # of p2p_staged on hosts, on devices
DERIVATIVES_TILE = 32  # on a device; one thread a target
HOST_CHUNK, DEVICE_CHUNK = 256, 64  # sources staged at a time


class P2P:
    """The near field for fixed points.

    Parameters
    ----------
    kernel : str
    trg, src : array, shape (3, N)
        Points in the user's unit, not wrapped.
    norms : array, shape (3, N), or None
        Normals in solver units.
    box : sequence of 3 floats
        Solver units, as the next.
    origin : sequence of 3 floats
        Corner of the box; of no effect along periodic axes.
    periodicity : int
    cutoff : float
    radial : RadialPolynomials
    factor : float
        Inverse of the solver's length unit, a power of two: turns points into solver units, and
        results into the user's.
    want : tuple of str
        What to compute: "u", "p", "grad_u".
    evaluator : Evaluator or None
        Evaluates the radial functions of "u" in place of the polynomials.
    method : str
        Variant, one of P2P_METHODS of `parki.ewald.p2p_cells`.
    launch : Launch or None
        How a variant by cells runs; None for its defaults.
    stretch : tuple of 2 floats, optional
        Part of the first axis, in solver units, that has all points and no images of theirs in
        reach: where the cells are. Points must be wrapped into it. Default: the box.
    keep : bool
        Whether a tile's lists of sources may be kept for other densities: `PairLists`.
    read : float
        Sources near the targets that a device works on at a time: see `near_tile`.
    """

    def __init__(
        self,
        kernel: str,
        space: ExecutionSpace,
        trg: Any,
        src: Any,
        norms: Any,
        box: np.ndarray[Any, np.dtype[np.float64]],
        origin: np.ndarray[Any, np.dtype[np.float64]],
        periodicity: int,
        cutoff: float,
        radial: RadialPolynomials,
        factor: float,
        want: tuple[str, ...],
        evaluator: Evaluator | None,
        executor: str | None,
        method: str = "auto",
        launch: Launch | None = None,
        stretch: tuple[float, float] | None = None,
        keep: bool = True,
        read: float = 0.0,
    ) -> None:
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
        shape = _cells(box, cutoff, src.shape[1], launch, space)
        self._spare = _lanes(space, self.dtype) - 1

        def sort(points: Any) -> CellList:
            how: dict[str, Any] = {"scale": factor, "spare": self._spare, "executor": executor}
            return CellList(points, None, box, periodic, corner, space, shape=shape, **how)

        self.sources = sort(src)
        targets = self.sources if trg is src else sort(trg)
        if launch is not None:
            self.tiles = runs(xp, targets.starts, launch.share)
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
            tiles, lanes = self.tiles.shape[1], tile.targets * tile.share
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

    Tile does with ``lists`` what `parki.ewald.p2p_lists` says.
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
        constants.update(SHARE=tile.share, TILES=TEAM, LOOKS=looks, LIST=looks, KEPT=lists)
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
        vector_length=tile.targets * tile.share if method == "tile" else 1,
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


def near_cells(
    box: np.ndarray[Any, Any], cutoff: float, sources: int, method: str, space: ExecutionSpace
) -> tuple[int, int, int]:
    """Return the cells along each axis by which a variant sorts the points of a box."""
    return _cells(box, cutoff, sources, choose_launch(method, space), space)


def resolve(method: str, space: ExecutionSpace) -> str:
    """Return the variant that is meant."""
    return USUAL[space.on_device][0] if method == "auto" else method


def near_tile(
    space: ExecutionSpace, method: str, targets: int, read: float, dtype: np.dtype[Any]
) -> Tile:
    """Return the tile of ``method``, tile or staged, for ``targets`` in number.

    ``read`` is the number of sources near those that a device works on at a time.
    """
    if resolve(method, space) == "staged":
        return STAGED_TILE[space.on_device]
    few = targets <= FEW
    return TILES[few, read > (FEW_READ if few else MANY_READ / 3 / dtype.itemsize)]


def _cells(
    box: np.ndarray[Any, Any],
    cutoff: float,
    sources: int,
    launch: Launch | None,
    space: ExecutionSpace,
) -> tuple[int, int, int]:
    """Return the cells along each axis: so many for each r_c, but at most `MOST_CELLS`."""
    per_cutoff = (COLUMNS, COLUMNS, DEPTH) if launch is None else (1 / launch.width,) * 3
    per_edge = np.array(per_cutoff) * box / cutoff
    # Their numbers have 32 bits.
    most = min(max(MOST_CELLS[space.on_device] * sources, 64.0), 2.0**30)
    excess = float(np.prod(per_edge)) / most
    if excess > 1:
        per_edge /= excess ** (1 / 3)
    x, y, z = (max(1, int(n)) for n in per_edge)
    return x, y, z
