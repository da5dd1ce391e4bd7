"""Measures how much closer together points are than uniform points.

The error estimates average over uniformly spread points. For other clouds the square of an error
grows with the number of pairs at short range over the uniform number. `pair_density` measures this
ratio at every scale, from a sample, so that clouds of any shape keep the promise of the tolerance.
It also measures how many points there are around a pair, which P2P reads again for the next one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.geometry.systems import Systems
from parki.interchange import to_host
from parki.runtime.forks import cached_property
from parki.typing import AnyArray

# Points of a sample. A sample of systems is WHOLE times as large and has whole systems.
SAMPLE, WHOLE = 16384, 8
# Edges of the cells in which pairs are counted, in units of the cube root of the box's volume.
LEVELS = 9
SCALES = [2.0**-level for level in range(LEVELS, -1, -1)]
LOGARITHMS = np.log(SCALES).tolist()
# Where the two sets of cells begin along each axis, in edges of their largest cell. A cluster cut
# by faces of one set is whole in the other, as a third of 2^-n is not near a multiple of 2^-m. No
# large cell ends in the middle of the box, where clusters lie most often.
OFFSETS = (0.137, 0.137 + 1 / 3)
# Edge of a cell over a radius, for the same fraction of the close pairs. Pairs in a cube are
# further apart than pairs in the ball of the same volume, for which the ratio is 1.6.
EDGE = 1.3
# Fewer pairs, or triples, than these say little.
FEWEST_PAIRS, FEWEST_THREES = 30, 100
LEAST_APART = 1e-3  # ratio of pairs of targets and sources that are apart
# Most cells along an axis; then all ten-bit numbers, spread with two zeros between their bits.
_MOST = 2**20
_BITS = 10
_LOW = 2**_BITS - 1
_SPREAD = ((np.arange(_LOW + 1)[:, None] >> np.arange(_BITS) & 1) << 3 * np.arange(_BITS)).sum(
    axis=1
)


@dataclass(frozen=True)
class PairDensity:
    """Density of (target, source) pairs relative to uniform points, by scale: the largest first.

    Attributes
    ----------
    enhancement : ndarray, shape (LEVELS + 1,)
        Pairs of different points found within a cell, over the uniform number; at least 1, unless
        targets and sources are apart.
    around : ndarray, shape (2, LEVELS + 1)
        Density of targets, and of sources, in the cells that hold pairs, over the mean density; at
        least 1.
    self_pairs : float
        Probability that a target's partner is the same point: 1/N where targets are sources.
    """

    enhancement: NDArray[np.float64]
    around: NDArray[np.float64]
    self_pairs: float

    @cached_property
    def _table(self) -> tuple[list[float], list[list[float]]]:
        """Enhancements by increasing scale; and logarithms of them, and of ``around``."""
        values = self.enhancement[::-1]
        return values.tolist(), np.log([values, *self.around[:, ::-1]]).tolist()

    @cached_property
    def _smallest(self) -> list[int]:
        """The place of the smallest scale that was read, by increasing scale, plus 1."""
        return [len(SCALES) + 1]

    @property
    def read(self) -> int:
        """How many scales, the largest ones, have been read."""
        return min(len(SCALES) + 1 - self._smallest[0], len(SCALES))

    def down_to(self, read: int) -> bytes:
        """Return all numbers of this many scales, the largest ones."""
        return b"".join(each[:read].tobytes() for each in (self.enhancement, *self.around))

    def at_least(self, other: PairDensity) -> PairDensity:
        """Return the larger one of two densities at each scale."""
        return PairDensity(
            np.maximum(self.enhancement, other.enhancement),
            np.maximum(self.around, other.around),
            max(self.self_pairs, other.self_pairs),
        )

    def at(self, scale: float) -> float:
        """Return the enhancement at a scale: the larger value of the two cells that enclose it.

        Beyond the largest cell it is the value of that cell, since it falls with the scale.
        """
        values, _ = self._table
        index = bisect_right(SCALES, scale)
        self._smallest[0] = min(self._smallest[0], index)
        return max(1.0, *values[max(index - 1, 0) : index + 1])

    def typical(self, radius: float) -> float:
        """Return the enhancement of the pairs within a radius, interpolated: no bound."""
        return self._between(radius)[0]

    def about(self, radius: float) -> tuple[float, float]:
        """Return the densities of targets and of sources around pairs within a radius."""
        _, targets, sources = self._between(radius)
        return targets, sources

    def _between(self, radius: float) -> list[float]:
        """Return the enhancement and the densities around pairs, between the scales."""
        (_, rows), scales, scale = self._table, LOGARITHMS, math.log(EDGE * radius)
        index = min(max(bisect_right(scales, scale), 1), len(scales) - 1)
        self._smallest[0] = min(self._smallest[0], index)
        part = (scale - scales[index - 1]) / (scales[index] - scales[index - 1])
        part = min(max(part, 0.0), 1.0)
        return [math.exp(row[index - 1] + part * (row[index] - row[index - 1])) for row in rows]


def pair_density(
    trg: AnyArray,
    src: AnyArray,
    box: NDArray[np.float64],
    systems: Systems | None = None,
    apart: bool = False,
) -> PairDensity:
    """Measure the pair density of a cloud, as the larger one of two sets of cells.

    For systems it is the largest density of all systems with enough pairs.

    Parameters
    ----------
    trg, src : array, shape (3, N), NumPy or CuPy
        Points in ``box`` (wrapped), in sorted or random order. They are sampled with a stride; for
        systems the sample is larger and has whole systems.
    box : ndarray, shape (3,)
        Edge lengths.
    systems : Systems, optional
        Which points form pairs. Default: all.
    apart : bool
        Whether targets and sources are on two sides of a plane: the closer pairs are, the fewer
        there are of them.
    """
    unit = float(np.prod(box)) ** (1 / 3)
    if systems is None:
        sample_s = sample(src)
        sample_t = sample_s if trg is src else sample(trg)
        ids = [np.zeros(cloud.shape[1], dtype=int) for cloud in (sample_s, sample_t)]
    else:
        step = max(1, max(trg.shape[1], src.shape[1]) // (WHOLE * SAMPLE))
        chosen = np.arange(systems.count) % step == 0
        sample_s, own = _whole(src, chosen, systems.sources)
        sample_t, others = sample_s, own
        if trg is not src:
            sample_t, others = _whole(trg, chosen, systems.targets)
        ids = [own, others]
    same = trg.shape == src.shape and (trg is src or np.array_equal(sample_t, sample_s))
    clouds = [sample_s] if same else [sample_s, sample_t]
    places = [cloud * (2.0**LEVELS / unit) for cloud in clouds]
    densities = [_counted(places, offset * 2.0**LEVELS, same, ids) for offset in OFFSETS]
    # Clustering is measured up to a scale and only grows below it.
    ratios = np.fmax(*densities)
    values = np.maximum.accumulate(np.fmax(1.0, ratios), axis=1)
    if apart:  # then the last ratio that was measured is a bound below its scale
        known = np.where(np.isnan(ratios[0]), 0, np.arange(LEVELS + 1))
        values[0] = np.fmax(ratios[0, np.maximum.accumulate(known)], LEAST_APART)
    count = systems.count if systems else 1
    self_pairs = count / max(1, src.shape[1]) if same else 0.0
    return PairDensity(values[0], values[1:], self_pairs)


def _counted(
    places: list[NDArray[np.float64]], offset: float, same: bool, ids: list[NDArray[Any]]
) -> NDArray[np.float64]:
    """Return the enhancement in cells that begin at ``offset``, and the densities around pairs.

    Places and offset are in edges of the finest cells; ``ids`` are the systems of sources and
    targets. The shape is (3, LEVELS + 1), coarsest first. Values are NaN where pairs are few,
    except in the coarsest cell.
    """
    merged, shift = _merged(places, offset, ids)
    count = int(max(each.max(initial=0) for each in ids)) + 1
    sources, partners_of = (np.bincount(each, minlength=count).astype(float) for each in ids)
    possible = partners_of * np.maximum(sources - same, 1)
    keys = merged >> 1
    # Starts of the finest cells and the end of the last, and how many levels have cells there.
    edges, tops = np.arange(keys.size + 1), np.full(keys.size + 1, LEVELS + 1, dtype=np.int8)
    tops[1:-1] = (np.frexp(keys[1:] ^ keys[:-1])[1] + 2) // 3
    n_sources, n_targets = (places[n].shape[1] / count for n in (0, -1))
    if not same:  # targets before each point
        targets = np.concatenate([[0], np.cumsum(merged & 1, dtype=np.int64)])
    result = np.full((3, LEVELS + 1), np.nan)
    for level in range(LEVELS + 1):
        begins = tops > level
        edges, tops = edges[begins], tops[begins]
        members = edges[1:] - edges[:-1]
        in_cell = members if same else targets[edges[1:]] - targets[edges[:-1]]
        partners = members - (1 if same else in_cell)
        in_cells, share = in_cell * partners, 8.0 ** (level - LEVELS)
        pairs = int(in_cells.sum())
        if pairs < FEWEST_PAIRS and level < LEVELS:
            continue
        result[0, level] = pairs / (share * possible.sum())
        if count > 1:
            own = np.bincount(merged[edges[:-1]] >> shift, in_cells, count)
            enough = own >= FEWEST_PAIRS
            largest = (own[enough] / (share * possible[enough])).max(initial=0.0)
            result[0, level] = max(result[0, level], largest)
        others = [(2, partners, n_sources - same)]
        if not same:
            others.append((1, in_cell, n_targets))
        for row, beside, many in others:
            # Not a BLAS product: it starts threads, and costs milliseconds where other ranks wait.
            threes = int((in_cells * (beside - 1)).sum())
            if threes >= FEWEST_THREES:
                result[row, level] = threes / (pairs * share * max(many - 1, 1))
    if same:
        result[1] = result[2]
    return result[:, ::-1]


def sample(points: AnyArray) -> NDArray[np.float64]:
    """Return some of the points, with a stride, on the host."""
    part = points[:, :: max(1, points.shape[1] // SAMPLE)]
    return np.asarray(to_host(part), dtype=np.float64)


def _whole(
    points: AnyArray, chosen: NDArray[np.bool_], offsets: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the points of the chosen systems, on the host, and the system of each point."""
    counts = np.diff(offsets)
    kept = np.repeat(chosen, counts)
    ids = np.repeat(np.arange(chosen.sum()), counts[chosen])
    return np.asarray(to_host(points), dtype=np.float64)[:, kept], ids


