"""The command line: ``parki info``, ``check``, ``demo``, ``eval``, ``estimate`` and others.

Each command has a module, which declares its arguments and runs it.

The exit code is 0, or 1 if a promise was broken, 2 if a request was impossible, 130 if the user
interrupted. The last two come with one line on stderr. A reader that stops early (`head`) does not
change the exit code.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from parki import __version__
from parki.cli import arguments, bench, cache, check, demo, estimate, eval, info, tune
from parki.errors import ParkiError, ParkiValueError

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default the arguments of the process.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may not be valid text
    try:
        return _answer(argv)
    except KeyboardInterrupt:
        arguments.report("interrupted")
        return 130
    finally:
        arguments.settle()


def _answer(argv: Sequence[str] | None) -> int:
    """Run a command and return its exit code; print an error if there is one."""
    code = 0
    try:
        code = _run(argv)
        arguments.flush()
        return code
    except BrokenPipeError:  # the reader (head, less) has finished
        return code
    except ParkiError as error:
        message = str(error)
    except MemoryError as error:
        message = f"memory ran out: {error}"
    except OSError as error:
        # An error of a stream that was already open has no file name.
        what = (
            f"{error.filename} cannot be used" if error.filename else "the output cannot be written"
        )
        message = f"{what}: {error.strerror or error}"
    arguments.report(message)
    return 2


def _run(argv: Sequence[str] | None) -> int:
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit:  # how argparse ends after --help and --version
        return 0
    if arguments.command is None:
        parser.print_help()
        return 0
    return int(arguments.run(arguments))


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all errors of the command line."""

    def error(self, message: str) -> NoReturn:
        """Refuse the given arguments."""
        raise ParkiValueError(f"{message}; see '{self.prog} --help'")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help, and do not hide that a disk is full."""
        print(message, end="", file=file)


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="parki", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"parki {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    for module in (info, check, demo, eval, estimate, bench, tune, cache):
        module.declare(commands)
    return parser
