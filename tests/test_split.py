"""Hasimoto's split and its radial polynomials, against closed forms with erfc and exp."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erfc

from parki.errors import ParkiValueError
from parki.ewald.split import KERNELS, Hasimoto, RadialPolynomials, series_degree


def exact_kernels(xi, r, f, q, n):
    """Near single layer, double layer and Laplace kernels (f, q, n of shape (3,)) at r (3,)."""
    d = np.linalg.norm(r)
    g, tail = 2 * xi / np.sqrt(np.pi) * np.exp(-((xi * d) ** 2)), erfc(xi * d)
    single = (tail / d - g) * f + (tail / d + g) / d**2 * (f @ r) * r
    steep = -6 * tail / d**5 - 6 * g / d**4 - 4 * xi**2 * g / d**2
    spread = 2 * xi**2 * g * ((q @ n) * r + (n @ r) * q + (q @ r) * n)
    return single, spread + steep * (q @ r) * (n @ r) * r, tail / d


def assembled_kernels(polynomials, rc, r, f, q, n):
    """The same from the polynomials, as the P2P kernel forms them."""
    d = np.linalg.norm(r)
    e, scaled = r / d, d / rc
    y, s = 1 / scaled, 2 * scaled**2 - 1
    both, cross, slope, mean = (np.polyval(c, s) for c in polynomials)
    single = (y - 2 * both) * f + (y - 2 * cross * scaled**2) * (f @ e) * e
    double = -2 * slope * scaled * ((q @ n) * e + (n @ e) * q + (q @ e) * n)
    double += (-6 * y**2 + (4 * slope + 12 * cross) * scaled) * (q @ e) * (n @ e) * e
    return single / rc, double / rc**2, (y - 2 * mean) / rc


@pytest.mark.parametrize("xi_rc", [0.7, 2.0, 3.2, 4.7, 5.4])
def test_pair_kernels_from_the_polynomials(xi_rc):
    rc = 0.37
    split = Hasimoto(xi_rc / rc)
    polynomials = split.radial_polynomials(rc, 36)
    rng = np.random.default_rng(2)
    for _ in range(200):
        r, f, q, n = rng.standard_normal((4, 3))
        r *= rc * rng.random() / np.linalg.norm(r)
        y = rc / np.linalg.norm(r)
        found = assembled_kernels(polynomials, rc, r, f, q, n)
        expected = exact_kernels(split.xi, r, f, q, n)
        scales = (1 + y) / rc, (1 + y**2) / rc**2, (1 + y) / rc
        for a, b, scale in zip(found, expected, scales, strict=True):
            assert np.abs(a - b).max() < 1e-12 * scale


@pytest.mark.parametrize("xi_rc", [3.2, 5.4])
def test_a_coinciding_pair_keeps_its_smooth_part(xi_rc):
    """Singular parts skipped, r = 0 leaves -4 psi(0) f and -2 psi(0) q."""
    rc = 0.8
    split = Hasimoto(xi_rc / rc)
    p = split.radial_polynomials(rc, 36)
    assert -2 * np.polyval(p.S, -1.0) / rc == pytest.approx(-4 * split.psi0, rel=1e-13)
    assert -2 * np.polyval(p.L, -1.0) / rc == pytest.approx(-2 * split.psi0, rel=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("xi_rc", "tolerance"), [(2.5, 1e-3), (4.2, 1e-7), (5.4, 1e-11)])
def test_radial_degree_is_enough_and_not_more(kernel, xi_rc, tolerance):
    degree = Hasimoto.radial_degree(kernel, xi_rc, tolerance)
    split = Hasimoto(xi_rc)  # rc = 1
    scaled = np.linspace(1e-3, 1, 1500)
    s = 2 * scaled**2 - 1

    def worst(cut: int) -> float:
        exact, rough = (split.radial_polynomials(1.0, d) for d in (48, cut))
        both, cross, slope, mean = (
            np.polyval(a, s) - np.polyval(b, s) for a, b in zip(rough, exact, strict=True)
        )
        if kernel == "laplace":
            return np.abs(2 * mean).max()
        if kernel == "stokes_sl":
            along = 2 * both + 2 * cross * scaled**2
            return np.sqrt(((2 * both) ** 2 * 2 + along**2) / 3).max()
        c, d = -2 * slope * scaled, (4 * slope + 12 * cross) * scaled
        return np.sqrt((15 * c**2 + 6 * c * d + d**2) / 9).max()

    assert worst(degree) < 1.05 * tolerance
    assert worst(degree - 1) > 0.95 * tolerance


@pytest.mark.parametrize(
    ("kernel", "field", "size"),
    [
        ("laplace", "L", 2),
        ("stokes_sl", "S", 2),
        ("stokes_sl", "X", 2 / np.sqrt(3)),
        ("stokes_dl", "X", 12 / 3),
        ("stokes_dl", "R", np.sqrt(28) / 3),  # |-2 (three permutations) + 4 e e e|
    ],
)
def test_size_of_a_lost_coefficient(kernel, field, size):
    """A series of T_1 alone errs most at r = rc, by its coefficient in the pair kernel's norm."""
    series = {name: np.zeros(3) for name in "SXRL"}
    series[field][1] = 1e-3
    for tolerance, degree in ((1.01e-3 * size, 0), (0.99e-3 * size, 1)):
        assert series_degree(RadialPolynomials(**series), kernel, tolerance) == degree


def test_near_functions_are_derivatives_of_one_another():
    split, step = Hasimoto(3.0), 1e-5
    r = np.linspace(0.05, 1.2, 30)
    b1, b2, b3 = split.near(r)
    up, down = split.near(r + step), split.near(r - step)
    np.testing.assert_allclose((up[0] - down[0]) / (2 * step), b2, atol=1e-8)
    np.testing.assert_allclose((up[1] - down[1]) / (2 * step), b3, atol=1e-8)
    np.testing.assert_allclose(b1, erfc(3.0 * r), rtol=1e-15)


def test_far_factors_are_transforms_of_the_mollifier():
    split = Hasimoto(2.3)
    r, weight = np.linspace(-4, 4, 4001, retstep=True)
    psi = split.psi0 * np.exp(-((2.3 * r) ** 2))
    k = np.linspace(0, 20, 41)
    transform = weight * (np.cos(np.outer(k, r)) @ psi)
    slope = -weight * (np.sin(np.outer(k, r)) @ (r * psi))
    np.testing.assert_allclose(split.gamma_laplace(k**2), transform, atol=1e-14)
    np.testing.assert_allclose(split.gamma_stokes(k**2), transform - k * slope / 2, atol=1e-13)
    second_moment = weight * (r**2 @ psi)  # psi^ = 1 - second_moment k^2 / 2 + ...
    assert split.laplace_background == pytest.approx(2 * np.pi * second_moment, rel=1e-12)


def test_unknown_kernels_are_refused():
    with pytest.raises(ParkiValueError, match="'stokes'; expected one of laplace"):
        Hasimoto.radial_degree("stokes", 3.0, 1e-3)
