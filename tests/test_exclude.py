"""Pairs of equal labels are left out: the nearest image of each, however close it is."""

from __future__ import annotations

import itertools
from dataclasses import replace
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from composites import SLIP
from contract import assert_promised, rms
from few import USUAL
from left_out import without_pairs

import parki
from parki import ParkiTypeError, ParkiValueError
from parki.ewald.geometry.systems import MOST, Labels
from parki.ewald.sums import SUMS

# Labels are chosen at random.
pytestmark = pytest.mark.filterwarnings("ignore:points of one label")

BOX = np.array([1.0, 1.2, 0.9])
CLOSE = 8e-9
SCREENED = "yukawa(kappa=2.0)"
USED = ("stokes_comb", 2), (SCREENED, 3)  # in the default run


def made(kernel, rng, sources=40, targets=9):
    """Return targets, sources, density, normals and labels.

    A pair with a label is CLOSE, one coincides, and one is CLOSE across a face.
    """
    src, trg = (rng.random((3, n)) * BOX[:, None] for n in (sources, targets))
    trg[:, 0] = src[:, 0] + [0, 0.6 * CLOSE, 0.8 * CLOSE]
    trg[:, 1] = src[:, 1]
    src[:, 2], trg[:, 2] = [CLOSE / 2, 0.5, 0.5], [1 - CLOSE / 2, 0.5, 0.5]
    labels = rng.integers(-1, 3, targets), rng.integers(-1, 3, sources)
    for each in labels:
        each[:3] = [0, 1, 5]
    norms = rng.standard_normal((3, sources)) if SUMS[kernel].normals else None
    return trg, src, rng.standard_normal(SUMS[kernel].density_shape(sources)), norms, labels


@pytest.mark.each
@pytest.mark.parametrize("cutoff", [None, 0.2], ids=["images", "short"])
@pytest.mark.parametrize(
    ("kernel", "periodicity"),
    [
        pytest.param(*case, marks=() if case in USED else pytest.mark.slow)
        for case in itertools.product((*USUAL, SCREENED), range(4))
    ],
)
def test_against_direct_sums(kernel, periodicity, cutoff, space, to_space, to_host, rng):
    """Where pairs are beyond the cut-off, and where their other images are within it."""
    trg, src, dens, norms, labels = made(kernel, rng)
    want = tuple(name for name in ("u", "p", "grad_u") if name in SUMS[kernel].terms)
    exact = without_pairs(kernel, trg, src, dens, norms, labels, want, BOX, periodicity)
    how = {"periodicity": periodicity, "box": BOX, "tolerance": 1e-6, "cutoff": cutoff}
    arrays = [None if a is None else to_space(a) for a in (trg, src, norms)]
    dens = to_space(dens)
    plan = parki.Plan(kernel, *arrays, want=want, exclude=labels, **how)
    assert (plan.parameters.cutoff < 0.3) == (cutoff is not None)
    # The direct sum has a close target elsewhere, by the distance of the pair.
    assert_promised(plan, dens, map(to_space, exact), 1e3 * CLOSE)


def test_composites_that_move_all_sources(rng):
    """They have no pairs to leave out."""
    moved = replace(SLIP, addends=SLIP.addends[1:])
    with pytest.raises(ParkiValueError, match="moves all sources, and pairs are left out of"):
        parki.Plan(moved, X, X, options=OPTIONS, exclude=[0] * 5)


def test_images_that_are_equally_near(rng):
    """One of them is left out, of the transposed sum too."""
    points = rng.random((3, 8))
    points[0, ::2], points[0, 1::2] = 0, 0.5
    dens, values = rng.standard_normal((2, 3, 8))
    for order in (1, 2):  # with targets that are the sources, and with others
        targets = points if order == 1 else points.copy()
        plan = parki.Plan(
            "stokes_sl", targets, points, periodicity=3, box=[1, 1, 1], exclude=[0] * 8
        )
        product = (values * plan(dens)).sum()
        assert (plan.adjoint(values) * dens).sum() == pytest.approx(product, rel=1e-9)


