"""Regularised sums: blobs in place of points, in every periodicity, of every size."""

from __future__ import annotations

import itertools
import os
import pickle

import numpy as np
import pytest
from clouds import FLAT, edges_of
from contract import SMALL, Case, assert_promised, costs_of_a_device, rms, sweep
from few import wanted
from scipy.special import erf, kv

import parki
from parki.cli.arguments import kernel_name
from parki.errors import ParkiValueError
from parki.ewald.split.core import split_of
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.sums import SUMS, in_unit, kernel
from parki.ewald.sums.pairs import Blob
from parki.ewald.sums.results import of_one, of_result
from parki.reference import direct_sum
from parki.runtime.specialise import specialise

KINDS = ("stokes_sl", "stokes_dl", "stokes_comb", "stokes_dipole")
CHARGES = ("laplace", "laplace_dipole")
BLOBS = ("gaussian", "prolate")
# Radius of a sphere of the same mobility, over epsilon: see docs/api.md.
RADIUS = {"gaussian": 0.5908, "prolate": 0.1671, "cortez": 2 / 3}
FIELDS = ("u", "p", "grad_u")
# Where the sweep is; a GPU's is PARKI_TEST_SPACE=Cuda.
SPACE = os.environ.get("PARKI_TEST_SPACE", "CPU")


