"""Sums and their derivatives in PyTorch's graph, in forward and reverse mode and under `vmap`.

If sources are None, the targets are the sources, and their derivatives include both roles. As for
`operators`, options are a string, and names of inputs one string with spaces. Functions that
PyTorch may call while a compiled function runs are excluded from compilation.
"""

from __future__ import annotations

from typing import Any

import torch

from parki.ewald.derivatives.linear_map import LinearMap
from parki.ewald.derivatives.second import bent, refuse_second, refuse_third, unboxed
from parki.torch import constants, operators
from parki.torch.maps import map_apply, map_pull, map_push, map_sum
from parki.torch.sums import INPUTS, strained


def changed(kernel: str, options: str, arguments: tuple[Any, ...], moves: dict[str, Any]) -> Any:
    """Return the change of a sum for changes of its inputs, in the graph."""
    trg, src, _, norms, box = arguments
    if [*moves] == ["dens"]:
        return SumFunction.apply(kernel, options, trg, src, moves["dens"], norms, box)
    if "box" in moves:
        moves = moves | {"box": moves["box"].to(trg)}
        strain, moves = unboxed(trg, src, moves, constants.read(options).options, trg.new_tensor)
        (along,) = Strained.apply(kernel, options, "", strain, *arguments, None)
        return along + changed(kernel, options, arguments, moves)
    return Push.apply(kernel, options, *arguments, *map(moves.get, INPUTS))


def _named(tensors: Any) -> dict[str, Any]:
    """Return the inputs that are not None, by name."""
    return {n: each for n, each in zip(INPUTS, tensors, strict=True) if each is not None}


def _pulled(ctx: Any, needs: tuple[bool, ...], values: Any) -> tuple[Any, ...]:
    """Return the derivatives by the inputs that need them, and None for the others."""
    derivatives: dict[str, Any] = {}
    wrt = [name for name, need in zip(INPUTS, needs, strict=True) if need]
    if values is not None and wrt:
        arguments = ctx.saved_tensors[:5]
        parts = Pull.apply(ctx.kernel, ctx.options, " ".join(wrt), *arguments, values)
        derivatives = dict(zip(wrt, parts, strict=True))
    return tuple(map(derivatives.get, INPUTS))


def _bent(
    kernel: str,
    options: str,
    arguments: tuple[Any, ...],
    moves: dict[str, Any],
    values: Any,
    needs: tuple[str, ...],
) -> dict[str, Any]:
    """Return second derivatives, in the graph: see `bent`."""
    read = constants.read(options)
    if read.want != "u":
        refuse_third()

    *inputs, box = arguments

    def pull(of: str, want: str, names: tuple[str, ...], those: Any, weights: Any) -> Any:
        how = of, constants.with_want(options, want), " ".join(names)
        return dict(zip(names, Pull.apply(*how, *those, box, weights), strict=True))

    def change(strain: Any) -> Any:
        return Strained.apply(kernel, options, " ".join(needs), strain, *arguments, values)

    if "box" in moves:
        moves = moves | {"box": moves["box"].to(values)}
    more = pull, change, values.new_tensor
    return bent(kernel, read.options, tuple(inputs), moves, values, needs, *more)


class _Mapped(torch.autograd.Function):
    """A function that ``mapper`` maps over an axis; by default, nothing is kept of its inputs."""

    mapper: Any = staticmethod(map_push)

    def __init_subclass__(cls) -> None:
        def vmap(info: Any, dims: Any, *arguments: Any) -> Any:
            return cls.mapper(cls.apply, info, dims, *arguments)

        cls.vmap = staticmethod(torch.compiler.disable(vmap))  # type: ignore[method-assign]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep nothing."""


class SumFunction(_Mapped):
    """A sum, in the graph."""

    mapper = staticmethod(map_sum)

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Return the sum."""
        return operators.sum(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what derivatives need."""
        ctx.kernel, ctx.options, *arguments = inputs
        ctx.save_for_backward(*arguments)
        ctx.save_for_forward(*arguments)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, values: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        return (None, None, *_pulled(ctx, ctx.needs_input_grad[2:], values))

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, _kernel: Any, _options: Any, *tangents: Any) -> Any:  # type: ignore[override]
        """Return the change of the result."""
        return changed(ctx.kernel, ctx.options, ctx.saved_tensors, _named(tangents))


