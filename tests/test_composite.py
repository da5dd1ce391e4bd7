"""Composites: sums of sums, whose maps carry sources, densities and results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from composites import (
    BOX,
    COMB,
    FORCES,
    HARMONIC,
    LIFTED,
    MIDDLE,
    NORMS,
    SLIP,
    SRC,
    STRESS,
    TOLERANCE,
    TRG,
    first_two,
    images,
    mirrored,
)
from contract import rms

import parki
from parki.ewald.derivatives import one_sum
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import velocity
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import factors, transposed, weights
from parki.ewald.sums.stress import WEIGHTS, stress
from parki.reference import direct_sum


def options(periodicity=3, tolerance=TOLERANCE):
    return parki.EwaldOptions(periodicity, BOX, tolerance)


def make(composite, periodicity=3):
    norms = NORMS if composite is COMB else None
    return parki.Plan(composite, TRG, SRC, norms, options(periodicity))


def density(composite):
    return np.random.default_rng(8).standard_normal((*composite.density, SRC.shape[1]))


def mismatch(plan, dens):
    """Return how far adjoint and composite are apart, over the product of the norms."""
    found = plan(dens)
    values = np.random.default_rng(9).standard_normal(found.shape)
    there, back = np.vdot(values, found), np.vdot(plan.adjoint(values), dens)
    return abs(there - back) / (np.linalg.norm(values) * np.linalg.norm(found))


# --- against other sums ---------------------------------------------------------------------------


def test_a_symmetry_plane_is_a_sum_of_twice_the_sources():
    plan = make(SLIP)
    assert [each.sum.counts[1] for each in plan.terms] == [2 * SRC.shape[1]]
    both = np.concatenate([SRC, images(SRC, {})], axis=1)
    forces = np.concatenate([FORCES, mirrored(FORCES, {})], axis=1)
    exact = direct_sum("stokes_sl", TRG, both, forces, box=BOX, periodicity=3)
    promise = plan.promise(FORCES)
    of_both = parki.Plan("stokes_sl", TRG, both, options()).promise(forces)
    assert promise == pytest.approx(of_both)
    assert 0 < rms(plan(FORCES) - exact) <= promise
    assert mismatch(plan, FORCES) <= 1e-14
    wall = TRG.copy()
    wall[2] = MIDDLE
    plan.update_points(wall, SRC)
    found = plan(FORCES)
    assert rms(found[2:]) <= promise < 1e-3 * rms(found)


def test_stokeslets_of_harmonic_functions():
    """Maps that take the points, at the sources and at the targets; four densities of one sum."""
    plan = make(HARMONIC, 0)
    assert [each.kernel for each in plan.terms] == ["laplace"]
    assert len(plan.terms[0].densities(FORCES[None])) == 4
    exact = direct_sum("stokes_sl", TRG, SRC, FORCES, box=BOX, periodicity=0)
    promise = plan.promise(FORCES)
    assert 0 < rms(plan(FORCES) - exact) <= promise
    charges = parki.Plan("laplace", TRG, SRC, options(0), want=("u", "grad_u"))
    each = [charges.promise(row) for row in (*FORCES, (FORCES * SRC).sum(axis=0))]
    bounds = [u + slope * TRG[n].max() for n, (u, slope) in enumerate(each[:3])]
    assert promise == pytest.approx(sum(bounds) + each[3][1])
    assert mismatch(plan, FORCES) <= 1e-13
    other = parki.Plan("stokes_sl", TRG, SRC, options(0))
    values = np.random.default_rng(2).standard_normal((3, TRG.shape[1]))
    error = rms(plan.adjoint(values) - other.adjoint(values))
    assert error <= plan.promise(FORCES) / rms(FORCES) * rms(values)


def test_a_stress_is_a_composite():
    plan, dens = make(STRESS), FORCES
    other = parki.Plan("stokes_sl", TRG, SRC, options(), want="stress")
    assert np.array_equal(plan(dens), other(dens))
    assert plan.promise(dens) == pytest.approx(other.promise(dens), rel=1e-12)
    values = np.random.default_rng(2).standard_normal((3, 3, TRG.shape[1]))
    assert np.allclose(plan.adjoint(values), other.adjoint(values), rtol=1e-12, atol=1e-12)


# --- what plans do --------------------------------------------------------------------------------


@pytest.mark.parametrize("composite", [SLIP, LIFTED], ids=lambda each: each.name)
def test_gradients(composite):
    """Of maps of velocities, too, which may take the targets; one result by itself and several."""
    dens, step = density(composite), 1e-4
    plan = parki.Plan(composite, TRG, SRC, None, options(), want=("u", "grad_u"))
    flow, gradient = plan(dens)
    usual = make(composite)(dens)
    np.testing.assert_allclose(flow, usual, rtol=0, atol=1e-4 * abs(usual).max())
    alone = parki.Plan(composite, TRG, SRC, None, options(), want="grad_u")
    np.testing.assert_allclose(alone(dens), gradient, rtol=0, atol=1e-4 * abs(gradient).max())
    fine = replace(options(), tolerance=1e-10)
    for axis, move in enumerate(step * np.eye(3)):
        ends = [
            parki.Plan(composite, TRG + sign * move[:, None], SRC, None, fine)(dens)
            for sign in (1, -1)
        ]
        change = (ends[0] - ends[1]) / (2 * step)
        assert rms(gradient[:, axis] - change) <= 1e-4 * rms(change)
    for name, check in zip(plan.want, plan.check(dens), strict=True):
        assert check.error <= check.promise, name
    values = np.random.default_rng(2).standard_normal(gradient.shape)
    back = alone.adjoint(values)
    assert (values * alone(dens)).sum() == pytest.approx((back * dens).sum(), rel=1e-3)


def test_results_of_sums_alone():
    """Pressures and stresses are those of addends whose results are velocities."""
    dens = density(COMB)
    want = ("stress", "p", "grad_u")
    made = parki.Plan(COMB, TRG, SRC, NORMS, options(), want=want)
    found = dict(zip(want, made(dens), strict=True))
    layers = [("stokes_sl", dens[:3], None), ("stokes_dl", dens[3:], NORMS)]
    for name, values in found.items():
        parts = [parki.Plan(k, TRG, SRC, n, options(), want=name)(f) for k, f, n in layers]
        assert rms(values - sum(parts)) <= 1e-4 * rms(values), name
    for composite, name in ((LIFTED, "p"), (HARMONIC, "grad_u"), (STRESS, "stress")):
        with pytest.raises(
            parki.ParkiValueError, match=f"want has '{name}', but {composite.name} "
        ):
            parki.Plan(composite, TRG, SRC, None, options(), want=name)


def test_views():
    plan, one = make(COMB), parki.Plan("stokes_sl", TRG, SRC, options())
    text = plan.describe()
    assert text.startswith("comb: 2 addends, 2 sums\nstokes_sl, 3-periodic")
    assert "\nstokes_dl, 3-periodic" in text
    memory = plan.memory
    assert memory.parts["stokes_sl grid"] == one.memory.parts["grid"]
    own = [each.memory for each in plan.terms]
    before = sum(own[0].parts.values())
    assert memory.peak == pytest.approx(max(own[0].peak, before + own[1].peak))
    assert sum(memory.parts.values()) == pytest.approx(before + sum(own[1].parts.values()))


@pytest.mark.parametrize(
    ("maps", "words"),
    [
        ({"results": lambda found, at: found["u"] * np.nan}, "a result of stokes_sl of NaN"),
        ({"results": lambda found, at: None}, "a result of stokes_sl of type NoneType"),
        ({"results": lambda found, at: found["u"][:, 1:]}, r"a result of .* of shape \(3, 49\)"),
        ({"density": lambda dens, at: dens / 0 * at["points"]}, "a density for stokes_sl of NaN"),
        ({"density": lambda dens, at: None}, "a density for stokes_sl of type NoneType"),
        ({"density": first_two}, r"a density for stokes_sl of shape \(2, 40\); expected"),
        ({"sources": lambda points, at: None}, "sources for stokes_sl of type NoneType"),
        ({"sources": lambda points, at: points / 0}, "sources for stokes_sl of NaN or infinity"),
        ({"kernel": "stokes_dl", "normals": lambda norms, at: norms[:2]}, "normals for stokes_dl"),
        ({"want": ("v",)}, "want has 'v'"),
    ],
)
def test_maps_are_looked_at(maps, words):
    """Before any sum, when points are placed or moved; by derivatives, too."""
    given = {"kernel": "stokes_sl", "want": ("u",), "results": velocity} | maps
    wrong = Composite("wrong", (3,), (3,), (Addend(**given),))
    norms = NORMS if "normals" in maps else None
    how = {"values": np.ones((3, 50)), "wrt": ("dens",), "options": options()}
    with pytest.raises(parki.ParkiValueError, match=words):
        parki.Plan(wrong, TRG, SRC, norms, options())
    with pytest.raises(parki.ParkiValueError, match=words):
        parki.vjp(wrong, TRG, SRC, FORCES, norms, **how)


@pytest.mark.parametrize("parts", [((), (3,), (3,)), (..., 3, (3,)), (..., (3,), [3])])
def test_composites_that_are_none(parts):
    """Without addends, or with shapes that are no tuples."""
    addends, density, result = parts
    one = (Addend("stokes_sl", ("u",), velocity),)
    wrong = Composite("wrong", density, result, one if addends is ... else addends)
    with pytest.raises(parki.ParkiValueError, match=r"composite wrong has density=.* one Addend"):
        parki.Plan(wrong, TRG, SRC, options=options())
    with pytest.raises(parki.ParkiValueError, match=r"composite wrong has density=.* one Addend"):
        parki.vjp(wrong, TRG, SRC, FORCES, values=np.ones((3, 50)), options=options())


def test_a_map_that_fails_where_points_moved():
    """The plan keeps its points."""

    def over_height(dens, at):
        with np.errstate(divide="ignore"):
            return dens / at["points"][2]

    one = Composite("over", (3,), (3,), (Addend("stokes_sl", ("u",), velocity, over_height),))
    plan = make(one)
    before, moved = plan(FORCES), SRC.copy()
    moved[2, 3] = 0
    with pytest.raises(parki.ParkiValueError, match=r"the map .*over_height of its addend"):
        plan.update_points(TRG, moved)
    assert np.array_equal(plan(FORCES), before)


# --- what addends share ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "periodicity", "calls"),
    [
        ("laplace", 0, {"wrt": [1, 1], "tangents": [1, 1]}),
        ("stokes_comb", 1, {"wrt": [1, 1], "tangents": [1, 4]}),
        ("stokes_rotlet", 3, {"wrt": [1, 1], "tangents": [4]}),
        ("laplace_dipole", 2, {"wrt": [1, 3, 1], "tangents": [1, 1]}),
    ],
)
def test_derivatives_share_sums(kernel, periodicity, calls, monkeypatch):
    """All derivatives by the sources take one sum; gradients of all axes take one, too."""
    densities, original = [], one_sum.sum_once

    def spy(kernel, trg, src, dens, *others, **more):
        densities.append(len(dens))
        return original(kernel, trg, src, dens, *others, **more)

    monkeypatch.setattr(one_sum, "sum_once", spy)
    kind = SUMS[kernel]
    dens = np.random.default_rng(4).standard_normal(kind.density_shape(40))
    moves = {"trg": TRG, "src": SRC} | ({"norms": NORMS} if kind.normals else {})
    how = {"norms": None, **moves, "dens": dens, "options": options(periodicity, 1e-8)}
    values = np.random.default_rng(5).standard_normal((3, 50)[kind.results == 1 :])
    parki.vjp(kernel, values=values, wrt=("dens", *moves), **how)
    assert sorted(densities) == sorted(calls["wrt"])
    densities.clear()
    parki.jvp(kernel, tangents=moves, **how)
    assert sorted(densities) == calls["tangents"]


# --- maps -----------------------------------------------------------------------------------------


def test_a_transposed_map():
    """Of several results, with weights that differ from point to point and without."""
    rng = np.random.default_rng(1)
    own = {"u": rng.standard_normal((4, 3, 7)), "p": rng.standard_normal((4, 1, 7))}

    def results(found, at):
        return sum(np.einsum("ijn,jn->in", own[name], rows) for name, rows in found.items())

    at, sizes = {"points": rng.random((3, 7))}, {"u": 3, "p": 1}
    values = rng.standard_normal((2, 4, 7))
    for name, rows in transposed(weights(results, sizes, at), values).items():
        assert np.allclose(rows, np.einsum("ijn,kin->kjn", own[name], values))
    found = {name: rng.standard_normal((rows, 7)) for name, rows in {"p": 1, "grad_u": 9}.items()}
    values = rng.standard_normal((9, 7))
    back = transposed(WEIGHTS["stress"], values)
    there = (stress(found, {}) * values).sum()
    assert there == pytest.approx(sum((back[name] * rows).sum() for name, rows in found.items()))


def test_how_much_maps_enlarge_errors():
    rng = np.random.default_rng(1)
    own = rng.standard_normal((4, 3, 20))
    at = {"points": rng.random((3, 20))}
    made = weights(lambda found, _: np.einsum("ijn,jn->in", own, found["u"]), {"u": 3}, at)
    norm = max(np.linalg.norm(own[..., n], 2) for n in range(20))
    assert norm <= factors(made)["u"] <= 3 * norm
    assert factors(WEIGHTS["stress"]) == pytest.approx({"p": 3**0.5, "grad_u": 2})
