"""Derivatives of sums that are their own transposes, at targets that are their sources.

The product ``w.u`` of values w with such a sum of a density q is symmetric in w and q, and so is
the product of w with the change of the sum, for moves of the points or along a strain of points and
box. So the derivative by a point is ``w.grad u`` as of a target, and ``q.grad u_w`` with the sum of
w as of a source. The derivative by q is the sum of w. Where the values are a multiple of the
density, as for an energy, the sum of w is that multiple of the sum itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parki.ewald.derivatives.by_box import by_strains, by_vectors
from parki.ewald.derivatives.one_sum import OneSum, Steps, SumOfPoints, all_rows
from parki.ewald.far.strain import of_modes_alone
from parki.ewald.geometry.own_boxes import Batch
from parki.ewald.geometry.systems import check_systems
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.points import ratios
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import velocity
from parki.ewald.sums.slopes import readable, slopes_of_moved
from parki.interchange import as_array, as_given
from parki.meaning import is_tensor
from parki.runtime import get_execution_space
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

    It is the change for a ``move`` of the points, or along a strain, a ``motion``: one sum of
    several densities. See `second.pulled`.
    """
    x, q = inputs["trg"], inputs["dens"]
    factor, slopes = multiple(values, q), not {"trg", "box"}.isdisjoint(names)
    u = not {"values", "dens"}.isdisjoint(names) or ("box" in names and move is None)  # as forward
    sums = SumOfPoints(
        kernel=kernel,
        trg=x,
        src=x,
        dens=q[None] if factor is not None else np.stack([q, values]),
        norms=None,
        options=options.of_derivatives,
        want=("u",) * u + ("grad_u",) * slopes,
        systems=batch.systems,
        labels=None,
        tensors=None,
        ranks=SERIAL,
        motion=motion,
    )
    strain: AnyArray = None
    if move is not None:
        weights = [values, q][: len(sums.dens)]
        reads = readable(SUMS[kernel])
        fields = _read(sums, move, weights) if reads else _moved(sums, move)
        if "box" in names:
            strain = (1 if factor is None else 2) * _strains(sums, move, weights)
    elif "box" in names:
        fields, strain = sums.strained()
        strain = strain if factor is None else factor * strain
    else:
        fields = sums.summed()
    twice = None if factor is None else 2 * factor
    return derivatives(
        options, inputs, values, fields=fields, twice=twice, strain=strain, names=names
    )


def _strains(sums: SumOfPoints, move: AnyArray, weights: list[AnyArray]) -> AnyArray:
    """Return the derivatives by strains (9, systems) of weights times changes of "u", added up.

    Sources move, which makes them dipoles. Moves do not change.
    """
    x, options, kernel = sums.trg, sums.options, SUMS[sums.kernel].dipoles
    space = get_execution_space(options.execution_space, x)
    systems = check_systems(sums.systems, {"trg": x, "src": x}, space, options)
    one = OneSum(SUMS[kernel], options=options, trg=x, src=x, norms=None, systems=systems)
    dipoles = sums.dens.reshape(len(sums.dens), 1, -1) * move
    values = np.stack(weights).reshape(len(weights), 1, -1)
    return by_strains(one, dipoles, values, want=sums.want)


def _read(sums: SumOfPoints, move: AnyArray, weights: list[AnyArray]) -> list[dict[str, AnyArray]]:
    """Return how each density's "u" changes where the points move, and the "slopes" of this.

    These (3, N) are for weights of "u". Targets read slopes of gradients, so that sources alone are
    dipoles: fewer sums than `_moved` takes, which serves all kinds.
    """
    x, steps = sums.trg, list[Steps[str]]()
    kind, count = SUMS[sums.kernel], move.shape[1]
    one = OneSum(
        kind, options=sums.options, trg=x, src=x, norms=None, systems=cast(Any, sums.systems)
    )
    addends = slopes_of_moved(kind)
    for dens, weight in zip(sums.dens, weights, strict=True):
        w = weight.reshape(-1, count)
        of_slopes = (w[:, None] * move).reshape(-1, count)
        cloud = {"points": x, "trg": move, "src": move, "u": w, "grad_u": of_slopes}
        steps.append(one.steps(addends, dens.reshape(1, -1, count), cloud))
    return [
        {name: reduce(add, rows).reshape(-1, count) for name, rows in by_name.items()}
        for by_name in all_rows(*steps)
    ]


