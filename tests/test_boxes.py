"""Many systems in boxes of their own: each as a plan of its own would sum it."""

from __future__ import annotations

import numpy as np
import pytest
from contract import rms

import parki
from parki import EwaldOptions, ParkiTypeError, ParkiValueError
from parki.ewald.pipeline import arrival
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

OFFSETS = np.array([0, 60, 60, 130, 170, 200])
# Four of one shape, of which two are equal, one of them without points; and one of another shape.
# The smallest one is too small for the grids of the others.
BOXES = np.array([1, 1, 1.3, 0.5, 1])[:, None] * np.array([1, 1.5, 0.8])
BOXES[4] = [1, 1, 2]
N, WANT = int(OFFSETS[-1]), ("u", "grad_u")


def made(kernel, rng, to_space, dtype="f8"):
    """Return points, normals or None, and two densities."""
    points = rng.random((3, N)) * np.repeat(BOXES, np.diff(OFFSETS), axis=0).T
    norms = rng.standard_normal((3, N)) if SUMS[kernel].normals else None
    dens = rng.standard_normal((2, *SUMS[kernel].density_shape(N)))
    return [a if a is None else to_space(a.astype(dtype)) for a in (points, norms, dens)]


@pytest.mark.parametrize(
    ("kernel", "periodicity", "dtype", "expected"),
    [
        ("stokes_comb", 3, "f8", 2),
        ("stokes_comb", 1, "f8", 2),
        ("stokes_sl(epsilon=0.1)", 3, "f8", 2),
        ("laplace", 3, "f4", 2),
    ],
)
def test_groups_that_share_plans(kernel, periodicity, dtype, expected, rng):
    points, norms, _ = made(kernel, rng, np.asarray, dtype)
    options = EwaldOptions(periodicity, [9, 9, 9], 1e-3)  # whose box is not taken
    plan = parki.Plan(kernel, points, points, norms, options, systems=OFFSETS, boxes=BOXES.tolist())
    assert len(plan.terms) == expected
    assert f"5 systems in boxes of their own, {expected} plans" in plan.describe()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"systems": None}, ParkiValueError, "boxes was given without systems"),
        ({"boxes": BOXES[:4]}, ParkiValueError, "4 boxes, but systems has 5 systems"),
        ({"boxes": 1.0}, ParkiTypeError, "boxes is a float; expected 3 edge lengths"),
        ({"boxes": BOXES[:, :2]}, ParkiTypeError, "expected 3 edge lengths for each system"),
        ({"boxes": -BOXES}, ParkiValueError, "expected 3 positive, finite edge lengths"),
    ],
)
def test_impossible_boxes(given, error, message, rng):
    points = rng.random((3, N))
    how = {"periodicity": 3, "systems": OFFSETS, "boxes": BOXES} | given
    with pytest.raises(error, match=message):
        parki.Plan("laplace", points, points, **how)


def test_impossible_densities(rng):
    points, _, _ = made("laplace", rng, np.asarray)
    plan = parki.Plan("laplace", points, points, periodicity=3, systems=OFFSETS, boxes=BOXES)
    for call in (plan.promise, plan.adjoint):
        with pytest.raises(ParkiValueError, match="has shape"):
            call(np.ones(N - 1))
    both = parki.Plan(
        "laplace", points, points, periodicity=3, systems=OFFSETS, boxes=BOXES, want=WANT
    )
    with pytest.raises(ParkiTypeError, match="values is a ndarray; expected a tuple of 2 arrays"):
        both.vjp(np.ones(N), np.ones(N))
    with pytest.raises(ParkiValueError, match="values has shape"):
        plan.vjp(np.ones(N), np.ones(N - 1))


