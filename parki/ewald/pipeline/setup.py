"""`Setup`: what box and parameters decide, made once and kept for all points that suit them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.cells.runs import parts_kernels
from parki.cells.sorted_points import SortedPoints
from parki.ewald.choice.clustering import PairDensity, sample
from parki.ewald.choice.cost import Machine
from parki.ewald.choice.machines import machine
from parki.ewald.choice.method import MethodParameters
from parki.ewald.choice.parameters import check_cutoff, select
from parki.ewald.choice.problem import Problem
from parki.ewald.choice.reuse import suit, warn_of_far_points
from parki.ewald.far import multiplier
from parki.ewald.far.fgc import FGC
from parki.ewald.far.g2p import G2P, in_order
from parki.ewald.far.gauge import Constants, flux_kernel
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.far.padding import Padding, pad
from parki.ewald.far.spreading import spreading_kernels
from parki.ewald.lattice import Lattice
from parki.ewald.near.near_field import NearField
from parki.ewald.near.p2p_kernels import near_kernels
from parki.ewald.near.p2p_labels import label_kernel
from parki.ewald.near.p2p_lists import most_pairs
from parki.ewald.near.radial import choose_evaluator
from parki.ewald.near.sizes import choose_launch, near_tile
from parki.ewald.options.variants import CELL_METHODS, LITERATURE
from parki.ewald.pipeline.invalid_values import counting_kernel
from parki.ewald.points import result_rows
from parki.ewald.points.cloud import Cloud, SurveyedCloud
from parki.ewald.solver_box import LatticeNumbers, SolverBox
from parki.ewald.split.core import Core
from parki.ewald.split.protocol import Split
from parki.ewald.split.window import KaiserBessel
from parki.ewald.sums import SUMS, in_unit
from parki.ewald.task import Task
from parki.interchange import real_name
from parki.runtime import Kernel
from parki.typing import AnyArray


@dataclass(frozen=True)
class Setup:
    """A task in a box, with its parameters.

    Attributes
    ----------
    task : Task
    solver_box : SolverBox
    parameters : MethodParameters
        With the problem that they were chosen for.
    split : Split
        Solver units, as the next.
    near : NearField
    mesh : EwaldMesh
        The grid of the box.
    """

    task: Task
    solver_box: SolverBox
    parameters: MethodParameters
    split: Split
    near: NearField
    mesh: EwaldMesh

    @classmethod
    def of(cls, task: Task, solver_box: SolverBox, chosen: MethodParameters) -> Setup:
        """Make what the parameters decide."""
        problem = chosen.problem
        if solver_box.numbers is not None:  # other parameters take others
            solver_box = replace(solver_box, numbers=LatticeNumbers(task.space))
        lattice = solver_box.lattice
        scale = lattice.length  # from the parameters' unit to the solver's
        cutoff = chosen.cutoff * scale
        steps = chosen.steps[lattice.places(problem.lattice)] * scale
        split = chosen.split.scaled(scale)
        if task.options.expert.radial != "polynomial":
            split = split.endless  # whose formulas the literature evaluates
        kind = SUMS[in_unit(task.sum.name, solver_box.unit)]
        padding = pad(
            lattice.periodicity,
            lattice.edges,
            steps,
            points=chosen.points,
            cutoff=cutoff,
            band=split.band,
            tolerance=problem.tolerance,
            lengths=problem.machine.lengths,
        )
        core = chosen.core and chosen.core.scaled(scale)
        radial = core if isinstance(core, Core) and core.everywhere else split
        near = NearField(
            task=task,
            cutoff=chosen.near * scale,
            radial=radial.tables(cutoff, chosen.degree),
            method=chosen.p2p,
            evaluator=choose_evaluator(
                task.options.expert.radial, task.sum.name, split, cutoff, chosen.degree
            ),
            read=chosen.read,
            core=core,
            lengths=kind.pair.numbers(cutoff),
            launch=choose_launch(chosen.p2p, task.space),
        )
        near.check_held()
        mesh = _mesh(task, chosen, solver_box, steps, padding)
        return cls(task, solver_box, chosen, split, near, mesh)

    @property
    def grid(self) -> tuple[int, ...]:
        """Grid points along each of the user's axes."""
        return tuple(self.solver_box.lattice.to_user(np.array(self.mesh.padding.grid)).tolist())

    def within(self, solver_box: SolverBox) -> Setup | None:
        """Return the set-up for a box of perhaps other tilts; None if the grid does not fit."""
        old = self.solver_box
        if (solver_box.lattice, solver_box.unit) == (old.lattice, old.unit):
            return self
        if not old.takes(solver_box):
            return None
        return replace(self, solver_box=solver_box, mesh=self.mesh.within(solver_box))

    def measured(self, values: AnyArray) -> Any:
        """Return densities (..., rows, sources) whose rows' lengths are in the solver's unit."""
        lengths = self.task.sum.lengths
        if lengths is None:
            return values
        constant = self.task.space.adapter.constant
        return values * constant(self.solver_box.factor**lengths, values.dtype)

    def same_choice(self, other: Setup | None) -> bool:
        """Return whether another set-up is the same, except the tilts of the box."""
        return other is not None and self.parameters is other.parameters and self.near is other.near

    def same_memory(self, other: Setup) -> bool:
        """Return whether another set-up is the same, but of other tilts in its memory."""
        numbers = self.solver_box.numbers
        return numbers is not None and numbers is other.solver_box.numbers

    def transposed(self, task: Task) -> Setup:
        """Return the set-up of the sum from targets to sources, by the same parameters.

        Variants of the literature, which do not have every sum, give way to the usual ones.
        """
        chosen, old = self.parameters, self.parameters.problem
        p2p, p2g, _ = old.machine.usual
        p2p = p2p if chosen.p2p in CELL_METHODS else chosen.p2p
        p2g = p2g if chosen.p2g in LITERATURE else chosen.p2g
        problem = replace(
            old,
            kernel=in_unit(task.kernel, self.solver_box.length),
            want=task.want,
            targets=old.sources,
            sources=old.targets,
            p2p=p2p,
            p2g=p2g,
        )
        return Setup.of(task, self.solver_box, replace(chosen, problem=problem))

    def suits(self, density: PairDensity, points: SurveyedCloud) -> bool:
        """Return whether the parameters suit other points than those they were chosen for."""
        tolerance = points.tolerance * self.parameters.problem.lattice.strictness
        targets, sources, systems = points.counts
        return suit(self.parameters, density, tolerance, targets, sources, systems=systems)

    def slab_mesh(self, first: int, last: int) -> EwaldMesh:
        """Return the grid of a slab, cells ``first`` to ``last - 1``, with what windows reach."""
        mesh, n = self.mesh, max(last - first, 1)  # a slab without cells has a grid, of no use
        padding = replace(
            mesh.padding,
            cells=(n, *mesh.padding.cells[1:]),
            grid=(n + self.parameters.points - 1, *mesh.padding.grid[1:]),
        )
        solver_box = replace(
            self.solver_box, lattice=self.solver_box.lattice.cut(n * float(mesh.steps[0]))
        )
        return _mesh(self.task, self.parameters, solver_box, mesh.steps, padding)

    def kernels(self, targets: int) -> list[Kernel]:
        """Return all kernels of a plan with this number of targets in its near field."""
        task, chosen, mesh = self.task, self.parameters, self.mesh
        space, dtype, executor, rows = task.space, task.dtype, task.executor, task.sum.rows
        kernels = [*SortedPoints.kernels(space, real_name(dtype), executor)]
        kernels += [
            SortedPoints.gather_kernel(space, dtype, n, executor) for n in sorted({3, rows})
        ]
        kernels += [*parts_kernels(space, executor), SortedPoints.pairs_kernel(space, executor)]
        tile = near_tile(space, chosen.p2p, targets, chosen.read, dtype)
        kernels += near_kernels(self.near, tile).values()
        if task.sum.overlap_correction:
            close = self.near._replace(task=task.of_overlap)
            kernels += near_kernels(close, tile).values()
        if task.labelled:
            kernels.append(label_kernel(self.near)[0])
        kernels += spreading_kernels(mesh)
        kernels.append(FGC.kernel(task))
        kernels += G2P.kernels(mesh)
        if in_order(space, targets):
            sizes = {result_rows(task.kernel, name) for name in task.want}
            kernels += [SortedPoints.add_kernel(space, dtype, n, executor) for n in sorted(sizes)]
        kernels += multiplier.kernels(task)
        if task.flux:
            kernels.append(flux_kernel(task, dtype))
        if space.adapter.records():
            kernels.append(counting_kernel(space, task.array_dtype))
        if space.on_device and task.flux:
            kernels.append(flux_kernel(task, task.array_dtype, "measure_dipoles"))
        return kernels

    def gauge(
        self,
        cloud: Cloud,
        *,
        widths: tuple[Any, Any] | None = None,
        together: Callable[[Any], Any] | None = None,
    ) -> Constants | None:
        """Return the constants of the sum of points as the user has them, if there are any.

        Squared widths of blobs are in solver units.
        """
        if not Constants.needed(self.mesh):
            return None
        core, background = self.near.core, self.split.background
        if isinstance(core, Core) and not core.widest:
            background -= core.split.background
        return Constants(
            self.mesh,
            self.split,
            background,
            cloud.arrays,
            widths if self.task.sum.pair.blob else None,
            together=together,
            systems=cloud.systems,
        )


