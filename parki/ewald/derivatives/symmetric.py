"""Derivatives of sums that are their own transposes, at targets that are their sources.

The product ``w.u`` of values w with such a sum of a density q is symmetric in w and q, and so is
the product of w with the change of the sum, for moves of the points or along a strain of points and
box. So the derivative by a point is ``w.grad u`` as of a target, and ``q.grad u_w`` with the sum of
w as of a source. The derivative by q is the sum of w. Where the values are a multiple of the
density, as for an energy, the sum of w is that multiple of the sum itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.derivatives.by_box import by_lattice
from parki.ewald.derivatives.one_sum import OneSum, all_rows
from parki.ewald.far.strain import of_modes_alone
from parki.ewald.geometry.own_boxes import Batch
from parki.ewald.options import EwaldOptions
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import velocity
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.slopes import TARGETS, changes, slopes_of_moved
from parki.interchange import as_array, as_given
from parki.typing import AnyArray

Arrays = Mapping[str, AnyArray]  # by names of inputs
ROUNDING = 16  # units of roundoff within which values are a multiple of the density


def is_symmetric(kernel: str, options: EwaldOptions, batch: Batch, names: frozenset[str]) -> bool:
    """Return whether these are the derivatives of a sum by inputs of these names."""
    kind = SUMS[kernel]
    record = kind.adjoints.get("u")
    if record is None or (record.kernel, record.results) != (kernel, velocity):
        return False
    if not record.symmetric or record.others or kind.pair.point_radii is not None:
        return False
    strained = "box" not in names or (of_modes_alone(kind) and any(options.periodic))
    plain = strained and not options.walled and batch.boxes is None
    return plain and bool(kind.terms["grad_u"])


def moves(kernel: str) -> bool:
    """Return whether such sums have derivatives of their changes for moves of the points."""
    dipoles = SUMS[kernel].dipoles
    return bool(dipoles) and bool(SUMS[dipoles].adjoints) and bool(SUMS[dipoles].terms["grad_u"])


def pulled(
    kernel: str,
    options: EwaldOptions,
    batch: Batch,
    inputs: Arrays,
    values: AnyArray,
    names: tuple[str, ...],
    move: AnyArray = None,
    motion: NDArray[np.float64] | None = None,
) -> dict[str, AnyArray]:
    """Return derivatives, by names of inputs and "values", of values times a sum or its change.

    It is the change for a ``move`` of the points, or along a strain, a ``motion``. All sums of one
    kernel are one sum of several densities. See `second.pulled`.
    """
    x, q = inputs["trg"], inputs["dens"]
    factor = multiple(values, q)
    density, weights = (rows.reshape(1, -1, x.shape[1]) for rows in (q, values))
    one = OneSum(
        SUMS[kernel],
        options=options.of_derivatives,
        trg=x,
        src=x,
        norms=None,
        systems=batch.systems,
        motion=motion,
    )
    addends = _addends(SUMS[kernel], move is not None, frozenset(names))
    pairs = [(density, weights)] + ([(weights, density)] if factor is None else [])
    strains: list[AnyArray] | None = [] if "box" in names else None
    steps = [one.steps(addends, dens, _cloud(x, w[0], move)) for dens, w in pairs]
    fields = [
        {name: reduce(add, rows).reshape(-1, x.shape[1]) for name, rows in by_name.items()}
        for by_name in all_rows(*steps, strains=strains)
    ]
    derivatives = dict[str, AnyArray]()
    if "values" in names:
        derivatives["values"] = fields[0]["u"].reshape(values.shape)
    if "dens" in names:
        of_values = fields[0]["u"] * factor if factor is not None else fields[1]["u"]
        derivatives["dens"] = of_values.reshape(q.shape)
    if "trg" in addends:
        first, *second = (field["trg"] for field in fields)
        derivatives["trg"] = first + (second[0] if second else first)
    if strains is not None:
        strain = strains[0] if factor is None else factor * strains[0]
        slopes = derivatives["trg"]
        derivatives["box"] = by_box(kernel, options, inputs, slopes, strain, values)
    return {name: derivatives[name] for name in names}


@lru_cache(maxsize=64)
def _addends(
    kind: Interaction, moved: bool, names: frozenset[str]
) -> dict[str, tuple[Addend, ...]]:
    """Return the addends of a sum, or of its change, "u", and of the derivative by targets."""
    addends = dict[str, tuple[Addend, ...]]()
    of_move = slopes_of_moved(kind) if moved else {}
    if names & {"dens", "values"}:
        addends["u"] = of_move.get("u") or changes(kind, "u", "dens")
    if names & {"trg", "box"}:
        addends["trg"] = of_move.get("trg") or (TARGETS,)
    return addends


def _cloud(x: AnyArray, values: AnyArray, move: AnyArray) -> dict[str, AnyArray]:
    """Return arrays for the addends: values of "u", and of gradients that moves take."""
    cloud = {"points": x, "u": values}
    if move is not None:
        of_slopes = (values[:, None] * move).reshape(-1, x.shape[1])
        cloud |= {"trg": move, "src": move, "grad_u": of_slopes}
    return cloud


def by_box(
    kernel: str,
    options: EwaldOptions,
    inputs: Arrays,
    slopes: AnyArray,
    strain: AnyArray,
    values: AnyArray,
) -> Any:
    """Return the derivative by the box, for those by the points and by strains, (9, systems)."""
    straight = inputs["box"].ndim == 1
    taken = inputs["trg"], slopes, strain, inputs["dens"], values
    x, slopes, strain, q, w = (as_array("saved", array) for array in taken)
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
    return as_given(lattice.diagonal().copy() if straight else lattice, inputs["box"])


def multiple(values: AnyArray, density: AnyArray) -> Any:
    """Return the number that a density is multiplied by, up to rounding; None if there is none.

    Arrays are of any library, which multiplies them itself.
    """
    unit = 2.0**-52 if values.dtype.itemsize == 8 else 2.0**-23
    with np.errstate(all="ignore"):  # no number is within NaN
        factor = (values * density).sum() / (density * density).sum()
        rest = abs(values - factor * density).max()
        most = ROUNDING * unit * abs(values).max()
    return factor if bool(rest <= most) else None
