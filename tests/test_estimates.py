"""Error estimates against errors measured in exact and gridded sums over a triply periodic box."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from pair_kernels import residual_kernels
from problems import Window
from scipy.special import spherical_jn

from parki.errors import ParkiValueError
from parki.ewald.split import estimates
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.prolate import Prolate
from parki.ewald.split.prolate_error import by_quadrature, pair_error
from parki.ewald.split.window import images
from parki.ewald.sums import TERMS
from parki.ewald.sums.record import RadialPolynomials

KERNELS = ("laplace", "stokes_sl", "stokes_dl")
POTENTIALS = {"charge": "laplace", "dipole": "laplace_dipole", "quadrupole": "quadrupole"}
FLOWS = {f"{name}_{of}": POTENTIALS[name] for name in POTENTIALS for of in ("flow", "rise")}
LENGTHS = np.array([1.2, 1.0, 0.8])
SHAPE = (24, 20, 18)
STEPS = LENGTHS / SHAPE
VOLUME = float(np.prod(LENGTHS))


class System:
    """Random points and densities, uniform in the box or within a ball."""

    def __init__(self, term, seed, radius=None, count=60):
        rng = np.random.default_rng(seed)
        self.up = seed % 3  # the axis of rises, whose errors are averaged over all axes
        self.gradient, self.pressure = term.endswith("_grad"), term.endswith("_p")
        self.at_tensors = term.endswith("_tensor")
        self.kernel = term.removesuffix("_grad").removesuffix("_p").removesuffix("_tensor")
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
            "laplace_dipole": (self.f**2).sum(),
            "stokes_sl": (self.f**2).sum(),
            "stokes_rotlet": (self.f**2).sum(),
            "stokes_dl": ((self.q**2).sum(axis=0) * (self.n**2).sum(axis=0)).sum(),
        }
        square["stokes_dipole"] = square["doublet_dipole"] = square["stokes_dl"]
        square["quadrupole"] = square["stokes_dl"]
        square |= {flow: square[of] for flow, of in FLOWS.items()}
        self.strength = float(square[self.kernel])  # Q
        if self.at_tensors:  # what double layers q, n at the targets feel
            self.strength *= float(square["stokes_dl"]) / count
            self.tensor = -self.q[:, None] * self.n - self.n[:, None] * self.q

    def spectrum(self, transform, gradient, k, split):
        """Far field's coefficients; ``transform(c)``, ``gradient(c, *axes)`` give modes."""
        k2 = sum(x**2 for x in np.meshgrid(*k, indexing="ij"))
        zero = k2 == 0
        k2[zero] = 1
        laplace = np.where(zero, 0, 4 * np.pi / k2 * split.factor(1).at(k2))
        # An odd factor vanishes at the highest mode of an even grid, which is its own negative.
        odd = [np.where(np.arange(len(x)) * 2 == len(x), 0, x) for x in k]
        k = np.meshgrid(*odd, indexing="ij")
        potential = FLOWS.get(self.kernel, self.kernel)
        if potential == "laplace":
            found = laplace * transform(self.f[0])
        elif potential == "laplace_dipole":
            found = -laplace * sum(gradient(c, m) for m, c in enumerate(self.f))
        elif potential == "quadrupole":
            pairs = [(j, m) for j in range(3) for m in range(3)]
            found = laplace * sum(gradient(self.q[j] * self.n[m], j, m) for j, m in pairs)
        if self.kernel.endswith("_rise"):
            return [-k[self.up] * each * found for each in k]
        if self.kernel in FLOWS:
            return [1j * each * found for each in k]
        if potential in FLOWS.values():
            return [found]
        if self.kernel == "stokes_rotlet":  # curl of t / r
            t = [transform(c) for c in self.f]
            pairs = [(1, 2), (2, 0), (0, 1)]
            return [1j * laplace * (k[i] * t[j] - k[j] * t[i]) for i, j in pairs]
        if self.kernel == "stokes_sl":
            a, d = [transform(c) for c in self.f], 0
        elif self.kernel in ("stokes_dipole", "doublet_dipole"):
            a, d = [-sum(gradient(q * n, m) for m, n in enumerate(self.n)) for q in self.q], 0
        else:
            q, n = self.q, self.n
            a = [sum(gradient(q[j] * n[m] + n[j] * q[m], m) for m in range(3)) for j in range(3)]
            d = transform((q * n).sum(axis=0))
        along = sum(k[j] * a[j] for j in range(3)) / k2
        symbol = np.where(zero, 0, 8 * np.pi / k2 * split.factor(2).at(k2))
        if self.kernel == "doublet_dipole":
            symbol = laplace * k2
        pressure = -1j * symbol * k2 * along
        if self.pressure:
            return [pressure]
        flow = [symbol * (a[j] - k[j] * along + 1j * k[j] * d) for j in range(3)]
        return [*flow, pressure] if self.at_tensors else flow

    def read(self, derivative):
        """Return the gradient of what targets read; ``derivative(row, axes)`` of velocity or p."""
        strength = (self.q * self.n).sum(axis=0)
        return np.array(
            [
                strength * derivative(3, (axis,))
                + sum(
                    self.tensor[j, m] * derivative(j, (axis, m)) for j in range(3) for m in range(3)
                )
                for axis in range(3)
            ]
        )

    def exact(self, split, reach=6.3, box=None):
        """Far field from all modes up to 2 xi reach or the band, or the grid's (half its rim)."""
        last = split.band if np.isfinite(split.band) else 2 * split.xi * reach
        top = [int(last * x / (2 * np.pi)) + 1 for x in LENGTHS]
        top = top if box is None else [m // 2 for m in box]
        k = [2 * np.pi / x * np.arange(-m, m + 1) for x, m in zip(LENGTHS, top, strict=True)]
        wave = [np.exp(-1j * np.outer(k[i], self.sources[i])) for i in range(3)]
        plane = (wave[0][:, None] * wave[1]).reshape(-1, self.sources.shape[1])

        def transform(c):
            return (plane @ (wave[2] * c).T).reshape([len(x) for x in k])

        def gradient(c, *axes):
            waves = [k[m].reshape([-1 if i == m else 1 for i in range(3)]) for m in axes]
            return 1j ** len(axes) * math.prod(waves) * transform(c)

        rim = [np.ones(len(x)) for x in k]
        if box is not None:
            for weight in rim:
                weight[[0, -1]] = 0.5
        back = [rim[i] * np.exp(1j * np.outer(self.targets[i], k[i])) for i in range(3)]
        modes = self.spectrum(transform, gradient, k, split)

        def derivative(row, axes):
            b = [(1j * k[i]) ** axes.count(i) * back[i] for i in range(3)]
            return np.einsum("tbc,tb,tc->t", np.tensordot(b[0], modes[row], 1), b[1], b[2]).real

        if self.at_tensors:
            return self.read(derivative) / VOLUME
        axes = [(0,), (1,), (2,)] if self.gradient else [()]
        return np.array([derivative(row, a) for a in axes for row in range(len(modes))]) / VOLUME

    def gridded(self, split, window):
        """Far field through the grid, with four components and the window's gradient."""

        def under_window(points, i):
            t = points[i] / STEPS[i]
            index = np.floor(t).astype(int)[:, None] + np.arange(window.points)
            r = index - (window.points / 2 - 1) - t[:, None]
            slopes = window.derivative(r) / STEPS[i], window.curvature(r) / STEPS[i] ** 2
            return index % SHAPE[i], window(r), *slopes

        def flat(axes):
            i, j, k = (axis[0] for axis in axes)
            return (i[:, :, None, None] * SHAPE[1] + j[:, None, :, None]) * SHAPE[2] + k[
                :, None, None
            ]

        def product(axes, m):
            a, b, c = (axis[1 + m.count(i)] for i, axis in enumerate(axes))
            return a[:, :, None, None] * b[:, None, :, None] * c[:, None, None]

        spread = [under_window(self.sources, i) for i in range(3)]
        gather = [under_window(self.targets, i) for i in range(3)]

        def gradient(c, *axes):
            values = product(spread, axes) * c[:, None, None, None]
            grid = np.bincount(flat(spread).ravel(), values.ravel(), int(np.prod(SHAPE)))
            return np.fft.fftn(grid.reshape(SHAPE))

        angles = [2 * np.pi * np.fft.fftfreq(m) for m in SHAPE]
        k = [a / h for a, h in zip(angles, STEPS, strict=True)]
        w = [window.fourier(a) for a in angles]
        scale = 1 / (w[0][:, None, None] * w[1][:, None] * w[2]) ** 2 / np.prod(STEPS)
        modes = self.spectrum(gradient, gradient, k, split)
        values = [np.fft.ifftn(scale * u).real.ravel()[flat(gather)] for u in modes]

        def derivative(row, axes):
            weights = product(gather, axes) * (-1) ** len(axes)  # by x, not by g - x
            return (values[row] * weights).sum(axis=(1, 2, 3))

        if self.at_tensors:
            return self.read(derivative)
        axes = [(0,), (1,), (2,)] if self.gradient else [()]
        return np.array([derivative(row, a) for a in axes for row in range(len(modes))])


def aliasing(term, split, lengths, shape, points, beta_over_p):
    return estimates.Modes([term], split, lengths, shape).aliasing(term, points, beta_over_p)


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
    b1, b2, b3, *_ = (x[:, None] for x in Hasimoto(xi).near(r))
    r = r[:, None]
    if kernel == "laplace":  # the direction of r is e_3
        square = (b1 / r) ** 2
    elif kernel == "stokes_sl":
        square = (b2 + b1 / r) ** 2 * (f[0] ** 2 + f[1] ** 2) + (2 * b1 / r * f[2]) ** 2
    else:
        second = -2 * b3 + 6 * b2 / r - 6 * b1 / r**2
        mixed = [n[2] * q[i] + q[2] * n[i] for i in range(3)]
        square = (b3 * ((q * n).sum(axis=0) + mixed[2]) + second * q[2] * n[2]) ** 2
        square += b3**2 * (mixed[0] ** 2 + mixed[1] ** 2)
    square = square.mean(axis=1)
    shells = 4 * np.pi * r[:, 0] ** 2 * square
    total = ((shells[1:] + shells[:-1]) / 2 * np.diff(r[:, 0])).sum()
    found = estimates.near(kernel, Hasimoto(xi), rc, 1.0)
    assert found.rms == pytest.approx(np.sqrt(total), rel=0.02)
    assert found.peak == pytest.approx(np.sqrt(square[0]), rel=0.02)


@pytest.mark.parametrize("term", TERMS)
def test_near_ends_with_the_pair_kernel(term):
    """The largest error is the pair kernel at rc, here from the polynomials of its smooth part."""
    rc = 0.3
    split = Hasimoto(4.0 / rc)
    smooth = RadialPolynomials(*(c.sum() for c in split.radial_polynomials(rc, 40)))  # s = 1
    edge = smooth._replace(L=smooth.L - 0.5, S=smooth.S - 0.5, X=smooth.X - 0.5)
    expected = np.sqrt(TERMS[term].square(1.0, edge)) / rc ** TERMS[term].power
    found = estimates.near(term, split, rc, 1.0)
    assert found.peak == pytest.approx(expected, rel=1e-6)
    assert found.itself == 0


def pair_errors(c, r):
    """Radial functions, at r in units of rc, of what the prolate split makes wrong of a pair.

    Far field by quadrature up to k = c, near field as it is, less the exact pair: for Laplace and
    rotlets, whose far field has the factor psi^, and for the layers.
    """
    split = Prolate(c, 1.0)
    nodes, weights = np.polynomial.legendre.leggauss(int(60 + 0.6 * c * r.max()))
    k, weights = c * (nodes + 1) / 2, c * weights / np.pi  # times 2/pi
    x = np.outer(r, k)
    j0, j1, j2, j3, j4, j5 = (spherical_jn(n, x) for n in range(6))
    waves = -j1, -j0 / 3 + 2 / 3 * j2, 3 / 5 * j1 - 2 / 5 * j3, j0 / 5 - 4 / 7 * j2 + 8 / 35 * j4
    waves = *waves, -3 / 7 * j1 + 4 / 9 * j3 - 8 / 63 * j5
    layers = weights * split.factor(2).at(k**2) / k**2  # of B = -8 pi gamma / k^4
    far = [-2 * (wave @ (layers * k**n)) for n, wave in enumerate(waves, 1)]
    laplace = weights * split.factor(1).at(k**2)
    sine, cosine = np.sin(x), np.cos(x)  # of r phi = B'
    plain = [sine @ (laplace / k), cosine @ laplace]
    plain += [-sine @ (laplace * k), -cosine @ (laplace * k**2), sine @ (laplace * k**3)]

    def radial(far):
        b = [a + b for a, b in zip(far, split.near(r), strict=True)]
        b[0] = b[0] - 1
        p, q, slope = -b[0] / (2 * r), -b[1] / 2, -b[2] / (2 * r)
        second = -(b[3] / 2 + slope) / r**2
        third = -(b[4] / (2 * r) + 3 * second) / r**2
        return RadialPolynomials(p + q, (p - q) / r**2, slope, p, second, third)

    return radial(plain), radial(far)


@pytest.mark.parametrize("c", [3, 6, 8.25, 13, 20])
def test_pair_error_of_the_prolate_split(c):
    reach = 40.0
    beyond = 1 + 1e-9, 1 + 2e-9  # most fields are largest at the cut-off
    parts = [(0.02, 1, 60), (*beyond, 1), (beyond[1], 2, 80), (2, reach, int(2 * c * reach / 3))]
    rules = [np.polynomial.legendre.leggauss(count) for _, _, count in parts]
    r = np.concatenate(
        [a + (b - a) * (x + 1) / 2 for (a, b, _), (x, _) in zip(parts, rules, strict=True)]
    )
    weights = np.concatenate(
        [(b - a) * w / 2 for (a, b, _), (_, w) in zip(parts, rules, strict=True)]
    )
    plain, layers = pair_errors(c, r)
    start = [RadialPolynomials(*(x[:1] for x in part)) for part in pair_errors(c, np.array([0.03]))]
    for term, kind in TERMS.items():
        by_psi = kind.far.order == 1
        square = kind.square(r**2, plain if by_psi else layers)
        # The spectrum's jump at k = c goes on as cos(c r) / r^2.
        k2 = np.array(c**2 * (1 - 1e-12))
        gamma = Prolate(c, 1.0).factor(kind.far.order).at(k2)
        jump = estimates._symbol(term, gamma, k2)
        tail = 2 * np.pi * (float(jump) * c / (2 * np.pi**2)) ** 2 / reach
        rms = np.sqrt(4 * np.pi * weights @ (r**2 * square) + tail)
        found = by_quadrature(kind, c)
        assert rms == pytest.approx(found.rms, rel=1e-3), term
        peak = max(np.sqrt(square.max()), found.itself)
        assert peak == pytest.approx(found.peak, rel=0.01), term
        at_start = np.sqrt(kind.square(0.03**2, start[0 if by_psi else 1])[0])
        if kind.power % 2:
            assert at_start == pytest.approx(found.itself, rel=0.07, abs=3e-5 * peak), term
        else:
            assert found.itself == 0 and at_start < 0.1 * peak, term


@pytest.mark.parametrize("c", [5, 6, 8.25, 13, 20, 30, 45, 60])
@pytest.mark.parametrize(
    "term", [each for each in TERMS.values() if each.prolate], ids=lambda each: each.name
)
def test_closed_forms_of_the_prolate_split(term, c):
    """Leading terms for large c against the quadrature, down to far below rounding."""
    found, exact = pair_error(term.name, c), by_quadrature(term, c)
    assert abs(exact.rms / found.rms - 1) < 0.4 / np.sqrt(c)
    assert 0.25 < exact.peak / found.peak < 1.0
    if found.itself:
        assert exact.itself == pytest.approx(found.itself, rel=0.4 / c)
    else:
        assert exact.itself < max(5 * np.exp(-c / 2), 1e-7) * exact.peak


@pytest.mark.parametrize("term", TERMS)
def test_near_of_the_prolate_split_has_units(term):
    rc, volume = 0.25, 1.7
    found, pair = estimates.near(term, Prolate(12, rc), rc, volume), pair_error(term, 12)
    power = TERMS[term].power
    assert found.rms == pytest.approx(pair.rms * rc ** (1.5 - power) / np.sqrt(volume))
    assert found.peak == pytest.approx(np.hypot(pair.peak / rc**power, 3 * found.rms))
    assert found.itself == pytest.approx(pair.itself / rc**power)


def ewald_sum(system, split, rc):
    """Near field up to rc and all modes of the far field, over a triply periodic box."""
    row = ["stokes_sl", "stokes_dl", "laplace", "stokes_rotlet"].index(system.kernel)
    result = system.exact(split)
    apart = (system.targets[:, :, None] - system.sources[:, None]).T
    for image in np.stack(np.meshgrid(*3 * [[-1, 0, 1]]), axis=-1).reshape(-1, 3):
        r = apart + image * LENGTHS
        for j, i in np.argwhere(np.linalg.norm(r, axis=2) < rc):
            densities = (x[:, j] for x in (system.f, system.q, system.n))
            pair = residual_kernels(split, r[j, i], *densities)[row]
            result[:, i] += pair * system.f[0, j] if system.kernel == "laplace" else pair
    if system.kernel == "laplace":
        result -= split.background / VOLUME * system.f[0].sum()
    return result


@pytest.mark.each
@pytest.mark.parametrize("kernel", [*KERNELS, "stokes_rotlet"])
@pytest.mark.parametrize(("c", "rc"), [(8, 0.2), (14, 0.3), (22, 0.2)])
def test_prolate_split_of_random_points(kernel, c, rc):
    split, reference = Prolate(c, rc), Hasimoto(19.0)
    found = estimates.near(kernel, split, rc, VOLUME)
    systems = [System(kernel, seed, count=40) for seed in range(3)]
    sums = [(s, ewald_sum(s, split, rc), ewald_sum(s, reference, 0.32)) for s in systems]
    assert 0.75 < rms(*sums) / found.rms < 1.2
    for s, a, b in sums:
        assert np.abs(a - b).max() < 1.2 * found.peak * np.sqrt(s.strength)


# Terms as of a sum that has no closed forms: all that the estimates know of them is the size of the
# pair function, and how windows spread it.
# Terms of the fields that `System` knows; test_spheres has the terms of turns.
FIELDS = [name for name in TERMS if not name.startswith("sphere_turns")]
NEW_TERMS = [
    replace(TERMS[name], prolate=None) for name in ("laplace_dipole", "laplace_dipole_grad")
]


@pytest.fixture(params=NEW_TERMS, ids=lambda term: term.name)
def new_term(request, monkeypatch):
    monkeypatch.setitem(TERMS, request.param.name, request.param)
    return request.param.name


def sum_of_dipoles(system, split, rc):
    """As `ewald_sum`, for charges' dipoles: derivatives of b'(r) / r."""
    result = system.exact(split)
    apart = (system.targets[:, :, None] - system.sources[:, None])[..., None]
    images = np.stack(np.meshgrid(*3 * [[-1, 0, 1]])).reshape(3, -1)
    r = apart + (images * LENGTHS[:, None])[:, None, None]
    d = np.linalg.norm(r, axis=0)
    b1, b2, b3, *_ = (np.where(d < rc, b, 0) for b in split.near(d))
    first, second = b2 / d - b1 / d**2, b3 / d - 2 * b2 / d**2 + 2 * b1 / d**3
    along = np.einsum("aj,aijm->ijm", system.f, r) / d
    if system.gradient:
        across = np.einsum("aj,ijm->ai", system.f, first / d)
        return result - across - (r * (second - first / d) * along / d).sum(axis=(2, 3))
    return result - (first * along).sum(axis=(1, 2))


@pytest.mark.parametrize(
    ("split", "rc"),
    [
        (Prolate(8, 0.2), 0.2),
        (Prolate(14, 0.3), 0.3),
        (Prolate(22, 0.2), 0.2),
        (Hasimoto(9.0), 0.3),
        (Hasimoto(16.0), 0.25),
    ],
)
def test_near_field_of_a_new_term(new_term, split, rc):
    """Neither split knows a closed form of its error."""
    found = estimates.near(new_term, split, rc, VOLUME, LENGTHS)
    systems = [System(new_term, seed) for seed in range(3)]
    reference = Hasimoto(19.0)
    sums = [(s, sum_of_dipoles(s, split, rc), sum_of_dipoles(s, reference, 0.32)) for s in systems]
    assert 0.65 < rms(*sums) / found.rms < 1.15
    for s, a, b in sums:
        assert np.abs(a - b).max() < found.peak * np.sqrt(s.strength)


@pytest.mark.parametrize(
    ("points", "shape", "split"),
    [(4, 2.1, matched(2.7)), (8, 2.3, matched(4.0)), (8, 2.2, Prolate(14, 0.28))],
)
def test_far_field_of_a_new_term(new_term, points, shape, split):
    systems = [System(new_term, seed) for seed in range(8)]
    window = Window(points, shape * points)
    found = aliasing(new_term, split, LENGTHS, SHAPE, [points], [shape])[0][0, 0]
    cut = estimates.truncation(new_term, split, STEPS, VOLUME).rms
    error = rms(*((s, s.gridded(split, window), s.exact(split)) for s in systems))
    assert 0.7 < error / np.hypot(found, cut) < 1.4
    error = rms(*((s, s.exact(split, box=SHAPE), s.exact(split)) for s in systems))
    assert (0.7 < error / cut < 1.4) if cut else error < 1e-12


@pytest.mark.each
@pytest.mark.parametrize("kernel", FIELDS)
@pytest.mark.parametrize("split", [matched(2.7), matched(4.0), Prolate(20, 0.2), Prolate(30, 0.4)])
def test_truncation_in_a_brick(kernel, split):
    found = estimates.truncation(kernel, split, STEPS, VOLUME)
    systems = [System(kernel, seed) for seed in range(9 if "quadrupole" in kernel else 3)]
    error = rms(*((s, s.exact(split, box=SHAPE), s.exact(split)) for s in systems))
    # The modes that the grid lacks lie along some axes, and rises are along one.
    assert 0.7 < error / found.rms < (1.6 if "rise" in kernel else 1.4)
    assert found.itself == (found.peak if TERMS[kernel].power % 2 else 0)
    ball = System(kernel, 9, radius=0.03)
    assert 0.2 < rms((ball, ball.exact(split, box=SHAPE), ball.exact(split))) / found.peak < 1.3


@pytest.mark.each
@pytest.mark.parametrize("kernel", FIELDS)
@pytest.mark.parametrize(
    ("points", "shape", "split"),
    [
        (4, 2.1, matched(2.7)),
        (6, 2.5, matched(3.4)),
        (7, 2.3, matched(3.8)),
        (8, 2.1, matched(4.0)),
        (8, 2.5, matched(6.0)),
        (10, 2.3, matched(4.6)),
        (14, 2.2, matched(5.5)),
        (6, 1.9, Prolate(14, 0.235)),
        (8, 2.2, Prolate(14, 0.28)),
        (10, 1.9, Prolate(20, 0.33)),
        (12, 2.2, Prolate(28, 0.5)),
    ],
)
def test_far_field_of_uniform_and_clustered_points(kernel, points, shape, split):
    window = Window(points, shape * points)
    window_rms, window_peak = (
        x[0, 0] for x in aliasing(kernel, split, LENGTHS, SHAPE, [points], [shape])
    )
    cut = estimates.truncation(kernel, split, STEPS, VOLUME)
    uniform = np.hypot(window_rms, cut.rms)
    # Few modes carry the error of Laplace gradients, and fewer still that of dipoles.
    many = "dipole" in kernel or "tensor" in kernel
    systems = [System(kernel, seed) for seed in range(8 if many else 3)]
    error = rms(*((s, s.gridded(split, window), s.exact(split)) for s in systems))
    assert 0.6 < error / uniform < 1.5

    radius = 0.05
    balls = [System(kernel, seed, radius=radius) for seed in range(7, 15 if many else 8)]
    density = VOLUME / (4 / 3 * np.pi * radius**3)
    bound = min(np.sqrt(density) * uniform, window_peak + cut.peak)
    error = rms(*((s, s.gridded(split, window), s.exact(split)) for s in balls))
    assert 0.015 * bound < error < bound


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ratio", [2.7, 4.6])
def test_mode_rule_of_large_grids(kernel, ratio, monkeypatch):
    """The graded rule gives what summing all modes gives."""
    shape = (96, 72, 50)
    split = Hasimoto(np.pi / (LENGTHS / shape).max() / 2 / ratio)
    arguments = (kernel, split, LENGTHS, shape, [4, 8, 12], [2.0, 2.5])

    def clear_cache():
        estimates._mode_rule.cache_clear()
        estimates._images.cache_clear()

    clear_cache()
    graded = aliasing(*arguments)
    monkeypatch.setattr(estimates, "_GAUSS", 10**6)
    clear_cache()
    complete = aliasing(*arguments)
    clear_cache()
    np.testing.assert_allclose(graded, complete, rtol=0.07)


def plain(rho2, carried, across, twice):
    return rho2


def stress(rho2, carried, across, twice):
    return 4 / 9 * carried + 2 / 9 * across + rho2 / 3


def bent(rho2, carried, across, twice):
    return twice


# Symbol over gamma; squares of the spreading and the gathering half; what bounds them for a far b.
HALVES = {
    "stokes_dl": (lambda k2: 8 * np.pi / k2, stress, plain, 7 / 9, np.sqrt(6) / 3),
    "stokes_dl_grad": (
        lambda k2: 8 * np.pi / np.sqrt(k2),
        stress,
        lambda rho2, carried, across, _: 7 / 9 * carried,
        1,
        (np.sqrt(6) + np.sqrt(7)) / 3,
    ),
    "stokes_dl_p": (
        lambda k2: 8 * np.pi / np.sqrt(k2),
        lambda rho2, carried, across, _: 2 / 9 * (2 * carried - across),
        plain,
        4 / 9,
        2 / 3,
    ),
    "stokes_dipole": (
        lambda k2: np.sqrt(2) / 3 * 8 * np.pi / k2,
        lambda rho2, carried, across, _: carried,
        plain,
        1,
        1,
    ),
    "stokes_dipole_grad": (
        lambda k2: np.sqrt(2) / 3 * 8 * np.pi / np.sqrt(k2),
        lambda rho2, carried, across, _: carried,
        lambda rho2, carried, across, _: carried,
        1,
        2,
    ),
    "stokes_sl_tensor": (
        lambda k2: np.sqrt(7 / 27) * 8 * np.pi / np.sqrt(k2),
        plain,
        bent,
        1,
        np.sqrt(2),
    ),
    "stokes_sl_grad": (
        lambda k2: np.sqrt(2 / 3) * 8 * np.pi / k2,
        plain,
        lambda rho2, carried, across, _: carried,
        1,
        1,
    ),
}


@pytest.mark.parametrize("term", HALVES)
@pytest.mark.parametrize(("points", "shape", "ratio"), [(6, 2.1, 3.4), (8, 2.7, 6.0)])
def test_profiles_against_sums_mode_by_mode(term, points, shape, ratio):
    """The one-dimensional profiles hold what a sum over all modes, axes and images gives."""
    split = matched(ratio)
    factor, *halves, of_plain, far_size = HALVES[term]
    angles = [2 * np.pi * np.abs(np.fft.fftfreq(m)) for m in SHAPE]
    k = np.meshgrid(*(a / h for a, h in zip(angles, STEPS, strict=True)), indexing="ij")
    k2 = k[0] ** 2 + k[1] ** 2 + k[2] ** 2
    k2[0, 0, 0] = 1
    symbol = factor(k2) * split.factor(2).at(k2)
    symbol[0, 0, 0] = 0
    square = size = rest = 0.0
    for axis in range(3):
        form = [-1 if i == axis else 1 for i in range(3)]
        image = images(angles[axis], [(points, shape * points)])
        far = image.b_square[0] - (image.b[:, 0] ** 2).sum(axis=0)
        far_rho = image.rho_square[0] - (image.rho[:, 0] ** 2).sum(axis=0)
        far_c = image.c_square[0] - (image.c[:, 0] ** 2).sum(axis=0)
        pairs = list(zip(image.rho[:, 0], image.b[:, 0], image.c[:, 0], strict=True))
        pairs += [
            (np.sqrt(far_rho), 0 * far, 0 * far),
            (0 * far, np.sqrt(np.maximum(far, 0)), 0 * far),
            (0 * far, 0 * far, np.sqrt(np.maximum(far_c, 0))),
        ]
        for half in halves:
            scale = of_plain if half is plain else 1
            for number, (rho, b, c) in enumerate(pairs):
                rho, b = rho.reshape(form), b.reshape(form) / STEPS[axis]
                c = c.reshape(form) / STEPS[axis] ** 2
                across = b**2 * (1 - k[axis] ** 2 / k2)
                carried = rho**2 * k2 + 2 * rho * b * k[axis] + b**2  # |k'|^2
                # Of the products of two wavenumbers: along the axis, across, and mixed.
                rest2 = k2 - k[axis] ** 2
                twice = (rho * k[axis] ** 2 + c) ** 2 + (rho * rest2) ** 2
                twice = (twice + 2 * rest2 * (rho * k[axis] + b) ** 2) / k2
                value = scale * half(rho**2 * k2, carried, across, twice)
                square += (symbol**2 * value).sum()
                if number < len(image.rho) and half is not plain:
                    size += (symbol * np.sqrt(np.maximum(value, 0))).sum()
            if half is plain:
                size += (symbol * np.sqrt(scale * k2) * image.rho_size[0].reshape(form)).sum()
        rest += far_size * (symbol * image.b_rest[0].reshape(form)).sum() / STEPS[axis]
        if bent in halves:
            of_c = (symbol / np.sqrt(k2) * image.c_rest[0].reshape(form)).sum()
            rest += of_c / STEPS[axis] ** 2
    rms_found, peak_found = (
        x[0, 0] * VOLUME for x in aliasing(term, split, LENGTHS, SHAPE, [points], [shape])
    )
    assert rms_found == pytest.approx(np.sqrt(square), rel=1e-9)
    assert size < peak_found - rest < 1.3 * size


def test_aliasing_of_many_windows_is_that_of_each():
    split = matched(4.0)
    points, shapes = [4, 8, 12], [2.0, 2.4]
    together = aliasing("stokes_dl", split, LENGTHS, SHAPE, points, shapes)
    for i, p in enumerate(points):
        for j, b in enumerate(shapes):
            alone = aliasing("stokes_dl", split, LENGTHS, SHAPE, [p], [b])
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


@pytest.mark.parametrize("estimate", ["near", "polynomial", "truncation"])
def test_unknown_kernels_are_refused(estimate):
    split = matched(4.0)
    arguments = {
        "near": (split, 0.3, 1.0),
        "polynomial": (0.3, 1.0, 1e-3),
        "truncation": (split, STEPS, 1.0),
    }[estimate]
    with pytest.raises(ParkiValueError, match="'stokes'; expected one of laplace"):
        getattr(estimates, estimate)("stokes", *arguments)
