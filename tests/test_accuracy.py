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
from contract import (
    FLAT,
    KERNELS,
    LARGE,
    LEAST,
    PERIODICITIES,
    SHARED,
    SMALL,
    TILTED,
    Case,
    Outcome,
    costs_of_a_device,
    edges_of,
    fields_of,
    promise,
    rms,
    sweep,
)
from few import FEW, USUAL, wanted

import parki
from examples import example
from parki.ewald.options import SMALLEST_TOLERANCE
from parki.interchange import to_host
from parki.reference import direct_sum

# Where the contract is checked; a GPU's whole sweep is PARKI_TEST_SPACE=Cuda pytest -m "".
SPACE = os.environ.get("PARKI_TEST_SPACE", "CPU")


def cases(size: int, always: int, slow: int, **which: Any) -> list[Any]:
    """Return the first cases of a size; the default run has ``always`` of them.

    It has one of those that share a reference, each another sum. A few of these take the degrees
    that parki chooses, as the long run does; the others share kernels.
    """

    def marks(number: int) -> list[Any]:
        turn, other = divmod(number, SHARED)
        if other or turn >= always:
            return [pytest.mark.slow, pytest.mark.chosen_degrees]
        return [pytest.mark.chosen_degrees] * (6 * (turn + 1) < always)

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


@pytest.mark.parametrize("case", cases(SMALL, 2, 400, boxes=TILTED, seed=3))
def test_tilted_boxes(case):
    check(case)


@pytest.mark.parametrize(
    "case",
    cases(SMALL, 1, 600, boxes=FLAT, seed=2) + cases(SMALL, 0, 400, boxes=TILTED, seed=4),
)
def test_every_box_by_costs_of_a_device(case):
    """Other costs choose other cut-offs and windows, and one box is any other's neighbour."""
    with costs_of_a_device():
        check(case)


