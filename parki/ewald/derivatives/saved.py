"""First derivatives of a symmetric sum from what was saved of it: gradients, and by strains.

See `symmetric`. An energy with its forces, and with its stress, is one sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parki.ewald.derivatives.in_boxes import InBoxes
from parki.ewald.derivatives.overflow import passed_on
from parki.ewald.derivatives.symmetric import derivatives, is_symmetric, multiple
from parki.ewald.geometry.own_boxes import Batch
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.points import result_shape
from parki.ewald.points.request import SumRequest
from parki.interchange import as_array, as_given
from parki.memory import telling
from parki.settings import read_once
from parki.typing import AnyArray

Arrays = Mapping[str, AnyArray]  # by names of inputs
NAMES = ("u", "grad_u", "strain")


def saves(kernel: str, options: EwaldOptions, batch: Batch, names: frozenset[str]) -> bool:
    """Return whether a sum of one density, with inputs of these names, has such derivatives.

    Systems in boxes of their own have none by these.
    """
    plain = options.expert == options.of_derivatives.expert
    if batch.boxes is not None:
        plain, batch = plain and "box" not in names, batch._replace(boxes=None)
    return plain and is_symmetric(kernel, options, batch, names)


@telling
def summed(
    kernel: str, options: EwaldOptions, batch: Batch, inputs: Arrays
) -> tuple[AnyArray, ...]:
    """Return a sum and what is saved of it, by `NAMES`; the last one only where a box is given.

    All are arrays of NumPy or CuPy.
    """
    strained = "box" in inputs
    results = _summed(kernel, options, batch, inputs["trg"], inputs["dens"], strained=strained)
    return (*results[0], results[1]) if strained else tuple(results)


def _summed(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    x: AnyArray,
    dens: AnyArray,
    *,
    strained: bool = False,
) -> Any:
    """Return the sum of a density and its gradients; in one box as `sum_once` does."""
    want = NAMES[:2]
    if batch.boxes is not None:
        in_boxes = InBoxes.checked(
            SumRequest.of(kernel, want, options),
            x,
            x,
            None,
            options,
            boxes=batch.boxes,
            systems=batch.systems,
            exclude=None,
        )
        return in_boxes.summed(dens)
    return sum_once(
        kernel, x, x, dens, None, options, want=want, systems=batch.systems, strained=strained
    )


def pulled(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    inputs: Arrays,
    saved: tuple[AnyArray, ...],
    values: AnyArray,
    names: tuple[str, ...],
    twice: Any = None,
) -> dict[str, AnyArray]:
    """Return derivatives, by names of inputs, of values times a sum of which `summed` saved these.

    All are arrays of one library, which multiplies them itself. There are no derivatives where the
    values are no multiple of the density, and the box is asked for. ``twice`` is twice that
    multiple; where it is known, nobody looks at the values.
    """
    results = dict(zip(NAMES, saved, strict=False))
    if twice is None and (factor := multiple(values, inputs["dens"])) is not None:
        twice = 2 * factor
    if twice is not None:
        return derivatives(
            options,
            inputs,
            values,
            fields=[results],
            twice=twice,
            strain=0.5 * twice * results["strain"][0] if "box" in names else None,
            names=names,
        )
    if "box" in names:
        return {}
    there, results = (
        {name: as_array(name, array) for name, array in by_name.items()}
        for by_name in (inputs, results)
    )

    def run(lists: list[Arrays], fixed: Arrays) -> dict[str, AnyArray]:
        w = lists[0]["values"]
        sums = _summed(kernel, options, batch, there["trg"], w)
        return derivatives(
            options,
            {**there, **fixed},
            w,
            fields=[results, dict(zip(NAMES[:2], sums, strict=True))],
            twice=None,
            strain=None,
            names=names,
        )

    axes = {"values": len(result_shape(kernel, "u", 0))}
    lists, fixed = [{"values": as_array("values", values)}], {"dens": there["dens"]}
    with read_once():
        by_name = passed_on(options, lists, axes, run, ("dens",), fixed)
    return {name: as_given(array, values) for name, array in by_name.items()}
