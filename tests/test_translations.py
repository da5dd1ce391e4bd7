"""Translations of kernels that the cache keeps: used by later processes, and never wrong."""

from __future__ import annotations

import errno
import shutil
from inspect import cleandoc
from pathlib import Path

import numpy as np
import pytest
from small_kernels import RUN, SQUARE, right, run_python, small_kernel

from parki.runtime import cache, specialise, translations
from parki.runtime import kernel as kernel_module
from parki.runtime.translations import translation


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    forget(monkeypatch)
    return tmp_path / "cache"


def forget(monkeypatch) -> None:
    """Have this process remember no more than a new one."""
    monkeypatch.setattr(kernel_module, "_loaded", {})
    specialise.substitute.cache_clear()
    specialise._parse.cache_clear()
    translations._blocks_at_first.cache_clear()


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A copy of parki's kernels, which may be edited."""
    copy = tmp_path / "kernels"
    shutil.copytree(specialise.kernel_directory(), copy)
    monkeypatch.setattr(specialise, "kernel_directory", lambda: copy)
    monkeypatch.setattr(specialise, "_path", specialise._path.__wrapped__)
    return copy


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(f"*{translations.SUFFIX}")}


def no_translation(monkeypatch) -> None:
    def refuse(*_):
        raise AssertionError("a kernel is translated")

    monkeypatch.setattr(translations, "translate", refuse)


TILE = {"REAL": "float", "DEGREE": np.int64(8), "PAIRS": "spheres", "CHARGES": 1, "OUTPUTS": 1}
REQUESTS = [
    ("cell_list", "find_cells", {"REAL": "float"}, 1, None),
    ("p2p", "p2p_staged", {"REAL": "double", "DEGREE": 8}, 1, None),
    # A team with scratch memory, and a table that is passed by value.
    ("p2p_tile", "p2p_tile", TILE, 64, {"radial": (1, 9)}),
]


@pytest.mark.parametrize("asked", REQUESTS, ids=lambda asked: asked[1])
def test_what_was_kept_is_what_was_made(folder, monkeypatch, asked):
    made = translation(*asked)
    assert len(entries(folder)) == 1
    forget(monkeypatch)
    no_translation(monkeypatch)
    assert translation(*asked) == made


def test_a_new_process_translates_nothing(folder, tmp_path):
    assert right(small_kernel(tmp_path, SQUARE))
    kept, file = entries(folder), tmp_path / "small.py"
    assert len(kept) == 1
    code = "from parki.runtime import translations\ndel translations.translate\n" + cleandoc(RUN)
    assert run_python(code, file) == (0, "right\n", "")
    assert entries(folder) == kept


def test_each_request_has_its_own(folder):
    file, workunit, constants, threads, tables = REQUESTS[2]
    others = [
        REQUESTS[2],
        (file, workunit, {**constants, "REAL": "double"}, threads, tables),
        (file, workunit, {**constants, "DEGREE": 10}, threads, tables),
        (file, workunit, {**constants, "UNIT": 0}, threads, tables),
        (file, workunit, {**constants, "UNIT": 0.0}, threads, tables),
        (file, workunit, constants, 128, tables),
        (file, workunit, constants, threads, {"radial": (1, 10)}),
        (file, workunit, constants, threads, None),
    ]
    made = [translation(*asked) for asked in others]
    assert len(entries(folder)) == len(others)
    assert [translation(*asked) for asked in others] == made


# ---------------------------------------------------------------------- edited sources
def test_an_edited_kernel_is_translated_again(folder, tmp_path, monkeypatch):
    assert right(small_kernel(tmp_path, SQUARE))
    forget(monkeypatch)
    assert not right(small_kernel(tmp_path, SQUARE.replace("0.25", "0.5")))
    forget(monkeypatch)
    no_translation(monkeypatch)
    assert right(small_kernel(tmp_path, SQUARE))  # edited back


def test_edited_blocks_are_translated_again(kernels, monkeypatch):
    asked = REQUESTS[1]
    before = translation(*asked)[1].text
    file = kernels / "pairs" / "spheres.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(" += ", " -= "), encoding="utf-8")
    forget(monkeypatch)
    assert translation(*asked)[1].text != before
    file.write_text(text, encoding="utf-8")
    forget(monkeypatch)
    no_translation(monkeypatch)
    assert translation(*asked)[1].text == before


def test_blocks_edited_meanwhile_are_not_mistaken(folder, kernels, monkeypatch):
    """This process may have parsed some files before the edit, and others after it."""
    translation(*REQUESTS[0])
    kept = entries(folder)
    file = kernels / "blocks" / "cut.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "# edited\n", encoding="utf-8")
    translation(*REQUESTS[1])
    assert entries(folder) == kept
    file.write_text(text, encoding="utf-8")
    translation(*REQUESTS[1])
    assert len(entries(folder)) == 2


def test_another_translator_translates_again(folder, tmp_path, monkeypatch):
    translation(*REQUESTS[0])
    copy = tmp_path / "runtime"
    shutil.copytree(Path(translations.__file__).parent, copy)
    assert translations._digest(copy.glob("*.py")) in translations._CODE
    with open(copy / "syntax.py", "a", encoding="utf-8") as file:
        file.write("# edited\n")
    edited = translations._digest(copy.glob("*.py"))
    assert edited not in translations._CODE
    monkeypatch.setattr(translations, "_CODE", edited)
    translation(*REQUESTS[0])
    assert len(entries(folder)) == 2


# ---------------------------------------------------------------------- the folder
def test_nothing_fails_or_warns_without_a_folder(tmp_path, monkeypatch, caplog):
    """Where kernels came compiled, a folder that cannot be written is no reason to warn."""
    made = translation(*REQUESTS[0])
    (tmp_path / "file").touch()
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert translation(*REQUESTS[0]) == made
    assert not caplog.records


def test_nothing_fails_on_a_full_disk(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache, "_replace", full)
    assert translation(*REQUESTS[0])[1].text
    assert not list(folder.iterdir())


def test_a_folder_that_is_only_read_serves(folder, monkeypatch):
    made = translation(*REQUESTS[0])
    monkeypatch.setattr(cache, "why_unusable", lambda: "it is not writable")
    forget(monkeypatch)
    no_translation(monkeypatch)
    assert translation(*REQUESTS[0]) == made
