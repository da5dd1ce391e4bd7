"""The literature's variants of the near field give what parki's own gives, to rounding."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from few import FEW
from flat import options

import parki
from parki.cells.runs import runs
from parki.errors import ParkiValueError
from parki.ewald.lattice import Lattice
from parki.ewald.near.near_field import NearField
from parki.ewald.near.p2p import P2P
from parki.ewald.near.radial import choose_evaluator
from parki.ewald.near.sizes import Launch, choose_launch
from parki.ewald.options.variants import CELL_METHODS, P2P_METHODS
from parki.ewald.solver_box import SolverBox
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.sums import SUMS
from parki.ewald.task import Task
from parki.runtime import get_execution_space

N = 300
DEGREE = 24  # whose kernels others have, too
# Not what is best: shares and chunks that are cut short, cells of several widths.
LAUNCHES = {
    "gm1d": Launch(team=32, vectors=1, targets=40, chunk=1, width=1.0),
    "gm2d": Launch(team=16, vectors=4, targets=10, chunk=1, width=0.5),
    "sm1d": Launch(team=32, vectors=1, targets=64, chunk=24, width=0.4),
    "sm2d": Launch(team=8, vectors=8, targets=30, chunk=50, width=1.0),
}
# Edges and cut-off; the second has several images of a cell within reach, and cells of one layer.
BOX = (1.0, 1.0, 1.0)
BOXES = ((BOX, 0.2), ((0.3, 1.0, 0.12), 0.35))


def cloud(name: str, box: tuple[float, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and sources: uniform, or in two blobs; some targets are sources, or all."""
    rng = np.random.default_rng(N)
    points = rng.random((3, 2 * N))
    if "blobs" in name:
        middle = np.where(np.arange(2 * N) % 2, 0.3, 0.8)
        points = np.clip(middle + 0.03 * rng.standard_normal((3, 2 * N)), 0, 1 - 1e-6)
    points = (np.array(box)[:, None] * points).astype(dtype)
    src, trg = points[:, :N].copy(), points[:, N:].copy()
    if name == "same blobs":
        return src, src
    trg[:, : N // 5] = src[:, : N // 5]
    return trg, src


def near_field(
    kernel, points, periodicity, method, launch=None, dtype="f8", box=BOX, cutoff=0.2,
    radial="polynomial", space=None, beyond=0.0,
):  # fmt: skip
    """Sum the near field of a cloud; ``beyond`` fills the columns beyond the sources."""
    space = space or get_execution_space("OpenMP")
    xp = space.array_module
    rng = np.random.default_rng(1)
    trg, src = cloud(points, box, dtype)
    dens = xp.asarray(rng.standard_normal((SUMS[kernel].rows, N)).astype(dtype))
    norms = rng.standard_normal((3, N)).astype(dtype)
    on_space = 2 * xp.asarray(src)
    # A split whose near field is far from zero at the cut-off, so that no pair is negligible.
    split = Hasimoto(1.5 / cutoff)
    task = Task(kernel, space, np.dtype(dtype), options(periodicity, [1, 1, 1], 1e-3))
    frame = SolverBox(Lattice(np.array(box), periodicity), unit=2.0)
    polynomials = split.radial_polynomials(cutoff, DEGREE)
    evaluator = choose_evaluator(radial, kernel, split, cutoff, DEGREE)
    p2p = P2P(
        NearField(
            task,
            cutoff,
            polynomials,
            method,
            evaluator,
            launch=launch or choose_launch(method, space),
        ),
        frame,
        on_space if trg is src else 2 * xp.asarray(trg),
        on_space,
        xp.asarray(norms) if kernel in ("stokes_dl", "stokes_comb") else None,
    )
    pot = xp.full((SUMS[kernel].results, trg.shape[1]), np.nan, dtype=dtype)
    buffer = p2p.buffer(len(dens))
    for rows in (buffer, p2p.sources.points, p2p.norms):
        if rows is not None:
            rows[:, N:] = beyond
    p2p.apply(dens[None], buffer, {"u": pot[None]})
    return np.asarray(pot.get() if space.on_device else pot)


def close(pot: np.ndarray, expected: np.ndarray) -> bool:
    eps = float(np.finfo(expected.dtype).eps)
    return bool(np.allclose(pot, expected, rtol=0, atol=400 * eps * np.abs(expected).max()))


def team_of(method: str) -> str:
    """Return a size of teams: kernels for hosts have one thread in each."""
    return "1" if method in ("auto", "staged") else "4"


@pytest.mark.each
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("periodicity", range(4))
@pytest.mark.parametrize("kernel", FEW)
@pytest.mark.parametrize("method", P2P_METHODS[1:])
def test_variant_gives_what_the_default_gives(
    method, kernel, periodicity, dtype, space, monkeypatch
):
    """Also where the threads of a team wait; `test_executor` takes the barriers away."""
    assert N % 8  # the last vector of the last run is not full
    clouds = itertools.product(BOXES, ("uniform", "blobs", "same blobs"))
    for number, ((box, cutoff), points) in enumerate(clouds):
        system = {"box": box, "cutoff": cutoff, "dtype": dtype}
        expected, same = (
            near_field(kernel, points, periodicity, "staged", **system, beyond=beyond)
            for beyond in (0.0, np.nan)
        )
        assert np.abs(expected).max() > 0
        assert np.array_equal(same, expected)
        # Threads that take turns are slow where others are at work: once is enough.
        teams = [(LAUNCHES.get(method), team_of(method))] * (number == 1 or space.on_device)
        for launch, team in ((None, "1"), *teams):
            with monkeypatch.context() as patch:
                patch.setenv("PARKI_EMULATED_TEAM", team)
                given = kernel, points, periodicity, method, launch
                pot = near_field(*given, **system, space=space)
            # Devices have a reciprocal square root of their own.
            assert pot.dtype == dtype and close(pot, expected), (box, points, launch)


# ---------------------------------------------------------------------- refusals
@pytest.mark.parametrize("want", ["p", ("u", "grad_u")])
def test_only_for_the_velocity(want, rng):
    points, chosen = rng.random((3, 5)), options(3, BOX, p2p_method="sm1d")
    with pytest.raises(ParkiValueError, match="p2p_method is 'sm1d', which computes 'u' alone"):
        parki.Plan("stokes_sl", points, points, chosen, want=want)


def test_blocks_of_a_device():
    device = SimpleNamespace(on_device=True)
    for method in CELL_METHODS:
        chosen = choose_launch(method, device)
        assert chosen is not None
        assert chosen.targets == chosen.team and chosen.team * chosen.vectors <= 512
    assert choose_launch("tile", device) is None


# ---------------------------------------------------------------------- parts without points
MODULES = ("cells.sorted_points", "ewald.near.p2p", "ewald.far.spreading")
VARIANTS = [("laplace", (p2p, "owner", "target"), "u") for p2p in P2P_METHODS]
VARIANTS += [("stokes_sl", ("tile", "tile", "tile"), ("u", "p", "grad_u"))]
VARIANTS += [("stokes_sl", ("auto", "hybrid", "base"), "u")]


def with_empty_parts(*arguments, **keywords):
    """Return parts as they are, and seven empty ones behind them."""
    parts = runs(*arguments, **keywords)
    return np.concatenate([parts, np.zeros((3, 7), dtype=np.int32)], axis=1)


@pytest.mark.parametrize(("kernel", "methods", "want"), VARIANTS)
def test_variants_and_empty_parts_change_nothing(kernel, methods, want, rng, monkeypatch):
    """Devices have such parts at the end of their lists."""
    points, dens = rng.random((3, 300)), rng.standard_normal(SUMS[kernel].density_shape(300))
    given = {"tolerance": 1e-2, "cutoff": 0.41, "window_points": 8}
    plan = parki.Plan(kernel, points, points, options(3, BOX, **given), want=want)
    expected = plan(dens)
    monkeypatch.setenv("PARKI_EMULATED_TEAM", team_of(methods[0]))
    for module in MODULES:
        monkeypatch.setattr(f"parki.{module}.runs", with_empty_parts)
    given |= dict(zip(("p2p_method", "p2g_method", "g2p_method"), methods, strict=True))
    plan = parki.Plan(kernel, points, points, options(3, BOX, **given), want=want)
    for _ in range(3):  # the second one keeps lists of pairs, and the third one takes them
        found = plan(dens)
        for each, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(each, other, rtol=1e-11, atol=1e-11 * abs(other).max())
