"""Derivatives by the box against differences of direct sums, whose points stay where they are."""

from __future__ import annotations

import numpy as np
import pytest
from composites import HARMONIC
from faces.base import Face
from faces.plans import Composed
from frameworks import BOX, difference, inputs
from left_out import without_pairs
from recording import let_the_host_record

import parki
from parki.ewald.derivatives import by_box, one_sum, second
from parki.ewald.far import strain
from parki.ewald.far.pairings import SYMBOLS, Waves
from parki.ewald.geometry.own_boxes import Batch
from parki.ewald.pipeline import ewald_sum
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.one_shot import sum_once
from parki.reference import direct_sum

# Which axes repeat, and whether the box leans; of the sums that have all branches of kernels.
CASES = [
    ("laplace", (True, True, True), True),
    ("yukawa(kappa=2.0)", (True, True, True), False),
    ("stokes_comb", (True, True, True), True),
    ("stokes_dipole", (False, True, True), True),
    ("stokes_rotlet", (False, True, True), True),
    ("laplace_dipole", (True, True, False), False),
    ("stokes_sl(epsilon=0.1)", (True, False, False), False),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("stokes_dipole", (True, True, True), True),
            ("stokes_comb", (False, True, True), True),
            ("stokes_sl", (True, True, False), False),
            ("stokes_dl", (True, False, False), False),
        )
    ),
]


def turned(seed):
    """Return a rotation."""
    found = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
    return found * np.sign(np.linalg.det(found))


def problem(kernel, periodic, leans, seed=0):
    """Return inputs by name, with their box, and a change of the box."""
    rng, given = np.random.default_rng(seed), inputs(kernel, sources=12, targets=10, spaced=True)
    keeps, box = np.outer(periodic, periodic), np.diag(BOX)
    if leans:
        box = box + 0.25 * keeps * rng.standard_normal((3, 3))
        if all(periodic):
            box = box @ turned(seed)
        for name in ("trg", "src"):
            given[name] = box.T @ (given[name] / np.array(BOX)[:, None])
    change = keeps * rng.standard_normal((3, 3))
    return {**given, "box": box}, change if leans else np.diag(np.diag(change))


def compared(kernel, periodic, leans, direct, to_space, to_host, wrt, *, images=0, **more):
    """Compare derivatives with differences of ``direct(arrays, box, periodicity)``, in a space."""
    given, change = problem(kernel, periodic, leans)
    for n, name in enumerate(("trg", "src")):
        periods = np.random.default_rng(n).integers(-images, images + 1, given[name].shape)
        given[name] = given[name] + given["box"].T @ periods
    periodicity = sum(periodic) if all(periodic[: sum(periodic)]) else periodic
    names = "trg", "src", "dens", "norms"

    def moved(given):
        box = given["box"] if leans else np.diag(given["box"]).copy()
        return direct([given.get(name) for name in names], box, periodicity)

    slope = difference(moved, given, {"box": change})
    values = np.random.default_rng(2).standard_normal(slope.shape)
    box = given["box"] if leans else np.diag(given["box"])
    arrays = [to_space(given[n]) if n in given else None for n in names]
    how = {"values": to_space(values), "wrt": wrt, "periodicity": periodicity, "box": box}
    found = parki.vjp(kernel, *arrays, tolerance=1e-8, **how, **more)
    found = {n: to_host(a) for n, a in found.items()}
    size = np.linalg.norm(slope) * np.linalg.norm(values)
    assert abs((found["lattice"] * change).sum() - (values * slope).sum()) <= 1e-7 * size
    assert not found["lattice"][~np.outer(periodic, periodic)].any()
    return found


@pytest.mark.parametrize(("kernel", "periodic", "leans"), CASES)
def test_differences_of_direct_sums(kernel, periodic, leans, space, to_space, to_host, monkeypatch):
    monkeypatch.setattr(strain, "MODES", dict.fromkeys((False, True), 2**9))  # several parts

    def direct(arrays, box, periodicity):
        return direct_sum(kernel, *arrays, box=box, periodicity=periodicity)

    wrt, how = ("box", "lattice", "dens"), {"execution_space": space}
    found = compared(kernel, periodic, leans, direct, to_space, to_host, wrt, **how)
    own = found["lattice"] if leans else np.diag(found["lattice"])
    assert np.array_equal(found["box"], own)


