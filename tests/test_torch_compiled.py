"""`parki.torch` in compiled functions, transformations, and graphs."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from frameworks import BOX, RADII, suspension
from torch_inputs import DEVICES, function, functions, tensors

import parki
from parki.runtime.spaces import why_unavailable

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import parki.torch  # noqa: E402  (which needs it)

# --- torch.compile --------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_compiled(device):
    """As an operator that is not looked into: without a break of the graph."""
    given, options = tensors("stokes_comb", device), parki.EwaldOptions(3, BOX, 1e-6)
    call, points = function("stokes_comb", options), ("trg", "src", "norms")
    plan = parki.Plan("stokes_comb", *(given[name].detach() for name in points), options)
    for loss, arguments in (
        (lambda *each: call(dict(zip(given, each, strict=True))).sin().sum(), [*given.values()]),
        (lambda dens: parki.torch.apply(plan, dens).square().sum(), [given["dens"]]),
    ):
        torch.compiler.reset()
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        for _ in range(2):
            one, two = (f(*arguments) for f in (compiled, loss))
            torch.testing.assert_close(one, two)
            slopes = (torch.autograd.grad(each, arguments) for each in (one, two))
            torch.testing.assert_close(*slopes)
    plan.update_points(*(given[name].detach() for name in points))
    with pytest.raises(parki.ParkiValueError, match="a compiled function calls a plan that was"):
        compiled(given["dens"])


# Values of each constant of some sums: all sums start with the first ones.
HOW = {"periodicity": (3, 2), "box": ([2.0] * 3, [3.0] * 3), "tolerance": (0.1, 1e-4)}
CONSTANTS = {
    "yukawa": {"kappa": (1.0, 2.0), **HOW},
    "stokes_sl": {
        "epsilon": (0.1, 0.2),
        "systems": ([0, 2, 5], [0, 3, 5]),
        "boxes": ([[2.0] * 3] * 2, [[3.0] * 3] * 2),
    },
    "sphere_velocities": {
        "radii": (RADII.tolist(), RADII[::-1].tolist(), 0.1),
        "viscosity": (1.0, 2.0),
    },
}


def called(kernel):
    """Return a sum as a function of its constants, and their first values."""
    points, forces, _ = (torch.from_numpy(each) for each in suspension())
    given = {"trg": points, "src": points, "dens": forces[0] if kernel == "yukawa" else forces}
    if kernel == "sphere_velocities":
        given = {"points": points, "forces": forces}
    call = getattr(parki.torch, kernel)
    first = {name: values[0] for name, values in (HOW | CONSTANTS[kernel]).items()}
    return lambda constants: call(**given, **constants), first


@pytest.mark.parametrize("kernel", CONSTANTS)
def test_compiled_functions_watch_constants(kernel):
    """They compile anew for other numbers and words, without a break of the graph."""
    call, first = called(kernel)
    torch.compiler.reset()
    compiled = torch.compile(call, backend="eager", fullgraph=True)
    for name, (_, *others) in CONSTANTS[kernel].items():
        for given in ({**first, name: value} for value in others):
            assert not torch.equal(call(given), call(first)), name
            for constants in (first, given):
                found, expected = compiled(constants), call(constants)
                torch.testing.assert_close(found, expected, rtol=0, atol=0)


FORMS = {
    "computed": lambda box: torch.tensor(box, dtype=torch.float64, requires_grad=True),
    "tensor": torch.tensor,
    "array": np.array,
    "vectors": lambda box: torch.tensor(np.diag(box)),
    "list of tensors": lambda box: list(torch.tensor(box)),
}
OF_ARRAYS = (
    *(("stokes_sl", "boxes", "array"), ("stokes_sl", "systems", "tensor")),
    *(("yukawa", "box", form) for form in FORMS),
    *(("yukawa", name, form) for name in ("kappa", "tolerance") for form in ("tensor", "array")),
    *(("stokes_sl", name, "tensor") for name in ("epsilon", "boxes")),
    *(("sphere_velocities", name, "tensor") for name in ("viscosity", "radii")),
    *(("stokes_sl", "systems", "array"), ("sphere_velocities", "radii", "array")),
)


@pytest.mark.parametrize(
    ("kernel", "name", "form"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (place not in (0, 2)))
        for place, case in enumerate(OF_ARRAYS)
    ],
)
def test_compiled_functions_keep_no_values_of_arrays(kernel, name, form):
    """They leave the call to Python, with its derivatives by a box, or are refused."""
    whole, constants = called(kernel)
    one, two = (constants | {name: FORMS[form](v)} for v in CONSTANTS[kernel][name][:2])

    def call(given):
        return whole(given | {name: 1 * given[name]} if form == "computed" else given)

    torch.compiler.reset()
    with pytest.raises(Exception, match=rf"{name} is an array within torch\.compile"):
        torch.compile(call, backend="eager", fullgraph=True)(one)
    torch.compiler.reset()
    compiled = torch.compile(call, backend="eager")
    for each in (one, two):
        found = [run(each) for run in (compiled, call)]
        torch.testing.assert_close(*found, rtol=0, atol=0)
        if form == "computed":
            slopes = (torch.autograd.grad(u.square().sum(), each[name])[0] for u in found)
            torch.testing.assert_close(*slopes, rtol=0, atol=0)


class Holder(torch.nn.Module):
    """A sum with options as an attribute."""

    def __init__(self, points, dens):
        super().__init__()
        self.given, self.options = (points, points, dens), None

    def forward(self):
        return parki.torch.laplace(*self.given, self.options)


def test_compiled_functions_watch_options_and_plans():
    points, (dens, *_), _ = (torch.from_numpy(each) for each in suspension())
    every = [
        parki.EwaldOptions(axes, box, 1e-3, execution_space=space)
        for axes, box, space in (
            (3, BOX, None),
            (2, BOX, "CPU"),
            (3, parki.lattice(1, 1, 1, xy=0.3), parki.get_execution_space("CPU")),
        )
    ]
    holder = Holder(points, dens)
    plans = {options: parki.Plan("laplace", points, points, options) for options in every}

    def held(options):
        holder.options = options
        return holder

    calls = (
        (
            lambda options: lambda f: f(options),
            lambda o: parki.torch.laplace(points, points, dens, o),
        ),
        (lambda options: lambda f: f(plans[options]), lambda plan: parki.torch.apply(plan, dens)),
        (lambda options: (held(options), lambda f: f())[1], holder.forward),
    )
    for given, call in calls:
        torch.compiler.reset()
        compiled = torch.compile(call, backend="eager", fullgraph=True)
        for options in (*every, every[0]):
            run = given(options)
            torch.testing.assert_close(run(compiled), run(call), rtol=0, atol=0)
    torch.compiler.reset()
    made = lambda axes, edge: parki.torch.laplace(  # noqa: E731
        points, points, dens, parki.EwaldOptions(axes, [edge] * 3, 1e-3)
    )
    compiled = torch.compile(made, backend="eager")
    for values in ((3, 1.0), (2, 1.0), (3, 2.0)):
        torch.testing.assert_close(compiled(*values), made(*values), rtol=0, atol=0)


def test_operators_follow_the_rules_of_pytorch():
    given = tensors("stokes_sl")
    from parki.torch import constants

    name = constants.text(parki.EwaldOptions(3, BOX, 1e-6))
    arguments = ("stokes_sl", name, given["trg"], given["src"], given["dens"], None, None)
    torch.library.opcheck(
        torch.ops.parki.sum, arguments, test_utils=("test_schema", "test_faketensor")
    )


# --- transformations ------------------------------------------------------------------------------


NAMES = ("trg", "src", "dens", "norms", "plan")


def test_mapped_densities_are_summed_at_once(monkeypatch):
    from parki.torch import sums

    shapes, original = [], sums.one_shot

    def spy(kernel, trg, src, dens, *others, **more):
        shapes.append(dens.shape)
        return original(kernel, trg, src, dens, *others, **more)

    monkeypatch.setattr(sums, "one_shot", spy)
    given, calls = functions("laplace")
    torch.func.vmap(torch.func.vmap(calls["dens"]))(given["dens"].expand(2, 3, -1))
    assert shapes == [(6, 5)]


TRANSFORMED = {
    "jvp": lambda call: lambda one: torch.func.jvp(call, (one,), (one.cos(),))[1],
    "grad": lambda call: torch.func.grad(lambda one: call(one).sin().sum()),
    "vmap": torch.func.vmap,
    "vmap of grad": lambda call: torch.func.vmap(TRANSFORMED["grad"](call)),
}


@pytest.mark.each
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", TRANSFORMED)
def test_compiled_transformations(how, name):
    """Forward mode within a compiled function was zero, without a word."""
    given, calls = functions()
    value, transformed = given[name], TRANSFORMED[how](calls[name])
    if "vmap" in how:
        value = torch.stack([value, 0.9 * value])
    torch.compiler.reset()
    compiled = torch.compile(transformed, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(value), transformed(value))


def test_what_records_or_finds_shapes_sees_an_operator():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    given, calls = functions()
    del given["plan"]
    call = function("stokes_dl", parki.EwaldOptions(3, BOX, 1e-4))
    slope = torch.func.grad(lambda each: call(each).sin().sum())
    other = {**given, "dens": 2 * given["dens"]}
    traced = make_fx(call)(given)
    torch.testing.assert_close(traced(other), call(other))  # it was a constant
    traced = make_fx(slope)(given)
    for name, found in traced(other).items():
        torch.testing.assert_close(found, slope(other)[name])
    for name in ("dens", "plan"):
        recorded = make_fx(calls[name])(given["dens"])
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(given["dens"], given["dens"].cos())
            found = torch.autograd.forward_ad.unpack_dual(recorded(dual)).tangent
        torch.testing.assert_close(found, calls[name](given["dens"].cos()))
        with pytest.raises(NotImplementedError):  # not zero, as of operators without derivatives
            torch.func.jvp(recorded, (given["dens"],), (given["dens"],))
    many = {**given, "dens": given["dens"].expand(2, -1, -1)}
    with FakeTensorMode() as mode:
        fake = call({name: mode.from_tensor(each) for name, each in many.items()})
        assert type(fake).__name__ == "FakeTensor" and fake.shape == (2, 3, 4)
        dens = mode.from_tensor(given["dens"])
        assert type(calls["plan"](dens)).__name__ == "FakeTensor"
    meta = call({name: each.to("meta") for name, each in given.items()})
    assert meta.device.type == "meta" and meta.shape == (3, 4)


def test_exported():
    """And not made free of changes in place, which sums do not make."""
    given, calls = functions()

    class Module(torch.nn.Module):
        def forward(self, dens):
            return calls["dens"](dens)

    program = torch.export.export(Module(), (given["dens"],)).module()
    other = given["dens"].cos().requires_grad_()
    torch.testing.assert_close(program(other), calls["dens"](other))
    (found,) = torch.autograd.grad(program(other).sin().sum(), other)
    torch.testing.assert_close(found, TRANSFORMED["grad"](calls["dens"])(other))
    for name in ("dens", "plan"):
        with pytest.raises(
            parki.ParkiTypeError, match=r"cannot go through torch\.func\.functional"
        ):
            torch.func.functionalize(calls[name])(given["dens"])
        assert torch.isfinite(calls[name](given["dens"])).all()


@pytest.mark.gpu
def test_compiled_with_cuda_graphs():
    """Sums are left out of the graphs that `torch.compile` captures."""
    if why_unavailable("Cuda"):
        pytest.skip(f"Cuda: {why_unavailable('Cuda')}")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch here has no GPU")
    if not hasattr(torch.Tag, "cudagraph_unsafe"):
        pytest.skip("this PyTorch captures operators whether they permit it or not")
    given = tensors("stokes_sl", "cuda", requires=False)
    points = given["trg"], given["src"]
    plan = parki.Plan("stokes_sl", *points, parki.EwaldOptions(3, BOX, 1e-4))
    torch.compiler.reset()
    call = lambda dens: parki.torch.apply(plan, dens.sin()).cos()  # noqa: E731
    compiled = torch.compile(call, mode="reduce-overhead")
    for _ in range(5):
        torch.testing.assert_close(compiled(given["dens"]), call(given["dens"]))


def test_graphs_and_operators_let_go_of_plans():
    from parki.torch import operators

    given = tensors("stokes_sl", requires=False)
    plan = parki.Plan("stokes_sl", given["trg"], given["src"], parki.EwaldOptions(3, BOX, 1e-3))
    before, dens = len(operators._plans), given["dens"].requires_grad_()
    for _ in range(3):
        plan.update_points(given["trg"], given["src"])
        parki.torch.apply(plan, dens).sum().backward()
    gone = weakref.ref(plan)
    del plan
    gc.collect()
    assert gone() is None and len(operators._plans) <= before
