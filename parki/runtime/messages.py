"""What the user hears while kernels compile: a line, or a display on a terminal, and warnings.

All of it goes through the logger ``parki`` where the user has configured logging, and to stderr
where not (warnings get there by themselves: Python prints what no handler takes).
"""

from __future__ import annotations

import functools
import logging
import sys

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


class Progress:
    """Counts ``total`` steps: a display on a terminal, gone at the end; elsewhere a notice.

    Nothing is shown before `start`; steps may be taken before it.
    """

    def __init__(self, label: str, total: int, detail: str) -> None:
        self.label, self.total, self.detail = label, total, detail
        self.done = 0
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
            notice(f"{self.label} ({self.detail})")

    def step(self) -> None:
        """Count one step."""
        self.done += 1
        self._show()

    def finish(self) -> None:
        """Wipe the display."""
        self._show(wipe=True)

    def _show(self, wipe: bool = False) -> None:
        if self.live:
            text = f"parki: {self.label}: {self.done} of {self.total}"
            line = " " * len(text) + "\r" if wipe else text
            print("\r" + line, end="", file=sys.stderr, flush=True)
