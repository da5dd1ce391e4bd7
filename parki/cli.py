"""The command line: ``parki info``, ``check``, ``demo``, ``eval``, ``bench``, ``tune``, ``cache``.

Here are the parser, and the words of ``demo`` and ``tune``; each other command has a module with
its own: `parki.info`, `parki.check`, `parki.evaluate`, `parki.bench` and `parki.cache_command`.

Exit codes: 0, 1 when a promise was broken, 2 when a request was impossible, 130 when the user
interrupted. With the last two comes one line on stderr. A reader that stops early (`head`) changes
none of them.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from parki import __version__, bench, cache_command, check, demo, evaluate, info, terminal
from parki.arguments import number, whole
from parki.errors import ParkiError, ParkiValueError
from parki.ewald.sums import SUMS
from parki.info import SPACES
from parki.runtime.spaces import get_execution_space

DESCRIPTION = """\
Fast sums of Stokes flow and of Coulomb potentials over millions of points and all their
periodic images, on the CPU or a GPU, to an accuracy that you choose.
"""

EPILOG = """\
Kernels are compiled on first use and kept: for the CPU by a C++ compiler (the wheel for Linux
brings the usual ones compiled), for a GPU by CuPy. In Python:

  options = parki.EwaldOptions(periodicity=1, box=[1, 1, 1], tolerance=1e-6)
  velocity = parki.stokes_comb(trg, src, dens, norms, options)
"""

DEMO = """\
Compute the Stokes flow around a few hundred drops in a pipe that repeats along its axis: the
velocity at every point of every drop, due to all points and their images. Prints what was
chosen and why, the time of each stage, and the error at sampled points beside what the
tolerance promises; then draws the flow in the plane through the axis of the pipe.
"""

TUNE = """\
Measure what the stages of a sum cost on this machine, with all variants, in less than a minute
(more when kernels have to be compiled). Plans made from then on choose cut-off, grid, window and
variants by these numbers, and not by those of the machine that parki was developed on. The
result is one file in the cache directory; delete it to go back.
"""

MEASURE = """\
With --measure, also time one task of yours (--kernel, --points, ...; random points) with other
cut-offs and variants than those chosen, and take these times into account as well.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; the process's by default.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no text
    try:
        return _answer(argv)
    except KeyboardInterrupt:
        terminal.report("interrupted")
        return 130
    finally:
        terminal.settle()


def _answer(argv: Sequence[str] | None) -> int:
    """Run a command and return its exit code; on an error, say it."""
    code = 0
    try:
        code = _run(argv)
        terminal.flush()
        return code
    except BrokenPipeError:  # the reader (head, less) has what it wanted
        return code
    except ParkiError as error:
        message = str(error)
    except MemoryError as error:
        message = f"memory ran out: {error}"
    except OSError as error:
        # Of a stream that was open already, the error has no name.
        what = (
            f"{error.filename} cannot be used" if error.filename else "the output cannot be written"
        )
        message = f"{what}: {error.strerror or error}"
    terminal.report(message)
    return 2


def _run(argv: Sequence[str] | None) -> int:
    parser = _parser()
    try:
        given = parser.parse_args(argv)
    except SystemExit:  # how argparse ends after --help and --version
        return 0
    if given.command is None:
        parser.print_help()
        return 0
    return int(given.run(given))


class _Parser(argparse.ArgumentParser):
    """A parser that refuses as all of parki does: in one line."""

    def error(self, message: str) -> NoReturn:
        """Refuse what was given."""
        raise ParkiValueError(f"{message}; see '{self.prog} --help'")


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="parki", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"parki {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    info.declare(commands)
    check.declare(commands)
    _declare_demo(commands)
    evaluate.declare(commands)
    bench.declare(commands)
    _declare_tune(commands)
    cache_command.declare(commands)
    return parser


def _declare_tune(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    tuner = commands.add_parser(
        "tune",
        help="measure this machine, for better choices",
        description=TUNE,
        epilog=MEASURE,
        formatter_class=raw,
    )
    tuner.add_argument(
        "--space", metavar="SPACE", help=f"execution space: {', '.join(SPACES)} (OpenMP)"
    )
    tuner.add_argument("--measure", action="store_true", help="time one task's neighbourhood too")
    task = tuner.add_argument_group("the task of --measure")
    task.add_argument("--kernel", choices=tuple(SUMS), default="stokes_comb", help="(stokes_comb)")
    task.add_argument("--points", type=whole, default=100_000, metavar="N", help="(100000)")
    task.add_argument(
        "--periodicity", type=int, choices=range(4), default=3, metavar="P", help="0 to 3 (3)"
    )
    task.add_argument("--tolerance", type=number, default=1e-6, metavar="EPS", help="(1e-6)")
    task.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="(float64)"
    )
    tuner.set_defaults(run=_tune)


def _declare_demo(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    show = commands.add_parser(
        "demo",
        help="compute, check and draw the flow around drops in a pipe",
        description=DEMO,
        epilog="Exit code 1 if the error is larger than promised.",
        formatter_class=raw,
    )
    show.add_argument(
        "--points", type=whole, default=100_000, metavar="N", help="points on the drops (100000)"
    )
    show.add_argument(
        "--tolerance", type=number, default=1e-4, metavar="EPS", help="bound of the error (1e-4)"
    )
    show.add_argument(
        "--space", metavar="SPACE", help=f"execution space: {', '.join(SPACES)} (OpenMP)"
    )
    show.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="precision (float64)"
    )
    show.add_argument(
        "--output", default="parki-demo.png", metavar="FILE", help="the picture (parki-demo.png)"
    )
    show.add_argument("--no-picture", action="store_true", help="draw nothing")
    show.add_argument("--seed", type=whole, default=0, metavar="K", help="places the drops (0)")
    show.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    return demo.run(
        arguments.points,
        arguments.tolerance,
        arguments.space,
        arguments.dtype,
        None if arguments.no_picture else arguments.output,
        arguments.seed,
    )


def _tune(arguments: argparse.Namespace) -> int:
    from parki import tune, tune_report

    space = get_execution_space(arguments.space)
    task = None
    if arguments.measure:
        task = tune.Task(
            arguments.kernel,
            arguments.periodicity,
            arguments.tolerance,
            arguments.points,
            arguments.dtype,
        )
        tune.check(task, space)
    tune_report.show(space, task)
    return 0
