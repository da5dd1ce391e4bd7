"""Sums of parki itself: calls, composites, walls, tilted boxes, many systems, pairs left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from contract import call_of, rms, rounding

import parki
from examples import EXAMPLES, example
from faces.base import BLOBS, BOX, TOLERANCE, Array, Face, Given
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import velocity
from parki.interchange import to_host


class Call(Face):
    """One-shot calls, each of which begins anew."""

    name, words = "call", "calls, such as `parki.stokes_sl`"
    usual = ("stokes_comb", 1)
    module: Any = parki
    lacks = {
        "moves": "each call takes its points",
        "box": "each call takes its box",
        "rollback": "each call takes its points",
        "late": "each call takes its points",
        "out": "a call returns a new array; a plan takes `out=`",
        "memory": "a plan tells what it needs",
        "check": "a plan measures its error",
        "operator": "a plan is a linear operator",
    }

    def make(self, given: Given) -> Any:
        return given

    def apply(self, made: Given, dens: Any, **how: Any) -> Any:
        trg, src, norms = made.points
        normals = [] if norms is None else [norms]
        call = call_of(self.module, made.kernel)
        return call(trg, src, dens, *normals, made.options, **made.more, **how)

    def adjoint(self, made: Given, values: Any) -> Any:
        given = made.kernel, made.trg, made.src, None, made.norms, made.options
        return parki.vjp(*given, values=values, **made.more)["dens"]

    def pull(self, made: Given, given: Given, values: Array) -> dict[str, Array]:
        how = {"values": values, "wrt": tuple(self.inputs(given)), **given.more}
        return dict(parki.vjp(*self.arguments(given), **how))

    def push(self, made: Given, given: Given, moves: Mapping[str, Array]) -> Any:
        how = {"tangents": dict(moves), **given.more}
        return parki.jvp(*self.arguments(given), **how)

    def arguments(self, given: Given) -> tuple[Any, ...]:
        """Return the arguments of `parki.vjp`."""
        return given.kernel, given.trg, given.src, given.dens, given.norms, given.options

    def promise(self, made: Given, dens: Any) -> Any:
        return 0.0


def _weighed(dens: Any, at: Any) -> Any:
    return at["points"][0] * dens


def _halved(points: Any, at: Any) -> Any:
    return points / 2


class Composed(Face):
    """A sum, and the same of sources elsewhere, which are weighed by their places."""

    name, words = "composite", "composites of sums"
    tier = "2"
    usual = ("stokes_dipole", 2)

    def kernel(self, given: Given) -> Any:
        kind, kernel = given.example.kind, given.kernel
        shapes = kind.density_shape(1)[:-1], () if kind.results == 1 else (3,)
        elsewhere = Addend(kernel, ("u",), velocity, density=_weighed, sources=_halved)
        return Composite("both", *shapes, (Addend(kernel, ("u",), velocity), elsewhere))

    def reference(self, given: Given) -> Array:
        return super().reference(given) + super().reference(self.elsewhere(given))

    def bound(self, given: Given) -> float:
        return super().bound(given) + super().bound(self.elsewhere(given))

    def elsewhere(self, given: Given) -> Given:
        """Return the other sum."""
        return given._replace(src=given.src / 2, dens=given.src[0] * given.dens)


class Wall(Face):
    """Sums near a wall, compared with finer ones; `tests/test_wall.py` has Blake's tensor."""

    name, words = "wall", 'sums near a wall, `wall="no-slip"`'
    tier = "2"
    sums = ("stokes_sl", "stokes_dipole", "stokes_dl", "stokes_rotlet", "stokes_comb")
    periodicities, usual = (0, 1, 2), ("stokes_dipole", 2)
    transposed = TOLERANCE  # by sums of their own
    differences = 1e-4  # of sums that have errors

    def settings(self) -> dict[str, Any]:
        return {"wall": "no-slip"}

    def place(self, rng: np.random.Generator, box: Array, count: int) -> Array:
        return 0.05 + 0.9 * super().place(rng, box, count)

    def reference(self, given: Given) -> Array:
        """Return a finer sum of one part, of other parameters, in the unit 1."""
        unit, n = given.unit, given.example
        name, dens = n.in_unit(1 / unit, given.dens)
        options = {"tolerance": 1e-3 * TOLERANCE, "cutoff": 0.5, "precision": "full"}
        box = (np.array(given.options.box) / unit).tolist()
        own = given._replace(kernel=name, trg=given.trg / unit, src=given.src / unit, dens=dens)
        return self.apply(self.plan(own.by(box=box, **options)), own.dens)

    def bound(self, given: Given) -> float:
        return float(self.plan(given).promise(given.dens))


