"""`parki.energy`: rock salt, derivatives by differences, systems, and what it refuses."""

import math

import numpy as np
import pytest

import parki
from parki.ewald.pipeline.stages import Stages

SHEARED = parki.lattice(1.0, 1.2, 0.9, xy=0.3, xz=-0.2)
BOXES = [
    (3, SHEARED),
    (2, [[1.0, 0.2, 0.0], [0.0, 1.3, 0.0], None]),
    (1, [1.2, None, None]),
    (0, [None] * 3),
]


def cloud(n: int = 15):
    """Return points (n, 3) that are not close to each other, and charges with a net charge."""
    rng = np.random.default_rng(0)
    grid = np.indices((3, 3, 3)).reshape(3, 27).T[rng.permutation(27)[:n]]
    return 0.28 * grid + 0.05 + 0.08 * rng.random((n, 3)), rng.standard_normal(n)


POINTS, CHARGES = cloud()
TWO = np.stack([CHARGES, -2 * CHARGES])


@pytest.mark.each
@pytest.mark.parametrize(
    "more",
    [{}, {"kappa": 3.0}, {"dipoles": True}, {"epsilon": 0.2}, {"dipoles": True, "epsilon": 1.4}],
    ids=str,
)
@pytest.mark.parametrize(("periodicity", "box"), BOXES)
def test_forces_and_virial_are_derivatives(periodicity, box, more):
    points, charges = cloud()
    scale, dipoles = 1.0, None
    if "dipoles" in more:
        scale = 7.0  # charges and dipoles have different units
        dipoles = 0.3 * scale * np.random.default_rng(2).standard_normal(points.shape)
        labels = np.arange(15) // 2  # which leave out some pairs
        left_out = {} if "epsilon" in more else {"exclude": labels, "exclude_image": "nearest"}
        more = {**more, "virial": True, **left_out}
        more.pop("dipoles")

    def energy(strain, step=0.0, turn=None):
        stretched = np.eye(3) + strain
        cell = [b if b is None or periodicity < 2 else stretched @ b for b in box]
        if periodicity == 1:
            cell = [1.2 * stretched[0, 0], None, None]
        how = {"periodicity": periodicity, "tolerance": 1e-10, **more}
        how["box"] = [edge if edge is None else scale * np.array(edge) for edge in cell]
        turned = dipoles if turn is None else dipoles + turn
        moved = scale * (points + step) @ stretched.T
        return parki.energy(moved, charges, dipoles=turned, **how)

    rng = np.random.default_rng(1)
    step, strain = 1e-4 * rng.standard_normal((15, 3)), 1e-4 * rng.standard_normal((3, 3))
    if periodicity in (1, 2):  # free axes stay normal to the periodic ones
        strain[:periodicity, periodicity:] = strain[periodicity:, :periodicity] = 0
    found = energy(np.zeros((3, 3)))
    pushed = (energy(0 * strain, step).energy - energy(0 * strain, -step).energy) / 2
    strained = (energy(strain).energy - energy(-strain).energy) / 2
    size = scale * np.linalg.norm(found.forces) * np.linalg.norm(step)
    assert abs(pushed + scale * (found.forces * step).sum()) < 1e-5 * size + 1e-8
    assert abs(strained + (found.virial * strain).sum()) < 1e-5 * size + 1e-8
    twice = found.potentials @ charges
    if dipoles is not None:
        twice -= (found.fields * dipoles).sum()
        turned = (energy(0 * strain, turn=step).energy - energy(0 * strain, turn=-step).energy) / 2
        assert turned == pytest.approx(-(found.fields * step).sum(), rel=1e-5)
    assert twice / 2 == pytest.approx(found.energy)


