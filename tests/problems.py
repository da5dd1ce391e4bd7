"""Tasks for the choice of parameters, by the numbers that come with parki."""

from dataclasses import replace

import numpy as np

from parki.ewald.choice import machines
from parki.ewald.choice.grids import POINTS
from parki.ewald.choice.problem import Problem


def problem(density, **changes):
    """Return a sum of 100 000 points on a CPU, but for ``changes``."""
    machine = machines.Machine("test", machines.CORE["float64"])
    given = Problem(
        "stokes_comb",
        ("u",),
        "prolate",
        3,
        np.ones(3),
        1e-5,
        density,
        100_000,
        100_000,
        machine,
        ("staged",),
        ("owner",),
        ("target",),
        POINTS,
    )
    return replace(given, **changes)


def device(density, **changes):
    """Return the same on an H200."""
    machine = machines.Machine("H200", machines.H200["float64"], on_device=True)
    usual = ("tile",)
    changes = {"machine": machine, "p2p": usual, "p2g": usual, "g2p": usual, **changes}
    return problem(density, **changes)
