"""One-shot calls: a plan used once, which leaves its pipeline for the next call like it.

`calls` makes the calls of this and of other modules from the list of sums.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.geometry.own_boxes import OF_BOXES, OwnBox, of_first, own_boxes
from parki.ewald.geometry.systems import LabelsLike, SystemsLike
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.placement.any_plan import AnyPlan
from parki.ewald.points import result_shape, take_options
from parki.ewald.points.request import SumRequest
from parki.ewald.points.values import check_names
from parki.ewald.points.widths import take_widths
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS, kernel, with_parameters
from parki.ewald.sums.names import InteractionFamily
from parki.memory import told
from parki.typing import (
    AnyArray,
    Array,
    Boxes,
    OfPoints,
    OptionKeywords,
    Periodicities,
    ResultName,
    Unpack,
)

if TYPE_CHECKING:
    from parki.ewald.calls import *  # noqa: F403


def calls(
    total: Callable[..., AnyArray],
    array: str = "array",
    random: str = "rng.random({})",
    named: Callable[..., str] = kernel,
    widths: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Return the calls of a module, by name: one for each family of sums.

    ``total`` takes the name of a kernel, and then what the calls take. Its docstring has places in
    braces. ``array`` is what the module calls an array, ``random`` an expression for one of a given
    shape, and ``named`` is `parki.kernel` as the module calls it. ``widths`` is the module's
    `take_widths`, if points may have widths of their own.
    """
    _, *common = inspect.signature(total).parameters.values()

    def make(name: str, family: InteractionFamily) -> Any:
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in family.parameters.values()]

        # Normals and options have defaults, so that parki says what is missing.
        def call(
            trg: AnyArray,
            src: AnyArray,
            dens: AnyArray,
            norms: AnyArray = None,
            options: Any = None,
            **others: Any,
        ) -> Any:
            if widths and not isinstance(others.get("epsilon", 0.0), (int, float)):
                kernel, norms, options, others = widths(
                    name,
                    others,
                    trg,
                    src,
                    norms,
                    options,
                    in_boxes=any(others.get(each) is not None for each in OF_BOXES),
                )
            else:
                kernel, others = with_parameters(name, others, named)
            return total(kernel, trg, src, dens, norms, options, **others)

        # What `inspect` and Sphinx show: what the call takes, and where that is written.
        shown = inspect.Signature([*common[:5], *own, *common[5:]])
        call.__signature__ = shown  # type: ignore[attr-defined]
        call.__wrapped__ = total  # type: ignore[attr-defined]
        call.__doc__ = _docstring(inspect.getdoc(total) or "", name, family, array, random)
        call.__name__ = call.__qualname__ = name
        call.__module__ = total.__module__
        return call

    return {name: make(name, family) for name, family in SUMS.listed.items()}


# What the docstrings of all calls have in common.
_COMMON = """\
dens : {array}, shape {rows}
    {words.density}
    Several densities may be given at once, along a first axis, which results have, too.
norms : {norms}
options : EwaldOptions
    How to sum.{parameters}
**keywords
    The fields of `EwaldOptions`, instead of ``options``: ``periodicity=3, box=[1, 1, 1]``."""
_NO_NORMALS = "None\n    The sum has no normals; options may take their place."
_WANT_POTENTIAL = """\
want : {{"u", "grad_u"}}, or a tuple of these
    The potential; its gradient, of shape (3, Nt)."""
_WANT_FLOW = """\
want : {{"u", "p", "grad_u", "stress"}}, or a tuple of these
    The velocity; the pressure of the same flow, of shape (Nt,),
    ``{pressure}``;
    the gradient ``[i, j] = d u_i / d x_j``; the stress ``-p I + grad u + (grad u)^T``, whose
    product with a normal is the traction. Gradient and stress have the shape (3, 3, Nt)."""
_RAISES = """\
Raises
------
ParkiValueError, ParkiTypeError, ParkiMemoryError
    As for `parki.Plan`"""