def _moved(sums: SumOfPoints, move: AnyArray) -> list[dict[str, AnyArray]]:
    """Return how results (rows, N) of each density change where the points move.

    A source that moves is a dipole, its density along the move; and the slope along an axis is
    minus the sum of dipoles along that axis.
    """
    count = move.shape[1]
    rows = sums.dens.reshape(len(sums.dens), 1, -1, 1, count)
    directions = np.zeros_like(move, shape=(4, 3, count))
    directions[0] = move
    directions.reshape(12, count)[3::4] = 1  # along the axes
    dipoles = rows * directions[:, None]
    kernel = SUMS[sums.kernel].dipoles
    shape = SUMS[kernel].density_shape(count)
    of_dipoles = sums._replace(kernel=kernel, dens=dipoles.reshape(-1, *shape))
    changes = {}
    for name, array in of_dipoles.by_name().items():
        parts = array.reshape(len(rows), 4, -1, count)
        changes[name] = parts[:, 0] - (move[:, None] * parts[:, 1:]).sum(axis=1)
    return [{name: change[n] for name, change in changes.items()} for n in range(len(rows))]


def derivatives(
    options: EwaldOptions,
    inputs: Arrays,
    values: AnyArray,
    *,
    fields: Sequence[Arrays],
    twice: Any,
    strain: AnyArray,
    names: tuple[str, ...],
) -> dict[str, AnyArray]:
    """Return derivatives by names, for fields: the results of the density, and of the values.

    If the values are half of ``twice`` the density, its own results are enough. All are arrays of
    one library. The ``strain`` (9, systems) is the product's.
    """
    x, q, by_input = inputs["trg"], inputs["dens"], dict[str, AnyArray]()
    if "values" in names:
        by_input["values"] = fields[0]["u"].reshape(values.shape)
    if "dens" in names:
        of_values = fields[1]["u"] if twice is None else 0.5 * twice * fields[0]["u"]
        by_input["dens"] = of_values.reshape(q.shape)
    if not {"trg", "box"}.isdisjoint(names):
        count = x.shape[1]
        # Both fields of a multiple have the same part in this.
        weights = (values, q) if twice is None else (twice * q,)
        parts = []
        for weight, named in zip(weights, fields, strict=True):
            if "grad_u" in named:
                rows = weight.reshape(-1, 1, count) * named["grad_u"].reshape(-1, 3, count)
                parts.append(rows[0] if len(rows) == 1 else rows.sum(axis=0))
            else:
                parts.append(named["slopes"] if twice is None else 2 * named["slopes"])
        by_input["trg"] = reduce(add, parts)
    if "box" in names:
        box = by_box(options, inputs, by_input["trg"], strain)
        by_input["box"] = as_given(box, x) if is_tensor(x) else np.asarray(box, like=x)
    return {name: by_input[name] for name in names}


def by_box(
    options: EwaldOptions, inputs: Arrays, slopes: AnyArray, strain: AnyArray
) -> NDArray[np.float64]:
    """Return the derivative by the box, for those by the points and by strains, (9, systems).

    Arrays are of any library, and the derivative is on the host.
    """
    moments = (slopes[:, None] * inputs["trg"]).sum(axis=-1, dtype=strain.dtype)
    gained = np.array(strain.tolist()).sum(axis=1).reshape(3, 3)  # by no small launches
    lattice = by_vectors(gained - np.array(moments.tolist()), options)
    return lattice.diagonal().copy() if inputs["box"].ndim == 1 else lattice


def multiple(values: AnyArray, density: AnyArray) -> float | None:
    """Return the number that a density is multiplied by, up to rounding; None if there is none."""
    rows, columns = (as_array("values", array).reshape(-1) for array in (values, density))
    low, high = ratios(rows, columns)
    most = ROUNDING * float(np.finfo(rows.dtype).eps) * max(abs(low), abs(high))
    return 0.5 * low + 0.5 * high if high - low <= most else None  # no number is within NaN
