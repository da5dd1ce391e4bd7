"""The derivative of ``w.u`` by the lattice, whose vectors are the rows of A, at fixed points.

Strain points and box together, ``dx_a = x_b``: the derivative S by that, of pairs and of modes, is
a sum over both fields. A lattice that moves alone has the derivative D, with

    S_ab = sum_n D_na A_nb + sum_i x_ib dw.u/dx_ia

where the last sum is over targets and sources. So D follows from S and from the gradients by
points, wherever these are given. What has no such sum takes differences along strains. They move
all pairs along, so that sums change slowly however close some points are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add, sub
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.derivatives.one_sum import OneSum
from parki.ewald.far.pairings import SYMBOLS
from parki.ewald.far.strain import of_modes_alone
from parki.ewald.geometry.own_boxes import OwnBox
from parki.ewald.lattice import rows_of, whole_of
from parki.ewald.options import SMALLEST_TOLERANCE, EwaldOptions
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import velocity
from parki.ewald.sums.record import Interaction
from parki.interchange import to_host
from parki.typing import AnyArray

Array = NDArray[np.float64]
# What `parki.vjp` takes as names: derivatives in the shape of ``box``, or by lattice vectors.
NAMES = ("box", "lattice")


# A difference of eighth order: its step, along a strain of norm 1, and weights. Errors grow by the
# inverse of the step, so that sums take a tolerance as much smaller, in double precision.
STEP = 0.01
WEIGHTS = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}


def check_box(boxes: tuple[OwnBox, ...] | None, asked: str) -> None:
    """Refuse what was ``asked`` of systems in boxes of their own."""
    if boxes is not None:
        raise ParkiValueError(
            f"{asked} was asked for, which parki does not have for systems in boxes of their own; "
            "sum the systems of each box in a call of its own"
        )


def strained(
    options: EwaldOptions, strain: Array, points: Mapping[str, AnyArray]
) -> Iterator[tuple[float, EwaldOptions, dict[str, AnyArray]]]:
    """Yield the weights, the options and the points of a difference along a strain.

    Parameters
    ----------
    options : EwaldOptions
    strain : array, shape (3, 3)
        Of points and box, ``dx_a = e_ab x_b``; none along free axes.
    points : mapping of arrays, shape (3, N)
        In double precision.
    """
    options, size = finer(options), float(np.linalg.norm(strain))
    vectors, edges = vectors_of(options), cast(Any, options.box)
    for number, weight in WEIGHTS.items() if size else ((0, 0.0),):
        for sign in (1, -1):
            moved = np.eye(3) + sign * number * STEP / (size or 1.0) * strain
            rows = vectors @ moved.T
            straight = options.cell is None and not (rows - np.diag(rows.diagonal())).any()
            box = (rows.diagonal() if straight else rows).tolist()
            box = [None if old is None else new for old, new in zip(edges, box, strict=True)]
            there = {name: np.asarray(moved, like=x) @ x for name, x in points.items()}
            yield sign * weight * size / STEP, replace(options, box=box), there


def finer(options: EwaldOptions) -> EwaldOptions:
    """Return the options of changes along strains, which have larger errors than sums."""
    least = SMALLEST_TOLERANCE[np.dtype(np.float64)]
    tolerance = max(options.tolerance * STEP, least)
    return replace(options.of_derivatives, tolerance=tolerance, precision="full")


def follows(kernel: str) -> bool:
    """Return whether a sum's changes along strains are sums at its placement: of charges."""
    kind = SUMS[kernel]
    return of_modes_alone(kind) and bool(kind.dipoles) and not SUMS[kind.dipoles].pair.file


def by_lattice(
    one: OneSum,
    dens: AnyArray,
    *,
    values: dict[str, AnyArray],
    moves: list[tuple[AnyArray, AnyArray]],
    strains: Sequence[AnyArray] = (),
    straight: bool = False,
) -> Array:
    """Return the derivative by lattice vectors, shape (3, 3), a row for each.

    Where systems have boxes of their own, it is one for each, shape (S, 3, 3). Derivatives of
    systems in one box add up. Each rank takes its own targets, whose derivatives add up, and the
    sources of all ranks.

    Parameters
    ----------
    one : OneSum
    dens : array, shape (k, rows, Ns)
    values : dict of arrays, shape (k, rows, Nt)
        By result.
    moves : list of tuple of 2 arrays, shape (3, N)
        Targets and sources, and the derivatives by them.
    strains : sequence of arrays, shape (9, systems)
        The derivative of ``values["u"]`` times "u" by strains, if it is known.
    straight : bool
        Whether the diagonal is enough.
    """
    systems, options, ranks = one.systems, one.options, one.ranks
    if systems is not None and systems.boxes is not None and {*values} == {"u"} and strains:
        sums = [systems.sums((g[:, None] * x).reshape(9, -1).astype(np.float64)) for x, g in moves]
        of_each = to_host(reduce(sub, sums, reduce(add, strains))).T.reshape(-1, 3, 3)
        of_each = of_each * np.outer(options.periodic, options.periodic)
        inverse = np.linalg.inv(systems.boxes).swapaxes(1, 2)
        return np.asarray(inverse @ of_each.swapaxes(1, 2))
    if systems is not None and systems.boxes is not None:
        return np.array(
            [
                by_lattice(
                    alone,
                    dens[..., s],
                    values={name: rows[..., t] for name, rows in values.items()},
                    moves=[(x[:, n], g[:, n]) for (x, g), n in zip(moves, (t, s), strict=True)],
                )
                for alone, t, s in one.by_system()
            ]
        )
    moments = [
        (slopes[:, None].astype(np.float64) * points).sum(axis=-1) for points, slopes in moves
    ]
    gains, left = [*strains], dict[str, AnyArray]()
    one, dens = one.of_all_sources(), ranks.all_columns(dens)
    summed = one.trg.size and dens.size and any(options.periodic)
    for name, weights in values.items() if summed else ():
        if name == "u" and strains:
            continue
        if name == "u" and _strains(one.kind):
            gains.append(by_strains(one, dens, weights))
        elif back := _transposed(one, name):
            gains.append(by_strains(back, weights, dens))
        else:
            left[name] = weights
    total = reduce(add, [each.sum(axis=1).reshape(3, 3) for each in gains], 0.0)
    derivative = to_host(reduce(sub, moments, total))
    if left:
        derivative = derivative + _differences(one, dens, left, straight)
    return by_vectors(ranks.sum(derivative), options)


