"""`Plan` as a user meets it: reuse, layouts, symmetries, units, views, memory and threads."""

from __future__ import annotations

import threading
import tracemalloc
import warnings
from dataclasses import replace
from types import SimpleNamespace

import flat
import numpy as np
import pytest
import scipy.sparse.linalg
from clouds import BOXES, cloud
from contract import call_of, error_over_promise
from few import FEW

import parki
from parki.cli.eval import evaluate
from parki.ewald.far import buffers as buffers_of_grids
from parki.ewald.far import sizes, transforms
from parki.ewald.near.p2p import P2P
from parki.reference import direct_sum
from parki.runtime.spaces import cupy as cupy_space
from parki.runtime.spaces import why_unavailable

BOX = BOXES["brick"]
N, TOLERANCE = 200, 1e-5


def plan_of(kernel, c, periodicity=1, box=BOX, tolerance=TOLERANCE, trg=None, **more):
    options = flat.options(periodicity=periodicity, box=box, tolerance=tolerance, **more)
    target = c.trg if trg is None else trg
    return parki.Plan(kernel, target, c.src, c.arguments(kernel)[1], options)


@pytest.mark.each
@pytest.mark.parametrize("kernel", FEW)
@pytest.mark.parametrize("periodicity", [1, 3])
def test_one_shot_and_repeated_calls_are_equal_bit_for_bit(kernel, periodicity):
    c = cloud("partly", N, BOX)
    dens, norms = c.arguments(kernel)
    plan = plan_of(kernel, c, periodicity)
    options = plan.options
    first = plan(dens)
    plan(np.ones_like(dens))  # leaves nothing behind
    np.testing.assert_array_equal(plan(dens), first)
    np.testing.assert_array_equal(plan.timed(dens)[0], first)
    arguments = [c.trg, c.src, dens, *([] if norms is None else [norms]), options]
    np.testing.assert_array_equal(call_of(parki, kernel)(*arguments), first)
    np.testing.assert_array_equal(call_of(parki.ewald, kernel)(*arguments), first)


def test_a_density_that_comes_with_the_points_is_summed_once(monkeypatch):
    """By the calls, and by `parki eval`."""
    near, calls = P2P.apply, []
    monkeypatch.setattr(P2P, "apply", lambda *given: (calls.append(1), near(*given))[1])
    c = cloud("partly", N, BOX)
    dens, _ = c.arguments("stokes_sl")
    options = parki.EwaldOptions(3, BOX, TOLERANCE)
    parki.stokes_sl(c.trg, c.src, dens, options)
    evaluate("stokes_sl", {"trg": c.trg, "src": c.src, "dens": dens}, options, ("u",))
    assert len(calls) == 2
    # Nothing to sum, and nothing that is computed.
    nobody = np.empty((3, 0))
    assert parki.stokes_sl(nobody, c.src, dens, options).shape == (3, 0)
    still = parki.stokes_rotlet(c.trg, c.src, dens, options, want="p")
    assert not still.any() and len(calls) == 2


@pytest.mark.parametrize("box", [(1, None, None), (None, 9, None), None])
def test_no_sources_in_boxes_of_the_points(box):
    """Laws have boxes that are given. Targets that far apart would be warned of."""
    options = parki.EwaldOptions(1 if box and box[0] else 0, box, TOLERANCE)
    nobody, dens = np.empty((3, 0), "f4"), np.empty((3, 0), "f4")
    trg = np.hstack([np.random.default_rng(0).random((3, 999)), np.full((3, 1), 1e6)]).astype("f4")
    trg = trg[:, :7] if box else trg
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = parki.Plan("stokes_sl", trg, nobody, options)
    out = np.full(trg.shape, np.nan, "f4")
    for found in (plan(dens), plan(dens, out=out), plan.timed(dens)[0]):
        assert found.dtype == np.float32 and found.shape == trg.shape and not found.any()
    assert f"0 sources, {trg.shape[1]} targets" in plan.describe()
    assert not (plan.as_linear_operator() @ np.empty(0, "f4")).any()


