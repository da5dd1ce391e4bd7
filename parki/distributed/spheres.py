"""`Spheres` over many ranks, each of which has spheres of its own."""

from __future__ import annotations

from typing import Any

from parki.distributed.slab import Slab
from parki.distributed.team import Team
from parki.errors import ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.suspensions import noise, spheres
from parki.typing import AnyArray, Array, OptionKeywords, Seed, Unpack


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

    def __init__(
        self,
        points: Array,
        radii: AnyArray,
        options: EwaldOptions | None = None,
        *,
        viscosity: float = 1.0,
        comm: Any = None,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        self._ranks = Team(comm, Slab)
        super().__init__(points, radii, options, viscosity=viscosity, **keywords)

    def _white(self, rng: Seed) -> noise.White:
        """Return a maker of normal numbers; refuse one generator on several ranks."""
        standard_normal = super()._white(rng)
        with self._together("numbers"):
            first = float(standard_normal((1,))[0])
        drawn = self._ranks.allgather(first)
        if len({*drawn}) < len(drawn):
            raise ParkiValueError(
                "rng draws the same numbers on several ranks; give each rank a generator of its "
                "own, such as numpy.random.default_rng([seed, comm.rank])"
            )
        return standard_normal
