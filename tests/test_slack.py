"""Points whose number changes from step to step: devices keep their recorded launches."""

from __future__ import annotations

import numpy as np
import pytest

import parki
from parki import EwaldOptions
from parki.ewald.pipeline import one_device as pipeline
from parki.ewald.pipeline.slack import Slack
from parki.ewald.sums import SUMS


class Direct:
    """As `Replay`, on a space that records nothing: does the work anew each time."""

    problem = ""

    def __init__(self, space, work, arrays):
        xp = space.array_module
        self.arrays = {n: xp.empty(a.shape, dtype=a.dtype) for n, a in arrays.items()}
        self.work = work

    def takes(self, arrays):
        return {n: a.shape for n, a in arrays.items()} == {
            n: a.shape for n, a in self.arrays.items()
        }

    def __call__(self, given, results):
        for name, array in given.items():
            self.arrays[name][...] = array
        self.work(self.arrays)
        for name, array in results.items():
            array[...] = self.arrays[name]


@pytest.fixture
def recorded(space, monkeypatch):
    """Have every space record, or do as if it did."""
    if not space.on_device:
        monkeypatch.setattr(pipeline, "why_not", lambda *_: "")
        monkeypatch.setattr(pipeline, "Replay", Direct)


def test_slack():
    slack = Slack.of({"trg": np.empty((3, 100)), "src": np.empty((3, 50))})
    assert (slack.targets, slack.sources) == (110, 55)
    assert slack.takes({"trg": np.empty((3, 105)), "src": np.empty((3, 50))})
    assert not slack.takes({"trg": np.empty((3, 120)), "src": np.empty((3, 50))})
    assert not slack.takes({"trg": np.empty((3, 60)), "src": np.empty((3, 50))})
    points = np.arange(150.0).reshape(3, 50)
    found = slack.points(np, {"src": points})["src"]
    assert found.shape == (3, slack.sources)
    np.testing.assert_array_equal(found[:, :50], points)
    np.testing.assert_array_equal(found[:, 50:], points[:, : slack.sources - 50])
    dens = slack.densities(np, np.ones((2, 3, 50)))
    assert dens.shape == (2, 3, slack.sources) and dens.sum() == 300


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("kernel", SUMS)
def test_numbers_that_change(kernel, space, to_space, rng):
    options = EwaldOptions(1, [1, 1, 1], 1e-5)
    want = ("u", "grad_u")
    plan, slacks, placings = None, set(), set()
    for n in (500, 520, 530, 541, 560, 505, 490, 800, 820, 830, 200):
        trg, src = (to_space(rng.random((3, m))) for m in (n // 2, n))
        norms = to_space(rng.standard_normal((3, n))) if SUMS[kernel].double else None
        if plan is None:
            plan = parki.Plan(kernel, trg, src, norms, options, want=want)
        else:
            plan.update_points(trg, src, norms)
        slacks.add(plan.pipeline._slack)
        placings.add(id(plan.pipeline._placing) if plan.pipeline._placing else None)
        dens = to_space(rng.standard_normal(SUMS[kernel].density_shape(n)))
        fresh = parki.Plan(kernel, trg, src, norms, EwaldOptions(1, [1, 1, 1], 1e-7), want=want)
        promises = plan.promise(dens)
        assert promises == pytest.approx([100 * bound for bound in fresh.promise(dens)])
        for _ in range(3):
            for ours, theirs, bound in zip(plan(dens), fresh(dens), promises, strict=True):
                assert ours.shape == theirs.shape
                error = float(((ours - theirs) ** 2).sum() / (n // 2)) ** 0.5
                assert error <= 1.2 * bound
    assert slacks == {None, Slack(286, 572), Slack(440, 880), Slack(110, 220)}
    assert len(placings) == 3  # none, and one for the first two slacks each
    assert "slack for 110 targets, 220 sources" in plan.describe() or not space.on_device


@pytest.mark.usefixtures("recorded")
def test_targets_that_are_sources(space, to_space, rng):
    """And several densities at once."""
    options = EwaldOptions(3, [1, 1, 1], 1e-5)
    plan = None
    for n in (300, 310, 320, 315, 305):
        points = to_space(rng.random((3, n)))
        if plan is None:
            plan = parki.Plan("stokes_sl", points, points, options)
        else:
            plan.update_points(points, points)
        dens = to_space(rng.standard_normal((3, 3, n)))
        fresh = parki.Plan("stokes_sl", points, points, EwaldOptions(3, [1, 1, 1], 1e-7))
        for ours, one in zip(plan(dens), dens, strict=True):
            error = float(((ours - fresh(one)) ** 2).sum() / n) ** 0.5
            assert error <= 1.2 * plan.promise(one)