@pytest.mark.each
@pytest.mark.parametrize("kernel", FEW)
@pytest.mark.parametrize("periodicity", [1, 3])
def test_one_source(kernel, periodicity):
    c = cloud("uniform", N, BOX)
    c = c._replace(src=c.src[:, :1], dens=c.dens[:, :1], norms=c.norms[:, :1])
    dens, norms = c.arguments(kernel)
    ref = direct_sum(kernel, c.trg, c.src, dens, norms, box=BOX, periodicity=periodicity)
    pot = plan_of(kernel, c, periodicity)(dens)
    # One pair's error does not average out over sources: its peak is a few times its rms.
    assert error_over_promise(kernel, pot, ref, c, BOX, TOLERANCE) <= 1
    ref = direct_sum(kernel, c.src, c.src, dens, norms, box=BOX, periodicity=periodicity)
    # Its images are in phase, as far as the cut-off lets them.
    for cutoff in (None, 0.35, 0.55, 0.8, 0.9):
        itself = plan_of(kernel, c, periodicity, trg=c.src, cutoff=cutoff)(dens)
        assert error_over_promise(kernel, itself, ref, c, BOX, TOLERANCE) <= 1, cutoff


def test_one_point_at_a_loose_tolerance():
    """The split's band may then have no mode but 0, and the grid no error."""
    point = np.array([[0.5004883], [0.50024414], [0.50024414]], "f4")
    dens = np.array([0.64], "f4")
    plan = parki.Plan("laplace", point, point, parki.EwaldOptions(3, [1, 1, 1], 0.1))
    ref = direct_sum("laplace", point, point, dens, box=[1, 1, 1], periodicity=3)
    assert abs(plan(dens) - ref) <= plan.promise(dens)


# --- choices and views ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choice",
    [{"cutoff": 0.2}, {"cutoff": 0.5}, {"sources_per_cell": 5}, {"sources_per_cell": 60}]
    + [{"window_points": p} for p in (8, 12)],
    ids=str,
)
def test_overrides(choice):
    """They are taken; tests/test_accuracy.py has their promise."""
    plan = plan_of("stokes_comb", cloud("same", N, BOX), 3, tolerance=1e-4, **choice)
    length = np.prod(BOX) ** (1 / 3)
    if "cutoff" in choice:
        assert plan.parameters.cutoff * length == pytest.approx(choice["cutoff"])
    if "sources_per_cell" in choice:
        assert plan.parameters.cutoff**3 * N == pytest.approx(choice["sources_per_cell"])
    if "window_points" in choice:
        assert plan.parameters.points == choice["window_points"]


def test_impossible_overrides_are_refused():
    c = cloud("same", N, BOX)
    with pytest.raises(parki.ParkiValueError, match="no grid reaches tolerance 1e-12 with cutoff"):
        plan_of("stokes_sl", c, tolerance=1e-12, window_points=4)


def test_boxes_that_no_window_serves_are_refused():
    """Nothing was given that could be left to parki."""
    point = np.array([[0.3], [0.5], [700]], "f4")
    options = parki.EwaldOptions(2, [1, 1, 1000], 1e-6)
    with pytest.raises(parki.ParkiValueError, match=r"up to 12 points.*larger.*float64"):
        parki.Plan("laplace", point, point, options, want="grad_u")
    point = point.astype("f8")
    parki.Plan("laplace", point, point, options, want="grad_u")