class Given:
    """A sum of some points, of which some are close to each other, and some coincide."""

    def __init__(self, name, n=80, box=(1.0, 1.0, 1.0), seed=0, dtype="f8"):
        rng = np.random.default_rng(seed)
        record = SUMS[name]
        width = record.pair.blob.epsilon if record.pair.blob else 0.1
        self.name, self.box = record.name, list(box)
        src = rng.random((3, n)) * np.array(box)[:, None]
        src[:, 0] = 0.4 * np.array(box)
        src[:, 1] = src[:, 0] + 1e-3 * width
        src[:, 2] = src[:, 0] + 0.3 * width
        trg = np.concatenate([src[:, : n // 2], rng.random((3, n // 3))], axis=1)
        self.src, self.trg = src.astype(dtype), trg.astype(dtype)
        self.dens = rng.standard_normal(record.density_shape(n)).astype(dtype)
        self.norms = rng.standard_normal((3, n)).astype(dtype) if record.normals else None

    def plan(self, periodicity, tolerance, want="u", **options):
        options = parki.EwaldOptions(periodicity, self.box, tolerance, **options)
        return parki.Plan(self.name, self.trg, self.src, self.norms, options, want=want)

    def direct(self, periodicity, want="u"):
        how = {"box": self.box, "periodicity": periodicity, "want": want}
        return direct_sum(self.name, self.trg, self.src, self.dens, self.norms, **how)

    def check(self, plan, roundings=200):
        """Assert the promise of a plan whose results are a tuple."""
        exact = self.direct(plan.options.periodicity, plan.want)
        assert_promised(plan, self.dens, exact, roundings * np.finfo(self.src.dtype).eps)


def name_of(family, epsilon, blob="gaussian"):
    return str(kernel(family, epsilon=epsilon, blob=blob))


def fields_of(family):
    return ("u", "grad_u") if family in CHARGES else FIELDS


# From points, by way of a step of the grid and the cut-off, to a part of the box.
SIZES = (1e-7, 0.03, 0.12, 0.4)


@pytest.mark.each
@pytest.mark.parametrize("periodicity", [3, 0, 1, 2])
@pytest.mark.parametrize("family", KINDS + CHARGES)
def test_against_direct_sums(family, periodicity):
    number = (KINDS + CHARGES).index(family) + periodicity
    for epsilon, tolerance in zip(SIZES, (1e-4, 1e-6, 1e-4, 1e-6), strict=True):
        number += 1
        blob = "gaussian" if epsilon == SIZES[-1] else BLOBS[number % 2]
        given = Given(name_of(family, epsilon, blob))
        given.check(given.plan(periodicity, tolerance, fields_of(family)))


@pytest.mark.parametrize("blob", BLOBS)
def test_large_blobs_are_left_to_the_grid(blob):
    """Where the near field would be most of the box, the grid has all of it."""
    rng = np.random.default_rng(0)
    points, dens = rng.random((2, 3, 2000))
    for epsilon in (0.02, 0.5):
        options = parki.EwaldOptions(3, [1, 1, 1], 1e-4)
        plan = parki.Plan(name_of("stokes_sl", epsilon, blob), points, points, options=options)
        chosen = plan.parameters
        assert chosen.core.everywhere == (epsilon == 0.5)
        assert ("none, the grid has all of the blobs" in plan.describe()) == (epsilon == 0.5)
        assert chosen.near < chosen.cutoff if epsilon == 0.5 else chosen.near == chosen.cutoff
        exact = direct_sum(plan.kernel, points[:, :10], points, dens, options=options)
        assert rms(plan(dens)[:, :10] - exact) <= 2 * plan.promise(dens)  # of few targets


@pytest.mark.parametrize("blob", RADIUS)
def test_the_hydrodynamic_radius(blob):
    """A blob that is pushed moves as a sphere does, with a velocity of 4 f / (3 a)."""
    epsilon, origin, force = 0.02, np.zeros((3, 1)), np.array([[1.0], [2.0], [-1.0]])
    options = parki.EwaldOptions(0, [1, 1, 1], 1e-4)
    found = parki.Plan(name_of("stokes_sl", epsilon, blob), origin, origin, options=options)(force)
    np.testing.assert_allclose(found, 4 * force / (3 * RADIUS[blob] * epsilon), rtol=2e-4)
    if blob in BLOBS:
        psi0 = split_of(Blob(blob, 1.0)).psi0
        np.testing.assert_allclose(RADIUS[blob], 1 / (3 * psi0), rtol=2e-4)


@pytest.mark.parametrize(
    "family", [*(pytest.param(f, marks=pytest.mark.slow) for f in KINDS[:2]), *KINDS[2:]]
)
def test_blobs_of_cortez_in_free_space(family):
    """Also with the smallest cut-off that there is, where the error is what was predicted."""
    for epsilon, tolerance in ((0.02, 1e-3), (0.003, 1e-6)):
        given = Given(name_of(family, epsilon, "cortez"))
        plan = given.plan(0, tolerance, FIELDS)
        given.check(plan)
        length = float(np.prod(plan.box)) ** (1 / 3)
        least = plan.parameters.core.radius * length
        assert least > 5 * epsilon
        given.check(given.plan(0, tolerance, FIELDS, cutoff=1.01 * least))


def test_derivatives_of_blobs_of_cortez_by_sources():
    """They take one more power of 1 / (r^2 + epsilon^2) than values and gradients."""
    given = Given(name_of("stokes_dl", 0.004, "cortez"))
    values, move = np.random.default_rng(1).standard_normal((2, *given.trg.shape))
    move, step, products = np.tile(move, 2)[:, : given.src.shape[1]], 1e-6, []
    inputs = given.trg, given.src, given.dens, given.norms
    options = parki.EwaldOptions(0, given.box, 1e-5)
    pulled = parki.vjp(given.name, *inputs, options, values=values, wrt=("src",))["src"]
    middle = given.src
    for sign in (1, -1):
        given.src = middle + sign * step * move
        products.append((values * given.direct(0)).sum())
    slope = (products[0] - products[1]) / (2 * step)
    np.testing.assert_allclose((pulled * move).sum(), slope, rtol=1e-5)


def test_blobs_of_cortez_in_a_box():
    """All modes of the blob's own transform, without a split."""
    epsilon = 0.06
    given = Given(name_of("stokes_sl", epsilon, "cortez"), n=20)
    plan = given.plan(3, 1e-2)
    wave = 2 * np.pi * np.arange(-36, 37)
    there, (x, y, z) = (
        [np.exp(1j * wave[:, None] * row) for row in points] for points in (given.trg, -given.src)
    )
    exact = np.zeros(given.trg.shape)
    for n, first in enumerate(wave):
        sums = np.einsum("ys,zs,s,is->iyz", y, z, x[n], given.dens)
        k = np.stack(np.meshgrid([first], wave, wave, indexing="ij"))[:, 0]
        k2 = (k**2).sum(axis=0)
        k2[k2 == 0] = np.inf
        x2 = np.minimum(k2, 1e6) * epsilon**2
        size = 8 * np.pi / k2 * x2 * kv(2, np.sqrt(x2)) / 2
        flow = size * (sums - k * (k * sums).sum(axis=0) / k2)
        exact += np.einsum("iyz,yt,zt,t->it", flow, there[1], there[2], there[0][n]).real
    assert rms(plan(given.dens) - exact) <= plan.promise(given.dens)


def test_blobs_of_cortez_that_are_too_large():
    given = Given(name_of("stokes_sl", 0.2, "cortez"))
    with pytest.raises(ParkiValueError, match=r"needs a cutoff of .* 1\.128 times as large"):
        given.plan(3, 1e-6)
    given = Given(name_of("stokes_sl", 0.003, "cortez"))
    measured = given.plan(3, 1e-3).check(given.dens)
    assert measured.error <= 2 * measured.promise  # of few targets
    with pytest.raises(ParkiValueError, match="blob='cortez' needs the prolate split, but"):
        given.plan(3, 1e-4, expert=parki.Expert(split="hasimoto"))
    with pytest.raises(ValueError, match="'cortez', which direct_sum has in free space alone"):
        given.direct(3)
    np.testing.assert_allclose(1.128 * RADIUS["gaussian"], RADIUS["cortez"], rtol=1e-3)
    np.testing.assert_allclose(3.989 * RADIUS["prolate"], RADIUS["cortez"], rtol=1e-3)


@pytest.mark.parametrize("blob", BLOBS)
def test_the_flow_within_a_blob(blob):
    """It has no sources, and the stress of the pressure and gradient that are summed with it."""
    given = Given(name_of("stokes_sl", 0.2, blob), n=30)
    _, p, grad, stress = given.plan(3, 1e-7, (*FIELDS, "stress"))(given.dens)
    assert np.abs(np.trace(grad)).max() <= 1e-5 * np.abs(grad).max()
    symmetric = grad + grad.swapaxes(0, 1) - p * np.eye(3)[:, :, None]
    np.testing.assert_allclose(stress, symmetric, atol=1e-9 * np.abs(stress).max())
    middle, step = given.trg, 1e-5
    for axis in range(3):
        slope = 0.0
        for sign in (1, -1):
            given.trg = middle + sign * step * np.eye(3)[:, [axis]]
            slope = slope + sign * given.direct(3) / (2 * step)
        assert np.abs(slope - grad[:, axis]).max() <= 1e-5 * np.abs(grad).max()


def sweep_of_blobs(number, seed, kinds=KINDS, **which):
    """Yield cases of the sweep with blobs of any size."""
    rng = np.random.default_rng(seed)
    cases = (case for case in sweep((SMALL,), seed=seed, **which) if case.kernel in kinds)
    for case in itertools.islice(cases, number):
        length = float(np.prod(edges_of(case.box))) ** (1 / 3)
        epsilon = float(f"{length * 10 ** rng.uniform(-3, -0.3):.3g}")
        yield case._replace(kernel=name_of(case.kernel, epsilon, BLOBS[rng.integers(2)]))


def _marked(cases, always):
    return [
        pytest.param(case, id=str(case), marks=() if number < always else pytest.mark.slow)
        for number, case in enumerate(wanted(cases, always))
    ]


def check(case: Case, space: str = SPACE):
    try:
        outcomes = case.outcomes(space)
    except ParkiValueError as error:
        assert "no grid reaches tolerance" in str(error)  # noqa: PT017
        assert case.tolerance < 1e-12
        return
    unit = np.finfo("f8" if case.dtype == "f8" else "f4").eps
    for outcome in outcomes:
        allowed = outcome.promise + outcome.rounding
        if outcome.field != "u":
            # The pressure rounds as the gradient within a blob, of which it may be a small part.
            allowed += 32 * unit * case._replace(want=("grad_u",)).reference()[1]["grad_u"]
        # "Known limits" of docs/accuracy.md: rounding of the grid in boxes far wider than long.
        assert outcome.error <= (2 if case.tolerance < 1e-10 else 1) * allowed, outcome


@pytest.mark.chosen_degrees
@pytest.mark.parametrize("case", _marked(sweep_of_blobs(400, 1), 2))
def test_the_promise(case):
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*wanted(sweep_of_blobs(100, 3, CHARGES), 0)], ids=str)
def test_the_promise_of_charges(case):
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*wanted(sweep_of_blobs(200, 2, boxes=FLAT), 0)], ids=str)
def test_the_promise_by_costs_of_a_device(case):
    with costs_of_a_device():
        check(case)


