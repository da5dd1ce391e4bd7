"""`Correction`: what images in two walls lack of a sum, with its transpose and its derivatives.

It is one linear operation from densities to results, of `parki.ewald.far.slit`: closed forms for
each wave vector, whose transpose and derivatives are such flows again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from parki.ewald.derivatives.mapped_sum import Link
from parki.ewald.far.slit import Coefficients, SlitFlow, stacked
from parki.ewald.far.slit_modes import PART, SlitModes, longest, unit_of_promise
from parki.ewald.options import EwaldOptions
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.maps import Arrays, factors, mapped, pulled, pushed, slopes, weights
from parki.ewald.sums.maps import transposed as transposed_by
from parki.ewald.sums.results import RESULTS
from parki.ewald.sums.slit import SOURCES, TARGETS
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray

AXES = "xyz"
ROWS = {"u": 3, "p": 1, "grad_u": 9}


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
    """

    def __init__(
        self,
        near: Mapping[str, tuple[str, str]],
        options: EwaldOptions,
        *,
        tolerance: float,
        space: ExecutionSpace,
    ) -> None:
        kernel = next(kernel for kernel, _ in near.values())
        self.sources = SOURCES[kernel]
        self.results: dict[str, Addend] = {name: RESULTS[want] for name, (_, want) in near.items()}
        self.names = tuple(dict.fromkeys(n for each in self.results.values() for n in each.want))
        self.tolerance, self._gap = tolerance, float(options.gap or 0)
        vectors = np.asarray(options.vectors)[:2, :2]
        self._area = abs(float(np.linalg.det(vectors)))
        powers = [self.power(name) for name in self.names]
        most = longest(self._gap, self._area, tolerance, max(powers))
        words = options.mean_flow or ("no-gradient",) * 2
        flux = words[0] == "no-flux", words[1] == "no-flux"
        modes = SlitModes.of(vectors, self._gap, most, flux)
        self.flow = SlitFlow(modes, space, max(powers) - 1 - math.log10(tolerance))

    def power(self, name: str) -> int:
        """Return the power of the length in the promise of a result of the sum."""
        return 1 + (name != "u") + (self.sources.keys() != {""})

    @property
    def passes(self) -> tuple[int, int]:
        """How often three columns are spread, and gathered, for one density."""
        return len(self.sources), sum(len(TARGETS[name]) for name in self.names)

    # ------------------------------------------------------------------ from densities to results
    def _rows(self, dens: AnyArray, cloud: Arrays) -> dict[str, AnyArray]:
        """Return the sources (k, rows, N) of densities (k, rows, N), by word."""
        return {
            word: stacked([mapped(source, one, cloud) for one in dens])
            for word, source in self.sources.items()
        }

    def of_densities(self, dens: AnyArray, cloud: Arrays) -> Coefficients:
        """Return the flow of densities (k, rows, N) at a cloud of sources."""
        return self.flow.of_sources(cloud["points"], self._rows(dens, cloud))

    def at_targets(self, trg: AnyArray, flow: Coefficients, axis: str = "") -> Arrays:
        """Return the results (k, rows, N) of a flow, or of its derivative along an axis."""
        words = {name: [axis + word for word in TARGETS[name]] for name in self.names}
        made = self.flow.taken(trg, flow, {word for each in words.values() for word in each})
        parts = {}
        for name, each in words.items():
            rows = np.moveaxis(stacked([made[word] for word in each]), 0, 2)
            parts[name] = rows.reshape(len(rows), ROWS[name], -1)
        return {
            name: stacked(
                [
                    result.results({part: rows[n] for part, rows in parts.items()}, {})
                    for n in range(flow.waves.shape[-1])
                ]
            )
            for name, result in self.results.items()
        }

    def add(self, dens: AnyArray, totals: Arrays, cloud: Arrays, trg: AnyArray) -> None:
        """Add the results of densities (k, rows, N) to ``totals`` (k, rows, Nt)."""
        for name, rows in self.at_targets(trg, self.of_densities(dens, cloud)).items():
            totals[name] += rows.astype(totals[name].dtype, copy=False)

    # ------------------------------------------------------------------ transposed
    def of_values(self, values: Arrays, trg: AnyArray) -> Coefficients:
        """Return the flow, to sources, of values (k, rows, Nt) of results at the targets."""
        rows: Arrays = {}
        for name, result in self.results.items():
            matrix = weights(result.results, {part: ROWS[part] for part in result.want})
            for part, of_part in transposed_by(matrix, values[name]).items():
                axes = TARGETS[part]
                for n, word in enumerate(axes):
                    each = of_part[:, n :: len(axes)]
                    rows[word] = rows[word] + each if word in rows else each
        return self.flow.of_sources(trg, rows, back=True)

    def transposed(self, values: Arrays, trg: AnyArray, cloud: Arrays, rows: int) -> AnyArray:
        """Return densities (k, rows, N) of values (k, rows, Nt) of results, by name."""
        derivatives = self._back(self.of_values(values, trg), cloud, rows)
        return derivatives.astype(cloud["points"].dtype, copy=False)

    def _back(self, flow: Coefficients, cloud: Arrays, rows: int) -> AnyArray:
        made = self.flow.taken(cloud["points"], flow, self.sources)
        return reduce(
            add, [pulled(source, made[word], cloud, rows) for word, source in self.sources.items()]
        )

    # ------------------------------------------------------------------ derivatives
    def pulled(
        self,
        values: Arrays,
        *,
        trg: AnyArray,
        cloud: Arrays,
        dens: AnyArray | None,
        wrt: Iterable[str],
        rows: int,
    ) -> dict[str, list[AnyArray]]:
        """Return derivatives by inputs, as `MappedSum.pulled` does."""
        derivatives: dict[str, list[AnyArray]] = {name: [] for name in wrt}
        back = self.of_values(values, trg)
        if "dens" in derivatives:
            derivatives["dens"].append(self._back(back, cloud, rows))
        if dens is None:
            return derivatives
        if "trg" in derivatives:
            flow = self.of_densities(dens[None], cloud)
            moved = [self.at_targets(trg, flow, axis) for axis in AXES]
            derivatives["trg"].append(self._products(values, moved))
        if "src" in derivatives:
            of_sources = self._rows(dens[None], cloud)
            words = [*of_sources]
            moved = [
                self.flow.taken(cloud["points"], back, [axis + word for word in words])
                for axis in AXES
            ]
            plain = [
                {word: made[axis + word] for word in words}
                for axis, made in zip(AXES, moved, strict=True)
            ]
            derivatives["src"].append(self._products(of_sources, plain))
        if "norms" in derivatives:
            made = self.flow.taken(cloud["points"], back, self.sources)
            for word, source in self.sources.items():
                link = Link("dens", "norms", slopes(source, dens, cloud, "norms"))
                derivatives["norms"].append(link.pull(made[word], dens.shape[-1]))
        return derivatives

    @staticmethod
    def _products(values: Arrays, moved: list[Arrays]) -> AnyArray:
        """Return the sums (1, 3, N) of values times their factors' change along each axis."""
        by_axis = [
            reduce(add, [(values[name] * rows).sum(axis=1) for name, rows in made.items()])
            for made in moved
        ]
        return np.stack(by_axis, axis=1)

    def pushed(
        self, dens: AnyArray, moves: Arrays, *, trg: AnyArray, cloud: Arrays
    ) -> list[tuple[str, AnyArray]]:
        """Return changes of results (k, rows, Nt), for changes of inputs; "dens" has k of them."""
        points, moments = cloud["points"], []
        of_sources = self._rows(dens, cloud)
        if "dens" in moves:
            moments.append(self.flow.moments(points, self._rows(moves["dens"], cloud)))
        if "src" in moves:
            moved = {
                axis + word: rows * moves["src"][n]
                for n, axis in enumerate(AXES)
                for word, rows in of_sources.items()
            }
            moments.append(self.flow.moments(points, moved))
        if "norms" in moves:
            changes = {
                word: np.stack(
                    [pushed(source, one, cloud, {"norms": moves["norms"]}) for one in dens]
                )
                for word, source in self.sources.items()
            }
            moments.append(self.flow.moments(points, changes))
        parts = []
        if moments:
            flow = self.flow.flow(reduce(add, moments))
            parts += [*self.at_targets(trg, flow).items()]
        if "trg" in moves:
            flow = self.of_densities(dens, cloud)
            for n, axis in enumerate(AXES):
                for name, rows in self.at_targets(trg, flow, axis).items():
                    parts.append((name, rows * moves["trg"][n]))
        return parts

    # ------------------------------------------------------------------ in words and numbers
    def bounds(self, dens: AnyArray, cloud: Arrays) -> dict[str, Any]:
        """Return bounds (k,) of the errors that modes left out make, by result.

        Forces and dipoles of both layers count by their own powers of the length.
        """
        length = unit_of_promise(self._gap, self._area)
        sources = self._rows(dens.astype(np.float64), cloud)
        squares = [
            (rows**2).sum(axis=(1, 2)) / length ** (2 * bool(word))
            for word, rows in sources.items()
            if word != "p"
        ]
        roots = np.array([float(one) for one in np.sqrt(reduce(add, squares))])
        unit = {
            name: PART * 2**0.5 * self.tolerance * roots / length ** (1 + (name != "u"))
            for name in self.names
        }
        return {
            name: reduce(
                add,
                [
                    factor * unit[part]
                    for part, factor in factors(
                        weights(result.results, {part: ROWS[part] for part in result.want})
                    ).items()
                ],
            )
            for name, result in self.results.items()
        }

    def describe(self) -> str:
        """Return the walls and the modes as a line."""
        modes = self.flow.modes
        axes = [f"no flux along axis {n}" for n, flux in enumerate(modes.flux) if flux]
        gauge = ", ".join(axes) or "no mean pressure gradient"
        return (
            f"  between walls at a distance of {self._gap:g}: {2 * len(modes.waves)} modes of the "
            f"correction, {gauge}"
        )


def correction_of(
    near: Mapping[str, tuple[str, str]],
    options: EwaldOptions,
    *,
    sources: int,
    components: int,
    dtype: Any,
    space: ExecutionSpace,
) -> Correction:
    """Return the correction for as many sources of as many components each."""
    tolerance = options.random_tolerance(sources, components, np.dtype(dtype))
    return Correction(near, options, tolerance=tolerance, space=space)
