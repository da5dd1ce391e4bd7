"""parki's sums as operators of PyTorch, which every call goes through.

So what records operations, or finds their shapes, sees a sum as one: ``torch.compile``, exports,
``make_fx``, fake tensors. Operators take numbers, texts and tensors: options go by a text, and
plans by a number. Their derivatives are those of `graph`, in
which they are called.
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
from parki.ewald.fixed import Fixed
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan
from parki.ewald.points import result_shape
from parki.ewald.sums import SUMS
from parki.ewald.task import Points
from parki.runtime import ExecutionSpace
from parki.torch.sums import INPUTS, plain, pulled, pushed, summed

# They wait for the device, which a CUDA graph cannot: `torch.compile` leaves them out of its own.
_HOW: dict[str, Any] = {"mutates_args": ()}
if hasattr(torch.Tag, "cudagraph_unsafe"):
    _HOW["tags"] = (torch.Tag.cudagraph_unsafe,)
# Plans by their numbers; and of each the number that holds, with the points it had by then.
_numbers = count()
_plans: WeakValueDictionary[int, Plan] = WeakValueDictionary()
_handles: WeakKeyDictionary[Plan, tuple[int, ref[Points]]] = WeakKeyDictionary()


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


def _torch_handle(plan: Plan) -> int:
    """Return the number of a plan with its points."""
    handle, points = _handles.get(plan, (-1, None))
    if points is None or points() is not plan.points:
        Fixed(plan)  # or refuse it
        handle = next(_numbers)
        _plans[handle], _handles[plan] = plan, (handle, ref(plan.points))
    return handle


def fixed(handle: int) -> Fixed:
    """Return the plan of a number with the points it had."""
    plan = _plans.get(handle)
    if plan is None or _torch_handle(plan) != handle:
        raise ParkiValueError(
            "a compiled function calls a plan that was given other points since, or is gone; "
            "compile it again, and keep the plan"
        )
    return Fixed(plan)


# Functions of constants take no objects before PyTorch 2.13, but a method, by its own name, does.
EwaldOptions._torch_text = torch.compiler.assume_constant_result(_torch_text)  # type: ignore[attr-defined]
Plan._torch_handle = torch.compiler.assume_constant_result(_torch_handle)  # type: ignore[attr-defined]


def text(options: EwaldOptions) -> str:
    """Return options as the text that operators take."""
    found: str = options._torch_text()  # type: ignore[attr-defined]
    return found


def number(plan: Plan) -> int:
    """Return the number of a plan with its points, which operators take."""
    found: int = plan._torch_handle()  # type: ignore[attr-defined]
    return found


@torch.library.custom_op("parki::sum", **_HOW)
def sum(
    kernel: str,
    options: str,
    trg: torch.Tensor,
    src: torch.Tensor | None,
    dens: torch.Tensor,
    norms: torch.Tensor | None,
) -> torch.Tensor:
    """Return a sum; without sources these are the targets."""
    found: torch.Tensor = summed(kernel, _options(options), trg, src, dens, norms)
    return found


@sum.register_fake
def _sum_shape(
    kernel: str, options: str, trg: torch.Tensor, src: Any, dens: torch.Tensor, norms: Any
) -> torch.Tensor:
    many = dens.shape[: dens.ndim - len(SUMS[kernel].density_shape(0))]
    return trg.new_empty((*many, *result_shape(kernel, "u", trg.shape[1])))


Four = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@torch.library.custom_op("parki::pull", **_HOW)
def pull(
    kernel: str,
    options: str,
    wrt: str,
    trg: torch.Tensor,
    src: torch.Tensor | None,
    dens: torch.Tensor,
    norms: torch.Tensor | None,
    values: torch.Tensor,
) -> Four:
    """Return the derivatives by all inputs of the product of a sum with values.

    Those that ``wrt`` does not name are empty.
    """
    found = pulled(kernel, _options(options), wrt, (trg, src, dens, norms), values)
    return _four(found, values)


@pull.register_fake
def _pull_shapes(
    kernel: str,
    options: str,
    wrt: str,
    trg: torch.Tensor,
    src: Any,
    dens: torch.Tensor,
    norms: Any,
    values: torch.Tensor,
) -> Four:
    given = zip(INPUTS, (trg, src, dens, norms), strict=True)
    shapes = {name: each.shape for name, each in given if each is not None}
    # Of several values there are several derivatives by densities, and else they are added up.
    many = values.shape[: values.ndim - len(result_shape(kernel, "u", 0))]
    shapes["dens"] = (*many, *dens.shape[dens.ndim - len(SUMS[kernel].density_shape(0)) :])
    return _four({name: values.new_empty(shapes[name]) for name in wrt.split()}, values)


def _four(found: dict[str, torch.Tensor], like: torch.Tensor) -> Four:
    trg, src, dens, norms = (found.get(name, like.new_empty(0)) for name in INPUTS)
    return trg, src, dens, norms


def named(wrt: str, four: Four) -> tuple[torch.Tensor, ...]:
    """Return the derivatives that there are."""
    found = dict(zip(INPUTS, four, strict=True))
    return tuple(found[name] for name in wrt.split())


@torch.library.custom_op("parki::push", **_HOW)
def push(
    kernel: str,
    options: str,
    trg: torch.Tensor,
    src: torch.Tensor | None,
    dens: torch.Tensor,
    norms: torch.Tensor | None,
    of_trg: torch.Tensor | None,
    of_src: torch.Tensor | None,
    of_dens: torch.Tensor | None,
    of_norms: torch.Tensor | None,
) -> torch.Tensor:
    """Return the change of a sum by those of its inputs."""
    changes = of_trg, of_src, of_dens, of_norms
    found: torch.Tensor = pushed(kernel, _options(options), (trg, src, dens, norms), changes)
    return found


@push.register_fake
def _push_shape(kernel: str, options: str, *given: Any) -> torch.Tensor:
    return _sum_shape(kernel, options, *given[:4])


@torch.library.custom_op("parki::apply", **_HOW)
def apply(handle: int, transposed: bool, values: torch.Tensor) -> torch.Tensor:
    """Return the sum of a plan, or its transpose."""
    found: torch.Tensor = fixed(handle)(plain(values)[0], transposed)
    return found


@apply.register_fake
def _apply_shape(handle: int, transposed: bool, values: torch.Tensor) -> torch.Tensor:
    return values.new_empty(fixed(handle).found(values.shape, transposed))


# Of graphs that were exported, in reverse mode: elsewhere `graph` has them.
def _keep_sum(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.kernel, ctx.options, *given = inputs
    ctx.save_for_backward(*given)


def _sum_backward(ctx: Any, values: Any) -> tuple[Any, ...]:
    wrt = [n for n, need in zip(INPUTS, ctx.needs_input_grad[2:], strict=True) if need]
    four = pull(ctx.kernel, ctx.options, " ".join(wrt), *ctx.saved_tensors, values)
    found = {name: part for name, part in zip(INPUTS, four, strict=True) if name in wrt}
    return (None, None, *(found.get(name) for name in INPUTS))


def _keep_apply(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.handle, ctx.transposed, _ = inputs


def _apply_backward(ctx: Any, values: Any) -> tuple[Any, ...]:
    return None, None, apply(ctx.handle, not ctx.transposed, values)


sum.register_autograd(_sum_backward, setup_context=_keep_sum)
apply.register_autograd(_apply_backward, setup_context=_keep_apply)
