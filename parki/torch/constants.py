"""What compiled functions keep as constants: names of sums, options, systems, radii and plans.

Operators take these as strings and numbers, which a compiled function finds once. The compiler
itself watches none of what `torch.compiler.assume_constant_result` is given: neither the values of
arrays nor the object of a method. So all of it is read here, in code that the compiler follows, as
plain numbers and words (`constant`): where these differ later, it compiles anew. Arrays, whose
values it cannot watch, are refused; without ``fullgraph`` it then leaves the call to Python.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_scalar

from parki.core import Batch, EwaldOptions, Expert, kernel, own_boxes
from parki.core import of_first as of_the_first
from parki.errors import ParkiTypeError
from parki.meaning import Varied, values_of, varied
from parki.runtime import ExecutionSpace
from parki.suspensions.radii import Radii
from parki.torch.sums import SumOptions
from parki.typing import AnyArray, OfPoints

if TYPE_CHECKING:
    from parki.typing import OptionKeywords, Unpack

OPTIONS = tuple(field.name for field in fields(EwaldOptions))
EXPERT = tuple(field.name for field in fields(Expert))


def constant(name: str, value: Any) -> Any:
    """Return a value as numbers and words that the compiler, which follows this, then watches.

    Raises
    ------
    ParkiTypeError
        If it is, or has, anything else.
    """
    kind = type(value)
    if kind is int or kind is float:
        return guard_scalar(value)  # else a number that changes may become a variable
    if value is None or kind is str or kind is bool:
        return value
    if isinstance(value, ExecutionSpace):
        return value.name
    if isinstance(value, Expert):
        return [constant(field, getattr(value, field)) for field in EXPERT]
    if isinstance(value, (list, tuple)) and not isinstance(value, Varied):
        items = [constant(name, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    is_array = hasattr(value, "shape") or isinstance(value, Varied)
    raise ParkiTypeError(
        f"{name} is {'an array' if is_array else f'a {kind.__name__}'} within torch.compile, which "
        "would keep its values of the first call; expected plain numbers: take them before the "
        f"compiled function, such as {name}.tolist(), or leave fullgraph out"
    )


def _once(function: Any) -> Any:
    """Return a function that compiled functions call once for all values of its keywords.

    Its inside is not compiled. Other arguments are words of this package.
    """
    once, apart = torch.compiler.assume_constant_result(function), torch.compiler.disable(function)

    def call(*words: str, **values: Any) -> Any:
        if torch.compiler.is_compiling():  # in this very frame, which may be compiled by itself
            return once(*words, **{name: constant(name, value) for name, value in values.items()})
        return apart(*words, **values)

    return call


@_once
def text_of(**keywords: Unpack[OptionKeywords]) -> str:
    """Return options that are given as keywords as a string for operators.

    Numbers and words are written at once; `read` makes options of a string, once.
    """
    box = varied(keywords.get("box"))
    if box is not None and box.dtype == torch.float64:  # others are rounded in their own way
        keywords["box"] = values_of("box", box).tolist()
    try:
        text = json.dumps(keywords)
    except TypeError:  # of arrays, tensors and objects
        text = ""
    text = text or _text(_made(keywords))
    read(text)  # or refuse what is impossible
    return text


def text(options: EwaldOptions) -> str:
    """Return options as such a string."""
    text: str
    if torch.compiler.is_compiling():
        text = text_of(**{name: getattr(options, name) for name in OPTIONS})
    else:
        text = _apart(options)
    return text


def watch(options: Any) -> None:
    """Refuse options, before their values are read, whose box is a tensor."""
    if isinstance(options, EwaldOptions):
        constant("box", options.box)


@_once
def with_systems(text: str, systems: OfPoints | None, boxes: Any, periodicities: Any) -> str:
    """Return such a string with systems and their boxes in it, or True if a tensor has these."""
    batch = Batch.of(systems, None if boxes is True else boxes, periodicities)
    system_boxes = batch.boxes or ()
    rows: Any = (
        None if periodicities is not None and boxes is None else [one.box for one in system_boxes]
    )
    axes = None if periodicities is None else [one.periodicity for one in system_boxes]
    return json.dumps(
        json.loads(text)
        | {"systems": batch.systems, "boxes": boxes is True or rows or None, "periodicities": axes}
    )


@_once
def owners(systems: OfPoints) -> tuple[torch.Tensor, int]:
    """Return the number of each point's system, and how many systems there are."""
    numbers, count = Batch.of(systems, None).owners()
    return torch.from_numpy(numbers), count


def of_first(boxes: Any, periodicities: Any) -> dict[str, Any]:
    """Return keywords of options of the first system, whose boxes may be True for a tensor."""
    rows = None if boxes is True else boxes
    if torch.compiler.is_compiling():
        known = constant("boxes", rows), constant("periodicities", periodicities)
        first = {
            n: system_boxes[0]
            for n, system_boxes in zip(("box", "periodicity"), known, strict=True)
            if system_boxes
        }
    else:
        first = _of_first(rows, periodicities)
    return {**first, "box": (1.0, 1.0, 1.0)} if boxes is True else first


def _first(boxes: Any, periodicities: Any) -> dict[str, Any]:
    return of_the_first(own_boxes(boxes, periodicities))


@_once
def sizes(radii: AnyArray, points: AnyArray) -> tuple[Any, Any]:
    """Return the names of the sums of spheres, and marks, if any, for a number of points."""
    sizes = Radii.of(radii, points)
    return sizes.kernels, None if sizes.point_radii is None else torch.from_numpy(
        sizes.point_radii.copy()
    )


@lru_cache(maxsize=256)
def of_change(text: str) -> str:
    """Return such a string for the sum of a change of a density."""
    return json.dumps(json.loads(text) | {"of_change": True})


@lru_cache(maxsize=256)
def read(text: str) -> SumOptions:
    """Return the options of a string, and the systems and boxes in it, if there are any."""
    values = json.loads(text)
    systems, boxes, axes = (values.pop(n, None) for n in ("systems", "boxes", "periodicities"))
    of_change, in_tensor = values.pop("of_change", False), boxes is True
    system_boxes = (None, None) if in_tensor else (boxes, axes)
    batch = Batch.of(systems and tuple(systems), *system_boxes)
    return SumOptions(_made(values), batch, of_change, in_tensor, axes)


def _made(values: AnyArray) -> EwaldOptions:
    """Return options of keywords, whose expert may be a list."""
    expert = values.get("expert")
    if isinstance(expert, list):
        values = {**values, "expert": Expert(**dict(zip(EXPERT, expert, strict=True)))}
    return EwaldOptions(**values)


def _text(options: EwaldOptions) -> str:
    if isinstance(options.box, Varied):
        return _written(options, tuple(options.box))  # nothing may keep a box's graph
    return _kept(options)


@lru_cache(maxsize=256)
def _kept(options: EwaldOptions) -> str:
    return _written(options, options.box)


def _written(options: EwaldOptions, box: Any) -> str:
    values = {name: getattr(options, name) for name in OPTIONS} | {"box": box}
    values["expert"] = [getattr(options.expert, name) for name in EXPERT]
    return json.dumps(
        {n: v.name if isinstance(v, ExecutionSpace) else v for n, v in values.items()}
    )


named = _once(kernel)
_apart, _of_first = torch.compiler.disable(_text), torch.compiler.disable(_first)
