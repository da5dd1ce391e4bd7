"""The contract: the rms error over the targets is at most what the tolerance promises.

Against direct sums, over the sweep of `contract`: every kernel, periodicity, precision, tolerance,
split, box, kind of cloud and of density, and field. The start of it is run always, more of it with
the marker ``slow``, and as much as there is time for by ``scripts/accuracy.py``.
"""

from __future__ import annotations

import itertools
import os
import runpy
from pathlib import Path
from typing import Any

import flat
import numpy as np
import pytest
from clouds import FLAT, TILTED, edges_of
from contract import (
    KERNELS,
    LARGE,
    LEAST,
    PERIODICITIES,
    SHARED,
    SMALL,
    Case,
    Outcome,
    costs_of_a_device,
    fields_of,
    rms,
    sweep,
)
from few import FEW, USUAL, wanted

import parki
from examples import example
from parki.ewald.options import SMALLEST_TOLERANCE
from parki.reference import direct_sum

# Where the contract is checked; a GPU's whole sweep is PARKI_TEST_SPACE=Cuda pytest -m "".
SLOW = pytest.mark.slow
SPACE = os.environ.get("PARKI_TEST_SPACE", "CPU")


def cases(size: int, always: int, slow: int, **which: Any) -> list[Any]:
    """Return the first cases of a size; the default run has ``always`` of them.

    It has one of those that share a reference, each another sum. A third of these takes the
    degrees that parki chooses, as the long run does; the others share kernels.
    """

    def marks(number: int) -> list[Any]:
        turn, other = divmod(number, SHARED)
        if other or turn >= always:
            return [pytest.mark.slow, pytest.mark.chosen_degrees]
        return [pytest.mark.chosen_degrees] * (turn < always // 3)

    every = wanted(itertools.islice(sweep((size,), **which), slow), SHARED * always)
    return [pytest.param(c, id=str(c), marks=marks(number)) for number, c in enumerate(every)]


def check(case: Case, **options: Any) -> list[Outcome]:
    """Assert the promise, and return the outcomes."""
    outcomes = case.outcomes(SPACE, **options)
    worst = max(outcomes, key=lambda outcome: outcome.ratio)
    assert worst.ratio <= 1, worst
    return outcomes


@pytest.mark.parametrize("case", cases(SMALL, 13, 3000))
def test_small_clouds(case):
    check(case)


@pytest.mark.parametrize("case", cases(LARGE, 2, 600))
def test_large_clouds(case):
    check(case)


# The default run begins with sums of which other tests take kernels.
@pytest.mark.parametrize(
    "case",
    cases(SMALL, 2, 8, boxes=TILTED, seed=30) + cases(SMALL, 0, 400, boxes=TILTED, seed=3),
)
def test_tilted_boxes(case):
    check(case)


@pytest.mark.parametrize(
    "case",
    cases(SMALL, 1, 4, boxes=FLAT, seed=22)
    + cases(SMALL, 0, 600, boxes=FLAT, seed=2)
    + cases(SMALL, 0, 400, boxes=TILTED, seed=4),
)
def test_every_box_by_costs_of_a_device(case):
    """Other costs choose other cut-offs and windows, and one box is any other's neighbour."""
    with costs_of_a_device():
        check(case)


# A cut-off spans tens of periods, or kernels fade over what the grid resolved and the band did not.
THIN = (
    ("laplace", 3, (1, 1e-3, 1), 1e-6, {}),
    ("laplace", 2, (1, 1e-3, 1), 1e-6, {}),
    ("laplace", 3, (1, 1e-2, 1e-2), 1e-4, {}),
    ("stokes_sl", 3, (1, 1e-3, 1), 1e-3, {}),
    ("stokes_sl", 1, (1e-3, 1, 1), 1e-4, {}),
    ("stokes_sl", 2, (1, 1, 9000), 1e-6, {}),
    ("stokes_dl", 1, (1, 4, 0.5), 0.1, {"window_points": 5, "cutoff": 0.5}),
    ("stokes_dl", 1, (1, 30, 0.3), 1e-2, {}),
    pytest.param("stokes_dl", 1, (1, 8, 0.5), 0.1, {"window_points": 6, "cutoff": 3}, marks=SLOW),
)


@pytest.mark.each
@pytest.mark.parametrize("split", ["prolate", "hasimoto"])
@pytest.mark.parametrize(("kernel", "periodicity", "box", "tolerance", "settings"), THIN)
def test_thin_periods(kernel, periodicity, box, tolerance, settings, split):
    """The images of a source carry one density; and of few targets some are sources."""
    rng, edges = np.random.default_rng(0), np.array(box, dtype=float)[:, None]
    src, trg = rng.random((3, 300)) * edges, rng.random((3, 60)) * edges
    trg[:, :25] = src[:, :25]
    dens, norms = example(kernel).density(rng, 300), example(kernel).normals(rng, 300)
    options = flat.options(periodicity, box, tolerance, split=split, **settings)
    plan = parki.Plan(kernel, trg, src, norms, options)
    # The direct sum takes minutes here; another cut-off has other errors.
    setup = plan.pipeline.setup
    cutoff = 0.8 * setup.parameters.cutoff * setup.solver_box.length
    better = parki.EwaldOptions(periodicity, box, 1e-4 * tolerance, cutoff=cutoff)
    exact = parki.Plan(kernel, trg, src, norms, better)(dens)
    assert rms(np.atleast_2d(plan(dens) - exact)) <= plan.promise(dens)


# Sums that passed their promise once; most are like others, and left to the long run.
FOUND = (
    # Kernels of long periods, which fade over too few grid points.
    Case("uniform", "neutral", "film", "stokes_sl", 2, ("u",), LARGE, "f4", 1e-2, "prolate"),
    # High derivatives of the prolate function.
    Case("uniform", "random", "cube", "stokes_dl", 0, ("grad_u",), SMALL, "f8", 1e-12, "auto"),
    # Images of the modes on the shorter grid, at the free faces.
    Case("uniform", "random", "cube", "stokes_dl", 1, ("grad_u",), LARGE, "f8", 1e-4, "prolate"),
    # q along n.
    Case("partly", "parallel", "film", "stokes_dl", 2, ("grad_u",), LARGE, "f8", 1e-4, "prolate"),
    # Pairs closer than single precision resolves once points are moved into the box.
    Case("outside", "random", "long", "stokes_dl", 0, ("u",), LARGE, "f4", 1e-3, "hasimoto"),
    Case("outside", "random", "long", "stokes_comb", 0, ("grad_u",), LARGE, "f4", 1e-4, "auto"),
    # Rounding of the modes that are constant in the plane.
    Case("same", "random", "tower", "stokes_dl", 2, ("u",), LARGE, "f4", 1e-5, "auto"),
    # The window's error at one place between the grid's points.
    Case("nearly_lattice", "random", "cube", "stokes_dl", 2, ("u",), SMALL, "f8", 1e-10, "prolate"),
    # Rounding of the kernels of long periods.
    Case("same", "random", "pipe", "stokes_dl", 2, ("u",), LARGE, "f8", 1e-11, "auto"),
    Case("elsewhere", "uneven", "pipe", "stokes_sl", 1, ("u",), LARGE, "f4", 1e-4, "prolate"),
    # Pressures that sit at sources.
    Case("uniform", "parallel", "cube", "stokes_dl", 3, ("p",), LARGE, "f8", 1e-7, "prolate"),
    Case("uniform", "random", "cube", "stokes_dl", 3, ("p",), LARGE, "f8", 1e-9, "prolate"),
    Case("uniform", "random", "cube", "stokes_dl", 3, ("p",), LARGE, "f8", 1e-11, "prolate"),
    Case(
        "blobs_from_afar", "neutral", "pipe", "stokes_sl", 2, ("u",), LARGE, "f8", 1e-2, "prolate"
    ),
    Case("uniform", "random", "cube", "stokes_dl", 2, ("grad_u",), LARGE, "f8", 1e-2, "prolate"),
    Case("uniform", "random", "cube", "stokes_dl", 2, ("grad_u",), LARGE, "f8", 1e-7, "prolate"),
    # A cut-off for 96 s, not 5 s.
    Case("blobs", "random", "pipe", "stokes_comb", 0, ("u",), SMALL, "f8", 1e-12, "hasimoto"),
)


@pytest.mark.chosen_degrees
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=str(case), marks=() if number < 2 else pytest.mark.slow)
        for number, case in enumerate(FOUND)
    ],
)
def test_what_failed_once(case):
    check(case)


