"""Arguments that several commands share, with their checks; and output to the terminal.

A reader may stop early (`head`), and a disk may be full: neither may end in a traceback.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeAlias, TypeVar

from rich import console
from rich.progress import Progress

from parki.errors import ParkiMemoryError, ParkiTypeError, ParkiValueError
from parki.ewald.sums import SUMS, sum_of
from parki.memory import in_words
from parki.runtime import ExecutionSpace
from parki.runtime.kernel import LARGEST
from parki.runtime.spaces import SPACES, free_memory


class Console(console.Console):
    """Rich's console. It drops output to a closed pipe, where rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Write nothing from now on, so that the command ends with its own exit code."""
        self.quiet = True
        drop(self.file)  # type: ignore[arg-type]


def progress() -> Progress:
    """Return a progress display on stderr; it shows nothing if stderr is no terminal."""
    shown = Console(stderr=True)
    # The display of compilation writes to stderr on its own.
    return Progress(
        console=shown,
        disable=not shown.is_terminal,
        transient=True,
        redirect_stderr=False,
        redirect_stdout=False,
    )


def report(message: str) -> None:
    """Write one line to stderr, if it is open."""
    if sys.stderr is None:  # closed before Python started; print would take stdout
        return
    try:
        print(f"parki: {' '.join(message.split())}", file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def flush() -> None:
    """Write the buffer of stdout now; at exit, Python would report a failure in its own words."""
    if sys.stdout is not None:
        sys.stdout.flush()


def settle() -> None:
    """Drop output that stdout still does not take, once the exit code is known."""
    try:
        flush()
    except OSError:
        drop(sys.stdout)


def drop(stream: TextIO) -> None:
    """Discard a stream's buffer, and all later output to it."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


# Bytes per point: position, normal and both layers' densities, in double precision.
BYTES = 12 * 8


ValueT = TypeVar("ValueT")
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def reads(convert: Callable[[str], ValueT], refusal: str) -> Callable[[str], ValueT]:
    """Return a converter for an argument's text; its errors say what was expected."""

    def read(text: str) -> ValueT:
        try:
            return convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(refusal % repr(text)) from None

    return read


def kernel_name(text: str) -> str:
    """Return the name of a sum, which may have parameters."""
    try:
        return sum_of(text).name
    except (ParkiTypeError, ParkiValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


whole, number = reads(int, "%s is not a whole number"), reads(float, "%s is not a number")

# Arguments that several commands share, without their defaults.
COMMON: dict[str, dict[str, Any]] = {
    "kernel": {"type": kernel_name, "metavar": "KERNEL", "help": f"what to sum: {', '.join(SUMS)}"},
    "points": {"type": whole, "metavar": "N", "help": "number of points"},
    "periodicity": {"type": int, "choices": range(4), "metavar": "P", "help": "0 to 3"},
    "tolerance": {"type": number, "metavar": "EPS", "help": "bound of the error"},
    "dtype": {"choices": ("float64", "float32"), "help": "precision"},
    "space": {"metavar": "SPACE", "help": f"execution space: {', '.join(SPACES)}"},
}


def command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    description: str,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command to subparsers."""
    parser = commands.add_parser(
        name,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        help=summary,
        description=description,
        epilog=epilog,
    )
    parser.set_defaults(run=run)
    return parser


def add_common(parser: argparse._ActionsContainer, **defaults: str | float) -> None:
    """Add arguments of `COMMON` with their defaults; the default of ``space`` is only help text."""
    for name, default in defaults.items():
        words = COMMON[name] | {"help": f"{COMMON[name]['help']} ({default})"}
        parser.add_argument(f"--{name}", default=None if name == "space" else default, **words)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def check_count(points: int) -> None:
    """Refuse a number of random points that overflows an index or does not fit in memory.

    A plan predicts the rest of the memory it needs by itself.
    """
    if points < 1:
        raise ParkiValueError(f"points is {points}; expected 1 or more")
    if points > LARGEST:
        raise ParkiValueError(f"points is {points}; expected at most {LARGEST}")
    needed, free = float(BYTES * points), free_memory(ExecutionSpace("Serial"))
    if needed > free:
        raise ParkiMemoryError(
            f"points is {points}, whose arrays alone need {in_words(needed)}, but {in_words(free)} "
            f"are free; take at most {free / BYTES:.2g}"
        )


def home_expanded(path: str | Path) -> Path:
    """Replace ``~`` in a path if that home exists, where pathlib would raise."""
    return Path(os.path.expanduser(path))


def check_ending(name: str, path: Path, endings: Collection[str]) -> None:
    """Refuse a file whose ending names no known format."""
    if path.suffix.lower() not in endings:
        raise ParkiValueError(
            f"{name} is {path}; expected a name that ends in {', '.join(endings)}"
        )


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written; a trial file in the same folder tells."""
    if not path.parent.is_dir():
        raise ParkiValueError(f"output is {path}; its folder does not exist")
    with _refusing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part"):
            pass


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` at the end, so that no file is partial."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _refusing(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ParkiValueError(
            f"output is {path}, which cannot be written: {error.strerror or error}"
        ) from error
