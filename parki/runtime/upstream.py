"""The executor `pykokkos`: hands the specialised file to upstream PyKokkos, unmodified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parki.runtime.spaces import ExecutionSpace
from parki.runtime.specialise import Specialised
from parki.runtime.translate import Translated


class UpstreamObject:
    """One workunit run by upstream PyKokkos."""

    def __init__(
        self,
        workunit: Specialised,
        translated: Translated,
        space: ExecutionSpace,
        team_size: int,
        vector_length: int,
    ) -> None:
        raise NotImplementedError

    def cached(self) -> bool:
        """Return False: upstream keeps a cache of its own."""
        return False

    def load(self) -> Callable[[list[Any], int], None]:
        """Return ``launch(arguments, count)``."""
        raise NotImplementedError
