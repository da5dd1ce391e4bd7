"""Energies of charges near and between plates: derivatives, capacitances, tensors."""

from __future__ import annotations

import numpy as np
import pytest
from between_plates import BOX, METAL, VALUE, WALLS, options
from contract import rms

import parki


def ions(wall):
    """Return six points, and charges, which add up to zero near dielectrics alone."""
    rng = np.random.default_rng(6)
    x = rng.random((3, 6)) * [[1], [1.2], [0.42]] + [[0], [0], [0.14]]
    q = rng.standard_normal(6)
    return x, q if -1 in WALLS[wall] else q - q.mean()


# Sums of modes and of 48 images, by another program.
ENERGIES = {
    METAL: -11.6357226121,
    (0.6, -0.4): -5.76819322,
    (0.95, 0.95): -2.90959699,
}
MORE = {
    "charges": {},
    "dipoles": {"dipoles": 0.1 * np.random.default_rng(7).standard_normal((3, 6))},
    "widths": {"epsilon": 0.05 * np.arange(1, 7)},
    "labels": {"exclude": [0, 0, 1, 1, -1, -1], "exclude_image": "nearest"},
}


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_forces_and_fields_are_derivatives(wall, more):
    x, q = ions(wall)
    how = {"box": BOX, "periodicity": 2, "tolerance": 1e-9, "wall": wall, **MORE[more]}
    how |= {"voltage": 0.3} if wall == METAL else {}
    found = parki.energy(x, q, **how)
    rng, step = np.random.default_rng(8), 1e-4

    def slope(name, move):
        """Return the derivative of the energy along a move of points, charges or dipoles."""
        inputs = {"points": x, "charges": q, **how}
        ends = [parki.energy(**inputs | {name: inputs[name] + s * move}) for s in (step, -step)]
        return (ends[0].energy - ends[1].energy) / (2 * step)

    move = rng.standard_normal((3, 6))
    assert slope("points", move) == pytest.approx(-(found.forces * move).sum(), rel=1e-5)
    change = rng.standard_normal(6)
    change -= change.mean()
    assert slope("charges", change) == pytest.approx(found.potentials @ change, rel=1e-7)
    if more == "dipoles":
        assert slope("dipoles", move) == pytest.approx(-(found.fields * move).sum(), rel=1e-7)
    assert found.virial is None


@pytest.mark.parametrize("wall", ENERGIES, ids=str)
def test_energies(wall):
    x, q = ions(wall)
    how = {"box": BOX, "periodicity": 2, "tolerance": 1e-9, "wall": wall}
    assert parki.energy(x, q, **how).energy == pytest.approx(ENERGIES[wall], abs=1e-7)


def test_charges_of_plates():
    """A plate over a charge takes the part z / H of it; a single plate takes all."""
    x, q = ions(METAL)
    how = {"box": BOX, "periodicity": 2, "tolerance": 1e-6}
    dipoles = MORE["dipoles"]["dipoles"]
    found = parki.energy(x, q, **how, wall=METAL, dipoles=dipoles, voltage=0.3)
    upper = 1.2 * 0.3 / (4 * np.pi * 0.7) - (q @ x[2] + dipoles[2].sum()) / 0.7
    assert found.plate_charges == pytest.approx([-q.sum() - upper, upper])
    # The energy's slope by the voltage is minus this charge.
    ends = [parki.energy(x, q, **how, wall=METAL, voltage=v).energy for v in (0.31, 0.29)]
    at_rest = parki.energy(x, q, **how, wall=METAL, voltage=0.3)
    assert (ends[0] - ends[1]) / 0.02 == pytest.approx(-at_rest.plate_charges[1], rel=1e-6)
    one = parki.energy(x.T, q, **how, wall="metal")
    assert one.plate_charges == pytest.approx([-q.sum()]) and one.forces.shape == (6, 3)
    assert parki.energy(x, q - q.mean(), **how, wall=0.6).plate_charges is None


