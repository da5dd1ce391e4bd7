"""`SphereMobility`: how forces and torques move spheres, by plans at the same points.

Plans are made when they are needed first, and move together. `parki.suspensions.spheres` checks
arguments, and has the units of users.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from parki.core import AnyPlan, EwaldOptions, Ranks, RecordedSteps, as_points, summed
from parki.errors import ParkiValueError
from parki.suspensions import noise
from parki.suspensions.noise import TorqueFields, White
from parki.suspensions.radii import ACTS, KINDS, MOVES, Radii
from parki.typing import AnyArray

ALL = "all", "all"  # what moves by what, in the sum of forces and their dipoles


class SphereMobility:
    """The mobility of spheres at their present points.

    What acts is a dictionary of arrays (..., 3, N) by "force" and "torque"; what moves is
    "velocity" or "turn". ``factor`` is ``1 / (8 pi viscosity)``.

    Parameters
    ----------
    points : array, shape (3, N)
    sizes : Radii
    options : EwaldOptions
    ranks : Ranks
        Which have spheres in the same fluid.
    attached : object
        What moves with the spheres.
    """

    def __init__(
        self, points: AnyArray, sizes: Radii, options: EwaldOptions, ranks: Ranks, attached: Any
    ) -> None:
        self.sizes, self.ranks, self.shape = sizes, ranks, tuple(points.shape)
        # Until there is a plan, which has them then.
        self._start: Any = points, options, attached
        self._plans: dict[tuple[str, str], Any] = {}
        self._torque_fields: TorqueFields | None = None  # for noise of torques
        self._steps: RecordedSteps | None = None
        self._lanczos: RecordedSteps | None = None
        self._noise_products = noise.FIRST  # which the last noise took
        self._shifted: SphereMobility | None = None
        self._shifting = threading.RLock()

    def elsewhere(self, points: AnyArray, options: EwaldOptions) -> SphereMobility:
        """Return the mobility of the same spheres elsewhere, by plans that are not made yet."""
        return SphereMobility(points, self.sizes, options, self.ranks, self.attached)

    # ------------------------------------------------------------------ points and plans
    @property
    def first(self) -> Any:
        """The plan of velocities by forces, whose points all plans have."""
        return self.plan("velocity", "force")

    @property
    def points(self) -> Any:
        """The centres, shape (3, N), which nobody else changes."""
        return self.first.targets if self._start is None else self._start[0]

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        options: EwaldOptions = self.first.options if self._start is None else self._start[1]
        return options

    @property
    def attached(self) -> Any:
        """What moves with the spheres."""
        return self.first.attached if self._start is None else self._start[2]

    @property
    def steps(self) -> RecordedSteps:
        """The steps of solves, and their memory."""
        self._steps = self._steps or RecordedSteps(self.first.space)
        return self._steps

    @property
    def plans(self) -> Iterable[Any]:
        """The plans that were made."""
        return self._plans.values()

    def plan(self, moves: str, acts: str) -> Any:
        """Return the plan of what moves by what acts."""
        key = moves, acts
        if key not in self._plans:
            kernel = self.sizes.kernels[key]
            if self._plans:
                self._plans[key] = self.first.beside(kernel)
            else:
                points, options, attached = self._start
                plan: Any = AnyPlan(
                    self.ranks, kernel, points, points, self.sizes.point_radii, options
                )
                plan.attach(attached)
                self._plans[key] = plan
                self._start = None
        return self._plans[key]

    def torque_fields(self) -> TorqueFields:
        """Return the near field and the grid of noise with torques."""
        if self._torque_fields is None:
            plan = self._plans[ALL] = self.first.beside(self.sizes.force_dipoles, noise.WANT)
            self._torque_fields = TorqueFields(plan)
        return self._torque_fields

    def move(self, points: AnyArray, box: Any = None, attached: Any = None) -> None:
        """Move all plans, and what is attached to them, to points that were checked."""
        attached = self.attached if attached is None else attached
        self.first.place(points, points, None, attached, box)

    # ------------------------------------------------------------------ products
    def products(
        self,
        acts: dict[str, AnyArray],
        moves: Iterable[str],
        *,
        factor: float,
        checked: bool = False,
    ) -> tuple[Any, ...]:
        """Return velocities, or turns, or both: see `product`."""
        return tuple(self.product(each, acts, factor=factor, checked=checked) for each in moves)

    def product(
        self, moves: str, acts: dict[str, AnyArray], *, factor: float, checked: bool = False
    ) -> Any:
        """Return velocities or turns (..., 3, N) by what acts; ``checked`` arrays are trusted."""
        total: Any = None
        for name, values in acts.items():
            plan = self.plan(moves, name)
            part = plan.product(values) if checked else plan(values)
            part *= self.scale(moves, name, factor)
            if total is None:
                total = part
            else:
                total += part
        return total

    def gradients(self, moves: str, acts: dict[str, AnyArray], *, factor: float) -> Iterator[Any]:
        """Yield the gradients (..., 3, 3, N) of what moves by its own positions, by what acts."""
        for name, values in acts.items():
            part = summed(
                self.sizes.kernels[moves, name],
                self.points,
                self.points,
                values,
                self.sizes.point_radii,
                self.options.of_derivatives,
                want="grad_u",
                ranks=self.ranks,
            )
            part *= self.scale(moves, name, factor)
            yield part

    def scale(self, moves: str, acts: str, factor: float) -> Any:
        """Return the factor of the sum by which forces or torques make velocities or turns."""
        return self.first.dtype.type(KINDS[moves, acts][2] * factor)

    def flow(
        self,
        acts: str,
        values: AnyArray,
        points: AnyArray,
        names: tuple[str, ...],
        *,
        factor: float,
    ) -> Iterator[tuple[str, Any]]:
        """Yield the parts of the flow at points (3, M) that forces or torques make, by name."""
        # Torques make no pressure without a wall, and their sums have no stress there.
        alone = acts == "torque" and not self.options.walled
        of = {"stress": "grad_u", "p": "u"} if alone else {}
        asked = tuple(dict.fromkeys(of.get(name, name) for name in names))
        point_radii = self.sizes.point_radii
        if point_radii is not None:
            point_radii = np.zeros(as_points("points", points).shape[-1]), point_radii
        sums = summed(
            self.sizes.flow(acts),
            points,
            self.points,
            values,
            point_radii,
            self.options,
            want=asked,
            ranks=self.ranks,
        )
        flow = dict(zip(asked, sums, strict=True))
        for name in names:
            value = flow[of.get(name, name)]
            if of and name == "p":
                value = 0 * value[..., 0, :]
            elif of and name == "stress":
                value = value + value.swapaxes(-3, -2)
            scale = factor if name in ("u", "grad_u") else 1 / (8 * math.pi)
            yield name, value.dtype.type(scale) * value

    # ------------------------------------------------------------------ noise
    def expect_noise(self) -> None:
        """Let near fields take lists of pairs from the first one on, as noise takes many."""
        if self._apart:
            self.first.terms[0].sum.pipeline.expect()  # for which the host need not wait

    @property
    def _apart(self) -> bool:
        """Whether far and near field have noises of their own, if they are positive."""
        some = self.shape[1] > 0  # else there are no fields
        return bool(some and self.ranks.serial and self.options.periodicity == 3)

    def noise(
        self,
        standard_normal: White,
        *,
        torques: bool,
        accuracy: float,
        factor: float,
        size: float = 1.0,
        without_mean: tuple[int, ...] = (),
    ) -> Any:
        """Return ``size`` times noise (3, N) of the mobility; with torques, (2, 3, N).

        It has no mean along the axes ``without_mean``: see `relative`. Scales would bring it back.
        """
        plan, scales, xp = self.first, None, self.first.task.xp
        alike = self.sizes.point_radii is None or self.options.walled
        if (torques or not alike) and not without_mean:
            # So scaled, a sphere alone has the same mobility for forces and torques, for all radii.
            radii = xp.asarray(self.sizes.each, dtype=plan.dtype)
            scales = (3 * radii / 4) ** 0.5
        if torques and not without_mean:
            scales = xp.stack([scales, radii**1.5])[:, None]
            scales = scales / plan.dtype.type(math.sqrt(factor))
        first = self._noise_products if plan.space.on_device else 1
        fields = self.torque_fields() if torques and self._apart else None
        shared: Any = fields.plan if fields else plan
        if self._apart and shared.setup.split.positive:
            size *= math.sqrt(factor)
            numbers, self._noise_products = noise.split(
                shared, fields, standard_normal, accuracy, size, scales=scales, first=first
            )
            return numbers

        kinds = KINDS if torques else [("velocity", "force")]
        plans = [self.plan(moves, acts) for moves, acts in kinds]
        owner, problem, apart = [one.recording for one in plans][-1]
        self._lanczos = self._lanczos or RecordedSteps(plan.space)
        # Products of several plans have graphs of their own.
        self._lanczos.begin((self if torques else owner, problem, apart or torques))

        def product(values: AnyArray) -> Any:
            values = self.relative(values, without_mean)
            if not torques:
                moved = self.product("velocity", {"force": values}, factor=factor, checked=True)
                return self.relative(moved, without_mean)
            acts = dict(zip(ACTS, values, strict=True))
            motions = xp.stack(self.products(acts, MOVES, factor=factor, checked=True))
            return self.relative(motions, without_mean)

        drawn = standard_normal((2, *self.shape) if torques else self.shape)
        numbers, self._noise_products = noise.root(
            product,
            self.relative(drawn, without_mean),
            accuracy,
            None if without_mean else noise.recorded(self._lanczos),  # its graphs keep the mean
            total=self.ranks.sum,
            scales=scales,
            first=first,
            size=size,
        )
        return numbers

    def relative(self, values: AnyArray, axes: tuple[int, ...]) -> Any:
        """Return forces or velocities (..., 3, N) without their mean along axes.

        Pairs (2, 3, N) keep their torques or turns. The mobility of what is left does not depend on
        a gauge, and is positive.
        """
        if not axes:
            return values
        rows, count = values.copy(), self.ranks.sum(values.shape[-1])
        first = rows[0] if rows.ndim == 3 else rows
        for axis in axes:
            first[axis] -= self.ranks.sum(first[axis].sum()) / count
        return rows

    # ------------------------------------------------------------------ shifted spheres
    def difference(
        self,
        shift: AnyArray,
        forces: AnyArray,
        moves: tuple[str, ...] = MOVES[:1],
        *,
        factor: float,
    ) -> list[Any]:
        """Return ``(M(x + shift / 2) - M(x - shift / 2)) forces``, (3, N) for each move."""
        acts = {"force": forces}
        with self._shifting:  # of which there is one at a time
            ahead, behind = (
                self._shifted_products(side * shift, acts, moves, factor) for side in (0.5, -0.5)
            )
        return [after - before for after, before in zip(ahead, behind, strict=True)]

    def _shifted_products(
        self, shift: AnyArray, acts: dict[str, AnyArray], moves: tuple[str, ...], factor: float
    ) -> tuple[Any, ...]:
        """Return products where spheres are shifted.

        By plans of their own, because other threads may apply the plans of the spheres.
        """
        points, options, other = self.points + shift, self.options, self._shifted
        try:
            if other is None:
                other = self.elsewhere(points, options)
            else:
                other.move(points, None if other.options == options else options.box)
            for each in moves:
                other.plan(each, "force")
            self._shifted = other
            return other.products(acts, moves, factor=factor, checked=True)
        except ParkiValueError:  # a sphere has left the box
            if options.gap is not None:  # the third edge is no extent
                raise
            edges = zip(options.box, options.periodic, strict=True)
            box = tuple(edge if periodic else None for edge, periodic in edges)
            other = self.elsewhere(points, replace(options, box=box))
        return other.products(acts, moves, factor=factor, checked=True)
