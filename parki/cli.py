"""The command line: ``parki demo``, ``parki info`` and ``parki tune``.

Exit codes: 0, 1 when a promise was broken, 2 when a request was impossible (one line on stderr).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata

from parki import __version__, demo
from parki.errors import ParkiError, UnavailableError
from parki.ewald.points import ROWS
from parki.runtime import host
from parki.runtime.spaces import get_execution_space, why_unavailable
from parki.settings import cache_directory, table, thread_count

SPACES = ("OpenMP", "Serial", "Cuda", "HIP")

DESCRIPTION = """\
Fast sums of Stokes flow and of Coulomb potentials over millions of points and all their
periodic images, on the CPU or a GPU, to an accuracy that you choose.
"""

EPILOG = """\
parki compiles its kernels on first use and keeps them; a C++ compiler is needed for the CPU,
CuPy for a GPU. In Python:

  options = parki.EwaldOptions(periodicity=1, box=[1, 1, 1], tolerance=1e-6)
  velocity = parki.stokes_comb(trg, src, dens, norms, options)
"""

DEMO = """\
Compute the Stokes flow around a few hundred drops in a pipe that repeats along its axis: the
velocity at every point of every drop, due to all points and their images. Prints what was
chosen and why, the time of each stage, and the error at sampled points beside what the
tolerance promises; then draws the flow in the plane through the axis of the pipe.
"""

INFO = """\
Print the versions of parki and of what it builds on, the execution spaces of this machine
(for a missing one, the reason and the remedy), compiler, threads, cache and settings.
Paste it into bug reports.
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
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    try:
        if arguments.command == "info":
            print(info())
            return 0
        if arguments.command == "tune":
            return _tune(arguments)
        return demo.run(
            arguments.points,
            arguments.tolerance,
            arguments.space,
            arguments.dtype,
            None if arguments.no_picture else arguments.output,
            arguments.seed,
        )
    except ParkiError as error:
        print(f"parki: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; keep Python from writing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="parki", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"parki {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    commands.add_parser(
        "info", help="what parki found on this machine", description=INFO, formatter_class=raw
    )
    tuner = commands.add_parser(
        "tune",
        help="measure this machine, for better choices",
        description=TUNE,
        epilog=MEASURE,
        formatter_class=raw,
    )
    tuner.add_argument(
        "--space", metavar="SPACE", help="execution space: OpenMP, Serial, Cuda or HIP (OpenMP)"
    )
    tuner.add_argument("--measure", action="store_true", help="time one task's neighbourhood too")
    task = tuner.add_argument_group("the task of --measure")
    task.add_argument("--kernel", choices=tuple(ROWS), default="stokes_comb", help="(stokes_comb)")
    task.add_argument("--points", type=int, default=100_000, metavar="N", help="(100000)")
    task.add_argument(
        "--periodicity", type=int, choices=range(4), default=3, metavar="P", help="0 to 3 (3)"
    )
    task.add_argument("--tolerance", type=float, default=1e-6, metavar="EPS", help="(1e-6)")
    task.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="(float64)"
    )
    show = commands.add_parser(
        "demo",
        help="compute, check and draw the flow around drops in a pipe",
        description=DEMO,
        epilog="Exit code 1 if the error is larger than promised.",
        formatter_class=raw,
    )
    show.add_argument(
        "--points", type=int, default=100_000, metavar="N", help="points on the drops (100000)"
    )
    show.add_argument(
        "--tolerance", type=float, default=1e-4, metavar="EPS", help="bound of the error (1e-4)"
    )
    show.add_argument(
        "--space", metavar="SPACE", help="execution space: OpenMP, Serial, Cuda or HIP (OpenMP)"
    )
    show.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="precision (float64)"
    )
    show.add_argument(
        "--output", default="parki-demo.png", metavar="FILE", help="the picture (parki-demo.png)"
    )
    show.add_argument("--no-picture", action="store_true", help="draw nothing")
    show.add_argument("--seed", type=int, default=0, metavar="K", help="places the drops (0)")
    return parser


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
    tune_report.show(space, task)
    return 0


def info() -> str:
    """Return what parki found on this machine, as text of a screen."""
    lines = [
        ("parki", __version__),
        ("Python", f"{platform.python_version()}, {platform.platform()}"),
        ("NumPy", _version("numpy")),
        ("SciPy", _version("scipy")),
        ("CuPy", _cupy()),
        ("compiler", _compiler()),
        ("threads", str(thread_count())),
        ("cache", _cache()),
    ]
    text = [f"{name:<12}{value}" for name, value in lines]
    text += ["", "Execution spaces"]
    for space in SPACES:
        reason = why_unavailable(space)
        text.append(f"  {space:<10}{'not here: ' + reason if reason else 'available'}")
    text += ["", "Settings (environment variables)"]
    text += [f"  {line}" for line in table().splitlines()]
    return "\n".join(text)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _compiler() -> str:
    try:
        found = host.compiler()
    except UnavailableError as error:
        return f"none: {error}"
    return f"{found.version} ({found.path}), {'with' if host.has_openmp() else 'without'} OpenMP"


def _cupy() -> str:
    """Return CuPy's version, the driver's, and the device's name."""
    try:
        import cupy
    except ImportError:
        return "not installed"
    if why_unavailable("Cuda") and why_unavailable("HIP"):
        return f"{cupy.__version__}, without a usable GPU"
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(0)["name"].decode()
    return (
        f"{cupy.__version__}, driver for {_dotted(runtime.driverGetVersion())}, "
        f"runtime {_dotted(runtime.runtimeGetVersion())}, {runtime.getDeviceCount()} x {name}"
    )


def _dotted(version: int) -> str:
    """Return CUDA's version number, such as 12040, as text."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _cache() -> str:
    folder = cache_directory()
    sizes = [f.stat().st_size for f in folder.glob("*.so")] if folder.is_dir() else []
    return f"{folder} ({len(sizes)} kernels, {sum(sizes) / 1e6:.1f} MB)"