def test_capacitance_of_planes_of_soft_charges():
    """8 x 8 atoms have the same charge over metal as over their mirror images at minus V."""
    side = (np.arange(8) + 0.5) / 8
    x, y = (each.ravel() for each in np.meshgrid(side, side))
    lower, upper = (np.stack([x, y, np.full(64, z)]) for z in (0.1, 0.9))
    both = np.concatenate([lower, upper], axis=1)
    how = {"periodicity": 2, "tolerance": 1e-6, "epsilon": np.sqrt(2) / 16}
    free = parki.Plan("laplace", both, both, box=[1, 1, 1], **how)
    volts = np.repeat([-0.5, 0.5], 64)
    alone = parki.equilibrate(free, -volts, total=0.0)
    assert alone.values[64:].sum() == pytest.approx(0.106066, abs=2e-5)  # 1.066 A / (4 pi d)
    over = upper - [[0], [0], [0.5]]
    metal = parki.Plan("laplace", over, over, box=[1, 1, 1], wall="metal", **how)
    found = parki.equilibrate(metal, -volts[64:])
    assert found.values.sum() == pytest.approx(0.106066, abs=2e-5)
    # As rows of atoms are planes that lie deeper, by the same depth in the middle of a slit.
    depth = 0.4 - 0.5 / (4 * np.pi * found.values.sum())
    slit = parki.Plan("laplace", over, over, box=[1, 1, 0.8], wall=METAL, **how)
    between = parki.equilibrate(slit, -volts[64:]).values.sum()
    assert between == pytest.approx(0.5 / (4 * np.pi * (0.2 - depth)), rel=1e-4)


def test_energies_of_tensors():
    torch = pytest.importorskip("torch")
    import parki.torch

    x, q = ions("metal")
    how = {"box": BOX, "periodicity": 2, "tolerance": 1e-6}
    points = torch.tensor(x, requires_grad=True)
    for wall in ("metal", METAL):
        found = parki.energy(x, q, **how, wall=wall)
        energy = parki.torch.energy(points, torch.tensor(q), **how, wall=wall)
        assert float(energy.detach()) == pytest.approx(found.energy, rel=1e-5)
        (slopes,) = torch.autograd.grad(energy, points)
        assert -slopes.numpy() == pytest.approx(found.forces, abs=1e-4 * rms(found.forces))
    with pytest.raises(VALUE, match="voltage was given, which sums of tensors and of arrays"):
        parki.torch.energy(points, torch.tensor(q), **how, wall=METAL, voltage=0.3)
    with pytest.raises(VALUE, match="voltage was given, which sums of tensors and of arrays"):
        parki.torch.laplace(points, points, torch.tensor(q), options(voltage=0.3))
    edges = torch.diag(torch.tensor(BOX, dtype=torch.float64)).requires_grad_()
    energy = parki.torch.energy(points, torch.tensor(q), wall=METAL, **{**how, "box": edges})
    with pytest.raises(
        VALUE, match=r"wrt .box. was given, but wall is \(.metal., .metal.\); between"
    ):
        energy.backward()


def test_forces_of_tensors_have_derivatives():
    """Between plates of metal, whose sums are all that there is."""
    torch = pytest.importorskip("torch")
    import parki.torch

    x, q = ions(METAL)
    points = torch.tensor(x, requires_grad=True)
    rng = np.random.default_rng(9)
    weights, move = rng.standard_normal((2, 3, 6))

    def forces(at):
        energy = parki.torch.energy(at, torch.tensor(q), options(tolerance=1e-9))
        return torch.autograd.grad(energy, at, create_graph=True)[0]

    (slopes,) = torch.autograd.grad((forces(points) * torch.tensor(weights)).sum(), points)
    ends = [
        (forces(torch.tensor(x + s * move, requires_grad=True)).detach().numpy() * weights).sum()
        for s in (1e-5, -1e-5)
    ]
    change = (slopes.numpy() * move).sum()
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(change, rel=1e-5)
