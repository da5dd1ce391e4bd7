"""Error estimates against errors measured in exact and gridded sums over a triply periodic box."""

from __future__ import annotations

import numpy as np
import pytest

from parki.errors import ParkiValueError
from parki.ewald import estimates
from parki.ewald.split import KERNELS, Hasimoto
from parki.ewald.window import KaiserBessel, images

LENGTHS = np.array([1.2, 1.0, 0.8])
SHAPE = (24, 20, 18)
STEPS = LENGTHS / SHAPE
VOLUME = float(np.prod(LENGTHS))


class System:
    """Random points and densities, uniform in the box or within a ball."""

    def __init__(self, kernel, seed, radius=None, count=60):
        rng = np.random.default_rng(seed)
        self.kernel = kernel
        if radius is None:
            self.targets, self.sources = rng.random((2, 3, count)) * LENGTHS[:, None]
        else:
            away = rng.standard_normal((2, 3, count))
            away *= (
                radius
                * rng.random((2, 1, count)) ** (1 / 3)
                / np.linalg.norm(away, axis=1)[:, None]
            )
            self.targets, self.sources = away + LENGTHS[:, None] / 2
        self.f, self.q, self.n = rng.standard_normal((3, 3, count))
        square = {
            "laplace": (self.f[0] ** 2).sum(),
            "stokes_sl": (self.f**2).sum(),
            "stokes_dl": ((self.q**2).sum(axis=0) * (self.n**2).sum(axis=0)).sum(),
        }
        self.strength = float(square[kernel])  # Q

    def spectrum(self, transform, gradient, k, split):
        """Far field's coefficients; ``transform(c)``, ``gradient(c, m)`` give modes."""
        k2 = sum(x**2 for x in np.meshgrid(*k, indexing="ij"))
        zero = k2 == 0
        k2[zero] = 1
        if self.kernel == "laplace":
            return [
                np.where(zero, 0, 4 * np.pi / k2 * split.gamma_laplace(k2)) * transform(self.f[0])
            ]
        # An odd factor vanishes at the highest mode of an even grid, which is its own negative.
        odd = [np.where(np.arange(len(x)) * 2 == len(x), 0, x) for x in k]
        k = np.meshgrid(*odd, indexing="ij")
        if self.kernel == "stokes_sl":
            a, d = [transform(c) for c in self.f], 0
        else:
            q, n = self.q, self.n
            a = [sum(gradient(q[j] * n[m] + n[j] * q[m], m) for m in range(3)) for j in range(3)]
            d = transform((q * n).sum(axis=0))
        along = sum(k[j] * a[j] for j in range(3)) / k2
        symbol = np.where(zero, 0, 8 * np.pi / k2 * split.gamma_stokes(k2))
        return [symbol * (a[j] - k[j] * along + 1j * k[j] * d) for j in range(3)]

    def exact(self, split, reach=6.3, box=None):
        """Far field from all modes up to 2 xi reach, or from the grid's (half its rim)."""
        top = [int(2 * split.xi * reach * x / (2 * np.pi)) + 1 for x in LENGTHS]
        top = top if box is None else [m // 2 for m in box]
        k = [2 * np.pi / x * np.arange(-m, m + 1) for x, m in zip(LENGTHS, top, strict=True)]
        wave = [np.exp(-1j * np.outer(k[i], self.sources[i])) for i in range(3)]
        plane = (wave[0][:, None] * wave[1]).reshape(-1, self.sources.shape[1])

        def transform(c):
            return (plane @ (wave[2] * c).T).reshape([len(x) for x in k])

        def gradient(c, m):
            return 1j * k[m].reshape([-1 if i == m else 1 for i in range(3)]) * transform(c)

        rim = [np.ones(len(x)) for x in k]
        if box is not None:
            for weight in rim:
                weight[[0, -1]] = 0.5
        back = [rim[i] * np.exp(1j * np.outer(self.targets[i], k[i])) for i in range(3)]
        modes = self.spectrum(transform, gradient, k, split)
        return (
            np.array(
                [
                    np.einsum("tbc,tb,tc->t", np.tensordot(back[0], u, 1), back[1], back[2]).real
                    for u in modes
                ]
            )
            / VOLUME
        )

    def gridded(self, split, window):
        """Far field through the grid, with four components and the window's gradient."""

        def under_window(points, i):
            t = points[i] / STEPS[i]
            index = (
                np.floor(t).astype(int)[:, None] + np.arange(window.points) - window.points // 2 + 1
            )
            r = index - t[:, None]
            return index % SHAPE[i], window(r), window.derivative(r) / STEPS[i]

        def flat(axes):
            i, j, k = (axis[0] for axis in axes)
            return (i[:, :, None, None] * SHAPE[1] + j[:, None, :, None]) * SHAPE[2] + k[
                :, None, None
            ]

        def product(a, b, c):
            return a[:, :, None, None] * b[:, None, :, None] * c[:, None, None]

        spread = [under_window(self.sources, i) for i in range(3)]
        gather = [under_window(self.targets, i) for i in range(3)]

        def gradient(c, m):
            values = product(*(axis[2 if i == m else 1] for i, axis in enumerate(spread)))
            values *= c[:, None, None, None]
            grid = np.bincount(flat(spread).ravel(), values.ravel(), int(np.prod(SHAPE)))
            return np.fft.fftn(grid.reshape(SHAPE))

        angles = [2 * np.pi * np.fft.fftfreq(m) for m in SHAPE]
        k = [a / h for a, h in zip(angles, STEPS, strict=True)]
        w = [window.fourier(a) for a in angles]
        scale = 1 / (w[0][:, None, None] * w[1][:, None] * w[2]) ** 2 / np.prod(STEPS)
        modes = self.spectrum(lambda c: gradient(c, None), gradient, k, split)
        weights, index = product(*(axis[1] for axis in gather)), flat(gather)
        return np.array(
            [
                (np.fft.ifftn(scale * u).real.ravel()[index] * weights).sum(axis=(1, 2, 3))
                for u in modes
            ]
        )


def rms(*pairs):
    """Root of the mean of |a - b|^2 / Q over (system, a, b)."""
    return np.sqrt(np.mean([((a - b) ** 2).sum(axis=0).mean() / s.strength for s, a, b in pairs]))


def matched(ratio):
    """Split whose K / 2 xi on the coarsest axis is ``ratio``."""
    return Hasimoto(np.pi / STEPS.max() / 2 / ratio)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("xi_rc", [2.5, 4.0])
def test_near_closed_forms(kernel, xi_rc):
    rc, volume = 0.3, 2.0
    xi = xi_rc / rc
    closed = (
        {
            "laplace": 1 / (xi**2 * rc**1.5),
            "stokes_sl": np.sqrt(8 * rc / 3),
            "stokes_dl": np.sqrt(112 / 9 * xi**4 * rc**3),
        }[kernel]
        * np.exp(-(xi_rc**2))
        / np.sqrt(volume)
    )
    assert 0.85 < estimates.near(kernel, Hasimoto(xi), rc, volume).rms / closed < 1.05


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("xi_rc", [1.5, 4.0])
def test_near_against_random_pairs(kernel, xi_rc):
    """Mean square of the pair kernel over a fine radial grid and random directions."""
    rc, xi = 0.3, xi_rc / 0.3
    rng = np.random.default_rng(3)
    f, q, n = (x / np.linalg.norm(x, axis=0) for x in rng.standard_normal((3, 3, 20000)))
    r = np.linspace(rc, rc + 5 / xi, 400)
    b1, b2, b3 = (x[:, None] for x in Hasimoto(xi).near(r))
    r = r[:, None]
    if kernel == "laplace":  # the direction of r is e_3
        square = (b1 / r) ** 2
    elif kernel == "stokes_sl":
        square = (b2 + b1 / r) ** 2 * (f[0] ** 2 + f[1] ** 2) + (2 * b1 / r * f[2]) ** 2
    else:
        steep = -2 * b3 + 6 * b2 / r - 6 * b1 / r**2
        mixed = [n[2] * q[i] + q[2] * n[i] for i in range(3)]
        square = (b3 * ((q * n).sum(axis=0) + mixed[2]) + steep * q[2] * n[2]) ** 2
        square += b3**2 * (mixed[0] ** 2 + mixed[1] ** 2)
    square = square.mean(axis=1)
    shells = 4 * np.pi * r[:, 0] ** 2 * square
    total = ((shells[1:] + shells[:-1]) / 2 * np.diff(r[:, 0])).sum()
    found = estimates.near(kernel, Hasimoto(xi), rc, 1.0)
    assert found.rms == pytest.approx(np.sqrt(total), rel=0.02)
    assert found.peak == pytest.approx(np.sqrt(square[0]), rel=0.02)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ratio", [2.7, 4.0])
def test_truncation_in_a_brick(kernel, ratio):
    split = matched(ratio)
    found = estimates.truncation(kernel, split, STEPS, VOLUME)
    systems = [System(kernel, seed) for seed in range(3)]
    error = rms(*((s, s.exact(split, box=SHAPE), s.exact(split)) for s in systems))
    assert 0.7 < error / found.rms < 1.3
    ball = System(kernel, 9, radius=0.03)
    assert 0.2 < rms((ball, ball.exact(split, box=SHAPE), ball.exact(split))) / found.peak < 1.3


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("points", "shape", "ratio"),
    [(4, 2.1, 2.7), (6, 2.5, 3.4), (8, 2.1, 4.0), (8, 2.5, 6.0), (10, 2.3, 4.6), (14, 2.2, 5.5)],
)
def test_far_field_of_uniform_and_clustered_points(kernel, points, shape, ratio):
    split, window = matched(ratio), KaiserBessel(points, shape * points)
    window_rms, window_peak = (
        x[0, 0] for x in estimates.aliasing(kernel, split, LENGTHS, SHAPE, [points], [shape])
    )
    cut = estimates.truncation(kernel, split, STEPS, VOLUME)
    uniform = np.hypot(window_rms, cut.rms)
    systems = [System(kernel, seed) for seed in range(3)]
    error = rms(*((s, s.gridded(split, window), s.exact(split)) for s in systems))
    assert 0.7 < error / uniform < 1.5

    radius = 0.05
    ball = System(kernel, 7, radius=radius)
    density = VOLUME / (4 / 3 * np.pi * radius**3)
    bound = min(np.sqrt(density) * uniform, window_peak + cut.peak)
    error = rms((ball, ball.gridded(split, window), ball.exact(split)))
    assert 0.02 * bound < error < bound


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ratio", [2.7, 4.6])
def test_mode_rule_of_large_grids(kernel, ratio, monkeypatch):
    """The graded rule gives what summing all modes gives."""
    shape = (96, 72, 50)
    split = Hasimoto(np.pi / (LENGTHS / shape).max() / 2 / ratio)
    arguments = (kernel, split, LENGTHS, shape, [4, 8, 12], [2.0, 2.5])

    def forget():
        estimates._mode_rule.cache_clear()
        estimates._images.cache_clear()

    forget()
    graded = estimates.aliasing(*arguments)
    monkeypatch.setattr(estimates, "_GAUSS", 10**6)
    forget()
    complete = estimates.aliasing(*arguments)
    forget()
    np.testing.assert_allclose(graded, complete, rtol=0.07)


