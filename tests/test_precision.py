"""Mixed precision: float64 arrays, single precision where nothing hangs on close positions."""

from __future__ import annotations

import numpy as np
import pytest

import parki
from parki import EwaldOptions, ParkiValueError
from parki.ewald.sums import SUMS

N = 800
# Of rounding: units of single precision's roundoff of the rms of the result, as for float32 arrays.
ROUNDING = 64 * 2.0**-24


def cloud(kind, box, rng):
    """Return points in a box: even, in a cluster, or with close pairs, some across its faces."""
    edges = np.array(box)[:, None]
    points = rng.random((3, N)) * edges
    if kind == "cluster":
        points[:, : N // 2] = edges * np.clip(0.5 + 0.02 * rng.standard_normal((3, N // 2)), 0, 1)
    if kind == "pairs":
        points[:, 1::2] = points[:, ::2] + 1e-6 * rng.standard_normal((3, N // 2))
        points[:, :2] = 0.3 * edges
        points[:, 1] = points[:, 0]
        points[0, :2] = 1e-7, box[0] - 1e-7
        points = np.clip(points, 0, edges * (1 - 1e-12))
    return points


def density(kernel, rng):
    return rng.standard_normal(SUMS[kernel].density_shape(N))


def rms(values):
    return float((values**2).sum() / values.shape[-1]) ** 0.5


@pytest.mark.each
@pytest.mark.parametrize("kind", ["even", "cluster", "pairs"])
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
@pytest.mark.parametrize("kernel", SUMS)
def test_promise(kernel, periodicity, kind, space, to_space, rng):
    box, tolerance = ((3.0, 2.0, 2.5), 1e-6) if periodicity % 2 else ((1.0, 1.0, 1.0), 1e-4)
    points = to_space(cloud(kind, box, rng))
    norms = to_space(rng.standard_normal((3, N))) if SUMS[kernel].double else None
    dens, want = to_space(density(kernel, rng)), ("u", "grad_u")
    options = EwaldOptions(periodicity, box, tolerance, precision="mixed")
    plan = parki.Plan(kernel, points, points, norms, options, want=want)
    exact = parki.Plan(
        kernel, points, points, norms, EwaldOptions(periodicity, box, 1e-9), want=want
    )
    for ours, theirs, bound in zip(plan(dens), exact(dens), plan.promise(dens), strict=True):
        assert ours.dtype == np.float64
        assert rms(ours - theirs) <= bound + ROUNDING * rms(theirs)


def test_single_precision_would_lose_close_pairs(rng):
    """What mixed precision is for, besides speed."""
    points = cloud("pairs", (1, 1, 1), rng)
    dens = density("stokes_sl", rng)
    exact = parki.stokes_sl(points, points, dens, EwaldOptions(3, [1, 1, 1], 1e-9))
    options = EwaldOptions(3, [1, 1, 1], 1e-4)
    single = parki.stokes_sl(*(a.astype("f4") for a in (points, points, dens)), options)
    options = EwaldOptions(3, [1, 1, 1], 1e-4, precision="mixed")
    mixed = parki.stokes_sl(points, points, dens, options)
    assert rms(mixed - exact) < 1e-3 * rms(single - exact)


@pytest.mark.parametrize("kernel", ["stokes_comb", "laplace"])
def test_all_that_plans_do(kernel, space, to_space, rng):
    """Several densities, systems, points that move, results to write over, stresses."""
    options = EwaldOptions(1, [1, 1, 1], 1e-4, precision="mixed")
    points = to_space(rng.random((3, N)))
    norms = to_space(rng.standard_normal((3, N))) if SUMS[kernel].double else None
    dens, xp = to_space(density(kernel, rng)), space.array_module
    plan = parki.Plan(kernel, points, points, norms, options)
    for _ in range(4):
        points = to_space(rng.random((3, N)))
        plan.update_points(points, points, norms)
        found = plan(xp.stack([dens, 2 * dens]))
        exact = parki.Plan(kernel, points, points, norms, EwaldOptions(1, [1, 1, 1], 1e-8))
        error = rms(found[1] - 2 * exact(dens))
        assert error <= 2 * plan.promise(dens) + ROUNDING * rms(found[1])
        out = xp.empty_like(found[0])
        assert plan(dens, out=out) is out
        assert float(abs(out - found[0]).max()) <= ROUNDING * float(abs(out).max())
    batch = parki.Plan(kernel, points, points, norms, options, systems=[0, N // 2, N])
    one = parki.Plan(kernel, *(a[:, : N // 2] for a in (points, points)),
                     None if norms is None else norms[:, : N // 2], options)  # fmt: skip
    error = rms(batch(dens)[..., : N // 2] - one(dens[..., : N // 2]))
    assert error <= 2 * float(batch.promise(dens)[0]) + ROUNDING * rms(batch(dens))
    if kernel == "stokes_comb":
        stress = parki.Plan(kernel, points, points, norms, options, want="stress")
        exact = parki.Plan(
            kernel, points, points, norms, EwaldOptions(1, [1, 1, 1], 1e-8), want="stress"
        )
        error = rms(stress(dens) - exact(dens))
        assert error <= stress.promise(dens) + ROUNDING * rms(stress(dens))


def test_words(rng):
    points = rng.random((3, 100))
    options = EwaldOptions(3, [1, 1, 1], 1e-4, precision="mixed")
    assert "float64 in mixed precision" in parki.Plan("laplace", points, points, options).describe()


def test_what_is_refused(rng):
    points, dens = rng.random((3, 100)), rng.standard_normal((3, 100))

    def total(points, dens, tolerance=1e-4, **settings):
        options = EwaldOptions(3, [1, 1, 1], tolerance, precision="mixed", **settings)
        return parki.stokes_sl(points, points, dens, options)

    with pytest.raises(ParkiValueError, match="precision is 'half'; expected one of double, mixed"):
        EwaldOptions(3, [1, 1, 1], precision="half")
    with pytest.raises(ParkiValueError, match="mixed precision holds 1e-06 at best; leave"):
        total(points, dens, 1e-7)
    with pytest.raises(ParkiValueError, match="window_points is 14; mixed precision holds at most"):
        total(points, dens, window_points=14)
    with pytest.raises(ParkiValueError, match="arrays have dtype float32, whose sums"):
        total(points.astype("f4"), dens.astype("f4"))
    with pytest.raises(ParkiValueError, match=r"p2p_method is 'gm1d', which takes\s+positions"):
        total(points, dens, p2p_method="gm1d")
    for scale in (1e30, 1e-30):
        with pytest.raises(ParkiValueError, match=r"dens has values of up to .*e[+-]30; precision"):
            total(points, dens * scale)
    assert not total(points, 0 * dens).any()
    options = EwaldOptions(3, [1e-12] * 3, 1e-4, precision="mixed")
    with pytest.raises(ParkiValueError, match="the box has edges of about 1e-12; precision"):
        parki.stokes_sl(1e-12 * points, 1e-12 * points, dens, options)


def test_ranks_refuse_it_wherever_options_stand():
    points, dens = np.random.default_rng(0).random((2, 3, 5))
    mixed = EwaldOptions(3, [1, 1, 1], 1e-4, precision="mixed")
    for call in (
        lambda: parki.distributed.ewald.Plan("stokes_sl", points, points, mixed),
        lambda: parki.distributed.ewald.Plan("stokes_sl", points, points, None, mixed),
        lambda: parki.distributed.ewald.stokes_sl(points, points, dens, mixed),
        lambda: parki.distributed.ewald.stokes_sl(points, points, dens, None, mixed),
    ):
        with pytest.raises(ParkiValueError, match=r"'mixed', which works for parki\.Plan alone"):
            call()
