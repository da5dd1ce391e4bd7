"""Ewald sums.

options            what the user chooses: for all, and for who studies the method
points             what the user chooses and gives, checked once
ranks              the processes that take part, and what they tell each other
task               what is asked of a sum
solver_box         the order of the axes, and the unit of length in the solver
geometry           the extent of the box, images of points, systems, labels
sums               a record for each kernel
split              the splits into near and far field; the window; their errors
choice             all parameters from the tolerance, with their cost and memory
near               P2P over sorted points
far                P2G, FGC, G2P, and what truncation and gauges add
pipeline           who does the work: what is placed, recorded and kept
derivatives        transposes, vjp and jvp; a plan as a function of densities
placement          points and all sums that are placed at them, which move together
plan               what users hold: `Plan(...)` once, `plan(dens)` many times
checks, describe   the bound of the error, the error measured, what was chosen
api                one-shot calls
"""

from typing import TYPE_CHECKING

from parki.errors import old_names
from parki.ewald import api
from parki.ewald.api import *  # noqa: F403
from parki.ewald.derivatives.vjp import jvp as jvp
from parki.ewald.derivatives.vjp import vjp as vjp
from parki.ewald.options import EwaldOptions as EwaldOptions
from parki.ewald.options.expert import Expert as Expert
from parki.ewald.pipeline.protocol import clear_cache as clear_cache
from parki.ewald.plan import Plan as Plan
from parki.ewald.sums import kernel as kernel

if not TYPE_CHECKING:  # type checkers have the calls from `calls.pyi`, and the new names alone
    __all__ = [
        *("EwaldOptions", "Expert", "Plan", "clear_cache", "jvp", "kernel", "vjp"),
        *api.__all__,
    ]
    __getattr__ = old_names(__name__, "0.3", {"forget": "clear_cache"})
