"""`parki.torch`: derivatives by PyTorch's own checks, in compiled functions, and on devices."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
from contract import call_of
from few import FEW, USUAL
from frameworks import BOX, KERNELS, PERIODICITIES, RADII, TEN, inputs, suspension

import parki
from parki.ewald.sums import SUMS
from parki.runtime.spaces import why_unavailable

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import parki.torch  # noqa: E402  (which needs it)

# Differences of sums of this tolerance, by steps of this size.
TOLERANCE, CHECK = 1e-6, {"eps": 1e-4, "atol": 1e-3, "rtol": 1e-4, "fast_mode": True}


DEVICES = ["cpu"]
if torch.cuda.is_available() and not why_unavailable("Cuda"):
    DEVICES.append(pytest.param("cuda", marks=pytest.mark.gpu))


@pytest.fixture(params=DEVICES)
def device(request):
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
        return call_of(parki.torch, kernel)(*arguments, options)

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


@pytest.mark.each
@pytest.mark.parametrize("periodicity", PERIODICITIES)
@pytest.mark.parametrize("kernel", FEW)
def test_gradcheck(kernel, periodicity, device):
    options = parki.EwaldOptions(periodicity, BOX, TOLERANCE)
    assert check(kernel, options, tensors(kernel, device, spaced=True))


@pytest.mark.parametrize("kernel", FEW)
def test_targets_that_are_sources(kernel, device):
    """In reverse and in forward mode."""
    options = parki.EwaldOptions(3, BOX, TOLERANCE)
    given = tensors(kernel, device, same=True, spaced=True)
    assert check(kernel, options, given, check_forward_ad=True)


@pytest.mark.parametrize("kernel", FEW)
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


def test_gradients_by_densities_are_there_from_a_plan():
    """As for a loss of forces: what the refusal of the second derivative names."""
    given = tensors("laplace", same=True)
    call = function("laplace", parki.EwaldOptions(3, BOX, 1e-4))
    (slope,) = torch.autograd.grad(call(given).sum(), given["trg"], create_graph=True)
    message = r"by trg, dens was asked for, of a derivative by trg.* densities alone.*'grad_u'"
    with pytest.raises(parki.ParkiTypeError, match=message):
        slope.square().sum().backward()
    change = torch.func.jvp(lambda x: call({**given, "trg": x}), (given["trg"],), (given["trg"],))
    with pytest.raises(parki.ParkiTypeError, match="of a derivative by trg;"):
        change[1].square().sum().backward()
    points = given["trg"].detach()
    plan = parki.Plan("laplace", points, points, parki.EwaldOptions(3, BOX, 1e-4), want="grad_u")
    field = parki.torch.apply(plan, given["dens"])
    assert torch.autograd.grad(field.square().sum(), given["dens"])[0].abs().max() > 0


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


def test_parki_itself_names_the_module():
    given = tensors("stokes_sl")
    with pytest.raises(parki.ParkiTypeError, match=r"requires a gradient.* parki\.torch"):
        parki.stokes_sl(*given.values(), parki.EwaldOptions(3, BOX))


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.each
@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        pytest.param(name, want, marks=() if name in USUAL else pytest.mark.slow)
        for name in SUMS
        for want in ("u", "grad_u")
        if want in SUMS[name].adjoints
    ],
)
def test_a_plan(kernel, want, device):
    given = tensors(kernel, device, requires=False)
    points = [each for name, each in given.items() if name != "dens"]
    plan = parki.Plan(kernel, *points, options=parki.EwaldOptions(2, BOX, 1e-3), want=want)
    dens = given["dens"].requires_grad_()
    torch.manual_seed(0)
    call = lambda dens: parki.torch.apply(plan, dens)  # noqa: E731
    if (kernel, want) == ("stokes_rotlet", "grad_u"):
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


def test_a_plan_of_many_boxes():
    given = tensors("stokes_sl", requires=False)
    src, half = given["src"], given["src"].shape[1] // 2
    boxes = [[3 * edge for edge in BOX], [4 * edge for edge in BOX]]
    how = {"systems": [0, half, src.shape[1]], "boxes": boxes}
    plan = parki.Plan("stokes_sl", src, src, parki.EwaldOptions(3, BOX, 1e-3), **how)
    assert len(plan.members) == 1
    dens, call = given["dens"].requires_grad_(), lambda dens: parki.torch.apply(plan, dens)
    assert torch.autograd.gradcheck(call, (dens,), check_forward_ad=True, **CHECK)
    found = call(dens)
    torch.testing.assert_close(found, plan(dens.detach()))
    plan.update_points(src, src)
    with pytest.raises(parki.ParkiValueError, match="the plan was given other points since"):
        found.sum().backward()


def test_graphs_let_go_of_plans():
    given = tensors("stokes_sl", requires=False)
    plan = parki.Plan("stokes_sl", given["trg"], given["src"], parki.EwaldOptions(3, BOX, 1e-3))
    parki.torch.apply(plan, given["dens"].requires_grad_()).sum().backward()
    gone = weakref.ref(plan)
    del plan
    gc.collect()
    assert gone() is None


# --- many systems ---------------------------------------------------------------------------------


def test_many_systems(device):
    """In boxes of their own: as one call for each system, with derivatives in both modes."""
    each = [tensors("stokes_dl", device, spaced=True, seed=seed) for seed in range(2)]
    sizes, names = (1, 3), [*each[0]]
    for size, given in zip(sizes, each, strict=True):
        given |= {n: (size * given[n]).detach().requires_grad_() for n in ("trg", "src")}
    whole = [torch.cat([given[n] for given in each], dim=-1).detach() for n in names]
    options = parki.EwaldOptions(3, BOX, TOLERANCE)
    trg, src = ([0, n, 2 * n] for n in (each[0][name].shape[1] for name in ("trg", "src")))
    boxes = [[size * edge for edge in BOX] for size in sizes]

    def call(*given):
        how = {"options": options, "systems": (trg, src), "boxes": boxes}
        return parki.torch.stokes_dl(*given, **how)

    inputs = tuple(each.requires_grad_() for each in whole)
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(call, inputs, check_forward_ad=True, **CHECK)
    found, alone = call(*inputs), []
    for given, box in zip(each, boxes, strict=True):
        own = parki.EwaldOptions(3, box, TOLERANCE)
        alone.append(parki.torch.stokes_dl(*given.values(), own))
    near = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(found, torch.cat(alone, dim=-1), **near)
    weights = torch.linspace(-1, 1, found.numel(), dtype=found.dtype, device=device)
    weights = weights.reshape(found.shape)
    of_all = torch.autograd.grad((weights * found).sum(), inputs)
    parts = zip(weights.chunk(2, dim=-1), alone, each, strict=True)
    by_system = [torch.autograd.grad((w * u).sum(), [*g.values()]) for w, u, g in parts]
    for name, one, *two in zip(names, of_all, *by_system, strict=True):
        torch.testing.assert_close(one, torch.cat(two, dim=-1), **near, msg=name)
    torch.compiler.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*whole), found, rtol=0, atol=0)


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


# --- spheres --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radii", "periodicity"),
    [(0.1, 3), *(pytest.param(RADII, axes, marks=pytest.mark.slow) for axes in (0, 3))],
)
def test_spheres(radii, periodicity, device):
    """Velocities are those of `parki.Spheres`, and differentiable in both modes."""
    given = [torch.from_numpy(each).to(device).requires_grad_() for each in suspension()]
    options = parki.EwaldOptions(periodicity, BOX, TOLERANCE)
    call = lambda x, f, t: parki.torch.sphere_velocities(x, radii, f, t, options, viscosity=0.1)  # noqa: E731
    bare = [each.detach() for each in given]
    spheres = parki.Spheres(bare[0], radii, options, viscosity=0.1)
    for found, expected in zip(call(*bare), spheres.velocities(*bare[1:]), strict=True):
        # On a device a plan, which keeps lists of pairs, has other parameters than a sum made once.
        size = float(expected.abs().max())
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 * size)
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(call, given, check_forward_ad=True, **CHECK)


def test_spheres_of_many_forces(device):
    """With ten radii; options as keywords, in compiled functions, mapped over forces."""
    points, *forces = (torch.from_numpy(each).to(device) for each in suspension(10, 0.2))
    options = {"periodicity": 3, "box": BOX, "tolerance": 1e-4}
    call = lambda x, f: parki.torch.sphere_velocities(x, TEN, f, **options)  # noqa: E731
    many, spheres = torch.stack(forces), parki.Spheres(points, TEN, **options)
    exact = spheres.velocities(many)
    size = float(exact.abs().max())
    torch.testing.assert_close(call(points, many), exact, rtol=0, atol=1e-4 * size)
    mapped = torch.func.vmap(lambda f: call(points, f))(many)
    torch.testing.assert_close(mapped, call(points, many))
    radii = TEN.tolist()
    listed = lambda x, f: parki.torch.sphere_velocities(x, radii, f, **options)  # noqa: E731
    slope = torch.func.grad(lambda x: listed(x, forces[0]).sin().sum())
    torch.compiler.reset()
    compiled = torch.compile(slope, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(points), slope(points))
    weights = call(points, forces[0]).cos()
    expected = spheres.vjp(forces[0], values=weights, wrt=("points",))["points"]
    size = float(expected.abs().max())
    torch.testing.assert_close(slope(points), expected, rtol=0, atol=1e-4 * size)


def test_spheres_that_are_refused():
    points, forces, torques = (torch.from_numpy(each) for each in suspension())
    options = parki.EwaldOptions(0, BOX, 1e-3)
    call = parki.torch.sphere_velocities
    with pytest.raises(parki.ParkiTypeError, match=r"forces is a ndarray; parki\.torch takes"):
        call(points, 0.1, forces.numpy(), options)
    with pytest.raises(parki.ParkiTypeError, match="forces and torques are None"):
        call(points, 0.1, None, options)
    with pytest.raises(parki.ParkiTypeError, match=r"radii requires a grad.* radii\.detach"):
        call(points, torch.full((5,), 0.1, requires_grad=True), forces, options)
    with pytest.raises(
        parki.ParkiValueError, match=r"points has shape \(2, 3, 5\); expected \(3, N"
    ):
        call(points.expand(2, 3, 5), 0.1, forces.expand(2, 3, 5), options)
    with pytest.raises(parki.ParkiValueError, match=r"forces has shape \(3, 4\); expected"):
        call(points, RADII, forces[:, :4], options)
    with pytest.raises(parki.ParkiValueError, match="forces and torques have the shapes"):
        call(points, RADII, forces, torques.expand(2, 3, 5), options)
    with pytest.raises(parki.ParkiValueError, match="viscosity is 0"):
        call(points, RADII, forces, options, viscosity=0)


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
@pytest.mark.parametrize(("name", "form"), GIVEN)
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
    torch.compiler.reset()
    compiled = torch.compile(call, backend="eager")
    for value in (one, two, one):
        torch.testing.assert_close(compiled(value), call(value), rtol=0, atol=0)
    torch.compiler.reset()
    whole = torch.compile(call, backend="eager", fullgraph=True)
    if form in ("list", "float", "int"):
        for value in (one, two, one):
            torch.testing.assert_close(whole(value), call(value), rtol=0, atol=0)
        return
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
    arguments = ("stokes_sl", name, given["trg"], given["src"], given["dens"], None)
    torch.library.opcheck(
        torch.ops.parki.sum, arguments, test_utils=("test_schema", "test_faketensor")
    )


# --- transformations ------------------------------------------------------------------------------


def functions(kernel="stokes_dl"):
    """Return inputs, and functions of one of them: sums, and a plan's sum of the density."""
    given = tensors(kernel, requires=False)
    options = parki.EwaldOptions(3, BOX, 1e-4)
    call = function(kernel, options)
    points = [given[name] for name in given if name != "dens"]
    plan = parki.Plan(kernel, *points, options)
    found = {name: lambda value, name=name: call({**given, name: value}) for name in given}
    found["plan"] = lambda value: parki.torch.apply(plan, value)
    return given, {name: bare(one) for name, one in found.items()}


