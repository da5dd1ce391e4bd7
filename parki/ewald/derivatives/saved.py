"""First derivatives of a sum from what was saved of it: gradients, and the derivative by strains.

A sum that is its own transpose, at targets that are its sources, has the product ``w.u`` with
values w. The derivative by a point has two parts: ``w.grad u`` as of a target, and as of a source
``q.grad u_w``, with its density q and the sum of w. Where the values are a multiple of the density,
as for an energy, the sum of w is that multiple of the sum itself. So an energy with its forces, and
with its stress, is one sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parki.ewald.derivatives.by_box import by_lattice
from parki.ewald.derivatives.overflow import passed_on
from parki.ewald.far.strain import of_modes_alone
from parki.ewald.geometry.systems import Batch
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.points import result_shape
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import velocity
from parki.interchange import as_array, as_given
from parki.memory import telling
from parki.settings import read_once
from parki.typing import AnyArray

Arrays = Mapping[str, AnyArray]  # by names of inputs
NAMES = ("u", "grad_u", "strain")
ROUNDING = 16  # units of roundoff within which values are a multiple of the density


def saves(kernel: str, options: EwaldOptions, batch: Batch, names: frozenset[str]) -> bool:
    """Return whether a sum of one density, with inputs of these names, has such derivatives."""
    kind = SUMS[kernel]
    record = kind.adjoints.get("u")
    if record is None or (record.kernel, record.results) != (kernel, velocity):
        return False
    if not record.symmetric or record.others or kind.pair.point_radii is not None:
        return False
    plain = options.expert == options.of_derivatives.expert and not options.walled
    strained = "box" not in names or (of_modes_alone(kind) and any(options.periodic))
    return plain and strained and bool(kind.terms["grad_u"]) and batch.boxes is None


@telling
def summed(
    kernel: str, options: EwaldOptions, batch: Batch, inputs: Arrays
) -> tuple[AnyArray, ...]:
    """Return a sum and what is saved of it, by `NAMES`; the last one only where a box is given."""
    points, strained = as_array("trg", inputs["trg"]), "box" in inputs
    summed = sum_once(
        kernel,
        points,
        points,
        inputs["dens"],
        None,
        options,
        want=("u", "grad_u"),
        systems=batch.systems,
        strained=strained,
    )
    if not strained:
        return tuple(summed)
    results, strain = summed
    return (*results, as_given(strain, inputs["dens"]))


def pulled(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    inputs: Arrays,
    saved: tuple[AnyArray, ...],
    values: AnyArray,
    names: tuple[str, ...],
) -> dict[str, AnyArray]:
    """Return derivatives, by names of inputs, of values times a sum of which `summed` saved these.

    All are arrays of one library, which multiplies them itself. There are no derivatives where the
    values are no multiple of the density, and the box is asked for.
    """
    results = dict(zip(NAMES, saved, strict=False))
    factor = _multiple(values, inputs["dens"])
    if factor is not None:
        of_values = {name: factor * array for name, array in results.items()}
        return _derivatives(kernel, options, inputs, values, results, of_values, names)
    if "box" in names:
        return {}
    there, results = (
        {name: as_array(name, array) for name, array in by_name.items()}
        for by_name in (inputs, results)
    )

    def run(lists: list[Arrays], fixed: Arrays) -> dict[str, AnyArray]:
        w, x, want = lists[0]["values"], there["trg"], NAMES[:2]
        sums = sum_once(kernel, x, x, w, None, options, want=want, systems=batch.systems)
        of_values = dict(zip(want, sums, strict=True))
        return _derivatives(kernel, options, {**there, **fixed}, w, results, of_values, names)

    axes = {"values": len(result_shape(kernel, "u", 0))}
    lists, fixed = [{"values": as_array("values", values)}], {"dens": there["dens"]}
    with read_once():
        derivatives = passed_on(options, lists, axes, run, ("dens",), fixed)
    return {name: as_given(array, values) for name, array in derivatives.items()}


def _derivatives(
    kernel: str,
    options: EwaldOptions,
    inputs: Arrays,
    w: AnyArray,
    results: Arrays,
    of_values: Arrays,
    names: tuple[str, ...],
) -> dict[str, AnyArray]:
    """Return derivatives by the results of the density, and of the values w."""
    x, q, derivatives = inputs["trg"], inputs["dens"], {"dens": of_values["u"]}
    if {"trg", "box"} & {*names}:
        count = x.shape[1]
        rows = (array.reshape(-1, 1, count) for array in (w, q))
        slopes = (named["grad_u"].reshape(-1, 3, count) for named in (results, of_values))
        parts = [(a * b).sum(axis=0) for a, b in zip(rows, slopes, strict=True)]
        derivatives["trg"] = parts[0] + parts[1]
    if "box" in names:
        straight = inputs["box"].ndim == 1
        strained = x, derivatives["trg"], of_values["strain"][0], q, w
        x, slopes, strain, q, w = (as_array("saved", array) for array in strained)
        lattice = by_lattice(
            kernel,
            x,
            x,
            q[None],
            None,
            options,
            values={"u": w[None]},
            moves=[(x, slopes)],
            strains=[strain],
            straight=straight,
        )
        by_box = lattice.diagonal().copy() if straight else lattice
        derivatives["box"] = as_given(by_box, inputs["box"])
    return {name: derivatives[name] for name in names}


def _multiple(values: AnyArray, density: AnyArray) -> Any:
    """Return the number that a density is multiplied by, up to rounding; None if there is none."""
    unit = 2.0**-52 if values.dtype.itemsize == 8 else 2.0**-23
    with np.errstate(all="ignore"):  # no number is within NaN
        factor = (values * density).sum() / (density * density).sum()
        rest = abs(values - factor * density).max()
        most = ROUNDING * unit * abs(values).max()
    return factor if bool(rest <= most) else None
