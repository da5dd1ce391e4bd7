"""The contract: the rms error over the targets is at most what the tolerance promises.

Against direct sums, for every kernel, periodicity, precision, box and kind of cloud. The marker
``slow`` holds the full product; what is left without it meets every value of every factor.
"""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any

import numpy as np
import pytest
from contract import (
    BOXES,
    CLOUDS,
    KERNELS,
    TOLERANCES,
    Cloud,
    cloud,
    error_over_promise,
    promise,
    rms,
    rounding,
)

import parki
from parki.ewald.options import SMALLEST_TOLERANCE
from parki.reference import direct_sum

# Where the contract is checked; a GPU's whole sweep is PARKI_TEST_SPACE=Cuda pytest -m "".
SPACE = os.environ.get("PARKI_TEST_SPACE", "CPU")
ASKED = [(dtype, tolerance) for dtype, values in TOLERANCES.items() for tolerance in values]
SMALL, LARGE, SAMPLED = 300, 10_000, 60
# Below this part of the promise, time is wasted.
LEAST = 0.02


@functools.lru_cache(maxsize=256)
def reference(name: str, n: int, kernel: str, periodicity: int, box: str) -> Any:
    """Return the direct sum at the first targets; the same for both precisions."""
    c = cloud(name, n, BOXES[box])
    dens, norms = c.arguments(kernel)
    trg = c.trg[:, : SMALL if n == SMALL else SAMPLED]
    return direct_sum(kernel, trg, c.src, dens, norms, box=BOXES[box], periodicity=periodicity)


def potential(
    kernel: str, c: Cloud, periodicity: int, box: str, tolerance: float, **more: Any
) -> Any:
    dens, norms = c.arguments(kernel)
    options = parki.EwaldOptions(
        periodicity=periodicity, box=BOXES[box], tolerance=tolerance, execution_space=SPACE, **more
    )
    xp = parki.utils.get_array_module(SPACE)
    src = xp.asarray(c.src)
    trg = src if c.trg is c.src else xp.asarray(c.trg)
    normals = None if norms is None else xp.asarray(norms)
    pot = parki.Plan(kernel, trg, src, normals, options)(xp.asarray(dens))
    return pot if xp is np else pot.get()


def product(default: Any, *factors: Any) -> list[Any]:
    """Return all combinations; those at positions for which ``default`` is false are slow."""
    return [
        pytest.param(*values, marks=() if default(position) else pytest.mark.slow)
        for position, values in enumerate(itertools.product(*factors))
    ]


# Steps that are prime to the size of every factor meet each pair of their values.
@pytest.mark.parametrize(
    ("name", "kernel", "periodicity", "box", "asked"),
    product(lambda position: position % 11 == 0, CLOUDS, KERNELS, (1, 3), BOXES, ASKED),
)
def test_small_clouds(name, kernel, periodicity, box, asked):
    dtype, tolerance = asked
    c = cloud(name, SMALL, BOXES[box], dtype)
    pot = potential(kernel, c, periodicity, box, tolerance)
    assert pot.dtype == dtype
    ref = reference(name, SMALL, kernel, periodicity, box)
    assert error_over_promise(kernel, pot, ref, c, BOXES[box], tolerance) <= 1


@pytest.mark.parametrize(
    ("name", "kernel", "periodicity", "box", "asked"),
    product(
        lambda position: position % 13 == 0,
        ("uniform", "same", "blobs_same", "sphere_same"),
        KERNELS,
        (1, 3),
        BOXES,
        ASKED,
    ),
)
def test_large_clouds(name, kernel, periodicity, box, asked):
    dtype, tolerance = asked
    c = cloud(name, LARGE, BOXES[box], dtype)
    pot = potential(kernel, c, periodicity, box, tolerance)[..., :SAMPLED]
    ref = reference(name, LARGE, kernel, periodicity, box)
    assert error_over_promise(kernel, pot, ref, c, BOXES[box], tolerance) <= 1
    if name == "uniform":
        dens, norms = c.arguments(kernel)
        bound = promise(kernel, dens, norms, BOXES[box], tolerance)
        error = rms(pot - ref) / bound
        assert error > LEAST or rounding(pot, ref) > LEAST * bound, "more accurate than asked"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("periodicity", [1, 3])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_the_smallest_tolerance(kernel, periodicity, dtype):
    tolerance = SMALLEST_TOLERANCE[np.dtype(dtype)]
    c = cloud("same", SMALL, BOXES["cube"], dtype)
    pot = potential(kernel, c, periodicity, "cube", tolerance)
    ref = reference("same", SMALL, kernel, periodicity, "cube")
    assert error_over_promise(kernel, pot, ref, c, BOXES["cube"], tolerance) <= 1


# Cut-offs and windows away from the optimum; some are refused, none breaks the contract.
@pytest.mark.parametrize(
    ("name", "kernel", "periodicity", "asked", "cutoff", "points"),
    product(
        lambda position: position % 11 == 0,
        ("uniform", "blobs_same"),
        ("laplace", "stokes_sl", "stokes_dl"),
        (1, 3),
        [("f8", 1e-4), ("f8", 1e-9), ("f4", 1e-3), ("f4", 1e-5)],
        (0.15, 0.25, 0.45),
        (None, 6, 10, 14, 18),
    ),
)
def test_overrides(name, kernel, periodicity, asked, cutoff, points):
    dtype, tolerance = asked
    c = cloud(name, SMALL, BOXES["slab"], dtype)
    try:
        pot = potential(
            kernel, c, periodicity, "slab", tolerance, cutoff=cutoff, window_points=points
        )
    except parki.ParkiValueError as error:
        pytest.skip(str(error))
    ref = reference(name, SMALL, kernel, periodicity, "slab")
    assert error_over_promise(kernel, pot, ref, c, BOXES["slab"], tolerance) <= 1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_every_space(kernel, dtype, space, to_space, to_host):
    c = cloud("partly", SMALL, BOXES["slab"], dtype)
    dens, norms = c.arguments(kernel)
    for periodicity in (1, 3):
        options = parki.EwaldOptions(
            periodicity=periodicity, box=BOXES["slab"], tolerance=1e-4, execution_space=space
        )
        normals = None if norms is None else to_space(norms)
        plan = parki.Plan(kernel, to_space(c.trg), to_space(c.src), normals, options)
        pot = to_host(plan(to_space(dens)))
        ref = reference("partly", SMALL, kernel, periodicity, "slab")
        assert error_over_promise(kernel, pot, ref, c, BOXES["slab"], 1e-4) <= 1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("periodicity", [1, 3])
def test_coherent_densities(kernel, periodicity):
    """Densities of one sign may pass the promise; relative to the flow they stay far below it."""
    c = cloud("same", LARGE, BOXES["cube"])
    dens, norms = (None if a is None else np.abs(a) for a in c.arguments(kernel))
    options = parki.EwaldOptions(periodicity=periodicity, tolerance=1e-6)
    pot = parki.Plan(kernel, c.trg, c.src, norms, options)(dens)[..., :SAMPLED]
    ref = direct_sum(
        kernel, c.trg[:, :SAMPLED], c.src, dens, norms, box=BOXES["cube"], periodicity=periodicity
    )
    bound = promise(kernel, dens, norms, BOXES["cube"], 1e-6) + rounding(pot, ref)
    assert rms(pot - ref) <= 30 * bound
    if periodicity == 1 and kernel in ("laplace", "stokes_sl"):  # the flow that adds up
        assert rms(pot - ref) <= 1e-6 * rms(ref)