class Pull(_Mapped):
    """The derivatives of a sum in the graph: linear in the values."""

    mapper = staticmethod(map_pull)

    @staticmethod
    def forward(*arguments: Any) -> tuple[Any, ...]:
        """Return the derivatives by the inputs named."""
        return operators.named(arguments[2], operators.pull(*arguments))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what derivatives need."""
        ctx.kernel, ctx.options, ctx.wrt, *arguments = inputs
        ctx.save_for_backward(*arguments)
        ctx.save_for_forward(*arguments, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *parts: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        *needs, by_values = ctx.needs_input_grad[3:]
        *arguments, values = ctx.saved_tensors
        named = zip(ctx.wrt.split(), parts, strict=True)
        moves = {name: part for name, part in named if part is not None}
        how, inner, derivatives = (
            (ctx.kernel, ctx.options, tuple(arguments)),
            _by(needs, ctx.wrt),
            None,
        )
        others = _bent(*how, moves, values, inner) if moves else {}
        if by_values and moves:
            derivatives = changed(*how, moves)
        return None, None, None, *map(others.get, INPUTS), derivatives

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the change of the derivatives."""
        *inner, values = tangents[3:]
        *arguments, own = ctx.saved_tensors[:6]
        inputs, names = ctx.saved_tensors[6:], tuple(ctx.wrt.split())
        moves = {name: each for name, each in _named(inner).items() if name in _by(inner, ctx.wrt)}
        parts = dict(zip(names, map(torch.zeros_like, inputs), strict=True))
        how = ctx.kernel, ctx.options
        if values is not None:
            parts = dict(zip(names, Pull.apply(*how, ctx.wrt, *arguments, values), strict=True))
        if moves:
            for name, each in _bent(*how, tuple(arguments), moves, own, names).items():
                parts[name] = parts[name] + each
        return tuple(parts.values())


def _by(inner: Any, wrt: str) -> tuple[str, ...]:
    """Return the inputs that change, of those on which the derivatives by ``wrt`` depend."""
    names = [
        name
        for name, each in zip(INPUTS, inner, strict=True)
        if each is not None and each is not False
    ]
    # Derivatives by densities do not depend on them.
    return tuple(name for name in names if name != "dens" or wrt != "dens")


class Push(_Mapped):
    """The change of a sum in the graph: linear in the changes of its inputs."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Return the change."""
        return operators.push(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what derivatives need."""
        ctx.kernel, ctx.options, *arguments = inputs
        ctx.moves = " ".join(_named(arguments[5:]))
        ctx.save_for_backward(*arguments)
        ctx.save_for_forward(*arguments[:5])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, values: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        arguments, moves = ctx.saved_tensors[:5], _named(ctx.saved_tensors[5:])
        parts: dict[str, Any] = {}
        if values is not None:
            inner = _by(ctx.needs_input_grad[2:7], ctx.moves)
            parts = _bent(ctx.kernel, ctx.options, arguments, moves, values, inner)
        linear = _pulled(ctx, ctx.needs_input_grad[7:], values)
        return None, None, *map(parts.get, INPUTS), *linear

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, _kernel: Any, _options: Any, *tangents: Any) -> Any:  # type: ignore[override]
        """Return the change of the change."""
        if inner := _by(tangents[:5], ctx.moves):
            refuse_second(inner, ctx.moves.split(), ctx.kernel, twice=True)
        return changed(ctx.kernel, ctx.options, ctx.saved_tensors, _named(tangents[5:]))


class Strained(_Mapped):
    """The change of derivatives, or of a sum, along a strain of points and box, in the graph."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Any, ...]:
        """Return the changes."""
        kernel, options, wrt, strain, *inputs, values = arguments
        return strained(kernel, constants.read(options), wrt, strain, tuple(inputs), values)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:  # type: ignore[override]
        """Refuse third derivatives."""
        refuse_third()

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *_: Any) -> Any:  # type: ignore[override]
        """Refuse third derivatives."""
        refuse_third()


class Linear(_Mapped):
    """A plan, or its adjoint, in the graph."""

    mapper = staticmethod(map_apply)

    @staticmethod
    def forward(plan: LinearMap, transposed: bool, values: Any) -> Any:
        """Return the sum, or its transpose."""
        plan.check()
        return operators.apply(operators.number(plan.plan), transposed, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what derivatives need."""
        ctx.plan, ctx.transposed, _ = inputs
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, values: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        derivatives = None
        if values is not None and ctx.needs_input_grad[2]:
            derivatives = Linear.apply(ctx.plan, not ctx.transposed, values)
        return None, None, derivatives

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, _plan: Any, _transposed: Any, tangent: Any) -> Any:  # type: ignore[override]
        """Return the change of the result."""
        return Linear.apply(ctx.plan, ctx.transposed, tangent)


def _pull(*arguments: Any) -> operators.Every:
    wrt, values = arguments[2], arguments[-1]
    return operators.every(dict(zip(wrt.split(), Pull.apply(*arguments), strict=True)), values)


def _apply(number: int, transposed: bool, values: Any) -> Any:
    return Linear.apply(operators.linear_map(number), transposed, values)


operators.differentiate("sum", lambda *arguments: SumFunction.apply(*arguments))
operators.differentiate("push", lambda *arguments: Push.apply(*arguments))
operators.differentiate("pull", _pull)
operators.differentiate("apply", _apply)
