"""The README keeps its word: programs run, the settings table is the real one, names exist."""

import re
from pathlib import Path

import numpy as np
import pytest

import parki
from parki import settings

README = Path(__file__).parents[1] / "README.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.S | re.M)


def small(program: str) -> str:
    """Return a program at a hundredth of its size, on the CPU."""
    program = re.sub(r"\b(\d+)0_000\b", r"\g<1>00", program)
    return program.replace("4000000", "4000").replace('"CUDA"', '"CPU"')


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_python_blocks_run(program: str) -> None:
    names: dict[str, object] = {}
    exec(compile(small(program), str(README), "exec"), names)
    pot, trg = names["pot"], names["trg"]
    assert isinstance(pot, np.ndarray)
    assert isinstance(trg, np.ndarray)
    assert pot.shape == trg.shape
    assert np.isfinite(pot).all()


def test_there_are_programs_and_they_shrink() -> None:
    assert len(PROGRAMS) == 2
    for program in PROGRAMS:
        assert not re.search(r"\d_000|\d{5}", small(program))


def settings_table() -> str:
    """Return the table of settings as the README shows it."""
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for s in settings.SETTINGS.values():
        default = f"`{s.default}`" if s.default else ""
        rows.append(f"| `{s.name}` | {default} | {s.meaning} |".replace("|  |", "| |"))
    return "\n".join(rows)


def test_settings_table_is_that_of_the_module() -> None:
    found = re.search(
        r"^<!-- settings:.*?-->\s*(.*?)\s*^<!-- end of settings -->",
        README.read_text(encoding="utf-8"),
        re.S | re.M,
    )
    assert found
    assert found.group(1) == settings_table(), f"put this into README.md:\n{settings_table()}"


def test_names_in_the_readme_exist() -> None:
    text = README.read_text(encoding="utf-8")
    for name in set(re.findall(r"`(?:parki\.)((?:\w+\.)*\w+)\b(?<!\.py)", text)):
        found: object = parki
        for part in name.split("."):
            if not hasattr(found, part):
                __import__(f"parki.{name.rsplit('.', 1)[0]}")
            found = getattr(found, part)


def test_files_in_the_readme_exist() -> None:
    text = README.read_text(encoding="utf-8")
    paths = set(re.findall(r"\b((?:docs|examples|scripts|tests)/[\w/]+\.\w+)\b", text))
    # Its tables are added with the measurements.
    missing = [p for p in paths - {"docs/performance.md"} if not (README.parent / p).exists()]
    assert "docs/images/demo.png" in paths
    assert not missing


def test_picture_is_small() -> None:
    assert (README.parent / "docs/images/demo.png").stat().st_size < 300_000