def exact(points, charges, dipoles):
    """Return the energy of charges and dipoles in rows, without images, and their forces."""
    u, v = np.triu_indices(len(points), 1)
    r = points[u] - points[v]
    x = np.linalg.norm(r, axis=1)[:, None]
    (q, p), (d, e) = ((each[u], each[v]) for each in (charges[:, None], dipoles))
    dr, er, de = ((a * b).sum(axis=1, keepdims=True) for a, b in ((d, r), (e, r), (d, e)))
    pairs = q * p / x + (q * er - p * dr + de) / x**3 - 3 * dr * er / x**5
    forces = (q * p * r - q * e + p * d) / x**3 + 3 * (q * er - p * dr + de) * r / x**5
    forces += (3 * (d * er + e * dr) - 15 * dr * er * r / x**2) / x**5
    total = np.zeros_like(points)
    np.add.at(total, u, forces)
    np.add.at(total, v, -forces)
    return pairs.sum(), total


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("dipolar", [False, True], ids=["charges", "dipoles"])
def test_few_points_in_rows_and_in_columns(count, dipolar):
    points, charges = (each[:count] for each in cloud())
    dipoles = dipolar * np.random.default_rng(2).standard_normal(points.shape)
    energy, forces = exact(points, charges, dipoles)
    how = {"periodicity": 0, "tolerance": 1e-10}
    more = {"dipoles": dipoles} if dipolar else {}
    for rows in (True, False, None):
        given = {n: a if rows else a.T.copy() for n, a in {"points": points, **more}.items()}
        if rows is None and count == 3:
            with pytest.raises(parki.ParkiValueError, match=r"\(3, 3\), whose rows .* rows=True"):
                parki.energy(charges=charges, **given, **how)
            continue
        found = parki.energy(charges=charges, rows=rows, **given, **how)
        assert found.energy == pytest.approx(energy, rel=1e-8, abs=1e-8)
        own = found.forces if rows else found.forces.T
        np.testing.assert_allclose(own, forces, atol=1e-7 * (1 + abs(forces).max()))


def test_gaussian_charges_have_an_energy_of_their_own():
    """Two of them in closed form, with what each has alone."""
    points, charges, epsilon = np.array([[0.0, 0, 0], [0.1, 0.2, 0]]), np.array([1.0, -2.0]), 0.15
    found = parki.energy(points, charges, epsilon=epsilon, periodicity=0, tolerance=1e-10)
    r, both = np.hypot(0.1, 0.2), 2**0.5 * epsilon
    expected = 5 / (np.sqrt(2 * np.pi) * epsilon) - 2 * math.erf(r / both) / r
    assert found.energy == pytest.approx(expected, rel=1e-8)
    slope = math.erf(r / both) / r**2 - 2 / np.sqrt(np.pi) / both * np.exp(-((r / both) ** 2)) / r
    np.testing.assert_allclose(found.forces[0], 2 * slope * np.array([0.1, 0.2, 0]) / r, atol=1e-8)


def test_madelung_constant_of_fluorite():
    """Three ions in a cell: see Kittel, Introduction to Solid State Physics, chapter 3."""
    ions = np.array([[0.0] * 3, [0.25] * 3, [0.75] * 3])
    box = parki.lattice(*[0.5**0.5, 0.75**0.5 / 2**0.5, 3**-0.5], *[0.125**0.5] * 2, 24**-0.5)
    cell = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    points = ions @ np.linalg.inv(cell) @ box  # turned
    found = parki.energy(
        points, np.array([2.0, -1, -1]), rows=True, periodicity=3, box=box, tolerance=1e-9
    )
    assert found.energy == pytest.approx(-5.0387849 / (3**0.5 / 4), rel=1e-6)


def test_virial_of_a_tilted_box_whose_height_is_that_of_the_points():
    points, charges = cloud()
    both = [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], None], [[1.0, 0, 0], [0.5, 1.0, 0], [0, 0, 1.0]]
    first, second = (
        parki.energy(points, charges, periodicity=2, box=box, tolerance=1e-9) for box in both
    )
    np.testing.assert_allclose(first.virial, second.virial, atol=1e-5)


def test_systems_have_the_energies_of_each():
    points, charges = cloud()
    boxes, how = (
        [SHEARED, parki.lattice(2.0, 1.5, 1.0, xy=0.2)],
        {"periodicity": 3, "tolerance": 1e-9},
    )
    systems = {"systems": [0, 6, 15], "boxes": boxes, **how}
    found = parki.energy(points, charges, **systems)
    assert found.virial is None
    strained = parki.energy(points, charges, virial=True, **systems)
    np.testing.assert_allclose(strained.energy, found.energy, rtol=1e-7)
    np.testing.assert_allclose(strained.forces, found.forces, atol=1e-6)
    for system, (a, b) in enumerate([(0, 6), (6, 15)]):
        alone = parki.energy(points[a:b], charges[a:b], box=boxes[system], **how)
        assert found.energy[system] == pytest.approx(alone.energy, rel=1e-7)
        np.testing.assert_allclose(found.forces[a:b], alone.forces, atol=1e-6)
        np.testing.assert_allclose(strained.virial[system], alone.virial, atol=1e-6)
    three = points[:3], charges[:3]
    systems |= {"systems": [0, 3, 3], "rows": True}
    alone = parki.energy(*three, rows=True, box=SHEARED, **how)
    assert parki.energy(*three, **systems).energy[0] == pytest.approx(alone.energy, rel=1e-7)


