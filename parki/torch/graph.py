"""Sums and their derivatives in the graph of PyTorch.

Sources that are None are the targets: their derivatives have both roles.
"""

from __future__ import annotations

from typing import Any

import torch

from parki.errors import ParkiTypeError
from parki.ewald.derivatives import jvp, vjp
from parki.ewald.fixed import Fixed
from parki.ewald.plan import sum_once

INPUTS = ("trg", "src", "dens", "norms")


def plain(*tensors: Any) -> list[Any]:
    """Return tensors that require no derivatives, in memory without gaps."""
    return [None if each is None else each.detach().contiguous() for each in tensors]


def summed(kernel: str, options: Any, trg: Any, src: Any, dens: Any, norms: Any) -> Any:
    """Return a sum of tensors without derivatives."""
    trg, src, dens, norms = plain(trg, src, dens, norms)
    return sum_once(kernel, trg, trg if src is None else src, dens, norms, options, "u")


def pulled(
    kernel: str, options: Any, wrt: tuple[str, ...], given: tuple[Any, ...], values: Any
) -> tuple[Any, ...]:
    """Return the derivatives by ``wrt``."""
    trg, src, dens, norms, values = plain(*given, values)
    both = src is None and "trg" in wrt
    names = (*wrt, "src") if both else wrt
    points = trg, trg if src is None else src
    found = vjp(kernel, *points, dens, norms, options, values=values, wrt=names)
    if both:
        found["trg"] = found["trg"] + found["src"]
    return tuple(found[name] for name in wrt)


def pushed(kernel: str, options: Any, given: tuple[Any, ...], tangents: dict[str, Any]) -> Any:
    """Return the change of a sum."""
    trg, src, dens, norms = plain(*given)
    moves = dict(zip(tangents, plain(*tangents.values()), strict=True))
    if src is None and "trg" in moves:
        moves["src"] = moves["trg"]
    points = trg, trg if src is None else src
    return jvp(kernel, *points, dens, norms, options, tangents=moves)


def _refuse_second(names: list[str]) -> None:
    if names:
        raise ParkiTypeError(
            f"a second derivative by {', '.join(names)} was asked for, but parki has none but by "
            "densities; where these alone are meant, detach points and normals from the graph, "
            f"such as {names[0]}.detach()"
        )


class Sum(torch.autograd.Function):
    """A sum, in the graph."""

    @staticmethod
    def forward(kernel: str, options: Any, *given: Any) -> Any:
        """Return the sum."""
        return summed(kernel, options, *given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what derivatives need."""
        ctx.kernel, ctx.options, *given = inputs
        ctx.save_for_backward(*given)
        ctx.save_for_forward(*given)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, values: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        found: dict[str, Any] = {}
        wrt = tuple(n for n, need in zip(INPUTS, ctx.needs_input_grad[2:], strict=True) if need)
        if values is not None and wrt:
            parts = Pull.apply(ctx.kernel, ctx.options, wrt, *ctx.saved_tensors, values)
            found = dict(zip(wrt, parts, strict=True))
        return (None, None, *(found.get(name) for name in INPUTS))

    @staticmethod
    def jvp(ctx: Any, _kernel: Any, _options: Any, *tangents: Any) -> Any:  # type: ignore[override]
        """Return the change of the result."""
        moves = {n: t for n, t in zip(INPUTS, tangents, strict=True) if t is not None}
        return pushed(ctx.kernel, ctx.options, ctx.saved_tensors, moves)


class Pull(torch.autograd.Function):
    """The derivatives of a sum in the graph: linear in the values."""

    @staticmethod
    def forward(kernel: str, options: Any, wrt: tuple[str, ...], *given: Any) -> tuple[Any, ...]:
        """Return the derivatives by ``wrt``."""
        return pulled(kernel, options, wrt, given[:-1], given[-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what derivatives need."""
        ctx.kernel, ctx.options, ctx.wrt, *given = inputs
        ctx.save_for_backward(*given)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *parts: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        *needs, values = ctx.needs_input_grad[3:]
        # The derivatives by densities do not depend on these.
        needs[INPUTS.index("dens")] &= ctx.wrt != ("dens",)
        _refuse_second([name for name, need in zip(INPUTS, needs, strict=True) if need])
        moves = {name: part for name, part in zip(ctx.wrt, parts, strict=True) if part is not None}
        found = None
        if values and moves:
            given = ctx.saved_tensors[:-1]
            if tuple(moves) == ("dens",):
                trg, src, _, norms = given
                found = Sum.apply(ctx.kernel, ctx.options, trg, src, moves["dens"], norms)
            else:
                found = pushed(ctx.kernel, ctx.options, given, moves)
        return (*(None for _ in ctx.needs_input_grad[:-1]), found)


class Linear(torch.autograd.Function):
    """A plan, or its adjoint, in the graph."""

    @staticmethod
    def forward(plan: Fixed, transposed: bool, values: Any) -> Any:
        """Return the sum, or its transpose."""
        return plan(plain(values)[0], transposed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what derivatives need."""
        ctx.plan, ctx.transposed, _ = inputs
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, values: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        found = None
        if values is not None and ctx.needs_input_grad[2]:
            found = Linear.apply(ctx.plan, not ctx.transposed, values)
        return None, None, found

    @staticmethod
    def jvp(ctx: Any, _plan: Any, _transposed: Any, tangent: Any) -> Any:  # type: ignore[override]
        """Return the change of the result."""
        return Linear.apply(ctx.plan, ctx.transposed, tangent)
