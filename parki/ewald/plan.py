"""`Plan`: the work that depends on geometry and options, done once; apply it to many densities.

Joins the stages, which do not know each other: near field (P2P), and P2G, FGC, G2P for the far
field. Inside, lengths are in a unit that is a power of two close to the cube root of the box's
volume: scaling is then exact, and no box is too large or small for float32.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from parki.arrays import real_name
from parki.cell_list import CellList, locate
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald import stress
from parki.ewald.beside import beside
from parki.ewald.checking import Check, measure
from parki.ewald.choice.clustering import PairDensity, pair_density, sample
from parki.ewald.choice.far_points import warn_of_far_points
from parki.ewald.choice.machines import machine
from parki.ewald.choice.memory import Memory, Use, check
from parki.ewald.choice.moves import check_stay, suit
from parki.ewald.choice.parameters import Parameters, select
from parki.ewald.choice.problem import Problem
from parki.ewald.description import describe, facts, headline
from parki.ewald.extent import Extent, mean_edge, resolve
from parki.ewald.far import multiplier
from parki.ewald.far.fgc import FGC
from parki.ewald.far.g2p import G2P
from parki.ewald.far.gauge import Gauge
from parki.ewald.far.mesh import Mesh
from parki.ewald.far.p2g import P2G
from parki.ewald.far.p2g_paper import check_spreading
from parki.ewald.far.padding import Padding, pad
from parki.ewald.far.plane import PlaneModes
from parki.ewald.near.p2p import P2P, near_kernels
from parki.ewald.near.p2p_cells import check_method
from parki.ewald.near.p2p_lists import most_pairs
from parki.ewald.near.radial import check_evaluator, choose_evaluator
from parki.ewald.near.sizes import near_tile
from parki.ewald.options import EwaldOptions
from parki.ewald.points import (
    check_arguments,
    check_density,
    check_dtypes,
    check_outputs,
    check_space,
    check_want,
    result_shape,
)
from parki.ewald.split.hasimoto import Split
from parki.ewald.split.prolate import choose_split
from parki.ewald.split.window import KaiserBessel
from parki.ewald.sums import SUMS
from parki.ewald.timing import DeviceWatch, HostWatch
from parki.html import table
from parki.interchange import as_array, as_given
from parki.runtime import forks, prepare

_NOT_GIVEN: Any = object()
STAGES = ("P2P", "P2G", "FGC", "G2P")
Watch = Callable[[str], AbstractContextManager[Any]]


def _unwatched(_: str) -> AbstractContextManager[Any]:
    """Time no stage."""
    return nullcontext()


class Plan:
    """An Ewald sum for fixed points: set up once, apply to many densities.

    Parameters
    ----------
    kernel : {"stokes_comb", "stokes_sl", "stokes_dl", "stokes_rotlet", "stokes_dipole", "laplace"}
        What to sum.
    trg, src : array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources, in the unit of ``options.box``; NumPy, CuPy, or anything with DLPack
        (PyTorch, JAX) or ``__cuda_array_interface__``, any strides. Points outside the box are
        wrapped along periodic axes. Not modified. Pass the same object twice when targets are
        sources. Without sources the sums are zero.
    norms : array, shape (3, Ns), optional
        Normals at the sources; for the double layer only.
    options : EwaldOptions
        May take the place of ``norms`` for kernels without normals.
    want : {"u", "p", "grad_u", "stress"}, or a tuple of these
        What a call returns: the velocity (or Laplace's potential), the pressure, the gradient
        ``[i, j] = d u_i / d x_j``, the stress ``-p I + grad u + (grad u)^T``; for a tuple, a tuple
        of arrays in its order. Kernels and parameters depend on it. Laplace has no pressure and no
        stress; the pressure of rotlets is zero.
    dens : array, optional
        A density to sum at once, into `first`: checked along with the rest, before any work. On a
        device its near field runs while the far field is set up.

    Attributes
    ----------
    box : ndarray, shape (3,)
        Edge lengths: those of the options, or the extent of the points.
    origin : ndarray, shape (3,)
        Corner of the box.
    parameters : Parameters
        What was chosen; `describe` prints it.
    memory : Memory
        Bytes that the plan needs, by part, as predicted for the points it was made of.
    first : array, tuple of arrays or None
        What is wanted of ``dens``; None if there was none.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible: shape, dtype, NaN, mixed devices, a point outside the box
        along a free axis, a tolerance the dtype cannot hold. Before any work.
    ParkiMemoryError
        If the plan needs more memory than is free; with what would fit.

    Examples
    --------
    >>> import numpy as np, parki
    >>> rng = np.random.default_rng(0)
    >>> points, forces = rng.random((3, 1000)), rng.standard_normal((3, 1000))
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-6)
    >>> plan = parki.Plan("stokes_sl", points, points, options)
    >>> plan(forces).shape
    (3, 1000)
    """

    # Whether all stages can be launched before the first runs.
    _ahead = True

    def __init__(
        self,
        kernel: str,
        trg: Any,
        src: Any,
        norms: Any = None,
        options: EwaldOptions | None = None,
        *,
        want: str | tuple[str, ...] = "u",
        dens: Any = _NOT_GIVEN,
    ) -> None:
        if isinstance(norms, EwaldOptions) and options is None:
            norms, options = None, norms
        self._start = time.perf_counter()
        self._lock = threading.RLock()  # calls share memory: one after the other
        self._done: Any = None
        self.kernel, given = kernel, check_arguments(kernel, trg, src, norms, options)
        self.space, self.options, arrays, extents = given
        options = self.options
        names = check_want(kernel, want)
        check_evaluator(options.radial, names)
        check_method(options.p2p_method, kernel, names)
        check_spreading(options.p2g_method, kernel)
        self.want = want if isinstance(want, str) else names
        self.dtype = np.dtype(arrays["src"].dtype)
        self.rows = SUMS[kernel].results
        self._names = names
        # What is computed, and not zero everywhere.
        self._computed = tuple(name for name in stress.parts(names) if SUMS[kernel].terms[name])
        self.seconds = {"plan": 0.0}
        self.parameters: Parameters | None = None
        self.memory: Memory | None = None
        self._memory: Any = None  # of the mesh's grids
        self._axes = [0, 1, 2]  # the solver's order of them; slabs may want another
        self._take(arrays, extents)
        if dens is not _NOT_GIVEN:
            self._density(dens)
        self._given = dens
        self.first: Any = None
        if all(self._totals) and self._computed:
            with self._turn():
                self._build(arrays)
        self._given = _NOT_GIVEN  # not kept
        if dens is not _NOT_GIVEN and self.first is None:
            self.first = self(dens)
        self.seconds["plan"] = time.perf_counter() - self._start

    def _take(self, arrays: dict[str, Any], extents: Any) -> None:
        """Take over what points alone decide: numbers, shapes, the box and the normals' squares."""
        self.n_targets, self.n_sources = arrays["trg"].shape[1], arrays["src"].shape[1]
        self._points = arrays, extents  # the arrays given, no copies: for `check`
        self._totals = self._count(arrays)
        # Where there is nothing to sum the next points choose all anew, and so do these the box.
        if self.parameters is None or not all(self._totals):
            self.origin, self.box = self._extent(extents)
        else:
            check_stay(self.options, Extent(self.origin, self.box), extents)
        self._frame = Extent(self.origin[self._axes], self.box[self._axes])
        self._shapes = {
            name: result_shape(self.kernel, name, self.n_targets) for name in self._names
        }
        self._normal_squares: Any = None
        if "norms" in arrays:
            x, y, z = (row.astype(np.float64) for row in arrays["norms"])
            self._normal_squares = x * x + y * y + z * z
        components = SUMS[self.kernel].source_components
        # What parameters are chosen by.
        self._tolerance = self.options.random_tolerance(self._totals[1], components, self.dtype)

    def _count(self, arrays: dict[str, Any]) -> tuple[int, int]:
        """Return the targets and the sources (of all ranks, where these share the points out)."""
        return self.n_targets, self.n_sources

    def _extent(self, extents: Any) -> Extent:
        """Return the box; ``extents`` are the smallest and largest coordinates, shape (n, 3)."""
        return resolve(self.options, extents)

    # ------------------------------------------------------------------ other points
    def update_points(self, trg: Any, src: Any, norms: Any = None) -> None:
        """Give the plan other points, as those of the next time step; there may be more or fewer.

        What hangs on the box and the parameters alone is kept: grid, multiplier, kernels. Where
        the points are no longer spread as they were when parameters were chosen, so that the near
        field would take 1.5 times the work, or errors grow, all is chosen and made anew. On any
        error the plan stays as it was.

        Parameters
        ----------
        trg, src, norms
            As for the plan, with its dtype and in its memory. Where ``box`` gives no length, the
            points must stay in `origin` to `origin` + `box`, the extent of the first ones.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of a new plan.
        """
        start = time.perf_counter()
        with self._turn():
            moved = object.__new__(type(self))
            moved.__dict__.update(self.__dict__)
            moved._move(trg, src, norms)
            moved.seconds = {**self.seconds, "update": time.perf_counter() - start}
            self.__dict__.update(moved.__dict__)

    def _move(self, trg: Any, src: Any, norms: Any) -> None:
        """Take other points: parts of the plan, which is a copy, are replaced, and none changed."""
        given = check_arguments(self.kernel, trg, src, norms, self.options, self.space)
        arrays, extents = given.arrays, given.extents
        if arrays["src"].dtype != self.dtype:
            raise ParkiTypeError(
                f"trg has dtype {arrays['trg'].dtype}, but the plan was made for {self.dtype}; "
                "convert the points, or make a new plan"
            )
        self._take(arrays, extents)
        self.first = None
        if all(self._totals) and self._computed:
            self._build(arrays)
        else:
            self.parameters = None

    # ------------------------------------------------------------------ set-up
    def _build(self, arrays: dict[str, Any]) -> None:
        options, space, dtype, kernel = self.options, self.space, self.dtype, self.kernel
        executor, want = options.executor, self._computed
        length = self._units()
        factor, box = 1 / self.unit, self._frame.box / self.unit
        same = arrays["trg"] is arrays["src"]
        src = self._wrap(arrays["src"])
        trg = src if same else self._wrap(arrays["trg"])
        norms = arrays["norms"] * dtype.type(factor) if "norms" in arrays else None

        density, chosen = pair_density(trg, src, box), self.parameters
        if chosen is None or not self._suit(chosen, density):
            clouds = [src] if same else [trg, src]
            chosen = self._select(density, length, clouds)
            self.memory = check(self._problem, chosen, self._use(same), length)
            self._settle(chosen, length)
            self._prepare(chosen, self.n_targets)
        split, cutoff, radial = self._division
        self.p2p = P2P(
            kernel,
            space,
            arrays["trg"],
            arrays["src"],
            norms,
            box,
            self._frame.origin / self.unit,
            options.periodicity,
            cutoff,
            radial,
            factor,
            want,
            self.evaluator,
            executor,
            chosen.p2p,
            keep=not options.deterministic,
            read=chosen.read,
        )
        self._wide = self.p2p.buffer(SUMS[kernel].rows)
        size = SUMS[kernel].rows * self.n_sources
        self._sorted = self._wide.reshape(-1)[:size].reshape(-1, self.n_sources)  # of P2G
        self._pending = [lambda: self._build_far(trg, src, norms, split, factor)]
        if self._given is _NOT_GIVEN:
            self._pending.pop()()
        else:
            self.first = as_given(self._apply(self._given, None, _unwatched), self._given)

    def _build_far(self, trg: Any, src: Any, norms: Any, split: Split, factor: float) -> None:
        """Set up the far field of wrapped points and normals in solver units."""
        kernel, mesh, want = self.kernel, self.mesh, self._computed
        executor = self.options.executor
        # The field takes the place of the grid, whose values are in Fourier space by then.
        room = FGC.room(kernel, mesh, want)
        self.p2g = P2G(kernel, mesh, src, norms, executor, room, self._memory)
        self._plane = None
        if PlaneModes.needed(kernel, mesh):
            heights = self.p2g.sources.points[2]
            self._plane = PlaneModes(mesh, heights, self.p2g.arguments["norms"])
        if self._memory is None:  # else the points alone are new
            self._memory = self.p2g.memory
            self.fgc = FGC(kernel, mesh, split, factor, want, self._memory, executor)
        same = trg is src
        self.g2p = G2P(mesh, trg, self.p2g.sources, same, self.rows, want, factor, executor)
        flux = SUMS[kernel].double and self.options.dl_mean == "flux"
        points = (trg, src, norms) if flux else None
        self._gauge = Gauge(kernel, mesh, split, self.unit, factor, points)

    def _units(self) -> float:
        """Choose the solver's unit: positions times 2^-e; return the cube root of the volume.

        Exact, as is undoing it in the results.
        """
        length = mean_edge(self.box)
        self.unit = 2.0 ** round(math.log2(length))
        limits = np.finfo(self.dtype)
        if not 4 * float(limits.tiny) <= self.unit <= float(limits.max) / 4:
            raise ParkiValueError(
                f"the box has edges of about {length:g}, whose inverse {self.dtype} does not hold; "
                "give lengths in another unit"
            )
        return length

    def _wrap(self, points: Any) -> Any:
        """Return points in the box and in solver units, as the grid takes them."""
        origin, box = self._frame
        if origin.any():
            # Rounds; the grid does not mind, and the near field takes the points as given.
            points = points - self.space.array_module.asarray(origin[:, None], dtype=self.dtype)
        wrapped, _ = locate(
            points,
            box / self.unit,
            (1, 1, 1),
            [axis < self.options.periodicity for axis in range(3)],
            (0.0, 0.0, 0.0),
            self.space,
            scale=1 / self.unit,
            executor=self.options.executor,
        )
        return wrapped

    def _select(
        self, density: PairDensity, length: float, clouds: list[Any], ranks: int = 1
    ) -> Parameters:
        """Return the parameters for the points of all ranks; ``clouds`` are some of them."""
        options = self.options
        kept = 0.0
        if self._given is _NOT_GIVEN and not options.deterministic:
            kept = most_pairs(self.space, self._totals[0], ranks)
        best = machine(self.space, self.dtype, fixed=options.deterministic)
        cutoff = None
        if options.cutoff is not None:
            cutoff = options.cutoff / length
        elif options.cell_size is not None:
            cutoff = (options.cell_size / self._totals[1]) ** (1 / 3)
        asked = (options.p2p_method, options.p2g_method, options.g2p_method)
        p2p, p2g, g2p = (
            usual if method == "auto" else method
            for method, usual in zip(asked, best.usual, strict=True)
        )
        tolerance = self._tolerance
        self._problem = problem = Problem(
            self.kernel,
            self._computed,
            choose_split(options.split, self.kernel, self._computed, tolerance),
            options.periodicity,
            self.box / length,
            tolerance,
            density,
            *self._totals,
            best,
            p2p,
            p2g,
            g2p,
            options.windows(self.dtype),
            cutoff,
            kept,
        )
        chosen = select(problem)
        warn_of_far_points(
            problem,
            chosen,
            (self.unit * sample(points)[np.argsort(self._axes)] for points in clouds),
            Extent(self.origin, self.box),
            [axis for axis, edge in enumerate(options.box) if edge is None],
            select,
            ranks,
        )
        return chosen

    def _suit(self, chosen: Parameters, density: PairDensity) -> bool:
        """Return whether the plan's parameters suit its points of now."""
        return suit(self._problem, chosen, density, self._tolerance, *self._totals)

    def _use(self, same: bool) -> Use:
        """Return what memory depends on besides problem and parameters."""
        return Use(
            self.space,
            self.dtype,
            same,
            self.options.dl_mean == "flux" and self._normal_squares is not None,
            self._given is not _NOT_GIVEN,
            9 * ({"grad_u", "stress"} <= set(self._names)),
        )

    def _settle(self, chosen: Parameters, length: float) -> None:
        """Take the parameters for the plan's, and make its grid."""
        options = self.options
        self.parameters = chosen
        scale = length / self.unit  # from the parameters' unit to the solver's
        box = self._frame.box / self.unit
        steps, cutoff = chosen.steps[self._axes] * scale, chosen.cutoff * scale
        split = chosen.split.scaled(scale)
        padding = pad(
            options.periodicity,
            box,
            steps,
            chosen.points,
            cutoff,
            self._problem.tolerance,
            chosen.lengths,
        )
        self.mesh = self._mesh(chosen, box, steps, padding)
        self.evaluator = choose_evaluator(options.radial, self.kernel, split, cutoff, chosen.degree)
        # In solver units.
        self._division = split, cutoff, split.radial_polynomials(cutoff, chosen.degree)
        self._memory = None

    def _mesh(self, chosen: Parameters, box: Any, steps: Any, padding: Padding) -> Mesh:
        """Return the grid with the window that was chosen."""
        return Mesh.build(
            self.space,
            self.dtype,
            box,
            self.options.periodicity,
            steps,
            padding,
            KaiserBessel(chosen.points, chosen.beta),
            chosen.window_degree,
            chosen.p2g,
            chosen.g2p,
            self.options.deterministic,
        )

    def _prepare(self, chosen: Parameters, targets: int) -> None:
        """Compile all kernels of the plan at once, rather than each when it is first met.

        ``targets`` are those that its near field has.
        """
        space, executor, rows = self.space, self.options.executor, SUMS[self.kernel].rows
        want, mesh = self._computed, self.mesh
        kernels = list(CellList.kernels(space, real_name(self.dtype), executor).values())
        kernels += [
            CellList.gather_kernel(space, self.dtype, n, executor) for n in sorted({3, rows})
        ]
        near = (space, self.dtype, chosen.degree, self.options.periodicity, want, executor)
        tile = near_tile(space, chosen.p2p, targets, chosen.read, self.dtype)
        near_field = near_kernels(self.kernel, *near, self.evaluator, chosen.p2p, tile)
        kernels += near_field.values()
        kernels += P2G.kernels(self.kernel, mesh, executor)
        kernels.append(FGC.kernel(self.kernel, mesh, want, executor))
        kernels += G2P.kernels(mesh, self.rows, want, executor)
        far = (self.dtype, SUMS[self.kernel].harmonic, chosen.split, self.options.periodicity)
        kernels += multiplier.kernels(space, executor, *far)
        prepare(kernels)

    # ------------------------------------------------------------------ apply
    def __call__(self, dens: Any, out: Any = None) -> Any:
        """Return what is wanted of a density.

        On a device the second call keeps lists of the pairs in reach, some five bytes for each, if
        they take at most a third of the free memory and the plan need not be deterministic; later
        calls take them.

        Parameters
        ----------
        dens : array, shape (Ns,), (3, Ns), (6, Ns) or (3, 3, Ns)
            Charges (Laplace); f, q or torques t; rows 0-2 f of the single layer and 3-5 q of the
            double layer; dipoles D. Same dtype and memory as the points.
        out : array or tuple of arrays, optional
            Where to write: as what is returned; C-contiguous. With it a repeated call allocates
            nothing but those lists, what the FFT library needs for itself, and the pressure where
            a stress is wanted without it.

        Returns
        -------
        array, or tuple of arrays if ``want`` is one
            In the memory and of the library of ``dens``; ``out`` itself, if given. "u" has shape
            (3, Nt), "p" (Nt,), "grad_u" and "stress" (3, 3, Nt); for Laplace (Nt,) and (3, Nt). Not
            scaled: the velocity is the single layer over 8 pi mu, and its pressure and stress the
            same over 8 pi.
        """
        with self._turn():
            results = self._apply(dens, out, _unwatched)
        return as_given(results, dens) if out is None else results

    def timed(self, dens: Any) -> tuple[Any, dict[str, float]]:
        """Return what is wanted and the seconds of each stage.

        By events on a device, which waits until the host has launched all stages: an application
        of few points takes as long as these launches, which no stage's time has in it.
        """
        watch: HostWatch | DeviceWatch = HostWatch()
        if self.space.on_device:
            watch = DeviceWatch(self.space.array_module, self._ahead)
        with self._turn():
            results = self._apply(dens, None, watch)
        return as_given(results, dens), watch.seconds()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for other threads and, on a device, other streams that use the plan's memory."""
        with self._lock:
            if not self.space.on_device:
                yield
                return
            forks.check(self.space.name)  # before CUDA says something else
            stream = self.space.array_module.cuda.get_current_stream()
            if self._done is not None:
                stream.wait_event(self._done)
            try:
                yield
            finally:
                self._done = stream.record()

    def _apply(self, dens: Any, out: Any, watch: Watch) -> Any:
        values = self._density(dens)
        results = check_outputs(out, self.want, self._shapes, values, self.space)
        summed = self._computed if all(self._totals) else ()
        if summed:
            parts = stress.split(results, summed, self.space.array_module)
            self._sum(values, parts, watch)
            stress.combine(results, parts)
            summed += ("stress",)
        for name in results.keys() - set(summed):
            results[name].fill(0)
        return results[self.want] if isinstance(self.want, str) else tuple(results.values())

    def _sum(self, values: Any, results: dict[str, Any], watch: Watch) -> None:
        """Run the stages; they see results as (rows, targets)."""
        flat = {name: array.reshape(-1, self.n_targets) for name, array in results.items()}

        with beside(self.space, self._pending), watch("P2P"):
            self.p2p.apply(values, self._wide, flat)
        with watch("P2G"):
            grid = self.p2g.apply(values, self._sorted)
            plane = None
            if self._plane is not None:
                plane = self._plane.apply(self._sorted if self.p2g.sorts else values)
        with watch("FGC"):
            field = self.fgc.apply(grid, plane)
        with watch("G2P"):
            self.g2p.apply(field, flat)
            self._gauge.add(values, flat)

    def _density(self, dens: Any) -> Any:
        """Return a density as (rows, sources), C-contiguous; refuse an impossible one."""
        values = as_array("dens", dens)
        check_space({"dens": values}, self.space)
        if values.dtype != self.dtype:
            raise ParkiTypeError(
                f"dens has dtype {values.dtype}, but the points have {self.dtype}; convert one"
            )
        return check_density("dens", values, SUMS[self.kernel].density_shape(self.n_sources))

    # ------------------------------------------------------------------ views on the plan
    def promise(self, dens: Any) -> Any:
        """Return what the tolerance promises for a density: the bound of the rms error.

        ``tolerance * sqrt(Q) / l**p`` with Q the sum of ``|f|^2`` (single layer), ``|q|^2 |n|^2``
        (double layer), ``|t|^2`` (rotlets), ``|D|^2`` (dipoles) or ``q^2`` (Laplace), l the cube
        root of the box's volume, p = 2 for the double layer, rotlets and dipoles and 1 otherwise;
        the combined sum adds its two bounds. For the pressure and the gradient, whose error is the
        rms over targets of its Frobenius norm, p is greater by one. The stress has the errors of
        its parts, sqrt(3) times that of the pressure and twice that of the gradient. Rounding comes
        on top: a small multiple of the unit roundoff times the rms of the result.

        Returns
        -------
        float, or tuple of floats if ``want`` is a tuple

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If the density has another shape, is not finite, or is in other memory than the points.
        """
        values = as_array("dens", dens)
        check_dtypes({"dens": values})
        check_space({"dens": values}, self.space)
        values = check_density("dens", values, SUMS[self.kernel].density_shape(self.n_sources))
        bound = self._bound(values.astype(np.float64) ** 2)
        steep = bound / mean_edge(self.box)
        known = {"u": bound, "stress": stress.OF_PARTS * steep}
        bounds = tuple(known.get(name, steep) for name in self._shapes)
        return bounds[0] if isinstance(self.want, str) else bounds

    def check(self, dens: Any, targets: int = 32) -> Check | tuple[Check, ...]:
        """Measure the error of the sum of a density, at a few targets chosen at random.

        Sums anew, and at these targets once more in float64 with a tolerance 100 times smaller (at
        least 1e-13) and other parameters. Finds what no estimate knows, such as densities that add
        up on a lattice. Takes the arrays of points that the plan was given, of which it keeps
        references and no copies: they must not have been changed in place.

        Parameters
        ----------
        dens : array
            As for a call.
        targets : int
            How many to sample, always the same ones; all, if there are fewer.

        Returns
        -------
        Check, or tuple of them if ``want`` is a tuple
            With ``error``, ``promise``, ``flow`` (the rms of the result), ``relative`` (error over
            flow) and ``reference`` (the other sum's tolerance); `str` gives them as a line.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If the density is impossible, or points were seen to have changed.
        ParkiMemoryError
            If there is no room for the other sum.
        """
        return measure(self, dens, targets)

    def _bound(self, squares: Any) -> float:
        """Return what is promised of "u"; ``squares`` are those of the density."""
        length = mean_edge(self.box)
        kind = SUMS[self.kernel]
        single = kind.single_rows
        bound = self._sum_up(float(squares[:single].sum())) ** 0.5 / length**kind.decay
        if self._normal_squares is not None:
            double = squares[single:].sum(axis=0) * self._normal_squares
            bound += self._sum_up(float(double.sum())) ** 0.5 / length / length
        return float(self.options.tolerance * bound)

    def _sum_up(self, value: float) -> float:
        """Return the sum of a number (over all ranks, where these share the points out)."""
        return value

    def as_linear_operator(self) -> Any:
        """Return the plan as a linear operator on flattened densities, for GMRES.

        SciPy's `scipy.sparse.linalg.LinearOperator`, or CuPy's on a device. Its matrix-vector
        product takes a vector of length rows x Ns and returns the flattened result. Whole numbers
        and other real types are converted to the plan's, in which the sum is computed; the result
        has the type that the product with a matrix of the plan's type would have.

        Raises
        ------
        ParkiValueError
            If ``want`` is a tuple.
        """
        if not isinstance(self.want, str):
            raise ParkiValueError(
                f"as_linear_operator needs a plan with one result, but want is {self.want}; "
                "make a plan with want='u'"
            )
        if self.space.on_device:
            from cupyx.scipy.sparse.linalg import LinearOperator
        else:
            from scipy.sparse.linalg import LinearOperator
        density = SUMS[self.kernel].density_shape(self.n_sources)

        def matvec(vector: Any) -> Any:
            values = as_array("dens", vector)
            given = values.dtype
            if given.kind in "biuf":
                values = values.astype(self.dtype, copy=False)
            result = self(values.reshape(density)).reshape(-1)
            return result.astype(np.result_type(self.dtype, given), copy=False)

        shape = (math.prod(self._shapes[self.want]), math.prod(density))
        return LinearOperator(shape, matvec=matvec, dtype=self.dtype)

    def describe(self) -> str:
        """Return what the plan is and what was chosen, as text of a few lines."""
        return describe(self)

    def __repr__(self) -> str:
        return f"<parki.Plan: {headline(self)}>"

    def _repr_html_(self) -> str:
        return table("parki.Plan", facts(self))

    def __reduce__(self) -> Any:
        raise ParkiTypeError(
            "a Plan cannot be pickled or copied: it holds memory and compiled kernels of this "
            "process; pass on kernel, points and options, and make a plan of them there"
        )
