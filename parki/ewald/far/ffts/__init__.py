"""Libraries of FFTs on the host, a module with the same three functions for each.

They transform along one axis, in the calling thread, and without a factor.
"""

from __future__ import annotations


def first(count: int, axis: int, rank: int) -> tuple[slice, ...]:
    """Return the index of the first ``count`` places along an axis."""
    index = [slice(None)] * rank
    index[axis] = slice(count)
    return tuple(index)
