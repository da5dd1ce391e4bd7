"""Batches of molecules, wires, slabs and crystals: each system as a call of its own has it."""

from __future__ import annotations

import numpy as np
import pytest
from contract import rms

import parki
from parki import ParkiTypeError, ParkiValueError
from parki.ewald.pipeline import arrival, one_shot
from parki.ewald.points import cloud
from parki.ewald.sums import SUMS

TOLERANCE = 1e-10
# Two crystals, a slab with tilted periods, wires along two axes, an empty slab, one atom, and two
# molecules, the second of which is far away and has a zero along each free axis in place of None.
SYSTEMS = [
    (3, [1.3, 1.1, 1.0], 5),
    (2, [[1.2, 0, 0], [0.4, 1.1, 0], None], 6),
    (0, None, 4),
    (1, [1.5, None, None], 5),
    (2, [1.0, 1.1, None], 0),
    ((False, False, True), [None, None, 1.4], 4),
    (0, [None, None, None], 1),
    (3, [[1.2, 0, 0], [0.3, 1.0, 0], [0, 0.2, 1.1]], 4),
    (0, [0.0, 0.0, 0.0], 6),
]
FAR = np.array([[70.0], [-30.0], [0.25]])


def batch(rng, order=None):
    """Return points (3, N), charges, and the systems as keywords; in an order of systems."""
    parts, charges, chosen = [], [], [SYSTEMS[n] for n in order or range(len(SYSTEMS))]
    for number, (periodicity, _, count) in enumerate(SYSTEMS):
        points = rng.random((3, count))
        points[:, :2] = np.array([0.05, 0.95])[:count]  # so that extents are alike
        points += FAR if number == len(SYSTEMS) - 1 else 0
        q = rng.standard_normal(count)
        q[-1:] *= periodicity != 1  # the wire has a point without charge
        parts.append(points)
        charges.append(q)
    parts, charges = ([each[n] for n in order or range(len(each))] for each in (parts, charges))
    how = {
        "systems": np.cumsum([0, *(count for *_, count in chosen)]),
        "boxes": [box for _, box, _ in chosen],
        "periodicities": [periodicity for periodicity, *_ in chosen],
    }
    return np.hstack(parts), np.concatenate(charges), how


def each(how):
    """Yield the columns of each system with points, and the options of a call of its own."""
    ends = how["systems"]
    for n, (box, periodicity) in enumerate(zip(how["boxes"], how["periodicities"], strict=True)):
        if ends[n + 1] > ends[n]:
            box = None if periodicity == 0 else box
            yield n, slice(ends[n], ends[n + 1]), {"box": box, "periodicity": periodicity}