def _merged(
    places: list[NDArray[np.float64]], offset: float, ids: list[NDArray[Any]]
) -> tuple[NDArray[Any], int]:
    """Return sorted keys, and the bit from which on they hold the system.

    A key is twice the Morton key of the point's finest cell, plus 1 for targets. The bits of three
    indices interleave, so that coarser cells are right shifts.
    """
    keys_of_all = []
    largest = max(float(points.max(initial=0.0)) for points in places) + offset
    systems = int(max(each.max(initial=0) for each in ids)).bit_length()
    most = min(_MOST, 2 ** ((62 - systems) // 3)) - 1
    shift = 3 * max(int(min(largest, most)).bit_length(), LEVELS + 1) + 1
    for number, points in enumerate(places):
        keys = np.full(points.shape[1], number)
        for axis, row in enumerate(points):
            index = np.clip(row + offset, 0, most).astype(np.int32)
            keys |= _SPREAD.take(index & _LOW) << axis + 1
            if index.max(initial=0) > _LOW:
                keys |= _SPREAD.take(index >> _BITS) << 3 * _BITS + axis + 1
        keys_of_all.append(keys | ids[number] << shift)
    both = np.concatenate(keys_of_all)
    small = both.max(initial=0) < 2**32
    return np.sort(both.astype(np.uint32) if small else both), shift  # takes half the time
