"""Eleven numbers for each sphere, their tensors, and how they move all spheres: `MomentMobility`.

What acts on the fluid is a force F, a torque T and a stresslet S; torque and stresslet are parts of
a force dipole ``D_jk``, the first moment of the forces, ``S_jk + eps_jmk T_m / 2``. What moves is a
velocity U, an angular velocity W and a rate of strain E; W and E are parts of the gradient
``L_jk = d u_j / d x_k``. With an orthonormal basis of the stresslets, which are symmetric and have
no trace, ``F.U + D:L`` is the dot product of eleven numbers with eleven others, in units of
8 pi viscosity = 1.

Forces are spread over the surfaces of spheres, and force dipoles over their volumes; velocities and
gradients are means in the same way (Durlofsky, Brady and Bossis, 1987). With a sphere's radius a,
outside of it, that is ``1 + a^2 lap / 6`` for forces and velocities and ``1 + a^2 lap / 10`` for
force dipoles and gradients. It is one sum, for any radii and all boxes: see
`parki.ewald.sums.polydisperse`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from parki.core import EwaldOptions, Plan, RecordedSteps
from parki.dynamics import conjugate
from parki.dynamics.radius_tables import RadiusTables
from parki.errors import ParkiValueError
from parki.interchange import as_array, to_host
from parki.runtime import ExecutionSpace, Kernel, load, prepare
from parki.runtime.forks import cached_property
from parki.settings import MOST_THREADS
from parki.suspensions.noise import FIRST, TorqueFields, White, root, split
from parki.suspensions.radii import Radii
from parki.typing import AnyArray

TRACE = 1e-9  # of a gradient, over its largest entry


def gradient(values: AnyArray, options: EwaldOptions) -> Any:
    """Return the gradient (3, 3) of a flow as NumPy's array, or refuse it; None is no flow."""
    if values is None:
        return np.zeros((3, 3))
    slope = to_host(as_array("gradient", values)).astype(np.float64)
    if slope.shape != (3, 3) or not np.isfinite(slope).all():
        raise ParkiValueError(
            f"gradient has shape {slope.shape}; expected (3, 3), finite: [i, j] = d u_i / d x_j"
        )
    trace, size = float(np.trace(slope)), float(abs(slope).max())
    if abs(trace) > TRACE * size:
        raise ParkiValueError(
            f"gradient has a trace of {trace:g}; expected the gradient of an incompressible "
            "flow, whose trace is zero"
        )
    periodic = np.array(options.periodic)
    for axis in np.flatnonzero(periodic):
        moved = slope @ options.vectors[axis]
        if (abs(moved[~periodic]) > TRACE * size * abs(options.vectors[axis]).max()).any():
            raise ParkiValueError(
                f"gradient moves the periodic vector {axis} by {moved.tolist()}, along a "
                "free axis, which a box cannot follow; take a flow along the periodic axes, or "
                "three periodic axes"
            )
    if options.walled and (slope[:, :2].any() or slope[2].any()):
        raise ParkiValueError(
            "gradient is of a flow that moves the wall; expected one along the wall that depends "
            "on the height alone: numbers at [0, 2] and [1, 2]"
        )
    return slope


def gauged(options: EwaldOptions) -> tuple[bool, bool, bool]:
    """Return along which axes a net force moves all spheres by a gauge: see docs/gauges.md."""
    count = sum(options.periodic)
    return options.periodic if count == 2 else (count == 1,) * 3


SQRT2, SQRT6 = math.sqrt(2), math.sqrt(6)


def _basis() -> Any:
    basis = np.zeros((8, 3, 3))
    for axis in range(3):
        j, k = (axis + 1) % 3, (axis + 2) % 3
        basis[axis, k, j], basis[axis, j, k] = 0.5, -0.5
    basis[3] = np.diag([1, -1, 0]) / SQRT2
    basis[4] = np.diag([-1, -1, 2]) / SQRT6
    for row, (j, k) in zip(basis[5:], ((0, 1), (0, 2), (1, 2)), strict=True):
        row[j, k] = row[k, j] = 1 / SQRT2
    return basis


# Force dipoles of three unit torques and of five unit stresslets.
BASIS = _basis()