@pytest.mark.parametrize("kernel", ["laplace", "stokes_sl"])
def test_gradients_are_strained_as_transposed_sums(kernel, space, to_space, to_host, monkeypatch):
    """A gradient times weights is a sum of dipoles times densities, which needs no difference."""
    monkeypatch.setattr(by_box, "_differences", None)

    def direct(arrays, box, periodicity):
        return direct_sum(kernel, *arrays, box=box, periodicity=periodicity, want="grad_u")

    how = {"want": "grad_u", "execution_space": space}
    compared(kernel, (True, True, True), True, direct, to_space, to_host, ("lattice",), **how)


@pytest.mark.parametrize(
    ("kernel", "periodic", "leans", "moving"),
    [
        ("laplace", (True, True, True), True, "points and box"),
        ("laplace", (True, True, True), True, "box of an energy"),
        ("laplace", (True, True, False), False, "points and box"),
        *(
            pytest.param(*case, moving, marks=pytest.mark.slow)
            for moving in ("points and box", "box")
            for case in (
                ("laplace", (False, True, True), True),
                ("yukawa(kappa=2.0)", (True, True, True), True),
                ("yukawa(kappa=2.0)", (True, True, False), True),
                ("laplace", (True, False, False), False),
                ("yukawa(kappa=2.0)", (False, False, True), False),
            )
        ),
    ],
)
def test_second_derivatives_of_charges(
    kernel, periodic, leans, moving, space, to_space, to_host, monkeypatch
):
    """The box takes points along, or does not: sums at the placement, against direct sums.

    No difference is taken, and no derivative of several sums is made of theirs.
    """
    monkeypatch.setattr(second, "strained", None)
    monkeypatch.setattr(second.vjp, "pulled", None)
    monkeypatch.setattr(strain, "MODES", dict.fromkeys((False, True), 2**9))  # several parts
    given, change = problem(kernel, periodic, leans)
    rng, names = np.random.default_rng(5), ("trg", "dens", "box")
    given["trg"] = given.pop("src")  # which are the targets, too
    along = {name: rng.standard_normal(given[name].shape) for name in names[:2]}
    along["box"] = np.outer(periodic, periodic) * rng.standard_normal((3, 3))
    if not leans:
        along["box"] = np.diag(np.diag(along["box"]))
    deformed = (np.linalg.inv(given["box"]) @ change).T
    moves = {"trg": deformed @ given["trg"]} if "points" in moving else {}
    moves["box"] = change

    def direct(given):
        box = given["box"] if leans else np.diag(given["box"]).copy()
        arrays = given["trg"], given["trg"], given["dens"]
        return direct_sum(kernel, *arrays, box=box, periodicity=[*periodic])

    values, expected = rng.standard_normal(12), 0.0
    if "energy" in moving:
        values = 0.5 * given["dens"]
    for step, weight in {1: 8 / 5, 2: -1 / 5, 3: 8 / 315, 4: -1 / 560}.items():
        for one, other in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
            moved = {
                n: a + 4e-3 * step * (one * moves.get(n, 0.0) + other * along[n])
                for n, a in given.items()
            }
            expected = expected + one * other * weight / 4 / 4e-3**2 * (direct(moved) @ values)

    def on(arrays):
        rows = {n: a if leans or n != "box" else np.diag(a) for n, a in arrays.items()}
        return {n: to_space(np.ascontiguousarray(a)) for n, a in rows.items()}

    box = given["box"] if leans else np.diag(given["box"])
    options = parki.EwaldOptions([*periodic], box, 1e-6, execution_space=space)
    of = kernel, options, Batch(), on(given)
    found = second.pulled(*of, to_space(values), names, on(moves))
    there = on(along)
    total = sum(float((found[name] * there[name]).sum()) for name in names)
    size = sum(float(abs(found[name] * there[name]).sum()) for name in names)
    assert abs(total - expected) <= 1e-6 * size
    pushed = second.pushed(*of, {"dens": there["dens"]}, on(moves))
    by_density = float((found["dens"] * there["dens"]).sum())
    assert abs(to_host(pushed) @ values - by_density) <= 1e-6 * size


