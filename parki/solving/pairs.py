"""`near_pairs`: the sources within a radius of each target, images included, as CSR arrays.

The pairs are found by `parki.solving.search`, on a device as on a CPU.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.core import EwaldOptions, take_cloud, take_options
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import as_array, positive
from parki.memory import require, telling
from parki.runtime import ExecutionSpace, get_execution_space
from parki.solving.search import MOST, search
from parki.typing import AnyArray, Array, ArrayModule, OptionKeywords, Unpack

# Bytes that an image and a pair take at most at a time; of pairs within fewer periods of a target
# than FEW, in a ball, nobody knows how many there are.
IMAGE, PAIR, FEW = 120.0, 88.0, 100.0


@dataclass(frozen=True)
class NearPairs:
    """Pairs of a target and a source, sorted by targets: see `near_pairs`.

    Attributes
    ----------
    indptr : array, shape (Nt + 1,), int32
        Target i has the pairs ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices : array, shape (nnz,), int32
        Source of each pair. Two images of one source are two pairs.
    displacements : array, shape (3, nnz)
        Target minus the image of the source: the r of the sums.
    distances : array, shape (nnz,)
        Lengths of the displacements.
    shape : tuple of 2 ints
        Numbers of targets and of sources.
    """

    indptr: Any
    indices: Any
    displacements: Any
    distances: Any
    shape: tuple[int, int]

    @property
    def targets(self) -> Any:
        """Target of each pair, shape (nnz,), int32."""
        xp = module_of(self.indptr)
        places = xp.arange(self.indices.size, dtype=np.int32)
        return (xp.searchsorted(self.indptr, places, side="right") - 1).astype(np.int32)

    def matrix(self, values: Array) -> Any:
        """Return the sparse matrix with these values at the pairs, for `aslinearoperator`.

        Parameters
        ----------
        values : array, shape (nnz,) or (rows, columns, nnz)
            A number or a block for each pair, such as (3, 3, nnz) between velocity and force. Pairs
            of the same target and source, which differ in the image, are added.

        Returns
        -------
        sparse matrix, shape (rows * Nt, columns * Ns)
            CSR matrix of SciPy or CuPy. It takes and returns vectors in the order of
            `Plan.as_linear_operator`: a component after the other.

        Raises
        ------
        ParkiTypeError, ParkiValueError
        """
        given, xp = as_array("values", values), module_of(self.indices)
        if module_of(given) is not xp:
            raise ParkiTypeError(
                f"values is an array of {module_of(given).__name__}, but the pairs are of "
                f"{xp.__name__}; move one of them"
            )
        if given.shape[-1:] != self.indices.shape or given.ndim not in (1, 3):
            raise ParkiValueError(
                f"values has shape {given.shape}; expected ({self.indices.size},) or (rows, "
                f"columns, {self.indices.size}), for the {self.indices.size} pairs"
            )
        blocks = given.reshape(1, 1, -1) if given.ndim == 1 else given
        return block_matrix(xp, blocks, self.targets, self.indices, self.shape)


def block_matrix(
    xp: ArrayModule, blocks: AnyArray, targets: AnyArray, sources: AnyArray, counts: tuple[int, int]
) -> Any:
    """Return the CSR matrix of blocks (rows, columns, n) at pairs: see `NearPairs.matrix`."""
    rows, columns = (
        (xp.arange(count)[:, None] * points + index[None, :])
        for count, points, index in zip(blocks.shape[:2], counts, (targets, sources), strict=True)
    )
    places = [
        xp.broadcast_to(each, blocks.shape).ravel() for each in (rows[:, None], columns[None])
    ]
    shape = tuple(np.multiply(blocks.shape[:2], counts).tolist())
    return sparse(xp).coo_matrix((blocks.ravel(), tuple(places)), shape=shape).tocsr()


def sums_by(xp: ArrayModule, index: AnyArray, count: int) -> Any:
    """Return the CSR matrix (count, n) that adds the values of n pairs by an index."""
    places = xp.arange(index.size, dtype=np.int32)
    whole = index.astype(np.int32), places
    shape = count, index.size
    return sparse(xp).coo_matrix((xp.ones(index.size), whole), shape=shape).tocsr()


@telling
def near_pairs(
    trg: Array,
    src: Array,
    radius: float,
    options: EwaldOptions | None = None,
    **keywords: Unpack[OptionKeywords],
) -> NearPairs:
    """Return all pairs of a target and an image of a source that are at most ``radius`` apart.

    The sums with these options have the same pairs. A source at the target itself is left
    out; its images are not. The radius may be longer than the box: each image is a pair.

    Parameters
    ----------
    trg, src : array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources, of one type and in one memory. Not modified.
    radius : float
        In the unit of ``box``, positive.
    options : EwaldOptions, optional
        Or its fields as keywords. Only the periodicity, the box and the execution space matter.

    Returns
    -------
    NearPairs
        Arrays of NumPy or CuPy, as the points are. A target's pairs are in no particular order,
        which is the same every time.

    Raises
    ------
    ParkiTypeError, ParkiValueError
        If an argument is invalid, or if there are 2**31 pairs or more.

    Examples
    --------
    >>> import numpy as np, parki
    >>> points = np.array([[0.1, 0.9], [0.5, 0.5], [0.5, 0.5]])
    >>> pairs = parki.near_pairs(points, points, 0.3, periodicity=3, box=[1, 1, 1])
    >>> pairs.indices.tolist(), pairs.displacements[0].round(3).tolist()
    ([1, 0], [0.2, -0.2])
    """
    _, options = take_options(None, options, keywords)
    reach = positive("radius", radius, "a positive, finite length")
    return pairs_within(trg, src, reach, options, itself=False)


def pairs_within(
    trg: AnyArray, src: AnyArray, reach: float, options: EwaldOptions, itself: bool = True
) -> NearPairs:
    """Return `near_pairs`, with a source at the target itself or without it."""
    given = take_cloud("laplace", trg, src, None, options).checked()
    trg, src = given.trg, given.src
    space, dtype, counts = given.space, trg.dtype, (trg.shape[1], src.shape[1])
    if not all(counts):
        empty = np.zeros_like(trg, shape=counts[0] + 1, dtype=np.int32)
        return NearPairs(empty, empty[:0], trg[:, :0], trg[0, :0], counts)
    require_pairs(space, options, counts, reach)
    # Differences of float32 positions are exact in float64, and so is the choice of pairs.
    targets = trg.astype(np.float64, copy=False)
    sources = targets if src is trg else src.astype(np.float64, copy=False)
    pairs = search(
        space,
        targets,
        sources,
        options,
        reach=reach,
        itself=itself,
        refusal=f"radius is {reach:g}, which has 2**31 pairs or more; take a smaller one, or some "
        "of the targets at a time",
    )
    return NearPairs(
        pairs.indptr,
        pairs.second,
        pairs.apart.astype(dtype, copy=False),
        pairs.distances.astype(dtype, copy=False),
        counts,
    )


def require_pairs(
    space: ExecutionSpace, options: EwaldOptions, counts: tuple[int, int], reach: float
) -> None:
    """Refuse a radius whose images or pairs memory, or 32 bits, cannot hold."""
    vectors = options.vectors[np.array(options.periodic)]
    periodicity, near = len(vectors), min(reach, 1e100)  # whose powers are finite
    # Images of a point in a ball, which is a line, a disc or a sphere along the periodic axes; and
    # in the cube around it.
    ball = (1.0, 2.0, math.pi, 4 / 3 * math.pi)[periodicity] * near**periodicity
    period = math.sqrt(np.linalg.det(vectors @ vectors.T)) if periodicity else 1.0
    targets, sources = counts
    pairs = float(targets) * sources * ball / period if ball > FEW * period else 0.0
    images = sources * (2 * near) ** periodicity / period
    what, remedy = f"{images:.3g} images and {pairs:.3g} pairs", "take a radius of few periods"
    if images > MOST:
        raise ParkiValueError(
            f"radius is {reach:g}, which meets about {what}; expected under 2**31: {remedy}"
        )
    what = f"a radius of {reach:g} meets about {what}, which"
    require(space, IMAGE * images + PAIR * pairs, what, remedy)


def module_of(array: AnyArray) -> Any:
    """Return NumPy or CuPy, whichever the array is of."""
    return np if isinstance(array, np.ndarray) else get_execution_space(None, array).array_module


def sparse(xp: ArrayModule) -> Any:
    """Return the sparse matrices of NumPy's or CuPy's arrays."""
    return importlib.import_module("scipy.sparse" if xp is np else "cupyx.scipy.sparse")