def test_charges_are_gaussians():
    """All modes of their transform in a sheared box, and erf(r / epsilon) / r without images."""
    epsilon, box = 0.15, parki.lattice(1.0, 1.1, 0.9, xy=0.3, yz=-0.2)
    given = Given(name_of("laplace", epsilon), n=20, seed=1)
    given.dens += 0.3  # the mean potential is zero, whatever charges add up to
    modes = np.stack(np.meshgrid(*[np.arange(-16, 17)] * 3)).reshape(3, -1)
    k = 2 * np.pi * np.linalg.inv(box) @ modes[:, modes.any(axis=0)]
    k2 = (k**2).sum(axis=0)
    size = 4 * np.pi / (k2 * np.linalg.det(box)) * np.exp(-k2 * epsilon**2 / 4)
    sums = np.exp(-1j * given.src.T @ k).T @ given.dens
    plan = parki.Plan(given.name, given.trg, given.src, periodicity=3, box=box, tolerance=1e-8)
    exact = (np.exp(1j * given.trg.T @ k) @ (size * sums)).real
    assert rms(plan(given.dens) - exact) <= plan.promise(given.dens)
    r = np.linalg.norm(given.trg[:, :, None] - given.src[:, None], axis=0)
    pairs = np.divide(
        erf(r / epsilon), r, out=np.full(r.shape, 2 / np.pi**0.5 / epsilon), where=r > 0
    )
    plan = given.plan(0, 1e-8)
    assert rms(plan(given.dens) - pairs @ given.dens) <= plan.promise(given.dens)