def test_timed_and_describe():
    c = cloud("same", N, BOX)
    plan = plan_of("stokes_comb", c)
    _, seconds = plan.timed(c.arguments("stokes_comb")[0])
    assert list(seconds) == ["P2P", "P2G", "FGC", "G2P"]
    assert all(0 < value < 60 for value in seconds.values())
    assert plan.seconds["plan"] > 0
    text, chosen = plan.describe(), plan.parameters
    for part in (
        f"stokes_comb, 1-periodic, {N} sources, {N} targets, float64",
        "tolerance 1e-05",
        "r_c = ",
        f"degree {chosen.degree}",
        f"window of {chosen.points} points",
        "modes padded",
        "predicted seconds: P2P",
    ):
        assert part in text
    assert "stokes_comb" in repr(plan)
    assert sum(error**2 for error in chosen.errors.values()) <= 1


@pytest.mark.each
@pytest.mark.parametrize(
    "asked",
    [{}, {"cutoff": 0.31, "window_points": 8}, {"sources_per_cell": 11.0}, {"window_points": 8}],
)
@pytest.mark.parametrize(("split", "other"), [("auto", "hasimoto"), ("hasimoto", "prolate")])
def test_the_other_split_is_compared_with_all_else_as_asked(asked, split, other):
    """And nothing but splits: what variants and grids there are besides, the choice distrusts."""
    c = cloud("same", N, BOX)
    asked = {"tolerance": 1e-3, **asked}
    plan = plan_of("stokes_sl", c, split=split, **asked)
    seconds = plan_of("stokes_sl", c, split=other, **asked).parameters.total
    name = {"hasimoto": "Hasimoto's split", "prolate": "the prolate split"}[other]
    words = f"{name}, predicted to take {seconds / plan.parameters.total:.2f} times as long"
    assert plan.describe().split("  instead: ")[1:] == [words]


def test_a_split_that_a_plan_could_not_take_is_not_compared():
    c = cloud("same", N, BOX)
    given = (c.trg, c.src, c.arguments("stokes_dl")[1])
    options = flat.options(3, BOX, 1e-10, split="hasimoto")
    plan = parki.Plan("stokes_dl", *given, options, want="grad_u")
    assert "instead: the prolate split, predicted to take" in plan.describe()
    plan = plan_of("laplace", c, split="hasimoto", radial="rational")
    assert "instead" not in plan.describe()
    plan = plan_of("stokes_dl", c, 3, tolerance=1e-6, cutoff=0.6, window_points=9)
    assert "instead: Hasimoto's split, which does not reach the tolerance" in plan.describe()


@pytest.mark.parametrize("kernel", ["stokes_sl", "stokes_dl"])
def test_a_promise_is_for_densities_in_the_memory_of_the_plan(kernel, monkeypatch):
    c = cloud("same", N, BOX)
    plan, dens = plan_of(kernel, c), c.arguments(kernel)[0]
    with monkeypatch.context() as patch:
        device = SimpleNamespace(on_device=True, adapter=SimpleNamespace(device=lambda: 0))
        placed = plan.terms[0].sum
        patch.setattr(placed, "task", replace(placed.task, space=device))
        with pytest.raises(parki.ParkiTypeError, match="dens is on the host"):
            plan.promise(dens)
    there = SimpleNamespace(shape=dens.shape, dtype=dens.dtype)
    monkeypatch.setattr("parki.ewald.points.values.as_array", lambda name, value: value)
    with pytest.raises(parki.ParkiTypeError, match="dens is on a device"):
        plan.promise(there)


