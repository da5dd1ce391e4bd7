"""The smallest and the largest values of rows, by which devices check what they are given."""

from __future__ import annotations

import numpy as np
import pytest

from parki.ewald import points
from parki.runtime import get_execution_space, load


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("items", [1, 7, 100])
def test_kernel(real, items):
    dtype = {"float": "f4", "double": "f8"}[real]
    rows = np.random.default_rng(2).standard_normal((3, 100)).astype(dtype)
    rows[1, 50], rows[2, 70] = np.inf, np.nan
    low, high = np.empty((2, 3, items), dtype)
    sizes = {"total": 100, "items": items, "rows": 3}
    kernel = load("extremes", "extremes", get_execution_space("CPU"), REAL=real)
    kernel(items, lows=rows, highs=rows, low=low, high=high, **sizes)
    assert (low[0].min(), high[0].max()) == (rows[0].min(), rows[0].max())
    assert np.isnan(low[1:].min(axis=1)).all()
    assert np.isnan(high[1:].max(axis=1)).all()


@pytest.mark.parametrize("count", [1, 300, 10_000, 40_000])
def test_all_spaces(space, to_space, count):
    rows = np.random.default_rng(3).standard_normal((6, count))
    found, none, few = points.extremes(to_space(rows), to_space(rows[:2, :0]), to_space(rows[:1]))
    np.testing.assert_array_equal(found, [rows.min(axis=1), rows.max(axis=1)])
    assert none.shape == (0, 2)
    np.testing.assert_array_equal(few, found[:, :1])
    rows[4, count // 2] = np.inf
    assert not np.isfinite(*points.extremes(to_space(rows))).all()