def test_tilted_boxes(rng):
    """One shape in three sizes, another orientation of it, and a box along the axes."""
    box = parki.lattice(1, 0.9, 1.1, 0.4, -0.3, 0.35)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turn *= np.linalg.det(turn)
    boxes = np.array([box, 1.3 * box, np.eye(3), box @ turn, 1.7 * box])
    points = np.hstack([(rng.random((40, 3)) @ each).T for each in boxes])
    normals, dens = rng.standard_normal((3, 200)), rng.standard_normal((2, 6, 200))
    how = {"periodicity": 3, "tolerance": 1e-5, "want": WANT, "dl_mean": "zero"}
    given, offsets = ("stokes_comb", points, points, normals), np.arange(6) * 40
    plan = parki.Plan(*given, systems=offsets, boxes=boxes, **how)
    assert len(plan.terms) == 1
    shared = parki.Plan(*given, systems=offsets, box=box, **how)
    for found, each in ((plan(dens), boxes), (shared(dens), [box] * 5)):
        for system, own in enumerate(each):
            columns = slice(40 * system, 40 * system + 40)
            part = points[:, columns]
            alone = parki.Plan("stokes_comb", part, part, normals[:, columns], box=own, **how)
            of = dens[..., columns]
            for one, right, bound in zip(found, alone(of), alone.promise(of), strict=True):
                for k in range(2):
                    assert rms(one[k][..., columns] - right[k]) < 2 * bound[k]
    for each in (plan, shared):
        found = each(dens)
        square = sum((one**2).sum() for one in found)
        assert (each.adjoint(found) * dens).sum() == pytest.approx(square, rel=1e-9)


# A cube, a flat and a long box, one of thrice the size, turned vectors, vectors that others are
# shorter than, and the cube again.
SHAPES = [
    np.eye(3),
    np.diag([1.5, 1.5, 0.5]),
    np.diag([0.7, 2.0, 0.8]),
    3.0 * np.eye(3),
    parki.lattice(1.1, 0.9, 1.2, 0.5, -0.4, 0.4)[[1, 2, 0]],
    np.array([[1, 0, 0], [3, 0.9, 0], [0.2, 0.3, 1.1]]),
    np.eye(3),
]


def of_shapes(kernel, rng, n=30):
    """Return points, normals or None, and a density, of n points in each of the shapes."""
    points = np.hstack([(rng.random((n, 3)) @ each).T for each in SHAPES])
    count = points.shape[1]
    norms = rng.standard_normal((3, count)) if SUMS[kernel].normals else None
    return points, norms, rng.standard_normal(SUMS[kernel].density_shape(count))


@pytest.mark.parametrize("kernel", ["laplace", "stokes_dl"])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
@pytest.mark.chosen_degrees
def test_each_system_keeps_its_promise(kernel, tolerance, rng):
    """Whatever the shapes of the boxes that one sum takes; against another method."""
    points, norms, dens = of_shapes(kernel, rng)
    how = {"periodicity": 3, "tolerance": tolerance, "want": WANT, "dl_mean": "zero"}
    offsets = np.arange(len(SHAPES) + 1) * 30
    plan = parki.Plan(kernel, points, points, norms, systems=offsets, boxes=SHAPES, **how)
    assert [len(term.group.numbers) for term in plan.terms] == [6, 1]
    found, bounds = plan(dens), plan.promise(dens)
    for system, box in enumerate(SHAPES):
        of = slice(30 * system, 30 * system + 30)
        n = None if norms is None else norms[:, of]
        exact = direct_sum(
            kernel,
            points[:, of],
            points[:, of],
            dens[..., of],
            n,
            box=box,
            periodicity=3,
            want=WANT,
        )
        for one, right, bound in zip(found, exact, bounds, strict=True):
            assert rms(one[..., of] - right) < bound[system], (system, tolerance)


