"""The derivative of ``w.u`` by the lattice, whose vectors are the rows of A, at fixed points.

Strain points and box together, ``dx_a = x_b``: the derivative S by that, of pairs and of modes, is
a sum over both fields. A lattice that moves alone has the derivative D, with

    S_ab = sum_n D_na A_nb + sum_i x_ib dw.u/dx_ia

where the last sum is over targets and sources. So D follows from S and from the gradients by
points, wherever these are given. What has no such sum takes differences along strains. They move
all pairs along, so that sums change slowly however close some points are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add, sub
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.far.pairings import SYMBOLS, parts_of
from parki.ewald.far.strain import FarStrain, of_modes_alone
from parki.ewald.geometry.own_boxes import OwnBox
from parki.ewald.geometry.systems import Labels, LabelsLike, Systems
from parki.ewald.lattice import rows_of, whole_of
from parki.ewald.near.p2p import P2P
from parki.ewald.options import SMALLEST_TOLERANCE, EwaldOptions
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.ewald.pipeline.one_device import SERIAL, OneDevice
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.pipeline.setup import Setup
from parki.ewald.pipeline.stages import Stages
from parki.ewald.points import result_rows, take_cloud
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import velocity
from parki.ewald.task import Task
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


def strained(options: EwaldOptions, strain: Array) -> Iterator[tuple[float, EwaldOptions, Array]]:
    """Yield the weights, the options and the matrices of points of a difference along a strain.

    Parameters
    ----------
    options : EwaldOptions
    strain : array, shape (3, 3)
        Of points and box, ``dx_a = e_ab x_b``; none along free axes.
    """
    options, size = finer(options), float(np.linalg.norm(strain))
    whole, edges = vectors_of(options), cast(Any, options.box)
    for number, weight in WEIGHTS.items() if size else ((0, 0.0),):
        for sign in (1, -1):
            moved = np.eye(3) + sign * number * STEP / (size or 1.0) * strain
            rows = whole @ moved.T
            straight = options.cell is None and not (rows - np.diag(rows.diagonal())).any()
            box = (rows.diagonal() if straight else rows).tolist()
            box = [None if old is None else new for old, new in zip(edges, box, strict=True)]
            yield sign * weight * size / STEP, replace(options, box=box), moved


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
    kernel: str,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray,
    options: EwaldOptions,
    *,
    values: dict[str, AnyArray],
    moves: list[tuple[AnyArray, AnyArray]],
    strains: Sequence[AnyArray] = (),
    labels: Labels | None = None,
    straight: bool = False,
    ranks: Ranks = SERIAL,
    systems: Systems | None = None,
) -> Array:
    """Return the derivative by lattice vectors, shape (3, 3), a row for each.

    Where systems have boxes of their own, it is one for each, shape (S, 3, 3).

    Each rank takes its own targets, whose derivatives add up, and the sources of all ranks.

    Parameters
    ----------
    kernel, trg, src, norms, options
        As for `parki.Plan`.
    dens : array, shape (k, rows, Ns)
    values : dict of arrays, shape (k, rows, Nt)
        By result.
    moves : list of tuple of 2 arrays, shape (3, N)
        SurveyedCloud as they were given, and the derivatives by them.
    strains : sequence of arrays, shape (9, systems)
        The derivative of ``values["u"]`` times "u" by strains, if it is known.
    labels : Labels, optional
        Labels of the points, where pairs are left out.
    straight : bool
        Whether the diagonal is enough.
    ranks : Ranks
        What all ranks share.
    systems : Systems, optional
        Derivatives of systems in one box add up.
    """
    if systems is not None and systems.boxes is not None and {*values} == {"u"} and strains:
        sums = [systems.sums((g[:, None] * x).reshape(9, -1).astype(np.float64)) for x, g in moves]
        of_each = to_host(reduce(sub, sums, reduce(add, strains))).T.reshape(-1, 3, 3)
        of_each = of_each * np.outer(options.periodic, options.periodic)
        inverse = np.linalg.inv(systems.boxes).swapaxes(1, 2)
        return np.asarray(inverse @ of_each.swapaxes(1, 2))
    if systems is not None and systems.boxes is not None:
        ends = zip(pairwise(systems.targets), pairwise(systems.sources), systems.boxes, strict=True)
        return np.array(
            [
                by_lattice(
                    kernel,
                    trg[:, t],
                    trg[:, t] if trg is src else src[:, s],
                    dens[..., s],
                    norms if norms is None else norms[:, s],
                    options.within(tuple(map(tuple, box.tolist()))),
                    values={name: rows[..., t] for name, rows in values.items()},
                    moves=[(x[:, n], g[:, n]) for (x, g), n in zip(moves, (t, s), strict=True)],
                )
                for t, s, box in ((slice(*a), slice(*b), box) for a, b, box in ends)
            ]
        )
    whole = vectors_of(options)
    moments = [
        (slopes[:, None].astype(np.float64) * points).sum(axis=-1) for points, slopes in moves
    ]
    known = [each.sum(axis=1).reshape(3, 3) for each in strains]
    derivative = to_host(reduce(sub, moments, reduce(add, known, np.zeros_like(moments[0]))))
    if norms is not None and not isinstance(norms, tuple):
        norms = ranks.all_columns(norms)
    elif norms is not None:  # marks
        norms = norms[0], ranks.all_columns(norms[1])
    src, dens = ranks.all_columns(src), ranks.all_columns(dens)
    if trg.size and dens.size and any(options.periodic):
        left = dict[str, AnyArray]()
        for name, weights in values.items():
            if name == "u" and known:
                continue
            if name == "u" and systems is None and _strains(kernel):
                derivative += sum(
                    strains_of(
                        kernel,
                        trg,
                        src,
                        dens,
                        norms,
                        options,
                        values=weights,
                        labels=labels,
                    )
                )
                if options.dl_mean == "flux" and SUMS[kernel].normals:
                    change = _flux(trg, src, dens, norms, values=weights)
                    derivative += change / np.linalg.det(whole)
            elif systems is None and (back := _transposed_kernel(kernel, name)):
                swapped = labels and labels.swapped(None)
                derivative += sum(
                    strains_of(back, src, trg, weights, None, options, values=dens, labels=swapped)
                )
            else:
                left[name] = weights
        if left:
            derivative += _differences(
                kernel,
                trg,
                src,
                dens,
                norms,
                options,
                values=left,
                labels=labels,
                straight=straight,
                systems=systems,
            )
    derivative = ranks.sum(derivative)
    derivative *= np.outer(options.periodic, options.periodic)
    return np.asarray(np.linalg.inv(whole).T @ derivative.T)


def _strains(kernel: str) -> bool:
    """Return whether the product of weights and "u" has its derivative by strains as a sum."""
    kind = SUMS[kernel]
    sinks = kind.symbol.alpha and kind.normals  # with a multiplier of their own in planes
    return not sinks and kind.symbol.structure in SYMBOLS


def _transposed_kernel(kernel: str, name: str) -> str | None:
    """Return a kernel without normals whose "u" is the transpose of a result, if it strains."""
    record = SUMS[kernel].adjoints.get(name)
    if record is None or record.want != ("u",) or record.results is not velocity:
        return None
    plain = record.density is None and record.normals is None and not record.others
    return record.kernel if plain and _strains(record.kernel) else None


def _differences(
    kernel: str,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray,
    options: EwaldOptions,
    *,
    values: dict[str, AnyArray],
    labels: Labels | None,
    straight: bool,
    systems: Systems | None,
) -> Array:
    """Return the derivative by strains of points and box, by differences along each."""
    same, marked = src is trg, isinstance(norms, tuple)
    trg, src, dens = (a.astype(np.float64) for a in (trg, src, dens))
    if norms is not None:
        norms = tuple(m.astype(np.float64) for m in norms) if marked else norms.astype(np.float64)
    density = dens.reshape((len(dens), *SUMS[kernel].density_shape(dens.shape[-1])))
    change = np.zeros((3, 3))
    request = np.eye(3) if straight else np.ones((3, 3))
    for place in np.argwhere(request * np.outer(options.periodic, options.periodic)):
        strain = np.zeros((3, 3))
        strain[tuple(place)] = 1
        for weight, there, moved in strained(options, strain):
            matrix = np.asarray(moved, like=trg)
            points = matrix @ trg
            results = sum_once(
                kernel,
                points,
                points if same else matrix @ src,
                density,
                norms,
                there,
                want=(*values,),
                systems=systems,
                exclude=labels,
            )
            for w, result in zip(values.values(), results, strict=True):
                change[tuple(place)] += weight * float((w * result.reshape(w.shape)).sum())
    return change


def _flux(
    trg: AnyArray, src: AnyArray, dens: AnyArray, norms: AnyArray, *, values: AnyArray
) -> Array:
    """Return the change of the mean without flux by a strain of the points alone, as given.

    That is times the volume, which `strains_of` strains, too.
    """
    trg, src, norms = (np.asarray(to_host(array), dtype=np.float64) for array in (trg, src, norms))
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
    kernel: str,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray,
    options: EwaldOptions,
    *,
    values: AnyArray,
    labels: LabelsLike,
    want: str | tuple[str, ...] = "grad_u",
) -> list[Array]:
    """Return the derivatives by strains of points and box for each density.

    ``want`` are results of a sum that was placed at these points before, with "grad_u".
    """
    # By the pipeline that the derivative by targets leaves, whose sum is this one.
    density = dens[0].reshape(SUMS[kernel].density_shape(dens.shape[-1]))
    cloud = take_cloud(kernel, trg, src, norms, options, exclude=labels)
    placed = EwaldSum(OneDevice(), kernel, cloud, want, one_shot=True)
    placed.density(density)  # which refuses impossible ones
    with placed.access():
        placed.place()
        inside, suited = placed.validate_pending()
        placed = placed.committed(inside=inside, suited=suited)
        if placed.pipeline.setup is None:
            return [np.zeros((3, 3)) for _ in dens]
        task, pipeline = placed.task, cast(OneDevice, placed.pipeline)
        fields = _Fields.of(task, pipeline, placed.points.arrays)
        rotation = task.order.matrix
        pairs = zip(placed.solvers(dens), task.order.rows(values), strict=True)
        strains = [fields.strained(density, weights) for density, weights in pairs]
    placed.cache_setup()
    return [rotation.T @ strain @ rotation for strain in strains]


class _Fields(NamedTuple):
    """Near and far field of a sum with its gradient, and what the far field takes: wrapped points.

    Normals are in solver units.
    """

    setup: Setup
    stages: Stages
    far: FarStrain
    trg: AnyArray
    src: AnyArray
    norms: AnyArray

    @classmethod
    def of(cls, task: Task, pipeline: OneDevice, arrays: dict[str, AnyArray]) -> _Fields:
        """Return the fields of a pipeline, whose points are given."""
        setup, stages = cast(Setup, pipeline.setup), cast(Stages, pipeline.stages)
        stages.place()
        trg, src = (setup.solver_box.wrap(task, arrays[name]) for name in ("trg", "src"))
        norms = arrays.get("norms")
        if norms is not None:
            norms = (norms * norms.dtype.type(setup.solver_box.factor)).astype(task.dtype)
        return cls(setup, stages, FarStrain(stages.fgc, setup.split), trg, src, norms)

    def strained(self, dens: AnyArray, weights: AnyArray) -> Array:
        """Return the derivative by strains for a density and values, in the pipeline's axes."""
        setup, stages = self.setup, self.stages
        task, real = setup.task, setup.task.dtype
        of_targets, of_sources = stages.faxen.faxen_factors if stages.faxen else (None, None)
        rows, values = (task.xp.ascontiguousarray(each, dtype=real) for each in (dens, weights))
        near = self._near(stages.p2p, rows, values)
        parts = parts_of(task.sum, rows, self.norms, of_sources)
        of_u = of_targets and of_targets["u"]
        far = self.far(self.trg, values, self.src, parts, of_u)
        constant = {"u": np.zeros_like(weights)}
        if stages.gauge is not None:
            stages.gauge.add(dens, constant)
        total = float((weights * constant["u"]).sum(dtype=np.float64))
        return np.asarray(near + far - total * np.eye(3))

    def _near(self, p2p: P2P, dens: AnyArray, weights: AnyArray) -> Array:
        """Return the near field's part."""
        task, count = p2p.task, weights.shape[1]
        rows = {name: result_rows(task.kernel, name) for name in task.want} | {"strain": 9}
        results = {n: np.empty_like(weights, shape=(1, each, count)) for n, each in rows.items()}
        p2p.apply(dens[None], p2p.buffer(p2p.rows), results, weights=weights[None])
        sums = to_host(results["strain"][0].sum(axis=1, dtype=np.float64))
        return np.asarray(sums.reshape(3, 3))
