"""`estimate`: memory and time of a sum of uniform points, by stage, without running it.

It asks the choice of parameters and the prediction of memory what they would say of a plan. Close
pairs are counted in a sample of random points, as a plan counts them among its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.choice import machines
from parki.ewald.choice.clustering import SAMPLE, pair_density
from parki.ewald.choice.cost import Machine
from parki.ewald.choice.memory import Memory, Use, fitting, predict
from parki.ewald.choice.method import MethodParameters
from parki.ewald.choice.parameters import select
from parki.ewald.derivatives.between_walls import correction_of
from parki.ewald.lattice import Lattice
from parki.ewald.near.p2p_lists import PAIRS, most_pairs
from parki.ewald.options import EwaldOptions
from parki.ewald.options.mirrored import options_of_sums
from parki.ewald.pipeline.setup import pose
from parki.ewald.points import take_options
from parki.ewald.points.extent import resolve
from parki.ewald.points.request import SumRequest
from parki.ewald.solver_box import SolverBox
from parki.ewald.sums import SUMS, with_parameters
from parki.ewald.sums.composite import SharedAddend, joined, together
from parki.ewald.task import Task
from parki.interchange import finite, flag, one_of, shown, vector_row, whole
from parki.memory import in_words
from parki.runtime import ExecutionSpace, get_execution_space
from parki.runtime.kernel import LARGEST
from parki.runtime.spaces import free_memory
from parki.settings import thread_count
from parki.suspensions.radii import KINDS, Radii
from parki.typing import AnyKernel, SumKeywords, Unpack

NAMED = {"h200": "h200.json", "avx512": "avx512.json"}  # machines whose numbers come with parki
# Near fields that noise of spheres takes at its default accuracy: three where they fill a tenth of
# the box, five to eight where they fill 0.4, more in overlaps. Its far field spreads nothing.
PRODUCTS = 5
# Volume fractions, and products in a solve of rigid spheres there: see docs/dynamics.md.
SOLVES = (0.1, 0.3, 0.5), (6, 9, 13)
BODIES = 8  # products in a solve of rigid bodies to 1e-3, 7 to 9 of them: see docs/bodies.md
SPHERES = "spheres", "rigid_spheres", "rigid_bodies"


@dataclass(frozen=True)
class Prediction:
    """What `estimate` returns; text of it has all on a few lines.

    Attributes
    ----------
    seconds : dict
        Of an application of a plan, by stage: "P2P", "P2G", "FGC", "G2P".
    noise : float or None
        Seconds of the Brownian noise of one step, of "spheres".
    solve : float or None
        Seconds of one motion, of "rigid_spheres" and "rigid_bodies".
    memory : Memory
        Bytes by part, and the most at a time, as ``plan.memory``.
    free : float or None
        Bytes that are free here; None for a named machine.
    chosen : tuple of str
        Each sum with its cut-off and grid.
    rests_on : str
        Where the numbers come from.
    fitting : tuple of str
        What would fit, where memory is short.
    """

    task: str
    seconds: dict[str, float]
    noise: float | None
    solve: float | None
    memory: Memory
    free: float | None
    chosen: tuple[str, ...]
    rests_on: str
    fitting: tuple[str, ...] = field(default=())

    @property
    def total(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {value:.2g}" for name, value in self.seconds.items())
        lines = [self.task, f"  one application: {self.total:.2g} s ({stages})"]
        if self.noise is not None:
            lines.append(f"  noise of one step: {self.noise:.2g} s, by {PRODUCTS} near fields")
        if self.solve is not None:
            lines.append(f"  a motion, solved: {self.solve:.2g} s")
        here = "" if self.free is None else f"; {in_words(self.free)} are free here"
        lines.append(f"  memory: {self.memory}{here}")
        lines += [f"  would fit: {words}" for words in self.fitting]
        lines += [f"  chosen: {words}" for words in self.chosen]
        return "\n".join([*lines, f"  rests on: {self.rests_on}"])


class _OneSum(NamedTuple):
    """One sum: its name, results, options, copies of the sources, and densities at once."""

    kernel: str
    want: Any
    options: EwaldOptions
    shared: SharedAddend | None = None
    scale: tuple[float, int] | None = None
    gap: float | None = None  # of two walls
    request: SumRequest | None = None


class _Machine(NamedTuple):
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

    def kept(self, targets: int) -> float:
        """Return the most pairs of lists that are kept."""
        if self.content is None or not self.space.on_device:
            return most_pairs(self.space, targets)
        return float(PAIRS * targets)

    @property
    def free(self) -> float:
        """Free bytes, where that is known."""
        return math.inf if self.content else free_memory(self.space)


def estimate(
    kernel: AnyKernel | Literal["spheres", "rigid_spheres", "rigid_bodies"],
    points: float,
    options: EwaldOptions | None = None,
    *,
    targets: float | None = None,
    want: str | tuple[str, ...] = "u",
    dtype: DTypeLike = "float64",
    systems: int = 1,
    radii: float | Sequence[float] | None = None,
    torques: bool = False,
    machine: str | Path | None = None,
    **keywords: Unpack[SumKeywords],
) -> Prediction:
    """Return the memory and the time of a sum of uniform random points, without running it.

    Parameters
    ----------
    kernel : str
        As for `Plan`; "spheres", for the velocities of `Spheres`; "rigid_spheres" or
        "rigid_bodies", for a product and for the motion of `RigidSpheres` or `RigidBodies`.
    points : int, or a float such as 1e6
        Sources; all blobs, of rigid bodies.
    options : EwaldOptions
        The box needs a length along each axis. ``execution_space`` says where, if not on the CPU.
    targets : int, optional
        Default: the sources are the targets.
    want : str or tuple of str
        As for `Plan`.
    dtype : {"float64", "float32"}
    systems : int
        How many systems the points are of, each of as many.
    radii : float or sequence of float
        The radius of spheres or blobs, or the smallest and the largest one; not for points.
    torques : bool
        Whether there are torques on spheres, too.
    machine : str or path, optional
        "h200" or "avx512", whose numbers come with parki, or a file that ``parki tune`` wrote
        elsewhere. Default: this machine, by its measurements if it has any.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``, and parameters of sums.

    Returns
    -------
    Prediction
        With ``seconds`` by stage, ``total``, ``memory``, ``noise`` and ``rests_on``. `print` shows
        all. Plans and updates of points are not in the seconds: on a CPU a plan takes about as long
        as an application, and an update a third of one or less.

    Raises
    ------
    ParkiValueError, ParkiTypeError

    Examples
    --------
    >>> import parki
    >>> found = parki.estimate("stokes_comb", 1e6, periodicity=3, box=[1, 1, 1], tolerance=1e-6)
    >>> sorted(found.seconds)
    ['FGC', 'G2P', 'P2G', 'P2P']
    """
    sources = _count("points", points)
    count = sources if targets is None else _count("targets", targets)
    systems = whole("systems", systems, "how many systems there are")
    np_dtype = np.dtype(one_of("dtype", str(np.dtype(dtype)), ("float64", "float32")))
    spheres = kernel in SPHERES
    name: str = kernel
    others: Any = keywords
    if not spheres:
        name, others = with_parameters(kernel, others)
    _, options = take_options(None, options, others, also=("radii", "torques", "targets"))
    options.check_dtype(np_dtype)
    if None in options.edges:
        raise ParkiValueError(
            f"box is {list(options.box)}, but an estimate has no points whose extent a None could "
            "take; give the length that they will span"
        )
    if radii is not None and not spheres:
        raise ParkiTypeError(
            f"radii is for parki.estimate of {', '.join(SPHERES[:-1])} and {SPHERES[-1]}"
        )
    where = _where(machine, options)
    names = _moved(kernel, radii, flag("torques", torques), options) if spheres else [(name, want)]
    sums = [single for name, results in names for single in _sums(name, results, options)]
    seconds = dict.fromkeys(("P2P", "P2G", "FGC", "G2P"), 0.0)
    chosen, fits, parts = list[str](), tuple[str, ...](), dict[str, float]()
    held = peak = 0.0
    first, noise, solve = math.nan, None, None
    first_sum: Any = None
    for single in sums:
        parameters, use, length = _chosen(
            single,
            (count, sources, systems),
            dtype=np_dtype,
            machine=where,
            first=first,
            same=targets is None,
        )
        first = first if first == first else length
        first_sum = first_sum or parameters
        memory = predict(parameters, use)
        many = len(single.shared.lists) if single.shared else 1
        for stage, value in parameters.seconds.items():
            seconds[stage] += many * value
        peak = max(peak, sum(parts.values()) + memory.peak)
        for part, size in memory.parts.items():
            parts[part] = parts.get(part, 0.0) + size
        held += memory.held
        if peak > where.free:
            fits = tuple(fitting(parameters, use, where.free, length))
        grid = parameters.padding.grid
        chosen.append(
            f"{single.kernel}: r_c = {parameters.cutoff * length:.4g}, grid "
            f"{' x '.join(map(str, grid))}, window of {parameters.points} points"
        )
    for single in {id(one.request): one for one in sums if options.corrected}.values():
        more, size, words = _correction(single, (count, sources), first_sum, np_dtype)
        for stage, value in more.items():
            seconds[stage] += value
        parts["correction"] = parts.get("correction", 0.0) + size
        peak = max(peak, sum(parts.values()))
        chosen.append(words)
    if kernel == "spheres" and options.periodicity == 3:
        noise = PRODUCTS * seconds["P2P"] + seconds["FGC"] / 2 + seconds["G2P"]
    elif kernel == "rigid_spheres":
        filled = 4 / 3 * math.pi * np.mean(np.power(np.asarray(radii), 3.0)) * sources / length**3
        solve = float(np.interp(filled, *SOLVES)) * sum(seconds.values())
    elif kernel == "rigid_bodies":
        solve = BODIES * sum(seconds.values())
    best = parameters.problem.machine.name.removeprefix("those ")
    return Prediction(
        _headline(
            name,
            want,
            options,
            counts=(count, sources, systems),
            dtype=f"{np_dtype}",
            space=where.space,
        ),
        seconds,
        noise,
        solve,
        Memory(parts, held, peak),
        None if machine else where.free,
        tuple(dict.fromkeys(chosen)),
        f"uniform random points, and costs {best}{_hint(best, where)}",
        fits,
    )


def _moved(
    kernel: str, radii: float | Sequence[float] | None, torques: bool, options: EwaldOptions
) -> list[tuple[str, str | tuple[str, ...]]]:
    """Return the sums that move spheres, with their results."""
    if radii is None:
        raise ParkiTypeError(
            f"radii is missing; parki.estimate({kernel!r}, ...) needs the radius of the spheres"
        )
    sizes, rigid = Radii.of(np.resize(radii, 2), 2), kernel == "rigid_spheres"
    if rigid and options.walled:
        raise ParkiValueError(
            f"wall is {options.wall!r}, but rigid spheres have no stresslets near a wall; take "
            "'spheres'"
        )
    if rigid:
        return [(sizes.force_dipoles, ("u", "grad_u"))]
    if torques and kernel == "rigid_bodies":
        raise ParkiTypeError(
            "torques was given, but blobs of rigid bodies have forces alone, which add up to the "
            "torques on bodies; leave it out"
        )
    moved = KINDS if torques else [("velocity", "force")]
    return [(sizes.kernels[key], "u") for key in moved]


def _count(name: str, number: float) -> int:
    """Return a number of points, which may be written as 1e6."""
    value = finite(name, number, "a number of points")
    if not 1 <= value <= LARGEST or value != round(value):
        raise ParkiValueError(f"{name} is {shown(number)}; expected a whole number, 1 to {LARGEST}")
    return round(value)


def _where(machine: str | Path | None, options: EwaldOptions) -> _Machine:
    """Return where it would run."""
    if machine is None:
        return _Machine(get_execution_space(options.execution_space))
    if str(machine) in NAMED:
        content = machines.shipped(NAMED[str(machine)])
    elif Path(machine).is_file():
        content = machines.of_path(Path(machine))
    else:
        raise ParkiValueError(
            f"machine is {shown(machine)}; expected {' or '.join(NAMED)}, or a file that "
            "'parki tune' wrote: 'parki cache list' shows where"
        )
    return _Machine(ExecutionSpace("Cuda" if content["device"] else "OpenMP"), content)


def _hint(best: str, machine: _Machine) -> str:
    """Return the advice by which the numbers become better, if there is any."""
    if best.startswith("measured") or machine.content is not None:
        return ""
    return "; this machine was not measured, and may take several times as long: run 'parki tune'"


def _sums(kernel: str, want: str | tuple[str, ...], options: EwaldOptions) -> Iterator[_OneSum]:
    """Yield the sums that a plan would have as members."""
    request = SumRequest.of(kernel, want, options)
    if request.composite is None:
        yield _OneSum(request.name, request.want, options)
        return
    scales = {name: (size, power) for name, size, power in request.composite.scales}
    for one in together(joined(request.composite.addends)):
        yield _OneSum(
            one.kernel,
            one.want,
            options_of_sums(options),
            one,
            scales.get(one.kernel),
            options.gap,
            request,
        )


def _correction(
    single: _OneSum,
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


def _chosen(
    single: _OneSum,
    counts: tuple[int, int, int],
    *,
    dtype: DTypeLike,
    machine: _Machine,
    first: float,
    same: bool,
) -> tuple[MethodParameters, Use, float]:
    """Return the parameters of a sum, what memory depends on, and the box's length.

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
        most_kept=0.0 if options.deterministic else machine.kept(systems * targets),
    )
    return select(problem), Use(task, same, False), solver_box.length


def _sample(
    single: _OneSum, lattice: Lattice, *, targets: int, sources: int, same: bool
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


def _headline(
    kernel: str,
    want: str | tuple[str, ...],
    options: EwaldOptions,
    *,
    counts: tuple[int, int, int],
    dtype: str,
    space: ExecutionSpace,
) -> str:
    """Return the sum and its points in one line."""
    targets, sources, systems = counts
    of = f" of {systems} systems" if systems > 1 else ""
    what = "" if want == "u" else f", want {want}"
    return (
        f"{kernel}, {options.periods}, tolerance {options.tolerance:g}, {sources} sources, "
        f"{targets} targets{of}, {dtype}, {space}{what}"
    )
