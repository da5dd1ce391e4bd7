"""Equations on surfaces: of the first kind, of rigid bodies that forces move, and of drops.

Each has the operator A = C + W L V / (8 pi) for the densities at the nodes. L is a layer, and C, W
and V act on each body alone, as projections that are symmetric in the integral over its surface. So
the transpose of such a projection X is q -> areas X(q / areas). The operator of a body alone is a
matrix in its frame, whose inverse is the preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from parki.core import EwaldOptions, like_points, linear_operator, take_options
from parki.errors import ParkiValueError, by_words
from parki.interchange import as_given, finite, real_name, to_host
from parki.memory import require, telling
from parki.runtime import Kernel, preparing
from parki.runtime.forks import MadeAnew
from parki.surfaces import projections
from parki.surfaces.apart import AT_NODES, LayerUse
from parki.surfaces.bodies import Bodies, numbers
from parki.surfaces.layer import SurfaceLayer, alone, flat_hint
from parki.surfaces.near import Regularisation
from parki.surfaces.projections import motion, projected, resultants, spread
from parki.surfaces.self_matrix import self_parts, self_products, turning
from parki.surfaces.shapes import Shape
from parki.typing import AnyArray, Array, ArrayT, Box, OptionKeywords, Unpack

MATRICES = 4  # of a body's size, which an inverse takes at a time
SINGULAR = 1e12  # condition of a body's own matrix, whose inverse is then of no use


@telling
class Equation(MadeAnew):
    """An integral equation on the surfaces of bodies: its operator, and a preconditioner.

    Densities are arrays (3, N) at the nodes, and vectors have a component after the other. Results
    have the factors of the formula: the viscosity is 1, and nothing is left to scale.

    Parameters
    ----------
    surface : Surface
    options : EwaldOptions, optional
        Or its fields as keywords, next to ``accuracy``, ``order``, ``width`` and
        ``constants`` of `LayerPlan`.

    Raises
    ------
    ParkiValueError, ParkiTypeError, ParkiMemoryError
    """

    _made_of = "surface and options"
    kernel = "stokes_dl"
    _use = LayerUse()

    def __init__(
        self,
        surface: Bodies,
        options: EwaldOptions | None = None,
        *,
        accuracy: float = 1e-6,
        order: int | None = None,
        width: float | None = None,
        constants: bool = True,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        _, options = take_options(None, options, keywords)
        regularisation = Regularisation.of(
            accuracy=accuracy, order=order, width=width, constants=constants
        )
        with preparing(self._kernels(surface)):
            self.layer = SurfaceLayer(
                self.kernel, surface, None, options, regularisation, use=self._use
            )
        self._other: SurfaceLayer | None = None
        self._inverses: dict[Shape, np.ndarray] = {}

    @staticmethod
    def _kernels(surface: object) -> Iterable[Kernel]:
        """Return the kernels of the operator, which a device compiles while the layer is made."""
        if not isinstance(surface, Bodies) or not surface.space.on_device:
            return ()
        real = real_name(surface.nodes.dtype)
        return (*projections.kernels(surface.space, real), *turning(surface.space, real))

    def _alone(self) -> AbstractContextManager[None]:
        """Let no other thread move the bodies."""
        return self.layer._alone()

    @property
    def surface(self) -> Bodies:
        """The surface, where its bodies are."""
        return self.layer.surface

    @alone
    def update_positions(
        self, centres: Array, rotations: AnyArray = None, *, box: Box | None = None
    ) -> None:
        """Move the bodies, which keep their own parts: see `LayerPlan.update_positions`."""
        self.layer.update_positions(centres, rotations, box=box)

    @alone
    def update(self, surface: Bodies, *, box: Box | None = None) -> None:
        """Give the equation another surface, such as the same drops after they have deformed.

        ``box`` is the present one, such as one that shears. Default: as before.
        """
        self.layer.update(surface, box=box)

    # ------------------------------------------------------------------ what equations are made of
    def _before(self, surface: Bodies, q: AnyArray) -> Any:
        """Return V q, the density of the layer."""
        return projected(surface, q, itself=1.0, flux=-1.0)

    def _after(self, surface: Bodies, values: AnyArray) -> Any:
        """Return W applied to values of the layer."""
        return values

    def _beside(self, surface: Bodies, q: AnyArray, added: AnyArray, times: float) -> Any:
        """Return C q, and what is added, times a number."""
        raise NotImplementedError

    def _applied(
        self, surface: Bodies, q: AnyArray, layer: Callable[[Any], Any], transposed: bool = False
    ) -> Any:
        """Return A q, or its transpose applied to q, where ``layer`` is L or its transpose."""
        first, last, factor = self._before, self._after, 1 / (8 * np.pi)
        if not transposed:
            return self._beside(surface, q, last(surface, layer(first(surface, q))), factor)
        areas = surface.areas
        inner = layer(areas * last(surface, q / areas)) / areas
        return areas * self._beside(surface, q / areas, first(surface, inner), factor)

    # ------------------------------------------------------------------ operators
    @alone
    def __call__(self, density: ArrayT) -> ArrayT:
        """Return A q of a density, shape (3, N) or (k, 3, N)."""
        q = self._checked("density", density)
        return as_given(self._applied(self.surface, q, self.layer), density)

    @alone
    def adjoint(self, values: ArrayT) -> ArrayT:
        """Return the transpose of A applied to values, shape (3, N) or (k, 3, N)."""
        v = self._checked("values", values)
        return as_given(self._applied(self.surface, v, self.layer.adjoint, True), values)

    @alone
    def as_linear_operator(self) -> Any:
        """Return A as an operator on flattened densities, for GMRES."""
        return self._operator(self, self.adjoint)

    @alone
    def preconditioner(self) -> Any:
        """Return the inverse of A for each body alone, as an operator: the M of GMRES.

        The inverse of a shape is computed once, and turns with its bodies.

        Raises
        ------
        ParkiMemoryError
            If there is no room for the matrix of a body.
        ParkiValueError
            If it is singular, as the first kind's may be where bodies have no finer nodes.
        """
        surface, dtype = self.surface, self.surface.nodes.dtype
        matrices = self_parts(surface, lambda shape: self._inverse(shape).astype(dtype), dtype)

        def apply(density: AnyArray, transposed: bool = False) -> Any:
            q = surface.xp.ascontiguousarray(self._checked("density", density))
            several = q.reshape(-1, 3, q.shape[-1])
            result = surface.xp.empty_like(several)
            self_products(surface.space, matrices, several, result, transposed)
            return as_given(result.reshape(q.shape), density)

        return self._operator(apply, lambda values: apply(values, True))

    def _inverse(self, shape: Shape) -> np.ndarray:
        if shape not in self._inverses:
            size, layer = 3 * shape.areas.size, self.layer
            remedy = "solve without a preconditioner, or with fewer nodes for each body"
            require(
                layer.space, MATRICES * 8.0 * size**2, "the matrix of a body's own part", remedy
            )
            xp = self.surface.xp
            body, layer_matrix = Bodies.alone(shape, xp), xp.asarray(layer.whole_matrix(shape))
            columns = self._applied(
                body,
                xp.asarray(np.eye(size).reshape(size, 3, -1)),
                lambda q: (q.reshape(size, -1) @ layer_matrix.T).reshape(size, 3, -1),
            )
            matrix = to_host(columns).reshape(size, -1).T
            inverse = np.linalg.inv(matrix)
            condition = np.linalg.norm(matrix, 1) * np.linalg.norm(inverse, 1)
            if not condition < SINGULAR:
                raise ParkiValueError(
                    f"the matrix of a body alone has a condition of {condition:.0e}, because nodes "
                    "alone do not tell all densities apart; take finer nodes (finer=3), or solve "
                    "without a preconditioner, in more steps"
                )
            self._inverses[shape] = inverse
        return self._inverses[shape]

    def _operator(self, apply: Any, adjoint: Any) -> Any:
        shape = self.surface.nodes.shape
        return linear_operator(apply, adjoint, (shape, shape), self.layer.dtype, self.layer.space)

    def _checked(self, name: str, values: AnyArray, shape: tuple[int, ...] | None = None) -> Any:
        array = like_points(name, values, self.layer.space, self.layer.dtype)
        shape = shape or self.surface.nodes.shape
        if array.shape[-2:] != shape or array.ndim > 3:
            raise ParkiValueError(
                f"{name} has shape {array.shape}; expected {shape}{flat_hint(array, shape)}"
            )
        return array

    def _halves(self, rows: np.ndarray, like: ArrayT) -> tuple[ArrayT, ArrayT]:
        """Return the first and the last three of rows (..., 6, B) of the host, as ``like`` is."""
        halves = (
            self.surface.xp.asarray(half, self.layer.dtype, order="C")
            for half in (rows[..., :3, :], rows[..., 3:, :])
        )
        first, second = (as_given(half, like) for half in halves)
        return first, second

    def _single(self, density: AnyArray) -> Any:
        """Return the single layer of forces over 8 pi, by a plan that follows the bodies."""
        surface = self.surface
        if self._other is None:
            self._other = self.layer.beside("stokes_sl")
        box, before = self.layer.options.box, self._other.options.box
        if self._other.surface is not surface or box != before:
            self._other.update(surface, box=None if box == before else box)
        with by_words({"density": "forces or torques"}):
            return self._other(density) / (8 * np.pi)


@telling
class RigidSurfaces(Equation):
    """Rigid bodies that forces and torques move: the completed double layer.

    The flow u = D q + S f has a double layer q and the single layer f, which is the forces spread
    over the surfaces. On a surface it is U + w x r, where -U and -w are the rigid motion that is
    nearest to q:

        -q/2 + D q + S f = U + w x r.

    The equation is of the second kind and has one solution. H. Power and G. Miranda (SIAM Journal
    on Applied Mathematics 47, 689-698, 1987) have forces at the centre in place of the single
    layer, with which bodies may be long, or rings. See `Equation` for parameters.

    Examples
    --------
    >>> import numpy as np, parki
    >>> from scipy.sparse.linalg import gmres
    >>> ball = parki.Surface.spheres(np.zeros((3, 1)), 1.0, order=5)
    >>> equation = parki.RigidSurfaces(ball, periodicity=0, tolerance=1e-6)
    >>> b = equation.right_side([[0.0], [0.0], [6 * np.pi]])
    >>> q, status = gmres(equation.as_linear_operator(), b.ravel(), rtol=1e-6)
    >>> velocity, spin = equation.motion(q.reshape(3, -1))
    >>> bool(abs(velocity[2, 0] - 1) < 1e-3)
    True
    """

    _use = LayerUse(nested=False)

    def _beside(self, surface: Bodies, q: AnyArray, added: AnyArray, times: float) -> Any:
        return projected(surface, q, itself=-0.5, rigid=1.0, added=added, times=times)

    @alone
    def spread(self, forces: AnyArray = None, torques: AnyArray = None) -> Any:
        """Return forces per area (3, N) with these resultants (3, B): a rigid motion's values."""
        shape = (3, self.surface.kinds.size)
        first, second = (
            np.zeros(shape) if values is None else to_host(self._checked(name, values, shape))
            for name, values in (("forces", forces), ("torques", torques))
        )
        return spread(self.surface, first, second)

    @alone
    def right_side(
        self, forces: AnyArray = None, torques: AnyArray = None, flow: AnyArray = None
    ) -> Any:
        """Return minus the flow of forces and torques (3, B) at the nodes, shape (3, N).

        ``flow`` (3, N) are the velocities at the nodes of a flow without the bodies.
        """
        velocities = self.surface.xp.zeros(self.surface.nodes.shape, self.layer.dtype)
        if forces is not None or torques is not None:
            velocities = velocities - self._single(self.spread(forces, torques))
        return velocities if flow is None else velocities - self._checked("flow", flow)

    @alone
    def motion(self, density: ArrayT) -> tuple[ArrayT, ArrayT]:
        """Return velocities and angular velocities (3, B) of a solution."""
        return self._halves(-motion(self.surface, self._checked("density", density)), density)

    @alone
    def layers(self, density: ArrayT, forces: AnyArray = None, torques: AnyArray = None) -> ArrayT:
        """Return the densities (6, N) of the flow, for `Surface.combined`, over 8 pi."""
        q = self._checked("density", density)
        pair = [self.spread(forces, torques), self._before(self.surface, q)]
        return as_given(self.surface.xp.concatenate(pair), density)


