"""Tilted boxes, and boxes that deform: what laws do not have.

A box whose second vector leans by half a period is half of a box along the axes with two copies of
the points. So sums and derivatives are compared with those of boxes along the axes.
"""

from __future__ import annotations

import numpy as np
import pytest
from contract import assert_promised, rms

import parki
from parki.ewald.options import EwaldOptions
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

LENGTHS = np.array([1.0, 0.9, 1.1])
KERNELS = *SUMS, *(f"stokes_{name}(epsilon=0.1)" for name in ("sl", "dl", "comb", "dipole"))
SOURCES, TARGETS = 40, 12


def cloud(box, kernel="stokes_sl", seed=0, count=SOURCES):
    """Return targets, sources, density and normals (or None) in a box."""
    rng, kind = np.random.default_rng(seed), SUMS[kernel]
    trg, src = ((rng.random((n, 3)) @ box).T.copy() for n in (TARGETS, count))
    dens = rng.standard_normal(kind.density_shape(count))
    return trg, src, dens, rng.standard_normal((3, count)) if kind.normals else None


def doubled(src, dens, norms, shift):
    """Return the same sources twice, the second ones shifted."""
    twice = None if norms is None else np.hstack([norms, norms])
    return np.hstack([src, src + shift[:, None]]), np.concatenate([dens, dens], axis=-1), twice


def half_tilt(axis, periodicity=3):
    """Return a box whose vector leans by half of the first one, and the box of two of them."""
    box, whole = np.diag(LENGTHS), LENGTHS.copy()
    box[axis, 0], whole[axis] = 0.5, 2 * LENGTHS[axis]
    return box, whole


# The kernels for devices are slow to compile: a few sums have all of their branches.
@pytest.mark.parametrize(
    ("periodicity", "method", "kernels"),
    [
        (3, "auto", ("stokes_comb", "stokes_sl(epsilon=0.1)")),
        (2, "auto", ("laplace", "stokes_dipole")),
        (3, "tile", ("stokes_comb",)),
        pytest.param(3, "tile", ("laplace_dipole", "stokes_dipole"), marks=pytest.mark.slow),
        pytest.param(3, "auto", KERNELS, marks=pytest.mark.slow),
        pytest.param(2, "auto", KERNELS, marks=pytest.mark.slow),
    ],
)
def test_half_a_period(periodicity, method, kernels):
    """All sums with all results, by the kernels for CPUs and by the kernels for devices."""
    axis = periodicity - 1
    box, whole = half_tilt(axis)
    for kernel in kernels:
        trg, src, dens, norms = cloud(box, kernel)
        want = tuple(n for n in ("u", "p", "grad_u") if SUMS[kernel].terms.get(n))
        want += ("stress",) * ("p" in want)
        given = [*box[:2], None] if periodicity == 2 else box
        how = {"periodicity": periodicity, "want": want, "dl_mean": "zero"}
        methods = dict.fromkeys(("p2p_method", "p2g_method", "g2p_method"), method)
        asked = {**how, "box": given, "tolerance": 1e-6, "expert": parki.Expert(**methods)}
        plan = parki.Plan(kernel, trg, src, norms, **asked)
        src, twice, norms = doubled(src, dens, norms, box[axis])
        exact = parki.Plan(kernel, trg, src, norms, box=whole, tolerance=1e-9, **how)(twice)
        assert_promised(plan, dens, exact)


def test_mixed_precision_on_devices():
    """Rounding is that of boxes along the axes: a few units of the rms."""
    box, whole = half_tilt(1)
    trg, src, dens, _ = cloud(box)
    twice, both, _ = doubled(src, dens, None, box[1])
    exact = parki.stokes_sl(trg, twice, both, periodicity=3, box=whole, tolerance=1e-10)
    how = {"periodicity": 3, "box": box, "tolerance": 1e-5, "precision": "mixed"}
    plan = parki.Plan("stokes_sl", trg, src, expert=parki.Expert(p2p_method="tile"), **how)
    assert_promised(plan, dens, exact, 1e-6)


CLUSTERED = {
    "leaning": parki.lattice(1, 1.1, 0.9, 0.45, -0.3, 0.4),
    "leaning by periods": parki.lattice(1, 1, 1, 5.3, 2.2, -3.1),
    "turned": np.array([[0, 0.7, 0.7], [0.7, 0, 0.7], [0.7, 0.7, 0]]),
    "flat": parki.lattice(1, 1, 0.1, 0.4, 0.03, 0.02),
    "long": parki.lattice(6, 1, 1, 0.4, -2.1, 0.3),
}


