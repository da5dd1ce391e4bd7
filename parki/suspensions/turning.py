"""`Turning`: near fields and grids of torques and turns, by the split of forces and velocities.

The sums of `parki.Spheres` have splits of their own. For noise all four of them take the factor
gamma of velocities by forces, and far and near field of the whole mobility are squares:

    far   D* (8 pi gamma / k^2) (I - k k / k^2) D      D = [ sinc(k a),  i/2 ball(k a) k x ]
    near  the same with 1 - gamma in the place of gamma,

where ball(x) is 3 j1(x) / x. Both are positive, as gamma is between 0 and 1. The grid of the noise
is the same for velocities and turns: these are half the curl of the same random flow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.replay import Applications
from parki.ewald.pipeline.setup import Setup
from parki.ewald.pipeline.stages import Stages
from parki.ewald.plan import Plan
from parki.ewald.split.shells import Shells
from parki.ewald.sums import SUMS

# Whether targets rotate, and whether torques act on the sources.
SIDES = (True, False), (True, True)


class Turning:
    """The other sums of spheres of one radius, by the parameters of velocities by forces.

    Parameters
    ----------
    plan : Plan
        The plan of velocities by forces, whose points these follow.
    kernels : sequence of 2 str
        The sums of turns by forces, and of twice the turns by torques.
    """

    rows = 2, 3  # of noise

    def __init__(self, plan: Plan, kernels: tuple[str, str]) -> None:
        self.plan, self.kernels = plan, kernels
        self._given: Any = (None, None)  # points and set-up of now
        self.pipelines = OneDevice(), OneDevice(), OneDevice()
        self._recorded = Applications("")  # by these pipelines

    def place(self) -> None:
        """Place the points of the plan, by its parameters."""
        points, setup = self.plan.members[0].sum.points, cast(Setup, self.plan.setup)
        before, known = self._given
        others = self.pipelines[1:]
        if points is not before or setup is not known:

            def placed(other: OneDevice, kernel: str, turns: tuple[bool, bool]) -> OneDevice:
                task = replace(setup.task, kernel=kernel)
                given = other.setup if setup is known else _alike(setup, task, turns)
                return other.placed(task, points, setup=given)

            one, two = (placed(*e) for e in zip(others, self.kernels, SIDES, strict=True))
            others, self._given = (one, two), (points, setup)
        now = cast(OneDevice, self.plan.pipeline), *others
        if any(new is not old for new, old in zip(now, self.pipelines, strict=True)):
            self.pipelines, self._recorded = now, Applications(now[0].applications.problem)

    def near(self, values: Any) -> Any:
        """Return the near field of forces and torques (2, 3, N): velocities and turns."""
        own, curl, turns = self.pipelines
        moved = own.near(values[0]) + curl.near(values[1])
        return self.plan.task.xp.stack([moved, curl.near(values[0]) + turns.near(values[1]) / 2])

    def shaken(self, white: Any, count: int) -> Any:
        """Return the far field's noise (2, 3, N), of what makes normal numbers of a shape."""
        own, curl, turns = self.pipelines
        of_curl, of_turns = cast(Stages, curl.stages), cast(Stages, turns.stages)
        of_curl.fgc.curl_noise(of_turns.fgc)
        grid = white(of_curl.white)
        return self.plan.task.xp.stack([p.shaken(lambda _: grid, count) for p in (own, curl)])

    def repeated(self, name: str, work: Any, given: Any, found: Any) -> None:
        """Do what `OneDevice.repeated` does, for all three pipelines."""
        self._recorded.repeat(self.plan.task.space, (name, False), work, given, found)


def _alike(setup: Setup, task: Any, turns: tuple[bool, bool]) -> Setup:
    """Return the set-up of another sum, by the same factor on the same grid."""
    kernel, chosen = SUMS.in_unit(task.kernel, setup.frame.length), setup.parameters
    own = cast(Shells, chosen.split)
    one, other = (s._replace(turns=t) for s, t in zip(own.shells, turns, strict=True))
    split = replace(own, shells=(one, other), order=1, law=own.order)
    problem = replace(setup.problem, kernel=kernel)
    degree = problem.polynomial_degree(split, chosen.cutoff)
    return Setup.of(task, setup.frame, problem, replace(chosen, split=split, degree=degree))
