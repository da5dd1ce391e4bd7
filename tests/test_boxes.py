"""Many systems in boxes of their own: each as a plan of its own would sum it."""

from __future__ import annotations

import numpy as np
import pytest
from contract import rms

import parki
from parki import EwaldOptions, ParkiTypeError, ParkiValueError
from parki.ewald.sums import SUMS

OFFSETS = np.array([0, 60, 60, 130, 170, 200])
# Four of one shape, of which two are equal, one of them without points; and one of another shape.
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
        ("stokes_comb", 3, "f8", 2),  # scaled
        ("stokes_comb", 1, "f8", 4),
        ("stokes_sl(epsilon=0.1)", 3, "f8", 4),
        ("laplace", 3, "f4", 4),  # scaled positions would be rounded, and close pairs with them
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
    assert len(plan.terms) == 3
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