def test_second_derivatives_of_systems_add_up(rng):
    """By one box, each system adds what it has alone; one without points adds nothing."""
    given, change = problem("laplace", (True, True, True), True)
    options, dens = parki.EwaldOptions(3, given["box"], 1e-6), given["dens"]
    names, ends = ("trg", "dens", "box"), (0, 5, 12)

    def pulled(part, systems=None, **moves):
        inputs = {"trg": given["src"][:, part], "dens": dens[part], "box": given["box"]}
        batch = Batch(systems=systems and (systems, systems))
        of = "laplace", options, batch, inputs
        return second.pulled(*of, dens[part], names, {"box": change, **moves})

    found, parts = pulled(slice(None), ends), [pulled(slice(0, 5)), pulled(slice(5, 12))]
    parts.append(pulled(slice(0, 0), trg=np.zeros((3, 0))))
    for name in names:
        each = [part[name] for part in parts]
        expected = sum(each) if name == "box" else np.concatenate(each, axis=-1)
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-6 * abs(expected).max())


def test_sums_by_the_box_are_recorded_at_points_that_move(monkeypatch):
    """Launches that were recorded are of the points that were placed last."""
    given, _ = problem("stokes_comb", (True, True, True), True)
    rng = np.random.default_rng(3)
    values, steps = rng.standard_normal((3, 10)), 0.01 * rng.random(5)

    def derivatives():
        parki.clear_cache()
        arrays = [given[name] for name in ("src", "dens", "norms")]
        how = {"values": values, "wrt": ("lattice",), "box": given["box"], "periodicity": 3}
        moved = [given["trg"] + step * given["box"].T @ np.ones((3, 1)) for step in steps]
        return [parki.vjp("stokes_comb", x, *arrays, tolerance=1e-8, **how) for x in moved]

    expected = derivatives()
    let_the_host_record(monkeypatch)
    monkeypatch.setattr(ewald_sum, "keeps", lambda task: False)  # copies, which hosts alone take
    repeated, names = OneDevice.repeated, set()
    monkeypatch.setattr(
        OneDevice, "repeated", lambda *given: names.add(given[1]) or repeated(*given)
    )
    for found, one in zip(derivatives(), expected, strict=True):
        np.testing.assert_allclose(found["lattice"], one["lattice"], rtol=1e-10)
    assert names == {"dens, weights, strain of 1"}


def test_changes_of_charges_leave_pairs_out():
    """Along a strain, against sums in strained boxes."""
    given, change = problem("laplace", (True, True, True), True)
    motion = (np.linalg.inv(given["box"]) @ change).T
    labels = tuple(np.arange(count) % 3 - 1 for count in (10, 12))

    def summed(given, **how):
        moved = np.eye(3) + given["step"] * motion
        lattice = given["box"] @ moved.T
        options = parki.EwaldOptions(3, lattice, 1e-8, exclude_image="nearest").of_derivatives
        at = moved @ given["trg"], moved @ given["src"], given["dens"], None, options
        return sum_once("laplace", *at, want="grad_u", exclude=labels, **how)

    given["step"] = np.zeros(1)
    expected = difference(summed, given, {"step": np.ones(1)}, step=4e-3)
    found = summed(given, motion=motion)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("structure", SYMBOLS)
