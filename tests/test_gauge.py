"""What fixes the sums beyond pairs and grid: constants, units, and the mean of the double layer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from contract import promise, rms, rounding
from operators import of_sum, over_plane

import parki
from examples import EXAMPLES
from parki.ewald.far import gauge

PLAIN = [name for name, each in EXAMPLES.items() if not each.sized]
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
@pytest.mark.parametrize("kernel", PLAIN)
@pytest.mark.parametrize("unit", [1.0, 7.3, 1e-6, 1e9])
def test_sums_with_a_net_density_in_any_unit(kernel, periodicity, unit):
    """The gauges hold in the user's unit of length, the logarithm of the 1-periodic one too."""
    src, *rows = cloud()
    dens, norms = EXAMPLES[kernel].taken(*rows)
    src, box = unit * src, unit * np.array(BOX)
    ref = EXAMPLES[kernel].exact(src, src, dens, norms, box=box, periodicity=periodicity)
    # In other units layers and forces have other sizes, of which the promise has its own.
    plan = parki.Plan(kernel, src, src, norms, parki.EwaldOptions(periodicity, list(box), 1e-8))
    pot = plan(dens)
    assert rms(pot - ref) <= plan.promise(dens) + rounding(pot, ref)


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
    assert parki.EwaldOptions((True, True, True), [1, 1, 1], dl_mean="flux").periodicity == 3
    for axes, words in ((1, "1"), ((True, False, True), r"\(True, False, True\)")):
        with pytest.raises(
            parki.ParkiValueError, match=f"dl_mean is 'flux', but periodicity is {words}"
        ):
            parki.EwaldOptions(axes, [1, None, 1], dl_mean="flux")
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
            plain = SimpleNamespace(xp=module, systems=None, together=None)
            sums = gauge.Constants._total(plain, rows, 2.0)
            np.testing.assert_allclose(sums, 2 * rows.sum(axis=1)[:, None], rtol=1e-12)
        assert len(apart) == times


@pytest.mark.each
@pytest.mark.parametrize("kernel", PLAIN)
@pytest.mark.parametrize("side", [1, -1])
def test_fields_far_from_the_plane(side, kernel):
    """docs/gauges.md: what is constant in the plane, of each sum with two periodic axes."""
    src, *rows = (array[:, :1] for array in cloud(1))
    dens, norms = EXAMPLES[kernel].taken(*rows)
    height, kind = 7.0, EXAMPLES[kernel].kind
    trg = src + np.array([[0.1], [0.3], [side * height]])
    shift = np.array([[0], [0], [8.0]])  # into the box
    factor = -2 * np.pi / (BOX[0] * BOX[1])
    mean = over_plane(kind.symbol, [factor * height, factor * side])
    u, p = of_sum(kind, dens, norms)
    slopes = [row.d(axis) for row in u for axis in range(3)]
    expected = {"u": u, "grad_u": slopes, "p": [p]}
    want = tuple(name for name in expected if name in EXAMPLES[kernel].fields)
    options = parki.EwaldOptions(2, [*BOX[:2], 16.0], 1e-9)
    found = parki.Plan(kernel, trg + shift, src + shift, norms, options, want=want)(dens)
    how = {"box": BOX, "periodicity": 2, "want": want}
    exact = EXAMPLES[kernel].exact(trg, src, dens, norms, **how)
    for name, one, other in zip(want, found, exact, strict=True):
        values = np.array([np.sum(row.of(mean)) for row in expected[name]])
        np.testing.assert_allclose(one.ravel(), values, atol=1e-6)
        np.testing.assert_allclose(other.ravel(), values, atol=1e-11)


def test_the_mean_of_pressures():
    """docs/gauges.md: three periods drop what sits at sources; isotropic ones have nothing else."""
    src = np.full((3, 3), 0.3)
    trg = np.random.default_rng(0).random((3, 20)) * np.array(BOX)[:, None]
    volume = np.prod(BOX)
    options = parki.EwaldOptions(3, BOX, 1e-8)
    of_layers = -16 * np.pi / 3 * 3 / volume
    p = parki.stokes_dl(trg, src, np.eye(3), np.eye(3), options, want="p")
    np.testing.assert_allclose(p, of_layers, atol=1e-6)
    p = parki.stokes_dipole(trg, src[:, :1], np.eye(3)[..., None], options, want="p")
    np.testing.assert_allclose(p, 8 * np.pi / volume, atol=1e-6)
