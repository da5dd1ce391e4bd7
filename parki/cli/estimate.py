"""`parki estimate`: memory and time of a sum, by stage, without running it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from parki.cli.arguments import (
    COMMON,
    Commands,
    add_common,
    add_json,
    command,
    kernel_name,
    number,
    whole,
)
from parki.cli.eval import length, periodicity, vectors
from parki.prediction import SPHERES, estimate
from parki.prediction.sums import NAMED
from parki.runtime.spaces import space_name

DESCRIPTION = """\
Print the memory and the time that a sum of uniform random points will take, by stage, and what
the numbers rest on. Nothing is summed. Points that cluster take longer.
"""

EPILOG = """\
For example:

  parki estimate --kernel stokes_comb --points 1e6 --tolerance 1e-6
  parki estimate --kernel stokes_sl --points 4e6 --periodicity 1 --machine h200
  parki estimate --kernel spheres --points 1e5 --radii 0.01 --tolerance 1e-3
"""


def declare(commands: Commands) -> None:
    """Add the command to the command line."""
    summary = "memory and time of a sum, without running it"
    parser = command(
        commands, "estimate", run, summary=summary, description=DESCRIPTION, epilog=EPILOG
    )
    add = parser.add_argument
    kernel = f"{COMMON['kernel']['help']}; or {', '.join(SPHERES)}"
    add("--kernel", required=True, type=_kernel, metavar="KERNEL", help=kernel)
    add("--points", required=True, type=number, metavar="N", help="sources, such as 1e6")
    add("--targets", type=number, metavar="N", help="targets (the sources)")
    add("--periodicity", type=periodicity, default=3, metavar="P", help="0 to 3, or 0,1,1 (3)")
    edges = "edges X Y Z, and tilts XY XZ YZ if there are any (1 1 1)"
    add("--box", nargs="+", type=length, default=[1.0, 1.0, 1.0], metavar="X", help=edges)
    add("--want", default="u", metavar="NAMES", help="results, such as u,p (u)")
    add_common(parser, tolerance=1e-6, dtype="float64", space="OpenMP")
    add("--wall", action="store_true", help="a wall at x3 = 0")
    add("--systems", type=whole, default=1, metavar="S", help="systems of the points (1)")
    add("--radii", nargs="+", type=number, metavar="A", help="of spheres: one, or least and most")
    add("--torques", action="store_true", help="whether torques act on spheres, too")
    names = f"{', '.join(NAMED)}, or a file of 'parki tune' (this one)"
    add("--machine", metavar="NAME", help=names)
    add_json(parser)


def _kernel(text: str) -> str:
    return text if text in SPHERES else kernel_name(text)


def run(arguments: argparse.Namespace) -> int:
    """Print the estimate; return the exit code."""
    want = tuple(arguments.want.split(","))
    space: Any = arguments.space and space_name(arguments.space)
    estimated = estimate(
        arguments.kernel,
        arguments.points,
        targets=arguments.targets,
        want=want if want[1:] else want[0],
        dtype=arguments.dtype,
        systems=arguments.systems,
        radii=arguments.radii and (arguments.radii if arguments.radii[1:] else arguments.radii[0]),
        torques=arguments.torques,
        machine=arguments.machine,
        periodicity=arguments.periodicity,
        box=vectors(arguments.box),
        tolerance=arguments.tolerance,
        wall="no-slip" if arguments.wall else None,
        execution_space=space,
    )
    print(json.dumps(asdict(estimated), indent=2) if arguments.json else estimated)
    return 0