@pytest.mark.parametrize(
    ("periodicity", "box"),
    [BOXES[3], *(pytest.param(*case, marks=pytest.mark.slow) for case in BOXES[:3])],
)
def test_dipoles_are_charges_that_are_apart(periodicity, box):
    """Charges of either sign, and what they feel; the energy within a dipole is that of two."""
    points, charges = cloud()
    dipoles = np.random.default_rng(2).standard_normal(points.shape)
    options = parki.EwaldOptions(periodicity, box, 1e-11)
    found = parki.energy(points, charges, options, dipoles=dipoles)
    half = 1e-4 * dipoles / np.linalg.norm(dipoles, axis=1)[:, None]
    size = np.linalg.norm(dipoles, axis=1) / 2e-4
    labels = np.tile(np.arange(len(points)), 3)  # a dipole's own charges form no pairs
    apart = parki.energy(
        np.concatenate([points, points + half, points - half]),
        np.concatenate([charges, size, -size]),
        options,
        exclude=labels,
    )
    forces = apart.forces.reshape(3, -1, 3).sum(axis=0)
    assert found.energy == pytest.approx(apart.energy, abs=1e-4)
    np.testing.assert_allclose(found.forces, forces, atol=2e-4 * abs(forces).max())
    np.testing.assert_allclose(found.potentials, apart.potentials[: len(points)], atol=2e-4)
    assert found.virial is None and found.fields.shape == points.shape


def test_dipoles_of_systems_and_what_is_refused():
    points, charges = cloud()
    dipoles, offsets = points - 0.5, [0, 6, 6, 15]
    given = {"periodicity": 3, "tolerance": 1e-9, "dipoles": dipoles, "systems": offsets}
    at_once = parki.energy(points, charges, box=[1, 1, 1], **given)
    each = parki.energy(points, charges, boxes=[[1, 1, 1]] * 3, **given)
    np.testing.assert_allclose(each.energy, at_once.energy, atol=1e-6)
    np.testing.assert_allclose(each.fields, at_once.fields, atol=1e-5)
    assert each.energy[1] == 0
    given["box"], alone = [1, 1, 1], {"systems": None, "dipoles": dipoles[6:], "virial": True}
    columns = parki.energy(points.T.copy(), charges, **given | {"dipoles": dipoles.T.copy()})
    np.testing.assert_allclose(columns.forces.T, at_once.forces, atol=1e-9)
    strained = parki.energy(points, charges, virial=True, **given)
    last = parki.energy(points[6:], charges[6:], **given | alone)
    np.testing.assert_allclose(strained.virial[2], last.virial, atol=1e-5)
    refused = {
        "kappa .*dipoles": {"kappa": 1.0},
        "expected that of the points": {"dipoles": dipoles[1:]},
    }
    flows = {"periodicity": 2, "wall": "no-slip", "dipoles": None, "systems": None}
    refused |= {"wall is 'no-slip', which is for flows": flows}
    for words, wrong in refused.items():
        with pytest.raises(parki.ParkiValueError, match=words):
            parki.energy(points, charges, **given | wrong)


LABELS = np.arange(15) // 2