@pytest.mark.parametrize(("points", "shape", "ratio"), [(6, 2.1, 3.4), (8, 2.7, 6.0)])
def test_double_layer_sums_mode_by_mode(points, shape, ratio):
    """The one-dimensional profiles hold what a sum over all modes, axes and images gives."""
    split = matched(ratio)
    angles = [2 * np.pi * np.abs(np.fft.fftfreq(m)) for m in SHAPE]
    k = np.meshgrid(*(a / h for a, h in zip(angles, STEPS, strict=True)), indexing="ij")
    k2 = k[0] ** 2 + k[1] ** 2 + k[2] ** 2
    k2[0, 0, 0] = 1
    symbol = 8 * np.pi * split.gamma_stokes(k2) / k2
    symbol[0, 0, 0] = 0
    square = size = rest = 0.0
    for axis in range(3):
        form = [-1 if i == axis else 1 for i in range(3)]
        image = images(angles[axis], [(points, shape * points)])
        far = image.b_square[0] - (image.b[:, 0] ** 2).sum(axis=0)
        far_rho = image.rho_square[0] - (image.rho[:, 0] ** 2).sum(axis=0)
        pairs = list(zip(image.rho[:, 0], image.b[:, 0], strict=True))
        pairs += [(np.sqrt(far_rho), 0 * far), (0 * far, np.sqrt(np.maximum(far, 0)))]
        for number, (rho, b) in enumerate(pairs):
            rho, b = rho.reshape(form), b.reshape(form) / STEPS[axis]
            tilt = 1 - k[axis] ** 2 / k2  # of e across k
            carried = rho**2 * k2 + 2 * rho * b * k[axis] + b**2  # |k'|^2
            spread = 4 / 9 * carried + 2 / 9 * b**2 * tilt + rho**2 * k2 / 3
            square += (symbol**2 * (spread + 7 / 9 * rho**2 * k2)).sum()
            if number < len(image.rho):
                size += (symbol * np.sqrt(np.maximum(spread, 0))).sum()
        size += (symbol * np.sqrt(7 / 9 * k2) * image.rho_size[0].reshape(form)).sum()
        rest += (symbol * image.b_rest[0].reshape(form)).sum() / STEPS[axis]
    rms_found, peak_found = (
        x[0, 0] * VOLUME
        for x in estimates.aliasing("stokes_dl", split, LENGTHS, SHAPE, [points], [shape])
    )
    assert rms_found == pytest.approx(np.sqrt(square), rel=1e-9)
    rest *= np.sqrt(2 / 3)
    assert size < peak_found - rest < 1.3 * size


