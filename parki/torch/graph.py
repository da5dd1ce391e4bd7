"""Sums and their derivatives in PyTorch's graph, in forward and reverse mode and under `vmap`.

If sources are None, the targets are the sources, and their derivatives include both roles. As for
`operators`, options are a string, and names of inputs one string with spaces. Functions that
PyTorch may call while a compiled function runs are excluded from compilation.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from parki.core import LinearMap, second
from parki.meaning import hidden
from parki.torch import operators, sums
from parki.torch.constants import of_change, read
from parki.torch.maps import map_apply, map_pull, map_push, map_sum
from parki.torch.sums import ALL, INPUTS, named
from parki.typing import AnyArray

# As operators do: where the compiler leaves a call to Python, it would compile what they run.
saves, summed_and_saved, pulled_from_saved = map(
    torch.compiler.disable, (sums.saves, sums.summed_and_saved, sums.pulled_from_saved)
)
Named = dict[str, Any]  # tensors by names of inputs
Call = tuple[str, str]  # a kernel and options


def _lists(tensors: AnyArray) -> list[Named]:
    """Return the inputs, and changes of them that are there, by name."""
    first, *others = _named(tensors)
    return [first, *(moves for moves in others if moves)]


def _named(tensors: AnyArray) -> list[Named]:
    return [named(tensors[n : n + 5]) for n in range(0, len(tensors) - 4, 5)]


def _placed(inputs: Named, lists: list[Named]) -> tuple[Named, list[Named]]:
    """Return inputs and moves; where densities move alone, they take the density's place.

    The other moves then leave densities out.
    """
    for moves in lists:
        if [*moves] == ["dens"]:
            rest = second.without(lists, moves)
            others = [{n: move for n, move in one.items() if n != "dens"} for one in rest]
            return {**inputs, **moves}, others
    return inputs, lists


def _push(call: Call, inputs: Named, moves: list[Named]) -> Any:
    """Return the change of a sum, or the change of this, in the graph."""
    kernel, options = call
    inputs, others = _placed(inputs, moves)
    if len(others) > 2:
        second.refuse_third()
    if not others:
        return SumFunction.apply(kernel, of_change(options), *map(inputs.get, INPUTS))
    lists = (inputs, *others, {})[:3]
    tensors = [named.get(name) for named in lists for name in INPUTS]
    return Push.apply(kernel, options, *tensors)


def _pull(call: Call, inputs: Named, values: AnyArray, wrt: Any, moves: list[Named]) -> Named:
    """Return derivatives of a sum or of its change, in the graph; those that are zero are left out.

    ``wrt`` says of each input, and then of the values, whether it is asked for.
    """
    kernel, options = call
    inputs, others = _placed(inputs, moves)
    alone = len(others) < len(moves)  # densities moved alone, and it depends on no others
    names = [n for n, wanted in zip(ALL, wrt, strict=False) if wanted]
    names = [name for name in names if not (alone and name == "dens")]
    if values is None or not names or not all(others):
        return {}
    if len(others) > 1:
        second.refuse_third()
    lists = (inputs, *others, {})[:2]
    tensors = [named.get(name) for named in lists for name in INPUTS]
    derivatives = Pull.apply(kernel, options, " ".join(names), *tensors, values)
    return dict(zip(names, derivatives, strict=True))


def _back(call: Call, inputs: Named, values: AnyArray, moves: list[Named], needs: Any) -> list[Any]:
    """Return derivatives by inputs, and by each of moves, of values times a sum's change."""
    wrt = [needs[n : n + 5] for n in range(0, len(needs), 5)]
    others = [moves, *(second.without(moves, one) for one in moves), []]
    pairs = zip(wrt, others, strict=False)
    parts = [_pull(call, inputs, values, wanted, others) for wanted, others in pairs]
    return [part.get(name) for part in parts for name in INPUTS]


def _save(ctx: Any, tensors: AnyArray, results: Any = ()) -> None:
    """Keep tensors for derivatives, and with them results for those in forward mode."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors, *results)
    ctx.set_materialize_grads(False)


class _Mapped(torch.autograd.Function):
    """A function that ``mapper`` maps over an axis; by default, nothing is kept of its inputs."""

    mapper: Any = staticmethod(map_push)

    def __init_subclass__(cls) -> None:
        def vmap(info: Any, dims: Any, *arguments: Any) -> Any:
            return cls.mapper(cls.apply, info, dims, *arguments)

        cls.vmap = staticmethod(torch.compiler.disable(vmap))  # type: ignore[method-assign]
        # PyTorch asks for it in every call.
        cls.forward.__signature__ = inspect.signature(cls.forward)  # type: ignore[attr-defined]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: AnyArray) -> None:
        """Keep nothing of the inputs."""
        ctx.set_materialize_grads(False)


class Added(_Mapped):
    """The sum of tensors: within `jvp` PyTorch differentiates no operations of its own."""

    @staticmethod
    def forward(*tensors: Any) -> Any:
        """Return the total."""
        return sum(tensors)

    @staticmethod
    def backward(ctx: Any, values: AnyArray) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        return (values,) * len(ctx.needs_input_grad)

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *tangents: Any) -> Any:  # type: ignore[override]
        """Return the change of the total."""
        return _total([tangent for tangent in tangents if tangent is not None])


def _total(tensors: list[Any], like: Any = None) -> Any:
    """Return the sum of tensors; zeros like another one if there are none."""
    if not tensors:
        return torch.zeros_like(like)
    return tensors[0] if len(tensors) == 1 else Added.apply(*tensors)


class _OfInputs(_Mapped):
    """A function of a kernel, options, and the inputs of a sum, then lists of their changes."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: AnyArray) -> None:
        """Keep what derivatives need."""
        ctx.call = inputs[:2]
        _save(ctx, inputs[2:])

    @staticmethod
    def backward(ctx: Any, values: AnyArray) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        inputs, *moves = _lists(ctx.saved_tensors)
        return None, None, *_back(ctx.call, inputs, values, moves, ctx.needs_input_grad[2:])


