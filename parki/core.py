"""What the rooms on top of sums import of `parki.ewald`, and all that they import of it.

=============== ==================================================================================
options         `EwaldOptions` and `Expert`; `take_options` finds them among a call's arguments;
                `refuse_voltage` refuses one, with which results are not linear
arrays          `as_points`, and `like_points`, which must match points; `check_shape` and
                `check_normals` refuse others; `take_cloud` checks all points of a sum
sums            `SUMS`, the record of each by its name; `kernel`, a name with parameters;
                `check_want` refuses results that a sum lacks; `SumRequest`, a sum with its results;
                `take_squares`, of widths of charges that libraries differentiate
one-shot calls  `summed`; `calls` makes the calls of a module from the list of sums
plans           `Plan`, made by users; `AnyPlan`, also over ranks; `OneDevice`, which does its work;
                `RecordedSteps`, what solvers do again and again, as graphs on a device
linear maps     `LinearMap`, a plan at its current points; `linear_operator`, for SciPy and CuPy
accuracy        `Check`, an error measured, by a sum of the `finer_tolerance`
ranks           `Ranks`; `SERIAL` is this process alone
graphs          `second`, first and second derivatives as frameworks take them, and `saved`, first
                ones by what a sum has saved; `Batch`, systems and boxes as they keep them;
                `OwnBox`, of `own_boxes`, the box of a system; `of_first`, that of the first;
                `energy_of_sums`, an energy of their sums
=============== ==================================================================================

`parki.mesh` is a face of the far field, and imports that, too. Programs of users import `parki`,
and those that add sums `parki.extend`.
"""

from __future__ import annotations

from parki.ewald.api import calls, summed
from parki.ewald.checks import Check, finer_tolerance
from parki.ewald.derivatives import saved, second
from parki.ewald.derivatives.charges import energy_of_sums
from parki.ewald.derivatives.linear_operator import linear_operator
from parki.ewald.geometry.own_boxes import Batch, OwnBox, of_first, own_boxes
from parki.ewald.options import EwaldOptions
from parki.ewald.options.expert import Expert
from parki.ewald.pipeline.one_device import SERIAL, OneDevice
from parki.ewald.pipeline.steps import RecordedSteps
from parki.ewald.placement.any_plan import AnyPlan
from parki.ewald.placement.linear_map import LinearMap
from parki.ewald.plan import Plan
from parki.ewald.points import (
    as_points,
    check_normals,
    check_shape,
    check_want,
    like_points,
    refuse_voltage,
    take_cloud,
    take_options,
)
from parki.ewald.points.request import SumRequest
from parki.ewald.points.widths import take_squares
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS, kernel

__all__ = [
    "SERIAL",
    "SUMS",
    "AnyPlan",
    "Batch",
    "Check",
    "EwaldOptions",
    "Expert",
    "LinearMap",
    "OneDevice",
    "OwnBox",
    "Plan",
    "Ranks",
    "RecordedSteps",
    "SumRequest",
    "as_points",
    "calls",
    "check_normals",
    "check_shape",
    "check_want",
    "energy_of_sums",
    "finer_tolerance",
    "kernel",
    "like_points",
    "linear_operator",
    "of_first",
    "own_boxes",
    "refuse_voltage",
    "saved",
    "second",
    "summed",
    "take_cloud",
    "take_options",
    "take_squares",
]
