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
from clouds import (
    BOXES,
    CLOUDS,
    COHERENT,
    DENSITIES,
    OF_NORMALS,
    TILTED,
    WHOLE,
    Cloud,
    box_of,
    cloud,
    edges_of,
)

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
        machines.clear()
        yield
    machines.clear()


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
