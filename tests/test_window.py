"""The window: its transform, its polynomials and its images, against quadrature and direct sums."""

from __future__ import annotations

import numpy as np
import pytest
from problems import Window
from scipy.special import i0

from parki.ewald.split.window import default_degree, images

WINDOWS = [(4, 8.4), (6, 15.0), (8, 16.8), (12, 30.0), (16, 33.6)]


@pytest.mark.parametrize(("points", "beta"), WINDOWS)
def test_values_follow_the_definition(points, beta):
    window, a = Window(points, beta), points / 2
    r = np.linspace(-a, a, 101)
    expected = i0(beta * np.sqrt(np.maximum(1 - (r / a) ** 2, 0))) / i0(beta)
    np.testing.assert_allclose(window(r), expected, rtol=0, atol=1e-13)
    assert window(a * (1 + 1e-12)) == 0
    assert window.derivative(-a * (1 + 1e-12)) == 0


@pytest.mark.parametrize(("points", "beta"), WINDOWS)
def test_derivative_integrates_to_the_window(points, beta):
    window = Window(points, beta)
    ends = np.linspace(-points / 2, points / 2, 4 * points + 1)
    x, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(ends)[:, None] / 2
    integral = (half * weights * window.derivative(ends[:-1, None] + half * (x + 1))).sum(axis=1)
    np.testing.assert_allclose(integral, np.diff(window(ends)), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("points", "beta"), WINDOWS)
def test_fourier_on_both_sides_of_beta(points, beta):
    window, a = Window(points, beta), points / 2
    x, weights = np.polynomial.legendre.leggauss(200)
    k = np.concatenate([[0.0], beta / a * np.array([0.3, 0.999, 1.0, 1.001, 2.0]), [9.4, -3.0]])
    expected = np.cos(np.outer(k, a * x)) @ (a * weights * window(a * x))
    np.testing.assert_allclose(window.fourier(k), expected, rtol=0, atol=1e-13)
    # Beyond beta the transform is as small as the window's edge, and is to be right relative to it.
    k = np.sqrt(beta**2 + (np.pi * np.array([0.5, 1.0, 1.5, 7.5])) ** 2) / a
    expected = np.array([1, 0, -1, -1]) * 2 * a / i0(beta) / (np.pi * np.array([0.5, 1, 1.5, 7.5]))
    np.testing.assert_allclose(window.fourier(k), expected, rtol=1e-11, atol=1e-12 / i0(beta))


@pytest.mark.parametrize(("points", "beta"), WINDOWS)
def test_piecewise_polynomials_and_their_convention(points, beta):
    window = Window(points, beta)
    t = 50 + np.random.default_rng(1).random(200) * 10  # grid coordinates
    first = np.floor(t).astype(int) - (points // 2 - 1)
    r = first[:, None] + np.arange(points) - t[:, None]
    assert (np.abs(r) <= points / 2).all()
    s = 2 * (t - np.floor(t)) - 1
    for degree, tolerance in ((default_degree(points), 1e-3), (18, 2e-13)):
        w, dw = window.piecewise(degree)
        assert w.shape == dw.shape == (degree + 1, points)
        value = sum(c * s[:, None] ** (degree - i) for i, c in enumerate(w))
        slope = sum(c * s[:, None] ** (degree - i) for i, c in enumerate(dw))
        # Samples sum to the window's integral, and those of the derivative to zero.
        sums = window(r).sum(axis=1)[:, None]
        np.testing.assert_allclose(value, window(r) * window.fourier(0) / sums, atol=tolerance)
        exact = window.derivative(r)
        exact -= window(r) * exact.sum(axis=1)[:, None] / sums
        np.testing.assert_allclose(slope, exact, rtol=0, atol=4 * tolerance)


@pytest.mark.parametrize(
    ("points", "beta"), [(4, 8.4), (6, 12.0), (6, 15.0), (8, 18.0), (10, 21.0)]
)
def test_images_are_what_the_samples_carry(points, beta):
    """Over all offsets from the grid, the error of the samples is that of the images together."""
    k = np.array([0.05, 0.3, 1.0, 2.0, 3.0])
    window = Window(points, beta)
    frac = (np.arange(512) + 0.5) / 512
    r = np.arange(points) - (points // 2 - 1) - frac[:, None]
    wave = np.exp(-1j * k[:, None, None] * r)
    own = window.fourier(k)[:, None]
    value = (window(r) * wave).sum(axis=2) / own - 1
    slope = (window.derivative(r) * wave).sum(axis=2) / (1j * own) - k[:, None]
    found = images(k, [(points, beta)])
    cross = (found.rho * found.slope).sum(axis=0)
    carried = k**2 * found.rho_square + 2 * k * cross + found.slope_square
    mean_value, mean_slope = ((abs(x) ** 2).mean(axis=1) for x in (value, slope))
    np.testing.assert_allclose(found.rho_square[0], mean_value, rtol=0.15)
    np.testing.assert_allclose(carried[0], mean_slope, rtol=0.05)
    size = abs(found.slope).sum(axis=0) + found.slope_rest
    assert (found.rho_size[0] > 0.999 * abs(value).max(axis=1)).all()
    assert (size[0] > 0.999 * abs(slope - k[:, None] * value).max(axis=1)).all()


@pytest.mark.parametrize("points", [10, 12, 14, 16])
def test_the_fit_does_not_show_in_long_waves(points):
    """Those that the split keeps: a degree fewer has 6 to 30 times the error of the window."""
    window, k = Window(points, 2.1 * points), np.array([0.3, 0.6, 1.0])
    degree = default_degree(points)
    frac = (np.arange(256) + 0.5) / 256
    r = np.arange(points) - (points // 2 - 1) - frac[:, None]
    fitted = sum(
        c * (2 * frac[:, None] - 1) ** (degree - i)
        for i, c in enumerate(window.piecewise(degree)[0])
    )
    wave, own = np.exp(-1j * k[:, None, None] * r), window.fourier(k)[:, None]
    exact, found = (
        np.sqrt((abs((values * wave).sum(axis=2) / own - 1) ** 2).mean(axis=1))
        for values in (window(r), fitted)
    )
    assert (found <= 2.5 * exact).all()


@pytest.mark.parametrize("points", [2, 3, 6, 11, 18])
def test_sums_of_samples(points):
    """A charge's mean does not hang on where it lies in the grid, and a stress is no force."""
    window = Window(points, 2.1 * points)
    values, slopes = window.piecewise(default_degree(points))
    sums = np.polyval(values.sum(axis=1), np.linspace(-1, 1, 50))
    np.testing.assert_allclose(sums, window.fourier(0), rtol=1e-13)
    assert np.abs(slopes.sum(axis=1)).max() <= 1e-15 * points * np.abs(slopes).max()
