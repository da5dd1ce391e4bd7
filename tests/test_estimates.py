"""Error estimates against errors measured in exact and gridded sums over a triply periodic box."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from operators import Operator, derivative, of_points, part_of, radial
from problems import Window
from scipy.special import spherical_jn

from parki.errors import ParkiValueError
from parki.ewald.split import estimates
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.prolate import Prolate
from parki.ewald.split.prolate_error import by_quadrature, pair_error
from parki.ewald.split.radial_series import radial_functions
from parki.ewald.split.truncation import truncation
from parki.ewald.sums import TERMS
from parki.ewald.sums.tables import FLOW, RadialTables, Table

KERNELS = ("laplace", "stokes_sl", "stokes_dl")
LENGTHS = np.array([1.2, 1.0, 0.8])
SHAPE = (24, 20, 18)
STEPS = LENGTHS / SHAPE
VOLUME = float(np.prod(LENGTHS))


class System:
    """Random points and densities, uniform in the box or within a ball."""

    def __init__(self, term, seed, radius=None, count=60):
        rng = np.random.default_rng(seed)
        self.part = part_of(term, up=seed % 3)  # errors are averaged over all axes
        if radius is None:
            self.targets, self.sources = rng.random((2, 3, count)) * LENGTHS[:, None]
        else:
            away = rng.standard_normal((2, 3, count))
            size = np.linalg.norm(away, axis=1)[:, None]
            away *= radius * rng.random((2, 1, count)) ** (1 / 3) / size
            self.targets, self.sources = away + LENGTHS[:, None] / 2
        f, *self.at = rng.standard_normal((3, 3, count))
        self.dens, self.norms = self.part.given(f, *self.at)
        self.strength = self.part.strength(self.dens, self.norms)  # Q
        if self.part.field == "grad_tensor":  # what layers at the targets feel
            self.strength *= math.prod((v**2).sum(axis=0) for v in self.at).sum() / count

    def spectrum(self, transform, k, odd, split):
        """Far field's coefficients; ``transform(c, *axes)`` gives modes of derivatives."""
        symbol = self.part.symbol
        k2 = sum(x**2 for x in np.meshgrid(*k, indexing="ij"))
        zero = k2 == 0
        k2[zero] = 1
        psi = symbol.strength / k2**symbol.order * split.factor(symbol.order).at(k2)
        psi[zero] = 0
        even = np.meshgrid(*(x**2 for x in k), indexing="ij", sparse=True)
        odd = np.meshgrid(*odd, indexing="ij", sparse=True)

        def derivative(axes):
            counts = [axes.count(axis) for axis in range(3)]
            found = [even[i] ** (n // 2) * odd[i] ** (n % 2) for i, n in enumerate(counts)]
            return 1j ** len(axes) * math.prod(found)

        fields = self.part.fields(self.dens, self.norms, lambda *c: of_points(transform(*c)))
        return [psi * each.of(derivative) for each in fields]

    def rows(self, modes, derived):
        """Return what is read of fields; ``derived(each, *axes)`` is one's derivative."""
        return np.array(self.part.rows(modes, derived, *self.at))

    def exact(self, split, reach=6.3, box=None):
        """Far field from all modes up to 2 xi reach or the band, or the grid's (half its rim)."""
        last = split.band if np.isfinite(split.band) else 2 * split.xi * reach
        top = [int(last * x / (2 * np.pi)) + 1 for x in LENGTHS]
        top = top if box is None else [m // 2 for m in box]
        k = [2 * np.pi / x * np.arange(-m, m + 1) for x, m in zip(LENGTHS, top, strict=True)]
        k[0] = k[0][top[0] :]  # fields are real: the others are conjugate
        wave = [np.exp(-1j * np.outer(k[i], self.sources[i])) for i in range(3)]
        plane = (wave[0][:, None] * wave[1]).reshape(-1, self.sources.shape[1])

        def transform(c, *axes):
            waves = [k[m].reshape([-1 if i == m else 1 for i in range(3)]) for m in axes]
            modes = (plane @ (wave[2] * c).T).reshape([len(x) for x in k])
            return 1j ** len(axes) * math.prod(waves) * modes

        rim = [np.ones(len(x)) for x in k]
        if box is not None:
            for weight in rim:
                weight[[0, -1]] = 0.5
        rim[0][0] = 0.5
        back = [rim[i] * np.exp(1j * np.outer(self.targets[i], k[i])) for i in range(3)]

        def derived(modes, *axes):
            b = [(1j * k[i]) ** axes.count(i) * back[i] for i in range(3)]
            return np.einsum("tbc,tb,tc->t", np.tensordot(b[0], modes, 1), b[1], b[2]).real * 2

        return self.rows(self.spectrum(transform, k, k, split), derived) / VOLUME

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

        def transform(c, *axes):
            values = product(spread, axes) * c[:, None, None, None]
            grid = np.bincount(flat(spread).ravel(), values.ravel(), int(np.prod(SHAPE)))
            return np.fft.fftn(grid.reshape(SHAPE))

        angles = [2 * np.pi * np.fft.fftfreq(m) for m in SHAPE]
        k = [a / h for a, h in zip(angles, STEPS, strict=True)]
        w = [window.fourier(a) for a in angles]
        scale = 1 / (w[0][:, None, None] * w[1][:, None] * w[2]) ** 2 / np.prod(STEPS)
        # An odd factor vanishes at the highest mode of an even grid, which is its own negative.
        odd = [np.where(np.arange(len(x)) * 2 == len(x), 0, x) for x in k]
        modes = self.spectrum(transform, k, odd, split)
        values = [np.fft.ifftn(scale * u).real.ravel()[flat(gather)] for u in modes]

        def derived(values, *axes):
            weights = product(gather, axes) * (-1) ** len(axes)  # by x, not by g - x
            return (values * weights).sum(axis=(1, 2, 3))

        return self.rows(values, derived)

    def ewald_sum(self, split, rc):
        """Near field up to rc and all modes of the far field, over a triply periodic box."""
        result = self.exact(split)
        images = np.stack(np.meshgrid(*3 * [[-1, 0, 1]])).reshape(3, -1) * LENGTHS[:, None]
        r = self.targets[:, :, None, None] - self.sources[:, None, :, None] + images[:, None, None]
        near = np.linalg.norm(r, axis=0) < rc
        (i, j, _), r = np.nonzero(near), r[:, near]
        d, norms = np.linalg.norm(r, axis=0), None if self.norms is None else self.norms[:, j]
        functions = radial(split.near(d), d, self.part.symbol.order)
        fields = self.part.fields(self.dens[:, j], norms)
        for row, each in enumerate(self.part.rows(fields, Operator.d, *(v[:, i] for v in self.at))):
            pairs = each.of(lambda axes: derivative(axes, r, functions))
            result[row] += np.bincount(i, pairs + 0 * d, self.targets.shape[1])
        if self.part.field == "u":  # potentials have a background
            for row, each in enumerate(self.part.fields(self.dens, self.norms)):
                result[row] -= split.background / VOLUME * np.sum(each.get((), 0))
        return result


def aliasing(term, split, lengths, shape, points, beta_over_p):
    return estimates.WindowErrors([term], split, lengths, shape).aliasing(term, points, beta_over_p)


def rms(*pairs):
    """Root of the mean of |a - b|^2 / Q over (system, a, b)."""
    return np.sqrt(np.mean([((a - b) ** 2).sum(axis=0).mean() / s.strength for s, a, b in pairs]))


def matched(ratio):
    """Split whose K / 2 xi on the coarsest axis is ``ratio``."""
    return Hasimoto(np.pi / STEPS.max() / 2 / ratio)


@pytest.mark.each
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("xi_rc", [1.5, 4.0])
def test_near_is_the_pair_kernel_beyond_the_cutoff(term, xi_rc):
    """Its mean square over a fine radial grid, and its size at rc, of its smooth part there."""
    rc, power = 0.3, TERMS[term].power
    split = Hasimoto(xi_rc / rc)
    r = np.linspace(rc, rc + 5 / split.xi, 400)
    square = TERMS[term].square(r**2, radial_functions(r, split.near(r)))
    found = estimates.near(term, split, rc, 1.0)
    assert found.rms == pytest.approx(np.sqrt(np.trapezoid(4 * np.pi * r**2 * square, r)), rel=0.02)
    smooth = split.radial_polynomials(rc, 40).map(np.sum)  # s = 1
    singular = FLOW, Table("smooth", 0), Table("smooth", 1)
    edge = smooth | {table: smooth[table] - 0.5 for table in singular}
    at_rc, largest = np.sqrt(TERMS[term].square(1.0, edge)) / rc**power, np.sqrt(square.max())
    assert at_rc == pytest.approx(np.sqrt(square[0]), rel=1e-6)
    assert found.peak == pytest.approx(largest, rel=1e-6 if largest <= at_rc else 0.02)
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
    j0, j1, j2, j3, j4, j5, j6 = (spherical_jn(n, x) for n in range(7))
    waves = -j1, -j0 / 3 + 2 / 3 * j2, 3 / 5 * j1 - 2 / 5 * j3, j0 / 5 - 4 / 7 * j2 + 8 / 35 * j4
    waves = *waves, -3 / 7 * j1 + 4 / 9 * j3 - 8 / 63 * j5
    waves = *waves, -j0 / 7 + 10 / 21 * j2 - 24 / 77 * j4 + 16 / 231 * j6
    layers = weights * split.factor(2).at(k**2) / k**2  # of B = -8 pi gamma / k^4
    far = [-2 * (wave @ (layers * k**n)) for n, wave in enumerate(waves, 1)]
    laplace = weights * split.factor(1).at(k**2)
    sine, cosine = np.sin(x), np.cos(x)  # of r phi = B'
    plain = [sine @ (laplace / k), cosine @ laplace]
    plain += [-sine @ (laplace * k), -cosine @ (laplace * k**2), sine @ (laplace * k**3)]
    plain += [cosine @ (laplace * k**4)]

    def radial(far):
        b = [a + b for a, b in zip(far, split.near(r), strict=True)]
        b[0] = b[0] - 1
        p, q, slope = -b[0] / (2 * r), -b[1] / 2, -b[2] / (2 * r)
        second = -(b[3] / 2 + slope) / r**2
        third = -(b[4] / (2 * r) + 3 * second) / r**2
        fourth = -(b[5] / (2 * r**2) + 6 * third + 3 * second / r**2) / r**2
        psi = slope, second, third, fourth
        return RadialTables.of(flow=p + q, smooth=(p, (p - q) / r**2), psi=psi)

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
    start = [part.map(lambda x: x[:1]) for part in pair_errors(c, np.array([0.03]))]
    for term, kind in TERMS.items():
        by_psi = kind.order == 1
        square = kind.square(r**2, plain if by_psi else layers)
        # The spectrum's jump at k = c goes on as cos(c r) / r^2.
        k2 = np.array(c**2 * (1 - 1e-12))
        gamma = Prolate(c, 1.0).factor(kind.order).at(k2)
        jump = estimates.symbol_size(term, gamma, k2)
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


@pytest.mark.each
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


def test_near_of_the_prolate_split_has_units():
    rc, volume = 0.25, 1.7
    for term, kind in TERMS.items():
        found, pair = estimates.near(term, Prolate(12, rc), rc, volume), pair_error(term, 12)
        assert found.rms == pytest.approx(pair.rms * rc ** (1.5 - kind.power) / np.sqrt(volume))
        assert found.peak == pytest.approx(np.hypot(pair.peak / rc**kind.power, 3 * found.rms))
        assert found.itself == pytest.approx(pair.itself / rc**kind.power)


def a_third(first):
    """Return all terms; the default run has one in three of them, other ones in each test."""
    return [
        term if n % 3 == first else pytest.param(term, marks=pytest.mark.slow)
        for n, term in enumerate(TERMS)
    ]


every_end = pytest.mark.parametrize(
    ("split", "rc"),
    [
        (Prolate(8, 0.2), 0.2),
        (Prolate(14, 0.3), 0.3),
        (Prolate(22, 0.2), 0.2),
        (Hasimoto(9.0), 0.3),
        (Hasimoto(16.0), 0.25),
    ],
)


def check_near(term, split, rc, least, most, seeds=3):
    """Compare Ewald sums over random points with those of a split without errors."""
    found = estimates.near(term, split, rc, VOLUME, LENGTHS)
    systems = [System(term, seed) for seed in range(seeds)]
    sums = [(s, s.ewald_sum(split, rc), s.ewald_sum(Hasimoto(8.7), 0.7)) for s in systems]
    assert least < rms(*sums) / found.rms < most
    for s, a, b in sums:
        assert np.abs(a - b).max() < found.peak * np.sqrt(s.strength)


@pytest.mark.each
@pytest.mark.parametrize("term", a_third(0))
@every_end
def test_near_field_of_random_points(term, split, rc):
    """Fewer modes carry the errors of derivatives than those of velocities."""
    part = part_of(term)
    plain = part.many_modes and part.field == "u" and TERMS[term].power < 3
    bounds = (0.75, 1.2) if plain and isinstance(split, Prolate) else (0.5, 1.3)
    check_near(term, split, rc, *bounds, 3 if part.symbol.up is None else 9)


@pytest.mark.each
@pytest.mark.parametrize("term", ["laplace_dipole", "laplace_dipole_grad"])
@every_end
def test_near_field_of_a_new_term(term, split, rc, monkeypatch):
    """As of a sum without closed forms: all that is known is its pair function's size."""
    monkeypatch.setitem(TERMS, term, replace(TERMS[term], prolate=None))
    check_near(term, split, rc, 0.65, 1.15)


@pytest.mark.each
@pytest.mark.parametrize("term", a_third(2))
@pytest.mark.parametrize("split", [matched(2.7), matched(4.0), Prolate(20, 0.2), Prolate(30, 0.4)])
def test_truncation_in_a_brick(term, split):
    found = truncation(term, split, STEPS, VOLUME, LENGTHS)
    part = part_of(term)
    seeds = 3 if part.many_modes and TERMS[term].power < 3 else 9
    systems = [System(term, seed) for seed in range(seeds)]
    error = rms(*((s, s.exact(split, box=SHAPE), s.exact(split)) for s in systems))
    # The modes that the grid lacks lie along some axes, and derivatives are along one.
    assert 0.7 < error / found.rms < (1.4 if part.symbol.up is None else 1.7)
    assert found.itself == (found.peak if TERMS[term].power % 2 else 0)
    ball = System(term, 9, radius=0.03)
    assert 0.2 < rms((ball, ball.exact(split, box=SHAPE), ball.exact(split))) / found.peak < 1.3


@pytest.mark.parametrize("lengths", [(1.2, 1.0, 0.8), (1, 1, 0.1), (1, 0.1, 0.1), (4, 1, 1)])
def test_truncation_is_the_sum_over_the_modes_outside(lengths):
    """Mode by mode, in bricks, thin slabs, thin bars and long boxes."""
    lengths = np.array(lengths)
    shape = 2 * np.ceil(lengths / 0.1 - 1e-9)
    steps, volume = lengths / shape, float(np.prod(lengths))
    rim = math.pi / steps.max()
    prolate = [Prolate(c, c / (more * rim)) for c, more in ((8, 1.05), (14, 1.2), (30, 1.5))]
    for split in *(Hasimoto(rim / 2 / ratio) for ratio in (2.7, 4.0, 5.5)), *prolate:
        last = min(split.band, math.hypot(rim, 6.5 * math.sqrt(math.pi) * split.psi0))
        n = [np.arange(-m, m + 1) for m in (last * lengths / (2 * math.pi)).astype(int)]
        kept = [1 - (np.sign(2 * abs(m) - c) + 1) / 2 for m, c in zip(n, shape, strict=True)]
        k = [2 * math.pi / length * m for length, m in zip(lengths, n, strict=True)]
        k2 = sum(x**2 for x in np.meshgrid(*k, indexing="ij", sparse=True))
        lost = (1 - math.prod(np.meshgrid(*kept, indexing="ij", sparse=True))) * (k2 <= last**2)
        k2[k2 == 0] = 1
        for term in ("laplace", "quadrupole_flow_grad"):
            factor = split.factor(TERMS[term].order).at(k2)
            size = lost * estimates.symbol_size(term, factor, k2)
            found = truncation(term, split, steps, volume, lengths)
            assert math.sqrt((size**2).sum()) / volume == pytest.approx(found.rms, rel=0.07)
            assert size.sum() / volume == pytest.approx(found.peak, rel=0.12)


def test_modes_below_the_smallest_number_are_no_error():
    found = truncation("laplace", Hasimoto(2.6), [0.02, 0.2, 0.02], 1.0, [0.1, 1.0, 0.1])
    assert 0 < found.rms < 1e-4  # along the second axis alone


@pytest.mark.each
@pytest.mark.parametrize("term", a_third(1))
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
def test_far_field_of_uniform_and_clustered_points(term, points, shape, split):
    window = Window(points, shape * points)
    window_rms, window_peak = (
        x[0, 0] for x in aliasing(term, split, LENGTHS, SHAPE, [points], [shape])
    )
    cut = truncation(term, split, STEPS, VOLUME, LENGTHS)
    uniform = np.hypot(window_rms, cut.rms)
    # Few modes carry the error of Laplace gradients, and fewer still that of dipoles.
    seeds = 3 if part_of(term).many_modes else 8
    systems = [System(term, seed) for seed in range(seeds)]
    error = rms(*((s, s.gridded(split, window), s.exact(split)) for s in systems))
    assert 0.6 < error / uniform < 1.5

    radius = 0.05
    balls = [System(term, seed, radius=radius) for seed in range(7, 8 if seeds == 3 else 15)]
    density = VOLUME / (4 / 3 * np.pi * radius**3)
    bound = min(np.sqrt(density) * uniform, window_peak + cut.peak)
    error = rms(*((s, s.gridded(split, window), s.exact(split)) for s in balls))
    assert 0.015 * bound < error < bound


@pytest.mark.each
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


def test_unknown_kernels_are_refused():
    split = matched(4.0)
    for estimate, arguments in (
        (estimates.near, (split, 0.3, 1.0)),
        (estimates.polynomial, (0.3, 1.0, 1e-3)),
        (truncation, (split, STEPS, 1.0)),
    ):
        with pytest.raises(ParkiValueError, match="'stokes'; expected one of laplace"):
            estimate("stokes", *arguments)
