"""What fixes the sums beyond pairs and grid: constants, units, and the mean of the double layer."""

from __future__ import annotations

import numpy as np
import pytest
from contract import promise, rms, rounding

import parki
from parki.ewald.far import gauge
from parki.reference import direct_sum

BOX = (1.2, 1.0, 0.8)


def cloud(n=80):
    rng = np.random.default_rng(5)
    src = rng.random((3, n)) * np.array(BOX)[:, None]
    return src, rng.standard_normal((6, n)) + 0.5, rng.standard_normal((3, n))


@pytest.mark.parametrize("kernel", ["stokes_dl", "stokes_comb"])
def test_the_mean_without_flux(kernel):
    src, dens, norms = cloud()
    dens = dens[:3] if kernel == "stokes_dl" else dens
    fields = {}
    for mean in ("zero", "flux"):
        options = parki.EwaldOptions(periodicity=3, box=BOX, tolerance=1e-9, dl_mean=mean)
        fields[mean] = parki.Plan(kernel, src, src, norms, options, want=("u", "grad_u"))(dens)
    strength = (dens[-3:] * norms).sum(axis=0)
    factor = 8 * np.pi / np.prod(BOX)
    expected = factor * ((src * strength).sum(axis=1)[:, None] - strength.sum() * src)
    scale = rms(fields["zero"][0])
    np.testing.assert_allclose(
        fields["flux"][0] - fields["zero"][0], expected, atol=1e-12 * scale, rtol=0
    )
    gradient = fields["flux"][1] - fields["zero"][1]
    expected = -factor * strength.sum() * np.eye(3)[..., None]
    np.testing.assert_allclose(
        gradient, np.broadcast_to(expected, gradient.shape), atol=1e-11 * rms(fields["zero"][1])
    )


@pytest.mark.pairwise
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "kernel",
    ["laplace", "laplace_dipole", "stokes_sl", "stokes_dl", "stokes_rotlet", "stokes_dipole"],
)
@pytest.mark.parametrize("unit", [1.0, 7.3, 1e-6, 1e9])
def test_sums_with_a_net_density_in_any_unit(kernel, periodicity, unit):
    """The gauges hold in the user's unit of length, the logarithm of the 1-periodic one too."""
    src, dens, norms = cloud()
    product = dens[:3, None] * norms
    dens = {"laplace": dens[0], "stokes_dipole": product}.get(kernel, dens[:3])
    norms = norms if kernel == "stokes_dl" else None
    box = unit * np.array(BOX)
    ref = direct_sum(kernel, unit * src, unit * src, dens, norms, box=box, periodicity=periodicity)
    options = parki.EwaldOptions(periodicity=periodicity, box=list(box), tolerance=1e-8)
    pot = parki.Plan(kernel, unit * src, unit * src, norms, options)(dens)
    bound = parki.Plan(kernel, unit * src, unit * src, norms, options).promise(dens)
    assert rms(pot - ref) <= bound + rounding(pot, ref)


def test_the_logarithm_depends_on_the_unit():
    """As docs/gauges.md says: by -(ln s) (4, 2, 2) sum f / L, if numbers are multiplied by s."""
    src, dens, _ = cloud()
    dens = dens[:3]
    factor = 10.0
    options = parki.EwaldOptions(periodicity=1, box=BOX, tolerance=1e-9)
    larger = parki.EwaldOptions(periodicity=1, box=[factor * b for b in BOX], tolerance=1e-9)
    pot = parki.stokes_sl(src, src, dens, options)
    scaled = parki.stokes_sl(factor * src, factor * src, dens, larger)
    shift = -np.log(factor) * np.array([4, 2, 2]) * dens.sum(axis=1) / BOX[0]
    bound = 2 * promise("stokes_sl", dens, None, BOX, 1e-9)
    assert rms(factor * scaled - pot - shift[:, None]) <= bound


def test_a_mean_that_only_three_periods_leave_open():
    with pytest.raises(parki.ParkiValueError, match="dl_mean is 'flux', but periodicity is 1"):
        parki.EwaldOptions(1, [1, None, None], dl_mean="flux")
    with pytest.raises(parki.ParkiValueError, match="dl_mean is 'net'; expected one of zero, flux"):
        parki.EwaldOptions(3, [1, 1, 1], dl_mean="net")


def test_rows_add_up_in_both_ways(monkeypatch):
    """Short rows of a device together, long ones each by itself."""
    rows = np.random.default_rng(1).standard_normal((3, 1000))

    apart = []

    class Device:  # NumPy, but for its name
        @staticmethod
        def empty(shape, dtype):
            apart.append(shape)
            return np.empty(shape, dtype=dtype)

    for short, times in ((1000, 0), (999, 1)):
        monkeypatch.setattr(gauge, "SHORT", short)
        for module in (np, Device):
            sums = gauge._sums(module, rows)
            np.testing.assert_allclose(sums, rows.sum(axis=1)[:, None], rtol=1e-12)
        assert len(apart) == times