@pytest.mark.parametrize(("precision", "periodicity"), [("full", 1), ("mixed", 3)])
def test_images_as_given(precision, periodicity, space, to_space, to_host, rng):
    """A body that is longer than the box: its own part is the sum without images."""
    src, trg, dens = 0.5 + 1.7 * (rng.random((3, 3, 30)) - 0.5)
    trg = trg[:, :8].copy()
    # Another image is CLOSE, and stays.
    src[:, 0], trg[:, 0] = [1.2, 0.5, 0.5], [0.2 + CLOSE, 0.5, 0.5]
    given = [to_space(each) for each in (trg, src)]
    digits = 1e-8 if precision == "full" else 1e-6
    dens = to_space(dens)
    own = parki.stokes_sl(*given, dens, periodicity=0, box=[None] * 3, tolerance=1e-9)
    box = [1.0, None, None] if periodicity == 1 else BOX
    options = parki.EwaldOptions(periodicity, box, 1e-9)
    right = parki.stokes_sl(*given, dens, options) - own
    for cutoff in (None, 0.2):
        how = {"periodicity": periodicity, "box": box, "tolerance": 1e-4, "precision": precision}
        how |= {"cutoff": cutoff, "exclude_image": "given"}
        plan = parki.Plan("stokes_sl", *given, exclude=([0] * 8, [0] * 30), **how)
        assert_promised(plan, dens, right, digits)
        check = plan.check(dens)
        assert check.error <= check.promise + digits * check.flow


def test_labels_of_systems(space, to_space, to_host, rng):
    """Those of different systems have nothing in common; later points keep the labels."""
    points, dens = rng.random((2, 3, 90))
    labels, offsets = rng.integers(-1, 4, 90), [0, 30, 30, 90]
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-5)
    there, forces = to_space(rng.random((3, 90))), to_space(dens)
    plan = parki.Plan("stokes_sl", there, there, options, systems=offsets, exclude=labels)
    swapped = to_space(points)
    for turn in range(5):
        own = np.roll(labels, turn // 3)
        plan.update_points(swapped, swapped, **({"exclude": own} if turn == 3 else {}))
        found, bound = to_host(plan(forces)), 2 * float(plan.promise(forces).max())
        for part in (slice(0, 30), slice(30, 90)):
            of, some = (to_space(np.ascontiguousarray(a[:, part])) for a in (points, dens))
            alone = parki.stokes_sl(of, of, some, options, exclude=own[part])
            assert rms(found[:, part] - to_host(alone)) <= bound


def test_lists_of_pairs(space, to_space, to_host, rng):
    """A device keeps lists; the tile variant and the kernel of derivatives are like its own."""
    points, forces = (to_space(rng.random((3, 1500))) for _ in range(2))
    labels, found = rng.integers(0, 150, 1500), []
    how = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-5}
    for want, times, more in (
        ("u", 1, {}),
        ("u", 3, {"expert": parki.Expert(p2p_method="tile")}),
        (("u", "grad_u"), 1, {}),
    ):
        plan = parki.Plan("stokes_sl", points, points, want=want, exclude=labels, **how, **more)
        several = [plan(forces) for _ in range(times)]
        found += [to_host(each if want == "u" else each[0]) for each in several]
    assert all(each.error <= each.promise for each in plan.check(forces))
    bound = plan.promise(forces)[0]
    assert all(rms(each - found[0]) <= 2 * bound for each in found)
    all_pairs = to_host(parki.stokes_sl(points, points, forces, **how))
    assert rms(all_pairs - found[0]) > 1e3 * bound


def test_long_bodies():
    """A warning says that nearest images are not enough; not of small ones that are wrapped."""
    angle = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    body = np.stack([np.cos(angle), np.sin(angle), 0 * angle])
    centres = np.array([[0.95, 0.4], [0.5, 0.5], [0.5, 0.5]])
    labels = np.repeat([0, 1], 50)

    def warnings(radius, image=None, wrapped=True):
        points = np.concatenate([centre[:, None] + radius * body for centre in centres.T], axis=1)
        if wrapped:
            points %= 1
        options = parki.EwaldOptions(1, [1, 2, 2], exclude_image=image)
        with catch_warnings(record=True) as found:
            simplefilter("always")
            parki.Plan("stokes_sl", points, points, options, exclude=labels)
        return [str(each.message) for each in found]

    assert warnings(0.24) == [] and warnings(0.3, "nearest") == [] == warnings(0.3, "given", False)
    for wrapped in (False, True):
        (message,) = warnings(0.3, wrapped=wrapped)
        assert "on 0.60 of the period along axis 0" in message


X = np.random.default_rng(0).random((3, 5))
OPTIONS = parki.EwaldOptions(3, [1, 1, 1])


