"""The promise of the tolerance, and the sums that it is tested on.

A `Case` is one sum: what is summed over which points, in which precision and to which tolerance.
`sweep` puts the cases in an order of which every first part meets all values, and all pairs of
values, about equally often: the tests run the start of it, ``scripts/accuracy.py`` as much as time
allows.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import flat
import numpy as np
import pytest

import parki
from examples import example
from parki.ewald.choice import machines
from parki.ewald.sums import SUMS
from parki.interchange import to_host

Array = np.ndarray[Any, np.dtype[Any]]

KERNELS = tuple(SUMS)
PERIODICITIES = (0, 1, 2, 3)
SPLITS = ("auto", "prolate", "hasimoto")
FIELDS = ("u", "p", "grad_u", "stress")
# Twice the velocity: it is what most sums want.
WANTS = (("u",), ("u",), ("p",), ("grad_u",), ("stress",), FIELDS)
TOLERANCES = {
    "f8": tuple(float(f"1e-{n}") for n in range(1, 14)),
    "f4": (1e-1, 5e-2, 2e-2, 1e-2, 5e-3, 1e-3, 5e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6),
    "mixed": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
}
# In units far from 1, and exact in float32, so that both precisions share a reference.
BOXES = {
    "cube": (1.0, 1.0, 1.0),
    "brick": (1.5, 1.0, 0.5),
    "long": (64.0, 16.0, 16.0),
    "pipe": (10.0, 1.0, 1.0),
    "tower": (0.125, 0.125, 1.25),
    "film": (5.0, 5.0, 0.5),
    "plank": (1.0, 8.0, 0.5),
    "sheet": (1.0, 0.0625, 1.5),
}
# Every ratio of edges from 1/8 to 8, for sweeps of boxes alone.
FLAT = {
    f"1x{a:g}x{b:g}": (1.0, a, b)
    for a, b in itertools.product([0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0], repeat=2)
}
# Sides, and tilts over the sides that they are along.
TILTED = {
    f"{x:g}x{y:g}x{z:g} leaning {a:g} {b:g} {c:g}": ((x, y, z), (a * x, b * x, c * y))
    for (x, y, z), (a, b, c) in itertools.product(
        ((1, 1, 1), (1, 1, 0.125), (8, 1, 1), (1, 8, 1), (0.25, 1, 2)),
        ((0.5, 0.5, 0.5), (0.5, 0, 0), (0.3, -0.5, 0.2), (-0.5, 0.1, 0.5), (0.02, 0.5, -0.4)),
    )
}
SMALL, LARGE = 300, 10_000
# Units of roundoff of the longest edge by which wrapping rounds positions in tilted boxes, which
# may be turned. Single and mixed precision keep what is rounded.
POSITIONS = 2
# Targets of large clouds that are compared with the direct sum.
SAMPLED = 60
# Where few targets are close to sources and have most of the error, so many.
OF_FEW, MANY_SAMPLED = ("blobs_from_afar", "elsewhere", "outside"), 1000
# Rounding may add this many times the unit roundoff of the rms of the result; more in double
# precision, for windows of up to 18 points and for the 1e-14 of the direct sum itself.
ROUNDING = {"f4": 64, "f8": 128, "mixed": 64}
# The promise is one of the mean square over random densities. On whole lattices few waves have the
# error, and single densities scatter about the mean; `test_the_worst_density` holds the mean.
SCATTER = 1.5
# Below this part of the promise, time is wasted.
LEAST = 0.02


# --- clouds -----------------------------------------------------------------------------------
#
# Points of the unit cube: n of them, from random numbers.


def _uniform(rng: np.random.Generator, n: int) -> Array:
    return rng.random((3, n))


def _blobs(rng: np.random.Generator, n: int) -> Array:
    """Two Gaussian blobs of width 0.03."""
    middle = np.where(np.arange(n) % 2, 0.3, 0.7)
    return np.clip(middle + 0.03 * rng.standard_normal((3, n)), 0, 1)


def _sphere(rng: np.random.Generator, n: int) -> Array:
    x = rng.standard_normal((3, n))
    return 0.5 + 0.3 * x / np.linalg.norm(x, axis=0)


def _corner(rng: np.random.Generator, n: int) -> Array:
    return 0.4 * rng.random((3, n))


def _opposite(rng: np.random.Generator, n: int) -> Array:
    return 1 - _corner(rng, n)


def _lattice(rng: np.random.Generator, n: int) -> Array:
    """Some points of a regular grid that often lies on the solver's own."""
    side = 8 if n <= 512 else 32
    chosen = rng.permutation(side**3)[:n]
    return np.array(np.unravel_index(chosen, (side,) * 3)) / side


