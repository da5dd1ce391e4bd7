"""Arrays whose elements 32 bits cannot count: offsets into them have 64."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import parki
from parki.ewald.near import sizes
from parki.runtime import get_execution_space
from parki.runtime.spaces import why_unavailable
from parki.runtime.specialise import specialise
from parki.runtime.translate import translate

# 6 N elements of the density are more than 2^31. In all some 90 GB, in single precision.
POINTS = 360_000_000
TOLERANCE = 1e-2
TARGETS = 1000


def test_offsets_have_64_bits():
    """Of a view with rows, and of the pairs of reals that are modes."""
    text = translate(specialise("fgc", "convolve", {})).text
    assert "long long re = i;" in text and "((long long)(0)) * pk_extent_hat_1 + (re)" in text
    text = translate(specialise("cell_list", "gather_rows", {})).text
    assert "((long long)(c)) * pk_extent_rows_1" in text


def test_cells_are_few_enough_to_be_counted():
    space = get_execution_space("Serial")
    shape = sizes.cells_of(np.ones(3), 1e-4, 2 * 10**9, None, space)
    assert 2**28 < np.prod(shape, dtype=float) <= 2**30
    for on_device in (False, True):
        other = SimpleNamespace(on_device=on_device)
        shape, most = sizes.cells_of(np.ones(3), 1e-3, 10_000, None, other), sizes.sizes_of(other)
        assert 0.9 * most.cells < np.prod(shape) / 10_000 <= most.cells


def test_columns_are_narrow_where_clouds_are_dense():
    """On a CPU alone, and not across edges within the cut-off."""
    host, device = (SimpleNamespace(on_device=each) for each in (False, True))
    box = np.array([1.0, 0.1, 1.0])
    assert sizes.cells_of(box, 0.2, 600, None, host) == (10, 1, 40)  # 48 in a cube of edge r_c
    assert sizes.cells_of(box, 0.2, 5400, None, host) == (30, 1, 40)
    assert sizes.cells_of(box, 0.2, 5400, None, device) == (10, 1, 40)
    assert sizes.staged_at_once(host, 72) == 256
    assert [sizes.staged_at_once(host, size) for size in (104, 248)] == [128, 64]


@pytest.mark.gpu
@pytest.mark.slow
def test_more_elements_than_32_bits():
    """A sum over all sources is that over one half and that over the other."""
    reason = why_unavailable("Cuda")
    if reason:
        pytest.skip(reason)
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    needed = 110e9
    if cupy.cuda.Device().mem_info[0] < needed:
        pytest.skip(f"needs {needed / 1e9:.0f} GB of free device memory")
    rng = cupy.random.default_rng(0)
    src, norms, dens = (rng.random((rows, POINTS), dtype="f4") for rows in (3, 3, 6))
    for values in (norms, dens):  # of random sign, as the promise wants it
        values -= np.float32(0.5)
    # A coarser grid than is fastest: the fastest one has no room here.
    options = parki.EwaldOptions(3, [1, 1, 1], TOLERANCE, cutoff=0.012)
    plan = parki.Plan("stokes_comb", src, src, norms, options)
    whole = plan(dens)[:, -TARGETS:].get()
    del plan
    trg = src[:, -TARGETS:].copy()
    parts = 0
    for half in (slice(0, POINTS // 2), slice(POINTS // 2, None)):
        pool.free_all_blocks()
        arguments = (cupy.ascontiguousarray(values[:, half]) for values in (src, dens, norms))
        parts = parts + parki.stokes_comb(trg, *arguments, options).get()
    # Means of f^2, and of q^2 n^2: 3 / 12 and 9 / 144 for each source.
    promise = TOLERANCE * ((POINTS * 3 / 12) ** 0.5 + (POINTS * 9 / 144) ** 0.5)
    flow = float(np.sqrt((whole**2).sum(axis=0).mean()))
    error = float(np.sqrt(((whole - parts) ** 2).sum(axis=0).mean()))
    assert error < 2 * promise + 64 * float(np.finfo("f4").eps) * flow
    assert flow > 10 * promise
