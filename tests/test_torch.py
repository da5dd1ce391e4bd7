"""`parki.torch` alone: compiled functions, transformations, graphs; see also test_frameworks.py."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from adapters import Torch
from frameworks import BOX, RADII, inputs, suspension

import parki
from parki.ewald.derivatives import second
from parki.runtime.spaces import why_unavailable

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import parki.torch  # noqa: E402  (which needs it)

DEVICES = ["cpu"]
if torch.cuda.is_available() and not why_unavailable("Cuda"):
    DEVICES.append(pytest.param("cuda", marks=pytest.mark.gpu))


OWN = Torch("cpu")
function, functions = OWN.function, OWN.functions


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def tensors(kernel, device="cpu", dtype="f8", requires=True, **more):
    """Return the inputs of a sum as tensors, by name."""
    given = inputs(kernel, **more).items()
    found = {name: torch.from_numpy(array.astype(dtype)).to(device) for name, array in given}
    return {name: each.requires_grad_(requires) for name, each in found.items()}


# --- derivatives ----------------------------------------------------------------------------------


def test_two_derivatives_in_forward_mode_are_refused():
    given = tensors("stokes_dl")
    call = function("stokes_dl", parki.EwaldOptions(3, BOX, 1e-4))
    twice = lambda x: torch.func.jvp(lambda y: call({**given, "trg": y}), (x,), (x,))[1]  # noqa: E731
    with pytest.raises(parki.ParkiTypeError, match="take reverse mode for one of the two"):
        torch.func.jvp(twice, (given["trg"],), (given["trg"],))


def test_second_derivatives_in_both_modes():
    """Of close sums, whose differences PyTorch takes; also without a gradient by some inputs."""
    given = tensors("laplace", targets=2, sources=3, spaced=True)
    call = function("laplace", parki.EwaldOptions(3, BOX, 1e-12))
    every = lambda *values: call(dict(zip(given, values, strict=True)))  # noqa: E731
    how = {"eps": 1e-5, "atol": 1e-5, "rtol": 1e-5, "check_fwd_over_rev": True}
    assert torch.autograd.gradgradcheck(every, tuple(given.values()), **how)
    one = lambda trg: call({**given, "trg": trg})  # noqa: E731
    assert torch.autograd.gradgradcheck(one, (given["trg"],), **how)


def test_gradients_by_densities_are_there_from_a_plan():
    """As for a loss of forces, without and with the second derivatives of a sum."""
    given = tensors("laplace", same=True)
    call = function("laplace", parki.EwaldOptions(3, BOX, 1e-4))
    (slope,) = torch.autograd.grad(call(given).sum(), given["trg"], create_graph=True)
    slope.square().sum().backward()
    points = given["trg"].detach()
    plan = parki.Plan("laplace", points, points, parki.EwaldOptions(3, BOX, 1e-4), want="grad_u")
    field = parki.torch.apply(plan, given["dens"])
    (by_plan,) = torch.autograd.grad(field.square().sum(), given["dens"])
    assert by_plan.abs().max() > 0 and given["dens"].grad.abs().max() > 0


def test_only_what_requires_a_gradient_is_computed(monkeypatch):
    asked, original = [], second.pulled

    def spy(kernel, options, batch, inputs, values, wrt, want):
        asked.append(wrt)
        return original(kernel, options, batch, inputs, values, wrt, want)

    monkeypatch.setattr(second, "pulled", spy)
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
    assert found.shape == (2, 3, 4) and found.device.type == device
    assert not parki.torch.stokes_sl(*given.values(), options).requires_grad
    torch.testing.assert_close(found[1], 2 * found[0])
    found.sum().backward()  # a gradient without memory of its own
    assert columns.grad.shape == (5, 3) and many.grad.shape == (2, 3, 5)
    torch.testing.assert_close(many.grad[1], many.grad[0])


def test_what_is_no_tensor_is_refused():
    given = inputs("stokes_sl")
    with pytest.raises(parki.ParkiTypeError, match=r"trg is a ndarray; parki.torch takes tensors"):
        parki.torch.stokes_sl(*given.values(), parki.EwaldOptions(3, BOX))


# --- plans ----------------------------------------------------------------------------------------


def test_graphs_let_go_of_plans():
    given = tensors("stokes_sl", requires=False)
    plan = parki.Plan("stokes_sl", given["trg"], given["src"], parki.EwaldOptions(3, BOX, 1e-3))
    parki.torch.apply(plan, given["dens"].requires_grad_()).sum().backward()
    gone = weakref.ref(plan)
    del plan
    gc.collect()
    assert gone() is None


# --- many systems ---------------------------------------------------------------------------------


def test_systems_that_are_refused():
    given = tensors("stokes_sl", requires=False)
    points, how = (given["src"], given["src"], given["dens"]), {"periodicity": 3, "tolerance": 1e-2}
    boxes = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(parki.ParkiTypeError, match="boxes requires a gradient, but options are co"):
        parki.torch.stokes_sl(*points, systems=[0, 2, 5], boxes=boxes, **how)
    box = torch.ones(3, dtype=torch.float64, requires_grad=True)
    total = parki.torch.stokes_sl(*points, systems=[0, 2, 5], box=box, **how).sum()
    with pytest.raises(parki.ParkiValueError, match="which parki does not have for systems"):
        total.backward()
    with pytest.raises(parki.ParkiTypeError, match="systems is for sums, as are"):
        parki.torch.sphere_velocities(points[0], 0.1, points[2], systems=[0, 2, 5], **how)
    offsets = torch.tensor([0, 2, 5])
    torch.compiler.reset()
    call = lambda: parki.torch.stokes_sl(*points, systems=offsets, box=BOX, **how)  # noqa: E731
    with pytest.raises(Exception, match=r"systems is an array within torch\.compile"):
        torch.compile(call, fullgraph=True, backend="aot_eager")()


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


HOW = {"periodicity": 3, "box": [2.0, 2.0, 2.0], "tolerance": 1e-3}
LISTS = {
    "box": ([2.0, 2.0, 2.0], [3.0, 3.0, 3.0]),
    "systems": ([0, 2, 5], [0, 3, 5]),
    "boxes": ([[2.0, 2.0, 2.0]] * 2, [[3.0, 3.0, 3.0]] * 2),
    "radii": (RADII.tolist(), RADII[::-1].tolist()),
}
NUMBERS = {"kappa": (1.0, 2.0), "epsilon": (0.1, 0.2), "tolerance": (0.1, 1e-4)}
NUMBERS |= {"radii": (0.1, 0.2), "viscosity": (1.0, 2.0)}
GIVEN = [
    *((name, form) for name in LISTS for form in ("list", "tensor", "array")),
    *((name, form) for name in NUMBERS for form in ("float", "tensor")),
    *(("box", form) for form in ("vectors", "list of tensors", "detached", "times one")),
    *((name, form) for name in ("kappa", "tolerance") for form in ("float64", "array")),
    ("periodicity", "int"),
]
SELDOM = ("list of tensors", "times one")  # the long run has them


def given_as(form, value):
    """Return a number, or a list, in another form."""
    if form == "vectors":
        value = np.diag(value).tolist()
    if form in ("tensor", "vectors", "detached", "times one", "list of tensors"):
        whole = np.issubdtype(np.asarray(value).dtype, np.integer)
        value = torch.tensor(value, dtype=torch.int64 if whole else torch.float64)
    if form == "list of tensors":
        value = list(value)
    return {"array": np.array, "float64": np.float64}.get(form, lambda each: each)(value)


def called_with(name, form):
    """Return a sum as a function of one of its constants."""
    points, forces, _ = (torch.from_numpy(each) for each in suspension())
    changes = {"detached": lambda v: v.detach(), "times one": lambda v: 1 * v}
    change, sums = changes.get(form, lambda v: v), parki.torch
    if name in ("radii", "viscosity"):
        own = {"radii": 0.1, **HOW}
        call = lambda how: sums.sphere_velocities(points, how.pop("radii"), forces, **how)  # noqa: E731
    else:
        kernel = {"kappa": sums.yukawa, "epsilon": sums.stokes_sl}.get(name, sums.laplace)
        dens = forces if name == "epsilon" else forces[0]
        own = HOW | ({"systems": [0, 2, 5]} if name == "boxes" else {})
        call = lambda how: kernel(points, points, dens, **how)  # noqa: E731
    return lambda value: call({**own, name: change(value)})


@pytest.mark.each
@pytest.mark.parametrize(
    ("name", "form"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case[1] in SELDOM)) for case in GIVEN],
)
def test_compiled_functions_watch_constants(name, form):
    """They compile anew for other numbers, and do not keep those of arrays: refused or left out."""
    numbers = NUMBERS | {"periodicity": (3, 2)}
    pair = numbers[name] if form in ("float", "float64", "int") else None
    if pair is None:
        of = LISTS if name in LISTS and form in ("list", "array") else numbers
        pair = of.get(name) or LISTS[name]
    one, two = (given_as(form, value) for value in pair)
    call = called_with(name, form)
    assert not torch.equal(call(one), call(two))
    plain = form in ("list", "float", "int")  # which need no break of the graph
    torch.compiler.reset()
    compiled = torch.compile(call, backend="eager", fullgraph=plain)
    for value in (one, two, one):
        torch.testing.assert_close(compiled(value), call(value), rtol=0, atol=0)
    if not plain:
        torch.compiler.reset()
        whole = torch.compile(call, backend="eager", fullgraph=True)
        with pytest.raises(Exception, match=rf"{name} is an array within torch\.compile"):
            whole(one)


class Holder(torch.nn.Module):
    """A sum with options as an attribute."""

    def __init__(self, points, dens):
        super().__init__()
        self.given, self.options = (points, points, dens), None

    def forward(self):
        return parki.torch.laplace(*self.given, self.options)


def test_compiled_functions_watch_options_and_plans():
    points, (dens, *_), _ = (torch.from_numpy(each) for each in suspension())
    one, two, tilted, three = (
        parki.EwaldOptions(axes, box, 1e-3, execution_space=space)
        for axes, box, space in (
            (3, BOX, None),
            (2, BOX, "CPU"),
            (3, parki.lattice(1, 1, 1, xy=0.3), parki.get_execution_space("CPU")),
            (3, (3, 3, 3), None),
        )
    )
    holder = Holder(points, dens)
    plans = {o: parki.Plan("laplace", points, points, o) for o in (one, two, tilted, three)}

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
    for fullgraph in (False, True):
        for given, call in calls:
            torch.compiler.reset()
            compiled = torch.compile(call, backend="eager", fullgraph=fullgraph)
            for options in (one, two, tilted, three, one):
                run = given(options)
                torch.testing.assert_close(run(compiled), run(call), rtol=0, atol=0)
    torch.compiler.reset()
    made = lambda axes, edge: parki.torch.laplace(  # noqa: E731
        points, points, dens, parki.EwaldOptions(axes, [edge] * 3, 1e-3)
    )
    compiled = torch.compile(made, backend="eager")
    for values in ((3, 1.0), (2, 1.0), (3, 2.0)):
        torch.testing.assert_close(compiled(*values), made(*values), rtol=0, atol=0)


def test_a_box_with_a_gradient_in_a_compiled_function():
    """The compiler leaves the call to Python, with its derivatives."""
    points, (dens, *_), _ = (torch.from_numpy(each) for each in suspension())
    call = lambda box: parki.torch.laplace(points, points, dens, **HOW | {"box": box})  # noqa: E731
    torch.compiler.reset()
    compiled = torch.compile(call, backend="eager")
    for edge in (2.0, 3.0):
        box = torch.full((3,), edge, dtype=torch.float64, requires_grad=True)
        found = [torch.autograd.grad(f(box).square().sum(), box)[0] for f in (call, compiled)]
        torch.testing.assert_close(*found, rtol=0, atol=0)


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
    from parki.torch import constants

    name = constants.text(parki.EwaldOptions(3, BOX, 1e-6))
    arguments = ("stokes_sl", name, given["trg"], given["src"], given["dens"], None, None)
    torch.library.opcheck(
        torch.ops.parki.sum, arguments, test_utils=("test_schema", "test_faketensor")
    )


# --- transformations ------------------------------------------------------------------------------


NAMES = ("trg", "src", "dens", "norms", "plan")


def test_mapped_densities_are_summed_at_once(monkeypatch):
    from parki.torch.sums import ewald

    shapes, original = [], ewald.summed

    def spy(given, dens, *want, **more):
        shapes.append(dens.shape)
        return original(given, dens, *want, **more)

    monkeypatch.setattr(ewald, "summed", spy)
    given, calls = functions("laplace")
    torch.func.vmap(torch.func.vmap(calls["dens"]))(given["dens"].expand(2, 3, -1))
    assert shapes == [(6, 5)]


@pytest.mark.parametrize("name", NAMES)
def test_compiled_transformations(name):
    """Forward mode within a compiled function was zero, without a word."""
    given, calls = functions()
    call, value = calls[name], given[name]
    loss = lambda one: call(one).sin().sum()  # noqa: E731
    many = torch.stack([value, 0.9 * value])
    for transformed, argument in (
        (lambda one: torch.func.jvp(call, (one,), (one.cos(),))[1], value),
        (torch.func.grad(loss), value),
        (torch.func.vmap(call), many),
        (torch.func.vmap(torch.func.grad(loss)), many),
    ):
        torch.compiler.reset()
        compiled = torch.compile(transformed, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(argument), transformed(argument))


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
    given, calls = functions()

    class Module(torch.nn.Module):
        def forward(self, dens):
            return calls["dens"](dens)

    program = torch.export.export(Module(), (given["dens"],)).module()
    other = given["dens"].cos().requires_grad_()
    torch.testing.assert_close(program(other), calls["dens"](other))
    (found,) = torch.autograd.grad(program(other).sin().sum(), other)
    torch.testing.assert_close(
        found, torch.func.grad(lambda d: calls["dens"](d).sin().sum())(other)
    )


def test_functionalize_is_refused():
    given, calls = functions()
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


def test_numbers_of_plans_are_given_back():
    from parki.torch import operators

    given = tensors("stokes_sl", requires=False)
    plan = parki.Plan("stokes_sl", given["trg"], given["src"], parki.EwaldOptions(3, BOX, 1e-2))
    before = len(operators._plans)
    for _ in range(3):
        plan.update_points(given["trg"], given["src"])
        parki.torch.apply(plan, given["dens"])
    gone = weakref.ref(plan)
    del plan
    gc.collect()
    assert gone() is None and len(operators._plans) <= before
