"""The pages keep their word: they build, programs run, links, names and quoted messages exist."""

from __future__ import annotations

import ast
import builtins
import doctest
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
from pages import BLOCK, BOTH, GPU, PLAIN, RANKS, need, program, small
from started import NO_GPU, mpirun, parallel

import parki
import parki.extend
from parki import errors, settings

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import gallery  # noqa: E402

DOCS = ROOT / "docs"
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


EXAMPLES = sorted((DOCS / "examples").glob("*.md"))
MARKDOWN = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md"))]


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


# ---------------------------------------------------------------------- programs and names
# The Python blocks of a page are one program, from top to bottom. What a block needs is read off
# it: CuPy or `cuda` make it one for a GPU, `parki.distributed` one for mpirun, of two ranks here.
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), *EXAMPLES]
PROGRAMS = BLOCK.findall(README.read_text(encoding="utf-8"))

# What pages take for granted: points and densities of their readers' own.
READERS_OWN = """
import numpy as np
import parki
rng = np.random.default_rng(0)
trg, src, dens = (rng.random((3, n)) for n in (300, 400, 400))
options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-4)
"""


def with_blocks(needed: str) -> list[Path]:
    """Return the pages with blocks that need this."""
    blocks = {page: BLOCK.findall(page.read_text(encoding="utf-8")) for page in PAGES[1:]}
    return [page for page, texts in blocks.items() if needed in map(need, texts)]


def pages(needed: str) -> list[object]:
    """Return them as parameters."""
    return [pytest.param(page, id=page.name) for page in with_blocks(needed)]


@pytest.mark.parametrize("text", PROGRAMS, ids=range(len(PROGRAMS)))
def test_python_blocks_of_the_readme_run(text):
    names: dict[str, object] = {}
    exec(compile(small(text), str(README), "exec"), names)
    assert names["pot"].shape == names["trg"].shape
    assert np.isfinite(names["pot"]).all()


def test_there_are_programs_and_they_shrink():
    assert all(pages(needed) for needed in (PLAIN, GPU, RANKS))
    assert "nt = 40000\n" in program(ROOT / "docs/examples/figure10.md", PLAIN)
    assert len(PROGRAMS) == 1
    for text in PROGRAMS:
        assert not re.search(r"\d_000|\d{6}", small(text))


@pytest.mark.parametrize("page", pages(PLAIN))
def test_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where pages write files
    exec(compile(program(page, PLAIN), str(page), "exec"), {})


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("page", pages(GPU))
def test_pages_run_on_a_gpu(page):
    text, names = program(page, PLAIN, GPU), {}
    if "import torch" in text:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    exec(READERS_OWN, names)
    exec(compile(text, str(page), "exec"), names)


@pytest.mark.parametrize(
    ("first", "needs"),
    [
        pytest.param("", (RANKS,), marks=parallel),
        pytest.param(
            "import cupy\n",
            (RANKS, BOTH),
            marks=[*parallel, pytest.mark.gpu, pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)],
        ),
    ],
)
def test_pages_run_on_ranks(first, needs, tmp_path):
    """One after another, as starting the ranks takes longer than most."""
    texts = {str(p): first + READERS_OWN + program(p, *needs) for p in with_blocks(RANKS)}
    script = f"for page, text in {texts!r}.items():\n    exec(compile(text, page, 'exec'), {{}})\n"
    (tmp_path / "pages.py").write_text(script, encoding="utf-8")
    ran = mpirun(2, script=tmp_path / "pages.py", seconds=300)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("module", "needs"),
    [
        ("parki.ewald.plan", "numpy"),
        ("parki.distributed.plan", "mpi4py"),
        ("parki.torch.energies", "torch"),
        ("parki.jax.energies", "jax"),
    ],
)
def test_examples_in_docstrings_run(module, needs):
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    ran = doctest.testmod(importlib.import_module(module))
    assert ran.attempted > 3
    assert ran.failed == 0


def test_settings_table_is_that_of_the_module():
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for s in settings.SETTINGS.values():
        default = f"`{s.default}`" if s.default else ""
        rows.append(f"| `{s.name}` | {default} | {s.meaning} |".replace("|  |", "| |"))
    text, table = (ROOT / "docs/commands.md").read_text(encoding="utf-8"), "\n".join(rows)
    found = re.search(
        r"^<!-- settings:.*?-->\s*(.*?)\s*^<!-- end of settings -->", text, re.S | re.M
    )
    assert found and found.group(1) == table, f"put this into the page:\n{table}"


