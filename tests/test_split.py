"""Both splits and their radial polynomials, against closed forms, transforms and differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from contract import rms
from operators import Operator, derivative, part_of, radial
from scipy.special import erfc

import parki
from parki.errors import ParkiValueError
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.prolate import STEP, Prolate, legendre_series, solve
from parki.ewald.split.radial_series import radial_functions
from parki.ewald.sums import SUMS, TERMS
from parki.ewald.sums.sizes import UPS
from parki.ewald.sums.tables import Table

RC = 0.37
SPLITS = [*(Hasimoto(z / RC) for z in (0.7, 3.2, 5.4)), *(Prolate(c, RC) for c in (3, 14, 34))]
UNITS = np.eye(3)


def name(split):
    return f"c={split.c}" if isinstance(split, Prolate) else f"xi={split.xi:.1f}"


SECOND = Table("smooth", 2)
every_split = pytest.mark.parametrize("split", SPLITS, ids=name)


@every_split
def test_radial_functions_are_derivatives_of_one_another(split):
    """T_0' = -r T_1, T_1' = -(psi_1 + 3 T_1) / r, "flow"' = r (psi_1 - T_1), psi_n' = r psi_{n+1}.

    Without singular parts, r = 0 leaves -4 psi(0) f and -2 psi(0) q.
    """
    p = split.radial_polynomials(RC, 36)
    assert -2 * np.polyval(p.flow, -1.0) / RC == pytest.approx(-4 * split.psi0, rel=1e-13)
    assert -2 * np.polyval(p.smooth(0), -1.0) / RC == pytest.approx(-2 * split.psi0, rel=1e-13)
    r, step = np.linspace(0.05, 0.99, 40), 1e-4
    s = 2 * r**2 - 1
    values = p.map(lambda c: np.polyval(c, s))
    first, psi = values.smooth(1), {n: values.psi(n) for n in (1, 2, 3, 4)}

    def slope(c):
        up, down = (np.polyval(c, 2 * (r + h) ** 2 - 1) for h in (step, -step))
        return (up - down) / (2 * step)

    for c, expected in (
        (p.smooth(0), -r * first),
        (p.smooth(1), -(psi[1] + 3 * first) / r),
        (p.flow, r * (psi[1] - first)),
        (p.psi(1), r * psi[2]),
        (p.psi(2), r * psi[3]),
        (p.psi(3), r * psi[4]),
    ):
        np.testing.assert_allclose(slope(c), expected, atol=3e-5 * np.abs(expected).max())
    second, table = (psi[1] + 3 * first) / r**2, p.row(SECOND)
    np.testing.assert_allclose(np.polyval(table, s), second, atol=1e-9 * np.abs(second).max())


@pytest.mark.each
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("split", SPLITS[1::3], ids=name)
def test_sizes_of_the_terms(term, split):
    """`ErrorTerm.square` against the tensors of all unit densities, and normals and axes.

    The square of a second derivative is of the fourth order in its axis: the mean over all
    directions is the one over the axes of an icosahedron.
    """
    r = np.array([0.3, -0.4, 0.5]) * RC
    d, (q, n) = np.linalg.norm(r), (np.repeat(UNITS, 3, axis=1), np.tile(UNITS, 3))
    squares, places = [], d * UPS if "doublet_axis_derivative" in term else [r]
    for up, r in itertools.product(range(3), places):
        part = part_of(term, up)
        dens, norms = (q, n) if part.source.normal else (np.eye(part.source.rows), None)
        functions = radial(split.near(d), d, part.symbol.order)
        fields = part.fields(dens, norms)
        for at in range(9):  # tensor targets
            for row in part.rows(fields, Operator.d, q[:, at : at + 1], n[:, at : at + 1]):
                tensor = row.of(lambda axes, f=functions, at=r: derivative(axes, at, f))
                squares.append(np.sum(tensor**2) / dens.shape[1] / 27 / len(places))
                # The power is that of the length that the kernel carries.
                powers = {len(axes) + 3 - 2 * part.symbol.order for axes in row}
                assert powers <= {TERMS[term].power}
    found = TERMS[term].square(d**2, radial_functions(d, split.near(d)))
    assert found == pytest.approx(sum(squares), rel=1e-11)


@pytest.mark.parametrize("c", [20.0, 30.0, 45.0])
def test_derivatives_of_the_prolate_function(c):
    """At r = 0, by the powers that its differential equation has: no digits are lost."""
    chi = legendre_series(c)[1]
    terms = [0.0, Prolate(c, 1.0).psi0]
    for k in range(0, 8, 2):
        terms.append(((k * (k + 1) - chi) * terms[-1] + c**2 * terms[-2]) / ((k + 1) * (k + 2)))
    found = Prolate(c, 1.0).series(1.0).map(lambda f: np.polynomial.chebyshev.chebval(-1, f))
    for n, each, factor in zip((1, 2, 3, 4), terms[2:], (2, 8, 48, 384), strict=True):
        assert found.psi(n) == pytest.approx(factor * each, rel=2e-12)


@pytest.mark.parametrize(
    ("kernel", "tolerance"), [("doublet_axis_derivative(up=2)", 1e-8), ("stokes_dipole", 1e-11)]
)
def test_steep_sums_do_not_depend_on_the_split(kernel, tolerance):
    """Points that are apart, so that nothing is large and rounds."""
    rng = np.random.default_rng(0)
    src = (np.indices((4, 4, 4)).reshape(3, -1) + 0.5 * rng.random((3, 64))) / 4
    dens = rng.standard_normal(SUMS[kernel].density_shape(64))
    plans = [
        parki.Plan(
            kernel,
            src,
            src,
            parki.EwaldOptions(3, [1, 1, 1], tolerance, expert=parki.Expert(split=split)),
            want="grad_u",
        )
        for split in ("prolate", "hasimoto")
    ]
    one, other = (plan(dens) for plan in plans)
    rounding = 64 * np.finfo("f8").eps * rms(other)
    assert rms(one - other) <= 2 * plans[0].promise(dens) + rounding


# Kernels that take T_2 have it of psi_2, which knows T_1 and psi_1 at small r better than they do.
@pytest.mark.each
@pytest.mark.parametrize("term", [term for term in TERMS if SECOND not in part_of(term).tables])
@pytest.mark.parametrize(
    ("split", "tolerance"),
    [
        (Hasimoto(2.5), 1e-3),
        (Hasimoto(4.2), 1e-7),
        (Hasimoto(5.4), 1e-11),
        (Prolate(10, 1.0), 1e-3),
        (Prolate(22, 1.0), 1e-7),
        (Prolate(32, 1.0), 1e-11),
    ],
)
def test_polynomial_degree_is_enough_and_not_more(term, split, tolerance):
    degree = split.polynomial_degree(term, 1.0, tolerance)
    scaled = np.linspace(1e-3, 1, 1500)
    s = 2 * scaled**2 - 1

    def worst(cut: int) -> float:
        exact, rough = (split.radial_polynomials(1.0, d) for d in (48, cut))
        lost = rough.map(lambda a, b: np.polyval(a, s) - np.polyval(b, s), exact)
        return np.sqrt(TERMS[term].square(scaled**2, lost).max())

    assert worst(degree) < 1.05 * tolerance
    assert worst(degree - 1) > 0.95 * tolerance


@every_split
def test_near_functions_are_derivatives_of_one_another(split):
    step = 1e-4 * RC
    r = np.linspace(0.05, 0.99, 30) * RC
    derivatives = split.near(r)
    up, down = split.near(r + step), split.near(r - step)
    for order in range(5):
        found = (up[order] - down[order]) / (2 * step)
        expected = derivatives[order + 1]
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert split.near(0.0)[0] == 1 and split.near(0.0)[1] == pytest.approx(-2 * split.psi0)


def test_near_functions_have_their_own_form():
    r = np.linspace(0.05, 1.2, 30)
    np.testing.assert_allclose(Hasimoto(3.0).near(r)[0], erfc(3.0 * r), rtol=1e-15)
    split = Prolate(20, 0.6)
    for function in split.near(r):
        assert (function[r > 0.6] == 0).all()
    assert abs(split.near(0.6)[0]) < 1e-15


@every_split
def test_far_factors_are_transforms_of_the_mollifier(split):
    reach = RC if isinstance(split, Prolate) else 6.5 / split.xi
    nodes, weights = np.polynomial.legendre.leggauss(120)
    r, weights = reach * (nodes + 1) / 2, reach * weights
    psi = weights * split.near(r)[1] / -2
    k = np.linspace(0, min(split.band, 8 * split.psi0), 41)
    transform = np.cos(np.outer(k, r)) @ psi
    slope = -np.sin(np.outer(k, r)) @ (r * psi)
    np.testing.assert_allclose(split.factor(1).at(k**2), transform, atol=2e-15)
    np.testing.assert_allclose(split.factor(2).at(k**2), transform - k * slope / 2, atol=1e-14)
    second_moment = r**2 @ psi  # psi^ = 1 - second_moment k^2 / 2 + ...
    assert split.background == pytest.approx(2 * np.pi * second_moment, rel=1e-12)


def test_the_prolate_far_field_ends():
    split = Prolate(14, RC)
    assert split.band == pytest.approx(14 / RC)
    k2 = np.random.default_rng(0).random((3, 100, 90)) * 4 * split.band**2  # over one block
    for gamma in (split.factor(1).at, split.factor(2).at):
        values = gamma(k2)
        assert (values[k2 > split.band**2] == 0).all() and (values[k2 < split.band**2] > 0).all()
        np.testing.assert_array_equal(values[1, 3:5], gamma(k2[1, 3:5]))
        np.testing.assert_array_equal(values[::-1, ::2], gamma(k2[::-1, ::2]))
        assert gamma(float(k2[2, 2, 2])) == values[2, 2, 2]
        assert gamma(1e30) == 0 and gamma(0.0) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("kind", ["hasimoto", "prolate"])
@pytest.mark.parametrize("goal", [1e-1, 1e-6, 1e-12])
def test_solve_meets_its_goal(kind, goal):
    def error(split):
        z = split.c if isinstance(split, Prolate) else (split.xi * RC) ** 2
        return 30 * np.exp(-z) * np.sqrt(z)

    split = solve(kind, RC, error, goal)
    if kind == "hasimoto":
        assert error(split) == pytest.approx(goal, rel=0.05)
    else:
        assert split.rc == RC
        assert error(split) <= goal < error(Prolate(split.c - STEP, RC))
        assert solve(kind, RC, lambda split: 1.0, goal).c == 60
        assert solve(kind, RC, lambda split: 0.0, goal).c == 3


def test_wrong_arguments_are_refused():
    for split in (Hasimoto(3.0), Prolate(12, 1.0)):
        with pytest.raises(ParkiValueError, match="'stokes'; expected one of laplace"):
            split.polynomial_degree("stokes", 1.0, 1e-3)
    with pytest.raises(ParkiValueError, match="give the split's cut-off"):
        Prolate(12, 1.0).polynomial_degree("laplace", 0.9, 1e-3)
    with pytest.raises(ParkiValueError, match="'gauss'; expected one of hasimoto, prolate"):
        solve("gauss", 1.0, lambda split: 0.0, 1e-3)
