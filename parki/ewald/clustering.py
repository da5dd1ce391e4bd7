"""How much closer together points are than uniform ones would be.

The error estimates average over uniformly spread points. For others the square of an error grows
by the number of pairs at short range, relative to the uniform number: `pair_density` measures that
at every scale, from a sample, so that clouds of any shape keep the promise of the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLE = 32768
LEVELS = 9


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
    self_pairs : float
        Probability that a target's partner is the very same point: 1/N where targets are sources.
    """

    scales: NDArray[np.float64]
    enhancement: NDArray[np.float64]
    self_pairs: float

    def at(self, scale: float) -> float:
        """Return the enhancement at a scale: the largest of the two cells that enclose it."""
        index = int(np.searchsorted(-self.scales, -scale))
        low = min(max(index - 1, 0), self.scales.size - 1)
        return float(self.enhancement[low : index + 1].max(initial=1.0))


def pair_density(trg: Any, src: Any, box: NDArray[np.float64]) -> PairDensity:
    """Measure the pair density of a cloud.

    Parameters
    ----------
    trg, src : array, shape (3, N), NumPy or CuPy
        Points in ``box`` (wrapped), in sorted or random order. Sampled with a stride.
    box : ndarray, shape (3,)
        Edge lengths.
    """
    samples = [_sample(trg), _sample(src)]
    same = trg.shape == src.shape and np.array_equal(samples[0], samples[1])
    unit = float(np.prod(box)) ** (1 / 3)
    finest = unit * 2.0**-LEVELS
    keys = [_morton(np.floor(s / finest).astype(np.int64)) for s in samples]
    scales, enhancement = [], []
    for level in range(LEVELS + 1):
        cells_t, counts_t = np.unique(keys[0] >> (3 * level), return_counts=True)
        if same:
            pairs = float((counts_t * (counts_t - 1.0)).sum())
            total = keys[0].size * (keys[0].size - 1.0)
        else:
            cells_s, counts_s = np.unique(keys[1] >> (3 * level), return_counts=True)
            _, i, j = np.intersect1d(cells_t, cells_s, assume_unique=True, return_indices=True)
            pairs = float((counts_t[i] * counts_s[j].astype(float)).sum())
            total = float(keys[0].size) * keys[1].size
        scale = 2.0 ** (level - LEVELS)
        # Few pairs say little: below 30 the estimate keeps the coarser scale's value.
        uniform = max(scale**3 * total, 1e-300)
        scales.append(scale)
        enhancement.append(pairs / uniform if pairs >= 30 or level == LEVELS else np.nan)
    order = np.arange(LEVELS, -1, -1)
    values = np.maximum(np.array(enhancement)[order], 1.0)
    for k in range(1, values.size):
        if np.isnan(values[k]):
            values[k] = values[k - 1]
    # Clustering is measured up to a scale and only grows below it.
    values = np.maximum.accumulate(np.nan_to_num(values, nan=1.0))
    return PairDensity(np.array(scales)[order], values, 1.0 / max(1, src.shape[1]) if same else 0.0)


def _sample(points: Any) -> NDArray[np.float64]:
    part = points[:, :: max(1, points.shape[1] // SAMPLE)]
    return np.asarray(part.get() if hasattr(part, "get") else part, dtype=np.float64)


def _morton(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Interleave the bits of three indices, so that coarser cells are right shifts."""
    key = np.zeros(index.shape[1], dtype=np.int64)
    index = np.clip(index, 0, 2**20 - 1)
    for bit in range(20):
        for axis in range(3):
            key |= ((index[axis] >> bit) & 1) << (3 * bit + axis)
    return key