def _docstring(template: str, call: str, family: InteractionFamily, array: str, random: str) -> str:
    """Return the docstring of a call: a template, with the words of a sum in its places."""
    words: Any = family.words
    record = family.record(family.example)
    template = template.replace("{common}", _COMMON).replace("{raises}", _RAISES)
    template = template.replace(
        "{want}", _WANT_FLOW if words.pressure or "p" in record.terms else _WANT_POTENTIAL
    )
    rows, normals = record.density, {"normals": (3, 100)} if record.normals else {}
    arrays = {"points": (3, 100), words.variable: (*rows, 100), **normals}
    given = ["points", *arrays, "options", *(f"{n}={v!r}" for n, v in family.example.items())]
    about = f"Nothing is scaled: {words.physical}.", *words.text
    return template.format(
        call=call,
        words=words,
        array=array,
        about="\n\n".join(textwrap.fill(each, 96) for each in about),
        rows=str((*rows, "Ns")).replace("'", ""),
        norms=f"{array}, shape (3, Ns)\n    Normals n of the sources." if normals else _NO_NORMALS,
        parameters="".join(f"\n{name} : {text}" for name, text in words.parameters.items()),
        pressure=words.pressure or 0,
        shape=str((*result_shape(record.name, "u", 0)[:-1], "Nt")).replace("'", ""),
        arrays="\n".join(f">>> {n} = {random.format(shape)}" for n, shape in arrays.items()),
        given=", ".join(given),
        found=result_shape(record.name, "u", 100),
    )


def summed(
    kernel: str,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray,
    options: EwaldOptions,
    *,
    want: str | tuple[str, ...] = "u",
    exclude: LabelsLike = None,
    systems: SystemsLike = None,
    boxes: tuple[OwnBox, ...] | None = None,
    ranks: Ranks = SERIAL,
) -> Any:
    """Return the sum of one density, near a wall by a plan of its own.

    Takes what `parki.stokes_sl` takes, and the ranks.
    """
    with told():
        more = check_names(want) != ("u",)
        composite = options.walled or (more and SUMS[kernel].pressure)
        if boxes is not None and not composite and ranks.serial:
            in_boxes = InBoxes.checked(
                SumRequest.of(kernel, want, options),
                trg,
                src,
                norms,
                options,
                boxes=boxes,
                systems=systems,
                exclude=exclude,
            )
            in_boxes.warn_of_images()
            return in_boxes.summed(dens)
        if composite or boxes is not None:
            plan: Any = AnyPlan(
                ranks,
                kernel,
                trg,
                src,
                norms,
                options,
                want=want,
                systems=systems,
                exclude=exclude,
                boxes=boxes,
            )
            return plan(dens)
        return sum_once(
            kernel,
            trg,
            src,
            dens,
            norms,
            options,
            want=want,
            systems=systems,
            exclude=exclude,
            ranks=ranks,
        )


def _sum(
    kernel: str,
    trg: Array,
    src: Array,
    dens: Array,
    norms: Array | EwaldOptions | None = None,
    options: EwaldOptions | None = None,
    *,
    want: ResultName | tuple[ResultName, ...] = "u",
    exclude: OfPoints | None = None,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    periodicities: Periodicities | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Sum {words.title}: ``{words.formula}``.

    The sum is over all sources and their periodic images, with ``r = x - y`` for a target x and a
    source y. A source at the target itself is left out.

    {about}

    Parameters
    ----------
    trg, src : array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources in the unit of ``options.box``, of NumPy, CuPy, or anything with DLPack.
        They are not modified.
    {common}
    {want}
    exclude : array of int, or tuple of two, optional
        Labels of targets and sources, whose pairs are left out: see `parki.Plan`.
    systems, boxes, periodicities : optional
        Where the points of many systems begin, a box for each of them, and its periodic axes: see
        `parki.Plan`.

    Returns
    -------
    array, or a tuple of arrays in the order of ``want``
        In the library and the memory of ``dens``.

    {raises}.

    Examples
    --------
    >>> import numpy as np, parki
    >>> rng = np.random.default_rng(0)
    {arrays}
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1])
    >>> parki.{call}({given}).shape
    {found}
    """
    system_boxes = own_boxes(boxes, periodicities)
    norms, options = take_options(norms, options, keywords, first=of_first(system_boxes))
    return summed(
        kernel,
        trg,
        src,
        dens,
        norms,
        options,
        want=want,
        exclude=exclude,
        systems=systems,
        boxes=system_boxes,
    )


_calls = calls(_sum, widths=take_widths)
globals().update(_calls)
if not TYPE_CHECKING:
    __all__ = list(_calls)
