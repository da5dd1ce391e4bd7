"""The table of faces: what they lack is a law, has a reason, and is what the manual says."""

from __future__ import annotations

import re
from pathlib import Path

import matrix
import pytest
from faces import cases
from faces.base import BLOBS
from faces.plans import Call

LAWS = {
    name
    for file in Path(__file__).parent.glob("test_*.py")
    for name in re.findall(r'^@law\("(\w+)"', file.read_text(encoding="utf-8"), re.M)
} | {"counts", "spaces", "precisions", "mixed"}


@pytest.mark.parametrize("face", matrix.EVERY, ids=str)
def test_what_is_lacking_is_a_law(face):
    assert face.usual[0] in face.sums and face.usual[1] in face.periodicities
    assert {name.split()[0] for name in face.lacks} <= LAWS
    assert len({each.name for each in matrix.EVERY}) == len(matrix.EVERY)


@pytest.mark.parametrize("face", matrix.EVERY, ids=str)
def test_a_tier_has_what_it_promises(face):
    _, promised = matrix.TIERS[face.tier]
    one_shot = Call.lacks.keys() if isinstance(face, Call) else set()
    assert not face.lacks.keys() & promised - one_shot


@pytest.mark.parametrize("law", sorted(LAWS - {"counts", "spaces"}))
def test_a_sum_of_the_tests_alone_meets_every_law(law):
    """In the default run, by its record, pair function and reference; and sums with parameters."""
    met = {each.values[1] for each in cases(law) if not each.marks}
    assert {"gravity", *BLOBS} <= met


def test_the_manual_has_the_table():
    found = matrix.PAGE.read_text(encoding="utf-8")
    assert found == matrix.page(), "run: python tests/helpers/matrix.py"
