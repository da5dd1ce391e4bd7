"""`RecordedSteps`: what solvers do again and again, as CUDA graphs.

Below a million points a device waits for the host: a step of conjugate gradients is more than a
hundred launches. On arrays that stay where they are the same launches come again, and one graph
makes them. A CPU simply does what it is given.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from parki.ewald.pipeline.replay import Applications
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray

EACH = 8  # one more column for each this many, where arrays come in other sizes


class RecordedSteps:
    """Steps on arrays of their own, by name.

    Attributes
    ----------
    arrays : dict of arrays
        What `keep` has copied, and what steps leave for later ones.
    told : list of float
        What the host has read last of the numbers that steps leave for it.
    """

    def __init__(self, space: ExecutionSpace) -> None:
        self.space = space
        self.arrays: dict[str, Any] = {}
        self.told: list[float] = []
        self._busy = self._apart = False
        self._report: Any = None
        self._graphs: Applications | None = None
        self._owner: Any = None
        self._copied: dict[str, Any] = {}

    def unused(self) -> RecordedSteps:
        """Return these steps; others, as long as a solve takes these, whose callback solves."""
        return RecordedSteps(self.space) if self._busy else self

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Take the steps for a solve."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    @property
    def numbers(self) -> Any:
        """Eight numbers that steps leave for the host."""
        self._report = self._report or self.space.adapter.report(8)
        return self._report.numbers

    def read(self) -> list[float]:
        """Return the numbers, for which the host waits."""
        self._report.send()
        self.told = self._report.read()
        return self.told

    @property
    def recorded(self) -> bool:
        """Whether steps are recorded, where they can be."""
        return self._graphs is not None and not self._graphs.problem

    def begin(self, recording: tuple[object, str, bool]) -> None:
        """Let steps follow that launch what an owner has; graphs for another owner are dropped.

        The ``recording`` has the owner; then why nothing is recorded, or ""; and whether products
        have graphs of their own.
        """
        owner, problem, self._apart = recording
        if self._graphs is None or self._owner() is not owner:
            self._owner = weakref.ref(owner)
            self._graphs = Applications(problem)

    def keep(self, **arrays: AnyArray) -> list[Any]:
        """Copy arrays to where steps find them, and return these."""
        return [self.copied(name, array) for name, array in arrays.items()]

    def copied(self, name: str, array: AnyArray) -> Any:
        """Copy an array to where steps find one of its name, and return this."""
        copy = self.empty(name, array.shape, array.dtype)
        self.space.adapter.copy(copy, array)
        return copy

    def keep_columns(self, arrays: dict[str, AnyArray]) -> dict[str, Any]:
        """Copy arrays (..., n) to the first of more columns, unless they were copied last.

        Where nothing is recorded the arrays themselves are returned.
        """
        if not self.recorded:
            return arrays
        copies = {}
        for name, array in arrays.items():
            copy = self.arrays.get(name)
            size, rows = array.shape[-1], array.shape[:-1]
            if copy is None or copy.shape[:-1] != rows or copy.shape[-1] < size:
                copy = self.empty(name, (*rows, size + -(-size // EACH)), array.dtype)
            if self._copied.get(name) is not array:
                self.space.adapter.copy(copy[..., :size], array)
                self._copied[name] = array
            copies[name] = copy
        return copies

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return the array of a name, which is new if it had another shape."""
        array = self.arrays.get(name)
        if array is None or array.shape != tuple(shape) or array.dtype != dtype:
            array = self.arrays[name] = self.space.array_module.empty(shape, dtype)
            self._copied.pop(name, None)
            if self._graphs is not None:
                self._graphs = Applications(self._graphs.problem)
        return array

    def around(
        self,
        name: Hashable,
        before: Callable[[], None] | None,
        product: Callable[[], None],
        after: Callable[[], None],
    ) -> None:
        """Do what makes a vector, its product, and what takes that, as one graph if they can be."""
        if self._apart:
            if before:
                self((name, "before"), before)
            product()
            self((name, "after"), after)
        elif before:
            self(name, before, product, after)
        else:
            self(name, product, after)

    def __call__(self, name: Hashable, *works: Callable[[], None]) -> None:
        """Do works on the arrays one after the other, or launch what was recorded of them.

        Works of one name launch the same every time. They are not kept.
        """

        def work(_: dict[str, Any]) -> None:
            for each in works:
                each()

        if self._graphs is not None:
            self._graphs.repeat(self.space, (name, False), work, {}, {})
