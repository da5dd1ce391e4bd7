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
from parki.ewald.far.pairings import SYMBOLS, parts_of
from parki.ewald.far.strain import FarStrain, of_modes_alone
from parki.ewald.geometry.own_boxes import OwnBox
from parki.ewald.lattice import rows_of, whole_of
from parki.ewald.options import SMALLEST_TOLERANCE, EwaldOptions
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.pipeline.setup import cloud_on_grid
from parki.ewald.pipeline.stages import Stages
from parki.ewald.points import Cloud, result_rows, take_cloud
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
    known = [each.sum(axis=1).reshape(3, 3) for each in strains]
    derivative = to_host(reduce(sub, moments, reduce(add, known, np.zeros_like(moments[0]))))
    one, dens = one.of_all_sources(), ranks.all_columns(dens)
    if one.trg.size and dens.size and any(options.periodic):
        left = dict[str, AnyArray]()
        for name, weights in values.items():
            if name == "u" and known:
                continue
            if name == "u" and _strains(one.kind):
                derivative += _by_strains(one, dens, weights)
            elif back := _transposed(one, name):
                derivative += _by_strains(back, weights, dens)
            else:
                left[name] = weights
        if left:
            derivative += _differences(one, dens, left, straight)
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


def _by_strains(one: OneSum, dens: AnyArray, values: AnyArray) -> Array:
    """Return the derivative by strains of points and box, of one system after the other."""
    total = np.zeros((3, 3))
    for alone, t, s in one.by_system():
        total += sum(strains_of(alone, dens[..., s], values[..., t]))
        if alone.options.dl_mean == "flux" and alone.kind.normals:
            change = _flux(alone, dens[..., s], values[..., t])
            total += change / np.linalg.det(vectors_of(alone.options))
    return total


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

    That is times the volume, which `strains_of` strains, too.
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


def strains_of(
    one: OneSum,
    dens: AnyArray,
    values: AnyArray,
    want: str | tuple[str, ...] = "grad_u",
) -> list[Array]:
    """Return the derivatives by strains of points and box for each density, of one system.

    ``want`` are results of a sum that was placed at these points before, with "grad_u".
    """
    # By the pipeline that the derivative by targets leaves, whose sum is this one.
    kernel = one.kind.name
    density = dens[0].reshape(one.kind.density_shape(dens.shape[-1]))
    cloud = take_cloud(kernel, one.trg, one.src, one.norms, one.options, exclude=one.labels)
    placed = EwaldSum(OneDevice(), kernel, cloud, want, one_shot=True)
    placed.density(density)  # which refuses impossible ones
    with placed.access():
        placed.place()
        inside, suited = placed.validate_pending()
        placed = placed.committed(inside=inside, suited=suited)
        pipeline = cast(OneDevice, placed.pipeline)
        if pipeline.setup is None:
            return [np.zeros((3, 3)) for _ in dens]
        task, stages = placed.task, cast(Stages, pipeline.stages)
        stages.prepare_strain()
        on_grid = cloud_on_grid(task, pipeline.setup.solver_box, placed.points)
        rotation = task.order.matrix
        pairs = zip(placed.to_solver(dens), task.order.to_solver(values), strict=True)
        strains = [_strained(stages, on_grid, density, weights) for density, weights in pairs]
    placed.cache_setup()
    return [rotation.T @ strain @ rotation for strain in strains]


def _strained(stages: Stages, on_grid: Cloud, dens: AnyArray, weights: AnyArray) -> Array:
    """Return the derivative by strains for a density and values, in the pipeline's axes.

    ``on_grid`` are the points as the far field takes them.
    """
    p2p, task, count = stages.p2p, stages.setup.task, weights.shape[1]
    rows, values = (task.xp.ascontiguousarray(each, dtype=task.dtype) for each in (dens, weights))
    sizes = {name: result_rows(task.kernel, name) for name in task.want} | {"strain": 9}
    results = {n: np.empty_like(values, shape=(1, size, count)) for n, size in sizes.items()}
    p2p.apply(rows[None], p2p.buffer(p2p.rows), results, weights=values[None])
    near = to_host(results["strain"][0].sum(axis=1, dtype=np.float64)).reshape(3, 3)
    of_targets, of_sources = stages.faxen.faxen_factors if stages.faxen else (None, None)
    parts = parts_of(task.sum, rows, on_grid.arrays.get("norms"), of_sources)
    far_strain = cast(FarStrain, stages.far_strain)
    far = far_strain(on_grid.trg, values, on_grid.src, parts, of_targets and of_targets["u"])
    constant = {"u": np.zeros_like(weights)}
    if stages.gauge is not None:
        stages.gauge.add(dens, constant)
    total = float((weights * constant["u"]).sum(dtype=np.float64))
    return np.asarray(near + far - total * np.eye(3))
