"""`LinearMap`: a plan as a linear function of densities, for the points that it has now.

A function that is differentiated or compiled later must not meet other points.
"""

from __future__ import annotations

from typing import Any

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.derivatives.linear_operator import Shape
from parki.ewald.derivatives.overflow import passed_on
from parki.ewald.placement.any_plan import AnyPlan
from parki.interchange import as_array, as_given
from parki.typing import AnyArray


class LinearMap:
    """A plan with its current points; two are equal for the same plan and points.

    Parameters
    ----------
    plan : Plan
        A plan with one result.

    Raises
    ------
    ParkiTypeError, ParkiValueError
        If ``plan`` is not a plan, or its ``want`` is a tuple.
    """

    def __init__(self, plan: AnyPlan) -> None:
        self.check_plan(plan)
        result, density = plan.shapes_for("apply")
        self.plan, self.points, self._shapes = plan, plan.points, (density, result)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LinearMap) and self.points is other.points and self.plan is other.plan
        )

    def __hash__(self) -> int:
        return hash((id(self.plan), id(self.points)))

    def __call__(self, values: AnyArray, transposed: bool, of_change: bool = False) -> Any:
        """Return the sum of a density; with ``transposed``, the adjoint applied to values.

        Changes of these, ``of_change``, may be NaN or infinite, and so are the results then.

        Raises
        ------
        ParkiValueError
            If the plan was given other points.
        """
        self.check()
        run = self.plan.adjoint if transposed else self.plan
        if not of_change:
            return run(values)
        results = passed_on(
            self.plan.options,
            lists=[{"values": as_array("values", values)}],
            axes={"values": len(self.shapes(transposed)[0])},
            run=lambda lists, _: {"u": run(lists[0]["values"])},
            in_rows=("u",),
        )
        return as_given(results["u"], values)

    @staticmethod
    def check_plan(plan: Any) -> None:
        """Refuse an object that is not a plan."""
        if not isinstance(plan, AnyPlan):
            raise ParkiTypeError(f"plan is a {type(plan).__name__}; expected parki.Plan")

    def check(self) -> None:
        """Refuse a plan that was given other points."""
        if self.plan.points is not self.points:
            raise ParkiValueError(
                "the plan was given other points since the function of its densities was made; "
                "call apply again, take derivatives before update_points, or make a plan for each "
                "set of points"
            )

    def shapes(self, transposed: bool) -> tuple[Shape, Shape]:
        """Return the shapes of input and output."""
        density, result = self._shapes
        return (result, density) if transposed else (density, result)

    def result_of(self, shape: Shape, transposed: bool) -> Shape:
        """Return the shape of the output for an input, which may have leading axes.

        Raises
        ------
        ParkiValueError
            If the array has another shape.
        """
        inner, outer = self.shapes(transposed)
        many = shape[: len(shape) - len(inner)]
        if tuple(shape[len(many) :]) != inner:
            name = "values" if transposed else "dens"
            raise ParkiValueError(f"{name} has shape {tuple(shape)}; expected {inner}")
        return (*many, *outer)
