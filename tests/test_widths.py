"""Gaussian charges of several widths, whose pairs have widths of their own."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from contract import assert_promised, rms
from scipy.special import erf

import parki
from parki.reference import direct_sum

N = 50
SHEARED = parki.lattice(1.0, 1.1, 0.9, xy=0.3, yz=-0.2)
SYSTEMS = {"systems": [0, 2, 4], "boxes": np.ones((2, 3))}
STEP = {"eps": 1e-4, "atol": 1e-4, "rtol": 1e-5}  # of differences
ONE = {"want": "u", "tolerance": 1e-9}
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
    alone = parki.vjp(kernel, trg, src, dens, values=values, wrt=("trg", "src"), **soft)
    assert all(np.array_equal(alone[name], found[name]) for name in found)
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


def changes_of_pairs(trg, src, widths, periodicity):
    """Return changes (4, Nt, Ns) of ``erf(r / w) / r`` and its gradient by w^2 of each pair.

    They are those of a Gaussian: ``d/d(w^2) erf(r / w) / r = -exp(-r^2 / w^2) / (sqrt(pi) w^3)``.
    """
    box = BOXES[periodicity]
    edges = np.array(box) if periodicity == 3 else np.diag([length or 1.0 for length in box])
    reach = [range(-2, 3) if axis < periodicity else [0] for axis in range(3)]
    squares = np.add.outer(*(each**2 for each in widths))
    total = np.zeros((4, *squares.shape))
    for image in np.stack(np.meshgrid(*reach), axis=-1).reshape(-1, 3):
        r = trg[:, :, None] - src[:, None] - (image @ edges)[:, None, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            bell = -np.exp(-(r**2).sum(axis=0) / squares) / np.sqrt(np.pi * squares**3)
            total += np.concatenate([bell[None], -2 * r / squares * bell])
    if periodicity == 3:
        total[0] += np.pi / abs(np.linalg.det(edges))
    return np.where(squares > 0, total, 0.0)


@pytest.mark.parametrize(
    ("periodicity", "kernel", "want"),
    [
        *(
            (3, *case)
            for case in (("laplace", "u"), ("laplace", "grad_u"), ("laplace_dipole", "u"))
        ),
        (0, "laplace", "u"),
        *(pytest.param(p, "laplace", "u", marks=pytest.mark.slow) for p in (1, 2)),
    ],
)
def test_derivatives_by_widths(periodicity, kernel, want):
    """Against the closed form of each pair, points among them; targets have widths of their own."""
    trg, src, *widths = cloud()
    rng = np.random.default_rng(1)
    dens = rng.standard_normal((3, N) if "dipole" in kernel else N)
    values = rng.standard_normal((3, trg.shape[1]) if want == "grad_u" else trg.shape[1])
    moves = [rng.standard_normal(w.shape) for w in widths]
    own = dict(zip(("trg_epsilon", "src_epsilon"), moves, strict=True))
    pairs = changes_of_pairs(trg, src, widths, periodicity)
    if "dipole" in kernel:
        pairs = -(pairs[1:] * dens[:, None]).sum(axis=0)[None]
    else:
        pairs = (pairs[:1] if want == "u" else pairs[1:]) * dens
    wider = [2 * w * move for w, move in zip(widths, moves, strict=True)]
    change = (pairs * np.add.outer(*wider)).sum(axis=2).reshape(values.shape)
    by_pair = (pairs * values.reshape(len(pairs), -1, 1)).sum(axis=0)
    how = {"periodicity": periodicity, "box": BOXES[periodicity], "tolerance": 1e-9}
    plan = parki.Plan(kernel, trg, src, epsilon=(*widths,), want=want, **how)
    assert rms(plan.jvp(dens, own) - change) <= 1e-8 * rms(change)
    alone = parki.jvp(kernel, trg, src, dens, tangents=own, epsilon=(*widths,), want=want, **how)
    assert rms(alone - change) <= 1e-8 * rms(change)
    found = plan.vjp(dens, values, (*own,))
    for axis, name in enumerate(own):
        expected = 2 * widths[axis] * by_pair.sum(axis=1 - axis)
        assert rms(found[name] - expected) <= 1e-8 * rms(expected)


def test_derivatives_by_widths_of_systems_and_of_several_densities():
    trg, src, *widths = cloud()
    dens, values = (
        np.random.default_rng(1).standard_normal((2, count)) for count in (N, trg.shape[1])
    )
    how = {"periodicity": 3, "box": SHEARED, "tolerance": 1e-9}
    parts = parki.Plan(
        "laplace", trg, src, epsilon=(*widths,), systems=([0, 15, 35], [0, 20, N]), **how
    )
    found = parts.vjp(dens, values, ("trg_epsilon", "src_epsilon"))
    own = slice(15, None), slice(20, None)
    last = parki.Plan(
        "laplace",
        trg[:, own[0]].copy(),
        src[:, own[1]].copy(),
        epsilon=(widths[0][own[0]], widths[1][own[1]]),
        **how,
    )
    for name, part in zip(("trg_epsilon", "src_epsilon"), own, strict=True):
        each = [last.vjp(dens[n, own[1]], values[n, own[0]], (name,))[name] for n in (0, 1)]
        assert rms(found[name][part] - sum(each)) <= 1e-8 * rms(sum(each))


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


def charges_of_widths():
    """Return a few charges, their widths, what `energy` takes, and its derivative by widths."""
    rng = np.random.default_rng(3)
    points, charges = rng.random((3, 6)), rng.standard_normal(6)
    widths = np.array([0.1, 0.12, 0.1, 0.15, 0.15, 0.2])
    pairs = changes_of_pairs(points, points, (widths, widths), 3)[0]
    how = {"rows": False, "periodicity": 3, "box": SHEARED, "tolerance": 1e-9}
    return points, charges, widths, how, 2 * widths * charges * (pairs @ charges)


@pytest.mark.each
def test_derivatives_of_an_energy_by_widths_in_torch():
    """By widths, and by these of a loss on the forces; forwards; and of targets of their own."""
    torch = pytest.importorskip("torch")
    parki_torch = importlib.import_module("parki.torch")
    points, charges, widths, how, expected = charges_of_widths()
    x, q, w = (torch.tensor(each) for each in (points, charges, widths))

    def energy(w, x=x):
        return parki_torch.energy(x, q, epsilon=w, **how)

    x.requires_grad_(), w.requires_grad_()
    by_width, by_point = torch.autograd.grad(energy(w), (w, x), create_graph=True)
    assert rms(by_width.detach().numpy() - expected) <= 1e-8 * rms(expected)
    assert torch.autograd.gradcheck(energy, (w,), check_forward_ad=True, **STEP)
    with pytest.raises(parki.ParkiValueError, match="there are first derivatives, also of deriv"):
        torch.autograd.grad(by_width.sum(), w, retain_graph=True)
    move = np.random.default_rng(4).standard_normal(widths.shape)
    (of_forces,) = torch.autograd.grad(by_point[0, 0], w)

    def force(step):
        wider = widths + step * move
        return -parki.energy(points, charges, epsilon=wider, **how).forces[0, 0]

    near, far = (force(n * 2e-4) - force(-n * 2e-4) for n in (1, 2))
    slope = (8 * near - far) / (12 * 2e-4)
    assert of_forces.numpy() @ move == pytest.approx(slope, rel=1e-6)

    def own(target, w):
        sums = {name: how[name] for name in ("periodicity", "box", "tolerance")}
        trg = x[:, :2].detach() + 0.01
        return parki_torch.laplace(trg, x.detach(), q, epsilon=(target, w), **sums)

    assert torch.autograd.gradcheck(own, (w[:2].detach().clone().requires_grad_(), w), **STEP)


def test_derivatives_of_an_energy_by_widths_in_jax():
    jax = pytest.importorskip("jax")
    parki_jax = importlib.import_module("parki.jax")
    points, charges, widths, how, expected = charges_of_widths()
    with jax.enable_x64(True):
        x, q, w = (jax.numpy.asarray(each) for each in (points, charges, widths))

        def energy(w):
            return parki_jax.energy(x, q, epsilon=w, **how)

        found = np.asarray(jax.grad(energy)(w))
        assert rms(found - expected) <= 1e-8 * rms(expected)
        importlib.import_module("jax.test_util").check_grads(energy, (w,), order=1, **STEP)
        with pytest.raises(parki.ParkiTypeError, match=r"epsilon is traced by jax\.jit"):
            jax.jit(energy)(w)


def test_refusals_of_derivatives():
    trg, src, *widths = cloud()
    rng = np.random.default_rng(1)
    how = {"periodicity": 3, "box": SHEARED, "tolerance": 1e-6}
    soft = parki.Plan("laplace_dipole", trg, src, epsilon=(*widths,), want="grad_u", **how)
    dens, values = rng.random((3, N)), rng.random((3, trg.shape[1]))
    for derivative in (
        lambda: soft.vjp(dens, values, ("trg_epsilon",)),
        lambda: soft.jvp(dens, {"src_epsilon": widths[1]}),
    ):
        with pytest.raises(parki.ParkiValueError, match="of dipoles has no derivative by their w"):
            derivative()
    hard = parki.Plan("laplace", trg, src, **how)
    with pytest.raises(
        parki.ParkiValueError, match=r"wrt is \('trg_epsilon',\); expected names of"
    ):
        hard.vjp(dens[0], values[0], ("trg_epsilon",))
    plan = parki.Plan("laplace", trg, src, epsilon=(*widths,), **how)
    with pytest.raises(parki.ParkiValueError, match=r"tangents\['trg_epsilon'\] has shape \(50,\)"):
        plan.jvp(dens[0], {"trg_epsilon": widths[1]})


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
        values, names = cupy.ones(trg.shape[1]), ("trg_epsilon", "src_epsilon")
        plan = parki.Plan("laplace", *map(cupy.asarray, (trg, src)), epsilon=soft, **how | ONE)
        wider = plan.vjp(cupy.asarray(dens), values, names)
        pairs = changes_of_pairs(trg, src, widths, periodicity)[0] * dens
        for axis, name in enumerate(names):
            expected = 2 * widths[axis] * pairs.sum(axis=1 - axis)
            assert rms(wider[name].get() - expected) <= 1e-8 * rms(expected)
        change = plan.jvp(cupy.asarray(dens), dict(zip(names, soft, strict=True))).get()
        expected = (2 * pairs * np.add.outer(*(w**2 for w in widths))).sum(axis=1)
        assert rms(change - expected) <= 1e-8 * rms(expected)