# Flat, long, thin and tilted boxes, turned vectors, and ones that others are shorter than. Points
# spread by these lengths along free axes, in turn: a sheet, and a line.
PLANES = [[[1, 0, 0], [0, 1.2, 0]], [[2, 0, 0], [0, 0.6, 0]], [[0.6, 0, 0], [0, 2, 0]]]
PLANES += [[[1.2, 0, 0], [0.5, 1.1, 0]], [[1, 0.4, 0], [-0.3, 1.1, 0]], [[1, 0, 0], [2.7, 0.9, 0]]]
LINES = [[[1, 0, 0]], [[1.3, 0, 0]], [[0.8, 0, 0]], [[1.6, 0, 0]], [[1.2, 0, 0]], [[2, 0, 0]]]
HEIGHTS = [1.0, 0.1, 1.5, 0.0, 2.0, 0.7]


def of_free_axes(kernel, periodicity, axes, rng, n=25):
    """Return points, normals or None, a density and boxes, with their axes in an order."""
    parts, boxes = [], []
    for rows, height, other in zip(
        PLANES if periodicity == 2 else LINES, HEIGHTS, HEIGHTS[1:] + HEIGHTS[:1], strict=True
    ):
        free = [height * np.eye(3)[2]] if periodicity == 2 else [*np.diag([0, height, other])[1:]]
        whole = np.array([*rows, *free], dtype=float)
        parts.append((rng.random((n, 3)) @ whole).T)
        whole[periodicity:] = 0
        boxes.append(whole[np.ix_(axes, axes)])
    points = np.hstack(parts)[axes]
    norms = rng.standard_normal(points.shape) if SUMS[kernel].normals else None
    dens = rng.standard_normal(SUMS[kernel].density_shape(points.shape[1]))
    return points, norms, dens, np.array(boxes)


@pytest.mark.parametrize(
    ("kernel", "tolerance"), [("laplace", 1e-6), ("laplace", 1e-10), ("stokes_dl", 1e-6)]
)
@pytest.mark.parametrize(
    ("periodicity", "axes"), [(2, [0, 1, 2]), (1, [0, 1, 2]), (2, [2, 0, 1])], ids=str
)
def test_each_slab_and_wire_keeps_its_promise(kernel, tolerance, periodicity, axes, rng):
    """Whatever the shapes of their boxes and their heights; against another method."""
    points, norms, dens, boxes = of_free_axes(kernel, periodicity, axes, rng)
    periodic = tuple(axis < periodicity for axis in axes)
    how = {"periodicity": periodic, "tolerance": tolerance, "want": WANT}
    offsets = np.arange(len(boxes) + 1) * 25
    plan = parki.Plan(kernel, points, points, norms, systems=offsets, boxes=boxes, **how)
    assert len(plan.terms) <= 2 and len(plan.terms[0].group.numbers) >= 5
    assert (plan.box[boxes != 0] == boxes[boxes != 0]).all()
    found, bounds = plan(dens), plan.promise(dens)
    for system, rows in enumerate(boxes):
        of = slice(25 * system, 25 * system + 25)
        n = None if norms is None else norms[:, of]
        box = [None if not any(row) else row for row in rows.tolist()]
        if periodicity == 1:
            box = [None if row is None else max(row) for row in box]
        own = points[:, of], points[:, of], dens[..., of], n
        exact = direct_sum(kernel, *own, box=box, periodicity=periodic, want=WANT)
        for one, right, bound in zip(found, exact, bounds, strict=True):
            rounding = 1e-13 * rms(right)  # of close pairs, whose vectors are turned
            assert rms(one[..., of] - right) < bound[system] + rounding, system


