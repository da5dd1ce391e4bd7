"""`parki.torch`: derivatives by PyTorch's own checks, in compiled functions, and on devices."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
from frameworks import BOX, KERNELS, PERIODICITIES, inputs

import parki
from parki.ewald.sums import SUMS
from parki.runtime.spaces import why_unavailable

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import parki.torch  # noqa: E402  (which needs it)

# Differences of sums of this tolerance, by steps of this size.
TOLERANCE, CHECK = 1e-6, {"eps": 1e-4, "atol": 1e-3, "rtol": 1e-4, "fast_mode": True}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda":
        if why_unavailable("Cuda"):
            pytest.skip(f"Cuda: {why_unavailable('Cuda')}")
        if not torch.cuda.is_available():
            pytest.skip("PyTorch here has no GPU")
    return request.param


def tensors(kernel, device="cpu", dtype="f8", requires=True, **more):
    """Return the inputs of a sum as tensors, by name."""
    given = inputs(kernel, **more).items()
    found = {name: torch.from_numpy(array.astype(dtype)).to(device) for name, array in given}
    return {name: each.requires_grad_(requires) for name, each in found.items()}


def function(kernel, options):
    """Return the sum as a function of tensors: targets are sources where there are none."""

    def call(given):
        trg = given["trg"]
        norms = [given["norms"]] if "norms" in given else []
        arguments = trg, given.get("src", trg), given["dens"], *norms
        return getattr(parki.torch, kernel)(*arguments, options)

    return call


def check(kernel, options, given, **more):
    names, call = list(given), function(kernel, options)
    torch.manual_seed(0)
    return torch.autograd.gradcheck(
        lambda *each: call(dict(zip(names, each, strict=True))),
        tuple(given.values()),
        **CHECK,
        **more,
    )


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("periodicity", PERIODICITIES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradcheck(kernel, periodicity, device):
    options = parki.EwaldOptions(periodicity, BOX, TOLERANCE)
    assert check(kernel, options, tensors(kernel, device, spaced=True))


@pytest.mark.parametrize("kernel", KERNELS)
def test_targets_that_are_sources(kernel, device):
    options = parki.EwaldOptions(3, BOX, TOLERANCE)
    assert check(kernel, options, tensors(kernel, device, same=True, spaced=True))


@pytest.mark.parametrize("kernel", KERNELS)
def test_forward_mode(kernel, device):
    options = parki.EwaldOptions(3, BOX, TOLERANCE)
    given = tensors(kernel, device, spaced=True)
    assert check(kernel, options, given, check_forward_ad=True, check_backward_ad=False)


@pytest.mark.parametrize("kernel", KERNELS)
def test_second_derivatives_by_densities(kernel, device):
    given = tensors(kernel, device, requires=False)
    given["dens"].requires_grad_()
    call = function(kernel, parki.EwaldOptions(3, BOX, TOLERANCE))
    torch.manual_seed(0)
    assert torch.autograd.gradgradcheck(
        lambda dens: call({**given, "dens": dens}).square(), (given["dens"],), **CHECK
    )


def test_other_second_derivatives_are_refused():
    given = tensors("stokes_sl")
    call = function("stokes_sl", parki.EwaldOptions(3, BOX, 1e-4))
    for name in ("dens", "trg"):
        (slope,) = torch.autograd.grad(call(given).square().sum(), given[name], create_graph=True)
        with pytest.raises(parki.ParkiTypeError, match=r"a second derivative by trg, src"):
            slope.square().sum().backward()


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_values_are_those_of_parki(kernel, device):
    given = tensors(kernel, device, "f4", requires=False)
    options = parki.EwaldOptions(1, BOX, 1e-4)
    found = function(kernel, options)(given)
    assert (found.device.type, found.dtype) == (device, torch.float32)
    torch.testing.assert_close(found, getattr(parki, kernel)(*given.values(), options))
    assert not found.requires_grad


def test_only_what_requires_a_gradient_is_computed(monkeypatch):
    asked = []
    from parki.torch import sums

    original = sums.vjp

    def spy(*arguments, wrt, **more):
        asked.append(wrt)
        return original(*arguments, wrt=wrt, **more)

    monkeypatch.setattr(sums, "vjp", spy)
    given = tensors("stokes_dl", requires=False)
    given["src"].requires_grad_()
    function("stokes_dl", parki.EwaldOptions(3, BOX, 1e-4))(given).sum().backward()
    assert asked == [("src",)]
    assert given["src"].grad.shape == (3, 5) and given["trg"].grad is None


def test_strides_and_several_densities(device):
    options = parki.EwaldOptions(2, BOX, 1e-6)
    given = tensors("stokes_sl", device, requires=False)
    columns = given["src"].T.contiguous().requires_grad_()  # points as rows, as others have them
    many = torch.stack([given["dens"], 2 * given["dens"]]).requires_grad_()
    found = parki.torch.stokes_sl(given["trg"], columns.T, many, options)
    assert found.shape == (2, 3, 4)
    torch.testing.assert_close(found[1], 2 * found[0])
    found.sum().backward()  # a gradient without memory of its own
    assert columns.grad.shape == (5, 3) and many.grad.shape == (2, 3, 5)
    torch.testing.assert_close(many.grad[1], many.grad[0])


def test_what_is_no_tensor_is_refused():
    given = inputs("stokes_sl")
    with pytest.raises(parki.ParkiTypeError, match=r"trg is a ndarray; parki.torch takes tensors"):
        parki.torch.stokes_sl(*given.values(), parki.EwaldOptions(3, BOX))


def test_parki_itself_names_the_module():
    given = tensors("stokes_sl")
    with pytest.raises(parki.ParkiTypeError, match=r"requires a gradient.* parki\.torch"):
        parki.stokes_sl(*given.values(), parki.EwaldOptions(3, BOX))


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("want", ["u", "grad_u"])
def test_a_plan(kernel, want, device):
    given = tensors(kernel, device, requires=False)
    points = [each for name, each in given.items() if name != "dens"]
    plan = parki.Plan(kernel, *points, options=parki.EwaldOptions(2, BOX, 1e-3), want=want)
    dens = given["dens"].requires_grad_()
    torch.manual_seed(0)
    call = lambda dens: parki.torch.apply(plan, dens)  # noqa: E731
    if (kernel, want) in {("laplace", "grad_u"), ("stokes_rotlet", "grad_u")}:
        plan = parki.Plan(kernel, *points, options=parki.EwaldOptions(2, BOX, 1e-6), want=want)
    assert torch.autograd.gradcheck(call, (dens,), check_forward_ad=True, **CHECK)
    assert torch.autograd.gradgradcheck(call, (dens,), **CHECK)
    torch.testing.assert_close(call(dens), plan(dens.detach()))


def test_a_plan_of_other_points():
    given = tensors("stokes_sl", requires=False)
    plan = parki.Plan("stokes_sl", given["trg"], given["src"], parki.EwaldOptions(3, BOX, 1e-3))
    found = parki.torch.apply(plan, given["dens"].requires_grad_())
    plan.update_points(given["src"], given["trg"])
    with pytest.raises(parki.ParkiValueError, match="the plan was given other points since"):
        found.sum().backward()
    many = parki.Plan(
        "stokes_sl", given["trg"], given["src"], parki.EwaldOptions(3, BOX, 1e-3), want=("u", "p")
    )
    with pytest.raises(parki.ParkiValueError, match=r"apply needs a plan with one result"):
        parki.torch.apply(many, given["dens"])


def test_graphs_let_go_of_plans():
    given = tensors("stokes_sl", requires=False)
    plan = parki.Plan("stokes_sl", given["trg"], given["src"], parki.EwaldOptions(3, BOX, 1e-3))
    parki.torch.apply(plan, given["dens"].requires_grad_()).sum().backward()
    gone = weakref.ref(plan)
    del plan
    gc.collect()
    assert gone() is None


# --- torch.compile --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["laplace", "stokes_comb"])
def test_compiled(kernel, device):
    """As an operator that is not looked into: without a break of the graph."""
    options = parki.EwaldOptions(3, BOX, 1e-6)
    given = tensors(kernel, device)
    call, names = function(kernel, options), list(given)

    def loss(*each):
        return call(dict(zip(names, each, strict=True))).sin().square().sum()

    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        ours = compiled(*given.values())
        expected = loss(*given.values())
        torch.testing.assert_close(ours, expected)
        for found, other in zip(
            torch.autograd.grad(ours, list(given.values())),
            torch.autograd.grad(expected, list(given.values())),
            strict=True,
        ):
            torch.testing.assert_close(found, other)


def test_compiled_plans():
    given = tensors("stokes_dl", requires=False)
    points = given["trg"], given["src"], given["norms"]
    plan = parki.Plan("stokes_dl", *points, parki.EwaldOptions(3, BOX, 1e-4))

    def loss(dens):
        return parki.torch.apply(plan, dens).square().sum()

    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    dens = given["dens"].requires_grad_()
    (found,) = torch.autograd.grad(compiled(dens), dens)
    torch.testing.assert_close(found, torch.autograd.grad(loss(dens), dens)[0])
    plan.update_points(*points)
    with pytest.raises(parki.ParkiValueError, match="a compiled function calls a plan that was"):
        compiled(dens)


def test_operators_follow_the_rules_of_pytorch():
    given = tensors("stokes_sl")
    from parki.torch import operators

    name = operators.text(parki.EwaldOptions(3, BOX, 1e-6))
    arguments = ("stokes_sl", name, given["trg"], given["src"], given["dens"], None)
    torch.library.opcheck(
        torch.ops.parki.sum, arguments, test_utils=("test_schema", "test_faketensor")
    )


# --- packages -------------------------------------------------------------------------------------


def test_parki_does_not_import_it():
    program = (
        "import sys, parki; assert not {'torch', 'jax'} & set(sys.modules), 'a framework came';"
        "import parki.torch; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_sum_is_there(kernel):
    assert kernel in parki.torch.__all__
    assert np.ndim(SUMS[kernel].rows) == 0