@telling
class FirstKind(Equation):
    """Velocities that are given on surfaces: S f / (8 pi) = u, with forces f per area.

    The mean flux of u through a body is left out, and f is what it is up to a multiple of the
    normals, which makes no flow: the solution has none. Densities of ready-made bodies are kept in
    the harmonics that finer nodes resolve. See `Equation` for parameters.
    """

    kernel = "stokes_sl"
    _use = LayerUse(in_gaps=AT_NODES)

    def _before(self, surface: Bodies, q: AnyArray) -> Any:
        return surface.smooth(q)

    def _after(self, surface: Bodies, values: AnyArray) -> Any:
        return surface.smooth(values)

    def _beside(self, surface: Bodies, q: AnyArray, added: AnyArray, times: float) -> Any:
        # What the layer lacks, of about its size: the radius of a sphere with as much area.
        size = (surface.total_areas / (16 * np.pi)) ** 0.5
        rest = projected(surface, q, itself=1.0, flux=1.0) - surface.smooth(q)
        return size[surface.body] * rest + times * added

    @alone
    def right_side(self, velocities: ArrayT) -> ArrayT:
        """Return the right side for velocities (3, N) at the nodes."""
        u = self._checked("velocities", velocities)
        return as_given(
            self.surface.smooth(projected(self.surface, u, itself=1.0, flux=-1.0)), velocities
        )

    @alone
    def resultants(self, density: ArrayT) -> tuple[ArrayT, ArrayT]:
        """Return the forces and torques (3, B) of the bodies on the fluid."""
        return self._halves(resultants(self.surface, self._checked("density", density)), density)


