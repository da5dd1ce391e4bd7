"""Screened charges and Brinkman's equation: tables, kernels that end, limits, promise, refusals."""

from __future__ import annotations

import ast
import itertools
import math
import pickle
from decimal import Context, Decimal, localcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from contract import assert_promised, rms
from numpy.polynomial import chebyshev
from scipy.special import erfc, erfcx

import parki
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.far import brinkman as far_brinkman
from parki.ewald.options import EwaldOptions
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.prolate import Prolate, legendre_series
from parki.ewald.split.screened import (
    LEAST,
    MOST,
    REACH,
    BrinkmanSplit,
    Screened,
    brinkman_split,
    screened,
)
from parki.ewald.sums import SUMS, in_unit
from parki.ewald.sums.tables import FLOW, SCREENING, Table
from parki.reference import direct_sum

BOX, TILTED = (1.0, 1.3, 0.8), ((1.0, 0.0, 0.0), (0.3, 1.3, 0.0), (0.0, 0.0, 0.8))
WANT, LAYERS = ("u", "p", "grad_u"), "brinkman_dl(alpha=2.0)"
SCREENINGS = [1e-6, 1e-2, 1.0, 5.0, 15.0, REACH]
SPLITS = [Prolate(3.0, 1.0), Prolate(12.0, 1.0), Prolate(30.0, 1.0), Hasimoto(1.5), Hasimoto(5.0)]
ENDING = [Prolate(6.0, 1.0), Prolate(30.0, 1.0), Hasimoto(2.0, 1.0), Hasimoto(5.0, 1.0)]
every_split = pytest.mark.parametrize("split", SPLITS, ids=lambda each: each.name)
every_periodicity = pytest.mark.parametrize("periodicity", range(4))


def name(kappa):
    return f"yukawa(kappa={float(kappa)!r})"


def brinkman(alpha):
    return f"brinkman_sl(alpha={float(alpha)!r})"


def cloud(n=40, box=BOX):
    """Return targets, of which some are sources; sources; and forces."""
    rng, edges = np.random.default_rng(0), np.array(box)
    edges = (np.diag(edges) if edges.ndim == 2 else edges)[:, None]
    src = rng.random((3, n)) * edges
    trg = np.concatenate([src[:, :5], rng.random((3, 7)) * edges], 1)
    return trg, src, rng.standard_normal((3, n))


def charged(n=40):
    """Return targets, sources and charges."""
    trg, src, forces = cloud(n)
    return trg, src, forces[0]


def by_images(kappa, trg, src, charges, periodicity):
    """Return potential and gradient by all pairs and images that are felt."""
    counts = [int(38 / kappa / BOX[a]) + 2 if a < periodicity else 0 for a in range(3)]
    potential, gradient = np.zeros(trg.shape[1]), np.zeros_like(trg)
    for shift in itertools.product(*(range(-n, n + 1) for n in counts)):
        away = trg[:, :, None] - src[:, None] - np.multiply(shift, BOX)[:, None, None]
        r = np.sqrt((away**2).sum(axis=0))
        with np.errstate(divide="ignore"):
            pair = np.where(r > 0, np.exp(-kappa * r) / r, 0.0)
            slope = np.where(r > 0, (kappa + 1 / r) / r, 0.0)
        potential += pair @ charges
        gradient -= np.einsum("dij,ij,j->di", away, pair * slope, charges)
    return potential, gradient


def stokeslets(alpha, away, forces):
    """Return the velocities (3, N) of forces (3, N) at these distances, without an Ewald sum."""
    r = np.sqrt((away**2).sum(axis=0))
    y, b = 2 * np.exp(-alpha * r) / r, far_brinkman.shape(alpha * r) / r
    return (y - b) * forces + (3 * b - y) / r**2 * (away * forces).sum(axis=0) * away


