"""`SurfaceLayer`: the sum over a surface's nodes, and its corrections, for many densities."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from parki.core import (
    SUMS,
    EwaldOptions,
    Plan,
    as_points,
    like_points,
    linear_operator,
)
from parki.errors import ParkiTypeError, ParkiValueError, by_words, warn
from parki.interchange import (
    as_array,
    as_given,
    one_of,
    shown,
)
from parki.memory import telling
from parki.runtime import ExecutionSpace, Kernel, preparing
from parki.runtime.forks import MadeAnew
from parki.solving import search
from parki.surfaces import apart, blocks, corrections, plain, self_matrix
from parki.surfaces.bodies import Bodies
from parki.surfaces.kernels import LAYERS, parts_of
from parki.surfaces.near import Regularisation
from parki.surfaces.placed import PlacedLayer
from parki.surfaces.shapes import Shape
from parki.typing import AnyArray, Array, ArrayT, Box

WORDS = {"dens": "density", "trg": "targets", "src": "nodes"}  # what sums call them


Method = TypeVar("Method", bound=Callable[..., Any])


def alone(method: Method) -> Method:
    """Let one thread after the other do what takes the surface, its layers and their sums."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        with self._alone():
            return method(self, *arguments, **keywords)

    return cast(Method, call)


@telling
class SurfaceLayer(MadeAnew):
    """A layer potential of a surface at targets: see `LayerPlan`, whose arguments it takes checked.

    Parameters
    ----------
    kernel, want : str
    surface : Bodies
    targets, directions : array, shape (3, Nt), optional
    options : EwaldOptions
    regularisation : Regularisation
    use : LayerUse, optional
        What the layer is for.
    told : set of str, optional
        Names of warnings that were given, each of which is given once.
    """

    _made_of = "kernel, surface, targets and options"

    def __init__(
        self,
        kernel: str,
        surface: Bodies,
        targets: Array | None,
        options: EwaldOptions,
        regularisation: Regularisation,
        *,
        want: str = "u",
        directions: AnyArray = None,
        use: apart.LayerUse | None = None,
        told: set[str] | None = None,
    ) -> None:
        one_of("kernel", kernel, list(dict.fromkeys(name for name, _ in LAYERS)))
        one_of("want", want, [result for name, result in LAYERS if name == kernel])
        if options.walled:
            raise ParkiValueError(
                f"wall is {options.wall!r}, but near pairs of images in a wall are not corrected; "
                "sum by parki.Plan, and keep bodies three node distances away from the wall"
            )
        if SUMS[kernel].normals and options.dl_mean is None and all(options.periodic):
            options = replace(options, dl_mean="flux")
        self.options, self._key, self._layer = options, (kernel, want), LAYERS[kernel, want]
        self._regularisation = regularisation
        # Copies: they are taken again where bodies move.
        self._targets = None if targets is None else as_points("targets", targets).copy()
        self._directions = None
        if want == "traction":
            self._directions = self._check_directions(directions)
        elif directions is not None:
            raise ParkiValueError(f"directions are for want='traction', but want is {want!r}")
        self._use = apart.LayerUse() if use is None else use
        self._told = set[str]() if told is None else told
        self._plan: Any = None  # with all that moves attached to it
        with preparing(self._kernels(surface)):
            self._place(surface)

    def _kernels(self, surface: object) -> Iterator[Kernel]:
        """Yield the kernels that a device compiles at a time; a CPU does so when one is needed."""
        if not isinstance(surface, Bodies) or not surface.space.on_device:
            return
        yield from blocks.kernels(surface.space, [part for part, _ in parts_of(self._key)])
        yield from search.kernels(surface.space, spheres=0)
        if self._targets is None:
            yield from self_matrix.turning(surface.space, "double")

    def beside(self, kernel: str) -> SurfaceLayer:
        """Return another layer of the surface, at the same targets; it moves alone."""
        return SurfaceLayer(
            kernel,
            self.surface,
            self._targets,
            self.options,
            self._regularisation,
            use=self._use,
            told=self._told,
        )

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other thread move the bodies."""
        while True:
            plan = self._plan
            with plan.alone():
                if self._plan is plan:
                    with by_words(WORDS):
                        yield
                    return

    @property
    def _placed(self) -> PlacedLayer:
        return cast(PlacedLayer, self._plan.attached)

    @property
    def surface(self) -> Bodies:
        """The surface, where its bodies are."""
        return self._placed.surface

    @property
    def space(self) -> ExecutionSpace:
        """Where it computes."""
        return cast(ExecutionSpace, self._plan.space)

    @property
    def dtype(self) -> Any:
        """The type of densities and results."""
        return self._plan.dtype

    def whole_matrix(self, shape: Shape) -> np.ndarray:
        """Return the layer of a body alone at its own nodes, in its frame, as a matrix."""
        return self_matrix.whole_matrix(self._key, shape, self._regularisation, self.space)

    def _check_directions(self, directions: AnyArray) -> Any:
        if directions is None:
            if self._targets is not None:
                raise ParkiValueError(
                    "directions is missing: tractions at targets need an array (3, Nt), such as "
                    "their normals"
                )
            return None
        if self._targets is None:
            raise ParkiValueError("directions are for targets; at the nodes they are the normals")
        array = as_array("directions", directions)
        if array.shape != self._targets.shape:
            raise ParkiValueError(
                f"directions has shape {array.shape}; expected {self._targets.shape}, as targets"
            )
        return array.copy()

    def _place(self, surface: Bodies, box: Box | None = None) -> None:
        """Take a surface and a box, with the sum and the near pairs for them; or change nothing."""
        if not isinstance(surface, Bodies):
            raise ParkiTypeError(f"surface is {shown(surface)}; expected a parki.Surface")
        xp, at_nodes = surface.xp, self._targets is None
        targets: Any = surface.nodes if at_nodes else self._targets
        if type(targets) is not type(surface.nodes) or targets.dtype != surface.nodes.dtype:
            raise ParkiTypeError(
                f"targets is an array of {type(targets).__module__}, {targets.dtype}; expected "
                f"{surface.nodes.dtype} in the memory of the surface's nodes"
            )
        e = surface.normals if at_nodes or self._directions is None else self._directions
        e = e if e.shape == targets.shape else xp.zeros(targets.shape)
        if text := apart.too_curved(surface, self._regularisation.width):
            self._tell("curvature", text)
        options = self.options if box is None else self.options.deformed(box)
        with by_words(WORDS):
            self_parts, near = self._corrections(surface, e, self._regularisation, options)
            if at_nodes:
                for kind, text in apart.warnings(surface, near.events, options, self._use):
                    self._tell(kind, text)
            excluded = corrections.left_out(near.events, targets.shape[1])
            placed = PlacedLayer(surface, self._layer, e, self_parts, near, excluded)
            self._sum(surface, targets, placed, options, box)
        self.options = options

    def _tell(self, name: str, message: str) -> None:
        """Warn, unless the plan has warned of this before."""
        if name not in self._told:
            warn(message)  # which may be an error, the next time as well
            self._told.add(name)

    def _sum(
        self,
        surface: Bodies,
        targets: AnyArray,
        placed: PlacedLayer,
        options: EwaldOptions,
        box: Box | None,
    ) -> None:
        """Sum at other places, by the plan so far where no targets touch nodes.

        Sums leave out pairs of targets and nodes that touch, since no correction has the digits
        that they would lose there. Such a plan is made anew.
        """
        kernel, excluded = self._key[0], placed.excluded
        normals = surface.normals if SUMS[kernel].normals else None
        if self._plan is not None and excluded is None and self._placed.excluded is None:
            self._plan.place(targets, surface.nodes, normals, placed, box)
            return
        labels = None
        if excluded is not None:
            labels = excluded, np.arange(surface.areas.size)
            expert = replace(options.expert, p2p_method="auto")
            options = replace(options, exclude_image="nearest", expert=expert)
        plan: Plan[Any] = Plan(
            cast(Any, kernel),
            targets,
            surface.nodes,
            normals,
            options,
            want=cast(Any, self._layer.want),
            exclude=labels,
        )
        plan.attach(placed)
        self._plan = plan

    def _corrections(
        self,
        surface: Bodies,
        e: AnyArray,
        regularisation: Regularisation,
        options: EwaldOptions,
    ) -> tuple[Any, Any]:
        """Return the bodies' own matrices, and the matrices of near pairs."""
        targets, home, parts, space = self._targets, None, [], surface.space
        if targets is None:
            targets, home = surface.nodes, surface.home
            parts = self_matrix.self_parts(
                surface,
                lambda shape: self_matrix.self_matrix(self._key, shape, regularisation, space),
                np.float64,
            )
        near = corrections.near_matrices(
            self._key,
            surface,
            targets=targets,
            home=home,
            e=e,
            options=options,
            setting=regularisation,
            space=space,
        )
        return parts, near

    # ------------------------------------------------------------------ apply
    @property
    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of a result and of a density."""
        layer, count = self._layer, self._plan.n_targets
        rows = (count,) if layer.rows == 1 else (layer.rows, count)
        nodes = self.surface.areas.size
        return rows, (nodes,) if layer.columns == 1 else (layer.columns, nodes)

    @alone
    def __call__(self, density: ArrayT) -> ArrayT:
        """Return the layer of a density, or of k at once.

        Parameters
        ----------
        density : array, shape (3, N), of both layers (6, N), for Laplace (N,); or k of them

        Returns
        -------
        array, shape (3, Nt), or (Nt,) of pressures and potentials
        """
        q, placed = self._density(density), self._placed
        summed = self._plan(self._acting(q))
        rows = plain.rows_of(self._key[1], summed, placed.e)
        rows = (rows + placed.corrections(q)).astype(q.dtype)
        many = as_array("density", density).ndim > len(self._shapes[1])
        several = rows.shape[:1] if many else ()
        return as_given(rows.reshape((*several, *self._shapes[0])), density)

    def _density(self, density: AnyArray) -> Any:
        return self._checked("density", density, self._shapes[1], self._layer.columns)

    def _acting(self, q: AnyArray) -> Any:
        """Return the strengths of the sum's sources for densities."""
        surface = self.surface
        acting = plain.strengths(self._key[0], q, surface.normals, surface.areas)
        return surface.xp.ascontiguousarray(acting)

    def _checked(self, name: str, values: AnyArray, shape: tuple[int, ...], rows: int) -> Any:
        array = like_points(name, values, self._plan.space, self._plan.dtype)
        if array.shape[-len(shape) :] != shape or array.ndim > len(shape) + 1:
            flat = flat_hint(array, shape)
            raise ParkiValueError(
                f"{name} has shape {array.shape}; expected {shape}, or k of them{flat}"
            )
        many = array.shape[: array.ndim - len(shape)] or (1,)
        return array.reshape((*many, rows, shape[-1]))

    @alone
    def timed(self, density: ArrayT) -> tuple[ArrayT, dict[str, float]]:
        """Return the layer of a density, and the seconds of the sum's stages and of corrections."""
        q = self._density(density)
        seconds: dict[str, float] = self._plan.timed(self._acting(q))[1]
        for _ in range(2):  # once more, after the memory is there
            watch = self.space.adapter.watch(True)
            with watch("corrections"):
                self._placed.corrections(q)
            seconds |= watch.seconds()
        return self(density), seconds

    @alone
    def adjoint(self, values: ArrayT) -> ArrayT:
        """Return the transposed layer: of values at the targets, what they make at the nodes.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        v = self._checked("values", values, self._shapes[0], self._layer.rows)
        placed, surface = self._placed, self.surface
        strengths = v[:, :, None] * placed.e if self._key[1] == "traction" else v
        strengths = strengths if self._layer.rows > 1 else v[:, 0]
        back = self._plan.adjoint(surface.xp.ascontiguousarray(strengths))
        back = back.reshape(len(v), SUMS[self._key[0]].rows, surface.areas.size)
        if SUMS[self._key[0]].rows > self._layer.columns:  # dipoles along the normals
            back = (back * surface.normals).sum(axis=1, keepdims=True)
        dens = (back * surface.areas + placed.corrections(v, transposed=True)).astype(v.dtype)
        many = as_array("values", values).ndim > len(self._shapes[0])
        several = dens.shape[:1] if many else ()
        return as_given(dens.reshape((*several, *self._shapes[1])), values)

    @alone
    def as_linear_operator(self) -> Any:
        """Return the layer as an operator on flattened densities, a component after the other."""
        return linear_operator(self, self.adjoint, self._shapes, self._plan.dtype, self._plan.space)

    @alone
    def check(self, density: Array) -> float:
        """Return an estimate of the error of layers, relative to the largest value.

        It is the largest difference from corrections of a larger width and reach, which sees how
        well nodes resolve the surface, and the layer of the last two degrees of the density's
        series, which is more than what degrees beyond them would add. It does not see the error of
        sums, which the tolerance bounds.
        """
        q = self._density(density)
        placed, wider = self._placed, self._regularisation.wider()
        values: Any = self(density)
        change, size = placed.corrections(q), abs(values).max()
        parts, near = self._corrections(placed.surface, placed.e, wider, self.options)
        other = placed._replace(self_parts=parts, near=near).corrections(q)
        last = placed.surface.last_degrees(q).astype(q.dtype).reshape((-1, *self._shapes[1]))
        unresolved = abs(self(last)).max()
        return float((abs(change - other).max() + unresolved) / size) if change.size else 0.0

    @alone
    def update_positions(
        self, centres: Array, rotations: AnyArray = None, *, box: Box | None = None
    ) -> None:
        """Move the bodies: their own corrections turn with them, near pairs are found anew.

        On an error they stay where they were.

        Parameters
        ----------
        centres : array, shape (3, B)
        rotations : see `Surface.moved`
        box : array, shape (3, 3), or 3 lengths
            The present box: see `parki.Plan.update_points`. Default: as before.
        """
        self._place(self.surface.moved(centres, rotations), box)

    @alone
    def update(self, surface: Bodies, *, box: Box | None = None) -> None:
        """Give the plan another surface, such as the same bodies after they have deformed.

        On an error it keeps the one it has. For ``box`` see `update_positions`.
        """
        self._place(surface, box)

    @property
    def gap(self) -> float:
        """The smallest distance of a target from a body that it is no node of, over h there.

        Infinite, if no target is close to another body.
        """
        return apart.smallest_gap(self._placed.near.events)[0]

    @alone
    def describe(self) -> str:
        """Return numbers of pairs, and the smallest distance of a target from another body."""
        near, surface = self._placed.near, self.surface
        events = near.events
        counts = f"{surface.areas.size} nodes, {self._plan.n_targets} targets"
        lines = [f"{self._key[0]}, {self._key[1]}: {counts}"]
        if events.distance.size:
            lines.append(
                f"{events.distance.size} targets near bodies, at {self.gap:.2g} node distances or "
                "more"
            )
        lines.append(f"{near.numbers} numbers in matrices of near pairs")
        return "\n".join(lines)


def flat_hint(values: AnyArray, shape: tuple[int, ...]) -> str:
    """Return a hint for vectors, such as solvers return."""
    flat = values.ndim == 1 and len(shape) == 2 and values.size == math.prod(shape)
    return f"; reshape it: .reshape({shape[0]}, -1)" if flat else ""
