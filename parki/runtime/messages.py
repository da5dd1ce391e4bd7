"""What the user hears while kernels compile: a line, or a display on a terminal, and warnings.

All of it goes through the logger ``parki`` where the user has configured logging, and to stderr
where not (warnings get there by themselves: Python prints what no handler takes).
"""

from __future__ import annotations

import logging
import sys
import time

log = logging.getLogger("parki")


def notice(text: str) -> None:
    """Tell the user one thing of interest, once."""
    if log.hasHandlers():
        log.info("parki: %s", text)
    elif _may_print():
        print(f"parki: {text}", file=sys.stderr, flush=True)


def _may_print() -> bool:
    """Whether stderr is there and nobody has silenced the logger by its level."""
    return sys.stderr is not None and log.level <= logging.INFO


class Progress:
    """Counts ``total`` steps: a display that moves on a terminal, elsewhere one line at the start.

    Nothing is shown before the first call of `start`; steps may be taken before it.
    """

    def __init__(self, label: str, total: int, detail: str) -> None:
        self.label, self.total, self.detail = label, total, detail
        self.done = 0
        self.begun = time.perf_counter()
        self.live = False
        self.started = False

    def start(self) -> None:
        """Say that work is under way, unless that was said before."""
        if self.started:
            return
        self.started = True
        self.live = not log.hasHandlers() and _may_print() and sys.stderr.isatty()
        if self.live:
            self._show()
        else:
            notice(f"{self.label} ({self.total}; {self.detail})")

    def step(self) -> None:
        """Count one step."""
        self.done += 1
        if self.live:
            self._show()

    def finish(self) -> None:
        """End the display."""
        if self.live:
            print(f", {time.perf_counter() - self.begun:.1f} s", file=sys.stderr, flush=True)

    def _show(self) -> None:
        text = f"\rparki: {self.label}: {self.done} of {self.total}"
        print(text, end="", file=sys.stderr, flush=True)
