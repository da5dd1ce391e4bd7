"""`parki.torch` alone: derivatives, modules, boxes, refusals; see also test_frameworks.py."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from frameworks import BOX, inputs, suspension
from torch_inputs import DEVICES, function, tensors

import parki
from parki.ewald.derivatives import overflow, saved, second
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.reference import direct_sum

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import parki.torch  # noqa: E402  (which needs it)
from parki.torch import constants as text_constants  # noqa: E402

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


def test_energies_have_the_derivatives_of_products_with_sums(monkeypatch):
    """First ones ask nothing about values, as it is known that these are half of the charges."""
    given = inputs("laplace", same=True, spaced=True)
    x, q = (torch.tensor(given[name], requires_grad=True) for name in ("trg", "dens"))
    of = x, q, torch.tensor(np.diag(BOX), requires_grad=True)
    options = {"periodicity": 3, "box": of[2], "tolerance": 1e-10}

    def product():
        return (0.5 * q * parki.torch.laplace(x, x, q, **options)).sum()

    def energy():
        return parki.torch.energy(x, q, rows=False, **options)

    def derivatives(energy):
        slopes = torch.autograd.grad(energy() ** 2, of, create_graph=True)
        total = sum((slope.sin() * slope.cumsum(dim=-1)).sum() for slope in slopes)
        mapped = torch.tensor([1.0, -2.0], dtype=x.dtype)
        every = torch.autograd.grad(energy(), of, mapped, is_grads_batched=True)
        return *slopes, *torch.autograd.grad(total, of), *every

    for found, expected in zip(derivatives(energy), derivatives(product), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    monkeypatch.setattr(saved, "multiple", None)
    slopes = torch.autograd.grad(3 * energy(), of)
    monkeypatch.undo()
    for found, expected in zip(slopes, torch.autograd.grad(3 * product(), of), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


class Products(TorchDispatchMode):
    """Counts products of tensors."""

    count = 0

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        self.count += operation is torch.ops.aten.mul.Tensor
        return operation(*arguments, **(named or {}))


def test_calls_ask_once(monkeypatch):
    """Options of numbers are made once, and values are looked at where results are not finite.

    Forces are two products of tensors, each of which takes a GPU as long as much Python.
    """
    given = inputs("laplace", same=True, spaced=True)
    x, q = torch.tensor(given["trg"], requires_grad=True), torch.tensor(given["dens"])

    def energy():
        return parki.torch.energy(x, q, rows=False, periodicity=3, box=BOX, tolerance=1e-10)

    def loss():
        (slope,) = torch.autograd.grad(energy(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), x)[0]

    before = loss()
    monkeypatch.setattr(text_constants, "_made", None)
    monkeypatch.setattr(overflow, "extremes", None)
    torch.testing.assert_close(loss(), before, rtol=1e-12, atol=1e-12)
    total = energy()
    with Products() as products:
        torch.autograd.grad(total, x)
    assert products.count == 2


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


@pytest.mark.parametrize("device", DEVICES)
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


@pytest.mark.parametrize("device", DEVICES)
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
