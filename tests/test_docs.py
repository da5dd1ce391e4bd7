"""The pages keep their word: they build, and what they cite, quote and draw exists.

tests/test_programs.py has their programs, names and links.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from pages import DOCS, EXAMPLES, MARKDOWN, ROOT

import parki
import parki.extend
from parki import errors

sys.path.insert(0, str(ROOT / "scripts"))

import gallery

NEEDED = ("sphinx", "furo", "myst_parser", "numpydoc", "sphinx_copybutton")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


# ---------------------------------------------------------------------- pages
RULE = re.compile(r"\|\s*:?-{3,}:?\s*\|")  # between a table's head and its rows


def broken_tables(text: str) -> list[int]:
    """Return the lines of Markdown, from 1, whose tables would be paragraphs."""
    plain = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), text, flags=re.S | re.M)
    lines, broken = plain.splitlines(), []
    for number, line in enumerate(lines):
        row = line.startswith("|")
        before = lines[number - 1] if number else ""
        if RULE.search(line):
            whole = re.fullmatch(r"(\|\s*:?-{3,}:?\s*)+\|", line)
            if not whole or before.count("|") - before.count("\\|") != line.count("|"):
                broken.append(number + 1)
        elif (row and not line.rstrip().endswith("|")) or (
            line and not row and before.startswith("|")
        ):
            broken.append(number + 1)
    return broken


def test_tables_are_tables():
    """As the sources show it, also of pages that are not built.

    A column of the site holds some ninety letters of a row, and about eleven cells.
    """
    for page in MARKDOWN:
        text = page.read_text(encoding="utf-8")
        assert not broken_tables(text), page.name
        rows = re.findall(r"^\|(?: *:?-+:? *\|)+$", text, re.M) if page.parent == DOCS else []
        assert max((row.count("|") - 1 for row in rows), default=0) <= 11, page.name
        # Without braces docutils reads the half of `k` as 12 over `k`.
        assert page.parent != DOCS or not re.search(r"\\[td]?frac[^{]", text), page.name


def test_broken_tables_are_found_out():
    table = "| if | then |\n| --- | --- |\n| this | that |\n"
    assert not broken_tables(f"text\n\n{table}\ntext\n")
    assert broken_tables(table.replace("|\n|", "| |")) == [1]
    assert broken_tables(table.replace("this |", "this\nwraps |")) == [3, 4]
    assert broken_tables(table.replace("if |", "if | or |")) == [2]


# ---------------------------------------------------------------------- what comments cite
SOURCES = [
    path
    for folder in ("parki", "kernels", "scripts", "examples", "tests", "docs")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".sh", ".hpp", ".md") and "_build" not in path.parts
]
CITED = re.compile(r'"([A-Z][^"]{3,60}?)"\s+of\s+(?:#\s+)?(docs/[\w/-]+\.md)')


def test_what_sources_cite_is_in_the_repository():
    lost, found = [], 0
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        lost += [f"{path.name}: {m[0]}" for m in re.finditer(r"\bMATH(?:\.md| [A-H]\b)", text)]
        if path.suffix == ".md" or path.name == "test_docs.py":
            continue
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", text):
            if not (ROOT / page).is_file():
                lost.append(f"{path.name}: {page}")
        for heading, page in CITED.findall(" ".join(text.split())):
            found += 1
            if not titled(ROOT / page, heading):
                lost.append(f"{path.name}: {heading!r} of {page}")
    assert found > 10
    assert not lost


def titled(page: Path, heading: str) -> bool:
    """Whether a page has a heading, or a paragraph that begins with it in bold letters."""
    text = page.read_text(encoding="utf-8")
    return bool(
        re.search(rf"^(#+ {re.escape(heading)}$|\*\*{re.escape(heading)}\.\*\*)", text, re.M)
    )


# Words as the index of the site has them, without endings; each with a page that has to be found.
SEARCHED = {"permeabl": "dynamics", "darci": "theory", "faxen": "suspensions", "fmm": "peers"}
SEARCHED |= {"madelung": "charges", "triclin": "boxes", "bem": "boundary_integrals"}
SEARCHED |= {
    "stokeslet": "theory",
    "stokesian": "dynamics",
    "rotn": "suspensions",
    "slab": "charges",
}
SEARCHED |= {
    "poiseuil": "gauges",
    "mem": "walls",
    "1d": "charges",
    "paraview": "interoperability",
}


def test_the_site(tmp_path):
    """Without warnings or a network it has all pages, names, formulas and programs."""
    if MISSING:
        pytest.skip(f"pip install parki[docs] brings what is missing: {', '.join(MISSING)}")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", tmp_path / "trees"]
    run = subprocess.run([*command, DOCS, tmp_path / "html"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    pages = {
        path.relative_to(tmp_path / "html").with_suffix("").as_posix(): path.read_text("utf-8")
        for path in (tmp_path / "html").rglob("*.html")
    }
    assert {path.stem for path in DOCS.glob("*.md")} <= {*pages}
    places = {*re.findall(r'\bid="([^"]+)"', pages["api"])}
    modules = {"distributed", "ewald", "files", "mesh", "reference", "typing", "utils"}
    assert {f"parki.{name}" for name in parki.__all__ if name not in modules} <= places
    assert {f"parki.distributed.{name}" for name in parki.distributed.__all__} <= places
    named = [name for name in parki.extend.__all__ if callable(getattr(parki.extend, name))]
    maps = {"velocity", "pressure", "gradient"}
    assert {f"parki.extend.{name}" for name in named if name not in maps} <= places
    assert {"parki.Plan.__call__", "parki.reference.direct_sum"} <= places
    far = r"<(?:script|link|img)\b[^>]*\b(?:src|href)=\"(?:https?:)?//"
    assert not [name for name, text in pages.items() if re.search(far, text)]
    formulas = re.findall(r"^```math|^\$\$", (DOCS / "theory.md").read_text("utf-8"), re.M)
    assert pages["theory"].count('display="block"') == len(formulas) > 20
    assert pages["theory"].count("<math") > 100 and "\\frac" not in pages["theory"]
    index = (tmp_path / "html/searchindex.js").read_text("utf-8")
    words = json.loads(index[index.index("{") : index.rindex("}") + 1])
    for word, page in SEARCHED.items():
        found = [words[kind].get(word, []) for kind in ("terms", "titleterms")]
        numbers = [n for each in found for n in (each if isinstance(each, list) else [each])]
        assert words["docnames"].index(page) in numbers, word
    for name, found in gallery.records().items():
        built = pages[f"examples/{name}"]
        assert re.search(rf'href="[^"]*/{name}\.py"', built)
        assert f"{found['seconds']:.0f} CPU seconds" in built and "__main__" in built


def test_pages_begin_with_the_same_command():
    """Two scripts set up everything, and the first screen of the README has them."""
    for page in (ROOT / "README.md", DOCS / "install.md", DOCS / "index.md"):
        text = page.read_text(encoding="utf-8")
        commands = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)[0].splitlines()
        assert [line.split()[0] for line in commands] == ["scripts/demo.sh", "scripts/test.sh"]
        assert "pip install" not in text.partition("scripts/test.sh")[0]
        assert text.partition("scripts/test.sh")[0].count("\n") < 40
    assert all((ROOT / f"scripts/{name}.sh").stat().st_mode & 0o100 for name in ("demo", "test"))


def test_a_release_has_one_version():
    """Of the changelog's newest section, which the sdist has in its name by the tag."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.index("## [Unreleased]") < text.index("## [0")
    version, day = re.findall(r"^## \[(\d.*?)\] - (\S+)$", text, re.M)[0]
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {version}\ndate-released: {day}\n" in cited
    assert f'version: "{version}"' in (ROOT / "scripts/conda/recipe.yaml").read_text("utf-8")
    assert f"docs/notebook/changes-{version}.md" in text
    assert (DOCS / f"notebook/changes-{version}.md").is_file()


