"""parki's sums as operators for ``torch.compile``, which does not see inside of them.

They take numbers, texts and tensors: options and plans go by a name.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import torch

from parki.errors import ParkiValueError
from parki.ewald.fixed import Fixed
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan
from parki.ewald.points import result_shape
from parki.ewald.sums import SUMS
from parki.ewald.task import Points
from parki.torch.graph import INPUTS, plain, pulled, summed

_options: dict[str, EwaldOptions] = {}
# Plans, which must live as long as what was compiled with them, and their points at that time.
_plans: list[tuple[ref[Plan], ref[Points]]] = []


def sum(kernel: str, options: EwaldOptions, *given: Any) -> Any:
    """Return a sum of targets, sources or None, density, and normals or None."""
    return torch.ops.parki.sum(kernel, options._torch_name(), *given)  # type: ignore[attr-defined]


def apply(plan: Plan, dens: Any) -> Any:
    """Return a plan's sum."""
    return torch.ops.parki.apply(plan._torch_handle(), False, dens)  # type: ignore[attr-defined]


def _torch_name(options: EwaldOptions) -> str:
    """Return the name of options."""
    name = repr(options)
    _options[name] = options
    return name


def _torch_handle(plan: Plan) -> int:
    """Return the number of a plan with its points."""
    for handle, (other, points) in enumerate(_plans):
        if other() is plan and points() is plan.points:
            return handle
    Fixed(plan)  # or refuse it
    _plans.append((ref(plan), ref(plan.points)))
    return len(_plans) - 1


# Functions of constants take no objects before PyTorch 2.13, but a method, by its own name, does.
EwaldOptions._torch_name = torch.compiler.assume_constant_result(_torch_name)  # type: ignore[attr-defined]
Plan._torch_handle = torch.compiler.assume_constant_result(_torch_handle)  # type: ignore[attr-defined]


def _fixed(handle: int) -> Fixed:
    """Return the plan of a number with the points it had."""
    plan, points = _plans[handle][0](), _plans[handle][1]()
    if plan is None or points is not plan.points:
        raise ParkiValueError(
            "a compiled function calls a plan that was given other points since, or is gone; "
            "compile it again, and keep the plan"
        )
    return Fixed(plan)


@torch.library.custom_op("parki::sum", mutates_args=())
def _sum_op(
    kernel: str,
    options: str,
    trg: torch.Tensor,
    src: torch.Tensor | None,
    dens: torch.Tensor,
    norms: torch.Tensor | None,
) -> torch.Tensor:
    found: torch.Tensor = summed(kernel, _options[options], trg, src, dens, norms)
    return found


@_sum_op.register_fake
def _sum_shape(
    kernel: str, options: str, trg: torch.Tensor, src: Any, dens: torch.Tensor, norms: Any
) -> torch.Tensor:
    many = dens.shape[: dens.ndim - len(SUMS[kernel].density_shape(0))]
    return trg.new_empty((*many, *result_shape(kernel, "u", trg.shape[1])))


@torch.library.custom_op("parki::pull", mutates_args=())
def _pull_op(
    kernel: str,
    options: str,
    wrt: str,
    trg: torch.Tensor,
    src: torch.Tensor | None,
    dens: torch.Tensor,
    norms: torch.Tensor | None,
    values: torch.Tensor,
) -> list[torch.Tensor]:
    given = trg, src, dens, norms
    return list(pulled(kernel, _options[options], tuple(wrt.split()), given, values))


@_pull_op.register_fake
def _pull_shapes(
    kernel: str,
    options: str,
    wrt: str,
    trg: torch.Tensor,
    src: Any,
    dens: torch.Tensor,
    norms: Any,
    values: torch.Tensor,
) -> list[torch.Tensor]:
    shapes = dict(zip(INPUTS, (trg, src, dens, norms), strict=True))
    return [values.new_empty(shapes[name].shape) for name in wrt.split()]


def _keep_sum(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.kernel, ctx.options, *given = inputs
    ctx.save_for_backward(*given)


def _sum_backward(ctx: Any, values: Any) -> tuple[Any, ...]:
    wrt = [n for n, need in zip(INPUTS, ctx.needs_input_grad[2:], strict=True) if need]
    given = *ctx.saved_tensors, values
    parts = torch.ops.parki.pull(ctx.kernel, ctx.options, " ".join(wrt), *given)
    found = dict(zip(wrt, parts, strict=True))
    return (None, None, *(found.get(name) for name in INPUTS))


torch.library.register_autograd("parki::sum", _sum_backward, setup_context=_keep_sum)


@torch.library.custom_op("parki::apply", mutates_args=())
def _apply_op(handle: int, transposed: bool, values: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _fixed(handle)(plain(values)[0], transposed)
    return found


@_apply_op.register_fake
def _apply_shape(handle: int, transposed: bool, values: torch.Tensor) -> torch.Tensor:
    return values.new_empty(_fixed(handle).found(values.shape, transposed))


def _keep_apply(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.handle, ctx.transposed, _ = inputs


def _apply_backward(ctx: Any, values: Any) -> tuple[Any, ...]:
    return None, None, torch.ops.parki.apply(ctx.handle, not ctx.transposed, values)


torch.library.register_autograd("parki::apply", _apply_backward, setup_context=_keep_apply)