@pytest.mark.parametrize("own", ["f4", "f8"])
def test_linear_operator_takes_what_a_matrix_takes(own):
    """Other types are converted, and the result has the type of a matrix's product."""
    c = cloud("same", 20, BOX, own)
    plan = plan_of("laplace", c, 0, tolerance=1e-3)
    operator = plan.as_linear_operator()
    matrix = operator @ np.eye(operator.shape[1], dtype=own)
    whole = np.random.default_rng(0).integers(-9, 9, operator.shape[1])
    expected = operator @ whole.astype(own)
    assert expected.dtype == own
    for dtype in (bool, "i1", "u2", "i8", "f2", "f4", "f8", "g", "F", "D", "G"):
        vector = whole.astype(dtype)
        found = operator @ vector
        assert found.dtype == (matrix @ vector).dtype
        if np.dtype(dtype).kind not in "bu":
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(operator.matvec(whole[:, None]), expected[:, None])
    np.testing.assert_array_equal(operator @ whole[:, None], expected[:, None])
    np.testing.assert_array_equal(
        operator @ np.stack([whole] * 2, axis=1), expected[:, None] @ [[1, 1]]
    )
    two = np.stack([(1 - 2j) * whole, 1j * whole], axis=1).astype(np.result_type(own, "F"))
    for each, exact in ((operator, matrix), (operator.H, matrix.T)):
        assert (each @ two).dtype == two.dtype and (each @ two[:, :0]).shape == (20, 0)
        np.testing.assert_allclose(each @ two, exact @ two, rtol=1e-4)
        np.testing.assert_array_equal(each @ two[:, 0], (each @ two)[:, 0])
    # A sum of operators has the vectors of its solver, which are complex.
    shift = 1e3 * np.eye(20, dtype=own)
    both = scipy.sparse.linalg.aslinearoperator(shift) + operator
    found, _ = scipy.sparse.linalg.gmres(both, two[:, 0], rtol=1e-6)
    exact = np.linalg.solve(shift + matrix, two[:, 0])
    np.testing.assert_allclose(found, exact, atol=1e-5 * abs(exact).max())
    with pytest.raises(parki.ParkiTypeError, match="dens is an array of objects"):
        operator @ whole.astype(object)


# --- memory and threads ---------------------------------------------------------------------------


def test_repeated_use_allocates_nothing_lasting():
    c = cloud("same", 5000, BOX)
    plan = plan_of("stokes_comb", c)
    out = np.empty((3, 5000))
    for _ in range(3):
        plan(c.dens, out=out)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            plan(c.dens, out=out)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000
    # SciPy's real transforms return a new array, and copy it once where it is padded.
    hat = plan.pipeline.stages.fgc.hat.nbytes
    assert peak - before < 2.1 * hat + out.nbytes + c.dens.nbytes + 100_000


@pytest.mark.each
@pytest.mark.parametrize("periodicity", [0, 1, 3])
@pytest.mark.parametrize("want", ["u", ("u", "p", "grad_u", "stress")])
def test_components_are_transformed_together_or_one_by_one(monkeypatch, periodicity, want):
    c = cloud("same", N, BOX)
    options = parki.EwaldOptions(periodicity=periodicity, box=BOX, tolerance=TOLERANCE)

    def apply():
        plan = parki.Plan("stokes_comb", c.trg, c.src, c.norms, options, want=want)
        return plan, plan(c.dens)

    def listed(result):
        return [result] if want == "u" else result

    plan, together = apply()
    assert len(plan.pipeline.stages.fgc.forward) == 1
    monkeypatch.setattr("parki.ewald.far.sizes.APART", plan.pipeline.stages.fgc.hat.nbytes - 1)
    plan, apart = apply()
    assert len(plan.pipeline.stages.fgc.forward) == 4
    for a, b in zip(listed(together), listed(apart), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())


@pytest.mark.parametrize("periodicity", range(4))
def test_far_fields_do_not_depend_on_threads(monkeypatch, periodicity):
    """Nor on the parts they share out, bit for bit: see docs/accuracy.md."""
    c = cloud("same", N, BOX)
    options = parki.EwaldOptions(periodicity=periodicity, box=BOX, tolerance=TOLERANCE)
    fields, buffers = [], set()
    for threads, part in ((1, 1 << 30), (2, 1 << 16), (5, 1 << 30), (5, 1)):
        for module in (buffers_of_grids, transforms):
            monkeypatch.setattr(module, "thread_count", lambda threads=threads: threads)
        monkeypatch.setattr("parki.ewald.far.sizes.FFT_LEAST", 1)
        monkeypatch.setattr(transforms, "PART", part)
        monkeypatch.setattr("parki.ewald.far.sizes.CHUNK", part)
        plan = parki.Plan("stokes_comb", c.trg, c.src, c.norms, options)
        rng = np.random.default_rng(0)
        stages = plan.pipeline.stages
        grid = rng.standard_normal(stages.p2g.grid.shape)
        fields.append(stages.fgc.apply(grid).copy())
        buffers.add(len(stages.fgc.padded))
    assert buffers == ({0} if periodicity == 3 else {1, 2, 5})  # triply periodic grids have none
    for other in fields[1:]:
        np.testing.assert_array_equal(other, fields[0])