@pytest.mark.parametrize("tolerance", [1e-6, pytest.param(1e-9, marks=pytest.mark.slow)])
def test_double_layers_on_a_lattice_that_is_the_grids(tolerance):
    """Two periodic directions amplify what stresses put, as a force, into a plane's mean."""
    points, rng = np.indices((24, 24, 24)).reshape(3, -1) / 24, np.random.default_rng(0)
    dens, norms = rng.standard_normal((2, *points.shape))
    options = parki.EwaldOptions(2, [1, 1, 1], tolerance)
    plan = parki.Plan("stokes_dl", points, points, norms, options)
    some = rng.permutation(points.shape[1])[:100]
    exact = direct_sum("stokes_dl", points[:, some], points, dens, norms, options=options)
    assert rms(plan(dens)[:, some] - exact) <= 0.7 * plan.promise(dens)
    # An ordered suspension, whose exact flow is zero.
    dens, norms = np.zeros((2, *points.shape))
    dens[1], norms[0] = 1, 1
    ordered = parki.Plan("stokes_dl", points, points, norms, options)
    assert rms(ordered(dens)) <= ordered.promise(dens)


@pytest.mark.each
@pytest.mark.parametrize(
    "lattice", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["lattice", "uniform"]
)
@pytest.mark.parametrize("periodicity", PERIODICITIES)
@pytest.mark.parametrize("kernel", FEW)
def test_the_worst_density(kernel, periodicity, lattice):
    """The error of any density is bounded: by the largest singular value of the error's matrix."""
    rng = np.random.default_rng(0)
    points = np.indices((3, 3, 3)).reshape(3, -1) / 3 if lattice else rng.random((3, 27))
    norms = example(kernel).normals(rng, 27)
    if norms is not None:
        norms /= np.linalg.norm(norms, axis=0)
    matrices = []
    for tolerance, densities in ((1e-4, "any"), (1e-4, "random"), (1e-11, "random")):
        options = parki.EwaldOptions(periodicity, [1, 1, 1], tolerance, densities=densities)
        plan = parki.Plan(kernel, points, points, norms, options)
        operator = plan.as_linear_operator()
        matrices.append(operator @ np.eye(operator.shape[1]))
    sources = points.shape[1] * example(kernel).components
    # The mean square over random densities.
    columns = matrices[1].shape[1]
    mean = np.linalg.norm(matrices[1] - matrices[-1]) / np.sqrt(points.shape[1] * columns)
    assert mean <= 1e-4
    for matrix, bound in zip(matrices, (1.0, np.sqrt(sources)), strict=False):
        worst = np.linalg.norm(matrix - matrices[-1], 2) / np.sqrt(points.shape[1])
        assert worst <= bound * 1e-4


