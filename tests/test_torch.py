"""`parki.torch` alone: compiled functions, transformations, graphs; see also test_frameworks.py."""

from __future__ import annotations

import copy
import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest
from adapters import Torch
from frameworks import BOX, RADII, inputs, suspension

import parki
from parki.ewald.derivatives import second
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.reference import direct_sum
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


def test_third_derivatives_by_points_are_refused():
    """But not where the density is one of the three inputs."""
    given = tensors("laplace")
    call = function("laplace", parki.EwaldOptions(3, BOX, 1e-4))

    def change(call, name):
        def of(values):
            other = lambda one: call({**values, name: one})  # noqa: E731
            return torch.func.jvp(other, (values[name],), (values[name],))[1]

        return of

    twice = change(change(call, "trg"), "trg")
    torch.testing.assert_close(change(twice, "dens")(given), twice(given))  # which is linear in it
    with pytest.raises(parki.ParkiTypeError, match="a third derivative was asked for, of a second"):
        change(twice, "trg")(given)
    with pytest.raises(parki.ParkiTypeError, match="a third derivative was asked for, of a second"):
        torch.func.grad(lambda x: twice({**given, "trg": x}).sum())(given["trg"])


def test_second_derivatives_in_both_modes():
    """Of close sums, whose differences PyTorch takes; also without a gradient by some inputs."""
    given = tensors("laplace", targets=2, sources=3, spaced=True)
    call = function("laplace", parki.EwaldOptions(3, BOX, 1e-12))
    every = lambda *values: call(dict(zip(given, values, strict=True)))  # noqa: E731
    how = {"eps": 1e-5, "atol": 1e-5, "rtol": 1e-5, "check_fwd_over_rev": True, "fast_mode": True}
    assert torch.autograd.gradgradcheck(every, tuple(given.values()), **how)
    one = lambda trg: call({**given, "trg": trg})  # noqa: E731
    assert torch.autograd.gradgradcheck(one, (given["trg"],), **how)


@pytest.mark.parametrize(("of", "sums"), [("forces", 2), ("stress", 2)])
def test_steps_of_training_choose_no_parameters(of, sums, monkeypatch):
    """Each of their sums finds what the same sum left in the step before, and there are few."""
    chosen, choose = [], parki.ewald.pipeline.arrival.choose
    placed, place = [], EwaldSum.place
    monkeypatch.setattr(EwaldSum, "place", lambda *a, **k: placed.append(1) or place(*a, **k))
    monkeypatch.setattr(
        "parki.ewald.pipeline.arrival.choose",
        lambda *a, **k: chosen.append(1) or choose(*a, **k),
    )
    charges = torch.ones(5, dtype=torch.float64, requires_grad=True)
    counts = [(0, 0)]
    for seed in range(3):
        given = inputs("laplace", spaced=True, seed=seed)
        points = torch.tensor(given["src"], requires_grad=True)
        strain = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        moved, box = points, torch.diag(torch.tensor(BOX, dtype=torch.float64))
        if of == "stress":
            deformed = torch.eye(3, dtype=torch.float64) + (strain + strain.T) / 2
            moved, box = deformed @ points, box @ deformed
        options = parki.EwaldOptions(3, box, 1e-10)
        energy = (parki.torch.laplace(moved, moved, charges, options) * charges).sum()
        by = strain if of == "stress" else points
        (slope,) = torch.autograd.grad(energy, by, create_graph=True)
        slope.square().sum().backward()
        counts.append((len(chosen), len(placed)))
    assert counts[1][0] and counts[1][0] == counts[2][0] == counts[3][0]
    assert [after[1] - before[1] for before, after in pairwise(counts)] == [sums] * 3


