"""Variants of P2P by cells about r_c wide, as in the literature: which there are, and how they run.

One team owns a share of one cell's targets and walks the cells around it (``kernels/p2p_cells.py``;
Kosmacher, Du, Bagge, Biros 2026, section 3.1). They are here to be compared with parki's own, see
``scripts/benchmark.py --table 6``, and compute the velocity or potential alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.arrays import real_name
from parki.errors import ParkiValueError
from parki.ewald.radial import Evaluator
from parki.ewald.sums import SUMS
from parki.runtime import ExecutionSpace, Kernel, load

# Whether the team copies sources to scratch memory, and whether lanes share a target's sources.
CELL_METHODS = {
    "gm1d": (False, False),
    "gm2d": (False, True),
    "sm1d": (True, False),
    "sm2d": (True, True),
}
P2P_METHODS = ("auto", "tile", "staged", *CELL_METHODS)
# Lanes add up by shuffles, which stay within a warp.
MOST_VECTORS = 32


class Launch(NamedTuple):
    """How a variant runs.

    Attributes
    ----------
    team : int
        Threads of a team, on a device; a host team is one thread.
    vectors : int
        Lanes of each thread that share the sources of its target: a power of two up to 32; 1 for
        the variants without.
    share : int
        Most targets of a team: the cell's others belong to other teams.
    chunk : int
        Sources copied at a time, for the variants that do.
    width : float
        Of the cells, over r_c, at least: up to 1.
    """

    team: int
    vectors: int
    share: int
    chunk: int
    width: float


def choose_launch(
    method: str, space: ExecutionSpace, launch: Launch | None = None
) -> Launch | None:
    """Return how a variant runs: as asked, or else as is best; None for parki's own variants.

    On devices the blocks are those that the paper found best. On a host the processor's own vectors
    take several sources at a time in all variants, so that nothing is left for lanes to share.

    Raises
    ------
    ParkiValueError
        If the variant or the device cannot run what is asked.
    """
    if method not in CELL_METHODS:
        return None
    if launch is not None:
        _check(method, launch, space)
        return launch
    if not space.on_device:
        return Launch(1, 1, share=64, chunk=256, width=1.0)
    team, vectors = {"gm1d": (64, 1), "gm2d": (8, 32), "sm1d": (32, 1), "sm2d": (64, 2)}[method]
    return Launch(team, vectors, share=team, chunk=max(64, team * vectors), width=1.0)


def check_method(method: str, want: tuple[str, ...]) -> None:
    """Refuse a variant that what is wanted has no kernel for.

    Raises
    ------
    ParkiValueError
    """
    if method in CELL_METHODS and want != ("u",):
        raise ParkiValueError(
            f"p2p_method is {method!r}, which computes 'u' alone, but want is {', '.join(want)}; "
            "leave p2p_method to 'auto'"
        )


def _check(method: str, launch: Launch, space: ExecutionSpace) -> None:
    for name in ("team", "vectors", "share", "chunk"):
        value = getattr(launch, name)
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise ParkiValueError(f"{name} is {value!r}; expected a positive whole number")
    if not 0 < launch.width <= 1:
        raise ParkiValueError(f"width is {launch.width!r}; expected a part of r_c, up to 1")
    lanes = launch.vectors
    if lanes > MOST_VECTORS or lanes & (lanes - 1):
        raise ParkiValueError(f"vectors is {lanes}; expected a power of two, up to {MOST_VECTORS}")
    if lanes > 1 and not CELL_METHODS[method][1]:
        raise ParkiValueError(
            f"vectors is {lanes}, but {method} has none; pass 1, or another method"
        )
    if space.on_device:
        most = _device_limit(space, "MaxThreadsPerBlock", 1024)
        if launch.team * lanes > most:
            raise ParkiValueError(
                f"team x vectors is {launch.team} x {lanes}; the device has at most {most} threads "
                "in a block"
            )


def reach(
    box: NDArray[np.float64], shape: tuple[int, int, int], cutoff: float
) -> NDArray[np.int32]:
    """Return how many cells the cut-off spans along each axis, for cells of box / shape."""
    # Without the last digits: r_c over its own part is no more than a whole number.
    cells = np.ceil(cutoff * np.array(shape) / box * (1 - 1e-12))
    return np.maximum(cells, 1).astype(np.int32)


def cells_kernel(
    method: str,
    launch: Launch,
    table: tuple[int, ...],
    kernel: str,
    space: ExecutionSpace,
    dtype: Any,
    degree: int,
    periodicity: int,
    executor: str | None,
    evaluator: Evaluator | None,
) -> Kernel:
    """Return the kernel of a variant; ``table`` is the shape of what evaluates the pair kernel.

    Raises
    ------
    ParkiValueError
        If a team needs more scratch memory than the device has.
    """
    constants: dict[str, Any] = dict(
        SUMS[kernel].layers, REAL=real_name(dtype), DEGREE=degree, PERIODIC=periodicity
    )
    if evaluator is not None:
        constants.update(DEGREE=evaluator.degree, EVALUATOR=evaluator.number)
    loaded = load(
        "p2p_cells",
        "p2p_cells",
        space,
        executor=executor,
        team_size=launch.team,
        vector_length=launch.vectors,
        tables={"radial": table},
        STAGED=CELL_METHODS[method][0],
        VECTORS=launch.vectors,
        SHARE=launch.share,
        CHUNK=launch.chunk,
        **constants,
    )
    if space.on_device:
        most = _device_limit(space, "MaxSharedMemoryPerBlockOptin", 48 * 1024)
        if loaded.translated.scratch > most:
            raise ParkiValueError(
                f"{method} with share {launch.share}, vectors {launch.vectors} and chunk "
                f"{launch.chunk} needs {loaded.translated.scratch} bytes of scratch memory; the "
                f"device has {most}: lower one of them"
            )
    return loaded


def _device_limit(space: ExecutionSpace, name: str, default: int) -> int:
    """Return an attribute of the device, or the default where it does not say."""
    value = space.array_module.cuda.Device().attributes.get(name, 0)
    return int(value) or default
