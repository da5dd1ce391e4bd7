"""How much closer together points are than uniform ones would be.

The error estimates average over uniformly spread points. For others the square of an error grows
by the number of pairs at short range, relative to the uniform number: `pair_density` measures that
at every scale, from a sample, so that clouds of any shape keep the promise of the tolerance. And it
measures how many others there are about a pair, which tells what P2P reads for the next one again.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.geometry.systems import Systems
from parki.interchange import to_host

# Points of a sample; of systems, times as many, in whole ones.
SAMPLE, WHOLE = 16384, 8
LEVELS = 9
# Where the two sets of cells begin along each axis, in their largest edge. A cluster that faces of
# one set cut is whole in the other, as a third of 2^-n is not near a multiple of 2^-m. Clusters lie
# in the middle of their box more often than elsewhere: no large cell ends there.
OFFSETS = (0.137, 0.137 + 1 / 3)
# A cell's edge over a radius, for the same part of the close pairs: those of a cube are further
# apart than those of the sphere of its volume, whose ratio is 1.6.
EDGE = 1.3
# Pairs, and threes, below which their number says little.
FEWEST_PAIRS, FEWEST_THREES = 30, 100
# Cells along an axis, at most; and numbers of ten bits with two zeros between neighbouring bits.
_MOST = 2**20
_BITS = 10
_LOW = 2**_BITS - 1
_SPREAD = ((np.arange(_LOW + 1)[:, None] >> np.arange(_BITS) & 1) << 3 * np.arange(_BITS)).sum(
    axis=1
)


@dataclass(frozen=True)
class PairDensity:
    """Density of (target, source) pairs over that of uniform points, by scale.

    Attributes
    ----------
    scales : ndarray, shape (n,)
        Edge lengths of the cells in which pairs were counted, decreasing, in units of the cube
        root of the box's volume.
    enhancement : ndarray, shape (n,)
        Pairs of different points found within a cell, over the uniform number; at least 1.
    around : ndarray, shape (2, n)
        Density of targets, and of sources, in the cells where pairs are, over the mean one of all;
        at least 1.
    self_pairs : float
        Probability that a target's partner is the very same point: 1/N where targets are sources.
    """

    scales: NDArray[np.float64]
    enhancement: NDArray[np.float64]
    around: NDArray[np.float64]
    self_pairs: float

    @cached_property
    def _table(self) -> tuple[list[float], list[float], list[float], list[list[float]]]:
        """Scales and enhancements by increasing scale; logarithms of them, and of ``around``."""
        scales, values = self.scales[::-1], self.enhancement[::-1]
        logarithms = np.log([values, *self.around[:, ::-1]]).tolist()
        return scales.tolist(), values.tolist(), np.log(scales).tolist(), logarithms

    def at(self, scale: float) -> float:
        """Return the enhancement at a scale: the largest of the two cells that enclose it.

        Beyond the largest cell it is that cell's, as it falls with the scale.
        """
        scales, values, _, _ = self._table
        index = bisect_right(scales, scale)
        return max(1.0, *values[max(index - 1, 0) : index + 1])

    def typical(self, radius: float) -> float:
        """Return the enhancement of the pairs within a radius, between the scales: no bound."""
        return self._between(radius)[0]

    def about(self, radius: float) -> tuple[float, float]:
        """Return the densities of targets and of sources around pairs within a radius."""
        _, targets, sources = self._between(radius)
        return targets, sources

    def _between(self, radius: float) -> list[float]:
        """Return the enhancement and the densities around pairs between the scales."""
        _, _, scales, rows = self._table
        scale = math.log(EDGE * radius)
        index = min(max(bisect_right(scales, scale), 1), len(scales) - 1)
        part = (scale - scales[index - 1]) / (scales[index] - scales[index - 1])
        part = min(max(part, 0.0), 1.0)
        return [math.exp(row[index - 1] + part * (row[index] - row[index - 1])) for row in rows]


def pair_density(
    trg: Any, src: Any, box: NDArray[np.float64], systems: Systems | None = None
) -> PairDensity:
    """Measure the pair density of a cloud: the larger one by two sets of cells.

    Of systems it is the largest of all that have pairs enough to say it.

    Parameters
    ----------
    trg, src : array, shape (3, N), NumPy or CuPy
        Points in ``box`` (wrapped), in sorted or random order. Sampled with a stride; of systems,
        so many that there are more whole ones.
    box : ndarray, shape (3,)
        Edge lengths.
    systems : Systems, optional
        Which points are pairs. Default: all.
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
    scales = 2.0 ** -np.arange(LEVELS + 1.0)
    places = [cloud * (2.0**LEVELS / unit) for cloud in clouds]
    found = [_counted(places, offset * 2.0**LEVELS, same, ids) for offset in OFFSETS]
    # Clustering is measured up to a scale and only grows below it.
    values = np.maximum.accumulate(np.fmax(1.0, np.fmax(*found)), axis=1)
    count = systems.count if systems else 1
    self_pairs = count / max(1, src.shape[1]) if same else 0.0
    return PairDensity(scales, values[0], values[1:], self_pairs)


