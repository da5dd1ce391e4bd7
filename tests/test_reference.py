"""The reference sums, held to known constants, exact far fields, lattice sums and identities.

The module under test imports nothing from parki, and this file nothing else from it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from parki.reference import direct_sum

KERNELS = {"laplace": 1, "stokes_sl": 3, "stokes_dl": 3, "stokes_comb": 6}
BOX = np.array([1.2, 1.0, 0.8])
TOLERANCE = 1e-13  # what the module promises, of the rms; it reaches about 1e-14
ORACLE = Path(__file__).resolve().parents[2] / "shared" / "reference" / "oracle.py"

every_kernel = pytest.mark.parametrize("kernel", KERNELS)
periodic = pytest.mark.parametrize("periodicity", [1, 2, 3])


def system(kernel, count=25, seed=0):
    """Targets, sources, densities and normals: some targets on sources, on images, and outside."""
    rng = np.random.default_rng(seed)
    src = rng.random((3, count)) * BOX[:, None]
    trg = np.concatenate([rng.random((3, 12)) * BOX[:, None], src[:, :4], src[:, 4:6]], axis=1)
    trg[0, -2:] += [BOX[0], -2 * BOX[0]]
    trg[:, 0] *= -0.5
    dens = rng.standard_normal((KERNELS[kernel], count))
    return trg, src, dens[0] if kernel == "laplace" else dens, rng.standard_normal((3, count))


def assert_close(result, expected, tolerance=TOLERANCE):
    assert result.shape == expected.shape
    scale = np.sqrt(np.mean(expected**2))
    assert np.max(np.abs(result - expected)) <= tolerance * scale


def plain(kernel, trg, src, dens, norms):
    """Free-space sum straight from the definitions."""
    r = trg[:, :, None] - src[:, None, :]
    distance = np.sqrt(np.sum(r**2, axis=0))
    inverse = np.divide(1, distance, out=np.zeros_like(distance), where=distance > 0)
    if kernel == "laplace":
        return inverse @ dens
    u = np.zeros_like(trg)
    if kernel in ("stokes_sl", "stokes_comb"):
        fr = np.einsum("jts,js->ts", r, dens[:3])
        u += dens[:3] @ inverse.T + np.einsum("ts,its->it", fr * inverse**3, r)
    if kernel in ("stokes_dl", "stokes_comb"):
        qr, nr = np.einsum("jts,js->ts", r, dens[-3:]), np.einsum("jts,js->ts", r, norms)
        u += np.einsum("ts,its->it", -6 * qr * nr * inverse**5, r)
    return u


def neutral(kernel, dens):
    """Remove the mean of the charges or forces (a double layer needs none of it)."""
    dens = dens.copy()
    if kernel == "laplace":
        dens -= dens.mean()
    elif kernel != "stokes_dl":
        dens[:3] -= dens[:3].mean(axis=1, keepdims=True)
    return dens


@every_kernel
def test_free_space_is_the_plain_sum(kernel):
    trg, src, dens, norms = system(kernel)
    result = direct_sum(kernel, trg, src, dens, norms, box=BOX, periodicity=0)
    assert_close(result, plain(kernel, trg, src, dens, norms))


@every_kernel
@periodic
def test_independent_of_xi(kernel, periodicity):
    trg, src, dens, norms = system(kernel)
    auto, low, high = (
        direct_sum(kernel, trg, src, dens, norms, box=BOX, periodicity=periodicity, xi=xi)
        for xi in (None, 3.0, 6.0)
    )
    assert_close(low, auto)
    assert_close(high, auto)


def test_long_box_keeps_its_digits():
    """The closed forms of the cut-off kernels cancel where K R is small: here it is 0.5."""
    trg, src, dens, norms = system("stokes_comb", count=5)
    auto, high = (
        direct_sum(
            "stokes_comb", 0.1 * trg, 0.1 * src, dens, norms, box=[20, 1, 1], periodicity=1, xi=xi
        )
        for xi in (None, 5.0)
    )
    assert_close(high, auto)


@every_kernel
@periodic
def test_invariant_under_translation(kernel, periodicity):
    trg, src, dens, norms = system(kernel)
    expected = direct_sum(kernel, trg, src, dens, norms, box=BOX, periodicity=periodicity)
    shift = np.array([[0.375], [-0.25], [0.4375]])  # few binary digits: little is rounded
    moved = direct_sum(
        kernel, trg + shift, src + shift, dens, norms, box=BOX, periodicity=periodicity
    )
    # Moving rounds the points, by up to 1e-16 of separations down to 1e-2.
    assert_close(moved, expected, 10 * TOLERANCE)
    periods = np.zeros(3)
    periods[:periodicity] = BOX[:periodicity]
    rng = np.random.default_rng(3)
    wrapped = src + rng.integers(-2, 3, src.shape) * periods[:, None]
    result = direct_sum(kernel, trg, wrapped, dens, norms, box=BOX, periodicity=periodicity)
    assert_close(result, expected, 10 * TOLERANCE)


@every_kernel
def test_lattice_sum_1p(kernel):
    trg, src, dens, norms = system(kernel, count=6)
    dens = neutral(kernel, dens)
    # The tail of a symmetric sum over |n| <= m is a series in h = (m + 1/2)^-2: extrapolate to 0.
    counts = [16, 24, 32, 48, 64, 80]
    steps = [(count + 0.5) ** -2 for count in counts]
    expected = np.zeros_like(direct_sum(kernel, trg, src, dens, norms, box=BOX, periodicity=1))
    for i, count in enumerate(counts):
        shifts = np.arange(-count, count + 1) * BOX[0]
        images = np.repeat(src, shifts.size, axis=1)
        images[0] += np.tile(shifts, src.shape[1])
        total = plain(
            kernel,
            trg,
            images,
            np.repeat(dens, shifts.size, axis=-1),
            np.repeat(norms, shifts.size, axis=1),
        )
        weight = np.prod([h / (h - steps[i]) for j, h in enumerate(steps) if j != i])
        expected += weight * total
    trg, expected = trg[:, :12], expected[..., :12]  # without the targets on sources
    result = direct_sum(kernel, trg, src, dens, norms, box=BOX, periodicity=1)
    assert_close(result, expected, 1e-11)  # extrapolation amplifies the rounding of the sums


def far_field(kernel, periodicity, r, f, q, n):
    """Part of the kernel constant along the periodic directions, in the gauge promised: (3, N)."""
    if periodicity == 2:
        z, area = r[2], BOX[0] * BOX[1]
        if kernel == "laplace":
            return -2 * np.pi / area * np.abs(z) * f[0]
        u = -4 * np.pi / area * np.abs(z) * f * np.array([[1], [1], [0]])
        stress = np.stack([q[0] * n[2] + q[2] * n[0], q[1] * n[2] + q[2] * n[1], np.sum(q * n, 0)])
        return u - 4 * np.pi / area * np.sign(z) * stress
    rho2 = r[1] ** 2 + r[2] ** 2
    if kernel == "laplace":
        return -np.log(rho2) / BOX[0] * f[0]
    log = np.log(rho2) / 2
    cross = r[1] * f[1] + r[2] * f[2]
    rows = [-(2 * log + 3) * f[i] + 2 * r[i] * cross / rho2 for i in (1, 2)]
    return np.stack([-(4 * log + 4) * f[0], *rows]) / BOX[0]


@pytest.mark.parametrize(
    ("periodicity", "kernel"),
    [
        (1, "laplace"),
        (1, "stokes_sl"),  # the double layer has no gauge here
        (2, "laplace"),
        (2, "stokes_sl"),
        (2, "stokes_dl"),
        (2, "stokes_comb"),
    ],
)
def test_gauge_far_away(periodicity, kernel):
    _, src, dens, norms = system(kernel, count=4)
    dens = np.atleast_2d(dens)
    f = np.zeros((3, 4)) if kernel == "stokes_dl" else dens[:3]
    q = dens[-3:] if kernel in ("stokes_dl", "stokes_comb") else np.zeros((3, 4))
    # All other modes decay as exp(-2 pi distance / length).
    trg = np.array([[0.3, 0.1], [8.0, -7.0], [7.5, -9.0]])
    expected = 0
    for s in range(4):
        y, *roles = (array[:, s, None] for array in (src, f, q, norms))
        expected = expected + far_field(kernel, periodicity, trg - y, *roles)
    values = dens[0] if kernel == "laplace" else dens
    result = direct_sum(kernel, trg, src, values, norms, box=BOX, periodicity=periodicity)
    assert_close(result, expected, 1e-11)  # (a/d)^3 exp(-2 pi d) of the modes left out, d = 7


def test_self_value_of_the_cube():
    madelung, point = -2.8372974794806, np.array([[0.2], [0.7], [0.4]])
    side = 1.7
    charge = direct_sum("laplace", point, point, [1.0], box=3 * [side], periodicity=3)
    np.testing.assert_allclose(side * charge, madelung, rtol=2e-14)
    force = [[0.0], [1.0], [0.0]]
    flow = direct_sum("stokes_sl", point, point, force, box=3 * [side], periodicity=3)
    np.testing.assert_allclose(0.75 * side * flow[1], madelung, rtol=2e-14)
    np.testing.assert_allclose(flow[[0, 2]], 0, atol=1e-14)


def test_rock_salt():
    corners = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1)
    charges = (-1.0) ** corners.sum(axis=0)
    result = direct_sum("laplace", corners, corners, charges, box=[2, 2, 2], periodicity=3)
    np.testing.assert_allclose(result, -1.7475645946331822 * charges, rtol=1e-13)


@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
def test_double_layer_from_single_layer_and_laplace(periodicity):
    """u_dl = (n.grad) u_sl[q] + (q.grad) u_sl[n] + 2 (q.n) grad phi, by central differences."""
    rng = np.random.default_rng(5)
    trg, src = np.array([[0.9], [0.2], [0.6]]), np.array([[0.3], [0.5], [0.1]])
    q, n = rng.standard_normal((2, 3, 1))

    # Eighth order: 3 axes x 8 displaced targets in one call.
    step = 0.01
    stencil = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 4 / 5, -1 / 5, 4 / 105, -1 / 280]) / step
    places = step * np.array([-4, -3, -2, -1, 1, 2, 3, 4])
    moved = np.concatenate([trg + np.eye(3)[:, [axis]] * places for axis in range(3)], axis=1)

    def gradient(kernel, density):
        values = direct_sum(kernel, moved, src, density, box=BOX, periodicity=periodicity)
        return np.moveaxis(values.reshape(*values.shape[:-1], 3, 8) @ stencil, -1, 0)

    by_q, by_n = gradient("stokes_sl", q), gradient("stokes_sl", n)  # [derivative, component]
    expected = n.T @ by_q + q.T @ by_n + 2 * np.sum(q * n) * gradient("laplace", [1.0])
    result = direct_sum("stokes_dl", trg, src, q, n, box=BOX, periodicity=periodicity)
    assert_close(result, expected.T, 1e-9)


@periodic
def test_many_sources_meet_the_blocked_paths(periodicity):
    rng = np.random.default_rng(7)
    trg, src = rng.random((3, 20)), rng.random((3, 9000))
    dens, norms = rng.standard_normal((6, 9000)), rng.standard_normal((3, 9000))
    arguments = {"box": [1, 1, 1], "periodicity": periodicity}
    low, high = (
        direct_sum("stokes_comb", trg, src, dens, norms, **arguments, xi=xi) for xi in (5.0, 7.0)
    )
    assert_close(low, high)


@every_kernel
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
def test_agrees_with_an_independent_oracle(kernel, periodicity):
    if not ORACLE.exists():
        pytest.skip(f"needs the independent oracle, ../{'/'.join(ORACLE.parts[-3:])}")
    spec = importlib.util.spec_from_file_location("oracle", ORACLE)
    oracle = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(oracle)
    trg, src, dens, norms = system(kernel)
    normals = (norms,) if kernel in ("stokes_dl", "stokes_comb") else ()
    expected = getattr(oracle, kernel)(trg, src, dens, *normals, BOX, periodicity)
    result = direct_sum(kernel, trg, src, dens, norms, box=BOX, periodicity=periodicity)
    assert_close(result, expected)


@periodic
def test_empty_and_degenerate_input(periodicity):
    none, point = np.zeros((3, 0)), np.full((3, 1), 0.25)
    arguments = {"box": [1, 1, 1], "periodicity": periodicity}
    assert direct_sum("stokes_sl", none, point, point, **arguments).shape == (3, 0)
    np.testing.assert_array_equal(direct_sum("laplace", point, none, [], **arguments), [0.0])
    # A point alone, so that nothing extends along the free directions.
    values = [direct_sum("laplace", point, point, [1.0], **arguments, xi=xi) for xi in (2.0, 6.0)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "stokes"}, "kernel is 'stokes', expected one of 'laplace'"),
        ({"periodicity": 4}, "periodicity is 4"),
        ({"xi": -1.0}, "xi is -1.0, expected a positive number"),
        ({"box": [1, 1]}, "expected three positive lengths"),
        ({"trg": np.zeros((4, 3))}, r"trg has shape \(4, 3\), expected \(3, N\)"),
        ({"dens": np.zeros((3, 2))}, r"dens has shape \(3, 2\), expected \(6, 1\)"),
        ({"norms": None}, "stokes_comb needs norms"),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    point = np.zeros((3, 1))
    arguments = {
        "kernel": "stokes_comb",
        "trg": point,
        "src": point,
        "dens": np.zeros((6, 1)),
        "norms": point,
        "box": [1, 1, 1],
        "periodicity": 1,
    }
    with pytest.raises(ValueError, match=message):
        direct_sum(**(arguments | change))
