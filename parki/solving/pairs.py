"""`near_pairs`: the sources within a radius of each target, images included, as CSR arrays.

It is one program for NumPy and CuPy, which launches no kernels of parki. Images of sources within
reach of the targets are sorted by cells. A target's candidates are runs of that order.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.core import EwaldOptions, take_cloud, take_options
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import as_array, positive, to_host
from parki.memory import require, telling
from parki.runtime import ExecutionSpace, get_execution_space
from parki.typing import AnyArray, Array, ArrayModule, OptionKeywords, Unpack

AT_ONCE = {False: 1 << 18, True: 1 << 24}  # candidates, by whether they are on a device
# Cells along an axis at most, and steps between their numbers, which fit 64 bits.
MOST_CELLS, STRIDE = 1 << 20, 1 << 21
MARGIN = 1 + 1e-9
# Bytes that an image and a pair take at most at a time; of pairs within fewer periods of a target
# than FEW, in a ball, nobody knows how many there are.
IMAGE, PAIR, FEW = 120.0, 88.0, 100.0
MOST = 2**31 - 1  # pairs, images and rows, which sparse matrices count in 32 bits


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
    trg: Array, src: Array, reach: float, options: EwaldOptions, itself: bool = True
) -> NearPairs:
    """Return `near_pairs`, with a source at the target itself or without it."""
    given = take_cloud("laplace", trg, src, None, options).checked()
    trg, src = given.arrays["trg"], given.arrays["src"]
    xp, dtype, counts = given.space.array_module, trg.dtype, (trg.shape[1], src.shape[1])
    # Differences of float32 positions are exact in float64, and so is the choice of pairs.
    targets, sources = (_wrapped(xp, points, options) for points in (trg, src))
    nothing = xp.empty(0, np.int64), xp.empty(0, np.int32), xp.empty((3, 0)), xp.empty(0)
    parts = [nothing]
    if all(counts):
        require_pairs(given.space, options, counts, reach)
        low, high = targets.min(axis=1) - MARGIN * reach, targets.max(axis=1) + MARGIN * reach
        images, owner = _images(xp, sources, options, xp.stack([low, high]), reach)
        at_once = AT_ONCE[given.space.on_device]
        if owner.size:
            parts += _search(xp, targets, images, owner, reach, low, at_once, itself)
    rows, index, r, distance = (xp.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    indptr = xp.zeros(counts[0] + 1, dtype=np.int32)
    if rows.size:
        indptr[1:] = xp.searchsorted(rows, xp.arange(counts[0]), side="right")
    return NearPairs(indptr, index, r.astype(dtype), distance.astype(dtype), counts)


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


def _wrapped(xp: ArrayModule, points: AnyArray, options: EwaldOptions) -> Any:
    """Return points in double precision, in the box along periodic axes."""
    points = points.astype(np.float64)
    if options.cell is not None:
        vectors = options.vectors
        places = xp.asarray(np.linalg.inv(vectors).T) @ points
        for axis in range(3):
            if options.periodic[axis]:
                points -= xp.asarray(vectors[axis])[:, None] * xp.floor(places[axis])
        return points
    for axis, length in enumerate(options.box):
        if length is not None and options.periodic[axis]:
            points[axis] -= xp.floor(points[axis] / length) * length
    return points


def _images(
    xp: ArrayModule, sources: AnyArray, options: EwaldOptions, ends: AnyArray, reach: float
) -> tuple[Any, Any]:
    """Return the images between two corners, shape (3, n), and the source of each."""
    owner, vectors = xp.arange(sources.shape[1], dtype=np.int32), options.vectors
    widths = 1 / np.sqrt((np.linalg.inv(vectors) ** 2).sum(axis=0))
    periodic = np.array(options.periodic)
    for axis, width in enumerate(widths):
        if periodic[axis]:
            most = 1 + math.floor(reach / width)
            if (2 * most + 1) * owner.size > MOST:
                raise ParkiValueError(
                    f"radius is {reach:g}, which reaches {most:.3g} periods of {width:g} along "
                    f"axis {axis}: more than 2**31 images; take a radius of few periods"
                )
            numbers = xp.arange(-most, most + 1)
            shifts = numbers[:, None] * xp.asarray(vectors[axis])[:, None, None]
            sources = (sources[:, None] + shifts).reshape(3, -1)
            owner = xp.tile(owner, numbers.size)
        # Vectors of other axes may move images along this one.
        moved = (vectors[axis + 1 :][periodic[axis + 1 :]] != 0).any(axis=0)
        still = np.flatnonzero(~moved).tolist()
        first, last = (end[still][:, None] for end in ends)
        inside = ((sources[still] >= first) & (sources[still] <= last)).all(axis=0)
        sources, owner = sources[:, inside], owner[inside]
    return sources, owner


def _search(
    xp: ArrayModule,
    targets: AnyArray,
    images: AnyArray,
    owner: AnyArray,
    reach: float,
    low: AnyArray,
    at_once: int,
    itself: bool,
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield targets, sources, displacements and distances of pairs, for some targets at a time.

    Parameters
    ----------
    xp : module
        NumPy or CuPy.
    targets, images : array, shape (3, Nt) and (3, n), float64
    owner : array, shape (n,), int32
        Source of each image.
    reach : float
    low : array, shape (3,)
        Corner below all targets and images.
    at_once : int
        Candidates at a time, roughly.
    itself : bool
        Whether a source at the target itself is a pair.
    """
    # Cells are somewhat wider, so that rounding takes no pair over two of them.
    width = max(reach, float((images.max(axis=1) - low).max()) / MOST_CELLS) * MARGIN
    home, key = (_keys(points - low[:, None], width) for points in (targets, images))
    order = xp.argsort(key, kind="stable")
    key, images, owner = key[order], images[:, order], owner[order]
    # Cells along the last axis follow each other: in each column of them a target meets one run.
    columns = [(x * STRIDE + y) * STRIDE for x, y in itertools.product((-1, 0, 1), repeat=2)]
    begins, ends = (xp.empty((home.size, len(columns)), dtype=np.int64) for _ in range(2))
    for place, column in enumerate(columns):
        begins[:, place] = xp.searchsorted(key, home + (column - 1), side="left")
        ends[:, place] = xp.searchsorted(key, home + (column + 1), side="right")
    total = to_host(xp.cumsum((ends - begins).sum(axis=1)))
    marks = np.arange(at_once, total[-1], at_once)
    cuts = np.unique([0, *np.searchsorted(total, marks), home.size])
    pairs = 0
    for first, last in itertools.pairwise(cuts.tolist()):
        rows, index = _candidates(xp, begins[first:last].ravel(), ends[first:last].ravel())
        rows = first + rows // len(columns)
        r = xp.take(targets, rows, axis=1) - xp.take(images, index, axis=1)
        distance = xp.sqrt(xp.einsum("ax,ax->x", r, r))
        near = xp.flatnonzero((distance <= reach) & (itself | (distance > 0)))
        pairs += near.size
        if pairs > MOST:
            raise ParkiValueError(
                f"radius is {reach:g}, which has 2**31 pairs or more; take a smaller one, or some "
                "of the targets at a time"
            )
        yield rows[near], owner[index[near]], xp.take(r, near, axis=1), distance[near]