def test_the_transposed_pressure():
    """It has the shape of the blob, of forces and of layers with any mean."""
    for family in ("stokes_sl", "stokes_comb"):
        given = Given(name_of(family, 0.05))
        values = np.random.default_rng(1).standard_normal(given.trg.shape[1])
        if family == "stokes_sl":
            back = given.plan(3, 1e-6, "p").adjoint(values)
        else:
            pressure, how = of_result(of_one(SUMS[given.name]), "p"), {"dl_mean": "flux"}
            how |= {"periodicity": 3, "box": given.box, "tolerance": 1e-6, "values": values}
            arrays = given.trg, given.src, given.dens, given.norms
            back = parki.vjp(pressure, *arrays, wrt=("dens",), **how)["dens"]
        product = (values * given.direct(3, "p")).sum()
        size = rms(back) * np.linalg.norm(given.dens)
        assert abs((back * given.dens).sum() - product) <= 1e-6 * size


@pytest.mark.parametrize("variant", ["gm1d", pytest.param("sm2d", marks=pytest.mark.slow), "tile"])
def test_variants(variant):
    """All variants of P2P have blobs, at one of which several densities are summed at once."""
    given = Given(name_of("stokes_comb", 0.1), n=150)
    usual, other = (
        given.plan(3, 1e-4, **how) for how in ({}, {"expert": parki.Expert(p2p_method=variant)})
    )
    np.testing.assert_allclose(other(given.dens), usual(given.dens), atol=1e-9)
    both = np.stack([given.dens, 2 * given.dens[::-1]])
    np.testing.assert_allclose(other(both)[0], usual(given.dens), atol=1e-9)