def bare(call):
    """Return a function of one argument, which PyTorch counts."""
    return lambda value: call(value)


NAMES = ("trg", "src", "dens", "norms", "plan")


def of(given, name):
    return given["dens" if name == "plan" else name]


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_of_torch_func(name):
    given, calls = functions()
    call, value = calls[name], of(given, name)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(value, value.cos())
        expected = torch.autograd.forward_ad.unpack_dual(call(dual)).tangent
    assert expected.abs().max() > 0
    for found in (
        torch.func.jvp(call, (value,), (value.cos(),))[1],
        torch.func.linearize(call, value)[1](value.cos()),
    ):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_vmap(name):
    given, calls = functions()
    call, value = calls[name], of(given, name)
    many = torch.stack([value, 0.9 * value, value.flip(-1)])
    expected = torch.stack([call(one) for one in many])
    torch.testing.assert_close(torch.func.vmap(call)(many), expected)
    last = torch.func.vmap(call, in_dims=-1, out_dims=-1)(many.movedim(0, -1))
    torch.testing.assert_close(last.movedim(-1, 0), expected)
    twice = torch.func.vmap(torch.func.vmap(call))(torch.stack([many, many.flip(0)]))
    torch.testing.assert_close(twice, torch.stack([expected, expected.flip(0)]))
    loss = lambda one: call(one).sin().sum()  # noqa: E731
    slopes = torch.func.vmap(torch.func.grad(loss))(many)
    torch.testing.assert_close(slopes, torch.stack([torch.func.grad(loss)(one) for one in many]))