def _counted(
    places: list[NDArray[np.float64]], offset: float, same: bool, ids: list[NDArray[Any]]
) -> NDArray[np.float64]:
    """Return the enhancement in cells that begin at ``offset``, and the densities around pairs.

    Places and offset are in the finest cells' edges; ``ids`` are the systems of sources and
    targets. Shape (3, LEVELS + 1), coarsest first; NaN where few pairs say little, but in the
    coarsest.
    """
    merged, shift = _merged(places, offset, ids)
    count = int(max(each.max(initial=0) for each in ids)) + 1
    sources, partners_of = (np.bincount(each, minlength=count).astype(float) for each in ids)
    possible = partners_of * np.maximum(sources - same, 1)
    keys = merged >> 1
    # Where cells of the finest level begin, and up to which level they do; the last one's end.
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
        found = members if same else targets[edges[1:]] - targets[edges[:-1]]
        partners = members - (1 if same else found)
        in_cells, share = found * partners, 8.0 ** (level - LEVELS)
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
            others.append((1, found, n_targets))
        for row, beside, many in others:
            # No product of BLAS: it starts threads, for milliseconds where ranks wait beside.
            threes = int((in_cells * (beside - 1)).sum())
            if threes >= FEWEST_THREES:
                result[row, level] = threes / (pairs * share * max(many - 1, 1))
    if same:
        result[1] = result[2]
    return result[:, ::-1]


def sample(points: Any) -> NDArray[np.float64]:
    """Return some of the points, with a stride, on the host."""
    part = points[:, :: max(1, points.shape[1] // SAMPLE)]
    return np.asarray(to_host(part), dtype=np.float64)


def _whole(
    points: Any, chosen: NDArray[np.bool_], offsets: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the points of the systems that were chosen, on the host, and each one's system."""
    counts = np.diff(offsets)
    kept = np.repeat(chosen, counts)
    ids = np.repeat(np.arange(chosen.sum()), counts[chosen])
    return np.asarray(to_host(points), dtype=np.float64)[:, kept], ids


def _merged(
    places: list[NDArray[np.float64]], offset: float, ids: list[NDArray[Any]]
) -> tuple[NDArray[Any], int]:
    """Return, sorted, twice the Morton keys of points in cells of the finest level, + 1 of targets.

    The bits of three indices interleave, so that coarser cells are right shifts. Above them are the
    bits of the system, from the second number returned on.
    """
    found = []
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
        found.append(keys | ids[number] << shift)
    both = np.concatenate(found)
    small = both.max(initial=0) < 2**32
    return np.sort(both.astype(np.uint32) if small else both), shift  # half the time
