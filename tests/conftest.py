"""What tests share: execution spaces, moving arrays to and from them, random numbers.

The compile cache is the user's (PARKI_CACHE_DIR), so that a second run compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parki.ewald import forget
from parki.ewald.choice.clustering import pair_density
from parki.runtime import ExecutionSpace, get_execution_space
from parki.runtime.spaces import why_unavailable

SPACES = [
    pytest.param("OpenMP", id="OpenMP"),
    pytest.param("Serial", id="Serial"),
    pytest.param("Cuda", id="Cuda", marks=pytest.mark.gpu),
    pytest.param("HIP", id="HIP", marks=pytest.mark.hip),
]


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> ExecutionSpace:
    """Each execution space; one that is not on this machine is skipped, with the reason."""
    reason = why_unavailable(request.param)
    if reason:
        pytest.skip(f"{request.param}: {reason}")
    return get_execution_space(request.param)


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Have every sum choose its parameters, whatever tests summed before."""
    forget()


@pytest.fixture
def to_space(space: ExecutionSpace) -> Callable[[Any], Any]:
    """Return what copies a host array into the memory of ``space``."""
    return lambda values: space.array_module.array(values)


@pytest.fixture
def to_host() -> Callable[[Any], Any]:
    """Return what brings an array to the host."""
    return lambda values: values.get() if hasattr(values, "get") else np.asarray(values)


@pytest.fixture
def rng() -> np.random.Generator:
    """Return the same random numbers for every test."""
    return np.random.default_rng(2026)


@pytest.fixture(scope="session")
def uniform():
    """Return the density of pairs of 20 000 uniform points."""
    points = np.random.default_rng(0).random((3, 20_000))
    return pair_density(points, points, np.ones(3))
