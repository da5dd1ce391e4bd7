"""Where less is reached than asked for, parki says so, and how much."""

from __future__ import annotations

from inspect import currentframe

import numpy as np
import pytest

import parki


def cloud(dtype):
    rng = np.random.default_rng(0)
    return (rng.random((3, 60)) * [[1], [1], [9]]).astype(dtype), rng.standard_normal((3, 60))


def test_warnings_point_at_the_users_line():
    src, norms = cloud("f8")
    options = parki.EwaldOptions(box=[1, 1, 5])  # of which points are outside, without a dl_mean
    plan = parki.Plan("stokes_dl", src[:, :0], src[:, :0], norms[:, :0], options, want="p")
    for call in (
        lambda: parki.Plan("stokes_dl", src, src, norms, options, want="p"),
        lambda: parki.stokes_dl(src, src, norms, norms, options, want="p"),
        lambda: plan.update_points(src, src, norms),
    ):
        with pytest.warns(parki.ParkiWarning) as heard:
            call()
        assert [w.filename for w in heard] == [__file__]


@pytest.mark.parametrize("module", [parki, parki.ewald])
def test_an_old_name_works_and_says_the_new_one(module):
    where = module.__name__
    said = rf"^{where}\.forget is deprecated, and not in version 0\.3; write {where}\.clear_cache$"
    with pytest.warns(parki.ParkiDeprecationWarning, match=said) as heard:
        found, line = module.forget, currentframe().f_lineno
    assert found is parki.clear_cache
    assert not parki.__version__.startswith("0.3"), "remove the old name"
    assert [(w.filename, w.lineno) for w in heard] == [(__file__, line)]
    with pytest.warns(DeprecationWarning, match=said) as heard:
        exec(compile(f"from {where} import forget", "their_script.py", "exec"))
    assert {(w.filename, w.lineno) for w in heard} == {("their_script.py", 1)}


def test_calls_of_ranks_by_their_earlier_names():
    said = r"distributed\.ewald\.stokes_sl is deprecated, .*; write parki\.distributed\.stokes_sl$"
    with pytest.warns(parki.ParkiDeprecationWarning, match=said) as heard:
        assert parki.distributed.ewald.stokes_sl is parki.distributed.stokes_sl
    assert heard[0].filename == __file__
    with pytest.raises(AttributeError, match="has no attribute 'stokes'"):
        print(parki.distributed.ewald.stokes)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="module 'parki' has no attribute 'forgets'"):
        print(parki.forgets)
    assert not hasattr(parki.ewald, "stokes")