@pytest.mark.parametrize(
    ("error", "words", "wrong"),
    [
        (ValueError, r"points has shape \(15, 2\); expected \(N, 3\)", {"points": POINTS[:, :2]}),
        (ValueError, r"points has shape \(15, 3\).*rows is False", {"rows": False}),
        (ValueError, r"points has shape \(15,\)", {"points": POINTS[:, 0], "rows": True}),
        (TypeError, "rows is 'yes'; expected True", {"rows": "yes"}),
        (ValueError, r"charges has shape \(14,\); expected \(15,\)", {"charges": CHARGES[1:]}),
        (ValueError, r"charges has shape \(15, 1\)", {"charges": CHARGES[:, None]}),
        (ValueError, r"\(2, 15\).*several sets of charges take a call each", {"charges": TWO}),
        (ValueError, r"\(2, 15\)", {"charges": TWO, "systems": [0, 6, 15]}),
        (TypeError, "charges has dtype int64; expected float32", {"charges": np.ones(15, int)}),
        (TypeError, "charges has dtype float32, but points", {"charges": CHARGES.astype("f4")}),
        (ValueError, "kappa was given, and epsilon as well", {"kappa": 1.0, "epsilon": 0.1}),
        (ValueError, "epsilon is -0.1; expected the width", {"epsilon": -0.1}),
        (ValueError, "energy is beyond the largest number", {"charges": CHARGES * 1e200}),
        (ValueError, "charges contains NaN.*index", {"charges": CHARGES * np.nan}),
        (ValueError, "dipoles contains NaN.*index", {"dipoles": POINTS * np.nan}),
        (ValueError, "points contains NaN", {"points": POINTS * np.nan}),
        (ValueError, "points reaches to", {"points": POINTS * 1e9}),
        (ValueError, "exclude differs for targets", {"exclude": (LABELS, LABELS[::-1])}),
        (ValueError, "exclude has 3 labels of points.*15 points given", {"exclude": LABELS[:3]}),
        (ValueError, "boxes was given without systems", {"boxes": [[1, 1, 1]]}),
        (ValueError, "systems differs for targets", {"systems": ([0, 6, 15], [0, 7, 15])}),
        (ValueError, "systems has 2 offsets of points, 0 to 9", {"systems": [0, 9]}),
        (
            ValueError,
            "exclude has 16 labels",
            {"exclude": np.zeros(16, int), "systems": [0, 6, 15], "virial": True},
        ),
    ],
)
def test_refusals_name_what_was_given(error, words, wrong):
    given = {"points": POINTS, "charges": CHARGES, "periodicity": 3, "box": [1, 1, 1], **wrong}
    with pytest.raises(error, match=words) as caught:
        parki.energy(**given)
    assert isinstance(caught.value, parki.ParkiError)
    assert not {"dens", "trg", "src"} & {*str(caught.value).split()}


@pytest.mark.parametrize(
    ("systems", "box"),
    [
        (None, {"box": SHEARED}),
        ([0, 6, 15], {"box": SHEARED}),
        ([0, 6, 15], {"boxes": [SHEARED, 2 * SHEARED]}),
    ],
    ids=["one", "several", "boxes"],
)
def test_one_pass_of_one_placement_has_the_virial(systems, box, monkeypatch):
    placed, convolved = [], []
    place, convolve = Stages.__init__, Stages._far_field
    monkeypatch.setattr(
        Stages, "__init__", lambda own, *a, **k: placed.append(1) or place(own, *a, **k)
    )
    monkeypatch.setattr(
        Stages, "_far_field", lambda own, *a, **k: convolved.append(1) or convolve(own, *a, **k)
    )
    how = {"periodicity": 3, "tolerance": 1e-9, "systems": systems, "virial": True, **box}
    found = parki.energy(POINTS, CHARGES, **how)
    assert found.virial.shape == ((3, 3) if systems is None else (2, 3, 3))
    assert (len(placed), len(convolved)) == (1, 1)


def test_virial_of_dipoles_in_boxes_of_their_own():
    points, charges = cloud()
    dipoles = np.random.default_rng(2).standard_normal(points.shape)
    boxes, how = [SHEARED, 2 * SHEARED], {"periodicity": 3, "tolerance": 1e-9, "virial": True}
    found = parki.energy(points, charges, dipoles=dipoles, systems=[0, 6, 15], boxes=boxes, **how)
    for system, (a, b) in enumerate([(0, 6), (6, 15)]):
        own = points[a:b], charges[a:b]
        alone = parki.energy(*own, dipoles=dipoles[a:b], box=boxes[system], **how)
        np.testing.assert_allclose(found.virial[system], alone.virial, atol=1e-5)
        np.testing.assert_allclose(found.fields[a:b], alone.fields, atol=1e-5)


def test_virial_of_a_first_call_on_each_space(space, to_space):
    """Of which a device places the far field last."""
    parki.clear_cache()
    how = {"periodicity": 3, "box": SHEARED, "tolerance": 1e-9}
    found = [parki.energy(to_space(POINTS.T.copy()), to_space(CHARGES), **how) for _ in range(4)]
    alone = parki.energy(POINTS, CHARGES, **how)
    for each in found:
        assert each.energy == pytest.approx(alone.energy, rel=1e-7)
        np.testing.assert_allclose(each.virial, alone.virial, atol=1e-6)