def cloud_on_grid(task: Task, solver_box: SolverBox, cloud: SurveyedCloud) -> SurveyedCloud:
    """Return points wrapped, and their normals, in solver units, as the far field takes them."""
    arrays, systems, constant = cloud.arrays, cloud.systems, task.space.adapter.constant
    begins: list[Any] = [None, None]
    if systems is not None and task.in_boxes:
        begins = [constant(offsets, np.int32) for offsets in (systems.targets, systems.sources)]
    on_grid = {"trg": solver_box.wrap(task, cloud.trg, begins[0])}
    if not cloud.same:
        on_grid["src"] = solver_box.wrap(task, cloud.src, begins[1])
    if "norms" in arrays:
        norms = arrays["norms"] * task.dtype.type(solver_box.factor)
        on_grid["norms"] = norms.astype(task.dtype, copy=False)
    if "tensors" in arrays:
        on_grid["tensors"] = arrays["tensors"].astype(task.dtype, copy=False)
    return cloud.within(on_grid)


def choose(
    task: Task,
    points: SurveyedCloud,
    solver_box: SolverBox,
    density: PairDensity,
    clouds: Iterable[Any],
    *,
    one_shot: bool,
    ranks: int = 1,
) -> MethodParameters:
    """Choose the parameters for the points of all ranks.

    Parameters
    ----------
    clouds : iterable of array, shape (3, N)
        Some of the points, wrapped, in solver units.
    one_shot : bool
        Whether the plan is made for a single density: then no lists of pairs are kept.
    """
    options, counts = task.options, points.counts
    most_kept = 0.0
    if not one_shot and not options.deterministic:
        most_kept = most_pairs(task.space, counts[2] * counts[0], ranks)
    best = machine(task.space, task.dtype, fixed=options.deterministic)
    box = replace(points.lattice, deforms=solver_box.lattice.deforms)
    if box.enclosed is not None:  # perhaps by what enclosed others before
        box = solver_box.lattice.over(1 / solver_box.unit)
    problem = pose(task, box, solver_box.length, counts, points.tolerance, density, best, most_kept)
    lattice = problem.lattice
    chosen = select(problem)
    if points.systems:
        return chosen
    order = lattice.places(solver_box.lattice)
    warn_of_far_points(
        chosen,
        (solver_box.unit * sample(cloud)[order] for cloud in clouds),
        points.lattice,
        [n for n, axis in enumerate(lattice.axes) if options.box[axis] is None],
        ranks,
    )
    return chosen


