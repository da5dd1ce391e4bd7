"""`pair_density`: near 1 for uniform points, large for clusters, and never too small for errors."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial

import numpy as np
import pytest

import parki
from parki.ewald.choice.clustering import FEWEST_PAIRS, LEVELS, OFFSETS, SAMPLE, pair_density

BOX = np.array([1.0, 1.0, 1.0])


def uniform(n, seed=0, box=BOX):
    return np.random.default_rng(seed).random((3, n)) * np.asarray(box)[:, None]


def sphere(n, radius=0.3, seed=0):
    x = np.random.default_rng(seed).standard_normal((3, n))
    return 0.5 + radius * x / np.linalg.norm(x, axis=0)


def blob(n, width=0.03, seed=0):
    return np.clip(0.5 + width * np.random.default_rng(seed).standard_normal((3, n)), 0, 1)


wide = partial(blob, width=0.06)


def counted(trg, src, radius):
    """Pairs of different points within a radius, over the uniform number; by brute force."""
    square = ((trg[:, :, None] - src[:, None, :]) ** 2).sum(axis=0)
    pairs = ((square > 0) & (square < radius**2)).sum()
    return pairs / (trg.shape[1] * src.shape[1] * 4 / 3 * np.pi * radius**3)


@pytest.mark.parametrize("n", [2, 50, 3000, 100_000])
@pytest.mark.parametrize("box", [BOX, np.array([3.0, 2.0, 1.0])])
@pytest.mark.parametrize("same", [True, False])
def test_uniform_points(n, box, same):
    src = uniform(n, box=box)
    density = pair_density(src if same else uniform(n, 1, box), src, box)
    for scale in (0.5, 0.2, 0.1, 0.03):
        assert 1 <= density.at(scale) < 2, scale
        assert n < 100 or 1 <= max(density.about(scale)) < 1.3, scale
    assert density.self_pairs == (1 / n if same else 0)


def test_structure():
    density = pair_density(sphere(2000), sphere(2000), BOX)
    assert density.enhancement.shape == (LEVELS + 1,)
    assert np.all(np.diff(density.enhancement) >= 0) and density.enhancement[0] >= 1
    # Between two scales the larger value holds; beyond the ends the outermost.
    assert density.at(10) == density.enhancement[0]
    assert density.at(1e-9) == density.enhancement[-1]
    assert density.at(0.2) >= density.at(0.3)


@pytest.mark.parametrize("points", [sphere, blob])
@pytest.mark.parametrize("same", [True, False])
def test_clusters_are_seen_at_every_scale(points, same):
    """Not much below what a count within spheres finds: errors grow by this factor."""
    src = points(2000)
    trg = src if same else points(2000, seed=1)
    density = pair_density(trg, src, BOX)
    for radius in (0.2, 0.1, 0.05, 0.02):
        found = counted(trg, src, radius)
        assert found > 1.2
        assert 0.5 * found < density.at(radius) < 8 * found, radius


def flat(axes, n, seed=0):
    """Return points about the middle of the box along some axes, uniform along the others."""
    points = uniform(n, seed)
    points[axes] = 0.5 + 0.01 * np.random.default_rng(seed).standard_normal((len(axes), n))
    return points


CLOUDS = {"sphere": sphere, "blob": blob, "sheet": partial(flat, [2]), "rod": partial(flat, [0, 1])}


@pytest.mark.parametrize("name", CLOUDS)
def test_pairs_within_a_radius(name):
    """As counted: P2P takes as long as there are pairs.

    Cells that ended in the middle of the box, and so cut these clouds, missed up to four fifths.
    """
    src = CLOUDS[name](3000)
    density = pair_density(src, src, BOX)
    for radius in (0.1, 0.05, 0.02):
        found = counted(src, src, radius)
        assert 0.75 < density.typical(radius) / found < 1.45, radius


@pytest.mark.parametrize(
    "place", [0.5, *(pytest.param(x, marks=pytest.mark.slow) for x in (0.363, 0.53, 0.75))]
)
def test_a_cluster_keeps_the_promise_wherever_it_is(place):
    """In the middle of the box, where all cells met, the error was 1.8 promises."""
    rng = np.random.default_rng(5)
    src = place + 0.01 * rng.standard_normal((3, 30_000))
    dens = rng.standard_normal((3, 30_000))

    tried = parki.Plan("stokes_sl", src, src, parki.EwaldOptions(3, BOX, 1e-3))
    some = src[:, ::20].copy()  # for which the better sum takes a second
    exact = parki.stokes_sl(some, src, dens, parki.EwaldOptions(3, BOX, 1e-8))
    error = tried(dens)[:, ::20] - exact
    assert np.sqrt((error**2).sum(axis=0).mean()) < 0.7 * tried.promise(dens)


def test_clusters_far_apart_from_the_targets():
    """Targets elsewhere make no close pairs, and targets all over few."""
    density = pair_density(0.5 * uniform(3000), 0.5 + 0.5 * uniform(3000, 1), BOX)
    assert density.at(0.1) == 1 and density.self_pairs == 0
    assert 0.9 < pair_density(uniform(5000), blob(5000), BOX).at(0.1) < 3


def beside(trg, src, radius):
    """Targets and sources around the pairs within a radius, over the mean; by brute force."""
    near = ((trg[:, :, None] - src[:, None, :]) ** 2).sum(axis=0) < radius**2
    same = int(trg is src)
    near[np.arange(same * src.shape[1]), np.arange(same * src.shape[1])] = False
    ball = 4 / 3 * np.pi * radius**3
    return [
        float((n * (n - 1)).sum() / n.sum() / (many * ball))
        for n, many in ((near.sum(axis=0), trg.shape[1]), (near.sum(axis=1), src.shape[1]))
    ]


@pytest.mark.parametrize(
    ("trg", "src"),
    [
        *((None, src) for src in (uniform, sphere, wide)),
        *((uniform, src) for src in (sphere, wide)),
        *((trg, uniform) for trg in (sphere, wide)),
        (wide, wide),
    ],
)
def test_who_is_about_pairs(trg, src):
    """Around a pair both clouds are as dense as they are there, not as they are on average."""
    src = src(2000)
    trg = src if trg is None else trg(2000, seed=1)
    density = pair_density(trg, src, BOX)
    for radius in (0.05, 0.1, 0.2):
        ratio = np.divide(density.about(radius), np.maximum(beside(trg, src, radius), 1))
        assert np.all((ratio > 0.5) & (ratio < 3)), radius  # cubes, not balls


def test_the_same_values_in_two_arrays_count_as_the_same_points():
    src = uniform(500)
    first, second = pair_density(src, src, BOX), pair_density(src.copy(), src, BOX)
    np.testing.assert_array_equal(first.enhancement, second.enhancement)
    assert first.self_pairs == second.self_pairs == 1 / 500


def test_some_targets_are_sources():
    """Coinciding pairs show at the finest scale, as they do in the error."""
    src = uniform(3000)
    trg = uniform(3000, 1)
    trg[:, :1500] = src[:, :1500]
    density = pair_density(trg, src, BOX)
    assert density.at(2.0**-LEVELS) >= 1500 / 3000**2 * 2.0 ** (3 * LEVELS) * 0.9


def test_odd_clouds():
    """Points that coincide, and points on the faces: a free axis includes its far face."""
    for n in (1, 2, 5, 400):
        src = np.full((3, n), 0.3)
        density = pair_density(src, src, BOX)
        assert np.all(np.isfinite(density.enhancement)) and density.self_pairs == 1 / n
    assert density.at(0.1) > 100
    for edge in (0.0, 1.0):
        src = uniform(1000)
        src[1] = edge
        assert np.all(np.isfinite(pair_density(src, src, BOX).enhancement))


def test_the_sample_is_enough():
    """Large clouds are sampled with a stride; the estimate stays."""
    many, few = sphere(4 * SAMPLE + 3), sphere(SAMPLE // 2)
    for scale in (0.2, 0.05):
        whole, part = (pair_density(p, p, BOX).at(scale) for p in (many, few))
        assert whole == pytest.approx(part, rel=0.15)


def test_single_precision_and_layouts():
    src = sphere(2000)
    expected = pair_density(src, src, BOX).at(0.05)
    for other in (src.astype("f4"), np.asfortranarray(src), np.repeat(src, 2, axis=1)[:, ::2]):
        assert pair_density(other, other, BOX).at(0.05) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("box", [(1, 1, 1), (0.2, 1, 60)], ids=["cube", "long"])
@pytest.mark.parametrize("same", [True, False])
def test_pairs_are_counted_cell_by_cell(box, same):
    """As counted with a table of cells, of 32 bits in the cube and of 64 in the long box."""
    rng, edges = np.random.default_rng(6), np.array(box)
    middles = edges[:, None] * rng.random((3, 6))
    src = middles[:, rng.integers(6, size=900)] + 0.03 * rng.standard_normal((3, 900))
    src = np.clip(src, 0, edges[:, None])
    trg = src if same else np.concatenate([src[:, ::3], edges[:, None] * rng.random((3, 500))], 1)
    unit = float(edges.prod()) ** (1 / 3)
    density = pair_density(trg, src, edges)
    expected = np.ones(LEVELS + 1)
    for level, offset in itertools.product(range(LEVELS + 1), OFFSETS):
        width = unit / 2**level
        cells = [
            Counter(map(tuple, np.floor((points + offset * unit) / width).astype(int).T.tolist()))
            for points in (src, trg)
        ]
        pairs = sum(n * (cells[0][cell] - same) for cell, n in cells[1].items())
        if pairs >= FEWEST_PAIRS or level == 0:
            uniform = trg.shape[1] * (src.shape[1] - same) / 8**level
            expected[level] = max(expected[level], pairs / uniform)
    assert expected.max() > 50
    assert np.allclose(density.enhancement, np.maximum.accumulate(expected), rtol=1e-12)
