"""What the user hears while kernels compile: a line, or a display on a terminal, and warnings.

All of it goes through the logger ``parki`` where the user has configured logging, and to stderr
where not (warnings get there by themselves: Python prints what no handler takes).
"""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Iterable
from typing import Any

log = logging.getLogger("parki")


@functools.lru_cache(maxsize=64)
def notice(text: str) -> None:
    """Tell the user one thing of interest, once in the life of the process."""
    if log.hasHandlers():
        log.info("parki: %s", text)
    elif _may_print():
        print(f"parki: {text}", file=sys.stderr, flush=True)


def _may_print() -> bool:
    """Whether stderr is there and nobody has silenced the logger by its level."""
    return sys.stderr is not None and log.level <= logging.INFO


def follow(steps: Iterable[Any], label: str, total: int, detail: str, quiet: float) -> None:
    """Go through steps with a display on a terminal, gone at the end; elsewhere with a notice.

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
