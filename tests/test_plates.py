"""Charges near metal and dielectrics, against sums over modes, images and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from between_plates import BOX, METAL, VALUE, WALLS, options
from contract import rms
from recording import let_the_host_record

import parki
from parki.ewald.far import slit
from parki.reference import direct_sum, near_plates

TILTED = ((1.0, 0, 0), (0.35, 1.1, 0), (0, 0, 0.6))


def inside(count, box=BOX, margin=0.0, seed=0):
    """Return points between the walls, of a box of lengths or of vectors."""
    parts = np.random.default_rng(seed).random((count, 3))
    parts[:, 2] = margin + (1 - 2 * margin) * parts[:, 2]
    rows = np.diag(box) if np.ndim(box) == 1 else np.array(box)
    return (parts @ rows).T.copy()


def charges(wall, shape=(8,), seed=5):
    """Return charges, which add up to zero near dielectrics alone."""
    q = np.random.default_rng(seed).standard_normal(shape)
    return (
        q if "metal" in np.atleast_1d(np.array(wall, dtype=object)) else q - q.mean(-1)[..., None]
    )


def given(wall, box=BOX, margin=0.0):
    return inside(7, box, margin, seed=1), inside(8, box, margin), charges(wall)


# --- values ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("tolerance", [1e-6, pytest.param(1e-9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("box", [BOX, TILTED], ids=["straight", "tilted"])
@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_the_promise(wall, box, tolerance):
    """Potentials against a slow sum over modes, and their gradients by its differences."""
    trg, src, q = given(wall, box, 0.2)
    plan = parki.Plan("laplace", trg, src, options(wall, box, tolerance), want=("u", "grad_u"))
    phi, slopes = plan(q)
    exact = near_plates(trg, src, q, box=box, factors=WALLS[wall])
    assert rms(phi - exact) <= plan.promise(q)[0]
    assert [check.error <= check.promise for check in plan.check(q)] == [True, True]
    step = np.array([[0], [0], [1e-4]])
    up, down = (near_plates(trg + s, src, q, box=box, factors=WALLS[wall]) for s in (step, -step))
    assert slopes[2] == pytest.approx((up - down) / 2e-4, abs=2e-5 * rms(slopes))


def test_metal_in_free_space():
    """A charge q at h over a plane: force -q^2 / (4 h^2), potential 0 at the plane."""
    how = {"wall": "metal", "periodicity": 0, "tolerance": 1e-9}
    at, plane = np.array([[0.3], [0.2], [0.5]]), inside(5) * [[1], [1], [0]]
    own, force = parki.laplace(at, at, np.array([2.0]), want=("u", "grad_u"), **how)
    assert own == pytest.approx([-2 / 1.0], rel=1e-8)
    assert -2 * force[2] == pytest.approx([-(2.0**2) / (4 * 0.5**2)], rel=1e-8)
    assert parki.laplace(plane, at, np.array([2.0]), **how) == pytest.approx(np.zeros(5), abs=1e-8)
    # A net charge near a dielectric has a field that falls off, without periodic axes.
    own = parki.laplace(at, at, np.array([2.0]), **how | {"wall": 0.5})
    assert own == pytest.approx([0.5 * 2 / 1.0], rel=1e-8)


def test_plates_are_at_their_potentials():
    """Both at 0, or the upper one at the voltage; the flux there is the charge that it has."""
    _, src, q = given(METAL)
    side = (np.arange(16) + 0.5) / 16
    x, y = (each.ravel() for each in np.meshgrid(side, 1.2 * side))
    low, high = (np.stack([x, y, np.full(256, z)]) for z in (0, 0.7))
    src = 0.2 * np.array([[0], [0], [0.7]]) + 0.6 * src
    plan = parki.Plan(
        "laplace", np.concatenate([low, high], 1), src, options(voltage=0.3), want=("u", "grad_u")
    )
    phi, slopes = plan(q)
    assert rms(phi[:256]) <= plan.promise(q)[0] >= rms(phi[256:] - 0.3)
    assert all(check.error <= check.promise for check in plan.check(q))
    area = 1.2
    upper = area / (4 * np.pi) * slopes[2, 256:].mean()
    assert upper == pytest.approx(-(q @ src[2]) / 0.7 + area * 0.3 / (4 * np.pi * 0.7), abs=1e-5)
    lower = -area / (4 * np.pi) * slopes[2, :256].mean()
    assert lower + upper == pytest.approx(-q.sum(), abs=1e-5)


def test_one_plate_as_the_other_moves_away():
    """A potential that is linear in z is left, 4 pi / (A H) z sum q h."""
    trg, src, q = given("metal", (1, 1.2, 0.6))
    one = parki.laplace(trg, src, q, options("metal", (1, 1.2, 0.6), 1e-9))
    two = parki.laplace(trg, src, q, options(METAL, (1, 1.2, 4), 1e-9))
    two += 4 * np.pi / (1.2 * 4) * trg[2] * (q @ src[2])
    assert rms(two - one) <= 1e-7


def test_one_dielectric_as_the_other_moves_away():
    """Potentials differ by a constant, as the gauge of two dielectrics is another one."""
    trg, src, q = given(0.6, (1, 1.2, 0.6))
    one = parki.laplace(trg, src, q, options(0.6, (1, 1.2, 0.6), 1e-9))
    two = parki.laplace(trg, src, q, options((0.6, 0.9), (1, 1.2, 4), 1e-9))
    assert np.ptp(two - one) <= 1e-7
    assert two - one == pytest.approx(2 * np.pi / 1.2 * 0.6 * (q @ src[2]), abs=1e-7)


@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_dipoles_are_pairs_of_charges(wall):
    trg, src, _ = given(wall, margin=0.1)
    dipoles = np.random.default_rng(6).standard_normal((3, 8))
    step = 1e-4
    moved = np.concatenate([src + step / 2 * dipoles, src - step / 2 * dipoles], 1)
    phi = parki.laplace(trg, moved, np.repeat([1, -1], 8) / step, options(wall, tolerance=1e-11))
    plan = parki.Plan("laplace_dipole", trg, src, options(wall))
    assert rms(plan(dipoles) - phi) <= plan.promise(dipoles) + 1e-4 * rms(phi)
    assert plan.check(dipoles).error <= plan.promise(dipoles)


@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_soft_charges_and_pairs_left_out(wall):
    """Images are as wide as their charges; pairs left out keep their images."""
    _, src, q = given(wall)
    low, high = (src * [[1], [1], [-1]] + [[0], [0], [2 * z]] for z in (0, 0.7))
    values = [q, *(g * q for g in WALLS[wall])]
    images = np.concatenate([src, low, high][: len(values)], 1), np.concatenate(values)
    how = {"periodicity": 2, "box": [1, 1.2, None], "tolerance": 1e-9}
    change = parki.laplace(src, *images, epsilon=0.05, **how) - parki.laplace(src, *images, **how)
    soft = parki.Plan("laplace", src, src, options(wall), epsilon=0.05)
    hard = parki.laplace(src, src, q, options(wall))
    assert rms(soft(q) - hard - change) <= 2 * soft.promise(q)
    hard, left_out = (
        parki.laplace(src, src, q, options(wall), **more)
        for more in ({}, {"exclude": np.zeros(8, int), "exclude_image": "nearest"})
    )
    away = src[:, :, None] - src[:, None]
    edges = np.array([1.0, 1.2])[:, None, None]
    away[:2] -= edges * np.round(away[:2] / edges)
    r = np.sqrt((away**2).sum(axis=0)) + np.diag(np.full(8, np.inf))
    assert hard - left_out == pytest.approx((1 / r) @ q, abs=1e-4)


# --- plans ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_several_charges_in_points_that_move(wall, dtype):
    trg, src, _ = given(wall)
    q = charges(wall, (2, 8)).astype(dtype)
    trg, src = trg.astype(dtype), src.astype(dtype)
    src[2, 0], src[2, 1] = 0, np.array(0.7, dtype)  # at the walls
    plan = parki.Plan("laplace", trg, src, options(wall, tolerance=1e-5))
    exact = parki.laplace(trg.astype("f8"), src.astype("f8"), q.astype("f8"), options(wall))
    assert rms((plan(q) - exact)[0]) <= plan.promise(q[0])
    plan.update_points(src, trg)
    q = charges(wall, (7,)).astype(dtype)
    exact = parki.laplace(src.astype("f8"), trg.astype("f8"), q.astype("f8"), options(wall))
    assert rms(plan(q) - exact) <= plan.promise(q)


@pytest.mark.parametrize("wall", [METAL, "metal"], ids=str)
def test_systems_between_plates(wall):
    trg, src, q = given(wall)
    how = options(wall, **({"voltage": 0.3} if wall == METAL else {}))
    plan = parki.Plan("laplace", trg, src, how, systems=([0, 3, 7], [0, 5, 8]))
    alone = [
        parki.laplace(trg[:, a], src[:, b], q[b], how)
        for a, b in ((slice(3), slice(5)), (slice(3, 7), slice(5, 8)))
    ]
    bounds = np.repeat(plan.promise(q), (3, 4))
    assert np.abs(plan(q) - np.concatenate(alone)).max() <= bounds.max()
    assert plan.check(q).error <= plan.check(q).promise


@pytest.mark.parametrize("wall", [METAL, (0.6, -0.4)], ids=str)
def test_other_lattices(wall):
    """The periods may change in a plan, and the plates stay where they are."""
    trg, src, q = given(wall)
    how = {"voltage": 0.3} if wall == METAL else {}
    plan = parki.Plan("laplace", trg, src, options(wall, **how))
    plan(q)
    for other in (((1.0, 0, 0), (0.2, 1.2, 0), (0, 0, 0.7)), (1.1, 1.2, 0.7)):
        plan.update_points(trg, src, box=other)
        exact = parki.laplace(trg, src, q, options(wall, other, 1e-8, **how))
        assert rms(plan(q) - exact) <= plan.promise(q)
    with pytest.raises(VALUE, match=r"walls are 0\.9 apart, but those of the plan are 0\.7"):
        plan.update_points(trg, src, box=(1, 1.2, 0.9))


@pytest.mark.parametrize("dtype", ["f8", pytest.param("f4", marks=pytest.mark.slow)])
def test_many_modes_take_a_grid(monkeypatch, dtype):
    """It has the same potential, and a transpose up to rounding."""
    wall = (0.6, -0.4)
    trg, src, _ = given(wall)
    trg, src, q = trg.astype(dtype), src.astype(dtype), charges(wall, (2, 8)).astype(dtype)
    src[2, :2] = 0, np.array(0.7, dtype)
    how = options(wall, tolerance=1e-6 if dtype == "f8" else 1e-5)
    plain = parki.Plan("laplace", trg, src, how, want=("u", "grad_u"))(q)
    monkeypatch.setattr(slit, "FEW", 0)
    plan = parki.Plan("laplace", trg, src, how, want=("u", "grad_u"))
    found, promise = plan(q), plan.promise(q[0])
    for n in range(2):
        assert 0 < rms(found[n][0] - plain[n][0]) <= 0.2 * promise[n]
    values = [np.random.default_rng(9).standard_normal(each.shape).astype(dtype) for each in found]
    product = sum(np.vdot(a, b) for a, b in zip(values, found, strict=True))
    assert np.vdot(plan.adjoint(values), q) == pytest.approx(
        product, rel=1e-10 if dtype == "f8" else 1e-4
    )


@pytest.mark.parametrize("want", ["u", "grad_u"])
@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_transposes_and_derivatives(wall, want):
    """By densities and points, of a plan at a voltage, too."""
    trg, src, q = given(wall, margin=0.1)
    rng = np.random.default_rng(8)
    how = {"voltage": 0.3} if wall == METAL else {}
    given_options = options(wall, tolerance=1e-9, **how)
    plan = parki.Plan("laplace", trg, src, given_options, want=want)
    found, at_rest = plan(q), plan(0 * q)
    values = rng.standard_normal(found.shape)
    product = (values * (found - at_rest)).sum()
    assert (plan.adjoint(values) * q).sum() == pytest.approx(product, rel=1e-9)
    moves = {"trg": rng.standard_normal(trg.shape), "src": rng.standard_normal(src.shape)}
    moves["dens"] = charges(wall, seed=9)
    pulled = plan.vjp(q, values, wrt=("trg", "src", "dens"))
    step, pushed = 1e-5, plan.jvp(q, moves)
    whole = sum((pulled[name] * move).sum() for name, move in moves.items())
    assert (pushed * values).sum() == pytest.approx(whole, rel=1e-7)
    ends = [
        parki.laplace(
            trg + s * moves["trg"],
            src + s * moves["src"],
            q + s * moves["dens"],
            given_options,
            want=want,
        )
        for s in (step, -step)
    ]
    assert (values * (ends[0] - ends[1])).sum() / (2 * step) == pytest.approx(whole, rel=1e-4)


def test_what_a_plan_tells():
    trg, src, _ = given(METAL)
    plan = parki.Plan("laplace", trg, src, options())
    assert plan.describe().startswith("laplace between plates: 2 addends, 1 sums\nlaplace, 3-per")
    assert plan.box.tolist() == list(BOX) and plan.terms[0].sum.counts == (7, 16)
    assert parki.EwaldOptions(2, BOX, wall=("metal", None)).wall == "metal"
    how = {"box": (5, 5, 1), "periodicity": 2, "machine": "avx512"}
    for wall in (METAL, "metal", 0.5):
        found = parki.estimate("laplace", 1e5, wall=wall, **how)
        assert found.total > parki.estimate("laplace", 1e5, **how).total
        assert "correction" not in str(found)
    found = parki.estimate("laplace", 1e5, wall=(0.5, 0.5), **how)
    assert "correction: 592 modes" in str(found) and "correction" in found.memory.parts
    plan = parki.Plan("laplace", trg, src, options((0.5, "metal")))
    assert plan.describe().endswith("distance of 0.7: 60 modes of the correction")
    # A tenth of the tolerance counts as no net charge.
    soft = parki.Plan("laplace", trg, src, options(0.5))
    soft(charges(0.5) + 1e-9)


@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_a_device_records_all(monkeypatch, wall):
    """One graph has images, the correction, and points that move; a voltage comes after it."""
    let_the_host_record(monkeypatch)
    monkeypatch.setattr(slit, "FEW", 0)
    trg, src, q = given(wall)
    how = {"voltage": 0.3} if wall == METAL else {}
    plan = parki.Plan("laplace", trg, src, options(wall, **how))
    usual = plan(q)
    for _ in range(4):
        assert rms(plan(q) - usual) <= 1e-12 * rms(usual)
    plan.update_points(src, src)
    exact = parki.laplace(src, src, q, options(wall, tolerance=1e-8, **how))
    for _ in range(4):
        assert rms(plan(q) - exact) <= plan.promise(q)


# --- refusals -------------------------------------------------------------------------------------
def call(wall=METAL, kernel="laplace", **more):
    return parki.Plan(kernel, inside(5), inside(5), options(wall), **more)


def solve(**more):
    plan = parki.Plan("laplace", *[inside(5)] * 2, options(voltage=1.0), epsilon=0.1)
    return parki.equilibrate(plan, 0.0, total=0.0)


def energy(wall=METAL, q=None, **more):
    how = {"box": BOX, "periodicity": 2, "wall": wall, **more}
    return parki.energy(inside(6), charges(0.5, 6) if q is None else q, **how)


REFUSED = {
    "virial was given, but wall is .* near plates parki has": lambda: energy(virial=True),
    "kappa was given, but wall is": lambda: energy(kappa=1.0),
    "systems was given, but wall is .* near plates": lambda: energy(systems=[0, 3, 6]),
    "charges adds up to 6, but wall is 0.6": lambda: energy(0.6, np.ones(6)),
    "wall is 'no-slip', which is for flows; energies take": lambda: energy("no-slip"),
    "points reaches to 1.5 along axis 2, above the upper": lambda: parki.energy(
        inside(5) * 0 + 1.5, np.ones(5), options()
    ),
    "systems was given, but wall is 0.6; near a dielectric": lambda: call(
        0.6, systems=([0, 5], [0, 5])
    ),
    "wall is 'iron'; expected one of no-slip, metal, the image factor": lambda: options("iron"),
    "an image factor is .* between -1 and 1, or 'metal'": lambda: options((-1, "metal")),
    "expected a number between -1 and 1": lambda: options(float("nan")),
    "wall is True; expected one of": lambda: options(True),
    "with an upper wall alone; .* pass wall='metal'": lambda: options((None, "metal")),
    "one is for flows and one for charges": lambda: options(("no-slip", "metal")),
    "two walls need two periodic axes": lambda: options(periodicity=1),
    "but box has no third length, which is the distance": lambda: options(box=(1, 1, None)),
    "voltage is 1, but wall is 'metal'; a voltage is between": lambda: options("metal", voltage=1),
    "voltage is inf; expected the potential": lambda: options(voltage=float("inf")),
    "mean_flow is 'no-flux', but wall is": lambda: options(mean_flow="no-flux"),
    "which stokes_sl with want='u' does not have; near metal": lambda: call(kernel="stokes_sl"),
    "which yukawa.* does not have; near metal": lambda: call(kernel="yukawa", kappa=1.0),
    "laplace with want='p' does not have; near metal": lambda: call(want="p"),
    "near a wall parki sums stokes_sl": lambda: call("no-slip"),
    "dens adds up to 5, but wall is 0.6; the field of net": lambda: call(0.6)(np.ones(5)),
    "dens adds up to 5, .* have a wall of metal": lambda: call(0.6).vjp(
        np.ones(5), np.ones(5), wrt=("src",)
    ),
    "trg reaches to 1.1.* above the upper wall at 0.7": lambda: parki.Plan(
        "laplace", inside(5) * 0 + 1.1, inside(5), options()
    ),
    "src reaches to -1 .* below the wall at 0": lambda: parki.Plan(
        "laplace", inside(5), inside(5) * 0 - 1, options("metal")
    ),
    "systems was given, .* a plan has one system": lambda: call(
        ("metal", 0.5), systems=([0, 5], [0, 5])
    ),
    "boxes was given, but wall is": lambda: call(boxes=[BOX]),
    "'box' was given, .* there are first derivatives": lambda: call().vjp(
        np.ones(5), np.ones(5), wrt=("box",)
    ),
    "equilibrate needs a linear function of densities, but voltage is 1": solve,
    "as_linear_operator needs a linear function": lambda: parki.Plan(
        "laplace", inside(5), inside(5), options(voltage=1.0)
    ).as_linear_operator(),
    "wall is 'metal', which sphere_sl.* does not have; near metal": lambda: parki.Spheres(
        inside(5), radii=0.05, box=BOX, periodicity=2, wall="metal"
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    with pytest.raises(VALUE, match=words):
        REFUSED[words]()


def test_modes_of_the_reference():
    trg = np.array([[0.1], [0.2], [1e-4]])
    with pytest.raises(ValueError, match="from a wall, on the mean; expected at least"):
        near_plates(trg, trg, np.zeros(1), box=BOX, factors=(-1,))


def test_the_reference_has_the_images():
    """A hundred images in two dielectrics, of neutral charges, up to a constant."""
    trg, src, q = given(0.5, margin=0.2)
    series, first = np.zeros(7), [(src, q)]
    for _ in range(12):
        series += sum(direct_sum("laplace", trg, y, g, box=BOX, periodicity=2) for y, g in first)
        low = [(y * [[1], [1], [-1]], 0.5 * g) for y, g in first[:1]]
        high = [(y * [[1], [1], [-1]] + [[0], [0], [1.4]], 0.4 * g) for y, g in first[-1:]]
        first = (
            low + high
            if len(first) == 1
            else [
                (first[1][0] * [[1], [1], [-1]], 0.5 * first[1][1]),
                (first[0][0] * [[1], [1], [-1]] + [[0], [0], [1.4]], 0.4 * first[0][1]),
            ]
        )
    exact = near_plates(trg, src, q, box=BOX, factors=(0.5, 0.4))
    assert np.ptp(series - exact) <= 1e-5 * rms(exact)