def test_names_and_files_exist():
    folders, missing = "docs|examples|kernels|parki|scripts|tests", []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in set(re.findall(r"`(?:parki\.)((?:\w+\.)*\w+)\b(?<!\.py)", text)):
            found: object = parki
            for part in name.split("."):
                if not hasattr(found, part):
                    __import__(f"parki.{name.rsplit('.', 1)[0]}")
                found = getattr(found, part)
        paths = set(re.findall(rf"(?<![\w/.])((?:{folders})/[\w/-]+\.\w+)\b", text))
        paths |= set(re.findall(r"\]\(((?:docs/|\.\./)?images/[\w/.-]+)\)", text))
        places = (ROOT, page.parent)
        missing += [path for path in paths if not any((at / path).exists() for at in places)]
    assert not missing


def test_links_of_files_lead_somewhere():
    """As files show them, before the site is built."""
    broken = {page.name: broken_links(page) for page in MARKDOWN}
    assert not {name: links for name, links in broken.items() if links}


def test_broken_links_are_found_out(tmp_path):
    (tmp_path / "other.md").write_text(
        "# A page\n\n## One *thing*, once\n\n```sh\n# two\n```\n", encoding="utf-8"
    )
    good = ["other.md", "other.md#one-thing-once", "#here", "https://example.org/#nowhere"]
    bad = ["another.md", "other.md#two", "#there"]
    text = "# Here\n\n" + "".join(f"[a link]({link})\n" for link in good + bad)
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert broken_links(tmp_path / "page.md") == bad


def broken_links(page: Path) -> list[str]:
    """Return the links of a page to files, or headings in them, that are not there."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, place = link.partition("#")
        if "://" in link:
            continue
        target = page.parent / file if file else page
        if not target.exists() or (place and place not in places(target)):
            broken.append(link)
    return broken


def places(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def rows_of(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the first table after a heading, without its head."""
    text = page.read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    lines = re.search(r"(?:^\|.*\|\n)+", text, re.M)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_times_of_the_readme_are_those_of_performance():
    """One number for one thing: the same sum has the same time on both pages, and in the record."""
    page, readme = ROOT / "docs/performance.md", rows_of(ROOT / "README.md", "Performance")
    (_, *gpu), (_, *mixed), (_, *cpu) = ([cell.rpartition(" ") for cell in row] for row in readme)
    text = page.read_text(encoding="utf-8")
    first = next(r for r in rows_of(page, "One GPU") if r[:3] == ["1", "1e-4", "double"])
    published = re.search(r"published code takes (\d+) ms for the first row", text)[1]
    assert [c[0] for c in gpu[1:]] == [first[3], first[5], published]
    own = next(r for r in rows_of(page, "Mixed precision") if r[:2] == ["4,000,000", "1"])
    assert [c[0] for c in mixed[1:3]] == [own[5], own[3]]
    found = next(r for r in rows_of(page, "Two CPU cores") if r[:3] == ["1", "100,000", "1e-4"])
    assert [c[0] for c in cpu[1:]] == [found[4], found[5], found[3]]
    records = json.loads((ROOT / "docs/results/benchmarks-cpu.json").read_text(encoding="utf-8"))
    figure = next(each for each in records if each["kind"] == "figure9")["results"]["rows"]
    record = next(row for row in figure if row["points"] == 100_000)
    assert float(found[4]) == pytest.approx(record["one_shot"], rel=0.1)
    assert float(found[5]) == pytest.approx(record["apply"], rel=0.1)


def test_gallery_has_small_pictures():
    """They are parts of the pictures of the manual, which `scripts/gallery.py` cuts out."""
    shown = re.findall(r"images/small/(\w+)\.png", (ROOT / "docs/index.md").read_text("utf-8"))
    script = (ROOT / "scripts/gallery.py").read_text("utf-8")
    made = re.findall(r'^    "(\w+)": \(', script, re.M)
    assert len(shown) > 10 and sorted(shown) == sorted(made)
    assert (ROOT / "docs/images/demo.png").stat().st_size < 300_000
    for name in shown:
        assert (ROOT / f"docs/images/small/{name}.png").stat().st_size < 100_000
        assert (ROOT / f"docs/images/{name}.png").exists()