@pytest.mark.parametrize("order", [None, [8, 1, 5, 0, 2, 7, 3, 6, 4]], ids=["given", "shuffled"])
def test_energies(order, rng):
    points, charges, how = batch(rng, order)
    found = parki.energy(points, charges, rows=False, virial=True, tolerance=TOLERANCE, **how)
    for n, of, own in each(how):
        alone = parki.energy(
            points[:, of], charges[of], rows=False, virial=True, tolerance=TOLERANCE, **own
        )
        scale = max(1.0, abs(alone.forces).max())
        assert found.energy[n] == pytest.approx(alone.energy, rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(found.forces[:, of], alone.forces, atol=1e-9 * scale)
        np.testing.assert_allclose(found.virial[n], alone.virial, atol=1e-8 * scale)
        np.testing.assert_allclose(found.potentials[of], alone.potentials, atol=1e-9)
    empty = np.flatnonzero(np.diff(how["systems"]) == 0)
    assert empty.size == 1 and found.energy[empty[0]] == 0


@pytest.mark.parametrize("kernel", ["laplace_dipole", "yukawa(kappa=2.0)", "stokes_sl"])
def test_sums(kernel, rng):
    """By a plan, by its next points, and by a call; within the promise of each system."""
    points, _, how = batch(rng)
    count, want = points.shape[1], ("u", "grad_u")
    dens = rng.standard_normal(SUMS[kernel].density_shape(count))
    given = {"want": want, "tolerance": 1e-6, **how}
    plan = parki.Plan(kernel, points, points, **given)
    assert plan.box.shape == (len(SYSTEMS), 3, 3)
    found, bounds = plan(dens), plan.promise(dens)
    for n, of, own in each(how):
        alone = parki.Plan(kernel, points[:, of], points[:, of], want=want, tolerance=1e-6, **own)
        pairs = zip(found, alone(dens[..., of]), bounds, alone.promise(dens[..., of]), strict=True)
        for one, right, bound, other in pairs:
            assert rms(one[..., of] - right) <= bound[n] + other + 1e-14
    molecules = np.repeat([p == 0 for p, *_ in SYSTEMS], [k for *_, k in SYSTEMS])
    drifted = points + 0.5 * np.outer([1, 2, -3], molecules)  # together, as molecules drift
    plan.update_points(drifted, drifted)
    for one, right, bound in zip(plan(dens), found, bounds, strict=True):
        assert rms(one - right) <= 2 * max(bound)


def test_gradients(rng):
    """In both modes, by points, charges and lattices."""
    points, charges, how = batch(rng)
    values, moves = rng.standard_normal(charges.size), rng.standard_normal(points.shape)
    given, wrt = {"tolerance": TOLERANCE, **how}, ("trg", "dens", "lattice")
    found = parki.vjp("laplace", points, points, charges, values=values, wrt=wrt, **given)
    pushed = parki.jvp("laplace", points, points, charges, tangents={"trg": moves}, **given)
    assert found["lattice"].shape == (len(SYSTEMS), 3, 3)
    for n, of, own in each(how):
        x, q, options = points[:, of], charges[of], {"tolerance": TOLERANCE, **own}
        alone = parki.vjp("laplace", x, x, q, values=values[of], wrt=wrt, **options)
        for name in wrt:
            one = found[name][n] if name == "lattice" else found[name][..., of]
            scale = max(1.0, abs(alone[name]).max())
            np.testing.assert_allclose(one, alone[name], atol=1e-8 * scale, err_msg=name)
        change = parki.jvp("laplace", x, x, q, tangents={"trg": moves[:, of]}, **options)
        np.testing.assert_allclose(pushed[of], change, atol=1e-8 * max(1, abs(change).max()))


def rows_of(how):
    """Return all boxes as vectors, with zeros along free axes, as arrays have them."""
    rows = np.zeros((len(how["boxes"]), 3, 3))
    for n, box in enumerate(how["boxes"]):
        for axis, edge in enumerate(box or [None] * 3):
            rows[n, axis] = 0 if edge is None else edge if np.ndim(edge) else edge * np.eye(3)[axis]
    return rows


def test_tensors(rng):
    """One backward pass, by points, charges and boxes; compiled once for other boxes, too."""
    torch = pytest.importorskip("torch")
    from torch._dynamo.testing import CompileCounterWithBackend

    import parki.torch

    points, charges, how = batch(rng)
    how = {**how, "systems": how["systems"].tolist()}
    rows = rows_of(how)
    of_batch = {name: how[name] for name in ("systems", "periodicities")}

    def energy(x, q, boxes):
        return parki.torch.energy(x, q, rows=False, boxes=boxes, tolerance=1e-8, **of_batch)

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(energy, backend=counter, fullgraph=True)
    for stretch in (1.0, 1.02):
        arrays = points, charges, stretch * rows
        exact = parki.energy(
            points, charges, rows=False, virial=True, tolerance=1e-8, **of_batch, boxes=arrays[2]
        )
        for function in (energy, compiled):
            x, q, boxes = (torch.tensor(each, requires_grad=True) for each in arrays)
            found = function(x, q, boxes)
            found.sum().backward()
            np.testing.assert_allclose(found.detach(), exact.energy, atol=1e-7)
            np.testing.assert_allclose(x.grad, -exact.forces, atol=1e-6 * abs(x.grad).max())
            np.testing.assert_allclose(q.grad, exact.potentials, atol=1e-7)
            for n, of, own in each(how):
                repeats = parki.EwaldOptions(**own).periodic
                strain = exact.forces[:, of] @ points[:, of].T - exact.virial[n]
                by_strain = boxes.grad[n].numpy().T @ arrays[2][n]
                inside = np.outer(repeats, repeats)
                scale = max(1.0, abs(exact.virial[n]).max())
                np.testing.assert_allclose(by_strain, strain * inside, atol=1e-6 * scale)
    assert counter.frame_count == 1


def test_arrays_of_jax(rng):
    jax = pytest.importorskip("jax")
    import parki.jax

    points, charges, how = batch(rng)
    rows, options = rows_of(how), {"rows": False, "tolerance": 1e-8}
    of_batch = {name: how[name] for name in ("systems", "periodicities")}
    with jax.enable_x64(True):

        @jax.jit
        def total(x, q, boxes):
            return parki.jax.energy(x, q, boxes=boxes, **of_batch, **options).sum()

        found, slopes = jax.value_and_grad(total, argnums=(0, 1, 2))(points, charges, rows)
    exact = parki.energy(points, charges, virial=True, **how, **options)
    assert float(found) == pytest.approx(exact.energy.sum(), abs=1e-6)
    np.testing.assert_allclose(slopes[0], -exact.forces, atol=1e-6 * abs(exact.forces).max())
    np.testing.assert_allclose(slopes[1], exact.potentials, atol=1e-7)
    strain = exact.forces[:, :5] @ points[:, :5].T - exact.virial[0]
    np.testing.assert_allclose(np.asarray(slopes[2])[0].T @ rows[0], strain, atol=1e-5)
    assert not np.asarray(slopes[2])[[2, 4, 6, 8]].any()


def test_groups(rng):
    """One placement for molecules of like extent, one for crystals, and one for slabs."""
    points, _, how = batch(rng)
    plan = parki.Plan("laplace", points, points, tolerance=1e-3, **how)
    numbers = [term.group.numbers for term in plan.terms]
    assert numbers == [[0, 7], [1, 4], [2, 6, 8], [3], [5]]
    assert "9 systems in boxes of their own, 5 plans" in plan.describe()
    one = parki.Plan(
        "laplace", points[:, :5], points[:, :5], systems=[0, 5], periodicities=[0], tolerance=1e-3
    )
    assert len(one.terms) == 1
    alone = parki.Plan("laplace", points[:, :5], points[:, :5], periodicity=0, tolerance=1e-3)
    np.testing.assert_allclose(one(np.ones(5)), alone(np.ones(5)), atol=alone.promise(np.ones(5)))


def test_sizes_that_change_choose_nothing(rng, monkeypatch):
    """Molecules, wires and slabs of other numbers and extents take the parameters before them."""
    chosen, choose = [], arrival.choose
    monkeypatch.setattr(arrival, "choose", lambda *a, **k: chosen.append(1) or choose(*a, **k))
    parki.clear_cache()
    clouds = rng.random((9, 3, 44))
    clouds[..., :2] = 0, 1  # of one extent
    for call, extent in enumerate((1, 0.93, 0.98, 0.9)):
        counts = rng.integers(40, 45, 9)
        parts = [extent * cloud[:, :count] for cloud, count in zip(clouds, counts, strict=True)]
        points, charges = np.hstack(parts), rng.standard_normal(counts.sum())
        boxes, axes = [None, [1.5, None, None], [1.5, 1.4, None]] * 3, [0, 1, 2] * 3
        how = {"systems": np.cumsum([0, *counts]), "boxes": boxes, "periodicities": axes}
        found = parki.energy(points, charges, rows=False, tolerance=1e-3, **how)
        assert len(chosen) == 3, call
        assert np.isfinite(found.energy).all()


def test_many_unlike_systems_are_kept(rng, monkeypatch):
    """More than a dozen wires, each with a plan of its own as pairs are left out, choose once."""
    chosen, choose = [], arrival.choose
    monkeypatch.setattr(arrival, "choose", lambda *a, **k: chosen.append(1) or choose(*a, **k))
    parki.clear_cache()
    wires = range(15)
    points, charges = rng.random((3, 3 * len(wires))), rng.standard_normal(3 * len(wires))
    how = {
        "systems": np.arange(len(wires) + 1) * 3,
        "boxes": [[1 + 0.02 * n, None, None] for n in wires],
        "periodicities": [1] * len(wires),
        "exclude": np.arange(points.shape[1]),
    }
    for _ in range(2):
        parki.energy(points, charges, rows=False, tolerance=1e-3, **how)
        assert len(chosen) == len(wires)


def test_values_are_looked_at_once(rng, monkeypatch):
    """Not by the sum of each group again, unless its boxes are equal; but points may be too far."""
    looked, extremes = [], cloud.extremes
    monkeypatch.setattr(cloud, "extremes", lambda arrays: looked.append(1) or extremes(arrays))
    points, charges, how = batch(rng)
    options = {"rows": False, "tolerance": 1e-6, **how}
    parki.energy(points, charges, **options)
    assert len(looked) == 3  # all points, and two single wires
    crystal = slice(0, 5)
    points[0, crystal] -= 2e6
    with pytest.raises(ParkiValueError, match="more than 1e6 boxes away"):
        parki.energy(points, charges, **options)
    points[0, crystal] += 2e6
    for values, wrong in ((points, "points"), (charges, "charges")):
        values[..., 2], before = np.nan, values[..., 2].copy()
        with pytest.raises(ParkiValueError, match=f"{wrong}.*(?:NaN|nan)"):
            parki.energy(points, charges, **options)
        values[..., 2] = before


def test_zero_is_no_length():
    """Zero stands for None along a free axis, in arrays; periods are not zero."""
    assert parki.EwaldOptions(2, [1, 2, 0]).box == (1, 2, None)
    assert parki.EwaldOptions((False, True, True), np.diag([0.0, 1, 2])).box == (None, 1, 2)
    tilted = parki.EwaldOptions(2, np.array([[1.0, 0, 0], [0.5, 1, 0], [0, 0, 0]]))
    assert tilted.box == ((1, 0, 0), (0.5, 1, 0), None)
    for periodicity, box in ((3, [1, 2, 0]), (1, [0, 1, 1]), (2, np.diag([1.0, 0, 1]))):
        with pytest.raises(ParkiValueError, match="expected 3"):
            parki.EwaldOptions(periodicity, box)


def test_a_common_box():
    """The options' box is that of systems without boxes of their own."""
    points, charges = np.random.default_rng(0).random((3, 8)), np.ones(8)
    how = {"box": [1.5, 1.5, 1.5], "tolerance": 1e-6, "rows": False}
    found = parki.energy(points, charges, systems=[0, 4, 8], periodicities=[3, 1], **how)
    for n, periodicity in enumerate((3, 1)):
        of = slice(4 * n, 4 * n + 4)
        alone = parki.energy(points[:, of], charges[of], periodicity=periodicity, **how)
        assert found.energy[n] == pytest.approx(alone.energy, abs=1e-5)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"periodicities": [0, 4]}, ParkiValueError, r"periodicities\[1\] is 4; expected 0 to 3"),
        ({"periodicities": [0, True]}, ParkiTypeError, r"periodicities\[1\] is True \(bool\)"),
        ({"periodicities": [0, "x"]}, ParkiTypeError, r"periodicities\[1\] is 'x'"),
        ({"periodicities": 2}, ParkiTypeError, "periodicities is a int; expected the number"),
        ({"periodicities": [0]}, ParkiValueError, "periodicities has 1 entries, but boxes has 2"),
        (
            {"periodicities": [0, 0, 0], "boxes": None},
            ParkiValueError,
            "periodicities has 3 entries, but systems has 2 systems; give each system one",
        ),
        (
            {"systems": None, "boxes": None},
            ParkiValueError,
            "periodicities was given without systems; say by systems",
        ),
        ({"periodicities": [0, 1]}, ParkiValueError, "axis 0 is periodic and needs its length"),
        (
            {"periodicity": 0},
            ParkiTypeError,
            "periodicities was given, and periodicity as well; leave out one of the two",
        ),
        (
            {"wall": "no-slip", "periodicities": [0, 1], "boxes": None, "box": [1, 1, 1]},
            ParkiValueError,
            "periodicities was given, but wall is 'no-slip'; near a wall",
        ),
    ],
)
def test_impossible_periodicities(given, error, message):
    points = np.random.default_rng(0).random((3, 4))
    how = {"systems": [0, 2, 4], "boxes": [None, None], "periodicities": [0, 0]} | given
    with pytest.raises(error, match=message):
        parki.Plan("stokes_sl", points, points, **how)