def test_aliasing_of_many_windows_is_that_of_each():
    split = matched(4.0)
    points, shapes = [4, 8, 12], [2.0, 2.4]
    together = estimates.aliasing("stokes_dl", split, LENGTHS, SHAPE, points, shapes)
    for i, p in enumerate(points):
        for j, b in enumerate(shapes):
            alone = estimates.aliasing("stokes_dl", split, LENGTHS, SHAPE, [p], [b])
            for a, t in zip(alone, together, strict=True):
                assert a[0, 0] == pytest.approx(t[i, j], rel=1e-12)


def test_polynomial_error_of_uniform_points():
    """A constant error delta of the Laplace pair kernel, at random pairs within rc."""
    rng = np.random.default_rng(4)
    x = rng.random((3, 200000)) * LENGTHS[:, None] - LENGTHS[:, None] / 2
    rc, delta = 0.3, 1e-5
    inside = np.linalg.norm(x, axis=0) < rc
    found = estimates.polynomial("laplace", rc, VOLUME, delta)
    assert found.rms == pytest.approx(np.sqrt(np.mean(inside)) * delta / rc, rel=0.02)
    assert estimates.polynomial("stokes_dl", rc, VOLUME, delta).peak == delta / rc**2


@pytest.mark.parametrize("estimate", ["near", "polynomial", "truncation", "aliasing"])
def test_unknown_kernels_are_refused(estimate):
    split = matched(4.0)
    arguments = {
        "near": (split, 0.3, 1.0),
        "polynomial": (0.3, 1.0, 1e-3),
        "truncation": (split, STEPS, 1.0),
        "aliasing": (split, LENGTHS, SHAPE, [4], [2.0]),
    }[estimate]
    with pytest.raises(ParkiValueError, match="'stokes'; expected one of laplace"):
        getattr(estimates, estimate)("stokes", *arguments)
