"""Refuses arrays with meaning that parki would drop: masks, units, derivatives, pending signs.

Arrays without numbers, as within transformations, are refused as well. Libraries are recognised
by the names of classes; none is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError
from parki.typing import AnyArray

# PyTorch's modes that record operations, or infer their shapes, without computing.
TRACING = ("FakeTensorMode", "ProxyTorchDispatchMode", "FunctionalTensorMode")
OF_TORCH = "within a transformation of PyTorch such as vmap, jvp or make_fx"
OF_JAX = "within a transformation of JAX such as jit or grad"
CONSTANTS = float, int, bool, str, type(None)


def refuse_meaning(name: str, value: Any) -> None:
    """Refuse arrays, and lists of them, that carry more than their numbers.

    Raises
    ------
    ParkiTypeError
    """
    if isinstance(value, (list, tuple)):
        for item in value:
            if not isinstance(item, (float, int)):
                refuse_meaning(name, item)
        return
    kind = type(value)
    if isinstance(value, np.ma.MaskedArray) or kind.__name__ == "MaskedTensor":
        filled = "filled" if isinstance(value, np.ndarray) else "to_tensor"
        raise ParkiTypeError(
            f"{name} is a masked array; pass filled values, such as {name}.{filled}(0)"
        )
    if hasattr(kind, "units") or (isinstance(value, np.ndarray) and hasattr(kind, "unit")):
        raise ParkiTypeError(
            f"{name} is a {kind.__name__} with units; pass its plain numbers, "
            "in the unit of length that box has"
        )
    if derived := _derived(value):
        raise ParkiTypeError(
            f"{name} {derived}, which only the calls of parki.torch have: its sums and "
            f"sphere_velocities; elsewhere pass {name}.detach()"
        )
    if _is_tracer(value):
        raise ParkiTypeError(f"{name} has no values {OF_JAX}, where only parki.jax can sum")
    if is_tensor(value):
        refuse_layout(name, value)
        _refuse_empty(name, value)


def refuse_variable(name: str, value: Any) -> None:
    """Refuse option values with derivatives or without a value, because options are constant.

    Raises
    ------
    ParkiTypeError
    """
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if type(item) in CONSTANTS:  # of which a batch has hundreds
            continue
        if isinstance(item, (list, tuple)):
            refuse_variable(name, item)
        elif what := variable(item):
            remedy = f", such as {name}.detach()" if is_tensor(item) else ""
            why = "and parki has no derivatives by them"
            if name == "box":
                why = "except a tensor that requires a gradient, for parki.torch"
                why = "except box= of the calls of parki.jax" if _is_tracer(item) else why
            raise ParkiTypeError(
                f"{name} {what}, but options are constants, {why}; pass plain numbers{remedy}"
            )


class Varied(tuple[Any, ...]):
    """The box of options as numbers, with the tensor that they are of, which calls read again.

    It equals the box of plain numbers.
    """

    tensor: Any

    @classmethod
    def of(cls, numbers: Any, tensor: AnyArray) -> Varied:
        """Return the numbers of a tensor."""
        result = cls(numbers)
        result.tensor = tensor
        return result

    @property
    def present(self) -> Any:
        """The numbers that the tensor has now, in lists."""
        return self.tensor.detach().tolist()


def given_box(box: Any) -> Any:
    """Return a box as it was given to options: a tensor, if it was one."""
    return box.tensor if isinstance(box, Varied) else box


def varied(box: Any) -> Any:
    """Return the tensor of a box that has derivatives; None of other boxes."""
    numbers = given_box(box)
    return numbers if is_tensor(numbers) and _derived(numbers) else None


def values_of(name: str, tensor: AnyArray) -> Any:
    """Return the numbers of a tensor as an array of NumPy, or refuse one without any.

    Raises
    ------
    ParkiTypeError
    """
    try:
        if tensor.device.type != "meta":
            numbers = np.asarray(tensor.detach().tolist())
            return numbers.astype("f4") if str(tensor.dtype).endswith("float32") else numbers
    except RuntimeError:  # of what has no memory
        pass
    raise ParkiTypeError(f"{name} has no values {OF_TORCH}; take its derivatives outside of that")


def variable(value: Any) -> str:
    """Return in words why a number is not constant (derivatives, no value), or ''."""
    if derived := _derived(value):
        return derived
    if _is_tracer(value):
        return f"has no values {OF_JAX}"
    return f"has no values {OF_TORCH}" if is_tensor(value) and hidden(value) else ""


def is_tensor(value: Any) -> bool:
    """Return whether a value is a PyTorch tensor, or of a derived class."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def refuse_layout(name: str, tensor: AnyArray) -> None:
    """Refuse tensors whose memory does not hold their numbers.

    Raises
    ------
    ParkiTypeError
    """
    if type(tensor).__name__ == "MaskedTensor":
        refuse_meaning(name, tensor)
    what = remedy = ""
    if tensor.is_nested:
        what, remedy = "is a nested tensor", f"torch.nested.to_padded_tensor({name}, 0)"
    elif str(tensor.layout) != "torch.strided":
        what, remedy = f"is a sparse tensor ({tensor.layout})", f"{name}.to_dense()"
    elif tensor.is_quantized:
        what, remedy = "is a quantized tensor", f"{name}.dequantize()"
    if what:
        raise ParkiTypeError(f"{name} {what}; expected a dense one: pass {remedy}")


def _refuse_empty(name: str, tensor: AnyArray) -> None:
    """Refuse tensors without numbers, and tensors whose numbers have yet to be computed."""
    if tensor.is_neg():
        raise ParkiTypeError(
            f"{name} is a tensor whose sign PyTorch has yet to change; pass {name}.resolve_neg()"
        )
    if tensor.device.type == "meta":
        raise ParkiTypeError(
            f"{name} is on PyTorch's meta device, where tensors have a shape and no values; pass "
            "values (only the sums of parki.torch have results there)"
        )
    if hidden(tensor):
        raise ParkiTypeError(f"{name} has no values {OF_TORCH}, where only parki.torch can sum")


def _derived(value: Any) -> str:
    """Return in words that a value has derivatives, or '' if it has none."""
    if getattr(value, "requires_grad", False) is True:
        return "requires a gradient"
    forward = sys.modules.get("torch.autograd.forward_ad")
    if forward is None or not is_tensor(value):
        return ""
    try:
        return "has a tangent" if forward.unpack_dual(value).tangent is not None else ""
    except RuntimeError:  # raised in inference mode, where no tensor has one
        return ""


def _is_tracer(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == "jax" and kind.__name__.endswith("Tracer")


def hidden(*tensors: AnyArray) -> bool:
    """Return whether a transformation of PyTorch hides tensors' numbers, or records their use.

    `torch.func` wraps tensors, which then have no memory; other transformations set a mode.
    """
    modes = sys.modules.get("torch.utils._python_dispatch")
    stack: Callable[[], list[Any]] = getattr(modes, "_get_current_dispatch_mode_stack", list)
    if any(type(mode).__name__ in TRACING for mode in stack()):
        return True
    try:
        return any(tensor.data_ptr() == 0 and tensor.numel() > 0 for tensor in tensors)
    except RuntimeError:
        return True
