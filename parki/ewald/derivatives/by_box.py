"""The derivative of ``w.u`` by the lattice, whose vectors are the rows of A, at fixed points.

Strain points and box together, ``dx_a = x_b``: the derivative S by that, of pairs and of modes, is
a sum over both fields. A lattice that moves alone has the derivative D, with

    S_ab = sum_n D_na A_nb + sum_i x_ib dw.u/dx_ia

where the last sum is over targets and sources. So D follows from S and from the gradients by
points, wherever these are given.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.far.strain import SYMBOLS, FarStrain, parts_of
from parki.ewald.geometry.lattice import rows_of, whole_of
from parki.ewald.geometry.systems import Labels
from parki.ewald.near.strain import near_strain
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.placed_sum import PlacedSum
from parki.ewald.pipeline.setup import Setup
from parki.ewald.pipeline.stages import Stages
from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import Composite
from parki.ewald.task import Request, Task
from parki.interchange import to_host

Array = NDArray[np.float64]
# What `parki.vjp` takes as names: derivatives in the shape of ``box``, or by lattice vectors.
NAMES = ("box", "lattice")


def check_box(composite: Composite, systems: Any, by: str = "the box") -> None:
    """Refuse derivatives by the box, or by what takes them, that parki does not have."""
    what = "systems" if systems is not None else ""
    for each in composite.addends:
        kind = SUMS[each.kernel]
        sinks = kind.symbol.friction and kind.normals  # with a multiplier of their own in planes
        if kind.symbol.structure not in SYMBOLS or sinks:
            what = each.kernel
        elif each.want != ("u",):
            what = f"{composite.name}, which takes {', '.join(each.want)} of {each.kernel}"
    if what:
        raise ParkiValueError(
            f"a derivative by {by} was asked for, which parki does not have for {what}; take the "
            f"difference of two sums in which {by} differs slightly, with a tolerance well below it"
        )


def by_lattice(
    given: tuple[Any, ...],
    dens: Any,
    values: Any,
    moves: list[tuple[Any, Any]],
    labels: Labels | None = None,
) -> Array:
    """Return the derivative by lattice vectors, shape (3, 3), a row for each.

    Parameters
    ----------
    given
        The first five arguments of `parki.Plan`.
    dens, values : array, shapes (k, rows, Ns) and (k, rows, Nt)
    moves : list of tuple of 2 arrays, shape (3, N)
        Points as they were given, and the derivatives by them.
    labels : Labels, optional
        Labels of the points, where pairs are left out.
    """
    options = given[4]
    whole, derivative = vectors_of(options), np.zeros((3, 3))
    for points, slopes in moves:
        derivative -= to_host((slopes[:, None].astype(np.float64) * points).sum(axis=-1))
    if all(points.size for points, _ in moves) and any(options.periodic):
        derivative += sum(_strain(given, dens, values, labels))
        if options.dl_mean == "flux" and SUMS[given[0]].normals:
            derivative += _flux(given, dens, values) / np.linalg.det(whole)
    derivative *= np.outer(options.periodic, options.periodic)
    return np.asarray(np.linalg.inv(whole).T @ derivative.T)


def _flux(given: tuple[Any, ...], dens: Any, values: Any) -> Array:
    """Return the change of the mean without flux by a strain of the points alone, as given.

    That is times the volume, which `_strain` strains, too.
    """
    trg, src, norms = (np.asarray(to_host(each), dtype=np.float64) for each in given[1:4])
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


def _strain(given: tuple[Any, ...], dens: Any, values: Any, labels: Labels | None) -> list[Array]:
    """Return the derivatives by strains of points and box for each density."""
    # By the pipeline that the derivative by targets leaves, whose sum is this one.
    density = dens[0].reshape(SUMS[given[0]].density_shape(dens.shape[-1]))
    placed = PlacedSum(OneDevice(), given, "grad_u", None, Request(exclude=labels))
    placed.density(density)  # which refuses impossible ones
    with placed.access():
        placed.place(once=True)
        task, order, pipeline = placed.task, placed.order, cast(OneDevice, placed.pipeline)
        fields = _Fields.of(task, pipeline, placed.points.arrays)
        pairs = zip(placed.solvers(dens), order.rows(values), strict=True)
        strains = [fields.strained(*pair) for pair in pairs]
    placed.leave(once=True)
    rotation = np.eye(3)[order.axes]
    if order.rotation is not None:
        rotation = order.rotation @ rotation
    return [rotation.T @ each @ rotation for each in strains]


class _Fields(NamedTuple):
    """Near and far field of a sum with its gradient, and what the far field takes: wrapped points.

    Normals are in solver units.
    """

    setup: Setup
    stages: Stages
    far: FarStrain
    trg: Any
    src: Any
    norms: Any

    @classmethod
    def of(cls, task: Task, pipeline: OneDevice, arrays: dict[str, Any]) -> _Fields:
        """Return the fields of a pipeline, whose points are given."""
        setup, stages = cast(Setup, pipeline.setup), cast(Stages, pipeline.stages)
        stages.place()
        trg, src = (setup.frame.wrap(task, arrays[name]) for name in ("trg", "src"))
        norms = arrays.get("norms")
        if norms is not None:
            norms = (norms * norms.dtype.type(setup.frame.factor)).astype(task.dtype)
        return cls(setup, stages, FarStrain(stages.fgc, setup.split), trg, src, norms)

    def strained(self, dens: Any, weights: Any) -> Array:
        """Return the derivative by strains for a density and values, in the pipeline's axes."""
        setup, stages = self.setup, self.stages
        task, real, (of_targets, of_sources) = setup.task, setup.task.dtype, stages.marks.lifts
        near = near_strain(stages.p2p, task, setup.pair, setup.frame.unit, dens, weights)
        parts = parts_of(task.sum, dens.astype(real, copy=False), self.norms, of_sources)
        own = of_targets and of_targets["u"]
        far = self.far(self.trg, weights.astype(real, copy=False), self.src, parts, own)
        constant = {"u": np.zeros_like(weights)}
        stages.gauge.add(dens, constant)
        total = float((weights * constant["u"]).sum(dtype=np.float64))
        return np.asarray(near + far - total * np.eye(3))