def _whole_lattice(rng: np.random.Generator, n: int) -> Array:
    """All sites of a lattice that often lies on the solver's grid: n of them, or somewhat fewer."""
    side = 2 * int(n ** (1 / 3) / 2)
    return np.array(np.unravel_index(np.arange(side**3), (side,) * 3)) / side


def _shifted_lattice(rng: np.random.Generator, n: int) -> Array:
    points = _whole_lattice(rng, n)
    return points + 0.37 * (1 - points.max())


def _nearly_lattice(rng: np.random.Generator, n: int) -> Array:
    return _lattice(rng, n) + 1e-5 * rng.random((3, n))


def _line(rng: np.random.Generator, n: int) -> Array:
    """Return points along a diagonal, which is the extreme of a filament."""
    return rng.random(n) + 1e-4 * rng.standard_normal((3, n))


def _two_scales(rng: np.random.Generator, n: int) -> Array:
    """Half of the points in a cube of 1/50 of the edge."""
    x = rng.random((3, n))
    x[:, ::2] = 0.43 + 0.02 * x[:, ::2]
    return x


def _around(rng: np.random.Generator, n: int) -> Array:
    """Two boxes further on either side: other periods, or far away along free axes."""
    return 5 * rng.random((3, n)) - 2


def _faces(rng: np.random.Generator, n: int) -> Array:
    """A third of the points in a small cloud that all faces cut."""
    x = rng.random((3, n))
    x[:, ::3] = np.mod(1e-3 * rng.standard_normal(x[:, ::3].shape), 1)
    return x


# Shape of the sources, of the targets, and the part of the targets that are sources.
CLOUDS = {
    "uniform": (_uniform, _uniform, 0.0),
    "same": (_uniform, _uniform, 1.0),
    "partly": (_uniform, _uniform, 0.3),
    "blobs_same": (_blobs, _blobs, 1.0),
    "blobs": (_blobs, _blobs, 0.0),
    "blobs_from_afar": (_blobs, _uniform, 0.0),
    "lattice": (_lattice, _lattice, 1.0),
    "whole_lattice": (_whole_lattice, _whole_lattice, 1.0),
    "shifted_lattice": (_shifted_lattice, _shifted_lattice, 1.0),
    "nearly_lattice": (_nearly_lattice, _uniform, 0.0),
    "sphere_same": (_sphere, _sphere, 1.0),
    "line": (_line, _line, 1.0),
    "two_scales": (_two_scales, _two_scales, 1.0),
    "faces": (_faces, _faces, 0.3),
    "elsewhere": (_corner, _opposite, 0.0),
    "outside": (_uniform, _around, 0.0),
}
# Densities of one sign and smooth ones meet all of a lattice's modes in phase.
WHOLE = ("whole_lattice", "shifted_lattice")
# Their shape is kept in boxes that are not cubes.
ROUND = (_blobs, _sphere)


def edges_of(box: str) -> tuple[float, ...]:
    """Return the edges of a box of `BOXES` or `FLAT`, or the sides of one of `TILTED`."""
    return TILTED[box][0] if box in TILTED else BOXES[box] if box in BOXES else FLAT[box]


def box_of(box: str, periodicity: int) -> list[Any]:
    """Return a box for `EwaldOptions`; the points of a tilted one fill its sides as well."""
    if box not in TILTED:
        return list(edges_of(box))
    edges, tilts = TILTED[box]
    return list(parki.lattice(*edges, *tilts[: 3 if periodicity == 3 else 1]).tolist())