# Of 1-periodic boxes, whose kernels once faded over what the grid resolved and the band did not.
THIN = (
    ((1, 4, 0.5), 0.1, {"window_points": 5, "cutoff": 0.5}),
    ((1, 0.5, 4), 0.1, {"window_points": 5, "cutoff": 0.5}),
    ((1, 30, 0.3), 1e-2, {}),
    pytest.param((1, 8, 0.5), 0.1, {"window_points": 6, "cutoff": 3}, marks=pytest.mark.slow),
    pytest.param((1, 8, 0.5), 1e-3, {"window_points": 7, "cutoff": 0.5}, marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("box", "tolerance", "settings"), THIN)
def test_double_layers_in_flat_boxes(box, tolerance, settings):
    """The window was judged for a grid as fine as few targets choose: 40 of them."""
    edges = np.array(box, dtype=float)[:, None]
    options = flat.options(1, box, tolerance, execution_space=SPACE, **settings)
    array = parki.utils.get_array_module(SPACE).asarray
    for seed in range(40, 43):
        rng = np.random.default_rng(seed)
        src = rng.random((3, 100)) * edges
        trg = np.concatenate([src[:, :25], rng.random((3, 15)) * edges], axis=1)
        norms, dens = rng.standard_normal((2, 3, 100))
        plan = parki.Plan("stokes_dl", array(trg), array(src), array(norms), options)
        found = to_host(plan(array(dens)))
        exact = parki.reference.direct_sum(
            "stokes_dl", trg, src, dens, norms, box=box, periodicity=1
        )
        assert rms(found - exact) <= promise("stokes_dl", dens, norms, box, tolerance)


@pytest.mark.each
@pytest.mark.parametrize("split", ["prolate", "hasimoto"])
@pytest.mark.parametrize(
    ("kernel", "periodicity", "box", "tolerance"),
    [
        ("laplace", 3, (1, 1e-3, 1), 1e-6),
        ("laplace", 2, (1, 1e-3, 1), 1e-6),
        ("stokes_sl", 3, (1, 1e-3, 1), 1e-3),
        ("stokes_sl", 1, (1e-3, 1, 1), 1e-4),
        ("stokes_sl", 2, (1, 1, 9000), 1e-6),
        ("laplace", 3, (1, 1e-2, 1e-2), 1e-4),
    ],
)
def test_thin_periods(kernel, periodicity, box, tolerance, split):
    """The images of a source within a cut-off of tens of periods carry one density."""
    rng = np.random.default_rng(0)
    edges = np.array(box, dtype=float)[:, None]
    src, trg = rng.random((3, 300)) * edges, rng.random((3, 60)) * edges
    dens = rng.standard_normal(300 if kernel == "laplace" else (3, 300))
    options = flat.options(periodicity, box, tolerance, split=split)
    plan = parki.Plan(kernel, trg, src, None, options)
    # The direct sum takes minutes here; another cut-off has other errors.
    setup = plan.pipeline.setup
    cutoff = 0.8 * setup.parameters.cutoff * setup.frame.length
    better = parki.EwaldOptions(periodicity, box, 1e-4 * tolerance, cutoff=cutoff)
    exact = parki.Plan(kernel, trg, src, None, better)(dens)
    error = rms(np.atleast_2d(plan(dens) - exact))
    assert error <= plan.promise(dens)


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
@pytest.mark.parametrize(
    "m", [pytest.param((6, 6, 500), marks=pytest.mark.slow), (24, 24, 24)], ids=str
)
def test_double_layers_on_a_lattice_that_is_the_grids(m, tolerance):
    """Two periodic directions amplify what stresses put, as a force, into a plane's mean."""
    sides = [np.arange(n) / 6 for n in m] if m[0] == 6 else [np.arange(n) / n for n in m]
    points = np.array(np.meshgrid(*sides, indexing="ij")).reshape(3, -1)
    rng = np.random.default_rng(0)
    dens, norms = rng.standard_normal((2, *points.shape))
    box = [n * side[1] for n, side in zip(m, sides, strict=True)]
    plan = parki.Plan("stokes_dl", points, points, norms, parki.EwaldOptions(2, box, tolerance))
    some = rng.permutation(points.shape[1])[:100]
    exact = parki.reference.direct_sum(
        "stokes_dl", points[:, some], points, dens, norms, box=box, periodicity=2
    )
    error = plan(dens)[:, some] - exact
    assert np.sqrt((error**2).sum(axis=0).mean()) <= 0.7 * plan.promise(dens)
    # An ordered suspension, whose exact flow is zero.
    dens, norms = np.zeros((2, *points.shape))
    dens[1], norms[0] = 1, 1
    ordered = parki.Plan("stokes_dl", points, points, norms, plan.options)
    assert np.sqrt((ordered(dens) ** 2).sum(axis=0).mean()) <= ordered.promise(dens)


SALT, LAYERS = 16, 24


def _coherent(name):
    """Return kernel, periodicity, tolerance, cut-off, points and density that meet one mode."""
    m = SALT if name == "salt" else LAYERS
    x, y, z = sites = np.indices((m, m, m)).reshape(3, -1)
    if name == "salt":
        return "laplace", 3, 1e-10, 0.2, sites / m, (-1.0) ** (x + y + z)
    dens = np.zeros(sites.shape)
    dens[0] = (-1.0) ** z
    return "stokes_sl", 3, 1e-6, 0.25, sites / m, dens


@pytest.mark.parametrize("name", ["salt", "layers"])
def test_densities_of_one_mode(name):
    """Crystals break the promise for random densities, not Cauchy's bound, nor that for any."""
    kernel, periodicity, tolerance, cutoff, points, dens = _coherent(name)
    some = np.random.default_rng(0).permutation(points.shape[1])[:40]
    exact = parki.reference.direct_sum(
        kernel, points[:, some], points, dens, box=[1, 1, 1], periodicity=periodicity
    )
    errors = {}
    for densities in ("random", "any"):
        options = parki.EwaldOptions(
            periodicity,
            [1, 1, 1],
            tolerance,
            cutoff=cutoff,
            densities=densities,
            deterministic=True,
        )
        plan = parki.Plan(kernel, points, points, None, options)
        error = np.atleast_2d(plan(dens)[..., some] - exact)
        errors[densities] = np.sqrt((error**2).sum(axis=0).mean()) / plan.promise(dens)
    components = 1 if kernel == "laplace" else 3
    assert 1 < errors["random"] <= np.sqrt(components * points.shape[1])
    assert errors["any"] <= 1


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


@pytest.mark.parametrize(
    "kernel",
    [
        "laplace",
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("stokes_dipole", "laplace_dipole")),
    ],
)
def test_one_source_at_one_target(kernel):
    """The promise is a mean square: pairs are above it, but not by far, and their mean is not."""
    rng = np.random.default_rng(1)
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-4)
    ratios = []
    plan = parki.Plan(kernel, rng.random((3, 1)), rng.random((3, 1)), options=options)
    for _ in range(60):
        trg, src, dens = rng.random((3, 1)), rng.random((3, 1)), example(kernel).density(rng, 1)
        plan.update_points(trg, src)
        off = plan(dens) - direct_sum(kernel, trg, src, dens, options=options)
        ratios.append(np.linalg.norm(off) / plan.promise(dens))
    assert rms(np.array(ratios)) <= 1
    assert max(ratios) <= 6


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
        for number, case in enumerate(itertools.islice(sweep((SMALL,), seed=1), 300))
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
