"""Brinkman's equation: tables of the split, kernels that end, limits, the promise, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.polynomial import chebyshev

import parki
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.far import friction
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.prolate import Prolate
from parki.ewald.split.screened import LEAST, MOST, Friction, with_friction
from parki.reference import direct_sum

BOX = (1.0, 1.3, 0.8)
TILTED = ((1.0, 0.0, 0.0), (0.3, 1.3, 0.0), (0.0, 0.0, 0.8))
WANT = ("u", "p", "grad_u")
SPLITS = [Prolate(6.0, 1.0), Prolate(30.0, 1.0), Hasimoto(2.0, 1.0), Hasimoto(5.0, 1.0)]


def slow(*case):
    """Return a case of the long run alone."""
    return pytest.param(*case, marks=pytest.mark.slow)


def name(alpha):
    return f"brinkman_sl(alpha={float(alpha)!r})"


def cloud(n=40, box=BOX, seed=0):
    """Return targets, of which some are sources; sources; and forces."""
    rng = np.random.default_rng(seed)
    edges = np.diag(box)[:, None] if np.ndim(box) == 2 else np.array(box)[:, None]
    src = rng.random((3, n)) * edges
    trg = np.concatenate([src[:, :5], rng.random((3, 7)) * edges], 1)
    return trg, src, rng.standard_normal((3, n))


def root(values):
    return float(np.sqrt((values.reshape(-1, values.shape[-1]) ** 2).sum(axis=0).mean()))


def stokeslets(alpha, away, forces):
    """Return the velocities (3, N) of forces (3, N) at these distances, without an Ewald sum."""
    r = np.sqrt((away**2).sum(axis=0))
    y, b = 2 * np.exp(-alpha * r) / r, friction.shape(alpha * r) / r
    return (y - b) * forces + (3 * b - y) / r**2 * (away * forces).sum(axis=0) * away


# ---------------------------------------------------------------------- the split
@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
@pytest.mark.parametrize("alpha", [1e-6, 0.5, 4.0, 40.0, 290.0, 310.0, 1e4])
def test_near_and_far_field_are_the_whole(split, alpha):
    """The near field ends at the cut-off, where the tables are the singular functions."""
    own = Friction(split, alpha)
    tables, bare = own.series(1.0), split.series(1.0)
    mean, slope = (chebyshev.chebval(1.0, each) for each in (tables.L, tables.X))
    shape, jump = float(friction.shape(np.array(alpha))), float((bare.S - bare.L).sum())
    allowed = 1e-10
    if alpha > 300:  # a layer at the cut-off is left out
        allowed += 2e-9 + 10 * abs(jump) / alpha
    assert abs(2 * mean - shape) < allowed
    edge = 3 * shape - 2 * math.exp(-alpha) - 2 * own.beta * jump
    assert abs(2 * slope - edge) < 10 * allowed
    # They are derivatives of each other: T_1 = -T_0' / r, with s = 2 r^2 - 1.
    s = np.linspace(-1, 1, 21)
    steps = -4 * chebyshev.chebval(s, chebyshev.chebder(tables.L))
    np.testing.assert_allclose(chebyshev.chebval(s, tables.X), steps, atol=1e-9 * abs(steps).max())


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_without_friction_the_tables_are_those_of_stokes(split):
    found, exact = Friction(split, 1e-7).series(1.0), split.series(1.0)
    for field in "LSXRW":
        s = np.linspace(-1, 1, 31)
        own, other = (chebyshev.chebval(s, getattr(of, field)) for of in (found, exact))
        np.testing.assert_allclose(own, other, atol=1e-6 * abs(other).max())


# ---------------------------------------------------------------------- sums
@pytest.mark.each
@pytest.mark.parametrize("tolerance", [1e-4, 1e-9])
@pytest.mark.parametrize(
    ("periodicity", "box"),
    [(0, BOX), (1, BOX), (2, TILTED), (3, BOX), slow(2, BOX), slow(3, TILTED)],
)
def test_promise(periodicity, box, tolerance):
    trg, src, forces = cloud(box=box)
    how = {"box": box, "periodicity": periodicity}
    for alpha in (0.8, 25.0):
        exact = direct_sum(name(alpha), trg, src, forces, want=WANT, **how)
        plan = parki.Plan(name(alpha), trg, src, tolerance=tolerance, want=WANT, **how)
        found, promises = plan(forces), plan.promise(forces)
        for one, other, promise in zip(found, exact, promises, strict=True):
            assert root(one - other) <= promise


@pytest.mark.parametrize("periodicity", [1, 3, slow(0), slow(2)])
def test_promise_of_layers(periodicity):
    trg, src, q = cloud()
    norms = np.random.default_rng(1).standard_normal(src.shape)
    how = {"box": BOX, "periodicity": periodicity, "want": WANT}
    exact = direct_sum("brinkman_dl(alpha=2.0)", trg, src, q, norms, **how)
    how |= {"dl_mean": "zero"} if periodicity == 3 else {}
    plan = parki.Plan("brinkman_dl", trg, src, norms, tolerance=1e-6, alpha=2.0, **how)
    for one, other, promise in zip(plan(q), exact, plan.promise(q), strict=True):
        assert root(one - other) <= promise


@pytest.mark.parametrize("kernel", [name(2.0), "brinkman_dl(alpha=2.0)"])
def test_the_reference_solves_the_equation(kernel):
    """Away from sources, by differences: alpha^2 u - laplace u + grad p = 0."""
    trg, src, dens = cloud(n=9)
    norms = np.random.default_rng(1).standard_normal(src.shape) if "dl" in kernel else None
    x, step = trg + np.array([[3.0], [0], [0]]), 1e-3

    def fields(move):
        there = x + move[:, None]
        return direct_sum(kernel, there, src, dens, norms, periodicity=0, want=("u", "p"))

    u, around = fields(np.zeros(3))[0], [map(fields, (e, -e)) for e in step * np.eye(3)]
    sides = [[*each] for each in around]
    bent = sum(one[0] - 2 * u + other[0] for one, other in sides) / step**2
    slope = np.array([one[1] - other[1] for one, other in sides]) / (2 * step)
    assert np.abs(4 * u - bent + slope).max() < 1e-5 * np.abs(slope).max()


def test_forces_along_a_line_by_all_images():
    """Without an Ewald sum, and without another sum of parki."""
    trg, src, forces = cloud(n=6)
    plan = parki.Plan("brinkman_sl", trg, src, periodicity=1, box=BOX, tolerance=1e-6, alpha=9.0)
    exact = np.zeros_like(trg)
    for n in range(-400, 401):
        for source, force in zip(src.T, forces.T, strict=True):
            away = trg - source[:, None] - np.array([[n * BOX[0]], [0], [0]])
            there = (away**2).sum(axis=0) > 0
            exact[:, there] += stokeslets(9.0, away[:, there], force[:, None])
    assert root(plan(forces) - exact) < plan.promise(forces) + 1e-5


@pytest.mark.parametrize("periodicity", range(4))
def test_little_friction(periodicity):
    """Forces that add up to zero move the fluid as without friction, and as accurately.

    With two free axes or fewer their sum moves all fluid, the more the less friction there is.
    """
    trg, src, forces = cloud()
    how = {"box": BOX, "periodicity": periodicity, "tolerance": 1e-8, "want": WANT}
    neutral = forces - forces.mean(axis=1, keepdims=True)
    bare = parki.Plan("stokes_sl", trg, src, **how)
    for alpha in (1e-4, 1e-7):
        plan = parki.Plan(name(alpha), trg, src, **how)
        found = zip(plan(neutral), bare(neutral), plan.promise(neutral), strict=True)
        for one, other, promise in found:
            assert root(one - other) <= 2 * promise + 30 * alpha
    if periodicity == 2:
        constant = 4 * math.pi / (alpha * BOX[0] * BOX[1]) * forces.sum(axis=1) * [1, 1, 0]
        rest = plan(forces)[0] - constant[:, None]
        assert root(rest - bare(forces)[0]) < 1e-5


@pytest.mark.parametrize("periodicity", range(4))
def test_much_friction(periodicity):
    """Then forces have potential flow: alpha^2 u is a field of dipoles."""
    trg, src, forces = cloud()
    trg = trg[:, 5:]
    how = {"box": BOX, "periodicity": periodicity}
    plan = parki.Plan(name(2e3), trg, src, tolerance=1e-12, **how)
    exact = -2 * direct_sum("laplace_dipole", trg, src, forces, want="grad_u", **how)
    if periodicity == 3:  # a mean pressure gradient balances the forces
        exact -= 8 * math.pi * forces.sum(axis=1, keepdims=True) / math.prod(BOX)
    assert root(4e6 * plan(forces) - exact) <= 4e6 * plan.promise(forces)


def test_friction_that_is_none():
    trg, src, forces = cloud()
    how = {"box": BOX, "periodicity": 3}
    for alpha in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ParkiValueError, match="expected a positive, finite number"):
            parki.brinkman_sl(trg, src, forces, alpha=alpha, **how)
    with pytest.raises(ParkiTypeError, match="needs alpha"):
        parki.Plan("brinkman_sl", trg, src, **how)
    for alpha in (LEAST / 3, 3 * MOST):
        with pytest.raises(ParkiValueError, match="alpha times the size of the box is"):
            with_friction(SPLITS[0], alpha)