def pose(
    task: Task,
    box: Lattice,
    length: float,
    counts: tuple[int, int, int],
    tolerance: float,
    density: PairDensity,
    best: Machine,
    most_kept: float,
) -> Problem:
    """Return the problem for which parameters are chosen.

    Parameters
    ----------
    box : Lattice
        In the user's unit, as the next.
    length : float
        Cube root of the box's volume.
    counts : tuple of 3 ints
        Targets and sources of a system, and the number of systems.
    tolerance : float
        Of random densities.
    best : Machine
    most_kept : float
        Most pairs for which lists are kept.
    """
    options, (targets, sources, systems) = task.options, counts
    expert = options.expert
    cutoff = None
    if options.cutoff is not None:
        cutoff = options.cutoff / length
    elif expert.sources_per_cell is not None:
        cutoff = (expert.sources_per_cell / sources) ** (1 / 3)
    methods = (expert.p2p_method, expert.p2g_method, expert.g2p_method)
    p2p, p2g, g2p = (
        usual if method == "auto" else method
        for method, usual in zip(methods, best.usual, strict=True)
    )
    if systems > 1 and g2p == "target":
        g2p = "tile"  # which knows of systems
    problem = Problem(
        kernel=in_unit(task.kernel, length),
        want=task.want,
        split="prolate" if expert.split == "auto" else expert.split,
        lattice=box.over(length).widest,
        tolerance=tolerance * box.strictness,
        density=density,
        targets=targets,
        sources=sources,
        machine=best,
        p2p=p2p,
        p2g=p2g,
        g2p=g2p,
        windows=options.windows(task.dtype),
        cutoff=cutoff,
        kept=most_kept,
        systems=systems,
    )
    if cutoff is not None:
        name: str = "sources_per_cell" if options.cutoff is None else "cutoff"
        cutoff_given = options.cutoff or expert.sources_per_cell or 0.0
        check_cutoff(problem, name, cutoff_given, length, task.dtype == np.float32)
    return problem


def _mesh(
    task: Task,
    chosen: MethodParameters,
    solver_box: SolverBox,
    steps: NDArray[np.float64],
    padding: Padding,
) -> EwaldMesh:
    """Return a grid with the window that was chosen."""
    window = KaiserBessel(chosen.points, chosen.beta)
    return EwaldMesh(task, solver_box, steps, padding, window, chosen.p2g, chosen.g2p)
