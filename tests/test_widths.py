"""Gaussian charges of several widths, whose pairs have widths of their own."""

from __future__ import annotations

import numpy as np
import pytest
from contract import assert_promised, rms
from scipy.special import erf

import parki
from parki.reference import direct_sum

N = 50
SHEARED = parki.lattice(1.0, 1.1, 0.9, xy=0.3, yz=-0.2)
SYSTEMS = {"systems": [0, 2, 4], "boxes": np.ones((2, 3))}
BOXES = {3: SHEARED, 2: [1.0, 1.1, None], 1: [1.0, None, None], 0: [None] * 3}


def cloud(dtype="f8"):
    """Return targets and sources, of which some coincide or are close; and their widths."""
    rng = np.random.default_rng(0)
    src = rng.random((3, N))
    src[:, 1] = src[:, 0] + 1e-3
    trg = np.concatenate([src[:, :20], rng.random((3, 15))], axis=1)
    of_targets = rng.choice([0.0, 0.01, 0.1], trg.shape[1])
    of_sources = rng.choice([0.0, 0.02, 0.05], N)
    of_sources[:3] = 0.0, 0.02, 0.05
    of_targets[:3] = 0.01, 0.1, 0.0
    return (each.astype(dtype) for each in (trg, src, of_targets, of_sources))


def exact(kernel, trg, src, dens, widths, want=("u", "grad_u"), **how):
    """Return the sums of all pairs of one width, one after the other."""
    results = [np.zeros((*shape, trg.shape[1])) for shape in ((), (3,))]
    for a in np.unique(widths[0]):
        for b in np.unique(widths[1]):
            t, s = widths[0] == a, widths[1] == b
            soft = parki.kernel(kernel, epsilon=float(np.hypot(a, b)))
            given = trg[:, t], src[:, s], dens[..., s]
            for total, part in zip(
                results, direct_sum(soft, *given, want=want, **how), strict=True
            ):
                total[..., t] += part
    return tuple(results)


@pytest.mark.each
@pytest.mark.parametrize("periodicity", [3, 0, 1, 2])
@pytest.mark.parametrize("kernel", ["laplace", "laplace_dipole"])
def test_sums_of_each_width(kernel, periodicity):
    """Charges that do not add up to zero have a mean potential of zero, as of one width."""
    trg, src, *widths = cloud()
    dens = np.random.default_rng(1).standard_normal((3, N) if "dipole" in kernel else N) + 0.2
    how = {"periodicity": periodicity, "box": BOXES[periodicity]}
    want = ("u", "grad_u")
    plan = parki.Plan(kernel, trg, src, epsilon=(*widths,), want=want, tolerance=1e-6, **how)
    assert_promised(plan, dens, exact(kernel, trg, src, dens, widths, **how), 1e-9)
    plan.update_points(trg[:, ::-1].copy() * 0.5, src * 0.5)  # which keep their widths
    moved = exact(kernel, trg[:, ::-1] * 0.5, src * 0.5, dens, widths, **how)
    assert_promised(plan, dens, moved, 1e-9)


@pytest.mark.parametrize(
    "kernel", ["laplace", pytest.param("laplace_dipole", marks=pytest.mark.slow)]
)
def test_transposes_and_derivatives(kernel):
    trg, src, *widths = cloud()
    rng = np.random.default_rng(1)
    dens = rng.standard_normal((3, N) if "dipole" in kernel else N)
    values, step = rng.standard_normal(trg.shape[1]), 1e-5
    moves = [rng.standard_normal(points.shape) for points in (trg, src)]
    soft = {"epsilon": (0.05, widths[1]), "periodicity": 3, "box": SHEARED, "tolerance": 1e-9}

    def product(step):
        points = (each + step * move for each, move in zip((trg, src), moves, strict=True))
        return values @ parki.Plan(kernel, *points, **soft)(dens)

    plan = parki.Plan(kernel, trg, src, **soft)
    assert np.vdot(plan.adjoint(values), dens) == pytest.approx(values @ plan(dens), rel=1e-9)
    found = plan.vjp(dens, values, ("trg", "src"))
    slope = sum(
        (found[name] * move).sum() for name, move in zip(("trg", "src"), moves, strict=True)
    )
    assert slope == pytest.approx((product(step) - product(-step)) / (2 * step), rel=1e-5)