# ---------------------------------------------------------------------- the split
def mollifier(c, nodes):
    """Return the prolate function by its Legendre series, in 28 digits.

    At large kappa its small values at the cut-off count, which double precision rounds.
    """
    terms, values = [*map(Decimal, legendre_series(c)[0].tolist())], []
    for t in map(Decimal, nodes.tolist()):
        first = second = Decimal(0)
        for n in range(len(terms) - 1, 0, -1):
            ahead = Decimal(2 * n + 1) / (n + 1) * t * first
            first, second = terms[n] + ahead - Decimal(n + 1) / (n + 2) * second, first
        values.append(float(terms[0] + t * first - second / 2))
    return np.array(values)


def exact_h(split, kappa, r):
    """Return h and log N; the near field is h / r."""
    if isinstance(split, Hasimoto):
        a, x = kappa / (2 * split.xi), split.xi * r
        plus = math.exp(-(x**2) - a**2) * erfcx(x + a)
        return (plus + math.exp(-kappa * r) * erfc(x - a)) / 2, a**2
    x, weights = np.polynomial.legendre.leggauss(80)

    def integral(start):
        nodes = start + (1 - start) * (x + 1) / 2
        waves = np.exp(kappa * (nodes - start - 1)) + np.exp(-kappa * (nodes - start + 1))
        return (1 - start) / 2 * weights @ (waves * mollifier(split.c, nodes))

    whole = integral(0.0)  # times exp(-kappa)
    return integral(r) / whole, kappa + math.log(whole)


@pytest.mark.each
@pytest.mark.parametrize("kappa", SCREENINGS)
@every_split
def test_tables_against_quadrature(split, kappa):
    table = Screened(split, kappa).series(1.0)
    for r in (0.004, 0.3, 0.95):
        h, logarithm = exact_h(split, kappa, r)
        off = (math.exp(-kappa * r) - h) / r - 2 * float(
            chebyshev.chebval(2 * r**2 - 1, table.smooth(0))
        )
        assert abs(off) < 2e-15 * (20 + kappa) + 2e-16 / r
    amplitude = math.exp(-logarithm) if logarithm < math.log(1e16) else 0.0
    assert Screened(split, kappa).amplitude == pytest.approx(amplitude, rel=1e-6)
    assert table[SCREENING].tolist() == [kappa]
    r, step = np.linspace(0.02, 0.98, 30), 1e-4 / (1 + kappa)
    below, above = (
        chebyshev.chebval(2 * (r + way) ** 2 - 1, table.smooth(0)) for way in (-step, step)
    )
    slope = -r * chebyshev.chebval(2 * r**2 - 1, table.smooth(1))
    assert np.abs((above - below) / (2 * step) - slope).max() < 3e-6 * (1 + kappa) ** 2


@every_split
def test_screening_scales_with_the_split(split):
    one, other = Screened(split, 3.0), Screened(split.scaled(0.25), 12.0)
    assert one.scaled(0.25) == other
    assert other.amplitude == pytest.approx(one.amplitude, rel=1e-13)
    k2 = np.linspace(0, 100, 7)
    np.testing.assert_allclose(
        other.factor(1).at(16 * (k2 + 9)), one.factor(1).at(k2 + 9), rtol=1e-10, atol=1e-16
    )
    # At k^2 = -kappa^2 the factor is 1: charges are whole from afar.
    np.testing.assert_allclose(one.factor(1).at(9.0), one.amplitude, rtol=1e-10)


def test_a_table_is_as_short_as_the_tolerance_allows():
    own = Screened(Prolate(15.0, 1.0), 4.0)
    whole, s = own.series(1.0), np.linspace(-1, 1, 401)
    for term, series in (("laplace", 2 * whole.smooth(0)), ("laplace_grad", 2 * whole.smooth(1))):
        for tolerance in (1e-3, 1e-6, 1e-9):
            degree = own.polynomial_degree(term, 1.0, tolerance)
            lost = chebyshev.chebval(s, series) - chebyshev.chebval(s, series[: degree + 1])
            assert np.abs(lost).max() <= tolerance
            assert np.abs(series[degree:]).sum() > tolerance


