"""`Surface`: closed surfaces of bodies, by nodes or ready made."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from parki.core import as_points
from parki.errors import ParkiTypeError, ParkiValueError, warn
from parki.interchange import as_array, positive, to_host, told_apart, whole
from parki.memory import telling
from parki.surfaces import series, shapes
from parki.surfaces.bodies import Bodies, matrices, numbers
from parki.surfaces.layer_plan import layer_of
from parki.surfaces.series import Interpolation
from parki.surfaces.shapes import Finer, Shape
from parki.typing import AnyArray, Array

AREA_OFF = 0.2  # relative error of the normals' flux through a closed surface
MOST_AREA = 1.3  # of a node, in squares of its spacing: 1 on a square lattice
ROUGH = 0.05  # of the radius, by which points may differ from their series


@telling
class Surface(Bodies):
    """Closed surfaces of bodies, for layer potentials on them, near them and far away.

    A body is a shape at a centre, with a rotation. All bodies of a shape share the corrections at
    their own nodes. `spheres`, `ellipsoids` and `tori` make ready ones, whose densities are
    interpolated to finer nodes near a target. Bodies in a periodic box may cross its faces; their
    nodes stay together.

    Parameters
    ----------
    nodes, normals : array, shape (3, N), float32 or float64
        They are those of smooth closed surfaces, with outward normals of length 1.
    areas : array, shape (N,)
        Weights of a quadrature rule for smooth functions on the surface.
    systems : sequence of int, optional
        First node of each body, and the number of nodes at the end: ``[0, 500, 1000]`` for two
        bodies. Default: one body.
    spacing : array, shape (N,), optional
        Local distance of neighbouring nodes in the widest direction. Default: from the nodes.
    project : callable, optional
        ``project(points)`` returns the normals at the points of the body that are nearest, shape
        (3, m), and signed distances, positive outside, shape (m,); for one body only. Default:
        local fits of the nodes.
    finer : tuple of 4 arrays, optional
        Nodes (3, m), normals (3, m) and areas (m,) of a finer rule for one body, and the matrix
        (m, N) from a density at the nodes to one at the finer nodes.

    Attributes
    ----------
    nodes, normals : array, shape (3, N)
    areas, spacing, curvature : array, shape (N,)
        Curvatures are sums of both principal ones: 2/a on a sphere of radius a.
    volumes, total_areas : array, shape (B,)
        The volume and the area of each body.
    centroids : array, shape (3, B)
        The middle of each body's volume.
    systems : ndarray, shape (B + 1,)
    centres : ndarray, shape (3, B)
        The middle of its surface, if a body is given by nodes.
    frames : ndarray, shape (B, 3, 3)
        Rotations from the bodies' frames.

    Raises
    ------
    ParkiValueError, ParkiTypeError

    Examples
    --------
    >>> import numpy as np, parki
    >>> sphere = parki.Surface.spheres(np.zeros((3, 1)), 1.0)
    >>> u = sphere.double_layer(np.ones_like(sphere.nodes), periodicity=0, tolerance=1e-6)
    >>> bool(abs(u / (8 * np.pi) - 0.5).max() < 1e-5)
    True
    """

    def __init__(
        self,
        nodes: Array,
        normals: Array,
        areas: Array,
        *,
        systems: Any = None,
        spacing: AnyArray = None,
        project: Any = None,
        finer: Any = None,
    ) -> None:
        points = as_points("nodes", nodes)
        count = points.shape[1]
        arrays = [
            to_host(points),
            _host("normals", normals, 3, count),
            _host("areas", areas, 1, count),
            None if spacing is None else _host("spacing", spacing, 1, count),
        ]
        starts = np.array([0, count] if systems is None else systems)
        if starts[0] != 0 or starts[-1] != count or (np.diff(starts) <= 0).any():
            raise ParkiValueError(
                f"systems is {systems}; expected the first node of each body, from 0, and {count}"
            )
        if starts.size > 2 and not (project is None and finer is None):
            raise ParkiValueError(
                "project and finer are of one body, but systems has several; make a surface of "
                "each body, and join them by parki.Surface.join"
            )
        bodies: list[Shape] = []
        centres = []
        for first, last in itertools.pairwise(starts.tolist()):
            coordinates: Any = [
                None if array is None else array[..., first:last].astype(np.float64)
                for array in arrays
            ]
            x, n, area, h = coordinates
            middle = _check_closed(x, n, area)
            moved = None if project is None else _Moved(project, middle)
            shape = shapes.of_nodes(x - middle, n, area, h, moved)
            _check_areas(shape)
            bodies.append(shape if finer is None else _with_finer(shape, finer, middle))
            centres.append(middle[:, 0])
        kinds, frames = np.arange(len(bodies)), matrices(None, len(bodies))
        super().__init__(bodies, kinds, np.stack(centres, axis=1), frames, nodes)

    # ------------------------------------------------------------------ ready made
    @classmethod
    def spheres(
        cls, centres: Array, radii: AnyArray, *, order: int = 12, finer: int = 3
    ) -> Surface:
        """Return spheres at centres (3, B), with 2 (order + 1)^2 nodes each.

        Parameters
        ----------
        centres : array, shape (3, B)
            Its library and memory are those of the surface.
        radii : float, or array of shape (B,)
        order : int
            Degree up to which densities are resolved.
        finer : int
            How many times finer the nodes near a target are; 1 for the nodes alone.
        """
        count = as_points("centres", centres).shape[1]
        half = np.tile(np.zeros(count) + numbers("radii", radii), (3, 1))
        return cls.ellipsoids(centres, half, order=order, finer=finer)

    @classmethod
    def ellipsoids(
        cls,
        centres: Array,
        axes: AnyArray,
        rotations: AnyArray = None,
        *,
        order: int = 12,
        finer: int = 3,
    ) -> Surface:
        """Return ellipsoids with half axes of shape (3,) or (3, B): see `spheres`.

        ``rotations`` are quaternions (4, B) with the scalar last, or a ``Rotation`` of SciPy.
        """
        order = whole("order", order, "a whole number from 1 on")
        finer = whole("finer", finer, "a whole number from 1 on")
        count = as_points("centres", centres).shape[1]
        half = numbers("axes", axes)
        half = np.broadcast_to(half.reshape(3, -1), (3, count))
        if not (half > 0).all():
            raise ParkiValueError("half axes and radii must be positive")
        different, kinds = np.unique(half, axis=1, return_inverse=True)
        bodies = [shapes.ellipsoid(half_axes, order, finer) for half_axes in different.T]
        return cls._at(bodies, kinds.ravel(), centres, rotations)

    @classmethod
    def tori(
        cls,
        centres: Array,
        ring: float,
        tube: float,
        rotations: AnyArray = None,
        *,
        steps: tuple[int, int] = (36, 12),
        finer: int = 3,
    ) -> Surface:
        """Return tori around their z axes, with radii of ring and tube: see `ellipsoids`.

        ``steps`` are even numbers of nodes around the axis and around the tube.
        """
        ring, tube = positive("ring", ring), positive("tube", tube)
        if tube >= ring:
            one, other = told_apart(tube, ring)
            raise ParkiValueError(f"tube is {one}; expected less than ring, which is {other}")
        finer = whole("finer", finer, "a whole number from 1 on")
        around, across = (whole("steps", n, "two even numbers", 4) for n in steps)
        if around % 2 or across % 2:
            raise ParkiValueError(f"steps is {steps}; expected two even numbers")
        shape = shapes.torus(ring, tube, (around, across), finer)
        count = as_points("centres", centres).shape[1]
        return cls._at([shape], np.zeros(count, int), centres, rotations)

    @classmethod
    def rods(
        cls,
        centres: Array,
        length: float,
        radius: float,
        rotations: AnyArray = None,
        *,
        order: int = 14,
        finer: int = 3,
    ) -> Surface:
        """Return rods around their z axes with round caps: see `ellipsoids`.

        They are (z/l)^(2 p) + (d/radius)^2 = 1 at the distance d from the axis, with 2 l the length
        and p = l/radius, rounded, which is smooth. Their curvature is largest at the caps' rims.
        """
        length, radius = positive("length", length), positive("radius", radius)
        if length < 2 * radius:
            long, least = told_apart(length, 2 * radius)
            raise ParkiValueError(f"length is {long}; expected at least the diameter, {least}")
        order = whole("order", order, "a whole number from 1 on")
        times = whole("finer", finer, "a whole number from 2 on", 2)
        shape = shapes.rod(length, radius, order, times)
        count = as_points("centres", centres).shape[1]
        return cls._at([shape], np.zeros(count, int), centres, rotations)

    @classmethod
    def harmonics(cls, points: Array, *, finer: int = 3) -> Surface:
        """Return bodies that are maps of the unit sphere, such as drops, or stars r(y) y.

        Their curvatures come from the series. Nodes are the points, up to what the series lacks.

        Parameters
        ----------
        points : array, shape (3, B, n), or (3, n) for one body
            Places of the directions y = `directions` (order), for series of degrees up to
            ``order``, with n = 2 (order + 1)^2.
        finer : int
            How many times finer the nodes near a target are, from 2 on.
        """
        coordinates = numbers("points", points)
        maps = coordinates[:, None] if coordinates.ndim == 2 else coordinates
        order = round((maps.shape[-1] / 2) ** 0.5) - 1 if maps.ndim == 3 else 0
        if maps.ndim != 3 or len(maps) != 3 or order < 1 or 2 * (order + 1) ** 2 != maps.shape[2]:
            raise ParkiValueError(
                f"points has shape {coordinates.shape}; expected (3, n) or (3, B, n), with "
                "n = 2 (order + 1)^2 places of parki.Surface.directions(order)"
            )
        times = whole("finer", finer, "a whole number from 2 on", 2)
        middles = maps.mean(axis=2)
        still = np.flatnonzero((np.ptp(maps, axis=2) == 0).all(axis=0))
        if still.size:
            raise ParkiValueError(
                f"points of body {still[0]} are all at one place; expected a map of the unit sphere"
            )
        arms = (maps - middles[:, :, None]).transpose(1, 0, 2)
        bodies = [shapes.mapped(from_middle, order, times) for from_middle in arms]
        if any((shape.nodes * shape.normals * shape.areas).sum() <= 0 for shape in bodies):
            raise ParkiValueError(
                "points turn the sphere inside out; mirror them, or move them by shorter steps"
            )
        apart = max(
            abs(shape.nodes - from_middle).max() / shape.radius
            for shape, from_middle in zip(bodies, arms, strict=True)
        )
        if apart > ROUGH:
            warn(
                f"points differ by {apart:.0%} of the radius from their series of degree {order}: "
                f"take places of parki.Surface.directions({order}), in this order, or more of them"
            )
        frames = matrices(None, len(bodies))
        return _ReadyMade(bodies, np.arange(len(bodies)), middles, frames, points)

    @staticmethod
    def directions(order: int) -> np.ndarray:
        """Return nodes of the unit sphere, (3, n) with n = 2 (order + 1)^2: see `harmonics`."""
        return series.directions(whole("order", order, "a whole number from 1 on"))[0]

    @classmethod
    def _at(
        cls, bodies: list[Shape], kinds: AnyArray, centres: Array, rotations: AnyArray
    ) -> Surface:
        positions = numbers("centres", as_points("centres", centres))
        if not kinds.size:
            raise ParkiValueError("centres has no column; a surface has a body or more")
        return _ReadyMade(bodies, kinds, positions, matrices(rotations, kinds.size), centres)

    @classmethod
    def join(cls, *surfaces: Surface) -> Surface:
        """Return all bodies of some surfaces as one surface, whose arrays are like the first's."""
        firsts = np.cumsum([0, *(len(surface.shapes) for surface in surfaces)])
        kinds = [surface.kinds + n for surface, n in zip(surfaces, firsts, strict=False)]
        return _ReadyMade(
            [shape for surface in surfaces for shape in surface.shapes],
            np.concatenate(kinds),
            np.concatenate([surface.centres for surface in surfaces], axis=1),
            np.concatenate([surface.frames for surface in surfaces]),
            surfaces[0].nodes,
        )

    # ------------------------------------------------------------------ layers
    single_layer = layer_of("stokes_sl", "the single layer of forces per area, `stokes_sl`")
    double_layer = layer_of("stokes_dl", "the double layer, `stokes_dl` with the surface's normals")
    combined = layer_of("stokes_comb", "the sum of both layers, `stokes_comb`, of densities (6, N)")
    charge_layer = layer_of("laplace", "the potential of charges per area, `laplace`")
    dipole_layer = layer_of("laplace_dipole", "the potential of normal dipoles, `laplace_dipole`")

    def __repr__(self) -> str:
        bodies, nodes = self.kinds.size, self.areas.size
        return f"<parki.Surface: {bodies} bodies of {len(self.shapes)} shapes, {nodes} nodes>"