class Slit(Wall):
    """Sums between two walls; `tests/test_slit.py` has sums over modes."""

    name, words = "slit", "sums between two walls"
    periodicities, usual = (2,), ("stokes_dipole", 2)

    def settings(self) -> dict[str, Any]:
        return {"wall": ("no-slip", "no-slip")}

    def box(self, periodicity: int, tilt: float) -> Array:
        """Return the edges of a box, whose walls stay where they are."""
        return np.array([*super().box(periodicity, tilt)[:2], BOX[2]])


class Plates(Slit):
    """Charges between two plates of metal; `tests/test_plates.py` has sums over modes."""

    name, words = "plates", 'charges between plates, `wall=("metal", "metal")`'
    sums, usual = ("laplace", "laplace_dipole"), ("laplace", 2)
    transposed = 1e-12

    def settings(self) -> dict[str, Any]:
        return {"wall": ("metal", "metal")}


class Tilted(Face):
    """Tilted boxes."""

    name, words = "tilted", "tilted boxes"
    periodicities, usual = (2, 3), ("gravity", 3)
    tilted = True


def on_device(array: Any) -> Any:
    """Return an array of a device, and None for others."""
    return array if hasattr(array, "get") else None


class Deforming(Tilted):
    """A box that was another one before, in which points moved."""

    name, words = "deforming", "boxes that deform"

    def make(self, given: Given) -> Any:
        plan, here = None, [self.host(each) for each in given.points[:2]]
        masked = any(isinstance(each, np.ma.MaskedArray) for each in given.points[:2])
        if masked or any(each.shape[:1] != (3,) for each in here):  # which are refused
            return super().make(given)
        for tilt in (0.1, -0.2):
            periodicity = given.options.periodicity
            box = given.unit * self.box(periodicity, tilt)
            options = given.by(box=box.tolist()).options
            matrix = box.T @ np.linalg.inv(np.array(given.options.box)).T
            arrays = [
                np.asarray(
                    (matrix @ each).astype(each.dtype), like=own if hasattr(own, "get") else None
                )
                for each, own in zip(here, given.points[:2], strict=True)
            ]
            arrays = [*arrays, given.norms]
            if plan is None:
                plan = parki.Plan(given.kernel, *arrays, options, **given.more)
            else:
                plan.update_points(*arrays, box=options.box)
        return self.move(plan, given, box=True)

    def host(self, points: Any) -> Array:
        """Return points, whatever they are, as numbers on the host."""
        if points is not None and not hasattr(points, "ndim"):
            points = np.from_dlpack(points)
        return np.array(to_host(points), subok=False)


class Axes(Face):
    """Periodic axes that are not the first ones."""

    name, words = "axes", "any axes, such as `periodicity=(False, True, True)`"
    periodicities, usual = (1, 2), (*BLOBS, 1)

    def axes(self, kernel: str, periodicity: int) -> Any:
        """Return each of the orders that the solver does not have, by turns over the sums."""
        orders = {1: [(0, 1, 0), (0, 0, 1)], 2: [(0, 1, 1), (1, 0, 1)]}
        return orders[periodicity][example(kernel).kind.rows % 2]