@pytest.mark.parametrize("split", ENDING, ids=lambda each: each.name)
@pytest.mark.parametrize("alpha", [1e-6, 0.5, 4.0, 40.0, 290.0, 310.0, 1e4])
def test_near_and_far_field_are_the_whole(split, alpha):
    """The near field ends at the cut-off, where the tables are the singular functions."""
    own = BrinkmanSplit(split, alpha)
    tables, bare = own.series(1.0), split.series(1.0)
    mean, first = tables.smooth(0), tables.smooth(1)
    at_one, slope = (chebyshev.chebval(1.0, each) for each in (mean, first))
    shape, jump = (
        float(far_brinkman.shape(np.array(alpha))),
        float((bare.flow - bare.smooth(0)).sum()),
    )
    allowed = 1e-10
    if alpha > 300:  # a layer at the cut-off is left out
        allowed += 2e-9 + 10 * abs(jump) / alpha
    assert abs(2 * at_one - shape) < allowed
    edge = 3 * shape - 2 * math.exp(-alpha) - 2 * own.beta * jump
    assert abs(2 * slope - edge) < 10 * allowed
    # They are derivatives of each other: T_1 = -T_0' / r, with s = 2 r^2 - 1.
    s = np.linspace(-1, 1, 21)
    steps = -4 * chebyshev.chebval(s, chebyshev.chebder(mean))
    np.testing.assert_allclose(chebyshev.chebval(s, first), steps, atol=1e-9 * abs(steps).max())


@pytest.mark.parametrize("split", ENDING, ids=lambda each: each.name)
def test_without_friction_the_tables_are_those_of_stokes(split):
    found, exact = BrinkmanSplit(split, 1e-7).series(1.0), split.series(1.0)
    for table in (*(Table("smooth", n) for n in (0, 1)), FLOW, *(Table("psi", n) for n in (1, 2))):
        s = np.linspace(-1, 1, 31)
        own, other = (chebyshev.chebval(s, tables[table]) for tables in (found, exact))
        np.testing.assert_allclose(own, other, atol=1e-6 * abs(other).max())


def shapes(z):
    """Return shape_0 to shape_4 of `kernels/blocks/screened.py` at one place, (1,) of any dtype."""
    file = Path(__file__).parents[1] / "kernels" / "blocks" / "screened.py"
    parts = {each.name: each for each in ast.parse(file.read_text()).body if hasattr(each, "name")}
    scope = {"table": [z], "r": z / z, "DEGREE": 0, "REAL": None}
    scope["pk"] = SimpleNamespace(exp=np.exp, fmin=np.minimum)
    exec(compile(ast.Module(parts["fall"].body, []), str(file), "exec"), scope)
    return [scope[f"shape{n}"][0] for n in range(5)]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("z", [*np.geomspace(1e-8, 4e7, 12), *np.geomspace(1, 3.1, 12)])
def test_no_function_of_friction_cancels(z, dtype):
    """Upwards from shape_0 they rounded by up to 13 times as much."""
    z = np.array([z], dtype)
    with localcontext(Context(prec=90)):
        given = Decimal(float(z[0]))
        theta, odd = [Decimal(1), 1 + given], Decimal(1)
        for n, found in enumerate(shapes(z)):
            odd *= 2 * n + 1
            exact = float(2 * (odd - theta[n + 1] * (-given).exp()) / given**2)
            theta.append((2 * n + 3) * theta[-1] + given**2 * theta[-2])
            assert abs(float(found) / exact - 1) <= 3 * np.finfo(dtype).eps


