"""`Correction`: what images in two walls lack of a sum, with its transpose and its derivatives.

It is one linear operation from densities to results, of `parki.ewald.far.slit`: closed forms for
each wave vector, whose transpose and derivatives are such flows again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from parki.ewald.derivatives.mapped_sum import Link
from parki.ewald.far.slit import SlitFlow, SlitPoints, stacked
from parki.ewald.far.slit_modes import (
    PART,
    STOKES,
    SlitModes,
    longest,
    potentials,
    unit_of_promise,
)
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.replay import Replay, launch_mode
from parki.ewald.points import result_rows
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.maps import (
    FIXED,
    Arrays,
    factors,
    mapped,
    pulled,
    pushed,
    slopes,
    weights,
)
from parki.ewald.sums.maps import transposed as transposed_by
from parki.ewald.sums.plates import SOURCES as POTENTIALS
from parki.ewald.sums.results import RESULTS
from parki.ewald.sums.slit import TARGETS, sources_of, targets_of
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray, DType

AXES = "xyz"


def order(word: str) -> int:
    """Return how many derivatives a word takes; means over surfaces are no larger than points."""
    return len(word.replace("l", ""))


class Correction:
    """The correction of a sum between two walls.

    Parameters
    ----------
    near : dict of str to (str, str)
        For each result of the composite the sum near walls, and what is wanted of it.
    options : EwaldOptions
        With two walls.
    tolerance : float
    space : ExecutionSpace
    dtype : dtype
        Of points.
    points : int
        About how many there are.

    Attributes
    ----------
    launched : bool
        Whether it was summed, so that all tables are on the device.
    """

    def __init__(
        self,
        near: Mapping[str, tuple[str, str]],
        options: EwaldOptions,
        *,
        tolerance: float,
        space: ExecutionSpace,
        dtype: DType,
        points: int,
    ) -> None:
        kernel = next(kernel for kernel, _ in near.values())
        charges = options.image_factors
        if charges:
            table = potentials(charges)
            self.sources, self.targets = POTENTIALS[kernel.partition("(")[0]], TARGETS
        else:
            table = STOKES
            self.sources, self.targets = sources_of(kernel), targets_of(kernel)
        self.results: dict[str, Addend] = {name: RESULTS[want] for name, (_, want) in near.items()}
        self.names = tuple(dict.fromkeys(n for each in self.results.values() for n in each.want))
        self.words = tuple(dict.fromkeys(w for name in self.names for w in self.targets[name].want))
        self.rows = {name: result_rows(kernel, name) for name in self.names}
        self.rows_of_words = {
            word: 1 if word.endswith("p") else table.columns for word in self.words
        }
        self.tolerance, self._gap = tolerance, float(options.gap or 0)
        vectors = np.asarray(options.vectors)[:2, :2]
        self._area = abs(float(np.linalg.det(vectors)))
        powers = [self.power(name) for name in self.names]
        most = longest(self._gap, self._area, tolerance, max(powers))
        words = options.mean_flow or ("no-gradient",) * 2
        self._charges, self._flux = bool(charges), (words[0] == "no-flux", words[1] == "no-flux")
        modes = SlitModes.of(table, vectors, self._gap, most, self._flux)
        digits = max(powers) - 1 - math.log10(tolerance)
        self.flow = SlitFlow(modes, space, digits, dtype, points)
        self.launched = False
        # What places points, the last ones, and where they are.
        self._graph: Replay | None = None
        self._last: Arrays | None = None
        self._placed: tuple[SlitPoints, SlitPoints]
        self._again = partial(type(self), near, options, space=space, dtype=dtype, points=points)

    def power(self, name: str) -> int:
        """Return the power of the length in the promise of a result of the sum."""
        return 1 + self._order(name) + max(map(order, self.sources))

    def _order(self, name: str) -> int:
        """Return how many derivatives of the velocity a result takes."""
        return max(map(order, self.targets[name].want))

    @property
    def passes(self) -> tuple[int, int]:
        """How often columns are spread, and gathered, for one density."""
        return len(self.sources), len(self.words)

    def finer(self, tolerance: float) -> Correction:
        """Return the correction by more modes, for a smaller tolerance."""
        return self._again(tolerance=tolerance)

    def place(self, sources: Arrays, targets: Arrays) -> CorrectionAtPoints:
        """Return the correction for clouds of sources and of targets."""
        placed = self.flow.place(sources["points"], targets["points"])
        return CorrectionAtPoints(self, sources, targets, placed)

    def placed_by_graph(self, sources: Arrays, targets: Arrays) -> CorrectionAtPoints:
        """Return the correction at the points that a graph has placed last: see `graph`."""
        return CorrectionAtPoints(self, sources, targets, self._placed)

    def graph(self, sources: Arrays, targets: Arrays) -> Replay | None:
        """Place other points in the memory of those before; return the graph that does it.

        None before tables are on the device, or if it cannot be recorded.
        """
        src, trg = sources["points"], targets["points"]
        arrays = {"src": src} if trg is src else {"src": src, "trg": trg}
        graph = self._graph
        if self.launched and (graph is None or not (graph.problem or graph.takes(arrays))):
            graph = self._graph = Replay(self.flow.space, self._place, arrays)
            self._last = None
        if graph is None or graph.problem:
            return None
        if self._last is not sources:
            graph(arrays, {})
            self._last = sources
        return graph

    def _place(self, arrays: Arrays) -> None:
        src, trg = self._placed = self.flow.place(arrays["src"], arrays.get("trg", arrays["src"]))
        _ = src.spread, trg.gather  # which sort them

    def of_words(self, dens: AnyArray, cloud: Arrays) -> Arrays:
        """Return the sources (k, rows, N) of densities (k, rows, N), by word."""
        return {
            word: stacked([mapped(source, one, cloud) for one in dens])
            for word, source in self.sources.items()
        }

    # ------------------------------------------------------------------ in words and numbers
    def bounds(self, dens: AnyArray, cloud: Arrays) -> dict[str, Any]:
        """Return bounds (k,) of the errors that modes left out make, by result.

        Forces and dipoles of both layers count by their own powers of the length.
        """
        length = unit_of_promise(self._gap, self._area)
        sources = self.of_words(dens.astype(np.float64), cloud)
        squares = [
            2 ** word.count("c") * (rows**2).sum(axis=(1, 2)) / length ** (2 * order(word))
            for word, rows in sources.items()
            if word not in ("l", "p")
        ]
        roots = np.array([float(one) for one in np.sqrt(reduce(add, squares))])
        unit = {
            name: PART * 2**0.5 * self.tolerance * roots / length ** (1 + self._order(name))
            for name in self.names
        }
        bounds = {}
        for name, result in self.results.items():
            matrix = weights(result.results, {part: self.rows[part] for part in result.want})
            bounds[name] = reduce(add, [f * unit[part] for part, f in factors(matrix).items()])
        return bounds

    def describe(self) -> str:
        """Return the walls and the modes as a line; and how a device places points, once known."""
        axes = [f"no flux along axis {n}" for n, flux in enumerate(self._flux) if flux]
        gauge = ", ".join(axes) or "no mean pressure gradient"
        mode = f"\n  launches: {launch_mode(self._graph.problem)}" if self._graph else ""
        return (
            f"  between walls at a distance of {self._gap:g}: {self.flow.modes.total} modes of the "
            f"correction{'' if self._charges else f', {gauge}'}{mode}"
        )


class CorrectionAtPoints:
    """The correction for sources and targets at their points.

    Parameters
    ----------
    correction : Correction
    sources, targets : dict of arrays
        As maps take them: "points", and "norms" of sources.
    placed : tuple of 2 SlitPoints
        Sources and targets.
    """

    def __init__(
        self,
        correction: Correction,
        sources: Arrays,
        targets: Arrays,
        placed: tuple[SlitPoints, SlitPoints],
    ) -> None:
        self.correction, self._sources, self._targets = correction, sources, targets
        self._flow, (self._src, self._trg) = correction.flow, placed

    # ------------------------------------------------------------------ from densities to results
    def summed(self, dens: AnyArray) -> Arrays:
        """Return results (k, rows, Nt), by name, of densities (k, rows, N)."""
        return self._results(self._of_densities(dens))

    def _rows(self, dens: AnyArray) -> Arrays:
        return self.correction.of_words(dens, self._sources)

    def _of_densities(self, dens: AnyArray) -> AnyArray:
        """Return the flow of densities."""
        return self._flow.flow(self._flow.moments(self._src, self._rows(dens)))

    def _results(self, flow: AnyArray, axis: str = "") -> Arrays:
        """Return the results of a flow, or of its derivative along an axis."""
        correction, words = self.correction, self.correction.words
        flows = self._flow.taken(self._trg, flow, [axis + word for word in words])
        results: dict[str, list[AnyArray]] = {name: [] for name in correction.results}
        for n in range(flow.shape[-1]):
            by_word = {word: flows[axis + word][n] for word in words}
            parts = {
                name: correction.targets[name].results(by_word, self._targets)
                for name in correction.names
            }
            for name, result in correction.results.items():
                results[name].append(result.results(parts, {}))
        return {name: stacked(rows) for name, rows in results.items()}

    # ------------------------------------------------------------------ transposed
    def _of_values(self, values: Arrays) -> AnyArray:
        """Return the flow, to sources, of values (k, rows, Nt) of results."""
        correction, rows = self.correction, dict[str, AnyArray]()
        for name, result in correction.results.items():
            matrix = weights(result.results, {part: correction.rows[part] for part in result.want})
            for part, of_part in transposed_by(matrix, values[name]).items():
                target = correction.targets[part]
                sizes = {word: correction.rows_of_words[word] for word in target.want}
                places = None if target.results in FIXED else self._targets
                of_words = transposed_by(weights(target.results, sizes, places), of_part)
                for word, each in of_words.items():
                    rows[word] = rows[word] + each if word in rows else each
        return self._flow.flow(self._flow.moments(self._trg, rows), back=True)

    def transposed(self, values: Arrays, rows: int) -> AnyArray:
        """Return densities (k, rows, N) of values (k, rows, Nt) of results, by name."""
        derivatives = self._back(self._of_values(values), rows)
        return derivatives.astype(self._sources["points"].dtype, copy=False)

    def _back(self, flow: AnyArray, rows: int) -> AnyArray:
        sources = self.correction.sources
        flows = self._flow.taken(self._src, flow, sources)
        parts = [pulled(map_, flows[word], self._sources, rows) for word, map_ in sources.items()]
        return reduce(add, parts)

    # ------------------------------------------------------------------ derivatives
    def pulled(
        self, values: Arrays, *, dens: AnyArray | None, wrt: Iterable[str], rows: int
    ) -> dict[str, list[AnyArray]]:
        """Return derivatives by inputs, as `MappedSum.pulled` does."""
        derivatives: dict[str, list[AnyArray]] = {name: [] for name in wrt}
        back, sources = self._of_values(values), self.correction.sources
        if "dens" in derivatives:
            derivatives["dens"].append(self._back(back, rows))
        if dens is None:
            return derivatives
        if "trg" in derivatives:
            flow = self._of_densities(dens[None])
            moved = [self._results(flow, axis) for axis in AXES]
            derivatives["trg"].append(self._products(values, moved))
        if "src" in derivatives:
            moved = []
            for axis in AXES:
                flows = self._flow.taken(self._src, back, [axis + word for word in sources])
                moved.append({word: flows[axis + word] for word in sources})
            derivatives["src"].append(self._products(self._rows(dens[None]), moved))
        if "norms" in derivatives:
            flows = self._flow.taken(self._src, back, sources)
            for word, source in sources.items():
                link = Link("dens", "norms", slopes(source, dens, self._sources, "norms"))
                derivatives["norms"].append(link.pull(flows[word], dens.shape[-1]))
        return derivatives

    @staticmethod
    def _products(values: Arrays, moved: list[Arrays]) -> AnyArray:
        """Return the sums (1, 3, N) of values times their factors' change along each axis."""
        by_axis = [
            reduce(add, [(values[name] * rows).sum(axis=1) for name, rows in flows.items()])
            for flows in moved
        ]
        return np.stack(by_axis, axis=1)

    def pushed(self, dens: AnyArray, moves: Arrays) -> list[tuple[str, AnyArray]]:
        """Return changes of results (k, rows, Nt), for changes of inputs; "dens" has k of them."""
        rows, changes = self._rows(dens), list[Arrays]()
        if "dens" in moves:
            changes.append(self._rows(moves["dens"]))
        if "src" in moves:
            along = zip(AXES, moves["src"], strict=True)
            changes.append(
                {axis + word: rows[word] * move for axis, move in along for word in rows}
            )
        if "norms" in moves:
            move = {"norms": moves["norms"]}
            of_words = {
                word: np.stack([pushed(source, one, self._sources, move) for one in dens])
                for word, source in self.correction.sources.items()
            }
            changes.append(of_words)
        parts = []
        if changes:
            moments = [self._flow.moments(self._src, change) for change in changes]
            parts += [*self._results(self._flow.flow(reduce(add, moments))).items()]
        if "trg" in moves:
            flow = self._of_densities(dens)
            for axis, move in zip(AXES, moves["trg"], strict=True):
                parts += [(name, flows * move) for name, flows in self._results(flow, axis).items()]
        return parts


def correction_of(
    near: Mapping[str, tuple[str, str]],
    options: EwaldOptions,
    *,
    sources: int,
    components: int,
    points: int,
    dtype: DType,
    space: ExecutionSpace,
) -> Correction:
    """Return the correction for as many sources of as many components each.

    ``points`` are the targets or sources, whichever are more.
    """
    tolerance = options.random_tolerance(sources, components, np.dtype(dtype))
    return Correction(near, options, tolerance=tolerance, space=space, dtype=dtype, points=points)