def test_one_width_and_points():
    """Sources of one width, points among them, single precision, systems, and one-shot sums."""
    trg, src, *widths = cloud()
    dens = np.random.default_rng(1).standard_normal(N)
    how = {"periodicity": 3, "box": SHEARED, "tolerance": 1e-5}
    alike = parki.laplace(trg, src, dens, epsilon=np.full(N, 0.05), **how)
    np.testing.assert_allclose(alike, parki.laplace(trg, src, dens, epsilon=0.05, **how), atol=1e-4)
    hard = parki.laplace(trg, src, dens, epsilon=np.zeros(N), **how)
    np.testing.assert_allclose(hard, parki.laplace(trg, src, dens, **how), rtol=1e-5, atol=1e-4)
    (both, _) = exact("laplace", trg, src, dens, widths, periodicity=3, box=[1, 1, 1])
    single = (each.astype("f4") for each in (trg, src, dens))
    narrow = tuple(each.astype("f4") for each in widths)
    found = parki.laplace(*single, epsilon=narrow, periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    assert found.dtype == np.float32
    assert rms(found - both) <= 1e-3 * rms(both)
    parts = ([0, 15, 35], [0, 20, N])
    split = parki.laplace(trg, src, dens, epsilon=(*widths,), systems=parts, **how)
    own = (
        [each[..., 15:] for each in (trg, widths[0])],
        [each[..., 20:] for each in (src, widths[1])],
    )
    last = parki.laplace(own[0][0], own[1][0], dens[20:], epsilon=(own[0][1], own[1][1]), **how)
    np.testing.assert_allclose(split[15:], last, atol=1e-4)


def test_energies_of_charges_of_several_widths():
    """Two in closed form with their own energies, and derivatives by points and a strain."""
    points, charges = np.array([[0.0, 0, 0], [0.1, 0.2, 0]]), np.array([1.0, -2.0])
    widths = np.array([0.1, 0.2])
    found = parki.energy(points, charges, epsilon=widths, periodicity=0, tolerance=1e-10)
    r, both = np.hypot(0.1, 0.2), np.hypot(0.1, 0.2)
    expected = (charges**2 / (np.sqrt(2 * np.pi) * widths)).sum() - 2 * erf(r / both) / r
    assert found.energy == pytest.approx(expected, rel=1e-8)
    rng = np.random.default_rng(2)
    points, charges, dipoles = rng.random((12, 3)), rng.standard_normal(12), rng.random((12, 3))
    widths, step = rng.choice([0.05, 0.1, 0.2], 12), 3e-5 * rng.standard_normal((12, 3))
    strain = 3e-5 * rng.standard_normal((3, 3))

    def energy(move, stretch=0.0):
        turned = np.eye(3) + stretch * strain
        how = {"periodicity": 3, "box": SHEARED @ turned.T, "tolerance": 1e-9, "epsilon": widths}
        moved = (points + move) @ turned.T
        return parki.energy(moved, charges, dipoles=dipoles, virial=True, **how)

    found = energy(0.0)
    pushed = energy(step).energy - energy(-step).energy
    assert pushed / 2 == pytest.approx(-(found.forces * step).sum(), rel=1e-5)
    strained = energy(0.0, 1.0).energy - energy(0.0, -1.0).energy
    assert strained / 2 == pytest.approx(-(found.virial * strain).sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("kernel", "more", "words"),
    [
        ("stokes_sl", {"epsilon": np.ones(N)}, "an array, which stokes_sl does not take"),
        ("laplace", {"epsilon": np.ones(N), "blob": "prolate"}, "an array, which laplace does not"),
        ("laplace", {"epsilon": np.ones(3)}, r"shape \(3,\) for sources; expected \(50,\)"),
        ("laplace", {"epsilon": (np.ones(3), 0.1)}, r"shape \(3,\) for targets; expected \(35,\)"),
        ("laplace", {"epsilon": (1.0, 1.0, 1.0)}, "epsilon has 3 parts"),
        ("laplace", {"epsilon": np.full(N, -1.0)}, "widths of sources that are negative"),
        ("laplace", {"epsilon": np.full(N, 1e-170)}, "or whose squares float64 does not hold"),
        ("laplace", {"epsilon": (np.nan, 0.1)}, "widths of targets that are .* not finite"),
    ],
)
def test_refusals(kernel, more, words):
    trg, src, *_ = cloud()
    with pytest.raises(parki.ParkiValueError, match=words):
        parki.Plan(kernel, trg, src, periodicity=3, box=SHEARED, **more)


def test_widths_that_single_precision_does_not_hold():
    trg, src, *_ = cloud("f4")
    given = {"periodicity": 3, "box": [1e3, 1e3, 1e3], "tolerance": 1e-4}
    with pytest.raises(parki.ParkiValueError, match="epsilon is 1e-18, so small in this box"):
        parki.Plan("laplace", trg, src, epsilon=np.full(N, 1e-18, "f4"), **given)


def test_refusals_of_energies():
    points, charges = np.random.default_rng(0).random((4, 3)), np.ones(4)
    trg, src, *widths = cloud()
    plan = parki.Plan("laplace", trg, src, epsilon=(*widths,), periodicity=3, box=SHEARED)
    with pytest.raises(parki.ParkiValueError, match="takes the width of each point, and other"):
        plan.update_points(trg[:, :5], src)
    with pytest.raises(parki.ParkiValueError, match="epsilon is an array, which systems in boxes"):
        parki.laplace(points.T, points.T, charges, epsilon=charges, periodicity=3, **SYSTEMS)
    how = {"epsilon": np.full(4, 0.1), **SYSTEMS}
    with pytest.raises(parki.ParkiValueError, match="epsilon is an array, which systems in boxes"):
        parki.energy(points, charges, periodicity=3, **how)


@pytest.mark.gpu
def test_on_a_device():
    """Potentials, gradients and derivatives, of one and of two kernels, also after a move."""
    cupy = pytest.importorskip("cupy")
    trg, src, *widths = cloud()
    dens = np.random.default_rng(1).standard_normal(N)
    soft = tuple(map(cupy.asarray, widths))
    for periodicity, box in BOXES.items():
        how = {"periodicity": periodicity, "box": box, "want": ("u", "grad_u"), "tolerance": 1e-6}
        plan = parki.Plan("laplace", cupy.asarray(trg), cupy.asarray(src), epsilon=soft, **how)
        exact_values = exact("laplace", trg, src, dens, widths, periodicity=periodicity, box=box)
        for _ in range(3):  # the third one takes lists
            found = plan(cupy.asarray(dens))
        promised = plan.promise(cupy.asarray(dens))
        for value, part, bound in zip(found, exact_values, promised, strict=True):
            assert rms(value.get() - part) <= bound