def test_boxes_that_change_choose_nothing(rng, monkeypatch):
    """Energies of other boxes take the parameters, grids and tables of those before."""
    chosen, offsets, charges = [], np.arange(9) * 10, rng.standard_normal(80)
    choose = arrival.choose
    monkeypatch.setattr(arrival, "choose", lambda *a, **k: chosen.append(1) or choose(*a, **k))
    parki.clear_cache()
    parts = rng.random((8, 10, 3))
    for amplitude in (0.04, 0.03, 0.02, 0.01):
        boxes = [1.045 * np.eye(3) + amplitude * rng.uniform(-1, 1, (3, 3)) for _ in range(8)]
        points = np.vstack(list(map(np.matmul, parts, boxes)))
        how = {"periodicity": 3, "tolerance": 1e-5, "virial": True}
        found = parki.energy(points, charges, systems=offsets, boxes=boxes, **how)
        assert len(chosen) == 1, amplitude
        for system in (0, 5):
            of = slice(10 * system, 10 * system + 10)
            alone = parki.energy(points[of], charges[of], box=boxes[system], **how)
            np.testing.assert_allclose(found.forces[of], alone.forces, atol=1e-3)
            np.testing.assert_allclose(found.virial[system], alone.virial, atol=1e-3)
            assert found.energy[system] == pytest.approx(alone.energy, abs=1e-4)
            chosen[:] = [1]  # by this one, too


def test_boxes_that_outgrow_others_leave_room(rng, monkeypatch):
    """Boxes that deform further and further choose once more, not at each length or tilt."""
    chosen, offsets, charges = [], np.arange(9) * 10, rng.standard_normal(80)
    choose = arrival.choose
    monkeypatch.setattr(arrival, "choose", lambda *a, **k: chosen.append(1) or choose(*a, **k))
    parki.clear_cache()
    parts, moves = rng.random((8, 10, 3)), rng.uniform(-1, 1, (8, 3, 3))
    for amplitude in (0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12):
        boxes = np.eye(3) + amplitude * moves
        points = np.vstack(list(map(np.matmul, parts, boxes)))
        how = {"periodicity": 3, "tolerance": 1e-5, "virial": True}
        parki.energy(points, charges, systems=offsets, boxes=boxes, **how)
    assert len(chosen) <= 2


def test_boxes_that_outgrow_others_remember_crowds(rng, monkeypatch):
    """Parameters for larger boxes suit points that crowd as those before did."""
    chosen, offsets, charges = [], np.arange(9) * 20, rng.standard_normal(160)
    choose = arrival.choose
    monkeypatch.setattr(arrival, "choose", lambda *a, **k: chosen.append(1) or choose(*a, **k))
    parki.clear_cache()
    parts = rng.random((8, 20, 3))
    for size, extent, choices in ((1, 0.7, 1), (1.15, 1, 2), (1.15, 0.7, 2)):
        boxes = size * rng.uniform(0.99, 1.0, (8, 3))
        points = np.vstack([extent * part * box for part, box in zip(parts, boxes, strict=True)])
        how = {"periodicity": 3, "tolerance": 1e-5, "virial": True}
        parki.energy(points, charges, systems=offsets, boxes=boxes, **how)
        assert len(chosen) == choices, (size, extent)


def test_groups_of_as_many_points_are_kept(rng, monkeypatch):
    """Boxes that are long along each axis, which no grid serves at once, lost their parameters."""
    chosen, offsets, charges = [], np.arange(9) * 10, rng.standard_normal(80)
    choose = arrival.choose
    monkeypatch.setattr(arrival, "choose", lambda *a, **k: chosen.append(1) or choose(*a, **k))
    parki.clear_cache()
    parts = rng.random((8, 10, 3))
    for _ in range(3):
        boxes = [np.roll([5, 0.5, 0.5], 2 * n) * rng.uniform(0.99, 1, 3) for n in range(8)]
        points = np.vstack([part * box for part, box in zip(parts, boxes, strict=True)])
        how = {"periodicity": 3, "tolerance": 1e-5, "systems": offsets, "boxes": boxes}
        parki.energy(points, charges, virial=True, **how)
    assert len(chosen) == 3