def by_vectors(strained: Array, options: EwaldOptions) -> Array:
    """Return the derivative by lattice vectors, for one by strains of the box alone, (3, 3).

    Rows and columns of free axes are zero.
    """
    strained = strained * np.outer(options.periodic, options.periodic)
    return np.asarray(np.linalg.inv(vectors_of(options)).T @ strained.T)


def _strains(kind: Interaction) -> bool:
    """Return whether the product of weights and "u" has its derivative by strains as a sum."""
    sinks = kind.symbol.alpha and kind.normals  # with a multiplier of their own in planes
    return not sinks and kind.symbol.structure in SYMBOLS


def _transposed(one: OneSum, name: str) -> OneSum | None:
    """Return a sum without normals whose "u" is the transpose of a result, if it strains."""
    record = one.kind.adjoints.get(name)
    if record is None or record.want != ("u",) or record.results is not velocity:
        return None
    if record.density is not None or record.normals is not None or record.others:
        return None
    kind, systems = SUMS[record.kernel], one.systems and one.systems.swapped()
    labels = one.labels and one.labels.swapped(systems)
    back = one._replace(
        kind=kind, trg=one.src, src=one.trg, norms=None, labels=labels, systems=systems
    )
    return back if _strains(kind) else None


def by_strains(
    one: OneSum,
    dens: AnyArray,
    values: AnyArray,
    want: str | tuple[str, ...] = "grad_u",
) -> Any:
    """Return the derivatives by strains (9, systems) of values times "u" of densities, added up.

    Systems are summed one after the other. ``want`` are results of a sum that was placed at these
    points before, with "grad_u".
    """
    gains = list[AnyArray]()
    for alone, t, s in one.by_system():
        density, weights, options = dens[..., s], values[..., t], alone.options
        shape = alone.kind.density_shape(density.shape[-1])
        gain = sum_once(
            alone.kind.name,
            alone.trg,
            alone.src,
            density.reshape(len(density), *shape),
            alone.norms,
            options,
            want=want,
            exclude=alone.labels,
            weights=weights,
        ).sum(axis=0)
        if options.dl_mean == "flux" and alone.kind.normals:
            change = _flux(alone, density, weights) / np.linalg.det(vectors_of(options))
            gain = gain + np.asarray(change.reshape(9, 1), like=gain)
        gains.append(gain)
    return gains[0] if len(gains) == 1 else np.concatenate(gains, axis=1)


def _differences(one: OneSum, dens: AnyArray, values: dict[str, AnyArray], straight: bool) -> Array:
    """Return the derivative by strains of points and box, by differences along each."""
    options, norms = one.options, one.norms
    arrays = {"trg": one.trg} if one.src is one.trg else {"trg": one.trg, "src": one.src}
    points = {name: x.astype(np.float64) for name, x in arrays.items()}
    if isinstance(norms, tuple):  # marks
        norms = tuple(of_points.astype(np.float64) for of_points in norms)
    elif norms is not None:
        norms = norms.astype(np.float64)
    dens = dens.astype(np.float64)
    density = dens.reshape((len(dens), *one.kind.density_shape(dens.shape[-1])))
    change = np.zeros((3, 3))
    request = np.eye(3) if straight else np.ones((3, 3))
    for place in np.argwhere(request * np.outer(options.periodic, options.periodic)):
        strain = np.zeros((3, 3))
        strain[tuple(place)] = 1
        for weight, in_box, there in strained(options, strain, points):
            results = sum_once(
                one.kind.name,
                there["trg"],
                there.get("src", there["trg"]),
                density,
                norms,
                in_box,
                want=(*values,),
                systems=one.systems,
                exclude=one.labels,
            )
            for w, result in zip(values.values(), results, strict=True):
                change[tuple(place)] += weight * float((w * result.reshape(w.shape)).sum())
    return change


def _flux(one: OneSum, dens: AnyArray, values: AnyArray) -> Array:
    """Return the change of the mean without flux by a strain of the points alone, as given.

    That is times the volume, which `by_strains` strains, too.
    """
    arrays = one.trg, one.src, one.norms
    trg, src, norms = (np.asarray(to_host(array), dtype=np.float64) for array in arrays)
    change = np.zeros((3, 3))
    for q, w in zip(dens, values, strict=True):
        strengths, w = (to_host(q[-3:]) * norms).sum(axis=0), to_host(w)
        change += np.outer(w.sum(axis=1), src @ strengths) - strengths.sum() * (w @ trg.T)
    return 8 * np.pi * change


def vectors_of(options: EwaldOptions) -> Array:
    """Return the lattice vectors as they were given, in rows; a free axis may have any."""
    box: Any = options.box
    rows = rows_of(box)
    if rows is None:
        rows = tuple(None if b is None else tuple(b * np.eye(3)[n]) for n, b in enumerate(box))
    return whole_of(rows)
