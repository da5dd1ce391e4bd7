"""Points whose number changes from step to step: devices keep their recorded launches."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from helpers.recording import let_the_host_record

import parki
from parki import EwaldOptions
from parki.ewald.pipeline.arrival import Arrival
from parki.ewald.pipeline.placed import PaddedCapacity
from parki.runtime.spaces import host
from parki.runtime.spaces.cupy import NotRecordedError


@pytest.fixture
def recorded(space, monkeypatch):
    """Have every space record, or do as if it did."""
    if not space.on_device:
        let_the_host_record(monkeypatch)


def test_slack():
    slack = PaddedCapacity.of({"trg": np.empty((3, 100)), "src": np.empty((3, 50))})
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
def test_numbers_that_change(space, to_space, rng):
    kernel, options = "stokes_comb", EwaldOptions(1, [1, 1, 1], 1e-5)
    want = ("u", "grad_u")
    plan, slacks, placings = None, set(), set()
    for n in (500, 520, 530, 541, 560, 505, 490, 800, 820, 830, 200):
        trg, src = (to_space(rng.random((3, m))) for m in (n // 2, n))
        norms = to_space(rng.standard_normal((3, n)))
        if plan is None:
            plan = parki.Plan(kernel, trg, src, norms, options, want=want)
        else:
            plan.update_points(trg, src, norms)
        slacks.add(plan.pipeline.capacity)
        graph = plan.pipeline.graph
        placings.add(id(graph) if graph else None)
        dens = to_space(rng.standard_normal((6, n)))
        fresh = parki.Plan(kernel, trg, src, norms, EwaldOptions(1, [1, 1, 1], 1e-7), want=want)
        promises = plan.promise(dens)
        assert promises == pytest.approx([100 * bound for bound in fresh.promise(dens)])
        for _ in range(3):
            for ours, theirs, bound in zip(plan(dens), fresh(dens), promises, strict=True):
                assert ours.shape == theirs.shape
                error = float(((ours - theirs) ** 2).sum() / (n // 2)) ** 0.5
                assert error <= 1.2 * bound
    assert slacks == {
        None,
        PaddedCapacity(286, 572),
        PaddedCapacity(440, 880),
        PaddedCapacity(110, 220),
    }
    # None, and one for the first two slacks each; by a device's parameters few points may crowd.
    assert len(placings) == 3 or (space.on_device and len(placings) == 2)
    assert "slack for 110 targets, 220 sources" in plan.describe() or not space.on_device


def test_the_docs_show_the_decisions():
    """The page has the method as it stands in the code."""
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"```text\n{inspect.getsource(Arrival.placed)}```\n" in text


@pytest.mark.usefixtures("recorded")
def test_states_of_placing(space, to_space, rng, monkeypatch):
    """By the decisions of docs/architecture.md."""
    states, problem, tries = [], "", []

    def record(work):
        if problem:
            tries.append(len(states))
            raise NotRecordedError(problem)
        return work

    def update(n):
        points = to_space(rng.random((3, n)))
        plan.update_points(points, points)
        states.append(plan.pipeline.decision)

    if not space.on_device:
        monkeypatch.setattr(host, "record", record)
    points = to_space(rng.random((3, 300)))
    plan = parki.Plan("laplace", points, points, EwaldOptions(3, [1, 1, 1], 1e-4))
    assert plan.pipeline.decision in ("choose", "move")
    for n in (300, 300, 300, 310, 310, 320):  # from 310 on there is slack
        update(n)
    assert states == ["repeat", "record", "keep", "resize", "repeat", "record"]
    if space.on_device:
        return
    states, problem = [], "there is no graph"
    for n in (600, 600, 600, 600, 600):
        update(n)
    assert states == ["choose", *["repeat"] * 4] and tries == [2, 4]


@pytest.mark.usefixtures("recorded")
def test_a_refused_choice_is_made_again(space, to_space, rng, monkeypatch):
    """Points for which no parameters were found are not taken for points that the old ones suit."""
    points = to_space(rng.random((3, 2000)))
    plan = parki.Plan("stokes_sl", points, points, EwaldOptions(3, [1, 1, 1], 1e-4))
    for _ in range(2):
        plan.update_points(points, points)
    before, setup = plan(points), plan.setup
    crowd = 0.4 + 0.1 * points

    def fail(*_, **__):
        raise parki.ParkiMemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("parki.ewald.pipeline.arrival.choose", fail)
        for call in (plan, plan.promise):
            plan.update_points(crowd, crowd)
            with pytest.raises(parki.ParkiMemoryError):  # a device says so in the next call
                call(points)
    assert plan.setup is setup
    assert float(abs(plan(points) - before).max()) <= 1e-9 * float(abs(before).max())
    plan.update_points(crowd, crowd)
    assert plan.setup is not setup


@pytest.mark.usefixtures("recorded")
def test_transposes_that_move(space, to_space, rng):
    """A transpose with parameters of its own takes other points in place, too."""
    options = EwaldOptions(3, [1, 1, 1], 1e-4)
    trg, src = (to_space(rng.random((3, n))) for n in (200, 300))
    plan, placed = parki.Plan("stokes_rotlet", trg, src, options, want="grad_u"), []
    values = to_space(rng.standard_normal((3, 3, 200)))
    for _ in range(6):
        trg, src = (to_space(rng.random(points.shape)) for points in (trg, src))
        plan.update_points(trg, src)
        found = plan.adjoint(values)
        fresh = parki.Plan("stokes_rotlet", trg, src, options, want="grad_u").adjoint(values)
        assert float(abs(found - fresh).max()) <= 2e-2 * float(abs(fresh).max())
        placed.append(plan.terms[0].transposes[0].transposed["grad_u"].kept.pipeline)
    assert [each.decision for each in placed[2:]] == ["keep"] * 4
    assert len({id(each.graph) for each in placed[2:]}) == 1


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
