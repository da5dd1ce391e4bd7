"""`CheckedDerivative`: checked arguments of `vjp` and `jvp`, and the sums that they take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.derivatives.between_walls import CorrectionAtPoints, correction_of
from parki.ewald.derivatives.by_box import NAMES
from parki.ewald.derivatives.by_length import by_scale
from parki.ewald.derivatives.mapped_sum import RADII, MappedSum
from parki.ewald.derivatives.one_sum import Pulled
from parki.ewald.geometry.systems import LabelsLike, SystemsLike
from parki.ewald.options import EwaldOptions
from parki.ewald.options.mirrored import options_of_sums
from parki.ewald.points import Cloud, check_density, check_fields, like_points
from parki.ewald.points.arguments import OF_CHANGES, check_net, refuse_between_walls
from parki.ewald.points.extent import resolve
from parki.ewald.points.request import SumRequest
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS, lengths_of
from parki.ewald.sums.changes import changed
from parki.ewald.sums.composite import Addend, Composite, SharedAddend, joined, together
from parki.ewald.sums.maps import Arrays
from parki.interchange import names_of
from parki.typing import (
    AnyArray,
)

INPUTS = ("trg", "src", "dens", "norms")
NONE: Mapping[str, AnyArray] = {}


class CheckedDerivative(NamedTuple):
    """What is asked, with checked arguments: densities are (k, rows, Ns)."""

    request: SumRequest
    cloud: Cloud
    options: EwaldOptions  # by which derivatives are summed
    ranks: Ranks
    dens: AnyArray = None
    several: bool = False
    length: float = 1.0  # of the box
    lengths: Mapping[str, tuple[float, int]] = {}  # parameters, and their powers of a length
    moves: Mapping[str, AnyArray] = NONE  # whose change it is of
    looked: bool = True  # whether values are looked at here
    motion: NDArray[np.float64] | None = None  # a strain whose change it is of

    @classmethod
    def of(
        cls,
        kernel: str | Composite,
        trg: AnyArray,
        src: AnyArray,
        dens: AnyArray,
        norms: AnyArray,
        options: EwaldOptions,
        *,
        want: str | tuple[str, ...],
        label: str,
        names: Iterable[str],
        moves: Mapping[str, AnyArray],
        exclude: LabelsLike,
        systems: SystemsLike,
        ranks: Ranks,
        motion: NDArray[np.float64] | None,
        looked: bool = True,
    ) -> CheckedDerivative:
        """Check arguments; refuse impossible ones, and ``names`` of inputs that there are not.

        Unless values are ``looked`` at here, the sums look at their points, by names of their own.
        """
        meaning = f"names of inputs of {getattr(kernel, 'name', kernel)}"
        names_of(label, names, meaning, mapping=label == "tangents")
        refuse_between_walls(
            options,
            {
                "systems": systems is not None,
                "comm": not ranks.serial,
                OF_CHANGES: bool(moves),
                **{f"{label} {name!r}": name in NAMES for name in names},
            },
            "there are first derivatives by points, densities and normals, of one system in one "
            "process: take differences of those",
        )
        if {*moves} & {*RADII.values()}:
            raise ParkiValueError(
                "epsilon has an array of widths, by which there are first derivatives, also of "
                "derivatives by points and charges; take differences of these for second ones by "
                "widths"
            )
        request = SumRequest.of(kernel, want, options, by={*names, *moves})
        cloud = request.cloud(trg, src, norms, options, systems=systems, exclude=exclude)
        if looked or request.composites or "norms" in cloud.arrays:
            cloud = cloud.checked()
        inputs: tuple[str, ...] = INPUTS if "norms" in cloud.arrays else INPUTS[:3]
        lengths = {} if request.composite or want != "u" else lengths_of(request.name)
        if request.widths:
            inputs += (*RADII,)
        if label == "wrt":
            inputs += (*NAMES, *lengths)
        # Squares of widths are for other libraries, which take those themselves.
        squares = (*RADII.values(),) if request.widths else ()
        names_of(label, names, f"{meaning}: {', '.join(inputs)}", (*inputs, *squares))
        request.check_maps(cloud)
        options = options_of_sums(cloud.options).of_derivatives
        checked = cls(request, cloud, options, ranks, lengths=lengths, looked=looked, motion=motion)
        if request.whole.scales:
            extents = ranks.all_columns(cloud.extents.T).T
            size = SUMS[request.whole.addends[0].kernel].pair.size
            lattice = resolve(checked.options, extents, size=size)
            checked = checked._replace(length=lattice.length)
        checked = checked._replace(moves=checked.moved("moves", moves))
        if dens is None and {*names} == {"dens"}:
            return checked
        values = checked.like("dens", dens, "dens")
        check_net("dens", values, cloud.options, checked.request.density)
        return checked._replace(dens=several_rows(values), several=values.ndim == 3)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs."""
        sources = self.cloud.sources
        widths = [(name, (self.cloud.targets,)) for name in ("trg_epsilon", "trg_radii")]
        widths += [(name, (sources,)) for name in ("src_epsilon", "src_radii")]
        return {
            "trg": (3, self.cloud.targets),
            "src": (3, sources),
            "norms": (3, sources),
            "dens": (*self.request.density, sources),
            **dict(widths),
        }

    @property
    def shapes_of_results(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the results."""
        return {n: (*shape, self.cloud.targets) for n, shape in self.request.results.items()}

    def values(self, fields: AnyArray) -> tuple[Arrays, tuple[int, ...]]:
        """Return values of results as (k, rows, N): see `check_fields`."""
        return check_fields(
            "values",
            fields,
            want=self.request.want,
            shapes=self.shapes_of_results,
            space=self.cloud.space,
            dtype=self.cloud.trg.dtype,
            looked=self.looked,
        )

    def like(self, label: str, array: AnyArray, name: str) -> AnyArray:
        """Return an array of the shape of an input as (rows, N), or densities as (k, rows, N)."""
        return check_density(
            label,
            like_points(label, array, self.cloud.space, self.cloud.trg.dtype),
            self.shapes[name],
            several=name == "dens",
            of="targets" if name.startswith("trg") else "sources",
            looked=self.looked,
        )

    def moved(self, label: str, moves: Mapping[str, AnyArray]) -> Arrays:
        """Return moves of inputs, by name, as `like` does."""
        rows = {n: self.like(f"{label}[{n!r}]", move, n) for n, move in moves.items()}
        for name in rows.keys() & RADII.keys():
            rows[RADII[name]] = self.widening[name] * rows.pop(name)
        return rows

    @property
    def widening(self) -> Arrays:
        """How the squares of widths change with these, by name."""
        pairs = zip(RADII, self.cloud.radii or (), strict=False)
        return {name: 2 * squares**0.5 for name, squares in pairs}

    def check_as_many(self, label: str, values: AnyArray) -> None:
        """Refuse values (k, rows, N) whose number differs from the number of densities, if any."""
        if self.dens is not None and len(values) != len(self.dens):
            raise ParkiValueError(
                f"{label} has {len(values)} of them at once, but dens has {len(self.dens)}; "
                "expected as many"
            )

    @property
    def sums(self) -> list[MappedSum]:
        """What is summed: each density of each sum."""
        cloud, of_targets = self.cloud.of_maps
        addends: Iterable[Addend] = joined(self.request.whole.addends)
        if self.moves:
            cloud["moves"] = of_targets["moves"] = self.moves
            addends = changed(
                addends,
                cloud=cloud,
                rows=math.prod(self.request.density),
                moves=lambda rows: self.ranks.max(float(rows.any())) > 0,
            )
        return [
            MappedSum.placed(
                SharedAddend(shared.kernel, [same]),
                options=self._options(shared.kernel),
                of_targets=of_targets,
                cloud=cloud,
                labels=self.cloud.labels,
                systems=self.cloud.systems,
                ranks=self.ranks,
                motion=self.motion,
            )
            for shared in together(addends)
            for same in shared.lists
        ]

    @property
    def correction(self) -> CorrectionAtPoints | None:
        """What images in two walls lack, where there are two."""
        cloud = self.cloud
        if not self.request.near or not cloud.options.corrected:
            return None
        correction = correction_of(
            self.request.near,
            cloud.options,
            sources=cloud.sources,
            components=math.prod(self.request.density),
            points=max(cloud.targets, cloud.sources),
            dtype=cloud.trg.dtype,
            space=cloud.space,
        )
        sources, targets = cloud.of_maps
        return correction.place(sources, targets)

    def _options(self, kernel: str) -> EwaldOptions:
        """Return the options of a sum, with the tolerance that the scale of its results allows."""
        for name, size, power in self.request.whole.scales:
            if name == kernel:
                return self.options.looser((self.length / size) ** power)
        return self.options

    def pulled(
        self, sums: list[MappedSum], v: Arrays, *, dens: AnyArray | None, wrt: Iterable[str]
    ) -> Arrays:
        """Return the derivatives (k, rows, N) for values (k, rows, Nt) of results of `sums`.

        k is 1 unless ``wrt`` is ("dens",).
        """
        rows = math.prod(self.request.density)
        pulled = [one.pulled(v, dens=dens, wrt=wrt, rows=rows) for one in sums]
        parts_of_sums = Pulled.parts([of_sum for of_sum, _ in pulled])
        pairs = zip(pulled, parts_of_sums, strict=True)
        of_sums = [derivatives_of(parts) for (_, derivatives_of), parts in pairs]
        if (rest := self.correction) is not None:
            of_sums.append(rest.pulled(v, dens=dens, wrt=wrt, rows=rows))
        if "trg" in wrt and not self.moves and (slope := self.cloud.options.slope):
            moved = np.zeros_like(self.cloud.trg)
            if "u" in v:
                moved[2] = slope * v["u"][0, 0]
            of_sums.append({name: [moved[None]] if name == "trg" else [] for name in wrt})
        parts = {name: [part for each in of_sums for part in each[name]] for name in wrt}
        many = len(next(iter(v.values())))

        def none(name: str) -> AnyArray:
            *shape, count = self.shapes[name]
            return np.zeros_like(self.cloud.src, shape=(many, math.prod(shape), count))

        return {name: reduce(add, rows) if rows else none(name) for name, rows in parts.items()}

    def by_box(self, lattice: AnyArray) -> Arrays:
        """Return the derivatives by the box, by name, for those by lattice vectors (3, 3)."""
        edges = lattice if self.options.cell is not None else lattice.diagonal().copy()
        by_name = {"box": edges, "lattice": lattice}
        return {name: self.cloud.xp.asarray(array) for name, array in by_name.items()}

    @property
    def inputs(self) -> Arrays:
        """The arrays that a length is taken with: see `by_scale`."""
        arrays = {"dens": self.dens, "trg": self.cloud.trg, "src": self.cloud.src}
        norms = self.cloud.norms
        return arrays if norms is None else {**arrays, "norms": norms}

    def by_lengths(self, parts: list[Arrays], v: AnyArray) -> Arrays:
        """Return the derivatives by parameters, for those by inputs for each density."""
        total = sum(
            by_scale(
                self.request.name,
                self.options,
                ranks=self.ranks,
                inputs={**self.inputs, "dens": density},
                slopes=part,
                values=values,
                systems=self.cloud.systems,
            )
            for density, part, values in zip(self.dens, parts, v, strict=True)
        )
        xp = self.cloud.xp
        return {n: xp.asarray(total / (power * t)) for n, (t, power) in self.lengths.items()}

    def pushed(self, dens: AnyArray, moves: Arrays) -> Arrays:
        """Return the changes (k, rows, Nt) of results for changes of inputs; "dens" has k."""
        parts = [part for one in self.sums for part in one.pushed(dens, moves)]
        if (rest := self.correction) is not None:
            parts += rest.pushed(dens, moves)
        if "trg" in moves and "u" in self.request.results and (slope := self.cloud.options.slope):
            change = slope * moves["trg"][2:]
            parts.append(("u", np.broadcast_to(change, (len(dens), *change.shape))))
        return {
            name: reduce(add, [rows for result, rows in parts if result == name])
            for name in self.request.results
        }


def at_least_one(values: AnyArray) -> AnyArray:
    """Return values (k, rows, N); a zero one, if there are none."""
    if values is None or len(values):
        return values
    return np.zeros_like(values, shape=(1, *values.shape[1:]))


def several_rows(values: AnyArray) -> AnyArray:
    """Return values (rows, N) or (k, rows, N) as (k, rows, N)."""
    return values if values.ndim == 3 else values[None]
