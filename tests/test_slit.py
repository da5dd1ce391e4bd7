"""Sums between two walls, against sums over modes, closed forms, and one wall."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from contract import rms

import parki
from parki.ewald.far import slit
from parki.reference import between_walls

WALLS = ("no-slip", "no-slip")
BOX = (1.0, 1.2, 0.8)
RNG = np.random.default_rng(0)
KERNELS = {
    "stokes_sl": (3,),
    "stokes_dipole": (3, 3),
    "stokes_dl": (3,),
    "stokes_rotlet": (3,),
    "stokes_comb": (6,),
}
LAYERS = "stokes_dl", "stokes_comb"
VALUE = parki.ParkiValueError


def options(box=BOX, tolerance=1e-6, **more):
    return parki.EwaldOptions(2, box, tolerance, **{"wall": WALLS, **more})


def inside(count, box=BOX, margin=0.0, seed=0):
    """Return points between the walls, of a box of lengths or of vectors."""
    parts = np.random.default_rng(seed).random((count, 3))
    parts[:, 2] = margin + (1 - 2 * margin) * parts[:, 2]
    rows = np.diag(box) if np.ndim(box) == 1 else np.array(box)
    return (parts @ rows).T.copy()


def given(kernel, count=20, **more):
    """Return targets, sources, density and normals of a sum."""
    trg, src = inside(12, seed=1), inside(count)
    norms = RNG.standard_normal((3, count)) if kernel in LAYERS else None
    return trg, src, RNG.standard_normal((*KERNELS[kernel], count)), norms


def at_walls(kernel="stokes_sl", box=BOX, tolerance=1e-6, **more):
    """Return a plan whose targets are at both walls, and a density."""
    _, _, dens, norms = given(kernel)
    src, wall = inside(20, box), inside(30, box, seed=2)
    wall[2, ::2], wall[2, 1::2] = 0, np.array(box)[2, 2] if np.ndim(box) > 1 else box[2]
    src[2, :2] = wall[2, :2]
    return parki.Plan(kernel, wall, src, norms, options(box, tolerance, **more)), dens


# --- values ---------------------------------------------------------------------------------------
VALUES = {
    "no-gradient": (1.6432375846, 3.8605454161, -0.6403047542),
    "no-flux": (-0.5656947499, -0.5573192530, -0.6403047542),
    ("no-gradient", "no-flux"): (1.6432375846, -0.5573192530, -0.6403047542),
}


@pytest.mark.parametrize("mean_flow", VALUES)
def test_one_force(mean_flow):
    """A force at the place of its target, too: its own images."""
    src, force = np.array([[0.1], [0.2], [0.3]]), np.array([[1.0], [2], [3]])
    trg = np.array([[0.5, 0.1], [0.7, 0.2], [0.6, 0.3]])
    found = parki.stokes_sl(trg, src, force, options(tolerance=1e-9, mean_flow=mean_flow))
    assert found[:, 0] == pytest.approx(VALUES[mean_flow], abs=3e-9)
    slow = between_walls(trg[:, :1], src, force, box=BOX, mean_flow=mean_flow)
    assert slow[:, 0] == pytest.approx(VALUES[mean_flow], abs=1e-9)
    if mean_flow == "no-gradient":
        itself = -1.740815384, -4.435495408, -16.417342212
        assert found[:, 1] == pytest.approx(itself, abs=1e-8)
        wide = parki.stokes_sl(trg, src, force, options((4, 4, 0.8), 1e-9))
        assert wide[:, 0] == pytest.approx((1.618875844, 1.761040284, -0.151093019), abs=1e-8)


@cache
def slow(box):
    """Return targets, sources, forces and a slow sum over modes."""
    trg, src = inside(12, box, 0.3, seed=1), inside(8, box, 0.3)
    forces = np.random.default_rng(3).standard_normal((3, 8))
    return trg, src, forces, between_walls(trg, src, forces, box=box)


TILTED = ((1.0, 0, 0), (0.35, 1.1, 0), (0, 0, 0.6))


@pytest.mark.parametrize("tolerance", [1e-3, pytest.param(1e-6, marks=pytest.mark.slow), 1e-9])
@pytest.mark.parametrize("box", [BOX, TILTED, (1.2, 0.9, 0.4), (0.5, 0.6, 2)], ids=str)
def test_the_promise(box, tolerance):
    """Thin slits, tall ones and tilted boxes, against a slow sum over modes."""
    trg, src, forces, exact = slow(box)
    plan = parki.Plan("stokes_sl", trg, src, options(box, tolerance))
    assert rms(plan(forces) - exact) <= plan.promise(forces)
    assert plan.check(forces).error <= plan.promise(forces)


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_slip(kernel):
    plan, dens = at_walls(kernel)
    promise = plan.promise(dens)
    assert rms(plan(dens)) <= promise
    both, _ = at_walls(kernel, mean_flow="no-flux") if kernel == "stokes_sl" else (plan, None)
    assert rms(both(dens)) <= promise
    assert plan._combination.all_terms[-1].kernel == "correction"
    if kernel == "stokes_sl":
        tilted, dens = at_walls(kernel, TILTED)
        assert rms(tilted(dens)) <= tilted.promise(dens)


def test_one_wall_as_the_other_moves_away():
    """What the upper wall holds is all that is left, -8 pi / (A H) z sum h f."""
    trg, src = (points * [[1], [1], [0.6]] for points in (inside(8, seed=1), inside(8)))
    forces = RNG.standard_normal((3, 8))
    one = parki.stokes_sl(trg, src, forces, options((1, 1.2, 0.6), 1e-9, wall="no-slip"))
    for gap, apart in ((1.5, 2e-2), (3.0, 1e-7)):
        two = parki.stokes_sl(trg, src, forces, options((1, 1.2, gap), 1e-9))
        two[:2] += 8 * np.pi / (1.2 * gap) * trg[2] * (forces[:2] @ src[2])[:, None]
        assert rms(two - one) <= apart


def test_double_layers_with_a_net_flux():
    """The fluid has the divergence 8 pi sum q.n / (A H), so that both walls are at rest."""
    trg, src, dens, norms = given("stokes_dl")
    slopes = parki.stokes_dl(trg, src, dens, norms, options(), want="grad_u")
    net = 8 * np.pi * (dens * norms).sum() / np.prod(BOX)
    assert np.trace(slopes) == pytest.approx(np.full(12, net), abs=1e-3)


def test_transposes_with_a_net_flux():
    trg, src, dens, norms = given("stokes_dl")
    for want in ("u", "stress"):
        plan = parki.Plan("stokes_dl", trg, src, norms, options(), want=want)
        found = plan(dens)
        values = RNG.standard_normal(found.shape)
        assert (plan.adjoint(values) * dens).sum() == pytest.approx(
            (values * found).sum(), rel=1e-6
        )


def test_pressure_and_stress():
    """-lap u + grad p = 0, by differences of the gradient and of the pressure."""
    _, src, dens, _ = given("stokes_sl")
    middle, step = np.array([[0.5], [0.5], [0.4]]), 1e-3
    src = src[:, np.abs(src - middle).max(axis=0) > 0.2]
    shifts = np.concatenate([step * np.eye(3), -step * np.eye(3)], axis=1)
    want = ("p", "grad_u", "stress")
    p, slopes, stress = parki.stokes_sl(
        middle + shifts, src, dens[:, : src.shape[1]], options(tolerance=1e-9), want=want
    )
    change = (slopes[..., :3] - slopes[..., 3:]) / (2 * step)
    laplacian = np.einsum("ijj->i", change)
    assert laplacian == pytest.approx((p[:3] - p[3:]) / (2 * step), rel=1e-3)
    made = slopes + slopes.swapaxes(0, 1) - p * np.eye(3)[:, :, None]
    assert stress == pytest.approx(made, abs=1e-6)


# --- plans ----------------------------------------------------------------------------------------
def test_what_a_plan_tells():
    trg, src, *_ = given("stokes_sl")
    plan = parki.Plan("stokes_sl", trg, src, options(mean_flow=("no-flux", "no-gradient")))
    text = plan.describe()
    assert text.startswith("stokes_sl between walls: 5 addends, 3 sums\n")
    assert "between walls at a distance of 0.8: " in text and "no flux along axis 0" in text
    assert plan.box.tolist() == list(BOX) and [t.sum.counts[1] for t in plan.terms] == [60, 20, 20]
    assert parki.EwaldOptions(2, BOX, wall=("no-slip", None)).wall == "no-slip"
    assert parki.EwaldOptions(2, BOX, wall=(None, None)).wall is None
    how = {"box": (5, 5, 1), "periodicity": 2, "machine": "avx512"}
    slit, walled = (
        parki.estimate("stokes_sl", 1e5, wall=wall, **how) for wall in (WALLS, "no-slip")
    )
    assert 1.3 * walled.total < slit.total < 3 * walled.total
    assert slit.memory.parts["correction"] > 0
    assert slit.chosen[-1].startswith("correction: 592 modes")
    assert "grid 80 x 80 x 22, window of 6 points" in slit.chosen[-1]


def test_other_lattices():
    """The periods may change in a plan, and the walls stay where they are."""
    trg, src, forces, _ = given("stokes_sl")
    plan = parki.Plan("stokes_sl", trg, src, options())
    plan(forces)
    other = ((1.0, 0, 0), (0.2, 1.2, 0), (0, 0, 0.8))
    plan.update_points(trg, src, box=other)
    exact = parki.stokes_sl(trg, src, forces, options(other, 1e-8))
    assert rms(plan(forces) - exact) <= plan.promise(forces)
    with pytest.raises(VALUE, match=r"walls are 0\.9 apart, but those of the plan are 0\.8"):
        plan.update_points(trg, src, box=(1, 1.2, 0.9))


@pytest.mark.parametrize("dtype", ["f8", pytest.param("f4", marks=pytest.mark.slow)])
def test_many_modes_take_a_grid(monkeypatch, dtype):
    """It has the same flow, and a transpose up to rounding; a few modes and points take none."""
    trg, src, *_ = given("stokes_sl")
    dens = RNG.standard_normal((2, 3, 20)).astype(dtype)
    trg, src = 0.7 * trg.astype(dtype), 0.7 * src.astype(dtype)
    src[2, :2] = 0, BOX[2]
    for box in (BOX, TILTED):
        trg[2], src[2] = (
            np.minimum(points[2], np.array(0.6 if box is TILTED else 0.8, dtype))
            for points in (trg, src)
        )
        with monkeypatch.context() as few:
            plain = parki.Plan("stokes_sl", trg, src, options(box))
            first = plain(dens), parki.Plan("stokes_sl", src, trg, options(box))(dens[..., :12])
            assert "_grid" not in vars(plain._combination.all_terms[-1].correction.flow)
            few.setattr(slit, "FEW", 0)
            plan = parki.Plan("stokes_sl", trg, src, options(box))
            assert 0 < rms(plan(dens)[0] - first[0][0]) <= 0.2 * plan.promise(dens[0])
            assert "_grid" in vars(plan._combination.all_terms[-1].correction.flow)
            values = RNG.standard_normal((2, 3, 12)).astype(dtype)
            product = np.vdot(values, plan(dens)), np.vdot(plan.adjoint(values), dens)
            assert product[0] == pytest.approx(product[1], rel=1e-12 if dtype == "f8" else 1e-4)
            plan.update_points(src, trg)
            assert rms((plan(dens[..., :12]) - first[1])[0]) <= 0.3 * plan.promise(dens[0, :, :12])


# --- refusals -------------------------------------------------------------------------------------
def call(**more):
    trg, src, *_ = given("stokes_sl")
    return parki.Plan("stokes_sl", trg, src, options(), **more)


def derived(**more):
    trg, src, dens, _ = given("stokes_sl")
    return parki.vjp("stokes_sl", trg, src, dens, options(), values=trg, **more)


REFUSED = {
    "wall is 'slip'; expected one of no-slip, metal, the image factor": lambda: options(
        wall="slip"
    ),
    "expected one of no-slip, metal, the image factor": lambda: options(wall=("no-slip",) * 3),
    "with an upper wall alone": lambda: options(wall=(None, "no-slip")),
    "two walls need two periodic axes": lambda: parki.EwaldOptions(1, BOX, wall=WALLS),
    "but periodicity is 3": lambda: parki.EwaldOptions(3, BOX, wall=WALLS),
    "but box has no third length, which is the distance": lambda: options((1, 1, None)),
    "mean_flow is 'flux'; expected one of no-gradient": lambda: options(mean_flow="flux"),
    "only two walls leave it open": lambda: options(wall="no-slip", mean_flow="no-flux"),
    "dl_mean is 'flux'": lambda: options(dl_mean="flux"),
    "trg reaches to 1.1.* above the upper wall at 0.8": lambda: parki.Plan(
        "stokes_sl", inside(5) * 0 + 1.1, inside(5), options()
    ),
    "src reaches to -1 .* below the wall at 0": lambda: parki.Plan(
        "stokes_sl", inside(5), inside(5) * 0 - 1, options()
    ),
    "between two walls parki sums stokes_sl": lambda: parki.Plan(
        "laplace", inside(5), inside(5), options()
    ),
    "systems was given, .* a plan has one system": lambda: call(systems=([0, 12], [0, 20])),
    "boxes was given, but wall is": lambda: call(boxes=[BOX]),
    "'box' was given, .* there are first derivatives": lambda: derived(wrt=("box",)),
    r"wall is \('no-slip', 'no-slip'\), but rigid spheres have no": lambda: parki.RigidSpheres(
        inside(5, margin=0.1), 0.1, options()
    ),
    r"wall is \('no-slip', 'no-slip'\), but near pairs of images": lambda: parki.LayerPlan(
        "stokes_sl", parki.Surface.ellipsoids([[0.5]] * 3, [0.1] * 3, order=3), options=options()
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    with pytest.raises(VALUE, match=words):
        REFUSED[words]()


def test_modes_of_the_reference():
    trg = np.array([[0.1], [0.2], [1e-4]])
    with pytest.raises(ValueError, match="from a wall, on the mean; expected at least"):
        between_walls(trg, trg, trg, box=BOX)


def test_a_grid_is_cleared_for_each_sum(monkeypatch):
    """Also for the first one, which a recording makes again and again."""
    monkeypatch.setattr(slit, "FEW", 0)
    trg, src, dens, _ = given("stokes_sl")
    plan = parki.Plan("stokes_sl", trg, src, options())
    first = plan(dens)
    placed = parki.Plan("stokes_sl", trg, src, options())
    placed._combination.all_terms[-1]._here._src.spread.memory[:] = 1.0
    np.testing.assert_array_equal(placed(dens), first)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_recordings_have_transforms_of_their_own(dtype):
    """CuPy keeps few plans of transforms, and other arrays take the memory of those it drops."""
    cupy = pytest.importorskip("cupy")
    arrays = given("stokes_sl", 200)[:3]
    trg, src, dens = (cupy.asarray(array.astype(dtype)) for array in arrays)
    plan = parki.Plan("stokes_sl", trg, src, options(tolerance=1e-4))
    first = plan(dens).get()
    found = [plan(dens).get() for _ in range(3)]
    cupy.fft.config.get_plan_cache().clear()
    filled = [cupy.full(2**n, cupy.nan, dtype=dtype) for n in range(8, 22) for _ in range(4)]
    found += [plan(dens).get() for _ in range(3)]
    del filled
    allowed = (1e-4 if dtype == "f4" else 1e-10) * abs(first).max()
    for each in found:
        np.testing.assert_allclose(each, first, atol=allowed)
