"""`parki.vjp` and `parki.jvp` of composites, against differences of direct sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from composites import (
    BOX,
    COMB,
    HARMONIC,
    LIFTED,
    MIDDLE,
    OFF,
    SLIP,
    STRESS,
    WALL,
    images,
    of_squares,
    squares,
    summed,
)
from contract import rms
from frameworks import difference

import parki
from parki.ewald.derivatives import one_sum, vjp
from parki.ewald.sums.adjoint import velocity
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Beside, Curved, slopes
from parki.ewald.sums.walls import near_wall

WITH_NORMALS = (COMB, OFF)
DIPOLES = near_wall("stokes_dipole", "no-slip", by=("src",))


def inputs(composite, same=False, seed=0):
    """Return trg, src, dens and perhaps norms, at points above the middle plane, well apart."""
    rng = np.random.default_rng(seed)
    corners = np.stack(np.meshgrid(range(3), range(3), range(2), indexing="ij")).reshape(3, 18)
    edges = np.array([[BOX[0]], [BOX[1]], [0.8 * MIDDLE]]) / [[3], [3], [2]]
    points = edges * (corners + 0.2 + 0.5 * rng.random((3, 18))) + [[0], [0], [1.05 * MIDDLE]]
    trg, src = np.split(points[:, rng.permutation(18)], [8], axis=1)
    given = {"trg": src if same else trg, "src": src}
    given["dens"] = rng.standard_normal((*composite.density, 10))
    return given | ({"norms": rng.standard_normal((3, 10))} if composite in WITH_NORMALS else {})


def arguments(composite, given, periodicity=0):
    options = parki.EwaldOptions(periodicity, BOX, 1e-8)
    arrays = given["trg"], given["src"], given["dens"], given.get("norms")
    return composite, *arrays, options


# The default run has the same two periodic axes for all, so that they share kernels.
CASES = [(each, 2) for each in (SLIP, COMB, STRESS, OFF, HARMONIC, WALL)]
MORE = [(SLIP, 0), (SLIP, 3), (COMB, 1), (STRESS, 0), (STRESS, 3), (OFF, 3), (HARMONIC, 0)]
CASES += [pytest.param(*case, marks=pytest.mark.slow) for case in [*MORE, (WALL, 1)]]


@pytest.mark.each
@pytest.mark.parametrize("same", [False, True], ids=["apart", "same"])
@pytest.mark.parametrize(("composite", "periodicity"), CASES, ids=lambda e: getattr(e, "name", e))
def test_against_differences_of_direct_sums(composite, periodicity, same):
    """Points that are targets and sources have both roles at once."""
    given, rng = inputs(composite, same), np.random.default_rng(1)
    values = rng.standard_normal((*composite.result, given["trg"].shape[1]))
    arrays = arguments(composite, given, periodicity)
    found = parki.vjp(*arrays, values=values, wrt=tuple(given))
    alone = parki.vjp(*arrays, values=values)["dens"]
    assert rms(alone - found["dens"]) <= 1e-7 * rms(alone)
    moves = {name: rng.standard_normal(array.shape) for name, array in given.items()}
    moves |= {"trg": moves["src"]} if same else {}
    slope = difference(lambda g: summed(composite, g, periodicity), given, moves)
    size, product = np.linalg.norm(slope), sum((found[n] * move).sum() for n, move in moves.items())
    assert abs(product - (values * slope).sum()) <= 1e-7 * size * np.linalg.norm(values)
    assert np.linalg.norm(parki.jvp(*arrays, tangents=moves) - slope) <= 1e-7 * size


@pytest.mark.parametrize(
    "composite",
    [DIPOLES, *(pytest.param(each, marks=pytest.mark.slow) for each in (LIFTED, OFF))],
    ids=lambda each: each.name,
)
def test_second_derivatives(composite):
    """The change of a composite for moves, which maps carry to its sums, has both modes again."""
    given, rng = inputs(composite), np.random.default_rng(1)
    moves, others = (
        {name: rng.standard_normal(array.shape) for name, array in given.items()} for _ in range(2)
    )
    moves.pop("dens")  # in which it is linear

    def of(given):
        *arrays, options = arguments(composite, given, 2)
        return *arrays, replace(options, box=(*BOX[:2], None))  # for images below the wall

    slope = difference(lambda at: parki.jvp(*of(at), tangents=moves), given, others)
    values, size = rng.standard_normal(slope.shape), np.linalg.norm(slope)
    found = vjp.pulled(*of(given), values=values, wrt=tuple(given), moves=moves)
    product = sum((found[name] * move).sum() for name, move in others.items())
    assert abs(product - (values * slope).sum()) <= 1e-6 * size * np.linalg.norm(values)
    assert (
        np.linalg.norm(vjp.pushed(*of(given), tangents=others, moves=moves) - slope) <= 1e-6 * size
    )
    with pytest.raises(parki.ParkiTypeError, match="a third derivative was asked for"):
        vjp.pulled(
            *arguments(STRESS, inputs(STRESS)), values=np.ones((3, 3, 8)), wrt=("trg",), moves=moves
        )


def test_sums_are_shared(monkeypatch):
    """A source and its image take the sums of one source; maps that take targets, one more."""
    kernels, original = [], one_sum.sum_once

    def spy(kernel, trg, src, dens, norms, options, *, want, **more):
        kernels.append((kernel, len(dens), want))
        return original(kernel, trg, src, dens, norms, options, want=want, **more)

    monkeypatch.setattr(one_sum, "sum_once", spy)
    of_slip = [("stokes_sl", 1, ("u", "grad_u")), ("stokes_sl", 1, ("grad_u",))]
    for composite, wrt, expected in (
        (SLIP, ("dens", "src", "trg"), of_slip),
        (STRESS, ("trg",), [("stokes_sl", 1, ("grad_tensor",))]),
    ):
        values, given = np.ones((*composite.result, 8)), inputs(composite)
        parki.vjp(*arguments(composite, given, 2), values=values, wrt=wrt)
        assert sorted(kernels) == sorted(expected)
        kernels.clear()


# --- maps -----------------------------------------------------------------------------------------


def away(values, at):
    """Return densities times distances from an axis: not affine, though of degree one."""
    return values * np.hypot(*at["points"][:2])


def test_slopes_of_maps():
    rng = np.random.default_rng(5)
    at = {"points": rng.random((3, 7)), "norms": rng.standard_normal((3, 7))}
    dens, move = rng.standard_normal((3, 7)), rng.standard_normal((3, 7))
    both = Beside((None, images, Curved(squares, of_squares)))
    for function, values in ((None, at["points"]), (images, at["points"]), (both, dens)):
        parts = slopes(function, values, at, "points")
        change = sum(p * np.tile(m, p.shape[1] // 7) for p, m in zip(parts, move, strict=True))

        def made(given, function=function, values=values):
            points = given["points"]
            into = points if values is at["points"] else values
            return into if function is None else function(into, {**at, "points": points})

        assert np.allclose(change, difference(made, at, {"points": move}), atol=1e-9)


def test_maps_that_do_not_say_how_they_change():
    for name, each in {
        "squares": Addend("stokes_sl", ("u",), velocity, squares),
        "away": Addend("stokes_sl", ("u",), velocity, away),
        "<lambda>": Addend("stokes_sl", ("u",), velocity, sources=lambda y, at: y / (y**2).sum(0)),
        "test_maps": Addend("stokes_sl", ("u",), lambda found, at: found["u"] * at["points"] ** 2),
    }.items():
        composite = Composite("curved", (3,), (3,), (each,))
        given = inputs(composite)
        if name == "<lambda>":
            given["src"] = given["src"] + 1  # whose images are in the box
        wrt = ("trg",) if name == "test_maps" else ("src",)
        arrays = arguments(composite, given)
        options = replace(arrays[-1], box=(4, 4, 4))
        arrays = (*arrays[:-1], options)
        words = f"the map .*{name}.* of a composite is not affine in the points"
        with pytest.raises(parki.ParkiValueError, match=words):
            parki.vjp(*arrays, values=np.ones((3, 8)), wrt=wrt)
        with pytest.raises(parki.ParkiValueError, match=words):
            parki.jvp(*arrays, tangents={wrt[0]: given[wrt[0]]})


def test_wrong_arguments():
    given = inputs(SLIP)
    with pytest.raises(parki.ParkiValueError, match="names of inputs of free slip: trg, src, dens"):
        parki.vjp(*arguments(SLIP, given), values=given["trg"], wrt=("norms",))
    with pytest.raises(parki.ParkiTypeError, match="norms is missing; stokes_dl needs normals"):
        parki.vjp(*arguments(COMB, inputs(COMB) | {"norms": None}), values=given["trg"])
    of_two = Composite("two", (6,), (3,), (Addend("stokes_sl", ("u",), velocity),))
    with pytest.raises(parki.ParkiValueError, match=r"a density for stokes_sl of shape \(6, 10\)"):
        parki.vjp(*arguments(of_two, inputs(of_two)), values=given["trg"], wrt=("src",))
    flat = Composite("flat", (3,), (3,), (Addend("laplace", ("u",), velocity, lambda f, _: f[:1]),))
    with pytest.raises(parki.ParkiValueError, match=r"a result of laplace of shape \(1, 8\)"):
        parki.vjp(*arguments(flat, given), values=given["trg"])
    with pytest.raises(parki.ParkiValueError, match=r"a result of laplace of shape \(1, 8\)"):
        parki.jvp(*arguments(flat, given), tangents={"dens": given["dens"]})
    slopes = Addend("doublet_axis_derivative(up=2)", ("grad_u",), lambda found, _: found["grad_u"])
    images = Composite("slopes of images", (3,), (3, 3), (slopes,))
    with pytest.raises(
        parki.ParkiValueError, match=r"'grad_u' of doublet_axis_derivative.* by 'trg', as this"
    ):
        parki.vjp(*arguments(images, given), values=np.ones((3, 3, 8)), wrt=("trg",))
