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


def suspensions(spheres: parki.Spheres, rigid: parki.RigidSpheres) -> None:
    """Take spheres: what acts on them is of the library that velocities are of."""
    assert_type(spheres.velocities(forces), Numbers)
    assert_type(spheres.velocities(None, forces), tuple[Numbers, Numbers])
    assert_type(rigid.velocities(forces), Numbers)
    assert_type(rigid.velocities(forces, torques=forces), tuple[Numbers, Numbers])
    assert_type(spheres.flow(forces, points), Numbers)
    assert_type(spheres.flow(forces, points, want=("u", "p")), tuple[Numbers, ...])
    assert_type(spheres.vjp(forces, values=forces)["points"], Numbers)


def bodies(shape: parki.BodyShape) -> None:
    """Take a body of blobs."""
    many = parki.RigidBodies(shape, points, options=options)
    assert_type(many.velocities(forces), tuple[Numbers, Numbers])
    assert_type(many.velocities(torques=forces), tuple[Numbers, Numbers])
    assert_type(many.forces(points), tuple[Any, Any])  # of the library of the positions
    assert_type(many.noise(0), tuple[Any, Any])


def layers(surface: parki.Surface, density: Numbers) -> None:
    """Take a surface, whose layers and equations have densities."""
    assert_type(surface.single_layer(density, points, options), Numbers)
    assert_type(surface.double_layer(density, side="outside"), Numbers)
    layer = parki.LayerPlan("stokes_sl", surface, options=options)
    assert_type(layer(density), Numbers)
    assert_type(layer.adjoint(density), Numbers)
    equation = parki.RigidSurfaces(surface, options)
    assert_type(equation(density), Numbers)
    assert_type(equation.motion(density), tuple[Numbers, Numbers])
    assert_type(parki.FirstKind(surface, options).resultants(density), tuple[Numbers, Numbers])
    with parki.Progress("GMRES", rtol=1e-6) as show:
        assert_type(show.residuals, list[float])
