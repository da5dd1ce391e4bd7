"""Evaluators of the near field's radial functions: each gives the same sums as the polynomials."""

from __future__ import annotations

import itertools
from pathlib import Path

import flat
import numpy as np
import pytest
from clouds import BOXES, cloud
from contract import error_over_promise, promise, rms, rounding
from few import USUAL
from scipy.special import erf

import parki
from parki.errors import ParkiValueError
from parki.ewald.near import radial as radial_module
from parki.ewald.near.radial import choose_evaluator, hasimoto_functions
from parki.ewald.options.variants import EVALUATORS
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.sums import SUMS
from parki.ewald.sums.pairs import EVALUATED
from parki.reference import direct_sum

OTHERS = EVALUATORS[1:]
BOX = BOXES["brick"]
N = 150
TOLERANCES = {np.dtype("f8"): 1e-11, np.dtype("f4"): 1e-5}


def plan_of(kernel, c, radial, periodicity=3, **more):
    """Return a plan; for each precision one, so that rational functions have the same terms."""
    more |= {"split": "hasimoto", "radial": radial, "cutoff": 0.3}
    options = flat.options(periodicity, BOX, TOLERANCES[c.src.dtype], **more)
    return parki.Plan(kernel, c.trg, c.src, c.arguments(kernel)[1], options)


def bound_of(kernel, c):
    return promise(kernel, *c.arguments(kernel), BOX, TOLERANCES[c.src.dtype])


# --- functions --------------------------------------------------------------------------------


@pytest.mark.parametrize("xi_rc", [0.7, 2.5, 4.2, 6.0])
def test_exact_functions(xi_rc):
    """Those of the kernel and of the polynomials."""
    r = np.linspace(0.3, 1, 50)
    polynomials = Hasimoto(xi_rc).radial_polynomials(1.0, 46)
    exact = hasimoto_functions(xi_rc, r)
    for table in EVALUATED:
        found = np.polyval(polynomials[table], 2 * r**2 - 1)
        np.testing.assert_allclose(exact[table], found, atol=1e-10)


@pytest.mark.each
@pytest.mark.parametrize("kernel", ["laplace", "stokes_sl", "stokes_comb"])
@pytest.mark.parametrize(("xi_rc", "degree"), [(1.0, 4), (2.7, 9), (4.2, 18), (5.4, 31)])
def test_a_rational_function_is_as_accurate_as_the_polynomials(kernel, xi_rc, degree):
    """In float64; stable in float32, and exact at r = 0."""
    r = np.linspace(0.01, 1, 2000)
    top, bottom = choose_evaluator("rational", kernel, Hasimoto(xi_rc), 1.0, degree).table
    exact = hasimoto_functions(xi_rc, r)
    value = np.polyval(top, r**2) / np.polyval(bottom, r**2)
    error = value - exact.smooth(0)  # of "flow" and T_1 r^2 too
    polynomials = Hasimoto(xi_rc).radial_polynomials(1.0, degree)
    lost = polynomials.map(lambda p, f: np.polyval(p, 2 * r**2 - 1) - f, exact)
    both, cross, slope, mean = lost.flow, lost.smooth(1), lost.psi(1), lost.smooth(0)
    felt = {  # errors of the pair kernel: of the rational function, and of polynomials
        "laplace": (error, mean),
        "stokes_sl": (error, np.maximum(abs(both), abs(cross * r**2))),
        "stokes_comb": (3 * error / r, (3 * abs(cross) + abs(slope)) * r),
    }[kernel]
    mine, theirs = (np.sqrt((3 * r**2 * f**2).mean()) for f in felt)
    assert mine <= 2 * theirs + 1e-14 * xi_rc
    assert top[-1] / bottom[-1] == pytest.approx(xi_rc / np.sqrt(np.pi), rel=1e-15)
    single = r.astype("f4") ** 2
    rough = np.polyval(top.astype("f4"), single) / np.polyval(bottom.astype("f4"), single)
    assert rough.dtype == np.float32
    exactly = np.polyval(top, single.astype("f8")) / np.polyval(bottom, single.astype("f8"))
    assert np.abs(rough / exactly - 1).max() < 8 * np.finfo("f4").eps


def test_more_accurate_takes_more_terms():
    terms = [
        choose_evaluator("rational", "stokes_comb", Hasimoto(4.5), 1.0, degree).degree
        for degree in (8, 12, 16, 20, 24, 28)
    ]
    assert terms == sorted(terms)
    assert terms[0] < terms[-1] < 12


# --- sums -------------------------------------------------------------------------------------


WORDS = {
    "polynomial": "polynomials of degree",
    "erfc": "erf and exp of the library",
    "rational": "a rational function of {} terms",
}
KERNELS = [name for name in SUMS if not SUMS[name].pair.polynomials_alone]
CASES = [
    pytest.param(*case, marks=pytest.mark.slow if case[0] not in (*USUAL, "stokes_rotlet") else ())
    for case in zip(KERNELS, itertools.cycle(("f8", "f4")))
]