def test_mapped_densities_are_summed_at_once(monkeypatch):
    from parki.torch.sums import ewald

    shapes, original = [], ewald.summed

    def spy(given, dens, **more):
        shapes.append(dens.shape)
        return original(given, dens, **more)

    monkeypatch.setattr(ewald, "summed", spy)
    given, calls = functions("laplace")
    torch.func.vmap(torch.func.vmap(calls["dens"]))(given["dens"].expand(2, 3, -1))
    assert shapes == [(6, 5)]


@pytest.mark.parametrize("name", NAMES)
def test_jacobians(name):
    given, calls = functions()
    call, value = calls[name], of(given, name)
    expected = torch.autograd.functional.jacobian(call, value)
    for found in (
        torch.func.jacrev(call)(value),
        torch.func.jacfwd(call)(value),
        torch.autograd.functional.jacobian(call, value, vectorize=True),
        torch.autograd.functional.jacobian(call, value, vectorize=True, strategy="forward-mode"),
    ):
        # The sums of both modes differ, within the tolerance.
        scale = float(expected.abs().max())
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-2 * scale)


@pytest.mark.parametrize("name", NAMES)
def test_many_gradients_at_once(name):
    given, calls = functions()
    value = of(given, name).clone().requires_grad_()
    found = calls[name](value)
    values = torch.stack([found.detach().sin(), found.detach().cos()])
    many = torch.autograd.grad(found, value, values, is_grads_batched=True, retain_graph=True)[0]
    for one, each in zip(many, values, strict=True):
        torch.testing.assert_close(
            one, torch.autograd.grad(found, value, each, retain_graph=True)[0]
        )


