"""Faces over several ranks: each rank has some of the points, and laws have all results.

`tests/laws/test_ranks.py` starts ranks that run the laws with these faces, all of them the same
ones in the same order. Results go to all ranks, so that they agree on what fails.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from faces.base import Face, Given
from faces.plans import Axes, Composed, Results, Tilted, Wall
from faces.spheres import VISCOSITY, Radii

LACKS = {
    "out": "over ranks there is no `out=` but the rank's own",
    "threads": "ranks make the same calls in the same order",
    "foreign": "arrays are read as by a plan of one rank",
    "late": "over ranks the host looks at points at once",
    "spaces": "all ranks have one space",
    "mixed": "mixed precision is for one rank",
    "derivatives": "derivatives are of plans of one rank",
    "check": "errors are measured by plans of one rank",
    "operator": "`adjoint` and calls of all ranks make one",
    "memory": "needs of ranks have tests of their own",
}


class Dealt(NamedTuple):
    """What a rank has made, and the columns of its targets and sources."""

    made: Any
    to: Any
    of: Any


class Ranks(Face):
    """`parki.distributed.Plan`."""

    name, words = "ranks", "`parki.distributed`"
    lacks, fails = LACKS, {}

    @property
    def comm(self) -> Any:
        """Return all ranks, which sleep while they wait."""
        from mpi4py import MPI
        from ranks import patient

        return patient(MPI)

    def columns(self, given: Given, count: int, sources: bool) -> Any:
        """Return the numbers of the points of this rank: each number of axes deals its own way."""
        numbers, last = np.arange(count), self.comm.size - 1
        deals = (
            np.full(count, 0 if sources else last),
            np.full(count, last),
            np.minimum(numbers * 8 // count // 3, last),  # the first ones have most
            (numbers * 7 // 11 + sources) % self.comm.size,
        )
        return np.flatnonzero(deals[sum(given.options.periodic)] == self.comm.rank)

    def own(self, given: Given) -> tuple[Given, Any, Any]:
        """Return what this rank is given, and its columns."""
        of = self.columns(given, given.src.shape[1], True)
        to = of if given.trg is given.src else self.columns(given, given.trg.shape[1], False)
        found = self.permuted(given, to, of)
        return found._replace(norms=None if given.norms is None else given.norms[:, of]), to, of

    def make(self, given: Given) -> Any:
        own, to, of = self.own(given)
        return Dealt(self.made(own), to, of)

    def made(self, own: Given) -> Any:
        """Return what sums over ranks."""
        from parki import distributed

        return distributed.Plan(own.kernel, *own.points, own.options, comm=self.comm)

    def apply(self, made: Dealt, dens: Any) -> Any:
        return self.whole(super().apply(made.made, dens[..., made.of]), made.to)

    def adjoint(self, made: Dealt, values: Any) -> Any:
        return self.whole(super().adjoint(made.made, values[..., made.to]), made.of)

    def whole(self, part: Any, columns: Any) -> Any:
        """Return an array of all ranks."""
        told = self.comm.allgather((part, columns))
        found = np.empty((*part.shape[:-1], sum(len(own) for _, own in told)), part.dtype)
        for values, own in told:
            found[..., own] = values
        return found

    def move(self, made: Dealt, given: Given, box: bool = False) -> Any:
        own, to, of = self.own(given)
        return Dealt(super().move(made.made, own, box), to, of)

    def promise(self, made: Dealt, dens: Any) -> Any:
        return super().promise(made.made, dens[..., made.of])


class RanksAxes(Ranks, Axes):
    """Whose slabs turn, or exchange, once more."""

    name, words = "axes over ranks", "`parki.distributed` with any axes"


class RanksTilted(Ranks, Tilted):
    """Whose box may deform."""

    name, words = "tilted over ranks", "`parki.distributed` in tilted boxes"
    sums = ("stokes_comb", "stokes_dipole")


class RanksResults(Ranks, Results):
    """All that a sum has."""

    name, words = "results over ranks", "several results of `parki.distributed`"
    periodicities = (0, 2)
    lacks = Results.lacks | LACKS

    def made(self, own: Given) -> Any:
        from parki import distributed

        want = own.example.fields
        return distributed.Plan(own.kernel, *own.points, own.options, comm=self.comm, want=want)


class RanksComposed(Ranks, Composed):
    """Maps take the points of a rank."""

    name, words = "composite over ranks", "composites of `parki.distributed`"

    def made(self, own: Given) -> Any:
        return super().made(own._replace(kernel=self.kernel(own)))


class RanksWall(Ranks, Wall):
    """Near a wall."""

    name, words = "wall over ranks", "`parki.distributed` near a wall"
    lacks = Wall.lacks | LACKS

    def reference(self, given: Given) -> Any:
        return Wall().reference(given)  # a plan of one rank


class RanksSpheres(Ranks, Radii):
    """Spheres of many radii."""

    name, words = "spheres over ranks", "`parki.distributed.Spheres`"
    lacks = Radii.lacks | LACKS

    def made(self, own: Given) -> Any:
        from parki import distributed

        how = {"viscosity": VISCOSITY, "comm": self.comm}
        return distributed.Spheres(own.src, own.more["radii"], own.options, **how)


FACES = (
    *(Ranks(), RanksAxes(), RanksTilted(), RanksResults(), RanksComposed()),
    *(RanksWall(), RanksSpheres()),
)