@pytest.mark.each
@pytest.mark.parametrize("size", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize(
    "kernel",
    ["laplace", *(pytest.param(k, marks=pytest.mark.slow) for k in ("stokes_sl", "stokes_dl"))],
)
@pytest.mark.parametrize("name", CLUSTERED)
def test_clusters_in_single_precision(name, kernel, size):
    """Positions were turned and wrapped in single precision, which lost up to 1e-2 of the flow."""
    rng, box, kind = np.random.default_rng(1), CLUSTERED[name], SUMS[kernel]
    points = (box.T @ rng.random((3, 1)) + size * rng.random((3, 40))).astype("f4")
    dens = rng.standard_normal(kind.density_shape(40)).astype("f4")
    norms = rng.standard_normal((3, 40)).astype("f4") if kind.normals else None
    exact = direct_sum(kernel, points, points, dens, norms, box=box, periodicity=3)
    found = parki.Plan(kernel, points, points, norms, EwaldOptions(3, box, 1e-4))(dens)
    assert found.dtype == np.float32
    assert rms(found - exact) < 2e-6 * rms(exact)


def test_reference_does_not_depend_on_its_split():
    flat = [[3, 0, 0], [1.5, 0.6, 0], None]
    for box, periodicity in ((parki.lattice(*LENGTHS, 0.4, -0.3, 0.35), 3), (flat, 2)):
        trg, src, dens, _ = cloud(np.array([box[0], box[1], [0, 0, 1]]))
        one, other = (
            parki.reference.direct_sum("stokes_sl", trg, src, dens, box=box, xi=xi, periodicity=p)
            for xi, p in ((None, periodicity), (4.0, periodicity))
        )
        np.testing.assert_allclose(one, other, atol=1e-12 * abs(one).max())


def test_turned_cells_give_turned_results():
    """Points, vectors and tensors; also where the free axis is not the last one."""
    box, want = parki.lattice(*LENGTHS, 0.4, -0.3, 0.35), ("u", "p", "grad_u", "stress")
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    turn *= np.linalg.det(turn)
    trg, src, dens, norms = cloud(box, "stokes_comb")
    how = {"periodicity": 3, "tolerance": 1e-6, "want": want, "dl_mean": "zero"}
    u, p, _, stress = parki.stokes_comb(trg, src, dens, norms, box=box, **how)
    dens = np.concatenate([turn @ dens[:3], turn @ dens[3:]])
    trg, src, norms = (turn @ each for each in (trg, src, norms))
    plan = parki.Plan("stokes_comb", trg, src, norms, box=box @ turn.T, **how)
    other, same, _, turned = plan(dens)
    np.testing.assert_allclose(other, turn @ u, atol=1e-9 * abs(u).max())
    np.testing.assert_allclose(same, p, atol=1e-9 * abs(p).max())
    stress = np.einsum("ij,jkn,lk->iln", turn, stress, turn)
    np.testing.assert_allclose(turned, stress, atol=1e-9 * abs(stress).max())
    assert plan.check(dens)[0].error < plan.promise(dens)[0]

    axes = [2, 0, 1]  # z, x, y of the plane are x, y, z of the other
    flat = parki.lattice(*LENGTHS, 0.3)
    trg, src, dens, _ = cloud(flat)
    u = parki.stokes_sl(trg, src, dens, periodicity=2, box=flat)
    rows = [flat[axis][axes] for axis in axes]
    trg, src, dens = trg[axes], src[axes], dens[axes]
    other = parki.stokes_sl(trg, src, dens, periodicity=(False, True, True), box=rows)
    np.testing.assert_allclose(other, u[axes], atol=1e-9 * abs(u).max())


def test_near_pairs():
    box, whole = half_tilt(2)
    _, src, force, _ = cloud(box)
    twice, _, _ = doubled(src, force, None, box[2])
    one, two = (
        np.sort(parki.near_pairs(src, points, 0.6, box=cell, periodicity=3).distances)
        for points, cell in ((src, box), (twice, whole))
    )
    np.testing.assert_allclose(one, two, atol=1e-12)


def test_walls():
    (box, whole), kernel = half_tilt(1), "stokes_dipole"
    _, src, dens, _ = cloud(box, kernel)
    twice, both, _ = doubled(src, dens, None, box[1])
    near, exact = (
        parki.Plan(kernel, src, points, box=cell, periodicity=2, wall="no-slip")
        for points, cell in ((src, box), (twice, whole))
    )
    assert rms(near(dens) - exact(both)) < near.promise(dens)


def test_boxes_that_deform(space, to_space, to_host):
    """The grid and the transforms stay, also of the adjoint, and where launches are recorded."""
    plan, seen = None, []
    for tilt in (0.0, 0.1, 0.3, 0.5, 0.8, 1.0):
        box = parki.lattice(*LENGTHS, tilt)
        trg, src, dens = map(to_space, cloud(box, "laplace")[:3])
        if plan is None:
            plan = parki.Plan("laplace", trg, src, periodicity=3, box=box, tolerance=1e-5)
        else:
            plan.update_points(trg, src, box=box)
        exact = parki.laplace(trg, src, dens, periodicity=3, box=box, tolerance=1e-8)
        for found in (plan(dens), plan(dens)):
            assert rms(to_host(found - exact)) < plan.promise(dens), tilt
        back = float((plan.adjoint(found) * dens).sum())
        assert back == pytest.approx(float((found**2).sum()))
        seen.append((plan.pipeline.stages.fgc.hat, plan.pipeline.stages.p2g.memory))
    if not hasattr(trg, "get"):  # devices keep theirs in graphs
        assert len({id(hat) for hat, _ in seen[1:]}) == 1
        assert len({id(memory) for _, memory in seen[1:]}) == 1
    np.testing.assert_array_equal(plan.box, box)
    plan.update_points(2 * trg, 2 * src, box=2 * box)  # in the solver's unit the same box
    half, one = to_host(plan(dens)), to_host(found) / 2
    np.testing.assert_allclose(half, one, atol=1e-12 * abs(one).max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box": np.diag([1.0, 1, 1])[[1, 0, 2]]}, "left-handed or nearly in a plane"),
        ({"box": parki.lattice(1, 1, 1, 0.5), "periodicity": 1}, "but 2 axes are free"),
        ({"box": parki.lattice(1, 1, 1, 0, 0.5), "periodicity": 2}, "not normal to the free axis"),
        ({"box": [[1, 0, 0], None, [0.5, 0, 1]]}, "has None for the vector of axis 1"),
        ({"box": np.eye(3)[:2]}, "or 3 lattice vectors of 3 finite numbers"),
        ({"box": np.zeros((3, 3))}, "or 3 lattice vectors of 3 finite numbers each, not all 0"),
        ({"box": parki.lattice(1, 1, 0, 0.5)}, "not all 0"),
        ({"box": np.ones((3, 3))}, "left-handed or nearly in a plane"),
        ({"box": parki.lattice(1, 1e-5, 1, 0.5)}, "the distances of its faces differ"),
        (
            {"box": parki.lattice(1, 1, 1, 0.5), "expert": parki.Expert(p2p_method="gm1d")},
            "takes boxes along the axes",
        ),
    ],
)
def test_refused(options, message):
    with pytest.raises(parki.ParkiValueError, match=message):
        parki.EwaldOptions(**({"periodicity": 3} | options))