class _ReadyMade(Surface):
    """Surfaces of shapes that are known, at their places."""

    def __init__(
        self,
        shapes: Sequence[Shape],
        kinds: AnyArray,
        centres: AnyArray,
        frames: AnyArray,
        like: AnyArray,
    ) -> None:
        Bodies.__init__(self, shapes, kinds, centres, frames, like)


Surface.ready_made = _ReadyMade


class _Moved:
    """A user's ``project`` in a frame whose origin is elsewhere."""

    def __init__(self, project: Any, origin: np.ndarray) -> None:
        self._project, self._origin = project, origin

    def __call__(self, points: np.ndarray) -> Any:
        return self._project(points + self._origin)


def _host(name: str, value: Any, rows: int, count: int) -> Any:
    """Return rows of numbers for all nodes, on the host."""
    array = to_host(as_array(name, value))
    expected = (rows, count) if rows > 1 else (count,)
    if array.shape != expected:
        raise ParkiValueError(f"{name} has shape {array.shape}; expected {expected}, as nodes has")
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ParkiTypeError(f"{name} has dtype {array.dtype}, or NaN; expected finite floats")
    return array


def _check_closed(nodes: np.ndarray, normals: np.ndarray, areas: np.ndarray) -> Any:
    """Refuse what is no closed surface with outward normals; return its middle, shape (3, 1)."""
    if not (areas > 0).all() or abs((normals**2).sum(axis=0) - 1).max() > 1e-3:
        raise ParkiValueError("expected positive areas, and normals of length 1")
    middle = (nodes * areas).sum(axis=1, keepdims=True) / areas.sum()
    arms = nodes - middle
    # The integral of x_i n_j is the volume for i = j, and zero otherwise.
    flux = (arms * areas) @ normals.T
    volume = np.trace(flux) / 3
    if volume <= 0:
        raise ParkiValueError(
            "normals point inwards: the flux of x through the surface is negative; pass -normals"
        )
    if abs(flux - volume * np.eye(3)).max() > AREA_OFF * volume:
        off = abs(flux - volume * np.eye(3)).max() / volume
        raise ParkiValueError(
            "nodes, normals and areas are of no closed surface: the integral of x n differs from "
            f"the volume by {off:.0%}; give all nodes of each body, and systems for several bodies"
        )
    return middle