@pytest.mark.parametrize("periodicity", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_direct_sum(kernel, dtype, periodicity):
    """Every evaluator keeps the promise, coinciding points among the others."""
    c = cloud("partly", N, BOX, dtype)
    dens, norms = c.arguments(kernel)
    ref = direct_sum(kernel, c.trg, c.src, dens, norms, box=BOX, periodicity=periodicity)
    results = {}
    for radial, words in WORDS.items():
        plan = plan_of(kernel, c, radial, periodicity)
        degree = getattr(plan.setup.near.evaluator, "degree", 0)
        assert words.format(degree + 1) in plan.describe()
        pot = results[radial] = plan(dens)
        assert pot.dtype == c.src.dtype
        assert rms(pot - ref) <= bound_of(kernel, c) + rounding(pot, ref)
        assert error_over_promise(kernel, pot, ref, c, BOX, TOLERANCES[c.src.dtype]) <= 1
    assert not np.array_equal(results["erfc"], results["polynomial"])
    assert not np.array_equal(results["rational"], results["polynomial"])


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_close_pairs(kernel, dtype):
    """Coinciding points alone have the smooth remainder of r = 0, which nothing covers up.

    Where points nearly coincide, the difference of P and Q loses nothing that the singular part
    would have kept.
    """
    coinciding, close = cloud("same", N, BOX, dtype), cloud("same", 12, BOX, dtype)
    point = np.full((3, N), 0.25, dtype=dtype)
    trg = close.src.astype("f8")
    trg[0] += 0.25 * 10.0 ** -np.arange(1, 13)  # down to pairs that nearly coincide
    for c in (coinciding._replace(trg=point, src=point), close._replace(trg=trg.astype(dtype))):
        dens = c.arguments(kernel)[0]
        expected, *others = (plan_of(kernel, c, radial)(dens) for radial in EVALUATORS)
        for pot in others:
            difference = np.abs(np.atleast_2d(pot - expected)).max(axis=0)
            size = np.linalg.norm(np.atleast_2d(expected).astype("f8"), axis=0)
            more = rounding(pot, expected) if c.src is point else 64 * np.finfo(dtype).eps * size
            assert (difference <= bound_of(kernel, c) + more).all()
        if c.src is point and kernel in ("laplace", "stokes_sl", "stokes_comb"):
            assert rms(expected) > 1e3 * (bound_of(kernel, c) + more)


@pytest.mark.parametrize(("kernel", "radial"), [("laplace", "erfc"), ("stokes_rotlet", "rational")])
def test_kernel_of_devices(kernel, radial):
    """p2p_tile, which hosts leave to devices, gives what the host's own variant gives."""
    c = cloud("partly", N, BOX)
    dens = c.arguments(kernel)[0]
    expected = plan_of(kernel, c, radial)(dens)
    pot = plan_of(kernel, c, radial, p2p_method="tile")(dens)
    np.testing.assert_allclose(pot, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("radial", OTHERS)
def test_refusals(radial):
    with pytest.raises(ParkiValueError, match=rf"radial is '{radial}'.*pass split='hasimoto'"):
        flat.options(3, [1, 1, 1], radial=radial, split="prolate")
    c, options = cloud("same", N, BOX), flat.options(3, BOX, split="hasimoto", radial=radial)
    for want in ("p", ("u", "grad_u")):
        with pytest.raises(
            ParkiValueError, match=f"radial is '{radial}', which computes 'u' alone"
        ):
            parki.Plan("stokes_sl", c.src, c.src, options, want=want)


# --- the script of the figure -----------------------------------------------------------------


def test_figure_script(monkeypatch):
    """The errors fall as the paper's do."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    import pictures

    curves, floor = pictures.errors_of_terms(200)
    assert floor < 5e-16
    place = {terms: i for i, terms in enumerate(pictures.TERMS)}
    assert curves["x"][place[8]] < 3e-7
    assert curves["x2"][place[8]] < 3e-8
    assert curves["x2"][place[12]] < 1e-13
    assert curves["polynomial"][place[36]] < 5e-15


@pytest.mark.parametrize("kernel", ["laplace", "stokes_sl", "stokes_rotlet"])
def test_a_quotient_with_a_pole_is_passed_over(kernel):
    """At this xi r_c four terms have a pole among the nodes, where all powers are negative."""
    top, bottom = radial_module._rational(kernel, 1.5, 14)
    r = np.linspace(0.01, 1, 200)
    found = np.polyval(top, r**2) / np.polyval(bottom, r**2)
    np.testing.assert_allclose(found, erf(1.5 * r) / (2 * r), rtol=1e-9)
