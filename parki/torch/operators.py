"""parki's sums as operators of PyTorch, which every call goes through.

A sum is therefore one operation for ``torch.compile``, exports, ``make_fx`` and fake tensors.
Operators take numbers, strings and tensors, so options are passed as a string, with systems and
boxes in it, and plans as a number. `graph` calls the operators, and supplies their derivatives if
they are called from elsewhere, for example by a recorded graph.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import torch

from parki.core import SUMS, AnyPlan, LinearMap
from parki.errors import ParkiValueError
from parki.torch.constants import read
from parki.torch.sums import ALL, plain, pulled, pushed, summed
from parki.torch.sums import named as by_name
from parki.typing import AnyArray, AnyKernel

_library = torch.library.Library("parki", "DEF")
_TAGS = [torch.Tag.pt2_compliant_tag]
if hasattr(torch.Tag, "cudagraph_unsafe"):
    # Sums wait for the device, so `torch.compile` must keep them out of its CUDA graphs.
    _TAGS.append(torch.Tag.cudagraph_unsafe)
# Plans by number; and for each plan its current number, with the points it had at that time.
_numbers = count()
_plans: WeakValueDictionary[int, AnyPlan] = WeakValueDictionary()
_handles: WeakKeyDictionary[AnyPlan, tuple[int, ref[object]]] = WeakKeyDictionary()


def _torch_handle(plan: AnyPlan) -> int:
    """Return the number of a plan with its current points."""
    handle, points = _handles.get(plan, (-1, None))
    if points is None or points() is not plan.points:
        LinearMap(plan)  # or refuse it
        handle = next(_numbers)
        _plans[handle], _handles[plan] = plan, (handle, ref(plan.points))
    return handle


def linear_map(handle: int) -> LinearMap:
    """Return the plan of a number; refuse it if its points have changed."""
    plan = _plans.get(handle)
    if plan is None or _torch_handle(plan) != handle:
        raise ParkiValueError(
            "a compiled function calls a plan that was given other points since, or is gone; "
            "compile it again, and keep the plan"
        )
    return LinearMap(plan)


# Before PyTorch 2.13 only methods set under their own name can be constant functions of objects.
AnyPlan._torch_handle = torch.compiler.assume_constant_result(_torch_handle)  # type: ignore[attr-defined]


def number(plan: AnyPlan) -> int:
    """Return the number of a plan with its current points, for operators."""
    if torch.compiler.is_compiling():
        id(plan)  # so that the compiler, which does not watch the object of a method, watches this
    handle: int = plan._torch_handle()  # type: ignore[attr-defined]
    return handle


# The computation of each operator, and the shape of its result.
Derivatives = tuple[Any, ...]
ARGUMENTS = (
    "str kernel, str options, {}Tensor trg, Tensor? src, Tensor dens, Tensor? norms, Tensor? box"
)


def _sum(kernel: AnyKernel, options: str, *tensors: Any) -> Any:
    return summed(kernel, read(options), tensors)


def _sum_shape(
    kernel: str, options: str, trg: AnyArray, src: AnyArray, dens: AnyArray, *_: Any
) -> Any:
    many = dens.shape[: dens.ndim - len(SUMS[kernel].density_shape(0))]
    return trg.new_empty((*many, *SUMS[kernel].value_shape(trg.shape[1])))


def _pull(kernel: AnyKernel, options: str, wrt: str, *tensors: Any) -> Derivatives:
    return by_input(pulled(kernel, read(options), wrt, tensors), tensors[-1])


def _pull_shapes(kernel: str, options: str, wrt: str, *tensors: Any) -> Derivatives:
    values = tensors[-1]
    shapes = {name: tensor.shape for name, tensor in by_name(tensors[:5]).items()}
    # Several values give one derivative by densities each; other derivatives are added up.
    many = values.shape[: values.ndim - len(SUMS[kernel].value_shape(0))]
    axes = len(SUMS[kernel].density_shape(0))
    shapes["values"] = values.shape
    shapes["dens"] = (*many, *shapes["dens"][len(shapes["dens"]) - axes :])
    return by_input({name: values.new_empty(shapes[name]) for name in wrt.split()}, values)


def _push(kernel: AnyKernel, options: str, *tensors: Any) -> Any:
    return pushed(kernel, read(options), tensors)


def _apply(handle: int, transposed: bool, of_change: bool, values: AnyArray) -> Any:
    return linear_map(handle)(plain(values), transposed, of_change)


def _apply_shape(handle: int, transposed: bool, of_change: bool, values: AnyArray) -> Any:
    return values.new_empty(linear_map(handle).result_of(values.shape, transposed))


def by_input(derivatives: dict[str, Any], like: Any) -> Derivatives:
    """Return derivatives by all inputs and by values; missing ones are empty."""
    return tuple(derivatives.get(name, like.new_empty(0)) for name in ALL)


def named(wrt: str, derivatives: Derivatives) -> tuple[Any, ...]:
    """Return the derivatives by the named inputs."""
    return tuple(derivatives[ALL.index(name)] for name in wrt.split())


def _define(name: str, schema: str, run: Any, shape: Any) -> Any:
    """Define an operator; return a function that calls it below autograd, which `graph` handles."""
    _library.define(name + schema, tags=_TAGS)
    # Where the compiler leaves a call to Python, it would compile what runs inside of it.
    _library.impl(name, torch.compiler.disable(run), "CompositeExplicitAutograd")
    torch.library.register_fake(f"parki::{name}", shape, lib=_library)
    operator = getattr(torch.ops.parki, name)

    def call(*arguments: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*arguments)

    return call


def differentiate(name: str, function: Any) -> None:
    """Replace an operator by an autograd function wherever it is differentiated."""
    _library.impl(name, function, "Autograd")


_CHANGES = "Tensor? {0}_trg, Tensor? {0}_src, Tensor? {0}_dens, Tensor? {0}_norms, Tensor? {0}_box"
_MOVES = _CHANGES.format("of")
_ALL = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
sum = _define("sum", f"({ARGUMENTS.format('')}) -> Tensor", _sum, _sum_shape)
pull = _define(
    "pull",
    f"({ARGUMENTS.format('str wrt, ')}, {_MOVES}, Tensor values) -> {_ALL}",
    _pull,
    _pull_shapes,
)
_LISTS = f"{ARGUMENTS.format('')}, {_MOVES}, {_CHANGES.format('more')}"
push = _define("push", f"({_LISTS}) -> Tensor", _push, _sum_shape)
apply = _define(
    "apply",
    "(int handle, bool transposed, bool of_change, Tensor values) -> Tensor",
    _apply,
    _apply_shape,
)