@pytest.mark.parametrize("name", NAMES)
def test_hessians(name):
    """Those by densities are there, and others are refused by name."""
    given, calls = functions()
    call, value = calls[name], of(given, name)
    loss = lambda one: call(one).square().sum()  # noqa: E731
    attempts = (
        lambda: torch.func.hessian(loss)(value),
        lambda: torch.func.jacrev(torch.func.jacrev(loss))(value),
        lambda: torch.func.jacfwd(torch.func.jacfwd(loss))(value),
    )
    if name not in ("dens", "plan"):
        for attempt in attempts:
            with pytest.raises(parki.ParkiTypeError, match=f"a second derivative by {name}"):
                attempt()
        return
    expected = torch.autograd.functional.hessian(loss, value)
    for attempt in attempts:
        torch.testing.assert_close(attempt(), expected)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_transformations(name):
    """Forward mode within a compiled function was zero, without a word."""
    given, calls = functions()
    call, value = calls[name], of(given, name)
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


def test_arguments():
    given = tensors("stokes_sl", requires=False)
    points, dens = given["src"], given["dens"]
    options = parki.EwaldOptions(3, BOX, 1e-2)
    expected = parki.torch.stokes_sl(points, points, dens, options)
    found = parki.torch.stokes_sl(points, points, dens, None, options)
    torch.testing.assert_close(found, expected)
    with pytest.raises(parki.ParkiTypeError, match="options is a NoneType; expected EwaldOptions"):
        parki.torch.stokes_sl(points, points, dens)
    with pytest.raises(parki.ParkiTypeError, match="norms was given, but stokes_sl has no normals"):
        parki.torch.stokes_sl(points, points, dens, points, options)
    with pytest.raises(parki.ParkiTypeError, match="norms is missing; stokes_dl needs normals"):
        parki.torch.stokes_dl(points, points, dens, options)
    with pytest.raises(parki.ParkiTypeError, match=r"plan is a int; expected parki\.Plan"):
        parki.torch.apply(3, dens)


# --- packages -------------------------------------------------------------------------------------


def test_parki_does_not_import_it():
    program = (
        "import sys, parki; assert not {'torch', 'jax'} & set(sys.modules), 'a framework came';"
        "import parki.torch; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("kernel", [name for name in KERNELS if "(" not in name])
def test_every_sum_is_there(kernel):
    assert kernel in parki.torch.__all__
    assert np.ndim(SUMS[kernel].rows) == 0
