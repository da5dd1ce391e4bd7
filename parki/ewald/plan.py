"""`Plan`: the work that depends on geometry and options, done once; apply it to many densities.

What users see: arguments are checked here, once, and a pipeline does the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.checks import Check, Checks, Sample
from parki.ewald.choice.memory import Memory
from parki.ewald.choice.parameters import Parameters
from parki.ewald.choice.reuse import check_stay
from parki.ewald.derivatives.linear_operator import linear_operator
from parki.ewald.derivatives.transpose import Transpose
from parki.ewald.describe import describe, facts, headline
from parki.ewald.far.p2g_paper import check_spreading
from parki.ewald.geometry.extent import resolve
from parki.ewald.geometry.images import look_for_flux, warn_of_images
from parki.ewald.geometry.systems import Systems, check_systems
from parki.ewald.near.p2p_cells import check_wanted
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline import plan_cache
from parki.ewald.pipeline.one_device import OneDevice, Pipeline, Watch, unwatched
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points import (
    TENSOR_ROWS,
    Arguments,
    check_arguments,
    check_density,
    check_outputs,
    check_space,
    check_want,
    result_shape,
)
from parki.ewald.promise import promise
from parki.ewald.sums import stress
from parki.ewald.task import Points, Task
from parki.html import table
from parki.interchange import as_array, as_given
from parki.runtime import captures, forks

STAGES = ("P2P", "P2G", "FGC", "G2P")


@dataclass(frozen=True)
class Request:
    """What the rest of parki asks of a plan beside its public arguments.

    Attributes
    ----------
    once : bool
        Whether a density is summed at once: it is checked along with the rest, before any work. On
        a device its near field runs while the far field is set up. No lists of pairs are kept.
    density : array
        That density.
    tensors : array, shape (10, Nt), optional
        Of the targets of a single layer: a tensor D, row 3 j + k of which is D_jk, and a strength
        s. They read ``D_jk d u_j / d x_k + s p``, whose gradient, of shape (3, Nt), ``want`` then
        can call "grad_tensor": what the sources of `parki.vjp` feel.
    transposed_pair : tuple (str, array or None), optional
        A kernel whose transpose the sum is the far field of, and normals of the targets, shape
        (3, Nt), if it has any. The near field is that transpose's own, and comes after what is
        wanted, as one more result of the shape of the kernel's density, (rows, Nt).
    pipeline : Pipeline, optional
        What does the work: one device by default, or `parki.distributed`'s slab of a rank.
    """

    once: bool = False
    density: Any = None
    tensors: Any = None
    transposed_pair: tuple[str, Any] | None = None
    pipeline: Pipeline | None = None


class Plan:
    """An Ewald sum for fixed points: set up once, apply to many densities.

    Parameters
    ----------
    kernel : {"stokes_comb", "stokes_sl", "stokes_dl", "stokes_rotlet", "stokes_dipole", "laplace"}
        What to sum.
    trg, src : array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources, in the unit of ``options.box``; NumPy, CuPy, or anything with DLPack
        (PyTorch, JAX) or ``__cuda_array_interface__``, any strides. Points outside the box are
        wrapped along periodic axes; ``dl_mean="flux"`` takes them as they are. Not modified. Pass
        the same object twice when targets are sources. Without sources the sums are zero.
    norms : array, shape (3, Ns), optional
        Normals at the sources; for the double layer only.
    options : EwaldOptions
        May take the place of ``norms`` for kernels without normals.
    want : {"u", "p", "grad_u", "stress"}, or a tuple of these
        What a call returns: the velocity (or Laplace's potential), the pressure, the gradient
        ``[i, j] = d u_i / d x_j``, the stress ``-p I + grad u + (grad u)^T``; for a tuple, a tuple
        of arrays in its order. Kernels and parameters depend on it. Laplace has no pressure and no
        stress; the pressure of rotlets is zero. With three periodic directions and a net force,
        pressure and stress lack the mean pressure gradient ``8 pi (sum f) / V``.
    systems : sequence of int, or tuple of two, optional
        For many systems that have nothing to do with each other, with the box and the tolerance in
        common: where the points of each begin, and last how many points there are. Or one such
        sequence for targets and one for sources. All systems are summed at once.

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
    pipeline : Pipeline
        The stages for the plan's points.

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

    pipeline: Pipeline

    def __init__(
        self,
        kernel: str,
        trg: Any,
        src: Any,
        norms: Any = None,
        options: EwaldOptions | None = None,
        *,
        want: str | tuple[str, ...] = "u",
        systems: Any = None,
    ) -> None:
        self._make((kernel, trg, src, norms, options), want, systems, Request())

    def _make(
        self,
        given: tuple[Any, ...],
        want: str | tuple[str, ...],
        systems: Any,
        request: Request,
    ) -> Any:
        """Check and place what is given; return the sum of the density that is requested."""
        start = time.perf_counter()
        kernel, trg, src, norms, options = given
        if isinstance(norms, EwaldOptions) and options is None:
            norms, options = None, norms
        self._lock = threading.RLock()  # calls share memory: one after the other
        self._done: Any = None
        self._transpose: Transpose | None = None
        self._flux_seen = False  # by `look_for_flux`
        self.pipeline = request.pipeline or OneDevice()
        result: Any = None
        with self.pipeline.together():
            checked = check_arguments(kernel, trg, src, norms, options)
            options, dtype = checked.options, np.dtype(checked.arrays["src"].dtype)
            names = check_want(kernel, want, request.tensors is not None)
            check_wanted(options.p2p_method, options.radial, names)
            check_spreading(options.p2g_method, kernel)
            self.want = want if isinstance(want, str) else names
            of, normals = request.transposed_pair or ("", None)
            self.task = Task(kernel, checked.space, options.arithmetic(dtype), options, names, of)
            self.kernel, self.space, self.dtype = kernel, checked.space, dtype
            self.options = options
            found = check_systems(systems, checked.arrays, checked.space, options)
            if request.tensors is not None:
                shape = TENSOR_ROWS, checked.arrays["trg"].shape[1]
                values = self._as_points("tensors", request.tensors)
                checked.arrays["tensors"] = check_density("tensors", values, shape, of="targets")
            if normals is not None:
                shape, values = (
                    checked.arrays["trg"].shape,
                    self._as_points("transposed_pair[1]", normals),
                )
                checked.arrays["norms"] = check_density(
                    "transposed_pair[1]", values, shape, of="targets"
                )
            self.points = self._points(checked, found)
            values = self._density(request.density) if request.once else None
            alone = request.pipeline is None
            if alone and not found:
                kept, self._done = plan_cache.take(self.task, request.once)
                self.pipeline = kept or self.pipeline
            with self._exclusive():
                self.pipeline = self._placed(self.points, request.once)
                if request.once:
                    result = as_given(self._summed(values, None, unwatched), request.density)
            if alone and not (request.once or found) and self.setup is not None:
                plan_cache.keep(self.task, False, OneDevice(self.setup, self.memory))
        self.seconds = {"plan": time.perf_counter() - start}
        return result

    def _points(self, given: Arguments, systems: Systems | None) -> Points:
        """Return the points with what they decide; their box is that of the plan, if it has one."""
        survey = self.pipeline.survey(self.task, given.arrays, given.extents)
        warn_of_images(self.task, survey)
        # Where there is nothing to sum the next points choose all anew, and so do these the box.
        new = self.pipeline.setup is None or None not in self.options.box
        if new or not all(survey.totals):
            box = resolve(self.options, survey.extents)
        else:
            box = self.points.box
            check_stay(self.options, box, given.extents)
        components, sources = self.task.sum.source_components, survey.totals[1]
        if systems:
            sources = int(np.diff(systems.sources).max())
        tolerance = self.options.random_tolerance(sources, components, self.task.dtype)
        return Points(given.arrays, given.extents, survey, box, tolerance, systems)

    def _placed(self, points: Points, once: bool) -> Pipeline:
        """Return the pipeline for points."""
        if all(points.survey.totals) and self.task.want:
            return self.pipeline.placed(self.task, points, once)
        return self.pipeline.empty()

    @property
    def n_targets(self) -> int:
        """Targets of this rank."""
        return self.points.targets

    @property
    def n_sources(self) -> int:
        """Sources of this rank."""
        return self.points.sources

    @property
    def box(self) -> Any:
        """Edge lengths, shape (3,)."""
        return self.points.box.box

    @property
    def origin(self) -> Any:
        """Corner of the box, shape (3,)."""
        return self.points.box.origin

    @property
    def setup(self) -> Setup | None:
        """What box and parameters decide; None if there is nothing to sum."""
        return self.pipeline.setup

    @property
    def parameters(self) -> Parameters | None:
        """What was chosen; None if there is nothing to sum."""
        return None if self.setup is None else self.setup.parameters

    @property
    def memory(self) -> Memory | None:
        """Bytes that the plan needs, by part, as predicted for the points it was made of."""
        return self.pipeline.memory

    # ------------------------------------------------------------------ other points
    def update_points(self, trg: Any, src: Any, norms: Any = None, *, systems: Any = None) -> None:
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
        systems
            As for the plan, where it has systems. Default: as before.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of a new plan.
        """
        start = time.perf_counter()
        with self._exclusive(), self.pipeline.together():
            given = check_arguments(self.kernel, trg, src, norms, self.options, self.space)
            if given.arrays["src"].dtype != self.dtype:
                raise ParkiTypeError(
                    f"trg has dtype {given.arrays['trg'].dtype}, but the plan was made for "
                    f"{self.dtype}; convert the points, or make a new plan"
                )
            points = self._points(given, self._systems_of(given, systems))
            pipeline = self._placed(points, False)
        self.points, self.pipeline = points, pipeline
        self.seconds = {**self.seconds, "update": time.perf_counter() - start}

    def _systems_of(self, given: Arguments, systems: Any) -> Systems | None:
        """Return the systems of other points; those that there were, if they are the same."""
        old = self.points.systems
        if systems is None:
            systems = old and (old.targets, old.sources)
        elif old is None:
            raise ParkiValueError(
                "systems was given, but the plan was made without; make a new plan with systems"
            )
        new = check_systems(systems, given.arrays, self.space, self.options)
        return old if new == old else new

    # ------------------------------------------------------------------ apply
    def __call__(self, dens: Any, out: Any = None) -> Any:
        """Return what is wanted of a density.

        On a device the second call keeps lists of the pairs in reach, some five bytes for each, if
        they take at most a third of the free memory and the plan need not be deterministic; later
        calls take them.

        Parameters
        ----------
        dens : array, shape (Ns,), (3, Ns), (6, Ns) or (3, 3, Ns), or with k first
            Charges (Laplace); f, q or torques t; rows 0-2 f of the single layer and 3-5 q of the
            double layer; dipoles D. Same dtype and memory as the points. Of k densities at once,
            such as (k, 3, Ns), results have k first, too: pairs are computed for several of them.
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
        with self._exclusive():
            results = self._apply(dens, out, unwatched)
        return as_given(results, dens) if out is None else results

    def timed(self, dens: Any) -> tuple[Any, dict[str, float]]:
        """Return what is wanted and the seconds of each stage.

        By events on a device, which waits until the host has launched all stages: an application
        of few points takes as long as these launches, which no stage's time has in it.
        """
        watch = self.space.adapter.watch(self.pipeline.ahead)
        with self._exclusive():
            results = self._apply(dens, None, watch)
        return as_given(results, dens), watch.seconds()

    def adjoint(self, values: Any) -> Any:
        """Return the transposed sum: of values at the targets, what they make at the sources.

        ``<values, plan(dens)> = <plan.adjoint(values), dens>`` for every density, but for rounding.
        The transpose is a sum of another kernel from the targets to the sources, and costs about
        as much; ``docs/derivatives.md`` has the table. Its set-up is made by the first call, with
        the plan's parameters, and kept.

        Parameters
        ----------
        values : array, or tuple of arrays if ``want`` is one
            Of the shapes that a call returns, in the dtype and memory of the points; or k of them
            at once, with k first.

        Returns
        -------
        array, shape (Ns,), (3, Ns), (6, Ns) or (3, 3, Ns), or with k first
            As a density, in the library of ``values``. The rms of its error over the sources is at
            most ``tolerance * sqrt(Q) / l**p``, with p as in `promise` and Q the sum of the squared
            values; times the rms of the normals for double layers, and sqrt(3) for dipoles.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If the values are impossible, or if parki has no sum for the transpose, as for the
            pressures and stresses of double layers and dipoles.
        ParkiMemoryError
            If there is no room for the transposed sum.
        """
        many = not isinstance(self.want, str)
        if many and not (isinstance(values, (tuple, list)) and len(values) == len(self.want)):
            raise ParkiTypeError(
                f"values is a {type(values).__name__}; expected a tuple of {len(self.want)} "
                "arrays, as want has"
            )
        given = values if many else (values,)
        with self._exclusive(), self.pipeline.together():
            shapes, rows = self._shapes(), {}
            for place, (name, shape) in enumerate(shapes.items()):
                label = f"values[{place}]" if many else "values"
                array = self._as_points(label, given[place])
                how: dict[str, Any] = {"several": True, "single": self.task.mixed}
                rows[name] = check_density(label, array, shape, **how, of="targets")
            sizes = {array.shape[:-2] for array in rows.values()}
            if len(sizes) > 1:
                raise ParkiValueError(
                    f"values have shapes {', '.join(str(tuple(a.shape)) for a in given)}; expected "
                    "as many in each, one or k"
                )
            (several,) = sizes
            several_rows = {n: a if several else a[None] for n, a in rows.items()}
            self._transpose = self._transpose or Transpose(self.task)
            found = self._transpose(self.points, self.pipeline, several_rows)
        shape = self.task.sum.density_shape(self.n_sources)
        return as_given(found.reshape(*several, *shape), given[0])

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Wait for other threads and, on a device, other streams that use the plan's memory."""
        with self._lock:
            if self.space.on_device:
                forks.refuse(self.space.name)  # before CUDA says something else
                captures.refuse()
            with self.space.adapter.exclusive(self._done) as end:
                try:
                    yield
                finally:
                    self._done = end()

    def _apply(self, dens: Any, out: Any, watch: Watch) -> Any:
        with self.pipeline.together():
            return self._summed(self._density(dens), out, watch)

    def _summed(self, values: Any, out: Any, watch: Watch) -> Any:
        """Return what is wanted of a density, or of several, that were checked."""
        shapes = self._shapes()
        if several := values.ndim == 3:
            shapes = {name: (len(values), *shape) for name, shape in shapes.items()}
        results = check_outputs(out, self.want, shapes, values, self.space)
        summed = self.task.want if self.pipeline.setup else ()
        summed += ("transposed_pair",) if summed and self.task.transposed_pair else ()
        if summed:
            parts = stress.split(results, summed, self.space.array_module)
            if several:
                self.pipeline.apply(values, parts, watch)
            else:
                each = {name: array[None] for name, array in parts.items()}
                self.pipeline.apply(values[None], each, watch)
            stress.combine(results, parts)
            summed += ("stress",)
        for name in results.keys() - set(summed):
            results[name].fill(0)
        return results[self.want] if isinstance(self.want, str) else tuple(results.values())

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each result that is wanted."""
        count = self.n_targets
        shapes = {n: result_shape(self.kernel, n, count) for n in self.task.names}
        return shapes | (
            {"transposed_pair": (self.task.pair.rows, count)} if self.task.transposed_pair else {}
        )

    def _density(self, dens: Any) -> Any:
        """Return a density as (rows, sources), or several as (k, rows, sources), C-contiguous.

        Refuse an impossible one.
        """
        values = self._as_points("dens", dens)
        shape = self.task.sum.density_shape(self.n_sources)
        values = check_density("dens", values, shape, several=True, single=self.task.mixed)
        if not self._flux_seen:
            self._flux_seen = look_for_flux(self.task, self.points, values, self.pipeline.total)
        return values

    def _as_points(self, name: str, given: Any) -> Any:
        """Return an array in the dtype and memory of the points, or refuse it."""
        values = as_array(name, given)
        check_space({name: values}, self.space)
        if values.dtype != self.dtype:
            raise ParkiTypeError(
                f"{name} has dtype {values.dtype}, but the points have {self.dtype}; convert one"
            )
        return values

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
            Of k densities at once, arrays of shape (k,); of S systems, (S,), or both.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If the density has another shape, is not finite, or is in other memory than the points.
        """
        with self.pipeline.together():
            bounds = promise(self.task, self.points, self.pipeline, dens)
        return bounds[0] if isinstance(self.want, str) else bounds

    def check(self, dens: Any, targets: int = 32) -> Check | Checks:
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
            flow) and ``reference`` (the other sum's tolerance); `str` gives them as a line, and
            a tuple as a line for each result.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            If the density is impossible, or points were seen to have changed.
        ParkiMemoryError
            If there is no room for the other sum.
        """
        sample = Sample(self.task, self.points, dens, targets)
        found, promises = self(sample.density), self.promise(sample.density)
        _, exact = plan_and_sum(sample.given, sample.density64, tuple(self.task.names))
        if isinstance(self.want, str):
            return sample.errors((found,), (promises,), exact)[0]
        return sample.errors(found, promises, exact)

    def as_linear_operator(self) -> Any:
        """Return the plan as a linear operator on flattened densities, for GMRES and LSMR.

        SciPy's `scipy.sparse.linalg.LinearOperator`, or CuPy's on a device. Its matrix-vector
        product takes a vector of length rows x Ns and returns the flattened result; its ``rmatvec``
        is `adjoint`. Products with a matrix sum its columns at once. Whole numbers and other real
        types are converted to the plan's, in which the sum is computed; the result has the type
        that the product with a matrix of the plan's type would have.

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
        shapes = self._shapes()[self.want], self.task.sum.density_shape(self.n_sources)
        return linear_operator(self, self.adjoint, shapes, self.dtype, self.space)

    def describe(self) -> str:
        """Return what the plan is and what was chosen, as text of a few lines."""
        return describe(self.task, self.points, self.pipeline) + self.pipeline.describe()

    def __repr__(self) -> str:
        return f"<parki.Plan: {headline(self.task, self.points)}>"

    def _repr_html_(self) -> str:
        return table(
            "parki.Plan", facts(self.task, self.points, self.pipeline, self.seconds["plan"])
        )

    def __reduce__(self) -> Any:
        raise ParkiTypeError(
            "a Plan cannot be pickled or copied: it holds memory and compiled kernels of this "
            "process; pass on kernel, points and options, and make a plan of them there"
        )


def plan_and_sum(
    given: tuple[Any, ...],
    dens: Any,
    want: str | tuple[str, ...] = "u",
    tensors: Any = None,
    transposed_pair: tuple[str, Any] | None = None,
) -> tuple[Plan, Any]:
    """Return a plan for one density, and what is wanted of it.

    ``given`` has the first five arguments of `Plan`; others are those of `Request`.
    """
    plan = Plan.__new__(Plan)
    request = Request(once=True, density=dens, tensors=tensors, transposed_pair=transposed_pair)
    return plan, plan._make(given, want, None, request)


def sum_once(
    kernel: str,
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any,
    options: EwaldOptions | None,
    want: str | tuple[str, ...],
    **others: Any,
) -> Any:
    """Return the sum of one density, by what the last such sum left; leave it for the next.

    ``others`` go to `plan_and_sum`.
    """
    plan, result = plan_and_sum((kernel, trg, src, norms, options), dens, want, **others)
    if isinstance(plan.pipeline, OneDevice) and plan.setup is not None:
        plan_cache.keep(plan.task, True, plan.pipeline, plan._done)
    return result