def _place(shape: Any, rng: np.random.Generator, n: int, edges: Array) -> Array:
    """Return points in the box, exact in float32."""
    points = shape(rng, n)
    if shape not in (_lattice, _whole_lattice, _around):  # rounded, they stay inside
        points = np.clip(points, 0, 1) * (1 - 1e-7)
    scale = edges.min() if shape in ROUND else edges
    return (scale * points).astype("f4").astype("f8")


# --- densities --------------------------------------------------------------------------------


def _random(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    shape = src.shape[1]
    return rng.standard_normal((6, shape)), rng.standard_normal((3, shape))


def _neutral(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    """Densities that add up to exactly zero, in every precision."""
    dens, norms = _random(rng, src, edges)
    half = src.shape[1] // 2
    dens[:, 2 * half :] = 0
    dens[:, half : 2 * half] = -dens[:, :half]
    norms[:, half : 2 * half] = norms[:, :half]
    return dens, norms


def _uneven(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    """Sizes over some orders of magnitude: a part of the sources has most of Q."""
    dens, norms = _random(rng, src, edges)
    return dens * 10 ** rng.uniform(-4, 0, src.shape[1]), norms * 10 ** rng.uniform(-1, 1)


def _parallel(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    dens, norms = _random(rng, src, edges)
    dens[:3] = norms * rng.standard_normal(src.shape[1])
    dens[3:] = dens[:3]
    return dens, norms


def _perpendicular(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    dens, norms = _random(rng, src, edges)
    dens[:3] = np.cross(norms, dens[:3], axis=0)
    dens[3:] = dens[:3]
    return dens, norms


def _one_sign(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    dens, norms = _random(rng, src, edges)
    return np.abs(dens), np.abs(norms)


def _smooth(rng: np.random.Generator, src: Array, edges: Array) -> tuple[Array, Array]:
    """Waves as long as the box, as the densities of boundary integrals are."""
    waves = 2 * np.pi * rng.integers(-1, 2, (9, 3)) / edges.T
    values = np.sin(waves @ src + rng.uniform(0, 2 * np.pi, (9, 1)))
    return values[:6], values[6:]


DENSITIES = {
    "random": _random,
    "neutral": _neutral,
    "uneven": _uneven,
    "parallel": _parallel,
    "perpendicular": _perpendicular,
    "one_sign": _one_sign,
    "smooth": _smooth,
}
# Errors of neighbours add up, and so does the flow: the promise takes the tolerance's part of it.
COHERENT = ("one_sign", "smooth")
OF_NORMALS = ("parallel", "perpendicular")


class Cloud(NamedTuple):
    """Points, and a density and normals for every kernel; all exact in float32."""

    trg: Array
    src: Array
    dens: Array
    norms: Array

    def arguments(self, kernel: str) -> tuple[Array, Array | None]:
        """Return the density and the normals of a kernel."""
        dens, norms = example(kernel).taken(self.dens, self.norms)
        return dens.astype("f4").astype(self.dens.dtype), norms


def cloud(
    name: str, n: int, box: Any, dtype: str = "f8", seed: int = 0, density: str = "random"
) -> Cloud:
    """Return ``n`` sources and as many targets; the same array where they are the same points."""
    rng = np.random.default_rng([seed, n, *name.encode(), *density.encode()])
    sources, targets, part = CLOUDS[name]
    edges = np.array(box, dtype=float)[:, None]
    src = trg = _place(sources, rng, n, edges).astype(dtype)
    if part < 1:
        trg = _place(targets, rng, n, edges).astype(dtype)
        trg[:, : int(part * n)] = src[:, : int(part * n)]
    dens, norms = DENSITIES[density](rng, src, edges)
    # Both halves of a combined sum get the same promise, or one would hide the other.
    length = float(edges.prod()) ** (1 / 3)
    size = np.linalg.norm(dens[3:] * np.linalg.norm(norms, axis=0))
    dens[3:] *= length * np.linalg.norm(dens[:3]) / size
    return Cloud(trg, src, *(a.astype("f4").astype(dtype) for a in (dens, norms)))


# --- bounds -----------------------------------------------------------------------------------


def promise(
    kernel: str, dens: Array, norms: Array | None, box: Any, tolerance: float, field: str = "u"
) -> float:
    """Return the bound of the rms error of a field, before rounding."""
    return example(kernel).promise(dens, norms, box, tolerance, field)


def fields_of(kernel: str, want: Iterable[str] = FIELDS) -> tuple[str, ...]:
    """Return those fields that a sum has, which are not zero; a stress may have no pressure."""
    own = example(kernel)
    return tuple(f for f in want if f in own.fields or (f == "stress" and not own.scalar))


def call_of(module: Any, kernel: str) -> Any:
    """Return a module's call of a sum, also for a name with parameters."""
    if hasattr(module, kernel):
        return getattr(module, kernel)
    made = parki.ewald.api if module in (parki, parki.ewald) else module
    return functools.partial(made._sum, kernel)


def rms(values: Array) -> float:
    """Return the rms over points, the last axis, of the size of a potential, vector or matrix."""
    values = np.asarray(to_host(values), dtype=float)
    return float(np.sqrt((values.reshape(-1, values.shape[-1]) ** 2).sum(axis=0).mean()))


def assert_promised(plan: Any, dens: Any, exact: Any, digits: float = 0.0) -> None:
    """Assert errors of the promise, and of digits of the rms of each result, at most."""
    results, promises = plan(dens), plan.promise(dens)
    if isinstance(plan.want, str):
        results, exact, promises = (results,), (exact,), (promises,)
    for found, right, promise in zip(results, exact, promises, strict=True):
        assert rms(found - right) <= promise + digits * rms(right)


def matrix_of(operator: Any) -> Array:
    """Return the matrix of an operator, by kernels of one density, which other tests have too."""
    return np.stack([operator @ column for column in np.eye(operator.shape[1])], axis=1)


def rounding(pot: Array, ref: Array) -> float:
    """Return what rounding in the dtype of ``pot`` may add to the error of a velocity."""
    return _rounding(f"f{pot.dtype.itemsize}", rms(ref))


def _rounding(precision: str, size: float) -> float:
    unit = np.finfo("f8" if precision == "f8" else "f4").eps
    return ROUNDING[precision] * float(unit) * size


def error_over_promise(
    kernel: str, pot: Array, ref: Array, cloud: Cloud, box: Any, tolerance: float
) -> float:
    """Return the rms error over what the tolerance and rounding allow; at most 1 is promised."""
    dens, norms = cloud.arguments(kernel)
    return rms(pot - ref) / (promise(kernel, dens, norms, box, tolerance) + rounding(pot, ref))


# --- cases ------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What came out for one field.

    Attributes
    ----------
    field : str
    error : float
        The rms over targets.
    promise : float
        What the tolerance allows; for coherent densities with the tolerance's part of the flow.
    rounding : float
        What rounding may add.
    flow : float
        The rms of the field itself.
    """

    field: str
    error: float
    promise: float
    rounding: float
    flow: float

    @property
    def ratio(self) -> float:
        """Error over what is allowed; at most 1."""
        return self.error / (self.promise + self.rounding)


class Case(NamedTuple):
    """One sum, by the names of its factors; ``dtype`` is one of `TOLERANCES`."""

    cloud: str
    density: str
    box: str
    kernel: str
    periodicity: int
    want: tuple[str, ...]
    n: int
    dtype: str
    tolerance: float
    split: str

    def __str__(self) -> str:
        factors = (self.kernel, f"{self.periodicity}P", self.box, self.cloud, self.density, self.n)
        asked = ("+".join(self.want), self.dtype, f"{self.tolerance:.0e}", self.split)
        return ", ".join(map(str, factors + asked))

    @property
    def points(self) -> Cloud:
        """The points and densities, in float64."""
        return _cloud(self.cloud, self.density, self.n, self.box)

    def reference(self) -> tuple[dict[str, Array], dict[str, float]]:
        """Return the direct sums, and what rounding is relative to; of the velocity in any case.

        The same for every precision, tolerance and split.
        """
        return _reference(self._key)

    @property
    def _key(self) -> Case:
        """The case without what the reference does not depend on."""
        return self._replace(dtype="", tolerance=0.0, split="")

    def exact(self, trg: Array, src: Array, want: tuple[str, ...]) -> dict[str, Array]:
        """Return direct sums by name."""
        given = trg, src, *self.points.arguments(self.kernel)
        how = {"box": box_of(self.box, self.periodicity), "periodicity": self.periodicity}
        return dict(zip(want, example(self.kernel).exact(*given, want=want, **how), strict=True))

    def plan(self, space: str = "CPU", **options: Any) -> tuple[parki.Plan, Any]:
        """Return a plan and its density; ``options`` go to `EwaldOptions`."""
        cloud = self.points
        dens, norms = cloud.arguments(self.kernel)
        box = box_of(self.box, self.periodicity)
        if self.cloud == "outside":
            box[self.periodicity :] = [None] * (3 - self.periodicity)
        settings = {
            "periodicity": self.periodicity,
            "box": box,
            "tolerance": self.tolerance,
            "execution_space": space,
            "split": self.split,
        }
        if self.periodicity == 3:
            settings["dl_mean"] = "zero"  # as by default, but points outside are meant
        dtype = self.dtype
        if dtype == "mixed":
            settings["precision"], dtype = dtype, "f8"
        array = functools.partial(parki.utils.get_array_module(space).asarray, dtype=dtype)
        src = array(cloud.src)
        trg = src if cloud.trg is cloud.src else array(cloud.trg)
        normals = None if norms is None else array(norms)
        plan = parki.Plan(
            self.kernel,
            trg,
            src,
            normals,
            flat.options(**(settings | options)),
            want=self.want,
        )
        return plan, array(dens)

    def outcomes(self, space: str = "CPU", **options: Any) -> list[Outcome]:
        """Sum, and compare with the direct sum."""
        plan, density = self.plan(space, **options)
        results = plan(density)
        dens, norms = self.points.arguments(self.kernel)
        outcomes = []
        references, sizes = self.reference()
        for field, pot in zip(self.want, results, strict=True):
            ref = references[field]
            values = to_host(pot[..., : ref.shape[-1]])
            flow = rms(ref)
            sides = plan.box if plan.box.ndim == 1 else np.diag(plan.box)
            bound = promise(self.kernel, dens, norms, sides, self.tolerance, field)
            if self.density in COHERENT and self.cloud in WHOLE:
                bound *= (example(self.kernel).components * self.points.src.shape[1]) ** 0.5
            elif self.cloud in WHOLE:
                bound *= SCATTER
            elif self.density in COHERENT:
                bound += self.tolerance * flow
            error = rms(values - ref)
            # Pressures and gradients are differences of velocities at least.
            size = sizes[field] + (sizes["u"] / min(edges_of(self.box)) if field != "u" else 0)
            rounded = _rounding(self.dtype, size)
            if self.box in TILTED and self.dtype == "f8":
                unit = float(np.finfo(self.dtype).eps) * max(edges_of(self.box))
                rounded += POSITIONS * unit * _slopes(self._key)[field]
            outcomes.append(Outcome(field, error, bound, rounded, flow))
        return outcomes


@functools.lru_cache(maxsize=16)
def _cloud(name: str, density: str, n: int, box: str) -> Cloud:
    return cloud(name, n, edges_of(box), density=density)


@functools.lru_cache(maxsize=64)
def _reference(case: Case) -> tuple[dict[str, Array], dict[str, float]]:
    c, n, few = case.points, case.n, case.cloud in OF_FEW
    trg = c.trg[:, : n if n <= SMALL else MANY_SAMPLED if few else SAMPLED]
    # Rounding spreads over the grid from where the field is largest: at the sources.
    both = np.concatenate([trg, c.src[:, :SAMPLED]], axis=1) if few else trg
    found, count = case.exact(both, c.src, tuple(dict.fromkeys(("u", *case.want)))), trg.shape[1]
    sizes = {field: max(rms(v[..., :count]), rms(v[..., -SAMPLED:])) for field, v in found.items()}
    return {field: v[..., :count] for field, v in found.items()}, sizes


@functools.lru_cache(maxsize=64)
def _slopes(case: Case) -> dict[str, float]:
    """Return the changes of the fields as positions are rounded, over the unit of rounding."""
    unit, (exact, _) = 2.0**-34 * max(edges_of(case.box)), _reference(case)
    turn = np.linalg.qr(np.random.default_rng(0).random((3, 3)))[0]
    points = case.points.trg[:, : exact["u"].shape[-1]], case.points.src
    moved = case.exact(*(turn.T @ (np.round(turn @ p / unit) * unit) for p in points), tuple(exact))
    return {name: rms(each - exact[name]) / unit for name, each in moved.items()}


@contextlib.contextmanager
def costs_of_a_device() -> Iterator[None]:
    """Let CPUs choose parameters and variants by the costs of a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machines, "built_in", lambda space: machines.shipped(machines.FILES[True]))
        patch.setattr(machines, "read", lambda space: None)
        yield


# --- the sweep --------------------------------------------------------------------------------

FACTORS: tuple[tuple[Any, ...], ...] = (
    tuple(CLOUDS),
    tuple(DENSITIES),
    tuple(BOXES),
    KERNELS,
    PERIODICITIES,
    WANTS,
    (SMALL, LARGE),
    tuple((dtype, tolerance) for dtype, values in TOLERANCES.items() for tolerance in values),
    SPLITS,
)
# The first factors make the reference, which this many cases in a row share.
OF_REFERENCE, SHARED = 7, 4
CANDIDATES = 24


def sweep(
    sizes: tuple[int, ...] = (SMALL, LARGE),
    seed: int = 0,
    boxes: Iterable[str] = BOXES,
    kernels: Iterable[str] = KERNELS,
    densities: Iterable[str] = (),
) -> Iterator[Case]:
    """Yield cases without end, none twice.

    Each next one is that of some random candidates whose pairs of values were met least.

    Parameters
    ----------
    sizes : tuple of int
        Numbers of points to use.
    seed : int
        Another order.
    boxes, kernels, densities : iterable of str
        Names; sums may have parameters.
    """
    rng = np.random.default_rng(seed)
    others = {(SMALL, LARGE): sizes, tuple(BOXES): tuple(boxes), KERNELS: tuple(kernels)}
    others |= {tuple(DENSITIES): tuple(densities) or tuple(DENSITIES)}
    factors = [others.get(values, values) for values in FACTORS]
    counts = np.array([len(values) for values in factors])
    pairs = list(itertools.combinations(range(len(factors)), 2))
    met = {(a, b): np.zeros((counts[a], counts[b])) for a, b in pairs}
    seen = set()
    previous = np.zeros((1, len(factors)), dtype=int)
    for number in itertools.count():
        picks = rng.integers(counts, size=(CANDIDATES, len(factors)))
        if number % SHARED:
            picks[:, :OF_REFERENCE] = previous[:OF_REFERENCE]
        # A pair that was met k times counts 2^-k: those never met come first.
        new = sum(0.5 ** met[a, b][picks[:, a], picks[:, b]] for a, b in pairs)
        for row in np.argsort(-new, kind="stable"):
            pick = picks[row]
            case = _case(*(values[i] for values, i in zip(factors, pick, strict=True)))
            if case is not None and case not in seen:
                break
        else:
            continue
        previous = pick
        for a, b in pairs:
            met[a, b][pick[a], pick[b]] += 1
        seen.add(case)
        yield case


def _case(
    cloud: str,
    density: str,
    box: str,
    kernel: str,
    periodicity: int,
    want: tuple[str, ...],
    n: int,
    asked: tuple[str, float],
    split: str,
) -> Case | None:
    """Return a case, or None for what does not exist."""
    if density in OF_NORMALS and not example(kernel).products:
        return None
    if box in TILTED and periodicity < 2:
        return None
    want = fields_of(kernel, want)
    return Case(cloud, density, box, kernel, periodicity, want, n, *asked, split) if want else None
