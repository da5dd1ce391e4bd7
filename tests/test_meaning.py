"""Arrays that say more than their numbers, or have none yet, are refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from flat import options

import parki
from parki.ewald.geometry.own_boxes import own_boxes
from parki.interchange import as_array
from parki.meaning import refuse_layout
from parki.mesh import Grid

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import parki.torch  # noqa: E402

N = 6
OPTIONS = parki.EwaldOptions(3, [1, 1, 1], 1e-2)


def numbers():
    return torch.from_numpy(np.random.default_rng(0).random((3, N)))


def refused(message, value, name="dens"):
    with pytest.raises(parki.ParkiTypeError, match=message):
        as_array(name, value)


LAYOUTS = {
    "sparse": (lambda a: a.to_sparse(), r"a sparse tensor \(torch.sparse_coo\).*dens.to_dense"),
    "rows": (lambda a: a.to_sparse_csr(), r"a sparse tensor \(torch.sparse_csr\).*dens.to_dense"),
    "nested": (
        lambda a: torch.nested.nested_tensor(list(a)),
        "is a nested tensor; expected a dense",
    ),
    "jagged": (
        lambda a: torch.nested.nested_tensor(list(a), layout=torch.jagged),
        "is a nested tensor; expected a dense",
    ),
    "quantized": (
        lambda a: torch.quantize_per_tensor(a.float(), 0.1, 0, torch.quint8),
        "is a quantized tensor.*dequantize",
    ),
    "masked": (
        lambda a: torch.masked.masked_tensor(a, a > 0.5),
        r"is a masked array; pass filled values, such as dens.to_tensor\(0\)",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", LAYOUTS)
def test_layouts(kind):
    change, message = LAYOUTS[kind]
    points, dens = numbers(), change(numbers())
    refused(message, dens)
    with pytest.raises(parki.ParkiTypeError, match=message):
        refuse_layout("dens", dens)
    with pytest.raises(parki.ParkiTypeError, match=message):
        parki.torch.stokes_sl(points, points, dens, OPTIONS)
    with pytest.raises(parki.ParkiTypeError, match=message):
        parki.stokes_sl(points, points, dens, OPTIONS)


def test_a_sign_that_pytorch_has_yet_to_change():
    """DLPack hands over the numbers without it."""
    points = numbers()
    negative = torch.complex(numbers(), numbers()).conj().imag
    assert negative.is_neg() and (negative < 0).all()
    refused(r"whose sign PyTorch has yet to change; pass dens.resolve_neg\(\)", negative)
    for dens in (negative, torch._neg_view(numbers())):
        found = parki.torch.stokes_sl(points, points, dens, OPTIONS)
        torch.testing.assert_close(found, -parki.stokes_sl(points, points, numbers(), OPTIONS))


def test_tensors_without_values():
    refused("dens is on PyTorch's meta device", torch.empty(3, N, device="meta"))
    with FakeTensorMode():
        refused("dens has no values within a transformation of PyTorch", torch.ones(3, N))
    call = lambda dens: as_array("dens", dens)  # noqa: E731
    where = "dens has no values within a transformation of PyTorch such as vmap.* parki.torch"
    for attempt in (
        lambda: torch.func.vmap(call)(numbers()),
        lambda: torch.func.functionalize(call)(numbers()),
        lambda: make_fx(call)(numbers()),
        lambda: make_fx(call, tracing_mode="fake")(numbers()),
    ):
        with pytest.raises(parki.ParkiTypeError, match=where):
            attempt()


def test_plans_within_fake_modes_give_nothing():
    """They gave memory that nobody had written."""
    points = numbers()
    plan = parki.Plan("stokes_sl", points, points, OPTIONS)
    with FakeTensorMode(), pytest.raises(parki.ParkiTypeError, match="dens has no values"):
        plan(torch.ones(3, N, dtype=torch.float64))


def test_tangents():
    """They were lost without a word."""
    with forward_ad.dual_level():
        refused("dens has a tangent", forward_ad.make_dual(numbers(), numbers()))
    call = lambda dens: as_array("dens", dens)  # noqa: E731
    for attempt in (
        lambda: torch.func.jvp(call, (numbers(),), (numbers(),)),
        lambda: torch.func.linearize(call, numbers()),
    ):
        with pytest.raises(parki.ParkiTypeError, match="dens has a tangent"):
            attempt()


def test_lists_of_what_is_refused():
    """NumPy drops the masks of rows, and the tangents."""
    refused("src is a masked array", list(np.ma.ones((3, N))), "src")
    refused("src requires a gradient", [*numbers().requires_grad_()], "src")
    with forward_ad.dual_level():
        refused("src has a tangent", [*forward_ad.make_dual(numbers(), numbers())], "src")
    rows = numbers().tolist()
    np.testing.assert_array_equal(as_array("src", rows), numbers().numpy())


CHANGES = {
    "gradient": (lambda a: a.requires_grad_(), "requires a gradient, but options are constants"),
    "meta": (lambda a: a.to("meta"), "has no values within a transformation of PyTorch"),
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("name", ["box", "tolerance", "cutoff", "sources_per_cell"])
def test_options_are_constants(name, kind):
    """A gradient by the box was lost without a word."""
    change, message = CHANGES[kind]
    value = change(torch.tensor([1.0, 1.0, 1.0] if name == "box" else 0.1))
    given = {"periodicity": 3, "box": [1, 1, 1], name: value}
    if (name, kind) != ("box", "gradient"):  # which parki.torch takes
        with pytest.raises(parki.ParkiTypeError, match=f"{name} {message}"):
            options(**given)
    if name == "box":
        with pytest.raises(parki.ParkiTypeError, match=f"{name} {message}"):
            parki.EwaldOptions(3, [value[0], 1, 1])
        for boxes in (value[None], [value], [[1, 1, value[0]]], [[[1, 0, 0], [0, value[0], 0], 1]]):
            with pytest.raises(parki.ParkiTypeError, match=f"boxes {message}"):
                own_boxes(boxes)
        with pytest.raises(parki.ParkiTypeError, match=r"spacing is .*; expected a positive"):
            Grid((8, 8, 8), value)
    assert parki.EwaldOptions(3, torch.ones(3)).box == (1, 1, 1)


def test_options_within_forward_mode():
    box = torch.ones(3, dtype=torch.float64)
    with pytest.raises(parki.ParkiTypeError, match="tolerance has a tangent, but options are con"):
        torch.func.jvp(lambda t: parki.EwaldOptions(3, [1, 1, 1], t), (box[0],), (box[0],))
    with pytest.raises(parki.ParkiTypeError, match="box has no values within a transformation of"):
        torch.func.vmap(lambda b: parki.EwaldOptions(3, b))(box[None])