def test_a_box_with_a_gradient_beside_boxes():
    torch = pytest.importorskip("torch")
    import parki.torch

    points, charges = torch.rand(3, 4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    how = {"systems": [0, 2, 4], "periodicities": [3, 3]}
    box = torch.ones(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ParkiValueError, match="box requires a gradient, but systems have boxes"):
        parki.torch.laplace(points, points, charges, box=box, **how)


def test_a_box_of_jax_beside_boxes():
    jax = pytest.importorskip("jax")
    import parki.jax

    points, how = np.random.default_rng(0).random((3, 4)), {"systems": [0, 2, 4]}
    with pytest.raises(ParkiValueError, match="box is an array of JAX, but systems have boxes"):
        parki.jax.laplace(
            points, points, np.ones(4), box=jax.numpy.ones(3), periodicities=[3, 3], **how
        )


def test_forces_are_of_the_sum_itself(rng, monkeypatch):
    """In PyTorch the backward pass takes what each group's sum has saved, and sums nothing."""
    torch = pytest.importorskip("torch")
    import parki.torch

    points, charges, how = batch(rng)
    sums, made = [], one_shot.EwaldSum
    monkeypatch.setattr(one_shot, "EwaldSum", lambda *a, **k: sums.append(a) or made(*a, **k))
    options = {"rows": False, "tolerance": 1e-8, **how, "systems": how["systems"].tolist()}
    exact = parki.energy(points, charges, **options)
    for weights, times in ((np.ones(len(SYSTEMS)), 1), (rng.random(len(SYSTEMS)), 2)):
        x, q = (torch.tensor(each, requires_grad=True) for each in (points, charges))
        sums.clear()
        energies = parki.torch.energy(x, q, **options)
        (energies * torch.tensor(weights)).sum().backward()
        assert len(sums) == 5 * times  # other weights are another density
        scales = np.repeat(weights, np.diff(how["systems"]))
        np.testing.assert_allclose(x.grad, -scales * exact.forces, atol=1e-6 * abs(x.grad).max())
        np.testing.assert_allclose(q.grad, scales * exact.potentials, atol=1e-7)