# ---------------------------------------------------------------------- the reference
@pytest.mark.each
@pytest.mark.parametrize("xi", [None, 2.0, 5.0])
@pytest.mark.parametrize("kappa", [7.0, 15.0])
@every_periodicity
def test_the_reference_against_images(periodicity, kappa, xi):
    trg, src, charges = charged()
    exact = by_images(kappa, trg, src, charges, periodicity)
    given = {"box": BOX, "periodicity": periodicity, "xi": xi}
    found = direct_sum(name(kappa), trg, src, charges, want=("u", "grad_u"), **given)
    for one, other in zip(found, exact, strict=True):
        assert rms(one - other) < 2e-14 * rms(other)


@pytest.mark.each
@pytest.mark.parametrize("kappa", [1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("periodicity", [1, 2, 3])
def test_the_reference_at_small_kappa(periodicity, kappa):
    """No digits are lost where charges add up to zero, and the limit is Laplace's sum."""
    trg, src, charges = charged()
    charges[20:] = -charges[:20]
    given = {"box": BOX, "periodicity": periodicity}
    one, other = (direct_sum(name(kappa), trg, src, charges, xi=xi, **given) for xi in (3.0, 7.0))
    assert rms(one - other) < 2e-13
    off = one - direct_sum("laplace", trg, src, charges, **given)
    off -= off.mean() if periodicity == 3 else 0.0
    assert rms(off) < 3 * kappa * rms(charges) * 6**0.5


@pytest.mark.parametrize(
    "wrong",
    ["yukawa", "yukawa()", "yukawa(2.0)", "yukawa(kappa=0)", "yukawa(k=1)", "laplace(kappa=1.0)"],
)
def test_the_reference_refuses(wrong):
    with pytest.raises(ValueError, match=r"kernel is|yukawa needs kappa"):
        direct_sum(wrong, *charged(), box=BOX, periodicity=3)


@pytest.mark.parametrize("kernel", [brinkman(2.0), LAYERS])
def test_the_reference_solves_the_equation(kernel):
    """Away from sources, by differences: alpha^2 u - laplace u + grad p = 0."""
    trg, src, dens = cloud(n=9)
    norms = np.random.default_rng(1).standard_normal(src.shape) if "dl" in kernel else None
    x, step = trg + np.array([[3.0], [0], [0]]), 1e-3

    def fields(move):
        there = x + move[:, None]
        return direct_sum(kernel, there, src, dens, norms, periodicity=0, want=("u", "p"))

    u, around = fields(np.zeros(3))[0], [map(fields, (e, -e)) for e in step * np.eye(3)]
    sides = [[*each] for each in around]
    bent = sum(one[0] - 2 * u + other[0] for one, other in sides) / step**2
    slope = np.array([one[1] - other[1] for one, other in sides]) / (2 * step)
    assert np.abs(4 * u - bent + slope).max() < 1e-5 * np.abs(slope).max()


# ---------------------------------------------------------------------- sums
# The long run, and every run: sums, numbers of periodic axes, and boxes.
EVERY = [
    (kernel, periodicity, box)
    for kernel in (*map(name, (1e-3, 3.0, 20.0, 1e4)), *map(brinkman, (0.8, 25.0)), LAYERS)
    for periodicity in range(4)
    for box in (BOX, TILTED)[: max(1, periodicity)]
]
SUMMED = [
    (kernel, periodicity, box)
    for kernel, periodicity, box in EVERY
    if (box is TILTED) == (periodicity == 2 and "sl" in kernel)
    and (kernel != LAYERS or periodicity % 2)
]


@pytest.mark.each
@pytest.mark.parametrize("neutral", [True, False])
@pytest.mark.parametrize("split", ["prolate", "hasimoto"])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-7])
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if c in SUMMED else pytest.mark.slow) for c in EVERY]
)
def test_the_promise(case, tolerance, split, neutral):
    kernel, periodicity, box = case
    trg, src, dens = cloud(100, box)
    if neutral:
        dens[:, 50:] = -dens[:, :50]
    kind, how = SUMS[kernel], {"box": box, "periodicity": periodicity}
    how["want"] = tuple(name for name in WANT if kind.terms.get(name))
    dens = dens if kind.rows == 3 else dens[0]
    norms = np.random.default_rng(1).standard_normal(src.shape) if kind.normals else None
    exact = direct_sum(kernel, trg, src, dens, norms, **how)
    how |= {"tolerance": tolerance, "expert": parki.Expert(split=split)}
    how["dl_mean"] = "zero" if kind.normals and periodicity == 3 else None
    plan = parki.Plan(kernel, trg, src, norms, **how)
    assert_promised(plan, dens, exact, 128 * np.finfo(float).eps)


