"""Gradients, pressures and far fields of the reference, by differences and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from random_systems import (
    BOX,
    SLOPE,
    STEP,
    SWEPT,
    TOLERANCE,
    around,
    assert_close,
    clear_system,
    differences,
    every_kernel,
    every_periodicity,
    fields,
    rms,
    summed,
    system,
)

from parki.reference import direct_sum

VOLUME = BOX.prod()


def far_field(kernel, r, f):
    """Part of the kernel constant along the periodic axis, in the gauge promised: (3, N)."""
    rho2 = r[1] ** 2 + r[2] ** 2
    if kernel == "laplace":
        return -np.log(rho2) / BOX[0] * f[0]
    if kernel == "stokes_rotlet":
        return 2 / BOX[0] / rho2 * np.cross(f, r * [[0], [1], [1]], axis=0)
    log = np.log(rho2) / 2
    cross = r[1] * f[1] + r[2] * f[2]
    rows = [-(2 * log + 3) * f[i] + 2 * r[i] * cross / rho2 for i in (1, 2)]
    return np.stack([-(4 * log + 4) * f[0], *rows]) / BOX[0]


# All other modes decay as exp(-2 pi distance / length).
FAR = np.array([[0.3, 0.1], [8.0, -7.0], [7.5, -9.0]])


@pytest.mark.parametrize("kernel", ["laplace", "stokes_sl", "stokes_rotlet"])
def test_gauge_far_away(kernel):
    """With one periodic axis; `tests/test_gauge.py` has planes."""
    _, src, dens, norms = system(kernel, count=4)
    parts = zip(src.T, np.atleast_2d(dens).T, strict=True)
    expected = sum(far_field(kernel, FAR - y[:, None], f[:, None]) for y, f in parts)
    result = summed(kernel, (FAR, src, dens, norms), 1)
    assert_close(result, expected, 1e-11)  # (a/d)^3 exp(-2 pi d) of the modes left out, d = 7


def test_pressure_far_away():
    _, src, dens, norms = system("stokes_comb", count=4)
    expected = np.zeros(2)
    for y, f, q, n in zip(src.T, dens[:3].T, dens[3:].T, norms.T, strict=True):
        rho, (f, q, n) = (FAR - y[:, None])[1:], (vector[1:] for vector in (f, q, n))
        rho2 = np.sum(rho**2, axis=0)
        expected += 4 * (f @ rho) / rho2 / BOX[0]
        expected += (8 * (q @ n) / rho2 - 16 * (q @ rho) * (n @ rho) / rho2**2) / BOX[0]
    assert_close(summed("stokes_comb", (FAR, src, dens, norms), 1, want="p"), expected, 1e-11)


@every_kernel
@every_periodicity
def test_gradients_and_equations_of_motion(kernel, periodicity):
    """Lap u = grad p between the sources, except the background of a 3-periodic box."""
    trg, *others = clear_system(kernel)
    result = summed(kernel, (trg, *others), periodicity, want="grad_u")
    u, *p, gradient = summed(kernel, (around(trg), *others), periodicity, want=fields(kernel)[:3])
    assert_close(result, differences(u), 1e-10)
    second, dens = differences(gradient), others[1]
    balance = np.einsum("...jjt->...t", second) - (differences(p[0]) if p else 0)
    background = np.zeros((*balance.shape[:-1], 1))
    if periodicity == 3 and kernel == "laplace":
        background[:] = 4 * np.pi * dens.sum() / VOLUME
    elif periodicity == 3 and kernel == "stokes_comb":
        background[:] = 8 * np.pi * dens[:3].sum(axis=1, keepdims=True) / VOLUME
    expected = np.broadcast_to(background, balance.shape)
    assert_close(balance, expected, 1e-10, rms(second))


@pytest.mark.parametrize("kernel", [name for name in SWEPT if "stokes" in name])
@every_periodicity
def test_divergence(kernel, periodicity):
    """None, also on a source (without its singular part), except the 3-periodic double layer."""
    trg, src, dens, norms = system(kernel)
    arguments = {"box": BOX, "periodicity": periodicity, "want": "grad_u"}
    gradient = direct_sum(kernel, trg, src, dens, norms, **arguments)
    source = 0.0
    if periodicity == 3 and kernel == "stokes_comb":
        source = 8 * np.pi * np.sum(dens[-3:] * norms) / VOLUME
    divergence = np.trace(gradient)
    assert_close(divergence, np.full_like(divergence, source), TOLERANCE, rms(gradient))


@every_periodicity
def test_dipole_is_a_derivative_of_the_single_layer(periodicity):
    """With respect to the source; in all fields, which fixes every constant."""
    trg, src, dens, _ = clear_system("stokes_dipole")
    arguments = {"box": BOX, "periodicity": periodicity, "want": ("u", "p", "grad_u")}
    found = direct_sum("stokes_dipole", trg, src, dens, **arguments)
    moved = around(src)  # sources x axes x places
    weights = np.einsum("jka,s->jaks", dens, SLOPE / STEP).reshape(3, -1)
    expected = direct_sum("stokes_sl", trg, moved, weights, **arguments)
    for field, other in zip(found, expected, strict=True):
        assert_close(field, other, 1e-9)


@every_periodicity
def test_parts_of_a_dipole(periodicity):
    """The double layer and a point source; the rotlet; and a pressure that is constant at most."""
    trg, src, q, n = system("stokes_dl")
    arguments = {"box": BOX, "periodicity": periodicity}
    want = ("u", "p", "grad_u")

    def dipole(dens, want=want):
        return direct_sum("stokes_dipole", trg, src, dens, **arguments, want=want)

    symmetric = q[:, None] * n + n[:, None] * q
    double = direct_sum("stokes_dl", trg, src, q, n, **arguments, want=want)
    flow, pressure, gradient = dipole(-symmetric)
    source = direct_sum("laplace", trg, src, (q * n).sum(axis=0), **arguments, want="grad_u")
    assert_close(flow + 2 * source, double[0])
    assert_close(pressure, double[1])
    np.testing.assert_allclose(np.trace(gradient), 0, atol=1e-10)

    turn = np.stack([np.cross(e[:, None], q, axis=0) for e in np.eye(3)], axis=1)
    assert_close(turn, -turn.swapaxes(0, 1))
    rotlet = direct_sum("stokes_rotlet", trg, src, q, **arguments, want=want)
    for field, other in zip(dipole(-turn / 2), rotlet, strict=True):
        assert_close(field, other, scale=rms(rotlet[2]))

    scalar = q[0]
    flow, pressure = dipole(scalar * np.eye(3)[:, :, None], ("u", "p"))
    mean = 8 * np.pi * scalar.sum() / VOLUME if periodicity == 3 else 0.0
    np.testing.assert_allclose(flow, 0, atol=1e-11)
    np.testing.assert_allclose(pressure, mean, atol=1e-11)


@every_periodicity
def test_pressure_from_laplace(periodicity):
    """p_sl = -2 f.grad phi, which fixes its constant."""
    trg, src, force, _ = system("stokes_sl")
    gradients = [summed("laplace", (trg, src, f), periodicity, want="grad_u") for f in force]
    result = summed("stokes_sl", (trg, src, force), periodicity, want="p")
    assert_close(result, -2 * np.trace(np.stack(gradients)))


def test_pressure_of_a_point_source():
    """q = n along each axis in turn: nothing in free space, what keeps the mean zero in a box."""
    trg, src, axes = np.array([[0.7], [0.9], [0.1]]), np.full((3, 3), 0.25), np.eye(3)
    free, boxed = (
        direct_sum("stokes_dl", trg, src, axes, axes, box=BOX, periodicity=periodicity, want="p")
        for periodicity in (0, 3)
    )
    np.testing.assert_allclose(free, 0, atol=1e-13)
    np.testing.assert_allclose(boxed, -16 * np.pi / VOLUME, rtol=1e-12)