def test_derivatives_of_several_results(rng):
    """In both modes, of several densities: those of the systems alone."""
    points, _, dens = made("laplace", rng, np.asarray)
    values = tuple(rng.standard_normal((2, *shape, N)) for shape in ((), (3,)))
    moves = {"trg": rng.standard_normal((3, N)), "dens": rng.standard_normal((2, N))}
    how = {"periodicity": 3, "tolerance": 1e-6, "want": WANT}
    plan = parki.Plan("laplace", points, points, systems=OFFSETS, boxes=BOXES, **how)
    found = plan.vjp(dens, values, ("dens", "src")), plan.jvp(dens, moves)
    for box, begin, end in zip(BOXES, OFFSETS, OFFSETS[1:], strict=False):
        of = slice(begin, end)
        alone = parki.Plan("laplace", points[:, of], points[:, of], box=box, **how)
        own = dens[:, of], tuple(each[..., of] for each in values), ("dens", "src")
        change = alone.jvp(dens[:, of], {name: move[..., of] for name, move in moves.items()})
        right = *alone.vjp(*own).values(), *change
        for one, each in zip((*found[0].values(), *found[1]), right, strict=True):
            np.testing.assert_allclose(one[..., of], each, atol=1e-5 * abs(one).max())


@pytest.mark.parametrize("periodicity", [1, 2])
def test_derivatives_of_slabs_and_wires(periodicity, rng):
    """Energies, forces, virials and derivatives by boxes: those of the systems alone."""
    points, _, charges, boxes = of_free_axes("laplace", periodicity, [0, 1, 2], rng)
    offsets, values = np.arange(7) * 25, rng.standard_normal(150)
    how = {"periodicity": periodicity, "tolerance": 1e-10}
    batch = how | {"systems": offsets, "boxes": boxes}
    energies = parki.energy(points, charges, rows=False, virial=True, **batch)
    wrt, given = ("trg", "dens", "lattice"), (points, points, charges)
    slopes = parki.vjp("laplace", *given, values=values, wrt=wrt, **batch)
    for system, rows in enumerate(boxes.tolist()):
        of = slice(25 * system, 25 * system + 25)
        box = [row if any(row) else None for row in rows]
        own = how | {"box": box if periodicity == 2 else [box[0][0], None, None]}
        x, q = points[:, of], charges[of]
        alone = parki.energy(x, q, rows=False, virial=True, **own)
        right = parki.vjp("laplace", x, x, q, values=values[of], wrt=wrt, **own)
        pairs = {name: (slopes[name][..., of], right[name]) for name in ("trg", "dens")}
        pairs["lattice"] = slopes["lattice"][system], right["lattice"]
        pairs["virial"] = energies.virial[system], alone.virial
        pairs["forces"] = energies.forces[:, of], alone.forces
        pairs["energy"] = energies.energy[system], alone.energy
        for name, (one, other) in pairs.items():
            scale = max(1.0, np.abs(other).max())
            np.testing.assert_allclose(one, other, atol=1e-8 * scale, err_msg=name)


def test_heights_that_are_given(rng):
    """One sum takes slabs of several heights, but no points that are above their own."""
    boxes, points = [[1.0, 1.2, 1.0], [1.1, 1.0, 2.0]], rng.random((3, 20))
    points[2, 10:] *= 2
    how = {"systems": [0, 10, 20], "boxes": boxes, "periodicity": 2, "tolerance": 1e-6}
    charges = rng.standard_normal(20)
    plan = parki.Plan("laplace", points, points, **how)
    assert len(plan.terms) == 1
    np.testing.assert_array_equal(plan.box, boxes)
    for system, box in enumerate(boxes):
        of = slice(10 * system, 10 * system + 10)
        alone = parki.Plan(
            "laplace", points[:, of], points[:, of], periodicity=2, box=box, tolerance=1e-6
        )
        bound = alone.promise(charges[of]) + plan.promise(charges)[system]
        assert rms(plan(charges)[of] - alone(charges[of])) < bound
    points[2, 3] = 1.5
    with pytest.raises(ParkiValueError, match=r"trg reaches from .* to 1.5 along axis 2, which is"):
        parki.Plan("laplace", points, points, **how)
