"""What ranks have in common: arrays of a space, and lines of JSON (see `ranks`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import parki
from parki.distributed import use_local_gpu
from parki.interchange import to_host


class Memory:
    """Moves arrays between the host and an execution space."""

    def __init__(self, space: str, comm: Any) -> None:
        found = parki.get_execution_space(space)
        if found.on_device:
            use_local_gpu(comm)
        self.xp = found.array_module

    def send(self, values: Any) -> Any:
        """Return an array of the host in the memory of the space."""
        return None if values is None else self.xp.asarray(values)

    def fetch(self, values: Any) -> Any:
        """Return an array of the space on the host."""
        return to_host(values)

    def apart(self, found: Any, exact: Any) -> float:
        """Return how far an array of the space is from one of the host, as a part of its size."""
        return float(abs(self.fetch(found) - exact).max() / abs(exact).max()) if exact.size else 0.0


def tell(comm: Any, case: str, **mine: Any) -> None:
    """Print a line of what all ranks have of a case, by name."""
    told = comm.gather(mine)
    if told:
        print(
            json.dumps({"case": case} | {n: [each[n] for each in told] for n in mine}), flush=True
        )


def attempt(comm: Any, name: str, call: Callable[[], Any]) -> None:
    """Print what each rank sees of a call: the error's type and message, or none."""
    try:
        call()
        seen = ("", "")
    except parki.ParkiError as error:
        seen = (type(error).__name__, str(error))
    tell(comm, name, seen=seen)
