"""`AnyPlan`: what plans of one device and of many ranks do: apply, transpose, derive, check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast, overload

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.checks import Check, Checks, Sample
from parki.ewald.derivatives.linear_operator import linear_operator
from parki.ewald.derivatives.vjp import pulled, pushed
from parki.ewald.pipeline.invalid_values import InvalidValues
from parki.ewald.pipeline.protocol import unwatched
from parki.ewald.placement.placed_plan import PlacedPlan
from parki.ewald.points import check_fields
from parki.ewald.points.arguments import check_net
from parki.interchange import as_array, as_given
from parki.typing import (
    AnyArray,
    Array,
    ArrayT,
    DerivedBy,
    InputName,
    ResultName,
    Wanted,
)


class AnyPlan(PlacedPlan[Wanted]):
    """What plans of one device and of many ranks have in common: see `PlacedPlan`."""

    # ------------------------------------------------------------------ apply
    @overload
    def __call__(self: AnyPlan[ResultName], dens: ArrayT, out: ArrayT | None = None) -> ArrayT: ...
    @overload
    def __call__(
        self: AnyPlan[tuple[ResultName, ...]], dens: ArrayT, out: Sequence[ArrayT] | None = None
    ) -> tuple[ArrayT, ...]: ...
    def __call__(self, dens: AnyArray, out: AnyArray = None) -> Any:
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
        with self._placement.access(), self._placement.collective("plan(dens)"):
            values = self._density(dens, pending=True)
            results = self._combination.apply(values, out, unwatched)
            if self._invalid is not None:
                self._invalid.check(values, self._combination.density_shape)
            return as_given(results, dens) if out is None else results

    def product(self, values: AnyArray) -> Any:
        """Return the results of a density (rows, N), which is not checked.

        Iterations take it, as their vectors are made of products; they wait for no device.
        """
        with self._placement.access(), self._placement.collective("plan(dens)"):
            values = self.space.array_module.ascontiguousarray(values)
            return self._combination.apply(values, None, unwatched)

    def _density(self, dens: AnyArray, pending: bool = False) -> Any:
        """Return a density as (rows, sources), or several as (k, rows, sources), C-contiguous.

        Refuse an impossible one. If ``pending``, a device may count impossible values. The host
        waits for the number after all is launched, so that the device does not wait for the host.
        """
        first = self._combination.terms[0].sum
        pending = pending and self._placement.ranks.serial and self.space.adapter.records()
        values = first.density(dens, self._combination.density_shape, not pending)
        if pending and values.size:
            if self._invalid is None:
                self._invalid = InvalidValues(self.space, self.dtype, first.task.mixed)
            self._invalid.count(values)
        if self._neutral:
            check_net("dens", values, self.options)
        return values

    def timed(self, dens: Array) -> tuple[Any, dict[str, float]]:
        """Return the wanted results and the seconds of each stage.

        By events on a device, which waits until the host has launched all stages: an application
        of few points takes as long as these launches, which no stage's time has in it.
        """
        with self._placement.access(), self._placement.collective("plan(dens)"):
            watch = self.space.adapter.watch(self.terms[0].sum.pipeline.asynchronous)
            values = self._density(dens, pending=True)
            results = self._combination.apply(values, None, watch)
            if self._invalid is not None:
                self._invalid.check(values, self._combination.density_shape)
            return as_given(results, dens), watch.seconds()

    @overload
    def adjoint(self: AnyPlan[ResultName], values: ArrayT) -> ArrayT: ...
    @overload
    def adjoint(self: AnyPlan[tuple[ResultName, ...]], values: Sequence[ArrayT]) -> ArrayT: ...
    def adjoint(self, values: AnyArray) -> Any:
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
            If the values are impossible, or of a sum without a call that has no transpose.
        ParkiMemoryError
            If there is no room for the transposed sum.
        """
        with self.exclusive(), self._placement.collective("adjoint"):
            rows, several = check_fields(
                "values",
                values,
                self.want,
                self._combination.shapes(),
                self.space,
                self.dtype,
                single=self.task.mixed,
            )
            dens = self._combination.transposed(rows, self._again)
        like = values if isinstance(self.want, str) else values[0]
        return as_given(dens.reshape(several + self._combination.density_shape), like)

    # ------------------------------------------------------------------ derivatives
    @overload
    def vjp(
        self: AnyPlan[ResultName],
        dens: Array | None,
        values: ArrayT,
        wrt: tuple[DerivedBy, ...] = ("dens",),
    ) -> dict[str, ArrayT]: ...
    @overload
    def vjp(
        self: AnyPlan[tuple[ResultName, ...]],
        dens: Array | None,
        values: Sequence[ArrayT],
        wrt: tuple[DerivedBy, ...] = ("dens",),
    ) -> dict[str, ArrayT]: ...
    def vjp(
        self, dens: AnyArray, values: AnyArray, wrt: tuple[DerivedBy, ...] = ("dens",)
    ) -> dict[str, Any]:
        """Return the derivatives of ``<values, u>``, ``u = plan(dens)``: see `parki.vjp`."""
        with self.exclusive(), self._placement.collective(f"vjp by {wrt}"):
            cloud = self.points
            return pulled(
                self._request.kernel,
                cloud.trg,
                cloud.src,
                dens,
                cloud.norms,
                self.options,
                values=values,
                wrt=wrt,
                want=self.want,
                systems=cloud.systems,
                exclude=cloud.labels,
                boxes=self._placement.boxes,
                ranks=self._placement.ranks,
            )

    @overload
    def jvp(
        self: AnyPlan[ResultName], dens: Array | None, tangents: dict[InputName, ArrayT]
    ) -> ArrayT: ...
    @overload
    def jvp(
        self: AnyPlan[tuple[ResultName, ...]],
        dens: Array | None,
        tangents: dict[InputName, ArrayT],
    ) -> tuple[ArrayT, ...]: ...
    def jvp(self, dens: AnyArray, tangents: AnyArray) -> Any:
        """Return the first-order change of ``plan(dens)``: see `parki.jvp`."""
        with self.exclusive(), self._placement.collective(f"jvp by {[*tangents]}"):
            cloud = self.points
            return pushed(
                self._request.kernel,
                cloud.trg,
                cloud.src,
                dens,
                cloud.norms,
                self.options,
                tangents=tangents,
                want=self.want,
                systems=cloud.systems,
                exclude=cloud.labels,
                boxes=self._placement.boxes,
                ranks=self._placement.ranks,
            )

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
        with self.exclusive(), self._placement.collective("promise"):
            bounds = self._combination.bounds(self._density(dens))
        return bounds[0] if isinstance(self.want, str) else bounds

    @overload
    def check(self: AnyPlan[ResultName], dens: Array, targets: int = 32) -> Check: ...
    @overload
    def check(self: AnyPlan[tuple[ResultName, ...]], dens: Array, targets: int = 32) -> Checks: ...
    def check(self, dens: AnyArray, targets: int = 32) -> Check | Checks:
        """Measure the error of the sum of a density, at a few targets chosen at random.

        Over ranks these are some of all ranks' targets, and all ranks get the same answer.

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
        ranks = self._placement.ranks
        with self.exclusive(), ranks.collective(f"check at {targets} targets"):
            sample, values = Sample(self.n_targets, targets, ranks), as_array("dens", dens)
            if values.ndim > len(self._combination.density_shape):
                raise ParkiValueError(
                    f"dens has shape {values.shape}; check takes one density at a time, such as "
                    "dens[0]"
                )
            fields, bounds = self(values), self.promise(values)
            one = isinstance(self.want, str)
            results = dict(zip(self._request.results, (fields,) if one else fields, strict=True))
            exact = self._combination.exact(sample, self._density(values))
            flat = {n: a.reshape(len(exact[n]), -1) for n, a in results.items()}
            errors = sample.errors(
                flat, exact, [self._rms(b, sample) for b in ((bounds,) if one else bounds)]
            )
        return errors[0] if one else errors

    def _rms(self, bound: Any, sample: Sample) -> float:
        """Return a bound for sampled targets, each of which has the bound of its system."""
        systems = self.points.systems
        if systems is None:
            return float(bound)
        numbers = np.searchsorted(systems.targets, sample.chosen, "right") - 1
        return float(np.sqrt(np.mean(np.square(bound)[numbers])))

    def as_linear_operator(self) -> Any:
        """Return the plan as a linear operator on flattened densities, for GMRES and LSMR.

        SciPy's `scipy.sparse.linalg.LinearOperator`, or CuPy's on a device. Its matrix-vector
        product takes a vector of length rows x Ns and returns the flattened result, or all of them,
        one after the other; its ``rmatvec`` is `adjoint`. Products with a matrix sum its columns at
        once. Whole numbers and other real types are converted to the plan's, in which the sum is
        computed; the result has the type that the product with a matrix of the plan's type would
        have. Complex vectors are two real ones, which are summed at once.

        Over ranks it has the points of all ranks, in their order: each rank has whole vectors, and
        runs the same solver.
        """
        density, adjoint = self._combination.density_shape, cast(Any, self.adjoint)
        shapes: list[Any] = [*self._combination.shapes().values()]
        *_, count = shapes[0]
        ends = np.cumsum([0, *(math.prod(shape[:-1]) for shape in shapes)]).tolist()
        rows = [slice(start, end) for start, end in pairwise(ends)]

        def joined(dens: AnyArray) -> Any:
            results: Any = self(dens)
            many: Any = dens.shape[: dens.ndim - len(density)]
            joint = np.empty_like(results[0], shape=(*many, ends[-1], count))
            for place, result in zip(rows, results, strict=True):
                joint[..., place, :] = result.reshape(joint[..., place, :].shape)
            return joint

        def back(values: AnyArray) -> Any:
            parts = zip(rows, shapes, strict=True)
            many = values.shape[:-2]
            return adjoint([values[..., place, :].reshape(many + shape) for place, shape in parts])

        with self._placement.collective("as_linear_operator"):
            self.refuse_voltage("as_linear_operator")
            if isinstance(self.want, str):
                return self.operator(self, adjoint, (shapes[0], density))
            return self.operator(joined, back, ((ends[-1], count), density))

    def refuse_voltage(self, needed_by: str) -> None:
        """Refuse a plan whose results have a voltage in them."""
        if self.options.voltage:
            raise ParkiValueError(
                f"{needed_by} needs a linear function of densities, but voltage is "
                f"{self.options.voltage:g}; leave voltage out, and add its potential, "
                "voltage * z / H, to the results"
            )

    def operator(
        self, apply: Any, adjoint: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]
    ) -> Any:
        """Return a function and its transpose, made of the plan, as a linear operator."""
        ranks = self._placement.ranks
        return linear_operator(apply, adjoint, shapes, self.dtype, self.space, ranks)

    def shapes_for(self, needed_by: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of result and density; refuse a plan of several results."""
        self.refuse_voltage(needed_by)
        if not isinstance(self.want, str):
            raise ParkiValueError(
                f"{needed_by} needs a plan with one result, but want is {self.want}; make a plan "
                "with want='u'"
            )
        return self._combination.shapes()[self.want], self._combination.density_shape

    def _again(
        self, kernel: Any, trg: AnyArray, src: AnyArray, norms: AnyArray, options: Any, **how: Any
    ) -> Any:
        """Return another plan on the same device, or on the same ranks."""
        return AnyPlan(self._placement.ranks, kernel, trg, src, norms, options, **how)
