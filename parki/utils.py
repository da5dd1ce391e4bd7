"""Small helpers for programs that run on any execution space."""

from __future__ import annotations

from types import ModuleType

from parki.runtime import ExecutionSpace, get_execution_space

__all__ = ["get_array_module", "get_execution_space"]


def get_array_module(space: ExecutionSpace | str) -> ModuleType:
    """Return numpy for a host space, cupy for a device space."""
    return get_execution_space(space).array_module
