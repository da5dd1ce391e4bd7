"""What a type checker makes of parki: `test_typing.py` has mypy read this file, and runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import parki
from parki import distributed
from parki.typing import KernelName, ResultName

Numbers = NDArray[np.float64]

rng = np.random.default_rng(0)
points: Numbers = rng.random((3, 50))
forces: Numbers = rng.standard_normal((3, 50))

# Options as keywords, or made before.
velocity = parki.stokes_sl(points, points, forces, periodicity=3, box=[1, 1, 1], tolerance=1e-3)
assert_type(velocity, Numbers)
options = parki.EwaldOptions(3, [1, 1, 1], tolerance=1e-3, densities="any")
assert_type(parki.stokes_sl(points, points, forces, options, want="p"), Numbers)
both = parki.stokes_sl(points, points, forces, options, want=("u", "p"))
assert_type(both, tuple[Numbers, ...])
assert_type(options.edges[0], float | None)
for periodicity in (2, (False, True, True), [True, False, True], np.array([True, True, False])):
    assert sum(parki.EwaldOptions(periodicity, [1, 1, 1]).periodic) == 2
assert_type(options.periodic, tuple[bool, bool, bool])
assert_type(parki.stokes_dl(points, points, forces, norms=forces, options=options), Numbers)


def over_ranks(comm: Any) -> tuple[Numbers, ...]:
    """Take a communicator, as ranks do."""
    assert_type(distributed.stokes_sl(points, points, forces, options, comm=comm), Numbers)
    return distributed.stokes_sl(points, points, forces, options, comm=comm, want=("u", "p"))


# A plan knows what it returns.
plan = parki.Plan("stokes_sl", points, points, options)
assert_type(plan(forces), Numbers)
assert_type(plan(forces, out=velocity), Numbers)
assert_type(plan.adjoint(velocity), Numbers)
assert plan.check(forces).error <= plan.check(forces).promise
assert_type(plan.box, Numbers)
plans = parki.Plan(
    "stokes_sl", points, points, want=("u", "grad_u"), box=[1, 1, 1], execution_space="Serial"
)
u, grad_u = plans(forces)
assert_type(grad_u, Numbers)


def mean_square(any_plan: parki.Plan, dens: Numbers) -> float:
    """Take a plan of one result, whose type needs no parameter."""
    assert_type(any_plan(dens), Numbers)
    return float((any_plan(dens) ** 2).mean())


def sums(kernels: list[KernelName], wanted: ResultName) -> list[Any]:
    """Take names from elsewhere."""
    return [parki.Plan(kernel, points, points, options, want=wanted) for kernel in kernels]


assert mean_square(plan, forces) > 0 and len(sums(["stokes_sl", "stokes_rotlet"], "u")) == 2
derivatives = parki.vjp("stokes_sl", points, points, forces, options, values=forces)
assert_type(derivatives["dens"], Numbers)

# Boxes for each system, and a box that deforms.
boxes = [[1, 1, 1], [2, 2, 2]]
many = parki.Plan("stokes_sl", points, points, periodicity=3, systems=[0, 20, 50], boxes=boxes)
assert_type(many(forces), Numbers)
plan.update_points(points, points, box=parki.lattice(1, 1, 1, xy=0.1))
