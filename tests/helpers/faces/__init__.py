"""Faces: the ways in which users sum, and how a law makes, applies, moves and checks each of them.

`tests/laws` has a file for each law, which meets every face (`law`). A face says which laws it
lacks, and why, in words for users: ``docs/matrix.md`` prints them (`tests/laws/test_faces.py`).

base      `Face` itself, a plan, and what it is given
plans     calls, composites, walls, tilted boxes, systems, boxes, labels
spheres   spheres of one radius and of many, with torques, near a wall, with noise
others    PyTorch, JAX, libMobility's calls, grids
ranks     those that several ranks have, which `tests/laws/test_ranks.py` starts
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from faces import others, plans, ranks, spheres
from faces.base import Face

ALONE = (Face(), *plans.FACES, *spheres.FACES, *others.FACES)
# On ranks that were started for it, laws meet the faces that these have.
ON_RANKS = bool(os.environ.get("PARKI_LAWS_ON_RANKS"))
FACES: dict[str, Face] = {each.name: each for each in (ranks.FACES if ON_RANKS else ALONE)}
# Faces that join two others and have nothing of their own, as tilted boxes and spheres have.
JOINED = [each for each in FACES.values() if len(type(each).__bases__) > 1]
JOINED = [each for each in JOINED if not isinstance(each, (plans.Tilted, spheres.Spheres))]


def law(name: str, *, joined: bool = True) -> Callable[[Any], Any]:
    """Return what has a test meet all faces that a law is about: ``face, kernel, periodicity``.

    The default run meets each face with its usual sum; the long run meets all combinations. Faces
    that join two others are left to it if not ``joined``.
    """
    found = cases(name, joined=joined)
    names = ("face", "kernel", "periodicity")

    def mark(test: Any) -> Any:
        return pytest.mark.each(pytest.mark.parametrize(names, found)(test))

    return mark


def cases(name: str, *, joined: bool = True) -> list[Any]:
    """Return the parameters of a law."""
    found = []
    for face in FACES.values():
        usual = face.usual if joined or face not in JOINED else None
        for kernel in face.sums:
            if face.without(name, kernel):
                continue
            for periodicity in face.periodicities:
                marks = [] if (kernel, periodicity) == usual else [pytest.mark.slow]
                words = f"{face.name}-{kernel}-{periodicity}P"
                found.append(pytest.param(face, kernel, periodicity, marks=marks, id=words))
    return found
