"""The sums of an estimate: their parameters and costs on a machine, by a sample of points."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parki.errors import ParkiValueError
from parki.ewald.choice import machines
from parki.ewald.choice.clustering import SAMPLE, pair_density
from parki.ewald.choice.cost import Machine
from parki.ewald.choice.method import MethodParameters
from parki.ewald.choice.parameters import select
from parki.ewald.derivatives.between_walls import correction_of
from parki.ewald.lattice import Lattice
from parki.ewald.near.p2p_lists import PAIRS, most_pairs
from parki.ewald.options import EwaldOptions
from parki.ewald.options.mirrored import options_of_sums
from parki.ewald.pipeline.setup import pose
from parki.ewald.points.extent import resolve
from parki.ewald.points.request import SumRequest
from parki.ewald.solver_box import SolverBox
from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import SharedAddend, joined, together
from parki.ewald.task import Task
from parki.interchange import shown, vector_row
from parki.runtime import ExecutionSpace, get_execution_space
from parki.runtime.spaces import free_memory
from parki.settings import thread_count

NAMED = {"h200": "h200.json", "avx512": "avx512.json"}  # machines whose numbers come with parki


class PredictedSum(NamedTuple):
    """One sum: its name, results, options, copies of the sources, and densities at once."""

    kernel: str
    want: Any
    options: EwaldOptions
    shared: SharedAddend | None = None
    scale: tuple[float, int] | None = None
    gap: float | None = None  # of two walls
    request: SumRequest | None = None


class NamedMachine(NamedTuple):
    """Where it would run: the numbers of a machine by precision, and the most pairs of lists."""

    space: ExecutionSpace
    content: dict[str, Any] | None = None

    def machine(self, task: Task) -> Machine:
        """Return the numbers by which a plan would choose there."""
        fixed = task.options.deterministic
        if self.content is None:
            return machines.machine(self.space, task.dtype, fixed=fixed)
        precision, device = np.dtype(task.dtype).name, self.space.on_device
        threads = 1 if device else self.content.get("threads", thread_count())
        lanes = 1 if device else vector_row(1, task.dtype)
        return machines.of_file(self.content, precision, lanes, threads)

    def most_pairs(self, targets: int) -> float:
        """Return the most pairs of lists that a plan keeps."""
        if self.content is None or not self.space.on_device:
            return most_pairs(self.space, targets)
        return float(PAIRS * targets)

    @property
    def free(self) -> float:
        """Free bytes, where that is known."""
        return math.inf if self.content else free_memory(self.space)


def machine_of(machine: str | Path | None, options: EwaldOptions) -> NamedMachine:
    """Return where it would run."""
    if machine is None:
        return NamedMachine(get_execution_space(options.execution_space))
    if str(machine) in NAMED:
        content = machines.shipped(NAMED[str(machine)])
    elif Path(machine).is_file():
        content = machines.of_path(Path(machine))
    else:
        raise ParkiValueError(
            f"machine is {shown(machine)}; expected {' or '.join(NAMED)}, or a file that "
            "'parki tune' wrote: 'parki cache list' shows where"
        )
    return NamedMachine(ExecutionSpace("Cuda" if content["device"] else "OpenMP"), content)


def sums_of(
    kernel: str, want: str | tuple[str, ...], options: EwaldOptions
) -> Iterator[PredictedSum]:
    """Yield the sums that a plan would have as members."""
    request = SumRequest.of(kernel, want, options)
    if request.composite is None:
        yield PredictedSum(request.name, request.want, options)
        return
    scales = {name: (size, power) for name, size, power in request.composite.scales}
    for one in together(joined(request.composite.addends)):
        yield PredictedSum(
            one.kernel,
            one.want,
            options_of_sums(options),
            shared=one,
            scale=scales.get(one.kernel),
            gap=options.gap,
            request=request,
        )


def cost_of_correction(
    single: PredictedSum,
    counts: tuple[int, int],
    first: MethodParameters,
    dtype: np.dtype[Any],
) -> tuple[dict[str, float], float, str]:
    """Return the cost of the correction: seconds by stage, bytes, and a line on its modes.

    The first sum, of three copies of the sources, takes as many times longer or shorter as it has
    more or less to do. Plain sums of few modes take next to nothing.
    """
    request: Any = single.request
    rest = correction_of(
        request.near,
        single.options,
        sources=counts[1],
        components=math.prod(request.density),
        points=max(counts),
        dtype=dtype,
        space=get_execution_space("Serial"),
    )
    most = max(counts)
    size, words = rest.flow.size(most), f"correction: {rest.flow.modes.total} modes"
    if size is None:
        return {}, rest.flow.bytes(most), words
    window = (size.points / first.points) ** 3
    more = {
        "P2G": window * rest.passes[0] / 3,
        "G2P": window * rest.passes[1],
        "FGC": math.prod(size.shape) / math.prod(first.padding.grid) * sum(rest.passes) / 2,
    }
    seconds = {stage: times * first.seconds[stage] for stage, times in more.items()}
    words += f", grid {' x '.join(map(str, size.shape))}, window of {size.points} points"
    return seconds, rest.flow.bytes(most), words


def parameters_of(
    single: PredictedSum,
    counts: tuple[int, int, int],
    *,
    dtype: DTypeLike,
    machine: NamedMachine,
    first: float,
    same: bool,
) -> tuple[MethodParameters, Task, float]:
    """Return the parameters of a sum, its task, and the box's length.

    ``first`` is the length of the box of the first sum, NaN of that itself.
    """
    all_targets, all_sources, systems = counts
    options, targets, of_system = (
        single.options,
        -(-all_targets // systems),
        -(-all_sources // systems),
    )
    lattice, sampled = resolve(options, np.empty((0, 3))), min(of_system, SAMPLE)
    trg, src = _sample(single, lattice, targets=min(targets, SAMPLE), sources=sampled, same=same)
    sources, same = round(of_system * src.shape[1] / sampled), same and src is trg
    ends = np.array([src.min(axis=1), src.max(axis=1)])
    if single.scale is not None and first == first:  # as `Placement` does
        size, power = single.scale
        options = options.looser((first / size) ** power)
    want = (single.want,) if isinstance(single.want, str) else tuple(single.want)
    task = Task(single.kernel, machine.space, options.arithmetic(dtype), options, want)
    solver_box = SolverBox.of(task, lattice)
    edges = solver_box.lattice.edges
    trg, src = (_wrapped(cloud, lattice) * edges[:, None] for cloud in (trg, src))
    density = pair_density(src if same else trg, src, edges, apart=options.images_below(ends))
    if same:
        density = replace(density, self_pairs=1 / sources)
    tolerance = options.random_tolerance(sources, task.sum.source_components, task.dtype)
    problem = pose(
        task,
        replace(lattice, deforms=solver_box.lattice.deforms),
        length=solver_box.length,
        counts=(targets, sources, systems),
        tolerance=tolerance,
        density=density,
        best=machine.machine(task),
        most_kept=0.0 if options.deterministic else machine.most_pairs(systems * targets),
    )
    return select(replace(problem, same=same)), task, solver_box.length


def _sample(
    single: PredictedSum, lattice: Lattice, *, targets: int, sources: int, same: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return random points of a sum, where maps put them, as if the box were along the axes."""
    rng = np.random.default_rng(0)
    edges = lattice.to_user(lattice.sides + lattice.origin)[:, None]
    if single.gap is not None:
        edges[2] = single.gap
    trg = edges * rng.random((3, targets))
    src = trg if same else edges * rng.random((3, sources))
    if single.shared is None:
        return trg, src
    kind = SUMS[single.kernel]
    norms: Any = (np.ones(targets), np.ones(sources)) if kind.pair.point_radii is not None else src
    src, _ = single.shared.points({"points": src, "norms": norms}, kind)
    return trg, src


def _wrapped(points: NDArray[np.float64], lattice: Lattice) -> NDArray[np.float64]:
    """Return points in parts of the box's sides, along the solver's axes."""
    order = [*lattice.axes]
    parts = (points[order] - lattice.origin[:, None]) / lattice.sides[:, None]
    return np.clip(parts, 0.0, np.nextafter(1.0, 0.0))
