"""`RanksComposedPlan`: a composite for the points of all ranks, each mapped on its own rank."""

from __future__ import annotations

from typing import Any

from parki.distributed.plan import Plan
from parki.distributed.team import Team
from parki.ewald.composed import plan as composed


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
        self.team, self.comm = Team(comm), comm
        super().__init__(*given, **keywords)

    def make(self, *given: Any, want: tuple[str, ...]) -> Plan[Any]:
        """Return the plan of a sum."""
        return Plan(*given, comm=self.comm, want=want)

    def together(self) -> Any:
        """Raise on all ranks what is raised on one of them."""
        return self.team.together()

    def check(self, dens: Any, targets: int = 32) -> Any:
        """Refuse, as the plan of each sum does."""
        return self.plans[0].check(dens, targets)

    def as_linear_operator(self) -> Any:
        """Refuse, as the plan of each sum does."""
        return self.plans[0].as_linear_operator()
