"""Tasks for the choice of parameters, by the numbers that come with parki."""

from dataclasses import replace

import numpy as np

from parki.ewald.choice import machines
from parki.ewald.choice.grids import POINTS
from parki.ewald.choice.problem import Problem
from parki.ewald.far.lengths import NO_TABLES


def numbers(file, **changes):
    """Return the numbers of a file that came with parki, all lengths alike, but for ``changes``."""
    return replace(
        machines.of_file(machines.shipped(file), "float64"), **{"lengths": NO_TABLES} | changes
    )


def problem(density, **changes):
    """Return a sum of 100 000 points on a CPU, but for ``changes``."""
    machine = numbers("avx512.json")
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
        "staged",
        "owner",
        "target",
        POINTS,
    )
    return replace(given, **changes)


def device(density, **changes):
    """Return the same on an H200."""
    changes = {
        "machine": numbers("h200.json"),
        **dict.fromkeys(("p2p", "p2g", "g2p"), "tile"),
        **changes,
    }
    return problem(density, **changes)
