"""`parki.energy`: rock salt, derivatives by differences, systems, and what it refuses."""

import numpy as np
import pytest

import parki

SHEARED = parki.lattice(1.0, 1.2, 0.9, xy=0.3, xz=-0.2)
BOXES = [
    (3, SHEARED),
    (2, [[1.0, 0.2, 0.0], [0.0, 1.3, 0.0], [0.0, 0.0, 1.0]]),
    (1, [1.2, None, None]),
    (0, [None] * 3),
]


def cloud(n: int = 15):
    """Return points (n, 3) that are not close to each other, and charges with a net charge."""
    rng = np.random.default_rng(0)
    grid = np.indices((3, 3, 3)).reshape(3, 27).T[rng.permutation(27)[:n]]
    return 0.28 * grid + 0.05 + 0.08 * rng.random((n, 3)), rng.standard_normal(n)


@pytest.mark.each
@pytest.mark.parametrize("more", [{}, {"kappa": 3.0}, {"dipoles": True}], ids=str)
@pytest.mark.parametrize(("periodicity", "box"), BOXES)
def test_forces_and_virial_are_derivatives(periodicity, box, more):
    points, charges = cloud()
    scale, dipoles = 1.0, None
    if "dipoles" in more:
        scale = 7.0  # charges and dipoles have different units
        dipoles = 0.3 * scale * np.random.default_rng(2).standard_normal(points.shape)
        labels = np.arange(15) // 2  # which leave out some pairs
        more = {"virial": True, "exclude": labels, "exclude_image": "nearest"}

    def energy(strain, step=0.0, turn=None):
        stretched = np.eye(3) + strain
        cell = box if periodicity < 2 else np.array(box) @ stretched.T
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
    refused = {"kappa .*dipoles": {"kappa": 1.0}, "dipoles": {"dipoles": dipoles[1:]}}
    refused |= {"wall": {"periodicity": 2, "wall": "no-slip", "dipoles": None}}
    for words, wrong in refused.items():
        with pytest.raises(parki.ParkiValueError, match=words):
            parki.energy(points, charges, **given | wrong)
    with pytest.raises(parki.ParkiValueError, match="14"):
        parki.energy(points, charges[1:], **given)
