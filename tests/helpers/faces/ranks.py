"""Faces over several ranks: each rank has some of the points, and laws have all results.

`tests/laws/test_ranks.py` starts ranks that run the laws with these faces, all of them the same
ones in the same order. Results go to all ranks, so that they agree on what fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import eye
from scipy.sparse.linalg import aslinearoperator

from faces.base import Array, Face, Given
from faces.plans import Axes, Composed, Results, Tilted, Wall
from faces.spheres import VISCOSITY, Radii

LACKS = {
    "threads": "ranks make the same calls in the same order",
    "late": "over ranks the host looks at points at once",
    "spaces": "all ranks have one space",
}


class Ranks(Face):
    """`parki.distributed.Plan`."""

    name, words = "ranks", "`parki.distributed`"
    usual = ("stokes_comb", 3)
    lacks = LACKS

    def __init__(self) -> None:
        # By what a rank has made: the columns of its targets and sources, and how arrays are laid.
        self.dealt: Any = WeakKeyDictionary()

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

    def laid(self, given: Given, lay: Callable[[Any], Any]) -> Given:
        return given._replace(more={**given.more, "lay": lay})

    def make(self, given: Given) -> Any:
        lay = given.more.get("lay", np.asarray)
        own, to, of = self.own(given)
        made = self.made(own.on(lay))
        self.dealt[made] = to, of, lay
        return made

    def made(self, own: Given) -> Any:
        """Return what sums over ranks."""
        from parki import distributed

        return distributed.Plan(own.kernel, *own.points, own.options, comm=self.comm)

    def apply(self, made: Any, dens: Any, *, out: Any = None) -> Any:
        to, of, lay = self.dealt[made]
        how = {} if out is None else {"out": np.ascontiguousarray(out[..., to])}
        found = self.whole(super().apply(made, lay(dens[..., of]), **how), to)
        if out is None:
            return found
        out[...] = self.whole(how["out"], to)
        assert np.array_equal(out, found)
        return out

    def adjoint(self, made: Any, values: Any) -> Any:
        to, of, _ = self.dealt[made]
        return self.whole(super().adjoint(made, values[..., to]), of)

    def whole(self, part: Any, columns: Any) -> Any:
        """Return an array of all ranks."""
        part = part if isinstance(part, np.ndarray) else np.from_dlpack(part)
        told = self.comm.allgather((part, columns))
        found = np.empty((*part.shape[:-1], sum(len(own) for _, own in told)), part.dtype)
        for values, own in told:
            found[..., own] = values
        return found

    def checks(self, made: Any, given: Given) -> Any:
        dens = given.dens[..., self.dealt[made][1]]
        found = super().checks(made, given._replace(dens=dens))
        assert len({*self.comm.allgather(tuple(found))}) == 1
        return found

    def operator(self, made: Any) -> Any:
        found, (to, of, _) = super().operator(made), self.dealt[made]

        def dealt(size: int, columns: Any) -> Any:
            """Return the matrix that brings vectors in the order of ranks."""
            order = np.concatenate(self.comm.allgather(columns))
            numbers = np.arange(size).reshape(-1, order.size)[:, order].ravel()
            return aslinearoperator(eye(size, format="csr")[numbers])

        return dealt(found.shape[0], to).H @ found @ dealt(found.shape[1], of)

    def dealt_by(self, made: Any, moves: Mapping[str, Array]) -> dict[str, Array]:
        """Return this rank's part of inputs."""
        to, of, _ = self.dealt[made]
        return {name: a[..., to if name == "trg" else of] for name, a in moves.items()}

    def pull(self, made: Any, given: Given, values: Array) -> dict[str, Array]:
        to, of, _ = self.dealt[made]
        own = super().pull(made, self.own(given)[0], values[..., to])
        return {n: self.whole(a, to if n == "trg" else of) for n, a in own.items()}

    def push(self, made: Any, given: Given, moves: Mapping[str, Array]) -> Array:
        own = super().push(made, self.own(given)[0], self.dealt_by(made, moves))
        return self.whole(own, self.dealt[made][0])

    def move(self, made: Any, given: Given, box: bool = False) -> Any:
        own, *columns = self.own(given)
        super().move(made, own, box)
        self.dealt[made] = *columns, np.asarray
        return made

    def promise(self, made: Any, dens: Any) -> Any:
        return super().promise(made, dens[..., self.dealt[made][1]])


class RanksAxes(Ranks, Axes):
    """Whose slabs turn, or exchange, once more."""

    name, words = "axes over ranks", "`parki.distributed` with any axes"
    usual = Axes.usual


class RanksTilted(Ranks, Tilted):
    """Whose box may deform."""

    name, words = "tilted over ranks", "`parki.distributed` in tilted boxes"
    sums, usual = ("gravity", "stokes_dipole"), Tilted.usual


class RanksResults(Ranks, Results):
    """All that a sum has."""

    name, words = "results over ranks", "several results of `parki.distributed`"
    periodicities, usual = (0, 1, 2), Results.usual
    lacks = Results.lacks | LACKS

    def made(self, own: Given) -> Any:
        from parki import distributed

        want = own.example.fields
        return distributed.Plan(own.kernel, *own.points, own.options, comm=self.comm, want=want)


class RanksComposed(Ranks, Composed):
    """Maps take the points of a rank."""

    name, words = "composite over ranks", "composites of `parki.distributed`"
    usual = Composed.usual

    def made(self, own: Given) -> Any:
        return super().made(own._replace(kernel=self.kernel(own)))


class RanksWall(Ranks, Wall):
    """Near a wall."""

    name, words = "wall over ranks", "`parki.distributed` near a wall"
    lacks, usual = Wall.lacks | LACKS, Wall.usual

    def reference(self, given: Given) -> Any:
        return Wall().reference(given)  # a plan of one rank


class RanksSpheres(Ranks, Radii):
    """Spheres of many radii."""

    name, words = "spheres over ranks", "`parki.distributed.Spheres`"
    lacks, usual = Radii.lacks | LACKS, Radii.usual

    def made(self, own: Given) -> Any:
        from parki import distributed

        how = {"viscosity": VISCOSITY, "comm": self.comm}
        return distributed.Spheres(own.src, own.more["radii"], own.options, **how)


FACES = (
    *(Ranks(), RanksAxes(), RanksTilted(), RanksResults(), RanksComposed()),
    *(RanksWall(), RanksSpheres()),
)
