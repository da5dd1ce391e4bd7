"""What the default run leaves out, and what it must find all the same."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import conftest
import pytest
from faults import FAULTS, ROOT, places

CASES = list(itertools.product("abcdef", "0123", "xyz"))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_cases_that_are_kept_meet_all_that_all_cases_meet(size):
    cases = [[(str(place), value) for place, value in enumerate(case)] for case in CASES]
    met = [set(itertools.combinations(case, size)) for case in cases]
    kept = conftest.covering(cases, size)
    assert set().union(*(met[place] for place in kept)) == set().union(*met)
    # As few as can be, or little more.
    assert len(kept) <= (6, 28, len(cases))[size - 1]


def test_each_value_is_met_about_equally_often():
    cases = [[(str(place), value) for place, value in enumerate(case)] for case in CASES]
    kept = [CASES[place] for place in conftest.covering(cases, 1)]
    assert sorted(sum(case[2] == value for case in kept) for value in "xyz") == [2, 2, 2]


def test_the_longest_files_come_first():
    first, second = conftest.LONGEST[:2]
    names = ("window", first, "plane", second, first)
    items = [SimpleNamespace(path=ROOT / "tests" / f"test_{name}.py") for name in names]
    conftest.longest_first(items)
    found = [item.path.stem.removeprefix("test_") for item in items]
    assert found == [first, first, second, "window", "plane"]
    for name in conftest.LONGEST:
        assert [*(ROOT / "tests").rglob(f"test_{name}.py")], f"{name} in LONGEST of conftest.py"


def test_absent_spaces_are_named():
    lines = conftest.pytest_report_header()
    for name, reason in conftest.ABSENT.items():
        assert any(f" {name}: {reason}" in line for line in lines) == bool(reason)
        assert (name in lines[0]) == (not reason)


def test_every_fault_can_be_made():
    """Each is one line, in a place that is there once; see `tests/faults.txt`."""
    for fault in FAULTS:
        assert len(places(ROOT, fault)) == 1, fault.right
        assert "\n" not in fault.right + fault.wrong
        for test in fault.tests.split():
            file, _, function = test.partition("::")
            assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8") or not function
    assert len(FAULTS) >= 30
