"""`near_pairs` has the pairs of a search over all images, and their matrices are right."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from started import NO_GPU

import parki
from parki.solving import pairs as module
from parki.solving import search

BOX = np.array([1.0, 0.7, 0.4])


def points(count, seed=0, spread=0.0, periodicity=3):
    """Return points of a box, some of them ``spread`` periods away along its periodic axes."""
    rng = np.random.default_rng(seed)
    found = rng.random((3, count)) * BOX[:, None]
    found[:periodicity] += (
        spread * BOX[:periodicity, None] * rng.integers(-2, 3, (periodicity, count))
    )
    return found


def all_pairs(trg, src, radius, periodicity):
    """Return (target, source, displacement) of all pairs within a radius, sorted."""
    counts = [math.ceil(radius / BOX[axis]) + 5 if axis < periodicity else 0 for axis in range(3)]
    found = []
    for image in itertools.product(*(range(-n, n + 1) for n in counts)):
        r = trg[:, :, None] - src[:, None, :] - (np.array(image) * BOX)[:, None, None]
        distance = np.linalg.norm(r, axis=0)
        rows, columns = np.nonzero((distance <= radius) & (distance > 1e-12))
        found += [
            (int(i), int(j), *r[:, i, j].tolist()) for i, j in zip(rows, columns, strict=True)
        ]
    return sorted(found)


def listed(pairs):
    rows = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    np.testing.assert_array_equal(rows, pairs.targets)
    columns = zip(rows.tolist(), pairs.indices.tolist(), *pairs.displacements.tolist(), strict=True)
    return sorted(columns)


def same(found, expected, atol=1e-13):
    """Compare pairs; images of one pair may differ in rounding, and so in their order."""
    assert [pair[:2] for pair in found] == [pair[:2] for pair in expected]
    for place in (2, 3, 4):
        key = [(*pair[:2], pair[place]) for pair in found]
        known = [(*pair[:2], pair[place]) for pair in expected]
        np.testing.assert_allclose(sorted(key), sorted(known), atol=atol)


# Longer than half an edge, and than whole edges, of a flat box.
@pytest.mark.parametrize("radius", [0.1, 0.199, 0.2, 0.5, 1.1])
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
def test_pairs_are_those_of_a_search_over_all_images(periodicity, radius):
    trg, src = points(40, 1, 1.0, periodicity), points(50, 2, 1.0, periodicity)
    found = parki.near_pairs(trg, src, radius, periodicity=periodicity, box=BOX)
    expected = all_pairs(trg, src, radius, periodicity)
    assert len(expected) > (5 if radius < 0.15 else 50)
    same(listed(found), expected)
    np.testing.assert_allclose(found.distances, np.linalg.norm(found.displacements, axis=0))
    assert found.shape == (40, 50)
    assert found.indptr.dtype == found.indices.dtype == np.int32


def test_a_point_has_its_images_and_not_itself():
    cloud = points(20)
    found = parki.near_pairs(cloud, cloud, 0.41, periodicity=3, box=BOX)
    same(listed(found), all_pairs(cloud, cloud, 0.41, 3))
    own = found.displacements[:, found.targets == found.indices]
    assert own.shape[1] == 2 * 20
    np.testing.assert_allclose(np.sort(own[2]), np.repeat([-0.4, 0.4], 20))
    counts = found.matrix(np.ones(found.indices.size)).toarray()  # images of a pair are added
    assert counts.max() > 1 and counts.sum() == found.indices.size
    # As the sums have it, any source at the target is left out.
    assert parki.near_pairs(cloud, cloud.copy(), 0.01, periodicity=3, box=BOX).indices.size == 0


def test_no_box_and_far_points():
    cloud = points(30)
    cloud[0, :3] += 1e7
    found = parki.near_pairs(cloud, cloud, 0.3, periodicity=0)
    same(listed(found), all_pairs(cloud, cloud, 0.3, 0), atol=1e-8)
    free = parki.near_pairs(cloud[::-1], cloud[::-1], 0.3, periodicity=1, box=[0.4, None, None])
    assert free.indices.size > found.indices.size


def test_single_precision_has_exact_differences():
    cloud = points(120, 0, 1.0).astype(np.float32)
    found = parki.near_pairs(cloud, cloud, 0.12, periodicity=3, box=BOX)
    assert found.displacements.dtype == found.distances.dtype == np.float32
    same(listed(found), all_pairs(cloud.astype(float), cloud.astype(float), 0.12, 3), atol=4e-9)


@pytest.mark.parametrize(("targets", "sources"), [(0, 5), (5, 0), (0, 0), (4, 1)])
def test_no_pairs(targets, sources):
    """Of no points, or of points far apart."""
    far = np.full((3, sources), 0.9) * [[1], [0.1], [0.1]]
    found = parki.near_pairs(0.1 * points(targets), far, 0.01, periodicity=3, box=BOX)
    assert found.indptr.tolist() == [0] * (targets + 1)
    assert found.targets.shape == found.indices.shape == found.distances.shape == (0,)
    assert found.displacements.shape == (3, 0)
    assert found.matrix(np.empty((3, 3, 0))).shape == (3 * targets, 3 * sources)


def test_matrix_is_the_operator_of_a_plan():
    """All pairs of a free sum are near."""
    trg, src = points(20, 1), points(30, 2)
    options = parki.EwaldOptions(periodicity=0, tolerance=1e-10)
    pairs = parki.near_pairs(trg, src, 2, options)
    assert pairs.indices.size == 600
    r, d = pairs.displacements, pairs.distances
    blocks = np.eye(3)[:, :, None] / d + r[:, None] * r / d**3
    operator = parki.Plan("stokes_sl", trg, src, options).as_linear_operator()
    vector = np.random.default_rng(0).standard_normal(90)
    np.testing.assert_allclose(pairs.matrix(blocks) @ vector, operator @ vector, rtol=1e-8)
    turned = np.cross(np.eye(3)[:, :, None], r[:, None], axisa=0, axisb=0, axisc=0) / d**3
    operator = parki.Plan("stokes_rotlet", trg, src, options).as_linear_operator()
    np.testing.assert_allclose(pairs.matrix(turned) @ vector, operator @ vector, atol=1e-7)
    values = pairs.matrix(1 / d) @ vector[:30]
    expected = parki.laplace(trg, src, vector[:30], options)
    np.testing.assert_allclose(values, expected, rtol=1e-8)
    with pytest.raises(parki.ParkiValueError, match="values has shape"):
        pairs.matrix(np.ones((3, pairs.indices.size)))


def test_on_a_lattice_pairs_at_the_radius_count_on_both_sides():
    line = np.arange(8) / 8
    lattice = np.stack(np.meshgrid(line, line, line)).reshape(3, -1)  # exact in binary
    found = parki.near_pairs(lattice, lattice, 0.125, periodicity=3, box=[1, 1, 1])
    assert np.diff(found.indptr).tolist() == [6] * 512


@pytest.mark.parametrize(
    ("error", "match", "changes"),
    [
        (parki.ParkiValueError, "radius is -1; expected a positive", {"radius": -1}),
        (parki.ParkiTypeError, "radius is 'far'; expected a positive", {"radius": "far"}),
        (parki.ParkiValueError, r"images and .* expected under 2\*\*31", {"radius": 1e9}),
        (parki.ParkiTypeError, "options is a NoneType", {"box": None, "periodicity": None}),
        (parki.ParkiValueError, r"src has shape \(5, 3\)", {"src": points(5).T}),
    ],
)
def test_errors_teach(error, match, changes):
    given = {"trg": points(5), "src": points(5), "radius": 1, "periodicity": 3, "box": BOX}
    with pytest.raises(error, match=match):
        parki.near_pairs(**{n: v for n, v in (given | changes).items() if v is not None})


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
def test_gpu(periodicity):
    import cupy

    trg, src = points(400, 1, 1.0, periodicity), points(500, 2, 1.0, periodicity)
    options = parki.EwaldOptions(periodicity=periodicity, box=BOX)
    host = parki.near_pairs(trg, src, 0.21, options)
    found = parki.near_pairs(cupy.asarray(trg), cupy.asarray(src), 0.21, options)
    assert isinstance(found.displacements, cupy.ndarray)
    names = ("indptr", "indices", "displacements", "distances")
    on_host = module.NearPairs(*(getattr(found, name).get() for name in names), found.shape)
    np.testing.assert_array_equal(found.targets.get(), on_host.targets)
    same(listed(on_host), listed(host))
    blocks = found.displacements[:, None] * found.displacements
    vector = cupy.asarray(np.random.default_rng(0).standard_normal(1500))
    product = host.matrix(host.displacements[:, None] * host.displacements) @ vector.get()
    np.testing.assert_allclose((found.matrix(blocks) @ vector).get(), product, atol=1e-12)
    with pytest.raises(parki.ParkiTypeError, match="values is an array of numpy"):
        found.matrix(host.distances)
    # A correction next to a plan, as one operator.
    from cupyx.scipy.sparse.linalg import aslinearoperator

    plan = parki.Plan("stokes_sl", cupy.asarray(trg), cupy.asarray(src), options)
    both = plan.as_linear_operator() + aslinearoperator(found.matrix(blocks))
    apart = plan(vector.reshape(3, -1)).ravel() + found.matrix(blocks) @ vector
    cupy.testing.assert_allclose(both @ vector, apart, atol=1e-10)
    assert parki.near_pairs(cupy.asarray(trg[:, :0]), cupy.asarray(src), 1, options).shape[0] == 0


@pytest.mark.parametrize(("periodicity", "radius"), [(1, 1e7), (2, 8e3), (3, 150)])
def test_what_does_not_fit_is_refused_at_once(periodicity, radius, monkeypatch):
    """Took 11 GB and ended in a bare error of NumPy's."""
    monkeypatch.setattr("parki.memory.free_memory", lambda space: 8e9)
    cloud = points(5)
    with pytest.raises(parki.ParkiMemoryError, match=r"a radius of .* but 8 GB are free"):
        parki.near_pairs(cloud, cloud, radius, periodicity=periodicity, box=[1, 1, 1])
    monkeypatch.setattr(search, "MOST", 100)
    with pytest.raises(parki.ParkiValueError, match=r"has 2\*\*31 pairs or more"):
        parki.near_pairs(points(30), points(30), 1, periodicity=0)
