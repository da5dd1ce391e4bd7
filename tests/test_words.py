"""One word for one thing: names that the glossary replaced stay away, and classes have their own.

`REPLACED` has each word with what to write instead. The names of the code are searched for all of
them, comments and docstrings for `TERMS`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

import parki

ROOT = Path(parki.__file__).parent.parent
FILES = sorted([*(ROOT / "parki").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")])
REPLACED = {
    "turn": "the thing meant: exclusive (a lock), angles, rounds, shift",
    "turned": "transposed, transposed_pair",
    "exchanged": "transposed",
    "probe": "tensor target",
    "probes": "tensors (arrays), tensor targets",
    "tilt": "axial_weight",
    "steep": "differentiates_window, derivative_tables, or the thing meant",
    "room": "slack (columns), margin (errors), free (bytes), scratch (memory)",
    "forget": "clear_cache, clear, drop",
    "mean_edge": "volume_length",
    "looks": "candidates, searches",
}
# What prose may not say, either; the others are everyday words.
TERMS = {"probe", "probes", "tilt", "mean_edge"}
# The public face of one device and of many ranks: two doors of the same name.
SHARED = {"Plan", "Spheres"}


def words(path):
    """Yield (line, word, whether it is prose) of a file: parts of names, and words of text."""
    with io.BytesIO(path.read_bytes()) as text:
        for token in tokenize.tokenize(text.readline):
            if token.type == tokenize.NAME:
                for word in {token.string.strip("_").lower(), *token.string.lower().split("_")}:
                    yield token.start[0], word, False
            elif token.type == tokenize.COMMENT or (
                token.type == tokenize.STRING and token.string.startswith('"""')
            ):
                for place, line in enumerate(token.string.splitlines()):
                    for word in re.findall(r"[a-z_]+", line.lower()):
                        yield token.start[0] + place, word.strip("_"), True


def test_no_replaced_word():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word!r}; write {REPLACED[word]}"
        for path in FILES
        for line, word, prose in words(path)
        if word in REPLACED and (not prose or word in TERMS)
    ]
    assert not found, "\n".join(found)


def test_class_names_are_unique():
    places = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert twice.keys() <= SHARED, twice


@pytest.mark.parametrize(
    "line", ["probes = 1", "def turn(): ...", '"""Two probes."""', "# a probe"]
)
def test_words_are_found(tmp_path, line):
    path = tmp_path / "file.py"
    path.write_text(line + "\n")
    assert any(word in REPLACED for _, word, _ in words(path))