def test_forces_along_a_line_by_all_images():
    """Without an Ewald sum, and without another sum of parki."""
    trg, src, forces = cloud(n=6)
    plan = parki.Plan("brinkman_sl", trg, src, periodicity=1, box=BOX, tolerance=1e-6, alpha=9.0)
    exact = np.zeros_like(trg)
    for n in range(-400, 401):
        for source, force in zip(src.T, forces.T, strict=True):
            away = trg - source[:, None] - np.array([[n * BOX[0]], [0], [0]])
            there = (away**2).sum(axis=0) > 0
            exact[:, there] += stokeslets(9.0, away[:, there], force[:, None])
    assert rms(plan(forces) - exact) < plan.promise(forces) + 1e-5


@every_periodicity
def test_little_friction(periodicity):
    """Forces that add up to zero move the fluid as without friction, and as accurately.

    With two free axes or fewer their sum moves all fluid, the more the less friction there is.
    """
    trg, src, forces = cloud()
    how = {"box": BOX, "periodicity": periodicity, "tolerance": 1e-8, "want": WANT}
    neutral = forces - forces.mean(axis=1, keepdims=True)
    bare = parki.Plan("stokes_sl", trg, src, **how)
    for alpha in (1e-4, 1e-7):
        plan = parki.Plan(brinkman(alpha), trg, src, **how)
        found = zip(plan(neutral), bare(neutral), plan.promise(neutral), strict=True)
        for one, other, promise in found:
            assert rms(one - other) <= 2 * promise + 30 * alpha
    if periodicity == 2:
        constant = 4 * math.pi / (alpha * BOX[0] * BOX[1]) * forces.sum(axis=1) * [1, 1, 0]
        rest = plan(forces)[0] - constant[:, None]
        assert rms(rest - bare(forces)[0]) < 1e-5


@every_periodicity
def test_much_friction(periodicity):
    """Then forces have potential flow: alpha^2 u is a field of dipoles."""
    trg, src, forces = cloud()
    trg = trg[:, 5:]
    how = {"box": BOX, "periodicity": periodicity}
    plan = parki.Plan(brinkman(2e3), trg, src, tolerance=1e-12, **how)
    exact = -2 * direct_sum("laplace_dipole", trg, src, forces, want="grad_u", **how)
    if periodicity == 3:  # a mean pressure gradient balances the forces
        exact -= 8 * math.pi * forces.sum(axis=1, keepdims=True) / math.prod(BOX)
    assert rms(4e6 * plan(forces) - exact) <= 4e6 * plan.promise(forces)


def test_another_kappa_compiles_nothing():
    """It is in the tables alone."""
    trg, src, _ = cloud(100)
    kernels = [
        {each.workunit for each in plan.pipeline.setup.kernels(12)}
        for kappa in (0.3, 0.31)
        for plan in [parki.Plan(name(kappa), trg, src, None, EwaldOptions(3, BOX, 1e-5))]
    ]
    assert kernels[0] == kernels[1]


def test_the_far_field_ends_where_screening_ends_it():
    """A cut-off beyond 45 / kappa has no use; with it, the far field vanishes."""
    trg, src, charges = charged(100)
    for kappa in (200.0, 1e6):
        options = EwaldOptions(3, BOX, 1e-6, cutoff=0.4)
        plan = parki.Plan(name(kappa), trg, src, None, options)
        chosen, length = plan.parameters, np.prod(BOX) ** (1 / 3)
        assert chosen.cutoff * length == pytest.approx(REACH / kappa)
        assert chosen.split.amplitude == 0
        assert plan.pipeline.setup.mesh.padding.grid == (18, 18, 18)
        exact = direct_sum(name(kappa), trg, src, charges, box=BOX, periodicity=3)
        assert_promised(plan, charges, exact)