@pytest.mark.parametrize(
    ("kernel", "exclude", "more", "error", "message"),
    [
        ("stokes_sl", [0.0] * 5, {}, ParkiTypeError, "labels of targets of type float64"),
        ("stokes_sl", ([0] * 5, "body"), {}, ParkiTypeError, "labels of sources of type"),
        ("stokes_sl", [True] * 5, {}, ParkiTypeError, "expected whole numbers"),
        ("stokes_sl", [0] * 4, {}, ParkiValueError, "has 4 labels of targets; expected one"),
        ("stokes_sl(epsilon=0.1)", [0] * 5, {}, ParkiValueError, "sums blobs or spheres"),
        (
            "stokes_sl",
            [0] * 5,
            {"expert": parki.Expert(p2p_method="sm1d")},
            ParkiValueError,
            "cannot leave out",
        ),
    ],
)
def test_refused(kernel, exclude, more, error, message):
    options = parki.EwaldOptions(3, [1, 1, 1], **more)
    with pytest.raises(error, match=message):
        parki.Plan(kernel, X, X, options, exclude=exclude)


def test_refused_elsewhere(monkeypatch):
    for name, match in (
        ("exclude", r"exclude is for parki\.Plan, the calls"),
        ("systems", "systems is for sums"),
    ):
        with pytest.raises(ParkiTypeError, match=match):
            parki.near_pairs(X, X, 0.1, periodicity=3, box=[1, 1, 1], **{name: [0] * 5})
    plan = parki.Plan("stokes_sl", X, X, OPTIONS)
    with pytest.raises(ParkiValueError, match="exclude was given, but the plan was made without"):
        plan.update_points(X, X, exclude=[0] * 5)
    plan = parki.Plan("stokes_sl", X, X, OPTIONS, exclude=[0] * 5)
    with pytest.raises(ParkiValueError, match="has 5 labels of targets; expected one for each of"):
        plan.update_points(X[:, :4], X[:, :4])
    monkeypatch.setattr("parki.ewald.geometry.systems.MOST", 4)
    single = X.astype("f4")
    with pytest.raises(ParkiValueError, match="single precision tells 4 apart"):
        parki.Plan("stokes_sl", single, single, OPTIONS, exclude=range(5))


def test_most_labels_are_apart_in_single_precision():
    assert np.float32(MOST) != np.float32(MOST - 1)
    labels = Labels(np.array([7, -1, 3]), np.array([3, 3, -1, 9]))
    assert [each.tolist() for each in labels.numbers] == [[-1, -1, 0], [0, 0, -2, -2]]


@pytest.mark.parametrize(
    ("image", "box", "periodicity"),
    [
        ("given", parki.lattice(1, 0.9, 1.1, 0.4, -0.3, 0.35), 3),
        ("nearest", parki.lattice(1, 0.9, 1.1, 0.5, 0.5, 0.45), 3),
        ("nearest", np.array([[1.0, 0, 0], [0.5, 0.8, 0], [0, 0, 1]]), 2),
    ],
)
def test_tilted_boxes(image, box, periodicity, rng):
    """One image of each pair is left out, of the transposed sum too, also of two equally near."""
    src, trg = ((rng.random((n, 3)) @ box).T.copy() for n in (30, 9))
    if image == "given":
        src[:, :8] += 2 * box[0][:, None] - box[1][:, None]
    trg[:, 0] = src[:, 0] + [0, 0.6 * CLOSE, 0.8 * CLOSE]
    src[:, 1] = trg[:, 1] + box[0] / 2  # as near on both sides
    labels = rng.integers(-1, 3, 9), rng.integers(-1, 3, 30)
    labels[0][:2] = labels[1][:2] = 1
    dens = rng.standard_normal(30)
    given = "laplace", trg, src, dens, None, labels
    (exact,) = without_pairs(*given, ("u",), box, periodicity, image)
    how = {"periodicity": periodicity, "box": box, "exclude": labels, "exclude_image": image}
    certain = np.arange(9) != (1 if image == "nearest" else -1)

    def off(plan, right, digits=1e-5):
        return rms((plan(dens) - right)[..., certain]) - plan.promise(dens) - digits * rms(right)

    for cutoff in (0.2, None):
        plan = parki.Plan("laplace", trg, src, tolerance=1e-7, cutoff=cutoff, **how)
        assert off(plan, exact, 1e3 * CLOSE) <= 0
        found = plan(dens)
        assert (plan.adjoint(found) * dens).sum() == pytest.approx((found**2).sum(), rel=1e-9)
        if periodicity == 2:
            how_mixed = how | {"tolerance": 1e-4, "precision": "mixed", "cutoff": cutoff}
            assert off(parki.Plan("laplace", trg, src, **how_mixed), found) <= 0
    for tilt in (0.1, 0.2, -0.3):  # by numbers in memory that stays, from the second one on
        moved = box + np.array([[0, 0, 0], [tilt, 0, 0], [0, 0, 0]])
        plan.update_points(trg, src, box=moved)
    new = parki.Plan("laplace", trg, src, tolerance=1e-7, **(how | {"box": moved}))
    assert off(plan, new(dens)) <= 0
