"""`Access`: lets one thread or stream after the other use the memory of a placement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from parki.memory import told
from parki.runtime import ExecutionSpace, captures, forks
from parki.settings import read_once


class Access:
    """The one lock of the sums of a placement.

    Attributes
    ----------
    done : event or None
        After which another stream may use the memory.
    """

    def __init__(self, space: ExecutionSpace) -> None:
        self.space, self.done = space, cast(Any, None)
        self._lock, self._held = forks.Lock("this plan"), False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait for other threads and, on a device, other streams that use the memory.

        Within this, the same thread enters again for nothing.
        """
        space = self.space
        with self._lock:
            if self._held:
                yield
                return
            self._held = True
            try:
                with read_once(), told():
                    if space.on_device:
                        forks.refuse(space.name)  # before CUDA says something else
                        captures.refuse()
                    with space.adapter.exclusive(self.done) as end:
                        try:
                            yield
                        finally:
                            self.done = end()
            finally:
                self._held = False