@telling
class Drops(Equation):
    """Drops in a flow, whose surfaces pull at the fluid: velocities u of the surfaces.

        (1 + ratio)/2 u - (ratio - 1) D u = S f + flow,

    for forces f per area, such as surface tension, and a flow without the drops. The viscosity of
    the fluid around is 1. D acts on velocities without their mean flux, which is zero, so that
    bubbles (0) and stiff drops have no special case. See `Equation` for other parameters.

    Parameters
    ----------
    ratio : float
        Viscosity of the drops over the fluid's, from 0 on.
    """

    def __init__(
        self,
        surface: Bodies,
        ratio: float,
        options: EwaldOptions | None = None,
        *,
        accuracy: float = 1e-6,
        order: int | None = None,
        width: float | None = None,
        constants: bool = True,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        self.ratio = finite("ratio", ratio, "a ratio of viscosities, from 0 on")
        if self.ratio < 0:
            raise ParkiValueError(f"ratio is {ratio}; expected a ratio of viscosities, from 0 on")
        self._use = LayerUse(nested=False, in_gaps=AT_NODES)
        if self.ratio == 1:  # no double layer: nothing is solved, and drops may hold others
            self.kernel, self._use = "stokes_sl", LayerUse(in_gaps="")
        super().__init__(
            surface,
            take_options(None, options, keywords)[1],
            accuracy=accuracy,
            order=order,
            width=width,
            constants=constants,
        )
        if self.ratio == 1:
            self._other = self.layer

    def _after(self, surface: Bodies, values: AnyArray) -> Any:
        return (1 - self.ratio) * values

    def _beside(self, surface: Bodies, q: AnyArray, added: AnyArray, times: float) -> Any:
        return (1 + self.ratio) / 2 * q + times * added

    def _applied(
        self, surface: Bodies, q: AnyArray, layer: Callable[[Any], Any], transposed: bool = False
    ) -> Any:
        return 1 * q if self.ratio == 1 else super()._applied(surface, q, layer, transposed)

    @alone
    def buoyancy(self, difference: AnyArray, gravity: AnyArray) -> Any:
        """Return the forces per area of weight less buoyancy, shape (3, N), for `right_side`.

        They are normal to the surface: f = difference (g.x) n, with x from the drop's centre. Added
        up over a drop they are the difference of densities times gravity and volume. What is left
        of gravity is a pressure. In a periodic box another one holds fluid and drops together.

        Parameters
        ----------
        difference : float, or array of shape (B,)
            Density of the drops less the fluid's.
        gravity : array, shape (3,)
            Acceleration; it points down.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        surface = self.surface
        excess, g = numbers("difference", difference), numbers("gravity", gravity)
        if excess.shape not in ((), (surface.kinds.size,)):
            raise ParkiValueError(
                f"difference has shape {excess.shape}; expected a number, or {surface.kinds.size}, "
                "one for each drop"
            )
        if g.shape != (3,):
            raise ParkiValueError(f"gravity has shape {g.shape}; expected (3,)")
        by_body = np.broadcast_to(excess, surface.kinds.shape)
        local = surface.xp.asarray((g[:, None] * by_body)[:, surface.home].astype(self.layer.dtype))
        return (local * surface.arms).sum(axis=0) * surface.normals

    @alone
    def right_side(self, forces: Array, flow: AnyArray = None) -> Any:
        """Return S f + flow for forces per area and a flow at the nodes, shape (3, N) each."""
        velocities = self._single(self._checked("forces", forces))
        return velocities if flow is None else velocities + self._checked("flow", flow)