class Results(Face):
    """All that a sum has, one below the other."""

    name, words = "results", "several results, `want=`"
    usual = ("stokes_comb", 1)
    transposed = TOLERANCE  # by sums of their own
    lacks = {
        f"{law} gravity": "registered sums say which transposes they have"
        for law in ("adjoint", "derivatives", "operator")
    }

    def want(self, given: Given) -> Any:
        return given.example.fields

    def rows(self, kernel: str) -> list[tuple[str, slice]]:
        """Return the rows of each result."""
        kind, start, found = example(kernel), 0, []
        sizes = {"u": kind.kind.results, "p": 1, "grad_u": 3 * kind.kind.results, "stress": 9}
        for name in kind.fields:
            found.append((name, slice(start, start + sizes[name])))
            start += sizes[name]
        return found

    def apply(self, made: Any, dens: Any, *, out: Any = None) -> Any:
        if out is not None:
            made(dens, out=self.split(made, out))
            return out
        return self.joined(made, made(dens))

    def adjoint(self, made: Any, values: Any) -> Any:
        return made.adjoint(self.split(made, values))

    def pull(self, made: Any, given: Given, values: Array) -> dict[str, Array]:
        return super().pull(made, given, self.split(made, values))

    def push(self, made: Any, given: Given, moves: Mapping[str, Array]) -> Any:
        return self.joined(made, super().push(made, given, moves))

    def split(self, made: Any, rows: Any) -> tuple[Any, ...]:
        """Return results, of which there may be several first, from their rows (..., rows, N)."""
        vector = (3,) * (made.task.sum.results > 1)
        shapes = {"u": vector, "p": (), "grad_u": (*vector, 3), "stress": (3, 3)}
        several, count = rows.shape[:-2], rows.shape[-1]
        return tuple(
            rows[..., own, :].reshape(*several, *shapes[name], count)
            for name, own in self.rows(made.task.kernel)
        )

    def joined(self, made: Any, results: tuple[Any, ...]) -> Any:
        """Return results one below the other."""
        several = results[0].shape[: results[0].ndim - (made.task.sum.results > 1) - 1]
        first = len(several)
        rows = [a.reshape(*several, math.prod(a.shape[first:-1]), a.shape[-1]) for a in results]
        return np.concatenate(rows, axis=-2)

    def promise(self, made: Any, dens: Any) -> Any:
        return np.stack(made.promise(dens), axis=-1)

    def reference(self, given: Given) -> Array:
        box, n = given.options.box, given.trg.shape[1]
        how = {"box": box, "periodicity": given.options.periodicity, "want": given.example.fields}
        found = given.example.exact(given.trg, given.src, given.dens, given.norms, **how)
        return np.concatenate([each.reshape(-1, n) for each in found])

    def off(self, given: Given, found: Any, exact: Any) -> float:
        found = np.asarray(to_host(found))
        assert found.shape == exact.shape
        rows, ratios = self.rows(given.kernel), []
        for (_, own), bound in zip(rows, self.bounds(given), strict=True):
            one, other = found[own], exact[own]
            single = one if given.options.precision == "full" else one.astype("f4")
            allowed = bound + rounding(single, other)
            # Pressures and gradients are differences of velocities at least.
            own_size = rounding(single, exact[rows[0][1]]) / min(given.options.box)
            allowed += own_size * (own.start > 0)
            ratios.append(rms(one - other) / allowed)
        return max(ratios)

    def bounds(self, given: Given) -> Sequence[float]:
        """Return the promise of each result."""
        of = given.dens, given.norms, given.options.box, given.options.tolerance
        return [given.example.promise(*of, name) for name in given.example.fields]


class ComposedResults(Composed, Results):
    """All that the sums of a composite have."""

    name, words = "composite results", "several results of composites"
    sums = ("stokes_comb", "laplace_dipole")
    periodicities, usual = (1, 3), ("stokes_comb", 1)

    def bounds(self, given: Given) -> Sequence[float]:
        each = (super(Composed, self).bounds(own) for own in (given, self.elsewhere(given)))
        return [sum(both) for both in zip(*each, strict=True)]


class WallResults(Results, Wall):
    """All that a sum near a wall has."""

    name, words = "wall results", "several results near a wall"
    sums = ("stokes_sl", "stokes_dl")
    periodicities, usual = (2,), ("stokes_sl", 2)

    def reference(self, given: Given) -> Array:
        found = Wall.reference(self, given)
        found[3:] /= given.unit  # which velocities have not
        return found

    def bounds(self, given: Given) -> Sequence[float]:
        return self.plan(given).promise(given.dens)  # type: ignore[no-any-return]