def self_mobility(radii: AnyArray) -> Any:
    """Return the mobility of a sphere alone by its eleven numbers, shape (11, N), on the host."""
    sizes, powers = np.repeat([[4 / 3], [1.0], [1.2]], (3, 3, 5), axis=0), np.repeat([1, 3], (3, 8))
    return sizes / np.asarray(radii, np.float64) ** powers[:, None]


def symmetric(space: ExecutionSpace, numbers: AnyArray) -> Any:
    """Return tensors (3, 3, N) of five numbers (5, N)."""
    basis = space.adapter.constant(BASIS[3:], np.float64)
    return space.array_module.tensordot(basis, numbers, axes=(0, 0))


def five(space: ExecutionSpace, tensors: AnyArray) -> Any:
    """Return the five numbers (5, N) of symmetric tensors (3, 3, N) without a trace."""
    basis = space.adapter.constant(BASIS[3:], np.float64)
    return space.array_module.tensordot(basis, tensors, axes=2)


FEW = 4096  # spheres, whose numbers take less time than to wake another thread


def make_density(space: ExecutionSpace, acts: Any) -> Any:
    """Return forces and force dipoles (12, N) of eleven numbers (11, N), float64."""
    dens = np.empty_like(acts, shape=(12, acts.shape[1]))
    _launch("make_density", space, acts.shape[1], acts=acts, dens=dens)
    return dens


def make_moves(space: ExecutionSpace, flow: Any) -> Any:
    """Return the eleven numbers (11, N) of velocities and gradients (12, N), float64."""
    moves = np.empty_like(flow, shape=(11, flow.shape[1]))
    _launch("make_moves", space, flow.shape[1], flow=flow, moves=moves)
    return moves


def kernels(space: ExecutionSpace) -> list[Kernel]:
    """Return the kernels of eleven numbers, and of solves for them."""
    of_moments = [load("moments", n, space, REAL="double") for n in ("make_density", "make_moves")]
    return [*of_moments, *conjugate.kernels(space, np.float64)]


def _launch(name: str, space: ExecutionSpace, count: int, **arrays: Any) -> None:
    kernel = load("moments", name, space, REAL="double")
    kernel(count, 1 if count <= FEW else MOST_THREADS, arguments=arrays)


# Parts of the mobility of a sphere alone, of forces and torques and of stresslets: they take the
# fewest iterations at volume fractions of 0.1 to 0.5. They are small because the forces of close
# pairs move the fluid far away, as stresslets do, more than spheres alone would.
OF_FORCES, OF_STRESSLETS = 0.2, 0.5
WANT = ("u", "grad_u")