def residual(kernel, dens, norms, periodicity):
    """Return ``-laplace u + grad p`` of direct sums between sources, by differences of order 4."""
    src, trg = cloud(4)[0], np.random.default_rng(6).random((3, 20)) * np.array(BOX)[:, None]
    trg = trg[:, np.linalg.norm(trg[:, :, None] - src[:, None], axis=0).min(axis=1) > 0.3]
    step = 2e-3
    found = 0.0
    for axis in range(3):
        off = step * np.eye(3)[:, axis, None]
        places = np.concatenate([trg + m * off for m in (-2, -1, 0, 1, 2)], axis=1)
        u, p = direct_sum(
            kernel, places, src, dens, norms, box=BOX, periodicity=periodicity, want=("u", "p")
        )
        u, p = (a.reshape(*a.shape[:-1], 5, -1) for a in (u, p))
        found = found - np.tensordot([-1, 16, -30, 16, -1], u, ([0], [1])) / (12 * step**2)
        found[axis] += np.tensordot([1, -8, 0, 8, -1], p, 1) / (12 * step)
    return found


@pytest.mark.each
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
@pytest.mark.parametrize("kernel", ["stokes_sl", "stokes_dl", "stokes_dipole", "stokes_comb"])
def test_the_pressure_between_sources(kernel, periodicity):
    """docs/gauges.md: a net force in three periods leaves -8 pi f / V, the mean gradient's part."""
    _, dens, norms = cloud(4)
    if kernel == "stokes_dipole":
        dens, norms = dens[:3, None] * norms, None
    elif kernel != "stokes_comb":
        dens, norms = dens[:3], norms if kernel == "stokes_dl" else None
    found = residual(kernel, dens, norms, periodicity)
    mean = np.zeros((3, 1))
    if periodicity == 3 and kernel in ("stokes_sl", "stokes_comb"):
        mean = 8 * np.pi / np.prod(BOX) * dens[:3].sum(axis=1, keepdims=True)
        assert abs(mean).min() > 1
    # p + 8 pi (sum f . x) / V has the gradient more that makes it zero.
    np.testing.assert_allclose(found + mean, 0.0, atol=0.05)


@pytest.mark.parametrize("side", [1, -1])
def test_fields_far_from_the_plane(side):
    """docs/gauges.md: what is constant in the plane, of each sum with two periodic axes."""
    src, dens, norms = (array[:, :1] for array in cloud(1))
    f, q, n = dens[:3, 0], dens[3:, 0], norms[:, 0]
    height = 6.0
    trg = src + np.array([[0.1], [0.3], [side * height]])
    area, e_z = BOX[0] * BOX[1], np.array([0, 0, 1])
    dipole = np.outer(f, n)
    plane = np.array([1, 1, 0])
    layer = np.array([q[0] * n[2] + q[2] * n[0], q[1] * n[2] + q[2] * n[1], q @ n])
    factor = 4 * np.pi / area * side
    cases = {  # density, normals, velocity, slope along z, pressure
        "laplace": (f[:1], None, -factor * side * height / 2 * f[0], -factor / 2 * f[0], 0),
        "laplace_dipole": (f[:, None], None, factor / 2 * f[2], 0, 0),
        "stokes_sl": (
            f[:, None],
            None,
            -factor * side * height * f * plane,
            -factor * f * plane,
            factor * f[2],
        ),
        "stokes_dl": (q[:, None], norms, -factor * layer, 0 * f, 0),
        "stokes_rotlet": (f[:, None], None, factor / 2 * np.cross(f, e_z), 0 * f, 0),
        "stokes_dipole": (dipole[..., None], None, factor * dipole[:, 2] * plane, 0 * f, 0),
    }
    for kernel, (density, normals, u, slope, p) in cases.items():
        want = ("u", "grad_u") if kernel.startswith("laplace") else ("u", "grad_u", "p")
        options = parki.EwaldOptions(2, [*BOX[:2], 14.0], 1e-9)
        shift = np.array([[0], [0], [7.0]])  # into the box
        plan = parki.Plan(kernel, trg + shift, src + shift, normals, options, want=want)
        how = {"box": BOX, "periodicity": 2, "want": want}
        for found in (plan(density), direct_sum(kernel, trg, src, density, normals, **how)):
            np.testing.assert_allclose(found[0].ravel(), np.ravel(u), atol=1e-6)
            np.testing.assert_allclose(found[1].reshape(-1, 3)[:, 2], slope, atol=1e-6)
            if len(found) == 3:
                np.testing.assert_allclose(found[2], p, atol=1e-6)


def test_the_mean_of_pressures():
    """docs/gauges.md: three periods drop what sits at sources; isotropic ones have nothing else."""
    src = np.full((3, 3), 0.3)
    trg = np.random.default_rng(0).random((3, 20)) * np.array(BOX)[:, None]
    volume = np.prod(BOX)
    options = parki.EwaldOptions(3, BOX, 1e-8)
    of_layers = -16 * np.pi / 3 * 3 / volume
    p = parki.stokes_dl(trg, src, np.eye(3), np.eye(3), options, want="p")
    np.testing.assert_allclose(p, of_layers, atol=1e-6)
    exact = direct_sum("stokes_dl", trg, src, np.eye(3), np.eye(3), options=options, want="p")
    np.testing.assert_allclose(exact, of_layers, rtol=1e-12)
    p = parki.stokes_dipole(trg, src[:, :1], np.eye(3)[..., None], options, want="p")
    np.testing.assert_allclose(p, 8 * np.pi / volume, atol=1e-6)
