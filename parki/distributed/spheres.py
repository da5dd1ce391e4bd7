"""`Spheres` over many ranks, each of which has spheres of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.distributed.plan import Plan, sum_once
from parki.distributed.team import Team
from parki.errors import ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.suspensions import noise, spheres


class Spheres(spheres.Spheres):
    """Spheres of all ranks in one fluid: see `parki.Spheres`.

    All ranks make the same calls, each with its own spheres, of which there may be none. An
    exception on one rank is raised on all of them. The noise iterates the whole mobility.

    Parameters
    ----------
    points, radii, options, viscosity, **keywords
        As there.
    comm : mpi4py.MPI.Comm, optional
        As for `parki.distributed.Plan`.
    """

    _splits = False  # noise on a grid in slabs is not there

    def __init__(self, *given: Any, comm: Any = None, **keywords: Any) -> None:
        self.team, self.comm = Team(comm), comm
        super().__init__(*given, **keywords)

    def _make(self, *given: Any) -> Any:
        return Plan(*given, comm=self.comm)

    def _sum(self, given: tuple[Any, ...], dens: Any, want: str | tuple[str, ...]) -> Any:
        return sum_once((*given, {}), dens, self.comm, want)

    def _together(self, call: str) -> Any:
        return self.team.together(f"{call} of Spheres,")

    def _check_alike(self, name: str, value: float) -> None:
        first, *others = self.team.all(value)
        for rank, other in enumerate(others, 1):
            if other != first:
                raise ParkiValueError(
                    f"{name} is {other} on rank {rank}, but {first} on rank 0; all spheres are in "
                    "one fluid"
                )

    def _of_all(self, values: Any) -> Any:
        own = np.unique(values)
        told = self.team.all(own if self.options.walled else own[[0, -1][: own.size]])
        return np.concatenate(told)

    def _total(self, values: Any) -> Any:
        return self.team.sum(values)

    def _again(self, points: Any, options: EwaldOptions) -> Spheres:
        return Spheres(points, self.radii, options, viscosity=self.viscosity, comm=self.comm)

    def _white(self, rng: Any) -> noise.White:
        """Return a maker of normal numbers; refuse one generator on several ranks."""
        white = super()._white(rng)
        with self._together("numbers"):
            first = float(white((1,))[0])
        drawn = self.team.all(first)
        if len({*drawn}) < len(drawn):
            raise ParkiValueError(
                "rng draws the same numbers on several ranks; give each rank a generator of its "
                "own, such as numpy.random.default_rng([seed, comm.rank])"
            )
        return white