class MomentMobility:
    """The mobility of spheres, which may overlap, in units of 8 pi viscosity = 1.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
    radii : ndarray, shape (N,)
        Positive.
    options : EwaldOptions

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible.
    """

    def __init__(self, points: AnyArray, radii: AnyArray, options: EwaldOptions) -> None:
        self.radii, sizes = radii, Radii.of(radii, points.shape[1])
        name: Any = sizes.force_dipoles
        self.first: Plan[Any] = Plan(name, points, points, sizes.point_radii, options, want=WANT)
        self.dtype, self.space, self.smallest = self.first.dtype, self.first.space, sizes.smallest
        prepare(kernels(self.space))  # several at a time
        self.steps = RecordedSteps(self.space)  # of solves, and their memory
        # Steps of solves with pairs in the preconditioner, where a device takes as many each time.
        self.inner: int | None = None
        self._shifted: MomentMobility | None = None
        self._noise_products = FIRST  # which the last noise took

    @property
    def points(self) -> Any:
        """The centres, which nobody else changes."""
        return self.first.points.arrays["trg"]

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        options: EwaldOptions = self.first.options
        return options

    @property
    def attached(self) -> Any:
        """What moves with the spheres."""
        return self.first.attached

    @cached_property
    def alone(self) -> Any:
        """The mobility of each sphere alone, by its eleven numbers, shape (11, N)."""
        return self.space.array_module.asarray(self_mobility(self.radii))

    @cached_property
    def diagonal(self) -> Any:
        """The diagonal matrix (11, N) that solves take in the place of the mobility."""
        parts = np.repeat([[OF_FORCES], [OF_STRESSLETS]], (6, 5), axis=0)
        return self.space.array_module.asarray(parts * self_mobility(self.radii))

    @cached_property
    def scales(self) -> Any:
        """What makes the mobility of each sphere alone 1, on both sides, shape (11, N)."""
        return self.space.array_module.asarray(self_mobility(self.radii) ** -0.5)

    @cached_property
    def tables(self) -> RadiusTables:
        """What close pairs have by their radii alone.

        Without a net force on the fluid the gauge of free axes adds a velocity to all spheres,
        which must not count: pairs resist nothing there that moves both spheres in the same way.
        """
        return RadiusTables(self.space, self.radii, any(gauged(self.options)))

    def update_points(self, points: AnyArray, box: Any = None, attached: Any = None) -> None:
        """Move the spheres, and what is attached to them; on any error all stays as it was."""
        self.first.place(points, points, None, attached, box)

    def shifted(self, shift: AnyArray) -> MomentMobility:
        """Return the mobility of spheres that are shifted by (3, N), by plans of their own."""
        points, options = self.points + shift.astype(self.dtype), self.options
        if options.periodicity == 0:  # where spheres may leave the box of now
            return MomentMobility(points, self.radii, replace(options, box=(None,) * 3))
        if self._shifted is None:
            self._shifted = MomentMobility(points, self.radii, options)
        else:
            same = self._shifted.options == options
            self._shifted.update_points(points, None if same else options.box)
        return self._shifted

    def product(self, acts: AnyArray) -> Any:
        """Return how (11, N) that act on the fluid move the spheres: (11, N), float64."""
        u, gradients = self(make_density(self.space, acts).astype(self.dtype, copy=False))
        flow = np.empty_like(acts, shape=(12, acts.shape[1]))
        flow[:3], flow[3:] = u, gradients.reshape(9, -1)
        return make_moves(self.space, flow)

    def noise(self, standard_normal: White, accuracy: float) -> Any:
        """Return numbers (11, N) whose covariance is the mobility, of standard normal ones.

        With three periodic axes far and near field have noises of their own: see
        `parki.suspensions.noise.split`.
        """
        scales, plan = self.scales, self.first
        setup: Any = plan.setup
        apart = self.options.periodicity == 3 and self.radii.size > 0
        if not (apart and plan.terms[0].task.order.is_identity and setup.split.positive):
            return root(self.product, standard_normal(scales.shape), accuracy, scales=scales)[0]
        first = self._noise_products if plan.space.on_device else 1
        numbers, self._noise_products = split(
            plan, MomentFields(plan), standard_normal, accuracy, 1.0, scales=scales, first=first
        )
        return numbers

    def __call__(self, dens: Any) -> tuple[Any, Any]:
        """Return velocities (3, N) and gradients (3, 3, N) of the fluid, ``d u_i / d x_j``.

        ``dens`` (12, N) has forces on the fluid, and force dipoles, the first moments of these.
        """
        u, gradients = self.first.product(dens)
        return u, gradients


class MomentFields(TorqueFields):
    """Near field and grid of the eleven numbers of each sphere, as noise takes them."""

    rows = (11,)

    def near(self, values: AnyArray) -> Any:
        """Return the near field of eleven numbers for each sphere, (11, N)."""
        dens = make_density(self.plan.space, values.astype(np.float64, copy=False))
        return self._moved(self.pipeline.near(dens))

    def _moved(self, rows: AnyArray) -> Any:
        return make_moves(self.plan.space, rows.astype(np.float64))


def stress(stresslets: AnyArray, options: EwaldOptions, count: int) -> Any:
    """Return the mean stress (3, 3) of the stresslets (3, 3, N) of spheres: see `RigidSpheres`."""
    if options.periodicity != 3:
        raise ParkiValueError(
            f"stress with periodicity={options.periodicity} is not defined; expected three "
            "periodic axes, whose box has a volume"
        )
    tensors = to_host(as_array("motion.stresslets", stresslets))
    if tensors.shape != (3, 3, count):
        raise ParkiValueError(
            f"motion has stresslets of shape {tensors.shape}; expected {(3, 3, count)}, a tensor "
            "for each sphere"
        )
    return -tensors.sum(axis=-1, dtype=np.float64) / abs(np.linalg.det(options.vectors))