class SumFunction(_OfInputs):
    """A sum, in the graph."""

    mapper = staticmethod(map_sum)

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Return the sum."""
        return operators.sum(*arguments)

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *tangents: Any) -> Any:  # type: ignore[override]
        """Return the change of the result."""
        return _push(ctx.call, named(ctx.saved_tensors), [named(tangents[2:])])


class SavedSum(SumFunction):
    """A sum, in the graph, with what its first derivatives need: see `sums.saves`.

    Derivatives that have derivatives again come by `SumFunction`'s rules.
    """

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Return the sum, and what is saved."""
        kernel, options, *tensors = arguments
        return summed_and_saved(kernel, read(options), tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: AnyArray) -> None:
        """Keep what derivatives need."""
        ctx.call = inputs[:2]
        ctx.mark_non_differentiable(*output[1:])
        _save(ctx, (*inputs[2:], *output))

    @staticmethod
    def backward(ctx: Any, values: AnyArray, *_: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        return SavedSum.pulled(ctx, values, None)

    @staticmethod
    def pulled(ctx: Any, values: AnyArray, twice: Any) -> tuple[Any, ...]:
        """Return the derivatives for values, or else for a half of ``twice`` the density."""
        tensors, results = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        needs, (kernel, options) = ctx.needs_input_grad[2:], ctx.call
        wrt = tuple(name for name, wanted in zip(INPUTS, needs, strict=True) if wanted)
        given = values if twice is None else twice
        at_hand = given is not None and not hidden(given)  # as under `is_grads_batched`
        if at_hand and not torch.is_grad_enabled():
            every = *tensors, values
            parts = pulled_from_saved(kernel, read(options), wrt, every, results, twice)
            if parts:
                return None, None, *map(parts.get, INPUTS)
        inputs = named(tensors)
        values = values if twice is None else 0.5 * twice * inputs["dens"]
        if not (at_hand and torch.is_grad_enabled()):
            return None, None, *_back(ctx.call, inputs, values, [], needs)
        known = None if twice is None else twice.detach()
        arguments = *ctx.call, " ".join(wrt), *tensors, *[None] * 5, values, known, *results
        parts = dict(zip(wrt, SavedPull.apply(*arguments), strict=True))
        return None, None, *map(parts.get, INPUTS)

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *tangents: Any) -> Any:  # type: ignore[override]
        """Return the change of the result."""
        tensors, results = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        return _push(ctx.call, named(tensors), [named(tangents[2:])]), *(None for _ in results[1:])