@pytest.mark.parametrize(("loss", "sums"), [("energy", 1), ("other weights", 2)])
@pytest.mark.parametrize("kernel", ["laplace", "stokes_sl"])
def test_energies_and_their_first_derivatives_are_one_sum(kernel, loss, sums, monkeypatch):
    """Backward multiplies what the sum has saved, if values are a multiple of its density."""
    placed, place = [], EwaldSum.place
    monkeypatch.setattr(EwaldSum, "place", lambda *a, **k: placed.append(1) or place(*a, **k))
    given = inputs(kernel, same=True, spaced=True)
    x, q = (torch.tensor(given[name], requires_grad=True) for name in ("trg", "dens"))
    box = torch.tensor(np.diag(BOX), requires_grad=kernel == "laplace")
    options = {"periodicity": 3, "box": box if kernel == "laplace" else BOX, "tolerance": 1e-10}
    u = getattr(parki.torch, kernel)(x, x, q, **options)
    weights = torch.tensor(np.random.default_rng(1).standard_normal(q.shape))
    weights = 0.5 * (q.detach() if loss == "energy" else weights)
    of = (x, q, box) if kernel == "laplace" else (x, q)
    found = torch.autograd.grad((u * weights).sum(), of, retain_graph=True)
    assert len(placed) == sums
    again = torch.autograd.grad((u * weights).sum(), of, create_graph=True)
    monkeypatch.setattr(parki.torch, "saves", lambda *_: False)
    u = getattr(parki.torch, kernel)(x, x, q, **options)
    expected = torch.autograd.grad((u * weights).sum(), of)
    for one, two, three in zip(found, again, expected, strict=True):
        torch.testing.assert_close(one, three, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(two, three, rtol=1e-8, atol=1e-8)


def test_batched_gradients():
    """PyTorch maps a backward pass over several values, whose numbers it hides."""
    given = inputs("laplace", same=True, spaced=True)
    x, q = (torch.tensor(given[name], requires_grad=True) for name in ("trg", "dens"))
    u = parki.torch.laplace(x, x, q, periodicity=3, box=BOX, tolerance=1e-6)
    rows = torch.eye(len(u), dtype=u.dtype)
    at_once = torch.autograd.grad(u, (x, q), rows, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(u, (x, q), row, retain_graph=True) for row in rows]
    for mapped, parts in zip(at_once, zip(*one_by_one, strict=True), strict=True):
        torch.testing.assert_close(mapped, torch.stack(parts), rtol=1e-8, atol=1e-8)


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


# --- modules that have a plan ---------------------------------------------------------------------


class Flow(torch.nn.Module):
    """A plan, applied to a density that is a parameter."""

    def __init__(self, device):
        super().__init__()
        given = tensors("laplace", device, requires=False, same=True)
        self.plan = parki.Plan("laplace", given["trg"], given["trg"], periodicity=3, box=BOX)
        self.dens = torch.nn.Parameter(given["dens"])

    def forward(self):
        return parki.torch.apply(self.plan, self.dens)


def test_a_module_with_a_plan_is_copied_and_saved(device, tmp_path):
    first = Flow(device)
    torch.save(first, tmp_path / "flow.pt")
    for other in (copy.deepcopy(first), torch.load(tmp_path / "flow.pt", weights_only=False)):
        assert other.plan is not first.plan and other.dens is not first.dens
        torch.testing.assert_close(other(), first())
        (slope,) = torch.autograd.grad(other().square().sum(), other.dens)
        torch.testing.assert_close(slope, 2 * first.plan.adjoint(first().detach()))


# --- a box that is learned ------------------------------------------------------------------------


# A sum with derivatives by its points or its box has the gradient as well, by its own parameters.
WITHIN = {"rtol": 1e-5, "atol": 0}


class Cell(torch.nn.Module):
    """The sums of points in a box that is a parameter, with options made once."""

    def __init__(self):
        super().__init__()
        self.edges = torch.nn.Parameter(torch.tensor(BOX, dtype=torch.float64))
        self.options = parki.EwaldOptions(3, self.edges, 1e-4)
        self.given = [torch.from_numpy(each) for each in suspension()[:2]]

    def forward(self):
        points, forces = self.given
        u = parki.torch.laplace(points, points, forces[0], self.options)
        v = parki.torch.sphere_velocities(points, 0.1, forces, self.options)
        return torch.stack([u @ forces[0], v.square().sum()])

    def expected(self):
        """Return the same with a box of plain numbers, which were read now."""
        other = Cell()
        other.options = parki.EwaldOptions(3, self.edges.tolist(), 1e-4)
        return other()


def test_a_box_that_is_learned_is_read_at_each_call():
    """Its steps were never seen, while its gradients went to the parameter."""
    first, second = Cell(), Cell()
    second = copy.deepcopy(second)
    assert second.options.box.tensor is second.edges
    second.load_state_dict({"edges": 1.1 * first.edges.detach()})
    search = torch.optim.SGD(first.parameters(), lr=1e-3)
    for _ in range(2):
        search.zero_grad()
        first().sum().backward()
        search.step()
        torch.testing.assert_close(first(), first.expected(), **WITHIN)
    assert not torch.allclose(first(), Cell()(), rtol=1e-4)
    torch.compiler.reset()
    compiled = torch.compile(second, backend="eager")
    for requires in (True, False, True):  # a frozen one, too
        second.requires_grad_(requires)
        for call in (second, compiled):
            found = call()
            torch.testing.assert_close(found, second.expected(), **WITHIN)
            assert found.requires_grad == requires
        with torch.no_grad():
            second.edges *= 1.05
    torch.compiler.reset()
    with pytest.raises(Exception, match=r"box is an array within torch\.compile"):
        torch.compile(second, backend="eager", fullgraph=True)()
    with torch.no_grad():
        second.edges[0] = -1
    with pytest.raises(parki.ParkiValueError, match="expected 3 positive, finite edge lengths"):
        second()


def test_parki_itself_reads_a_tensor_at_each_call():
    """Plans keep the box that they were made with, as they keep points."""
    box, (points, forces) = torch.tensor(BOX, dtype=torch.float64), suspension()[:2]
    options = parki.EwaldOptions(3, box, 1e-4)
    plans = [
        parki.Plan("laplace", points, points, options),
        parki.Plan("laplace", points, points, periodicity=3, box=box, tolerance=1e-4),
    ]
    box *= 1.1
    given = "laplace", points, points, forces[0]
    for old, plan in zip((False, True, True), (None, *plans), strict=True):
        edges = BOX if old else box.tolist()
        there = parki.EwaldOptions(3, edges, 1e-4)
        how = {"values": forces[1], "wrt": ("box", "dens")}
        found = plan.vjp(forces[0], **how) if plan else parki.vjp(*given, options, **how)
        for name, expected in parki.vjp(*given, there, **how).items():
            np.testing.assert_array_equal(found[name], expected)
        found = plan(forces[0]) if plan else parki.laplace(*given[1:], options)
        np.testing.assert_array_equal(found, parki.laplace(*given[1:], there))
    found, expected = (direct_sum(*given, options=each) for each in (options, there))
    assert abs(found - expected).max() > 1e-2
    np.testing.assert_array_equal(found, direct_sum(*given, box=box, periodicity=3))


# --- refusals -------------------------------------------------------------------------------------


def test_what_has_no_derivatives_or_values_is_refused():
    given = tensors("stokes_sl", requires=False)
    points, how = (given["src"], given["src"], given["dens"]), {"periodicity": 3, "tolerance": 1e-2}
    with pytest.raises(parki.ParkiTypeError, match="systems is for sums, as are"):
        parki.torch.sphere_velocities(points[0], 0.1, points[2], systems=[0, 2, 5], **how)
    with pytest.raises(parki.ParkiTypeError, match=r"trg is a ndarray; parki\.torch ta"):
        parki.torch.stokes_sl(points[0].numpy(), *points[1:], box=BOX, **how)
    offsets = torch.tensor([0, 2, 5])
    torch.compiler.reset()
    call = lambda: parki.torch.stokes_sl(*points, systems=offsets, box=BOX, **how)  # noqa: E731
    with pytest.raises(Exception, match=r"systems is an array within torch\.compile"):
        torch.compile(call, fullgraph=True, backend="aot_eager")()


# --- torch.compile --------------------------------------------------------------------------------


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
