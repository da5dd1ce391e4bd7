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


@pytest.mark.parametrize("kappa", [None, 3.0])
@pytest.mark.parametrize(("periodicity", "box"), BOXES)
def test_forces_and_virial_are_derivatives(periodicity, box, kappa):
    points, charges = cloud()

    def energy(strain, step=0.0):
        stretched = np.eye(3) + strain
        cell = box if periodicity < 2 else np.array(box) @ stretched.T
        if periodicity == 1:
            cell = [1.2 * stretched[0, 0], None, None]
        moved = (points + step) @ stretched.T
        return parki.energy(
            moved, charges, periodicity=periodicity, box=cell, tolerance=1e-10, kappa=kappa
        )

    rng = np.random.default_rng(1)
    step, strain = 1e-4 * rng.standard_normal((15, 3)), 1e-4 * rng.standard_normal((3, 3))
    if periodicity in (1, 2):  # free axes stay normal to the periodic ones
        strain[:periodicity, periodicity:] = strain[periodicity:, :periodicity] = 0
    found = energy(np.zeros((3, 3)))
    pushed = (energy(0 * strain, step).energy - energy(0 * strain, -step).energy) / 2
    strained = (energy(strain).energy - energy(-strain).energy) / 2
    size = abs(found.energy) * 1e-4
    assert abs(pushed + (found.forces * step).sum()) < 1e-4 * size + 1e-8
    assert abs(strained + (found.virial * strain).sum()) < 1e-4 * size + 1e-8
    assert found.potentials @ charges / 2 == pytest.approx(found.energy)


def test_rows_and_columns():
    points, charges = cloud()
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-6)
    rows, columns = (parki.energy(x, charges, options) for x in (points, points.T.copy()))
    assert rows.energy == columns.energy
    np.testing.assert_array_equal(rows.forces, columns.forces.T)
    with pytest.raises(parki.ParkiValueError, match="14"):
        parki.energy(points, charges[1:], options)


def test_systems_have_the_energies_of_each():
    points, charges = cloud()
    offsets, boxes = [0, 6, 15], [[1.0, 1.0, 1.0], [2.0, 1.5, 1.0]]
    found = parki.energy(
        points, charges, periodicity=3, systems=offsets, boxes=boxes, tolerance=1e-9
    )
    assert found.virial is None
    for system, (a, b) in enumerate([(0, 6), (6, 15)]):
        alone = parki.energy(
            points[a:b], charges[a:b], periodicity=3, box=boxes[system], tolerance=1e-9
        )
        assert found.energy[system] == pytest.approx(alone.energy, rel=1e-7)
        np.testing.assert_allclose(found.forces[a:b], alone.forces, atol=1e-6)


def test_walls_are_refused():
    points, charges = cloud()
    with pytest.raises(parki.ParkiValueError, match="wall"):
        parki.energy(points, charges, periodicity=2, box=[1, 1, 1], wall="no-slip")
