"""`RanksComposedPlan`: a composite for the points of all ranks, each mapped on its own rank."""

from __future__ import annotations

from typing import Any

from parki.distributed.plan import Plan
from parki.distributed.slab import Slab
from parki.distributed.team import Team
from parki.ewald.composed import plan as composed
from parki.ewald.pipeline.placed_sum import PlacedSum
from parki.ewald.plan import AnyPlan
from parki.ewald.points import take_options


class RanksComposedPlan(composed.ComposedPlan):
    """A composite for the points of all ranks: see `parki.ewald.composed.plan.ComposedPlan`.

    Parameters
    ----------
    *given, **keywords
        As there; the points and normals of this rank.
    comm : mpi4py.MPI.Comm, optional
        As for `parki.distributed.ewald.Plan`.
    """

    def __init__(self, *given: Any, comm: Any = None, **keywords: Any) -> None:
        self.team = Team(comm)
        super().__init__(*given, **keywords)

    def make(self, *given: Any, want: tuple[str, ...], **others: Any) -> Plan[Any]:
        """Return the plan of a sum, without another vote on its options.

        So ranks that ask for the sum without a wall learn that others ask for one with a wall.
        """
        keywords: Any = others
        take_options(given[3], given[4], keywords)  # which refuses ``exclude``
        plan: Plan[Any] = Plan.__new__(Plan)
        plan.team = self.team
        AnyPlan.__init__(plan, PlacedSum(Slab(self.team), given, want))
        return plan

    def again(self, *given: Any, **keywords: Any) -> Any:
        """Return another plan on the same ranks."""
        return Plan(*given, comm=self.team.comm, **keywords)

    def together(self, call: str) -> Any:
        """Raise on all ranks what is raised on one of them; refuse ranks in other calls."""
        return self.team.together(call)

    def check(self, dens: Any, targets: int = 32) -> Any:
        """Refuse, as the plan of each sum does."""
        return self.plans[0].check(dens, targets)

    def as_linear_operator(self) -> Any:
        """Refuse, as the plan of each sum does."""
        return self.plans[0].as_linear_operator()