def _keys(points: AnyArray, width: float) -> Any:
    """Return the numbers of the points' cells, the last axis running fastest."""
    x, y, z = (points // width).astype(np.int64) + 2
    return (x * STRIDE + y) * STRIDE + z


def _candidates(xp: ArrayModule, begins: AnyArray, ends: AnyArray) -> tuple[Any, Any]:
    """Return the run and the place of each candidate of runs, one run after the other.

    Sums of steps do it, because CuPy repeats by no array of counts.
    """
    runs = xp.flatnonzero(ends > begins)
    if not runs.size:
        return runs, runs
    begins, ends = begins[runs], ends[runs]
    starts = xp.cumsum(ends - begins)
    total = int(starts[-1])
    starts = xp.concatenate([xp.zeros(1, starts.dtype), starts[:-1]])
    run, place = xp.zeros(total, dtype=np.int64), xp.ones(total, dtype=np.int64)
    run[starts], place[starts] = xp.diff(runs, prepend=0), begins
    place[starts[1:]] -= ends[:-1] - 1
    return xp.cumsum(run), xp.cumsum(place)


def module_of(array: AnyArray) -> Any:
    """Return NumPy or CuPy, whichever the array is of."""
    return np if isinstance(array, np.ndarray) else get_execution_space(None, array).array_module


def sparse(xp: ArrayModule) -> Any:
    """Return the sparse matrices of NumPy's or CuPy's arrays."""
    return importlib.import_module("scipy.sparse" if xp is np else "cupyx.scipy.sparse")
