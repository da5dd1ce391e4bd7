"""parki's sums as functions of PyTorch, with derivatives by densities, normals and points.

``u = parki.torch.stokes_sl(points, points, forces, options)`` is `parki.stokes_sl` for tensors, on
the CPU or a GPU, without copies. Its derivatives, in reverse and in forward mode, are sums again:
see ``docs/derivatives.md``. `apply` is a plan as a function of densities, `energy` the energy
of charges, and `sphere_velocities` has what `parki.Spheres` computes.

``import parki`` does not import this module, which needs PyTorch.

graph        sums in the graph of PyTorch: `torch.autograd.Function`
maps         how they are mapped over an axis
operators    what all go through: compilers and other tracers do not see inside of them
energies     the energy of charges
constants    options and the like for these, which compiled functions keep as they watch them
sums         of tensors with values, by parki itself
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from parki.core import (
    SUMS,
    EwaldOptions,
    LinearMap,
    Plan,
    calls,
    check_normals,
    refuse_voltage,
    take_options,
    take_squares,
)
from parki.errors import ParkiTypeError, ParkiValueError
from parki.meaning import is_tensor, refuse_layout, values_of, varied
from parki.suspensions.functions import velocities
from parki.torch import constants, operators
from parki.torch.energies import energy as energy
from parki.torch.graph import Linear, SavedProduct, SavedSum, SumFunction, saves
from parki.torch.sums import INPUTS
from parki.typing import AnyArray, Boxes, OfPoints, OptionKeywords, Periodicities, Unpack

if TYPE_CHECKING:
    from parki.ewald.calls import *  # noqa: F403


def _sum(
    kernel: str,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray = None,
    options: EwaldOptions | None = None,
    *,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    periodicities: Periodicities | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Sum {words.title}: ``{words.formula}``.

    This is `parki.{call}` for tensors.

    {about}

    Parameters
    ----------
    trg, src : Tensor, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources, on one device. The same tensor as both has derivatives in both roles.
    {common}
    systems, boxes, periodicities : optional
        Where the points of many systems begin, a box for each of them, and its periodic axes: see
        `parki.Plan`. Constants, as options are; but ``boxes`` may be a tensor, with first
        derivatives.

    Returns
    -------
    Tensor, shape {shape}
        With derivatives by all tensors that require them, ``box`` among them, in reverse and in
        forward mode, which have derivatives again.

    {raises}, and where derivatives are asked for that parki does not have.

    Examples
    --------
    >>> import parki.torch, torch
    {arrays}
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1])
    >>> _ = {words.variable}.requires_grad_()
    >>> u = parki.torch.{call}({given})
    >>> u.sum().backward()
    >>> {words.variable}.grad.shape == {words.variable}.shape
    True
    """
    norms, text, box = _taken(norms, options, keywords, systems, boxes, periodicities)
    check_tensor("trg", trg)
    check_tensor("src", src)
    check_tensor("dens", dens)
    if norms is not None:
        check_tensor("norms", norms)
    return _summed(kernel, text, trg, None if trg is src else src, dens, norms, box)


def _widths(
    name: str, keywords: Any, trg: AnyArray, src: AnyArray, norms: Any, options: Any, in_boxes: bool
) -> tuple[Any, Any, Any, Any]:
    """Return a kernel, and the squares of the widths of each point: see `take_squares`."""
    if torch.compiler.is_compiling():
        constants.constant("epsilon", keywords["epsilon"])  # refuses arrays
    check_tensor("trg", trg)
    check_tensor("src", src)
    return take_squares(
        name,
        keywords,
        trg,
        src,
        norms,
        options,
        in_boxes=in_boxes,
        known=lambda widths: values_of("epsilon", widths) if is_tensor(widths) else widths,
        like=lambda widths, count: torch.as_tensor(widths).to(trg).expand(count),
        join=torch.cat,
    )


_calls = calls(
    _sum, "Tensor", "torch.rand({}, dtype=torch.float64)", constants.named, widths=_widths
)
globals().update(_calls)
if not TYPE_CHECKING:
    __all__ = ["apply", "energy", "sphere_velocities", *_calls]