class Systems(Face):
    """Many systems in one box."""

    name, words = "systems", "many systems, `systems=`"
    usual = ("gravity", 3)
    lacks = {"permuted": "points of a system follow each other"}

    def offsets(self, given: Given) -> tuple[list[int], list[int]]:
        """Return where the points of each system begin."""
        n, m = given.trg.shape[1], given.src.shape[1]
        return [0, n // 3, n // 3, n - 4, n], [0, m // 2, m // 2 + 1, m - 9, m]

    def more(self, given: Given, rng: np.random.Generator) -> dict[str, Any]:
        return {"systems": self.offsets(given)}

    def reordered(self, value: Any, to: Array, of: Array) -> Any:
        """Return boxes as they are, and offsets of all points or of none."""
        if not isinstance(value, tuple):
            return value
        ends = zip(value, (to, of), strict=True)
        return tuple([min(each, len(own)) for each in offsets] for offsets, own in ends)

    def parts(self, given: Given) -> list[tuple[Any, Any, Array]]:
        box = np.array(given.options.box)
        ends = [[slice(a, b) for a, b in pairwise(o)] for o in self.offsets(given)]
        return [(to, of, box) for to, of in zip(*ends, strict=True)]


class Boxes(Systems):
    """Many systems, each in its box, of two shapes."""

    name, words = "boxes", "many boxes, `boxes=`"
    tier = "2"
    periodicities, usual = (0, 1, 3), ("gravity", 3)
    lacks = Systems.lacks | {"box": "boxes stay", "memory": "each plan tells its own"}

    def more(self, given: Given, rng: np.random.Generator) -> dict[str, Any]:
        boxes = [box.tolist() for *_, box in self.parts(given)]
        return {**super().more(given, rng), "boxes": boxes}

    def parts(self, given: Given) -> list[tuple[Any, Any, Array]]:
        shapes = np.array([1, 1, 1]), np.array([1, 1, 1]), 1.5 * np.ones(3), np.array([1, 1, 1.2])
        each = zip(super().parts(given), shapes, strict=True)
        return [(to, of, shape * box) for (to, of, box), shape in each]

    def make(self, given: Given) -> Any:
        settings = given.options
        names = {"periodicity", "tolerance", "precision", "cutoff", "execution_space", "wall"}
        if "periodicities" in given.more:
            names.remove("periodicity")
        how = {name: getattr(settings, name) for name in sorted(names)}
        return parki.Plan(self.kernel(given), *given.points, **how, **given.more)

    def move(self, made: Any, given: Given, box: bool = False) -> Any:
        made.update_points(*given.points, systems=given.more["systems"])
        return made


class Mixed(Boxes):
    """Many systems, whose first axis is periodic, and of some others, too."""

    name, words = "mixed", "systems of different periodicity, `periodicities=`"
    periodicities, usual = (1,), ("gravity", 1)
    each_of = (1, 2, (True, False, True), 3)

    def more(self, given: Given, rng: np.random.Generator) -> dict[str, Any]:
        return {**super().more(given, rng), "periodicities": list(self.each_of)}

    def each(self, given: Given) -> Iterator[tuple[Any, Given]]:
        """Yield the columns of the targets of each part, and what is given for it."""
        sizes = [given.trg[:, to].shape[1] for to, *_ in self.parts(given)]
        axes = [own for own, size in zip(self.each_of, sizes, strict=True) if size]
        for own, (to, part) in zip(axes, super().each(given), strict=True):
            yield to, part.by(periodicity=own)


class Labels(Face):
    """Pairs that are left out, of points whose nearest images are themselves."""

    name, words = "labels", "pairs left out, `exclude=`"
    tier = "2"
    sums = tuple(EXAMPLES)  # blobs have no pairs to leave out
    usual = ("stokes_dipole", 2)

    def place(self, rng: np.random.Generator, box: Array, count: int) -> Array:
        return super().place(rng, 0.45 * box, count) + 0.25 * box[:, None]

    def more(self, given: Given, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "exclude": (
                np.arange(given.trg.shape[1]) % 5 - 1,
                np.arange(given.src.shape[1]) % 7 - 1,
            )
        }

    def reordered(self, value: Any, to: Array, of: Array) -> Any:
        return value[0][to], value[1][of]

    def reference(self, given: Given) -> Array:
        found = super().reference(given)
        to, of = given.more["exclude"]
        for label in range(4):
            own = [np.flatnonzero(each == label) for each in (to, of)]
            norms = None if given.norms is None else given.norms[:, own[1]]
            pairs = given.trg[:, own[0]], given.src[:, own[1]], given.dens[..., own[1]], norms
            found[..., own[0]] -= given.example.exact(*pairs, periodicity=0, box=given.options.box)
        return found


class ComposedSystems(Systems, Composed):
    """Many systems of a sum and of the same of sources elsewhere."""

    name, words = "composite systems", "many systems of composites"
    sums = ("stokes_comb", "laplace_dipole")
    periodicities, usual = (0, 1, 3), ("stokes_comb", 1)


class WallSystems(Systems, Wall):
    """Many systems near a wall."""

    name, words = "wall systems", "many systems near a wall"
    periodicities, usual = (1, 2), Wall.usual


class ComposedBoxes(Boxes, Composed):
    """Systems in boxes of their own, of composites."""

    name, words = "composite boxes", "many boxes of composites"
    tier = "2 + 2"
    sums = ("stokes_comb", "laplace_dipole")
    periodicities, usual = (1, 3), ("stokes_comb", 1)


class WallBoxes(Boxes, Wall):
    """Systems in boxes of their own, near a wall."""

    name, words = "wall boxes", "many boxes near a wall"
    tier = "2 + 2"
    periodicities, usual = (2,), Wall.usual


class ComposedLabels(Labels, Composed):
    """Pairs that are left out, of sources where they are."""

    name, words = "composite labels", "pairs left out of composites"
    tier = "2 + 2"
    sums = ("stokes_comb", "laplace_dipole")
    periodicities, usual = (1, 2), ("stokes_comb", 1)


class WallLabels(Labels, Wall):
    """Pairs that are left out near a wall, whose images stay."""

    name, words = "wall labels", "pairs left out near a wall"
    tier = "2 + 2"
    sums = Wall.sums
    periodicities = (0, 2)


FACES = (
    *(Call(), Composed(), Wall(), Slit(), Plates(), Axes(), Tilted(), Deforming()),
    *(Results(), ComposedResults(), WallResults()),
    *(Systems(), ComposedSystems(), WallSystems()),
    *(Boxes(), ComposedBoxes(), WallBoxes(), Mixed()),
    *(Labels(), ComposedLabels(), WallLabels()),
)