@pytest.mark.parametrize("periodicity", range(4))
def test_vectors_are_straight_up_to_rounding(periodicity):
    """Formulas of angles leave what the cosine of a right angle is."""
    leans = 1 - np.eye(3)
    for off, edge in ((1e-17, 1), (-6e-16, 1), (6e-16, 30)):
        options = parki.EwaldOptions(periodicity, edge * np.eye(3) + off * leans)
        assert options.cell is None and options.box == (edge,) * 3
    single = np.eye(3, dtype=np.float32) - np.float32(4.4e-8) * leans.astype(np.float32)
    assert parki.EwaldOptions(periodicity, single).cell is None
    if periodicity == 3:
        assert parki.EwaldOptions(3, np.eye(3) + 1e-13 * leans).cell is not None


@pytest.mark.parametrize("tilts", [(5e4, 0, 0), (-2e5, 0, 0), (3.0, 5e4, -7e4)])
def test_tilts_have_any_size(tilts):
    """Whole periods change nothing."""
    options = parki.EwaldOptions(3, parki.lattice(1, 1, 1, *tilts), 1e-6)
    assert options.cell.lattice.tilts == (0, 0, 0)
    assert options.cell.lattice.slenderness == 1
    trg, src, dens, _ = cloud(np.eye(3), "laplace")
    found, exact = (
        parki.laplace(trg, src, dens, periodicity=3, box=box, tolerance=1e-6)
        for box in (options.box, [1, 1, 1])
    )
    assert rms(found - exact) < 1e-6 * np.sqrt((dens**2).sum())


@pytest.mark.parametrize(
    ("periodicity", "box", "other"),
    [
        (0, (1, 1, None), (1, 1.2, None)),
        (1, (1, None, None), (1.3, None, None)),
        (2, (1, 1, None), (1.2, 1, None)),
        (1, (1, 1, 1), (0.8, 1, 1.1)),
    ],
)
def test_lengths_may_change(periodicity, box, other):
    """Also where free axes have none, and to the same ones."""
    trg, src, dens, _ = cloud(0.7 * np.eye(3), "laplace")
    src[:, :2] = np.array([[0.0, 0.7]] * 3)  # the same extent for both plans
    plan = parki.Plan("laplace", trg, src, parki.EwaldOptions(periodicity, box, 1e-6))
    for changed in (box, other):
        plan.update_points(trg, src, box=changed)
        new = parki.Plan("laplace", trg, src, parki.EwaldOptions(periodicity, changed, 1e-6))
        found = plan(dens)
        assert rms(found - new(dens)) < 2 * new.promise(dens)
        assert plan.promise(dens) == pytest.approx(new.promise(dens))
    with pytest.raises(parki.ParkiValueError, match="positive, finite edge lengths"):
        plan.update_points(trg, src, box=(1, -1, 1))
    if None not in box:
        with pytest.raises(parki.ParkiValueError, match="2 or 3 periodic axes"):
            plan.update_points(trg, src, box=parki.lattice(1, 1, 1, 0.5))
    np.testing.assert_array_equal(plan(dens), found)
