"""`parki.vjp` and `parki.jvp` against differences of direct sums, and their errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from contract import rms
from few import FEW
from frameworks import BOX, PERIODICITIES, difference, exact, inputs

import parki
from parki.ewald.derivatives import one_sum
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.pipeline.stages import Stages
from parki.ewald.sums import SUMS
from parki.reference import direct_sum


def given_to(kernel, given, options):
    """Return the arguments of `parki.vjp`."""
    src = given.get("src", given["trg"])
    return kernel, given["trg"], src, given["dens"], given.get("norms"), options


def names(given):
    return ("trg", "src", *(name for name in given if name not in ("trg", "src")))


def changes(given, wanted, seed=1):
    """Return random changes of some inputs; of targets that are sources, one for both."""
    rng = np.random.default_rng(seed)
    found = {name: rng.standard_normal(given[name].shape) for name in wanted if name in given}
    if "src" not in given and "trg" in found:
        found["src"] = found["trg"]
    return found


@pytest.mark.each
@pytest.mark.filterwarnings("ignore::parki.ImageWarning")
@pytest.mark.parametrize("same", [False, True], ids=["apart", "same"])
@pytest.mark.parametrize("kernel", ["stokes_dl", "stokes_comb"])
def test_the_mean_without_flux(kernel, same):
    """It takes positions as they are given, each in a box of its own; laws have the other sums."""
    given = inputs(kernel, same=same, sources=12, targets=10, spaced=True)
    boxes = np.random.default_rng(3)
    for name in {"trg", "src"} & {*given}:
        images = boxes.integers(-2, 3, given[name].shape)
        given[name] = given[name] + np.array(BOX)[:, None] * images
    options = parki.EwaldOptions(3, BOX, 1e-8, dl_mean="flux")
    arguments = given_to(kernel, given, options)
    values = np.random.default_rng(2).standard_normal(exact(kernel, given, 3).shape)
    found = parki.vjp(*arguments, values=values, wrt=names(given))
    alone = parki.vjp(*arguments, values=values, wrt=("dens",))["dens"]  # by other kernels
    assert rms(alone - found["dens"]) <= 1e-7 * rms(alone)
    groups = [["dens"], ["trg"]] + [["src"]] * (not same) + [["norms"]] * ("norms" in given)
    for wanted in groups:
        moves = changes(given, wanted)
        slope = difference(lambda g: exact(kernel, g, 3, "flux"), given, moves)
        size = np.linalg.norm(slope)
        product = sum((found[name] * move).sum() for name, move in moves.items())
        assert abs(product - (values * slope).sum()) <= 1e-7 * size * np.linalg.norm(values), wanted
        assert np.linalg.norm(parki.jvp(*arguments, tangents=moves) - slope) <= 1e-7 * size, wanted


def sources_by_direct_sums(kernel, given, periodicity, values):
    """Return the derivative by each source: that by the targets of its pairs, of other sign."""
    kind, trg = SUMS[kernel], given["trg"]
    found = np.zeros_like(given["src"])
    for source in range(found.shape[1]):
        one = slice(source, source + 1)
        norms = given["norms"][:, one] if kind.normals else None
        how = {"box": BOX, "periodicity": periodicity, "want": "grad_u"}
        part = given["src"][:, one], given["dens"][..., one], norms
        slope = direct_sum(kernel, trg, *part, **how).reshape(kind.results, 3, -1)
        found[:, source] = -(values.reshape(kind.results, 1, -1) * slope).sum(axis=(0, 2))
    return found


@pytest.mark.each
@pytest.mark.parametrize("periodicity", PERIODICITIES)
@pytest.mark.parametrize("kernel", FEW)
def test_the_promised_error(kernel, periodicity):
    """docs/derivatives.md: each derivative has the error of the sums that it is made of."""
    kind, tolerance = SUMS[kernel], (1e-3, 1e-5, 1e-6, 1e-4)[periodicity]
    given = inputs(kernel, targets=30, sources=20, seed=3)
    options = parki.EwaldOptions(periodicity, BOX, tolerance)
    how = {"box": BOX, "periodicity": periodicity}
    trg, src, dens, norms = (given.get(n) for n in ("trg", "src", "dens", "norms"))
    slope = direct_sum(kernel, trg, src, dens, norms, want="grad_u", **how)
    slope = slope.reshape(kind.results, 3, -1)
    values = np.random.default_rng(4).standard_normal((kind.results, 30))
    shaped = values if kind.results == 3 else values[0]
    found = parki.vjp(*given_to(kernel, given, options), values=shaped, wrt=names(given))
    length, q = math.prod(BOX) ** (1 / 3), np.linalg.norm(values)
    promise = parki.Plan(kernel, trg, src, norms, options, want="grad_u").promise(dens)
    # By targets: v times the gradient, whose errors at targets do not know of v.
    error = rms(found["trg"] - (values[:, None] * slope).sum(axis=0))
    assert error <= promise * rms(values)
    # By the density: as Plan.adjoint, where gradients and pressures have promises of their own.
    record, of_normals = kind.adjoints["u"], 1.0
    transposed = direct_sum(record.kernel, src, trg, shaped, want=record.want, **how)
    rows = {n: a.reshape(-1, 20) for n, a in zip(record.want, transposed, strict=True)}
    if kind.normals:
        of_normals = math.sqrt((norms**2).sum() / 20)
    alone = parki.vjp(*given_to(kernel, given, options), values=shaped, wrt=("dens",))
    bound = (2 + math.sqrt(3)) * tolerance * q / length**2
    first = sum(source.rows for source in kind.sources if not source.normal)
    for back in (found["dens"], alone["dens"]):
        error = back.reshape(-1, 20) - record.results(rows, {"norms": norms})
        if first:
            assert rms(error[:first]) <= tolerance * q / length ** kind.sources[0].decay
        if kind.normals:
            assert rms(error[-3:]) <= bound * of_normals
    if kind.normals:
        normal_error = found["norms"] - record.results(rows, {"norms": dens[-3:]})[-3:]
        assert rms(normal_error) <= bound * rms(dens[-3:])
    # By the sources: of forces times gradients, of dipoles and double layers by tensor targets.
    strength = tolerance * q / length ** (kind.sources[0].decay + 1) * rms(dens.reshape(-1, 20))
    if kind.normals:
        both = np.linalg.norm(dens[-3:], axis=0) * np.linalg.norm(norms, axis=0)
        strength = bool(first) * tolerance * q / length**2 * rms(dens[:3])
        strength += tolerance * q / length**3 * math.sqrt((both**2).mean())
    error = rms(found["src"] - sources_by_direct_sums(kernel, given, periodicity, values))
    assert error <= strength


def test_close_pairs_and_points_that_coincide():
    """A source at the target is left out of derivatives, too; its images are not."""
    given = inputs("stokes_dipole", same=True, sources=30, seed=5)
    given["trg"][:, 1] = given["trg"][:, 0] + 1e-6
    options = parki.EwaldOptions(2, BOX, 1e-6)
    values = np.random.default_rng(6).standard_normal((3, 30))
    arguments = given_to("stokes_dipole", given, options)
    found = parki.vjp(*arguments, values=values, wrt=("trg", "src", "dens"))
    copied = {**given, "src": given["trg"].copy()}
    again = parki.vjp(
        *given_to("stokes_dipole", copied, options), values=values, wrt=("trg", "src", "dens")
    )
    for name, array in found.items():
        assert np.isfinite(array).all()
        np.testing.assert_allclose(again[name], array, rtol=1e-9, atol=1e-6)
    # All points together may move without any change.
    total, largest = (found["trg"] + found["src"]).sum(axis=1), abs(found["src"]).max()
    np.testing.assert_allclose(total, 0, atol=1e-12 * largest)
    exact_pull = sources_by_direct_sums("stokes_dipole", copied, 2, values)
    assert rms(found["src"] - exact_pull) <= 1e-9 * rms(exact_pull)


@pytest.mark.parametrize("how", ["single", "mixed"])
def test_spaces_and_precisions(how, space, to_space, to_host):
    """Laws have double precision."""
    given = inputs("stokes_comb", sources=40, targets=30)
    given = {n: a.astype("f4").astype("f8") for n, a in given.items()}
    dtype, values = "f4" if how == "single" else "f8", np.ones((3, 30))
    finer = given_to("stokes_comb", given, parki.EwaldOptions(1, BOX, 1e-8))
    exactly = parki.vjp(*finer, values=values, wrt=names(given))
    more = {"precision": "mixed"} if how == "mixed" else {}
    options = parki.EwaldOptions(1, BOX, 1e-4, execution_space=space, **more)
    there = {n: to_space(a.astype(dtype)) for n, a in given.items()}
    arguments = given_to("stokes_comb", there, options)
    found = parki.vjp(*arguments, values=to_space(values.astype(dtype)), wrt=names(given))
    for name, array in found.items():
        assert type(array) is type(arguments[1]) and array.dtype == dtype
        assert rms(to_host(array) - exactly[name]) <= 2e-4 * rms(exactly[name]), name


def test_free_axes_without_a_length():
    """The extent of the points is where parki looks for them; the sum does not depend on it."""
    given = inputs("stokes_dl", targets=20, sources=20, seed=9)
    values = np.random.default_rng(1).standard_normal((3, 20))
    found = [
        parki.vjp(
            *given_to("stokes_dl", given, parki.EwaldOptions(1, box, 1e-9)),
            values=values,
            wrt=("trg", "src", "dens"),
        )
        for box in (BOX, (BOX[0], None, None))
    ]
    for name, array in found[0].items():
        np.testing.assert_allclose(found[1][name], array, rtol=1e-6, atol=1e-6 * rms(array))


def test_variants_of_the_literature():
    """They have no derivatives: the usual ones take their place."""
    given = inputs("stokes_sl")
    options = parki.EwaldOptions(
        3,
        BOX,
        1e-4,
        expert=parki.Expert(p2p_method="gm1d", p2g_method="grid", split="hasimoto", radial="erfc"),
    )
    values = np.ones((3, 4))
    found = parki.vjp(*given_to("stokes_sl", given, options), values=values, wrt=("src",))
    usual = parki.EwaldOptions(3, BOX, 1e-4, expert=parki.Expert(split="hasimoto"))
    expected = parki.vjp(*given_to("stokes_sl", given, usual), values=values, wrt=("src",))
    np.testing.assert_allclose(found["src"], expected["src"], atol=1e-3)


# --- errors ---------------------------------------------------------------------------------------


def test_impossible_arguments():
    given = inputs("stokes_sl")
    options = parki.EwaldOptions(3, BOX, 1e-4)
    arguments = given_to("stokes_sl", given, options)
    values = np.ones((3, 4))
    for wrt in (("norms",), ("points",), (), "dens"):
        with pytest.raises(parki.ParkiValueError, match="expected names of inputs of stokes_sl"):
            parki.vjp(*arguments, values=values, wrt=wrt)
    with pytest.raises(parki.ParkiValueError, match=r"values has shape \(3, 5\); .* 4 targets"):
        parki.vjp(*arguments, values=np.ones((3, 5)))
    with pytest.raises(parki.ParkiValueError, match="values has 2 of them at once, but dens has 1"):
        parki.vjp(*arguments, values=np.stack([values, values]), wrt=("src",))
    with pytest.raises(parki.ParkiValueError, match=r"tangents is \{\}; expected names of inputs"):
        parki.jvp(*arguments, tangents={})
    with pytest.raises(parki.ParkiValueError, match=r"tangents\['src'\] has shape \(3, 4\)"):
        parki.jvp(*arguments, tangents={"src": values})
    with pytest.raises(parki.ParkiTypeError, match="norms is missing; stokes_dl needs normals"):
        parki.vjp("stokes_dl", *arguments[1:4], options, values=values)


def test_tensors_are_checked():
    given = inputs("stokes_sl")
    options = parki.EwaldOptions(3, BOX, 1e-4)
    with pytest.raises(parki.ParkiValueError, match=r"want has 'grad_tensor'; expected names"):
        parki.Plan("stokes_sl", given["trg"], given["src"], options, want="grad_tensor")
    with pytest.raises(parki.ParkiValueError, match=r"tensors has shape \(9, 4\); .* 4 targets"):
        sum_once(
            "stokes_sl",
            given["trg"],
            given["src"],
            given["dens"],
            None,
            options,
            want="grad_tensor",
            tensors=np.ones((9, 4)),
        )


@pytest.mark.parametrize("kernel", ["laplace", "stokes_sl"])
def test_points_that_are_targets_and_sources_are_placed_once(kernel, monkeypatch):
    """Also by their box, at what the derivatives by points have placed."""
    given, made, make = inputs(kernel, same=True), [], Stages.__init__
    monkeypatch.setattr(
        Stages, "__init__", lambda own, *a, **k: made.append(1) or make(own, *a, **k)
    )
    sums = []
    monkeypatch.setattr(one_sum, "sum_once", lambda *a, **k: sums.append(1) or sum_once(*a, **k))
    options = parki.EwaldOptions(3, BOX, 1e-4)
    points, dens = given["trg"], given["dens"]
    values = np.random.default_rng(3).standard_normal(dens.shape)
    found = parki.vjp(
        kernel, points, points, dens, options, values=values, wrt=("trg", "src", "box")
    )
    assert len(made) == len(sums) == 1
    apart = [
        parki.vjp(kernel, points, points.copy(), dens, options, values=values, wrt=(name,))[name]
        for name in found
    ]
    for one, other in zip(found.values(), apart, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4 * abs(other).max())