def _check_areas(shape: Shape) -> None:
    """Refuse areas that are too small for the volume, or too large for the nodes' distances."""
    area, volume = shape.areas.sum(), (shape.nodes * shape.normals * shape.areas).sum() / 3
    least = (36 * np.pi * volume**2) ** (1 / 3)  # of a ball
    most = MOST_AREA * (shape.spacing**2).sum()
    if not (1 - AREA_OFF) * least < area < most:
        raise ParkiValueError(
            f"areas add up to {area:.3g}; expected {least:.3g}, of a ball with the volume that "
            f"they give, to {most:.3g}, by the nodes' distances: do they have the right unit?"
        )


def _with_finer(shape: Shape, finer: Any, middle: np.ndarray) -> Shape:
    """Return a shape with finer nodes as the user gives them."""
    if not isinstance(finer, (tuple, list)) or len(finer) != 4:
        raise ParkiTypeError("finer is not (nodes, normals, areas, matrix)")
    nodes, normals, areas, matrix = (numbers("finer", values) for values in finer)
    count = areas.size
    expected = [(3, count), (3, count), (count,), (count, shape.areas.size)]
    if [nodes.shape, normals.shape, areas.shape, matrix.shape] != expected:
        raise ParkiValueError(f"finer has other shapes than {expected}")
    times = np.median(shape.spacing) / np.median(series.spacings(nodes, normals))
    return shape.with_finer(
        Finer(nodes - middle, normals, areas, float(times), Interpolation(matrix))
    )
