"""Output to the terminal: tables, progress, and one line on stderr for an error.

A reader may stop early (`head`), and a disk may be full: neither may end in a traceback.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich import console
from rich.progress import Progress


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
