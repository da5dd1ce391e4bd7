"""`Plan`: the work that depends on geometry and options, done once; apply it to many densities.

This is what users see. A `PlacedSum` does the work, here and in `parki.distributed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, overload

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiTypeError
from parki.ewald.checks import Check, Checks, Sample
from parki.ewald.choice.memory import Memory
from parki.ewald.choice.parameters import Parameters
from parki.ewald.derivatives.linear_operator import linear_operator, shapes_of
from parki.ewald.derivatives.transpose import Transpose
from parki.ewald.describe import describe, facts, headline
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.placed_sum import PlacedSum, sum_once
from parki.ewald.pipeline.protocol import Pipeline
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points import take_options
from parki.ewald.promise import promise
from parki.ewald.task import Points, Request, Task
from parki.html import table
from parki.interchange import as_given
from parki.memory import telling
from parki.runtime import ExecutionSpace
from parki.typing import AnyKernel, Array, ArrayT, Box, OptionKeywords, ResultName, Unpack, Wanted


def has_wall(given: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    """Return whether the options among the arguments of a plan or a call have a wall."""
    options = [each for each in (*given, *keywords.values()) if isinstance(each, EwaldOptions)]
    return keywords.get("wall") is not None or any(each.walled for each in options)


class Uncopied:
    """What is neither copied nor pickled, as copies would share what moves with the points."""

    def __reduce__(self) -> Any:
        raise ParkiTypeError(
            "a Plan cannot be pickled or copied: it holds memory and compiled kernels of this "
            "process; pass on kernel, points and options, and make a plan of them there"
        )


class AnyPlan(Uncopied, Generic[Wanted]):
    """What plans of one device and of many ranks have in common: views on a `PlacedSum`."""

    kernel: str
    space: ExecutionSpace
    want: Any
    _sum: PlacedSum
    # Plans of composites, and of many boxes. The package sets them: they are made of these plans.
    composed: ClassVar[Any]
    batched: ClassVar[Any] = None

    def __new__(cls, kernel: Any = None, *given: Any, **keywords: Any) -> Any:
        """Return a plan; near a wall, or for many boxes, one of several plans."""
        if keywords.get("boxes") is not None and cls.batched is not None:
            return cls.batched(kernel, *given, **keywords)
        if has_wall(given, keywords):
            return cls.composed(kernel, *given, **keywords)
        return super().__new__(cls)

    def __init__(self, placed: PlacedSum) -> None:
        self._sum, self.want, self.dtype = placed, placed.want, placed.dtype
        self.kernel, self.space = placed.task.kernel, placed.task.space
        self.seconds = placed.seconds  # that "plan" took, and the last "update" of points
        self._transpose: Transpose | None = None

    @property
    def task(self) -> Task:
        """What is asked of the plan, in its present box."""
        return self._sum.task

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        return self.task.options

    @property
    def points(self) -> Points:
        """The points as they were given, and their box."""
        return self._sum.given

    @property
    def pipeline(self) -> Pipeline:
        """The stages for the plan's points."""
        return self._sum.pipeline

    @property
    def n_targets(self) -> int:
        """Targets of this rank."""
        return self._sum.counts[0]

    @property
    def n_sources(self) -> int:
        """Sources of this rank."""
        return self._sum.counts[1]

    @property
    def box(self) -> NDArray[np.float64]:
        """Edge lengths, shape (3,); of a tilted box its lattice vectors, shape (3, 3)."""
        lattice = self.points.lattice
        lengths = lattice.by_user(lattice.sides)
        if self.options.cell is None:
            return lengths
        rows = zip(self.options.box, np.diag(lengths), strict=True)
        return np.array([own if row is None else row for row, own in rows])

    @property
    def origin(self) -> NDArray[np.float64]:
        """Corner of the box, shape (3,)."""
        return self.points.lattice.by_user(self.points.lattice.origin)

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

    # ------------------------------------------------------------------ apply
    @overload
    def __call__(self: AnyPlan[ResultName], dens: ArrayT, out: ArrayT | None = None) -> ArrayT: ...
    @overload
    def __call__(
        self: AnyPlan[tuple[ResultName, ...]], dens: ArrayT, out: Sequence[ArrayT] | None = None
    ) -> tuple[ArrayT, ...]: ...
    def __call__(self, dens: Any, out: Any = None) -> Any:
        """Return the wanted results of a density.

        On a device the second call keeps lists of the pairs in reach, some five bytes for each, if
        they take at most a third of the free memory and the plan need not be deterministic; later
        calls take them.

        Parameters
        ----------
        dens : array, shape (Ns,), (3, Ns), (6, Ns) or (3, 3, Ns), or with k first
            As for the call of the same name as the kernel, such as `parki.laplace`. Same dtype and
            memory as the points. With k densities at once, such as (k, 3, Ns), results have k
            first, too; pairs are computed for several.
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
        return self._sum(dens, out)

    def timed(self, dens: Array) -> tuple[Any, dict[str, float]]:
        """Return the wanted results and the seconds of each stage.

        By events on a device, which waits until the host has launched all stages: an application
        of few points takes as long as these launches, which no stage's time has in it.
        """
        watch = self.space.adapter.watch(self.pipeline.ahead)
        return self._sum(dens, None, watch), watch.seconds()

    @overload
    def adjoint(self: AnyPlan[ResultName], values: ArrayT) -> ArrayT: ...
    @overload
    def adjoint(self: AnyPlan[tuple[ResultName, ...]], values: Sequence[ArrayT]) -> ArrayT: ...
    def adjoint(self, values: Any) -> Any:
        """Return the transposed sum: of values at the targets, what they make at the sources.

        ``<values, plan(dens)> = <plan.adjoint(values), dens>`` for every density, up to rounding.
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
        with self._sum.exclusive(), self.pipeline.together("adjoint"):
            rows, several = self._sum.values(values)
            task, made = self.task, self._transpose
            if made is None or not made.task.alike(task):
                self._transpose = made = Transpose(task)
            found = made(self._sum.points, self.pipeline, rows)
            if not self._sum.order.kept:
                self._sum.order.back(found.copy(), found)
        shape = several + self.task.sum.density_shape(self.n_sources)
        like = values if isinstance(self.want, str) else values[0]
        return as_given(found.reshape(shape), like)

    # ------------------------------------------------------------------ views
    def promise(self, dens: Array) -> Any:
        """Return the bound of the rms error that the tolerance promises for a density.

        ``tolerance * sqrt(Q) / l**p`` with Q the sum of ``|f|^2`` (single layer), ``|q|^2 |n|^2``
        (double layer), ``|t|^2`` (rotlets), ``|D|^2`` (dipoles) or ``q^2`` (Laplace), l the cube
        root of the box's volume, p = 2 for the double layer, rotlets and dipoles and 1 otherwise;
        the combined sum adds its two bounds. For the pressure and the gradient, whose error is the
        rms over targets of its Frobenius norm, p is greater by one. The stress has the errors of
        its parts: sqrt(3) times the pressure's and twice the gradient's. Rounding comes
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
        with self._sum.exclusive(), self.pipeline.together("promise"):
            bounds = promise(self.task, self.points, self.pipeline, dens)
        return bounds[0] if isinstance(self.want, str) else bounds

    def describe(self) -> str:
        """Return the sum, the points and the chosen parameters as text of a few lines."""
        return describe(self.task, self.points, self.pipeline) + self.pipeline.describe()

    def __repr__(self) -> str:
        return f"<parki.Plan: {headline(self.task, self.points)}>"

    def _repr_html_(self) -> str:
        return table(
            "parki.Plan", facts(self.task, self.points, self.pipeline, self.seconds["plan"])
        )


class Plan(AnyPlan[Wanted]):
    """An Ewald sum for fixed points: set up once, apply to many densities.

    Parameters
    ----------
    kernel : str
        What to sum: a name of `parki.typing.KernelName`, or what `parki.kernel` returns.
    trg, src : array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources, in the unit of ``options.box``; NumPy, CuPy, or anything with DLPack
        (PyTorch, JAX) or ``__cuda_array_interface__``, any strides. Points outside the box are
        wrapped along periodic axes; ``dl_mean="flux"`` takes them as they are. Not modified. Pass
        the same object twice when targets are sources. Without sources the sums are zero.
    norms : array, shape (3, Ns), optional
        Normals at the sources; for the double layer only.
    options : EwaldOptions
        May take the place of ``norms`` for kernels without normals.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``: ``periodicity=3, box=[1, 1, 1]``.
    want : {"u", "p", "grad_u", "stress"}, or a tuple of these
        What a call returns: the velocity (or Laplace's potential), the pressure, the gradient
        ``[i, j] = d u_i / d x_j``, the stress ``-p I + grad u + (grad u)^T``; for a tuple, a tuple
        of arrays in its order. Kernels and parameters depend on it. Laplace has no pressure and no
        stress; the pressure of rotlets is zero. With three periodic directions and a net force,
        pressure and stress lack the mean pressure gradient ``8 pi (sum f) / V``.
    systems : sequence of int, or tuple of two, optional
        For many systems that have nothing to do with each other, with the tolerance in common:
        where the points of each begin, and last how many points there are. Or one such sequence for
        targets and one for sources. All systems are summed at once.
    boxes : array, shape (S, 3) or (S, 3, 3), optional
        Edge lengths or lattice vectors for each of S systems, in place of ``box``. Systems with
        equal boxes are summed at once. In float64, with three periodic axes, so are boxes of one
        shape, such as cubes, for all sums without a length of their own.
    exclude : array of int, shape (N,), or tuple of two, (Nt,) and (Ns,), optional
        Labels, such as the number of a body, a panel or a molecule: of a target and a source with
        the same label, one image is left out, as if it were not there. It is the nearest one, or
        one of two that are equally near; ``exclude_image="given"`` takes the positions as they are
        given. A negative number is no label. One array serves targets and sources. A label takes a
        time that grows with the product of its targets and sources. Not for sums of blobs or
        spheres, near a wall, or over ranks.

    Attributes
    ----------
    box : ndarray, shape (3,) or (3, 3)
        Edge lengths or lattice vectors, of the options or the extent of the points.
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

    Notes
    -----
    With ``boxes`` this returns a `parki.ewald.composed.batch.BatchedPlan`, which can be called, and
    has `adjoint`, `vjp`, `jvp`, `promise`, `describe`, `update_points` and `as_linear_operator`.

    With ``options.wall`` this returns a `parki.ewald.composed.plan.ComposedPlan`, which can be
    called, and has `adjoint`, `promise`, `check`, `describe`, `memory`, `update_points` and
    `as_linear_operator`.

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

    def __init__(
        self,
        kernel: AnyKernel,
        trg: Array,
        src: Array,
        norms: Array | EwaldOptions | None = None,
        options: EwaldOptions | None = None,
        *,
        want: Wanted = "u",  # type: ignore[assignment]
        systems: Any = None,
        boxes: Any = None,
        exclude: Any = None,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        given = kernel, trg, src, *take_options(norms, options, keywords)
        super().__init__(PlacedSum(OneDevice(), given, want, systems, Request(exclude=exclude)))

    def update_points(
        self,
        trg: Array,
        src: Array,
        norms: Array | None = None,
        *,
        systems: Any = None,
        exclude: Any = None,
        box: Box | None = None,
    ) -> None:
        """Give the plan other points, such as the next time step's; there may be more or fewer.

        What hangs on the box and the parameters alone is kept: grid, multiplier, kernels. Where
        the points are no longer spread as they were when parameters were chosen, so that the near
        field would take 1.5 times the work, or errors grow, all is chosen and made anew. On any
        error the plan stays as it was.

        Parameters
        ----------
        trg, src, norms
            As for the plan, with its dtype and in its memory. Where ``box`` gives no length, the
            points must stay in `origin` to `origin` + `box`, the extent of the first ones.
        systems, exclude
            As for the plan, where it has them. Default: as before.
        box : array, shape (3, 3), or 3 lengths
            The present box, such as a sheared suspension's. The first time that tilts
            change, a grid is made for the largest ones; it serves all later ones, as long as the
            extents ``lx``, ``ly`` and ``lz`` of `parki.lattice` stay. For other lengths all is
            chosen and made anew. Default: as before.

        Raises
        ------
        ParkiValueError, ParkiTypeError
            As of a new plan. On a device, which places points before the host has looked at them,
            impossible coordinates may be refused by the plan's next call instead; the plan then has
            its old points.
        """
        self._sum.update_points(trg, src, norms, systems, exclude, box)

    @overload
    def check(self: Plan[ResultName], dens: Array, targets: int = 32) -> Check: ...
    @overload
    def check(self: Plan[tuple[ResultName, ...]], dens: Array, targets: int = 32) -> Checks: ...
    def check(self, dens: Any, targets: int = 32) -> Check | Checks:
        """Measure the error of the sum of a density, at a few targets chosen at random.

        Sums anew, and at these targets once more in float64 with a tolerance 100 times smaller (at
        least 1e-13) and other parameters. Finds what no estimate knows, such as densities that add
        up on a lattice.

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
            If the density is impossible.
        ParkiMemoryError
            If there is no room for the other sum.
        """
        sample = Sample(self.task, self.points, dens, targets)
        found, promises = self(sample.density), self.promise(sample.density)
        once = sample.request(sample.density)
        exact = PlacedSum(OneDevice(), sample.given, self.task.names, None, once).result
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
        shapes = shapes_of(self, "as_linear_operator")
        return linear_operator(self, self.adjoint, shapes, self.dtype, self.space)


@telling
def summed(
    given: tuple[Any, ...],
    dens: Any,
    want: str | tuple[str, ...] = "u",
    exclude: Any = None,
    systems: Any = None,
    boxes: Any = None,
) -> Any:
    """Return the sum of one density, near a wall and in many boxes by a plan of its own.

    ``given`` has the first five arguments of `Plan`; the others are named as there.
    """
    if has_wall(given, {}) or boxes is not None:
        how: dict[str, Any] = {"exclude": exclude, "systems": systems, "boxes": boxes}
        how = {name: each for name, each in how.items() if each is not None}
        plan: Any = Plan(*given, want=want, **how)
        return plan(dens)
    return sum_once(given, dens, want, systems, exclude=exclude)


def plan_and_sum(
    given: tuple[Any, ...], dens: Any, want: str | tuple[str, ...] = "u", **others: Any
) -> tuple[Plan, Any]:
    """Return a plan for one density, and what is wanted of it.

    ``given`` has the first five arguments of `Plan`; ``others`` are those of `Request`.
    """
    placed = PlacedSum(OneDevice(), given, want, None, Request(True, dens, **others))
    plan = Plan.__new__(Plan)
    AnyPlan.__init__(plan, placed)
    return plan, placed.result
