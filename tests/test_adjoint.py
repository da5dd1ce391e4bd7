"""`Plan.adjoint`: the transpose of every sum, up to rounding, and its error."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from contract import rms

import parki
from parki.ewald.derivatives.transpose import Transpose
from parki.ewald.sums import SUMS

KERNELS = tuple(SUMS)
PERIODICITIES = (0, 1, 2, 3)
BOX = (3.0, 2.0, 1.0)
NT, NS = 70, 60
RNG = np.random.default_rng(11)
SRC = np.array(BOX)[:, None] * RNG.random((3, NS))
TRG = np.array(BOX)[:, None] * RNG.random((3, NT))
TRG[:, :20] = SRC[:, :20]  # pairs that coincide
NORMS = 2 * RNG.standard_normal((3, NS))
DENS = {name: RNG.standard_normal(kind.density_shape(NS)) for name, kind in SUMS.items()}
# Of a product of sums, over the norms of its factors; its terms are of either sign.
ROUNDING = 1e-14
# Whose results have transposes of each kind; laws have the velocity's.
MET = ("laplace", "stokes_sl", "stokes_comb", "stokes_rotlet")
WANT = ("grad_u", "p", "stress")
# Near a wall those of the pressure are met.
SLOW = {*product(KERNELS, WANT)} - {*product(MET, WANT)} | {*product(["stokes_comb"], WANT[1:])}
# Results whose transpose is a sum of another pair function, with parameters of its own.
APART = {("stokes_rotlet", "grad_u"), ("stokes_rotlet", "stress")}
APART |= {(name, want) for name in KERNELS for want in ("p", "stress") if SUMS[name].terms.get("p")}


def normals(kernel):
    return NORMS if SUMS[kernel].normals else None


def make(kernel, periodicity=3, want="u", tolerance=1e-5, **more):
    options = parki.EwaldOptions(periodicity, BOX, tolerance, **more)
    return parki.Plan(kernel, TRG, SRC, normals(kernel), options, want=want)


def mismatch(plan, dens):
    """Return how far adjoint and sum are apart, over the product of values and results."""
    found, rng = plan(dens), np.random.default_rng(0)
    results = found if isinstance(found, tuple) else (found,)
    values = tuple(rng.standard_normal(each.shape) for each in results)
    there = sum((one * other).sum() for one, other in zip(values, results, strict=True))
    sizes = (sum((each**2).sum() for each in many) for many in (values, results))
    back = (plan.adjoint(values if isinstance(found, tuple) else values[0]) * dens).sum()
    return abs(there - back) / math.sqrt(math.prod(sizes))


# --- the same matrix ------------------------------------------------------------------------------


@pytest.mark.each
@pytest.mark.parametrize("periodicity", PERIODICITIES)
@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        pytest.param(kernel, want, marks=[pytest.mark.slow] * ((kernel, want) in SLOW))
        for kernel in KERNELS
        for want in WANT
        if want in SUMS[kernel].adjoints or "p" in SUMS[kernel].terms
    ],
)
def test_the_transpose_is_exact(kernel, periodicity, want):
    """Whatever the tolerance: both sums have the same parameters."""
    plan = make(kernel, periodicity, want, 1e-3)
    if want == "p" and not SUMS[kernel].terms["p"]:
        assert not plan.adjoint(np.ones(NT)).any()
        return
    if (kernel, want) not in APART:
        assert mismatch(plan, DENS[kernel]) <= ROUNDING
        return
    found = plan(DENS[kernel])
    promise = plan.promise(DENS[kernel]) / rms(found.reshape(-1, NT))
    assert 10 * ROUNDING < mismatch(plan, DENS[kernel]) <= promise


def test_a_refused_transpose_names_other_results():
    for kernel, want, remedy in (
        ("doublet_axis_derivative(up=2)", "grad_u", "make a plan whose want is 'u'"),
        ("multipole_flow(order=2)", "u", "no result has one"),  # not: a plan whose want is 'u'
    ):
        task = SimpleNamespace(kernel=kernel, want=(want,), sum=SUMS[kernel])
        with pytest.raises(parki.ParkiValueError, match=remedy):
            Transpose(task)


@pytest.mark.filterwarnings("ignore::parki.ImageWarning")
@pytest.mark.parametrize("kernel", ["stokes_dl", "stokes_comb"])
@pytest.mark.parametrize("want", ["u", "grad_u"])
def test_the_mean_without_flux(kernel, want):
    plan = make(kernel, 3, want, 1e-3, dl_mean="flux")
    assert mismatch(plan, DENS[kernel]) <= ROUNDING
    # Points as they are given, not wrapped: of both sums.
    moved = parki.Plan(kernel, TRG + 3, SRC - 6, NORMS, plan.options, want=want)
    assert mismatch(moved, DENS[kernel]) <= ROUNDING


@pytest.mark.each
@pytest.mark.parametrize(
    "variant",
    [
        {"split": "hasimoto"},
        {"p2p_method": "gm1d"},
        {"p2g_method": "hybrid"},
        {"radial": "rational", "split": "hasimoto"},
    ],
    ids=["split", "p2p", "p2g", "radial"],
)
@pytest.mark.parametrize("kernel", ["laplace", "stokes_comb"])
def test_splits_and_variants_of_the_literature(kernel, variant):
    """The adjoint takes the usual ones, where the former have no derivatives."""
    bound = 1e-5 if "radial" in variant else ROUNDING
    assert mismatch(make(kernel, expert=parki.Expert(**variant)), DENS[kernel]) <= bound


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["laplace", "stokes_rotlet"])
def test_symmetric_sums_are_their_own_adjoint(kernel):
    options = parki.EwaldOptions(3, BOX, 1e-5)
    plan = parki.Plan(kernel, SRC, SRC, options)
    dens = DENS[kernel]
    np.testing.assert_array_equal(plan.adjoint(dens), plan(dens))
    assert all(
        part.kept is None for part in plan.terms[0].transposes[0].transposed.values()
    )  # made nothing
    if "grad_u" in SUMS[kernel].adjoints:
        both = parki.Plan(kernel, SRC, SRC, options, want=("u", "grad_u"))
        assert mismatch(both, dens) <= 1e-5


def test_any_densities():
    plan = make("stokes_rotlet", 3, "grad_u", tolerance=1e-4, densities="any")
    assert mismatch(plan, DENS["stokes_rotlet"]) <= 1e-5
    part = plan.terms[0].transposes[0].transposed["grad_u"]
    # Chosen by a tolerance for random ones, of nine components of each target.
    assert part.kept.points.tolerance == pytest.approx(0.81e-4 / math.sqrt(9 * NT))


# --- errors ---------------------------------------------------------------------------------------


def test_impossible_values():
    plan = make("stokes_sl")
    for values, message in (
        (np.ones((NT, 3)), rf"values has shape \({NT}, 3\); expected \(3, {NT}\).*transpose it"),
        (np.full((3, NT), np.nan), "values contains NaN or infinity"),
        (np.ones((3, NS)), r"values has shape \(3, 60\)"),
    ):
        with pytest.raises(parki.ParkiValueError, match=message):
            plan.adjoint(values)
    with pytest.raises(parki.ParkiTypeError, match="values has dtype float32, but the points have"):
        plan.adjoint(np.ones((3, NT), "f4"))
    many = make("stokes_sl", want=("u", "p"))
    with pytest.raises(parki.ParkiTypeError, match="values is a ndarray; expected a tuple of 2"):
        many.adjoint(np.ones((3, NT)))
    with pytest.raises(parki.ParkiValueError, match=r"values\[1\] has shape \(3, 60\); expected"):
        many.adjoint((np.ones((3, NT)), np.ones((3, NS))))
    with pytest.raises(parki.ParkiValueError, match=r"\(3, 70\), \(3, 70\); expected as many"):
        many.adjoint((np.ones((3, NT)), np.ones((3, NT))))


def test_a_refused_adjoint_makes_nothing():
    plan = make("doublet_axis_derivative(up=2)", want=("u", "grad_u"))
    with pytest.raises(parki.ParkiValueError, match="is but a part of others, of spheres or of im"):
        plan.adjoint((np.ones((3, NT)), np.ones((3, 3, NT))))
    assert not plan.terms[0].transposes


def test_short_memory(monkeypatch):
    from parki.ewald.pipeline import arrival as pipeline

    plan = make("stokes_dl")

    def refuse(*_):
        raise parki.ParkiMemoryError("the plan needs 2 GB")

    monkeypatch.setattr(pipeline, "check_memory", refuse)
    with pytest.raises(parki.ParkiMemoryError):
        plan.adjoint(np.ones((3, NT)))
    monkeypatch.undo()
    assert mismatch(plan, DENS["stokes_dl"]) <= ROUNDING


@pytest.mark.parametrize("kernel", SUMS.values(), ids=lambda each: each.name)
def test_the_records(kernel):
    """Adjoints are of sums and results that there are, and have the rows of densities."""
    for name, each in kernel.adjoints.items():
        assert kernel.terms[name]
        other = SUMS[each.kernel]
        assert set(each.want) <= set(other.terms)
        assert each.symmetric == (other.name == kernel.name and each.want == ("u",))
        results = {"u": kernel.results, "p": 1, "grad_u": 3 * kernel.results}[name]
        assert other.rows == results
        sizes = {"u": other.results, "p": 1, "grad_u": 3 * other.results}
        found = {n: np.ones((sizes[n], 4)) for n in each.want}
        assert len(each.results(found, {"norms": np.ones((3, 4))})) == kernel.rows
        assert (each.mean is not None) == (kernel.normals and name != "p")
    task = parki.ewald.task.Task(kernel.name, None, np.dtype("f8"), parki.EwaldOptions(0))
    assert list(Transpose(replace(task, names=("u",))).transposed) == ["u"]
