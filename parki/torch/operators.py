"""parki's sums as operators of PyTorch, which every call goes through.

So what records operations, or finds their shapes, sees a sum as one: ``torch.compile``, exports,
``make_fx``, fake tensors. Operators take numbers, texts and tensors: options go by a text, and
plans by a number. `graph` calls them, and gives them their derivatives where others call them, as
what was recorded does.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import torch

from parki.errors import ParkiValueError
from parki.ewald.derivatives.linear_map import LinearMap
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import AnyPlan
from parki.ewald.points import result_shape
from parki.ewald.sums import SUMS
from parki.ewald.task import Points
from parki.runtime import ExecutionSpace
from parki.torch.sums import INPUTS, plain, pulled, pushed, summed

_library = torch.library.Library("parki", "DEF")
_TAGS = [torch.Tag.pt2_compliant_tag]
if hasattr(torch.Tag, "cudagraph_unsafe"):
    # They wait for the device, which no CUDA graph can: `torch.compile` leaves them out of its own.
    _TAGS.append(torch.Tag.cudagraph_unsafe)
# Plans by their numbers; and of each the number that holds, with the points it had by then.
_numbers = count()
_plans: WeakValueDictionary[int, AnyPlan] = WeakValueDictionary()
_handles: WeakKeyDictionary[AnyPlan, tuple[int, ref[Points]]] = WeakKeyDictionary()


@lru_cache(maxsize=256)
def _written(options: EwaldOptions) -> str:
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return json.dumps(
        {n: v.name if isinstance(v, ExecutionSpace) else v for n, v in values.items()}
    )


@lru_cache(maxsize=256)
def _options(text: str) -> EwaldOptions:
    return EwaldOptions(**json.loads(text))


def _torch_text(options: EwaldOptions) -> str:
    """Return options as a text."""
    return _written(options)


def _torch_handle(plan: AnyPlan) -> int:
    """Return the number of a plan with its points."""
    handle, points = _handles.get(plan, (-1, None))
    if points is None or points() is not plan.points:
        LinearMap(plan)  # or refuse it
        handle = next(_numbers)
        _plans[handle], _handles[plan] = plan, (handle, ref(plan.points))
    return handle


def linear_map(handle: int) -> LinearMap:
    """Return the plan of a number with the points it had."""
    plan = _plans.get(handle)
    if plan is None or _torch_handle(plan) != handle:
        raise ParkiValueError(
            "a compiled function calls a plan that was given other points since, or is gone; "
            "compile it again, and keep the plan"
        )
    return LinearMap(plan)


# Functions of constants take no objects before PyTorch 2.13, but a method, by its own name, does.
EwaldOptions._torch_text = torch.compiler.assume_constant_result(_torch_text)  # type: ignore[attr-defined]
AnyPlan._torch_handle = torch.compiler.assume_constant_result(_torch_handle)  # type: ignore[attr-defined]


def text(options: EwaldOptions) -> str:
    """Return options as the text that operators take."""
    found: str = options._torch_text()  # type: ignore[attr-defined]
    return found


def number(plan: AnyPlan) -> int:
    """Return the number of a plan with its points, which operators take."""
    found: int = plan._torch_handle()  # type: ignore[attr-defined]
    return found


# What each operator computes, and of which shape that is.
Four = tuple[Any, Any, Any, Any]
GIVEN = "str kernel, str options, {}Tensor trg, Tensor? src, Tensor dens, Tensor? norms"


def _sum(kernel: str, options: str, *given: Any) -> Any:
    return summed(kernel, _options(options), *given)


def _sum_shape(kernel: str, options: str, trg: Any, src: Any, dens: Any, norms: Any) -> Any:
    many = dens.shape[: dens.ndim - len(SUMS[kernel].density_shape(0))]
    return trg.new_empty((*many, *result_shape(kernel, "u", trg.shape[1])))


def _pull(kernel: str, options: str, wrt: str, *given: Any) -> Four:
    return four(pulled(kernel, _options(options), wrt, given[:4], given[4]), given[4])


def _pull_shapes(kernel: str, options: str, wrt: str, *given: Any) -> Four:
    *inputs, values = given
    shapes = {n: each.shape for n, each in zip(INPUTS, inputs, strict=True) if each is not None}
    # Of several values there are several derivatives by densities, and else they are added up.
    many = values.shape[: values.ndim - len(result_shape(kernel, "u", 0))]
    own = len(SUMS[kernel].density_shape(0))
    shapes["dens"] = (*many, *shapes["dens"][len(shapes["dens"]) - own :])
    return four({name: values.new_empty(shapes[name]) for name in wrt.split()}, values)


def _push(kernel: str, options: str, *given: Any) -> Any:
    return pushed(kernel, _options(options), given[:4], given[4:])


def _push_shape(kernel: str, options: str, *given: Any) -> Any:
    return _sum_shape(kernel, options, *given[:4])


def _apply(handle: int, transposed: bool, values: Any) -> Any:
    return linear_map(handle)(plain(values)[0], transposed)


def _apply_shape(handle: int, transposed: bool, values: Any) -> Any:
    return values.new_empty(linear_map(handle).found(values.shape, transposed))


def four(found: dict[str, Any], like: Any) -> Four:
    """Return derivatives by all inputs: empty ones, where there are none."""
    trg, src, dens, norms = (found.get(name, like.new_empty(0)) for name in INPUTS)
    return trg, src, dens, norms


def named(wrt: str, found: Four) -> tuple[Any, ...]:
    """Return the derivatives that there are."""
    every = dict(zip(INPUTS, found, strict=True))
    return tuple(every[name] for name in wrt.split())


def _define(name: str, schema: str, run: Any, shape: Any) -> Any:
    """Define an operator; return what calls it below autograd, whose part `graph` has."""
    _library.define(name + schema, tags=_TAGS)
    _library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"parki::{name}", shape, lib=_library)
    operator = getattr(torch.ops.parki, name)

    def call(*given: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*given)

    return call


def differentiate(name: str, function: Any) -> None:
    """Have a function of autograd take the place of an operator, wherever it is differentiated."""
    _library.impl(name, function, "Autograd")


_CHANGES = "Tensor? of_trg, Tensor? of_src, Tensor? of_dens, Tensor? of_norms"
_ALL = "(Tensor, Tensor, Tensor, Tensor)"
sum = _define("sum", f"({GIVEN.format('')}) -> Tensor", _sum, _sum_shape)
pull = _define(
    "pull", f"({GIVEN.format('str wrt, ')}, Tensor values) -> {_ALL}", _pull, _pull_shapes
)
push = _define("push", f"({GIVEN.format('')}, {_CHANGES}) -> Tensor", _push, _push_shape)
apply = _define(
    "apply", "(int handle, bool transposed, Tensor values) -> Tensor", _apply, _apply_shape
)
