"""Messages while kernels compile: a line, or a display on a terminal, and warnings.

They go through the logger ``parki`` if the user has configured logging, else to stderr (Python
prints warnings there that no handler takes).
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

log = logging.getLogger("parki")
PATIENCE = 60.0  # seconds in which nearly every kernel compiles


@functools.lru_cache(maxsize=64)
def notice(text: str) -> None:
    """Show a message once in the life of the process."""
    if log.hasHandlers():
        log.info("parki: %s", text)
    elif _may_print():
        print(f"parki: {text}", file=sys.stderr, flush=True)


def _may_print() -> bool:
    """Return whether stderr is open and the logger's level permits messages."""
    return sys.stderr is not None and log.level <= logging.INFO


def follow(steps: Iterable[Any], *, label: str, total: int, detail: str, quiet: float) -> None:
    """Run through steps, with a temporary display on a terminal or else a notice.

    Nothing is shown before ``quiet`` seconds have passed.
    """
    begun, steps = time.perf_counter(), iter(steps)
    text, live, said = "", False, False
    try:
        for done in range(total + 1):
            if not said and time.perf_counter() - begun >= quiet:
                said, live = True, not log.hasHandlers() and _may_print() and sys.stderr.isatty()
                if not live:
                    notice(f"{label} ({detail})")
            if live:
                text = f"\rparki: {label}: {done} of {total}"
                print(text, end="", file=sys.stderr, flush=True)
            next(steps, None)
    finally:
        if live:
            print("\r" + " " * (len(text) - 1) + "\r", end="", file=sys.stderr, flush=True)


@contextmanager
def overdue(text: str) -> Iterator[None]:
    """Warn if the block takes longer than `PATIENCE`; it goes on."""
    timer = threading.Timer(PATIENCE, log.warning, ["parki: %s (%g s have passed)", text, PATIENCE])
    timer.daemon = True
    with suppress(RuntimeError):  # the system allows no more threads
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
