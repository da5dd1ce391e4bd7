"""The promise of `Spheres`, over radii from tracers to those beyond the cut-off, clouds and boxes.

Against closed forms. The start of the sweep is run always, and more of it with the marker ``slow``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from clouds import cloud, edges_of
from contract import _rounding, costs_of_a_device, rms
from scipy.spatial.distance import pdist
from sphere_reference import mobility

import parki
from parki.interchange import to_host

# Where the promise is checked; a GPU's whole sweep is PARKI_TEST_SPACE=Cuda pytest -m "".
SPACE = os.environ.get("PARKI_TEST_SPACE", "CPU")
ALWAYS, SLOW = 6, 200
EPS = np.finfo(float).eps


class Case(NamedTuple):
    """A suspension; the radius is relative to the shortest edge."""

    radius: float
    sizes: str
    count: int
    cloud: str
    density: str
    box: str
    periodicity: int
    asked: tuple[str, float]
    split: str
    turning: bool
    device: bool

    def __str__(self) -> str:
        return ", ".join(
            (
                *(f"{self.sizes} {self.radius:g}", str(self.count), self.cloud, self.density),
                *(self.box, f"{self.periodicity}P", f"{self.asked[0]} {self.asked[1]:.0e}"),
                *(self.split, "torques" * self.turning, "device" * self.device),
            )
        )


FACTORS: tuple[tuple[Any, ...], ...] = (
    (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.45),
    ("one", "one", "two", "tracers"),
    (2, 12, 40, 90),
    ("same", "blobs_same", "lattice", "sphere_same", "line", "same"),
    ("random", "random", "neutral", "one_sign"),
    ("cube", "brick", "pipe", "tower", "film", "sheet"),
    (0, 1, 2, 3, 3),
    (
        *(("f8", tolerance) for tolerance in (1e-1, 1e-3, 1e-5, 1e-8)),
        *(("f4", tolerance) for tolerance in (1e-2, 1e-3, 1e-5)),
        *(("mixed", tolerance) for tolerance in (1e-2, 1e-4)),
    ),
    ("auto", "auto", "hasimoto"),
    (False, False, True),
    (False, True),
)


def sweep(seed: int = 0) -> Iterator[Case]:
    """Yield cases without end, which meet all values of a factor about equally often."""
    rng = np.random.default_rng(seed)

    def shuffled(values: tuple[Any, ...]) -> Iterator[Any]:
        while True:
            yield from (values[place] for place in rng.permutation(len(values)))

    for case in itertools.starmap(Case, zip(*map(shuffled, FACTORS), strict=True)):
        # At this tolerance Hasimoto's split has no grid for the widest spheres, and says so.
        if (case.split, case.asked[1]) != ("hasimoto", 1e-1):
            yield case


CASES = [
    pytest.param(case, id=str(case), marks=[pytest.mark.slow] * (number >= ALWAYS))
    for number, case in enumerate(itertools.islice(sweep(), SLOW))
]


def ratios(case: Case) -> list[float]:
    """Return the errors of velocities, and of turns, over what is allowed."""
    box, (precision, tolerance) = edges_of(case.box), case.asked
    given = cloud(case.cloud, case.count, box, density=case.density)
    forces, torques = given.dens[:3], given.dens[3:] * case.turning
    radii = np.full(case.count, case.radius * min(box))
    if case.sizes != "one":
        radii[::2] *= 0.5 if case.sizes == "two" else 0
    device = costs_of_a_device() if case.device else contextlib.nullcontext()
    array = parki.utils.get_array_module(SPACE).asarray
    points, acts, turns = (
        array(each.astype("f4" if precision == "f4" else "f8"))
        for each in (given.src, forces, torques)
    )
    options = {"precision": "mixed"} if precision == "mixed" else {}
    with device:
        spheres = parki.Spheres(
            points,
            radii if case.sizes != "one" else radii[0],
            periodicity=case.periodicity,
            box=box,
            tolerance=tolerance,
            expert=parki.Expert(split=case.split),
            **options,
        )
        found = spheres.velocities(acts, turns if case.turning else None)
        promised = 8 * np.pi * float(spheres.promise(acts))
    exact = mobility(given.src, radii, forces, torques, box, case.periodicity)
    found = [to_host(each) for each in (found if case.turning else (found,))]
    length = np.prod(box) ** (1 / 3)
    force, torque = (float(np.linalg.norm(each)) for each in (forces, torques))
    # More radii may have the bounds of all their pairs, added.
    parts = promised / (tolerance * force / length)
    assert 1 - 1e-5 < parts < len(np.unique(radii)) ** 1.5 + 1e-5
    unit = parts * tolerance
    allowed = [
        unit * (force / length + torque / length**2),
        unit * (force / length**2 + torque / length**3),
    ]
    # The reference subtracts fields of points, which lose digits for the closest pair.
    closest = pdist(given.src.T).min()
    digits = 8 * EPS / case.count / closest**3
    lost = [
        digits * (force * radii.max() ** 2 + torque * closest),
        digits * (force * closest + torque),
    ]
    found_ratios = []
    for ours, theirs, most, less in zip(found, exact, allowed, lost, strict=False):
        flow = rms(theirs)
        if case.density == "one_sign":  # errors of neighbours add up, and so does the flow
            most += tolerance * flow
        error = rms(8 * np.pi * ours - theirs)
        found_ratios.append(error / (most + less + _rounding(precision, flow)))
    return found_ratios


@pytest.mark.parametrize("case", CASES)
def test_promise(case: Case) -> None:
    assert max(ratios(case)) <= 1