def test_symbols(structure):
    """Slopes are derivatives by the wave vector, for fields that stay or that follow it."""
    rng = np.random.default_rng(0)
    rows = 1 if structure == "scalar" else 3
    shape = rows, 1, 1, 1
    w, a, d = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for _ in range(3))
    k, change = rng.standard_normal((2, 3))

    def pairing(step):
        moved = (k + step * change).reshape(3, 1, 1, 1)
        modes = Waves([*moved], (moved**2).sum(axis=0), None, None)
        return SYMBOLS[structure](modes, w, a, d[0])

    slope, step = sum(x * each for x, each in zip(change, pairing(0).slopes, strict=True)), 1e-4
    expected = (pairing(step).value - pairing(-step).value) / (2 * step)
    assert np.allclose(slope, expected, rtol=1e-6)
    linear = SYMBOLS[structure](Waves([*k.reshape(3, 1, 1, 1)], (k**2).sum(), None, None), w, a, 0)
    assert np.allclose((linear.by_fields * a).sum(axis=0), linear.value)
    assert np.allclose((linear.by_values * w).sum(axis=0), linear.value)


def test_shapes_and_gauges(rng):
    """Several densities add up; without periodic axes nothing depends on the box."""
    trg, src = rng.random((2, 3, 9))
    dens, values = rng.standard_normal((2, 2, 3, 9))
    options = parki.EwaldOptions(2, [1, 1.1, None], 1e-6)
    whole = parki.vjp("stokes_sl", trg, src, dens, options, values=values, wrt=("box",))["box"]
    each = [
        parki.vjp("stokes_sl", trg, src, q, options, values=v, wrt=("box",))["box"]
        for q, v in zip(dens, values, strict=True)
    ]
    assert whole.shape == (3,) and whole[2] == 0
    assert np.allclose(whole, sum(each), rtol=1e-12)
    free = parki.vjp("stokes_sl", trg, src, dens, periodicity=0, values=values, wrt=("box",))
    assert not free["box"].any()


def test_changes_of_multipliers_are_kept(rng, monkeypatch):
    """They depend on the box alone, and are made anew for another one."""
    points, made, own = rng.random((3, 20)), [], strain.FarStrain._changes
    monkeypatch.setattr(strain.FarStrain, "_changes", lambda *args: made.append(1) or own(*args))
    found = []
    for height in (1.0, 1.0, 1.1):
        how = {"box": [1.0, 0.9, height], "periodicity": 2, "values": points[::-1]}
        found.append(parki.vjp("stokes_sl", points, points, points, wrt=("box",), **how)["box"])
    assert len(made) == 2
    assert np.allclose(found[0], found[1], rtol=1e-12)


def test_single_precision(rng):
    points, box = rng.random((3, 300)), parki.lattice(1, 1.1, 0.9, xy=0.4, yz=0.2)
    given, found = (points, points, *rng.standard_normal((2, 300))), []
    for dtype, how in (("f8", {}), ("f4", {}), ("f8", {"precision": "mixed"})):
        *arrays, values = (each.astype(dtype) for each in given)
        options = parki.EwaldOptions(3, box, 1e-5, **how)
        found.append(parki.vjp("laplace", *arrays, options, values=values, wrt=("box",))["box"])
        assert found[-1].dtype == dtype
        assert np.abs(found[-1] - found[0]).max() <= 2e-5 * np.abs(found[0]).max()


