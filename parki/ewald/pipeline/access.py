"""`Access`: lets one thread or stream after the other use the memory of a placement."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from parki.memory import told
from parki.runtime import ExecutionSpace, captures, forks
from parki.settings import read_once


class Access:
    """The one lock of the sums of a placement.

    Attributes
    ----------
    done : object or None
        The end of the last block, after which another stream may use the memory.
    """

    def __init__(self, space: ExecutionSpace) -> None:
        self.space, self.done = space, cast(Any, None)
        self._lock, self._holder = forks.Lock("this plan"), 0
        self._block: Any

    def __call__(self) -> AbstractContextManager[None]:
        """Wait for other threads and, on a device, other streams that use the memory.

        Within this, the same thread enters again for nothing.
        """
        return self._lock if self._holder == threading.get_ident() else self._alone()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        space = self.space
        with self._lock, read_once(), told():
            if space.on_device:
                forks.refuse(space.name)  # before CUDA says something else
                captures.refuse()
            self._block = space.adapter.exclusive(self.done)
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = 0
                self.done = self._block.end()

    def follow(self, done: Any) -> None:
        """Wait, within this, for streams that used other memory until then."""
        self._block.follow(done)