def test_names():
    """A sum with parameters is a value: equal, hashed, pickled and read back by its name."""
    for each in BLOBS:
        assert SUMS[f"stokes_dl(epsilon=0.0, blob={each!r})"] is SUMS["stokes_dl"]
    blob = kernel("stokes_sl", epsilon=np.float64(0.05))
    assert blob == "stokes_sl(epsilon=0.05)" == SUMS["stokes_sl( epsilon = 5e-2 )"].name
    assert pickle.loads(pickle.dumps(blob)) == blob
    other = kernel("stokes_sl", epsilon=1, blob="prolate")
    assert other == "stokes_sl(epsilon=1.0, blob='prolate')"
    assert kernel_name("stokes_sl(epsilon=5e-2)") == blob  # of parki eval --kernel
    assert in_unit(blob, 0.5) == "stokes_sl(epsilon=0.1)"
    for record in map(SUMS.__getitem__, (blob, "stokes_comb(epsilon=0.05)")):
        others = [each.kernel for each in record.adjoints.values()]
        assert all("(epsilon=0.05)" in other for other in others)
    assert SUMS[blob].dipoles == "stokes_dipole(epsilon=0.05)"


def test_impossible_options():
    given = Given(name_of("stokes_sl", 0.1))
    words = r"radial is 'erfc', but stokes_sl\(epsilon=0\.1\) has polynomials alone"
    with pytest.raises(ParkiValueError, match=words):
        given.plan(3, 1e-4, expert=parki.Expert(radial="erfc", split="hasimoto"))
    with pytest.raises(ParkiValueError, match=r"cutoff is 0\.2, but the blobs of"):
        given.plan(3, 1e-4, cutoff=0.2)
    given.check(given.plan(3, 1e-4, ("u",), cutoff=0.5))
    with pytest.raises(ValueError, match="expected epsilon, not negative, and blob, one of"):
        direct_sum("stokes_sl(epsilon=-1.0)", given.trg, given.src, given.dens, periodicity=0)
    with pytest.raises(ValueError, match="but stokes_rotlet has no blobs"):
        direct_sum("stokes_rotlet(epsilon=1.0)", given.trg, given.src, given.dens, periodicity=0)
    with pytest.raises(ParkiValueError, match="blob is 'cortez'; expected one of gaussian, prolat"):
        parki.kernel("laplace", epsilon=0.1, blob="cortez")


def test_kernels_know_no_blob_unless_there_is_one():
    """Other sums pay nothing, and another epsilon is no other kernel."""
    names = ("stokes_comb", name_of("stokes_comb", 0.1), name_of("stokes_comb", 2))
    plain, *blobs = (SUMS[name].p2p() for name in names)
    for file, unit in (
        ("p2p", "p2p_staged"),
        ("p2p_tile", "p2p_tile"),
        ("p2p_derivatives", "p2p_staged_derivatives"),
        ("literature/p2p_cells", "p2p_cells"),
    ):
        text = specialise(file, unit, plain).text
        assert not any(word in text for word in ("core", "within"))
        (text,) = {specialise(file, unit, each).text for each in blobs}
        assert all(word in text for word in ("core", "within"))
    assert plain == dict(blobs[0], BLOB=False)
    assert SUMS[name_of("stokes_comb", 0.1, "cortez")].p2p() == dict(blobs[0], ALGEBRAIC=2)


def test_the_core_of_a_gaussian_follows_the_tolerance():
    given = Given(name_of("stokes_sl", 0.01))
    for tolerance, reach in ((1e-3, 2.6), (1e-6, 3.7)):
        core = given.plan(3, tolerance).parameters.core
        assert isinstance(core.split, Hasimoto)
        assert reach <= core.radius / 0.01 <= reach + 0.7
