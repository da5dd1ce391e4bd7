"""The operators' computations: sums and derivatives of concrete tensors.

If sources are None, the targets are the sources, and their derivatives include both roles. The
options have the values of a box, and so is the box None unless it requires a gradient. Names of
several inputs are one string with spaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from parki.core import SUMS, Batch, EwaldOptions, saved, second
from parki.core import summed as one_shot
from parki.interchange import as_given, handed_over
from parki.meaning import hidden, values_of
from parki.settings import read_once
from parki.typing import AnyArray, AnyKernel

INPUTS = ("trg", "src", "dens", "norms", "box")
ALL = (*INPUTS, "values")  # by which there are derivatives


class SumOptions(NamedTuple):
    """Options; systems and their boxes; and whether the density of a sum is a change of another.

    ``in_tensor`` says whether the tensor of the box has the boxes, whose periodic axes are then
    ``periodicities``.
    """

    options: EwaldOptions
    batch: Batch
    of_change: bool = False
    in_tensor: bool = False
    periodicities: Any = None

    def batch_of(self, box: AnyArray | None) -> Batch:
        """Return systems and boxes."""
        if not self.in_tensor:
            return self.batch
        boxes = values_of("boxes", cast(AnyArray, box))
        return Batch.of(self.batch.systems, boxes, self.periodicities)


def plain(tensor: AnyArray) -> Any:
    """Return a tensor detached and contiguous; None stays None."""
    return None if tensor is None else tensor.detach().contiguous().resolve_neg()


def summed(kernel: AnyKernel, settings: SumOptions, tensors: Iterable[Any]) -> Any:
    """Return a sum for targets, sources or None, density, and normals and box or None."""
    trg, src, dens, norms, box = map(plain, tensors)
    options, batch = settings.options, settings.batch_of(box)
    if settings.of_change:
        inputs = named((trg, src, dens, norms, None))
        return second.summed(one_shot, kernel, options, batch, inputs)
    src = trg if src is None else src
    return one_shot(
        kernel, trg, src, dens, norms, options, systems=batch.systems, boxes=batch.boxes
    )


def named(tensors: Iterable[Any]) -> dict[str, Any]:
    """Return the inputs that are not None, by name."""
    return {n: tensor for n, tensor in zip(INPUTS, tensors, strict=True) if tensor is not None}


def _arrays(tensors: dict[str, Any]) -> dict[str, Any]:
    """Return plain tensors as arrays of NumPy or CuPy, by name."""
    return {name: handed_over(name, tensor) for name, tensor in tensors.items()}


def saves(kernel: AnyKernel, settings: SumOptions, tensors: Iterable[Any]) -> bool:
    """Return whether a sum saves what its first derivatives need.

    It does where its points, or its box, have derivatives, and tensors have their values at hand.
    """
    trg, src, dens, norms, box = tensors
    moving = trg.requires_grad or box is not None
    alone = src is None and norms is None and not settings.in_tensor
    if not alone or settings.of_change or not moving:
        return False
    inputs = named((trg, None, dens, None, box))
    if hidden(*inputs.values()):
        return False
    one = dens.ndim == len(SUMS[kernel].density_shape(0)) and dens.numel() > 0
    return one and saved.saves(kernel, settings.options, settings.batch, frozenset(inputs))


def summed_and_saved(kernel: AnyKernel, settings: SumOptions, tensors: Iterable[Any]) -> Any:
    """Return a sum, and what it saves: see `parki.ewald.derivatives.saved`."""
    inputs = named(map(plain, tensors))
    with read_once():
        arrays = inputs | {name: handed_over(name, inputs[name]) for name in ("trg", "dens")}
        results = saved.summed(kernel, settings.options, settings.batch, arrays)
        return as_given(results, inputs["dens"])


def pulled_from_saved(
    kernel: AnyKernel,
    settings: SumOptions,
    wrt: tuple[str, ...],
    tensors: Any,
    results: Any,
    twice: Any,
) -> dict[str, Any]:
    """Return the derivatives by ``wrt``, by name, for inputs and values, by what was saved.

    ``twice`` is twice the number, if it is known, by which the density becomes the values. None of
    them where they need another sum: see `parki.ewald.derivatives.saved.pulled`.
    """
    if twice is None:  # else PyTorch alone takes them
        tensors, results = [*map(plain, tensors)], tuple(map(plain, results))
    *inputs, values = tensors
    points, known = named(inputs), (kernel, settings.options, settings.batch)
    parts = saved.pulled(*known, points, results, values, wrt, twice)
    return {n: part.to(points["box"]) if n == "box" else part for n, part in parts.items()}


def pulled(
    kernel: AnyKernel, settings: SumOptions, wrt: str, tensors: Iterable[Any]
) -> dict[str, Any]:
    """Return the derivatives by ``wrt``, by name, for inputs, their moves, and values."""
    *tensors, values = map(plain, tensors)
    inputs, moves, names = named(tensors[:5]), named(tensors[5:]), tuple(wrt.split())
    batch = settings.batch_of(inputs.get("box"))
    points, weights = _arrays(inputs), handed_over("values", values)
    parts = second.pulled(kernel, settings.options, batch, points, weights, names, _arrays(moves))
    found = {name: as_given(part, values) for name, part in parts.items()}
    return {n: part.to(inputs["box"]) if n == "box" else part for n, part in found.items()}


def pushed(kernel: AnyKernel, settings: SumOptions, tensors: Iterable[Any]) -> Any:
    """Return the change of a sum for inputs and their changes, or of this for others."""
    arrays = [plain(tensor) for tensor in tensors]
    inputs, tangents, moves = (named(arrays[n : n + 5]) for n in (0, 5, 10))
    batch = settings.batch_of(inputs.get("box"))
    return second.pushed(kernel, settings.options, batch, inputs, tangents, moves)
