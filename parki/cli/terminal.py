"""What commands write to the terminal: tables, progress, and one line on stderr for an error.

Those who read may stop early (`head`), and disks may be full: neither is to end in a traceback.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich import console
from rich.progress import Progress


class Console(console.Console):
    """Rich's console. A closed pipe drops the rest: rich would exit with 1, a broken promise."""

    def on_broken_pipe(self) -> None:
        """Write nothing from now on, so that the command ends with an exit code of its own."""
        self.quiet = True
        drop(self.file)  # type: ignore[arg-type]


def progress() -> Progress:
    """Return a display of progress on stderr; it shows nothing where that is no terminal."""
    shown = Console(stderr=True)
    # The display of compilation writes to stderr too, by itself.
    return Progress(
        console=shown,
        disable=not shown.is_terminal,
        transient=True,
        redirect_stderr=False,
        redirect_stdout=False,
    )


def report(message: str) -> None:
    """Write one line to stderr, if anybody reads it."""
    if sys.stderr is None:  # closed before Python started; print would take stdout
        return
    try:
        print(f"parki: {' '.join(message.split())}", file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def flush() -> None:
    """Write what is buffered for stdout: at exit, Python would report a failure by itself."""
    if sys.stdout is not None:
        sys.stdout.flush()


def settle() -> None:
    """Drop what stdout still does not take, once the exit code is known."""
    try:
        flush()
    except OSError:
        drop(sys.stdout)


def drop(stream: TextIO) -> None:
    """Send nowhere what a stream holds, and what it is given from now on."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