class SavedProduct(SavedSum):
    """Half the product of a density with its sum, and the sum, in reverse mode: an energy.

    Its derivatives are a sum's for values that are half the density, which nobody has to find out.
    """

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Return the product, the sum, and what is saved."""
        results = SavedSum.forward(*arguments)
        return (0.5 * arguments[4] * results[0]).sum(), *results

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: AnyArray) -> None:
        """Keep what derivatives need."""
        SavedSum.setup_context(ctx, inputs, output[1:])

    @staticmethod
    def backward(ctx: Any, by_product: AnyArray, values: AnyArray, *_: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        if by_product is None:
            return SavedSum.pulled(ctx, values, None)
        dens, total = ctx.saved_tensors[2], ctx.saved_tensors[5]
        twice = by_product if values is None else None
        weights = None if values is None else values + 0.5 * by_product * dens
        *parts, by_dens, norms, box = SavedSum.pulled(ctx, weights, twice)
        by_dens = by_dens if by_dens is None else by_dens + 0.5 * by_product * total
        return *parts, by_dens, norms, box


class Pull(_Mapped):
    """The derivatives of a sum, or of its change, in the graph: linear in values and moves.

    Derivatives of a change may be by the values, too, and have no derivatives then.
    """

    mapper = staticmethod(map_pull)

    @staticmethod
    def forward(*arguments: Any) -> tuple[Any, ...]:
        """Return the derivatives by the inputs named."""
        return operators.named(arguments[2], operators.pull(*arguments))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: AnyArray) -> None:
        """Keep what derivatives need."""
        kernel, options, wrt, *tensors = inputs
        ctx.call, ctx.wrt = (kernel, options), wrt.split()
        _save(ctx, tensors, output)

    @staticmethod
    def backward(ctx: Any, *parts: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        *needs, by_values = ctx.needs_input_grad[3:14]
        *tensors, values = ctx.saved_tensors
        inputs, *moves = _lists(tensors)
        pairs = zip(ctx.wrt, parts, strict=True)
        changes = {name: part for name, part in pairs if part is not None}
        if "values" in changes:
            second.refuse_third()
        if changes and by_values and not (moves or torch.is_grad_enabled()):
            every = _pull(ctx.call, inputs, values, (*needs[:5], True), [changes])
            return None, None, None, *map(every.get, INPUTS), *[None] * 5, every.get("values")
        if changes:
            back = _back(ctx.call, inputs, values, [*moves, changes], needs)
            linear = _push(ctx.call, inputs, [changes, *moves]) if by_values else None
            return None, None, None, *back, linear
        return (None,) * len(ctx.needs_input_grad)

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the change of the derivatives."""
        *tensors, values = ctx.saved_tensors[:11]
        primals, wrt = _lists(tensors), [name in ctx.wrt for name in INPUTS]
        changes = second.one_by_one(primals, _named(tangents[3:-1]))
        lists = [(values, *change) for change in changes]
        lists += [(tangents[-1], *primals)]
        parts = [_pull(ctx.call, inputs, v, wrt, moves) for v, inputs, *moves in lists]
        results = zip(ctx.wrt, ctx.saved_tensors[11:], strict=True)
        return tuple(_total([part[n] for part in parts if n in part], of) for n, of in results)


class SavedPull(Pull):
    """The first derivatives of a sum, in the graph, by what it has saved: see `SavedSum`."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Any, ...]:
        """Return the derivatives by the inputs named."""
        (kernel, options, wrt), tensors, saved = arguments[:3], arguments[3:14], arguments[14:]
        names, given = tuple(wrt.split()), (*tensors[:5], tensors[10])
        twice, *results = saved
        parts = pulled_from_saved(kernel, read(options), names, given, results, twice)
        return tuple(map(parts.get, names)) if parts else Pull.forward(*arguments[:14])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: AnyArray) -> None:
        """Keep what derivatives need."""
        Pull.setup_context(ctx, inputs[:14], output)
        ctx.saved = len(inputs) - 14

    @staticmethod
    def backward(ctx: Any, *parts: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        return *Pull.backward(ctx, *parts), *[None] * ctx.saved

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the change of the derivatives."""
        return Pull.jvp(ctx, *tangents[:14])


class Push(_OfInputs):
    """The change of a sum, or of its change, in the graph: linear in the changes of its inputs."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Return the change."""
        return operators.push(*arguments)

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *tangents: Any) -> Any:  # type: ignore[override]
        """Return the change of the change."""
        lists = second.one_by_one(_lists(ctx.saved_tensors), _named(tangents[2:]))
        return _total([_push(ctx.call, inputs, moves) for inputs, *moves in lists])


class Linear(_Mapped):
    """A plan, or its adjoint, in the graph; of a change of a density, or of a density."""

    mapper = staticmethod(map_apply)

    @staticmethod
    def forward(plan: LinearMap, transposed: bool, of_change: bool, values: AnyArray) -> Any:
        """Return the sum, or its transpose."""
        plan.check()
        return operators.apply(operators.number(plan.plan), transposed, of_change, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: AnyArray) -> None:
        """Keep what derivatives need."""
        ctx.plan, ctx.transposed, *_ = inputs
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, values: AnyArray) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the derivatives."""
        derivatives = None
        if values is not None and ctx.needs_input_grad[3]:
            derivatives = Linear.apply(ctx.plan, not ctx.transposed, True, values)
        return None, None, None, derivatives

    @staticmethod
    @torch.compiler.disable
    def jvp(ctx: Any, *tangents: Any) -> Any:  # type: ignore[override]
        """Return the change of the result."""
        return Linear.apply(ctx.plan, ctx.transposed, True, tangents[-1])


def _pull_all(kernel: str, options: str, wrt: str, *tensors: Any) -> operators.Derivatives:
    derivatives = zip(wrt.split(), Pull.apply(kernel, options, wrt, *tensors), strict=True)
    return operators.by_input(dict(derivatives), tensors[-1])


def _apply(number: int, transposed: bool, of_change: bool, values: AnyArray) -> Any:
    return Linear.apply(operators.linear_map(number), transposed, of_change, values)


operators.differentiate("sum", SumFunction.apply)
operators.differentiate("push", Push.apply)
operators.differentiate("pull", _pull_all)
operators.differentiate("apply", _apply)