SHAPES = {"cube": [1.0, 1.0, 1.0], "flat": [1.0, 1.0, 0.1], "long": [4.0, 1.0, 1.0]}
SHAPES["tilted"] = parki.lattice(1.0, 1.0, 1.0, xy=0.4)


@pytest.mark.each
@pytest.mark.parametrize("split", ["auto", "hasimoto"])
@pytest.mark.parametrize("precision", ["full", "mixed"])
@pytest.mark.parametrize(
    ("shape", "periodicity"), [("cube", 0), ("flat", 2), ("long", 1), ("tilted", 3)]
)
@pytest.mark.parametrize("kappa", [60.0, 150.0, 400.0])
def test_strong_screening_in_single_precision(kappa, shape, periodicity, precision, split):
    """Polynomials in place of 1/r rounded as 1/r does: gradients by up to 50 times the promise."""
    rng, box = np.random.default_rng(0), SHAPES[shape]
    vectors = np.array(box) if shape == "tilted" else np.diag(box)
    points = (vectors.T @ rng.random((3, 100))).astype("f4")
    charges, want = rng.standard_normal(100).astype("f4"), ("u", "grad_u")
    exact = direct_sum(
        name(kappa), points, points, charges, box=box, periodicity=periodicity, want=want
    )
    options = EwaldOptions(
        periodicity, box, 1e-6, precision=precision, expert=parki.Expert(split=split)
    )
    dtype = "f8" if precision == "mixed" else "f4"
    points, charges = points.astype(dtype), charges.astype(dtype)
    plan = parki.Plan(name(kappa), points, points, None, options, want=want)
    for found, values, promise in zip(plan(charges), exact, plan.promise(charges), strict=True):
        rounding = 16 * np.finfo("f4").eps * rms(values)
        assert rms(found - values) <= promise / 2 + rounding


# ---------------------------------------------------------------------- names and refusals
def test_names():
    record = SUMS["yukawa(kappa=2)"]
    assert record.name == parki.kernel("yukawa", kappa=2) == "yukawa(kappa=2.0)"
    assert record.symbol.screening == 2.0
    assert in_unit(record.name, 3.0) == "yukawa(kappa=6.0)"
    assert pickle.loads(pickle.dumps(record.name)) == record.name
    assert parki.kernel("yukawa", kappa=np.float32(0.5)) == "yukawa(kappa=0.5)"


def test_what_is_refused():
    trg, src, _ = cloud()
    with pytest.raises(ParkiValueError, match="take laplace"):
        parki.Plan(name(1e-17), trg, src, None, EwaldOptions(3, BOX))
    assert screened(Hasimoto(1.0), 0.0) == Hasimoto(1.0)
    for radial in ("erfc", "rational"):
        options = EwaldOptions(3, BOX, expert=parki.Expert(split="hasimoto", radial=radial))
        with pytest.raises(ParkiValueError, match="polynomials alone"):
            parki.Plan(name(2.0), trg, src, None, options)


def test_friction_that_is_none():
    trg, src, forces = cloud()
    how = {"box": BOX, "periodicity": 3}
    for alpha in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ParkiValueError, match="expected a positive, finite number"):
            parki.brinkman_sl(trg, src, forces, alpha=alpha, **how)
    with pytest.raises(ParkiTypeError, match="needs alpha"):
        parki.Plan("brinkman_sl", trg, src, **how)
    for alpha in (LEAST / 3, 3 * MOST):
        with pytest.raises(ParkiValueError, match="alpha times the size of the box is"):
            brinkman_split(ENDING[0], alpha)
