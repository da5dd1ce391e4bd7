"""`estimate`: memory and time of a sum of uniform points, by stage, without running it.

It asks the choice of parameters and the prediction of memory what they would say of a plan. Close
pairs are counted in a sample of random points, as a plan counts them among its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.choice.memory import Memory, fitting, predict
from parki.ewald.options import EwaldOptions
from parki.ewald.points import take_options
from parki.ewald.sums import with_parameters
from parki.interchange import finite, flag, one_of, shown, whole
from parki.memory import in_words
from parki.prediction.sums import (
    NamedMachine,
    cost_of_correction,
    machine_of,
    parameters_of,
    sums_of,
)
from parki.runtime import ExecutionSpace
from parki.runtime.kernel import LARGEST
from parki.suspensions.radii import KINDS, Radii
from parki.typing import AnyKernel, SumKeywords, Unpack

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
    where = machine_of(machine, options)
    names = _moved(kernel, radii, flag("torques", torques), options) if spheres else [(name, want)]
    sums = [single for name, results in names for single in sums_of(name, results, options)]
    seconds = dict.fromkeys(("P2P", "P2G", "FGC", "G2P"), 0.0)
    chosen, fits, parts = list[str](), tuple[str, ...](), dict[str, float]()
    held = peak = 0.0
    first, noise, solve = math.nan, None, None
    first_sum: Any = None
    for single in sums:
        parameters, task, length = parameters_of(
            single,
            (count, sources, systems),
            dtype=np_dtype,
            machine=where,
            first=first,
            same=targets is None,
        )
        first = first if first == first else length
        first_sum = first_sum or parameters
        memory = predict(parameters, task)
        many = len(single.shared.lists) if single.shared else 1
        for stage, value in parameters.seconds.items():
            seconds[stage] += many * value
        peak = max(peak, sum(parts.values()) + memory.peak)
        for part, size in memory.parts.items():
            parts[part] = parts.get(part, 0.0) + size
        held += memory.held
        if peak > where.free:
            fits = tuple(fitting(parameters, task, where.free, length))
        grid = parameters.padding.grid
        chosen.append(
            f"{single.kernel}: r_c = {parameters.cutoff * length:.4g}, grid "
            f"{' x '.join(map(str, grid))}, window of {parameters.points} points"
        )
    for single in {id(one.request): one for one in sums if options.corrected}.values():
        more, size, words = cost_of_correction(single, (count, sources), first_sum, np_dtype)
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


def _hint(best: str, machine: NamedMachine) -> str:
    """Return the advice by which the numbers become better, if there is any."""
    if best.startswith("measured") or machine.content is not None:
        return ""
    return "; this machine was not measured, and may take several times as long: run 'parki tune'"


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