ASKED = (("f8", 1e-3), ("f8", 1e-6), ("f4", 1e-3), ("f8", 1e-9))


@pytest.mark.each
@pytest.mark.parametrize("periodicity", PERIODICITIES)
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(k, marks=() if k in USUAL else [pytest.mark.slow, pytest.mark.chosen_degrees])
        for k in KERNELS
    ],
)
def test_no_more_accurate_than_asked(kernel, periodicity):
    """Uniform points: what is far more accurate than promised is slower than need be."""
    number = KERNELS.index(kernel) + periodicity
    split = ("hasimoto", "prolate")[number % 2]
    asked = ASKED[number // 2 % len(ASKED)]
    case = Case("uniform", "random", "brick", kernel, periodicity, ("u",), LARGE, *asked, split)
    (outcome,) = check(case)
    assert outcome.error >= LEAST * outcome.promise or outcome.rounding > LEAST * outcome.promise


@pytest.mark.each
@pytest.mark.parametrize("split", ["auto", "hasimoto"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("kernel", FEW)
def test_the_smallest_tolerance(kernel, dtype, split):
    tolerance = SMALLEST_TOLERANCE[np.dtype(dtype)]
    periodicity = (KERNELS.index(kernel) + (split == "auto")) % 4
    want = fields_of(kernel)
    check(Case("same", "random", "cube", kernel, periodicity, want, SMALL, dtype, tolerance, split))


# Cut-offs and windows away from the optimum; some are refused, none breaks the contract.
OVERRIDES = list(itertools.product((0.2, 0.3, 0.45), (None, 6, 10, 14, 18)))


@pytest.mark.parametrize(
    ("case", "override"),
    [
        pytest.param(
            case,
            OVERRIDES[7 * number % len(OVERRIDES)],
            id=f"{case}, {number}",
            marks=() if number < 3 else pytest.mark.slow,
        )
        for number, case in (
            *enumerate(itertools.islice(sweep((SMALL,), seed=60), 3)),
            *enumerate(wanted(itertools.islice(sweep((SMALL,), seed=1), 300), 0)),
        )
    ],
)
def test_overrides(case, override):
    cutoff, points = override
    length = float(np.prod(edges_of(case.box))) ** (1 / 3)
    try:
        check(case, cutoff=cutoff * length, window_points=points)
    except parki.ParkiValueError as error:
        pytest.skip(str(error))


@pytest.mark.each
@pytest.mark.parametrize("kernel", FEW)
@pytest.mark.parametrize("periodicity", PERIODICITIES)
def test_coherent_densities(kernel, periodicity):
    """Where densities of one sign add up, the error is far below the tolerance's part of them."""
    case = Case(
        "same", "one_sign", "cube", kernel, periodicity, ("u",), LARGE, "f8", 1e-6, "prolate"
    )
    (outcome,) = case.outcomes(SPACE)
    alone = outcome.promise - case.tolerance * outcome.flow
    # Measured: up to 16.
    assert outcome.error <= 30 * alone
    if outcome.flow * case.tolerance > 10 * alone:
        assert outcome.error <= 0.3 * case.tolerance * outcome.flow


def test_the_promise_of_a_plan():
    """The bound that users read off a plan is the one that is tested."""
    for kernel in USUAL:
        want = fields_of(kernel)
        case = Case("same", "random", "brick", kernel, 3, want, SMALL, "f8", 1e-3, "prolate")
        plan, dens = case.plan()
        promised = [outcome.promise for outcome in case.outcomes()]
        np.testing.assert_allclose(plan.promise(dens), promised, rtol=1e-12)


def test_the_script_draws_all_sums(monkeypatch):
    scripts = Path(__file__).parents[1] / "scripts"
    monkeypatch.syspath_prepend(scripts)
    assert [*runpy.run_path(str(scripts / "accuracy.py"))["COLOURS"]] == [*KERNELS]