def product(
    kernel: str,
    points: AnyArray,
    dens: AnyArray,
    options: EwaldOptions | None = None,
    *,
    boxes: Boxes | None = None,
    periodicities: Periodicities | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Return half the product of a density with its sum at the same points."""
    _, text, box = _taken(None, options, keywords, None, boxes, periodicities)
    tensors = points, None, dens, None, box
    traced = torch.compiler.is_compiling() or forward_ad._current_level >= 0
    if not traced and torch.is_grad_enabled() and saves(kernel, constants.read(text), tensors):
        _refuse_layouts(tensors)
        return SavedProduct.apply(kernel, text, *tensors)[0]
    return (0.5 * dens * _summed(kernel, text, points, None, dens, None, box)).sum()


def apply(plan: Plan, dens: AnyArray) -> Any:
    """Return ``plan(dens)``, with derivatives of any order by the density.

    The plan's points have no derivatives. The backward pass is `Plan.adjoint`:
    a sum of the same matrix, transposed.

    Parameters
    ----------
    plan : Plan
        With one result, as of ``want="u"``.
    dens : Tensor
        As for a call of the plan.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        As of the plan and of its adjoint; and if the plan was given other points between the sum
        and its derivative.
    """
    LinearMap.check_plan(plan)
    check_tensor("dens", dens)
    return _linear(operators.number(plan), dens)


def sphere_velocities(
    points: AnyArray,
    radii: AnyArray,
    forces: AnyArray,
    torques: AnyArray = None,
    options: EwaldOptions | None = None,
    *,
    viscosity: float = 1.0,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Return the velocities of spheres, with derivatives by positions, forces and torques.

    This is `parki.Spheres` for tensors, made of the sums of this module.

    Parameters
    ----------
    points, radii, options, viscosity, **keywords
        As for `parki.Spheres`. Radii and viscosity are constants, as options are.
    forces, torques : Tensor or None
        As for `parki.Spheres.velocities`. Options may take the place of torques.

    Returns
    -------
    Tensor, or tuple of 2 tensors
        As of `parki.Spheres.velocities`, with the derivatives that sums have.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, and where second derivatives are asked for that parki lacks.
    """
    torques, text, box = _taken(torques, options, keywords)
    check_tensor("points", points)
    if forces is not None:
        check_tensor("forces", forces)
    if torques is not None:
        check_tensor("torques", torques)

    # One radius has the same sums for any number of spheres.
    count = 1 if isinstance(radii, (int, float)) else points.shape[-1]
    kernels, point_radii = constants.sizes(radii=radii, points=count)
    if point_radii is not None:
        point_radii = point_radii.to(points)

    def total(kernel: str, dens: AnyArray) -> Any:
        return _summed(kernel, text, points, None, dens, point_radii, box)

    if torch.compiler.is_compiling():
        viscosity = constants.constant("viscosity", viscosity)
    return velocities(total, points, kernels, (forces, torques), viscosity)


def _taken(
    norms: AnyArray,
    options: Any,
    keywords: OptionKeywords,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    periodicities: Periodicities | None = None,
) -> tuple[Any, str, Any]:
    """Return normals, options as a text, and the box or boxes, if they have derivatives."""
    in_tensor = is_tensor(boxes)  # which is read where the sum runs
    numbers, first = in_tensor or boxes, {}
    if boxes is not None or periodicities is not None:
        first = constants.of_first(numbers, periodicities)
    refuse_voltage(keywords, norms, options)
    if torch.compiler.is_compiling():
        constants.watch(norms if options is None else options)
    norms, options = take_options(norms, options, keywords, constants.text_of, first)
    written = isinstance(options, str)
    box = varied(keywords.get("box") if written else options.box)
    text = options if written else constants.text(options)
    if box is not None and first:
        raise ParkiValueError(
            "box requires a gradient, but systems have boxes of their own; pass them as a tensor, "
            "boxes"
        )
    if systems is not None or first:
        text = constants.with_systems(
            text, systems=systems, boxes=numbers, periodicities=periodicities
        )
    return norms, text, boxes if in_tensor else box


# `torch.compile` does not look into these two, but traces what they launch and its derivatives.
@torch.compiler.allow_in_graph
def _summed(
    kernel: str, text: str, trg: AnyArray, src: AnyArray, dens: AnyArray, norms: AnyArray, box: Any
) -> Any:
    check_normals(SUMS[kernel], norms)
    tensors = trg, src, dens, norms, box
    _refuse_layouts(tensors)
    with _without_functionalize():
        if torch.is_grad_enabled() and saves(kernel, constants.read(text), tensors):
            return SavedSum.apply(kernel, text, *tensors)[0]
        return SumFunction.apply(kernel, text, *tensors)


def _refuse_layouts(tensors: tuple[Any, ...]) -> None:
    for name, tensor in zip(INPUTS, tensors, strict=True):
        if tensor is not None:
            refuse_layout(name, tensor)


@torch.compiler.allow_in_graph
def _linear(number: int, dens: AnyArray) -> Any:
    refuse_layout("dens", dens)
    with _without_functionalize():
        return Linear.apply(operators.linear_map(number), False, False, dens)


@contextmanager
def _without_functionalize() -> Iterator[None]:
    """Refuse the one transformation of `torch.func` that has no rule for functions of ours."""
    try:
        yield
    except RuntimeError as error:
        if "Functionalize" not in str(error):
            raise
        raise ParkiTypeError(
            "the sums of parki.torch cannot go through torch.func.functionalize; leave it out, as "
            "they change nothing in place: make_fx and torch.compile take them as they are"
        ) from error


def check_tensor(name: str, value: Any) -> None:
    """Refuse what is no tensor."""
    if not isinstance(value, torch.Tensor):
        raise ParkiTypeError(
            f"{name} is a {type(value).__name__}; parki.torch takes tensors: make it one with "
            f"torch.as_tensor({name}), or call parki itself"
        )
