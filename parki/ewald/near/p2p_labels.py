"""P2P's pairs of equal labels, of which a sum leaves out the nearest image.

The other kernels of P2P skip these pairs. This one meets them label by label, in a time that grows
with the product of a label's targets and sources: ``kernels/p2p_labels.py`` has what it adds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.cells.cell_grid import CellGrid, locate, multiplied
from parki.ewald.geometry.systems import Labels
from parki.ewald.near.near_field import NearField, parts, shifts
from parki.ewald.near.p2p_kernels import derived_sum
from parki.ewald.solver_box import SolverBox
from parki.interchange import real_name
from parki.runtime import Kernel, load
from parki.typing import AnyArray


class LabelledPairs:
    """The pairs of equal labels, for fixed points.

    Parameters
    ----------
    near : NearField
    solver_box : SolverBox
    labels : Labels
    points : tuple of 2 arrays, shape (3, N)
        Targets and sources in the user's unit, not wrapped.
    norms : array, shape (3, N), or None
        Normals over r_c, in the order given.
    digit : float
        The unit of the first parts of positions: see `parts`.
    arguments : dict
        Arguments that are those of other kernels of P2P.
    together : tuple of int
        Numbers of densities that are summed at a time, the most first.
    """

    def __init__(
        self,
        near: NearField,
        solver_box: SolverBox,
        labels: Labels,
        points: tuple[Any, Any],
        norms: AnyArray,
        digit: float,
        arguments: dict[str, Any],
        together: tuple[int, ...],
    ) -> None:
        self.near, self.together, task = near, together, near.task
        xp, constant = task.xp, task.space.adapter.constant
        self.members, _ = labels.placed(task.space)
        trg_columns, src_columns = self.members.targets, self.members.sources
        lattice = solver_box.lattice
        sides, corner = tuple(lattice.sides.tolist()), tuple(lattice.corner.tolist())
        box = CellGrid((1, 1, 1), sides, tuple(lattice.periodic), corner)
        exact, tilts = np.dtype(points[0].dtype), None
        if task.tilted:
            tilts = solver_box.constant(task.space, "tilts", lambda f: f.lattice.tilts, exact)
        clouds: dict[str, Any] = {}
        for name, cloud, columns in zip(
            ("trg", "src"), points, (trg_columns, src_columns), strict=True
        ):
            labelled = xp.take(cloud, columns, axis=1)
            wrapped, _ = locate(
                labelled,
                box,
                task.space,
                scale=solver_box.factor,
                tilts=tilts,
                executor=task.executor,
            )
            clouds[name], clouds[f"{name}_low"] = parts(wrapped, task.dtype, digit)
            if task.options.exclude_image == "given":
                inverse = solver_box.constant(
                    task.space, "inverse", lambda f: f.lattice.inverse.T, exact
                )
                moved = labelled * solver_box.factor - wrapped
                away = multiplied(moved, inverse, task.space, task.executor)
                clouds[f"{name}_periods"] = xp.rint(away).astype(task.dtype, copy=False)
        if norms is not None:
            norms = xp.take(norms, src_columns, axis=1)
        half, half_low = parts(lattice.sides / 2, task.dtype)
        kernel, radial = label_kernel(near)
        images: Any = np.maximum(np.ceil(near.cutoff / lattice.sides + 0.5) - 1, 0)
        if task.tilted:
            # Copies that may be nearest, or within the cut-off, in an order that signs reverse; and
            # the lattice vectors.
            reach = max(near.cutoff, float(np.hypot.reduce(lattice.sides * lattice.periodic)) / 2)

            def copied(solver_box: SolverBox) -> Any:
                images = solver_box.lattice.images(reach)
                vectors = np.hstack([images[:, np.lexsort(images)], solver_box.lattice.matrix.T])
                return shifts(vectors, task.dtype, digit)

            copies = solver_box.constant(task.space, ("labels", reach, digit), copied, task.dtype)
            arguments, images = arguments | {"copies": copies}, [copies.shape[1] - 3, 0, 0]
        self.arguments = arguments | {
            "order": trg_columns,
            "begins": self.members.begins,
            "ends": self.members.ends,
            **clouds,
            "norms": norms,
            "half": constant(half, task.dtype),
            "half_low": None if half_low is None else constant(half_low, task.dtype),
            "images": constant(images, np.int32),
            "side": float(labels.side),
            "radial": kernel.table(radial, task.dtype),
        }

    def add(
        self,
        dens: AnyArray,
        results: dict[str, AnyArray],
        more: dict[str, Any],
        weights: AnyArray = None,
        moved: bool = False,
    ) -> None:
        """Add what pairs of densities (k, rows, sources) make to ``results``: see `P2P.apply`.

        ``more`` are arguments of the kernel of derivatives that takes ``weights``, or of charges
        that are ``moved``.
        """
        task, done, strain = self.near.task, 0, weights is not None
        if not self.members.targets.size:
            return
        derived, arguments = task.want != ("u",) or strain or moved, self.arguments
        if strain or moved:
            arguments = arguments | more
        while done < len(dens):
            many = 1 if derived else next(n for n in self.together if n <= len(dens) - done)
            part = slice(done, done + many)
            strengths = task.xp.take(dens[part], self.members.sources, axis=2)
            flat = {name: a[part].reshape(-1, a.shape[-1]) for name, a in results.items()}
            kernel, _ = label_kernel(self.near, many, strain=strain, moved=moved)
            if strain:
                arguments["tensors"] = weights[done]
            kernel(
                self.members.targets.size,
                arguments=arguments,
                dens=strengths.reshape(-1, strengths.shape[-1]),
                pot=flat.get("u"),
                pressure=flat.get("p"),
                gradient=flat.get("grad_u"),
                pull=flat.get("strain", flat.get("grad_tensor")),
            )
            done += many


def label_kernel(
    near: NearField, many: int = 1, *, strain: bool = False, moved: bool = False
) -> tuple[Kernel, Any]:
    """Return the kernel for ``many`` densities at a time, and its table of radial functions.

    With ``strain`` targets have weights; ``moved`` is as for `slopes_kernel`.
    """
    task, kind = near.task, derived_sum(near.task, moved)
    want = task.want
    derived, values = want != ("u",) or strain or moved, "u" in want
    workunit, names = "p2p_labels", task.sum.pair.values
    constants: dict[str, Any] = {"MANY": many}
    if derived:
        workunit += "_derivatives"
        names = kind.derivative_tables(want)
        constants |= {
            **kind.p2p(derivatives=names, moved=moved),
            "PRESSURE": "p" in want,
            "GRADIENT": "grad_u" in want,
            "TENSORS": task.tensors,
            "VALUES": values,
        }
        names = kind.derivative_tables(want, values)
    else:
        constants |= task.sum.p2p()
    flags = {"TILTED": task.tilted, "STRAIN": strain}
    constants |= {name: True for name, needed in flags.items() if needed}
    radial = near.rows(names)
    kernel = load(
        "p2p_labels",
        workunit,
        task.space,
        constants,
        executor=task.executor,
        tables={"radial": radial.shape},
        REAL=real_name(task.dtype),
        DEGREE=near.degree,
        PERIODIC=task.periodicity,
        LOW=task.finer,
        GIVEN=task.options.exclude_image == "given",
    )
    return kernel, radial