def test_examples_have_pages():
    """Each has its program; the table has the times of the record."""
    programs = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert len(programs) > 10
    assert programs == {path.stem for path in EXAMPLES} == {*gallery.records()}
    text = (DOCS / "examples.md").read_text(encoding="utf-8")
    assert gallery.table(gallery.records()) in text
    assert {*re.findall(r"^examples/(\w+)$", text, re.M)} == programs
    for name, found in gallery.records().items():
        page = (DOCS / f"examples/{name}.md").read_text(encoding="utf-8")
        assert found["command"] == "".join(gallery.COMMAND.search(page).groups()[:2])
    text = (DOCS / "conf.py").read_text(encoding="utf-8")
    assert "intersphinx" not in text  # it asks the network when the pages are built


# ---------------------------------------------------------------------- error messages
def quoted_messages() -> list[str]:
    """Return the messages of `docs/trouble.md`: first cells of its tables of messages."""
    found, inside = [], False
    for line in (DOCS / "trouble.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| message |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and line.startswith("| `"):
            found += re.findall(r"`([^`]+)`", line.split(" | ")[0])
    return found


@lru_cache(maxsize=1)
def texts() -> dict[str, list[list[str | None]]]:
    """Return every text in the package, as pieces, by its first letter, or by '' if it has none.

    None stands for what is filled in.
    """
    found: list[list[str | None]] = []
    for path in sorted((ROOT / "parki").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                pieces = [v.value if isinstance(v, ast.Constant) else None for v in node.values]
                found.append(pieces)  # type: ignore[arg-type]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(list(_log_pieces(node.value)))
    by_letter: dict[str, list[list[str | None]]] = {}
    for pieces in found:
        by_letter.setdefault((pieces[0] or "")[:1] if pieces else "", []).append(pieces)
    return by_letter


def _log_pieces(text: str) -> Iterator[str | None]:
    """Cut a text at the places that `logging` fills in."""
    for place, piece in enumerate(text.split("%s")):
        if place:
            yield None
        yield piece


def shared(pieces: list[str | None], message: str) -> int:
    """Return how many letters of a message are a text's own; -1 if the text cannot begin so."""
    if not message or not pieces:
        return -bool(message)
    first, rest = pieces[0], pieces[1:]
    if first is not None:
        after = shared(rest, message[len(first) :]) if message.startswith(first) else -1
        return len(first) + after if after >= 0 else len(message) * first.startswith(message) or -1
    # Something filled in, of any length; a short one, where the message ends with it.
    ends = range(len(message) + (len(message) <= 12))
    if not rest:
        return 0 if len(message) in ends else -1
    letter = (rest[0] or "")[:1]  # with which what follows begins, where the message goes on
    ends = [end for end in ends if message[end : end + 1] in (letter, "") or not letter]
    return max((shared(rest, message[end:]) for end in ends), default=-1)


def in_source(message: str) -> bool:
    """Whether a text begins so, with a good part of the letters its own."""
    some, least = texts().get(message[0], []) + texts().get("", []), max(10, len(message) // 3)
    long = (pieces for pieces in some if sum(map(len, filter(None, pieces))) >= least)
    return any(shared(pieces, message) >= least for pieces in long)


def test_quoted_messages_are_in_the_source():
    missing = [message for message in quoted_messages() if not in_source(message)]
    assert not missing, "no text in parki begins with these"


def test_other_messages_are_found_out():
    assert len(quoted_messages()) > 50
    assert not in_source("there is no compiler on the shelf")
    assert not in_source("src has shape (3, 4); transpose it now")
    assert not in_source("norms is missing; stokes_dl wants normals")


@pytest.mark.parametrize("picture", sorted(DOCS.glob("images/**/*.svg")), ids=lambda p: p.name)
def test_pictures_are_xml(picture):
    ET.parse(picture)  # a browser shows nothing of what is not


@pytest.mark.parametrize(
    "names",
    [
        ("surface", "near-and-far", "fading"),
        pytest.param([f"gauges-{n}" for n in range(4)], marks=pytest.mark.slow),
    ],
)
def test_pictures_are_drawn(names, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    script = ROOT / "scripts" / "pictures.py"
    subprocess.run([sys.executable, script, *names, "--folder", tmp_path], check=True)
    for name in names:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (DOCS / "images" / f"{name}.png").is_file()


def test_classes_of_errors_are_listed():
    """With what else they are, in `docs/trouble.md`: none is an error of Python by accident."""
    text = (DOCS / "trouble.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:parki\.)?(\w+(?:Error|Warning))`", text))
    assert "ParkiError" in named
    assert all(hasattr(parki, name) or hasattr(builtins, name) for name in named)
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", text, flags=re.MULTILINE)
    listed = {name: {*re.findall(r"`(\w+)`", bases)} for name, bases in rows}
    found = {}
    for name, kind in vars(errors).items():
        own = getattr(kind, "__module__", "") == errors.__name__ and isinstance(kind, type)
        if own and kind is not errors.ParkiError:
            found[name] = {base.__name__ for base in kind.__bases__} - {"ParkiError"}
            assert found[name] and issubclass(kind, (errors.ParkiError, Warning))
            assert name in parki.__all__
    assert found == listed


# ---------------------------------------------------------------------- boundary integrals
@pytest.fixture(scope="module")
def pictures():
    """The script that draws pictures, and writes the table of `docs/boundary_integrals.md`."""
    import pictures

    pictures.EXACT = 80  # enough for the fewest nodes
    return pictures


def test_table_of_boundary_integrals(pictures):
    text = (DOCS / "boundary_integrals.md").read_text(encoding="utf-8")
    found = pictures.table(orders=(8,)).splitlines()
    assert len(found) == 2 + 3
    assert [row for row in found if row not in text] == []
    table = text.partition("<!-- distance: ")[2].partition("<!-- end of distance -->")[0]
    assert sum(line.startswith("| ") for line in table.splitlines()) == 2 + 3 * len(pictures.ORDERS)


def test_exact_values_are_exact(pictures, monkeypatch):
    """A constant double layer has no flow outside; a single layer's traction carries its force."""
    nodes, weights = pictures.sphere(8)
    monkeypatch.setattr(pictures, "density", np.ones_like)
    double = pictures.values("velocity of a double layer", 1.15 * nodes, nodes, 80)
    assert np.abs(double).max() < 1e-5
    traction = pictures.values("traction of a single layer", 1.15 * nodes, nodes, 80)
    np.testing.assert_allclose(1.15**2 * traction @ weights, -4 * np.pi * np.ones(3), rtol=1e-5)