@pytest.mark.parametrize(
    ("kernel", "periodic", "leans", "image"),
    [
        ("laplace", (True, True, True), True, "nearest"),
        ("laplace", (True, True, True), True, "given"),
        pytest.param("laplace_dipole", (True, True, False), True, "given", marks=pytest.mark.slow),
        pytest.param("stokes_comb", (True, True, True), False, "given", marks=pytest.mark.slow),
    ],
)
def test_pairs_left_out(kernel, periodic, leans, image, space, to_space, to_host):
    """The nearest image moves with the box, and the one that was given does not."""
    labels = [np.arange(count) % 3 - 1 for count in (10, 12)]

    def direct(arrays, box, periodicity):
        return without_pairs(kernel, *arrays, labels, ("u",), box, periodicity, image)[0]

    how = {"execution_space": space, "exclude_image": image, "exclude": tuple(labels)}
    compared(kernel, periodic, leans, direct, to_space, to_host, ("lattice",), **how)


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("ends", [None, [0, 7, 7, 20]], ids=["one system", "systems"])
def test_charges_take_one_sum(ends, size, rng, space, to_space, to_host, monkeypatch):
    """Of both densities at once, however different they are: as of sources in other arrays."""
    box = parki.lattice(*BOX, xy=0.3, xz=-0.2)
    x, q, v = to_space(rng.random((3, 20))), rng.standard_normal(20), rng.standard_normal(20)
    options = parki.EwaldOptions(3, box, 1e-8)
    more = {"values": to_space(size * v), "wrt": ("trg", "lattice"), "systems": ends}
    expected = parki.vjp("laplace", x, x.copy(), to_space(q), options, **more)
    counted, summed = [], one_sum.sum_once
    monkeypatch.setattr(one_sum, "sum_once", lambda *a, **k: counted.append(1) or summed(*a, **k))
    monkeypatch.setattr(by_box, "sum_once", None)
    found = parki.vjp("laplace", x, x, to_space(q), options, **more)
    assert len(counted) == 1
    for name, array in expected.items():
        scale = 1e-7 * float(abs(array).max())
        np.testing.assert_allclose(to_host(found[name]), to_host(array), rtol=0, atol=scale)


VARIED = Composed().kernel(Face().given("stokes_sl", 3))


@pytest.mark.parametrize(
    ("kernel", "periodicity", "how"),
    [
        (VARIED, (False, True, True), {}),
        pytest.param(HARMONIC, 2, {}, marks=pytest.mark.slow),
        ("stokes_sl", 2, {"wall": "no-slip"}),
        pytest.param("stokes_dipole", 2, {"wall": "no-slip"}, marks=pytest.mark.slow),
    ],
    ids=["two axes", "gradients", "wall", "dipoles near a wall"],
)
def test_composites(kernel, periodicity, how, rng):
    """Maps take the points, which stay where they are. Two densities add up."""
    trg, src = rng.random((2, 3, 12))
    values = rng.standard_normal((2, 3, 12))
    dens = rng.standard_normal((2, *[3] * (1 + (kernel == "stokes_dipole")), 12))
    change, step = rng.standard_normal(3), 1e-4
    periodic = [n < 2 for n in range(3)] if periodicity == 2 else periodicity

    def work(tolerance, moved):
        box = np.array([1.0, 1.1, 1.2]) + moved * np.where(periodic, change, 0)
        return {"periodicity": periodicity, "box": box, "tolerance": tolerance, **how}

    def direct(moved):
        return (parki.Plan(kernel, trg, src, **work(1e-12, moved))(dens) * values).sum()

    expected = (direct(step) - direct(-step)) / (2 * step)
    found = parki.vjp(
        kernel, trg, src, dens, values=values, wrt=("box", "trg", "lattice"), **work(1e-9, 0)
    )
    size = np.linalg.norm(found["box"])
    assert found["box"] @ change == pytest.approx(expected, abs=1e-6 * size)
    np.testing.assert_array_equal(found["lattice"].diagonal(), found["box"])
    alone = parki.vjp(kernel, trg, src, dens, values=values, wrt=("trg",), **work(1e-9, 0))
    np.testing.assert_allclose(found["trg"], alone["trg"], rtol=1e-12)


@pytest.mark.filterwarnings("ignore::parki.ImageWarning")
@pytest.mark.parametrize(
    "kernel", ["stokes_comb", pytest.param("stokes_dl", marks=pytest.mark.slow)]
)
def test_mean_without_flux(kernel, space, to_space, to_host):
    """It takes points as they are given, each in a box of its own."""

    def direct(arrays, box, periodicity):
        trg, src, dens, norms = arrays
        strength = (dens[-3:] * norms).sum(axis=0)
        moment = (src * strength).sum(axis=1)[:, None]
        mean = 8 * np.pi / np.prod(box) * (moment - strength.sum() * trg)
        return mean + direct_sum(kernel, *arrays, box=box, periodicity=periodicity)

    how = {"images": 2, "dl_mean": "flux", "execution_space": space}
    compared(kernel, (True,) * 3, False, direct, to_space, to_host, ("lattice",), **how)