@pytest.mark.gpu
@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_a_device_transforms_lines_in_parts(monkeypatch, periodicity):
    """Their plans, and those of planes, share one work area."""
    if why_unavailable("Cuda"):
        pytest.skip(f"Cuda: {why_unavailable('Cuda')}")
    cp = parki.get_execution_space("Cuda").array_module
    c = cloud("same", N, BOX)
    src, norms, dens = (cp.asarray(each) for each in (c.src, c.norms, c.dens))
    options = parki.EwaldOptions(periodicity=periodicity, box=BOX, tolerance=TOLERANCE)

    def apply():
        plan = parki.Plan("stokes_comb", src, src, norms, options)
        return plan.pipeline.stages.fgc.transforms, plan(dens)

    whole, together = apply()
    real = [key for key in whole.plans if isinstance(key[-1], bool)]
    assert len(real) == 2  # there and back
    y = whole.grid[1]
    (_, (x,), *_, lines, _), z = real[0], real[0][-2] // y
    monkeypatch.setattr(transforms, "LINES", x * lines * 8 * 7 // y)  # 7 rows of y
    parts, apart = apply()
    real = [key for key in parts.plans if isinstance(key[-1], bool)]
    assert {key[-2] for key in real} == {6 * z, y % 6 * z} - {0}
    assert float(abs(apart - together).max()) <= 1e-13 * float(abs(together).max())
    for each in (whole, parts):
        plans = [plan[0] if isinstance(plan, tuple) else plan for plan in each.plans.values()]
        areas = {plan.work_area.ptr for plan in plans if plan.work_area.mem.size}
        assert len(areas) <= 2  # it may have grown once


def test_threads_for_transforms():
    """One where they are small, and more than a few only where they are large."""
    share, large = sizes.FFT_LEAST, sizes.LARGE
    numbers = (20, share, 2 * share, 6 * share, 2 * large, 20 * large, 1000 * large)
    assert [sizes.workers(n / 2, 8) for n in numbers] == [1, 1, 2, 6, 8, 8, 8]
    assert [sizes.workers(n / 2, 32) for n in numbers] == [1, 1, 2, 6, 8, 20, 32]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_device_starts_once_all_is_launched(ahead, monkeypatch):
    """The stream of a device that runs what it is given at once, but for what it must wait for."""
    said, waiting = [], []

    class Event:
        def record(self, stream):
            said.append("recorded")

        def synchronize(self):
            for thread in waiting:
                thread.join()
            said.append("read")

    class Stream:
        def launch_host_func(self, function, argument):
            def hold():
                said.append("released" if function(argument) else "tired of waiting")

            waiting.append(threading.Thread(target=hold))
            waiting[-1].start()

    cuda = SimpleNamespace(
        Event=Event,
        runtime=SimpleNamespace(is_hip=False),
        get_current_stream=Stream,
        get_elapsed_time=lambda first, last: 2.0,
    )
    monkeypatch.setattr(cupy_space, "array_module", lambda: SimpleNamespace(cuda=cuda))
    watch = cupy_space.DeviceWatch(ahead)
    for stage in ("P2P", "P2G"):
        with watch(stage):
            pass
    assert said == ["recorded"] * 4
    assert watch.seconds() == {"P2P": 2e-3, "P2G": 2e-3}
    assert said[4:] == ["released"] * ahead + ["read"] * 2
